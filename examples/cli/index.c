/* The index of predict and evaluate, --index, --index-file, --probe and --index-set; and the command that saves one. */
#include "cli.h"

#include <xsoftmax/search.h>

#include <stdlib.h>
#include <string.h>

/* The options are the user's, so a value out of range is a usage error. */
static int refused(const xsm_error *err)
{
    return err->status == XSM_ERROR_MEMORY ? cli_library_failed(err) : cli_misuse("%s", err->message);
}

int cli_index_wanted(const cli_index *x)
{
    return x->name || x->path;
}

int cli_index_make(xsm_context *context, cli_index *x, int in_tree)
{
    xsm_error err = XSM_ERROR_INIT;
    x->context = context;
    if (x->path && (x->name || x->probe || x->sets.count)) {
        return cli_misuse("--index-file has its own index and options; not with --index, --probe or --index-set");
    }
    if (!x->name && (x->probe || x->sets.count)) {
        return cli_misuse("--probe and --index-set need --index NAME");
    }
    if (cli_index_wanted(x) && in_tree) {
        return cli_misuse("--index%s searches an index, --beam and --tree-alone a tree; not both",
                          x->path ? "-file" : "");
    }
    if (!x->name) {
        return CLI_GO_ON;
    }
    if (xsm_index_new(context, x->name, &x->index, &err) != XSM_OK ||
        (x->probe && xsm_index_set_number(x->index, "probe", (int64_t)x->probe, &err) != XSM_OK)) {
        return refused(&err);
    }
    for (size_t i = 0; i < x->sets.count; i++) {
        const char *set = x->sets.items[i], *equals = strchr(set, '=');
        if (!equals || equals == set) {
            return cli_misuse("--index-set: '%s' is not of the form KEY=VALUE", set);
        }
        char *name = cli_format("%.*s", (int)(equals - set), set);
        int status = xsm_index_set(x->index, name, equals + 1, &err);
        free(name);
        if (status != XSM_OK) {
            return refused(&err);
        }
    }
    return CLI_GO_ON;
}

static int load(cli_index *x, const xsm_model *model)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_index_info info = XSM_INDEX_INFO_INIT;
    if (xsm_index_load(x->context, x->path, NULL, NULL, model, &x->index, &err) != XSM_OK ||
        xsm_index_get_info(x->index, &info, &err) != XSM_OK) {
        return cli_library_failed(&err);
    }
    x->name = info.name;
    return CLI_GO_ON;
}

static int build(cli_index *x, const xsm_model *model)
{
    xsm_error err = XSM_ERROR_INIT;
    cli_note("building the index ...");
    xsm_status status = xsm_index_build_model(x->index, model, &err);
    cli_note_clear();
    return status == XSM_OK ? CLI_GO_ON : err.status == XSM_ERROR_RANGE ? refused(&err) : cli_library_failed(&err);
}

int cli_index_build(cli_index *x, const xsm_model *model)
{
    const double since = cli_clock();
    const int code = x->path ? load(x, model) : build(x, model);
    x->seconds = cli_clock() - since;
    return code;
}

void cli_index_free(cli_index *x)
{
    cli_list_free(&x->sets);
    xsm_index_free(x->index);
}

/* -- the command --------------------------------------------------------------------------------------------------- */

typedef struct saving {
    const char *model_path, *path;
    uint64_t threads;
    cli_index index;
    xsm_context *context;
    xsm_model *model;
} saving;

static int save(saving *s)
{
    xsm_error err = XSM_ERROR_INIT;
    cli_buffer a, b;
    int code = cli_context(s->threads, &s->context);
    code = code == CLI_GO_ON ? cli_index_make(s->context, &s->index, 0) : code;
    code = code == CLI_GO_ON ? cli_load(s->context, s->model_path, &s->model) : code;
    code = code == CLI_GO_ON ? cli_index_build(&s->index, s->model) : code;
    if (code != CLI_GO_ON) {
        return code;
    }
    if (xsm_index_save(s->index.index, s->path, NULL, &err) != XSM_OK) {
        return cli_library_failed(&err);
    }
    printf("index      %s over %s classes, built in %s\nfile       %s\n", s->index.name,
           cli_grouped(xsm_model_class_count(s->model), &a), cli_seconds(s->index.seconds, &b),
           cli_output_shown(s->path));
    return CLI_DONE;
}

int cli_index_save(const cli_command *command, int argc, char **argv)
{
    saving s = {.index = {.name = "spherical"}};
    const cli_flag flags[] = {
        {NULL, CLI_HEADING, NULL, NULL, "Options", NULL, 0, 0, 0, 0},
        {"model", CLI_INPUT, &s.model_path, "FILE", "the saved model", NULL, 0, 0, 0, 1},
        {"output", CLI_OUTPUT, &s.path, "FILE", "the index to write", NULL, 0, 0, 0, 1},
        CLI_INDEX_OPTIONS(s.index, "which (spherical); 'xsoftmax indexes' lists them"),
        {"threads", CLI_WHOLE, &s.threads, "T", "threads (all)", NULL, 1, 4096, 0, 0},
    };
    int code = cli_parse(command, flags, sizeof flags / sizeof flags[0], NULL, argc, argv);
    code = code == CLI_GO_ON ? save(&s) : code;
    cli_index_free(&s.index);
    xsm_model_free(s.model);
    xsm_context_free(s.context);
    return code;
}
