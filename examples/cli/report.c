/* The results of a training run, as JSON and in words. */
#include "train.h"

#include <math.h>
#include <stdlib.h>

#include <xsoftmax/calibrate.h>

/* XSM_FIT_* */
static const char *const ends[] = {"stopped", "converged", "iterations", "precision"};
static const char *const ends_told[] = {"stopped", "converged", "no more iterations allowed",
                                        "as far as float32 can tell"};

char *cli_train_json(const cli_run *r, const char *stopped)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) {
        return NULL;
    }
    const xsm_model_info about = cli_model_info(r->model);
    cli_json json = {out, 0};
    cli_json_open(&json, NULL);
    if (r->method >= 0) {
        cli_json_text(&json, "method", cli_method_words[r->method]);
        cli_json_null(&json, "estimator");
        cli_method_json(&json, r);
    } else {
        cli_json_text(&json, "method", r->estimator_name);
        cli_json_text(&json, "estimator", r->estimator_name);
    }
    cli_json_whole(&json, "examples", r->train_info.rows);
    cli_json_whole(&json, "empty_rows", r->train_info.empty);
    cli_json_whole(&json, "features", r->train_info.features);
    cli_json_whole(&json, "classes", r->train_info.classes);
    cli_json_whole(&json, "labels_unused", r->labels_unused);
    cli_json_whole(&json, "rare_labels", r->rare_labels);
    cli_json_whole(&json, "rare_label_rows", r->rare_rows);
    cli_json_whole(&json, "hidden", about.hidden);
    if (r->hidden.vectors) {
        cli_json_whole(&json, "vectors_found", r->vectors_found);
    }
    cli_json_text(&json, "geometry", cli_geometry_words[about.geometry]);
    if (r->variance > 0) {
        cli_json_real(&json, "class_means_variance", r->variance);
    }
    if (r->test_rows) {
        cli_json_whole(&json, "unseen_test_labels", r->test_info.unseen_labels);
    } else {
        cli_json_null(&json, "unseen_test_labels");
    }
    if (r->full) {
        cli_json_whole(&json, "iterations", r->end.epoch);
        cli_json_whole(&json, "evaluations", r->fit.evaluations);
        cli_json_real(&json, "objective", r->fit.objective);
        cli_json_real(&json, "gradient_norm", r->fit.gradient_norm);
        cli_json_text(&json, "end", ends[r->fit.end]);
    }
    cli_json_whole(&json, "epochs", r->end.epoch);
    cli_json_whole(&json, "steps", r->end.step);
    cli_tune_json(&json, r);
    cli_choose_json(&json, r);
    cli_json_real(&json, "choice_seconds",
                  (r->choice ? r->chosen.seconds : 0) + r->ngrams_chosen.seconds + (r->tuning ? r->tuned.seconds : 0));
    if (r->warm_path) {
        cli_json_whole(&json, "new_classes", r->new_classes);
        cli_json_whole(&json, "new_features", r->new_features);
        cli_json_whole(&json, "features_left_out", r->raw_info.dropped_features);
    }
    cli_json_real(&json, "train_seconds", r->end.seconds);
    cli_json_real(&json, "steps_per_second", r->end.seconds > 0 ? (double)r->end.step / r->end.seconds : NAN);
    cli_json_whole(&json, "peak_bytes", cli_peak_bytes());
    cli_json_real(&json, "model_bytes", r->model_bytes);
    cli_json_real(&json, "weight_bytes", cli_model_bytes(r->model));
    cli_json_real(&json, "prediction_seconds", r->prediction_seconds);
    xsm_calibration calibration = XSM_CALIBRATION_INIT;
    (void)xsm_model_get_calibration(r->model, &calibration, NULL);
    cli_json_real(&json, "temperature",
                  calibration.method == XSM_CALIBRATION_LABELS ? (double)NAN : 1 / calibration.scale);
    if (stopped) {
        cli_json_text(&json, "stopped", stopped);
    } else {
        cli_json_null(&json, "stopped");
    }
    cli_json_metrics(&json, "train", r->train_known ? &r->train_metrics.of : NULL, 0);
    if (r->test_rows) {
        cli_json_metrics(&json, "test", r->test_known ? &r->test_metrics.of : NULL, CLI_MEASURES);
    } else {
        cli_json_null(&json, "test");
    }
    cli_json_close(&json);
    fputc('\n', out);
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* `rows` are those that there are, of which a sample may have been evaluated. */
static void print_metrics(const char *name, const xsm_metrics *metrics, uint64_t rows, int precision)
{
    printf("%-10s ", name);
    if (!isnan(metrics->log_loss)) { /* label trees with a probability for each label have none */
        printf("log-loss %.4f, ", metrics->log_loss);
    }
    printf("error %.2f %%", 100 * metrics->error);
    if (metrics->rows + metrics->unlabelled < rows) {
        cli_buffer a, b;
        printf(", of %s of the %s rows (--evaluate-train all)", cli_grouped(metrics->rows, &a), cli_grouped(rows, &b));
    }
    if (precision) {
        for (size_t i = 0; i < CLI_MEASURES_FIRST; i++) {
            if (!isnan(cli_measure_at(metrics, i, 1))) {
                if (i == 1 || i == 2) {
                    printf("\n%-10s %s", "", cli_measures[i].title);
                } else {
                    printf(", %s", cli_measures[i].title);
                }
                cli_measure_print(metrics, i, " ");
            }
        }
    }
    putchar('\n');
}

