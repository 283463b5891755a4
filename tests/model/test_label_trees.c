/*
 * Tests of label trees: scores of all and of chosen classes, and beam searches, against the sums over paths in double
 * precision here; their files; evaluation; what they refuse.
 */
#include "narrow_kinds.h"
#include "sparse_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "model/model_file.h"

#include <xsoftmax.h>
#include <xsoftmax/stored_weights.h>

#define FEATURES 300
#define CLASSES 260
#define ROWS 40
#define NONZEROS 15
#define TREES 3
#define NODES_MOST 600

/* A quarter of the weights. */
static float weight_of(uint32_t tree, uint32_t node, uint32_t j)
{
    const uint32_t n = noise((tree * NODES_MOST + node) * FEATURES + j);
    return n % 4 == 0 ? ((float)(n / 16 % 2001) - 1000) / 500 : 0;
}

static float bias_of(uint32_t tree, uint32_t node)
{
    return (float)(noise(tree * NODES_MOST + node + 7777777) % 100) / 50 - 1;
}

/* A tree as the test knows it. */
typedef struct plan {
    uint32_t made[NODES_MOST], parent[NODES_MOST], first[NODES_MOST], count; /* nodes */
    uint32_t leaf[CLASSES];
} plan;

/* Divides the classes, in an order of its own for each tree, into 2 to 7 parts of uneven size, again and again: leaves
 * lie on many levels. */
static void make_plan(uint32_t tree, plan *p)
{
    uint32_t order[CLASSES], begin[NODES_MOST], size[NODES_MOST];
    memset(p, 0, sizeof *p);
    for (uint32_t k = 0; k < CLASSES; k++) {
        const uint32_t at = noise(k * 31 + tree) % (k + 1);
        order[k] = order[at];
        order[at] = k;
    }
    begin[0] = 0;
    size[0] = CLASSES;
    p->count = 1;
    for (uint32_t v = 0; v < p->count; v++) {
        if (size[v] == 1) {
            p->made[v] = XSMI_TREE_LEAF | order[begin[v]];
            p->leaf[order[begin[v]]] = v;
            continue;
        }
        uint32_t parts = 2 + noise(v + tree * 1000) % 6, left = size[v], from = begin[v];
        parts = parts < size[v] ? parts : size[v];
        p->made[v] = parts;
        p->first[v] = p->count;
        for (uint32_t c = 0; c < parts; c++) {
            const uint32_t most = left - (parts - c - 1), some = c + 1 == parts ? left : 1 + noise(v * 8 + c) % most;
            begin[p->count] = from;
            size[p->count] = some;
            p->parent[p->count++] = v;
            from += some;
            left -= some;
        }
    }
}

static xsmi_label_tree make_tree(xsm_context *ctx, uint32_t tree)
{
    xsm_error err = XSM_ERROR_INIT;
    plan p;
    xsmi_label_tree t = {NULL, NULL};
    xsmi_sparse_builder *b = NULL;
    make_plan(tree, &p);
    assert_ok(xsmi_class_tree_new(ctx, p.made, p.count, CLASSES, XSMI_TREE_BY_LEVEL, &t.tree, &err), err);
    assert_non_null(t.tree);
    assert_ok(xsmi_sparse_builder_new(ctx, FEATURES, true, &b, &err), err);
    for (uint32_t v = 0; v < p.count; v++) {
        uint32_t features[FEATURES], starts[FEATURES + 1], columns = 0, n = 0;
        uint16_t entry_rows[8 * FEATURES];
        float values[8 * FEATURES], bias[8];
        if (p.made[v] & XSMI_TREE_LEAF) {
            continue;
        }
        for (uint32_t j = 0; j < FEATURES; j++) {
            starts[columns] = n;
            for (uint32_t c = 0; c < p.made[v]; c++) {
                const float w = weight_of(tree, p.first[v] + c, j);
                bias[c] = bias_of(tree, p.first[v] + c);
                if (w != 0) {
                    entry_rows[n] = (uint16_t)c;
                    values[n++] = w;
                }
            }
            features[columns] = j;
            columns += n > starts[columns];
        }
        starts[columns] = n;
        const xsmi_sparse_chunk chunk = {p.made[v], columns, features, starts, entry_rows, values, bias};
        assert_ok(xsmi_sparse_builder_add(b, &chunk, &err), err);
    }
    assert_ok(xsmi_sparse_builder_finish(b, &t.weights, &err), err);
    xsmi_sparse_builder_free(b);
    return t;
}

static xsm_model *make_model(xsm_context *ctx, int32_t link, uint32_t trees)
{
    xsm_error err = XSM_ERROR_INIT;
    xsmi_label_tree t[TREES];
    HELD(xsm_context, own) = NULL;
    if (!ctx) {
        assert_ok(xsm_context_new(NULL, &own, &err), err);
        ctx = own;
    }
    for (uint32_t i = 0; i < trees; i++) {
        t[i] = make_tree(ctx, i);
    }
    NEW(xsm_model, m, xsmi_model_of_label_trees(ctx, link, t, trees, &m, &err));
    for (uint32_t i = 0; i < trees; i++) {
        xsmi_class_tree_release(t[i].tree);
        xsmi_sparse_release(t[i].weights);
    }
    return m;
}

