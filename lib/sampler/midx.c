/*
 * Classes by two codebooks of the present weights (MIDX: J. Chen et al., Adaptive sampled softmax with inverted
 * multi-index: methods, theory and applications, 2025, arXiv 2501.08563): w_k is near c_a + d_b, where c_a is the mean
 * of the weights of a cluster of classes, and d_b that of a cluster of what then remains. N_ab classes are in cell (a,
 * b). With s_a = x.c_a and t_b = x.d_b,
 *     q(a, b|x) = N_ab e^(s_a + t_b) / Z,  Z = sum_ab N_ab e^(s_a + t_b),  q(k|x) = e^(s_a + t_b) / Z in the cell of k.
 * A draw takes a by its marginal, b given a, then any class of the cell. Codebooks are made anew after 1, 2, 4, ...
 * examples, later after `every` more. With M words and D features, a row costs O(MD + M^2), a draw O(log M), the first
 * with its a O(M).
 *
 * The code of a row is s [M], the marginals of a [M], t [M], log Z, with s and t relative to those of one cell, so that
 * log q has small terms. That is the cell of both best words, unless classes of likely words are so few that Z
 * underflows: then it is the best that has classes.
 */
#include "sampler/arrays.h"
#include "base/activity.h"
#include "base/held.h"
#include "base/order.h"
#include "index/spherical.h"
#include "sampler/sampler.h"

#include <math.h>
#include <string.h>

enum { WORDS_MOST = 1024, ITERATIONS = 10, SAMPLES = 32, READ_ROWS = 512 };
/* The most sums that a row's draws keep, and the most first words whose sums are kept: M of each. */
enum { KEPT_SUMS = 4096, KEPT_WORDS = 64 };
/* Sums of floats relative to their largest e^score are used from here on: what underflowed in them is far less. */
#define LEAST 1e-15

/* What the distribution is. */
typedef struct midx_books {
    xsmi_held held;           /* the arrays */
    float *words;             /* [2][M][stride], the bias at D */
    uint32_t *cell;           /* [K] a*M + b of each class */
    float *sizes;             /* [M][size_stride] N_ab */
    uint32_t *starts, *order; /* [M^2 + 1], [K] the classes of each cell */
} midx_books;

typedef struct midx_state {
    int64_t words, every;
    xsm_context *context;
    const xsmi_kernels *kernels;
    uint32_t classes, features;
    size_t stride, size_stride;
    uint32_t rows[WORDS_MOST]; /* 0, 1, ...: for the kernels that gather */
    midx_books books;
    uint64_t next; /* examples at which books are made again */
} midx_state;

static const xsm_option options[] = {
    XSMI_OPTION_INT("words", midx_state, words, "64", 1, WORDS_MOST, "M, the words of each codebook"),
    XSMI_OPTION_INT("every", midx_state, every, "50000", 1, 1e15,
                    "most examples between one making of the codebooks and the next"),
};

/* -- codebooks ----------------------------------------------------------------------------------------------------- */

/* Makes books of zeros: every class in the first cell. */
static xsm_status new_books(const midx_state *s, midx_books *b, xsm_error *err)
{
    const size_t m = (size_t)s->words;
    b->held.context = s->context;
    b->words = xsmi_hold_zeros(&b->held, 2 * m, s->stride * sizeof *b->words);
    b->cell = xsmi_hold_zeros(&b->held, s->classes, sizeof *b->cell);
    b->sizes = xsmi_hold(&b->held, m, s->size_stride * sizeof *b->sizes);
    b->starts = xsmi_hold(&b->held, m * m + 1, sizeof *b->starts);
    b->order = xsmi_hold(&b->held, s->classes, sizeof *b->order);
    const xsm_status status = xsmi_held_check(&b->held, "codebooks", err);
    if (status != XSM_OK) {
        xsmi_held_release(&b->held);
    }
    return status;
}

