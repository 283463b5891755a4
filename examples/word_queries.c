/* Queries of word vectors, answered by scoring all words. */
#include "word_queries.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct word_set {
    xsm_model *model; /* rows of unit length */
    xsm_parameters parameters;
    xsm_class_map map;
    uint32_t *order; /* [V] classes by name */
};

static int complain(const xsm_error *err)
{
    fprintf(stderr, "word_vectors: %s\n", err->message);
    return 1;
}

/* -- loading ------------------------------------------------------------------------------------------------------- */

/* Sorts classes by name: a merge sort, which needs no state outside of its arguments. */
static void sort_names(const char *const *names, uint32_t *order, uint32_t *work, size_t n)
{
    if (n < 2) {
        return;
    }
    size_t half = n / 2, i = 0, j = half, k = 0;
    sort_names(names, order, work, half);
    sort_names(names, order + half, work, n - half);
    while (i < half || j < n) {
        bool left = j == n || (i < half && strcmp(names[order[i]], names[order[j]]) <= 0);
        work[k++] = order[left ? i++ : j++];
    }
    memcpy(order, work, n * sizeof *order);
}

static void make_unit(float *row, size_t step, uint32_t count)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += (double)row[i * step] * (double)row[i * step];
    }
    for (uint32_t i = 0; sum > 0 && i < count; i++) {
        row[i * step] = (float)((double)row[i * step] / sqrt(sum));
    }
}

word_set *word_set_load(const char *path)
{
    xsm_error err = XSM_ERROR_INIT;
    word_set *set = calloc(1, sizeof *set);
    if (!set) {
        return NULL;
    }
    set->map = (xsm_class_map)XSM_CLASS_MAP_INIT;
    set->parameters = (xsm_parameters)XSM_PARAMETERS_INIT;
    size_t length = strlen(path);
    bool text = length > 4 && strcmp(path + length - 4, ".vec") == 0;
    xsm_status status = text ? xsm_word_model_read(NULL, path, &set->model, &err)
                             : xsm_model_load(NULL, path, NULL, NULL, &set->model, &err);
    if (status == XSM_OK) {
        status = xsm_model_get_parameters(set->model, &set->parameters, &err);
    }
    if (status == XSM_OK) {
        status = xsm_model_get_class_map(set->model, &set->map, &err);
    }
    if (status != XSM_OK) {
        complain(&err);
        word_set_free(set);
        return NULL;
    }
    if (!set->map.names) {
        fprintf(stderr, "word_vectors: %s has no words: its classes are without names\n", path);
        word_set_free(set);
        return NULL;
    }
    const uint32_t words = set->map.classes;
    set->order = malloc(words * sizeof *set->order);
    uint32_t *work = malloc(words * sizeof *work);
    if (!set->order || !work) {
        fprintf(stderr, "word_vectors: out of memory\n");
        free(work);
        word_set_free(set);
        return NULL;
    }
    for (uint32_t k = 0; k < words; k++) {
        set->order[k] = k;
        make_unit(set->parameters.weight + k * set->parameters.class_step, set->parameters.feature_step,
                  set->parameters.features);
    }
    sort_names(set->map.names, set->order, work, words);
    free(work);
    return set;
}

void word_set_free(word_set *set)
{
    if (set) {
        xsm_model_free(set->model);
        free(set->order);
        free(set);
    }
}

static uint32_t find_as_is(const word_set *set, const char *word)
{
    size_t low = 0, high = set->map.classes;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(set->map.names[set->order[middle]], word) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool found = low < set->map.classes && strcmp(set->map.names[set->order[low]], word) == 0;
    return found ? set->order[low] : XSM_CLASS_UNSEEN;
}

/* Finds a word as it is or, if it is unknown, in lower case. */
static uint32_t find(const word_set *set, const char *word)
{
    uint32_t found = find_as_is(set, word);
    char lower[256];
    size_t length = strlen(word);
    if (found != XSM_CLASS_UNSEEN || length >= sizeof lower) {
        return found;
    }
    for (size_t i = 0; i <= length; i++) {
        lower[i] = (char)(word[i] >= 'A' && word[i] <= 'Z' ? word[i] - 'A' + 'a' : word[i]);
    }
    return find_as_is(set, lower);
}

static float at(const word_set *set, uint32_t word, uint32_t i)
{
    return set->parameters.weight[word * set->parameters.class_step + i * set->parameters.feature_step];
}

