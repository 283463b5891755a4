/*
 * Word vectors as linear models: making them for a corpus, and text files in word2vec's format (`.vec`).
 */
#include "base/activity.h"
#include "base/entry.h"
#include "base/file.h"
#include "base/random.h"
#include "words/corpus.h"
#include "base/grow.h"
#include "base/held.h"
#include "base/order.h"
#include "read/number.h"
#include "base/utf8.h"
#include "model/model.h"
#include "words/release.h"

#include <xsoftmax/words/skipgram.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Words whose vectors are started between two polls. */
#define WORDS_TOGETHER 256
/* Bytes of vectors that are written together. */
#define WRITE_BYTES ((size_t)1 << 20)

/* -- for a corpus -------------------------------------------------------------------------------------------------- */

static xsm_status start(xsm_model *m, xsmi_activity *activity, double spread, uint64_t seed, xsm_error *err)
{
    XSMI_TRY(xsmi_model_own(m, err));
    for (uint32_t k = 0; spread > 0 && k < m->classes; k++) {
        xsmi_stream stream;
        if (k % WORDS_TOGETHER == 0) {
            xsmi_reach(activity, k);
            XSMI_TRY(xsmi_go_on(m->context, err));
        }
        xsmi_stream_start(&stream, seed, XSMI_STREAM_VECTORS, k);
        float *row = m->w.weight + (size_t)k * m->w.stride;
        for (uint32_t i = 0; i < m->features; i++) {
            row[i] = (float)(spread * (2 * xsmi_stream_uniform(&stream) - 1));
        }
    }
    return XSM_OK;
}

xsm_status xsm_word_model_new(xsm_context *context, const xsm_corpus *corpus, uint32_t dimension, double spread,
                              uint64_t seed, xsm_model **out, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_TRY(xsmi_words_check_release(err));
    XSMI_NEED(err, {corpus, "the corpus"}, {out, "out"});
    XSMI_TRY(xsmi_context_need_alone(context, "a word model", err));
    if (!(spread >= 0 && spread < 1e30)) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "a spread of %g; accepted is from 0 to 1e30", spread);
    }
    xsm_model *m;
    XSMI_TRY(xsm_model_new_linear(context, dimension, corpus->info.words, NULL, &m, err));
    xsmi_activity activity;
    xsmi_begin(&activity, m->context, "starting word vectors", "words", m->classes);
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_status status = xsm_corpus_get_class_map(corpus, &map, err);
    if (status == XSM_OK) {
        status = xsm_model_set_class_map(m, &map, err);
    }
    if (status == XSM_OK) {
        status = start(m, &activity, spread, seed, err);
    }
    status = xsmi_end(&activity, status, err);
    if (status != XSM_OK) {
        xsm_model_free(m);
        return status;
    }
    *out = m;
    return XSM_OK;
}

/* -- writing ------------------------------------------------------------------------------------------------------- */

enum { NUMBER_SIZE = 32 };

/* Writes a blank and a number with all the digits that float32 needs, with a point in every locale. */
static size_t print_number(float value, const char *sign, char text[NUMBER_SIZE])
{
    int length = snprintf(text, NUMBER_SIZE, " %.9g", (double)value);
    char *found = strcmp(sign, ".") == 0 ? NULL : strstr(text, sign);
    if (found) {
        size_t rest = strlen(sign);
        *found = '.';
        memmove(found + 1, found + rest, strlen(found + rest) + 1);
        length -= (int)rest - 1;
    }
    return (size_t)length;
}

static xsm_status check_names(const xsm_model *m, xsm_error *err)
{
    if (!m->map.names) {
        return xsmi_fail(err, XSM_ERROR_DATA, "the model's classes have no names to write as words");
    }
    for (uint32_t k = 0; k < m->classes; k++) {
        const char *name = m->map.names[k];
        if (name[0] == '\0' || name[strcspn(name, " \t\n\v\f\r")] != '\0') {
            char quote[XSMI_QUOTE_SIZE];
            return xsmi_fail(err, XSM_ERROR_DATA,
                             "the name %s of class %u is no word: names without white space can "
                             "be written",
                             xsmi_quote(quote, name, strlen(name)), k);
        }
    }
    return XSM_OK;
}

