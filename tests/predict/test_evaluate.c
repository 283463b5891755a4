/*
 * Evaluation and prediction against a naive computation in double, over layouts, kinds of rows, labels of all sorts,
 * and numbers of threads.
 */
#include "training.h"

#include "predict/evaluate.h"

#include <xsoftmax/dataset_weights.h>
#include <xsoftmax/stored_weights.h>
#include <xsoftmax/metrics.h>
#include <xsoftmax/predict.h>

#include "golden/metrics_golden.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* -- the naive way ------------------------------------------------------------------------------------------------- */

typedef struct naive {
    uint64_t rows, known_rows, unlabelled, unseen_labels;
    double log_loss, error, precision[20];
} naive;

/* Classes by falling score, of equal scores the smaller first. `z` is used up. */
static void rank(double *z, uint32_t classes, uint32_t count, uint32_t *best)
{
    for (uint32_t place = 0; place < count; place++) {
        best[place] = UINT32_MAX;
        for (uint32_t k = 0; place < classes && k < classes; k++) {
            if (!isnan(z[k]) && (best[place] == UINT32_MAX || z[k] > z[best[place]])) {
                best[place] = k;
            }
        }
        if (place < classes) {
            z[best[place]] = (double)NAN;
        }
    }
}

static double log_sum(const double *z, uint32_t classes)
{
    double most = -INFINITY, sum = 0;
    for (uint32_t k = 0; k < classes; k++) {
        most = fmax(most, z[k]);
    }
    for (uint32_t k = 0; k < classes; k++) {
        sum += exp(z[k] - most);
    }
    return most + log(sum);
}

static naive evaluate_naively(const xsm_model *m, const test_problem *p, const xsm_dataset *data)
{
    naive n = {0};
    HELD_MEMORY(double, z) = calloc(m->classes, sizeof *z);
    assert_non_null(z);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < p->rows; i++) {
        xsm_row row = XSM_ROW_INIT;
        assert_int_equal(xsm_dataset_get_row(data, i, &row, NULL), XSM_OK);
        if (row.label_count == 0) {
            n.unlabelled++;
            continue;
        }
        n.rows++;
        for (uint32_t k = 0; k < m->classes; k++) {
            z[k] = test_score(m, k, p->x + i * p->features);
        }
        double target = 0, lse = log_sum(z, m->classes);
        uint64_t known = 0;
        for (uint64_t j = 0; j < row.label_count; j++) {
            if (row.labels[j] < m->classes) {
                target += z[row.labels[j]];
                known++;
            } else {
                n.unseen_labels++;
            }
        }
        if (known) {
            n.known_rows++;
            n.log_loss += lse - target / (double)known;
        }
        uint32_t best[20];
        rank(z, m->classes, 20, best);
        uint32_t hits = 0;
        for (uint32_t k = 0; k < 20; k++) {
            for (uint64_t j = 0; j < row.label_count; j++) {
                hits += best[k] != UINT32_MAX && row.labels[j] == best[k];
            }
            n.precision[k] += (double)hits / (k + 1);
            wrong += k == 0 && !hits;
        }
    }
    n.log_loss /= (double)n.known_rows;
    n.error = (double)wrong / (double)n.rows;
    for (int k = 0; k < 20; k++) {
        n.precision[k] /= (double)n.rows;
    }
    return n;
}

static void compare(const xsm_metrics *have, const naive *want)
{
    assert_int_equal(have->rows, want->rows);
    assert_int_equal(have->known_rows, want->known_rows);
    assert_int_equal(have->unseen_rows, want->rows - want->known_rows);
    assert_int_equal(have->unlabelled, want->unlabelled);
    assert_int_equal(have->unseen_labels, want->unseen_labels);
    assert_true(want->known_rows ? fabs(have->log_loss - want->log_loss) <= 1e-6 * fmax(1, want->log_loss)
                                 : isnan(have->log_loss));
    assert_true(fabs(have->error - want->error) < 1e-12);
    for (uint32_t k = 0; k < have->top; k++) {
        assert_true(fabs(have->precision[k] - want->precision[k]) < 1e-12);
    }
}

/* Labels of all sorts: none, one, several, unseen, unseen among others. */
static xsm_dataset *with_odd_labels(const test_problem *p, bool sparse, uint64_t *seed)
{
    HELD_MEMORY(uint64_t, offsets) = calloc(p->rows + 1, sizeof *offsets);
    HELD_MEMORY(uint32_t, labels) = calloc(p->rows * 4, sizeof *labels);
    assert_true(offsets && labels);
    uint64_t count = 0;
    for (uint64_t i = 0; i < p->rows; i++) {
        uint64_t want = test_next(seed) % 5;
        want = want < p->classes ? want : p->classes;
        uint32_t start = (uint32_t)(test_next(seed) % p->classes);
        for (uint64_t j = 0; j < want; j++) {
            labels[count++] = (uint32_t)((start + j) % p->classes);
        }
        if (want && i % 7 == 2) {
            labels[count - 1] = XSM_CLASS_UNSEEN;
        }
        offsets[i + 1] = count;
    }
    xsm_dataset *data = test_relabel(p, sparse, p->classes, offsets, labels);
    return data;
}

