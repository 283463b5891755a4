/*
 * Fuzzing of word vectors as text (`.vec`). The input is the file. What was accepted has the numbers that its first
 * line says, and can be written and read again.
 */
#include "rig.h"

#include <stdlib.h>
#include <string.h>

#include <xsoftmax/words/skipgram.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_context *ctx = fuzz_context();
    xsm_model *m = NULL, *again = NULL;
    fuzz_write("vectors.vec", data, size);
    const xsm_status status = xsm_word_model_read(ctx, fuzz_path("vectors.vec"), &m, &err);
    fuzz_require_reason(status, &err);
    fuzz_require((status == XSM_OK) == (m != NULL), "a model or an error");
    if (m) {
        xsm_class_map map = XSM_CLASS_MAP_INIT;
        xsm_parameters p = XSM_PARAMETERS_INIT;
        fuzz_require(xsm_model_get_class_map(m, &map, &err) == XSM_OK && map.names, err.message);
        fuzz_require(xsm_model_get_parameters(m, &p, &err) == XSM_OK, err.message);
        for (uint32_t k = 0; k < p.classes; k++) {
            fuzz_require(map.names[k][0] != '\0', "a word");
            for (uint32_t i = 0; i < p.features; i++) {
                const float number = p.weight[(size_t)k * p.class_step + (size_t)i * p.feature_step];
                fuzz_require(number - number == 0, "finite numbers");
            }
        }
        if (xsm_word_model_write(m, fuzz_path("written.vec"), &err) == XSM_OK) {
            fuzz_require(xsm_word_model_read(ctx, fuzz_path("written.vec"), &again, &err) == XSM_OK, err.message);
        }
        fuzz_require_reason(err.status, &err);
    }
    xsm_model_free(again);
    xsm_model_free(m);
    return 0;
}

#ifndef FUZZER
int main(int argc, char **argv)
{
    return fuzz_replay(argc, argv, true);
}
#endif
