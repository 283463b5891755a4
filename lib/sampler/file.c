/*
 * Samplers in files: a container of safetensors.h with the arrays that the table's save() hands over, and as metadata
 *     sampler        the table's name
 *     classes        K
 *     features       D
 *     index_base     0 or 1, where numbers of features begin
 *     option.KEY     each option's value, as text
 * and, of a sampler that draws by features, what these are (schema_file.c).
 */
#include "sampler/arrays.h"
#include "base/activity.h"
#include "base/entry.h"
#include "base/heap_sort.h"
#include "base/option_texts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define KEY_CLASSES "classes"
#define KEY_FEATURES "features"
#define KEY_INDEX_BASE "index_base"

/* -- saving -------------------------------------------------------------------------------------------------------- */

/* Named in messages about arrays that are in memory. */
static xsm_array_reader reader_of(const xsm_sampler *s, const xsm_array_writer *w)
{
    return (xsm_array_reader){w->tensors, w->count, s->ops.name};
}

xsm_status xsmi_sampler_tree(const xsm_sampler *s, xsmi_tree *tree, xsm_error *err)
{
    xsm_array_writer w = {.context = s->context};
    xsm_status status = xsmi_sampler_arrays(s, &w, err);
    if (status == XSM_OK) {
        const xsm_array_reader reader = reader_of(s, &w);
        const xsm_sampler_problem problem = {
            .size = sizeof problem, .context = s->context, .classes = s->classes, .features = s->features};
        status = xsmi_array_tree(&reader, &problem, tree, err);
    }
    xsmi_array_writer_clear(&w);
    return status;
}

/* Larger elements first, so that every array begins at a multiple of its element size. */
static int compare_sizes(const void *a, const void *b)
{
    const xsmi_tensor *x = a, *y = b;
    size_t p = xsmi_dtype_size(x->dtype), q = xsmi_dtype_size(y->dtype);
    return p != q ? (p < q) - (p > q) : strcmp(x->name, y->name);
}

typedef struct contents {
    const xsm_array_writer *arrays;
    const xsmi_schema *schema;
    xsmi_tensor tensor; /* of the schema */
} contents;

static xsm_status write_arrays(const void *state, xsmi_container_writer *file, xsm_error *err)
{
    const contents *c = state;
    for (size_t i = 0; i < c->arrays->count; i++) {
        const xsmi_tensor *t = &c->arrays->tensors[i];
        XSMI_TRY(t->name == c->tensor.name ? xsmi_schema_write(c->schema, 0, file, err)
                                           : xsmi_container_write(file, t->data, t->size, err));
    }
    return XSM_OK;
}

static xsm_status write_file(const xsm_sampler *s, const contents *c, const xsmi_place *place, xsm_error *err)
{
    const xsm_array_writer *w = c->arrays;
    const xsmi_option_group options = xsmi_sampler_options(s);
    const int32_t base = xsmi_schema_index_base(s->schema);
    char *words;
    XSMI_TRY(xsmi_schema_describe(s->context, s->schema, &words, err));
    xsmi_option_texts texts;
    const size_t own = 3 + (words != NULL) + (base != XSM_INDEX_BASE_AUTO);
    xsm_status status = xsmi_option_texts_list(s->context, &options, own, &texts, err);
    if (status != XSM_OK) {
        xsmi_release_text(s->context, words);
        return status;
    }
    char classes[16], features[16];
    snprintf(classes, sizeof classes, "%" PRIu32, s->classes);
    snprintf(features, sizeof features, "%" PRIu32, s->features);
    texts.own[0] = (xsmi_entry){XSMI_KEY_SAMPLER, s->ops.name};
    texts.own[1] = (xsmi_entry){KEY_CLASSES, classes};
    texts.own[2] = (xsmi_entry){KEY_FEATURES, features};
    if (words) {
        texts.own[3] = (xsmi_entry){XSMI_KEY_VOCABULARY, words};
    }
    if (base != XSM_INDEX_BASE_AUTO) {
        texts.own[own - 1] = (xsmi_entry){KEY_INDEX_BASE, base == XSM_INDEX_BASE_ONE ? "1" : "0"};
    }
    xsmi_container_writer *file = NULL;
    const xsmi_container_plan plan = {w->tensors, w->count, 0, texts.entries, texts.count};
    status = xsmi_container_create_at(s->context, place, &plan, &file, err);
    xsmi_option_texts_clear(s->context, &texts);
    xsmi_release_text(s->context, words);
    XSMI_TRY(status);
    xsmi_activity activity;
    xsmi_begin(&activity, s->context, "saving", "bytes", xsmi_container_expected(file));
    return xsmi_end(&activity, xsmi_container_fill(file, write_arrays, c, err), err);
}

