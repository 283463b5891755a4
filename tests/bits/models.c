/* L-BFGS, models that grow or count pairs, and results of a model: scores, metrics, ranks, predictions. */
#include "bits.h"

#include <stdlib.h>
#include <stdio.h>

/* -- full-batch training ------------------------------------------------------------------------------------------- */

static xsm_status fit(const bits_machine *machine, const void *what, uint64_t *hash)
{
    const bits_training *t = what;
    xsm_error err = XSM_ERROR_INIT;
    xsm_fit_options options = XSM_FIT_OPTIONS_INIT;
    xsm_fit_result result = XSM_FIT_RESULT_INIT;
    options.iterations = t->epochs;
    options.memory = 3;
    bits_rig rig;
    xsm_status status;
    BITS_TRY(bits_rig_new(machine, t, &rig));
    BITS_TRY(xsm_fit_full_batch(machine->context, rig.model, rig.data, rig.estimator, &options, &result, &err));
    BITS_TRY(bits_add_model(hash, rig.model, rig.data));
    bits_add_count(hash, result.iterations);
    bits_add_count(hash, result.evaluations);
end:
    bits_rig_free(&rig);
    return status;
}

static void fits_of(const xsm_estimator_ops *ops)
{
    for (int form = 0; form < BITS_FORMS; form++) {
        for (int several = 0; several < 2; several++) {
            for (int ridge = 0; ridge < 2; ridge++) {
                bool all = bits_has_option(ops, "negatives", "all");
                bits_training t = bits_training_of(ops->name, form);
                t.several = several;
                t.bias = !ridge;
                t.epochs = 6;
                t.settings = ridge ? all ? "negatives=all ridge=0.5" : "ridge=0.5" : all ? "negatives=all" : NULL;
                bits_record(fit, &t, "lbfgs %s, %s, %s a row, %s", t.estimator, bits_forms[form],
                            several ? "several" : "one", ridge ? "ridge" : "bias");
            }
        }
    }
}

static xsm_status class_means(const bits_machine *machine, const void *what, uint64_t *hash)
{
    xsm_error err = XSM_ERROR_INIT;
    bits_rig rig;
    double variance = 0;
    xsm_status status;
    BITS_TRY(bits_rig_new(machine, what, &rig));
    BITS_TRY(xsm_fit_class_means(machine->context, rig.model, rig.data, &variance, &err));
    BITS_TRY(bits_add_model(hash, rig.model, rig.data));
    bits_add(hash, &variance, sizeof variance);
end:
    bits_rig_free(&rig);
    return status;
}

static void class_means_of_rows(void)
{
    for (int form = 0; form < BITS_EMBEDDING; form++) {
        for (int several = 0; several < 2; several++) {
            bits_training t = bits_training_of("softmax", form);
            t.several = several;
            t.bias = true;
            bits_record(class_means, &t, "class means, %s, %s a row", bits_forms[form], several ? "several" : "one");
        }
    }
}

/* -- what is computed with a model --------------------------------------------------------------------------------- */

typedef struct made_model {
    bits_training t;
    const char *name;
    bool pairs, grown;
    uint32_t beam;
    bool tree_alone, ranked_by_all; /* ranks are filtered by the rows themselves */
} made_model;

/* Classes 0, 2, 4, ... are the model's; the odd ones are new, and some features. */
static xsm_status grow(xsm_model *m)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map old = XSM_CLASS_MAP_INIT, new = XSM_CLASS_MAP_INIT;
    uint32_t classes = xsm_model_class_count(m);
    int64_t *labels = malloc(2 * (size_t)classes * sizeof *labels);
    if (!labels) {
        bits_fail("out of memory");
    }
    xsm_status status;
    for (uint32_t k = 0; k < 2 * classes; k++) {
        labels[k] = 2 * (int64_t)k;
    }
    old.classes = classes;
    old.features = xsm_model_feature_count(m);
    old.labels = labels;
    BITS_TRY(xsm_model_set_class_map(m, &old, &err));
    for (uint32_t k = 0; k < 2 * classes; k++) {
        labels[k] = k;
    }
    new.classes = 2 * classes;
    new.features = old.features + 3;
    new.labels = labels;
    BITS_TRY(xsm_model_grow(m, new.features, &new, &err));
end:
    free(labels);
    return status;
}

static xsm_status make(const bits_machine *machine, const made_model *k, bits_rig *rig)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_status status;
    BITS_TRY(bits_rig_new(machine, &k->t, rig));
    BITS_TRY(bits_rig_train(machine, &k->t, rig));
    if (k->pairs) {
        BITS_TRY(xsm_model_add_pairs(rig->model, rig->data, 2, &err));
    }
    if (k->grown) {
        BITS_TRY(grow(rig->model));
    }
