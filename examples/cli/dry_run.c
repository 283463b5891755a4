/*
 * xsoftmax train --dry-run: what the rows are, what each way of training would need in memory, and what the machine
 * has.
 *
 * Weights are float32: K (D + 1) of a linear model, H (K + D) + K of an embedding model. adagrad keeps a sum for each
 * of them; lbfgs 2 m + 4 vectors of doubles with m = 10 pairs (xsoftmax/fit.h).
 *
 * Of a label tree the sizes are estimates. With P pairs of a class and a feature that occur together its file has some
 * 3 P + 75 sqrt(P K) bytes: right within a factor of 1.6 on seven data sets of 159 to 611,492 classes, 5 to 1,013 pairs
 * a class. Training keeps the rows of each label, label vectors of 8 bytes a pair for some of the labels (with several
 * labels a row the others share the rows' vectors) and, for each thread, rows and features of the node at work; the
 * vectors are there twice while they are put in order.
 */
#include "train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LBFGS_VECTORS = 24, VECTOR_BYTES_A_PAIR = 8, NODE_BYTES = 64 };

/* A way of training. */
typedef struct way {
    const char *name, *flags;
    uint64_t hidden;     /* of an embedding model; else 0 */
    double model, train; /* bytes of the model, and of all that training keeps, the rows too */
} way;
enum { WAYS_MOST = 8 };

typedef struct plan {
    double memory, available; /* of the machine, in bytes; 0 = unknown */
    double rows;              /* in bytes; 0 where they are mapped */
    uint64_t pairs;           /* of a class and a feature that occur together; 0 = dense rows */
    way ways[WAYS_MOST];
    size_t count;
} plan;

/* The number after a name in a file of lines such as "MemTotal:  123 kB", or the first number if there is no name; 0 if
 * it is not there. */
static double number_in(const char *path, const char *name)
{
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    double number = 0;
    while (file && getline(&line, &room, file) > 0) {
        if (strncmp(line, name, strlen(name)) == 0) {
            number = strtod(line + strlen(name), NULL);
            break;
        }
    }
    free(line);
    if (file) {
        fclose(file);
    }
    return number;
}

