/*
 * Generated rows in the shape of the data that adversarial negative sampling was evaluated on.
 */
#ifndef SHAPE_ADVERSARIAL_H
#define SHAPE_ADVERSARIAL_H

#include "learn.h"

typedef struct adversarial_sizes {
    uint64_t rows, test_rows;
    uint32_t features, classes;
    double exponent; /* exponent of the classes' Zipf distribution; 0 = all equally likely, and each has a row if there
                        are enough rows */
} adversarial_sizes;

/* Dense rows of length about 1. The same sizes and seed give the same rows. */
data_pair adversarial_make(const papers *p, const char *title, const adversarial_sizes *s, uint64_t seed);

#endif
