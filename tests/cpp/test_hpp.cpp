// xsoftmax.hpp: ownership, errors in both forms, spans, callbacks that throw, a pool, memory resources.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

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
}

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

    // Distances.
    auto points = xsoftmax::model::linear(context, FEATURES, CLASSES);
    points.set_geometry(XSM_GEOMETRY_EUCLIDEAN);
    CHECK(points.geometry() == XSM_GEOMETRY_EUCLIDEAN && points.info().bias == 1);
    error_of(XSM_ERROR_RANGE, [&] { points.set_geometry(9); });

    // Pairs, of sparse rows.
    const std::vector<std::uint64_t> offsets = {0, 1, 2, 3};
    const std::vector<std::uint32_t> features = {0, 1, 2}, classes = {0, 1, 2};
    const std::vector<float> ones = {1, 1, 1};
    const auto sparse =
        xsoftmax::dataset::from_csr(context, offsets, features, ones, FEATURES, xsoftmax::labels{classes, CLASSES});
    auto counted = xsoftmax::model::linear(context, FEATURES, CLASSES);
    counted.add_pairs(sparse, 0.5);
    CHECK(std::string(counted.correction()) == "pairs");
    std::array<float, 3> scores{};
    counted.score_range(xsoftmax::batch(sparse, 1, 1), 0, 3, scores);
    CHECK(scores[0] == 0 && scores[1] > 0 && scores[2] == 0);

    // Ranks: each row's label is first, as pairs say; and with rows that know the same.
    const auto ranks = xsoftmax::evaluate_ranks(context, counted, sparse, 2);
    CHECK(ranks.measures.labels == 3 && ranks.measures.reciprocal_rank == 1 && ranks.hits[0] == 1);
    CHECK(ranks.hits.size() == 2 && ranks.measures.hits == nullptr);
    const std::array<const xsoftmax::dataset *, 1> known = {&sparse};
    CHECK(xsoftmax::evaluate_ranks(context, counted, sparse, 0, known).measures.mean_rank == 1);
    counted.clear_correction();
    CHECK(std::string(counted.correction()) == "none");
    // All classes score the same: the rank is the mean of 1 to 6.
    CHECK(xsoftmax::evaluate_ranks(context, counted, sparse).measures.mean_rank == 3.5);
    error_of(XSM_ERROR_SHAPE, [&] { xsoftmax::evaluate_ranks(context, embedding, sparse); });
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
    sparse.shuffle(2);
    CHECK(sparse_watched.expired() && sparse.info().rows == 2); // the rows were copied
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
    test_fit();
    test_borrowing();
    return 0;
}
