/* Tests of the conformance suite for estimators: it accepts the built-in tables and finds each of many faults. */
#include "support.h"

#include <xsoftmax/ext/context.h>
#include <xsoftmax/ext/estimator.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    FINITE = XSM_ESTIMATOR_CHECK_FINITE,
    SLOPE = XSM_ESTIMATOR_CHECK_GRADIENT,
    ZERO = XSM_ESTIMATOR_CHECK_ZERO_SUM,
    ALL = FINITE | SLOPE | ZERO
};

/* What each promises. `vanilla` and `raman` are there to diverge; what `umax` reports is the loss after u was raised.
 */
static const struct promise {
    const char *name;
    uint32_t promises;
    const char *set[4];
} built_in[] = {
    {"softmax", ALL, {NULL}},
    {"bouchard", FINITE | SLOPE, {NULL}},
    {"margin", ALL, {NULL}},
    {"one-vs-all", FINITE | SLOPE, {NULL}},
    {"one-vs-all-sampled", FINITE | SLOPE, {NULL}},
    {"ove", ALL, {NULL}},
    {"ove", ALL, {"negatives=all"}},
    {"ove", ALL, {"tight=3"}},
    {"vanilla", SLOPE | ZERO, {NULL}},
    {"raman", SLOPE, {NULL}},
    {"umax", FINITE | ZERO, {NULL}},
    {"implicit", FINITE | ZERO, {NULL}},
    {"implicit", FINITE, {"ridge=0.1", "negatives=3"}},
    {"nce", FINITE | SLOPE, {NULL}},
    {"importance", ALL, {NULL}},
    {"sampled-softmax", ALL, {NULL}},
    {"sampled-softmax", ALL, {"sampler=frequency", "negatives=9"}},
    {"negative-sampling", FINITE | SLOPE, {NULL}},
    {"negative-sampling", FINITE | SLOPE, {"lambda=0.01", "sampler=frequency"}},
    {"negative-sampling", FINITE | SLOPE, {"sampler=tree"}},
    {"ove-sampled", ALL, {"sampler=frequency"}},
    {"ove-searched", ALL, {NULL}},
    {"ove-searched", ALL, {"startup=0", "negatives=3", "candidates=4"}},
    {"ove-searched", ALL, {"startup=0", "index=exact", "negatives=all"}},
    {"augment-reduce", FINITE | ZERO, {NULL}}, /* its loss is the bound at the row's own number, which moves, too */
    {"augment-reduce", ALL, {"forget=0"}},
    {"augment-reduce", ALL, {"forget=0", "negatives=all"}},
    {"hierarchical", FINITE | SLOPE, {NULL}},
    {"hierarchical", FINITE | SLOPE, {"tree=balanced"}},
    {"hierarchical", FINITE | SLOPE, {"tree=fitted"}},
};

static xsm_status check(const xsm_estimator_ops *ops, uint32_t promises, const char *const *set, xsm_error *err)
{
    xsm_estimator_check_options o = XSM_ESTIMATOR_CHECK_OPTIONS_INIT;
    o.promises = promises;
    o.set = set;
    return xsm_estimator_check(NULL, ops, &o, err);
}

TEST(built_in_estimators_pass)
{
    for (size_t i = 0; i < sizeof built_in / sizeof *built_in; i++) {
        assert_ok(check(xsm_estimator_find(built_in[i].name), built_in[i].promises, built_in[i].set, &err), err);
    }
    for (size_t i = 0; xsm_estimator_at(i); i++) { /* those that are not in the list promise nothing */
        size_t at = 0;
        while (at < sizeof built_in / sizeof *built_in && strcmp(built_in[at].name, xsm_estimator_at(i)->name) != 0) {
            at++;
        }
        if (at == sizeof built_in / sizeof *built_in) {
            assert_ok(check(xsm_estimator_at(i), 0, NULL, &err), err);
        }
    }
}

/* A promise that a table does not keep is found, that of finite numbers among them. */
TEST(broken_promises_are_found)
{
    assert_fails(check(xsm_estimator_find("vanilla"), FINITE, NULL, &err), XSM_ERROR_DATA, err);
    assert_non_null(strstr(err.message, "at scores up to"));
    assert_fails(check(xsm_estimator_find("one-vs-all"), ZERO, NULL, &err), XSM_ERROR_DATA, err);
    assert_fails(check(xsm_estimator_find("umax"), SLOPE, NULL, &err), XSM_ERROR_DATA, err);
}

/* -- faults -------------------------------------------------------------------------------------------------------- */

