/*
 * Writes generated rows of very many labels as Extreme Classification text to standard output, and to standard error
 * what the best possible ranking of these rows' labels reaches:
 *
 *     bench_generate_labels train|test [NAME=NUMBER]...
 *
 * By default rows of Amazon-670K's shape: 490,449 rows to train or 20,000 to test (`rows`), 135,909 features, 670,091
 * classes, 5.5 labels and about 76 features a row. Both parts are of one distribution, which `seed` names; row i is the
 * same however many rows there are. Memory does not grow with the rows.
 *
 * Classes lie in groups (`groups`). A row is of one group, drawn by the weight of its classes, where class l (from 0)
 * weighs (l + 1)^-zipf. Given the group everything is independent:
 *
 *   - class l is a label of the row with probability p_l = min(0.95, labels * weight / weight of the group); a row
 * without a label is drawn again. So labels are by Zipf's law, but for the cap.
 *   - each of the `own` words of a class of the group, which no other class of the group has, occurs with probability
 *     `stray`, and where the class is a label with probability `kept` besides;
 *   - each of the `shared` words of the group occurs with probability 1/2;
 *   - each feature occurs with probability noise / features.
 *
 * With b = 1 - (1 - stray) (1 - noise / features) the odds of a label, given the group and the row's words, are exactly
 *
 *     p_l / (1 - p_l) * ((1 - (1 - b) (1 - kept)) / b)^a * (1 - kept)^(own - a)        for a of its own words in the
 * row,
 *
 * and its probability, as there is a label, is q_l / (1 - product over the group of (1 - q_m)), with q the probability
 * of these odds. Ranking by it is best for P@k. The mean over the rows of its mean over the k best is what is printed
 * as best: no ranking exceeds it in expectation. (It knows the group, which the shared words tell.) Beside it is what
 * this ranking reaches on the labels that were drawn.
 */
#include "made.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct shape {
    double rows, features, classes, groups, labels, zipf, own, kept, stray, shared, noise, seed;
} shape;

typedef struct rows {
    shape s;
    uint32_t features, classes, groups, own, shared;
    uint32_t *first;        /* [groups + 1] of its classes in `member` */
    uint32_t *member;       /* [classes] by group */
    double *prior;          /* [classes] p_l, of the class at that place of `member` */
    uint32_t *own_words;    /* [classes][own] likewise */
    uint32_t *shared_words; /* [groups][shared] */
    double *reach;          /* [groups] weight of this group and those before */
    /* Of a row. */
    uint64_t *mark;     /* [features] the last row with the feature, + 1 */
    uint32_t *words;    /* [features] */
    unsigned char *has; /* [the most classes of a group] */
    double *odds;       /* likewise */
} rows;

/* A feature that no word of group g has yet. */
static uint32_t fresh(rows *r, uint64_t *state, uint32_t g)
{
    uint32_t word;
    do {
        word = made_below(state, r->features);
    } while (r->mark[word] == g + UINT64_C(1));
    r->mark[word] = g + UINT64_C(1);
    return word;
}

static int make_groups(rows *r)
{
    uint64_t state = made_stream(r->s.seed, MADE_CLASSES, 0);
    uint32_t *group = malloc(r->classes * sizeof *group), most = 0;
    double total = 0;
    if (!group) {
        return 0;
    }
    for (uint32_t l = 0; l < r->classes; l++) {
        r->first[(group[l] = made_below(&state, r->groups)) + 1]++;
    }
    for (uint32_t g = 0; g < r->groups; g++) {
        most = r->first[g + 1] > most ? r->first[g + 1] : most;
        r->first[g + 1] += r->first[g];
    }
    for (uint32_t l = r->classes; l-- > 0;) { /* afterwards first[g + 1] is where group g begins */
        r->member[--r->first[group[l] + 1]] = l;
    }
    memmove(r->first, r->first + 1, r->groups * sizeof *r->first);
    r->first[r->groups] = r->classes;
    free(group);
    for (uint32_t g = 0; g < r->groups; g++) {
        double weight = 0;
        for (uint32_t i = r->first[g]; i < r->first[g + 1]; i++) {
            weight += r->prior[i] = pow((double)r->member[i] + 1, -r->s.zipf);
            for (uint32_t j = 0; j < r->own; j++) {
                r->own_words[(size_t)i * r->own + j] = fresh(r, &state, g);
            }
        }
        for (uint32_t i = r->first[g]; i < r->first[g + 1]; i++) {
            r->prior[i] = fmin(0.95, r->s.labels * r->prior[i] / weight);
        }
        for (uint32_t j = 0; j < r->shared; j++) {
            r->shared_words[(size_t)g * r->shared + j] = fresh(r, &state, g);
        }
        r->reach[g] = total += weight;
    }
    memset(r->mark, 0, r->features * sizeof *r->mark);
    r->has = calloc(most, sizeof *r->has);
    r->odds = calloc(most, sizeof *r->odds);
    return r->has && r->odds;
}

