/* Labels of classes, for hosts. */
#include "base/entry.h"
#include "base/option.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <xsoftmax/dataset.h>

/* Copies the caller's map, which may be another release's; false for a map that no release has. */
static bool read_map(const xsm_class_map *given, xsm_class_map *map)
{
    *map = (xsm_class_map)XSM_CLASS_MAP_INIT;
    return given && XSMI_READ(xsm_class_map, map, given, NULL) == XSM_OK;
}

static int64_t number_of(const xsm_class_map *map, uint32_t k)
{
    return map->labels ? map->labels[k] : (int64_t)k;
}

size_t xsm_class_map_label(const xsm_class_map *given, uint32_t class_number, char *buffer, size_t size)
{
    xsm_class_map map;
    char number[24];
    const char *text = "";
    if (read_map(given, &map) && class_number < map.classes) {
        snprintf(number, sizeof number, "%" PRId64, number_of(&map, class_number));
        text = map.names ? map.names[class_number] : number;
    }
    const size_t length = strlen(text);
    if (buffer && size > 0) {
        const size_t fits = length < size ? length : size - 1;
        memcpy(buffer, text, fits);
        buffer[fits] = '\0';
    }
    return length;
}

static uint32_t find_number(const xsm_class_map *map, int64_t number)
{
    uint32_t low = 0, high = map->classes; /* labels rise */
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (number_of(map, middle) < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < map->classes && number_of(map, low) == number ? low : XSM_NO_CLASS;
}

uint32_t xsm_class_map_find(const xsm_class_map *given, const char *label)
{
    xsm_class_map map;
    int64_t number;
    if (!label || !read_map(given, &map)) {
        return XSM_NO_CLASS;
    }
    if (!map.names) {
        return xsmi_parse_int(label, &number) ? find_number(&map, number) : XSM_NO_CLASS;
    }
    for (uint32_t k = 0; k < map.classes; k++) {
        if (strcmp(map.names[k], label) == 0) {
            return k;
        }
    }
    return XSM_NO_CLASS;
}
