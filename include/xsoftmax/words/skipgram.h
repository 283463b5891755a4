/* SPDX-License-Identifier: MIT */
/**
 * @file skipgram.h
 * @brief Word vectors: skip-gram models of running text.
 */
#ifndef XSOFTMAX_SKIPGRAM_H
#define XSOFTMAX_SKIPGRAM_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/words/corpus.h>
#include <xsoftmax/estimator.h>
#include <xsoftmax/model.h>
#include <xsoftmax/trainer.h>

/** @defgroup skipgram Skip-gram models
 *  @ingroup words
 *
 * A skip-gram model (Mikolov et al., Distributed representations of words and phrases and their compositionality, 2013)
 * predicts the words around a word: a softmax over the vocabulary with the scores (logits) z_k = w_k . phi_c, phi_c the
 * **input** vector of the centre word c and w_k the **output** vector of the word k. Input and output vectors are two
 * linear models of V classes and D features; class k is word k of a corpus. xsm_word_model_new() makes these models,
 * xsm_skipgram_new() makes a trainer for them, and all functions for models can save, load, search and score them.
 *
 * Each word of the text is a centre word (centre); its context words (contexts) are the words at a distance of up to b
 * words before and after it in its line, with b drawn uniformly from 1 to `window`. Before that, frequent words are
 * dropped from the text: each occurrence with probability 1 - min(1, sqrt(t/f) + t/f), f the word's share of the text
 * and t the option `subsample` (the rule of word2vec). Lines are split every 1024 words. Each epoch draws new random
 * numbers.
 *
 * **Determinism.** For the same text, options and seed, results are bit-identical for any number of threads and any
 * instruction set. Steps are taken in batches of centre words (option `batch`): all words of a batch are scored in
 * parallel with the vectors from before the batch; then the changes of each vector are added in the order of the text.
 * In word2vec and fastText, threads overwrite each other's changes, so results differ from run to run.
 *
 * **Threads.** Only one trainer at a time may use a pair of models, and only one thread at a time may use a trainer.
 * The trainer itself uses the threads of its context.
 *  @{ */

/** A skip-gram trainer; opaque. */
typedef struct xsm_skipgram xsm_skipgram;

/** Settings of a skip-gram trainer. Start with #XSM_SKIPGRAM_OPTIONS_INIT. */
typedef struct xsm_skipgram_options {
    size_t size;        /**< sizeof(xsm_skipgram_options). */
    uint64_t epochs;    /**< Passes over the text; 0 = 5. */
    uint32_t window;    /**< Most words on each side of a centre, up to 256; 0 = 5. */
    uint32_t negatives; /**< Without an estimator: negatives drawn for each context, up to 256; 0 = 5. */
    double power;       /**< Without an estimator: negatives are drawn in proportion to count^power, 0 to 10; 0 = all
                             words alike; #XSM_DEFAULT = 0.75. */
    double subsample;   /**< t above; 1 or more = no word is dropped; 0 = 1e-4. */
    double eta;         /**< Initial learning rate, above 0; it falls linearly to 0. 0 = 0.05. */
    uint64_t seed;      /**< Seed of all random numbers. */
    uint32_t batch;     /**< Centre words in a batch, up to 65536; 0 = V/64 within 16 to 256, or fewer if the most
                             frequent word would occur too often in a batch at this learning rate. */
    int32_t reserved;   /**< Zero. */
    /** Callback, or NULL. Its `step` is the number of words of the text so far that are in the vocabulary, `steps` that
     *  of all epochs; `examples` is the number of pairs of a centre and a context; `loss` is the mean loss of a pair
     *  since the epoch began. */
    xsm_progress_function progress;
    void *progress_user; /**< First argument of progress(). */
} xsm_skipgram_options;

/** Starting value of an #xsm_skipgram_options. */
#define XSM_SKIPGRAM_OPTIONS_INIT                                                                                      \
    {                                                                                                                  \
        sizeof(xsm_skipgram_options), 0, 0, 0, XSM_DEFAULT, 0, 0, 0, 0, 0, NULL, NULL                                  \
    }

