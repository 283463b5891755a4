// The same from C++: every header and every starting value.
#include <cstdio>
#include <cstring>
#include <memory>

#include <xsoftmax.h>
#include <xsoftmax/ext/estimator.h>

namespace
{
struct release {
    void operator()(xsm_context *context) const
    {
        xsm_context_free(context);
    }
};
} // namespace

int main()
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    options.threads = 2;
    xsm_context *made = nullptr;
    if (xsm_context_new(&options, &made, &err) != XSM_OK) {
        std::fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    std::unique_ptr<xsm_context, release> context(made);

    const xsm_read_options read = XSM_READ_OPTIONS_INIT;
    const xsm_model_options model = XSM_MODEL_OPTIONS_INIT;
    const xsm_trainer_options trainer = XSM_TRAINER_OPTIONS_INIT;
    const xsm_evaluate_options evaluate = XSM_EVALUATE_OPTIONS_INIT;
    const xsm_metrics metrics = XSM_METRICS_INIT;
    xsm_context_info info = XSM_CONTEXT_INFO_INIT;
    (void)xsm_context_get_info(made, &info, nullptr);
    if (read.size != sizeof read || model.size != sizeof model || trainer.size != sizeof trainer ||
        evaluate.size != sizeof evaluate || metrics.size != sizeof metrics || info.threads != 2 ||
        std::strcmp(xsm_status_name(XSM_ERROR_FORMAT), "XSM_ERROR_FORMAT") != 0) {
        std::fprintf(stderr, "a starting value or a constant differs in C++\n");
        return 1;
    }
    std::printf("libxsoftmax %s, %s\n", xsm_version_string(), info.instruction_set);
    return 0;
}
