/*
 * Reading the container. Nothing in the file is trusted: every number is checked against the file's size before it is
 * used, sizes are checked before they are multiplied, and the tensors must fill the file without overlap or hole.
 */
#include "base/activity.h"
#include "base/safetensors_header.h"
#include "base/hash.h"
#include "base/heap_sort.h"
#include "base/order.h"
#include "base/spool.h"

#include <string.h>

struct xsmi_container {
    xsm_context *context;
    const char *path; /* for messages, while the container is being opened */
    xsmi_mapping mapping;
    xsmi_mapping parts; /* memory of tensors that were read in part */
    const unsigned char *bytes;
    size_t size;
    xsmi_header header;
    bool unaligned; /* a tensor begins at no multiple of its dtype's size */
};

/* Bytes in front of the header, and of the shortest file. */
#define LENGTH_BYTES 8
#define FIRST_BYTES ((size_t)LENGTH_BYTES + 2)

#define FAIL(c, err, ...) FAIL_AS(c, err, XSM_ERROR_FORMAT, __VA_ARGS__)
#define FAIL_AS(c, err, status, format, ...) xsmi_fail(err, status, "%s: " format, (c)->path, __VA_ARGS__)

static size_t read_length(const unsigned char *bytes)
{
    uint64_t length = 0;
    for (size_t i = 0; i < LENGTH_BYTES; i++) {
        length |= (uint64_t)bytes[i] << (8 * i);
    }
    return length > SIZE_MAX ? SIZE_MAX : (size_t)length;
}

/* Reads and checks the header's length in the first bytes. `size` is that of the file; SIZE_MAX for a source, whose
 * size is unknown. */
static xsm_status check_length(const xsmi_container *c, size_t size, size_t *length, xsm_error *err)
{
    if (size < FIRST_BYTES) {
        return FAIL(c, err, "%zu bytes are too few for a safetensors file", size);
    }
    *length = read_length(c->bytes);
    if (*length == 0 || c->bytes[LENGTH_BYTES] != '{') {
        return FAIL(c, err, "is no model file (safetensors): its header does not begin with '%c'", '{');
    }
    if (*length > size - LENGTH_BYTES) {
        return FAIL(c, err,
                    "not a safetensors file, or cut short: its header would take %zu bytes, the whole file has %zu",
                    *length, size);
    }
    if (*length > XSMI_HEADER_MAX) {
        return FAIL_AS(c, err, XSM_ERROR_LIMIT, "a header of %zu bytes; at most %zu are read", *length,
                       XSMI_HEADER_MAX);
    }
    return XSM_OK;
}

/* Refuses a newer release's file before anything else is checked by this release's rules. */
static xsm_status check_version(const xsmi_container *c, xsm_error *err)
{
    const char *version = xsmi_container_metadata(c, XSMI_KEY_VERSION);
    const char *checksum = xsmi_container_metadata(c, XSMI_KEY_CHECKSUM);
    if (!version && !checksum) {
        return XSM_OK; /* another program's file */
    }
    if (!version || !checksum) {
        return FAIL(c, err, "the metadata have '%s' but not '%s'", version ? XSMI_KEY_VERSION : XSMI_KEY_CHECKSUM,
                    version ? XSMI_KEY_CHECKSUM : XSMI_KEY_VERSION);
    }
    size_t digits = strspn(version, "0123456789");
    if (digits == 0 || version[digits] != '\0' || version[0] == '0') {
        return FAIL(c, err, "format_version is '%s'; a number from 1 on is needed", version);
    }
    if (strcmp(version, "1") != 0) {
        return FAIL_AS(c, err, XSM_ERROR_FILE_VERSION, "format_version is %s; this release reads %d", version,
                       XSMI_CONTAINER_VERSION);
    }
    return XSM_OK;
}

static xsm_status parse_header(xsmi_container *c, size_t length, xsm_error *err)
{
    const char *text = (const char *)c->bytes + LENGTH_BYTES;
    XSMI_TRY(xsmi_header_read_metadata(c->context, c->path, text, length, &c->header, err));
    XSMI_TRY(check_version(c, err));
    return xsmi_header_read_tensors(c->context, c->path, text, length, &c->header, err);
}

