#include "base/safetensors_header.h"

#include "base/activity.h"
#include "base/grow.h"
#include "base/heap_sort.h"
#include "base/order.h"
#include "base/utf8.h"

#include <string.h>

#define KEY_METADATA "__metadata__"

/* Bytes read between two polls. */
#define BYTES_TOGETHER ((size_t)64 << 10)

typedef struct reader {
    xsm_context *context;
    const char *name, *json;
    size_t length, at, next_poll;
    xsmi_header *header;
} reader;

#define FAIL(r, err, ...) FAIL_TEXT(r, err, __VA_ARGS__)
#define FAIL_TEXT(r, err, format, ...) xsmi_fail(err, XSM_ERROR_FORMAT, "%s: " format, (r)->name, __VA_ARGS__)

static xsm_status fail_json(const reader *r, const char *what, xsm_error *err)
{
    return FAIL(r, err, "the header is not the JSON that is needed: %s (byte %zu)", what, r->at);
}

/* -- characters and texts ------------------------------------------------------------------------------------------ */

/* Returns the next character that is not blank, '\0' at the end. */
static char next(reader *r)
{
    while (r->at < r->length && strchr(" \t\n\r", r->json[r->at]) && r->json[r->at]) {
        r->at++;
    }
    return r->at < r->length ? r->json[r->at] : '\0';
}

/* Takes the character if it is the next one. */
static bool take(reader *r, char c)
{
    const bool is = next(r) == c && r->at < r->length;
    r->at += is;
    return is;
}

/* Four hexadecimal digits; UINT32_MAX where there are others. */
static uint32_t read_unit(reader *r)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    uint32_t unit = 0;
    for (size_t i = 0; i < 4; i++, r->at++) {
        const char *digit = r->at < r->length && r->json[r->at] ? strchr(digits, r->json[r->at]) : NULL;
        if (!digit) {
            return UINT32_MAX;
        }
        unit = unit << 4 | (uint32_t)((digit - digits) % 16);
    }
    return unit;
}

/* Returns the character after \u, of two units if it needs them; 0 if there is none. */
static uint32_t read_code(reader *r)
{
    const uint32_t unit = read_unit(r);
    if (unit < 0xD800 || (unit >= 0xE000 && unit <= 0xFFFF)) {
        return unit;
    }
    if (unit >= 0xDC00 || r->length - r->at < 2 || r->json[r->at] != '\\' || r->json[r->at + 1] != 'u') {
        return 0;
    }
    r->at += 2;
    const uint32_t low = read_unit(r);
    return low >= 0xDC00 && low < 0xE000 ? 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00) : 0;
}

static char *put_code(char *to, uint32_t code)
{
    const int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned char first[] = {0, 0xC0, 0xE0, 0xF0};
    *to++ = (char)(first[more] | code >> 6 * more);
    for (int i = more; i-- > 0;) {
        *to++ = (char)(0x80 | (code >> 6 * i & 0x3F));
    }
    return to;
}

/* Reads what follows a backslash; returns NULL if this is not allowed. */
static char *read_escape(reader *r, char *to)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char c = r->at < r->length ? r->json[r->at++] : '\0';
    if (c == 'u') {
        const uint32_t code = read_code(r);
        return code ? put_code(to, code) : NULL;
    }
    const char *name = c ? strchr(names, c) : NULL;
    if (!name) {
        return NULL;
    }
    *to = values[name - names];
    return to + 1;
}

/* Reads the text that begins here, decoded, into the header's memory, which has room: no text becomes longer. */
static xsm_status read_text(reader *r, const char **out, xsm_error *err)
{
    xsmi_header *h = r->header;
    char *start = h->text + h->text_used, *to = start;
    if (!take(r, '"')) {
        return fail_json(r, "a text is expected", err);
    }
    while (r->at < r->length && r->json[r->at] != '"') {
        const char c = r->json[r->at++];
        if (c == '\\') {
            to = read_escape(r, to);
        } else {
            *to++ = c;
        }
        if (!to || (unsigned char)c < ' ') {
            return fail_json(r, "a text with a control character, or a backslash before what has no meaning", err);
        }
    }
    if (!take(r, '"')) {
        return fail_json(r, "a text does not end", err);
    }
    const size_t length = (size_t)(to - start);
    if (xsmi_utf8_prefix(start, length) < length) {
        return fail_json(r, "a text is not UTF-8", err);
    }
    *to++ = '\0';
    h->text_used += length + 1;
    *out = start;
    return XSM_OK;
}

