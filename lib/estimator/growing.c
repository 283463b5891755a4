/*
 * Lists of classes that grow on demand, of a divided model: what examples ask for and no rank knows is noted, and then
 * all ranks search for it together. Examples whose lists of the same block grow by as much are searched together.
 */
#include "estimator/search.h"

#include "base/grow.h"
#include "base/order.h"

#include <math.h>
#include <string.h>

static const char what[] = "lists of classes that grow";

xsm_status xsmi_growing_new(xsmi_searcher *s, size_t examples, xsmi_growing *g, xsm_error *err)
{
    *g = (xsmi_growing){.searcher = s};
    if (s->most == 0) {
        return XSM_OK;
    }
    size_t cursors = 0;
    for (uint32_t j = 0; j < s->blocks; j++) {
        const size_t of = xsmi_index_cursor(s->indexes[j].index);
        g->stride = XSMI_MAX(of, g->stride);
    }
    g->examples = examples;
    g->lists = xsmi_allocate_zero(s->context, examples * s->blocks, sizeof *g->lists);
    g->wanted = xsmi_allocate_zero(s->context, examples, sizeof *g->wanted);
    g->of = xsmi_allocate(s->context, examples, sizeof *g->of);
    g->queries = xsmi_allocate(s->context, examples, s->query_stride * sizeof *g->queries);
    return xsmi_multiply(examples * s->blocks, g->stride, &cursors) && g->lists && g->wanted && g->of && g->queries &&
                   xsmi_reserve(s->context, &s->results.cursors, &s->results.cursor_bytes, cursors, 1)
               ? XSM_OK
               : xsmi_fail_memory(err, cursors, what);
}

void xsmi_growing_free(xsmi_growing *g)
{
    const xsmi_searcher *s = g->searcher;
    for (size_t i = 0; g->lists && i < g->examples * s->blocks; i++) {
        xsmi_known_list *list = &g->lists[i];
        xsmi_release(s->context, list->classes, list->class_capacity, sizeof *list->classes);
        xsmi_release(s->context, list->scores, list->score_capacity, sizeof *list->scores);
    }
    if (s) {
        xsmi_release(s->context, g->lists, g->examples * s->blocks, sizeof *g->lists);
        xsmi_release(s->context, g->wanted, g->examples, sizeof *g->wanted);
        xsmi_release(s->context, g->of, g->examples, sizeof *g->of);
        xsmi_release(s->context, g->queries, g->examples, s->query_stride * sizeof *g->queries);
        xsmi_release(s->context, g->classes, g->class_capacity, sizeof *g->classes);
        xsmi_release(s->context, g->scores, g->score_capacity, sizeof *g->scores);
    }
}

void xsmi_growing_begin(const xsmi_growing *g, size_t example)
{
    for (uint32_t j = 0; g->examples > 0 && j < g->searcher->blocks; j++) {
        xsmi_known_list *list = &g->lists[example * g->searcher->blocks + j];
        list->length = 0;
        list->ended = false;
    }
}

bool xsmi_growing_next(const xsmi_growing *g, size_t example, const xsmi_growing_lists *shown, uint32_t j,
                       uint32_t count, uint32_t *found)
{
    const xsmi_searcher *s = g->searcher;
    const xsmi_known_list *list = &g->lists[example * s->blocks + j];
    const uint32_t length = shown->length[j], space = s->most - length, asked = XSMI_MIN(count, space);
    const uint32_t known = list->length - length, n = XSMI_MIN(asked, known);
    *found = 0;
    if (known < asked && !list->ended) {
        g->of[example] = j;
        g->wanted[example] = asked - known;
        return false;
    }
    if (n > 0) {
        const size_t at = (size_t)j * s->most + length;
        memcpy(shown->found + at, list->classes + length, n * sizeof *list->classes);
        memcpy(shown->score + at, list->scores + length, n * sizeof *list->scores);
        shown->length[j] += n;
    }
    *found = n;
    return true;
}

