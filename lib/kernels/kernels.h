/*
 * The kernels: every loop over a row of weights or over a tile of scores (logits).
 *
 * There is one table per instruction set; a context selects one when it is made. Nothing above this floor contains
 * intrinsics. A kernel is a leaf: it allocates nothing, never fails, and keeps no state.
 *
 * Bit-exactness. Every table returns the same bits for the same input, so that a result does not depend on the machine:
 * the order of the additions is part of the contract below, and every multiply-add is fused. Lane l of a partial sum
 * holds the terms whose index is l modulo XSMI_PARTIALS, in rising order; xsmi_join_partials() in arithmetic.h defines
 * how partial sums are joined. An element-wise kernel rounds once per operation, in the order in which its formula is
 * written. The bits of a NaN are not specified, only that it is a NaN. A maximum that is zero is +0.
 *
 * Shapes. A row of weights is `d` floats, consecutive rows start `stride` floats from each other, and neither need be
 * aligned (aligned rows are faster). Pointers never alias unless stated.
 */
#ifndef XSMI_KERNELS_H
#define XSMI_KERNELS_H

#include "kernels/weight_kinds.h"

/* Examples in a packed block: the vector lanes of full scoring run over examples. */
#define XSMI_LANES 32
/* The most examples that are scored with the lanes over classes instead (score_few). */
#define XSMI_FEW 4
/* Rows in a block of quads (score_quads). */
#define XSMI_QUAD_ROWS 16
/* Partial sums of a dot product. */
#define XSMI_PARTIALS 64
/* Partial sums of row_multiply_sum(). */
#define XSMI_DRAW_PARTIALS 16
/* The most classes in one call of score_tile and reduce_tile. Tile borders are multiples of it from the start of a
 * class run, so that the partial sums of exponentials are joined in the same order whatever the thread count. A
 * multiple of BLOCK_CLASSES() of every set: 14 (AVX-512), 12, 6, 4 and 3 (AVX2), 6 (NEON). */
#define XSMI_CLASS_TILE 168
/* Classes of a class run. A sum over all classes starts anew at every multiple of this number, and the sums of the
 * class runs are joined in rising order. So the sum of one is the same wherever it is computed, and classes can be
 * divided between machines at these borders without changing a bit of any result. A class run is long enough that
 * starting anew costs nothing, and short enough to be summed in float. Tiles do not cross its border: the last is
 * shorter. */
#define XSMI_RUN_CLASSES 4096
/* No class: an empty slot of a top list, or a target that is not among the classes. */
#define XSMI_NO_CLASS UINT32_MAX

/*
 * The running result of full scoring for one block of XSMI_LANES examples. Before the first tile: max = -INFINITY, sum
 * = 0, top_score = -INFINITY, top_class = XSMI_NO_CLASS, target_score = -INFINITY (xsmi_reduction_start() sets this).
 * Afterwards log-sum-exp = max + log(sum).
 */
typedef struct xsmi_reduction {
    float *max;             /* [XSMI_LANES] largest score so far */
    double *sum;            /* [XSMI_LANES] sum of exp(score - max) so far */
    uint32_t top;           /* length k of the top lists; 0 = none */
    float *top_score;       /* [top][XSMI_LANES], falling */
    uint32_t *top_class;    /* [top][XSMI_LANES]; of equal scores the smaller class first */
    const uint32_t *target; /* [XSMI_LANES] class whose score is requested, or XSMI_NO_CLASS; NULL = none */
    float *target_score;    /* [XSMI_LANES], set when the tile contains the target */
    size_t lanes;           /* lanes in use, the first ones, at least 1; results in the others have no meaning */
} xsmi_reduction;

/* Rows to prefetch because they will be scored soon: `count` rows of weights and a row of features. */
typedef struct xsmi_upcoming {
    const uint32_t *rows;
    size_t count;
    const float *x;
    size_t most; /* numbers of each row to prefetch, in whole XSMI_PARTIALS; may be more than a row has */
} xsmi_upcoming;

