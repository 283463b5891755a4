#ifndef XSOFTMAX_CALLS_H
#define XSOFTMAX_CALLS_H

#include <xsoftmax/kinds.h>

#ifdef __cplusplus
extern "C" {
#endif

XSM_API xsm_status xsm_model_new(uint32_t features, uint32_t classes, xsm_model **model, xsm_error *err);
XSM_API xsm_status xsm_model_save(const xsm_model *model, const char *path, xsm_error *err);
XSM_API uint32_t xsm_model_classes(const xsm_model *model);
XSM_API size_t xsm_model_get(const xsm_model *model, const uint64_t *rows, uint64_t count, const xsm_options *options);

#ifdef __cplusplus
}
#endif

#endif
