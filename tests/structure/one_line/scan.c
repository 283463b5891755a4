/* An index that scores one row after another in double precision. */
#include "index/index.h"

typedef struct scan_state {
    xsm_context *context;
    float *rows; /* [count][width] */
    uint32_t count, width;
} scan_state;

static void clear(void *state)
{
    scan_state *s = state;
    if (s->rows) {
        xsmi_release(s->context, s->rows, s->count, s->width * sizeof *s->rows);
        s->rows = NULL;
    }
}

static xsm_status build(void *state, const xsm_index_source *source, xsm_error *err)
{
    scan_state *s = state;
    s->context = source->context;
    s->count = source->count;
    s->width = source->width;
    s->rows = xsmi_allocate(s->context, s->count, s->width * sizeof *s->rows);
    if (!s->rows) {
        return xsmi_fail_memory(err, s->count * s->width * sizeof *s->rows, "the rows of an index");
    }
    source->read(source, NULL, 0, s->count, s->rows, s->width);
    return XSM_OK;
}

/* Inserts a row into a list of falling scores. Rows come in increasing order, so that equal ones stay in order. */
static uint32_t insert(const xsm_index_block *block, size_t list, uint32_t length, uint32_t row, float score)
{
    uint32_t at = length < block->top ? length : length - 1;
    if (at < length && !(score > block->scores[list + at])) {
        return length;
    }
    for (; at > 0 && score > block->scores[list + at - 1]; at--) {
        block->scores[list + at] = block->scores[list + at - 1];
        block->classes[list + at] = block->classes[list + at - 1];
    }
    block->scores[list + at] = score;
    block->classes[list + at] = row;
    return length < block->top ? length + 1 : length;
}

static xsm_status query(const void *state, const xsm_index_block *block, xsm_error *err)
{
    const scan_state *s = state;
    (void)err;
    for (uint32_t i = 0; i < block->count; i++) {
        const float *x = block->queries + i * block->stride;
        block->lengths[i] = 0;
        for (uint32_t k = 0; k < s->count; k++) {
            double score = 0;
            for (uint32_t j = 0; j < s->width; j++) {
                score += (double)x[j] * (double)s->rows[(size_t)k * s->width + j];
            }
            if ((float)score >= block->least_score) {
                block->lengths[i] = insert(block, i * block->list_stride, block->lengths[i], k, (float)score);
            }
        }
        block->probed[i] = s->count;
    }
    return XSM_OK;
}

const xsm_index_ops xsmi_scan_index_ops = {
    .size = sizeof(xsm_index_ops),
    .abi = XSM_EXT_ABI_VERSION,
    .name = "scan",
    .summary = "scores one row after another in double precision",
    .state_size = sizeof(scan_state),
    .build = build,
    .clear = clear,
    .query = query,
};