end:
    return status;
}

static xsm_status parameters(const bits_machine *machine, const void *what, uint64_t *hash)
{
    bits_rig rig;
    xsm_status status;
    BITS_TRY(make(machine, what, &rig));
    BITS_TRY(bits_add_model(hash, rig.model, rig.data));
end:
    bits_rig_free(&rig);
    return status;
}

static xsm_status scores(const bits_machine *machine, const void *what, uint64_t *hash)
{
    enum { ROWS = 9, CHOSEN = 6 };
    xsm_error err = XSM_ERROR_INIT;
    bits_rig rig;
    float *z = NULL;
    xsm_status status;
    BITS_TRY(make(machine, what, &rig));
    uint32_t classes = xsm_model_class_count(rig.model), chosen[ROWS * CHOSEN];
    xsm_batch batch = xsm_batch_range(rig.data, 3, ROWS);
    z = calloc((size_t)ROWS * classes, sizeof *z);
    if (!z) {
        bits_fail("out of memory");
    }
    for (uint32_t i = 0; i < ROWS * CHOSEN; i++) {
        chosen[i] = i * 7919 % classes;
    }
    BITS_TRY(xsm_model_score_range(rig.model, &batch, 0, classes, z, classes, &err));
    bits_add(hash, z, (size_t)ROWS * classes * sizeof *z);
    BITS_TRY(xsm_model_scores(rig.model, &batch, chosen, CHOSEN, z, &err));
    bits_add(hash, z, ROWS * CHOSEN * sizeof *z);
    if (test_model_info(rig.model).hidden) {
        float phi[ROWS * 64];
        BITS_TRY(xsm_model_hidden_vectors(rig.model, &batch, phi, test_model_info(rig.model).hidden, &err));
        bits_add(hash, phi, (size_t)ROWS * test_model_info(rig.model).hidden * sizeof *phi);
    }
end:
    free(z);
    bits_rig_free(&rig);
    return status;
}

static xsm_status figures(const bits_machine *machine, const void *what, uint64_t *hash)
{
    xsm_error err = XSM_ERROR_INIT;
    enum { TOP = 10 };
    double values[4][TOP];
    xsm_metrics m = {
        .size = sizeof m, .top = TOP, .precision = values[0], .ndcg = values[1], .psp = values[2], .psndcg = values[3]};
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    bits_rig rig;
    xsm_status status;
    BITS_TRY(make(machine, what, &rig));
    BITS_TRY(xsm_dataset_get_class_map(rig.data, &map, &err));
    BITS_TRY(xsm_model_set_class_map(rig.model, &map, &err)); /* the counts are those that propensities are made of */
    BITS_TRY(xsm_evaluate(machine->context, rig.model, rig.data, NULL, &m, &err));
    bits_add_count(hash, m.known_rows);
    bits_add_double(hash, m.log_loss);
    bits_add_double(hash, m.error);
    for (size_t i = 0; i < 4; i++) {
        bits_add(hash, values[i], sizeof values[i]);
    }
end:
    bits_rig_free(&rig);
    return status;
}

static xsm_status ranks(const bits_machine *machine, const void *what, uint64_t *hash)
{
    xsm_error err = XSM_ERROR_INIT;
    double hits[10];
    xsm_ranks r = {.size = sizeof r, .top = 10, .hits = hits};
    xsm_ranks_options options = XSM_RANKS_OPTIONS_INIT;
    const made_model *k = what;
    const xsm_dataset *known = machine->several[k->t.set];
    bits_rig rig;
    xsm_status status;
    BITS_TRY(make(machine, k, &rig));
    options.known = &known;
    options.known_count = k->ranked_by_all;
    BITS_TRY(xsm_evaluate_ranks(machine->context, rig.model, rig.data, &options, &r, &err));
    bits_add_count(hash, r.labels);
    bits_add_double(hash, r.reciprocal_rank);
    bits_add_double(hash, r.mean_rank);
    bits_add(hash, hits, sizeof hits);
end:
    bits_rig_free(&rig);
    return status;
}

