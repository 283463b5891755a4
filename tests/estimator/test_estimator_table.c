/* Tests of estimators from a host's table: valid tables work, and invalid ones are refused. */
#include "training.h"

#include "estimator/estimator.h"

#include <math.h>
#include <string.h>

enum { FEATURES = 4, CLASSES = 8, ROWS = 300 };

static void check_option(xsm_estimator *e, const char *name, const char *wanted)
{
    char text[64];
    assert_int_equal(xsm_estimator_get(e, name, text, sizeof text), strlen(wanted));
    assert_string_equal(text, wanted);
}

/* Looks at the label and the class after it, with the coefficients that the options say. */
typedef struct host_state {
    double number;
    int64_t whole;
    int32_t yes, choice;
    uint64_t bound;
    double coefficient, loss;
} host_state;

static const char *const words[] = {"red", "green", NULL};
static const xsm_option host_options[] = {
    {sizeof(xsm_option), "number", XSM_OPTION_DOUBLE, offsetof(host_state, number), "1.5", -10, 10, NULL, "a number"},
    {sizeof(xsm_option), "whole", XSM_OPTION_INT, offsetof(host_state, whole), "-3", -5, 5, NULL, "a whole number"},
    {sizeof(xsm_option), "yes", XSM_OPTION_BOOL, offsetof(host_state, yes), "yes", 0, 1, NULL, "a truth"},
    {sizeof(xsm_option), "choice", XSM_OPTION_CHOICE, offsetof(host_state, choice), "green", 0, 0, words, "a word"},
};

static xsm_status host_bind(void *state, const xsm_problem *problem, xsm_error *err)
{
    host_state *s = state;
    (void)err;
    s->bound = problem->examples * 1000 + problem->classes;
    return s->whole == 5 ? XSM_ERROR_DATA : XSM_OK;
}

static int host_unbound;
static void host_unbind(void *state)
{
    (void)state;
    host_unbound++;
}

static uint64_t host_width(const void *state)
{
    return (uint64_t)(((const host_state *)state)->whole + 5);
}

static uint64_t huge_width(const void *state)
{
    (void)state;
    return UINT64_C(1) << 62;
}

static void host_select(const void *state, const xsm_example *examples, uint64_t count, uint32_t *classes,
                        uint32_t *lengths)
{
    (void)state;
    for (uint64_t i = 0; i < count; i++) {
        classes[2 * i] = examples[i].labels[0];
        classes[2 * i + 1] = (examples[i].labels[0] + 1) % CLASSES;
        lengths[i] = 2;
    }
}

static double host_sift(const void *state)
{
    (void)state;
    return 1;
}

static double host_coefficient = 1, host_loss = 3;
static void host_gradient(void *state, const xsm_score_block *block)
{
    (void)state;
    for (uint64_t i = 0; i < block->count; i++) {
        block->coefficients[i * block->width] = (float)-host_coefficient;
        block->coefficients[i * block->width + 1] = (float)host_coefficient;
        block->losses[i] = host_loss;
    }
}

static const xsm_estimator_ops host_ops = {
    .size = sizeof(xsm_estimator_ops),
    .abi = XSM_EXT_ABI_VERSION,
    .name = "host",
    .summary = "a host's own",
    .state_size = sizeof(host_state),
    .options = host_options,
    .option_count = 4,
    .bind = host_bind,
    .unbind = host_unbind,
    .width = host_width,
    .select = host_select,
    .gradient = host_gradient,
};

