/* What gives no hash, for the stack that it needs: the suites that try a table, on the tables of the library, and long
 * calls whose results other tests look at. */
#define XSM_EXPERIMENTAL
#include "bits.h"

#include <stdio.h>

#include <xsoftmax/ext/index.h>
#include <xsoftmax/ext/optimizer.h>
#include <xsoftmax/ext/sampler.h>

static xsm_status told(xsm_status status, const xsm_error *err)
{
    if (status != XSM_OK) {
        printf("%s\n", err->message);
    }
    return status;
}

static xsm_status try_estimator(const bits_machine *machine, const void *what, uint64_t *hash)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_estimator_check_options options = XSM_ESTIMATOR_CHECK_OPTIONS_INIT;
    (void)hash;
    options.promises = 0; /* which differ from method to method */
    return told(xsm_estimator_check(machine->context, what, &options, &err), &err);
}

static xsm_status try_optimizer(const bits_machine *machine, const void *what, uint64_t *hash)
{
    xsm_error err = XSM_ERROR_INIT;
    (void)hash;
    return told(xsm_optimizer_check(machine->context, what, NULL, &err), &err);
}

static xsm_status try_sampler(const bits_machine *machine, const void *what, uint64_t *hash)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_sampler_check_options options = XSM_SAMPLER_CHECK_OPTIONS_INIT;
    (void)hash;
    options.draws = 2000;
    return told(xsm_sampler_check(machine->context, what, &options, &err), &err);
}

static xsm_status try_index(const bits_machine *machine, const void *what, uint64_t *hash)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_index_check_options options = XSM_INDEX_CHECK_OPTIONS_INIT;
    (void)hash;
    options.rows = 300;
    options.recall = 0.5; /* of any index with its default settings */
    return told(xsm_index_check(machine->context, what, &options, &err), &err);
}

/* -- long calls ---------------------------------------------------------------------------------------------------- */

static xsm_status choose(const bits_machine *machine, const void *what, uint64_t *hash)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_choose_options options = XSM_CHOOSE_OPTIONS_INIT;
    const xsm_dataset *rows = machine->several[*(const int *)what];
    xsm_choice *choice = NULL;
    (void)hash;
    options.transform = 1;
    options.embedding = 1;
    options.label_tree = 1;
    xsm_status status = xsm_choose(machine->context, rows, &options, &choice, &err);
    xsm_choice_free(choice);
    return told(status, &err);
}

static xsm_status fit_label_tree(const bits_machine *machine, const void *what, uint64_t *hash)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_label_tree_options options = XSM_LABEL_TREE_OPTIONS_INIT;
    const xsm_dataset *rows = machine->several[*(const int *)what];
    xsm_model *model = NULL;
    (void)hash;
    options.leaf = 8;
    options.negatives = 4;
    xsm_status status = xsm_fit_label_tree(machine->context, rows, &options, &model, NULL, &err);
    xsm_model_free(model);
    return told(status, &err);
}

static xsm_status tune(const bits_machine *machine, const void *what, uint64_t *hash)
{
    xsm_error err = XSM_ERROR_INIT;
    const bits_training *t = what;
    bits_rig rig;
    xsm_tuning *tuning = NULL;
    (void)hash;
    xsm_status status = bits_rig_new(machine, t, &rig);
    status = status == XSM_OK ? xsm_tune_eta(machine->context, rig.model, rig.data, rig.estimator, rig.optimizer, NULL,
                                             &tuning, &err)
                              : status;
    xsm_tuning_free(tuning);
    bits_rig_free(&rig);
    return told(status, &err);
}

void bits_of_suites(const bits_machine *machine)
{
    static const int dense = BITS_DENSE_ROWS, sparse = BITS_SPARSE_ROWS;
    bits_training rates = bits_training_of("softmax", BITS_DENSE);
    rates.zeros = true;
    bits_try(choose, machine, &dense, "xsm_choose() dense rows");
    bits_try(choose, machine, &sparse, "xsm_choose() sparse rows");
    bits_try(fit_label_tree, machine, &dense, "xsm_fit_label_tree() dense rows");
    bits_try(fit_label_tree, machine, &sparse, "xsm_fit_label_tree() sparse rows");
    bits_try(tune, machine, &rates, "xsm_tune_eta() softmax");
    for (size_t i = 0; xsm_estimator_at(i); i++) {
        bits_try(try_estimator, machine, xsm_estimator_at(i), "xsm_estimator_check() %s", xsm_estimator_at(i)->name);
    }
    for (size_t i = 0; xsm_optimizer_at(i); i++) {
        bits_try(try_optimizer, machine, xsm_optimizer_at(i), "xsm_optimizer_check() %s", xsm_optimizer_at(i)->name);
    }
    for (size_t i = 0; xsm_sampler_at(i); i++) {
        bits_try(try_sampler, machine, xsm_sampler_at(i), "xsm_sampler_check() %s", xsm_sampler_at(i)->name);
    }
    for (size_t i = 0; xsm_index_at(i); i++) {
        bits_try(try_index, machine, xsm_index_at(i), "xsm_index_check() %s", xsm_index_at(i)->name);
    }
}
