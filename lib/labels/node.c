#include "labels/node.h"

#include "base/activity.h"
#include "base/order.h"
#include "labels/select.h"

#include <math.h>
#include <string.h>

#define LANES XSMI_DUAL_LANES

bool xsmi_node_work_new(xsmi_node_work *w, xsm_context *ctx, uint32_t features)
{
    *w = (xsmi_node_work){.context = ctx, .taken = {.context = ctx}};
    return xsmi_numbering_new(&w->features, ctx, features);
}

void xsmi_node_work_free(xsmi_node_work *w)
{
    xsm_context *ctx = w->context;
    if (!ctx) {
        return;
    }
    xsmi_numbering_free(&w->features);
    xsmi_release(ctx, w->offsets, w->capacity.offsets, sizeof *w->offsets);
    xsmi_release(ctx, w->index, w->capacity.index, sizeof *w->index);
    xsmi_release(ctx, w->order, w->capacity.order, sizeof *w->order);
    xsmi_release(ctx, w->value, w->capacity.value, sizeof *w->value);
    xsmi_release(ctx, w->square, w->capacity.square, sizeof *w->square);
    xsmi_release(ctx, w->weight, w->capacity.weight, sizeof *w->weight);
    xsmi_release(ctx, w->step, w->capacity.step, sizeof *w->step);
    xsmi_release(ctx, w->diagonal, w->capacity.diagonal, sizeof *w->diagonal);
    xsmi_release(ctx, w->alpha, w->capacity.alpha, sizeof *w->alpha);
    xsmi_release(ctx, w->weights, w->capacity.weights, sizeof *w->weights);
    xsmi_release(ctx, w->positive, w->capacity.positive, sizeof *w->positive);
    xsmi_release(ctx, w->active, w->capacity.active, sizeof *w->active);
    xsmi_release(ctx, w->kept, w->capacity.kept, sizeof *w->kept);
    xsmi_release(ctx, w->squares, w->capacity.squares, sizeof *w->squares);
    xsmi_release(ctx, w->under, w->capacity.under, sizeof *w->under);
    xsmi_release(ctx, w->key, w->capacity.key, sizeof *w->key);
    xsmi_release(ctx, w->lane_of, w->capacity.lane_of, sizeof *w->lane_of);
    xsmi_sparse_taken_free(&w->taken);
}

void xsmi_node_part_free(xsmi_node_part *part, xsm_context *ctx)
{
    xsmi_release(ctx, part->feature, part->columns, sizeof *part->feature);
    xsmi_release(ctx, part->start, part->columns + 1, sizeof *part->start);
    xsmi_release(ctx, part->value, part->entries, sizeof *part->value);
    xsmi_release(ctx, part->child, part->entries, sizeof *part->child);
    xsmi_release(ctx, part->score, (size_t)part->samples * LANES, sizeof *part->score);
    xsmi_release(ctx, part->sample_positive, part->samples, sizeof *part->sample_positive);
    xsmi_release(ctx, part->sample_weight, part->samples, sizeof *part->sample_weight);
    xsmi_release(ctx, part->beam, (size_t)part->beam_rows * LANES, sizeof *part->beam);
    *part = (xsmi_node_part){0};
}

/* -- rows ---------------------------------------------------------------------------------------------------------- */

/* Copies the rows without their zeros; the features that occur, or that old classifiers have, are numbered in rising
 * order. */
