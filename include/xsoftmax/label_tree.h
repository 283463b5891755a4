/* SPDX-License-Identifier: MIT */
/**
 * @file label_tree.h
 * @brief Label trees: sparse linear classifiers in a tree over very many labels, trained in one pass over its nodes.
 */
#ifndef XSOFTMAX_LABEL_TREE_H
#define XSOFTMAX_LABEL_TREE_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/dataset.h>
#include <xsoftmax/model.h>
#include <xsoftmax/option.h>
#include <xsoftmax/storage.h>

/** @defgroup label_tree Label trees
 *
 * For tens of thousands to millions of labels over sparse rows. Labels are put into a tree, so that labels with similar
 * rows are near each other; every node has a linear classifier against its siblings, trained on the rows that have a
 * label under its parent. A label's score is that of its path, and prediction follows the best few nodes of each level.
 * Weights near zero are dropped and the others stored sparsely. (Prabhu, Kag, Harsola, Agrawal and Varma, Parabel,
 * 2018; Khandagale, Xiao and Babbar, Bonsai, 2020; Yu, Zhong, Zhang, Chang and Dhillon, PECOS, 2022.)
 *  @{ */

/** How labels are divided between the children of a node. */
enum {
    /** Halves of equal size, divided again, by balanced spherical 2-means (Parabel). */
    XSM_LABEL_TREE_BALANCE_BALANCED = 0,
    XSM_LABEL_TREE_BALANCE_CLUSTERS = 1 /**< `arity` clusters of any size, by spherical k-means (Bonsai). */
};

/** What the classifiers of a node minimise, besides their L2 penalty; m is a row's margin y (w x + b). */
enum {
    XSM_LABEL_TREE_LOSS_SQUARED_HINGE = 0, /**< max(0, 1 - m)^2: few rows matter, so it is the faster one. */
    XSM_LABEL_TREE_LOSS_LOGISTIC = 1       /**< log(1 + exp(-m)). */
};

/** How scores of nodes become scores and probabilities of labels. */
enum {
    XSM_LABEL_TREE_LINK_AUTO = 0,    /**< `softmax` if no row has more than one label, else `sigmoid`. */
    XSM_LABEL_TREE_LINK_SIGMOID = 1, /**< A probability for each label, whatever the others: the product of the sigmoids
                                     on its path, fitted to be right. */
    XSM_LABEL_TREE_LINK_SOFTMAX = 2, /**< Probabilities that sum to one: the product of the softmaxes over siblings. */
    XSM_LABEL_TREE_LINK_HINGE = 3,   /**< Scores that rank only: the sum of -max(0, 1 - z)^2 (Parabel), for classifiers
                                     trained with #XSM_LABEL_TREE_LOSS_SQUARED_HINGE. */
    /** Probabilities that sum to one, or to less with several trees. Scores are as with `sigmoid`; the probabilities of
     *  `sigmoid` are divided by their sum over what a search finds: its classes, and the nodes that it leaves out, each
     *  of which counts for the classes under it. So they depend on the width of the beam, and the order of the classes
     *  does not. */
    XSM_LABEL_TREE_LINK_NORMALISED = 4
};

/** Settings of xsm_fit_label_tree(). Start with #XSM_LABEL_TREE_OPTIONS_INIT; @ref guide_label_trees says
 *  what to choose. A number outside its range is #XSM_ERROR_RANGE. */
