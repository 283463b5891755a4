/* Beam search in label trees. */
#include "model/label_beam.h"

#include "base/order.h"
#include "math/log_sum.h"
#include "model/model.h"

#include <math.h>
#include <string.h>

/* Returns the most classes that a search can find, on all levels. */
static size_t most_found(const xsmi_label_trees *l, uint32_t classes, uint32_t width)
{
    uint64_t levels = 0;
    for (uint32_t t = 0; t < l->count; t++) {
        levels += l->tree[t].tree->depth;
    }
    const uint64_t most = (uint64_t)width * l->widest; /* below 2^48 */
    return most > classes / levels ? classes : (size_t)(most * levels);
}

/* Returns the most inner nodes whose children a search scores. */
static uint64_t most_opened(const xsmi_label_trees *l, uint32_t classes, uint32_t width)
{
    uint64_t sum = 0;
    for (uint32_t t = 0; t < l->count; t++) {
        const xsmi_class_tree *tree = l->tree[t].tree;
        sum += XSMI_MIN((uint64_t)width * tree->depth, tree->nodes - classes);
    }
    return sum;
}

void xsmi_label_beam_divide(const xsm_model *m, uint32_t width, xsmi_arena *arena, xsmi_label_beam *b)
{
    const xsmi_label_trees *l = xsmi_model_trees(m);
    const uint32_t classes = m->classes;
    const bool many = l->count > 1, divides = l->link == XSMI_LINK_NORMALISED;
    b->trees = l;
    b->width = width;
    b->z = xsmi_arena_take(arena, l->widest, sizeof *b->z);
    b->now_score = xsmi_arena_take(arena, width, sizeof *b->now_score);
    b->now = xsmi_arena_take(arena, width, sizeof *b->now);
    b->next_score = xsmi_arena_take(arena, width, sizeof *b->next_score);
    b->next = xsmi_arena_take(arena, width, sizeof *b->next);
    b->capacity = most_found(l, classes, width);
    b->count = xsmi_arena_take(arena, 1, sizeof *b->count);
    b->found = xsmi_arena_take(arena, b->capacity, sizeof *b->found);
    b->found_score = xsmi_arena_take(arena, b->capacity, sizeof *b->found_score);
    b->slot = xsmi_arena_take(arena, many ? classes : 0, sizeof *b->slot);
    b->found_p = xsmi_arena_take(arena, many ? b->capacity : 0, l->count * sizeof *b->found_p);
    b->log_total = xsmi_arena_take(arena, divides, sizeof *b->log_total);
    b->opened = xsmi_arena_take(arena, divides ? (size_t)most_opened(l, classes, width) : 0, sizeof *b->opened);
    b->opened_end = xsmi_arena_take(arena, divides ? l->count : 0, sizeof *b->opened_end);
}

void xsmi_label_beam_start(const xsmi_label_beam *b, uint32_t classes)
{
    if (b->trees->count > 1) {
        memset(b->slot, 0, classes * sizeof *b->slot);
    }
}

/* A search in one tree. */
typedef struct search {
    const xsmi_label_beam *b;
    uint32_t tree;
    const xsmi_label_wanted *wanted; /* with one tree, its list is filled directly */
    uint32_t scored;
    bool finite;
    bool divides;       /* XSMI_LINK_NORMALISED, which needs the next members */
    uint32_t opened;    /* number of nodes opened, in all trees */
    xsmi_log_sum *left; /* the sum over inner nodes that are not opened, in all trees */
} search;

/* Offers an inner node to the next level; if there are too many nodes, drops the worst. */
static void offer_node(const search *s, const xsmi_top *next, float score, uint32_t node)
{
    const float out = XSMI_MIN(next->score[0], score);
    if (s->divides && out > -INFINITY) {
        xsmi_log_sum_join(s->left, &(xsmi_log_sum){out, 1});
    }
    xsmi_top_offer_any(next, score, node);
}

static void take_class(search *s, uint32_t class, float score)
{
    const xsmi_label_beam *b = s->b;
    const uint32_t trees = b->trees->count;
    s->scored++;
    if (trees == 1) {
        b->found[*b->count] = class;
        b->found_score[(*b->count)++] = score;
        xsmi_top_offer_any_left(s->wanted->list, score, class, s->wanted->filter);
        return;
    }
    if (b->slot[class] == 0) {
        b->found[*b->count] = class;
        for (uint32_t t = 0; t < trees; t++) {
            b->found_p[(size_t)*b->count * trees + t] = -INFINITY;
        }
        b->slot[class] = ++*b->count;
    }
    b->found_p[((size_t)b->slot[class] - 1) * trees + s->tree] = score;
}

