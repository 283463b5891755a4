/* Options by name. */
#include "base/option.h"

#include "base/order.h"
#include "base/base.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const xsm_option *xsmi_option_at(const xsmi_option_table *table, size_t index)
{
    return index < table->count
               ? (const xsm_option *)(const void *)((const char *)table->options + index * table->options->size)
               : NULL;
}

const xsm_option *xsmi_option_find(const xsmi_option_table *table, const char *name)
{
    for (size_t i = 0; i < table->count; i++) {
        const xsm_option *option = xsmi_option_at(table, i);
        if (strcmp(option->name, name) == 0) {
            return option;
        }
    }
    return NULL;
}

/* -- numbers ------------------------------------------------------------------------------------------------------ */

bool xsmi_parse_double(const char *text, double *value)
{
    /* strtod() reads the decimal sign of the current locale, so that the point is replaced by it. Hexadecimal numbers,
     * names and leading blanks are refused. */
    size_t length = strlen(text);
    char copy[512];
    if (length == 0 || length >= sizeof copy - 8 || strspn(text, "0123456789+-.eE") != length) {
        return false;
    }
    const char *sign = xsmi_decimal_sign();
    const char *point = strchr(text, '.');
    if (point && strlen(sign) < 8) {
        size_t before = (size_t)(point - text);
        snprintf(copy, sizeof copy, "%.*s%s%s", (int)before, text, sign, point + 1);
    } else {
        memcpy(copy, text, length + 1);
    }
    char *end;
    double result = strtod(copy, &end);
    if (*end != '\0' || end == copy || !isfinite(result)) {
        return false;
    }
    *value = result;
    return true;
}

bool xsmi_parse_int(const char *text, int64_t *value)
{
    char *end;
    if (*text == '\0' || strspn(text, "0123456789+-") != strlen(text)) {
        return false;
    }
    int saved = errno;
    errno = 0;
    intmax_t result = strtoimax(text, &end, 10);
    bool fits = errno == 0;
    errno = saved;
    if (*end != '\0' || !fits || result < INT64_MIN || result > INT64_MAX) {
        return false;
    }
    *value = (int64_t)result;
    return true;
}

bool xsmi_whole_number(const char *word, size_t length, int64_t *number)
{
    static const char digits[] = "0123456789";
    const size_t sign = length > 0 && word[0] == '-', whole = strspn(word + sign, digits), point = sign + whole;
    const size_t fraction = point < length && word[point] == '.' ? strspn(word + point + 1, digits) : 0;
    size_t end = point < length && word[point] == '.' ? point + 1 + fraction : point, kept = whole;
    if (end > point && end + 2 < length && (word[end] | 0x20) == 'e' &&
        (word[end + 1] == '+' || word[end + 1] == '-')) {
        const size_t count = strspn(word + end + 2, digits), tens = count == 2 ? strtoul(word + end + 2, NULL, 10) : 20;
        kept = word[end + 1] == '+' ? kept + tens : tens > 0 ? 0 : kept; /* 10.0e-01 is nobody's 1 */
        end += 2 + count;
    }
    if (end != length || whole == 0 || kept > 19 || (word[sign] == '0' && whole + sign > 1)) {
        return false; /* 01, -0 and +1 are other labels than 1 and 0 */
    }
    uint64_t n = 0;
    for (size_t i = 0; i < whole + fraction || i < kept; i++) {
        const char c = i < whole ? word[sign + i] : i < whole + fraction ? word[sign + i + 1] : '0';
        const uint64_t digit = (uint64_t)(c - '0');
        if (i >= kept ? digit > 0 : __builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, digit, &n)) {
            return false;
        }
    }
    *number = sign ? (int64_t)(0 - n) : (int64_t)n;
    return n <= (uint64_t)INT64_MAX + sign;
}

static size_t print_double(double value, char *buffer, size_t size)
{
    return xsmi_print_double(value, 0, buffer, size);
}

