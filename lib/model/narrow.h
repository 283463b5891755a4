/*
 * The table of the kinds of weights (kernels/weight_kinds.h), and those in fewer bits than float32, which are scored
 * and never changed, in a model's file: a tensor of the kind's type and, where rows have factors, these in a tensor F32
 * whose name ends in "_scale".
 */
#ifndef XSMI_MODEL_NARROW_H
#define XSMI_MODEL_NARROW_H

#include "base/safetensors.h"
#include "model/model.h"

/* A line of the lists in weight_kinds.h. */
typedef struct xsmi_weight_kind {
    int32_t dtype; /* XSM_DTYPE_* */
    const char *name;
    xsmi_dtype tensor; /* in files */
    int whole;         /* 0, or rows have factors, and numbers are whole ones up to this */
    size_t few;
} xsmi_weight_kind;
/* Returns the kind of an XSM_DTYPE_* value, or of a tensor's type; NULL if weights cannot have this type. */
const xsmi_weight_kind *xsmi_kind_of(int32_t dtype);
const xsmi_weight_kind *xsmi_kind_in_file(xsmi_dtype tensor);
/* Returns the next kind, the first after NULL, or NULL. */
const xsmi_weight_kind *xsmi_kind_after(const xsmi_weight_kind *kind);

/* Whether each row of weights of a type has a factor. */
static inline bool xsmi_has_factors(int32_t dtype)
{
    return xsmi_kind_of(dtype)->whole > 0;
}
/* Returns the bytes of the factors of `rows` rows in a file. */
static inline uint64_t xsmi_factor_bytes(int32_t dtype, uint32_t rows)
{
    return xsmi_has_factors(dtype) ? (uint64_t)rows * sizeof(float) : 0;
}

/* In a file: the names of the factors of `weight` and `embedding`. */
#define XSMI_WEIGHT_SCALE "weight_scale"
#define XSMI_EMBEDDING_SCALE "embedding_scale"
/* Gives a matrix the numbers of a tensor [rows, columns] of the file, in place, and their factors [rows] if the kind
 * has some, in allocated memory. The tensor's type is that of a kind. Refuses factors that do not belong there. */
xsm_status xsmi_weights_read(xsm_context *ctx, const xsmi_container *file, const char *path, const xsmi_tensor *numbers,
                             const char *factors_name, xsmi_weights *w, xsm_error *err);
/* Refuses numbers of the rows first..first+count that are not finite, which a file of another program may have;
 * messages call the first row `number`. */
xsm_status xsmi_narrow_check(const xsmi_narrow *n, size_t first, size_t count, size_t number, xsm_error *err);

#endif