/* Scores the children of a node; offers inner nodes to `next`, and takes classes. */
static void open_node(search *s, uint32_t node, float before, const xsmi_features *x, const xsmi_top *next)
{
    const xsmi_label_trees *l = s->b->trees;
    const xsmi_class_tree *t = l->tree[s->tree].tree;
    const uint32_t first = t->first_child[node], end = t->first_child[node + 1];
    float *z = s->b->z, sum = 0;
    if (s->divides) {
        s->b->opened[s->opened++] = node;
    }
    xsmi_label_children(l, s->tree, node, x, z);
    for (uint32_t v = first; v < end; v++) {
        const float score = before + z[v - first];
        sum += score;
        if (!xsmi_class_tree_is_leaf(t, v)) {
            offer_node(s, next, score, v);
        } else {
            take_class(s, xsmi_class_tree_class(t, v), score);
        }
    }
    s->finite = s->finite && sum == sum; /* scores are at most 0, so their sum is NaN only if one is */
}

/* Collects the nodes of a list whose entries need not all be filled; returns their number. */
static uint32_t kept(const xsmi_top *list, uint32_t *nodes, float *scores)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < list->size; i++) {
        if (list->class_of[i] != XSMI_NO_CLASS) {
            nodes[count] = list->class_of[i];
            scores[count++] = list->score[i];
        }
    }
    return count;
}

static void search_tree(search *s, const xsmi_features *x, uint32_t width)
{
    const xsmi_label_beam *b = s->b;
    const xsmi_top next = {b->next_score, b->next, width};
    uint32_t count = 1;
    b->now[0] = 0;
    b->now_score[0] = 0;
    while (count > 0 && s->finite) {
        xsmi_top_start(&next);
        for (uint32_t i = 0; i < count; i++) {
            open_node(s, b->now[i], b->now_score[i], x, &next);
        }
        count = kept(&next, b->now, b->now_score);
    }
}

/* Returns the logarithm of the mean over the trees of the probabilities of the classes that were found and the nodes
 * that were not opened. */
static double log_total_of(const xsmi_label_beam *b, xsmi_log_sum left)
{
    const xsmi_label_trees *l = b->trees;
    const float *scores = l->count > 1 ? b->found_p : b->found_score;
    const size_t count = (size_t)*b->count * l->count;
    const float most = l->kernels->row_max(scores, count);
    const xsmi_log_sum found = {most, l->kernels->row_sum_exp(scores, count, most)};
    xsmi_log_sum_join(&left, &found);
    return (double)left.max + log(left.sum / l->count);
}

/* Searches with that width; returns false if a score is NaN. */
static bool search_trees(const xsmi_label_beam *b, const xsmi_features *x, uint32_t width,
                         const xsmi_label_wanted *wanted, uint32_t *scored)
{
    const xsmi_top *list = wanted->list;
    const xsmi_label_trees *l = b->trees;
    xsmi_log_sum left = XSMI_LOG_SUM_INIT;
    search s = {.b = b, .wanted = wanted, .finite = true, .divides = l->link == XSMI_LINK_NORMALISED, .left = &left};
    *b->count = 0;
    xsmi_top_start(list);
    for (; s.tree < l->count && s.finite; s.tree++) {
        search_tree(&s, x, width);
        if (s.divides) {
            b->opened_end[s.tree] = s.opened;
        }
    }
    *scored += s.scored;
    if (s.divides && s.finite) {
        *b->log_total = log_total_of(b, left);
    }
    for (uint32_t i = 0; l->count > 1 && i < *b->count; i++) {
        b->found_score[i] = xsmi_label_mean(b->found_p + (size_t)i * l->count, l->count);
        xsmi_top_offer_any_left(list, b->found_score[i], b->found[i], wanted->filter);
        b->slot[b->found[i]] = 0;
    }
    xsmi_top_sort(list);
    return s.finite;
}

uint32_t xsmi_label_beam_search(const xsmi_label_beam *b, const xsmi_features *x, uint32_t width,
                                const xsmi_label_wanted *wanted)
{
    uint32_t scored = 0;
    for (;; width = width < b->width / 2 ? 2 * width : b->width) {
        if (!search_trees(b, x, width, wanted, &scored)) {
            return 0;
        }
        if (width >= b->width || wanted->list->class_of[wanted->least - 1] != XSMI_NO_CLASS) {
            return scored;
        }
    }
}

double xsmi_label_beam_log_total(const xsmi_label_beam *b)
{
    return b->trees->link == XSMI_LINK_NORMALISED ? *b->log_total : 0;
}

float xsmi_label_beam_missed(const xsmi_label_beam *b, const xsmi_features *x, uint32_t class, float *scratch)
{
    float score;
    if (b->trees->link == XSMI_LINK_NORMALISED) {
        return xsmi_label_outside(b->trees, x, class, b->opened, b->opened_end, scratch);
    }
    xsmi_label_chosen(b->trees, x, &class, 1, &score, scratch);
    return score;
}
