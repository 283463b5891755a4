#ifndef XSOFTMAX_EXT_COMM_H
#define XSOFTMAX_EXT_COMM_H

#ifndef XSM_EXPERIMENTAL
#error "this header is experimental: define XSM_EXPERIMENTAL to use it"
#endif

#include <xsoftmax/kinds.h>

struct xsm_comm {
    size_t size;
    uint32_t rank;
    uint32_t ranks;
};

#endif
