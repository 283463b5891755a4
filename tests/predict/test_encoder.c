/* Rows one at a time: the same bits as rows of a dataset, the same lines accepted, and no memory after the first. */
#include "support.h"

#include "data/dataset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xsoftmax/encoder.h>

typedef struct lines {
    char **line;
    size_t count;
} lines;

/* The lines of a file of the real data, without those before `first`. */
static lines read_lines(const char *path, size_t first, size_t most)
{
    char command[4096];
    lines l = {calloc(most, sizeof *l.line), 0};
    size_t capacity = 0, number = 0;
    char *line = NULL;
    assert_non_null(l.line);
    assert_true(snprintf(command, sizeof command, "gzip -dc '%s'", path) < (int)sizeof command);
    FILE *file = popen(command, "r");
    assert_non_null(file);
    for (ssize_t length; l.count < most && (length = getline(&line, &capacity, file)) >= 0;) {
        if (number++ >= first) {
            line[length - 1] = '\0';
            l.line[l.count++] = strdup(line);
        }
    }
    free(line);
    pclose(file); /* which may not be at its end */
    assert_true(l.count > 10);
    return l;
}

static void free_lines(lines *l)
{
    for (size_t i = 0; i < l->count; i++) {
        free(l->line[i]);
    }
    free(l->line);
}

/* A dataset of lines, against a map or as training rows. */
static xsm_status read_text(xsm_context *ctx, const char *text, const xsm_read_options *options, xsm_dataset **out,
                            xsm_error *err)
{
    test_bytes bytes = {text, strlen(text), 0, SIZE_MAX, 0};
    return xsm_dataset_read(ctx, NULL, TEST_BYTES(&bytes, "lines"), options, out, err);
}

static char *join(const lines *l, const char *header)
{
    size_t size = strlen(header) + 1;
    for (size_t i = 0; i < l->count; i++) {
        size += strlen(l->line[i]) + 1;
    }
    char *text = malloc(size), *at = text + strlen(header);
    assert_non_null(text);
    strcpy(text, header);
    for (size_t i = 0; i < l->count; i++) {
        at += sprintf(at, "%s\n", l->line[i]);
    }
    return text;
}

/* A model of the rows' classes and features, with a transform that was fitted to them. */
static xsm_model *model_of(xsm_context *ctx, const xsm_dataset *d, const char *steps)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_parameters p = XSM_PARAMETERS_INIT;
    xsm_model_options biased = XSM_MODEL_OPTIONS_INIT;
    biased.bias = 1;
    assert_ok(xsm_dataset_get_class_map(d, &map, &err), err);
    NEW(xsm_transform, transform, xsm_transform_new(ctx, steps, &transform, &err));
    assert_ok(xsm_transform_fit(transform, d, &err), err);
    const uint32_t features = xsmi_transform_output_features(transform);
    NEW(xsm_model, model, xsm_model_new_linear(ctx, features, map.classes, &biased, &model, &err));
    assert_ok(xsm_model_get_parameters(model, &p, &err), err);
    for (uint32_t k = 0; k < map.classes; k++) {
        for (uint32_t j = 0; j < features; j++) {
            p.weight[k * p.class_step + j * p.feature_step] = (float)((k * 7 + j * 13) % 23) - 11;
        }
    }
    assert_ok(xsm_model_set_class_map(model, &map, &err), err);
    assert_ok(xsm_model_set_transform(model, transform, &err), err);
    xsm_transform_free(transform);
    return model;
}

