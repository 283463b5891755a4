/*
 * Models of fastText: a .bin or .ftz file becomes an embedding model. The file has fastText's structures as they are in
 * memory on little-endian machines, one after another:
 *
 *     I32 magic, version; the arguments, 12 I32 and an F64
 *     I32 words + labels, words, labels; I64 tokens, kept buckets P (-1: all)
 *     each word, then each label: its text, ended by a zero; I64 its count; U8 0 for a word, 1 for a label
 *     P pairs of I32: a bucket, and which of the P vectors after those of the words it has
 *     U8 quantised; the input, a vector for each word and bucket
 *     U8 quantised; the output, a vector for each label (or word, if there are no labels to predict; of the loss hs for
 *     each inner node of a tree)
 *
 * A matrix is I64 rows, columns; F32 numbers. A quantised one (Jegou et al., Product quantization for nearest neighbor
 * search, 2011) is U8 with norms; I64 rows, columns; I32 bytes of codes; codes, one for each part of a row; the
 * quantiser; and with norms a code for each row and a quantiser of one part. A quantiser is I32 columns, parts, columns
 * of a part, columns of the last part; F32 256 centroids of each part.
 */
#include "model/model.h"

#include "base/activity.h"
#include "base/entry.h"
#include "base/grow.h"
#include "base/heap_sort.h"
#include "base/storage.h"
#include "base/utf8.h"
#include "data/schema.h"
#include "data/vocabulary.h"
#include "model/hierarchy.h"
#include "model/layer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <xsoftmax/fasttext.h>

#define MAGIC 793712314
#define CENTROIDS 256
/* The largest count of a node of fastText's own trees is smaller than this. */
#define COUNTS_MOST INT64_C(1000000000000000)
/* Number of vectors copied between two polls. */
#define VECTORS_TOGETHER 256

enum { LOSS_HS = 1, LOSS_NS, LOSS_SOFTMAX, LOSS_OVA };
enum { MODEL_CBOW = 1, MODEL_SKIPGRAM, MODEL_SUPERVISED };

/* The arguments, as they are in the file. */
typedef struct arguments {
    int32_t dim, window, epochs, min_count, negatives, word_ngrams, loss, model, bucket, min_chars, max_chars, rate;
} arguments;

typedef struct pair {
    int32_t bucket, place;
} pair;

typedef struct quantiser {
    int32_t columns, parts, width, last;
    const unsigned char *centroids;
} quantiser;

typedef struct matrix {
    const char *what;
    uint64_t rows;
    uint32_t columns;
    const unsigned char *numbers; /* NULL: the matrix is quantised */
    const unsigned char *codes, *norms;
    quantiser parts, norm;
} matrix;

/* The file, and what was found in it. */
typedef struct file {
    xsm_context *context;
    const char *name;
    const char *prefix; /* of labels */
    const unsigned char *data;
    size_t size, at;
    unsigned char *own; /* [capacity] what a source had; NULL: `data` are a file's, or the host's */
    size_t capacity;

    arguments arguments;
    uint32_t words, labels, classes;
    const char **names; /* [classes], pointers into the file or the vocabulary */
    uint64_t *counts;   /* [classes] */
    uint64_t lines;     /* number of lines of the training text, which is the count of </s>; 0: unknown */
    uint32_t end;       /* the word </s>; UINT32_MAX: there is none, or it is a word like others */
    uint32_t mended;    /* number of words that are not UTF-8 */
    uint32_t buckets;   /* number of buckets that are features */
    pair *kept;         /* [kept_count] in the order of the buckets; NULL: all are kept */
    uint32_t kept_count;
    uint32_t *made; /* [classes-1] the row of the output for each node of `tree` */
    xsmi_class_tree *tree;
    xsm_vocabulary *vocabulary;
    matrix input, output;
} file;

/* -- bytes --------------------------------------------------------------------------------------------------------- */

static xsm_status take(file *f, uint64_t size, const char *what, const unsigned char **bytes, xsm_error *err)
{
    *bytes = f->data + f->at;
    if (size > f->size - f->at) {
        return xsmi_fail(err, XSM_ERROR_FORMAT,
                         "%s, byte %zu: %s would take %llu bytes, and %zu follow: the file is cut, or no model of "
                         "fastText",
                         f->name, f->at, what, (unsigned long long)size, f->size - f->at);
    }
    f->at += (size_t)size;
    return XSM_OK;
}

