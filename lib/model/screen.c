/*
 * Screening: finds the best classes of one dense row without exact scores of all classes.
 *
 * The kernel screen() sums with lanes over features, which reads weights as fast as memory gives them, but in another
 * order than full scoring. Both orders round, but the difference is bounded (N. J. Higham, Accuracy and Stability of
 * Numerical Algorithms, 2002, section 3.1): a sum of d products that is rounded at most n times for each is within g/(1
 * - g) S of the exact one, where g = n u, u = 2^-24 and S = sum_i |w_i x_i| <= |w| |x|. So a class is kept as a
 * candidate unless k others are certainly better, and the candidates, a few more than k, are scored again as in full
 * scoring, so that the result has the same bits. Classes with equal scores stay candidates together, and the smaller
 * one wins.
 *
 * O(K D) for the sums; two numbers in memory for each candidate.
 */
#include "base/activity.h"
#include "base/arena.h"
#include "base/order.h"
#include "model/narrow.h"
#include "model/tiles.h"
#include "model/screen.h"

#include <math.h>

/* The least number of classes, and the least for each class that is requested, for which screening is faster than
 * scoring all. */
#define LEAST_CLASSES 1024
#define LEAST_EACH 64
/* The most features, so that g is at most 1/4. */
#define MOST_FEATURES ((uint32_t)1 << 20)
/* The number of candidates of a row for which there is space: for each class that is requested, and at least. */
#define CANDIDATES_EACH 16
#define CANDIDATES_LEAST 1024
/* Sums might overflow if this is exceeded. */
#define MOST_SUM 0x1p+120
/* Number of classes that are scored again together: a vector of the widest instruction set. */
#define TOGETHER 16

/* A class that may be among the best, and an upper bound of its score. */
typedef struct candidate {
    double most;
    uint32_t class;
} candidate;

/* One row's search. */
typedef struct search {
    const float *x;
    double norm;           /* of x */
    candidate *candidates; /* [capacity], in rising order of classes */
    size_t count;
    double *least; /* [top] the highest lower bounds of scores, in falling order */
} search;

typedef struct scratch {
    search row;
    float *hidden;                  /* for a first layer */
    float *sums, *squares, *scales; /* [XSMI_CLASS_TILE] */
    float *lanes;                   /* [TOGETHER][XSMI_LANES] */
    size_t capacity;
} scratch;

static scratch divide(const xsm_model *m, uint32_t top, xsmi_arena *arena)
{
    scratch s;
    s.capacity = XSMI_MAX((size_t)top * CANDIDATES_EACH, CANDIDATES_LEAST);
    s.row.candidates = xsmi_arena_take(arena, s.capacity, sizeof *s.row.candidates);
    s.row.least = xsmi_arena_take(arena, top, sizeof *s.row.least);
    s.hidden = xsmi_model_take_hidden(m, arena);
    s.sums = xsmi_arena_take(arena, XSMI_CLASS_TILE, sizeof *s.sums);
    s.squares = xsmi_arena_take(arena, XSMI_CLASS_TILE, sizeof *s.squares);
    s.scales = xsmi_arena_take(arena, XSMI_CLASS_TILE, sizeof *s.scales);
    s.lanes = xsmi_arena_take(arena, (size_t)TOGETHER * XSMI_LANES, sizeof *s.lanes);
    return s;
}

bool xsmi_model_screens(const xsm_model *m, bool sparse, uint32_t top)
{
    return xsmi_model_is_plain(m) && xsmi_tiles_packed(m, sparse) && m->features <= MOST_FEATURES &&
           m->classes >= LEAST_CLASSES && m->classes / LEAST_EACH >= top;
}

size_t xsmi_model_screen_scratch(const xsm_model *m, uint32_t top)
{
    xsmi_arena arena = {NULL, 0};
    (void)divide(m, top, &arena);
    return arena.used;
}

/* Removes candidates that are certainly not among the best. */
static void drop_worse(search *s, double bar)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (s->candidates[i].most >= bar) {
            s->candidates[kept++] = s->candidates[i];
        }
    }
    s->count = kept;
}

/* Inserts a lower bound of a score, which is above the last of `top`. */
static void raise_least(double *least, uint32_t top, double bound)
{
    uint32_t k = top - 1;
    for (; k > 0 && bound > least[k - 1]; k--) {
        least[k] = least[k - 1];
    }
    least[k] = bound;
}

/* The score a of a class in a tile is within apart + RELATIVE |a| of that of full scoring, because scores are rounded
 * once or twice more after the sums. */
#define RELATIVE 0x1p-21

/* Returns the largest absolute value of whole numbers; 0 if the weights are others. */
static double most_whole(const xsm_model *m)
{
    const int whole = xsmi_kind_of(m->w.narrow.dtype)->whole;
    return whole ? whole + 1 : 0;
}

/* Returns the bound `apart` of a tile whose sums and, except for whole numbers, squares are known. NaN or infinite if
 * numbers are not finite. */
