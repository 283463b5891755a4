/*
 * A search index of the host, in C++: hnswlib's graph of near neighbours (Debian: libhnswlib-dev), wrapped in the
 * library's table. Five functions hide its states, exceptions and deletions; the library's test suite then checks that
 * they keep the table's contract, and a search over made-up rows compares it with `spherical`.
 *
 *     c++ custom_index.cpp $(pkg-config --cflags --libs xsoftmax) -o custom_index
 */
#include <xsoftmax.h>
#include <xsoftmax/ext/index.h>
#include <xsoftmax/ext/search.h>

#include <hnswlib/hnswlib.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <queue>
#include <random>
#include <vector>

namespace
{

/* The library allocates and zeroes this state; the options come first, so that their offsets are known. */
struct state {
    int64_t links, effort, build_effort;
    struct graph *built;
};

struct graph {
    graph(const xsm_index_source &source, const state &s)
        : width(source.width), space(source.width),
          index(&space, source.count, static_cast<size_t>(s.links), static_cast<size_t>(s.build_effort), source.seed)
    {
        index.setEf(static_cast<size_t>(s.effort));
    }

    uint32_t width;
    hnswlib::InnerProductSpace space;
    hnswlib::HierarchicalNSW<float> index;
};

const xsm_option options[] = {
    {sizeof(xsm_option), "links", XSM_OPTION_INT, offsetof(state, links), "24", 2, 1000, nullptr,
     "neighbours of a row in the graph, M"},
    {sizeof(xsm_option), "effort", XSM_OPTION_INT, offsetof(state, effort), "200", 1, 1000000, nullptr,
     "rows in reach of a search, ef"},
    {sizeof(xsm_option), "build-effort", XSM_OPTION_INT, offsetof(state, build_effort), "100", 1, 1000000, nullptr,
     "the same in building"},
};

/* No exception may propagate into the library. If the error is not set, the library writes a message itself. */
template <typename Function> xsm_status guarded(Function function)
{
    try {
        function();
        return XSM_OK;
    } catch (const std::bad_alloc &) {
        return XSM_ERROR_MEMORY;
    } catch (const std::exception &) {
        return XSM_ERROR_DATA;
    }
}

void add_rows(graph &g, const xsm_index_source *source, const uint32_t *rows, uint32_t count)
{
    std::vector<float> row(g.width);
    for (uint32_t j = 0; j < count; j++) {
        uint32_t k = rows ? rows[j] : j;
        source->read(source, nullptr, k, 1, row.data(), row.size());
        g.index.addPoint(row.data(), k); /* an existing label is replaced */
    }
}

void clear(void *of)
{
    state *s = static_cast<state *>(of);
    delete s->built;
    s->built = nullptr;
}

xsm_status build(void *of, const xsm_index_source *source, xsm_error *)
{
    state *s = static_cast<state *>(of);
    return guarded([&] {
        s->built = new graph(*source, *s);
        add_rows(*s->built, source, nullptr, source->count);
    });
}

xsm_status query(const void *of, const xsm_index_block *block, xsm_error *)
{
    const state *s = static_cast<const state *>(of);
    return guarded([&] {
        for (uint32_t i = 0; i < block->count; i++) {
            auto found = s->built->index.searchKnn(block->queries + i * block->stride, block->top);
            std::vector<std::pair<float, uint32_t>> list;
            for (; !found.empty(); found.pop()) {
                float score = 1 - found.top().first; /* hnswlib's distance is 1 minus the product */
                if (score > block->threshold) {
                    list.emplace_back(-score, static_cast<uint32_t>(found.top().second));
                }
            }
            std::sort(list.begin(), list.end());
            block->lengths[i] = static_cast<uint32_t>(list.size());
            for (size_t j = 0; j < list.size(); j++) {
                block->scores[i * block->list_stride + j] = -list[j].first;
                block->classes[i * block->list_stride + j] = list[j].second;
            }
        }
    });
}

xsm_index_ops table()
{
    xsm_index_ops ops = {};
    ops.size = sizeof ops;
    ops.abi = XSM_EXT_ABI_VERSION;
    ops.name = "hnsw";
    ops.summary = "hnswlib's graph of near neighbours";
    ops.state_size = sizeof(state);
    ops.options = options;
    ops.option_count = sizeof options / sizeof *options;
    ops.build = build;
    ops.clear = clear;
    ops.query = query;
    return ops;
}

double seconds()
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/* Rows around a few hundred directions, K x D. */
std::vector<float> made_up(uint32_t count, uint32_t width, uint32_t directions, unsigned seed)
{
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> centres(directions * width), rows(static_cast<size_t>(count) * width);
    for (float &x : centres) {
        x = normal(random);
    }
    for (uint32_t k = 0; k < count; k++) {
        size_t centre = random() % directions;
        for (uint32_t j = 0; j < width; j++) {
            rows[static_cast<size_t>(k) * width + j] = centres[centre * width + j] + 0.7f * normal(random);
        }
    }
    return rows;
}

/* Prints recall and time of a search. */
xsm_status compare(const char *name, xsm_index *index, const std::vector<float> &rows, uint32_t width,
                   const std::vector<float> &queries, xsm_error *err)
{
    const uint32_t count = static_cast<uint32_t>(queries.size() / width), top = 10;
    std::vector<uint32_t> classes(count * top), lengths(count);
    std::vector<float> scores(count * top);
    xsm_index_rows view = XSM_INDEX_ROWS_INIT;
    view.rows = rows.data();
    view.stride = view.width = width;
    view.count = static_cast<uint32_t>(rows.size() / width);
    double start = seconds(), recall = 0;
    xsm_status status = xsm_index_build(index, &view, err);
    double built = seconds() - start;
    xsm_index_search search = XSM_INDEX_SEARCH_INIT;
    search.queries = queries.data();
    search.stride = width;
    search.count = count;
    search.top = top;
    search.classes = classes.data();
    search.scores = scores.data();
    search.lengths = lengths.data();
    start = seconds();
    status = status == XSM_OK ? xsm_index_query(index, &search, err) : status;
    double searched = seconds() - start;
    status = status == XSM_OK ? xsm_index_recall(index, &search, &recall, err) : status;
    if (status == XSM_OK) {
        std::printf("%-10s built in %6.2f s, %7.1f us a query, recall@10 %.4f\n", name, built, 1e6 * searched / count,
                    recall);
    }
    return status;
}

} // namespace