static bool copy_rows(xsmi_node_work *w, const xsmi_node_rows *r, xsmi_dual_rows *out)
{
    if (!xsmi_reserve(w->context, &w->offsets, &w->capacity.offsets, (uint64_t)r->count + 1, sizeof *w->offsets) ||
        !xsmi_reserve(w->context, &w->index, &w->capacity.index, r->entries, sizeof *w->index) ||
        !xsmi_reserve(w->context, &w->value, &w->capacity.value, r->entries, sizeof *w->value)) {
        return false;
    }
    uint64_t at = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        const xsmi_features x = xsmi_dataset_features(r->data, r->rows[i]);
        w->offsets[i] = at;
        for (size_t k = 0; k < x.count; k++) {
            if (x.values[k] != 0.0f) {
                const uint32_t f = x.index ? x.index[k] : (uint32_t)k;
                xsmi_marks_add(&w->features.marks, f);
                w->index[at] = f;
                w->value[at++] = x.values[k];
            }
        }
    }
    for (uint32_t c = 0; r->old && c < w->taken.chunk.columns; c++) {
        xsmi_marks_add(&w->features.marks, w->taken.chunk.features[c]);
    }
    w->offsets[r->count] = at;
    out->width = xsmi_numbering_make(&w->features);
    for (uint64_t k = 0; k < at; k++) {
        w->index[k] = w->features.number[w->index[k]];
    }
    out->offsets = w->offsets;
    out->index = w->index;
    out->value = w->value;
    return true;
}

/* Uses the dataset's rows in place. */
static void use_rows(xsmi_node_work *w, const xsmi_node_rows *r, xsmi_dual_rows *out)
{
    const xsm_dataset *d = r->data;
    out->offsets = d->sparse ? d->offsets : NULL;
    out->index = d->sparse ? d->index : r->identity;
    out->value = d->values;
    out->stride = d->stride;
    out->features = d->features;
    out->source = r->rows;
    out->width = d->features;
    for (uint32_t f = 0; f < d->features; f++) {
        w->features.found[f] = w->features.number[f] = f;
    }
}

static bool gather_rows(xsmi_node_work *w, const xsmi_node_rows *r, xsmi_dual_rows *out)
{
    *out = (xsmi_dual_rows){.count = r->count};
    if (r->count >= (r->data->rows + 1) / 2) {
        use_rows(w, r, out);
    } else if (!copy_rows(w, r, out)) {
        return false;
    }
    if (!xsmi_reserve(w->context, &w->square, &w->capacity.square, r->count, sizeof *w->square)) {
        return false;
    }
    for (uint32_t i = 0; i < r->count; i++) {
        const xsmi_features x = xsmi_dataset_features(r->data, r->rows[i]);
        double square = 1;
        for (size_t k = 0; k < x.count; k++) {
            square += (double)x.values[k] * (double)x.values[k];
        }
        w->square[i] = (float)square;
    }
    out->square = w->square;
    if (xsmi_dataset_has_weights(r->data)) {
        if (!xsmi_reserve(w->context, &w->weight, &w->capacity.weight, r->count, sizeof *w->weight)) {
            return false;
        }
        for (uint32_t i = 0; i < r->count; i++) {
            w->weight[i] = (float)xsmi_dataset_whole_weight(r->data, r->rows[i]);
        }
        out->weight = w->weight;
    }
    return true;
}

/* Marks the children of a group for which each row is positive. */
static void mark_positive(xsmi_node_work *w, const xsmi_node_rows *r, uint32_t group)
{
    memset(w->positive, 0, r->count * sizeof *w->positive);
    memset(w->under, 0, r->count * sizeof *w->under);
    for (uint32_t i = 0; i < r->count; i++) {
        size_t n;
        const uint32_t *labels = xsmi_dataset_labels(r->data, r->rows[i], &n);
        for (size_t k = 0; k < n; k++) {
            const uint32_t place = labels[k] < r->data->classes ? r->place[labels[k]] : UINT32_MAX;
            if (place >= r->start && place < r->end) {
                const uint32_t child = r->child_at[place] - r->first_child;
                w->under[i] = 1;
                w->positive[i] |= child / LANES == group ? (uint16_t)(1u << child % LANES) : 0;
            }
        }
    }
}

/* -- old classifiers ----------------------------------------------------------------------------------------------- */

