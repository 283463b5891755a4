/*
 * Tests of samplers: draws follow the probabilities, with and without replacement; probabilities have the right values
 * and sum to one; lists for estimators, options, errors, and tables of a host. Draws use fixed seeds. With a true
 * random source each chi-square would fail for one seed in a million.
 */
#include "training.h"

#include "base/random.h"
#include "math/alias.h"
#include "sampler/sampler.h"

#include <math.h>
#include <string.h>

#include <xsoftmax/draw.h>

enum { FEATURES = 4, CLASSES = 7, ROWS = 300 };

/* Chi-square that is exceeded once in a million, about (Wilson and Hilferty 1931). */
static double chi_limit(double freedom)
{
    double t = 1 - 2 / (9 * freedom) + 4.7534 * sqrt(2 / (9 * freedom));
    return freedom * t * t * t;
}

/* Rows whose class counts are far from even; the last class has none. */
static xsm_dataset *uneven_data(test_problem *p)
{
    *p = test_problem_new(ROWS, FEATURES, CLASSES, false, 3);
    uint32_t labels[ROWS];
    for (uint32_t i = 0; i < ROWS; i++) {
        labels[i] = i < 160 ? 0 : i < 240 ? 1 : i < 280 ? 2 : i < 290 ? 3 : i < 298 ? 4 : 5;
    }
    return test_relabel(p, false, CLASSES, NULL, labels);
}

static xsm_sampler *bound_sampler(const char *name, const char *key, const char *value, const xsm_dataset *data)
{
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_sampler, s, xsm_sampler_new(NULL, name, &s, &err));
    if (key) {
        assert_ok(xsm_sampler_set(s, key, value, &err), err);
    }
    assert_ok(xsm_sampler_bind(s, data, &err), err);
    return s;
}

/* As error.h says of functions without a status. */
TEST(no_stream_gives_zero)
{
    assert_int_equal(xsm_random_bits(NULL), 0);
    assert_int_equal(xsm_random_below(NULL, 7), 0);
    assert_true(xsm_random_uniform(NULL) == 0);
}

/* -- parts -------------------------------------------------------------------------------------------------------- */

/* The probabilities that a table's columns come to, exactly. */
TEST(alias_tables_hold_their_weights)
{
    HELD(xsm_context, ctx) = test_context(1, TEST_BUILT_IN, 0);
    uint64_t seed = 4;
    for (uint32_t n = 1; n < 200; n += n < 20 ? 1 : 37) {
        for (int kind = 0; kind < 4; kind++) {
            double weights[200], total = 0, found[200] = {0};
            for (uint32_t k = 0; k < n; k++) {
                double u = test_uniform(&seed);
                weights[k] = kind == 0 ? 1 : kind == 1 ? u : kind == 2 ? exp(40 * u) : u < 0.5 && k > 0 ? 0 : u;
                total += weights[k];
            }
            xsmi_alias table;
            assert_ok(xsmi_alias_new(ctx, weights, n, &table, &err), err);
            for (uint32_t k = 0; k < n; k++) {
                double own = table.columns[k].threshold * 0x1p-32;
                found[k] += own / n;
                found[table.columns[k].alias] += (1 - own) / n;
            }
            for (uint32_t k = 0; k < n; k++) {
                assert_true(fabs(found[k] - weights[k] / total) <
                            1e-9 / n + 1e-9 * weights[k] / total + n * 0x1p-32 / n);
                assert_true(weights[k] > 0 || found[k] == 0);
            }
            xsmi_alias_clear(ctx, &table);
        }
    }
}