TEST(evaluation_is_what_it_says)
{
    static const uint32_t classes[] = {1, 2, 3, 19, 170, 900};
    uint64_t seed = 5;
    for (int bits = 0; bits < 16; bits++) {
        bool sparse = bits & 1, feature_major = bits & 2, bias = bits & 4, several = bits & 8;
        for (int c = 0; c < 6; c++) {
            HELD_STRUCT(test_problem, p) = test_problem_new(600, 17, classes[c], sparse, 40);
            HELD(xsm_dataset, odd) = several ? with_odd_labels(&p, sparse, &seed) : NULL;
            const xsm_dataset *data = odd ? odd : p.data;
            double first[4][20] = {{0}};
            xsm_metrics first_metrics = XSM_METRICS_INIT;
            for (int way = 0; way < 5; way++) {
                HELD(xsm_context, ctx) = way < 3 ? test_context((uint32_t)way + 1, TEST_BUILT_IN, 0)
                                                 : test_context(3, way == 3 ? TEST_REVERSED : TEST_PTHREADS, 0);
                HELD(xsm_model, m) = test_model(NULL, &p, bias, feature_major, 1, 6);
                TEST_METRICS(metrics, 20); /* more than there are classes, at times */
                assert_ok(xsm_evaluate(ctx, m, data, NULL, &metrics, &err), err);
                assert_int_equal(metrics.top, 20);
                if (way == 0) {
                    naive want = evaluate_naively(m, &p, data);
                    compare(&metrics, &want);
                    memcpy(first, metrics_values, sizeof first);
                    first_metrics = metrics;
                }
                assert_memory_equal(metrics_values, first, sizeof first);
                assert_memory_equal(&metrics, &first_metrics, offsetof(xsm_metrics, top));
            }
        }
    }
}

/* Scales that a training run has left on the rows count. */
TEST(scales_count)
{
    for (int sparse = 0; sparse < 2; sparse++) {
        HELD_STRUCT(test_problem, p) = test_problem_new(100, 17, 30, sparse, 40);
        HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 2, 6);
        assert_ok(xsmi_model_need_row_scale(m, &err), err);
        for (uint32_t k = 0; k < 30; k++) {
            m->w.row_scale[k] = 1 / (1 + 0.2 * k);
        }
        m->w.alpha = 0.6;
        TEST_METRICS(metrics, 10);
        assert_ok(xsm_evaluate(NULL, m, p.data, NULL, &metrics, &err), err);
        naive want = evaluate_naively(m, &p, p.data);
        compare(&metrics, &want);
    }
}

TEST(ties_go_to_the_smaller_class)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(70, 5, 400, false, 40);
    xsm_model *m = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 0, 0); /* all scores are 0 */
    TEST_METRICS(metrics, 10);
    assert_ok(xsm_evaluate(NULL, m, p.data, NULL, &metrics, &err), err);
    naive want = evaluate_naively(m, &p, p.data);
    compare(&metrics, &want);
    assert_true(fabs(metrics.log_loss - log(400)) < 1e-6);
    uint32_t classes[70 * 5];
    double probabilities[70 * 5];
    NEW(xsm_predictor, predictor, xsm_predictor_new(m, NULL, &predictor, &err));
    xsm_batch batch = xsm_batch_range(p.data, 0, 70);
    assert_ok(test_predict(predictor, &batch, classes, NULL, probabilities, &err), err);
    for (uint32_t i = 0; i < 70 * 5; i++) {
        assert_int_equal(classes[i], i % 5);
        assert_true(fabs(probabilities[i] - 1.0 / 400) < 1e-8);
    }
    xsm_predictor_free(predictor);
    xsm_model_free(m);
}

/* F1 and confusions of the golden rows. */
static void compare_f1(xsm_context *ctx, xsm_model *m, const xsm_dataset *data)
{
    xsm_error err = XSM_ERROR_INIT;
    double labels[RANKED_CLASSES], predicted[RANKED_CLASSES], right[RANKED_CLASSES];
    xsm_confusion pairs[3];
    assert_ok(xsm_model_set_link(m, XSM_LINK_SIGMOID, &err), err);
    for (size_t i = 0; i < sizeof golden_f1 / sizeof *golden_f1; i++) {
        xsm_class_metrics_options options = XSM_CLASS_METRICS_OPTIONS_INIT;
        xsm_class_metrics got = XSM_CLASS_METRICS_INIT;
        double sums[3] = {0}, macro = 0;
        options.threshold = golden_f1[i].probability;
        got.labels = labels;
        got.predicted = predicted;
        got.right = right;
        got.confusions = pairs;
        got.most = 3;
        assert_ok(xsm_evaluate_classes(ctx, m, data, &options, &got, &err), err);
        assert_true(fabs(got.micro_f1 - golden_f1[i].micro) <= 1e-12);
        assert_true(fabs(got.macro_f1 - golden_f1[i].macro) <= 1e-12);
        assert_true(got.threshold == options.threshold);
        assert_int_equal(got.counted, golden_f1[i].counted);
        assert_int_equal(got.found, golden_f1[i].found);
        assert_int_equal(pairs[0].label, golden_f1[i].label);
        assert_int_equal(pairs[0].predicted, golden_f1[i].predicted);
        assert_true(pairs[0].rows == golden_f1[i].rows && pairs[0].rows >= pairs[1].rows);
        for (uint32_t k = 0; k < RANKED_CLASSES; k++) {
            macro += right[k] > 0 ? 2 * right[k] / (labels[k] + predicted[k]) : 0;
            sums[0] += labels[k];
            sums[1] += predicted[k];
            sums[2] += right[k];
        }
        assert_true(fabs(macro / (double)got.counted - got.macro_f1) <= 1e-12);
        assert_true(2 * sums[2] / (sums[0] + sums[1]) >= got.micro_f1); /* unseen labels are not among them */
    }
    assert_ok(xsm_model_set_link(m, XSM_LINK_SOFTMAX, &err), err);
}

