/*
 * Tests of structs shared with programs that were built against another release: every function that takes a struct
 * with a size accepts shorter and longer ones as error.h says. (abi.py check tests that members keep their offsets.)
 */
#define XSM_EXPERIMENTAL /* choice and tuning */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xsoftmax-words.h>
#include <xsoftmax.h>
#include <xsoftmax/bindings.h>
#include <xsoftmax/dataset_weights.h>
#include <xsoftmax/draw.h>
#include <xsoftmax/calibrate.h>
#include <xsoftmax/encoder.h>
#include <xsoftmax/ext/experimental.h>
#include <xsoftmax/ext/comm.h>
#include <xsoftmax/filter.h>
#include <xsoftmax/ext/optimizer.h>
#include <xsoftmax/ext/sampler.h>
#include <xsoftmax/search.h>
#include <xsoftmax/buffer.h>
#include <xsoftmax/tensors.h>
#include <xsoftmax/vocabulary.h>
#include <xsoftmax/stored_weights.h>

/* The size that a struct had in the first release: programs of that age hand in so much. 64-bit machines. */
typedef struct released {
    const char *name;
    size_t size, now;
} released;

#define GROWS(name, first_size, size) {#name, first_size, sizeof(name)},
#define FIXED(...)
#define MEMBER(...)
#define DEFAULT(...)
#define TYPE(...)
#define VALUE(...)
#define COPIED(...)
#define HEADER(...)
#define INCLUDES(...)
#define DECLARES(...)
#define LIST(...)
#define CPP(...)
#define FUNCTION(...)
static const released structs[] = {
#include "abi/pins.inc"
};

/* Structs without a pin are experimental, and have today's size. */
static size_t first_size(const char *name, size_t now)
{
    for (size_t i = 0; i < sizeof structs / sizeof *structs; i++) {
        if (strcmp(structs[i].name, name) == 0) {
            return sizeof(void *) == 8 ? structs[i].size : structs[i].now;
        }
    }
    return now;
}

static void assert_zero_but_size(const void *object, size_t size)
{
    const unsigned char *bytes = object;
    size_t said;
    memcpy(&said, object, sizeof said);
    assert_int_equal(said, size);
    for (size_t i = sizeof said; i < size; i++) {
        assert_int_equal(bytes[i], 0);
    }
}

static void test_starting_values(void **state)
{
    (void)state;
#define STARTS(type, init)                                                                                             \
    do {                                                                                                               \
        type object = init;                                                                                            \
        assert_zero_but_size(&object, sizeof object);                                                                  \
    } while (0)
    STARTS(xsm_error, XSM_ERROR_INIT);
    STARTS(xsm_context_options, XSM_CONTEXT_OPTIONS_INIT);
    STARTS(xsm_allocator, XSM_ALLOCATOR_INIT);
    STARTS(xsm_runner, XSM_RUNNER_INIT);
    STARTS(xsm_source, XSM_SOURCE_INIT);
    STARTS(xsm_class_map, XSM_CLASS_MAP_INIT);
    STARTS(xsm_labels, XSM_LABELS_INIT);
    STARTS(xsm_progress, XSM_PROGRESS_INIT);
    STARTS(xsm_read_options, XSM_READ_OPTIONS_INIT);
    STARTS(xsm_text_options, XSM_TEXT_OPTIONS_INIT);
    STARTS(xsm_write_options, XSM_WRITE_OPTIONS_INIT);
    STARTS(xsm_dataset_info, XSM_DATASET_INFO_INIT);
    STARTS(xsm_row, XSM_ROW_INIT);
    STARTS(xsm_model_options, XSM_MODEL_OPTIONS_INIT);
    STARTS(xsm_load_options, XSM_LOAD_OPTIONS_INIT);
    STARTS(xsm_parameters, XSM_PARAMETERS_INIT);
    STARTS(xsm_parameters_view, XSM_PARAMETERS_VIEW_INIT);
    STARTS(xsm_embedding_view, XSM_EMBEDDING_VIEW_INIT);
    STARTS(xsm_metrics, XSM_METRICS_INIT);
    STARTS(xsm_predictor_options, XSM_PREDICTOR_OPTIONS_INIT);
    STARTS(xsm_prediction, XSM_PREDICTION_INIT);
    STARTS(xsm_dense_rows, XSM_DENSE_ROWS_INIT);
    STARTS(xsm_csr_rows, XSM_CSR_ROWS_INIT);
    STARTS(xsm_draw, XSM_DRAW_INIT);
    STARTS(xsm_trainer_options, XSM_TRAINER_OPTIONS_INIT);
    STARTS(xsm_fit_result, XSM_FIT_RESULT_INIT);
    STARTS(xsm_choose_options, XSM_CHOOSE_OPTIONS_INIT);
    STARTS(xsm_choice_info, XSM_CHOICE_INFO_INIT);
    STARTS(xsm_choice_trial, XSM_CHOICE_TRIAL_INIT);
    STARTS(xsm_tune_options, XSM_TUNE_OPTIONS_INIT);
    STARTS(xsm_tune_trial, XSM_TUNE_TRIAL_INIT);
    STARTS(xsm_tuning_info, XSM_TUNING_INFO_INIT);
    STARTS(xsm_corpus_options, XSM_CORPUS_OPTIONS_INIT);
    STARTS(xsm_corpus_info, XSM_CORPUS_INFO_INIT);
    STARTS(xsm_skipgram_fit_options, XSM_SKIPGRAM_FIT_OPTIONS_INIT);
    STARTS(xsm_stream_options, XSM_STREAM_OPTIONS_INIT);
    /* Members where 0 has a meaning of its own. */
#define STARTS_BUT(type, init, member)                                                                                 \
    do {                                                                                                               \
        type object = init;                                                                                            \
        assert_true(object.member == XSM_DEFAULT);                                                                     \
        object.member = 0;                                                                                             \
        assert_zero_but_size(&object, sizeof object);                                                                  \
    } while (0)
    STARTS_BUT(xsm_fit_options, XSM_FIT_OPTIONS_INIT, tolerance);
    STARTS_BUT(xsm_embedding_options, XSM_EMBEDDING_OPTIONS_INIT, scale);
    STARTS_BUT(xsm_skipgram_options, XSM_SKIPGRAM_OPTIONS_INIT, power);
    xsm_evaluate_options evaluation = XSM_EVALUATE_OPTIONS_INIT;
    assert_true(evaluation.propensity_b == XSM_DEFAULT);
    evaluation.propensity_b = 0;
    STARTS_BUT(xsm_evaluate_options, evaluation, propensity_a);
    xsm_index_check_options check = XSM_INDEX_CHECK_OPTIONS_INIT;
    assert_true(check.tolerance == XSM_DEFAULT);
    check.tolerance = 0;
    STARTS_BUT(xsm_index_check_options, check, recall);
    xsm_gradient_view view = XSM_GRADIENT_VIEW_INIT;
    assert_true(view.decay == 1); /* no ridge */
    view.decay = 0;
    assert_zero_but_size(&view, sizeof view);
}