static rows *make_rows(xsm_context *ctx, bool several)
{
    const sparse_shape shape = {ROWS, FEATURES, CLASSES, NONZEROS, 35, several};
    return rows_new(ctx, &shape);
}

/* Log-probabilities of all nodes of a tree. */
static void sweep(const rows *r, uint32_t i, int32_t link, uint32_t tree, const plan *p, double *log_p)
{
    log_p[0] = 0;
    for (uint32_t v = 0; v < p->count; v++) {
        double z[8], sum = 0;
        const uint32_t children = p->made[v] & XSMI_TREE_LEAF ? 0 : p->made[v];
        for (uint32_t c = 0; c < children; c++) {
            z[c] = bias_of(tree, p->first[v] + c);
            for (uint64_t e = r->offsets[i]; e < r->offsets[i + 1]; e++) {
                z[c] += (double)weight_of(tree, p->first[v] + c, r->index[e]) * r->values[e];
            }
            sum += exp(z[c]);
        }
        for (uint32_t c = 0; c < children; c++) {
            const double lacking = z[c] < 1 ? 1 - z[c] : 0;
            log_p[p->first[v] + c] = log_p[v] + (link == XSMI_LINK_SOFTMAX         ? z[c] - log(sum)
                                                 : link != XSMI_LINK_SQUARED_HINGE ? -log1p(exp(-z[c]))
                                                                                   : -lacking * lacking);
        }
    }
}

/* The scores of all classes: the log of the mean of their probabilities. */
static void scores_of(const rows *r, uint32_t i, int32_t link, uint32_t trees, double *scores)
{
    static double log_p[TREES][NODES_MOST];
    static plan p[TREES];
    for (uint32_t t = 0; t < trees; t++) {
        make_plan(t, &p[t]);
        sweep(r, i, link, t, &p[t], log_p[t]);
    }
    for (uint32_t k = 0; k < CLASSES; k++) {
        double most = -INFINITY, sum = 0;
        for (uint32_t t = 0; t < trees; t++) {
            most = fmax(most, log_p[t][p[t].leaf[k]]);
        }
        for (uint32_t t = 0; t < trees; t++) {
            sum += exp(log_p[t][p[t].leaf[k]] - most);
        }
        scores[k] = most + log(sum / trees);
    }
}

static bool near(double have, double want)
{
    return fabs(have - want) <= 2e-5 * (1 + fabs(want));
}

TEST(scores_are_sums_over_paths)
{
    for (int32_t link = XSMI_LINK_LOG_SIGMOID; link < XSMI_LINKS; link++) {
        for (uint32_t trees = 1; trees <= TREES; trees++) {
            test_memory *memory;
            xsm_context *ctx = test_memory_context(&memory, trees > 1 ? 2 : 1);
            xsm_model *m = make_model(ctx, link, trees);
            rows *r = make_rows(ctx, true);
            float *range = calloc(ROWS * CLASSES, sizeof *range), *other = calloc(ROWS * CLASSES, sizeof *range);
            uint32_t *classes = calloc(ROWS * CLASSES, sizeof *classes);
            xsm_batch batch = xsm_batch_range(r->sparse, 0, ROWS), full = xsm_batch_range(r->full, 0, ROWS);
            assert_ok(xsm_model_score_range(m, &batch, 0, CLASSES, range, CLASSES, &err), err);
            for (uint32_t i = 0; i < ROWS; i++) {
                double want[CLASSES], sum = 0;
                scores_of(r, i, link, trees, want);
                for (uint32_t k = 0; k < CLASSES; k++) {
                    classes[i * CLASSES + k] = k;
                    assert_true(near((double)range[i * CLASSES + k], want[k]));
                    sum += exp((double)range[i * CLASSES + k]);
                }
                assert_true(link != XSMI_LINK_SOFTMAX || fabs(sum - 1) < 1e-5);
            }
            assert_ok(xsm_model_score_range(m, &full, 0, CLASSES, other, CLASSES, &err), err);
            assert_memory_equal(range, other, ROWS * CLASSES * sizeof *range);
            assert_ok(xsm_model_scores(m, &batch, classes, CLASSES, other, &err), err);
            assert_memory_equal(range, other, ROWS * CLASSES * sizeof *range);
            assert_ok(xsm_model_score_range(m, &batch, 33, 100, other, 100, &err), err);
            for (uint32_t i = 0; i < ROWS; i++) {
                assert_memory_equal(other + i * 100, range + i * CLASSES + 33, 100 * sizeof *range);
            }
            free(range);
            free(other);
            free(classes);
            end_rows(r);
            xsm_model_free(m);
            test_memory_end(memory, ctx);
        }
    }
}

/* -- beams --------------------------------------------------------------------------------------------------------- */

#define TOP 6

typedef struct predicted {
    uint32_t classes[ROWS * TOP];
    float scores[ROWS * TOP];
    double probabilities[ROWS * TOP];
    uint64_t probed;
} predicted;