/* Checks a tensor's offsets and turns them into its place in the file. */
static xsm_status place_tensor(xsmi_container *c, xsmi_tensor *t, size_t data_start, xsm_error *err)
{
    const size_t begin = t->begin, end = t->size, available = c->size - data_start;
    if (begin > end || end > available) {
        return FAIL(c, err, "tensor '%s' would take the bytes %zu to %zu of %zu; is the file cut short?", t->name,
                    begin, end, available);
    }
    if (!xsmi_tensor_bytes(t, &t->size) || t->size != end - begin) {
        return FAIL(c, err, "the shape of tensor '%s' does not give its %zu bytes", t->name, end - begin);
    }
    c->unaligned |= (data_start + begin) % xsmi_dtype_size(t->dtype) != 0;
    t->begin = data_start + begin;
    t->part = (xsmi_tensor_part){t->size, 0, t->size};
    return XSM_OK;
}

static int compare_offsets(const void *a, const void *b)
{
    const xsmi_tensor *s = a;
    const xsmi_tensor *t = b;
    return s->begin != t->begin ? XSMI_COMPARE(s->begin, t->begin) : XSMI_COMPARE(s->size, t->size);
}

static xsm_status place_tensors(xsmi_container *c, size_t data_start, xsm_error *err)
{
    xsmi_header *h = &c->header;
    for (size_t i = 0; i < h->count; i++) {
        XSMI_TRY(place_tensor(c, &h->tensors[i], data_start, err));
    }
    if (!xsmi_heap_sort_polled(c->context, h->tensors, h->count, sizeof *h->tensors, compare_offsets)) {
        return xsmi_fail_cancelled(c->context, err);
    }
    size_t at = data_start;
    for (size_t i = 0; i < h->count; i++) {
        if (h->tensors[i].begin != at) {
            return FAIL(c, err, "tensor '%s' does not begin where the one before it ends", h->tensors[i].name);
        }
        at += h->tensors[i].size;
    }
    return at == c->size ? XSM_OK : FAIL(c, err, "%zu bytes after the last tensor", c->size - at);
}

static size_t aligned(size_t bytes)
{
    return (bytes + XSMI_ALIGNMENT - 1) / XSMI_ALIGNMENT * XSMI_ALIGNMENT;
}

/* Copies all tensors to where they are aligned, in memory in place of a mapping. */
static xsm_status align_tensors(xsmi_container *c, xsm_error *err)
{
    xsmi_mapping memory;
    size_t all = 0;
    for (size_t i = 0; i < c->header.count; i++) {
        all = aligned(all) + c->header.tensors[i].size;
    }
    unsigned char *to = xsmi_map_memory(c->context, all, &memory);
    if (!to) {
        return xsmi_fail_memory(err, all, "a file's contents");
    }
    size_t at = 0;
    xsm_status status = XSM_OK;
    for (size_t i = 0; i < c->header.count && status == XSM_OK; i++) {
        at = aligned(at);
        status = xsmi_copy_bytes(c->context, to + at, c->header.tensors[i].data, c->header.tensors[i].size, err);
        c->header.tensors[i].data = to + at;
        at += c->header.tensors[i].size;
    }
    xsmi_unmap_file(&c->mapping);
    c->mapping = memory;
    c->bytes = NULL;
    return status;
}

/* Bytes hashed between two polls. */
#define PIECE ((size_t)1 << 20)

/* A checksum being computed. */
typedef struct checksum {
    XXH3_state_t state; /* of a tensor's data */
    uint64_t sum;
    const char *digits; /* of the checksum in the file; NULL: there is none, or it is not compared */
    size_t since;       /* bytes since pages were released */
} checksum;

static xsm_status begin_checksum(const xsmi_container *c, bool verify, checksum *sum, xsm_error *err)
{
    const char *digits = xsmi_container_metadata(c, XSMI_KEY_CHECKSUM);
    if (digits && (strspn(digits, "0123456789abcdef") != XSMI_CHECKSUM_DIGITS || digits[XSMI_CHECKSUM_DIGITS])) {
        return FAIL(c, err, "the checksum is not %d hexadecimal digits in small letters", XSMI_CHECKSUM_DIGITS);
    }
    sum->digits = verify ? digits : NULL;
    memset(&sum->state, 0, sizeof sum->state); /* the first reset reads the old seed */
    sum->sum = sum->since = 0;
    for (size_t i = 0; i < c->header.metadata_count; i++) {
        sum->sum += xsmi_entry_hash(c->header.metadata[i].key, c->header.metadata[i].value);
    }
    return XSM_OK;
}

