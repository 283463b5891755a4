/*
 * The gradient of the scores (logits) that a search finds (Yen et al. 2018, Algorithm 1): z~_k = z_k for k in S and the
 * labels; all others are absent or 0.
 */
#include "methods/search_gradient.h"

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
    XSMI_ESTIMATOR_OF(mips_state),
    .name = "mips",
    .summary = "loss of the classes that a search finds (Yen et al. 2018, Algorithm 1)",
    XSMI_ESTIMATOR_OPTIONS(options),
    .bind = bind,
    .search_plan = plan,
    XSMI_SEARCH_OPS,
};
