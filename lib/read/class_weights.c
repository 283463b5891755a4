/* Weights of labels by their classes: computed from how often the classes occur, or read from a file with a label and
 * its weight in each line. */
#include "base/activity.h"
#include "base/entry.h"
#include "base/option.h"
#include "data/dictionary.h"
#include "base/utf8.h"
#include "math/propensity.h"
#include "read/number.h"
#include "read/reader.h"
#include "read/source.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <xsoftmax/dataset_weights.h>

/* -- from the counts ----------------------------------------------------------------------------------------------- */

static void balance(const xsm_dataset *d, float *weights)
{
    double labels = 0, classes = 0;
    for (uint32_t k = 0; k < d->classes; k++) {
        labels += (double)d->map.counts[k];
        classes += d->map.counts[k] > 0;
    }
    for (uint32_t k = 0; k < d->classes; k++) {
        const double count = (double)d->map.counts[k];
        weights[k] = count > 0 ? (float)(labels / (classes * count)) : 1;
    }
}

static void invert_propensities(const xsm_dataset *d, double a, double b, float *weights)
{
    for (uint32_t k = 0; k < d->classes; k++) {
        weights[k] = (float)xsmi_inverse_propensity((double)d->map.counts[k], (double)d->rows, a, b);
    }
}

/* -- from a file --------------------------------------------------------------------------------------------------- */

typedef struct weight_file {
    const xsm_dataset *data;
    xsmi_lines lines;
    xsmi_dictionary names;
    xsmi_dictionary numbers; /* of names that are whole numbers; the mark is the first such class */
    float *weights;
} weight_file;

static xsm_status fail_line(const weight_file *f, const char *text, size_t length, const char *what, xsm_error *err)
{
    char quote[XSMI_QUOTE_SIZE];
    return xsmi_fail_at(err, XSM_ERROR_FORMAT, f->lines.line, 1, "%s, line %llu, column 1: %s %s",
                        f->lines.source->name, (unsigned long long)f->lines.line, xsmi_quote(quote, text, length),
                        what);
}

/* Whether the labels of classes are words (data/match.c). */
static bool are_words(const xsm_dataset *d)
{
    return d->map.names && !d->map.labels;
}

/* Returns the class that a label names; XSM_CLASS_UNSEEN if there is none. */
static uint32_t class_of(const weight_file *f, const char *text, size_t length)
{
    const xsm_dataset *d = f->data;
    const char *end = text;
    int64_t label;
    if (are_words(d)) {
        char number[24];
        uint32_t id = xsmi_dictionary_find_word(&f->names, text, length);
        if (id == UINT32_MAX && xsmi_whole_number(text, length, &label)) {
            snprintf(number, sizeof number, "%" PRId64, label);
            id = xsmi_dictionary_find_word(&f->names, number, strlen(number));
            const uint32_t other = id == UINT32_MAX ? xsmi_dictionary_find_number(&f->numbers, label) : UINT32_MAX;
            id = other == UINT32_MAX ? id : (uint32_t)f->numbers.entries[other].mark;
        }
        return id != UINT32_MAX ? id : XSM_CLASS_UNSEEN;
    }
    if (xsmi_parse_integer(text, &end, &label) != XSMI_NUMBER_OK || end != text + length) {
        return XSM_CLASS_UNSEEN;
    }
    return xsmi_class_of_number(d->map.labels, d->classes, label);
}

static xsm_status read_line(weight_file *f, const char *text, size_t length, xsm_error *err)
{
    size_t end = length;
    while (end > 0 && xsmi_is_space(text[end - 1])) {
        end--;
    }
    size_t number = end;
    while (number > 0 && !xsmi_is_space(text[number - 1])) {
        number--;
    }
    size_t label = number;
    while (label > 0 && xsmi_is_space(text[label - 1])) {
        label--;
    }
    float weight;
    const char *stop = text;
    size_t first = 0;
    while (first < label && xsmi_is_space(text[first])) {
        first++;
    }
    if (label == 0 || xsmi_parse_float(text + number, &stop, &weight) != XSMI_NUMBER_OK || stop != text + end ||
        !(weight >= 0)) {
        return fail_line(f, text, length,
                         "is no label with a weight; 'LABEL WEIGHT' with a finite weight of 0 or more "
                         "is accepted",
                         err);
    }
    const uint32_t k = class_of(f, text + first, label - first);
    if (k == XSM_CLASS_UNSEEN) {
        return fail_line(f, text + first, label - first,
                         are_words(f->data)   ? "is the name of no label of the rows"
                         : f->data->map.names ? "is no label of the rows, which are numbers with names"
                                              : "is no label of the rows",
                         err);
    }
    if (!isnan(f->weights[k])) {
        return fail_line(f, text + first, label - first, "has a weight already; one line for each label is accepted",
                         err);
    }
    f->weights[k] = weight;
    return XSM_OK;
}

static xsm_status read_lines(weight_file *f, xsm_error *err)
{
    const xsm_dataset *d = f->data;
    for (uint32_t k = 0; k < d->classes; k++) {
        uint32_t id;
        int64_t whole;
        f->weights[k] = NAN; /* no line yet */
        if (are_words(d)) {
            const size_t length = strlen(d->map.names[k]);
            XSMI_TRY(xsmi_dictionary_word(&f->names, d->map.names[k], length, &id, err));
            if (id != k) {
                return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                                 "classes %u and %u are both named '%.40s'; a file of weights "
                                 "cannot tell them apart",
                                 id, k, d->map.names[k]);
            }
            if (xsmi_whole_number(d->map.names[k], length, &whole)) {
                const uint32_t before = f->numbers.count;
                XSMI_TRY(xsmi_dictionary_number(&f->numbers, whole, &id, err));
                f->numbers.entries[id].mark = id == before ? k : f->numbers.entries[id].mark;
            }
        }
    }
    for (;;) {
        char *text;
        size_t length;
        XSMI_TRY(xsmi_lines_next(&f->lines, &text, &length, err));
        if (!text) {
            break;
        }
        XSMI_TRY(read_line(f, text, length, err));
    }
    for (uint32_t k = 0; k < d->classes; k++) {
        f->weights[k] = isnan(f->weights[k]) ? 1 : f->weights[k];
    }
    return XSM_OK;
}