/* The best `top` words for each of `count` queries, best first. */
static int search(const word_set *set, const float *queries, uint64_t count, uint32_t top, uint32_t *words,
                  float *scores)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset *rows = NULL;
    xsm_predictor *predictor = NULL;
    xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
    options.top = top;
    xsm_status status = xsm_dataset_from_dense(NULL,
                                               &(xsm_dense_rows){.size = sizeof(xsm_dense_rows),
                                                                 .values = queries,
                                                                 .rows = count,
                                                                 .features = set->parameters.features,
                                                                 .ownership = XSM_BORROW},
                                               &rows, &err);
    if (status == XSM_OK) {
        status = xsm_predictor_new(set->model, &options, &predictor, &err);
    }
    if (status == XSM_OK) {
        xsm_batch batch = xsm_batch_range(rows, 0, count);
        status = xsm_predictor_run(
            predictor,
            &(xsm_prediction){.size = sizeof(xsm_prediction), .batch = &batch, .classes = words, .scores = scores},
            &err);
    }
    xsm_predictor_free(predictor);
    xsm_dataset_free(rows);
    return status == XSM_OK ? 0 : complain(&err);
}

/* -- neighbours ---------------------------------------------------------------------------------------------------- */

int word_neighbours(const word_set *set, const char *word, uint32_t top)
{
    const uint32_t id = find(set, word), features = set->parameters.features, words = set->map.classes;
    if (id == XSM_CLASS_UNSEEN) {
        fprintf(stderr, "word_vectors: '%s' is not in the vocabulary\n", word);
        return 1;
    }
    top = top < words - 1 ? top + 1 : words; /* the word itself is among the results */
    float *query = malloc(features * sizeof *query), *scores = malloc(top * sizeof *scores);
    uint32_t *found = malloc(top * sizeof *found);
    int result = 1;
    if (query && scores && found) {
        for (uint32_t i = 0; i < features; i++) {
            query[i] = at(set, id, i);
        }
        result = search(set, query, 1, top, found, scores);
        for (uint32_t j = 0; result == 0 && j < top; j++) {
            if (found[j] != id) {
                printf("%s\t%s\t%.4f\n", set->map.names[id], set->map.names[found[j]], (double)scores[j]);
            }
        }
    }
    free(query);
    free(scores);
    free(found);
    return result;
}

/* -- analogies ----------------------------------------------------------------------------------------------------- */

typedef struct tally {
    char name[64];
    uint64_t right, known, all;
} tally;

static void print_tally(const tally *t)
{
    printf("%-32s %6.2f %%  %6llu of %llu known, %llu asked\n", t->name,
           t->known ? 100 * (double)t->right / (double)t->known : 0, (unsigned long long)t->right,
           (unsigned long long)t->known, (unsigned long long)t->all);
}

enum { GROUP = 256, BEST = 4 };

typedef struct questions {
    const word_set *set;
    float *queries; /* [GROUP][D] */
    uint32_t words[GROUP][4];
    uint32_t found[GROUP * BEST];
    float scores[GROUP * BEST];
    size_t count;
    tally section, total;
} questions;

/* Answers the questions gathered so far. */
static int answer(questions *q)
{
    if (q->count == 0) {
        return 0;
    }
    const uint32_t top = q->set->map.classes < BEST ? q->set->map.classes : BEST;
    if (search(q->set, q->queries, q->count, top, q->found, q->scores) != 0) {
        return 1;
    }
    for (size_t i = 0; i < q->count; i++) {
        const uint32_t *w = q->words[i];
        uint32_t best = XSM_CLASS_UNSEEN;
        for (uint32_t j = 0; j < top && best == XSM_CLASS_UNSEEN; j++) {
            uint32_t k = q->found[i * top + j];
            best = k == w[0] || k == w[1] || k == w[2] ? XSM_CLASS_UNSEEN : k;
        }
        q->section.right += best == w[3];
    }
    q->count = 0;
    return 0;
}

static int end_section(questions *q)
{
    if (answer(q) != 0) {
        return 1;
    }
    if (q->section.all > 0) {
        print_tally(&q->section);
    }
    q->total.right += q->section.right;
    q->total.known += q->section.known;
    q->total.all += q->section.all;
    q->section.right = q->section.known = q->section.all = 0;
    return 0;
}

static int ask(questions *q, char text[4][256])
{
    const uint32_t features = q->set->parameters.features;
    uint32_t *w = q->words[q->count];
    q->section.all++;
    for (int i = 0; i < 4; i++) {
        w[i] = find(q->set, text[i]);
        if (w[i] == XSM_CLASS_UNSEEN) {
            return 0;
        }
    }
    q->section.known++;
    float *query = q->queries + q->count * features;
    for (uint32_t i = 0; i < features; i++) {
        query[i] = at(q->set, w[1], i) - at(q->set, w[0], i) + at(q->set, w[2], i);
    }
    q->count++;
    return q->count == GROUP ? answer(q) : 0;
}

