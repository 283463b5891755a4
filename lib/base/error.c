/* Statuses and error messages. */
#include "base/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

/* An error struct of a program built against another release may be shorter or longer than ours: the members up to
 * `message` are there from the first release on, the message takes what is left. */
static size_t message_room(const xsm_error *err)
{
    size_t start = offsetof(xsm_error, message);
    return err->size > start ? err->size - start : 0;
}

static void fill(xsm_error *err, xsm_status status, uint64_t line, uint64_t column, const char *format, va_list args)
{
    size_t room = message_room(err);
    if (room == 0) {
        return; /* not an xsm_error at all: write nothing */
    }
    err->status = status;
    err->line = line;
    err->column = column;
    int length = vsnprintf(err->message, room, format, args);
    if (length < 0) {
        err->message[0] = '\0';
        return;
    }
    if ((size_t)length >= room) {
        /* Cut before the first byte of a UTF-8 character that does not fit whole. */
        size_t end = room - 1;
        size_t start = end;
        while (start > 0 && ((unsigned char)err->message[start - 1] & 0xC0) == 0x80) {
            start--;
        }
        if (start > 0) {
            unsigned char lead = (unsigned char)err->message[start - 1];
            size_t needed = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
            end = end - (start - 1) >= needed ? end : start - 1;
        }
        err->message[end] = '\0';
    }
    for (char *c = err->message; *c; c++) {
        if (*c == '\n' || *c == '\r') {
            *c = ' '; /* one line is promised; paths and labels can hold anything */
        }
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

xsm_status xsmi_fail_memory(xsm_error *err, size_t bytes, const char *what)
{
    return xsmi_fail(err, XSM_ERROR_MEMORY, "out of memory: %zu bytes for %s", bytes, what);
}

xsm_status xsmi_fail_copy(xsm_error *err, const xsm_error *src)
{
    return xsmi_fail_at(err, src->status, src->line, src->column, "%s", src->message);
}
