/*
 * The race: entrants, which are lines of the portfolio with settings, are trained on a share of the rows, which doubles
 * from round to round, and judged by the same rows. A curve through the last two shares predicts each entrant's loss
 * with all rows; entrants that cannot win are dropped. Rates and other settings are searched on the first share, and
 * adjusted on later ones.
 *
 * The curve: with each doubling, a loss falls by the last fall times a ratio of at most one, which three shares
 * determine; for a + b n^-c it is constant. The prediction is linear in a row's losses, so two entrants can be compared
 * row by row. The standard error of the mean difference grows with the distance to all rows, and shrinks with the
 * number of judging rows.
 *
 * Unless there is a time budget, counts of work decide how long the race is: choice and run together take one and a
 * half times as long as the run, or a few seconds.
 */
#include "auto/choose.h"

#include "base/order.h"

#include <limits.h>
#include <math.h>

/* The choice may take OF_RUN of the time of the run that it chooses; choice and run may always take FREE_SECONDS. With
 * a time budget, the choice may take OF_BUDGET of it, or leave RUNS_LEFT times the time of that run, for a longer run
 * or more label trees. */
#define OF_RUN 0.5
#define FREE_SECONDS 3.0
#define OF_BUDGET 0.35
#define RUNS_LEFT 4.0
/* The first round searches settings: the share of the choice's time that it is planned for, the share that it may take
 * at most, the trials of a line in it, and the least number of rows of a share. */
#define OF_FIRST (1.0 / 3)
#define FIRST_MOST 0.5
enum { FIRST_TRIALS = 5, ROWS_LEAST = 500 };
/* The ratio of a fall to the one before it until three shares determine it: all further falls together are then as
 * large as the last one. */
#define USUAL_RATIO 0.5
/* A setting that is worse by this many standard errors cannot win. */
#define BEHIND 2.0
/* The number of settings of a line that go on to the next round. */
enum { GO_ON = 2 };
/* The most points of a rate or a ridge beyond the first one, and how often runs get three times longer; with a time
 * budget. */
enum { POINTS = 20, LONGER = 1, LONGER_BUDGET = 4 };

/* -- curves -------------------------------------------------------------------------------------------------------- */

/* Return the difference of two entrants on the present share, and as predicted with all rows. */
static xsmi_gap gap_now(const xsmi_chooser *c, const xsmi_entrant *a, const xsmi_entrant *b)
{
    return xsmi_race_gap(a->now, b->now, xsmi_race_judged(c));
}

static xsmi_gap gap_in_the_end(const xsmi_chooser *c, const xsmi_entrant *a, const xsmi_entrant *b)
{
    return xsmi_race_compare(&(xsmi_row_losses){a->now, a->before, a->gain, a->lead},
                             &(xsmi_row_losses){b->now, b->before, b->gain, b->lead}, xsmi_race_judged(c));
}

static double mean_of(const float *losses, size_t count)
{
    double sum = 0, n = 0;
    for (size_t i = 0; i < count; i++) {
        sum += isnan(losses[i]) ? 0 : (double)losses[i];
        n += !isnan(losses[i]);
    }
    return sum / n;
}

/* Fits the curve to the entrant's shares. */
static void predict(const xsmi_chooser *c, xsmi_entrant *e)
{
    const double all = c->rows.halved ? (double)c->rows.most : (double)c->train->rows;
    const double left = log2(all / (double)e->rows);
    e->gain = e->lead = e->last_fall = 0;
    e->loss = e->predicted = mean_of(e->now, xsmi_race_judged(c));
    if (e->rows_before == 0 || left <= 0) {
        return;
    }
    const double doublings = log2((double)e->rows / (double)e->rows_before);
    const xsmi_gap last = xsmi_race_gap(e->before, e->now, xsmi_race_judged(c));
    e->last_fall = last.difference / doublings;
    if (e->last_fall > 0) {
        const double ratio = e->fall > 0 ? fmin(e->last_fall / e->fall, 1) : USUAL_RATIO;
        e->gain = (ratio < 1 ? ratio * (1 - pow(ratio, left)) / (1 - ratio) : left) / doublings;
        e->predicted = fmax(e->loss - e->gain * last.difference, 0); /* no measure is below 0 */
    }
}