static xsm_status copy(file *f, void *to, size_t size, const char *what, xsm_error *err)
{
    const unsigned char *bytes;
    XSMI_TRY(take(f, size, what, &bytes, err));
    memcpy(to, bytes, size);
    return XSM_OK;
}

static xsm_status read_flag(file *f, const char *what, bool *flag, xsm_error *err)
{
    unsigned char byte;
    XSMI_TRY(copy(f, &byte, 1, what, err));
    *flag = byte == 1;
    return byte <= 1 ? XSM_OK
                     : xsmi_fail(err, XSM_ERROR_FORMAT, "%s, byte %zu: %s is %u; 0 or 1 is expected", f->name,
                                 f->at - 1, what, byte);
}

/* -- arguments ----------------------------------------------------------------------------------------------------- */

static xsm_status check_range(const file *f, const char *what, int64_t number, int64_t least, int64_t most,
                              xsm_status status, xsm_error *err)
{
    return number >= least && number <= most
               ? XSM_OK
               : xsmi_fail(err, status, "%s: %s is %lld; %lld to %lld is accepted", f->name, what, (long long)number,
                           (long long)least, (long long)most);
}

static xsm_status read_arguments(file *f, xsm_error *err)
{
    int32_t head[2];
    double threshold;
    arguments *a = &f->arguments;
    XSMI_TRY(copy(f, head, sizeof head, "the head", err));
    if (head[0] != MAGIC) {
        return xsmi_fail(
            err, XSM_ERROR_FORMAT,
            "%s: no model of fastText: it begins with %d in place of %d; .bin and .ftz files are accepted, "
            "and of .vec files 'train --vectors'",
            f->name, head[0], MAGIC);
    }
    XSMI_TRY(check_range(f, "the version of fastText's format", head[1], 11, 12, XSM_ERROR_UNSUPPORTED, err));
    XSMI_TRY(copy(f, a, sizeof *a, "the arguments", err));
    XSMI_TRY(copy(f, &threshold, sizeof threshold, "the arguments", err));
    XSMI_TRY(check_range(f, "dim", a->dim, 1, XSM_HIDDEN_MAX, XSM_ERROR_FORMAT, err));
    XSMI_TRY(check_range(f, "the loss", a->loss, LOSS_HS, LOSS_OVA, XSM_ERROR_FORMAT, err));
    XSMI_TRY(check_range(f, "the model", a->model, MODEL_CBOW, MODEL_SUPERVISED, XSM_ERROR_FORMAT, err));
    XSMI_TRY(check_range(f, "bucket", a->bucket, 0, INT32_MAX, XSM_ERROR_FORMAT, err));
    if (a->model == MODEL_SUPERVISED && head[1] == 11) {
        a->max_chars = 0; /* that version wrote a value that it did not use */
    }
    if (a->max_chars <= 0 || a->min_chars > a->max_chars) {
        a->max_chars = a->min_chars = 0;
    }
    a->word_ngrams = XSMI_MAX(a->word_ngrams, 1);
    XSMI_TRY(check_range(f, "wordNgrams", a->word_ngrams, 1, XSMI_WORD_NGRAMS_MAX, XSM_ERROR_UNSUPPORTED, err));
    XSMI_TRY(check_range(f, "maxn", a->max_chars, 0, XSMI_CHARS_MAX, XSM_ERROR_UNSUPPORTED, err));
    return check_range(f, "bucket, with n-grams,", a->bucket, a->word_ngrams > 1 || a->max_chars > 0, INT32_MAX,
                       XSM_ERROR_FORMAT, err);
}

/* -- the dictionary ------------------------------------------------------------------------------------------------ */

typedef struct dictionary_head {
    int32_t size, words, labels;
} dictionary_head;

