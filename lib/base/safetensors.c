/* Shared by reading and writing the container: dtypes, sizes, the position of the checksum. */
#include "base/safetensors.h"

#include <string.h>

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
    [XSMI_DTYPE_U8] = {"U8", 1},   [XSMI_DTYPE_U16] = {"U16", 2},         [XSMI_DTYPE_I32] = {"I32", 4},
    [XSMI_DTYPE_U32] = {"U32", 4}, [XSMI_DTYPE_F32] = {"F32", 4},         [XSMI_DTYPE_I64] = {"I64", 8},
    [XSMI_DTYPE_U64] = {"U64", 8}, [XSMI_DTYPE_F64] = {"F64", 8},         [XSMI_DTYPE_BOOL] = {"BOOL", 1},
    [XSMI_DTYPE_I8] = {"I8", 1},   [XSMI_DTYPE_F8_E4M3] = {"F8_E4M3", 1}, [XSMI_DTYPE_F8_E5M2] = {"F8_E5M2", 1},
    [XSMI_DTYPE_I16] = {"I16", 2}, [XSMI_DTYPE_F16] = {"F16", 2},         [XSMI_DTYPE_BF16] = {"BF16", 2},
};

size_t xsmi_dtype_size(xsmi_dtype dtype)
{
    return dtypes[dtype].size;
}

const char *xsmi_dtype_name(xsmi_dtype dtype)
{
    return dtypes[dtype].name;
}

bool xsmi_dtype_parse(const char *name, xsmi_dtype *dtype)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        if (strcmp(dtypes[i].name, name) == 0) {
            *dtype = (xsmi_dtype)i;
            return true;
        }
    }
    return false;
}

bool xsmi_tensor_bytes(const xsmi_tensor *t, size_t *bytes)
{
    uint64_t product = xsmi_dtype_size(t->dtype); /* in 64 bits: one dimension may be 0 */
    for (uint32_t i = 0; i < t->rank; i++) {
        if (__builtin_mul_overflow(product, t->shape[i], &product)) {
            return false;
        }
    }
    if (product > SIZE_MAX) {
        return false;
    }
    *bytes = (size_t)product;
    return true;
}

bool xsmi_tensor_is(const xsmi_tensor *t, xsmi_dtype dtype, uint32_t rank, uint64_t rows, uint64_t columns)
{
    return t && t->dtype == dtype && t->rank == rank && t->shape[0] == rows && (rank == 1 || t->shape[1] == columns);
}

bool xsmi_floats_finite(const float *values, size_t count)
{
    uint32_t bad = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        bad |= (bits & UINT32_C(0x7F800000)) == UINT32_C(0x7F800000);
    }
    return bad == 0;
}

/* The position of the closing quote of a JSON string whose opening quote is before `i`. */
static size_t string_end(const char *text, size_t length, size_t i)
{
    while (i < length && text[i] != '"') {
        i += text[i] == '\\' ? 2 : 1;
    }
    return i;
}

static size_t skip_blanks(const char *text, size_t length, size_t i)
{
    while (i < length && (text[i] == ' ' || text[i] == '\t' || text[i] == '\n' || text[i] == '\r')) {
        i++;
    }
    return i;
}

static bool is_digit(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/* A JSON parser would give the value but not its position. Besides metadata, the second level has only the three
 * entries of each tensor, so that the key of that name is the right one. */
bool xsmi_checksum_offset(const char *header, size_t length, size_t *offset)
{
    static const char key[] = XSMI_KEY_CHECKSUM;
    size_t depth = 0;
    for (size_t i = 0; i < length; i++) {
        if (header[i] == '{' || header[i] == '[') {
            depth++;
        } else if (header[i] == '}' || header[i] == ']') {
            depth--;
        } else if (header[i] == '"') {
            size_t start = i + 1;
            i = string_end(header, length, start);
            if (depth != 2 || i >= length || i - start != sizeof key - 1 ||
                memcmp(header + start, key, sizeof key - 1) != 0) {
                continue;
            }
            size_t value = skip_blanks(header, length, i + 1);
            if (value >= length || header[value] != ':') {
                continue; /* a value, not a key */
            }
            value = skip_blanks(header, length, value + 1);
            size_t digits = 0;
            if (value < length && header[value] == '"') {
                value++;
                while (value + digits < length && is_digit(header[value + digits])) {
                    digits++;
                }
            }
            if (digits != XSMI_CHECKSUM_DIGITS || value + digits >= length || header[value + digits] != '"') {
                return false;
            }
            *offset = value;
            return true;
        }
    }
    return false;
}

void xsmi_checksum_print(uint64_t hash, char digits[XSMI_CHECKSUM_DIGITS])
{
    for (size_t i = 0; i < XSMI_CHECKSUM_DIGITS; i++) {
        digits[i] = "0123456789abcdef"[hash >> (60 - 4 * i) & 15];
    }
}
