/*
 * Weights in fewer bits than float32, which are scored and never changed: bfloat16, rounded to nearest, ties to even;
 * and int8 with a factor for each row, max |w|/127, of which each weight is a whole multiple. In a model's file they
 * are tensors BF16, or I8 with the factors in a tensor F32 of the same name and "_scale".
 */
#ifndef XSMI_MODEL_NARROW_H
#define XSMI_MODEL_NARROW_H

#include "base/safetensors.h"
#include "model/model.h"

/* Of an XSM_DTYPE_* value of weights: its name (NULL: no weights have it), and the bytes of a number. */
const char *xsmi_narrow_name(int32_t dtype);
static inline size_t xsmi_number_bytes(int32_t dtype)
{
    return dtype == XSM_DTYPE_INT8 ? sizeof(int8_t) : dtype == XSM_DTYPE_BFLOAT16 ? sizeof(uint16_t) : sizeof(float);
}
/* Bytes of the factors of so many rows in a file. */
static inline uint64_t xsmi_factor_bytes(int32_t dtype, uint32_t rows)
{
    return dtype == XSM_DTYPE_INT8 ? (uint64_t)rows * sizeof(float) : 0;
}

/* Releases numbers of so many bytes (0: they are mapped). */
void xsmi_narrow_free(xsm_context *ctx, xsmi_narrow *w, size_t bytes);

/* In a file: the names of the factors of `weight` and `embedding`, and the type of a tensor. */
#define XSMI_WEIGHT_SCALE "weight_scale"
#define XSMI_EMBEDDING_SCALE "embedding_scale"
xsmi_dtype xsmi_narrow_tensor_type(int32_t dtype);
/* The numbers of a tensor [rows, columns] of the file, in place, and their factors [rows], allocated, or NULL. A tensor
 * of float32 leaves both as they are; the factors are then refused. */
xsm_status xsmi_narrow_read(xsm_context *ctx, const xsmi_container *file, const char *path, const xsmi_tensor *numbers,
                            const char *factors_name, xsmi_narrow *w, double **factors, xsm_error *err);
/* Writes factors, as float32, and numbers. */
xsm_status xsmi_narrow_write_factors(const double *factors, uint32_t rows, xsmi_container_writer *w, xsm_error *err);
xsm_status xsmi_narrow_write(const xsmi_narrow *n, uint32_t rows, xsmi_container_writer *w, xsm_error *err);

#endif
