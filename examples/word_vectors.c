/*
 * Word vectors from a text:
 *
 *     word_vectors train TEXT VECTORS [--KEY VALUE ...]   VECTORS ending in .vec is text, else safetensors
 *     word_vectors neighbours VECTORS WORD ...
 *     word_vectors analogies VECTORS QUESTIONS
 *     word_vectors similarity VECTORS PAIRS ...
 *
 * By default training is word2vec's negative sampling; with --estimator NAME it is any estimator that draws classes.
 */
#define XSM_EXPERIMENTAL
#include "cli/same_file.h"
#include "word_queries.h"

#include <xsoftmax/ext/estimator.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: word_vectors train TEXT VECTORS [--KEY VALUE ...]\n"
    "       word_vectors neighbours VECTORS WORD ...\n"
    "       word_vectors analogies VECTORS QUESTIONS\n"
    "       word_vectors similarity VECTORS PAIRS ...\n"
    "\n"
    "Keys of train, with their defaults:\n"
    "  --dimension 100      --window 5        --negatives 5     --epochs 5       --eta 0.05\n"
    "  --min-count 5        --subsample 1e-4  --power 0.75      --seed 1         --batch 0 (by the vocabulary)\n"
    "  --spread 0.5/sqrt(dimension) (input vectors start uniformly within it on both sides)\n"
    "  --threads 0 (all)    --output FILE (output vectors, too)  --history FILE (loss by epoch, CSV)\n"
    "  --also FILE (the vectors in a second format)     --fit 0 (iterations of full gradients afterwards)\n"
    "  --estimator NAME     --set OPTION=VALUE (of the estimator; may be repeated)\n"
    "  --fit-estimator NAME (mips or decomp-mips: finds the words of --fit)   --fit-set OPTION=VALUE\n"
    "Files ending in .vec are text, all others safetensors.\n";

/* -- training ------------------------------------------------------------------------------------------------------ */

enum { SETTINGS_MOST = 32 };

typedef struct settings {
    const char *text, *vectors, *also, *output, *history, *estimator, *fit_estimator;
    const char *set[SETTINGS_MOST], *fit_set[SETTINGS_MOST];
    int set_count, fit_set_count;
    long dimension, threads, fit;
    double spread; /* 0 = chosen by the dimension */
    xsm_corpus_options corpus;
    xsm_skipgram_options skipgram;
} settings;

static bool read_number(const char *key, const char *value, double least, double most, double *number)
{
    char *end;
    *number = strtod(value, &end);
    if (end == value || *end != '\0' || !(*number >= least && *number <= most)) {
        fprintf(stderr, "word_vectors: --%s is '%s'; accepted are %g to %g\n", key, value, least, most);
        return false;
    }
    return true;
}

static bool read_count(const char *key, const char *value, double least, double most, double *number)
{
    if (!read_number(key, value, least, most, number)) {
        return false;
    }
    if (*number != (double)(uint64_t)*number) {
        fprintf(stderr, "word_vectors: --%s is '%s'; a whole number is accepted\n", key, value);
        return false;
    }
    return true;
}

