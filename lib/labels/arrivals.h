/*
 * Where a label tree puts classes that arrive: those that have rows now, and had none when it was fitted. A class goes
 * beside the class that the trees find for its vector (vectors.h). A node that gets more than twice `leaf` classes is
 * divided as a fit would divide it. All other nodes keep their children, and every node that there was keeps its
 * classifier.
 */
#ifndef XSMI_LABEL_ARRIVALS_H
#define XSMI_LABEL_ARRIVALS_H

#include "labels/vectors.h"
#include "model/model.h"

/* How one tree grows. Nodes are those of the old tree. */
typedef struct xsmi_arrivals {
    xsm_context *context;
    xsmi_held held; /* the arrays */
    const xsmi_label_tree *old;
    uint8_t *unseen;  /* [classes] 1: it had no rows, and has none now */
    uint32_t *parent; /* [classes] the node that gets the class as a child; XSMI_NO_CLASS: it has a place already */
    uint32_t *under;  /* [nodes] classes under each, without those that are unseen */
    uint8_t *divided; /* [nodes] 1: it is divided */
    uint32_t unseen_child;     /* the root's child that becomes that of all unseen classes, or XSMI_NO_CLASS */
    xsmi_label_vectors rows;   /* seen classes, and vectors of those in nodes that are divided */
    uint32_t count, divisions; /* classes that arrive; nodes that are divided */
} xsmi_arrivals;

/* Finds the class beside which each class that arrives in some tree goes; beside[classes], XSMI_NO_CLASS for the
 * others. `v` are the vectors of the new rows. */
xsm_status xsmi_arrivals_place(const xsm_model *m, const xsmi_label_vectors *v, uint32_t *beside, xsm_error *err);
/* Plans the growth of tree `tree`. Release it also after a failure. */
xsm_status xsmi_arrivals_plan(xsmi_arrivals *a, const xsm_model *m, uint32_t tree, const xsmi_label_vectors *v,
                              const uint32_t *beside, uint32_t leaf, xsm_error *err);
void xsmi_arrivals_free(xsmi_arrivals *a);

#endif