/* A queue of rows for later, which a kernel prefetches a few lines at a time while it waits for its own results. */
typedef struct xsm_prefetch_queue {
    const float *const *rows; /* [count] */
    size_t count, lines;      /* the first `lines` of each row are prefetched, at least one */
    size_t row, line;         /* the first line that has not been prefetched */
} xsmi_prefetch_queue;

/* Equations solved at once. */
#define XSMI_SOLVE_LANES 8

/*
 * The equations of implicit steps, one per lane, each with `count` classes; element k of lane l is at
 * [k*XSMI_SOLVE_LANES + l]. u and c_k, above 0, solve
 *     eta (1 - e^-u) + u - u_old = sum_k c_k,    log(c_k/rate) + q_k c_k + q_y sum_j c_j + u = margin_k.
 */
typedef struct xsmi_equations {
    size_t lanes;               /* lanes in use, the first ones, 1 to XSMI_SOLVE_LANES; the others are computed, too */
    size_t count;               /* at least 1 */
    double eta, rate;           /* above 0 */
    double tolerance;           /* absolute error of q_y C + u, with C = sum of c_k, and relative error of c_k */
    const double *u_old;        /* [XSMI_SOLVE_LANES] at least 0 */
    const double *q_y;          /* [XSMI_SOLVE_LANES] at least 0 */
    const double *margin;       /* [count][XSMI_SOLVE_LANES] */
    const double *q;            /* [count][XSMI_SOLVE_LANES] above 0 */
    double *u;                  /* [XSMI_SOLVE_LANES] result */
    double *c;                  /* [count][XSMI_SOLVE_LANES] result */
    double *work;               /* [2*count][XSMI_SOLVE_LANES] */
    xsmi_prefetch_queue *queue; /* or NULL */
} xsmi_equations;

/* Classifiers that are trained side by side on the same rows, one per lane. */
#define XSMI_DUAL_LANES 16
/* dual_logistic_pass() takes at most so many steps for an equation, until its relative residual is at most so large. */
#define XSMI_LOGISTIC_ROUNDS 64
#define XSMI_LOGISTIC_NEAR 0x1p-20f

/*
 * A pass of dual coordinate descent (labels/dual.h) over rows in a given order, for XSMI_DUAL_LANES classifiers. Masks
 * have lane l as bit l. Row i of the pass is row source[i] of the features. Where a member has two meanings, the second
 * is that of the logistic loss. Its alpha is C sigma(-u); `alpha` stores u, because a float has too few digits for an
 * alpha near C.
 */
typedef struct xsmi_dual_pass {
    const uint64_t *offsets; /* of each row's features, or NULL: dense rows, `stride` floats apart */
    const uint32_t *index;   /* if dense, the numbers from 0 */
    const float *value;
    size_t stride, features; /* of dense rows */
    const uint32_t *source;  /* or NULL: the same numbers */
    const uint32_t *order;   /* [count] rows */
    size_t count;
    const uint16_t *positive; /* [row] lanes for which the row is positive */
    uint16_t *active;         /* [row] lanes that visit the row; a pass clears the lanes in which the row is left out
                                 from now on */
    uint16_t live;            /* lanes that take part */
    const float *step;        /* [row] -1/(|x|^2 + 1 + diagonal); |x|^2 + 1 */
    float diagonal;           /* 1/(2 C); C */
    const float *diagonals;   /* [row] the same of each row; NULL = `diagonal` */
    const float *above;       /* [XSMI_DUAL_LANES] a row with alpha = 0 and a gradient above this is left out */
    float *alpha;             /* [row][XSMI_DUAL_LANES], at least 0; u */
    float *weights;           /* [feature][XSMI_DUAL_LANES] */
    float *bias;              /* [XSMI_DUAL_LANES] */
    float *most, *least;      /* [XSMI_DUAL_LANES] of the projected gradients, from -INFINITY and INFINITY; of their
                                 absolute values, and at most 0 */
} xsmi_dual_pass;

