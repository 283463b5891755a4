/*
 * What ranks exchange for the collapsed objective where each has some of the words: of a group of centres the largest
 * scores, sums over class runs, and for the gradients of input vectors the sums of nodes (gradient/rank_nodes.h).
 *
 * For each centre a rank sends 4 bytes, 16 for each of its class runs, and with gradients of input vectors 4 D for each
 * of its nodes; and 12 or 16 a group to agree.
 */
#ifndef XSMI_COLLAPSED_RANKS_H
#define XSMI_COLLAPSED_RANKS_H

#include "gradient/rank_nodes.h"
#include "model/divided.h"

/* What a centre has of the words of a class run, or of all. */
typedef struct xsmi_run_sums {
    double exponentials;
    double contexts; /* the scores of its contexts, each times the pairs */
} xsmi_run_sums;

typedef struct xsmi_collapsed_ranks {
    const xsm_model *model; /* the output vectors; borrowed */
    xsmi_rank_nodes nodes;
    size_t most, runs; /* centres of a group; class runs of all ranks */
    size_t *sizes;     /* [ranks] */
    xsmi_run_sums *all;
    float *mine, *sums; /* of this rank's nodes, and of all: [nodes][centres][D] */
} xsmi_collapsed_ranks;

/* For groups of up to `most` centres. Clearing is allowed after a failure. */
xsm_status xsmi_collapsed_ranks_start(xsmi_collapsed_ranks *r, const xsm_model *output, uint32_t most, xsm_error *err);
void xsmi_collapsed_ranks_clear(xsmi_collapsed_ranks *r);
/* The following three exchange if `status` is XSM_OK on all ranks. The largest scores of `count` centres: */
xsm_status xsmi_collapsed_ranks_most(const xsmi_collapsed_ranks *r, float *most, uint32_t count, xsm_status status,
                                     xsm_error *err);
/* The sums over all class runs, in rising order, of [count][runs of this rank]: */
xsm_status xsmi_collapsed_ranks_sums(const xsmi_collapsed_ranks *r, const xsmi_run_sums *mine, uint32_t count,
                                     xsmi_run_sums *totals, xsm_status status, xsm_error *err);
/* The sums of the nodes, in r->mine for this rank's: */
xsm_status xsmi_collapsed_ranks_nodes(const xsmi_collapsed_ranks *r, uint32_t count, xsm_status status, xsm_error *err);

#endif
