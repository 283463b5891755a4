#include "read/columns.h"
#include "base/grow.h"
#include "base/order.h"
#include "base/utf8.h"
#include "read/format.h"
#include "read/number.h"

#include <stdio.h>
#include <string.h>

#define NO_COLUMN SIZE_MAX

/* -- fields -------------------------------------------------------------------------------------------------------- */

void xsmi_columns_trim(const char **text, size_t *length)
{
    while (*length > 0 && xsmi_is_space(**text)) {
        ++*text;
        --*length;
    }
    while (*length > 0 && xsmi_is_space((*text)[*length - 1])) {
        --*length;
    }
}

static bool is(const char *text, size_t length, const char *wanted)
{
    return length == strlen(wanted) && memcmp(text, wanted, length) == 0;
}

bool xsmi_columns_is_missing(const char *text, size_t length)
{
    static const char *const words[] = {"",    "?",   "NA",  "N/A", "n/a",  "#N/A", "<NA>",
                                        "nan", "NaN", "NAN", "NaT", "null", "NULL", "None"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (is(text, length, words[i])) {
            return true;
        }
    }
    return false;
}

bool xsmi_columns_is_truth(const char *text, size_t length, float *value)
{
    static const char *const words[] = {"false", "true", "False", "True", "FALSE", "TRUE"};
    xsmi_columns_trim(&text, &length);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (is(text, length, words[i])) {
            *value = (float)(i % 2);
            return true;
        }
    }
    return false;
}

bool xsmi_columns_is_number(const char *text, size_t length)
{
    const char *after;
    float value;
    xsmi_columns_trim(&text, &length);
    return xsmi_columns_is_missing(text, length) || xsmi_columns_is_truth(text, length, &value) ||
           (xsmi_parse_short_float(text, &after, &value) == XSMI_NUMBER_OK && after == text + length);
}

bool xsmi_columns_is_whole(const char *text, size_t length, int64_t *number)
{
    const size_t digits = length - (length > 0 && *text == '-');
    *number = 0;
    for (size_t i = length - digits; i < length; i++) {
        if (!xsmi_is_digit(text[i]) || *number > XSM_FEATURES_MAX) {
            return false;
        }
        *number = *number * 10 + (text[i] - '0');
    }
    *number = *text == '-' ? -*number : *number;
    return digits > 0;
}

/* -- the separator ------------------------------------------------------------------------------------------------- */

typedef struct split {
    char separator;
    size_t fields, numbers, words; /* words: fields that are neither numbers nor empty */
    size_t mixed;                  /* words that are numbers with semicolons between, such as 5;2 */
    size_t first;                  /* bytes of the first field */
    bool named;                    /* a field is the name of a known column */
    bool broken;                   /* a closing quote is not followed by a separator */
} split;

static bool is_mixed(const char *text, size_t length)
{
    return memchr(text, ';', length) &&
           strspn(text, "0123456789.,;+-") >= length; /* the line end after it stops strspn() */
}

static size_t skip_blanks(const char *line, size_t at, size_t length)
{
    while (at < length && line[at] == ' ') {
        at++;
    }
    return at;
}

bool xsmi_columns_next(const char *line, size_t length, char separator, size_t *at, xsmi_part *part)
{
    if (*at > length) {
        return false;
    }
    size_t from = skip_blanks(line, *at, length);
    *part = (xsmi_part){.spaced = from > *at};
    if (from < length && line[from] == '"' && xsmi_record_opens(line, from, length, separator)) {
        const char *quote;
        for (from++;
             (quote = memchr(line + from, '"', length - from)) && quote + 1 < line + length && quote[1] == '"';) {
            from = (size_t)(quote - line) + 2;
        }
        part->quoted = true;
        part->open = !quote;
        from = quote ? skip_blanks(line, (size_t)(quote - line) + 1, length) : length;
        part->broken = from < length && line[from] != separator;
    } else {
        from = *at;
    }
    const char *stop = memchr(line + from, separator, length - from);
    part->end = stop ? (size_t)(stop - line) : length;
    part->text = line + *at;
    part->length = part->end - *at;
    xsmi_columns_trim(&part->text, &part->length);
    if (part->length >= 2 && part->text[0] == '"' && part->text[part->length - 1] == '"') {
        part->text++;
        part->length -= 2;
    }
    *at = part->end + 1;
    return true;
}

/* Whether a field of a first line is the name of a column that the options or the class map name. */
static bool is_known(const xsmi_reader *r, const xsmi_part *part)
{
    const char *const known[] = {xsmi_reader_label_column(r), r->options.text_column,
                                 r->map.feature_names ? r->map.feature_names[0] : NULL};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i] && is(part->text, part->length, known[i])) {
            return true;
        }
    }
    return false;
}