/* What xsm_struct_init() writes is what the macros have: test twins. Here, for programs of other releases. */
static void test_struct_init(void **state)
{
    (void)state;
    enum { BEYOND = 24 };
    xsm_error err = XSM_ERROR_INIT;
    for (size_t i = 0; i < sizeof structs / sizeof *structs; i++) {
        size_t now = structs[i].now, sizes[] = {first_size(structs[i].name, now), now, now + BEYOND};
        unsigned char *whole = malloc(now), *object = malloc(now + BEYOND + 1);
        assert_int_equal(xsm_struct_init(structs[i].name, whole, now, &err), XSM_OK);
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++) {
            size_t size = sizes[j], known = size < now ? size : now, said;
            memset(object, 0xA5, now + BEYOND + 1);
            assert_int_equal(xsm_struct_init(structs[i].name, object, size, &err), XSM_OK);
            memcpy(&said, object, sizeof said);
            assert_int_equal(said, size);
            assert_memory_equal(object + sizeof said, whole + sizeof said, known - sizeof said);
            for (size_t k = known; k < size; k++) {
                assert_int_equal(object[k], 0);
            }
            assert_int_equal(object[size], 0xA5);
        }
        memset(object, 0xA5, now);
        assert_int_equal(xsm_struct_init(structs[i].name, object, sizes[0] - 1, &err), XSM_ERROR_STRUCT_OLD);
        assert_non_null(strstr(err.message, structs[i].name));
        assert_int_equal(xsm_struct_init(structs[i].name, object, SIZE_MAX, &err), XSM_ERROR_STRUCT_NEW);
        assert_int_equal(object[0], 0xA5);
        free(object);
        free(whole);
    }
    xsm_metrics metrics = XSM_METRICS_INIT;
    metrics.rows = 7;
    assert_int_equal(xsm_struct_init("metrics", &metrics, sizeof metrics, &err), XSM_ERROR_NAME);
    assert_non_null(strstr(err.message, "'metrics'"));
    assert_int_equal(xsm_struct_init("xsm_confusion", &metrics, sizeof metrics, &err), XSM_ERROR_NAME);
    assert_int_equal(xsm_struct_init(NULL, &metrics, sizeof metrics, &err), XSM_ERROR_ARGUMENT);
    assert_int_equal(xsm_struct_init("xsm_metrics", NULL, sizeof metrics, &err), XSM_ERROR_ARGUMENT);
    assert_int_equal(metrics.rows, 7);
}

