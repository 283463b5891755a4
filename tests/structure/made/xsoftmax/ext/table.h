#ifndef XSOFTMAX_EXT_TABLE_H
#define XSOFTMAX_EXT_TABLE_H

#include <xsoftmax/kinds.h>

typedef struct xsm_table_ops {
    size_t size;
    uint64_t abi;
    xsm_status (*gradient)(void *state, uint32_t row);
    double (*bound)(const void *state);
    double (*rest)(const void *state);
} xsm_table_ops;

#ifdef __cplusplus
extern "C" {
#endif

XSM_API xsm_status xsm_table_add(const xsm_table_ops *ops, xsm_error *err);

#ifdef __cplusplus
}
#endif

#endif
