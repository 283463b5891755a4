/*
 * Tests of checkpoints: a run that is stopped anywhere, saved, and resumed by another process on another machine ends
 * with the bits of the uninterrupted run; any other file is refused, and changes nothing.
 */
#include "training.h"

#include <xsoftmax/dataset_weights.h>
#include <xsoftmax/ext/index.h>

#include "train/trainer.h"

#include <xsoftmax/ext/estimator.h>
#include <xsoftmax/trainer.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ROWS = 210, CLASSES = 60, EPOCHS = 3 };

typedef struct setting {
    const char *estimator, *options, *optimizer;
    uint64_t batch;
    bool sparse, bias;
    double eta;
    bool weighted; /* rows, and labels by their classes */
} setting;

/* A run and all that it stands on. */
typedef struct rig {
    const setting *s;
    xsm_context *ctx;
    xsm_model *m;
    xsm_estimator *e;
    xsm_optimizer *o;
    xsm_trainer *t;
    uint64_t calls, stop_at; /* calls of the callback; the one that stops, 0 = none */
    const char *save_in_callback;
} rig;

static int32_t callback(void *user, const xsm_progress *p)
{
    rig *r = user;
    (void)p;
    bool stop = ++r->calls == r->stop_at;
    if (stop && r->save_in_callback) {
        xsm_error err = XSM_ERROR_INIT;
        assert_ok(xsm_trainer_checkpoint(r->t, r->save_in_callback, NULL, &err), err);
    }
    return stop;
}

static xsm_trainer_options options_of(rig *r)
{
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    options.epochs = EPOCHS;
    options.batch = r->s->batch;
    options.eta = r->s->eta > 0 ? r->s->eta : 0.3;
    options.schedule = XSM_SCHEDULE_INVERSE;
    options.seed = 5;
    options.progress = callback;
    options.progress_user = r;
    return options;
}

static void begin(rig *r, const setting *s, const test_problem *p, uint32_t threads, uint32_t cpu_disable, double size)
{
    xsm_error err = XSM_ERROR_INIT;
    memset(r, 0, sizeof *r);
    r->s = s;
    r->ctx = test_context(threads, TEST_BUILT_IN, cpu_disable);
    r->m = test_model(r->ctx, p, s->bias, XSM_LAYOUT_CLASS_MAJOR, size, 8);
    r->e = test_estimator(r->ctx, s->estimator, s->options);
    assert_ok(xsm_optimizer_new(r->ctx, s->optimizer ? s->optimizer : "sgd", &r->o, &err), err);
    xsm_trainer_options options = options_of(r);
    assert_ok(xsm_trainer_new(r->ctx, r->m, p->data, r->e, r->o, &options, &r->t, &err), err);
    r->t->report.interval = 0; /* a call after every step */
}

static void end(rig *r)
{
    xsm_trainer_free(r->t);
    xsm_optimizer_free(r->o);
    xsm_estimator_free(r->e);
    xsm_model_free(r->m);
    xsm_context_free(r->ctx);
}

static bool same(const void *a, const void *b, size_t size)
{
    return (!a && !b) || (a && b && memcmp(a, b, size) == 0);
}