/* Returns the number of features that the caller or the class map says, even if the file may have new ones. */
static uint32_t known_features(const xsmi_reader *r)
{
    return r->options.features ? r->options.features : r->map.features;
}

/* Returns the number of columns of the class map's table, if it had the columns that options name, and labels. */
static size_t all_columns(const xsmi_reader *r)
{
    const xsm_read_options *o = &r->options;
    size_t count = (size_t)known_features(r) + 1 + (o->weights_column != NULL);
    for (const char *list = o->ignore_columns; list && *list; list += *list == ',') {
        list += strcspn(list, ",");
        count++;
    }
    return count;
}

/* Counts the fields into which a separator cuts a line, by their kinds. */
static split split_line(const xsmi_reader *r, const char *line, size_t length, char separator)
{
    split s = {.separator = separator};
    xsmi_part part;
    for (size_t at = 0; xsmi_columns_next(line, length, separator, &at, &part); s.fields++) {
        const bool number = xsmi_columns_is_number(part.text, part.length);
        s.numbers += number && part.length > 0;
        s.words += !number;
        s.mixed += !number && is_mixed(part.text, part.length);
        s.first = s.fields == 0 ? part.end : s.first;
        s.named |= is_known(r, &part);
        s.broken |= part.broken;
    }
    return s;
}

bool xsmi_columns_asked_for(const xsm_read_options *o)
{
    const int32_t asked =
        (o->header != XSM_HEADER_AUTO ? XSM_RECALLED_HEADER : 0) | (o->separator ? XSM_RECALLED_SEPARATOR : 0) |
        (o->ignore_columns ? XSM_RECALLED_IGNORE_COLUMNS : 0) | (o->label_separator ? XSM_RECALLED_LABEL_SEPARATOR : 0);
    return o->text_column || (asked & ~o->recalled) != 0;
}

/* Returns the separator that the file must have, or NULL. */
static const char *given_separator(const xsmi_reader *r)
{
    return xsmi_reader_recalled(r, XSM_RECALLED_SEPARATOR) ? NULL : r->options.separator;
}

/* Scores a split without regard to the number of fields: by known names, by the class map's table, and by where quotes
 * end. The separator of labels is taken for that of columns only if no other splits the line. */
static int quality_of(const xsm_read_options *o, const split *s)
{
    return 8 * s->named + 4 * (o->separator && s->separator == o->separator[0]) + 2 * !s->broken +
           !(o->label_separator && s->separator == o->label_separator[0]);
}

/* Returns the best split of a line; *other is one by another separator that is as good, without fields if none is. */
static split best_split(const xsmi_reader *r, int32_t format, const char *line, size_t length, split *other)
{
    const xsm_read_options *o = &r->options;
    const char *const given = given_separator(r), *const usual = format == XSM_FORMAT_TSV ? "\t" : ",;|";
    const bool recalled = o->separator && (*o->separator == '\t') == (format == XSM_FORMAT_TSV);
    char candidates[8];
    snprintf(candidates, sizeof candidates, "%s%s", given || recalled ? o->separator : "", given ? "" : usual);
    split best = {.fields = 1};
    int reached = -1;
    *other = (split){.fields = 0};
    for (const char *p = candidates; *p; p++) {
        const split s = split_line(r, line, length, *p);
        if (s.fields == 1 || (p > candidates && *p == *candidates)) {
            continue;
        }
        const int now = quality_of(o, &s);
        const bool better = now > reached || (now == reached && s.fields > best.fields);
        if (better || (now == reached && (s.fields == best.fields || best.mixed > 0))) {
            *other = better ? (split){.fields = 0} : s;
        }
        best = better ? s : best;
        reached = better ? now : reached;
    }
    return best;
}

char xsmi_columns_separator(const xsmi_reader *r, int32_t format, const char *line, size_t length)
{
    split other;
    const split best = best_split(r, format, line, length, &other);
    return given_separator(r) ? *given_separator(r) : best.separator;
}

static const char *between(char separator)
{
    return separator == ','    ? "commas"
           : separator == '\t' ? "tabs"
           : separator == ';'  ? "semicolons"
           : separator == '|'  ? "bars"
           : separator == ' '  ? "blanks"
                               : "the separator";
}

