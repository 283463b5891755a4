/* Words from a stream of bytes, with lines of any length. */
#include "words/corpus.h"
#include "base/grow.h"

#include <string.h>

#define CHUNK ((size_t)256 << 10)
#define LONGEST ((size_t)65535)

/* 1 = white space within a line, 2 = the end of a line. */
static const unsigned char kinds[256] = {
    ['\0'] = 1, [' '] = 1, ['\t'] = 1, ['\v'] = 1, ['\f'] = 1, ['\r'] = 1, ['\n'] = 2,
};

/* Reads more bytes to w->end; first moves the bytes from `keep` on to the front. */
static xsm_status fill(xsmi_words *w, size_t keep, xsm_error *err)
{
    if (keep > 0) {
        memmove(w->buffer, w->buffer + keep, w->end - keep);
        w->end -= keep;
        w->next -= keep;
        w->passed += keep;
    }
    if (w->capacity - w->end < CHUNK / 2) {
        XSMI_TRY(XSMI_GROW(w->source.context, w->buffer, w->capacity, w->end + CHUNK, "words of a text", err));
    }
    size_t got;
    XSMI_TRY(xsmi_source_read(&w->source, w->buffer + w->end, w->capacity - w->end, &got, err));
    w->end += got;
    w->ended = got == 0;
    return XSM_OK;
}

/* Skips a byte order mark, which is not part of the first word. */
static xsm_status skip_mark(xsmi_words *w, xsm_error *err)
{
    static const char mark[] = "\xEF\xBB\xBF";
    const size_t length = sizeof mark - 1;
    while (w->end < length && !w->ended && memcmp(w->buffer ? w->buffer : mark, mark, w->end) == 0) {
        XSMI_TRY(fill(w, 0, err));
    }
    if (w->end >= length && memcmp(w->buffer, mark, length) == 0) {
        w->next = w->line_start = length;
    }
    return XSM_OK;
}

xsm_status xsmi_words_open(xsmi_words *w, xsm_context *ctx, const char *path, xsm_error *err)
{
    memset(w, 0, sizeof *w);
    w->source.fd = -1;
    w->line = 1;
    XSMI_TRY(xsmi_source_open_file(&w->source, ctx, path, err));
    return skip_mark(w, err);
}

void xsmi_words_close(xsmi_words *w)
{
    if (w->buffer) {
        xsmi_release(w->source.context, w->buffer, w->capacity, 1);
    }
    xsmi_source_close(&w->source);
    memset(w, 0, sizeof *w);
    w->source.fd = -1;
}

static uint64_t column_of(const xsmi_words *w, size_t offset)
{
    return w->passed + offset - w->line_start + 1;
}

xsm_status xsmi_words_next(xsmi_words *w, xsmi_word_event *event, const char **word, size_t *length, xsm_error *err)
{
    for (;;) {
        while (w->next < w->end && kinds[(unsigned char)w->buffer[w->next]] == 1) {
            w->next++;
        }
        if (w->next < w->end) {
            break;
        }
        if (w->ended) {
            *event = XSMI_WORD_END;
            return XSM_OK;
        }
        XSMI_TRY(fill(w, w->next, err));
    }
    if (w->buffer[w->next] == '\n') {
        w->next++;
        w->line++;
        w->line_start = w->passed + w->next;
        *event = XSMI_WORD_LINE;
        return XSM_OK;
    }
    size_t start = w->next;
    for (;;) {
        while (w->next < w->end && !kinds[(unsigned char)w->buffer[w->next]]) {
            w->next++;
        }
        if (w->next - start > LONGEST) {
            return xsmi_fail_at(err, XSM_ERROR_FORMAT, w->line, column_of(w, start),
                                "%s, line %llu, column %llu: a word of more than %zu bytes; words stand between white "
                                "space",
                                w->source.name, (unsigned long long)w->line, (unsigned long long)column_of(w, start),
                                LONGEST);
        }
        if (w->next < w->end || w->ended) {
            break;
        }
        XSMI_TRY(fill(w, start, err));
        start = 0;
    }
    *event = XSMI_WORD;
    *word = w->buffer + start;
    *length = w->next - start;
    return XSM_OK;
}