static bool read_setting(settings *s, const char *key, const char *value)
{
    const struct {
        const char *key, **value;
    } texts[] = {{"also", &s->also},
                 {"output", &s->output},
                 {"history", &s->history},
                 {"estimator", &s->estimator},
                 {"fit-estimator", &s->fit_estimator}};
    double n;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (strcmp(key, texts[i].key) == 0) {
            *texts[i].value = value;
            return true;
        }
    }
    if (strcmp(key, "set") == 0 || strcmp(key, "fit-set") == 0) {
        const bool of_fit = strcmp(key, "set") != 0;
        int *count = of_fit ? &s->fit_set_count : &s->set_count;
        if (*count == SETTINGS_MOST || !strchr(value, '=')) {
            fprintf(stderr, "word_vectors: --%s takes OPTION=VALUE, up to %d times\n", key, SETTINGS_MOST);
            return false;
        }
        (of_fit ? s->fit_set : s->set)[(*count)++] = value;
        return true;
    }
    if (strcmp(key, "dimension") == 0 && read_count(key, value, 1, 1e6, &n)) {
        s->dimension = (long)n;
    } else if (strcmp(key, "threads") == 0 && read_count(key, value, 0, 4096, &n)) {
        s->threads = (long)n;
    } else if (strcmp(key, "fit") == 0 && read_count(key, value, 0, 1e9, &n)) {
        s->fit = (long)n;
    } else if (strcmp(key, "window") == 0 && read_count(key, value, 1, 256, &n)) {
        s->skipgram.window = (uint32_t)n;
    } else if (strcmp(key, "negatives") == 0 && read_count(key, value, 1, 256, &n)) {
        s->skipgram.negatives = (uint32_t)n;
    } else if (strcmp(key, "epochs") == 0 && read_count(key, value, 1, 1e9, &n)) {
        s->skipgram.epochs = (uint64_t)n;
    } else if (strcmp(key, "batch") == 0 && read_count(key, value, 0, 65536, &n)) {
        s->skipgram.batch = (uint32_t)n;
    } else if (strcmp(key, "seed") == 0 && read_count(key, value, 0, 9e15, &n)) {
        s->skipgram.seed = (uint64_t)n;
    } else if (strcmp(key, "min-count") == 0 && read_count(key, value, 1, 1e15, &n)) {
        s->corpus.min_count = (uint64_t)n;
    } else if (strcmp(key, "eta") == 0 && read_number(key, value, 1e-9, 1e9, &n)) {
        s->skipgram.eta = n;
    } else if (strcmp(key, "power") == 0 && read_number(key, value, 0, 10, &n)) {
        s->skipgram.power = n;
    } else if (strcmp(key, "subsample") == 0 && read_number(key, value, 1e-12, 1e9, &n)) {
        s->skipgram.subsample = n;
    } else if (strcmp(key, "spread") == 0 && read_number(key, value, 1e-9, 1e3, &n)) {
        s->spread = n;
    } else {
        static const char *const keys[] = {"dimension", "fit",       "threads", "window",    "negatives",
                                           "epochs",    "batch",     "seed",    "min-count", "eta",
                                           "power",     "subsample", "spread"};
        bool known = false;
        for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
            known |= strcmp(key, keys[i]) == 0;
        }
        if (!known) {
            fprintf(stderr, "word_vectors: no key --%s\n%s", key, usage);
        }
        return false;
    }
    return true;
}

static int32_t show_progress(void *user, const xsm_progress *p)
{
    FILE *history = user;
    if (p->examples == 0) {
        return 0;
    }
    if (isatty(STDERR_FILENO)) {
        fprintf(stderr, "\r%5.1f %%  epoch %llu of %llu  %.0f words/s  loss %.4f %s",
                p->steps ? 100 * (double)p->step / (double)p->steps : 0, (unsigned long long)p->epoch + !p->epoch_ended,
                (unsigned long long)p->epochs, p->seconds > 0 ? (double)p->step / p->seconds : 0, p->loss,
                p->epoch_ended ? "\n" : "");
    }
    if (p->epoch_ended && history) {
        fprintf(history, "%llu,%.3f,%.6f\n", (unsigned long long)p->epoch, p->seconds, p->loss);
    }
    return 0;
}

static int32_t show_fit(void *user, const xsm_progress *p)
{
    (void)user;
    if (!isatty(STDERR_FILENO) && p->step < p->steps) {
        return 0;
    }
    fprintf(stderr, "step %llu of %llu  %.1f s  objective %.5f\n", (unsigned long long)p->step,
            (unsigned long long)p->steps, p->seconds, p->objective);
    return 0;
}

static xsm_status make_estimator(xsm_context *ctx, const char *name, const char *const *set, int set_count,
                                 xsm_estimator **out, xsm_error *err)
{
    xsm_status status = xsm_estimator_new(ctx, name, out, err);
    for (int i = 0; status == XSM_OK && i < set_count; i++) {
        char key[128];
        const char *sign = strchr(set[i], '=');
        snprintf(key, sizeof key, "%.*s", (int)(sign - set[i]), set[i]);
        status = xsm_estimator_set(*out, key, sign + 1, err);
    }
    return status;
}

/* The estimator that finds the words of full gradients, or none. It is made early, so that errors in its settings are
 * reported before the training. */
