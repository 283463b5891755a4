#include "model/host_tensors.h"

#include "base/activity.h"
#include "base/entry.h"
#include "base/grow.h"
#include "base/heap_sort.h"
#include "base/order.h"
#include "base/utf8.h"
#include "model/model.h"

#include <string.h>

#define PREFIX_LENGTH (sizeof XSMI_HOST_PREFIX - 1)
_Static_assert(XSM_TENSOR_RANK_MAX == XSMI_TENSOR_RANK, "a host's tensor fits a file's");

static const char *plain_name(const xsmi_host_tensor *t)
{
    return t->name + PREFIX_LENGTH;
}

static bool is_host_tensor(const char *name)
{
    return strncmp(name, XSMI_HOST_PREFIX, PREFIX_LENGTH) == 0;
}

bool xsmi_host_tensors_mapped(const xsmi_host_tensors *h)
{
    bool mapped = false;
    for (size_t i = 0; i < h->count; i++) {
        mapped |= h->list[i]->mapped;
    }
    return mapped;
}

static const char *name_of(const void *tensors, size_t i)
{
    return plain_name(((const xsmi_host_tensors *)tensors)->list[i]);
}

static size_t find(const xsmi_host_tensors *h, const char *name, bool *found)
{
    return xsmi_find_text(name_of, h, h->count, name, found);
}

static bool is_name(const char *name)
{
    const size_t length = strlen(name);
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)name[i] < ' ' || name[i] == 0x7F) {
            return false;
        }
    }
    return length >= 1 && length <= XSM_TENSOR_NAME_MAX && xsmi_utf8_prefix(name, length) == length;
}

static void release(xsm_context *ctx, xsmi_host_tensor *t)
{
    if (t) {
        xsmi_lender lender = t->lender;
        xsmi_release(ctx, t->copy, t->tensor.size, 1);
        xsmi_release_text(ctx, t->name);
        xsmi_release(ctx, t, 1, sizeof *t);
        xsmi_lender_tell(&lender);
    }
}

void xsmi_host_tensors_clear(xsm_context *ctx, xsmi_host_tensors *h)
{
    for (size_t i = 0; i < h->count; i++) {
        release(ctx, h->list[i]);
    }
    xsmi_release(ctx, h->list, h->capacity, sizeof *h->list);
    *h = (xsmi_host_tensors){NULL, 0, 0};
}

static xsm_status copy_data(xsm_context *ctx, xsmi_host_tensor *t, xsm_error *err)
{
    XSMI_TRY(xsmi_array_new(ctx, &t->copy, t->tensor.size, 1, "a tensor of the host", err));
    XSMI_TRY(xsmi_copy_bytes(ctx, t->copy, t->tensor.data, t->tensor.size, err));
    t->tensor.data = t->copy;
    return XSM_OK;
}

/* Makes a tensor like `from`, whose name need not have the prefix. */
static xsm_status make(xsm_context *ctx, const char *name, const xsmi_tensor *from, bool copy, xsmi_host_tensor **out,
                       xsm_error *err)
{
    const size_t length = strlen(name) + PREFIX_LENGTH;
    char text[PREFIX_LENGTH + XSM_TENSOR_NAME_MAX + 1] = XSMI_HOST_PREFIX;
    xsmi_host_tensor *t;
    XSMI_TRY(xsmi_struct_new(ctx, &t, sizeof *t, "a tensor of the host", err));
    memcpy(text + PREFIX_LENGTH, name, length - PREFIX_LENGTH + 1);
    t->tensor = *from;
    t->tensor.name = t->name = xsmi_copy_text(ctx, text, length);
    xsm_status status = t->name ? XSM_OK : xsmi_fail_memory(err, length + 1, "a tensor of the host");
    status = status == XSM_OK && copy ? copy_data(ctx, t, err) : status;
    if (status != XSM_OK) {
        release(ctx, t);
        return status;
    }
    *out = t;
    return XSM_OK;
}

/* Puts a tensor into the list, which takes it and releases one of the same name. */
static xsm_status put(xsm_context *ctx, xsmi_host_tensors *h, xsmi_host_tensor *t, xsm_error *err)
{
    bool found;
    const size_t at = find(h, plain_name(t), &found);
    if (found) {
        xsmi_host_tensor *before = h->list[at];
        h->list[at] = t;
        release(ctx, before);
        return XSM_OK;
    }
    const xsm_status status = XSMI_GROW(ctx, h->list, h->capacity, h->count + 1, "the host's tensors", err);
    if (status != XSM_OK) {
        release(ctx, t);
        return status;
    }
    memmove(h->list + at + 1, h->list + at, (h->count - at) * sizeof *h->list);
    h->list[at] = t;
    h->count++;
    return XSM_OK;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(xsmi_host_tensor *const *)a)->name, (*(xsmi_host_tensor *const *)b)->name);
}

