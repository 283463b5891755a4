/*
 * From the JSON of a request to its classes, and back to JSON:
 *
 *     {"row": "some words"}                     a line as in the data's file: text, or f:v f:v
 *     {"row": [[3, 0.5], [17, 1]]}              features, from 0, with their values
 *     {"row": [0.1, 0.2, 0.3]}                  the values of all features
 *     {"rows": [ROW, ROW, ...]}                 several rows of one of these forms
 *
 * with "top": fewer classes than the server's, and "id": a number or text that the answer repeats.
 */
#include "serve.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xsoftmax/encoder.h>

/* The forms of a row; what a message calls them. */
enum form { UNKNOWN, LINE, PAIRS, VALUES };
static const char *const correction_words[] = {"none", "classes", "tree", "sampler", "hierarchy", "pairs"};
static const char *const form_words[] = {"no row", "a line of text", "pairs of a feature and a value",
                                         "the values of all features"};

typedef struct pair {
    uint32_t feature;
    float value;
} pair;

/* Rows that a request has sent, as the model scores them. They grow to the largest request. */
struct serve_rows {
    xsm_context *context;
    xsm_encoder *encoder; /* of one sparse row */
    uint64_t count;
    uint64_t *offsets; /* [count+1] sparse rows */
    uint32_t *index;
    float *values;        /* or [count][features] dense ones */
    xsm_dataset *dataset; /* which are transformed here */
    pair *pairs;          /* of one row, to be sorted */
    uint32_t *pair_index; /* then apart */
    float *pair_values;
    size_t offset_room, index_room, value_room, pair_room, pair_index_room, pair_value_room;
};

typedef struct request {
    serve_worker *worker;
    const serve_options *options;
    json_t *rows; /* an array, or the row itself */
    json_t *id;
    size_t count;
    int single;
    enum form form;
    uint32_t top;
    serve_answer refused; /* set where a function has returned 0 */
} request;

struct serve_rows *serve_rows_new(xsm_context *context, const serve_worker *worker, xsm_error *err)
{
    xsm_encoder_options options = XSM_ENCODER_OPTIONS_INIT;
    const xsm_class_map *map = worker->map;
    struct serve_rows *r = calloc(1, sizeof *r);
    if (!r) {
        (void)serve_out_of_memory(err);
        return NULL;
    }
    r->context = context;
    /* Features of a model of no sparse text begin at 0. */
    options.format = map->vocabulary || map->index_base != XSM_INDEX_BASE_AUTO ? XSM_FORMAT_AUTO : XSM_FORMAT_XC;
    if (xsm_encoder_new(worker->model, &options, &r->encoder, err) != XSM_OK) {
        serve_rows_free(r);
        return NULL;
    }
    return r;
}

void serve_rows_free(struct serve_rows *r)
{
    if (r) {
        xsm_encoder_free(r->encoder);
        xsm_dataset_free(r->dataset);
        free(r->offsets);
        free(r->index);
        free(r->values);
        free(r->pairs);
        free(r->pair_index);
        free(r->pair_values);
        free(r);
    }
}

/* -- memory for JSON ------------------------------------------------------------------------------------------------
 * Jansson's parser goes on without memory: it calls bodies wrong that are right, and writes beyond what it has. So it
 * is left where memory is lacking, and what it has allocated is in a list. */

typedef struct block {
    struct block *next, **link;
} block;

static _Thread_local block *parsed; /* blocks of a thread's last body that are not freed */
static _Thread_local jmp_buf *leave;

void *serve_allocate(size_t size)
{
    block *b = size < SIZE_MAX / 2 ? malloc(sizeof *b + size) : NULL;
    if (!b) {
        if (leave) {
            longjmp(*leave, 1);
        }
        return NULL;
    }
    *b = (block){NULL, NULL};
    if (leave) {
        *b = (block){parsed, &parsed};
        if (parsed) {
            parsed->link = &b->next;
        }
        parsed = b;
    }
    return b + 1;
}

