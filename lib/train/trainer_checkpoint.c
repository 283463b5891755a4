/*
 * Checkpoints: the whole state of a run in one file, from which the run continues to the same bits.
 *
 * A checkpoint is a model's file (model/model_save.c) with additional entries:
 *
 *     state.trainer.place   U64 [6]  complete epochs, rows done of the current one, steps, examples, the estimator's
 *                                    position in its random streams, 1 if an epoch's end has not been reported yet
 *     state.trainer.sums    F64 [3]  sum of the epoch's losses, last learning rate, seconds
 *     state.estimator.NAME  the estimator's state besides the model: its state_tensor()
 *     state.optimizer.NAME  the same of the optimizer
 *     state.search.NAME     the state of its search (estimator/searcher.c)
 *     state.sampler.NAME    the arrays of a sampler that follows the training: its save()
 *     state.scale ...       the factors of the weights (model/model_file.h)
 *
 * and the run's settings as metadata (checkpoint_settings.c). Other samplers, the order of the rows and the bases of
 * fixed minibatches follow from settings and data, and are computed again. Random streams are identified by numbers and
 * have no state of their own (base/random.h).
 */
#include "train/checkpoint_settings.h"

#include "base/activity.h"
#include "base/entry.h"
#include "base/held.h"
#include "model/divided.h"
#include "estimator/searcher.h"
#include "model/model_file.h"
#include "model/together.h"
#include "sampler/arrays.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <xsoftmax/stored_weights.h>

enum { COUNTERS = 6, SUMS = 3, NAME_SIZE = 96 };

#define COUNTERS_NAME XSMI_STATE_PREFIX "trainer.place"
#define SUMS_NAME XSMI_STATE_PREFIX "trainer.sums"

/* The contents of a checkpoint besides the model: tensors in memory, to be saved or restored, and the settings. */
typedef struct contents {
    xsm_context *context;
    xsmi_held held; /* the lists */
    const char *path;
    xsmi_container *file; /* of a checkpoint that is read */
    xsmi_settings settings;
    uint64_t counters[COUNTERS];
    double sums[SUMS];
    xsmi_tensor *tensors;     /* [capacity]; from number 2 on, `data` is borrowed from the states */
    char (*names)[NAME_SIZE]; /* [capacity] */
    xsmi_division *divisions; /* [capacity] which part of each tensor `data` has */
    size_t count, capacity;
    size_t optimizer;        /* the first tensor of the optimizer */
    size_t search;           /* the first tensor of an estimator's search */
    size_t sampler;          /* the first tensor of a sampler that follows the training */
    xsm_array_writer arrays; /* of that sampler */
    xsm_sampler *made;       /* made from such arrays */
    const void **found;      /* [capacity] the file's data of each tensor, in the same order */
    xsm_index **indexes;     /* [capacity] indexes made from these data */
} contents;

static void forget_search(const xsm_trainer *t)
{
    if (t->estimator->search.searcher) {
        xsmi_searcher_forget(t->estimator->search.searcher);
    }
}

static void contents_free(contents *c)
{
    xsmi_settings_free(&c->settings);
    for (size_t i = 0; c->indexes && i < c->capacity; i++) {
        xsm_index_free(c->indexes[i]);
    }
    xsmi_held_release(&c->held);
    xsmi_array_writer_clear(&c->arrays);
    xsm_sampler_free(c->made);
    xsmi_container_close(c->file);
}

/* -- listing ------------------------------------------------------------------------------------------------------- */

enum { OF_ESTIMATOR, OF_OPTIMIZER, OF_SEARCH, OWNERS };

/* Gets the states' tensors, one after another, and which part of them this process has. */
static xsm_status state_tensor(const xsm_trainer *t, int of, uint32_t index, xsm_state_tensor *tensor,
                               xsmi_division *division, bool *found, xsm_error *err)
{
    xsmi_accumulator_kind kind;
    *division = (xsmi_division){XSMI_UNDIVIDED, 0};
    if (of == OF_ESTIMATOR) {
        return xsmi_estimator_state_tensor(t->estimator, index, tensor, found, err);
    }
    memset(tensor, 0, sizeof *tensor);
    tensor->size = sizeof *tensor;
    if (of == OF_SEARCH) {
        *found = t->estimator->search.searcher && xsmi_searcher_tensor(t->estimator->search.searcher, index, tensor);
        return XSM_OK;
    }
    *found = xsmi_optimizer_tensor(t->optimizer, index, tensor, &kind);
    if (*found) {
        *division = xsmi_model_division(t->model, kind.classes, kind.columns, (size_t)tensor->width);
    }
    return XSM_OK;
}

