/*
 * Checkpoints of label trees: a fit that was cancelled anywhere and resumed has the bits of one that was not; what is
 * no checkpoint of the same fit is refused.
 */
#include "training.h"

#include "base/safetensors.h"

#include <xsoftmax/label_tree.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static xsm_label_tree_options options_of(int kind)
{
    xsm_label_tree_options o = XSM_LABEL_TREE_OPTIONS_INIT;
    o.arity = 3;
    o.leaf = 5;
    o.trees = kind == 1 ? 3 : 2;
    o.negatives = kind == 2 ? 3 : 0;
    o.balance = kind == 3 ? XSM_LABEL_TREE_BALANCE_CLUSTERS : XSM_LABEL_TREE_BALANCE_BALANCED;
    o.link = kind == 3 ? XSM_LABEL_TREE_LINK_HINGE : XSM_LABEL_TREE_LINK_AUTO;
    o.checkpoint_every = 1e-9; /* after every job */
    return o;
}

enum { HALF, BROKEN, WHOLE, FINISHED, PATHS };

/* Paths that stay. */
static const char *path_of(int which)
{
    static char paths[PATHS][128];
    if (!paths[which][0]) {
        char name[] = "checkpoint0";
        name[sizeof name - 2] = (char)('0' + which);
        const char *path = test_path(name);
        assert_true(strlen(path) < sizeof paths[which]);
        memcpy(paths[which], path, strlen(path) + 1);
    }
    return paths[which];
}

/* Cancels at every step-th poll, each time a bit further, and resumes with other threads. */
TEST(test_resume)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(150, 20, 60, true, 3);
    for (int kind = 0; kind < 5; kind++) {
        HELD(xsm_dataset, data) = test_second_labels(&p, kind < 4, p.classes, p.labels, 7);
        xsm_label_tree_options o = options_of(kind % 4);
        xsm_model *m;
        assert_ok(xsm_fit_label_tree(NULL, data, &o, &m, NULL, &err), err);
        size_t size, resumed = 0, states = 0, last = 0;
        unsigned char *want = NULL;
        test_same_file(m, &want, &size);
        xsm_model_free(m);
        const char *path = path_of(WHOLE);
        o.checkpoint = path;
        for (size_t poll = 1;; poll += 1 + poll / 3) {
            test_hook h;
            remove(path);
            test_hook_start(&h, 1 + (uint32_t)(poll % 2));
            test_hook_cancel(&h, poll);
            o.resume = NULL;
            m = NULL;
            const xsm_status status = xsm_fit_label_tree(h.context, data, &o, &m, NULL, &err);
            xsm_model_free(m);
            test_hook_end(&h);
            if (status == XSM_OK) {
                break;
            }
            assert_int_equal(status, XSM_CANCELLED);
            FILE *f = fopen(path, "rb");
            if (!f) {
                continue; /* nothing was done yet */
            }
            fclose(f);
            size_t length;
            free(test_read(path, &length));
            states += length != last;
            last = length;
            xsm_label_tree_result r = XSM_LABEL_TREE_RESULT_INIT;
            o.resume = path;
            o.checkpoint = poll % 3 == 0 ? NULL : path;
            o.checkpoint_every = 0;
            xsm_context *ctx = test_context(1 + (uint32_t)(poll % 3), (int)(poll % 3), 0);
            assert_ok(xsm_fit_label_tree(ctx, data, &o, &m, &r, &err), err);
            assert_true(o.checkpoint ? r.checkpoints > 0 || r.checkpoint == XSM_OK : r.checkpoints == 0);
            test_same_file(m, &want, &size);
            xsm_model_free(m);
            xsm_context_free(ctx);
            o.checkpoint = path;
            o.checkpoint_every = 1e-9;
            resumed++;
        }
        assert_true(resumed > 6 && states > 3); /* they differed in what was done */
        free(want);
    }
}

/* The last checkpoint has everything. */
TEST(test_finished)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(200, 40, 60, true, 3);
    xsm_label_tree_options o = options_of(0);
    xsm_label_tree_result r = XSM_LABEL_TREE_RESULT_INIT, again = XSM_LABEL_TREE_RESULT_INIT;
    xsm_model *m, *other;
    unsigned char *bytes = NULL;
    size_t size;
    o.checkpoint = path_of(FINISHED);
    assert_ok(xsm_fit_label_tree(NULL, p.data, &o, &m, &r, &err), err);
    assert_true(r.checkpoints > 5 && r.checkpoint == XSM_OK);
    o.resume = o.checkpoint;
    o.checkpoint = NULL;
    assert_ok(xsm_fit_label_tree(NULL, p.data, &o, &other, &again, &err), err);
    test_same_file(m, &bytes, &size);
    test_same_file(other, &bytes, &size);
    assert_int_equal(again.checkpoints, 0);
    assert_true(again.nodes == r.nodes && again.weights == r.weights && again.bytes == r.bytes);
    free(bytes);
    xsm_model_free(m);
    xsm_model_free(other);
    /* A folder that is not there ends the fit before it begins. */
    o.resume = NULL;
    o.checkpoint = "/nonexistent/folder/x";
    assert_fails(xsm_fit_label_tree(NULL, p.data, &o, &m, NULL, &err), XSM_ERROR_IO, err);
    o.checkpoint = NULL;
    o.checkpoint_every = -1;
    assert_fails(xsm_fit_label_tree(NULL, p.data, &o, &m, NULL, &err), XSM_ERROR_RANGE, err);
}

