/* Messages, and numbers in readable form. */
#include "cli.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

/* One line, whatever a file name or an argument contains. */
__attribute__((format(printf, 1, 0))) static void complain(const char *format, va_list arguments)
{
    char *text = NULL;
    cli_note_clear();
    if (vasprintf(&text, format, arguments) < 0) {
        fputs("xsoftmax: out of memory\n", stderr);
        return;
    }
    cli_name_flags(text);
    for (char *c = text; *c; c++) {
        if ((unsigned char)*c < 32 || *c == 127) {
            *c = '?';
        }
    }
    if (cli_leads()) {
        fprintf(stderr, "xsoftmax: %s\n", text);
    } else {
        cli_hold(text);
    }
    free(text);
}

int cli_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    complain(format, arguments);
    va_end(arguments);
    return CLI_FAILED;
}

int cli_misuse(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    complain(format, arguments);
    va_end(arguments);
    return CLI_USAGE;
}

int cli_library_failed(const xsm_error *err)
{
    return cli_fail("%s", err->message);
}

int cli_search_refused(const xsm_error *err)
{
    return err->status == XSM_ERROR_RANGE ? cli_misuse("%s", err->message) : cli_library_failed(err);
}

char *cli_format(const char *format, ...)
{
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0) {
        exit(cli_fail("out of memory"));
    }
    va_end(arguments);
    return text;
}

/* The number of letters to change, insert, delete or swap with a neighbour to turn a into b. */
static size_t edits(const char *a, const char *b)
{
    size_t rows = strlen(a) + 1, columns = strlen(b) + 1, result = rows + columns;
    size_t *d = calloc(rows * columns, sizeof *d);
    if (!d) {
        return result;
    }
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < columns; j++) {
            size_t *here = &d[i * columns + j];
            if (i == 0 || j == 0) {
                *here = i + j;
                continue;
            }
            size_t change = here[-(ptrdiff_t)columns - 1] + (a[i - 1] != b[j - 1]);
            size_t leave_out = here[-(ptrdiff_t)columns] + 1, add = here[-1] + 1;
            *here = change < leave_out ? change : leave_out;
            *here = *here < add ? *here : add;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                size_t swap = d[(i - 2) * columns + j - 2] + 1;
                *here = *here < swap ? *here : swap;
            }
        }
    }
    result = d[rows * columns - 1];
    free(d);
    return result;
}

const char *cli_nearest(const char *given, const char *const *words, size_t count)
{
    const char *best = NULL;
    size_t fewest = strlen(given) / 3 + 2;
    if (strlen(given) > 64) {
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        size_t n = edits(given, words[i]);
        /* A word is near if it needs fewer changes than it has letters. */
        if (n < fewest && n < strlen(words[i])) {
            fewest = n;
            best = words[i];
        }
    }
    return best;
}

const char *cli_grouped(uint64_t number, cli_buffer *buffer)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);
    char *out = buffer->text;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) {
            *out++ = ',';
        }
        *out++ = digits[i];
    }
    *out = '\0';
    return buffer->text;
}

const char *cli_bytes(double bytes, cli_buffer *buffer)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    while (bytes >= 1024 && unit + 1 < sizeof units / sizeof units[0]) {
        bytes /= 1024;
        unit++;
    }
    snprintf(buffer->text, sizeof buffer->text, "%.*f %s", unit > 0 && bytes < 100, bytes, units[unit]);
    return buffer->text;
}

const char *cli_seconds(double seconds, cli_buffer *buffer)
{
    if (!(seconds < 0x1p63)) {
        snprintf(buffer->text, sizeof buffer->text, "%g s", seconds);
    } else if (seconds < 60) {
        snprintf(buffer->text, sizeof buffer->text, "%.*f s", seconds < 10 ? 2 : 1, seconds);
    } else {
        uint64_t whole = (uint64_t)(seconds + 0.5);
        unsigned minutes = (unsigned)(whole / 60 % 60), rest = (unsigned)(whole % 60);
        if (whole >= 3600) {
            snprintf(buffer->text, sizeof buffer->text, "%llu:%02u:%02u", (unsigned long long)(whole / 3600), minutes,
                     rest);
        } else {
            snprintf(buffer->text, sizeof buffer->text, "%u:%02u", minutes, rest);
        }
    }
    return buffer->text;
}

const char *cli_real(double number, cli_buffer *buffer)
{
    buffer->text[0] = '\0';
    if (isfinite(number)) {
        for (int digits = 15; digits <= 17; digits++) {
            snprintf(buffer->text, sizeof buffer->text, "%.*g", digits, number);
            if (strtod(buffer->text, NULL) == number) {
                break;
            }
        }
    }
    return buffer->text;
}

uint64_t cli_peak_bytes(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_maxrss * 1024 : 0; /* Linux counts in KiB */
}

double cli_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void cli_write_class(FILE *out, const xsm_class_map *map, uint32_t class)
{
    if (!map->names) {
        char number[24];
        xsm_class_map_label(map, class, number, sizeof number);
        fputs(number, out);
        return;
    }
    for (const char *c = map->names[class]; *c; c++) {
        const char *escaped = *c == '\t' ? "\\t" : *c == '\n' ? "\\n" : *c == '\r' ? "\\r" : *c == '\\' ? "\\\\" : NULL;
        if (escaped) {
            fputs(escaped, out);
        } else {
            putc(*c, out);
        }
    }
}
