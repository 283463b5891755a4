/* What the parts of the trial of an index share: what the table does wrong, and what a score must be. */
#include "check/index_check.h"

#include <math.h>

xsm_status xsmi_index_fault(const xsmi_index_trial *p, xsm_error *err, const char *format, ...)
{
    char what[160];
    va_list args;
    va_start(args, format);
    xsmi_format_line(what, sizeof what, format, args);
    va_end(args);
    return xsmi_fail(err, XSM_ERROR_DATA, "index '%s', %u rows of %u numbers%s%s%s: %s", p->ops->name, p->rows,
                     p->width, p->kind & XSMI_TRIAL_BIASED ? " with a bias" : "",
                     p->kind & XSMI_TRIAL_EQUAL ? ", some equal" : "",
                     p->kind & XSMI_TRIAL_ZEROS ? ", some of zeros" : "", what);
}

double xsmi_index_trial_score(const xsmi_index_trial *p, uint32_t query, uint32_t k, double *size)
{
    double sum = p->kind & XSMI_TRIAL_BIASED ? (double)p->bias[k] : 0, row_square = 1, query_square = 1;
    for (uint32_t j = 0; j < p->width; j++) {
        double a = (double)p->x[(size_t)k * p->width + j], b = (double)p->queries[query * p->width + j];
        sum += a * b;
        row_square += a * a;
        query_square += b * b;
    }
    *size = sqrt(row_square * query_square);
    return sum;
}