size_t xsmi_print_double(double value, int digits, char *buffer, size_t size)
{
    char text[64];
    for (int n = digits > 0 ? digits : 6; n <= 17; n++) {
        snprintf(text, sizeof text, "%.*g", n, value);
        if (digits > 0 || strtod(text, NULL) == value) {
            break;
        }
    }
    const char *sign = xsmi_decimal_sign();
    char *found = *sign ? strstr(text, sign) : NULL;
    if (found && strcmp(sign, ".") != 0) {
        *found = '.';
        memmove(found + 1, found + strlen(sign), strlen(found + strlen(sign)) + 1);
    }
    return (size_t)snprintf(buffer, size, "%s", text);
}

/* -- names --------------------------------------------------------------------------------------------------------- */

/* Edit distance with transpositions, for short words; SIZE_MAX for words too long to be names. */
static size_t distance(const char *a, const char *b)
{
    enum { LONGEST = 63 };
    size_t n = strlen(a), m = strlen(b);
    if (n > LONGEST || m > LONGEST) {
        return SIZE_MAX;
    }
    size_t rows[3][LONGEST + 1];
    size_t *before = rows[0], *last = rows[1], *now = rows[2];
    for (size_t j = 0; j <= m; j++) {
        before[j] = last[j] = j;
    }
    for (size_t i = 1; i <= n; i++) {
        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = last[j - 1] + (a[i - 1] != b[j - 1]);
            best = XSMI_MIN(last[j] + 1, best);
            best = XSMI_MIN(now[j - 1] + 1, best);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best) {
                best = before[j - 2] + 1;
            }
            now[j] = best;
        }
        size_t *spent = before;
        before = last;
        last = now;
        now = spent;
    }
    return last[m];
}

const char *xsmi_nearest(const char *name, const void *list, size_t count, const char *(*name_at)(const void *, size_t))
{
    const char *nearest = NULL;
    size_t least = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        const char *candidate = name_at(list, i);
        size_t d = distance(name, candidate);
        if (d < least) {
            least = d;
            nearest = candidate;
        }
    }
    size_t length = strlen(name);
    return least <= (length < 4 ? 1 : length / 2) ? nearest : NULL;
}

/* -- values -------------------------------------------------------------------------------------------------------- */

static const char *choice_list(const xsm_option *option, char *buffer, size_t size)
{
    size_t used = 0;
    buffer[0] = '\0';
    for (size_t i = 0; option->choices[i]; i++) {
        int added = snprintf(buffer + used, size - used, "%s%s", i ? ", " : "", option->choices[i]);
        if (added < 0 || (size_t)added >= size - used) {
            break;
        }
        used += (size_t)added;
    }
    return buffer;
}

static xsm_status out_of_range(const xsm_option *option, double value, xsm_error *err)
{
    char low[32], high[32], given[32];
    print_double(option->minimum, low, sizeof low);
    print_double(option->maximum, high, sizeof high);
    print_double(value, given, sizeof given);
    return xsmi_fail(err, XSM_ERROR_RANGE, "option '%s' is %s; accepted is %s to %s", option->name, given, low, high);
}

static void *field(const xsm_option *option, void *values)
{
    return (char *)values + option->offset;
}

xsm_status xsmi_option_set_int(const xsm_option *option, void *values, int64_t value, xsm_error *err)
{
    if (option->type == XSM_OPTION_DOUBLE) {
        return xsmi_option_set_double(option, values, (double)value, err);
    }
    if (option->type == XSM_OPTION_CLASSES) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "option '%s' takes a list of classes", option->name);
    }
    if (option->type == XSM_OPTION_CHOICE) {
        char list[256];
        return xsmi_fail(err, XSM_ERROR_FORMAT, "option '%s' takes a word: %s", option->name,
                         choice_list(option, list, sizeof list));
    }
    if (option->type == XSM_OPTION_BOOL) {
        if (value != 0 && value != 1) {
            return xsmi_fail(err, XSM_ERROR_RANGE, "option '%s' takes yes or no (1 or 0)", option->name);
        }
        int32_t truth = (int32_t)value;
        memcpy(field(option, values), &truth, sizeof truth);
        return XSM_OK;
    }
    if ((double)value < option->minimum || (double)value > option->maximum) {
        return out_of_range(option, (double)value, err);
    }
    memcpy(field(option, values), &value, sizeof value);
    return XSM_OK;
}

