/*
 * Fuzzing of the server's requests: the JSON of a body, its rows, and the answer. The first byte of an input says which
 * model is asked and which allocation of JSON fails, if any; the rest is the body. Where memory is lacking the answer
 * is 503, or there is none: never that a body is wrong which is right.
 */
#include "fuzz.h"
#include "rig.h"
#include "serve/serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODELS = 3 };

/* -- memory that is refused ---------------------------------------------------------------------------------------- */

static _Thread_local unsigned long until_refused; /* allocations; 0 = none is refused */

static void *allocate(size_t size)
{
    return until_refused > 0 && --until_refused == 0 ? serve_allocate(SIZE_MAX / 2) : serve_allocate(size);
}

/* -- models -------------------------------------------------------------------------------------------------------- */

static const serve_options limits = {
    .threads = 1, .top = 3, .rows = 4, .connections = 8, .seconds = 3600, .body = 1 << 16};

/* Saves a model of the rows, and lets it serve. */
static serve_models *make(size_t which)
{
    static serve_options options[MODELS];
    static char paths[MODELS][1400];
    static const char *const texts[] = {"__label__x the cat sat\n__label__y the dog\n__label__z cat dog sat\n",
                                        "2 1:1 3:2\n5 2:0.5\n9 1:-1 2:3\n", "a,b,label\n1,2,0\n3,4,1\n"};
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_model *m = NULL;
    xsm_dataset *rows = fuzz_read_rows(NULL, texts[which], NULL);
    fuzz_require(xsm_dataset_get_class_map(rows, &map, &err) == XSM_OK, err.message);
    fuzz_require(xsm_model_new_linear(NULL, map.features, map.classes, NULL, &m, &err) == XSM_OK, err.message);
    fuzz_require(xsm_model_set_class_map(m, &map, &err) == XSM_OK, err.message);
    snprintf(paths[which], sizeof paths[which], "%s", fuzz_path("model"));
    fuzz_require(xsm_model_save(m, paths[which], NULL, &err) == XSM_OK, err.message);
    xsm_model_free(m);
    xsm_dataset_free(rows);
    options[which] = limits;
    options[which].path = paths[which];
    serve_models *models = serve_models_open(&options[which]);
    fuzz_require(models != NULL, "a model that serves");
    return models;
}

static serve_models *all[MODELS];

static void free_models(void)
{
    for (size_t i = 0; i < MODELS; i++) {
        if (all[i]) {
            serve_models_end(all[i]);
            serve_models_free(all[i]);
        }
    }
}

static serve_models *know(size_t which)
{
    if (!all[which]) {
        if (!all[0] && !all[1] && !all[2]) {
            json_set_alloc_funcs(allocate, serve_release);
            json_object_seed(1);
            atexit(free_models);
        }
        all[which] = make(which);
    }
    return all[which];
}

/* -- requests ------------------------------------------------------------------------------------------------------ */

/* The status; 503 where there is no memory for the answer. */
static unsigned ask(serve_models *models, const char *body, size_t length, unsigned long refused)
{
    serve_worker *worker = serve_models_take(models);
    until_refused = refused;
    const serve_answer answer = serve_predict(worker, &limits, body, length);
    until_refused = 0;
    serve_models_give(models, worker);
    fuzz_require(answer.body || refused, "an answer");
    fuzz_require(!answer.body || json_is_object(answer.body), "an object");
    fuzz_require(!answer.body || (answer.status == 200) == !json_object_get(answer.body, "error"),
                 "an answer or why not");
    const unsigned status = answer.body ? answer.status : 503;
    json_decref(answer.body);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    serve_models *models = know(data[0] % MODELS);
    const char *body = (const char *)data + 1;
    const unsigned status = ask(models, body, size - 1, 0);
    fuzz_require(status == 200 || status == 400 || status == 413, "a status of the rows");
    const unsigned long refused = data[0] / MODELS;
    if (refused > 0) {
        const unsigned lacking = ask(models, body, size - 1, refused);
        fuzz_require(lacking == status || lacking == 503, "lack of memory is no fault of the body");
    }
    return 0;
}

#ifndef FUZZER
/* Bodies of each form, every allocation refused in turn. */
static void run_own(void)
{
    static const char *const bodies[MODELS][5] = {
        {"{\"row\": \"the cat\"}", "{\"rows\": [\"cat\", \"dog sat\"], \"top\": 2, \"id\": \"\\u00e4\"}",
         "{\"row\": [[0, 1], [2, 0.5]]}", "{\"row\": 1}", "{\"row\": \"x\", \"rows\": []}"},
        {"{\"row\": \"1:1 3:2\"}", "{\"rows\": [[[0, 1]], [[2, 1e30]]], \"id\": 7}", "{\"row\": [1, 2, 3]}",
         "{\"row\": \"1:1 3:2\"", "{\"row\": [[0, 1], [0, 2]]}"},
        {"{\"row\": [1, 2]}", "{\"rows\": [[1, 2], [3, 4]]}", "{\"row\": \"0:1\"}", "{\"row\": [1, 2], \"top\": 9}",
         "{\"row\": [1e39, 2]}"},
    };
    for (size_t i = 0; i < MODELS; i++) {
        for (size_t j = 0; j < 5; j++) {
            uint8_t data[100];
            const size_t length = strlen(bodies[i][j]);
            memcpy(data + 1, bodies[i][j], length);
            for (size_t k = 0; k * MODELS + i < 256; k++) {
                data[0] = (uint8_t)(k * MODELS + i);
                LLVMFuzzerTestOneInput(data, length + 1);
            }
        }
    }
}

int main(int argc, char **argv)
{
    run_own();
    return argc > 1 ? fuzz_replay(argc, argv, false) : 0;
}
#endif
