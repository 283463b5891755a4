/*
 * The vocabulary of a text: every word counted in one pass, the frequent ones kept and numbered by falling count.
 */
#include "words/corpus.h"
#include "base/activity.h"
#include "base/entry.h"
#include "base/heap_sort.h"
#include "base/order.h"
#include "base/utf8.h"
#include "words/release.h"

#include <string.h>

/* -- counting ------------------------------------------------------------------------------------------------------ */

typedef struct counting {
    xsm_context *context;
    xsmi_dictionary words; /* marks are counts */
    xsm_corpus_info info;
    uint32_t max_distinct;
    uint64_t forget; /* words with counts up to this were removed at the last time */
} counting;

/* Removes the rarest words. */
static xsm_status forget(counting *c, xsm_error *err)
{
    xsmi_dictionary kept;
    xsmi_dictionary_start(&kept, c->context, true);
    uint64_t lost = 0;
    c->forget++;
    for (uint32_t i = 0; i < c->words.count; i++) {
        uint64_t count = c->words.entries[i].mark;
        if (count <= c->forget) {
            lost += count;
            continue;
        }
        size_t length;
        const char *text = xsmi_dictionary_text(&c->words, i, &length);
        uint32_t id;
        xsm_status status = xsmi_dictionary_word(&kept, text, length, &id, err);
        if (status != XSM_OK) {
            xsmi_dictionary_end(&kept);
            return status;
        }
        kept.entries[id].mark = count;
    }
    xsmi_dictionary_end(&c->words);
    c->words = kept;
    c->info.forgotten += lost;
    return XSM_OK;
}

static xsm_status check_word(const xsmi_words *w, const char *word, size_t length, xsm_error *err)
{
    size_t valid = xsmi_utf8_prefix(word, length);
    if (valid == length) {
        return XSM_OK;
    }
    uint64_t column = w->passed + (uint64_t)(word - w->buffer) + valid - w->line_start + 1;
    return xsmi_fail_at(err, XSM_ERROR_FORMAT, w->line, column,
                        "%s, line %llu, column %llu: byte 0x%02X; UTF-8 text is accepted", w->source.name,
                        (unsigned long long)w->line, (unsigned long long)column, (unsigned char)word[valid]);
}

static xsm_status count_words(counting *c, xsmi_words *w, xsm_error *err)
{
    bool holds_word = false;
    for (;;) {
        xsmi_word_event event;
        const char *word;
        size_t length;
        XSMI_TRY(xsmi_words_next(w, &event, &word, &length, err));
        if (event != XSMI_WORD) {
            c->info.lines += holds_word;
            holds_word = false;
            if (event == XSMI_WORD_END) {
                return XSM_OK;
            }
            continue;
        }
        holds_word = true;
        c->info.tokens++;
        uint32_t before = c->words.count, id;
        XSMI_TRY(xsmi_dictionary_word(&c->words, word, length, &id, err));
        c->words.entries[id].mark++;
        if (c->words.count > before) {
            XSMI_TRY(check_word(w, word, length, err));
            while (c->words.count > c->max_distinct) {
                XSMI_TRY(forget(c, err));
            }
        }
    }
}

/* -- the vocabulary ------------------------------------------------------------------------------------------------ */

typedef struct ranked {
    uint64_t count;
    uint32_t id;
} ranked;

static int compare_ranks(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count) - (x->count > y->count) : (x->id > y->id) - (x->id < y->id);
}

/* Moves the ranked words to the corpus. */
static xsm_status move_words(xsm_corpus *c, const counting *counted, const ranked *ranks, uint32_t count,
                             xsm_error *err)
{
    c->counts = xsmi_allocate(c->context, count, sizeof *c->counts);
    c->names = xsmi_allocate(c->context, count, sizeof *c->names);
    c->info.words = count;
    if (!c->counts || !c->names) {
        return xsmi_fail_memory(err, count * sizeof *c->counts, "a vocabulary");
    }
    for (uint32_t i = 0; i < count; i++) {
        size_t length;
        uint32_t id;
        const char *text = xsmi_dictionary_text(&counted->words, ranks[i].id, &length);
        XSMI_TRY(xsmi_dictionary_word(&c->words, text, length, &id, err));
        c->counts[i] = ranks[i].count;
        c->info.known += ranks[i].count;
    }
    for (uint32_t i = 0; i < count; i++) {
        size_t length;
        c->names[i] = xsmi_dictionary_text(&c->words, i, &length);
    }
    return XSM_OK;
}

