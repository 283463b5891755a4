/*
 * Tests of indexes in files: a loaded index finds what the saved one found and updates as it does; an index of other
 * rows, and damaged and foreign files, are refused; a host's index is saved by save() and restore() of its table.
 */
#include "narrow_kinds.h"
#include "training.h"

#include <xsoftmax/ext/index.h>
#include <xsoftmax/search.h>
#include <xsoftmax/stored_weights.h>

#include "base/file.h"
#include "base/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 90, WIDTH = 7, QUERIES = 20, TOP = 9 };

static const char *const kinds[][3] = {
    {"exact", NULL, NULL},
    {"spherical", NULL, NULL},
    {"spherical", "clusters", "5"},
    {"spherical", "probe", "30"},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static xsm_status new_kind(xsm_context *ctx, int kind, xsm_index **out, xsm_error *err)
{
    xsm_status status = xsm_index_new(ctx, kinds[kind][0], out, err);
    if (status == XSM_OK && kinds[kind][1]) {
        status = xsm_index_set(*out, kinds[kind][1], kinds[kind][2], err);
    }
    return status == XSM_OK ? xsm_index_set_number(*out, "seed", 77, err) : status;
}

/* The classes' rows of the test: some directions, each with rows near to it. */
static void fill(float *rows, uint32_t count, uint64_t seed)
{
    for (uint32_t i = 0; i < count * WIDTH; i++) {
        rows[i] = (float)(test_uniform(&seed) - 0.5) + (i / WIDTH % 6 == i % WIDTH ? 2.0f : 0);
    }
}

static xsm_model *new_model(bool embedding, uint64_t seed)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *m = NULL;
    xsm_parameters p = XSM_PARAMETERS_INIT;
    xsm_embedding_options o = XSM_EMBEDDING_OPTIONS_INIT;
    assert_ok(embedding ? xsm_model_new_embedding(NULL, 11, WIDTH, ROWS, &o, &m, &err)
                        : xsm_model_new_linear(NULL, WIDTH, ROWS, STRUCT(xsm_model_options, .bias = 1), &m, &err),
              err);
    assert_ok(xsm_model_get_parameters(m, &p, &err), err);
    float rows[ROWS * WIDTH];
    fill(rows, ROWS, seed);
    for (uint32_t k = 0; k < ROWS; k++) {
        memcpy(p.weight + k * p.class_step, rows + k * WIDTH, WIDTH * sizeof *rows);
        if (p.bias) {
            p.bias[k] = 0.01f * (float)k;
        }
    }
    return m;
}

typedef struct found {
    uint32_t classes[QUERIES * TOP], lengths[QUERIES];
    float scores[QUERIES * TOP];
    uint64_t probed;
} found;

static void search(const xsm_index *x, found *f)
{
    xsm_error err = XSM_ERROR_INIT;
    float queries[QUERIES * WIDTH];
    fill(queries, QUERIES, 99);
    memset(f, 0, sizeof *f);
    xsm_index_search s = XSM_INDEX_SEARCH_INIT;
    s.queries = queries;
    s.stride = WIDTH;
    s.count = QUERIES;
    s.top = TOP;
    s.classes = f->classes;
    s.scores = f->scores;
    s.lengths = f->lengths;
    assert_ok(xsm_index_query(x, &s, &err), err);
    f->probed = s.probed;
}

static void assert_same(const xsm_index *a, const xsm_index *b)
{
    static found f[2];
    search(a, &f[0]);
    search(b, &f[1]);
    assert_memory_equal(&f[0], &f[1], sizeof f[0]);
    xsm_error err = XSM_ERROR_INIT;
    xsm_index_info info[2] = {XSM_INDEX_INFO_INIT, XSM_INDEX_INFO_INIT};
    assert_ok(xsm_index_get_info(a, &info[0], &err), err);
    assert_ok(xsm_index_get_info(b, &info[1], &err), err);
    assert_true(info[0].rows == info[1].rows && info[0].width == info[1].width &&
                info[0].clusters == info[1].clusters && info[0].largest == info[1].largest &&
                info[0].moved == info[1].moved && info[0].rebuilds == info[1].rebuilds);
    const xsm_option *option;
    for (size_t i = 0; (option = xsm_index_ops_option(xsm_index_find(info[0].name), i)); i++) {
        char text[2][32];
        xsm_index_get(a, option->name, text[0], sizeof text[0]);
        xsm_index_get(b, option->name, text[1], sizeof text[1]);
        assert_string_equal(text[0], text[1]);
    }
}

