/*
 * The labels of the last examples, and a share of all classes alike (mixed negative sampling: J. Yang et al., Mixed
 * negative sampling for learning two-tower neural networks in recommendations, 2020): with R labels kept, of which c_k
 * are k,
 *     q(k) = share c_k/R + (1 - share)/K,
 * and 1/K before the first label. Labels of the batch that is drawn for are not among them, so that nce, too, which
 * takes q for what it is told, learns from any order of the rows.
 */
#include "sampler/arrays.h"
#include "base/heap_sort.h"
#include "base/held.h"
#include "base/order.h"
#include "sampler/sampler.h"

#include <math.h>
#include <string.h>

typedef struct recent_state {
    double share;
    int64_t labels; /* R at most */
    xsm_context *context;
    xsmi_held held; /* the arrays */
    uint32_t classes;
    uint32_t *ring; /* [labels] */
    /* [classes] of each class in the ring. NULL of a sampler that was loaded, until it follows, as a file may claim any
     * number of classes; then the labels in the ring, rising. */
    uint32_t *counts;
    uint32_t *rising;
    uint64_t seen; /* labels so far: the next goes to seen % labels */
} recent_state;

static const xsm_option options[] = {
    XSMI_OPTION_DOUBLE("share", recent_state, share, "0.5", 0, 0.99,
                       "how many of the draws are of recent labels; the others are of all classes alike"),
    XSMI_OPTION_INT("labels", recent_state, labels, "10000", 1, 1e9, "how many labels are kept"),
};

static void unbind(void *state)
{
    recent_state *s = state;
    xsmi_held_release(&s->held);
    xsmi_release(s->context, s->counts, s->classes, sizeof *s->counts);
    s->ring = s->counts = s->rising = NULL;
}

/* Returns how many labels the ring has. */
static uint64_t kept(const recent_state *s)
{
    return XSMI_MIN(s->seen, (uint64_t)s->labels);
}

static void start(recent_state *s, const xsm_sampler_problem *problem)
{
    s->context = s->held.context = problem->context;
    s->classes = problem->classes;
    s->seen = 0;
    s->ring = xsmi_hold_zeros(&s->held, (size_t)s->labels, sizeof *s->ring);
}

/* Makes the array of counts of what the ring has. */
static xsm_status count_all(recent_state *s, xsm_error *err)
{
    s->counts = xsmi_allocate_zero(s->context, s->classes, sizeof *s->counts);
    if (!s->counts) {
        return xsmi_fail_memory(err, s->classes * (uint64_t)sizeof *s->counts, "recent labels");
    }
    for (uint64_t i = 0; i < kept(s); i++) {
        s->counts[s->ring[i]]++;
    }
    return XSM_OK;
}

static xsm_status bind(void *state, const xsm_sampler_problem *problem, xsm_error *err)
{
    recent_state *s = state;
    start(s, problem);
    XSMI_TRY(xsmi_held_check(&s->held, "recent labels", err));
    return count_all(s, err);
}

static uint32_t count_of(const recent_state *s, uint32_t class)
{
    if (s->counts) {
        return s->counts[class];
    }
    const size_t n = (size_t)kept(s);
    return (uint32_t)(xsmi_lower_bound(s->rising, n, class + 1) - xsmi_lower_bound(s->rising, n, class));
}

static xsm_status follow(void *state, const xsm_sampler_step *step, xsm_error *err)
{
    recent_state *s = state;
    XSMI_TRY(s->counts ? XSM_OK : count_all(s, err));
    for (uint64_t i = 0; i < step->label_count; i++) {
        uint32_t *place = &s->ring[s->seen % (uint64_t)s->labels];
        s->counts[*place] -= s->seen++ >= (uint64_t)s->labels;
        *place = step->labels[i];
        s->counts[*place]++;
    }
    return XSM_OK;
}

static double log_probability(const void *state, const float *code, uint32_t class)
{
    const recent_state *s = state;
    const uint64_t count = kept(s);
    const double share = count > 0 ? s->share : 0;
    (void)code;
    return log(share * count_of(s, class) / (double)XSMI_MAX(count, 1) + (1 - share) / s->classes);
}

static void draw(const void *state, const float *code, xsm_random *random, uint32_t count, uint32_t *classes,
                 double *log_probabilities)
{
    const recent_state *s = state;
    const uint64_t labels = kept(s);
    for (uint32_t j = 0; j < count; j++) {
        const bool recent = labels > 0 && xsmi_stream_uniform(&random->stream) < s->share;
        const uint64_t place = xsmi_stream_below(&random->stream, recent ? labels : s->classes);
        classes[j] = recent ? s->ring[place] : (uint32_t)place;
        log_probabilities[j] = log_probability(state, code, classes[j]);
    }
}

static xsm_status save(const void *state, xsm_array_writer *writer, xsm_error *err)
{
    const recent_state *s = state;
    const xsm_array ring = {sizeof ring, "labels", XSM_DTYPE_UINT32, 1, {(uint64_t)s->labels}, s->ring};
    const xsm_array seen = {sizeof seen, "labels_seen", XSM_DTYPE_UINT64, 1, {1}, &s->seen};
    XSMI_TRY(xsm_array_write(writer, &ring, err));
    return xsm_array_write(writer, &seen, err);
}

static xsm_status load(void *state, const xsm_sampler_problem *problem, const xsm_array_reader *reader, xsm_error *err)
{
    recent_state *s = state;
    xsm_array ring = XSM_ARRAY_INIT, seen = XSM_ARRAY_INIT;
    XSMI_TRY(xsm_array_read(reader, "labels", XSM_DTYPE_UINT32, 1, &ring, err));
    XSMI_TRY(xsm_array_read(reader, "labels_seen", XSM_DTYPE_UINT64, 1, &seen, err));
    bool good =
        ring.shape[0] == (uint64_t)s->labels && seen.shape[0] == 1 && *(const uint64_t *)seen.data < UINT64_MAX / 2;
    for (uint64_t i = 0; good && i < ring.shape[0]; i++) {
        good = ((const uint32_t *)ring.data)[i] < problem->classes;
    }
    if (!good) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: labels [%lld] and labels_seen [1] are needed, labels below %u",
                         reader->name, (long long)s->labels, problem->classes);
    }
    start(s, problem);
    s->rising = xsmi_hold(&s->held, (size_t)s->labels, sizeof *s->rising);
    XSMI_TRY(xsmi_held_check(&s->held, "recent labels", err));
    memcpy(s->ring, ring.data, (size_t)s->labels * sizeof *s->ring);
    memcpy(s->rising, ring.data, (size_t)s->labels * sizeof *s->rising);
    memcpy(&s->seen, seen.data, sizeof s->seen);
    xsmi_heap_sort(s->rising, (size_t)kept(s), sizeof *s->rising, xsmi_compare_u32);
    return XSM_OK;
}

const xsm_sampler_ops xsmi_recent_ops = {
    .size = sizeof(xsm_sampler_ops),
    .abi = XSM_EXT_ABI_VERSION,
    .name = "recent",
    .summary = "the labels of the last examples, and a share of all classes alike (Yang et al. 2020)",
    .state_size = sizeof(recent_state),
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .bind = bind,
    .unbind = unbind,
    .draw = draw,
    .log_probability = log_probability,
    .save = save,
    .load = load,
    .follow = follow,
};
