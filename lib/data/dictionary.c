/* A hash table with linear probing, at most half full, over entries kept in order of arrival. */
#include "data/dictionary.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/order.h"

#include <string.h>

#include <xsoftmax/dataset.h>

void xsmi_dictionary_start(xsmi_dictionary *d, xsm_context *ctx, bool words)
{
    memset(d, 0, sizeof *d);
    d->context = ctx;
    d->words = words;
}

void xsmi_dictionary_end(xsmi_dictionary *d)
{
    xsmi_release(d->context, d->entries, d->entry_capacity, sizeof *d->entries);
    xsmi_release(d->context, d->slots, d->slot_count, sizeof *d->slots);
    xsmi_release(d->context, d->starts, d->start_capacity, sizeof *d->starts);
    xsmi_release(d->context, d->text, d->text_capacity, 1);
    memset(d, 0, sizeof *d);
}

/* Returns a number's slot. Consecutive numbers should not get consecutive slots, and numbers that differ only in high
 * bits should not collide. The slots depend on the table's address, so that no file can choose labels that all get the
 * same slot. Entries keep the order of arrival whatever their slots. Stages of splitmix64 (G. Steele, D. Lea and C.
 * Flood, Fast splittable pseudorandom number generators, 2014). */
static size_t slot_of(const xsmi_dictionary *d, uint64_t key)
{
    key ^= (uint64_t)(uintptr_t)d->slots;
    key = (key ^ key >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    key = (key ^ key >> 27) * UINT64_C(0x94D049BB133111EB);
    return (size_t)(key >> 20) & (d->slot_count - 1);
}

static xsm_status widen(xsmi_dictionary *d, xsm_error *err)
{
    size_t slot_count = d->slot_count ? d->slot_count * 2 : 256;
    uint32_t *slots;
    XSMI_TRY(xsmi_zeros_new(d->context, &slots, slot_count, sizeof *slots, "the table of labels", err));
    xsmi_release(d->context, d->slots, d->slot_count, sizeof *d->slots);
    d->slots = slots;
    d->slot_count = slot_count;
    for (uint32_t i = 0; i < d->count; i++) {
        size_t s = slot_of(d, d->entries[i].key);
        while (slots[s]) {
            s = (s + 1) & (slot_count - 1);
        }
        slots[s] = i + 1;
    }
    return XSM_OK;
}

static bool same_word(const xsmi_dictionary *d, uint32_t id, const char *word, size_t length)
{
    size_t known;
    const char *text = xsmi_dictionary_text(d, id, &known);
    return known == length && memcmp(text, word, length) == 0;
}

/* Returns the slot of the label, or the free slot where it belongs. */
static size_t probe(const xsmi_dictionary *d, uint64_t key, const char *word, size_t length)
{
    size_t s = slot_of(d, key);
    while (d->slots[s]) {
        uint32_t id = d->slots[s] - 1;
        if (d->entries[id].key == key && (!word || same_word(d, id, word, length))) {
            break;
        }
        s = (s + 1) & (d->slot_count - 1);
    }
    return s;
}

static xsm_status add_word(xsmi_dictionary *d, const char *word, size_t length, xsm_error *err)
{
    uint64_t start = d->count ? d->starts[d->count] : 0;
    XSMI_TRY(XSMI_GROW(d->context, d->starts, d->start_capacity, (size_t)d->count + 2, "the words of labels", err));
    XSMI_TRY(XSMI_GROW(d->context, d->text, d->text_capacity, (size_t)start + length + 1, "the words of labels", err));
    memcpy(d->text + start, word, length);
    d->text[start + length] = '\0';
    d->starts[d->count] = start;
    d->starts[d->count + 1] = start + length + 1;
    return XSM_OK;
}

static xsm_status intern(xsmi_dictionary *d, uint64_t key, const char *word, size_t length, uint32_t *id,
                         xsm_error *err)
{
    if ((size_t)d->count * 2 >= d->slot_count) {
        XSMI_TRY(widen(d, err));
    }
    size_t s = probe(d, key, word, length);
    if (d->slots[s] == 0) {
        if (d->count == XSM_CLASSES_MAX) {
            return xsmi_fail(err, XSM_ERROR_LIMIT, "more than %u different labels or words", (unsigned)XSM_CLASSES_MAX);
        }
        XSMI_TRY(XSMI_GROW(d->context, d->entries, d->entry_capacity, (size_t)d->count + 1, "the labels", err));
        if (word) {
            XSMI_TRY(add_word(d, word, length, err));
        }
        d->entries[d->count].key = key;
        d->entries[d->count].mark = 0;
        d->slots[s] = ++d->count;
    }
    *id = d->slots[s] - 1;
    return XSM_OK;
}

xsm_status xsmi_dictionary_number(xsmi_dictionary *d, int64_t label, uint32_t *id, xsm_error *err)
{
    return intern(d, (uint64_t)label, NULL, 0, id, err);
}

uint32_t xsmi_dictionary_find_number(const xsmi_dictionary *d, int64_t label)
{
    return xsmi_dictionary_find_hashed_word(d, (uint64_t)label, NULL, 0);
}

uint64_t xsmi_dictionary_hash(const char *word, size_t length)
{
    return xsmi_hash(word, length, 0);
}

xsm_status xsmi_dictionary_hashed_word(xsmi_dictionary *d, uint64_t hash, const char *word, size_t length, uint32_t *id,
                                       xsm_error *err)
{
    return intern(d, hash, word, length, id, err);
}

xsm_status xsmi_dictionary_word(xsmi_dictionary *d, const char *word, size_t length, uint32_t *id, xsm_error *err)
{
    return intern(d, xsmi_dictionary_hash(word, length), word, length, id, err);
}

uint32_t xsmi_dictionary_find_hashed_word(const xsmi_dictionary *d, uint64_t hash, const char *word, size_t length)
{
    if (d->slot_count == 0) {
        return UINT32_MAX;
    }
    uint32_t found = d->slots[probe(d, hash, word, length)];
    return found ? found - 1 : UINT32_MAX;
}

uint32_t xsmi_dictionary_find_word(const xsmi_dictionary *d, const char *word, size_t length)
{
    return xsmi_dictionary_find_hashed_word(d, xsmi_dictionary_hash(word, length), word, length);
}

int xsmi_dictionary_before(const void *dictionary, uint32_t a, uint32_t b)
{
    size_t a_length, b_length;
    const char *a_text = xsmi_dictionary_text(dictionary, a, &a_length);
    const char *b_text = xsmi_dictionary_text(dictionary, b, &b_length);
    const int order = memcmp(a_text, b_text, XSMI_MIN(a_length, b_length));
    return order < 0 || (order == 0 && a_length < b_length);
}
