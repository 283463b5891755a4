/*
 * The gradient of the scores that a search finds (Yen et al. 2018, Algorithm 1): z~_k = z_k for k in S and the labels,
 * and nothing, or 0, for the others.
 */
#include "estimator/search_gradient.h"

typedef struct mips_state {
    xsmi_search search;
    xsmi_search_options o;
} mips_state;

static const xsm_option options[] = {XSMI_SEARCH_OPTIONS(mips_state, o)};

static xsm_status bind(void *state, const xsm_problem *problem, xsm_error *err)
{
    mips_state *s = state;
    XSMI_TRY(xsmi_search_bind(&s->search, &s->o, problem, "mips", err));
    return xsmi_search_check(&s->search, "mips", err);
}

static void plan(const void *state, xsm_search_plan *p)
{
    const mips_state *s = state;
    xsmi_search_plan(&s->search, &s->o, p);
}

const xsm_estimator_ops xsmi_mips_ops = {
    .size = sizeof(xsm_estimator_ops),
    .abi = XSM_ESTIMATOR_ABI,
    .flags = XSM_ESTIMATOR_INDEX | XSM_ESTIMATOR_MULTI_LABEL | XSM_ESTIMATOR_OTHER_LOSS,
    .name = "mips",
    .summary = "loss of the classes that a search finds (Yen et al. 2018, Algorithm 1)",
    .state_size = sizeof(mips_state),
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .option_size = sizeof options[0],
    .bind = bind,
    .width = xsmi_search_width,
    .select = xsmi_search_select,
    .scratch = xsmi_search_scratch,
    .gradient = xsmi_search_gradient,
    .search_plan = plan,
    .search = xsmi_search_found,
};