/* Every bit that a step reads. */
static const char *difference(const rig *a, const rig *b)
{
    const xsm_model *m = a->m, *n = b->m;
    size_t lines = m->w.layout == XSM_LAYOUT_CLASS_MAJOR ? m->classes : m->features;
    size_t used = m->w.layout == XSM_LAYOUT_CLASS_MAJOR ? m->features : m->classes;
    if (m->w.layout != n->w.layout || m->w.stride != n->w.stride) {
        return "layout";
    }
    for (size_t i = 0; i < lines; i++) {
        if (memcmp(m->w.weight + i * m->w.stride, n->w.weight + i * n->w.stride, used * sizeof(float)) != 0) {
            return "weights";
        }
    }
    if (!same(m->w.bias, n->w.bias, m->classes * sizeof(float)) || !same(&m->w.alpha, &n->w.alpha, sizeof m->w.alpha) ||
        !same(m->w.row_scale, n->w.row_scale, m->classes * sizeof(double)) ||
        !same(m->row_length, n->row_length, m->classes * sizeof *m->row_length)) {
        return "bias or scales";
    }
    if (a->e->position != b->e->position) {
        return "position";
    }
    xsm_state_tensor s, t;
    bool found = true;
    for (uint32_t i = 0; found; i++) {
        assert_int_equal(xsmi_estimator_state_tensor(a->e, i, &s, &found, NULL), XSM_OK);
        assert_int_equal(xsmi_estimator_state_tensor(b->e, i, &t, &found, NULL), XSM_OK);
        size_t each = s.type == XSM_STATE_F64 || s.type == XSM_STATE_U64 ? 8 : 4;
        if (found && memcmp(s.data, t.data, s.lines * s.width * each) != 0) {
            return s.name;
        }
    }
    xsm_progress p = {.size = sizeof p}, q = {.size = sizeof q};
    xsmi_accumulator_kind kind;
    for (uint32_t i = 0; xsmi_optimizer_tensor(a->o, i, &s, &kind); i++) {
        assert_true(xsmi_optimizer_tensor(b->o, i, &t, &kind));
        if (memcmp(s.data, t.data, s.lines * s.width * sizeof(float)) != 0) {
            return "optimizer";
        }
    }
    assert_int_equal(xsm_trainer_get_progress(a->t, &p, NULL), XSM_OK);
    assert_int_equal(xsm_trainer_get_progress(b->t, &q, NULL), XSM_OK);
    if (p.step != q.step || p.examples != q.examples || p.epoch != q.epoch || !same(&p.eta, &q.eta, sizeof p.eta) ||
        !same(&p.loss, &q.loss, sizeof p.loss)) {
        return "progress";
    }
    return NULL;
}

static void check_same(const rig *whole, const rig *resumed, uint64_t stop_at)
{
    const char *what = difference(whole, resumed);
    if (what) {
        fail_msg("%s %s, batch %llu, sparse %d, bias %d, stopped at call %llu: other %s", whole->s->estimator,
                 whole->s->options, (unsigned long long)whole->s->batch, whole->s->sparse, whole->s->bias,
                 (unsigned long long)stop_at, what);
    }
}

static void weigh(xsm_dataset *data)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset_weights rows = XSM_DATASET_WEIGHTS_INIT;
    xsm_class_weights classes = XSM_CLASS_WEIGHTS_INIT;
    float weights[ROWS];
    for (size_t i = 0; i < ROWS; i++) {
        weights[i] = (float)(i % 5) / 2;
    }
    rows.rows = weights;
    rows.row_count = ROWS;
    classes.method = XSM_CLASS_WEIGHTS_BALANCED;
    assert_ok(xsm_dataset_set_weights(data, &rows, &err), err);
    assert_ok(xsm_dataset_weigh_classes(data, &classes, &err), err);
}

/* Stops a run at each of some calls, and resumes it with a new everything. */
static void check(const setting *s)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, 9, CLASSES, s->sparse, 3);
    rig whole;
    if (s->weighted) {
        weigh(p.data);
    }
    begin(&whole, s, &p, 1, 0, 0);
    xsm_status status = xsm_trainer_run(whole.t, &err);
    assert_ok(status, err);
    const char *path = test_path("checkpoint");
    /* The start, inside the first and the last epoch, the end of an epoch. */
    const uint64_t calls = whole.calls, stops[] = {1, 2, calls / EPOCHS, calls / EPOCHS + 1, calls - 1, calls};
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
        rig first, second;
        begin(&first, s, &p, 1, 0, 0);
        first.stop_at = stops[i];
        first.save_in_callback = i % 2 ? path : NULL;
        assert_int_equal(xsm_trainer_run(first.t, &err), XSM_CANCELLED);
        if (!first.save_in_callback) {
            assert_ok(xsm_trainer_checkpoint(first.t, path, NULL, &err), err);
        }
        /* On another machine, from other weights. */
        begin(&second, s, &p, i % 3 + 1, i % 2 ? XSM_CPU_DISABLE_AVX512 : 0, 0.5);
        assert_ok(xsm_trainer_resume(second.t, path, NULL, &err), err);
        if (stops[i] < calls) {
            check_same(&first, &second, stops[i]);
        }
        assert_ok(xsm_trainer_run(second.t, &err), err);
        check_same(&whole, &second, stops[i]);
        end(&second);
        /* Having saved changes nothing for who goes on. */
        assert_ok(xsm_trainer_run(first.t, &err), err);
        check_same(&whole, &first, stops[i]);
        end(&first);
    }
    end(&whole);
}

