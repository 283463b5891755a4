/*
 * Tensors of the host in a model: they have names, are saved and loaded with the model, and are not used otherwise.
 */
#ifndef XSMI_HOST_TENSORS_H
#define XSMI_HOST_TENSORS_H

#include "base/lender.h"
#include "base/safetensors.h"

#include <xsoftmax/tensors.h>

/* The prefix of their names in files. */
#define XSMI_HOST_PREFIX "host."

typedef struct xsmi_host_tensor {
    xsmi_tensor tensor; /* as in a file: its name has the prefix */
    char *name;
    unsigned char *copy; /* a copy of the data, or NULL if the data are in memory of others */
    xsmi_lender lender;  /* of borrowed data */
    bool mapped;         /* the data are in the model's mapping */
} xsmi_host_tensor;

typedef struct xsmi_host_tensors {
    xsmi_host_tensor **list; /* [capacity] in the order of their names */
    size_t count, capacity;
} xsmi_host_tensors;

/* Whether some tensors are in the model's mapping, which must then stay. */
bool xsmi_host_tensors_mapped(const xsmi_host_tensors *h);
/* Lists the host's tensors of a file in an empty list, without copying data. `name` is for messages. */
xsm_status xsmi_host_tensors_read(xsm_context *ctx, const xsmi_container *file, const char *name, xsmi_host_tensors *h,
                                  xsm_error *err);
/* Copies tensors and data into an empty list, which is empty again on failure. */
xsm_status xsmi_host_tensors_copy(xsm_context *ctx, const xsmi_host_tensors *from, xsmi_host_tensors *to,
                                  xsm_error *err);
void xsmi_host_tensors_clear(xsm_context *ctx, xsmi_host_tensors *h);

#endif
