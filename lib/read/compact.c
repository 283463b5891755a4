/*
 * Feature numbers far above those in use, such as hashes. The numbers in use become features, in rising order, and the
 * dataset keeps the number of each; against a class map with such numbers they become its features.
 *
 * While rows are read, a number below 2^31 is its own code, and a larger one has the next code from 2^31 on. Then the
 * codes become features in place.
 */
#include "base/grow.h"
#include "base/order.h"
#include "data/sort.h"
#include "read/sparse.h"

#include <string.h>

/* Numbers remain features themselves if D is at most PLAIN_FEATURES, or at most PLAIN_TIMES times the count of numbers
 * in use. */
#define PLAIN_FEATURES (UINT64_C(1) << 20)
#define PLAIN_TIMES 16

typedef struct compaction {
    xsmi_sparse *s;
    xsmi_dictionary numbers; /* the number of each feature */
    bool closed;             /* no further numbers become features */
    uint64_t *used;          /* a bit for each number below 2^31 that is in use */
    size_t words;
} compaction;

static int64_t number_of(const xsmi_sparse *s, uint32_t code)
{
    return code < XSMI_SPARSE_WIDE ? (int64_t)code + s->base : xsmi_dictionary_label(&s->wide, code - XSMI_SPARSE_WIDE);
}

/* Values between two polls. */
#define VALUES_TOGETHER ((size_t)1 << 18)

static uint32_t largest_code(const xsmi_reader *r)
{
    uint32_t largest = 0;
    for (size_t j = 0; j < r->entries.count; j++) {
        const uint32_t code = r->entries.index[j];
        largest = code < XSMI_SPARSE_WIDE && code > largest ? code : largest;
    }
    return largest;
}

/* Marks the numbers below 2^31 that are in use. *count gets how many; it may stop at a count above `most`. */
static xsm_status mark(compaction *c, uint64_t most, uint64_t *count, xsm_error *err)
{
    const xsmi_reader *r = c->s->r;
    c->words = (size_t)largest_code(r) / 64 + 1;
    XSMI_TRY(xsmi_zeros_new(r->context, &c->used, c->words, sizeof *c->used, "the numbers of features", err));
    *count = 0;
    for (size_t j = 0; j < r->entries.count && *count <= most; j++) {
        const uint32_t code = r->entries.index[j];
        if (code < XSMI_SPARSE_WIDE) {
            uint64_t *word = &c->used[code / 64];
            *count += !(*word >> code % 64 & 1);
            *word |= UINT64_C(1) << code % 64;
        }
        XSMI_TRY(j % VALUES_TOGETHER == 0 ? xsmi_go_on(r->context, err) : XSM_OK);
    }
    return XSM_OK;
}

static xsm_status add(compaction *c, int64_t number, xsm_error *err)
{
    uint32_t feature;
    return xsmi_dictionary_number(&c->numbers, number, &feature, err);
}

static xsm_status add_wide(compaction *c, xsm_error *err)
{
    xsmi_sparse *s = c->s;
    const xsmi_reader *r = s->r;
    const uint32_t count = s->wide.count;
    XSMI_TRY(XSMI_GROW(r->context, s->sort.keys, s->sort.key_capacity, count, "the numbers of features", err));
    XSMI_TRY(XSMI_GROW(r->context, s->sort.scratch, s->sort.scratch_capacity, count, "the numbers of features", err));
    for (uint32_t i = 0; i < count; i++) {
        s->sort.keys[i] = s->wide.entries[i].key; /* not negative */
    }
    xsmi_sort(r->context, s->sort.keys, s->sort.scratch, count);
    for (uint32_t i = 0; i < count; i++) {
        XSMI_TRY(add(c, (int64_t)s->sort.keys[i], err));
    }
    return xsmi_go_on(r->context, err);
}

/* Adds all numbers in use. */
static xsm_status add_used(compaction *c, xsm_error *err)
{
    for (size_t w = 0; w < c->words; w++) {
        for (uint64_t bits = c->used[w]; bits; bits &= bits - 1) {
            XSMI_TRY(add(c, (int64_t)(w * 64 + (size_t)__builtin_ctzll(bits)) + c->s->base, err));
        }
        XSMI_TRY(w % VALUES_TOGETHER == 0 ? xsmi_go_on(c->s->r->context, err) : XSM_OK);
    }
    return c->s->wide.count > 0 ? add_wide(c, err) : XSM_OK;
}

/* Adds the numbers of the class map's features. */
static xsm_status add_known(compaction *c, xsm_error *err)
{
    const xsm_class_map *map = &c->s->r->map;
    const int64_t base = map->index_base == XSM_INDEX_BASE_ONE;
    const uint32_t count = map->feature_numbers ? map->feature_number_count : map->features;
    for (uint32_t j = 0; j < count; j++) {
        XSMI_TRY(add(c, map->feature_numbers ? map->feature_numbers[j] : base + j, err));
    }
    return XSM_OK;
}

static xsm_status sort_row(xsmi_sparse *s, size_t start, size_t end, xsm_error *err)
{
    const xsmi_reader_entries *e = &s->r->entries;
    return xsmi_sort_entries(s->r->context, &s->sort, e->index + start, e->values + start, end - start, err);
}

