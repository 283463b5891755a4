/*
 * Tests of adaptive retrieval, option `error` of `mips` and `decomp-mips` (Yen et al. 2018, section 4): log Z and the
 * gradient compared with all classes, written out in double; the classes that are listed; lists with a limit; threads;
 * indexes that list in no certain order, that cannot list, or that fail; cancelling; invalid options.
 */
#include "training.h"

#include <xsoftmax/ext/index.h>

#include "base/activity.h"
#include "estimator/estimator.h"
#include "index/index.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 30, FEATURES = 12, CLASSES = 90, BLOCKS = 4 };

static const char *const losses[] = {"cross-entropy", "nca"};
static const double errors[] = {0.3, 0.03, 1e-3, 1e-5, 1e-12};
enum { ERRORS = sizeof errors / sizeof errors[0] };

static test_rig build(const char *name, const char *options, uint32_t most_labels, bool sparse, double size)
{
    return test_rig_new(name, options, ROWS, FEATURES, CLASSES, most_labels, sparse, !sparse, size);
}

/* One row's gradient, a place a class; returns the loss. */
static double gradient_of(const test_rig *r, uint64_t row, double *dense, uint32_t *length)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_batch batch = xsm_batch_range(r->data, row, 1);
    assert_ok(xsm_estimator_gradient(r->e, &batch, 0.1, r->g, &err), err);
    xsm_gradient_view v = test_view(r->g);
    memset(dense, 0, CLASSES * sizeof *dense);
    for (uint64_t j = 0; j < v.lengths[0]; j++) {
        assert_true(v.classes[j] < CLASSES && dense[v.classes[j]] == 0);
        dense[v.classes[j]] = (double)v.coefficients[j];
    }
    *length = v.lengths[0];
    return v.loss;
}

static bool is_label(const test_rig *r, uint64_t row, uint32_t k)
{
    bool label = false;
    for (uint64_t j = r->offsets[row]; j < r->offsets[row + 1]; j++) {
        label |= r->labels[j] == k;
    }
    return label;
}

/* B z_kj in double, of `blocks` blocks. */
static void parts_of(const test_rig *r, uint32_t blocks, uint64_t row, double parts[][CLASSES])
{
    for (uint32_t j = 0; j < blocks; j++) {
        for (uint32_t k = 0; k < CLASSES; k++) {
            double sum = 0;
            for (uint32_t f = FEATURES * j / blocks; f < FEATURES * (j + 1) / blocks; f++) {
                sum += test_weight(r->m, k, f) * (double)r->p.x[row * FEATURES + f];
            }
            parts[j][k] = blocks * sum + test_bias(r->m, k);
        }
    }
}

/* log Z and gradient of those `there`, NULL = of all, with the factor of the loss: w (log Z - mean over P), w = 1 or
 * |P|. */
static double loss_of(const test_rig *r, uint64_t row, bool nca, const double *z, const bool *there, double *g,
                      double *log_sum)
{
    double top = -INFINITY, sum = 0, mean = 0, labels = (double)(r->offsets[row + 1] - r->offsets[row]);
    const double w = nca ? labels : 1;
    for (uint32_t k = 0; k < CLASSES; k++) {
        top = !there || there[k] ? fmax(top, z[k]) : top;
    }
    for (uint32_t k = 0; k < CLASSES; k++) {
        sum += !there || there[k] ? exp(z[k] - top) : 0;
        mean += is_label(r, row, k) ? z[k] / labels : 0;
    }
    for (uint32_t k = 0; k < CLASSES; k++) {
        g[k] = !there || there[k] ? w * (exp(z[k] - top) / sum - (is_label(r, row, k) ? 1 / labels : 0)) : 0;
    }
    *log_sum = top + log(sum);
    return w * (*log_sum - mean);
}

static void sort_falling(const double *z, uint32_t *order)
{
    for (uint32_t k = 0; k < CLASSES; k++) {
        uint32_t at = k;
        for (; at > 0 && z[order[at - 1]] < z[k]; at--) {
            order[at] = order[at - 1];
        }
        order[at] = k;
    }
}

