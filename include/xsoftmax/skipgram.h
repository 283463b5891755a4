/**
 * @file skipgram.h
 * @brief Word vectors: skip-gram models of running text.
 */
#ifndef XSOFTMAX_SKIPGRAM_H
#define XSOFTMAX_SKIPGRAM_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/corpus.h>
#include <xsoftmax/estimator.h>
#include <xsoftmax/model.h>
#include <xsoftmax/trainer.h>

/** @defgroup skipgram Word vectors
 *
 * A skip-gram model (Mikolov et al., Distributed representations of words and phrases and their compositionality,
 * 2013) predicts the words around a word: a softmax over the vocabulary with the scores z_k = w_k . phi_c, phi_c the
 * **input** vector of the centre word c and w_k the **output** vector of the word k. Both are linear models of V
 * classes and D features, class k being word k of a corpus: xsm_word_model_new() makes them, xsm_skipgram_new() trains
 * them, and whatever else takes a model saves, loads, searches and scores them.
 *
 * Each word of the text is a centre; its contexts are the words up to b places before and behind it in its line, b
 * drawn uniformly from 1 to `window`. Frequent words are dropped from the text before that, each occurrence with
 * probability 1 - min(1, sqrt(t/f) + t/f), f the word's share of the text and t the option `subsample` (word2vec's
 * rule). Lines are cut every 1024 words. What is drawn differs in each epoch.
 *
 * **Determinism.** The same text, options and seed give the same bits on any number of threads and any instruction set.
 * Steps are taken in batches of centre words (option `batch`): all of a batch are scored with the vectors from before
 * it, in parallel; then the changes are added, each vector's in the order of the text. word2vec and fastText let their
 * threads write over each other instead, and never give the same result twice.
 *
 * **Threads.** One trainer for a pair of models, one thread at a time on it; it uses its context's threads itself.
 *  @{ */

/** A skip-gram trainer; opaque. */
typedef struct xsm_skipgram xsm_skipgram;

/** Settings of a skip-gram trainer. Start with #XSM_SKIPGRAM_OPTIONS_INIT. */
typedef struct xsm_skipgram_options {
    size_t size;        /**< sizeof(xsm_skipgram_options). */
    uint64_t epochs;    /**< Passes over the text; 0 = 5. */
    uint32_t window;    /**< Words on each side of a centre at most, up to 256; 0 = 5. */
    uint32_t negatives; /**< Without an estimator: words drawn for each context, up to 256; 0 = 5. */
    double power;       /**< Without an estimator: drawn in proportion to count^power, in (0, 10]; 0 = 0.75. */
    double subsample;   /**< t above; 1 and more = no word is dropped; 0 = 1e-4. */
    double eta;         /**< Learning rate at the start, above 0, falling linearly to 0 at the end; 0 = 0.05. */
    uint64_t seed;      /**< Of all that is drawn. */
    uint32_t batch;     /**< Centre words whose steps are taken together, up to 65536; 0 = V/64 within 16 to 256, or
                             fewer where the most frequent word would change too often at this rate. */
    int32_t reserved;   /**< Zero. */
    /** Or NULL. Its `step` counts words of the text that are in the vocabulary, `steps` those of all epochs; `examples`
     *  counts pairs of a centre and a context; `loss` is the mean of a pair's loss since the epoch began. */
    xsm_progress_function progress;
    void *progress_user; /**< Handed to progress(). */
} xsm_skipgram_options;

