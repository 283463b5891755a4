/* What the library calls things, in the words of the command: flags in place of members and functions. */
#include "cli.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Replaces `length` bytes at `at`; returns the first byte after what is there then. No text becomes longer. */
static char *put(char *at, size_t length, const char *word)
{
    const size_t size = strlen(word);
    memmove(at + size, at + length, strlen(at + length) + 1);
    memcpy(at, word, size);
    return at + size;
}

static void replace_known(char *text)
{
    static const struct {
        const char *name, *flag;
    } names[] = {{"the class map", "the model"},
                 {"; xsm_model_set_layout() makes them dense", ""},
                 {"xsm_model_convert()", "convert-model"},
                 {"xsm_read_options.weights_path", "--weights"},
                 {"xsm_read_options.labels_path", "--labels-from"},
                 {"xsm_read_options.header = XSM_HEADER_NO", "--header no"},
                 {"xsm_read_options.header", "--header yes or no"},
                 {"xsm_read_options.format = ", "--format "},
                 {"xsm_read_options.duplicates = XSM_DUPLICATES_SUM", "--duplicates sum"},
                 {"xsm_read_options.bad_bytes = XSM_BAD_BYTES_REPLACE", "--bad-bytes replace"},
                 {"xsm_write_options.label_column", "--to-label-column"},
                 {"xsm_write_options.weights_path or weights_column", "--weights-to or --to-weights-column"},
                 {"xsm_write_options.weights_column", "--to-weights-column"},
                 {"xsm_write_options.labels_path", "--labels-to"},
                 {"xsm_write_options.weights_path", "--weights-to"},
                 {"xsm_write_options.names_path", "--names-to"},
                 {"xsm_write_options.format", "--to"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        for (char *at = text; (at = strstr(at, names[i].name)) != NULL;) {
            at = put(at, strlen(names[i].name), names[i].flag);
        }
    }
}

/* "drop such rows (xsm_dataset_drop())": what is in parentheses is for programs. */
static void drop_asides(char *text)
{
    for (char *at = text; (at = strstr(at, "xsm_")) != NULL;) {
        char *open = at, *close = at + strcspn(at, " ,;");
        while (open > text && *open != '(' && *open != ')') {
            open--;
        }
        int depth = 1;
        for (close = open + 1; *close && depth > 0; close++) {
            depth += (*close == '(') - (*close == ')');
        }
        at = *open == '(' && open > text && open[-1] == ' ' && depth == 0
                 ? put(open - 1, (size_t)(close - open + 1), "")
                 : at + 4;
    }
}

/* xsm_read_options.index_base is --index-base. */
static void replace_members(char *text)
{
    for (char *at = text; (at = strstr(at, "xsm_")) != NULL;) {
        char *end = at;
        while (isalnum((unsigned char)*end) || *end == '_') {
            end++;
        }
        if (*end != '.' || !isalpha((unsigned char)end[1])) {
            at = end;
            continue;
        }
        at = put(at, (size_t)(end + 1 - at), "--");
        for (; isalnum((unsigned char)*at) || *at == '_'; at++) {
            *at = *at == '_' ? '-' : *at;
        }
    }
}

/* XSM_FORMAT_XC is xc. */
static void replace_values(char *text)
{
    static const char *const prefixes[] = {"XSM_FORMAT_", "XSM_LABELS_", "XSM_DTYPE_", "XSM_LABEL_TREE_"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        for (char *at = text; (at = strstr(at, prefixes[i])) != NULL;) {
            at = put(at, strlen(prefixes[i]), "");
            for (; isupper((unsigned char)*at) || isdigit((unsigned char)*at) || *at == '_'; at++) {
                *at = (char)tolower((unsigned char)*at);
            }
        }
    }
}

void cli_name_flags(char *text)
{
    replace_known(text);
    replace_members(text);
    drop_asides(text);
    replace_values(text);
}