/* Reads the lines as a dataset and one at a time, and compares the rows, and the classes that are predicted. */
static void compare(xsm_context *ctx, test_memory *memory, const xsm_model *model, const lines *l, int32_t format)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_predictor_options top = XSM_PREDICTOR_OPTIONS_INIT;
    xsm_encoder_options options = XSM_ENCODER_OPTIONS_INIT;
    xsm_read_options read = XSM_READ_OPTIONS_INIT;
    assert_ok(xsm_model_get_class_map(model, &map, &err), err);
    read.classes = &map;
    read.format = format;
    options.format = format;
    top.top = 3;
    char *text = join(l, "");
    MADE(xsm_dataset, d, read_text(ctx, text, &read, &d, &err));
    free(text);
    assert_ok(xsm_model_transform(model, d, &err), err);
    MADE(xsm_encoder, encoder, xsm_encoder_new(model, &options, &encoder, &err));
    MADE(xsm_predictor, predictor, xsm_predictor_new(model, &top, &predictor, &err));
    size_t calls = 0;
    for (size_t pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < l->count; i++) {
            xsm_batch batch = XSM_BATCH_INIT;
            xsm_row row = XSM_ROW_INIT;
            uint32_t classes[2][3];
            float scores[2][3];
            const size_t length = strlen(l->line[i]);
            assert_ok(xsm_dataset_get_row(d, i, &row, &err), err);
            assert_ok(xsm_encoder_encode(encoder, l->line[i], length, &batch, &err), err);
            assert_int_equal(batch.count, 1);
            assert_int_equal(batch.offsets[0], 0);
            assert_int_equal(batch.offsets[1], row.count);
            assert_memory_equal(batch.index, row.index, row.count * sizeof *row.index);
            assert_memory_equal(batch.values, row.values, row.count * sizeof *row.values);
            const xsm_batch same = xsm_batch_range(d, i, 1);
            xsm_prediction p = XSM_PREDICTION_INIT;
            p.batch = &same;
            p.classes = classes[0];
            p.scores = scores[0];
            assert_ok(xsm_predictor_run(predictor, &p, &err), err);
            p.batch = NULL;
            p.classes = classes[1];
            p.scores = scores[1];
            assert_ok(xsm_encoder_predict(encoder, l->line[i], length, predictor, &p, &err), err);
            assert_memory_equal(classes[1], classes[0], sizeof classes[0]);
            assert_memory_equal(scores[1], scores[0], sizeof scores[0]);
        }
        if (pass == 1) { /* the longest row has been seen */
            assert_int_equal(test_memory_calls(memory), calls);
        }
        calls = test_memory_calls(memory);
    }
}

TEST(sparse_lines)
{
    static const char *const steps[] = {"", "tfidf,unit", "truncate=1000,tfidf", "tfidf,unit,products=4",
                                        "log,standard,unit"};
    const char *path = test_data("bibtex/bibtex_test.txt.gz");
    if (!path) {
        skip();
    }
    lines l = read_lines(path, 1, 400);
    for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
        test_memory *memory;
        xsm_context *ctx = test_memory_context(&memory, 1);
        xsm_read_options xc = XSM_READ_OPTIONS_INIT;
        xc.format = XSM_FORMAT_XC;
        xc.labels = XSM_KEEP_LABELS_FIRST;
        char *text = join(&l, "");
        NEW(xsm_dataset, d, read_text(ctx, text, &xc, &d, &err));
        xsm_model *model = model_of(ctx, d, steps[s]);
        compare(ctx, memory, model, &l, XSM_FORMAT_XC);
        compare(ctx, memory, model, &l, XSM_FORMAT_LIBSVM); /* from 0, as the model's rows */
        free(text);
        xsm_dataset_free(d);
        xsm_model_free(model);
        test_memory_end(memory, ctx);
    }
    free_lines(&l);
}