/** Starting value of an #xsm_skipgram_options. */
#define XSM_SKIPGRAM_OPTIONS_INIT                                                                                      \
    {                                                                                                                  \
        sizeof(xsm_skipgram_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL                                            \
    }

/** Settings of xsm_skipgram_fit(). Start with #XSM_SKIPGRAM_FIT_OPTIONS_INIT. */
typedef struct xsm_skipgram_fit_options {
    size_t size;         /**< sizeof(xsm_skipgram_fit_options). */
    uint64_t iterations; /**< Steps of the input vectors, and as many of the output vectors; 0 = 10. */
    double eta;          /**< Size of the first steps, above 0; 0 = 0.5. */
    double subsample;    /**< As in #xsm_skipgram_options. */
    uint64_t seed;       /**< Of what is drawn from the text. */
    uint64_t memory;     /**< Most bytes for counts of pairs, at least 64 V; 0 = 2^30, a byte less with 32 bits. */
    uint32_t window;     /**< As in #xsm_skipgram_options. */
    int32_t reserved;    /**< Zero. */
    /** Or NULL. Called before the first step and after each: `step` counts the steps of either kind, `epoch` the
     *  iterations, `loss` and `objective` are the objective, `eta` the size of the last step. */
    xsm_progress_function progress;
    void *progress_user; /**< Handed to progress(). */
    /** NULL = all words. Or an estimator that searches, `mips` or `decomp-mips` (Yen et al. 2018, Algorithms 1 and 2),
     *  with `loss=cross-entropy` and without a ridge: the words that a centre is pushed away from are those that its
     *  indexes find, and contexts. It is bound meanwhile, and not bound afterwards. */
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
 *  @param spread    weights are drawn uniformly from (-spread, spread), finite and at least 0; with output
 *                   vectors starting at 0, 1/(2 sqrt(D)) is a good start of input vectors: their length then
 *                   is the same for any D, and the output vectors learn from the first step. word2vec's 1/(2 D) and
 *                   fastText's 1/D lose part of the first epoch
 *  @param seed      names the random stream
 *  @param[out] out  the model, the caller's to release with xsm_model_free()
 *  @param err       what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_RANGE; what xsm_model_new_linear() returns. O(V D). */
XSM_API xsm_status xsm_word_model_new(xsm_context *context, const xsm_corpus *corpus, uint32_t dimension, double spread,
                                      uint64_t seed, xsm_model **out, xsm_error *err);

/** Makes a trainer.
 *
 *  Without an estimator each pair of centre and context is trained by negative sampling as word2vec does: loss =
 *  softplus(-z_context) + sum_j softplus(z_j) over `negatives` words j other than the context. With an estimator each
 *  pair is an example with one label: any that samples classes will do, also those that keep something for each row (a
 *  row is a centre word). It is bound to the output model and to V rows, row c the input vector of word c as it is at
 *  that moment, and class counts from the corpus; a sampler that the caller has bound already (a `tree`, say, to
 *  rows made of vectors trained before) is used as it is. Proximal estimators take their steps one by one,
 *  on one thread.
 *  @param context   context whose threads are used, or NULL
 *  @param corpus    the text
 *  @param input     model of V classes and D features, without a bias; its vectors must not be all zero together with
 *                   the output's
 *  @param output    another such model
 *  @param estimator an estimator, or NULL for negative sampling as in word2vec
 *  @param options   settings, or NULL
 *  @param[out] out  the trainer, the caller's to release with xsm_skipgram_free(); the corpus, the models and the
 *                   estimator must stay while it is used
 *  @param err       what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_RANGE for an option; #XSM_ERROR_SHAPE for models that do not go
 * with the corpus or each other; #XSM_ERROR_DATA for a vocabulary of one word or models of zeros;
 *          #XSM_ERROR_UNSUPPORTED for an estimator that looks at every class or searches, or has a ridge or a bound on
 *          rows, and for models with a bias or a correction; what xsm_estimator_bind() returns; #XSM_ERROR_MEMORY;
 *          #XSM_ERROR_STRUCT_OLD, #XSM_ERROR_STRUCT_NEW */
XSM_API xsm_status xsm_skipgram_new(xsm_context *context, const xsm_corpus *corpus, xsm_model *input, xsm_model *output,
                                    xsm_estimator *estimator, const xsm_skipgram_options *options, xsm_skipgram **out,
                                    xsm_error *err);
/** Releases a trainer, not what it was made from; NULL is fine. */
XSM_API void xsm_skipgram_free(xsm_skipgram *trainer);
/** Trains to the end, or goes on after a cancelled run. O((negatives + 1) D) for each pair.
 *  @return #XSM_OK; #XSM_CANCELLED when the callback asked for it; #XSM_ERROR_DIVERGED when scores leave the finite
 *          numbers: the models are as before that batch; #XSM_ERROR_IO and #XSM_ERROR_FORMAT for a text that cannot be
 *          read any more; #XSM_ERROR_STATE when the text has changed, or the estimator has been bound to something
 * else; #XSM_ERROR_MEMORY; #XSM_ERROR_RUNNER */
XSM_API xsm_status xsm_skipgram_run(xsm_skipgram *trainer, xsm_error *err);
/** Fills `progress` (start it with #XSM_PROGRESS_INIT) with where the trainer is. O(1).
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_STRUCT_OLD, #XSM_ERROR_STRUCT_NEW */
XSM_API xsm_status xsm_skipgram_get_progress(const xsm_skipgram *trainer, xsm_progress *progress, xsm_error *err);

/** Lowers the collapsed objective of a skip-gram model by full gradients (Yen et al., Loss decomposition for fast
 * learning in large output spaces, 2018, eq. 9): the mean over all pairs of centre x and context y in the text, taken
 * together by x and y, of logsum_k exp(z_k) - z_y, z_k = w_k . phi_x. The pairs are drawn from the text once, as
 * xsm_skipgram_run() draws an epoch's. Each iteration takes a step of all input vectors, then one of all output
 * vectors; a vector's step is `eta` times the mean gradient of the pairs that it is in. A step that does not lower the
 * objective is taken back, and half as large a one tried; after one that does, the next is a tenth larger. Zero vectors
 * have zero gradients: start from vectors that an epoch or so of xsm_skipgram_run() has trained.
 *  With an estimator that searches, the sum over k has the words that its indexes find for the centre, and all
 * contexts, which are exact in either algorithm; the objective that steps are judged by, and that is told of, is then
 * its estimate. All output vectors are read into the indexes again after each of their steps.
 *  @param context context whose threads are used, or NULL
 *  @param corpus  the text
 *  @param input   as for xsm_skipgram_new()
 *  @param output  as for xsm_skipgram_new()
 *  @param options settings, or NULL
 *  @param[out] objective the objective at the end, or NULL
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK, also when no step lowers the objective any more; #XSM_CANCELLED (the vectors are the best so far);
 *          #XSM_ERROR_DIVERGED when the objective is not finite at the vectors given; #XSM_ERROR_DATA for a text
 * without pairs; #XSM_ERROR_UNSUPPORTED for an estimator that does not search, has another loss than
 *          cross-entropy or a ridge; what xsm_skipgram_new() returns for models, corpus and options, and
 *          xsm_estimator_bind_stream(); #XSM_ERROR_LIMIT, #XSM_ERROR_MEMORY,
 *          #XSM_ERROR_IO, #XSM_ERROR_RUNNER. O(V^2 D) a step, at the speed of arithmetic; with a search O(V D) times
 * what it looks at for a centre; the text is read once, or in each step as often as the counts of pairs are larger than
 * `memory`. */
XSM_API xsm_status xsm_skipgram_fit(xsm_context *context, const xsm_corpus *corpus, xsm_model *input, xsm_model *output,
                                    const xsm_skipgram_fit_options *options, double *objective, xsm_error *err);

/** Writes word vectors as text, as word2vec and fastText do (`.vec`): a line "V D", then a line for each word, its name
 *  and D numbers, all that float32 needs to be read back as it was. Replaces what is at `path` in one piece.
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_DATA for a model whose classes have no names, or a name with white
 *          space; #XSM_ERROR_DIVERGED for a weight that is not finite; #XSM_ERROR_IO; #XSM_ERROR_MEMORY. O(V D). */
XSM_API xsm_status xsm_word_model_write(const xsm_model *model, const char *path, xsm_error *err);
/** Reads a text file of word vectors, plain or gzip, into a model with the words as names of its classes.
 *  @param context context, or NULL
 *  @param path    the file: "V D", then V lines
 *  @param[out] out the model, the caller's
 *  @param err     what went wrong, with line and column
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_IO; #XSM_ERROR_FORMAT, naming line and column; #XSM_ERROR_LIMIT;
 *          #XSM_ERROR_MEMORY; #XSM_ERROR_UNSUPPORTED for gzip in a build without zlib. O(V D). */
XSM_API xsm_status xsm_word_model_read(xsm_context *context, const char *path, xsm_model **out, xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