/** Settings of xsm_skipgram_fit(). Start with #XSM_SKIPGRAM_FIT_OPTIONS_INIT. */
typedef struct xsm_skipgram_fit_options {
    size_t size;         /**< sizeof(xsm_skipgram_fit_options). */
    uint64_t iterations; /**< Iterations: each is a step of the input vectors and a step of the output vectors; 0 =
                              10. */
    double eta;          /**< Size of the first steps (learning rate), above 0; 0 = 0.5. */
    double subsample;    /**< As in #xsm_skipgram_options. */
    uint64_t seed;       /**< Seed of the random numbers. */
    uint64_t memory;     /**< Most bytes for counts of pairs, at least 64 V; 0 = 2^30, or 2^30 - 1 on 32-bit
                              machines. */
    uint32_t window;     /**< As in #xsm_skipgram_options. */
    int32_t reserved;    /**< Zero. */
    /** Callback, or NULL. Called before the first step and after each step: `step` is the number of steps of both
     *  kinds, `epoch` that of iterations, `loss` and `objective` are the objective, `eta` is the size of the last
     *  step. */
    xsm_progress_function progress;
    void *progress_user; /**< First argument of progress(). */
    /** NULL = all words are negatives. Otherwise an estimator that searches, `mips` or `decomp-mips` (Yen et al. 2018,
     *  Algorithms 1 and 2), with `loss=cross-entropy` and without an L2 penalty (ridge): the negatives of a centre are
     *  the words that its indexes find, and contexts. The function binds the estimator; it is not bound afterwards. */
    xsm_estimator *estimator;
} xsm_skipgram_fit_options;

