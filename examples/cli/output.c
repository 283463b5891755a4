/*
 * Files that are replaced when a run succeeds. Each is written under a temporary name in the same folder and renamed at
 * the end, so that a run that fails or is killed leaves the existing file. A file that is not regular (a pipe, a
 * device) is written in place: it cannot be replaced.
 */
#include "cli.h"
#include "same_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
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

/* A file that the arguments name. */
typedef struct named {
    const char *name, *path; /* of the flag */
    int written;
} named;

/* Outputs that may replace an input: what is written goes on from what was read, or the flag was given. */
static const struct {
    const char *output, *input, *flag;
} replaceable[] = {{"checkpoint", "resume", NULL}, {"model", "warm-start", NULL}, {"output", "model", "in-place"}};

/* The flag of that name, NULL: there is none. */
static const cli_flag *find_flag(const cli_flag *flags, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (flags[i].name && strcmp(flags[i].name, name) == 0) {
            return &flags[i];
        }
    }
    return NULL;
}

/* CLI_GO_ON, or the code after a message. */
static int refuse_same(const named *output, const named *input, const cli_flag *flags, size_t count)
{
    if (input->written) {
        return cli_misuse("--%s: %s is the file of --%s", output->name, output->path, input->name);
    }
    const cli_flag *flag = NULL;
    for (size_t i = 0; i < sizeof replaceable / sizeof *replaceable; i++) {
        if (strcmp(output->name, replaceable[i].output) == 0 && strcmp(input->name, replaceable[i].input) == 0) {
            flag = replaceable[i].flag ? find_flag(flags, count, replaceable[i].flag) : NULL;
            if (!replaceable[i].flag || (flag && *(const int *)flag->value)) {
                return CLI_GO_ON;
            }
        }
    }
    return cli_misuse("--%s: %s would replace a file that is read%s", output->name, output->path,
                      flag ? "; --in-place allows that" : "");
}

/* The file of a name, which - says of the standard one. */
static const char *opened(const char *path, const char *standard_file)
{
    return strcmp(path, "-") == 0 ? standard_file : path;
}

/* Whether an output is a file that is read, or that an output before it writes. */
static int clashes(const named *output, const named *other)
{
    struct stat st;
    if (other->written) {
        const int both = strcmp(output->path, "-") == 0 && strcmp(other->path, "-") == 0;
        return other < output &&
               (both || same_file(opened(output->path, "/dev/stdout"), opened(other->path, "/dev/stdout")));
    }
    return same_file(output->path, opened(other->path, "/dev/stdin")) && stat(output->path, &st) == 0;
}

static int check_names(const named *files, size_t count, const cli_flag *flags, size_t flag_count)
{
    int code = CLI_GO_ON;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; files[i].written && j < count && code == CLI_GO_ON; j++) {
            code = clashes(&files[i], &files[j]) ? refuse_same(&files[i], &files[j], flags, flag_count) : code;
        }
    }
    return code;
}

/* Collects the files of a flag; returns how many. */
static size_t name_flag(const cli_flag *flag, named *out)
{
    if (flag->kind == CLI_INPUTS) {
        const cli_list *list = flag->value;
        for (size_t i = 0; out && i < list->count; i++) {
            out[i] = (named){flag->name, list->items[i], 0};
        }
        return list->count;
    }
    const char *path = flag->kind == CLI_INPUT || flag->kind == CLI_OUTPUT ? *(const char *const *)flag->value : NULL;
    if (out && path) {
        *out = (named){flag->name, path, flag->kind == CLI_OUTPUT};
    }
    return path != NULL;
}

/* Whether a flag has the path of a file and does not say whether that is read or written. */
static int hides_file(const cli_flag *flag)
{
    static const char *const files[] = {"FILE", "MODEL", "OUT", "CSV"};
    int file = 0;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        file |= flag->argument && strcmp(flag->argument, files[i]) == 0;
    }
    return file && (flag->kind == CLI_TEXT || flag->kind == CLI_LIST);
}

int cli_output_check(const cli_flag *flags, size_t flag_count)
{
    size_t count = 0, all = 0;
    for (size_t i = 0; i < flag_count; i++) {
        if (hides_file(&flags[i])) {
            return cli_fail("--%s: a mistake of this program: nothing says whether the file is read or written",
                            flags[i].name);
        }
        all += name_flag(&flags[i], NULL);
    }
    named *files = calloc(all + 1, sizeof *files);
    if (!files) {
        return cli_fail("out of memory");
    }
    for (size_t i = 0; i < flag_count; i++) {
        count += name_flag(&flags[i], files + count);
    }
    const int code = cli_agree(cli_leads() ? check_names(files, count, flags, flag_count) : CLI_GO_ON);
    free(files);
    return code;
}

/* Where an output of the name - is kept until it is complete, if standard output is a file, and that file. */
static char kept[4096], piped[32]; /* in its place on the command line, the latter if it is a pipe */
static int standard = -1;

const char *cli_output_shown(const char *path)
{
    return path == kept || path == piped ? "standard output" : path;
}

