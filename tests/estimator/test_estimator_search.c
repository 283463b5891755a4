/*
 * Tests of estimators that search: `mips` and `decomp-mips` compared with the algorithms of Yen et al. (2018) in
 * double and with exact estimators, Theorems 1 and 2 at each round, `ove-searched` compared with eq. 6 of Titsias
 * (2016), index updates, threads, invalid calls, and failed allocations.
 */
#include "training.h"

#include <xsoftmax/ext/index.h>
#include <xsoftmax/stored_weights.h>
#include <xsoftmax/trainer.h>

#include "estimator/estimator.h"
#include "index/index.h"
#include "loss/loss.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 30, FEATURES = 12, CLASSES = 90 };

static test_rig build(const char *name, const char *options, uint32_t most, bool sparse, bool bias, double size)
{
    return test_rig_new(name, options, ROWS, FEATURES, CLASSES, most, sparse, bias, size);
}

/* One row's gradient, a place a class; returns the loss. */
static double gradient_of(xsm_estimator *e, xsm_gradient *g, const xsm_dataset *data, uint64_t row, double *dense)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_batch batch = xsm_batch_range(data, row, 1);
    assert_ok(xsm_estimator_gradient(e, &batch, 0.1, g, &err), err);
    xsm_gradient_view v = test_view(g);
    memset(dense, 0, CLASSES * sizeof *dense);
    for (uint64_t j = 0; j < (v.lengths ? v.lengths[0] : v.width); j++) {
        uint32_t k = v.classes ? v.classes[j] : (uint32_t)j;
        assert_true(k < CLASSES && dense[k] == 0);
        dense[k] = (double)v.coefficients[j];
    }
    return v.loss;
}

/* -- Algorithms 1 and 2 written out -------------------------------------------------------------------------------- */

typedef struct way {
    const xsmi_loss *loss;
    double mu, threshold;
    uint32_t blocks, rounds, candidates;
    bool zero, found_only;
} way;

/* B z_kj in double. */
static double part_of(const test_rig *r, uint32_t blocks, uint32_t j, uint32_t k, uint64_t row)
{
    double sum = 0;
    for (uint32_t f = FEATURES * j / blocks; f < FEATURES * (j + 1) / blocks; f++) {
        sum += test_weight(r->m, k, f) * (double)r->p.x[row * FEATURES + f];
    }
    return blocks * sum + test_bias(r->m, k);
}

static bool is_label(const test_rig *r, uint64_t row, uint32_t k)
{
    for (uint64_t j = r->offsets[row]; j < r->offsets[row + 1]; j++) {
        if (r->labels[j] == k) {
            return true;
        }
    }
    return false;
}

/* The loss of scores and its gradient; those not `there` are zeros or drop out. */
static double loss_of(const way *w, const test_rig *r, uint64_t row, const double *z, const bool *there, double *g)
{
    static double scratch[40 * CLASSES];
    double list[CLASSES], out[CLASSES];
    uint32_t class_of[CLASSES];
    size_t count = 0, labels = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t k = 0; k < CLASSES; k++) {
            bool label = is_label(r, row, k);
            g[k] = pass ? g[k] : 0;
            if (label == !pass && (there[k] || w->zero)) {
                class_of[count] = k;
                list[count++] = there[k] ? z[k] : 0;
                labels += label;
            }
        }
    }
    xsmi_loss_scores in = {list, list + labels, labels, count - labels, 0};
    xsmi_loss_gradient gradient = {out, out + labels, 0, 0};
    double loss = w->loss->gradient(&in, w->mu, &gradient, scratch);
    for (size_t i = 0; i < count; i++) {
        g[class_of[i]] = there[class_of[i]] ? out[i] : 0; /* those of absent classes are left out */
    }
    return loss;
}

enum { BLOCKS = FEATURES };

