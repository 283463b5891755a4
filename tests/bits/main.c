/*
 * bits FILE | --write FILE | --print | --stack | --suites
 *
 * Makes runs on one thread and on two, and some of them with each of the other instruction sets, which must give
 * the same bits. Compares what their hashes are together, of each group and estimator, with FILE, where that was
 * written with the same C library (whose logarithms and exponentials are in them) and for the same architecture, or
 * writes it;
 * --print has the hash of each run. Each run has 128 KiB of
 * stack, and may use the 64 KiB that doc/guide/contracts.md promises; so may the suites for tables of a host and other
 * long calls, which --suites makes, and the threads of a host's runner, which makes some runs and all suites once more.
 * Every run is made on one thread, and a quarter of the others; with $XSM_TEST_FULL all.
 * --stack does both, and prints what each group needs.
 */
#include "bits.h"

#include <xsoftmax/ext/index.h>
#include <xsoftmax/ext/sampler.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

enum { NAME_SIZE = 160, MACHINES = 6, SHOWN = 10 };

typedef struct line {
    char name[NAME_SIZE], hash[40]; /* 16 digits, or a status's name */
    size_t stack;                   /* most bytes that a run of it has used on the thread that called */
    size_t runs;                    /* of joined() */
    uint64_t sum;
} line;

typedef struct list {
    line *lines;
    size_t count, reserved;
} list;

static bits_machine machines[MACHINES];
static list made, tried; /* runs, suites */
static line of_runner;   /* the run that used most of a runner's thread */
static int failures;

void bits_fail(const char *message)
{
    fprintf(stderr, "bits: %s\n", message);
    exit(2);
}

static line *add_line(list *l)
{
    if (l->count == l->reserved) {
        l->reserved = l->reserved ? 2 * l->reserved : 1024;
        l->lines = realloc(l->lines, l->reserved * sizeof *l->lines);
        if (!l->lines) {
            bits_fail("out of memory");
        }
    }
    return memset(&l->lines[l->count++], 0, sizeof *l->lines);
}

/* -- runs ---------------------------------------------------------------------------------------------------------- */

static void look_at_runner(const bits_machine *machine, const line *run)
{
    const size_t used = machine->runner ? bits_runner_used() : 0;
    if (used > of_runner.stack) {
        of_runner = *run;
        of_runner.stack = used;
    }
}

/* A run may be refused, but must not break. */
static bool is_defect(xsm_status status)
{
    return status == XSM_ERROR_MEMORY || status == XSM_ERROR_IO || status == XSM_ERROR_INTERNAL ||
           status == XSM_ERROR_RUNNER || status == XSM_ERROR_STRUCT_OLD || status == XSM_ERROR_STRUCT_NEW ||
           status == XSM_ERROR_CHECKSUM || status == XSM_CANCELLED;
}

void bits_record(bits_run run, const void *what, const char *name, ...)
{
    line *l = add_line(&made);
    va_list arguments;
    va_start(arguments, name);
    int length = vsnprintf(l->name, sizeof l->name, name, arguments);
    va_end(arguments);
    if (length < 0 || length >= NAME_SIZE) {
        bits_fail("a run's name is too long");
    }
    for (int i = 0; i < MACHINES; i++) {
        if (made.count % machines[i].every) {
            continue;
        }
        char text[sizeof l->hash];
        uint64_t hash = 0;
        size_t stack;
        xsm_status status = bits_run_as_guest(run, &machines[i], what, &hash, &stack);
        if (stack > l->stack) {
            l->stack = stack;
        }
        look_at_runner(&machines[i], l);
        if (status == XSM_OK) {
            snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
        } else {
            snprintf(text, sizeof text, "%s", xsm_status_name(status));
        }
        if (i == 0) {
            memcpy(l->hash, text, sizeof text);
        }
        if (is_defect(status) || strcmp(l->hash, text) != 0) {
            printf("%s: %s on %s, %s on %s\n", l->name, text, machines[i].name, l->hash, machines[0].name);
            failures++;
        }
    }
}

