#include "words.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

xsm_corpus *test_corpus(xsm_context *ctx, const char *path, uint64_t min_count)
{
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_corpus, c, xsm_corpus_open(ctx, path, STRUCT(xsm_corpus_options, .min_count = min_count), &c, &err));
    return c;
}

xsm_model *test_vectors(xsm_context *ctx, const xsm_corpus *c, uint32_t dimension, double spread, uint64_t seed)
{
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_model, m, xsm_word_model_new(ctx, c, dimension, spread, seed, &m, &err));
    return m;
}

const char *test_topics_text(const char *name, int lines, uint64_t seed)
{
    HELD_MEMORY(char, text) = malloc((size_t)lines * 80);
    size_t used = 0;
    assert_non_null(text);
    for (int i = 0; i < lines; i++) {
        unsigned topic = (unsigned)(test_next(&seed) % TEST_TOPICS);
        for (int j = 0; j < 8; j++) {
            used += (size_t)sprintf(text + used, "%u_%u ", topic, (unsigned)(test_next(&seed) % TEST_OF_TOPIC));
        }
        text[used - 1] = '\n';
    }
    const char *path = test_file(name, text, used);
    return path;
}

double test_neighbours_right(xsm_model *m)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_parameters p = XSM_PARAMETERS_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    assert_ok(xsm_model_get_parameters(m, &p, &err), err);
    assert_ok(xsm_model_get_class_map(m, &map, &err), err);
    int right = 0;
    for (uint32_t a = 0; a < p.classes; a++) {
        double best = -2;
        uint32_t found = a;
        for (uint32_t b = 0; b < p.classes; b++) {
            double ab = 0, aa = 0, bb = 0;
            for (uint32_t i = 0; i < p.features; i++) {
                double x = (double)p.weight[a * p.class_step + i], y = (double)p.weight[b * p.class_step + i];
                ab += x * y;
                aa += x * x;
                bb += y * y;
            }
            double cosine = ab / sqrt(aa * bb);
            if (a != b && cosine > best) {
                best = cosine;
                found = b;
            }
        }
        right += atoi(map.names[a]) == atoi(map.names[found]);
    }
    return (double)right / p.classes;
}

xsm_skipgram_options test_word_run(uint64_t epochs)
{
    xsm_skipgram_options o = XSM_SKIPGRAM_OPTIONS_INIT;
    o.epochs = epochs;
    o.subsample = 1;
    o.window = 4;
    o.eta = 0.1;
    o.seed = 3;
    return o;
}
