/*
 * Calls that all processes make together: a bad argument of one ends the call on all, with its status and message, and
 * the next call goes on. The check `library-entries` knows which calls these are.
 */
#define XSM_EXPERIMENTAL
#include "training.h"

#include "comm.h"
#include "model/divided.h"

#include <xsoftmax/label_tree.h>
#include <xsoftmax/stored_weights.h>
#include <xsoftmax/trainer.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 20, FEATURES = 5, CLASSES = 2 * XSMI_RUN_CLASSES + 3, CALLS = 28 };

static const char *file; /* of all ranks, as test_path() is for one thread */

/* What a rank calls with; that with `own` alone are this process's. */
typedef struct objects {
    xsm_context *context;
    const xsm_dataset *rows;
    xsm_model *model, *own;
    xsm_estimator *estimator;
    xsm_optimizer *optimizer;
    xsm_gradient *gradient;
    xsm_predictor *predictor;
    xsm_trainer *trainer;
} objects;

/* Makes call number `i`, as a rank with a bad argument or as the others. Nothing comes of it on any. */
static xsm_status call(const objects *o, size_t i, bool bad, xsm_error *err)
{
    xsm_context *ctx = o->context;
    xsm_model *m = o->model, *none = NULL;
    uint32_t classes[ROWS * 5] = {0};
    float scores[ROWS];
    const char *path = bad ? NULL : file;
    const xsm_batch rows = xsm_batch_range(o->rows, 0, 4), *batch = bad ? NULL : &rows;
    xsm_prediction to = {.size = sizeof to, .batch = &rows, .classes = classes};
    xsm_metrics metrics = XSM_METRICS_INIT;
    xsm_class_metrics of_classes = XSM_CLASS_METRICS_INIT;
    xsm_embedding_options layer = XSM_EMBEDDING_OPTIONS_INIT;
    xsm_convert_options small = XSM_CONVERT_OPTIONS_INIT;
    xsm_predictor_options find = XSM_PREDICTOR_OPTIONS_INIT;
    xsm_label_tree_options tree = XSM_LABEL_TREE_OPTIONS_INIT;
    layer.pool = bad ? 99 : XSM_POOL_SUM;
    small.dtype = bad ? 99 : XSM_DTYPE_INT8;
    find.top = bad ? XSM_TOP_MAX + 1 : 5;
    tree.start = bad ? m : NULL;
    switch (i) {
    case 0:
        return xsm_trainer_checkpoint(o->trainer, path, NULL, err);
    case 1:
        return xsm_trainer_resume(o->trainer, path, NULL, err);
    case 2:
        return xsm_model_new_linear(ctx, FEATURES, bad ? 0 : CLASSES, NULL, &none, err);
    case 3:
        return xsm_model_new_embedding(ctx, FEATURES, 3, CLASSES, &layer, &none, err);
    case 4:
        return xsm_model_load(ctx, path, NULL, NULL, &none, err);
    case 5:
        return xsm_model_save(m, path, NULL, err);
    case 6:
        return xsm_model_convert(m, &small, &none, err);
    case 7:
        return xsm_model_set_layout(m, bad ? 99 : XSM_LAYOUT_FEATURE_MAJOR, err);
    case 8:
        return xsm_model_set_geometry(m, bad ? 99 : XSM_GEOMETRY_EUCLIDEAN, err);
    case 9:
        return xsm_model_add_pairs(m, o->rows, bad ? (double)NAN : 1, err);
    case 10:
        return xsm_model_scores(m, batch, classes, 1, scores, err);
    case 11:
        return xsm_model_score_range(m, &rows, 0, bad ? CLASSES + 1 : 3, scores, 3, err);
    case 12:
        return xsm_estimator_bind(o->estimator, m, bad ? NULL : o->rows, err);
    case 13:
        return xsm_estimator_bind_labels(bad ? NULL : o->estimator, m, o->rows, err);
    case 14:
        return xsm_estimator_bind_stream(bad ? NULL : o->estimator, m, NULL, err);
    case 15:
        return xsm_optimizer_apply(o->optimizer, batch, o->gradient, 1, err);
    case 16:
        return xsm_estimator_gradient(o->estimator, &rows, bad ? (double)NAN : 1, o->gradient, err);
    case 17:
        return xsm_estimator_gradient_input(o->estimator, &rows, 1, o->gradient, bad ? NULL : scores, FEATURES, err);
    case 18:
        return xsm_optimizer_bind(bad ? NULL : o->optimizer, m, err);
    case 19:
        return xsm_predictor_new(m, &find, bad ? NULL : &(xsm_predictor *){NULL}, err);
    case 20:
        return xsm_predictor_run(o->predictor, bad ? NULL : &to, err);
    case 21:
        return xsm_predict(ctx, m, &find, &to, err);
    case 22:
        return xsm_evaluate(ctx, m, bad ? NULL : o->rows, NULL, &metrics, err);
    case 23:
        return xsm_evaluate_classes(ctx, m, o->rows, NULL, bad ? NULL : &of_classes, err);
    case 24:
        return xsm_trainer_new(ctx, m, o->rows, o->estimator, bad ? NULL : o->optimizer, NULL, &(xsm_trainer *){NULL},
                               err);
    case 25:
        return xsm_fit_label_tree(ctx, o->rows, NULL, bad ? NULL : &none, NULL, err);
    case 26:
        return xsm_fit_label_tree(ctx, o->rows, &tree, &none, NULL, err); /* grows on one process alone */
    default: /* a run whose estimator is bound to something else */
        XSMI_TRY(bad ? xsm_estimator_bind(o->estimator, o->own, o->rows, err) : XSM_OK);
        return xsm_trainer_run(o->trainer, err);
    }
}

