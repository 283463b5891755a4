/* What ranks exchange for the collapsed objective: see collapsed_ranks.h. */
#include "words/collapsed_ranks.h"

#include "base/order.h"

#include <math.h>
#include <string.h>

xsm_status xsmi_collapsed_ranks_start(xsmi_collapsed_ranks *r, const xsm_model *output, uint32_t most, xsm_error *err)
{
    xsm_context *ctx = output->context;
    *r = (xsmi_collapsed_ranks){.model = output, .most = most, .runs = xsmi_runs_of(output->classes)};
    const size_t line = most * output->features * sizeof *r->sums;
    XSMI_TRY(xsmi_rank_nodes_new(ctx, output->classes, &r->nodes, err));
    r->sizes = xsmi_allocate(ctx, xsmi_ranks(ctx), sizeof *r->sizes);
    r->all = xsmi_allocate(ctx, most, r->runs * sizeof *r->all);
    r->mine = xsmi_allocate(ctx, r->nodes.own, line);
    r->sums = xsmi_allocate(ctx, r->nodes.count, line);
    return r->sizes && r->all && r->mine && r->sums
               ? XSM_OK
               : xsmi_fail_memory(err, r->nodes.count * line, "the gradients of all ranks");
}

void xsmi_collapsed_ranks_clear(xsmi_collapsed_ranks *r)
{
    if (r->model) {
        xsm_context *ctx = r->model->context;
        const size_t line = r->most * r->model->features * sizeof *r->sums;
        xsmi_release(ctx, r->sizes, xsmi_ranks(ctx), sizeof *r->sizes);
        xsmi_release(ctx, r->all, r->most, r->runs * sizeof *r->all);
        xsmi_release(ctx, r->mine, r->nodes.own, line);
        xsmi_release(ctx, r->sums, r->nodes.count, line);
        xsmi_rank_nodes_clear(ctx, &r->nodes);
        memset(r, 0, sizeof *r);
    }
}

xsm_status xsmi_collapsed_ranks_most(const xsmi_collapsed_ranks *r, float *most, uint32_t count, xsm_status status,
                                     xsm_error *err)
{
    for (uint32_t i = 0; i < count && status == XSM_OK; i++) {
        most[i] = isnan(most[i]) ? INFINITY : most[i]; /* can be compared; the sums will not be finite */
    }
    XSMI_TRY(xsmi_agree(r->model->context, status, err));
    return xsmi_exchange_max(r->model->context, most, count, err);
}

xsm_status xsmi_collapsed_ranks_sums(const xsmi_collapsed_ranks *r, const xsmi_run_sums *mine, uint32_t count,
                                     xsmi_run_sums *totals, xsm_status status, xsm_error *err)
{
    xsm_context *ctx = r->model->context;
    const uint32_t ranks = xsmi_ranks(ctx);
    for (uint32_t i = 0; i < ranks; i++) {
        r->sizes[i] = (size_t)count * xsmi_runs_of_rank(r->model, i) * sizeof *r->all;
    }
    XSMI_TRY(xsmi_agree(ctx, status, err));
    XSMI_TRY(xsmi_exchange_blocks(ctx, mine, r->all, r->sizes, err));
    const xsmi_run_sums *from = r->all;
    memset(totals, 0, count * sizeof *totals);
    for (uint32_t i = 0; i < ranks; i++) {
        const size_t runs = xsmi_runs_of_rank(r->model, i);
        for (size_t j = 0; j < count * runs; j++, from++) {
            totals[j / runs].exponentials += from->exponentials;
            totals[j / runs].contexts += from->contexts;
        }
    }
    return XSM_OK;
}

xsm_status xsmi_collapsed_ranks_nodes(const xsmi_collapsed_ranks *r, uint32_t count, xsm_status status, xsm_error *err)
{
    xsm_context *ctx = r->model->context;
    memset(r->sizes, 0, xsmi_ranks(ctx) * sizeof *r->sizes);
    xsmi_rank_nodes_sizes(&r->nodes, (size_t)count * r->model->features * sizeof *r->sums, r->sizes);
    XSMI_TRY(xsmi_agree(ctx, status, err));
    return xsmi_exchange_blocks(ctx, r->mine, r->sums, r->sizes, err);
}