TEST(host_table_works)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 2);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0.5, 1);
    NEW(xsm_estimator, e, xsm_estimator_new_from(NULL, &host_ops, &e, &err));
    check_option(e, "number", "1.5");
    check_option(e, "whole", "-3");
    check_option(e, "yes", "yes");
    check_option(e, "choice", "green");
    assert_ok(xsm_estimator_set(e, "yes", "no", &err), err);
    check_option(e, "yes", "no");
    assert_ok(xsm_estimator_set_number(e, "yes", 1, &err), err);
    check_option(e, "yes", "yes");
    assert_fails(xsm_estimator_set(e, "yes", "1", &err), XSM_ERROR_FORMAT, err);
    assert_fails(xsm_estimator_set_number(e, "yes", 2, &err), XSM_ERROR_RANGE, err);
    assert_ok(xsm_estimator_set(e, "choice", "red", &err), err);
    check_option(e, "choice", "red");
    host_unbound = 0;
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    assert_int_equal(((host_state *)e->state)->bound, ROWS * 1000 + CLASSES);
    assert_int_equal(host_unbound, 0);
    HELD(xsm_gradient, g) = test_gradient(NULL);
    uint64_t rows[3] = {7, 0, 7};
    xsm_batch batch = xsm_batch_rows(p.data, rows, 3);
    assert_ok(xsm_estimator_gradient(e, &batch, 1, g, &err), err);
    xsm_gradient_view view = test_view(g);
    assert_int_equal(view.examples, 3);
    assert_int_equal(view.width, 2);
    assert_null(view.shrinks);
    assert_true(view.decay == 1 && view.loss == 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(view.lengths[i], 2);
        assert_int_equal(view.classes[2 * i], p.labels[rows[i]]);
        assert_true(view.coefficients[2 * i] == -1.0f / 3 && view.coefficients[2 * i + 1] == 1.0f / 3);
    }
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err); /* again: the old state is released first */
    assert_int_equal(host_unbound, 1);
    xsm_estimator_free(e);
    assert_int_equal(host_unbound, 2);
    /* a bind() that fails is undone, and the estimator can be set and bound anew */
    assert_ok(xsm_estimator_new_from(NULL, &host_ops, &e, &err), err);
    assert_ok(xsm_estimator_set(e, "whole", "5", &err), err);
    assert_int_equal(xsm_estimator_bind(e, m, p.data, &err), XSM_ERROR_DATA);
    assert_int_equal(host_unbound, 3);
    assert_fails(xsm_estimator_gradient(e, &batch, 1, g, &err), XSM_ERROR_STATE, err);
    assert_ok(xsm_estimator_set(e, "whole", "-5", &err), err); /* width 0 */
    assert_fails(xsm_estimator_bind(e, m, p.data, &err), XSM_ERROR_ARGUMENT, err);
    xsm_estimator_free(e);
}

/* Without bind() there is nothing to bind: the options' values are all that the state has. */
TEST(bind_can_be_left_out)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 2);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0.5, 1);
    xsm_estimator_ops ops = host_ops;
    ops.bind = NULL;
    ops.unbind = NULL;
    MADE(xsm_estimator, e, xsm_estimator_new_from(NULL, &ops, &e, &err));
    HELD(xsm_gradient, g) = test_gradient(NULL);
    xsm_batch batch = xsm_batch_range(p.data, 0, 3);
    for (int i = 0; i < 2; i++) {
        assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
        assert_ok(xsm_estimator_gradient(e, &batch, 1, g, &err), err);
        assert_true(test_view(g).loss == 3);
    }
    assert_int_equal(((host_state *)e->state)->bound, 0);
    check_option(e, "number", "1.5");
}

static void refuse(const xsm_estimator_ops *ops, xsm_status wanted)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_estimator *e = (xsm_estimator *)&err;
    assert_fails(xsm_estimator_new_from(NULL, ops, &e, &err), wanted, err);
    assert_ptr_equal(e, (xsm_estimator *)&err);
}

/* What a table says of the classes of one process. */
TEST(bad_class_sums_are_refused)
{
    xsm_estimator_ops ops = *xsm_estimator_find("softmax");
    const xsm_class_sums good = *ops.class_sums;
    xsm_class_sums sums = good;
    ops.class_sums = &sums;
#define REFUSE(member, value)                                                                                          \
    do {                                                                                                               \
        sums.member = (value);                                                                                         \
        refuse(&ops, XSM_ERROR_ARGUMENT);                                                                              \
        sums = good;                                                                                                   \
    } while (0)
    REFUSE(size, sizeof good - 1);
    REFUSE(count, 0);
    REFUSE(count, 9);
    REFUSE(sums, NULL);
    REFUSE(gradient, NULL);
    REFUSE(most, NULL);
#undef REFUSE
    sums.single = 3;
    refuse(&ops, XSM_ERROR_RANGE);
    sums = good;
    ops.sift = host_sift;
    refuse(&ops, XSM_ERROR_ARGUMENT);
    ops.sift = NULL;
    ops.flags |= XSM_ESTIMATOR_ROW_STATE;
    refuse(&ops, XSM_ERROR_ARGUMENT);
    ops = *xsm_estimator_find("umax");
    ops.class_sums = &good;
    refuse(&ops, XSM_ERROR_ARGUMENT);
}