static void predict(const xsm_model *m, const rows *r, uint32_t beam, uint32_t top, predicted *out)
{
    xsm_error err = XSM_ERROR_INIT;
    MADE(xsm_predictor, p, xsm_predictor_new(m, STRUCT(xsm_predictor_options, .beam = beam, .top = top), &p, &err));
    xsm_batch batch = xsm_batch_range(r->sparse, 0, ROWS);
    assert_ok(xsm_predictor_run(p,
                                STRUCT(xsm_prediction, .batch = &batch, .classes = out->classes, .scores = out->scores,
                                       .probabilities = out->probabilities),
                                &err),
              err);
    xsm_predictor_info info = XSM_PREDICTOR_INFO_INIT;
    assert_ok(xsm_predictor_get_info(p, &info, &err), err);
    out->probed = info.probed;
}

/* The sum of the probabilities of all classes, before they are divided by it. */
static double total_of(const rows *r, uint32_t i, uint32_t trees)
{
    double scores[CLASSES], sum = 0;
    scores_of(r, i, XSMI_LINK_NORMALISED, trees, scores);
    for (uint32_t k = 0; k < CLASSES; k++) {
        sum += exp(scores[k]);
    }
    return sum;
}

/* A beam that keeps every node finds what scoring all classes does, to the bit. */
TEST(a_wide_beam_is_exact)
{
    for (int32_t link = XSMI_LINK_LOG_SIGMOID; link < XSMI_LINKS; link++) {
        for (uint32_t trees = 1; trees <= TREES; trees++) {
            static predicted wide, exact;
            HELD(xsm_model, m) = make_model(NULL, link, trees);
            rows *r = make_rows(NULL, true);
            predict(m, r, CLASSES - 1, TOP, &wide);
            predict(m, r, CLASSES, TOP, &exact);
            assert_int_equal(wide.probed, (uint64_t)ROWS * CLASSES * trees);
            assert_int_equal(exact.probed, 0);
            assert_memory_equal(wide.classes, exact.classes, sizeof wide.classes);
            assert_memory_equal(wide.scores, exact.scores, sizeof wide.scores);
            for (uint32_t i = 0; i < ROWS * TOP; i++) {
                double total = 1;
                if (link == XSMI_LINK_NORMALISED) { /* two orders of the same sum */
                    total = total_of(r, i / TOP, trees);
                    assert_true(fabs(wide.probabilities[i] - exact.probabilities[i]) < 1e-6);
                } else {
                    assert_true(wide.probabilities[i] == exact.probabilities[i]);
                }
                assert_true(fabs(wide.probabilities[i] - exp((double)wide.scores[i]) / total) <
                            (link == XSMI_LINK_NORMALISED ? 1e-5 : 1e-15));
            }
            end_rows(r);
        }
    }
}

typedef struct candidate {
    double score;
    uint32_t number;
} candidate;

static int by_score(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    const int order = (x->score < y->score) - (x->score > y->score);
    return order ? order : (x->number > y->number) - (x->number < y->number);
}

/* The classes below the nodes that a beam of that width keeps: level by level, by sorting all candidates. The nodes
 * that it opens are marked, and what those have that it leaves out is added to `left`. */
static uint32_t enumerate(const plan *p, const double *log_p, uint32_t width, candidate *classes, bool *opened,
                          double *left)
{
    static candidate now[NODES_MOST], next[NODES_MOST];
    uint32_t count = 1, found = 0;
    memset(opened, 0, NODES_MOST * sizeof *opened);
    now[0] = (candidate){0, 0};
    while (count > 0) {
        uint32_t all = 0;
        for (uint32_t i = 0; i < count; i++) {
            const uint32_t v = now[i].number;
            opened[v] = true;
            for (uint32_t c = p->first[v]; c < p->first[v] + p->made[v]; c++) {
                if (p->made[c] & XSMI_TREE_LEAF) {
                    classes[found++] = (candidate){log_p[c], p->made[c] & ~XSMI_TREE_LEAF};
                } else {
                    next[all++] = (candidate){log_p[c], c};
                }
            }
        }
        qsort(next, all, sizeof *next, by_score);
        count = all < width ? all : width;
        for (uint32_t i = count; i < all; i++) {
            *left += exp(next[i].score);
        }
        memcpy(now, next, count * sizeof *now);
    }
    return found;
}

TEST(a_narrow_beam_keeps_the_best_nodes)
{
    const uint32_t width = 3;
    for (int32_t link = XSMI_LINK_LOG_SIGMOID; link < XSMI_LINKS; link++) {
        for (uint32_t trees = 1; trees <= TREES; trees++) {
            static predicted have;
            static candidate found[CLASSES];
            HELD(xsm_model, m) = make_model(NULL, link, trees);
            rows *r = make_rows(NULL, true);
            predict(m, r, width, 2, &have);
            for (uint32_t i = 0; i < ROWS; i++) {
                double sum[CLASSES] = {0}, total = 0;
                candidate best = {-1, 0};
                for (uint32_t t = 0; t < trees; t++) {
                    static plan p;
                    static double log_p[NODES_MOST];
                    make_plan(t, &p);
                    sweep(r, i, link, t, &p, log_p);
                    static bool opened[NODES_MOST];
                    const uint32_t count = enumerate(&p, log_p, width, found, opened, &total);
                    for (uint32_t c = 0; c < count; c++) {
                        sum[found[c].number] += exp(found[c].score) / trees;
                        total += exp(found[c].score);
                    }
                }
                total = link == XSMI_LINK_NORMALISED ? total / trees : 1;
                for (uint32_t k = 0; k < CLASSES; k++) {
                    best = sum[k] > best.score ? (candidate){sum[k], k} : best;
                }
                /* Of classes that differ by less than a float shows, either may be first. */
                assert_true(sum[have.classes[2 * i]] > best.score * (1 - 1e-6));
                assert_true(fabs(have.probabilities[2 * i] - best.score / total) < 1e-5);
            }
            end_rows(r);
        }
    }
}