static void check_estimator(const char *estimator, const char *options)
{
    const xsm_estimator_ops *ops = xsm_estimator_find(estimator);
    bool small = strcmp(estimator, "vanilla") == 0 || strcmp(estimator, "raman") == 0;
    for (int bits = 0; bits < 4; bits++) {
        setting s = {estimator,        options, NULL, bits & 1 ? 7 : 1, bits & 2, bits == 1 || bits == 2,
                     small ? 1e-4 : 0, false};
        if (s.batch <= ops->batch_limit || !ops->batch_limit) {
            check(&s);
        }
    }
}

TEST(every_estimator_resumes_to_the_same_bits)
{
    const xsm_estimator_ops *ops;
    for (size_t i = 0; (ops = xsm_estimator_at(i)) != NULL; i++) {
        check_estimator(ops->name, "");
        check_estimator(ops->name, "ridge=0.5");
    }
}

TEST(weights_are_resumed_to_the_same_bits)
{
    const xsm_estimator_ops *ops;
    for (size_t i = 0; (ops = xsm_estimator_at(i)) != NULL; i++) {
        const bool small = strcmp(ops->name, "vanilla") == 0 || strcmp(ops->name, "raman") == 0;
        const setting s = {ops->name, "", NULL, 1, i % 2 == 1, true, small ? 1e-4 : 0, true};
        check(&s);
    }
}

/* Rows with other weights are other rows. */
TEST(other_weights_are_refused)
{
    const setting s = {"umax", "", NULL, 1, false, true, 0, true};
    test_problem p = test_problem_new(ROWS, 9, CLASSES, false, 3), plain = test_problem_new(ROWS, 9, CLASSES, false, 3);
    rig first, second;
    weigh(p.data);
    begin(&first, &s, &p, 1, 0, 0);
    assert_ok(xsm_trainer_run(first.t, &err), err);
    assert_ok(xsm_trainer_checkpoint(first.t, test_path("weights"), NULL, &err), err);
    begin(&second, &s, &plain, 1, 0, 0);
    assert_fails(xsm_trainer_resume(second.t, test_path("weights"), NULL, &err), XSM_ERROR_DATA, err);
    end(&second);
    end(&first);
    test_problem_free(&p);
    test_problem_free(&plain);
    test_files_end();
}

/* Indexes come about step by step: what they are is part of the run, and so is when the search begins. */
TEST(searches_resume_to_the_same_bits)
{
    check_estimator("mips", "index.clusters=5 index.probe=9 candidates=8 startup=0");
    check_estimator("mips", "index=exact candidates=8 startup=7 ridge=300"); /* factors that are multiplied out */
    check_estimator("decomp-mips", "blocks=3 index.clusters=6 candidates=9 startup=10");
    check_estimator("decomp-mips", "blocks=2 index.clusters=4 candidates=6 startup=0 index.drift=0.02 ridge=1");
    check_estimator("decomp-mips", "blocks=2 candidates=6"); /* `auto` looks at the weights that it is bound to */
}

