/*
 * Search for the ten largest inner products by this library, FAISS and hnswlib, on one thread; see
 * bench/compare_search.sh.
 *
 *     vectors NAME ROWS QUERIES WIDTH     files of raw floats
 *     vectors made K                      K rows of 64 numbers around sqrt(K) directions, as bench_search makes them
 *
 * Prints a line of CSV for each setting: set, program, setting, seconds to build, recall@10, microseconds a query one
 * by one and in blocks of 256: processor time, the fastest of three passes.
 */
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <faiss/IndexFlat.h>
#include <faiss/IndexHNSW.h>
#include <faiss/IndexIVFFlat.h>
#include <hnswlib/hnswlib.h>
#include <omp.h>

#include <xsoftmax.hpp>
#include <xsoftmax/search.h>

namespace
{

constexpr size_t TOP = 10, BLOCK = 256, MOST_QUERIES = 2048;
constexpr int PASSES = 3;

struct Vectors {
    std::string name;
    size_t width;
    std::vector<float> rows, queries;
    std::vector<std::set<uint32_t>> best; // of each query
    size_t count() const
    {
        return rows.size() / width;
    }
    size_t asked() const
    {
        return queries.size() / width;
    }
};

double seconds()
{
    timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

std::vector<float> read(const char *path, size_t width)
{
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    const auto bytes = file ? static_cast<size_t>(file.tellg()) : 0;
    std::vector<float> x(bytes / sizeof(float));
    file.seekg(0);
    if (!bytes || bytes % (width * sizeof(float)) ||
        !file.read(reinterpret_cast<char *>(x.data()), std::streamsize(bytes))) {
        std::fprintf(stderr, "vectors: %s has no rows of %zu floats\n", path, width);
        std::exit(1);
    }
    return x;
}

Vectors make(size_t count)
{
    Vectors v{"made " + std::to_string(count), 64, {}, {}, {}};
    std::mt19937_64 random(count);
    std::normal_distribution<float> normal;
    std::uniform_real_distribution<float> size(0.5F, 1.5F);
    std::vector<float> centres(static_cast<size_t>(std::sqrt(double(count))) * v.width);
    for (float &x : centres) {
        x = normal(random);
    }
    for (size_t i = 0; i < count + MOST_QUERIES; i++) {
        const float *centre = &centres[random() % (centres.size() / v.width) * v.width], scale = size(random);
        auto &to = i < count ? v.rows : v.queries;
        for (size_t j = 0; j < v.width; j++) {
            to.push_back(scale * (centre[j] + 0.7F * normal(random)));
        }
    }
    return v;
}

/* The right answers, by the plainest of loops. */
void find_best(Vectors &v)
{
    std::vector<std::pair<float, uint32_t>> scores(v.count());
    for (size_t i = 0; i < v.asked(); i++) {
        for (size_t k = 0; k < v.count(); k++) {
            float sum = 0;
            for (size_t j = 0; j < v.width; j++) {
                sum += v.queries[i * v.width + j] * v.rows[k * v.width + j];
            }
            scores[k] = {-sum, uint32_t(k)};
        }
        std::partial_sort(scores.begin(), scores.begin() + TOP, scores.end());
        v.best.emplace_back();
        for (size_t k = 0; k < TOP; k++) {
            v.best.back().insert(scores[k].second);
        }
    }
}

/* search(first, count, out) puts the rows found for each of these queries at out[TOP]. */
using Search = std::function<void(size_t first, size_t count, int64_t *out)>;

double microseconds(const Vectors &v, size_t block, const Search &search, std::vector<int64_t> &found)
{
    double best = INFINITY;
    for (int pass = 0; pass < PASSES; pass++) {
        const double start = seconds();
        for (size_t i = 0; i < v.asked(); i += block) {
            search(i, std::min(block, v.asked() - i), &found[i * TOP]);
        }
        best = std::min(best, seconds() - start);
    }
    return 1e6 * best / double(v.asked());
}

void report(const Vectors &v, const char *program, const std::string &setting, double built, const Search &search)
{
    std::vector<int64_t> found(v.asked() * TOP);
    const double block = microseconds(v, BLOCK, search, found), single = microseconds(v, 1, search, found);
    size_t right = 0;
    for (size_t i = 0; i < found.size(); i++) {
        right += found[i] >= 0 && v.best[i / TOP].count(uint32_t(found[i]));
    }
    std::printf("%s,%s,%s,%.2f,%.4f,%.2f,%.2f\n", v.name.c_str(), program, setting.c_str(), built,
                double(right) / double(found.size()), single, block);
    std::fflush(stdout);
}

void check(xsm_status status, const xsm_error &err)
{
    if (status != XSM_OK) {
        std::fprintf(stderr, "vectors: %s\n", err.message);
        std::exit(1);
    }
}

void by_xsoftmax(const Vectors &v, const char *name)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_context_options one = XSM_CONTEXT_OPTIONS_INIT;
    one.threads = 1;
    xsm_context *context = nullptr;
    check(xsm_context_new(&one, &context, &err), err);
    xsm_index_rows rows = XSM_INDEX_ROWS_INIT;
    rows.rows = v.rows.data();
    rows.stride = v.width;
    rows.count = uint32_t(v.count());
    rows.width = uint32_t(v.width);
    const bool exact = std::string(name) == "exact";
    std::vector<float> scores(BLOCK * TOP);
    std::vector<uint32_t> classes(BLOCK * TOP), lengths(BLOCK);
    for (size_t part = exact ? 1 : 320; part >= (exact ? 1 : 5); part /= 2) {
        xsm_index *index = nullptr;
        check(xsm_index_new(context, name, &index, &err), err);
        if (!exact) {
            check(xsm_index_set_number(index, "probe", std::ceil(double(v.count()) / double(part)), &err), err);
        }
        const double start = seconds();
        check(xsm_index_build(index, &rows, &err), err);
        const double built = seconds() - start;
        report(v, (std::string("xsoftmax ") + name).c_str(), exact ? "" : "probe=K/" + std::to_string(part), built,
               [&](size_t first, size_t count, int64_t *out) {
                   xsm_index_search s = XSM_INDEX_SEARCH_INIT;
                   s.queries = &v.queries[first * v.width];
                   s.stride = v.width;
                   s.count = count;
                   s.top = TOP;
                   s.classes = classes.data();
                   s.scores = scores.data();
                   s.lengths = lengths.data();
                   check(xsm_index_query(index, &s, &err), err);
                   std::copy_n(classes.begin(), count * TOP, out);
               });
        xsm_index_free(index);
    }
    xsm_context_free(context);
}

Search faiss_search(const Vectors &v, const faiss::Index &index)
{
    return [&v, &index, scores = std::vector<float>(BLOCK * TOP)](size_t first, size_t count, int64_t *out) mutable {
        index.search(faiss::Index::idx_t(count), &v.queries[first * v.width], TOP, scores.data(), out);
    };
}

void by_faiss(const Vectors &v)
{
    const auto width = int(v.width);
    const auto count = faiss::Index::idx_t(v.count());
    omp_set_num_threads(1);
    double start = seconds();
    faiss::IndexFlatIP flat(width);
    flat.add(count, v.rows.data());
    report(v, "FAISS Flat", "", seconds() - start, faiss_search(v, flat));

    const auto lists = size_t(4 * std::sqrt(double(count)));
    start = seconds();
    faiss::IndexFlatIP quantizer(width);
    faiss::IndexIVFFlat ivf(&quantizer, v.width, lists, faiss::METRIC_INNER_PRODUCT);
    ivf.train(count, v.rows.data());
    ivf.add(count, v.rows.data());
    double built = seconds() - start;
    for (size_t probe = 1; probe <= lists / 5; probe *= 2) {
        ivf.nprobe = probe;
        report(v, "FAISS IVF", "nprobe=" + std::to_string(probe), built, faiss_search(v, ivf));
    }

    start = seconds();
    faiss::IndexHNSWFlat hnsw(width, 32, faiss::METRIC_INNER_PRODUCT);
    hnsw.hnsw.efConstruction = 200;
    hnsw.add(count, v.rows.data());
    built = seconds() - start;
    for (int ef = 10; ef <= 640; ef *= 2) {
        hnsw.hnsw.efSearch = ef;
        report(v, "FAISS HNSW", "efSearch=" + std::to_string(ef), built, faiss_search(v, hnsw));
    }
}

void by_hnswlib(const Vectors &v)
{
    const double start = seconds();
    hnswlib::InnerProductSpace space(v.width);
    hnswlib::HierarchicalNSW<float> index(&space, v.count(), 16, 200);
    for (size_t k = 0; k < v.count(); k++) {
        index.addPoint(&v.rows[k * v.width], k);
    }
    const double built = seconds() - start;
    for (size_t ef = 10; ef <= 640; ef *= 2) {
        index.setEf(ef);
        report(v, "hnswlib", "ef=" + std::to_string(ef), built, [&](size_t first, size_t count, int64_t *out) {
            for (size_t i = 0; i < count; i++) {
                auto found = index.searchKnn(&v.queries[(first + i) * v.width], TOP);
                for (size_t k = TOP; k-- > 0;) {
                    out[i * TOP + k] = k < found.size() ? int64_t(found.top().second) : -1;
                    if (k < found.size()) {
                        found.pop();
                    }
                }
            }
        });
    }
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 3 && argc != 5) {
        std::fprintf(stderr, "usage: vectors NAME ROWS QUERIES WIDTH | vectors made K\n");
        return 2;
    }
    const size_t number = std::strtoul(argv[argc - 1], nullptr, 10);
    Vectors v = argc == 3 ? make(number) : Vectors{argv[1], number, read(argv[2], number), read(argv[3], number), {}};
    v.queries.resize(std::min(v.queries.size(), MOST_QUERIES * v.width));
    find_best(v);
    by_xsoftmax(v, "exact");
    by_xsoftmax(v, "spherical");
    by_faiss(v);
    by_hnswlib(v);
}
