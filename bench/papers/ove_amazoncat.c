/*
 * Titsias, One-vs-Each Approximation to Softmax for Scalable Estimation of Probabilities, 2016, section 4.2 and Figure
 * 3d: OVE-SGD on AmazonCat-13K, one example and five of the other classes per step, five epochs, the learning rate
 * halved after each. The data is generated in that shape, so the time is comparable; the error only shows that the
 * model learns.
 */
#include "learn.h"
#include "shape_documents.h"

#include <stdlib.h>

enum { EPOCHS = 5, TUNED_ROWS = 10000 };

typedef struct bound {
    curves *to;
    double examples, sum; /* number at the last point; sum over the current epoch */
    uint64_t epoch;
    double rows;
} bound;

/* The mean of the bound's estimates since the last point. */
static int32_t add_point(void *user, const xsm_progress *progress)
{
    bound *b = user;
    double examples = (double)progress->examples;
    if (progress->epoch != b->epoch && !progress->epoch_ended) {
        b->epoch = progress->epoch;
        b->sum = 0;
    }
    double passed = examples - (double)b->epoch * b->rows;
    double sum = isfinite(progress->loss) ? progress->loss * passed : 0;
    if (examples > b->examples) {
        curves_point(b->to, "OVE", examples, -(sum - b->sum) / (examples - b->examples));
        b->examples = examples;
        b->sum = sum;
    }
    return 0;
}

/* The share of the rows that do not belong to the largest class. */
static double error_of_largest(const xsm_dataset *data, uint32_t classes, uint64_t rows)
{
    const uint64_t *counts = papers_class_counts(data);
    uint64_t most = 0;
    for (uint32_t k = 0; k < classes; k++) {
        most = counts[k] > most ? counts[k] : most;
    }
    return 1 - (double)most / (double)rows;
}

static xsm_dataset *first_rows(const xsm_dataset *data, uint64_t count)
{
    uint64_t *rows = papers_memory(count, sizeof *rows);
    xsm_dataset *out = NULL;
    xsm_error err = XSM_ERROR_INIT;
    for (uint64_t i = 0; i < count; i++) {
        rows[i] = i;
    }
    papers_check(xsm_dataset_select(data, rows, count, &out, &err), &err);
    free(rows);
    return out;
}

void figure_ove_amazoncat(const papers *p)
{
    documents_sizes s = DOCUMENTS_AMAZONCAT(1186239, 306759, 203882, 2919, 82);
    uint64_t tuned = TUNED_ROWS;
    if (p->quick) {
        s = (documents_sizes)DOCUMENTS_AMAZONCAT(2000, 500, 500, 40, 20);
        tuned = 200;
    }
    report *r = report_new(p, "ove_amazoncat", "Titsias 2016, section 4.2: OVE-SGD on data of AmazonCat-13K's shape");
    double start = papers_clock();
    xsm_dataset *train, *test;
    documents_make(p, &s, &train, &test);
    double made = papers_clock() - start;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    xsm_error err = XSM_ERROR_INIT;
    papers_check(xsm_dataset_get_info(train, &info, &err), &err);
    papers_say("  rows made (%.0f s)", made);
    data_pair all = {"made up", train, test, s.rows, s.test_rows, s.features, s.classes};
    const method ove = {"OVE-SGD", "ove", 1, 5, NULL};
    plan how = {.epochs = EPOCHS, .factor = 0.5, .skip_train = true};
    xsm_dataset *tenth = data_tenth(&all), *some = first_rows(train, tuned);
    const rate_search rate = learn_rate(p, tenth, some, &ove, &how);
    if (!isfinite(rate.best)) {
        papers_fail("every rate diverges");
    }
    papers_say("  rate %g chosen (%.0f s)", rate.best, papers_clock() - start);
    how.eta = rate.best;
    how.test = test;
    bound b = {curves_new(p, "ove_amazoncat-bound", "examples"), 0, 0, 0, (double)s.rows};
    how.progress = add_point;
    how.progress_user = &b;
    learned l = learn(p, train, &ove, &how, NULL, NULL);
    curves_end(b.to);
    if (l.diverged) {
        papers_fail("training diverged at rate %g", how.eta);
    }
    report_note(r,
                "N = %llu (test %llu), D = %u, K = %u, %.1f non-zeros a row; n = 1, m = 5, %d epochs, the rate halved "
                "after each; %u threads.",
                (unsigned long long)s.rows, (unsigned long long)s.test_rows, s.features, s.classes,
                (double)info.values / (double)s.rows, EPOCHS, papers_context(p).threads);
    report_note(r,
                "The data is made up, the paper's is not: only the times compare. Rate by the authors' rule of "
                "umax_table3 (on %llu training rows).",
                (unsigned long long)tuned);
    report_cell(r, "training, s", "OVE-SGD", 26 * 60, l.seconds);
    report_cell(r, "training, processor s of all threads", "OVE-SGD", PAPERS_NONE, l.work);
    report_cell(r, "steps a second", "OVE-SGD", EPOCHS * 1186239 / (26.0 * 60), EPOCHS * (double)s.rows / l.seconds);
    report_cell(r, "test error", "OVE-SGD", 0.5311, l.test.error);
    report_cell(r, "test error of the largest class", "OVE-SGD", 0.79, error_of_largest(test, s.classes, s.test_rows));
    report_cell(r, "test log-loss", "OVE-SGD", PAPERS_NONE, l.test.log_loss);
    report_cell(r, "eta0", "OVE-SGD", PAPERS_NONE, how.eta);
    report_cell(r, "eta0 tried, least", "OVE-SGD", PAPERS_NONE, rate.least);
    report_cell(r, "eta0 tried, largest", "OVE-SGD", PAPERS_NONE, rate.most);
    report_end(r);
    learned_free(&l);
    xsm_dataset_free(tenth);
    xsm_dataset_free(some);
    data_free(&all);
}