/* Reads a word or a label, and its count. */
static xsm_status read_entry(file *f, uint32_t i, const char **text, size_t *length, int64_t *count, xsm_error *err)
{
    const size_t start = f->at;
    const unsigned char *end = memchr(f->data + start, 0, f->size - start), *skipped;
    unsigned char type;
    char quote[XSMI_QUOTE_SIZE];
    XSMI_TRY(take(f, end ? (uint64_t)(end - (f->data + start)) + 1 : UINT64_MAX, "a word", &skipped, err));
    XSMI_TRY(copy(f, count, sizeof *count, "the count of a word", err));
    XSMI_TRY(copy(f, &type, 1, "the type of a word", err));
    *text = (const char *)f->data + start;
    *length = strlen(*text);
    if (*length == 0 || strpbrk(*text, " \t\n\v\f\r") ||
        (i >= f->words && xsmi_utf8_prefix(*text, *length) < *length)) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s, byte %zu: %s, entry %u of the dictionary, is no %s", f->name,
                         start, xsmi_quote(quote, *text, *length), i, i < f->words ? "word" : "label of UTF-8 text");
    }
    if (type != (i >= f->words)) {
        return xsmi_fail(err, XSM_ERROR_FORMAT,
                         "%s, byte %zu: entry %u of the dictionary is of type %u; the first %u are words (0), all "
                         "others labels (1)",
                         f->name, f->at - 1, i, type, f->words);
    }
    if (*count < 0 || *count > COUNTS_MOST) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s, byte %zu: the count of %s is %lld; 0 to %lld is expected", f->name,
                         f->at - 9, xsmi_quote(quote, *text, *length), (long long)*count, (long long)COUNTS_MOST);
    }
    return XSM_OK;
}

/* Adds a word that is not UTF-8, with U+FFFD for its wrong bytes, as readers that replace such bytes see it. If another
 * word has this name already, one more U+FFFD and the word's number are added. */
static xsm_status add_mended(file *f, uint32_t i, const char *text, size_t length, bool *known, xsm_error *err)
{
    const size_t room = 3 * length + 16;
    uint64_t replaced;
    char *copy;
    XSMI_TRY(xsmi_array_new(f->context, &copy, room, 1, "a word", err));
    size_t size = xsmi_utf8_mend(text, length, copy, &replaced);
    xsm_status status = xsmi_vocabulary_add(f->vocabulary, copy, size, known, err);
    if (status == XSM_OK && *known) {
        size += (size_t)snprintf(copy + size, room - size, "\xEF\xBF\xBD%" PRIu32, i);
        status = xsmi_vocabulary_add(f->vocabulary, copy, size, known, err);
    }
    xsmi_release(f->context, copy, room, 1);
    f->mended++;
    return status;
}

/* Names the classes of a model of word vectors, which are its words. */
static void name_words(file *f)
{
    const xsmi_dictionary *words = xsmi_vocabulary_dictionary(f->vocabulary);
    for (uint32_t i = 0; i < f->words; i++) {
        size_t length;
        f->names[i] = i == f->end ? XSMI_FASTTEXT_END : xsmi_dictionary_text(words, i - (i > f->end), &length);
    }
}

static xsm_status put_label(file *f, uint32_t k, const char *name, xsm_error *err)
{
    const size_t prefix = strlen(f->prefix);
    char quote[XSMI_QUOTE_SIZE];
    if (strncmp(name, f->prefix, prefix) != 0 || name[prefix] == '\0') {
        return xsmi_fail(
            err, XSM_ERROR_FORMAT,
            "%s: the label %s does not begin with %s and go on; what labels began with (fastText's -label) "
            "is to be given where that was another",
            f->name, xsmi_quote(quote, name, strlen(name)), f->prefix);
    }
    f->names[k] = name + prefix;
    return XSM_OK;
}

