/* The bar: one line on standard error that is redrawn, if it is a terminal that supports this. */
#include "cli.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static int shown;
static double drawn_at;
static char *noted; /* the present note, without its dots; NULL = none */

static int is_terminal(void)
{
    const char *kind = getenv("TERM");
    return cli_leads() && isatty(STDERR_FILENO) && !(kind && strcmp(kind, "dumb") == 0);
}

/* Columns of the terminal, without the last, so that no terminal starts a new line. */
static int columns(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1) {
        return size.ws_col - 1;
    }
    return 79;
}

static void draw(const char *text)
{
    fprintf(stderr, "\r\033[K%.*s", columns(), text);
    fflush(stderr);
    shown = 1;
}

const char *cli_erase_line(void)
{
    return is_terminal() ? "\r\033[K" : "";
}

int cli_notes_alone(void)
{
    return is_terminal() && !isatty(STDOUT_FILENO);
}

void cli_note_clear(void)
{
    free(noted);
    noted = NULL;
    if (shown) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
        shown = 0;
    }
}

void cli_note(const char *format, ...)
{
    if (!is_terminal()) {
        return;
    }
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) >= 0) {
        draw(text);
        const size_t length = strlen(text), dots = length > 4 && strcmp(text + length - 4, " ...") == 0 ? 4 : 0;
        text[length - dots] = '\0';
        free(noted);
        noted = text;
    }
    va_end(arguments);
    drawn_at = 0;
}

enum { BAR = 30 };

static void fill_bar(char *bar, double share)
{
    const int filled = (int)(share * BAR);
    memset(bar, ' ', BAR);
    memset(bar, '=', (size_t)filled);
    if (filled < BAR) {
        bar[filled] = '>';
    }
    bar[BAR] = '\0';
}

/* The time that a phase still takes, as "12 s", from the time that it has taken and the share that is done. */
static const char *time_left(double seconds, double share, cli_buffer *buffer)
{
    if (!(share > 0)) {
        return "?";
    }
    const double left = seconds / share * (1 - share);
    if (left >= 60) {
        return cli_seconds(left, buffer);
    }
    snprintf(buffer->text, sizeof buffer->text, "%.0f s", left);
    return buffer->text;
}

int32_t cli_watch(void *user, const xsm_activity *activity)
{
    (void)user;
    /* Training and choosing have callbacks that know more; predictions run on several threads. */
    const int quiet = strcmp(activity->phase, "training") == 0 || strncmp(activity->phase, "choosing", 8) == 0 ||
                      strcmp(activity->phase, "predicting") == 0;
    if (!quiet && is_terminal()) {
        cli_buffer done, left;
        char bar[BAR + 1], *text;
        const char *what = noted ? noted : activity->phase;
        if (activity->total > 0) {
            const double share = (double)activity->done / (double)activity->total;
            fill_bar(bar, share);
            text = cli_format("%s [%s] %3d %%  %s left", what, bar, (int)(share * 100),
                              time_left(activity->seconds, share, &left));
        } else if (strcmp(activity->unit, "bytes") == 0) {
            text = cli_format("%s: %s", what, cli_bytes((double)activity->done, &done));
        } else {
            text = cli_format("%s: %s %s", what, cli_grouped(activity->done, &done), activity->unit);
        }
        draw(text);
        free(text);
    }
    return cli_stop_waits();
}

void cli_bar(const xsm_progress *progress, double since)
{
    double now = cli_clock();
    if (!is_terminal() || (now - drawn_at < 0.1 && progress->step < progress->steps)) {
        return;
    }
    drawn_at = now;
    if (progress->objective == progress->objective) { /* the number of iterations is not known in advance */
        cli_buffer after;
        char *line =
            cli_format("iteration %llu  objective %.8g  gradient norm %.3g  %s", (unsigned long long)progress->step,
                       progress->objective, progress->gradient_norm, cli_seconds(progress->seconds, &after));
        draw(line);
        free(line);
        return;
    }
    char bar[BAR + 1];
    double share = progress->steps > 0 ? (double)progress->step / (double)progress->steps : 0;
    fill_bar(bar, share);

    cli_buffer rate, left;
    uint64_t epoch = progress->epoch < progress->epochs ? progress->epoch + 1 : progress->epochs;
    cli_grouped(progress->seconds > 0 ? (uint64_t)((double)progress->step / progress->seconds) : 0, &rate);
    char loss[32] = "";
    if (progress->loss == progress->loss) {
        snprintf(loss, sizeof loss, "  loss %.4g", progress->loss);
    }
    char *text = cli_format("epoch %llu/%llu [%s] %3d %%  %s steps/s%s  %s left", (unsigned long long)epoch,
                            (unsigned long long)progress->epochs, bar, (int)(share * 100), rate.text, loss,
                            time_left(now - since, share, &left)); /* of the clock: with evaluations between epochs */
    draw(text);
    free(text);
}