/* Starts a group from its old classifiers, before they were scaled. */
static void start_group(xsmi_node_work *w, const xsmi_node_rows *r, uint32_t width, uint32_t group, xsmi_dual_group *g)
{
    const xsmi_node_start *s = r->old;
    const xsmi_sparse_chunk *chunk = &w->taken.chunk;
    g->started = true;
    memset(g->weights, 0, (size_t)width * LANES * sizeof *g->weights);
    memset(g->bias, 0, sizeof g->bias);
    memset(w->lane_of, LANES, chunk->rows);
    for (uint32_t l = 0; l < g->lanes; l++) {
        const uint32_t from = s->from[group * LANES + l];
        if (from != XSMI_NO_CLASS) {
            g->bias[l] = (chunk->bias[from - s->first] - s->shift) / s->scale;
            w->lane_of[from - s->first] = (uint8_t)l;
        }
    }
    for (uint32_t c = 0; c < chunk->columns; c++) {
        float *to = g->weights + (size_t)w->features.number[chunk->features[c]] * LANES;
        for (uint32_t k = chunk->starts[c]; k < chunk->starts[c + 1]; k++) {
            const uint32_t lane = w->lane_of[chunk->entry_rows[k]];
            if (lane < LANES) {
                to[lane] = chunk->values[k] / s->scale;
            }
        }
    }
}

/* Marks as new the children whose classifiers training has changed. */
static void end_group(const xsmi_node_rows *r, uint32_t group, const xsmi_dual_group *g)
{
    for (uint32_t i = 0; i < r->count; i++) {
        for (uint32_t l = 0; l < g->lanes; l++) {
            if (g->alpha[(size_t)i * LANES + l] > 0) {
                r->old->from[group * LANES + l] = XSMI_NO_CLASS;
            }
        }
    }
}

/* -- weights ------------------------------------------------------------------------------------------------------- */

/* Sets least[child] to the least absolute weight that is kept; sets the weights beyond the `keep` largest to 0. */
static bool find_limits(xsmi_node_work *w, const xsmi_node_settings *settings, uint32_t width, uint32_t children,
                        float *least)
{
    for (uint32_t l = 0; l < LANES; l++) {
        least[l] = l < children ? (float)settings->threshold : INFINITY;
    }
    if (settings->keep == 0 || settings->keep >= width) {
        return true;
    }
    if (!xsmi_reserve(w->context, &w->key, &w->capacity.key, width, sizeof *w->key)) {
        return false;
    }
    for (uint32_t l = 0; l < children; l++) {
        for (uint32_t f = 0; f < width; f++) {
            w->key[f] = (uint64_t)xsmi_sortable(fabsf(w->weights[(size_t)f * LANES + l])) << 32 | (UINT32_MAX - f);
        }
        xsmi_select_largest(w->key, width, settings->keep);
        for (uint32_t k = settings->keep; k < width; k++) {
            w->weights[(size_t)(UINT32_MAX - (uint32_t)w->key[k]) * LANES + l] = 0.0f;
        }
    }
    return true;
}

static bool take_weights(xsmi_node_work *w, const xsmi_node_settings *settings, uint32_t width, xsmi_node_part *part)
{
    float least[LANES];
    xsm_context *ctx = w->context;
    if (!find_limits(w, settings, width, part->children, least) ||
        !xsmi_reserve(ctx, &w->kept, &w->capacity.kept, XSMI_MAX((uint64_t)width, 1), sizeof *w->kept)) {
        return false;
    }
    const bool finite = xsmi_context_kernels(ctx)->dual_keep(w->weights, width, least, w->kept);
    part->overflown = part->overflown || !finite;
    uint32_t columns = 0, entries = 0;
    for (size_t f = 0; f < width; f++) {
        columns += w->kept[f] > 0;
        entries += (uint32_t)__builtin_popcount(w->kept[f]);
    }
    part->columns = columns;
    part->entries = entries;
    part->feature = xsmi_allocate(ctx, columns, sizeof *part->feature);
    part->start = xsmi_allocate(ctx, (uint64_t)columns + 1, sizeof *part->start);
    part->value = xsmi_allocate(ctx, entries, sizeof *part->value);
    part->child = xsmi_allocate(ctx, entries, sizeof *part->child);
    if (!part->feature || !part->start || !part->value || !part->child) {
        return false;
    }
    uint32_t column = 0, at = 0;
    for (size_t f = 0; f < width; f++) {
        if (w->kept[f] > 0) {
            part->feature[column] = w->features.found[f];
            part->start[column++] = at;
        }
        for (uint32_t lanes = w->kept[f]; lanes > 0; lanes &= lanes - 1) {
            const uint32_t l = (uint32_t)__builtin_ctz(lanes);
            part->value[at] = w->weights[f * LANES + l];
            part->child[at++] = (uint8_t)l;
        }
    }
    part->start[column] = at;
    return true;
}

