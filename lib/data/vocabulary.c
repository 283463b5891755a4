/* Vocabularies: options of text and words, with a reference count. */
#include "data/vocabulary.h"
#include "base/activity.h"
#include "base/counted.h"
#include "base/entry.h"
#include "base/order.h"
#include "base/utf8.h"

#include <string.h>

#include <xsoftmax/vocabulary.h>

struct xsm_vocabulary {
    xsm_context *context;
    xsmi_holders holders;
    xsm_text_options options; /* the prefix is the vocabulary's own copy */
    char *prefix;
    xsmi_dictionary words;
    uint32_t first; /* words before the buckets; all, if it is above their number */
    bool fasttext;
    uint32_t *kept; /* [kept_count] buckets that are features, in rising order; NULL: all */
    uint32_t kept_count;
};

/* -- options ------------------------------------------------------------------------------------------------------ */

static xsm_status check_prefix(const char *prefix, xsm_error *err)
{
    size_t length = strlen(prefix);
    if (length == 0 || xsmi_utf8_prefix(prefix, length) < length || strpbrk(prefix, " \t\n\v\f\r")) {
        char quote[XSMI_QUOTE_SIZE];
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "xsm_text_options.label_prefix is %s; UTF-8 text of one character or more without blanks is "
                         "accepted",
                         xsmi_quote(quote, prefix, length));
    }
    return XSM_OK;
}

xsm_status xsmi_text_options_read(xsm_text_options *known, const xsm_text_options *given, xsm_error *err)
{
    xsm_text_options o = XSM_TEXT_OPTIONS_INIT;
    XSMI_TRY(XSMI_READ(xsm_text_options, &o, given, err));
    o.label_prefix = o.label_prefix ? o.label_prefix : XSMI_LABEL_PREFIX;
    XSMI_TRY(check_prefix(o.label_prefix, err));
    o.min_count = o.min_count ? o.min_count : XSMI_DEFAULT(xsm_text_options, min_count);
    o.word_ngrams = o.word_ngrams ? o.word_ngrams : XSMI_DEFAULT(xsm_text_options, word_ngrams);
    o.min_chars = o.min_chars == 0 && o.max_chars > 0 ? XSMI_DEFAULT(xsm_text_options, min_chars) : o.min_chars;
    o.buckets = o.buckets ? o.buckets : XSMI_DEFAULT(xsm_text_options, buckets);
    if (o.word_ngrams > XSMI_WORD_NGRAMS_MAX) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "xsm_text_options.word_ngrams is %u; 1 to %d is accepted", o.word_ngrams,
                         XSMI_WORD_NGRAMS_MAX);
    }
    if (o.max_chars > XSMI_CHARS_MAX || o.min_chars > o.max_chars) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "xsm_text_options.min_chars and max_chars are %u and %u; 1 <= min_chars <= max_chars <= %d is "
                         "accepted, or 0 and 0",
                         o.min_chars, o.max_chars, XSMI_CHARS_MAX);
    }
    if (o.buckets > XSM_FEATURES_MAX) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "xsm_text_options.buckets is %u; 1 to %u is accepted", o.buckets,
                         (unsigned)XSM_FEATURES_MAX);
    }
    XSMI_TRY(XSMI_CHECK_ZERO(xsm_text_options, &o, reserved, err));
    *known = o;
    return XSM_OK;
}

bool xsmi_text_options_equal(const xsm_text_options *a, const xsm_text_options *b)
{
    return strcmp(a->label_prefix, b->label_prefix) == 0 && a->min_count == b->min_count &&
           a->word_ngrams == b->word_ngrams && a->min_chars == b->min_chars && a->max_chars == b->max_chars &&
           a->buckets == b->buckets;
}

/* Words copied between two polls. */
#define WORDS_TOGETHER 4096

/* -- the vocabulary ----------------------------------------------------------------------------------------------- */

xsm_status xsmi_vocabulary_new(xsm_context *ctx, const xsm_text_options *options, xsm_vocabulary **out, xsm_error *err)
{
    xsm_vocabulary *v;
    XSMI_TRY(XSMI_OBJECT_NEW(ctx, &v, xsm_vocabulary, "a vocabulary", err));
    v->prefix = xsmi_copy_text(ctx, options->label_prefix, strlen(options->label_prefix));
    if (!v->prefix) {
        XSMI_OBJECT_FREE(v, xsm_vocabulary);
        return xsmi_fail_memory(err, strlen(options->label_prefix) + 1, "a vocabulary");
    }
    xsmi_holders_start(&v->holders);
    v->options = *options;
    v->options.label_prefix = v->prefix;
    v->first = UINT32_MAX;
    xsmi_dictionary_start(&v->words, ctx, true);
    *out = v;
    return XSM_OK;
}

xsm_status xsmi_vocabulary_add(xsm_vocabulary *v, const char *word, size_t length, bool *known, xsm_error *err)
{
    uint32_t before = v->words.count;
    uint32_t id;
    XSMI_TRY(xsmi_dictionary_word(&v->words, word, length, &id, err));
    *known = v->words.count == before;
    return XSM_OK;
}

