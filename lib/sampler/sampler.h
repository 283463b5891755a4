/*
 * Internals of samplers, for the estimators: a distribution given a row's code, and the class lists of sampled
 * estimators.
 */
#ifndef XSMI_SAMPLER_H
#define XSMI_SAMPLER_H

#include "base/base.h"
#include "base/counted.h"
#include "base/option.h"
#include "base/random.h"
#include "data/batch.h"
#include "data/schema.h"
#include "model/head.h"

#include <limits.h>
#include <stdatomic.h>

#include <xsoftmax/ext/sampler.h>

/* Options that every sampler has. */
typedef struct xsmi_sampler_common {
    int64_t seed;
} xsmi_sampler_common;

struct xsm_sampler {
    xsmi_holders holders;
    xsm_context *context;
    xsm_sampler_ops ops; /* a copy; members that the host's table lacks are NULL */
    void *state;
    xsmi_sampler_common common;
    bool bound;
    uint32_t classes, features; /* of the training rows */
    uint32_t code_length;
    atomic_uint users;   /* bound estimators that draw from it */
    xsmi_schema *schema; /* what the features of the training rows were (a reference), where it draws by them */
};

XSMI_COUNTED(sampler)

/* The opaque stream of the hosts' tables is the library's stream. */
struct xsm_random {
    xsmi_stream stream;
};

/* Returns the sampler's options with their values, which may be set while it is not bound. */
xsmi_option_group xsmi_sampler_options(const xsm_sampler *s);
/* Binds as xsm_sampler_bind(), for rows of `features` features: of hidden vectors, if it follows a training. */
xsm_status xsmi_sampler_bind(xsm_sampler *s, const xsm_dataset *train, uint32_t features, xsm_error *err);
/* Unbinds; options can be set again. */
void xsmi_sampler_unbind(xsm_sampler *s);
/* Makes a bound sampler of the same table, options and distribution; the table must have save() and load(). */
xsm_status xsmi_sampler_copy(const xsm_sampler *s, xsm_sampler **out, xsm_error *err);
/* Gives two samplers of the same table, options and data each other's distribution. */
void xsmi_sampler_exchange(xsm_sampler *a, xsm_sampler *b);
/* Compute the code, code_length floats, of a row without labels; and of a batch's i-th row. */
void xsmi_sampler_encode(const xsm_sampler *s, const xsmi_features *x, float *code);
void xsmi_sampler_encode_batch(const xsm_sampler *s, const xsm_batch *batch, size_t i, float *code);
/* The first row, of those that any thread tested, whose code (or other numbers made of it) is not finite; start it as
 * XSMI_CODE_FAULT, which is none. xsmi_code_check() returns an error that names the row. */
typedef atomic_ullong xsmi_code_fault;
#define XSMI_CODE_FAULT ULLONG_MAX
void xsmi_code_test(xsmi_code_fault *fault, const float *code, size_t length, uint64_t row);
xsm_status xsmi_code_check(const xsm_sampler *s, const xsmi_code_fault *fault, xsm_error *err);
/* Computes the codes of all rows, [rows][code_length], on the context's threads; refuses rows as xsmi_code_check()
 * does. */
xsm_status xsmi_sampler_encode_all(const xsm_sampler *s, xsm_context *ctx, const xsm_dataset *data, float *codes,
                                   xsm_error *err);

/* Refuses a bound sampler whose distribution does not depend on the row if it gives a class no probability. Only
 * classes with rows, by counts[], matter; counts NULL: all do. */
xsm_status xsmi_sampler_need_every(const xsm_sampler *s, const uint64_t *counts, xsm_error *err);
/* Makes the correction of scores that were learnt with a bound sampler's classes; *out is NULL if it is one constant.
 * Refuses a distribution that depends on the row, of a table without save() and load(); one that gives a class no
 * probability, whatever the row; and one that follows the training. */
xsm_status xsmi_sampler_correction(const xsm_sampler *s, xsmi_head **out, xsm_error *err);
/* Copies the tree of a bound sampler whose table has XSM_SAMPLER_TREE into an empty one. On failure call
 * xsmi_tree_clear(). */
xsm_status xsmi_sampler_tree(const xsm_sampler *s, xsmi_tree *tree, xsm_error *err);

/* A fault of a host's table: a class that does not exist or has no probability. The first that any thread met is
 * kept. */
typedef struct xsmi_draw_fault {
    atomic_int met; /* 1 while it is written, 2 afterwards */
    uint32_t class;
    double log_q;
} xsmi_draw_fault;

static inline bool xsmi_draw_is_faulty(const xsmi_draw_fault *f)
{
    return atomic_load_explicit(&f->met, memory_order_relaxed) != 0;
}

/* Returns an error that names the class, or XSM_OK without a fault. Call it when no thread draws any more. */
xsm_status xsmi_draw_check(const xsm_sampler *s, const xsmi_draw_fault *f, xsm_error *err);

/* How classes are drawn for an estimator. */
typedef struct xsmi_draw_rule {
    uint32_t count;           /* draws an example */
    bool exclude_labels;      /* leave labels out of the draws, drawing without replacement if the sampler can */
    bool label_probabilities; /* compute log_expected for the labels too */
    xsmi_draw_fault *fault;   /* gets the first fault; a list with a fault has only the labels */
} xsmi_draw_rule;

/* A request for the list of an example, and the list: the labels in their order, then the distinct other classes drawn.
 * For each slot the number of its draws and the logarithm of the expected number: count * q(k), or the probability to
 * be drawn without replacement. The sum over slots of f_k draws_k / expected_k has mean sum_k f_k, over all classes or,
 * with exclude_labels, over the classes other than the labels, whose own draws are then 0. Labels have log_expected if
 * it was requested or they were drawn, else 0. */
typedef struct xsmi_draw_list {
    const float *code;
    uint64_t position;
    const uint32_t *labels;
    uint32_t label_count;
    uint32_t *classes;    /* [label_count + count], results from here on */
    double *log_expected; /* likewise */
    uint32_t *draws;      /* likewise */
    uint32_t *length;     /* of the list */
} xsmi_draw_list;

/* Makes the lists of up to XSM_SAMPLER_ROWS examples, drawn together if the sampler can. */
void xsmi_sampler_lists(const xsm_sampler *s, const xsmi_draw_rule *rule, uint64_t seed, const xsmi_draw_list *lists,
                        uint32_t count);

/* Names for an option, ended by NULL. */
extern const char *const xsmi_sampler_names[];
/* The built-in samplers: a new one is its file and a line here. */
/* clang-format off */
#define XSMI_SAMPLERS(X) \
    X(xsmi_uniform_ops, "uniform") \
    X(xsmi_frequency_ops, "frequency") \
    X(xsmi_recent_ops, "recent") \
    X(xsmi_midx_ops, "midx") \
    X(xsmi_tree_ops, "tree") \
    X(xsmi_label_tree_ops, "label-tree")
/* clang-format on */
#define XSMI_DECLARE_SAMPLER(table, name) extern const xsm_sampler_ops table;
XSMI_SAMPLERS(XSMI_DECLARE_SAMPLER)

#endif
