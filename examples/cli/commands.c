/* The command as a function: the table of commands, and the lookup of one. */
#include "cli.h"

#include <errno.h>
#include <string.h>

static const cli_command commands[] = {
    {"train", NULL, "Trains a model on a data file, and says how good it is.",
     "Without --estimator, how to train is chosen from the rows by short runs; what is given\n"
     "stays. Rows without a label are dropped and counted. With --test, rows of classes that\n"
     "training never saw count as errors. Ctrl-C ends training early and keeps\n"
     "the model so far.",
     cli_train},
    {"evaluate", NULL, "Says how good a saved model is on rows with labels.", NULL, cli_evaluate},
    {"calibrate", NULL, "Makes a saved model's probabilities honest.",
     "Fits one number, the temperature, or two where rows have several labels, to rows that\n"
     "the model was not trained on, and writes a model that has them. Its best classes are\n"
     "the same.",
     cli_calibrate},
    {"predict", NULL, "Prints the best classes of each row.",
     "A line a row, best class first: label:value, with tabs between. The label is its\n"
     "name where the model has names; the value follows the last colon.",
     cli_predict},
    {"convert", NULL, "Writes a data file in another format.",
     "What the other format cannot hold is an error. With --to cache the result is mapped\n"
     "when it is read, and may be larger than memory, as may be what is converted.",
     cli_convert},
    {"prune", NULL, "Writes a linear model without its small weights.",
     "What is left takes some 6 bytes a weight. Such a model predicts and is evaluated, and\n"
     "cannot be trained. With --test it says what is lost.",
     cli_prune},
    {"convert-model", NULL, "Writes a model with its weights in another type.",
     "In 16 bits they take a half of float32, in 8 a quarter. Such a model predicts and is\n"
     "evaluated, faster for single rows, and cannot be trained. With --test it says what is lost.",
     cli_convert_model},
    {"import", NULL, "Makes a model of one that fastText has trained.",
     "The model reads text as fastText does, predicts the same, and goes on training (train\n"
     "--warm-start).",
     cli_import},
    {"index", NULL, "Builds a search index of a model's classes, and saves it.",
     "predict and evaluate take it by --index-file in place of building one. It is of this\n"
     "model's weights, and refused with others.",
     cli_index_save},
    {"info", "FILE", "Says what a file holds: a model, data, an index.", NULL, cli_info},
    {"estimators", "[NAME]", "Lists the estimators, or the options of one.", NULL, cli_estimators},
    {"samplers", "[NAME]", "Lists the samplers, or the options of one.", NULL, cli_samplers},
    {"optimizers", "[NAME]", "Lists the optimizers, or the options of one.", NULL, cli_optimizers},
    {"indexes", "[NAME]", "Lists the search indexes, or the options of one.", NULL, cli_indexes},
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static void print_help(void)
{
    puts("Usage: xsoftmax COMMAND [OPTION]...\n\n"
         "Classifiers with a softmax over very many classes.\n\nCommands");
    for (size_t i = 0; i < COMMANDS; i++) {
        printf("  %-14s %s\n", commands[i].name, commands[i].summary);
    }
    puts("\n'xsoftmax COMMAND --help' (or 'help COMMAND') lists a command's options, --version is\n"
         "the release, and 'man xsoftmax' the manual.\n\nExample\n"
         "  xsoftmax train --data train.txt --test test.txt --model m.safetensors\n"
         "  xsoftmax predict --model m.safetensors --data new.txt --top 3 --probabilities");
}

/* Whether several ranks can run a command. */
static int divides(const cli_command *command)
{
    return command->run == cli_train || command->run == cli_evaluate || command->run == cli_calibrate ||
           command->run == cli_predict || command->run == cli_convert_model;
}

static int run(int argc, char **argv)
{
    const char *names[COMMANDS];
    char flag[] = "--help", *asking[] = {flag};
    if (argc < 2) {
        return cli_misuse("a command is missing; 'xsoftmax --help' lists them");
    }
    const int helps = argc == 3 && strcmp(argv[1], "help") == 0; /* help COMMAND is COMMAND --help */
    const char *name = argv[helps ? 2 : 1];
    for (size_t i = 0; i < COMMANDS; i++) {
        names[i] = commands[i].name;
        if (strcmp(name, commands[i].name) == 0) {
            if (cli_group && !helps && !divides(&commands[i])) {
                return cli_misuse("'%s' is for one process; train, evaluate, calibrate, predict and convert-model "
                                  "are accepted of several",
                                  name);
            }
            return commands[i].run(&commands[i], helps ? 1 : argc - 2, helps ? asking : argv + 2);
        }
    }
    int alone = argc == 2;
    if (alone && (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0)) {
        print_help();
        return CLI_DONE;
    }
    if (alone && (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)) {
        printf("xsoftmax %s\n", xsm_version_string());
        return CLI_DONE;
    }
    const char *nearest = cli_nearest(name, names, COMMANDS);
    return nearest ? cli_misuse("unknown command '%s'; did you mean '%s'?", name, nearest)
                   : cli_misuse("unknown command '%s'; 'xsoftmax --help' lists them", name);
}

int cli_main(int argc, char **argv)
{
    int code = cli_compare_arguments(argc, argv);
    code = code == CLI_GO_ON ? run(argc, argv) : code;
    cli_stop_remove();
    const int failure = cli_output_append();
    if (failure) {
        cli_fail("cannot write to standard output: %s", strerror(failure));
        return CLI_FAILED;
    }
    /* An error of a full disk is detected here at the latest. */
    int failed = ferror(stdout);
    errno = 0;
    failed = fflush(stdout) != 0 || failed;
    if (failed) {
        cli_fail("cannot write to standard output%s%s", errno ? ": " : "", errno ? strerror(errno) : "");
        return code == CLI_USAGE ? code : CLI_FAILED;
    }
    return cli_stop_code(code);
}