TEST(sets_without_some_classes)
{
    static const uint32_t excluded[] = {5, 0, 6};
    uint32_t seen[1 << 8] = {0};
    enum { DRAWS = 20000 };
    for (uint32_t i = 0; i < DRAWS; i++) {
        uint32_t out[2];
        xsmi_stream stream;
        xsmi_stream_start(&stream, 9, XSMI_STREAM_NEGATIVES, i);
        xsmi_stream_without(&stream, 8, excluded, 3, 2, out);
        seen[1u << out[0] | 1u << out[1]]++;
    }
    double chi = 0;
    uint32_t sets = 0;
    for (uint32_t set = 0; set < 1u << 8; set++) {
        bool possible = __builtin_popcount(set) == 2 && !(set & (1u << 5 | 1u << 0 | 1u << 6));
        double off = seen[set] - DRAWS / 10.0;
        sets += possible;
        chi += possible ? off * off / (DRAWS / 10.0) : 0;
        assert_true(possible || seen[set] == 0);
    }
    assert_int_equal(sets, 10);
    assert_true(chi < chi_limit(9));
    for (uint32_t m = 0; m <= 5; m++) { /* all that are left, in order */
        uint32_t out[5];
        static const uint32_t left[] = {1, 2, 3, 4, 7};
        xsmi_stream stream;
        xsmi_stream_start(&stream, 9, XSMI_STREAM_NEGATIVES, m);
        xsmi_stream_without(&stream, 8, excluded, 3, m, out);
        assert_true(m < 5 || memcmp(out, left, sizeof left) == 0);
    }
}

/* -- distributions ------------------------------------------------------------------------------------------------ */