static double written_out(const way *w, const test_rig *r, uint64_t row, double *gradient)
{
    double full[BLOCKS][CLASSES], v[BLOCKS][CLASSES], mean[CLASSES] = {0}, g[BLOCKS][CLASSES];
    bool there[BLOCKS][CLASSES];
    uint32_t n = w->blocks;
    for (uint32_t j = 0; j < n; j++) {
        for (uint32_t k = 0; k < CLASSES; k++) {
            full[j][k] = part_of(r, n, j, k, row);
        }
        for (uint32_t k = 0; k < CLASSES; k++) {
            uint32_t ahead = 0;
            for (uint32_t other = 0; other < CLASSES; other++) {
                ahead += full[j][other] > full[j][k] || (full[j][other] == full[j][k] && other < k);
            }
            there[j][k] = ahead < w->candidates || is_label(r, row, k);
            v[j][k] = there[j][k] ? full[j][k] : 0;
        }
    }
    for (uint32_t k = 0; k < CLASSES; k++) {
        for (uint32_t j = 0; j < n; j++) {
            mean[k] += (w->found_only ? v[j][k] : full[j][k]) / n;
        }
    }
    for (uint32_t t = 1; t <= w->rounds; t++) {
        bool active[CLASSES] = {false};
        for (uint32_t j = 0; j < n; j++) {
            loss_of(w, r, row, v[j], there[j], g[j]);
            for (uint32_t k = 0; k < CLASSES; k++) {
                active[k] |= fabs(g[j][k]) > w->threshold;
            }
        }
        for (uint32_t j = 0; j < n; j++) {
            for (uint32_t k = 0; k < CLASSES; k++) {
                if (active[k]) {
                    v[j][k] = there[j][k] ? v[j][k] : w->found_only ? 0 : full[j][k];
                    there[j][k] = true;
                    v[j][k] += 2.0 / (t + 2.0) * (mean[k] - v[j][k]);
                }
            }
        }
    }
    double loss = 0;
    memset(gradient, 0, CLASSES * sizeof *gradient);
    for (uint32_t j = 0; j < n; j++) {
        loss += loss_of(w, r, row, v[j], there[j], g[j]) / n;
        for (uint32_t k = 0; k < CLASSES; k++) {
            gradient[k] += g[j][k] / n;
        }
    }
    return loss;
}

static void compare(const char *options, const way *w, uint32_t most, bool sparse, bool bias, double size)
{
    bool decomposed = w->blocks > 1 || w->rounds > 0;
    char all[256];
    snprintf(all, sizeof all, "startup=0 loss=%s mu=%.17g candidates=%u %s", w->loss->name, w->mu, w->candidates,
             options);
    HELD_STRUCT(test_rig, r) = build(decomposed ? "decomp-mips" : "mips", all, most, sparse, bias, size);
    double worst = 0, magnitude = 0;
    for (uint64_t row = 0; row < ROWS; row++) {
        double have[CLASSES], want[CLASSES];
        double loss = gradient_of(r.e, r.g, r.data, row, have), wanted = written_out(w, &r, row, want);
        if (!(fabs(loss - wanted) <= 2e-5 * (1 + fabs(wanted)))) {
            fail_msg("'%s', row %d: a loss of %.9g, not %.9g", all, (int)row, loss, wanted);
        }
        for (uint32_t k = 0; k < CLASSES; k++) {
            worst = fmax(worst, fabs(have[k] - want[k]));
            magnitude = fmax(magnitude, fabs(want[k]));
        }
    }
    if (!(worst <= 2e-5 * magnitude)) {
        fail_msg("'%s': a coefficient is off by %g of %g", all, worst, magnitude);
    }
}

TEST(gradients_are_the_algorithms)
{
    way w = {&xsmi_loss_margin, 1, 1e-3, 1, 0, 20, false, false};
    compare("index=exact", &w, 1, false, true, 1);
    compare("index=exact", &w, 5, true, true, 1);
    w.loss = &xsmi_loss_cross_entropy;
    compare("index=exact missing=drop", &w, 3, false, false, 1);
    w.zero = true;
    compare("index=exact", &w, 1, false, true, 1);
    for (uint32_t rounds = 0; rounds <= 3; rounds++) {
        for (int found_only = 0; found_only < 2; found_only++) {
            for (const xsmi_loss *const *l = xsmi_losses; *l; l++) {
                /* Counts of violated pairs jump where scores in float fall on the other side. */
                bool counts = *l == &xsmi_loss_triplet;
                char options[128];
                w = (way){*l, 0.7, 0.01, 4, rounds, 15, *l == &xsmi_loss_cross_entropy, found_only};
                snprintf(options, sizeof options, "index=exact blocks=4 rounds=%u threshold=0.01 completion=%s", rounds,
                         found_only ? "found" : "exact");
                compare(options, &w, counts ? 1 : 4, rounds == 2, rounds % 2, counts ? 0.5 : 2);
                w.zero = !w.zero;
                snprintf(options + strlen(options), sizeof options - strlen(options), " missing=%s",
                         w.zero ? "zero" : "drop");
                compare(options, &w, 1, false, true, 0.5);
            }
        }
    }
}

