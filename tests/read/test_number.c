/* Decimal numbers against the C library's strtof() (correctly rounded in glibc) and strtoll() in the C locale. */
#include "support.h"

#include "read/number.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t random_state = 88172645463325252u;

static uint64_t random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static unsigned compared;

static void compare(const char *text)
{
    float mine = -12345;
    const char *end = NULL;
    int result = xsmi_parse_float(text, &end, &mine);
    float shortly = -12345;
    const char *short_end = NULL;
    assert_int_equal(xsmi_parse_short_float(text, &short_end, &shortly), result);
    assert_memory_equal(&shortly, &mine, sizeof mine);
    assert_ptr_equal(short_end, end);
    char *their_end;
    float theirs = strtof(text, &their_end);
    compared++;
    if (isinf(theirs)) {
        if (result != XSMI_NUMBER_TOO_LARGE || mine != -12345) {
            fail_msg("%.200s: %d instead of too large", text, result);
        }
        return;
    }
    if (result != XSMI_NUMBER_OK || memcmp(&mine, &theirs, sizeof mine) != 0 || end != their_end) {
        fail_msg("%.200s: %a instead of %a (%d), %td instead of %td bytes", text, (double)mine, (double)theirs, result,
                 end ? end - text : -1, their_end - text);
    }
}

TEST(chosen)
{
    static const char *const texts[] = {
        "0",
        "-0",
        "+0",
        "0.0",
        ".5",
        "5.",
        "-.5e1",
        "+1.5E+3",
        "1e0",
        "1e-0",
        "00012.50",
        "1e22",
        "1e23",
        "1e-22",
        "123456789012345",
        "9007199254740993",
        "16777217",
        "16777219",
        "16777217.0000000000000000000000000001",
        "16777216.9999999999999999999999999999",
        "3.4028234663852886e38",
        "3.4028235e38",
        "340282346638528859811704183484516925440",
        "340282356779733661637539395458142568447",
        "340282356779733661637539395458142568447.999999",
        "340282356779733661637539395458142568448",
        "340282356779733661637539395458142568449",
        "1e39",
        "1e400",
        "1e99999999999999999999999999",
        "1e-99999999999999999999999999",
        "0e99999999999999999999999999",
        "1.17549435e-38",
        "1.1754943e-38",
        "1.401298464324817e-45",
        "7.006492321624085e-46",
        "7.0064923216240853546186479164495806564013097093825788587853e-46",
        "7.00649232162408535461864791644958065640130970938257885878534141944895541342930300743319094181060791015625e-"
        "46",
        "7.00649232162408535461864791644958065640130970938257885878534141944895541342930300743319094181060791015626e-"
        "46",
        "7.00649232162408535461864791644958065640130970938257885878534141944895541342930300743319094181060791015624e-"
        "46",
        "2.10194769648722560638559437493487419692039291281477365763560242583468662402879090222995728254318237304687e-"
        "45",
        "2.1019476964872256063855943749348741969203929128147736576356024258346866240287909022299572825431823730468750e-"
        "45",
        "1e-46",
        "0.000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000001e60",
        "100000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000e-60",
        "1e", /* ends before the e */
        "1e+",
        "1.5x",
        "1.5.5",
        "1,5",
        "1_0",
        "12345678901234567890",
        "18446744073709551615",
        "18446744073709551616",
        "99999999999999999999",
        "0.1",
        "0.30000001192092896",
        "8388608.5",
        "8388609.5",
        "4194304.25",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        compare(texts[i]);
    }
    /* Leading zeros, trailing zeros and digits without end. */
    char text[4096];
    for (size_t zeros = 1; zeros < 2000; zeros += 97) {
        memset(text, '0', zeros);
        strcpy(text + zeros, "123.25");
        compare(text);
        snprintf(text, sizeof text, "1.5%0*d", (int)zeros, 0);
        compare(text);
        snprintf(text, sizeof text, "16777217.%0*d1", (int)zeros, 0);
        compare(text);
        snprintf(text, sizeof text, "16777217.%0*d", (int)zeros, 0);
        compare(text);
        snprintf(text, sizeof text, "1%0*de-%zu", (int)zeros, 0, zeros);
        compare(text);
        snprintf(text, sizeof text, "0.%0*d1e%zu", (int)zeros, 0, zeros);
        compare(text);
    }
}

