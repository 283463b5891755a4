/*
 * What the figures of the papers share: the settings, and one way for results to come out.
 */
#ifndef PAPERS_H
#define PAPERS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include <xsoftmax.h>

typedef struct papers {
    xsm_context *context;
    const char *folder; /* where tables, curves and plots go */
    bool json;
    bool quick;       /* sizes cut down until each figure takes a second or so: for tests, the numbers mean nothing */
    const char *sets; /* "A,B,...": the sets of data, where a figure has several; NULL = all */
    /* Of figures that race methods against the clock. */
    const char *only; /* the same of methods */
    double budget;    /* seconds a method; 0 = the figure's own */
    uint32_t scale;   /* rows and classes of what is made up are divided by it; 0 = 1 */
    bool processor;   /* seconds are processor time of all threads, which other programs do not add to */
} papers;

typedef struct figure {
    const char *name, *summary;
    void (*run)(const papers *p);
} figure;

/* Ends the program with exit status 1 when a call failed; otherwise it does nothing. */
void papers_check(xsm_status status, const xsm_error *err);
/* The same, for what the program does itself. */
_Noreturn void papers_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Whether a name is in a list "A,B,..."; NULL has all. */
bool papers_listed(const char *list, const char *name);
/* Ends the program when a list has a name that is not among `names`, which end in NULL; `what` they are. */
void papers_check_list(const char *list, const char *what, const char *const *names);
/* Memory of zeros for count elements; free() it. Never NULL. */
void *papers_memory(size_t count, size_t each);
/* One line about what goes on, to standard error. */
void papers_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Seconds since some moment. */
double papers_clock(void);
/* Processor seconds of all threads so far. */
double papers_work(void);

/* A table of numbers, the paper's beside ours. Rows and columns stand in the order in which they first came. */
typedef struct report report;

/* No number: the paper has none, or the method diverged. */
#define PAPERS_NONE ((double)NAN)

report *report_new(const papers *p, const char *name, const char *title);
/* A line below the title. */
void report_note(report *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
void report_cell(report *r, const char *row, const char *column, double paper, double ours);
/* Prints the table, or the lines of JSON, writes FIGURE.csv and releases the report. Without cells, only the last. */
void report_end(report *r);

/* Columns over a common x: FOLDER/NAME.csv, the first column x. */
typedef struct curves curves;

curves *curves_new(const papers *p, const char *name, const char *x);
/* A point of a column, which is made when it first comes. */
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
void figure_ldgs_steps(const papers *p);
void figure_ldgs_equal_time(const papers *p);
void figure_ldgs_multiclass(const papers *p);
void figure_ldgs_multilabel(const papers *p);
void figure_umax_optimum(const papers *p);
void figure_adversarial_eurlex(const papers *p);
void figure_adversarial_curves(const papers *p);
void figure_ldgs_words(const papers *p);

#endif
