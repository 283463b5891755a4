/* Statuses, error messages, and structs that carry their size. */
#include "support.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/file.h"

#include <xsoftmax/bindings.h>
#include <xsoftmax/ext/version.h>

/* Names and numbers of the first release: a program may have stored either. */
TEST(test_statuses)
{
    static const struct {
        xsm_status status;
        int32_t number;
        const char *name;
    } released[] = {
        {XSM_OK, 0, "XSM_OK"},
        {XSM_CANCELLED, 1, "XSM_CANCELLED"},
        {XSM_ERROR_ARGUMENT, 10, "XSM_ERROR_ARGUMENT"},
        {XSM_ERROR_MEMORY, 11, "XSM_ERROR_MEMORY"},
        {XSM_ERROR_IO, 12, "XSM_ERROR_IO"},
        {XSM_ERROR_FORMAT, 13, "XSM_ERROR_FORMAT"},
        {XSM_ERROR_RANGE, 14, "XSM_ERROR_RANGE"},
        {XSM_ERROR_LIMIT, 15, "XSM_ERROR_LIMIT"},
        {XSM_ERROR_NAME, 16, "XSM_ERROR_NAME"},
        {XSM_ERROR_SHAPE, 17, "XSM_ERROR_SHAPE"},
        {XSM_ERROR_STATE, 18, "XSM_ERROR_STATE"},
        {XSM_ERROR_UNSUPPORTED, 19, "XSM_ERROR_UNSUPPORTED"},
        {XSM_ERROR_DIVERGED, 20, "XSM_ERROR_DIVERGED"},
        {XSM_ERROR_CHECKSUM, 21, "XSM_ERROR_CHECKSUM"},
        {XSM_ERROR_FILE_VERSION, 22, "XSM_ERROR_FILE_VERSION"},
        {XSM_ERROR_STRUCT_OLD, 23, "XSM_ERROR_STRUCT_OLD"},
        {XSM_ERROR_STRUCT_NEW, 24, "XSM_ERROR_STRUCT_NEW"},
        {XSM_ERROR_DATA, 25, "XSM_ERROR_DATA"},
        {XSM_ERROR_RUNNER, 26, "XSM_ERROR_RUNNER"},
        {XSM_ERROR_ABI, 27, "XSM_ERROR_ABI"},
        {XSM_ERROR_COMM, 28, "XSM_ERROR_COMM"},
        {XSM_ERROR_INTERNAL, 99, "XSM_ERROR_INTERNAL"},
    };
    size_t known = 0;
    for (xsm_status s = -1000; s < 1000; s++) {
        assert_int_equal(!xsm_status_name(s), !xsm_status_text(s));
        known += xsm_status_name(s) != NULL;
    }
    assert_int_equal(known, sizeof released / sizeof *released);
    for (size_t i = 0; i < known; i++) {
        assert_int_equal(released[i].status, released[i].number);
        assert_string_equal(xsm_status_name(released[i].status), released[i].name);
        assert_true(strlen(xsm_status_text(released[i].status)) > 0);
    }
}

TEST(test_version)
{
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", XSM_VERSION_MAJOR, XSM_VERSION_MINOR, XSM_VERSION_PATCH);
    assert_string_equal(xsm_version_string(), text);
    assert_int_equal(xsm_version(), XSM_VERSION_MAJOR * 10000 + XSM_VERSION_MINOR * 100 + XSM_VERSION_PATCH);
    assert_int_equal(xsm_abi_version(), XSM_ABI_VERSION);
    assert_int_equal(xsm_ext_abi_version(), XSM_EXT_ABI_VERSION);
}

