/*
 * Samplers and indexes by themselves.
 */
#include "bits.h"

#include <xsoftmax/draw.h>
#include <xsoftmax/ext/index.h>
#include <xsoftmax/ext/sampler.h>
#include <xsoftmax/search.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An object made by its name, with one option set. */
typedef struct part {
    const char *name, *key, *value; /* key NULL = all are the defaults */
    int set;                        /* rows: BITS_DENSE_ROWS, ... */
    int32_t distinct;               /* of draws */
    bool bias, embedding;           /* of what is searched */
} part;

/* -- samplers ------------------------------------------------------------------------------------------------------ */

static xsm_status open_sampler(const bits_machine *machine, const part *p, xsm_sampler **out)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_status status;
    BITS_TRY(xsm_sampler_new(machine->context, p->name, out, &err));
    if (p->key) {
        BITS_TRY(xsm_sampler_set(*out, p->key, p->value, &err));
    }
    BITS_TRY(xsm_sampler_bind(*out, machine->one[p->set], &err));
end:
    return status;
}

static xsm_status draws(const bits_machine *machine, const void *what, uint64_t *hash)
{
    enum { ROWS = 20, COUNT = 11 };
    const part *p = what;
    xsm_error err = XSM_ERROR_INIT;
    xsm_sampler *s = NULL;
    uint32_t classes[ROWS * COUNT];
    double logs[ROWS * COUNT];
    xsm_status status;
    BITS_TRY(open_sampler(machine, p, &s));
    xsm_batch batch = xsm_batch_range(machine->one[p->set], 5, ROWS);
    BITS_TRY(xsm_sampler_draw(s,
                              &(xsm_draw){.size = sizeof(xsm_draw),
                                          .batch = &batch,
                                          .seed = 21,
                                          .position = 1000,
                                          .count = COUNT,
                                          .distinct = p->distinct,
                                          .classes = classes,
                                          .log_probabilities = logs},
                              &err));
    bits_add(hash, classes, sizeof classes);
    bits_add(hash, logs, sizeof logs);
end:
    xsm_sampler_free(s);
    return status;
}

static xsm_status log_probabilities(const bits_machine *machine, const void *what, uint64_t *hash)
{
    enum { ROWS = 20 };
    const part *p = what;
    xsm_error err = XSM_ERROR_INIT;
    xsm_sampler *s = NULL;
    float *logs = NULL;
    xsm_status status;
    BITS_TRY(open_sampler(machine, p, &s));
    uint32_t classes = test_sampler_info(s).classes;
    logs = calloc((size_t)ROWS * classes, sizeof *logs);
    if (!logs) {
        bits_fail("out of memory");
    }
    xsm_batch batch = xsm_batch_range(machine->one[p->set], 5, ROWS);
    BITS_TRY(xsm_sampler_log_probabilities(s, &batch, 0, classes, logs, &err));
    bits_add(hash, logs, (size_t)ROWS * classes * sizeof *logs);
end:
    free(logs);
    xsm_sampler_free(s);
    return status;
}

static xsm_status sampler_file(const bits_machine *machine, const void *what, uint64_t *hash)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_sampler *s = NULL;
    const char *path = bits_path(machine, "sampler.safetensors");
    xsm_status status;
    BITS_TRY(open_sampler(machine, what, &s));
    BITS_TRY(xsm_sampler_save(s, path, NULL, &err));
    BITS_TRY(bits_add_file(hash, path));
end:
    remove(path);
    xsm_sampler_free(s);
    return status;
}

