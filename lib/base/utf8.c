/* UTF-8 checking and quoting. */
#include "base/utf8.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Length of the character at p, 0 if it is invalid (overlong forms and surrogates included). */
static size_t character(const unsigned char *p, size_t length)
{
    uint32_t code;
    size_t size;
    if (p[0] < 0x80) {
        return p[0] != 0;
    }
    if (p[0] >= 0xC2 && p[0] < 0xE0) {
        size = 2;
        code = p[0] & 0x1F;
    } else if ((p[0] & 0xF0) == 0xE0) {
        size = 3;
        code = p[0] & 0x0F;
    } else if (p[0] >= 0xF0 && p[0] < 0xF5) {
        size = 4;
        code = p[0] & 0x07;
    } else {
        return 0;
    }
    if (size > length) {
        return 0;
    }
    for (size_t i = 1; i < size; i++) {
        if ((p[i] & 0xC0) != 0x80) {
            return 0;
        }
        code = code << 6 | (p[i] & 0x3F);
    }
    if ((size == 3 && (code < 0x800 || (code >= 0xD800 && code < 0xE000))) ||
        (size == 4 && (code < 0x10000 || code > 0x10FFFF))) {
        return 0;
    }
    return size;
}

size_t xsmi_utf8_prefix(const char *text, size_t length)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t done = 0;
    while (done < length) {
        size_t size = character(p + done, length - done);
        if (size == 0) {
            break;
        }
        done += size;
    }
    return done;
}

/* Returns the bytes that one U+FFFD stands for: the start of a character, as far as it goes, or a byte that starts
 * none. */
static size_t bad_length(const unsigned char *p, size_t length)
{
    const size_t size = p[0] < 0xC2 || p[0] > 0xF4 ? 1 : p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    const unsigned char least = p[0] == 0xE0 ? 0xA0 : p[0] == 0xF0 ? 0x90 : 0x80;
    const unsigned char most = p[0] == 0xED ? 0x9F : p[0] == 0xF4 ? 0x8F : 0xBF;
    size_t i = 1;
    while (i < size && i < length && p[i] >= (i == 1 ? least : 0x80) && p[i] <= (i == 1 ? most : 0xBF)) {
        i++;
    }
    return i;
}

size_t xsmi_utf8_mend(const char *text, size_t length, char *copy, uint64_t *replaced)
{
    size_t used = 0;
    *replaced = 0;
    for (size_t at = 0; at < length;) {
        const size_t valid = xsmi_utf8_prefix(text + at, length - at);
        memcpy(copy + used, text + at, valid);
        used += valid;
        at += valid;
        if (at < length) {
            memcpy(copy + used, "\xEF\xBF\xBD", 3);
            used += 3;
            at += bad_length((const unsigned char *)text + at, length - at);
            ++*replaced;
        }
    }
    return used;
}

const char *xsmi_quote(char *quote, const char *text, size_t length)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t used = 0;
    size_t done = 0;
    quote[used++] = '\'';
    /* The longest piece is \xNN; "..." and the closing quote follow. */
    while (done < length && used + 4 + 5 <= XSMI_QUOTE_SIZE) {
        size_t size = character(p + done, length - done);
        if (size == 0 || p[done] < 0x20 || p[done] == 0x7F) {
            used += (size_t)snprintf(quote + used, 5, "\\x%02X", p[done]);
            done++;
        } else {
            memcpy(quote + used, p + done, size);
            used += size;
            done += size;
        }
    }
    memcpy(quote + used, done < length ? "...'" : "'", done < length ? 5 : 2);
    return quote;
}
