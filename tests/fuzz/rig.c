#include "rig.h"
#include "restored.h"

#include <string.h>

#include <xsoftmax/tensors.h>
#include <xsoftmax/vocabulary.h>

xsm_context *fuzz_context(void)
{
    static xsm_context *context;
    xsm_error err = XSM_ERROR_INIT;
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    options.threads = 1;
    fuzz_require(context || xsm_context_new(&options, &context, &err) == XSM_OK, err.message);
    return context;
}

struct restored *fuzz_restored(void)
{
    static restored r;
    fuzz_require(r.index || restored_begin(&r, fuzz_context()), "an index");
    return &r;
}

static int32_t on_progress(void *user, const xsm_progress *progress)
{
    fuzz_rig *r = user;
    (void)progress;
    return ++r->calls == r->stop_at;
}

xsm_dataset *fuzz_rows(xsm_context *context, bool sparse)
{
    static float x[FUZZ_ROWS * FUZZ_FEATURES];
    static uint32_t index[FUZZ_ROWS * FUZZ_FEATURES], labels[FUZZ_ROWS];
    static uint64_t offsets[FUZZ_ROWS + 1];
    uint32_t state = 7;
    uint64_t count = 0;
    for (uint32_t i = 0; i < FUZZ_ROWS; i++) {
        labels[i] = i * i % FUZZ_CLASSES;
        for (uint32_t f = 0; f < FUZZ_FEATURES; f++) {
            state = state * 1664525 + 1013904223;
            if (!sparse || (i + f) % 3) {
                index[count] = f;
                x[count++] = (float)(state >> 8) / (1 << 24) - 0.3f + (float)(labels[i] == f);
            }
        }
        offsets[i + 1] = count;
    }
    xsm_labels given = XSM_LABELS_INIT;
    xsm_dataset *rows = NULL;
    xsm_error err = XSM_ERROR_INIT;
    given.classes = FUZZ_CLASSES;
    given.labels = labels;
    xsm_status status = sparse ? xsm_dataset_from_csr(context,
                                                      &(xsm_csr_rows){.size = sizeof(xsm_csr_rows),
                                                                      .offsets = offsets,
                                                                      .index = index,
                                                                      .values = x,
                                                                      .rows = FUZZ_ROWS,
                                                                      .features = FUZZ_FEATURES,
                                                                      .labels = &given},
                                                      &rows, &err)
                               : xsm_dataset_from_dense(context,
                                                        &(xsm_dense_rows){.size = sizeof(xsm_dense_rows),
                                                                          .values = x,
                                                                          .rows = FUZZ_ROWS,
                                                                          .features = FUZZ_FEATURES,
                                                                          .labels = &given},
                                                        &rows, &err);
    fuzz_require(status == XSM_OK, err.message);
    return rows;
}

static void set_options(xsm_estimator *e, const char *options)
{
    xsm_error err = XSM_ERROR_INIT;
    for (const char *at = options; *at;) {
        char word[64];
        size_t length = strcspn(at, " ");
        fuzz_require(length < sizeof word, "a short option");
        memcpy(word, at, length);
        word[length] = '\0';
        char *equals = strchr(word, '=');
        fuzz_require(equals != NULL, "KEY=VALUE");
        *equals = '\0';
        fuzz_require(xsm_estimator_set(e, word, equals + 1, &err) == XSM_OK, err.message);
        at += length + (at[length] == ' ');
    }
}

void fuzz_rig_begin(fuzz_rig *r, const fuzz_run *k)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_embedding_options embedding = XSM_EMBEDDING_OPTIONS_INIT;
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    *r = (fuzz_rig){0};
    options.epochs = FUZZ_EPOCHS;
    options.batch = k->batch;
    options.eta = 0.3;
    options.schedule = XSM_SCHEDULE_INVERSE;
    options.seed = 5;
    options.progress = on_progress;
    options.progress_user = r;
    r->context = fuzz_context();
    r->rows = fuzz_rows(r->context, k->sparse);
    xsm_status status =
        k->hidden
            ? xsm_model_new_embedding(r->context, FUZZ_FEATURES, FUZZ_HIDDEN, FUZZ_CLASSES, &embedding, &r->model, &err)
            : xsm_model_new_linear(r->context, FUZZ_FEATURES, FUZZ_CLASSES, NULL, &r->model, &err);
    fuzz_require(status == XSM_OK, err.message);
    fuzz_require(xsm_estimator_new(r->context, k->estimator, &r->estimator, &err) == XSM_OK, err.message);
    set_options(r->estimator, k->options);
    fuzz_require(xsm_optimizer_new(r->context, k->optimizer, &r->optimizer, &err) == XSM_OK, err.message);
    fuzz_require(xsm_trainer_new(r->context, r->model, r->rows, r->estimator, r->optimizer, &options, &r->trainer,
                                 &err) == XSM_OK,
                 err.message);
    r->trainer->report.interval = 0; /* a call after every step */
}

void fuzz_rig_end(fuzz_rig *r)
{
    xsm_trainer_free(r->trainer);
    xsm_optimizer_free(r->optimizer);
    xsm_estimator_free(r->estimator);
    xsm_model_free(r->model);
    xsm_dataset_free(r->rows);
}

void fuzz_look(const xsm_model *m)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_model_info info = XSM_MODEL_INFO_INIT;
    fuzz_require(xsm_model_get_class_map(m, &map, &err) == XSM_OK && map.classes == xsm_model_class_count(m),
                 "classes");
    fuzz_require(xsm_model_get_info(m, &info, &err) == XSM_OK, err.message);
    for (uint32_t k = 0; k < map.classes; k++) {
        fuzz_require(!map.names || strlen(map.names[k]) < SIZE_MAX / 2, "names");
        fuzz_require(!map.labels || k == 0 || map.labels[k] > map.labels[k - 1], "labels rise");
        fuzz_require(!map.counts || map.counts[k] <= map.rows, "no more rows of a class than there are");
    }
    for (uint64_t i = 0; i < info.metadata_count; i++) {
        fuzz_require(xsm_model_get_metadata(m, info.metadata_keys[i]) != NULL, "metadata");
    }
    for (size_t i = 0; xsm_model_tensor_name(m, i); i++) {
        xsm_tensor t = XSM_TENSOR_INIT;
        fuzz_require(xsm_model_get_tensor(m, xsm_model_tensor_name(m, i), &t, &err) == XSM_OK, err.message);
        volatile unsigned char last = t.bytes > 0 ? ((const unsigned char *)t.data)[t.bytes - 1] : 0;
        (void)last;
    }
    const uint32_t words = xsm_vocabulary_words(map.vocabulary);
    fuzz_require((words == 0 || *xsm_vocabulary_word(map.vocabulary, words - 1)) &&
                     !xsm_vocabulary_word(map.vocabulary, words),
                 "words");
}
