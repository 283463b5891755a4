/* The settings of a run as text, and the comparison of two runs. */
#include "train/checkpoint_settings.h"

#include "base/activity.h"
#include "base/grow.h"
#include "base/hash.h"
#include "index/index.h"
#include "base/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PREFIX XSMI_KEY_CHECKPOINT "."
/* The numbers of rows and draws that distinguish two samplers. */
enum { PROBE_ROWS = 32, PROBE_DRAWS = 16 };

/* -- gathering ---------------------------------------------------------------------------------------------------- */

static xsm_status add(xsmi_settings *s, const char *key, const char *more, const char *value, xsm_error *err)
{
    XSMI_TRY(XSMI_GROW(s->context, s->entries, s->capacity, s->count + 1, "a run's settings", err));
    size_t first = strlen(key), rest = strlen(more);
    char *text = xsmi_copy_text(s->context, value, strlen(value));
    char *name = xsmi_allocate(s->context, first + rest + 1, 1);
    if (!text || !name) {
        xsmi_release_text(s->context, text);
        xsmi_release(s->context, name, first + rest + 1, 1);
        return xsmi_fail_memory(err, first + rest + strlen(value) + 2, "a run's settings");
    }
    memcpy(name, key, first);
    memcpy(name + first, more, rest + 1);
    s->entries[s->count++] = (xsmi_entry){name, text};
    return XSM_OK;
}

static xsm_status add_whole(xsmi_settings *s, const char *key, uint64_t value, xsm_error *err)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, value);
    return add(s, key, "", text, err);
}

static xsm_status add_hash(xsmi_settings *s, const char *key, uint64_t value, xsm_error *err)
{
    char text[32];
    snprintf(text, sizeof text, "%016" PRIx64, value);
    return add(s, key, "", text, err);
}

static xsm_status add_real(xsmi_settings *s, const char *key, double value, xsm_error *err)
{
    static const xsm_option real = {.type = XSM_OPTION_DOUBLE};
    char text[64];
    xsmi_option_print(&real, &value, text, sizeof text); /* reads back as the same number */
    return add(s, key, "", text, err);
}

typedef size_t (*getter)(const void *of, const char *name, char *buffer, size_t size);

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

static xsm_status add_option(xsmi_settings *s, const char *prefix, const xsm_option *option, const void *of, getter get,
                             xsm_error *err)
{
    size_t size = get(of, option->name, NULL, 0) + 1;
    char *value = xsmi_allocate(s->context, size, 1);
    if (!value) {
        return xsmi_fail_memory(err, size, "the value of an option");
    }
    value[0] = '\0';
    (void)get(of, option->name, value, size);
    xsm_status status = add(s, prefix, option->name, value, err);
    xsmi_release(s->context, value, size, 1);
    return status;
}