/* Draws the words of a row of group g with the labels `has`; returns their number. */
static uint32_t draw_words(rows *r, uint64_t *state, uint32_t g, uint64_t row)
{
    const shape *s = &r->s;
    const double rate = s->noise / s->features;
    uint32_t count = 0, word;
    for (uint32_t i = r->first[g]; i < r->first[g + 1]; i++) {
        const double share = r->has[i - r->first[g]] ? 1 - (1 - s->stray) * (1 - s->kept) : s->stray;
        for (uint32_t j = 0; j < r->own; j++) {
            if (made_uniform(state) < share) {
                r->mark[word = r->own_words[(size_t)i * r->own + j]] = row + 1;
                r->words[count++] = word;
            }
        }
    }
    for (uint32_t j = 0; j < r->shared; j++) {
        if (made_bits(state) >> 63) {
            r->mark[word = r->shared_words[(size_t)g * r->shared + j]] = row + 1;
            r->words[count++] = word;
        }
    }
    /* From one feature of the noise to the next there are as many as a geometric distribution says. */
    for (double at = -1; rate > 0;) {
        at += 1 + floor(log(1 - made_uniform(state)) / log1p(-rate));
        if (at >= s->features) {
            break;
        }
        if (r->mark[word = (uint32_t)at] != row + 1) {
            r->mark[word] = row + 1;
            r->words[count++] = word;
        }
    }
    qsort(r->words, count, sizeof *r->words, made_rising);
    return count;
}

/* The probability of every class of group g to be a label of the row whose words are marked, in `odds`. */
static void rate_labels(rows *r, uint32_t g, uint64_t row)
{
    const shape *s = &r->s;
    const double b = 1 - (1 - s->stray) * (1 - s->noise / s->features);
    const double there = log((1 - (1 - b) * (1 - s->kept)) / b), missing = log1p(-s->kept);
    double none = 0;
    for (uint32_t i = r->first[g]; i < r->first[g + 1]; i++) {
        double odds = log(r->prior[i] / (1 - r->prior[i]));
        for (uint32_t j = 0; j < r->own; j++) {
            odds += r->mark[r->own_words[(size_t)i * r->own + j]] == row + 1 ? there : missing;
        }
        none += -log1p(exp(odds));
        r->odds[i - r->first[g]] = 1 / (1 + exp(-odds));
    }
    for (uint32_t i = 0; i < r->first[g + 1] - r->first[g]; i++) {
        r->odds[i] /= -expm1(none);
    }
}

enum { TOP = 5 };

/* Adds to the sums the probabilities, and the labels, among the k most probable classes, for each k. */
static void add_best(const rows *r, uint32_t count, double *best, double *reached)
{
    uint32_t top[TOP] = {0}, kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = kept < TOP ? kept++ : TOP;
        for (; at > 0 && r->odds[top[at - 1]] < r->odds[i]; at--) {
            if (at < TOP) {
                top[at] = top[at - 1];
            }
        }
        if (at < TOP) {
            top[at] = i;
        }
    }
    double sum = 0, hits = 0;
    for (uint32_t k = 0; k < TOP; k++) {
        sum += k < kept ? r->odds[top[k]] : 0;
        hits += k < kept && r->has[top[k]];
        best[k] += sum / (k + 1);
        reached[k] += hits / (k + 1);
    }
}