/* Sorts the classes by cell, and counts them. */
static void fill_cells(const midx_state *s, midx_books *b)
{
    const uint32_t m = (uint32_t)s->words;
    xsmi_sort_by_cluster(b->cell, s->classes, m * m, b->starts, b->order);
    memset(b->sizes, 0, m * s->size_stride * sizeof *b->sizes);
    for (uint32_t c = 0; c < m * m; c++) {
        b->sizes[c / m * s->size_stride + c % m] = (float)(b->starts[c + 1] - b->starts[c]);
    }
}

/* What the first book leaves of the rows. */
typedef struct remainder_rows {
    const midx_state *state;
    const xsm_index_source *rows;
    const uint32_t *word; /* [K] of the first book */
    const float *words;
} remainder_rows;

static void read_remainder(const xsm_index_source *source, const uint32_t *rows, uint32_t first, uint32_t count,
                           float *out, size_t stride)
{
    const remainder_rows *of = source->state;
    of->rows->read(of->rows, rows, first, count, out, stride);
    for (uint32_t j = 0; j < count; j++) {
        const uint32_t k = rows ? rows[j] : first + j;
        of->state->kernels->axpby(out + j * stride, of->words + of->word[k] * of->state->stride, source->width, -1, 1);
    }
}

/* Clusters rows: the word of each [K], and the words [M][stride], which are zeros before. */
static xsm_status make_book(const midx_state *s, const xsm_index_source *rows, uint32_t *word, float *words,
                            xsm_error *err)
{
    const size_t m = (size_t)s->words, width = rows->width;
    const xsmi_sphere_settings settings = {s->words, ITERATIONS, SAMPLES, rows->seed};
    xsmi_sphere sphere;
    XSMI_TRY(xsmi_sphere_build(&sphere, &settings, rows, err));
    for (uint32_t k = 0; k < s->classes; k++) {
        word[k] = sphere.member[k].cluster;
    }
    xsmi_sphere_clear(&sphere);
    xsmi_held held = {.context = s->context};
    double *sums = xsmi_hold_zeros(&held, m, width * sizeof *sums);
    uint32_t *counts = xsmi_hold_zeros(&held, m, sizeof *counts);
    float *row = xsmi_hold(&held, s->stride, sizeof *row);
    const xsm_status status = xsmi_held_check(&held, "codebooks", err);
    const bool whole = status == XSM_OK;
    for (uint32_t k = 0; whole && k < s->classes && (k % READ_ROWS > 0 || !xsmi_poll(s->context)); k++) {
        double *sum = sums + word[k] * width;
        rows->read(rows, NULL, k, 1, row, s->stride);
        counts[word[k]]++;
        for (size_t i = 0; i < width; i++) {
            sum[i] += (double)row[i];
        }
    }
    for (size_t a = 0; whole && a < m; a++) {
        for (size_t i = 0; counts[a] > 0 && i < width; i++) {
            words[a * s->stride + i] = (float)(sums[a * width + i] / counts[a]);
        }
    }
    xsmi_held_release(&held);
    return whole ? xsmi_go_on(s->context, err) : status;
}

static xsm_status make_books(const midx_state *s, const xsm_index_source *rows, midx_books *b, uint32_t *second,
                             xsm_error *err)
{
    const uint32_t m = (uint32_t)s->words;
    const remainder_rows of = {s, rows, b->cell, b->words};
    xsm_index_source remainder = *rows;
    remainder.state = &of;
    remainder.read = read_remainder;
    XSMI_TRY(make_book(s, rows, b->cell, b->words, err));
    XSMI_TRY(make_book(s, &remainder, second, b->words + m * s->stride, err));
    for (uint32_t k = 0; k < s->classes; k++) {
        b->cell[k] = b->cell[k] * m + second[k];
    }
    fill_cells(s, b);
    return XSM_OK;
}

