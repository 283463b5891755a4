/*
 * The size of trials, planned by their work. Work is counted in classes that a step scores and updates, never by a
 * clock, so that the plan is the same on any machine.
 */
#include "auto/tune.h"

#include "base/order.h"
#include "model/score.h"

#include <math.h>

/* For each round: the work of a trial as a share of the run's; its passes; unless everything is reduced to fit, the
 * least number of its rows, and the least numbers of these and of other rows that judge it; the largest share of a
 * trial's work for judging it on its rows, and on others; and the number of trials that every choice makes. */
static const struct {
    double share;
    uint64_t epochs, rows, evaluated, held_back;
    double evaluation;
    int trials;
} rounds[XSMI_TUNE_ROUNDS] = {{0.0025, 1, 64, 32, 0, 0.04, XSMI_TUNE_LAST - XSMI_TUNE_FIRST + 1},
                              {0.01, 2, 128, 48, 48, 0.03, 3},
                              {0.08, 3, 128, 64, 64, 0.05, 2}};

/* Shares of the run's work: the maximum for all trials, and the planned work of the trials that every choice makes; the
 * rest is for rates beyond them. Rounds are reduced by factors CUT, down to CUT_LEAST at most, to fit; with fewer than
 * ROWS_FEW rows they are not, whatever they cost. */
#define BUDGET 0.275
#define PLANNED 0.27
#define CUT 0.95
#define CUT_LEAST 0.2
#define ROWS_FEW 512
/* For trials of some of the classes, in which the loss falls late and judging a row is cheap: all rounds make the
 * passes of the last round over correspondingly fewer rows, and this many times the rows judge them. The least number
 * of classes for each that a step draws; with fewer, the draws would be a large part of the classes. */
#define NARROW_JUDGED 4
#define CLASSES_EACH 16
/* The number of rows that is enough for judging, and the least, however little work there is. */
enum { EVALUATED_MOST = 512, EVALUATED_LEAST = 16 };
/* Runs with fewer steps an epoch have batches reduced in proportion to the rows, so that trials still have steps. */
enum { STEPS_FEW = 32 };

/* In a pass over all classes, a class takes EXACT_STEP of the unit, both to score and update it and only to score it.
 * It takes SCORE_FAR to score it for steps on some of the classes if there are more floats of weights than FAR, which
 * are too many for a cache. */
#define EXACT_STEP 0.125
#define SCORE_FAR 0.5
#define FAR (8 << 20)
/* The work of judging a row, relative to a step along a path; and relative to the classes that a search may list. */
#define PATH_SCORE 0.5
#define SEARCH_SCORE 0.25
/* Exact steps of which all coefficients are 0, as those of a margin can be, and steps whose search lists no class save
 * IDLE of their work, or IDLE_FAR if weights of sparse rows are too many for a cache. Exact steps are fully busy from
 * the share BUSY of non-zero coefficients: by then many more have been examined. */
#define IDLE 0.75
#define IDLE_FAR 0.97
#define BUSY 0.12
/* How busy a run's steps are, relative to steps at the end of its best trial, as it continues for much longer; and
 * before the first trial, with weights too many for a cache. */
#define RUN_BUSY 0.4
#define RUN_BUSY_FAR 0.1
/* The share of the model's cache lines up to which the lines that a trial changes are marked and zeroed one by one. The
 * work of marking and zeroing a line, relative to that of changing it: ZERO_NEAR if the weights are in a cache,
 * ZERO_FAR if they are not. ZERO_ALL_FAR is the work per line of zeroing all weights that are in no cache, on the same
 * scale. */
#define MARKED 0.5
#define ZERO_NEAR 0.03
#define ZERO_FAR 0.95
#define ZERO_ALL_FAR 0.35
/* In units of the work for one line in a cache: a step's work for a class besides its lines, and copying a line of a
 * row into new memory. */
#define STEP_LINES 31
#define COPY_LINE 16

/* -- the work of a trial ------------------------------------------------------------------------------------------- */

/* Returns the mean number of classes of a step; lists are long enough for the row with the most labels. */
static double mean_width(const xsm_estimator *e, const xsm_dataset *d)
{
    const double fewer = (double)e->most_labels - (double)d->counted.labels / (double)d->rows;
    /* Lists of all classes are full for every number of labels. */
    return e->most_labels < e->width && e->width < d->classes ? (double)e->width - fewer : (double)e->width;
}

