/*
 * Output of tables and curves: Markdown or JSON to standard output, CSV to the folder.
 */
#include "papers.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

_Noreturn void papers_fail(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fprintf(stderr, "papers: ");
    vfprintf(stderr, format, list);
    fprintf(stderr, "\n");
    va_end(list);
    exit(1);
}

void papers_check(xsm_status status, const xsm_error *err)
{
    if (status != XSM_OK) {
        papers_fail("%s", err->message);
    }
}

xsm_context_info papers_context(const papers *p)
{
    xsm_context_info info = XSM_CONTEXT_INFO_INIT;
    xsm_error err = XSM_ERROR_INIT;
    papers_check(xsm_context_get_info(p->context, &info, &err), &err);
    return info;
}

const uint64_t *papers_class_counts(const xsm_dataset *data)
{
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_error err = XSM_ERROR_INIT;
    papers_check(xsm_dataset_get_class_map(data, &map, &err), &err);
    return map.counts;
}

void *papers_memory(size_t count, size_t each)
{
    void *memory = calloc(count ? count : 1, each);
    if (!memory) {
        papers_fail("no memory for %zu x %zu bytes", count, each);
    }
    return memory;
}

void papers_say(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vfprintf(stderr, format, list);
    fprintf(stderr, "\n");
    va_end(list);
}

/* The next of a list of names, NULL after the last. */
static const char *next_name(const char *at)
{
    const char *comma = strchr(at, ',');
    return comma ? comma + 1 : NULL;
}

static bool is_name(const char *at, const char *name)
{
    const size_t length = strlen(name);
    return strncmp(at, name, length) == 0 && (at[length] == ',' || !at[length]);
}

bool papers_listed(const char *list, const char *name)
{
    bool found = !list;
    for (const char *at = list; at; at = next_name(at)) {
        found |= is_name(at, name);
    }
    return found;
}

void papers_check_list(const char *list, const char *what, const char *const *names)
{
    for (const char *at = list; at; at = next_name(at)) {
        const char *const *one = names;
        while (*one && !is_name(at, *one)) {
            one++;
        }
        if (*one) {
            continue;
        }
        fprintf(stderr, "papers: no %s '%.*s'; there are", what, (int)strcspn(at, ","), at);
        for (one = names; *one; one++) {
            fprintf(stderr, "%s %s", one == names ? "" : ",", *one);
        }
        fprintf(stderr, "\n");
        exit(1);
    }
}