/* More classes than a beam of one node finds: it is widened. */
TEST(a_beam_finds_as_many_classes_as_wanted)
{
    enum { WANTED = 200 };
    for (uint32_t trees = 1; trees <= 2; trees++) {
        HELD(xsm_model, m) = make_model(NULL, XSMI_LINK_SOFTMAX, trees);
        rows *r = make_rows(NULL, true);
        xsm_predictor_options o = XSM_PREDICTOR_OPTIONS_INIT;
        uint32_t *classes = calloc(ROWS * WANTED, sizeof *classes);
        o.beam = 1;
        o.top = WANTED;
        NEW(xsm_predictor, p, xsm_predictor_new(m, &o, &p, &err));
        xsm_batch batch = xsm_batch_range(r->sparse, 0, ROWS);
        assert_ok(xsm_predictor_run(p, STRUCT(xsm_prediction, .batch = &batch, .classes = classes), &err), err);
        for (uint32_t i = 0; i < ROWS; i++) {
            bool seen[CLASSES] = {false};
            for (uint32_t j = 0; j < WANTED; j++) {
                const uint32_t class = classes[i * WANTED + j];
                assert_true(class < CLASSES && !seen[class]);
                seen[class] = true;
            }
        }
        xsm_predictor_free(p);
        free(classes);
        end_rows(r);
    }
}

/* -- calibration --------------------------------------------------------------------------------------------------- */

/* A class's log-probability in a tree, where what is under a node that was not opened is divided between its children
 * so that they add up to it. */
static double shared_path(const plan *p, const double *log_p, const bool *opened, uint32_t class)
{
    double path = 0;
    for (uint32_t v = p->leaf[class]; v != 0; v = p->parent[v]) {
        const uint32_t u = p->parent[v];
        double siblings = 0;
        for (uint32_t c = p->first[u]; c < p->first[u] + p->made[u]; c++) {
            siblings += exp(log_p[c] - log_p[u]);
        }
        path += log_p[v] - log_p[u] - (opened[u] ? 0 : log(siblings));
    }
    return path;
}

/* What the classes that a beam of that width finds get in the mean over the trees, found[CLASSES], 0 for the others,
 * and what these get, others[CLASSES]. */
static void found_by_beam(const rows *r, uint32_t i, int32_t link, uint32_t trees, uint32_t width, double *found,
                          double *others)
{
    double total = 0, scores[CLASSES];
    memset(found, 0, CLASSES * sizeof *found);
    memset(others, 0, CLASSES * sizeof *others);
    for (uint32_t t = 0; t < trees; t++) {
        static plan p;
        static double log_p[NODES_MOST];
        static candidate list[CLASSES];
        static bool opened[NODES_MOST];
        make_plan(t, &p);
        sweep(r, i, link, t, &p, log_p);
        const uint32_t count = enumerate(&p, log_p, width, list, opened, &total);
        for (uint32_t c = 0; c < count; c++) {
            found[list[c].number] += exp(list[c].score) / trees;
            total += exp(list[c].score);
        }
        for (uint32_t k = 0; k < CLASSES; k++) {
            others[k] += exp(shared_path(&p, log_p, opened, k)) / trees;
        }
    }
    scores_of(r, i, link, trees, scores);
    total /= trees;
    double sum = 0;
    for (uint32_t k = 0; k < CLASSES; k++) {
        if (link == XSMI_LINK_NORMALISED) {
            found[k] /= total;
            others[k] /= total;
        } else {
            others[k] = exp(scores[k]);
        }
        others[k] = found[k] > 0 ? 0 : others[k];
        sum += found[k] + others[k];
    }
    assert_true(link != XSMI_LINK_NORMALISED || (trees == 1 ? fabs(sum - 1) < 1e-9 : sum < 1 + 1e-9));
}

/* The temperature's normalising sum. */
static double partition_of(const double *found, double scale)
{
    double sum = 0, mass = 0;
    for (uint32_t k = 0; k < CLASSES; k++) {
        sum += found[k] > 0 ? pow(found[k], scale) : 0;
        mass += found[k];
    }
    return sum + (mass < 1 ? pow(1 - mass, scale) : 0);
}

static double logit_of(int32_t link, double p)
{
    return link == XSMI_LINK_SQUARED_HINGE ? log(p) : log(p) - log1p(-fmin(p, 1 - 0x1p-24));
}