static xsm_status save(const xsm_sampler *s, const xsmi_place *place, xsm_error *err)
{
    if (!s->bound) {
        return xsmi_fail(err, XSM_ERROR_STATE, "sampler '%s' is not bound: there is nothing to save", s->ops.name);
    }
    xsm_array_writer w = {.context = s->context};
    xsm_status status = xsmi_sampler_arrays(s, &w, err);
    contents c = {.arrays = &w, .schema = s->schema};
    if (status == XSM_OK && xsmi_schema_tensor(s->schema, 0, &c.tensor)) {
        status = xsmi_array_put(&w, &c.tensor, err);
    }
    if (status == XSM_OK) {
        xsmi_heap_sort(w.tensors, w.count, sizeof *w.tensors, compare_sizes);
        status = write_file(s, &c, place, err);
    }
    xsmi_array_writer_clear(&w);
    return status;
}

xsm_status xsm_sampler_save(const xsm_sampler *s, const char *path, xsm_error *err)
{
    XSMI_ENTER(err);
    if (!s || !path) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_sampler_save: %s is NULL", s ? "path" : "the sampler");
    }
    const xsmi_place place = {.name = path};
    return save(s, &place, err);
}

xsm_status xsm_sampler_save_to(const xsm_sampler *s, const xsm_storage *storage, xsm_error *err)
{
    XSMI_ENTER(err);
    xsm_storage known;
    xsmi_place place;
    if (!s) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_sampler_save_to: the sampler is NULL");
    }
    XSMI_TRY(xsmi_place_to_write(storage, &known, "xsm_sampler_save_to", &place, err));
    return save(s, &place, err);
}

/* -- loading ------------------------------------------------------------------------------------------------------- */

static xsm_status copy_options(const xsm_sampler *from, xsm_sampler *to, xsm_error *err)
{
    const xsm_option *option;
    xsm_status status = XSM_OK;
    for (size_t i = 0; status == XSM_OK && (option = xsm_sampler_ops_option(&from->ops, i)); i++) {
        const size_t size = xsm_sampler_get(from, option->name, NULL, 0) + 1;
        char *value = xsmi_allocate(from->context, size, 1);
        if (!value) {
            return xsmi_fail_memory(err, size, "the options of a sampler");
        }
        xsm_sampler_get(from, option->name, value, size);
        status = xsm_sampler_set(to, option->name, value, err);
        xsmi_release(from->context, value, size, 1);
    }
    return status;
}

xsm_status xsmi_sampler_copy(const xsm_sampler *s, xsm_sampler **out, xsm_error *err)
{
    xsm_sampler *copy;
    XSMI_TRY(xsm_sampler_new_from(s->context, &s->ops, &copy, err));
    xsm_array_writer w = {.context = s->context};
    xsm_status status = copy_options(s, copy, err);
    status = status == XSM_OK ? xsmi_sampler_arrays(s, &w, err) : status;
    if (status == XSM_OK) {
        const xsm_array_reader reader = reader_of(s, &w);
        status = xsmi_sampler_restore(copy, &reader, s->classes, s->features, err);
        copy->schema = xsmi_schema_retain(s->schema);
    }
    xsmi_array_writer_clear(&w);
    if (status != XSM_OK) {
        xsm_sampler_free(copy);
        return status;
    }
    *out = copy;
    return XSM_OK;
}

/* The file's own tensors as a list. */
static xsm_status list_tensors(xsm_context *ctx, const xsmi_container *file, xsm_array_writer *list, xsm_error *err)
{
    const xsmi_tensor *t;
    list->context = ctx;
    for (size_t i = 0; (t = xsmi_container_tensor_at(file, i)); i++) {
        XSMI_TRY(xsmi_array_put(list, t, err));
    }
    return XSM_OK;
}