xsm_status xsmi_columns_check_separator(const xsmi_reader *r, uint64_t line_number, const char *line, size_t length,
                                        xsm_error *err)
{
    char first[XSMI_QUOTE_SIZE], second[XSMI_QUOTE_SIZE];
    split other;
    const split best = best_split(r, r->format->id, line, length, &other);
    return other.fields == 0
               ? XSM_OK
               : xsmi_reader_fail(r, err, XSM_ERROR_FORMAT, line_number, 1,
                                  "%zu columns with %s between, the first %s, or %zu with %s, the first %s? set "
                                  "xsm_read_options.separator",
                                  best.fields, between(best.separator), xsmi_quote(first, line, best.first),
                                  other.fields, between(other.separator), xsmi_quote(second, line, other.first));
}

/* Returns how surely a line without separators is of a table of the class map's only feature: its name or a number. */
static xsmi_table_match match_only_column(const xsmi_reader *r, const char *line, size_t length)
{
    bool drops;
    if (r->options.text_column) { /* the only column that rows without labels need */
        return is(line, length, r->options.text_column) ? XSMI_TABLE_SURE : XSMI_TABLE_NO;
    }
    if (!r->has_map || xsmi_reader_features(r, &drops) != 1 || (r->wanted && r->wanted->kind != XSMI_SCHEMA_COLUMNS)) {
        return XSMI_TABLE_NO;
    }
    xsmi_columns_trim(&line, &length);
    return r->map.feature_names && is(line, length, r->map.feature_names[0]) ? XSMI_TABLE_SURE
           : xsmi_columns_is_number(line, length)                            ? XSMI_TABLE_MAYBE
                                                                             : XSMI_TABLE_NO;
}

xsmi_table_match xsmi_columns_match(const xsmi_reader *r, int32_t format, const char *line, size_t length)
{
    const xsm_read_options *o = &r->options;
    split other;
    int64_t number;
    const split s = best_split(r, format, line, length, &other);
    if (s.fields == 1 && format == XSM_FORMAT_CSV && match_only_column(r, line, length) != XSMI_TABLE_NO) {
        return match_only_column(r, line, length);
    }
    const bool known = o->separator && s.separator == o->separator[0];
    if (s.separator == '\0' || (!known && !s.named && format == XSM_FORMAT_CSV && memchr(line, '\t', length))) {
        return XSMI_TABLE_NO; /* the line has commas between words, but the columns are divided by tabs */
    }
    const size_t all = all_columns(r);
    if (s.named || xsmi_columns_asked_for(o) ||
        (known && (s.fields == all || s.fields == all - 1 || s.fields == known_features(r)))) {
        return XSMI_TABLE_SURE;
    }
    const bool by_number = o->label_column && xsmi_columns_is_whole(o->label_column, strlen(o->label_column), &number);
    bool drops;
    return s.words == 0 || s.numbers == 0 || by_number ||
                   (r->has_map && s.fields == xsmi_reader_features(r, &drops) + (o->weights_column != NULL))
               ? XSMI_TABLE_MAYBE
               : XSMI_TABLE_NO;
}

bool xsmi_columns_is_header(const xsmi_reader *r, const char *line, size_t length)
{
    const int32_t formats[] = {XSM_FORMAT_CSV, XSM_FORMAT_TSV};
    for (size_t i = 0; i < 2; i++) {
        split other;
        const split s = best_split(r, formats[i], line, length, &other);
        if (s.separator && s.named && s.words == s.fields) {
            return true;
        }
    }
    return false;
}

/* -- finding columns ----------------------------------------------------------------------------------------------- */

static const char *name_of(const xsmi_record *c, size_t column, size_t *length)
{
    const xsmi_field *f = &c->fields[column];
    const char *name = c->text + f->start;
    *length = f->length;
    if (!f->quoted) {
        xsmi_columns_trim(&name, length);
    }
    return name;
}

static void list_names(const xsmi_record *c, xsmi_columns *k)
{
    size_t used = 0;
    for (size_t i = 0; i < k->count; i++) {
        char quote[XSMI_QUOTE_SIZE];
        size_t length;
        const char *name = name_of(c, i, &length);
        xsmi_quote(quote, name, length);
        if (used + strlen(quote) + 8 > sizeof k->found) {
            snprintf(k->found + used, sizeof k->found - used, " ...");
            return;
        }
        used += (size_t)snprintf(k->found + used, sizeof k->found - used, "%s%s", i ? ", " : "", quote);
    }
}

static size_t place(size_t count, int64_t number)
{
    number += number < 0 ? (int64_t)count : 0;
    return number >= 0 && number < (int64_t)count ? (size_t)number : NO_COLUMN;
}

