/* Labels that look the same to people, and are different classes: `Cat` and `cat`, an accent in one character or in two
 * (Unicode's forms NFC and NFD), blanks of other kinds, characters that are not seen. */
#include "base/hash.h"
#include "base/utf8.h"
#include "data/dictionary.h"
#include "read/reader.h"

#include <string.h>

/* The small letters and accents (from U+0300, as letters from A) of U+00C0 to U+017F; +: a capital letter without an
 * accent; -: another character. */
static const char bases[] =
    "aaaaaa+ceeeeiiii+nooooo-+uuuuy+-aaaaaa-ceeeeiiii-nooooo--uuuuy-yaaaaaaccccccccdd+-eeeeeeeeeegggg"
    "gggghh+-iiiiiiiii-+-jjkk-llllll+-+-nnnnnn-+-oooooo+-rrrrrrsssssssstttt+-uuuuuuuuuuuuwwyyyzzzzzz-";
static const char marks[] =
    "ABCDIKAhABCIABCIADABCDIAAABCIBAAABCDIKAhABCIABCIADABCDIAAABCIBAIEEGGiiBBCCHHMMMMAAEEGGHHiiMMCCGG"
    "HHhhCCAADDEEGGiiHAAACChhABBhhMMAAAABBhhMMAAAEEGGLLAABBhhMMBBCChhMMhhMMAADDEEGGKKLLiiCCCCIBBHHMMA";
enum { FIRST = 0xC0, LAST = 0x17F, ACCENT = 0x300 };

/* Returns the next character of a text that ends with a zero byte. */
static uint32_t next(const char **text)
{
    const unsigned char first = (unsigned char)*(*text)++;
    uint32_t c = first < 0xC0 ? first : first < 0xE0 ? first & 0x1FU : first < 0xF0 ? first & 0x0FU : first & 0x07U;
    while (first >= 0xC0 && ((unsigned char)**text & 0xC0) == 0x80) {
        c = c << 6 | ((unsigned char)*(*text)++ & 0x3FU);
    }
    return c;
}

static bool is_wide_blank(uint32_t c)
{
    return c == 0xA0 || (c >= 0x2000 && c <= 0x200A) || c == 0x202F || c == 0x205F || c == 0x3000;
}

static bool is_unseen(uint32_t c)
{
    return c == 0xAD || (c >= 0x200B && c <= 0x200D) || c == 0x2060 || c == 0xFEFF;
}

static uint32_t small(uint32_t c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 0x391 && c <= 0x3A9) || (c >= 0x410 && c <= 0x42F) ? c + 0x20
           : c >= 0x400 && c <= 0x40F                                                         ? c + 0x50
                                                                                              : c;
}

/* Returns a hash that names have in common if they look alike. */
static uint64_t look(const char *name)
{
    uint64_t hash = 1;
    bool blank = false, any = false;
    while (*name) {
        const uint32_t c = next(&name);
        if (is_unseen(c)) {
            continue;
        }
        if (is_wide_blank(c) || (c <= ' ' && c > 0)) {
            blank = any;
            continue;
        }
        if (blank) {
            hash = xsmi_hash_mix(hash, ' ');
        }
        const char base = c >= FIRST && c <= LAST ? bases[c - FIRST] : '-';
        hash = xsmi_hash_mix(hash, base == '-' ? small(c) : base == '+' ? c + (c < 0x100 ? 0x20 : 1) : (uint32_t)base);
        if (base >= 'a') {
            hash = xsmi_hash_mix(hash, ACCENT + (uint32_t)(marks[c - FIRST] - 'A'));
        }
        blank = false;
        any = true;
    }
    return hash;
}

static bool has_words(const xsm_class_map *map)
{
    return map->names && !map->labels;
}

/* Adds the looks of a map's words; with match[], only finds those of words without a match. Counts the words that look
 * like an earlier one of the map `of` (NULL: this map); pair[] gets the first such two. */
static xsm_status compare(xsmi_dictionary *looks, const xsm_class_map *map, const xsm_class_map *of,
                          const uint32_t *match, uint32_t *count, const char *pair[2], xsm_error *err)
{
    for (uint32_t k = 0; k < map->classes; k++) {
        uint32_t id;
        const uint32_t before = looks->count;
        const int64_t hash = (int64_t)look(map->names[k]);
        XSMI_TRY(k % 4096 == 0 ? xsmi_go_on(looks->context, err) : XSM_OK);
        if (match && match[k] != XSM_CLASS_UNSEEN) {
            continue;
        }
        if (match) {
            id = xsmi_dictionary_find_number(looks, hash);
        } else {
            XSMI_TRY(xsmi_dictionary_number(looks, hash, &id, err));
            looks->entries[id].mark = id == before ? k : looks->entries[id].mark;
        }
        if (id < before && (*count)++ == 0) {
            pair[0] = (of ? of : map)->names[looks->entries[id].mark];
            pair[1] = map->names[k];
        }
    }
    return XSM_OK;
}

xsm_status xsmi_tell_alike(xsm_context *ctx, const char *path, const xsm_class_map *own, const xsm_class_map *known,
                           const uint32_t *match, xsm_error *err)
{
    xsmi_dictionary looks;
    uint32_t count = 0, ignored = 0;
    const char *pair[2] = {NULL, NULL}, *unused[2];
    char quotes[2][XSMI_QUOTE_SIZE];
    if (!has_words(own) || (known && !has_words(known))) {
        return XSM_OK;
    }
    xsmi_dictionary_start(&looks, ctx, false);
    xsm_status status = known ? compare(&looks, known, NULL, NULL, &ignored, unused, err) : XSM_OK;
    status = status == XSM_OK ? compare(&looks, own, known, match, &count, pair, err) : status;
    xsmi_dictionary_end(&looks);
    if (status == XSM_OK && count > 0) {
        xsmi_log(ctx, XSM_LOG_WARNING,
                 "%s: %u labels %s, the first is %s beside %s (capitals, accents, blanks that are not seen)", path,
                 count, known ? "that the class map lacks look like one that it has" : "look like another one",
                 xsmi_quote(quotes[1], pair[1], strlen(pair[1])), xsmi_quote(quotes[0], pair[0], strlen(pair[0])));
    }
    return status;
}
