/*
 * Tests of rows that come as a stream: the bits of training on a dataset of the same rows in the same order, state by
 * the host's ids, rows without an id, and models that grow meanwhile.
 */
#include "training.h"

#include "estimator/estimator.h"

#include <xsoftmax/ext/estimator.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 90, FEATURES = 7, CLASSES = 31 };

/* One row or some of a dataset, as a batch that brings them itself. */
typedef struct carried {
    uint64_t offsets[ROWS + 1], ids[ROWS];
    uint32_t index[ROWS * FEATURES], labels[ROWS];
    float values[ROWS * FEATURES];
    xsm_batch batch;
} carried;

static void carry(carried *c, const test_problem *p, uint64_t first, uint64_t count, bool ids)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    assert_ok(xsm_dataset_get_info(p->data, &info, &err), err);
    c->offsets[0] = 0;
    for (uint64_t i = 0; i < count; i++) {
        xsm_row row = XSM_ROW_INIT;
        assert_ok(xsm_dataset_get_row(p->data, first + i, &row, &err), err);
        memcpy(c->values + c->offsets[i], row.values, row.count * sizeof *c->values);
        if (info.sparse) {
            memcpy(c->index + c->offsets[i], row.index, row.count * sizeof *c->index);
        }
        c->offsets[i + 1] = c->offsets[i] + row.count;
        c->labels[i] = row.labels[0];
        c->ids[i] = first + i;
    }
    c->batch = info.sparse ? xsm_batch_sparse_values(c->offsets, c->index, c->values, count, FEATURES)
                           : xsm_batch_values(c->values, count, FEATURES, FEATURES);
    c->batch.labels = c->labels;
    c->batch.ids = ids ? c->ids : NULL;
}

typedef struct rig {
    xsm_context *ctx;
    xsm_model *m;
    xsm_estimator *e;
    xsm_optimizer *o;
    xsm_gradient *g;
    double eta;
} rig;

static void begin(rig *r, const test_problem *p, const char *estimator, const char *options, uint32_t threads)
{
    r->ctx = test_context(threads, TEST_BUILT_IN, 0);
    r->m = test_model(r->ctx, p, true, XSM_LAYOUT_CLASS_MAJOR, 0.2, 5);
    r->e = test_estimator(r->ctx, estimator, options);
    r->o = test_optimizer(r->ctx, r->m);
    r->g = test_gradient(r->ctx);
    r->eta = 0.01;
}

static void end(rig *r)
{
    xsm_gradient_free(r->g);
    xsm_optimizer_free(r->o);
    xsm_estimator_free(r->e);
    xsm_model_free(r->m);
    xsm_context_free(r->ctx);
}

static void step(rig *r, const xsm_batch *batch)
{
    test_take_step(r->e, r->o, r->g, batch, r->eta);
}

static xsm_stream_options options_for(const test_problem *p)
{
    xsm_stream_options o = XSM_STREAM_OPTIONS_INIT;
    o.examples = o.ids = ROWS;
    o.class_counts = test_class_counts(p->data);
    return o;
}

/* Replaces the rig's model by one with a layer of vectors. */
static void take_embedding(rig *r)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_embedding_options o = XSM_EMBEDDING_OPTIONS_INIT;
    o.bias = 1;
    xsm_optimizer_free(r->o);
    xsm_model_free(r->m);
    assert_ok(xsm_model_new_embedding(r->ctx, FEATURES, 3, CLASSES, &o, &r->m, &err), err);
    r->o = test_optimizer(r->ctx, r->m);
    r->eta = 1e-3; /* vectors and classes raise each other's steps */
}

/* Two passes over the rows with their ids. */
static void check_bits(const char *estimator, const char *options, uint64_t batch, bool sparse, bool embedding)
{
    static carried c;
    xsm_error err = XSM_ERROR_INIT;
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, sparse, 3);
    xsm_stream_options o = options_for(&p);
    rig whole, stream;
    begin(&whole, &p, estimator, options, 1);
    begin(&stream, &p, estimator, options, 3);
    if (embedding) {
        take_embedding(&whole);
        take_embedding(&stream);
    }
    assert_ok(xsm_estimator_bind(whole.e, whole.m, p.data, &err), err);
    assert_ok(xsm_estimator_bind_stream(stream.e, stream.m, &o, &err), err);
    for (int pass = 0; pass < 2; pass++) {
        for (uint64_t i = 0; i < ROWS; i += batch) {
            uint64_t count = ROWS - i < batch ? ROWS - i : batch;
            xsm_batch rows = xsm_batch_range(p.data, i, count);
            carry(&c, &p, i, count, true);
            step(&whole, &rows);
            step(&stream, &c.batch);
        }
    }
    if ((embedding ? test_hash_embedding : test_hash)(whole.m) !=
        (embedding ? test_hash_embedding : test_hash)(stream.m)) {
        fail_msg("%s %s, batches of %llu, sparse %d, embedding %d: other bits than on a dataset", estimator, options,
                 (unsigned long long)batch, sparse, embedding);
    }
    end(&whole);
    end(&stream);
}