/* Sorts the list once: put() for each tensor would take time quadratic in their number. */
static xsm_status sort_list(const xsm_context *ctx, xsmi_host_tensors *h, xsm_error *err)
{
    return xsmi_heap_sort_polled(ctx, h->list, h->count, sizeof *h->list, compare_names)
               ? XSM_OK
               : xsmi_fail_cancelled(ctx, err);
}

xsm_status xsmi_host_tensors_read(xsm_context *ctx, const xsmi_container *file, const char *name, xsmi_host_tensors *h,
                                  xsm_error *err)
{
    const xsmi_tensor *tensor;
    xsmi_container_know(file, XSMI_HOST_PREFIX);
    for (size_t i = 0; (tensor = xsmi_container_tensor_at(file, i)) != NULL; i++) {
        if (!is_host_tensor(tensor->name)) {
            continue;
        }
        if (!is_name(tensor->name + PREFIX_LENGTH)) {
            return xsmi_fail(err, XSM_ERROR_FORMAT,
                             "%s: the name of tensor '%.300s' is not 1 to %d bytes of UTF-8 behind '" XSMI_HOST_PREFIX
                             "' without control characters",
                             name, tensor->name, XSM_TENSOR_NAME_MAX);
        }
        XSMI_TRY(XSMI_GROW(ctx, h->list, h->capacity, h->count + 1, "the host's tensors", err));
        XSMI_TRY(make(ctx, tensor->name + PREFIX_LENGTH, tensor, false, &h->list[h->count], err));
        h->list[h->count++]->mapped = true;
    }
    return sort_list(ctx, h, err);
}

xsm_status xsmi_host_tensors_copy(xsm_context *ctx, const xsmi_host_tensors *from, xsmi_host_tensors *to,
                                  xsm_error *err)
{
    xsm_status status = XSM_OK;
    for (size_t i = 0; i < from->count && status == XSM_OK; i++) {
        xsmi_host_tensor *t = NULL;
        status = make(ctx, plain_name(from->list[i]), &from->list[i]->tensor, true, &t, err);
        status = status == XSM_OK ? put(ctx, to, t, err) : status;
    }
    if (status != XSM_OK) {
        xsmi_host_tensors_clear(ctx, to);
    }
    return status;
}

/* Checks that data which the host lends is not the model's own: not a tensor's copy, and not in what the model was
 * loaded from. */
static xsm_status check_lent(const xsmi_host_tensors *h, const xsmi_tensor *t, xsm_error *err)
{
    const uintptr_t begin = (uintptr_t)t->data;
    for (size_t i = 0; i < h->count; i++) {
        const xsmi_host_tensor *other = h->list[i];
        const uintptr_t start = (uintptr_t)other->tensor.data;
        if ((other->copy || other->mapped) && begin < start + other->tensor.size && start < begin + t->size) {
            return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                             "tensor '%s': xsm_tensor.data are the model's, of its tensor '%s'; they can be copied "
                             "(XSM_COPY), not borrowed",
                             t->name, plain_name(other));
        }
    }
    return XSM_OK;
}