static double probability_of(int32_t link, int32_t method, double scale, double shift, const double *found, double p)
{
    return method == XSM_CALIBRATION_NONE          ? p
           : method == XSM_CALIBRATION_TEMPERATURE ? pow(p, scale) / partition_of(found, scale)
                                                   : 1 / (1 + exp(-(scale * logit_of(link, p) + shift)));
}

static bool sums_to_one(int32_t link)
{
    return link == XSMI_LINK_SOFTMAX || link == XSMI_LINK_NORMALISED;
}

/* A row's log-loss as the headers define it. */
static double loss_of(const rows *r, uint32_t i, int32_t link, int32_t method, double scale, double shift,
                      const double *found, const double *others)
{
    const uint64_t begin = r->label_offsets[i], end = r->label_offsets[i + 1];
    const bool each = method == XSM_CALIBRATION_LABELS || (method == XSM_CALIBRATION_NONE && !sums_to_one(link));
    double loss = 0, mass = 0;
    for (uint32_t k = 0; k < CLASSES; k++) {
        mass += found[k];
        loss -= each && found[k] > 0
                    ? log1p(-probability_of(link, XSM_CALIBRATION_LABELS, scale, shift, found, found[k]))
                    : 0;
    }
    for (uint64_t j = begin; j < end; j++) {
        const uint32_t k = r->labels[j];
        const double p = found[k] > 0 ? found[k] : others[k], rest = fmax(1 - mass, p);
        const double q = probability_of(link, XSM_CALIBRATION_LABELS, scale, shift, found, p);
        if (each) {
            loss -= found[k] > 0 ? log(q) - log1p(-q) : log(q);
        } else if (found[k] > 0) {
            loss -= (scale * log(p) - log(partition_of(found, scale))) / (double)(end - begin);
        } else { /* the classes that are not found share what is left to them */
            loss -= (scale * log(rest) - log(partition_of(found, scale)) + log(p / rest)) / (double)(end - begin);
        }
    }
    return loss;
}

TEST(calibrations_are_those_of_the_beam)
{
    static const struct {
        int32_t method;
        double scale, shift;
    } cases[] = {{XSM_CALIBRATION_NONE, 1, 0},
                 {XSM_CALIBRATION_TEMPERATURE, 0.375, 0},
                 {XSM_CALIBRATION_TEMPERATURE, 1, 0},
                 {XSM_CALIBRATION_TEMPERATURE, 2.5, 0},
                 {XSM_CALIBRATION_LABELS, 1.25, -0.75}};
    static const uint32_t widths[] = {2, 10, CLASSES};
    for (size_t n = 0; n < XSMI_LINKS * sizeof cases / sizeof *cases * 3; n++) {
        const int32_t link = (int32_t)(n % XSMI_LINKS);
        const size_t c = n / XSMI_LINKS % (sizeof cases / sizeof *cases);
        const uint32_t width = widths[n / XSMI_LINKS / (sizeof cases / sizeof *cases)];
        /* Each class by itself, it is not divided by a sum. */
        const int32_t as =
            cases[c].method == XSM_CALIBRATION_LABELS && link == XSMI_LINK_NORMALISED ? XSMI_LINK_LOG_SIGMOID : link;
        if (!sums_to_one(link) && cases[c].method == XSM_CALIBRATION_TEMPERATURE) {
            continue;
        }
        for (uint32_t trees = 1; trees <= 2; trees++) {
            static predicted have;
            HELD(xsm_model, m) = make_model(NULL, link, trees);
            rows *r = make_rows(NULL, true);
            xsm_calibration given = XSM_CALIBRATION_INIT;
            given.method = cases[c].method;
            given.scale = cases[c].scale;
            given.shift = cases[c].shift;
            assert_ok(xsm_model_set_calibration(m, &given, &err), err);
            predict(m, r, width, 1, &have);
            double loss = 0, sure[15] = {0}, right[15] = {0}, error = 0;
            for (uint32_t i = 0; i < ROWS; i++) {
                double found[CLASSES], others[CLASSES];
                found_by_beam(r, i, as, trees, width, found, others);
                loss += loss_of(r, i, as, given.method, given.scale, given.shift, found, others) / ROWS;
                const double p =
                    probability_of(as, given.method, given.scale, given.shift, found, found[have.classes[i]]);
                assert_true(fabs(have.probabilities[i] - p) < 2e-5);
                const size_t bin = p < 1 ? (size_t)(p * 15) : 14;
                sure[bin] += p / ROWS;
                for (uint64_t j = r->label_offsets[i]; j < r->label_offsets[i + 1]; j++) {
                    right[bin] += (r->labels[j] == have.classes[i]) / (double)ROWS;
                }
            }
            for (size_t b = 0; b < 15; b++) {
                error += fabs(sure[b] - right[b]);
            }
            TEST_METRICS(metrics, 1);
            xsm_evaluate_options o = XSM_EVALUATE_OPTIONS_INIT;
            o.beam = width;
            assert_ok(xsm_evaluate(NULL, m, r->sparse, &o, &metrics, &err), err);
            const bool ranks_only = link == XSMI_LINK_SQUARED_HINGE && given.method == XSM_CALIBRATION_NONE;
            assert_true(ranks_only ? isnan(metrics.log_loss) : near(metrics.log_loss, loss));
            assert_true(fabs(metrics.calibration_error - error) < 1e-4);
            end_rows(r);
        }
    }
}

