/*
 * Tests that files are little-endian. A big-endian machine trains as others do, but refuses to read or write model
 * files, with an error that says so, and leaves no file behind. Others write the length of the header with its low
 * byte first.
 */
#include "training.h"

#include <xsoftmax/trainer.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool is_big(void)
{
    const uint16_t number = 1;
    unsigned char first;
    memcpy(&first, &number, 1);
    return first == 0;
}

static const char *path_of(const char *name)
{
    static char path[64];
    snprintf(path, sizeof path, "byte-order-%s.safetensors", name);
    remove(path);
    return path;
}

static void expect_refused(xsm_status status, const xsm_error *err, const char *path)
{
    struct stat st;
    assert_int_equal(status, XSM_ERROR_UNSUPPORTED);
    assert_int_equal(err->status, XSM_ERROR_UNSUPPORTED);
    assert_non_null(strstr(err->message, path));
    assert_non_null(strstr(err->message, "little-endian"));
    assert_int_not_equal(stat(path, &st), 0);
}

static void expect_little(const char *path)
{
    unsigned char start[9] = {0};
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(start, 1, sizeof start, file), sizeof start);
    fclose(file);
    assert_int_equal(start[8], '{');
    assert_true(start[0] > 0 || start[1] > 0);
    assert_int_equal(start[5] + start[6] + start[7], 0);
    remove(path);
}

/* 30 epochs that lower the loss to less than half of log K, the loss of a model that knows nothing. */
static xsm_model *train(const test_problem *p, xsm_context *ctx, xsm_estimator *e, xsm_optimizer *o,
                        xsm_trainer **trainer)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *m = test_model(ctx, p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    assert_ok(xsm_trainer_new(ctx, m, p->data, e, o, STRUCT(xsm_trainer_options, .epochs = 30, .eta = 0.5, .seed = 3),
                              trainer, &err),
              err);
    assert_ok(xsm_trainer_run(*trainer, &err), err);
    double loss = 0;
    float *scores = calloc(p->rows * p->classes, sizeof *scores);
    assert_non_null(scores);
    test_all_scores(m, p->data, scores);
    for (uint64_t i = 0; i < p->rows; i++) {
        double sum = 0;
        for (uint32_t k = 0; k < p->classes; k++) {
            sum += exp((double)scores[i * p->classes + k]);
        }
        loss += log(sum) - (double)scores[i * p->classes + p->labels[i]];
    }
    free(scores);
    assert_true(loss / (double)p->rows < 0.5 * log(p->classes));
    return m;
}

TEST(test_files)
{
    HELD(xsm_context, ctx) = test_context(2, TEST_BUILT_IN, 0);
    test_problem p = test_problem_new(20, 16, 5, false, 7); /* few enough rows to be told apart */
    xsm_estimator *e = test_estimator(ctx, "softmax", "");
    xsm_trainer *trainer = NULL;
    NEW(xsm_optimizer, o, xsm_optimizer_new(ctx, "adagrad", &o, &err));
    xsm_model *m = train(&p, ctx, e, o, &trainer);

    const char *path = path_of("model");
    xsm_status status = xsm_model_save(m, path, NULL, &err);
    if (is_big()) {
        expect_refused(status, &err, path);
    } else {
        assert_int_equal(status, XSM_OK);
        expect_little(path);
    }

    path = path_of("checkpoint");
    status = xsm_trainer_checkpoint(trainer, path, NULL, &err);
    if (is_big()) {
        expect_refused(status, &err, path);
    } else {
        assert_int_equal(status, XSM_OK);
        expect_little(path);
    }

    path = path_of("dataset");
    xsm_write_options cache = XSM_WRITE_OPTIONS_INIT;
    cache.format = XSM_FORMAT_CACHE;
    status = xsm_dataset_write(p.data, path, &cache, &err);
    if (is_big()) {
        expect_refused(status, &err, path);
    } else {
        assert_int_equal(status, XSM_OK);
        expect_little(path);
    }
    xsm_trainer_free(trainer);
    xsm_optimizer_free(o);
    xsm_estimator_free(e);
    xsm_model_free(m);
    test_problem_free(&p);
}

/* A file from elsewhere. */
TEST(test_load)
{
    static const char header[] = "{\"weight\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]}}   ";
    _Static_assert((sizeof header - 1) % sizeof(float) == 0, "the tensor begins at a multiple of its dtype's size");
    unsigned char bytes[8 + sizeof header - 1 + 8] = {sizeof header - 1};
    memcpy(bytes + 8, header, sizeof header - 1);
    bytes[8 + sizeof header - 1 + 2] = 0x80; /* 1.0f */
    bytes[8 + sizeof header - 1 + 3] = 0x3F;
    xsm_model *m = NULL;
    const char *path = path_of("given");
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, sizeof bytes, file), sizeof bytes);
    fclose(file);
    xsm_status status = xsm_model_load(NULL, path, NULL, NULL, &m, &err);
    remove(path);
    if (is_big()) {
        expect_refused(status, &err, path);
        assert_null(m);
    } else {
        assert_int_equal(status, XSM_OK);
        assert_true(test_weight(m, 0, 0) == 1 && test_weight(m, 1, 0) == 0);
        xsm_model_free(m);
    }
}