TEST(text_lines)
{
    static const struct {
        const char *steps;
        uint32_t words, min_chars, max_chars, least;
    } runs[] = {{"tfidf,unit", 1, 0, 0, 2},
                {"log,tfidf,unit", 2, 0, 0, 1},
                {"tfidf,unit", 2, 3, 5, 1},
                {"", 3, 1, 2, 3},
                {"unit,products=5", 1, 0, 0, 2}};
    const char *path = test_data("text/ptb.valid.txt.gz");
    if (!path) {
        skip();
    }
    lines l = read_lines(path, 0, 600);
    for (size_t i = 0; i < l.count; i++) { /* labels, at the beginning or the end */
        char *labelled = malloc(strlen(l.line[i]) + 40);
        assert_non_null(labelled);
        if (i % 2) {
            sprintf(labelled, "%s __label__%zu", l.line[i], i % 5);
        } else {
            sprintf(labelled, "__label__%zu %s", i % 5, l.line[i]);
        }
        free(l.line[i]);
        l.line[i] = labelled;
    }
    for (size_t r = 0; r < sizeof runs / sizeof *runs; r++) {
        test_memory *memory;
        xsm_context *ctx = test_memory_context(&memory, 1);
        xsm_text_options words = XSM_TEXT_OPTIONS_INIT;
        xsm_read_options read = XSM_READ_OPTIONS_INIT;
        words.word_ngrams = runs[r].words;
        words.min_chars = runs[r].min_chars;
        words.max_chars = runs[r].max_chars;
        words.min_count = runs[r].least;
        words.buckets = 5000;
        read.format = XSM_FORMAT_TEXT;
        read.text = &words;
        const lines half = {l.line, l.count / 2}; /* the others have words that are not known */
        char *text = join(&half, "");
        NEW(xsm_dataset, d, read_text(ctx, text, &read, &d, &err));
        free(text);
        xsm_model *model = model_of(ctx, d, runs[r].steps);
        xsm_dataset_free(d);
        compare(ctx, memory, model, &l, XSM_FORMAT_TEXT);
        xsm_model_free(model);
        test_memory_end(memory, ctx);
    }
    free_lines(&l);
}

/* -- made-up lines ------------------------------------------------------------------------------------------------- */

static uint32_t draw(uint64_t *state, uint32_t below)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*state >> 33) % below);
}

/* A line of the pieces, at random, with now and then any byte in it. */
static size_t make_line(uint64_t *random, const char *const *pieces, uint32_t count, char *line)
{
    size_t length = 0;
    for (uint32_t n = draw(random, 9); n > 0; n--) {
        length += (size_t)sprintf(line + length, "%s", pieces[draw(random, count)]);
    }
    if (length > 0 && draw(random, 3) == 0) {
        char any;
        do {
            any = (char)draw(random, 256);
        } while (any == '\n' || any == '\r');
        line[draw(random, (uint32_t)length)] = any;
    }
    return length;
}

/* Lines at random: the same are refused as in a file, and the others are the same rows. */
static void made_up(xsm_context *ctx, const xsm_model *model, int32_t format, const char *first,
                    const char *const *pieces, uint32_t count)
{
    xsm_error err = XSM_ERROR_INIT, own = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_encoder_options options = XSM_ENCODER_OPTIONS_INIT;
    xsm_read_options read = XSM_READ_OPTIONS_INIT;
    uint64_t random = 5;
    size_t refused = 0, empty = 0;
    const size_t head = strlen(first);
    assert_ok(xsm_model_get_class_map(model, &map, &err), err);
    read.classes = &map;
    read.format = format;
    options.format = format;
    MADE(xsm_encoder, encoder, xsm_encoder_new(model, &options, &encoder, &err));
    for (int i = 0; i < 4000; i++) {
        char text[2048];
        memcpy(text, first, head);
        const size_t length = make_line(&random, pieces, count, text + head);
        text[head + length] = '\n';
        test_bytes bytes = {text, head + length + 1, 0, SIZE_MAX, 0};
        HELD(xsm_dataset, d) = NULL;
        xsm_batch batch = XSM_BATCH_INIT;
        const xsm_status status = xsm_dataset_read(ctx, NULL, TEST_BYTES(&bytes, "lines"), &read, &d, &err);
        assert_int_equal(xsm_encoder_encode(encoder, text + head, length + (i % 2), &batch, &own), status);
        if (status != XSM_OK) {
            assert_int_equal(own.column, err.column);
            assert_int_equal(batch.count, 0);
            refused++;
            continue;
        }
        xsm_dataset_info info = XSM_DATASET_INFO_INIT;
        assert_ok(xsm_dataset_get_info(d, &info, &err), err);
        if (info.rows == 2) {
            xsm_row row = XSM_ROW_INIT;
            assert_ok(xsm_dataset_get_row(d, 1, &row, &err), err);
            assert_int_equal(batch.offsets[1], row.count);
            assert_memory_equal(batch.index, row.index, row.count * sizeof *row.index);
            assert_memory_equal(batch.values, row.values, row.count * sizeof *row.values);
        } else { /* LIBSVM skips lines without anything */
            assert_int_equal(batch.offsets[1], 0);
            empty++;
        }
    }
    print_message("%zu of 4000 lines refused, %zu skipped in files\n", refused, empty);
    assert_true(refused > 200 && refused < 3800);
}

