/*
 * A first layer in a model's file: the tensor `embedding` [F, H], unless the vectors are tied, and the metadata
 * `first_layer`, such as "relu mean seed=1 scale=0.25", with " tied" at its end for tied vectors. A file of another
 * program may have only the tensor; its vectors are then summed without an activation.
 */
#include "base/option.h"
#include "model/model.h"
#include "model/model_file.h"
#include "model/narrow.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void xsmi_layer_describe(const xsmi_layer *l, char *text, size_t size)
{
    char scale[64];
    xsmi_print_double(l->made.scale, 0, scale, sizeof scale);
    snprintf(text, size, "%s %s seed=%" PRIu64 " scale=%s%s", xsmi_activation_names[l->made.activation],
             xsmi_pool_names[l->made.pool], l->made.seed, scale, l->tied ? " tied" : "");
}

/* -- loading ------------------------------------------------------------------------------------------------------- */

/* Reads the next word of a text, up to a space; false at its end or when it does not fit. */
static bool next_word(const char **text, char *word, size_t size)
{
    size_t length = strcspn(*text, " ");
    if (length == 0 || length >= size) {
        return false;
    }
    memcpy(word, *text, length);
    word[length] = '\0';
    *text += length + ((*text)[length] == ' ');
    return true;
}

static bool choice_of(const char *word, const char *const *names, int32_t *choice)
{
    for (int32_t i = 0; names[i]; i++) {
        if (strcmp(names[i], word) == 0) {
            *choice = i;
            return true;
        }
    }
    return false;
}

static bool parse(const char *text, xsm_embedding_options *o)
{
    char activation[16], pool[16], seed[64], scale[64], tied[16];
    int64_t number = 0;
    if (!next_word(&text, activation, sizeof activation) || !next_word(&text, pool, sizeof pool) ||
        !next_word(&text, seed, sizeof seed) || !next_word(&text, scale, sizeof scale) ||
        !choice_of(activation, xsmi_activation_names, &o->activation) || !choice_of(pool, xsmi_pool_names, &o->pool) ||
        strncmp(seed, "seed=", 5) != 0 || strncmp(scale, "scale=", 6) != 0 || !xsmi_parse_int(seed + 5, &number) ||
        number < 0 || !xsmi_parse_double(scale + 6, &o->scale) || !(o->scale >= 0 && o->scale <= 1e6)) {
        return false;
    }
    o->seed = (uint64_t)number;
    if (next_word(&text, tied, sizeof tied)) {
        o->tied = strcmp(tied, "tied") == 0;
        return o->tied && *text == '\0';
    }
    return *text == '\0';
}

xsm_status xsmi_layer_read(xsm_model *m, const xsmi_container *file, const char *name, xsm_error *err)
{
    const xsmi_tensor *vectors = xsmi_container_tensor(file, "embedding");
    const char *text = xsmi_container_metadata(file, XSMI_KEY_FIRST_LAYER);
    xsm_embedding_options o = XSM_EMBEDDING_OPTIONS_INIT;
    if (!vectors && !text) {
        return XSM_OK;
    }
    o.scale = sqrt(3.0 / (m->features ? m->features : 1));
    if (text && !parse(text, &o)) {
        return xsmi_fail(err, XSM_ERROR_FORMAT,
                         "%s: the metadata 'first_layer' is '%.100s'; accepted is an activation, a pooling, seed= and "
                         "scale=, such as 'identity sum seed=0 scale=0.1', and tied or nothing after it",
                         name, text);
    }
    o.bias = m->w.bias != NULL;
    if (o.tied
            ? vectors != NULL
            : !vectors || vectors->dtype != xsmi_narrow_tensor_type(xsmi_model_dtype(m)) || vectors->rank != 2 ||
                  vectors->shape[0] < 1 || vectors->shape[0] > XSM_FEATURES_MAX || vectors->shape[1] != m->features) {
        return xsmi_fail(err, XSM_ERROR_FORMAT,
                         "%s: an embedding model has a tensor 'embedding', %s of 1 to %u features by the %u columns of "
                         "'weight', or none where its vectors are tied",
                         name, xsmi_dtype_name(xsmi_narrow_tensor_type(xsmi_model_dtype(m))), XSM_FEATURES_MAX,
                         m->features);
    }
    if (m->features < 1 || m->features > XSM_HIDDEN_MAX) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: hidden vectors of %u; 1 to %d are accepted", name, m->features,
                         XSM_HIDDEN_MAX);
    }
    XSMI_TRY(xsmi_layer_new(m, o.tied ? m->classes : (uint32_t)vectors->shape[0], &o, err));
    return o.tied ? XSM_OK
                  : xsmi_weights_read(m->context, file, name, vectors, XSMI_EMBEDDING_SCALE, &m->layer->w, err);
}
