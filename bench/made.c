#include "made.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t made_bits(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

uint64_t made_stream(double seed, uint64_t kind, uint64_t index)
{
    uint64_t state = (uint64_t)seed * 3 + kind;
    state = made_bits(&state) + index;
    return made_bits(&state);
}

double made_uniform(uint64_t *state)
{
    return (double)(made_bits(state) >> 11) * 0x1p-53;
}

uint32_t made_below(uint64_t *state, uint32_t n)
{
    return (uint32_t)(made_uniform(state) * n);
}

uint32_t made_draw(uint64_t *state, const double *reach, uint32_t count)
{
    const double at = made_uniform(state) * reach[count - 1];
    uint32_t low = 0, high = count - 1;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (reach[middle] > at) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

int made_rising(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The number that a word names; `count` if it names none. */
static size_t find(const char *word, const char *equals, const made_number *numbers, size_t count)
{
    const size_t length = equals ? (size_t)(equals - word) : 0;
    size_t n = 0;
    while (n < count && (!equals || strlen(numbers[n].name) != length || strncmp(numbers[n].name, word, length) != 0)) {
        n++;
    }
    return n;
}

int made_read(int argc, char **argv, const char *program, const made_number *numbers, size_t count)
{
    for (int i = 2; i < argc; i++) {
        const char *equals = strchr(argv[i], '=');
        char *end = NULL;
        const size_t n = find(argv[i], equals, numbers, count);
        if (n == count) {
            fprintf(stderr, "%s: '%s' is no NAME=NUMBER of:", program, argv[i]);
            for (size_t k = 0; k < count; k++) {
                fprintf(stderr, " %s=%.10g", numbers[k].name, *numbers[k].value);
            }
            fputc('\n', stderr);
            return 0;
        }
        const double value = strtod(equals + 1, &end);
        if (end == equals + 1 || *end || !(value >= numbers[n].least && value <= numbers[n].most)) {
            fprintf(stderr, "%s: %s: a number from %.10g to %.10g is accepted\n", program, argv[i], numbers[n].least,
                    numbers[n].most);
            return 0;
        }
        *numbers[n].value = value;
    }
    return 1;
}
