#include "model/label_scores.h"

#include "base/order.h"

#include <math.h>
#include <string.h>

/* If log p is below this, log(p / (1 - p)) is log p in float32. */
#define LEAST_CORRECTED (-17.0f)
/* The largest log p below 0, which replaces 0. */
#define MOST_LOG_P (-0x1p-24)

void xsmi_label_scores_divide(const xsm_model *m, uint32_t width, xsmi_arena *arena, xsmi_label_scores *s)
{
    s->model = m;
    xsmi_label_beam_divide(m, width, arena, &s->beam);
    s->scaled = xsmi_arena_take(arena, s->beam.capacity + 1, sizeof *s->scaled);
    s->odds = xsmi_arena_take(arena, s->beam.capacity, sizeof *s->odds);
    s->left = xsmi_arena_take(arena, s->beam.capacity, sizeof *s->left);
    s->right = xsmi_arena_take(arena, s->beam.capacity, sizeof *s->right);
    s->tail = xsmi_arena_take(arena, s->beam.capacity, sizeof *s->tail);
    s->chosen = xsmi_arena_take(arena, s->beam.trees->widest, sizeof *s->chosen);
}

/* Returns log(p / (1 - p)) from log p; for a squared hinge the score itself. */
static float odds_of(const xsmi_label_trees *l, float score)
{
    if (l->link == XSMI_LINK_SQUARED_HINGE || score < LEAST_CORRECTED) {
        return score;
    }
    const double log_p = fmin((double)score, MOST_LOG_P);
    return (float)(log_p - log(-expm1(log_p)));
}

/* Returns the score of a class among those that were found, or NaN. */
static float score_of(const xsmi_label_beam *b, uint32_t class)
{
    for (uint32_t i = 0; i < *b->count; i++) {
        if (b->found[i] == class) {
            return b->found_score[i];
        }
    }
    return NAN;
}

/* -- all together -------------------------------------------------------------------------------------------------- */

/* Returns the logarithm of 1 less the probabilities of the classes found, for trees whose probabilities sum to one. */
static double log_rest(const xsmi_label_scores *s)
{
    const double log_total = xsmi_label_beam_log_total(&s->beam);
    const double sum = s->model->kernels->row_sum_exp(s->beam.found_score, *s->beam.count, (float)log_total);
    return sum < 1 ? log_total + log1p(-sum) : -(double)INFINITY;
}

double xsmi_label_log_partition(const xsmi_label_scores *s, double scale)
{
    const xsmi_kernels *kernels = s->model->kernels;
    const uint32_t count = *s->beam.count;
    memcpy(s->scaled, s->beam.found_score, count * sizeof *s->scaled);
    s->scaled[count] = (float)log_rest(s);
    kernels->scale(s->scaled, (size_t)count + 1, (float)scale);
    const float most = kernels->row_max(s->scaled, (size_t)count + 1);
    return (double)most + log(kernels->row_sum_exp(s->scaled, (size_t)count + 1, most));
}

xsmi_label_target xsmi_label_find(const xsmi_label_scores *s, const xsmi_features *x, const uint32_t *labels,
                                  size_t count)
{
    xsmi_label_target t = {0};
    double rest = NAN;
    for (size_t j = 0; j < count; j++) {
        if (labels[j] >= s->model->classes) {
            continue;
        }
        t.known++;
        float score = score_of(&s->beam, labels[j]);
        if (score == score) {
            t.found += (double)score;
            continue;
        }
        score = xsmi_label_beam_missed(&s->beam, x, labels[j], s->chosen);
        rest = rest == rest ? rest : log_rest(s);
        t.missed += (double)score;
        t.rests += fmax(rest, (double)score);
    }
    return t;
}

double xsmi_label_temperature_loss(const xsmi_label_target *target, double log_partition, double scale)
{
    return log_partition -
           (scale * target->found + target->missed + (scale - 1) * target->rests) / (double)target->known;
}

/* -- each class by itself ------------------------------------------------------------------------------------------ */

