/* The index of predict and evaluate: --index, --probe and --index-set. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

/* The options are the user's, so a value out of range is a usage error. */
static int refused(const xsm_error *err)
{
    return err->status == XSM_ERROR_MEMORY ? cli_library_failed(err) : cli_misuse("%s", err->message);
}

int cli_index_make(xsm_context *context, cli_index *x, int in_tree)
{
    xsm_error err = XSM_ERROR_INIT;
    if (!x->name) {
        return x->probe || x->sets.count ? cli_misuse("--probe and --index-set need --index NAME") : CLI_GO_ON;
    }
    if (in_tree) {
        return cli_misuse("--index searches an index, --beam and --tree-alone a tree; not both");
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

int cli_index_build(cli_index *x, const xsm_model *model)
{
    xsm_error err = XSM_ERROR_INIT;
    double since = cli_clock();
    cli_note("building the index ...");
    xsm_status status = xsm_index_build_model(x->index, model, &err);
    cli_note_clear();
    x->seconds = cli_clock() - since;
    return status == XSM_OK ? CLI_GO_ON : err.status == XSM_ERROR_RANGE ? refused(&err) : cli_library_failed(&err);
}

void cli_index_free(cli_index *x)
{
    cli_list_free(&x->sets);
    xsm_index_free(x->index);
}
