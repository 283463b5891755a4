/*
 * Compares the learning rate that xsm_tune_eta() chooses with whole runs at each rate of the grid; bench/eta_auto.py
 * runs this program.
 *
 *   eta_auto FILE LABELS EPOCHS SEEDS ESTIMATORS [auto]
 *
 * Prints one line for each seed and estimator, separated by commas: estimator, seed, objectives of the grid 1e-3 ...
 * 1e3 (inf: diverged), the chosen rate, its objective, examples of the trials / of the run, processor time of trials
 * and run / of a run that is given that rate - 1. With `auto`, the grid is left out (nan). Short runs are timed several
 * times, and the least time counts. Rows have unit length, there is one thread, and all else is the command line's
 * default. The objective is the mean exact log-loss of training rows, or the exact loss of the estimator if that is
 * different; with many classes it is computed on a few thousand of these rows, the same for all runs.
 */
#define XSM_EXPERIMENTAL /* choice and tuning */
#include <xsoftmax.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LOSS_ROWS = 64, RATES = 7, SCORES = 50000000, ROWS_LEAST = 4000, RESTARTS = 3, REPEATS = 9 };
#define REPEAT_SECONDS 8 /* total for the runs of one rate; beyond it none is repeated */

static xsm_error err = XSM_ERROR_INIT;

static void check(xsm_status status)
{
    if (status != XSM_OK) {
        fprintf(stderr, "eta_auto: %s\n", err.message);
        exit(1);
    }
}

/* Processor time, so that other programs on the machine do not count. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct subject {
    xsm_context *context;
    xsm_dataset *train, *judged; /* rows of the run, rows of the objective */
    xsm_dataset_info info;
    const char *estimator;
    char seed[24];
    xsm_trainer_options run;
} subject;

/* The estimator whose loss is the objective; NULL: the log-loss. */
static const char *own(const char *estimator)
{
    /* The loss of the searching estimators is the margin's by default. */
    return strcmp(estimator, "margin") == 0 || strstr(estimator, "mips") ? "margin"
           : strncmp(estimator, "one-vs-all", 10) == 0                   ? "one-vs-all"
                                                                         : NULL;
}

static double objective(const subject *s, xsm_model *m)
{
    const char *name = own(s->estimator);
    if (!name) {
        xsm_metrics metrics = XSM_METRICS_INIT;
        return xsm_evaluate(s->context, m, s->judged, NULL, &metrics, &err) == XSM_OK ? metrics.log_loss
                                                                                      : (double)INFINITY;
    }
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    check(xsm_dataset_get_info(s->judged, &info, &err));
    xsm_estimator *e = NULL;
    xsm_gradient *g = NULL;
    check(xsm_estimator_new(s->context, name, &e, &err));
    check(xsm_estimator_bind(e, m, s->judged, &err));
    check(xsm_gradient_new(s->context, &g, &err));
    double sum = 0;
    for (uint64_t first = 0; first < info.rows; first += LOSS_ROWS) {
        uint64_t list[LOSS_ROWS], count = 0;
        for (; count < LOSS_ROWS && first + count < info.rows; count++) {
            list[count] = first + count;
        }
        xsm_batch batch = xsm_batch_rows(s->judged, list, count);
        xsm_gradient_view view = XSM_GRADIENT_VIEW_INIT;
        xsm_status status = xsm_estimator_gradient(e, &batch, 1, g, &err);
        if (status == XSM_ERROR_DIVERGED) {
            sum = (double)INFINITY;
            break;
        }
        check(status);
        check(xsm_gradient_get_view(g, &view, &err));
        sum += view.loss * (double)count;
    }
    xsm_gradient_free(g);
    xsm_estimator_free(e);
    return sum / (double)info.rows;
}

typedef struct outcome {
    double eta, objective, examples; /* examples of the trials divided by those of the run */
    double trials, run;              /* processor time */
} outcome;

/* A whole run; with eta 0 the rate is tuned first, and a run that diverges starts again at a tenth of the rate. */
static outcome run(const subject *s, double eta)
{
    outcome out = {.eta = eta};
    xsm_model *m = NULL;
    xsm_estimator *e = NULL;
    xsm_optimizer *o = NULL;
    xsm_trainer *t = NULL;
    xsm_trainer_options options = s->run;
    xsm_model_options biased = XSM_MODEL_OPTIONS_INIT;
    biased.bias = 1;
    check(xsm_model_new_linear(s->context, s->info.features, s->info.classes, &biased, &m, &err));
    check(xsm_estimator_new(s->context, s->estimator, &e, &err));
    check(xsm_estimator_set(e, "seed", s->seed, &err));
    check(xsm_optimizer_new(s->context, "sgd", &o, &err));
    const int chosen = eta == 0;
    if (chosen) {
        xsm_tune_options tune = XSM_TUNE_OPTIONS_INIT;
        xsm_tuning *tuning = NULL;
        xsm_tuning_info info = XSM_TUNING_INFO_INIT;
        tune.run = &options;
        double start = now();
        check(xsm_tune_eta(s->context, m, s->train, e, o, &tune, &tuning, &err));
        out.trials = now() - start;
        check(xsm_tuning_get_info(tuning, &info, &err));
        out.eta = info.eta;
        out.examples = (double)info.examples / (double)(s->info.rows * options.epochs);
        xsm_tuning_free(tuning);
    }
    xsm_status status = XSM_ERROR_DIVERGED;
    for (int again = 0; status == XSM_ERROR_DIVERGED && again <= (chosen ? RESTARTS : 0); again++) {
        if (again > 0) { /* like the command */
            out.eta /= 10;
            out.trials += out.run;
            xsm_trainer_free(t);
            t = NULL;
            xsm_model_free(m);
            m = NULL;
            check(xsm_model_new_linear(s->context, s->info.features, s->info.classes, &biased, &m, &err));
        }
        options.eta = out.eta;
        double start = now();
        check(xsm_trainer_new(s->context, m, s->train, e, o, &options, &t, &err));
        status = xsm_trainer_run(t, &err);
        out.run = now() - start;
    }
    out.objective = status == XSM_OK ? objective(s, m) : (double)INFINITY;
    xsm_trainer_free(t);
    xsm_optimizer_free(o);
    xsm_estimator_free(e);
    xsm_model_free(m);
    return out;
}

