/* The losses, one line each. */
#include "loss/loss.h"

const xsmi_loss *const xsmi_losses[] = {
    &xsmi_loss_cross_entropy, &xsmi_loss_margin, &xsmi_loss_triplet, &xsmi_loss_nca, NULL,
};

const char *const xsmi_loss_names[] = {"cross-entropy", "margin", "triplet", "nca", NULL};