static xsmi_tensor tensor_of(const char *name, const xsm_state_tensor *s)
{
    static const xsmi_dtype dtypes[] = {XSMI_DTYPE_F64, XSMI_DTYPE_U64, XSMI_DTYPE_F32, XSMI_DTYPE_U32};
    return (xsmi_tensor){
        .name = name,
        .dtype = dtypes[s->type - XSM_STATE_F64],
        .rank = 2,
        .shape = {s->lines, s->width},
        .data = s->data,
    };
}

static xsm_status contents_list(const xsm_trainer *t, contents *c, xsm_error *err)
{
    xsm_state_tensor s;
    xsmi_division division;
    bool found;
    size_t count = 2;
    if (t->estimator->search.searcher) {
        XSMI_TRY(xsmi_searcher_copy(t->estimator->search.searcher, err));
    }
    c->arrays.context = c->context;
    if (t->estimator->sampling.follows) {
        XSMI_TRY(xsmi_sampler_arrays(t->estimator->sampling.sampler, &c->arrays, err));
        count += c->arrays.count;
    }
    for (int of = 0; of < OWNERS; of++) {
        uint32_t index = 0;
        do {
            XSMI_TRY(state_tensor(t, of, index++, &s, &division, &found, err));
            count += found;
        } while (found);
    }
    c->held.context = c->context;
    c->tensors = xsmi_hold(&c->held, count, sizeof *c->tensors);
    c->names = xsmi_hold(&c->held, count, sizeof *c->names);
    c->divisions = xsmi_hold_zeros(&c->held, count, sizeof *c->divisions);
    c->found = xsmi_hold_zeros(&c->held, count, sizeof *c->found);
    c->indexes = xsmi_hold_zeros(&c->held, count, sizeof *c->indexes);
    c->capacity = count;
    XSMI_TRY(xsmi_held_check(&c->held, "a list of tensors", err));
    c->tensors[0] = (xsmi_tensor){.name = COUNTERS_NAME,
                                  .dtype = XSMI_DTYPE_U64,
                                  .rank = 1,
                                  .shape = {COUNTERS},
                                  .data = (unsigned char *)c->counters};
    c->tensors[1] = (xsmi_tensor){
        .name = SUMS_NAME, .dtype = XSMI_DTYPE_F64, .rank = 1, .shape = {SUMS}, .data = (unsigned char *)c->sums};
    c->count = 2;
    for (int of = 0; of < OWNERS; of++) {
        c->optimizer = of == OF_OPTIMIZER ? c->count : c->optimizer;
        c->search = of == OF_SEARCH ? c->count : c->search;
        for (uint32_t index = 0; c->count < count - c->arrays.count; index++) {
            XSMI_TRY(state_tensor(t, of, index, &s, &division, &found, err));
            if (!found) {
                break;
            }
            char *name = c->names[c->count];
            snprintf(name, NAME_SIZE, XSMI_STATE_PREFIX "%s%s",
                     of == OF_ESTIMATOR   ? "estimator."
                     : of == OF_OPTIMIZER ? "optimizer."
                                          : "",
                     s.name);
            for (size_t i = 0; i < c->count; i++) {
                if (strcmp(c->tensors[i].name, name) == 0) {
                    return xsmi_fail(err, XSM_ERROR_ARGUMENT, "estimator '%s': two tensors of its state are named '%s'",
                                     t->estimator->ops.name, s.name);
                }
            }
            c->tensors[c->count] = tensor_of(name, &s);
            if (division.by == XSMI_LINES) {
                c->tensors[c->count].shape[0] = t->model->classes;
            } else if (division.by == XSMI_COLUMNS) {
                c->tensors[c->count].shape[1] = xsmi_row_stride(t->model->classes); /* as in one process */
            }
            c->divisions[c->count++] = division;
        }
    }
    c->sampler = c->count;
    for (size_t i = 0; i < c->arrays.count; i++) {
        char *name = c->names[c->count];
        snprintf(name, NAME_SIZE, XSMI_STATE_PREFIX "sampler.%s", c->arrays.tensors[i].name);
        c->tensors[c->count] = c->arrays.tensors[i];
        c->tensors[c->count++].name = name;
    }
    return XSM_OK;
}

