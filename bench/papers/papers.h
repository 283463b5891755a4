/*
 * Shared by the figures of the papers: the settings, and the output of results.
 */
#ifndef PAPERS_H
#define PAPERS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include <xsoftmax.h>

typedef struct papers {
    xsm_context *context;
    const char *folder; /* of tables, curves and plots */
    bool json;
    bool quick;       /* small sizes, a second or so per figure: for tests, the numbers have no meaning */
    const char *sets; /* "A,B,...": the sets of data, if a figure has several; NULL = all */
    /* For figures that give each method the same time. */
    const char *only; /* the same for methods */
    double budget;    /* seconds per method; 0 = the figure's default */
    bool processor;   /* seconds are processor time of all threads; so on one thread */
    uint32_t scale;   /* for figures of generated data: its rows and classes are divided by it; 0 = 1 */
} papers;

/* Options that some figures take: --only, --budget and --processor; --scale; --sets. */
enum { RACES = 1, SCALES = 2, HAS_SETS = 4 };

typedef struct figure {
    const char *name, *summary;
    void (*run)(const papers *p);
    unsigned takes;
} figure;

/* Ends the program with exit status 1 if a call failed; otherwise it does nothing. */
void papers_check(xsm_status status, const xsm_error *err);
/* Facts about the context. */
xsm_context_info papers_context(const papers *p);
/* [K] rows with each class. */
const uint64_t *papers_class_counts(const xsm_dataset *data);
/* The same, for failures of the program itself. */
_Noreturn void papers_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Whether a name is in a list "A,B,..."; NULL contains all names. */
bool papers_listed(const char *list, const char *name);
/* Ends the program if a list has a name that is not among `names`, which end in NULL; `what` describes them. */
void papers_check_list(const char *list, const char *what, const char *const *names);
/* Zeroed memory for `count` elements; the caller frees it with free(). Never NULL. */
void *papers_memory(size_t count, size_t each);
/* Prints one line about the progress to standard error. */
void papers_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Seconds of a clock. */
double papers_clock(void);
/* Processor seconds of all threads so far. */
double papers_work(void);
/* The seconds that tables and curves show: processor seconds on one thread or with --processor, in which other programs
 * on the machine do not count; else seconds of a clock. */
double papers_seconds(const papers *p);

/* A table of numbers, the paper's beside ours. Rows and columns are in the order of their first use. */
typedef struct report report;

/* No number: the paper has none, or the method diverged. */
#define PAPERS_NONE ((double)NAN)

report *report_new(const papers *p, const char *name, const char *title);
/* A line below the title. */
void report_note(report *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
void report_cell(report *r, const char *row, const char *column, double paper, double ours);
/* Prints the table, or the lines of JSON, writes FIGURE.csv and releases the report. A report without cells is only
 * released. */
void report_end(report *r);

/* Columns over a common x: FOLDER/NAME.csv, the first column x. */
typedef struct curves curves;

curves *curves_new(const papers *p, const char *name, const char *x);
/* Adds a point to a column, which is made at its first point. */
void curves_point(curves *c, const char *column, double x, double y);
/* Writes the file and releases the curves. */
void curves_end(curves *c);

/* The figures: one line each in main.c. */
void figure_ove_toy(const papers *p);
void figure_ove_nonparametric(const papers *p);
void figure_ove_table2(const papers *p);
void figure_ove_alpha(const papers *p);
void figure_ove_amazoncat(const papers *p);
void figure_umax_table3(const papers *p);
void figure_umax_rates(const papers *p);
void figure_umax_start(const papers *p);
void figure_ldgs_steps(const papers *p);
void figure_ldgs_equal_time(const papers *p);
void figure_ldgs_retrieval(const papers *p);
void figure_ldgs_multiclass(const papers *p);
void figure_ldgs_multilabel(const papers *p);
void figure_umax_optimum(const papers *p);
void figure_adversarial_eurlex(const papers *p);
void figure_adversarial_penalty(const papers *p);
void figure_adversarial_curves(const papers *p);
void figure_ldgs_words(const papers *p);
void figure_estimators_time(const papers *p);

#endif
