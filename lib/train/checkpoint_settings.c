/* The settings of a trainer's run. */
#include "train/checkpoint_settings.h"

#include "base/activity.h"
#include "base/hash.h"
#include "base/random.h"
#include "model/together.h"

#define PREFIX XSMI_SETTINGS_PREFIX
/* How many rows and draws of each are hashed to tell samplers apart. */
enum { PROBE_ROWS = 32, PROBE_DRAWS = 16 };

/* Returns a hash of a sampler's draws for some rows. A host's sampler may have been made with other options or rows. */
static uint64_t probe(const xsm_estimator *e)
{
    const xsm_sampler *s = e->sampling.sampler;
    uint64_t hash = 0, rows = e->train->rows;
    for (uint64_t i = 0; i < PROBE_ROWS && i < rows; i++) {
        uint64_t row = rows < PROBE_ROWS ? i : rows / PROBE_ROWS * i;
        const float *code = s->code_length > 0 ? e->sampling.codes + row * s->code_length : NULL;
        uint32_t classes[PROBE_DRAWS];
        double log_probabilities[PROBE_DRAWS];
        xsm_random random;
        xsmi_stream_start(&random.stream, 0, XSMI_STREAM_CHECK, i);
        s->ops.draw(s->state, code, &random, PROBE_DRAWS, classes, log_probabilities);
        hash = xsmi_hash(classes, sizeof classes, hash);
        hash = xsmi_hash(log_probabilities, sizeof log_probabilities, hash);
    }
    return hash;
}

/* Adds the settings that the steps of a run depend on. */
static xsm_status add_run(xsmi_settings *s, const xsm_trainer_options *o, xsm_error *err)
{
    static const char *const schedules[] = {"constant", "step", "inverse", "sqrt"}; /* XSM_SCHEDULE_* */
    XSMI_TRY(xsmi_settings_add_whole(s, PREFIX "batch", o->batch, err));
    XSMI_TRY(xsmi_settings_add_real(s, PREFIX "eta", o->eta, err));
    XSMI_TRY(xsmi_settings_add(s, PREFIX "schedule", "", schedules[o->schedule], err));
    if (o->schedule == XSM_SCHEDULE_STEP) {
        XSMI_TRY(xsmi_settings_add_real(s, PREFIX "factor", o->factor, err));
    }
    XSMI_TRY(xsmi_settings_add(s, PREFIX "order", "", o->order == XSM_ORDER_FILE ? "file" : "shuffle", err));
    XSMI_TRY(xsmi_settings_add_whole(s, PREFIX "seed", o->seed, err));
    return XSM_OK;
}

static xsm_status gather(xsm_trainer *t, xsmi_settings *s, xsm_error *err)
{
    const xsm_trainer_options *o = &t->options;
    const xsm_estimator *e = t->estimator;
    XSMI_TRY(xsmi_settings_add(s, XSMI_KEY_CHECKPOINT, "", "1", err));
    XSMI_TRY(xsmi_estimator_settings(e, s, err));
    XSMI_TRY(xsmi_optimizer_settings(t->optimizer, s, err));
    XSMI_TRY(add_run(s, o, err));
    XSMI_TRY(xsmi_settings_add_whole(s, PREFIX "rows", t->rows, err));
    XSMI_TRY(xsmi_settings_add_whole(s, PREFIX "features", t->train->features, err));
    XSMI_TRY(xsmi_settings_add_whole(s, PREFIX "classes", t->train->classes, err));
    const uint64_t hash = xsmi_dataset_fingerprint(t->train);
    XSMI_TRY(xsmi_go_on(t->context, err));
    XSMI_TRY(xsmi_settings_add_hash(s, PREFIX "data", hash, err));
    /* A large file's rows are shuffled by runs, unlike the same rows in memory. */
    size_t file = o->order == XSM_ORDER_SHUFFLE ? xsmi_dataset_order_bytes(t->train) : 0;
    if (file > 0) {
        XSMI_TRY(xsmi_settings_add_whole(s, PREFIX "file_bytes", file, err));
    }
    if (e->sampling.sampler && !e->exact && !e->sampling.follows) { /* otherwise the checkpoint has the sampler */
        XSMI_TRY(xsmi_settings_add_hash(s, PREFIX "draws", probe(e), err));
    }
    return XSM_OK;
}

xsm_status xsmi_settings_gather(xsm_trainer *t, xsmi_settings *out, xsm_error *err)
{
    xsmi_settings s = {.context = t->context};
    xsm_status status = gather(t, &s, err);
    if (status != XSM_OK) {
        xsmi_settings_free(&s);
        return status;
    }
    *out = s;
    return XSM_OK;
}

static xsm_status add_options(const void *of, xsmi_settings *s, xsm_error *err)
{
    const xsm_trainer_options *o = of;
    const xsmi_number numbers[] = {XSMI_WHOLE("epochs", o->epochs), XSMI_WHOLE("evaluate_every", o->evaluate_every),
                                   XSMI_WHOLE("evaluate_train", (uint64_t)o->evaluate_train),
                                   XSMI_WHOLE("test", o->test != NULL)};
    XSMI_TRY(add_run(s, o, err));
    return xsmi_settings_add_numbers(s, numbers, sizeof numbers / sizeof *numbers, err);
}

xsm_status xsmi_trainer_agree(const xsm_model *model, const xsm_trainer_options *o, xsm_error *err)
{
    return xsmi_together_settings(model, add_options, o, err);
}
