/*
 * One block of scratch memory, divided into arrays. The same code counts the bytes and, with memory, divides it.
 */
#ifndef XSMI_ARENA_H
#define XSMI_ARENA_H

#include "base/base.h"

/* Pieces of one block of scratch memory, each aligned to XSMI_ALIGNMENT. With base NULL it only counts. */
typedef struct xsmi_arena {
    unsigned char *base;
    size_t used; /* SIZE_MAX = more than can be counted */
} xsmi_arena;

static inline void *xsmi_arena_take(xsmi_arena *arena, uint64_t count, size_t each)
{
    size_t bytes;
    size_t start = arena->used;
    if (start == SIZE_MAX || !xsmi_multiply(count, each, &bytes) || bytes > SIZE_MAX / 4 || start > SIZE_MAX / 4) {
        arena->used = SIZE_MAX;
        return NULL;
    }
    arena->used = start + (bytes + XSMI_ALIGNMENT - 1) / XSMI_ALIGNMENT * XSMI_ALIGNMENT;
    return arena->base ? arena->base + start : NULL;
}

#endif