/* Reads a text that is valid until the next one is read. */
static xsm_status peek_text(reader *r, const char **out, xsm_error *err)
{
    const size_t before = r->header->text_used;
    XSMI_TRY(read_text(r, out, err));
    r->header->text_used = before;
    return XSM_OK;
}

/* -- lists --------------------------------------------------------------------------------------------------------- */

/* Skips a value of any form; what follows it in its list or object comes next. */
static xsm_status skip_value(reader *r, xsm_error *err)
{
    const size_t start = r->at;
    for (size_t depth = 0; r->at < r->length; r->at++) {
        const char c = r->json[r->at];
        if (depth == 0 && (c == ',' || c == '}' || c == ']')) {
            return r->at > start ? XSM_OK : fail_json(r, "a value is expected", err);
        }
        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        if (c == '"') {
            for (r->at++; r->at < r->length && r->json[r->at] != '"'; r->at++) {
                r->at += r->json[r->at] == '\\';
            }
        }
    }
    return fail_json(r, "it ends within a value", err);
}

/* Sets *more to whether another element follows in a list or object that ends with `end`; takes the comma before it. */
static xsm_status go_on(reader *r, bool *first, char end, bool *more, xsm_error *err)
{
    if (r->at >= r->next_poll) {
        r->next_poll = r->at + BYTES_TOGETHER;
        XSMI_TRY(xsmi_go_on(r->context, err));
    }
    const bool comma = !*first && take(r, ',');
    *more = comma || !take(r, end);
    if (*more && !comma && !*first) {
        return fail_json(r, end == '}' ? "',' or '}' is expected" : "',' or ']' is expected", err);
    }
    *first = false;
    return XSM_OK;
}

/* Reads the key of an object's next member and its colon. */
static xsm_status read_key(reader *r, bool keep, const char **key, xsm_error *err)
{
    XSMI_TRY(keep ? read_text(r, key, err) : peek_text(r, key, err));
    if (!take(r, ':')) {
        return fail_json(r, "':' is expected", err);
    }
    (void)next(r);
    return XSM_OK;
}

/* Reads a whole number from 0 to 2^63 - 1 that ends where an element of a list does. */
static bool take_number(reader *r, uint64_t *number)
{
    const size_t start = r->at;
    uint64_t n = 0;
    bool good = true;
    while (r->at < r->length && r->json[r->at] >= '0' && r->json[r->at] <= '9') {
        good &= !__builtin_mul_overflow(n, 10, &n);
        good &= !__builtin_add_overflow(n, (uint64_t)(r->json[r->at++] - '0'), &n) && n <= INT64_MAX;
    }
    const size_t digits = r->at - start;
    good &= digits == 1 || (digits > 1 && r->json[start] != '0');
    *number = n;
    if (good && (next(r) == ',' || next(r) == ']')) {
        return true;
    }
    r->at = start;
    return false;
}

/* A list of numbers: the first `most`, how many there are, and the first element that is no number (SIZE_MAX: all
 * are). */
typedef struct numbers {
    uint64_t *number;
    size_t most, count, bad;
} numbers;

static xsm_status read_numbers(reader *r, numbers *n, xsm_error *err)
{
    bool first = true, more = false;
    n->count = 0;
    n->bad = SIZE_MAX;
    for (;; n->count++) {
        uint64_t number;
        XSMI_TRY(go_on(r, &first, ']', &more, err));
        if (!more) {
            return XSM_OK;
        }
        (void)next(r);
        if (!take_number(r, &number)) {
            n->bad = XSMI_MIN(n->bad, n->count);
            XSMI_TRY(skip_value(r, err));
        }
        if (n->count < n->most) {
            n->number[n->count] = number;
        }
    }
}

/* -- tensors ------------------------------------------------------------------------------------------------------- */