/* -- entrants ------------------------------------------------------------------------------------------------------ */

static bool is_run(const xsmi_chooser *c, const xsmi_entrant *e)
{
    return e->rows == c->rows.share && e->folds > c->rows.part && !e->diverged;
}

/* Returns the entrant of a line with the best prediction; NULL: of all lines. */
static xsmi_entrant *best_of(xsmi_chooser *c, const xsmi_line *line)
{
    xsmi_entrant *best = NULL;
    for (size_t i = 0; i < c->entrant_count; i++) {
        xsmi_entrant *e = &c->entrants[i];
        const bool counts = (!line || e->line == line) && !e->out && !e->diverged && e->rows > 0;
        const bool better =
            !best || e->predicted < best->predicted || (e->predicted == best->predicted && e->loss < best->loss);
        best = counts && better ? e : best;
    }
    return best;
}

static double trial_seconds(const xsmi_chooser *c, const xsmi_entrant *e, double rows)
{
    const double longer = (double)xsmi_race_passes(c, e, (uint64_t)rows) / (double)e->line->epochs;
    return longer * xsmi_line_seconds(c, e->line, rows, 0) +
           xsmi_line_seconds(c, e->line, 0, (double)xsmi_race_judged(c) / (double)c->rows.parts);
}

static double run_seconds(const xsmi_chooser *c, const xsmi_entrant *e)
{
    const double longer = (double)xsmi_race_epochs(e) / (double)e->line->epochs;
    return longer * xsmi_line_seconds(c, e->line, (double)c->train->rows, 0);
}

/* Returns the seconds that the choice may take if the run takes `run` seconds. A choice of n-grams may take OF_RUN of
 * them, as another choice follows it. */
static double allowance(const xsmi_chooser *c, double run)
{
    const double part = c->text_count > 0 ? OF_RUN : 1, seconds = c->options.seconds;
    const double spare = c->text_count > 0 ? 0 : seconds - RUNS_LEFT * run;
    return part * (seconds > 0 ? fmax(OF_BUDGET * seconds, spare) : fmax(OF_RUN * run, FREE_SECONDS - run));
}

/* Returns how many parts, from the present one on, judge a trial on `rows` rows. */
static uint64_t parts_of(const xsmi_chooser *c, uint64_t rows)
{
    return rows < c->rows.most ? 1 : XSMI_MIN(c->rows.together, c->rows.parts - c->rows.part);
}

/* Whether there is time for a trial. The first trial of a line in a round, and every trial before there is a leader,
 * may take the time that its own run allows, because it may turn out to be the best one; in the first two rounds, after
 * which each line has a curve, twice that or twice FREE_SECONDS. */
static bool is_affordable(xsmi_chooser *c, const xsmi_entrant *e, double rows)
{
    const xsmi_entrant *leader = best_of(c, NULL), *line = best_of(c, e->line);
    const double run = run_seconds(c, e), other = leader ? run_seconds(c, leader) : run;
    const bool ends = !(c->options.seconds > 0) || run <= c->options.seconds - c->elapsed || c->line_count == 1;
    const bool first = !line || line->rows < (uint64_t)rows;
    const double most = c->options.seconds > 0 ? allowance(c, fmax(run, other))
                        : first                ? fmax(allowance(c, run), allowance(c, other))
                                               : allowance(c, other);
    const bool early = first && c->result->info.rounds <= 1 && !(c->options.seconds > 0);
    const double part = first || e->rows > 0 || c->result->info.rounds > 0 ? 1 : FIRST_MOST;
    return ends && c->elapsed + (double)parts_of(c, (uint64_t)rows) * trial_seconds(c, e, rows) <=
                       (early ? 2 * fmax(most, FREE_SECONDS) : part * most);
}

