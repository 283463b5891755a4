/* Tests of options by name: parsing, ranges, printing, suggestions, and invalid option tables. */
#include "support.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <string.h>

#include "base/option.h"

typedef struct values {
    double rate;
    int64_t count;
    int32_t fast;
    int32_t solver;
} values;

static const char *const solvers[] = {"newton", "bisection", NULL};

static const xsm_option options[] = {
    {sizeof(xsm_option), "rate", XSM_OPTION_DOUBLE, offsetof(values, rate), "0.5", 0, 1e300, NULL, "A number."},
    {sizeof(xsm_option), "count", XSM_OPTION_INT, offsetof(values, count), "5", 1, 1000, NULL, "A whole number."},
    {sizeof(xsm_option), "fast", XSM_OPTION_BOOL, offsetof(values, fast), "yes", 0, 0, NULL, "Yes or no."},
    {sizeof(xsm_option), "solver", XSM_OPTION_CHOICE, offsetof(values, solver), "bisection", 0, 0, solvers, "A word."},
};
static const xsmi_option_table table = {options, 4};

TEST(test_table)
{
    assert_int_equal(xsmi_option_check(&table, sizeof(values), "test", &err), XSM_OK);
    assert_ptr_equal(xsmi_option_at(&table, 3), &options[3]);
    assert_null(xsmi_option_at(&table, 4));
    assert_ptr_equal(xsmi_option_find(&table, "fast"), &options[2]);
    assert_null(xsmi_option_find(&table, "Fast"));
    values v = {0};
    xsmi_option_defaults(&table, &v);
    assert_true(v.rate == 0.5 && v.count == 5 && v.fast == 1 && v.solver == 1);
    const xsmi_option_table none = {NULL, 0};
    assert_int_equal(xsmi_option_check(&none, 0, "test", &err), XSM_OK);
    assert_null(xsmi_option_find(&none, "rate"));
}

/* A host's table may be of a release with a longer xsm_option. */
TEST(test_table_of_longer_options)
{
    struct {
        xsm_option known;
        uint64_t later;
    } longer[2] = {{options[0], 0}, {options[1], 0}};
    longer[0].known.size = longer[1].known.size = sizeof longer[0];
    const xsmi_option_table of_longer = {&longer[0].known, 2};
    assert_int_equal(xsmi_option_check(&of_longer, sizeof(values), "test", NULL), XSM_OK);
    assert_string_equal(xsmi_option_at(&of_longer, 1)->name, "count");
    longer[1].later = 1; /* of which this release knows nothing */
    assert_int_equal(xsmi_option_check(&of_longer, sizeof(values), "test", NULL), XSM_ERROR_STRUCT_NEW);
}

static void assert_bad(xsm_option option, size_t size, const char *said)
{
    xsm_error err = XSM_ERROR_INIT;
    const xsmi_option_table bad = {&option, 1};
    assert_true(xsmi_option_check(&bad, size, "mine", &err) >= XSM_ERROR_ARGUMENT);
    if (!strstr(err.message, said)) {
        fail_msg("'%s' does not say '%s'", err.message, said);
    }
}

TEST(test_bad_tables)
{
    xsm_option bad = options[0];
    bad.name = NULL;
    assert_bad(bad, sizeof(values), "lacks a name");
    bad = options[0];
    bad.initial = NULL;
    assert_bad(bad, sizeof(values), "a default");
    bad = options[0];
    bad.help = NULL;
    assert_bad(bad, sizeof(values), "a help text");
    bad = options[0];
    bad.type = 0;
    assert_bad(bad, sizeof(values), "no valid type");
    bad.type = 6;
    assert_bad(bad, sizeof(values), "no valid type");
    bad = options[3];
    bad.choices = NULL;
    assert_bad(bad, sizeof(values), "no valid type");
    bad = options[0];
    bad.offset = sizeof(values) - 7;
    assert_bad(bad, sizeof(values), "outside the state");
    bad.offset = UINT32_MAX;
    assert_bad(bad, sizeof(values), "outside the state");
    bad = options[0];
    bad.initial = "much";
    assert_bad(bad, sizeof(values), "a number is needed");
    bad = options[1];
    bad.initial = "0";
    assert_bad(bad, sizeof(values), "accepted is 1 to 1000");

    const xsmi_option_table missing = {NULL, 1};
    xsm_option small = options[0], odd = options[0], two[2] = {options[0], options[1]};
    small.size -= sizeof(void *);
    odd.size++;
    two[1].size += _Alignof(xsm_option);
    const xsmi_option_table of_small = {&small, 1}, of_odd = {&odd, 1}, of_two = {two, 2};
    assert_int_equal(xsmi_option_check(&missing, sizeof(values), "mine", &err), XSM_ERROR_ARGUMENT);
    assert_int_equal(xsmi_option_check(&of_small, sizeof(values), "mine", &err), XSM_ERROR_STRUCT_OLD);
    assert_int_equal(xsmi_option_check(&of_two, sizeof(values), "mine", &err), XSM_ERROR_ARGUMENT);
    assert_int_equal(xsmi_option_check(&of_odd, sizeof(values), "mine", &err), XSM_ERROR_ARGUMENT);
    assert_non_null(strstr(err.message, "mine"));
}

