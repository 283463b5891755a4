/*
 * Compares the command-line arguments of ranks: ranks with different ones would wait for each other. For the command,
 * and for other programs that run as ranks.
 */
#ifndef SAME_ARGUMENTS_H
#define SAME_ARGUMENTS_H

#define XSM_EXPERIMENTAL
#include <stddef.h>
#include <xsoftmax/ext/comm.h>

typedef enum {
    ARGUMENTS_SAME,
    ARGUMENTS_UNLIKE,    /* this rank's are not rank 0's; other ranks may get another result */
    ARGUMENTS_NO_MEMORY, /* on some rank; all ranks get this result */
    ARGUMENTS_LOST       /* the other ranks cannot be reached */
} arguments_result;

typedef struct arguments {
    int count;
    char **values;          /* [count] as main() gets them, the program's name first */
    const char *const *own; /* flags with a value that may differ among ranks; ended by NULL */
} arguments;

/* Compares the arguments with rank 0's; all ranks of the group must call it. Unless they are the same, `message` gets
 * the reason, cut to `size` bytes. */
arguments_result same_arguments(const xsm_comm *group, const arguments *a, char *message, size_t size);

#endif