/* -- one block ----------------------------------------------------------------------------------------------------- */

/* The classes that the definition lists for an error, besides the labels. */
static uint32_t needed(const test_rig *r, uint64_t row, const double *z, double error)
{
    uint32_t order[CLASSES], others = CLASSES, listed = 0;
    double sum = 0;
    sort_falling(z, order);
    for (uint32_t k = 0; k < CLASSES; k++) {
        sum += is_label(r, row, k) ? exp(z[k]) : 0;
        others -= is_label(r, row, k);
    }
    for (uint32_t at = 0; at < CLASSES && others > 0; at++) {
        if (!is_label(r, row, order[at])) {
            sum += exp(z[order[at]]);
            others--;
            listed++;
        }
        if (others * exp(z[order[at]]) <= error * sum) {
            break;
        }
    }
    return listed;
}

TEST(errors_of_z_are_bounded)
{
    uint32_t few = 0, total = 0;
    double largest = 0; /* share of the bound that is used */
    for (size_t c = 0; c < 2 * ERRORS * 2 * 3; c++) {
        const bool nca = c % 2;
        const double error = errors[c / 2 % ERRORS];
        const uint32_t most_labels = c / 2 / ERRORS % 2 ? 4 : 1;
        const size_t kind = c / 2 / ERRORS / 2; /* exact, sparse rows, and clusters that are all probed */
        char options[200];
        snprintf(options, sizeof options, "startup=0 loss=%s error=%g index=%s", losses[nca], error,
                 kind == 2 ? "spherical index.probe=90" : "exact");
        HELD_STRUCT(test_rig, r) = build("mips", options, most_labels, kind == 1, 3);
        for (uint64_t row = 0; row < ROWS; row++) {
            double z[1][CLASSES], have[CLASSES], want[CLASSES], log_sum, distance = 0;
            uint32_t length;
            parts_of(&r, 1, row, z);
            const double labels = (double)(r.offsets[row + 1] - r.offsets[row]), w = nca ? labels : 1;
            const double loss = gradient_of(&r, row, have, &length);
            const double exact = loss_of(&r, row, nca, z[0], NULL, want, &log_sum);
            const double slack = 1e-6 * (1 + fabs(exact)), below = exact - loss;
            if (!(below >= -slack && below <= w * log1p(error) + slack)) {
                fail_msg("'%s', row %d: the loss is %g below that of all classes", options, (int)row, below);
            }
            for (uint32_t k = 0; k < CLASSES; k++) {
                distance += fabs(have[k] - want[k]);
            }
            if (!(distance <= w * (2 * error / (1 + error) + 1e-5))) {
                fail_msg("'%s', row %d: the gradient is off by %g", options, (int)row, distance);
            }
            /* Coefficients are rounded to 0 where lists are long enough that nothing else differs. */
            uint32_t least = needed(&r, row, z[0], error * 1.001), most = needed(&r, row, z[0], error * 0.999);
            if (length > (uint32_t)labels + most || (error >= 1e-5 && length < (uint32_t)labels + least)) {
                fail_msg("'%s', row %d: %u classes, not %g labels and %u to %u", options, (int)row, length, labels,
                         least, most);
            }
            few += most < CLASSES - 10;
            total++;
            largest = fmax(largest, below / (w * log1p(error)) * (error > 1e-4));
        }
    }
    print_message("%u of %u lists were short; the bound was used up to %.3f\n", few, total, largest);
    assert_true(few > total / 4 && few < total && largest > 0.01);
}

