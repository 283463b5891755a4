/*
 * Ctrl-C. It only sets a flag that the context's hook and the progress callbacks read. Once the model is written and
 * only the evaluation remains, it ends the process at once and keeps the model. The exit code is a shell's: 128 and the
 * signal.
 */
#include "cli.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static const int stop_signals[] = {SIGINT, SIGTERM, SIGHUP};
enum { SIGNALS = sizeof stop_signals / sizeof stop_signals[0] };

static int installed;
static volatile sig_atomic_t requested;
static volatile sig_atomic_t received; /* the first signal that was not blocked, or 0 */
static volatile sig_atomic_t blocked;
static int taken;
static const char *volatile finish_output;
static const char *volatile finish_message;
static struct sigaction before[SIGNALS];

static void write_text(int file, const char *text)
{
    size_t size = text ? strlen(text) : 0;
    while (size > 0) {
        ssize_t written = write(file, text, size);
        if (written <= 0) {
            return;
        }
        text += written;
        size -= (size_t)written;
    }
}

static void handle(int signal_number)
{
    if (blocked) {
        return;
    }
    received = received ? received : signal_number;
    if (finish_message) {
        int failure = cli_output_commit();
        failure = failure ? failure : cli_output_append();
        cli_output_discard();
        write_text(STDERR_FILENO,
                   failure ? "xsoftmax: stopped; the outputs cannot be renamed into place\n" : finish_message);
        if (!failure) {
            write_text(STDOUT_FILENO, finish_output);
        }
        _exit(failure ? CLI_FAILED : 128 + signal_number);
    }
    if (requested) {
        cli_output_discard();
        (void)cli_output_append();
        signal(signal_number, SIG_DFL);
        raise(signal_number);
    }
    requested = 1;
}

void cli_stop_install(void)
{
    struct sigaction action;
    if (installed) {
        return;
    }
    installed = 1;
    requested = 0;
    blocked = 0;
    taken = 0;
    memset(&action, 0, sizeof action);
    action.sa_handler = handle;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < SIGNALS; i++) {
        sigaddset(&action.sa_mask, stop_signals[i]);
    }
    for (int i = 0; i < SIGNALS; i++) {
        sigaction(stop_signals[i], NULL, &before[i]);
        /* Signals that the caller ignores, as nohup does with SIGHUP, stay ignored. */
        if (before[i].sa_handler != SIG_IGN) {
            sigaction(stop_signals[i], &action, NULL);
        }
    }
}

int cli_stop_code(int code)
{
    return received && code != CLI_USAGE ? 128 + (int)received : code;
}

int cli_stop_requested(void)
{
    return requested;
}

void cli_stop_taken(void)
{
    taken = 1;
}

void cli_stop_again(void)
{
    requested = taken = 0;
}

int cli_stop_waits(void)
{
    return requested && !taken;
}

void cli_stop_finishes(const char *output, const char *message)
{
    finish_output = output;
    finish_message = message;
}

void cli_stop_hold(void)
{
    blocked = 1;
}

void cli_stop_remove(void)
{
    for (int i = 0; installed && i < SIGNALS; i++) {
        sigaction(stop_signals[i], &before[i], NULL);
    }
    installed = 0;
    finish_message = NULL;
}