void serve_release(void *memory)
{
    block *b = memory;
    if (b) {
        b--;
        if (b->link) {
            *b->link = b->next;
        }
        if (b->next) {
            b->next->link = b->link;
        }
        free(b);
    }
}

/* The value, or NULL: the reason is in *wrong, or memory was lacking. */
static json_t *parse(const char *body, size_t length, json_error_t *wrong, int *lacking)
{
    jmp_buf out;
    json_t *volatile root = NULL;
    parsed = NULL;
    leave = &out;
    *lacking = setjmp(out);
    if (*lacking) {
        while (parsed) {
            serve_release(parsed + 1);
        }
    } else {
        root = json_loadb(body, length, JSON_REJECT_DUPLICATES, wrong);
    }
    leave = NULL;
    return root;
}

/* JSON is UTF-8, and what a message quotes of a request need not be. */
static json_t *text_of(const char *bytes)
{
    json_t *text = json_string(bytes);
    if (text) {
        return text;
    }
    char *plain = strdup(bytes);
    for (char *c = plain; c && *c; c++) {
        *c = (char)((unsigned char)*c < 127 ? *c : '?');
    }
    text = plain ? json_string(plain) : NULL;
    free(plain);
    return text;
}

serve_answer serve_refuse(unsigned status, const char *format, ...)
{
    char message[640];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return (serve_answer){status, json_pack("{s:o}", "error", text_of(message))};
}

#define REFUSE(r, ...) ((r)->refused = serve_refuse(__VA_ARGS__), 0)

/* The library's errors are about the rows, except for some. */
static int library_refuses(request *r, const xsm_error *err)
{
    switch (err->status) {
    case XSM_ERROR_MEMORY:
        return REFUSE(r, 503, "%s", err->message);
    case XSM_CANCELLED:
        return REFUSE(r, 503, "the prediction took longer than %u s", r->options->seconds);
    case XSM_ERROR_STATE:
    case XSM_ERROR_INTERNAL:
        return REFUSE(r, 500, "%s", err->message);
    default:
        return REFUSE(r, 400, "%s", err->message);
    }
}

static int grow(request *r, void *memory, size_t *room, size_t wanted, size_t each)
{
    void **pointer = memory;
    if (wanted > *room) {
        const size_t more = wanted > 2 * *room ? wanted : 2 * *room;
        void *larger = realloc(*pointer, more * each);
        if (!larger) {
            return REFUSE(r, 503, "out of memory");
        }
        *pointer = larger;
        *room = more;
    }
    return 1;
}

/* Adds a sparse row. */
static int append(request *r, const uint32_t *index, const float *values, uint64_t count)
{
    struct serve_rows *to = r->worker->rows;
    const uint64_t first = to->count ? to->offsets[to->count] : 0;
    if (!grow(r, &to->offsets, &to->offset_room, to->count + 2, sizeof *to->offsets) ||
        !grow(r, &to->index, &to->index_room, first + count + 1, sizeof *to->index) ||
        !grow(r, &to->values, &to->value_room, first + count + 1, sizeof *to->values)) {
        return 0;
    }
    if (count > 0) {
        memcpy(to->index + first, index, count * sizeof *index);
        memcpy(to->values + first, values, count * sizeof *values);
    }
    to->offsets[to->count] = first;
    to->offsets[++to->count] = first + count;
    return 1;
}

/* -- one row: the forms -------------------------------------------------------------------------------------------- */

/* Adds the row that the encoder has made, or says why there is none. */
static int append_encoded(request *r, xsm_status status, const xsm_batch *row, const xsm_error *err)
{
    return status == XSM_OK ? append(r, row->index, row->values, row->offsets[1]) : library_refuses(r, err);
}

/* A line as in the data's file. */
static int append_line(request *r, const char *bytes, size_t length)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_batch row = XSM_BATCH_INIT;
    const xsm_status status = xsm_encoder_encode(r->worker->rows->encoder, bytes, length, &row, &err);
    return append_encoded(r, status, &row, &err);
}

static int compare_pairs(const void *a, const void *b)
{
    const uint32_t x = ((const pair *)a)->feature, y = ((const pair *)b)->feature;
    return (x > y) - (x < y);
}

