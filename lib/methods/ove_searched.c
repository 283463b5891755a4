/*
 * One-vs-each, tightened by the classes that a search finds (Titsias, One-vs-Each Approximation to Softmax for Scalable
 * Estimation of Probabilities, 2016, eq. 6 with a C for each example): one softmax compares the label with the Q
 * classes S of the highest scores, and a logistic compares it with each of the others,
 *     loss = log(e^z_y + sum_{k in S} e^z_k) - z_y + R/m sum_{k drawn} log(1 + e^(z_k - z_y)),
 * where m of the R classes that are neither the label nor in S are drawn uniformly without replacement. Unbiased for
 * the bound of S, and for its gradient with S constant (eq. 6 is valid for every S). Classes that a search misses make
 * the bound looser, but never invalid; if all classes are found it is the softmax.
 */
#include "methods/method.h"
#include "base/order.h"
#include "methods/ove.h"

#include "base/random.h"
#include "methods/search_gradient.h"

#include <string.h>

typedef struct ove_searched_state {
    int64_t negatives_option, candidates_option, startup;
    uint32_t classes, negatives, candidates;
    uint64_t seed;
    const xsmi_kernels *kernels;
} ove_searched_state;

static const xsm_option options[] = {
    XSMI_OPTION_INT_OR(
        "negatives", ove_searched_state, negatives_option, xsmi_negatives_words, "0", 0, XSM_CLASSES_MAX,
        "other classes that a step scores, m, besides those found, or all of them; 0 = 5, or all if there are fewer"),
    XSMI_OPTION_INT(
        "candidates", ove_searched_state, candidates_option, "0", 0, XSM_CLASSES_MAX,
        "Q, classes that are searched for, and bounded by their softmax; 0 = 20, or all if there are fewer"),
    XSMI_OPTION_INT_OR("startup", ove_searched_state, startup, xsmi_startup_words, "auto", 0, 9e15,
                       "examples that see m + Q classes drawn at random, as 'ove' does, before the search begins; auto "
                       "= one pass where all weights are zero, else none"),
};

static xsm_status bind(void *state, const xsm_problem *problem, xsm_error *err)
{
    ove_searched_state *s = state;
    s->seed = problem->seed;
    s->kernels = xsmi_context_kernels(problem->context);
    s->classes = problem->classes;
    if (s->candidates_option > (int64_t)s->classes) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "estimator 'ove-searched': %lld candidates asked for, but there are %u classes",
                         (long long)s->candidates_option, s->classes);
    }
    uint32_t few = XSMI_MIN(s->classes, 20);
    s->candidates = s->candidates_option ? (uint32_t)s->candidates_option : few;
    /* A label among the candidates leaves K - Q classes outside. */
    XSMI_TRY(xsmi_negatives("ove-searched", s->negatives_option, s->classes - s->candidates + 1, &s->negatives, err));
    if (s->negatives_option < 0) {
        s->negatives = s->classes; /* all: more classes are outside if a search lists fewer than Q */
    }
    return XSM_OK;
}

static uint64_t width(const void *state)
{
    const ove_searched_state *s = state;
    uint64_t most = 1 + (uint64_t)s->candidates + s->negatives;
    return XSMI_MIN(most, s->classes);
}

static void plan(const void *state, xsm_search_plan *p)
{
    const ove_searched_state *s = state;
    p->blocks = 1;
    p->candidates = s->candidates;
    p->startup = s->startup < 0 ? XSM_SEARCH_STARTUP_AUTO : (uint64_t)s->startup;
}

static void search(void *state, const xsm_search_block *block)
{
    const ove_searched_state *s = state;
    for (uint64_t i = 0; i < block->count; i++) {
        const uint32_t *found = block->found + i * block->candidates;
        const float *score = block->found_score + i * block->candidates;
        uint32_t *of = block->classes + i * block->width, y = block->examples[i].labels[0], soft = 1;
        float *z = block->coefficients + i * block->width;
        of[0] = y;
        for (uint32_t j = 0; j < block->found_length[i]; j++) {
            if (found[j] != y) {
                of[soft] = found[j];
                z[soft++] = score[j];
            }
        }
        uint32_t outside = s->classes - soft, drawn = XSMI_MIN(s->negatives, outside);
        if (drawn > 0) {
            xsmi_stream stream;
            xsmi_stream_start(&stream, s->seed, XSMI_STREAM_NEGATIVES, block->examples[i].position);
            xsmi_stream_without(&stream, s->classes, of, soft, drawn, of + soft);
        }
        block->score(block, i, of, 1, z);
        block->score(block, i, of + soft, drawn, z + soft);
        block->lengths[i] = soft + drawn;
        block->losses[i] = xsmi_ove_gradient(z, soft, soft + drawn, outside, z);
    }
}

/* -- before the search --------------------------------------------------------------------------------------------- */

static void select(const void *state, const xsm_example *examples, uint64_t count, uint32_t *classes, uint32_t *lengths)
{
    const ove_searched_state *s = state;
    const uint64_t most = width(s);
    xsmi_select_others(s->kernels, &(xsmi_negative_lists){s->seed, s->classes, (uint32_t)(most - 1), most, examples,
                                                          count, classes, lengths});
}

static void gradient(void *state, const xsm_score_block *block)
{
    const ove_searched_state *s = state;
    for (uint64_t i = 0; i < block->count; i++) {
        size_t at = (size_t)(i * block->width);
        block->losses[i] =
            xsmi_ove_gradient(block->scores + at, 1, block->lengths[i], s->classes - 1, block->coefficients + at);
    }
}

const xsm_estimator_ops xsmi_ove_searched_ops = {
    XSMI_ESTIMATOR_OF(ove_searched_state),
    .kind = XSM_ESTIMATOR_SEARCHED,
    .name = "ove-searched",
    .summary = "one-vs-each bound, tightened by the classes that a search finds (Titsias 2016)",
    XSMI_ESTIMATOR_OPTIONS(options),
    .bind = bind,
    .width = width,
    .select = select,
    .gradient = gradient,
    .search_plan = plan,
    .search = search,
};
