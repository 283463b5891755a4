/*
 * Yen et al., Loss Decomposition for Fast Learning in Large Output Spaces, 2018, section 4: for the cross-entropy,
 * classes retrieved in falling order until a bound on Z says stop, beside a fixed number of classes, all classes, and
 * classes drawn at random. On one trained model: the error of log Z, the classes retrieved, and the time of a step;
 * then accuracy as a function of time.
 */
#include "race.h"

#include "ldgs.h"

#include <stdio.h>
#include <stdlib.h>

enum { HIDDEN = 64, BATCH = 10, ROWS_MOST = 400, STEPS = 40, POINTS = 3 };
#define STEP_SECONDS 10.0

/* -- what is retrieved */

static double loss_of(xsm_estimator *e, const xsm_dataset *rows, uint64_t row, xsm_gradient *g, uint64_t *classes)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_gradient_view view = XSM_GRADIENT_VIEW_INIT;
    xsm_batch batch = xsm_batch_range(rows, row, 1);
    papers_check(xsm_estimator_gradient(e, &batch, 1e-12, g, &err), &err);
    papers_check(xsm_gradient_get_view(g, &view, &err), &err);
    *classes = view.lengths ? view.lengths[0] : view.width;
    return view.loss;
}

static xsm_estimator *bound(const papers *p, const method *m, xsm_model *model, const xsm_dataset *rows)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_estimator *e = NULL;
    papers_check(xsm_estimator_new(p->context, m->estimator, &e, &err), &err);
    set_options(e, m, 0);
    papers_check(xsm_estimator_bind(e, model, rows, &err), &err);
    return e;
}

static int rising(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Seconds of a step, of STEPS or of as many as take STEP_SECONDS. Their rate is too small to change a weight, so that
 * all ways see the same model. */
static double step_time(const papers *p, xsm_estimator *e, xsm_model *model, const xsm_dataset *rows, uint64_t count,
                        xsm_gradient *g)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_optimizer *o = NULL;
    const uint64_t most = p->quick ? 4 : STEPS;
    uint64_t steps = 0;
    double start = 0, passed = 0;
    papers_check(xsm_optimizer_new(p->context, "sgd", &o, &err), &err);
    papers_check(xsm_optimizer_bind(o, model, &err), &err);
    for (uint64_t t = 0; t <= most && passed < STEP_SECONDS; t++) { /* the first is not measured */
        xsm_batch batch = xsm_batch_range(rows, t * BATCH % (count - BATCH + 1), BATCH);
        papers_check(xsm_estimator_gradient(e, &batch, 1e-12, g, &err), &err);
        papers_check(xsm_optimizer_apply(o, &batch, g, 1e-12, &err), &err);
        start = t == 0 ? papers_seconds(p) : start;
        passed = papers_seconds(p) - start;
        steps = t;
    }
    xsm_optimizer_free(o);
    return passed / (double)steps;
}

void ldgs_retrieve(const papers *p, report *r, const char *prefix, xsm_model *model, const xsm_dataset *rows,
                   const ldgs_way *ways, size_t count)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    papers_check(xsm_dataset_get_info(rows, &info, &err), &err);
    const uint64_t some = info.rows < ROWS_MOST ? info.rows : ROWS_MOST;
    double exact[ROWS_MOST];
    uint64_t classes[ROWS_MOST];
    xsm_gradient *g = NULL;
    papers_check(xsm_gradient_new(p->context, &g, &err), &err);
    for (size_t w = 0; w <= count; w++) {
        const bool first = w == 0; /* all classes */
        const method how = {.title = first ? "softmax" : ways[w - 1].title,
                            .estimator = first ? "softmax" : ways[w - 1].estimator,
                            .options = first ? NULL : ways[w - 1].options};
        char row[120];
        double mean = 0, largest = 0, listed = 0;
        xsm_estimator *e = bound(p, &how, model, rows);
        for (uint64_t i = 0; i < some; i++) {
            const double loss = loss_of(e, rows, i * info.rows / some, g, &classes[i]);
            exact[i] = first ? loss : exact[i];
            mean += fabs(exact[i] - loss) / (double)some;
            largest = fmax(largest, fabs(exact[i] - loss));
            listed += (double)classes[i] / (double)some;
        }
        qsort(classes, some, sizeof *classes, rising);
        const double step = step_time(p, e, model, rows, info.rows, g);
        xsm_estimator_free(e);
        snprintf(row, sizeof row, "%s, %s", prefix, how.title);
        report_cell(r, row, "log Z off, mean", PAPERS_NONE, mean);
        report_cell(r, row, "largest", PAPERS_NONE, largest);
        report_cell(r, row, "classes, median", PAPERS_NONE, (double)classes[some / 2]);
        report_cell(r, row, "mean", PAPERS_NONE, listed);
        report_cell(r, row, "9 of 10", PAPERS_NONE, (double)classes[some * 9 / 10]);
        report_cell(r, row, "ms a step", PAPERS_NONE, 1e3 * step);
        papers_say("  %s: log Z off by %.4g, %.4g at most; %.0f classes, %.3g ms a step", row, mean, largest, listed,
                   1e3 * step);
    }
    xsm_gradient_free(g);
}

