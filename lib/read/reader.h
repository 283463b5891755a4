/*
 * Shared by the formats: the rows read so far, in arrays that grow, and their source. A format appends rows; read.c
 * turns them into a dataset.
 */
#ifndef XSMI_READER_H
#define XSMI_READER_H

#include "base/activity.h"
#include "base/base.h"
#include "base/spool.h"
#include "data/dataset.h"
#include "data/dictionary.h"
#include "data/schema.h"
#include "read/rounding.h"
#include "read/source.h"

enum {
    XSMI_READER_VALUES,
    XSMI_READER_INDEX,
    XSMI_READER_OFFSETS,
    XSMI_READER_LABELS,
    XSMI_READER_LABEL_OFFSETS,
    XSMI_READER_ARRAYS
};

/* The features of all rows. */
typedef struct xsmi_reader_entries {
    float *values;
    size_t count, value_capacity;
    uint32_t *index;
    size_t index_capacity;
    uint64_t *offsets; /* [rows+1] */
    size_t offset_capacity;
} xsmi_reader_entries;

/* The labels of all rows. */
typedef struct xsmi_reader_labels {
    uint32_t *numbers; /* in the dictionary */
    size_t count, capacity;
    float *weights; /* of the labels, in memory; NULL without xsm_read_options.label_weights */
    size_t weight_capacity;
    uint64_t *offsets; /* [rows+1] */
    size_t offset_capacity;
} xsmi_reader_labels;

typedef struct xsmi_reader {
    xsm_context *context;
    xsmi_activity activity;
    xsm_read_options options;
    xsm_text_options text; /* of the options, or the defaults */
    bool has_map;
    bool base_of_map;  /* options.index_base is the class map's; the file says nothing of it */
    xsm_class_map map; /* the caller's arrays */
    xsmi_source source;
    xsmi_lines lines;
    const struct xsmi_format *format;
    bool guessed;      /* the file shows no format, and `format` is the nearest */
    bool sparse;       /* xsmi_format::sparse */
    bool skips_labels; /* labels are checked and left out */

    uint64_t rows;
    uint32_t features; /* D; set by the readers, at the latest at their end */
    size_t stride;     /* dense: floats from row to row */
    xsmi_reader_entries entries;
    xsmi_reader_labels label;
    float *weights; /* [rows] with xsm_read_options.weights_column, in memory */
    size_t weight_capacity;
    xsmi_dictionary dictionary;
    xsmi_dictionary numbers; /* of words that are whole numbers; the mark is the word's number in `dictionary` */
    uint64_t dropped;
    uint64_t replaced, replaced_line; /* sequences of bad bytes that were replaced, and the line of the first */
    bool bad_labels;                  /* some are in labels, which the dictionary has unchanged */
    char *mended;                     /* scratch for text with bad bytes replaced */
    size_t mended_capacity;
    xsmi_rounding rounding;
    xsmi_spool spools[XSMI_READER_ARRAYS]; /* with xsm_read_options.spool: the files of the arrays */
    size_t since;                          /* bytes of these files touched since pages were last released */
    xsmi_schema *wanted;                   /* the features of the class map, or NULL */
    xsmi_schema *schema;                   /* the features of the file, if its format knows them; else NULL */
    uint32_t unknown_features;             /* columns that the class map lacks */
} xsmi_reader;

/* Fails at a position of the file; the message begins with path, line and column. */
xsm_status xsmi_reader_fail(const xsmi_reader *r, xsm_error *err, xsm_status status, uint64_t line, uint64_t column,
                            const char *format, ...) __attribute__((format(printf, 6, 7)));

/* Checks that text at a position of the file is UTF-8 without NUL. Otherwise fails or, as xsm_read_options.bad_bytes
 * says, sets *text to a copy in which bad bytes are replaced; it is followed by a line end and valid until the next
 * call. `where` is for messages: " in a label" or "". */
xsm_status xsmi_reader_text(xsmi_reader *r, uint64_t line, uint64_t column, const char *where, const char **text,
                            size_t *length, xsm_error *err);
/* Checks a label in the same way, but never replaces its bytes, so that labels that would become equal can still be
 * told apart. */
xsm_status xsmi_reader_label(xsmi_reader *r, uint64_t line, uint64_t column, const char *word, size_t length,
                             xsm_error *err);
