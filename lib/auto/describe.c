/* Metadata on how a model was trained: see describe.h and xsm_model_describe(). */
#include "auto/describe.h"

#include "base/entry.h"
#include "base/option.h"
#include "base/order.h"
#include "base/settings.h"

#include <xsoftmax/ext/estimator.h>
#include <xsoftmax/ext/index.h>
#include <xsoftmax/label_tree.h>
#include <xsoftmax/ext/optimizer.h>
#include <xsoftmax/ext/sampler.h>

#include <stdio.h>
#include <string.h>

/* Bytes of a key, and of an option's value that needs no allocation. */
enum { KEY = 200 };

static xsm_status set(xsm_model *m, const char *prefix, const char *name, const char *value, xsm_error *err)
{
    char key[KEY];
    return snprintf(key, sizeof key, "%s%s", prefix, name) < (int)sizeof key
               ? xsm_model_set_metadata(m, key, value, err)
               : xsmi_fail(err, XSM_ERROR_LIMIT, "%s%s: a name of more than %d bytes", prefix, name, KEY - 1);
}

xsm_status xsmi_describe_whole(xsm_model *m, const char *name, uint64_t value, xsm_error *err)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    return set(m, "training.", name, text, err);
}

xsm_status xsmi_describe_real(xsm_model *m, const char *name, double value, xsm_error *err)
{
    char text[40];
    xsmi_print_double(value, 0, text, sizeof text);
    return set(m, "training.", name, text, err);
}

/* -- options ------------------------------------------------------------------------------------------------------- */

static size_t of_tree(const void *of, const char *name, char *buffer, size_t size)
{
    return xsm_label_tree_get(of, name, buffer, size);
}

/* Writes the value of an option under prefix and name. */
static xsm_status note(xsm_model *m, const char *prefix, const char *name, const void *of, xsmi_option_getter get,
                       xsm_error *err)
{
    char *value;
    size_t size;
    XSMI_TRY(xsmi_option_text(m->context, get, of, name, &value, &size, err));
    const xsm_status status = value ? set(m, prefix, name, value, err) : XSM_OK;
    xsmi_release(m->context, value, size, 1);
    return status;
}

/* Writes an option of an estimator's sampler or index, which the estimator has under `part` and its name. */
static xsm_status note_part(xsm_model *m, const xsm_estimator *e, const char *part, const xsm_option *option,
                            xsm_error *err)
{
    char name[KEY];
    return snprintf(name, sizeof name, "%s.%s", part, option->name) < (int)sizeof name
               ? note(m, "estimator.", name, e, xsmi_estimator_get, err)
               : xsmi_fail(err, XSM_ERROR_LIMIT, "%s.%s: a name of more than %d bytes", part, option->name, KEY - 1);
}

static xsm_status note_estimator(xsm_model *m, const xsm_estimator *e, xsm_error *err)
{
    const xsm_option *option;
    xsm_estimator_info info = XSM_ESTIMATOR_INFO_INIT;
    XSMI_TRY(xsm_estimator_get_info(e, &info, err));
    XSMI_TRY(xsm_model_set_metadata(m, "estimator", info.name, err));
    for (size_t i = 0; (option = xsm_estimator_ops_option(&e->ops, i)) != NULL; i++) {
        XSMI_TRY(note(m, "estimator.", option->name, e, xsmi_estimator_get, err));
    }
    xsm_sampler_info sampler = XSM_SAMPLER_INFO_INIT;
    XSMI_TRY(info.sampler ? xsm_sampler_get_info(info.sampler, &sampler, err) : XSM_OK);
    const xsm_sampler_ops *sampler_ops = xsm_sampler_find(sampler.name);
    for (size_t i = 0; (option = xsm_sampler_ops_option(sampler_ops, i)) != NULL; i++) {
        XSMI_TRY(note_part(m, e, "sampler", option, err));
    }
    char index[64];
    const xsm_index_ops *index_ops =
        xsm_estimator_get(e, "index", index, sizeof index) < sizeof index ? xsm_index_find(index) : NULL;
    for (size_t i = 0; (option = xsm_index_ops_option(index_ops, i)) != NULL; i++) {
        XSMI_TRY(note_part(m, e, "index", option, err));
    }
    return XSM_OK;
}