static void sampler_runs(part p)
{
    static const char *const sets[] = {"dense", "sparse", "wide"};
    char name[96];
    for (p.set = BITS_DENSE_ROWS; p.set <= BITS_WIDE_ROWS; p.set++) {
        if (p.set == BITS_WIDE_ROWS && p.key) {
            continue;
        }
        snprintf(name, sizeof name, "%s, %s%s%s%s", p.name, sets[p.set], p.key ? ", " : "", p.key ? p.key : "",
                 p.key ? "=" : "");
        const char *value = p.key ? p.value : "";
        p.distinct = 0;
        bits_record(draws, &p, "samplers %s%s, draws", name, value);
        p.distinct = 1;
        bits_record(draws, &p, "samplers %s%s, different ones", name, value);
        bits_record(log_probabilities, &p, "samplers %s%s, log-probabilities", name, value);
        bits_record(sampler_file, &p, "samplers %s%s, file", name, value);
    }
}

static void samplers(void)
{
    const xsm_sampler_ops *ops;
    for (size_t i = 0; (ops = xsm_sampler_at(i)); i++) {
        const xsm_option *o;
        part p = {.name = ops->name};
        sampler_runs(p);
        for (size_t j = 0; (o = xsm_sampler_ops_option(ops, j)); j++) {
            char value[32];
            for (size_t n = 0; bits_value(o, n, value, sizeof value); n++) {
                p.key = o->name;
                p.value = value;
                sampler_runs(p);
            }
        }
    }
}

/* -- indexes ------------------------------------------------------------------------------------------------------- */

enum { QUERIES = 17, TOP = 9 };

static xsm_status add_search(uint64_t *hash, const xsm_index *index, const float *queries, size_t width, bool threshold)
{
    xsm_error err = XSM_ERROR_INIT;
    uint32_t classes[QUERIES * TOP], lengths[QUERIES];
    float scores[QUERIES * TOP];
    memset(scores, 0, sizeof scores);
    xsm_index_search s = XSM_INDEX_SEARCH_INIT;
    s.queries = queries;
    s.stride = width;
    s.count = QUERIES;
    s.top = TOP;
    s.has_least_score = threshold;
    s.least_score = 0.75f;
    s.classes = classes;
    s.scores = scores;
    s.lengths = lengths;
    xsm_status status = xsm_index_query(index, &s, &err);
    for (int i = 0; status == XSM_OK && i < QUERIES; i++) {
        bits_add(hash, classes + i * TOP, lengths[i] * sizeof *classes);
        bits_add(hash, scores + i * TOP, lengths[i] * sizeof *scores);
    }
    bits_add_count(hash, s.probed);
    return status;
}

/* Builds an index over random rows, searches, changes every second row five times, searches again. */
static xsm_status searches(const bits_machine *machine, const void *what, uint64_t *hash)
{
    enum { ROWS = 700, WIDTH = 21 };
    static float rows[ROWS * WIDTH], bias[ROWS], queries[QUERIES * WIDTH];
    static uint32_t changed[ROWS / 2];
    const part *p = what;
    xsm_error err = XSM_ERROR_INIT;
    uint64_t seed = 11;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rows[i] = bits_number(&seed);
    }
    for (size_t i = 0; i < ROWS; i++) {
        bias[i] = 0.5f * bits_number(&seed);
    }
    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        queries[i] = bits_number(&seed);
    }
    xsm_index *index = NULL;
    xsm_index_rows r = XSM_INDEX_ROWS_INIT;
    r.rows = rows;
    r.stride = WIDTH;
    r.count = ROWS;
    r.width = WIDTH;
    r.bias = p->bias ? bias : NULL;
    xsm_index_info info = XSM_INDEX_INFO_INIT;
    xsm_status status;
    BITS_TRY(xsm_index_new(machine->context, p->name, &index, &err));
    if (p->key) {
        BITS_TRY(xsm_index_set(index, p->key, p->value, &err));
    }
    BITS_TRY(xsm_index_build(index, &r, &err));
    BITS_TRY(add_search(hash, index, queries, WIDTH, false));
    BITS_TRY(add_search(hash, index, queries, WIDTH, true));
    for (int again = 0; again < 5; again++) { /* so often that clusters drift */
        for (uint32_t i = 0; i < ROWS / 2; i++) {
            changed[i] = 2 * i + again % 2;
            for (size_t j = 0; j < WIDTH; j++) {
                rows[(size_t)changed[i] * WIDTH + j] = bits_number(&seed);
            }
        }
        for (uint32_t i = 0; i < ROWS / 2; i += 50) {
            BITS_TRY(xsm_index_update(index, changed + i, 50, &err));
        }
    }
    BITS_TRY(add_search(hash, index, queries, WIDTH, false));
    BITS_TRY(xsm_index_get_info(index, &info, &err));
    bits_add_count(hash, info.clusters);
    bits_add_count(hash, info.largest);
    bits_add_count(hash, info.moved);
    bits_add_count(hash, info.rebuilds);