/* A host's table that cannot say what it is. */
TEST(indexes_that_cannot_be_saved_are_refused)
{
    xsm_index_ops ops = *xsm_index_find("exact");
    ops.saved = NULL;
    HELD(xsm_index, x) = NULL;
    assert_fails(xsm_index_new_from(NULL, &ops, &x, &err), XSM_ERROR_ARGUMENT, err);
    ops.save = NULL;
    ops.restore = NULL;
    assert_ok(xsm_index_new_from(NULL, &ops, &x, &err), err);
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, 9, CLASSES, false, 3);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 8);
    HELD(xsm_estimator, e) = test_estimator(NULL, "decomp-mips", "");
    assert_ok(xsm_estimator_set_index(e, x, &err), err);
    MADE(xsm_optimizer, o, xsm_optimizer_new(NULL, "sgd", &o, &err));
    MADE(xsm_trainer, t, xsm_trainer_new(NULL, m, p.data, e, o, NULL, &t, &err));
    assert_fails(xsm_trainer_checkpoint(t, test_path("checkpoint"), NULL, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_non_null(strstr(err.message, "'exact'"));
}

TEST(settings_resume_to_the_same_bits)
{
    check_estimator("umax", "weight-bound=0.5 ridge=1"); /* lengths of rows */
    check_estimator("umax", "start=log-classes u-bound=3");
    check_estimator("implicit", "negatives=2 ridge=400"); /* scales that are multiplied out on the way */
    check_estimator("ove", "negatives=all");
    check_estimator("ove", "tight-classes=3,17");
    check_estimator("negative-sampling", "sampler=tree");
    check_estimator("nce", "sampler=frequency sampler.power=0.5");
    check_estimator("importance", "sampler=tree sampler.seed=4");
    check_estimator("nce", "sampler=recent sampler.share=0.9");
    check_estimator("sampled-softmax", "sampler=recent sampler.labels=20 shared=yes");
    check_estimator("importance", "sampler=midx sampler.words=4 sampler.every=50");
}

/* What the optimizer keeps, for every registered one. */
TEST(every_optimizer_resumes_to_the_same_bits)
{
    static const char *const estimators[] = {"ove", "softmax", "negative-sampling"};
    const xsm_optimizer_ops *ops;
    for (size_t i = 0; (ops = xsm_optimizer_at(i)) != NULL; i++) {
        for (int bits = 0; bits < 12; bits++) {
            setting s = {estimators[bits / 4], "", ops->name, bits & 1 ? 7 : 1, bits & 2, true, 0, false};
            check(&s);
        }
    }
}

/* More epochs than the first run wanted: the run that wanted them all along. */
TEST(epochs_can_be_added)
{
    const setting s = {"umax", "", NULL, 1, false, true, 0, false};
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, 9, CLASSES, false, 3);
    rig first, second, whole;
    begin(&first, &s, &p, 1, 0, 0);
    assert_ok(xsm_trainer_run(first.t, &err), err);
    const char *path = test_path("checkpoint");
    assert_ok(xsm_trainer_checkpoint(first.t, path, NULL, &err), err);
    begin(&second, &s, &p, 1, 0, 0);
    begin(&whole, &s, &p, 1, 0, 0);
    second.t->options.epochs = whole.t->options.epochs = EPOCHS + 2;
    assert_ok(xsm_trainer_resume(second.t, path, NULL, &err), err);
    assert_ok(xsm_trainer_run(second.t, &err), err);
    assert_ok(xsm_trainer_run(whole.t, &err), err);
    check_same(&whole, &second, 0);
    /* and fewer than there are already */
    second.t->options.epochs = EPOCHS - 1;
    assert_fails(xsm_trainer_resume(second.t, path, NULL, &err), XSM_ERROR_RANGE, err);
    check_same(&whole, &second, 0);
    end(&first);
    end(&second);
    end(&whole);
}

/* -- as a model ---------------------------------------------------------------------------------------------------- */

static size_t read_file(const char *path, char *bytes, size_t room)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, room, file);
    assert_true(size < room);
    assert_int_equal(fclose(file), 0);
    return size;
}

TEST(a_checkpoint_is_a_model)
{
    static char ours[1 << 16], theirs[1 << 16];
    static const char *const kinds[] = {"implicit", "umax", "softmax", "negative-sampling"};
    static const char *const options[] = {"ridge=50", "ridge=2 weight-bound=0.5", "ridge=3", "sampler=tree ridge=1"};
    for (int i = 0; i < 4; i++) {
        const setting s = {kinds[i], options[i], NULL, 1, true, true, 0, false};
        HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, 9, CLASSES, true, 3);
        rig r;
        begin(&r, &s, &p, 1, 0, 0);
        assert_ok(xsm_model_set_metadata(r.m, "origin", "here", &err), err);
        assert_ok(xsm_trainer_run(r.t, &err), err);
        assert_true(r.m->w.alpha != 1 || r.m->w.row_scale);
        const char *path = test_path("checkpoint"), *model = test_path("model"), *again = test_path("again");
        assert_ok(xsm_trainer_checkpoint(r.t, path, NULL, &err), err);
        assert_ok(xsm_model_save(r.m, model, NULL, &err), err);
        NEW(xsm_model, loaded, xsm_model_load(NULL, path, NULL, NULL, &loaded, &err));
        assert_string_equal(xsm_model_get_metadata(loaded, "origin"), "here");
        assert_null(xsm_model_get_metadata(loaded, "checkpoint"));
        assert_null(xsm_model_get_metadata(loaded, "checkpoint.estimator"));
        assert_ok(xsm_model_save(loaded, again, NULL, &err), err);
        size_t size = read_file(model, ours, sizeof ours);
        assert_int_equal(read_file(again, theirs, sizeof theirs), size);
        assert_memory_equal(ours, theirs, size);
        xsm_model_free(loaded);
        assert_fails(xsm_model_set_metadata(r.m, "checkpoint.x", "y", &err), XSM_ERROR_ARGUMENT, err);
        end(&r);
    }
}