TEST(any_line)
{
    static const char *const pairs[] = {"1",     ",2",    " ",     "3:1.5",    " 4:2",  " 0:1e3", " 5:0", " 11:1",
                                        " 7:.5", " 2:-1", " 99:3", " 1:1e-50", "\t6:7", " 8:1",   " 9:9", " 10:2"};
    static const char *const words[] = {"a", " b", " __label__x", " \xC3\xA9t\xC3\xA9", "  ", " c", " unknown", " a b"};
    static const int32_t formats[] = {XSM_FORMAT_XC, XSM_FORMAT_LIBSVM, XSM_FORMAT_TEXT};
    static const char *const first[] = {"1 1:1 12:2\n", "1 1:1 12:2\n", "__label__x a b c\n"};
    for (size_t f = 0; f < 3; f++) {
        for (int32_t base = XSM_INDEX_BASE_ZERO; base <= (formats[f] == XSM_FORMAT_LIBSVM ? 2 : 1); base++) {
            xsm_read_options read = XSM_READ_OPTIONS_INIT;
            xsm_text_options text = XSM_TEXT_OPTIONS_INIT;
            text.word_ngrams = 2;
            read.format = formats[f];
            read.index_base = formats[f] == XSM_FORMAT_LIBSVM ? base : XSM_INDEX_BASE_AUTO;
            read.text = formats[f] == XSM_FORMAT_TEXT ? &text : NULL;
            MADE(xsm_dataset, d, read_text(NULL, first[f], &read, &d, &err));
            HELD(xsm_model, model) = model_of(NULL, d, "");
            made_up(NULL, model, formats[f], first[f], formats[f] == XSM_FORMAT_TEXT ? words : pairs,
                    formats[f] == XSM_FORMAT_TEXT ? 8 : 16);
        }
    }
}

/* -- pairs and mistakes -------------------------------------------------------------------------------------------- */

static xsm_model *small_model(int32_t base, const char *steps)
{
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_dataset, d,
        read_text(NULL, "0 1:1 4:2\n1 2:3\n2 1:1 2:1 9:1\n",
                  STRUCT(xsm_read_options, .format = XSM_FORMAT_LIBSVM, .index_base = base), &d, &err));
    xsm_model *model = model_of(NULL, d, steps);
    xsm_dataset_free(d);
    return model;
}