static const struct {
    const char *name, *key, *value;
    double power, smoothing;
} kinds[] = {
    {"uniform", NULL, NULL, 0, 1},
    {"frequency", NULL, NULL, 1, 1},
    {"frequency", "power", "0.75", 0.75, 1},
    {"frequency", "smoothing", "0", 1, 0},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void wanted_probabilities(int kind, const xsm_dataset *data, double *q)
{
    const uint64_t *counts = test_class_counts(data);
    double total = 0;
    for (int k = 0; k < CLASSES; k++) {
        q[k] = pow((double)counts[k] + kinds[kind].smoothing, kinds[kind].power);
        total += q[k];
    }
    for (int k = 0; k < CLASSES; k++) {
        q[k] /= total;
    }
}

TEST(draws_are_as_their_probabilities_say)
{
    enum { N = ROWS, M = 64 };
    static uint32_t classes[N * M];
    static double log_q[N * M];
    test_problem p;
    xsm_dataset *data = uneven_data(&p);
    xsm_batch batch = xsm_batch_range(data, 0, N);
    for (int kind = 0; kind < KINDS; kind++) {
        HELD(xsm_sampler, s) = bound_sampler(kinds[kind].name, kinds[kind].key, kinds[kind].value, data);
        double q[CLASSES], sum = 0, chi = 0;
        float all[CLASSES];
        wanted_probabilities(kind, data, q);
        xsm_batch one = xsm_batch_range(data, 1, 1);
        assert_ok(xsm_sampler_log_probabilities(s, &one, 0, CLASSES, all, &err), err);
        assert_ok(xsm_sampler_draw(s,
                                   STRUCT(xsm_draw, .batch = &batch, .seed = 5, .position = 1000, .count = M,
                                          .classes = classes, .log_probabilities = log_q),
                                   &err),
                  err);
        uint32_t seen[CLASSES] = {0}, freedom = 0;
        for (int i = 0; i < N * M; i++) {
            assert_true(fabs(log_q[i] - log(q[classes[i]])) < 1e-12);
            seen[classes[i]]++;
        }
        for (int k = 0; k < CLASSES; k++) {
            sum += exp((double)all[k]);
            assert_true(q[k] > 0 ? fabs((double)all[k] - log(q[k])) < 1e-6 : isinf(all[k]) && all[k] < 0);
            assert_true(q[k] > 0 || seen[k] == 0);
            double off = seen[k] - q[k] * N * M;
            chi += q[k] > 0 ? off * off / (q[k] * N * M) : 0;
            freedom += q[k] > 0;
        }
        assert_true(fabs(sum - 1) < 1e-6);
        assert_true(chi < chi_limit(freedom - 1));
    }
    xsm_dataset_free(data);
    test_problem_free(&p);
}

/* Pairs without replacement: the first from q, the second from what is left. */
TEST(distinct_draws_are_successive)
{
    enum { N = ROWS, REPEATS = 40 };
    uint32_t classes[N * 2];
    test_problem p;
    xsm_dataset *data = uneven_data(&p);
    xsm_batch batch = xsm_batch_range(data, 0, N);
    for (int kind = 0; kind < KINDS; kind++) {
        HELD(xsm_sampler, s) = bound_sampler(kinds[kind].name, kinds[kind].key, kinds[kind].value, data);
        double q[CLASSES], chi = 0, freedom = -1;
        uint32_t seen[CLASSES][CLASSES] = {{0}};
        wanted_probabilities(kind, data, q);
        for (uint64_t r = 0; r < REPEATS; r++) {
            assert_ok(xsm_sampler_draw(s,
                                       STRUCT(xsm_draw, .batch = &batch, .seed = 6, .position = r * N, .count = 2,
                                              .distinct = 1, .classes = classes),
                                       &err),
                      err);
            for (int i = 0; i < N; i++) {
                seen[classes[2 * i]][classes[2 * i + 1]]++;
            }
        }
        for (int a = 0; a < CLASSES; a++) {
            for (int b = 0; b < CLASSES; b++) {
                double want = a == b ? 0 : q[a] * q[b] / (1 - q[a]) * N * REPEATS;
                double off = seen[a][b] - want;
                assert_true(want > 0 || seen[a][b] == 0);
                chi += want > 0 ? off * off / want : 0;
                freedom += want > 0;
            }
        }
        assert_true(chi < chi_limit(freedom));
        uint32_t most = kinds[kind].smoothing > 0 ? CLASSES : CLASSES - 1;
        uint32_t every[CLASSES], mask = 0;
        xsm_batch one = xsm_batch_range(data, 1, 1);
        assert_ok(
            xsm_sampler_draw(
                s, STRUCT(xsm_draw, .batch = &one, .seed = 6, .count = most, .distinct = 1, .classes = every), &err),
            err);
        for (uint32_t k = 0; k < most; k++) {
            mask |= 1u << every[k];
        }
        assert_int_equal(mask, (1u << most) - 1);
        assert_fails(xsm_sampler_draw(
                         s,
                         STRUCT(xsm_draw, .batch = &one, .seed = 6, .count = most + 1, .distinct = 1, .classes = every),
                         &err),
                     XSM_ERROR_RANGE, err);
    }
    xsm_dataset_free(data);
    test_problem_free(&p);
}

/* The same draws on any number of threads, and those of a row do not depend on the other rows. */
TEST(draws_do_not_depend_on_threads)
{
    enum { M = 5 };
    uint32_t first[ROWS * M], other[ROWS * M];
    test_problem p;
    xsm_dataset *data = uneven_data(&p);
    for (int kind = 0; kind < KINDS; kind++) {
        for (int32_t distinct = 0; distinct < 2; distinct++) {
            for (int i = 0; i < 3; i++) {
                HELD(xsm_context, ctx) = test_context(i == 0 ? 1 : 3, i < 2 ? TEST_BUILT_IN : TEST_REVERSED, 0);
                MADE(xsm_sampler, s, xsm_sampler_new(ctx, kinds[kind].name, &s, &err));
                assert_ok(xsm_sampler_bind(s, data, &err), err);
                xsm_batch batch = xsm_batch_range(data, 0, ROWS), tail = xsm_batch_range(data, ROWS - 10, 10);
                assert_ok(xsm_sampler_draw(s,
                                           STRUCT(xsm_draw, .batch = &batch, .seed = 2, .position = 70, .count = M,
                                                  .distinct = distinct, .classes = i ? other : first),
                                           &err),
                          err);
                assert_memory_equal(first, i ? other : first, sizeof first);
                assert_ok(xsm_sampler_draw(s,
                                           STRUCT(xsm_draw, .batch = &tail, .seed = 2, .position = 70 + ROWS - 10,
                                                  .count = M, .distinct = distinct, .classes = other),
                                           &err),
                          err);
                assert_memory_equal(first + (ROWS - 10) * M, other, 10 * M * sizeof *other);
            }
        }
    }
    xsm_dataset_free(data);
    test_problem_free(&p);
}

/* -- lists -------------------------------------------------------------------------------------------------------- */

/* Against the draws themselves, counted the plain way. */
TEST(lists_are_the_draws)
{
    enum { MOST = 200 };
    test_problem p;
    xsm_dataset *data = uneven_data(&p);
    xsm_sampler *s = bound_sampler("frequency", NULL, NULL, data);
    static const uint32_t labels[] = {3, 0, 5};
    static const uint32_t counts[] = {0, 1, 2, 5, 31, 32, 33, MOST};
    for (uint64_t position = 0; position < 200; position++) {
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            uint32_t drawn[MOST], classes[MOST + 3], draws[MOST + 3], times[CLASSES] = {0};
            double log_q[MOST], log_expected[MOST + 3], of_class[CLASSES];
            xsm_batch one = xsm_batch_range(data, 1, 1);
            assert_ok(xsm_sampler_draw(s,
                                       STRUCT(xsm_draw, .batch = &one, .seed = 8, .position = position,
                                              .count = counts[c], .classes = drawn, .log_probabilities = log_q),
                                       &err),
                      err);
            for (uint32_t j = 0; j < counts[c]; j++) {
                times[drawn[j]]++;
                of_class[drawn[j]] = log_q[j] + log((double)counts[c]);
            }
            for (uint32_t kind = 0; kind < 9; kind++) {
                uint32_t label_count = 1 + kind / 3;
                xsmi_draw_fault fault = {.met = 0};
                xsmi_draw_rule rule = {counts[c], kind % 3 == 1, kind % 3 == 2, &fault};
                uint32_t n;
                xsmi_draw_list list = {NULL, position, labels, label_count, classes, log_expected, draws, &n};
                xsmi_sampler_lists(s, &rule, 8, &list, 1);
                uint32_t mask = 0, total = 0;
                for (uint32_t j = 0; j < n; j++) {
                    uint32_t k = classes[j];
                    assert_true(!(mask >> k & 1));
                    mask |= 1u << k;
                    total += draws[j];
                    if (j < label_count) {
                        assert_int_equal(k, labels[j]);
                        assert_int_equal(draws[j], rule.exclude_labels ? 0 : times[k]);
                    } else {
                        assert_true(times[k] > 0);
                        assert_int_equal(draws[j], times[k]);
                    }
                    if (times[k] > 0) {
                        assert_true(fabs(log_expected[j] - of_class[k]) < 1e-12);
                    } else if (rule.label_probabilities && counts[c] > 0) {
                        uint64_t rows = test_class_counts(data)[k] + 1;
                        assert_true(fabs(log_expected[j] - log((double)counts[c] * (double)rows / (ROWS + CLASSES))) <
                                    1e-12);
                    }
                }
                uint32_t want = counts[c];
                for (uint32_t j = 0; rule.exclude_labels && j < label_count; j++) {
                    want -= times[labels[j]];
                }
                assert_int_equal(total, want);
            }
        }
    }
    xsm_sampler_free(s);
    s = bound_sampler("uniform", NULL, NULL, data);
    for (uint32_t m = 0; m < CLASSES + 3; m++) { /* the others, without replacement */
        uint32_t classes[2 * CLASSES], draws[2 * CLASSES];
        double log_expected[2 * CLASSES];
        xsmi_draw_fault fault = {.met = 0};
        xsmi_draw_rule rule = {m, true, false, &fault};
        uint32_t n;
        xsmi_draw_list list = {NULL, m, labels, 3, classes, log_expected, draws, &n};
        xsmi_sampler_lists(s, &rule, 8, &list, 1);
        uint32_t left = m < CLASSES - 3 ? m : CLASSES - 3, mask = 0;
        assert_int_equal(n, 3 + left);
        for (uint32_t j = 0; j < n; j++) {
            assert_true(!(mask >> classes[j] & 1));
            mask |= 1u << classes[j];
            assert_int_equal(draws[j], j >= 3);
            assert_true(j < 3 || fabs(log_expected[j] - log((double)left / (CLASSES - 3))) < 1e-12);
        }
    }
    xsm_sampler_free(s);
    xsm_dataset_free(data);
    test_problem_free(&p);
}

