/*
 * The arrays of a sampler's saved state, which save() adds and load() finds.
 */
#ifndef XSMI_SAMPLER_ARRAYS_H
#define XSMI_SAMPLER_ARRAYS_H

#include "base/safetensors.h"
#include "sampler/sampler.h"

struct xsm_array_writer {
    xsm_context *context;
    xsmi_tensor *tensors; /* [capacity], names and data borrowed */
    size_t count, capacity;
};

/* The arrays that load() reads, and the name of their file for messages. */
struct xsm_array_reader {
    const xsmi_tensor *tensors;
    size_t count;
    const char *name;
    const xsmi_container *file; /* or NULL: arrays in memory */
};

void xsmi_array_writer_clear(xsm_array_writer *w);
/* Adds an array, called by the table's save(). */
xsm_status xsmi_array_put(xsm_array_writer *w, const xsmi_tensor *tensor, xsm_error *err);
/* Returns the array of that name, or NULL. */
const xsmi_tensor *xsmi_array_get(const xsm_array_reader *r, const char *name);

/* Calls save() of a bound sampler's table. */
xsm_status xsmi_sampler_arrays(const xsm_sampler *s, xsm_array_writer *w, xsm_error *err);
/* Fills an empty tree from the arrays of model/tree_file.h. On failure call xsmi_tree_clear(). */
xsm_status xsmi_array_tree(const xsm_array_reader *r, const xsm_sampler_problem *problem, xsmi_tree *tree,
                           xsm_error *err);
/* Binds an unbound sampler from its arrays. */
xsm_status xsmi_sampler_restore(xsm_sampler *s, const xsm_array_reader *r, uint32_t classes, uint32_t features,
                                xsm_error *err);
/* Makes a bound sampler of the same table, options and rows as `s` from such arrays. */
xsm_status xsmi_sampler_from_arrays(const xsm_sampler *s, const xsm_array_reader *reader, xsm_sampler **out,
                                    xsm_error *err);

#endif