/* -- evaluation ---------------------------------------------------------------------------------------------------- */

TEST(evaluation_says_what_it_can)
{
    for (int32_t link = XSMI_LINK_LOG_SIGMOID; link < XSMI_LINKS; link++) {
        double first[2] = {0, 0};
        for (uint32_t threads = 1; threads <= 2; threads++) {
            static predicted have;
            test_memory *memory;
            xsm_context *ctx = test_memory_context(&memory, threads);
            xsm_model *m = make_model(ctx, link, 2);
            rows *r = make_rows(ctx, true);
            double right = 0, exact_loss = 0;
            predict(m, r, 0, 1, &have);
            for (uint32_t i = 0; i < ROWS; i++) {
                double scores[CLASSES], p[CLASSES];
                scores_of(r, i, link, 2, scores);
                const uint64_t begin = r->label_offsets[i], end = r->label_offsets[i + 1];
                for (uint64_t j = begin; j < end; j++) {
                    right += have.classes[i] == r->labels[j];
                }
                const double total = link == XSMI_LINK_NORMALISED ? total_of(r, i, 2) : 1;
                for (uint32_t k = 0; k < CLASSES; k++) {
                    p[k] = exp(scores[k]) / total;
                }
                exact_loss += loss_of(r, i, link, XSM_CALIBRATION_NONE, 1, 0, p, p) / ROWS;
            }
            TEST_METRICS(metrics, 1);
            assert_ok(xsm_evaluate(NULL, m, r->sparse, NULL, &metrics, &err), err);
            assert_int_equal(metrics.beam, 10);
            assert_true(metrics.precision[0] == right / ROWS);
            assert_true(isnan(metrics.log_loss) == (link == XSMI_LINK_SQUARED_HINGE));
            assert_true(threads == 1 || link == XSMI_LINK_SQUARED_HINGE || metrics.log_loss == first[0]);
            first[0] = metrics.log_loss;
            xsm_evaluate_options all = XSM_EVALUATE_OPTIONS_INIT;
            all.beam = CLASSES;
            assert_ok(xsm_evaluate(NULL, m, r->sparse, &all, &metrics, &err), err);
            assert_int_equal(metrics.beam, 0);
            assert_true(link == XSMI_LINK_SQUARED_HINGE ? isnan(metrics.log_loss) : near(metrics.log_loss, exact_loss));
            assert_true(threads == 1 || link == XSMI_LINK_SQUARED_HINGE || metrics.log_loss == first[1]);
            first[1] = metrics.log_loss;
            xsm_search_metrics found = XSM_SEARCH_METRICS_INIT;
            double recall[2];
            found.top = 2;
            found.recall = recall;
            assert_ok(xsm_evaluate_search(NULL, m, r->sparse,
                                          STRUCT(xsm_predictor_options, .beam = CLASSES - 1, .top = 2), &found, &err),
                      err);
            assert_true(recall[0] == 1 && recall[1] == 1);
            xsm_ranks ranks = XSM_RANKS_INIT;
            double hits[1];
            ranks.top = 1;
            ranks.hits = hits;
            assert_ok(xsm_evaluate_ranks(NULL, m, r->sparse, NULL, &ranks, &err), err);
            end_rows(r);
            xsm_model_free(m);
            test_memory_end(memory, ctx);
        }
    }
    rows *r = make_rows(NULL, false);
    xsm_evaluate_options o = XSM_EVALUATE_OPTIONS_INIT;
    xsm_metrics metrics = XSM_METRICS_INIT;
    o.beam = 10;
    NEW(xsm_model, dense, xsm_model_new_linear(NULL, FEATURES, CLASSES, NULL, &dense, &err));
    assert_fails(xsm_evaluate(NULL, dense, r->sparse, &o, &metrics, &err), XSM_ERROR_UNSUPPORTED, err);
    xsm_model_free(dense);
    end_rows(r);
}

/* -- in fewer bits ------------------------------------------------------------------------------------------------- */

static float *all_scores(const xsm_model *m, const rows *r)
{
    xsm_error err = XSM_ERROR_INIT;
    float *scores = calloc(ROWS * CLASSES, sizeof *scores);
    xsm_batch batch = xsm_batch_range(r->sparse, 0, ROWS);
    assert_ok(xsm_model_score_range(m, &batch, 0, CLASSES, scores, CLASSES, &err), err);
    return scores;
}

/* Of the softmax, as its scores change by 2 eps a level at most where those of its nodes change by eps: eps here is the
 * rounding of as many weights as a row has features, each of 2 at most. */
