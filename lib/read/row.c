#include "read/row.h"
#include "base/grow.h"
#include "read/format.h"
#include "read/sparse.h"
#include "read/text.h"

#include <math.h>
#include <string.h>

struct xsmi_row_reader {
    xsmi_reader reader;
    xsmi_text text;          /* with a vocabulary */
    xsmi_sparse sparse;      /* without one */
    xsmi_dictionary numbers; /* the features by their numbers, if rows number them in another way */
    char *line;              /* of sparse rows: a copy with a line end */
    size_t line_capacity;
};

static xsm_status start(xsmi_row_reader *r, xsm_context *ctx, const xsmi_row_form *form, xsm_error *err)
{
    const bool words = form->format == XSM_FORMAT_TEXT;
    *r = (xsmi_row_reader){
        .reader = {.context = ctx, .sparse = true, .skips_labels = true, .has_map = true, .rounding = {.off = true}}};
    xsmi_reader *reader = &r->reader;
    reader->format = xsmi_format_of(form->format);
    reader->options = (xsm_read_options)XSM_READ_OPTIONS_INIT;
    reader->map = (xsm_class_map)XSM_CLASS_MAP_INIT;
    reader->map.features = form->features;
    reader->map.vocabulary = words ? form->vocabulary : NULL;
    reader->source = (xsmi_source){.context = ctx, .name = "the row", .fd = -1};
    reader->lines = (xsmi_lines){.source = &reader->source, .line = 1};
    if (words) {
        return xsmi_text_start(&r->text, reader, err);
    }
    r->sparse = (xsmi_sparse){
        .r = reader,
        .libsvm = form->format == XSM_FORMAT_LIBSVM,
        .base = form->format == XSM_FORMAT_LIBSVM && form->index_base == XSM_INDEX_BASE_ONE,
        .limit = XSM_FEATURES_MAX,
        .line_number = 1,
        .watched = INFINITY,
    };
    r->sparse.any_number = form->numbers != NULL;
    r->sparse.kept = form->numbers ? UINT64_MAX : form->features;
    xsmi_dictionary_start(&r->sparse.wide, ctx, false);
    xsmi_dictionary_start(&r->numbers, ctx, false);
    for (uint32_t j = 0; form->numbers && j < form->features; j++) {
        uint32_t feature;
        XSMI_TRY(xsmi_dictionary_number(&r->numbers, form->numbers[j], &feature, err));
    }
    xsmi_sparse_set_plain(&r->sparse);
    return XSM_OK;
}

xsm_status xsmi_row_reader_new(xsm_context *ctx, const xsmi_row_form *form, xsmi_row_reader **out, xsm_error *err)
{
    xsmi_row_reader *r;
    XSMI_TRY(xsmi_array_new(ctx, &r, 1, sizeof *r, "a reader of rows", err));
    const xsm_status status = start(r, ctx, form, err);
    if (status != XSM_OK) {
        xsmi_row_reader_free(r);
        return status;
    }
    *out = r;
    return XSM_OK;
}

void xsmi_row_reader_free(xsmi_row_reader *r)
{
    if (!r) {
        return;
    }
    xsm_context *ctx = r->reader.context;
    xsmi_reader_entries *e = &r->reader.entries;
    xsmi_reader_labels *l = &r->reader.label;
    if (r->text.r) {
        xsmi_text_end(&r->text);
    } else if (r->numbers.context) {
        xsmi_dictionary_end(&r->numbers);
        xsmi_dictionary_end(&r->sparse.wide);
    }
    xsmi_entry_sort_end(ctx, &r->sparse.sort);
    xsmi_release(ctx, r->line, r->line_capacity, 1);
    xsmi_release(ctx, e->values, e->value_capacity, sizeof *e->values);
    xsmi_release(ctx, e->index, e->index_capacity, sizeof *e->index);
    xsmi_release(ctx, e->offsets, e->offset_capacity, sizeof *e->offsets);
    xsmi_release(ctx, l->numbers, l->capacity, sizeof *l->numbers);
    xsmi_release(ctx, l->offsets, l->offset_capacity, sizeof *l->offsets);
    xsmi_release(ctx, r, 1, sizeof *r);
}

xsm_status xsmi_row_reader_reserve(xsmi_row_reader *r, size_t count, xsmi_row_entries *entries, xsm_error *err)
{
    xsmi_reader *reader = &r->reader;
    reader->rows = 0;
    reader->dropped = 0;
    reader->entries.count = 0;
    reader->label.count = 0;
    XSMI_TRY(xsmi_reader_reserve(reader, count, 0, err));
    reader->entries.offsets[0] = 0;
    reader->label.offsets[0] = 0;
    *entries = (xsmi_row_entries){reader->entries.index, reader->entries.values, count};
    return XSM_OK;
}

/* Reads a copy of the row with a line end, which the parser needs. */
static xsm_status read_sparse(xsmi_row_reader *r, const char *bytes, size_t length, xsm_error *err)
{
    XSMI_TRY(XSMI_GROW(r->reader.context, r->line, r->line_capacity, length + 1, "a row", err));
    memcpy(r->line, bytes, length);
    r->line[length] = '\n';
    XSMI_TRY(xsmi_sparse_read_row(&r->sparse, r->line, length, err));
    return r->sparse.any_number ? xsmi_sparse_place_row(&r->sparse, &r->numbers, err) : XSM_OK;
}

xsm_status xsmi_row_reader_read(xsmi_row_reader *r, const char *bytes, size_t length, xsmi_row_entries *entries,
                                xsm_error *err)
{
    XSMI_TRY(xsmi_row_reader_reserve(r, 0, entries, err));
    if (length > 0 && bytes[length - 1] == '\n') {
        length--;
    }
    if (length > 0 && bytes[length - 1] == '\r') {
        length--;
    }
    XSMI_TRY(r->text.r ? xsmi_text_read_row(&r->text, bytes, length, err) : read_sparse(r, bytes, length, err));
    const xsmi_reader_entries *read = &r->reader.entries;
    *entries = (xsmi_row_entries){read->index, read->values, read->count};
    return XSM_OK;
}
