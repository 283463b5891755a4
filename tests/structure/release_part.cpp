// A part of a process in which other parts were compiled with other headers: see check_cpp.py. Its function returns 0
// if all works; `inner`, if there is one, is called within a callback.
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <xsoftmax.hpp>

using xsoftmax::as_result;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                       \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

extern "C" XSM_API int PART(int (*inner)(int))
{
    constexpr std::uint32_t features = 2, classes = 3;
    std::size_t jobs = 0;
    auto made = xsoftmax::context::make<as_result>(xsoftmax::context_options().pool(
        [&jobs](xsoftmax::job job, std::size_t count) {
            for (std::size_t i = 0; i < count; i++, jobs++) {
                job(i);
            }
        },
        1));
    CHECK(made);
    const xsoftmax::context context = *std::move(made);
    const std::vector<float> values = {1, 0, 0, 1, 1, 1};
    const std::vector<std::uint32_t> labels = {0, 1, 2};
    auto rows = xsoftmax::dataset::from_dense<as_result>(context, values, features, xsoftmax::labels{labels, classes});
    auto model = xsoftmax::model::linear<as_result>(context, features, classes);
    auto estimator = xsoftmax::estimator::make<as_result>(context, "softmax");
    auto optimizer = xsoftmax::optimizer::make<as_result>(context, "sgd");
    CHECK(rows && model && estimator && optimizer);
    auto options = xsoftmax::init<xsm_trainer_options>();
    options.epochs = 2;
    int called = 0, inside = 0;
    auto trainer = xsoftmax::trainer::make<as_result>(context, *model, *rows, *estimator, *optimizer, options,
                                                      [&](const xsm_progress &progress) {
                                                          called++;
                                                          if (inner && progress.epoch_ended) {
                                                              inside += inner(0);
                                                          }
                                                      });
    CHECK(trainer && trainer->run<as_result>() && called >= 2 && inside == 0);
    auto evaluation = xsoftmax::evaluate<as_result>(context, *model, *rows, 1);
    CHECK(evaluation && evaluation->measures.rows == 3);
    const auto failure = xsoftmax::sampler::make<as_result>(context, std::string("no such sampler"));
    CHECK(!failure && failure.error().status == XSM_ERROR_NAME);
#if XSOFTMAX_EXCEPTIONS
    // What its callback throws arrives here, whatever other parts have between.
    auto throwing = xsoftmax::trainer::make<as_result>(context, *model, *rows, *estimator, *optimizer, options,
                                                       [&](const xsm_progress &) {
                                                           if (inner) {
                                                               inside += inner(0);
                                                           }
                                                           throw std::string("mine");
                                                       });
    CHECK(throwing);
    bool caught = false;
    try {
        throwing->run();
    } catch (const std::string &thrown) {
        caught = thrown == "mine";
    }
    CHECK(caught && inside == 0);
#endif
    return 0;
}
