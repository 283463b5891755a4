/*
 * Tests of the conformance suite for samplers: it accepts the built-in tables, with their options, and finds each of
 * many faults. Also the tail of the chi-square distribution, which the suite uses.
 */
#include "support.h"

#include "check/chi_square.h"
#include "sampler/sampler.h"

#include "golden/chi_square_golden.h"

#include <math.h>
#include <string.h>

#include <xsoftmax/ext/context.h>

TEST(tails_are_golden)
{
    for (size_t i = 0; i < sizeof golden_tails / sizeof *golden_tails; i++) {
        double want = golden_tails[i].tail, have = xsmi_chi_square_tail(golden_tails[i].x, golden_tails[i].freedom);
        if (!(fabs(have - want) <= 1e-11 * want)) {
            fail_msg("%g with %u degrees: %.17g, not %.17g", golden_tails[i].x, golden_tails[i].freedom, have, want);
        }
    }
}

TEST(built_in_samplers_pass)
{
    static const char *const sets[][4] = {
        {NULL},
        {"power=0.75", "smoothing=0", NULL},
        {"components=2", "ridge=1", NULL},
        {"scaling=covariance", "whiten=no", NULL},
        {"leaf=4", "share=0.05", NULL},
        {"clusters=1", "leaf=2", NULL},
        {"clusters=64", "leaf=7", "power=0", NULL},
        {"labels=7", "share=0.9", NULL},
        {"words=3", "every=7", NULL},
    };
    static const char *const of[] = {NULL,         "frequency",  "tree",   "tree", "label-tree",
                                     "label-tree", "label-tree", "recent", "midx"};
    for (size_t i = 0; xsm_sampler_at(i); i++) {
        const xsm_sampler_ops *ops = xsm_sampler_at(i);
        for (size_t set = 0; set < sizeof sets / sizeof *sets; set++) {
            if (of[set] && strcmp(of[set], ops->name) != 0) {
                continue;
            }
            assert_ok(xsm_sampler_check(NULL, ops, STRUCT(xsm_sampler_check_options, .set = sets[set]), &err), err);
        }
    }
    xsm_sampler_check_options more = XSM_SAMPLER_CHECK_OPTIONS_INIT;
    more.classes = 300;
    more.features = 20;
    assert_ok(xsm_sampler_check(NULL, xsm_sampler_find("tree"), &more, &err), err);
    assert_ok(xsm_sampler_check(NULL, xsm_sampler_find("label-tree"), &more, &err), err);
}

/* -- faults -------------------------------------------------------------------------------------------------------- */

/* A sampler whose distribution depends on the sign of the row's first feature: class 0 or class K-1 has half of the
 * probability, the others share the rest. Right, but for the fault. */
typedef struct faulty {
    int64_t of_options; /* an option, so that there is one */
    xsm_context *context;
    uint32_t classes;
    float *table; /* something to allocate */
    uint32_t bound;
} faulty;

enum {
    RIGHT,
    DRAW_BIASED,
    DRAW_REPEATS,
    DRAW_SAYS_WRONG,
    DRAW_BEYOND,
    DRAW_OVERRUNS,
    DRAW_REMEMBERS,
    DRAW_NO_STREAM,
    SUM_NOT_ONE,
    POSITIVE_LOG,
    NOT_A_NUMBER,
    MANY_DIFFER,
    SWEEP_DIFFERS,
    SWEEP_LANES,
    ENCODE_OVERRUNS,
    ENCODE_SHORT,
    ENCODE_INFINITE,
    LENGTH_CHANGES,
    ROWS_DIFFER,
    ROWS_OVERRUN,
    OTHERS_EXCLUDED,
    OTHERS_TWICE,
    OTHERS_UNEVEN,
    OTHERS_SAY_WRONG,
    BIND_LEAKS,
    BIND_HALF,
    BIND_WRONG_STATUS,
    BIND_COUNTS,
    JUNK_MATTERS,
    SAVE_SHORT,
    LOAD_DIFFERS,
    LOAD_CARELESS,
    LOAD_LEAKS,
    TREE_NOT_SAVED,
    FAULTS
};
static int fault;
static uint32_t remembered;