typedef struct xsm_label_tree_options {
    size_t size;         /**< sizeof(xsm_label_tree_options). */
    uint32_t trees;      /**< Trees with different seeds, whose probabilities are averaged: 1 to 64; 0 = 1. */
    uint32_t arity;      /**< Most children of a node whose children are not labels, 2 to 4096; 0 = 16. */
    uint32_t leaf;       /**< Most labels under a node whose children are labels, 2 to 4096; 0 = 100. */
    uint32_t rounds;     /**< Most iterations of a clustering, up to 10,000; 0 = 20. It ends when no label moves. */
    uint32_t iterations; /**< Most passes over the rows of a node, up to 1,000,000; 0 = 100. */
    uint32_t keep;       /**< Most weights of a node, the largest; 0 = all above the threshold. */
    uint32_t negatives;  /**< Width, up to 1000, of a beam search for every training row: the classifiers of a node also
                              learn from the rows that reach it by mistake. 0 = only from rows with a label under it. */
    int32_t loss;        /**< #XSM_LABEL_TREE_LOSS_SQUARED_HINGE or #XSM_LABEL_TREE_LOSS_LOGISTIC. */
    uint64_t seed;       /**< Seed of the random starts and orders, up to 2^53. */
    double cost;         /**< C, weight of the loss against the penalty |w|^2/2: 1e-6 to 1e6; 0 = 1. */
    double epsilon;      /**< Tolerance of the solver, the largest difference of projected gradients (logistic: the
                              largest of their absolute values): 1e-9 to 10; 0 = 0.1. */
    double threshold;    /**< Weights with a smaller absolute value are dropped, 0 to 1e6; #XSM_DEFAULT = 0.1. With 0
                              only zeros are. */
    int32_t balance;     /**< #XSM_LABEL_TREE_BALANCE_BALANCED or #XSM_LABEL_TREE_BALANCE_CLUSTERS. */
    int32_t link;        /**< #XSM_LABEL_TREE_LINK_AUTO, or another XSM_LABEL_TREE_LINK_* value. */
    /** File to which finished nodes are saved, replaced in one piece: at the start, every `checkpoint_every` seconds,
     *  after each tree and when the fit is cancelled; NULL = none. */
    const char *checkpoint;
    /** Checkpoint to continue, of the same rows and options; NULL = none. It may be `checkpoint`. */
    const char *resume;
    double checkpoint_every; /**< Seconds from a checkpoint to the next, 0 or more; 0 = 300. */
    /** Storage for the checkpoints in place of the file `checkpoint`; NULL = none. */
    const xsm_storage *checkpoint_storage;
    /** Storage of the checkpoint to continue in place of the file `resume`; NULL = none. It may read a buffer that
     *  `checkpoint_storage` writes. */
    const xsm_storage *resume_storage;
    /** Label tree that grows, borrowed during the call, by the classes that have rows and had none (xsm_model_grow()
     *  gives it those of the rows); NULL = none. Its trees and link stay, whatever the options are. */
    const xsm_model *start;
} xsm_label_tree_options;

/** Starting value of an #xsm_label_tree_options: the defaults, with the seed 1. */
#define XSM_LABEL_TREE_OPTIONS_INIT                                                                                    \
    {                                                                                                                  \
        sizeof(xsm_label_tree_options), 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, XSM_DEFAULT, 0, 0, NULL, NULL, 0, NULL, NULL, \
            NULL                                                                                                       \
    }

/** What xsm_fit_label_tree() did. Start with #XSM_LABEL_TREE_RESULT_INIT. */
typedef struct xsm_label_tree_result {
    size_t size;               /**< sizeof(xsm_label_tree_result). */
    uint64_t nodes;            /**< Nodes of all trees, the leaves included. */
    uint64_t weights;          /**< Weights that are kept. */
    uint64_t bytes;            /**< Memory of weights and trees. */
    double clustering_seconds; /**< Seconds for the label vectors and the trees' shapes. */
    double training_seconds;   /**< Seconds for the classifiers. */
    uint32_t depth;            /**< Steps from the root to the lowest label, of the deepest tree. */
    int32_t link;              /**< What was chosen for #XSM_LABEL_TREE_LINK_AUTO, or the option. */
    uint32_t checkpoints;      /**< Checkpoints that were written. */
    int32_t checkpoint;        /**< Status of the last one: if it cannot be written, the fit goes on. */
    uint64_t classes;          /**< Of a tree that grows: classes that got a place, */
    uint64_t trained;          /**< nodes of all trees with children that were trained, and */
    uint64_t divided;          /**< nodes of all trees that had too many classes. */
} xsm_label_tree_result;

