/*
 * One-vs-each (Titsias, One-vs-Each Approximation to Softmax for Scalable Estimation of Probabilities, 2016).
 *
 * Eq. 4 is the bound log p(y|x) >= sum_{m != y} log sigma(z_y - z_m). Eq. 6 is tighter: for any set C of classes,
 *     log p(y|x) >= log softmax_y(z_y, z_C) + sum_{m not in C, m != y} log sigma(z_y - z_m).
 * With all classes in C it is the softmax itself, with an empty C it is eq. 4. The sum over the R classes outside of C
 * and y is computed in full or (eq. 15) estimated from m of them drawn uniformly without replacement, with the weight
 * R/m, which is unbiased for the bound and its gradient:
 *     g_k = p_k - [k = y] over C and y,   g_k = R/m sigma(z_k - z_y) outside; their sum is subtracted from g_y.
 */
#include "methods/method.h"
#include "methods/ove.h"

#include "base/heap_sort.h"
#include "base/order.h"
#include "base/random.h"
#include "math/omega.h"

#include <math.h>
#include <string.h>

typedef struct ove_state {
    int64_t negatives_option, tight_option;
    xsm_class_list tight_list;
    xsm_context *context;
    uint32_t *inside; /* [inside_count] C, rising */
    uint32_t inside_count;
    uint32_t classes, negatives;
    uint64_t seed;
    bool all; /* all other classes are used: nothing is drawn */
} ove_state;

static const char *const all_word[] = {"all", NULL};

static const xsm_option options[] = {
    XSMI_OPTION_INT_OR("negatives", ove_state, negatives_option, xsmi_negatives_words, "0", 0, XSM_CLASSES_MAX,
                       "other classes that a step scores, m, besides those of 'tight'; all makes the estimator "
                       "exact; 0 = 5, or all if there are fewer"),
    XSMI_OPTION_INT_OR("tight", ove_state, tight_option, all_word, "0", 0, XSM_CLASSES_MAX,
                       "so many of the most frequent classes are always scored, and bounded by their softmax; all "
                       "is the softmax itself"),
    XSMI_OPTION_CLASSES(
        "tight-classes", ove_state, tight_list,
        "the classes that 'tight' uses in place of the most frequent: their numbers, from 0, with commas"),
};

/* -- the set C ----------------------------------------------------------------------------------------------------- */

typedef struct frequency {
    uint64_t rows;
    uint32_t class;
} frequency;

/* Compares by falling number of rows, then by class. */
static int compare_frequencies(const void *a, const void *b)
{
    const frequency *x = a, *y = b;
    return x->rows != y->rows ? XSMI_COMPARE(y->rows, x->rows) : XSMI_COMPARE(x->class, y->class);
}

static xsm_status list_frequent(ove_state *s, const xsm_problem *problem, xsm_error *err)
{
    frequency *order;
    XSMI_TRY(xsmi_array_new(s->context, &order, s->classes, sizeof *order, "the classes by frequency", err));
    for (uint32_t k = 0; k < s->classes; k++) {
        order[k] = (frequency){problem->class_counts[k], k};
    }
    const bool whole = xsmi_heap_sort_polled(s->context, order, s->classes, sizeof *order, compare_frequencies);
    for (uint32_t j = 0; j < s->inside_count; j++) {
        s->inside[j] = order[j].class;
    }
    xsmi_release(s->context, order, s->classes, sizeof *order);
    return whole ? XSM_OK : xsmi_fail_cancelled(s->context, err);
}

