/*
 * Members of the caller's structs that no release uses yet must be 0, and those that say yes or no 0 or 1: a program
 * that sets another value would change its meaning with a later release. (check_reserved.py tests that no member of the
 * headers is missing here.)
 */
#define XSM_EXPERIMENTAL /* choice */
#include "words.h"

#include <string.h>

#include <xsoftmax-words.h>
#include <xsoftmax.h>
#include <xsoftmax/calibrate.h>
#include <xsoftmax/dataset_weights.h>
#include <xsoftmax/draw.h>
#include <xsoftmax/ext/comm.h>
#include <xsoftmax/ext/experimental.h>
#include <xsoftmax/filter.h>
#include <xsoftmax/ext/sampler.h>
#include <xsoftmax/search.h>
#include <xsoftmax/stored_weights.h>

/* A later release may have a use for what this one reserves. */
static xsm_status refusal(const char *member)
{
    return strncmp(member, "reserved", strlen("reserved")) == 0 ? XSM_ERROR_STRUCT_NEW : XSM_ERROR_RANGE;
}

/* The call is refused with two values of a member of `object`, and the error names it. */
#define REFUSES(type, object, member, call)                                                                            \
    do {                                                                                                               \
        static const int32_t values_[] = {2, -1};                                                                      \
        for (size_t i_ = 0; i_ < 2; i_++) {                                                                            \
            memcpy(&(object).member, &values_[i_], sizeof(object).member);                                             \
            assert_fails(call, refusal(#member), err);                                                                 \
            assert_non_null(strstr(err.message, #type "." #member " is "));                                            \
        }                                                                                                              \
        (object).member = 0;                                                                                           \
    } while (0)

/* The call takes float32 alone: another type is refused by its name, a number that names none as out of range. */
#define REFUSES_TYPES(type, object, call)                                                                              \
    do {                                                                                                               \
        static const int32_t types_[] = {XSM_DTYPE_FLOAT64, XSM_DTYPE_BFLOAT16, XSM_DTYPE_UINT64, -1, 99};             \
        static const char *const texts_[] = {"XSM_DTYPE_FLOAT64", "XSM_DTYPE_BFLOAT16", "XSM_DTYPE_UINT64", "-1",      \
                                             "99"};                                                                    \
        for (size_t i_ = 0; i_ < 5; i_++) {                                                                            \
            (object).dtype = types_[i_];                                                                               \
            assert_fails(call, i_ < 3 ? XSM_ERROR_UNSUPPORTED : XSM_ERROR_RANGE, err);                                 \
            assert_non_null(strstr(err.message, #type ".dtype is "));                                                  \
            assert_non_null(strstr(err.message, texts_[i_]));                                                          \
        }                                                                                                              \
        (object).dtype = XSM_DTYPE_FLOAT32;                                                                            \
    } while (0)

enum { ROWS = 12, FEATURES = 3, CLASSES = 4 };

TEST(data_is_refused)
{
    float values[FEATURES] = {1, 2, 3};
    uint32_t label = 1;
    uint64_t offsets[2] = {0, 0};
    HELD(xsm_dataset, d) = NULL;
    xsm_labels l = XSM_LABELS_INIT;
    l.classes = CLASSES;
    l.labels = &label;
    xsm_dense_rows dense = XSM_DENSE_ROWS_INIT;
    dense.values = values;
    dense.rows = 1;
    dense.features = FEATURES;
    dense.labels = &l;
    REFUSES(xsm_dense_rows, dense, reserved, xsm_dataset_from_dense(NULL, &dense, &d, &err));
    xsm_csr_rows csr = XSM_CSR_ROWS_INIT;
    csr.offsets = offsets;
    csr.rows = 1;
    csr.features = FEATURES;
    REFUSES(xsm_csr_rows, csr, reserved, xsm_dataset_from_csr(NULL, &csr, &d, &err));
    const char *path = test_file("reserved.txt", TEXT("0 1:1\n1 2:1\n"));
    xsm_read_options read = XSM_READ_OPTIONS_INIT;
    REFUSES(xsm_read_options, read, label_weights, xsm_dataset_read(NULL, path, NULL, &read, &d, &err));
    REFUSES(xsm_read_options, read, skip_verify, xsm_dataset_read(NULL, path, NULL, &read, &d, &err));
    REFUSES(xsm_read_options, read, new_features, xsm_dataset_read(NULL, path, NULL, &read, &d, &err));
    REFUSES(xsm_read_options, read, new_labels, xsm_dataset_read(NULL, path, NULL, &read, &d, &err));
    xsm_text_options text = XSM_TEXT_OPTIONS_INIT;
    read.format = XSM_FORMAT_TEXT;
    read.text = &text;
    REFUSES(xsm_text_options, text, reserved, xsm_dataset_read(NULL, path, NULL, &read, &d, &err));
    assert_null(d);
    read = (xsm_read_options)XSM_READ_OPTIONS_INIT;
    assert_ok(xsm_dataset_read(NULL, path, NULL, &read, &d, &err), err);
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    assert_ok(xsm_dataset_get_class_map(d, &map, &err), err);
    xsm_dataset *other = NULL;
    read.classes = &map;
    REFUSES(xsm_class_map, map, reserved, xsm_dataset_read(NULL, path, NULL, &read, &other, &err));
    REFUSES(xsm_class_map, map, reserved, xsm_dataset_extend(d, &map, &err));
    MADE(xsm_model, m, xsm_model_new_linear(NULL, map.features, map.classes, NULL, &m, &err));
    REFUSES(xsm_class_map, map, reserved, xsm_model_set_class_map(m, &map, &err));
    REFUSES(xsm_class_map, map, reserved, xsm_model_grow(m, map.features, &map, &err));
    assert_null(other);
}

static int32_t run_in_turn(void *user, xsm_job job, void *state, size_t count)
{
    (void)user;
    for (size_t i = 0; i < count; i++) {
        job(state, i, 0);
    }
    return 0;
}

TEST(models_are_refused)
{
    xsm_runner runner = {sizeof runner, NULL, 1, 0, run_in_turn};
    xsm_context_options context = XSM_CONTEXT_OPTIONS_INIT;
    context.runner = &runner;
    xsm_context *ctx = NULL;
    REFUSES(xsm_runner, runner, reserved, xsm_context_new(&context, &ctx, &err));
    xsm_comm comm = XSM_COMM_INIT;
    context.comm = &comm;
    REFUSES(xsm_comm, comm, reserved, xsm_context_new(&context, &ctx, &err));
    context.comm = NULL;
    xsm_model *out = NULL;
    xsm_model_options linear = XSM_MODEL_OPTIONS_INIT;
    REFUSES(xsm_model_options, linear, bias, xsm_model_new_linear(NULL, FEATURES, CLASSES, &linear, &out, &err));
    xsm_embedding_options e = XSM_EMBEDDING_OPTIONS_INIT;
    REFUSES(xsm_embedding_options, e, bias, xsm_model_new_embedding(NULL, CLASSES, 2, CLASSES, &e, &out, &err));
    REFUSES(xsm_embedding_options, e, tied, xsm_model_new_embedding(NULL, CLASSES, 2, CLASSES, &e, &out, &err));
    MADE(xsm_model, m, xsm_model_new_linear(NULL, FEATURES, CLASSES, NULL, &m, &err));
    const char *path = test_path("reserved.safetensors");
    assert_ok(xsm_model_save(m, path, NULL, &err), err);
    xsm_load_options load = XSM_LOAD_OPTIONS_INIT;
    REFUSES(xsm_load_options, load, skip_verify, xsm_model_load(NULL, path, NULL, &load, &out, &err));
    REFUSES(xsm_load_options, load, copy, xsm_model_load(NULL, path, NULL, &load, &out, &err));
    xsm_prune_options prune = XSM_PRUNE_OPTIONS_INIT;
    REFUSES(xsm_prune_options, prune, reserved, xsm_model_prune(m, &prune, &out, &err));
    xsm_convert_options convert = XSM_CONVERT_OPTIONS_INIT;
    REFUSES(xsm_convert_options, convert, reserved, xsm_model_convert(m, &convert, &out, &err));
    xsm_calibration calibration = XSM_CALIBRATION_INIT;
    REFUSES(xsm_calibration, calibration, reserved, xsm_model_set_calibration(m, &calibration, &err));
    assert_null(ctx);
    assert_null(out);
}

TEST(runs_are_refused)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 2);
    HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 0.5, 1);
    MADE(xsm_estimator, e, xsm_estimator_new(NULL, "softmax", &e, &err));
    xsm_calibrate_options calibrate = XSM_CALIBRATE_OPTIONS_INIT;
    REFUSES(xsm_calibrate_options, calibrate, reserved, xsm_model_calibrate(NULL, m, p.data, &calibrate, NULL, &err));
    xsm_class_weights weigh = XSM_CLASS_WEIGHTS_INIT;
    weigh.method = XSM_CLASS_WEIGHTS_BALANCED;
    REFUSES(xsm_class_weights, weigh, reserved, xsm_dataset_weigh_classes(p.data, &weigh, &err));
    if (test_has_lbfgs()) {
        xsm_fit_options fit = XSM_FIT_OPTIONS_INIT;
        REFUSES(xsm_fit_options, fit, reserved, xsm_fit_full_batch(NULL, m, p.data, e, &fit, NULL, &err));
    }
    xsm_stream_options stream = XSM_STREAM_OPTIONS_INIT;
    REFUSES(xsm_stream_options, stream, reserved, xsm_estimator_bind_stream(e, m, &stream, &err));
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    xsm_gradient *g = test_gradient(NULL);
    xsm_batch batch = xsm_batch_range(p.data, 0, 3);
    REFUSES_TYPES(xsm_batch, batch, xsm_estimator_gradient(e, &batch, 1, g, &err));
    xsm_gradient_free(g);
    xsm_choose_options choose = XSM_CHOOSE_OPTIONS_INIT;
    xsm_choice *choice = NULL;
    REFUSES(xsm_choose_options, choose, keep_ridge, xsm_choose(NULL, p.data, &choose, &choice, &err));
    REFUSES(xsm_choose_options, choose, keep_schedule, xsm_choose(NULL, p.data, &choose, &choice, &err));
    REFUSES(xsm_choose_options, choose, bias, xsm_choose(NULL, p.data, &choose, &choice, &err));
    REFUSES(xsm_choose_options, choose, keep_pairs, xsm_choose(NULL, p.data, &choose, &choice, &err));
    REFUSES(xsm_choose_options, choose, transform, xsm_choose(NULL, p.data, &choose, &choice, &err));
    REFUSES(xsm_choose_options, choose, embedding, xsm_choose(NULL, p.data, &choose, &choice, &err));
    REFUSES(xsm_choose_options, choose, label_tree, xsm_choose(NULL, p.data, &choose, &choice, &err));
    REFUSES(xsm_choose_options, choose, class_means, xsm_choose(NULL, p.data, &choose, &choice, &err));
    xsm_train_options train = XSM_TRAIN_OPTIONS_INIT;
    xsm_model *trained = NULL;
    REFUSES(xsm_train_options, train, keep_ridge, xsm_train(NULL, p.data, &train, &trained, NULL, &err));
    REFUSES(xsm_train_options, train, keep_schedule, xsm_train(NULL, p.data, &train, &trained, NULL, &err));
    REFUSES(xsm_train_options, train, keep_ngrams, xsm_train(NULL, p.data, &train, &trained, NULL, &err));
    REFUSES(xsm_train_options, train, reserved, xsm_train(NULL, p.data, &train, &trained, NULL, &err));
    assert_null(trained);
    xsm_evaluate_options evaluate = XSM_EVALUATE_OPTIONS_INIT;
    TEST_METRICS(metrics, 1);
    xsm_class_metrics_options of_classes = XSM_CLASS_METRICS_OPTIONS_INIT;
    xsm_class_metrics by_class = XSM_CLASS_METRICS_INIT;
    REFUSES(xsm_class_metrics_options, of_classes, reserved,
            xsm_evaluate_classes(NULL, m, p.data, &of_classes, &by_class, &err));
    REFUSES(xsm_evaluate_options, evaluate, reserved, xsm_evaluate(NULL, m, p.data, &evaluate, &metrics, &err));
    xsm_ranks ranks = XSM_RANKS_INIT;
    REFUSES(xsm_ranks, ranks, reserved, xsm_evaluate_ranks(NULL, m, p.data, NULL, &ranks, &err));
    xsm_predictor_options predictor = XSM_PREDICTOR_OPTIONS_INIT;
    xsm_predictor *made = NULL;
    REFUSES(xsm_predictor_options, predictor, tree_alone, xsm_predictor_new(m, &predictor, &made, &err));
    xsm_search_metrics search = XSM_SEARCH_METRICS_INIT;
    REFUSES(xsm_search_metrics, search, reserved, xsm_evaluate_search(NULL, m, p.data, &predictor, &search, &err));
    assert_null(made);
    assert_ok(xsm_predictor_new(m, NULL, &made, &err), err);
    uint32_t classes[CLASSES];
    batch = xsm_batch_range(p.data, 0, 1);
    xsm_prediction prediction = XSM_PREDICTION_INIT;
    prediction.batch = &batch;
    prediction.classes = classes;
    REFUSES(xsm_prediction, prediction, exclude_known, xsm_predictor_run(made, &prediction, &err));
    REFUSES(xsm_prediction, prediction, has_least_score, xsm_predictor_run(made, &prediction, &err));
    REFUSES(xsm_prediction, prediction, reserved, xsm_predictor_run(made, &prediction, &err));
    xsm_predictor_free(made);
    xsm_filter *filter = NULL;
    xsm_filter_classes left = XSM_FILTER_CLASSES_INIT;
    left.classes = CLASSES;
    REFUSES(xsm_filter_classes, left, reserved, xsm_filter_new(NULL, &left, &filter, &err));
    assert_null(filter);
    assert_null(choice);
}

static xsm_draw_plan planned;

static void plan(const void *state, xsm_draw_plan *out)
{
    (void)state;
    const size_t size = out->size;
    *out = planned;
    out->size = size;
}

TEST(tables_are_refused)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 2);
    HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 0.5, 1);
    xsm_estimator_ops table = *xsm_estimator_find("sampled-softmax");
    HELD(xsm_estimator, e) = NULL;
    REFUSES(xsm_estimator_ops, table, reserved, xsm_estimator_new_from(NULL, &table, &e, &err));
    table.plan = plan;
    planned.count = 2;
    assert_ok(xsm_estimator_new_from(NULL, &table, &e, &err), err);
    REFUSES(xsm_draw_plan, planned, reserved, xsm_estimator_bind(e, m, p.data, &err));
    REFUSES(xsm_draw_plan, planned, exclude_labels, xsm_estimator_bind(e, m, p.data, &err));
    REFUSES(xsm_draw_plan, planned, label_probabilities, xsm_estimator_bind(e, m, p.data, &err));
    xsm_estimator_check_options checked = XSM_ESTIMATOR_CHECK_OPTIONS_INIT;
    REFUSES(xsm_estimator_check_options, checked, reserved, xsm_estimator_check(NULL, &table, &checked, &err));
    const xsm_sampler_ops *uniform = xsm_sampler_find("uniform");
    xsm_sampler_check_options drawn = XSM_SAMPLER_CHECK_OPTIONS_INIT;
    REFUSES(xsm_sampler_check_options, drawn, reserved, xsm_sampler_check(NULL, uniform, &drawn, &err));
    MADE(xsm_sampler, s, xsm_sampler_new(NULL, "uniform", &s, &err));
    assert_ok(xsm_sampler_bind(s, p.data, &err), err);
    xsm_batch batch = xsm_batch_range(p.data, 0, 1);
    uint32_t classes[CLASSES], lengths[1];
    float scores[CLASSES], query[FEATURES] = {1, 0, 0};
    xsm_draw draw = XSM_DRAW_INIT;
    draw.batch = &batch;
    draw.count = 1;
    draw.classes = classes;
    REFUSES(xsm_draw, draw, distinct, xsm_sampler_draw(s, &draw, &err));
    MADE(xsm_index, x, xsm_index_new(NULL, "exact", &x, &err));
    assert_ok(xsm_index_build_model(x, m, &err), err);
    xsm_index_search search = XSM_INDEX_SEARCH_INIT;
    search.queries = query;
    search.stride = FEATURES;
    search.count = search.top = 1;
    search.classes = classes;
    search.scores = scores;
    search.lengths = lengths;
    xsm_index_rows rows = XSM_INDEX_ROWS_INIT;
    rows.rows = query;
    rows.count = 1;
    rows.width = rows.stride = FEATURES;
    REFUSES(xsm_index_rows, rows, reserved, xsm_index_build(x, &rows, &err));
    REFUSES_TYPES(xsm_index_rows, rows, xsm_index_build(x, &rows, &err));
    REFUSES_TYPES(xsm_index_search, search, xsm_index_query(x, &search, &err));
    REFUSES(xsm_index_search, search, has_least_score, xsm_index_query(x, &search, &err));
}

TEST(words_are_refused)
{
    HELD(xsm_corpus, c) = test_corpus(NULL, test_topics_text("reserved.words", 20, 1), 1);
    HELD(xsm_model, in) = test_vectors(NULL, c, 4, 0.1, 1);
    HELD(xsm_model, out) = test_vectors(NULL, c, 4, 0.1, 2);
    xsm_skipgram_options text = test_word_run(1);
    xsm_skipgram *trainer = NULL;
    REFUSES(xsm_skipgram_options, text, reserved, xsm_skipgram_new(NULL, c, in, out, NULL, &text, &trainer, &err));
    xsm_skipgram_fit_options fit = XSM_SKIPGRAM_FIT_OPTIONS_INIT;
    REFUSES(xsm_skipgram_fit_options, fit, reserved, xsm_skipgram_fit(NULL, c, in, out, &fit, NULL, &err));
    assert_null(trainer);
}
