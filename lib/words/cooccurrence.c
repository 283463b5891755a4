/* A hash table of pairs that drops centres when it is full, and rows made from it. */
#include "words/cooccurrence.h"

#include <string.h>

/* Bytes of a slot of the table, with its share of the rows: at most half of the slots are in use. */
#define SLOT_BYTES (sizeof(uint64_t) + sizeof(uint32_t) + sizeof(uint32_t))

/* Returns a bound on the number of different pairs. */
static uint64_t most_pairs(const xsm_corpus *corpus, uint32_t window)
{
    const uint64_t words = corpus->info.words, all = words * words;
    uint64_t in_text;
    return __builtin_mul_overflow(corpus->info.known, 2 * (uint64_t)window, &in_text) || in_text > all ? all : in_text;
}

xsm_status xsmi_cooccurrence_start(xsmi_cooccurrence *c, xsm_context *ctx, const xsm_corpus *corpus,
                                   const xsmi_text_settings *settings, uint64_t memory, xsm_error *err)
{
    memset(c, 0, sizeof *c);
    c->text.words.source.fd = -1;
    c->context = c->held.context = ctx;
    c->words = corpus->info.words;
    /* A centre has at most `words` contexts and must fit. Memory that a text of this length cannot fill is not
     * allocated. */
    const size_t least = 4 * (size_t)c->words;
    const uint64_t pairs = most_pairs(corpus, settings->window);
    c->slots = 1024;
    while (c->slots < least || (2 * c->slots * SLOT_BYTES <= memory && c->slots / 2 < pairs)) {
        c->slots *= 2;
    }
    XSMI_TRY(xsmi_centres_open(&c->text, ctx, corpus, settings, err));
    c->keys = xsmi_hold(&c->held, c->slots, sizeof *c->keys);
    c->counts = xsmi_hold(&c->held, c->slots, sizeof *c->counts);
    c->offsets = xsmi_hold(&c->held, (size_t)c->words + 1, sizeof *c->offsets);
    c->capacity = c->slots / 2;
    c->contexts = xsmi_hold(&c->held, c->capacity, sizeof *c->contexts);
    c->numbers = xsmi_hold(&c->held, c->capacity, sizeof *c->numbers);
    return xsmi_held_check(&c->held, "counts of pairs of words", err);
}

void xsmi_cooccurrence_clear(xsmi_cooccurrence *c)
{
    if (c->context) {
        xsmi_centres_close(&c->text, c->context);
        xsmi_held_release(&c->held);
        memset(c, 0, sizeof *c);
    }
}

static size_t slot_of(const xsmi_cooccurrence *c, uint64_t key)
{
    size_t s = (size_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 20) & (c->slots - 1);
    while (c->counts[s] && c->keys[s] != key) {
        s = (s + 1) & (c->slots - 1);
    }
    return s;
}

/* Drops the later centres, which have more than half of the pairs, but never the first. */
static void narrow(xsmi_cooccurrence *c)
{
    memset(c->offsets, 0, ((size_t)c->end - c->first + 1) * sizeof *c->offsets);
    for (size_t s = 0; s < c->slots; s++) {
        c->offsets[c->counts[s] ? (c->keys[s] >> 32) - c->first + 1 : 0]++;
    }
    uint64_t kept = 0;
    uint32_t end = c->first;
    while (end < c->end && (end == c->first || kept + c->offsets[end - c->first + 1] <= c->capacity / 2)) {
        kept += c->offsets[end - c->first + 1];
        end++;
    }
    c->end = end;
    /* The kept pairs are stored in the rows' memory while the table is rebuilt. */
    size_t n = 0, saved = 0;
    uint64_t *offsets = c->offsets;
    offsets[0] = 0;
    for (uint32_t k = 1; k <= end - c->first; k++) {
        offsets[k] += offsets[k - 1];
    }
    for (size_t s = 0; s < c->slots; s++) {
        uint64_t key = c->keys[s];
        if (c->counts[s] && (uint32_t)(key >> 32) < end) {
            size_t position = (size_t)offsets[(key >> 32) - c->first]++;
            c->contexts[position] = (uint32_t)key;
            c->numbers[position] = c->counts[s];
            saved++;
        }
    }
    memset(c->counts, 0, c->slots * sizeof *c->counts);
    for (uint32_t k = 0; k < end - c->first; k++) {
        for (; n < offsets[k]; n++) {
            uint64_t key = (uint64_t)(c->first + k) << 32 | c->contexts[n];
            size_t s = slot_of(c, key);
            c->keys[s] = key;
            c->counts[s] = c->numbers[n];
        }
    }
    c->used = saved;
}

