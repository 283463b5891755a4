/*
 * Successive halving (Jamieson and Talwalkar, Non-stochastic best arm identification and hyperparameter optimization,
 * 2016) over a logarithmic grid (the rates of Fagan and Iyengar 2018, section 4).
 *
 * The first round tries a grid with a small budget. Values are assumed to have one minimum on the scale. So the best
 * point and its two neighbours go on to the next round with a larger budget, and the best with its better neighbour to
 * the last round. As long as the best point of a round is at an end of the points tried, the next point is tried, too.
 * With a single round, this is a search for a bracket from two starting points.
 */
#include "auto/search.h"

#include "base/order.h"

#include <math.h>

double xsmi_scale_search_value(const xsmi_scale_search *s, uint32_t round, int point)
{
    return point < s->scale->least || point > s->scale->most ? (double)INFINITY
                                                             : s->value[round][point - s->scale->least];
}

int xsmi_scale_search_second(const xsmi_scale_search *s, uint32_t round)
{
    const int best = s->best[round];
    return xsmi_scale_search_value(s, round, best - 1) < xsmi_scale_search_value(s, round, best + 1) ? best - 1
                                                                                                     : best + 1;
}

static xsm_status attempt(xsmi_scale_search *s, int point, xsm_error *err)
{
    double value = (double)INFINITY;
    XSMI_TRY(s->scale->attempt(s->user, point, &value, err));
    s->value[s->round][point - s->scale->least] = value;
    s->low = XSMI_MIN(point, s->low);
    s->high = XSMI_MAX(point, s->high);
    int *best = &s->best[s->round];
    const double least = xsmi_scale_search_value(s, s->round, *best);
    *best = value < least || (value == least && isfinite(value) && point < *best) ? point : *best;
    return XSM_OK;
}

/* Makes the trials that are planned for the round. */
static xsm_status plan(xsmi_scale_search *s, xsm_error *err)
{
    int first = s->scale->first, last = s->scale->last;
    if (s->round > 0) {
        const bool both = s->round + 1 < s->scale->rounds;
        const int best = s->best[s->round - 1], second = xsmi_scale_search_second(s, s->round - 1);
        first = both || second < best ? best - 1 : best;
        last = both || second > best ? best + 1 : best;
        s->low = s->high = best;
        XSMI_TRY(attempt(s, best, err));
    }
    for (int point = first; point <= last; point++) {
        const bool planned = s->round == 0 || (point != s->best[s->round - 1] && point >= s->scale->least &&
                                               point <= s->scale->most && s->scale->allows(s->user, point, true));
        XSMI_TRY(planned ? attempt(s, point, err) : XSM_OK);
    }
    return XSM_OK;
}

/* Tries points beyond the ends as long as the best is there, and lower points as long as all diverge. */
static xsm_status extend(xsmi_scale_search *s, xsm_error *err)
{
    for (;;) {
        const int best = s->best[s->round];
        const bool lost = best == XSMI_NOWHERE;
        const bool down = (lost || best == s->low) && s->low > s->scale->least;
        const bool up = best == s->high && s->high < s->scale->most;
        const int next = down ? s->low - 1 : s->high + 1;
        if (!(down || up) || !s->scale->allows(s->user, next, false)) {
            return XSM_OK;
        }
        XSMI_TRY(attempt(s, next, err));
    }
}

xsm_status xsmi_scale_search_run(xsmi_scale_search *s, const xsmi_scale *scale, void *user, xsm_error *err)
{
    *s = (xsmi_scale_search){.scale = scale, .user = user, .low = INT_MAX, .high = INT_MIN};
    for (uint32_t round = 0; round < XSMI_SEARCH_ROUNDS; round++) {
        s->best[round] = XSMI_NOWHERE;
        for (int i = 0; i < XSMI_SEARCH_POINTS; i++) {
            s->value[round][i] = (double)INFINITY;
        }
    }
    for (s->round = 0; s->round < scale->rounds; s->round++) {
        XSMI_TRY(scale->begin ? scale->begin(user, s->round, err) : XSM_OK);
        XSMI_TRY(plan(s, err));
        XSMI_TRY(extend(s, err));
        if (s->best[s->round] == XSMI_NOWHERE) {
            break;
        }
    }
    return XSM_OK;
}
