/* Flags from a table: parsing, the help text, and messages that say what is accepted. */
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void cli_list_free(cli_list *list)
{
    free((void *)list->items);
    list->items = NULL;
    list->count = 0;
}

static int takes_value(const cli_flag *flag)
{
    return flag->kind != CLI_SWITCH;
}

/* "a, b or c" */
static char *join_words(const char *const *words)
{
    char *text = cli_format("%s", words[0]);
    for (size_t i = 1; words[i]; i++) {
        char *longer = cli_format("%s%s%s", text, words[i + 1] ? ", " : " or ", words[i]);
        free(text);
        text = longer;
    }
    return text;
}

static int bad_choice(const cli_flag *flag, const char *value)
{
    char *accepted = join_words(flag->choices);
    int code = cli_misuse("--%s: '%s' is not known; %s is accepted", flag->name, value, accepted);
    free(accepted);
    return code;
}

/* Describes the numbers that a flag accepts. */
static int bad_number(const cli_flag *flag, const char *value, const char *fault)
{
    const char *what = flag->kind == CLI_WHOLE ? "a whole number" : "a number";
    const char *from = flag->above ? "above" : "from", *to = flag->above ? "and at most" : "to";
    const char *word = flag->choices ? flag->choices[0] : "", * or = flag->choices ? " or " : "";
    const int digits = flag->kind == CLI_WHOLE ? 17 : 10;
    if (isinf(flag->maximum)) {
        return cli_misuse("--%s: '%s' %s; %s%s%s %s %.*g is accepted", flag->name, value, fault, word, or, what, from,
                          digits, flag->minimum);
    }
    return cli_misuse("--%s: '%s' %s; %s%s%s %s %.*g %s %.*g is accepted", flag->name, value, fault, word, or, what,
                      from, digits, flag->minimum, to, digits, flag->maximum);
}

static int set_number(const cli_flag *flag, const char *value)
{
    char *end = NULL;
    double number;
    if (flag->kind == CLI_WHOLE) {
        /* Digits only: strtoull() would also accept a sign and leading spaces. */
        if (!*value || value[strspn(value, "0123456789")] != '\0') {
            return bad_number(flag, value, "is not a whole number");
        }
        errno = 0;
        uint64_t whole = strtoull(value, &end, 10);
        if (errno == ERANGE || (double)whole < flag->minimum || (double)whole > flag->maximum) {
            return bad_number(flag, value, "is out of range");
        }
        *(uint64_t *)flag->value = whole;
        return CLI_GO_ON;
    }
    if (flag->choices && strcmp(value, flag->choices[0]) == 0) {
        *(double *)flag->value = (double)NAN;
        return CLI_GO_ON;
    }
    if (!*value || value[strspn(value, "0123456789+-.eE")] != '\0') {
        return bad_number(flag, value, "is not a number");
    }
    number = strtod(value, &end);
    if (*end) {
        return bad_number(flag, value, "is not a number");
    }
    if (!isfinite(number) || number < flag->minimum || number > flag->maximum ||
        (flag->above && number == flag->minimum)) {
        return bad_number(flag, value, "is out of range");
    }
    *(double *)flag->value = number;
    return CLI_GO_ON;
}

static int set_value(const cli_flag *flag, const char *value)
{
    switch (flag->kind) {
    case CLI_SWITCH:
        *(int *)flag->value = 1;
        return CLI_GO_ON;
    case CLI_TEXT:
    case CLI_INPUT:
    case CLI_OUTPUT:
        if (!*value) {
            return cli_misuse("--%s: the value is empty", flag->name);
        }
        *(const char **)flag->value = value;
        return CLI_GO_ON;
    case CLI_LIST:
    case CLI_INPUTS: {
        cli_list *list = flag->value;
        const char **longer = realloc((void *)list->items, (list->count + 1) * sizeof *longer);
        if (!longer) {
            return cli_fail("out of memory");
        }
        list->items = longer;
        list->items[list->count++] = value;
        return CLI_GO_ON;
    }
    case CLI_CHOICE:
        for (int i = 0; flag->choices[i]; i++) {
            if (strcmp(flag->choices[i], value) == 0) {
                *(int *)flag->value = i;
                return CLI_GO_ON;
            }
        }
        return bad_choice(flag, value);
    default:
        return set_number(flag, value);
    }
}