static xsm_status read_entries(file *f, uint32_t entries, xsm_error *err)
{
    const bool supervised = f->arguments.model == MODEL_SUPERVISED;
    for (uint32_t i = 0; i < entries; i++) {
        const char *text;
        size_t length;
        int64_t count;
        bool known = false;
        XSMI_TRY(i % VECTORS_TOGETHER == 0 ? xsmi_go_on(f->context, err) : XSM_OK);
        XSMI_TRY(read_entry(f, i, &text, &length, &count, err));
        const bool end = i < f->words && strcmp(text, XSMI_FASTTEXT_END) == 0;
        f->lines = end ? (uint64_t)count : f->lines;
        if (end && !supervised) {
            f->end = i;
        } else if (i < f->words) {
            XSMI_TRY(xsmi_utf8_prefix(text, length) == length
                         ? xsmi_vocabulary_add(f->vocabulary, text, length, &known, err)
                         : add_mended(f, i, text, length, &known, err));
        }
        if (known) {
            return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: the dictionary has a word for the second time at entry %u",
                             f->name, i);
        }
        if (i >= f->words && supervised) {
            XSMI_TRY(put_label(f, i - f->words, text, err));
        }
        if ((i >= f->words) == supervised) {
            f->counts[supervised ? i - f->words : i] = (uint64_t)count;
        }
    }
    if (!supervised) {
        name_words(f);
    }
    if (f->mended > 0) {
        xsmi_log(f->context, XSM_LOG_WARNING,
                 "%s: %u words are no UTF-8; U+FFFD replaces such bytes in them, as it does in text that is read so "
                 "(xsm_read_options.bad_bytes)",
                 f->name, f->mended);
    }
    return XSM_OK;
}

static int compare_buckets(const void *a, const void *b)
{
    const pair *x = a, *y = b;
    return (x->bucket > y->bucket) - (x->bucket < y->bucket);
}

/* Reads the buckets of a pruned dictionary: each bucket, and each place, may occur once. */
static xsm_status read_kept(file *f, uint32_t count, xsm_error *err)
{
    const unsigned char *bytes;
    uint32_t *kept;
    XSMI_TRY(take(f, (uint64_t)count * sizeof(pair), "the buckets that were kept", &bytes, err));
    f->kept = xsmi_allocate(f->context, count, sizeof *f->kept);
    f->kept_count = count;
    unsigned char *seen = xsmi_allocate_zero(f->context, count, 1);
    if (!f->kept || !seen) {
        xsmi_release(f->context, seen, count, 1);
        return xsmi_fail_memory(err, count * sizeof *f->kept, "the buckets that were kept");
    }
    memcpy(f->kept, bytes, count * sizeof *f->kept);
    if (!xsmi_heap_sort_polled(f->context, f->kept, count, sizeof *f->kept, compare_buckets)) {
        xsmi_release(f->context, seen, count, 1);
        return xsmi_fail_cancelled(f->context, err);
    }
    uint32_t i = 0;
    for (int32_t before = -1; i < count; before = f->kept[i++].bucket) {
        const pair p = f->kept[i];
        if (p.bucket <= before || p.bucket >= f->arguments.bucket || p.place < 0 || (uint32_t)p.place >= count ||
            seen[p.place]) {
            break;
        }
        seen[p.place] = 1;
    }
    xsmi_release(f->context, seen, count, 1);
    if (i < count) {
        return xsmi_fail(
            err, XSM_ERROR_FORMAT,
            "%s: the dictionary gives vector %d to bucket %d; each of %u vectors is one of the %d buckets'", f->name,
            f->kept[i].place, f->kept[i].bucket, count, f->arguments.bucket);
    }
    XSMI_TRY(xsmi_vocabulary_keep_buckets(f->vocabulary, count, &kept, err));
    for (i = 0; i < count; i++) {
        kept[i] = (uint32_t)f->kept[i].bucket;
    }
    return XSM_OK;
}

static xsm_status new_vocabulary(file *f, bool ngrams, xsm_error *err)
{
    xsm_text_options given = XSM_TEXT_OPTIONS_INIT, options;
    const arguments *a = &f->arguments;
    given.label_prefix = f->prefix;
    given.min_count = (uint32_t)XSMI_MAX(a->min_count, 0);
    given.word_ngrams = ngrams ? (uint32_t)a->word_ngrams : 1;
    given.min_chars = ngrams ? (uint32_t)XSMI_MAX(a->min_chars, 0) : 0;
    given.max_chars = ngrams ? (uint32_t)a->max_chars : 0;
    given.buckets = ngrams ? (uint32_t)a->bucket : 0;
    XSMI_TRY(xsmi_text_options_read(&options, &given, err));
    XSMI_TRY(xsmi_vocabulary_new(f->context, &options, &f->vocabulary, err));
    xsmi_vocabulary_set_fasttext(f->vocabulary, true);
    return XSM_OK;
}