static xsm_status make_search(const settings *s, xsm_context *ctx, xsm_estimator **out, xsm_error *err)
{
    const char *set[SETTINGS_MOST + 1] = {"loss=cross-entropy"};
    if (!s->fit_estimator) {
        return XSM_OK;
    }
    const xsm_estimator_ops *ops = xsm_estimator_find(s->fit_estimator);
    if (ops && ops->kind != XSM_ESTIMATOR_SEARCHED) {
        snprintf(err->message, sizeof err->message,
                 "--fit-estimator is '%s', which does not search; mips and "
                 "decomp-mips do",
                 s->fit_estimator);
        return XSM_ERROR_UNSUPPORTED;
    }
    for (int i = 0; i < s->fit_set_count; i++) {
        set[i + 1] = s->fit_set[i];
    }
    return make_estimator(ctx, s->fit_estimator, set, s->fit_set_count + 1, out, err);
}

/* Full gradients after sampling. */
static xsm_status fit(const settings *s, xsm_context *ctx, const xsm_corpus *corpus, xsm_model *input,
                      xsm_model *output, xsm_estimator *search, xsm_error *err)
{
    xsm_skipgram_fit_options o = XSM_SKIPGRAM_FIT_OPTIONS_INIT;
    o.iterations = (uint64_t)s->fit;
    o.window = s->skipgram.window;
    o.subsample = s->skipgram.subsample;
    o.seed = s->skipgram.seed;
    o.progress = show_fit;
    o.estimator = search;
    xsm_model_clear_correction(output); /* for the sampler, which full gradients do not use */
    return xsm_skipgram_fit(ctx, corpus, input, output, &o, NULL, err);
}

static bool is_text(const char *path)
{
    size_t length = strlen(path);
    return length > 4 && strcmp(path + length - 4, ".vec") == 0;
}

static xsm_status save(const xsm_model *model, const char *path, xsm_error *err)
{
    if (!path) {
        return XSM_OK;
    }
    return is_text(path) ? xsm_word_model_write(model, path, err) : xsm_model_save(model, path, NULL, err);
}

static int train(const settings *s)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    options.threads = (uint32_t)s->threads;
    xsm_context *ctx = NULL;
    xsm_corpus *corpus = NULL;
    xsm_model *input = NULL, *output = NULL;
    xsm_estimator *estimator = NULL, *search = NULL;
    xsm_skipgram *trainer = NULL;
    xsm_skipgram_options skipgram = s->skipgram;
    FILE *history = s->history ? fopen(s->history, "w") : NULL;
    const bool unwritable = s->history && !history;
    if (history) {
        fprintf(history, "epoch,seconds,loss\n");
    }
    skipgram.progress = show_progress;
    skipgram.progress_user = history;
    xsm_status status = unwritable ? XSM_ERROR_IO : xsm_context_new(&options, &ctx, &err);
    if (unwritable) {
        snprintf(err.message, sizeof err.message, "%s cannot be written", s->history);
    }
    if (status == XSM_OK) {
        status = xsm_corpus_open(ctx, s->text, &s->corpus, &corpus, &err);
    }
    xsm_corpus_info info = XSM_CORPUS_INFO_INIT;
    if (status == XSM_OK && xsm_corpus_get_info(corpus, &info, NULL) == XSM_OK) {
        fprintf(stderr, "%llu words on %llu lines, %u of them in the vocabulary (%llu occurrences)\n",
                (unsigned long long)info.tokens, (unsigned long long)info.lines, info.words,
                (unsigned long long)info.known);
    }
    if (status == XSM_OK && s->estimator) {
        status = make_estimator(ctx, s->estimator, s->set, s->set_count, &estimator, &err);
    }
    if (status == XSM_OK) {
        status = make_search(s, ctx, &search, &err);
    }
    if (status == XSM_OK) {
        const double spread = s->spread > 0 ? s->spread : 0.5 / sqrt((double)s->dimension);
        status = xsm_word_model_new(ctx, corpus, (uint32_t)s->dimension, spread, skipgram.seed, &input, &err);
    }
    if (status == XSM_OK) {
        status = xsm_word_model_new(ctx, corpus, (uint32_t)s->dimension, 0, 0, &output, &err);
    }
    if (status == XSM_OK) {
        status = xsm_skipgram_new(ctx, corpus, input, output, estimator, &skipgram, &trainer, &err);
    }
    xsm_model_info about = XSM_MODEL_INFO_INIT;
    status = status == XSM_OK ? xsm_model_get_info(output, &about, &err) : status;
    if (status == XSM_OK && s->fit && about.correction == XSM_CORRECTION_HIERARCHY) {
        snprintf(err.message, sizeof err.message, "--fit goes with vectors of words, and %s trains those of a tree",
                 s->estimator);
        status = XSM_ERROR_UNSUPPORTED;
    }
    if (status == XSM_OK) {
        status = xsm_skipgram_run(trainer, &err);
    }
    if (status == XSM_OK && s->fit) {
        status = fit(s, ctx, corpus, input, output, search, &err);
    }
    if (status == XSM_OK) {
        status = save(input, s->vectors, &err);
    }
    if (status == XSM_OK) {
        status = save(input, s->also, &err);
    }
    if (status == XSM_OK) {
        status = save(output, s->output, &err);
    }
    if (status != XSM_OK) {
        fprintf(stderr, "word_vectors: %s\n", err.message);
    }
    if (history && fclose(history) != 0) {
        fprintf(stderr, "word_vectors: %s cannot be written\n", s->history);
        status = XSM_ERROR_IO;
    }
    xsm_skipgram_free(trainer);
    xsm_estimator_free(estimator);
    xsm_estimator_free(search);
    xsm_model_free(input);
    xsm_model_free(output);
    xsm_corpus_free(corpus);
    xsm_context_free(ctx);
    return status == XSM_OK ? 0 : 1;
}

