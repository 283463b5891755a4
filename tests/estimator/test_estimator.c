/*
 * Tests of the functions that all estimators share: options, binding, batches, divergence, gradients. Tables of a host
 * are in test_estimator_table.c.
 */
#include "training.h"

#include "estimator/estimator.h"
#include "methods/double_sum.h"

#include <math.h>
#include <string.h>

enum { FEATURES = 4, CLASSES = 8, ROWS = 300 };

/* -- options ------------------------------------------------------------------------------------------------------ */

static void check_option(xsm_estimator *e, const char *name, const char *wanted)
{
    char text[64];
    assert_int_equal(xsm_estimator_get(e, name, text, sizeof text), strlen(wanted));
    assert_string_equal(text, wanted);
}

TEST(options_have_defaults)
{
    xsm_estimator *e = test_estimator(NULL, "implicit", "");
    assert_string_equal(test_estimator_info(e).name, "implicit");
    assert_int_equal(test_estimator_info(e).batch_limit, 0);
    check_option(e, "ridge", "0");
    check_option(e, "seed", "1");
    check_option(e, "negatives", "0");
    check_option(e, "start", "zero");
    check_option(e, "solver", "newton");
    char text[4] = "???";
    assert_int_equal(xsm_estimator_get(e, "none", text, sizeof text), SIZE_MAX);
    assert_string_equal(text, "");
    assert_int_equal(xsm_estimator_get(e, "solver", text, sizeof text), 6); /* cut */
    assert_string_equal(text, "new");
    assert_int_equal(xsm_estimator_get(e, "solver", NULL, 0), 6);
    assert_int_equal(xsm_estimator_get(e, "solver", NULL, 9), 6);
    assert_int_equal(xsm_estimator_get(NULL, "solver", text, sizeof text), SIZE_MAX);
    assert_string_equal(text, "");
    assert_int_equal(xsm_estimator_get(e, NULL, text, sizeof text), SIZE_MAX);
    xsm_estimator_free(e);
    xsm_estimator_free(NULL);
    xsm_estimator_info info = XSM_ESTIMATOR_INFO_INIT;
    assert_fails(xsm_estimator_get_info(NULL, &info, &err), XSM_ERROR_ARGUMENT, err);
}

/* `negatives=all` is K - 1 by its name. */
TEST(all_negatives_are_all_others)
{
    static const char *const names[] = {"vanilla", "raman", "umax", "implicit", "ove", "one-vs-all-sampled"};
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 3);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 2);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        static const char *const options[] = {"negatives=all", "negatives=7"};
        xsm_gradient *g[2];
        for (int j = 0; j < 2; j++) {
            HELD(xsm_estimator, e) = test_estimator(NULL, names[i], options[j]);
            xsm_batch batch = xsm_batch_range(p.data, 0, 1);
            g[j] = test_gradient(NULL);
            assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
            assert_ok(xsm_estimator_gradient(e, &batch, 0.1, g[j], &err), err);
            if (j == 0) {
                check_option(e, "negatives", "all");
            }
        }
        xsm_gradient_view all = test_view(g[0]), seven = test_view(g[1]);
        assert_int_equal(all.width, CLASSES);
        assert_int_equal(seven.width, CLASSES);
        assert_memory_equal(all.coefficients, seven.coefficients, CLASSES * sizeof *all.coefficients);
        xsm_gradient_free(g[0]);
        xsm_gradient_free(g[1]);
    }
}

/* An estimator may outlive what it is bound to, as long as it is only released: for the address sanitizer. */
TEST(released_after_its_data)
{
    for (size_t i = 0; xsm_estimator_at(i); i++) {
        HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, true, 3);
        HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 2);
        HELD(xsm_estimator, e) = test_estimator(NULL, xsm_estimator_at(i)->name, "");
        xsm_batch batch = xsm_batch_range(p.data, 0, test_estimator_info(e).batch_limit == 1 ? 1 : 4);
        HELD(xsm_gradient, g) = test_gradient(NULL);
        assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
        assert_ok(xsm_estimator_gradient(e, &batch, 0.01, g, &err), err);
    }
}

