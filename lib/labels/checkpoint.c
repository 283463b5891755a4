#include "labels/checkpoint.h"

#include "base/activity.h"
#include "base/grow.h"
#include "base/order.h"

#include <math.h>
#include <string.h>

enum { DONE, BEGUN, NODES, LEVEL, JOBS, PLACES };
/* The tensors besides those of trees, larger elements first. */
enum { PLACE, KEPT_ROWS, KEPT_ENDS, KEPT, START_NODE, NEXT_NODE, START_SCORE, NEXT_SCORE, TENSORS };
static const char *const names[] = {XSMI_FIT_PLACE,     "state.kept_rows", "state.kept_ends",   "state.kept",
                                    "state.start_node", "state.next_node", "state.start_score", "state.next_score"};
static const xsmi_dtype dtypes[] = {XSMI_DTYPE_U64, XSMI_DTYPE_U64, XSMI_DTYPE_U64, XSMI_DTYPE_U32,
                                    XSMI_DTYPE_U32, XSMI_DTYPE_U32, XSMI_DTYPE_F32, XSMI_DTYPE_F32};

void xsmi_fit_checkpoint_free(xsmi_fit_checkpoint *c)
{
    xsmi_container_close(c->file);
    xsmi_settings_free(&c->settings);
}

/* -- writing ------------------------------------------------------------------------------------------------------- */

/* Writes a level's part of a tensor. */
static xsm_status write_level(const xsmi_kept_scores *kept, int which, xsmi_container_writer *w, xsm_error *err)
{
    if (which == KEPT_ROWS) {
        const uint64_t numbers[2] = {kept->count, kept->rows};
        return xsmi_container_write(w, numbers, sizeof numbers, err);
    }
    if (which == KEPT) {
        return kept->count > 0 ? xsmi_container_write(w, kept->score, kept->count * sizeof *kept->score, err) : XSM_OK;
    }
    enum { TOGETHER = 512 };
    uint64_t ends[TOGETHER];
    for (size_t first = 0; first < kept->rows; first += TOGETHER) {
        const size_t left = kept->rows - first, count = XSMI_MIN(left, (size_t)TOGETHER);
        for (size_t r = 0; r < count; r++) {
            ends[r] = kept->end[first + r];
        }
        XSMI_TRY(xsmi_container_write(w, ends, count * sizeof *ends, err));
    }
    return XSM_OK;
}

/* Writes a tensor of all levels, one after the other. */
static xsm_status write_levels(const xsmi_content *c, xsmi_container_writer *w, xsm_error *err)
{
    const xsmi_levels *s = c->of;
    for (uint32_t k = 0; k < s->layout->depth; k++) {
        XSMI_TRY(write_level(&s->level[k].kept, c->part, w, err));
    }
    return XSM_OK;
}

/* Adds a tensor with its data, or one of all levels. */
static void add(xsmi_contents *c, int which, uint64_t rows, uint64_t columns, const void *data,
                const xsmi_levels *levels)
{
    const xsmi_tensor tensor = {.name = names[which],
                                .dtype = dtypes[which],
                                .rank = columns > 1 ? 2 : 1,
                                .shape = {rows, columns > 1 ? columns : 0},
                                .data = data};
    xsmi_contents_add(
        c, (xsmi_content){.tensor = tensor, .write = levels ? write_levels : NULL, .of = levels, .part = which});
}

static void list_levels(const xsmi_levels *s, xsmi_contents *c)
{
    uint64_t scores = 0, rows = 0;
    for (uint32_t k = 0; k < s->layout->depth; k++) {
        scores += s->level[k].kept.count;
        rows += s->level[k].kept.rows;
    }
    add(c, KEPT_ROWS, s->layout->depth, 2, NULL, s);
    add(c, KEPT_ENDS, rows, 1, NULL, s);
    add(c, KEPT, scores, 2, NULL, s);
    if (s->width > 0) {
        add(c, START_NODE, s->data->rows, s->width, s->start.node, NULL);
        add(c, NEXT_NODE, s->data->rows, s->width, s->beam.node, NULL);
        add(c, START_SCORE, s->data->rows, s->width, s->start.score, NULL);
        add(c, NEXT_SCORE, s->data->rows, s->width, s->beam.score, NULL);
    }
}

/* What a checkpoint contains: the complete trees, and the one that is being fitted. */
typedef struct state {
    uint64_t place[PLACES];
    xsmi_label_tree trees[XSMI_LABEL_TREES + 1];
    xsmi_sparse view; /* a view of the builder's weights */
    uint32_t count;
} state;