static void begin_tensor(checksum *sum, const xsmi_tensor *t)
{
    XXH3_64bits_reset_withSeed(&sum->state, xsmi_tensor_seed(t));
}

static void end_tensor(checksum *sum)
{
    sum->sum += XXH3_64bits_digest(&sum->state);
}

static xsm_status end_checksum(const xsmi_container *c, const checksum *sum, xsm_error *err)
{
    char digits[XSMI_CHECKSUM_DIGITS];
    xsmi_checksum_print(sum->sum, digits);
    if (memcmp(digits, sum->digits, sizeof digits) != 0) {
        return FAIL_AS(c, err, XSM_ERROR_CHECKSUM,
                       "the contents have the checksum %.16s, not the %.16s that was written: the file is damaged",
                       digits, sum->digits);
    }
    return XSM_OK;
}

static xsm_status check_tensor(const xsmi_container *c, const xsmi_tensor *t, checksum *sum, xsmi_activity *activity,
                               xsm_error *err)
{
    xsm_status status = XSM_OK;
    begin_tensor(sum, t);
    for (size_t at = 0; at < t->size && status == XSM_OK;) {
        const size_t size = XSMI_MIN(t->size - at, PIECE);
        XXH3_64bits_update(&sum->state, t->data + at, size);
        at += size;
        /* A file may be larger than memory: pages that the pass has read are released. */
        sum->since += size;
        if (sum->since >= XSMI_FORGET_BYTES) {
            xsmi_mapping_forget(&c->mapping);
            sum->since = 0;
        }
        xsmi_reach(activity, t->begin + at);
        status = xsmi_go_on(c->context, err);
    }
    end_tensor(sum);
    return status;
}

static xsm_status check_checksum(const xsmi_container *c, bool verify, xsm_error *err)
{
    checksum sum;
    XSMI_TRY(begin_checksum(c, verify, &sum, err));
    if (!sum.digits) {
        return XSM_OK;
    }
    xsm_status status = XSM_OK;
    xsmi_activity activity;
    xsmi_begin(&activity, c->context, "checking a file", "bytes", c->size);
    for (size_t i = 0; i < c->header.count && status == XSM_OK; i++) {
        status = check_tensor(c, &c->header.tensors[i], &sum, &activity, err);
    }
    XSMI_TRY(xsmi_end(&activity, status, err));
    return end_checksum(c, &sum, err);
}

static xsm_status read_all(xsmi_container *c, bool verify, xsm_error *err)
{
    size_t length = 0;
    XSMI_TRY(check_length(c, c->size, &length, err));
    if (!c->header.text) {
        XSMI_TRY(parse_header(c, length, err));
    }
    XSMI_TRY(place_tensors(c, LENGTH_BYTES + length, err));
    for (size_t i = 0; i < c->header.count; i++) {
        c->header.tensors[i].data = c->bytes + c->header.tensors[i].begin;
    }
    XSMI_TRY(check_checksum(c, verify, err));
    return c->unaligned ? align_tensors(c, err) : XSM_OK;
}

/* -- where the bytes are ------------------------------------------------------------------------------------------- */

/* Returns the bytes of data that the header names, which are checked later. */
static uint64_t data_bytes(const xsmi_container *c)
{
    uint64_t most = 0;
    for (size_t i = 0; i < c->header.count; i++) {
        most = XSMI_MAX(most, c->header.tensors[i].size);
    }
    return most;
}

/* A file or source that is read from its beginning to its end. */
typedef struct origin {
    const xsmi_place *place;
    int fd;      /* of a file, or -1 */
    size_t size; /* UNKNOWN for a source: its header says it */
    size_t at;
} origin;

#define UNKNOWN SIZE_MAX

