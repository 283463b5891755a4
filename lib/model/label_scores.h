/*
 * The classes that a beam search finds for a row in label trees, their probabilities and the row's log-loss.
 *
 * A score is the logarithm of a probability p of the tree, except for the link of the squared hinge, whose scores only
 * order the classes. For XSMI_LINK_NORMALISED p must still be divided by the total of the search
 * (xsmi_label_beam_log_total()), without which it is a probability of each class by itself.
 *
 * With a temperature, for trees whose probabilities sum to one (p is the divided one), a class that was found has the
 * probability p^scale / Z, with Z = sum of p^scale over the found classes + rest^scale, where rest is 1 less the sum of
 * their p. The other classes share rest^scale / Z in proportion to p. So all probabilities sum to one, the order of the
 * found classes stays, and a scale of 1 changes nothing; no other class is scored.
 *
 * With XSM_CALIBRATION_LABELS the probability is sigma(scale z + shift), z = log(p / (1 - p)), or the score of a
 * squared hinge. So a scale of 1 and a shift of 0 change nothing. The log-loss is the sum over the found classes and
 * the row's labels: the others are left out, as their probabilities are near 0.
 */
#ifndef XSMI_LABEL_SCORES_H
#define XSMI_LABEL_SCORES_H

#include "math/platt.h"
#include "model/calibration.h"
#include "model/label_beam.h"
#include "model/model.h"

typedef struct xsmi_label_scores {
    const xsm_model *model;
    xsmi_label_beam beam;
    float *scaled;                     /* [beam.capacity + 1] */
    float *odds, *left, *right, *tail; /* [beam.capacity] */
    float *chosen;                     /* [widest] */
} xsmi_label_scores;

/* Sums over the scores of a row's known labels. */
typedef struct xsmi_label_target {
    size_t known;
    double found;  /* sum of the scores of labels that were found */
    double missed; /* sum of the scores of the other labels */
    double rests;  /* sum over these others of log(rest), or of the label's log p if that is larger */
} xsmi_label_target;

/* Takes the scratch from an arena; call xsmi_label_beam_start() before the first search. */
void xsmi_label_scores_divide(const xsm_model *m, uint32_t width, xsmi_arena *arena, xsmi_label_scores *s);

/* These functions are for the row that was searched last. */

/* Returns log Z for a temperature, from scores that are not divided by the total yet. */
double xsmi_label_log_partition(const xsmi_label_scores *s, double scale);
/* Sums the scores of the row's labels. */
xsmi_label_target xsmi_label_find(const xsmi_label_scores *s, const xsmi_features *x, const uint32_t *labels,
                                  size_t count);
/* Returns the log-loss, with a temperature, of a row with a known label. */
double xsmi_label_temperature_loss(const xsmi_label_target *target, double log_partition, double scale);
/* Computes the log-loss with XSM_CALIBRATION_LABELS, and its derivatives. */
void xsmi_label_branches(const xsmi_label_scores *s, const xsmi_features *x, const uint32_t *labels, size_t count,
                         float scale, float shift, double sums[XSMI_PLATT_SUMS]);

/* -- of any model, label trees or not ------------------------------------------------------------------------------ */

/* Whether a model's probabilities depend on all classes that a search in label trees finds, so that a log-partition is
 * needed. */
bool xsmi_label_is_relative(const xsm_model *m);
/* Returns a class's probability with a calibration. For label trees log_partition is only used if
 * xsmi_label_is_relative(). */
double xsmi_class_probability(const xsm_model *m, const xsmi_calibration *c, float score, double log_partition);
/* Whether scores only order the classes. */
bool xsmi_label_only_orders(const xsm_model *m);
/* Whether a model's rows have a log-loss: scores that only order the classes need a calibration first. */
bool xsmi_label_has_loss(const xsm_model *m);

/* -- of the row that was searched last ----------------------------------------------------------------------------- */

/* Returns log Z with the model's calibration, or without one the logarithm of the search's total; 0 unless
 * xsmi_label_is_relative(). */
double xsmi_label_log_sum(const xsmi_label_scores *s);
/* Returns the row's log-loss with the model's calibration, 0 without a known label; log_sum is from
 * xsmi_label_log_sum(). *known gets the number of known labels. NaN if a score is not finite. */
double xsmi_label_loss(const xsmi_label_scores *s, const xsmi_features *x, const uint32_t *labels, size_t count,
                       double log_sum, size_t *known);

#endif