static xsm_status read_dictionary(file *f, xsm_error *err)
{
    dictionary_head head;
    int64_t numbers[2]; /* tokens, kept buckets */
    const arguments *a = &f->arguments;
    XSMI_TRY(copy(f, &head, sizeof head, "the sizes of the dictionary", err));
    XSMI_TRY(copy(f, numbers, sizeof numbers, "the sizes of the dictionary", err));
    if (head.words < 0 || head.labels < 0 || (int64_t)head.words + head.labels != head.size) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: %d words and %d labels of %d entries", f->name, head.words,
                         head.labels, head.size);
    }
    XSMI_TRY(check_range(f, "the number of kept buckets", numbers[1], -1, a->bucket, XSM_ERROR_FORMAT, err));
    if ((uint32_t)head.size > (f->size - f->at) / 11) { /* an entry takes a letter, a zero, a count and a type at
                                                           least */
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s, byte %zu: %d entries of the dictionary, and %zu bytes follow",
                         f->name, f->at, head.size, f->size - f->at);
    }
    f->words = (uint32_t)head.words;
    f->labels = a->model == MODEL_SUPERVISED ? (uint32_t)head.labels : 0;
    f->classes = f->labels ? f->labels : f->words;
    if (f->classes == 0 || (a->model == MODEL_SUPERVISED && f->labels == 0)) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: the dictionary has no %s", f->name,
                         a->model == MODEL_SUPERVISED ? "labels" : "words");
    }
    f->names = xsmi_allocate(f->context, f->classes, sizeof *f->names);
    f->counts = xsmi_allocate(f->context, f->classes, sizeof *f->counts);
    if (!f->names || !f->counts) {
        return xsmi_fail_memory(err, f->classes * sizeof *f->names, "the classes' names");
    }
    const bool ngrams = numbers[1] != 0 && (a->word_ngrams > 1 || a->max_chars > 0);
    XSMI_TRY(new_vocabulary(f, ngrams, err));
    XSMI_TRY(read_entries(f, (uint32_t)head.size, err));
    if (numbers[1] > 0 && !ngrams) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: %lld buckets were kept of a model without n-grams", f->name,
                         (long long)numbers[1]);
    }
    f->buckets = numbers[1] < 0 ? (uint32_t)a->bucket : (uint32_t)numbers[1];
    return numbers[1] > 0 ? read_kept(f, f->buckets, err) : XSM_OK;
}

/* -- matrices ------------------------------------------------------------------------------------------------------ */

static xsm_status read_quantiser(file *f, quantiser *q, uint32_t columns, xsm_error *err)
{
    int32_t head[4];
    XSMI_TRY(copy(f, head, sizeof head, "a quantiser", err));
    *q = (quantiser){head[0], head[1], head[2], head[3], NULL};
    if (q->columns != (int64_t)columns || q->width < 1 || q->last < 1 || q->last > q->width || q->parts < 1 ||
        ((int64_t)q->parts - 1) * q->width + q->last != q->columns) {
        return xsmi_fail(
            err, XSM_ERROR_FORMAT,
            "%s, byte %zu: a quantiser of %d columns, %d parts of %d columns, the last of %d; %u columns are "
            "expected",
            f->name, f->at - sizeof head, q->columns, q->parts, q->width, q->last, columns);
    }
    return take(f, (uint64_t)columns * CENTROIDS * sizeof(float), "the centroids of a quantiser", &q->centroids, err);
}

static xsm_status read_codes(file *f, matrix *m, bool norms, int32_t size, xsm_error *err)
{
    const size_t start = f->at - sizeof size;
    XSMI_TRY(take(f, (uint64_t)XSMI_MAX(size, 0), "the codes of a matrix", &m->codes, err));
    XSMI_TRY(read_quantiser(f, &m->parts, m->columns, err));
    if (size < 0 || (uint64_t)size != m->rows * (uint64_t)m->parts.parts) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s, byte %zu: %d bytes of codes for %llu rows of %d parts", f->name,
                         start, size, (unsigned long long)m->rows, m->parts.parts);
    }
    if (norms) {
        XSMI_TRY(take(f, m->rows, "the norms of a matrix", &m->norms, err));
        XSMI_TRY(read_quantiser(f, &m->norm, 1, err));
    }
    return XSM_OK;
}

