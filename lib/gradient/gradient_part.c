/* The part of a gradient that belongs to some of the classes. */
#include "gradient/gradient.h"

#include "base/order.h"

#include <string.h>

/* Whether the lists have only labels, because a matrix has the coefficients of the other classes. */
static bool has_labels_alone(const xsm_gradient *g)
{
    return xsmi_gradient_is_shared(g) && !g->shared.listed;
}

/* Adds entries of an example's list, numbered from `from`, whose classes are of the part; also their coefficients, if
 * the list has them. */
static void add_entries(const xsm_gradient *g, uint64_t i, uint64_t from, const uint32_t *classes,
                        const uint32_t *entries, uint32_t count, xsm_gradient *out)
{
    const bool sifted = xsmi_gradient_is_sifted(g);
    const uint64_t row = i * g->width, to = i * out->width;
    for (uint32_t t = 0; t < count; t++) {
        const uint64_t entry = from + entries[t], at = to + out->lengths[i]++;
        out->classes[at] = classes[t];
        if (sifted) {
            out->coefficients[to + classes[t]] = g->coefficients[row + g->classes[row + entry]];
        } else {
            out->coefficients[at] = g->coefficients[row + entry];
        }
        if (g->proximal) {
            out->shrinks[at] = g->shrinks[row + entry];
        }
        out->example[i].label_count += entry < g->example[i].label_count;
    }
}

/* Copies the entries of the classes from the examples' lists; uses the gradient's own lists if they are of the same
 * classes. */
static void copy_lists(const xsm_gradient *g, uint32_t first, uint32_t end, xsm_gradient *out)
{
    enum { SOME = 64 };
    const xsmi_own_lists *own = &g->work.own;
    const bool known = end > 0 && own->first == first && own->end == end;
    uint32_t classes[SOME], entries[SOME];
    for (uint64_t i = 0; i < g->examples; i++) {
        const uint64_t row = i * g->width, length = has_labels_alone(g) ? g->example[i].label_count : g->lengths[i];
        out->lengths[i] = 0;
        out->example[i] = (xsm_example){.label_count = 0};
        for (uint64_t j = 0; !known && j < length; j += SOME) {
            const uint32_t listed = (uint32_t)XSMI_MIN(length - j, (uint64_t)SOME);
            const uint32_t count = xsmi_part_list(first, end, g->classes + row + j, listed, classes, entries);
            add_entries(g, i, j, classes, entries, count, out);
        }
        if (known) {
            add_entries(g, i, 0, own->classes + row, own->entries + row, own->counts[i], out);
        }
    }
}

/* Copies the shared classes of the part and their matrix; if its columns are adjacent in the whole matrix, `out` points
 * into that. */
static xsm_status copy_shared(const xsm_gradient *g, uint32_t first, uint32_t end, xsm_gradient *out, xsm_error *err)
{
    const xsmi_shared_classes *from = &g->shared;
    xsmi_shared_classes *to = &out->shared;
    xsmi_shared_draws *d = &out->work.shared;
    size_t count;
    uint32_t *columns; /* [count] columns in the whole matrix */
    XSMI_TRY(xsmi_gradient_reserve_shared(out, from->count, err));
    to->listed = from->listed;
    columns = d->draws; /* scratch: a part has no draws */
    out->form = XSMI_GRADIENT_SHARED;
    for (uint32_t c = 0; c < from->count; c++) {
        const uint32_t class = from->classes[c];
        if (class >= first && class < end) {
            columns[to->count] = c;
            to->column[class - first] = to->count;
            to->classes[to->count++] = class - first;
        }
    }
    if (to->count > 0 && columns[to->count - 1] - columns[0] == to->count - 1) { /* the columns are adjacent */
        to->matrix = from->matrix + columns[0];
        to->stride = from->stride;
        return XSM_OK;
    }
    to->stride = xsmi_row_stride(from->count);
    if (!xsmi_multiply((size_t)g->examples, to->stride * sizeof *to->matrix, &count) ||
        !xsmi_reserve(out->context, &d->memory, &d->memory_capacity, count, 1)) {
        return xsmi_fail_memory(err, SIZE_MAX, "the coefficients of a batch");
    }
    to->matrix = (float *)(void *)d->memory;
    for (uint64_t i = 0; i < g->examples; i++) {
        for (uint32_t c = 0; c < to->count; c++) {
            to->matrix[i * to->stride + c] = from->matrix[i * from->stride + columns[c]];
        }
    }
    return XSM_OK;
}

xsm_status xsmi_gradient_part(const xsm_gradient *g, uint32_t first, uint32_t end, xsm_gradient *out, xsm_error *err)
{
    const bool dense = xsmi_gradient_is_dense(g), sifted = xsmi_gradient_is_sifted(g);
    const xsmi_gradient_shape shape = {.form = xsmi_gradient_is_shared(g) ? XSMI_GRADIENT_LISTED : g->form,
                                       .examples = g->examples,
                                       .width = dense ? end - first : g->width,
                                       .model_classes = end - first,
                                       .proximal = g->proximal};
    XSMI_TRY(xsmi_gradient_reserve(out, &shape, err));
    const size_t row = (size_t)out->width * sizeof *out->coefficients;
    for (uint64_t i = 0; dense && i < g->examples; i++) {
        float *to = out->coefficients + i * out->width;
        if (sifted) {
            memset(to, 0, row);
        } else {
            memcpy(to, xsmi_gradient_row(g, i) + first, row);
        }
    }
    if (xsmi_gradient_has_lists(g)) {
        copy_lists(g, first, end, out);
    }
    if (xsmi_gradient_is_shared(g)) {
        XSMI_TRY(copy_shared(g, first, end, out, err));
    }
    if (dense) {
        out->whole = (xsmi_whole_gradient){g->width, xsmi_gradient_count(g, true)};
    }
    out->layered = g->layered;
    out->decay = g->decay;
    out->row_bound = g->row_bound;
    out->loss = g->loss;
    out->largest = g->largest;
    out->examples = g->examples;
    return XSM_OK;
}
