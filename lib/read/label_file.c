/*
 * Labels in a file of their own: text with a line for each row, `l1,l2` or `l1:1 l2:1`, perhaps below a header of two
 * or three numbers, rows first and labels last, as the Extreme Classification Repository has them; a vector of NumPy, a
 * label a row; or a sparse matrix of SciPy, which is not zero where a row has a label.
 */
#include "read/label_file.h"
#include "base/order.h"
#include "base/utf8.h"
#include "read/csr.h"
#include "read/foreign.h"
#include "read/npy_array.h"
#include "read/number.h"

#include <stdio.h>
#include <string.h>

typedef struct label_lines {
    xsmi_reader *r; /* the reader of the rows, all of which have been read */
    xsmi_lines lines;
    uint64_t rows, declared; /* labels below `declared` are accepted */
    const char *line;
    uint64_t count, last; /* lines without the header; and those up to the last that is not empty */
    bool bare, pairs;     /* bare: line 1 is only numbers, like a header, and was read as labels; pairs: other lines are
                             `l:v` */
    uint64_t bare_rows;   /* the first of the numbers */
    bool numbered;        /* each line has two labels, and the first rises by 1 from line to line, from `number` on */
    int64_t number;
} label_lines;

static xsm_status fail(const label_lines *l, const char *at, const char *what, xsm_error *err)
{
    return xsmi_fail_at(err, XSM_ERROR_FORMAT, l->lines.line, (uint64_t)(at - l->line) + 1,
                        "%s, line %llu, column %llu: %s", l->lines.source->name, (unsigned long long)l->lines.line,
                        (unsigned long long)(at - l->line) + 1, what);
}

/* Reads `label` or `label:value` at *at. */
static xsm_status read_label(label_lines *l, const char **at, int64_t *label, float *weight, xsm_error *err)
{
    const char *const start = *at;
    *weight = 1;
    if (xsmi_parse_integer(start, at, label) != XSMI_NUMBER_OK) {
        return fail(l, start, "expected a label, an integer of 64 bits", err);
    }
    if (l->declared < UINT64_MAX && (*label < 0 || (uint64_t)*label >= l->declared)) {
        char text[120];
        snprintf(text, sizeof text, "label %lld; the first line declares %llu labels, from 0", (long long)*label,
                 (unsigned long long)l->declared);
        return fail(l, start, text, err);
    }
    if (**at != ':') {
        return XSM_OK;
    }
    const char *number = *at + 1;
    if (xsmi_parse_float(number, at, weight) != XSMI_NUMBER_OK || !(*weight >= 0)) {
        return fail(l, number, "expected the label's value, finite and at least 0", err);
    }
    return *weight == 1 || l->r->options.label_weights
               ? XSM_OK
               : fail(l, number,
                      "a value other than 1, which is the label's weight; xsm_read_options.label_weights reads weights",
                      err);
}

/* Reads a row's labels from a line, which is followed by its line end. */
static xsm_status read_line(label_lines *l, size_t length, xsm_error *err)
{
    xsmi_reader *r = l->r;
    const char *p = l->line, *end = l->line + length;
    xsmi_row_labels row = {.r = r};
    size_t count = 0;
    int64_t first = 0;
    XSMI_TRY(xsmi_reader_reserve(r, 0, length / 2 + 1, err));
    for (;; count++) {
        int64_t label;
        float weight;
        const bool comma = count > 0 && p < end && *p == ',';
        const char *before = p;
        p += comma;
        while (xsmi_is_space(*p)) {
            p++;
        }
        if (p == end && !comma) {
            break;
        }
        if (count > 0 && p == before) {
            return fail(l, p, "expected a comma or a space after a label", err);
        }
        XSMI_TRY(read_label(l, &p, &label, &weight, err));
        XSMI_TRY(xsmi_row_labels_add(&row, label, weight, err));
        first = count == 0 ? label : first;
    }
    l->number = r->rows == 0 ? first : l->number;
    l->numbered &= count == 2 && (uint64_t)first - (uint64_t)l->number == r->rows;
    return xsmi_row_labels_end(&row, err);
}

