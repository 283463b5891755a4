/* Statuses and error messages. */
#include "base/base.h"
#include "base/entry.h"
#include "base/order.h"
#include "base/system.h"

#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#if XSMI_HAVE_XLOCALE_H
#include <xlocale.h>
#endif

#include <xsoftmax/bindings.h>

const char *xsm_status_name(xsm_status status)
{
    switch (status) {
#define NAME(name, number, text)                                                                                       \
    case name:                                                                                                         \
        return #name;
        XSM_STATUS_LIST(NAME)
#undef NAME
    default:
        return NULL;
    }
}

const char *xsm_status_text(xsm_status status)
{
    switch (status) {
#define TEXT(name, number, text)                                                                                       \
    case name:                                                                                                         \
        return text;
        XSM_STATUS_LIST(TEXT)
#undef TEXT
    default:
        return NULL;
    }
}

/* Returns the bytes of the message; 0 if the struct's size leaves no room for one, as it is then no xsm_error. What a
 * longer struct of a newer program has behind the message is not touched. */
static size_t message_size(const xsm_error *err)
{
    size_t start = offsetof(xsm_error, message);
    return err->size > start ? XSMI_MIN(err->size - start, sizeof err->message) : 0;
}

/* Returns the bytes of the UTF-8 character at text[0..length), 0 if it is invalid or cut off. (Unicode 15, table
 * 3-7.) */
static size_t character_length(const unsigned char *text, size_t length)
{
    unsigned char lead = text[0];
    size_t needed = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
    if (needed < 2 || needed > length) {
        return needed <= length ? needed : 0;
    }
    unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (text[1] < low || text[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < needed; i++) {
        if ((text[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    return needed;
}

const char *xsmi_decimal_sign(void)
{
    return nl_langinfo(RADIXCHAR); /* not localeconv(), whose result all threads write to */
}

/* vsnprintf() with a decimal point whatever the host's locale. */
static int print(char *line, size_t size, const char *format, va_list args) __attribute__((format(printf, 3, 0)));
static int print(char *line, size_t size, const char *format, va_list args)
{
    /* The C library has a static object for "C": this allocates nothing. If it fails, a decimal comma is better than no
     * message. */
    const bool point = strcmp(xsmi_decimal_sign(), ".") == 0;
    const locale_t plain = point ? (locale_t)0 : newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!plain) {
        return vsnprintf(line, size, format, args);
    }
    const locale_t hosts = uselocale(plain);
    const int whole = vsnprintf(line, size, format, args);
    (void)uselocale(hosts);
    freelocale(plain);
    return whole;
}

static bool is_inside_character(char byte)
{
    return ((unsigned char)byte & 0xC0) == 0x80;
}

/* Messages begin with their subject, which can be a path of any length, and end with the reason. A message that is too
 * long keeps both ends, more of the second: the path's file name is next to the reason. */
static bool shorten_middle(char *line, size_t size, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));
static bool shorten_middle(char *line, size_t size, const char *format, va_list args)
{
    static const char gap[] = "...";
    char text[4 * PATH_MAX];
    const int whole = print(text, sizeof text, format, args);
    if (size < 16 * sizeof gap || whole < (int)size || whole >= (int)sizeof text) {
        return false;
    }
    size_t head = size / 6, tail = (size_t)whole - (size - sizeof gap - head);
    while (head > 0 && is_inside_character(text[head])) {
        head--;
    }
    while (is_inside_character(text[tail])) {
        tail++;
    }
    memcpy(line, text, head);
    memcpy(line + head, gap, sizeof gap - 1);
    memcpy(line + head + sizeof gap - 1, text + tail, (size_t)whole - tail + 1);
    return true;
}

void xsmi_format_line(char *line, size_t size, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int whole = print(line, size, format, args);
    bool cut = whole >= 0 && (size_t)whole >= size;
    if (cut && shorten_middle(line, size, format, again)) {
        whole = (int)strlen(line);
        cut = false;
    }
    va_end(again);
    if (whole < 0) {
        line[0] = '\0';
        return;
    }
    size_t length = cut ? size - 1 : (size_t)whole;
    unsigned char *text = (unsigned char *)line;
    for (size_t i = 0; i < length;) {
        size_t bytes = character_length(text + i, length - i);
        if (bytes == 0 && cut && length - i < 4 && text[i] >= 0xC2) {
            line[i] = '\0'; /* the character that did not fit completely */
            return;
        }
        if (bytes == 0) {
            text[i] = '?';
        } else if (text[i] < 0x20 || text[i] == 0x7F) {
            text[i] = ' ';
        }
        i += bytes ? bytes : 1;
    }
}

static void fill(xsm_error *err, xsm_status status, uint64_t line, uint64_t column, const char *format, va_list args)
    __attribute__((format(printf, 5, 0)));
static void fill(xsm_error *err, xsm_status status, uint64_t line, uint64_t column, const char *format, va_list args)
{
    size_t size = message_size(err);
    if (size == 0) {
        return; /* this is no xsm_error: write nothing */
    }
    err->status = status;
    err->line = line;
    err->column = column;
    xsmi_format_line(err->message, size, format, args);
}

void xsmi_clear_error(xsm_error *err)
{
    if (err && message_size(err) > 0) {
        err->status = XSM_OK;
        err->line = 0;
        err->column = 0;
        err->message[0] = '\0';
    }
}

xsm_status xsmi_fail(xsm_error *err, xsm_status status, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        fill(err, status, 0, 0, format, args);
        va_end(args);
    }
    return status;
}

xsm_status xsmi_fail_at(xsm_error *err, xsm_status status, uint64_t line, uint64_t column, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        fill(err, status, line, column, format, args);
        va_end(args);
    }
    return status;
}

xsm_status xsmi_fail_memory(xsm_error *err, uint64_t bytes, const char *what)
{
    if (bytes == 0 || bytes >= SIZE_MAX / 2) { /* a product that overflowed */
        return xsmi_fail(err, XSM_ERROR_MEMORY, "out of memory: more bytes than can be addressed for %s", what);
    }
    return xsmi_fail(err, XSM_ERROR_MEMORY, "out of memory: %llu bytes for %s", (unsigned long long)bytes, what);
}

xsm_status xsmi_need(const char *function, const xsmi_given *given, xsm_error *err)
{
    for (; given->name; given++) {
        if (!given->pointer) {
            return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s: %s is NULL", function, given->name);
        }
    }
    return XSM_OK;
}

xsm_status xsmi_fail_copy(xsm_error *err, const xsm_error *src)
{
    return xsmi_fail_at(err, src->status, src->line, src->column, "%s", src->message);
}