void bits_try(bits_run run, const bits_machine *machine, const void *what, const char *name, ...)
{
    line *l = add_line(&tried);
    uint64_t hash = 0;
    va_list arguments;
    va_start(arguments, name);
    vsnprintf(l->name, sizeof l->name, name, arguments);
    va_end(arguments);
    if (bits_run_as_guest(run, machine, what, &hash, &l->stack) != XSM_OK) {
        printf("%s fails\n", l->name);
        failures++;
    }
    look_at_runner(machine, l);
}

static void make_rows(bits_rows **rows)
{
    rows[BITS_DENSE_ROWS] = bits_rows_new(120, 70, 75, false, 1);
    rows[BITS_SPARSE_ROWS] = bits_rows_new(120, 300, 75, true, 2);
    rows[BITS_WIDE_ROWS] = bits_rows_new(100, 12, 4500, false, 3);
    rows[BITS_SEARCH_ROWS] = bits_rows_new(60, 12, 600, false, 5);
    rows[BITS_TIED_ROWS] = bits_rows_new(120, 90, 90, true, 4);
    rows[BITS_LONG_ROWS] = bits_rows_new(21, 6, 9001, false, 6);
    rows[BITS_LONG_SPARSE_ROWS] = bits_rows_new(21, 27, 9001, true, 7);
}

static void free_rows(bits_rows **rows)
{
    for (int i = 0; i < BITS_SETS; i++) {
        bits_rows_free(rows[i]);
    }
}

static void make_suites(void)
{
    bits_rows *rows[BITS_SETS];
    bits_machine machine = {.name = NULL};
    make_rows(rows);
    memcpy(machine.rows, rows, sizeof rows);
    bits_machine_open(&machine, "1 thread", 1, 0, 1);
    bits_of_suites(&machine);
    bits_machine_close(&machine);
    machine.runner = bits_runner_open();
    bits_machine_open(&machine, "a runner", 0, 0, 1);
    bits_of_suites(&machine);
    bits_machine_close(&machine);
    bits_runner_close();
    free_rows(rows);
}

static void check_stacks(const list *l)
{
    if (of_runner.stack > bits_stack_most) {
        printf("%s: %zu bytes of the stack of a runner's thread; doc/guide/contracts.md promises at most %zu\n",
               of_runner.name, of_runner.stack, bits_stack_most);
        failures++;
    }
    for (size_t i = 0; i < l->count; i++) {
        if (l->lines[i].stack > bits_stack_most) {
            printf("%s: %zu bytes of stack; doc/guide/contracts.md promises at most %zu\n", l->lines[i].name,
                   l->lines[i].stack, bits_stack_most);
            failures++;
        }
    }
}

/* -- options ------------------------------------------------------------------------------------------------------- */

/* The n-th word that is not the default; false past the last, *n then being less by their number. */
static bool word_of(const xsm_option *o, size_t *n, char *buffer, size_t size)
{
    for (size_t i = 0; o->choices && o->choices[i]; i++) {
        if (strcmp(o->choices[i], o->initial) != 0 && (*n)-- == 0) {
            snprintf(buffer, size, "%s", o->choices[i]);
            return true;
        }
    }
    return false;
}

bool bits_value(const xsm_option *o, size_t n, char *buffer, size_t size)
{
    static const char *const doubles[] = {"0.5", "0.001", "3", "1e-9", NULL};
    static const char *const integers[] = {"3", "2", "40", NULL};
    if (o->type == XSM_OPTION_BOOL) {
        snprintf(buffer, size, "%s", strcmp(o->initial, "yes") == 0 ? "no" : "yes");
        return n == 0;
    }
    if (o->type == XSM_OPTION_CLASSES) {
        snprintf(buffer, size, "1,4,2");
        return n == 0;
    }
    if (word_of(o, &n, buffer, size)) {
        return true;
    }
    if (n > 0 || o->type == XSM_OPTION_CHOICE) {
        return false;
    }
    const char *const *numbers = o->type == XSM_OPTION_INT ? integers : doubles;
    for (size_t i = 0; numbers[i]; i++) {
        double value = strtod(numbers[i], NULL);
        if (value >= o->minimum && value <= o->maximum && value != strtod(o->initial, NULL)) {
            snprintf(buffer, size, "%s", numbers[i]);
            return true;
        }
    }
    bits_fail("an option takes none of the numbers of bits_value(); add one");
}