static xsm_index *built(int kind, const xsm_model *m)
{
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_index, x, new_kind(NULL, kind, &x, &err));
    assert_ok(xsm_index_build_model(x, m, &err), err);
    return x;
}

/* Moves some rows of a model towards others. */
static void change(xsm_model *m, const uint32_t *classes, uint32_t count)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_parameters p = XSM_PARAMETERS_INIT;
    assert_ok(xsm_model_get_parameters(m, &p, &err), err);
    for (uint32_t j = 0; j < count; j++) {
        for (uint32_t f = 0; f < WIDTH; f++) {
            p.weight[classes[j] * p.class_step + f] = p.weight[(classes[j] + 31) % ROWS * p.class_step + f] + 0.125f;
        }
    }
}

TEST(loaded_indexes_find_the_same)
{
    static const uint32_t some[] = {3, 17, 40, 41, 88};
    for (int embedding = 0; embedding < 2; embedding++) {
        for (int kind = 0; kind < KINDS; kind++) {
            const char *path = test_path("index.safetensors");
            xsm_model *m = new_model(embedding, 5);
            xsm_index *x = built(kind, m), *loaded = NULL;
            assert_ok(xsm_index_save(x, path, NULL, &err), err);
            assert_ok(xsm_index_load(NULL, path, NULL, NULL, m, &loaded, &err), err);
            assert_same(x, loaded);
            assert_fails(xsm_index_set(loaded, "seed", "1", &err), XSM_ERROR_STATE, err);
            change(m, some, 5);
            assert_ok(xsm_index_update(x, some, 5, &err), err);
            assert_ok(xsm_index_update(loaded, some, 5, &err), err);
            assert_same(x, loaded);
            /* What the updates have moved is saved, too. */
            assert_ok(xsm_index_save(x, path, NULL, &err), err);
            xsm_index_free(loaded);
            assert_ok(xsm_index_load(NULL, path, NULL, NULL, m, &loaded, &err), err);
            assert_same(x, loaded);
            assert_ok(xsm_index_build_model(loaded, m, &err), err); /* and it can be built anew */
            xsm_index_free(x);
            xsm_model_free(m); /* which the index keeps */
            found f;
            search(loaded, &f);
            xsm_index_free(loaded);
        }
    }
    test_files_end();
}

/* Models of fewer bits have rows of their own. */
TEST(indexes_of_narrow_models_are_loaded)
{
    xsm_model *m = new_model(false, 5);
    for (EACH_KIND(kind)) {
        const char *path = test_path("narrow.safetensors");
        HELD(xsm_model, narrow) = test_converted(m, kind->dtype);
        HELD(xsm_index, x) = built(1, narrow);
        assert_ok(xsm_index_save(x, path, NULL, &err), err);
        NEW(xsm_index, loaded, xsm_index_load(NULL, path, NULL, NULL, narrow, &loaded, &err));
        assert_same(x, loaded);
        xsm_index_free(loaded);
        assert_fails(xsm_index_load(NULL, path, NULL, NULL, m, &loaded, &err), XSM_ERROR_STATE, err);
    }
    xsm_model_free(m);
    test_files_end();
}

