/*
 * Greedy message passing between blocks of coordinates (Yen et al. 2018, Algorithm 2): each block searches for the
 * classes with its highest scores, and the blocks exchange messages about the classes that matter to any of them.
 */
#include "methods/search_gradient.h"
#include "base/order.h"

typedef struct decomp_state {
    xsmi_search search;
    xsmi_search_options o;
    int64_t blocks, rounds;
    double threshold;
    int32_t completion;
} decomp_state;

static const char *const completions[] = {"exact", "found", NULL};

static const xsm_option options[] = {
    XSMI_SEARCH_OPTIONS(decomp_state, o),
    XSMI_OPTION_INT("blocks", decomp_state, blocks, "0", 0, XSM_FEATURES_MAX,
                    "B, blocks that the coordinates are cut into; 0 = 8, or D if that is less"),
    XSMI_OPTION_INT("rounds", decomp_state, rounds, "1", 0, 1000000, "T, rounds of messages between the blocks"),
    XSMI_OPTION_DOUBLE("threshold", decomp_state, threshold, "0.001", 0, 1,
                       "tau_2: classes whose coefficient is larger than that in any block are passed on to the others"),
    XSMI_OPTION_CHOICE("completion", decomp_state, completion, completions, "exact",
                       "scores of the classes passed on: exact, or found, where blocks that did not find a class count "
                       "0 (the paper's)"),
};

static xsm_status bind(void *state, const xsm_problem *problem, xsm_error *err)
{
    decomp_state *s = state;
    if (s->blocks > (int64_t)(problem->features > 0 ? problem->features : 1)) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "estimator 'decomp-mips': %lld blocks of %u features",
                         (long long)s->blocks, problem->features);
    }
    XSMI_TRY(xsmi_search_bind(&s->search, &s->o, problem, "decomp-mips", err));
    uint32_t some = XSMI_MIN(problem->features, 8);
    s->search.blocks = s->blocks ? (uint32_t)s->blocks : some > 0 ? some : 1;
    s->search.rounds = (uint32_t)s->rounds;
    s->search.threshold = s->threshold;
    s->search.found_only = s->completion == XSMI_COMPLETE_FOUND;
    return xsmi_search_check(&s->search, "decomp-mips", err);
}

static void plan(const void *state, xsm_search_plan *p)
{
    const decomp_state *s = state;
    xsmi_search_plan(&s->search, &s->o, p);
}

const xsm_estimator_ops xsmi_decomp_mips_ops = {
    XSMI_ESTIMATOR_OF(decomp_state),
    .name = "decomp-mips",
    .summary = "search by blocks of coordinates with messages between them (Yen et al. 2018, Algorithm 2)",
    XSMI_ESTIMATOR_OPTIONS(options),
    .bind = bind,
    .search_plan = plan,
    XSMI_SEARCH_OPS,
};