/* -- what is refused ----------------------------------------------------------------------------------------------- */

/* A checkpoint of a run in its second epoch. */
static const char *saved(const setting *s, const test_problem *p)
{
    xsm_error err = XSM_ERROR_INIT;
    const char *path = test_path("checkpoint");
    rig r;
    begin(&r, s, p, 1, 0, 0);
    r.stop_at = 7;
    assert_int_equal(xsm_trainer_run(r.t, &err), XSM_CANCELLED);
    assert_ok(xsm_trainer_checkpoint(r.t, path, NULL, &err), err);
    end(&r);
    return path;
}

/* Resuming is refused, with the words, and changes nothing: the run ends as if it had not been tried. */
static void refused(const setting *s, const test_problem *p, const char *path, xsm_status status, const char *words)
{
    xsm_error err = XSM_ERROR_INIT;
    rig r, untouched;
    begin(&r, s, p, 1, 0, 0);
    begin(&untouched, s, p, 1, 0, 0);
    assert_fails(xsm_trainer_resume(r.t, path, NULL, &err), status, err);
    if (!strstr(err.message, words)) {
        fail_msg("'%s' does not say '%s'", err.message, words);
    }
    check_same(&untouched, &r, 0);
    assert_ok(xsm_trainer_run(r.t, &err), err);
    assert_ok(xsm_trainer_run(untouched.t, &err), err);
    check_same(&untouched, &r, 0);
    end(&r);
    end(&untouched);
}

TEST(other_settings_are_refused)
{
    const setting s = {"umax", "negatives=4", NULL, 1, false, true, 0, false};
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, 9, CLASSES, false, 3);
    const char *path = saved(&s, &p);
    setting other = s;
    other.options = "negatives=3";
    refused(&other, &p, path, XSM_ERROR_ARGUMENT, "estimator.negatives = 4, this run has 3");
    other.options = "negatives=4 ridge=1";
    refused(&other, &p, path, XSM_ERROR_ARGUMENT, "estimator.ridge = 0, this run has 1");
    other = s;
    other.estimator = "vanilla";
    other.eta = 1e-4;
    refused(&other, &p, path, XSM_ERROR_ARGUMENT, "estimator = umax, this run has vanilla");
    other = s;
    other.batch = 2;
    refused(&other, &p, path, XSM_ERROR_ARGUMENT, "batch = 1, this run has 2");
    other = s;
    other.eta = 0.25;
    refused(&other, &p, path, XSM_ERROR_ARGUMENT, "eta = 0.3, this run has 0.25");
    other = s;
    other.bias = false;
    refused(&other, &p, path, XSM_ERROR_SHAPE, "bias");
}

TEST(other_rows_are_refused)
{
    for (int sparse = 0; sparse < 2; sparse++) {
        const setting s = {"umax", "", NULL, 1, sparse, false, 0, false};
        HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, 9, CLASSES, sparse, 3);
        const char *path = saved(&s, &p);
        test_problem other = test_problem_new(ROWS - 1, 9, CLASSES, sparse, 3);
        refused(&s, &other, path, XSM_ERROR_DATA, "rows = 210, this run has 209");
        test_problem_free(&other);
        other = test_problem_new(ROWS, 9, CLASSES, sparse, 4);
        refused(&s, &other, path, XSM_ERROR_DATA, "not those that the checkpoint was made with");
        test_problem_free(&other);
        /* one label of one row */
        p.labels[17] = (p.labels[17] + 1) % CLASSES;
        uint64_t offsets[ROWS + 1];
        for (uint64_t i = 0; i <= ROWS; i++) {
            offsets[i] = i;
        }
        xsm_dataset *before = p.data;
        p.data = test_relabel(&p, sparse, CLASSES, offsets, p.labels);
        refused(&s, &p, path, XSM_ERROR_DATA, "not those that the checkpoint was made with");
        xsm_dataset_free(p.data);
        p.data = before;
    }
}