/* -- scores for calibration ---------------------------------------------------------------------------------------- */

/* Whether a row with a weight and a label under the node is among its samples, by a hash of row and node. */
static inline bool is_sample(const xsmi_node_work *w, const xsmi_node_rows *r, uint32_t i)
{
    if (!w->under[i] || !(xsmi_dataset_whole_weight(r->data, r->rows[i]) > 0)) {
        return false;
    }
    uint64_t h = ((uint64_t)r->first_child << 32 | r->rows[i]) * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ h >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return h >> 32 < r->sampled;
}

/* Returns the entries of a row. */
static xsmi_features row_features(const xsmi_dual_rows *rows, uint32_t i)
{
    const size_t row = rows->source ? rows->source[i] : i;
    const size_t first = rows->offsets ? (size_t)rows->offsets[row] : row * rows->stride;
    const size_t count = rows->offsets ? (size_t)rows->offsets[row + 1] - first : rows->features;
    const xsmi_features x = {rows->value + first, rows->offsets ? rows->index + first : rows->index, count};
    return x;
}

static float weight_of(const xsmi_dual_rows *rows, uint32_t i)
{
    return rows->weight ? rows->weight[i] : 1.0f;
}

/* Returns what, times curvature_unit() and x x^T, a row adds to the Hessian: its weight times the second derivative of
 * the loss, which is 2 C or 0 for the squared hinge, and C sigma(z) sigma(-z) for the logistic loss. */
static float curvature(const xsmi_dual_settings *s, float alpha, float weight)
{
    if (s->loss == XSMI_DUAL_SQUARED_HINGE || !(alpha > 0.0f)) {
        return alpha > 0.0f ? weight : 0.0f;
    }
    const float share = alpha / ((float)s->cost * weight);
    return weight * share * (1.0f - share);
}

static float curvature_unit(const xsmi_dual_settings *s)
{
    return (float)(s->loss == XSMI_DUAL_LOGISTIC ? s->cost : 2 * s->cost);
}

/* Sums, for each feature and lane, the squares of the feature's values times the rows' curvatures; for the bias, the
 * curvatures. */
static void sum_squares(xsmi_node_work *w, const xsmi_dual_settings *settings, const xsmi_dual_rows *rows,
                        const xsmi_dual_group *g, float bias[LANES])
{
    const xsmi_kernels *kernels = xsmi_context_kernels(w->context);
    memset(bias, 0, LANES * sizeof *bias);
    memset(w->squares, 0, (size_t)rows->width * LANES * sizeof *w->squares);
    for (uint32_t i = 0; i < rows->count; i++) {
        const xsmi_features x = row_features(rows, i);
        const float *alpha = g->alpha + (size_t)i * LANES;
        const float weight = weight_of(rows, i);
        float used[LANES], any = 0.0f;
        for (size_t l = 0; l < LANES; l++) {
            used[l] = curvature(settings, alpha[l], weight);
            bias[l] += used[l];
            any += used[l];
        }
        if (any > 0.0f) {
            kernels->dual_squares(w->squares, x.index, x.values, x.count, used);
        }
    }
}

