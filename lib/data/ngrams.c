#include "data/ngrams.h"
#include "base/activity.h"
#include "base/grow.h"
#include "base/order.h"
#include "data/dictionary.h"
#include "data/sort.h"
#include "data/vocabulary.h"

#include <string.h>

static bool continues(char c)
{
    return ((unsigned char)c & 0xC0) == 0x80;
}

/* As in fastText, a bracket alone is not an n-gram. */
size_t xsmi_char_ngrams(const xsm_text_options *o, bool fasttext, const char *word, size_t length, char *marked,
                        uint64_t *hashes)
{
    const size_t size = length + 2, least = o->min_chars, most = XSMI_MIN(o->max_chars, size);
    size_t count = 0;
    marked[0] = '<';
    memcpy(marked + 1, word, length);
    marked[size - 1] = '>';
    for (size_t start = 0; start < size; start++) {
        if (continues(marked[start])) {
            continue;
        }
        size_t end = start;
        uint32_t hash = XSMI_FASTTEXT_START;
        for (size_t n = 1; n <= most && end < size; n++) {
            const size_t before = end++;
            while (end < size && continues(marked[end])) {
                end++;
            }
            hash = fasttext ? xsmi_fasttext_hash(hash, marked + before, end - before) : 0;
            if (n >= least && !(n == 1 && (start == 0 || end == size))) {
                hashes[count++] = fasttext ? hash : xsmi_dictionary_hash(marked + start, end - start);
            }
        }
    }
    return count;
}

/* -- other n-grams ------------------------------------------------------------------------------------------------- */

xsm_status xsmi_schema_with_ngrams(const xsmi_schema *s, const xsm_text_options *text, xsmi_schema **out,
                                   xsm_error *err)
{
    const xsmi_dictionary *words = xsmi_vocabulary_dictionary(s->vocabulary);
    xsm_vocabulary *v;
    XSMI_TRY(xsmi_vocabulary_new(s->context, text, &v, err));
    xsm_status status = XSM_OK;
    for (uint32_t i = 0; i < words->count && status == XSM_OK; i++) {
        size_t length;
        bool known;
        const char *word = xsmi_dictionary_text(words, i, &length);
        status = xsmi_vocabulary_add(v, word, length, &known, err);
    }
    status = status == XSM_OK ? xsmi_schema_of_words(s->context, v, out, err) : status;
    xsmi_vocabulary_release(v);
    return status;
}

/* A change of rows to other n-grams. */
typedef struct change {
    const xsm_dataset *d;
    xsm_context *context;
    const xsmi_dictionary *words;
    const xsm_text_options *text; /* the options that the rows get */
    uint32_t first, buckets;      /* of the rows before: words in front of the buckets, and buckets */
    uint32_t narrower;            /* the old buckets that become one; 0: their n-grams are dropped */
    bool chars;                   /* n-grams of characters are added */
    size_t *place;                /* [words] 1 + where the n-grams of a word begin in `listed`; 0: not yet listed */
    uint64_t *listed;             /* for each listed word the number of its n-grams, then their keys */
    size_t listed_count, listed_capacity;
    char *marked; /* a word between its brackets */
    size_t marked_capacity;
    uint64_t *keys, *scratch; /* features of a row, with their counts */
    size_t key_capacity, scratch_capacity;
    size_t since;
} change;

static xsm_status begin(change *c, const xsm_dataset *d, const xsmi_schema *to, xsm_error *err)
{
    const xsm_vocabulary *from = d->schema->vocabulary;
    const xsm_text_options *was = xsmi_vocabulary_options(from);
    const uint32_t buckets = xsmi_text_buckets(was);
    *c = (change){.d = d,
                  .context = d->context,
                  .words = xsmi_vocabulary_dictionary(from),
                  .text = xsmi_vocabulary_options(to->vocabulary),
                  .first = xsmi_vocabulary_first_words(from),
                  .buckets = buckets};
    c->narrower = c->text->word_ngrams > 1 ? buckets / c->text->buckets : 0;
    c->chars = c->text->max_chars > 0;
    c->place = xsmi_allocate_zero(c->context, c->words->count, sizeof *c->place);
    return c->place ? XSM_OK : xsmi_fail_memory(err, c->words->count * sizeof *c->place, "the n-grams of words");
}

