/*
 * Prediction with a label tree as shortlist: a beam search in the tree finds candidates, which the model scores as
 * xsm_model_scores() does.
 */
#include "predict/predict.h"

#include "base/order.h"
#include "model/label_beam.h"

#include <string.h>

#define NOT_FINITE UINT32_MAX

typedef struct shortlist_scratch {
    xsmi_label_beam beam;
    uint32_t *classes; /* [candidates] */
    float *tree;       /* [candidates] their scores in the tree */
    float *scores;     /* [candidates] */
    float *hidden;     /* for a first layer */
    float *chosen;     /* for xsmi_model_chosen_scores() */
} shortlist_scratch;

static shortlist_scratch divide(const xsm_predictor *p, xsmi_arena *arena)
{
    const xsm_model *m = p->model;
    const xsmi_shortlist *s = &p->shortlist;
    shortlist_scratch b;
    xsmi_label_beam_divide(s->model, XSMI_MAX(p->reach, p->top), arena, &b.beam);
    b.tree = xsmi_arena_take(arena, s->candidates, sizeof *b.tree);
    b.classes = xsmi_arena_take(arena, s->candidates, sizeof *b.classes);
    b.scores = xsmi_arena_take(arena, s->candidates, sizeof *b.scores);
    b.hidden = xsmi_model_take_hidden(m, arena);
    b.chosen = xsmi_arena_take(arena, xsmi_model_chosen_scratch(m), sizeof *b.chosen);
    return b;
}

/* -- which tree a model takes -------------------------------------------------------------------------------------- */

static const char *transform_of(const xsm_model *m)
{
    return m->transform ? xsmi_transform_description(m->transform) : "";
}

/* Fills match[classes] with the class of the model that each class of the tree is. Tree and model must have as many
 * classes. */
static xsm_status match_classes(const xsm_model *m, const xsm_model *tree, uint32_t *match, xsm_error *err)
{
    xsm_class_map from = XSM_CLASS_MAP_INIT, to = XSM_CLASS_MAP_INIT;
    bool known = tree->classes == m->classes;
    if (known) {
        XSMI_TRY(xsm_model_get_class_map(tree, &from, err));
        XSMI_TRY(xsm_model_get_class_map(m, &to, err));
        XSMI_TRY(xsmi_class_match(m->context, &from, &to, match, err));
    }
    for (uint32_t k = 0; known && k < tree->classes; k++) {
        known = match[k] != XSM_CLASS_UNSEEN;
    }
    return known ? XSM_OK
                 : xsmi_fail(err, XSM_ERROR_SHAPE,
                             "the label tree of the shortlist has %u classes that are not all those of the model, %u; "
                             "one trained on the same rows has",
                             tree->classes, m->classes);
}

xsm_status xsmi_shortlist_check(const xsm_model *m, const xsm_predictor_options *o, xsm_error *err)
{
    const xsm_model *tree = o->shortlist;
    if (!tree) {
        return o->candidates == 0
                   ? XSM_OK
                   : xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_predictor_options.candidates is %u without a shortlist",
                               o->candidates);
    }
    if (o->index || o->tree_alone) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "a predictor takes candidates from a shortlist or from %s, not both",
                         o->index ? "an index" : "the model's own tree");
    }
    const bool searched = xsmi_model_beam(m, 0) > 0;
    if (!xsmi_model_beam(tree, 0) || searched) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "%s",
                         searched ? "the model is a label tree, which is searched by itself"
                                  : "a shortlist is a label tree (xsm_fit_label_tree()); this model is none");
    }
    const xsmi_feature_side rows = {m->map.schema, 0, "the model"};
    const xsmi_feature_side wanted = {tree->map.schema, 0, "the label tree of the shortlist"};
    XSMI_TRY(xsmi_features_match(&rows, &wanted, NULL, err));
    if (xsmi_model_input(m) != xsmi_model_input(tree)) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "the model has %u features, the label tree of the shortlist %u",
                         xsmi_model_input(m), xsmi_model_input(tree));
    }
    if (!xsmi_transform_equal(m->transform, tree->transform)) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "the model takes rows transformed by '%s', the label tree of the shortlist by '%s'; accepted "
                         "is a tree trained on rows that are transformed like the model's",
                         transform_of(m), transform_of(tree));
    }
    return XSM_OK;
}

