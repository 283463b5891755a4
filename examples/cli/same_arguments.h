/*
 * The arguments of ranks: whether all are given those of rank 0. Ranks with others would wait for each other. For
 * programs that run as ranks, with the rest of the command or without.
 */
#ifndef SAME_ARGUMENTS_H
#define SAME_ARGUMENTS_H

#define XSM_EXPERIMENTAL
#include <stddef.h>
#include <xsoftmax/ext/comm.h>

typedef enum {
    ARGUMENTS_SAME,
    ARGUMENTS_UNLIKE,    /* those of this rank are: what others have may be the same */
    ARGUMENTS_NO_MEMORY, /* on a rank: all get this */
    ARGUMENTS_LOST       /* the other ranks cannot be reached */
} arguments_result;

typedef struct arguments {
    int count;
    char **values;          /* [count] as main() gets them: the first is no argument */
    const char *const *own; /* flags that ranks may have of their own, with their values; ended by NULL */
} arguments;

/* Compares the arguments with rank 0's; a call that all ranks of the group make. Unless they are the same, `message`
 * gets the reason, as much as there is room for. */
arguments_result same_arguments(const xsm_comm *group, const arguments *a, char *message, size_t size);

#endif