static xsm_status faulty_bind(void *state, const xsm_sampler_problem *p, xsm_error *err)
{
    faulty *s = state;
    (void)err;
    s->context = p->context;
    s->classes = p->classes;
    s->bound++;
    float *first = xsm_context_allocate(p->context, 64);
    if (!first) {
        return fault == BIND_WRONG_STATUS ? XSM_ERROR_DATA : XSM_ERROR_MEMORY;
    }
    s->table = xsm_context_allocate(p->context, 128);
    if (!s->table && fault == BIND_HALF) {
        return XSM_ERROR_MEMORY; /* and `first` is lost */
    }
    if (s->table && fault != JUNK_MATTERS) {
        s->table[0] = 0;
    }
    if (fault != BIND_LEAKS) {
        xsm_context_release(p->context, first, 64);
    }
    return s->table ? XSM_OK : XSM_ERROR_MEMORY;
}

static void faulty_unbind(void *state)
{
    faulty *s = state;
    if (s->table) {
        xsm_context_release(s->context, s->table, 128);
        s->table = NULL;
    }
}

static uint32_t faulty_length(const void *state)
{
    static uint32_t calls;
    (void)state;
    return fault == LENGTH_CHANGES ? 2 + ++calls % 2 : 2;
}

static void faulty_encode(const void *state, const xsm_row *row, float *code)
{
    const faulty *s = state;
    code[0] = row->count > 0 && row->values[0] > 0;
    if (fault != ENCODE_SHORT) {
        code[1] = fault == ENCODE_INFINITE ? INFINITY : 1;
    }
    if (fault == ENCODE_OVERRUNS) {
        code[2] = 1;
    }
    if (fault == JUNK_MATTERS) { /* memory that was not written */
        unsigned char byte;
        memcpy(&byte, s->table, 1);
        code[0] = byte > 100;
    }
}

static double faulty_q(const faulty *s, const float *code, uint32_t k)
{
    uint32_t best = code[0] > 0 ? s->classes - 1 : 0;
    return s->classes == 1 ? 1 : k == best ? 0.5 : 0.5 / (s->classes - 1);
}

static double faulty_log(const void *state, const float *code, uint32_t k)
{
    const faulty *s = state;
    double log_q = log(faulty_q(s, code, k));
    return fault == SUM_NOT_ONE                           ? log_q - 0.01
           : fault == POSITIVE_LOG                        ? log_q + 1
           : fault == NOT_A_NUMBER && k + 1 == s->classes ? (double)NAN
                                                          : log_q;
}

static void faulty_draw(const void *state, const float *code, xsm_random *random, uint32_t count, uint32_t *classes,
                        double *log_probabilities)
{
    const faulty *s = state;
    uint32_t best = code[0] > 0 ? s->classes - 1 : 0;
    for (uint32_t j = 0; j < count; j++) {
        double half = fault == DRAW_BIASED ? 0.53 : 0.5;
        uint32_t k = best;
        if (s->classes > 1 && !(xsm_random_uniform(random) < half)) {
            k = (uint32_t)xsm_random_below(random, s->classes - 1);
            k += k >= best;
        }
        if (fault == DRAW_NO_STREAM) {
            k = j % s->classes;
        }
        if (fault == DRAW_REMEMBERS) {
            k = (k + remembered++) % s->classes;
        }
        if (fault == DRAW_REPEATS && j > 0) {
            k = classes[0];
        }
        classes[j] = fault == DRAW_BEYOND && j == 5 ? s->classes : k;
        log_probabilities[j] = log(faulty_q(s, code, k)) + (fault == DRAW_SAYS_WRONG ? 0.01 : 0);
        if (fault == BIND_COUNTS && s->bound > 1) {
            classes[j] = 0;
        }
    }
    if (fault == DRAW_OVERRUNS) {
        classes[count] = 0;
    }
}

static void faulty_rows(const void *state, const float *const *codes, xsm_random *const *random, uint32_t rows,
                        uint32_t count, uint32_t *const *classes, double *const *log_probabilities)
{
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t of = fault == ROWS_DIFFER && i == 30 ? 29 : i;
        faulty_draw(state, codes[i], random[of], count, classes[i], log_probabilities[i]);
        if (fault == ROWS_OVERRUN && rows == 2) {
            log_probabilities[i][-1] = 0;
        }
    }
}