TEST(test_fail)
{
    assert_int_equal(xsmi_fail(&err, XSM_ERROR_NAME, "no option '%s'", "detla"), XSM_ERROR_NAME);
    assert_int_equal(err.status, XSM_ERROR_NAME);
    assert_string_equal(err.message, "no option 'detla'");
    assert_true(err.line == 0 && err.column == 0 && err.size == sizeof err);

    assert_int_equal(xsmi_fail_at(&err, XSM_ERROR_FORMAT, 7, 9, "not a number"), XSM_ERROR_FORMAT);
    assert_true(err.line == 7 && err.column == 9);

    xsm_error copy = XSM_ERROR_INIT;
    assert_int_equal(xsmi_fail_copy(&copy, &err), XSM_ERROR_FORMAT);
    assert_memory_equal(&copy, &err, offsetof(xsm_error, message));
    assert_string_equal(copy.message, "not a number");

    /* An error that is reused keeps nothing of the one before. */
    assert_int_equal(xsmi_fail_memory(&err, 123, "a thing"), XSM_ERROR_MEMORY);
    assert_true(err.line == 0 && err.column == 0);
    assert_string_equal(err.message, "out of memory: 123 bytes for a thing");

    assert_int_equal(xsmi_fail(NULL, XSM_ERROR_IO, "%d", 1), XSM_ERROR_IO);
    assert_int_equal(xsmi_fail_at(NULL, XSM_ERROR_IO, 1, 1, "%d", 1), XSM_ERROR_IO);
    assert_int_equal(xsmi_fail_memory(NULL, 1, "x"), XSM_ERROR_MEMORY);
    assert_int_equal(xsmi_fail_copy(NULL, &err), XSM_ERROR_MEMORY);
}

/* A percent sign in copied text is text. */
TEST(test_fail_copy_is_verbatim)
{
    xsm_error copy = XSM_ERROR_INIT;
    xsmi_fail(&err, XSM_ERROR_IO, "%s", "100%s %n");
    xsmi_fail_copy(&copy, &err);
    assert_string_equal(copy.message, "100%s %n");
}

static void assert_line(size_t room, const char *text, const char *expected)
{
    xsm_error err = XSM_ERROR_INIT;
    /* Through the public struct, for a program whose message is `room` bytes long. */
    err.size = offsetof(xsm_error, message) + room;
    memset(err.message, 0x5A, sizeof err.message);
    xsmi_fail(&err, XSM_ERROR_IO, "%s", text);
    assert_string_equal(err.message, expected);
    for (size_t i = room; i < sizeof err.message; i++) {
        assert_int_equal(err.message[i], 0x5A);
    }
}

TEST(test_message_is_cut_on_a_character)
{
    assert_line(5, "abcd", "abcd");
    assert_line(5, "abcde", "abcd");
    assert_line(1, "abc", "");
    /* One character of two, three and four bytes, cut at every place. */
    assert_line(6, "abc\xC3\xA9", "abc\xC3\xA9");
    assert_line(5, "abc\xC3\xA9", "abc");
    assert_line(5, "abc\xC3\xA9x", "abc");
    assert_line(4, "abc\xC3\xA9", "abc");
    assert_line(5, "a\xE2\x82\xAC", "a\xE2\x82\xAC");
    assert_line(5, "a\xE2\x82\xACz", "a\xE2\x82\xAC");
    assert_line(4, "a\xE2\x82\xAC", "a");
    assert_line(3, "a\xE2\x82\xAC", "a");
    assert_line(6, "a\xF0\x9F\x99\x82", "a\xF0\x9F\x99\x82");
    assert_line(5, "a\xF0\x9F\x99\x82", "a");
    assert_line(4, "a\xF0\x9F\x99\x82", "a");
    assert_line(3, "a\xF0\x9F\x99\x82", "a");
}

/* A program of a newer release, whose struct has members behind the message. */
TEST(test_message_ends_where_it_did)
{
    struct {
        xsm_error err;
        char later[32];
    } newer = {XSM_ERROR_INIT, {0}};
    char text[600], untouched[sizeof newer.later] = {0};
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    newer.err.size = sizeof newer;
    xsmi_fail(&newer.err, XSM_ERROR_IO, "%s", text);
    assert_int_equal(strlen(newer.err.message), sizeof newer.err.message - 1);
    assert_memory_equal(newer.later, untouched, sizeof untouched);
}