TEST(bad_tables_are_refused)
{
    xsm_estimator_ops ops = host_ops;
#define REFUSE(member, value, wanted)                                                                                  \
    do {                                                                                                               \
        ops = host_ops;                                                                                                \
        ops.member = value;                                                                                            \
        refuse(&ops, wanted);                                                                                          \
    } while (0)
    REFUSE(name, NULL, XSM_ERROR_ARGUMENT);
    REFUSE(summary, NULL, XSM_ERROR_ARGUMENT);
    REFUSE(width, NULL, XSM_ERROR_ARGUMENT);
    REFUSE(select, NULL, XSM_ERROR_ARGUMENT);
    REFUSE(gradient, NULL, XSM_ERROR_ARGUMENT);
    REFUSE(flags, 1 << 20, XSM_ERROR_ARGUMENT);
    REFUSE(flags, XSM_ESTIMATOR_CORRECTED, XSM_ERROR_ARGUMENT);
    REFUSE(kind, XSM_ESTIMATOR_EXACT, XSM_ERROR_ARGUMENT);
    REFUSE(kind, XSM_ESTIMATOR_SAMPLED, XSM_ERROR_ARGUMENT);
    REFUSE(kind, XSM_ESTIMATOR_SEARCHED, XSM_ERROR_ARGUMENT);
    REFUSE(kind, XSM_ESTIMATOR_HIERARCHY, XSM_ERROR_ARGUMENT);
    REFUSE(kind, XSM_ESTIMATOR_HIERARCHY + 1, XSM_ERROR_ARGUMENT);
    REFUSE(kind, -1, XSM_ERROR_ARGUMENT);
    REFUSE(sift, host_sift, XSM_ERROR_ARGUMENT);
    REFUSE(abi, 0, XSM_ERROR_ABI);
    REFUSE(abi, XSM_EXT_ABI_VERSION + 1, XSM_ERROR_ABI);
    REFUSE(size, 0, XSM_ERROR_STRUCT_OLD);
    REFUSE(size, offsetof(xsm_estimator_ops, gradient), XSM_ERROR_STRUCT_OLD);
    REFUSE(size, SIZE_MAX, XSM_ERROR_STRUCT_NEW);
    REFUSE(options, NULL, XSM_ERROR_ARGUMENT);
    REFUSE(state_size, offsetof(host_state, choice), XSM_ERROR_ARGUMENT);
#undef REFUSE
    /* An option's size: none, no release's, another than the first's; then of a newer release, used or not. */
    static const struct {
        size_t first, rest;
        xsm_status status;
    } sizes[] = {
        {0, 0, XSM_ERROR_STRUCT_OLD},
        {sizeof(xsm_option) - 8, sizeof(xsm_option) - 8, XSM_ERROR_STRUCT_OLD},
        {SIZE_MAX, sizeof(xsm_option), XSM_ERROR_ARGUMENT},
        {sizeof(xsm_option), 0, XSM_ERROR_ARGUMENT},
        {sizeof(xsm_option), sizeof(xsm_option) + 8, XSM_ERROR_ARGUMENT},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        xsm_option options[4];
        memcpy(options, host_options, sizeof options);
        options[0].size = sizes[i].first;
        options[1].size = options[2].size = options[3].size = sizes[i].rest;
        ops = host_ops;
        ops.options = options;
        refuse(&ops, sizes[i].status);
    }
    struct {
        xsm_option known;
        double later;
    } newer[4];
    for (size_t i = 0; i < 4; i++) {
        newer[i].known = host_options[i];
        newer[i].known.size = sizeof newer[i];
        newer[i].later = 0;
    }
    ops = host_ops;
    ops.options = &newer[0].known;
    xsm_estimator *of_newer = NULL;
    xsm_error none = XSM_ERROR_INIT;
    assert_ok(xsm_estimator_new_from(NULL, &ops, &of_newer, &none), none);
    assert_ok(xsm_estimator_set(of_newer, host_options[3].name, host_options[3].initial, &none), none);
    xsm_estimator_free(of_newer);
    newer[2].later = 1;
    refuse(&ops, XSM_ERROR_STRUCT_NEW);
    struct {
        xsm_estimator_ops known;
        void *more;
    } longer = {host_ops, NULL};
    longer.known.size = sizeof longer;
    xsm_estimator *e = NULL;
    assert_ok(xsm_estimator_new_from(NULL, &longer.known, &e, &err), err); /* of a later release, nothing new used */
    xsm_estimator_free(e);
    longer.more = &longer;
    refuse(&longer.known, XSM_ERROR_STRUCT_NEW);
}

