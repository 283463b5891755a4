/*
 * A host's own loop: gradients, steps, dL/dx, features that come with the batches, streams.
 */
#include "bits.h"

#include <xsoftmax/ext/optimizer.h>

#include <stdlib.h>

/* Where the rows of a loop come from. */
enum { FROM_DATASET, LABELS_ALONE, STREAM };

typedef struct loop {
    bits_training t;
    int source;
    bool input, only_gradients; /* dL/dx besides; the gradients are hashed, not the weights */
} loop;

/* Class, coefficient and factor of each place of a gradient, wherever they lie. */
static xsm_status add_gradient(uint64_t *hash, const xsm_gradient *gradient)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_gradient_view v = XSM_GRADIENT_VIEW_INIT;
    xsm_status status = xsm_gradient_get_view(gradient, &v, &err);
    for (uint64_t i = 0; status == XSM_OK && i < v.examples; i++) {
        uint64_t length = v.lengths ? v.lengths[i] : v.width;
        bits_add_count(hash, length);
        for (uint64_t j = 0; j < length; j++) {
            bits_add_count(hash, v.classes ? v.classes[i * v.width + j] : j);
        }
        bits_add(hash, v.coefficients + i * v.width, length * sizeof *v.coefficients);
        if (v.shrinks) {
            bits_add(hash, v.shrinks + i * v.width, length * sizeof *v.shrinks);
        }
    }
    bits_add_double(hash, v.decay);
    bits_add_double(hash, v.row_bound);
    return status;
}

/* The rows first..first+count with features, and for a stream labels, of the host's own. */
static xsm_batch batch_of(const loop *l, const bits_rig *rig, const bits_rows *rows, const uint64_t *ids,
                          uint64_t first, uint64_t count)
{
    xsm_batch b = xsm_batch_range(rig->data, first, count);
    if (l->source == FROM_DATASET) {
        return b;
    }
    b = rows->sparse ? xsm_batch_sparse_values(rows->offsets + first, rows->index, rows->values, count, rows->features)
                     : xsm_batch_values(rows->values + first * rows->features, count, rows->features, rows->features);
    if (l->source == LABELS_ALONE) {
        b.dataset = rig->data;
        b.first = first;
    } else {
        b.labels = l->t.several ? rows->labels : rows->first + first;
        b.label_offsets = l->t.several ? rows->label_offsets + first : NULL;
        b.ids = ids + first;
    }
    return b;
}

static xsm_status bind(const loop *l, const bits_rows *rows, bits_rig *rig)
{
    xsm_error err = XSM_ERROR_INIT;
    if (l->source == FROM_DATASET) {
        return xsm_estimator_bind(rig->estimator, rig->model, rig->data, &err);
    }
    if (l->source == LABELS_ALONE) {
        return xsm_estimator_bind_labels(rig->estimator, rig->model, rig->data, &err);
    }
    xsm_stream_options options = XSM_STREAM_OPTIONS_INIT;
    options.examples = rows->rows;
    options.ids = rows->rows;
    options.labels = l->t.several ? 3 : 1;
    options.batch = l->t.batch;
    options.class_counts = test_class_counts(rig->data);
    return xsm_estimator_bind_stream(rig->estimator, rig->model, &options, &err);
}