/* With a limit that ends every list, the lists are those of `candidates`. */
TEST(lists_have_a_limit)
{
    for (size_t c = 0; c < 4; c++) {
        char options[2][200];
        const char *name = c / 2 ? "decomp-mips" : "mips", *more = c / 2 ? " blocks=4" : "";
        snprintf(options[0], sizeof options[0], "startup=0 loss=%s index=exact error=1e-12 most=7%s", losses[c % 2],
                 more);
        snprintf(options[1], sizeof options[1], "startup=0 loss=%s index=exact missing=drop candidates=7%s",
                 losses[c % 2], more);
        HELD_STRUCT(test_rig, limited) = build(name, options[0], 3, false, 1);
        HELD_STRUCT(test_rig, fixed) = build(name, options[1], 3, false, 1);
        for (uint64_t row = 0; row < ROWS; row++) {
            double have[CLASSES], want[CLASSES];
            uint32_t lengths[2];
            const double loss = gradient_of(&limited, row, have, &lengths[0]);
            const double wanted = gradient_of(&fixed, row, want, &lengths[1]);
            assert_int_equal(lengths[0], lengths[1]);
            assert_true(fabs(loss - wanted) <= 1e-9 * (1 + fabs(wanted)));
            for (uint32_t k = 0; k < CLASSES; k++) {
                assert_true(fabs(have[k] - want[k]) <= 1e-6);
            }
        }
    }
}

/* -- several blocks ------------------------------------------------------------------------------------------------ */

/* Algorithm 2 with lists of falling order that grow until they suffice in the end, written out for all classes. */
typedef struct way {
    bool nca, found_only;
    double error, threshold;
    uint32_t rounds;
} way;

static double run_blocks(const way *w, const test_rig *r, uint64_t row, double full[][CLASSES], const uint32_t *lists,
                         bool known[CLASSES], double v[][CLASSES], double *log_sums, double *gradient)
{
    bool there[BLOCKS][CLASSES];
    double mean[CLASSES] = {0}, g[BLOCKS][CLASSES], loss = 0;
    for (uint32_t j = 0; j < BLOCKS; j++) {
        uint32_t order[CLASSES];
        sort_falling(full[j], order);
        for (uint32_t k = 0; k < CLASSES; k++) {
            known[k] = is_label(r, row, k);
            there[j][k] = known[k];
            v[j][k] = full[j][k];
        }
        for (uint32_t at = 0; at < lists[j]; at++) {
            there[j][order[at]] = true;
        }
        for (uint32_t k = 0; k < CLASSES; k++) {
            mean[k] += (w->found_only && !there[j][k] ? 0 : full[j][k]) / BLOCKS;
        }
    }
    for (uint32_t t = 1; t <= w->rounds; t++) {
        bool active[CLASSES] = {false};
        for (uint32_t j = 0; j < BLOCKS; j++) {
            loss_of(r, row, w->nca, v[j], there[j], g[j], &log_sums[j]);
            for (uint32_t k = 0; k < CLASSES; k++) {
                active[k] |= fabs(g[j][k]) > w->threshold;
            }
        }
        for (uint32_t j = 0; j < BLOCKS; j++) {
            for (uint32_t k = 0; k < CLASSES; k++) {
                if (active[k]) {
                    v[j][k] = there[j][k] ? v[j][k] : w->found_only ? 0 : full[j][k];
                    v[j][k] += 2.0 / (t + 2.0) * (mean[k] - v[j][k]);
                    there[j][k] = known[k] = true;
                }
            }
        }
    }
    memset(gradient, 0, CLASSES * sizeof *gradient);
    for (uint32_t j = 0; j < BLOCKS; j++) {
        loss += loss_of(r, row, w->nca, v[j], there[j], g[j], &log_sums[j]) / BLOCKS;
        for (uint32_t k = 0; k < CLASSES; k++) {
            gradient[k] += g[j][k] / BLOCKS;
        }
    }
    return loss;
}

/* Makes a list longer until it suffices; returns whether it did. */
static bool lengthen(double error, const double *full, const bool *known, double log_sum, uint32_t *length)
{
    uint32_t order[CLASSES], others = 0, before = *length;
    bool counted[CLASSES];
    double sum = exp(log_sum);
    sort_falling(full, order);
    memcpy(counted, known, sizeof counted);
    for (uint32_t at = 0; at < *length; at++) {
        counted[order[at]] = true;
    }
    for (uint32_t k = 0; k < CLASSES; k++) {
        others += !counted[k];
    }
    while (others > 0 && (*length == 0 || others * exp(full[order[*length - 1]]) > error * sum)) {
        const uint32_t k = order[(*length)++];
        sum += counted[k] ? 0 : exp(full[k]);
        others -= !counted[k];
    }
    return *length > before;
}