TEST(files_do_not_depend_on_threads)
{
    xsm_model *m = new_model(false, 5);
    unsigned char *bytes[2];
    size_t size[2];
    for (int i = 0; i < 2; i++) {
        xsm_context *ctx = test_context(1 + 2 * (uint32_t)i, TEST_BUILT_IN, 0);
        const char *path = test_path(i ? "three.safetensors" : "one.safetensors");
        NEW(xsm_index, x, new_kind(ctx, 1, &x, &err));
        assert_ok(xsm_index_build_model(x, m, &err), err);
        assert_ok(xsm_index_save(x, path, NULL, &err), err);
        xsm_index_free(x);
        xsm_context_free(ctx);
        bytes[i] = test_read(path, &size[i]);
    }
    assert_int_equal(size[0], size[1]);
    assert_memory_equal(bytes[0], bytes[1], size[0]);
    free(bytes[0]);
    free(bytes[1]);
    xsm_model_free(m);
    test_files_end();
}

TEST(other_rows_are_refused)
{
    const char *path = test_path("rows.safetensors");
    float rows[ROWS * WIDTH], bias[ROWS] = {0};
    fill(rows, ROWS, 3);
    xsm_index_rows r = {sizeof r, rows, WIDTH, ROWS, WIDTH, NULL, 0, 0};
    xsm_index *x = NULL, *loaded = (xsm_index *)&err;
    assert_ok(new_kind(NULL, 1, &x, &err), err);
    assert_ok(xsm_index_build(x, &r, &err), err);
    assert_ok(xsm_index_save(x, path, NULL, &err), err);
    const struct {
        uint32_t count, width;
        const float *bias;
        xsm_status status;
        const char *said;
    } others[] = {{ROWS - 1, WIDTH, NULL, XSM_ERROR_SHAPE, "90 rows of 7 numbers; here are 89 of 7"},
                  {ROWS, WIDTH - 1, NULL, XSM_ERROR_SHAPE, "here are 90 of 6"},
                  {ROWS, WIDTH, bias, XSM_ERROR_SHAPE, "90 of 7 and a bias"},
                  {0, WIDTH, NULL, XSM_ERROR_RANGE, NULL}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        xsm_index_rows other = r;
        other.count = others[i].count;
        other.width = others[i].width;
        other.bias = others[i].bias;
        assert_fails(xsm_index_load_rows(NULL, path, NULL, NULL, &other, &loaded, &err), others[i].status, err);
        assert_ptr_equal(loaded, (xsm_index *)&err);
        if (others[i].said && !strstr(err.message, others[i].said)) {
            fail_msg("'%s' does not say '%s'", err.message, others[i].said);
        }
    }
    rows[ROWS * WIDTH - 1] += 0.001f;
    assert_fails(xsm_index_load_rows(NULL, path, NULL, NULL, &r, &loaded, &err), XSM_ERROR_STATE, err);
    assert_non_null(strstr(err.message, "rows.safetensors: an index of other rows"));
    rows[ROWS * WIDTH - 1] = NAN;
    assert_fails(xsm_index_load_rows(NULL, path, NULL, NULL, &r, &loaded, &err), XSM_ERROR_STATE, err);
    fill(rows, ROWS, 3);
    assert_ok(xsm_index_load_rows(NULL, path, NULL, NULL, &r, &loaded, &err), err);
    assert_same(x, loaded);
    xsm_index_free(loaded);
    /* Rows further apart are the same rows. */
    float wide[ROWS * (WIDTH + 2)] = {0};
    for (uint32_t k = 0; k < ROWS; k++) {
        memcpy(wide + k * (WIDTH + 2), rows + k * WIDTH, WIDTH * sizeof *rows);
    }
    xsm_index_rows apart = {sizeof apart, wide, WIDTH + 2, ROWS, WIDTH, NULL, 0, 0};
    assert_ok(xsm_index_load_rows(NULL, path, NULL, NULL, &apart, &loaded, &err), err);
    assert_same(x, loaded);
    xsm_index_free(loaded);
    xsm_index_free(x);
    test_files_end();
}