static int read_pair(request *r, size_t number, json_t *given, pair *out)
{
    json_t *feature = json_array_get(given, 0), *value = json_array_get(given, 1);
    if (json_array_size(given) != 2 || !json_is_integer(feature) || !json_is_number(value)) {
        return REFUSE(r, 400, "row %zu: a pair is [feature, value]", number);
    }
    const json_int_t j = json_integer_value(feature);
    const uint32_t features = r->worker->info->input_features;
    if (j < 0 || j >= (json_int_t)features) {
        return REFUSE(r, 400, "row %zu: feature %lld; 0 to %lld are accepted", number, (long long)j,
                      (long long)features - 1);
    }
    *out = (pair){(uint32_t)j, (float)json_number_value(value)};
    return isfinite(out->value)
               ? 1
               : REFUSE(r, 400, "row %zu: the value of feature %lld is no float32", number, (long long)j);
}

static int append_pairs(request *r, size_t number, json_t *row)
{
    struct serve_rows *to = r->worker->rows;
    const size_t count = json_array_size(row);
    if (!grow(r, &to->pairs, &to->pair_room, count + 1, sizeof *to->pairs) ||
        !grow(r, &to->pair_index, &to->pair_index_room, count + 1, sizeof *to->pair_index) ||
        !grow(r, &to->pair_values, &to->pair_value_room, count + 1, sizeof *to->pair_values)) {
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        if (!read_pair(r, number, json_array_get(row, i), &to->pairs[i])) {
            return 0;
        }
    }
    qsort(to->pairs, count, sizeof *to->pairs, compare_pairs);
    for (size_t i = 0; i < count; i++) {
        to->pair_index[i] = to->pairs[i].feature;
        to->pair_values[i] = to->pairs[i].value;
        if (i > 0 && to->pair_index[i] == to->pair_index[i - 1]) {
            return REFUSE(r, 400, "row %zu: feature %lu occurs twice", number, (unsigned long)to->pair_index[i]);
        }
    }
    xsm_error err = XSM_ERROR_INIT;
    xsm_batch encoded = XSM_BATCH_INIT;
    const xsm_status status =
        xsm_encoder_encode_pairs(to->encoder, to->pair_index, to->pair_values, count, &encoded, &err);
    return append_encoded(r, status, &encoded, &err);
}

static int append_values(request *r, size_t number, json_t *row)
{
    struct serve_rows *to = r->worker->rows;
    const uint32_t features = r->worker->info->input_features;
    if (json_array_size(row) != features) {
        return REFUSE(r, 400, "row %zu has %zu values, and the model %u features", number, json_array_size(row),
                      features);
    }
    if (!grow(r, &to->values, &to->value_room, (to->count + 1) * features + 1, sizeof *to->values)) {
        return 0;
    }
    float *values = to->values + to->count++ * features;
    for (uint32_t j = 0; j < features; j++) {
        json_t *value = json_array_get(row, j);
        values[j] = (float)json_number_value(value);
        if (!json_is_number(value) || !isfinite(values[j])) {
            return REFUSE(r, 400, "row %zu: value %u is no float32", number, j);
        }
    }
    return 1;
}

/* -- the request --------------------------------------------------------------------------------------------------- */

static enum form form_of(json_t *row)
{
    if (json_is_string(row)) {
        return LINE;
    }
    if (json_is_array(row)) {
        return json_array_size(row) == 0 || json_is_array(json_array_get(row, 0)) ? PAIRS : VALUES;
    }
    return UNKNOWN;
}

static json_t *row_at(const request *r, size_t i)
{
    return r->single ? r->rows : json_array_get(r->rows, i);
}

