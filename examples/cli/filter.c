/* The filters of predict: --allow, --deny, --exclude and --threshold. */
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const cli_exclude_words[] = {"nothing", "known", NULL};

/* A class by its name. */
typedef struct named {
    const char *name;
    uint32_t class;
} named;

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const named *)a)->name, ((const named *)b)->name);
}

/* A class by the number that its name is. */
typedef struct numbered {
    double number;
    uint32_t class;
} numbered;

static int compare_numbers(const void *a, const void *b)
{
    const numbered *x = a, *y = b;
    return x->number != y->number ? (x->number > y->number) - (x->number < y->number)
                                  : (x->class > y->class) - (x->class < y->class);
}

/* Whether a text may be a number; xsm_class_map_find() says which texts are the same one. */
static int number_of(const char *text, double *number)
{
    char *end;
    *number = strtod(text, &end);
    return *end == '\0' && end != text && isfinite(*number);
}

/* The classes of a model, to be found by what the data calls them. */
typedef struct lookup {
    xsm_class_map map;
    named *names;      /* [classes] sorted, if classes have names */
    numbered *numbers; /* [number_count] sorted: names that are numbers */
    size_t number_count;
} lookup;

static int make_lookup(const xsm_model *model, lookup *l)
{
    xsm_error err = XSM_ERROR_INIT;
    l->map = (xsm_class_map)XSM_CLASS_MAP_INIT;
    if (xsm_model_get_class_map(model, &l->map, &err) != XSM_OK) {
        return cli_library_failed(&err);
    }
    if (l->map.names) {
        l->names = malloc(l->map.classes * sizeof *l->names);
        l->numbers = malloc(l->map.classes * sizeof *l->numbers);
        if (!l->names || !l->numbers) {
            return cli_fail("out of memory");
        }
        for (uint32_t k = 0; k < l->map.classes; k++) {
            double number;
            l->names[k] = (named){l->map.names[k], k};
            if (number_of(l->map.names[k], &number)) {
                l->numbers[l->number_count++] = (numbered){number, k};
            }
        }
        qsort(l->names, l->map.classes, sizeof *l->names, compare_names);
        qsort(l->numbers, l->number_count, sizeof *l->numbers, compare_numbers);
    }
    return CLI_GO_ON;
}

/* Classes that the data calls so. */
typedef struct found {
    size_t count;
    const named *names; /* [count], or NULL: `class` alone */
    uint32_t class;
} found;

static found find_name(const lookup *l, const char *text)
{
    size_t low = 0, high = l->map.classes;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(l->names[middle].name, text) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (; high < l->map.classes && strcmp(l->names[high].name, text) == 0; high++) {
    }
    return (found){high - low, l->names + low, XSM_NO_CLASS};
}

