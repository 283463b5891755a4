/*
 * Tensors of the host in models: what is put in comes out of every file, checkpoint and copy, in place where it can.
 */
#include "training.h"

#include <xsoftmax/buffer.h>
#include <xsoftmax/tensors.h>
#include <xsoftmax/stored_weights.h>
#include <xsoftmax/label_tree.h>
#include <xsoftmax/trainer.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct {
    const char *dtype;
    size_t bytes;
} dtypes[] = {{"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"U16", 2}, {"I16", 2}, {"F16", 2},
              {"BF16", 2}, {"U32", 4}, {"I32", 4}, {"F32", 4},     {"U64", 8},     {"I64", 8}, {"F64", 8}};
enum { DTYPES = sizeof dtypes / sizeof *dtypes, NUMBERS = 15 };

/* Bytes of tensor number i, none of which is the library's to look at: NaN among them. */
static const unsigned char *data_of(size_t i)
{
    static _Alignas(8) unsigned char data[DTYPES][8 * NUMBERS];
    for (size_t k = 0; k < sizeof data[i]; k++) {
        data[i][k] = (unsigned char)(k % 8 < 6 ? 37 * k + 11 * i : 0xFF);
    }
    return data[i];
}

static xsm_tensor tensor_of(size_t i, char name[32])
{
    static const uint64_t shape[] = {3, 1, 5};
    xsm_tensor t = XSM_TENSOR_INIT;
    snprintf(name, 32, "layer%zu/weight \xc3\xa9", DTYPES - i); /* not in alphabetic order */
    t.name = name;
    t.dtype = dtypes[i].dtype;
    t.shape = shape;
    t.rank = 3;
    t.data = data_of(i);
    t.bytes = NUMBERS * dtypes[i].bytes;
    return t;
}

/* A tensor of each type, one number, none. */
static xsm_status put_tensors(xsm_model *m, xsm_error *err)
{
    static const uint64_t none[] = {4, 0};
    char name[32];
    for (size_t i = 0; i < DTYPES; i++) {
        const xsm_tensor t = tensor_of(i, name);
        XSMI_TRY(xsm_model_set_tensor(m, &t, err));
    }
    xsm_tensor t = XSM_TENSOR_INIT;
    t.name = "one";
    t.dtype = "F64";
    t.data = data_of(0);
    t.bytes = 8;
    XSMI_TRY(xsm_model_set_tensor(m, &t, err));
    t.name = "none";
    t.shape = none;
    t.rank = 2;
    t.data = NULL;
    t.bytes = 0;
    return xsm_model_set_tensor(m, &t, err);
}

static void assert_tensors(const xsm_model *m)
{
    xsm_error err = XSM_ERROR_INIT;
    char name[32];
    size_t count = 0;
    for (const char *last = "", *next; (next = xsm_model_tensor_name(m, count)) != NULL; last = next, count++) {
        assert_true(strcmp(last, next) < 0);
    }
    assert_int_equal(count, DTYPES + 2);
    for (size_t i = 0; i < DTYPES; i++) {
        const xsm_tensor t = tensor_of(i, name);
        xsm_tensor got = XSM_TENSOR_INIT;
        assert_ok(xsm_model_get_tensor(m, name, &got, &err), err);
        assert_string_equal(got.name, name);
        assert_string_equal(got.dtype, t.dtype);
        assert_int_equal(got.rank, 3);
        assert_memory_equal(got.shape, t.shape, 3 * sizeof *t.shape);
        assert_int_equal(got.bytes, t.bytes);
        assert_memory_equal(got.data, t.data, t.bytes);
        assert_int_equal((uintptr_t)got.data % dtypes[i].bytes, 0);
    }
    xsm_tensor got = XSM_TENSOR_INIT;
    assert_ok(xsm_model_get_tensor(m, "one", &got, &err), err);
    assert_true(got.rank == 0 && got.bytes == 8 && memcmp(got.data, data_of(0), 8) == 0);
    assert_ok(xsm_model_get_tensor(m, "none", &got, &err), err);
    assert_true(got.rank == 2 && got.bytes == 0 && got.shape[0] == 4 && got.shape[1] == 0);
    assert_fails(xsm_model_get_tensor(m, "other", &got, &err), XSM_ERROR_NAME, err);
}

enum { LINEAR, EMBEDDING, PRUNED, NARROW, NARROW_SPARSE, LABEL_TREE, KINDS };

static xsm_model *model_of(int kind, const test_problem *p)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_embedding_options o = XSM_EMBEDDING_OPTIONS_INIT;
    xsm_convert_options narrow = XSM_CONVERT_OPTIONS_INIT;
    xsm_model *m, *other;
    switch (kind) {
    case LINEAR:
    case PRUNED:
    case NARROW:
    case NARROW_SPARSE:
        m = test_model(NULL, p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 3);
        break;
    case EMBEDDING:
        assert_ok(xsm_model_new_embedding(NULL, p->features, 3, p->classes, &o, &m, &err), err);
        break;
    default:
        assert_ok(xsm_fit_label_tree(NULL, p->data, NULL, &m, NULL, &err), err);
        break;
    }
    assert_ok(put_tensors(m, &err), err);
    if (kind == PRUNED || kind == NARROW_SPARSE) {
        assert_ok(xsm_model_prune(m, NULL, &other, &err), err);
        xsm_model_free(m);
        m = other;
    }
    if (kind == NARROW || kind == NARROW_SPARSE) {
        narrow.dtype = XSM_DTYPE_INT8;
        assert_ok(xsm_model_convert(m, &narrow, &other, &err), err);
        xsm_model_free(m);
        m = other;
    }
    return m;
}