/* Finds the number of a label that is a word, which is added if it is new: 24.0 is 24 if that was before it. */
xsm_status xsmi_reader_word(xsmi_reader *r, const char *word, size_t length, uint32_t *id, xsm_error *err);
/* Reserves `values` more values, `labels` more labels, and one more row. */
xsm_status xsmi_reader_reserve(xsmi_reader *r, size_t values, size_t labels, xsm_error *err);
/* Called by a pass over the arrays after `bytes` more bytes. Now and then it releases pages of spooled arrays. */
static inline void xsmi_reader_passed(xsmi_reader *r, size_t bytes)
{
    if (r->options.spool && (r->since += bytes) >= XSMI_FORGET_BYTES) {
        r->since = 0;
        for (size_t i = 0; i < XSMI_READER_ARRAYS; i++) {
            xsmi_mapping_forget(&(xsmi_mapping){.data = r->spools[i].data, .size = r->spools[i].bytes});
        }
    }
}
/* Drops the weights of the rows so far; later rows have none. */
void xsmi_reader_forget_weights(xsmi_reader *r);
/* Ends a row: the values and labels since the last one. Its memory was reserved before. */
void xsmi_reader_end_row(xsmi_reader *r);
/* Adds a label to the current row unless the row has it already. Its memory was reserved before. */
static inline void xsmi_reader_add_label(xsmi_reader *r, uint32_t id)
{
    if (r->dictionary.entries[id].mark != r->rows + 1) {
        r->dictionary.entries[id].mark = r->rows + 1;
        r->label.numbers[r->label.count++] = id;
    }
}
/* Adds a label with its weight to the current row. */
static inline void xsmi_reader_add_weighted(xsmi_reader *r, uint32_t id, float weight)
{
    const size_t before = r->label.count;
    xsmi_reader_add_label(r, id);
    if (r->label.weights && r->label.count > before) {
        r->label.weights[before] = weight;
    }
}
/* Takes the labels of a row one by one, which are numbers, and keeps those that xsm_read_options.labels wants. */
typedef struct xsmi_row_labels {
    xsmi_reader *r;
    bool any;
    int64_t smallest;
    float weight; /* of the smallest */
} xsmi_row_labels;

static inline xsm_status xsmi_row_labels_add(xsmi_row_labels *l, int64_t label, float weight, xsm_error *err)
{
    const int32_t which = l->r->options.labels;
    if (which == XSM_KEEP_LABELS_ALL || (which == XSM_KEEP_LABELS_FIRST && !l->any)) {
        uint32_t id;
        XSMI_TRY(xsmi_dictionary_number(&l->r->dictionary, label, &id, err));
        xsmi_reader_add_weighted(l->r, id, weight);
    }
    l->weight = !l->any || label < l->smallest ? weight : l->weight;
    l->smallest = !l->any || label < l->smallest ? label : l->smallest;
    l->any = true;
    return XSM_OK;
}
/* Call after the last label of a row. */
static inline xsm_status xsmi_row_labels_end(const xsmi_row_labels *l, xsm_error *err)
{
    if (l->any && l->r->options.labels == XSM_KEEP_LABELS_SMALLEST) {
        uint32_t id;
        XSMI_TRY(xsmi_dictionary_number(&l->r->dictionary, l->smallest, &id, err));
        xsmi_reader_add_weighted(l->r, id, l->weight);
    }
    return XSM_OK;
}

/* Whether an option, an XSM_RECALLED_* bit, describes the class map's table and not this file. */
static inline bool xsmi_reader_recalled(const xsmi_reader *r, int32_t option)
{
    return (r->options.recalled & option) != 0;
}
/* Returns the name of the label column in CSV and TSV files. */
const char *xsmi_reader_label_column(const xsmi_reader *r);
/* Returns the D that the caller has set, by `features` or by the class map, unless new features are wanted; 0 = none.
 * *drops: features from D on are dropped. */
uint32_t xsmi_reader_features(const xsmi_reader *r, bool *drops);

/* Gives a dataset, whose classes are those of its file, the classes of the class map. */
xsm_status xsmi_match_classes(const xsmi_reader *r, const char *path, xsm_dataset *d, xsm_error *err);
/* Gives d its classes and turns the reader's labels into them. */
xsm_status xsmi_set_classes(xsmi_reader *r, xsm_dataset *d, xsm_error *err);

/* Warns of words that look like another and are classes of their own: of all of `own`; or, with the class map `known`
 * and match[], of those that have no class there. */
xsm_status xsmi_tell_alike(xsm_context *ctx, const char *path, const xsm_class_map *own, const xsm_class_map *known,
                           const uint32_t *match, xsm_error *err);

/* Classes that have the name of an earlier one: their number, and the first such pair. */
typedef struct xsmi_repeated {
    uint32_t count, first, second;
} xsmi_repeated;
xsm_status xsmi_repeated_names(const xsm_dataset *d, xsmi_repeated *r, xsm_error *err);

/* Gives a dataset the weights of a file (weights.c). */
xsm_status xsmi_read_weights(xsm_dataset *d, const char *path, xsm_error *err);

#endif
