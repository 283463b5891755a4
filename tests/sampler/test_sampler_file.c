/*
 * Tests of samplers in files: a loaded sampler draws as the saved one did, also in an estimator; damaged and foreign
 * files are refused; a host's sampler is saved by save() and load() of its table.
 */
#include "training.h"

#include <xsoftmax/draw.h>
#include <xsoftmax/ext/sampler.h>

#include "base/file.h"
#include "base/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 200, FEATURES = 6, CLASSES = 13, M = 7 };

static const char *const kinds[][3] = {
    {"uniform", NULL, NULL},         {"frequency", NULL, NULL},   {"frequency", "power", "0.75"},
    {"frequency", "smoothing", "0"}, {"tree", NULL, NULL},        {"tree", "components", "3"},
    {"label-tree", NULL, NULL},      {"label-tree", "leaf", "4"}, {"label-tree", "clusters", "2"},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static xsm_sampler *bound(xsm_context *ctx, int kind, const xsm_dataset *data)
{
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_sampler, s, xsm_sampler_new(ctx, kinds[kind][0], &s, &err));
    if (kinds[kind][1]) {
        assert_ok(xsm_sampler_set(s, kinds[kind][1], kinds[kind][2], &err), err);
    }
    assert_ok(xsm_sampler_set_number(s, "seed", 77, &err), err);
    assert_ok(xsm_sampler_bind(s, data, &err), err);
    return s;
}

static void assert_same(const xsm_sampler *a, const xsm_sampler *b, const xsm_dataset *data)
{
    static uint32_t drawn[2][ROWS * M];
    static double logs[2][ROWS * M];
    static float all[2][ROWS * CLASSES];
    xsm_error err = XSM_ERROR_INIT;
    xsm_batch batch = xsm_batch_range(data, 0, ROWS);
    for (int i = 0; i < 2; i++) {
        const xsm_sampler *s = i ? b : a;
        assert_ok(xsm_sampler_draw(s,
                                   STRUCT(xsm_draw, .batch = &batch, .seed = 3, .position = 5, .count = M,
                                          .classes = drawn[i], .log_probabilities = logs[i]),
                                   &err),
                  err);
        assert_ok(xsm_sampler_log_probabilities(s, &batch, 0, CLASSES, all[i], &err), err);
    }
    assert_memory_equal(drawn[0], drawn[1], sizeof drawn[0]);
    assert_memory_equal(logs[0], logs[1], sizeof logs[0]);
    assert_memory_equal(all[0], all[1], sizeof all[0]);
}

/* A model trained with a sampler, one epoch. */
static uint64_t train(xsm_sampler *s, const test_problem *p)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD(xsm_model, m) = test_model(NULL, p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    HELD(xsm_estimator, e) = test_estimator(NULL, "negative-sampling", "negatives=3");
    HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
    HELD(xsm_gradient, g) = test_gradient(NULL);
    assert_ok(xsm_estimator_set_sampler(e, s, &err), err);
    assert_ok(xsm_estimator_bind(e, m, p->data, &err), err);
    for (uint64_t i = 0; i < ROWS; i++) {
        xsm_batch one = xsm_batch_range(p->data, i, 1);
        test_take_step(e, o, g, &one, 0.5);
    }
    uint64_t hash = test_hash(m);
    return hash;
}

TEST(loaded_samplers_draw_the_same)
{
    for (int sparse = 0; sparse < 2; sparse++) {
        HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, sparse, 6);
        for (int kind = 0; kind < KINDS; kind++) {
            const char *path = test_path("sampler.safetensors");
            char text[2][32];
            HELD(xsm_sampler, s) = bound(NULL, kind, p.data);
            assert_ok(xsm_sampler_save(s, path, NULL, &err), err);
            MADE(xsm_sampler, loaded, xsm_sampler_load(NULL, path, NULL, NULL, &loaded, &err));
            assert_string_equal(test_sampler_info(loaded).name, kinds[kind][0]);
            assert_int_equal(test_sampler_info(loaded).classes, CLASSES);
            const xsm_option *option;
            for (size_t i = 0; (option = xsm_sampler_ops_option(xsm_sampler_find(kinds[kind][0]), i)); i++) {
                xsm_sampler_get(s, option->name, text[0], sizeof text[0]);
                xsm_sampler_get(loaded, option->name, text[1], sizeof text[1]);
                assert_string_equal(text[0], text[1]);
            }
            assert_same(s, loaded, p.data);
            if (strcmp(kinds[kind][2] ? kinds[kind][2] : "", "0") != 0) { /* one that draws every class */
                assert_true(train(s, &p) == train(loaded, &p));
            }
            assert_fails(xsm_sampler_set(loaded, "seed", "1", &err), XSM_ERROR_STATE, err);
            assert_ok(xsm_sampler_bind(loaded, p.data, &err), err); /* and can be bound anew */
            assert_same(s, loaded, p.data);
        }
    }
    test_files_end();
}

