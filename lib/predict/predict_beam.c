/*
 * Prediction through the model's tree: a beam search in the tree finds classes, which are scored by weights and
 * correction or, with the tree alone, by the tree.
 */
#include "predict/predict.h"

#include "base/order.h"
#include "model/beam.h"
#include "model/label_beam.h"

#include <math.h>

/* The default width of a beam in the tree alone. */
#define BEAM_ALONE 10

typedef struct beam_scratch {
    float *code;
    xsmi_beam_node *nodes;
    uint32_t *classes; /* [reach] */
    double *log_q;     /* [reach] */
    float *scores;     /* [reach] */
    float *hidden;     /* for a first layer */
} beam_scratch;

static beam_scratch divide(const xsm_predictor *p, xsmi_arena *arena)
{
    beam_scratch b;
    b.code = xsmi_arena_take(arena, xsmi_model_chosen_scratch(p->model), sizeof *b.code);
    b.nodes = xsmi_arena_take(arena, xsmi_beam_nodes(p->reach), sizeof *b.nodes);
    b.classes = xsmi_arena_take(arena, p->reach, sizeof *b.classes);
    b.log_q = xsmi_arena_take(arena, p->reach, sizeof *b.log_q);
    b.scores = xsmi_arena_take(arena, p->reach, sizeof *b.scores);
    b.hidden = xsmi_model_take_hidden(p->model, arena);
    return b;
}

xsm_status xsmi_beam_width(const xsm_model *m, const xsm_predictor_options *o, uint32_t top, uint32_t *width,
                           xsm_error *err)
{
    const uint32_t searched = xsmi_model_beam(m, o->beam);
    *width = 0;
    if (o->shortlist) {
        *width = xsmi_model_beam(o->shortlist, o->beam);
        return XSM_OK;
    }
    if (searched && !o->tree_alone) {
        *width = searched < m->classes ? searched : 0;
        return XSM_OK;
    }
    if (o->beam == 0 && !o->tree_alone) {
        return XSM_OK;
    }
    if (o->index) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "a predictor searches an index or a tree, not both");
    }
    if (!xsmi_model_drawn_tree(m)) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "%s; one trained by negative-sampling with sampler=tree has",
                         searched ? "a label tree has no other tree that is searched alone"
                                  : "the model has no tree to search");
    }
    uint32_t beam = o->beam ? o->beam : XSMI_MAX(top, BEAM_ALONE);
    if (beam < top) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "a beam of %u for %u classes a row; accepted is %u and above", beam, top,
                         top);
    }
    if (beam >= m->classes) {
        beam = o->tree_alone ? m->classes : 0; /* every class would be scored, without the tree */
    }
    *width = beam;
    return XSM_OK;
}

/* Searches with a beam of that width; false if a score is not finite. */
static bool search_beam(xsm_predictor *p, const xsmi_features *x, const xsmi_row_filter *filter, const beam_scratch *b,
                        uint32_t width, const xsmi_top *list)
{
    const xsm_model *m = p->model;
    const xsmi_tree *tree = p->head->tree;
    xsmi_tree_encode(tree, x, b->code);
    const uint32_t found = xsmi_tree_beam(tree, b->code, width, b->nodes, b->classes, b->log_q);
    if (p->tree_alone) {
        for (uint32_t j = 0; j < found; j++) {
            b->scores[j] = (float)b->log_q[j];
        }
    } else {
        xsmi_features input = xsmi_model_forward(m, x, b->hidden);
        xsmi_weights_score(&m->w, &input, b->classes, found, m->w.alpha, b->scores, NULL);
        for (uint32_t j = 0; j < found; j++) {
            b->scores[j] = (float)((double)b->scores[j] + b->log_q[j]);
        }
    }
    p->probed += found;
    return xsmi_predict_best(p, b->classes, b->scores, found, filter, list);
}

static bool search_row(xsm_predictor *p, const xsmi_features *x, const xsmi_row_filter *filter, const void *own,
                       const xsmi_top *list, double *probabilities)
{
    const uint32_t width = xsmi_filter_width(p, filter);
    bool finite = width == 0 || search_beam(p, x, filter, own, width, list);
    if (finite && (width == 0 || xsmi_filter_misses(p, filter, list))) {
        finite = xsmi_filter_score(p, x, filter, false, list);
    }
    if (!finite) {
        return false;
    }
    if (!p->tree_alone) {
        xsmi_predict_each(p, list->score, p->top, probabilities);
    }
    for (uint32_t j = 0; p->tree_alone && probabilities && j < p->top; j++) {
        probabilities[j] = exp((double)list->score[j]);
    }
    return true;
}

size_t xsmi_beam_scratch(const xsm_predictor *p)
{
    xsmi_arena arena = {NULL, 0};
    (void)divide(p, &arena);
    return arena.used;
}

xsm_status xsmi_beam_run(xsm_predictor *p, const xsm_prediction *to, xsm_error *err)
{
    xsmi_arena arena = {p->scratch, 0};
    const beam_scratch own = divide(p, &arena);
    return xsmi_predict_rows(p, to, search_row, &own, err);
}
