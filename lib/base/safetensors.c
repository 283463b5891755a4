/* Shared by reading and writing the container: dtypes, sizes, and each part's term of the checksum. */
#include "base/safetensors.h"

#include "base/hash.h"
#include "base/activity.h"
#include "base/order.h"

#include <jansson.h>
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

/* -- writing ------------------------------------------------------------------------------------------------------- */

/*
 * Writing the container: first the header, then the data in order, hashed on the way; the checksum's digits are written
 * last. Where nothing can be rewritten, a first pass over the data finds the checksum, and a second one writes. The
 * same contents give the same bytes: keys are sorted and numbers are integers.
 */

/* A tensor's data in the checksum. */
typedef struct hashed {
    uint64_t seed;
    size_t size;
} hashed;

struct xsmi_container_writer {
    XXH3_state_t hash; /* of the current tensor's data; first, as it needs an alignment of 64 */
    xsm_context *context;
    const char *name;
    xsmi_sink sink;
    char *header; /* with its length before it, and a zero behind it */
    size_t header_size;
    char *digits; /* of the checksum, in the header */
    size_t expected, written;
    uint64_t entries, sum; /* terms of the checksum: the metadata's; the sum of all that is complete */
    hashed *tensors;       /* [count] */
    size_t count, current; /* tensors that are complete */
    size_t left;           /* bytes until the current one is complete */
    bool rehearsal;        /* this pass only hashes */
};

static xsm_status fail_json(xsm_error *err)
{
    return xsmi_fail(err, XSM_ERROR_MEMORY, "out of memory for a file's header");
}

/* Adds a copy of a text under a key. False without memory (the texts are known to be UTF-8). */
static bool put_text(json_t *object, const char *key, const char *value)
{
    return json_object_set_new_nocheck(object, key, json_string_nocheck(value)) == 0;
}

static bool put_number(json_t *array, uint64_t number)
{
    return json_array_append_new(array, json_integer((json_int_t)number)) == 0;
}

static bool put_tensor(json_t *header, const xsmi_tensor *t, size_t begin, size_t end)
{
    json_t *entry = json_object();
    json_t *shape = json_array();
    json_t *offsets = json_array();
    bool good = entry && shape && offsets && put_number(offsets, begin) && put_number(offsets, end);
    for (uint32_t i = 0; good && i < t->rank; i++) {
        good = put_number(shape, t->shape[i]);
    }
    good = good && put_text(entry, "dtype", xsmi_dtype_name(t->dtype)) &&
           json_object_set_nocheck(entry, "shape", shape) == 0 &&
           json_object_set_nocheck(entry, "data_offsets", offsets) == 0 &&
           json_object_set_nocheck(header, t->name, entry) == 0;
    json_decref(entry);
    json_decref(shape);
    json_decref(offsets);
    return good;
}

static bool put_entry(xsmi_container_writer *w, json_t *object, const char *key, const char *value)
{
    w->entries += xsmi_entry_hash(key, value);
    return put_text(object, key, value);
}

static bool put_metadata(xsmi_container_writer *w, json_t *header, const xsmi_entry *metadata, size_t count)
{
    json_t *object = json_object();
    bool good = object && put_entry(w, object, XSMI_KEY_VERSION, "1") &&
                put_entry(w, object, XSMI_KEY_LIBRARY, xsm_version_string()) &&
                put_entry(w, object, XSMI_KEY_CHECKSUM, "0000000000000000");
    for (size_t i = 0; good && i < count; i++) {
        good = put_entry(w, object, metadata[i].key, metadata[i].value);
    }
    good = good && json_object_set_nocheck(header, "__metadata__", object) == 0;
    json_decref(object);
    return good;
}

/* Puts the tensors into the header, their data one after the other. Sets *before to the bytes before the aligned
 * tensor. */