/* "PREFIXkey=value" behind `before`, for all values. */
static void visit_values(const char *before, const char *prefix, const xsm_option *o, bits_visit visit,
                         const void *user)
{
    char value[64], settings[NAME_SIZE];
    for (size_t n = 0; bits_value(o, n, value, sizeof value); n++) {
        snprintf(settings, sizeof settings, "%s%s%s=%s", before, prefix, o->name, value);
        visit(user, settings);
    }
}

static const xsm_option *sampler_option(const char *name, size_t index)
{
    return xsm_sampler_ops_option(xsm_sampler_find(name), index);
}

static const xsm_option *index_option(const char *name, size_t index)
{
    return xsm_index_ops_option(xsm_index_find(name), index);
}

/* The options of each sampler or index that the option `o` names. */
static void visit_parts(const xsm_option *o, const xsm_option *(*option_of)(const char *, size_t), bits_visit visit,
                        const void *user)
{
    for (size_t i = 0; o->choices[i]; i++) {
        const xsm_option *part;
        for (size_t j = 0; (part = option_of(o->choices[i], j)); j++) {
            char before[64], prefix[32];
            snprintf(before, sizeof before, "%s=%s ", o->name, o->choices[i]);
            snprintf(prefix, sizeof prefix, "%s.", o->name);
            visit_values(before, prefix, part, visit, user);
        }
    }
}

void bits_estimator_settings(const xsm_estimator_ops *ops, bits_visit visit, const void *user)
{
    const xsm_option *o;
    for (size_t i = 0; (o = xsm_estimator_ops_option(ops, i)); i++) {
        visit_values("", "", o, visit, user);
        if (strcmp(o->name, "sampler") == 0) {
            visit_parts(o, sampler_option, visit, user);
        } else if (strcmp(o->name, "index") == 0) {
            visit_parts(o, index_option, visit, user);
        }
    }
}

bool bits_has_option(const xsm_estimator_ops *ops, const char *option, const char *word)
{
    const xsm_option *o;
    for (size_t i = 0; (o = xsm_estimator_ops_option(ops, i)); i++) {
        for (size_t j = 0; strcmp(o->name, option) == 0 && o->choices && o->choices[j]; j++) {
            if (strcmp(o->choices[j], word) == 0) {
                return true;
            }
        }
    }
    return false;
}

xsm_status bits_set_estimator(xsm_estimator *estimator, const char *settings)
{
    char copy[NAME_SIZE], *rest = copy;
    if (snprintf(copy, sizeof copy, "%s", settings) >= NAME_SIZE) {
        bits_fail("settings are too long");
    }
    for (char *word; (word = strtok_r(rest, " ", &rest));) {
        char *value = strchr(word, '=');
        *value++ = 0;
        xsm_error err = XSM_ERROR_INIT;
        xsm_status status = xsm_estimator_set(estimator, word, value, &err);
        if (status != XSM_OK) {
            return status;
        }
    }
    return XSM_OK;
}

/* -- the list ------------------------------------------------------------------------------------------------------ */

static const char *architecture(void)
{
#if defined __x86_64__
    /* Its C library has other logarithms and exponentials for processors with FMA. */
    return __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2") ? "x86-64 with FMA" : "x86-64 without FMA";
#elif defined __aarch64__
    return "aarch64";
#else
    return "another architecture";
#endif
}

static const char *c_library(void)
{
    static char name[64] = "another C library";
#ifdef __GLIBC__
    snprintf(name, sizeof name, "glibc %s", gnu_get_libc_version());
#endif
    return name;
}

static void machine_line(char *buffer, size_t size)
{
#ifdef TEST_NO_LBFGS /* another solver of the steps of several rows, and no training on all rows at once */
    const char *without = " without libLBFGS";
#else
    const char *without = "";
#endif
    snprintf(buffer, size, "# made with %s on %s%s", c_library(), architecture(), without);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const line *)a)->name, ((const line *)b)->name);
}

static const line *find_line(const list *l, const char *name)
{
    line wanted;
    snprintf(wanted.name, sizeof wanted.name, "%s", name);
    return l->count ? bsearch(&wanted, l->lines, l->count, sizeof wanted, by_name) : NULL;
}

static FILE *open_file(const char *path, const char *mode)
{
    FILE *file = fopen(path, mode);
    if (!file) {
        perror(path);
        exit(2);
    }
    return file;
}

