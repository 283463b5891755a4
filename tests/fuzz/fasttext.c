/*
 * Fuzzing of models of fastText (`.bin`, `.ftz`). The input is the file, as bytes of a storage. What was accepted can
 * be saved and loaded, and reads text.
 */
#include "fuzz.h"
#include "rig.h"

#include <stdlib.h>
#include <string.h>

#include <xsoftmax/encoder.h>
#include <xsoftmax/fasttext.h>
#include <xsoftmax/predict.h>

static void use(xsm_context *ctx, xsm_model *m)
{
    static const char line[] = "salt bread __label__ten b\xc3\xa9 e";
    xsm_error err = XSM_ERROR_INIT;
    xsm_buffer *buffer = fuzz_buffer(ctx);
    xsm_model *again = NULL;
    xsm_encoder *encoder = NULL;
    xsm_storage storage = fuzz_storage(buffer);
    xsm_batch batch = XSM_BATCH_INIT;
    const xsm_status saved = xsm_model_save(m, NULL, &storage, &err);
    fuzz_require_reason(saved, &err);
    if (saved == XSM_OK) {
        storage = fuzz_storage(buffer);
        fuzz_require(xsm_model_load(ctx, NULL, &storage, NULL, &again, &err) == XSM_OK, err.message);
    }
    fuzz_require(xsm_encoder_new(m, NULL, &encoder, &err) == XSM_OK, err.message);
    fuzz_require(xsm_encoder_encode(encoder, line, sizeof line - 1, &batch, &err) == XSM_OK, err.message);
    float score;
    fuzz_require_reason(xsm_model_score_range(m, &batch, 0, 1, &score, 1, &err), &err);
    xsm_encoder_free(encoder);
    xsm_model_free(again);
    xsm_buffer_free(buffer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *m = NULL;
    xsm_storage storage = XSM_STORAGE_INIT;
    uint8_t *bytes = malloc(size ? size : 1); /* aligned, and of its own size */
    fuzz_require(bytes != NULL, "memory");
    memcpy(bytes, data, size);
    storage.bytes = bytes;
    storage.byte_count = size;
    const xsm_status status = xsm_model_import_fasttext(fuzz_context(), NULL, &storage, NULL, &m, &err);
    fuzz_require_reason(status, &err);
    fuzz_require((status == XSM_OK) == (m != NULL), "a model or an error");
    if (m) {
        use(fuzz_context(), m);
    }
    xsm_model_free(m);
    free(bytes);
    return 0;
}

#ifndef FUZZER
int main(int argc, char **argv)
{
    return fuzz_replay(argc, argv, true);
}
#endif
