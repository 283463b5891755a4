/* The settings of a trainer's run. */
#include "train/checkpoint_settings.h"

#include "base/activity.h"
#include "base/hash.h"
#include "index/index.h"
#include "base/random.h"

#define PREFIX XSMI_SETTINGS_PREFIX
/* The numbers of rows and draws that distinguish two samplers. */
enum { PROBE_ROWS = 32, PROBE_DRAWS = 16 };

static size_t get_of_estimator(const void *of, const char *name, char *buffer, size_t size)
{
    return xsm_estimator_get(of, name, buffer, size);
}

static size_t get_of_optimizer(const void *of, const char *name, char *buffer, size_t size)
{
    return xsm_optimizer_get(of, name, buffer, size);
}

static size_t get_of_sampler(const void *of, const char *name, char *buffer, size_t size)
{
    return xsm_sampler_get(of, name, buffer, size);
}

static size_t get_of_index(const void *of, const char *name, char *buffer, size_t size)
{
    return xsm_index_get(of, name, buffer, size);
}

static xsm_status add_estimator(xsmi_settings *s, const xsm_estimator *e, xsm_error *err)
{
    const xsm_option *option;
    XSMI_TRY(xsmi_settings_add(s, PREFIX "estimator", "", e->ops.name, err));
    for (size_t i = 0; (option = xsm_estimator_ops_option(&e->ops, i)) != NULL; i++) {
        XSMI_TRY(xsmi_settings_add_option(s, PREFIX "estimator.", option, e, get_of_estimator, err));
    }
    for (size_t i = 0; e->sampling.sampler && (option = xsm_sampler_ops_option(&e->sampling.sampler->ops, i)) != NULL;
         i++) {
        XSMI_TRY(
            xsmi_settings_add_option(s, PREFIX "estimator.sampler.", option, e->sampling.sampler, get_of_sampler, err));
    }
    if (e->search.index) {
        XSMI_TRY(xsmi_settings_add(s, PREFIX "estimator.index.table", "", e->search.index->ops.name, err));
    }
    for (size_t i = 0; e->search.index && (option = xsm_index_ops_option(&e->search.index->ops, i)) != NULL; i++) {
        XSMI_TRY(xsmi_settings_add_option(s, PREFIX "estimator.index.", option, e->search.index, get_of_index, err));
    }
    return XSM_OK;
}

/* A hash of a sampler's draws for some rows: a host's sampler may have been made elsewhere. */
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

static xsm_status gather(xsm_trainer *t, xsmi_settings *s, xsm_error *err)
{
    static const char *const schedules[] = {"constant", "step", "inverse", "sqrt"}; /* XSM_SCHEDULE_* */
    const xsm_trainer_options *o = &t->options;
    const xsm_estimator *e = t->estimator;
    XSMI_TRY(xsmi_settings_add(s, XSMI_KEY_CHECKPOINT, "", "1", err));
    XSMI_TRY(add_estimator(s, e, err));
    const xsm_option *option;
    XSMI_TRY(xsmi_settings_add(s, PREFIX "optimizer", "", t->optimizer->ops.name, err));
    for (size_t i = 0; (option = xsm_optimizer_ops_option(&t->optimizer->ops, i)) != NULL; i++) {
        XSMI_TRY(xsmi_settings_add_option(s, PREFIX "optimizer.", option, t->optimizer, get_of_optimizer, err));
    }
    XSMI_TRY(xsmi_settings_add_whole(s, PREFIX "batch", o->batch, err));
    XSMI_TRY(xsmi_settings_add_real(s, PREFIX "eta", o->eta, err));
    XSMI_TRY(xsmi_settings_add(s, PREFIX "schedule", "", schedules[o->schedule], err));
    if (o->schedule == XSM_SCHEDULE_STEP) {
        XSMI_TRY(xsmi_settings_add_real(s, PREFIX "factor", o->factor, err));
    }
    XSMI_TRY(xsmi_settings_add(s, PREFIX "order", "", o->order == XSM_ORDER_FILE ? "file" : "shuffle", err));
    XSMI_TRY(xsmi_settings_add_whole(s, PREFIX "seed", o->seed, err));
    XSMI_TRY(xsmi_settings_add_whole(s, PREFIX "rows", t->rows, err));
    XSMI_TRY(xsmi_settings_add_whole(s, PREFIX "features", t->train->features, err));
    XSMI_TRY(xsmi_settings_add_whole(s, PREFIX "classes", t->train->classes, err));
    const uint64_t hash = xsmi_dataset_fingerprint(t->train);
    XSMI_TRY(xsmi_go_on(t->context, err));
    XSMI_TRY(xsmi_settings_add_hash(s, PREFIX "data", hash, err));
    /* The order of rows in a large file differs from that of the same rows in memory. */
    size_t file = o->order == XSM_ORDER_SHUFFLE ? xsmi_dataset_order_bytes(t->train) : 0;
    if (file > 0) {
        XSMI_TRY(xsmi_settings_add_whole(s, PREFIX "file_bytes", file, err));
    }
    if (e->sampling.sampler && !e->exact) {
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