/* Finds the entrant with these settings, or makes it. */
static xsm_status entrant_of(xsmi_chooser *c, const xsmi_entrant *like, xsmi_entrant **out, xsm_error *err)
{
    for (size_t i = 0; i < c->entrant_count; i++) {
        xsmi_entrant *e = &c->entrants[i];
        if (e->line == like->line && e->transform == like->transform && e->rate == like->rate &&
            e->ridge == like->ridge && e->longer == like->longer) {
            *out = e;
            return XSM_OK;
        }
    }
    *out = &c->entrants[c->entrant_count];
    **out = (xsmi_entrant){.line = like->line,
                           .transform = like->transform,
                           .rate = like->rate,
                           .ridge = like->ridge,
                           .longer = like->longer,
                           .trial = UINT64_MAX};
    const size_t judged = xsmi_race_judged(c);
    (*out)->now = xsmi_allocate(c->runner.context, judged, sizeof *(*out)->now);
    (*out)->before = xsmi_allocate(c->runner.context, judged, sizeof *(*out)->before);
    c->entrant_count++;
    return (*out)->now && (*out)->before ? XSM_OK : xsmi_fail_memory(err, 2 * judged * sizeof(float), "an entrant");
}

/* Trains and judges an entrant on the present share, unless that has been done or there is no time. */
static xsm_status attempt(xsmi_chooser *c, xsmi_entrant *e, bool *ran, xsm_error *err)
{
    *ran = false;
    if (c->late || e->out || (e->rows == c->rows.share && e->folds > c->rows.part)) {
        return XSM_OK;
    }
    if (!is_affordable(c, e, (double)c->rows.share)) {
        c->cut_trials = c->options.seconds > 0;
        return XSM_OK;
    }
    if (c->options.seconds > 0 && c->text_count == 0) {
        const xsmi_entrant *leader = best_of(c, NULL);
        const double run = fmax(run_seconds(c, e), leader ? run_seconds(c, leader) : 0);
        c->runner.deadline = fmax(c->options.seconds / 2, c->options.seconds - RUNS_LEFT / 2 * run);
    }
    const uint64_t first = c->rows.part, before = c->result->info.trials;
    const uint64_t end = first + parts_of(c, c->rows.share);
    for (uint64_t part = first; part < end && !c->late; part++) {
        xsmi_race_rows_take(c, c->rows.share, part);
        XSMI_TRY(xsmi_race_try(c, e, err));
        if (e->diverged) {
            break;
        }
    }
    xsmi_race_rows_take(c, c->rows.share, first);
    *ran = c->result->info.trials > before && !c->late;
    if (*ran) {
        e->out = e->diverged;
        predict(c, e);
    }
    return XSM_OK;
}

/* -- settings ------------------------------------------------------------------------------------------------------ */

typedef enum axis { RATE, RIDGE, LONG } axis;

/* Moves settings along an axis; returns false at its end. */
static bool move(const xsmi_chooser *c, xsmi_entrant *e, axis along, int by)
{
    if (along == LONG) {
        e->longer += (uint32_t)by;
        return by > 0 && e->longer <= (c->options.seconds > 0 ? LONGER_BUDGET : LONGER);
    }
    int *point = along == RATE ? &e->rate : &e->ridge;
    *point = *point == INT_MIN ? 0 : *point + by; /* the first ridge after none */
    return *point >= -POINTS && *point <= POINTS;
}

/* Goes from a line's best settings along an axis as long as the loss falls by more than a standard error on the same
 * rows: first in one direction and, if that is worse, in the other. The steps grow after the second success. */