/* Checks a tensor of the host's, and makes a file's tensor of it, whose name has no prefix. */
static xsm_status read_tensor(const xsm_tensor *given, xsmi_tensor *out, bool *borrow, xsmi_lender *lender,
                              xsm_error *err)
{
    xsm_tensor known = XSM_TENSOR_INIT;
    XSMI_TRY(XSMI_READ(xsm_tensor, &known, given, err));
    if (!known.name || !is_name(known.name)) {
        return xsmi_fail(
            err, XSM_ERROR_ARGUMENT,
            "xsm_tensor.name is %s%.300s%s; 1 to %d bytes of UTF-8 without control characters are accepted",
            known.name ? "'" : "", known.name ? known.name : "NULL", known.name ? "'" : "", XSM_TENSOR_NAME_MAX);
    }
    *out = (xsmi_tensor){.name = known.name, .rank = known.rank, .data = known.data};
    if (!known.dtype || !xsmi_dtype_parse(known.dtype, &out->dtype)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "tensor '%s': xsm_tensor.dtype is %.100s; " XSMI_DTYPE_NAMES " are accepted", known.name,
                         known.dtype ? known.dtype : "NULL");
    }
    if (known.rank > XSM_TENSOR_RANK_MAX) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "tensor '%s': xsm_tensor.rank is %u; 0 to %d are accepted", known.name,
                         known.rank, XSM_TENSOR_RANK_MAX);
    }
    if (known.ownership != XSM_COPY && known.ownership != XSM_BORROW) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "tensor '%s': xsm_tensor.ownership is %d; XSM_COPY or XSM_BORROW is accepted", known.name,
                         known.ownership);
    }
    if (known.rank > 0 && !known.shape) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "tensor '%s': xsm_tensor.shape is NULL", known.name);
    }
    for (uint32_t i = 0; i < known.rank; i++) {
        out->shape[i] = known.shape[i];
    }
    if (!xsmi_tensor_bytes(out, &out->size) || out->size > SIZE_MAX / 2) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "tensor '%s': its shape has more bytes than can be addressed",
                         known.name);
    }
    if (out->size != known.bytes) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "tensor '%s': xsm_tensor.bytes is %llu; its dtype and shape have %zu",
                         known.name, (unsigned long long)known.bytes, out->size);
    }
    if (out->size > 0 && !known.data) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "tensor '%s': xsm_tensor.data is NULL", known.name);
    }
    const size_t number = xsmi_dtype_size(out->dtype);
    if (out->size > 0 && known.ownership == XSM_BORROW && (uintptr_t)known.data % number != 0) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "tensor '%s': xsm_tensor.data begin %zu bytes behind a multiple of %zu; borrowed numbers of "
                         "%zu bytes begin at one",
                         known.name, (size_t)((uintptr_t)known.data % number), number, number);
    }
    if (known.release && known.ownership != XSM_BORROW) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "tensor '%s': release() is of XSM_BORROW; a copy needs the data for the call only",
                         known.name);
    }
    *borrow = known.ownership == XSM_BORROW;
    *lender = (xsmi_lender){known.release, known.release_user};
    return XSM_OK;
}

xsm_status xsm_model_set_tensor(xsm_model *m, const xsm_tensor *given, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {m, "the model"}, {given, "the tensor"});
    xsmi_tensor tensor;
    xsmi_lender lender = {NULL, NULL};
    xsmi_host_tensor *t = NULL;
    bool borrow = false;
    XSMI_TRY(read_tensor(given, &tensor, &borrow, &lender, err));
    XSMI_TRY(borrow ? check_lent(&m->host, &tensor, err) : XSM_OK);
    /* The given tensor may be in the memory of the one that it replaces, so it is copied before that is released. */
    XSMI_TRY(make(m->context, tensor.name, &tensor, !borrow, &t, err));
    XSMI_TRY(put(m->context, &m->host, t, err));
    t->lender = lender; /* the lender is not called if this has failed */
    return XSM_OK;
}

static xsm_status fail_unknown(const char *name, xsm_error *err)
{
    return xsmi_fail(err, XSM_ERROR_NAME, "the model has no tensor '%.300s' of the host", name);
}

xsm_status xsm_model_get_tensor(const xsm_model *m, const char *name, xsm_tensor *tensor, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {m, "the model"}, {name, "the name"}, {tensor, "the tensor"});
    bool found;
    const size_t at = find(&m->host, name, &found);
    if (!found) {
        return fail_unknown(name, err);
    }
    const xsmi_host_tensor *t = m->host.list[at];
    const xsm_tensor view = {.size = sizeof view,
                             .name = plain_name(t),
                             .dtype = xsmi_dtype_name(t->tensor.dtype),
                             .shape = t->tensor.shape,
                             .rank = t->tensor.rank,
                             .ownership = XSM_COPY, /* so that the view can be set in another model */
                             .data = t->tensor.data,
                             .bytes = t->tensor.size};
    return XSMI_WRITE(xsm_tensor, &view, tensor, err);
}

const char *xsm_model_tensor_name(const xsm_model *m, size_t index)
{
    return m && index < m->host.count ? plain_name(m->host.list[index]) : NULL;
}

xsm_status xsm_model_remove_tensor(xsm_model *m, const char *name, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {m, "the model"}, {name, "the name"});
    bool found;
    const size_t at = find(&m->host, name, &found);
    if (!found) {
        return fail_unknown(name, err);
    }
    xsmi_host_tensor *removed = m->host.list[at];
    m->host.count--;
    memmove(m->host.list + at, m->host.list + at + 1, (m->host.count - at) * sizeof *m->host.list);
    release(m->context, removed);
    return XSM_OK;
}