/* Rankings that a script without our code has measured, too. */
TEST(rankings_are_worth_what_numpy_says)
{
    HELD_MEMORY(float, x) = calloc(RANKED_ROWS * RANKED_CLASSES, sizeof *x);
    uint64_t offsets[RANKED_ROWS + 1] = {0}, counts[RANKED_CLASSES];
    uint32_t labels[RANKED_ROWS * 8];
    assert_non_null(x);
    for (uint32_t i = 0; i < RANKED_ROWS; i++) {
        offsets[i + 1] = offsets[i];
        for (uint32_t k = 0; k < RANKED_CLASSES; k++) {
            x[i * RANKED_CLASSES + k] = (float)((37 * i + 29 * k) % 101) / 8;
        }
        for (uint32_t k = 0; k < RANKED_CLASSES + 4; k++) {
            bool label = false;
            for (uint32_t j = 0; j < i % 8; j++) {
                label |= (11 * i + 7 * j * j) % (RANKED_CLASSES + 4) == k;
            }
            if (label) {
                labels[offsets[i + 1]++] = k < RANKED_CLASSES ? k : XSM_CLASS_UNSEEN;
            }
        }
    }
    for (uint32_t k = 0; k < RANKED_CLASSES; k++) {
        counts[k] = k < RANKED_CLASSES - 3 ? RANKED_TRAINING_ROWS / (1 + k * k) : 0;
    }
    xsm_labels l = {sizeof l, RANKED_CLASSES, 0, offsets, labels, NULL};
    MADE(xsm_dataset, data,
         xsm_dataset_from_dense(NULL,
                                STRUCT(xsm_dense_rows, .values = x, .rows = RANKED_ROWS, .features = RANKED_CLASSES,
                                       .labels = &l, .ownership = XSM_BORROW),
                                &data, &err));
    MADE(xsm_model, m, xsm_model_new_linear(NULL, RANKED_CLASSES, RANKED_CLASSES, NULL, &m, &err));
    xsm_parameters w = XSM_PARAMETERS_INIT;
    assert_ok(xsm_model_get_parameters(m, &w, &err), err);
    for (uint32_t k = 0; k < RANKED_CLASSES; k++) {
        w.weight[k * w.class_step + k * w.feature_step] = 1; /* a row's features are its scores */
    }
    TEST_METRICS(metrics, RANKED_TOP);
    xsm_evaluate_options options = XSM_EVALUATE_OPTIONS_INIT;
    assert_ok(xsm_evaluate(NULL, m, data, &options, &metrics, &err), err);
    for (int k = 0; k < RANKED_TOP; k++) {
        assert_true(fabs(metrics.ndcg[k] - golden_ranks[0].ndcg[k]) <= 1e-12);
        assert_true(isnan(metrics.psp[k]) && isnan(metrics.psndcg[k])); /* nothing is known of the classes */
    }
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    map.classes = RANKED_CLASSES;
    map.counts = counts;
    map.rows = 4999;
    assert_fails(xsm_model_set_class_map(m, &map, &err), XSM_ERROR_RANGE, err);
    map.rows = RANKED_TRAINING_ROWS;
    assert_ok(xsm_model_set_class_map(m, &map, &err), err);
    for (size_t r = 0; r < sizeof golden_ranks / sizeof *golden_ranks; r++) {
        for (uint32_t threads = 1; threads < 4; threads++) {
            HELD(xsm_context, ctx) = test_context(threads, TEST_BUILT_IN, 0);
            options.propensity_a = r == 0 && threads == 1 ? XSM_DEFAULT : golden_ranks[r].a; /* its default */
            options.propensity_b = r == 0 && threads == 1 ? XSM_DEFAULT : golden_ranks[r].b;
            assert_ok(xsm_evaluate(ctx, m, data, &options, &metrics, &err), err);
            for (int k = 0; k < RANKED_TOP; k++) {
                assert_true(fabs(metrics.precision[k] - golden_ranks[r].precision[k]) <= 1e-12);
                assert_true(fabs(metrics.ndcg[k] - golden_ranks[r].ndcg[k]) <= 1e-12);
                assert_true(fabs(metrics.psp[k] - golden_ranks[r].psp[k]) <= 1e-12);
                assert_true(fabs(metrics.psndcg[k] - golden_ranks[r].psndcg[k]) <= 1e-12);
                assert_true(fabs(metrics.recall[k] - golden_recall[k]) <= 1e-12);
                assert_true(fabs(metrics.hits[k] - golden_hits[k]) <= 1e-12);
                assert_true(fabs(metrics.reciprocal_rank[k] - golden_reciprocal_rank[k]) <= 1e-12);
            }
            compare_f1(ctx, m, data);
        }
    }
    double first[RANKED_TOP];
    for (int i = 0; i < 2; i++) { /* an exponent of 0 gives all labels one weight, whatever B is */
        options.propensity_a = 0;
        options.propensity_b = i ? 2.5 : 0;
        assert_ok(xsm_evaluate(NULL, m, data, &options, &metrics, &err), err);
        assert_true(fabs(metrics.psp[0] - metrics.precision[0]) < 1e-12); /* every row has a label */
        if (i == 0) {
            memcpy(first, metrics.psndcg, sizeof first);
        }
        for (int k = 0; k < RANKED_TOP; k++) {
            assert_true(fabs(metrics.psndcg[k] - first[k]) < 1e-12);
        }
    }
    options.propensity_a = -0.1;
    assert_fails(xsm_evaluate(NULL, m, data, &options, &metrics, &err), XSM_ERROR_RANGE, err);
    options.propensity_a = 0;
    options.propensity_b = (double)NAN;
    assert_fails(xsm_evaluate(NULL, m, data, &options, &metrics, &err), XSM_ERROR_RANGE, err);
}

