/*
 * Fuzzing of the command line: each line of the input is an argument of the xsoftmax command (the byte 1 in it stands
 * for a line's end), which runs in a folder of its own with a few tiny files:
 *
 *     rows.svm rows.csv words.txt rows.npy labels.npy names    data
 *     model words.model tree.model checkpoint                  what the command has made of them
 *
 * Arguments lead nowhere else, and numbers that are accepted but mean long work are made smaller. A run must end with
 * an exit code that the manual names, leave no temporary file, and where training fails leave the files as they were.
 */
#include "fuzz.h"

#include <fcntl.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

enum { ARGUMENTS = 60, FILES = 10 };

/* -- the folder --------------------------------------------------------------------------------------------------- */

static const char *const names[FILES] = {"rows.svm", "rows.csv", "words.txt",   "rows.npy",   "labels.npy",
                                         "names",    "model",    "words.model", "tree.model", "checkpoint"};
static uint8_t *files[FILES];
static size_t sizes[FILES];
static int home = -1, here = -1;

static void write_text(const char *name, const char *text)
{
    fuzz_write(name, text, strlen(text));
}

static void write_npy(const char *name, const char *dtype, const char *shape, const void *data, size_t size)
{
    uint8_t file[512] = "\x93NUMPY\x01";
    int length =
        snprintf((char *)file + 10, 118, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", dtype, shape);
    memset(file + 10 + length, ' ', (size_t)(117 - length));
    file[8] = 118;
    file[127] = '\n';
    memcpy(file + 128, data, size);
    fuzz_write(name, file, 128 + size);
}

/* Runs a command of words with blanks between them. */
static void prepare(const char *command)
{
    char text[400], *arguments[ARGUMENTS + 1];
    int count = 0;
    fuzz_require(strlen(command) < sizeof text, command);
    memcpy(text, command, strlen(command) + 1);
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
        arguments[count++] = word;
    }
    arguments[count] = NULL;
    fuzz_require(cli_main(count, arguments) == CLI_DONE, command);
}

static void make_files(void)
{
    static const float matrix[4][2] = {{1, 0}, {0.5f, 2}, {0, -1}, {3, 1}};
    static const int64_t labels[4] = {7, 3, 7, 5};
    setenv("TERM", "dumb", 1); /* no progress bar, whatever standard error is */
    home = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    here = open(fuzz_folder(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    fuzz_require(home >= 0 && here >= 0 && fchdir(here) == 0, "folders");
    write_text("rows.svm", "1 1:1 2:0.5\n2 2:1\n3,1 3:2 4:1\n1 1:0.9\n2 2:1.1 4:-1\n3 3:1\n");
    write_text("rows.csv", "a,b,label\n1,0,ant\n0.5,2,bee\n0,-1,ant\n1,1,cat\n");
    write_text("words.txt", "__label__x a b c\n__label__y b b d\n__label__x c a\n__label__z d e a\n");
    write_npy("rows.npy", "<f4", "(4, 2)", matrix, sizeof matrix);
    write_npy("labels.npy", "<i8", "(4,)", labels, sizeof labels);
    write_text("names", "none\none\ntwo\nthree\nfour\nfive\nsix\nseven\n");
    prepare(
        "xsoftmax train --data rows.svm --estimator softmax --eta 0.5 --epochs 2 --transform tfidf,unit --model model");
    prepare("xsoftmax train --data words.txt --format text --word-ngrams 2 --max-chars 3 --buckets 20 --estimator ove "
            "--eta "
            "0.5 --epochs 2 --model words.model");
    prepare(
        "xsoftmax train --data rows.svm --estimator negative-sampling --set sampler=tree --set negatives=2 --eta 0.5 "
        "--epochs 2 --hidden 3 --model tree.model");
    prepare("xsoftmax train --data rows.svm --estimator umax --eta 0.5 --epochs 2 --checkpoint checkpoint");
    for (int i = 0; i < FILES; i++) {
        files[i] = fuzz_read(names[i], &sizes[i]);
    }
}

static void restore_files(void)
{
    fuzz_clear();
    for (int i = 0; i < FILES; i++) {
        fuzz_write(names[i], files[i], sizes[i]);
    }
}

static void check_unchanged(void)
{
    for (int i = 0; i < FILES; i++) {
        size_t size;
        uint8_t *now = fuzz_read(names[i], &size);
        fuzz_require(size == sizes[i] && memcmp(now, files[i], size) == 0, "a run that failed leaves what was there");
        free(now);
    }
}

/* What is written under another name first has that name, the process's number and this end. */
static void check_complete(void)
{
    char number[32];
    snprintf(number, sizeof number, ".%ld-", (long)getpid());
    DIR *folder = opendir(fuzz_folder());
    fuzz_require(folder != NULL, "the folder is there");
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        const char *end = strrchr(entry->d_name, '.');
        fuzz_require(!strstr(entry->d_name, number) || strcmp(end, ".new") != 0, "no temporary file is left");
    }
    closedir(folder);
}

/* -- arguments ---------------------------------------------------------------------------------------------------- */

/* Whole numbers that are accepted and mean work or memory by their size alone. */
static const struct {
    const char *flag;
    unsigned long long accepted, most;
} large[] = {
    {"--epochs", 1000000000, 3}, {"--iterations", 2147483647, 9}, {"--threads", 4096, 3},
    {"--hidden", 65536, 9},      {"--buckets", 2147483647, 99},
};

/* No more than three digits in a row, unless they are so many that nothing accepts them. */
static void cut_digits(char *text)
{
    for (char *at = text; *at; at += *at != '\0') {
        size_t digits = strspn(at, "0123456789");
        if (digits > 3 && digits < 18) {
            memmove(at + 3, at + digits, strlen(at + digits) + 1);
            digits = 3;
        }
        at += digits;
        if (*at == '\0') {
            break;
        }
    }
}

static void tame(char *flag, char *next)
{
    char *equals = strchr(flag, '='), *value = equals ? equals + 1 : next;
    size_t length = equals ? (size_t)(equals - flag) : strlen(flag);
    if (!value) {
        return;
    }
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        if (strlen(large[i].flag) == length && strncmp(flag, large[i].flag, length) == 0) {
            unsigned long long number = strtoull(value, NULL, 10);
            if (number > large[i].most && number <= large[i].accepted && value[strspn(value, "0123456789")] == '\0') {
                snprintf(value, strlen(value) + 1, "%llu", large[i].most); /* which is shorter */
            }
        }
    }
    if ((length == 5 && strncmp(flag, "--set", 5) == 0) || (length == 11 && strncmp(flag, "--index-set", 11) == 0)) {
        cut_digits(value);
    }
}