/* Rows of weights that are stored in fewer bits (XSMI_NARROW_KINDS), without their factors. screen() takes
 * XSM_DTYPE_FLOAT32, too. */
typedef struct xsmi_narrow {
    int32_t dtype;
    const void *data; /* aligned to a number */
    size_t stride;    /* numbers from one row to the next */
} xsmi_narrow;

/* Weights in fewer bits that a kernel widens while it does other work: numbers `at` to `end`, to out[0..end-at). */
typedef struct xsmi_widening {
    const xsmi_narrow *from;
    size_t at, end;
    float *out;
} xsmi_widening;

typedef struct xsmi_kernels {
    const char *name; /* "scalar", "avx2", "avx512", "neon" */

    /* -- rows ------------------------------------------------------------------------------------ */

    /* Sum of a[i]*b[i]. */
    float (*dot)(const float *a, const float *b, size_t n);
    /* y[i] = fma(a, x[i], b*y[i]). (axpy is b = 1: multiplying by 1 is exact.) */
    void (*axpby)(float *y, const float *x, size_t n, float a, float b);
    /* y[i] = a*y[i]. */
    void (*scale)(float *y, size_t n, float a);

    /* out[j] = dot(w + rows[j]*stride, x, d) for j < m. Meanwhile prefetches the rows of `upcoming`, one line for each
     * line read: lines that are prefetched faster than they arrive are dropped or delay the others. upcoming NULL:
     * none. */
    void (*gather_scores)(const float *w, size_t stride, const uint32_t *rows, size_t m, const float *x, size_t d,
                          float *out, const xsmi_upcoming *upcoming);
    /* Row rows[j] of w = fma(a[j], x, b[j]*row), in rising j (a row may occur twice). b NULL: all ones. */
    void (*scatter_update)(float *w, size_t stride, const uint32_t *rows, size_t m, const float *x, size_t d,
                           const float *a, const float *b);

    /* The same for a sparse x of nnz (index, value) pairs, indexes strictly rising; term i of the sum (i is the
     * position in the list, not the feature) belongs to partial i modulo 16 (xsmi_join_16()). */
    void (*sparse_gather_scores)(const float *w, size_t stride, const uint32_t *rows, size_t m, const uint32_t *index,
                                 const float *value, size_t nnz, float *out);
    /* w[rows[j]*stride + index[i]] = fma(a[j], value[i], w[rows[j]*stride + index[i]]), in rising j. */
    void (*sparse_scatter_update)(float *w, size_t stride, const uint32_t *rows, size_t m, const uint32_t *index,
                                  const float *value, size_t nnz, const float *a);

    /* A sparse x times a matrix whose rows are features (index NULL: feature i of x is i), lanes over the n columns.
     * out[c] = fma(value[i], w[index[i]*stride + c], out[c]), in rising i. */
    void (*column_sums)(const float *w, size_t stride, const uint32_t *index, const float *value, size_t nnz, size_t n,
                        float *out);
    /* w[index[i]*stride + c] = fma(a*value[i], g[c], w[index[i]*stride + c]), a*value[i] rounded first; no index occurs
     * twice. */
    void (*column_update)(float *w, size_t stride, const uint32_t *index, const float *value, size_t nnz, size_t n,
                          const float *g, float a);

    /* A step of Adagrad: with the gradient t = b*(a*x[i]), both products rounded, s[i] = fma(t, t, s[i]), then
     * y[i] = y[i] - (eta*t)/sqrt(s[i]). The sums s are above 0. */
    void (*adagrad)(float *y, float *s, const float *x, size_t n, float a, float b, float eta);
    /* The same for y[index[i]] and s[index[i]], with value[i] in place of x[i]; no index occurs twice. */
    void (*sparse_adagrad)(float *y, float *s, const uint32_t *index, const float *value, size_t nnz, float a, float b,
                           float eta);

    /* -- full scoring, lanes over examples -------------------------------------------------------- */

    /* packed[i*XSMI_LANES + l] = x[l][i] for l < n, 0 for the lanes from n (n <= XSMI_LANES). */
    void (*pack)(const float *const *x, size_t n, size_t d, float *packed);
    /* The other way for scores: out[l*stride + c] = scores[c*XSMI_LANES + l] for l < n. */
    void (*unpack)(const float *scores, size_t classes, size_t n, float *out, size_t stride);
    /* out[c*XSMI_LANES + l] = fma(s, sum_i w[c*stride+i] * packed[i*XSMI_LANES+l], bias[c]) where the sum runs in
     * rising i by fused multiply-adds from 0 and s = scale, or scale*row_scale[c] rounded to float; row_scale NULL: all
     * ones; bias NULL: out = s*sum. classes <= XSMI_CLASS_TILE. `packed` and `out` are 64-byte aligned.
     * The order for a batch: for each tile of classes, for each block of examples, score_tile and reduce_tile. The
     * tile's weights are then read from memory once, prefetched (the rows after the tile's too), and stay in the
     * L2 cache beside the packed batch; at d = 512 eight blocks fit 1 MiB. */
    void (*score_tile)(const float *w, size_t stride, size_t classes, const float *packed, size_t d, float scale,
                       const float *row_scale, const float *bias, float *out);
    /* Computes the same scores, with the same bits, of the first n lanes, n >= 1; the other lanes of `out` then have no
     * meaning. Half a block of examples takes half the time if a vector has that many lanes. */
    void (*score_lanes)(const float *w, size_t stride, size_t classes, const float *packed, size_t n, size_t d,
                        float scale, const float *row_scale, const float *bias, float *out);
    /* As score_lanes(). Meanwhile does widen() for *next, in time that the arithmetic leaves free. */
    void (*score_widening)(const float *w, size_t stride, size_t classes, const float *packed, size_t n, size_t d,
                           float scale, const float *row_scale, const float *bias, float *out,
                           const xsmi_widening *next);
    /* Computes the same scores, with the same bits, of examples x[0..n), 1 <= n <= XSMI_FEW, which need not be packed:
     * only the first n lanes of `out` are written. Runs about as fast as the weights can be read from memory. */
    void (*score_few)(const float *w, size_t stride, size_t classes, const float *const *x, size_t n, size_t d,
                      float scale, const float *row_scale, const float *bias, float *out);
    /* Products of a query with rows stored in blocks of XSMI_QUAD_ROWS; consecutive blocks start `block_stride` floats
     * from each other. Four numbers of a row are adjacent: number 4c + p of row i is at xsmi_quad_offset(i, quads) +
     * c*XSMI_LINE + p, with zeros after the last. The query stores each group of four numbers four times: 4c + p at
     * [c*XSMI_LINE + 4r + p] for r < 4. out[b*XSMI_QUAD_ROWS + i] = (s_0 + s_1) + (s_2 + s_3), where s_p is the sum
     * over c by fused multiply-adds from 0. */
    void (*score_quads)(const float *query, const float *rows, size_t block_stride, size_t blocks, size_t quads,
                        float *out);
    /* Adds the tile of scores [classes][XSMI_LANES] of classes first, first+1, ... to r. Lane-wise: m = the larger of
     * r->max and the tile's maximum; t = float sum, in rising class order from 0, of expf0(score - m); r->sum =
     * r->sum*(double)expf0(r->max - m) + t (one rounding each, multiply then add); r->max = m. expf0(x) for x <= 0: the
     * shared polynomial, error below 1 ulp (arithmetic.h), 1 at 0, exactly 0 below -87. Tiles are added in rising order
     * of `first`. A score of -INFINITY or NaN enters no top list. A score of NaN or +INFINITY makes sum NaN in its
     * lane. A lane whose maximum stays -INFINITY leaves sum unchanged. */
    void (*reduce_tile)(const float *scores, size_t classes, uint32_t first, xsmi_reduction *r);
    /* Finds the scores of the first n lanes of a tile that are above bar[l], or NaN, and writes their indexes
     * c*XSMI_LANES + l, in rising order. `found` has space for one more than classes*n; returns how many were found.
     * bar is [XSMI_LANES]; its first n values are used. */
    size_t (*sift_tile)(const float *scores, size_t classes, const float *bar, size_t n, uint32_t *found);
    /* Row c of w = row + sum_i g[i*g_stride + c] * x[i], i rising by fused multiply-adds onto the row; c < classes, i <
     * n. The update of a dense minibatch. Any number of classes; the features are copied once per call, so a call
     * should have many classes. */
    void (*rank_update)(float *w, size_t stride, size_t classes, const float *g, size_t g_stride, const float *const *x,
                        size_t n, size_t d);
    /* packed[p*pitch + i*XSMI_LANES + l] = number p*XSMI_LANES + l of x[i], 0 if it has none, for i < n and every piece
     * p of XSMI_LANES of the d numbers. */
    void (*pack_rows)(const float *const *x, size_t n, size_t d, float *packed, size_t pitch);
    /* The same update with rows that pack_rows() has packed, for several calls with the same rows; onto 0, not onto w,
     * if not `add`. The coefficient of class c and row i is g[c*g_class + i*g_row]; one of the two steps is 1.
     * Meanwhile the rows of `queue` (NULL = none) are prefetched. */
    void (*rank_packed)(bool add, float *w, size_t stride, size_t classes, const float *g, size_t g_class, size_t g_row,
                        const float *packed, size_t pitch, size_t n, size_t d, xsmi_prefetch_queue *queue);

    /* -- weights in fewer bits ------------------------------------------------------------------------------------ */

    /* out[i] = number first + i of w, widened: exactly. The kernels below give the same bits as their namesakes give
     * for widened weights. */
    void (*widen)(const xsmi_narrow *w, size_t first, size_t n, float *out);
    /* As gather_scores(). */
    void (*gather_narrow)(const xsmi_narrow *w, const uint32_t *rows, size_t m, const float *x, size_t d, float *out);
    /* As sparse_gather_scores(). */
    void (*sparse_gather_narrow)(const xsmi_narrow *w, const uint32_t *rows, size_t m, const uint32_t *index,
                                 const float *value, size_t nnz, float *out);
    /* As column_sums(). */
    void (*narrow_column_sums)(const xsmi_narrow *w, const uint32_t *index, const float *value, size_t nnz, size_t n,
                               float *out);
    /* As score_few(), for the classes from `first` on. */
    void (*score_narrow)(const xsmi_narrow *w, size_t first, size_t classes, const float *const *x, size_t n, size_t d,
                         float scale, const float *row_scale, const float *bias, float *out);
    /* out[c] = dot() of row first + c with x, and squares[c] = the sum of the row's squares, term i in partial i modulo
     * 32, of which partial l and l + 16 are added before xsmi_join_16(); squares NULL: not needed. Here the type may
     * also be XSM_DTYPE_FLOAT32. Reads weights faster than score_few, nearly as fast as memory gives them; prefetches
     * what follows the rows. */
    void (*screen)(const xsmi_narrow *w, size_t first, size_t classes, const float *x, size_t d, float *out,
                   float *squares);

    /* -- implicit steps, lanes over steps ------------------------------------------------------------------------- */

    /* Newton's method on the equations of all lanes together: one logarithm per class and one exponential per round.
     * Returns the lanes that were solved, lane l as bit l. In the others, where numbers are out of range or the method
     * does not converge in a few rounds, u and c have no meaning. A lane's results depend neither on the others nor on
     * `lanes`. */
    uint32_t (*solve)(const xsmi_equations *p);

    /* -- dual coordinate descent, lanes over classifiers --------------------------------------------------------- */

    /* For each row of the order, in each lane: z = ((s_0 + s_1) + (s_2 + s_3)) + bias, where s_p is the sum, from 0 by
     * fused multiply-adds, of the products of the row's entries p modulo 4 with the weights; y = 1 for a positive row,
     * else -1; g = fma(alpha, diagonal, fma(y, z, -1)), with the row's own diagonal if there is one. A lane in which
     * the row is active and alpha = 0 < g - above leaves the row out. In the other active lanes the projected gradient
     * is g, or min(g, 0) where alpha = 0; alpha becomes max(fma(step, g, alpha), 0), and bias and weights change by d =
     * y*(new alpha - alpha): bias + d, fma(d, value, weight). */
    void (*dual_pass)(const xsmi_dual_pass *p);
    /* The same for the logistic loss, where no row is left out. With m = y*(z as above), p the logistic function of -u,
     * k = step*diagonal and from = fma(-k, p, m), u becomes the root of f(u) = fma(-k, sigma(-u), u - from). Newton's
     * method starts at m, clamped to [from, from + k]. A step that would leave the interval known to hold the root goes
     * to its middle instead. At most XSMI_LOGISTIC_ROUNDS steps are taken, while |f| is above XSMI_LOGISTIC_NEAR*((1 +
     * k) + |from|). The gradient is m - u with the old u; d = (y*C)*(new p - old p). */
    void (*dual_logistic_pass)(const xsmi_dual_pass *p);
    /* Adds (value*value)*used[lane], for each entry of a row and each lane, to the lane of line `index` of `squares`.
     * Lines have XSMI_DUAL_LANES numbers. */
    void (*dual_squares)(float *squares, const uint32_t *index, const float *value, size_t count, const float *used);
    /* Adds to share[lane], entry by entry, s/(1 + unit*max(squares - s*used, 0)), where s = value*value and `squares`
     * is the lane of the entry's line. A difference that is NaN counts as 0. */
    void (*dual_shares)(const float *squares, const uint32_t *index, const float *value, size_t count,
                        const float *used, float unit, float *share);
    /* Makes 0, in `width` lines of weights, each weight that is NaN or whose absolute value is less than least[lane],
     * which is not NaN. Then bit l of kept[line] says whether lane l of the line is not 0. Returns whether all weights
     * were finite. */
    bool (*dual_keep)(float *weights, size_t width, const float *least, uint16_t *kept);

    /* -- random words, lanes over streams -------------------------------------------------------------------------- */

    /* Words out[w*n + i], w < 4, of Philox4x32-10 under `key` at counter {block, purpose, low half of positions[i],
     * high half of positions[i]}: words 4*block to 4*block + 3 of a stream of base/random.h. */
    void (*philox)(const uint32_t key[2], uint32_t block, uint32_t purpose, const uint64_t *positions, size_t n,
                   uint32_t *out);

    /* -- one example's contiguous scores, lanes over classes ----------------------------------------- */

    /* The largest of z[0..n), -INFINITY if n = 0; NaN if any is NaN. */
    float (*row_max)(const float *z, size_t n);
    /* y[i] = a*y[i], or 0 if that is smaller than `least`. Returns the largest |y[i]|, 0 if n = 0; NaN if any is NaN.
     */
    float (*row_scaled_max)(float *y, size_t n, float a, float least);
    /* Sum of expf0(z[i] - max), with partial sums like dot's, but in float within runs of XSMI_RUN_CLASSES terms and in
     * double across runs. */
    double (*row_sum_exp)(const float *z, size_t n, float max);
    /* out[i] = scale * exp(z[i] - shift), for z[i] <= shift up to rounding (arguments above 0 are clamped to 0);
     * out may be z. */
    void (*row_softmax)(const float *z, size_t n, float shift, float scale, float *out);

    /* -- one example's drawn classes ------------------------------------------------------------------ */

    /* out[j] = z[j] - less[j], in double precision and then rounded; out may be z. */
    void (*row_subtract)(const float *z, const double *less, size_t n, float *out);
    /* y[j] = counts[j]*y[j] in single precision, for counts below 2^31: processors convert these faster as signed
     * numbers. Returns the sum of these products in double precision, term j in partial j modulo XSMI_DRAW_PARTIALS, in
     * rising order; xsmi_join_draws() joins the partials. */
    double (*row_multiply_sum)(float *y, const uint32_t *counts, size_t n);

    /* -- trees, lanes over examples ------------------------------------------------------------------ */

    /* One level of a binary tree: children[2c] = parents[c] + log sigma(-scores[c]) and children[2c+1] = parents[c] +
     * log sigma(scores[c]), in each of the XSMI_LANES lanes of node c < nodes. With t = log1p01(expf0(-|s|)), log
     * sigma(s) = min(s, 0) - t, error below 1e-7 + 1 ulp. Scores must be finite. */
    void (*log_branches)(const float *scores, const float *parents, size_t nodes, float *children);
    /* Logistic functions of n scores: with e = expf0(-|s|) and q = 1/(1 + e), right[i] = sigma(s) is q for s >= 0 and
     * e*q for s < 0, left[i] = sigma(-s) is the other one, and rest[i] = log1p01(e), so that log sigma(s) = min(s, 0) -
     * rest; rest NULL: not needed. Relative errors below 3e-7. Scores must be finite. */
    void (*logistics)(const float *scores, size_t n, float *left, float *right, float *rest);
} xsmi_kernels;