/* -- accuracy against time */

static const struct {
    const char *folder, *title;
} sets[] = {{"kg-fb15k237", "FB15k-237"}, {"debian-maintainers", "Debian"}};
enum { SETS = sizeof sets / sizeof sets[0] };

enum { METHODS = 8, WAYS = 7 };

/* The options of the methods, with Q of the set. */
typedef struct texts {
    char drawn[60], start[60], zero[90], drop[110], tenth[90], hundredth[90], blocks[130], blocks_tenth[110];
} texts;

static void methods_of(const texts *t, method all[METHODS])
{
    const method of[METHODS] = {
        {"softmax", "softmax", BATCH, 0, NULL},
        {"sampled-softmax", "sampled-softmax", BATCH, 0, t->drawn},
        {"mips Q zero", "mips", BATCH, 0, t->zero},
        {"mips Q drop", "mips", BATCH, 0, t->drop},
        {"mips error 0.1", "mips", BATCH, 0, t->tenth},
        {"mips error 0.01", "mips", BATCH, 0, t->hundredth},
        {"decomp-mips Q drop", "decomp-mips", BATCH, 0, t->blocks},
        {"decomp-mips error 0.1", "decomp-mips", BATCH, 0, t->blocks_tenth},
    };
    for (size_t m = 0; m < METHODS; m++) {
        all[m] = of[m];
    }
}

static const rate_grid grid = {2, -3, -1};
#define SECONDS 4.0
#define TUNING 0.25