/* -- saving -------------------------------------------------------------------------------------------------------- */

/* Return how many numbers a line has, and how many this process has in all of its lines. */
static uint64_t width_of(const xsmi_tensor *t)
{
    uint64_t width = 1;
    for (uint32_t i = 1; i < t->rank; i++) {
        width *= t->shape[i];
    }
    return width;
}

static uint64_t numbers_of(const xsm_trainer *t, const contents *c, size_t index)
{
    const xsmi_tensor *tensor = &c->tensors[index];
    const xsmi_division *division = &c->divisions[index];
    const xsmi_mine mine = xsmi_model_mine(t->model);
    return division->by == XSMI_COLUMNS
               ? tensor->shape[0] * division->stride
               : width_of(tensor) * (division->by == XSMI_LINES ? mine.end - mine.first : tensor->shape[0]);
}

/* Returns where number i of what was read of a tensor is in the file's tensor. */
static uint64_t number_at(const xsmi_tensor *t, uint64_t i)
{
    const size_t each = xsmi_dtype_size(t->dtype), kept = (t->part.to - t->part.from) / each;
    return kept ? i / kept * (t->part.line / each) + t->part.from / each + i % kept : i;
}

static xsm_status check_finite(const xsmi_tensor *t, uint64_t count, const char *path, xsm_error *err)
{
    uint64_t bad = count;
    const void *data = t->data;
    for (uint64_t i = count; t->dtype == XSMI_DTYPE_F64 && i-- > 0;) {
        bad = isfinite(((const double *)data)[i]) ? bad : i;
    }
    for (uint64_t i = count; t->dtype == XSMI_DTYPE_F32 && i-- > 0;) {
        bad = isfinite(((const float *)data)[i]) ? bad : i;
    }
    if (bad < count) {
        return xsmi_fail(err, XSM_ERROR_DIVERGED, "%s: number %llu of tensor '%s' is not finite", path,
                         (unsigned long long)number_at(t, bad), t->name);
    }
    return XSM_OK;
}

/* Gathers what is saved besides the model. */
static xsm_status contents_gather(xsm_trainer *t, contents *c, xsm_error *err)
{
    XSMI_TRY(xsmi_trainer_check(t, err));
    XSMI_TRY(contents_list(t, c, err));
    for (size_t i = 0; i < c->count; i++) {
        XSMI_TRY(check_finite(&c->tensors[i], numbers_of(t, c, i), c->path, err));
    }
    return xsmi_settings_gather(t, &c->settings, err);
}

static xsm_status save(xsm_trainer *t, const xsmi_place *place, xsm_error *err)
{
    contents c = {
        .context = t->context,
        .path = place->name,
        .settings = {.context = t->context},
        .counters = {t->done.epoch, t->done.rows, t->done.steps, t->done.examples, t->estimator->position,
                     t->report.pending && !t->report.running},
        .sums = {t->done.loss_sum, t->done.eta, t->done.seconds},
    };
    xsm_status status = xsmi_together(t->model, contents_gather(t, &c, err), err);
    if (status == XSM_OK) {
        xsmi_model_extras extras = {c.tensors, c.divisions, c.count, c.settings.entries, c.settings.count};
        status = xsmi_model_save_state(t->model, place, &extras, err);
    }
    contents_free(&c);
    forget_search(t);
    return status;
}

static xsm_status save_at(xsm_trainer *t, const char *path, const xsm_storage *storage, xsm_error *err)
{
    xsm_storage known;
    xsmi_place place;
    if (t->running && !t->report.running) {
        return xsmi_fail(err, XSM_ERROR_STATE,
                         "xsm_trainer_checkpoint: the trainer is in the middle of a step; accepted are calls between "
                         "runs and in the trainer's callback");
    }
    XSMI_TRY(xsmi_place_to_write(path, storage, &known, "xsm_trainer_checkpoint", &place, err));
    return save(t, &place, err);
}

xsm_status xsm_trainer_checkpoint(xsm_trainer *t, const char *path, const xsm_storage *storage, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {t, "the trainer"});
    return XSMI_TOGETHER(t->model, save_at(t, path, storage, err), err);
}

/* -- resuming ------------------------------------------------------------------------------------------------------ */

