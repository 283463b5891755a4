/* Label trees, sparse models, and calibrations of both and of dense ones: files, scores and what is fitted. */
#include "bits.h"

#include <stdio.h>
#include <stdlib.h>

#include <xsoftmax/calibrate.h>
#include <xsoftmax/label_tree.h>

enum { ROWS = 9 };

/* A model's file, and its scores of some rows. */
static xsm_status add_all(const bits_machine *machine, const xsm_model *m, const xsm_dataset *data, uint64_t *hash)
{
    xsm_error err = XSM_ERROR_INIT;
    const char *path = bits_path(machine, "trees.safetensors");
    const uint32_t classes = xsm_model_class_count(m);
    const xsm_batch batch = xsm_batch_range(data, 3, ROWS);
    xsm_status status;
    float *z = calloc((size_t)ROWS * classes, sizeof *z);
    if (!z) {
        bits_fail("out of memory");
    }
    BITS_TRY(xsm_model_save(m, path, NULL, &err));
    BITS_TRY(bits_add_file(hash, path));
    BITS_TRY(xsm_model_score_range(m, &batch, 0, classes, z, classes, &err));
    bits_add(hash, z, (size_t)ROWS * classes * sizeof *z);
end:
    remove(path);
    free(z);
    return status;
}

static xsm_status add_metrics(const bits_machine *machine, const xsm_model *m, const xsm_dataset *data, uint64_t *hash)
{
    enum { TOP = 5 };
    xsm_error err = XSM_ERROR_INIT;
    double precision[TOP], ndcg[TOP];
    xsm_metrics metrics = {.size = sizeof metrics, .top = TOP, .precision = precision, .ndcg = ndcg};
    xsm_status status;
    BITS_TRY(xsm_evaluate(machine->context, m, data, NULL, &metrics, &err));
    bits_add(hash, precision, sizeof precision);
    bits_add(hash, ndcg, sizeof ndcg);
    bits_add_double(hash, metrics.log_loss);
    bits_add_double(hash, metrics.calibration_error);
end:
    return status;
}

static xsm_status add_calibration(const bits_machine *machine, xsm_model *m, const xsm_dataset *data, int32_t method,
                                  uint64_t *hash)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_calibrate_options options = XSM_CALIBRATE_OPTIONS_INIT;
    xsm_calibrate_result result = XSM_CALIBRATE_RESULT_INIT;
    options.method = method;
    xsm_status status;
    BITS_TRY(xsm_model_calibrate(machine->context, m, data, &options, &result, &err));
    bits_add_count(hash, result.passes);
    bits_add_count(hash, result.rows);
    bits_add_double(hash, result.scale);
    bits_add_double(hash, result.shift);
    bits_add_double(hash, result.log_loss_before);
    bits_add_double(hash, result.log_loss);
    BITS_TRY(add_metrics(machine, m, data, hash));
end:
    return status;
}

/* -- label trees --------------------------------------------------------------------------------------------------- */

typedef struct tree {
    int set;
    bool several, calibrated;
    const char *settings[2]; /* of small trees: "key", "value" */
} tree;

static xsm_status grow(const bits_machine *machine, const void *what, uint64_t *hash)
{
    const tree *t = what;
    xsm_error err = XSM_ERROR_INIT;
    xsm_label_tree_options options = XSM_LABEL_TREE_OPTIONS_INIT;
    xsm_label_tree_result result = XSM_LABEL_TREE_RESULT_INIT;
    const xsm_dataset *data = t->several ? machine->several[t->set] : machine->one[t->set];
    xsm_model *m = NULL;
    options.arity = 3;
    options.leaf = 4;
    xsm_status status = XSM_OK;
    if (t->settings[0]) {
        BITS_TRY(xsm_label_tree_set(&options, t->settings[0], t->settings[1], &err));
    }
    BITS_TRY(xsm_fit_label_tree(machine->context, data, &options, &m, &result, &err));
    bits_add_count(hash, result.nodes);
    bits_add_count(hash, result.weights);
    if (t->calibrated) {
        BITS_TRY(add_calibration(machine, m, data, XSM_CALIBRATION_AUTO, hash));
    } else {
        BITS_TRY(add_all(machine, m, data, hash));
        BITS_TRY(add_metrics(machine, m, data, hash));
    }
end:
    xsm_model_free(m);
    return status;
}