xsm_status xsmi_option_set_double(const xsm_option *option, void *values, double value, xsm_error *err)
{
    if (option->type == XSM_OPTION_DOUBLE) {
        if (!(value >= option->minimum && value <= option->maximum)) {
            return out_of_range(option, value, err);
        }
        memcpy(field(option, values), &value, sizeof value);
        return XSM_OK;
    }
    if (!(value >= -9007199254740992.0 && value <= 9007199254740992.0) || value != floor(value)) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "option '%s' takes a whole number", option->name);
    }
    return xsmi_option_set_int(option, values, (int64_t)value, err);
}

xsm_status xsmi_option_set_text(const xsm_option *option, void *values, const char *value, xsm_error *err)
{
    double number;
    int64_t whole;
    char list[256];
    switch (option->type) {
    case XSM_OPTION_DOUBLE:
        if (!xsmi_parse_double(value, &number)) {
            return xsmi_fail(err, XSM_ERROR_FORMAT, "option '%s' is '%.80s'; a number is needed", option->name, value);
        }
        return xsmi_option_set_double(option, values, number, err);
    case XSM_OPTION_INT:
        for (int64_t i = 0; option->choices && option->choices[i]; i++) {
            if (strcmp(option->choices[i], value) == 0) {
                whole = -1 - i;
                memcpy(field(option, values), &whole, sizeof whole);
                return XSM_OK;
            }
        }
        if (!xsmi_parse_int(value, &whole)) {
            return xsmi_fail(err, XSM_ERROR_FORMAT, "option '%s' is '%.80s'; a whole number%s%s is needed",
                             option->name, value, option->choices ? " or one of the words " : "",
                             option->choices ? choice_list(option, list, sizeof list) : "");
        }
        return xsmi_option_set_int(option, values, whole, err);
    case XSM_OPTION_BOOL: {
        bool yes = strcmp(value, "yes") == 0;
        if (!yes && strcmp(value, "no") != 0) {
            return xsmi_fail(err, XSM_ERROR_FORMAT, "option '%s' is '%.80s'; accepted is yes or no", option->name,
                             value);
        }
        return xsmi_option_set_int(option, values, yes, err);
    }
    case XSM_OPTION_CLASSES:
        /* The memory of a list belongs to the object that has the option, so that only an empty list can be set
         * here. */
        if (*value != '\0') {
            return xsmi_fail(err, XSM_ERROR_FORMAT, "option '%s' is a list of classes, whose default must be empty",
                             option->name);
        }
        memset(field(option, values), 0, sizeof(xsm_class_list));
        return XSM_OK;
    default:
        for (int32_t i = 0; option->choices[i]; i++) {
            if (strcmp(option->choices[i], value) == 0) {
                memcpy(field(option, values), &i, sizeof i);
                return XSM_OK;
            }
        }
        return xsmi_fail(err, XSM_ERROR_FORMAT, "option '%s' is '%.80s'; accepted is one of %s", option->name, value,
                         choice_list(option, list, sizeof list));
    }
}

static size_t print_classes(const xsm_class_list *list, char *buffer, size_t size)
{
    size_t length = 0;
    if (size > 0) {
        buffer[0] = '\0';
    }
    for (size_t i = 0; i < list->count; i++) {
        char text[16];
        size_t more = (size_t)snprintf(text, sizeof text, "%s%" PRIu32, i ? "," : "", list->classes[i]);
        for (size_t j = 0; j <= more && length + j < size; j++) {
            buffer[length + j] = length + j + 1 < size ? text[j] : '\0';
        }
        length += more;
    }
    return length;
}