/* Reads what print_list() writes; `head` gets its first line. */
static list read_list(const char *path, char *head, size_t size)
{
    FILE *file = open_file(path, "r");
    list l = {NULL, 0, 0};
    char text[2 * NAME_SIZE];
    head[0] = 0;
    while (fgets(text, sizeof text, file)) {
        text[strcspn(text, "\n")] = 0;
        char *space = strchr(text, ' ');
        if (text[0] == '#') {
            if (!head[0]) {
                snprintf(head, size, "%s", text);
            }
        } else if (!space || space - text >= (int)sizeof l.lines->hash || strlen(space + 1) >= NAME_SIZE) {
            bits_fail("a line of the list is none");
        } else {
            line *new = add_line(&l);
            memcpy(new->hash, text, (size_t)(space - text));
            memcpy(new->name, space + 1, strlen(space + 1));
        }
    }
    fclose(file);
    return l;
}

/* The runs whose names are alike up to the first comma as one: the hash of their names and hashes, and their number. */
static list joined(const list *l)
{
    list all = {NULL, 0, 0};
    for (size_t i = 0; i < l->count; i++) {
        line *one = NULL;
        const size_t width = strcspn(l->lines[i].name, ",");
        for (size_t j = 0; j < all.count && !one; j++) {
            if (strlen(all.lines[j].name) == width && strncmp(all.lines[j].name, l->lines[i].name, width) == 0) {
                one = &all.lines[j];
            }
        }
        if (!one) {
            one = add_line(&all);
            memcpy(one->name, l->lines[i].name, width);
        }
        one->runs++;
        bits_add_text(&one->sum, l->lines[i].name);
        bits_add_text(&one->sum, l->lines[i].hash);
    }
    for (size_t i = 0; i < all.count; i++) {
        line *one = &all.lines[i];
        snprintf(one->hash, sizeof one->hash, "%016llx:%zu", (unsigned long long)one->sum, one->runs);
    }
    return all;
}

/* Prints for each group the run that used most of its thread's stack. */
static void print_stacks(const list *l)
{
    for (size_t i = 0; i < l->count; i++) {
        size_t width = strcspn(l->lines[i].name, " ") + 1, most = i;
        bool first = true;
        for (size_t j = 0; j < l->count; j++) {
            if (strncmp(l->lines[j].name, l->lines[i].name, width) == 0) {
                first = first && j >= i;
                most = l->lines[j].stack > l->lines[most].stack ? j : most;
            }
        }
        if (first) {
            printf("| %.*s | %.1f KiB | %s |\n", (int)width - 1, l->lines[i].name, (double)l->lines[most].stack / 1024,
                   l->lines[most].name);
        }
    }
}

static void print_list(const list *l, FILE *file)
{
    char head[128];
    machine_line(head, sizeof head);
    fprintf(file, "%s\n# tests/bits/renew.sh writes this file\n", head);
    for (size_t i = 0; i < l->count; i++) {
        fprintf(file, "%s %s\n", l->lines[i].hash, l->lines[i].name);
    }
}

/* What the list has must be there with its hash; what it has not, as of a new estimator, is only told. */
static void compare(const list *now, list stored)
{
    size_t wrong = 0, new = 0;
    qsort(stored.lines, stored.count, sizeof *stored.lines, by_name);
    qsort(now->lines, now->count, sizeof *now->lines, by_name);
    for (size_t i = 0; i < now->count; i++) {
        new += !find_line(&stored, now->lines[i].name);
    }
    for (size_t i = 0; i < stored.count; i++) {
        const line *was = &stored.lines[i], *is = find_line(now, was->name);
        if ((!is || strcmp(is->hash, was->hash) != 0) && wrong++ < SHOWN) {
            printf("%s: %s, was %s\n", was->name, is ? is->hash : "no run any more", was->hash);
        }
    }
    if (wrong) {
        printf("%zu of %zu lines of tests/bits/hashes.txt are others. Is that meant? doc/guide/contributing.md says "
               "when bits "
               "may change. `bits --print` has each run: compare with that of the commit before. To renew the list: "
               "sh tests/bits/renew.sh\n",
               wrong, stored.count);
        failures++;
    } else {
        printf("all %zu lines are as in the list\n", stored.count);
    }
    if (new) {
        printf("%zu lines are not in the list; to add them: sh tests/bits/renew.sh\n", new);
    }
}