/* A logistic a class of the labels and up to `others` classes beside them. Right, but for the fault. */
typedef struct faulty {
    int64_t others;
    xsm_context *context;
    uint32_t classes;
    uint64_t seed, most_labels;
    double *by_row;
    uint64_t rows;
    uint32_t calls, binds;
} faulty;

enum {
    RIGHT,
    NO_LABEL,
    TWICE,
    BEYOND_LAST,
    TOO_LONG,
    LIST_OVERRUN,
    LIST_NEIGHBOURS,
    LIST_REMEMBERS,
    WRONG_SLOPE,
    WRONG_LOSS,
    NOT_FILLED,
    LOSS_NOT_FILLED,
    OVERFLOWS,
    PLACES_BEYOND,
    COEFFICIENT_OVERRUN,
    SCRATCH_ASSUMED,
    SCRATCH_OVERRUN,
    NEIGHBOURS_COUNT,
    MEAN_TAKEN,
    STATE_UNSAID,
    REBIND_DIFFERS,
    MEMORY_ASSUMED,
    BIND_LEAKS,
    BIND_WRONG_STATUS,
    BIND_HALF,
    NO_HELP,
    FAULTS
};
static int fault;

static void faulty_unbind(void *state)
{
    faulty *s = state;
    if (s->by_row) {
        xsm_context_release(s->context, s->by_row, s->rows * sizeof *s->by_row);
        s->by_row = NULL;
    }
}

static xsm_status faulty_bind(void *state, const xsm_problem *p, xsm_error *err)
{
    faulty *s = state;
    (void)err;
    s->context = p->context;
    s->classes = p->classes;
    s->seed = p->seed;
    s->most_labels = p->most_labels;
    s->rows = p->examples;
    s->binds++;
    void *meanwhile = xsm_context_allocate(p->context, 100);
    s->by_row = xsm_context_allocate(p->context, s->rows * sizeof *s->by_row);
    if (meanwhile && s->by_row && fault != BIND_LEAKS) {
        xsm_context_release(p->context, meanwhile, 100);
    }
    if (!meanwhile || !s->by_row) {
        if (fault != BIND_HALF) {
            xsm_context_release(p->context, meanwhile, 100);
        }
        return fault == BIND_WRONG_STATUS ? XSM_ERROR_LIMIT : XSM_ERROR_MEMORY;
    }
    for (uint64_t i = 0; i < s->rows && fault != MEMORY_ASSUMED; i++) {
        s->by_row[i] = 1;
    }
    return XSM_OK;
}

static uint64_t faulty_width(const void *state)
{
    const faulty *s = state;
    uint64_t most = s->most_labels + (uint64_t)s->others;
    return most < s->classes ? most : s->classes;
}

static void faulty_select(const void *state, const xsm_example *examples, uint64_t count, uint32_t *classes,
                          uint32_t *lengths)
{
    const faulty *s = state;
    uint64_t width = faulty_width(s);
    static uint32_t calls;
    for (uint64_t i = 0; i < count; i++) {
        const xsm_example *x = &examples[i];
        uint32_t *of = classes + i * width, length = 0;
        for (uint64_t l = fault == NO_LABEL && x->row == 40; l < x->label_count; l++) {
            of[length++] = x->labels[l];
        }
        uint64_t at = (x->position + s->seed) * UINT64_C(0x9e3779b97f4a7c15) >> 40;
        at += fault == LIST_NEIGHBOURS ? count : fault == LIST_REMEMBERS ? calls++ : 0;
        for (uint32_t j = 0; j < s->classes && length < x->label_count + (uint64_t)s->others && length < width; j++) {
            uint32_t k = (uint32_t)((at + 3 * j) % s->classes), before = 0;
            while (before < length && (of[before] != k || (fault == TWICE && j > 0))) {
                before++;
            }
            if (before == length) {
                of[length++] = fault == BEYOND_LAST && x->row == 33 ? s->classes : k;
            }
        }
        lengths[i] = fault == TOO_LONG && x->row == 20 ? (uint32_t)width + 1 : length;
    }
    if (fault == LIST_OVERRUN) {
        classes[count * width] = 0;
    }
}

static size_t faulty_scratch(const void *state)
{
    return faulty_width(state) * sizeof(double);
}