/* -- a host's own -------------------------------------------------------------------------------------------------- */

/* Draws the class that the row's first feature points at, or the one after it, equally often. */
typedef struct pointing {
    uint32_t classes;
    int64_t fails;
} pointing;

static int unbound;

static xsm_status point_bind(void *state, const xsm_sampler_problem *problem, xsm_error *err)
{
    pointing *s = state;
    (void)err;
    s->classes = problem->classes;
    assert_int_equal(problem->examples, ROWS);
    return s->fails ? XSM_ERROR_DATA : XSM_OK;
}

static void point_unbind(void *state)
{
    (void)state;
    unbound++;
}

static uint32_t point_length(const void *state)
{
    (void)state;
    return 1;
}

static void point_encode(const void *state, const xsm_row *row, float *code)
{
    double at = fabs((double)row->values[0]) * 1000;
    code[0] = (float)((uint32_t)at % ((const pointing *)state)->classes);
}

static void point_draw(const void *state, const float *code, xsm_random *random, uint32_t count, uint32_t *classes,
                       double *log_probabilities)
{
    const pointing *s = state;
    for (uint32_t j = 0; j < count; j++) {
        bool next =
            xsm_random_uniform(random) < 0.25 ? xsm_random_bits(random) >> 31 : xsm_random_below(random, 2) == 1;
        classes[j] = ((uint32_t)code[0] + next) % s->classes;
        log_probabilities[j] = -log(2.0);
    }
}

