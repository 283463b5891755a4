/* xsoftmax train without --estimator, of text: chooses its n-grams where no flag says anything of them. */
#include "train.h"

#include <stdlib.h>

int cli_ngrams_open(const cli_run *r)
{
    const cli_data *f = &r->format;
    const int text = f->format == XSM_FORMAT_AUTO || f->format == XSM_FORMAT_TEXT || f->text_column;
    return text && r->choose && !r->estimator_name && !r->transform_asked && !r->dry && !cli_group && !f->spool &&
           f->word_ngrams == 0 && f->min_chars == 0 && f->max_chars == 0 && f->buckets == 0 && f->min_count == 0;
}

char *cli_ngrams_name(const xsm_text_options *text)
{
    char *words = text->word_ngrams > 2    ? cli_format("words and n-grams of up to %u", text->word_ngrams)
                  : text->word_ngrams == 2 ? cli_format("words and pairs")
                                           : cli_format("words");
    if (text->max_chars == 0) {
        return words;
    }
    char *all = cli_format("%s, %u to %u characters", words, text->min_chars, text->max_chars);
    free(words);
    return all;
}

static void say(const cli_run *r)
{
    const xsm_choice_info *chosen = &r->ngrams_chosen;
    cli_buffer number;
    char *name = cli_ngrams_name(chosen->text);
    fprintf(cli_messages(), "%-10s %s", "n-grams", name);
    free(name);
    if (chosen->text->word_ngrams > 1 || chosen->text->max_chars > 0) {
        fprintf(cli_messages(), ", in %s buckets", cli_grouped(chosen->text->buckets, &number));
    }
    if (chosen->trials == 0) {
        fputs(": nothing was tried\n", cli_messages());
        return;
    }
    fprintf(cli_messages(), ": %s runs of a tree in %.2g s\n", cli_grouped(chosen->trials, &number), chosen->seconds);
    cli_choose_race(cli_messages(), r->ngrams, chosen->trials);
}

int cli_choose_ngrams(cli_run *r)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_dataset_info rows = XSM_DATASET_INFO_INIT;
    if (xsm_dataset_get_class_map(r->train_rows, &map, &err) != XSM_OK) {
        return cli_library_failed(&err);
    }
    if (!r->format.ngrams_open || !map.vocabulary || r->raw_info.format == XSM_FORMAT_CACHE) {
        return CLI_GO_ON;
    }
    xsm_choose_options options = cli_choose_options(r);
    const xsm_status status = xsm_choose_ngrams(r->context, r->train_rows, &options, &r->ngrams, &err);
    cli_note_clear();
    if (status == XSM_CANCELLED) {
        return cli_fail("stopped while choosing n-grams; no model was trained");
    }
    if (status != XSM_OK || xsm_choice_get_info(r->ngrams, &r->ngrams_chosen, &err) != XSM_OK ||
        xsm_dataset_get_info(r->train_rows, &rows, &err) != XSM_OK) {
        return cli_fail("%s: %s", r->data, err.message);
    }
    r->raw_info.features = rows.features;
    say(r);
    return CLI_GO_ON;
}

void cli_ngrams_json(cli_json *json, const cli_run *r)
{
    const xsm_text_options *text = r->ngrams_chosen.text;
    if (!r->ngrams) {
        cli_json_null(json, "ngrams");
        return;
    }
    cli_json_open(json, "ngrams");
    char *name = cli_ngrams_name(text);
    cli_json_text(json, "name", name);
    free(name);
    cli_json_whole(json, "word_ngrams", text->word_ngrams);
    cli_json_whole(json, "min_chars", text->min_chars);
    cli_json_whole(json, "max_chars", text->max_chars);
    cli_json_whole(json, "buckets", text->word_ngrams > 1 || text->max_chars > 0 ? text->buckets : 0);
    cli_json_real(json, "held_loss", r->ngrams_chosen.loss);
    cli_json_real(json, "seconds", r->ngrams_chosen.seconds);
    cli_choose_trials(json, r->ngrams, r->ngrams_chosen.trials);
    cli_json_close(json);
}