static void faulty_gradient(void *state, const xsm_score_block *b)
{
    faulty *s = state;
    double *terms = b->scratch, so_far = fault == SCRATCH_ASSUMED ? terms[0] : 0;
    for (uint64_t i = 0; i < b->count; i++) {
        const xsm_example *x = &b->examples[i];
        double loss = 0;
        uint32_t end = b->lengths[i];
        if (fault == PLACES_BEYOND && i + 1 < b->count) {
            end = (uint32_t)b->width;
        }
        double beyond = 0;
        for (uint32_t j = 0; j < end; j++) {
            double z = (double)b->scores[i * b->width + j], sign = j < x->label_count ? -1 : 1;
            double t = sign * z, p = 1 / (1 + exp(-t));
            terms[j] = fault == OVERFLOWS ? log(1 + exp(t)) : (t > 0 ? t : 0) + log1p(exp(-fabs(t)));
            if (j >= b->lengths[i]) {
                beyond += z;
                continue;
            }
            double c = sign * p * s->by_row[x->row];
            c += fault == WRONG_SLOPE && j == 1 ? 0.01 : 0;
            c += fault == NEIGHBOURS_COUNT ? 1e-3 * (double)b->count : 0;
            c /= fault == MEAN_TAKEN ? (double)b->batch * (1 + (double)i) : 1;
            loss += terms[j];
            if (fault != NOT_FILLED || j + 1 < b->lengths[i] || x->row != 50) {
                b->coefficients[i * b->width + j] = (float)c;
            }
        }
        b->coefficients[i * b->width] += (float)(1e-30 * so_far);
        b->coefficients[i * b->width] += beyond > 1e30 || beyond < -1e30 || isnan(beyond) ? 1.0f : 0.0f;
        if (fault == STATE_UNSAID) {
            s->by_row[x->row] *= 1.01;
        }
        if (fault == REBIND_DIFFERS && s->binds > 2) {
            b->coefficients[i * b->width] += 0.125f;
        }
        if (fault != LOSS_NOT_FILLED) {
            b->losses[i] = loss * s->by_row[x->row] * (fault == WRONG_LOSS ? 2 : 1);
        }
    }
    if (fault == COEFFICIENT_OVERRUN) {
        b->coefficients[b->count * b->width] = 0;
    }
    if (fault == SCRATCH_OVERRUN) {
        memset(terms, 0, faulty_scratch(s) + 64);
    }
}

TEST(faults_are_found)
{
    for (fault = RIGHT; fault < FAULTS; fault++) {
        xsm_option option = {sizeof(xsm_option), "others", XSM_OPTION_INT, offsetof(faulty, others), "4", 0, 100, NULL,
                             "classes"};
        xsm_estimator_ops ops = {
            .size = sizeof ops,
            .abi = XSM_EXT_ABI_VERSION,
            .flags = XSM_ESTIMATOR_MULTI_LABEL,
            .name = "faulty",
            .summary = "right but for the fault",
            .state_size = sizeof(faulty),
            .options = &option,
            .option_count = 1,
            .bind = faulty_bind,
            .unbind = faulty_unbind,
            .width = faulty_width,
            .select = faulty_select,
            .scratch = faulty_scratch,
            .gradient = faulty_gradient,
        };
        option.help = fault == NO_HELP ? "" : "classes";
        if (fault == RIGHT) {
            assert_ok(xsm_estimator_check(NULL, &ops, NULL, &err), err);
            continue;
        }
        xsm_status status = xsm_estimator_check(NULL, &ops, NULL, &err);
        if (status != XSM_ERROR_DATA) {
            fail_msg("fault %d: %s", fault, status == XSM_OK ? "not found" : err.message);
        }
        print_message("%d: %s\n", fault, err.message);
    }
    fault = RIGHT;
}

TEST(what_cannot_be_tried_is_refused)
{
    xsm_estimator_check_options o = XSM_ESTIMATOR_CHECK_OPTIONS_INIT;
    const xsm_estimator_ops *ops = xsm_estimator_find("ove");
    static const char *const unknown[] = {"nagatives=1", NULL}, *const many[] = {"negatives=20", NULL};
    assert_fails(xsm_estimator_check(NULL, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
    o.promises = 64;
    assert_fails(xsm_estimator_check(NULL, ops, &o, &err), XSM_ERROR_RANGE, err);
    o.promises = 0;
    o.eta = NAN;
    assert_fails(xsm_estimator_check(NULL, ops, &o, &err), XSM_ERROR_RANGE, err);
    o.eta = 0;
    o.set = unknown;
    assert_fails(xsm_estimator_check(NULL, ops, &o, &err), XSM_ERROR_NAME, err);
    o.set = many; /* more than there are in the largest problem */
    assert_fails(xsm_estimator_check(NULL, ops, &o, &err), XSM_ERROR_RANGE, err);
    o.classes = 30; /* but not in a larger one; the smaller are left out */
    assert_ok(xsm_estimator_check(NULL, ops, &o, &err), err);
    o.size = 1;
    assert_fails(xsm_estimator_check(NULL, ops, &o, &err), XSM_ERROR_STRUCT_OLD, err);
}