/* A long path loses its middle, not its file's name, nor the message its reason. */
TEST(test_long_paths_leave_the_reason)
{
    for (size_t shift = 0; shift < 4; shift++) { /* characters of several bytes, cut at every place */
        char path[1001] = {0};
        for (size_t i = shift; i + 3 <= 990; i += 3) {
            memcpy(path + i, "\xE2\x82\xAC", 3);
        }
        memset(path, '/', shift);
        snprintf(path + strlen(path), 10, "/data.txt");
        xsmi_fail(&err, XSM_ERROR_FORMAT, "%s, line 7: 'x' is not a number", path);
        assert_memory_equal(err.message, path, 60);
        assert_non_null(strstr(err.message, "\xE2\x82\xAC...\xE2\x82\xAC"));
        assert_non_null(strstr(err.message, "/data.txt, line 7: 'x' is not a number"));
        assert_null(strchr(err.message, '?'));
        assert_in_range(strlen(err.message), sizeof err.message - 6, sizeof err.message - 1);
    }
    static char path[1001];
    memset(path, 'a', sizeof path - 1);
    path[0] = path[200] = path[400] = path[600] = path[800] = '/';
    assert_int_equal(xsmi_map_file(path, &(xsmi_mapping){.data = NULL}, &err), XSM_ERROR_IO);
    assert_non_null(strstr(err.message, ": cannot open: "));
    assert_non_null(strstr(err.message, strerror(ENOENT))); /* in the language of the locale */
}

TEST(test_message_is_one_line_of_text)
{
    assert_line(20, "a\nb\r\nc\td\x1B[1m\x7F", "a b  c d [1m ");
    assert_line(20,
                "\xFF"
                "a\x80",
                "?a?");                                /* bytes that no character has */
    assert_line(20, "\xC0\xAF.", "??.");               /* longer than need be */
    assert_line(20, "\xE0\x9F\xBF.", "???.");          /* likewise */
    assert_line(20, "\xF0\x8F\xBF\xBF.", "????.");     /* likewise */
    assert_line(20, "\xED\xA0\x80.", "???.");          /* half of a UTF-16 pair */
    assert_line(20, "\xED\x9F\xBF.", "\xED\x9F\xBF."); /* the last before those */
    assert_line(20, "\xF4\x90\x80\x80.", "????.");     /* beyond U+10FFFF */
    assert_line(20, "\xF4\x8F\xBF\xBF.", "\xF4\x8F\xBF\xBF.");
    assert_line(20, "\xC3(", "?("); /* cut by another character */
    assert_line(20, "\xE2\x82(", "?\?(");
    assert_line(20, "\xC3", "?"); /* cut by the end of the text itself */
}

/* Memory that is no xsm_error, because its size was never set, is left alone. */
TEST(test_error_without_size)
{
    xsm_error before;
    memset(&err, 0x33, sizeof err);
    for (size_t size = 0; size <= offsetof(xsm_error, message); size++) {
        err.size = size;
        before = err;
        assert_int_equal(xsmi_fail(&err, XSM_ERROR_IO, "text"), XSM_ERROR_IO);
        assert_memory_equal(&err, &before, sizeof err);
    }
}

/* -- structs with a size ------------------------------------------------------------------------------------------ */

typedef struct settings {
    size_t size;
    uint64_t first;
    uint64_t second;
    uint64_t third; /* came with a later release */
} settings;

#define FIRST_SIZE offsetof(settings, third)

TEST(test_options_read)
{
    settings known = {sizeof known, 1, 2, 3};
    assert_int_equal(xsmi_options_read(&known, sizeof known, FIRST_SIZE, NULL, "settings", &err), XSM_OK);
    assert_true(known.size == sizeof known && known.first == 1 && known.second == 2 && known.third == 3);

    settings given = {sizeof given, 4, 5, 6};
    assert_int_equal(xsmi_options_read(&known, sizeof known, FIRST_SIZE, &given, "settings", &err), XSM_OK);
    assert_true(known.size == sizeof known && known.first == 4 && known.second == 5 && known.third == 6);

    /* Shorter: what is missing keeps its default. */
    settings defaults = {sizeof defaults, 1, 2, 3};
    given.size = FIRST_SIZE;
    assert_int_equal(xsmi_options_read(&defaults, sizeof defaults, FIRST_SIZE, &given, "settings", &err), XSM_OK);
    assert_true(defaults.size == sizeof defaults && defaults.first == 4 && defaults.second == 5 && defaults.third == 3);

    for (size_t size = 0; size < FIRST_SIZE; size++) {
        given.size = size;
        assert_int_equal(xsmi_options_read(&known, sizeof known, FIRST_SIZE, &given, "settings", &err),
                         XSM_ERROR_STRUCT_OLD);
        assert_non_null(strstr(err.message, "settings.size"));
    }
    assert_true(known.first == 4 && known.third == 6);
}