static xsm_status choose_inside(ove_state *s, const xsm_problem *problem, xsm_error *err)
{
    if (s->tight_list.count > 0 && s->tight_option != 0) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "estimator 'ove': 'tight' and 'tight-classes' say the same; one is enough");
    }
    int64_t count = s->tight_list.count > 0 ? (int64_t)s->tight_list.count : s->tight_option;
    count = count < 0 ? (int64_t)s->classes : count;
    if (count > (int64_t)s->classes) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "estimator 'ove': tight=%lld, but there are only %u classes",
                         (long long)count, s->classes);
    }
    for (uint32_t j = 0; j < s->tight_list.count; j++) {
        if (s->tight_list.classes[j] >= s->classes) {
            return xsmi_fail(err, XSM_ERROR_RANGE,
                             "estimator 'ove': class %u of 'tight-classes' is not there; there are %u classes, from 0",
                             s->tight_list.classes[j], s->classes);
        }
    }
    XSMI_TRY(xsmi_array_new(s->context, &s->inside, (size_t)count, sizeof *s->inside, "the classes of a tighter bound",
                            err));
    s->inside_count = (uint32_t)count;
    if (s->tight_list.count > 0) {
        memcpy(s->inside, s->tight_list.classes, s->inside_count * sizeof *s->inside);
    } else if (count > 0) {
        XSMI_TRY(list_frequent(s, problem, err));
    }
    return xsmi_heap_sort_polled(s->context, s->inside, s->inside_count, sizeof *s->inside, xsmi_compare_u32)
               ? XSM_OK
               : xsmi_fail_cancelled(s->context, err);
}

/* Returns the number of classes of C below k. */
static uint32_t inside_below(const ove_state *s, uint32_t k)
{
    return (uint32_t)xsmi_lower_bound(s->inside, s->inside_count, k);
}