/* Makes a checkpoint of a tree that is half done. */
static void make_half(const xsm_dataset *data, xsm_label_tree_options *o, const char *path)
{
    xsm_error err = XSM_ERROR_INIT;
    size_t polls = 0;
    for (int half = 0; half < 2; half++) {
        test_hook h;
        xsm_model *m = NULL;
        test_hook_start(&h, 1);
        test_hook_cancel(&h, half ? polls * 3 / 4 : SIZE_MAX);
        o->checkpoint = path;
        const xsm_status status = xsm_fit_label_tree(h.context, data, o, &m, NULL, &err);
        assert_int_equal(status, half ? XSM_CANCELLED : XSM_OK);
        polls = h.calls;
        xsm_model_free(m);
        test_hook_end(&h);
    }
    o->checkpoint = NULL;
    o->resume = path;
}

static void refuse(const xsm_dataset *data, const xsm_label_tree_options *o, xsm_status want)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *m = NULL;
    assert_fails(xsm_fit_label_tree(NULL, data, o, &m, NULL, &err), want, err);
    assert_null(m);
}

TEST(test_refused)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(200, 40, 60, true, 3);
    HELD_STRUCT(test_problem, q) = test_problem_new(200, 40, 60, true, 4);
    const char *path = path_of(HALF), *broken = path_of(BROKEN);
    for (int kind = 0; kind < 3; kind += 2) {
        xsm_label_tree_options o = options_of(kind), other;
        make_half(p.data, &o, path);
        other = o;
        other.seed = 7;
        refuse(p.data, &other, XSM_ERROR_ARGUMENT);
        other = o;
        other.cost = 2;
        refuse(p.data, &other, XSM_ERROR_ARGUMENT);
        refuse(q.data, &o, XSM_ERROR_DATA);
        size_t size;
        unsigned char *bytes = test_read(path, &size);
        for (size_t cut = 0; cut < size; cut += 1 + size / 97) {
            o.resume = test_file("damaged.checkpoint", bytes, cut);
            refuse(p.data, &o, XSM_ERROR_FORMAT);
        }
        for (size_t at = 0; at < size; at += 1 + size / 203) {
            bytes[at] ^= 0x10;
            o.resume = test_file("damaged.checkpoint", bytes, size);
            xsm_model *m = NULL;
            assert_true(xsm_fit_label_tree(NULL, p.data, &o, &m, NULL, &err) != XSM_OK && !m);
            bytes[at] ^= 0x10;
        }
        free(bytes);
        o.resume = test_path("missing.checkpoint");
        refuse(p.data, &o, XSM_ERROR_IO);
    }
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 3);
    assert_ok(xsm_model_save(m, broken, NULL, &err), err);
    xsm_label_tree_options o = options_of(0);
    o.resume = broken;
    refuse(p.data, &o, XSM_ERROR_FORMAT);
}

/* Files whose checksum is right and whose numbers are not: any number of any tensor is changed. None may be read beyond
 * its arrays; what is accepted has finite scores. */
