/*
 * Generated data in the forms that Yen et al. 2018 train on, and the cost of a step on it.
 */
#ifndef PAPERS_LDGS_H
#define PAPERS_LDGS_H

#include "learn.h"

enum { LDGS_FEATURES_MAX = 128 };

/* Classes are near the directions of groups, and rows near their class's direction, or near the mean of the directions
 * of their classes; all have length 1. Two classes of a group have the cosine 0.36; two of a family in the group, if
 * there are families, 0.71, like look-alikes (doc/measurements/papers_decomposition_faces.md gives the source of these
 * numbers). */
typedef struct ldgs_shape {
    uint32_t classes, groups, features;
    uint32_t most_labels; /* 1 to that many per row, uniformly; the others are the next classes */
    double noise;         /* length of the noise that is added to the direction */
    uint32_t families;    /* families in all groups together, each within one group; 0 = none */
    uint64_t images;      /* selects the images of the rows' classes: another number gives other images */
} ldgs_shape;

/* The direction of a class. */
void ldgs_direction(const ldgs_shape *s, uint32_t k, float *x);
/* An image of a class. */
void ldgs_image(const ldgs_shape *s, uint32_t k, uint64_t seed, float *x);
/* Makes `rows` rows: `each` of one class after the other, 0 rows = of all classes; or of random classes if `each` is 0.
 * The caller frees them. */
xsm_dataset *ldgs_rows(const papers *p, const ldgs_shape *s, uint64_t each, uint64_t rows, uint64_t seed);

/* Adds to a report the cost of steps of 1 and 10 examples by the paper's methods, with Q = K/100 searched or drawn
 * classes, weights as after training (a factor times the classes' directions), and the margin's options
 * ("name=value,..."). Times of the searching estimators include the upkeep of the indexes. (ldgs_time.c) */
void ldgs_time(const papers *p, report *r, const ldgs_shape *s, uint32_t blocks, const char *options);

/* A way to retrieve classes: its title, and the options of `mips` or `decomp-mips` ("name=value,..."). */
typedef struct ldgs_way {
    const char *title, *estimator, *options;
} ldgs_way;

/* Adds to a report what ways of retrieving classes find for the cross-entropy of one model: by how much log Z is too
 * small, the classes that are listed, and the time of a step of ten rows with the upkeep of the indexes. Rows of the
 * table begin with `prefix`. (ldgs_retrieval.c) */
void ldgs_retrieve(const papers *p, report *r, const char *prefix, xsm_model *model, const xsm_dataset *rows,
                   const ldgs_way *ways, size_t count);

/* Settings shared by the learning of all methods. */
typedef struct ldgs_learning {
    report *table;
    const char *prefix;      /* of its rows */
    const char *curves_name; /* NAME-epochs and NAME-seconds: percentage of training rows that are right */
    const xsm_dataset *train, *test;
    bool several;    /* several labels per row */
    uint32_t hidden; /* as in `plan` */
    bool bias;       /* as in `plan` */
    uint64_t epochs;
} ldgs_learning;

void ldgs_learn(const papers *p, const ldgs_learning *l, const method *methods, size_t count);

#endif