TEST(what_was_there_stays_when_saving_fails)
{
    test_problem p = test_problem_new(ROWS, FEATURES, CLASSES, false, 6);
    xsm_sampler *s = bound(NULL, 4, p.data), *fresh = NULL, *loaded = NULL;
    const char *path = test_path("kept.safetensors");
    assert_ok(xsm_sampler_new(NULL, "tree", &fresh, &err), err);
    assert_ok(xsm_sampler_save(s, path, NULL, &err), err);
    assert_fails(xsm_sampler_save(fresh, path, NULL, &err), XSM_ERROR_STATE, err);
    assert_fails(xsm_sampler_save(NULL, path, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_sampler_save(s, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_sampler_save(s, "/nonexistent/folder/s", NULL, &err), XSM_ERROR_IO, err);
    assert_ok(xsm_sampler_load(NULL, path, NULL, NULL, &loaded, &err), err);
    assert_same(s, loaded, p.data);
    xsm_sampler_free(loaded);
    xsm_sampler_free(fresh);
    xsm_sampler_free(s);
    test_problem_free(&p);
    test_files_end();
}

/* -- files that are no good ---------------------------------------------------------------------------------------- */

/* A file with tensors and metadata of the test's, as a program of someone else's could write it. */
static const char *write_file(const xsmi_tensor *tensors, size_t count, const xsmi_entry *metadata, size_t entries)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD(xsm_context, ctx) = test_context(1, TEST_BUILT_IN, 0);
    const char *path = test_path("other.safetensors");
    xsmi_container_writer *w = NULL;
    assert_ok(xsmi_container_create(ctx, path, &(xsmi_container_plan){tensors, count, 0, metadata, entries}, &w, &err),
              err);
    for (size_t i = 0; i < count; i++) {
        size_t bytes;
        assert_true(xsmi_tensor_bytes(&tensors[i], &bytes));
        assert_ok(xsmi_container_write(w, tensors[i].data, bytes, &err), err);
    }
    assert_ok(xsmi_container_commit(w, &err), err);
    return path;
}

static void refuse(const char *path, xsm_status wanted, const char *said)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_sampler *s = (xsm_sampler *)&err;
    assert_fails(xsm_sampler_load(NULL, path, NULL, NULL, &s, &err), wanted, err);
    assert_ptr_equal(s, (xsm_sampler *)&err);
    if (said && !strstr(err.message, said)) {
        fail_msg("'%s' does not say '%s'", err.message, said);
    }
}

#define TENSOR(name_, dtype_, rank_, a, b, data_)                                                                      \
    {                                                                                                                  \
        .name = name_, .dtype = dtype_, .rank = rank_, .shape = {a, b}, .data = (const unsigned char *)(data_)         \
    }