TEST(options_are_set)
{
    HELD(xsm_estimator, e) = test_estimator(NULL, "umax", "");
    assert_ok(xsm_estimator_set(e, "delta", "2.5e-1", &err), err);
    check_option(e, "delta", "0.25");
    assert_ok(xsm_estimator_set_number(e, "ridge", 0.1, &err), err);
    check_option(e, "ridge", "0.1");
    assert_ok(xsm_estimator_set_number(e, "ridge", 3, &err), err);
    check_option(e, "ridge", "3");
    assert_ok(xsm_estimator_set_number(e, "negatives", 7, &err), err);
    check_option(e, "negatives", "7");
    assert_ok(xsm_estimator_set_number(e, "seed", INT64_C(9007199254740992), &err), err);
    check_option(e, "seed", "9007199254740992");
    assert_ok(xsm_estimator_set(e, "start", "log-classes", &err), err);
    check_option(e, "start", "log-classes");

    assert_fails(xsm_estimator_set(e, "detla", "1", &err), XSM_ERROR_NAME, err);
    assert_non_null(strstr(err.message, "'detla'; did you mean 'delta'?"));
    assert_fails(xsm_estimator_set(e, "rigde", "1", &err), XSM_ERROR_NAME, err);
    assert_non_null(strstr(err.message, "did you mean 'ridge'?"));
    assert_fails(xsm_estimator_set(e, "qwertyuiop", "1", &err), XSM_ERROR_NAME, err);
    assert_null(strstr(err.message, "did you mean"));
    assert_fails(xsm_estimator_set(e, "solver", "newton", &err), XSM_ERROR_NAME, err); /* another estimator's */
    assert_fails(xsm_estimator_set(e, "delta", "0", &err), XSM_ERROR_RANGE, err);
    assert_non_null(strstr(err.message, "1e-06 to 100"));
    assert_fails(xsm_estimator_set(e, "delta", "one", &err), XSM_ERROR_FORMAT, err);
    assert_fails(xsm_estimator_set(e, "delta", "nan", &err), XSM_ERROR_FORMAT, err);
    assert_fails(xsm_estimator_set(e, "delta", "", &err), XSM_ERROR_FORMAT, err);
    assert_fails(xsm_estimator_set(e, "negatives", "1.5", &err), XSM_ERROR_FORMAT, err);
    assert_fails(xsm_estimator_set(e, "negatives", "-1", &err), XSM_ERROR_RANGE, err);
    assert_fails(xsm_estimator_set(e, "start", "one", &err), XSM_ERROR_FORMAT, err);
    assert_non_null(strstr(err.message, "zero, log-classes"));
    assert_fails(xsm_estimator_set_number(e, "start", 1, &err), XSM_ERROR_FORMAT, err);
    assert_fails(xsm_estimator_set_number(e, "negatives", 1.5, &err), XSM_ERROR_FORMAT, err);
    assert_fails(xsm_estimator_set_number(e, "ridge", (double)NAN, &err), XSM_ERROR_RANGE, err);
    assert_fails(xsm_estimator_set_number(e, "ridge", -1, &err), XSM_ERROR_RANGE, err);
    assert_fails(xsm_estimator_set_number(e, "negatives", INT64_C(1) << 40, &err), XSM_ERROR_RANGE, err);
    assert_fails(xsm_estimator_set(e, "delta", NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_estimator_set(e, NULL, "1", &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_estimator_set(NULL, "delta", "1", &err), XSM_ERROR_ARGUMENT, err);
    check_option(e, "delta", "0.25"); /* failures changed nothing */
    check_option(e, "ridge", "3");
    check_option(e, "negatives", "7");
    check_option(e, "start", "log-classes");
}

TEST(options_are_fixed_once_bound)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 2);
    HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    HELD(xsm_estimator, e) = test_estimator(NULL, "umax", "");
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    assert_fails(xsm_estimator_set(e, "delta", "2", &err), XSM_ERROR_STATE, err);
    assert_fails(xsm_estimator_set_number(e, "delta", 2, &err), XSM_ERROR_STATE, err);
    assert_fails(xsm_estimator_set_number(e, "delta", 2, &err), XSM_ERROR_STATE, err);
    check_option(e, "delta", "1");
}