/* Lists that grow together. */
typedef struct alike {
    uint32_t count;
    xsmi_known_list *lists[XSM_INDEX_QUERIES];
    void *cursors[XSM_INDEX_QUERIES];
} alike;

/* Those that grow as that of the example `first`, which is the first of them; they are no longer wanted. */
static alike take_alike(const xsmi_growing *g, uint32_t first, uint32_t end)
{
    const xsmi_searcher *s = g->searcher;
    const uint32_t j = g->of[first], wanted = g->wanted[first];
    const bool begin = g->lists[(size_t)first * s->blocks + j].length == 0;
    alike a = {.count = 0};
    for (uint32_t i = first; i < end; i++) {
        xsmi_known_list *list = &g->lists[(size_t)i * s->blocks + j];
        if (g->wanted[i] == wanted && g->of[i] == j && (list->length == 0) == begin) {
            const size_t lists = (size_t)j * s->results.capacity + i, cursor = (size_t)j * g->examples + i;
            memcpy(g->queries + a.count * s->query_stride, s->results.queries + lists * s->query_stride,
                   s->query_stride * sizeof *g->queries);
            a.lists[a.count] = list;
            a.cursors[a.count++] = s->results.cursors + cursor * g->stride;
            g->wanted[i] = 0;
        }
    }
    return a;
}

/* Memory for what the lists grow by. */
static xsm_status reserve(xsmi_growing *g, const alike *a, uint32_t wanted, xsm_error *err)
{
    xsm_context *ctx = g->searcher->context;
    const size_t entries = (size_t)a->count * wanted;
    XSMI_TRY(XSMI_GROW(ctx, g->classes, g->class_capacity, entries, what, err));
    XSMI_TRY(XSMI_GROW(ctx, g->scores, g->score_capacity, entries, what, err));
    for (uint32_t i = 0; i < a->count; i++) {
        xsmi_known_list *list = a->lists[i];
        const size_t length = (size_t)list->length + wanted;
        XSMI_TRY(XSMI_GROW(ctx, list->classes, list->class_capacity, length, what, err));
        XSMI_TRY(XSMI_GROW(ctx, list->scores, list->score_capacity, length, what, err));
    }
    return XSM_OK;
}

xsm_status xsmi_growing_extend(xsmi_growing *g, uint32_t count, xsm_error *err)
{
    xsmi_searcher *s = g->searcher;
    uint32_t lengths[XSM_INDEX_QUERIES];
    uint64_t probed[XSM_INDEX_QUERIES];
    for (uint32_t first = 0; g->examples > 0 && first < count; first++) {
        const uint32_t wanted = g->wanted[first], j = g->of[first];
        if (wanted == 0) {
            continue;
        }
        const alike a = take_alike(g, first, count);
        const xsm_status status = reserve(g, &a, wanted, err);
        const xsm_index_block block = {
            .size = sizeof block,
            .queries = g->queries,
            .stride = s->query_stride,
            .count = a.count,
            .top = wanted,
            .threshold = -INFINITY,
            .classes = g->classes,
            .scores = g->scores,
            .lengths = lengths,
            .probed = probed,
            .list_stride = wanted,
            .cursor_stride = g->stride,
            .begin = a.lists[0]->length == 0,
        };
        XSMI_TRY(xsmi_index_find_next(s->indexes[j].index, &block, a.cursors, &s->results.desk, status, err));
        for (uint32_t i = 0; i < a.count; i++) {
            xsmi_known_list *list = a.lists[i];
            const size_t from = (size_t)i * wanted;
            memcpy(list->classes + list->length, g->classes + from, lengths[i] * sizeof *list->classes);
            memcpy(list->scores + list->length, g->scores + from, lengths[i] * sizeof *list->scores);
            list->length += lengths[i];
            list->ended = lengths[i] < wanted;
        }
    }
    return XSM_OK;
}