enum { LONG = 4000 };

/* Each array is filled by itself as with all others, none as without any; a long one begins as a short one. */
TEST(arrays_are_filled_where_they_are_wanted)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(3000, 5, 300, false, 40);
    HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 1, 6);
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    assert_ok(xsm_dataset_get_class_map(p.data, &map, &err), err);
    assert_ok(xsm_model_set_class_map(m, &map, &err), err);
    TEST_METRICS(all, 7);
    assert_ok(xsm_evaluate(NULL, m, p.data, NULL, &all, &err), err);
    for (int which = 0; which < 5; which++) {
        double values[7] = {0};
        xsm_metrics one = XSM_METRICS_INIT;
        double **arrays[4] = {&one.precision, &one.ndcg, &one.psp, &one.psndcg};
        one.top = which < 4 ? 7 : 0;
        if (which < 4) {
            *arrays[which] = values;
        }
        assert_ok(xsm_evaluate(NULL, m, p.data, NULL, &one, &err), err);
        assert_memory_equal(&one, &all, offsetof(xsm_metrics, top));
        assert_true(which == 4 || memcmp(values, all_values[which], sizeof values) == 0);
    }
    static double few[LONG];
    assert_ok(xsm_evaluate(NULL, m, p.data, NULL, STRUCT(xsm_metrics, .top = LONG, .psndcg = few), &err), err);
    assert_memory_equal(few, all_values[3], sizeof all_values[3]);
}

/* Sums of LONG numbers for each of 12 jobs are less than a round's 64 MiB; of XSM_TOP_MAX they are more. */
TEST_OF_FULL(sums_of_several_rounds_are_the_same)
{
    static double few[LONG], many[XSM_TOP_MAX];
    xsm_metrics longer = XSM_METRICS_INIT;
    longer.top = LONG;
    HELD(xsm_context, ctx) = test_context(1, 0, 0);
    HELD_STRUCT(test_problem, more) = test_problem_new(6400, 5, 3, false, 40);
    HELD(xsm_model, small) = test_model(NULL, &more, false, XSM_LAYOUT_CLASS_MAJOR, 1, 6);
    longer.precision = few;
    assert_ok(xsm_evaluate(ctx, small, more.data, NULL, &longer, &err), err);
    longer.top = XSM_TOP_MAX;
    longer.precision = many;
    assert_ok(xsm_evaluate(ctx, small, more.data, NULL, &longer, &err), err);
    assert_memory_equal(few, many, sizeof few);
    assert_true(fabs(many[XSM_TOP_MAX - 1] - 1.0 / XSM_TOP_MAX) < 1e-15);
}

TEST(all_labels_unseen)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(3, 5, 4, false, 40);
    static const uint32_t labels[] = {XSM_CLASS_UNSEEN, XSM_CLASS_UNSEEN, XSM_CLASS_UNSEEN};
    static const uint64_t none[] = {0, 0, 0, 0};
    HELD(xsm_dataset, unseen) = test_relabel(&p, false, 4, NULL, labels);
    HELD(xsm_dataset, unlabelled) = test_relabel(&p, false, 4, none, labels);
    HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 1, 6);
    TEST_METRICS(metrics, 1);
    assert_ok(xsm_evaluate(NULL, m, unseen, NULL, &metrics, &err), err);
    assert_true(isnan(metrics.log_loss) && metrics.error == 1 && metrics.precision[0] == 0);
    assert_true(metrics.rows == 3 && metrics.unseen_rows == 3 && metrics.known_rows == 0);
    xsm_metrics untouched = metrics;
    assert_fails(xsm_evaluate(NULL, m, unlabelled, NULL, &metrics, &err), XSM_ERROR_DATA, err);
    assert_memory_equal(&metrics, &untouched, sizeof metrics);
}

/* -- models that have diverged ------------------------------------------------------------------------------------- */

