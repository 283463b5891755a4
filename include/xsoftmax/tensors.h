/* SPDX-License-Identifier: MIT */
/**
 * @file tensors.h
 * @brief Tensors of the host in a model and its files, such as the weights of its own network.
 */
#ifndef XSOFTMAX_TENSORS_H
#define XSOFTMAX_TENSORS_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/dataset.h>
#include <xsoftmax/model.h>

/** @defgroup tensors Tensors of the host
 *
 * A host keeps tensors of its own in a model: what its network has below the softmax, tables, statistics. They are
 * saved with the model, in every file, checkpoint and storage, where their names begin with `host.`, and are used in
 * place when it is loaded. A model that grows, is pruned or converted keeps them; the library does no more with them.
 *  @{ */

/** Most bytes of a tensor's name. */
#define XSM_TENSOR_NAME_MAX 255
/** Most dimensions of a tensor. */
#define XSM_TENSOR_RANK_MAX 8

/** A tensor of the host. Start with #XSM_TENSOR_INIT. */
typedef struct xsm_tensor {
    size_t size;       /**< sizeof(xsm_tensor). */
    const char *name;  /**< NAME, 1 to #XSM_TENSOR_NAME_MAX bytes of UTF-8 without control characters; in files it is
                            `host.NAME`, also if it begins so itself. */
    const char *dtype; /**< Type of the numbers, by its name in safetensors files: BOOL, U8, I8, F8_E4M3, F8_E5M2, U16,
                            I16, F16, BF16, U32, I32, F32, U64, I64 or F64. */
    const uint64_t *shape; /**< [rank] size of each dimension, the last varies fastest; 0 is allowed. */
    uint32_t rank;         /**< Dimensions, 0 (one number) to #XSM_TENSOR_RANK_MAX. */
    int32_t ownership;     /**< #XSM_COPY, or #XSM_BORROW: the model points to the host's `data`, which must stay until
                                the tensor is set again or removed, or the model's last reference is given up. What is
                                saved is what they are at that time; they must not change while it is saved. Borrowed
                                data begin at a multiple of the size of a number. */
    const void *data;      /**< The numbers, without gaps, in the byte order of the machine; NULL without numbers. */
    size_t bytes;          /**< Bytes of `data`, those of dtype and shape. */
    xsm_release_hook release; /**< With #XSM_BORROW alone, else it is #XSM_ERROR_ARGUMENT: called when the model no
                                 longer needs `data`. It must not use the model. NULL = the caller knows. */
    void *release_user;       /**< Argument of release(). */
} xsm_tensor;

/** Starting value of an #xsm_tensor. */
#define XSM_TENSOR_INIT                                                                                                \
    {                                                                                                                  \
        sizeof(xsm_tensor), NULL, NULL, NULL, 0, 0, NULL, 0, NULL, NULL                                                \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Puts a tensor into a model, in place of one of the same name. Numbers are not checked: they may be NaN. `tensor` may
 *  be a view of a tensor of this model or another (xsm_model_get_tensor()), also of the one that is replaced: it is
 *  copied before that is released. To lend such data, set `ownership` to #XSM_BORROW: those of another model, which
 *  must then live so long, or what the host has lent to this one.
 *  @param model  the model
 *  @param tensor the tensor; name, dtype and shape are copied
 *  @param err    what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT for a name or `dtype` that is not accepted, for `bytes` that are not those of
 *          dtype and shape, for #XSM_BORROW of `data` that are this model's own or misaligned, and for release()
 *          without #XSM_BORROW; #XSM_ERROR_RANGE for `rank` and `ownership`. The model is unchanged on failure.
 *          O(bytes + tensors) */
XSM_API xsm_status xsm_model_set_tensor(xsm_model *model, const xsm_tensor *tensor, xsm_error *err);
/** Fills `tensor` (start it with #XSM_TENSOR_INIT) with a view of the tensor of that name, valid until it is set again
 *  or removed, or the model's last reference is given up, even if the weights change. Its `ownership` is #XSM_COPY and
 *  it has no release(), also where the host has lent the data: the view can be set as it is. In a model that was
 *  loaded, `data` lie in the mapped file, or in the bytes of its storage. They always begin at a multiple of the size
 *  of a number. O(log tensors).
 *  @return #XSM_OK; #XSM_ERROR_NAME if there is no such tensor */
XSM_API xsm_status xsm_model_get_tensor(const xsm_model *model, const char *name, xsm_tensor *tensor, xsm_error *err);
/** Name number `index` of the model's tensors in alphabetic order, valid as a view of the tensor is; NULL past the
 *  last. O(1). */
XSM_API const char *xsm_model_tensor_name(const xsm_model *model, size_t index);
/** Removes a tensor.
 *  @return #XSM_OK; #XSM_ERROR_NAME if there is no such tensor. O(tensors) */
XSM_API xsm_status xsm_model_remove_tensor(xsm_model *model, const char *name, xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
