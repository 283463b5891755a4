/*
 * The plan of a safetensors file: its tensors, each with a function that writes it, and its metadata.
 *
 * The file has the tensors of larger elements first, as each must begin at a multiple of its element's size, and those
 * of one size in the order in which they were added. If memory is missing while tensors are added, xsmi_contents_save()
 * and xsmi_contents_take_part() return that failure.
 */
#ifndef XSMI_CONTENTS_H
#define XSMI_CONTENTS_H

#include "base/activity.h"
#include "base/settings.h"

typedef struct xsmi_content xsmi_content;
typedef xsm_status (*xsmi_content_writer)(const xsmi_content *c, xsmi_container_writer *w, xsm_error *err);

struct xsmi_content {
    xsmi_tensor tensor;
    xsmi_content_writer write; /* NULL: tensor.data has all of its bytes */
    const void *of;            /* what write() writes, and which part of it */
    int part;
    bool aligned; /* it begins at a multiple of XSMI_ALIGNMENT in the file; at most one tensor is */
};

typedef struct xsmi_contents {
    xsm_context *context;
    xsmi_content *list; /* [capacity] */
    size_t count, capacity;
    xsmi_settings metadata;
    bool lacks_memory;
} xsmi_contents;

void xsmi_contents_start(xsmi_contents *c, xsm_context *ctx);
void xsmi_contents_add(xsmi_contents *c, xsmi_content content);
/* Adds a tensor [rows], or [rows, columns] if `columns` is above 0. Its data must stay until it is saved. */
void xsmi_contents_add_data(xsmi_contents *c, const char *name, xsmi_dtype dtype, uint64_t rows, uint64_t columns,
                            const void *data);
/* Adds copies of metadata. */
xsm_status xsmi_contents_add_entries(xsmi_contents *c, const xsmi_entry *entries, size_t count, xsm_error *err);
/* Writes the file. Sets the activity's total to the bytes that will be written; it may be NULL. */
xsm_status xsmi_contents_save(xsmi_contents *c, const xsmi_place *place, xsmi_activity *activity, xsm_error *err);
/* Takes part in a save by another process: calls each tensor's write() without a writer. */
xsm_status xsmi_contents_take_part(xsmi_contents *c, xsm_error *err);
/* Releases the plan's memory and leaves it empty. */
void xsmi_contents_end(xsmi_contents *c);

#endif