TEST(estimators_are_listed)
{
    static const char *const names[] = {"softmax",
                                        "bouchard",
                                        "margin",
                                        "mips",
                                        "decomp-mips",
                                        "one-vs-all",
                                        "one-vs-all-sampled",
                                        "ove",
                                        "vanilla",
                                        "raman",
                                        "umax",
                                        "implicit",
                                        "nce",
                                        "importance",
                                        "sampled-softmax",
                                        "negative-sampling",
                                        "ove-sampled",
                                        "ove-searched",
                                        "hierarchical",
                                        "augment-reduce"};
    const size_t known = sizeof names / sizeof *names;
    assert_non_null(xsm_estimator_at(known - 1));
    assert_null(xsm_estimator_at(known));
    for (size_t i = 0; i < known; i++) {
        const xsm_estimator_ops *ops = xsm_estimator_find(names[i]);
        assert_non_null(ops);
        assert_ptr_equal(ops, xsm_estimator_at(i));
        assert_string_equal(ops->name, names[i]);
        assert_true(strlen(ops->summary) > 10);
        assert_string_equal(xsm_estimator_ops_option(ops, 0)->name, "ridge");
        assert_string_equal(xsm_estimator_ops_option(ops, 1)->name, "seed");
        size_t count = 0;
        for (const xsm_option *o; (o = xsm_estimator_ops_option(ops, count)); count++) {
            assert_true(o->name && o->help && o->initial);
        }
        bool index = ops->kind == XSM_ESTIMATOR_SEARCHED, sampler = ops->kind == XSM_ESTIMATOR_SAMPLED;
        assert_true(!index || strcmp(xsm_estimator_ops_option(ops, 2)->name, "index") == 0);
        assert_true(!sampler || strcmp(xsm_estimator_ops_option(ops, 2)->name, "sampler") == 0);
        assert_true(!sampler || strcmp(xsm_estimator_ops_option(ops, 3)->name, "shared") == 0);
        bool hierarchy = ops->kind == XSM_ESTIMATOR_HIERARCHY;
        assert_true(!hierarchy || strcmp(xsm_estimator_ops_option(ops, 2)->name, "tree") == 0);
        assert_int_equal(count, 2 + 2 * sampler + index + hierarchy + ops->option_count);
        /* one of the library's own tables through the host's door */
        MADE(xsm_estimator, e, xsm_estimator_new_from(NULL, ops, &e, &err));
        assert_string_equal(test_estimator_info(e).name, names[i]);
    }
    assert_null(xsm_estimator_at(known));
    assert_null(xsm_estimator_find("nonesuch"));
    assert_null(xsm_estimator_find(NULL));
    assert_null(xsm_estimator_ops_option(NULL, 0));
    xsm_estimator *e = (xsm_estimator *)&err;
    assert_fails(xsm_estimator_new(NULL, "implict", &e, &err), XSM_ERROR_NAME, err);
    assert_non_null(strstr(err.message, "did you mean 'implicit'?"));
    assert_fails(xsm_estimator_new(NULL, NULL, &e, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_estimator_new(NULL, "ove", NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_estimator_new_from(NULL, NULL, &e, &err), XSM_ERROR_ARGUMENT, err);
    assert_ptr_equal(e, (xsm_estimator *)&err);
}

/* -- binding ------------------------------------------------------------------------------------------------------ */

TEST(bind_checks_what_it_is_given)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(3, FEATURES, CLASSES, false, 2);
    HELD_STRUCT(test_problem, wide) = test_problem_new(3, FEATURES + 1, CLASSES, false, 2);
    HELD_STRUCT(test_problem, more) = test_problem_new(3, FEATURES, CLASSES + 1, false, 2);
    HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    static const uint64_t gap[] = {0, 1, 1, 2}, pair[] = {0, 1, 3, 4};
    static const uint32_t labels[] = {1, 2, 3, 4}, unseen[] = {1, XSM_CLASS_UNSEEN, 2};
    HELD(xsm_dataset, unlabelled) = test_relabel(&p, false, CLASSES, gap, labels);
    HELD(xsm_dataset, pairs) = test_relabel(&p, false, CLASSES, pair, labels);
    HELD(xsm_dataset, strange) = test_relabel(&p, false, CLASSES, NULL, unseen);
    for (size_t i = 0; xsm_estimator_at(i); i++) {
        const char *name = xsm_estimator_at(i)->name;
        xsm_estimator *e = test_estimator(NULL, name, "");
        assert_fails(xsm_estimator_bind(NULL, m, p.data, &err), XSM_ERROR_ARGUMENT, err);
        assert_fails(xsm_estimator_bind(e, NULL, p.data, &err), XSM_ERROR_ARGUMENT, err);
        assert_fails(xsm_estimator_bind(e, m, NULL, &err), XSM_ERROR_ARGUMENT, err);
        assert_fails(xsm_estimator_bind(e, m, wide.data, &err), XSM_ERROR_SHAPE, err);
        assert_fails(xsm_estimator_bind(e, m, more.data, &err), XSM_ERROR_SHAPE, err);
        assert_fails(xsm_estimator_bind(e, m, unlabelled, &err), XSM_ERROR_DATA, err);
        assert_non_null(strstr(err.message, "row 1 "));
        assert_fails(xsm_estimator_bind(e, m, strange, &err), XSM_ERROR_DATA, err);
        assert_non_null(strstr(err.message, "row 1 "));
        if (xsm_estimator_at(i)->flags & XSM_ESTIMATOR_MULTI_LABEL) {
            assert_ok(xsm_estimator_bind(e, m, pairs, &err), err);
            xsm_estimator_free(e);
            e = test_estimator(NULL, name, "");
        } else {
            assert_fails(xsm_estimator_bind(e, m, pairs, &err), XSM_ERROR_DATA, err);
            assert_non_null(strstr(err.message, "row 1 has 2 labels"));
        }
        if (xsm_estimator_at(i)->kind == XSM_ESTIMATOR_SAMPLED) {
            assert_ok(xsm_estimator_set(e, "negatives", "9", &err), err); /* drawn with replacement */
            assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
            assert_int_equal(e->width, 10);
        } else if (xsm_estimator_at(i)->kind == XSM_ESTIMATOR_HIERARCHY) {
            assert_ok(xsm_estimator_set(e, "tree", "balanced", &err), err);
            assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
            assert_int_equal(e->width, 3);
        } else if (xsm_estimator_at(i)->kind == XSM_ESTIMATOR_SEARCHED) {
            assert_ok(xsm_estimator_set(e, "candidates", "9", &err), err);
            assert_fails(xsm_estimator_bind(e, m, p.data, &err), XSM_ERROR_RANGE, err);
            assert_non_null(strstr(err.message, "there are 8 classes"));
        } else if (!(xsm_estimator_at(i)->kind == XSM_ESTIMATOR_EXACT)) {
            assert_ok(xsm_estimator_set(e, "negatives", "8", &err), err);
            assert_fails(xsm_estimator_bind(e, m, p.data, &err), XSM_ERROR_RANGE, err);
            assert_non_null(strstr(err.message, "only 7 other classes"));
            assert_ok(xsm_estimator_set(e, "negatives", "7", &err), err);
            assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
            assert_int_equal(e->width, 8);
        }
        xsm_estimator_free(e);
    }
}

/* -- batches ------------------------------------------------------------------------------------------------------ */

TEST(batches_are_checked)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 2);
    HELD_STRUCT(test_problem, other) = test_problem_new(ROWS, FEATURES, CLASSES, false, 3);
    HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    HELD(xsm_estimator, e) = test_estimator(NULL, "implicit", "");
    HELD(xsm_gradient, g) = test_gradient(NULL);
    xsm_batch batch = xsm_batch_range(p.data, 0, 1);
    assert_fails(xsm_estimator_gradient(e, &batch, 1, g, &err), XSM_ERROR_STATE, err);
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    assert_ok(xsm_estimator_gradient(e, &batch, 1, g, &err), err);
    assert_int_equal(test_view(g).examples, 1);
    assert_fails(xsm_estimator_gradient(NULL, &batch, 1, g, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_estimator_gradient(e, NULL, 1, g, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_estimator_gradient(e, &batch, 1, NULL, &err), XSM_ERROR_ARGUMENT, err);
    static const double etas[] = {0, -1, (double)NAN, (double)INFINITY, 1e15};
    for (int i = 0; i < 5; i++) {
        assert_fails(xsm_estimator_gradient(e, &batch, etas[i], g, &err), XSM_ERROR_RANGE, err);
        assert_int_equal(test_view(g).examples, 0); /* on failure it holds nothing */
    }
    static const uint64_t twice[] = {1, 4, 1};
    batch = xsm_batch_rows(p.data, twice, 3);
    assert_fails(xsm_estimator_gradient(e, &batch, 1, g, &err), XSM_ERROR_ARGUMENT, err);
    assert_non_null(strstr(err.message, "twice"));
    xsm_estimator_ops singly = *xsm_estimator_find("ove");
    singly.batch_limit = 1;
    NEW(xsm_estimator, one, xsm_estimator_new_from(NULL, &singly, &one, &err));
    assert_int_equal(test_estimator_info(one).batch_limit, 1);
    assert_ok(xsm_estimator_bind(one, m, p.data, &err), err);
    batch = xsm_batch_range(p.data, 0, 2);
    assert_fails(xsm_estimator_gradient(one, &batch, 1, g, &err), XSM_ERROR_UNSUPPORTED, err);
    xsm_estimator_free(one);
    batch = xsm_batch_range(p.data, 0, 0);
    assert_fails(xsm_estimator_gradient(e, &batch, 1, g, &err), XSM_ERROR_ARGUMENT, err);
    batch = xsm_batch_range(p.data, ROWS, 1);
    assert_fails(xsm_estimator_gradient(e, &batch, 1, g, &err), XSM_ERROR_RANGE, err);
    batch = xsm_batch_range(NULL, 0, 1);
    assert_fails(xsm_estimator_gradient(e, &batch, 1, g, &err), XSM_ERROR_ARGUMENT, err);
    batch = xsm_batch_range(other.data, 0, 1);
    assert_fails(xsm_estimator_gradient(e, &batch, 1, g, &err), XSM_ERROR_ARGUMENT, err);
    batch = xsm_batch_range(p.data, 0, 1);
    batch.size = 8;
    assert_fails(xsm_estimator_gradient(e, &batch, 1, g, &err), XSM_ERROR_STRUCT_OLD, err);
    xsm_gradient_view view = XSM_GRADIENT_VIEW_INIT;
    assert_fails(xsm_gradient_get_view(NULL, &view, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_gradient_get_view(g, NULL, &err), XSM_ERROR_ARGUMENT, err);
    view.size = 8;
    assert_fails(xsm_gradient_get_view(g, &view, &err), XSM_ERROR_STRUCT_OLD, err);
    assert_fails(xsm_gradient_new(NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
    xsm_gradient_free(NULL);
}

/* The stream goes on with each example, failed calls do not use it up, and binding again starts it anew. */
TEST(stream_goes_on)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, 1000, false, 2);
    HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    HELD(xsm_estimator, e) = test_estimator(NULL, "ove", "negatives=3 seed=5");
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    HELD(xsm_gradient, g) = test_gradient(NULL);
    uint32_t first[12], again[12];
    for (int round = 0; round < 2; round++) {
        xsm_batch batch = xsm_batch_range(p.data, 0, 2);
        assert_ok(xsm_estimator_gradient(e, &batch, 1, g, &err), err);
        memcpy(round ? again : first, test_view(g).classes, 8 * sizeof *first);
        assert_int_not_equal(first[1], first[5]);
        assert_fails(xsm_estimator_gradient(e, &batch, -1, g, &err), XSM_ERROR_RANGE, err);
        batch = xsm_batch_range(p.data, 1, 1);
        assert_ok(xsm_estimator_gradient(e, &batch, 1, g, &err), err);
        memcpy((round ? again : first) + 8, test_view(g).classes, 4 * sizeof *first);
        assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    }
    assert_memory_equal(first, again, sizeof first);
    assert_true(first[9] != first[5] || first[10] != first[6]); /* the same row, drawn for anew */
}

/* -- divergence --------------------------------------------------------------------------------------------------- */

TEST(scores_out_of_range_are_divergence)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 2);
    static const float wrong[] = {NAN, INFINITY, -INFINITY, 3e38f};
    for (size_t n = 0; xsm_estimator_at(n); n++) {
        const char *name = xsm_estimator_at(n)->name;
        for (int i = 0; i < 4; i++) {
            HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 0.1, 1);
            xsm_parameters w = XSM_PARAMETERS_INIT;
            assert_ok(xsm_model_get_parameters(m, &w, &err), err);
            /* a row that the example scores: its class's, or the root's */
            uint32_t row = xsm_estimator_at(n)->kind == XSM_ESTIMATOR_HIERARCHY ? 0 : p.labels[9];
            for (uint32_t j = 0; j < FEATURES; j++) {
                w.weight[row * w.class_step + j] = wrong[i];
            }
            HELD(xsm_estimator, e) = test_estimator(NULL, name, "");
            assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
            HELD(xsm_gradient, g) = test_gradient(NULL);
            xsm_batch batch = xsm_batch_range(p.data, 9, 1);
            /* These sum up in an order that does not overflow on the way. */
            bool finite = i == 3 && (n == 0 || strcmp(name, "mips") == 0 || strcmp(name, "ove-searched") == 0);
            if (!finite) {
                assert_fails(xsm_estimator_gradient(e, &batch, 0.1, g, &err), XSM_ERROR_DIVERGED, err);
                assert_non_null(strstr(err.message, name));
                assert_non_null(strstr(err.message, "smaller learning rate"));
                assert_int_equal(test_view(g).examples, 0);
            }
        }
    }
}

