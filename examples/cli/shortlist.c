/* The shortlist of predict and evaluate: --shortlist and --candidates. */
#include "cli.h"

int cli_shortlist_load(xsm_context *context, cli_shortlist *s, int other)
{
    if (!s->path) {
        return s->candidates ? cli_misuse("--candidates needs --shortlist FILE") : CLI_GO_ON;
    }
    if (other) {
        return cli_misuse(
            "--shortlist takes candidates from a label tree, --index from an index, --tree-alone from the "
            "model's own tree; one of them is accepted");
    }
    return cli_load(context, s->path, &s->model);
}

void cli_shortlist_free(cli_shortlist *s)
{
    xsm_model_free(s->model);
}