TEST(test_options_read_longer)
{
    struct {
        settings known;
        unsigned char tail[40];
    } given = {{sizeof given, 7, 8, 9}, {0}};
    settings known = {sizeof known, 1, 2, 3};
    assert_int_equal(xsmi_options_read(&known, sizeof known, FIRST_SIZE, &given, "settings", &err), XSM_OK);
    assert_true(known.size == sizeof known && known.first == 7 && known.third == 9);
    for (size_t i = 0; i < sizeof given.tail; i++) {
        settings untouched = {sizeof untouched, 1, 2, 3};
        given.tail[i] = 1;
        assert_int_equal(xsmi_options_read(&untouched, sizeof untouched, FIRST_SIZE, &given, "settings", &err),
                         XSM_ERROR_STRUCT_NEW);
        assert_true(untouched.first == 1 && untouched.second == 2 && untouched.third == 3);
        given.tail[i] = 0;
    }
    /* A size that cannot be one: nothing behind the struct is read. */
    settings alone = {SIZE_MAX, 7, 8, 9};
    assert_int_equal(xsmi_options_read(&known, sizeof known, FIRST_SIZE, &alone, "settings", &err),
                     XSM_ERROR_STRUCT_NEW);
}

/* .ci/run has a locale with a comma. */
TEST(test_message_has_points)
{
    char copy[8];
    assert_int_equal(xsmi_fail(&err, XSM_ERROR_RANGE, "%g, not %.2f: %s", 0.5, 1e3, "1,5"), XSM_ERROR_RANGE);
    assert_string_equal(err.message, "0.5, not 1000.00: 1,5");
    snprintf(copy, sizeof copy, "%g", 0.5);
    assert_int_equal(copy[1], localeconv()->decimal_point[0]); /* the host's own printing stays as it was */
}

TEST(test_options_write)
{
    settings known = {sizeof known, 1, 2, 3};
    assert_int_equal(xsmi_options_write(&known, sizeof known, FIRST_SIZE, NULL, "settings", &err), XSM_ERROR_ARGUMENT);

    settings given = {sizeof given, 0, 0, 0};
    assert_int_equal(xsmi_options_write(&known, sizeof known, FIRST_SIZE, &given, "settings", &err), XSM_OK);
    assert_true(given.size == sizeof given && given.first == 1 && given.second == 2 && given.third == 3);

    settings shorter = {FIRST_SIZE, 0, 0, 77};
    assert_int_equal(xsmi_options_write(&known, sizeof known, FIRST_SIZE, &shorter, "settings", &err), XSM_OK);
    assert_true(shorter.size == FIRST_SIZE && shorter.first == 1 && shorter.second == 2 && shorter.third == 77);

    struct {
        settings known;
        uint64_t tail;
    } longer = {{sizeof longer, 0, 0, 0}, 0};
    assert_int_equal(xsmi_options_write(&known, sizeof known, FIRST_SIZE, &longer, "settings", &err), XSM_OK);
    assert_true(longer.known.size == sizeof longer && longer.known.third == 3 && longer.tail == 0);
    longer.tail = 1;
    longer.known.first = 55;
    assert_int_equal(xsmi_options_write(&known, sizeof known, FIRST_SIZE, &longer, "settings", &err),
                     XSM_ERROR_STRUCT_NEW);
    assert_true(longer.known.first == 55);

    shorter.size = FIRST_SIZE - 1;
    shorter.first = 66;
    assert_int_equal(xsmi_options_write(&known, sizeof known, FIRST_SIZE, &shorter, "settings", &err),
                     XSM_ERROR_STRUCT_OLD);
    assert_true(shorter.first == 66);
}