static xsm_status rank_words(xsm_corpus *c, const counting *counted, const xsm_corpus_options *o, xsm_error *err)
{
    const uint32_t distinct = counted->words.count;
    uint32_t often = 0;
    for (uint32_t i = 0; i < distinct; i++) {
        often += counted->words.entries[i].mark >= o->min_count;
    }
    if (often == 0) {
        return xsmi_fail(err, XSM_ERROR_DATA,
                         "%s: none of its %u different words occurs %llu times; try a smaller "
                         "min_count",
                         c->path, distinct, (unsigned long long)o->min_count);
    }
    ranked *ranks;
    XSMI_TRY(xsmi_array_new(c->context, &ranks, often, sizeof *ranks, "a vocabulary", err));
    uint32_t n = 0;
    for (uint32_t i = 0; i < distinct; i++) {
        if (counted->words.entries[i].mark >= o->min_count) {
            ranks[n].count = counted->words.entries[i].mark;
            ranks[n++].id = i;
        }
    }
    xsmi_heap_sort(ranks, often, sizeof *ranks, compare_ranks);
    xsm_status status = move_words(c, counted, ranks, XSMI_MIN(often, o->max_words), err);
    xsmi_release(c->context, ranks, often, sizeof *ranks);
    return status;
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

static xsm_status read_options(const xsm_corpus_options *given, xsm_corpus_options *o, xsm_error *err)
{
    XSMI_TRY(XSMI_READ(xsm_corpus_options, o, given, err));
    o->min_count = o->min_count ? o->min_count : XSMI_DEFAULT(xsm_corpus_options, min_count);
    o->max_words = o->max_words ? o->max_words : XSM_CLASSES_MAX;
    o->max_distinct = o->max_distinct ? o->max_distinct : XSMI_DEFAULT(xsm_corpus_options, max_distinct);
    if (o->max_words > XSM_CLASSES_MAX || o->max_distinct >= XSM_CLASSES_MAX) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "a vocabulary of %u words out of %u; accepted are up to %u",
                         o->max_words, o->max_distinct, XSM_CLASSES_MAX);
    }
    return XSM_OK;
}

xsm_status xsm_corpus_open(xsm_context *context, const char *path, const xsm_corpus_options *options, xsm_corpus **out,
                           xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_TRY(xsmi_words_check_release(err));
    XSMI_NEED(err, {path, "the path"}, {out, "out"});
    xsm_corpus_options o = XSM_CORPUS_OPTIONS_INIT;
    XSMI_TRY(read_options(options, &o, err));
    xsm_corpus *c;
    XSMI_TRY(XSMI_OBJECT_NEW(context, &c, xsm_corpus, "a corpus", err));
    xsm_context *ctx = c->context;
    xsmi_holders_start(&c->holders);
    xsmi_dictionary_start(&c->words, ctx, true);
    counting counted = {.context = ctx, .max_distinct = o.max_distinct};
    xsmi_dictionary_start(&counted.words, ctx, true);
    xsmi_words words = {.source = {.fd = -1}};
    c->path = xsmi_copy_text(ctx, path, strlen(path));
    xsm_status status = c->path ? XSM_OK : xsmi_fail_memory(err, strlen(path), "a corpus");
    xsmi_activity activity;
    xsmi_begin(&activity, ctx, "reading", "bytes", 0);
    if (status == XSM_OK) {
        status = xsmi_words_open(&words, ctx, path, err);
        xsmi_expect(&activity, words.source.raw_size);
        words.source.activity = &activity;
    }
    if (status == XSM_OK) {
        status = count_words(&counted, &words, err);
    }
    xsmi_words_close(&words);
    if (status == XSM_OK) {
        c->info = counted.info;
        c->info.size = sizeof c->info;
        status = rank_words(c, &counted, &o, err);
    }
    xsmi_dictionary_end(&counted.words);
    status = xsmi_end(&activity, status, err);
    if (status != XSM_OK) {
        xsm_corpus_free(c);
        return status;
    }
    *out = c;
    return XSM_OK;
}

void xsm_corpus_free(xsm_corpus *c)
{
    if (c && xsmi_holders_drop(&c->holders)) {
        xsm_context *ctx = c->context;
        xsmi_dictionary_end(&c->words);
        xsmi_release(ctx, c->counts, c->info.words, sizeof *c->counts);
        xsmi_release(ctx, c->names, c->info.words, sizeof *c->names);
        xsmi_release_text(ctx, c->path);
        XSMI_OBJECT_FREE(c, xsm_corpus);
    }
}

xsm_status xsm_corpus_get_info(const xsm_corpus *c, xsm_corpus_info *info, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {c, "the corpus"});
    return XSMI_WRITE(xsm_corpus_info, &c->info, info, err);
}

xsm_status xsm_corpus_get_class_map(const xsm_corpus *c, xsm_class_map *map, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {c, "the corpus"});
    xsm_class_map m = XSM_CLASS_MAP_INIT;
    m.classes = c->info.words;
    m.names = c->names;
    m.counts = c->counts;
    m.rows = c->info.known;
    return XSMI_WRITE(xsm_class_map, &m, map, err);
}

uint32_t xsm_corpus_find(const xsm_corpus *c, const char *word)
{
    return c && word ? xsmi_corpus_number(c, word, strlen(word)) : XSM_CLASS_UNSEEN;
}