/* With one block, and every class found, there is nothing left out. */
TEST(one_block_is_the_exact_gradient)
{
    static const struct {
        const char *exact, *options;
    } pairs[] = {{"margin", "loss=margin"}, {"softmax", "loss=cross-entropy"}};
    for (size_t c = 0; c < 2; c++) {
        for (int turn = 0; turn < 4; turn++) {
            char options[128];
            snprintf(options, sizeof options, "%s startup=0 candidates=%d index=%s%s", pairs[c].options, CLASSES,
                     turn % 2 ? "spherical" : "exact", turn < 2 ? " blocks=1" : "");
            HELD_STRUCT(test_rig, r) = build(turn < 2 ? "decomp-mips" : "mips", options, 3, turn == 1, true, 1);
            HELD(xsm_estimator, exact) = test_estimator(NULL, pairs[c].exact, "");
            assert_ok(xsm_estimator_bind(exact, r.m, r.data, &err), err);
            for (uint64_t row = 0; row < ROWS; row++) {
                double have[CLASSES], want[CLASSES];
                double loss = gradient_of(r.e, r.g, r.data, row, have);
                double wanted = gradient_of(exact, r.g, r.data, row, want);
                assert_true(fabs(loss - wanted) <= 1e-6 * (1 + fabs(wanted)));
                for (uint32_t k = 0; k < CLASSES; k++) {
                    if (!(fabs(have[k] - want[k]) <= 1e-6)) {
                        fail_msg("'%s', row %d, class %u: %.9g, not %.9g", options, (int)row, k, have[k], want[k]);
                    }
                }
            }
        }
    }
}

/* -- the tightened bound ------------------------------------------------------------------------------------------ */

/* Eq. 6 with C the label and the Q classes that score best, written out. */
static double bound_of(const test_rig *r, uint64_t row, uint32_t candidates, double *gradient)
{
    double z[CLASSES], most = -INFINITY, sum = 0;
    bool inside[CLASSES];
    uint32_t y = r->labels[r->offsets[row]];
    for (uint32_t k = 0; k < CLASSES; k++) {
        z[k] = part_of(r, 1, 0, k, row);
    }
    for (uint32_t k = 0; k < CLASSES; k++) {
        uint32_t ahead = 0;
        for (uint32_t other = 0; other < CLASSES; other++) {
            ahead += z[other] > z[k] || (z[other] == z[k] && other < k);
        }
        inside[k] = ahead < candidates || k == y;
        most = inside[k] ? fmax(most, z[k]) : most;
    }
    for (uint32_t k = 0; k < CLASSES; k++) {
        sum += inside[k] ? exp(z[k] - most) : 0;
    }
    double loss = most + log(sum) - z[y], out = 0;
    for (uint32_t k = 0; k < CLASSES; k++) {
        gradient[k] = inside[k] ? exp(z[k] - most) / sum - (k == y) : 1 / (1 + exp(z[y] - z[k]));
        loss += inside[k] ? 0 : log1p(exp(z[k] - z[y]));
        out += inside[k] ? 0 : gradient[k];
    }
    gradient[y] -= out;
    return loss;
}

/* With all classes outside looked at: the bound, below which is the softmax, and which falls to it as Q grows. */
TEST(searches_tighten_one_vs_each)
{
    static const uint32_t candidates[] = {1, 2, 10, 40, 89, CLASSES};
    for (size_t c = 0; c < 3 * 6; c++) {
        static double before[ROWS];
        const uint32_t some = candidates[c % 6];
        char options[128];
        snprintf(options, sizeof options, "startup=0 index=exact negatives=all candidates=%u", some);
        HELD_STRUCT(test_rig, r) = build("ove-searched", options, 1, c / 6 == 1, c / 6 != 2, 2);
        HELD(xsm_estimator, exact) = test_estimator(NULL, "softmax", "");
        assert_ok(xsm_estimator_bind(exact, r.m, r.data, &err), err);
        for (uint64_t row = 0; row < ROWS; row++) {
            double have[CLASSES], want[CLASSES], softmax[CLASSES];
            double loss = gradient_of(r.e, r.g, r.data, row, have), wanted = bound_of(&r, row, some, want);
            double least = gradient_of(exact, r.g, r.data, row, softmax);
            assert_true(fabs(loss - wanted) <= 1e-5 * (1 + wanted));
            assert_true(loss >= least - 1e-5 * (1 + least));
            for (uint32_t k = 0; k < CLASSES; k++) {
                assert_true(fabs(have[k] - want[k]) <= 1e-5 * (1 + fabs(want[k])));
                assert_true(some < CLASSES || fabs(have[k] - softmax[k]) <= 1e-5);
            }
            assert_true(some == candidates[0] || loss <= before[row] + 1e-5 * (1 + before[row]));
            before[row] = loss;
        }
    }
}

