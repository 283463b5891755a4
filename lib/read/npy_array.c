/* Arrays of NumPy (numpy.org/doc/stable/reference/generated/numpy.lib.format.html), versions 1 to 3. */
#include "read/npy_array.h"
#include "base/utf8.h"
#include "read/number.h"

#include <math.h>
#include <string.h>

#define HEADER_MAX ((size_t)64 << 10)
#define FAIL XSMI_NPY_FAIL

/* Reads `size` bytes; *got is less only at the end. */
xsm_status xsmi_npy_read(xsmi_source *s, void *buffer, size_t size, size_t *got, xsm_error *err)
{
    *got = 0;
    while (*got < size) {
        size_t some;
        XSMI_TRY(xsmi_source_read(s, (char *)buffer + *got, size - *got, &some, err));
        if (some == 0) {
            break;
        }
        *got += some;
    }
    return XSM_OK;
}

/* Returns the text after `'key':` and blanks; NULL if the key is missing. */
static const char *value_of(const char *header, const char *key)
{
    const char *p = strstr(header, key);
    if (!p) {
        return NULL;
    }
    p += strlen(key);
    p += strspn(p, " ");
    if (*p != ':') {
        return NULL;
    }
    p++;
    return p + strspn(p, " ");
}

static xsm_status parse_shape(xsmi_npy *n, const char *p, xsm_error *err)
{
    uint64_t sizes[3] = {0, 1, 1};
    n->rank = 0;
    if (*p++ != '(') {
        return FAIL(n, err, "%s", "the header's 'shape' is no tuple");
    }
    for (p += strspn(p, " "); *p != ')'; p += strspn(p, " ,")) {
        uint64_t size = 0;
        const char *start = p;
        for (; xsmi_is_digit(*p) && size < UINT64_C(1) << 58; p++) {
            size = size * 10 + (uint64_t)(*p - '0');
        }
        if (p == start || n->rank == 3) {
            return FAIL(n, err, "%s", "the header's 'shape' is not two numbers, or one for labels");
        }
        sizes[n->rank++] = size;
    }
    n->rows = n->rank > 0 ? sizes[0] : 1;
    n->columns = sizes[1];
    return XSM_OK;
}

/* Parses a type such as `'<f4'`: byte order, kind, and size (of text: in characters). */
static xsm_status parse_type(xsmi_npy *n, const char *type, xsm_error *err)
{
    const uint16_t one = 1;
    const bool little = *(const unsigned char *)&one == 1;
    char quote[XSMI_QUOTE_SIZE];
    size_t size = 0;
    if (type[0] == '\'' && type[1] && strchr("<>|=", type[1]) && type[2] && strchr("fiubUS", type[2])) {
        const char *digits = type + 3;
        for (; xsmi_is_digit(*digits) && size < 1000000; digits++) {
            size = size * 10 + (size_t)(*digits - '0');
        }
        n->kind = type[2];
        n->size = n->kind == 'U' ? 4 * size : size;
        n->swapped = type[1] == (little ? '>' : '<');
        const bool known = n->kind == 'U' || n->kind == 'S' ? size > 0
                           : n->kind == 'f'                 ? size == 2 || size == 4 || size == 8
                           : n->kind == 'b'                 ? size == 1
                                                            : size == 1 || size == 2 || size == 4 || size == 8;
        if (*digits == '\'' && known) {
            return XSM_OK;
        }
    }
    return FAIL(n, err,
                "numbers of the type %s; floats of 2, 4 or 8 bytes, integers and booleans are read: save "
                "array.astype('float32')",
                xsmi_quote(quote, type, strcspn(type, ",}")));
}

static xsm_status parse_header(xsmi_npy *n, const char *header, xsm_error *err)
{
    const char *type = value_of(header, "'descr'");
    const char *order = value_of(header, "'fortran_order'");
    const char *shape = value_of(header, "'shape'");
    if (!type || !order || !shape || (*type != '\'' && *type != '[')) {
        return FAIL(n, err, "%s", "the header needs 'descr', 'fortran_order' and 'shape'");
    }
    XSMI_TRY(parse_type(n, type, err));
    XSMI_TRY(parse_shape(n, shape, err));
    n->columns_first = strncmp(order, "False", 5) != 0 && n->rank > 1;
    return XSM_OK;
}

