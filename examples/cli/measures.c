/* The measures of the k best classes, and the values of k that are reported: one list for JSON, reports and the
 * history. */
#include "cli.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

const cli_measure cli_measures[CLI_MEASURES] = {
    {"precision", "precision", offsetof(xsm_metrics, precision)},
    {"ndcg", "nDCG", offsetof(xsm_metrics, ndcg)},
    {"psp", "PSP", offsetof(xsm_metrics, psp)},
    {"psndcg", "PSnDCG", offsetof(xsm_metrics, psndcg)},
    {"recall", "recall", offsetof(xsm_metrics, recall)},
    {"hits", "hits", offsetof(xsm_metrics, hits)},
    {"mrr", "MRR", offsetof(xsm_metrics, reciprocal_rank)},
};
const uint32_t cli_measure_ranks[CLI_MEASURE_RANKS] = {1, 3, 5, CLI_MEASURE_TOP};

const double *cli_measure_values(const xsm_metrics *metrics, size_t which)
{
    return *(double *const *)(const void *)((const char *)metrics + cli_measures[which].offset);
}

void cli_metrics_start(cli_metrics *m)
{
    m->of = (xsm_metrics)XSM_METRICS_INIT;
    m->of.top = CLI_MEASURE_TOP;
    for (size_t i = 0; i < CLI_MEASURES; i++) {
        *(double **)(void *)((char *)&m->of + cli_measures[i].offset) = m->values[i];
    }
}

void cli_metrics_keep(cli_metrics *m, const xsm_metrics *from)
{
    cli_metrics_start(m);
    memcpy(&m->of, from, offsetof(xsm_metrics, top));
    m->of.calibration_error = from->calibration_error;
    for (size_t i = 0; i < CLI_MEASURES; i++) {
        memcpy(m->values[i], cli_measure_values(from, i), sizeof m->values[i]);
    }
}

double cli_measure_at(const xsm_metrics *metrics, size_t which, uint32_t k)
{
    return metrics && k <= metrics->top ? cli_measure_values(metrics, which)[k - 1] : (double)NAN;
}

void cli_measure_print(const xsm_metrics *metrics, size_t which, const char *between)
{
    for (size_t i = 0; i < CLI_MEASURE_RANKS; i++) {
        printf("%s@%u %.4f", i > 0 ? between : "", cli_measure_ranks[i],
               cli_measure_at(metrics, which, cli_measure_ranks[i]));
    }
}

int cli_measures_read(const char *flag, const char *list, unsigned *set)
{
    unsigned wanted = 0;
    for (const char *word = list; word; word = *word ? word + 1 : NULL) {
        size_t length = strcspn(word, ","), i = 0;
        while (i < CLI_MEASURES &&
               (strlen(cli_measures[i].key) != length || strncmp(word, cli_measures[i].key, length) != 0)) {
            i++;
        }
        if (i == CLI_MEASURES) {
            return cli_misuse("%s: '%.*s' is none of precision, ndcg, psp, psndcg, recall, hits and mrr", flag,
                              (int)length, word);
        }
        if (wanted & 1U << i) {
            return cli_misuse("%s: '%.*s' is named twice", flag, (int)length, word);
        }
        wanted |= 1U << i;
        word += length;
    }
    *set = wanted;
    return CLI_GO_ON;
}

/* Of fewer rows an error says too little. */
#define GUESS_ROWS 30

double cli_guess_error(const xsm_model *model)
{
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    uint64_t most = 0;
    if (xsm_model_get_class_map(model, &map, NULL) != XSM_OK || !map.counts || map.rows == 0) {
        return (double)NAN;
    }
    for (uint32_t k = 0; k < map.classes; k++) {
        most = map.counts[k] > most ? map.counts[k] : most;
    }
    return 1 - (double)most / (double)map.rows;
}

int cli_no_better_than_guess(const xsm_model *model, const xsm_metrics *metrics)
{
    const double guess = cli_guess_error(model);
    return metrics->rows >= GUESS_ROWS &&
           metrics->error > guess - sqrt(guess * (1 - guess) / (double)metrics->rows); /* not if it is NaN */
}

double cli_guess_log_loss(const xsm_model *model)
{
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    double sum = 0, labels = 0;
    if (xsm_model_get_class_map(model, &map, NULL) != XSM_OK || !map.counts || map.rows == 0) {
        return (double)NAN;
    }
    for (uint32_t k = 0; k < map.classes; k++) {
        const double count = (double)map.counts[k];
        labels += count;
        sum -= count > 0 ? count * log(count / (double)map.rows) : 0;
    }
    return labels > (double)map.rows ? (double)NAN : sum / labels;
}
