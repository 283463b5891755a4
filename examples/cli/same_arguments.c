/* Comparing the arguments of ranks: see same_arguments.h. */
#include "same_arguments.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number of arguments, with its value, of a flag in `own` that stands at `at`; 0 if none stands there. */
static int count_own(const arguments *a, int at)
{
    for (size_t i = 0; a->own[i]; i++) {
        const size_t length = strlen(a->own[i]);
        if (strncmp(a->values[at], a->own[i], length) == 0) {
            switch (a->values[at][length]) {
            case '\0':
                return 2;
            case '=':
                return 1;
            default:
                break;
            }
        }
    }
    return 0;
}

/* The first argument from `at` on that is compared; a->count if there is none. */
static int next(const arguments *a, int at)
{
    int own = 1;
    while (at < a->count && own > 0) {
        own = count_own(a, at);
        at += own;
    }
    return at < a->count ? at : a->count;
}

/* Compares the arguments with rank 0's, which are in first[bytes], each ended by a zero. */
static arguments_result compare(const arguments *a, const char *first, uint64_t bytes, char *message, size_t size)
{
    const char *end = first + bytes;
    int at = next(a, 1);
    while (at < a->count && first < end && strcmp(a->values[at], first) == 0) {
        at = next(a, at + 1);
        first += strlen(first) + 1;
    }
    if (at == a->count && first == end) {
        return ARGUMENTS_SAME;
    }
    const int more = at < a->count, others = first < end;
    snprintf(message, size, "argument %d is %s%s%s, and on rank 0 %s%s%s; all ranks are to have the same", at,
             more ? "'" : "", more ? a->values[at] : "missing", more ? "'" : "", others ? "'" : "",
             others ? first : "missing", others ? "'" : "");
    return ARGUMENTS_UNLIKE;
}

arguments_result same_arguments(const xsm_comm *group, const arguments *a, char *message, size_t size)
{
    const int leads = group->rank == 0;
    uint64_t bytes = 0;
    for (int i = next(a, 1); leads && i < a->count; i = next(a, i + 1)) {
        bytes += strlen(a->values[i]) + 1;
    }
    snprintf(message, size, "the other ranks cannot be reached any more");
    if (group->broadcast(group->user, &bytes, sizeof bytes, 0) != 0) {
        return ARGUMENTS_LOST;
    }
    char *first = calloc((size_t)bytes + 1, 1), *to = first;
    for (int i = next(a, 1); leads && first && i < a->count; i = next(a, i + 1)) {
        const size_t length = strlen(a->values[i]) + 1;
        memcpy(to, a->values[i], length);
        to += length;
    }
    float failed = !first;
    arguments_result result = ARGUMENTS_LOST;
    if (group->max_f32(group->user, &failed, 1) == 0) {
        if (failed > 0) {
            snprintf(message, size, "out of memory");
            result = ARGUMENTS_NO_MEMORY;
        } else if (group->broadcast(group->user, first, (size_t)bytes, 0) == 0) {
            result = compare(a, first, bytes, message, size);
        }
    }
    free(first);
    return result;
}