static xsm_status add_estimator(xsmi_settings *s, const xsm_estimator *e, xsm_error *err)
{
    const xsm_option *option;
    XSMI_TRY(add(s, PREFIX "estimator", "", e->ops.name, err));
    for (size_t i = 0; (option = xsm_estimator_ops_option(&e->ops, i)) != NULL; i++) {
        XSMI_TRY(add_option(s, PREFIX "estimator.", option, e, get_of_estimator, err));
    }
    for (size_t i = 0; e->sampling.sampler && (option = xsm_sampler_ops_option(&e->sampling.sampler->ops, i)) != NULL;
         i++) {
        XSMI_TRY(add_option(s, PREFIX "estimator.sampler.", option, e->sampling.sampler, get_of_sampler, err));
    }
    if (e->search.index) {
        XSMI_TRY(add(s, PREFIX "estimator.index.table", "", e->search.index->ops.name, err));
    }
    for (size_t i = 0; e->search.index && (option = xsm_index_ops_option(&e->search.index->ops, i)) != NULL; i++) {
        XSMI_TRY(add_option(s, PREFIX "estimator.index.", option, e->search.index, get_of_index, err));
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
    XSMI_TRY(add(s, XSMI_KEY_CHECKPOINT, "", "1", err));
    XSMI_TRY(add_estimator(s, e, err));
    const xsm_option *option;
    XSMI_TRY(add(s, PREFIX "optimizer", "", t->optimizer->ops.name, err));
    for (size_t i = 0; (option = xsm_optimizer_ops_option(&t->optimizer->ops, i)) != NULL; i++) {
        XSMI_TRY(add_option(s, PREFIX "optimizer.", option, t->optimizer, get_of_optimizer, err));
    }
    XSMI_TRY(add_whole(s, PREFIX "batch", o->batch, err));
    XSMI_TRY(add_real(s, PREFIX "eta", o->eta, err));
    XSMI_TRY(add(s, PREFIX "schedule", "", schedules[o->schedule], err));
    if (o->schedule == XSM_SCHEDULE_STEP) {
        XSMI_TRY(add_real(s, PREFIX "factor", o->factor, err));
    }
    XSMI_TRY(add(s, PREFIX "order", "", o->order == XSM_ORDER_FILE ? "file" : "shuffle", err));
    XSMI_TRY(add_whole(s, PREFIX "seed", o->seed, err));
    XSMI_TRY(add_whole(s, PREFIX "rows", t->rows, err));
    XSMI_TRY(add_whole(s, PREFIX "features", t->train->features, err));
    XSMI_TRY(add_whole(s, PREFIX "classes", t->train->classes, err));
    if (!t->hash.known) {
        t->hash.value = xsmi_dataset_fingerprint(t->train);
        XSMI_TRY(xsmi_go_on(t->context, err));
        t->hash.known = true;
    }
    XSMI_TRY(add_hash(s, PREFIX "data", t->hash.value, err));
    /* The order of rows in a large file differs from that of the same rows in memory. */
    size_t file = o->order == XSM_ORDER_SHUFFLE ? xsmi_dataset_order_bytes(t->train) : 0;
    if (file > 0) {
        XSMI_TRY(add_whole(s, PREFIX "file_bytes", file, err));
    }
    if (e->sampling.sampler && !e->exact) {
        XSMI_TRY(add_hash(s, PREFIX "draws", probe(e), err));
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

void xsmi_settings_free(xsmi_settings *s)
{
    for (size_t i = 0; i < s->count; i++) {
        xsmi_release_text(s->context, (char *)(uintptr_t)s->entries[i].key);
        xsmi_release_text(s->context, (char *)(uintptr_t)s->entries[i].value);
    }
    xsmi_release(s->context, s->entries, s->capacity, sizeof *s->entries);
    memset(s, 0, sizeof *s);
}

/* -- comparing ---------------------------------------------------------------------------------------------------- */

static xsm_status differs(const char *path, const char *key, const char *theirs, const char *ours, xsm_error *err)
{
    const char *name = key + sizeof PREFIX - 1;
    if (strcmp(name, "data") == 0) {
        return xsmi_fail(err, XSM_ERROR_DATA,
                         "%s: the training rows are not those that the checkpoint was made with, though as many; the "
                         "same rows in the same order, read and transformed alike, are needed",
                         path);
    }
    if (strcmp(name, "draws") == 0) {
        return xsmi_fail(err, XSM_ERROR_DATA, "%s: the sampler draws other classes than the checkpoint's did", path);
    }
    if (strcmp(name, "file_bytes") == 0) {
        return xsmi_fail(err, XSM_ERROR_DATA,
                         "%s: the checkpoint's run read its rows %s and this one reads them %s, which shuffles them "
                         "another way",
                         path, theirs ? "from a large file" : "into memory",
                         !ours    ? "into memory"
                         : theirs ? "from one of another size"
                                  : "from a large file");
    }
    bool of_data = strcmp(name, "rows") == 0 || strcmp(name, "features") == 0 || strcmp(name, "classes") == 0;
    if (!theirs || !ours) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s: %s has the setting %s = %s, %s does not", path,
                         theirs ? "the checkpoint" : "this run", name, theirs ? theirs : ours,
                         theirs ? "this run" : "the checkpoint");
    }
    return xsmi_fail(err, of_data ? XSM_ERROR_DATA : XSM_ERROR_ARGUMENT,
                     "%s: the checkpoint was made with %s = %s, this run has %s", path, name, theirs, ours);
}

static const char *value_of(const xsmi_settings *s, const char *key)
{
    for (size_t i = 0; i < s->count; i++) {
        if (strcmp(s->entries[i].key, key) == 0) {
            return s->entries[i].value;
        }
    }
    return NULL;
}

xsm_status xsmi_settings_compare(const xsmi_settings *s, const xsmi_container *file, const char *path, xsm_error *err)
{
    if (!xsmi_container_metadata(file, XSMI_KEY_CHECKPOINT)) {
        return xsmi_fail(err, XSM_ERROR_FORMAT,
                         "%s: not a checkpoint: it has no metadata entry '%s'; is it a finished model?", path,
                         XSMI_KEY_CHECKPOINT);
    }
    for (size_t i = 1; i < s->count; i++) { /* the first is the version, which is checked when the model is loaded */
        const xsmi_entry *ours = &s->entries[i];
        const char *theirs = xsmi_container_metadata(file, ours->key);
        if (!theirs || strcmp(theirs, ours->value) != 0) {
            return differs(path, ours->key, theirs, ours->value, err);
        }
    }
    const xsmi_entry *entry;
    for (size_t i = 0; (entry = xsmi_container_metadata_at(file, i)) != NULL; i++) {
        if (strncmp(entry->key, PREFIX, sizeof PREFIX - 1) == 0 && !value_of(s, entry->key)) {
            return differs(path, entry->key, entry->value, NULL, err);
        }
    }
    return XSM_OK;
}