TEST(test_files)
{
    test_problem p = test_problem_new(40, 9, 12, true, 5);
    for (int kind = 0; kind < KINDS; kind++) {
        HELD(xsm_model, m) = model_of(kind, &p);
        xsm_model *loaded;
        assert_tensors(m);
        const char *path = test_path("model");
        size_t size, again_size;
        assert_ok(xsm_model_save(m, path, NULL, &err), err);
        unsigned char *bytes = test_read(path, &size);
        assert_ok(xsm_model_load(NULL, path, NULL, NULL, &loaded, &err), err);
        assert_tensors(loaded);
        assert_ok(xsm_model_save(loaded, path, NULL, &err), err);
        unsigned char *again = test_read(path, &again_size);
        assert_int_equal(again_size, size);
        assert_memory_equal(again, bytes, size);
        xsm_model_free(loaded);
        /* In the host's bytes, in place; what was put in later does not matter to them. */
        xsm_storage s = XSM_STORAGE_INIT;
        xsm_tensor got = XSM_TENSOR_INIT;
        s.bytes = bytes;
        s.byte_count = size;
        assert_ok(xsm_model_load(NULL, NULL, &s, NULL, &loaded, &err), err);
        assert_tensors(loaded);
        assert_ok(xsm_model_get_tensor(loaded, "one", &got, &err), err);
        const unsigned char *data = got.data;
        assert_true(data >= bytes && data < bytes + size);
        xsm_model_free(loaded);
        free(again);
        free(bytes);
    }
    test_problem_free(&p);
    test_files_end();
}