static void end(const change *c)
{
    xsmi_release(c->context, c->place, c->words->count, sizeof *c->place);
    xsmi_release(c->context, c->listed, c->listed_capacity, sizeof *c->listed);
    xsmi_release(c->context, c->marked, c->marked_capacity, 1);
    xsmi_release(c->context, c->keys, c->key_capacity, sizeof *c->keys);
    xsmi_release(c->context, c->scratch, c->scratch_capacity, sizeof *c->scratch);
}

/* Lists the n-grams of a word, once. */
static xsm_status list(change *c, uint32_t word, xsm_error *err)
{
    size_t length;
    const char *text = xsmi_dictionary_text(c->words, word, &length);
    const size_t size = length + 2, room = xsmi_char_ngrams_room(c->text, size);
    if (c->place[word] > 0) {
        return XSM_OK;
    }
    XSMI_TRY(XSMI_GROW(c->context, c->marked, c->marked_capacity, size, "a word", err));
    XSMI_TRY(
        XSMI_GROW(c->context, c->listed, c->listed_capacity, c->listed_count + 1 + room, "the n-grams of words", err));
    c->place[word] = c->listed_count + 1;
    uint64_t *at = c->listed + c->listed_count;
    at[0] = xsmi_char_ngrams(c->text, false, text, length, c->marked, at + 1);
    for (uint64_t i = 1; i <= at[0]; i++) {
        at[i] = (uint64_t)c->words->count + xsmi_ngram_bucket(c->text->buckets, at[i]);
    }
    c->listed_count += 1 + (size_t)at[0];
    return XSM_OK;
}

static bool is_bucket(const change *c, uint32_t feature)
{
    return feature >= c->first && feature - c->first < c->buckets;
}

/* Adds value number j of a row: a feature and, of a word, its n-grams, each with its count. */
static xsm_status add(change *c, const xsmi_features *row, size_t j, size_t *count, xsm_error *err)
{
    const uint32_t feature = row->index[j];
    const uint64_t value = (uint64_t)row->values[j], left = row->count - j;
    const bool bucket = is_bucket(c, feature);
    if (value == 0 || (bucket && c->narrower == 0)) {
        return XSM_OK;
    }
    const uint32_t word = feature < c->first ? feature : feature - c->buckets;
    const uint64_t to = bucket ? c->words->count + (uint64_t)(feature - c->first) / c->narrower : word;
    XSMI_TRY(bucket || !c->chars ? XSM_OK : list(c, word, err));
    const uint64_t *ngrams = bucket || !c->chars ? NULL : c->listed + c->place[word] - 1;
    const size_t more = ngrams ? (size_t)ngrams[0] : 0;
    XSMI_TRY(XSMI_GROW(c->context, c->keys, c->key_capacity, *count + more + left, "the features of a row", err));
    c->keys[(*count)++] = to << 32 | value;
    for (size_t i = 1; i <= more; i++) {
        c->keys[(*count)++] = ngrams[i] << 32 | value;
    }
    return XSM_OK;
}

/* Appends the row: its features in rising order, each once. */
static xsm_status change_row(change *c, uint64_t i, xsmi_feature_arrays *to, uint64_t *next, xsm_error *err)
{
    const xsmi_features row = xsmi_dataset_features(c->d, i);
    size_t count = 0;
    for (size_t j = 0; j < row.count; j++) {
        XSMI_TRY(add(c, &row, j, &count, err));
    }
    XSMI_TRY(XSMI_GROW(c->context, c->scratch, c->scratch_capacity, count, "the features of a row", err));
    XSMI_TRY(XSMI_GROW(c->context, to->index, to->index_capacity, *next + count, "features of rows", err));
    XSMI_TRY(XSMI_GROW(c->context, to->values, to->value_capacity, *next + count, "features of rows", err));
    if (count > 0) {
        xsmi_sort(c->context, c->keys, c->scratch, count);
    }
    for (size_t j = 0; j < count; (*next)++) {
        const uint32_t feature = (uint32_t)(c->keys[j] >> 32);
        uint64_t sum = 0;
        for (; j < count && c->keys[j] >> 32 == feature; j++) {
            sum += (uint32_t)c->keys[j];
        }
        to->index[*next] = feature;
        to->values[*next] = (float)sum;
    }
    to->offsets[i + 1] = *next;
    return xsmi_dataset_worked(c->d->context, &c->since, count + 1, err);
}