/* The mean over draws of m of the classes outside is the whole bound, label among those found or not. */
TEST(drawn_classes_stand_for_those_not_found)
{
    enum { DRAWS = 20000, SOME = 4 };
    HELD_STRUCT(test_rig, all) =
        build("ove-searched", "startup=0 index=exact candidates=60 negatives=all", 1, false, true, 1);
    HELD_STRUCT(test_rig, few) =
        build("ove-searched", "startup=0 index=exact candidates=60 negatives=6", 1, false, true, 1);
    uint32_t found = 0;
    for (uint64_t row = 0; row < SOME; row++) {
        double want[CLASSES], mean[CLASSES] = {0}, square[CLASSES] = {0}, sum = 0, squares = 0;
        double whole = gradient_of(all.e, all.g, all.data, row, want);
        uint64_t rows[50];
        for (size_t i = 0; i < 50; i++) {
            rows[i] = row;
        }
        for (uint32_t n = 0; n < DRAWS; n += 50) {
            xsm_batch batch = xsm_batch_rows(few.data, rows, 50);
            assert_ok(xsm_estimator_gradient(few.e, &batch, 0.1, few.g, &err), err);
            xsm_gradient_view v = test_view(few.g);
            sum += v.loss * 50 / DRAWS;
            squares += v.loss * v.loss * 50 / DRAWS;
            for (uint64_t i = 0; i < 50; i++) {
                assert_int_equal(v.classes[i * v.width], few.labels[few.offsets[row]]);
                found += v.lengths[i] == 66; /* 60 and 6: the label is one of those found */
                for (uint64_t j = i * v.width; j < i * v.width + v.lengths[i]; j++) {
                    double g = 50 * (double)v.coefficients[j];
                    mean[v.classes[j]] += g / DRAWS;
                    square[v.classes[j]] += g * g / DRAWS;
                }
            }
        }
        /* Six standard errors: a false alarm in 500 million comparisons. */
        assert_true(fabs(sum - whole) <= 6 * sqrt((squares - sum * sum) * 50 / DRAWS) + 1e-6);
        for (uint32_t k = 0; k < CLASSES; k++) {
            assert_true(fabs(mean[k] - want[k]) <= 6 * sqrt(fmax(0, square[k] - mean[k] * mean[k]) / DRAWS) + 1e-6);
        }
    }
    assert_true(found > 0 && found < SOME * DRAWS);
}

/* -- Theorems 1 and 2 ---------------------------------------------------------------------------------------------- */

/* G(Lambda) is the loss that the estimator gives; before step t, after t-1 rounds, G(Lambda) - L(z) lies between 0 and
 * 2B/(mu(t+2)) ||Lambda*||^2 + 2 tau_2 ln t ||Lambda*||_1. */
TEST(bounds_hold_at_each_round)
{
    static const double thresholds[] = {0, 0.001, 0.05};
    static const uint32_t blocks[] = {2, 5, 12};
    double tightest = INFINITY;
    int gaps = 0, places = 0;
    for (size_t c = 0; c < 2 * 3 * 3; c++) {
        bool margin = c % 2;
        way w = {margin ? &xsmi_loss_margin : &xsmi_loss_cross_entropy, 1.5, 0, 1, 0, CLASSES, false, false};
        double tau = thresholds[c / 2 % 3];
        uint32_t n = blocks[c / 6];
        double before[ROWS];
        for (uint32_t t = 1; t <= 30; t++) {
            char options[200];
            snprintf(options, sizeof options,
                     "startup=0 index=exact loss=%s mu=1.5 candidates=%d blocks=%u rounds=%u threshold=%g",
                     w.loss->name, CLASSES, n, t - 1, tau);
            HELD_STRUCT(test_rig, r) = build("decomp-mips", options, 3, false, true, 1.5);
            for (uint64_t row = 0; row < ROWS; row += 4) {
                double g[CLASSES], z[CLASSES] = {0}, square = 0, sum = 0;
                bool there[CLASSES];
                double value = gradient_of(r.e, r.g, r.data, row, g);
                for (uint32_t k = 0; k < CLASSES; k++) {
                    there[k] = true;
                    for (uint32_t j = 0; j < n; j++) {
                        z[k] += part_of(&r, n, j, k, row) / n;
                    }
                    for (uint32_t j = 0; j < n; j++) {
                        double message = (z[k] - part_of(&r, n, j, k, row)) / n;
                        square += message * message;
                        sum += fabs(message);
                    }
                }
                double gap = value - loss_of(&w, &r, row, z, there, g);
                double smooth = w.loss->smoothness(w.mu, (double)(r.offsets[row + 1] - r.offsets[row]));
                double bound = 2 * n * smooth * square / (t + 2) + 2 * tau * log(t) * sum;
                if (!(gap >= -1e-5 && gap <= bound + 1e-5)) {
                    fail_msg("'%s', row %d: a gap of %g, not between 0 and %g", options, (int)row, gap, bound);
                }
                /* Where all classes are told of, the gap is convex along the step to its end at 0. */
                assert_true(t == 1 || tau > 0 || margin || gap <= before[row] + 1e-5);
                before[row] = gap;
                places++;
                gaps += gap > 1e-3;
                tightest = gap > 1e-3 ? fmin(tightest, bound / gap) : tightest;
            }
        }
    }
    print_message("the bound is %.2f times the gap where it is tightest; %d of %d gaps are above 0.001\n", tightest,
                  gaps, places);
    assert_true(gaps >= places / 10); /* there was something to bound */
}