static xsm_status origin_open(const xsmi_place *place, origin *o, xsm_error *err)
{
    *o = (origin){place, -1, UNKNOWN, 0};
    if (!place->storage) {
        return xsmi_read_open(place->name, &o->fd, &o->size, err);
    }
    o->size = place->storage->bytes ? (size_t)place->storage->byte_count : UNKNOWN;
    return XSM_OK;
}

/* Reads the next bytes; *got is less than `size` only at the end. */
static xsm_status origin_read(xsm_context *ctx, origin *o, void *to, size_t size, size_t *got, xsm_error *err)
{
    const xsm_storage *storage = o->place->storage;
    *got = 0;
    if (!storage) {
        XSMI_TRY(xsmi_read_at(o->fd, o->place->name, o->at, to, size, got, err));
    } else if (!storage->bytes) {
        XSMI_TRY(xsmi_place_read(ctx, o->place, to, size, got, err));
    } else {
        *got = XSMI_MIN(size, o->size - o->at);
        memcpy(to, (const unsigned char *)storage->bytes + o->at, *got);
    }
    o->at += *got;
    return XSM_OK;
}

/* Moves the container's bytes to memory of its own, with room for `size` bytes. */
static xsm_status move_bytes(xsmi_container *c, uint64_t size, xsm_error *err)
{
    xsmi_mapping memory;
    unsigned char *to = size <= SIZE_MAX / 2 ? xsmi_map_memory(c->context, (size_t)size, &memory) : NULL;
    if (!to) {
        return FAIL_AS(c, err, XSM_ERROR_MEMORY, "out of memory: %llu bytes are needed", (unsigned long long)size);
    }
    const xsm_status status = xsmi_copy_bytes(c->context, to, c->bytes, c->size, err);
    xsmi_unmap_file(&c->mapping);
    c->mapping = memory;
    c->bytes = to;
    return status;
}

/* Reads until the container has `size` bytes, in memory that has room for them. */
static xsm_status read_up_to(xsmi_container *c, origin *o, size_t size, xsm_error *err)
{
    size_t got = 0;
    if (size > c->size) {
        unsigned char *to = (unsigned char *)(uintptr_t)c->mapping.data + c->size;
        XSMI_TRY(origin_read(c->context, o, to, size - c->size, &got, err));
        c->size += got;
    }
    return XSM_OK;
}

/* Bytes for which memory is allocated before any was read. */
#define BELIEVED ((uint64_t)64 << 20)

/* Reads the header, whose first bytes say how long it is. */
static xsm_status read_header(xsmi_container *c, origin *o, size_t *length, xsm_error *err)
{
    XSMI_TRY(move_bytes(c, FIRST_BYTES, err));
    XSMI_TRY(read_up_to(c, o, FIRST_BYTES, err));
    XSMI_TRY(check_length(c, c->size < FIRST_BYTES ? c->size : o->size, length, err));
    XSMI_TRY(move_bytes(c, LENGTH_BYTES + XSMI_MAX(*length, FIRST_BYTES), err));
    XSMI_TRY(read_up_to(c, o, LENGTH_BYTES + *length, err));
    XSMI_TRY(check_length(c, c->size, length, err));
    return parse_header(c, *length, err);
}

/* Reads the bytes that the header announces, and none beyond them. Because a damaged header may announce anything, at
 * most BELIEVED bytes, or four times those read so far, are allocated. */
static xsm_status read_source(xsmi_container *c, const xsmi_place *place, xsm_error *err)
{
    origin from = {place, -1, UNKNOWN, 0}, *o = &from;
    size_t length = 0;
    XSMI_TRY(read_header(c, o, &length, err));
    const size_t start = LENGTH_BYTES + length;
    const uint64_t all = start + data_bytes(c); /* below 2^63 + 2^24 */
    while (c->size < all) {
        const uint64_t room = XSMI_MAX(4 * (uint64_t)c->size, BELIEVED);
        const uint64_t wanted = XSMI_MIN(all, room);
        XSMI_TRY(move_bytes(c, wanted, err));
        XSMI_TRY(read_up_to(c, o, (size_t)wanted, err));
        if (c->size < wanted) {
            return FAIL(c, err, "ends after %zu of %llu bytes; is it cut short?", c->size, (unsigned long long)all);
        }
    }
    return XSM_OK;
}