static double point_log_probability(const void *state, const float *code, uint32_t k)
{
    const pointing *s = state;
    uint32_t at = (uint32_t)code[0];
    return k == at || k == (at + 1) % s->classes ? -log(2.0) : (double)-INFINITY;
}

static const xsm_option point_options[] = {
    {sizeof(xsm_option), "fails", XSM_OPTION_INT, offsetof(pointing, fails), "0", 0, 1, NULL, "makes bind() fail"},
};
static const xsm_sampler_ops point_ops = {
    .size = sizeof(xsm_sampler_ops),
    .abi = XSM_EXT_ABI_VERSION,
    .name = "point",
    .summary = "a host's own",
    .state_size = sizeof(pointing),
    .options = point_options,
    .option_count = 1,
    .bind = point_bind,
    .unbind = point_unbind,
    .code_length = point_length,
    .encode = point_encode,
    .draw = point_draw,
    .log_probability = point_log_probability,
};

TEST(host_table_works)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 2);
    MADE(xsm_sampler, s, xsm_sampler_new_from(NULL, &point_ops, &s, &err));
    assert_string_equal(test_sampler_info(s).name, "point");
    xsm_sampler_info info = XSM_SAMPLER_INFO_INIT;
    assert_fails(xsm_sampler_get_info(NULL, &info, &err), XSM_ERROR_ARGUMENT, err);
    assert_int_equal(test_sampler_info(s).classes, 0);
    uint32_t drawn[ROWS * 2];
    float all[CLASSES];
    xsm_batch batch = xsm_batch_range(p.data, 0, ROWS), one = xsm_batch_range(p.data, 3, 1);
    assert_fails(xsm_sampler_draw(s, STRUCT(xsm_draw, .batch = &batch, .seed = 1, .count = 2, .classes = drawn), &err),
                 XSM_ERROR_STATE, err);
    unbound = 0;
    assert_ok(xsm_sampler_set_number(s, "fails", 1, &err), err);
    assert_int_equal(xsm_sampler_bind(s, p.data, &err), XSM_ERROR_DATA);
    assert_int_equal(unbound, 1);
    assert_ok(xsm_sampler_set_number(s, "fails", 0, &err), err);
    assert_ok(xsm_sampler_bind(s, p.data, &err), err);
    assert_int_equal(test_sampler_info(s).classes, CLASSES);
    assert_fails(xsm_sampler_set(s, "fails", "1", &err), XSM_ERROR_STATE, err);
    assert_ok(xsm_sampler_draw(s, STRUCT(xsm_draw, .batch = &batch, .seed = 1, .count = 2, .classes = drawn), &err),
              err);
    uint32_t nexts = 0;
    for (int i = 0; i < ROWS * 2; i++) {
        uint32_t at = (uint32_t)(fabs((double)p.x[i / 2 * FEATURES]) * 1000) % CLASSES;
        assert_true(drawn[i] == at || drawn[i] == (at + 1) % CLASSES);
        nexts += drawn[i] != at;
    }
    assert_true(nexts > 235 && nexts < 365); /* five standard deviations and more */
    assert_ok(xsm_sampler_log_probabilities(s, &one, 0, CLASSES, all, &err), err);
    double sum = 0;
    for (int k = 0; k < CLASSES; k++) {
        sum += exp((double)all[k]);
    }
    assert_true(fabs(sum - 1) < 1e-6);
    assert_ok(xsm_sampler_draw(
                  s, STRUCT(xsm_draw, .batch = &batch, .seed = 1, .count = 2, .distinct = 1, .classes = drawn), &err),
              err);
    assert_fails(
        xsm_sampler_draw(s, STRUCT(xsm_draw, .batch = &batch, .seed = 1, .count = 3, .distinct = 1, .classes = drawn),
                         &err),
        XSM_ERROR_RANGE, err);

    /* and an estimator draws with it, by the codes of the training rows; not one that asks for a label's probability */
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    xsm_gradient *g = test_gradient(NULL);
    xsm_estimator *e = test_estimator(NULL, "nce", "negatives=3");
    assert_ok(xsm_estimator_set_sampler(e, s, &err), err);
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    assert_fails(xsm_estimator_gradient(e, &batch, 1, g, &err), XSM_ERROR_RANGE, err);
    assert_non_null(strstr(err.message, "log q = -inf"));
    xsm_estimator_free(e);
    e = test_estimator(NULL, "sampled-softmax", "negatives=3");
    assert_string_equal(test_sampler_info(test_estimator_info(e).sampler).name, "uniform");
    assert_ok(xsm_estimator_set_sampler(e, s, &err), err);
    assert_ptr_equal(test_estimator_info(e).sampler, s);
    char text[16];
    assert_int_equal(xsm_estimator_get(e, "sampler", text, sizeof text), 5);
    assert_string_equal(text, "point");
    assert_int_equal(xsm_estimator_get(e, "sampler.fails", text, sizeof text), 1);
    assert_fails(xsm_estimator_set(e, "sampler.fails", "1", &err), XSM_ERROR_STATE, err);
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    assert_fails(xsm_estimator_set_sampler(e, NULL, &err), XSM_ERROR_STATE, err);
    assert_ok(xsm_estimator_gradient(e, &batch, 1, g, &err), err);
    xsm_gradient_view view = test_view(g);
    for (uint64_t i = 0; i < ROWS; i++) {
        uint32_t at = (uint32_t)(fabs((double)p.x[i * FEATURES]) * 1000) % CLASSES;
        for (uint32_t j = 1; j < view.lengths[i]; j++) {
            uint32_t k = view.classes[i * view.width + j];
            assert_true(k == at || k == (at + 1) % CLASSES);
        }
    }
    xsm_gradient_free(g);
    xsm_estimator_free(e);
}