TEST(bad_option_tables_are_refused)
{
    xsm_option bad[2];
    xsm_estimator_ops ops = host_ops;
    ops.options = bad;
    ops.option_count = 2;
#define REFUSE(place, member, value, wanted)                                                                           \
    do {                                                                                                               \
        bad[0] = host_options[0];                                                                                      \
        bad[1] = host_options[place];                                                                                  \
        bad[1].member = value;                                                                                         \
        refuse(&ops, wanted);                                                                                          \
    } while (0)
    REFUSE(1, name, NULL, XSM_ERROR_ARGUMENT);
    REFUSE(1, initial, NULL, XSM_ERROR_ARGUMENT);
    REFUSE(1, help, NULL, XSM_ERROR_ARGUMENT);
    REFUSE(1, type, 0, XSM_ERROR_ARGUMENT);
    REFUSE(1, type, 6, XSM_ERROR_ARGUMENT);
    REFUSE(3, choices, NULL, XSM_ERROR_ARGUMENT);
    REFUSE(1, offset, sizeof(host_state) - 7, XSM_ERROR_ARGUMENT);
    REFUSE(1, offset, UINT32_MAX, XSM_ERROR_ARGUMENT);
    REFUSE(1, initial, "many", XSM_ERROR_FORMAT);
    REFUSE(1, initial, "77", XSM_ERROR_RANGE);
    REFUSE(2, initial, "1", XSM_ERROR_FORMAT);
    REFUSE(3, initial, "blue", XSM_ERROR_FORMAT);
    REFUSE(1, name, "ridge", XSM_ERROR_ARGUMENT);
    REFUSE(1, name, "seed", XSM_ERROR_ARGUMENT);
    REFUSE(1, name, "number", XSM_ERROR_ARGUMENT);
#undef REFUSE
}

TEST(width_is_checked)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(3, FEATURES, CLASSES, false, 2);
    HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    xsm_estimator_ops ops = host_ops;
    ops.width = huge_width;
    MADE(xsm_estimator, e, xsm_estimator_new_from(NULL, &ops, &e, &err));
    assert_fails(xsm_estimator_bind(e, m, p.data, &err), XSM_ERROR_ARGUMENT, err);
}

TEST(steps_out_of_range_are_divergence)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 2);
    memset(p.x, 0, FEATURES * sizeof *p.x); /* row 0: nothing there to be moved along */
    HELD(xsm_dataset, data) = test_relabel(&p, false, CLASSES, NULL, p.labels);
    HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 0.1, 1);
    MADE(xsm_estimator, e, xsm_estimator_new_from(NULL, &host_ops, &e, &err));
    assert_ok(xsm_estimator_bind(e, m, data, &err), err);
    HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
    HELD(xsm_gradient, g) = test_gradient(NULL);
    uint64_t before = test_hash(m);
    for (uint64_t row = 0; row < 2; row++) {
        xsm_batch batch = xsm_batch_range(data, row, 1);
        host_coefficient = 1e30;
        assert_fails(xsm_estimator_gradient(e, &batch, 1e14, g, &err), XSM_ERROR_DIVERGED, err);
        host_coefficient = 1e12;
        assert_ok(xsm_estimator_gradient(e, &batch, 1, g, &err), err); /* but then not applied with the same rate */
        assert_fails(xsm_optimizer_apply(o, &batch, g, 1e12, &err), XSM_ERROR_DIVERGED, err);
        host_coefficient = (double)INFINITY;
        assert_fails(xsm_estimator_gradient(e, &batch, 1, g, &err), XSM_ERROR_DIVERGED, err);
        host_coefficient = (double)NAN;
        assert_fails(xsm_estimator_gradient(e, &batch, 1, g, &err), XSM_ERROR_DIVERGED, err);
        host_coefficient = 1;
        host_loss = (double)NAN;
        assert_fails(xsm_estimator_gradient(e, &batch, 1, g, &err), XSM_ERROR_DIVERGED, err);
        host_loss = 3;
    }
    assert_true(test_hash(m) == before);
}

/* Coefficients so small that weights made of them could be denormal floats are 0, by their mean over the batch. */
TEST(tiny_coefficients_are_none)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(3, FEATURES, CLASSES, false, 2);
    HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    MADE(xsm_estimator, e, xsm_estimator_new_from(NULL, &host_ops, &e, &err));
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    HELD(xsm_gradient, g) = test_gradient(NULL);
    static const double sizes[][2] = {{0x1p-99, 0x1p-100}, {0x1p-100, 0}, {1e-40, 0}};
    xsm_batch batch = xsm_batch_range(p.data, 0, 2);
    for (int i = 0; i < 3; i++) {
        host_coefficient = sizes[i][0];
        assert_ok(xsm_estimator_gradient(e, &batch, 1, g, &err), err);
        xsm_gradient_view view = test_view(g);
        assert_true((double)view.coefficients[0] == -sizes[i][1] && (double)view.coefficients[1] == sizes[i][1]);
    }
    host_coefficient = 1;
}