size_t xsmi_columns_place(const xsmi_reader *r, size_t count, int64_t number, bool label)
{
    const xsm_read_options *o = &r->options;
    int64_t of_labels;
    const size_t whole = all_columns(r);
    if (!xsmi_reader_recalled(r, XSM_RECALLED_LABEL_COLUMN) || o->text_column || count >= whole ||
        !xsmi_columns_is_whole(o->label_column, strlen(o->label_column), &of_labels)) {
        return place(count, number);
    }
    if (label || count < whole - 1) {
        return !label && count != known_features(r) ? place(count, number) : NO_COLUMN;
    }
    const size_t found = place(whole, number), skipped = place(whole, of_labels);
    return found == NO_COLUMN || found < skipped ? found : found - 1; /* the number counts the column of labels */
}

bool xsmi_columns_names_rows(const char *name, size_t length, bool first)
{
    static const char unnamed[] = "Unnamed: 0";
    const size_t size = sizeof unnamed - 1;
    return length == 0
               ? first
               : length >= size && memcmp(name, unnamed, size) == 0 &&
                     strspn(name + size, ".0123456789") >= length - size && (length == size || name[size] == '.');
}

static bool names_rows(const xsmi_record *c, size_t column)
{
    size_t length;
    const char *name = name_of(c, column, &length);
    return xsmi_columns_names_rows(name, length, column == 0);
}

static size_t count_row_names(const xsmi_record *c, const xsmi_columns *k)
{
    size_t found = 0;
    for (size_t i = 0; i < k->count; i++) {
        found += names_rows(c, i);
    }
    return found;
}

/* Whether column `column` is not the one with that number in the class map's table: that table has another number of
 * columns, or this one is a feature. */
static bool is_elsewhere(const xsmi_record *c, const xsmi_columns *k, size_t column)
{
    size_t length;
    if (!c->r->options.text_column && k->count - count_row_names(c, k) != all_columns(c->r)) {
        return true;
    }
    const char *name = name_of(c, column, &length);
    const xsm_class_map *map = &c->r->map;
    for (uint32_t j = 0; j < map->features && map->feature_names; j++) {
        if (is(name, length, map->feature_names[j])) {
            return true;
        }
    }
    return false;
}

/* A column that an option names. */
typedef struct special {
    xsmi_role role;
    int32_t recalled; /* XSM_RECALLED_*, the option's bit: unless it is set, the file must have the column; labels may
                         be missing */
    const char *option, *what;
} special;

/* Finds the column that an option names, by its name or else by its number. NO_COLUMN: there is none. */
static xsm_status find_column(const xsmi_record *c, const xsmi_columns *k, const char *wanted, size_t size,
                              const special *s, size_t *column, xsm_error *err)
{
    int64_t number;
    *column = NO_COLUMN;
    for (size_t i = 0; i < k->count && k->header; i++) {
        size_t length;
        const char *name = name_of(c, i, &length);
        if (length != size || memcmp(name, wanted, size) != 0) {
            continue;
        }
        if (*column != NO_COLUMN) {
            return xsmi_reader_fail(c->r, err, XSM_ERROR_FORMAT, c->fields[i].line, c->fields[i].column,
                                    "a second column '%.*s'; one column of %s is accepted", (int)size, wanted, s->what);
        }
        *column = i;
    }
    if (*column == NO_COLUMN && xsmi_columns_is_whole(wanted, size, &number)) {
        *column = k->header ? place(k->count, number)
                            : xsmi_columns_place(c->r, k->count, number, s->role == XSMI_COLUMN_LABEL);
        if (k->header && xsmi_reader_recalled(c->r, s->recalled) && *column != NO_COLUMN &&
            is_elsewhere(c, k, *column)) {
            *column = NO_COLUMN;
        }
    }
    return XSM_OK;
}

/* Gives the column of an option its role. */
static xsm_status give_role(const xsmi_record *c, xsmi_columns *k, const char *wanted, size_t size, const special *s,
                            xsm_error *err)
{
    size_t column;
    XSMI_TRY(find_column(c, k, wanted, size, s, &column, err));
    if (k->trying && (column == NO_COLUMN || k->roles[column] != XSMI_COLUMN_FEATURE)) {
        return XSM_OK;
    }
    if (column == NO_COLUMN) {
        return s->role == XSMI_COLUMN_LABEL || xsmi_reader_recalled(c->r, s->recalled)
                   ? XSM_OK
                   : xsmi_reader_fail(
                         c->r, err, XSM_ERROR_FORMAT, c->fields[0].line, 1,
                         "no column '%.*s' (xsm_read_options.%s); the columns are %s; by number they are 0 to %zu, "
                         "or -1 to -%zu from the end",
                         (int)size, wanted, s->option, k->found, k->count - 1, k->count);
    }
    const unsigned char role = k->roles[column];
    if (role != XSMI_COLUMN_FEATURE && xsmi_reader_recalled(c->r, s->recalled)) {
        return XSM_OK; /* a column that the caller names keeps its role */
    }
    if (role != XSMI_COLUMN_FEATURE &&
        !xsmi_reader_recalled(c->r, role == XSMI_COLUMN_LABEL    ? XSM_RECALLED_LABEL_COLUMN
                                    : role == XSMI_COLUMN_WEIGHT ? XSM_RECALLED_WEIGHTS_COLUMN
                                                                 : 0)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "%s: the column '%.*s' has another use; another is accepted as xsm_read_options.%s",
                         c->r->source.name, (int)size, wanted, s->option);
    }
    k->roles[column] = (unsigned char)s->role;
    return XSM_OK;
}

