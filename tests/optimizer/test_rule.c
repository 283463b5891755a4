/*
 * Rules of a host: Adagrad written as a host would, with and without scaled(), has the bits of the built-in one on
 * every form of model, batch and gradient, in a trainer's windows, and in files; steps are counted.
 */
#include "training.h"

#include "optimizer/optimizer.h"

#include <xsoftmax/ext/optimizer.h>
#include <xsoftmax/trainer.h>

#include <math.h>
#include <string.h>

enum { ROWS = 300, FEATURES = 150, CLASSES = 170, HIDDEN = 24 };

static void change(float *weight, float *squares, float t, float eta)
{
    *squares = fmaf(t, t, *squares);
    *weight -= eta * t / sqrtf(*squares);
}

static void rule(const void *state, float *weights, float *const *accumulators, const float *sum, size_t n,
                 const xsm_step *step)
{
    (void)state;
    for (size_t i = 0; i < n; i++) {
        change(&weights[i], &accumulators[0][i], (float)step->examples * sum[i], (float)step->eta);
    }
}

static void scaled(const void *state, float *weights, float *const *accumulators, const xsm_scaled_gradient *g,
                   const xsm_step *step)
{
    (void)state;
    for (size_t i = 0; i < g->count; i++) {
        const size_t at = g->index ? g->index[i] : i;
        change(&weights[at], &accumulators[0][at], (float)step->examples * (g->factor * g->values[i]),
               (float)step->eta);
    }
}

typedef struct host_state {
    double initial;
} host_state;

static float initial(const void *state, uint32_t accumulator)
{
    assert_int_equal(accumulator, 0);
    return (float)((const host_state *)state)->initial;
}

static const xsm_option options[] = {
    {sizeof(xsm_option), "initial", XSM_OPTION_DOUBLE, offsetof(host_state, initial), "0.01", 1e-30, 1e30, NULL,
     "initial value"},
};
static const char *const names[] = {"squares"};

/* With the name of the built-in one, so that either can read the other's checkpoint. */
static xsm_optimizer_ops host_table(bool with_scaled)
{
    return (xsm_optimizer_ops){
        .size = sizeof(xsm_optimizer_ops),
        .abi = XSM_EXT_ABI_VERSION,
        .name = "adagrad",
        .summary = "as a host writes it",
        .state_size = sizeof(host_state),
        .options = options,
        .option_count = 1,
        .accumulator_names = names,
        .accumulators = 1,
        .initial = initial,
        .rule = rule,
        .scaled = with_scaled ? scaled : NULL,
    };
}

enum { BUILT_IN, RULE, SCALED, KINDS };

static xsm_optimizer *make_optimizer(xsm_context *ctx, int kind)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_optimizer *o = NULL;
    static xsm_optimizer_ops tables[KINDS];
    tables[kind] = host_table(kind == SCALED);
    assert_ok(kind == BUILT_IN ? xsm_optimizer_new(ctx, "adagrad", &o, &err)
                               : xsm_optimizer_new_from(ctx, &tables[kind], &o, &err),
              err);
    return o;
}

enum { CLASS_MAJOR, FEATURE_MAJOR, EMBEDDING, TIED, MODELS };

static xsm_model *make_model(xsm_context *ctx, const test_problem *p, int form)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_embedding_options e = XSM_EMBEDDING_OPTIONS_INIT;
    if (form < EMBEDDING) {
        return test_model(ctx, p, true, form == FEATURE_MAJOR ? XSM_LAYOUT_FEATURE_MAJOR : XSM_LAYOUT_CLASS_MAJOR, 0.5,
                          3);
    }
    e.bias = 1;
    e.tied = form == TIED;
    NEW(xsm_model, m, xsm_model_new_embedding(ctx, FEATURES, HIDDEN, form == TIED ? FEATURES : CLASSES, &e, &m, &err));
    return m;
}

static uint64_t hash(xsm_model *m)
{
    return m->layer ? test_hash_embedding(m) : test_hash(m);
}

typedef struct setting {
    const char *estimator, *options;
    bool sparse;
    int form;
    uint64_t batch;
} setting;

static uint64_t run(const setting *s, const test_problem *p, int kind, uint32_t threads)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD(xsm_context, ctx) = test_context(threads, TEST_BUILT_IN, 0);
    HELD(xsm_model, m) = make_model(ctx, p, s->form);
    HELD(xsm_estimator, e) = test_estimator(ctx, s->estimator, s->options);
    HELD(xsm_optimizer, o) = make_optimizer(ctx, kind);
    HELD(xsm_gradient, g) = test_gradient(ctx);
    assert_ok(xsm_estimator_bind(e, m, p->data, &err), err);
    assert_ok(xsm_optimizer_bind(o, m, &err), err);
    for (uint64_t step = 0; step < 4; step++) {
        xsm_batch batch = xsm_batch_range(p->data, step * s->batch, s->batch);
        test_take_step(e, o, g, &batch, 0.1);
    }
    assert_int_equal(o->steps, 4);
    const uint64_t bits = hash(m);
    return bits;
}

