/*
 * Made-up data of the forms that Yen et al. 2018 train on, and what a step costs there.
 */
#ifndef PAPERS_LDGS_H
#define PAPERS_LDGS_H

#include "learn.h"

enum { LDGS_FEATURES_MAX = 128 };

/* Classes about the directions of some groups, rows about their class's direction, or the mean of its classes'; all of
 * length 1. Two classes of a group have the cosine 0.36, of a family in it 0.71, where there are families: as
 * look-alikes (doc/measurements/papers_decomposition_faces.md says where the figures come from). */
typedef struct ldgs_shape {
    uint32_t classes, groups, features;
    uint32_t most_labels; /* 1 to that many a row, evenly; the others are the next classes */
    double noise;         /* length of what is added to the direction */
    uint32_t families;    /* of all groups together, each in one; 0 = none */
    uint64_t images;      /* which of the images of the rows' classes: other ones by another number */
} ldgs_shape;

/* The direction of a class. */
void ldgs_direction(const ldgs_shape *s, uint32_t k, float *x);
/* An image of a class. */
void ldgs_image(const ldgs_shape *s, uint32_t k, uint64_t seed, float *x);
/* `rows` rows: `each` of one class after the other, 0 rows = of all of them; or of classes at random where `each` is 0.
 * The caller's. */
xsm_dataset *ldgs_rows(const papers *p, const ldgs_shape *s, uint64_t each, uint64_t rows, uint64_t seed);

/* Adds to a report what steps of 1 and 10 examples cost by the paper's methods, with Q = K/100 searched for or drawn,
 * weights as after training, a factor times the classes' directions, and the margin's options ("name=value,..."). Times
 * of the searching estimators have the upkeep of the indexes in them. (ldgs_time.c) */
void ldgs_time(const papers *p, report *r, const ldgs_shape *s, uint32_t blocks, const char *options);

/* What the learning of methods has in common. */
typedef struct ldgs_learning {
    report *table;
    const char *prefix;      /* of its rows */
    const char *curves_name; /* NAME-epochs and NAME-seconds: per cent right of the training rows */
    const xsm_dataset *train, *test;
    bool several;    /* labels a row */
    uint32_t hidden; /* as of a plan */
    bool bias;       /* the same */
    uint64_t epochs;
    const double *etas; /* to start with, falling as 1/(1 + epochs); the best after an epoch is taken */
    size_t eta_count;
} ldgs_learning;

void ldgs_learn(const papers *p, const ldgs_learning *l, const method *methods, size_t count);

#endif