/** Starting value of an #xsm_skipgram_fit_options. */
#define XSM_SKIPGRAM_FIT_OPTIONS_INIT                                                                                  \
    {                                                                                                                  \
        sizeof(xsm_skipgram_fit_options), 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL                                        \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Makes a model of a corpus's words: V classes with the words' names and counts, D features, no bias.
 *  @param context   context, or NULL
 *  @param corpus    the corpus
 *  @param dimension D, 1 to #XSM_FEATURES_MAX
 *  @param spread    weights are drawn uniformly from (-spread, spread); finite and at least 0. If output vectors start
 *                   at 0, 1/(2 sqrt(D)) is a good value for input vectors: their norm is then about the same for any D,
 *                   and the output vectors learn from the first step. With 1/(2 D) (word2vec) or 1/D (fastText), part
 *                   of the first epoch is lost
 *  @param seed      seed of the random stream
 *  @param[out] out  the model, the caller's to release with xsm_model_free()
 *  @param err       what went wrong, or NULL
 *  @return #XSM_OK; the errors of xsm_model_new_linear(); #XSM_ERROR_RANGE. O(V D). */
XSM_API xsm_status xsm_word_model_new(xsm_context *context, const xsm_corpus *corpus, uint32_t dimension, double spread,
                                      uint64_t seed, xsm_model **out, xsm_error *err);

/** Makes a trainer.
 *
 *  Without an estimator each pair of centre and context is trained by negative sampling as word2vec does: loss =
 *  softplus(-z_context) + sum_j softplus(z_j) over `negatives` words j other than the context. With an estimator, each
 *  pair is an example with one label. Any estimator that samples classes may be used, also one that stores something
 *  for each row (a row is a centre word). It is bound to the output model and to V rows, where row c is the current
 *  input vector of word c, with class counts from the corpus. A sampler that is already bound (for example a `tree`, to
 *  rows of vectors from an earlier training) is used unchanged. Proximal estimators take their steps one by one, on one
 *  thread.
 *
 *  Word vectors work in one process only: the functions of this header refuse contexts with a communicator of several
 *  processes (ext/comm.h), and models of such contexts.
 *  @param context   context whose threads are used, or NULL
 *  @param corpus    the text
 *  @param input     model of V classes and D features, without a bias; input and output vectors must not all be zero
 *  @param output    another such model
 *  @param estimator an estimator, or NULL for negative sampling as in word2vec
 *  @param options   settings, or NULL
 *  @param[out] out  the trainer, the caller's to release with xsm_skipgram_free(); it keeps the corpus, the models
 *                   and the estimator
 *  @param err       what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_SHAPE for models that do not match the corpus or each other; #XSM_ERROR_DATA for a
 *          vocabulary of one word or models of zeros; #XSM_ERROR_UNSUPPORTED for an estimator that scores every class
 *          or searches, or has an L2 penalty or a maximum row norm, for models with a bias or a correction, and of
 *          several processes; #XSM_ERROR_RANGE for an option; the errors of xsm_estimator_bind() */
XSM_API xsm_status xsm_skipgram_new(xsm_context *context, const xsm_corpus *corpus, xsm_model *input, xsm_model *output,
                                    xsm_estimator *estimator, const xsm_skipgram_options *options, xsm_skipgram **out,
                                    xsm_error *err);
/** Releases a trainer, which gives up what it was made from; NULL is allowed. */
XSM_API void xsm_skipgram_free(xsm_skipgram *trainer);
/** Trains to the end of the last epoch; after a cancelled run, continues it. O((negatives + 1) D) for each pair.
 *  @return #XSM_OK; #XSM_ERROR_DIVERGED if scores are not finite (the models are those before this batch);
 *          #XSM_CANCELLED if the callback returned non-zero; #XSM_ERROR_IO and #XSM_ERROR_FORMAT for a text that can
 *          no longer be read; #XSM_ERROR_STATE if the text has changed, or the estimator has been bound to something
 *          else */
XSM_API xsm_status xsm_skipgram_run(xsm_skipgram *trainer, xsm_error *err);
/** Fills `progress` (start it with #XSM_PROGRESS_INIT) with the progress of the run. O(1).
 *  @return #XSM_OK, or what any function may return (@ref error) */
XSM_API xsm_status xsm_skipgram_get_progress(const xsm_skipgram *trainer, xsm_progress *progress, xsm_error *err);

/** Minimises the collapsed objective of a skip-gram model with full gradients (Yen et al., Loss decomposition for fast
 *  learning in large output spaces, 2018, eq. 9): the mean over all pairs of centre x and context y in the text of
 *  logsum_k exp(z_k) - z_y, z_k = w_k . phi_x, with equal pairs counted together. The pairs are drawn from the text
 *  once, as for an epoch of xsm_skipgram_run(). Each iteration takes a step of all input vectors, then a step of all
 *  output vectors; the step of a vector is `eta` times the mean gradient of its pairs. A step that does not lower the
 *  objective is undone, and a step of half the size is tried. After a step that lowers it, the next step is a tenth
 *  larger. Zero vectors have zero gradients: start from vectors that xsm_skipgram_run() has trained for about an epoch.
 *
 *  With an estimator that searches, the sum over k is over the words that its indexes find for the centre, and all
 *  contexts, which both algorithms compute exactly. Steps are then accepted by this estimate of the objective, and the
 *  callback and `objective` get the estimate. After each step of the output vectors, all of them are updated in the
 *  indexes.
 *
 *  Needs memory for the vectors three times, and for the counts of all pairs.
 *  @param context context whose threads are used, or NULL
 *  @param corpus  the text
 *  @param input   as for xsm_skipgram_new()
 *  @param output  as for xsm_skipgram_new()
 *  @param options settings, or NULL
 *  @param[out] objective the objective at the end, or NULL
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK, also if no step lowers the objective any further; #XSM_ERROR_DIVERGED if the objective is not
 *          finite at the given vectors; #XSM_CANCELLED (the vectors are the best so far); #XSM_ERROR_DATA for a text
 *          without pairs; #XSM_ERROR_UNSUPPORTED for an estimator that does not search, has another loss than
 *          cross-entropy, or has an L2 penalty; the errors of xsm_skipgram_new() for models, corpus and options, and of
 *          xsm_estimator_bind_stream(); #XSM_ERROR_IO, #XSM_ERROR_LIMIT, #XSM_ERROR_MEMORY, #XSM_ERROR_RUNNER. A step
 *          is O(V^2 D), limited by arithmetic, not by memory; with a search O(V D) times the number of words that are
 *          scored for a centre. The text is read once if the counts of pairs fit into `memory`; otherwise each step
 *          reads it once for each part of the counts that fits. */
XSM_API xsm_status xsm_skipgram_fit(xsm_context *context, const xsm_corpus *corpus, xsm_model *input, xsm_model *output,
                                    const xsm_skipgram_fit_options *options, double *objective, xsm_error *err);

/** Writes word vectors as text in the format of word2vec and fastText (`.vec`): a line "V D", then a line for each word
 *  with its name and D numbers, which read back as the same float32. An existing file is replaced atomically.
 *  @return #XSM_OK; #XSM_ERROR_IO; #XSM_ERROR_DATA for a model whose classes have no names, or a name with white space;
 *          #XSM_ERROR_DIVERGED for a weight that is not finite. O(V D). */
XSM_API xsm_status xsm_word_model_write(const xsm_model *model, const char *path, xsm_error *err);
/** Reads a text file of word vectors, plain or gzip, into a model. The words are the names of its classes.
 *  @param context context, or NULL
 *  @param path    the file: "V D", then V lines
 *  @param[out] out the model, the caller's
 *  @param err     what went wrong, with line and column
 *  @return #XSM_OK; #XSM_ERROR_IO; #XSM_ERROR_FORMAT with line and column; #XSM_ERROR_LIMIT; #XSM_ERROR_UNSUPPORTED for
 *          gzip in a build without zlib. O(V D). */
XSM_API xsm_status xsm_word_model_read(xsm_context *context, const char *path, xsm_model **out, xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