static const char *const sets[] = {"dense", "sparse", "wide"};

static void grow_all(tree t, const char *name)
{
    const xsm_option *o;
    t.settings[0] = NULL;
    bits_record(grow, &t, "trees %s, %s", name, "defaults");
    for (size_t i = 0; (o = xsm_label_tree_option(i)); i++) {
        char value[64];
        for (size_t n = 0; n < 3 && bits_value(o, n, value, sizeof value); n++) {
            t.settings[0] = o->name;
            t.settings[1] = value;
            bits_record(grow, &t, "trees %s, %s=%s", name, o->name, value);
        }
    }
}

static void calibrate_all(tree t, const char *name)
{
    static const char *const links[] = {"sigmoid", "softmax", "hinge"};
    t.calibrated = true;
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        t.settings[0] = "link";
        t.settings[1] = links[i];
        bits_record(grow, &t, "calibration trees, %s, %s", name, links[i]);
    }
}

/* -- other models -------------------------------------------------------------------------------------------------- */

typedef struct made {
    bits_training t;
    double threshold; /* below which weights are dropped */
    uint32_t keep;    /* the most of a class; both 0: the model stays dense */
    int32_t method;   /* of a calibration, or XSM_CALIBRATION_NONE */
} made;

static xsm_status run_made(const bits_machine *machine, const void *what, uint64_t *hash)
{
    const made *k = what;
    xsm_error err = XSM_ERROR_INIT;
    xsm_prune_options options = XSM_PRUNE_OPTIONS_INIT;
    xsm_model *pruned = NULL;
    bits_rig rig;
    xsm_status status;
    BITS_TRY(bits_rig_new(machine, &k->t, &rig));
    BITS_TRY(bits_rig_train(machine, &k->t, &rig));
    if (k->threshold > 0 || k->keep > 0) {
        options.below = k->threshold;
        options.keep = k->keep;
        BITS_TRY(xsm_model_prune(rig.model, &options, &pruned, &err));
    }
    xsm_model *m = pruned ? pruned : rig.model;
    if (k->method != XSM_CALIBRATION_NONE) {
        BITS_TRY(add_calibration(machine, m, rig.data, k->method, hash));
    } else {
        BITS_TRY(add_all(machine, m, rig.data, hash));
        BITS_TRY(add_metrics(machine, m, rig.data, hash));
    }
end:
    xsm_model_free(pruned);
    bits_rig_free(&rig);
    return status;
}

static void models_of(const char *estimator, int form, bool several)
{
    made k = {.t = bits_training_of(estimator, form), .method = XSM_CALIBRATION_NONE};
    const char *labels = several ? "several" : "one";
    k.t.several = several;
    if (form != BITS_EMBEDDING) {
        k.threshold = 0.01;
        bits_record(run_made, &k, "pruned %s, %s, %s a row, threshold", estimator, bits_forms[form], labels);
        k.threshold = 0;
        k.keep = 3;
        bits_record(run_made, &k, "pruned %s, %s, %s a row, keep", estimator, bits_forms[form], labels);
        k.method = XSM_CALIBRATION_AUTO;
        bits_record(run_made, &k, "calibration %s, %s, %s a row, pruned", estimator, bits_forms[form], labels);
        k.keep = 0;
    }
    for (k.method = XSM_CALIBRATION_AUTO; k.method <= XSM_CALIBRATION_LABELS; k.method++) {
        bits_record(run_made, &k, "calibration %s, %s, %s a row, method %d", estimator, bits_forms[form], labels,
                    (int)k.method);
    }
}

void bits_of_trees(void)
{
    for (int set = BITS_DENSE_ROWS; set <= BITS_WIDE_ROWS; set++) {
        for (int several = 0; several < 2; several++) {
            const tree t = {.set = set, .several = several};
            char name[64];
            snprintf(name, sizeof name, "%s, %s a row", sets[set], several ? "several" : "one");
            grow_all(t, name);
            calibrate_all(t, name);
        }
    }
    for (int form = 0; form < BITS_FORMS; form++) {
        models_of("softmax", form, false);
        models_of("one-vs-all", form, true);
    }
}