static void add(xsmi_cooccurrence *c, uint32_t centre, uint32_t context)
{
    if (centre >= c->end) {
        return;
    }
    uint64_t key = (uint64_t)centre << 32 | context;
    size_t s = slot_of(c, key);
    if (c->counts[s] == 0) {
        if (c->used == c->capacity) {
            narrow(c);
            if (centre >= c->end) {
                return;
            }
            s = slot_of(c, key);
        }
        c->keys[s] = key;
        c->used++;
    }
    c->overflow |= c->counts[s] == UINT32_MAX;
    c->counts[s]++;
}

typedef struct entry {
    uint32_t context, number;
} entry;

/* Sifts an element down, in the heapsort of one centre's contexts with their numbers. */
static void sift(uint32_t *contexts, uint32_t *numbers, size_t root, size_t n)
{
    for (size_t child; (child = 2 * root + 1) < n; root = child) {
        child += child + 1 < n && contexts[child + 1] > contexts[child];
        if (contexts[root] >= contexts[child]) {
            return;
        }
        const entry saved = {contexts[root], numbers[root]};
        contexts[root] = contexts[child];
        numbers[root] = numbers[child];
        contexts[child] = saved.context;
        numbers[child] = saved.number;
    }
}

static void sort_row(uint32_t *contexts, uint32_t *numbers, size_t n)
{
    for (size_t i = n / 2; i-- > 0;) {
        sift(contexts, numbers, i, n);
    }
    for (size_t i = n; i-- > 1;) {
        const entry saved = {contexts[0], numbers[0]};
        contexts[0] = contexts[i];
        numbers[0] = numbers[i];
        contexts[i] = saved.context;
        numbers[i] = saved.number;
        sift(contexts, numbers, 0, i);
    }
}

static void make_rows(xsmi_cooccurrence *c)
{
    const uint32_t rows = c->end - c->first;
    memset(c->offsets, 0, ((size_t)rows + 1) * sizeof *c->offsets);
    for (size_t s = 0; s < c->slots; s++) {
        if (c->counts[s]) {
            c->offsets[(c->keys[s] >> 32) - c->first + 1]++;
        }
    }
    for (uint32_t k = 1; k <= rows; k++) {
        c->offsets[k] += c->offsets[k - 1];
    }
    for (size_t s = 0; s < c->slots; s++) {
        if (c->counts[s]) {
            size_t position = (size_t)c->offsets[(c->keys[s] >> 32) - c->first]++;
            c->contexts[position] = (uint32_t)c->keys[s];
            c->numbers[position] = c->counts[s];
        }
    }
    memmove(c->offsets + 1, c->offsets, rows * sizeof *c->offsets);
    c->offsets[0] = 0;
    for (uint32_t k = 0; k < rows; k++) {
        size_t from = (size_t)c->offsets[k], to = (size_t)c->offsets[k + 1];
        sort_row(c->contexts + from, c->numbers + from, to - from);
    }
}

xsm_status xsmi_cooccurrence_count(xsmi_cooccurrence *c, uint32_t first, xsm_error *err)
{
    if (c->end > c->first && c->first == first) {
        return XSM_OK;
    }
    XSMI_TRY(xsmi_centres_rewind(&c->text, err));
    c->text.lines = 0;
    memset(c->counts, 0, c->slots * sizeof *c->counts);
    c->used = 0;
    c->overflow = false;
    c->first = first;
    c->end = c->words;
    xsm_status status;
    for (;;) {
        xsmi_centre at;
        bool found;
        status = xsmi_centres_next(&c->text, &at, &found, err);
        if (status != XSM_OK || !found) {
            break;
        }
        const uint32_t centre = at.words[at.before];
        if (centre < first) {
            continue;
        }
        for (uint32_t i = 0; i < at.before + 1 + at.after; i++) {
            if (i != at.before) {
                add(c, centre, at.words[i]);
            }
        }
    }
    if (status == XSM_OK && c->text.known != c->text.corpus->info.known) {
        status = xsmi_fail(err, XSM_ERROR_STATE, "%s has changed: it held %llu known words, and now %llu",
                           c->text.corpus->path, (unsigned long long)c->text.corpus->info.known,
                           (unsigned long long)c->text.known);
    }
    if (status == XSM_OK && c->overflow) {
        status = xsmi_fail(err, XSM_ERROR_LIMIT, "%s: a pair of words stands together more than 2^32 times",
                           c->text.corpus->path);
    }
    if (status != XSM_OK) {
        c->end = c->first = 0;
        return status;
    }
    make_rows(c);
    return XSM_OK;
}