static xsm_status change_rows(change *c, xsmi_feature_arrays *to, xsm_error *err)
{
    const uint64_t rows = c->d->rows;
    uint64_t next = 0;
    XSMI_TRY(XSMI_GROW(c->context, to->offsets, to->offset_capacity, rows + 1, "rows", err));
    XSMI_TRY(XSMI_GROW(c->context, to->index, to->index_capacity, 1, "features of rows", err));
    XSMI_TRY(XSMI_GROW(c->context, to->values, to->value_capacity, 1, "features of rows", err));
    to->offsets[0] = 0;
    for (uint64_t i = 0; i < rows; i++) {
        XSMI_TRY(change_row(c, i, to, &next, err));
    }
    xsmi_shrink(c->context, &to->index, &to->index_capacity, next, sizeof *to->index);
    xsmi_shrink(c->context, &to->values, &to->value_capacity, next, sizeof *to->values);
    return XSM_OK;
}

xsm_status xsmi_dataset_take_ngrams(xsm_dataset *d, const xsmi_schema *to, xsm_error *err)
{
    change c;
    xsmi_feature_arrays arrays = {NULL, NULL, NULL, 0, 0, 0, 0};
    xsm_status status = begin(&c, d, to, err);
    status = status == XSM_OK ? change_rows(&c, &arrays, err) : status;
    end(&c);
    if (status != XSM_OK) {
        xsmi_feature_arrays_free(d->context, &arrays);
        return status;
    }
    xsmi_dataset_take_features(d, &arrays);
    const xsmi_schema *before = d->schema;
    d->schema = xsmi_schema_retain(to);
    d->features = to->count;
    xsmi_schema_release(before);
    xsmi_dataset_count_features(d);
    return XSM_OK;
}

xsm_status xsmi_dataset_count_ngrams(const xsm_dataset *d, const xsmi_schema *to, uint32_t *count, xsm_error *err)
{
    change c;
    const uint32_t buckets = xsmi_text_buckets(xsmi_vocabulary_options(to->vocabulary));
    unsigned char *used = xsmi_allocate_zero(d->context, buckets, 1);
    xsm_status status = used ? begin(&c, d, to, err) : xsmi_fail_memory(err, buckets, "the n-grams of text");
    if (!used) {
        return status;
    }
    for (uint32_t word = 0; status == XSM_OK && c.chars && word < c.words->count; word++) {
        c.listed_count = 0; /* of one word at a time */
        status = list(&c, word, err);
        for (uint64_t i = 1; status == XSM_OK && i <= c.listed[0]; i++) {
            used[c.listed[i] - c.words->count] = 1;
        }
    }
    for (uint64_t i = 0; status == XSM_OK && c.narrower > 0 && i < d->rows; i++) {
        const xsmi_features row = xsmi_dataset_features(d, i);
        for (size_t j = 0; j < row.count; j++) {
            if (is_bucket(&c, row.index[j])) {
                used[(row.index[j] - c.first) / c.narrower] = 1;
            }
        }
        status = xsmi_dataset_worked(d->context, &c.since, row.count + 1, err);
    }
    *count = 0;
    for (uint32_t b = 0; status == XSM_OK && b < buckets; b++) {
        *count += used[b];
    }
    end(&c);
    xsmi_release(d->context, used, buckets, 1);
    return status;
}
