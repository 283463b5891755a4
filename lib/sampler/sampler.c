/*
 * The layer between samplers' tables and their users: it owns the state's memory, sets options, computes codes of rows
 * and positions the random streams.
 */
#include "sampler/sampler.h"
#include "base/activity.h"
#include "base/entry.h"
#include "base/safetensors.h"

#include <string.h>

static const xsm_option common_options[] = {
    XSMI_OPTION_SEED(xsmi_sampler_common, "names the random stream of what is random in making the distribution"),
};

static xsmi_option_group options_of(const xsm_sampler_ops *ops, void *common, void *state)
{
    xsmi_option_group group = {
        "sampler",
        ops->name,
        {[XSMI_OPTIONS_COMMON] = XSMI_OPTION_TABLE(common_options),
         [XSMI_OPTIONS_OWN] = {ops->options, ops->option_count}},
        {[XSMI_OPTIONS_COMMON] = common, [XSMI_OPTIONS_OWN] = state},
    };
    return group;
}

/* -- tables -------------------------------------------------------------------------------------------------------- */

/* xsm_sampler_ops_option() */
XSMI_DESCRIBE_OPS(sampler)

static xsm_status read_ops(const xsm_sampler_ops *given, xsm_sampler_ops *ops, xsm_error *err)
{
    memset(ops, 0, sizeof *ops);
    XSMI_TRY(XSMI_READ_TABLE(xsm_sampler_ops, ops, given, err));
    if (!ops->name || !ops->summary || !ops->bind || !ops->draw || !ops->log_probability) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "sampler '%s': the table needs name, summary, bind(), draw() and log_probability()",
                         ops->name ? ops->name : "?");
    }
    if (ops->flags & ~(uint32_t)XSM_SAMPLER_TREE) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "sampler '%s': flags 0x%x are not known", ops->name,
                         ops->flags & ~(uint32_t)XSM_SAMPLER_TREE);
    }
    if (!ops->code_length != !ops->encode) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "sampler '%s': code_length() and encode() go together", ops->name);
    }
    if (!ops->save != !ops->load) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "sampler '%s': save() and load() go together", ops->name);
    }
    if ((ops->flags & XSM_SAMPLER_TREE) && (!ops->save || !ops->code_length)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "sampler '%s': XSM_SAMPLER_TREE needs code_length(), encode(), save() and load()", ops->name);
    }
    if (ops->follow && (!ops->save || (ops->flags & XSM_SAMPLER_TREE))) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "sampler '%s': follow() needs save() and load(), and does not go with XSM_SAMPLER_TREE",
                         ops->name);
    }
    xsmi_option_group group = options_of(ops, NULL, NULL);
    return xsmi_group_check(&group, ops->state_size, err);
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

xsm_status xsm_sampler_new_from(xsm_context *context, const xsm_sampler_ops *given, xsm_sampler **out, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_TRY(xsmi_need("xsm_sampler_new", XSMI_GIVEN({out, "out"}, {given, "the table"}), err));
    xsm_sampler_ops ops;
    XSMI_TRY(read_ops(given, &ops, err));
    xsm_sampler *s;
    XSMI_TRY(XSMI_OBJECT_NEW(context, &s, xsm_sampler, "a sampler", err));
    xsmi_holders_start(&s->holders);
    s->ops = ops;
    const xsm_status status = xsmi_struct_new(s->context, &s->state, ops.state_size, "a sampler", err);
    if (status != XSM_OK) {
        XSMI_OBJECT_FREE(s, xsm_sampler);
        return status;
    }
    xsmi_option_group group = options_of(&s->ops, &s->common, s->state);
    xsmi_option_defaults(&group.table[XSMI_OPTIONS_COMMON], &s->common);
    xsmi_option_defaults(&group.table[XSMI_OPTIONS_OWN], s->state);
    *out = s;
    return XSM_OK;
}

void xsmi_sampler_unbind(xsm_sampler *s)
{
    if (s->bound) {
        if (s->ops.unbind) {
            s->ops.unbind(s->state);
        }
        s->bound = false;
        xsmi_schema_release(s->schema);
        s->schema = NULL;
    }
}

void xsmi_sampler_exchange(xsm_sampler *a, xsm_sampler *b)
{
    void *state = a->state;
    a->state = b->state;
    b->state = state;
}

xsm_sampler *xsm_sampler_ref(const xsm_sampler *sampler)
{
    return xsmi_sampler_retain(sampler);
}

void xsm_sampler_free(xsm_sampler *s)
{
    if (s && xsmi_holders_drop(&s->holders)) {
        xsm_context *ctx = s->context;
        xsmi_sampler_unbind(s);
        xsmi_release(ctx, s->state, s->ops.state_size, 1);
        XSMI_OBJECT_FREE(s, xsm_sampler);
    }
}

xsm_status xsm_sampler_get_info(const xsm_sampler *s, xsm_sampler_info *info, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {s, "the sampler"});
    xsm_sampler_info known = XSM_SAMPLER_INFO_INIT;
    known.name = s->ops.name;
    known.classes = s->bound ? s->classes : 0;
    return XSMI_WRITE(xsm_sampler_info, &known, info, err);
}

/* -- options ------------------------------------------------------------------------------------------------------- */

xsmi_option_group xsmi_sampler_options(const xsm_sampler *s)
{
    return options_of(&s->ops, (void *)(uintptr_t)&s->common, s->state);
}

