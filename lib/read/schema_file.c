/*
 * What features are, on disk. A vocabulary: words as lines of a tensor, and the settings as one line of metadata,
 *
 *     words=V min_count=1 word_ngrams=2 min_chars=3 max_chars=6 buckets=262144 label_prefix=__label__
 *
 * in which the prefix is last, as it may contain anything but blanks. Of a vocabulary with buckets that has grown,
 * `first=N ` follows the number of words: how many of them have features before the buckets. `hash=fasttext ` before
 * the prefix means that text is read as fastText reads it; if its pruning kept only some buckets, these are a tensor,
 * U32. Columns: a tensor of their names, each terminated by a zero byte, as a name may contain line ends.
 */
#include "data/schema.h"
#include "data/vocabulary.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <xsoftmax/vocabulary.h>

#define FASTTEXT "hash=fasttext "

static xsm_status describe_words(const xsm_vocabulary *v, xsmi_settings *metadata, xsm_error *err)
{
    const xsm_text_options *o = xsmi_vocabulary_options(v);
    const uint32_t words = xsm_vocabulary_words(v), before = xsmi_vocabulary_first_words(v);
    char numbers[224], first[24] = "";
    if (before < words && xsmi_text_buckets(o) > 0) {
        snprintf(first, sizeof first, "first=%" PRIu32 " ", before);
    }
    const size_t length = (size_t)snprintf(numbers, sizeof numbers,
                                           "words=%" PRIu32 " %smin_count=%" PRIu32 " word_ngrams=%" PRIu32
                                           " min_chars=%" PRIu32 " max_chars=%" PRIu32 " buckets=%" PRIu32
                                           " %slabel_prefix=",
                                           words, first, o->min_count, o->word_ngrams, o->min_chars, o->max_chars,
                                           o->buckets, xsmi_vocabulary_is_fasttext(v) ? FASTTEXT : ""),
                 prefix = strlen(o->label_prefix);
    char *text;
    XSMI_TRY(xsmi_array_new(metadata->context, &text, length + prefix + 1, 1, "metadata", err));
    memcpy(text, numbers, length);
    memcpy(text + length, o->label_prefix, prefix + 1);
    const xsm_status status = xsmi_settings_add(metadata, XSMI_KEY_VOCABULARY, "", text, err);
    xsmi_release(metadata->context, text, length + prefix + 1, 1);
    return status;
}

/* Writes words, which lie one after another in memory, each terminated; line ends replace the terminators. */
static xsm_status write_words(const xsmi_content *c, xsmi_container_writer *w, xsm_error *err)
{
    const xsmi_dictionary *d = c->of;
    char some[4096];
    const size_t size = (size_t)c->tensor.shape[0];
    for (size_t first = 0; first < size; first += sizeof some) {
        size_t count = size - first < sizeof some ? size - first : sizeof some;
        memcpy(some, d->text + first, count);
        for (size_t i = 0; i < count; i++) {
            some[i] = some[i] ? some[i] : '\n';
        }
        XSMI_TRY(xsmi_container_write(w, some, count, err));
    }
    return XSM_OK;
}

xsm_status xsmi_schema_list(const xsmi_schema *s, xsmi_contents *c, xsm_error *err)
{
    if (s && s->vocabulary) {
        const xsmi_dictionary *d = xsmi_vocabulary_dictionary(s->vocabulary);
        xsmi_contents_add(c, (xsmi_content){.tensor = {.name = XSMI_VOCABULARY_TENSOR,
                                                       .dtype = XSMI_DTYPE_U8,
                                                       .rank = 1,
                                                       .shape = {d->count ? d->starts[d->count] : 0}},
                                            .write = write_words,
                                            .of = d});
        const uint32_t *kept = xsmi_vocabulary_kept(s->vocabulary);
        if (kept) {
            xsmi_contents_add_data(c, XSMI_BUCKETS_TENSOR, XSMI_DTYPE_U32, xsmi_vocabulary_buckets(s->vocabulary), 0,
                                   kept);
        }
        return describe_words(s->vocabulary, &c->metadata, err);
    }
    if (s && s->numbers) {
        xsmi_contents_add_data(c, XSMI_FEATURE_NUMBERS_TENSOR, XSMI_DTYPE_I64, s->count, 0, s->numbers);
    } else if (s && s->kind != XSMI_SCHEMA_NUMBERS) {
        xsmi_contents_add_data(c, XSMI_FEATURE_NAMES_TENSOR, XSMI_DTYPE_U8, s->text_size, 0, s->text);
    }
    return XSM_OK;
}