/* Leaves out the columns that ignore_columns lists. */
static xsm_status leave_out(const xsmi_record *c, xsmi_columns *k, xsm_error *err)
{
    static const special left_out = {XSMI_COLUMN_LEFT_OUT, XSM_RECALLED_IGNORE_COLUMNS, "ignore_columns", "that name"};
    const char *list = c->r->options.ignore_columns;
    while (list && *list) {
        const size_t length = strcspn(list, ",");
        XSMI_TRY(give_role(c, k, list, length, &left_out, err));
        list += length + (list[length] == ',');
    }
    return XSM_OK;
}

static xsm_status give_roles(const xsmi_record *c, xsmi_columns *k, xsm_error *err)
{
    static const special roles[] = {{XSMI_COLUMN_LABEL, XSM_RECALLED_LABEL_COLUMN, "label_column", "labels"},
                                    {XSMI_COLUMN_WEIGHT, XSM_RECALLED_WEIGHTS_COLUMN, "weights_column", "weights"},
                                    {XSMI_COLUMN_TEXT, 0, "text_column", "text"}};
    const xsm_read_options *o = &c->r->options;
    const char *const wanted[] = {xsmi_reader_label_column(c->r), o->weights_column, o->text_column};
    memset(k->roles, XSMI_COLUMN_FEATURE, k->count);
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        XSMI_TRY(wanted[i] ? give_role(c, k, wanted[i], strlen(wanted[i]), &roles[i], err) : XSM_OK);
    }
    return leave_out(c, k, err);
}

/* -- the header ---------------------------------------------------------------------------------------------------- */

/* Whether the fields rise by equal steps, as 0, 1, 2, ...: either names that a program made up, or data. */
static bool counts_up(const xsmi_record *c, const xsmi_columns *k)
{
    int64_t before = 0, step = 0;
    size_t found = 0;
    for (size_t i = 0; i < k->count; i++) {
        size_t length;
        const char *text = name_of(c, i, &length);
        int64_t number;
        const bool whole = xsmi_columns_is_whole(text, length, &number);
        if ((k->roles[i] != XSMI_COLUMN_FEATURE && !whole) || (i == 0 && length == 0)) {
            continue;
        }
        if (!whole || (found > 0 && number <= before) || (found > 1 && number - before != step)) {
            return false;
        }
        step = number - before;
        before = number;
        found++;
    }
    return found > 2;
}

/* Whether the first record has all names of the class map's features. */
static bool has_all_names(const xsmi_record *c, const xsmi_columns *k)
{
    const xsm_class_map *map = &c->r->map;
    for (uint32_t j = 0; j < map->features && map->feature_names; j++) {
        size_t i = 0, length;
        for (const char *name; i < k->count; i++) {
            name = name_of(c, i, &length);
            if (is(name, length, map->feature_names[j])) {
                break;
            }
        }
        if (i == k->count) {
            return false;
        }
    }
    return map->feature_names && map->features > 0;
}

/* Whether a name that the options or the class map have is in the first record. */
static bool has_wanted_name(const xsmi_record *c, const xsmi_columns *k)
{
    const xsmi_reader *r = c->r;
    const char *wanted[] = {xsmi_reader_label_column(r), r->options.weights_column, r->options.text_column,
                            r->map.feature_names ? r->map.feature_names[0] : NULL};
    for (size_t i = 0; i < k->count; i++) {
        size_t length;
        int64_t number;
        const char *text = name_of(c, i, &length);
        for (size_t j = 0; j < sizeof wanted / sizeof *wanted; j++) {
            if (wanted[j] && is(text, length, wanted[j]) && !xsmi_columns_is_whole(text, length, &number)) {
                return true;
            }
        }
    }
    return false;
}

/* Whether the name of the label column, which may be a number, is in the first record. */
static bool has_wanted_number(const xsmi_record *c, const xsmi_columns *k)
{
    const char *label = xsmi_reader_label_column(c->r);
    for (size_t i = 0; i < k->count; i++) {
        size_t length;
        const char *text = name_of(c, i, &length);
        if (is(text, length, label)) {
            return true;
        }
    }
    return false;
}