int word_analogies(const word_set *set, const char *path)
{
    FILE *file = fopen(path, "r");
    questions *q = calloc(1, sizeof *q);
    float *queries = calloc((size_t)GROUP * set->parameters.features, sizeof *queries);
    int result = !file || !q || !queries;
    if (result) {
        fprintf(stderr, "word_vectors: %s cannot be read\n", path);
    } else {
        q->set = set;
        q->queries = queries;
        snprintf(q->section.name, sizeof q->section.name, "questions");
        snprintf(q->total.name, sizeof q->total.name, "all");
    }
    char line[1100], text[4][256];
    for (unsigned long number = 1; result == 0 && fgets(line, sizeof line, file); number++) {
        if (line[0] == ':') {
            result = end_section(q);
            sscanf(line + 1, "%63s", q->section.name);
        } else if (sscanf(line, "%255s %255s %255s %255s", text[0], text[1], text[2], text[3]) == 4) {
            result = ask(q, text);
        } else if (line[strspn(line, " \t\r\n")] != '\0') {
            fprintf(stderr, "word_vectors: %s, line %lu: four words are needed\n", path, number);
            result = 1;
        }
    }
    if (result == 0) {
        result = end_section(q);
        print_tally(&q->total);
    }
    if (file) {
        fclose(file);
    }
    free(queries);
    free(q);
    return result;
}

/* -- similarities -------------------------------------------------------------------------------------------------- */

typedef struct ranked {
    double value, rank;
    size_t position;
} ranked;

static int compare_values(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    return (x->value > y->value) - (x->value < y->value);
}

/* Ranks from 1; equal values get the mean of their ranks. */
static void rank(const double *values, size_t n, ranked *work, double *ranks)
{
    for (size_t i = 0; i < n; i++) {
        work[i].value = values[i];
        work[i].position = i;
    }
    qsort(work, n, sizeof *work, compare_values);
    for (size_t i = 0, j; i < n; i = j) {
        for (j = i; j < n && work[j].value == work[i].value; j++) {
        }
        for (size_t k = i; k < j; k++) {
            ranks[work[k].position] = (double)(i + j + 1) / 2;
        }
    }
}

static double correlation(const double *a, const double *b, size_t n)
{
    double mean = (double)(n + 1) / 2, ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < n; i++) {
        ab += (a[i] - mean) * (b[i] - mean);
        aa += (a[i] - mean) * (a[i] - mean);
        bb += (b[i] - mean) * (b[i] - mean);
    }
    return ab / sqrt(aa * bb);
}

enum { PAIRS_MOST = 65536 };

int word_similarity(const word_set *set, const char *path)
{
    FILE *file = fopen(path, "r");
    double *numbers = malloc(4 * PAIRS_MOST * sizeof *numbers);
    ranked *work = malloc(PAIRS_MOST * sizeof *work);
    int result = !file || !numbers || !work;
    if (result) {
        fprintf(stderr, "word_vectors: %s cannot be read\n", path);
    }
    double *given = numbers, *cosines = numbers + PAIRS_MOST;
    size_t known = 0, all = 0;
    char line[1100], a[256], b[256];
    for (unsigned long number = 1; result == 0 && fgets(line, sizeof line, file); number++) {
        double score;
        if (sscanf(line, "%255s %255s %lf", a, b, &score) != 3 || known == PAIRS_MOST) {
            fprintf(stderr, "word_vectors: %s, line %lu: two words and a number are needed, on up to %d lines\n", path,
                    number, PAIRS_MOST);
            result = 1;
            break;
        }
        uint32_t x = find(set, a), y = find(set, b);
        all++;
        if (x != XSM_CLASS_UNSEEN && y != XSM_CLASS_UNSEEN) {
            double sum = 0;
            for (uint32_t i = 0; i < set->parameters.features; i++) {
                sum += (double)at(set, x, i) * (double)at(set, y, i);
            }
            given[known] = score;
            cosines[known++] = sum;
        }
    }
    if (result == 0) {
        rank(given, known, work, numbers + 2 * PAIRS_MOST);
        rank(cosines, known, work, numbers + 3 * PAIRS_MOST);
        const char *name = strrchr(path, '/');
        printf("%-32s %6.4f  %zu of %zu pairs known\n", name ? name + 1 : path,
               known > 1 ? correlation(numbers + 2 * PAIRS_MOST, numbers + 3 * PAIRS_MOST, known) : 0.0, known, all);
    }
    if (file) {
        fclose(file);
    }
    free(numbers);
    free(work);
    return result;
}