xsm_status xsmi_schema_list_base(const xsmi_schema *s, xsmi_contents *c, xsm_error *err)
{
    const int32_t base = xsmi_schema_index_base(s);
    return base == XSM_INDEX_BASE_AUTO
               ? XSM_OK
               : xsmi_settings_add(&c->metadata, XSMI_KEY_INDEX_BASE, "", base == XSM_INDEX_BASE_ONE ? "1" : "0", err);
}

/* -- reading ------------------------------------------------------------------------------------------------------ */

/* Reads `key=number ` and moves behind it. */
static bool read_number(const char **text, const char *key, uint32_t *number)
{
    const char *p = *text;
    size_t length = strlen(key);
    uint64_t n = 0;
    if (strncmp(p, key, length) != 0 || p[length] != '=') {
        return false;
    }
    p += length + 1;
    const char *digits = p;
    for (; *p >= '0' && *p <= '9' && n <= UINT32_MAX; p++) {
        n = n * 10 + (uint64_t)(*p - '0');
    }
    if (p == digits || *p != ' ' || n > UINT32_MAX) {
        return false;
    }
    *number = (uint32_t)n;
    *text = p + 1;
    return true;
}

/* The settings of a vocabulary, as the metadata have them. */
typedef struct description {
    uint32_t words, first;
    bool fasttext;
    xsm_text_options options;
} description;

static xsm_status read_options(const char *text, const char *name, description *d, xsm_error *err)
{
    static const char prefix[] = "label_prefix=";
    xsm_text_options given = XSM_TEXT_OPTIONS_INIT;
    const char *p = text;
    *d = (description){.first = UINT32_MAX};
    bool good = read_number(&p, "words", &d->words);
    if (good && strncmp(p, "first=", 6) == 0) {
        good = read_number(&p, "first", &d->first) && d->first <= d->words;
    }
    good = good && read_number(&p, "min_count", &given.min_count) &&
           read_number(&p, "word_ngrams", &given.word_ngrams) && read_number(&p, "min_chars", &given.min_chars) &&
           read_number(&p, "max_chars", &given.max_chars) && read_number(&p, "buckets", &given.buckets);
    d->fasttext = good && strncmp(p, FASTTEXT, sizeof FASTTEXT - 1) == 0;
    p += d->fasttext ? sizeof FASTTEXT - 1 : 0;
    if (!good || strncmp(p, prefix, sizeof prefix - 1) != 0) {
        return xsmi_fail(
            err, XSM_ERROR_FORMAT,
            "%s: the metadata 'vocabulary' is '%.150s'; words=V [first=N] min_count=N word_ngrams=N min_chars=N "
            "max_chars=N buckets=N [hash=fasttext] label_prefix=TEXT is accepted",
            name, text);
    }
    given.label_prefix = p + sizeof prefix - 1;
    xsm_error inner = XSM_ERROR_INIT;
    if (xsmi_text_options_read(&d->options, &given, &inner) != XSM_OK) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: the metadata 'vocabulary': %s", name, inner.message);
    }
    return XSM_OK;
}

