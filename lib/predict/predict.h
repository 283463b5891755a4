/*
 * The internal interface of predictors: one thread's scratch, for all classes (predict.c) or a beam in the model's tree
 * (predict_beam.c).
 */
#ifndef XSMI_PREDICT_H
#define XSMI_PREDICT_H

#include "index/index.h"
#include "model/best_first.h"
#include "model/score.h"
#include "base/arena.h"

#include <xsoftmax/predict.h>

/* Rows scored together against all classes. */
#define XSMI_PIECE (XSMI_LANES * XSMI_TILE_BLOCKS)

struct xsm_predictor {
    xsm_context *context;
    const xsm_model *model; /* a reference */
    uint32_t top;
    /* For the rows of one piece. */
    xsmi_features features[XSMI_PIECE];
    double log_sum_exp[XSMI_PIECE];
    float target_score[XSMI_PIECE];
    float *top_score;    /* [XSMI_PIECE][top] */
    uint32_t *top_class; /* [XSMI_PIECE][top] */
    void *scratch;
    size_t scratch_size;
    /* Of the model when the predictor was made: */
    xsmi_correction *correction; /* these two are references, so that no other can come to lie where they are */
    xsmi_class_tree *hierarchy;
    uint32_t classes, width; /* of the output layer */
    const xsm_index *index;  /* a reference, or NULL */
    uint32_t beam;           /* width; 0 = none */
    bool tree_alone;
    uint64_t probed;
};

/* The width of the beam in the options, 0 for none. Checks these options. */
xsm_status xsmi_beam_width(const xsm_model *m, const xsm_predictor_options *o, uint32_t top, uint32_t *width,
                           xsm_error *err);
/* Bytes of scratch for a beam, SIZE_MAX = too many. */
size_t xsmi_beam_scratch(const xsm_predictor *p);
/* The same for a search in label trees (predict_labels.c). */
size_t xsmi_labels_scratch(const xsm_predictor *p);
xsm_status xsmi_labels_run(xsm_predictor *p, const xsm_batch *batch, uint32_t *classes, float *scores,
                           double *probabilities, xsm_error *err);
/* Predicts the rows of a batch; scores and probabilities may be NULL. */
xsm_status xsmi_beam_run(xsm_predictor *p, const xsm_batch *batch, uint32_t *classes, float *scores,
                         double *probabilities, xsm_error *err);

#endif
