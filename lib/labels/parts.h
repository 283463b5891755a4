/*
 * Exchange of what the processes of a context have trained of a label tree's nodes.
 */
#ifndef XSMI_LABEL_PARTS_H
#define XSMI_LABEL_PARTS_H

#include "labels/node.h"

/* Agrees on `status` (xsmi_agree()); if all are XSM_OK, sends parts[i] from process owner[i] to all others, where it
 * was empty. The caller frees the parts whatever the result. */
xsm_status xsmi_node_parts_share(xsm_context *ctx, xsm_status status, xsmi_node_part *parts, const uint32_t *owner,
                                 size_t count, xsm_error *err);

#endif