/* As a program that prints: at the place where the file stands, behind what it has. */
int cli_output_append(void)
{
    char bytes[1 << 14];
    const int from = standard >= 0 ? open(kept, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t got = 0, written = 0;
    while (from >= 0 && (got = read(from, bytes, sizeof bytes)) > 0) {
        for (ssize_t at = 0; at < got && written >= 0; at += written) {
            written = write(standard, bytes + at, (size_t)(got - at));
        }
        if (written < 0) {
            break;
        }
    }
    const int failure = standard >= 0 && (from < 0 || got < 0 || written < 0) ? errno : 0;
    if (from >= 0) {
        close(from);
        unlink(kept);
    }
    standard = -1;
    return failure;
}

/* Removes what killed processes left behind of the same output: NAME.PROCESS-N.new, and what they were writing there.
 */
static void remove_leftovers(const char *path)
{
    char *folder = cli_folder_of(path);
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    DIR *entries = opendir(folder);
    for (const struct dirent *entry; entries && (entry = readdir(entries)) != NULL;) {
        long process;
        unsigned attempt;
        int end = 0;
        const char *rest;
        const size_t length = strlen(name);
        if (strncmp(entry->d_name, name, length) == 0 &&
            sscanf(entry->d_name + length, ".%ld-%u.new%n", &process, &attempt, &end) == 2 && end > 0 &&
            (!*(rest = entry->d_name + length + end) || *rest == '.') &&
            strspn(rest, "-.0123456789new") == strlen(rest) && process > 0 && kill((pid_t)process, 0) != 0 &&
            errno == ESRCH) {
            char *left = cli_format("%s/%s", folder, entry->d_name);
            unlink(left);
            free(left);
        }
    }
    if (entries) {
        closedir(entries);
    }
    free(folder);
}

/* Makes the file to keep an output in, and removes what killed processes left of theirs. */
static int open_kept(void)
{
    const char *folder = getenv("TMPDIR");
    const size_t length = (size_t)snprintf(kept, sizeof kept, "%s/xsoftmax", folder ? folder : "/tmp");
    int file = -1;
    errno = ENAMETOOLONG;
    if (length < sizeof kept) {
        remove_leftovers(kept);
        errno = EEXIST;
    }
    for (unsigned attempt = 0; file < 0 && errno == EEXIST && attempt < 1000; attempt++) {
        snprintf(kept + length, sizeof kept - length, ".%ld-%u.new", (long)getpid(), attempt);
        file = open(kept, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    }
    return file;
}

int cli_output_to_pipe(const cli_flag *flags, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char **const value = flags[i].kind == CLI_OUTPUT ? flags[i].value : NULL;
        if (!value || !*value || strcmp(*value, "-") != 0) {
            continue;
        }
        struct stat st;
        const int is_file = fstat(STDOUT_FILENO, &st) == 0 && S_ISREG(st.st_mode);
        const int out = dup(STDOUT_FILENO), file = is_file ? open_kept() : -1;
        if (out < 0 || (is_file && file < 0) || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
            return cli_fail("--%s -: %s%s%s", flags[i].name, is_file ? kept : "", is_file ? ": " : "", strerror(errno));
        }
        if (is_file) {
            close(file);
            standard = out;
        }
        snprintf(piped, sizeof piped, "/dev/fd/%d", out);
        *value = is_file ? kept : piped;
    }
    return CLI_GO_ON;
}

static int plan(int which, const char *path)
{
    struct stat st;
    int code = CLI_GO_ON;
    int exists = stat(path, &st) == 0;
    /* Resolves links, so that their target is replaced, not the link; pipes have no name to resolve. */
    char *real = exists && S_ISREG(st.st_mode) ? realpath(path, NULL) : NULL;
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
    return CLI_GO_ON;
}

int cli_output_plan(int which, const char *path)
{
    const int code = cli_agree(cli_leads() ? plan(which, path) : CLI_GO_ON);
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

/* As the library does: owner, group and rights of the old file, and of another group those of all others. */
static void keep_rights(int file, const struct stat *old)
{
    struct stat fresh;
    mode_t mode = old->st_mode & 0777;
    if (fstat(file, &fresh) == 0) {
        if (fresh.st_gid != old->st_gid && fchown(file, (uid_t)-1, old->st_gid) != 0) {
            mode &= (mode_t)(0707 | (mode & 07) << 3);
        }
        (void)fchmod(file, mode);
        if (fresh.st_uid != old->st_uid && fchown(file, old->st_uid, (gid_t)-1) != 0) {
            return; /* only a privileged process can give files away */
        }
    }
}

const char *cli_output_begin(int which)
{
    static int registered;
    cli_output *output = &cli_outputs[which];
    struct stat st;
    if (output->in_place) {
        return output->path;
    }
    if (!registered) {
        registered = atexit(cli_output_discard) == 0; /* where memory runs out */
    }
    if (which != CLI_OUTPUT_HISTORY) { /* whose lines are worth something */
        remove_leftovers(output->path);
    }
    int exists = stat(output->path, &st) == 0;
    /* The process number distinguishes two runs, the counter a file that an earlier process left behind. */
    for (unsigned attempt = 0; attempt < 1000; attempt++) {
        char *name = cli_format("%s.%ld-%u.new", output->path, (long)getpid(), attempt);
        int file = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file >= 0) {
            if (exists) {
                keep_rights(file, &st);
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
