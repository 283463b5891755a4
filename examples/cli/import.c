/* xsoftmax import: makes a model of one that fastText has trained. */
#include "cli.h"

#include <stdlib.h>

#include <xsoftmax/fasttext.h>

typedef struct importing {
    const char *from, *to, *label_prefix;
    uint64_t threads;
    xsm_context *context;
    xsm_model *model;
} importing;

static int import(importing *i)
{
    xsm_error err = XSM_ERROR_INIT;
    const int code = cli_context(i->threads, &i->context);
    if (code != CLI_GO_ON) {
        return code;
    }
    cli_note("importing ...");
    const xsm_status status = xsm_model_import_fasttext(i->context, i->from, NULL, i->label_prefix, &i->model, &err);
    cli_note_clear();
    if (status != XSM_OK || xsm_model_save(i->model, i->to, NULL, &err) != XSM_OK) {
        return cli_library_failed(&err);
    }
    char *shape = cli_model_shape(i->model);
    printf("model      %s\nfile       %s\n", shape, cli_output_shown(i->to));
    free(shape);
    return CLI_DONE;
}

int cli_import(const cli_command *command, int argc, char **argv)
{
    importing i = {0};
    const cli_flag flags[] = {
        {NULL, CLI_HEADING, NULL, NULL, "Options", NULL, 0, 0, 0, 0},
        {"model", CLI_INPUT, &i.from, "FILE", "fastText's .bin or .ftz file", NULL, 0, 0, 0, 1},
        {"output", CLI_OUTPUT, &i.to, "FILE", "the model to write", NULL, 0, 0, 0, 1},
        {"label-prefix", CLI_TEXT, &i.label_prefix, "TEXT", "fastText's -label, with which labels begin (__label__)",
         NULL, 0, 0, 0, 0},
        {"threads", CLI_WHOLE, &i.threads, "T", "threads (all)", NULL, 1, 4096, 0, 0},
    };
    int code = cli_parse(command, flags, sizeof flags / sizeof flags[0], NULL, argc, argv);
    code = code == CLI_GO_ON ? import(&i) : code;
    xsm_model_free(i.model);
    xsm_context_free(i.context);
    return code;
}