/* The file that the model is mapped from, by all its names, is not the index's to replace. */
TEST(the_model_is_not_replaced)
{
    char path[512], linked[512], pointed[512];
    snprintf(path, sizeof path, "%s", test_path("own.safetensors"));
    snprintf(linked, sizeof linked, "%s", test_path("linked.safetensors"));
    snprintf(pointed, sizeof pointed, "%s", test_path("pointed.safetensors"));
    xsm_model *m = new_model(false, 5), *loaded = NULL;
    assert_ok(xsm_model_save(m, path, NULL, &err), err);
    assert_ok(xsm_model_load(NULL, path, NULL, NULL, &loaded, &err), err);
    assert_int_equal(link(path, linked), 0);
    assert_int_equal(symlink(path, pointed), 0);
    xsm_index *x = built(1, loaded);
    const char *const names[] = {path, linked, pointed};
    for (int i = 0; i < 3; i++) {
        assert_fails(xsm_index_save(x, names[i], NULL, &err), XSM_ERROR_ARGUMENT, err);
        assert_non_null(strstr(err.message, "the model's own file"));
    }
    assert_ok(xsm_index_save(x, test_path("beside.safetensors"), NULL, &err), err);
    xsm_index_free(x);
    xsm_model_free(loaded);
    loaded = NULL;
    assert_ok(xsm_model_load(NULL, path, NULL, NULL, &loaded, &err), err);
    xsm_model_free(loaded);
    xsm_model_free(m);
    test_files_end();
}