static double faulty_others(const void *state, const float *code, xsm_random *random, const uint32_t *excluded,
                            uint32_t excluded_count, uint32_t count, uint32_t *classes)
{
    const faulty *s = state;
    uint32_t left = s->classes - excluded_count;
    (void)code;
    for (uint32_t j = 0; j < count;) { /* one after another, what is there already is drawn again */
        uint32_t k = (uint32_t)xsm_random_below(random, s->classes);
        bool there = false;
        if (fault == OTHERS_UNEVEN && k == 0 && xsm_random_uniform(random) < 0.2) {
            continue;
        }
        for (uint32_t i = 0; i < j && fault != OTHERS_TWICE; i++) {
            there |= classes[i] == k;
        }
        for (uint32_t i = 0; i < excluded_count && fault != OTHERS_EXCLUDED; i++) {
            there |= excluded[i] == k;
        }
        if (!there) {
            classes[j++] = k;
        }
    }
    return count > 0 ? log((double)count / left) + (fault == OTHERS_SAY_WRONG ? 0.01 : 0) : 0;
}

static void faulty_many(const void *state, const float *code, uint32_t first, uint32_t count, float *out)
{
    for (uint32_t k = 0; k < count; k++) {
        out[k] = (float)faulty_log(state, code, first + k) + (fault == MANY_DIFFER && k == 1 ? 0.01f : 0);
    }
}

static void faulty_sweep(const void *state, const float *const *codes, uint32_t rows, float *out, void *scratch)
{
    const faulty *s = state;
    (void)scratch;
    for (uint32_t i = 0; i < rows; i++) {
        for (uint32_t k = 0; k < s->classes; k++) {
            out[k * XSM_SAMPLER_ROWS + i] = (float)faulty_log(state, codes[i], k) +
                                            (fault == SWEEP_DIFFERS && k == 3 ? 0.01f : 0) +
                                            (fault == SWEEP_LANES && rows > 1 && i == 7 ? 1e-6f : 0);
        }
    }
}

static xsm_status faulty_save(const void *state, xsm_array_writer *writer, xsm_error *err)
{
    const faulty *s = state;
    xsm_array a = {sizeof a, "classes", XSM_DTYPE_UINT32, 1, {fault == SAVE_SHORT ? 0 : 1}, &s->classes};
    return xsm_array_write(writer, &a, err);
}

static xsm_status faulty_load(void *state, const xsm_sampler_problem *p, const xsm_array_reader *reader, xsm_error *err)
{
    xsm_array a = XSM_ARRAY_INIT;
    xsm_status status = xsm_array_read(reader, "classes", XSM_DTYPE_UINT32, 1, &a, err);
    if (status != XSM_OK && fault != LOAD_CARELESS) {
        return status;
    }
    if (fault != LOAD_CARELESS && a.shape[0] != 1) {
        return XSM_ERROR_FORMAT;
    }
    if (fault == LOAD_LEAKS && !xsm_context_allocate(p->context, 10)) {
        return XSM_ERROR_MEMORY;
    }
    status = faulty_bind(state, p, err);
    ((faulty *)state)->classes -= fault == LOAD_DIFFERS && p->classes > 1;
    return status;
}

static const xsm_option faulty_options[] = {
    {sizeof(xsm_option), "of", XSM_OPTION_INT, offsetof(faulty, of_options), "3", 0, 9, NULL, "nothing"},
};

static xsm_sampler_ops faulty_table(void)
{
    xsm_sampler_ops ops = {
        .size = sizeof ops,
        .abi = XSM_EXT_ABI_VERSION,
        .name = "faulty",
        .summary = "right but for the fault",
        .state_size = sizeof(faulty),
        .options = faulty_options,
        .option_count = 1,
        .bind = faulty_bind,
        .unbind = faulty_unbind,
        .code_length = faulty_length,
        .encode = faulty_encode,
        .draw = faulty_draw,
        .draw_others = faulty_others,
        .log_probability = faulty_log,
        .log_probabilities = faulty_many,
        .log_probabilities_rows = faulty_sweep,
        .save = faulty_save,
        .load = faulty_load,
        .draw_rows = faulty_rows,
    };
    return ops;
}