TEST(weights_that_are_no_numbers)
{
    static const float wrong[] = {NAN, INFINITY, -INFINITY};
    for (int kind = 0; kind < 12; kind++) {
        HELD_STRUCT(test_problem, p) = test_problem_new(300, 5, 200, kind & 1, 40);
        memset(p.x, 0, 299 * 5 * sizeof *p.x); /* only the last row looks at any weight but the bias */
        for (int j = 0; j < 5; j++) {
            p.x[299 * 5 + j] = 1;
        }
        HELD(xsm_dataset, data) = test_relabel(&p, kind & 1, 200, NULL, p.labels);
        HELD(xsm_model, m) = test_model(NULL, &p, true, kind & 2 ? 1 : 0, 1, 6);
        if (kind & 1) { /* zeros are not stored: dense rows of zeros times NaN are NaN from the first on */
            xsm_parameters w = XSM_PARAMETERS_INIT;
            assert_ok(xsm_model_get_parameters(m, &w, &err), err);
            w.weight[101 * w.class_step + 3 * w.feature_step] = wrong[kind / 4];
        } else {
            m->w.bias[101] = wrong[kind / 4];
        }
        bool fine = wrong[kind / 4] == -INFINITY && p.labels[299] != 101; /* a class that cannot be is no defect */
        TEST_METRICS(metrics, 3);
        xsm_metrics untouched = metrics;
        memset(metrics_values, 7, sizeof metrics_values);
        if (!fine) {
            assert_fails(xsm_evaluate(NULL, m, data, NULL, &metrics, &err), XSM_ERROR_DIVERGED, err);
            assert_non_null(strstr(err.message, kind & 1 ? "row 299 " : "row 0 "));
            for (size_t i = 0; i < sizeof metrics_values; i++) {
                assert_int_equal(((unsigned char *)metrics_values)[i], 7);
            }
            assert_memory_equal(&metrics, &untouched, sizeof metrics);
            MADE(xsm_predictor, predictor, xsm_predictor_new(m, NULL, &predictor, &err));
            uint32_t classes[300 * 5];
            xsm_batch batch = xsm_batch_range(data, 0, 300);
            assert_fails(test_predict(predictor, &batch, classes, NULL, NULL, &err), XSM_ERROR_DIVERGED, err);
            assert_non_null(strstr(err.message, kind & 1 ? "row 299 " : "row 0 "));
        }
    }
}

/* -- prediction ---------------------------------------------------------------------------------------------------- */

TEST(prediction_agrees)
{
    static const uint32_t classes[] = {1, 3, 170, 900};
    for (int bits = 0; bits < 8; bits++) {
        bool sparse = bits & 1, feature_major = bits & 2, bias = bits & 4;
        for (int c = 0; c < 4; c++) {
            HELD_STRUCT(test_problem, p) = test_problem_new(600, 17, classes[c], sparse, 40);
            test_memory *memory;
            xsm_context *ctx = test_memory_context(&memory, 2);
            xsm_model *m = test_model(ctx, &p, bias, feature_major, 1, 6);
            NEW(xsm_predictor, predictor,
                xsm_predictor_new(m, STRUCT(xsm_predictor_options, .top = 7), &predictor, &err));
            uint32_t top = test_predictor_info(predictor).top;
            assert_int_equal(top, classes[c] < 7 ? classes[c] : 7);
            uint32_t *best = calloc((size_t)p.rows * top, sizeof *best);
            float *scores = calloc((size_t)p.rows * top, sizeof *scores);
            double *probabilities = calloc((size_t)p.rows * top, sizeof *probabilities);
            uint64_t *rows = calloc(p.rows, sizeof *rows);
            assert_true(best && scores && probabilities && rows);
            for (uint64_t i = 0; i < p.rows; i++) {
                rows[i] = p.rows - 1 - i;
            }
            test_memory_fail(memory, 1); /* from here on every allocation is refused */
            xsm_batch batch = xsm_batch_rows(p.data, rows, p.rows);
            assert_ok(test_predict(predictor, &batch, best, scores, probabilities, &err), err);
            assert_int_equal(test_memory_calls(memory), 0);
            test_memory_fail(memory, 0);
            double loss = 0;
            uint64_t wrong = 0;
            double *z = calloc(classes[c], sizeof *z);
            assert_non_null(z);
            for (uint64_t i = 0; i < p.rows; i++) {
                for (uint32_t k = 0; k < classes[c]; k++) {
                    z[k] = test_score(m, k, p.x + rows[i] * p.features);
                }
                double lse = log_sum(z, classes[c]);
                loss += lse - z[p.labels[rows[i]]];
                wrong += best[i * top] != p.labels[rows[i]];
                for (uint32_t k = 0; k < top; k++) {
                    double want = z[best[i * top + k]];
                    assert_true(fabs((double)scores[i * top + k] - want) < 1e-5);
                    assert_true(fabs(probabilities[i * top + k] - exp(want - lse)) < 1e-5);
                }
                uint32_t ranked[7];
                rank(z, classes[c], top, ranked);
                assert_memory_equal(ranked, best + i * top, top * sizeof *ranked);
            }
            free(z);
            xsm_metrics metrics = XSM_METRICS_INIT;
            assert_ok(xsm_evaluate(NULL, m, p.data, NULL, &metrics, &err), err);
            assert_true(metrics.error == (double)wrong / (double)p.rows);
            assert_true(fabs(metrics.log_loss - loss / (double)p.rows) < 1e-5);
            /* the other results are wanted or not */
            uint32_t *again = calloc((size_t)p.rows * top, sizeof *again);
            assert_non_null(again);
            assert_ok(test_predict(predictor, &batch, again, NULL, NULL, &err), err);
            assert_memory_equal(best, again, (size_t)p.rows * top * sizeof *best);
            free(again);
            free(best);
            free(scores);
            free(probabilities);
            free(rows);
            xsm_model_free(m);
            xsm_predictor_free(predictor); /* in any order */
            test_memory_end(memory, ctx);
        }
    }
}

/* -- errors -------------------------------------------------------------------------------------------------------- */