/* The members of the request, all but the rows themselves. */
static int read_members(request *r, json_t *root)
{
    const char *key;
    json_t *value, *row = json_object_get(root, "row"), *rows = json_object_get(root, "rows");
    if (!json_is_object(root) || !row == !rows) {
        return REFUSE(r, 400, "the body is an object with either \"row\" or \"rows\"");
    }
    r->top = r->worker->top;
    json_object_foreach(root, key, value)
    {
        if (strcmp(key, "top") == 0) {
            const json_int_t top = json_is_integer(value) ? json_integer_value(value) : 0;
            if (top < 1 || top > (json_int_t)r->worker->top) {
                return REFUSE(r, 400, "\"top\" is a whole number, 1 to %u", r->worker->top);
            }
            r->top = (uint32_t)top;
        } else if (strcmp(key, "id") == 0) {
            if (!json_is_string(value) && !json_is_integer(value)) {
                return REFUSE(r, 400, "\"id\" is text or a whole number");
            }
            r->id = value;
        } else if (value != row && value != rows) {
            return REFUSE(r, 400, "unknown member \"%.64s\"; row, rows, top and id are accepted", key);
        }
    }
    r->single = row != NULL;
    r->rows = row ? row : rows;
    if (rows && (!json_is_array(rows) || json_array_size(rows) == 0)) {
        return REFUSE(r, 400, "\"rows\" is an array of one row or more");
    }
    r->count = row ? 1 : json_array_size(rows);
    if (r->count > r->options->rows) {
        return REFUSE(r, 413, "%zu rows; at most %u are accepted", r->count, r->options->rows);
    }
    return 1;
}

static int read_rows(request *r)
{
    struct serve_rows *to = r->worker->rows;
    to->count = 0;
    xsm_dataset_free(to->dataset);
    to->dataset = NULL;
    for (size_t i = 0; i < r->count; i++) {
        json_t *row = row_at(r, i);
        const enum form form = form_of(row);
        if (form == UNKNOWN) {
            return REFUSE(r, 400, "row %zu is neither %s nor %s nor %s", i, form_words[LINE], form_words[PAIRS],
                          form_words[VALUES]);
        }
        r->form = i == 0 ? form : r->form;
        if (form != r->form) {
            return REFUSE(r, 400, "row %zu is %s, and row 0 %s", i, form_words[form], form_words[r->form]);
        }
        if (!(form == LINE    ? append_line(r, json_string_value(row), json_string_length(row))
              : form == PAIRS ? append_pairs(r, i, row)
                              : append_values(r, i, row))) {
            return 0;
        }
    }
    return 1;
}

/* Dense rows as the model scores them. */
static int transform_values(request *r, xsm_batch *out)
{
    struct serve_rows *from = r->worker->rows;
    const xsm_model_info *info = r->worker->info;
    xsm_error err = XSM_ERROR_INIT;
    xsm_dense_rows rows = XSM_DENSE_ROWS_INIT;
    if (info->transform[0] == '\0') {
        *out = xsm_batch_values(from->values, r->count, info->features, info->features);
        return 1;
    }
    rows.values = from->values;
    rows.rows = r->count;
    rows.features = info->input_features;
    if (xsm_dataset_from_dense(from->context, &rows, &from->dataset, &err) != XSM_OK ||
        xsm_model_transform(r->worker->model, from->dataset, &err) != XSM_OK) {
        return library_refuses(r, &err);
    }
    *out = xsm_batch_range(from->dataset, 0, r->count);
    return 1;
}

static int predict(request *r)
{
    const serve_worker *w = r->worker;
    xsm_error err = XSM_ERROR_INIT;
    xsm_prediction prediction = XSM_PREDICTION_INIT;
    xsm_batch batch;
    if (r->form == VALUES) {
        if (!transform_values(r, &batch)) {
            return 0;
        }
    } else {
        batch = xsm_batch_sparse_values(w->rows->offsets, w->rows->index, w->rows->values, r->count, w->info->features);
    }
    prediction.batch = &batch;
    prediction.classes = w->classes;
    prediction.scores = w->scores;
    prediction.probabilities = w->probabilities;
    return xsm_predictor_run(w->predictor, &prediction, &err) == XSM_OK ? 1 : library_refuses(r, &err);
}

/* -- the answer ---------------------------------------------------------------------------------------------------- */

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

/* Adds a member, if there is memory for it; else frees the object. Returns the object, or NULL. */
static json_t *with(json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) == 0) {
        return object;
    }
    json_decref(object);
    return NULL;
}

