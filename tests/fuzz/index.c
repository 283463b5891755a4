/*
 * Fuzzing of files of indexes. The input is the file; the index is loaded over the model of restored.h.
 */
#include "restored.h"
#include "rig.h"

#include <xsoftmax/buffer.h>

/* An index that was accepted must find rows. */
static void use(const xsm_index *x)
{
    const float query[RESTORED_WIDTH] = {1, -2, 3};
    uint32_t classes[RESTORED_TOP], lengths;
    float scores[RESTORED_TOP];
    xsm_index_search s = XSM_INDEX_SEARCH_INIT;
    s.queries = query;
    s.stride = RESTORED_WIDTH;
    s.count = 1;
    s.top = RESTORED_TOP;
    s.classes = classes;
    s.scores = scores;
    s.lengths = &lengths;
    fuzz_require(xsm_index_query(x, &s, NULL) == XSM_OK && lengths <= RESTORED_TOP, "a search");
    for (uint32_t i = 0; i < lengths; i++) {
        fuzz_require(classes[i] < RESTORED_CLASSES && (i == 0 || scores[i] <= scores[i - 1]), "classes in order");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_bytes given = {data, size, 1 + size / 3};
    const xsm_source source = fuzz_source(&given);
    xsm_storage from = XSM_STORAGE_INIT;
    xsm_error err = XSM_ERROR_INIT;
    xsm_index *x = NULL;
    from.name = "input";
    from.source = &source;
    const xsm_status status = xsm_index_load(fuzz_context(), NULL, &from, NULL, fuzz_restored()->model, &x, &err);
    if (status == XSM_OK) {
        use(x);
        xsm_index_free(x);
    } else {
        fuzz_require_reason(status, &err);
        fuzz_require(strstr(err.message, "input") != NULL || status == XSM_ERROR_MEMORY, "the storage's name");
        fuzz_require(!x, "no index");
    }
    return 0;
}

#ifndef FUZZER
int main(int argc, char **argv)
{
    return fuzz_replay(argc, argv, true);
}
#endif
