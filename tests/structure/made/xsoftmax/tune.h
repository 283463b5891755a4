#ifndef XSOFTMAX_TUNE_H
#define XSOFTMAX_TUNE_H

#ifndef XSM_EXPERIMENTAL
#error "this header is experimental: define XSM_EXPERIMENTAL to use it"
#endif

#include <xsoftmax/kinds.h>

#define XSM_TRIALS_MAX 64

typedef struct xsm_tune_options {
    size_t size;
    uint64_t seed;
    double rate;
} xsm_tune_options;

#ifdef __cplusplus
extern "C" {
#endif

XSM_API xsm_status xsm_tune(const xsm_tune_options *options, xsm_error *err);

#ifdef __cplusplus
}
#endif

#endif