TEST(pairs)
{
    static const uint32_t index[] = {0, 3, 8}, crooked[] = {3, 0}, large[] = {9};
    static const float values[] = {1, 2, 0.5f}, bad[] = {1, (float)(1.0f / 0.0f)};
    xsm_batch text = XSM_BATCH_INIT, given = XSM_BATCH_INIT, kept = XSM_BATCH_INIT;
    HELD(xsm_model, model) = small_model(XSM_INDEX_BASE_ONE, "tfidf,unit");
    NEW(xsm_encoder, encoder, xsm_encoder_new(model, NULL, &encoder, &err));
    assert_ok(xsm_encoder_encode(encoder, TEXT("1:1 4:2 9:0.5 10:7\r\n"), &text, &err), err);
    assert_int_equal(text.offsets[1], 3);
    float bits[3];
    memcpy(bits, text.values, sizeof bits);
    assert_ok(xsm_encoder_encode_pairs(encoder, index, values, 3, &given, &err), err);
    assert_int_equal(given.offsets[1], 3);
    assert_memory_equal(given.index, index, sizeof index);
    assert_memory_equal(given.values, bits, sizeof bits);
    assert_ok(xsm_encoder_encode_pairs(encoder, NULL, NULL, 0, &given, &err), err);
    assert_int_equal(given.offsets[1], 0);
    assert_ok(xsm_encoder_encode(encoder, NULL, 0, &given, &err), err);
    assert_int_equal(given.offsets[1], 0);
    assert_fails(xsm_encoder_encode_pairs(encoder, index, values, SIZE_MAX, &kept, &err), XSM_ERROR_RANGE, err);
    char many[40];
    snprintf(many, sizeof many, "%zu pairs", SIZE_MAX);
    assert_non_null(strstr(err.message, many)); /* which are not read */
    assert_fails(xsm_encoder_encode_pairs(encoder, crooked, values, 2, &kept, &err), XSM_ERROR_RANGE, err);
    assert_fails(xsm_encoder_encode_pairs(encoder, large, values, 1, &kept, &err), XSM_ERROR_RANGE, err);
    assert_fails(xsm_encoder_encode_pairs(encoder, index, bad, 2, &kept, &err), XSM_ERROR_RANGE, err);
    assert_fails(xsm_encoder_encode_pairs(encoder, index, NULL, 2, &kept, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_encoder_encode_pairs(encoder, index, values, 2, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_encoder_encode(encoder, NULL, 3, &kept, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_encoder_encode(encoder, "", 0, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_encoder_encode(NULL, "", 0, &kept, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_encoder_encode(encoder, TEXT("1:3e38"), &kept, &err), XSM_ERROR_RANGE, err);
    assert_fails(xsm_encoder_encode(encoder, TEXT("1:1 x"), &kept, &err), XSM_ERROR_FORMAT, err);
    assert_int_equal(err.column, 5);
    assert_int_equal(kept.count, 0);
    xsm_encoder_free(encoder);
    xsm_encoder_free(NULL);
}

/* A sparse row has the values of the dense row that it stands for, from which means are subtracted. */
TEST(means)
{
    enum { ROWS = 4, FEATURES = 3 };
    static const float rows[ROWS * FEATURES] = {1, 0, 5, 0, 0, 5, 4, 2, 5, 0, 0, 5};
    static const uint32_t all[FEATURES] = {0, 1, 2};
    static const uint32_t class_of[ROWS] = {0, 1, 0, 1};
    const xsm_labels labels = {.size = sizeof labels, .labels = class_of, .classes = 2};
    const xsm_dense_rows given = {
        .size = sizeof given, .values = rows, .rows = ROWS, .features = FEATURES, .labels = &labels};
    MADE(xsm_dataset, d, xsm_dataset_from_dense(NULL, &given, &d, &err));
    HELD(xsm_model, model) = model_of(NULL, d, "standard,unit");
    assert_ok(xsm_model_transform(model, d, &err), err);
    MADE(xsm_encoder, encoder,
         xsm_encoder_new(model, STRUCT(xsm_encoder_options, .format = XSM_FORMAT_XC), &encoder, &err));
    for (uint64_t i = 0; i < ROWS; i++) {
        uint32_t index[FEATURES], count = 0;
        float values[FEATURES];
        for (uint32_t j = 0; j < FEATURES; j++) {
            if (rows[i * FEATURES + j] != 0) {
                index[count] = j;
                values[count++] = rows[i * FEATURES + j];
            }
        }
        xsm_batch batch = XSM_BATCH_INIT;
        xsm_row row = XSM_ROW_INIT;
        assert_ok(xsm_encoder_encode_pairs(encoder, index, values, count, &batch, &err), err);
        assert_ok(xsm_dataset_get_row(d, i, &row, &err), err);
        assert_int_equal(batch.offsets[1], FEATURES);
        assert_memory_equal(batch.index, all, sizeof all);
        assert_memory_equal(batch.values, row.values, FEATURES * sizeof *row.values);
        assert_true(row.values[0] != 0 && row.values[1] != 0 && row.values[2] == 0);
    }
}

/* Rows without an entry are sparse rows: their scores are the biases, and neither values nor an index are needed. */
TEST(empty_rows)
{
    static const uint64_t none[] = {2, 2, 2}, some[] = {0, 1, 0};
    static const float values[] = {1}, bias[] = {0.5f, -1.25f, 3};
    static const uint32_t index[] = {1};
    xsm_batch batch = XSM_BATCH_INIT;
    xsm_parameters own = XSM_PARAMETERS_INIT;
    float scores[2][3];
    HELD(xsm_model, model) = small_model(XSM_INDEX_BASE_ONE, "none");
    assert_ok(xsm_model_get_parameters(model, &own, &err), err);
    for (size_t k = 0; k < 3; k++) {
        own.bias[k] = bias[k];
    }
    NEW(xsm_encoder, encoder, xsm_encoder_new(model, NULL, &encoder, &err));
    assert_ok(xsm_encoder_encode(encoder, "", 0, &batch, &err), err); /* before any other row */
    assert_ok(xsm_model_score_range(model, &batch, 0, 3, scores[0], 3, &err), err);
    assert_memory_equal(scores[0], bias, sizeof bias);
    xsm_encoder_free(encoder);

    batch = xsm_batch_sparse_values(none, NULL, NULL, 2, 9);
    assert_ok(xsm_model_score_range(model, &batch, 0, 3, scores[0], 3, &err), err);
    assert_memory_equal(scores[0], bias, sizeof bias);
    assert_memory_equal(scores[1], bias, sizeof bias);
    batch = xsm_batch_sparse_values(some, index, NULL, 2, 9);
    assert_fails(xsm_model_score_range(model, &batch, 0, 3, scores[0], 3, &err), XSM_ERROR_ARGUMENT, err);
    assert_non_null(strstr(err.message, "xsm_batch.values is NULL"));
    batch = xsm_batch_sparse_values(some, NULL, values, 2, 9);
    assert_fails(xsm_model_score_range(model, &batch, 0, 3, scores[0], 3, &err), XSM_ERROR_ARGUMENT, err);
    assert_non_null(strstr(err.message, "xsm_batch.index is NULL"));
}

TEST(mistakes)
{
    HELD(xsm_encoder, encoder) = NULL;
    xsm_encoder_options options = XSM_ENCODER_OPTIONS_INIT;
    HELD(xsm_model, model) = small_model(XSM_INDEX_BASE_ONE, "");
    options.format = XSM_FORMAT_TEXT;
    assert_fails(xsm_encoder_new(model, &options, &encoder, &err), XSM_ERROR_UNSUPPORTED, err);
    options.format = XSM_FORMAT_CSV;
    assert_fails(xsm_encoder_new(model, &options, &encoder, &err), XSM_ERROR_UNSUPPORTED, err);
    options.format = XSM_FORMAT_XC;
    options.index_base = XSM_INDEX_BASE_ONE;
    assert_fails(xsm_encoder_new(model, &options, &encoder, &err), XSM_ERROR_ARGUMENT, err);
    options.format = XSM_FORMAT_LIBSVM;
    options.index_base = 3;
    assert_fails(xsm_encoder_new(model, &options, &encoder, &err), XSM_ERROR_RANGE, err);
    assert_fails(xsm_encoder_new(model, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_encoder_new(NULL, NULL, &encoder, &err), XSM_ERROR_ARGUMENT, err);
    /* A model of dense rows does not say where features begin. */
    MADE(xsm_model, other, xsm_model_new_linear(NULL, 4, 3, NULL, &other, &err));
    assert_fails(xsm_encoder_new(other, NULL, &encoder, &err), XSM_ERROR_ARGUMENT, err);
    options.index_base = XSM_INDEX_BASE_ZERO;
    assert_ok(xsm_encoder_new(other, &options, &encoder, &err), err);
    /* A predictor of another model, and a batch. */
    xsm_prediction p = XSM_PREDICTION_INIT;
    uint32_t classes[3];
    xsm_batch batch = XSM_BATCH_INIT;
    p.classes = classes;
    NEW(xsm_predictor, predictor, xsm_predictor_new(model, NULL, &predictor, &err));
    assert_fails(xsm_encoder_predict(encoder, TEXT("0:1"), predictor, &p, &err), XSM_ERROR_ARGUMENT, err);
    xsm_predictor_free(predictor);
    assert_ok(xsm_predictor_new(other, NULL, &predictor, &err), err);
    assert_ok(xsm_encoder_predict(encoder, TEXT("0:1"), predictor, &p, &err), err);
    /* Two outputs at one place. */
    p.lengths = p.classes;
    assert_fails(xsm_encoder_predict(encoder, TEXT("0:1"), predictor, &p, &err), XSM_ERROR_ARGUMENT, err);
    assert_non_null(strstr(err.message, "classes and lengths"));
    p.lengths = NULL;
    p.scores = (float *)p.classes;
    assert_fails(xsm_encoder_predict(encoder, TEXT("0:1"), predictor, &p, &err), XSM_ERROR_ARGUMENT, err);
    assert_non_null(strstr(err.message, "classes and scores"));
    p.scores = NULL;
    p.batch = &batch;
    assert_fails(xsm_encoder_predict(encoder, TEXT("0:1"), predictor, &p, &err), XSM_ERROR_ARGUMENT, err);
    /* Columns of a table have no place in a line. */
    static const char *const columns[] = {"a", "b", "c", "d"};
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    map.classes = 3;
    map.feature_names = columns;
    map.feature_name_count = map.features = 4;
    assert_ok(xsm_model_set_class_map(other, &map, &err), err);
    NEW(xsm_encoder, of_columns, xsm_encoder_new(other, &options, &of_columns, &err));
    p.batch = NULL;
    assert_fails(xsm_encoder_predict(of_columns, TEXT("2,0,1,0"), predictor, &p, &err), XSM_ERROR_UNSUPPORTED, err);
    xsm_encoder_free(of_columns);
    xsm_predictor_free(predictor);
}

/* The model takes other rows after a transform is set. */
TEST(changed)
{
    xsm_batch batch = XSM_BATCH_INIT;
    HELD(xsm_model, model) = small_model(XSM_INDEX_BASE_ONE, "truncate=4");
    MADE(xsm_encoder, encoder, xsm_encoder_new(model, NULL, &encoder, &err));
    assert_ok(xsm_encoder_encode(encoder, TEXT("1:1 5:1"), &batch, &err), err);
    assert_int_equal(batch.features, 4);
    assert_int_equal(batch.offsets[1], 1);
    assert_ok(xsm_model_set_transform(model, NULL, &err), err);
    assert_fails(xsm_encoder_encode(encoder, TEXT("1:1"), &batch, &err), XSM_ERROR_STATE, err);
}

static xsm_status make_and_encode(void *state, xsm_context *ctx, xsm_error *err)
{
    const xsm_dataset *d = state;
    HELD(xsm_model, model) = NULL;
    HELD(xsm_encoder, encoder) = NULL;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_batch batch = XSM_BATCH_INIT;
    xsm_status status = xsm_dataset_get_class_map(d, &map, err);
    status = status ? status : xsm_model_new_linear(ctx, map.features, map.classes, NULL, &model, err);
    status = status ? status : xsm_model_set_class_map(model, &map, err);
    status = status ? status : xsm_encoder_new(model, NULL, &encoder, err);
    status = status ? status : xsm_encoder_encode(encoder, TEXT("two words and a third one"), &batch, err);
    return status;
}

TEST(memory)
{
    xsm_text_options text = XSM_TEXT_OPTIONS_INIT;
    xsm_read_options read = XSM_READ_OPTIONS_INIT;
    text.max_chars = 3;
    read.format = XSM_FORMAT_TEXT;
    read.text = &text;
    MADE(xsm_dataset, d, read_text(NULL, "__label__a two words\n__label__b one\n", &read, &d, &err));
    assert_true(test_every_allocation(make_and_encode, d) > 8);
}
