/* Embedding models on the command line: the flag --hidden and the flags that depend on it, and the model that they
 * make. */
#include "train.h"

#include <stdlib.h>
#include <string.h>

const char *const cli_activation_words[] = {"identity", "relu", "tanh", NULL}; /* XSM_ACTIVATION_* */
const char *const cli_pool_words[] = {"sum", "mean", "weighted-mean", NULL};   /* XSM_POOL_* */

const char *cli_hidden_companion(const cli_hidden *h)
{
    return h->activation >= 0 ? "activation" : h->pool >= 0 ? "pool" : h->tied ? "tied" : h->vectors ? "vectors" : NULL;
}

int cli_hidden_check(const cli_run *r)
{
    const cli_hidden *h = &r->hidden;
    if (!h->size) {
        const char *alone = cli_hidden_companion(h);
        return alone ? cli_misuse("--%s is for embedding models: --hidden D says how long their vectors are", alone)
                     : CLI_GO_ON;
    }
    if (r->bias == CLI_BIAS_ONLY) {
        return cli_misuse("--bias only uses no feature, so there is nothing for --hidden to do");
    }
    if (r->time_budget > 0) {
        return cli_misuse("--hidden: --time-budget chooses among linear models");
    }
    if (r->full) {
        return cli_misuse("--hidden: lbfgs takes linear models; sgd is what trains embedding models");
    }
    if (h->vectors && h->tied) {
        return cli_misuse("--vectors: with --tied features are no words");
    }
    uint64_t length = 0;
    const int code = h->vectors ? cli_vectors_length(h->vectors, &length) : CLI_GO_ON;
    return code == CLI_GO_ON && h->vectors && length != h->size
               ? cli_misuse("--hidden %llu: the vectors of %s have a length of %llu", (unsigned long long)h->size,
                            h->vectors, (unsigned long long)length)
               : code;
}

/* Tied vectors are for things that are both features and classes: class k must be feature k. */
static int check_tied(const cli_run *r, const xsm_class_map *map)
{
    if (map->vocabulary || map->feature_names) {
        return cli_fail(
            "--tied: the features are %s, in another order than the classes; rows whose labels are the numbers "
            "of features are accepted, as xc and libsvm have them",
            map->vocabulary ? "words" : "columns");
    }
    if (r->train_info.features != r->train_info.classes) {
        cli_buffer a, b;
        return cli_fail("--tied: the features must be the classes, but there are %s features and %s classes",
                        cli_grouped(r->train_info.features, &a), cli_grouped(r->train_info.classes, &b));
    }
    for (uint32_t k = 0; map->labels && k < map->classes; k++) {
        if (map->labels[k] != (int64_t)k) {
            return cli_fail("--tied: the features must be the classes, but label %lld is class %lu: labels must be the "
                            "numbers of the features",
                            (long long)map->labels[k], (unsigned long)k);
        }
    }
    return CLI_GO_ON;
}

int cli_hidden_model(cli_run *r, const xsm_class_map *map)
{
    const cli_hidden *h = &r->hidden;
    xsm_error err = XSM_ERROR_INIT;
    xsm_embedding_options options = XSM_EMBEDDING_OPTIONS_INIT;
    int code = h->tied ? check_tied(r, map) : CLI_GO_ON;
    if (code != CLI_GO_ON) {
        return code;
    }
    options.bias = r->bias != 0;
    options.activation = h->activation >= 0 ? h->activation : XSM_ACTIVATION_IDENTITY;
    options.pool = h->pool >= 0 ? h->pool : XSM_POOL_SUM;
    options.tied = h->tied;
    options.seed = r->seed;
    if (xsm_model_new_embedding(r->context, r->train_info.features, (uint32_t)h->size, r->train_info.classes, &options,
                                &r->model, &err) != XSM_OK) {
        return cli_library_failed(&err);
    }
    return h->vectors ? cli_vectors_load(r, map) : CLI_GO_ON;
}

char *cli_model_shape(const xsm_model *model)
{
    cli_buffer a, b, c, d;
    const xsm_model_info about = cli_model_info(model);
    const uint32_t classes = about.classes, features = about.features, hidden = about.hidden;
    const char *bias = about.geometry == XSM_GEOMETRY_EUCLIDEAN ? " by distance" : about.bias ? " with bias" : "";
    char type[32] = "";
    if (about.dtype != XSM_DTYPE_FLOAT32) {
        snprintf(type, sizeof type, "%s, ", cli_type_of(about.dtype)->word);
    }
    if (about.layout == XSM_LAYOUT_SPARSE_ROWS) {
        char *kind = about.trees == 0   ? cli_format("linear")
                     : about.trees == 1 ? cli_format("label tree")
                                        : cli_format("%u label trees", about.trees);
        char *shape = cli_format("%s, %s classes x %s features%s, %s weights (%s%s)", kind, cli_grouped(classes, &a),
                                 cli_grouped(features, &b), bias, cli_grouped(about.weights, &c), type,
                                 cli_bytes((double)about.bytes, &d));
        free(kind);
        return shape;
    }
    if (!hidden) {
        return cli_format("linear, %s classes x %s features%s (%s%s)", cli_grouped(classes, &a),
                          cli_grouped(features, &b), bias, type, cli_bytes(cli_model_bytes(model), &c));
    }
    return cli_format("embedding, %s features to %s by %s%s%s, %s classes%s (%s%s)", cli_grouped(features, &a),
                      cli_grouped(hidden, &b), cli_pool_words[about.pool],
                      about.activation == XSM_ACTIVATION_IDENTITY ? ""
                      : about.activation == XSM_ACTIVATION_RELU   ? " and relu"
                                                                  : " and tanh",
                      about.tied ? ", tied" : "", cli_grouped(classes, &c), bias, type,
                      cli_bytes(cli_model_bytes(model), &d));
}