static xsm_status ask_for_header(const xsmi_record *c, const xsmi_columns *k, xsm_error *err)
{
    return xsmi_reader_fail(c->r, err, XSM_ERROR_FORMAT, c->fields[0].line, 1,
                            "names of columns or a row? %s; set xsm_read_options.header", k->found);
}

/* Decides whether the first record has names, where the options leave it open. */
static xsm_status decide_header(const xsmi_record *c, xsmi_columns *k, xsm_error *err)
{
    size_t fields = 0, words = 0, numbers = 0;
    k->header = true;
    if (has_wanted_name(c, k) || has_all_names(c, k)) {
        return XSM_OK;
    }
    k->header = false; /* columns are found by their numbers */
    k->trying = true;
    XSMI_TRY(give_roles(c, k, err));
    k->trying = false;
    for (size_t i = 0; i < k->count; i++) {
        size_t length;
        const char *text = name_of(c, i, &length);
        const bool number = xsmi_columns_is_number(text, length);
        fields += k->roles[i] == XSMI_COLUMN_FEATURE;
        words += k->roles[i] == XSMI_COLUMN_FEATURE && !number;
        numbers += k->roles[i] == XSMI_COLUMN_FEATURE && number && !xsmi_columns_is_missing(text, length);
    }
    const bool may_be_row = c->r->has_map || memchr(k->roles, XSMI_COLUMN_LABEL, k->count);
    if (c->r->options.text_column || (may_be_row && words > 0 && numbers > 0)) {
        return ask_for_header(c, k, err); /* a row of words looks like names */
    }
    k->header = words > 0 || (counts_up(c, k) && has_wanted_number(c, k));
    if (!k->header && (fields == 0 || counts_up(c, k))) {
        return ask_for_header(c, k, err);
    }
    k->reason = !k->header  ? "its features are numbers"
                : words > 0 ? "its fields are words"
                            : "its fields count up, and the labels' is among them";
    return XSM_OK;
}

/* -- what is there ------------------------------------------------------------------------------------------------- */

static void find_row_names(const xsmi_record *c, xsmi_columns *k)
{
    for (size_t i = 0; i < k->count && k->header && k->count > 1; i++) {
        char quote[XSMI_QUOTE_SIZE];
        size_t length;
        const char *name = name_of(c, i, &length);
        if (k->roles[i] == XSMI_COLUMN_FEATURE && names_rows(c, i)) {
            k->roles[i] = XSMI_COLUMN_ROW;
            xsmi_log(c->r->context, XSM_LOG_WARNING,
                     "%s: the %scolumn, %s, is left out, for it numbers or names the rows", c->r->source.name,
                     i == 0 ? "first " : "", length == 0 ? "which has no name" : xsmi_quote(quote, name, length));
        }
    }
}

/* Leaves out all other columns if there is a column of text, whose words are the features. */
static void leave_others_out(const xsmi_record *c, xsmi_columns *k)
{
    size_t left = 0, first = 0;
    for (size_t i = k->count; i-- > 0;) {
        if (k->roles[i] == XSMI_COLUMN_FEATURE) {
            k->roles[i] = XSMI_COLUMN_LEFT_OUT;
            first = i;
            left++;
        }
    }
    if (left > 0) {
        size_t length;
        char quote[XSMI_QUOTE_SIZE];
        const char *name = name_of(c, first, &length);
        xsmi_log(c->r->context, XSM_LOG_WARNING,
                 "%s: columns besides text and labels are left out: %zu, the first is %s", c->r->source.name, left,
                 xsmi_quote(quote, name, length));
    }
}

bool xsmi_columns_is_name(const xsmi_record *c, const xsmi_columns *k, const xsmi_field *f)
{
    const char *text = c->text + f->start;
    size_t length = f->length;
    if (!f->quoted) {
        xsmi_columns_trim(&text, &length);
    }
    for (size_t i = 0; i < k->count; i++) {
        if (c->fields[i].length == length && memcmp(k->head + c->fields[i].start, text, length) == 0) {
            return true;
        }
    }
    return false;
}

/* Keeps the text of all names, to recognise a repeated first line. */
static xsm_status keep_head(xsmi_record *c, xsmi_columns *k, xsm_error *err)
{
    const size_t size = c->length + 1;
    XSMI_TRY(XSMI_GROW(c->r->context, k->head, k->head_capacity, size, "the names of columns", err));
    memcpy(k->head, c->text, c->length);
    for (size_t i = 0; i < k->count; i++) {
        const char *name = name_of(c, i, &c->fields[i].length);
        c->fields[i].start = (size_t)(name - c->text);
    }
    return XSM_OK;
}

