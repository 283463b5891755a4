/* Sparse matrices of SciPy: the arrays data, indices, indptr, shape and format of an archive, in any order. */
#include "read/csr.h"
#include "base/grow.h"
#include "base/order.h"
#include "read/npy_array.h"
#include "read/zip.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct archive {
    xsmi_source *file;
    xsmi_zip *zip;
    xsm_error failure; /* why reading the archive failed: an array's source cannot return that */
    xsmi_csr *m;
    bool has_shape, has_blocks; /* has_blocks: `data` is not a vector, so the format is not csr */
    char format[16];
    char names[120]; /* names of other arrays, for messages */
} archive;

static int64_t read_entry(void *user, void *buffer, size_t size)
{
    archive *a = user;
    size_t got;
    return xsmi_zip_read(a->zip, buffer, size, &got, &a->failure) == XSM_OK ? (int64_t)got : -1;
}

static xsm_status fail(const archive *a, const char *what, xsm_error *err)
{
    return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: %s", a->file->name, what);
}

/* Stores number i of an array in the matrix. */
typedef xsm_status (*taker)(archive *a, const xsmi_npy *n, const unsigned char *p, uint64_t i, xsm_error *err);

static xsm_status take_value(archive *a, const xsmi_npy *n, const unsigned char *p, uint64_t i, xsm_error *err)
{
    xsmi_csr *m = a->m;
    const double number = xsmi_npy_number(n, p);
    const float value = (float)number;
    if (!isfinite(value)) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: value %llu (from 0) of 'data' is not finite within float32",
                         a->file->name, (unsigned long long)i);
    }
    const uint64_t column = m->count < m->index_count ? m->index[m->count] : UINT64_MAX;
    if (value == 0 ? number != 0
                   : fabs(number) >= XSMI_ROUNDING_LEAST && n->size > (n->kind == 'f' ? sizeof(float) : 2) &&
                         xsmi_rounding_wants(&m->rounding, column)) {
        XSMI_TRY(xsmi_rounding_number(&m->rounding, column, number, err));
    }
    XSMI_TRY(XSMI_GROW(m->context, m->values, m->value_capacity, m->count + 1, "values of a matrix", err));
    m->values[m->count++] = value;
    return XSM_OK;
}

static xsm_status take_index(archive *a, const xsmi_npy *n, const unsigned char *p, uint64_t i, xsm_error *err)
{
    xsmi_csr *m = a->m;
    int64_t index;
    if (!xsmi_npy_integer(n, p, &index) || index < 0 || index > XSM_FEATURES_MAX) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: number %llu (from 0) of 'indices' is no column from 0 to %u",
                         a->file->name, (unsigned long long)i, (unsigned)XSM_FEATURES_MAX - 1);
    }
    XSMI_TRY(XSMI_GROW(m->context, m->index, m->index_capacity, m->index_count + 1, "columns of a matrix", err));
    m->index[m->index_count++] = (uint32_t)index;
    return XSM_OK;
}

static xsm_status take_offset(archive *a, const xsmi_npy *n, const unsigned char *p, uint64_t i, xsm_error *err)
{
    xsmi_csr *m = a->m;
    int64_t offset;
    if (!xsmi_npy_integer(n, p, &offset) || offset < 0 || (i == 0 && offset != 0) ||
        (i > 0 && (uint64_t)offset < m->offsets[i - 1])) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: 'indptr' does not rise from 0, at number %llu (from 0)",
                         a->file->name, (unsigned long long)i);
    }
    XSMI_TRY(XSMI_GROW(m->context, m->offsets, m->offset_capacity, m->offset_count + 1, "rows of a matrix", err));
    m->offsets[m->offset_count++] = (uint64_t)offset;
    return XSM_OK;
}

static xsm_status take_shape(archive *a, const xsmi_npy *n, const unsigned char *p, uint64_t i, xsm_error *err)
{
    int64_t size;
    if (n->rows != 2 || !xsmi_npy_integer(n, p, &size) || size < 0) {
        return fail(a, "'shape' is not two numbers", err);
    }
    *(i == 0 ? &a->m->rows : &a->m->columns) = (uint64_t)size;
    a->has_shape = true;
    return XSM_OK;
}

/* Reads the text of `format`, whose characters have one byte or four. */
static xsm_status take_format(archive *a, const xsmi_npy *n, const unsigned char *p, uint64_t i, xsm_error *err)
{
    size_t used = 0;
    (void)i;
    (void)err;
    for (size_t j = 0; j < n->size && used + 1 < sizeof a->format; j++) {
        if (p[j] >= ' ' && p[j] < 0x7F) {
            a->format[used++] = (char)p[j];
        }
    }
    return XSM_OK;
}