static const char *closed(const xsm_sampler *s)
{
    return s->bound ? "before the sampler is bound" : NULL;
}

/* xsm_sampler_set(), _set_number(), _get() */
XSMI_OBJECT_OPTIONS(sampler, closed, &object->common)

/* -- binding ------------------------------------------------------------------------------------------------------- */

xsm_status xsmi_sampler_bind(xsm_sampler *s, const xsm_dataset *train, uint32_t features, xsm_error *err)
{
    xsmi_sampler_unbind(s);
    xsm_sampler_problem problem = {
        .size = sizeof problem,
        .context = s->context,
        .train = train,
        .examples = train->rows,
        .classes = train->classes,
        .features = features,
        .class_counts = train->map.counts,
        .seed = (uint64_t)s->common.seed,
    };
    xsmi_activity activity;
    xsmi_begin(&activity, s->context, "binding a sampler", "rows", 0);
    xsm_status status = xsmi_end(&activity, s->ops.bind(s->state, &problem, err), err);
    if (status != XSM_OK) {
        if (s->ops.unbind) {
            s->ops.unbind(s->state);
        }
        return status;
    }
    s->bound = true;
    s->classes = train->classes;
    s->features = features;
    s->code_length = s->ops.code_length ? s->ops.code_length(s->state) : 0;
    s->schema = s->code_length > 0 && features == train->features ? xsmi_schema_retain(train->schema) : NULL;
    return XSM_OK;
}

xsm_status xsm_sampler_bind(xsm_sampler *s, const xsm_dataset *train, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {s, "the sampler"}, {train, "the data"});
    if (atomic_load(&s->users) > 0) {
        return xsmi_fail(err, XSM_ERROR_STATE,
                         "sampler '%s': an estimator that is bound draws from it; a sampler is bound before its "
                         "estimators, or once they are freed",
                         s->ops.name);
    }
    return xsmi_sampler_bind(s, train, train->features, err);
}

/* -- codes --------------------------------------------------------------------------------------------------------- */

void xsmi_sampler_encode(const xsm_sampler *s, const xsmi_features *x, float *code)
{
    xsm_row view = XSM_ROW_INIT;
    view.values = x->values;
    view.index = x->index;
    view.count = x->count;
    s->ops.encode(s->state, &view, code);
}

void xsmi_sampler_encode_batch(const xsm_sampler *s, const xsm_batch *batch, size_t i, float *code)
{
    if (s->code_length > 0) {
        xsmi_features x = xsmi_batch_features(batch, i);
        xsm_row view = XSM_ROW_INIT;
        size_t labels = 0;
        view.values = x.values;
        view.index = x.index;
        view.count = x.count;
        view.labels = batch->dataset ? xsmi_dataset_labels(batch->dataset, xsmi_batch_row(batch, i), &labels) : NULL;
        view.label_count = labels;
        s->ops.encode(s->state, &view, code);
    }
}

void xsmi_code_test(xsmi_code_fault *fault, const float *code, size_t length, uint64_t row)
{
    unsigned long long least = atomic_load_explicit(fault, memory_order_relaxed);
    while (row < least && !xsmi_floats_finite(code, length) && !atomic_compare_exchange_weak(fault, &least, row)) {
    }
}

xsm_status xsmi_code_check(const xsm_sampler *s, const xsmi_code_fault *fault, xsm_error *err)
{
    const unsigned long long row = atomic_load(fault);
    return row == XSMI_CODE_FAULT ? XSM_OK
                                  : xsmi_fail(err, XSM_ERROR_RANGE,
                                              "row %llu (from 0): sampler '%s' computes numbers from its features that "
                                              "are not finite; they are too large",
                                              row, s->ops.name);
}

/* Rows whose codes one job makes. */
#define ENCODE_ROWS 256

typedef struct encode_job {
    const xsm_sampler *sampler;
    const xsm_dataset *data;
    float *codes;
    xsmi_code_fault fault;
} encode_job;

static void run_encode(void *state, const xsmi_range *r)
{
    encode_job *job = state;
    const xsm_sampler *s = job->sampler;
    xsm_batch batch = xsm_batch_range(job->data, r->first, r->end - r->first);
    for (size_t i = 0; i < batch.count && !xsmi_poll(s->context); i++) {
        float *code = job->codes + (r->first + i) * s->code_length;
        xsmi_sampler_encode_batch(s, &batch, i, code);
        xsmi_code_test(&job->fault, code, s->code_length, r->first + i);
    }
}

xsm_status xsmi_sampler_encode_all(const xsm_sampler *s, xsm_context *ctx, const xsm_dataset *data, float *codes,
                                   xsm_error *err)
{
    encode_job job = {s, data, codes, XSMI_CODE_FAULT};
    XSMI_TRY(xsmi_run_ranges(ctx, run_encode, &job, data->rows, ENCODE_ROWS, err));
    return xsmi_code_check(s, &job.fault, err);
}

/* -- random numbers for the host's tables -------------------------------------------------------------------------- */

uint32_t xsm_random_bits(xsm_random *random)
{
    return random ? xsmi_stream_next(&random->stream) : 0;
}

uint64_t xsm_random_below(xsm_random *random, uint64_t n)
{
    return random ? xsmi_stream_below(&random->stream, n) : 0;
}

double xsm_random_uniform(xsm_random *random)
{
    return random ? xsmi_stream_uniform(&random->stream) : 0;
}