static double written_out(const way *w, const test_rig *r, uint64_t row, double *gradient, uint32_t *again,
                          double *worst)
{
    double full[BLOCKS][CLASSES], v[BLOCKS][CLASSES], log_sums[BLOCKS], loss = 0;
    uint32_t lists[BLOCKS] = {0};
    bool known[CLASSES], longer = true;
    parts_of(r, BLOCKS, row, full);
    for (uint32_t j = 0; j < BLOCKS; j++) {
        double labels = 0;
        for (uint32_t k = 0; k < CLASSES; k++) {
            known[k] = is_label(r, row, k);
            labels += known[k] ? exp(full[j][k]) : 0;
        }
        lengthen(w->error, full[j], known, log(labels), &lists[j]);
    }
    while (longer) {
        loss = run_blocks(w, r, row, full, lists, known, v, log_sums, gradient);
        longer = false;
        for (uint32_t j = 0; j < BLOCKS; j++) {
            longer |= lengthen(w->error, full[j], known, log_sums[j], &lists[j]);
        }
        *again += longer;
    }
    /* What the lists leave out of each block's Z. */
    for (uint32_t j = 0; j < BLOCKS; j++) {
        double whole = 0;
        for (uint32_t k = 0; k < CLASSES; k++) {
            whole += exp((known[k] ? v : full)[j][k] - log_sums[j]);
        }
        *worst = fmax(*worst, (whole - 1) / w->error);
    }
    return loss;
}

TEST(blocks_have_the_lists_that_they_need)
{
    uint32_t again = 0;
    double worst = 0;
    for (size_t c = 0; c < 2 * 3 * 4; c++) {
        const way w = {c % 2, c / 6 == 3, errors[c / 2 % 3], c / 6 == 1 ? 1 : 0.01, c / 6 == 2 ? 3 : 1};
        char options[240];
        snprintf(options, sizeof options,
                 "startup=0 loss=%s error=%g index=exact blocks=%d rounds=%u threshold=%g completion=%s", losses[w.nca],
                 w.error, BLOCKS, w.rounds, w.threshold, w.found_only ? "found" : "exact");
        HELD_STRUCT(test_rig, r) = build("decomp-mips", options, 3, false, 2);
        for (uint64_t row = 0; row < ROWS; row++) {
            double have[CLASSES], want[CLASSES], z[1][CLASSES], g[CLASSES], log_sum;
            uint32_t length;
            const double loss = gradient_of(&r, row, have, &length);
            const double wanted = written_out(&w, &r, row, want, &again, &worst);
            /* A rounding error may add a class to a list, or leave it out: a share error / (K - f) of Z. */
            const double labels = (double)(r.offsets[row + 1] - r.offsets[row]), factor = w.nca ? labels : 1;
            const double slack = 2e-5 + factor * w.error / 10;
            if (!(fabs(loss - wanted) <= slack * (1 + fabs(wanted)))) {
                fail_msg("'%s', row %d: a loss of %.9g, not %.9g", options, (int)row, loss, wanted);
            }
            for (uint32_t k = 0; k < CLASSES; k++) {
                if (!(fabs(have[k] - want[k]) <= slack)) {
                    fail_msg("'%s', row %d, class %u: %g, not %g", options, (int)row, k, have[k], want[k]);
                }
            }
            /* Theorem 1: never below the loss of all scores, but for the error. */
            parts_of(&r, 1, row, z);
            const double exact = loss_of(&r, row, w.nca, z[0], NULL, g, &log_sum);
            assert_true(w.found_only || loss >= exact - factor * log1p(w.error) - 1e-5 * (1 + fabs(exact)));
        }
    }
    print_message("lists became longer after messages %u times; the bound was used up to %.3f\n", again, worst);
    assert_true(again > 0 && worst <= 1 && worst > 0.01);
}