static xsm_status find_bytes(xsmi_container *c, const xsmi_place *place, bool copy, xsm_error *err)
{
    if (place->storage && !place->storage->bytes) {
        return read_source(c, place, err);
    }
    if (place->storage) {
        c->bytes = place->storage->bytes;
        c->size = (size_t)place->storage->byte_count;
    } else {
        XSMI_TRY(xsmi_map_file(place->name, &c->mapping, err));
        c->bytes = c->mapping.data;
        c->size = c->mapping.size;
    }
    return copy ? move_bytes(c, c->size, err) : XSM_OK;
}

/* -- tensors in part ----------------------------------------------------------------------------------------------- */

/* Memory that is filled from its beginning, of `all` bytes at the end. */
typedef struct kept {
    xsmi_mapping memory;
    size_t used, all;
} kept;

enum { WHOLE, PARTS, MEMORIES };

typedef struct part_reader {
    xsmi_container *container;
    origin *from;
    checksum *sum;
    xsmi_activity *activity;
    unsigned char *scratch; /* [PIECE] */
    kept memories[MEMORIES];
} part_reader;

/* Makes room for the next `size` bytes. Memory for all is taken at once where it is known that they will come. */
static xsm_status keep_room(const part_reader *r, kept *k, size_t size, xsm_error *err)
{
    const size_t need = k->used + size;
    if (k->memory.data && need <= k->memory.size) {
        return XSM_OK;
    }
    const uint64_t believed = XSMI_MAX(4 * (uint64_t)k->used, BELIEVED);
    const size_t room = r->from->size != UNKNOWN || believed > k->all ? k->all : (size_t)XSMI_MAX(believed, need);
    xsmi_mapping memory;
    unsigned char *to = xsmi_map_memory(r->container->context, XSMI_MAX(room, 1), &memory);
    if (!to) {
        return FAIL_AS(r->container, err, XSM_ERROR_MEMORY, "out of memory: %zu bytes are needed", room);
    }
    const size_t before = XSMI_MIN(k->used, k->memory.size);
    const xsm_status status = xsmi_copy_bytes(r->container->context, to, k->memory.data, before, err);
    xsmi_unmap_file(&k->memory);
    k->memory = memory;
    return status;
}

/* Reads the next bytes into memory or, k NULL, past them. */
static xsm_status pass(part_reader *r, kept *k, size_t size, xsm_error *err)
{
    origin *o = r->from;
    if (!k && !r->sum->digits && o->size != UNKNOWN) {
        o->at += size;
        return XSM_OK;
    }
    for (size_t done = 0, n, got; done < size; done += n) {
        n = XSMI_MIN(size - done, PIECE);
        XSMI_TRY(k ? keep_room(r, k, n, err) : XSM_OK);
        unsigned char *to = k ? (unsigned char *)(uintptr_t)k->memory.data + k->used : r->scratch;
        XSMI_TRY(origin_read(r->container->context, o, to, n, &got, err));
        if (got < n) {
            return FAIL(r->container, err, "ends after %zu of %zu bytes; is it cut short?", o->at, r->container->size);
        }
        if (r->sum->digits) {
            XXH3_64bits_update(&r->sum->state, to, n);
        }
        if (k) {
            k->used += n;
        }
        xsmi_reach(r->activity, o->at);
        XSMI_TRY(xsmi_go_on(r->container->context, err));
    }
    return XSM_OK;
}

static kept *memory_of(part_reader *r, const xsmi_tensor *t)
{
    return &r->memories[xsmi_tensor_kept(t) < t->size ? PARTS : WHOLE];
}

/* Lets the caller choose the part of each tensor. Returns whether one is read in part. */
static bool choose_parts(xsmi_container *c, const xsmi_open_how *how)
{
    bool any = false;
    for (size_t i = 0; i < c->header.count; i++) {
        how->choose(how->chooser, &c->header.tensors[i], &c->header.tensors[i].part);
        any |= xsmi_tensor_kept(&c->header.tensors[i]) < c->header.tensors[i].size;
    }
    return any;
}

