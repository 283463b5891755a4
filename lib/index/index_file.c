/*
 * Indexes in files: a container of safetensors.h. Tensor `numbers` (U32) has what the table's save() writes. Metadata:
 *
 *   index        the table's name
 *   rows         K
 *   width        D, without the bias
 *   bias         1 if the rows have a bias or what replaces it, else 0
 *   fingerprint  16 hexadecimal digits, a hash of all rows
 *   option.KEY   each option's value as text
 *
 * The rows themselves are read from the model, or the host's memory, when the file is loaded.
 */
#include "index/index.h"
#include "base/contents.h"
#include "base/entry.h"
#include "base/option_texts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define KEY_ROWS "rows"
#define KEY_WIDTH "width"
#define KEY_BIAS "bias"
#define KEY_FINGERPRINT "fingerprint"
#define NUMBERS "numbers"

/* -- saving -------------------------------------------------------------------------------------------------------- */

static xsm_status list_facts(const xsm_index *x, uint64_t fingerprint, xsmi_settings *metadata, xsm_error *err)
{
    const xsmi_option_group options = xsmi_index_options(x);
    XSMI_TRY(xsmi_settings_add(metadata, XSMI_KEY_INDEX, "", x->ops.name, err));
    XSMI_TRY(xsmi_settings_add_whole(metadata, KEY_ROWS, x->count, err));
    XSMI_TRY(xsmi_settings_add_whole(metadata, KEY_WIDTH, x->width, err));
    XSMI_TRY(xsmi_settings_add_whole(metadata, KEY_BIAS, x->own_width > x->width, err));
    XSMI_TRY(xsmi_settings_add_hash(metadata, KEY_FINGERPRINT, fingerprint, err));
    return xsmi_option_texts_list(&options, metadata, err);
}

static xsm_status write_file(const xsm_index *x, uint64_t fingerprint, const xsmi_place *place, xsm_error *err)
{
    uint64_t count = xsmi_index_numbers(x);
    uint32_t *numbers =
        count <= SIZE_MAX / sizeof *numbers ? xsmi_allocate(x->context, (size_t)count, sizeof *numbers) : NULL;
    if (count > 0 && !numbers) {
        return xsmi_fail_memory(err, (size_t)count * sizeof *numbers, "the numbers of an index");
    }
    xsmi_index_save(x, numbers);
    xsmi_contents c;
    xsmi_activity activity;
    xsmi_begin(&activity, x->context, "saving", "bytes", 0);
    xsmi_contents_start(&c, x->context);
    xsmi_contents_add_data(&c, NUMBERS, XSMI_DTYPE_U32, count, 0, numbers);
    xsm_status status = list_facts(x, fingerprint, &c.metadata, err);
    status = status == XSM_OK ? xsmi_contents_save(&c, place, &activity, err) : status;
    xsmi_contents_end(&c);
    status = xsmi_end(&activity, status, err);
    xsmi_release(x->context, numbers, (size_t)count, sizeof *numbers);
    return status;
}

xsm_status xsm_index_save(const xsm_index *x, const char *path, const xsm_storage *storage, xsm_error *err)
{
    XSMI_ENTER(err);
    xsm_storage known;
    xsmi_place place;
    XSMI_NEED(err, {x, "the index"});
    XSMI_TRY(xsmi_place_to_write(path, storage, &known, "xsm_index_save", &place, err));
    uint64_t fingerprint;
    if (!x->built) {
        return xsmi_fail(err, XSM_ERROR_STATE, "index '%s' is not built: there is nothing to save", x->ops.name);
    }
    if (!x->ops.saved) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "index '%s' has no save() and restore() in its table",
                         x->ops.name);
    }
    XSMI_TRY(xsmi_index_check_model(x, err));
    XSMI_TRY(xsmi_index_fingerprint(x, &fingerprint, err));
    if (!place.storage && x->model && xsmi_is_mapped(&x->model->mapping, place.name)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s is the model's own file, which the index would replace",
                         place.name);
    }
    return write_file(x, fingerprint, &place, err);
}

/* -- loading ------------------------------------------------------------------------------------------------------- */

/* The source of a loaded index's rows: a model, or rows of the host. */
typedef struct row_place {
    const xsm_model *model;
    const xsm_index_rows *rows;
} row_place;

/* The file's numbers of its rows. */
typedef struct file_facts {
    const char *index;
    uint32_t rows, width, bias;
    uint64_t fingerprint;
} file_facts;

static bool read_hash(const char *text, uint64_t *out)
{
    if (!text || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16) {
        return false;
    }
    return sscanf(text, "%" SCNx64, out) == 1;
}

static xsm_status read_facts(const xsmi_container *file, const char *path, file_facts *f, xsm_error *err)
{
    const char *kind = xsmi_container_kind(file);
    f->index = xsmi_container_metadata(file, XSMI_KEY_INDEX);
    if (!f->index || !xsmi_metadata_number(file, KEY_ROWS, 1, XSM_CLASSES_MAX, &f->rows) ||
        !xsmi_metadata_number(file, KEY_WIDTH, 1, XSM_FEATURES_MAX, &f->width) ||
        !xsmi_metadata_number(file, KEY_BIAS, 0, 1, &f->bias) ||
        !read_hash(xsmi_container_metadata(file, KEY_FINGERPRINT), &f->fingerprint)) {
        return xsmi_fail(err, XSM_ERROR_FORMAT,
                         "%s: no index's file%s%s: the metadata 'index', 'rows', 'width', 'bias' and 'fingerprint' are "
                         "needed",
                         path, f->index ? "" : " but ",
                         f->index ? ""
                         : kind   ? kind
                                  : "one of others");
    }
    return XSM_OK;
}