static xsm_status put_tensors(xsmi_container_writer *w, json_t *header, const xsmi_container_plan *plan, size_t *before,
                              xsm_error *err)
{
    size_t offset = 0;
    *before = 0;
    XSMI_TRY(xsmi_array_new(w->context, &w->tensors, plan->count, sizeof *w->tensors, "a file's header", err));
    w->count = plan->count;
    for (size_t i = 0; i < plan->count; i++) {
        const xsmi_tensor *t = &plan->tensors[i];
        size_t bytes, end;
        if (!xsmi_tensor_bytes(t, &bytes) || !xsmi_add(offset, bytes, &end) || end > SIZE_MAX / 2) {
            return xsmi_fail(err, XSM_ERROR_LIMIT, "tensor '%s' is larger than a file can be", t->name);
        }
        if (offset % xsmi_dtype_size(t->dtype) != 0) {
            return xsmi_fail(err, XSM_ERROR_INTERNAL, "tensor '%s' comes after one of a smaller dtype", t->name);
        }
        if (i == plan->aligned) {
            *before = offset;
        }
        if (!put_tensor(header, t, offset, end)) {
            return fail_json(err);
        }
        w->tensors[i] = (hashed){xsmi_tensor_seed(t), bytes};
        offset = end;
    }
    w->expected = offset;
    return XSM_OK;
}

/* Begins the hash of the next tensor that has data; tensors before it are complete. */
static void begin_tensor(xsmi_container_writer *w)
{
    while (w->left == 0 && w->current < w->count) {
        w->left = w->tensors[w->current].size;
        XXH3_64bits_reset_withSeed(&w->hash, w->tensors[w->current].seed);
        if (w->left == 0) {
            w->sum += XXH3_64bits_digest(&w->hash);
            w->current++;
        }
    }
}

static void begin_checksum(xsmi_container_writer *w)
{
    w->sum = w->entries;
    w->current = w->left = w->written = 0;
    begin_tensor(w);
}

/* Bytes hashed and written at once. */
#define PIECE ((size_t)1 << 20)

/* Writes and hashes in pieces, which are still in the cache when they are written; a call may be cancelled between
 * them. */
static xsm_status write_hashed(xsmi_container_writer *w, const void *data, size_t size, xsm_error *err)
{
    for (size_t at = 0; at < size && w->current < w->count;) {
        const size_t piece = XSMI_MIN(XSMI_MIN(size - at, PIECE), w->left);
        XXH3_64bits_update(&w->hash, (const char *)data + at, piece);
        XSMI_TRY(w->rehearsal ? xsmi_go_on(w->context, err)
                              : w->sink.ops->write(w->sink.state, (const char *)data + at, piece, err));
        xsmi_advance(w->context, piece);
        at += piece;
        w->left -= piece;
        if (w->left == 0) {
            w->sum += XXH3_64bits_digest(&w->hash);
            w->current++;
            begin_tensor(w);
        }
    }
    return XSM_OK;
}

/* Makes length and header, padded so that the data begin at a multiple of 8, and the byte `before` bytes later at a
 * multiple of XSMI_ALIGNMENT. */
static xsm_status make_header(xsmi_container_writer *w, const json_t *header, size_t before, xsm_error *err)
{
    const size_t flags = JSON_COMPACT | JSON_SORT_KEYS;
    const size_t prefix = 8;
    size_t used = json_dumpb(header, NULL, 0, flags);
    if (used == 0) {
        return fail_json(err);
    }
    size_t step = before % 8 == 0 ? before % XSMI_ALIGNMENT : 0;
    size_t length = used;
    while ((prefix + length + step) % XSMI_ALIGNMENT != 0) {
        length++;
    }
    if (length > XSMI_HEADER_MAX) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "a header of %zu bytes; at most %zu are read again", length,
                         XSMI_HEADER_MAX);
    }
    char *text;
    XSMI_TRY(xsmi_array_new(w->context, &text, prefix + length + 1, 1, "a file's header", err));
    w->header = text;
    w->header_size = prefix + length;
    memset(text, ' ', prefix + length);
    text[prefix + length] = '\0';
    for (size_t i = 0; i < prefix; i++) {
        text[i] = (char)(unsigned char)((uint64_t)length >> (8 * i));
    }
    if (json_dumpb(header, text + prefix, used, flags) != used) {
        return fail_json(err);
    }
    /* Elsewhere in the header's texts quotes are escaped, so that this occurs once. */
    static const char key[] = "\"" XSMI_KEY_CHECKSUM "\":\"";
    w->digits = strstr(text + prefix, key) + sizeof key - 1;
    return XSM_OK;
}

static void release(xsmi_container_writer *w)
{
    xsm_context *ctx = w->context;
    xsmi_release(ctx, w->header, w->header_size + 1, 1);
    xsmi_release(ctx, w->tensors, w->count, sizeof *w->tensors);
    XSMI_OBJECT_FREE(w, xsmi_container_writer);
}

