/*
 * Passes over all parameters of a model: testing for zeros, zeroing, the squared norm.
 */
#include "base/activity.h"
#include "base/random.h"
#include "model/model.h"
#include "base/order.h"

#include <string.h>

/* Floats of one job. */
#define PASS_FLOATS ((size_t)1 << 20)

static bool all_zero(const float *values, size_t count)
{
    for (size_t i = 0; i < count;) {
        uint32_t differ = 0; /* tested only now and then, so that the loop below is vectorised */
        for (size_t end = count - i < 1024 ? count : i + 1024; i < end; i++) {
            differ |= values[i] != 0;
        }
        if (differ) {
            return false;
        }
    }
    return true;
}

/* Whether tied vectors are those of a new model, tested on some of them. */
static bool is_started(const xsm_model *m)
{
    const xsmi_layer *l = m->layer;
    for (size_t j = 0; j < l->features; j += l->features / 64 + 1) {
        xsmi_stream stream;
        xsmi_stream_start(&stream, l->made.seed, XSMI_STREAM_EMBEDDING, j);
        for (size_t h = 0; h < m->features; h++) {
            float start = (float)(l->made.scale * (2 * xsmi_stream_uniform(&stream) - 1));
            if (m->weight[j * m->stride + h] != start) {
                return false;
            }
        }
    }
    return true;
}

bool xsmi_model_is_zero(const xsm_model *m)
{
    if (m->narrow.data) {
        return false;
    }
    if (m->layer && m->layer->tied) {
        return is_started(m) && (!m->bias || all_zero(m->bias, m->classes));
    }
    bool class_major = m->layout == XSM_LAYOUT_CLASS_MAJOR;
    size_t rows = class_major ? m->classes : m->features, columns = class_major ? m->features : m->classes;
    for (size_t r = 0; r < rows && !m->untouched; r++) {
        if (!all_zero(m->weight + r * m->stride, columns)) {
            return false;
        }
    }
    return !m->bias || all_zero(m->bias, m->classes);
}

static void zero_part(void *state, size_t index, uint32_t thread)
{
    xsm_model *m = state;
    size_t first = index * PASS_FLOATS, rest = m->weight_count - first;
    (void)thread;
    memset(m->weight + first, 0, XSMI_MIN(rest, PASS_FLOATS) * sizeof *m->weight);
}

/* The bias and the scales. */
static void zero_rest(xsm_model *m)
{
    if (m->bias) {
        memset(m->bias, 0, m->classes * sizeof *m->bias);
    }
    xsmi_release(m->context, m->row_scale, m->classes, sizeof *m->row_scale);
    m->row_scale = NULL;
    xsmi_model_drop_row_lengths(m);
    m->alpha = 1;
    xsmi_model_drop_calibration(m);
    if (m->layer) {
        (void)xsmi_layer_start(m, NULL); /* shielded, so that it cannot fail */
    }
}

void xsmi_model_zero(xsm_model *m)
{
    size_t jobs = (m->weight_count + PASS_FLOATS - 1) / PASS_FLOATS;
    xsmi_activity shield;
    xsmi_shield(&shield, m->context);
    if (xsmi_run(m->context, zero_part, m, jobs, NULL) != XSM_OK) { /* a host's runner can fail, but this must not */
        memset(m->weight, 0, m->weight_count * sizeof *m->weight);
    }
    zero_rest(m);
    xsmi_unshield(&shield);
}

size_t xsmi_model_marks(const xsm_model *m)
{
    return (m->weight_count + XSMI_MARK_FLOATS - 1) / XSMI_MARK_FLOATS;
}

void xsmi_model_zero_marked(xsm_model *m, uint64_t *marks)
{
    size_t words = (xsmi_model_marks(m) + 63) / 64;
    xsmi_activity shield;
    xsmi_shield(&shield, m->context);
    for (size_t word = 0; word < words; word++) {
        for (; marks[word] != 0; marks[word] &= marks[word] - 1) {
            size_t first = (word * 64 + (size_t)__builtin_ctzll(marks[word])) * XSMI_MARK_FLOATS;
            size_t rest = m->weight_count - first;
            memset(m->weight + first, 0, XSMI_MIN(rest, XSMI_MARK_FLOATS) * sizeof *m->weight);
        }
    }
    zero_rest(m);
    xsmi_unshield(&shield);
}

typedef struct norm_job {
    const xsm_model *model;
    size_t rows, columns, each;
    double *sums; /* one for each job */
} norm_job;

static void norm_part(void *state, size_t index, uint32_t thread)
{
    norm_job *job = state;
    const xsm_model *m = job->model;
    size_t first = index * job->each, rest = job->rows - first, end = first + XSMI_MIN(rest, job->each);
    double sum = 0;
    (void)thread;
    for (size_t r = first; r < end; r++) {
        const float *row = m->weight + r * m->stride;
        double squares = 0;
        for (size_t c = 0; c < job->columns; c++) {
            squares += (double)row[c] * (double)row[c];
        }
        sum += m->row_scale ? squares * m->row_scale[r] * m->row_scale[r] : squares;
    }
    job->sums[index] = sum;
}

xsm_status xsmi_model_squared_norm(const xsm_model *m, double *norm, xsm_error *err)
{
    bool class_major = m->layout == XSM_LAYOUT_CLASS_MAJOR;
    norm_job job = {
        .model = m, .rows = class_major ? m->classes : m->features, .columns = class_major ? m->features : m->classes};
    job.each = job.columns < PASS_FLOATS ? PASS_FLOATS / (job.columns ? job.columns : 1) : 1;
    size_t jobs = (job.rows + job.each - 1) / job.each;
    job.sums = xsmi_allocate(m->context, jobs, sizeof *job.sums);
    if (!job.sums) {
        return xsmi_fail_memory(err, jobs * sizeof *job.sums, "a sum over the weights");
    }
    xsm_status status = xsmi_run(m->context, norm_part, &job, jobs, err);
    double sum = 0;
    for (size_t i = 0; status == XSM_OK && i < jobs; i++) {
        sum += job.sums[i];
    }
    xsmi_release(m->context, job.sums, jobs, sizeof *job.sums);
    if (status == XSM_OK) {
        *norm = sum * m->alpha * m->alpha + xsmi_layer_squared_norm(m);
    }
    return status;
}