/* A large file is shuffled in runs: the same rows in memory come in another order. */
TEST(another_order_is_refused)
{
    const size_t size = (size_t)600 << 20;
    const setting s = {"umax", "", NULL, 1, false, false, 0, false};
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, 9, CLASSES, false, 3);
    char path[200];
    snprintf(path, sizeof path, "%s", saved(&s, &p));
    void *file = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(file != MAP_FAILED);
    size_t capacity = p.data->capacity.values;
    p.data->capacity.values = 0; /* as of rows that lie in a file */
    p.data->mapped.files[0] = (xsmi_mapping){.data = file, .size = size};
    p.data->mapped.count = 1;
    refused(&s, &p, path, XSM_ERROR_DATA, "into memory and this one reads them from a large file");
    snprintf(path, sizeof path, "%s", saved(&s, &p));
    p.data->mapped.count = 0;
    p.data->capacity.values = capacity;
    refused(&s, &p, path, XSM_ERROR_DATA, "from a large file and this one reads them into memory");
    munmap(file, size);
}

/* The host's sampler, which its options do not describe. */
TEST(other_draws_are_refused)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, 9, CLASSES, false, 3);
    HELD_STRUCT(test_problem, q) = test_problem_new(ROWS, 9, CLASSES, false, 9);
    const char *path = test_path("checkpoint");
    for (int other = 0; other < 2; other++) {
        MADE(xsm_sampler, sampler, xsm_sampler_new(NULL, "frequency", &sampler, &err));
        assert_ok(xsm_sampler_bind(sampler, other ? q.data : p.data, &err), err);
        HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 8);
        HELD(xsm_estimator, e) = test_estimator(NULL, "nce", "");
        assert_ok(xsm_estimator_set_sampler(e, sampler, &err), err);
        MADE(xsm_optimizer, o, xsm_optimizer_new(NULL, "sgd", &o, &err));
        MADE(xsm_trainer, t, xsm_trainer_new(NULL, m, p.data, e, o, NULL, &t, &err));
        if (other) {
            assert_fails(xsm_trainer_resume(t, path, NULL, &err), XSM_ERROR_DATA, err);
            assert_non_null(strstr(err.message, "sampler"));
        } else {
            assert_ok(xsm_trainer_checkpoint(t, path, NULL, &err), err);
        }
    }
}

