/*
 * Describes the choice and its reasons in three lines.
 */
#include "auto/choose.h"

#include <stdio.h>
#include <string.h>

typedef struct words {
    char *line;
    size_t capacity, length;
} words;

static void say(words *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(words *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (w->length < w->capacity) {
        int n = vsnprintf(w->line + w->length, w->capacity - w->length, format, args);
        w->length += n > 0 ? (size_t)n : 0;
    }
    va_end(args);
}

/* A number's text, for the rest of the block. */
typedef char text[32];
#define NUMBER(value, digits) number(value, digits, (text){0})
#define GROUPED(value) grouped(value, (text){0})

static const char *number(double value, int digits, text out)
{
    (void)xsmi_print_double(value, digits, out, sizeof(text));
    return out;
}

/* 1,234,567 */
static const char *grouped(uint64_t value, text out)
{
    text digits;
    char *end = out;
    const int n = snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    for (int i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0) {
            *end++ = ',';
        }
        *end++ = digits[i];
    }
    return out; /* which was zeros */
}

/* " 20 classes": a number and what it counts, in the singular if it is 1. */
static void say_count(words *w, uint64_t count, const char *one, const char *many)
{
    say(w, " %s %s", GROUPED(count), count == 1 ? one : many);
}

/* " 20 classes and 140 features a row" */
static void say_size(words *w, const xsmi_chooser *c)
{
    const double features = c->survey.nonzeros;
    say_count(w, c->train->classes, "class", "classes");
    say(w, " and");
    say_count(w, features > 1 ? (uint64_t)(features + 0.5) : 1, "feature", "features");
    say(w, " a row");
}

static void say_method(const xsmi_chooser *c, const xsmi_candidate *candidate, words w)
{
    char m[32] = "", shared[8] = "";
    const xsm_estimator *e = candidate->estimator;
    const char *sampler = xsm_sampler_name(xsm_estimator_sampler(e));
    say(&w, "%s", e->ops.name);
    if (xsm_estimator_get(e, "negatives", m, sizeof m) > 0 && !candidate->exact) {
        (void)xsm_estimator_get(e, "shared", shared, sizeof shared);
        say(&w, " with %s %s%s%s a %s", m, strcmp(m, "1") == 0 ? "class" : "classes", sampler ? " by " : "",
            sampler ? sampler : "", strcmp(shared, "yes") == 0 ? "batch" : "row");
    }
    if (candidate->hidden) {
        say(&w, ", on vectors of %u", (unsigned)candidate->hidden);
    }
    say(&w, ", by %s:", c->result->info.optimizer);
    if (c->options.estimator) {
        say(&w, " as given");
    } else if (candidate->full) {
        say_count(&w, c->train->rows, "row", "rows");
        say(&w, " and");
        say_count(&w, c->train->classes, "class", "classes");
        say(&w, " are few enough for all at once");
    } else if (candidate->exact) {
        say_size(&w, c);
        say(&w, " are few enough to score every class");
    } else {
        say_count(&w, c->train->rows, "row", "rows");
        say(&w, ",");
        say_size(&w, c);
        say(&w, " are too much to score every class");
    }
}

static void say_numbers(const xsmi_chooser *c, const xsmi_candidate *candidate, words w)
{
    const xsm_choice_info *i = &c->result->info;
    if (i->transform) {
        say(&w, "rows by %s, ", i->transform);
    }
    if (candidate->full) {
        say(&w, "ridge %s, at most %llu iterations", NUMBER(i->ridge, 0), (unsigned long long)i->iterations);
        return;
    }
    say(&w, "rate %s", NUMBER(i->eta, 0));
    if (!c->options.keep_schedule) {
        say(&w, " x %s an epoch", NUMBER(i->factor, 2));
    }
    say(&w, ", %llu epoch%s, batches of %llu, ridge %s", (unsigned long long)i->epochs, i->epochs == 1 ? "" : "s",
        (unsigned long long)i->batch, NUMBER(i->ridge, 0));
    if (i->pairs > 0) {
        say(&w, ", pairs of strength %s added", NUMBER(i->pairs, 0));
    }
}

static void say_search(const xsmi_chooser *c, const xsmi_candidate *candidate, words w)
{
    const xsm_choice_info *i = &c->result->info;
    if (i->trials > 0) {
        say(&w, "%s runs on %s rows in %s s; on %s others: %s %s", GROUPED(i->trials), GROUPED(c->plan.rows[0]->rows),
            NUMBER(i->seconds, 2), GROUPED(i->held), candidate->judge == XSMI_JUDGE_RANKING ? "1 - nDCG@5" : "log-loss",
            NUMBER(i->loss, 4));
    } else {
        say(&w, "nothing was tried%s", c->options.seconds > 0 && c->cut_short ? "" : ": too few rows");
    }
    if (i->gave_up) {
        say(&w, "; in the budget of %s s:%s%s%s", NUMBER(c->options.seconds, 0), c->cut_short ? " fewer trials" : "",
            c->cut_short && c->cut_epochs ? "," : "", c->cut_epochs ? " fewer epochs" : "");
        if (c->cut_epochs && c->run.epochs == 0) {
            say(&w, " (%llu)", (unsigned long long)i->epochs);
        } else if (c->cut_epochs) {
            say(&w, " than %llu, if need be", (unsigned long long)i->epochs);
        }
    }
}

void xsmi_choose_report(const xsmi_chooser *c, const xsmi_candidate *candidate)
{
    xsm_choice *r = c->result;
    say_method(c, candidate, (words){r->line[0], sizeof r->line[0], 0});
    say_numbers(c, candidate, (words){r->line[1], sizeof r->line[1], 0});
    say_search(c, candidate, (words){r->line[2], sizeof r->line[2], 0});
}
