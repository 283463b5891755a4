/*
 * Yen et al., Loss decomposition for fast learning in large output spaces, 2018, Figure 3 in shape: the collapsed
 * skip-gram objective by epoch and by time, for negative sampling, and for full-gradient steps after one epoch of it:
 * over all words, over those that a search finds (Algorithm 1) and over those that blocks of coordinates find (2). The
 * paper's text, BillionW (K = 458,000), is not available: Penn Treebank is used instead.
 */
#include "papers.h"

#include <xsoftmax-words.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EPOCHS = 10, WINDOW = 8, DIMENSION = 100, SIZES = 3, PATH_LENGTH = 4096 };

static const uint32_t sizes[SIZES] = {5, 15, 25}; /* words drawn per context */

typedef struct experiment {
    const papers *p;
    xsm_corpus *corpus;
    xsm_model *input, *output; /* the vectors after one epoch of negative sampling */
    curves *by_epoch, *by_second;
    report *table;
    double first_seconds; /* processor seconds of that epoch */
} experiment;

static void make_models(const experiment *e, xsm_model **input, xsm_model **output)
{
    xsm_error err = XSM_ERROR_INIT;
    papers_check(xsm_word_model_new(e->p->context, e->corpus, DIMENSION, 0.5 / DIMENSION, 1, input, &err), &err);
    papers_check(xsm_word_model_new(e->p->context, e->corpus, DIMENSION, 0, 1, output, &err), &err);
}

static int32_t stop_at_once(void *user, const xsm_progress *p)
{
    *(double *)user = p->objective;
    return 1;
}

static xsm_skipgram_fit_options fit_options(void)
{
    xsm_skipgram_fit_options o = XSM_SKIPGRAM_FIT_OPTIONS_INIT;
    o.window = WINDOW;
    o.iterations = EPOCHS - 1;
    o.seed = 7; /* the same pairs for all */
    return o;
}

static double objective_of(const experiment *e, xsm_model *input, xsm_model *output)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_skipgram_fit_options o = fit_options();
    double objective = 0;
    o.progress = stop_at_once;
    o.progress_user = &objective;
    xsm_status status = xsm_skipgram_fit(e->p->context, e->corpus, input, output, &o, NULL, &err);
    papers_check(status == XSM_CANCELLED ? XSM_OK : status, &err);
    return objective;
}

static void add_point(const experiment *e, const char *method, double epoch, double seconds, double objective)
{
    char row[40];
    snprintf(row, sizeof row, "epoch %g", epoch);
    curves_point(e->by_epoch, method, epoch, objective);
    curves_point(e->by_second, method, seconds, objective);
    report_cell(e->table, row, method, PAPERS_NONE, objective);
}

/* Called at the end of each epoch, while the trainer is stopped. */
static int32_t end_epoch(void *user, const xsm_progress *p)
{
    (void)user;
    return p->epoch_ended;
}

/* Trains to the end of the next epoch, and adds the processor seconds that it takes; 0 when all are done. */
static uint64_t next_epoch(xsm_skipgram *trainer, double *seconds)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_progress p = XSM_PROGRESS_INIT;
    const double start = papers_work();
    const xsm_status status = xsm_skipgram_run(trainer, &err);
    *seconds += papers_work() - start;
    papers_check(status == XSM_CANCELLED ? XSM_OK : status, &err);
    papers_check(xsm_skipgram_get_progress(trainer, &p, &err), &err);
    return status == XSM_CANCELLED ? p.epoch : 0;
}

static void run_sampling(experiment *e, uint32_t negatives, uint64_t epochs)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *input = NULL, *output = NULL;
    xsm_skipgram *trainer = NULL;
    xsm_skipgram_options o = XSM_SKIPGRAM_OPTIONS_INIT;
    char name[40];
    snprintf(name, sizeof name, "word2vec, %u", negatives);
    make_models(e, &input, &output);
    o.window = WINDOW;
    o.negatives = negatives;
    o.epochs = epochs;
    o.seed = 1;
    o.progress = end_epoch;
    papers_check(xsm_skipgram_new(e->p->context, e->corpus, input, output, NULL, &o, &trainer, &err), &err);
    double seconds = 0;
    for (uint64_t epoch; (epoch = next_epoch(trainer, &seconds)) > 0;) {
        e->first_seconds = seconds;
        if (epochs > 1) { /* a run of one epoch is the start of another curve, which contains this point */
            add_point(e, name, (double)epoch, seconds, objective_of(e, input, output));
        }
    }
    xsm_skipgram_free(trainer);
    if (epochs == 1) { /* where the full gradients start */
        e->input = input;
        e->output = output;
    } else {
        xsm_model_free(input);
        xsm_model_free(output);
    }
}

