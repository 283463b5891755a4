/*
 * Fuzzing of the container and of what a model makes of it. The input is the file.
 */
#include "rig.h"

#include <stdlib.h>
#include <string.h>

#include "model/model.h"

#include <xsoftmax/predict.h>

/* The first features, all of them not zero. */
static void transform_row(const xsm_model *m, uint32_t features)
{
    enum { MOST = 20 };
    float values[MOST];
    uint32_t index[MOST];
    uint64_t offsets[2] = {0, features < MOST ? features : MOST};
    for (uint32_t j = 0; j < offsets[1]; j++) {
        values[j] = 1.5f;
        index[j] = j;
    }
    xsm_csr_rows csr = {.size = sizeof(xsm_csr_rows),
                        .offsets = offsets,
                        .index = index,
                        .values = values,
                        .rows = 1,
                        .features = features,
                        .ownership = XSM_BORROW};
    xsm_dataset *rows = NULL;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    xsm_error err = XSM_ERROR_INIT;
    if (xsm_dataset_from_csr(NULL, &csr, &rows, NULL) == XSM_OK) {
        const xsm_status status = xsm_model_transform(m, rows, &err);
        fuzz_require(status == XSM_OK || status == XSM_ERROR_RANGE, err.message); /* weights near the end of float32 */
        fuzz_require(xsm_dataset_get_info(rows, &info, NULL) == XSM_OK &&
                         info.features == (status == XSM_OK ? m->features : features),
                     "features");
    }
    xsm_dataset_free(rows);
}

/* A model that was accepted must be usable: everything that is not large is read. */
static void use(xsm_model *m)
{
    fuzz_look(m);
    xsm_model_info info = XSM_MODEL_INFO_INIT;
    fuzz_require(xsm_model_get_info(m, &info, NULL) == XSM_OK, "info");
    transform_row(m, info.input_features);
    float *row = calloc(m->features, sizeof *row);
    xsm_dataset *rows = NULL;
    if (row && xsm_dataset_from_dense(m->context,
                                      &(xsm_dense_rows){.size = sizeof(xsm_dense_rows),
                                                        .values = row,
                                                        .rows = 1,
                                                        .features = m->features,
                                                        .ownership = XSM_BORROW},
                                      &rows, NULL) == XSM_OK) {
        xsm_batch batch = xsm_batch_range(rows, 0, 1);
        uint32_t class = m->classes - 1;
        float score; /* those of a damaged file need not be finite */
        const xsm_status scored = xsm_model_scores(m, &batch, &class, 1, &score, NULL);
        fuzz_require(scored == XSM_OK || scored == XSM_ERROR_DIVERGED, "scores");
        /* A search in label trees, too. */
        xsm_predictor *p = NULL;
        uint32_t best[5];
        xsm_prediction prediction = XSM_PREDICTION_INIT;
        prediction.batch = &batch;
        prediction.classes = best;
        if (xsmi_model_trees(m) && xsm_predictor_new(m, NULL, &p, NULL) == XSM_OK) {
            const xsm_status status = xsm_predictor_run(p, &prediction, NULL);
            fuzz_require(status == XSM_OK || status == XSM_ERROR_DIVERGED, "a search");
        }
        xsm_predictor_free(p);
    }
    xsm_dataset_free(rows);
    free(row);
    xsm_parameters p = XSM_PARAMETERS_INIT;
    if (xsm_model_get_parameters(m, &p, NULL) == XSM_OK && p.weight) { /* sparse weights cannot be written */
        p.weight[(size_t)(p.classes - 1) * p.class_step + (size_t)(p.features - 1) * p.feature_step] += 1.0f;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    options.threads = 1;
    xsm_context *ctx = NULL;
    /* A mapping is aligned; a copy of the exact size lets the sanitizer see a read past its end. */
    size_t room = (size + 63) / 64 * 64;
    unsigned char *block = aligned_alloc(64, room + 64);
    if (!block || xsm_context_new(&options, &ctx, NULL) != XSM_OK) {
        abort();
    }
    /* Aligned to 8, as reading asks for, and ending as near as that allows to where the block does. */
    unsigned char *bytes = block + (room + 64 - size) / 8 * 8;
    if (size > 0) {
        memcpy(bytes, data, size);
    }
    /* In place without the checksum and with it, and through a source, which ends where it likes. */
    for (int way = 0; way < 3; way++) {
        xsm_error err = XSM_ERROR_INIT;
        xsm_load_options how = XSM_LOAD_OPTIONS_INIT;
        xsm_storage from = XSM_STORAGE_INIT;
        fuzz_bytes given = {bytes, size, 1 + size / 3};
        const xsm_source source = fuzz_source(&given);
        xsm_model *m = NULL;
        how.skip_verify = way == 0;
        from.name = "input";
        if (way < 2) {
            from.bytes = bytes;
            from.byte_count = size;
        } else {
            from.source = &source;
        }
        const xsm_status status = xsm_model_load(ctx, NULL, &from, &how, &m, &err);
        if (status == XSM_OK) {
            use(m);
            xsm_model_free(m);
        } else {
            fuzz_require_reason(status, &err);
            fuzz_require(strstr(err.message, "input") != NULL || status == XSM_ERROR_MEMORY, "the storage's name");
            fuzz_require(!m, "no model");
        }
    }
    xsm_context_free(ctx);
    free(block);
    return 0;
}

#ifndef FUZZER
int main(int argc, char **argv)
{
    return fuzz_replay(argc, argv, false);
}
#endif