/* What the log-loss of training rows may be above that of the classes' frequencies, without a word. */
#define GUESS_TIMES 1.01

/* A model that is of no use is not handed over without a word. */
static void print_guess(const cli_run *r, const xsm_metrics *metrics)
{
    if (cli_no_better_than_guess(r->model, metrics)) {
        printf("%-10s no better than always answering the most frequent class of the training rows: error %.2f %%\n",
               "", 100 * cli_guess_error(r->model));
    }
}

/* The same of its own rows, however few. */
static void print_own_guess(const cli_run *r, const xsm_metrics *metrics)
{
    const double guess = cli_guess_log_loss(r->model);
    print_guess(r, metrics);
    if (metrics->log_loss > GUESS_TIMES * guess) { /* not if one is NaN */
        printf("%-10s worse than the frequencies of the classes, whose log-loss is %.4f: %s\n", "", guess,
               r->warm_path ? "give rows of old classes beside those of new ones" : "try --transform standard");
    }
}

/* Whether rounding ended a fit whose objective still has a slope, though rows that are all fitted leave one, too. */
static int is_stuck(const cli_run *r)
{
    return r->fit.end == XSM_FIT_PRECISION && r->fit.gradient_norm > 1e-2 * r->fit.objective &&
           r->fit.objective > 1e-3 * (double)r->train_info.rows;
}

static void print_steps(const cli_run *r)
{
    cli_buffer a, b, c, d, e;
    printf("%-10s %s, %s of %s epochs, %s steps in %s (%s steps/s)\n", "training", r->estimator_name,
           cli_grouped(r->end.epoch, &a), cli_grouped(r->epochs, &b), cli_grouped(r->end.step, &c),
           cli_seconds(r->end.seconds, &d),
           cli_grouped(r->end.seconds > 0 ? (uint64_t)((double)r->end.step / r->end.seconds) : 0, &e));
}

/* From this ratio of sizes on, errors rise. */
#define SPREAD_MOST 50.0

/* A way of training that was named, with rows as they are, may learn little from columns of unlike scales. */
static void print_spread(const cli_run *r)
{
    double ratio = 1;
    uint32_t feature = 0;
    cli_buffer times;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    const int named = r->method >= 0 ? !r->choose : !r->transform && (!r->choose || r->choice_given);
    if (!named || r->transform_asked || r->warm_path ||
        xsm_dataset_spread(r->train_rows, &ratio, &feature, NULL) != XSM_OK || ratio < SPREAD_MOST ||
        xsm_dataset_get_class_map(r->train_rows, &map, NULL) != XSM_OK) {
        return;
    }
    const char *name = feature < map.feature_name_count ? map.feature_names[feature] : NULL;
    printf("%-10s values of %s%s are %s times as large as those of others, which training hardly sees: "
           "--transform standard makes them alike\n",
           "", name ? "column " : "one feature", name ? name : "", cli_grouped((uint64_t)fmin(ratio, 1e18), &times));
}

