/*
 * What a file of safetensors.h will contain: tensors, each with what writes it, and metadata.
 *
 * The file has the tensors of larger elements first, as each must begin at a multiple of its element's size, and those
 * of one size in the order in which they were added. Adding fails without memory, once for all: xsmi_contents_save()
 * and xsmi_contents_take_part() return it.
 */
#ifndef XSMI_CONTENTS_H
#define XSMI_CONTENTS_H

#include "base/activity.h"
#include "base/settings.h"

typedef struct xsmi_content xsmi_content;
typedef xsm_status (*xsmi_content_writer)(const xsmi_content *c, xsmi_container_writer *w, xsm_error *err);

struct xsmi_content {
    xsmi_tensor tensor;
    xsmi_content_writer write; /* NULL: tensor.data are all of its bytes */
    const void *of;            /* what write() writes, and which part of it */
    int part;
    bool aligned; /* it begins at a multiple of XSMI_ALIGNMENT in the file; of one tensor */
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
/* A tensor of rows, or with `columns` above 0 of rows and columns, whose data are there until it is saved. */
void xsmi_contents_add_data(xsmi_contents *c, const char *name, xsmi_dtype dtype, uint64_t rows, uint64_t columns,
                            const void *data);
/* Adds copies of metadata. */
xsm_status xsmi_contents_add_entries(xsmi_contents *c, const xsmi_entry *entries, size_t count, xsm_error *err);
/* Writes the file; expects its bytes of the activity, which may be NULL. */
xsm_status xsmi_contents_save(xsmi_contents *c, const xsmi_place *place, xsmi_activity *activity, xsm_error *err);
/* Takes part in what another process saves: each tensor's write() is called without a writer. */
xsm_status xsmi_contents_take_part(xsmi_contents *c, xsm_error *err);
/* Leaves it empty. */
void xsmi_contents_end(xsmi_contents *c);

#endif