typedef struct writing {
    xsmi_held held; /* the buffers */
    const xsm_model *model;
    xsmi_activity *activity;
    xsmi_replace *file;
    char *line;
    float *rows; /* [together][features] */
    size_t line_size, together;
} writing;

static xsm_status write_words(const writing *w, uint32_t first, uint32_t count, xsm_error *err)
{
    const xsm_model *m = w->model;
    const char *sign = xsmi_decimal_sign();
    for (uint32_t k = 0; k < count; k++) {
        const float *row = w->rows + (size_t)k * m->features;
        const char *name = m->map.names[first + k];
        size_t length = 0;
        xsmi_reach(w->activity, first + k);
        for (uint32_t i = 0; i < m->features; i++) {
            length += print_number(row[i], sign, w->line + length);
        }
        w->line[length++] = '\n';
        XSMI_TRY(xsmi_replace_write(w->file, name, strlen(name), err));
        XSMI_TRY(xsmi_replace_write(w->file, w->line, length, err));
    }
    return XSM_OK;
}

/* Copies vectors with their scales multiplied in. */
static xsm_status get_words(const writing *w, uint32_t first, uint32_t count, xsm_error *err)
{
    const xsm_model *m = w->model;
    xsmi_weights_copy(&m->w, NULL, first, count, true, w->rows, m->features);
    for (uint32_t k = 0; k < count; k++) {
        const double scale = m->w.alpha * (m->w.row_scale ? m->w.row_scale[first + k] : 1);
        for (uint32_t i = 0; i < m->features; i++) {
            float *number = w->rows + (size_t)k * m->features + i;
            *number = (float)(scale * (double)*number);
            if (!isfinite(*number)) {
                return xsmi_fail(err, XSM_ERROR_DIVERGED, "the vector of '%s' is not finite at position %u",
                                 m->map.names[first + k], i);
            }
        }
    }
    return XSM_OK;
}

static xsm_status write_rows(const writing *w, xsm_error *err)
{
    const xsm_model *m = w->model;
    const int head = snprintf(w->line, NUMBER_SIZE, "%u %u\n", m->classes, m->features);
    XSMI_TRY(xsmi_replace_write(w->file, w->line, (size_t)head, err));
    for (uint32_t first = 0, count; first < m->classes; first += count) {
        count = (uint32_t)XSMI_MIN(m->classes - first, w->together);
        XSMI_TRY(get_words(w, first, count, err));
        XSMI_TRY(write_words(w, first, count, err));
    }
    return XSM_OK;
}

static xsm_status open_file(writing *w, const char *path, xsm_error *err)
{
    const xsm_model *m = w->model;
    const size_t row = (size_t)m->features * sizeof *w->rows, fit = WRITE_BYTES / row;
    w->together = XSMI_CLAMP(fit, 1, m->classes);
    w->line_size = ((size_t)m->features + 2) * NUMBER_SIZE;
    w->held.context = m->context;
    w->line = xsmi_hold(&w->held, w->line_size, 1);
    w->rows = xsmi_hold(&w->held, w->together, row);
    XSMI_TRY(xsmi_held_check(&w->held, "lines of numbers", err));
    return xsmi_replace_open(m->context, path, &w->file, err);
}

static xsm_status write_file(writing *w, const char *path, xsm_error *err)
{
    xsm_status status = open_file(w, path, err);
    status = status == XSM_OK ? write_rows(w, err) : status;
    if (status == XSM_OK) {
        status = xsmi_replace_commit(w->file, err);
        w->file = NULL;
    }
    xsmi_replace_abandon(w->file);
    xsmi_held_release(&w->held);
    return status;
}

xsm_status xsm_word_model_write(const xsm_model *m, const char *path, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_TRY(xsmi_words_check_release(err));
    XSMI_NEED(err, {m, "the model"}, {path, "the path"});
    XSMI_TRY(xsmi_context_need_alone(m->context, "a word model", err));
    XSMI_TRY(xsmi_model_need_dense(m, "writing word vectors", err));
    XSMI_TRY(check_names(m, err));
    xsmi_activity activity;
    xsmi_begin(&activity, m->context, "writing", "words", m->classes);
    writing w = {.model = m, .activity = &activity};
    return xsmi_end(&activity, write_file(&w, path, err), err);
}

/* -- reading ------------------------------------------------------------------------------------------------------- */