/* -- training ------------------------------------------------------------------------------------------------------ */

typedef struct run {
    const char *name, *options;
    uint64_t batch, epochs;
    bool sparse;
} run;

static int32_t take_loss(void *user, const xsm_progress *progress)
{
    double *loss = user;
    *loss = progress->epoch_ended ? progress->loss : *loss;
    return 0;
}

static xsm_model *train(xsm_context *ctx, const run *r, const test_problem *p, double *loss)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *m = test_model(ctx, p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    HELD(xsm_estimator, e) = test_estimator(ctx, r->name, r->options);
    NEW(xsm_optimizer, o, xsm_optimizer_new(ctx, "sgd", &o, &err));
    NEW(xsm_trainer, t,
        xsm_trainer_new(ctx, m, p->data, e, o,
                        STRUCT(xsm_trainer_options, .epochs = r->epochs, .batch = r->batch, .eta = 0.5,
                               .progress = take_loss, .progress_user = loss),
                        &t, &err));
    assert_ok(xsm_trainer_run(t, &err), err);
    xsm_trainer_free(t);
    xsm_optimizer_free(o);
    return m;
}

/* Indexes that follow the model find what is there now: many steps, with and without a ridge strong enough that the
 * model's scales are multiplied in, end where exact gradients end. */
TEST(indexes_follow_the_model)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(300, FEATURES, 40, false, 5);
    static const char *const searches[] = {
        "startup=0 candidates=40 blocks=1 index=exact", "startup=0 candidates=40 blocks=1",
        "startup=0 candidates=40 blocks=1 index.clusters=4 index.probe=40 index.drift=0.02"};
    for (int ridge = 0; ridge < 3; ridge++) {
        for (uint64_t batch = 1; batch <= 7; batch += 6) {
            char options[200];
            double loss[2];
            snprintf(options, sizeof options, "ridge=%g", ridge == 2 ? 40.0 : ridge);
            run exact = {"margin", options, batch, 3, false};
            HELD(xsm_model, want) = train(NULL, &exact, &p, &loss[0]);
            for (size_t s = 0; s < 3; s++) {
                snprintf(options, sizeof options, "%s ridge=%g", searches[s], ridge == 2 ? 40.0 : ridge);
                run searched = {"decomp-mips", options, batch, 3, false};
                HELD(xsm_model, have) = train(NULL, &searched, &p, &loss[1]);
                if (!(fabs(loss[0] - loss[1]) <= 1e-4 * loss[0])) {
                    fail_msg("'%s', batches of %d: a loss of %g, not %g", options, (int)batch, loss[1], loss[0]);
                }
                for (uint32_t k = 0; k < 40; k++) {
                    for (uint32_t f = 0; f < FEATURES; f++) {
                        double a = test_weight(want, k, f), b = test_weight(have, k, f);
                        if (!(fabs(a - b) <= 1e-4)) {
                            fail_msg("'%s', batches of %d: a weight of %g, not %g", options, (int)batch, b, a);
                        }
                    }
                }
            }
        }
    }
}