static xsm_status read_file(const xsm_dataset *d, const char *path, float *weights, xsm_error *err)
{
    weight_file f = {.data = d, .weights = weights};
    xsmi_source source;
    xsmi_dictionary_start(&f.names, d->context, true);
    xsmi_dictionary_start(&f.numbers, d->context, false);
    xsm_status status = xsmi_source_open_file(&source, d->context, path, err);
    if (status == XSM_OK) {
        xsmi_lines_start(&f.lines, &source);
        status = read_lines(&f, err);
    }
    xsmi_lines_end(&f.lines);
    xsmi_source_close(&source);
    xsmi_dictionary_end(&f.names);
    xsmi_dictionary_end(&f.numbers);
    return status;
}

/* -- all ----------------------------------------------------------------------------------------------------------- */

static xsm_status read_options(const xsm_class_weights *given, xsm_class_weights *o, xsm_error *err)
{
    XSMI_TRY(XSMI_READ(xsm_class_weights, o, given, err));
    XSMI_TRY(XSMI_CHECK_ZERO(xsm_class_weights, o, reserved, err));
    XSMI_TRY(xsmi_propensity_options(&o->propensity_a, &o->propensity_b, XSMI_DEFAULT(xsm_class_weights, propensity_a),
                                     XSMI_DEFAULT(xsm_class_weights, propensity_b), err));
    if (o->method < XSM_CLASS_WEIGHTS_BALANCED || o->method > XSM_CLASS_WEIGHTS_GIVEN) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "xsm_class_weights.method is %d; an XSM_CLASS_WEIGHTS_* value (1 to %d) is "
                         "accepted",
                         (int)o->method, XSM_CLASS_WEIGHTS_GIVEN);
    }
    const bool given_by = o->weights || o->path;
    if (given_by != (o->method == XSM_CLASS_WEIGHTS_GIVEN) || (o->weights && o->path)) {
        return xsmi_fail(
            err, XSM_ERROR_ARGUMENT,
            "xsm_class_weights: weights, or the path of a file, are of XSM_CLASS_WEIGHTS_GIVEN, which needs "
            "one of them");
    }
    return XSM_OK;
}

/* Labels between two polls. */
enum { LABELS_TOGETHER = 1 << 16 };

/* Multiplies the weights of all labels by those of their classes. */
static xsm_status multiply(xsm_dataset *d, const float *by_class, xsm_error *err)
{
    const uint64_t labels = d->label_offsets[d->rows];
    xsm_status status = XSM_OK;
    size_t capacity = 0;
    double sum = 0;
    float *weights = xsmi_dataset_allocate(d, labels, sizeof *weights, &capacity, &status, err);
    XSMI_TRY(status);
    for (uint64_t i = 0; i < labels; i++) {
        const float own = d->label_weights ? d->label_weights[i] : 1;
        weights[i] = d->labels[i] < d->classes ? own * by_class[d->labels[i]] : own;
        sum += (double)weights[i];
        if (i % LABELS_TOGETHER == 0 && xsmi_poll(d->context)) {
            break;
        }
    }
    status = xsmi_go_on(d->context, err);
    status = status == XSM_OK ? xsmi_check_weights(weights, labels, "labels", err) : status;
    if (status == XSM_OK && labels > 0 && sum == 0) {
        status = xsmi_fail(err, XSM_ERROR_DATA,
                           "the weights of all labels of the rows are 0: nothing would be learnt; "
                           "one class that occurs needs a weight above 0");
    }
    if (status != XSM_OK) { /* a product is too large, or the call was cancelled */
        xsmi_release(d->context, weights, capacity, sizeof *weights);
        return status;
    }
    xsmi_dataset_take_label_weights(d, weights, capacity);
    return XSM_OK;
}

xsm_status xsm_dataset_weigh_classes(xsm_dataset *d, const xsm_class_weights *given, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {d, "dataset"}, {given, "weights"});
    xsm_class_weights o = XSM_CLASS_WEIGHTS_INIT;
    XSMI_TRY(read_options(given, &o, err));
    const size_t expected = o.weights ? d->classes : 0;
    if (o.count != expected) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "xsm_class_weights.count is %zu; %zu is accepted, %s", o.count, expected,
                         o.weights ? "the number of classes" : "without weights");
    }
    float *weights;
    XSMI_TRY(xsmi_array_new(d->context, &weights, d->classes, sizeof *weights, "the weights of classes", err));
    xsm_status status = XSM_OK;
    xsmi_activity activity;
    xsmi_begin(&activity, d->context, "weighing labels", "labels", 0);
    if (o.method == XSM_CLASS_WEIGHTS_BALANCED) {
        balance(d, weights);
    } else if (o.method == XSM_CLASS_WEIGHTS_PROPENSITY) {
        invert_propensities(d, o.propensity_a, o.propensity_b, weights);
    } else if (o.path) {
        status = read_file(d, o.path, weights, err);
    } else {
        memcpy(weights, o.weights, d->classes * sizeof *weights);
        status = xsmi_check_weights(weights, d->classes, "classes", err);
    }
    status = xsmi_end(&activity, status == XSM_OK ? multiply(d, weights, err) : status, err);
    xsmi_release(d->context, weights, d->classes, sizeof *weights);
    return status;
}