static xsm_status bind(const objects *o, xsm_error *err)
{
    XSMI_TRY(xsm_estimator_bind(o->estimator, o->model, o->rows, err));
    return xsm_optimizer_bind(o->optimizer, o->model, err);
}

/* The calls one after another, each with a bad argument on rank 1 and then, but for the last two, on rank 0; then sound
 * ones. */
static xsm_status try_calls(objects *o, test_rank *r)
{
    for (size_t i = 0; i < CALLS; i++) {
        if (i + 1 == CALLS) { /* as the trainer needs them */
            XSMI_TRY(bind(o, &r->err));
        }
        for (uint32_t bad = 2; bad-- > (i + 2 < CALLS ? 0u : 1u);) {
            const char begins[] = {'r', 'a', 'n', 'k', ' ', (char)('0' + bad), ':', '\0'};
            const xsm_status status = call(o, i, r->rank == bad, &r->err);
            if (status == XSM_OK || status == XSM_ERROR_COMM || strncmp(r->err.message, begins, 7) != 0) {
                char said[sizeof r->err.message];
                memcpy(said, r->err.message, sizeof said);
                return xsmi_fail(&r->err, XSM_ERROR_INTERNAL, "call %zu, bad on rank %u: %s", i, bad, said);
            }
        }
    }
    XSMI_TRY(bind(o, &r->err));
    XSMI_TRY(xsm_trainer_run(o->trainer, &r->err));
    return xsm_model_save(o->model, file, NULL, &r->err);
}

static xsm_status make(objects *o, xsm_error *err)
{
    xsm_trainer_options once = XSM_TRAINER_OPTIONS_INIT;
    once.epochs = 1;
    once.batch = 7;
    XSMI_TRY(xsm_model_new_linear(o->context, FEATURES, CLASSES, NULL, &o->model, err));
    XSMI_TRY(xsm_model_new_linear(NULL, FEATURES, CLASSES, NULL, &o->own, err));
    XSMI_TRY(xsm_estimator_new(o->context, "softmax", &o->estimator, err));
    XSMI_TRY(xsm_optimizer_new(o->context, "sgd", &o->optimizer, err));
    XSMI_TRY(xsm_gradient_new(o->context, &o->gradient, err));
    XSMI_TRY(xsm_trainer_new(o->context, o->model, o->rows, o->estimator, o->optimizer, &once, &o->trainer, err));
    const xsm_batch rows = xsm_batch_range(o->rows, 0, 4);
    XSMI_TRY(xsm_estimator_gradient(o->estimator, &rows, 1, o->gradient, err));
    XSMI_TRY(xsm_trainer_checkpoint(o->trainer, file, NULL, err)); /* a model, too */
    return xsm_predictor_new(o->model, NULL, &o->predictor, err);
}

static xsm_status body(test_rank *r)
{
    objects o = {.context = r->context, .rows = r->user};
    xsm_status status = make(&o, &r->err);
    status = status == XSM_OK ? try_calls(&o, r) : status;
    xsm_predictor_free(o.predictor);
    xsm_trainer_free(o.trainer);
    xsm_gradient_free(o.gradient);
    xsm_optimizer_free(o.optimizer);
    xsm_estimator_free(o.estimator);
    xsm_model_free(o.own);
    xsm_model_free(o.model);
    return status;
}

TEST(test_arguments)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, true, 8);
    test_rank ranks[TEST_RANKS];
    file = test_path("arguments");
    test_run_ranks(3, 1, 0, body, (void *)(uintptr_t)p.data, ranks);
    for (uint32_t r = 0; r < 3; r++) {
        assert_ok(ranks[r].status, ranks[r].err);
    }
    remove(file);
}