TEST(trees_in_fewer_bits_score_nearly_alike)
{
    static plan p;
    double depth[CLASSES] = {0}; /* in the deeper of two trees */
    for (uint32_t tree = 0; tree < 2; tree++) {
        make_plan(tree, &p);
        for (uint32_t k = 0; k < CLASSES; k++) {
            double steps = 0;
            for (uint32_t v = p.leaf[k]; v != 0; v = p.parent[v]) {
                steps++;
            }
            depth[k] = steps > depth[k] ? steps : depth[k];
        }
    }
    for (int32_t link = XSMI_LINK_LOG_SIGMOID; link < XSMI_LINKS; link++) {
        for (EACH_KIND(kind)) {
            static predicted narrow, wide;
            test_memory *memory;
            xsm_context *ctx = test_memory_context(&memory, 1);
            xsm_model *m = make_model(ctx, link, 2), *small = test_converted(m, kind->dtype);
            xsm_model *back = test_converted(small, XSM_DTYPE_FLOAT32);
            rows *r = make_rows(ctx, true);
            float *was = all_scores(m, r), *now = all_scores(small, r), *widened = all_scores(back, r);
            uint32_t differ = 0;
            for (uint32_t i = 0; i < ROWS * CLASSES; i++) {
                assert_true(kind->factors ? fabs((double)(now[i] - widened[i])) <= 1e-4 * (1 + fabs((double)now[i]))
                                          : now[i] == widened[i]);
                differ += now[i] != was[i];
            }
            assert_true(differ > ROWS * CLASSES / 2);
            for (uint32_t i = 0; link == XSMI_LINK_SOFTMAX && i < ROWS; i++) {
                double size = 0;
                for (uint64_t e = r->offsets[i]; e < r->offsets[i + 1]; e++) {
                    size += fabs((double)r->values[e]) * 2 * kind->error;
                }
                for (uint32_t k = 0; k < CLASSES; k++) {
                    const double moved = fabs((double)(now[i * CLASSES + k] - was[i * CLASSES + k]));
                    assert_true(moved <= 2 * depth[k] * size + 1e-4);
                }
            }
            predict(small, r, CLASSES - 1, TOP, &wide); /* a beam that keeps every node has the scores' bits */
            predict(small, r, 8, TOP, &narrow);
            for (uint32_t i = 0; i < ROWS * TOP; i++) {
                assert_true(wide.scores[i] == now[i / TOP * CLASSES + wide.classes[i]]);
                assert_true(narrow.scores[i] <= wide.scores[i]);
            }
            free(was);
            free(now);
            free(widened);
            end_rows(r);
            xsm_model_free(back);
            xsm_model_free(small);
            xsm_model_free(m);
            test_memory_end(memory, ctx);
        }
    }
}

/* -- files --------------------------------------------------------------------------------------------------------- */

TEST(files_hold_trees)
{
    test_memory *memory;
    xsm_context *ctx = test_memory_context(&memory, 1);
    char *first = strdup(test_path("first")), *second = strdup(test_path("second"));
    for (int32_t link = XSMI_LINK_LOG_SIGMOID; link < XSMI_LINKS; link++) {
        static predicted a, b;
        const uint32_t trees = (uint32_t)link % TREES + 1;
        HELD(xsm_model, m) = make_model(ctx, link, trees);
        rows *r = make_rows(ctx, true);
        assert_ok(xsm_model_save(m, first, NULL, &err), err);
        MADE(xsm_model, loaded, xsm_model_load(ctx, first, NULL, NULL, &loaded, &err));
        assert_ok(xsm_model_save(loaded, second, NULL, &err), err);
        size_t size, other;
        unsigned char *bytes = test_read(first, &size), *again = test_read(second, &other);
        assert_int_equal(size, other);
        assert_memory_equal(bytes, again, size);
        predict(m, r, 0, TOP, &a);
        predict(loaded, r, 0, TOP, &b);
        assert_memory_equal(a.classes, b.classes, sizeof a.classes);
        assert_memory_equal(a.scores, b.scores, sizeof a.scores);
        xsm_parameters_view v = XSM_PARAMETERS_VIEW_INIT;
        assert_ok(xsm_model_get_view(loaded, &v, &err), err);
        uint64_t nonzeros = 0;
        for (uint32_t t = 0; t < trees; t++) {
            static plan p;
            make_plan(t, &p);
            for (uint32_t n = 1; n < p.count; n++) {
                for (uint32_t j = 0; j < FEATURES; j++) {
                    nonzeros += weight_of(t, n, j) != 0;
                }
            }
        }
        assert_true(!v.weight && !v.data && v.nonzeros == nonzeros);
        assert_true(v.bytes > 5 * nonzeros && v.bytes < size);
        xsm_model_info info = XSM_MODEL_INFO_INIT;
        assert_ok(xsm_model_get_info(loaded, &info, &err), err);
        assert_true(info.trees == trees && info.weights == nonzeros && info.bytes == v.bytes && !info.bias);
        const unsigned char *values = (const unsigned char *)loaded->head->labels->tree[0].weights->values;
        assert_true(values > loaded->mapping.data && values < loaded->mapping.data + loaded->mapping.size);
        assert_true((uintptr_t)values % 64 == 0);
        free(bytes);
        free(again);
        end_rows(r);
    }
    free(first);
    free(second);
    test_memory_end(memory, ctx);
}

