/*
 * Rows are bags of words. Words are drawn from a Zipf distribution over the features, whose numbers are shuffled as in
 * a real vocabulary. Some of a row's words come from the short list of its class, and some from the list of the class's
 * group, so that a class can be learned, and confused with others of its group. If a row has several labels, each is,
 * with equal probability, from the group of the first one or drawn independently, and the words are divided among them.
 * Classes also have a Zipf distribution. Word counts are weighted by the logarithm of the word's rank, in place of idf,
 * and the row is scaled to length 1.
 */
#include "shape_documents.h"

#include "data.h"

#include <stdlib.h>
#include <string.h>

enum { LIST = 64, GROUP = 12, WORDS_MAX = 256 };
#define WORD_EXPONENT 1.0
#define WORD_OFFSET 10.0 /* of Zipf and Mandelbrot: the most frequent word is in a third of the rows, not in all */

/* Draws from a discrete distribution in constant time: A. J. Walker, An efficient method for generating discrete random
 * variables with general distributions, 1977. */
typedef struct alias {
    double *keep;
    uint32_t *other;
    uint32_t count;
} alias;

static alias alias_new(double *weight, uint32_t count)
{
    alias a = {papers_memory(count, sizeof *a.keep), papers_memory(count, sizeof *a.other), count};
    uint32_t *order = papers_memory(count, sizeof *order);
    uint32_t small = 0, large = count;
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += weight[i];
    }
    for (uint32_t i = 0; i < count; i++) {
        a.keep[i] = weight[i] / sum * count;
        a.other[i] = i;
        order[a.keep[i] < 1 ? small++ : --large] = i;
    }
    /* order[0..small) have less than the mean, order[large..count) more. */
    for (uint32_t i = 0; i < small && large < count; i++) {
        uint32_t donor = order[large];
        a.other[order[i]] = donor;
        a.keep[donor] -= 1 - a.keep[order[i]];
        if (a.keep[donor] < 1) {
            order[small++] = donor;
            large++;
        }
    }
    free(order);
    return a;
}

static void alias_free(alias *a)
{
    free(a->keep);
    free(a->other);
}

static double unit(bench_random *r)
{
    return (double)(bench_next(r) >> 11) * 0x1p-53;
}

static uint32_t alias_draw(const alias *a, bench_random *r)
{
    uint32_t i = (uint32_t)bench_below(r, a->count);
    return unit(r) < a->keep[i] ? i : a->other[i];
}

static alias zipf(uint32_t count, double exponent, double offset)
{
    double *weight = papers_memory(count, sizeof *weight);
    for (uint32_t i = 0; i < count; i++) {
        weight[i] = pow(i + 1 + offset, -exponent);
    }
    alias a = alias_new(weight, count);
    free(weight);
    return a;
}

typedef struct maker {
    const documents_sizes *sizes;
    alias classes, words;
    uint32_t *number; /* [features] number of a word, by its rank */
    float *idf;       /* [features] by rank */
    uint32_t *own;    /* [classes][LIST] ranks */
    uint32_t *shared; /* [groups][LIST] ranks */
} maker;

static uint32_t *lists(bench_random *random, const alias *words, uint32_t count)
{
    uint32_t *list = papers_memory((size_t)count * LIST, sizeof *list);
    for (size_t i = 0; i < (size_t)count * LIST; i++) {
        list[i] = alias_draw(words, random);
    }
    return list;
}

static maker maker_new(const documents_sizes *s, bench_random *random)
{
    maker m = {
        s,   zipf(s->classes, s->class_exponent, 0), zipf(s->features, WORD_EXPONENT, WORD_OFFSET), NULL, NULL, NULL,
        NULL};
    m.number = papers_memory(s->features, sizeof *m.number);
    m.idf = papers_memory(s->features, sizeof *m.idf);
    for (uint32_t i = 0; i < s->features; i++) {
        uint32_t j = (uint32_t)bench_below(random, (uint64_t)i + 1);
        m.number[i] = m.number[j];
        m.number[j] = i;
        m.idf[i] = (float)log(2 + (double)i);
    }
    m.own = lists(random, &m.words, s->classes);
    m.shared = lists(random, &m.words, s->classes / GROUP + 1);
    return m;
}

static void maker_free(maker *m)
{
    alias_free(&m->classes);
    alias_free(&m->words);
    free(m->number);
    free(m->idf);
    free(m->own);
    free(m->shared);
}

typedef struct word {
    uint32_t feature;
    float value;
} word;

static int compare_words(const void *a, const void *b)
{
    const word *p = a, *q = b;
    return (p->feature > q->feature) - (p->feature < q->feature);
}

