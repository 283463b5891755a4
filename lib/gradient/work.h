/*
 * Memory that an estimator reuses from batch to batch while it computes a gradient. It lies in the gradient, so that a
 * host can compute several gradients at a time with one estimator; optimizers do not read it.
 */
#ifndef XSMI_WORK_H
#define XSMI_WORK_H

#include "model/score.h"

#include <xsoftmax/ext/estimator.h>

/* The rows as input of the output layer. */
typedef struct xsmi_work_rows {
    const float *values; /* [examples] rows `stride` floats apart; NULL = those of the data */
    size_t stride;
    const uint64_t *offsets; /* [examples+1] sparse rows, NULL = dense */
    const uint32_t *index;
} xsmi_work_rows;

/* The draws that all examples of a batch share (estimator/shared.h). */
typedef struct xsmi_shared_draws {
    uint32_t *draws;        /* [count] */
    double *log_expected;   /* [count] */
    float *bias;            /* [count] */
    float *weights;         /* [pieces][count][XSMI_LANES] their weights, with the scales multiplied in */
    size_t front;           /* columns before those of the matrix, for labels */
    float *packed;          /* [blocks of examples][features][XSMI_LANES] the rows of the batch */
    float *scores;          /* [examples][stride of the matrix]; the column of a class is that of the matrix */
    unsigned char *scratch; /* [threads][scratch_each] */
    size_t scratch_each;
    unsigned char *memory; /* the memory of `weights` and the members after it, and of the matrix */
    size_t class_capacity, column_capacity, memory_capacity;
    const xsmi_weights *scored; /* the weights that score them */
} xsmi_shared_draws;

/* For a divided model: the weights of the classes that a batch lists, gathered from all processes
 * (estimator/gathered.h). */
typedef struct xsmi_gathered {
    bool used;         /* the batch's examples are scored with them */
    xsmi_weights rows; /* row s, with its bias and scale, is that of slot s; stored in `weights` */
    uint32_t
        *slots; /* [examples][width] the slots of the listed classes; if a batch shares classes, those of the labels */
    uint32_t *shared;                         /* [count] the slots of the classes that the batch shares */
    unsigned char *lists, *weights, *results; /* memory */
    size_t list_bytes, weight_bytes, result_bytes;
} xsmi_gathered;

/* For a divided model: the entries of this process's classes in a batch's lists. */
typedef struct xsmi_own_lists {
    uint32_t first, end; /* this process's classes once the arrays match the gradient's lists, before that 0 and 0 */
    uint32_t *counts;    /* [examples] */
    uint32_t *classes;   /* [examples][width] numbered from the first */
    uint32_t *entries;   /* [examples][width] their positions in the list, rising */
    size_t example_capacity, entry_capacity;
} xsmi_own_lists;

/* The result of some examples. */
typedef struct xsmi_outcome {
    double largest; /* max |g| ||(x,1)|| */
    bool finite;    /* all scores, coefficients and losses are finite */
} xsmi_outcome;

typedef struct xsmi_work {
    union {
        float *scores; /* [examples][width] of listed classes */
        float *sifted; /* of sifted gradients, once computed: the coefficients of the lists, which replace the scores */
    };
    float *linear;          /* [examples][width] the scores without the bias */
    double *log_expected;   /* [examples][width], with a sampler */
    uint32_t *draws;        /* [examples][width], with a sampler; of hierarchies, where the paths turn right */
    unsigned char *scratch; /* [threads][scratch_each] */
    size_t scratch_each, scratch_bytes;
    xsmi_work_rows rows;
    float *codes; /* [examples][code length] the sampler's codes of rows that came with the batch */
    bool coded;   /* `codes` are of this batch */
    size_t code_capacity;
    xsmi_shared_draws shared;
    xsmi_gathered gathered;
    xsmi_own_lists own;
    xsm_prefetch_queue *upcoming; /* memory of later steps, for tables to prefetch; or NULL */
    unsigned char *sieve;
    size_t sieve_bytes;
    xsmi_score_scratch score_scratch;
    float *shards; /* [threads][shards_each], for sums over all classes (gradient/shards.h) */
    size_t shards_each, shard_capacity;
    xsmi_outcome *outcomes; /* by job */
    size_t list_capacity, linear_capacity, draw_capacity, outcome_capacity;
} xsmi_work;

#endif