/* A view stays where it is when the weights of a mapped model become its own, and when it grows. */
TEST(test_views_stay)
{
    test_problem p = test_problem_new(40, 9, 12, true, 5);
    for (int way = 0; way < 4; way++) {
        HELD(xsm_model, m) = model_of(way == 3 ? PRUNED : LINEAR, &p);
        xsm_tensor before = XSM_TENSOR_INIT, after = XSM_TENSOR_INIT;
        xsm_load_options o = XSM_LOAD_OPTIONS_INIT;
        xsm_parameters w = XSM_PARAMETERS_INIT;
        const char *path = test_path("model");
        o.copy = way == 1;
        assert_ok(xsm_model_save(m, path, NULL, &err), err);
        MADE(xsm_model, loaded, xsm_model_load(NULL, path, NULL, &o, &loaded, &err));
        assert_ok(xsm_model_get_tensor(loaded, "one", &before, &err), err);
        if (way == 3) {
            assert_ok(xsm_model_set_layout(loaded, XSM_LAYOUT_FEATURE_MAJOR, &err), err);
        }
        if (way != 2) {
            assert_ok(xsm_model_get_parameters(loaded, &w, &err), err);
            w.weight[0] += 1;
        }
        assert_ok(xsm_model_grow(loaded, 11, NULL, &err), err);
        assert_ok(xsm_model_grow(loaded, 12, NULL, &err), err);
        assert_ok(xsm_model_get_tensor(loaded, "one", &after, &err), err);
        assert_ptr_equal(after.data, before.data);
        assert_ptr_equal(after.shape, before.shape);
        assert_tensors(loaded);
    }
    test_problem_free(&p);
    test_files_end();
}

static void count_release(void *user)
{
    ++*(int *)user;
}

/* Who lends data is told when they are not needed; a file's bytes are, as long as tensors are in them. */
TEST(test_release)
{
    test_problem p = test_problem_new(40, 9, 12, true, 5);
    xsm_model *m = model_of(LINEAR, &p), *loaded;
    const double number = 5;
    int told = 0, told_file = 0;
    xsm_tensor t = XSM_TENSOR_INIT;
    t.name = "lent";
    t.dtype = "F64";
    t.data = &number;
    t.bytes = sizeof number;
    t.release = count_release;
    t.release_user = &told;
    assert_fails(xsm_model_set_tensor(m, &t, &err), XSM_ERROR_ARGUMENT, err); /* it would be copied */
    assert_non_null(strstr(err.message, "release()"));
    t.ownership = XSM_BORROW;
    t.bytes = 7;
    assert_fails(xsm_model_set_tensor(m, &t, &err), XSM_ERROR_ARGUMENT, err);
    t.bytes = sizeof number;
    for (int i = 0; i < 3; i++) {
        assert_ok(xsm_model_set_tensor(m, &t, &err), err);
        assert_int_equal(told, i);
    }
    assert_ok(xsm_model_remove_tensor(m, "lent", &err), err);
    assert_int_equal(told, 3);
    assert_ok(xsm_model_set_tensor(m, &t, &err), err);
    assert_ok(xsm_model_prune(m, NULL, &loaded, &err), err);
    xsm_model_free(loaded);
    assert_ok(xsm_model_grow(m, 10, NULL, &err), err);
    assert_int_equal(told, 3);
    const char *path = test_path("model");
    size_t size;
    assert_ok(xsm_model_save(m, path, NULL, &err), err);
    xsm_model_free(m);
    assert_int_equal(told, 4);

    unsigned char *bytes = test_read(path, &size);
    xsm_storage s = XSM_STORAGE_INIT;
    xsm_parameters w = XSM_PARAMETERS_INIT;
    s.bytes = bytes;
    s.byte_count = size;
    s.release = count_release;
    s.release_user = &told_file;
    assert_ok(xsm_model_load(NULL, NULL, &s, NULL, &loaded, &err), err);
    assert_ok(xsm_model_get_parameters(loaded, &w, &err), err);
    assert_ok(xsm_model_grow(loaded, 11, NULL, &err), err);
    assert_int_equal(told_file, 0);
    assert_ok(xsm_model_get_tensor(loaded, "lent", &t, &err), err);
    assert_true(memcmp(t.data, &number, sizeof number) == 0 && !t.release);
    xsm_model_free(loaded);
    assert_int_equal(told_file, 1);
    free(bytes);
    test_problem_free(&p);
    test_files_end();
}