static xsm_status run_loop(const bits_machine *machine, const void *what, uint64_t *hash)
{
    const loop *l = what;
    const bits_rows *rows = machine->rows[l->t.set];
    xsm_error err = XSM_ERROR_INIT;
    bits_rig rig;
    xsm_gradient *g = NULL;
    uint64_t *ids = malloc(rows->rows * sizeof *ids);
    float *input = calloc(l->t.batch * rows->features, sizeof *input);
    xsm_status status;
    if (!ids || !input) {
        bits_fail("out of memory");
    }
    for (uint64_t i = 0; i < rows->rows; i++) {
        ids[i] = i % 4 == 3 ? XSM_NO_ID : i / 2 * 2; /* some come twice, some have none */
    }
    BITS_TRY(bits_rig_new(machine, &l->t, &rig));
    BITS_TRY(bind(l, rows, &rig));
    BITS_TRY(xsm_optimizer_bind(rig.optimizer, rig.model, &err));
    BITS_TRY(xsm_gradient_new(machine->context, &g, &err));
    for (uint64_t i = 0; i < rows->rows; i += l->t.batch) {
        uint64_t count = rows->rows - i < l->t.batch ? rows->rows - i : l->t.batch;
        xsm_batch b = batch_of(l, &rig, rows, ids, i, count);
        if (l->input) {
            BITS_TRY(xsm_estimator_gradient_input(rig.estimator, &b, l->t.eta, g, input, rows->features, &err));
            bits_add(hash, input, count * rows->features * sizeof *input);
        } else {
            BITS_TRY(xsm_estimator_gradient(rig.estimator, &b, l->t.eta, g, &err));
        }
        if (l->only_gradients) {
            BITS_TRY(add_gradient(hash, g));
        }
        BITS_TRY(xsm_optimizer_apply(rig.optimizer, &b, g, l->t.eta, &err));
    }
    if (!l->only_gradients && !l->input) {
        BITS_TRY(bits_add_model(hash, rig.model, rig.data));
    }
end:
    free(ids);
    free(input);
    xsm_gradient_free(g);
    bits_rig_free(&rig);
    return status;
}

static void loops_of(const char *name, int form)
{
    static const char *const sources[] = {"", ", the host's features", ", a stream"};
    loop l = {.t = bits_training_of(name, form)};
    l.t.batch = 7; /* the last one is shorter */
    l.only_gradients = true;
    bits_record(run_loop, &l, "gradients %s, %s", name, bits_forms[form]);
    l.t.several = true;
    bits_record(run_loop, &l, "gradients %s, %s, several labels a row", name, bits_forms[form]);
    l.t.several = false;
    l.only_gradients = false;
    for (l.source = FROM_DATASET; l.source <= STREAM; l.source++) {
        for (size_t o = 0; xsm_optimizer_at(o); o++) {
            l.t.optimizer = xsm_optimizer_at(o)->name;
            bits_record(run_loop, &l, "loop %s, %s, %s%s", name, bits_forms[form], l.t.optimizer, sources[l.source]);
        }
    }
    l.t.optimizer = "sgd";
    l.t.several = true;
    l.source = STREAM;
    bits_record(run_loop, &l, "loop %s, %s, several labels a row%s", name, bits_forms[form], sources[l.source]);
    l.t.several = false;
    l.source = FROM_DATASET;
    l.input = true;
    for (l.t.batch = 1; l.t.batch <= 7; l.t.batch += 6) {
        bits_record(run_loop, &l, "input %s, %s, dL/dx, batches of %d", name, bits_forms[form], (int)l.t.batch);
    }
}

/* dL/dx is a sum over the classes: of many, and where a batch has many rows. */
static void wide_inputs_of(const char *name)
{
    loop l = {.t = bits_training_of(name, BITS_DENSE), .input = true};
    l.t.set = BITS_WIDE_ROWS;
    l.t.batch = 100;
    bits_record(run_loop, &l, "input %s, wide, dL/dx, batches of 100", name);
}

static void long_inputs_of(const bits_sum *sum, int form)
{
    loop l = {.t = bits_training_long(sum, form), .input = true};
    bits_record(run_loop, &l, "input %s, %s, long", sum->name, bits_forms[form]);
}

void bits_of_loops(void)
{
    const xsm_estimator_ops *ops;
    for (size_t i = 0; (ops = xsm_estimator_at(i)); i++) {
        for (int form = 0; form < BITS_FORMS; form++) {
            loops_of(ops->name, form);
        }
        wide_inputs_of(ops->name);
    }
    for (const bits_sum *sum = bits_sums; sum->name; sum++) {
        long_inputs_of(sum, BITS_DENSE);
        long_inputs_of(sum, BITS_SPARSE);
    }
}