/* What the process may use: of the machine, or of the control group where that is less. */
static void ask_memory(plan *p)
{
    static const char *const groups[][2] = {
        {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
        {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"}};
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    p->memory = pages > 0 && page > 0 ? (double)pages * (double)page : 0;
    p->available = 1024 * number_in("/proc/meminfo", "MemAvailable:");
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        const double limit = number_in(groups[i][0], ""), used = number_in(groups[i][1], "");
        if (limit > 0 && limit < p->memory) { /* "max" is no number */
            p->memory = limit;
            p->available = limit - used < p->available ? limit - used : p->available;
        }
    }
}

/* Counts the pairs of a class and a feature that occur together, class by class. */
static int count_pairs(const cli_run *r, plan *p)
{
    const xsm_dataset_info *info = &r->train_info;
    xsm_error err = XSM_ERROR_INIT;
    xsm_row row = XSM_ROW_INIT;
    uint64_t *starts = calloc((size_t)info->classes + 1, sizeof *starts), *rows = NULL;
    uint32_t *seen =
        calloc(info->features ? info->features : 1, sizeof *seen); /* the last class with the feature, + 1 */
    rows = calloc(info->labels ? info->labels : 1, sizeof *rows);
    int code = starts && seen && rows ? CLI_GO_ON : cli_fail("out of memory");
    cli_note("counting pairs of features and classes ...");
    for (uint64_t i = 0; code == CLI_GO_ON && i < info->rows; i++) {
        code = xsm_dataset_get_row(r->train_rows, i, &row, &err) == XSM_OK ? code : cli_library_failed(&err);
        for (uint64_t j = 0; code == CLI_GO_ON && j < row.label_count; j++) {
            starts[row.labels[j] + 1]++;
        }
    }
    for (uint32_t k = 0; code == CLI_GO_ON && k < info->classes; k++) {
        starts[k + 1] += starts[k];
    }
    for (uint64_t i = info->rows;
         code == CLI_GO_ON && i-- > 0;) { /* afterwards starts[k + 1] is where class k begins */
        code = xsm_dataset_get_row(r->train_rows, i, &row, &err) == XSM_OK ? code : cli_library_failed(&err);
        for (uint64_t j = 0; code == CLI_GO_ON && j < row.label_count; j++) {
            rows[--starts[row.labels[j] + 1]] = i;
        }
    }
    for (uint32_t k = 0; code == CLI_GO_ON && k < info->classes; k++) {
        const uint64_t end = k + 1 < info->classes ? starts[k + 2] : info->labels;
        for (uint64_t at = starts[k + 1]; code == CLI_GO_ON && at < end; at++) {
            code = xsm_dataset_get_row(r->train_rows, rows[at], &row, &err) == XSM_OK ? code : cli_library_failed(&err);
            for (uint64_t j = 0; code == CLI_GO_ON && j < row.count; j++) {
                p->pairs += seen[row.index[j]] != k + 1;
                seen[row.index[j]] = k + 1;
            }
        }
        if (code == CLI_GO_ON && cli_stop_requested()) {
            code = cli_fail("cancelled");
        }
    }
    cli_note_clear();
    free(starts);
    free(seen);
    free(rows);
    return code;
}

/* Adds a way whose training keeps the rows, their order, the model, and so many bytes besides. */
static void add(plan *p, const cli_run *r, const char *name, const char *flags, uint64_t hidden, double model,
                double more)
{
    const double order = 8 * (double)r->train_info.rows;
    p->ways[p->count++] = (way){name, flags, hidden, model, p->rows + order + model + more};
}

static void add_ways(plan *p, const cli_run *r)
{
    const double classes = r->train_info.classes, features = r->train_info.features;
    const double linear = classes * (features + 1);
    const uint64_t usual[] = {64, 256};
    add(p, r, "linear", "--optimizer sgd", 0, 4 * linear, 0);
    add(p, r, "linear", "--optimizer adagrad", 0, 4 * linear, 4 * linear);
    add(p, r, "linear", "--optimizer lbfgs", 0, 4 * linear, (8 * LBFGS_VECTORS + 4) * linear);
    for (size_t i = 0; i < (r->hidden.size ? 1 : 2); i++) {
        const uint64_t hidden = r->hidden.size ? r->hidden.size : usual[i];
        const double numbers = (double)hidden * (classes + (r->hidden.tied ? 0 : features)) + classes;
        add(p, r, "embedding", "--optimizer sgd", hidden, 4 * numbers, 0);
        add(p, r, "embedding", "--optimizer adagrad", hidden, 4 * numbers, 4 * numbers);
    }
    if (p->pairs > 0) {
        const double pairs = (double)p->pairs, model = 3 * pairs + 75 * sqrt(pairs * classes);
        const double labels = (double)r->train_info.labels, each = fmax(labels / (double)r->train_info.rows, 1);
        const double vectors = VECTOR_BYTES_A_PAIR * (pairs / each + labels);
        const double lists = 4 * labels * log2(fmax(classes, 2));
        const double node = p->rows / 2 + NODE_BYTES * (features + (double)r->train_info.rows);
        add(p, r, "label tree", "about", 0, model, model + 2 * vectors + lists + cli_threads(r->context) * node);
    }
}

/* Bytes that a way would need may be more than there can be. */
static uint64_t whole_bytes(double bytes)
{
    return bytes < 0x1p64 ? (uint64_t)bytes : UINT64_MAX;
}

static void print_json(const plan *p, const cli_run *r)
{
    cli_json json = {stdout, 0};
    cli_json_open(&json, NULL);
    cli_json_whole(&json, "examples", r->train_info.rows);
    cli_json_whole(&json, "features", r->train_info.features);
    cli_json_whole(&json, "classes", r->train_info.classes);
    cli_json_whole(&json, "values", r->train_info.values);
    cli_json_whole(&json, "labels", r->train_info.labels);
    cli_json_whole(&json, "rows_bytes", whole_bytes(p->rows));
    cli_json_whole(&json, "peak_bytes", cli_peak_bytes());
    cli_json_whole(&json, "memory_bytes", whole_bytes(p->memory));
    cli_json_whole(&json, "available_bytes", whole_bytes(p->available));
    cli_json_open_list(&json, "ways");
    for (size_t i = 0; i < p->count; i++) {
        const way *w = &p->ways[i];
        cli_json_open(&json, NULL);
        cli_json_text(&json, "model", w->name);
        cli_json_whole(&json, "hidden", w->hidden);
        cli_json_text(&json, "optimizer", strncmp(w->flags, "--optimizer ", 12) == 0 ? w->flags + 12 : NULL);
        cli_json_whole(&json, "model_bytes", whole_bytes(w->model));
        cli_json_whole(&json, "train_bytes", whole_bytes(w->train));
        cli_json_text(&json, "fits", w->train <= p->available ? "yes" : "no");
        cli_json_close(&json);
    }
    cli_json_close_list(&json);
    cli_json_close(&json);
    putchar('\n');
}

static void print_words(const plan *p, const cli_run *r)
{
    const xsm_dataset_info *info = &r->train_info;
    cli_buffer a, b, c, d;
    printf("%-10s %s: %s rows, %s features, %s classes\n", "data", r->data, cli_grouped(info->rows, &a),
           cli_grouped(info->features, &b), cli_grouped(info->classes, &c));
    printf("%-10s %s values (%.1f a row), %s labels (%.2f a row)", "", cli_grouped(info->values, &a),
           (double)info->values / (double)info->rows, cli_grouped(info->labels, &b),
           (double)info->labels / (double)info->rows);
    if (p->rows > 0) {
        printf(": %s; reading took %s", cli_bytes(p->rows, &c), cli_bytes((double)cli_peak_bytes(), &d));
    } else {
        fputs(", mapped", stdout);
    }
    printf("\n%-10s %s, of which %s are free\n\n", "memory", cli_bytes(p->memory, &a), cli_bytes(p->available, &b));
    printf("%-44s %12s %12s\n", "way", "model", "training");
    for (size_t i = 0; i < p->count; i++) {
        const way *w = &p->ways[i];
        char *name = w->hidden ? cli_format("%s, --hidden %llu %s", w->name, (unsigned long long)w->hidden, w->flags)
                               : cli_format("%s, %s", w->name, w->flags);
        printf("%-44s %12s %12s%s\n", name, cli_bytes(w->model, &a), cli_bytes(w->train, &b),
               w->train <= p->available ? "" : "  too much");
        free(name);
    }
}

int cli_dry_run(const cli_run *r)
{
    plan p = {.count = 0};
    const xsm_dataset_info *info = &r->train_info;
    const double rows = (double)info->rows;
    ask_memory(&p);
    if (!r->format.spool && r->raw_info.format != XSM_FORMAT_CACHE) {
        p.rows = (info->sparse ? 8 * ((double)info->values + rows) : 4 * rows * info->features) +
                 4 * (double)info->labels + 8 * rows;
    }
    int code = info->sparse ? count_pairs(r, &p) : CLI_GO_ON;
    if (code != CLI_GO_ON) {
        return code;
    }
    add_ways(&p, r);
    if (r->json) {
        print_json(&p, r);
    } else {
        print_words(&p, r);
    }
    return CLI_DONE;
}
