/*
 * Passes over all parameters of a model: tests for zeros, zeroing, the squared norm.
 */
#include "base/activity.h"
#include "base/random.h"
#include "base/order.h"
#include "model/divided.h"
#include "ranks/comm.h"

#include <string.h>

/* Number of floats of one job. */
#define PASS_FLOATS ((size_t)1 << 20)

static bool all_zero(const float *values, size_t count)
{
    for (size_t i = 0; i < count;) {
        uint32_t differ = 0; /* tested only from time to time, so that the loop below is vectorised */
        for (size_t end = count - i < 1024 ? count : i + 1024; i < end; i++) {
            differ |= values[i] != 0;
        }
        if (differ) {
            return false;
        }
    }
    return true;
}

/* Whether tied vectors are those of a new model: tests some of them. */
static bool is_started(const xsm_model *m)
{
    const xsmi_layer *l = m->layer;
    const size_t step = l->features / 64 + 1;
    for (size_t j = 0; j < l->features; j += step) {
        xsmi_stream stream;
        xsmi_stream_start(&stream, l->made.seed, XSMI_STREAM_EMBEDDING, j);
        for (size_t h = 0; h < m->features; h++) {
            float start = (float)(l->made.scale * (2 * xsmi_stream_uniform(&stream) - 1));
            if (m->w.weight[j * m->w.stride + h] != start) {
                return false;
            }
        }
    }
    return true;
}

bool xsmi_model_is_zero(const xsm_model *m)
{
    if (m->w.narrow.data) {
        return false;
    }
    if (m->layer && m->layer->tied) {
        return is_started(m) && (!m->w.bias || all_zero(m->w.bias, m->classes));
    }
    bool class_major = m->w.layout == XSM_LAYOUT_CLASS_MAJOR;
    size_t rows = class_major ? m->classes : m->features, columns = class_major ? m->features : m->classes;
    for (size_t r = 0; r < rows && !m->untouched; r++) {
        if (!all_zero(m->w.weight + r * m->w.stride, columns)) {
            return false;
        }
    }
    return !m->w.bias || all_zero(m->w.bias, m->classes);
}

static void zero_part(void *state, const xsmi_range *r)
{
    xsm_model *m = state;
    memset(m->w.weight + r->first, 0, (r->end - r->first) * sizeof *m->w.weight);
}

/* Zeroes the bias, and sets the scales to one. */
static void zero_rest(xsm_model *m)
{
    if (m->w.bias) {
        memset(m->w.bias, 0, m->classes * sizeof *m->w.bias);
    }
    xsmi_release(m->context, m->w.row_scale, m->classes, sizeof *m->w.row_scale);
    m->w.row_scale = NULL;
    xsmi_model_drop_row_lengths(m);
    m->w.alpha = 1;
    xsmi_model_drop_calibration(m);
    if (m->layer) {
        (void)xsmi_layer_start(m, NULL); /* shielded, so that it cannot fail */
    }
}

void xsmi_model_zero(xsm_model *m)
{
    xsm_model *own = xsmi_model_changed(m);
    xsmi_activity shield;
    xsmi_shield(&shield, own->context);
    xsmi_run_surely(own->context, zero_part, own, own->w.weight_count, PASS_FLOATS);
    zero_rest(own);
    xsmi_model_drop_calibration(m);
    xsmi_unshield(&shield);
}

size_t xsmi_model_marks(const xsm_model *m)
{
    return xsmi_marks_of(m->w.weight_count);
}

void xsmi_model_zero_marked(xsm_model *m, uint64_t *marks)
{
    size_t words = (xsmi_model_marks(m) + 63) / 64;
    xsmi_activity shield;
    xsmi_shield(&shield, m->context);
    for (size_t word = 0; word < words; word++) {
        for (; marks[word] != 0; marks[word] &= marks[word] - 1) {
            size_t first = (word * 64 + (size_t)__builtin_ctzll(marks[word])) * XSMI_MARK_FLOATS;
            size_t rest = m->w.weight_count - first;
            memset(m->w.weight + first, 0, XSMI_MIN(rest, XSMI_MARK_FLOATS) * sizeof *m->w.weight);
        }
    }
    zero_rest(m);
    xsmi_unshield(&shield);
}

/* -- the squared norm ---------------------------------------------------------------------------------------------- */

/* Sums over pieces of the weights. Each piece is within a class run, so that in a divided model it belongs to one
 * process. The sums are added in the order of the classes; feature-major weights in the order of the features within a
 * run. */