static xsm_status wrong_count(const label_lines *l, uint64_t count, xsm_error *err)
{
    return xsmi_fail(err, XSM_ERROR_SHAPE, "%s has labels for %llu rows, and %s has %llu rows; the numbers must agree",
                     l->lines.source->name, (unsigned long long)count, l->r->source.name, (unsigned long long)l->rows);
}

/* Ends the labels of a row. */
static void end_row(label_lines *l)
{
    l->r->label.offsets[++l->r->rows] = l->r->label.count;
}

/* Whether line 1 is a header: its first number is that of the rows. If it is not, the lines that follow decide. */
static bool is_header(label_lines *l, size_t length)
{
    int64_t number = 0;
    const char *p = l->line;
    const size_t count = xsmi_count_integers(p, length);
    for (size_t i = 0; i < count; i++) {
        while (xsmi_is_space(*p)) {
            p++;
        }
        if (count > 3 || xsmi_parse_integer(p, &p, &number) != XSMI_NUMBER_OK) {
            return false;
        }
        l->bare_rows = i == 0 ? (uint64_t)number : l->bare_rows;
    }
    l->bare = count > 1 && l->bare_rows > 0;
    if (!l->bare || l->bare_rows != l->rows) {
        return false;
    }
    l->bare = false;
    l->declared = (uint64_t)number;
    return true;
}

static xsm_status end_lines(const label_lines *l, xsm_error *err)
{
    const uint64_t follow = l->count - 1, last = l->last - 1;
    if (l->bare && (l->pairs || (l->bare_rows >= last && l->bare_rows <= follow))) {
        return xsmi_fail(
            err, XSM_ERROR_SHAPE,
            "%s has labels for %llu rows, and %s has %llu rows; the numbers must agree (line 1 is a header; "
            "if it is labels, put commas between them)",
            l->lines.source->name, (unsigned long long)l->bare_rows, l->r->source.name, (unsigned long long)l->rows);
    }
    if (l->last > l->rows || l->count < l->rows) {
        return wrong_count(l, XSMI_MAX(l->last, XSMI_MIN(l->count, l->rows)), err);
    }
    if (l->numbered && l->rows > 1 && (l->number == 0 || l->number == 1)) {
        xsmi_log(l->r->context, XSM_LOG_WARNING,
                 "%s: each line has two labels, and the first counts the lines from %d; if it is the number of the row "
                 "and no label, leave it out: cut -d, -f2",
                 l->lines.source->name, (int)l->number);
    }
    return XSM_OK;
}

static xsm_status read_lines(label_lines *l, xsm_error *err)
{
    xsmi_reader *r = l->r;
    for (;;) {
        char *text;
        size_t length;
        XSMI_TRY(xsmi_lines_next(&l->lines, &text, &length, err));
        if (!text) {
            return end_lines(l, err);
        }
        l->line = text;
        if (l->lines.line == 1 && is_header(l, length)) {
            continue;
        }
        l->count++;
        l->last = length > 0 ? l->count : l->last;
        l->pairs |= memchr(text, ':', length) != NULL;
        if (r->rows < l->rows) {
            XSMI_TRY(read_line(l, length, err));
            end_row(l);
        }
    }
}

static xsm_status read_vector(label_lines *l, xsm_error *err)
{
    xsmi_source *s = l->lines.source;
    xsmi_npy n = {.name = s->name};
    XSMI_TRY(xsmi_npy_read_header(s, &n, err));
    if (n.kind == 'U' || n.kind == 'S') {
        return XSMI_NPY_FAIL(&n, err, "%s",
                             "labels that are text; numbers are read: save numpy.unique(y, return_inverse=True)[1]");
    }
    if (n.rank < 1 || n.columns != 1) {
        return XSMI_NPY_FAIL(
            &n, err,
            "labels of the shape (%llu, %llu); (%llu,) is needed, a label for each row, or for several "
            "scipy.sparse.save_npz('y.npz', scipy.sparse.csr_matrix(y))",
            (unsigned long long)n.rows, (unsigned long long)n.columns, (unsigned long long)l->rows);
    }
    for (uint64_t i = 0; i < n.rows; i++) {
        unsigned char bytes[8];
        size_t got;
        int64_t label;
        xsmi_row_labels row = {.r = l->r};
        if (n.rows != l->rows) {
            return wrong_count(l, n.rows, err);
        }
        XSMI_TRY(xsmi_npy_read(s, bytes, n.size, &got, err));
        if (got < n.size) {
            return xsmi_npy_cut_short(&n, i, err);
        }
        if (!xsmi_npy_integer(&n, bytes, &label)) {
            return XSMI_NPY_FAIL(&n, err, "the label of row %llu (from 0) is no integer of 64 bits",
                                 (unsigned long long)i);
        }
        XSMI_TRY(xsmi_reader_reserve(l->r, 0, 1, err));
        XSMI_TRY(xsmi_row_labels_add(&row, label, 1, err));
        XSMI_TRY(xsmi_row_labels_end(&row, err));
        end_row(l);
    }
    return n.rows == l->rows ? xsmi_npy_check_end(s, &n, err) : wrong_count(l, n.rows, err);
}

