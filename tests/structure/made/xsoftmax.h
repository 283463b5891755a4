#ifndef XSOFTMAX_H
#define XSOFTMAX_H

#include <xsoftmax/calls.h>
#include <xsoftmax/ext/table.h>
#include <xsoftmax/kinds.h>
#ifdef XSM_EXPERIMENTAL
#include <xsoftmax/ext/comm.h>
#include <xsoftmax/tune.h>
#endif

#endif
