/*
 * A search index of the host, in C++: hnswlib's graph of near neighbours (Debian: libhnswlib-dev), wrapped in the
 * library's table. Seven functions hide its states and exceptions; the library's test suite then checks that they keep
 * the table's contract, a search over made-up rows compares it with `spherical`, and an estimator trains with it.
 *
 *     c++ custom_index.cpp $(pkg-config --cflags --libs xsoftmax) -o custom_index
 */
#include <xsoftmax.h>
#include <xsoftmax/ext/index.h>
#include <xsoftmax/search.h>

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
        : width(source.width), count(source.count), space(source.width),
          index(&space, source.count, static_cast<size_t>(s.links), static_cast<size_t>(s.build_effort), source.seed)
    {
        index.setEf(static_cast<size_t>(s.effort));
    }

    uint32_t width, count;
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

/* Rows that have changed take other places in the graph. */
xsm_status update(void *of, const xsm_index_source *source, const uint32_t *rows, uint32_t count, xsm_error *)
{
    state *s = static_cast<state *>(of);
    return guarded([&] { add_rows(*s->built, source, rows, count); });
}

/* The best rows of a query, highest score first, as the graph finds them. */
std::vector<std::pair<float, uint32_t>> search(const state *s, const float *query, size_t top)
{
    auto found = s->built->index.searchKnn(query, top);
    std::vector<std::pair<float, uint32_t>> list;
    for (; !found.empty(); found.pop()) {
        /* hnswlib's distance is 1 minus the product */
        list.emplace_back(found.top().first - 1, static_cast<uint32_t>(found.top().second));
    }
    std::sort(list.begin(), list.end());
    for (auto &row : list) {
        row.first = -row.first;
    }
    return list;
}

xsm_status query(const void *of, const xsm_index_block *block, xsm_error *)
{
    const state *s = static_cast<const state *>(of);
    return guarded([&] {
        for (uint32_t i = 0; i < block->count; i++) {
            uint32_t length = 0;
            for (const auto &row : search(s, block->queries + i * block->stride, block->top)) {
                if (row.first >= block->least_score) {
                    block->scores[i * block->list_stride + length] = row.first;
                    block->classes[i * block->list_stride + length++] = row.second;
                }
            }
            block->lengths[i] = length;
        }
    });
}

/* A cursor of next(): what the last search found and is not listed, and a mark for every row that is. It lies in the
 * library's memory, of which nothing is released: numbers alone. */
struct place {
    uint32_t listed, at, found; /* rows listed; of the rows below, those listed, and all */
    uint32_t ended;             /* 1 = no search will find more */
    float *scores;
    uint32_t *classes;
    unsigned char *marks;
};

struct place_size {
    size_t scores, classes, marks, all;
};

place_size sizes(const state *s)
{
    const size_t rows = s->built->count;
    place_size z = {};
    z.scores = sizeof(place);
    z.classes = z.scores + rows * sizeof(float);
    z.marks = z.classes + rows * sizeof(uint32_t);
    z.all = z.marks + rows;
    return z;
}

size_t cursor(const void *of)
{
    return sizes(static_cast<const state *>(of)).all;
}

/* Searches for at least `more` rows that are not listed, and for twice as many as are: so that all the searches of a
 * query together cost no more than a few times the last one. */
void search_on(const state *s, const float *query, uint32_t more, place *p)
{
    const size_t rows = s->built->count,
                 top = std::min(rows, std::max<size_t>(p->listed + more, 2 * static_cast<size_t>(p->listed)));
    const auto list = search(s, query, top);
    p->at = p->found = 0;
    for (const auto &row : list) {
        if (!p->marks[row.second]) {
            p->scores[p->found] = row.first;
            p->classes[p->found++] = row.second;
        }
    }
    p->ended = list.size() < top || top == rows;
}