TEST(damaged_files_are_refused)
{
    static char bytes[1 << 16];
    const setting s = {"umax", "ridge=2 weight-bound=0.5", NULL, 1, false, true, 0, false};
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, 9, CLASSES, false, 3);
    size_t size = read_file(saved(&s, &p), bytes, sizeof bytes);
    rig r, untouched;
    begin(&r, &s, &p, 1, 0, 0);
    begin(&untouched, &s, &p, 1, 0, 0);
    for (size_t i = 0; i < 200; i++) { /* a bit somewhere, or the end somewhere */
        size_t place = size * i / 200;
        bytes[place] = (char)(bytes[place] ^ 16);
        xsm_status flipped = xsm_trainer_resume(r.t, test_file("flipped", bytes, size), NULL, &err);
        bytes[place] = (char)(bytes[place] ^ 16);
        xsm_status cut = xsm_trainer_resume(r.t, test_file("cut", bytes, place), NULL, &err);
        if (flipped == XSM_OK || cut == XSM_OK) {
            fail_msg("a file damaged at byte %zu of %zu was resumed from", place, size);
        }
    }
    check_same(&untouched, &r, 0);
    assert_ok(xsm_trainer_resume(r.t, test_file("whole", bytes, size), NULL, &err), err);
    assert_fails(xsm_trainer_resume(r.t, test_path("not-there"), NULL, &err), XSM_ERROR_IO, err);
    assert_ok(xsm_model_save(r.m, test_path("model"), NULL, &err), err);
    assert_fails(xsm_trainer_resume(r.t, test_path("model"), NULL, &err), XSM_ERROR_FORMAT, err);
    assert_non_null(strstr(err.message, "not a checkpoint"));
    assert_fails(xsm_trainer_checkpoint(r.t, "/dev/full", NULL, &err), XSM_ERROR_IO, err);
    assert_fails(xsm_trainer_checkpoint(NULL, "x", NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_trainer_checkpoint(r.t, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_trainer_resume(NULL, "x", NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_trainer_resume(r.t, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
    end(&r);
    end(&untouched);
}

/* -- the host's estimator ------------------------------------------------------------------------------------------ */

static int32_t bad_tensor(void *state, uint32_t index, xsm_state_tensor *tensor)
{
    static double numbers[2] = {1, 2};
    (void)state;
    tensor->name = index == 0 ? "good" : "Bad name";
    tensor->type = XSM_STATE_F64;
    tensor->lines = 1;
    tensor->width = 2;
    tensor->data = numbers;
    return index < 2;
}

TEST(a_host_estimator_says_what_it_keeps)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, 9, CLASSES, false, 3);
    for (int i = 0; i < 3; i++) {
        xsm_estimator_ops ops = *xsm_estimator_find("umax");
        ops.state_tensor = i == 0 ? NULL : i == 1 ? bad_tensor : ops.state_tensor;
        HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 8);
        MADE(xsm_estimator, e, xsm_estimator_new_from(NULL, &ops, &e, &err));
        MADE(xsm_optimizer, o, xsm_optimizer_new(NULL, "sgd", &o, &err));
        MADE(xsm_trainer, t, xsm_trainer_new(NULL, m, p.data, e, o, NULL, &t, &err));
        const char *path = test_path("host");
        if (i < 2) {
            xsm_status wanted = i ? XSM_ERROR_ARGUMENT : XSM_ERROR_UNSUPPORTED;
            assert_fails(xsm_trainer_checkpoint(t, path, NULL, &err), wanted, err);
            assert_non_null(strstr(err.message, "umax"));
        } else {
            assert_ok(xsm_trainer_checkpoint(t, path, NULL, &err), err);
            xsm_state_tensor u;
            bool found;
            assert_ok(xsmi_estimator_state_tensor(e, 0, &u, &found, &err), err);
            ((double *)u.data)[3] = (double)INFINITY;
            assert_fails(xsm_trainer_checkpoint(t, path, NULL, &err), XSM_ERROR_DIVERGED, err);
            assert_ok(xsm_trainer_resume(t, path, NULL, &err), err); /* the file of before */
            assert_true(((double *)u.data)[3] == 0);
        }
    }
}

/* -- memory -------------------------------------------------------------------------------------------------------- */

typedef struct memory_case {
    const test_problem *p;
    const char *from, *copy;
} memory_case;

static xsm_status save_and_resume(void *state, xsm_context *ctx, xsm_error *err)
{
    memory_case *c = state;
    HELD(xsm_model, m) = NULL;
    HELD(xsm_estimator, e) = NULL;
    HELD(xsm_optimizer, o) = NULL;
    HELD(xsm_trainer, t) = NULL;
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    options.epochs = EPOCHS;
    options.eta = 0.3;
    options.schedule = XSM_SCHEDULE_INVERSE;
    options.seed = 5;
    xsm_status status = xsm_model_new_linear(ctx, c->p->features, c->p->classes, NULL, &m, err);
    status = status ? status : xsm_estimator_new(ctx, "umax", &e, err);
    status = status ? status : xsm_estimator_set(e, "ridge", "2", err);
    status = status ? status : xsm_estimator_set(e, "weight-bound", "0.5", err);
    status = status ? status : xsm_optimizer_new(ctx, "sgd", &o, err);
    status = status ? status : xsm_trainer_new(ctx, m, c->p->data, e, o, &options, &t, err);
    status = status ? status : xsm_trainer_resume(t, c->from, NULL, err);
    status = status ? status : xsm_trainer_checkpoint(t, c->copy, NULL, err);
    return status;
}

TEST(nothing_is_leaked)
{
    static char ours[1 << 16], theirs[1 << 16];
    const setting s = {"umax", "ridge=2 weight-bound=0.5", NULL, 1, false, false, 0, false};
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, 9, CLASSES, false, 3);
    char from[200], copy[200]; /* test_path() keeps its last few only */
    snprintf(from, sizeof from, "%s", saved(&s, &p));
    snprintf(copy, sizeof copy, "%s", test_path("copy"));
    memory_case c = {&p, from, copy};
    assert_true(test_every_allocation(save_and_resume, &c) > 40);
    /* and what was saved last is what was resumed from */
    size_t size = read_file(from, ours, sizeof ours);
    assert_int_equal(read_file(copy, theirs, sizeof theirs), size);
    assert_memory_equal(ours, theirs, size);
}