typedef struct reading {
    xsm_context *context;
    xsmi_source source;
    xsmi_lines lines;
    xsm_model *model; /* NULL while the number of rows is not known */
    float *values;    /* [rows so far][D] without a model */
    size_t value_capacity;
    char *text; /* the names, each terminated */
    size_t used, capacity;
    size_t *starts; /* [rows so far] */
    size_t start_capacity;
    const char **names; /* [V] */
    uint32_t words, dimension;
} reading;

static xsm_status fail_at(const reading *r, size_t column, xsm_error *err, const char *what)
{
    return xsmi_fail_at(err, XSM_ERROR_FORMAT, r->lines.line, column + 1, "%s, line %llu, column %zu: %s",
                        r->source.name, (unsigned long long)r->lines.line, column + 1, what);
}

static const char *skip_blanks(const char *p)
{
    while (xsmi_is_space(*p)) {
        p++;
    }
    return p;
}

/* Numbers for which memory is allocated whatever the file's size; most bytes that deflate makes from one. */
#define BELIEVED ((uint64_t)1 << 20)
#define INFLATED 1032

/* Whether a file of this size can have words*dimension numbers, each of two bytes at least; true if the size is
 * unknown. */
static bool may_have(const xsmi_source *s, uint64_t words, uint64_t dimension)
{
    const uint64_t each = s->gunzip ? INFLATED : 1;
    return s->raw_size == 0 || words * dimension <= BELIEVED + s->raw_size / 2 * each;
}

static xsm_status make_model(reading *r, xsm_error *err)
{
    const xsm_model_options o = XSM_MODEL_OPTIONS_INIT;
    XSMI_TRY(xsmi_model_new_local(r->context, r->dimension, r->words, &o, &r->model, err));
    return xsmi_model_own(r->model, err);
}

static xsm_status read_head(reading *r, xsm_error *err)
{
    char *text;
    size_t length;
    int64_t words, dimension;
    XSMI_TRY(xsmi_lines_next(&r->lines, &text, &length, err));
    if (!text) {
        r->lines.line = 1;
        return fail_at(r, 0, err, "an empty file; a line with the numbers of words and dimensions is needed");
    }
    const char *p = skip_blanks(text), *second;
    bool good = xsmi_parse_integer(p, &second, &words) == XSMI_NUMBER_OK && xsmi_is_space(*second);
    if (good) {
        p = skip_blanks(second);
        good = xsmi_parse_integer(p, &p, &dimension) == XSMI_NUMBER_OK && skip_blanks(p) == text + length;
    }
    if (!good || words < 1 || words > XSM_CLASSES_MAX || dimension < 1 || dimension > XSM_FEATURES_MAX) {
        return fail_at(r, 0, err,
                       "the first line is to hold two numbers, those of words and dimensions, 1 to 2147483647");
    }
    if (!may_have(&r->source, (uint64_t)words, (uint64_t)dimension)) {
        return fail_at(r, 0, err, "the file is too short for so many words and dimensions as this line says");
    }
    r->words = (uint32_t)words;
    r->dimension = (uint32_t)dimension;
    return r->source.raw_size > 0 ? make_model(r, err) : XSM_OK;
}

/* Sets *row to memory for the numbers of row k: for all of them, or for as many as `bytes` bytes can have. */
static xsm_status find_row(reading *r, uint32_t k, size_t bytes, float **row, xsm_error *err)
{
    const size_t first = (size_t)k * r->dimension;
    if (r->model) {
        *row = r->model->w.weight + (size_t)k * r->model->w.stride;
        return XSM_OK;
    }
    const size_t most = XSMI_MIN(r->dimension, bytes / 2);
    XSMI_TRY(XSMI_GROW(r->context, r->values, r->value_capacity, first + most, "word vectors", err));
    *row = r->values + first;
    return XSM_OK;
}

/* Makes the model from rows that were read one by one. */
static xsm_status move_rows(reading *r, xsm_error *err)
{
    XSMI_TRY(make_model(r, err));
    for (uint32_t k = 0; k < r->words; k++) {
        memcpy(r->model->w.weight + (size_t)k * r->model->w.stride, r->values + (size_t)k * r->dimension,
               r->dimension * sizeof *r->values);
        XSMI_TRY(k % 1024 == 0 ? xsmi_go_on(r->context, err) : XSM_OK);
    }
    return XSM_OK;
}