/* What decides which part of a tensor is read: of weights and of other divided tensors, this process's part. */
typedef struct chooser {
    const xsm_model *model;
    const contents *contents;
} chooser;

static bool same_shape(const xsmi_tensor *t, const xsmi_tensor *expected)
{
    return t->dtype == expected->dtype && t->rank == expected->rank &&
           memcmp(t->shape, expected->shape, t->rank * sizeof *t->shape) == 0;
}

static void choose(const void *state, const xsmi_tensor *t, xsmi_tensor_part *part)
{
    const chooser *of = state;
    const xsm_model *m = of->model;
    const contents *c = of->contents;
    xsmi_model_choose_part(m->context, t, part);
    for (size_t i = 0; i < c->count; i++) {
        if (c->divisions[i].by == XSMI_UNDIVIDED || strcmp(c->tensors[i].name, t->name) != 0 ||
            !same_shape(t, &c->tensors[i])) { /* find() refuses another shape */
            continue;
        }
        const bool lines = c->divisions[i].by == XSMI_LINES;
        const size_t each = xsmi_dtype_size(t->dtype) * (lines ? (size_t)width_of(t) : 1);
        *part = xsmi_model_division_part(m, t, lines, each);
    }
}

/* Finds the file's tensor for an expected one. */
static xsm_status find(const contents *c, const xsmi_tensor *expected, const xsmi_tensor **out, xsm_error *err)
{
    const xsmi_tensor *t = xsmi_container_tensor(c->file, expected->name);
    if (!t) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: the checkpoint has no tensor '%s'", c->path, expected->name);
    }
    if (!same_shape(t, expected)) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: tensor '%s' has another shape or dtype than this run's", c->path,
                         expected->name);
    }
    *out = t;
    return check_finite(t, xsmi_tensor_kept(t) / xsmi_dtype_size(t->dtype), c->path, err);
}

/* Checks the numbers of tensor `index` of an optimizer. */
static xsm_status check_memory(const xsm_optimizer *o, size_t index, const xsmi_tensor *t, const char *path,
                               xsm_error *err)
{
    const float *numbers = (const float *)(const void *)t->data;
    xsm_state_tensor expected;
    xsmi_accumulator_kind kind = {.least = -FLT_MAX};
    xsmi_optimizer_tensor(o, (uint32_t)index, &expected, &kind);
    for (size_t i = 0; i < xsmi_tensor_kept(t) / sizeof *numbers; i++) {
        if (numbers[i] < kind.least) {
            return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: number %llu of tensor '%s' is %g; %g and more is accepted",
                             path, (unsigned long long)number_at(t, i), t->name, (double)numbers[i],
                             (double)kind.least);
        }
    }
    return XSM_OK;
}

/* Refuses tensors that this run does not have, as their contents would be lost. */
static xsm_status check_unknown(const contents *c, xsm_error *err)
{
    static const char *const models[] = {XSMI_STATE_SCALE, XSMI_STATE_ROW_SCALE, XSMI_STATE_ROW_LENGTH,
                                         XSMI_STATE_ROW_AGE, XSMI_STATE_LAYER_SCALE};
    const xsmi_tensor *t;
    for (size_t i = 0; (t = xsmi_container_tensor_at(c->file, i)) != NULL; i++) {
        bool known = strncmp(t->name, XSMI_STATE_PREFIX, sizeof XSMI_STATE_PREFIX - 1) != 0;
        for (size_t j = 0; j < sizeof models / sizeof *models; j++) {
            known |= strcmp(t->name, models[j]) == 0;
        }
        for (size_t j = 0; j < c->count; j++) {
            known |= strcmp(t->name, c->tensors[j].name) == 0;
        }
        if (!known) {
            return xsmi_fail(err, XSM_ERROR_FORMAT,
                             "%s: the checkpoint has a tensor '%s', which this run has no use for", c->path, t->name);
        }
    }
    return XSM_OK;
}