/* Instruction sets, as bits of a mask. */
enum {
    XSMI_CPU_AVX2 = 1u << 0,   /* AVX2 and FMA, on a system that saves YMM state */
    XSMI_CPU_AVX512 = 1u << 1, /* AVX-512 F, BW, DQ, VL, on a system that saves ZMM and mask state */
    XSMI_CPU_NEON = 1u << 2
};

/* Returns the best table for this machine without the sets in `disabled` (0: all are allowed). Reads CPUID and XCR0,
 * keeps no state. */
const xsmi_kernels *xsmi_kernels_select(uint32_t disabled);
/* Returns the instruction sets that this machine and its system support (a mask of the bits above). */
uint32_t xsmi_cpu_features(void);

/* The sparse_gather_narrow() of every table (scalar.c): it waits for memory, so that vectors would not help. */
void xsmi_sparse_gather_narrow(const xsmi_narrow *w, const uint32_t *rows, size_t m, const uint32_t *index,
                               const float *value, size_t nnz, float *out);

/* A table of the functions of these names, which each file of a set defines. */
#define XSMI_KERNELS(set)                                                                                              \
    {                                                                                                                  \
        .name = set, .dot = dot, .axpby = axpby, .scale = scale, .gather_scores = gather_scores,                       \
        .scatter_update = scatter_update, .sparse_gather_scores = sparse_gather_scores,                                \
        .sparse_scatter_update = sparse_scatter_update, .column_sums = column_sums, .column_update = column_update,    \
        .pack = pack, .unpack = unpack, .score_tile = score_tile, .score_lanes = score_lanes,                          \
        .score_widening = score_widening, .score_few = score_few, .score_quads = score_quads, .sift_tile = sift_tile,  \
        .reduce_tile = reduce_tile, .pack_rows = pack_rows, .rank_update = rank_update, .rank_packed = rank_packed,    \
        .row_max = row_max, .row_scaled_max = row_scaled_max, .row_sum_exp = row_sum_exp, .row_softmax = row_softmax,  \
        .row_subtract = row_subtract, .row_multiply_sum = row_multiply_sum, .log_branches = log_branches,              \
        .logistics = logistics, .widen = widen, .gather_narrow = gather_narrow,                                        \
        .sparse_gather_narrow = xsmi_sparse_gather_narrow, .narrow_column_sums = narrow_column_sums,                   \
        .score_narrow = score_narrow, .screen = screen, .adagrad = adagrad, .sparse_adagrad = sparse_adagrad,          \
        .solve = solve, .dual_pass = dual_pass, .dual_logistic_pass = dual_logistic_pass,                              \
        .dual_squares = dual_squares, .dual_shares = dual_shares, .dual_keep = dual_keep, .philox = philox,            \
    }