/* Every byte of the first 5,000 is changed, and every 47th of the others; what is still accepted must be usable. */
TEST(damage_is_found_or_harmless)
{
    test_memory *memory;
    xsm_context *ctx = test_memory_context(&memory, 1);
    xsm_model *m = make_model(ctx, XSMI_LINK_SOFTMAX, 2);
    const char *path = test_path("damaged");
    size_t size;
    tried t = {0, 0};
    assert_ok(xsm_model_save(m, path, NULL, &err), err);
    xsm_model_free(m);
    unsigned char *bytes = test_read(path, &size);
    rows *r = make_rows(ctx, true);
    const size_t before = test_memory_blocks(memory);
    for (size_t i = 0; i < size; i += i < 5000 ? 1 : 47) {
        const unsigned char change = (unsigned char)(1 + noise((uint32_t)i) % 255);
        bytes[i] ^= change;
        try_bytes(ctx, bytes, size, r, FEATURES, &t);
        bytes[i] ^= change;
        assert_int_equal(test_memory_blocks(memory), before);
    }
    assert_true(t.refused > 500 && t.accepted > 500);
    free(bytes);
    end_rows(r);
    test_memory_end(memory, ctx);
}

TEST(other_shapes_are_no_trees)
{
    MADE(xsm_context, ctx, xsm_context_new(NULL, &ctx, &err));
    const uint32_t leaf = XSMI_TREE_LEAF;
    const struct {
        uint32_t nodes[6];
        size_t count;
        uint32_t classes;
        bool good;
    } cases[] = {
        {{2, leaf, leaf | 1}, 3, 2, true},
        {{1, leaf}, 2, 1, true},
        {{2, 2, leaf | 2, leaf, leaf | 1}, 5, 3, true},
        {{leaf}, 1, 1, false},                 /* no root */
        {{2, leaf, leaf}, 3, 2, false},        /* a class twice */
        {{2, leaf, leaf | 2}, 3, 2, false},    /* no such class */
        {{2, leaf, leaf | 1}, 3, 3, false},    /* a class without a leaf */
        {{3, leaf, leaf | 1}, 3, 2, false},    /* a child too many */
        {{1, leaf, leaf | 1}, 3, 2, false},    /* nobody's child */
        {{2, 0, leaf, leaf | 1}, 4, 2, false}, /* an inner node without children */
        {{2, 2, leaf | 1, leaf, 1, leaf | 2}, 6, 3, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        xsmi_class_tree *t = NULL;
        assert_ok(
            xsmi_class_tree_new(ctx, cases[i].nodes, cases[i].count, cases[i].classes, XSMI_TREE_BY_LEVEL, &t, &err),
            err);
        assert_true((t != NULL) == cases[i].good);
        xsmi_class_tree_release(t);
    }
    /* A chain: each inner node has a leaf and the rest. */
    for (uint32_t depth = XSMI_TREE_DEPTH; depth <= XSMI_TREE_DEPTH + 1; depth++) {
        uint32_t chain[2 * XSMI_TREE_DEPTH + 3] = {2};
        xsmi_class_tree *t = NULL;
        for (uint32_t k = 0; k < depth; k++) {
            chain[2 * k + 1] = leaf | k;
            chain[2 * k + 2] = k + 1 < depth ? 2 : leaf | depth;
        }
        assert_ok(xsmi_class_tree_new(ctx, chain, 2 * depth + 1, depth + 1, XSMI_TREE_BY_LEVEL, &t, &err), err);
        assert_true((t != NULL) == (depth == XSMI_TREE_DEPTH));
        xsmi_class_tree_release(t);
    }
}

TEST(what_needs_dense_weights_is_refused)
{
    xsm_model *m = make_model(NULL, XSMI_LINK_SOFTMAX, 1), *other = NULL;
    rows *r = make_rows(NULL, false);
    xsm_predictor *p = NULL;
    xsm_predictor_options alone = XSM_PREDICTOR_OPTIONS_INIT;
    alone.tree_alone = 1;
    NEW(xsm_estimator, e, xsm_estimator_new(NULL, "softmax", &e, &err));
    assert_fails(xsm_estimator_bind(e, m, r->sparse, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_non_null(strstr(err.message, "label tree"));
    assert_fails(xsm_model_set_layout(m, XSM_LAYOUT_CLASS_MAJOR, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_fails(xsm_model_prune(m, NULL, &other, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_fails(xsm_predictor_new(m, &alone, &p, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_null(p);
    xsm_estimator_free(e);
    xsm_model_free(m);
    end_rows(r);
}

static xsm_status load_and_predict(void *state, xsm_context *ctx, xsm_error *err)
{
    HELD(xsm_model, m) = NULL;
    HELD(xsm_predictor, p) = NULL;
    xsm_status status = xsm_model_load(ctx, state, NULL, NULL, &m, err);
    status = status == XSM_OK ? xsm_predictor_new(m, NULL, &p, err) : status;
    return status;
}

TEST(missing_memory_leaves_nothing)
{
    HELD_MEMORY(char, path) = strdup(test_path("memory"));
    xsm_model *m = make_model(NULL, XSMI_LINK_LOG_SIGMOID, 2);
    assert_ok(xsm_model_save(m, path, NULL, &err), err);
    xsm_model_free(m);
    assert_true(test_every_allocation(load_and_predict, path) > 15);
}