TEST(other_files_are_refused)
{
    xsmi_entry good[] = {{"sampler", "frequency"}, {"classes", "2"}, {"features", "3"}, {"option.power", "0.5"}};
    static const double log_q[] = {-0.69314718055994531, -0.69314718055994531}, wrong[] = {-0.1, -0.1},
                        none[] = {NAN, 0};
    static const uint32_t alias[] = {0xffffffff, 1, 0xffffffff, 0}, far[] = {0xffffffff, 2, 0xffffffff, 0};
    xsmi_tensor tensors[] = {TENSOR("log_q", XSMI_DTYPE_F64, 1, 2, 0, log_q),
                             TENSOR("alias", XSMI_DTYPE_U32, 2, 2, 2, alias)};
    NEW(xsm_sampler, s, xsm_sampler_load(NULL, write_file(tensors, 2, good, 4), NULL, NULL, &s, &err));
    xsm_sampler_free(s);
    refuse(write_file(tensors, 2, good, 2), XSM_ERROR_FORMAT, "features");
    refuse(write_file(tensors, 1, good, 4), XSM_ERROR_FORMAT, "alias");
    good[1].value = "0";
    refuse(write_file(tensors, 2, good, 4), XSM_ERROR_FORMAT, "classes");
    good[1].value = "3";
    refuse(write_file(tensors, 2, good, 4), XSM_ERROR_FORMAT, "3 classes");
    good[1].value = "2";
    good[3].value = "-1";
    refuse(write_file(tensors, 2, good, 4), XSM_ERROR_FORMAT, "power");
    good[3] = (xsmi_entry){"option.powder", "1"};
    refuse(write_file(tensors, 2, good, 4), XSM_ERROR_FORMAT, "powder");
    good[0].value = "warp";
    refuse(write_file(tensors, 2, good, 3), XSM_ERROR_NAME, "warp");
    good[0].value = "frequency";
    tensors[0].data = (const unsigned char *)wrong;
    refuse(write_file(tensors, 2, good, 3), XSM_ERROR_FORMAT, "distribution");
    tensors[0].data = (const unsigned char *)none;
    refuse(write_file(tensors, 2, good, 3), XSM_ERROR_FORMAT, "distribution");
    tensors[0].data = (const unsigned char *)log_q;
    tensors[1].data = (const unsigned char *)far;
    refuse(write_file(tensors, 2, good, 3), XSM_ERROR_FORMAT, "distribution");
    refuse("/nonexistent", XSM_ERROR_IO, NULL);
    refuse(test_file("text", TEXT("no container")), XSM_ERROR_FORMAT, NULL);
    refuse(NULL, XSM_ERROR_ARGUMENT, NULL);
    test_problem p = test_problem_new(20, 3, 2, false, 1);
    xsm_model *m = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    const char *model = test_path("model.safetensors");
    assert_ok(xsm_model_save(m, model, NULL, &err), err);
    refuse(model, XSM_ERROR_FORMAT, "no sampler's file");
    xsm_model_free(m);
    test_problem_free(&p);
    test_files_end();
}

/* A tree of three classes: a draw must never come to the fourth leaf. */
TEST(trees_with_an_open_leaf_are_refused)
{
    const xsmi_entry metadata[] = {{"sampler", "tree"}, {"classes", "3"}, {"features", "1"}};
    float nodes[4 * 4] = {[4] = 1, [8] = 0.5f, [13] = -1e4f}; /* node 3 has one class, on its left */
    static const float mean[] = {0}, directions[] = {1};
    uint32_t leaves[] = {0, 1, 2};
    xsmi_tensor tensors[] = {TENSOR("tree_nodes", XSMI_DTYPE_F32, 2, 4, 4, nodes),
                             TENSOR("tree_leaves", XSMI_DTYPE_U32, 1, 3, 0, leaves),
                             TENSOR("tree_mean", XSMI_DTYPE_F32, 1, 1, 0, mean),
                             TENSOR("tree_directions", XSMI_DTYPE_F32, 2, 1, 1, directions)};
    NEW(xsm_sampler, s, xsm_sampler_load(NULL, write_file(tensors, 4, metadata, 3), NULL, NULL, &s, &err));
    xsm_sampler_free(s);
    leaves[2] = 3; /* the class on the other side */
    refuse(write_file(tensors, 4, metadata, 3), XSM_ERROR_FORMAT, "tree");
    leaves[2] = 2;
    nodes[13] = -9;
    refuse(write_file(tensors, 4, metadata, 3), XSM_ERROR_FORMAT, "tree");
    nodes[13] = -1e4f;
    nodes[12] = 1;
    refuse(write_file(tensors, 4, metadata, 3), XSM_ERROR_FORMAT, "tree");
    nodes[12] = 0;
    leaves[2] = 1;
    refuse(write_file(tensors, 4, metadata, 3), XSM_ERROR_FORMAT, "tree");
    leaves[2] = 4;
    refuse(write_file(tensors, 4, metadata, 3), XSM_ERROR_FORMAT, "tree");
    leaves[2] = 2;
    nodes[8] = 3e38f; /* finite, but the scores would not be */
    refuse(write_file(tensors, 4, metadata, 3), XSM_ERROR_FORMAT, "overflow");
    nodes[8] = 1e6f;
    s = NULL;
    assert_ok(xsm_sampler_load(NULL, write_file(tensors, 4, metadata, 3), NULL, NULL, &s, &err), err);
    xsm_sampler_free(s);
    test_files_end();
}