extern const xsmi_kernels xsmi_kernels_scalar;
#if defined(__x86_64__) || defined(__i386__)
extern const xsmi_kernels xsmi_kernels_avx2;
extern const xsmi_kernels xsmi_kernels_avx512;
#elif defined(__aarch64__)
extern const xsmi_kernels xsmi_kernels_neon;
#endif

/* Fills a reduction's arrays with the starting values. */
void xsmi_reduction_start(xsmi_reduction *r);

/* Floats in a cache line. */
#define XSMI_LINE 16

/* One number, widened. */
static inline float xsmi_narrow_number(const xsmi_narrow *w, size_t at)
{
    return xsmi_number_at(w->dtype, w->data, at);
}

/* Returns the position of the first number of row i < XSMI_QUAD_ROWS in a block of quads. */
static inline size_t xsmi_quad_offset(size_t i, size_t quads)
{
    return i % 4 * quads * XSMI_LINE + i / 4 * 4;
}

/* For functions that only prefetch: inlined, because gcc treats a call of one as a call without effect, and removes
 * it. */
#define XSMI_PREFETCHER __attribute__((always_inline)) static inline

/* Prefetches the line at p into the L2 cache. */
XSMI_PREFETCHER void xsmi_prefetch_line(const float *p)
{
    __builtin_prefetch(p, 0, 2);
}