static xsm_status note_optimizer(xsm_model *m, const xsm_optimizer *o, xsm_error *err)
{
    const xsm_option *option;
    xsm_optimizer_info info = XSM_OPTIMIZER_INFO_INIT;
    XSMI_TRY(xsm_optimizer_get_info(o, &info, err));
    XSMI_TRY(xsm_model_set_metadata(m, "training.optimizer", info.name, err));
    const xsm_optimizer_ops *ops = xsm_optimizer_find(info.name);
    for (size_t i = 0; (option = xsm_optimizer_ops_option(ops, i)) != NULL; i++) {
        XSMI_TRY(note(m, "training.optimizer.", option->name, o, xsmi_optimizer_get, err));
    }
    return XSM_OK;
}

static xsm_status note_run(xsm_model *m, const xsm_trainer_options *o, xsm_error *err)
{
    static const char *const schedules[] = {"constant", "step:", "inverse", "sqrt"}, *const orders[] = {"shuffle",
                                                                                                        "file"};
    char schedule[48] = "step:";
    if (o->schedule == XSM_SCHEDULE_STEP) {
        xsmi_print_double(o->factor == 0 ? XSMI_DEFAULT_xsm_trainer_options_factor : o->factor, 0, schedule + 5,
                          sizeof schedule - 5);
    }
    XSMI_TRY(xsm_model_set_metadata(m, "training.schedule",
                                    o->schedule == XSM_SCHEDULE_STEP ? schedule : schedules[o->schedule], err));
    XSMI_TRY(xsm_model_set_metadata(m, "training.order", orders[o->order], err));
    XSMI_TRY(xsmi_describe_whole(m, "batch", o->batch ? o->batch : XSMI_DEFAULT_xsm_trainer_options_batch, err));
    return xsmi_describe_whole(m, "epochs", o->epochs ? o->epochs : XSMI_DEFAULT_xsm_trainer_options_epochs, err);
}

xsm_status xsm_model_describe(xsm_model *model, const xsm_estimator *estimator, const xsm_optimizer *optimizer,
                              const xsm_trainer_options *run, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {model, "the model"}, {estimator, "the estimator"});
    xsm_trainer_options o = XSM_TRAINER_OPTIONS_INIT;
    XSMI_TRY(XSMI_READ(xsm_trainer_options, &o, run, err));
    XSMI_TRY(xsmi_trainer_check_schedule(&o, err));
    XSMI_TRY(note_estimator(model, estimator, err));
    XSMI_TRY(optimizer ? note_optimizer(model, optimizer, err)
                       : xsm_model_set_metadata(model, "training.optimizer", "lbfgs", err));
    XSMI_TRY(optimizer ? note_run(model, &o, err) : XSM_OK);
    return xsmi_describe_whole(model, "seed", o.seed, err);
}

xsm_status xsmi_describe_method(xsm_model *m, const char *method, const xsm_label_tree_options *tree, xsm_error *err)
{
    const xsm_option *option;
    XSMI_TRY(xsm_model_set_metadata(m, "method", method, err));
    for (size_t i = 0; tree && (option = xsm_label_tree_option(i)) != NULL; i++) {
        XSMI_TRY(note(m, "label-tree.", option->name, tree, of_tree, err));
    }
    return XSM_OK;
}

xsm_status xsmi_describe_anew(xsm_model *m, xsm_error *err)
{
    static const char *const begins[] = {"estimator.", "training.optimizer."};
    static const char *const keys[] = {"schedule", "order",    "batch",      "epochs",     "steps",
                                       "eta",      "seed",     "pairs",      "iterations", "tolerance",
                                       "ngrams",   "examples", "temperature"};
    xsm_model_info info = XSM_MODEL_INFO_INIT;
    XSMI_TRY(xsm_model_get_info(m, &info, err));
    for (uint64_t i = info.metadata_count; i > 0; i--) {
        char key[KEY]; /* a copy, as the model's is removed with the entry; longer keys were not written here */
        snprintf(key, sizeof key, "%s", info.metadata_keys[i - 1]);
        bool ours = false;
        for (size_t j = 0; j < sizeof begins / sizeof *begins; j++) {
            ours |= strncmp(key, begins[j], strlen(begins[j])) == 0;
        }
        for (size_t j = 0; j < sizeof keys / sizeof *keys; j++) {
            ours |= strncmp(key, "training.", 9) == 0 && strcmp(key + 9, keys[j]) == 0;
        }
        XSMI_TRY(ours ? xsm_model_set_metadata(m, key, NULL, err) : XSM_OK);
        XSMI_TRY(xsm_model_get_info(m, &info, err));
    }
    return XSM_OK;
}