TEST(no_numbers)
{
    static const struct {
        const char *text;
        int result;
    } cases[] = {
        {"", XSMI_NUMBER_NONE},
        {"-", XSMI_NUMBER_NONE},
        {"+", XSMI_NUMBER_NONE},
        {".", XSMI_NUMBER_NONE},
        {"-.", XSMI_NUMBER_NONE},
        {"e5", XSMI_NUMBER_NONE},
        {".e5", XSMI_NUMBER_NONE},
        {"x", XSMI_NUMBER_NONE},
        {" 1", XSMI_NUMBER_NONE},
        {"--1", XSMI_NUMBER_NONE},
        {"+-1", XSMI_NUMBER_NONE},
        {",5", XSMI_NUMBER_NONE},
        {"nan", XSMI_NUMBER_NOT_FINITE},
        {"-NaN", XSMI_NUMBER_NOT_FINITE},
        {"inf", XSMI_NUMBER_NOT_FINITE},
        {"-Inf", XSMI_NUMBER_NOT_FINITE},
        {"INFINITY", XSMI_NUMBER_NOT_FINITE},
        {"in", XSMI_NUMBER_NONE},
        {"na", XSMI_NUMBER_NONE},
        {"1e39", XSMI_NUMBER_TOO_LARGE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float value = 7;
        const char *end = NULL;
        assert_int_equal(xsmi_parse_float(cases[i].text, &end, &value), cases[i].result);
        assert_int_equal(xsmi_parse_short_float(cases[i].text, &end, &value), cases[i].result);
        assert_true(value == 7);
        assert_null(end);
    }
}

TEST(random_numbers)
{
    char text[512];
    for (int i = 0; i < 60000; i++) {
        /* Floats of any size in decimal, exact, short, or one digit off. */
        uint32_t bits = (uint32_t)random_bits();
        float f;
        memcpy(&f, &bits, sizeof f);
        if (isfinite(f)) {
            snprintf(text, sizeof text, "%.*e", (int)(random_bits() % 20), (double)f);
            compare(text);
            snprintf(text, sizeof text, "%.9g", (double)f);
            compare(text);
        }
        /* Decimals as files have them. */
        snprintf(text, sizeof text, "%llu.%0*llu", (unsigned long long)(random_bits() % 1000),
                 (int)(1 + random_bits() % 9), (unsigned long long)(random_bits() % 10));
        compare(text);
        snprintf(text, sizeof text, "0.%llu", (unsigned long long)(random_bits() >> (random_bits() % 60)));
        compare(text);
        /* Any digits with any exponent. */
        snprintf(text, sizeof text, "%llue%d", (unsigned long long)(random_bits() >> (random_bits() % 60)),
                 (int)(random_bits() % 130) - 75);
        compare(text);
    }
}

/* Numbers in the middle between two floats, and just beside it: where rounding twice goes wrong. */
TEST(midpoints)
{
    char text[512];
    for (int i = 0; i < 40000; i++) {
        uint32_t bits = (uint32_t)random_bits() & 0x7FFFFFFF;
        if (i % 4 == 0) {
            bits &= 0x01FFFFFF; /* small and subnormal ones */
        } else if (i % 4 == 1) {
            bits = 0x3F800000 + (bits & 0x0FFFFFFF) % 0x10000000; /* integers and simple fractions */
        }
        if (bits >= 0x7F7FFFFF) {
            continue;
        }
        float low, high;
        uint32_t next = bits + 1;
        memcpy(&low, &bits, sizeof low);
        memcpy(&high, &next, sizeof high);
        double middle = ((double)low + (double)high) / 2;
        int length = snprintf(text, sizeof text, "%.120e", middle); /* exact: at most 113 digits */
        compare(text);
        char exponent[16];
        char *e = strchr(text, 'e');
        strcpy(exponent, e);
        snprintf(e, sizeof text - (size_t)length, "1%s", exponent);
        compare(text);
        snprintf(text, sizeof text, "%.17e", middle);
        compare(text);
        snprintf(text, sizeof text, "%.15e", middle);
        compare(text);
        snprintf(text, sizeof text, "%.17e", nextafter(middle, 0));
        compare(text);
        snprintf(text, sizeof text, "%.17e", nextafter(middle, (double)INFINITY));
        compare(text);
    }
    assert_true(compared > 400000);
}

TEST(integers)
{
    static const struct {
        const char *text;
        int result;
        int64_t value;
        size_t length;
    } cases[] = {
        {"0", XSMI_NUMBER_OK, 0, 1},
        {"-0", XSMI_NUMBER_OK, 0, 2},
        {"+17", XSMI_NUMBER_OK, 17, 3},
        {"-17,", XSMI_NUMBER_OK, -17, 3},
        {"1.0", XSMI_NUMBER_OK, 1, 3},
        {"1.", XSMI_NUMBER_OK, 1, 2},
        {"1.000000000000000000e+00", XSMI_NUMBER_OK, 1, 24},
        {"-2.50e1", XSMI_NUMBER_OK, -25, 7},
        {"12e3", XSMI_NUMBER_OK, 12000, 4},
        {"100e-2", XSMI_NUMBER_OK, 1, 6},
        {"00000000000000000000000000000005", XSMI_NUMBER_OK, 5, 32},
        {"1.0000000000000000000000000000000", XSMI_NUMBER_OK, 1, 33},
        {"9223372036854775807", XSMI_NUMBER_OK, INT64_MAX, 19},
        {"-9223372036854775808", XSMI_NUMBER_OK, INT64_MIN, 20},
        {"9223372036854775808", XSMI_NUMBER_TOO_LARGE, 0, 0},
        {"-9223372036854775809", XSMI_NUMBER_TOO_LARGE, 0, 0},
        {"18446744073709551616", XSMI_NUMBER_TOO_LARGE, 0, 0},
        {"99999999999999999999999", XSMI_NUMBER_TOO_LARGE, 0, 0},
        {"1e19", XSMI_NUMBER_TOO_LARGE, 0, 0},
        {"1e999999999999999999999", XSMI_NUMBER_TOO_LARGE, 0, 0},
        {"0e999999999999999999999", XSMI_NUMBER_OK, 0, 23},
        {"0e-999999999999999999999", XSMI_NUMBER_OK, 0, 24},
        {"1e-999999999999999999999", XSMI_NUMBER_FRACTION, 0, 0},
        {"0.5", XSMI_NUMBER_FRACTION, 0, 0},
        {"1.00000000000000000000001", XSMI_NUMBER_FRACTION, 0, 0},
        {"1234567890123456789.5", XSMI_NUMBER_FRACTION, 0, 0},
        {"abc", XSMI_NUMBER_NONE, 0, 0},
        {"", XSMI_NUMBER_NONE, 0, 0},
        {"nan", XSMI_NUMBER_NOT_FINITE, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t value = 77;
        const char *end = cases[i].text;
        int result = xsmi_parse_integer(cases[i].text, &end, &value);
        if (result != cases[i].result || value != (result == XSMI_NUMBER_OK ? cases[i].value : 77) ||
            end != cases[i].text + cases[i].length) {
            fail_msg("%s: result %d, value %lld, %td bytes", cases[i].text, result, (long long)value,
                     end - cases[i].text);
        }
    }
}

/* A locale that writes numbers with a comma must change nothing. */
TEST(locales)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8", "fr_FR", "da_DK.UTF-8"};
    const char *found = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !found; i++) {
        found = setlocale(LC_ALL, names[i]);
    }
    if (!found) {
        /* None is installed, but the sources of one may be. */
        char command[512];
        const char *path = test_path("de_DE.UTF-8");
        snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s >/dev/null 2>&1", path);
        if (system(command) == 0) {
            char folder[256];
            snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
            setenv("LOCPATH", folder, 1);
            found = setlocale(LC_ALL, "de_DE.UTF-8");
        }
    }
    if (!found) {
        print_message("no locale with a decimal comma is installed: skipped\n");
        skip();
    }
    bool comma = localeconv()->decimal_point[0] == ',';
    float value = 0;
    const char *end;
    int point = xsmi_parse_float("1.5", &end, &value);
    bool point_ok = point == XSMI_NUMBER_OK && value == 1.5f && *end == '\0';
    int with_comma = xsmi_parse_float("2,5", &end, &value);
    bool comma_ends = with_comma == XSMI_NUMBER_OK && value == 2 && *end == ',';
    int slow = xsmi_parse_float("16777217.0000000000000000000000000001", &end, &value);
    bool slow_ok = slow == XSMI_NUMBER_OK && value == 16777218;
    static const char data[] = "f,label,g\n1.5,1,2.25\n-3e-1,0,\"4.125\"\n";
    test_bytes bytes = {data, sizeof data - 1, 0, SIZE_MAX, 0};
    HELD(xsm_dataset, d) = NULL;
    xsm_status status = xsm_dataset_read(NULL, NULL, TEST_BYTES(&bytes, "data"), NULL, &d, &err);
    setlocale(LC_ALL, "C");
    assert_true(comma);
    assert_true(point_ok);
    assert_true(comma_ends);
    assert_true(slow_ok);
    assert_ok(status, err);
    xsm_row row = XSM_ROW_INIT;
    assert_ok(xsm_dataset_get_row(d, 1, &row, &err), err);
    assert_true(row.values[0] == -0.3f && row.values[1] == 4.125f);
}