/* An index that looks at everything gives what no index gives, and one that does not, exact scores of what it finds. */
TEST(indexes_find_the_same)
{
    enum { ROWS = 150, K = 300, TOP = 7 };
    for (int bits = 0; bits < 8; bits++) {
        HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, 17, K, bits & 1, 40);
        HELD(xsm_model, m) = test_model(NULL, &p, bits & 2, bits & 4 ? XSM_LAYOUT_FEATURE_MAJOR : 0, 1, 6);
        xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
        options.top = TOP;
        xsm_predictor *searching = NULL;
        xsm_index *index = NULL;
        MADE(xsm_predictor, plain, xsm_predictor_new(m, &options, &plain, &err));
        static uint32_t want[ROWS * TOP], have[ROWS * TOP];
        static float scores[ROWS * TOP];
        xsm_batch batch = xsm_batch_range(p.data, 0, ROWS);
        assert_ok(test_predict(plain, &batch, want, scores, NULL, &err), err);
        assert_int_equal(test_predictor_info(plain).probed, 0);
        for (int way = 0; way < 3; way++) {
            assert_ok(xsm_index_new(NULL, way ? "spherical" : "exact", &index, &err), err);
            assert_ok(way ? xsm_index_set(index, "probe", way > 1 ? "30" : "300", &err) : XSM_OK, err);
            options.index = index;
            assert_fails(xsm_predictor_new(m, &options, &searching, &err), XSM_ERROR_STATE, err);
            assert_ok(xsm_index_build_model(index, m, &err), err);
            assert_ok(xsm_predictor_new(m, &options, &searching, &err), err);
            assert_ok(test_predict(searching, &batch, have, scores, NULL, &err), err);
            uint32_t missed = 0;
            for (uint32_t i = 0; i < ROWS * TOP; i++) {
                float exact;
                xsm_batch row = xsm_batch_range(p.data, i / TOP, 1);
                assert_ok(xsm_model_scores(m, &row, &have[i], 1, &exact, &err), err);
                assert_true(exact == scores[i] && (i % TOP == 0 || scores[i] <= scores[i - 1]));
                missed += have[i] != want[i];
            }
            assert_true(way < 2 ? missed == 0 : missed < ROWS * TOP);
            uint64_t probed = test_predictor_info(searching).probed;
            assert_true(way < 2 ? probed == ROWS * K : probed >= ROWS * 30 && probed < ROWS * 90);
            double probabilities[ROWS * TOP];
            assert_fails(test_predict(searching, &batch, have, NULL, probabilities, &err), XSM_ERROR_UNSUPPORTED, err);
            assert_ok(test_predict(searching, &batch, have, NULL, NULL, &err), err);
            xsm_predictor_free(searching);
            xsm_index_free(index);
        }
        options.index = NULL;
    }
}

/* A predictor outlives changes of the model's layout, which a trainer makes, and says so when the model has grown or
 * its index belongs to something else. */
TEST(predictors_notice_what_has_changed)
{
    enum { K = 300, ROWS = 40, TOP = 5 };
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, 400, K, true, 12);
    xsm_batch batch = xsm_batch_range(p.data, 0, ROWS);
    MADE(xsm_index, index, xsm_index_new(NULL, "exact", &index, &err));
    for (int searches = 0; searches < 2; searches++) {
        for (int layout = 0; layout < 2; layout++) {
            HELD(xsm_model, m) = test_model(NULL, &p, false, layout, 0.5, 8);
            HELD(xsm_model, other) = test_model(NULL, &p, false, layout, 0.5, 9);
            xsm_predictor_options o = XSM_PREDICTOR_OPTIONS_INIT;
            uint32_t have[ROWS * TOP], want[ROWS * TOP];
            o.index = searches ? index : NULL;
            assert_ok(xsm_index_build_model(index, m, &err), err);
            MADE(xsm_predictor, early, xsm_predictor_new(m, &o, &early, &err));
            assert_ok(xsm_model_set_layout(m, !layout, &err), err);
            assert_ok(xsm_index_build_model(index, m, &err), err);
            MADE(xsm_predictor, late, xsm_predictor_new(m, &o, &late, &err));
            assert_ok(test_predict(early, &batch, have, NULL, NULL, &err), err);
            assert_ok(test_predict(late, &batch, want, NULL, NULL, &err), err);
            assert_memory_equal(have, want, sizeof have);
            if (searches) {
                assert_ok(xsm_index_build_model(index, other, &err), err);
                assert_fails(test_predict(early, &batch, have, NULL, NULL, &err), XSM_ERROR_STATE, err);
                assert_ok(xsm_index_build_model(index, m, &err), err);
                assert_ok(test_predict(early, &batch, have, NULL, NULL, &err), err);
            }
            assert_ok(
                xsm_model_grow(m, p.features, STRUCT(xsm_class_map, .classes = K + 1, .features = p.features), &err),
                err);
            assert_fails(test_predict(early, &batch, have, NULL, NULL, &err), XSM_ERROR_STATE, err);
            if (searches) { /* as the index: built before classes, and before features, were new */
                xsm_predictor *none = NULL;
                assert_fails(xsm_predictor_new(m, &o, &none, &err), XSM_ERROR_STATE, err);
                assert_ok(xsm_index_build_model(index, m, &err), err);
                assert_ok(xsm_model_grow(m, p.features + 1, NULL, &err), err);
                assert_fails(xsm_predictor_new(m, &o, &none, &err), XSM_ERROR_STATE, err);
                assert_null(none);
            }
        }
    }
}

