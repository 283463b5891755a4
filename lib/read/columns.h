/* The columns of a table, as found from its first record, the options, and the class map. */
#ifndef XSMI_COLUMNS_H
#define XSMI_COLUMNS_H

#include "read/record.h"

typedef enum xsmi_role {
    XSMI_COLUMN_FEATURE,
    XSMI_COLUMN_LABEL,
    XSMI_COLUMN_WEIGHT,
    XSMI_COLUMN_TEXT,
    XSMI_COLUMN_LEFT_OUT,
    XSMI_COLUMN_ROW /* names or numbers of rows */
} xsmi_role;

typedef struct xsmi_columns {
    size_t count;
    unsigned char *roles; /* [count] XSMI_COLUMN_* */
    size_t capacity;
    bool header;     /* the first record has their names */
    bool trying;     /* the columns are only looked for, and may be missing */
    size_t features; /* number of columns of features */
    char *text;      /* with a header: their names, each terminated */
    size_t text_size, text_capacity;
    char *head; /* with a header: the text of the first record, in which its fields stay */
    size_t head_capacity;
    const char *reason; /* why the first record has names or not, if only its fields decided that */
    char found[160];    /* all names, for messages */
} xsmi_columns;

/* A field of a line, without blanks and quotes around it. */
typedef struct xsmi_part {
    const char *text;
    size_t length;
    size_t end;  /* position of the separator after it, or of the line's end */
    bool spaced; /* blanks are before it */
    bool quoted;
    bool open;   /* its closing quote is in another line */
    bool broken; /* its closing quote is followed by neither a separator nor the line's end */
} xsmi_part;

/* Finds the next field from *at on and moves *at behind its separator; false if none is left. */
bool xsmi_columns_next(const char *line, size_t length, char separator, size_t *at, xsmi_part *part);
/* Whether options are set that only tables have, so that the file must be one. */
bool xsmi_columns_asked_for(const xsm_read_options *o);
/* Returns the separator of the options, or the one that splits a first line best; '\0' if none does. */
char xsmi_columns_separator(const xsmi_reader *r, int32_t format, const char *line, size_t length);
/* Fails if another separator splits a first line without known names equally well: `1.234,5;2`. */
xsm_status xsmi_columns_check_separator(const xsmi_reader *r, uint64_t line_number, const char *line, size_t length,
                                        xsm_error *err);
/* How surely a first line is that of a table: SURE if it has the label column's name, or if the options ask for a
 * table; MAYBE if it is numbers alone, or names alone, or has as many columns as the class map. */
typedef enum xsmi_table_match { XSMI_TABLE_NO, XSMI_TABLE_MAYBE, XSMI_TABLE_SURE } xsmi_table_match;
xsmi_table_match xsmi_columns_match(const xsmi_reader *r, int32_t format, const char *line, size_t length);
/* Whether a first line has names of columns, that of labels among them, and nothing else. */
bool xsmi_columns_is_header(const xsmi_reader *r, const char *line, size_t length);
/* Whether a field is a whole number, perhaps negative. */
bool xsmi_columns_is_whole(const char *text, size_t length, int64_t *number);
/* Returns the position of column `number` among `count` columns without names; SIZE_MAX: there is none. The number
 * counts the columns of the class map's table; the rows may lack its labels, or all but its features. `label`: the
 * column is that of labels. */
size_t xsmi_columns_place(const xsmi_reader *r, size_t count, int64_t number, bool label);
/* Removes the blanks around a field. */
void xsmi_columns_trim(const char **text, size_t *length);
/* Whether a field stands for a missing value. */
/* Whether a column of this name numbers or names rows: pandas and R write the rows' numbers or names into a first
 * column without a name, which pandas reads as "Unnamed: 0", or "Unnamed: 0.1" beside one. */
bool xsmi_columns_names_rows(const char *name, size_t length, bool first);
bool xsmi_columns_is_missing(const char *text, size_t length);
/* Whether a field is a truth value as Python, R and spreadsheets write it, perhaps between blanks; sets *value to 1 or
 * 0. */
bool xsmi_columns_is_truth(const char *text, size_t length, float *value);
/* Whether a field is a number, a truth value, or stands for a missing one, with blanks around it or without. */
bool xsmi_columns_is_number(const char *text, size_t length);
/* Finds the columns from the first record, whose fields were split. The caller releases with xsmi_columns_end(), after
 * a failure too. */
xsm_status xsmi_columns_find(xsmi_record *c, xsmi_columns *k, xsm_error *err);
/* Whether a field of a record is the name of a column. */
bool xsmi_columns_is_name(const xsmi_record *c, const xsmi_columns *k, const xsmi_field *f);
/* Fails at a field that is not a number from `at` on. */
xsm_status xsmi_columns_fail(const xsmi_record *c, const xsmi_columns *k, size_t column, const xsmi_field *f,
                             const char *at, const char *expected, xsm_error *err);
void xsmi_columns_end(xsmi_columns *k, xsm_context *ctx);

#endif