static void assert_set(const char *name, const char *text, xsm_status expected, const char *said)
{
    xsm_error err = XSM_ERROR_INIT;
    values v, before;
    xsmi_option_defaults(&table, &v);
    before = v;
    xsm_status got = xsmi_option_set_text(xsmi_option_find(&table, name), &v, text, &err);
    if (got != expected) {
        fail_msg("%s=%s gives %s, not %s", name, text, xsm_status_name(got), xsm_status_name(expected));
    }
    if (expected != XSM_OK) {
        assert_memory_equal(&v, &before, sizeof v);
        if (!strstr(err.message, said) || !strstr(err.message, name)) {
            fail_msg("'%s' does not say '%s'", err.message, said);
        }
        return;
    }
    char printed[64];
    size_t length = xsmi_option_print(xsmi_option_find(&table, name), &v, printed, sizeof printed);
    assert_string_equal(printed, said);
    assert_int_equal(length, strlen(said));
}

TEST(test_set_text)
{
    assert_set("rate", "0.25", XSM_OK, "0.25");
    assert_set("rate", "1e-3", XSM_OK, "0.001");
    assert_set("rate", "+2.", XSM_OK, "2");
    assert_set("rate", ".5", XSM_OK, "0.5");
    assert_set("rate", "0.1234567890123456", XSM_OK, "0.1234567890123456");
    assert_set("rate", "1e300", XSM_OK, "1e+300");
    assert_set("rate", "-0.5", XSM_ERROR_RANGE, "accepted is 0 to 1e+300");
    assert_set("rate", "1e301", XSM_ERROR_RANGE, "accepted is");
    assert_set("rate", "1e999", XSM_ERROR_FORMAT, "a number is needed");
    static const char *const no_numbers[] = {"",    " 1", "1 ", "1,5",   "0x10", "nan",   "inf",     "1e",
                                             "--1", ".",  "-",  "1.2.3", "e5",   "1e5.5", "\xD9\xA1"};
    for (size_t i = 0; i < sizeof no_numbers / sizeof *no_numbers; i++) {
        assert_set("rate", no_numbers[i], XSM_ERROR_FORMAT, "a number is needed");
    }
    char nines[600];
    memset(nines, '9', sizeof nines - 1);
    nines[sizeof nines - 1] = '\0';
    assert_set("rate", nines, XSM_ERROR_FORMAT, "a number is needed");

    assert_set("count", "1000", XSM_OK, "1000");
    assert_set("count", "+7", XSM_OK, "7");
    assert_set("count", "0", XSM_ERROR_RANGE, "accepted is 1 to 1000");
    assert_set("count", "1001", XSM_ERROR_RANGE, "1001");
    static const char *const no_counts[] = {
        "", "1.0", "1e2", " 1", "1 ", "+", "-", "1-", "0x1", "ten", "9223372036854775808"};
    for (size_t i = 0; i < sizeof no_counts / sizeof *no_counts; i++) {
        assert_set("count", no_counts[i], XSM_ERROR_FORMAT, "a whole number is needed");
    }

    assert_set("fast", "no", XSM_OK, "no");
    assert_set("fast", "yes", XSM_OK, "yes");
    assert_set("fast", "true", XSM_ERROR_FORMAT, "yes or no");
    assert_set("fast", "1", XSM_ERROR_FORMAT, "yes or no");
    assert_set("solver", "newton", XSM_OK, "newton");
    assert_set("solver", "Newton", XSM_ERROR_FORMAT, "newton, bisection");
}