TEST(bad_calls_are_refused)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(30, 5, 9, false, 40);
    HELD_STRUCT(test_problem, wide) = test_problem_new(30, 6, 9, false, 40);
    HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 1, 6);
    TEST_METRICS(metrics, 100);
    xsm_evaluate_options options = XSM_EVALUATE_OPTIONS_INIT;
    assert_fails(xsm_evaluate(NULL, NULL, p.data, NULL, &metrics, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_evaluate(NULL, m, NULL, NULL, &metrics, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_evaluate(NULL, m, p.data, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_evaluate(NULL, m, wide.data, NULL, &metrics, &err), XSM_ERROR_SHAPE, err);
    metrics.top = 0;
    assert_fails(xsm_evaluate(NULL, m, p.data, NULL, &metrics, &err), XSM_ERROR_RANGE, err);
    metrics.top = XSM_TOP_MAX + 1;
    assert_fails(xsm_evaluate(NULL, m, p.data, NULL, &metrics, &err), XSM_ERROR_RANGE, err);
    metrics.top = 100;
    assert_ok(xsm_evaluate(NULL, m, p.data, NULL, &metrics, &err), err);
    assert_true(fabs(metrics.precision[99] - 1.0 / 100) < 1e-12);
    static const double never[] = {-1, (double)NAN, (double)INFINITY};
    for (size_t i = 0; i < 3; i++) {
        options.seconds = never[i];
        assert_fails(xsm_evaluate(NULL, m, p.data, &options, &metrics, &err), XSM_ERROR_RANGE, err);
    }
    options.size = 4;
    assert_fails(xsm_evaluate(NULL, m, p.data, &options, &metrics, &err), XSM_ERROR_STRUCT_OLD, err);
    metrics.size = 16;
    assert_fails(xsm_evaluate(NULL, m, p.data, NULL, &metrics, &err), XSM_ERROR_STRUCT_OLD, err);
    HELD(xsm_predictor, predictor) = (xsm_predictor *)&err;
    xsm_predictor_options few = XSM_PREDICTOR_OPTIONS_INIT;
    assert_fails(xsm_predictor_new(NULL, NULL, &predictor, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_predictor_new(m, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
    few.top = XSM_TOP_MAX + 1;
    assert_fails(xsm_predictor_new(m, &few, &predictor, &err), XSM_ERROR_RANGE, err);
    few.size = 4;
    assert_fails(xsm_predictor_new(m, &few, &predictor, &err), XSM_ERROR_STRUCT_OLD, err);
    assert_ptr_equal(predictor, (xsm_predictor *)&err);
    assert_ok(xsm_predictor_new(m, NULL, &predictor, &err), err);
    uint32_t classes[5];
    xsm_batch batch = xsm_batch_range(p.data, 0, 1), other = xsm_batch_range(wide.data, 0, 1);
    assert_fails(test_predict(NULL, &batch, classes, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(test_predict(predictor, NULL, classes, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(test_predict(predictor, &batch, NULL, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(test_predict(predictor, &other, classes, NULL, NULL, &err), XSM_ERROR_SHAPE, err);
    batch.first = 30;
    assert_fails(test_predict(predictor, &batch, classes, NULL, NULL, &err), XSM_ERROR_RANGE, err);
    batch.size = 8;
    assert_fails(test_predict(predictor, &batch, classes, NULL, NULL, &err), XSM_ERROR_STRUCT_OLD, err);
    xsm_predictor_info info = XSM_PREDICTOR_INFO_INIT;
    assert_fails(xsm_predictor_get_info(NULL, &info, &err), XSM_ERROR_ARGUMENT, err);
    xsm_predictor_free(NULL);
}

/* A sample has one row of each of as many equal parts, wherever in it; time that suffices makes it all rows, with the
 * same bits. */
TEST(samples_are_spread)
{
    enum { ROWS = 1000 };
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, 5, 3, false, 40);
    uint64_t offsets[ROWS + 1] = {0};
    uint32_t halves[ROWS], turns[ROWS];
    for (uint32_t i = 0; i < ROWS; i++) {
        offsets[i + 1] = i + 1;
        halves[i] = i >= ROWS / 2;
        turns[i] = i % 2;
    }
    HELD(xsm_dataset, half) = test_relabel(&p, false, 3, offsets, halves);
    HELD(xsm_dataset, turn) = test_relabel(&p, false, 3, offsets, turns);
    HELD(xsm_context, ctx) = test_context(3, TEST_BUILT_IN, 0);
    xsm_model *zero = test_model(ctx, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 6); /* finds class 0 for every row */
    xsm_model *m = test_model(ctx, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 6);
    xsm_evaluate_options options = XSM_EVALUATE_OPTIONS_INIT;
    TEST_METRICS(metrics, 2);
    static const uint64_t samples[] = {2, 100, 130, 300, 998, ROWS, ROWS + 1};
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
        options.rows = samples[i];
        const uint64_t rows = XSMI_MIN(samples[i], ROWS);
        assert_ok(xsm_evaluate(NULL, zero, half, &options, &metrics, &err), err);
        assert_int_equal(metrics.rows, rows);
        assert_int_equal(metrics.known_rows, rows);
        assert_true(metrics.error == 0.5 && metrics.precision[0] == 0.5);
        assert_true(fabs(metrics.log_loss - log(3)) < 1e-6);
        assert_ok(xsm_evaluate(NULL, zero, turn, &options, &metrics, &err), err);
        assert_true(rows < 100 || (metrics.error > 0.35 && metrics.error < 0.65));
    }
    TEST_METRICS(all, 2);
    assert_ok(xsm_evaluate(NULL, m, half, NULL, &all, &err), err);
    options.rows = 0;
    options.seconds = 1e6;
    assert_ok(xsm_evaluate(NULL, m, half, &options, &metrics, &err), err);
    assert_memory_equal(&metrics, &all, offsetof(xsm_metrics, top));
    assert_memory_equal(metrics_values, all_values, sizeof all_values);
    options.seconds = 1e-9;
    assert_ok(xsm_evaluate(NULL, m, half, &options, &metrics, &err), err);
    assert_int_equal(metrics.rows, 128);
    options.rows = 50;
    assert_ok(xsm_evaluate(NULL, m, half, &options, &metrics, &err), err);
    assert_int_equal(metrics.rows, 50);
    /* During training: as many rows as the first time, whatever time there is. */
    uint64_t sample = 300;
    assert_ok(xsmi_evaluate_train(ctx, m, half, XSM_EVALUATE_SAMPLE, 1e6, &sample, &metrics, &err), err);
    assert_int_equal(metrics.rows, 300);
    assert_int_equal(sample, 300);
    sample = 0;
    assert_ok(xsmi_evaluate_train(ctx, m, half, XSM_EVALUATE_SAMPLE, 1e6, &sample, &metrics, &err), err);
    assert_int_equal(sample, ROWS);
    sample = 300;
    assert_ok(xsmi_evaluate_train(ctx, m, half, XSM_EVALUATE_ALL, 0, &sample, &metrics, &err), err);
    assert_int_equal(metrics.rows, ROWS);
    xsm_model_free(m);
    xsm_model_free(zero);
}

/* Memory that is kept from one evaluation to the next, with fewer rows and with more than it was said to be for. */
TEST(kept_memory_changes_nothing)
{
    for (int sparse = 0; sparse < 2; sparse++) {
        HELD_STRUCT(test_problem, p) = test_problem_new(90, 7, 20, sparse, 5);
        HELD(xsm_context, ctx) = test_context(2, 0, 0);
        HELD(xsm_model, m) = test_model(ctx, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 1);
        xsmi_evaluate_scratch kept = {.context = ctx, .rows = 20};
        static const uint64_t counts[] = {10, 20, 1, 90, 30};
        for (int i = 0; i < 5; i++) {
            uint64_t rows[90];
            for (uint64_t j = 0; j < counts[i]; j++) {
                rows[j] = 89 - j;
            }
            TEST_METRICS(want, 10);
            TEST_METRICS(got, 10);
            MADE(xsm_dataset, part, xsm_dataset_select(p.data, rows, counts[i], &part, &err));
            assert_ok(xsm_evaluate(ctx, m, part, NULL, &want, &err), err);
            assert_ok(xsmi_evaluate(m, part, NULL, &kept, NULL, &got, &err), err);
            assert_memory_equal(&got, &want, offsetof(xsm_metrics, precision));
            assert_memory_equal(got_values, want_values, sizeof want_values);
        }
        xsmi_evaluate_scratch_free(&kept);
        assert_null(kept.memory);
    }
}

/* An evaluation with weights is that of copies of the rows, so many as their weights say; 0 leaves a row out. */
TEST(weights_are_copies)
{
    enum { ROWS = 90, CLASSES = 20, TOP = 5 };
    for (int sparse = 0; sparse < 2; sparse++) {
        uint64_t seed = 4, copies[3 * ROWS], count = 0;
        float weights[ROWS];
        HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, 7, CLASSES, sparse, 5);
        HELD(xsm_dataset, rows) = with_odd_labels(&p, sparse, &seed);
        HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 3);
        xsm_class_map map = XSM_CLASS_MAP_INIT;
        assert_ok(xsm_dataset_get_class_map(rows, &map, &err), err);
        assert_ok(xsm_model_set_class_map(m, &map, &err), err);
        for (uint64_t i = 0; i < ROWS; i++) {
            weights[i] = (float)(test_next(&seed) % 4);
            for (float n = 0; n < weights[i]; n++) {
                copies[count++] = i;
            }
        }
        MADE(xsm_dataset, all, xsm_dataset_select(rows, copies, count, &all, &err));
        xsm_dataset_weights w = XSM_DATASET_WEIGHTS_INIT;
        w.rows = weights;
        w.row_count = ROWS;
        assert_ok(xsm_dataset_set_weights(rows, &w, &err), err);
        TEST_METRICS(a, TOP);
        TEST_METRICS(b, TOP);
        assert_ok(xsm_evaluate(NULL, m, rows, NULL, &a, &err), err);
        assert_ok(xsm_evaluate(NULL, m, all, NULL, &b, &err), err);
        assert_int_equal(a.rows + a.unlabelled, ROWS);
        assert_true(fabs(a.log_loss - b.log_loss) < 1e-12 && fabs(a.error - b.error) < 1e-12);
        assert_true(fabs(a.calibration_error - b.calibration_error) < 1e-12);
        for (size_t i = 0; i < 4; i++) {
            for (size_t k = 0; k < TOP; k++) {
                assert_true(fabs(a_values[i][k] - b_values[i][k]) < 1e-12);
            }
        }
        memset(weights, 0, sizeof weights);
        assert_ok(xsm_dataset_set_weights(rows, &w, &err), err);
        assert_fails(xsm_evaluate(NULL, m, rows, NULL, &a, &err), XSM_ERROR_DATA, err);
    }
}