static xsm_status from_file(xsm_context *ctx, const xsmi_container *file, const char *path, const xsm_sampler_ops *ops,
                            xsm_sampler **out, xsm_error *err)
{
    const char *name = xsmi_container_metadata(file, XSMI_KEY_SAMPLER);
    uint32_t classes, features;
    if (!name || !xsmi_metadata_number(file, KEY_CLASSES, 1, XSM_CLASSES_MAX, &classes) ||
        !xsmi_metadata_number(file, KEY_FEATURES, 0, XSM_FEATURES_MAX, &features)) {
        return xsmi_fail(err, XSM_ERROR_FORMAT,
                         "%s: no sampler's file: the metadata 'sampler', 'classes' and 'features' are needed", path);
    }
    const xsm_sampler_ops *found = ops ? ops : xsm_sampler_find(name);
    if (!found) {
        return xsmi_fail(err, XSM_ERROR_NAME, "%s: sampler '%s' is not built in; its table is needed", path, name);
    }
    xsm_sampler *s;
    XSMI_TRY(xsm_sampler_new_from(ctx, found, &s, err));
    xsm_status status = XSM_OK;
    if (strcmp(s->ops.name, name) != 0) {
        status = xsmi_fail(err, XSM_ERROR_NAME, "%s: this is a sampler '%s', not '%s'", path, name, s->ops.name);
    }
    xsm_array_writer list = {.context = ctx};
    if (status == XSM_OK) {
        const xsmi_option_group options = xsmi_sampler_options(s);
        status = xsmi_option_texts_set(&options, file, path, err);
    }
    status = status == XSM_OK ? list_tensors(ctx, file, &list, err) : status;
    if (status == XSM_OK) {
        xsm_array_reader reader = {list.tensors, list.count, path};
        status = xsmi_sampler_restore(s, &reader, classes, features, err);
    }
    if (status == XSM_OK) {
        uint32_t base = 2;
        (void)xsmi_metadata_number(file, KEY_INDEX_BASE, 0, 1, &base);
        status = xsmi_schema_read(ctx, file, path,
                                  base == 0   ? XSM_INDEX_BASE_ZERO
                                  : base == 1 ? XSM_INDEX_BASE_ONE
                                              : XSM_INDEX_BASE_AUTO,
                                  &s->schema, err);
    }
    xsmi_array_writer_clear(&list);
    if (status != XSM_OK) {
        xsm_sampler_free(s);
        return status;
    }
    *out = s;
    return XSM_OK;
}

static xsm_status load(xsm_context *context, const xsmi_place *place, const xsm_sampler_ops *ops, xsm_sampler **out,
                       xsm_error *err)
{
    xsm_context *ctx;
    XSMI_TRY(xsmi_context_acquire(context, &ctx, err));
    xsmi_container *file;
    xsmi_activity activity;
    xsmi_begin(&activity, ctx, "loading", "bytes", 0);
    xsm_status status = xsmi_container_open_at(ctx, place, (xsmi_open_how){.believe = false}, &file, err);
    if (status == XSM_OK) {
        status = from_file(ctx, file, place->name, ops, out, err);
        xsmi_container_close(file);
    }
    status = xsmi_end(&activity, status, err);
    xsm_context_free(ctx);
    return status;
}

xsm_status xsm_sampler_load(xsm_context *context, const char *path, const xsm_sampler_ops *ops, xsm_sampler **out,
                            xsm_error *err)
{
    XSMI_ENTER(err);
    if (!path || !out) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_sampler_load: %s is NULL", path ? "out" : "path");
    }
    const xsmi_place place = {.name = path};
    return load(context, &place, ops, out, err);
}

xsm_status xsm_sampler_load_from(xsm_context *context, const xsm_storage *storage, const xsm_sampler_ops *ops,
                                 xsm_sampler **out, xsm_error *err)
{
    XSMI_ENTER(err);
    xsm_storage known;
    xsmi_place place;
    XSMI_TRY(xsmi_place_to_read(storage, &known, "xsm_sampler_load_from", &place, err));
    XSMI_TRY(xsmi_place_check_unlent(&place, err));
    if (!out) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_sampler_load_from: out is NULL");
    }
    return load(context, &place, ops, out, err);
}