/* Lists rows in falling order on demand, for estimators that stop when the rest can be neglected. */
xsm_status next(const void *of, const xsm_index_block *block, xsm_error *)
{
    const state *s = static_cast<const state *>(of);
    return guarded([&] {
        const place_size z = sizes(s);
        for (uint32_t i = 0; i < block->count; i++) {
            char *memory = static_cast<char *>(block->cursors) + i * block->cursor_stride;
            place *p = reinterpret_cast<place *>(memory);
            if (block->begin) {
                *p = place();
                p->scores = reinterpret_cast<float *>(memory + z.scores);
                p->classes = reinterpret_cast<uint32_t *>(memory + z.classes);
                p->marks = reinterpret_cast<unsigned char *>(memory + z.marks);
                std::fill(p->marks, p->marks + (z.all - z.marks), static_cast<unsigned char>(0));
            }
            if (p->found - p->at < block->top && !p->ended) {
                search_on(s, block->queries + i * block->stride, block->top, p);
            }
            const uint32_t length = std::min(block->top, p->found - p->at);
            for (uint32_t j = 0; j < length; j++, p->at++) {
                block->scores[i * block->list_stride + j] = p->scores[p->at];
                block->classes[i * block->list_stride + j] = p->classes[p->at];
                p->marks[p->classes[p->at]] = 1;
            }
            p->listed += length;
            block->lengths[i] = length;
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
    ops.update = update;
    ops.query = query;
    ops.cursor = cursor;
    ops.next = next;
    return ops;
}

double seconds()
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/* Rows around some directions, K x D; `of` is the direction of each. */
std::vector<float> made_up(uint32_t count, uint32_t width, uint32_t directions, unsigned seed,
                           std::vector<uint32_t> *of = nullptr)
{
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> centres(directions * width), rows(static_cast<size_t>(count) * width);
    for (float &x : centres) {
        x = normal(random);
    }
    for (uint32_t k = 0; k < count; k++) {
        size_t centre = random() % directions;
        if (of) {
            of->push_back(static_cast<uint32_t>(centre));
        }
        for (uint32_t j = 0; j < width; j++) {
            rows[static_cast<size_t>(k) * width + j] = centres[centre * width + j] + 0.7f * normal(random);
        }
    }
    return rows;
}

/* Prints recall and time of a search; the first one, which is exact, says what is to be found. */
xsm_status compare(const char *name, xsm_index *index, const std::vector<float> &rows, uint32_t width,
                   const std::vector<float> &queries, std::vector<uint32_t> *truth, xsm_error *err)
{
    const uint32_t count = static_cast<uint32_t>(queries.size() / width), top = 10;
    std::vector<uint32_t> classes(count * top), lengths(count);
    std::vector<float> scores(count * top);
    xsm_index_rows view = XSM_INDEX_ROWS_INIT;
    view.rows = rows.data();
    view.stride = view.width = width;
    view.count = static_cast<uint32_t>(rows.size() / width);
    double start = seconds();
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
    if (status != XSM_OK) {
        return status;
    }
    *truth = truth->empty() ? classes : *truth;
    size_t found = 0;
    for (size_t i = 0; i < classes.size(); i++) {
        const auto list = truth->begin() + static_cast<std::ptrdiff_t>(i / top * top);
        found += i % top < lengths[i / top] && std::find(list, list + top, classes[i]) != list + top;
    }
    std::printf("%-10s built in %6.2f s, %7.1f us a query, recall@10 %.4f\n", name, built, 1e6 * searched / count,
                static_cast<double>(found) / static_cast<double>(classes.size()));
    return XSM_OK;
}

/* Trains a model whose classes are the directions that rows lie around, by an estimator that searches with the table.
 * Lists grow by next() until what remains is below a tenth of the sum of all e^score. */
xsm_status train(const xsm_index_ops &ops, xsm_error *err)
{
    const uint32_t classes = 100, width = 16, rows = 1000;
    std::vector<uint32_t> class_of;
    const std::vector<float> values = made_up(rows, width, classes, 2, &class_of);
    xsm_labels labels = XSM_LABELS_INIT;
    labels.classes = classes;
    labels.labels = class_of.data();
    xsm_dense_rows dense = XSM_DENSE_ROWS_INIT;
    dense.values = values.data();
    dense.rows = rows;
    dense.features = width;
    dense.labels = &labels;
    xsm_dataset *data = nullptr;
    xsm_model *model = nullptr;
    xsm_index *like = nullptr;
    xsm_estimator *mips = nullptr;
    xsm_optimizer *sgd = nullptr;
    xsm_trainer *trainer = nullptr;
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    options.epochs = 3;
    options.batch = 10;
    options.eta = 1;
    xsm_metrics metrics = XSM_METRICS_INIT;
    xsm_status status = xsm_dataset_from_dense(nullptr, &dense, &data, err);
    status = status == XSM_OK ? xsm_model_new_linear(nullptr, width, classes, nullptr, &model, err) : status;
    status = status == XSM_OK ? xsm_estimator_new(nullptr, "mips", &mips, err) : status;
    status = status == XSM_OK ? xsm_estimator_set(mips, "loss", "cross-entropy", err) : status;
    status = status == XSM_OK ? xsm_estimator_set(mips, "error", "0.1", err) : status;
    status = status == XSM_OK ? xsm_index_new_from(nullptr, &ops, &like, err) : status;
    status = status == XSM_OK ? xsm_estimator_set_index(mips, like, err) : status;
    status = status == XSM_OK ? xsm_optimizer_new(nullptr, "sgd", &sgd, err) : status;
    status = status == XSM_OK ? xsm_trainer_new(nullptr, model, data, mips, sgd, &options, &trainer, err) : status;
    status = status == XSM_OK ? xsm_trainer_run(trainer, err) : status;
    status = status == XSM_OK ? xsm_evaluate(nullptr, model, data, nullptr, &metrics, err) : status;
    if (status == XSM_OK) {
        std::printf("trained by lists that grow on demand: %.1f %% of the rows right\n", 100 * (1 - metrics.error));
    }
    xsm_trainer_free(trainer);
    xsm_optimizer_free(sgd);
    xsm_index_free(like);
    xsm_estimator_free(mips);
    xsm_model_free(model);
    xsm_dataset_free(data);
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
    std::vector<uint32_t> truth;
    xsm_index *own = nullptr, *spherical = nullptr, *exact = nullptr;
    xsm_status status = xsm_index_check(nullptr, &ops, &check, &err);
    if (status == XSM_OK) {
        std::printf("the table passes the suite\n");
    }
    status = status == XSM_OK ? xsm_index_new_from(nullptr, &ops, &own, &err) : status;
    status = status == XSM_OK ? xsm_index_new(nullptr, "spherical", &spherical, &err) : status;
    status = status == XSM_OK ? xsm_index_new(nullptr, "exact", &exact, &err) : status;
    status = status == XSM_OK ? compare("exact", exact, rows, width, queries, &truth, &err) : status;
    status = status == XSM_OK ? compare("hnsw", own, rows, width, queries, &truth, &err) : status;
    status = status == XSM_OK ? compare("spherical", spherical, rows, width, queries, &truth, &err) : status;
    status = status == XSM_OK ? train(ops, &err) : status;
    if (status != XSM_OK) {
        std::fprintf(stderr, "%s\n", err.message);
    }
    xsm_index_free(own);
    xsm_index_free(spherical);
    xsm_index_free(exact);
    return status != XSM_OK;
}
