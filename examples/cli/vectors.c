/* xsoftmax train --vectors: the vectors of words that an embedding model starts from, as word2vec and fastText write
 * them: a line of two numbers, words and length, then a line for each word with its numbers. Without the first line the
 * length is that of the first word. */
#include "train.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <xsoftmax/vocabulary.h>
#include <xsoftmax/stored_weights.h>

typedef struct entry {
    const char *word;
    uint32_t feature;
} entry;

/* The file, line by line. */
typedef struct lines {
    const char *path;
    FILE *file;
    char *text;
    size_t room;
    uint64_t number;
} lines;

static int open_lines(lines *l, const char *path)
{
    *l = (lines){path, fopen(path, "r"), NULL, 0, 0};
    return l->file ? CLI_GO_ON : cli_fail("%s: cannot open: %s", path, strerror(errno));
}

/* The next line without its end; 0 at the end of the file. */
static int next_line(lines *l)
{
    ssize_t length = getline(&l->text, &l->room, l->file);
    while (length > 0 && strchr(" \t\r\n", l->text[length - 1])) {
        l->text[--length] = '\0';
    }
    l->number += length >= 0;
    if (l->number == 1 && length >= 3 && memcmp(l->text, "\xEF\xBB\xBF", 3) == 0) {
        memmove(l->text, l->text + 3, (size_t)length - 2); /* a byte order mark is no part of a word */
    }
    return length >= 0;
}

static void close_lines(lines *l)
{
    if (l->file) {
        fclose(l->file);
    }
    free(l->text);
}

/* Whether a line is two whole numbers: words, and the length of each one's vector. */
static int is_head(const char *text, uint64_t *words, uint64_t *length)
{
    unsigned long long numbers[2];
    int end = 0;
    const int is = strspn(text, "0123456789 \t") == strlen(text) &&
                   sscanf(text, "%llu %llu %n", &numbers[0], &numbers[1], &end) == 2 && text[end] == '\0';
    *words = is ? numbers[0] : *words;
    *length = is ? numbers[1] : *length;
    return is;
}

int cli_vectors_length(const char *path, uint64_t *length)
{
    lines l;
    uint64_t words = 0;
    int code = open_lines(&l, path);
    *length = 0;
    if (code == CLI_GO_ON && next_line(&l) && !is_head(l.text, &words, length)) {
        for (const char *c = l.text; *c; c++) {
            *length += *c == ' ' || *c == '\t';
        }
    }
    const int packed = code == CLI_GO_ON && l.text && strncmp(l.text, "\x1f\x8b", 2) == 0;
    close_lines(&l);
    if (packed) {
        return cli_fail("%s: is compressed; vectors are plain text: gzip -dc FILE >FILE.vec", path);
    }
    return code != CLI_GO_ON || (*length > 0 && *length <= XSM_HIDDEN_MAX)
               ? code
               : cli_fail(
                     "%s, line 1: no vectors of words: '100000 300', words and length, or a word and its numbers is "
                     "accepted",
                     path);
}

/* Ends the word of a line; the numbers after it, the last `length` fields, or NULL if there are fewer. */
static char *split(char *text, uint64_t length)
{
    char *at = text + strlen(text);
    for (uint64_t i = 0; i < length && at > text; i++) {
        while (at > text && at[-1] != ' ' && at[-1] != '\t') {
            at--;
        }
        at -= at > text;
    }
    if (at == text) {
        return NULL;
    }
    *at = '\0';
    return at + 1;
}

static int read_numbers(const lines *l, const char *at, uint64_t length, float *to)
{
    for (uint64_t i = 0; i < length; i++) {
        char *end;
        to[i] = strtof(at, &end);
        if (end == at || !isfinite((double)to[i]) || (*end && *end != ' ' && *end != '\t')) {
            return cli_fail("%s, line %llu: number %llu of the vector is '%.20s'; a finite number is accepted", l->path,
                            (unsigned long long)l->number, (unsigned long long)i + 1, at);
        }
        at = *end ? end + 1 : end;
    }
    return CLI_GO_ON;
}

static int by_word(const void *a, const void *b)
{
    return strcmp(((const entry *)a)->word, ((const entry *)b)->word);
}

/* Reads the vectors of the words that are there, each once. */
static int read_vectors(cli_run *r, lines *l, entry *words, uint32_t count, const xsm_embedding_parameters *to)
{
    const uint64_t length = to->hidden;
    uint64_t said = length, declared = 0, read = 0;
    int code = CLI_GO_ON;
    while (code == CLI_GO_ON && next_line(l)) {
        if ((l->number == 1 && is_head(l->text, &declared, &said)) || !*l->text) {
            if (said != length) { /* another file than the one that was looked at first */
                return cli_fail("%s, line 1: vectors of %llu numbers; %llu are accepted", l->path,
                                (unsigned long long)said, (unsigned long long)length);
            }
            continue;
        }
        char *numbers = split(l->text, length);
        if (!numbers) {
            return cli_fail("%s, line %llu: a word and %llu numbers are expected, as text, not as bytes", l->path,
                            (unsigned long long)l->number, (unsigned long long)length);
        }
        read++;
        const entry wanted = {l->text, 0};
        entry *found = bsearch(&wanted, words, count, sizeof *words, by_word);
        if (found && found->feature < to->features) {
            code = read_numbers(l, numbers, length, to->vectors + found->feature * to->feature_step);
            r->vectors_found++;
            found->feature = UINT32_MAX;
        }
    }
    return code != CLI_GO_ON || read >= declared
               ? code
               : cli_fail("%s: is cut short: vectors of %llu words, and line 1 says %llu", l->path,
                          (unsigned long long)read, (unsigned long long)declared);
}

int cli_vectors_load(cli_run *r, const xsm_class_map *map)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_embedding_parameters to = XSM_EMBEDDING_PARAMETERS_INIT;
    if (!map->vocabulary) {
        return cli_fail("--vectors: the features of %s are no words; vectors are of words of text", r->data);
    }
    if (xsm_model_get_embedding_parameters(r->model, &to, &err) != XSM_OK) {
        return cli_library_failed(&err);
    }
    lines l;
    r->vectors_found = 0;
    r->vectors_words = xsm_vocabulary_words(map->vocabulary);
    entry *words = calloc(r->vectors_words, sizeof *words);
    for (uint32_t i = 0; words && i < r->vectors_words; i++) {
        words[i] = (entry){xsm_vocabulary_word(map->vocabulary, i), xsm_vocabulary_feature(map->vocabulary, i)};
    }
    int code = words ? open_lines(&l, r->hidden.vectors) : cli_fail("out of memory");
    if (code == CLI_GO_ON) {
        qsort(words, r->vectors_words, sizeof *words, by_word);
        cli_note("reading %s ...", r->hidden.vectors);
        code = read_vectors(r, &l, words, r->vectors_words, &to);
        cli_note_clear();
        close_lines(&l);
    }
    free(words);
    return code != CLI_GO_ON || r->vectors_found > 0
               ? code
               : cli_fail("%s: none of its words is among the %lu of %s", r->hidden.vectors,
                          (unsigned long)r->vectors_words, r->data);
}
