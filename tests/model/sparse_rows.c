#include "sparse_rows.h"

#include <stdio.h>
#include <stdlib.h>

#include <xsoftmax.h>
#include <xsoftmax/buffer.h>

uint32_t noise(uint32_t i)
{
    uint64_t z = (i + UINT64_C(1)) * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    return (uint32_t)((z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB) >> 32);
}

static void fill(rows *r, const sparse_shape *s)
{
    uint32_t n = 0, labels = 0;
    for (uint32_t i = 0; i < s->rows; i++) {
        uint32_t j = noise(i) % 7;
        for (uint32_t c = 0; c < s->nonzeros && i != 3 && j < s->features; c++) {
            r->index[n] = j;
            r->values[n] = (float)(noise(i * 100 + c) % 400) / 200 - 1;
            r->dense[i * s->features + j] = r->values[n++];
            j += 1 + noise(i * 51 + c) % s->gap;
        }
        r->offsets[i + 1] = n;
        r->labels[labels++] = noise(i + 99) % (s->classes / 2);
        if (s->several && i % 3 == 0) {
            r->labels[labels++] = s->classes / 2 + noise(i + 999) % (s->classes / 2);
        }
        r->label_offsets[i + 1] = labels;
    }
}

rows *rows_new(xsm_context *ctx, const sparse_shape *s)
{
    xsm_error err = XSM_ERROR_INIT;
    rows *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->offsets = calloc(s->rows + 1, sizeof *r->offsets);
    r->label_offsets = calloc(s->rows + 1, sizeof *r->label_offsets);
    r->index = calloc((size_t)s->rows * s->nonzeros, sizeof *r->index);
    r->values = calloc((size_t)s->rows * s->nonzeros, sizeof *r->values);
    r->labels = calloc((size_t)2 * s->rows, sizeof *r->labels);
    r->dense = calloc((size_t)s->rows * s->features, sizeof *r->dense);
    assert_true(r->offsets && r->label_offsets && r->index && r->values && r->labels && r->dense);
    fill(r, s);
    const xsm_labels given = {
        .size = sizeof given, .offsets = r->label_offsets, .labels = r->labels, .classes = s->classes};
    xsm_csr_rows sparse = XSM_CSR_ROWS_INIT;
    sparse.offsets = r->offsets;
    sparse.index = r->index;
    sparse.values = r->values;
    xsm_dense_rows dense = XSM_DENSE_ROWS_INIT;
    dense.values = r->dense;
    sparse.rows = dense.rows = s->rows;
    sparse.features = dense.features = s->features;
    sparse.labels = dense.labels = &given;
    assert_ok(xsm_dataset_from_csr(ctx, &sparse, &r->sparse, &err), err);
    assert_ok(xsm_dataset_from_dense(ctx, &dense, &r->full, &err), err);
    return r;
}

void end_rows(rows *r)
{
    xsm_dataset_free(r->sparse);
    xsm_dataset_free(r->full);
    free(r->offsets);
    free(r->label_offsets);
    free(r->index);
    free(r->values);
    free(r->labels);
    free(r->dense);
    free(r);
}

void try_bytes(xsm_context *ctx, unsigned char *bytes, size_t size, const rows *r, uint32_t features, tried *t)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_load_options options = XSM_LOAD_OPTIONS_INIT;
    xsm_storage from = XSM_STORAGE_INIT;
    options.skip_verify = 1;
    from.bytes = bytes;
    from.byte_count = size;
    xsm_model *m = NULL;
    if (xsm_model_load(ctx, NULL, &from, &options, &m, &err) == XSM_OK) {
        float scores[2];
        xsm_batch batch = xsm_batch_range(r->sparse, 0, 1);
        if (xsm_model_feature_count(m) == features) {
            assert_ok(xsm_model_score_range(m, &batch, 0, 2, scores, 2, &err), err);
        }
        t->accepted++;
        xsm_model_free(m);
    } else {
        assert_true((err.status == XSM_ERROR_FORMAT || err.status == XSM_ERROR_FILE_VERSION) && err.message[0] != '\0');
        t->refused++;
    }
}