static void score_sample(const xsmi_node_work *w, const xsmi_node_settings *settings, const xsmi_dual_rows *rows,
                         const xsmi_dual_group *g, const float *bias_squares, uint32_t i, float *score)
{
    const xsmi_features x = row_features(rows, i);
    const float unit = curvature_unit(&settings->dual), weight = weight_of(rows, i);
    float share[LANES], used[LANES];
    memcpy(score, g->bias, LANES * sizeof *score);
    const xsmi_kernels *kernels = xsmi_context_kernels(w->context);
    kernels->column_sums(g->weights, LANES, x.index, x.values, x.count, LANES, score);
    const float *alpha = g->alpha + (size_t)i * LANES;
    for (size_t l = 0; l < LANES; l++) {
        used[l] = curvature(&settings->dual, alpha[l], weight);
        const float others = bias_squares[l] - used[l];
        share[l] = 1.0f / (1.0f + unit * (others > 0.0f ? others : 0.0f));
    }
    kernels->dual_shares(w->squares, x.index, x.values, x.count, used, unit, share);
    for (size_t l = 0; l < LANES; l++) {
        score[l] -= (g->positive[i] >> l & 1 ? alpha[l] : -alpha[l]) * share[l];
    }
}

static bool take_samples(xsmi_node_work *w, const xsmi_node_settings *settings, const xsmi_node_rows *r,
                         const xsmi_dual_rows *rows, const xsmi_dual_group *g, xsmi_node_part *part)
{
    uint32_t samples = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        samples += is_sample(w, r, i);
    }
    part->samples = samples;
    if (samples == 0) {
        return true;
    }
    if (!xsmi_reserve(w->context, &w->squares, &w->capacity.squares, XSMI_MAX((uint64_t)rows->width, 1) * LANES,
                      sizeof *w->squares)) {
        return false;
    }
    float bias_squares[LANES];
    sum_squares(w, &settings->dual, rows, g, bias_squares);
    part->score = xsmi_allocate(w->context, (uint64_t)samples * LANES, sizeof *part->score);
    part->sample_positive = xsmi_allocate(w->context, samples, sizeof *part->sample_positive);
    part->sample_weight = xsmi_allocate(w->context, samples, sizeof *part->sample_weight);
    if (!part->score || !part->sample_positive || !part->sample_weight) {
        return false;
    }
    /* A child for which no other row is positive is left out: without the row it could not be trained. */
    uint32_t positives[LANES] = {0};
    for (uint32_t i = 0; i < r->count; i++) {
        for (size_t l = 0; l < LANES; l++) {
            positives[l] += g->positive[i] >> l & 1;
        }
    }
    uint32_t s = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        if (is_sample(w, r, i)) {
            float *score = part->score + (size_t)s * LANES;
            score_sample(w, settings, rows, g, bias_squares, i, score);
            for (size_t l = 0; l < LANES; l++) {
                score[l] = positives[l] == 1 && g->positive[i] >> l & 1 ? NAN : score[l];
            }
            part->sample_weight[s] = weight_of(rows, i);
            part->sample_positive[s++] = g->positive[i];
        }
    }
    return true;
}

/* Scores the children for the rows of the beam. */
static bool take_beam(const xsmi_node_work *w, const xsmi_node_rows *r, const xsmi_dual_rows *rows,
                      const xsmi_dual_group *g, xsmi_node_part *part)
{
    uint32_t count = 0;
    for (uint32_t i = 0; r->score && i < r->count; i++) {
        count += r->score[i] > -INFINITY;
    }
    part->beam_rows = count;
    part->beam = xsmi_allocate(w->context, (uint64_t)count * LANES, sizeof *part->beam);
    if (!part->beam) {
        return false;
    }
    float *z = part->beam;
    for (uint32_t i = 0; count > 0 && i < r->count; i++) {
        if (r->score[i] > -INFINITY) {
            const xsmi_features x = row_features(rows, i);
            memcpy(z, g->bias, LANES * sizeof *z);
            xsmi_context_kernels(w->context)->column_sums(g->weights, LANES, x.index, x.values, x.count, LANES, z);
            z += LANES;
        }
    }
    return true;
}