static bool is_inside(const ove_state *s, uint32_t k)
{
    uint32_t position = inside_below(s, k);
    return position < s->inside_count && s->inside[position] == k;
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

static void unbind(void *state)
{
    ove_state *s = state;
    if (s->inside) {
        xsmi_release(s->context, s->inside, s->inside_count, sizeof *s->inside);
        s->inside = NULL;
    }
    s->inside_count = 0;
}

static xsm_status bind(void *state, const xsm_problem *problem, xsm_error *err)
{
    ove_state *s = state;
    s->context = problem->context;
    s->seed = problem->seed;
    s->classes = problem->classes;
    XSMI_TRY(choose_inside(s, problem, err));
    /* A label in C leaves K - |C| classes outside, another label one less; with an empty C every label is outside. */
    uint32_t outside = s->classes - (s->inside_count ? s->inside_count : 1);
    XSMI_TRY(xsmi_negatives("ove", s->negatives_option, outside + 1, &s->negatives, err));
    s->all = s->negatives == outside;
    return XSM_OK;
}

static int32_t exact(const void *state)
{
    return ((const ove_state *)state)->all;
}

/* -- sampled ------------------------------------------------------------------------------------------------------- */

static uint64_t width(const void *state)
{
    const ove_state *s = state;
    uint64_t most = 1 + (uint64_t)s->inside_count + s->negatives;
    return XSMI_MIN(most, s->classes);
}

/* Lists the label, the others of C, and the drawn classes. */
static void select(const void *state, const xsm_example *examples, uint64_t count, uint32_t *classes, uint32_t *lengths)
{
    const ove_state *s = state;
    size_t each = (size_t)width(s);
    for (uint64_t i = 0; i < count; i++) {
        uint32_t *of = classes + i * each, y = examples[i].labels[0], length = 0;
        uint32_t below = inside_below(s, y);
        bool inside = below < s->inside_count && s->inside[below] == y;
        uint32_t outside = s->classes - s->inside_count, others = outside - !inside;
        uint32_t drawn = XSMI_MIN(s->negatives, others);
        of[length++] = y;
        for (uint32_t j = 0; j < s->inside_count; j++) {
            if (s->inside[j] != y) {
                of[length++] = s->inside[j];
            }
        }
        if (drawn > 0) {
            /* Draws ranks among the classes outside of C; the label has a rank unless it is in C. */
            xsmi_stream stream;
            xsmi_stream_start(&stream, s->seed, XSMI_STREAM_NEGATIVES, examples[i].position);
            xsmi_stream_others(&stream, others + 1, inside ? outside : y - below, drawn, of + length);
        }
        for (uint32_t j = 0; j < drawn; j++) {
            of[length + j] = xsmi_other_number(s->inside, s->inside_count, of[length + j]);
        }
        lengths[i] = length + drawn;
    }
}

double xsmi_ove_gradient(const float *z, uint32_t soft, uint32_t length, uint32_t outside, float *g)
{
    uint32_t drawn = length - soft;
    double weight = drawn ? (double)outside / drawn : 0, own = (double)z[0], most = own, sum = 0;
    for (uint32_t j = 1; j < soft; j++) {
        most = (double)z[j] > most ? (double)z[j] : most;
    }
    for (uint32_t j = 0; j < soft; j++) {
        sum += exp((double)z[j] - most);
    }
    /* If C is empty the softmax is over the label alone, and exactly 1. */
    double loss = soft > 1 ? most + log(sum) - own : 0, out = 0;
    xsmi_softplus_sum softplus = XSMI_SOFTPLUS_SUM_INIT;
    for (uint32_t j = soft; j < length; j++) {
        double c = weight * xsmi_softplus_add(&softplus, (double)z[j] - own);
        out += c;
        g[j] = (float)c;
    }
    for (uint32_t j = 0; j < soft; j++) {
        g[j] = (float)(exp((double)z[j] - most) / sum - (j == 0) - (j == 0 ? out : 0));
    }
    return loss + weight * xsmi_softplus_total(&softplus);
}

/* -- all classes --------------------------------------------------------------------------------------------------- */

/* Returns the sum of e^(z_k - most) over C, by class runs (XSMI_RUN_CLASSES). */
static double sum_inside(const ove_state *s, const float *z, double most)
{
    double sum = 0, part = 0;
    for (uint32_t j = 0; j < s->inside_count; j++) {
        if (j > 0 && s->inside[j] / XSMI_RUN_CLASSES != s->inside[j - 1] / XSMI_RUN_CLASSES) {
            sum += part;
            part = 0;
        }
        part += exp((double)z[s->inside[j]] - most);
    }
    return sum + part;
}

/* The gradient of the classes other than y, summed by class runs (XSMI_RUN_CLASSES). */
typedef struct full_sums {
    double own;       /* z_y */
    uint32_t y, next; /* the next class of C, by its position in `inside` */
    double loss, out; /* over the classes outside of C: the sums of terms, and of coefficients */
} full_sums;

/* Adds the classes first..end, whose scores and coefficients are z and g. Classes of C keep their scores in g. */
static void add_run(const ove_state *s, full_sums *o, uint32_t first, uint32_t end, const float *z, float *g)
{
    xsmi_softplus_sum softplus = XSMI_SOFTPLUS_SUM_INIT;
    double out = 0;
    for (uint32_t k = first; k < end; k++) {
        if (o->next < s->inside_count && s->inside[o->next] == k) {
            o->next++;
            g[k - first] = z[k - first];
        } else if (k != o->y) {
            double c = xsmi_softplus_add(&softplus, (double)z[k - first] - o->own);
            out += c;
            g[k - first] = (float)c;
        }
    }
    o->loss += xsmi_softplus_total(&softplus);
    o->out += out;
}

/* Sums over all classes for an example. */
typedef struct whole {
    double own, most; /* z_y; the largest score of C and y */
    double sum;       /* of e^(z_k - most) over C and y */
    double loss, out; /* as those of full_sums */
} whole;

/* Adds y to the sum over C unless it is in C; returns e^(z_y - most). */
static double add_own(whole *w, bool inside)
{
    const double rest = exp(w->own - w->most);
    w->sum += inside ? 0 : rest;
    return rest;
}

/* Computes the coefficients of y and of the classes of C among first..end, whose scores are in g. Returns the loss. */
static double finish(const ove_state *s, const xsm_example *example, whole *w, uint32_t first, uint32_t end, float *g)
{
    const uint32_t y = example->labels[0];
    const double rest = add_own(w, is_inside(s, y));
    for (uint32_t j = inside_below(s, first); j < s->inside_count && s->inside[j] < end; j++) {
        float *of = g + (s->inside[j] - first);
        *of = (float)(exp((double)*of - w->most) / w->sum);
    }
    if (y >= first && y < end) {
        g[y - first] = (float)(rest / w->sum - 1 - w->out);
    }
    return (s->inside_count > 0 ? w->most + log(w->sum) - w->own : 0) + w->loss;
}

/* Computes loss and gradient over all classes; g may be z. */
static double full_gradient(const ove_state *s, const xsm_example *example, const float *z, float *g)
{
    const uint32_t y = example->labels[0];
    whole w = {.own = (double)z[y], .most = (double)z[y]};
    for (uint32_t j = 0; j < s->inside_count; j++) {
        w.most = (double)z[s->inside[j]] > w.most ? (double)z[s->inside[j]] : w.most;
    }
    w.sum = sum_inside(s, z, w.most);
    full_sums o = {w.own, y, 0, 0, 0};
    for (uint32_t first = 0; first < s->classes;) {
        const uint32_t end = XSMI_MIN(s->classes - first, XSMI_RUN_CLASSES) + first;
        add_run(s, &o, first, end, z + first, g + first);
        first = end;
    }
    w.loss = o.loss;
    w.out = o.out;
    return finish(s, example, &w, 0, s->classes, g);
}

/* Sums over some of the classes: of e^(z - most) over C, and the `loss` and `out` of full_sums. */
enum { SUM_INSIDE, SUM_LOSS, SUM_OUT, SUMS };

static void part_most(const void *state, const xsm_class_block *block)
{
    const ove_state *s = state;
    for (uint64_t i = 0; i < block->count; i++) {
        const float *z = block->coefficients + i * block->width;
        float most = block->label_scores[i][0];
        for (uint32_t j = inside_below(s, block->first);
             j < s->inside_count && s->inside[j] - block->first < block->width; j++) {
            const float score = z[s->inside[j] - block->first];
            most = score > most ? score : most;
        }
        block->most[i] = most;
    }
}

static void part_sums(const void *state, const xsm_class_block *block)
{
    const ove_state *s = state;
    double *sum = block->sums;
    for (uint64_t i = 0; i < block->count; i++) {
        float *g = block->coefficients + i * block->width;
        for (uint64_t run = 0; run < block->width; run += XSM_CLASS_RUN, sum += SUMS) {
            const uint32_t first = block->first + (uint32_t)run;
            const uint32_t end = first + (uint32_t)XSMI_MIN(block->width - run, XSM_CLASS_RUN);
            const uint32_t below = inside_below(s, first);
            full_sums o = {(double)block->label_scores[i][0], block->examples[i].labels[0], below, 0, 0};
            double part = 0;
            for (uint32_t j = below; j < s->inside_count && s->inside[j] < end; j++) {
                part += exp((double)g[s->inside[j] - block->first] - (double)block->most[i]);
            }
            add_run(s, &o, first, end, g + run, g + run);
            sum[SUM_INSIDE] = part;
            sum[SUM_LOSS] = o.loss;
            sum[SUM_OUT] = o.out;
        }
    }
}

static void part_gradient(const void *state, const xsm_class_block *block)
{
    const ove_state *s = state;
    for (uint64_t i = 0; i < block->count; i++) {
        const double *sum = block->sums + i * SUMS;
        whole w = {(double)block->label_scores[i][0], (double)block->most[i], sum[SUM_INSIDE], sum[SUM_LOSS],
                   sum[SUM_OUT]};
        block->losses[i] = finish(s, &block->examples[i], &w, block->first, block->first + (uint32_t)block->width,
                                  block->coefficients + i * block->width);
    }
}

static const xsm_class_sums class_sums = {
    .size = sizeof class_sums,
    .count = SUMS,
    .most = part_most,
    .sums = part_sums,
    .gradient = part_gradient,
};

static void gradient(void *state, const xsm_score_block *block)
{
    const ove_state *s = state;
    for (uint64_t i = 0; i < block->count; i++) {
        const float *z = block->scores + i * block->width;
        float *g = block->coefficients + i * block->width;
        uint32_t y = block->examples[i].labels[0];
        uint32_t soft = 1 + s->inside_count - is_inside(s, y); /* entries of the softmax, the label's first */
        block->losses[i] = block->lengths ? xsmi_ove_gradient(z, soft, block->lengths[i], s->classes - soft, g)
                                          : full_gradient(s, &block->examples[i], z, g);
    }
}

const xsm_estimator_ops xsmi_ove_ops = {
    XSMI_ESTIMATOR_OF(ove_state),
    .name = "ove",
    .summary = "one-vs-each bound on sampled or all classes, or tighter with some always in (Titsias 2016)",
    XSMI_ESTIMATOR_OPTIONS(options),
    .bind = bind,
    .unbind = unbind,
    .width = width,
    .select = select,
    .gradient = gradient,
    .exact = exact,
    .class_sums = &class_sums,
};