static double bound_tile(const xsm_model *m, const search *s, uint32_t count, const scratch *b)
{
    const double d = m->features, g = (2 * d + 64) * 0x1p-24, most = most_whole(m);
    const double squares =
        most > 0 ? d * most * most : (double)m->kernels->row_scaled_max(b->squares, count, 1.0f, 0.0f);
    const double scale = m->w.row_scale ? (double)m->kernels->row_scaled_max(b->scales, count, 1.0f, 0.0f)
                                        : fabs((double)(float)m->w.alpha);
    /* Includes what products and squares lose when they underflow. */
    const double sum = sqrt(squares + d * 0x1p-148) * s->norm;
    return sum < MOST_SUM && scale * sum < MOST_SUM ? 2 * g * scale * sum + (d + 8) * (scale + 1) * 0x1p-147 : INFINITY;
}

/* Adds a tile's candidates. Returns false if a score may not be finite, or if there is no space for all that may be
 * among the best. */
static bool screen_tile(const xsm_model *m, search *s, uint32_t first, uint32_t count, uint32_t top, const scratch *b)
{
    const double apart = bound_tile(m, s, count, b);
    xsmi_tiles_finish(m, first, count, b->scales, b->sums);
    const double size = (double)m->kernels->row_scaled_max(b->sums, count, 1.0f, 0.0f);
    if (!(size < MOST_SUM && apart < MOST_SUM)) {
        return false;
    }
    double bar = s->least[top - 1];
    const double largest = (double)m->kernels->row_max(b->sums, count);
    for (uint32_t c = 0; c < count && largest + RELATIVE * fabs(largest) + apart >= bar; c++) {
        const double score = (double)b->sums[c], off = apart + RELATIVE * fabs(score);
        if (score + off < bar) {
            continue;
        }
        if (score - off > bar) {
            raise_least(s->least, top, score - off);
            bar = s->least[top - 1];
        }
        if (s->count == b->capacity) {
            drop_worse(s, bar);
            if (s->count > b->capacity / 2) {
                return false;
            }
        }
        s->candidates[s->count++] = (candidate){score + off, first + c};
    }
    return true;
}

/* Scores a class as full scoring does, in a vector with others, which takes no longer. */
static float score_again(const xsm_model *m, const float *x, uint32_t class, const scratch *b)
{
    const uint32_t first = XSMI_MIN(class, m->classes - TOGETHER);
    const float scale = m->w.row_scale ? 1.0f : (float)m->w.alpha;
    const float *bias = m->w.bias ? m->w.bias + first : NULL;
    xsmi_tiles_scales(m, first, TOGETHER, b->scales);
    const float *scales = m->w.row_scale ? b->scales : NULL;
    if (m->w.narrow.data) {
        m->kernels->score_narrow(&m->w.narrow, first, TOGETHER, &x, 1, m->features, scale, scales, bias, b->lanes);
    } else {
        m->kernels->score_few(m->w.weight + first * m->w.stride, m->w.stride, TOGETHER, &x, 1, m->features, scale,
                              scales, bias, b->lanes);
    }
    return b->lanes[(size_t)(class - first) * XSMI_LANES];
}

static void rank_candidates(const xsm_model *m, search *s, const xsmi_top *list, const scratch *b)
{
    drop_worse(s, s->least[list->size - 1]);
    xsmi_top_start(list);
    for (size_t i = 0; i < s->count; i++) {
        const uint32_t class = s->candidates[i].class;
        xsmi_top_offer(list, score_again(m, s->x, class, b), class);
    }
    xsmi_top_sort(list);
}

static double norm_of(const float *x, uint32_t d)
{
    double squares = 0;
    for (uint32_t i = 0; i < d; i++) {
        squares += (double)x[i] * (double)x[i];
    }
    return sqrt(squares);
}

bool xsmi_model_screen(const xsm_model *m, const xsmi_features *row, const xsmi_top *list, void *memory,
                       const xsm_context *ctx)
{
    xsmi_arena arena = {memory, 0};
    scratch b = divide(m, list->size, &arena);
    search *s = &b.row;
    const xsmi_narrow weights =
        m->w.narrow.data ? m->w.narrow : (xsmi_narrow){XSM_DTYPE_FLOAT32, m->w.weight, m->w.stride};
    float *squares = most_whole(m) > 0 ? NULL : b.squares;
    s->x = xsmi_model_forward(m, row, b.hidden).values;
    s->norm = norm_of(s->x, m->features);
    s->count = 0;
    for (uint32_t k = 0; k < list->size; k++) {
        s->least[k] = -INFINITY;
    }
    for (uint32_t first = 0, some; first < m->classes; first += some) {
        some = xsmi_tile_classes(first, m->classes, XSMI_CLASS_TILE);
        if (xsmi_poll(ctx)) {
            return true;
        }
        xsmi_tiles_scales(m, first, some, b.scales);
        m->kernels->screen(&weights, first, some, s->x, m->features, b.sums, squares);
        if (!screen_tile(m, s, first, some, list->size, &b)) {
            return false;
        }
    }
    rank_candidates(m, s, list, &b);
    return true;
}
