/* The methods of Fagan and Iyengar 2018, with the settings of its Table 3. */
#ifndef PAPERS_UMAX_METHODS_H
#define PAPERS_UMAX_METHODS_H

#include "learn.h"

typedef enum umax_method {
    /* First those that the authors evaluate with softmax twice. Their IS is TensorFlow's sampled softmax, with the
     * label among the draws, and so is this one; `importance` is that of Bengio and Senecal. */
    UMAX_OVE,
    UMAX_NCE,
    UMAX_IS,
    UMAX_IMPORTANCE,
    UMAX_VANILLA,
    UMAX_VANILLA_5,
    UMAX_UMAX,
    UMAX_UMAX_5,
    UMAX_IMPLICIT,
    UMAX_IMPLICIT_5,
    UMAX_OTHER_SUM,           /* U-max on the sum of Raman et al. */
    UMAX_TABLE3,              /* the methods of the table; the others are only in the figures */
    UMAX_NCE_1 = UMAX_TABLE3, /* the paper's NCE (1,1) */
    UMAX_METHODS
} umax_method;

extern const method umax_methods[UMAX_METHODS];

#endif
