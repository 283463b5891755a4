/*
 * The state of reading a sparse file; sparse.c reads the file, sparse_row.c a line.
 */
#ifndef XSMI_SPARSE_H
#define XSMI_SPARSE_H

#include "read/entry_sort.h"
#include "read/reader.h"

typedef struct xsmi_sparse {
    xsmi_reader *r;
    bool libsvm;
    /* The line being read. */
    const char *line, *end;
    uint64_t line_number;
    float watched; /* numbers from this size on may be too close together for float32 */
    const char *features_start;

    uint64_t declared_rows; /* XC header; has_header */
    uint64_t declared_labels;
    bool has_header;

    /* Indexes are those of the file while the base is open, else from 0. */
    bool base_open;                    /* LIBSVM: no index 0 so far, and the base must be detected */
    uint32_t base;                     /* subtracted while reading; 0 while open */
    uint64_t limit;                    /* features accepted, without the base */
    const char *limit_by;              /* what set the limit; NULL = the largest supported */
    uint64_t plain_first, plain_count; /* indexes that are stored as in the file */
    uint64_t kept;                     /* from here on features are dropped and counted; UINT64_MAX = never */
    uint64_t largest;                  /* largest index + 1, 0 = none */
    uint64_t edge_line, edge_column;   /* first position of an index that is too large if the base is 0 */

    uint64_t queries, query_line; /* LIBSVM: query ids that were skipped, and the line of the first */
    bool any_number;              /* numbers beyond the limit are accepted, as codes, until xsmi_sparse_compact() */
    xsmi_dictionary wide;         /* the numbers beyond the limit */

    xsmi_entry_sort sort;
} xsmi_sparse;

/* The code of the first number beyond the limit. */
#define XSMI_SPARSE_WIDE UINT32_C(0x80000000)

/* Whether a line is a row: labels that are numbers, or none, then features, and nothing else. Adds the number of
 * features to *pairs. */
bool xsmi_sparse_is_row(const char *text, size_t length, size_t *pairs);
/* Updates the range of indexes that need no further check; call after every change of limit, base or base_open. */
void xsmi_sparse_set_plain(xsmi_sparse *s);
/* Reads a line, which ends with a line end at text[length], as the next row. */
xsm_status xsmi_sparse_read_row(xsmi_sparse *s, const char *text, size_t length, xsm_error *err);
/* Call after the last row. *compacts: features got other numbers than the file's, and the reader D and the list of
 * these. (compact.c) */
xsm_status xsmi_sparse_compact(xsmi_sparse *s, bool *compacts, xsm_error *err);
/* Replaces the features of the only row that was read by their positions in `numbers`. (compact.c) */
xsm_status xsmi_sparse_place_row(xsmi_sparse *s, const xsmi_dictionary *numbers, xsm_error *err);

#endif