/* Replaces a row's codes by features, which it stores from *next on; drops and counts codes without a feature. */
static xsm_status place_row(xsmi_sparse *s, const xsmi_dictionary *numbers, size_t start, size_t end, size_t *next,
                            xsm_error *err)
{
    xsmi_reader_entries *e = &s->r->entries;
    const size_t first = *next;
    bool rising = true;
    for (size_t j = start; j < end; j++) {
        const uint32_t feature = xsmi_dictionary_find_number(numbers, number_of(s, e->index[j]));
        if (feature == UINT32_MAX) {
            s->r->dropped++;
            continue;
        }
        rising &= *next == first || feature > e->index[*next - 1];
        e->index[*next] = feature;
        e->values[(*next)++] = e->values[j];
    }
    return rising ? XSM_OK : sort_row(s, first, *next, err);
}

xsm_status xsmi_sparse_place_row(xsmi_sparse *s, const xsmi_dictionary *numbers, xsm_error *err)
{
    xsmi_reader_entries *e = &s->r->entries;
    size_t next = 0;
    XSMI_TRY(place_row(s, numbers, 0, e->count, &next, err));
    e->count = next;
    e->offsets[s->r->rows] = next;
    if (s->wide.count > 0) {
        xsmi_dictionary_end(&s->wide);
        xsmi_dictionary_start(&s->wide, s->r->context, false);
    }
    return XSM_OK;
}

/* Rows between two polls. */
#define ROWS_TOGETHER 1024

static xsm_status place_rows(compaction *c, xsm_error *err)
{
    xsmi_reader *r = c->s->r;
    size_t start = 0, next = 0;
    for (uint64_t i = 0; i < r->rows; i++) {
        const size_t end = (size_t)r->entries.offsets[i + 1];
        XSMI_TRY(place_row(c->s, &c->numbers, start, end, &next, err));
        XSMI_TRY(i % ROWS_TOGETHER == 0 ? xsmi_go_on(r->context, err) : XSM_OK);
        xsmi_reader_passed(r, (end - start) * 8 + 8);
        r->entries.offsets[i + 1] = next;
        start = end;
    }
    r->entries.count = next;
    return XSM_OK;
}

/* Decides whether numbers are replaced by features; if so, c->numbers gets all of them. */
static xsm_status decide(compaction *c, bool *compacts, xsm_error *err)
{
    const xsmi_sparse *s = c->s;
    const xsmi_reader *r = s->r;
    const uint64_t features = s->largest - (s->base_open && s->largest > 0); /* if no index is 0, the base is 1 */
    *compacts = r->has_map && r->map.feature_numbers;
    c->closed = *compacts && !r->options.new_features;
    if (*compacts) {
        XSMI_TRY(add_known(c, err));
    } else if (features <= PLAIN_FEATURES) {
        return XSM_OK;
    }
    if (c->closed) {
        return XSM_OK;
    }
    const uint64_t known = r->has_map && !*compacts ? r->map.features : 0;
    const bool must = *compacts || s->wide.count > 0;
    const uint64_t most = must ? UINT64_MAX : (features - 1) / PLAIN_TIMES;
    uint64_t count = 0;
    XSMI_TRY(mark(c, most, &count, err));
    if (known + count > most) {
        return XSM_OK;
    }
    XSMI_TRY(known > 0 ? add_known(c, err) : XSM_OK);
    *compacts = true;
    return add_used(c, err);
}

/* Gives the reader the schema of these features. */
static xsm_status keep_numbers(const compaction *c, xsm_error *err)
{
    xsmi_reader *r = c->s->r;
    const uint32_t count = c->numbers.count;
    int64_t *numbers;
    XSMI_TRY(xsmi_array_new(r->context, &numbers, count, sizeof *numbers, "the numbers of features", err));
    for (uint32_t j = 0; j < count; j++) {
        numbers[j] = xsmi_dictionary_label(&c->numbers, j);
    }
    xsmi_schema_release(r->schema);
    r->schema = NULL;
    const xsm_status status = xsmi_schema_of_number_list(r->context, numbers, count, &r->schema, err);
    xsmi_release(r->context, numbers, count, sizeof *numbers);
    r->features = count;
    if (r->options.features > 0 && r->options.features != count && status == XSM_OK) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "%s: %u numbers of features; xsm_read_options.features wants %u",
                         r->source.name, count, r->options.features);
    }
    return status;
}

xsm_status xsmi_sparse_compact(xsmi_sparse *s, bool *compacts, xsm_error *err)
{
    compaction c = {.s = s};
    *compacts = false;
    if (!s->any_number || s->r->rows == 0) {
        return XSM_OK;
    }
    xsmi_dictionary_start(&c.numbers, s->r->context, false);
    xsm_status status = decide(&c, compacts, err);
    if (status == XSM_OK && *compacts) {
        status = place_rows(&c, err);
        status = status == XSM_OK ? keep_numbers(&c, err) : status;
    }
    xsmi_release(s->r->context, c.used, c.words, sizeof *c.used);
    xsmi_dictionary_end(&c.numbers);
    return status;
}