/* Reads the buckets that are features, if not all are. */
static xsm_status read_buckets(const xsmi_tensor *t, const char *name, const description *d, xsm_vocabulary *v,
                               xsm_error *err)
{
    const uint32_t most = xsmi_text_buckets(&d->options);
    uint32_t *kept = NULL;
    bool good =
        !t || (t->dtype == XSMI_DTYPE_U32 && t->rank == 1 && t->shape[0] >= 1 && t->shape[0] <= most && d->fasttext);
    if (t && good) {
        const uint32_t count = (uint32_t)t->shape[0];
        XSMI_TRY(xsmi_vocabulary_keep_buckets(v, count, &kept, err));
        memcpy(kept, t->data, count * sizeof *kept);
        for (uint32_t i = 0; i < count && good; i++) {
            good = kept[i] < most && (i == 0 || kept[i] > kept[i - 1]);
        }
    }
    if (!good) {
        return xsmi_fail(err, XSM_ERROR_FORMAT,
                         "%s: the tensor '" XSMI_BUCKETS_TENSOR
                         "' is U32 of 1 dimension, rising numbers below the %u buckets "
                         "of hash=fasttext, and this is none",
                         name, most);
    }
    if (xsmi_vocabulary_buckets(v) > XSM_FEATURES_MAX - d->words) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: the metadata 'vocabulary' has %u words and %u buckets", name,
                         d->words, xsmi_vocabulary_buckets(v));
    }
    return XSM_OK;
}

static xsm_status read_words(const xsmi_tensor *lines, const char *name, uint32_t words, xsm_vocabulary *v,
                             xsm_error *err)
{
    const char *p = (const char *)lines->data;
    const char *end = p + lines->size;
    for (uint32_t i = 0; i < words; i++) {
        const char *stop = p < end ? memchr(p, '\n', (size_t)(end - p)) : NULL;
        size_t length = stop ? (size_t)(stop - p) : 0;
        if (length == 0 || xsmi_utf8_prefix(p, length) < length) {
            return xsmi_fail(err, XSM_ERROR_FORMAT,
                             "%s: line %u of the vocabulary is no word; %u lines of UTF-8 text are needed", name, i + 1,
                             words);
        }
        bool known;
        XSMI_TRY(xsmi_vocabulary_add(v, p, length, &known, err));
        if (known) {
            return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: line %u of the vocabulary has a word for the second time",
                             name, i + 1);
        }
        p = stop + 1;
    }
    if (p != end) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: the vocabulary has more lines than the %u words it declares", name,
                         words);
    }
    return XSM_OK;
}

static xsm_status read_vocabulary(xsm_context *ctx, const xsmi_container *file, const char *name, xsmi_schema **out,
                                  xsm_error *err)
{
    const xsmi_tensor *lines = xsmi_container_tensor(file, XSMI_VOCABULARY_TENSOR);
    const char *text = xsmi_container_metadata(file, XSMI_KEY_VOCABULARY);
    if (!lines || !text || lines->dtype != XSMI_DTYPE_U8 || lines->rank != 1) {
        return xsmi_fail(err, XSM_ERROR_FORMAT,
                         "%s: a tensor 'vocabulary', U8 of 1 dimension, and metadata of that name need each other",
                         name);
    }
    description d;
    XSMI_TRY(read_options(text, name, &d, err));
    xsm_vocabulary *v;
    XSMI_TRY(xsmi_vocabulary_new(ctx, &d.options, &v, err));
    xsmi_vocabulary_set_fasttext(v, d.fasttext);
    xsm_status status = read_buckets(xsmi_container_tensor(file, XSMI_BUCKETS_TENSOR), name, &d, v, err);
    status = status == XSM_OK ? read_words(lines, name, d.words, v, err) : status;
    xsmi_vocabulary_set_first_words(v, d.first);
    status = status == XSM_OK ? xsmi_schema_of_words(ctx, v, out, err) : status;
    xsmi_vocabulary_release(v);
    return status;
}