xsm_status xsmi_vocabulary_new_grown(const xsm_vocabulary *from, xsm_vocabulary **out, xsm_error *err)
{
    xsm_vocabulary *v;
    XSMI_TRY(xsmi_vocabulary_new(from->context, &from->options, &v, err));
    xsm_status status = XSM_OK;
    for (uint32_t i = 0; i < from->words.count && status == XSM_OK; i++) {
        size_t length;
        bool known;
        const char *word = xsmi_dictionary_text(&from->words, i, &length);
        status = i % WORDS_TOGETHER == 0 ? xsmi_go_on(v->context, err) : XSM_OK;
        status = status == XSM_OK ? xsmi_vocabulary_add(v, word, length, &known, err) : status;
    }
    if (status == XSM_OK && from->kept) {
        uint32_t *kept;
        status = xsmi_vocabulary_keep_buckets(v, from->kept_count, &kept, err);
        memcpy(kept, from->kept, (status == XSM_OK ? from->kept_count : 0) * sizeof *kept);
    }
    if (status != XSM_OK) {
        xsmi_vocabulary_release(v);
        return status;
    }
    v->first = xsmi_vocabulary_first_words(from);
    v->fasttext = from->fasttext;
    *out = v;
    return XSM_OK;
}

void xsmi_vocabulary_set_fasttext(xsm_vocabulary *v, bool fasttext)
{
    v->fasttext = fasttext;
}

bool xsmi_vocabulary_is_fasttext(const xsm_vocabulary *v)
{
    return v->fasttext;
}

xsm_status xsmi_vocabulary_keep_buckets(xsm_vocabulary *v, uint32_t count, uint32_t **kept, xsm_error *err)
{
    v->kept = xsmi_allocate(v->context, count, sizeof *v->kept);
    v->kept_count = count;
    *kept = v->kept;
    return v->kept ? XSM_OK : xsmi_fail_memory(err, count * sizeof *v->kept, "the buckets of n-grams");
}

const uint32_t *xsmi_vocabulary_kept(const xsm_vocabulary *v)
{
    return v->kept;
}

uint32_t xsmi_vocabulary_buckets(const xsm_vocabulary *v)
{
    return v->kept ? v->kept_count : xsmi_text_buckets(&v->options);
}

uint32_t xsmi_vocabulary_bucket(const xsm_vocabulary *v, uint32_t bucket)
{
    if (!v->kept) {
        return bucket;
    }
    const size_t at = xsmi_lower_bound(v->kept, v->kept_count, bucket);
    return at < v->kept_count && v->kept[at] == bucket ? (uint32_t)at : UINT32_MAX;
}

bool xsmi_vocabulary_same_ngrams(const xsm_vocabulary *a, const xsm_vocabulary *b)
{
    return a->fasttext == b->fasttext && !a->kept == !b->kept && a->kept_count == b->kept_count &&
           (!a->kept || memcmp(a->kept, b->kept, a->kept_count * sizeof *a->kept) == 0);
}

xsm_vocabulary *xsmi_vocabulary_retain(const xsm_vocabulary *v)
{
    /* A vocabulary never changes; its reference count is not part of its contents. */
    xsm_vocabulary *own = (xsm_vocabulary *)(uintptr_t)v;
    if (own) {
        xsmi_holders_add(&own->holders);
    }
    return own;
}

void xsmi_vocabulary_release(const xsm_vocabulary *v)
{
    xsm_vocabulary *own = (xsm_vocabulary *)(uintptr_t)v;
    if (own && xsmi_holders_drop(&own->holders)) {
        xsm_context *ctx = own->context;
        xsmi_dictionary_end(&own->words);
        xsmi_release_text(ctx, own->prefix);
        xsmi_release(ctx, own->kept, own->kept_count, sizeof *own->kept);
        XSMI_OBJECT_FREE(own, xsm_vocabulary);
    }
}

const xsmi_dictionary *xsmi_vocabulary_dictionary(const xsm_vocabulary *v)
{
    return &v->words;
}

const xsm_text_options *xsmi_vocabulary_options(const xsm_vocabulary *v)
{
    return &v->options;
}

uint64_t xsmi_vocabulary_features(const xsm_vocabulary *v)
{
    return (uint64_t)v->words.count + xsmi_vocabulary_buckets(v);
}

uint32_t xsmi_vocabulary_first_words(const xsm_vocabulary *v)
{
    return XSMI_MIN(v->first, v->words.count);
}

void xsmi_vocabulary_set_first_words(xsm_vocabulary *v, uint32_t first)
{
    v->first = first;
}

uint32_t xsmi_vocabulary_feature(const xsm_vocabulary *v, uint32_t word)
{
    return word < v->first ? word : word + xsmi_vocabulary_buckets(v);
}

uint32_t xsm_vocabulary_words(const xsm_vocabulary *v)
{
    return v ? v->words.count : 0;
}

const char *xsm_vocabulary_word(const xsm_vocabulary *v, uint32_t index)
{
    size_t length;
    return v && index < v->words.count ? xsmi_dictionary_text(&v->words, index, &length) : NULL;
}

uint32_t xsm_vocabulary_feature(const xsm_vocabulary *v, uint32_t index)
{
    return v && index < v->words.count ? xsmi_vocabulary_feature(v, index) : UINT32_MAX;
}

xsm_status xsm_vocabulary_get_options(const xsm_vocabulary *v, xsm_text_options *options, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {v, "vocabulary"}, {options, "options"});
    return XSMI_WRITE(xsm_text_options, &v->options, options, err);
}
