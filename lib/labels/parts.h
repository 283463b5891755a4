/*
 * What the ranks of a context have trained of the nodes of a label tree, on every rank.
 */
#ifndef XSMI_LABEL_PARTS_H
#define XSMI_LABEL_PARTS_H

#include "labels/node.h"

/* Brings parts[i] from rank owner[i] to all others, if all ranks are well: xsmi_agree() on `status`. Also on failure
 * the caller frees the parts, of which those of other ranks were empty. */
xsm_status xsmi_node_parts_share(xsm_context *ctx, xsm_status status, xsmi_node_part *parts, const uint32_t *owner,
                                 size_t count, xsm_error *err);

#endif