/* Warns of equal names: a program that looks for one of them may find the other. */
static xsm_status tell_equal_names(const xsmi_record *c, const xsmi_columns *k, xsm_error *err)
{
    xsmi_dictionary seen;
    xsm_status status = XSM_OK;
    uint32_t id;
    const char *first = NULL;
    size_t equal = 0;
    xsmi_dictionary_start(&seen, c->r->context, true);
    for (size_t at = 0; status == XSM_OK && at < k->text_size; at += strlen(k->text + at) + 1) {
        const char *name = k->text + at;
        const uint32_t before = seen.count;
        status = xsmi_dictionary_word(&seen, name, strlen(name), &id, err);
        equal += status == XSM_OK && id < before;
        first = equal == 1 && !first ? name : first;
    }
    xsmi_dictionary_end(&seen);
    if (status == XSM_OK && equal > 0) {
        char quote[XSMI_QUOTE_SIZE];
        xsmi_log(c->r->context, XSM_LOG_WARNING,
                 "%s: columns with a name that another has: %zu, the first is %s; they are told apart by their order "
                 "alone",
                 c->r->source.name, equal, xsmi_quote(quote, first, strlen(first)));
    }
    return status;
}

static xsm_status keep_names(const xsmi_record *c, xsmi_columns *k, xsm_error *err)
{
    for (size_t i = 0; i < k->count; i++) {
        size_t length;
        const char *name = name_of(c, i, &length);
        if (k->roles[i] != XSMI_COLUMN_FEATURE) {
            continue;
        }
        k->features++;
        if (!k->header) {
            continue;
        }
        XSMI_TRY(xsmi_reader_text(c->r, c->fields[i].line, c->fields[i].column + (c->fields[i].quoted ? 1 : 0),
                                  " in the name of a column", &name, &length, err));
        XSMI_TRY(XSMI_GROW(c->r->context, k->text, k->text_capacity, k->text_size + length + 1, "the names of columns",
                           err));
        memcpy(k->text + k->text_size, name, length);
        k->text_size += length;
        k->text[k->text_size++] = '\0';
    }
    return k->header && !c->r->has_map ? tell_equal_names(c, k, err) : XSM_OK;
}

/* Whether the rows may be without labels: they are read against a class map, with its columns. */
static bool may_lack_labels(const xsmi_record *c, const xsmi_columns *k)
{
    const xsmi_reader *r = c->r;
    return r->has_map &&
           (r->options.text_column || (k->header && r->map.feature_names) || k->features == known_features(r));
}

static xsm_status check_labels(const xsmi_record *c, const xsmi_columns *k, xsm_error *err)
{
    const char *wanted = xsmi_reader_label_column(c->r);
    const uint64_t line = c->fields[0].line;
    if (memchr(k->roles, XSMI_COLUMN_LABEL, k->count) || may_lack_labels(c, k)) {
        return XSM_OK;
    }
    if (c->r->has_map) {
        return xsmi_reader_fail(c->r, err, XSM_ERROR_FORMAT, line, 1,
                                "no column '%s' (xsm_read_options.label_column), and the class map has %u features, "
                                "the file %zu column%s: %s",
                                wanted, (unsigned)known_features(c->r), k->count, k->count == 1 ? "" : "s", k->found);
    }
    if (k->header) {
        return xsmi_reader_fail(c->r, err, XSM_ERROR_FORMAT, line, 1,
                                "no column '%s'; the columns, with %s between, are %s; name the label's with "
                                "xsm_read_options.label_column, or number it, 0 to %zu or -1 to -%zu; if this line is "
                                "a row: xsm_read_options.header = "
                                "XSM_HEADER_NO, and %s",
                                wanted, between(c->separator), k->found, k->count - 1, k->count,
                                k->count == 2 ? "xsm_read_options.label_column 0 xsm_read_options.text_column 1 for a "
                                                "label and text"
                                              : "a number as xsm_read_options.label_column");
    }
    return xsmi_reader_fail(c->r, err, XSM_ERROR_FORMAT, line, 1,
                            "no column '%s'; without a header line columns have numbers, from 0 to %zu, or from -1 "
                            "at the end: give the label's as xsm_read_options.label_column; the first row is %s",
                            wanted, k->count - 1, k->found);
}