TEST(faults_are_found)
{
    for (fault = RIGHT; fault < FAULTS; fault++) {
        xsm_sampler_ops ops = faulty_table();
        if (fault == MANY_DIFFER) {
            ops.log_probabilities_rows = NULL;
        }
        if (fault == TREE_NOT_SAVED) {
            ops.flags = XSM_SAMPLER_TREE;
        }
        if (fault == RIGHT) {
            assert_ok(xsm_sampler_check(NULL, &ops, NULL, &err), err);
            continue;
        }
        xsm_status status = xsm_sampler_check(NULL, &ops, NULL, &err);
        if (status != XSM_ERROR_DATA) {
            fail_msg("fault %d: %s", fault, status == XSM_OK ? "not found" : err.message);
        }
        print_message("%d: %s\n", fault, err.message);
    }
    fault = RIGHT;
}

static void half_encode(const void *state, const xsm_row *row, float *code)
{
    xsm_sampler_find("tree")->encode(state, row, code);
    code[0] *= 0.5f;
}

/* The table of the built-in tree is one of a host's like any other, and what it says of its tree must hold. */
TEST(a_tree_is_what_is_saved)
{
    xsm_sampler_ops ops = *xsm_sampler_find("tree");
    ops.name = "half-tree";
    assert_ok(xsm_sampler_check(NULL, &ops, NULL, &err), err);
    ops.encode = half_encode;
    assert_fails(xsm_sampler_check(NULL, &ops, NULL, &err), XSM_ERROR_DATA, err);
    assert_non_null(strstr(err.message, "by the tree that save() writes"));
    ops.flags = 0;
    assert_ok(xsm_sampler_check(NULL, &ops, NULL, &err), err);
    xsm_sampler *s = NULL;
    ops.flags = 2;
    assert_fails(xsm_sampler_new_from(NULL, &ops, &s, &err), XSM_ERROR_ARGUMENT, err);
    ops.flags = XSM_SAMPLER_TREE;
    ops.save = NULL;
    ops.load = NULL;
    assert_fails(xsm_sampler_new_from(NULL, &ops, &s, &err), XSM_ERROR_ARGUMENT, err);
}

/* Draws that are wrong by so little that a looser false alarm passes them: the rate is what is asked for. */
TEST(the_false_alarm_decides)
{
    xsm_sampler_ops ops = faulty_table();
    xsm_sampler_check_options o = XSM_SAMPLER_CHECK_OPTIONS_INIT;
    fault = DRAW_BIASED;
    assert_fails(xsm_sampler_check(NULL, &ops, &o, &err), XSM_ERROR_DATA, err);
    o.false_alarm = 1e-200;
    assert_ok(xsm_sampler_check(NULL, &ops, &o, &err), err);
    fault = RIGHT;
    o.false_alarm = 0.999; /* a table without a fault is refused for a chi-square that is worse than most */
    assert_fails(xsm_sampler_check(NULL, &ops, &o, &err), XSM_ERROR_DATA, err);
}

TEST(what_cannot_be_tried_is_refused)
{
    xsm_sampler_ops ops = faulty_table();
    xsm_sampler_check_options o = XSM_SAMPLER_CHECK_OPTIONS_INIT;
    static const char *const unknown[] = {"off=1", NULL}, *const wrong[] = {"of", NULL},
                             *const high[] = {"of=10", NULL}, *const right[] = {"of=9", NULL};
    assert_fails(xsm_sampler_check(NULL, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
    o.false_alarm = 1;
    assert_fails(xsm_sampler_check(NULL, &ops, &o, &err), XSM_ERROR_RANGE, err);
    o.false_alarm = 0;
    o.tolerance = -1;
    assert_fails(xsm_sampler_check(NULL, &ops, &o, &err), XSM_ERROR_RANGE, err);
    o.tolerance = 0;
    o.set = unknown;
    assert_fails(xsm_sampler_check(NULL, &ops, &o, &err), XSM_ERROR_NAME, err);
    o.set = wrong;
    assert_fails(xsm_sampler_check(NULL, &ops, &o, &err), XSM_ERROR_ARGUMENT, err);
    o.set = high;
    assert_fails(xsm_sampler_check(NULL, &ops, &o, &err), XSM_ERROR_RANGE, err);
    o.set = right;
    assert_ok(xsm_sampler_check(NULL, &ops, &o, &err), err);
    o.size = 4;
    assert_fails(xsm_sampler_check(NULL, &ops, &o, &err), XSM_ERROR_STRUCT_OLD, err);
    ops.draw = NULL;
    assert_fails(xsm_sampler_check(NULL, &ops, NULL, &err), XSM_ERROR_ARGUMENT, err);
}