TEST(the_same_bits_as_a_dataset)
{
    const xsm_estimator_ops *ops;
    for (size_t i = 0; (ops = xsm_estimator_at(i)) != NULL; i++) {
        for (int bits = 0; bits < 8; bits++) {
            bool several = bits & 1, sparse = bits & 2, embedding = bits & 4;
            if (!several || (ops->batch_limit != 1 && !ops->joint)) {
                check_bits(ops->name, "", several ? 70 : 1, sparse, embedding);
                check_bits(ops->name, "ridge=0.5", several ? 70 : 1, sparse, embedding);
            }
        }
        if (ops->kind == XSM_ESTIMATOR_SAMPLED) {
            check_bits(ops->name, "sampler=frequency", 1, true, false);
            if (!(ops->flags & XSM_ESTIMATOR_CORRECTED)) {
                check_bits(ops->name, "sampler=recent", 7, true, true);
                check_bits(ops->name, "sampler=midx sampler.words=3", 7, true, true);
            }
        }
    }
}

/* -- ids ----------------------------------------------------------------------------------------------------------- */

static const double *u_of(const rig *r)
{
    xsm_state_tensor t;
    bool found;
    xsm_error err = XSM_ERROR_INIT;
    assert_ok(xsmi_estimator_state_tensor(r->e, 0, &t, &found, &err), err);
    assert_true(found && t.by_row);
    return t.data;
}

/* A row without an id is a row never seen: with all classes looked at, its gradient is that of a new estimator. */
TEST(rows_without_an_id_are_new)
{
    static carried c;
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, true, 3);
    xsm_stream_options o = options_for(&p);
    rig fresh, stream;
    char options[64];
    snprintf(options, sizeof options, "negatives=%d start=log-classes", CLASSES - 1);
    begin(&fresh, &p, "umax", options, 1);
    begin(&stream, &p, "umax", options, 1);
    assert_ok(xsm_estimator_bind_stream(stream.e, stream.m, &o, &err), err);
    for (uint64_t i = 0; i < 20; i++) {
        xsm_batch rows = xsm_batch_range(p.data, i % 4, 3);
        carry(&c, &p, i % 4, 3, false);
        assert_ok(xsm_estimator_bind(fresh.e, fresh.m, p.data, &err), err);
        step(&fresh, &rows);
        step(&stream, &c.batch);
        assert_true(test_hash(fresh.m) == test_hash(stream.m));
    }
    for (int k = 0; k < ROWS; k++) { /* no id was touched */
        assert_true(u_of(&stream)[k] == log(CLASSES));
    }
    /* some with, some without */
    carry(&c, &p, 0, 3, true);
    c.ids[0] = 11;
    c.ids[1] = XSM_NO_ID;
    c.ids[2] = 12;
    step(&stream, &c.batch);
    for (int k = 0; k < ROWS; k++) {
        assert_true((u_of(&stream)[k] != log(CLASSES)) == (k == 11 || k == 12));
    }
    end(&fresh);
    end(&stream);
}

/* An id that is in a batch several times is handled in order, on any number of threads. */
TEST(ids_may_repeat)
{
    static carried c;
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 3);
    xsm_stream_options o = options_for(&p);
    o.ids = 5;
    uint64_t first = 0;
    for (uint32_t threads = 1; threads < 4; threads++) {
        rig r;
        begin(&r, &p, "umax", "", threads);
        assert_ok(xsm_estimator_bind_stream(r.e, r.m, &o, &err), err);
        for (int pass = 0; pass < 4; pass++) {
            carry(&c, &p, 0, ROWS, true);
            for (int i = 0; i < ROWS; i++) {
                c.ids[i] = (uint64_t)i % 7 < 5 ? (uint64_t)i % 7 : XSM_NO_ID;
            }
            step(&r, &c.batch);
        }
        uint64_t hash = test_hash(r.m);
        first = threads == 1 ? hash : first;
        assert_true(hash == first);
        end(&r);
    }
}