/* Reads the chosen parts of the tensors. */
static xsm_status read_some(part_reader *r, xsm_error *err)
{
    xsmi_container *c = r->container;
    for (size_t i = 0; i < c->header.count; i++) {
        kept *k = memory_of(r, &c->header.tensors[i]);
        k->all = aligned(k->all) + xsmi_tensor_kept(&c->header.tensors[i]);
    }
    for (size_t i = 0; i < c->header.count; i++) {
        const xsmi_tensor_part part = c->header.tensors[i].part;
        kept *k = memory_of(r, &c->header.tensors[i]);
        k->used = aligned(k->used);
        begin_tensor(r->sum, &c->header.tensors[i]);
        for (size_t line = 0; line < c->header.tensors[i].size; line += part.line) {
            XSMI_TRY(pass(r, NULL, part.from, err));
            XSMI_TRY(pass(r, k, part.to - part.from, err));
            XSMI_TRY(pass(r, NULL, part.line - part.to, err));
        }
        end_tensor(r->sum);
    }
    return XSM_OK;
}

static xsm_status read_data(part_reader *r, xsm_error *err)
{
    xsmi_container *c = r->container;
    XSMI_TRY(read_some(r, err));
    for (size_t i = 0; i < MEMORIES; i++) {
        XSMI_TRY(keep_room(r, &r->memories[i], 0, err)); /* even if the tensor is empty */
        r->memories[i].used = 0;
    }
    for (size_t i = 0; i < c->header.count; i++) {
        kept *k = memory_of(r, &c->header.tensors[i]);
        c->header.tensors[i].data = k->memory.data + aligned(k->used);
        k->used = aligned(k->used) + xsmi_tensor_kept(&c->header.tensors[i]);
    }
    return r->sum->digits ? end_checksum(c, r->sum, err) : XSM_OK;
}

/* Reads the chosen parts of what follows the header. *whole becomes true if all is wanted and can be used in place:
 * nothing was read then. */
static xsm_status read_after_header(xsmi_container *c, origin *o, size_t length, const xsmi_open_how *how, bool *whole,
                                    xsm_error *err)
{
    checksum sum;
    const uint64_t all = o->size != UNKNOWN ? o->size : LENGTH_BYTES + length + data_bytes(c);
    if (all > SIZE_MAX / 2) {
        return FAIL_AS(c, err, XSM_ERROR_MEMORY, "out of memory: %llu bytes are needed", (unsigned long long)all);
    }
    c->size = (size_t)all;
    XSMI_TRY(place_tensors(c, LENGTH_BYTES + length, err));
    *whole = !choose_parts(c, how) && o->size != UNKNOWN;
    if (*whole) {
        return XSM_OK;
    }
    XSMI_TRY(begin_checksum(c, !how->believe, &sum, err));
    xsmi_activity activity;
    part_reader r = {.container = c, .from = o, .sum = &sum, .activity = &activity};
    XSMI_TRY(xsmi_array_new(c->context, &r.scratch, PIECE, 1, "a file's contents", err));
    xsmi_begin(&activity, c->context, sum.digits ? "checking a file" : "loading", "bytes", c->size);
    const xsm_status status = xsmi_end(&activity, read_data(&r, err), err);
    xsmi_release(c->context, r.scratch, PIECE, 1);
    xsmi_unmap_file(&c->mapping); /* it had the header */
    c->bytes = NULL;
    c->mapping = r.memories[WHOLE].memory;
    c->parts = r.memories[PARTS].memory;
    return status;
}

static xsm_status read_parts(xsmi_container *c, const xsmi_place *place, const xsmi_open_how *how, bool *whole,
                             xsm_error *err)
{
    origin o;
    size_t length = 0;
    XSMI_TRY(origin_open(place, &o, err));
    xsm_status status = read_header(c, &o, &length, err);
    status = status == XSM_OK ? read_after_header(c, &o, length, how, whole, err) : status;
    xsmi_read_close(o.fd);
    return status;
}

xsm_status xsmi_container_open_at(xsm_context *ctx, const xsmi_place *place, xsmi_open_how how, xsmi_container **out,
                                  xsm_error *err)
{
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "%s: safetensors files are little-endian, this machine is not",
                     place->name);
