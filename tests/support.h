/*
 * What tests share: an allocator that counts and fails on demand, and contexts that use it.
 */
#ifndef TEST_SUPPORT_H
#define TEST_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <xsoftmax.h>

/* Memory that is watched. Start with zeros. Not for contexts with several threads. */
typedef struct support_memory {
    size_t calls;   /* allocations asked for so far */
    size_t fail_at; /* the call (from 1) that fails, 0 = none */
    size_t blocks;  /* allocations that are still held */
    size_t bytes;   /* their size */
    bool defect;    /* a release with another size or alignment than the allocation's, or of another block */
} support_memory;

/* A context of one thread with the library's defaults otherwise; cpu_disable as in xsm_context_options. */
xsm_context *support_context(support_memory *memory, uint32_t cpu_disable);
/* A context of as many threads, with the C library's memory. */
xsm_context *support_threads(uint32_t threads);

/*
 * Calls `action(state)` with the first allocation failing, then the second, and so on until it gives XSM_OK; every
 * other result must be XSM_ERROR_MEMORY with a message and leave as many blocks held as before. action() must release
 * what it got when it succeeds.
 */
typedef xsm_status (*support_action)(void *state, xsm_context *context, xsm_error *err);
void support_fail_each(support_action action, void *state);

/* Path of a new empty folder, and its removal with all that is in it. */
char *support_folder(void);
void support_remove_folder(char *folder);
/* folder/name, in memory that free() takes. */
char *support_path(const char *folder, const char *name);
/* A file's contents in memory that free() takes. */
unsigned char *support_read(const char *path, size_t *size);
void support_write(const char *path, const void *data, size_t size);
/* Entries of a folder. */
size_t support_count_files(const char *folder);

#endif