/* A class that was not there: the model grows, the estimator is bound again, and what belongs to ids is still there. */
TEST(models_grow_meanwhile)
{
    static carried c;
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, true, 3);
    xsm_stream_options o = options_for(&p);
    o.class_counts = NULL;
    rig r;
    begin(&r, &p, "umax", "", 1);
    assert_ok(xsm_estimator_bind_stream(r.e, r.m, &o, &err), err);
    for (uint64_t i = 0; i < ROWS; i++) {
        carry(&c, &p, i, 1, true);
        step(&r, &c.batch);
    }
    double before[ROWS];
    memcpy(before, u_of(&r), sizeof before);
    uint64_t position = r.e->position;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    map.classes = CLASSES + 4;
    carry(&c, &p, 0, 1, true);
    c.labels[0] = CLASSES + 2;
    assert_fails(xsm_estimator_gradient(r.e, &c.batch, 0.1, r.g, &err), XSM_ERROR_RANGE, err);
    assert_non_null(strstr(err.message, "xsm_model_grow"));
    assert_ok(xsm_model_grow(r.m, FEATURES, &map, &err), err);
    assert_fails(xsm_estimator_gradient(r.e, &c.batch, 0.1, r.g, &err), XSM_ERROR_STATE, err);
    o.ids = ROWS + 10;
    assert_ok(xsm_estimator_bind_stream(r.e, r.m, &o, &err), err);
    assert_ok(xsm_optimizer_bind(r.o, r.m, &err), err);
    assert_memory_equal(u_of(&r), before, sizeof before);
    assert_true(u_of(&r)[ROWS] == 0 && r.e->position == position);
    step(&r, &c.batch);
    /* bound to a dataset in between, it starts anew */
    xsm_model *small = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    assert_ok(xsm_estimator_bind(r.e, small, p.data, &err), err);
    assert_ok(xsm_estimator_bind_stream(r.e, small, &o, &err), err);
    assert_true(u_of(&r)[3] == 0 && r.e->position == 0);
    xsm_estimator_free(r.e);
    r.e = NULL;
    xsm_model_free(small);
    end(&r);
}

/* Several labels a row. */
TEST(rows_with_several_labels)
{
    static const uint32_t labels[] = {3, 1, 7, 2};
    static const uint64_t label_offsets[] = {0, 3, 4};
    HELD_STRUCT(test_problem, p) = test_problem_new(2, FEATURES, CLASSES, false, 3);
    HELD(xsm_dataset, several) = test_relabel(&p, false, CLASSES, label_offsets, labels);
    static const char *const kinds[] = {"softmax", "one-vs-all", "one-vs-all-sampled", "sampled-softmax"};
    for (int kind = 0; kind < 4; kind++) {
        rig whole, stream;
        xsm_stream_options o = XSM_STREAM_OPTIONS_INIT;
        o.labels = 3;
        begin(&whole, &p, kinds[kind], "", 1);
        begin(&stream, &p, kinds[kind], "", 1);
        assert_ok(xsm_estimator_bind(whole.e, whole.m, several, &err), err);
        assert_ok(xsm_estimator_bind_stream(stream.e, stream.m, &o, &err), err);
        xsm_batch rows = xsm_batch_range(several, 0, 2);
        xsm_batch batch = xsm_batch_values(p.x, 2, FEATURES, FEATURES);
        batch.labels = labels;
        batch.label_offsets = label_offsets;
        step(&whole, &rows);
        step(&stream, &batch);
        assert_true(test_hash(whole.m) == test_hash(stream.m));
        end(&whole);
        end(&stream);
    }
}

/* -- refused ------------------------------------------------------------------------------------------------------- */

TEST(what_cannot_be_is_refused)
{
    static carried c;
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, true, 3);
    xsm_stream_options o = options_for(&p);
    o.batch = 4;
    rig r;
    begin(&r, &p, "umax", "", 1);
    assert_ok(xsm_estimator_bind_stream(r.e, r.m, &o, &err), err);
    uint64_t hash = test_hash(r.m);