size_t xsmi_option_print(const xsm_option *option, const void *values, char *buffer, size_t size)
{
    const void *from = (const char *)values + option->offset;
    double number;
    int64_t whole;
    int32_t small;
    switch (option->type) {
    case XSM_OPTION_DOUBLE:
        memcpy(&number, from, sizeof number);
        return print_double(number, buffer, size);
    case XSM_OPTION_INT:
        memcpy(&whole, from, sizeof whole);
        if (option->choices && whole < 0) {
            return (size_t)snprintf(buffer, size, "%s", option->choices[-1 - whole]);
        }
        return (size_t)snprintf(buffer, size, "%" PRId64, whole);
    case XSM_OPTION_BOOL:
        memcpy(&small, from, sizeof small);
        return (size_t)snprintf(buffer, size, "%s", small ? "yes" : "no");
    case XSM_OPTION_CLASSES:
        return print_classes(from, buffer, size);
    default:
        memcpy(&small, from, sizeof small);
        return (size_t)snprintf(buffer, size, "%s", option->choices[small]);
    }
}

void xsmi_option_defaults(const xsmi_option_table *table, void *values)
{
    for (size_t i = 0; i < table->count; i++) {
        const xsm_option *option = xsmi_option_at(table, i);
        (void)xsmi_option_set_text(option, values, option->initial, NULL); /* it parses, as the table was checked */
    }
}

xsm_status xsmi_option_check(const xsmi_option_table *table, size_t size, const char *owner, xsm_error *err)
{
    if (table->count > 0 && !table->options) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s: the option table is missing", owner);
    }
    for (size_t i = 0; i < table->count; i++) {
        const xsm_option *option = xsmi_option_at(table, i);
        xsm_option known;
        if (option->size != table->options->size || option->size % _Alignof(xsm_option) != 0) {
            return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                             "%s: option %zu says size %zu; accepted is that of the first, sizeof(xsm_option)", owner,
                             i, option->size);
        }
        XSMI_TRY(XSMI_READ(xsm_option, &known, option, err));
        if (!option->name || !option->initial || !option->help) {
            return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s: option %zu lacks a name, a default or a help text", owner,
                             i);
        }
        size_t member = option->type == XSM_OPTION_DOUBLE    ? sizeof(double)
                        : option->type == XSM_OPTION_INT     ? sizeof(int64_t)
                        : option->type == XSM_OPTION_BOOL    ? sizeof(int32_t)
                        : option->type == XSM_OPTION_CHOICE  ? sizeof(int32_t)
                        : option->type == XSM_OPTION_CLASSES ? sizeof(xsm_class_list)
                                                             : 0;
        if (member == 0 || (option->type == XSM_OPTION_CHOICE && !option->choices)) {
            return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s: option '%s' has no valid type", owner, option->name);
        }
        if (option->offset > size || size - option->offset < member) {
            return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s: option '%s' lies outside the state of %zu bytes", owner,
                             option->name, size);
        }
        union {
            double number;
            int64_t whole;
            int32_t small;
            xsm_class_list list;
        } value;
        xsm_option here = *option;
        here.offset = 0;
        XSMI_TRY(xsmi_option_set_text(&here, &value, option->initial, err));
    }
    return XSM_OK;
}

/* -- the options of an object -------------------------------------------------------------------------------------- */

enum { NAMES_SIZE = 240 };

const xsm_option *xsmi_group_at(const xsmi_option_group *group, size_t index)
{
    for (int i = 0; i < XSMI_OPTION_TABLES; i++) {
        if (index < group->table[i].count) {
            return xsmi_option_at(&group->table[i], index);
        }
        index -= group->table[i].count;
    }
    return NULL;
}

/* Returns the option of that name, and sets *values to the memory of its table's values; NULL if it does not exist. */
static const xsm_option *find_option(const xsmi_option_group *group, const char *name, void **values)
{
    for (int i = 0; i < XSMI_OPTION_TABLES; i++) {
        const xsm_option *option = xsmi_option_find(&group->table[i], name);
        if (option) {
            *values = group->values[i];
            return option;
        }
    }
    return NULL;
}

static size_t count_of(const xsmi_option_group *group)
{
    size_t count = 0;
    for (int i = 0; i < XSMI_OPTION_TABLES; i++) {
        count += group->table[i].count;
    }
    return count;
}

static const char *group_name_at(const void *list, size_t index)
{
    return xsmi_group_at(list, index)->name;
}