static void check_names(void)
{
    list sorted = {malloc(made.count * sizeof *made.lines), made.count, made.count};
    if (!sorted.lines) {
        bits_fail("out of memory");
    }
    memcpy(sorted.lines, made.lines, made.count * sizeof *made.lines);
    qsort(sorted.lines, sorted.count, sizeof *sorted.lines, by_name);
    for (size_t i = 1; i < sorted.count; i++) {
        if (strcmp(sorted.lines[i - 1].name, sorted.lines[i].name) == 0) {
            printf("two runs are called %s\n", sorted.lines[i].name);
            failures++;
        }
    }
    free(sorted.lines);
}

static void make_runs(void)
{
    char folder[] = "/tmp/xsoftmax-bits-XXXXXX";
    if (!mkdtemp(folder)) {
        bits_fail("no folder for temporary files");
    }
    bits_rows *rows[BITS_SETS];
    make_rows(rows);
    for (int i = 0; i < MACHINES; i++) {
        memcpy(machines[i].rows, rows, sizeof rows);
        machines[i].folder = folder;
    }
    const size_t rarely = getenv("XSM_TEST_FULL") ? 1 : 4;
    bits_machine_open(&machines[0], "1 thread", 1, 0, 1);
    bits_machine_open(&machines[1], "2 threads", 2, 0, rarely);
    bits_machine_open(&machines[2], "2 threads without AVX-512", 2, XSM_CPU_DISABLE_AVX512, 3 * rarely);
    /* It is slow. */
    bits_machine_open(&machines[3], "portable C", 1, XSM_CPU_DISABLE_AVX2 | XSM_CPU_DISABLE_NEON, 29 * rarely);
    bits_machine_open(&machines[4], "2 threads, rounding up", 2, 0, 2 * rarely);
    machines[4].odd_environment = true;
    machines[5].runner = bits_runner_open();
    bits_machine_open(&machines[5], "a host's runner", 0, 0, 3 * rarely);
    bits_of_training();
    bits_of_loops();
    bits_of_models();
    bits_of_searches();
    bits_of_files();
    bits_of_words();
    bits_of_trees();
    for (int i = 0; i < MACHINES; i++) {
        bits_machine_close(&machines[i]);
    }
    bits_runner_close();
    free_rows(rows);
    rmdir(folder);
}

int main(int argc, char **argv)
{
    bool write = argc == 3 && strcmp(argv[1], "--write") == 0, print = argc == 2 && strcmp(argv[1], "--print") == 0;
    bool stack = argc == 2 && strcmp(argv[1], "--stack") == 0;
    bool suites = argc == 2 && strcmp(argv[1], "--suites") == 0;
    if (argc != 2 && !write) {
        bits_fail("usage: bits FILE | --write FILE | --print | --stack | --suites");
    }
    if (!suites) {
        make_runs();
        check_names();
        check_stacks(&made);
    }
    if (stack || suites) {
        make_suites();
        check_stacks(&tried);
    }
    if (print) {
        print_list(&made, stdout);
    } else if (stack || suites) {
        printf("| group | most of the stack | run |\n|---|---|---|\n");
        print_stacks(&made);
        print_stacks(&tried);
        printf("| a thread of a runner | %.1f KiB | %s |\n", (double)of_runner.stack / 1024, of_runner.name);
    } else if (write && !failures) {
        list now = joined(&made);
        FILE *file = open_file(argv[2], "w");
        print_list(&now, file);
        if (fclose(file) != 0) {
            bits_fail("the list cannot be written");
        }
        free(now.lines);
    } else if (!write) {
        char head[2 * NAME_SIZE], here[2 * NAME_SIZE];
        list stored = read_list(argv[1], head, sizeof head), now = joined(&made);
        machine_line(here, sizeof here);
        printf("%zu runs, the same wherever they were made\n", made.count);
        if (strcmp(head, here) == 0) {
            compare(&now, stored);
        } else {
            printf("this is %s, %s: the list is not compared, it was %s\n", c_library(), architecture(), head + 2);
        }
        free(stored.lines);
        free(now.lines);
    }
    free(made.lines);
    free(tried.lines);
    return failures ? 1 : 0;
}