static json_t *class_of(const serve_worker *w, size_t entry)
{
    const uint32_t k = w->classes[entry];
    json_t *one = with(json_object(), "class", number(k));
    if (w->map->names) {
        one = with(one, "name", json_string(w->map->names[k]));
    } else if (w->map->labels) {
        one = with(one, "label", json_integer((json_int_t)w->map->labels[k]));
    }
    one = with(one, "score", json_real((double)w->scores[entry]));
    return with(one, "probability", json_real(w->probabilities[entry]));
}

/* The array, or NULL if memory was lacking; as with(). */
static json_t *with_next(json_t *array, json_t *value)
{
    if (json_array_append_new(array, value) == 0) {
        return array;
    }
    json_decref(array);
    return NULL;
}

static json_t *best_of(const request *r, size_t row)
{
    json_t *best = json_array();
    for (uint32_t j = 0; j < r->top; j++) {
        best = with_next(best, class_of(r->worker, row * r->worker->top + j));
    }
    return best;
}

static serve_answer answer(const request *r)
{
    json_t *body = with(json_object(), "generation", number(r->worker->generation));
    if (r->id) {
        body = with(body, "id", json_incref(r->id));
    }
    if (r->single) {
        return (serve_answer){200, with(body, "best", best_of(r, 0))};
    }
    json_t *rows = json_array();
    for (size_t i = 0; i < r->count; i++) {
        rows = with_next(rows, best_of(r, i));
    }
    return (serve_answer){200, with(body, "rows", rows)};
}

serve_answer serve_predict(serve_worker *worker, const serve_options *options, const char *body, size_t length)
{
    request r = {.worker = worker, .options = options};
    json_error_t wrong;
    int lacking;
    json_t *root = parse(body, length, &wrong, &lacking);
    if (!root) {
        return lacking ? serve_refuse(503, "out of memory")
                       : serve_refuse(400, "the body is no JSON: line %d, column %d: %s", wrong.line, wrong.column,
                                      wrong.text);
    }
    const serve_answer made = read_members(&r, root) && read_rows(&r) && predict(&r) ? answer(&r) : r.refused;
    json_decref(root);
    return made;
}

static json_t *limits_of(const serve_worker *w, const serve_options *options)
{
    json_t *limits = with(json_object(), "top", number(w->top));
    limits = with(limits, "rows", number(options->rows));
    limits = with(limits, "body", number(options->body));
    limits = with(limits, "seconds", number(options->seconds));
    return with(limits, "connections", number(options->connections));
}

static json_t *metadata_of(const serve_worker *w)
{
    json_t *metadata = json_object();
    for (uint64_t i = 0; i < w->info->metadata_count; i++) {
        const char *key = w->info->metadata_keys[i], *value = xsm_model_get_metadata(w->model, key);
        metadata = with(metadata, key, text_of(value[0] == '/' ? serve_file_name(value) : value));
    }
    return metadata;
}

serve_answer serve_describe(const serve_worker *w, const serve_options *options)
{
    const xsm_model_info *info = w->info;
    json_t *body = with(json_object(), "generation", number(w->generation));
    body = with(body, "file", text_of(serve_file_name(options->path)));
    body = with(body, "classes", number(info->classes));
    body = with(body, "features", number(info->input_features));
    body = with(body, "hidden", number(info->hidden));
    body = with(body, "trees", number(info->trees));
    body = with(body, "transform", text_of(info->transform));
    body = with(body, "correction", text_of(correction_words[info->correction]));
    body = with(body, "bytes", number(info->bytes));
    body = with(body, "line",
                json_string(w->map->vocabulary                         ? "text"
                            : w->map->feature_names                    ? "columns by name"
                            : w->map->feature_numbers                  ? "features by number"
                            : w->map->index_base == XSM_INDEX_BASE_ONE ? "features from 1"
                                                                       : "features from 0"));
    body = with(body, "limits", limits_of(w, options));
    return (serve_answer){200, with(body, "metadata", metadata_of(w))};
}