static bool train_group(xsmi_node_work *w, const xsmi_node_settings *settings, const xsmi_node_rows *r,
                        const xsmi_dual_rows *rows, uint32_t group, xsmi_node_part *part)
{
    *part = (xsmi_node_part){.children = XSMI_MIN(LANES, r->children - group * LANES)};
    mark_positive(w, r, group);
    xsmi_dual_group g = {.lanes = part->children,
                         .positive = w->positive,
                         .active = w->active,
                         .order = w->order,
                         .step = w->step,
                         .diagonal = w->diagonal,
                         .alpha = w->alpha,
                         .weights = w->weights};
    xsmi_stream stream;
    xsmi_stream_start(&stream, settings->seed, XSMI_STREAM_LABEL_ORDER,
                      settings->position + r->first_child + group * LANES);
    if (r->old) {
        start_group(w, r, rows->width, group, &g);
    }
    xsmi_dual_solve(w->context, rows, &settings->dual, &stream, &g);
    if (r->old) {
        end_group(r, group, &g);
    }
    memcpy(part->bias, g.bias, sizeof part->bias);
    for (size_t l = 0; l < LANES; l++) {
        part->overflown = part->overflown || !isfinite(g.bias[l]);
    }
    if (!take_weights(w, settings, rows->width, part) || !take_samples(w, settings, r, rows, &g, part) ||
        !take_beam(w, r, rows, &g, part)) {
        xsmi_node_part_free(part, w->context);
        return false;
    }
    return true;
}

bool xsmi_node_train(xsmi_node_work *w, const xsmi_node_settings *settings, const xsmi_node_rows *r, uint32_t first,
                     uint32_t count, xsmi_node_part *parts)
{
    xsm_context *ctx = w->context;
    xsmi_dual_rows rows;
    if ((r->old && xsmi_sparse_take(&w->taken, r->old->weights, r->old->chunk, NULL) != XSM_OK) ||
        !gather_rows(w, r, &rows)) {
        return false;
    }
    /* Nodes without rows get arrays, too, so that they are no special case. */
    const uint64_t all = XSMI_MAX(r->count, 1), width = XSMI_MAX(rows.width, 1);
    if (!xsmi_reserve(ctx, &w->positive, &w->capacity.positive, all, sizeof *w->positive) ||
        !xsmi_reserve(ctx, &w->under, &w->capacity.under, all, sizeof *w->under) ||
        !xsmi_reserve(ctx, &w->active, &w->capacity.active, all, sizeof *w->active) ||
        !xsmi_reserve(ctx, &w->order, &w->capacity.order, all, sizeof *w->order) ||
        !xsmi_reserve(ctx, &w->step, &w->capacity.step, all, sizeof *w->step) ||
        (r->old && !xsmi_reserve(ctx, &w->lane_of, &w->capacity.lane_of, w->taken.chunk.rows, sizeof *w->lane_of)) ||
        (rows.weight && !xsmi_reserve(ctx, &w->diagonal, &w->capacity.diagonal, all, sizeof *w->diagonal)) ||
        !xsmi_reserve(ctx, &w->alpha, &w->capacity.alpha, all * LANES, sizeof *w->alpha) ||
        !xsmi_reserve(ctx, &w->weights, &w->capacity.weights, width * LANES, sizeof *w->weights)) {
        return false;
    }
    for (uint32_t g = 0; g < count; g++) {
        if (!train_group(w, settings, r, &rows, first + g, &parts[g])) {
            return false;
        }
    }
    return true;
}
