/* See rates.h. */
#include "rates.h"

enum { DECADES_BEYOND = 4 };

double rate_at(const rate_grid *grid, int index)
{
    if (grid->per_decade == 1) {
        return pow(10, index);
    }
    const int decade = index >= 0 ? index / 2 : (index - 1) / 2;
    return (index - 2 * decade ? 3 : 1) * pow(10, decade);
}

typedef struct finder {
    const rate_grid *grid;
    rate_trial trial;
    void *user;
    rate_search found;
    int low, high, best; /* indices */
    double loss;         /* at the best one */
} finder;

static void try_one(finder *f, int index)
{
    rate_search *s = &f->found;
    const double rate = rate_at(f->grid, index), loss = f->trial(f->user, rate);
    s->rate[s->count] = rate;
    s->loss[s->count++] = loss;
    if (isfinite(loss) && !(loss >= f->loss)) {
        f->loss = loss;
        f->best = index;
        s->best = rate;
    }
}

rate_search rate_find(const papers *p, const rate_grid *grid, const char *who, rate_trial trial, void *user)
{
    finder f = {grid, trial, user, {.best = PAPERS_NONE}, grid->first, grid->last, grid->last + 1, INFINITY};
    rate_search *s = &f.found;
    const int beyond = p->quick ? 0 : DECADES_BEYOND * grid->per_decade;
    for (int i = grid->last; i >= grid->first; i--) {
        try_one(&f, i);
    }
    while (f.low > grid->first - beyond && (f.best == f.low || !isfinite(s->best))) {
        try_one(&f, --f.low);
    }
    while (f.high < grid->last + beyond && f.best == f.high) {
        try_one(&f, ++f.high);
    }
    s->least = rate_at(grid, f.low);
    s->most = rate_at(grid, f.high);
    const bool inside = isfinite(s->best) && f.best > f.low && f.best < f.high;
    if (f.low < grid->first || f.high > grid->last) {
        papers_say("    %s: rates from %g to %g were not enough; tried %g to %g, best %g", who,
                   rate_at(grid, grid->first), rate_at(grid, grid->last), s->least, s->most, s->best);
    }
    if (!inside && !p->quick) {
        papers_say("    %s: the best rate lies at the end of the grid", who);
    }
    return *s;
}
