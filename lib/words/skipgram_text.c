/*
 * Centres and contexts from a text: frequent words dropped, lines cut, windows drawn (Mikolov et al. 2013; the rules
 * of word2vec's program).
 */
#include "words/skipgram.h"

#include "base/activity.h"

#include <math.h>
#include <string.h>

xsm_status xsmi_centres_open(xsmi_centres *c, xsm_context *ctx, const xsm_corpus *corpus,
                             const xsmi_text_settings *settings, xsm_error *err)
{
    memset(c, 0, sizeof *c);
    c->words.source.fd = -1;
    c->corpus = corpus;
    c->settings = *settings;
    XSMI_TRY(xsmi_array_new(ctx, &c->keep, corpus->info.words, sizeof *c->keep, "a text", err));
    const double subsample = settings->subsample;
    for (uint32_t k = 0; k < corpus->info.words; k++) {
        double share = (double)corpus->counts[k] / (double)corpus->info.known;
        double keep = subsample >= 1 ? 1 : sqrt(subsample / share) + subsample / share;
        c->keep[k] = keep >= 1 ? UINT32_MAX : (uint32_t)(keep * 4294967296.0);
    }
    return XSM_OK;
}

void xsmi_centres_close(xsmi_centres *c, xsm_context *ctx)
{
    if (c->keep) {
        xsmi_release(ctx, c->keep, c->corpus->info.words, sizeof *c->keep);
    }
    xsmi_words_close(&c->words);
    c->keep = NULL;
}

xsm_status xsmi_centres_rewind(xsmi_centres *c, xsm_error *err)
{
    xsmi_words_close(&c->words);
    c->known = 0;
    c->count = c->position = 0;
    return xsmi_words_open(&c->words, c->corpus->context, c->corpus->path, err);
}

/* Reads the next line, or a piece of it, that keeps two words or more; c->count = 0 at the end of the text. */
static xsm_status next_line(xsmi_centres *c, xsm_error *err)
{
    c->position = 0;
    for (;;) {
        xsmi_word_event event;
        uint32_t read = 0;
        c->count = 0;
        xsmi_stream_start(&c->stream, c->settings.seed, XSMI_STREAM_TEXT, c->lines++);
        do {
            const char *word;
            size_t length;
            XSMI_TRY(xsmi_words_next(&c->words, &event, &word, &length, err));
            uint32_t id = event == XSMI_WORD ? xsmi_corpus_number(c->corpus, word, length) : XSM_CLASS_UNSEEN;
            if (id != XSM_CLASS_UNSEEN) {
                read++;
                if (c->keep[id] == UINT32_MAX || xsmi_stream_next(&c->stream) <= c->keep[id]) {
                    c->line[c->count++] = id;
                }
            }
        } while (event == XSMI_WORD && read < XSMI_LINE_WORDS);
        c->known += read;
        if (c->count > 1) {
            return XSM_OK;
        }
        if (event == XSMI_WORD_END) {
            c->count = 0;
            return XSM_OK;
        }
        (void)xsmi_poll(c->corpus->context); /* calls the hook: there may be many such lines */
    }
}

xsm_status xsmi_centres_next(xsmi_centres *c, xsmi_centre *centre, bool *found, xsm_error *err)
{
    if (c->position == c->count) {
        XSMI_TRY(next_line(c, err));
        if (c->count == 0) {
            *found = false;
            return XSM_OK;
        }
    }
    uint32_t reach = 1 + (uint32_t)xsmi_stream_below(&c->stream, c->settings.window);
    uint32_t from = c->position > reach ? c->position - reach : 0;
    uint32_t to = c->count - 1 - c->position > reach ? c->position + reach : c->count - 1;
    centre->words = c->line + from;
    centre->before = c->position - from;
    centre->after = to - c->position;
    c->position++;
    *found = true;
    return XSM_OK;
}
