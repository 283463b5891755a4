/*
 * A build without libLBFGS: training on all rows at once is refused with its reason, and nothing is touched; the
 * automatic choice does without.
 */
#define XSM_EXPERIMENTAL /* choice and tuning */
#include "training.h"

#include <xsoftmax/choose.h>
#include <xsoftmax/fit.h>

#include <string.h>

TEST(all_rows_at_once_are_refused)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(50, 3, 4, false, 9);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 2);
    HELD(xsm_estimator, e) = test_estimator(NULL, "softmax", "");
    xsm_fit_result r = XSM_FIT_RESULT_INIT, before = r;
    uint64_t hash = test_hash(m);
    assert_fails(xsm_fit_full_batch(NULL, m, p.data, e, NULL, &r, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_non_null(strstr(err.message, "without libLBFGS"));
    assert_non_null(strstr(err.message, "sgd"));
    assert_true(test_hash(m) == hash && memcmp(&r, &before, sizeof r) == 0);
}

TEST(the_choice_does_without)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(300, 5, 4, false, 3);
    xsm_choose_options o = XSM_CHOOSE_OPTIONS_INIT;
    xsm_choice_info info = XSM_CHOICE_INFO_INIT;
    NEW(xsm_choice, c, xsm_choose(NULL, p.data, &o, &c, &err));
    assert_ok(xsm_choice_get_info(c, &info, &err), err);
    assert_string_not_equal(info.optimizer, "lbfgs");
    xsm_choice_free(c);
    c = NULL;
    o.optimizer = "lbfgs";
    assert_fails(xsm_choose(NULL, p.data, &o, &c, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_non_null(strstr(err.message, "without libLBFGS"));
    assert_null(c);
}