xsm_status xsmi_npy_read_header(xsmi_source *s, xsmi_npy *n, xsm_error *err)
{
    unsigned char start[12];
    size_t got;
    XSMI_TRY(xsmi_npy_read(s, start, 10, &got, err));
    if (got < 10 || memcmp(start, XSMI_NPY_MAGIC, 6) != 0) {
        return FAIL(n, err, "%s", "not a NumPy file: it does not begin with \\x93NUMPY");
    }
    if (start[6] < 1 || start[6] > 3) {
        return FAIL(n, err, "version %u of NumPy's format; 1 to 3 are read", start[6]);
    }
    size_t length = start[8] | (size_t)start[9] << 8;
    if (start[6] > 1) {
        XSMI_TRY(xsmi_npy_read(s, start + 10, 2, &got, err));
        if (got < 2) {
            return FAIL(n, err, "%s", "the file is cut short within its header");
        }
        length |= (size_t)start[10] << 16 | (size_t)start[11] << 24;
    }
    if (length > HEADER_MAX) {
        return FAIL(n, err, "a header of %zu bytes; at most %zu are read", length, HEADER_MAX);
    }
    char *header;
    XSMI_TRY(xsmi_array_new(s->context, &header, length + 1, 1, "a file's header", err));
    xsm_status status = xsmi_npy_read(s, header, length, &got, err);
    header[got] = '\0';
    if (status == XSM_OK) {
        status =
            got < length ? FAIL(n, err, "%s", "the file is cut short within its header") : parse_header(n, header, err);
    }
    xsmi_release(s->context, header, length + 1, 1);
    return status;
}

xsm_status xsmi_npy_check_end(xsmi_source *s, const xsmi_npy *n, xsm_error *err)
{
    char more;
    size_t got;
    XSMI_TRY(xsmi_source_read(s, &more, 1, &got, err));
    return got == 0 ? XSM_OK : FAIL(n, err, "more bytes than a shape of %llu rows has", (unsigned long long)n->rows);
}

xsm_status xsmi_npy_cut_short(const xsmi_npy *n, uint64_t row, xsm_error *err)
{
    return FAIL(n, err, "cut short: it ends in row %llu (from 0) of %llu", (unsigned long long)row,
                (unsigned long long)n->rows);
}

/* -- numbers ------------------------------------------------------------------------------------------------------- */

/* Returns the bytes of a number as an integer. */
static uint64_t bits_at(const xsmi_npy *n, const unsigned char *p)
{
    const uint16_t one = 1;
    const bool little = (*(const unsigned char *)&one == 1) != n->swapped;
    uint64_t bits = 0;
    for (size_t i = 0; i < n->size; i++) {
        bits |= (uint64_t)p[little ? i : n->size - 1 - i] << (8 * i);
    }
    return bits;
}

static double half(uint64_t bits)
{
    const int exponent = (int)(bits >> 10 & 31);
    const double fraction = (double)(bits & 1023) / 1024;
    const double size = exponent == 31  ? (fraction > 0 ? (double)NAN : (double)INFINITY)
                        : exponent == 0 ? ldexp(fraction, -14)
                                        : ldexp(1 + fraction, exponent - 15);
    return bits >> 15 ? -size : size;
}

double xsmi_npy_slow_number(const xsmi_npy *n, const unsigned char *p)
{
    const uint64_t bits = bits_at(n, p);
    double d;
    float f;
    if (n->kind == 'f' && n->size == 8) {
        memcpy(&d, &bits, sizeof d);
        return d;
    }
    if (n->kind == 'f' && n->size == 4) {
        const uint32_t low = (uint32_t)bits;
        memcpy(&f, &low, sizeof f);
        return (double)f;
    }
    const unsigned spare = 64 - 8 * (unsigned)n->size;
    return n->kind == 'f' ? half(bits) : n->kind == 'i' ? (double)((int64_t)(bits << spare) >> spare) : (double)bits;
}

bool xsmi_npy_integer(const xsmi_npy *n, const unsigned char *p, int64_t *out)
{
    if (n->kind == 'f') {
        const double d = xsmi_npy_number(n, p);
        *out = 0;
        if (!(d >= -9007199254740992.0 && d <= 9007199254740992.0) || d != floor(d)) {
            return false;
        }
        *out = (int64_t)d;
        return true;
    }
    const uint64_t bits = bits_at(n, p);
    const unsigned spare = 64 - 8 * (unsigned)n->size;
    *out = n->kind == 'i' ? (int64_t)(bits << spare) >> spare : (int64_t)bits;
    return n->kind == 'i' || bits <= INT64_MAX;
}
