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
#include <string.h>

#define KEY_CLASSES "classes"
#define KEY_FEATURES "features"

/* -- saving -------------------------------------------------------------------------------------------------------- */

/* Makes a reader of arrays in memory, whose name in messages is the sampler's. */
static xsm_array_reader reader_of(const xsm_sampler *s, const xsm_array_writer *w)
{
    return (xsm_array_reader){w->tensors, w->count, s->ops.name, NULL};
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

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const xsmi_content *)a)->tensor.name, ((const xsmi_content *)b)->tensor.name);
}

/* Lists the arrays in the order of their names, those of the schema included. */
static xsm_status list(const xsm_sampler *s, const xsm_array_writer *w, xsmi_contents *c, xsm_error *err)
{
    const xsmi_option_group options = xsmi_sampler_options(s);
    for (size_t i = 0; i < w->count; i++) {
        xsmi_contents_add(c, (xsmi_content){.tensor = w->tensors[i]});
    }
    XSMI_TRY(xsmi_schema_list(s->schema, c, err));
    XSMI_TRY(xsmi_schema_list_base(s->schema, c, err));
    XSMI_TRY(xsmi_settings_add(&c->metadata, XSMI_KEY_SAMPLER, "", s->ops.name, err));
    XSMI_TRY(xsmi_settings_add_whole(&c->metadata, KEY_CLASSES, s->classes, err));
    XSMI_TRY(xsmi_settings_add_whole(&c->metadata, KEY_FEATURES, s->features, err));
    XSMI_TRY(xsmi_option_texts_list(&options, &c->metadata, err));
    xsmi_heap_sort(c->list, c->count, sizeof *c->list, compare_names);
    return XSM_OK;
}

xsm_status xsm_sampler_save(const xsm_sampler *s, const char *path, const xsm_storage *storage, xsm_error *err)
{
    XSMI_ENTER(err);
    xsm_storage known;
    xsmi_place place;
    XSMI_NEED(err, {s, "the sampler"});
    XSMI_TRY(xsmi_place_to_write(path, storage, &known, "xsm_sampler_save", &place, err));
    if (!s->bound) {
        return xsmi_fail(err, XSM_ERROR_STATE, "sampler '%s' is not bound: there is nothing to save", s->ops.name);
    }
    xsm_array_writer w = {.context = s->context};
    xsmi_contents c;
    xsmi_activity activity;
    xsmi_begin(&activity, s->context, "saving", "bytes", 0);
    xsmi_contents_start(&c, s->context);
    xsm_status status = xsmi_sampler_arrays(s, &w, err);
    status = status == XSM_OK ? list(s, &w, &c, err) : status;
    status = status == XSM_OK ? xsmi_contents_save(&c, &place, &activity, err) : status;
    xsmi_contents_end(&c);
    xsmi_array_writer_clear(&w);
    return xsmi_end(&activity, status, err);
}

/* -- loading ------------------------------------------------------------------------------------------------------- */

static xsm_status copy_options(const xsm_sampler *from, xsm_sampler *to, xsm_error *err)
{
    const xsm_option *option;
    xsm_status status = XSM_OK;
    for (size_t i = 0; status == XSM_OK && (option = xsm_sampler_ops_option(&from->ops, i)); i++) {
        const size_t size = xsm_sampler_get(from, option->name, NULL, 0) + 1;
        char *value;
        XSMI_TRY(xsmi_array_new(from->context, &value, size, 1, "the options of a sampler", err));
        xsm_sampler_get(from, option->name, value, size);
        status = xsm_sampler_set(to, option->name, value, err);
        xsmi_release(from->context, value, size, 1);
    }
    return status;
}

xsm_status xsmi_sampler_from_arrays(const xsm_sampler *s, const xsm_array_reader *reader, xsm_sampler **out,
                                    xsm_error *err)
{
    xsm_sampler *made;
    XSMI_TRY(xsm_sampler_new_from(s->context, &s->ops, &made, err));
    xsm_status status = copy_options(s, made, err);
    status = status == XSM_OK ? xsmi_sampler_restore(made, reader, s->classes, s->features, err) : status;
    if (status != XSM_OK) {
        xsm_sampler_free(made);
        return status;
    }
    made->schema = xsmi_schema_retain(s->schema);
    *out = made;
    return XSM_OK;
}

xsm_status xsmi_sampler_copy(const xsm_sampler *s, xsm_sampler **out, xsm_error *err)
{
    xsm_array_writer w = {.context = s->context};
    xsm_status status = xsmi_sampler_arrays(s, &w, err);
    if (status == XSM_OK) {
        const xsm_array_reader reader = reader_of(s, &w);
        status = xsmi_sampler_from_arrays(s, &reader, out, err);
    }
    xsmi_array_writer_clear(&w);
    return status;
}

/* Lists the file's own tensors. */
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
        const xsm_array_reader reader = {list.tensors, list.count, path, file};
        status = xsmi_sampler_restore(s, &reader, classes, features, err);
    }
    status = status == XSM_OK ? xsmi_schema_load(ctx, file, path, &s->schema, err) : status;
    status = status == XSM_OK ? xsmi_container_check_known(file, path, "a sampler like this", err) : status;
    xsmi_array_writer_clear(&list);
    if (status != XSM_OK) {
        xsm_sampler_free(s);
        return status;
    }
    *out = s;
    return XSM_OK;
}

xsm_status xsm_sampler_load(xsm_context *context, const char *path, const xsm_storage *storage,
                            const xsm_sampler_ops *ops, xsm_sampler **out, xsm_error *err)
{
    XSMI_ENTER(err);
    xsm_storage known;
    xsmi_place place;
    XSMI_TRY(xsmi_place_to_read(path, storage, &known, "xsm_sampler_load", &place, err));
    XSMI_TRY(xsmi_place_check_unlent(&place, err));
    XSMI_NEED(err, {out, "out"});
    xsm_context *ctx;
    XSMI_TRY(xsmi_context_acquire(context, &ctx, err));
    xsmi_container *file;
    xsmi_activity activity;
    xsmi_begin(&activity, ctx, "loading", "bytes", 0);
    xsm_status status = xsmi_container_open_at(ctx, &place, (xsmi_open_how){.believe = false}, &file, err);
    if (status == XSM_OK) {
        status = from_file(ctx, file, place.name, ops, out, err);
        xsmi_container_close(file);
    }
    status = xsmi_end(&activity, status, err);
    xsm_context_free(ctx);
    return status;
}