/* Batches that exported functions make equal those of the header's functions, in structs of every release. */
static void test_batch_twins(void **state)
{
    (void)state;
    static const uint64_t numbers[2] = {3, 1}, offsets[3] = {0, 1, 2};
    static const uint32_t index[2] = {0, 4};
    static const float values[2] = {1, 2};
    int anything = 0;
    const xsm_dataset *dataset = (const xsm_dataset *)(const void *)&anything; /* no function reads it */
    xsm_error err = XSM_ERROR_INIT;
    struct {
        xsm_batch batch;
        unsigned char beyond[8];
    } made;
    size_t first = first_size("xsm_batch", 0), sizes[] = {first, sizeof(xsm_batch), sizeof made};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t known = sizes[i] < sizeof(xsm_batch) ? sizes[i] : sizeof(xsm_batch);
        for (int which = 0; which < 4; which++) {
            xsm_batch *out = &made.batch, expected;
            xsm_status status;
            memset(&made, 0xA5, sizeof made);
            made.batch.size = sizes[i];
            switch (which) {
            case 0:
                expected = xsm_batch_range(dataset, 5, 7);
                status = xsm_batch_set_range(out, dataset, 5, 7, &err);
                break;
            case 1:
                expected = xsm_batch_rows(dataset, numbers, 2);
                status = xsm_batch_set_rows(out, dataset, numbers, 2, &err);
                break;
            case 2:
                expected = xsm_batch_values(values, 2, 1, 9);
                status = xsm_batch_set_values(out, values, 2, 1, 9, &err);
                break;
            default:
                expected = xsm_batch_sparse_values(offsets, index, values, 2, 5);
                status = xsm_batch_set_sparse_values(out, offsets, index, values, 2, 5, &err);
            }
            assert_int_equal(status, XSM_OK);
            assert_int_equal(made.batch.size, sizes[i]);
            expected.size = sizes[i];
            assert_memory_equal(&made, &expected, known);
            for (size_t k = 0; k < sizeof made.beyond; k++) {
                assert_int_equal(made.beyond[k], sizes[i] == sizeof made ? 0 : 0xA5);
            }
        }
    }
    made.batch.size = 0;
    made.batch.count = 11;
    assert_int_equal(xsm_batch_set_range(&made.batch, NULL, 0, 1, &err), XSM_ERROR_STRUCT_OLD);
    assert_int_equal(made.batch.count, 11);
    assert_int_equal(xsm_batch_set_rows(NULL, NULL, NULL, 1, &err), XSM_ERROR_ARGUMENT);
}

/* -- every function that takes a struct with a size --------------------------------------------------------------- */

typedef struct fixture {
    xsm_dataset *data;
    xsm_model *model;
    xsm_estimator *estimator;
    xsm_optimizer *optimizer;
    xsm_gradient *gradient;
    xsm_trainer *trainer;
    xsm_predictor *predictor;
    const char *path, *model_path, *text_path;
} fixture;

static const float rows[4][2] = {{1, 0}, {0, 1}, {1, 1}, {-1, 0}};
static const uint32_t row_labels[4] = {0, 1, 2, 2};

static xsm_labels labels_of_rows(void)
{
    xsm_labels labels = {sizeof labels, 3, 0, NULL, row_labels, NULL};
    return labels;
}

static int begin(void **state)
{
    static fixture f;
    xsm_error err = XSM_ERROR_INIT;
    memset(&f, 0, sizeof f);
    xsm_labels labels = labels_of_rows();
    assert_ok(xsm_dataset_from_dense(
                  NULL, STRUCT(xsm_dense_rows, .values = &rows[0][0], .rows = 4, .features = 2, .labels = &labels),
                  &f.data, &err),
              err);
    assert_ok(xsm_model_new_linear(NULL, 2, 3, NULL, &f.model, &err), err);
    assert_ok(xsm_estimator_new(NULL, "implicit", &f.estimator, &err), err);
    assert_ok(xsm_optimizer_new(NULL, "sgd", &f.optimizer, &err), err);
    assert_ok(xsm_gradient_new(NULL, &f.gradient, &err), err);
    assert_ok(xsm_trainer_new(NULL, f.model, f.data, f.estimator, f.optimizer, STRUCT(xsm_trainer_options, .epochs = 1),
                              &f.trainer, &err),
              err);
    assert_ok(xsm_predictor_new(f.model, NULL, &f.predictor, &err), err);
    xsm_batch batch = xsm_batch_range(f.data, 0, 1);
    assert_ok(xsm_estimator_gradient(f.estimator, &batch, 1, f.gradient, &err), err);
    f.path = test_file("rows", TEXT("1 1:1\n2 2:1\n"));
    f.model_path = test_path("model");
    f.text_path = test_file("text", TEXT("a b a b a b a b a b"));
    *state = &f;
    return 0;
}

static int end(void **state)
{
    fixture *f = *state;
    xsm_predictor_free(f->predictor);
    xsm_trainer_free(f->trainer);
    xsm_gradient_free(f->gradient);
    xsm_optimizer_free(f->optimizer);
    xsm_estimator_free(f->estimator);
    xsm_model_free(f->model);
    xsm_dataset_free(f->data);
    test_files_end();
    return 0;
}

typedef xsm_status (*call)(fixture *f, void *object, xsm_error *err);

/* Hands `object` (of today's `size`) to a function with every kind of size. */
static void assert_sizes(fixture *f, const char *name, call function, const void *object, size_t size)
{
    enum { TAIL = 24 };
    xsm_error err = XSM_ERROR_INIT;
    size_t first = first_size(name, size);
    assert_true(size >= first);
    unsigned char *longer = calloc(1, size + TAIL);
    assert_non_null(longer);
#define RESET(size_)                                                                                                   \
    do {                                                                                                               \
        size_t said_ = (size_);                                                                                        \
        memset(longer, 0, size + TAIL);                                                                                \
        memcpy(longer, object, size);                                                                                  \
        memcpy(longer, &said_, sizeof said_);                                                                          \
    } while (0)
    RESET(size);
    assert_ok(function(f, longer, &err), err);
    RESET(first);
    assert_ok(function(f, longer, &err), err);
    RESET(size + TAIL);
    assert_ok(function(f, longer, &err), err);
    for (size_t i = 0; i < TAIL; i += 7) {
        RESET(size + TAIL);
        longer[size + i] = 1;
        assert_fails(function(f, longer, &err), XSM_ERROR_STRUCT_NEW, err);
        assert_non_null(strstr(err.message, name));
    }
    RESET(SIZE_MAX);
    assert_fails(function(f, longer, &err), XSM_ERROR_STRUCT_NEW, err);
    RESET(0);
    assert_fails(function(f, longer, &err), XSM_ERROR_STRUCT_OLD, err);
    RESET(first - 1);
    assert_fails(function(f, longer, &err), XSM_ERROR_STRUCT_OLD, err);
    RESET(sizeof(size_t));
    assert_fails(function(f, longer, &err), XSM_ERROR_STRUCT_OLD, err);
    assert_non_null(strstr(err.message, name));
#undef RESET
    free(longer);
}