/* A view may be set in the model that it is of, and in another: it is copied, whoever had the data. */
TEST(test_views_set)
{
    test_problem p = test_problem_new(40, 9, 12, true, 5);
    for (int lent = 0; lent < 2; lent++) {
        xsm_model *m = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 3), *other;
        other = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 3);
        const uint64_t shape[] = {4};
        int told = 0;
        float *numbers = malloc(4 * sizeof *numbers);
        assert_non_null(numbers);
        for (int i = 0; i < 4; i++) {
            numbers[i] = (float)i;
        }
        xsm_tensor t = XSM_TENSOR_INIT, view = XSM_TENSOR_INIT;
        t.name = "n";
        t.dtype = "F32";
        t.shape = shape;
        t.rank = 1;
        t.data = numbers;
        t.bytes = 16;
        t.ownership = lent ? XSM_BORROW : XSM_COPY;
        t.release = lent ? count_release : NULL;
        t.release_user = &told;
        assert_ok(xsm_model_set_tensor(m, &t, &err), err);
        assert_ok(xsm_model_get_tensor(m, "n", &view, &err), err);
        assert_true(view.ownership == XSM_COPY && !view.release && (view.data == numbers) == lent);
        assert_ok(xsm_model_set_tensor(other, &view, &err), err);
        assert_int_equal(told, 0);
        assert_ok(xsm_model_set_tensor(m, &view, &err), err);
        assert_int_equal(told, lent);
        free(numbers);
        /* A part of a tensor in its place. */
        static const uint64_t part[] = {2};
        assert_ok(xsm_model_get_tensor(m, "n", &view, &err), err);
        view.data = (const float *)view.data + 1;
        view.shape = part;
        view.bytes = 8;
        view.ownership = XSM_BORROW; /* of what is released then */
        assert_fails(xsm_model_set_tensor(m, &view, &err), XSM_ERROR_ARGUMENT, err);
        assert_non_null(strstr(err.message, "tensor 'n'"));
        view.name = "borrowed";
        assert_fails(xsm_model_set_tensor(m, &view, &err), XSM_ERROR_ARGUMENT, err);
        view.name = "n";
        view.ownership = XSM_COPY;
        assert_ok(xsm_model_set_tensor(m, &view, &err), err);
        assert_ok(xsm_model_get_tensor(m, "n", &view, &err), err);
        assert_true(((const float *)view.data)[0] == 1 && ((const float *)view.data)[1] == 2);
        xsm_model_free(m);
        assert_int_equal(told, lent);
        assert_ok(xsm_model_get_tensor(other, "n", &view, &err), err);
        assert_true(((const float *)view.data)[3] == 3);
        /* In a mapped file, too. */
        const char *path = test_path("model");
        assert_ok(xsm_model_save(other, path, NULL, &err), err);
        xsm_model_free(other);
        MADE(xsm_model, loaded, xsm_model_load(NULL, path, NULL, NULL, &loaded, &err));
        assert_ok(xsm_model_get_tensor(loaded, "n", &view, &err), err);
        view.ownership = XSM_BORROW;
        assert_fails(xsm_model_set_tensor(loaded, &view, &err), XSM_ERROR_ARGUMENT, err);
        view.ownership = XSM_COPY;
        assert_ok(xsm_model_set_tensor(loaded, &view, &err), err);
        assert_ok(xsm_model_set_layout(loaded, XSM_LAYOUT_FEATURE_MAJOR, &err), err); /* which ends the mapping */
        assert_ok(xsm_model_get_tensor(loaded, "n", &view, &err), err);
        assert_true(((const float *)view.data)[3] == 3);
    }
    test_problem_free(&p);
    test_files_end();
}