/* The chosen rate, with the least times of several runs. The cost of choosing is compared with a run on a model of its
 * own, because after trials a run finds its model already in memory. */
static outcome run_chosen(const subject *s, double *extra)
{
    double start = now();
    outcome best = run(s, 0);
    double both = best.trials + best.run, alone = run(s, best.eta).run;
    for (int again = 1; again < REPEATS && now() - start < REPEAT_SECONDS; again++) {
        outcome next = run(s, 0);
        both = fmin(both, next.trials + next.run);
        alone = fmin(alone, run(s, best.eta).run);
    }
    *extra = both / alone - 1;
    return best;
}

int main(int argc, char **argv)
{
    const int auto_only = argc == 7 && strcmp(argv[6], "auto") == 0;
    if (argc != 6 && !auto_only) {
        fprintf(stderr, "usage: eta_auto FILE first|all EPOCHS SEED,... ESTIMATOR,... [auto]\n");
        return 2;
    }
    subject s = {.info = XSM_DATASET_INFO_INIT, .run = XSM_TRAINER_OPTIONS_INIT};
    xsm_context_options one = XSM_CONTEXT_OPTIONS_INIT;
    one.threads = 1;
    check(xsm_context_new(&one, &s.context, &err));
    xsm_read_options read = XSM_READ_OPTIONS_INIT;
    read.labels = strcmp(argv[2], "first") == 0 ? XSM_KEEP_LABELS_FIRST : XSM_KEEP_LABELS_ALL;
    check(xsm_dataset_read(s.context, argv[1], NULL, &read, &s.train, &err));
    uint64_t dropped;
    check(xsm_dataset_drop(s.train, XSM_DROP_UNLABELLED | XSM_DROP_EMPTY, &dropped, &err));
    check(xsm_dataset_drop(s.train, XSM_DROP_CLASSES, NULL, &err));
    xsm_transform *unit = NULL;
    check(xsm_transform_new(s.context, "unit", &unit, &err));
    check(xsm_transform_fit(unit, s.train, &err));
    check(xsm_transform_apply(unit, s.train, &err));
    check(xsm_dataset_get_info(s.train, &s.info, &err));
    uint64_t wanted = SCORES / s.info.classes;
    wanted = wanted < ROWS_LEAST ? ROWS_LEAST : wanted;
    wanted = wanted < s.info.rows ? wanted : s.info.rows;
    uint64_t *rows = malloc((size_t)wanted * sizeof *rows);
    if (!rows) {
        fprintf(stderr, "eta_auto: out of memory\n");
        return 1;
    }
    for (uint64_t i = 0; i < wanted; i++) {
        rows[i] = (uint64_t)((double)i * (double)s.info.rows / (double)wanted);
    }
    check(xsm_dataset_select(s.train, rows, wanted, &s.judged, &err));
    s.run.epochs = strtoull(argv[3], NULL, 10);
    s.run.schedule = XSM_SCHEDULE_STEP;
    for (char *seed = argv[4]; *seed;) {
        size_t length = strcspn(seed, ",");
        snprintf(s.seed, sizeof s.seed, "%.*s", (int)length, seed);
        s.run.seed = strtoull(s.seed, NULL, 10);
        seed += length + (seed[length] == ',');
        for (char *name = argv[5]; *name;) {
            char estimator[64];
            length = strcspn(name, ",");
            snprintf(estimator, sizeof estimator, "%.*s", (int)length, name);
            name += length + (name[length] == ',');
            s.estimator = estimator;
            printf("%s,%s", estimator, s.seed);
            for (int k = 0; k < RATES; k++) {
                printf(",%g", auto_only ? (double)NAN : run(&s, pow(10, k - RATES / 2)).objective);
            }
            double extra;
            outcome found = run_chosen(&s, &extra);
            printf(",%g,%g,%g,%g\n", found.eta, found.objective, found.examples, extra);
            fflush(stdout);
        }
    }
    free(rows);
    xsm_transform_free(unit);
    xsm_dataset_free(s.judged);
    xsm_dataset_free(s.train);
    xsm_context_free(s.context);
    return 0;
}