static xsm_status read_row(reading *r, uint32_t k, xsm_error *err)
{
    char *text;
    size_t length;
    XSMI_TRY(xsmi_lines_next(&r->lines, &text, &length, err));
    if (!text) {
        r->lines.line++;
        return fail_at(r, 0, err, "the file ends before all of its words have come");
    }
    const char *end = text + length, *p = text;
    while (p < end && !xsmi_is_space(*p)) {
        p++;
    }
    size_t name = (size_t)(p - text), valid = xsmi_utf8_prefix(text, name);
    if (name == 0 || valid < name) {
        return fail_at(r, valid, err, "a word in UTF-8 is to begin the line");
    }
    XSMI_TRY(XSMI_GROW(r->context, r->text, r->capacity, r->used + name + 1, "the words of a file", err));
    XSMI_TRY(XSMI_GROW(r->context, r->starts, r->start_capacity, (size_t)k + 1, "the words of a file", err));
    memcpy(r->text + r->used, text, name);
    r->text[r->used + name] = '\0';
    r->starts[k] = r->used;
    r->used += name + 1;
    float *row;
    XSMI_TRY(find_row(r, k, length - name, &row, err));
    for (uint32_t i = 0; i < r->dimension; i++) {
        p = skip_blanks(p);
        const char *number = p;
        float value;
        if (xsmi_parse_short_float(p, &p, &value) != XSMI_NUMBER_OK || (p < end && !xsmi_is_space(*p))) {
            return fail_at(r, (size_t)(number - text), err,
                           number >= end ? "the line ends before all of its numbers have come"
                                         : "what stands here is no finite number");
        }
        row[i] = value;
    }
    p = skip_blanks(p);
    return p >= end ? XSM_OK : fail_at(r, (size_t)(p - text), err, "more numbers than the first line says");
}

static xsm_status read_all(reading *r, const char *path, xsmi_activity *activity, xsm_error *err)
{
    XSMI_TRY(xsmi_source_open_file(&r->source, r->context, path, err));
    xsmi_expect(activity, r->source.raw_size);
    r->source.activity = activity;
    xsmi_lines_start(&r->lines, &r->source);
    XSMI_TRY(read_head(r, err));
    for (uint32_t k = 0; k < r->words; k++) {
        XSMI_TRY(read_row(r, k, err));
    }
    char *text;
    size_t length;
    XSMI_TRY(xsmi_lines_next(&r->lines, &text, &length, err));
    if (text) {
        return fail_at(r, 0, err, "more lines than the first one says");
    }
    XSMI_TRY(r->model ? XSM_OK : move_rows(r, err));
    XSMI_TRY(xsmi_array_new(r->context, &r->names, r->words, sizeof *r->names, "the words of a file", err));
    for (uint32_t k = 0; k < r->words; k++) {
        r->names[k] = r->text + r->starts[k];
    }
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    map.classes = r->words;
    map.names = r->names;
    return xsm_model_set_class_map(r->model, &map, err);
}

xsm_status xsm_word_model_read(xsm_context *context, const char *path, xsm_model **out, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_TRY(xsmi_words_check_release(err));
    XSMI_NEED(err, {path, "the path"}, {out, "out"});
    xsm_context *ctx;
    XSMI_TRY(xsmi_context_need_alone(context, "a word model", err));
    XSMI_TRY(xsmi_context_acquire(context, &ctx, err));
    reading r = {.context = ctx, .source = {.fd = -1}};
    xsmi_activity activity;
    xsmi_begin(&activity, ctx, "reading", "bytes", 0);
    xsm_status status = read_all(&r, path, &activity, err);
    status = xsmi_end(&activity, status, err);
    xsmi_lines_end(&r.lines);
    xsmi_source_close(&r.source);
    xsmi_release(ctx, r.text, r.capacity, 1);
    xsmi_release(ctx, r.starts, r.start_capacity, sizeof *r.starts);
    xsmi_release(ctx, r.values, r.value_capacity, sizeof *r.values);
    xsmi_release(ctx, r.names, r.words, sizeof *r.names);
    if (status == XSM_OK) {
        *out = r.model;
    } else {
        xsm_model_free(r.model);
    }
    xsm_context_free(ctx);
    return status;
}