static void gather(const xsmi_fit_checkpoint *c, const xsmi_fit_place *now, state *s)
{
    s->count = c->count;
    s->place[DONE] = c->count;
    s->place[BEGUN] = now != NULL;
    if (c->count > 0) {
        memcpy(s->trees, c->trees, c->count * sizeof *s->trees);
    }
    if (now) {
        s->place[NODES] = now->levels->layout->nodes;
        s->place[LEVEL] = now->level;
        s->place[JOBS] = now->jobs;
    }
    if (now && now->chunks > 0) {
        s->view = xsmi_sparse_builder_view(now->builder);
        s->trees[s->count++] = (xsmi_label_tree){NULL, &s->view};
    }
}

static xsm_status write_file(const xsmi_fit_checkpoint *c, const xsmi_fit_place *now, const state *s,
                             const xsmi_sparse_tensors *trees, xsm_error *err)
{
    xsmi_contents all;
    xsmi_contents_start(&all, c->context);
    add(&all, PLACE, PLACES, 1, s->place, NULL);
    if (now) {
        list_levels(now->levels, &all);
    }
    for (size_t i = 0; i < trees->count; i++) {
        xsmi_contents_add(&all, (xsmi_content){.tensor = trees->tensors[i]});
    }
    xsm_status status = xsmi_schema_list(c->schema, &all, err);
    status = status == XSM_OK ? xsmi_schema_list_base(c->schema, &all, err) : status;
    status = status == XSM_OK ? xsmi_contents_add_entries(&all, c->settings.entries, c->settings.count, err) : status;
    status = status == XSM_OK ? xsmi_contents_save(&all, c->place, NULL, err) : status;
    xsmi_contents_end(&all);
    return status;
}

static xsm_status save(const xsmi_fit_checkpoint *c, const xsmi_fit_place *now, xsm_error *err)
{
    state s = {.count = 0};
    xsmi_sparse_tensors trees;
    gather(c, now, &s);
    XSMI_TRY(xsmi_sparse_list_trees(c->context, NULL, s.trees, s.count, &trees, err));
    const xsm_status status = write_file(c, now, &s, &trees, err);
    xsmi_sparse_list_free(&trees);
    return status;
}

xsm_status xsmi_fit_checkpoint_save(xsmi_fit_checkpoint *c, const xsmi_fit_place *now, xsm_error *err)
{
    if (!c->writes) {
        return XSM_OK;
    }
    xsmi_activity shield;
    xsmi_shield(&shield, c->context);
    c->status = save(c, now, err);
    xsmi_unshield(&shield);
    c->written += c->status == XSM_OK;
    c->saved = xsmi_seconds();
    return c->status;
}

/* -- reading ------------------------------------------------------------------------------------------------------- */

xsm_status xsmi_fit_checkpoint_fail(const xsmi_fit_checkpoint *c, const char *tensor, xsm_error *err)
{
    return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: tensor '%s' of the checkpoint does not fit the others", c->resume,
                     tensor);
}

static const xsmi_tensor *find(const xsmi_fit_checkpoint *c, int which, uint64_t rows, uint64_t columns)
{
    const xsmi_tensor *t = xsmi_container_tensor(c->file, names[which]);
    return t && xsmi_tensor_is(t, dtypes[which], columns > 1 ? 2 : 1, rows, columns) ? t : NULL;
}

static bool finite_weights(const xsmi_sparse *s)
{
    return s->bias && xsmi_sparse_dtype(s) == XSM_DTYPE_FLOAT32 &&
           xsmi_floats_finite(s->values, (size_t)xsmi_sparse_entries(s)) && xsmi_floats_finite(s->bias, s->rows);
}

/* Reads a finished tree; its weights are copied from the file. */
static xsm_status read_tree(const xsmi_fit_checkpoint *c, uint32_t features, uint32_t classes, uint32_t number,
                            xsmi_label_tree *out, xsm_error *err)
{
    uint32_t known = classes;
    XSMI_TRY(xsmi_sparse_read_tree(c->context, c->file, c->resume, features, (int)number, &known, out, err));
    return out->tree && known == classes && finite_weights(out->weights)
               ? xsmi_sparse_own_tree(c->context, out, err)
               : xsmi_fit_checkpoint_fail(c, names[PLACE], err);
}