/* Draws a row's labels, in rising order; returns how many. */
static uint32_t draw_labels(const maker *m, bench_random *random, uint32_t labels[DOCUMENTS_LABELS_MAX])
{
    const documents_sizes *s = m->sizes;
    uint32_t count = 1, wanted = s->most_labels > 1 ? 1 + (uint32_t)bench_below(random, s->most_labels) : 1;
    labels[0] = alias_draw(&m->classes, random);
    const uint32_t first = labels[0] / GROUP * GROUP, size = s->classes - first < GROUP ? s->classes - first : GROUP;
    for (uint32_t tries = 1; tries < wanted; tries++) {
        uint32_t k = bench_below(random, 2) ? first + (uint32_t)bench_below(random, size)
                                            : alias_draw(&m->classes, random),
                 at = count;
        while (at > 0 && labels[at - 1] > k) {
            at--;
        }
        if (at > 0 && labels[at - 1] == k) {
            continue; /* the label was drawn already: one label fewer */
        }
        memmove(labels + at + 1, labels + at, (count - at) * sizeof *labels);
        labels[at] = k;
        count++;
    }
    return count;
}

/* Makes a row of the given classes; returns its length. */
static size_t make_row(const maker *m, bench_random *random, const uint32_t *labels, uint32_t label_count,
                       word row[WORDS_MAX])
{
    const double own = m->sizes->own, shared = m->sizes->shared;
    size_t count = (size_t)(m->sizes->length * (0.5 + unit(random))), left = 0;
    count = count < 1 ? 1 : count > WORDS_MAX ? WORDS_MAX : count;
    for (size_t i = 0; i < count; i++) {
        uint32_t k = labels[label_count > 1 ? bench_below(random, label_count) : 0];
        double from = unit(random), place = unit(random);
        size_t at = (size_t)(LIST * place * place); /* the first of a list are more frequent */
        uint32_t rank = from < own            ? m->own[(size_t)k * LIST + at]
                        : from < own + shared ? m->shared[(size_t)(k / GROUP) * LIST + at]
                                              : alias_draw(&m->words, random);
        row[i] = (word){m->number[rank], m->idf[rank]};
    }
    qsort(row, count, sizeof *row, compare_words);
    double squares = 0;
    for (size_t i = 0; i < count; i++) {
        if (left > 0 && row[left - 1].feature == row[i].feature) {
            row[left - 1].value += row[i].value;
        } else {
            row[left++] = row[i];
        }
    }
    for (size_t i = 0; i < left; i++) {
        squares += (double)row[i].value * (double)row[i].value;
    }
    float scale = (float)(1 / sqrt(squares));
    for (size_t i = 0; i < left; i++) {
        row[i].value *= scale;
    }
    return left;
}

static xsm_dataset *make_rows(const papers *p, const maker *m, bench_random *random, uint64_t rows)
{
    uint64_t room = (uint64_t)((double)rows * m->sizes->length * 1.1) + WORDS_MAX, count = 0;
    uint64_t *offsets = papers_memory(rows + 1, sizeof *offsets);
    uint32_t *index = papers_memory(room, sizeof *index);
    uint64_t *label_offsets = papers_memory(rows + 1, sizeof *label_offsets);
    uint32_t *of = papers_memory((size_t)rows * m->sizes->most_labels, sizeof *of);
    float *values = papers_memory(room, sizeof *values);
    for (uint64_t i = 0; i < rows; i++) {
        word row[WORDS_MAX];
        uint32_t *labels = of + label_offsets[i], label_count = draw_labels(m, random, labels);
        label_offsets[i + 1] = label_offsets[i] + label_count;
        size_t length = make_row(m, random, labels, label_count, row);
        if (count + length > room) {
            papers_fail("the rows are longer than was planned for");
        }
        for (size_t j = 0; j < length; j++) {
            index[count] = row[j].feature;
            values[count++] = row[j].value;
        }
        offsets[i + 1] = count;
    }
    xsm_labels labels = {sizeof labels, m->sizes->classes, 0, label_offsets, of, NULL};
    xsm_dataset *data = NULL;
    xsm_error err = XSM_ERROR_INIT;
    papers_check(xsm_dataset_from_csr(p->context,
                                      &(xsm_csr_rows){.size = sizeof(xsm_csr_rows),
                                                      .offsets = offsets,
                                                      .index = index,
                                                      .values = values,
                                                      .rows = rows,
                                                      .features = m->sizes->features,
                                                      .labels = &labels},
                                      &data, &err),
                 &err);
    free(offsets);
    free(index);
    free(label_offsets);
    free(of);
    free(values);
    return data;
}

void documents_make(const papers *p, const documents_sizes *s, xsm_dataset **train, xsm_dataset **test)
{
    bench_random random = {13};
    maker m = maker_new(s, &random);
    *train = make_rows(p, &m, &random, s->rows);
    *test = make_rows(p, &m, &random, s->test_rows);
    maker_free(&m);
}
