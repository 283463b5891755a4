/* The rows read so far: arrays that grow, messages with positions, features and labels as options want them. */
#include "read/reader.h"
#include "base/grow.h"
#include "base/order.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

xsm_status xsmi_reader_fail(const xsmi_reader *r, xsm_error *err, xsm_status status, uint64_t line, uint64_t column,
                            const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return xsmi_fail_at(err, status, line, column, "%s, line %llu, column %llu: %s", r->source.name,
                        (unsigned long long)line, (unsigned long long)column, text);
}

xsm_status xsmi_reader_text(xsmi_reader *r, uint64_t line, uint64_t column, const char *where, const char **text,
                            size_t *length, xsm_error *err)
{
    const size_t valid = xsmi_utf8_prefix(*text, *length);
    if (valid == *length) {
        return XSM_OK;
    }
    if (r->options.bad_bytes != XSM_BAD_BYTES_REPLACE) {
        return xsmi_reader_fail(r, err, XSM_ERROR_FORMAT, line, column + valid,
                                "byte 0x%02X%s; UTF-8 text without NUL is accepted%s", (unsigned char)(*text)[valid],
                                where,
                                r->skips_labels /* an encoder, which has no such option */
                                    ? ""
                                    : " (xsm_read_options.bad_bytes = XSM_BAD_BYTES_REPLACE replaces others)");
    }
    size_t most;
    uint64_t replaced;
    if (!xsmi_multiply(*length, 3, &most) || !xsmi_add(most, 1, &most)) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "%s: a line that does not fit the address space", r->source.name);
    }
    XSMI_TRY(XSMI_GROW(r->context, r->mended, r->mended_capacity, most, "a line", err));
    *length = xsmi_utf8_mend(*text, *length, r->mended, &replaced);
    r->mended[*length] = '\n';
    *text = r->mended;
    r->replaced_line = r->replaced == 0 ? line : r->replaced_line;
    r->replaced += replaced;
    return XSM_OK;
}

xsm_status xsmi_reader_label(xsmi_reader *r, uint64_t line, uint64_t column, const char *word, size_t length,
                             xsm_error *err)
{
    const char *text = word;
    XSMI_TRY(xsmi_reader_text(r, line, column, " in a label", &text, &length, err));
    r->bad_labels |= text != word;
    return XSM_OK;
}

/* An array of the reader that must grow. */
typedef struct growth {
    size_t which; /* XSMI_READER_* */
    void *array;  /* its address */
    size_t *capacity, used, needed, each;
    const char *what;
} growth;

static xsm_status grow_spool(xsmi_reader *r, const growth *g, xsm_error *err)
{
    xsmi_spool *spool = &r->spools[g->which];
    size_t bytes;
    if (!xsmi_multiply(g->needed, g->each, &bytes)) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "%s: more than fits the address space", r->source.name);
    }
    XSMI_TRY(xsmi_spool_grow(spool, r->options.spool, bytes, err));
    memcpy(g->array, &spool->data, sizeof spool->data);
    *g->capacity = spool->bytes / g->each;
    return XSM_OK;
}

/* Grows an array to the size that the whole file will probably need. Repeated growth costs copies and new pages, which
 * took more time than parsing. It grows at most eightfold at a time, as the first rows may differ from the others.
 * Without an estimate, or without the memory, it grows in the usual steps. */
static xsm_status grow(xsmi_reader *r, const growth *g, xsm_error *err)
{
    if (r->options.spool) {
        return grow_spool(r, g, err);
    }
    double progress = xsmi_lines_progress(&r->lines);
    if (progress > 0 && g->used > 0) {
        double most = 8 * (double)*g->capacity;
        double wanted = (double)g->used / progress * 1.0625;
        wanted = XSMI_MIN(wanted, most);
        if (wanted > (double)g->needed && wanted < (double)(SIZE_MAX / 2)) {
            void *memory;
            memcpy(&memory, g->array, sizeof memory);
            void *grown = xsmi_reallocate(r->context, memory, *g->capacity, (size_t)wanted, g->each);
            if (grown) {
                memcpy(g->array, &grown, sizeof grown);
                *g->capacity = (size_t)wanted;
                return XSM_OK;
            }
        }
    }
    return xsmi_grow(r->context, (xsmi_array_ref){g->array, g->each}, g->capacity, g->needed, g->what, err);
}

#define GROW(r, which, array, capacity, used, needed, what, err)                                                       \
    ((needed) <= (capacity) ? XSM_OK                                                                                   \
                            : grow((r),                                                                                \
                                   &(growth){XSMI_READER_##which, &(array), &(capacity), (size_t)(used), (needed),     \
                                             sizeof *(array), (what)},                                                 \
                                   (err)))

xsm_status xsmi_reader_reserve(xsmi_reader *r, size_t values, size_t labels, xsm_error *err)
{
    size_t value_total, label_total;
    if (!xsmi_add(r->entries.count, values, &value_total) || !xsmi_add(r->label.count, labels, &label_total)) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "%s: more values than fit the address space", r->source.name);
    }
    size_t row_total = (size_t)r->rows + 2;
    XSMI_TRY(GROW(r, VALUES, r->entries.values, r->entries.value_capacity, r->entries.count, value_total,
                  "feature values", err));
    if (r->sparse) {
        XSMI_TRY(GROW(r, INDEX, r->entries.index, r->entries.index_capacity, r->entries.count, value_total,
                      "feature indexes", err));
        XSMI_TRY(GROW(r, OFFSETS, r->entries.offsets, r->entries.offset_capacity, r->rows, row_total, "rows", err));
    }
    XSMI_TRY(GROW(r, LABELS, r->label.numbers, r->label.capacity, r->label.count, label_total, "labels", err));
    if (r->options.label_weights && label_total > r->label.weight_capacity) {
        XSMI_TRY(
            XSMI_GROW(r->context, r->label.weights, r->label.weight_capacity, label_total, "weights of labels", err));
    }
    if (r->options.weights_column && row_total > r->weight_capacity) {
        XSMI_TRY(XSMI_GROW(r->context, r->weights, r->weight_capacity, row_total, "weights of rows", err));
    }
    return GROW(r, LABEL_OFFSETS, r->label.offsets, r->label.offset_capacity, r->rows, row_total, "rows", err);
}

void xsmi_reader_forget_weights(xsmi_reader *r)
{
    xsmi_release(r->context, r->weights, r->weight_capacity, sizeof *r->weights);
    r->weights = NULL;
    r->weight_capacity = 0;
    r->options.weights_column = NULL;
}

void xsmi_reader_end_row(xsmi_reader *r)
{
    uint64_t before = r->sparse ? r->entries.offsets[r->rows] : r->entries.count - r->stride;
    xsmi_reader_passed(r, (r->entries.count - before) * (sizeof *r->entries.values + sizeof *r->entries.index) +
                              sizeof *r->entries.offsets);
    r->rows++;
    if (r->sparse) {
        r->entries.offsets[r->rows] = r->entries.count;
    }
    r->label.offsets[r->rows] = r->label.count;
}

const char *xsmi_reader_label_column(const xsmi_reader *r)
{
    return r->options.label_column ? r->options.label_column : "label";
}

uint32_t xsmi_reader_features(const xsmi_reader *r, bool *drops)
{
    const bool map = r->has_map && !r->options.new_features;
    *drops = r->options.features == 0 && map;
    return r->options.features ? r->options.features : map ? r->map.features : 0;
}