/* Refuses rows with other features than the checkpoint's; the message names the first that differs. */
static xsm_status check_features(const xsmi_fit_checkpoint *c, xsm_error *err)
{
    xsmi_schema *theirs = NULL;
    XSMI_TRY(xsmi_schema_load(c->context, c->file, c->resume, &theirs, err));
    const xsmi_feature_side rows = {c->schema, 0, "the training rows"};
    const xsmi_feature_side wanted = {theirs, 0, "the checkpoint"};
    const xsm_status status = xsmi_features_match(&rows, &wanted, NULL, err);
    xsmi_schema_release(theirs);
    return status;
}

xsm_status xsmi_fit_checkpoint_resume(xsmi_fit_checkpoint *c, const xsmi_place *place, uint32_t features,
                                      uint32_t classes, uint32_t most, xsmi_label_tree *trees, uint32_t *count,
                                      xsm_error *err)
{
    *count = 0;
    c->resume = place->name;
    XSMI_TRY(xsmi_container_open_at(c->context, place, (xsmi_open_how){.believe = false}, &c->file, err));
    XSMI_TRY(xsmi_container_metadata(c->file, XSMI_KEY_CHECKPOINT) ? check_features(c, err) : XSM_OK);
    XSMI_TRY(xsmi_settings_compare(&c->settings, c->file, c->resume, err));
    const xsmi_tensor *t = find(c, PLACE, PLACES, 1);
    const uint64_t *at = t ? (const uint64_t *)(const void *)t->data : NULL;
    if (!t || at[DONE] > most || at[BEGUN] > 1 || at[DONE] + at[BEGUN] > most) {
        return xsmi_fit_checkpoint_fail(c, names[PLACE], err);
    }
    for (uint32_t i = 0; i < at[DONE]; i++) {
        *count = i + 1;
        XSMI_TRY(read_tree(c, features, classes, i, &trees[i], err));
    }
    return XSM_OK;
}

/* Restores the scores that are kept for calibration. */
static xsm_status restore_kept(const xsmi_fit_checkpoint *c, const xsmi_levels *s, xsm_error *err)
{
    const uint32_t depth = s->layout->depth;
    const xsmi_tensor *rows = find(c, KEPT_ROWS, depth, 2), *t;
    const uint64_t *numbers = rows ? (const uint64_t *)(const void *)rows->data : NULL;
    uint64_t all[2] = {0, 0};
    for (uint32_t k = 0; rows && k < depth; k++) {
        for (size_t i = 0; i < 2; i++) {
            const uint64_t number = numbers[2 * (size_t)k + i];
            if (number > SIZE_MAX / 64 - all[i]) {
                return xsmi_fit_checkpoint_fail(c, names[KEPT_ROWS], err);
            }
            all[i] += number;
        }
    }
    const xsmi_tensor *ends = find(c, KEPT_ENDS, all[1], 1);
    t = find(c, KEPT, all[0], 2);
    if (!rows || !ends || !t) {
        return xsmi_fit_checkpoint_fail(c, names[KEPT_ROWS], err);
    }
    const uint64_t *end = (const uint64_t *)(const void *)ends->data;
    const xsmi_kept_score *score = (const xsmi_kept_score *)(const void *)t->data;
    for (uint32_t k = 0; k < depth; k++) {
        xsmi_kept_scores *kept = &s->level[k].kept;
        const size_t count = (size_t)numbers[2 * (size_t)k], lines = (size_t)numbers[2 * (size_t)k + 1];
        XSMI_TRY(XSMI_GROW(s->context, kept->score, kept->capacity, count, "scores for calibration", err));
        XSMI_TRY(XSMI_GROW(s->context, kept->end, kept->row_capacity, lines, "scores for calibration", err));
        for (size_t i = 0; i < count; i++, score++) {
            if (!isfinite(score->z) || !isfinite(score->label) || score->label == 0) {
                return xsmi_fit_checkpoint_fail(c, names[KEPT], err);
            }
            kept->score[i] = *score;
        }
        for (size_t r = 0; r < lines; r++, end++) {
            if (*end > count || *end < (r > 0 ? kept->end[r - 1] : 0)) {
                return xsmi_fit_checkpoint_fail(c, names[KEPT_ENDS], err);
            }
            kept->end[r] = (size_t)*end;
        }
        if (count != (lines > 0 ? kept->end[lines - 1] : 0)) {
            return xsmi_fit_checkpoint_fail(c, names[KEPT_ENDS], err);
        }
        kept->count = count;
        kept->rows = lines;
    }
    return XSM_OK;
}