/* The mean loss of the pairs of a pass that changes next to nothing: for a hierarchy, which xsm_skipgram_fit() does not
 * take, an estimate of its collapsed objective from some million pairs. */
static double loss_of_pass(const experiment *e, xsm_model *input, xsm_model *output, xsm_estimator *estimator)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_skipgram *trainer = NULL;
    xsm_skipgram_options o = XSM_SKIPGRAM_OPTIONS_INIT;
    xsm_progress p = XSM_PROGRESS_INIT;
    o.window = WINDOW;
    o.epochs = 1;
    o.eta = 1e-30;
    o.seed = 7;
    o.progress = end_epoch;
    papers_check(xsm_skipgram_new(e->p->context, e->corpus, input, output, estimator, &o, &trainer, &err), &err);
    xsm_status status = xsm_skipgram_run(trainer, &err);
    papers_check(status == XSM_CANCELLED ? XSM_OK : status, &err);
    papers_check(xsm_skipgram_get_progress(trainer, &p, &err), &err);
    xsm_skipgram_free(trainer);
    return p.loss;
}

/* word2vec's hierarchical softmax: binary decisions on the path of a Huffman tree over the words. */
static void run_hierarchical(const experiment *e, uint64_t epochs)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *input = NULL, *output = NULL;
    xsm_estimator *estimator = NULL, *judge = NULL;
    xsm_skipgram *trainer = NULL;
    xsm_skipgram_options o = XSM_SKIPGRAM_OPTIONS_INIT;
    make_models(e, &input, &output);
    papers_check(xsm_estimator_new(e->p->context, "hierarchical", &estimator, &err), &err);
    papers_check(xsm_estimator_set(estimator, "tree", "huffman", &err), &err);
    papers_check(xsm_estimator_new(e->p->context, "hierarchical", &judge, &err), &err);
    papers_check(xsm_estimator_set(judge, "tree", "huffman", &err), &err);
    o.window = WINDOW;
    o.epochs = epochs;
    o.seed = 1;
    o.eta = 0.025; /* word2vec's for this */
    o.batch = 1;   /* every pair changes the root: the sum over a batch of pairs is too long a step */
    o.progress = end_epoch;
    papers_check(xsm_skipgram_new(e->p->context, e->corpus, input, output, estimator, &o, &trainer, &err), &err);
    double seconds = 0;
    for (uint64_t epoch; (epoch = next_epoch(trainer, &seconds)) > 0;) {
        add_point(e, "word2vec, hierarchical", (double)epoch, seconds, loss_of_pass(e, input, output, judge));
    }
    xsm_skipgram_free(trainer);
    xsm_estimator_free(estimator);
    xsm_estimator_free(judge);
    xsm_model_free(input);
    xsm_model_free(output);
}

/* The state of full gradients. The objective of all words is computed between iterations; its time is not counted. */
typedef struct descent {
    experiment *e;
    xsm_model *input, *output;
    const char *name;
    bool searched;
    double start; /* processor clock at the start, moved forward by the time that does not count */
} descent;

static int32_t end_step(void *user, const xsm_progress *p)
{
    descent *d = user;
    if (p->step % 2 == 0) {
        double objective = p->objective;
        if (d->searched) {
            const double start = papers_work();
            objective = objective_of(d->e, d->input, d->output);
            d->start += papers_work() - start;
        }
        add_point(d->e, d->name, 1 + (double)p->step / 2, d->e->first_seconds + papers_work() - d->start, objective);
    }
    return 0;
}

