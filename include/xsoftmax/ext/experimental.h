/* SPDX-License-Identifier: MIT */
/**
 * @file ext/experimental.h
 * @brief What experimental members of an estimator's table need.
 */
#ifndef XSOFTMAX_EXT_EXPERIMENTAL_H
#define XSOFTMAX_EXT_EXPERIMENTAL_H

#ifndef XSM_EXPERIMENTAL
#error "ext/experimental.h changes from release to release: define XSM_EXPERIMENTAL to use it"
#endif

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/ext/estimator.h>

/** @addtogroup ext_estimator
 *  @{ */

/** Classes of a class run: sums over all classes are sums of class runs, which are added in rising order. */
#define XSM_CLASS_RUN 4096

/** Some classes of one or more examples: those of one process, where the classes of a model are divided among several
 *  (@ref guide_clusters), or a class run, where the coefficients of a batch are more than are kept. They begin
 *  at a multiple of #XSM_CLASS_RUN. */
typedef struct xsm_class_block {
    size_t size;                 /**< sizeof(xsm_class_block). */
    const xsm_example *examples; /**< [count]. */
    uint64_t count;              /**< Examples in this block. */
    uint64_t batch;              /**< Number of examples n of the whole batch. */
    uint64_t width;              /**< Number of classes of the block. */
    uint32_t first;              /**< The first of them. */
    uint32_t classes;            /**< K. */
    double eta;                  /**< Learning rate. */
    /** [count][width] first the scores, in the end the coefficients. */
    float *coefficients;
    /** [count] for each example the scores [label_count] of its labels, those of other processes included. */
    const float *const *label_scores;
    const float *const *label_weights; /**< As xsm_score_block::label_weights. */
    float *most;                       /**< [count] the results of xsm_class_sums::most(). */
    double *sums;                      /**< [count][runs][xsm_class_sums::count] the results of xsm_class_sums::sums();
                                            in gradient() [count][xsm_class_sums::count], those of all classes. */
    double *losses;                    /**< [count] output of gradient(). */
} xsm_class_block;

/** How an exact table computes the coefficients of some classes alone. What it needs of the other classes are sums over
 *  all classes of numbers that depend on the score of the class, the scores of the labels, and a largest value. The
 *  results are those of xsm_estimator_ops::gradient(), to the last bit. The functions get the examples in several
 *  blocks, from several threads at once. */
struct xsm_class_sums {
    size_t size;    /**< sizeof(xsm_class_sums). */
    uint32_t count; /**< Sums for each example, 1 to 8. */
    int32_t single; /**< What sums of a class run are. 0: doubles. 1: floats. 2: there is one, a float, the sum of e^(z
                       - most) over the scores z, which sums() leaves as they are. Then most() and sums() get one class
                       run at a time, with its own largest value, in one reading of the scores; the sums are joined by
                       e^(difference of the largest values), and gradient() may get a part of a class run. */
    /** Writes the largest value of each example over the classes of the block to xsm_class_block::most, -INFINITY if
     *  there is none. Afterwards `most` has the largest values over all processes. NULL = sums() needs none. */
    void (*most)(const void *state, const xsm_class_block *block);
    /** Required: writes the sums over each class run of the block. It may replace scores by what gradient() needs. */
    void (*sums)(const void *state, const xsm_class_block *block);
    /** Required: computes coefficients, and losses, which are the same in every block. */
    void (*gradient)(const void *state, const xsm_class_block *block);
};

#ifdef __cplusplus
extern "C" {
#endif

/** Prefetches the next lines of a queue into the cache, for a table that waits for results of its own calculation.
 *  @param queue xsm_score_block::upcoming; NULL does nothing
 *  @param lines lines at most; fewer if the queue ends */
XSM_API void xsm_prefetch(xsm_prefetch_queue *queue, uint32_t lines);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