static xsm_status read_dtype(reader *r, xsmi_tensor *t, xsm_error *err)
{
    const char *text;
    XSMI_TRY(peek_text(r, &text, err));
    return xsmi_dtype_parse(text, &t->dtype)
               ? XSM_OK
               : FAIL(r, err, "tensor '%s' has the dtype '%.100s'; " XSMI_DTYPE_NAMES " are read", t->name, text);
}

static xsm_status read_shape(reader *r, xsmi_tensor *t, xsm_error *err)
{
    numbers n = {.number = t->shape, .most = XSMI_TENSOR_RANK};
    XSMI_TRY(read_numbers(r, &n, err));
    if (n.count > XSMI_TENSOR_RANK) {
        return FAIL(r, err, "tensor '%s' has %zu dimensions; at most %d are read", t->name, n.count, XSMI_TENSOR_RANK);
    }
    t->rank = (uint32_t)n.count;
    return n.bad == SIZE_MAX
               ? XSM_OK
               : FAIL(r, err, "dimension %zu of tensor '%s' is no whole number from 0 on", n.bad, t->name);
}

static xsm_status read_offsets(reader *r, xsmi_tensor *t, xsm_error *err)
{
    uint64_t offsets[2];
    numbers n = {.number = offsets, .most = 2};
    XSMI_TRY(read_numbers(r, &n, err));
    if (n.count != 2 || n.bad != SIZE_MAX) {
        return FAIL(r, err, "the data_offsets of tensor '%s' are not two whole numbers from 0 on", t->name);
    }
    t->begin = (size_t)XSMI_MIN(offsets[0], SIZE_MAX);
    t->size = (size_t)XSMI_MIN(offsets[1], SIZE_MAX);
    return XSM_OK;
}

static xsm_status fail_members(const reader *r, const xsmi_tensor *t, xsm_error *err)
{
    return FAIL(r, err, "tensor '%s' needs dtype, shape and data_offsets, and nothing else", t->name);
}

/* Reads the three members of a tensor, whose name was read, in any order. */
static xsm_status read_tensor(reader *r, xsmi_tensor *t, xsm_error *err)
{
    static const struct {
        const char *key;
        char begins; /* its value */
        xsm_status (*read)(reader *, xsmi_tensor *, xsm_error *);
    } members[] = {{"dtype", '"', read_dtype}, {"shape", '[', read_shape}, {"data_offsets", '[', read_offsets}};
    enum { MEMBERS = sizeof members / sizeof *members };
    bool first = true, more = false, seen[MEMBERS] = {false};
    if (!take(r, '{')) {
        return fail_members(r, t, err);
    }
    for (size_t count = 0;; count++) {
        const char *key;
        size_t which = 0;
        XSMI_TRY(go_on(r, &first, '}', &more, err));
        if (!more) {
            return count == MEMBERS ? XSM_OK : fail_members(r, t, err);
        }
        XSMI_TRY(read_key(r, false, &key, err));
        while (which < MEMBERS && strcmp(key, members[which].key) != 0) {
            which++;
        }
        if (which == MEMBERS || seen[which] || next(r) != members[which].begins) {
            return fail_members(r, t, err);
        }
        seen[which] = true;
        r->at += members[which].begins == '[';
        XSMI_TRY(members[which].read(r, t, err));
    }
}

/* -- names that are distinct --------------------------------------------------------------------------------------- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Refuses two of `count` names that are equal; the names lie `each` bytes apart, from `first` on. */
static xsm_status check_distinct(const reader *r, const void *first, size_t count, size_t each, xsm_error *err)
{
    if (count < 2) {
        return XSM_OK;
    }
    const char **sorted;
    XSMI_TRY(xsmi_array_new(r->context, &sorted, count, sizeof *sorted, "a file's header", err));
    for (size_t i = 0; i < count; i++) {
        memcpy(&sorted[i], (const char *)first + i * each, sizeof *sorted);
    }
    xsm_status status = xsmi_heap_sort_polled(r->context, sorted, count, sizeof *sorted, compare_names)
                            ? XSM_OK
                            : xsmi_fail_cancelled(r->context, err);
    for (size_t i = 1; i < count && status == XSM_OK; i++) {
        if (strcmp(sorted[i - 1], sorted[i]) == 0) {
            status = FAIL(r, err, "the header is not the JSON that is needed: a duplicate of '%.100s'", sorted[i]);
        }
    }
    xsmi_release(r->context, sorted, count, sizeof *sorted);
    return status;
}