static double read_clock(clockid_t which)
{
    struct timespec now;
    clock_gettime(which, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double papers_clock(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

double papers_work(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

double papers_seconds(const papers *p)
{
    return p->processor ? papers_work() : papers_clock();
}

/* -- lists of names */

typedef struct names {
    char **at;
    size_t count;
} names;

static size_t name_number(names *n, const char *name)
{
    for (size_t i = 0; i < n->count; i++) {
        if (strcmp(n->at[i], name) == 0) {
            return i;
        }
    }
    n->at = realloc(n->at, (n->count + 1) * sizeof *n->at);
    char *copy = strdup(name);
    if (!n->at || !copy) {
        papers_fail("no memory for a name");
    }
    n->at[n->count] = copy;
    return n->count++;
}

static void names_free(names *n)
{
    for (size_t i = 0; i < n->count; i++) {
        free(n->at[i]);
    }
    free(n->at);
}

static FILE *file_open(const papers *p, const char *name)
{
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/%s.csv", p->folder, name);
    if (length < 0 || (size_t)length >= sizeof path) {
        papers_fail("the name of the folder is too long");
    }
    FILE *file = fopen(path, "w");
    if (!file) {
        papers_fail("%s: %s", path, strerror(errno));
    }
    return file;
}

static void file_close(FILE *file, const char *name)
{
    bool bad = ferror(file) != 0;
    if (fclose(file) != 0 || bad) {
        papers_fail("%s.csv cannot be written: %s", name, strerror(errno));
    }
}

/* A field, quoted if necessary. */
static void put_field(FILE *file, const char *text)
{
    bool plain = !strpbrk(text, ",\"\n");
    if (plain) {
        fputs(text, file);
        return;
    }
    fputc('"', file);
    for (; *text; text++) {
        fprintf(file, *text == '"' ? "\"\"" : "%c", *text);
    }
    fputc('"', file);
}

static void put_number(FILE *file, double value, const char *none)
{
    if (isfinite(value)) {
        fprintf(file, "%.9g", value);
    } else {
        fputs(none, file);
    }
}

/* -- tables */

typedef struct cell {
    size_t row, column;
    double paper, ours;
} cell;

struct report {
    const papers *settings;
    char *figure, *title;
    names notes, rows, columns;
    cell *cells;
    size_t count;
    double start;
};

report *report_new(const papers *p, const char *name, const char *title)
{
    report *r = papers_memory(1, sizeof *r);
    r->settings = p;
    r->figure = strdup(name);
    r->title = strdup(title);
    r->start = papers_clock();
    if (!r->figure || !r->title) {
        papers_fail("no memory for a table");
    }
    return r;
}

void report_note(report *r, const char *format, ...)
{
    char *text = NULL;
    va_list list;
    va_start(list, format);
    if (vasprintf(&text, format, list) < 0) {
        papers_fail("no memory for a note");
    }
    va_end(list);
    (void)name_number(&r->notes, text);
    free(text);
}

void report_cell(report *r, const char *row, const char *column, double paper, double ours)
{
    r->cells = realloc(r->cells, (r->count + 1) * sizeof *r->cells);
    if (!r->cells) {
        papers_fail("no memory for a table");
    }
    r->cells[r->count++] = (cell){name_number(&r->rows, row), name_number(&r->columns, column), paper, ours};
}

static void put_json_text(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') {
            putchar('\\');
        }
        putchar(*text);
    }
    putchar('"');
}

static void print_json(const report *r)
{
    for (size_t i = 0; i < r->count; i++) {
        const cell *c = &r->cells[i];
        printf("{\"figure\":");
        put_json_text(r->figure);
        printf(",\"row\":");
        put_json_text(r->rows.at[c->row]);
        printf(",\"column\":");
        put_json_text(r->columns.at[c->column]);
        printf(",\"paper\":");
        put_number(stdout, c->paper, "null");
        printf(",\"ours\":");
        put_number(stdout, c->ours, "null");
        printf("}\n");
    }
}

enum { TEXT = 64 };

/* "ours (paper's)"; a dash for a missing number. */
static void cell_text(const cell *c, char text[TEXT])
{
    char ours[TEXT / 2] = "-";
    if (isfinite(c->ours)) {
        snprintf(ours, sizeof ours, "%.4g", c->ours);
    }
    if (isfinite(c->paper)) {
        snprintf(text, TEXT, "%s (%.4g)", ours, c->paper);
    } else {
        snprintf(text, TEXT, "%s", ours);
    }
}

static const cell *find_cell(const report *r, size_t row, size_t column)
{
    const cell *found = NULL;
    for (size_t i = 0; i < r->count; i++) {
        if (r->cells[i].row == row && r->cells[i].column == column) {
            found = &r->cells[i];
        }
    }
    return found;
}

/* The number of characters of UTF-8 text that a terminal shows. */
static int shown(const char *text)
{
    int count = 0;
    for (; *text; text++) {
        count += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return count;
}

static void put_padded(const char *text, int width)
{
    printf(" %s%*s |", text, width - shown(text), "");
}

static void print_table(const report *r)
{
    printf("%s: %s (%.0f s)\n", r->figure, r->title, papers_clock() - r->start);
    for (size_t i = 0; i < r->notes.count; i++) {
        printf("%s\n", r->notes.at[i]);
    }
    int first = shown("ours (paper)");
    int *width = papers_memory(r->columns.count, sizeof *width);
    for (size_t i = 0; i < r->rows.count; i++) {
        int length = shown(r->rows.at[i]);
        first = length > first ? length : first;
    }
    for (size_t j = 0; j < r->columns.count; j++) {
        width[j] = shown(r->columns.at[j]);
        for (size_t i = 0; i < r->rows.count; i++) {
            char text[TEXT] = "";
            const cell *c = find_cell(r, i, j);
            if (c) {
                cell_text(c, text);
            }
            width[j] = shown(text) > width[j] ? shown(text) : width[j];
        }
    }
    printf("\n|");
    put_padded("ours (paper)", first);
    for (size_t j = 0; j < r->columns.count; j++) {
        put_padded(r->columns.at[j], width[j]);
    }
    printf("\n|%.*s|", first + 2, "----------------------------------------------------------------------------");
    for (size_t j = 0; j < r->columns.count; j++) {
        printf("%.*s|", width[j] + 2, "----------------------------------------------------------------------------");
    }
    for (size_t i = 0; i < r->rows.count; i++) {
        printf("\n|");
        put_padded(r->rows.at[i], first);
        for (size_t j = 0; j < r->columns.count; j++) {
            char text[TEXT] = "";
            const cell *c = find_cell(r, i, j);
            if (c) {
                cell_text(c, text);
            }
            put_padded(text, width[j]);
        }
    }
    printf("\n\n");
    free(width);
}

static void write_cells(const report *r)
{
    FILE *file = file_open(r->settings, r->figure);
    fprintf(file, "figure,row,column,paper,ours\n");
    for (size_t i = 0; i < r->count; i++) {
        put_field(file, r->figure);
        fputc(',', file);
        put_field(file, r->rows.at[r->cells[i].row]);
        fputc(',', file);
        put_field(file, r->columns.at[r->cells[i].column]);
        fputc(',', file);
        put_number(file, r->cells[i].paper, "");
        fputc(',', file);
        put_number(file, r->cells[i].ours, "");
        fputc('\n', file);
    }
    file_close(file, r->figure);
}

void report_end(report *r)
{
    if (r->count > 0) {
        write_cells(r);
        if (r->settings->json) {
            print_json(r);
        } else {
            print_table(r);
        }
        fflush(stdout);
    }
    names_free(&r->notes);
    names_free(&r->rows);
    names_free(&r->columns);
    free(r->cells);
    free(r->figure);
    free(r->title);
    free(r);
}

/* -- curves */

typedef struct point {
    double x, y;
    size_t column, number; /* the number distinguishes points of equal x */
} point;

struct curves {
    const papers *settings;
    char *name, *x;
    names columns;
    point *points;
    size_t count, room;
};

curves *curves_new(const papers *p, const char *name, const char *x)
{
    curves *c = papers_memory(1, sizeof *c);
    c->settings = p;
    c->name = strdup(name);
    c->x = strdup(x);
    if (!c->name || !c->x) {
        papers_fail("no memory for curves");
    }
    return c;
}

void curves_point(curves *c, const char *column, double x, double y)
{
    if (c->count == c->room) {
        c->room = c->room ? 2 * c->room : 256;
        c->points = realloc(c->points, c->room * sizeof *c->points);
        if (!c->points) {
            papers_fail("no memory for curves");
        }
    }
    c->points[c->count] = (point){x, y, name_number(&c->columns, column), c->count};
    c->count++;
}

static int compare_points(const void *a, const void *b)
{
    const point *p = a, *q = b;
    if (p->x != q->x) {
        return p->x < q->x ? -1 : 1;
    }
    return (p->number > q->number) - (p->number < q->number);
}

void curves_end(curves *c)
{
    FILE *file = file_open(c->settings, c->name);
    double *y = papers_memory(c->columns.count, sizeof *y);
    if (c->count > 0) {
        qsort(c->points, c->count, sizeof *c->points, compare_points);
    }
    put_field(file, c->x);
    for (size_t j = 0; j < c->columns.count; j++) {
        fputc(',', file);
        put_field(file, c->columns.at[j]);
    }
    fputc('\n', file);
    for (size_t i = 0; i < c->count;) {
        double x = c->points[i].x;
        for (size_t j = 0; j < c->columns.count; j++) {
            y[j] = PAPERS_NONE;
        }
        for (; i < c->count && c->points[i].x == x; i++) {
            y[c->points[i].column] = c->points[i].y;
        }
        put_number(file, x, "");
        for (size_t j = 0; j < c->columns.count; j++) {
            fputc(',', file);
            put_number(file, y[j], "");
        }
        fputc('\n', file);
    }
    file_close(file, c->name);
    names_free(&c->columns);
    free(y);
    free(c->points);
    free(c->name);
    free(c->x);
    free(c);
}
