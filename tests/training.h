/*
 * What the tests of estimators, optimizers and training share: small problems, contexts with runners of several kinds,
 * and weights in double.
 */
#ifndef XSM_TEST_TRAINING_H
#define XSM_TEST_TRAINING_H

#include "support.h"

#include <xsoftmax/estimator.h>
#include <xsoftmax/ext/estimator.h>
#include <xsoftmax/label_tree.h>
#include <xsoftmax/model.h>
#include <xsoftmax/optimizer.h>
#include <xsoftmax/predict.h>

#include "model/model.h"

/* A stream of numbers of the tests' own (splitmix64). */
uint64_t test_next(uint64_t *state);
/* Uniform in [0, 1). */
double test_uniform(uint64_t *state);

/* Who runs jobs: the built-in runner, a host's runner that takes them one after another from the last to the first, or
 * a host's runner with threads of its own. */
enum { TEST_BUILT_IN, TEST_REVERSED, TEST_PTHREADS };

/* A context with `threads` threads; `cpu_disable` as in xsm_context_options. */
xsm_context *test_context(uint32_t threads, int runner, uint32_t cpu_disable);

/* Rows with random features and one random label each. */
typedef struct test_problem {
    uint64_t rows;
    uint32_t features, classes;
    float *x;         /* [rows][features], zeros of sparse rows included */
    uint32_t *labels; /* [rows] */
    xsm_dataset *data;
} test_problem;
/* Compares the bytes of a model's file with those that were kept, or keeps them if there are none: *kept is NULL. */
void test_same_file(const xsm_model *m, unsigned char **kept, size_t *size);
/* Dense rows, or rows with about a fifth of the features. */
test_problem test_problem_new(uint64_t rows, uint32_t features, uint32_t classes, bool sparse, uint64_t seed);
/* The same rows with labels of the caller's (offsets as in xsm_labels). */
xsm_dataset *test_relabel(const test_problem *p, bool sparse, uint32_t classes, const uint64_t *offsets,
                          const uint32_t *labels);
/* Options of a label tree of many small nodes. */
xsm_label_tree_options test_small_trees(void);
/* The same rows with first labels of the caller's, XSM_CLASS_UNSEEN meaning none, and with `shift` above 0 a second
 * one, the problem's plus shift, for every third row. */
xsm_dataset *test_second_labels(const test_problem *p, bool sparse, uint32_t classes, const uint32_t *first,
                                uint32_t shift);
/* The problem of golden/optimum.py: 400 rows, 8 features, 12 classes. */
test_problem test_golden_problem(bool sparse);
/* Rows that say nothing but which of `contexts` contexts they are of, each with labels of its own distribution, and the
 * labels' shares, [contexts][classes]. */
test_problem test_context_problem(uint64_t rows, uint32_t contexts, uint32_t classes, double *share);
void test_problem_free(test_problem *p);

/* What a predictor finds for the rows of a batch; arrays may be NULL, as in xsm_prediction. */
xsm_status test_predict(xsm_predictor *predictor, const xsm_batch *batch, uint32_t *classes, float *scores,
                        double *probabilities, xsm_error *err);

/* A linear model for a problem, filled with random weights up to `size` (0 = zeros). */
xsm_model *test_model(xsm_context *ctx, const test_problem *p, bool bias, int32_t layout, double size, uint64_t seed);
/* A weight or bias as the model means it, scales multiplied in. */
double test_weight(const xsm_model *m, uint32_t class, uint32_t feature);
double test_bias(const xsm_model *m, uint32_t class);
/* w_k . x + b_k in double. */
double test_score(const xsm_model *m, uint32_t class, const float *x);
/* Scores of all classes of all rows, [rows][classes]. */
void test_all_scores(const xsm_model *m, const xsm_dataset *data, float *scores);

/* Corrects a model's scores as training with a sampler does (XSM_CORRECTION_TREE, or by frequency
 * XSM_CORRECTION_CLASSES) or by pairs of labels, or gives it a tree of unequal depths (XSM_CORRECTION_HIERARCHY);
 * XSM_CORRECTION_NONE: neither. */
void test_correct(xsm_model *m, const test_problem *p, int32_t kind);
/* Loads a model whose correction is an XSM_CORRECTION_* value; none: the file is to be refused. */
void test_load_corrected(xsm_context *context, const char *path, int32_t kind);
/* A hash of all weights' bits, scales multiplied in (the model is changed as by xsm_model_get_parameters()). */
uint64_t test_hash(xsm_model *m);
/* The same with an embedding model's vectors. */
uint64_t test_hash_embedding(xsm_model *m);

/* An estimator with options "key=value key=value". */
xsm_estimator *test_estimator(xsm_context *ctx, const char *name, const char *options);
/* Options with which an estimator's loss is smooth at the points tried; "" for all others. An estimator that is not
 * listed must stand the test with its defaults. */
const char *test_smooth_options(const char *name);
xsm_gradient *test_gradient(xsm_context *ctx);
xsm_optimizer *test_optimizer(xsm_context *ctx, xsm_model *m);
/* What a host's loop does with a batch: the gradient, into `g`, and the step. */
void test_take_step(xsm_estimator *e, xsm_optimizer *o, xsm_gradient *g, const xsm_batch *batch, double eta);
xsm_gradient_view test_view(const xsm_gradient *g);
/* Asks an estimator's table for one example's loss and its coefficients g[length], as the library does: `classes` as
 * select() lists them, z the scores of all classes, no bias. */
double test_ask(xsm_estimator *e, const xsm_example *example, uint32_t length, const uint32_t *classes, const float *z,
                double eta, float *g);

/* The steps of a run for test_every_allocation(), of `rows` rows each from the first on; `hidden` 0: a linear model. */
typedef struct test_steps {
    const test_problem *p;
    const char *estimator, *options, *optimizer;
    uint64_t steps, rows;
    double eta;
    uint32_t hidden;
    int32_t bias, layout;
} test_steps;
/* Makes model, estimator, optimizer and gradient, binds them, and takes the steps; `state` is a test_steps. */
xsm_status test_run_steps(void *state, xsm_context *ctx, xsm_error *err);

/* An estimator bound to a class-major model and rows with 1 to `most` labels each: neighbouring classes from a random
 * one on, falling. */
typedef struct test_rig {
    test_problem p;
    xsm_dataset *data;
    uint64_t *offsets; /* of the labels, as in xsm_labels */
    uint32_t *labels;
    xsm_model *m;
    xsm_estimator *e;
    xsm_gradient *g;
} test_rig;
test_rig test_rig_new(const char *name, const char *options, uint64_t rows, uint32_t features, uint32_t classes,
                      uint32_t most, bool sparse, bool bias, double size);
void test_rig_free(test_rig *r);

#endif