/* Every byte of a file, one after another: refused, or what was saved. */
TEST(flipped_bits_are_found)
{
    test_problem p = test_problem_new(ROWS, FEATURES, CLASSES, false, 6);
    xsm_sampler *s = bound(NULL, 1, p.data);
    const char *path = test_path("whole.safetensors");
    assert_ok(xsm_sampler_save(s, path, NULL, &err), err);
    static char bytes[1 << 16];
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t size = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    assert_true(size > 100 && size < sizeof bytes);
    for (size_t i = 0; i < size; i++) {
        xsm_sampler *loaded = NULL;
        bytes[i] = (char)(bytes[i] ^ 4);
        xsm_status status = xsm_sampler_load(NULL, test_file("flipped", bytes, size), NULL, NULL, &loaded, &err);
        bytes[i] = (char)(bytes[i] ^ 4);
        if (status == XSM_OK) {
            assert_same(s, loaded, p.data);
            xsm_sampler_free(loaded);
        }
    }
    xsm_sampler_free(s);
    test_problem_free(&p);
    test_files_end();
}

/* -- a host's own -------------------------------------------------------------------------------------------------- */

/* Draws class (at + j) mod K for what `at` is; saved with an array of each type. */
typedef struct own {
    uint32_t classes;
    int64_t of_option;
    uint8_t u8[3];
    int32_t i32[1];
    uint32_t u32[2];
    float f32[2];
    int64_t i64[1];
    uint64_t u64[1];
    double f64[6];
} own;

static xsm_status own_bind(void *state, const xsm_sampler_problem *p, xsm_error *err)
{
    own *s = state;
    (void)err;
    s->classes = p->classes;
    memcpy(s->u8, "\1\2\3", 3);
    s->i32[0] = -5;
    s->u32[1] = 7;
    s->f32[0] = 0.5f;
    s->i64[0] = INT64_MIN;
    s->u64[0] = UINT64_MAX;
    s->f64[5] = 0.125;
    return XSM_OK;
}

static void own_draw(const void *state, const float *code, xsm_random *random, uint32_t count, uint32_t *classes,
                     double *log_probabilities)
{
    const own *s = state;
    (void)code;
    for (uint32_t j = 0; j < count; j++) {
        classes[j] = (uint32_t)((xsm_random_below(random, s->classes) + s->u32[1]) % s->classes);
        log_probabilities[j] = -log((double)s->classes);
    }
}

static double own_log(const void *state, const float *code, uint32_t k)
{
    (void)code;
    (void)k;
    return -log((double)((const own *)state)->classes);
}

static bool unknown_arrays;

static xsm_status own_save(const void *state, xsm_array_writer *w, xsm_error *err)
{
    const own *s = state;
    const xsm_array arrays[] = {
        {sizeof(xsm_array), "u8", XSM_DTYPE_UINT8, 1, {3}, s->u8},
        {sizeof(xsm_array), "i32", XSM_DTYPE_INT32, 1, {1}, s->i32},
        {sizeof(xsm_array), "u32", XSM_DTYPE_UINT32, 1, {2}, s->u32},
        {sizeof(xsm_array), "f32", XSM_DTYPE_FLOAT32, 2, {2, 1}, s->f32},
        {sizeof(xsm_array), "i64", XSM_DTYPE_INT64, 1, {1}, s->i64},
        {sizeof(xsm_array), "u64", XSM_DTYPE_UINT64, 1, {1}, s->u64},
        {sizeof(xsm_array), "f64", XSM_DTYPE_FLOAT64, 4, {1, 2, 3, 1}, s->f64},
        {sizeof(xsm_array), "nothing", XSM_DTYPE_FLOAT64, 1, {0}, NULL},
    };
    xsm_error said = XSM_ERROR_INIT;
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        assert_int_equal(xsm_array_write(w, &arrays[i], err), XSM_OK);
    }
    xsm_array bad = arrays[0];
    assert_fails(xsm_array_write(w, &bad, &said), XSM_ERROR_ARGUMENT, said); /* there already */
    bad.name = "";
    assert_fails(xsm_array_write(w, &bad, &said), XSM_ERROR_ARGUMENT, said);
    bad.name = "__metadata__";
    assert_fails(xsm_array_write(w, &bad, &said), XSM_ERROR_ARGUMENT, said);
    bad.name = "bad";
    bad.type = XSM_DTYPE_UINT64 + 1;
    assert_fails(xsm_array_write(w, &bad, &said), XSM_ERROR_ARGUMENT, said);
    bad.type = XSM_DTYPE_BFLOAT16;
    assert_fails(xsm_array_write(w, &bad, &said), XSM_ERROR_ARGUMENT, said);
    bad.type = XSM_DTYPE_UINT8;
    bad.rank = 5;
    assert_fails(xsm_array_write(w, &bad, &said), XSM_ERROR_ARGUMENT, said);
    bad.rank = 1;
    bad.data = NULL;
    assert_fails(xsm_array_write(w, &bad, &said), XSM_ERROR_ARGUMENT, said);
    assert_fails(xsm_array_write(w, NULL, &said), XSM_ERROR_ARGUMENT, said);
    return XSM_OK;
}