static xsm_status follow(void *state, const xsm_sampler_step *step, xsm_error *err)
{
    midx_state *s = state;
    if (step->examples < s->next) {
        return XSM_OK;
    }
    midx_books made = {0};
    XSMI_TRY(new_books(s, &made, err));
    uint32_t *second = xsmi_allocate(s->context, s->classes, sizeof *second);
    const xsm_status status = second ? make_books(s, step->weights, &made, second, err)
                                     : xsmi_fail_memory(err, s->classes * sizeof *second, "codebooks");
    xsmi_release(s->context, second, s->classes, sizeof *second);
    if (status != XSM_OK) {
        xsmi_held_release(&made.held);
        return status;
    }
    xsmi_held_release(&s->books.held);
    s->books = made;
    s->next = step->examples + XSMI_MIN(step->examples, (uint64_t)s->every);
    return XSM_OK;
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

static void unbind(void *state)
{
    midx_state *s = state;
    xsmi_held_release(&s->books.held);
}

static xsm_status bind(void *state, const xsm_sampler_problem *problem, xsm_error *err)
{
    midx_state *s = state;
    s->context = problem->context;
    s->kernels = xsmi_context_kernels(problem->context);
    s->classes = problem->classes;
    s->features = problem->features;
    s->stride = xsmi_row_stride((size_t)problem->features + 1);
    s->size_stride = xsmi_row_stride((size_t)s->words);
    s->next = 1;
    for (uint32_t a = 0; a < WORDS_MOST; a++) {
        s->rows[a] = a;
    }
    XSMI_TRY(new_books(s, &s->books, err));
    fill_cells(s, &s->books);
    return XSM_OK;
}

/* -- draws --------------------------------------------------------------------------------------------------------- */

static uint32_t code_length(const void *state)
{
    return 3 * (uint32_t)((const midx_state *)state)->words + 1;
}

static void subtract(float *scores, size_t n, float by)
{
    for (size_t i = 0; i < n; i++) {
        scores[i] -= by;
    }
}

/* Computes what a row scores with the words of a book. */
static void score(const midx_state *s, const float *words, const xsm_row *x, float *out)
{
    const size_t m = (size_t)s->words;
    if (x->index) {
        s->kernels->sparse_gather_scores(words, s->stride, s->rows, m, x->index, x->values, (size_t)x->count, out);
    } else {
        s->kernels->gather_scores(words, s->stride, s->rows, m, x->values, (size_t)x->count, out, NULL);
    }
    for (size_t a = 0; a < m; a++) {
        out[a] += words[a * s->stride + s->features];
    }
}

/* Sums the terms N_b e^t_b of cells, each with those before it, relative to that of the best one with classes. Returns
 * which that is; m: none has classes, and the sums are 0. */
static size_t sum_terms(const float *sizes, const float *second, size_t m, double *sums)
{
    size_t best = m;
    for (size_t b = 0; b < m; b++) {
        best = sizes[b] > 0 && (best == m || second[b] > second[best]) ? b : best;
    }
    for (size_t b = 0; b < m; b++) {
        const double below = sizes[b] > 0 ? (double)second[b] - (double)second[best] : -INFINITY;
        sums[b] = (b > 0 ? sums[b - 1] : 0) + (below < -100 ? 0 : (double)sizes[b] * exp(below));
    }
    return best;
}

/* Makes scores relative to those of the best cell that has classes, writes the sum of each first word's terms and
 * returns that of all. O(M^2). */
static double sum_cells(const midx_state *s, float *first, float *second, double *sums)
{
    const size_t m = (size_t)s->words;
    size_t best[2] = {m, 0};
    double cells[WORDS_MOST], most[WORDS_MOST], z = 0;
    for (size_t a = 0; a < m; a++) {
        const size_t b = sum_terms(s->books.sizes + a * s->size_stride, second, m, cells);
        sums[a] = cells[m - 1];
        most[a] = b < m ? (double)first[a] + (double)second[b] : -INFINITY;
        if (b < m && (best[0] == m || most[a] > most[best[0]])) {
            best[0] = a;
            best[1] = b;
        }
    }
    for (size_t a = 0; a < m; a++) {
        sums[a] *= exp(most[a] - most[best[0]]);
        z += sums[a];
    }
    subtract(first, m, first[best[0]]);
    subtract(second, m, second[best[1]]);
    return z;
}

static void encode(const void *state, const xsm_row *row, float *code)
{
    const midx_state *s = state;
    const size_t m = (size_t)s->words;
    float *first = code, *marginal = code + m, *second = code + 2 * m, within[WORDS_MOST];
    double sums[WORDS_MOST], z = 0;
    score(s, s->books.words, row, first);
    score(s, s->books.words + m * s->stride, row, second);
    float most[2] = {s->kernels->row_max(first, m), s->kernels->row_max(second, m)};
    if (!(fabsf(most[0]) < INFINITY && fabsf(most[1]) < INFINITY)) { /* a model that diverges: uniform */
        memset(code, 0, 3 * m * sizeof *code);
        most[0] = most[1] = 0;
    }
    subtract(first, m, most[0]);
    subtract(second, m, most[1]);
    s->kernels->row_softmax(second, m, 0, 1, marginal);
    s->kernels->gather_scores(s->books.sizes, s->size_stride, s->rows, m, marginal, m, within, NULL);
    s->kernels->row_softmax(first, m, 0, 1, marginal);
    for (size_t a = 0; a < m; a++) {
        sums[a] = (double)marginal[a] * (double)within[a];
        z += sums[a];
    }
    if (!(z >= LEAST)) {
        z = sum_cells(s, first, second, sums);
    }
    for (size_t a = 0; a < m; a++) {
        marginal[a] = (float)(sums[a] / z);
    }
    code[3 * m] = (float)log(z);
}

static double log_of_cell(const midx_state *s, const float *code, uint32_t a, uint32_t b)
{
    const double log_q = (double)code[a] + (double)code[2 * s->words + b] - (double)code[3 * s->words];
    return log_q > 0 ? 0 : log_q; /* not above by rounding; NaN is not hidden */
}

static double log_probability(const void *state, const float *code, uint32_t class)
{
    const midx_state *s = state;
    const uint32_t cell = s->books.cell[class], m = (uint32_t)s->words;
    return log_of_cell(s, code, cell / m, cell % m);
}

/* Returns what a number in [0, 1) selects of n weights, of which some are above 0, by their sums. */
static uint32_t pick(const double *sums, uint32_t n, double u)
{
    const double below = u * sums[n - 1];
    uint32_t first = 0;
    for (uint32_t left = n; left > 1;) { /* the first sum above it, if there is one, is among `left` from `first` on */
        const uint32_t half = left / 2;
        const bool here = sums[first + half - 1] > below;
        first += here ? 0 : half;
        left = here ? half : left - half;
    }
    return first;
}

/* Sums up the classes of the cells of the first word a, by the second words' terms. */
static void sum_second(const midx_state *s, uint32_t a, const float *second, const float *within, double *sums)
{
    const size_t m = (size_t)s->words;
    const float *sizes = s->books.sizes + a * s->size_stride;
    double sum = 0;
    for (size_t b = 0; b < m; b++) {
        sums[b] = sum += (double)sizes[b] * (double)within[b];
    }
    if (!(sum >= LEAST)) {
        (void)sum_terms(sizes, second, m, sums);
    }
}

static void draw(const void *state, const float *code, xsm_random *random, uint32_t count, uint32_t *classes,
                 double *log_probabilities)
{
    const midx_state *s = state;
    const uint32_t m = (uint32_t)s->words, kept = XSMI_MIN(m, KEPT_SUMS / m);
    const float *marginal = code + m, *second = code + 2 * (size_t)m;
    double sums[WORDS_MOST], cells[KEPT_SUMS]; /* cells: of the words first_of, one in each of `kept` places */
    uint32_t first_of[KEPT_WORDS];
    float within[WORDS_MOST];
    s->kernels->row_softmax(second, m, s->kernels->row_max(second, m), 1, within);
    for (uint32_t a = 0; a < m; a++) {
        sums[a] = (a > 0 ? sums[a - 1] : 0) + (double)marginal[a];
    }
    for (uint32_t place = 0; place < kept; place++) {
        first_of[place] = m;
    }
    for (uint32_t j = 0; j < count; j++) {
        const uint32_t a = pick(sums, m, xsmi_stream_uniform(&random->stream)), place = a % kept;
        double *of = cells + (size_t)place * m;
        if (first_of[place] != a) {
            sum_second(s, a, second, within, of);
            first_of[place] = a;
        }
        const uint32_t b = pick(of, m, xsmi_stream_uniform(&random->stream));
        const uint32_t *members = s->books.order + s->books.starts[a * m + b];
        const uint32_t size = s->books.starts[a * m + b + 1] - s->books.starts[a * m + b];
        classes[j] = size > 0 ? members[xsmi_stream_below(&random->stream, size)] : 0; /* of NaN: log q is NaN, too */
        log_probabilities[j] = log_of_cell(s, code, a, b);
    }
}

/* -- files --------------------------------------------------------------------------------------------------------- */

static xsm_status save(const void *state, xsm_array_writer *writer, xsm_error *err)
{
    const midx_state *s = state;
    const xsm_array words = {sizeof words,  "words", XSM_DTYPE_FLOAT32, 3, {2, (uint64_t)s->words, s->stride},
                             s->books.words};
    const xsm_array cells = {sizeof cells, "cells", XSM_DTYPE_UINT32, 1, {s->classes}, s->books.cell};
    const xsm_array next = {sizeof next, "next", XSM_DTYPE_UINT64, 1, {1}, &s->next};
    XSMI_TRY(xsm_array_write(writer, &words, err));
    XSMI_TRY(xsm_array_write(writer, &cells, err));
    return xsm_array_write(writer, &next, err);
}

static xsm_status load(void *state, const xsm_sampler_problem *problem, const xsm_array_reader *reader, xsm_error *err)
{
    midx_state *s = state;
    const uint64_t m = (uint64_t)s->words, stride = xsmi_row_stride((size_t)problem->features + 1);
    xsm_array words = XSM_ARRAY_INIT, cells = XSM_ARRAY_INIT, next = XSM_ARRAY_INIT;
    XSMI_TRY(xsm_array_read(reader, "words", XSM_DTYPE_FLOAT32, 3, &words, err));
    XSMI_TRY(xsm_array_read(reader, "cells", XSM_DTYPE_UINT32, 1, &cells, err));
    XSMI_TRY(xsm_array_read(reader, "next", XSM_DTYPE_UINT64, 1, &next, err));
    bool good = words.shape[0] == 2 && words.shape[1] == m && words.shape[2] == stride &&
                cells.shape[0] == problem->classes && next.shape[0] == 1;
    for (uint64_t i = 0; good && i < 2 * m * stride; i++) {
        good = fabsf(((const float *)words.data)[i]) < INFINITY;
    }
    for (uint64_t k = 0; good && k < problem->classes; k++) {
        good = ((const uint32_t *)cells.data)[k] < m * m;
    }
    if (!good) {
        return xsmi_fail(err, XSM_ERROR_FORMAT,
                         "%s: finite words [2, %llu, %llu], cells [%u] below %llu and next [1] are needed",
                         reader->name, (unsigned long long)m, (unsigned long long)stride, problem->classes,
                         (unsigned long long)(m * m));
    }
    XSMI_TRY(bind(state, problem, err));
    memcpy(s->books.words, words.data, (size_t)(2 * m * stride) * sizeof *s->books.words);
    memcpy(s->books.cell, cells.data, s->classes * sizeof *s->books.cell);
    memcpy(&s->next, next.data, sizeof s->next);
    fill_cells(s, &s->books);
    return XSM_OK;
}

const xsm_sampler_ops xsmi_midx_ops = {
    .size = sizeof(xsm_sampler_ops),
    .abi = XSM_EXT_ABI_VERSION,
    .name = "midx",
    .summary = "by two codebooks of the present weights (Chen et al. 2025)",
    .state_size = sizeof(midx_state),
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .bind = bind,
    .unbind = unbind,
    .code_length = code_length,
    .encode = encode,
    .draw = draw,
    .log_probability = log_probability,
    .save = save,
    .load = load,
    .follow = follow,
};
