/* The arrays of a saved state, which a table's save() adds and its load() reads; and the calls of save() and load(). */
#include "sampler/arrays.h"
#include "base/entry.h"

#include <string.h>

/* Most dimensions of an array. */
enum { RANK = sizeof((xsm_array){0}.shape) / sizeof(uint64_t) };

/* Returns the type in files, or -1 for a type that arrays do not have. */
static int file_type(int32_t type)
{
    switch (type) {
    case XSM_DTYPE_FLOAT32:
        return XSMI_DTYPE_F32;
    case XSM_DTYPE_FLOAT64:
        return XSMI_DTYPE_F64;
    case XSM_DTYPE_UINT8:
        return XSMI_DTYPE_U8;
    case XSM_DTYPE_INT32:
        return XSMI_DTYPE_I32;
    case XSM_DTYPE_UINT32:
        return XSMI_DTYPE_U32;
    case XSM_DTYPE_INT64:
        return XSMI_DTYPE_I64;
    case XSM_DTYPE_UINT64:
        return XSMI_DTYPE_U64;
    default:
        return -1;
    }
}

void xsmi_array_writer_clear(xsm_array_writer *w)
{
    xsmi_release(w->context, w->tensors, w->capacity, sizeof *w->tensors);
    w->tensors = NULL;
    w->count = w->capacity = 0;
}

const xsmi_tensor *xsmi_array_get(const xsm_array_reader *r, const char *name)
{
    for (size_t i = 0; i < r->count; i++) {
        if (strcmp(r->tensors[i].name, name) == 0) {
            (void)(r->file && xsmi_container_tensor(r->file, name)); /* marks the tensor as known */
            return &r->tensors[i];
        }
    }
    return NULL;
}

xsm_status xsmi_array_tree(const xsm_array_reader *r, const xsm_sampler_problem *problem, xsmi_tree *tree,
                           xsm_error *err)
{
    xsmi_tensor_source source = {problem->context, r->name, problem->classes, problem->features, {NULL}};
    for (size_t i = 0; i < XSMI_TREE_TENSORS; i++) {
        source.tensors[i] = xsmi_array_get(r, xsmi_tree_tensor_names[i]);
    }
    return xsmi_tree_restore(&source, tree, err);
}

xsm_status xsmi_array_put(xsm_array_writer *w, const xsmi_tensor *tensor, xsm_error *err)
{
    if (w->count == w->capacity) {
        size_t capacity = w->capacity ? 2 * w->capacity : 8;
        xsmi_tensor *grown = xsmi_reallocate(w->context, w->tensors, w->capacity, capacity, sizeof *grown);
        if (!grown) {
            return xsmi_fail_memory(err, capacity * sizeof *grown, "a list of arrays");
        }
        w->tensors = grown;
        w->capacity = capacity;
    }
    w->tensors[w->count++] = *tensor;
    return XSM_OK;
}

xsm_status xsm_array_write(xsm_array_writer *w, const xsm_array *given, xsm_error *err)
{
    XSMI_ENTER(err);
    xsm_array a = XSM_ARRAY_INIT;
    XSMI_NEED(err, {w, "the writer"}, {given, "the array"});
    XSMI_TRY(XSMI_READ(xsm_array, &a, given, err));
    if (!a.name || !*a.name || strcmp(a.name, "__metadata__") == 0 || file_type(a.type) < 0 || a.rank < 1 ||
        a.rank > RANK) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "xsm_array_write: an array needs a name, a type of the XSM_DTYPE_* values that are not "
                         "reserved for weights, and 1 to %d "
                         "dimensions",
                         RANK);
    }
    xsm_array_reader so_far = {w->tensors, w->count, NULL, NULL};
    xsmi_tensor t = {.name = a.name, .dtype = (xsmi_dtype)file_type(a.type), .rank = a.rank, .data = a.data};
    memcpy(t.shape, a.shape, a.rank * sizeof *t.shape);
    if (!xsmi_tensor_bytes(&t, &t.size) || (t.size > 0 && !a.data) || xsmi_array_get(&so_far, a.name)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "xsm_array_write: array '%s' is there already, has no data, or cannot be addressed", a.name);
    }
    return xsmi_array_put(w, &t, err);
}

xsm_status xsm_array_read(const xsm_array_reader *r, const char *name, int32_t type, uint32_t rank, xsm_array *array,
                          xsm_error *err)
{
    XSMI_ENTER(err);
    if (!r || !name || !array || file_type(type) < 0) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_array_read: %s",
                         !r       ? "the reader is NULL"
                         : !name  ? "the name is NULL"
                         : !array ? "the array is NULL"
                                  : "the type is none of the XSM_DTYPE_* values that arrays have");
    }
    const xsmi_dtype dtype = (xsmi_dtype)file_type(type);
    const xsmi_tensor *t = xsmi_array_get(r, name);
    if (!t || t->dtype != dtype || t->rank != rank || rank > RANK) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: an array '%s' of %s with %u dimensions is needed, %s", r->name,
                         name, xsmi_dtype_name(dtype), rank, t ? "that there is is another" : "there is none");
    }
    xsm_array a = XSM_ARRAY_INIT;
    a.name = t->name;
    a.type = type;
    a.rank = rank;
    memcpy(a.shape, t->shape, rank * sizeof *a.shape);
    a.data = t->data;
    return XSMI_WRITE(xsm_array, &a, array, err);
}

/* -- states -------------------------------------------------------------------------------------------------------- */

xsm_status xsmi_sampler_arrays(const xsm_sampler *s, xsm_array_writer *w, xsm_error *err)
{
    if (!s->ops.save) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "sampler '%s': its table has no save() and load()", s->ops.name);
    }
    return s->ops.save(s->state, w, err);
}

xsm_status xsmi_sampler_restore(xsm_sampler *s, const xsm_array_reader *r, uint32_t classes, uint32_t features,
                                xsm_error *err)
{
    if (!s->ops.load) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "sampler '%s': its table has no save() and load()", s->ops.name);
    }
    xsm_sampler_problem problem = {
        .size = sizeof problem,
        .context = s->context,
        .classes = classes,
        .features = features,
        .seed = (uint64_t)s->common.seed,
    };
    xsm_status status = s->ops.load(s->state, &problem, r, err);
    if (status != XSM_OK) {
        if (s->ops.unbind) {
            s->ops.unbind(s->state);
        }
        return status;
    }
    s->bound = true;
    s->classes = classes;
    s->features = features;
    s->code_length = s->ops.code_length ? s->ops.code_length(s->state) : 0;
    return XSM_OK;
}
