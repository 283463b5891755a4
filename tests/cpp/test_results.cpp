// xsoftmax.hpp without exceptions and run-time types: every call in the form that returns a result.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define XSM_EXPERIMENTAL
#include <xsoftmax.hpp>

#if XSOFTMAX_EXCEPTIONS
#error "this program is to be compiled with -fno-exceptions"
#endif

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                       \
            std::exit(1);                                                                                              \
        }                                                                                                              \
    } while (0)

namespace
{

using xsoftmax::as_result;

template <class T> T taken(xsoftmax::result<T> &&from)
{
    if (!from) {
        std::fprintf(stderr, "%s\n", from.error().message);
        std::exit(1);
    }
    return *std::move(from);
}

constexpr std::uint32_t FEATURES = 3, CLASSES = 4;
const std::array<float, 12> values = {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1};
const std::array<std::uint32_t, 4> classes = {0, 1, 2, 3};

} // namespace

int main(int argc, char **argv)
{
    CHECK(argc == 2); // a file to write
    int shown = 0;
    auto context = taken(xsoftmax::context::make<as_result>(xsoftmax::context_options()
                                                                .threads(2)
                                                                .log([](std::int32_t, const char *) {})
                                                                .progress([](const xsm_activity &) {})));
    auto rows =
        taken(xsoftmax::dataset::from_dense<as_result>(context, values, FEATURES, xsoftmax::labels{classes, CLASSES}));
    auto model = taken(xsoftmax::model::linear<as_result>(context, FEATURES, CLASSES));
    auto estimator = taken(xsoftmax::estimator::make<as_result>(context, "softmax"));
    auto optimizer = taken(xsoftmax::optimizer::make<as_result>(context, "sgd"));
    CHECK(estimator.set<as_result>("ridge", 0.0));
    CHECK(!estimator.set<as_result>("l3", "1"));
    auto options = xsoftmax::init<xsm_trainer_options>();
    options.epochs = 200;
    auto trainer = taken(xsoftmax::trainer::make<as_result>(context, model, rows, estimator, optimizer, options,
                                                            [&](const xsm_progress &) { shown++; }));
    CHECK(trainer.run<as_result>());
    CHECK(shown >= 2 && taken(trainer.progress<as_result>()).epoch == 200);
    CHECK(taken(xsoftmax::evaluate<as_result>(context, model, rows, 1)).measures.error == 0); // each row is learnt

    // A step by hand.
    auto gradient = taken(xsoftmax::gradient::make<as_result>(context));
    const xsm_batch two = xsoftmax::batch(rows, 1, 2);
    CHECK(estimator.compute<as_result>(two, 0.1, gradient));
    CHECK(taken(gradient.view<as_result>()).examples == 2);
    CHECK(optimizer.apply<as_result>(two, gradient, 0.1));
    std::array<float, 5> wrong;
    CHECK(estimator.compute<as_result>(two, 0.1, gradient, wrong).error().status == XSM_ERROR_ARGUMENT);

    CHECK(model.save<as_result>(argv[1]));
    auto loaded = taken(xsoftmax::model::load<as_result>(context, argv[1]));
    CHECK(std::remove(argv[1]) == 0);
    auto one = xsoftmax::init<xsm_predictor_options>();
    one.top = 1;
    auto predictor = taken(xsoftmax::predictor::make<as_result>(loaded, one));
    std::vector<std::uint32_t> best(4);
    const xsm_batch all = taken(xsoftmax::batch<as_result>(values, FEATURES));
    CHECK(predictor.run<as_result>(all, best));
    CHECK(best == std::vector<std::uint32_t>(classes.begin(), classes.end()));
    best.resize(3);
    const auto refused = predictor.run<as_result>(all, best);
    CHECK(!refused && refused.error().status == XSM_ERROR_SHAPE);
    CHECK(std::strstr(refused.error().message, "classes has 3 entries, but must have 4"));

    // The rest.
    auto index = taken(xsoftmax::index::make<as_result>(context, "exact"));
    CHECK(index.build<as_result>(loaded));
    CHECK(taken(index.info<as_result>()).rows == CLASSES);
    CHECK(index.build<as_result>(values, 5).error().status == XSM_ERROR_SHAPE);
    CHECK(index.build<as_result>(values, FEATURES));
    auto sampler = taken(xsoftmax::sampler::make<as_result>(context, "uniform"));
    CHECK(sampler.bind<as_result>(rows));
    std::array<float, 8> logs;
    CHECK(sampler.log_probabilities<as_result>(two, 0, CLASSES, logs));
    CHECK(logs[7] < -1.3862f && logs[7] > -1.3864f); // log 1/4
    auto transform = taken(xsoftmax::transform::make<as_result>(context, "unit"));
    CHECK(transform.fit<as_result>(rows));
    CHECK(transform.apply<as_result>(rows));
    const xsm_row row = taken(rows.row<as_result>(3));
    CHECK(row.values[0] > 0.5773f && row.values[0] < 0.5774f); // 1 / sqrt(3)
    CHECK(taken(xsoftmax::model::embedding<as_result>(context, 5, 2, 3)).hidden() == 2);

    auto linear = taken(xsoftmax::model::linear<as_result>(context, FEATURES, CLASSES));
    CHECK(linear.grow<as_result>(FEATURES + 1) && linear.features() == FEATURES + 1);
    CHECK(linear.grow<as_result>(FEATURES).error().status == XSM_ERROR_RANGE);
    CHECK(xsm_model_set_geometry(linear.get(), XSM_GEOMETRY_EUCLIDEAN, nullptr) == XSM_OK);
    CHECK(!linear.set_layout<as_result>(XSM_LAYOUT_FEATURE_MAJOR)); // distances are class-major
    CHECK(taken(linear.view<as_result>()).bias);
    auto sampled = taken(xsoftmax::estimator::make<as_result>(context, "implicit"));
    CHECK(xsoftmax::fit_full_batch<as_result>(context, model, rows, sampled).error().status == XSM_ERROR_UNSUPPORTED);

    // What is made of models and rows.
    CHECK(linear.prune<as_result>().error().status == XSM_ERROR_UNSUPPORTED); // distances
    const auto pruned = taken(model.prune<as_result>());
    CHECK(pruned.layout() == XSM_LAYOUT_SPARSE_ROWS && pruned.weights() <= FEATURES * CLASSES);
    CHECK(!pruned.prune<as_result>());
    auto doubtful = taken(xsoftmax::model::linear<as_result>(context, FEATURES, CLASSES));
    CHECK(doubtful.calibrate<as_result>(context, xsoftmax::dataset{}).error().status == XSM_ERROR_ARGUMENT);
    auto calibration = taken(doubtful.calibration<as_result>());
    calibration.method = 9;
    CHECK(doubtful.set_calibration<as_result>(calibration).error().status == XSM_ERROR_RANGE);
    CHECK(taken(xsoftmax::evaluate<as_result>(context, pruned, rows, 1)).psndcg.size() == 1);
    auto of_model = taken(xsoftmax::index::make<as_result>(context, "exact"));
    CHECK(of_model.build<as_result>(model));
    CHECK(taken(xsoftmax::evaluate_search<as_result>(context, model, rows, 1, of_model)).recall[0] == 1);
    CHECK(xsoftmax::predictor::make<as_result>(model, of_model));
    CHECK(!xsoftmax::predictor::make<as_result>(linear, of_model));
    auto tree = xsoftmax::init<xsm_label_tree_options>();
    tree.trees = 1;
    CHECK(taken(xsoftmax::fit_label_tree<as_result>(context, rows, tree)).model.trees() == 1);
    auto labelled = taken(xsoftmax::estimator::make<as_result>(context, "ove"));
    CHECK(labelled.set_classes<as_result>("tight-classes", classes));
    CHECK(labelled.bind_labels<as_result>(linear, rows));
    CHECK(!rows.read_names<as_result>("no such file"));
    auto first_one = xsoftmax::init<xsm_encoder_options>();
    CHECK(xsoftmax::encoder::make<as_result>(model, first_one).error().status == XSM_ERROR_ARGUMENT);
    first_one.index_base = XSM_INDEX_BASE_ONE;
    auto encoder = taken(xsoftmax::encoder::make<as_result>(model, first_one));
    CHECK(taken(encoder.encode<as_result>("1:1")).count == 1);
    CHECK(encoder.encode<as_result>("1:").error().status == XSM_ERROR_FORMAT);
    auto of_rows = taken(xsoftmax::predictor::make<as_result>(model));
    std::vector<std::uint32_t> ranked(of_rows.top());
    CHECK(encoder.predict<as_result>("1:1", of_rows, ranked));
    ranked.resize(ranked.size() + 1);
    CHECK(encoder.predict<as_result>("1:1", of_rows, ranked).error().status == XSM_ERROR_SHAPE);
    CHECK(taken(xsoftmax::filter::deny<as_result>(context, CLASSES, classes)).left() == 0);
    CHECK(xsoftmax::filter::allow<as_result>(context, 1, classes).error().status == XSM_ERROR_RANGE);
    bool ended = false;
    auto source = [&](char *buffer, std::size_t size) {
        const std::size_t length = ended || size < 6 ? 0 : 6;
        std::memcpy(buffer, "1 1:1\n", length);
        ended = true;
        return length;
    };
    const auto read = [&](void *buffer, std::size_t size) { return source(static_cast<char *>(buffer), size); };
    CHECK(taken(taken(xsoftmax::dataset::read_source<as_result>(context, read, "text")).info<as_result>()).rows == 1);
    return 0;
}