TEST(threads_and_instructions_change_nothing)
{
    static const run runs[] = {
        {"decomp-mips", "blocks=3 candidates=20 index.clusters=12 startup=50", 1, 2, false},
        {"ove-searched", "candidates=20 index.clusters=12 startup=50", 7, 1, false},
        {"decomp-mips", "blocks=4 candidates=10 loss=cross-entropy ridge=0.1 index.drift=0.1", 9, 3, true},
        {"decomp-mips", "blocks=2 candidates=10 index.clusters=12 startup=50", 9, 2, true},
        {"mips", "candidates=30 index.clusters=12 startup=50", 5, 2, false},
        {"mips", "candidates=30 startup=0 index=exact", 70, 3, false},
    };
    for (size_t c = 0; c < sizeof runs / sizeof runs[0]; c++) {
        HELD_STRUCT(test_problem, p) = test_problem_new(200, FEATURES, 150, runs[c].sparse, 5);
        uint64_t hash = 0;
        double loss = 0;
        for (int turn = 0; turn < 6; turn++) {
            uint32_t off = turn == 4 ? XSM_CPU_DISABLE_AVX512 : turn == 5 ? 7 : 0;
            HELD(xsm_context, ctx) = test_context(turn < 4 ? (uint32_t)(turn < 3 ? turn + 1 : 3) : 2,
                                                  turn == 2   ? TEST_REVERSED
                                                  : turn == 3 ? TEST_PTHREADS
                                                              : TEST_BUILT_IN,
                                                  off);
            double own;
            HELD(xsm_model, m) = train(ctx, &runs[c], &p, &own);
            uint64_t got = test_hash(m);
            if (turn > 0 && (got != hash || own != loss)) {
                fail_msg("'%s %s': turn %d gives other bits, losses %.9g and %.9g", runs[c].name, runs[c].options, turn,
                         loss, own);
            }
            hash = got;
            loss = own;
        }
    }
}

TEST(searching_begins_when_it_should)
{
    static const struct {
        const char *options;
        double size;
        uint64_t begin;
    } cases[] = {{"candidates=5 startup=7", 1, 7},
                 {"candidates=5 startup=0", 0, 0},
                 {"candidates=5", 1, 0},
                 {"candidates=5", 0, ROWS}};
    for (size_t c = 0; c < 4; c++) {
        HELD_STRUCT(test_rig, r) = build("decomp-mips", cases[c].options, 2, false, true, cases[c].size);
        xsm_index_info info = XSM_INDEX_INFO_INIT;
        for (uint64_t i = 0; i < ROWS + 3; i++) {
            double g[CLASSES];
            assert_ok(xsm_estimator_get_index_info(r.e, 7, &info, &err), err);
            assert_int_equal(info.rows, i > cases[c].begin ? CLASSES : 0);
            gradient_of(r.e, r.g, r.data, i % ROWS, g);
            xsm_gradient_view v = test_view(r.g);
            if (i < cases[c].begin) {
                uint64_t labels = r.offsets[i % ROWS + 1] - r.offsets[i % ROWS];
                assert_int_equal(v.lengths[0], labels + 5);
            }
        }
        assert_int_equal(info.width, FEATURES - FEATURES * 7 / 8);
        assert_fails(xsm_estimator_get_index_info(r.e, 8, &info, &err), XSM_ERROR_RANGE, err);
    }
}

/* Scores far out, and those that are not finite. */
TEST(extremes)
{
    for (int c = 0; c < 2; c++) {
        HELD_STRUCT(test_rig, r) =
            build("decomp-mips", c ? "startup=0 loss=cross-entropy" : "startup=0", 2, false, true, 1e4);
        for (uint64_t row = 0; row < ROWS; row++) {
            double g[CLASSES];
            assert_true(isfinite(gradient_of(r.e, r.g, r.data, row, g)));
        }
        xsm_parameters w = XSM_PARAMETERS_INIT;
        assert_ok(xsm_model_get_parameters(r.m, &w, &err), err);
        for (uint32_t k = 0; k < CLASSES; k++) {
            w.weight[k * w.class_step] = 3e38f;
        }
        assert_ok(xsm_estimator_bind(r.e, r.m, r.data, &err), err);
        xsm_batch batch = xsm_batch_range(r.data, 0, ROWS);
        assert_fails(xsm_estimator_gradient(r.e, &batch, 1, r.g, &err), XSM_ERROR_DIVERGED, err);
        w.weight[5] = NAN;
        assert_ok(xsm_estimator_bind(r.e, r.m, r.data, &err), err);
        assert_fails(xsm_estimator_gradient(r.e, &batch, 1, r.g, &err), XSM_ERROR_DIVERGED, err);
    }
}

/* -- indexes of the host's, bad calls ------------------------------------------------------------------------------ */

static int host_searches;

static xsm_status host_query(const void *state, const xsm_index_block *block, xsm_error *err)
{
    host_searches++;
    return host_searches < 100 ? xsmi_exact_index_ops.query(state, block, err) : XSM_ERROR_DATA;
}