/* -- which index, and how many threads ----------------------------------------------------------------------------- */

/* Clusters that are probed one after another: in no certain order, but everything in the end. */
TEST(what_spherical_leaves_out_falls_with_the_error)
{
    double before = INFINITY;
    for (size_t c = 0; c < ERRORS; c++) {
        char options[160];
        snprintf(options, sizeof options,
                 "startup=0 loss=cross-entropy error=%g index=spherical index.clusters=30 index.probe=8", errors[c]);
        HELD_STRUCT(test_rig, r) = build("mips", options, 2, false, 3);
        double worst = 0;
        for (uint64_t row = 0; row < ROWS; row++) {
            double z[1][CLASSES], have[CLASSES], want[CLASSES], log_sum;
            uint32_t length;
            parts_of(&r, 1, row, z);
            const double loss = gradient_of(&r, row, have, &length);
            const double exact = loss_of(&r, row, false, z[0], NULL, want, &log_sum);
            assert_true(exact - loss >= -1e-6 * (1 + fabs(exact)));
            worst = fmax(worst, exact - loss);
        }
        print_message("error %g: log Z is too small by %g at most\n", errors[c], worst);
        assert_true(worst <= before + 1e-6);
        before = worst;
    }
    assert_true(before <= 1e-5);
}

TEST(threads_change_nothing)
{
    static const struct {
        const char *name, *options;
    } runs[] = {
        {"mips", "loss=cross-entropy error=0.01 index=exact"},
        {"mips", "loss=nca error=0.1 index.clusters=9 index.probe=10"},
        {"decomp-mips", "blocks=3 loss=cross-entropy error=0.01 index.clusters=9 rounds=2"},
        {"decomp-mips", "blocks=5 loss=nca error=0.2 most=40 index=exact"},
    };
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 3);
    for (size_t c = 0; c < sizeof runs / sizeof runs[0]; c++) {
        uint64_t lengths = 0;
        double loss = 0;
        HELD_MEMORY(float, want) = NULL;
        HELD_MEMORY(uint32_t, classes) = NULL;
        for (uint32_t turn = 0; turn < 5; turn++) {
            xsm_context *ctx =
                test_context(turn < 4 ? turn + 1 : 2, turn == 2 ? TEST_REVERSED : TEST_BUILT_IN, turn == 4 ? 7 : 0);
            xsm_model *m = test_model(ctx, &p, true, XSM_LAYOUT_CLASS_MAJOR, 2, 4);
            xsm_estimator *e = test_estimator(ctx, runs[c].name, runs[c].options);
            assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
            xsm_gradient *g = test_gradient(ctx);
            xsm_batch batch = xsm_batch_range(p.data, 0, ROWS);
            assert_ok(xsm_estimator_gradient(e, &batch, 1, g, &err), err);
            const size_t entries = (size_t)ROWS * g->width;
            if (turn == 0) {
                want = calloc(entries, sizeof *want);
                classes = calloc(entries, sizeof *classes);
                loss = g->loss;
            }
            assert_true(want && classes && g->loss == loss);
            for (uint64_t i = 0; i < ROWS; i++) {
                size_t at = (size_t)(i * g->width), bytes = (size_t)g->lengths[i] * sizeof *want;
                if (turn == 0) {
                    memcpy(want + at, g->coefficients + at, bytes);
                    memcpy(classes + at, g->classes + at, bytes);
                    lengths += g->lengths[i];
                }
                assert_memory_equal(g->coefficients + at, want + at, bytes);
                assert_memory_equal(g->classes + at, classes + at, bytes);
            }
            xsm_gradient_free(g);
            xsm_estimator_free(e);
            xsm_model_free(m);
            xsm_context_free(ctx);
        }
        assert_true(lengths > 4 * ROWS && lengths < (uint64_t)ROWS * CLASSES);
    }
}

static int calls_before_failure;

static xsm_status failing_next(const void *state, const xsm_index_block *block, xsm_error *err)
{
    return calls_before_failure-- > 0 ? xsmi_exact_index_ops.next(state, block, err) : XSM_ERROR_DATA;
}

