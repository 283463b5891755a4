/* Word vectors of a generated text. */
#include "bits.h"

#include <xsoftmax-words.h>

#include <stdio.h>
#include <string.h>

enum { LINES = 150, WORDS_A_LINE = 8, DIMENSION = 19 };

/* A skip-gram run, or with `iterations` a fit of the collapsed objective. */
typedef struct word_run {
    const char *estimator, *settings; /* NULL = none */
    uint64_t iterations;
    uint32_t window, negatives, batch;
    double power; /* 0 = the default */
    double subsample;
    bool text; /* hashed: the vectors as text, not their bits */
} word_run;

/* Words 0 to 59, those of low number frequent; neighbours have numbers that are near. */
static void write_text(const char *path)
{
    FILE *file = fopen(path, "w");
    uint64_t seed = 17;
    if (!file) {
        bits_fail("the text cannot be written");
    }
    for (int i = 0; i < LINES; i++) {
        uint64_t most = 1 + bits_next(&seed) % 50;
        unsigned topic = (unsigned)(bits_next(&seed) % most);
        for (int j = 0; j < WORDS_A_LINE; j++) {
            fprintf(file, "w%u%c", topic + (unsigned)(bits_next(&seed) % 10), j + 1 < WORDS_A_LINE ? ' ' : '\n');
        }
    }
    fclose(file);
}

static xsm_status train(const bits_machine *machine, const word_run *r, const xsm_corpus *corpus,
                        xsm_estimator *estimator, xsm_model *input, xsm_model *output)
{
    xsm_error err = XSM_ERROR_INIT;
    if (r->iterations) {
        xsm_skipgram_fit_options options = XSM_SKIPGRAM_FIT_OPTIONS_INIT;
        options.iterations = r->iterations;
        options.estimator = estimator;
        options.window = r->window;
        options.subsample = r->subsample;
        return xsm_skipgram_fit(machine->context, corpus, input, output, &options, NULL, &err);
    }
    xsm_skipgram_options options = XSM_SKIPGRAM_OPTIONS_INIT;
    options.epochs = 1;
    options.window = r->window;
    options.negatives = r->negatives;
    options.batch = r->batch;
    options.power = r->power > 0 ? r->power : XSM_DEFAULT;
    options.subsample = r->subsample;
    options.seed = 9;
    xsm_skipgram *trainer = NULL;
    xsm_status status;
    BITS_TRY(xsm_skipgram_new(machine->context, corpus, input, output, estimator, &options, &trainer, &err));
    BITS_TRY(xsm_skipgram_run(trainer, &err));
end:
    xsm_skipgram_free(trainer);
    return status;
}

static xsm_status vectors(const bits_machine *machine, const void *what, uint64_t *hash)
{
    const word_run *r = what;
    xsm_error err = XSM_ERROR_INIT;
    char path[4096], vec[4096];
    snprintf(path, sizeof path, "%s", bits_path(machine, "text"));
    snprintf(vec, sizeof vec, "%s", bits_path(machine, "vectors.vec"));
    xsm_corpus_options options = XSM_CORPUS_OPTIONS_INIT;
    options.min_count = 2;
    xsm_corpus *corpus = NULL;
    xsm_model *input = NULL, *output = NULL;
    xsm_estimator *estimator = NULL;
    xsm_status status;
    write_text(path);
    BITS_TRY(xsm_corpus_open(machine->context, path, &options, &corpus, &err));
    BITS_TRY(xsm_word_model_new(machine->context, corpus, DIMENSION, 0.2, 1, &input, &err));
    BITS_TRY(xsm_word_model_new(machine->context, corpus, DIMENSION, 0.2, 2, &output, &err));
    if (r->estimator) {
        BITS_TRY(xsm_estimator_new(machine->context, r->estimator, &estimator, &err));
        BITS_TRY(bits_set_estimator(estimator, r->settings ? r->settings : ""));
    }
    BITS_TRY(train(machine, r, corpus, estimator, input, output));
    if (r->text) {
        BITS_TRY(xsm_word_model_write(input, vec, &err));
        BITS_TRY(bits_add_file(hash, vec));
    } else {
        BITS_TRY(bits_add_model(hash, input, NULL));
        xsm_model_clear_correction(output); /* its weights are hashed; there are no rows to score */
        BITS_TRY(bits_add_model(hash, output, NULL));
    }
end:
    remove(path);
    remove(vec);
    xsm_estimator_free(estimator);
    xsm_model_free(input);
    xsm_model_free(output);
    xsm_corpus_free(corpus);
    return status;
}

static void estimators(void)
{
    const xsm_estimator_ops *ops;
    for (size_t i = 0; (ops = xsm_estimator_at(i)); i++) {
        word_run r = {.estimator = ops->name, .subsample = 1, .window = 3};
        bool loss = bits_has_option(ops, "loss", "cross-entropy");
        bits_record(vectors, &r, "words %s", r.estimator);
        if (bits_has_option(ops, "sampler", "frequency")) {
            r.settings = "sampler=frequency shared=yes";
            bits_record(vectors, &r, "words %s, %s", r.estimator, r.settings);
        }
        r.settings = loss ? "loss=cross-entropy" : NULL;
        r.iterations = 4;
        bits_record(vectors, &r, "words %s, collapsed%s%s", r.estimator, loss ? ", " : "", loss ? r.settings : "");
        if (loss) {
            r.settings = "loss=cross-entropy index=exact";
            bits_record(vectors, &r, "words %s, collapsed, %s", r.estimator, r.settings);
        }
    }
}

void bits_of_words(void)
{
    static const struct {
        const char *name;
        word_run run;
    } runs[] = {
        {"defaults", {.subsample = 0}},
        {"no word dropped", {.subsample = 1}},
        {"window of 2", {.subsample = 1, .window = 2}},
        {"9 negatives", {.subsample = 1, .negatives = 9}},
        {"power of 0.5", {.subsample = 1, .power = 0.5}},
        {"batches of 1", {.subsample = 1, .batch = 1}},
        {"batches of 100", {.subsample = 1, .batch = 100}},
        {"written as text", {.subsample = 1, .text = true}},
        {"collapsed", {.subsample = 1, .iterations = 5}},
        {"collapsed, words dropped", {.subsample = 0.01, .iterations = 5}},
    };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        bits_record(vectors, &runs[i].run, "words %s", runs[i].name);
    }
    estimators();
}