#endif
    xsmi_container *c;
    XSMI_TRY(XSMI_OBJECT_NEW(ctx, &c, xsmi_container, "a file's contents", err));
    c->path = place->name;
    bool whole = false;
    xsm_status status = how.choose ? read_parts(c, place, &how, &whole, err) : find_bytes(c, place, how.copy, err);
    status = status == XSM_OK && !how.choose ? read_all(c, !how.believe, err) : status;
    if (status == XSM_OK && whole) {
        xsmi_container_close(c);
        how.choose = NULL;
        return xsmi_container_open_at(ctx, place, how, out, err);
    }
    if (status != XSM_OK) {
        xsmi_container_close(c);
        return status;
    }
    c->path = NULL;
    *out = c;
    return XSM_OK;
}

xsm_status xsmi_container_open(xsm_context *ctx, const char *path, bool verify, xsmi_container **out, xsm_error *err)
{
    const xsmi_place place = {.name = path};
    return xsmi_container_open_at(ctx, &place, (xsmi_open_how){.believe = !verify}, out, err);
}

void xsmi_container_close(xsmi_container *c)
{
    if (c) {
        xsm_context *ctx = c->context;
        xsmi_header_clear(ctx, &c->header);
        xsmi_unmap_file(&c->mapping);
        xsmi_unmap_file(&c->parts);
        XSMI_OBJECT_FREE(c, xsmi_container);
    }
}

const xsmi_tensor *xsmi_container_tensor(const xsmi_container *c, const char *name)
{
    for (size_t i = 0; i < c->header.count; i++) {
        if (strcmp(c->header.tensors[i].name, name) == 0) {
            c->header.tensors[i].known = true;
            return &c->header.tensors[i];
        }
    }
    return NULL;
}

void xsmi_container_know(const xsmi_container *c, const char *prefix)
{
    for (size_t i = 0; i < c->header.count; i++) {
        c->header.tensors[i].known |= strncmp(c->header.tensors[i].name, prefix, strlen(prefix)) == 0;
    }
}

xsm_status xsmi_container_check_known(const xsmi_container *c, const char *name, const char *what, xsm_error *err)
{
    size_t i = 0;
    while (i < c->header.count && c->header.tensors[i].known) {
        i++;
    }
    return i == c->header.count
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_FORMAT, "%s: it has a tensor '%s', which this release does not know in %s",
                           name, c->header.tensors[i].name, what);
}

const xsmi_tensor *xsmi_container_tensor_at(const xsmi_container *c, size_t index)
{
    return index < c->header.count ? &c->header.tensors[index] : NULL;
}

const xsmi_entry *xsmi_container_metadata_at(const xsmi_container *c, size_t index)
{
    return index < c->header.metadata_count ? &c->header.metadata[index] : NULL;
}

const char *xsmi_container_metadata(const xsmi_container *c, const char *key)
{
    for (size_t i = 0; i < c->header.metadata_count; i++) {
        if (strcmp(c->header.metadata[i].key, key) == 0) {
            return c->header.metadata[i].value;
        }
    }
    return NULL;
}

const char *xsmi_container_kind(const xsmi_container *c)
{
    static const struct {
        const char *key, *kind;
    } kinds[] = {{XSMI_KEY_DATASET, "a cache of rows"}, {XSMI_KEY_INDEX, "an index"}, {XSMI_KEY_SAMPLER, "a sampler"}};
    if (!xsmi_container_metadata(c, XSMI_KEY_VERSION)) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (xsmi_container_metadata(c, kinds[i].key)) {
            return kinds[i].kind;
        }
    }
    const bool checkpoint = xsmi_container_metadata(c, XSMI_KEY_CHECKPOINT);
    return !checkpoint                          ? "a model"
           : xsmi_container_tensor(c, "weight") ? "a checkpoint of training"
                                                : "a checkpoint of label trees";
}

xsmi_mapping xsmi_container_detach_mapping(xsmi_container *c)
{
    xsmi_mapping mapping = c->mapping;
    c->mapping = (xsmi_mapping){.data = NULL};
    return mapping;
}
