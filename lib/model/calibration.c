/*
 * The calibration of a model: sums over tiles of scaled scores, the calibration's text in a file, and its public
 * functions.
 */
#include "model/calibration.h"
#include "base/entry.h"
#include "base/option.h"
#include "kernels/arithmetic.h"
#include "model/model.h"

#include <stdio.h>
#include <string.h>

const char *const xsmi_link_words[2] = {[XSM_LINK_SOFTMAX] = "softmax", [XSM_LINK_SIGMOID] = "sigmoid"};
static const char *const names[] = {[XSM_CALIBRATION_TEMPERATURE] = "temperature", [XSM_CALIBRATION_LABELS] = "labels"};

/* -- sums over tiles ----------------------------------------------------------------------------------------------- */

/* Copies a tile times a factor; returns the number of floats. */
static size_t copy_scaled(const xsmi_kernels *kernels, const xsmi_tile *tile, float scale, float *out)
{
    const size_t count = tile->lanes ? (size_t)tile->count * XSMI_LANES : tile->count;
    memcpy(out, tile->scores, count * sizeof *out);
    kernels->scale(out, count, scale);
    return count;
}

void xsmi_add_exponentials(const xsmi_kernels *kernels, const xsmi_tile *tile, size_t rows, float scale, float *max,
                           double *sum, float *scratch)
{
    const size_t count = copy_scaled(kernels, tile, scale, scratch);
    if (tile->lanes) {
        xsmi_reduction r = {.max = max, .sum = sum, .lanes = rows};
        kernels->reduce_tile(scratch, tile->count, tile->first, &r);
        return;
    }
    const float before = max[tile->row], here = kernels->row_max(scratch, count);
    if (here != here) {
        sum[tile->row] = NAN; /* it stays NaN, as later sums are added to it */
        return;
    }
    const float most = here > before ? here : before;
    /* If every score is -INFINITY, shifting by 0 gives exponentials of 0, not NaN. */
    const float shift = most == -INFINITY ? 0.0f : most;
    const double kept = sum[tile->row] * (double)xsmi_expf0(before - shift);
    sum[tile->row] = kept + kernels->row_sum_exp(scratch, count, shift);
    max[tile->row] = most;
}

void xsmi_add_branches(const xsmi_kernels *kernels, const xsmi_tile *tile, size_t rows, const xsmi_calibration *c,
                       double *sum, float *scratch)
{
    const size_t count = copy_scaled(kernels, tile, (float)c->scale, scratch);
    float *left = scratch + XSMI_TILE_FLOATS, *right = left + XSMI_TILE_FLOATS, *rest = right + XSMI_TILE_FLOATS;
    for (size_t i = 0; i < count; i++) {
        scratch[i] += (float)c->shift;
    }
    kernels->logistics(scratch, count, left, right, rest);
    const size_t step = tile->lanes ? XSMI_LANES : 1, first = tile->lanes ? 0 : tile->row;
    const size_t end = tile->lanes ? rows : tile->row + 1;
    for (size_t row = first; row < end; row++) {
        double all = 0;
        for (size_t at = row - first; at < count; at += step) {
            const float z = scratch[at];
            all += (double)(z < 0 ? 0.0f : z) + (double)rest[at]; /* NaN stays NaN */
        }
        sum[row] += all;
    }
}

/* -- in a file ----------------------------------------------------------------------------------------------------- */

void xsmi_calibration_describe(const xsmi_calibration *c, char *text, size_t size)
{
    char scale[32], shift[32];
    xsmi_print_double(c->scale, 0, scale, sizeof scale);
    xsmi_print_double(c->shift, 0, shift, sizeof shift);
    const bool shifted = c->method == XSM_CALIBRATION_LABELS;
    snprintf(text, size, "%s %s%s%s", names[c->method], scale, shifted ? " " : "", shifted ? shift : "");
}