/* Finds the lengths of rows of weights: the file must have both tensors or none. */
static xsm_status find_lengths(const contents *c, uint32_t classes, const double **squares, const uint64_t **ages,
                               xsm_error *err)
{
    *squares = NULL;
    *ages = NULL;
    const xsmi_tensor expected[] = {
        {.name = XSMI_STATE_ROW_LENGTH, .dtype = XSMI_DTYPE_F64, .rank = 1, .shape = {classes}},
        {.name = XSMI_STATE_ROW_AGE, .dtype = XSMI_DTYPE_U64, .rank = 1, .shape = {classes}},
    };
    const xsmi_tensor *length, *age;
    if (!xsmi_container_tensor(c->file, expected[0].name) && !xsmi_container_tensor(c->file, expected[1].name)) {
        return XSM_OK;
    }
    XSMI_TRY(find(c, &expected[0], &length, err));
    XSMI_TRY(find(c, &expected[1], &age, err));
    *squares = (const double *)(const void *)length->data;
    *ages = (const uint64_t *)(const void *)age->data;
    return XSM_OK;
}

static xsm_status check_place(const xsm_trainer *t, const contents *c, xsm_error *err)
{
    const uint64_t *counters = c->counters;
    const double *sums = c->sums;
    if (counters[1] >= t->rows || counters[5] > 1 || (counters[5] && counters[1] > 0) || !(sums[1] >= 0) ||
        !(sums[2] >= 0)) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: the checkpoint's counters are impossible in a run of %llu rows",
                         c->path, (unsigned long long)t->rows);
    }
    if (counters[0] > t->options.epochs || (counters[0] == t->options.epochs && counters[1] > 0)) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "%s: the checkpoint is %llu rows into epoch %llu, beyond the %llu epochs of this run", c->path,
                         (unsigned long long)counters[1], (unsigned long long)counters[0] + 1,
                         (unsigned long long)t->options.epochs);
    }
    return XSM_OK;
}

/* Copies the numbers that were read to the state. */
static void put_state(const xsmi_tensor *state, const xsmi_division *division, const xsmi_tensor *stored)
{
    unsigned char *to = (unsigned char *)(uintptr_t)state->data;
    if (division->by != XSMI_COLUMNS) {
        memcpy(to, stored->data, xsmi_tensor_kept(stored));
        return;
    }
    const size_t line = stored->part.to - stored->part.from, stride = division->stride * xsmi_dtype_size(stored->dtype);
    for (size_t i = 0; i < stored->shape[0]; i++) {
        memcpy(to + i * stride, stored->data + i * line, line);
    }
}

/* Checks that the rows have the checkpoint's features; the error names the first that differs. */
static xsm_status check_features(const xsm_trainer *t, const contents *c, xsm_error *err)
{
    xsmi_schema *theirs = NULL;
    XSMI_TRY(xsmi_schema_load(t->context, c->file, c->path, &theirs, err));
    const xsmi_feature_side rows = {t->train->schema, 0, "the training rows"};
    const xsmi_feature_side wanted = {theirs, 0, "the checkpoint"};
    const xsm_status status = xsmi_features_match(&rows, &wanted, NULL, err);
    xsmi_schema_release(theirs);
    return status;
}

/* Checks everything before it changes anything; restoring the model is the last step that can fail, on all processes
 * together. */