/* Reads a matrix, which must have `rows` rows; `quantised` says whether the file has it quantised. */
static xsm_status read_matrix(file *f, matrix *m, uint64_t rows, bool quantised, xsm_error *err)
{
    bool norms = false;
    int64_t shape[2];
    int32_t size = 0;
    XSMI_TRY(quantised ? read_flag(f, "whether a matrix has norms", &norms, err) : XSM_OK);
    XSMI_TRY(copy(f, shape, sizeof shape, "the shape of a matrix", err));
    if (shape[0] < 0 || (uint64_t)shape[0] != rows || shape[1] != f->arguments.dim) {
        return xsmi_fail(err, XSM_ERROR_FORMAT,
                         "%s, byte %zu: the %s is of %lld x %lld numbers; %llu x %d are expected", f->name,
                         f->at - sizeof shape, m->what, (long long)shape[0], (long long)shape[1],
                         (unsigned long long)rows, f->arguments.dim);
    }
    m->rows = rows;
    m->columns = (uint32_t)shape[1];
    if (!quantised) {
        return take(f, rows * m->columns * sizeof(float), m->what, &m->numbers, err);
    }
    XSMI_TRY(copy(f, &size, sizeof size, "the shape of a matrix", err));
    return read_codes(f, m, norms, size, err);
}

static float centroid(const unsigned char *centroids, size_t at)
{
    float number;
    memcpy(&number, centroids + at * sizeof number, sizeof number);
    return number;
}

/* Copies a row of a matrix as floats, which must be finite. */
static xsm_status copy_row(const file *f, const matrix *m, size_t row, float *to, xsm_error *err)
{
    const size_t columns = m->columns;
    if (m->numbers) {
        memcpy(to, m->numbers + row * columns * sizeof *to, columns * sizeof *to);
    } else {
        const quantiser *q = &m->parts;
        const size_t parts = (size_t)q->parts, width = (size_t)q->width;
        const float norm = m->norms ? centroid(m->norm.centroids, m->norms[row]) : 1;
        for (size_t j = 0; j < columns; j++) {
            const size_t part = j / width, of_part = part + 1 < parts ? width : (size_t)q->last;
            const size_t code = m->codes[row * parts + part];
            to[j] = norm * centroid(q->centroids, part * width * CENTROIDS + code * of_part + j % width);
        }
    }
    for (size_t j = 0; j < columns; j++) {
        if (!isfinite((double)to[j])) {
            return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: number %zu in row %zu of the %s is not finite", f->name, j,
                             row, m->what);
        }
    }
    return XSM_OK;
}

/* -- the tree of hs ------------------------------------------------------------------------------------------------ */

/* Makes the tree as fastText does from the labels' counts, which are in falling order: merges the two lightest of the
 * nodes that are left, the lighter one to the left. */
static xsm_status merge(const file *f, uint64_t *sums, uint32_t *merged, xsm_error *err)
{
    uint64_t total = 0;
    for (uint32_t k = 0; k < f->classes && total <= (uint64_t)COUNTS_MOST; k++) {
        total += f->counts[k];
    }
    if (total >= (uint64_t)COUNTS_MOST) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: the counts of the classes sum to %llu; less than %lld is accepted",
                         f->name, (unsigned long long)total, (long long)COUNTS_MOST);
    }
    for (uint32_t made = 0, leaf = f->classes, node = 0; made + 1 < f->classes; made++) {
        sums[made] = 0;
        for (uint32_t side = 0; side < 2; side++) {
            const bool use_leaf = leaf > 0 && (node >= made || f->counts[leaf - 1] < sums[node]);
            leaf -= use_leaf;
            merged[2 * (size_t)made + side] = use_leaf ? XSMI_TREE_LEAF | leaf : node;
            sums[made] += use_leaf ? f->counts[leaf] : sums[node];
            node += !use_leaf;
        }
    }
    return XSM_OK;
}