static xsm_status own_load(void *state, const xsm_sampler_problem *p, const xsm_array_reader *r, xsm_error *err)
{
    own *s = state, want;
    xsm_array a = XSM_ARRAY_INIT;
    xsm_error said = XSM_ERROR_INIT;
    assert_null(p->train);
    assert_null(p->class_counts);
    assert_int_equal(p->examples, 0);
    assert_int_equal(p->features, FEATURES);
    memset(&want, 0, sizeof want);
    assert_int_equal(own_bind(&want, p, NULL), XSM_OK);
    s->classes = p->classes;
#define TAKE(member, type, rank, count)                                                                                \
    do {                                                                                                               \
        assert_ok(xsm_array_read(r, #member, type, rank, &a, &said), said);                                            \
        uint64_t numbers_ = 1;                                                                                         \
        for (uint32_t d_ = 0; d_ < 4; d_++) {                                                                          \
            numbers_ *= d_ < (rank) ? a.shape[d_] : 1;                                                                 \
            assert_true(d_ < (rank) || a.shape[d_] == 0);                                                              \
        }                                                                                                              \
        assert_int_equal(numbers_, count);                                                                             \
        assert_string_equal(a.name, #member);                                                                          \
        memcpy(s->member, a.data, sizeof s->member);                                                                   \
        assert_memory_equal(s->member, want.member, sizeof s->member);                                                 \
    } while (0)
    TAKE(u8, XSM_DTYPE_UINT8, 1, 3);
    TAKE(i32, XSM_DTYPE_INT32, 1, 1);
    TAKE(u32, XSM_DTYPE_UINT32, 1, 2);
    TAKE(f32, XSM_DTYPE_FLOAT32, 2, 2);
    TAKE(i64, XSM_DTYPE_INT64, 1, 1);
    TAKE(u64, XSM_DTYPE_UINT64, 1, 1);
    TAKE(f64, XSM_DTYPE_FLOAT64, 4, 6);
#undef TAKE
    assert_ok(xsm_array_read(r, "nothing", XSM_DTYPE_FLOAT64, 1, &a, &said), said);
    assert_fails(xsm_array_read(r, "u8", XSM_DTYPE_UINT32, 1, &a, &said), XSM_ERROR_FORMAT, said);
    assert_fails(xsm_array_read(r, "u8", XSM_DTYPE_UINT8, 2, &a, &said), XSM_ERROR_FORMAT, said);
    assert_fails(xsm_array_read(r, "u9", XSM_DTYPE_UINT8, 1, &a, &said), XSM_ERROR_FORMAT, said);
    assert_fails(xsm_array_read(r, "u8", -1, 1, &a, &said), XSM_ERROR_ARGUMENT, said);
    assert_fails(xsm_array_read(NULL, "u8", XSM_DTYPE_UINT8, 1, &a, &said), XSM_ERROR_ARGUMENT, said);
    assert_fails(xsm_array_read(r, NULL, XSM_DTYPE_UINT8, 1, &a, &said), XSM_ERROR_ARGUMENT, said);
    assert_fails(xsm_array_read(r, "u8", XSM_DTYPE_UINT8, 1, NULL, &said), XSM_ERROR_ARGUMENT, said);
    return unknown_arrays ? xsm_array_read(r, "more", XSM_DTYPE_UINT8, 1, &a, err) : XSM_OK;
}

TEST(hosts_samplers_are_saved_and_loaded)
{
    const xsm_option option = {sizeof(xsm_option), "of", XSM_OPTION_INT, offsetof(own, of_option), "3", 0, 9, NULL,
                               "nothing"};
    xsm_sampler_ops ops = {
        .size = sizeof ops,
        .abi = XSM_EXT_ABI_VERSION,
        .name = "own",
        .summary = "of the host's",
        .state_size = sizeof(own),
        .options = &option,
        .option_count = 1,
        .bind = own_bind,
        .draw = own_draw,
        .log_probability = own_log,
        .save = own_save,
        .load = own_load,
    };
    char text[8];
    test_problem p = test_problem_new(ROWS, FEATURES, CLASSES, false, 6);
    xsm_sampler *s = NULL, *loaded = NULL;
    const char *path = test_path("own.safetensors");
    assert_ok(xsm_sampler_new_from(NULL, &ops, &s, &err), err);
    assert_ok(xsm_sampler_set(s, "of", "8", &err), err);
    assert_ok(xsm_sampler_bind(s, p.data, &err), err);
    assert_ok(xsm_sampler_save(s, path, NULL, &err), err);
    refuse(path, XSM_ERROR_NAME, "own");
    assert_fails(xsm_sampler_load(NULL, path, NULL, xsm_sampler_find("tree"), &loaded, &err), XSM_ERROR_NAME, err);
    assert_ok(xsm_sampler_load(NULL, path, NULL, &ops, &loaded, &err), err);
    xsm_sampler_get(loaded, "of", text, sizeof text);
    assert_string_equal(text, "8");
    assert_same(s, loaded, p.data);
    xsm_sampler_free(loaded);
    unknown_arrays = true;
    assert_fails(xsm_sampler_load(NULL, path, NULL, &ops, &loaded, &err), XSM_ERROR_FORMAT, err);
    assert_non_null(strstr(err.message, path));
    unknown_arrays = false;
    ops.load = NULL;
    assert_fails(xsm_sampler_load(NULL, path, NULL, &ops, &loaded, &err), XSM_ERROR_ARGUMENT, err);
    ops.save = NULL;
    assert_fails(xsm_sampler_load(NULL, path, NULL, &ops, &loaded, &err), XSM_ERROR_UNSUPPORTED, err);
    xsm_sampler_free(s);
    assert_ok(xsm_sampler_new_from(NULL, &ops, &s, &err), err);
    assert_ok(xsm_sampler_bind(s, p.data, &err), err);
    assert_fails(xsm_sampler_save(s, path, NULL, &err), XSM_ERROR_UNSUPPORTED, err);
    xsm_sampler_free(s);
    test_problem_free(&p);
    test_files_end();
}

/* -- memory -------------------------------------------------------------------------------------------------------- */

typedef struct one_kind {
    const xsm_dataset *data;
    int kind;
} one_kind;

static xsm_status save_and_load(void *state, xsm_context *ctx, xsm_error *err)
{
    const one_kind *of = state;
    HELD(xsm_sampler, s) = NULL;
    HELD(xsm_sampler, loaded) = NULL;
    const char *path = test_path("memory.safetensors");
    xsm_status status = xsm_sampler_new(ctx, kinds[of->kind][0], &s, err);
    status = status == XSM_OK ? xsm_sampler_bind(s, of->data, err) : status;
    status = status == XSM_OK ? xsm_sampler_save(s, path, NULL, err) : status;
    status = status == XSM_OK ? xsm_sampler_load(ctx, path, NULL, NULL, &loaded, err) : status;
    return status;
}

TEST(every_allocation_is_checked)
{
    test_problem p = test_problem_new(40, 3, 5, false, 6);
    for (int kind = 0; kind < KINDS; kind++) { /* one by one, as the time grows with the square of the allocations */
        one_kind of = {p.data, kind};
        assert_true(test_every_allocation(save_and_load, &of) > 5);
    }
    test_problem_free(&p);
    test_files_end();
}