end:
    xsm_index_free(index);
    return status;
}

/* Prediction by an index over a model. */
static xsm_status model_search(const bits_machine *machine, const void *what, uint64_t *hash)
{
    enum { ROWS = 30 };
    const part *p = what;
    xsm_error err = XSM_ERROR_INIT;
    bits_training t = bits_training_of("nce", p->embedding ? BITS_EMBEDDING : BITS_DENSE);
    t.set = p->set;
    bits_rig rig;
    xsm_index *index = NULL;
    xsm_predictor *predictor = NULL;
    xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
    uint32_t classes[ROWS * TOP];
    float scores[ROWS * TOP];
    xsm_status status;
    BITS_TRY(bits_rig_new(machine, &t, &rig));
    BITS_TRY(bits_rig_train(machine, &t, &rig));
    BITS_TRY(xsm_index_new(machine->context, p->name, &index, &err));
    if (p->key) {
        BITS_TRY(xsm_index_set(index, p->key, p->value, &err));
    }
    BITS_TRY(xsm_index_build_model(index, rig.model, &err));
    options.top = TOP;
    options.index = index;
    BITS_TRY(xsm_predictor_new(rig.model, &options, &predictor, &err));
    xsm_batch batch = xsm_batch_range(rig.data, 0, ROWS);
    BITS_TRY(xsm_predictor_run(
        predictor,
        &(xsm_prediction){.size = sizeof(xsm_prediction), .batch = &batch, .classes = classes, .scores = scores},
        &err));
    bits_add(hash, classes, sizeof classes);
    bits_add(hash, scores, sizeof scores);
    double recall[TOP];
    xsm_search_metrics m = {.size = sizeof m, .top = TOP, .recall = recall};
    BITS_TRY(xsm_evaluate_search(machine->context, rig.model, rig.data, &options, &m, &err));
    bits_add_double(hash, m.probed);
    bits_add(hash, recall, sizeof recall);
end:
    xsm_predictor_free(predictor);
    xsm_index_free(index);
    bits_rig_free(&rig);
    return status;
}

static void index_runs(part p)
{
    const char *key = p.key ? p.key : "defaults", *is = p.key ? "=" : "", *value = p.key ? p.value : "";
    bits_record(searches, &p, "indexes %s, %s%s%s", p.name, key, is, value);
    p.bias = true;
    bits_record(searches, &p, "indexes %s, %s%s%s, bias", p.name, key, is, value);
    p.set = BITS_DENSE_ROWS;
    bits_record(model_search, &p, "indexes %s, %s%s%s, a model", p.name, key, is, value);
    p.set = BITS_SPARSE_ROWS;
    p.embedding = true;
    bits_record(model_search, &p, "indexes %s, %s%s%s, an embedding model", p.name, key, is, value);
}

static void indexes(void)
{
    const xsm_index_ops *ops;
    for (size_t i = 0; (ops = xsm_index_at(i)); i++) {
        const xsm_option *o;
        part p = {.name = ops->name};
        index_runs(p);
        for (size_t j = 0; (o = xsm_index_ops_option(ops, j)); j++) {
            char value[32];
            for (size_t n = 0; bits_value(o, n, value, sizeof value); n++) {
                p.key = o->name;
                p.value = value;
                index_runs(p);
            }
        }
    }
}

void bits_of_searches(void)
{
    samplers();
    indexes();
}