static xsm_status make_tree(file *f, xsm_error *err)
{
    if (f->classes < 2) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: the loss hs, a tree, of one class", f->name);
    }
    uint64_t *sums = xsmi_allocate(f->context, f->classes, sizeof *sums);
    uint32_t *merged = xsmi_allocate(f->context, f->classes, 2 * sizeof *merged);
    f->made = xsmi_allocate(f->context, f->classes, sizeof *f->made);
    xsm_status status = sums && merged && f->made
                            ? merge(f, sums, merged, err)
                            : xsmi_fail_memory(err, f->classes * sizeof *sums, "a tree over the classes");
    if (status == XSM_OK) {
        status = xsmi_hierarchy_of_merges(f->context, merged, f->classes, f->made, &f->tree, err);
    }
    if (status == XSM_OK && !f->tree) {
        status = xsmi_fail(err, XSM_ERROR_FORMAT, "%s: the tree of the classes' counts is deeper than %d", f->name,
                           XSMI_TREE_DEPTH);
    }
    xsmi_release(f->context, sums, f->classes, sizeof *sums);
    xsmi_release(f->context, merged, f->classes, 2 * sizeof *merged);
    return status;
}

/* -- the model ----------------------------------------------------------------------------------------------------- */

static xsm_status read_file(file *f, xsm_error *err)
{
    bool quantised_input, quantised_output;
    XSMI_TRY(read_arguments(f, err));
    XSMI_TRY(read_dictionary(f, err));
    XSMI_TRY(read_flag(f, "whether the input is quantised", &quantised_input, err));
    XSMI_TRY(read_matrix(f, &f->input, (uint64_t)f->words + f->buckets, quantised_input, err));
    XSMI_TRY(read_flag(f, "whether the output is quantised", &quantised_output, err));
    XSMI_TRY(read_matrix(f, &f->output, f->classes, quantised_input && quantised_output, err));
    if (f->at < f->size) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s, byte %zu: the model ends, and %zu bytes follow", f->name, f->at,
                         f->size - f->at);
    }
    return f->arguments.loss == LOSS_HS ? make_tree(f, err) : XSM_OK;
}

/* Returns the row of the input that is a feature's vector. */
static size_t row_of_feature(const file *f, uint32_t feature)
{
    const size_t row = feature + (size_t)(feature >= f->end);
    return f->kept && row >= f->words ? f->words + (size_t)f->kept[row - f->words].place : row;
}

static xsm_status copy_weights(const file *f, xsm_model *m, xsm_error *err)
{
    XSMI_TRY(xsmi_model_own(m, err));
    for (uint32_t j = 0; j < m->layer->features; j++) {
        XSMI_TRY(j % VECTORS_TOGETHER == 0 ? xsmi_go_on(f->context, err) : XSM_OK);
        XSMI_TRY(copy_row(f, &f->input, row_of_feature(f, j), m->layer->w.weight + j * m->layer->w.stride, err));
    }
    for (uint32_t k = 0; k < f->classes - (f->tree != NULL); k++) {
        XSMI_TRY(k % VECTORS_TOGETHER == 0 ? xsmi_go_on(f->context, err) : XSM_OK);
        XSMI_TRY(copy_row(f, &f->output, f->tree ? f->made[k] : k, m->w.weight + k * m->w.stride, err));
    }
    return XSM_OK;
}

static xsm_status describe(const file *f, xsm_model *m, xsm_error *err)
{
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    map.classes = f->classes;
    map.names = f->names;
    map.vocabulary = f->vocabulary;
    bool counts = f->labels > 0 && f->lines > 0;
    for (uint32_t k = 0; k < f->classes; k++) {
        counts = counts && f->counts[k] <= f->lines;
    }
    map.counts = counts ? f->counts : NULL;
    map.rows = counts ? f->lines : 0;
    XSMI_TRY(xsm_model_set_class_map(m, &map, err));
    XSMI_TRY(f->tree ? xsmi_model_set_hierarchy(m, f->tree, err) : XSM_OK);
    xsmi_model_put_link(m, f->arguments.loss == LOSS_NS || f->arguments.loss == LOSS_OVA ? XSM_LINK_SIGMOID
                                                                                         : XSM_LINK_SOFTMAX);
    return XSM_OK;
}