typedef struct norm_job {
    const xsm_model *model; /* the model that has the weights */
    bool class_major;
    size_t rows;   /* rows of `weight` in a piece */
    size_t blocks; /* feature-major: pieces of a class run */
    double *sums;  /* [pieces of this model's classes] */
} norm_job;

static norm_job norm_of(const xsm_model *m)
{
    norm_job job = {.model = xsmi_model_weights(m), .class_major = m->w.layout == XSM_LAYOUT_CLASS_MAJOR, .blocks = 1};
    if (job.class_major) {
        for (job.rows = XSMI_RUN_CLASSES; job.rows > 1 && job.rows * m->features > PASS_FLOATS;) {
            job.rows /= 2; /* still a part of a class run */
        }
        return job;
    }
    job.rows = PASS_FLOATS / XSMI_MIN(m->classes, XSMI_RUN_CLASSES);
    job.blocks = XSMI_MAX((m->features + job.rows - 1) / job.rows, 1);
    return job;
}

/* Returns the number of pieces of the first `classes` classes. */
static size_t pieces_of(const norm_job *job, size_t classes)
{
    return job->class_major ? (classes + job->rows - 1) / job->rows : xsmi_runs_of((uint32_t)classes) * job->blocks;
}

static void norm_part(void *state, size_t index, uint32_t thread)
{
    const norm_job *job = state;
    const xsm_model *m = job->model;
    const size_t rows = job->class_major ? m->classes : m->features, run = index / job->blocks;
    const size_t first = (job->class_major ? index : index % job->blocks) * job->rows, last = first + job->rows,
                 end = XSMI_MIN(last, rows);
    const size_t left = job->class_major ? 0 : run * XSMI_RUN_CLASSES, right = left + XSMI_RUN_CLASSES,
                 columns = job->class_major ? m->features : XSMI_MIN(right, m->classes);
    double sum = 0;
    (void)thread;
    for (size_t r = first; r < end; r++) {
        const float *row = m->w.weight + r * m->w.stride;
        double squares = 0;
        for (size_t c = left; c < columns; c++) {
            squares += (double)row[c] * (double)row[c];
        }
        sum += m->w.row_scale ? squares * m->w.row_scale[r] * m->w.row_scale[r] : squares;
    }
    job->sums[index] = sum;
}

/* Gathers the sums of all processes. `status` says whether this process could compute its own. */
static xsm_status share_sums(const xsm_model *m, const norm_job *job, xsm_status status, double *all, xsm_error *err)
{
    const uint32_t ranks = xsmi_ranks(m->context);
    size_t *sizes = xsmi_allocate(m->context, ranks, sizeof *sizes);
    status =
        status == XSM_OK && !sizes ? xsmi_fail_memory(err, ranks * sizeof *sizes, "a sum over the weights") : status;
    status = xsmi_agree(m->context, status, err);
    for (uint32_t r = 0; status == XSM_OK && r < ranks; r++) {
        sizes[r] = (pieces_of(job, xsmi_part_start(m->classes, ranks, r + 1)) -
                    pieces_of(job, xsmi_part_start(m->classes, ranks, r))) *
                   sizeof *all;
    }
    status = status == XSM_OK ? xsmi_exchange_blocks(m->context, job->sums, all, sizes, err) : status;
    xsmi_release(m->context, sizes, ranks, sizeof *sizes);
    return status;
}

xsm_status xsmi_model_squared_norm(const xsm_model *m, double *norm, xsm_error *err)
{
    const bool divided = xsmi_model_is_divided(m);
    norm_job job = norm_of(m);
    const xsm_model *own = job.model;
    const size_t jobs = pieces_of(&job, own->classes), count = pieces_of(&job, m->classes);
    double *all = xsmi_allocate(m->context, count, sizeof *all);
    job.sums = divided ? xsmi_allocate(m->context, jobs, sizeof *job.sums) : all;
    xsm_status status = all && job.sums ? xsmi_run(m->context, norm_part, &job, jobs, err)
                                        : xsmi_fail_memory(err, count * sizeof *all, "a sum over the weights");
    status = divided ? share_sums(m, &job, status, all, err) : status;
    double sum = 0;
    for (size_t i = 0; status == XSM_OK && i < count; i++) {
        sum += all[i];
    }
    if (divided) {
        xsmi_release(m->context, job.sums, jobs, sizeof *job.sums);
    }
    xsmi_release(m->context, all, count, sizeof *all);
    if (status == XSM_OK) {
        *norm = sum * own->w.alpha * own->w.alpha + xsmi_layer_squared_norm(own);
    }
    return status;
}