TEST(a_host_s_rule_has_the_bits_of_the_built_in_one)
{
    static const char *const estimators[][2] = {
        {"softmax", ""}, {"margin", ""}, {"ove", "negatives=5"}, {"sampled-softmax", "shared=yes negatives=20"}};
    static const uint64_t batches[] = {1, 7, 70};
    for (int form = 0; form < MODELS; form++) {
        for (int sparse = form >= EMBEDDING; sparse < 2; sparse++) {
            HELD_STRUCT(test_problem, p) =
                test_problem_new(ROWS, FEATURES, form == TIED ? FEATURES : CLASSES, sparse, 2);
            for (size_t i = 0; i < 12; i++) {
                const char *const *e = estimators[i / 3];
                const setting s = {e[0], e[1], sparse, form, batches[i % 3]};
                const uint64_t want = run(&s, &p, BUILT_IN, 1);
                for (int way = 0; way < 4; way++) {
                    if (run(&s, &p, way & 1 ? RULE : SCALED, way & 2 ? 3 : 1) != want) {
                        fail_msg("%s %s, sparse %d, model %d, batches of %d: other bits %s, on %d threads", e[0], e[1],
                                 sparse, form, (int)s.batch, way & 1 ? "by rule()" : "by scaled()", way & 2 ? 3 : 1);
                    }
                }
            }
        }
    }
}

/* -- training ------------------------------------------------------------------------------------------------------ */

typedef struct training {
    xsm_context *ctx;
    xsm_model *m;
    xsm_estimator *e;
    xsm_optimizer *o;
    xsm_trainer *t;
} training;

static training training_new(const test_problem *p, int kind, uint32_t threads, uint64_t batch)
{
    xsm_error err = XSM_ERROR_INIT;
    training r = {.ctx = test_context(threads, TEST_BUILT_IN, 0)};
    xsm_trainer_options o = XSM_TRAINER_OPTIONS_INIT;
    o.epochs = 2;
    o.batch = batch;
    o.eta = 0.1;
    r.m = test_model(r.ctx, p, true, XSM_LAYOUT_CLASS_MAJOR, 0.5, 3);
    r.e = test_estimator(r.ctx, "ove", "negatives=2");
    r.o = make_optimizer(r.ctx, kind);
    assert_ok(xsm_trainer_new(r.ctx, r.m, p->data, r.e, r.o, &o, &r.t, &err), err);
    return r;
}

static void training_free(training *r)
{
    xsm_trainer_free(r->t);
    xsm_optimizer_free(r->o);
    xsm_estimator_free(r->e);
    xsm_model_free(r->m);
    xsm_context_free(r->ctx);
}

TEST(trained_runs_have_the_same_bits)
{
    for (int sparse = 0; sparse < 2; sparse++) {
        HELD_STRUCT(test_problem, p) = test_problem_new(600, 40, 3000, sparse, 2);
        for (uint64_t batch = 1; batch < 10; batch += 8) {
            uint64_t want = 0;
            for (int way = 0; way < 2 * KINDS; way++) {
                training r = training_new(&p, way / 2, way & 1 ? 3 : 1, batch);
                assert_ok(xsm_trainer_run(r.t, &err), err);
                assert_int_equal(r.o->steps, 2 * ((600 + batch - 1) / batch));
                want = way ? want : test_hash(r.m);
                if (test_hash(r.m) != want) {
                    fail_msg("sparse %d, batches of %d: way %d has other bits", sparse, (int)batch, way);
                }
                training_free(&r);
            }
        }
    }
}

TEST(a_checkpoint_of_one_is_one_of_the_other)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(60, 40, 30, false, 2);
    const char *path = test_path("rule");
    for (int kind = 0; kind < 2; kind++) {
        training saved = training_new(&p, kind, 1, 1), resumed = training_new(&p, !kind, 1, 1);
        assert_ok(xsm_trainer_run(saved.t, &err), err);
        assert_ok(xsm_trainer_checkpoint(saved.t, path, NULL, &err), err);
        assert_ok(xsm_trainer_resume(resumed.t, path, NULL, &err), err);
        assert_int_equal(resumed.o->steps, 120);
        assert_true(test_hash(saved.m) == test_hash(resumed.m));
        xsm_state_tensor a, b;
        xsmi_accumulator_kind what = {.least = -1};
        assert_true(xsmi_optimizer_tensor(saved.o, 0, &a, &what));
        assert_true(xsmi_optimizer_tensor(resumed.o, 0, &b, &what));
        assert_true(what.least >= 0);
        assert_true(what.classes);
        assert_string_equal(a.name, "squares");
        assert_int_equal(memcmp(a.data, b.data, (size_t)(a.lines * a.width) * sizeof(float)), 0);
        assert_true(xsmi_optimizer_tensor(saved.o, 1, &a, &what));
        assert_string_equal(a.name, "bias-squares");
        assert_false(xsmi_optimizer_tensor(saved.o, 2, &a, &what));
        training_free(&saved);
        training_free(&resumed);
    }
}