static void refuse(const xsm_sampler_ops *ops, xsm_status wanted)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_sampler *s = (xsm_sampler *)&err;
    assert_fails(xsm_sampler_new_from(NULL, ops, &s, &err), wanted, err);
    assert_ptr_equal(s, (xsm_sampler *)&err);
}

TEST(bad_tables_are_refused)
{
    xsm_sampler_ops ops = point_ops;
#define REFUSE(member, value, wanted)                                                                                  \
    do {                                                                                                               \
        ops = point_ops;                                                                                               \
        ops.member = value;                                                                                            \
        refuse(&ops, wanted);                                                                                          \
    } while (0)
    REFUSE(name, NULL, XSM_ERROR_ARGUMENT);
    REFUSE(summary, NULL, XSM_ERROR_ARGUMENT);
    REFUSE(bind, NULL, XSM_ERROR_ARGUMENT);
    REFUSE(draw, NULL, XSM_ERROR_ARGUMENT);
    REFUSE(log_probability, NULL, XSM_ERROR_ARGUMENT);
    REFUSE(encode, NULL, XSM_ERROR_ARGUMENT);
    REFUSE(code_length, NULL, XSM_ERROR_ARGUMENT);
    REFUSE(flags, 1, XSM_ERROR_ARGUMENT);
    REFUSE(abi, 0, XSM_ERROR_ABI);
    REFUSE(size, 8, XSM_ERROR_STRUCT_OLD);
    REFUSE(options, NULL, XSM_ERROR_ARGUMENT);
    REFUSE(state_size, 4, XSM_ERROR_ARGUMENT);
#undef REFUSE
}