static xsm_status climb(xsmi_chooser *c, const xsmi_line *line, axis along, int first, xsm_error *err)
{
    const xsmi_entrant *best = best_of(c, line);
    bool moved = false, ran = true;
    for (int by = first, turns = 0; best && is_run(c, best) && turns < 2 && !moved; by = -by, turns++) {
        int step = by;
        for (bool better = true; better;) {
            xsmi_entrant to = *best, *next;
            const size_t at = (size_t)(best - c->entrants);
            if (!move(c, &to, along, step) || c->entrant_count == c->entrant_capacity) {
                break;
            }
            XSMI_TRY(entrant_of(c, &to, &next, err));
            XSMI_TRY(attempt(c, next, &ran, err));
            best = &c->entrants[at];
            better = is_run(c, next);
            if (better) {
                const xsmi_gap gap = gap_now(c, next, best);
                next->lead += ran && next->rows_before == 0 ? best->loss - best->predicted : 0;
                next->predicted = next->rows_before == 0 ? fmax(next->loss - next->lead, 0) : next->predicted;
                better = gap.difference < -gap.error;
                best = better ? next : best;
                step *= better && moved ? 2 : 1;
                moved |= better;
            }
        }
    }
    return XSM_OK;
}

/* Tries a line's first settings; lowers the rate until training does not diverge. */
static xsm_status begin(xsmi_chooser *c, xsmi_entrant settings, xsmi_entrant **out, xsm_error *err)
{
    bool ran;
    for (;; settings.rate -= 2) {
        *out = NULL;
        if (settings.rate < -POINTS || c->entrant_count == c->entrant_capacity) {
            return XSM_OK;
        }
        XSMI_TRY(entrant_of(c, &settings, out, err));
        XSMI_TRY(attempt(c, *out, &ran, err));
        if (!ran || !(*out)->diverged || !settings.line->rates) {
            return XSM_OK;
        }
    }
}

/* Makes a line's first trials: searches its rate, its transform if it is the first line of its kind, then its other
 * settings. */
static xsm_status enter(xsmi_chooser *c, xsmi_line *line, xsm_error *err)
{
    const xsmi_entrant *favourite = c->favourite[line->kind];
    xsmi_entrant settings = {.line = line,
                             .transform = favourite ? favourite->transform : 0,
                             .ridge = line->full && line->ridges ? 0 : INT_MIN};
    xsmi_entrant *e;
    XSMI_TRY(begin(c, settings, &e, err));
    XSMI_TRY(line->rates ? climb(c, line, RATE, 1, err) : XSM_OK);
    for (uint32_t t = 0; t < c->transform_count && !favourite; t++) {
        const xsmi_entrant *best = best_of(c, line);
        if (best && t != best->transform) {
            settings = *best;
            settings.transform = t;
            XSMI_TRY(begin(c, settings, &e, err));
            settings.rate = 0; /* rates that suit one transform can be far off for another */
            XSMI_TRY(line->rates && best->rate != 0 ? begin(c, settings, &e, err) : XSM_OK);
            best = best_of(c, line);
            XSMI_TRY(line->rates && best->transform == t ? climb(c, line, RATE, 1, err) : XSM_OK);
        }
    }
    XSMI_TRY(line->full && line->ridges ? climb(c, line, RIDGE, 1, err) : XSM_OK);
    c->favourite[line->kind] = favourite ? favourite : best_of(c, line);
    return XSM_OK;
}

/* Searches an L2 penalty and more passes, only for the line that leads. */
static xsm_status refine(xsmi_chooser *c, xsm_error *err)
{
    const xsmi_entrant *best = best_of(c, NULL);
    if (!best || c->rows.part > 0) {
        return XSM_OK;
    }
    const xsmi_line *line = best->line;
    XSMI_TRY(line->ridges && !line->full ? climb(c, line, RIDGE, 1, err) : XSM_OK);
    best = best_of(c, line);
    const bool open = line->kind == XSMI_KIND_LINEAR && !line->full && !c->run.epochs;
    const double most = c->options.seconds > 0 ? c->options.seconds - c->elapsed : FREE_SECONDS;
    return open && 3 * run_seconds(c, best) <= most ? climb(c, line, LONG, 1, err) : XSM_OK;
}

/* -- rounds -------------------------------------------------------------------------------------------------------- */

/* Where losses rise because a larger share has more classes, an entrant that had no time for that share must not win by
 * its loss on an earlier one: adds to its prediction by how much the loss of the best of the others rose. */
