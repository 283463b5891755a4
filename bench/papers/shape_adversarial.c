/*
 * Classes are the leaves of a tree. A class's centre is the sum of one random vector for each node above it; the
 * vectors near the root are longer, because topics are easier to distinguish than the articles in them. A row is its
 * class's centre plus noise; for CONFUSED of the rows the centre is that of another class of the same family, so that
 * no classifier is right for more than about 1 - CONFUSED of the test rows.
 */
#include "shape_adversarial.h"

#include "data.h"

#include <stdlib.h>

enum { BRANCH_BITS = 3, FAMILY_BITS = 6, VECTORS = 16384 };
#define CONFUSED 0.4
#define NOISE 0.8   /* length of the noise, relative to the shortest vector of a centre */
#define LONGER 1.25 /* length of a level's vector, relative to the level below */
#define MIXER 2654435761u

typedef struct maker {
    const adversarial_sizes *sizes;
    float *vectors;     /* [VECTORS][features] of length 1 */
    double *cumulative; /* [classes] */
    uint32_t bits;      /* 2^bits >= classes */
    bench_random random;
} maker;

static double unit(bench_random *r)
{
    return (double)(bench_next(r) >> 11) * 0x1p-53;
}

static maker maker_new(const adversarial_sizes *s, uint64_t seed)
{
    maker m = {s,
               papers_memory((size_t)VECTORS * s->features, sizeof(float)),
               papers_memory(s->classes, sizeof(double)),
               0,
               {seed * 2 + 1}};
    /* Uniform on [-1, 1): variance a third. */
    float scale = (float)sqrt(3.0 / s->features);
    for (size_t i = 0; i < (size_t)VECTORS * s->features; i++) {
        m.vectors[i] = scale * bench_uniform(&m.random);
    }
    double sum = 0;
    for (uint32_t k = 0; k < s->classes; k++) {
        sum += pow(k + 1, -s->exponent);
        m.cumulative[k] = sum;
    }
    while ((UINT64_C(1) << m.bits) < s->classes) {
        m.bits++;
    }
    return m;
}

static uint32_t draw_class(maker *m)
{
    double u = unit(&m->random) * m->cumulative[m->sizes->classes - 1];
    uint32_t low = 0, high = m->sizes->classes - 1;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (m->cumulative[middle] > u) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* Frequent and rare classes are mixed in the tree: multiplication by an odd number permutes the class numbers. */
static uint32_t place_of(const maker *m, uint32_t class)
{
    return (uint32_t)((uint64_t) class * MIXER & ((UINT64_C(1) << m->bits) - 1));
}

static void add_centre(const maker *m, uint32_t place, float *x)
{
    double length = 1;
    for (uint32_t below = 0; below < m->bits; below += BRANCH_BITS) {
        uint32_t node = (place >> below) * 32 + below;
        const float *v = m->vectors + (size_t)((uint64_t)node * MIXER >> 7) % VECTORS * m->sizes->features;
        for (uint32_t d = 0; d < m->sizes->features; d++) {
            x[d] += (float)length * v[d];
        }
        length *= LONGER;
    }
}

static xsm_dataset *make_rows(const papers *p, maker *m, uint64_t rows, bool training)
{
    const adversarial_sizes *s = m->sizes;
    float *x = papers_memory((size_t)rows * s->features, sizeof *x);
    uint32_t *labels = papers_memory(rows, sizeof *labels);
    const float noise = (float)(NOISE * sqrt(3.0 / s->features));
    for (uint64_t i = 0; i < rows; i++) {
        float *row = x + i * s->features;
        bool one_each = training && s->exponent == 0 && i < s->classes && rows >= s->classes;
        labels[i] = one_each ? (uint32_t)i : draw_class(m);
        uint32_t place = place_of(m, labels[i]);
        if (unit(&m->random) < CONFUSED) {
            place = (place >> FAMILY_BITS << FAMILY_BITS) | (uint32_t)bench_below(&m->random, 1 << FAMILY_BITS);
        }
        add_centre(m, place, row);
        double squares = 0;
        for (uint32_t d = 0; d < s->features; d++) {
            row[d] += noise * bench_uniform(&m->random);
            squares += (double)row[d] * (double)row[d];
        }
        float scale = (float)(1 / sqrt(squares));
        for (uint32_t d = 0; d < s->features; d++) {
            row[d] *= scale;
        }
    }
    xsm_labels l = {sizeof l, s->classes, 0, NULL, labels, NULL};
    xsm_dataset *data = NULL;
    xsm_error err = XSM_ERROR_INIT;
    papers_check(
        xsm_dataset_from_dense(
            p->context,
            &(xsm_dense_rows){
                .size = sizeof(xsm_dense_rows), .values = x, .rows = rows, .features = s->features, .labels = &l},
            &data, &err),
        &err);
    free(x);
    free(labels);
    return data;
}

data_pair adversarial_make(const papers *p, const char *title, const adversarial_sizes *s, uint64_t seed)
{
    maker m = maker_new(s, seed);
    data_pair data = {title, NULL, NULL, s->rows, s->test_rows, s->features, s->classes};
    data.train = make_rows(p, &m, s->rows, true);
    data.test = make_rows(p, &m, s->test_rows, false);
    free(m.vectors);
    free(m.cumulative);
    return data;
}
