/*
 * Writes generated rows of very many labels that look alike in groups, as Extreme Classification text to standard
 * output:
 *
 *     bench_generate_alike train|test [NAME=NUMBER]...
 *
 * By default 300,000 rows to train or 20,000 to test (`rows`), with 60,000 features and one of 500,000 classes each,
 * some 185,000 of which occur. With labels=3 classes=100000 groups=1000 features=20000 rows=60000 some 80,000 labels
 * occur in 60,000 rows. Both parts are of one distribution, which `seed` names; row i is the same however many rows
 * there are.
 *
 * A class is of one of `groups` groups, drawn uniformly, and has `own` words of its own, drawn from all features; a
 * group has 40 words, drawn likewise. A row's class is l (from 0) with a probability proportional to (l + 1)^-zipf.
 * With `labels` above 1 it also has labels - 1 classes of the same group, drawn uniformly; a class that is drawn twice
 * is one label. The words of a row are each own word of a label with probability `kept`, `shared` draws from the words
 * of the group, and `noise` draws from all features; a word that occurs twice counts once.
 */
#include "made.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP_WORDS = 40 };

typedef struct shape {
    double rows, features, classes, groups, labels, zipf, own, kept, shared, noise, seed;
} shape;

typedef struct rows {
    shape s;
    uint32_t features, classes, groups, own, shared, noise, labels;
    uint32_t *group;       /* [classes] */
    uint32_t *first;       /* [groups + 2] where a group's classes begin in `member` */
    uint32_t *member;      /* [classes] by group */
    uint32_t *group_words; /* [groups][GROUP_WORDS] */
    uint32_t *own_words;   /* [classes][own] */
    double *reach;         /* [classes] weight of this class and those before */
    uint32_t *row_labels;  /* [labels] */
    uint32_t *words;       /* [labels * own + shared + noise] */
} rows;

static void make_classes(rows *r)
{
    uint64_t state = made_stream(r->s.seed, MADE_CLASSES, 0);
    double total = 0;
    for (size_t i = 0; i < (size_t)r->groups * GROUP_WORDS; i++) {
        r->group_words[i] = made_below(&state, r->features);
    }
    for (uint32_t l = 0; l < r->classes; l++) {
        r->first[(r->group[l] = made_below(&state, r->groups)) + 2]++;
        r->reach[l] = total += pow((double)l + 1, -r->s.zipf);
        for (uint32_t j = 0; j < r->own; j++) {
            r->own_words[(size_t)l * r->own + j] = made_below(&state, r->features);
        }
    }
    for (uint32_t g = 0; g < r->groups; g++) {
        r->first[g + 2] += r->first[g + 1];
    }
    for (uint32_t l = 0; l < r->classes; l++) { /* afterwards first[g] is where group g begins */
        r->member[r->first[r->group[l] + 1]++] = l;
    }
}

/* Sorts numbers and drops repeated ones; returns how many are left. */
static uint32_t sort_once(uint32_t *numbers, uint32_t count)
{
    uint32_t kept = 0;
    qsort(numbers, count, sizeof *numbers, made_rising);
    for (uint32_t i = 0; i < count; i++) {
        if (i == 0 || numbers[i] != numbers[kept - 1]) {
            numbers[kept++] = numbers[i];
        }
    }
    return kept;
}