static xsm_status resume(xsm_trainer *t, contents *c, xsm_model **loaded, xsmi_host_tensors *host, xsm_error *err)
{
    const double *squares;
    const uint64_t *ages;
    const xsmi_tensor *stored = NULL;
    if (xsmi_container_metadata(c->file, XSMI_KEY_CHECKPOINT)) {
        XSMI_TRY(check_features(t, c, err));
    }
    XSMI_TRY(xsmi_settings_compare(&c->settings, c->file, c->path, err));
    for (size_t i = 0; i < c->count; i++) {
        XSMI_TRY(find(c, &c->tensors[i], &stored, err));
        if (i >= c->optimizer && i < c->search) {
            XSMI_TRY(check_memory(t->optimizer, i - c->optimizer, stored, c->path, err));
        }
        c->found[i] = stored->data;
        if (i < 2) {
            memcpy(i ? (void *)c->sums : (void *)c->counters, stored->data, stored->size);
        }
    }
    XSMI_TRY(check_unknown(c, err));
    XSMI_TRY(find_lengths(c, t->model->classes, &squares, &ages, err));
    XSMI_TRY(check_place(t, c, err));
    XSMI_TRY(xsmi_model_from_container(t->context, c->file, c->path, loaded, err));
    xsmi_searcher *searcher = t->estimator->search.searcher;
    if (searcher) {
        XSMI_TRY(xsmi_searcher_restore(searcher, t->estimator->search.index, *loaded, c->found + c->search, c->indexes,
                                       err));
    }
    for (size_t i = 0; i < c->arrays.count; i++) {
        c->arrays.tensors[i].data = c->found[c->sampler + i];
    }
    if (t->estimator->sampling.follows) {
        const xsm_array_reader reader = {c->arrays.tensors, c->arrays.count, c->path, NULL};
        XSMI_TRY(xsmi_sampler_from_arrays(t->estimator->sampling.sampler, &reader, &c->made, err));
    }
    XSMI_TRY(xsm_model_set_layout(t->model, t->layout, err));
    XSMI_TRY(xsmi_host_tensors_copy(t->model->context, &(*loaded)->host, host, err));
    XSMI_TRY(xsmi_model_restore(t->model, *loaded, squares, ages, err));
    const xsmi_host_tensors before = t->model->host;
    t->model->host = *host;
    *host = before; /* to be released */
    if (searcher) {
        xsmi_searcher_install(searcher, c->found + c->search, c->indexes);
    }
    if (c->made) {
        xsmi_sampler_exchange(t->estimator->sampling.sampler, c->made);
    }
    for (size_t i = 2; i < c->search; i++) {
        stored = xsmi_container_tensor(c->file, c->tensors[i].name);
        put_state(&c->tensors[i], &c->divisions[i], stored);
    }
    t->done.epoch = c->counters[0];
    t->done.rows = c->counters[1];
    t->done.steps = t->optimizer->steps = c->counters[2];
    t->done.examples = c->counters[3];
    t->estimator->position = c->counters[4];
    t->report.pending = c->counters[5] != 0;
    t->sequence.ready = false;
    t->sequence.ahead = UINT64_MAX;
    if (t->window) {
        xsmi_window_forget(t->window);
    }
    if (t->done.rows > 0) {
        xsmi_activity shield; /* the weights are those of the checkpoint already */
        xsmi_shield(&shield, t->context);
        (void)xsmi_trainer_order_rows(t, NULL);
        xsmi_unshield(&shield);
    }
    t->done.loss_sum = c->sums[0];
    t->done.eta = c->sums[1];
    t->done.seconds = c->sums[2];
    return XSM_OK;
}

static xsm_status open_file(xsm_trainer *t, const xsmi_place *place, contents *c, xsm_error *err)
{
    XSMI_TRY(xsmi_trainer_check(t, err));
    XSMI_TRY(contents_list(t, c, err));
    const chooser of = {t->model, c};
    const xsmi_open_how how = {.choose = xsmi_model_is_divided(t->model) ? choose : NULL, .chooser = &of};
    XSMI_TRY(xsmi_container_open_at(t->context, place, how, &c->file, err));
    return xsmi_settings_gather(t, &c->settings, err);
}

static xsm_status load(xsm_trainer *t, const xsmi_place *place, xsm_error *err)
{
    contents c = {.context = t->context, .path = place->name, .settings = {.context = t->context}};
    xsm_model *loaded = NULL; /* owns the mapping from then on, so it is freed last */
    xsmi_host_tensors host = {NULL, 0, 0};
    xsm_status status = xsmi_together(t->model, open_file(t, place, &c, err), err);
    status = status == XSM_OK ? xsmi_together_file(t->model, c.file, c.path, err) : status;
    if (status == XSM_OK) {
        status = resume(t, &c, &loaded, &host, err);
    }
    status = xsmi_together(t->model, status, err);
    xsmi_host_tensors_clear(t->model->context, &host);
    contents_free(&c);
    forget_search(t);
    xsm_model_free(loaded);
    return status;
}

static xsm_status resume_from(xsm_trainer *t, const char *path, const xsm_storage *storage, xsm_error *err)
{
    xsm_storage known;
    xsmi_place place;
    if (t->running) {
        return xsmi_fail(err, XSM_ERROR_STATE,
                         "xsm_trainer_resume: the trainer is running: this is in a callback of its run");
    }
    XSMI_TRY(xsmi_place_to_read(path, storage, &known, "xsm_trainer_resume", &place, err));
    XSMI_TRY(xsmi_place_check_unlent(&place, err));
    return load(t, &place, err);
}

xsm_status xsm_trainer_resume(xsm_trainer *t, const char *path, const xsm_storage *storage, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {t, "the trainer"});
    return XSMI_TOGETHER(t->model, resume_from(t, path, storage, err), err);
}