/* Lists as many option names as fit into a message. */
static const char *list_names(const xsmi_option_group *group, size_t count, char names[NAMES_SIZE])
{
    static const char more[] = ", ...";
    size_t used = 0;
    names[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        const char *name = group_name_at(group, i);
        const bool fits = strlen(name) + strlen(", ") + sizeof more <= NAMES_SIZE - used;
        used +=
            (size_t)snprintf(names + used, NAMES_SIZE - used, "%s%s", i > 0 && fits ? ", " : "", fits ? name : more);
        if (!fits) {
            break;
        }
    }
    return names;
}

xsm_status xsmi_group_want(const xsmi_option_group *group, const char *name, const xsm_option **option, void **values,
                           xsm_error *err)
{
    *values = NULL;
    *option = find_option(group, name, values);
    if (!*option) {
        const size_t count = count_of(group);
        const char *near = xsmi_nearest(name, group, count, group_name_at);
        char names[NAMES_SIZE];
        if (near) {
            return xsmi_fail(err, XSM_ERROR_NAME, "%s '%s' has no option '%s'; did you mean '%s'?", group->kind,
                             group->name, name, near);
        }
        return xsmi_fail(err, XSM_ERROR_NAME, "%s '%s' has no option '%s'%s%s", group->kind, group->name, name,
                         count > 0 ? "; it has " : ", nor any other", list_names(group, count, names));
    }
    return XSM_OK;
}

xsm_status xsmi_group_set_text(const xsmi_option_group *group, const char *name, const char *value, xsm_error *err)
{
    const xsm_option *option;
    void *values;
    XSMI_TRY(xsmi_group_want(group, name, &option, &values, err));
    if (!value) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "option '%s': the value is NULL", name);
    }
    return xsmi_option_set_text(option, values, value, err);
}

xsm_status xsmi_group_set_number(const xsmi_option_group *group, const char *name, double value, xsm_error *err)
{
    const xsm_option *option;
    void *values;
    XSMI_TRY(xsmi_group_want(group, name, &option, &values, err));
    return xsmi_option_set_double(option, values, value, err);
}

xsm_status xsmi_fail_name(xsm_error *err, const char *kind, const char *name, size_t count,
                          const char *(*name_at)(const void *, size_t))
{
    if (!name) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_%s_new: name is NULL", kind);
    }
    const char *near = xsmi_nearest(name, NULL, count, name_at);
    if (near) {
        return xsmi_fail(err, XSM_ERROR_NAME, "no %s '%s'; did you mean '%s'?", kind, name, near);
    }
    char names[sizeof err->message]; /* "'sgd' or 'adagrad'" */
    size_t used = 0;
    for (size_t i = 0; i < count && used < sizeof names; i++) {
        const char *before = i == 0 ? "" : i + 1 < count ? ", " : " or ";
        used += (size_t)snprintf(names + used, sizeof names - used, "%s'%s'", before, name_at(NULL, i));
    }
    return xsmi_fail(err, XSM_ERROR_NAME, "no %s '%s'; accepted is %s", kind, name, names);
}

xsm_status xsmi_check_set(const char *kind, const void *object, const char *name, const char *closed, xsm_error *err)
{
    if (!object || !name) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_%s_set: the %s is NULL", kind, object ? "name" : kind);
    }
    return closed ? xsmi_fail(err, XSM_ERROR_STATE, "option '%s' must be set %s", name, closed) : XSM_OK;
}

xsm_status xsmi_group_check(const xsmi_option_group *group, size_t size, xsm_error *err)
{
    const xsmi_option_table *own = &group->table[XSMI_OPTIONS_OWN];
    XSMI_TRY(xsmi_option_check(own, size, group->name, err));
    for (size_t i = 0; i < own->count; i++) {
        const xsm_option *option = xsmi_option_at(own, i);
        if (xsmi_option_find(&group->table[XSMI_OPTIONS_COMMON], option->name) ||
            xsmi_option_find(&group->table[XSMI_OPTIONS_KIND], option->name)) {
            return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s '%s': option '%s' is one that every %s has", group->kind,
                             group->name, option->name, group->kind);
        }
        if (xsmi_option_find(own, option->name) != option) {
            return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s '%s': option '%s' is there twice", group->kind, group->name,
                             option->name);
        }
    }
    return XSM_OK;
}