static xsm_status add_matrix_row(label_lines *l, const xsmi_csr *m, xsm_error *err)
{
    const uint64_t i = l->r->rows, first = m->offsets[i], last = m->offsets[i + 1];
    xsmi_row_labels row = {.r = l->r};
    XSMI_TRY(xsmi_reader_reserve(l->r, 0, (size_t)(last - first), err));
    for (uint64_t j = first; j < last; j++) {
        const float weight = m->values[j];
        if (weight < 0 || (weight != 1 && weight != 0 && !l->r->options.label_weights)) {
            return xsmi_fail(err, XSM_ERROR_FORMAT,
                             "%s: row %llu, column %u (both from 0): a label with the value %g, and 1 is accepted, or "
                             "another weight of 0 and more with xsm_read_options.label_weights",
                             l->lines.source->name, (unsigned long long)i, m->index[j], (double)weight);
        }
        XSMI_TRY(weight == 0 ? XSM_OK : xsmi_row_labels_add(&row, m->index[j], weight, err));
    }
    XSMI_TRY(xsmi_row_labels_end(&row, err));
    end_row(l);
    return XSM_OK;
}

static xsm_status read_matrix(label_lines *l, xsm_error *err)
{
    xsmi_csr m;
    xsm_status status = xsmi_csr_read(l->lines.source, &m, err);
    status = status == XSM_OK && m.rows != l->rows ? wrong_count(l, m.rows, err) : status;
    while (status == XSM_OK && l->r->rows < l->rows) {
        status = add_matrix_row(l, &m, err);
    }
    xsmi_csr_end(&m);
    return status;
}

static xsm_status read_labels(label_lines *l, xsm_error *err)
{
    const unsigned char *bytes;
    size_t count;
    XSMI_TRY(xsmi_source_peek(l->lines.source, 6, &bytes, &count, err));
    if (count >= 6 && memcmp(bytes, XSMI_NPY_MAGIC, 6) == 0) {
        return read_vector(l, err);
    }
    return xsmi_is_npz(bytes, count) ? read_matrix(l, err) : read_lines(l, err);
}

/* Refuses rows with labels of their own beside a file of labels. */
static xsm_status check_rows(const xsmi_reader *r, xsm_error *err)
{
    for (uint64_t i = 0; i < r->rows && r->label.count > 0; i++) {
        if (r->label.offsets[i + 1] > 0) {
            return xsmi_fail(err, XSM_ERROR_FORMAT,
                             "%s: row %llu (from 0) has labels; they are in it or in a file of their own "
                             "(xsm_read_options.labels_path), one of them is accepted",
                             r->source.name, (unsigned long long)i);
        }
    }
    return XSM_OK;
}

xsm_status xsmi_read_label_file(xsmi_reader *r, xsm_error *err)
{
    xsmi_source source;
    label_lines l = {.r = r, .rows = r->rows, .declared = UINT64_MAX, .numbered = true};
    XSMI_TRY(check_rows(r, err));
    xsm_status status = xsmi_source_open_file(&source, r->context, r->options.labels_path, err);
    if (status == XSM_OK) {
        xsmi_lines_start(&l.lines, &source);
        r->rows = 0;
        status = read_labels(&l, err);
    }
    xsmi_lines_end(&l.lines);
    xsmi_source_close(&source);
    return status;
}