void xsmi_label_branches(const xsmi_label_scores *s, const xsmi_features *x, const uint32_t *labels, size_t count,
                         float scale, float shift, double sums[XSMI_PLATT_SUMS])
{
    const xsmi_label_beam *b = &s->beam;
    const uint32_t found = *b->count;
    for (uint32_t i = 0; i < found; i++) {
        s->odds[i] = odds_of(b->trees, b->found_score[i]);
        s->scaled[i] = scale * s->odds[i] + shift;
    }
    s->model->kernels->logistics(s->scaled, found, s->left, s->right, s->tail);
    for (size_t i = 0; i < XSMI_PLATT_SUMS; i++) {
        sums[i] = 0;
    }
    for (uint32_t i = 0; i < found; i++) {
        xsmi_platt_add(sums, (double)s->odds[i], (double)s->right[i], (double)s->left[i],
                       (double)XSMI_MAX(s->scaled[i], 0.0f) + (double)s->tail[i]);
    }
    for (size_t j = 0; j < count; j++) {
        if (labels[j] >= s->model->classes) {
            continue;
        }
        float score = score_of(b, labels[j]);
        const bool missed = score != score;
        if (missed) {
            xsmi_label_chosen(b->trees, x, &labels[j], 1, &score, s->chosen);
        }
        const double z = (double)odds_of(b->trees, score), scaled = (double)scale * z + (double)shift;
        if (missed) {
            xsmi_platt_add_score(sums, z, scaled);
        }
        xsmi_platt_add_labels(sums, 1, z, scaled);
    }
}

/* -- by the model's calibration ------------------------------------------------------------------------------------ */

static bool is_relative(const xsmi_label_trees *l, int32_t method)
{
    return method == XSM_CALIBRATION_TEMPERATURE || (method == XSM_CALIBRATION_NONE && l->link == XSMI_LINK_NORMALISED);
}

bool xsmi_label_is_relative(const xsm_model *m)
{
    const xsmi_label_trees *l = xsmi_model_trees(m);
    return l && is_relative(l, m->calibration.method);
}

double xsmi_class_probability(const xsm_model *m, const xsmi_calibration *c, float score, double log_partition)
{
    const xsmi_label_trees *l = xsmi_model_trees(m);
    if (!l) {
        return xsmi_probability(c, score, log_partition);
    }
    return c->method == XSM_CALIBRATION_LABELS
               ? 1 / (1 + exp(-(c->scale * (double)odds_of(l, score) + c->shift)))
               : exp(c->scale * (double)score - (is_relative(l, c->method) ? log_partition : 0));
}

bool xsmi_label_only_orders(const xsm_model *m)
{
    const xsmi_label_trees *l = xsmi_model_trees(m);
    return l && l->link == XSMI_LINK_SQUARED_HINGE;
}

bool xsmi_label_has_loss(const xsm_model *m)
{
    return !xsmi_label_only_orders(m) || m->calibration.method != XSM_CALIBRATION_NONE;
}

double xsmi_label_log_sum(const xsmi_label_scores *s)
{
    const xsmi_calibration *c = &s->model->calibration;
    return c->method == XSM_CALIBRATION_TEMPERATURE ? xsmi_label_log_partition(s, c->scale)
           : xsmi_label_is_relative(s->model)       ? xsmi_label_beam_log_total(&s->beam)
                                                    : 0;
}

double xsmi_label_loss(const xsmi_label_scores *s, const xsmi_features *x, const uint32_t *labels, size_t count,
                       double log_sum, size_t *known)
{
    const xsmi_calibration *c = &s->model->calibration;
    const bool together = xsmi_label_is_relative(s->model) ||
                          (c->method == XSM_CALIBRATION_NONE && s->beam.trees->link == XSMI_LINK_SOFTMAX);
    const xsmi_label_target target = xsmi_label_find(s, x, labels, count);
    *known = target.known;
    if (!xsmi_label_has_loss(s->model) || target.known == 0) {
        return 0;
    }
    if (together) {
        const double scale = c->method == XSM_CALIBRATION_TEMPERATURE ? c->scale : 1;
        return xsmi_label_temperature_loss(&target, log_sum, scale);
    }
    double sums[XSMI_PLATT_SUMS];
    xsmi_label_branches(s, x, labels, count, (float)c->scale, (float)c->shift, sums);
    return sums[XSMI_LOSS];
}