static void write_rows(rows *r, uint64_t part)
{
    double best[TOP] = {0}, reached[TOP] = {0}, values = 0, labels = 0;
    const uint64_t count = (uint64_t)r->s.rows;
    printf("%llu %u %u\n", (unsigned long long)count, r->features, r->classes);
    for (uint64_t row = 0; row < count; row++) {
        uint64_t state = made_stream(r->s.seed, part, row);
        const uint32_t g = made_draw(&state, r->reach, r->groups), size = r->first[g + 1] - r->first[g];
        uint32_t with = 0;
        while (with == 0) {
            for (uint32_t i = 0; i < size; i++) {
                with += r->has[i] = made_uniform(&state) < r->prior[r->first[g] + i];
            }
        }
        const uint32_t words = draw_words(r, &state, g, row);
        rate_labels(r, g, row);
        add_best(r, size, best, reached);
        values += words;
        labels += with;
        char between = 0;
        for (uint32_t i = 0; i < size; i++) {
            if (r->has[i]) {
                printf(between ? ",%u" : "%u", r->member[r->first[g] + i]);
                between = ',';
            }
        }
        for (uint32_t j = 0; j < words; j++) {
            printf(" %u:1", r->words[j]);
        }
        putchar('\n');
    }
    const double n = (double)count;
    fprintf(stderr,
            "%llu rows, %.1f values and %.2f labels a row; best P@1 %.4f P@3 %.4f P@5 %.4f (drawn: %.4f %.4f %.4f)\n",
            (unsigned long long)count, values / n, labels / n, best[0] / n, best[2] / n, best[4] / n, reached[0] / n,
            reached[2] / n, reached[4] / n);
}

static int read_shape(int argc, char **argv, shape *s)
{
    const made_number numbers[] = {
        {"rows", &s->rows, 1, 1e12},        {"features", &s->features, 128, 4294967295.0},
        {"classes", &s->classes, 2, 1e9},   {"groups", &s->groups, 1, 1e9},
        {"labels", &s->labels, 0.01, 1000}, {"zipf", &s->zipf, 0, 4},
        {"own", &s->own, 1, 1000},          {"kept", &s->kept, 0.001, 0.999},
        {"stray", &s->stray, 0, 0.9},       {"shared", &s->shared, 0, 1000},
        {"noise", &s->noise, 0.001, 1000},  {"seed", &s->seed, 0, 9007199254740992.0},
    };
    if (!made_read(argc, argv, "bench_generate_labels", numbers, sizeof numbers / sizeof numbers[0])) {
        return 0;
    }
    if (s->classes / s->groups * 1.5 * s->own + 64 * s->own + s->shared > s->features / 2) {
        fputs("bench_generate_labels: the words of a group would be more than half of the features\n", stderr);
        return 0;
    }
    return 1;
}

int main(int argc, char **argv)
{
    const int test = argc > 1 && strcmp(argv[1], "test") == 0;
    rows r = {.s = {test ? 20000 : 490449, 135909, 670091, 5000, 5.5, 0.6, 8, 0.4, 0.03, 20, 20, 1}};
    if (argc < 2 || (!test && strcmp(argv[1], "train") != 0)) {
        fputs("usage: bench_generate_labels train|test [NAME=NUMBER]...\n", stderr);
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
    r.first = calloc((size_t)r.groups + 2, sizeof *r.first);
    r.member = calloc(r.classes, sizeof *r.member);
    r.prior = calloc(r.classes, sizeof *r.prior);
    r.own_words = calloc((size_t)r.classes * r.own, sizeof *r.own_words);
    r.shared_words = calloc((size_t)r.groups * r.shared + 1, sizeof *r.shared_words);
    r.reach = calloc(r.groups, sizeof *r.reach);
    r.mark = calloc(r.features, sizeof *r.mark);
    r.words = calloc(r.features, sizeof *r.words);
    int ok = r.first && r.member && r.prior && r.own_words && r.shared_words && r.reach && r.mark && r.words &&
             make_groups(&r);
    if (ok) {
        write_rows(&r, test ? MADE_TEST : MADE_TRAIN);
        ok = fflush(stdout) == 0 && !ferror(stdout);
    } else {
        fputs("bench_generate_labels: out of memory\n", stderr);
    }
    free(r.first);
    free(r.member);
    free(r.prior);
    free(r.own_words);
    free(r.shared_words);
    free(r.reach);
    free(r.mark);
    free(r.words);
    free(r.has);
    free(r.odds);
    return !ok;
}
