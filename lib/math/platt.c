#include "math/platt.h"

#include <math.h>
#include <string.h>

/* The fit ends when a step lowers the log-loss by less than this share of it: the errors of float32 scores are
 * larger. */
#define LEAST_GAIN 1e-9
/* The shortest part of a step that is tried. */
#define LEAST_LENGTH 1e-6

static void newton_step(const double *f, double step[2])
{
    const double determinant = f[XSMI_SCALE_SCALE] * f[XSMI_SHIFT_SHIFT] - f[XSMI_SCALE_SHIFT] * f[XSMI_SCALE_SHIFT];
    step[0] = 0;
    step[1] = f[XSMI_SHIFT_SHIFT] > 0 ? -f[XSMI_BY_SHIFT] / f[XSMI_SHIFT_SHIFT] : 0;
    if (determinant > 1e-12 * f[XSMI_SCALE_SCALE] * f[XSMI_SHIFT_SHIFT]) { /* else all scores are the same */
        step[0] = (f[XSMI_SCALE_SHIFT] * f[XSMI_BY_SHIFT] - f[XSMI_SHIFT_SHIFT] * f[XSMI_BY_SCALE]) / determinant;
        step[1] = (f[XSMI_SCALE_SHIFT] * f[XSMI_BY_SCALE] - f[XSMI_SCALE_SCALE] * f[XSMI_BY_SHIFT]) / determinant;
    }
}

xsm_status xsmi_platt_fit(const xsmi_platt *p, double at[2], double sums[XSMI_PLATT_SUMS], double *before,
                          uint32_t *passes, xsm_error *err)
{
    XSMI_TRY(p->pass(p->state, at, sums, err));
    *before = sums[XSMI_LOSS];
    for (*passes = 1; *passes < p->passes;) {
        double step[2], tried[2], next[XSMI_PLATT_SUMS], gain = -INFINITY;
        newton_step(sums, step);
        /* On a parabola a whole step gains half of this. */
        if (!(-(sums[XSMI_BY_SCALE] * step[0] + sums[XSMI_BY_SHIFT] * step[1]) > 2 * LEAST_GAIN * sums[XSMI_LOSS])) {
            break;
        }
        /* A step that does not lower the log-loss is halved. */
        for (double length = 1; *passes < p->passes && !(gain >= 0) && length > LEAST_LENGTH; length /= 2) {
            tried[0] = at[0] + length * step[0];
            tried[1] = at[1] + length * step[1];
            if (tried[0] >= p->least && tried[0] <= p->most) {
                XSMI_TRY(p->pass(p->state, tried, next, err));
                ++*passes;
                gain = sums[XSMI_LOSS] - next[XSMI_LOSS];
            }
        }
        if (gain >= 0) {
            memcpy(at, tried, sizeof tried);
            memcpy(sums, next, sizeof next);
        }
        if (!(gain > LEAST_GAIN * sums[XSMI_LOSS])) {
            break;
        }
    }
    return XSM_OK;
}