static xsm_status read_columns(xsm_context *ctx, const xsmi_tensor *names, const char *name, xsmi_schema **out,
                               xsm_error *err)
{
    uint64_t count = 0;
    for (size_t i = 0; names->dtype == XSMI_DTYPE_U8 && i < names->size; i++) {
        count += names->data[i] == 0;
    }
    if (names->rank != 1 || count == 0 || count > XSM_FEATURES_MAX || names->data[names->size - 1] != 0) {
        return xsmi_fail(err, XSM_ERROR_FORMAT,
                         "%s: the tensor 'feature_names' is U8 of 1 dimension, names that each end with a zero byte, "
                         "and this is none",
                         name);
    }
    return xsmi_schema_of_columns(ctx, (const char *)names->data, names->size, (uint32_t)count, out, err);
}

/* Reads a list of feature numbers. The tensor need not be aligned. */
static xsm_status read_number_list(xsm_context *ctx, const xsmi_tensor *t, const char *name, xsmi_schema **out,
                                   xsm_error *err)
{
    if (t->dtype != XSMI_DTYPE_I64 || t->rank != 1 || t->shape[0] < 1 || t->shape[0] > XSM_FEATURES_MAX) {
        return xsmi_fail(err, XSM_ERROR_FORMAT,
                         "%s: the tensor 'feature_numbers' is I64 of 1 dimension, and this is none", name);
    }
    const size_t count = (size_t)t->shape[0];
    int64_t *numbers;
    XSMI_TRY(xsmi_array_new(ctx, &numbers, count, sizeof *numbers, "the numbers of features", err));
    memcpy(numbers, t->data, count * sizeof *numbers);
    xsm_error inner = XSM_ERROR_INIT;
    xsm_status status = xsmi_schema_of_number_list(ctx, numbers, (uint32_t)count, out, &inner);
    xsmi_release(ctx, numbers, count, sizeof *numbers);
    if (status != XSM_OK) {
        status = xsmi_fail(err, status == XSM_ERROR_RANGE ? XSM_ERROR_FORMAT : status, "%s: %s", name, inner.message);
    }
    return status;
}

static xsm_status read_schema(xsm_context *ctx, const xsmi_container *file, const char *name, int32_t index_base,
                              xsmi_schema **out, xsm_error *err)
{
    const xsmi_tensor *words = xsmi_container_tensor(file, XSMI_VOCABULARY_TENSOR);
    const xsmi_tensor *columns = xsmi_container_tensor(file, XSMI_FEATURE_NAMES_TENSOR);
    const xsmi_tensor *numbers = xsmi_container_tensor(file, XSMI_FEATURE_NUMBERS_TENSOR);
    const char *text = xsmi_container_metadata(file, XSMI_KEY_VOCABULARY);
    *out = NULL;
    if ((columns != NULL) + (numbers != NULL) + (words || text) > 1) {
        return xsmi_fail(err, XSM_ERROR_FORMAT,
                         "%s: more than one of 'feature_names', 'feature_numbers' and a vocabulary; one of them is "
                         "accepted",
                         name);
    }
    if (numbers) {
        return read_number_list(ctx, numbers, name, out, err);
    }
    if (words || text) {
        XSMI_TRY(read_vocabulary(ctx, file, name, out, err));
    } else if (columns) {
        XSMI_TRY(read_columns(ctx, columns, name, out, err));
    } else {
        return xsmi_schema_of_numbers(ctx, index_base, out, err);
    }
    (*out)->index_base = index_base;
    return XSM_OK;
}

xsm_status xsmi_schema_load(xsm_context *ctx, const xsmi_container *file, const char *name, xsmi_schema **out,
                            xsm_error *err)
{
    const char *base = xsmi_container_metadata(file, XSMI_KEY_INDEX_BASE);
    if (base && strcmp(base, "0") != 0 && strcmp(base, "1") != 0) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: the metadata 'index_base' is '%s'; 0 or 1 is accepted", name,
                         base);
    }
    const int32_t index_base = !base ? XSM_INDEX_BASE_AUTO : base[0] == '1' ? XSM_INDEX_BASE_ONE : XSM_INDEX_BASE_ZERO;
    return read_schema(ctx, file, name, index_base, out, err);
}