xsm_status xsmi_shortlist_make(xsm_predictor *p, const xsm_predictor_options *o, xsm_error *err)
{
    xsmi_shortlist *s = &p->shortlist;
    const uint32_t wanted = o->candidates ? o->candidates : XSMI_DEFAULT(xsm_predictor_options, candidates);
    s->model = xsmi_model_retain(o->shortlist);
    s->candidates = XSMI_MIN(XSMI_MAX(wanted, p->top), p->classes);
    XSMI_TRY(xsmi_array_new(p->context, &s->match, p->classes, sizeof *s->match, "a shortlist", err));
    return match_classes(p->model, s->model, s->match, err);
}

void xsmi_shortlist_free(xsm_predictor *p)
{
    xsmi_release(p->context, p->shortlist.match, p->classes, sizeof *p->shortlist.match);
    xsmi_model_release(p->shortlist.model);
}

/* -- rows ---------------------------------------------------------------------------------------------------------- */

/* Lists in b->classes the tree's best candidates among the classes that are left. Returns their number, or
 * NOT_FINITE. */
static uint32_t find_candidates(const xsm_predictor *p, const xsmi_features *x, const xsmi_row_filter *filter,
                                uint32_t width, const shortlist_scratch *b)
{
    uint32_t *classes = b->classes;
    const xsmi_top candidates = {b->tree, classes, p->shortlist.candidates};
    xsmi_row_filter by_tree;
    xsmi_label_wanted wanted = {&candidates, candidates.size, NULL};
    uint32_t found = 0;
    if (filter) {
        by_tree = *filter;
        by_tree.match = p->shortlist.match;
        wanted.filter = &by_tree;
        wanted.least = XSMI_MIN(wanted.least, filter->most);
    }
    if (xsmi_label_beam_search(&b->beam, x, width, &wanted) == 0) {
        return NOT_FINITE;
    }
    for (; found < candidates.size && classes[found] != XSMI_NO_CLASS; found++) {
        classes[found] = p->shortlist.match[classes[found]];
    }
    return found;
}

/* Returns the width of a row's search; 0: all classes that are left are candidates. */
static uint32_t width_of(const xsm_predictor *p, const xsmi_row_filter *filter)
{
    return filter && filter->most <= p->shortlist.candidates ? 0 : xsmi_filter_width(p, filter);
}

/* Scores the candidates; false if a score is not finite. */
static bool search_tree(xsm_predictor *p, const xsmi_features *x, const xsmi_row_filter *filter,
                        const shortlist_scratch *b, uint32_t width, const xsmi_top *list)
{
    const uint32_t found = find_candidates(p, x, filter, width, b);
    if (found == NOT_FINITE) {
        return false;
    }
    const xsmi_model_row row = {*x, xsmi_model_forward(p->model, x, b->hidden)};
    xsmi_model_chosen_scores(p->model, &row, b->classes, found, b->scores, b->chosen);
    p->probed += found;
    return xsmi_predict_best(p, b->classes, b->scores, found, filter, list);
}

static bool search_row(xsm_predictor *p, const xsmi_features *x, const xsmi_row_filter *filter, const void *own,
                       const xsmi_top *list, double *probabilities)
{
    const uint32_t width = width_of(p, filter);
    bool finite = width == 0 || search_tree(p, x, filter, own, width, list);
    if (finite && (width == 0 || xsmi_filter_misses(p, filter, list))) {
        finite = xsmi_filter_score(p, x, filter, false, list);
    }
    if (!finite) {
        return false;
    }
    xsmi_predict_each(p, list->score, p->top, probabilities);
    return true;
}

size_t xsmi_shortlist_scratch(const xsm_predictor *p)
{
    xsmi_arena arena = {NULL, 0};
    (void)divide(p, &arena);
    return arena.used;
}

xsm_status xsmi_shortlist_run(xsm_predictor *p, const xsm_prediction *to, xsm_error *err)
{
    xsmi_arena arena = {p->scratch, 0};
    const shortlist_scratch own = divide(p, &arena);
    xsmi_label_beam_start(&own.beam, p->classes);
    return xsmi_predict_rows(p, to, search_row, &own, err);
}