TEST(a_hosts_index_is_used)
{
    xsm_index_ops ops = xsmi_exact_index_ops;
    ops.name = "host";
    ops.query = host_query;
    ops.update = NULL; /* is built anew each time */
    NEW(xsm_index, like, xsm_index_new_from(NULL, &ops, &like, &err));
    assert_ok(xsm_index_set(like, "seed", "77", &err), err);
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 3);
    HELD(xsm_context, ctx) = test_context(1, TEST_BUILT_IN, 0);
    HELD(xsm_model, m) = test_model(ctx, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 4);
    xsm_estimator *e = test_estimator(ctx, "decomp-mips", "blocks=2 candidates=8"),
                  *plain = test_estimator(ctx, "decomp-mips", "blocks=2 candidates=8 index=exact"),
                  *softmax = test_estimator(ctx, "softmax", "");
    assert_ok(xsm_estimator_set_index(e, like, &err), err);
    char text[32];
    xsm_estimator_get(e, "index", text, sizeof text);
    assert_string_equal(text, "host");
    xsm_estimator_get(e, "index.seed", text, sizeof text);
    assert_string_equal(text, "77");
    assert_fails(xsm_estimator_set(e, "index.seed", "5", &err), XSM_ERROR_STATE, err);
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    assert_ok(xsm_estimator_bind(plain, m, p.data, &err), err);
    xsm_gradient *g = test_gradient(ctx);
    double have[CLASSES], want[CLASSES];
    host_searches = 0;
    for (uint64_t row = 0; row < ROWS; row++) {
        assert_true(gradient_of(e, g, p.data, row, have) == gradient_of(plain, g, p.data, row, want));
        assert_memory_equal(have, want, sizeof have);
    }
    assert_int_equal(host_searches, 2 * ROWS);
    host_searches = 99;
    xsm_batch batch = xsm_batch_range(p.data, 0, 3);
    assert_fails(xsm_estimator_gradient(e, &batch, 1, g, &err), XSM_ERROR_DATA, err);
    assert_fails(xsm_estimator_set_index(e, NULL, &err), XSM_ERROR_STATE, err);
    assert_fails(xsm_estimator_set_index(softmax, like, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_fails(xsm_estimator_set_index(NULL, like, &err), XSM_ERROR_ARGUMENT, err);
    xsm_estimator_free(plain);
    plain = test_estimator(ctx, "mips", "");
    assert_ok(xsm_index_build_model(like, m, &err), err);
    assert_fails(xsm_estimator_set_index(plain, like, &err), XSM_ERROR_STATE, err);
    xsm_index_free(like);
    like = NULL;
    assert_ok(xsm_index_new(NULL, "exact", &like, &err), err);
    assert_ok(xsm_estimator_set_index(plain, like, &err), err);
    assert_ok(xsm_estimator_set_index(plain, NULL, &err), err);
    xsm_estimator_get(plain, "index", text, sizeof text);
    assert_string_equal(text, "spherical");
    xsm_index_info info = XSM_INDEX_INFO_INIT;
    assert_fails(xsm_estimator_get_index_info(plain, 0, &info, &err), XSM_ERROR_STATE, err);
    assert_fails(xsm_estimator_get_index_info(softmax, 0, &info, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_fails(xsm_estimator_get_index_info(NULL, 0, &info, &err), XSM_ERROR_ARGUMENT, err);
    xsm_index_free(like);
    xsm_gradient_free(g);
    xsm_estimator_free(e);
    xsm_estimator_free(plain);
    xsm_estimator_free(softmax);
}

/* Queries of a block are cut where there are more threads than blocks; a host's table gets lists without gaps. */
TEST(a_hosts_index_is_used_on_threads)
{
    xsm_index_ops ops = xsmi_exact_index_ops;
    ops.name = "host";
    MADE(xsm_index, like, xsm_index_new_from(NULL, &ops, &like, &err));
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 3);
    static const char *const options[] = {"blocks=1 candidates=8", "blocks=2 candidates=8"};
    for (int c = 0; c < 2; c++) {
        double loss = 0;
        HELD_MEMORY(float, want) = NULL;
        HELD_MEMORY(uint32_t, classes) = NULL;
        for (uint32_t threads = 1; threads <= 8; threads++) {
            HELD(xsm_context, ctx) = test_context(threads, TEST_BUILT_IN, 0);
            HELD(xsm_model, m) = test_model(ctx, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 4);
            HELD(xsm_estimator, e) = test_estimator(ctx, "decomp-mips", options[c]);
            assert_ok(xsm_estimator_set_index(e, like, &err), err);
            assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
            HELD(xsm_gradient, g) = test_gradient(ctx);
            xsm_batch batch = xsm_batch_range(p.data, 0, 7);
            assert_ok(xsm_estimator_gradient(e, &batch, 1, g, &err), err);
            size_t places = 7 * (size_t)g->width;
            if (threads == 1) {
                want = calloc(places, sizeof *want);
                classes = calloc(places, sizeof *classes);
                loss = g->loss;
            }
            assert_true(want && classes && g->loss == loss);
            for (uint64_t i = 0; i < 7; i++) {
                size_t at = (size_t)(i * g->width), bytes = (size_t)g->lengths[i] * sizeof *want;
                if (threads == 1) {
                    memcpy(want + at, g->coefficients + at, bytes);
                    memcpy(classes + at, g->classes + at, bytes);
                }
                assert_memory_equal(g->coefficients + at, want + at, bytes);
                assert_memory_equal(g->classes + at, classes + at, bytes);
            }
        }
    }
}

TEST(bad_calls_are_refused)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, true, 3);
    HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 1, 4);
    HELD(xsm_estimator, e) = test_estimator(NULL, "decomp-mips", "");
    assert_fails(xsm_estimator_set(e, "index.proble", "5", &err), XSM_ERROR_NAME, err);
    assert_non_null(strstr(err.message, "did you mean 'probe'"));
    assert_fails(xsm_estimator_set(e, "index", "sherical", &err), XSM_ERROR_FORMAT, err);
    assert_fails(xsm_estimator_set(e, "sampler.seed", "5", &err), XSM_ERROR_NAME, err);
    assert_ok(xsm_estimator_set_number(e, "index.probe", 5, &err), err);
    assert_ok(xsm_estimator_set_number(e, "index.drift", 0.25, &err), err);
    char text[32];
    xsm_estimator_get(e, "index.drift", text, sizeof text);
    assert_string_equal(text, "0.25");
    assert_ok(xsm_estimator_set(e, "blocks", "13", &err), err);
    assert_fails(xsm_estimator_bind(e, m, p.data, &err), XSM_ERROR_RANGE, err);
    assert_ok(xsm_estimator_set(e, "blocks", "12", &err), err);
    assert_ok(xsm_estimator_set(e, "candidates", "91", &err), err);
    assert_fails(xsm_estimator_bind(e, m, p.data, &err), XSM_ERROR_RANGE, err);
    assert_ok(xsm_estimator_set(e, "candidates", "90", &err), err);
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    assert_fails(xsm_estimator_set(e, "index.probe", "5", &err), XSM_ERROR_STATE, err);
    HELD(xsm_gradient, g) = test_gradient(NULL);
    xsm_batch batch = xsm_batch_range(p.data, 0, ROWS);
    assert_ok(xsm_estimator_gradient(e, &batch, 1, g, &err), err);
    assert_ok(xsm_model_set_layout(m, XSM_LAYOUT_FEATURE_MAJOR, &err), err);
    assert_fails(xsm_estimator_gradient(e, &batch, 1, g, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_ok(xsm_model_set_layout(m, XSM_LAYOUT_CLASS_MAJOR, &err), err);
    assert_ok(xsm_estimator_gradient(e, &batch, 1, g, &err), err);
    static const struct {
        const char *options, *says;
    } wrong[] = {{"candidates=91", "91 candidates asked for, but there are 90 classes"},
                 {"negatives=71", "71 negatives asked for, but there are only 70"},
                 {"candidates=90 negatives=1", "only 0 other"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        HELD(xsm_estimator, bound) = test_estimator(NULL, "ove-searched", wrong[i].options);
        assert_fails(xsm_estimator_bind(bound, m, p.data, &err), XSM_ERROR_RANGE, err);
        assert_non_null(strstr(err.message, wrong[i].says));
    }

    /* Tables. */
    xsm_estimator *made = NULL;
    const xsm_estimator_ops *whole = xsm_estimator_find("mips");
#define REFUSE(change)                                                                                                 \
    do {                                                                                                               \
        xsm_estimator_ops ops = *whole;                                                                                \
        change;                                                                                                        \
        assert_fails(xsm_estimator_new_from(NULL, &ops, &made, &err), XSM_ERROR_ARGUMENT, err);                        \
    } while (0)
    REFUSE(ops.search = NULL);
    REFUSE(ops.search_plan = NULL);
    REFUSE(ops.select = NULL);
    REFUSE(ops.kind = XSM_ESTIMATOR_EXACT);
    REFUSE(ops.kind = XSM_ESTIMATOR_LISTED);
    REFUSE(ops.kind = XSM_ESTIMATOR_SAMPLED);
    REFUSE(ops.kind = XSM_ESTIMATOR_HIERARCHY);
    REFUSE(ops.flags |= XSM_ESTIMATOR_ROW_STATE);
#undef REFUSE
}

/* -- memory -------------------------------------------------------------------------------------------------------- */

TEST(every_allocation_may_fail)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, 20, false, 3);
    test_steps s = {.p = &p, .estimator = "decomp-mips", .optimizer = "sgd", .steps = 4, .rows = 3, .eta = 0.5};
    s.options = "startup=3 blocks=2";
    s.bias = 1;
    assert_true(test_every_allocation(test_run_steps, &s) > 40);
}