static xsm_status make_model(const file *f, xsm_model **out, xsm_error *err)
{
    const uint64_t features = xsmi_vocabulary_features(f->vocabulary);
    xsm_embedding_options o = XSM_EMBEDDING_OPTIONS_INIT;
    o.pool = XSM_POOL_WEIGHTED_MEAN;
    o.scale = 1.0 / f->arguments.dim; /* for the vectors of features that are added later, as in fastText */
    XSMI_TRY(check_range(f, "the number of words and buckets", (int64_t)features, 1, XSM_FEATURES_MAX, XSM_ERROR_FORMAT,
                         err));
    xsm_model *m;
    XSMI_TRY(
        xsm_model_new_embedding(f->context, (uint32_t)features, (uint32_t)f->arguments.dim, f->classes, &o, &m, err));
    xsm_status status = copy_weights(f, m, err);
    status = status == XSM_OK ? describe(f, m, err) : status;
    if (status != XSM_OK) {
        xsm_model_free(m);
        return status;
    }
    *out = m;
    return XSM_OK;
}

/* Reads a source to its end. */
static xsm_status read_source(file *f, const xsmi_place *place, xsm_error *err)
{
    size_t got = 0;
    do {
        XSMI_TRY(XSMI_GROW(f->context, f->own, f->capacity, f->size + 65536, "a model of fastText", err));
        XSMI_TRY(xsmi_place_read(f->context, place, f->own + f->size, f->capacity - f->size, &got, err));
        f->size += got;
    } while (f->size == f->capacity);
    f->data = f->own;
    return XSM_OK;
}

static xsm_status read_place(file *f, const xsmi_place *place, xsmi_mapping *mapping, xsm_error *err)
{
    if (place->storage && !place->storage->bytes) {
        return read_source(f, place, err);
    }
    if (!place->storage) {
        XSMI_TRY(xsmi_map_file(place->name, mapping, err));
    }
    f->data = place->storage ? place->storage->bytes : mapping->data;
    f->size = place->storage ? place->storage->byte_count : mapping->size;
    return XSM_OK;
}

static xsm_status import(xsm_context *ctx, const xsmi_place *place, const char *prefix, xsm_model **out, xsm_error *err)
{
    xsmi_mapping mapping = {.data = NULL};
    XSMI_TRY(xsmi_context_need_alone(ctx, "importing a model of fastText", err));
    file f = {.context = ctx, .name = place->name, .prefix = prefix ? prefix : XSMI_LABEL_PREFIX, .end = UINT32_MAX};
    f.input.what = "input";
    f.output.what = "output";
    xsm_status status = read_place(&f, place, &mapping, err);
    status = status == XSM_OK ? read_file(&f, err) : status;
    status = status == XSM_OK ? make_model(&f, out, err) : status;
    xsmi_release(ctx, f.names, f.classes, sizeof *f.names);
    xsmi_release(ctx, f.counts, f.classes, sizeof *f.counts);
    xsmi_release(ctx, f.kept, f.kept_count, sizeof *f.kept);
    xsmi_release(ctx, f.made, f.classes, sizeof *f.made);
    xsmi_class_tree_release(f.tree);
    xsmi_vocabulary_release(f.vocabulary);
    xsmi_release(ctx, f.own, f.capacity, sizeof *f.own);
    if (mapping.data) {
        xsmi_unmap_file(&mapping);
    }
    return status;
}

xsm_status xsm_model_import_fasttext(xsm_context *context, const char *path, const xsm_storage *storage,
                                     const char *label_prefix, xsm_model **out, xsm_error *err)
{
    XSMI_ENTER(err);
    xsm_storage known;
    xsmi_place place;
    XSMI_TRY(xsmi_place_to_read(path, storage, &known, "xsm_model_import_fasttext", &place, err));
    XSMI_TRY(xsmi_place_check_unlent(&place, err));
    XSMI_NEED(err, {out, "out"});
    xsm_context *ctx;
    XSMI_TRY(xsmi_context_acquire(context, &ctx, err));
    xsmi_activity activity;
    xsmi_begin_cover(&activity, ctx, "importing", "bytes", 0);
    const xsm_status status = xsmi_end(&activity, import(ctx, &place, label_prefix, out, err), err);
    xsm_context_free(ctx);
    return status;
}