static xsm_status read_numbers(archive *a, xsmi_source *s, const xsmi_npy *n, taker take, xsm_error *err)
{
    unsigned char piece[4096];
    const size_t together = n->size > sizeof piece ? 0 : sizeof piece / n->size;
    if (take == take_value && n->rank > 1) {
        a->has_blocks = true; /* the array `format` may come later; the rest of this one is skipped */
        return XSM_OK;
    }
    if (n->rank > 1 || together == 0 || (take != take_format && (n->kind == 'U' || n->kind == 'S'))) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: %s is no vector of numbers", a->file->name, n->name);
    }
    for (uint64_t i = 0; i < n->rows;) {
        const size_t wanted = (size_t)XSMI_MIN(n->rows - i, (uint64_t)together);
        size_t got;
        XSMI_TRY(xsmi_npy_read(s, piece, wanted * n->size, &got, err));
        if (got < wanted * n->size) {
            return xsmi_npy_cut_short(n, i + got / n->size, err);
        }
        for (size_t j = 0; j < wanted; j++, i++) {
            XSMI_TRY(take(a, n, piece + j * n->size, i, err));
        }
    }
    return xsmi_npy_check_end(s, n, err);
}

static xsm_status read_array(archive *a, const char *name, taker take, xsm_error *err)
{
    char what[320];
    xsmi_source s;
    snprintf(what, sizeof what, "%.200s in %.80s", name, a->file->name);
    xsmi_npy n = {.name = what};
    a->failure = (xsm_error)XSM_ERROR_INIT;
    xsm_status status =
        xsmi_source_open_host(&s, a->file->context, &(xsm_source){sizeof(xsm_source), a, read_entry}, what, err);
    status = status == XSM_OK ? xsmi_npy_read_header(&s, &n, err) : status;
    status = status == XSM_OK ? read_numbers(a, &s, &n, take, err) : status;
    xsmi_source_close(&s);
    return a->failure.status != XSM_OK ? xsmi_fail_copy(err, &a->failure) : status;
}

static xsm_status read_entries(archive *a, xsm_error *err)
{
    static const struct {
        const char *name;
        taker take;
    } arrays[] = {{"data.npy", take_value},
                  {"indices.npy", take_index},
                  {"indptr.npy", take_offset},
                  {"shape.npy", take_shape},
                  {"format.npy", take_format}};
    for (;;) {
        const char *name;
        bool known = false;
        XSMI_TRY(xsmi_zip_next(a->zip, &name, err));
        if (!name) {
            return XSM_OK;
        }
        for (size_t i = 0; i < sizeof arrays / sizeof *arrays && !known; i++) {
            known = strcmp(name, arrays[i].name) == 0;
            XSMI_TRY(known ? read_array(a, name, arrays[i].take, err) : XSM_OK);
        }
        if (!known) {
            const size_t used = strlen(a->names);
            snprintf(a->names + used, sizeof a->names - used, "%s%.40s", used ? ", " : "", name);
        }
    }
}

static xsm_status check(const archive *a, xsm_error *err)
{
    const xsmi_csr *m = a->m;
    if (a->format[0] != '\0' && strcmp(a->format, "csr") != 0) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "%s: a sparse matrix in the format %s; csr is read: python3 -c \"import scipy.sparse as s; "
                         "s.save_npz('rows.npz', s.load_npz('FILE').tocsr())\"",
                         a->file->name, a->format);
    }
    if (a->format[0] == '\0' || !a->has_shape) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "%s: an archive of arrays (%s) that is no sparse matrix of SciPy; one array is read: python3 "
                         "-c \"import numpy; numpy.save('rows.npy', numpy.load('FILE')['NAME'])\"",
                         a->file->name, a->names);
    }
    if (a->has_blocks) {
        return fail(a, "'data' is no vector of numbers", err);
    }
    if (m->offset_count != m->rows + 1 || m->count != m->index_count || m->offsets[m->rows] != m->count) {
        return fail(a, "the arrays 'data', 'indices', 'indptr' and 'shape' contradict each other", err);
    }
    for (size_t i = 0; i < m->count; i++) {
        if (m->index[i] >= m->columns) {
            return fail(a, "'indices' has a column that is not below 'shape'", err);
        }
    }
    return XSM_OK;
}

xsm_status xsmi_csr_read(xsmi_source *file, xsmi_csr *m, xsm_error *err)
{
    archive a = {.file = file, .m = m};
    *m = (xsmi_csr){.context = file->context, .rounding = {.context = file->context}};
    XSMI_TRY(xsmi_zip_new(file, &a.zip, err));
    xsm_status status = read_entries(&a, err);
    xsmi_zip_free(a.zip);
    return status == XSM_OK ? check(&a, err) : status;
}

void xsmi_csr_end(xsmi_csr *m)
{
    xsmi_rounding_end(&m->rounding);
    xsmi_release(m->context, m->values, m->value_capacity, sizeof *m->values);
    xsmi_release(m->context, m->index, m->index_capacity, sizeof *m->index);
    xsmi_release(m->context, m->offsets, m->offset_capacity, sizeof *m->offsets);
}