TEST(test_wrong_numbers)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(120, 20, 40, true, 3);
    const char *path = path_of(HALF), *broken = path_of(BROKEN);
    size_t accepted = 0, refused = 0;
    for (int kind = 0; kind < 3; kind += 2) {
        xsm_label_tree_options o = options_of(kind);
        make_half(p.data, &o, path);
        xsmi_container *file;
        HELD(xsm_context, ctx) = test_context(1, TEST_BUILT_IN, 0);
        assert_ok(xsmi_container_open(ctx, path, true, &file, &err), err);
        size_t count = 0, settings = 0;
        xsmi_tensor tensors[64];
        xsmi_entry entries[64];
        for (const xsmi_tensor *t; (t = xsmi_container_tensor_at(file, count)) != NULL;) {
            tensors[count++] = *t;
        }
        const xsmi_entry *entry;
        for (size_t i = 0; (entry = xsmi_container_metadata_at(file, i)) != NULL; i++) {
            if (strncmp(entry->key, XSMI_KEY_CHECKPOINT, sizeof XSMI_KEY_CHECKPOINT - 1) == 0) {
                entries[settings++] = *entry;
            }
        }
        /* In the order of their data. */
        for (size_t i = 0; i < count; i++) {
            for (size_t j = i + 1; j < count; j++) {
                if (tensors[j].data < tensors[i].data) {
                    const xsmi_tensor kept = tensors[i];
                    tensors[i] = tensors[j];
                    tensors[j] = kept;
                }
            }
        }
        static const uint64_t values[] = {0, 1, UINT64_MAX, 0x7f8000007f800000u, 0x0000000100000001u};
        o.resume = broken;
        for (size_t n = 0; n < count * 20; n++) {
            const size_t which = n % count, each = xsmi_dtype_size(tensors[which].dtype);
            const size_t numbers = tensors[which].size / each;
            if (numbers == 0) {
                continue;
            }
            const size_t at = n / count % 4 * (numbers - 1) / 3;
            xsmi_container_writer *w;
            xsmi_tensor plain[64];
            for (size_t i = 0; i < count; i++) {
                plain[i] = tensors[i];
                plain[i].data = NULL;
            }
            const xsmi_container_plan plan = {plain, count, 0, entries, settings};
            assert_ok(xsmi_container_create(ctx, broken, &plan, &w, &err), err);
            for (size_t i = 0; i < count; i++) {
                unsigned char *copy = malloc(tensors[i].size + 1);
                memcpy(copy, tensors[i].data, tensors[i].size);
                if (i == which) {
                    memcpy(copy + at * each, &values[n / count / 4], each);
                }
                assert_ok(xsmi_container_write(w, copy, tensors[i].size, &err), err);
                free(copy);
            }
            assert_ok(xsmi_container_commit(w, &err), err);
            HELD(xsm_model, m) = NULL;
            const xsm_status status = xsm_fit_label_tree(NULL, p.data, &o, &m, NULL, &err);
            assert_true(status == XSM_OK || status == XSM_ERROR_FORMAT);
            accepted += status == XSM_OK;
            refused += status != XSM_OK;
        }
        xsmi_container_close(file);
    }
    assert_true(accepted > 20 && refused > 100);
}

static xsm_status fit_body(void *state, xsm_context *ctx, xsm_error *err)
{
    xsm_label_tree_options o = options_of(2);
    o.checkpoint = path_of(WHOLE);
    o.checkpoint_every = 0;
    o.trees = 1;
    o.resume = state ? path_of(HALF) : NULL;
    HELD_STRUCT(test_problem, p) = test_problem_new(60, 20, 30, true, 3);
    HELD(xsm_model, m) = NULL;
    return xsm_fit_label_tree(ctx, p.data, &o, &m, NULL, err);
}

TEST(test_without_memory)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(60, 20, 30, true, 3);
    xsm_label_tree_options o = options_of(2);
    o.trees = 1;
    make_half(p.data, &o, path_of(HALF));
    int resumed = 1;
    assert_true(test_every_allocation(fit_body, NULL) > 50);
    assert_true(test_every_allocation(fit_body, &resumed) > 50);
}

static xsm_dataset *read_text(const char *text)
{
    xsm_error err = XSM_ERROR_INIT;
    test_bytes bytes = {text, strlen(text), 0, SIZE_MAX, 0};
    NEW(xsm_dataset, d, xsm_dataset_read(NULL, NULL, TEST_BYTES(&bytes, "text"), NULL, &d, &err));
    return d;
}

/* Rows of other features are told by the first that differs, as wherever rows meet a model. */
TEST(test_other_features)
{
    static const struct {
        const char *own, *other, *says;
    } kinds[] = {
        {"__label__a x y\n__label__b y y\n", "__label__a x y\n__label__b x x\n",
         "feature 0 (from 0) is the word 'x' in the training rows, and the word 'y' in the checkpoint"},
        {"x,y,label\n1,0,a\n0,1,b\n", "y,x,label\n1,0,a\n0,1,b\n",
         "feature 0 (from 0) is the column 'y' in the training rows, and the column 'x' in the checkpoint"},
        {"0 1:1\n1 2:1\n", "0 0:1\n1 1:1\n", "are numbered from 0, and those of the checkpoint from 1"},
        {"0 7:1\n1 900000001:1\n", "0 8:1\n1 900000001:1\n", "is number 8 in the training rows"},
        {"0 1:1\n1 2:1\n", "x,y,label\n1,0,0\n0,1,1\n",
         "are columns of a table, and those of the checkpoint are numbers"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        xsm_label_tree_options o = XSM_LABEL_TREE_OPTIONS_INIT;
        HELD(xsm_dataset, own) = read_text(kinds[i].own);
        HELD(xsm_dataset, other) = read_text(kinds[i].other);
        xsm_model *m = NULL;
        o.checkpoint = path_of(HALF);
        assert_ok(xsm_fit_label_tree(NULL, own, &o, &m, NULL, &err), err);
        xsm_model_free(m);
        m = NULL;
        o.checkpoint = NULL;
        o.resume = path_of(HALF);
        assert_fails(xsm_fit_label_tree(NULL, other, &o, &m, NULL, &err), XSM_ERROR_DATA, err);
        if (!strstr(err.message, kinds[i].says)) {
            fail_msg("kind %zu: %s", i, err.message);
        }
        assert_ok(xsm_fit_label_tree(NULL, own, &o, &m, NULL, &err), err);
        xsm_model_free(m);
    }
}
