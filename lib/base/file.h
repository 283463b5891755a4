/*
 * Files: mapping or reading one, and replacing one so that a crash leaves either the old or the new file.
 */
#ifndef XSMI_FILE_H
#define XSMI_FILE_H

#include "base/base.h"

typedef struct xsmi_mapping {
    const unsigned char *data; /* never NULL when mapped, also for an empty file */
    size_t size;
    xsm_context *owner;     /* a reference to the context whose memory this is; NULL: a file's pages */
    uint64_t device, inode; /* of the file */
} xsmi_mapping;

/* Maps a regular file for reading. Errors name the path and the system's reason. */
xsm_status xsmi_map_file(const char *path, xsmi_mapping *out, xsm_error *err);
/* Makes a mapping of a context's memory in place of a file's pages, aligned to XSMI_ALIGNMENT; returns its bytes, or
 * NULL when there is no memory. */
unsigned char *xsmi_map_memory(xsm_context *ctx, size_t size, xsmi_mapping *out);
/* Whether `path` is the mapped file, by whatever name. */
bool xsmi_is_mapped(const xsmi_mapping *mapping, const char *path);
void xsmi_unmap_file(xsmi_mapping *mapping);

/* Opens a regular file of `size` bytes to read pieces of it; errors are those of xsmi_map_file(). */
xsm_status xsmi_read_open(const char *path, int *fd, size_t *size, xsm_error *err);
/* Reads `size` bytes from `offset` on; *got is less at the file's end only. */
xsm_status xsmi_read_at(int fd, const char *path, uint64_t offset, void *to, size_t size, size_t *got, xsm_error *err);
/* Closes it; -1 is allowed. */
void xsmi_read_close(int fd);

/* A file being written beside `path`; nothing at `path` changes before xsmi_replace_commit(). A path that is no regular
 * file (/dev/null, /dev/full, a pipe) is written in place. Where the system supports it, the file has no name until it
 * is complete, so that a killed process leaves nothing behind. */
typedef struct xsmi_replace xsmi_replace;
xsm_status xsmi_replace_open(xsm_context *ctx, const char *path, xsmi_replace **out, xsm_error *err);
xsm_status xsmi_replace_write(xsmi_replace *file, const void *data, size_t size, xsm_error *err);
/* Whether bytes written before cannot be overwritten: it is a pipe. */
bool xsmi_replace_forward(const xsmi_replace *file);
/* Overwrites bytes written before, for a header that is known last. */
xsm_status xsmi_replace_rewrite(xsmi_replace *file, uint64_t offset, const void *data, size_t size, xsm_error *err);
/* Syncs, renames over `path`, syncs the folder, and releases `file` whatever the result. */
xsm_status xsmi_replace_commit(xsmi_replace *file, xsm_error *err);
/* Whether both will replace the same file, by whatever paths; false for files written in place. NULL is allowed. */
bool xsmi_replace_same(const xsmi_replace *a, const xsmi_replace *b);
/* Removes what was written and releases `file`; NULL is allowed. */
void xsmi_replace_abandon(xsmi_replace *file);

#endif
