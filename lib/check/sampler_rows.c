/* Tests the draws of a sampler's table for several rows at once. */
#include "check/sampler_check.h"

#include <string.h>

enum { LANES = XSM_SAMPLER_ROWS, MOST_DRAWS = 40, ENTRIES = MOST_DRAWS + 2 };

/* Draws of several rows, with slots before and after them that must not change. */
typedef struct drawn {
    uint32_t classes[LANES][ENTRIES];
    double logs[LANES][ENTRIES];
} drawn;

typedef struct rows_trial {
    drawn together, alone;
    uint32_t *class_lists[LANES];
    double *log_lists[LANES];
    const float *codes[LANES];
    struct xsm_random random[LANES];
    xsm_random *streams[LANES];
} rows_trial;

static void start_streams(rows_trial *r, uint32_t rows)
{
    for (uint32_t i = 0; i < rows; i++) {
        xsmi_stream_start(&r->random[i].stream, 5, XSMI_STREAM_CHECK, i);
    }
}

static xsm_status compare(const xsmi_sampler_trial *t, const xsm_sampler *s, rows_trial *r, uint32_t rows,
                          uint32_t count, xsm_error *err)
{
    memset(&r->together, 0x5a, sizeof r->together);
    memset(&r->alone, 0x5a, sizeof r->alone);
    start_streams(r, rows);
    s->ops.draw_rows(s->state, r->codes, r->streams, rows, count, r->class_lists, r->log_lists);
    start_streams(r, rows);
    for (uint32_t i = 0; i < rows; i++) {
        s->ops.draw(s->state, r->codes[i], &r->random[i], count, r->alone.classes[i] + 1, r->alone.logs[i] + 1);
    }
    for (uint32_t i = 0; i < LANES; i++) {
        if (memcmp(r->together.classes[i], r->alone.classes[i], sizeof r->alone.classes[i]) != 0 ||
            memcmp(r->together.logs[i], r->alone.logs[i], sizeof r->alone.logs[i]) != 0) {
            return xsmi_sampler_fault(t, err,
                                      "draw_rows() with %u rows of %u draws gives row %u others than draw() does, or "
                                      "writes beyond its entries",
                                      rows, count, i);
        }
    }
    return XSM_OK;
}

xsm_status xsmi_sampler_trial_rows(const xsmi_sampler_trial *t, const xsm_sampler *s, xsm_error *err)
{
    static const uint32_t counts[] = {0, 1, 3, MOST_DRAWS}, sizes[] = {1, 2, LANES - 1, LANES};
    const size_t floats = (size_t)LANES * s->code_length;
    rows_trial *r = xsmi_allocate(t->context, 1, sizeof *r);
    float *codes = xsmi_allocate(t->context, floats, sizeof *codes);
    xsm_status status =
        r && codes ? XSM_OK : xsmi_fail_memory(err, sizeof *r + floats * sizeof *codes, "the trial of a sampler");
    for (uint32_t i = 0; status == XSM_OK && i < LANES; i++) {
        float *code = codes + (size_t)i * s->code_length;
        xsm_batch one = xsm_batch_range(t->data, i % t->data->rows, 1);
        xsmi_sampler_encode_batch(s, &one, 0, code);
        r->codes[i] = s->code_length > 0 ? code : NULL;
        r->class_lists[i] = r->together.classes[i] + 1;
        r->log_lists[i] = r->together.logs[i] + 1;
        r->streams[i] = &r->random[i];
    }
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        for (size_t n = 0; status == XSM_OK && n < sizeof sizes / sizeof *sizes; n++) {
            status = compare(t, s, r, sizes[n], counts[c], err);
        }
    }
    xsmi_release(t->context, r, 1, sizeof *r);
    xsmi_release(t->context, codes, floats, sizeof *codes);
    return status;
}
