/* Lists of what files will contain. */
#include "base/contents.h"
#include "base/grow.h"

void xsmi_contents_start(xsmi_contents *c, xsm_context *ctx)
{
    *c = (xsmi_contents){.context = ctx, .metadata = {.context = ctx}};
}

void xsmi_contents_end(xsmi_contents *c)
{
    xsmi_release(c->context, c->list, c->capacity, sizeof *c->list);
    xsmi_settings_free(&c->metadata);
    *c = (xsmi_contents){.context = c->context};
}

void xsmi_contents_add(xsmi_contents *c, xsmi_content content)
{
    c->lacks_memory |= XSMI_GROW(c->context, c->list, c->capacity, c->count + 1, "a list of tensors", NULL) != XSM_OK;
    if (!c->lacks_memory) {
        c->list[c->count++] = content;
    }
}

void xsmi_contents_add_data(xsmi_contents *c, const char *name, xsmi_dtype dtype, uint64_t rows, uint64_t columns,
                            const void *data)
{
    xsmi_contents_add(
        c, (xsmi_content){
               .tensor = {
                   .name = name, .dtype = dtype, .rank = columns > 0 ? 2 : 1, .shape = {rows, columns}, .data = data}});
}

xsm_status xsmi_contents_add_entries(xsmi_contents *c, const xsmi_entry *entries, size_t count, xsm_error *err)
{
    for (size_t i = 0; i < count; i++) {
        XSMI_TRY(xsmi_settings_add(&c->metadata, entries[i].key, "", entries[i].value, err));
    }
    return XSM_OK;
}

/* Sorts the tensors by the size of their elements, the largest first. */
static xsm_status sort(xsmi_contents *c, xsm_error *err)
{
    xsmi_content *sorted = c->lacks_memory ? NULL : xsmi_allocate(c->context, c->capacity, sizeof *sorted);
    size_t count = 0;
    if (!sorted && (c->lacks_memory || c->capacity > 0)) {
        return xsmi_fail_memory(err, (c->count + 1) * sizeof *sorted, "a list of tensors");
    }
    for (size_t bytes = 8; bytes > 0; bytes /= 2) {
        for (size_t i = 0; i < c->count; i++) {
            if (xsmi_dtype_size(c->list[i].tensor.dtype) == bytes) {
                sorted[count++] = c->list[i];
            }
        }
    }
    xsmi_release(c->context, c->list, c->capacity, sizeof *c->list);
    c->list = sorted;
    return XSM_OK;
}

static xsm_status write_all(const void *contents, xsmi_container_writer *w, xsm_error *err)
{
    const xsmi_contents *c = contents;
    for (size_t i = 0; i < c->count; i++) {
        const xsmi_content *each = &c->list[i];
        size_t size = 0;
        (void)xsmi_tensor_bytes(&each->tensor, &size); /* known since the file was begun */
        XSMI_TRY(each->write ? each->write(each, w, err) : xsmi_container_write(w, each->tensor.data, size, err));
    }
    return XSM_OK;
}

xsm_status xsmi_contents_take_part(xsmi_contents *c, xsm_error *err)
{
    XSMI_TRY(sort(c, err));
    return write_all(c, NULL, err);
}

static xsm_status create(const xsmi_contents *c, const xsmi_place *place, xsmi_container_writer **w, xsm_error *err)
{
    xsmi_tensor *tensors = xsmi_allocate(c->context, c->count, sizeof *tensors);
    if (!tensors && c->count > 0) {
        return xsmi_fail_memory(err, c->count * sizeof *tensors, "a list of tensors");
    }
    xsmi_container_plan plan = {tensors, c->count, 0, c->metadata.entries, c->metadata.count};
    for (size_t i = 0; i < c->count; i++) {
        tensors[i] = c->list[i].tensor;
        plan.aligned = c->list[i].aligned ? i : plan.aligned;
    }
    const xsm_status status = xsmi_container_create_at(c->context, place, &plan, w, err);
    xsmi_release(c->context, tensors, c->count, sizeof *tensors);
    return status;
}

xsm_status xsmi_contents_save(xsmi_contents *c, const xsmi_place *place, xsmi_activity *activity, xsm_error *err)
{
    xsmi_container_writer *w = NULL;
    XSMI_TRY(sort(c, err));
    XSMI_TRY(create(c, place, &w, err));
    if (activity) {
        xsmi_expect(activity, xsmi_container_expected(w));
    }
    return xsmi_container_fill(w, write_all, c, err);
}