TEST(test_set_numbers)
{
    values v;
    xsmi_option_defaults(&table, &v);
    assert_int_equal(xsmi_option_set_double(&options[0], &v, 0.75, &err), XSM_OK);
    assert_true(v.rate == 0.75);
    assert_int_equal(xsmi_option_set_double(&options[0], &v, (double)NAN, &err), XSM_ERROR_RANGE);
    assert_int_equal(xsmi_option_set_double(&options[0], &v, (double)INFINITY, &err), XSM_ERROR_RANGE);
    assert_int_equal(xsmi_option_set_int(&options[0], &v, 3, &err), XSM_OK);
    assert_true(v.rate == 3);

    assert_int_equal(xsmi_option_set_int(&options[1], &v, 1001, &err), XSM_ERROR_RANGE);
    assert_int_equal(xsmi_option_set_int(&options[1], &v, INT64_MIN, &err), XSM_ERROR_RANGE);
    assert_int_equal(xsmi_option_set_int(&options[1], &v, INT64_MAX, &err), XSM_ERROR_RANGE);
    assert_int_equal(xsmi_option_set_double(&options[1], &v, 12, &err), XSM_OK);
    assert_int_equal(v.count, 12);
    assert_int_equal(xsmi_option_set_double(&options[1], &v, 12.5, &err), XSM_ERROR_FORMAT);
    assert_int_equal(xsmi_option_set_double(&options[1], &v, 1e30, &err), XSM_ERROR_FORMAT);
    assert_int_equal(xsmi_option_set_double(&options[1], &v, (double)NAN, &err), XSM_ERROR_FORMAT);
    assert_int_equal(v.count, 12);

    assert_int_equal(xsmi_option_set_int(&options[2], &v, 0, &err), XSM_OK);
    assert_int_equal(v.fast, 0);
    assert_int_equal(xsmi_option_set_double(&options[2], &v, 1, &err), XSM_OK);
    assert_int_equal(v.fast, 1);
    assert_int_equal(xsmi_option_set_int(&options[2], &v, 2, &err), XSM_ERROR_RANGE);
    assert_int_equal(xsmi_option_set_int(&options[3], &v, 0, &err), XSM_ERROR_FORMAT);
    assert_non_null(strstr(err.message, "newton, bisection"));
    assert_true(v.fast == 1 && v.solver == 1);
}

TEST(test_print_is_cut)
{
    values v;
    char buffer[4];
    xsmi_option_defaults(&table, &v);
    assert_int_equal(xsmi_option_print(&options[3], &v, buffer, sizeof buffer), strlen("bisection"));
    assert_string_equal(buffer, "bis");
    assert_int_equal(xsmi_option_print(&options[3], &v, NULL, 0), strlen("bisection"));
}

/* Shortest digits that read back the same, for numbers hard to print. */
TEST(test_numbers_survive)
{
    static const double hard[] = {0.1,
                                  1.0 / 3,
                                  5e-324,
                                  DBL_MIN,
                                  123456789012345678.0,
                                  9007199254740993.0,
                                  1e22,
                                  1e23,
                                  0.3,
                                  2.2250738585072011e-308};
    for (size_t i = 0; i < sizeof hard / sizeof *hard; i++) {
        values v = {.rate = hard[i]};
        char text[64];
        double back;
        xsmi_option_print(&options[0], &v, text, sizeof text);
        assert_true(xsmi_parse_double(text, &back));
        assert_true(back == hard[i]);
    }
}

/* The same under a locale whose decimal sign is a comma, where this machine has one. */
TEST(test_comma_locale)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "fr_FR.utf8"};
    const char *found = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !found; i++) {
        found = setlocale(LC_ALL, names[i]);
    }
    if (!found) {
        skip();
    }
    test_set_text(NULL);
    test_numbers_survive(NULL);
    setlocale(LC_ALL, "C");
}

static const char *name_at(const void *list, size_t i)
{
    return ((const char *const *)list)[i];
}

TEST(test_nearest)
{
    static const char *const names[] = {"delta", "negatives", "ridge", "seed", "m"};
    assert_string_equal(xsmi_nearest("detla", names, 5, name_at), "delta"); /* transposed */
    assert_string_equal(xsmi_nearest("negative", names, 5, name_at), "negatives");
    assert_string_equal(xsmi_nearest("rigde", names, 5, name_at), "ridge");
    assert_string_equal(xsmi_nearest("sed", names, 5, name_at), "seed");
    assert_string_equal(xsmi_nearest("n", names, 5, name_at), "m");
    assert_null(xsmi_nearest("temperature", names, 5, name_at));
    assert_null(xsmi_nearest("xy", names, 5, name_at));
    assert_null(xsmi_nearest("delta", names, 0, name_at));
    char longest[200];
    memset(longest, 'd', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_null(xsmi_nearest(longest, names, 5, name_at)); /* too long to be a name, and no overflow */
}