#define REFUSED(status, words, change)                                                                                 \
    do {                                                                                                               \
        carry(&c, &p, 0, 3, true);                                                                                     \
        change;                                                                                                        \
        assert_fails(xsm_estimator_gradient(r.e, &c.batch, 0.1, r.g, &err), status, err);                              \
        if (!strstr(err.message, words)) {                                                                             \
            fail_msg("'%s' does not say '%s'", err.message, words);                                                    \
        }                                                                                                              \
    } while (0)
    uint64_t two[] = {0, 1, 3, 4};
    REFUSED(XSM_ERROR_ARGUMENT, "brings its labels", c.batch.labels = NULL);
    REFUSED(XSM_ERROR_ARGUMENT, "not a dataset", c.batch.dataset = p.data);
    REFUSED(XSM_ERROR_RANGE, "label 31", c.labels[1] = CLASSES);
    REFUSED(XSM_ERROR_RANGE, "row 1 of the batch has 2 labels", c.batch.label_offsets = two);
    REFUSED(XSM_ERROR_RANGE, "id 90", c.ids[2] = ROWS);
    REFUSED(XSM_ERROR_RANGE, "row 0 (from 0) is 7", c.index[c.offsets[1] - 1] = FEATURES);
    REFUSED(XSM_ERROR_RANGE, "not finite", c.values[0] = (float)NAN);
    REFUSED(XSM_ERROR_RANGE, "ends before it begins", c.offsets[3] = 0);
    REFUSED(XSM_ERROR_SHAPE, "features", c.batch.features = FEATURES - 1);
    REFUSED(XSM_ERROR_ARGUMENT, "index is NULL", c.batch.index = NULL);
    REFUSED(XSM_ERROR_RANGE, "has no id", carry(&c, &p, 0, 5, false));
#undef REFUSED
    assert_true(test_hash(r.m) == hash);
    /* options */
    xsm_stream_options bad = o;
    bad.labels = 2;
    assert_fails(xsm_estimator_bind_stream(r.e, r.m, &bad, &err), XSM_ERROR_DATA, err);
    bad = o;
    bad.reserved = 1;
    assert_fails(xsm_estimator_bind_stream(r.e, r.m, &bad, &err), XSM_ERROR_STRUCT_NEW, err);
    bad = o;
    bad.ids = UINT64_MAX;
    assert_fails(xsm_estimator_bind_stream(r.e, r.m, &bad, &err), XSM_ERROR_RANGE, err);
    assert_fails(xsm_estimator_bind_stream(r.e, NULL, &o, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_estimator_bind_stream(NULL, r.m, &o, &err), XSM_ERROR_ARGUMENT, err);
    carry(&c, &p, 0, 3, true); /* still bound as before */
    step(&r, &c.batch);
    end(&r);
    begin(&r, &p, "umax", "ridge=1", 1);
    assert_fails(xsm_estimator_bind_stream(r.e, r.m, NULL, &err), XSM_ERROR_RANGE, err);
    assert_non_null(strstr(err.message, "examples"));
    end(&r);
    begin(&r, &p, "nce", "sampler=tree", 1); /* has no rows to be made from */
    assert_fails(xsm_estimator_bind_stream(r.e, r.m, &o, &err), XSM_ERROR_UNSUPPORTED, err);
    end(&r);
    xsm_sampler *tree = NULL; /* made from rows, and handed in */
    assert_ok(xsm_sampler_new(NULL, "tree", &tree, &err), err);
    assert_ok(xsm_sampler_bind(tree, p.data, &err), err);
    begin(&r, &p, "nce", "", 1);
    assert_ok(xsm_estimator_set_sampler(r.e, tree, &err), err);
    assert_ok(xsm_estimator_bind_stream(r.e, r.m, &o, &err), err);
    carry(&c, &p, 0, 3, false);
    step(&r, &c.batch);
    end(&r);
    xsm_sampler_free(tree);
    xsm_estimator_ops ops = *xsm_estimator_find("umax");
    ops.state_tensor = NULL;
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    MADE(xsm_estimator, host, xsm_estimator_new_from(NULL, &ops, &host, &err));
    assert_fails(xsm_estimator_bind_stream(host, m, &o, &err), XSM_ERROR_UNSUPPORTED, err);
}

static xsm_status bind_twice(void *state, xsm_context *ctx, xsm_error *err)
{
    const test_problem *p = state;
    HELD(xsm_model, m) = NULL;
    HELD(xsm_estimator, e) = NULL;
    xsm_stream_options o = XSM_STREAM_OPTIONS_INIT;
    o.ids = 10;
    xsm_status status = xsm_model_new_linear(ctx, p->features, p->classes, NULL, &m, err);
    status = status ? status : xsm_estimator_new(ctx, "umax", &e, err);
    status = status ? status : xsm_estimator_bind_stream(e, m, &o, err);
    status = status ? status : xsm_estimator_bind_stream(e, m, &o, err);
    return status;
}

TEST(nothing_is_leaked)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, true, 3);
    assert_true(test_every_allocation(bind_twice, &p) > 10);
}