/* -- options and errors -------------------------------------------------------------------------------------------- */

TEST(options_reach_the_sampler)
{
    xsm_estimator *e = test_estimator(NULL, "sampled-softmax", "");
    char text[32];
    assert_fails(xsm_estimator_set(e, "sampler", "unifrom", &err), XSM_ERROR_FORMAT, err);
    assert_fails(xsm_estimator_set(e, "sampler.power", "0.5", &err), XSM_ERROR_NAME, err);
    assert_ok(xsm_estimator_set(e, "sampler", "frequency", &err), err);
    assert_ok(xsm_estimator_set(e, "sampler.power", "0.5", &err), err);
    assert_ok(xsm_estimator_set_number(e, "sampler.smoothing", 2.5, &err), err);
    assert_ok(xsm_estimator_set_number(e, "sampler.seed", 77, &err), err);
    assert_fails(xsm_estimator_set(e, "sampler.pwoer", "0.5", &err), XSM_ERROR_NAME, err);
    assert_non_null(strstr(err.message, "'power'"));
    assert_fails(xsm_estimator_set(e, "sampler.power", "-1", &err), XSM_ERROR_RANGE, err);
    xsm_estimator_get(e, "sampler.power", text, sizeof text);
    assert_string_equal(text, "0.5");
    xsm_estimator_get(e, "sampler.smoothing", text, sizeof text);
    assert_string_equal(text, "2.5");
    xsm_estimator_get(e, "sampler.seed", text, sizeof text);
    assert_string_equal(text, "77");
    xsm_estimator_get(e, "sampler", text, sizeof text);
    assert_string_equal(text, "frequency");
    assert_int_equal(xsm_estimator_get(e, "sampler.none", text, sizeof text), SIZE_MAX);
    assert_int_equal(xsm_sampler_get(test_estimator_info(e).sampler, "none", NULL, 0), SIZE_MAX);
    assert_int_equal(xsm_estimator_get(e, "index", NULL, 0), SIZE_MAX); /* it does not search */
    xsm_estimator_free(e);
    e = test_estimator(NULL, "umax", "");
    assert_fails(xsm_estimator_set(e, "sampler", "uniform", &err), XSM_ERROR_NAME, err);
    assert_fails(xsm_estimator_set_sampler(e, NULL, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_null(test_estimator_info(e).sampler);
    xsm_estimator_free(e);
    xsm_sampler *s = NULL;
    assert_fails(xsm_sampler_new(NULL, "frequencies", &s, &err), XSM_ERROR_NAME, err);
    assert_non_null(strstr(err.message, "'frequency'"));
    assert_fails(xsm_sampler_new(NULL, NULL, &s, &err), XSM_ERROR_ARGUMENT, err);
    for (size_t i = 0; xsm_sampler_at(i); i++) {
        const xsm_sampler_ops *ops = xsm_sampler_at(i);
        assert_ptr_equal(xsm_sampler_find(ops->name), ops);
        assert_string_equal(xsmi_sampler_names[i], ops->name);
        assert_string_equal(xsm_sampler_ops_option(ops, 0)->name, "seed");
        assert_null(xsm_sampler_ops_option(ops, 1 + ops->option_count));
        assert_true(strlen(ops->summary) > 0);
    }
}

TEST(a_sampler_must_fit_the_data)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 2);
    HELD_STRUCT(test_problem, other) = test_problem_new(ROWS, FEATURES, CLASSES + 1, false, 2);
    HELD(xsm_sampler, s) = bound_sampler("uniform", NULL, NULL, other.data);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    xsm_estimator *e = test_estimator(NULL, "nce", "");
    assert_ok(xsm_estimator_set_sampler(e, s, &err), err);
    assert_fails(xsm_estimator_bind(e, m, p.data, &err), XSM_ERROR_SHAPE, err);
    assert_ok(xsm_estimator_set_sampler(e, NULL, &err), err);
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    xsm_estimator_free(e);
    e = test_estimator(NULL, "nce", "negatives=2147483647");
    assert_fails(xsm_estimator_bind(e, m, p.data, &err), XSM_ERROR_ARGUMENT, err);
    assert_ok(xsm_estimator_set(e, "sampler", "frequency", &err), err);
    xsm_estimator_free(e);
    uint32_t drawn[4];
    float all[4];
    xsm_batch batch = xsm_batch_range(other.data, 0, 1);
    assert_fails(
        xsm_sampler_draw(s, STRUCT(xsm_draw, .batch = &batch, .count = 1, .distinct = 2, .classes = drawn), &err),
        XSM_ERROR_RANGE, err);
    assert_fails(xsm_sampler_draw(s, STRUCT(xsm_draw, .count = 1, .classes = drawn), &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_sampler_draw(NULL, STRUCT(xsm_draw, .batch = &batch, .count = 1, .classes = drawn), &err),
                 XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_sampler_log_probabilities(s, &batch, CLASSES, 2, all, &err), XSM_ERROR_RANGE, err);
    assert_fails(xsm_sampler_log_probabilities(s, &batch, 0, 2, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_ok(xsm_sampler_log_probabilities(s, &batch, CLASSES, 1, all, &err), err);
    HELD_STRUCT(test_problem, narrow) = test_problem_new(ROWS, FEATURES - 1, CLASSES, false, 2);
    xsm_batch wrong = xsm_batch_range(narrow.data, 0, 1);
    assert_fails(xsm_sampler_draw(s, STRUCT(xsm_draw, .batch = &wrong, .count = 1, .classes = drawn), &err),
                 XSM_ERROR_SHAPE, err);
}

/* -- memory -------------------------------------------------------------------------------------------------------- */

static xsm_status draw_some(void *state, xsm_context *ctx, xsm_error *err)
{
    const xsm_dataset *data = state;
    for (size_t i = 0; xsm_sampler_at(i); i++) {
        xsm_sampler *s = NULL;
        xsm_status status = xsm_sampler_new_from(ctx, xsm_sampler_at(i), &s, err);
        if (status != XSM_OK) {
            return status;
        }
        uint32_t drawn[6];
        xsm_batch batch = xsm_batch_range(data, 0, 3);
        status = xsm_sampler_bind(s, data, err);
        for (int32_t distinct = 0; distinct < 2 && status == XSM_OK; distinct++) {
            status = xsm_sampler_draw(
                s, STRUCT(xsm_draw, .batch = &batch, .count = 2, .distinct = distinct, .classes = drawn), err);
        }
        xsm_sampler_free(s);
        if (status != XSM_OK) {
            return status;
        }
    }
    return XSM_OK;
}

TEST(every_allocation_is_checked)
{
    test_problem p;
    xsm_dataset *data = uneven_data(&p);
    assert_true(test_every_allocation(draw_some, data) > 10);
    xsm_dataset_free(data);
    test_problem_free(&p);
}
