/* Plain stochastic gradient steps, which linear.c takes; lazy scales do the L2 penalty (ridge) and proximal steps. */
#include "optimizer/optimizer.h"

const xsm_optimizer_ops xsmi_sgd_ops = {
    .size = sizeof(xsm_optimizer_ops),
    .abi = XSM_EXT_ABI_VERSION,
    .flags = XSM_OPTIMIZER_LINEAR,
    .name = "sgd",
    .summary = "plain steps, with ridge and proximal steps by lazy scales",
};