void xsmi_tune_measure(xsmi_tuner *t)
{
    const xsm_estimator *e = t->estimator;
    const xsm_model *m = t->runner.model;
    xsmi_tune_costs *c = &t->costs;
    const double classes = (double)t->run.train->classes, width = mean_width(e, t->run.train);
    const bool own = (e->ops.flags & XSM_ESTIMATOR_OTHER_LOSS) != 0, far = xsmi_model_floats(m) > FAR;
    const bool sifted = e->exact && e->ops.sift;
    *c = (xsmi_tune_costs){.step = 1 + (e->exact ? EXACT_STEP * classes : width),
                           .width = (double)e->width,
                           .startup = e->search.searcher ? (double)xsmi_searcher_startup(e->search.searcher) : 0,
                           .searched = e->search.searcher != NULL,
                           .idle_far = sifted && far && t->run.train->sparse};
    c->idle = sifted ? (c->idle_far ? IDLE_FAR : IDLE) * EXACT_STEP * classes : 0;
    c->score_class = !e->exact && far ? SCORE_FAR : EXACT_STEP;
    t->judge = own ? XSMI_JUDGE_OWN : XSMI_JUDGE_LOG_LOSS;
    if (c->searched && own) {
        c->idle = IDLE * width;
        c->score_class = 0;
        c->score_few = SEARCH_SCORE * width;
    }
    if (e->ops.kind == XSM_ESTIMATOR_HIERARCHY && !own) { /* the loss of a path is the log-loss, at less cost */
        t->judge = XSMI_JUDGE_OWN;
        c->score_class = 0;
        c->score_few = PATH_SCORE * width;
    }
}

double xsmi_tune_classes_least(const xsmi_tuner *t)
{
    return CLASSES_EACH * t->costs.width;
}

/* Returns the approximate number of classes of the planned trials. */
static double classes_of(const xsmi_tuner *t)
{
    const xsm_dataset *d = t->run.train;
    const double share = (double)t->size.rows / (double)d->rows;
    return t->rows.narrow ? floor(fmax((double)d->classes * share, xsmi_tune_classes_least(t))) : (double)d->classes;
}

void xsmi_tune_plan(xsmi_tuner *t, uint32_t round)
{
    xsmi_tune_size *s = &t->size;
    const bool narrow = t->rows.narrow;
    const uint64_t n = t->run.train->rows, all = t->run.options.epochs, batch = t->run.options.batch;
    const double passes = t->cut * rounds[round].share * (double)all;
    const bool few = n / batch + (n % batch != 0) < STEPS_FEW;
    const uint64_t epochs = (uint64_t)ceil(few ? sqrt(passes * (double)all) : passes); /* if there are few rows, reduces
                                                                                          steps and rows alike */
    s->epochs = XSMI_MIN(XSMI_MAX(epochs, rounds[narrow ? XSMI_TUNE_ROUNDS - 1 : round].epochs), all);
    const double rows = ceil(passes / (double)s->epochs * (double)n);
    s->rows = XSMI_MIN(XSMI_MAX((uint64_t)rows, rounds[round].rows), n);
    s->batch = few ? XSMI_MAX((uint64_t)((double)batch * (double)s->rows / (double)n + 0.5), 1) : batch;
    s->judging = 1 + t->costs.score_few + t->costs.score_class * classes_of(t);
    const double judged = narrow ? NARROW_JUDGED : 1;
    const double enough =
        judged * rounds[round].evaluation * (double)s->rows * (double)s->epochs * t->costs.step / s->judging;
    const uint64_t evaluated = (uint64_t)fmin(enough, EVALUATED_MOST);
    uint64_t least = XSMI_MAX((uint64_t)(judged * t->cut * (double)rounds[round].evaluated), EVALUATED_LEAST);
    s->evaluated = XSMI_MIN(XSMI_MAX(evaluated, least), s->rows);
    const double held_back = judged * t->cut * (double)rounds[round].held_back;
    least = held_back > 0 ? XSMI_MAX((uint64_t)held_back, EVALUATED_LEAST) : 0;
    s->held_back = least > 0 ? XSMI_MIN(XSMI_MAX(evaluated, least), n - s->rows) : 0;
    s->held_back = s->held_back < least ? 0 : s->held_back; /* too few to be informative */
}

/* Returns the number of cache lines that a step changes in each class. */
static double lines_of_class(const xsmi_tuner *t)
{
    const xsm_dataset *d = t->rows.train;
    return d->sparse ? fmax((double)d->offsets[d->rows] / (double)d->rows, 1) : (double)d->features / XSMI_MARK_FLOATS;
}

/* Returns the number of cache lines of the weights of the planned trial. */
static double lines_of_model(const xsmi_tuner *t)
{
    const xsm_model *m = t->runner.model;
    const size_t stride = m->w.stride;
    return t->rows.narrow ? classes_of(t) * (double)stride / XSMI_MARK_FLOATS
                          : (double)xsmi_marks_of(xsmi_model_floats(m));
}

/* Returns the number of classes that a trial's steps change; a class counts each time. */
static double changed(const xsmi_tuner *t)
{
    return (double)t->size.rows * (double)t->size.epochs * t->costs.width;
}

bool xsmi_tune_pays_to_mark(const xsmi_tuner *t)
{
    return t->runner.model->w.layout == XSM_LAYOUT_CLASS_MAJOR &&
           changed(t) * lines_of_class(t) < MARKED * lines_of_model(t);
}

/* Returns the work of resetting the model after a trial. */
static double zero_work(const xsmi_tuner *t)
{
    const double lines = lines_of_class(t), all = lines_of_model(t);
    const bool far = all * XSMI_MARK_FLOATS > FAR;
    return xsmi_tune_pays_to_mark(t) ? (far ? ZERO_FAR : ZERO_NEAR) * changed(t)
                                     : all * (far ? ZERO_ALL_FAR / lines : 1 / (lines + STEP_LINES));
}