/* -- the whole ----------------------------------------------------------------------------------------------------- */

static xsm_status read_entries(reader *r, xsm_error *err)
{
    xsmi_header *h = r->header;
    bool first = true, more = false;
    if (!take(r, '{')) {
        return FAIL(r, err, "%s is not an object", KEY_METADATA);
    }
    for (;;) {
        xsmi_entry entry;
        XSMI_TRY(go_on(r, &first, '}', &more, err));
        if (!more) {
            return check_distinct(r, h->metadata, h->metadata_count, sizeof *h->metadata, err);
        }
        XSMI_TRY(read_key(r, true, &entry.key, err));
        if (next(r) != '"') {
            return FAIL(r, err, "the metadata entry '%.100s' is not text", entry.key);
        }
        XSMI_TRY(read_text(r, &entry.value, err));
        XSMI_TRY(XSMI_GROW(r->context, h->metadata, h->metadata_capacity, h->metadata_count + 1, "metadata", err));
        h->metadata[h->metadata_count++] = entry;
    }
}

static xsm_status read_next_tensor(reader *r, xsm_error *err)
{
    xsmi_header *h = r->header;
    xsmi_tensor t = {.name = NULL};
    XSMI_TRY(read_key(r, true, &t.name, err));
    if (strcmp(t.name, KEY_METADATA) == 0) {
        return skip_value(r, err);
    }
    XSMI_TRY(read_tensor(r, &t, err));
    XSMI_TRY(XSMI_GROW(r->context, h->tensors, h->capacity, h->count + 1, "the list of tensors", err));
    h->tensors[h->count++] = t;
    return XSM_OK;
}

static xsm_status read_next_metadata(reader *r, bool *found, xsm_error *err)
{
    const char *key;
    XSMI_TRY(read_key(r, false, &key, err));
    if (strcmp(key, KEY_METADATA) != 0) {
        return skip_value(r, err);
    }
    if (*found) {
        return FAIL(r, err, "the header is not the JSON that is needed: a duplicate of '%s'", KEY_METADATA);
    }
    *found = true;
    return read_entries(r, err);
}

xsm_status xsmi_header_read_metadata(xsm_context *ctx, const char *name, const char *json, size_t length,
                                     xsmi_header *h, xsm_error *err)
{
    reader r = {.context = ctx, .name = name, .json = json, .length = length, .header = h};
    bool first = true, more = take(&r, '{'), found = false;
    XSMI_TRY(xsmi_array_new(ctx, &h->text, length, 1, "a file's header", err));
    h->text_size = length;
    while (more) {
        XSMI_TRY(go_on(&r, &first, '}', &more, err));
        XSMI_TRY(more ? read_next_metadata(&r, &found, err) : XSM_OK);
    }
    (void)next(&r);
    return r.at == length ? XSM_OK : fail_json(&r, "something follows its end", err);
}

xsm_status xsmi_header_read_tensors(xsm_context *ctx, const char *name, const char *json, size_t length, xsmi_header *h,
                                    xsm_error *err)
{
    reader r = {.context = ctx, .name = name, .json = json, .length = length, .header = h};
    bool first = true, more = take(&r, '{');
    while (more) {
        XSMI_TRY(go_on(&r, &first, '}', &more, err));
        XSMI_TRY(more ? read_next_tensor(&r, err) : XSM_OK);
    }
    return check_distinct(&r, h->tensors, h->count, sizeof *h->tensors, err);
}

void xsmi_header_clear(xsm_context *ctx, xsmi_header *h)
{
    xsmi_release(ctx, h->metadata, h->metadata_capacity, sizeof *h->metadata);
    xsmi_release(ctx, h->tensors, h->capacity, sizeof *h->tensors);
    xsmi_release(ctx, h->text, h->text_size, 1);
    *h = (xsmi_header){NULL, 0, 0, NULL, 0, 0, NULL, 0, 0};
}