size_t xsmi_group_get(const xsmi_option_group *group, const char *name, char *buffer, size_t size)
{
    void *values;
    const xsm_option *option = group && name ? find_option(group, name, &values) : NULL;
    size = buffer ? size : 0;
    if (!option) {
        if (size > 0) {
            buffer[0] = '\0';
        }
        return SIZE_MAX;
    }
    return xsmi_option_print(option, values, buffer, size);
}

/* -- option structs ------------------------------------------------------------------------------------------------ */

/*
 * Structs from programs built against other releases. Each starts with its size, members are added only at the end, and
 * zero means the default. So older and newer structs can both be recognised and read.
 */

xsm_status xsmi_check_struct_size(size_t known_size, size_t first_size, size_t size, const char *name, xsm_error *err)
{
    if (size < first_size) {
        return xsmi_fail(err, XSM_ERROR_STRUCT_OLD, "%s.size is %zu, which is less than its first version's %zu bytes",
                         name, size, first_size);
    }
    if (size > known_size && size - known_size > 65536) {
        return xsmi_fail(err, XSM_ERROR_STRUCT_NEW, "%s.size is %zu, which no release of the library has", name, size);
    }
    return XSM_OK;
}

static xsm_status check_size(size_t known_size, size_t first_size, const void *given, const char *name, size_t *size,
                             xsm_error *err)
{
    memcpy(size, given, sizeof *size);
    XSMI_TRY(xsmi_check_struct_size(known_size, first_size, *size, name, err));
    const unsigned char *bytes = given;
    for (size_t i = known_size; i < *size; i++) {
        if (bytes[i] != 0) {
            return xsmi_fail(err, XSM_ERROR_STRUCT_NEW,
                             "%s has a setting at byte %zu, which this release (%zu bytes) does not know", name, i,
                             known_size);
        }
    }
    return XSM_OK;
}

xsm_status xsmi_options_read(void *known, size_t known_size, size_t first_size, const void *given, const char *name,
                             xsm_error *err)
{
    if (given) {
        size_t size;
        XSMI_TRY(check_size(known_size, first_size, given, name, &size, err));
        memcpy(known, given, XSMI_MIN(size, known_size));
    }
    memcpy(known, &known_size, sizeof known_size);
    return XSM_OK;
}

xsm_status xsmi_table_read(void *known, size_t known_size, size_t first_size, const void *given, const char *name,
                           xsm_error *err)
{
    size_t size;
    uint32_t abi;
    memcpy(&size, given, sizeof size);
    /* First: with another number, nothing else of the table is known. */
    if (size >= sizeof size + sizeof abi) {
        memcpy(&abi, (const unsigned char *)given + sizeof size, sizeof abi);
        if (abi != XSM_EXT_ABI_VERSION) {
            return xsmi_fail(err, XSM_ERROR_ABI,
                             "%s.abi is %u; this release accepts %d: build the table with its headers", name, abi,
                             XSM_EXT_ABI_VERSION);
        }
    }
    return xsmi_options_read(known, known_size, first_size, given, name, err);
}

xsm_status xsmi_check_member(int64_t value, int64_t most, const char *name, xsm_error *err)
{
    if (value >= 0 && value <= most) {
        return XSM_OK;
    }
    return most == 0 ? xsmi_fail(err, XSM_ERROR_STRUCT_NEW,
                                 "%s is %lld, which this release does not know; accepted is 0", name, (long long)value)
                     : xsmi_fail(err, XSM_ERROR_RANGE, "%s is %lld; accepted is 0 or 1", name, (long long)value);
}

xsm_status xsmi_options_write(const void *known, size_t known_size, size_t first_size, void *given, const char *name,
                              xsm_error *err)
{
    if (!given) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s is NULL", name);
    }
    size_t size;
    XSMI_TRY(check_size(known_size, first_size, given, name, &size, err));
    size_t bytes = XSMI_MIN(size, known_size);
    memcpy((unsigned char *)given + sizeof size, (const unsigned char *)known + sizeof size, bytes - sizeof size);
    return XSM_OK;
}