double xsmi_tune_training_work(const xsmi_tuner *t, uint64_t examples, double busy)
{
    return (double)examples * (t->costs.step - (1 - busy) * t->costs.idle) + zero_work(t);
}

double xsmi_tune_judging_work(const xsmi_tuner *t, double busy)
{
    /* A search takes the same time whatever it finds. */
    const double idle = t->judge == XSMI_JUDGE_OWN && !t->costs.searched ? (1 - busy) * t->costs.idle : 0;
    return (double)(t->size.evaluated + t->size.held_back) * (t->size.judging - idle);
}

double xsmi_tune_round_work(const xsmi_tuner *t)
{
    const double lines = lines_of_class(t), entry = sizeof(uint32_t) + sizeof(float);
    const double of_row = t->rows.train->sparse ? lines * entry / (XSMI_MARK_FLOATS * sizeof(float)) : lines;
    return COPY_LINE * of_row / (lines + STEP_LINES) * (double)(t->size.rows + t->size.evaluated + t->size.held_back);
}

static double trial_work(const xsmi_tuner *t, double busy)
{
    return xsmi_tune_training_work(t, t->size.rows * t->size.epochs, busy) + xsmi_tune_judging_work(t, busy);
}

/* -- how busy steps are -------------------------------------------------------------------------------------------- */

double xsmi_tune_busy_at(const xsmi_tuner *t, double active)
{
    return t->costs.searched ? active : active < BUSY ? active / BUSY : 1;
}

/* Returns how busy the steps of a rate's next trial are expected to be: like those of its last trial. */
static double busy_of(const xsmi_tuner *t, int point)
{
    for (uint32_t round = XSMI_TUNE_ROUNDS; round-- > 0;) {
        if (xsmi_tune_tried(t, round, point)) {
            return t->busy[round][point].training;
        }
    }
    return 1;
}

/* Returns how busy the steps of a round are expected to be: the mean over the rates that it will certainly try. */
static double busy_next(const xsmi_tuner *t, uint32_t round)
{
    if (round == 0) {
        return 1;
    }
    const int best = t->search.best[round - 1];
    if (round == 1) {
        return (busy_of(t, best) + busy_of(t, best - 1) + busy_of(t, best + 1)) / 3;
    }
    return (busy_of(t, best) + busy_of(t, xsmi_scale_search_second(&t->search, round - 1))) / 2;
}

/* Returns how busy steps are expected to be on the rows that judge a trial of the last round, at the best rate of a
 * round: continues the decrease since the previous round. */
static double busy_in_the_end(const xsmi_tuner *t, uint32_t round, int best)
{
    const double now = t->busy[round][best].judged;
    if (round == 0 || round + 1 == XSMI_TUNE_ROUNDS || !xsmi_tune_tried(t, round - 1, best)) {
        return now;
    }
    const double before = t->busy[round - 1][best].judged;
    return now < before ? now * now / before : now;
}

/* -- all rounds ---------------------------------------------------------------------------------------------------- */

double xsmi_tune_run_work(const xsmi_tuner *t, uint32_t round)
{
    const int best = t->search.best[round];
    const double examples = (double)t->run.options.epochs * (double)t->run.train->rows;
    const double busy = xsmi_tune_tried(t, round, best) ? RUN_BUSY * busy_in_the_end(t, round, best)
                        : t->costs.idle_far             ? RUN_BUSY_FAR
                                                        : 1;
    return examples * (t->costs.step - (1 - busy) * t->costs.idle);
}

bool xsmi_tune_affordable(const xsmi_tuner *t, int point)
{
    return t->spent + trial_work(t, busy_of(t, point)) + t->reserve <= BUDGET * xsmi_tune_run_work(t, t->search.round);
}

/* Returns the work of the trials that every choice makes in a round and those after it. */
static double work_from(xsmi_tuner *t, uint32_t round, double busy)
{
    double work = 0;
    for (; round < XSMI_TUNE_ROUNDS; round++) {
        xsmi_tune_plan(t, round);
        work += rounds[round].trials * trial_work(t, busy) + xsmi_tune_round_work(t);
    }
    return work;
}

void xsmi_tune_fit(xsmi_tuner *t, uint32_t round)
{
    const double busy = busy_next(t, round), run = xsmi_tune_run_work(t, round > 0 ? round - 1 : 0);
    const double work = round > 0 ? BUDGET * run - t->spent : PLANNED * run;
    /* Steps that can be idle may cost less than those of the previous round; the reduction is then smaller. */
    t->cut = t->costs.idle > 0 ? 1 : t->cut;
    while (work_from(t, round, busy) > work && t->cut > CUT_LEAST && t->rows.train->rows >= ROWS_FEW) {
        t->cut *= CUT;
    }
    if (round == 0) {
        t->expected = fmax(work_from(t, 0, 1), t->costs.idle > 0 ? BUDGET * run : 0); /* reduced less later */
    }
    t->reserve = work_from(t, round + 1, busy);
    xsmi_tune_plan(t, round);
}