static int unknown_flag(const cli_command *command, const cli_flag *flags, size_t count, const char *name,
                        size_t length)
{
    char *given = cli_format("%.*s", (int)length, name);
    const char **names = calloc(count + 1, sizeof *names);
    size_t known = 0;
    for (size_t i = 0; names && i < count; i++) {
        if (flags[i].kind != CLI_HEADING) {
            names[known++] = flags[i].name;
        }
    }
    const char *nearest = names ? cli_nearest(given, names, known) : NULL;
    int code =
        nearest ? cli_misuse("unknown option '--%s'; did you mean '--%s'?", given, nearest)
                : cli_misuse("unknown option '--%s'; 'xsoftmax %s --help' lists those there are", given, command->name);
    free((void *)names);
    free(given);
    return code;
}

static void print_help(const cli_command *command, const cli_flag *flags, size_t count)
{
    printf("Usage: xsoftmax %s", command->name);
    for (size_t i = 0; i < count; i++) {
        if (flags[i].required) {
            printf(" --%s %s", flags[i].name, flags[i].argument);
        }
    }
    printf("%s%s", count ? " [OPTION]..." : "", command->operand ? " " : "");
    printf("%s\n\n%s\n", command->operand ? command->operand : "", command->summary);
    if (command->details) {
        printf("\n%s\n", command->details);
    }
    for (size_t i = 0; i < count; i++) {
        const cli_flag *flag = &flags[i];
        if (flag->kind == CLI_HEADING) {
            printf("\n%s\n", flag->help);
            continue;
        }
        char *left =
            cli_format("--%s%s%s", flag->name, flag->argument ? " " : "", flag->argument ? flag->argument : "");
        printf("  %-24s %s%s%s\n", left, strlen(left) > 24 ? "\n                           " : "", flag->help,
               flag->required ? " (required)" : "");
        free(left);
    }
    printf("  %-24s %s\n", "--help", "print this");
}

/* The result of parsing one argument that starts with dashes. */
static int parse_flag(const cli_command *command, const cli_flag *flags, size_t flag_count, unsigned char *given,
                      int argc, char **argv, int *position)
{
    const char *name = argv[*position] + 2;
    size_t length = strcspn(name, "=");
    const char *value = name[length] == '=' ? name + length + 1 : NULL;
    for (size_t i = 0; i < flag_count; i++) {
        const cli_flag *flag = &flags[i];
        if (flag->kind == CLI_HEADING || strlen(flag->name) != length || strncmp(flag->name, name, length) != 0) {
            continue;
        }
        if (given[i] && flag->kind != CLI_LIST && flag->kind != CLI_INPUTS) {
            return cli_misuse("--%s is given twice", flag->name);
        }
        given[i] = 1;
        if (!takes_value(flag)) {
            return value ? cli_misuse("--%s takes no value", flag->name) : set_value(flag, "");
        }
        if (!value) {
            /* If a value is missing, the next flag must not be parsed as the value. */
            if (*position + 1 >= argc || strncmp(argv[*position + 1], "--", 2) == 0) {
                return cli_misuse("--%s needs a value: --%s %s", flag->name, flag->name, flag->argument);
            }
            value = argv[++*position];
        }
        return set_value(flag, value);
    }
    return unknown_flag(command, flags, flag_count, name, length);
}

int cli_parse(const cli_command *command, const cli_flag *flags, size_t flag_count, const char **operand, int argc,
              char **argv)
{
    int code = CLI_GO_ON, only_operands = 0;
    unsigned char *given = calloc(flag_count + 1, 1);
    if (!given) {
        return cli_fail("out of memory");
    }
    for (int i = 0; i < argc && code == CLI_GO_ON; i++) {
        if (!only_operands && strcmp(argv[i], "--") == 0) {
            only_operands = 1;
        } else if (!only_operands && (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)) {
            print_help(command, flags, flag_count);
            code = CLI_DONE;
        } else if (!only_operands && strncmp(argv[i], "--", 2) == 0) {
            code = parse_flag(command, flags, flag_count, given, argc, argv, &i);
        } else if (!only_operands && argv[i][0] == '-' && argv[i][1] != '\0') {
            code = cli_misuse("unknown option '%s'; options start with two dashes", argv[i]);
        } else if (!operand || *operand) {
            code = operand ? cli_misuse("'%s' is one operand too many", argv[i])
                           : cli_misuse("'%s' is not expected; every value follows its option", argv[i]);
        } else {
            *operand = argv[i];
        }
    }
    for (size_t i = 0; i < flag_count && code == CLI_GO_ON; i++) {
        if (flags[i].required && !given[i]) {
            code = cli_misuse("%s needs --%s %s", command->name, flags[i].name, flags[i].argument);
        }
    }
    free(given);
    code = code == CLI_GO_ON ? cli_output_check(flags, flag_count) : code;
    return cli_agree(code == CLI_GO_ON ? cli_output_to_pipe(flags, flag_count) : code);
}
