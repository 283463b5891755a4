/*
 * Tests of losses of sparse score vectors: central differences, the bi-simplex projection compared with bisection and
 * its optimality conditions, Lipschitz bounds, counted classes without scores, and Theorem 1 of Yen et al. (2018).
 */
#include "training.h"

#include "loss/loss.h"
#include "math/simplex.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 60, SCRATCH = 1024 };

static double scratch[SCRATCH];

/* A score vector, the positives first. */
typedef struct scores {
    double z[MOST];
    size_t positives, negatives;
    double missing;
} scores;

static double evaluate(const xsmi_loss *loss, double mu, const scores *s, double *gradient, double *missing)
{
    xsmi_loss_scores z = {s->z, s->z + s->positives, s->positives, s->negatives, s->missing};
    double room[MOST];
    double *g = gradient ? gradient : room;
    xsmi_loss_gradient out = {g, g + s->positives, NAN, NAN};
    assert_true(!loss->scratch || loss->scratch(s->positives, s->negatives) <= SCRATCH);
    double value = loss->gradient(&z, mu, &out, scratch);
    if (missing) {
        *missing = out.missing;
    }
    if (loss->has_log_sum) {
        double top = s->missing > 0 ? 0 : -INFINITY, sum = 0;
        for (size_t i = 0; i < s->positives + s->negatives; i++) {
            top = fmax(top, s->z[i]);
        }
        for (size_t i = 0; i < s->positives + s->negatives; i++) {
            sum += exp(s->z[i] - top);
        }
        assert_true(fabs(out.log_sum - top - log(sum + s->missing * exp(-top))) <= 1e-12 * (1 + fabs(top)));
    }
    return value;
}

static scores random_scores(uint64_t *seed, double size)
{
    scores s;
    s.positives = 1 + test_next(seed) % 5;
    s.negatives = test_next(seed) % 20;
    s.missing = test_next(seed) % 3 ? 0 : (double)(1 + test_next(seed) % 9);
    for (size_t i = 0; i < s.positives + s.negatives; i++) {
        s.z[i] = size * (2 * test_uniform(seed) - 1);
    }
    return s;
}

/* The loss as its definition has it, without smoothing, from all scores written out. */
static double written_out(const char *name, const scores *s)
{
    double z[MOST + 10], sum = 0, mean = 0, least = INFINITY, most = -INFINITY, pairs = 0;
    size_t count = s->positives + s->negatives;
    memcpy(z, s->z, count * sizeof *z);
    for (int i = 0; i < (int)s->missing; i++) {
        z[count++] = 0;
    }
    double top = -INFINITY;
    for (size_t i = 0; i < count; i++) {
        top = fmax(top, z[i]);
    }
    for (size_t i = 0; i < count; i++) {
        sum += exp(z[i] - top);
        if (i < s->positives) {
            mean += z[i] / (double)s->positives;
            least = fmin(least, z[i]);
        } else {
            most = fmax(most, z[i]);
            for (size_t k = 0; k < s->positives; k++) {
                pairs += fmax(0, z[i] - z[k] + 1);
            }
        }
    }
    if (strcmp(name, "triplet") == 0) {
        return pairs;
    }
    if (strcmp(name, "margin") == 0) {
        return fmax(0, most - least + 1);
    }
    return (top + log(sum) - mean) * (strcmp(name, "nca") == 0 ? (double)s->positives : 1);
}

TEST(losses_are_what_they_say)
{
    uint64_t seed = 1;
    for (int trial = 0; trial < 2000; trial++) {
        scores s = random_scores(&seed, trial % 2 ? 1 : 8);
        for (const xsmi_loss *const *l = xsmi_losses; *l; l++) {
            double want = written_out((*l)->name, &s), mu = 0.25 * (double)(1 + test_next(&seed) % 20);
            if (*l != &xsmi_loss_margin) {
                assert_true(fabs(evaluate(*l, mu, &s, NULL, NULL) - want) <= 1e-12 * (1 + fabs(want)));
                continue;
            }
            double value = evaluate(*l, mu, &s, NULL, NULL);
            assert_true(value <= want + 1e-12 && value >= want - mu - 1e-12);
            assert_true(fabs(evaluate(*l, 1e-9, &s, NULL, NULL) - want) <= 1e-8);
        }
    }
}