bool xsmi_calibration_parse(const char *text, xsmi_calibration *c)
{
    char copy[XSMI_CALIBRATION_TEXT], *word[3] = {copy, NULL, NULL};
    const size_t length = strlen(text);
    if (length >= sizeof copy) {
        return false;
    }
    memcpy(copy, text, length + 1);
    size_t words = 1;
    for (char *p = copy; (p = strchr(p, ' ')) != NULL && words < 3;) {
        *p++ = '\0';
        word[words++] = p;
    }
    *c = (xsmi_calibration){.method = XSM_CALIBRATION_NONE};
    for (int32_t method = XSM_CALIBRATION_TEMPERATURE; method <= XSM_CALIBRATION_LABELS; method++) {
        c->method = strcmp(word[0], names[method]) == 0 ? method : c->method;
    }
    if (words != (c->method == XSM_CALIBRATION_LABELS ? 3 : 2) || !xsmi_parse_double(word[1], &c->scale) ||
        (words == 3 && !xsmi_parse_double(word[2], &c->shift))) {
        return false;
    }
    c->scale = xsmi_as_float(c->scale);
    c->shift = xsmi_as_float(c->shift);
    return xsmi_calibration_is_valid(c);
}

/* -- public -------------------------------------------------------------------------------------------------------- */

xsm_status xsm_model_set_calibration(xsm_model *m, const xsm_calibration *calibration, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {m, "the model"});
    xsm_calibration given = XSM_CALIBRATION_INIT;
    XSMI_TRY(XSMI_READ(xsm_calibration, &given, calibration, err));
    XSMI_TRY(XSMI_CHECK_ZERO(xsm_calibration, &given, reserved, err));
    const xsmi_calibration c = {given.method, xsmi_as_float(given.scale), xsmi_as_float(given.shift)};
    if (c.method == XSM_CALIBRATION_NONE && c.scale == 1 && c.shift == 0) {
        xsmi_model_drop_calibration(m);
        return XSM_OK;
    }
    if (!xsmi_calibration_is_valid(&c)) {
        return xsmi_fail(
            err, XSM_ERROR_RANGE,
            "a calibration of method %d, scale %g and shift %g; accepted are an XSM_CALIBRATION_* value but "
            "AUTO, %g to %g, and a finite number, 0 except for XSM_CALIBRATION_LABELS",
            c.method, c.scale, c.shift, XSMI_CALIBRATION_LEAST, XSMI_CALIBRATION_MOST);
    }
    XSMI_TRY(xsmi_model_check_calibratable(m, c.method, err));
    xsmi_model_put_calibration(m, c);
    return XSM_OK;
}

xsm_status xsm_model_set_link(xsm_model *m, int32_t link, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {m, "the model"});
    if (link != XSM_LINK_SOFTMAX && link != XSM_LINK_SIGMOID) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "link %d is no XSM_LINK_* value", link);
    }
    if (link == XSM_LINK_SIGMOID && xsmi_model_nodes(m)) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "%s", xsmi_model_nodes(m)->why_softmax);
    }
    xsmi_model_put_link(m, link);
    return XSM_OK;
}

xsm_status xsm_model_get_calibration(const xsm_model *m, xsm_calibration *calibration, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {m, "the model"});
    const bool own = xsmi_calibration_is_link(&m->calibration, m->link);
    const xsm_calibration have = {.size = sizeof have,
                                  .method = own ? XSM_CALIBRATION_NONE : m->calibration.method,
                                  .scale = m->calibration.scale,
                                  .shift = m->calibration.shift};
    return XSMI_WRITE(xsm_calibration, &have, calibration, err);
}

xsm_status xsmi_model_check_calibratable(const xsm_model *m, int32_t method, xsm_error *err)
{
    const xsmi_head_of_nodes *nodes = xsmi_model_nodes(m);
    return nodes ? nodes->check_calibration(m->head, method, err) : XSM_OK;
}