/* Refuses rows other than those over which the index was built. */
static xsm_status check_rows(const xsm_index *x, const file_facts *f, const char *path, xsm_error *err)
{
    const uint32_t bias = x->own_width > x->width;
    if (x->count != f->rows || x->width != f->width || bias != f->bias) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "%s: an index of %u rows of %u numbers%s; here are %u of %u%s", path,
                         f->rows, f->width, f->bias ? " and a bias" : "", x->count, x->width,
                         bias ? " and a bias" : "");
    }
    uint64_t fingerprint;
    XSMI_TRY(xsmi_index_fingerprint(x, &fingerprint, err));
    if (fingerprint != f->fingerprint) {
        return xsmi_fail(
            err, XSM_ERROR_STATE,
            "%s: an index of other rows than these, of which the weights have changed since or which are of "
            "another model: build it anew",
            path);
    }
    return XSM_OK;
}

static xsm_status restore(xsm_index *x, const xsmi_container *file, const file_facts *f, const char *path,
                          xsm_error *err)
{
    XSMI_TRY(check_rows(x, f, path, err));
    const uint64_t count = xsmi_index_numbers(x);
    const xsmi_tensor *numbers = xsmi_container_tensor(file, NUMBERS);
    if (!xsmi_tensor_is(numbers, XSMI_DTYPE_U32, 1, count, 0)) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: tensor '" NUMBERS "' must hold %" PRIu64 " U32 for this index",
                         path, count);
    }
    XSMI_TRY(xsmi_container_check_known(file, path, "an index", err));
    xsm_error said = XSM_ERROR_INIT;
    xsm_status status = xsmi_index_restore(x, (const uint32_t *)(const void *)numbers->data, &said);
    if (status == XSM_ERROR_FORMAT) {
        return xsmi_fail(err, status, "%s: %s", path, said.message);
    }
    if (status != XSM_OK && err) {
        *err = said;
    }
    return status;
}

static xsm_status from_file(xsm_context *ctx, const xsmi_container *file, const char *path, const xsm_index_ops *ops,
                            const row_place *rows, xsm_index **out, xsm_error *err)
{
    file_facts facts;
    XSMI_TRY(read_facts(file, path, &facts, err));
    const xsm_index_ops *found = ops ? ops : xsm_index_find(facts.index);
    if (!found) {
        return xsmi_fail(err, XSM_ERROR_NAME, "%s: index '%s' is not built in; its table is needed", path, facts.index);
    }
    xsm_index *x;
    XSMI_TRY(xsm_index_new_from(ctx, found, &x, err));
    xsm_status status = XSM_OK;
    if (strcmp(x->ops.name, facts.index) != 0) {
        status = xsmi_fail(err, XSM_ERROR_NAME, "%s: this is an index '%s', not '%s'", path, facts.index, x->ops.name);
    } else if (!x->ops.saved) {
        status =
            xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "index '%s' has no save() and restore() in its table", x->ops.name);
    }
    if (status == XSM_OK) {
        const xsmi_option_group options = xsmi_index_options(x);
        status = xsmi_option_texts_set(&options, file, path, err);
    }
    if (status == XSM_OK) {
        status =
            rows->model ? xsmi_index_aim_at_model(x, rows->model, err) : xsmi_index_aim_at_rows(x, rows->rows, err);
    }
    status = status == XSM_OK ? restore(x, file, &facts, path, err) : status;
    if (status != XSM_OK) {
        xsm_index_free(x);
        return status;
    }
    *out = x;
    return XSM_OK;
}

static xsm_status load_over(xsm_context *context, const char *path, const xsm_storage *storage,
                            const xsm_index_ops *ops, const row_place *rows, xsm_index **out, const char *function,
                            xsm_error *err)
{
    xsm_storage known;
    xsmi_place place;
    XSMI_TRY(xsmi_place_to_read(path, storage, &known, function, &place, err));
    XSMI_TRY(xsmi_place_check_unlent(&place, err));
    if (!out || (!rows->model && !rows->rows)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s: %s is NULL", function, out ? "what has its rows" : "out");
    }
    xsm_context *ctx;
    XSMI_TRY(xsmi_context_acquire(context, &ctx, err));
    xsmi_container *file;
    xsmi_activity activity;
    xsmi_begin(&activity, ctx, "loading", "bytes", 0);
    xsm_status status = xsmi_container_open_at(ctx, &place, (xsmi_open_how){.believe = false}, &file, err);
    if (status == XSM_OK) {
        status = from_file(ctx, file, place.name, ops, rows, out, err);
        xsmi_container_close(file);
    }
    status = xsmi_end(&activity, status, err);
    xsm_context_free(ctx);
    return status;
}

xsm_status xsm_index_load(xsm_context *context, const char *path, const xsm_storage *storage, const xsm_index_ops *ops,
                          const xsm_model *model, xsm_index **out, xsm_error *err)
{
    XSMI_ENTER(err);
    return load_over(context, path, storage, ops, &(row_place){model, NULL}, out, "xsm_index_load", err);
}

xsm_status xsm_index_load_rows(xsm_context *context, const char *path, const xsm_storage *storage,
                               const xsm_index_ops *ops, const xsm_index_rows *rows, xsm_index **out, xsm_error *err)
{
    XSMI_ENTER(err);
    return load_over(context, path, storage, ops, &(row_place){NULL, rows}, out, "xsm_index_load_rows", err);
}