static void write_rows(rows *r, uint64_t part)
{
    const uint64_t count = (uint64_t)r->s.rows;
    printf("%llu %u %u\n", (unsigned long long)count, r->features, r->classes);
    for (uint64_t row = 0; row < count; row++) {
        uint64_t state = made_stream(r->s.seed, part, row);
        const uint32_t class = made_draw(&state, r->reach, r->classes), g = r->group[class];
        uint32_t words = 0;
        r->row_labels[0] = class;
        for (uint32_t k = 1; k < r->labels; k++) {
            r->row_labels[k] = r->member[r->first[g] + made_below(&state, r->first[g + 1] - r->first[g])];
        }
        const uint32_t labels = sort_once(r->row_labels, r->labels);
        for (uint32_t k = 0; k < labels; k++) {
            for (uint32_t j = 0; j < r->own; j++) {
                if (made_uniform(&state) < r->s.kept) {
                    r->words[words++] = r->own_words[(size_t)r->row_labels[k] * r->own + j];
                }
            }
        }
        for (uint32_t j = 0; j < r->shared; j++) {
            r->words[words++] = r->group_words[(size_t)g * GROUP_WORDS + made_below(&state, GROUP_WORDS)];
        }
        for (uint32_t j = 0; j < r->noise; j++) {
            r->words[words++] = made_below(&state, r->features);
        }
        words = sort_once(r->words, words);
        for (uint32_t k = 0; k < labels; k++) {
            printf(k ? ",%u" : "%u", r->row_labels[k]);
        }
        for (uint32_t j = 0; j < words; j++) {
            printf(" %u:1", r->words[j]);
        }
        putchar('\n');
    }
}

static int read_shape(int argc, char **argv, shape *s)
{
    const made_number numbers[] = {
        {"rows", &s->rows, 1, 1e12},
        {"features", &s->features, 1, 4294967295.0},
        {"classes", &s->classes, 2, 1e9},
        {"groups", &s->groups, 1, 1e9},
        {"labels", &s->labels, 1, 1000},
        {"zipf", &s->zipf, 0, 4},
        {"own", &s->own, 0, 1000},
        {"kept", &s->kept, 0, 1},
        {"shared", &s->shared, 0, 100000},
        {"noise", &s->noise, 0, 100000},
        {"seed", &s->seed, 0, 9007199254740992.0},
    };
    return made_read(argc, argv, "bench_generate_alike", numbers, sizeof numbers / sizeof numbers[0]);
}

int main(int argc, char **argv)
{
    const int test = argc > 1 && strcmp(argv[1], "test") == 0;
    rows r = {.s = {test ? 20000 : 300000, 60000, 500000, 5000, 1, 0.6, 4, 0.7, 10, 6, 1}};
    if (argc < 2 || (!test && strcmp(argv[1], "train") != 0)) {
        fputs("usage: bench_generate_alike train|test [NAME=NUMBER]...\n", stderr);
        return 2;
    }
    if (!read_shape(argc, argv, &r.s)) {
        return 2;
    }
    r.features = (uint32_t)r.s.features;
    r.classes = (uint32_t)r.s.classes;
    r.groups = (uint32_t)r.s.groups;
    r.own = (uint32_t)r.s.own;
    r.shared = (uint32_t)r.s.shared;
    r.noise = (uint32_t)r.s.noise;
    r.labels = (uint32_t)r.s.labels;
    r.group = calloc(r.classes, sizeof *r.group);
    r.first = calloc((size_t)r.groups + 2, sizeof *r.first);
    r.member = calloc(r.classes, sizeof *r.member);
    r.group_words = calloc((size_t)r.groups * GROUP_WORDS, sizeof *r.group_words);
    r.own_words = calloc((size_t)r.classes * r.own + 1, sizeof *r.own_words);
    r.reach = calloc(r.classes, sizeof *r.reach);
    r.row_labels = calloc(r.labels, sizeof *r.row_labels);
    r.words = calloc((size_t)r.labels * r.own + r.shared + r.noise + 1, sizeof *r.words);
    int ok = r.group && r.first && r.member && r.group_words && r.own_words && r.reach && r.row_labels && r.words;
    if (ok) {
        make_classes(&r);
        write_rows(&r, test ? MADE_TEST : MADE_TRAIN);
        ok = fflush(stdout) == 0 && !ferror(stdout);
    } else {
        fputs("bench_generate_alike: out of memory\n", stderr);
    }
    free(r.group);
    free(r.first);
    free(r.member);
    free(r.group_words);
    free(r.own_words);
    free(r.reach);
    free(r.row_labels);
    free(r.words);
    return !ok;
}