void cli_train_report(const cli_run *r)
{
    static const char *const kept[] = {"all labels", "the first label", "the smallest label"};
    cli_buffer a, b, c, d;
    printf("%-10s %s: %s rows, %s features, %s class%s (%s of each row)\n", "data", r->data,
           cli_grouped(r->train_info.rows, &a), cli_grouped(r->train_info.features, &b),
           cli_grouped(r->train_info.classes, &c), r->train_info.classes == 1 ? "" : "es", kept[r->format.labels]);
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    if (xsm_dataset_get_class_map(r->train_rows, &map, NULL) == XSM_OK && map.feature_numbers) {
        printf("%-10s its feature numbers go up to %s; those in use are the features\n", "",
               cli_grouped(cli_largest_number(&map), &a));
    }
    if (r->not_used + r->dropped > 0) {
        printf("%-10s dropped: %s rows without a label or of weight 0, %s without a feature\n", "",
               cli_grouped(r->not_used, &a), cli_grouped(r->dropped, &b));
    }
    if (r->rare_labels > 0) {
        printf("%-10s left out: %s labels of fewer than %s rows, and %s rows that had no others\n", "",
               cli_grouped(r->rare_labels, &a), cli_grouped(r->min_label_count, &b), cli_grouped(r->rare_rows, &c));
    }
    if (r->train_info.empty > 0 && r->train_info.features > 0) {
        printf("%-10s %s rows without a feature, from which %s\n", "", cli_grouped(r->train_info.empty, &a),
               r->bias == CLI_BIAS_NO ? "nothing is learnt without a bias" : "the bias alone learns");
    }
    print_spread(r);
    if (r->test_rows) {
        printf("%-10s %s: %s rows", "test data", r->test, cli_grouped(r->test_info.rows, &a));
        if (r->test_info.unseen_rows > 0) {
            printf(", %s of a class that training never saw (always wrong)", cli_grouped(r->test_info.unseen_rows, &b));
        }
        if (r->test_info.unlabelled > 0) {
            printf(", %s without a label (left out)", cli_grouped(r->test_info.unlabelled, &c));
        }
        char *left_out = cli_left_out(&r->test_info, cli_reads_words(r->model), "the model");
        printf(left_out ? "\n%-10s %s\n" : "\n", "", left_out);
        free(left_out);
    }
    char *shape = cli_model_shape(r->model);
    printf("%-10s %s\n", "model", shape);
    free(shape);
    if (r->hidden.vectors) {
        printf("%-10s %s: vectors of %s of %s words, the others at random\n", "start", r->hidden.vectors,
               cli_grouped(r->vectors_found, &a), cli_grouped(r->vectors_words, &b));
    }
    if (r->warm_path) {
        printf("%-10s from %s, with %s new classes", "start", r->warm_path, cli_grouped(r->new_classes, &a));
        if (r->new_features > 0) {
            printf(" and %s new features", cli_grouped(r->new_features, &a));
        }
        char *left_out = cli_left_out(&r->raw_info, cli_reads_words(r->model), "it");
        if (left_out) {
            printf("; %s", left_out);
        }
        free(left_out);
        putchar('\n');
    }
    if (r->start > 0) {
        printf("%-10s from class means, variance %s\n", "start", cli_real(r->variance, &a));
    }
    if (r->method >= 0) {
        cli_method_report(r);
    } else if (r->full) {
        printf("%-10s %s by lbfgs, %s iterations, %s passes over the rows in %s (%s)\n", "training", r->estimator_name,
               cli_grouped(r->end.epoch, &a), cli_grouped(r->fit.evaluations, &b), cli_seconds(r->end.seconds, &d),
               ends_told[r->fit.end]);
        printf("%-10s %.8g: losses %.8g and ridge %.4g; gradient norm %.3g\n", "objective", r->fit.objective,
               r->fit.loss, r->fit.objective - r->fit.loss, r->fit.gradient_norm);
        if (is_stuck(r)) {
            printf("%-10s far from the minimum, as the gradient shows: features differ much in size; try --transform "
                   "standard\n",
                   "");
        }
    } else {
        if (r->tuning) {
            printf("%-10s eta %s, chosen in %s%s\n", "rate", cli_real(r->eta, &a), cli_seconds(r->tuned.seconds, &b),
                   r->restarts ? ", then made smaller as training diverged" : "");
        } else {
            printf("%-10s eta %s, %s%s\n", "rate", cli_real(r->eta, &a),
                   r->eta_chosen     ? "chosen"
                   : r->eta_recalled ? "as the run that is resumed chose"
                                     : "as given",
                   r->restarts ? ", then made smaller as training diverged" : "");
        }
        print_steps(r);
    }
    if (r->train_known) {
        print_metrics("train", &r->train_metrics.of, r->train_info.rows, 0);
        print_own_guess(r, &r->train_metrics.of);
    }
    if (r->test_known) {
        print_metrics("test", &r->test_metrics.of, r->test_info.rows, 1);
        print_guess(r, &r->test_metrics.of);
    }
    if (!isnan(r->prediction_seconds)) {
        printf("%-10s a prediction by itself %.3g us\n", "time", 1e6 * r->prediction_seconds);
    }
    if (r->model_path) {
        printf("%-10s %s\n", "saved", cli_output_shown(r->model_path));
    }
}