TEST(test_set_and_remove)
{
    test_problem p = test_problem_new(40, 9, 12, true, 5);
    xsm_model *m = model_of(LINEAR, &p), *loaded;
    float numbers[2] = {1, 2};
    const uint64_t shape[] = {2};
    xsm_tensor t = XSM_TENSOR_INIT, got = XSM_TENSOR_INIT;
    t.name = "one"; /* another in its place */
    t.dtype = "F32";
    t.shape = shape;
    t.rank = 1;
    t.data = numbers;
    t.bytes = sizeof numbers;
    t.ownership = XSM_BORROW;
    assert_ok(xsm_model_set_tensor(m, &t, &err), err);
    assert_ok(xsm_model_get_tensor(m, "one", &got, &err), err);
    assert_ptr_equal(got.data, numbers);
    assert_int_equal(got.ownership, XSM_COPY);
    numbers[1] = 7; /* what is saved is what is there then */
    const char *path = test_path("model");
    assert_ok(xsm_model_save(m, path, NULL, &err), err);
    assert_ok(xsm_model_load(NULL, path, NULL, NULL, &loaded, &err), err);
    assert_ok(xsm_model_get_tensor(loaded, "one", &got, &err), err);
    assert_int_equal(got.ownership, XSM_COPY);
    assert_memory_equal(got.data, numbers, sizeof numbers);
    /* In a loaded model, too, one that was mapped may go or be replaced. */
    t.ownership = XSM_COPY;
    t.name = "none";
    assert_ok(xsm_model_set_tensor(loaded, &t, &err), err);
    numbers[0] = 0;
    assert_ok(xsm_model_get_tensor(loaded, "none", &got, &err), err);
    assert_true(((const float *)got.data)[0] == 1);
    for (const char *name; (name = xsm_model_tensor_name(loaded, 0)) != NULL;) {
        char copy[64];
        snprintf(copy, sizeof copy, "%s", name);
        assert_ok(xsm_model_remove_tensor(loaded, copy, &err), err);
        assert_fails(xsm_model_remove_tensor(loaded, copy, &err), XSM_ERROR_NAME, err);
        assert_non_null(strstr(err.message, copy));
    }
    assert_ok(xsm_model_save(loaded, path, NULL, &err), err);
    xsm_model_free(loaded);
    assert_ok(xsm_model_load(NULL, path, NULL, NULL, &loaded, &err), err);
    assert_null(xsm_model_tensor_name(loaded, 0));
    xsm_model_free(loaded);
    xsm_model_free(m);
    test_problem_free(&p);
    test_files_end();
}

/* What changes while a storage that cannot seek is gone over twice is no file. */
static int64_t change_while_writing(void *user, const void *data, size_t size)
{
    float *number = user;
    (void)data;
    *number += 1;
    return (int64_t)size;
}

TEST(test_refused)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(40, 9, 12, true, 5);
    HELD(xsm_model, m) = model_of(LINEAR, &p);
    static const uint64_t shape[] = {2, 3}, large[] = {UINT64_MAX, 2};
    float numbers[6] = {0};
    char longest[XSM_TENSOR_NAME_MAX + 2];
    xsm_tensor good = XSM_TENSOR_INIT, t;
    good.name = "good";
    good.dtype = "F32";
    good.shape = shape;
    good.rank = 2;
    good.data = numbers;
    good.bytes = sizeof numbers;
    memset(longest, 'x', sizeof longest);
    longest[XSM_TENSOR_NAME_MAX + 1] = '\0';
    good.ownership = XSM_BORROW; /* copied data may begin anywhere */
    good.shape = NULL;
    good.rank = 0;
    good.bytes = sizeof *numbers;
    good.data = (const char *)numbers + 1;
    assert_fails(xsm_model_set_tensor(m, &good, &err), XSM_ERROR_ARGUMENT, err);
    assert_non_null(strstr(err.message, "1 bytes behind a multiple of 4"));
    good.ownership = XSM_COPY;
    assert_ok(xsm_model_set_tensor(m, &good, &err), err);
    assert_ok(xsm_model_remove_tensor(m, "good", &err), err);
    good.shape = shape;
    good.rank = 2;
    good.bytes = sizeof numbers;
    good.data = numbers;