int main()
{
    xsm_error err = XSM_ERROR_INIT;
    const xsm_index_ops ops = table();
    xsm_index_check_options check = XSM_INDEX_CHECK_OPTIONS_INIT;
    check.recall = 0.6; /* some of the suite's problems have a third of the rows equal, which is hard for a graph */
    check.rows = 300;
    const uint32_t width = 32;
    const std::vector<float> rows = made_up(5000, width, 300, 1), queries = made_up(1000, width, 300, 1);
    xsm_index *own = nullptr, *spherical = nullptr;
    xsm_status status = xsm_index_check(nullptr, &ops, &check, &err);
    if (status == XSM_OK) {
        std::printf("the table passes the suite\n");
    }
    status = status == XSM_OK ? xsm_index_new_from(nullptr, &ops, &own, &err) : status;
    status = status == XSM_OK ? xsm_index_new(nullptr, "spherical", &spherical, &err) : status;
    status = status == XSM_OK ? compare("hnsw", own, rows, width, queries, &err) : status;
    status = status == XSM_OK ? compare("spherical", spherical, rows, width, queries, &err) : status;
    if (status != XSM_OK) {
        std::fprintf(stderr, "%s\n", err.message);
    }
    xsm_index_free(own);
    xsm_index_free(spherical);
    return status != XSM_OK;
}