static xsm_status new_context(fixture *f, void *object, xsm_error *err)
{
    (void)f;
    HELD(xsm_context, made) = NULL;
    return xsm_context_new(object, &made, err);
}

static xsm_status new_context_with_allocator(fixture *f, void *object, xsm_error *err)
{
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    options.allocator = object;
    return new_context(f, &options, err);
}

static xsm_status new_context_with_runner(fixture *f, void *object, xsm_error *err)
{
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    options.runner = object;
    return new_context(f, &options, err);
}

static void *allocate(void *user, size_t size, size_t alignment)
{
    (void)user;
    return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void release(void *user, void *memory, size_t size, size_t alignment)
{
    (void)user;
    (void)size;
    (void)alignment;
    free(memory);
}

static int32_t run_in_turn(void *user, xsm_job job, void *state, size_t count)
{
    (void)user;
    for (size_t i = 0; i < count; i++) {
        job(state, i, 0);
    }
    return 0;
}

static xsm_status from_dense(fixture *f, void *object, xsm_error *err)
{
    (void)f;
    HELD(xsm_dataset, made) = NULL;
    return xsm_dataset_from_dense(
        NULL, STRUCT(xsm_dense_rows, .values = &rows[0][0], .rows = 4, .features = 2, .labels = object), &made, err);
}

static xsm_status from_csr(fixture *f, void *object, xsm_error *err)
{
    static const uint64_t offsets[] = {0, 1, 2, 2, 3};
    static const uint32_t index[] = {0, 1, 1};
    static const float values[] = {1, 2, 3};
    (void)f;
    HELD(xsm_dataset, made) = NULL;
    return xsm_dataset_from_csr(NULL,
                                STRUCT(xsm_csr_rows, .offsets = offsets, .index = index, .values = values, .rows = 4,
                                       .features = 2, .labels = object),
                                &made, err);
}

static xsm_status from_dense_rows(fixture *f, void *object, xsm_error *err)
{
    (void)f;
    HELD(xsm_dataset, made) = NULL;
    return xsm_dataset_from_dense(NULL, object, &made, err);
}

static xsm_status from_csr_rows(fixture *f, void *object, xsm_error *err)
{
    (void)f;
    HELD(xsm_dataset, made) = NULL;
    return xsm_dataset_from_csr(NULL, object, &made, err);
}

static xsm_status read_file(fixture *f, void *object, xsm_error *err)
{
    HELD(xsm_dataset, made) = NULL;
    return xsm_dataset_read(NULL, f->path, NULL, object, &made, err);
}

static xsm_status read_source(fixture *f, void *object, xsm_error *err)
{
    (void)f;
    test_bytes bytes = {TEXT("1 1:1\n2 2:1\n"), 0, SIZE_MAX, 0};
    HELD(xsm_dataset, made) = NULL;
    return xsm_dataset_read(NULL, NULL, TEST_BYTES(&bytes, "source"), object, &made, err);
}

/* A source is read once: each call has rows of its own. */
static xsm_status read_from(fixture *f, void *object, xsm_error *err)
{
    (void)f;
    test_bytes bytes = {TEXT("1 1:1\n2 2:1\n"), 0, SIZE_MAX, 0};
    const xsm_source source = test_source(&bytes);
    HELD(xsm_dataset, made) = NULL;
    memcpy((char *)object + offsetof(xsm_source, user), &source.user, sizeof source.user);
    return xsm_dataset_read(NULL, NULL, TEST_FROM(object, "source"), NULL, &made, err);
}

/* The bytes of a model in a buffer, by a storage's source. */
static xsm_status load_from_source(fixture *f, void *object, xsm_error *err)
{
    xsm_buffer *buffer = NULL;
    xsm_storage storage = XSM_STORAGE_INIT;
    size_t count = 0;
    assert_ok(xsm_buffer_new(NULL, &buffer, err), *err);
    assert_ok(xsm_buffer_get_storage(buffer, &storage, err), *err);
    assert_ok(xsm_model_save(f->model, NULL, &storage, err), *err);
    const void *saved = xsm_buffer_bytes(buffer, &count);
    test_bytes bytes = {saved, count, 0, SIZE_MAX, 0};
    const xsm_source source = test_source(&bytes);
    memcpy((char *)object + offsetof(xsm_source, user), &source.user, sizeof source.user);
    storage = (xsm_storage)XSM_STORAGE_INIT;
    storage.source = object;
    xsm_model *made = NULL;
    xsm_status status = xsm_model_load(NULL, NULL, &storage, NULL, &made, err);
    xsm_model_free(made);
    xsm_buffer_free(buffer);
    return status;
}

static xsm_status read_with_map(fixture *f, void *object, xsm_error *err)
{
    xsm_read_options options = XSM_READ_OPTIONS_INIT;
    options.classes = object;
    return read_file(f, &options, err);
}

static xsm_dataset *read_words(void *options, xsm_error *err)
{
    test_bytes bytes = {TEXT("__label__x a b\n"), 0, SIZE_MAX, 0};
    xsm_read_options reading = XSM_READ_OPTIONS_INIT;
    xsm_dataset *made = NULL;
    reading.text = options;
    return xsm_dataset_read(NULL, NULL, TEST_BYTES(&bytes, "source"), &reading, &made, err) == XSM_OK ? made : NULL;
}

static xsm_status read_as_text(fixture *f, void *object, xsm_error *err)
{
    (void)f;
    xsm_error own = XSM_ERROR_INIT;
    err = err ? err : &own;
    xsm_dataset *made = read_words(object, err);
    xsm_dataset_free(made);
    return made ? XSM_OK : err->status;
}

static xsm_status get_text_options(fixture *f, void *object, xsm_error *err)
{
    (void)f;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    HELD(xsm_dataset, made) = read_words(NULL, NULL);
    xsm_status status = xsm_dataset_get_class_map(made, &map, err);
    status = status == XSM_OK ? xsm_vocabulary_get_options(map.vocabulary, object, err) : status;
    return status;
}

static xsm_status write_data(fixture *f, void *object, xsm_error *err)
{
    return xsm_dataset_write(f->data, "/dev/null", object, err);
}

static xsm_status get_info(fixture *f, void *object, xsm_error *err)
{
    return xsm_dataset_get_info(f->data, object, err);
}

static xsm_status get_row(fixture *f, void *object, xsm_error *err)
{
    return xsm_dataset_get_row(f->data, 1, object, err);
}

static xsm_status get_classes(fixture *f, void *object, xsm_error *err)
{
    return xsm_dataset_get_class_map(f->data, object, err);
}

static xsm_status new_model(fixture *f, void *object, xsm_error *err)
{
    (void)f;
    HELD(xsm_model, made) = NULL;
    return xsm_model_new_linear(NULL, 2, 3, object, &made, err);
}

static xsm_status set_model_classes(fixture *f, void *object, xsm_error *err)
{
    return xsm_model_set_class_map(f->model, object, err);
}

static xsm_status get_model_classes(fixture *f, void *object, xsm_error *err)
{
    return xsm_model_get_class_map(f->model, object, err);
}

static xsm_status get_parameters(fixture *f, void *object, xsm_error *err)
{
    return xsm_model_get_parameters(f->model, object, err);
}

static xsm_status get_view(fixture *f, void *object, xsm_error *err)
{
    return xsm_model_get_view(f->model, object, err);
}

static xsm_status scores(fixture *f, void *object, xsm_error *err)
{
    uint32_t class = 1;
    float score;
    return xsm_model_scores(f->model, object, &class, 1, &score, err);
}

static xsm_status score_range(fixture *f, void *object, xsm_error *err)
{
    float out[3];
    return xsm_model_score_range(f->model, object, 0, 3, out, 3, err);
}

static xsm_status new_estimator(fixture *f, void *object, xsm_error *err)
{
    (void)f;
    HELD(xsm_estimator, made) = NULL;
    return xsm_estimator_new_from(NULL, object, &made, err);
}

static xsm_status new_sampler(fixture *f, void *object, xsm_error *err)
{
    (void)f;
    HELD(xsm_sampler, made) = NULL;
    return xsm_sampler_new_from(NULL, object, &made, err);
}

static xsm_status compute_gradient(fixture *f, void *object, xsm_error *err)
{
    return xsm_estimator_gradient(f->estimator, object, 0.5, f->gradient, err);
}

static xsm_status get_gradient(fixture *f, void *object, xsm_error *err)
{
    return xsm_gradient_get_view(f->gradient, object, err);
}

static xsm_status apply_gradient(fixture *f, void *object, xsm_error *err)
{
    return xsm_optimizer_apply(f->optimizer, object, f->gradient, 0.5, err);
}

static xsm_status new_trainer(fixture *f, void *object, xsm_error *err)
{
    HELD(xsm_trainer, made) = NULL;
    return xsm_trainer_new(NULL, f->model, f->data, f->estimator, f->optimizer, object, &made, err);
}

static xsm_status get_progress(fixture *f, void *object, xsm_error *err)
{
    return xsm_trainer_get_progress(f->trainer, object, err);
}

static xsm_status open_corpus(fixture *f, void *object, xsm_error *err)
{
    HELD(xsm_corpus, made) = NULL;
    return xsm_corpus_open(NULL, f->text_path, object, &made, err);
}

/* What use() makes of a corpus. */
static xsm_status with_corpus(const fixture *f, xsm_status (*use)(xsm_corpus *, void *, xsm_error *), void *object,
                              xsm_error *err)
{
    HELD(xsm_corpus, corpus) = NULL;
    assert_ok(xsm_corpus_open(NULL, f->text_path, NULL, &corpus, err), *err);
    return use(corpus, object, err);
}

static xsm_status info_of_corpus(xsm_corpus *corpus, void *object, xsm_error *err)
{
    return xsm_corpus_get_info(corpus, object, err);
}

static xsm_status get_corpus_info(fixture *f, void *object, xsm_error *err)
{
    return with_corpus(f, info_of_corpus, object, err);
}

static xsm_status classes_of_corpus(xsm_corpus *corpus, void *object, xsm_error *err)
{
    return xsm_corpus_get_class_map(corpus, object, err);
}

static xsm_status get_corpus_classes(fixture *f, void *object, xsm_error *err)
{
    return with_corpus(f, classes_of_corpus, object, err);
}

/* A trainer with these options, or one without whose progress is wanted. */
static xsm_status train_words(xsm_corpus *corpus, const xsm_skipgram_options *options, xsm_progress *progress,
                              xsm_error *err)
{
    HELD(xsm_model, input) = NULL;
    HELD(xsm_model, output) = NULL;
    HELD(xsm_skipgram, trainer) = NULL;
    assert_ok(xsm_word_model_new(NULL, corpus, 2, 1, 1, &input, err), *err);
    assert_ok(xsm_word_model_new(NULL, corpus, 2, 0, 1, &output, err), *err);
    xsm_status status = xsm_skipgram_new(NULL, corpus, input, output, NULL, options, &trainer, err);
    if (status == XSM_OK && progress) {
        status = xsm_skipgram_get_progress(trainer, progress, err);
    }
    return status;
}

static xsm_status options_of_words(xsm_corpus *corpus, void *object, xsm_error *err)
{
    return train_words(corpus, object, NULL, err);
}

static xsm_status new_skipgram(fixture *f, void *object, xsm_error *err)
{
    return with_corpus(f, options_of_words, object, err);
}

static xsm_status fit_words(xsm_corpus *corpus, void *object, xsm_error *err)
{
    HELD(xsm_model, input) = NULL;
    HELD(xsm_model, output) = NULL;
    xsm_skipgram_fit_options all = XSM_SKIPGRAM_FIT_OPTIONS_INIT;
    all.subsample = 1; /* two words are too frequent for any other */
    memcpy((char *)object + offsetof(xsm_skipgram_fit_options, subsample), &all.subsample, sizeof all.subsample);
    assert_ok(xsm_word_model_new(NULL, corpus, 2, 1, 1, &input, err), *err);
    assert_ok(xsm_word_model_new(NULL, corpus, 2, 1, 2, &output, err), *err);
    return xsm_skipgram_fit(NULL, corpus, input, output, object, NULL, err);
}

static xsm_status fit_skipgram(fixture *f, void *object, xsm_error *err)
{
    return with_corpus(f, fit_words, object, err);
}

static xsm_status progress_of_words(xsm_corpus *corpus, void *object, xsm_error *err)
{
    return train_words(corpus, NULL, object, err);
}

static xsm_status get_skipgram_progress(fixture *f, void *object, xsm_error *err)
{
    return with_corpus(f, progress_of_words, object, err);
}

static xsm_status choose(fixture *f, void *object, xsm_error *err)
{
    HELD(xsm_choice, made) = NULL;
    return xsm_choose(NULL, f->data, object, &made, err);
}

static xsm_status get_choice(fixture *f, void *object, xsm_error *err)
{
    HELD(xsm_choice, made) = NULL;
    assert_int_equal(xsm_choose(NULL, f->data, NULL, &made, NULL), XSM_OK);
    return xsm_choice_get_info(made, object, err);
}

/* On objects of its own: the fixture's are trained. Calls get() if it is there, or hands `object` in as options. */
static xsm_status tune_with(const fixture *f, const xsm_tune_options *options,
                            xsm_status (*get)(const xsm_tuning *, void *, xsm_error *), void *object, xsm_error *err)
{
    HELD(xsm_model, model) = NULL;
    HELD(xsm_estimator, estimator) = NULL;
    HELD(xsm_optimizer, optimizer) = NULL;
    HELD(xsm_tuning, tuning) = NULL;
    assert_int_equal(xsm_model_new_linear(NULL, xsm_model_feature_count(f->model), xsm_model_class_count(f->model),
                                          NULL, &model, NULL),
                     XSM_OK);
    assert_int_equal(xsm_estimator_new(NULL, "softmax", &estimator, NULL), XSM_OK);
    assert_int_equal(xsm_optimizer_new(NULL, "sgd", &optimizer, NULL), XSM_OK);
    xsm_status status = xsm_tune_eta(NULL, model, f->data, estimator, optimizer, options, &tuning, err);
    if (status == XSM_OK && get) {
        status = get(tuning, object, err);
    }
    return status;
}

static xsm_status tune(fixture *f, void *object, xsm_error *err)
{
    return tune_with(f, object, NULL, NULL, err);
}

static xsm_status info_of(const xsm_tuning *tuning, void *object, xsm_error *err)
{
    return xsm_tuning_get_info(tuning, object, err);
}

static xsm_status get_tuning_info(fixture *f, void *object, xsm_error *err)
{
    return tune_with(f, NULL, info_of, object, err);
}

static xsm_status first_trial(const xsm_tuning *tuning, void *object, xsm_error *err)
{
    return xsm_tuning_get_trial(tuning, 0, object, err);
}

static xsm_status get_trial(fixture *f, void *object, xsm_error *err)
{
    return tune_with(f, NULL, first_trial, object, err);
}

static xsm_status evaluate(fixture *f, void *object, xsm_error *err)
{
    xsm_metrics metrics = XSM_METRICS_INIT;
    return xsm_evaluate(NULL, f->model, f->data, object, &metrics, err);
}

static xsm_status get_metrics(fixture *f, void *object, xsm_error *err)
{
    return xsm_evaluate(NULL, f->model, f->data, NULL, object, err);
}

static xsm_status fit(fixture *f, xsm_fit_options *options, xsm_fit_result *result, xsm_error *err)
{
    HELD(xsm_estimator, softmax) = NULL;
    assert_int_equal(xsm_estimator_new(NULL, "softmax", &softmax, NULL), XSM_OK);
    return xsm_fit_full_batch(NULL, f->model, f->data, softmax, options, result, err);
}

static xsm_status fit_with(fixture *f, void *object, xsm_error *err)
{
    return fit(f, object, NULL, err);
}

static xsm_status fit_for(fixture *f, void *object, xsm_error *err)
{
    return fit(f, NULL, object, err);
}

static xsm_status new_predictor(fixture *f, void *object, xsm_error *err)
{
    HELD(xsm_predictor, made) = NULL;
    return xsm_predictor_new(f->model, object, &made, err);
}

static xsm_status predict(fixture *f, void *object, xsm_error *err)
{
    uint32_t classes[5];
    return xsm_predictor_run(f->predictor, STRUCT(xsm_prediction, .batch = object, .classes = classes), err);
}

static xsm_status run_prediction(fixture *f, void *object, xsm_error *err)
{
    return xsm_predictor_run(f->predictor, object, err);
}

static xsm_status draw(fixture *f, void *object, xsm_error *err)
{
    HELD(xsm_sampler, sampler) = NULL;
    assert_int_equal(xsm_sampler_new(NULL, "uniform", &sampler, NULL), XSM_OK);
    assert_int_equal(xsm_sampler_bind(sampler, f->data, NULL), XSM_OK);
    return xsm_sampler_draw(sampler, object, err);
}

static xsm_status get_context_info(fixture *f, void *object, xsm_error *err)
{
    (void)f;
    HELD(xsm_context, context) = NULL;
    assert_int_equal(xsm_context_new(NULL, &context, NULL), XSM_OK);
    return xsm_context_get_info(context, object, err);
}

static xsm_status get_model_info(fixture *f, void *object, xsm_error *err)
{
    return xsm_model_get_info(f->model, object, err);
}

static xsm_status get_estimator_info(fixture *f, void *object, xsm_error *err)
{
    (void)f;
    HELD(xsm_estimator, softmax) = NULL;
    assert_int_equal(xsm_estimator_new(NULL, "softmax", &softmax, NULL), XSM_OK);
    return xsm_estimator_get_info(softmax, object, err);
}

static xsm_status get_sampler_info(fixture *f, void *object, xsm_error *err)
{
    (void)f;
    HELD(xsm_sampler, uniform) = NULL;
    assert_int_equal(xsm_sampler_new(NULL, "uniform", &uniform, NULL), XSM_OK);
    return xsm_sampler_get_info(uniform, object, err);
}

static xsm_status get_optimizer_info(fixture *f, void *object, xsm_error *err)
{
    (void)f;
    HELD(xsm_optimizer, sgd) = NULL;
    assert_int_equal(xsm_optimizer_new(NULL, "sgd", &sgd, NULL), XSM_OK);
    return xsm_optimizer_get_info(sgd, object, err);
}

static xsm_status get_predictor_info(fixture *f, void *object, xsm_error *err)
{
    return xsm_predictor_get_info(f->predictor, object, err);
}

static void test_every_function(void **state)
{
    fixture *f = *state;
    xsm_progress progress = XSM_PROGRESS_INIT;
#define SIZES(type, init, function)                                                                                    \
    do {                                                                                                               \
        type object = init;                                                                                            \
        assert_sizes(f, #type, function, &object, sizeof object);                                                      \
    } while (0)
    SIZES(xsm_context_options, XSM_CONTEXT_OPTIONS_INIT, new_context);
    const xsm_allocator allocator = {sizeof allocator, NULL, allocate, release};
    assert_sizes(f, "xsm_allocator", new_context_with_allocator, &allocator, sizeof allocator);
    const xsm_runner runner = {sizeof runner, NULL, 1, 0, run_in_turn};
    assert_sizes(f, "xsm_runner", new_context_with_runner, &runner, sizeof runner);
    test_bytes no_bytes = {TEXT(""), 0, SIZE_MAX, 0};
    const xsm_source source = test_source(&no_bytes);
    assert_sizes(f, "xsm_source", read_from, &source, sizeof source);
    assert_sizes(f, "xsm_source", load_from_source, &source, sizeof source);
    SIZES(xsm_context_info, XSM_CONTEXT_INFO_INIT, get_context_info);
    SIZES(xsm_model_info, XSM_MODEL_INFO_INIT, get_model_info);
    SIZES(xsm_estimator_info, XSM_ESTIMATOR_INFO_INIT, get_estimator_info);
    SIZES(xsm_sampler_info, XSM_SAMPLER_INFO_INIT, get_sampler_info);
    SIZES(xsm_optimizer_info, XSM_OPTIMIZER_INFO_INIT, get_optimizer_info);
    SIZES(xsm_predictor_info, XSM_PREDICTOR_INFO_INIT, get_predictor_info);
    SIZES(xsm_labels, labels_of_rows(), from_dense);
    SIZES(xsm_labels, labels_of_rows(), from_csr);
    SIZES(xsm_read_options, XSM_READ_OPTIONS_INIT, read_file);
    SIZES(xsm_read_options, XSM_READ_OPTIONS_INIT, read_source);
    SIZES(xsm_text_options, XSM_TEXT_OPTIONS_INIT, read_as_text);
    SIZES(xsm_text_options, XSM_TEXT_OPTIONS_INIT, get_text_options);
    SIZES(xsm_write_options,
          ((xsm_write_options){sizeof(xsm_write_options), XSM_FORMAT_XC, 0, NULL, NULL, NULL, NULL, NULL}), write_data);
    SIZES(xsm_dataset_info, XSM_DATASET_INFO_INIT, get_info);
    SIZES(xsm_row, XSM_ROW_INIT, get_row);
    SIZES(xsm_class_map, XSM_CLASS_MAP_INIT, get_classes);
    SIZES(xsm_model_options, XSM_MODEL_OPTIONS_INIT, new_model);
    SIZES(xsm_class_map, XSM_CLASS_MAP_INIT, get_model_classes);
    SIZES(xsm_parameters, XSM_PARAMETERS_INIT, get_parameters);
    SIZES(xsm_parameters_view, XSM_PARAMETERS_VIEW_INIT, get_view);
    SIZES(xsm_batch, xsm_batch_range(f->data, 0, 1), scores);
    SIZES(xsm_batch, xsm_batch_range(f->data, 0, 1), score_range);
    SIZES(xsm_estimator_ops, *xsm_estimator_find("ove"), new_estimator);
    SIZES(xsm_sampler_ops, *xsm_sampler_find("uniform"), new_sampler);
    SIZES(xsm_batch, xsm_batch_range(f->data, 0, 1), apply_gradient);
    SIZES(xsm_gradient_view, XSM_GRADIENT_VIEW_INIT, get_gradient);
    SIZES(xsm_batch, xsm_batch_range(f->data, 0, 1), compute_gradient); /* last: a failure empties the gradient */
    SIZES(xsm_trainer_options, XSM_TRAINER_OPTIONS_INIT, new_trainer);
    SIZES(xsm_progress, progress, get_progress);
    SIZES(xsm_corpus_options, XSM_CORPUS_OPTIONS_INIT, open_corpus);
    SIZES(xsm_corpus_info, XSM_CORPUS_INFO_INIT, get_corpus_info);
    SIZES(xsm_class_map, XSM_CLASS_MAP_INIT, get_corpus_classes);
    SIZES(xsm_skipgram_options, XSM_SKIPGRAM_OPTIONS_INIT, new_skipgram);
    SIZES(xsm_progress, progress, get_skipgram_progress);
    SIZES(xsm_skipgram_fit_options, XSM_SKIPGRAM_FIT_OPTIONS_INIT, fit_skipgram);
    if (test_has_lbfgs()) {
        SIZES(xsm_fit_options, XSM_FIT_OPTIONS_INIT, fit_with);
        SIZES(xsm_fit_result, XSM_FIT_RESULT_INIT, fit_for);
    }
    SIZES(xsm_tune_options, XSM_TUNE_OPTIONS_INIT, tune);
    SIZES(xsm_choose_options, XSM_CHOOSE_OPTIONS_INIT, choose);
    SIZES(xsm_choice_info, XSM_CHOICE_INFO_INIT, get_choice);
    SIZES(xsm_tuning_info, XSM_TUNING_INFO_INIT, get_tuning_info);
    SIZES(xsm_tune_trial, XSM_TUNE_TRIAL_INIT, get_trial);
    SIZES(xsm_evaluate_options, XSM_EVALUATE_OPTIONS_INIT, evaluate);
    SIZES(xsm_metrics, XSM_METRICS_INIT, get_metrics);
    SIZES(xsm_predictor_options, XSM_PREDICTOR_OPTIONS_INIT, new_predictor);
    SIZES(xsm_batch, xsm_batch_range(f->data, 0, 1), predict);

    const xsm_batch batch = xsm_batch_range(f->data, 0, 1);
    static const uint64_t no_offsets[5] = {0};
    uint32_t classes[5];
    xsm_dense_rows dense = XSM_DENSE_ROWS_INIT;
    dense.values = rows;
    dense.rows = 4;
    dense.features = 2;
    assert_sizes(f, "xsm_dense_rows", from_dense_rows, &dense, sizeof dense);
    xsm_csr_rows csr = XSM_CSR_ROWS_INIT;
    csr.offsets = no_offsets;
    csr.rows = 4;
    csr.features = 2;
    assert_sizes(f, "xsm_csr_rows", from_csr_rows, &csr, sizeof csr);
    xsm_prediction prediction = XSM_PREDICTION_INIT;
    prediction.batch = &batch;
    prediction.classes = classes;
    assert_sizes(f, "xsm_prediction", run_prediction, &prediction, sizeof prediction);
    xsm_draw drawing = XSM_DRAW_INIT;
    drawing.batch = &batch;
    drawing.count = 2;
    drawing.classes = classes;
    assert_sizes(f, "xsm_draw", draw, &drawing, sizeof drawing);

    xsm_class_map map = XSM_CLASS_MAP_INIT;
    int64_t labels[3] = {1, 2, 3};
    map.classes = 3;
    map.features = 2;
    map.labels = labels;
    assert_sizes(f, "xsm_class_map", read_with_map, &map, sizeof map);
    assert_sizes(f, "xsm_class_map", set_model_classes, &map, sizeof map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_starting_values),
        cmocka_unit_test(test_struct_init),
        cmocka_unit_test(test_batch_twins),
        cmocka_unit_test_setup_teardown(test_every_function, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