static void level(xsmi_chooser *c, uint64_t last_share)
{
    const size_t judged = xsmi_race_judged(c);
    const xsmi_entrant *best = NULL;
    for (size_t i = 0; i < c->entrant_count; i++) {
        const xsmi_entrant *e = &c->entrants[i];
        const bool runs = is_run(c, e) && e->rows_before == last_share && !e->out;
        best = runs && (!best || e->predicted < best->predicted) ? e : best;
    }
    const double risen = best ? best->loss - mean_of(best->before, judged) : 0;
    for (size_t i = 0; i < c->entrant_count && risen > 0; i++) {
        xsmi_entrant *e = &c->entrants[i];
        e->predicted += e->rows < best->rows ? risen : 0;
    }
}

/* Trains the remaining entrants on the present share, the most promising first, then adjusts their rates. */
static xsm_status go_on(xsmi_chooser *c, xsm_error *err)
{
    bool done[XSMI_LINES_MOST] = {false}, ran;
    for (;;) { /* takes the lines in turn, each line's best entrant first */
        const xsmi_entrant *next = NULL;
        for (size_t i = 0; i < c->line_count; i++) {
            const xsmi_entrant *e = done[i] ? NULL : best_of(c, &c->lines[i]);
            next = e && (!next || e->predicted < next->predicted) ? e : next;
        }
        if (!next) {
            return XSM_OK;
        }
        xsmi_line *line = next->line;
        done[line - c->lines] = true;
        const size_t first = (size_t)(next - c->entrants);
        XSMI_TRY(attempt(c, &c->entrants[first], &ran, err));
        for (size_t i = 0; i < c->entrant_count && ran; i++) {
            bool other;
            XSMI_TRY(c->entrants[i].line == line && c->entrants[i].rows > 0 ? attempt(c, &c->entrants[i], &other, err)
                                                                            : XSM_OK);
        }
        XSMI_TRY(line->rates && ran && c->rows.part == 0 ? climb(c, line, RATE, -1, err) : XSM_OK);
    }
}

/* Drops all settings of a line but the best ones, and entrants that cannot win. */
static void drop(xsmi_chooser *c, bool first)
{
    const xsmi_entrant *leader = best_of(c, NULL);
    const bool last = c->rows.share >= c->rows.most;
    const size_t most = c->text_count > 0 ? 1 : GO_ON; /* the choice of the method finds the transform again */
    for (size_t i = 0; i < c->entrant_count; i++) {
        xsmi_entrant *e = &c->entrants[i];
        size_t better = 0;
        for (size_t j = 0; j < c->entrant_count && !e->out; j++) {
            const xsmi_entrant *o = &c->entrants[j];
            better += o->line == e->line && !o->out && o->rows > 0 &&
                      (o->predicted < e->predicted || (o->predicted == e->predicted && j < i));
        }
        const xsmi_gap gap = leader ? gap_in_the_end(c, e, leader) : (xsmi_gap){0, 0};
        const xsmi_gap now = leader && e->rows == leader->rows ? gap_now(c, e, leader) : gap;
        const bool behind = leader && e != leader && (last || !first) && gap.difference > BEHIND * gap.error &&
                            now.difference > BEHIND * now.error;
        if (!e->out && e->trial != UINT64_MAX && (better >= most || behind)) {
            e->out = true;
            c->result->trials[e->trial].outcome = XSM_RACE_DROPPED;
        }
    }
}

/* Returns how often the rows are halved for the first share. It is as large as possible with time for the other
 * rounds. */
