/* The history: a CSV file with a line for each evaluated epoch. Unknown values are left empty. */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

static void head(cli_history *history)
{
    fputs("epoch,step,seconds,eta,train_log_loss,train_error,test_log_loss,test_error", history->file);
    for (size_t i = 0; i < CLI_MEASURES; i++) {
        for (size_t j = 0; history->measures >> i & 1 && j < CLI_MEASURE_RANKS; j++) {
            fprintf(history->file, ",%s_%u", cli_measures[i].key, cli_measure_ranks[j]);
        }
    }
    fputc('\n', history->file);
}

static void flush(cli_history *history)
{
    const int written = fflush(history->file) == 0;
    if (!written && history->failure == 0) {
        history->failure = errno;
    }
    cli_outputs[CLI_OUTPUT_HISTORY].ready = written;
}

/* Opens a file; waiting for the reader of a pipe ends with a signal. */
static int open_waiting(const char *path)
{
    int file;
    while ((file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0666)) < 0 && errno == ENXIO) {
        if (cli_stop_waits()) {
            errno = EINTR;
            return -1;
        }
        (void)poll(NULL, 0, 20);
    }
    if (file >= 0) {
        (void)fcntl(file, F_SETFL, fcntl(file, F_GETFL) & ~O_NONBLOCK);
    }
    return file;
}

static int open_file(cli_history *history)
{
    const char *path = cli_output_begin(CLI_OUTPUT_HISTORY);
    if (!path) {
        return CLI_FAILED;
    }
    const int file = open_waiting(path);
    history->file = file >= 0 ? fdopen(file, "w") : NULL;
    if (!history->file) {
        return cli_fail("%s: cannot write: %s", path, strerror(errno));
    }
    head(history);
    return CLI_GO_ON;
}

int cli_history_open(cli_history *history)
{
    return cli_agree(cli_leads() ? open_file(history) : CLI_GO_ON);
}

void cli_history_again(cli_history *history)
{
    if (history->file) {
        /* Lines already written to a pipe cannot be removed: there a new header line marks the new run. */
        if (fflush(history->file) == 0 && ftruncate(fileno(history->file), 0) == 0) {
            rewind(history->file);
        }
        cli_outputs[CLI_OUTPUT_HISTORY].ready = 0;
        head(history);
    }
}

static void cell(cli_history *history, const xsm_metrics *metrics, double value)
{
    cli_buffer buffer;
    fprintf(history->file, ",%s", metrics ? cli_real(value, &buffer) : "");
}

void cli_history_line(cli_history *history, const xsm_progress *progress, const xsm_metrics *train,
                      const xsm_metrics *test)
{
    cli_buffer seconds, eta;
    if (!history->file) {
        return;
    }
    fprintf(history->file, "%llu,%llu,%s,%s", (unsigned long long)progress->epoch, (unsigned long long)progress->step,
            cli_real(progress->seconds, &seconds), cli_real(progress->eta, &eta));
    cell(history, train, train ? train->log_loss : 0);
    cell(history, train, train ? train->error : 0);
    cell(history, test, test ? test->log_loss : 0);
    cell(history, test, test ? test->error : 0);
    for (size_t i = 0; i < CLI_MEASURES; i++) {
        for (size_t j = 0; history->measures >> i & 1 && j < CLI_MEASURE_RANKS; j++) {
            cell(history, test, cli_measure_at(test, i, cli_measure_ranks[j]));
        }
    }
    fputc('\n', history->file);
    /* Only whole lines, whenever the run ends. */
    flush(history);
}

int cli_history_close(cli_history *history)
{
    if (!history->file) {
        return CLI_GO_ON;
    }
    flush(history);
    if (ferror(history->file) && history->failure == 0) { /* an earlier line failed, although the last did not */
        history->failure = EIO;
    }
    cli_outputs[CLI_OUTPUT_HISTORY].ready = 0;
    if (fclose(history->file) != 0 && history->failure == 0) {
        history->failure = errno;
    }
    history->file = NULL;
    if (history->failure != 0) {
        return cli_fail("%s: cannot write the history: %s", cli_outputs[CLI_OUTPUT_HISTORY].path,
                        strerror(history->failure));
    }
    cli_outputs[CLI_OUTPUT_HISTORY].ready = 1;
    return CLI_GO_ON;
}

void cli_history_abandon(cli_history *history)
{
    if (history->file) {
        fclose(history->file);
        history->file = NULL;
    }
}