TEST(indexes_of_the_host)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 3);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 4);
    HELD(xsm_gradient, g) = test_gradient(NULL);
    xsm_batch batch = xsm_batch_range(p.data, 0, 5);
    xsm_index_ops ops = xsmi_exact_index_ops;
    ops.name = "host";
    for (int c = 0; c < 2; c++) {
        ops.next = c ? failing_next : NULL;
        ops.cursor = c ? xsmi_exact_index_ops.cursor : NULL;
        MADE(xsm_index, like, xsm_index_new_from(NULL, &ops, &like, &err));
        xsm_estimator *e = test_estimator(NULL, "decomp-mips", "startup=0 blocks=2 loss=nca error=0.1"),
                      *plain = test_estimator(NULL, "decomp-mips", "startup=0 blocks=2 loss=nca");
        assert_ok(xsm_estimator_set_index(e, like, &err), err);
        assert_ok(xsm_estimator_set_index(plain, like, &err), err);
        assert_ok(xsm_estimator_bind(plain, m, p.data, &err), err); /* which needs no next() */
        if (c == 0) {
            assert_fails(xsm_estimator_bind(e, m, p.data, &err), XSM_ERROR_UNSUPPORTED, err);
            assert_non_null(strstr(err.message, "index 'host' cannot"));
        } else {
            assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
            calls_before_failure = 1000;
            assert_ok(xsm_estimator_gradient(e, &batch, 1, g, &err), err);
            calls_before_failure = 7;
            assert_fails(xsm_estimator_gradient(e, &batch, 1, g, &err), XSM_ERROR_DATA, err);
            assert_non_null(strstr(err.message, "index 'host'"));
        }
        xsm_estimator_free(e);
        xsm_estimator_free(plain);
    }
}

/* -- calls --------------------------------------------------------------------------------------------------------- */

static int32_t stop_in_searches(void *user, const xsm_activity *activity)
{
    int *left = user;
    (void)activity;
    return *left > 0 && --*left == 0;
}

/* A search stops where it is told to, and the next one is as if nothing had been. */
TEST(searches_are_cancelled)
{
    static const char *const options[] = {"startup=0 blocks=2 loss=nca error=1e-6 index=exact",
                                          "startup=0 blocks=2 loss=nca error=1e-6 index=spherical"};
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 3);
    int left = 0;
    MADE(
        xsm_context, ctx,
        xsm_context_new(STRUCT(xsm_context_options, .threads = 2, .progress = stop_in_searches, .progress_user = &left),
                        &ctx, &err));
    xsmi_set_pace(ctx, 0);
    HELD(xsm_model, m) = test_model(ctx, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 4);
    for (int c = 0; c < 2; c++) {
        HELD(xsm_estimator, e) = test_estimator(ctx, "decomp-mips", options[c]);
        assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
        HELD(xsm_gradient, g) = test_gradient(ctx);
        xsm_batch batch = xsm_batch_range(p.data, 0, ROWS);
        assert_ok(xsm_estimator_gradient(e, &batch, 1, g, &err), err);
        const double loss = g->loss;
        int cancelled = 0;
        for (int polls = 1; polls < 2000; polls += 1 + polls / 8) {
            left = polls;
            xsmi_activity activity; /* as a trainer's around its steps */
            xsmi_begin(&activity, ctx, "trying", "rows", ROWS);
            xsm_status status = xsm_estimator_gradient(e, &batch, 1, g, &err);
            status = xsmi_end(&activity, status, &err);
            assert_true(status == (left > 0 ? XSM_OK : XSM_CANCELLED));
            cancelled += status == XSM_CANCELLED;
            left = 0;
            assert_ok(xsm_estimator_gradient(e, &batch, 1, g, &err), err);
            assert_true(g->loss == loss);
        }
        assert_true(cancelled > 10);
    }
}

static void (*own_plan)(const void *state, xsm_search_plan *plan);

static void plan_of_later(const void *state, xsm_search_plan *plan)
{
    own_plan(state, plan);
    plan->reserved = 1;
}

