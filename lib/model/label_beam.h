/*
 * Beam search in label trees: on each level it opens the most probable inner nodes, which means that it scores their
 * children; it finds every class that is a child of an open node.
 */
#ifndef XSMI_LABEL_BEAM_H
#define XSMI_LABEL_BEAM_H

#include "base/arena.h"
#include "base/top.h"
#include "model/filter.h"
#include "model/label_trees.h"

/* The scratch of searches of up to `width` nodes a level; see xsmi_label_beam_divide(). */
typedef struct xsmi_label_beam {
    const xsmi_label_trees *trees;
    uint32_t width;
    float *z;          /* [widest] */
    float *now_score;  /* [width] */
    uint32_t *now;     /* [width] */
    float *next_score; /* [width] */
    uint32_t *next;    /* [width] */
    /* What the last search found, in any order: */
    uint32_t *count;    /* [1] of classes */
    uint32_t *found;    /* [capacity] */
    float *found_score; /* [capacity] */
    size_t capacity;    /* most classes that a search finds */
    /* With several trees: */
    uint32_t *slot; /* [classes] 1 + the slot of a class that was found, else 0 */
    float *found_p; /* [capacity][trees] its log-probabilities, -INFINITY where a tree's beam missed it */
    /* With XSMI_LINK_NORMALISED: */
    double *log_total;    /* [1] of the last search, see xsmi_label_beam_log_total() */
    uint32_t *opened;     /* the inner nodes whose children it scored, one tree after another */
    uint32_t *opened_end; /* [trees] where those of each tree end */
} xsmi_label_beam;

/* Takes the scratch from an arena; call xsmi_label_beam_start() before the first search. */
void xsmi_label_beam_divide(const xsm_model *m, uint32_t width, xsmi_arena *arena, xsmi_label_beam *b);
void xsmi_label_beam_start(const xsmi_label_beam *b, uint32_t classes);

/* Finds the best classes of a row, with their scores, and fills the list, best first. A class that the beam misses in
 * one of several trees has probability 0 there; the score of a class that is found in all trees has the same bits as in
 * xsmi_label_chosen(). The list has only classes that the filter accepts (NULL = all). If fewer than `least` of them
 * are found (or none), the search starts again with twice the width, up to the width of the scratch; without a filter,
 * a width of the list's length finds enough. Returns how many classes were scored, 0 if a score is NaN. */
typedef struct xsmi_label_wanted {
    const xsmi_top *list;
    uint32_t least;
    const xsmi_row_filter *filter;
} xsmi_label_wanted;
uint32_t xsmi_label_beam_search(const xsmi_label_beam *b, const xsmi_features *x, uint32_t width,
                                const xsmi_label_wanted *wanted);
/* xsmi_label_beam_search() for a list of any classes, which must become full. */
static inline uint32_t xsmi_label_beam_all(const xsmi_label_beam *b, const xsmi_features *x, uint32_t width,
                                           const xsmi_top *list)
{
    return xsmi_label_beam_search(b, x, width, &(xsmi_label_wanted){list, list->size, NULL});
}

/* Returns the logarithm of the total by which the last search's probabilities must be divided. For XSMI_LINK_NORMALISED
 * this is the mean over the trees of the sum of the probabilities of all nodes that were scored and not opened: the
 * classes that were found, and inner nodes, each of which stands for the classes below it. 0 for other links. */
double xsmi_label_beam_log_total(const xsmi_label_beam *b);
/* Returns the score of a class that the last search did not find; `scratch` has b->trees->widest floats. For
 * XSMI_LINK_NORMALISED, the classes below a node that was not opened share the node's probability, so with one tree the
 * probabilities of all classes add up to the total. With several trees they add up to less, because a tree that missed
 * a class which others found gives it nothing. */
float xsmi_label_beam_missed(const xsmi_label_beam *b, const xsmi_features *x, uint32_t class, float *scratch);

#endif