TEST(gradients_are_of_their_losses)
{
    uint64_t seed = 2;
    const double h = 1e-5;
    for (int trial = 0; trial < 500; trial++) {
        scores s = random_scores(&seed, trial % 2 ? 1 : 3);
        for (const xsmi_loss *const *l = xsmi_losses; *l; l++) {
            double g[MOST], missing, mu = 0.5 * (double)(1 + test_next(&seed) % 10), total = 0;
            evaluate(*l, mu, &s, g, &missing);
            for (size_t i = 0; i < s.positives + s.negatives; i++) {
                double at = s.z[i];
                s.z[i] = at + h;
                double up = evaluate(*l, mu, &s, NULL, NULL);
                s.z[i] = at - h;
                double down = evaluate(*l, mu, &s, NULL, NULL);
                s.z[i] = at;
                double slope = (up - down) / (2 * h);
                /* At a corner of triplet, or of margin's gradient, differences lie between both sides. */
                double room = *l == &xsmi_loss_triplet ? 1e-4 : 1e-7 + 2 * h / mu;
                if (!(fabs(slope - g[i]) <= room * (1 + fabs(g[i])))) {
                    fail_msg("%s: place %zu: %.9g by differences, %.9g by the gradient", (*l)->name, i, slope, g[i]);
                }
                total += g[i];
            }
            /* A shift of all scores, those that are missing too, changes nothing. */
            assert_true(fabs(total + s.missing * missing) <= 1e-10 * (1 + s.missing * fabs(missing)));
        }
    }
}

/* `missing` classes are as many listed ones with the score 0. */
TEST(missing_classes_count)
{
    uint64_t seed = 3;
    for (int trial = 0; trial < 1000; trial++) {
        scores s = random_scores(&seed, 2), listed = s;
        for (int i = 0; i < (int)s.missing; i++) {
            listed.z[listed.positives + listed.negatives++] = 0;
        }
        listed.missing = 0;
        for (const xsmi_loss *const *l = xsmi_losses; *l; l++) {
            double g[MOST], all[MOST], missing, none;
            double value = evaluate(*l, 1.5, &s, g, &missing), want = evaluate(*l, 1.5, &listed, all, &none);
            assert_true(fabs(value - want) <= 1e-12 * (1 + fabs(want)));
            assert_true(none == 0 && (s.missing > 0 || missing == 0));
            for (size_t i = 0; i < listed.positives + listed.negatives; i++) {
                double have = i < s.positives + s.negatives ? g[i] : missing;
                assert_true(fabs(have - all[i]) <= 1e-12 * (1 + fabs(all[i])));
            }
        }
    }
}

TEST(classes_below_the_least_score_have_no_part)
{
    uint64_t seed = 4;
    for (int trial = 0; trial < 2000; trial++) {
        scores s = random_scores(&seed, 4);
        s.missing = 0;
        double low = INFINITY, high = -INFINITY, mu = 0.25 * (double)(1 + test_next(&seed) % 20), g[MOST];
        for (size_t i = 0; i < s.positives + s.negatives; i++) {
            low = i < s.positives ? fmin(low, s.z[i]) : low;
            high = i < s.positives ? high : fmax(high, s.z[i]);
        }
        for (const xsmi_loss *const *l = xsmi_losses; *l && s.negatives; l++) {
            if ((*l)->least) {
                double bar = (*l)->least(mu, low, high);
                double value = evaluate(*l, mu, &s, g, NULL);
                scores moved = s;
                for (size_t i = s.positives; i < s.positives + s.negatives; i++) {
                    assert_true(s.z[i] > bar || g[i] == 0);
                    moved.z[i] = s.z[i] > bar ? s.z[i] : s.z[i] - 5;
                }
                assert_true(fabs(evaluate(*l, mu, &moved, NULL, NULL) - value) <= 1e-12 * (1 + value));
            }
        }
    }
}

/* -- constants ---------------------------------------------------------------------------------------------------- */

static double norm(const double *a, const double *b, size_t n, int kind)
{
    double sum = 0, most = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (a[i] - b[i]) * (a[i] - b[i]);
        most = fmax(most, fabs(a[i] - b[i]));
    }
    return kind == 2 ? sqrt(sum) : most;
}