static void plan_of_too_many(const void *state, xsm_search_plan *plan)
{
    own_plan(state, plan);
    plan->most = CLASSES + 1;
}

/* Plans of a host's table. */
TEST(bad_plans_are_refused)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 3);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 4);
    xsm_estimator_ops ops = *xsm_estimator_find("mips");
    own_plan = ops.search_plan;
    for (int c = 0; c < 2; c++) {
        ops.search_plan = c ? plan_of_too_many : plan_of_later;
        MADE(xsm_estimator, e, xsm_estimator_new_from(NULL, &ops, &e, &err));
        assert_fails(xsm_estimator_bind(e, m, p.data, &err), c ? XSM_ERROR_RANGE : XSM_ERROR_STRUCT_NEW, err);
        assert_non_null(strstr(err.message, c ? "for 91 classes each" : "xsm_search_plan.reserved"));
    }
}

TEST(bad_options_are_refused)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 3);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 4);
    static const struct {
        const char *options, *says;
        xsm_status status;
    } wrong[] = {
        {"error=0.1", "loss 'margin'", XSM_ERROR_UNSUPPORTED},
        {"error=0.1 loss=triplet", "accepted are cross-entropy and nca", XSM_ERROR_UNSUPPORTED},
        {"error=0.1 loss=nca missing=zero", "missing=drop", XSM_ERROR_ARGUMENT},
        {"most=5", "'most' limits the lists of 'error'", XSM_ERROR_ARGUMENT},
        {"error=0.1 loss=nca most=91", "there are 90 classes", XSM_ERROR_RANGE},
    };
    for (size_t i = 0; i < 2 * sizeof wrong / sizeof wrong[0]; i++) {
        HELD(xsm_estimator, e) = test_estimator(NULL, i % 2 ? "mips" : "decomp-mips", wrong[i / 2].options);
        assert_fails(xsm_estimator_bind(e, m, p.data, &err), wrong[i / 2].status, err);
        assert_non_null(strstr(err.message, wrong[i / 2].says));
        assert_non_null(strstr(err.message, i % 2 ? "'mips'" : "'decomp-mips'"));
    }
    HELD(xsm_estimator, e) = test_estimator(NULL, "mips", "");
    assert_fails(xsm_estimator_set(e, "error", "1.5", &err), XSM_ERROR_RANGE, err);
    assert_fails(xsm_estimator_set(e, "error", "-1", &err), XSM_ERROR_RANGE, err);
}

/* Far scores and such as are not finite. */
TEST(extremes)
{
    for (size_t c = 0; c < 4; c++) {
        char options[100];
        snprintf(options, sizeof options, "startup=0 loss=%s error=0.01 blocks=3 index=%s", losses[c % 2],
                 c / 2 ? "exact" : "spherical");
        HELD_STRUCT(test_rig, r) = build("decomp-mips", options, 2, false, 1e4);
        for (uint64_t row = 0; row < ROWS; row++) {
            double g[CLASSES];
            uint32_t length;
            assert_true(isfinite(gradient_of(&r, row, g, &length)));
        }
        xsm_parameters w = XSM_PARAMETERS_INIT;
        assert_ok(xsm_model_get_parameters(r.m, &w, &err), err);
        for (uint32_t k = 0; k < CLASSES; k++) {
            w.weight[k * w.class_step] = 3e38f;
        }
        assert_ok(xsm_estimator_bind(r.e, r.m, r.data, &err), err);
        xsm_batch batch = xsm_batch_range(r.data, 0, ROWS);
        assert_fails(xsm_estimator_gradient(r.e, &batch, 1, r.g, &err), XSM_ERROR_DIVERGED, err);
    }
}

TEST(every_allocation_may_fail)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, 20, false, 3);
    test_steps s = {.p = &p, .estimator = "decomp-mips", .optimizer = "sgd", .steps = 4, .rows = 3, .eta = 0.5};
    s.options = "startup=3 blocks=2 loss=nca error=0.1 most=12";
    assert_true(test_every_allocation(test_run_steps, &s) > 40);
}