/* Restores a beam, whose nodes must be inner nodes of a level. */
static xsm_status restore_beam(const xsmi_fit_checkpoint *c, const xsmi_levels *s, int nodes, uint32_t level,
                               xsmi_beams *out, xsm_error *err)
{
    const xsmi_tensor *node = find(c, nodes, s->data->rows, s->width);
    const xsmi_tensor *score = find(c, nodes + 2, s->data->rows, s->width);
    if (!node || !score) {
        return xsmi_fit_checkpoint_fail(c, names[nodes], err);
    }
    const xsmi_layout *t = s->layout;
    const uint32_t from = level < t->depth ? t->level[level] : t->nodes;
    const uint32_t end = level + 1 < t->depth ? t->level[level + 1] : t->nodes;
    const uint32_t *numbers = (const uint32_t *)(const void *)node->data;
    const size_t places = (size_t)s->data->rows * s->width;
    for (size_t i = 0; i < places; i++) {
        if (numbers[i] != XSMI_NO_CLASS &&
            (numbers[i] < from || numbers[i] >= end || xsmi_layout_is_leaf(t, numbers[i]))) {
            return xsmi_fit_checkpoint_fail(c, names[nodes], err);
        }
    }
    memcpy(out->node, node->data, places * sizeof *out->node);
    memcpy(out->score, score->data, places * sizeof *out->score);
    return XSM_OK;
}

/* Whether the chunks are the children of the first inner nodes. */
static bool are_first_nodes(const xsmi_layout *t, const xsmi_sparse *s)
{
    uint32_t v = 0;
    for (uint32_t c = 0; c < s->chunks; c++, v++) {
        while (v < t->nodes && xsmi_layout_is_leaf(t, v)) {
            v++;
        }
        if (v >= t->nodes || xsmi_sparse_chunk_rows(s, c) != t->first_child[v + 1] - t->first_child[v]) {
            return false;
        }
    }
    return true;
}

static xsm_status restore_weights(const xsmi_fit_checkpoint *c, xsmi_fit_place *now, uint32_t number, xsm_error *err)
{
    const xsmi_levels *s = now->levels;
    uint32_t classes = s->data->classes;
    xsmi_label_tree t = {NULL, NULL};
    XSMI_TRY(xsmi_sparse_read_tree(c->context, c->file, c->resume, s->data->features, (int)number, &classes, &t, err));
    xsm_status status = t.tree || !finite_weights(t.weights) || !are_first_nodes(s->layout, t.weights)
                            ? xsmi_fit_checkpoint_fail(c, names[PLACE], err)
                            : xsmi_sparse_builder_load(now->builder, t.weights, err);
    now->chunks = t.weights->chunks;
    xsmi_class_tree_release(t.tree);
    xsmi_sparse_release(t.weights);
    return status;
}

static xsm_status restore(const xsmi_fit_checkpoint *c, xsmi_fit_place *now, xsm_error *err)
{
    const xsmi_levels *s = now->levels;
    const uint64_t *place = (const uint64_t *)(const void *)xsmi_container_tensor(c->file, names[PLACE])->data;
    if (!place[BEGUN]) {
        return XSM_OK;
    }
    if (place[NODES] != s->layout->nodes || place[LEVEL] >= s->layout->depth || (place[LEVEL] > 0 && s->width == 0)) {
        return xsmi_fit_checkpoint_fail(c, names[PLACE], err);
    }
    now->level = (uint32_t)place[LEVEL];
    now->jobs = place[JOBS];
    now->restored = true;
    if (now->jobs > 0 || now->level > 0) {
        XSMI_TRY(restore_weights(c, now, (uint32_t)place[DONE], err));
    }
    XSMI_TRY(restore_kept(c, s, err));
    if (s->width > 0) {
        XSMI_TRY(restore_beam(c, s, START_NODE, now->level, &now->levels->start, err));
        XSMI_TRY(restore_beam(c, s, NEXT_NODE, now->level + 1, &now->levels->beam, err));
    }
    return XSM_OK;
}

xsm_status xsmi_fit_checkpoint_restore(xsmi_fit_checkpoint *c, xsmi_fit_place *now, xsm_error *err)
{
    if (!c->file) {
        return XSM_OK;
    }
    const xsm_status status = restore(c, now, err);
    xsmi_container_close(c->file);
    c->file = NULL;
    return status;
}