TEST(what_was_there_stays_when_saving_fails)
{
    const char *path = test_path("kept.safetensors");
    xsm_model *m = new_model(false, 5);
    xsm_index *x = built(1, m), *fresh = NULL, *loaded = NULL;
    assert_ok(new_kind(NULL, 1, &fresh, &err), err);
    assert_ok(xsm_index_save(x, path, NULL, &err), err);
    assert_fails(xsm_index_save(fresh, path, NULL, &err), XSM_ERROR_STATE, err);
    assert_fails(xsm_index_save(NULL, path, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_index_save(x, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_index_save(x, "/nonexistent/folder/x", NULL, &err), XSM_ERROR_IO, err);
    assert_fails(xsm_index_load(NULL, path, NULL, NULL, NULL, &loaded, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_index_load(NULL, path, NULL, NULL, m, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_index_load(NULL, NULL, NULL, NULL, m, &loaded, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_index_load_rows(NULL, path, NULL, NULL, NULL, &loaded, &err), XSM_ERROR_ARGUMENT, err);
    assert_ok(xsm_index_load(NULL, path, NULL, NULL, m, &loaded, &err), err);
    assert_same(x, loaded);
    /* A model that has grown is none that the index knows. */
    assert_ok(xsm_model_grow(m, ROWS + 1, NULL, &err), err);
    assert_fails(xsm_index_save(x, path, NULL, &err), XSM_ERROR_STATE, err);
    xsm_index_free(loaded);
    xsm_index_free(fresh);
    xsm_index_free(x);
    xsm_model_free(m);
    test_files_end();
}

/* -- files that are no good ---------------------------------------------------------------------------------------- */

static const xsm_model *searched;

static void refuse(const char *path, xsm_status wanted, const char *said)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_index *x = (xsm_index *)&err;
    assert_fails(xsm_index_load(NULL, path, NULL, NULL, searched, &x, &err), wanted, err);
    assert_ptr_equal(x, (xsm_index *)&err);
    if (said && !strstr(err.message, said)) {
        fail_msg("'%s' does not say '%s'", err.message, said);
    }
}

/* A copy of an index's file, with a change of its metadata and of its numbers. */
static const char *changed_file(const char *path, const char *key, const char *value, size_t count, uint32_t at,
                                uint32_t number)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD(xsm_context, ctx) = test_context(1, TEST_BUILT_IN, 0);
    xsmi_container *file = NULL;
    assert_ok(xsmi_container_open(ctx, path, true, &file, &err), err);
    xsmi_entry entries[32];
    size_t used = 0;
    bool replaced = false;
    const xsmi_entry *e;
    for (size_t i = 0; (e = xsmi_container_metadata_at(file, i)); i++) {
        if (strcmp(e->key, XSMI_KEY_VERSION) == 0 || strcmp(e->key, XSMI_KEY_LIBRARY) == 0 ||
            strcmp(e->key, XSMI_KEY_CHECKSUM) == 0) {
            continue;
        }
        const bool this = key && strcmp(e->key, key) == 0;
        replaced |= this;
        if (!this || value) {
            entries[used++] = this ? (xsmi_entry){key, value} : *e;
        }
    }
    if (key && !replaced) {
        entries[used++] = (xsmi_entry){key, value};
    }
    const xsmi_tensor *t = xsmi_container_tensor(file, "numbers");
    assert_true(t && t->shape[0] > at);
    uint32_t *numbers = malloc(t->size + 64);
    assert_non_null(numbers);
    memcpy(numbers, t->data, t->size);
    numbers[at] = number != UINT32_MAX ? number : numbers[at];
    const xsmi_tensor other = {.name = "numbers", .dtype = XSMI_DTYPE_U32, .rank = 1, .shape = {t->shape[0] - count}};
    const char *to = test_path("changed.safetensors");
    xsmi_container_writer *w = NULL;
    assert_ok(xsmi_container_create(ctx, to, &(xsmi_container_plan){&other, 1, 0, entries, used}, &w, &err), err);
    assert_ok(xsmi_container_write(w, numbers, (size_t)other.shape[0] * 4, &err), err);
    assert_ok(xsmi_container_commit(w, &err), err);
    free(numbers);
    xsmi_container_close(file);
    return to;
}

TEST(other_files_are_refused)
{
    xsm_model *m = new_model(false, 5);
    searched = m;
    xsm_index *x = built(1, m), *loaded = NULL;
    char path[256];
    snprintf(path, sizeof path, "%s", test_path("good.safetensors"));
    assert_ok(xsm_index_save(x, path, NULL, &err), err);
    assert_ok(xsm_index_load(NULL, changed_file(path, NULL, NULL, 0, 0, UINT32_MAX), NULL, NULL, m, &loaded, &err),
              err);
    assert_same(x, loaded);
    xsm_index_free(loaded);
    static const char *const needed[] = {"index", "rows", "width", "bias", "fingerprint"};
    for (size_t i = 0; i < 5; i++) {
        refuse(changed_file(path, needed[i], NULL, 0, 0, UINT32_MAX), XSM_ERROR_FORMAT, "no index's file");
    }
    refuse(changed_file(path, "rows", "0", 0, 0, UINT32_MAX), XSM_ERROR_FORMAT, "no index's file");
    refuse(changed_file(path, "bias", "2", 0, 0, UINT32_MAX), XSM_ERROR_FORMAT, "no index's file");
    refuse(changed_file(path, "fingerprint", "-23456789abcdef0", 0, 0, UINT32_MAX), XSM_ERROR_FORMAT,
           "no index's file");
    refuse(changed_file(path, "fingerprint", "0123456789abcdef", 0, 0, UINT32_MAX), XSM_ERROR_STATE, "other rows");
    refuse(changed_file(path, "rows", "91", 0, 0, UINT32_MAX), XSM_ERROR_SHAPE, "91 rows");
    refuse(changed_file(path, "index", "warp", 0, 0, UINT32_MAX), XSM_ERROR_NAME, "'warp' is not built in");
    refuse(changed_file(path, "option.probe", "-1", 0, 0, UINT32_MAX), XSM_ERROR_FORMAT, "probe");
    refuse(changed_file(path, "option.warp", "1", 0, 0, UINT32_MAX), XSM_ERROR_FORMAT, "warp");
    refuse(changed_file(path, "option.clusters", "4", 0, 0, UINT32_MAX), XSM_ERROR_FORMAT, "tensor 'numbers'");
    refuse(changed_file(path, NULL, NULL, 1, 0, UINT32_MAX), XSM_ERROR_FORMAT, "tensor 'numbers'");
    refuse(changed_file(path, NULL, NULL, 0, 6, 0x7fc00000), XSM_ERROR_FORMAT, "the mean");
    refuse("/nonexistent", XSM_ERROR_IO, NULL);
    refuse(test_file("text", TEXT("no container")), XSM_ERROR_FORMAT, NULL);
    const char *model = test_path("model.safetensors");
    assert_ok(xsm_model_save(m, model, NULL, &err), err);
    refuse(model, XSM_ERROR_FORMAT, "no index's file");
    xsm_index_free(x);
    xsm_model_free(m);
    test_files_end();
}

/* Every byte of a file, one after another: refused, or what was saved. */
TEST(flipped_bits_are_found)
{
    xsm_model *m = new_model(false, 5);
    xsm_index *x = built(2, m);
    const char *path = test_path("whole.safetensors");
    assert_ok(xsm_index_save(x, path, NULL, &err), err);
    size_t size;
    unsigned char *bytes = test_read(path, &size);
    for (size_t i = 0; i < size; i++) {
        xsm_index *loaded = NULL;
        bytes[i] ^= 4;
        xsm_status status = xsm_index_load(NULL, test_file("flipped", bytes, size), NULL, NULL, m, &loaded, &err);
        bytes[i] ^= 4;
        if (status == XSM_OK) {
            assert_same(x, loaded);
            xsm_index_free(loaded);
        }
    }
    free(bytes);
    xsm_index_free(x);
    xsm_model_free(m);
    test_files_end();
}

/* -- a host's own -------------------------------------------------------------------------------------------------- */

TEST(hosts_indexes_are_saved_and_loaded)
{
    const char *path = test_path("host.safetensors");
    xsm_index_ops ops = *xsm_index_find("spherical");
    ops.flags = 0;
    ops.name = "of-the-host";
    xsm_model *m = new_model(false, 5);
    xsm_index *x = NULL, *loaded = NULL;
    assert_ok(xsm_index_new_from(NULL, &ops, &x, &err), err);
    assert_ok(xsm_index_build_model(x, m, &err), err);
    assert_ok(xsm_index_save(x, path, NULL, &err), err);
    assert_fails(xsm_index_load(NULL, path, NULL, NULL, m, &loaded, &err), XSM_ERROR_NAME, err);
    assert_fails(xsm_index_load(NULL, path, NULL, xsm_index_find("exact"), m, &loaded, &err), XSM_ERROR_NAME, err);
    assert_ok(xsm_index_load(NULL, path, NULL, &ops, m, &loaded, &err), err);
    found f[2];
    search(x, &f[0]);
    search(loaded, &f[1]);
    assert_memory_equal(&f[0], &f[1], sizeof f[0]);
    xsm_index_free(loaded);
    xsm_index_free(x);
    ops.saved = NULL;
    ops.save = NULL;
    ops.restore = NULL;
    assert_fails(xsm_index_load(NULL, path, NULL, &ops, m, &loaded, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_ok(xsm_index_new_from(NULL, &ops, &x, &err), err);
    assert_ok(xsm_index_build_model(x, m, &err), err);
    assert_fails(xsm_index_save(x, path, NULL, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_non_null(strstr(err.message, "of-the-host"));
    xsm_index_free(x);
    xsm_model_free(m);
    test_files_end();
}

/* -- memory -------------------------------------------------------------------------------------------------------- */

typedef struct one_kind {
    const xsm_model *model;
    int kind;
} one_kind;

static xsm_status save_and_load(void *state, xsm_context *ctx, xsm_error *err)
{
    const one_kind *of = state;
    HELD(xsm_index, x) = NULL;
    HELD(xsm_index, loaded) = NULL;
    const char *path = test_path("memory.safetensors");
    xsm_status status = new_kind(ctx, of->kind, &x, err);
    status = status == XSM_OK ? xsm_index_build_model(x, of->model, err) : status;
    status = status == XSM_OK ? xsm_index_save(x, path, NULL, err) : status;
    status = status == XSM_OK ? xsm_index_load(ctx, path, NULL, NULL, of->model, &loaded, err) : status;
    return status;
}

TEST(every_allocation_is_checked)
{
    xsm_model *m = new_model(false, 5);
    for (int kind = 0; kind < KINDS; kind++) {
        one_kind of = {m, kind};
        assert_true(test_every_allocation(save_and_load, &of) > 5);
    }
    xsm_model_free(m);
    test_files_end();
}