static void copy_vectors(xsm_model *from, xsm_model *to)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_parameters a = XSM_PARAMETERS_INIT, b = XSM_PARAMETERS_INIT;
    papers_check(xsm_model_get_parameters(from, &a, &err), &err);
    papers_check(xsm_model_get_parameters(to, &b, &err), &err);
    for (uint32_t k = 0; k < a.classes; k++) {
        memcpy(b.weight + k * b.class_step, a.weight + k * a.class_step, a.features * sizeof *a.weight);
    }
}

static void run_descent(experiment *e, const char *name, const char *estimator, uint64_t iterations)
{
    xsm_error err = XSM_ERROR_INIT;
    descent d = {.e = e, .name = name, .searched = estimator != NULL};
    xsm_skipgram_fit_options o = fit_options();
    make_models(e, &d.input, &d.output);
    copy_vectors(e->input, d.input);
    copy_vectors(e->output, d.output);
    if (estimator) {
        const int64_t candidates = (int64_t)xsm_model_class_count(e->input) / 20; /* the paper's value */
        papers_check(xsm_estimator_new(e->p->context, estimator, &o.estimator, &err), &err);
        papers_check(xsm_estimator_set(o.estimator, "loss", "cross-entropy", &err), &err);
        papers_check(xsm_estimator_set_number(o.estimator, "candidates", candidates, &err), &err);
    }
    o.iterations = iterations;
    o.progress = end_step;
    o.progress_user = &d;
    d.start = papers_work();
    papers_check(xsm_skipgram_fit(e->p->context, e->corpus, d.input, d.output, &o, NULL, &err), &err);
    papers_say("  %s", name);
    xsm_estimator_free(o.estimator);
    xsm_model_free(d.input);
    xsm_model_free(d.output);
}

static bool text_of(const papers *p, char path[PATH_LENGTH])
{
    const char *root = getenv("XSM_DATA");
    int length = snprintf(path, PATH_LENGTH, "%s/text/ptb.%s.txt.gz", root ? root : BENCH_SOURCE_ROOT "/../shared/data",
                          p->quick ? "test" : "train");
    return length > 0 && length < PATH_LENGTH && access(path, R_OK) == 0;
}

void figure_ldgs_words(const papers *p)
{
    char path[PATH_LENGTH];
    report *r =
        report_new(p, "ldgs_words", "Yen et al. 2018, Figure 3 in shape: the collapsed skip-gram objective (eq. 9)");
    report_note(
        r, "Penn Treebank in place of BillionW; D 100, window 8, t 1e-4; GD starts from one epoch of word2vec with "
           "5 drawn; searches are for V/20 words. The paper has curves without numbers.");
    if (!text_of(p, path)) {
        papers_say("skipped: no Penn Treebank at %s (set XSM_DATA)", path);
        report_end(r);
        return;
    }
    xsm_error err = XSM_ERROR_INIT;
    xsm_corpus_options options = XSM_CORPUS_OPTIONS_INIT;
    options.max_words = p->quick ? 300 : 0;
    experiment e = {.p = p, .table = r};
    papers_check(xsm_corpus_open(p->context, path, &options, &e.corpus, &err), &err);
    e.by_epoch = curves_new(p, "ldgs_words-epochs", "epoch");
    e.by_second = curves_new(p, "ldgs_words-seconds", "seconds");
    const uint64_t epochs = p->quick ? 2 : EPOCHS;
    for (int i = 0; i < SIZES; i++) {
        run_sampling(&e, sizes[i], epochs);
        papers_say("  word2vec, %u drawn", sizes[i]);
    }
    run_hierarchical(&e, epochs);
    papers_say("  word2vec, hierarchical");
    run_sampling(&e, 5, 1);
    run_descent(&e, "GD, exact", NULL, epochs - 1);
    run_descent(&e, "GD, mips", "mips", epochs - 1);
    run_descent(&e, "GD, decomp-mips", "decomp-mips", epochs - 1);
    curves_end(e.by_epoch);
    curves_end(e.by_second);
    report_end(r);
    xsm_model_free(e.input);
    xsm_model_free(e.output);
    xsm_corpus_free(e.corpus);
}