/* The first class whose name is the same whole number, as 24 is 24.0. */
static found find_number(const lookup *l, const char *text)
{
    double number;
    size_t low = 0, high = number_of(text, &number) ? l->number_count : 0;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (l->numbers[middle].number < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (; low < l->number_count && l->numbers[low].number == number; low++) {
        xsm_class_map one = XSM_CLASS_MAP_INIT;
        one.classes = 1;
        one.names = l->map.names + l->numbers[low].class;
        if (!l->map.labels && xsm_class_map_find(&one, text) != XSM_NO_CLASS) {
            return (found){1, NULL, l->numbers[low].class};
        }
    }
    return (found){0, NULL, XSM_NO_CLASS};
}

/* The classes that the data calls so. 0 if it is no label at all. */
static int find_classes(const lookup *l, const char *text, found *f)
{
    if (l->names) {
        *f = find_name(l, text);
        *f = f->count > 0 ? *f : find_number(l, text);
        return 1;
    }
    char *end;
    errno = 0;
    *f = (found){0, NULL, XSM_NO_CLASS};
    (void)strtoll(text, &end, 10);
    if (errno || end == text || *end) {
        return 0;
    }
    const uint32_t class = xsm_class_map_find(&l->map, text);
    if (class != XSM_NO_CLASS) {
        *f = (found){1, NULL, class};
    }
    return 1;
}

/* Classes that a file lists. */
typedef struct classes {
    uint32_t *list;
    size_t count, room, unknown;
    char *first; /* of the unknown ones, as messages name them, or NULL */
} classes;

/* Unknown labels that messages name. */
enum { NAMED = 3 };

/* Counts a label that is not the model's, and keeps it for messages if it is one of the first. */
static void note_unknown(classes *c, const char *text)
{
    if (c->unknown++ < NAMED) {
        char *longer = cli_format("%s%s'%.40s'", c->first ? c->first : "", c->first ? ", " : "", text);
        free(c->first);
        c->first = longer;
    }
}

static int add_classes(classes *c, const found *f)
{
    if (c->count + f->count > c->room) {
        const size_t room = 2 * c->room + 256 + f->count;
        uint32_t *list = realloc(c->list, room * sizeof *list);
        if (!list) {
            return 0;
        }
        c->list = list;
        c->room = room;
    }
    for (size_t i = 0; i < f->count; i++) {
        c->list[c->count++] = f->names ? f->names[i].class : f->class;
    }
    return 1;
}

/* The text of a line without its end, or of the first one without a byte order mark; *length is its length. */
static char *text_of(char *line, ssize_t *length, size_t number)
{
    static const char mark[] = "\xEF\xBB\xBF";
    while (*length > 0 && (line[*length - 1] == '\n' || line[*length - 1] == '\r')) {
        line[--*length] = '\0';
    }
    if (number == 1 && strncmp(line, mark, sizeof mark - 1) == 0) {
        line += sizeof mark - 1;
        *length -= (ssize_t)sizeof mark - 1;
    }
    return line;
}

/* A label as it is there, or else without the blanks around it. */
static int find_trimmed(const lookup *l, char *text, ssize_t length, found *f)
{
    if (find_classes(l, text, f) && f->count > 0) {
        return 1;
    }
    while (length > 0 && strchr(" \t", text[length - 1])) {
        text[--length] = '\0';
    }
    return find_classes(l, text + strspn(text, " \t"), f);
}

/* Reads a label or name a line. */
static int read_lines(FILE *file, const char *path, const lookup *l, classes *c)
{
    char *line = NULL;
    size_t room = 0, number = 0;
    int code = CLI_GO_ON;
    for (ssize_t length; code == CLI_GO_ON && (length = getline(&line, &room, file)) >= 0;) {
        found f;
        char *text = text_of(line, &length, ++number);
        if (number == 1 && strncmp(text, "\x1f\x8b", 2) == 0) {
            code = cli_fail("%s: is compressed; a list of labels is plain text", path);
        } else if (text[strspn(text, " \t")] == '\0') {
            continue;
        } else if (!find_trimmed(l, text, length, &f)) {
            code = cli_fail("%s, line %zu: '%.40s' is no label; a whole number is, as in the data", path, number, text);
        } else if (f.count == 0) {
            note_unknown(c, text);
        } else if (!add_classes(c, &f)) {
            code = cli_fail("out of memory");
        }
    }
    free(line);
    return code == CLI_GO_ON && ferror(file) ? cli_fail("%s: %s", path, strerror(errno)) : code;
}

/* Says which labels are not the model's. */
static void say_unknown(const classes *c, const char *path)
{
    cli_buffer a, b;
    fprintf(cli_messages(), "xsoftmax: %s: %s of %s labels are not the model's: %s%s\n", path,
            cli_grouped(c->unknown, &a), cli_grouped(c->unknown + c->count, &b), c->first,
            c->unknown > NAMED ? ", ..." : "");
}

/* `may_be_empty`: a list of nothing is one. */
static int read_classes(const char *path, const lookup *l, classes *c, int may_be_empty)
{
    FILE *file = fopen(path, "r");
    if (!file) {
        return cli_fail("%s: %s", path, strerror(errno));
    }
    const int code = read_lines(file, path, l, c);
    fclose(file);
    if (code != CLI_GO_ON) {
        return code;
    }
    if (c->count == 0 && c->unknown > 0) {
        return cli_fail(
            "%s: no label in it is one of the model's: %s%s; a line has a label, or a name if the model has "
            "names",
            path, c->first, c->unknown > NAMED ? ", ..." : "");
    }
    if (c->count == 0 && may_be_empty) {
        fprintf(cli_messages(), "xsoftmax: note: %s: there is no label in it, so nothing is denied\n", path);
        return CLI_GO_ON;
    }
    if (c->count == 0) {
        return cli_fail("%s: there is no label in it; a line has a label, or a name if the model has names", path);
    }
    if (c->unknown > 0) {
        say_unknown(c, path);
    }
    return CLI_GO_ON;
}

/* Gives all ranks the classes that rank 0 has read, if all are well. */
static int share_classes(classes *c, int code)
{
    uint64_t count = c->count;
    code = cli_agree(code);
    code = code == CLI_GO_ON ? cli_share(&count, sizeof count) : code;
    if (code != CLI_GO_ON || count == 0) {
        return code;
    }
    if (!cli_leads()) {
        c->list = calloc(count, sizeof *c->list);
        c->count = count;
    }
    code = cli_agree(c->list ? CLI_GO_ON : cli_fail("out of memory"));
    return code == CLI_GO_ON ? cli_share(c->list, count * sizeof *c->list) : code;
}

/* The classes of a file, which rank 0 reads; NULL: of none. */
static int get_classes(const char *path, const lookup *l, classes *c, int may_be_empty, int code)
{
    code = code == CLI_GO_ON && path && cli_leads() ? read_classes(path, l, c, may_be_empty) : code;
    return cli_group ? share_classes(c, code) : code;
}

int cli_filter_make(xsm_context *context, cli_filter *f, const xsm_model *model)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_filter_classes wanted = XSM_FILTER_CLASSES_INIT;
    classes allow = {NULL, 0, 0, 0, NULL}, deny = {NULL, 0, 0, 0, NULL};
    lookup l = {.names = NULL};
    if (!f->allow && !f->deny) {
        return CLI_GO_ON;
    }
    int code = get_classes(f->allow, &l, &allow, 0, make_lookup(model, &l));
    code = get_classes(f->deny, &l, &deny, 1, code);
    wanted.classes = l.map.classes;
    wanted.allow = allow.list;
    wanted.allow_count = allow.count;
    wanted.deny = deny.list;
    wanted.deny_count = deny.count;
    const int any = allow.count + deny.count > 0;
    if (code == CLI_GO_ON && any && xsm_filter_new(context, &wanted, &f->filter, &err) != XSM_OK) {
        code = cli_library_failed(&err);
    }
    if (code == CLI_GO_ON && any && xsm_filter_left(f->filter) == 0) {
        code = cli_fail("--allow and --deny leave no class");
    }
    free(l.names);
    free(l.numbers);
    free(allow.list);
    free(allow.first);
    free(deny.list);
    free(deny.first);
    return code;
}

void cli_filter_free(cli_filter *f)
{
    xsm_filter_free(f->filter);
}
