/*
 * A dictionary of labels or words (numbers or text), numbered from 0 in the order of their first appearance.
 */
#ifndef XSMI_DICTIONARY_H
#define XSMI_DICTIONARY_H

#include "base/base.h"

typedef struct xsmi_dictionary_entry {
    uint64_t key;  /* the number, or a word's hash */
    uint64_t mark; /* for the reader: the last row with the label, from 1; or the word's count */
} xsmi_dictionary_entry;

typedef struct xsmi_dictionary {
    xsm_context *context;
    bool words;
    uint32_t count;
    xsmi_dictionary_entry *entries;
    size_t entry_capacity;
    uint32_t *slots; /* open addressing; entry number + 1, 0 = free */
    size_t slot_count;
    uint64_t *starts; /* words: [count+1] into text, each word terminated */
    size_t start_capacity;
    char *text;
    size_t text_capacity;
} xsmi_dictionary;

/* Makes an empty dictionary, of words or of numbers. Allocates nothing. */
void xsmi_dictionary_start(xsmi_dictionary *d, xsm_context *ctx, bool words);
void xsmi_dictionary_end(xsmi_dictionary *d);

/* Finds the number of a label, which is added if it is new. */
xsm_status xsmi_dictionary_number(xsmi_dictionary *d, int64_t label, uint32_t *id, xsm_error *err);
/* Returns the number of a label; UINT32_MAX if it is not in the dictionary. */
uint32_t xsmi_dictionary_find_number(const xsmi_dictionary *d, int64_t label);
xsm_status xsmi_dictionary_word(xsmi_dictionary *d, const char *word, size_t length, uint32_t *id, xsm_error *err);
/* Returns the number of a word; UINT32_MAX if it is not in the dictionary. */
uint32_t xsmi_dictionary_find_word(const xsmi_dictionary *d, const char *word, size_t length);
/* The first returns a word's hash, which must never change, as features of saved models depend on it. The others look a
 * word up by that hash. */
uint64_t xsmi_dictionary_hash(const char *word, size_t length);
xsm_status xsmi_dictionary_hashed_word(xsmi_dictionary *d, uint64_t hash, const char *word, size_t length, uint32_t *id,
                                       xsm_error *err);
uint32_t xsmi_dictionary_find_hashed_word(const xsmi_dictionary *d, uint64_t hash, const char *word, size_t length);

static inline int64_t xsmi_dictionary_label(const xsmi_dictionary *d, uint32_t id)
{
    return (int64_t)d->entries[id].key;
}
static inline const char *xsmi_dictionary_text(const xsmi_dictionary *d, uint32_t id, size_t *length)
{
    *length = (size_t)(d->starts[id + 1] - d->starts[id] - 1);
    return d->text + d->starts[id];
}
/* Whether word a comes before word b in the order of their bytes, for xsmi_sort_by(). */
int xsmi_dictionary_before(const void *dictionary, uint32_t a, uint32_t b);

#endif