TEST(lipschitz_bounds_hold_and_are_reached)
{
    uint64_t seed = 5;
    for (const xsmi_loss *const *l = xsmi_losses; *l; l++) {
        double nearest = 0, smoothest = 0;
        for (int trial = 0; trial < 20000; trial++) {
            scores a = random_scores(&seed, 3);
            a.missing = 0;
            a.negatives += a.negatives == 0;
            a.z[a.positives + a.negatives - 1] = 0.5;
            if (trial % 4 == 0) { /* two classes that take turns, where the bounds are reached */
                a.positives = a.negatives = 1;
                a.z[0] = 0.3 * test_uniform(&seed);
                a.z[1] = 0.3 * test_uniform(&seed);
            }
            scores b = a;
            double g[MOST], other[MOST], mu = 0.5 * (double)(1 + test_next(&seed) % 10);
            size_t n = a.positives + a.negatives;
            double size = test_next(&seed) % 2 ? 0.1 : 30;
            for (size_t i = 0; i < n; i++) {
                b.z[i] += trial % 3 ? size * (test_uniform(&seed) - 0.5) : i < a.positives ? -size : size;
            }
            double change = fabs(evaluate(*l, mu, &a, g, NULL) - evaluate(*l, mu, &b, other, NULL));
            double bound = (*l)->lipschitz((double)a.positives, (double)a.negatives) * norm(a.z, b.z, n, 0);
            assert_true(change <= bound * (1 + 1e-12));
            nearest = fmax(nearest, change / bound);
            double smooth = (*l)->smoothness(mu, (double)a.positives) * norm(a.z, b.z, n, 2);
            double turn = norm(g, other, n, 2);
            assert_true(turn <= smooth * (1 + 1e-9));
            smoothest = fmax(smoothest, turn / smooth);
        }
        assert_true(nearest > 0.9); /* no smaller constant would do */
        assert_true(*l == &xsmi_loss_triplet ? smoothest == 0 : smoothest > 0.9);
    }
}

/* -- the projection ------------------------------------------------------------------------------------------------ */

static double side(const double *v, const double *w, size_t n, double t)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += v[i] > t ? w[i] * (v[i] - t) : 0;
    }
    return sum;
}

/* The threshold at which a side sums to `sum`, by bisection. */
static double threshold(const double *v, const double *w, size_t n, double sum)
{
    double low = -1e4, high = 1e4;
    for (int i = 0; i < 200; i++) {
        double middle = (low + high) / 2;
        *(side(v, w, n, middle) > sum ? &low : &high) = middle;
    }
    return (low + high) / 2;
}

TEST(projection_is_that_of_bisection)
{
    uint64_t seed = 6;
    for (int trial = 0; trial < 4000; trial++) {
        size_t n = 1 + test_next(&seed) % 40, k = 1 + test_next(&seed) % 6;
        double b[40], c[6], w[40], ones[6] = {1, 1, 1, 1, 1, 1}, size = trial % 3 ? 1 : 20;
        double shift = trial % 5 == 0 ? 1000 : trial % 5 == 1 ? -0.5 : 0;
        for (size_t i = 0; i < n; i++) {
            b[i] = (trial % 7 ? size * (test_uniform(&seed) - 0.5) : (double)(test_next(&seed) % 3) / 4);
            w[i] = trial % 2 ? 1 : (double)(1 + test_next(&seed) % 4);
        }
        for (size_t i = 0; i < k; i++) {
            c[i] = (trial % 7 ? size * (test_uniform(&seed) - 0.5) : (double)(test_next(&seed) % 3) / 4);
        }
        xsmi_points on_b = {b, trial % 2 ? NULL : w, n}, on_c = {c, NULL, k};
        assert_true(xsmi_bisimplex_scratch(n, k) <= SCRATCH);
        xsmi_bisimplex p = xsmi_bisimplex_project(&on_b, &on_c, shift, scratch);
        /* The sum is where the thresholds of the two sides, which fall in it, add up to 0; or at the end of [0, 1]. */
        double low = 0, high = 1;
        for (int i = 0; i < 100; i++) {
            double sum = (low + high) / 2;
            *(threshold(b, w, n, sum) + threshold(c, ones, k, sum) + shift > 0 ? &low : &high) = sum;
        }
        double sum = (low + high) / 2;
        assert_true(fabs(p.sum - sum) <= 1e-9);
        assert_true(fabs(side(b, w, n, p.t_b) - p.sum) <= 1e-10);
        assert_true(fabs(side(c, ones, k, p.t_c) - p.sum) <= 1e-10);
        if (sum > 1e-6) {
            assert_true(fabs(p.t_b - threshold(b, w, n, sum)) <= 1e-7);
            assert_true(fabs(p.t_c - threshold(c, ones, k, sum)) <= 1e-7);
        }
    }
}