static int first_share(const xsmi_chooser *c)
{
    double least = (double)INFINITY;
    for (size_t i = 0; i < c->line_count; i++) {
        least = fmin(least, xsmi_line_seconds(c, &c->lines[i], (double)c->train->rows, 0));
    }
    const double judged = (double)xsmi_race_judged(c) / (double)c->rows.parts;
    for (int halvings = 0;; halvings++) {
        const double rows = ldexp((double)c->rows.most, -halvings);
        double sum = 0;
        bool met[XSMI_KINDS] = {false};
        for (size_t i = 0; i < c->line_count; i++) {
            const xsmi_line *line = &c->lines[i];
            const double transforms = met[line->kind] ? 0 : (double)c->transform_count - 1;
            const double trials = (line->rates || line->ridges ? FIRST_TRIALS : 1) + transforms;
            met[line->kind] = true;
            sum += trials * xsmi_line_seconds(c, line, rows, judged) * (double)(halvings > 0 ? 1 : c->rows.together);
        }
        if (sum <= OF_FIRST * allowance(c, least) || rows / 2 < fmax(ROWS_LEAST, (double)c->rows.least)) {
            return halvings;
        }
    }
}

static size_t count_left(const xsmi_chooser *c)
{
    size_t left = 0;
    for (size_t i = 0; i < c->entrant_count; i++) {
        left += !c->entrants[i].out && c->entrants[i].rows > 0;
    }
    return left;
}

/* Returns the winner: the best entrant or, among those that are worse by less than a standard error, the one with the
 * smallest model if that is at most half as large. */
static const xsmi_entrant *finish(xsmi_chooser *c)
{
    const xsmi_entrant *best = best_of(c, NULL), *chosen = best;
    for (size_t i = 0; i < c->entrant_count && best; i++) {
        const xsmi_entrant *e = &c->entrants[i];
        const bool runs = !e->out && !e->diverged && e->rows == best->rows && 2 * e->bytes <= best->bytes;
        const xsmi_gap seen = gap_now(c, e, best);
        chosen = runs && e->predicted - best->predicted <= seen.error && e->bytes < chosen->bytes ? e : chosen;
    }
    return chosen;
}

/* Whether there is time for a round on `rows` rows: for the leader or, in a choice of n-grams, for all remaining
 * entrants, because the same rows compare them better than curves. */
static bool has_time(xsmi_chooser *c, const xsmi_entrant *leader, uint64_t rows)
{
    double sum = 0;
    for (size_t i = 0; i < c->entrant_count; i++) {
        const xsmi_entrant *e = &c->entrants[i];
        sum += e->out || e->rows == 0 ? 0 : (double)parts_of(c, rows) * trial_seconds(c, e, (double)rows);
    }
    return c->text_count > 0 ? c->elapsed + sum <= allowance(c, run_seconds(c, leader))
                             : is_affordable(c, leader, (double)rows);
}

xsm_status xsmi_race(xsmi_chooser *c, const xsmi_entrant **winner, xsm_error *err)
{
    c->entrant_capacity = c->line_count * (2 * POINTS + XSMI_TRANSFORMS);
    XSMI_TRY(xsmi_zeros_new(c->runner.context, &c->entrants, c->entrant_capacity, sizeof *c->entrants, "a race", err));
    *winner = NULL;
    int halvings = first_share(c);
    for (uint64_t part = 0, round = 0; part < c->rows.parts; round++) {
        const uint64_t last_share = c->rows.share;
        xsmi_race_rows_take(c, c->rows.most >> halvings, part);
        for (size_t i = 0; i < c->line_count && round == 0; i++) {
            XSMI_TRY(enter(c, &c->lines[i], err));
        }
        XSMI_TRY(round > 0 ? go_on(c, err) : XSM_OK);
        XSMI_TRY(refine(c, err));
        if (round > 0 && c->rows.share > last_share) {
            level(c, last_share);
        }
        drop(c, round == 0);
        const xsmi_entrant *leader = best_of(c, NULL);
        const uint64_t next = c->rows.most >> (halvings > 0 ? halvings - 1 : 0);
        c->result->info.rounds = round + 1;
        if (!leader || c->late || count_left(c) < 2 || !has_time(c, leader, next)) {
            break;
        }
        part += halvings == 0 ? parts_of(c, c->rows.most) : 0;
        halvings -= halvings > 0;
    }
    *winner = finish(c);
    return XSM_OK;
}