static xsm_status begin(xsmi_container_writer *w, const xsmi_place *place, const xsmi_container_plan *plan,
                        xsm_error *err)
{
    size_t before = 0;
    json_t *header = json_object();
    const bool good = header && put_metadata(w, header, plan->metadata, plan->metadata_count);
    xsm_status status = good ? put_tensors(w, header, plan, &before, err) : fail_json(err);
    status = status == XSM_OK ? make_header(w, header, before, err) : status;
    json_decref(header);
    XSMI_TRY(status);
    XSMI_TRY(xsmi_sink_open(w->context, place, w->header_size + w->expected, &w->sink, err));
    w->rehearsal = w->sink.forward;
    begin_checksum(w);
    return w->rehearsal ? XSM_OK : w->sink.ops->write(w->sink.state, w->header, w->header_size, err);
}

xsm_status xsmi_container_create_at(xsm_context *ctx, const xsmi_place *place, const xsmi_container_plan *plan,
                                    xsmi_container_writer **out, xsm_error *err)
{
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "%s: safetensors files are little-endian, this machine is not",
                     place->name);
#endif
    xsmi_container_writer *w;
    XSMI_TRY(XSMI_OBJECT_NEW(ctx, &w, xsmi_container_writer, "a file being written", err));
    w->name = place->name;
    const xsm_status status = begin(w, place, plan, err);
    if (status != XSM_OK) {
        xsmi_container_abandon(w);
        return status;
    }
    *out = w;
    return XSM_OK;
}

xsm_status xsmi_container_create(xsm_context *ctx, const char *path, const xsmi_container_plan *plan,
                                 xsmi_container_writer **out, xsm_error *err)
{
    const xsmi_place place = {.name = path};
    return xsmi_container_create_at(ctx, &place, plan, out, err);
}

xsm_status xsmi_container_write(xsmi_container_writer *w, const void *data, size_t size, xsm_error *err)
{
    if (!w) {
        return XSM_OK;
    }
    w->written += size;
    return write_hashed(w, data, size, err);
}

static xsm_status check_written(const xsmi_container_writer *w, xsm_error *err)
{
    return w->written == w->expected
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_INTERNAL, "%zu bytes were written of %zu", w->written, w->expected);
}

/* Ends a pass that only hashed: the header gets the checksum, and the next pass writes the same data. */
static xsm_status end_rehearsal(xsmi_container_writer *w, xsm_error *err)
{
    XSMI_TRY(check_written(w, err));
    xsmi_checksum_print(w->sum, w->digits);
    begin_checksum(w);
    w->rehearsal = false;
    return w->sink.ops->write(w->sink.state, w->header, w->header_size, err);
}

static xsm_status finish(xsmi_container_writer *w, xsm_error *err)
{
    XSMI_TRY(check_written(w, err));
    char digits[XSMI_CHECKSUM_DIGITS];
    xsmi_checksum_print(w->sum, digits);
    if (!w->sink.forward) {
        const uint64_t at = (uint64_t)(w->digits - w->header);
        return w->sink.ops->rewrite(w->sink.state, at, digits, sizeof digits, err);
    }
    return memcmp(digits, w->digits, sizeof digits) == 0
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_STATE, "%s: what is saved has changed meanwhile", w->name);
}

xsm_status xsmi_container_commit(xsmi_container_writer *w, xsm_error *err)
{
    const xsm_status status = finish(w, err);
    if (status != XSM_OK) {
        xsmi_container_abandon(w);
        return status;
    }
    const xsmi_sink sink = w->sink;
    release(w);
    return sink.ops->commit(sink.state, err);
}

xsm_status xsmi_container_fill(xsmi_container_writer *w, xsmi_container_put put, const void *contents, xsm_error *err)
{
    xsm_status status = put(contents, w, err);
    if (w->rehearsal) {
        status = status == XSM_OK ? end_rehearsal(w, err) : status;
        status = status == XSM_OK ? put(contents, w, err) : status;
    }
    if (status == XSM_OK) {
        return xsmi_container_commit(w, err);
    }
    xsmi_container_abandon(w);
    return status;
}

uint64_t xsmi_container_expected(const xsmi_container_writer *w)
{
    return w->sink.forward ? 2 * (uint64_t)w->expected : w->expected;
}

void xsmi_container_abandon(xsmi_container_writer *w)
{
    if (w) {
        if (w->sink.ops) {
            w->sink.ops->abandon(w->sink.state);
        }
        release(w);
    }
}