/* Prefetches the line at p into the L1 cache, for use soon. When lines of several rows are prefetched in turn, the
 * processor drops fewer of these than of prefetches into the L2 cache. */
XSMI_PREFETCHER void xsmi_prefetch_soon(const float *p)
{
    __builtin_prefetch(p, 0, 3);
}

/*
 * Prefetches the first line of each row. If the processor has not used a row's page lately, it must look up the page's
 * address first, and completes no later instruction before that look-up ends: a prefetch within a product stops the
 * product. Look-ups of prefetches that follow one another run side by side.
 */
XSMI_PREFETCHER void xsmi_prefetch_firsts(const xsmi_prefetch_queue *a)
{
    for (size_t row = 0; row < a->count; row++) {
        xsmi_prefetch_line(a->rows[row]);
    }
}

/* Prefetches the next `most` lines, or all remaining ones if there are fewer. */
XSMI_PREFETCHER void xsmi_prefetch_queued(xsmi_prefetch_queue *a, size_t most)
{
    size_t row = a->row, line = a->line;
    while (most > 0 && row < a->count) {
        const float *p = a->rows[row] + line * XSMI_LINE;
        const size_t left = a->lines - line, some = most < left ? most : left;
        for (const float *end = p + some * XSMI_LINE; p < end; p += XSMI_LINE) {
            xsmi_prefetch_soon(p);
        }
        most -= some;
        line += some;
        if (line >= a->lines) {
            line = 0;
            row++;
        }
    }
    a->row = row;
    a->line = line;
}

/* Prefetches every cache line of n floats, for a row that will soon be read and written. */
XSMI_PREFETCHER void xsmi_prefetch_row(const float *row, size_t n)
{
    const char *p = (const char *)row;
    const char *end = (const char *)(row + n);
    for (; p < end; p += 64) {
        __builtin_prefetch(p, 1, 3);
    }
}

#endif