/* Forgets the class map's column of weights if these rows lack it or have weights in a file. */
static void forget_weights(const xsmi_record *c, const xsmi_columns *k)
{
    xsmi_reader *r = c->r;
    unsigned char *const found = memchr(k->roles, XSMI_COLUMN_WEIGHT, k->count);
    if (!r->options.weights_column || (found && !r->options.weights_path)) {
        return;
    }
    if (found) {
        *found = XSMI_COLUMN_LEFT_OUT;
    } else if (!r->options.weights_path && memchr(k->roles, XSMI_COLUMN_LABEL, k->count)) {
        xsmi_log(r->context, XSM_LOG_WARNING,
                 "%s: no column '%s' of weights, as the rows of the class map had; each row has the weight 1 "
                 "(xsm_read_options.weights_column)",
                 r->source.name, r->options.weights_column);
    }
    xsmi_reader_forget_weights(r);
}

static void tell_header(const xsmi_record *c, const xsmi_columns *k)
{
    xsmi_log(c->r->context, XSM_LOG_WARNING, "%s: line %llu is read as %s, for %s (xsm_read_options.header)",
             c->r->source.name, (unsigned long long)c->fields[0].line,
             k->header ? "names of columns, not as a row" : "a row, not as names of columns", k->reason);
}

xsm_status xsmi_columns_find(xsmi_record *c, xsmi_columns *k, xsm_error *err)
{
    const xsm_read_options *o = &c->r->options;
    k->count = c->count;
    XSMI_TRY(XSMI_GROW(c->r->context, k->roles, k->capacity, k->count, "the columns of a table", err));
    list_names(c, k);
    k->header = o->header == XSM_HEADER_YES;
    XSMI_TRY(o->header == XSM_HEADER_AUTO ? decide_header(c, k, err) : XSM_OK);
    XSMI_TRY(give_roles(c, k, err));
    forget_weights(c, k);
    find_row_names(c, k);
    if (o->text_column) {
        leave_others_out(c, k);
    }
    XSMI_TRY(keep_names(c, k, err));
    XSMI_TRY(k->header ? keep_head(c, k, err) : XSM_OK);
    XSMI_TRY(check_labels(c, k, err));
    if (k->features == 0 && !o->text_column) {
        return xsmi_reader_fail(c->r, err, XSM_ERROR_FORMAT, c->fields[0].line, 1,
                                "no column beside %s; at least one column of features is needed (separated by %s)",
                                k->found, between(c->separator));
    }
    if (k->reason) {
        tell_header(c, k);
    }
    return XSM_OK;
}

/* Returns what is accepted in place of a field that is not a number; its first `read` bytes are one. */
static const char *advice_on(const char *text, size_t length, size_t read)
{
    return xsmi_columns_is_number(text, length)
               ? "missing values are not read: fill them in, or leave out the row, or the column "
                 "(xsm_read_options.ignore_columns)"
           : read > 0 && read + strspn(text + read, "0123456789.,-/:%' ") >= length
               ? "a number has a decimal point, nothing between thousands and nothing behind it, as 1234.5; a date or "
                 "a "
                 "share needs a number, or is left out (xsm_read_options.ignore_columns)"
               : "a column of words is that of labels (xsm_read_options.label_column), of text "
                 "(xsm_read_options.text_column), or left out (xsm_read_options.ignore_columns); categories are "
                 "read as columns of 0 and 1, one each, as pandas.get_dummies() makes them";
}

xsm_status xsmi_columns_fail(const xsmi_record *c, const xsmi_columns *k, size_t column, const xsmi_field *f,
                             const char *at, const char *expected, xsm_error *err)
{
    char quote[XSMI_QUOTE_SIZE], found[XSMI_QUOTE_SIZE] = "an empty field", number[24];
    const char *const start = c->text + f->start, *end = start + f->length;
    const char *name = k->text;
    for (size_t i = 0; i < column && k->header; i++) {
        if (k->roles[i] == XSMI_COLUMN_FEATURE) { /* else there may be no names */
            name += strlen(name) + 1;
        }
    }
    if (at < end) {
        xsmi_quote(found, at, (size_t)(end - at));
    }
    snprintf(number, sizeof number, "%zu", column);
    return xsmi_reader_fail(
        c->r, err, XSM_ERROR_FORMAT, f->line, f->column + (uint64_t)(at - start) + (f->quoted ? 1 : 0),
        "%s, found %s in the column %s; %s", expected, found,
        k->header && k->roles[column] == XSMI_COLUMN_FEATURE ? xsmi_quote(quote, name, strlen(name)) : number,
        advice_on(start, f->length, (size_t)(at - start)));
}

void xsmi_columns_end(xsmi_columns *k, xsm_context *ctx)
{
    xsmi_release(ctx, k->roles, k->capacity, 1);
    xsmi_release(ctx, k->text, k->text_capacity, 1);
    xsmi_release(ctx, k->head, k->head_capacity, 1);
}