static void run_set(const papers *p, report *r, const char *folder, const char *title)
{
    data_pair data;
    if (!data_read(p, folder, title, "unit", &data)) {
        return;
    }
    const double seconds = race_seconds(p, SECONDS);
    const uint32_t hundredth = data.classes / 100, q = hundredth > 100 ? hundredth : data.classes < 100 ? 1 : 100;
    texts t;
    method all[METHODS];
    xsm_model *model = NULL;
    snprintf(t.drawn, sizeof t.drawn, "negatives=%u,shared=yes", q);
    snprintf(t.start, sizeof t.start, "loss=cross-entropy,startup=%llu", (unsigned long long)(data.rows / 10));
    snprintf(t.tenth, sizeof t.tenth, "%s,error=0.1", t.start);
    snprintf(t.hundredth, sizeof t.hundredth, "%s,error=0.01", t.start);
    snprintf(t.blocks_tenth, sizeof t.blocks_tenth, "%s,blocks=4", t.tenth);
    snprintf(t.zero, sizeof t.zero, "%s,candidates=%u", t.start, q);
    snprintf(t.drop, sizeof t.drop, "%s,missing=drop", t.zero);
    snprintf(t.blocks, sizeof t.blocks, "%s,blocks=4", t.drop);
    methods_of(&t, all);
    char name[80];
    snprintf(name, sizeof name, "ldgs_retrieval-%s", folder);
    curves *to = curves_new(p, name, p->processor ? "processor seconds" : "seconds");
    xsm_dataset *held = race_hold_out(&data);
    race_limit_test(&data);
    report_note(r, "%s: N = %llu, %u features, K = %u, Q = %u.", title, (unsigned long long)data.rows, data.features,
                data.classes, q);
    for (size_t m = 0; m < METHODS; m++) {
        if (!papers_listed(p->only, all[m].title)) {
            continue;
        }
        char row[120];
        racer who = racer_new(p, &data, &all[m], "adagrad");
        who.hidden = HIDDEN;
        snprintf(row, sizeof row, "%s, %s", title, all[m].title);
        const rate_search rate = race_rate(p, &grid, row, &data, held, &who, TUNING * seconds, false);
        report_cell(r, row, "rate", PAPERS_NONE, rate.best);
        if (isfinite(rate.best)) {
            who.keep = m == 0; /* all classes */
            race found = race_run(p, &data, data.test, &who, rate.best, seconds, POINTS, false);
            for (size_t i = 0; i < found.count; i++) {
                char column[40];
                snprintf(column, sizeof column, "%% right, %.3g s", ldexp(seconds, (int)i + 1 - (int)found.count));
                report_cell(r, row, column, PAPERS_NONE, 100 * found.accuracy[i]);
                curves_point(to, all[m].title, found.seconds[i], 100 * found.accuracy[i]);
            }
            report_cell(r, row, "log-loss", PAPERS_NONE, found.count ? found.log_loss[found.count - 1] : PAPERS_NONE);
            report_cell(r, row, "epochs", PAPERS_NONE, found.epochs);
            model = found.model ? found.model : model;
        }
        racer_free(&who);
    }
    if (model) {
        char zero[80], drop[100];
        snprintf(zero, sizeof zero, "startup=0,loss=cross-entropy,candidates=%u", q);
        snprintf(drop, sizeof drop, "%s,missing=drop", zero);
        const ldgs_way ways[WAYS] = {
            {"mips Q zero", "mips", zero},
            {"mips Q drop", "mips", drop},
            {"mips error 0.1 exact", "mips", "startup=0,loss=cross-entropy,index=exact,error=0.1"},
            {"mips error 0.01 exact", "mips", "startup=0,loss=cross-entropy,index=exact,error=0.01"},
            {"mips error 0.1", "mips", "startup=0,loss=cross-entropy,error=0.1"},
            {"mips error 0.01", "mips", "startup=0,loss=cross-entropy,error=0.01"},
            {"mips error 0.001", "mips", "startup=0,loss=cross-entropy,error=0.001"},
        };
        char prefix[80];
        snprintf(prefix, sizeof prefix, "%s, retrieved", title);
        ldgs_retrieve(p, r, prefix, model, held, ways, WAYS);
        xsm_model_free(model);
    }
    curves_end(to);
    xsm_dataset_free(held);
    data_free(&data);
}

void figure_ldgs_retrieval(const papers *p)
{
    static const texts none;
    method all[METHODS];
    methods_of(&none, all);
    const char *titles[METHODS + 1] = {NULL}, *folders[SETS + 1] = {NULL};
    for (size_t m = 0; m < METHODS; m++) {
        titles[m] = all[m].title;
    }
    for (size_t i = 0; i < SETS; i++) {
        folders[i] = sets[i].folder;
    }
    papers_check_list(p->only, "method", titles);
    papers_check_list(p->sets, "set", folders);
    report *r =
        report_new(p, "ldgs_retrieval", "Yen et al. 2018, section 4: accuracy of adaptive retrieval against time");
    report_note(
        r,
        "Embedding models with vectors of %d numbers, unit rows, first label, adagrad, n = %d; searches begin after a "
        "tenth of the first epoch; rates by the "
        "accuracy on rows held out after a quarter of the time; %u threads.",
        HIDDEN, BATCH, papers_context(p).threads);
    report_note(r, "Retrieved: with the model that softmax has trained, for %d rows held out; a step has %d rows.",
                ROWS_MOST, BATCH);
    for (size_t i = 0; i < SETS; i++) {
        if (papers_listed(p->sets, sets[i].folder)) {
            run_set(p, r, sets[i].folder, sets[i].title);
        }
    }
    report_end(r);
}