#define REFUSED(member, value, status, says)                                                                           \
    do {                                                                                                               \
        t = good;                                                                                                      \
        t.member = value;                                                                                              \
        assert_fails(xsm_model_set_tensor(m, &t, &err), status, err);                                                  \
        assert_non_null(strstr(err.message, says));                                                                    \
    } while (0)
    REFUSED(name, NULL, XSM_ERROR_ARGUMENT, "name is NULL");
    REFUSED(name, "", XSM_ERROR_ARGUMENT, "name is ''");
    REFUSED(name, "a\nb", XSM_ERROR_ARGUMENT, "control");
    REFUSED(name, "a\x7f", XSM_ERROR_ARGUMENT, "control");
    REFUSED(name, "\xff", XSM_ERROR_ARGUMENT, "UTF-8");
    REFUSED(name, longest, XSM_ERROR_ARGUMENT, "255");
    REFUSED(dtype, NULL, XSM_ERROR_ARGUMENT, "'good': xsm_tensor.dtype is NULL");
    REFUSED(dtype, "f32", XSM_ERROR_ARGUMENT, "BF16");
    REFUSED(rank, 9, XSM_ERROR_RANGE, "0 to 8");
    REFUSED(rank, 1, XSM_ERROR_ARGUMENT, "bytes is 24; its dtype and shape have 8");
    REFUSED(shape, NULL, XSM_ERROR_ARGUMENT, "shape is NULL");
    REFUSED(shape, large, XSM_ERROR_ARGUMENT, "addressed");
    REFUSED(ownership, 2, XSM_ERROR_RANGE, "XSM_BORROW");
    REFUSED(bytes, 23, XSM_ERROR_ARGUMENT, "23");
    REFUSED(data, NULL, XSM_ERROR_ARGUMENT, "data is NULL");
    REFUSED(size, 8, XSM_ERROR_STRUCT_OLD, "size");
    assert_fails(xsm_model_set_tensor(NULL, &good, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_model_set_tensor(m, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_model_get_tensor(NULL, "a", &t, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_model_get_tensor(m, NULL, &t, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_model_get_tensor(m, "a", NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_model_remove_tensor(NULL, "a", &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_model_remove_tensor(m, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_null(xsm_model_tensor_name(NULL, 0));
    assert_tensors(m);
    longest[XSM_TENSOR_NAME_MAX] = '\0';
    t = good;
    t.name = longest;
    assert_ok(xsm_model_set_tensor(m, &t, &err), err);
    /* Changed while it is saved. */
    t = good;
    t.ownership = XSM_BORROW;
    assert_ok(xsm_model_set_tensor(m, &t, &err), err);
    assert_fails(xsm_model_save(m, NULL, STRUCT(xsm_storage, .user = numbers, .write = change_while_writing), &err),
                 XSM_ERROR_STATE, err);
}

/* Files whose names the library would not write. */
TEST(test_bad_files)
{
    static const char *const names[] = {"host.", "host.a\\n", "hosts.a", "host"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        _Alignas(64) unsigned char bytes[512] = {0};
        xsm_storage s = XSM_STORAGE_INIT;
        xsm_model *m = NULL;
        int length = snprintf((char *)bytes + 8, 400,
                              "{\"weight\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[0,4]},"
                              "\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[4,5]}}",
                              names[i]);
        while (length % 8 != 0) {
            bytes[8 + length++] = ' ';
        }
        bytes[0] = (unsigned char)length;
        s.name = "f";
        s.bytes = bytes;
        s.byte_count = (size_t)length + 8 + 5;
        assert_fails(xsm_model_load(NULL, NULL, &s, NULL, &m, &err), XSM_ERROR_FORMAT, err);
        assert_non_null(strstr(err.message, "f: "));
        assert_non_null(strstr(err.message, "host"));
    }
}

/* Seconds to load a model with so many tensors, in falling order. */
static double load_many(size_t count)
{
    const size_t each = 90, room = 200 + count * each;
    unsigned char *bytes = aligned_alloc(64, (room + 63) / 64 * 64);
    xsm_error err = XSM_ERROR_INIT;
    xsm_storage s = XSM_STORAGE_INIT;
    assert_non_null(bytes);
    char *text = (char *)bytes + 8;
    uint64_t length =
        (uint64_t)snprintf(text, 200, "{\"weight\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[0,4]}");
    for (size_t i = count; i-- > 0;) {
        length += (uint64_t)snprintf(text + length, each,
                                     ",\"host.%08zu\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[4,4]}", i);
    }
    text[length++] = '}';
    while (length % 8 != 0) {
        text[length++] = ' ';
    }
    memcpy(bytes, &length, 8);
    memset(text + length, 0, 4);
    s.bytes = bytes;
    s.byte_count = length + 12;
    const clock_t start = clock();
    NEW(xsm_model, m, xsm_model_load(NULL, NULL, &s, NULL, &m, &err));
    const double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    assert_string_equal(xsm_model_tensor_name(m, 1), "00000001");
    assert_non_null(xsm_model_tensor_name(m, count - 1));
    assert_null(xsm_model_tensor_name(m, count));
    xsm_model_free(m);
    free(bytes);
    return seconds;
}

/* Time in proportion to their number, whatever their order. */
TEST(test_many)
{
    const double half = load_many(40000), all = load_many(80000);
    if (all > 3 * half + 0.3) {
        fail_msg("40,000 tensors took %.2f s, 80,000 %.2f s", half, all);
    }
}

/* A checkpoint has the tensors of its time; a trainer that resumes gets them in place of its model's. */
TEST(test_checkpoints)
{
    test_problem p = test_problem_new(40, 9, 12, true, 5);
    xsm_trainer_options o = XSM_TRAINER_OPTIONS_INIT;
    const char *path = test_path("checkpoint");
    o.epochs = 2;
    for (int part = 0; part < 2; part++) {
        float number = 3;
        xsm_tensor t = XSM_TENSOR_INIT, got = XSM_TENSOR_INIT;
        HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 1);
        HELD(xsm_estimator, e) = test_estimator(NULL, "umax", "");
        MADE(xsm_optimizer, optimizer, xsm_optimizer_new(NULL, "sgd", &optimizer, &err));
        MADE(xsm_trainer, trainer, xsm_trainer_new(NULL, m, p.data, e, optimizer, &o, &trainer, &err));
        t.name = "step";
        t.dtype = "F32";
        t.data = &number;
        t.bytes = sizeof number;
        t.ownership = XSM_BORROW;
        if (part == 0) {
            assert_ok(put_tensors(m, &err), err);
            assert_ok(xsm_trainer_run(trainer, &err), err);
            assert_ok(xsm_trainer_checkpoint(trainer, path, NULL, &err), err);
            xsm_model *loaded; /* it is a model with them, too */
            assert_ok(xsm_model_load(NULL, path, NULL, NULL, &loaded, &err), err);
            assert_tensors(loaded);
            xsm_model_free(loaded);
        } else {
            assert_ok(xsm_model_set_tensor(m, &t, &err), err);
            assert_fails(xsm_trainer_resume(trainer, "/nowhere", NULL, &err), XSM_ERROR_IO, err);
            assert_ok(xsm_model_get_tensor(m, "step", &got, &err), err);
            assert_ok(xsm_trainer_resume(trainer, path, NULL, &err), err);
            remove(path);
            assert_tensors(m);
        }
        assert_true(number == 3);
    }
    test_problem_free(&p);
    test_files_end();
}

static xsm_status everything(void *state, xsm_context *ctx, xsm_error *err)
{
    HELD(xsm_model, m) = NULL;
    xsm_model *other = NULL;
    const char *path = state;
    xsm_status status = xsm_model_new_linear(ctx, 5, 4, NULL, &m, err);
    status = status == XSM_OK ? put_tensors(m, err) : status;
    status = status == XSM_OK ? xsm_model_prune(m, NULL, &other, err) : status;
    xsm_model_free(other);
    other = NULL;
    status = status == XSM_OK ? xsm_model_save(m, path, NULL, err) : status;
    status = status == XSM_OK ? xsm_model_load(ctx, path, NULL, NULL, &other, err) : status;
    status = status == XSM_OK ? xsm_model_grow(other, 6, NULL, err) : status;
    xsm_model_free(other);
    return status;
}

TEST(test_without_memory)
{
    char path[256];
    snprintf(path, sizeof path, "%s", test_path("memory"));
    assert_true(test_every_allocation(everything, path) > 50);
    test_files_end();
}