static xsm_status predictions(const bits_machine *machine, const void *what, uint64_t *hash)
{
    enum { ROWS = 30, TOP = 5 };
    xsm_error err = XSM_ERROR_INIT;
    const made_model *k = what;
    xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
    options.top = TOP;
    options.beam = k->beam;
    options.tree_alone = k->tree_alone;
    xsm_predictor *p = NULL;
    uint32_t classes[ROWS * TOP];
    float z[ROWS * TOP];
    double share[ROWS * TOP];
    bool search = k->beam && !k->tree_alone;
    bits_rig rig;
    xsm_status status;
    BITS_TRY(make(machine, k, &rig));
    BITS_TRY(xsm_predictor_new(rig.model, &options, &p, &err));
    xsm_batch batch = xsm_batch_range(rig.data, 0, ROWS);
    BITS_TRY(xsm_predictor_run(p,
                               &(xsm_prediction){.size = sizeof(xsm_prediction),
                                                 .batch = &batch,
                                                 .classes = classes,
                                                 .scores = z,
                                                 .probabilities = search ? NULL : share},
                               &err));
    bits_add(hash, classes, sizeof classes);
    bits_add(hash, z, sizeof z);
    bits_add(hash, share, search ? 0 : sizeof share);
    bits_add_count(hash, test_predictor_info(p).probed);
    double recall[TOP], precision[TOP];
    xsm_search_metrics m = {.size = sizeof m, .top = TOP, .recall = recall, .precision = precision};
    BITS_TRY(xsm_evaluate_search(machine->context, rig.model, rig.data, &options, &m, &err));
    bits_add_double(hash, m.probed);
    bits_add(hash, recall, sizeof recall);
    bits_add(hash, precision, sizeof precision);
end:
    xsm_predictor_free(p);
    bits_rig_free(&rig);
    return status;
}

/* A model of each kind of correction, pairs, and models that have grown. */
static void computed_with(made_model k)
{
    bits_record(parameters, &k, "models %s", k.name);
    bits_record(scores, &k, "scores %s", k.name);
    bits_record(figures, &k, "figures %s", k.name);
    bits_record(ranks, &k, "ranks %s", k.name);
    k.ranked_by_all = true;
    bits_record(ranks, &k, "ranks %s, filtered", k.name);
    bits_record(predictions, &k, "predictions %s", k.name);
    k.beam = 12;
    bits_record(predictions, &k, "predictions %s, beam of 12", k.name);
    k.tree_alone = true;
    bits_record(predictions, &k, "predictions %s, tree alone", k.name);
}

static void several_models(const char *form, bits_training base)
{
    static const struct {
        const char *name, *estimator, *settings;
        bool several, euclidean, pairs, grown;
    } kinds[] = {
        {"softmax", "softmax", NULL, false, false, false, false},
        {"softmax of several labels", "softmax", NULL, true, false, false, false},
        {"softmax by distances", "softmax", NULL, false, true, false, false},
        {"corrected by classes", "negative-sampling", "sampler=frequency", false, false, false, false},
        {"corrected by a tree", "negative-sampling", "sampler=tree", false, false, false, false},
        {"tree of huffman", "hierarchical", NULL, false, false, false, false},
        {"tree that is fitted", "hierarchical", "tree=fitted", false, false, false, false},
        {"softmax with pairs", "softmax", NULL, true, false, true, false},
        {"softmax that has grown", "softmax", NULL, false, false, false, true},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char name[96];
        made_model k = {.t = base, .name = name, .pairs = kinds[i].pairs, .grown = kinds[i].grown};
        snprintf(name, sizeof name, "%s, %s", form, kinds[i].name);
        k.t.estimator = kinds[i].estimator;
        k.t.settings = kinds[i].settings;
        k.t.several = kinds[i].several;
        k.t.euclidean = kinds[i].euclidean;
        if (k.grown) {
            bits_record(parameters, &k, "models %s", k.name); /* the rows no longer fit it */
        } else {
            computed_with(k);
        }
    }
}

/* Sums over several runs of classes, of every kind of tile. */
static void long_models(void)
{
    static const char *const estimators[] = {"softmax", "hierarchical", "negative-sampling"};
    for (size_t i = 0; i < sizeof estimators / sizeof *estimators; i++) {
        for (int form = 0; form < BITS_FORMS; form++) {
            char name[96];
            const bits_sum sum = {estimators[i], estimators[i], i == 2 ? "sampler=frequency" : NULL};
            made_model k = {.t = bits_training_long(&sum, form), .name = name};
            snprintf(name, sizeof name, "long %s, %s", bits_forms[form], estimators[i]);
            bits_record(figures, &k, "figures %s", name);
            bits_record(ranks, &k, "ranks %s", name);
            bits_record(predictions, &k, "predictions %s", name);
        }
    }
}

void bits_of_models(void)
{
    const xsm_estimator_ops *ops;
    for (size_t i = 0; (ops = xsm_estimator_at(i)); i++) {
        fits_of(ops);
    }
    class_means_of_rows();
    for (int form = 0; form < BITS_FORMS; form++) {
        several_models(bits_forms[form], bits_training_of("", form));
    }
    made_model wide = {.t = bits_training_of("nce", BITS_DENSE), .name = "wide, nce"};
    wide.t.set = BITS_WIDE_ROWS;
    computed_with(wide);
    wide.t.form = BITS_EMBEDDING;
    wide.name = "wide embedding, nce";
    computed_with(wide);
    long_models();
}
