/*
 * Files that are replaced when a run succeeds. Each is written under a temporary name in the same folder and renamed at
 * the end, so that a run that fails or is killed leaves the existing file. A file that is not regular (a pipe, a
 * device) is written in place: it cannot be replaced.
 */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

cli_output cli_outputs[CLI_OUTPUTS];

char *cli_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return !slash ? cli_format(".") : slash == path ? cli_format("/") : cli_format("%.*s", (int)(slash - path), path);
}

/* Whether two names are of one folder, and the same in it. */
static int same_name(const char *a, const char *b)
{
    struct stat one, other;
    char *folder[] = {cli_folder_of(a), cli_folder_of(b)};
    const char *slash[] = {strrchr(a, '/'), strrchr(b, '/')};
    const int same = strcmp(slash[0] ? slash[0] + 1 : a, slash[1] ? slash[1] + 1 : b) == 0 &&
                     stat(folder[0], &one) == 0 && stat(folder[1], &other) == 0 && one.st_dev == other.st_dev &&
                     one.st_ino == other.st_ino;
    free(folder[0]);
    free(folder[1]);
    return same;
}

int cli_same_file(const char *a, const char *b)
{
    struct stat one, other;
    const int exist[] = {stat(a, &one) == 0, stat(b, &other) == 0};
    if (exist[0] && exist[1]) {
        return S_ISREG(one.st_mode) && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
    }
    return !exist[0] && !exist[1] && same_name(a, b);
}

static int plan(int which, const char *flag, const char *path, const char *const *inputs)
{
    struct stat st;
    int code = CLI_GO_ON;
    int exists = stat(path, &st) == 0;
    for (size_t i = 0; i < CLI_INPUTS; i++) {
        if (inputs[i] && strcmp(inputs[i], "-") != 0 && cli_same_file(path, inputs[i])) {
            return cli_misuse("--%s: %s would replace a file that is read", flag, path);
        }
    }
    /* Resolves links, so that their target is replaced, not the link. */
    char *real = exists ? realpath(path, NULL) : NULL;
    if (!real) {
        real = cli_format("%s", path);
    }
    char *folder = cli_folder_of(real);
    if (exists && S_ISDIR(st.st_mode)) {
        code = cli_fail("%s: cannot write: is a directory", path);
    } else if (exists && !S_ISREG(st.st_mode)) {
        code = access(real, W_OK) == 0 ? code : cli_fail("%s: cannot write: %s", path, strerror(errno));
    } else if (!*path || path[strlen(path) - 1] == '/' || access(folder, W_OK | X_OK) != 0) {
        code = cli_fail("%s: cannot write: %s: %s", path, folder, strerror(errno ? errno : ENOENT));
    }
    free(folder);
    if (code != CLI_GO_ON) {
        free(real);
        return code;
    }
    cli_outputs[which].path = real;
    cli_outputs[which].in_place = exists && !S_ISREG(st.st_mode);
    for (int i = 0; i < CLI_OUTPUTS; i++) {
        if (i != which && cli_outputs[i].path && cli_same_file(cli_outputs[i].path, real)) {
            return cli_misuse("--%s: %s is the file of another output", flag, path);
        }
    }
    return CLI_GO_ON;
}

int cli_output_plan(int which, const char *flag, const char *path, const char *const *inputs)
{
    const int code = cli_agree(cli_leads() ? plan(which, flag, path, inputs) : CLI_GO_ON);
    cli_outputs[which].in_place = cli_agree_any(cli_outputs[which].in_place);
    return code;
}

/* The name of rank 0, on every rank. The caller frees it, NULL after an error message. */
char *cli_output_name(int which)
{
    const char *made = cli_leads() ? cli_output_begin(which) : "";
    size_t length = made ? strlen(made) : 0;
    int code = cli_agree(made ? CLI_GO_ON : CLI_FAILED);
    code = code == CLI_GO_ON ? cli_share(&length, sizeof length) : code;
    if (code != CLI_GO_ON) {
        return NULL;
    }
    char *name = cli_format("%*s", (int)length, made);
    if (cli_share(name, length) != CLI_GO_ON) {
        free(name);
        return NULL;
    }
    return name;
}

const char *cli_output_begin(int which)
{
    cli_output *output = &cli_outputs[which];
    struct stat st;
    if (output->in_place) {
        return output->path;
    }
    int exists = stat(output->path, &st) == 0;
    /* The process number distinguishes two runs, the counter a file that an earlier process left behind. */
    for (unsigned attempt = 0; attempt < 1000; attempt++) {
        char *name = cli_format("%s.%ld-%u.new", output->path, (long)getpid(), attempt);
        int file = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file >= 0) {
            if (exists) {
                (void)fchmod(file, st.st_mode & 07777); /* the new file has the permissions of the old one */
            }
            close(file);
            output->temporary = name;
            return name;
        }
        free(name);
        if (errno != EEXIST) {
            break;
        }
    }
    cli_fail("%s: cannot write: %s", output->path, strerror(errno));
    return NULL;
}

int cli_output_rename(int which)
{
    cli_output *output = &cli_outputs[which];
    if (output->ready && output->temporary) {
        if (rename(output->temporary, output->path) != 0) {
            return errno;
        }
        output->ready = 0;
    }
    return 0;
}

int cli_output_commit(void)
{
    int failure = 0;
    for (int i = 0; i < CLI_OUTPUTS; i++) {
        const int failed = cli_output_rename(i);
        failure = failed ? failed : failure;
    }
    return failure;
}

void cli_output_discard(void)
{
    for (int i = 0; i < CLI_OUTPUTS; i++) {
        if (cli_outputs[i].temporary) {
            unlink(cli_outputs[i].temporary);
        }
    }
}

void cli_output_free(void)
{
    for (int i = 0; i < CLI_OUTPUTS; i++) {
        free(cli_outputs[i].temporary);
        free(cli_outputs[i].path);
        memset(&cli_outputs[i], 0, sizeof cli_outputs[i]);
    }
}