/* Lists that a pivot could be slow on: equal entries, sorted ones, and steps that shrink. */
TEST(projections_of_long_lists)
{
    enum { LONG = 200000 };
    HELD_MEMORY(double, b) = calloc(LONG, sizeof *b);
    HELD_MEMORY(double, w) = calloc(LONG, sizeof *w);
    HELD_MEMORY(double, room) = calloc(2 * LONG + 2, sizeof *room);
    assert_true(b && w && room);
    double c = 0.25, one = 1;
    for (int kind = 0; kind < 5; kind++) {
        for (size_t i = 0; i < LONG; i++) {
            double x = (double)i / LONG;
            b[i] = kind == 0 ? 0.5 : kind == 1 ? x : kind == 2 ? 1 - x : kind == 3 ? ldexp(1, -(int)(i % 1000)) : x * x;
            w[i] = 1;
        }
        xsmi_points on_b = {b, NULL, LONG}, on_c = {&c, NULL, 1};
        xsmi_bisimplex p = xsmi_bisimplex_project(&on_b, &on_c, 0, room);
        assert_true(fabs(side(b, w, LONG, p.t_b) - p.sum) <= 1e-9 && fabs(side(&c, &one, 1, p.t_c) - p.sum) <= 1e-9);
        assert_true(p.sum == 1 ? p.t_b + p.t_c >= 0 : fabs(p.t_b + p.t_c) < 1e-12);
    }
}

/* -- Theorem 1 ----------------------------------------------------------------------------------------------------- */

/* L(sum_j z_j) is at most the mean of L(B (z_j + lambda_j)) for any lambda that sums to 0, and equal to it for
 * lambda_j = z/B - z_j. */
TEST(theorem_1)
{
    enum { BLOCKS = 4 };
    uint64_t seed = 7;
    for (int trial = 0; trial < 2000; trial++) {
        scores parts[BLOCKS], whole = random_scores(&seed, 2);
        whole.missing = 0;
        size_t n = whole.positives + whole.negatives;
        memset(whole.z, 0, sizeof whole.z);
        for (int j = 0; j < BLOCKS; j++) {
            parts[j] = whole;
            for (size_t i = 0; i < n; i++) {
                parts[j].z[i] = 4 * test_uniform(&seed) - 2;
            }
        }
        for (int j = 0; j < BLOCKS; j++) {
            for (size_t i = 0; i < n; i++) {
                whole.z[i] += parts[j].z[i];
            }
        }
        for (const xsmi_loss *const *l = xsmi_losses; *l; l++) {
            double want = evaluate(*l, 1.25, &whole, NULL, NULL), least = 0, mean = 0, last[MOST] = {0};
            for (int j = 0; j < BLOCKS; j++) {
                scores best = whole, moved = whole;
                for (size_t i = 0; i < n; i++) {
                    double lambda = j + 1 < BLOCKS ? test_uniform(&seed) - 0.5 : -last[i];
                    last[i] += lambda;
                    moved.z[i] = BLOCKS * (parts[j].z[i] + lambda);
                    best.z[i] = BLOCKS * (parts[j].z[i] + (whole.z[i] / BLOCKS - parts[j].z[i]));
                }
                mean += evaluate(*l, 1.25, &moved, NULL, NULL) / BLOCKS;
                least += evaluate(*l, 1.25, &best, NULL, NULL) / BLOCKS;
            }
            assert_true(mean >= want - 1e-12 * (1 + want));
            assert_true(fabs(least - want) <= 1e-10 * (1 + want));
        }
    }
}

/* Scores far out overflow nothing. */
TEST(scores_far_out)
{
    for (const xsmi_loss *const *l = xsmi_losses; *l; l++) {
        scores s = {.z = {-1e4, 1e4, 9999.5, -1e4, 0}, .positives = 2, .negatives = 3, .missing = 7};
        for (int turn = 0; turn < 2; turn++) {
            double g[MOST], missing, value = evaluate(*l, 1, &s, g, &missing), total = 7 * missing;
            assert_true(isfinite(value) && fabs(value - written_out((*l)->name, &s)) <= 1);
            for (int i = 0; i < 5; i++) {
                total += g[i];
            }
            assert_true(fabs(total) < 1e-9);
            s.z[0] = 1e4; /* then all is well, but for the one that is close */
        }
    }
}

/* The names in XSMI_LOSSES are those of the tables. */
TEST(names_are_those_of_the_tables)
{
    size_t count = 0;
    for (; xsmi_losses[count]; count++) {
        assert_non_null(xsmi_loss_names[count]);
        assert_string_equal(xsmi_loss_names[count], xsmi_losses[count]->name);
    }
    assert_null(xsmi_loss_names[count]);
}