/* -- rows that a batch names twice -------------------------------------------------------------------------------- */

TEST(repeated_rows_are_taken_in_order)
{
    enum { MANY = 1000, WIDTH = 4 };
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 2);
    uint64_t rows[MANY], seed = 8;
    for (int i = 0; i < MANY; i++) {
        rows[i] = test_next(&seed) % 5;
    }
    float coefficients[MANY * WIDTH];
    double u[5];
    for (int way = 0; way < 6; way++) {
        HELD(xsm_context, ctx) = way == 5
                                     ? test_context(3, TEST_PTHREADS, 0)
                                     : test_context((uint32_t)way + 1, way == 3 ? TEST_REVERSED : TEST_BUILT_IN, 0);
        HELD(xsm_model, m) = test_model(ctx, &p, false, XSM_LAYOUT_CLASS_MAJOR, 2, 1);
        HELD(xsm_estimator, e) = test_estimator(ctx, "umax", "negatives=3");
        assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
        HELD(xsm_gradient, g) = test_gradient(ctx);
        xsm_batch batch = xsm_batch_rows(p.data, rows, MANY);
        assert_ok(xsm_estimator_gradient(e, &batch, 30, g, &err), err);
        const double *now = ((xsmi_double_sum *)e->state)->u;
        if (way == 0) {
            memcpy(coefficients, test_view(g).coefficients, sizeof coefficients);
            memcpy(u, now, sizeof u);
        } else {
            assert_memory_equal(coefficients, test_view(g).coefficients, sizeof coefficients);
            assert_memory_equal(u, now, sizeof u);
        }
    }
}
