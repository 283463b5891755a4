/* See ldgs.h. */
#include "ldgs.h"

#include <stdlib.h>
#include <string.h>

static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* Adds `size` times a direction that is nearly uniform to a vector, and scales it to length 1. */
static void add_direction(float *x, uint32_t d, double size, uint64_t seed)
{
    double noise[LDGS_FEATURES_MAX], square = 0, length = 0;
    for (uint32_t f = 0; f < d; f++) {
        double sum = -6; /* the sum of twelve numbers of 16 bits each is near enough to a normal distribution */
        for (int i = 0; i < 12; i += 4) {
            uint64_t bits = next(&seed);
            sum += (double)((bits & 65535) + (bits >> 16 & 65535) + (bits >> 32 & 65535) + (bits >> 48)) / 65536;
        }
        noise[f] = sum;
        square += sum * sum;
    }
    for (uint32_t f = 0; f < d; f++) {
        x[f] += (float)(size * noise[f] / sqrt(square));
        length += (double)x[f] * (double)x[f];
    }
    for (uint32_t f = 0; f < d; f++) {
        x[f] = (float)((double)x[f] / sqrt(length));
    }
}

void ldgs_direction(const ldgs_shape *s, uint32_t k, float *x)
{
    const double of_group = 0.36, of_family = 0.71;
    uint64_t seed = 2 * (uint64_t)k + 1;
    double own = sqrt(1 / of_group - 1);
    memset(x, 0, s->features * sizeof *x);
    if (s->families > 0) {
        uint64_t family = next(&seed) % s->families, of = 2 * family + 1;
        add_direction(x, s->features, 1, 1000003 * (next(&of) % s->groups));
        add_direction(x, s->features, sqrt(of_family / of_group - 1), family << 20 | 3);
        own = sqrt(1 / of_family - 1);
    } else {
        add_direction(x, s->features, 1, 1000003 * (next(&seed) % s->groups));
    }
    add_direction(x, s->features, own, (uint64_t)k << 20 | 1);
}

/* Adds the noise of image i to a direction, or to a mean of several. */
static void add_noise(const ldgs_shape *s, float *x, uint64_t seed, uint64_t i)
{
    add_direction(x, s->features, 0, 1); /* scales to length 1 */
    add_direction(x, s->features, s->noise, ((seed + s->images) << 40) + 7 * i + 3);
}

void ldgs_image(const ldgs_shape *s, uint32_t k, uint64_t seed, float *x)
{
    ldgs_direction(s, k, x);
    add_noise(s, x, seed, k);
}

xsm_dataset *ldgs_rows(const papers *p, const ldgs_shape *s, uint64_t each, uint64_t rows, uint64_t seed)
{
    xsm_error err = XSM_ERROR_INIT;
    const uint32_t d = s->features;
    rows = rows ? rows : each * s->classes;
    float *x = papers_memory((size_t)rows * d, sizeof *x);
    uint64_t *offsets = papers_memory((size_t)rows + 1, sizeof *offsets);
    uint32_t *labels = papers_memory((size_t)rows * s->most_labels, sizeof *labels);
    for (uint64_t i = 0; i < rows; i++) {
        uint64_t own = seed + i;
        uint32_t first = each ? (uint32_t)(i / each) : (uint32_t)(next(&own) % s->classes);
        uint32_t count = 1 + (uint32_t)(next(&own) % s->most_labels);
        for (uint32_t j = 0; j < count; j++) {
            labels[offsets[i] + j] = (first + j) % s->classes;
        }
        offsets[i + 1] = offsets[i] + count;
    }
#pragma omp parallel for schedule(static)
    for (uint64_t i = 0; i < rows; i++) {
        float one[LDGS_FEATURES_MAX], *row = x + i * d;
        for (uint64_t j = offsets[i]; j < offsets[i + 1]; j++) {
            ldgs_direction(s, labels[j], one);
            for (uint32_t f = 0; f < d; f++) {
                row[f] += one[f];
            }
        }
        add_noise(s, row, seed, i);
    }
    xsm_labels given = {sizeof given, s->classes, 0, offsets, labels, NULL};
    xsm_dataset *data = NULL;
    papers_check(xsm_dataset_from_dense(
                     p->context,
                     &(xsm_dense_rows){
                         .size = sizeof(xsm_dense_rows), .values = x, .rows = rows, .features = d, .labels = &given},
                     &data, &err),
                 &err);
    free(x);
    free(offsets);
    free(labels);
    return data;
}