/* Cuts the input into arguments that lead to no other folder. */
static int split(char *text, size_t size, char **arguments)
{
    int count = 0;
    arguments[count++] = text + size; /* an empty name of the program */
    for (char *at = text; at < text + size && count < ARGUMENTS;) {
        char *end = memchr(at, '\n', (size_t)(text + size - at));
        end = end ? end : text + size;
        *end = '\0';
        arguments[count++] = at;
        for (char *c = at; *c; c++) {
            *c = *c == '/' || (c[0] == '.' && c[1] == '.') ? '_' : *c == 1 ? '\n' : *c;
        }
        at = end + 1;
    }
    arguments[count] = NULL;
    for (int i = 1; i < count; i++) {
        tame(arguments[i], i + 1 < count ? arguments[i + 1] : NULL);
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *arguments[ARGUMENTS + 1];
    if (home < 0) {
        make_files();
    }
    char *text = malloc(size + 1);
    fuzz_require(text != NULL, "memory");
    if (size > 0) {
        memcpy(text, data, size);
    }
    text[size] = '\0';
    int count = split(text, size, arguments);
    bool training = count > 1 && strcmp(arguments[1], "train") == 0;
    for (int i = 1; i < count; i++) { /* which is written on the way */
        training = training && strncmp(arguments[i], "--checkpoint", 12) != 0;
    }
    restore_files();
    fuzz_require(fchdir(here) == 0, "the folder");
    int input = open("rows.svm", O_RDONLY | O_CLOEXEC);
    fuzz_require(input >= 0 && dup2(input, STDIN_FILENO) == STDIN_FILENO && close(input) == 0, "standard input");
    int code = cli_main(count, arguments);
    fuzz_require(fchdir(home) == 0, "the folder of before");
    fuzz_require(code == CLI_DONE || code == CLI_FAILED || code == CLI_USAGE, "an exit code of the manual's");
    if (code != CLI_DONE && training) {
        check_unchanged();
    }
    check_complete();
    free(text);
    return 0;
}

#ifdef FUZZER

/* -- mutations: of whole lines, as most others are arguments that nothing knows ------------------------------------ */

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size, uint8_t *out,
                                 size_t room, unsigned seed);

static size_t count_lines(const uint8_t *data, size_t size)
{
    size_t lines = 0;
    for (size_t i = 0; i < size; i++) {
        lines += data[i] == '\n';
    }
    return lines;
}

/* Where a line begins, counted from 0; the end for one that is not there. */
static size_t line_start(const uint8_t *data, size_t size, size_t line)
{
    size_t at = 0;
    while (at < size && line > 0) {
        line -= data[at++] == '\n';
    }
    return at;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    size_t lines = count_lines(data, size), line = seed / 8 % (lines + 1);
    size_t start = line_start(data, size, line), end = line_start(data, size, line + 1);
    uint8_t word[64];
    size_t length = end > start ? end - start - 1 : 0;
    if (seed % 8 == 0) { /* without the line */
        memmove(data + start, data + end, size - end);
        return size - (end - start);
    }
    if (seed % 8 < 5 && end > start && data[end - 1] == '\n' && length < sizeof word && size + sizeof word <= room) {
        memcpy(word, data + start, length);
        size_t now = LLVMFuzzerMutate(word, length, sizeof word);
        memmove(data + start + now, data + end - 1, size - end + 1);
        memcpy(data + start, word, now);
        return size - length + now;
    }
    return LLVMFuzzerMutate(data, size, room);
}

/* One or two lines of b, an option perhaps with its value, among those of a. */
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size, uint8_t *out,
                                 size_t room, unsigned seed)
{
    size_t at = line_start(a, a_size, 1 + seed / 2 % (count_lines(a, a_size) + 1));
    size_t line = 1 + seed / 64 % (count_lines(b, b_size) + 1);
    size_t start = line_start(b, b_size, line), end = line_start(b, b_size, line + 1 + seed % 2);
    if (a_size + end - start > room) {
        return 0;
    }
    memcpy(out, a, at);
    memcpy(out + at, b + start, end - start);
    memcpy(out + at + end - start, a + at, a_size - at);
    return a_size + end - start;
}

#else
int main(int argc, char **argv)
{
    return freopen("/dev/null", "w", stdout) ? fuzz_replay(argc, argv, false) : 1;
}
#endif