/* No file that is written replaces the text, or another one. */
static bool check_files(const settings *s)
{
    const char *const paths[] = {s->text, s->vectors, s->also, s->output, s->history};
    const char *const names[] = {"TEXT", "VECTORS", "--also", "--output", "--history"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        for (size_t j = 0; j < i; j++) {
            if (paths[i] && paths[j] && same_file(paths[i], paths[j])) {
                fprintf(stderr, "word_vectors: %s and %s are one file, %s, which would be lost\n", names[j], names[i],
                        paths[i]);
                return false;
            }
        }
    }
    return true;
}

static int run_train(int argc, char **argv)
{
    settings s = {.text = argv[2], .vectors = argv[3], .dimension = 100};
    s.corpus = (xsm_corpus_options)XSM_CORPUS_OPTIONS_INIT;
    s.skipgram = (xsm_skipgram_options)XSM_SKIPGRAM_OPTIONS_INIT;
    s.skipgram.seed = 1;
    for (int i = 4; i < argc; i += 2) {
        const bool paired = strncmp(argv[i], "--", 2) == 0 && i + 1 < argc;
        if (!paired) {
            fprintf(stderr, "word_vectors: '%s' is no --KEY VALUE\n%s", argv[i], usage);
        }
        if (!paired || !read_setting(&s, argv[i] + 2, argv[i + 1])) {
            return 2;
        }
    }
    if ((s.fit_estimator || s.fit_set_count) && !(s.fit && s.fit_estimator)) {
        fprintf(stderr, "word_vectors: --fit-set goes with --fit-estimator, and that with --fit N\n");
        return 2;
    }
    return check_files(&s) ? train(&s) : 2;
}

/* -- queries ------------------------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    if (argc >= 4 && strcmp(argv[1], "train") == 0) {
        return run_train(argc, argv);
    }
    static const char *const commands[] = {"neighbours", "analogies", "similarity"};
    int command = -1;
    for (int i = 0; argc >= 4 && i < 3; i++) {
        command = strcmp(argv[1], commands[i]) == 0 ? i : command;
    }
    if (command < 0) {
        fputs(usage, stderr);
        return 2;
    }
    word_set *set = word_set_load(argv[2]);
    int result = !set;
    for (int i = 3; set && i < argc; i++) {
        result |= command == 0   ? word_neighbours(set, argv[i], 10)
                  : command == 1 ? word_analogies(set, argv[i])
                                 : word_similarity(set, argv[i]);
    }
    word_set_free(set);
    return result;
}
