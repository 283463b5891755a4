/*
 * The formats of files. A format is one file, which ends in its table, and a line in XSMI_FORMATS.
 */
#ifndef XSMI_FORMAT_H
#define XSMI_FORMAT_H

#include "read/output.h"
#include "read/reader.h"

/* How surely a line shows a format. */
typedef enum xsmi_match {
    XSMI_MATCH_NO,
    XSMI_MATCH_MAYBE, /* of this format, unless a later line shows another */
    XSMI_MATCH_OPEN,  /* perhaps of this format; a later line decides */
    XSMI_MATCH_SURE
} xsmi_match;

/* A line at the beginning of a file. */
typedef struct xsmi_early_line {
    const char *text;
    size_t length;
    bool top;   /* the first line of the file */
    bool first; /* all lines before it are empty */
    bool sizes; /* the first line of the file, before this one, is two whole numbers */
} xsmi_early_line;

/* Options that only some formats have. */
enum {
    XSMI_ACCEPTS_INDEX_BASE = 1,
    XSMI_ACCEPTS_COLUMNS = 2,
    XSMI_ACCEPTS_TEXT = 4,
    XSMI_ACCEPTS_LABELS_PATH = 8,
    XSMI_ACCEPTS_SKIP_VERIFY = 16,
    XSMI_ACCEPTS_LABEL_WEIGHTS = 32,
    XSMI_ACCEPTS_DUPLICATES = 64,
    XSMI_ACCEPTS_BAD_BYTES = 128,
    XSMI_ACCEPTS_TABLE = 256
};

/* What the labels of a file are. */
typedef enum xsmi_label_kind {
    XSMI_LABELS_NUMBERS,
    XSMI_LABELS_WORDS, /* names, or numbers if all of them are numbers */
    XSMI_LABELS_NAMES
} xsmi_label_kind;

typedef struct xsmi_format {
    int32_t id;       /* XSM_FORMAT_* */
    const char *name; /* what follows XSM_FORMAT_ */
    const char *form; /* for messages: how its lines look; NULL = it is recognised by its first bytes */
    unsigned accepts; /* XSMI_ACCEPTS_* */
    xsmi_label_kind labels;
    bool sparse; /* rows are read as features that are not 0 */
    bool single; /* a row has at most one label */
    bool named;  /* files contain the names of classes */
    /* Whether a file of this format begins with these bytes; OPEN: more bytes are needed. NULL = match() is used
     * instead. */
    xsmi_match (*begins)(const unsigned char *start, size_t size);
    xsmi_match (*match)(const xsmi_reader *r, const xsmi_early_line *line);
    /* Reads all rows, from the first line on. */
    xsm_status (*read)(xsmi_reader *r, xsm_error *err);
    /* Used in place of read(): makes a dataset on the file's mapping. `believe`: the checksum is not compared. */
    xsm_status (*map)(xsm_context *ctx, const char *path, bool believe, xsm_dataset **out, xsm_error *err);
    /* Writes the whole file. NULL = save() */
    xsm_status (*write)(xsmi_output *o, xsm_error *err);
    /* Writes the labels to a file of their own. NULL = they are in the same file. */
    xsm_status (*write_labels)(xsmi_output *o, xsm_error *err);
    /* Used in place of write(): writes the file by itself. If this is NULL, too, the format cannot be written. */
    xsm_status (*save)(const xsm_dataset *d, const char *path, xsmi_activity *activity, xsm_error *err);
} xsmi_format;

/* The formats: a new one is its file and a line here. Of formats that a line shows equally well the first is taken. */
/* clang-format off */
#define XSMI_FORMATS(X) \
    X(xsmi_xc_format) \
    X(xsmi_text_format) \
    X(xsmi_csv_format) \
    X(xsmi_tsv_format) \
    X(xsmi_libsvm_format) \
    X(xsmi_npy_format) \
    X(xsmi_npz_format) \
    X(xsmi_cache_format)
/* clang-format on */
#define XSMI_DECLARE_FORMAT(table) extern const xsmi_format table;
XSMI_FORMATS(XSMI_DECLARE_FORMAT)

/* All formats, ended by NULL. */
extern const xsmi_format *const xsmi_formats[];
/* Returns the format with that number, NULL if there is none. */
const xsmi_format *xsmi_format_of(int32_t id);
/* Returns the highest number of a format. */
int32_t xsmi_format_last(void);

/* Decides by the first line whether the file is the table that xsm_read_options.text_column and other options describe;
 * fails if that is uncertain. (text_table.c) */
xsm_status xsmi_detect_text_table(xsmi_reader *r, bool *table, xsm_error *err);

#endif
