/* Shared by reading and writing the container: dtypes, sizes, and each part's term of the checksum. */
#include "base/safetensors.h"
#include "base/hash.h"

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

uint64_t xsmi_entry_hash(const char *key, const char *value)
{
    const bool covered = strcmp(key, XSMI_KEY_CHECKSUM) != 0 && strcmp(key, XSMI_KEY_FORMAT) != 0;
    return covered ? xsmi_hash(value, strlen(value), xsmi_hash(key, strlen(key), 0)) : 0;
}

uint64_t xsmi_tensor_seed(const xsmi_tensor *t)
{
    const char *dtype = xsmi_dtype_name(t->dtype);
    const uint64_t name = xsmi_hash(t->name, strlen(t->name), 0);
    return xsmi_hash(t->shape, t->rank * sizeof *t->shape, xsmi_hash(dtype, strlen(dtype), name));
}

void xsmi_checksum_print(uint64_t hash, char digits[XSMI_CHECKSUM_DIGITS])
{
    for (size_t i = 0; i < XSMI_CHECKSUM_DIGITS; i++) {
        digits[i] = "0123456789abcdef"[hash >> (60 - 4 * i) & 15];
    }
}