/** Starting value of an #xsm_label_tree_result. */
#define XSM_LABEL_TREE_RESULT_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(xsm_label_tree_result), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                                              \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Trains a label tree.
 *
 *  A label's vector is the sum of its rows, each divided by the square root of its number of labels, at unit length.
 *  From the root down, the labels of a node are divided by these vectors until it has at most `leaf` of them. Then each
 *  child of a node gets a classifier, which minimises (|w|^2 + b^2)/2 + C sum_i max(0, 1 - y_i (w x_i + b))^2 over the
 *  rows with a label under the node, y_i = 1 where one is under the child, else -1, by dual coordinate descent with
 *  shrinking (Hsieh, Chang, Lin, Keerthi and Sundararajan, 2008), or the same with the logistic loss (Yu, Huang and
 *  Lin, 2011). Rows are used as they are: the defaults are right for rows of unit length (xsm_transform_new() with
 *  `unit`). Rows without a known label count for nothing. A class without rows is at the end of every list.
 *
 *  Unless the link is #XSM_LABEL_TREE_LINK_HINGE, the scores of each level get a scale and a shift (softmax: a scale)
 *  that make them the logarithms of odds (softmax: of probabilities) of rows that were not seen. They are fitted to
 *  about 4,096 training rows a level, of which each is scored as if it had been left out (leave-one-out formula of
 *  least squares with the diagonal of the Hessian).
 *
 *  The model has the layout #XSM_LAYOUT_SPARSE_ROWS and the dataset's class map; give it the transform of the rows
 *  (xsm_model_set_transform()). The result is bit-identical for any number of threads and any instruction set.
 *
 *  In a context with a communicator of several processes (ext/comm.h) they divide the nodes among them, and each gets
 *  the whole model, the same as one process makes; process 0 writes the checkpoints, and all get its result.
 *
 *  A **checkpoint** has the finished trees and the finished nodes of the current tree. A fit that continues it gives
 *  the same bits as one that was never stopped, on any number of threads; it computes label vectors and the shape of
 *  the current tree again. If the first checkpoint cannot be written, the fit ends at once; a later failure is in
 *  xsm_label_tree_result::checkpoint. A fit that ends loses the nodes that are being trained: at most the work of a
 *  quarter of `checkpoint_every`, or of one node. With `negatives` a checkpoint has 8 bytes more for each of these and
 *  each row.
 *
 *  **Growth.** With xsm_label_tree_options::start, a class of that label tree that was never trained and has rows goes
 *  beside the class that the trees find for its vector (one without a weight above 0 may count as never trained); a
 *  node that gets more than twice `leaf` classes is divided. These classes are trained against their siblings on the
 *  rows of the node. The nodes above them are trained on from their weights, with the penalty |w - w_before|^2/2. Every
 *  other classifier, also that of a new class's sibling, keeps its bytes. New ones are scaled and shifted as their
 *  level was. The rows should have the old classes, too: without them a new class has few negatives. The model also
 *  gets the transform, calibration and metadata of the old one, which is unchanged. `negatives` means nothing here, and
 *  each of several processes does all of the work.
 *
 *  **Memory**, besides dataset and model: the label vectors, which are 8 bytes for each row and label and, for labels
 *  whose vector is less work than their rows (where rows have one label, all that have several rows; all for dense rows
 *  and where a tree grows), 8 bytes for each of their features. For the clustering, each thread has 8 bytes for each
 *  feature, row and class, a copy of the rows and vectors of what it divides (up to 16 MiB; labels with more than 2^21
 *  numbers are divided by all threads together, and nothing is copied), and for each feature that occurs in them 12
 *  bytes (without a copy: 24 for every feature) with #XSM_LABEL_TREE_BALANCE_BALANCED, or 8 times `arity`, rounded up
 *  to a multiple of 16, with #XSM_LABEL_TREE_BALANCE_CLUSTERS: 900 MB for a million features and an `arity` of 100. For
 *  the training, after that, 4 bytes for each row, label and level, and for each thread a copy of the rows of a node
 *  that has less than half of the rows, 64 bytes for each of its features, and 64 for each of its rows.
 *  @param context context whose threads are used, or NULL
 *  @param train   rows with labels, sparse or dense, in memory or in a cache
 *  @param options settings, or NULL
 *  @param[out] out the model, the caller's to release with xsm_model_free()
 *  @param[in,out] result what was done (start it with #XSM_LABEL_TREE_RESULT_INIT), or NULL
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_SHAPE for rows without features or without a known label; #XSM_ERROR_RANGE for an
 *          option; #XSM_ERROR_LIMIT for more than 2^32 - 2 rows or 2^31 - 1 classes; #XSM_ERROR_DIVERGED if a weight is
 *          not finite; for a checkpoint #XSM_ERROR_IO, #XSM_ERROR_FORMAT if it is damaged or no checkpoint of a label
 *          tree, #XSM_ERROR_ARGUMENT for other options and #XSM_ERROR_DATA for other rows; for `start`
 *          #XSM_ERROR_UNSUPPORTED if it is no label tree of float32 that says its scales, #XSM_ERROR_SHAPE for other
 *          numbers of classes or features than the rows', #XSM_ERROR_ARGUMENT with a checkpoint; #XSM_CANCELLED.
 *          O(passes (nnz + labels) log K), nnz the values of the rows times their labels. */
XSM_API xsm_status xsm_fit_label_tree(xsm_context *context, const xsm_dataset *train,
                                      const xsm_label_tree_options *options, xsm_model **out,
                                      xsm_label_tree_result *result, xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
