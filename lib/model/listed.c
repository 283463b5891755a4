/*
 * Scores of listed classes with the same bits as when every class is scored. With class-major weights a tile sums in
 * another order than a dot product, so the weights of some classes are gathered and scored as a tile.
 */
#include "base/arena.h"
#include "base/order.h"
#include "model/listed.h"
#include "model/tiles.h"

#include <string.h>

/* The most classes that are gathered together, and the most bytes of their weights, which fit into the L2 cache. */
#define TOGETHER 64
#define BYTES ((size_t)256 << 10)

/* Number of features of a sparse row that are gathered together. */
#define FEATURES 64

typedef struct listed_scratch {
    float *weights; /* [together][stride]; for sparse rows [FEATURES][TOGETHER] */
    float *lanes;   /* [together][XSMI_LANES] */
    float *scales;  /* [together] */
    float *bias;    /* [together] */
    size_t together;
} listed_scratch;

static listed_scratch divide(const xsm_model *m, xsmi_arena *arena)
{
    listed_scratch s;
    const size_t some = BYTES / (m->w.stride * sizeof *s.weights + 1), least = (size_t)FEATURES * TOGETHER;
    s.together = XSMI_CLAMP(some, 1, TOGETHER);
    s.weights = xsmi_arena_take(arena, XSMI_MAX((uint64_t)s.together * m->w.stride, least), sizeof *s.weights);
    s.lanes = xsmi_arena_take(arena, s.together * XSMI_LANES, sizeof *s.lanes);
    s.scales = xsmi_arena_take(arena, s.together, sizeof *s.scales);
    s.bias = xsmi_arena_take(arena, s.together, sizeof *s.bias);
    return s;
}

bool xsmi_model_lists_as_all(const xsm_model *m)
{
    return !xsmi_model_is_divided(m) && !m->w.narrow.data && (!m->head || m->head->numbers);
}

/* Whether xsmi_model_chosen_scores() scores by dot products. */
static bool is_class_major(const xsm_model *m)
{
    return m->w.layout == XSM_LAYOUT_CLASS_MAJOR && !m->w.narrow.data;
}

size_t xsmi_model_listed_scratch(const xsm_model *m)
{
    xsmi_arena arena = {NULL, 0};
    if (is_class_major(m)) {
        (void)divide(m, &arena);
    }
    return arena.used;
}

/* Copies the weights of a class, and prefetches those of a later one. Mapped rows are not padded to whole cache
 * lines. */
static void gather(const xsm_model *m, uint32_t class, uint32_t ahead, float *to)
{
    const float *from = m->w.weight + class * m->w.stride, *later = m->w.weight + ahead * m->w.stride;
    size_t i = 0;
    for (; i + XSMI_LINE <= m->features; i += XSMI_LINE) {
        __builtin_prefetch(later + i, 0, 3);
        memcpy(to + i, from + i, XSMI_LINE * sizeof *to);
    }
    if (i < m->features) {
        __builtin_prefetch(later + i, 0, 3);
        memcpy(to + i, from + i, (m->features - i) * sizeof *to);
    }
}

static void score_gathered(const xsm_model *m, const float *x, const uint32_t *classes, size_t count, float *scores,
                           const listed_scratch *s)
{
    for (size_t j = 0; j < count; j++) {
        gather(m, classes[j], classes[XSMI_MIN(j + 2, count - 1)], s->weights + j * m->w.stride);
        s->scales[j] = m->w.row_scale ? (float)(m->w.alpha * m->w.row_scale[classes[j]]) : 0;
        s->bias[j] = m->w.bias ? m->w.bias[classes[j]] : 0;
    }
    m->kernels->score_few(s->weights, m->w.stride, count, &x, 1, m->features, m->w.row_scale ? 1.0f : (float)m->w.alpha,
                          m->w.row_scale ? s->scales : NULL, m->w.bias ? s->bias : NULL, s->lanes);
    for (size_t j = 0; j < count; j++) {
        scores[j] = s->lanes[j * XSMI_LANES];
    }
}

/* Adds the contributions of the row's features from `first` on, at most FEATURES, in rising order. */
static void add_features(const xsm_model *m, const xsmi_features *x, size_t first, const uint32_t *classes,
                         size_t count, float *scores, const listed_scratch *s)
{
    uint32_t columns[FEATURES];
    const size_t some = XSMI_MIN(x->count - first, FEATURES);
    for (size_t j = 0; j < count; j++) {
        const float *from = m->w.weight + classes[j] * m->w.stride;
        for (size_t i = 0; i < some; i++) {
            s->weights[i * TOGETHER + j] = from[x->index[first + i]];
        }
    }
    for (size_t i = 0; i < some; i++) {
        columns[i] = (uint32_t)i;
    }
    m->kernels->column_sums(s->weights, TOGETHER, columns, x->values + first, some, count, scores);
}

static void score_sparse(const xsm_model *m, const xsmi_features *x, const uint32_t *classes, size_t count,
                         float *scores, const listed_scratch *s)
{
    for (size_t j = 0; j < count; j++) {
        scores[j] = 0;
        s->scales[j] = m->w.row_scale ? (float)(m->w.alpha * m->w.row_scale[classes[j]]) : (float)m->w.alpha;
    }
    for (size_t first = 0; first < x->count; first += FEATURES) {
        add_features(m, x, first, classes, count, scores, s);
    }
    for (size_t j = 0; j < count; j++) {
        scores[j] *= s->scales[j];
        if (m->w.bias) {
            scores[j] += m->w.bias[classes[j]];
        }
    }
}

void xsmi_model_score_listed(const xsm_model *m, const xsmi_model_row *row, const uint32_t *classes, size_t count,
                             float *scores, void *scratch)
{
    if (!is_class_major(m)) {
        xsmi_model_chosen_scores(m, row, classes, count, scores, NULL);
        return;
    }
    xsmi_arena arena = {scratch, 0};
    const listed_scratch s = divide(m, &arena);
    for (size_t first = 0; first < count; first += s.together) {
        const size_t some = XSMI_MIN(count - first, s.together);
        if (row->input.index) {
            score_sparse(m, &row->input, classes + first, some, scores + first, &s);
        } else {
            score_gathered(m, row->input.values, classes + first, some, scores + first, &s);
        }
    }
    if (m->head) { /* a correction by numbers, which needs no scratch */
        m->head->kind->chosen(m->head, &row->x, classes, count, scores, NULL);
    }
}
