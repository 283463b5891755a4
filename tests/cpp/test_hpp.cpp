// xsoftmax.hpp: ownership, errors in both forms, spans, callbacks that throw, a pool, memory resources.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#if __cplusplus >= 202002L
#include <span>
#endif
#define XSM_EXPERIMENTAL
#include <xsoftmax.hpp>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                       \
            std::exit(1);                                                                                              \
        }                                                                                                              \
    } while (0)

namespace
{

constexpr std::uint32_t FEATURES = 4, CLASSES = 6;
constexpr std::size_t ROWS = 24;

std::vector<float> some_values()
{
    std::vector<float> values(ROWS * FEATURES);
    for (std::size_t i = 0; i < values.size(); i++) {
        values[i] = static_cast<float>((i * 7 + i / 5) % 11) / 11.0f - 0.5f;
    }
    return values;
}

std::vector<std::uint32_t> some_classes()
{
    std::vector<std::uint32_t> classes(ROWS);
    for (std::size_t i = 0; i < ROWS; i++) {
        classes[i] = static_cast<std::uint32_t>(i) % CLASSES;
    }
    return classes;
}

xsoftmax::dataset some_rows(const xsoftmax::context &context)
{
    const auto classes = some_classes();
    return xsoftmax::dataset::from_dense(context, some_values(), FEATURES, xsoftmax::labels{classes, CLASSES});
}

// What the call throws, which must be an xsoftmax::error of this status.
template <class F> xsoftmax::error error_of(xsm_status status, F &&call)
{
    try {
        call();
    } catch (const xsoftmax::error &thrown) {
        if (thrown.status() == status) {
            return thrown;
        }
        std::fprintf(stderr, "status %d: %s\n", static_cast<int>(thrown.status()), thrown.what());
        std::exit(1);
    }
    std::fprintf(stderr, "nothing was thrown\n");
    std::exit(1);
}

bool says(const xsoftmax::error &thrown, const char *what)
{
    return std::string(thrown.what()).find(what) != std::string::npos;
}

void test_moves()
{
    static_assert(!std::is_copy_constructible_v<xsoftmax::model> && !std::is_copy_assignable_v<xsoftmax::model>);
    static_assert(std::is_nothrow_move_constructible_v<xsoftmax::model>);
    static_assert(std::is_nothrow_move_assignable_v<xsoftmax::trainer>);
    const auto context = xsoftmax::context::make();
    auto first = xsoftmax::model::linear(context, FEATURES, CLASSES);
    const xsm_model *object = first.get();
    CHECK(object && first.classes() == CLASSES && first.features() == FEATURES);
    auto second = std::move(first);
    CHECK(!first && first.get() == nullptr && second.get() == object);
    auto third = xsoftmax::model::linear(context, FEATURES, CLASSES + 1);
    third = std::move(second);
    CHECK(third.get() == object && !second);
    auto &same = third;
    third = std::move(same);
    CHECK(third.get() == object);
    // What was moved from is refused, not used.
    error_of(XSM_ERROR_ARGUMENT, [&] { first.save("never-written"); });
    third.reset();
    CHECK(!third);
    // An object of the C interface.
    xsm_gradient *made = nullptr;
    CHECK(xsm_gradient_new(nullptr, &made, nullptr) == XSM_OK);
    const xsoftmax::gradient gradient(made);
    CHECK(gradient.get() == made);
}

void test_errors()
{
    const xsoftmax::context context;
    const auto thrown = error_of(XSM_ERROR_NAME, [&] { xsoftmax::estimator::make(context, "implicitt"); });
    CHECK(says(thrown, "implicit") && thrown.line() == 0);
    xsm_error err = XSM_ERROR_INIT;
    xsm_estimator *none = nullptr;
    CHECK(xsm_estimator_new(nullptr, "implicitt", &none, &err) == XSM_ERROR_NAME);
    CHECK(std::string(thrown.what()) == err.message);

    // The place in a file: the second line has a feature that is no number.
    std::FILE *file = std::fopen("test_hpp.txt", "w");
    CHECK(file && std::fputs("1 1:0.5\n2 x:1\n", file) >= 0 && std::fclose(file) == 0);
    const auto placed = error_of(XSM_ERROR_FORMAT, [&] { xsoftmax::dataset::read(context, "test_hpp.txt"); });
    CHECK(placed.line() == 2 && placed.column() == 3);
    CHECK(std::remove("test_hpp.txt") == 0);

    const auto estimator = xsoftmax::estimator::make<xsoftmax::as_result>(context, "implicitt");
    CHECK(!estimator && estimator.error().status == XSM_ERROR_NAME);
    CHECK(std::string(estimator.error().message) == thrown.what());
    auto good = xsoftmax::estimator::make<xsoftmax::as_result>(context, std::string("implicit"));
    CHECK(good && good.error().status == XSM_OK && std::string(good->name()) == "implicit");
    CHECK(good->set<xsoftmax::as_result>("negatives", 3));
    CHECK(*good->option("negatives") == "3" && !good->option("negative"));
    const auto refused = good->set<xsoftmax::as_result>("negatives", "many");
    CHECK(!refused && refused.error().message[0] != '\0');
    xsoftmax::estimator taken = *std::move(good);
    CHECK(taken && std::string(taken.name()) == "implicit");
}

void test_initial()
{
    const auto options = xsoftmax::init<xsm_fit_options>();
    const xsm_fit_options same = XSM_FIT_OPTIONS_INIT;
    CHECK(options.size == sizeof options && options.tolerance == same.tolerance && same.tolerance == XSM_DEFAULT);
    CHECK(xsoftmax::init<xsm_trainer_options>().size == sizeof(xsm_trainer_options));
}

void test_spans()
{
    static_assert(std::is_constructible_v<xsoftmax::span<const float>, std::vector<float> &>);
    static_assert(std::is_constructible_v<xsoftmax::span<const float>, const std::array<float, 3> &>);
    static_assert(std::is_constructible_v<xsoftmax::span<float>, float *, std::size_t>);
    static_assert(!std::is_constructible_v<xsoftmax::span<float>, const std::vector<float> &>);
    static_assert(!std::is_constructible_v<xsoftmax::span<const float>, std::vector<double> &>);
    float array[5] = {1, 2, 3, 4, 5};
    CHECK(xsoftmax::span<float>(array).size() == 5 && xsoftmax::span<const float>(array)[4] == 5);

    const xsoftmax::context context;
    const auto values = some_values();
    const auto classes = some_classes();
    const xsoftmax::labels labels{classes, CLASSES};
    const xsoftmax::span<const float> all(values);
    auto thrown = error_of(XSM_ERROR_SHAPE, [&] {
        xsoftmax::dataset::from_dense(context, xsoftmax::span<const float>(values.data(), 95), FEATURES, labels);
    });
    CHECK(says(thrown, "values has 95 entries, but must have 92"));
    thrown = error_of(XSM_ERROR_SHAPE, [&] {
        const std::array<std::uint32_t, 3> few = {0, 1, 2};
        xsoftmax::dataset::from_dense(context, all, FEATURES, xsoftmax::labels{few, CLASSES});
    });
    CHECK(says(thrown, "labels has 3 entries, but must have 24"));
    thrown = error_of(XSM_ERROR_SHAPE, [&] {
        const std::vector<std::uint64_t> offsets = {0, 1, 3};
        const std::vector<std::uint32_t> index = {0, 1};
        const std::vector<float> three = {1, 2, 3};
        xsoftmax::dataset::from_csr(context, offsets, index, three, FEATURES);
    });
    CHECK(says(thrown, "index has 2 entries, but must have 3"));

    // The same rows from double and sparse.
    const auto rows = some_rows(context);
    CHECK(rows.info().rows == ROWS && rows.info().classes == CLASSES && rows.info().features == FEATURES);
    const auto doubles = xsoftmax::dataset::from_dense(context, std::vector<double>(values.begin(), values.end()), 4);
    CHECK(doubles.info().rows == ROWS && doubles.row(3).values[2] == values[14]);
    const auto sparse =
        xsoftmax::dataset::from_csr(context, std::vector<std::uint64_t>{0, 1, 3}, std::array<std::uint32_t, 3>{3, 0, 2},
                                    std::array<float, 3>{1, 2, 3}, FEATURES);
    CHECK(sparse.info().rows == 2 && sparse.row(1).count == 2 && sparse.row(1).index[1] == 2);
    const std::vector<std::uint64_t> chosen = {5, 1};
    CHECK(rows.select(chosen).row(1).values[0] == values[4]);
    const auto parts = rows.split(0.25, 1);
    CHECK(parts.first.info().rows + parts.second.info().rows == ROWS && parts.first.info().rows == 6);

    const auto model = xsoftmax::model::linear(context, FEATURES, CLASSES);
    auto predictor = xsoftmax::predictor::make(model);
    CHECK(predictor.top() == 5);
    const xsm_batch batch = xsoftmax::batch(rows, 0, 3);
    std::vector<std::uint32_t> best(15, 77);
    std::vector<double> probabilities(14, -1);
    thrown = error_of(XSM_ERROR_SHAPE, [&] { predictor.run(batch, best, {}, probabilities); });
    CHECK(says(thrown, "probabilities has 14 entries, but must have 15"));
    CHECK(std::all_of(best.begin(), best.end(), [](std::uint32_t k) { return k == 77; }));
    probabilities.resize(15);
    predictor.run(batch, best, {}, probabilities);
    const auto many = xsoftmax::predict(context, model, batch, true);
    CHECK(many.top == 5 && many.classes == best && many.probabilities == probabilities && many.lengths[0] == 5);
    auto options = xsoftmax::init<xsm_train_options>();
    options.method = "class-means";
    auto again = some_rows(context);
    const auto trained = xsoftmax::train(context, again, options);
    CHECK(trained.report.rows == ROWS && std::string(trained.report.method) == "class-means");
    CHECK(xsoftmax::predict(context, trained.model, again).classes.size() == 5 * ROWS);
    error_of(XSM_ERROR_NAME, [&] {
        options.method = "class-mean";
        xsoftmax::train(context, again, options);
    });
    CHECK(best[0] == 0 && best[4] == 4 && std::fabs(probabilities[0] - 1.0 / CLASSES) < 1e-7); // a model of zeros
    std::vector<float> scores(8, -1);
    thrown = error_of(XSM_ERROR_SHAPE, [&] { model.scores(batch, std::vector<std::uint32_t>(8), scores); });
    CHECK(says(thrown, "the classes has 8 entries") && scores[0] == -1);
    scores.resize(9);
    model.scores(batch, std::vector<std::uint32_t>(9), scores);
    CHECK(scores[8] == 0);
    thrown = error_of(XSM_ERROR_SHAPE, [&] { model.score_range(batch, 0, 2, scores); });
    CHECK(says(thrown, "scores has 9 entries, but must have 6"));
    error_of(XSM_ERROR_SHAPE, [&] { xsoftmax::batch(xsoftmax::span<const float>(values.data(), 7), FEATURES); });
    CHECK(xsoftmax::batch(all, FEATURES).count == ROWS);

    const std::array<std::uint64_t, 3> starts = {0, 1, 3};
    const std::array<std::uint32_t, 3> places = {3, 0, 2};
    const auto two = xsoftmax::batch(starts, places, xsoftmax::span<const float>(values.data(), 3), FEATURES);
    CHECK(two.count == 2 && two.index == places.data());
    auto other = xsoftmax::model::linear(context, FEATURES, 1);
    other.parameters().weight[2] = 2; // of feature 2
    std::array<float, 2> sparse_scores{};
    other.score_range(two, 0, 1, sparse_scores);
    CHECK(sparse_scores[0] == 0 && sparse_scores[1] == 2 * values[2] && values[2] != 0);
    thrown = error_of(XSM_ERROR_SHAPE, [&] { xsoftmax::batch(starts, places, all, FEATURES); });
    CHECK(says(thrown, "values has 96 entries, but must have 3"));
}

namespace temporaries
{
/* Whether storage_of() takes such bytes. */
template <class C, class = void> struct is_stored : std::false_type {
};
template <class C>
struct is_stored<C, std::void_t<decltype(xsoftmax::storage_of(std::declval<C>()))>> : std::true_type {
};

/* Whether batch() takes such arguments: a batch of a temporary container would outlive its rows. */
template <class Void, class... A> struct batch_of : std::false_type {
};
template <class... A>
struct batch_of<std::void_t<decltype(xsoftmax::batch(std::declval<A>()...))>, A...> : std::true_type {
};
template <class... A> constexpr bool takes = batch_of<void, A...>::value;
using floats = std::vector<float>;
using places = std::vector<std::uint32_t>;
using starts = std::vector<std::uint64_t>;
using view = xsoftmax::span<const float>;
using bytes = std::vector<unsigned char>;
static_assert(takes<floats &, int> && takes<const floats &, int> && takes<view, int> &&
              takes<xsoftmax::span<float>, int>);
static_assert(!takes<floats, int> && !takes<const floats, int> && !takes<std::array<float, 3>, int>);
static_assert(!takes<std::initializer_list<float>, int> && !takes<float (&&)[3], int> && takes<float (&)[3], int>);
static_assert(takes<xsoftmax::dataset &, starts &> && !takes<xsoftmax::dataset &, starts>);
static_assert(takes<starts &, places &, floats &, int> && takes<starts &, places &, view, int>);
static_assert(!takes<starts, places &, floats &, int> && !takes<starts &, places, floats &, int>);
static_assert(!takes<starts &, places &, floats, int>);
// A storage of a temporary container would outlive its bytes.
static_assert(is_stored<bytes &>::value && is_stored<const bytes &>::value && !is_stored<bytes>::value);
static_assert(is_stored<xsoftmax::span<const unsigned char>>::value && !is_stored<std::array<unsigned char, 8>>::value);
#if __cplusplus >= 202002L
static_assert(takes<std::span<const float>, int> && takes<std::span<float>, int>);
#endif
} // namespace temporaries

struct own_exception {
    int number;
};

// Objects of a training run.
struct run {
    explicit run(const xsoftmax::context &context)
        : rows(some_rows(context)), model(xsoftmax::model::linear(context, FEATURES, CLASSES)),
          estimator(xsoftmax::estimator::make(context, "softmax")), optimizer(xsoftmax::optimizer::make(context, "sgd"))
    {
    }
    xsoftmax::dataset rows;
    xsoftmax::model model;
    xsoftmax::estimator estimator;
    xsoftmax::optimizer optimizer;
};

void test_callbacks()
{
    const xsoftmax::context context;
    run of(context);
    auto options = xsoftmax::init<xsm_trainer_options>();
    options.epochs = 3;
    auto calls = std::make_unique<int>(0); // a callable that can only be moved
    int *seen = calls.get();
    auto made = xsoftmax::trainer::make(context, of.model, of.rows, of.estimator, of.optimizer, options,
                                        [calls = std::move(calls)](const xsm_progress &progress) {
                                            ++*calls;
                                            if (progress.epoch == 2) {
                                                throw own_exception{41};
                                            }
                                        });
    xsoftmax::trainer trainer = std::move(made); // the callback does not move
    for (const bool results : {false, true}) {
        try {
            if (results) {
                (void)trainer.run<xsoftmax::as_result>();
            } else {
                trainer.run();
            }
            CHECK(false);
        } catch (const own_exception &thrown) {
            CHECK(thrown.number == 41);
        }
    }
    CHECK(*seen >= 4 && trainer.progress().epoch == 2);

    // Cancelling, and going on.
    bool stop = true;
    trainer = xsoftmax::trainer::make(
        context, of.model, of.rows, of.estimator, of.optimizer, options, [&](const xsm_progress &progress) {
            return stop && progress.epoch == 1 ? xsoftmax::flow::cancel : xsoftmax::flow::go_on;
        });
    error_of(XSM_CANCELLED, [&] { trainer.run(); });
    CHECK(trainer.progress().epoch == 1);
    stop = false;
    trainer.run();
    CHECK(trainer.progress().epoch == 3);

    // A call within a callback has its own exceptions; the outer one goes on.
    int inner = 0;
    trainer = xsoftmax::trainer::make(
        context, of.model, of.rows, of.estimator, of.optimizer, options, [&](const xsm_progress &) {
            error_of(XSM_ERROR_NAME, [&] { xsoftmax::sampler::make(context, "no such sampler"); });
            inner++;
        });
    trainer.run();
    CHECK(inner >= 6 && trainer.progress().epoch == 3);
}

// Threads that take the next index until there is none.
struct pool {
    std::atomic<int> *calls;
    std::atomic<std::size_t> *jobs;
    std::size_t workers;
    void operator()(xsoftmax::job job, std::size_t count) const
    {
        ++*calls;
        std::atomic<std::size_t> next{0};
        std::vector<std::thread> threads;
        for (std::size_t i = 0; i < workers; i++) {
            threads.emplace_back([&] {
                for (std::size_t j = next++; j < count; j = next++) {
                    job(j);
                    ++*jobs;
                }
            });
        }
        for (auto &thread : threads) {
            thread.join();
        }
    }
};

std::vector<float> trained_weights(const xsoftmax::context &context)
{
    // Large enough that the library cuts its evaluation into jobs.
    constexpr std::size_t n = 2000;
    constexpr std::uint32_t d = 16, k = 500;
    std::vector<float> values(n * d);
    std::vector<std::uint32_t> classes(n);
    for (std::size_t i = 0; i < values.size(); i++) {
        values[i] = static_cast<float>((i * 31 + i / 7) % 101) / 101.0f;
    }
    for (std::size_t i = 0; i < n; i++) {
        classes[i] = static_cast<std::uint32_t>(i * 7 % k);
    }
    const auto rows = xsoftmax::dataset::from_dense(context, values, d, xsoftmax::labels{classes, k});
    auto model = xsoftmax::model::linear(context, d, k);
    auto estimator = xsoftmax::estimator::make(context, "softmax");
    auto optimizer = xsoftmax::optimizer::make(context, "sgd");
    auto options = xsoftmax::init<xsm_trainer_options>();
    options.epochs = 1;
    options.batch = 100;
    xsoftmax::trainer::make(context, model, rows, estimator, optimizer, options).run();
    const auto evaluation = xsoftmax::evaluate(context, model, rows, 3);
    CHECK(evaluation.measures.rows == n && evaluation.precision.size() == 3 &&
          evaluation.ndcg[2] >= evaluation.ndcg[0]);
    CHECK(std::fabs(evaluation.precision[0] - (1 - evaluation.measures.error)) < 1e-12);
    const auto parameters = model.parameters();
    CHECK(parameters.feature_step == 1 || parameters.class_step == 1);
    return std::vector<float>(parameters.weight, parameters.weight + std::size_t{d} * k);
}

void test_pool()
{
    std::atomic<int> calls{0};
    std::atomic<std::size_t> jobs{0};
    // More workers than the context may use at once: the number of a thread stays below 2.
    const auto own = xsoftmax::context::make(xsoftmax::context_options().pool(pool{&calls, &jobs, 4}, 2));
    CHECK(own.threads() == 2);
    const auto weights = trained_weights(own);
    CHECK(calls > 0 && jobs > 1);
    CHECK(weights == trained_weights(xsoftmax::context::make(xsoftmax::context_options().threads(1))));

    // A pool that throws, and one that leaves jobs out.
    const auto throws = xsoftmax::context::make(
        xsoftmax::context_options().pool([](xsoftmax::job, std::size_t) { throw own_exception{7}; }, 2));
    try {
        trained_weights(throws);
        CHECK(false);
    } catch (const own_exception &thrown) {
        CHECK(thrown.number == 7);
    }
    const auto lazy = xsoftmax::context::make(xsoftmax::context_options().pool([](xsoftmax::job, std::size_t) {}, 2));
    error_of(XSM_ERROR_RUNNER, [&] { trained_weights(lazy); });
}

void test_hook()
{
    // The hook is called after 50 ms of a call. Rows to read from a pool that takes its time make a long call.
    std::atomic<int> calls{0};
    const auto context =
        xsoftmax::context::make(xsoftmax::context_options()
                                    .pool(
                                        [](xsoftmax::job job, std::size_t count) {
                                            std::thread([&] {
                                                for (std::size_t i = 0; i < count; i++) {
                                                    std::this_thread::sleep_for(std::chrono::milliseconds(60));
                                                    job(i);
                                                }
                                            }).join();
                                        },
                                        2)
                                    .progress([&calls](const xsm_activity &activity) {
                                        CHECK(activity.phase[0] != '\0');
                                        calls++;
                                        throw own_exception{9};
                                    }));
    try {
        trained_weights(context);
        CHECK(false);
    } catch (const own_exception &thrown) {
        CHECK(thrown.number == 9 && calls == 1);
    }
}

#if defined(__cpp_lib_memory_resource)
struct counting : std::pmr::memory_resource {
    std::atomic<std::size_t> bytes{0}, most{0};
    std::atomic<bool> full{false};
    void *do_allocate(std::size_t size, std::size_t alignment) override
    {
        if (full) {
            throw std::bad_alloc();
        }
        bytes += size;
        most = std::max(most.load(), bytes.load());
        return std::pmr::new_delete_resource()->allocate(size, alignment);
    }
    void do_deallocate(void *memory, std::size_t size, std::size_t alignment) override
    {
        bytes -= size;
        std::pmr::new_delete_resource()->deallocate(memory, size, alignment);
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
    {
        return this == &other;
    }
};

void test_memory()
{
    counting resource;
    {
        xsoftmax::model model;
        {
            // The context's adapter lives as long as the model.
            const auto context = xsoftmax::context::make(xsoftmax::context_options().memory(&resource).threads(1));
            model = xsoftmax::model::linear(context, 1000, 1000);
            CHECK(resource.bytes >= 1000 * 1000 * sizeof(float));
            resource.full = true;
            error_of(XSM_ERROR_MEMORY, [&] { xsoftmax::model::linear(context, 1000, 1000); });
            resource.full = false;
        }
        CHECK(model.classes() == 1000);
    }
    CHECK(resource.bytes == 0 && resource.most > 0);
}
#else
void test_memory()
{
}
#endif

void test_changes()
{
    const auto context = xsoftmax::context::make(xsoftmax::context_options().threads(1));
    const auto rows = some_rows(context);
    auto model = xsoftmax::model::linear(context, FEATURES, CLASSES);
    auto weights = model.parameters();
    weights.weight[2 * weights.class_step + 1 * weights.feature_step] = 3;
    CHECK(model.info().layout == XSM_LAYOUT_CLASS_MAJOR && model.geometry() == XSM_GEOMETRY_LINEAR);

    // Views are of the weights as they are.
    const auto view = model.view();
    CHECK(view.dtype == XSM_DTYPE_FLOAT32 && view.class_step == weights.class_step);
    CHECK(view.weight[2 * view.class_step + 1 * view.feature_step] == 3);
    error_of(XSM_ERROR_STATE, [&] { model.embedding_view(); });
    auto embedding = xsoftmax::model::embedding(context, 5, 2, 3);
    const auto vectors = embedding.embedding_view();
    CHECK(vectors.features == 5 && embedding.embedding_parameters().vectors == vectors.vectors);

    model.set_layout(XSM_LAYOUT_FEATURE_MAJOR);
    weights = model.parameters();
    CHECK(weights.class_step == 1 && weights.weight[2 + weights.feature_step] == 3);
    error_of(XSM_ERROR_RANGE, [&] { model.set_layout(7); });

    // Classes of the labels -1, 0 to 5, and 9; then two features more.
    const std::array<std::int64_t, 8> labels = {-1, 0, 1, 2, 3, 4, 5, 9};
    auto map = xsoftmax::init<xsm_class_map>();
    map.classes = 8;
    map.labels = labels.data();
    model.grow(FEATURES, map);
    CHECK(model.classes() == 8 && model.class_map().labels[7] == 9);
    weights = model.parameters();
    CHECK(weights.weight[3 + weights.feature_step] == 3); // label 2 is class 3 now
    model.grow(FEATURES + 2);
    CHECK(model.features() == FEATURES + 2);
    error_of(XSM_ERROR_RANGE, [&] { model.grow(FEATURES); });

    // What is added to scores, here by experimental functions.
    xsm_error err = XSM_ERROR_INIT;
    const std::vector<std::uint64_t> offsets = {0, 1, 2, 3};
    const std::vector<std::uint32_t> features = {0, 1, 2}, classes = {0, 1, 2};
    const std::vector<float> ones = {1, 1, 1};
    const auto sparse =
        xsoftmax::dataset::from_csr(context, offsets, features, ones, FEATURES, xsoftmax::labels{classes, CLASSES});
    auto counted = xsoftmax::model::linear(context, FEATURES, CLASSES);
    CHECK(counted.geometry() == XSM_GEOMETRY_LINEAR);
    CHECK(xsm_model_add_pairs(counted.get(), sparse.get(), 0.5, &err) == XSM_OK);
    CHECK(counted.correction() == XSM_CORRECTION_PAIRS);
    std::array<float, 3> scores{};
    counted.score_range(xsoftmax::batch(sparse, 1, 1), 0, 3, scores);
    CHECK(scores[0] == 0 && scores[1] > 0 && scores[2] == 0);
    counted.clear_correction();
    CHECK(counted.correction() == XSM_CORRECTION_NONE);
}

// Filters and encoders: one row at a time.
void test_requests()
{
    const auto context = xsoftmax::context::make(xsoftmax::context_options().threads(1));
    auto model = xsoftmax::model::linear(context, FEATURES, CLASSES);
    auto weights = model.parameters();
    for (std::uint32_t k = 0; k < CLASSES; k++) {
        weights.weight[k * weights.class_step] = static_cast<float>(k); // class 5 is best
    }
    const std::vector<std::uint32_t> few = {1, 3};
    const auto allowed = xsoftmax::filter::allow(context, CLASSES, few),
               denied = xsoftmax::filter::deny(context, CLASSES, few);
    CHECK(allowed.left() == 2 && denied.left() == CLASSES - 2);
    CHECK(xsoftmax::filter::allow(context, CLASSES, {}).left() == 0);
    CHECK(xsoftmax::filter::deny(context, CLASSES, {}).left() == CLASSES);
    const std::array<std::uint64_t, 1> bits = {0x11};
    CHECK(xsoftmax::filter::bitmap(context, CLASSES, bits).left() == 2);
    CHECK(xsoftmax::filter::bitmap(context, 64, bits).left() == 2 && xsoftmax::filter().left() == 0);
    error_of(XSM_ERROR_SHAPE, [&] { xsoftmax::filter::bitmap(context, 65, bits); });
    error_of(XSM_ERROR_RANGE, [&] { xsoftmax::filter::allow(context, 3, few); });
    auto both = xsoftmax::init<xsm_filter_classes>();
    both.classes = CLASSES;
    both.allow = few.data();
    both.allow_count = few.size();
    both.deny = few.data();
    both.deny_count = 1;
    CHECK(xsoftmax::filter::make(context, both).left() == 1);

    auto options = xsoftmax::init<xsm_encoder_options>();
    options.format = XSM_FORMAT_LIBSVM;
    error_of(XSM_ERROR_ARGUMENT, [&] { xsoftmax::encoder::make(model, options); });
    options.index_base = XSM_INDEX_BASE_ONE;
    auto encoder = xsoftmax::encoder::make(model, options);
    const xsm_batch row = encoder.encode("7 1:2 3:-1");
    CHECK(row.count == 1 && row.features == FEATURES);
    std::array<float, CLASSES> scores{};
    model.score_range(row, 0, CLASSES, scores);
    CHECK(scores[5] == 10);
    const std::array<std::uint32_t, 2> features = {0, 2};
    const std::array<float, 2> values = {3, 1};
    model.score_range(encoder.encode(features, values), 0, CLASSES, scores);
    CHECK(scores[5] == 15);
    error_of(XSM_ERROR_SHAPE, [&] { encoder.encode(features, {}); });
    CHECK(error_of(XSM_ERROR_FORMAT, [&] { encoder.encode("1:x"); }).column() > 0);

    auto predictor_options = xsoftmax::init<xsm_predictor_options>();
    predictor_options.top = 2;
    auto predictor = xsoftmax::predictor::make(model, predictor_options);
    std::array<std::uint32_t, 2> best{};
    std::array<float, 2> best_scores{};
    encoder.predict(std::string("1:1"), predictor, best, best_scores);
    CHECK(best[0] == 5 && best[1] == 4 && best_scores[0] == 5);
    std::array<double, 2> probabilities{};
    encoder.predict("1:1", predictor, best, {}, probabilities);
    CHECK(probabilities[0] > probabilities[1] && probabilities[1] > 0);
    auto limits = xsoftmax::init<xsm_prediction>();
    limits.filter = allowed.get();
    limits.has_least_score = 1;
    limits.least_score = 2;
    std::uint32_t length = 0;
    encoder.predict(limits, "1:1", predictor, best, length, best_scores);
    CHECK(length == 1 && best[0] == 3 && best_scores[0] == 3);
    limits.scores = best_scores.data();
    error_of(XSM_ERROR_ARGUMENT, [&] { encoder.predict(limits, "1:1", predictor, best, length); });
    error_of(XSM_ERROR_SHAPE, [&] { encoder.predict("1:1", predictor, xsoftmax::span(best.data(), 1)); });
    error_of(XSM_ERROR_SHAPE, [&] { encoder.predict("1:1", predictor, best, xsoftmax::span(best_scores.data(), 1)); });
    auto other = xsoftmax::model::linear(context, FEATURES, CLASSES);
    auto stranger = xsoftmax::predictor::make(other, predictor_options);
    error_of(XSM_ERROR_ARGUMENT, [&] { encoder.predict("1:1", stranger, best); });
}

void test_fit()
{
#ifndef TEST_NO_LBFGS
    const xsoftmax::context context;
    run of(context);
    of.estimator.set("ridge", 1);
    auto options = xsoftmax::init<xsm_fit_options>();
    int calls = 0;
    auto result = xsoftmax::fit_full_batch(context, of.model, of.rows, of.estimator, options,
                                           [&](const xsm_progress &) { calls++; });
    CHECK(result.end == XSM_FIT_CONVERGED && calls >= 2 && result.objective < ROWS * std::log(double(CLASSES)));
    // From there nothing is left to do.
    CHECK(xsoftmax::fit_full_batch(context, of.model, of.rows, of.estimator).iterations <= result.iterations);
    auto fresh = xsoftmax::model::linear(context, FEATURES, CLASSES);
    error_of(XSM_CANCELLED, [&] {
        xsoftmax::fit_full_batch(context, fresh, of.rows, of.estimator, options,
                                 [](const xsm_progress &) { return xsoftmax::flow::cancel; });
    });
    try {
        (void)xsoftmax::fit_full_batch<xsoftmax::as_result>(context, fresh, of.rows, of.estimator, options,
                                                            [](const xsm_progress &) { throw own_exception{43}; });
        CHECK(false);
    } catch (const own_exception &thrown) {
        CHECK(thrown.number == 43);
    }
    auto sampled = xsoftmax::estimator::make(context, "implicit");
    error_of(XSM_ERROR_UNSUPPORTED, [&] { xsoftmax::fit_full_batch(context, fresh, of.rows, sampled); });
#endif
}

// Rows that a dataset owns together with the program.
struct table {
    std::vector<float> values = some_values();
    std::vector<std::uint32_t> classes = some_classes();
};

// Labels with weights, and rows that have no features.
void test_labels()
{
    const xsoftmax::context context;
    const std::vector<std::uint32_t> classes = {0, 2, 1, 5};
    const std::vector<float> weights = {1, 0.5f, 2, 0};
    const std::vector<std::uint64_t> offsets = {0, 2, 3, 4};
    auto rows = xsoftmax::dataset::from_labels(context, {classes, CLASSES, offsets, weights});
    CHECK(rows.info().rows == 3 && rows.info().features == 0 && rows.info().classes == CLASSES);
    CHECK(rows.row(0).label_count == 2 && rows.row(0).label_weights[1] == 0.5f && rows.row(1).label_weights[0] == 2);
    CHECK(xsoftmax::dataset::from_labels(context, {classes, CLASSES}).info().rows == 4);
    CHECK(!xsoftmax::dataset::from_labels(context, {classes, CLASSES}).row(0).label_weights);
    CHECK(says(
        error_of(
            XSM_ERROR_SHAPE,
            [&] {
                xsoftmax::dataset::from_labels(context, {classes, CLASSES, offsets, xsoftmax::span(weights.data(), 3)});
            }),
        "the weights of the labels has 3 entries"));
    error_of(XSM_ERROR_RANGE, [&] { xsoftmax::dataset::from_labels(context, {classes, 5}); });
    CHECK(
        says(error_of(XSM_ERROR_SHAPE, [&] { xsoftmax::dataset::from_dense(context, weights, 0); }), "from_labels()"));

    // What a network of the program's own needs: gradients of its output.
    auto model = xsoftmax::model::linear(context, FEATURES, CLASSES);
    auto estimator = xsoftmax::estimator::make(context, "softmax");
    auto gradient = xsoftmax::gradient::make(context);
    estimator.bind_labels(model, rows);
    const std::vector<float> values(FEATURES, 1);
    std::vector<float> by_input(FEATURES);
    auto batch = xsoftmax::batch(values, FEATURES);
    batch.dataset = rows.get();
    batch.first = 1;
    estimator.compute(batch, 1, gradient, by_input);
    CHECK(std::abs(gradient.view().loss - 2 * std::log(6.0)) < 1e-6); // of one label of weight 2 among 6 equal scores
    error_of(XSM_ERROR_ARGUMENT, [&] {
        estimator.compute(batch, 1, gradient, xsoftmax::span(const_cast<float *>(values.data()), values.size()));
    });
}

void test_borrowing()
{
    const xsoftmax::context context;
    auto owner = std::make_shared<table>();
    const std::weak_ptr<table> watched = owner;
    const xsoftmax::labels labels{owner->classes, CLASSES};
    auto rows = xsoftmax::dataset::borrow_dense(context, owner, owner->values, FEATURES, labels);
    CHECK(rows.row(0).values == owner->values.data());
    // What fails keeps nothing.
    error_of(XSM_ERROR_SHAPE, [&] { xsoftmax::dataset::borrow_dense(context, owner, owner->values, 5, labels); });
    error_of(XSM_ERROR_RANGE, [&] {
        const std::vector<std::uint32_t> wrong(ROWS, CLASSES);
        xsoftmax::dataset::borrow_dense(context, owner, owner->values, FEATURES, xsoftmax::labels{wrong, CLASSES});
    });
    error_of(XSM_ERROR_ARGUMENT,
             [&] { xsoftmax::dataset::borrow_dense(context, nullptr, owner->values, FEATURES, labels); });
    CHECK(owner.use_count() == 2);
    auto model = xsoftmax::model::linear(context, FEATURES, CLASSES);
    auto estimator = xsoftmax::estimator::make(context, "softmax");
    estimator.bind(model, rows);
    owner.reset();
    rows.reset();
    CHECK(!watched.expired()); // the estimator needs them
    estimator.reset();
    CHECK(watched.expired());

    auto sparse_owner = std::make_shared<std::vector<float>>(3, 1.0f);
    const std::weak_ptr<std::vector<float>> sparse_watched = sparse_owner;
    static const std::array<std::uint64_t, 3> offsets = {0, 1, 3};
    static const std::array<std::uint32_t, 3> index = {3, 0, 2};
    auto sparse = xsoftmax::dataset::borrow_csr(context, sparse_owner, offsets, index, *sparse_owner, FEATURES);
    CHECK(sparse.row(1).values == sparse_owner->data() + 1);
    sparse_owner.reset();
    CHECK(!sparse_watched.expired());
    const std::array<float, 2> weights = {0.5f, 3};
    sparse.set_weights(weights);
    CHECK(sparse.row(1).weight == 3 && sparse.info().total_weight == 3.5);
    sparse.shuffle(2);
    CHECK(sparse_watched.expired() && sparse.info().rows == 2); // the rows were copied
}

// What C code makes of an object keeps the context, and all that the context was given, after every C++ object is gone.
void test_made_by_c()
{
    auto token = std::make_shared<int>(0);
    const std::weak_ptr<int> lent = token;
    std::atomic<int> calls{0};
    std::atomic<std::size_t> jobs{0};
    xsm_model *pruned = nullptr;
    xsm_context *held = nullptr;
#if defined(__cpp_lib_memory_resource)
    auto resource = std::make_shared<counting>();
    const std::weak_ptr<counting> memory = resource;
#endif
    {
        auto options =
            xsoftmax::context_options()
                .pool([token, own = pool{&calls, &jobs, 2}](xsoftmax::job job, std::size_t count) { own(job, count); },
                      2)
                .log([token](std::int32_t, const char *) {})
                .progress([token](const xsm_activity &) {});
#if defined(__cpp_lib_memory_resource)
        options.memory(std::move(resource));
#endif
        auto context = xsoftmax::context::make(options);
        auto model = xsoftmax::model::linear(context, 4, 3000);
        auto weights = model.parameters();
        for (std::size_t k = 0; k < 3000; k++) {
            weights.weight[k * weights.class_step] = static_cast<float>(k);
        }
        CHECK(xsm_model_prune(model.get(), nullptr, &pruned, nullptr) == XSM_OK);
        held = context.release();
        CHECK(held && !context);
    }
    token.reset();
    xsm_context_free(held);
    CHECK(!lent.expired());
    std::vector<float> values(4 * 500, 1.0f);
    std::vector<std::uint32_t> classes(500, 2999);
    {
        const auto rows = xsoftmax::dataset::from_dense({}, values, 4, xsoftmax::labels{classes, 3000});
        xsm_metrics metrics = XSM_METRICS_INIT;
        CHECK(xsm_evaluate(nullptr, pruned, rows.get(), nullptr, &metrics, nullptr) == XSM_OK);
        CHECK(metrics.rows == 500 && metrics.error == 0);
    }
    CHECK(calls > 0 && jobs > 1);
#if defined(__cpp_lib_memory_resource)
    if (const auto still = memory.lock()) {
        CHECK(still->bytes > 0);
    } else {
        CHECK(false);
    }
#endif
    xsm_model_free(pruned);
    CHECK(lent.expired());
#if defined(__cpp_lib_memory_resource)
    CHECK(memory.expired());
#endif
    // A context that cannot be made keeps nothing.
    auto other = std::make_shared<int>(0);
    error_of(XSM_ERROR_RANGE, [&] {
        xsoftmax::context::make(xsoftmax::context_options().threads(5000).log([other](std::int32_t, const char *) {}));
    });
    CHECK(other.use_count() == 1);
}

// Threads that predict, while another destroys what the predictors were made from.
void test_destroyed_by_another_thread()
{
    auto context = xsoftmax::context::make(xsoftmax::context_options().threads(1));
    auto model = xsoftmax::model::linear(context, FEATURES, 1000);
    const auto values = some_values();
    std::vector<xsoftmax::predictor> predictors;
    for (int i = 0; i < 4; i++) {
        predictors.push_back(xsoftmax::predictor::make(model));
    }
    std::atomic<int> right{0};
    std::vector<std::thread> threads;
    for (auto &each : predictors) {
        threads.emplace_back([&right, &values, predictor = std::move(each)]() mutable {
            std::vector<std::uint32_t> best(ROWS * predictor.top());
            for (int i = 0; i < 50; i++) {
                predictor.run(xsoftmax::batch(xsoftmax::span<const float>(values), FEATURES), best);
                right += best[4] == 4; // a model of zeros
            }
        });
    }
    predictors.clear();
    model.reset();
    context.reset();
    for (auto &thread : threads) {
        thread.join();
    }
    CHECK(right == 200);
}

// A callback that destroys the trainer it belongs to goes on until it returns.
void test_destroyed_by_its_callback()
{
    const xsoftmax::context context;
    run of(context);
    auto options = xsoftmax::init<xsm_trainer_options>();
    std::optional<xsoftmax::trainer> trainer;
    int calls = 0;
    trainer.emplace(xsoftmax::trainer::make(context, of.model, of.rows, of.estimator, of.optimizer, options,
                                            [&trainer, &calls, text = std::string(100, 'x')](const xsm_progress &) {
                                                trainer.reset();
                                                CHECK(text == std::string(100, 'x'));
                                                calls++;
                                            }));
    const auto ended = trainer->run<xsoftmax::as_result>();
    CHECK(!trainer && calls == 1 && ended.error().status == XSM_CANCELLED);
}

// Exceptions of every kind of callback leave the call in C++, and pass no function of the library.
void test_thrown_by_every_callback()
{
    const char *text = "1 1:1\n2 2:1\n";
    const auto number_of = [](auto &&call) {
        try {
            call();
        } catch (const own_exception &thrown) {
            return thrown.number;
        }
        return 0;
    };
    const xsoftmax::context plain;
    const auto throwing = [](void *, std::size_t) -> std::size_t { throw own_exception{1}; };
    CHECK(number_of([&] { xsoftmax::dataset::read_source(plain, throwing, "rows"); }) == 1);
    CHECK(number_of([&] { (void)xsoftmax::dataset::read_source<xsoftmax::as_result>(plain, throwing, "rows"); }) == 1);
    // LIBSVM data from index 1 are logged.
    const auto logs = xsoftmax::context::make(
        xsoftmax::context_options().log([](std::int32_t, const char *) { throw own_exception{2}; }));
    const auto read = [&](const xsoftmax::context &in) {
        std::size_t at = 0;
        auto options = xsoftmax::init<xsm_read_options>();
        options.format = XSM_FORMAT_LIBSVM;
        return xsoftmax::dataset::read_source(
            in,
            [&](void *buffer, std::size_t size) {
                const std::size_t more = std::min(size, std::min<std::size_t>(3, std::strlen(text) - at));
                std::memcpy(buffer, text + at, more);
                at += more;
                return more;
            },
            "rows", options);
    };
    CHECK(number_of([&] { read(logs); }) == 2);
    CHECK(read(plain).info().rows == 2);
#if defined(__cpp_lib_memory_resource)
    struct throwing_resource : counting {
        void *do_allocate(std::size_t size, std::size_t alignment) override
        {
            if (full) {
                throw own_exception{3};
            }
            return counting::do_allocate(size, alignment);
        }
    } resource;
    {
        const auto context = xsoftmax::context::make(xsoftmax::context_options().memory(&resource).threads(1));
        resource.full = true;
        CHECK(number_of([&] { xsoftmax::model::linear(context, 10, 10); }) == 3);
        // In a call of C's the exception is dropped, and the status stays.
        xsm_model *none = nullptr;
        CHECK(xsm_model_new_linear(context.get(), 10, 10, nullptr, &none, nullptr) == XSM_ERROR_MEMORY);
    }
    CHECK(resource.bytes == 0);
#endif
}

// The error of a result is of its own call.
void test_status_after_success()
{
    const xsoftmax::context context;
    run of(context);
    int refused = 0;
    auto options = xsoftmax::init<xsm_trainer_options>();
    options.epochs = 1;
    auto trainer = xsoftmax::trainer::make(
        context, of.model, of.rows, of.estimator, of.optimizer, options, [&](const xsm_progress &) {
            refused += of.estimator.set<xsoftmax::as_result>("no-such-option", "1").error().status == XSM_ERROR_STATE;
        });
    const auto ended = trainer.run<xsoftmax::as_result>();
    CHECK(refused > 0 && ended && ended.error().status == XSM_OK && ended.error().message[0] == '\0');
    // Also where a function writes an error and succeeds.
    const auto success = xsoftmax::detail::invoke<xsoftmax::as_result>([](xsm_error *err) {
        err->status = XSM_ERROR_IO;
        return xsm_status{XSM_OK};
    });
    CHECK(success && success.error().status == XSM_OK);
    const auto failure = xsoftmax::detail::invoke<xsoftmax::as_result>([](xsm_error *) { return XSM_CANCELLED; });
    CHECK(!failure && failure.error().status == XSM_CANCELLED);
}

void test_sources()
{
    const xsoftmax::context context;
    error_of(XSM_ERROR_IO, [&] {
        xsoftmax::dataset::read_source(
            context, [](void *, std::size_t) { return -1; }, "nothing");
    });
    const std::string text = "7 1:0.5\n9 2:0.25\n9 x\n";
    struct reader { // one that can neither be copied nor moved
        const std::string &text;
        std::size_t at = 0;
        explicit reader(const std::string &from) : text(from)
        {
        }
        reader(const reader &) = delete;
        std::int64_t operator()(void *buffer, std::size_t size)
        {
            const std::size_t more = text.copy(static_cast<char *>(buffer), size, at);
            at += more;
            return static_cast<std::int64_t>(more);
        }
    } source(text);
    const auto thrown = error_of(XSM_ERROR_FORMAT, [&] { xsoftmax::dataset::read_source(context, source, "stream"); });
    CHECK(says(thrown, "stream") && thrown.line() == 3);
    const std::string good = text.substr(0, 17);
    reader again(good);
    auto rows = xsoftmax::dataset::read_source(context, again, "stream");
    CHECK(rows.info().rows == 2 && rows.class_map().labels[1] == 9);
    // The names of labels 0 to 9.
    std::FILE *file = std::fopen("test_hpp.names", "w");
    CHECK(file && std::fputs("a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n", file) >= 0 && std::fclose(file) == 0);
    rows.read_names("test_hpp.names");
    CHECK(xsoftmax::label(rows.class_map(), 0) == "h" && xsoftmax::label(rows.class_map(), 1) == "j");
    xsoftmax::dataset kept;
    {
        const auto shared = xsoftmax::share(rows);
        CHECK(shared.get() == rows.get());
        kept = xsoftmax::share(shared);
    }
    CHECK(kept.info().rows == 2);
    CHECK(xsoftmax::find_class(rows.class_map(), "j") == 1);
    CHECK(xsoftmax::find_class(rows.class_map(), "i") == XSM_NO_CLASS && xsoftmax::label(rows.class_map(), 2).empty());
    CHECK(std::remove("test_hpp.names") == 0);
    error_of(XSM_ERROR_IO, [&] { rows.read_names("test_hpp.names"); });
}

// Models, samplers and checkpoints in memory, and tensors of the host in them.
void test_storages()
{
    const xsoftmax::context context;
    const auto rows = some_rows(context);
    auto buffer = xsoftmax::buffer::make(context);
    CHECK(buffer.bytes().empty());
    error_of(XSM_ERROR_STATE, [&] { xsoftmax::model::load(context, buffer.storage()); });
    auto model = xsoftmax::model::linear(context, FEATURES, CLASSES);
    const float numbers[] = {1, 2, 3};
    const std::uint64_t shape[] = {3};
    auto tensor = xsoftmax::init<xsm_tensor>();
    tensor.name = "mine";
    tensor.dtype = "F32";
    tensor.shape = shape;
    tensor.rank = 1;
    tensor.data = numbers;
    tensor.bytes = sizeof numbers;
    model.set_tensor(tensor);
    model.save(buffer.storage("the buffer"));
    const auto bytes = buffer.bytes();
    CHECK(bytes.size() > 100);
    {
        auto loaded = xsoftmax::model::load(context, xsoftmax::storage_of(bytes));
        const auto found = loaded.tensor("mine");
        CHECK(std::memcmp(found.data, numbers, sizeof numbers) == 0);
        CHECK(found.data >= bytes.begin() && found.data < bytes.end()); // it is in the buffer
        CHECK(std::string(loaded.tensor_name(0)) == "mine" && !loaded.tensor_name(1));
        loaded.remove_tensor("mine");
        error_of(XSM_ERROR_NAME, [&] { loaded.remove_tensor("mine"); });
        error_of(XSM_ERROR_NAME, [&] { loaded.tensor("mine"); });
    }
    const std::vector<unsigned char> cut(bytes.begin(), bytes.end() - 1);
    {
        auto owner = std::make_shared<xsoftmax::buffer>(xsoftmax::buffer::make(context));
        const std::weak_ptr<xsoftmax::buffer> watched = owner;
        model.save(owner->storage());
        auto over = xsoftmax::model::borrow(context, owner, owner->bytes(), "an owner's");
        CHECK(over.view().data > owner->bytes().begin() && over.view().data < owner->bytes().end());
        CHECK(says(error_of(XSM_ERROR_FORMAT,
                            [&] {
                                xsoftmax::model::borrow(context, owner, {owner->bytes().data(), 50}, "a piece");
                            }),
                   "a piece"));
        error_of(XSM_ERROR_ARGUMENT, [&] { xsoftmax::model::borrow(context, nullptr, owner->bytes()); });
        CHECK(owner.use_count() == 2); // what failed keeps nothing
        owner.reset();
        auto predictor = xsoftmax::predictor::make(over);
        over.reset();
        CHECK(!watched.expired());
        predictor.reset();
        CHECK(watched.expired());
    }
    CHECK(says(error_of(XSM_ERROR_FORMAT, [&] { xsoftmax::model::load(context, xsoftmax::storage_of(cut, "a half")); }),
               "a half"));
    auto sampler = xsoftmax::sampler::make(context, "frequency");
    sampler.bind(rows);
    sampler.save(buffer.storage());
    CHECK(xsoftmax::sampler::load(context, buffer.storage()).info().classes == CLASSES);
    auto estimator = xsoftmax::estimator::make(context, "softmax");
    auto optimizer = xsoftmax::optimizer::make(context, "sgd");
    auto options = xsoftmax::init<xsm_trainer_options>();
    options.epochs = 1;
    auto trainer = xsoftmax::trainer::make(context, model, rows, estimator, optimizer, options);
    trainer.run();
    trainer.checkpoint(buffer.storage());
    auto again = xsoftmax::trainer::make(context, model, rows, estimator, optimizer, options);
    again.resume(buffer.storage());
    CHECK(again.progress().epoch == trainer.progress().epoch);
}

// Pruned weights, calibration, searches.
void test_made_models()
{
    const auto context = xsoftmax::context::make(xsoftmax::context_options().threads(1));
    const auto rows = some_rows(context);
    auto model = xsoftmax::model::linear(context, FEATURES, CLASSES);
    const auto weights = model.parameters();
    weights.weight[1 * weights.class_step] = 0.5f;
    weights.weight[3 * weights.class_step + 2 * weights.feature_step] = -2;
    weights.weight[5 * weights.class_step + 3 * weights.feature_step] = 0.01f;
    CHECK(model.layout() == XSM_LAYOUT_CLASS_MAJOR && model.weights() == FEATURES * CLASSES && model.trees() == 0);
    auto which = xsoftmax::init<xsm_prune_options>();
    which.below = 0.1;
    auto pruned = model.prune(which);
    CHECK(pruned.layout() == XSM_LAYOUT_SPARSE_ROWS && pruned.weights() == 2 && pruned.bytes() > 0);
    CHECK(pruned.parameters().weight == nullptr && model.prune().weights() == 3);
    std::array<float, CLASSES> scores{};
    const std::array<float, FEATURES> ones = {1, 1, 1, 1};
    pruned.score_range(xsoftmax::batch(ones, FEATURES), 0, CLASSES, scores);
    CHECK(scores[1] == 0.5f && scores[3] == -2 && scores[5] == 0);
    error_of(XSM_ERROR_UNSUPPORTED, [&] { pruned.prune(); });

    auto into = xsoftmax::init<xsm_convert_options>();
    into.dtype = XSM_DTYPE_BFLOAT16;
    const auto small = model.convert(into);
    CHECK(small.dtype() == XSM_DTYPE_BFLOAT16 && small.bytes() == 2 * FEATURES * CLASSES);
    CHECK(small.view().dtype == XSM_DTYPE_BFLOAT16 && small.convert().dtype() == XSM_DTYPE_FLOAT32);
    small.score_range(xsoftmax::batch(ones, FEATURES), 0, CLASSES, scores);
    CHECK(scores[1] == 0.5f && scores[3] == -2);
    CHECK(pruned.convert(into).dtype() == XSM_DTYPE_BFLOAT16);

    const auto result = model.calibrate(context, rows);
    CHECK(result.method == XSM_CALIBRATION_TEMPERATURE && result.log_loss <= result.log_loss_before);
    auto calibration = model.calibration();
    CHECK(calibration.scale == result.scale && calibration.method == result.method);
    calibration.scale = 0.5;
    model.set_calibration(calibration);
    CHECK(model.calibration().scale == 0.5);
    model.set_calibration(xsoftmax::init<xsm_calibration>());
    CHECK(model.calibration().method == XSM_CALIBRATION_NONE);

    // An index that scores every class finds the best ones; one of another model is refused.
    auto index = xsoftmax::index::make(context, "exact");
    index.build(model);
    const auto found = xsoftmax::evaluate_search(context, model, rows, 2, index);
    CHECK(found.measures.rows == ROWS && found.recall[0] == 1 && found.recall[1] == 1 &&
          found.measures.recall == nullptr);
    const auto all = xsoftmax::evaluate(context, model, rows, 2);
    CHECK(found.precision[1] == all.precision[1] && all.psp.size() == 2 && std::isnan(all.psp[0]));
    auto predictor = xsoftmax::predictor::make(model, index);
    index.reset(); // which the predictor keeps
    std::vector<std::uint32_t> best(predictor.top()), exact(predictor.top());
    predictor.run(xsoftmax::batch(rows, 3, 1), best);
    xsoftmax::predictor::make(model).run(xsoftmax::batch(rows, 3, 1), exact);
    CHECK(best == exact && predictor.info().probed == CLASSES);
    auto narrow = xsoftmax::init<xsm_predictor_options>();
    narrow.beam = 3;
    error_of(XSM_ERROR_UNSUPPORTED, [&] { xsoftmax::evaluate_search(context, model, rows, 2, narrow); });

    // Features of the program's, labels of the rows.
    auto estimator = xsoftmax::estimator::make(context, "margin");
    auto gradient = xsoftmax::gradient::make(context);
    auto on_hidden = xsoftmax::model::linear(context, 2, CLASSES);
    error_of(XSM_ERROR_SHAPE, [&] { estimator.bind(on_hidden, rows); });
    estimator.bind_labels(on_hidden, rows);
    const std::array<float, 2> hidden = {0.5f, -1};
    auto row = xsoftmax::batch(hidden, 2);
    row.dataset = rows.get();
    row.first = 4;
    estimator.compute(row, 1, gradient);
    CHECK(gradient.view().examples == 1);

    // A list of classes, and the estimator's own sampler again.
    auto list = xsoftmax::estimator::make(context, "ove");
    const std::array<std::uint32_t, 3> tight = {4, 0, 2};
    list.set_classes("tight-classes", tight);
    CHECK(*list.option("tight-classes") == "4,0,2");
    list.set_classes("tight-classes", {});
    CHECK(list.option("tight-classes") && list.option("tight-classes")->empty());
    CHECK(!list.option("tite-classes"));
    error_of(XSM_ERROR_NAME, [&] { list.set_classes("tite-classes", tight); });
    auto sampled = xsoftmax::estimator::make(context, "sampled-softmax");
    const auto uniform = xsoftmax::sampler::make(context, "uniform");
    sampled.set_sampler(uniform);
    CHECK(sampled.info().sampler == uniform.get());
    sampled.set_sampler({});
    CHECK(sampled.info().sampler != uniform.get() && sampled.info().sampler);
}

void test_label_tree()
{
    // Labels come in pairs that share a feature; each has one of its own.
    const auto context = xsoftmax::context::make(xsoftmax::context_options().threads(1));
    constexpr std::uint32_t labels = 8, copies = 6, features = labels + labels / 2;
    std::vector<std::uint64_t> offsets = {0};
    std::vector<std::uint32_t> index, classes;
    std::vector<float> values;
    for (std::uint32_t i = 0; i < labels * copies; i++) {
        const std::uint32_t label = i % labels;
        index.insert(index.end(), {label, labels + label / 2});
        values.insert(values.end(), {0.8f, 0.6f});
        classes.push_back(label);
        offsets.push_back(index.size());
    }
    const auto rows =
        xsoftmax::dataset::from_csr(context, offsets, index, values, features, xsoftmax::labels{classes, labels});
    auto options = xsoftmax::init<xsm_label_tree_options>();
    options.trees = options.leaf = 2;
    auto fitted = xsoftmax::fit_label_tree(context, rows, options);
    CHECK(fitted.model.trees() == 2 && fitted.model.classes() == labels);
    CHECK(fitted.model.layout() == XSM_LAYOUT_SPARSE_ROWS && fitted.model.weights() == fitted.result.weights);
    CHECK(fitted.result.depth >= 2 && fitted.result.nodes > 2 * labels);
    auto searched = xsoftmax::init<xsm_evaluate_options>();
    searched.beam = 2;
    const auto evaluation = xsoftmax::evaluate(context, fitted.model, rows, 1, searched);
    CHECK(evaluation.measures.error == 0 && evaluation.precision[0] == 1 && evaluation.measures.beam == 2);
    auto narrow = xsoftmax::init<xsm_predictor_options>();
    narrow.beam = 2;
    const auto found = xsoftmax::evaluate_search(context, fitted.model, rows, 1, narrow);
    CHECK(found.recall[0] == 1 && found.precision[0] == 1);
    options.leaf = 1;
    error_of(XSM_ERROR_RANGE, [&] { xsoftmax::fit_label_tree(context, rows, options); });
}

// Each process gives up its owners.
void test_fork()
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    struct owner {
        int end;
        std::vector<float> values = some_values();
        explicit owner(int to) : end(to)
        {
        }
        owner(const owner &) = delete;
        ~owner()
        {
            CHECK(write(end, "x", 1) == 1);
        }
    };
    const xsoftmax::context context;
    auto table = std::make_shared<owner>(ends[1]);
    auto rows = xsoftmax::dataset::borrow_dense(context, table, table->values, FEATURES);
    table.reset();
    const pid_t child = fork();
    if (child == 0) {
        rows.reset();
        _exit(0);
    }
    int status = 1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    rows.reset();
    close(ends[1]);
    char bytes[3];
    CHECK(read(ends[0], bytes, 3) == 2);
    close(ends[0]);
}

} // namespace

int main()
{
    test_moves();
    test_errors();
    test_initial();
    test_spans();
    test_callbacks();
    test_pool();
    test_hook();
    test_memory();
    test_changes();
    test_requests();
    test_fit();
    test_labels();
    test_borrowing();
    test_made_by_c();
    test_destroyed_by_its_callback();
    test_destroyed_by_another_thread();
    test_thrown_by_every_callback();
    test_status_after_success();
    test_sources();
    test_storages();
    test_made_models();
    test_label_tree();
    test_fork();
    return 0;
}
