/*
 * Where a container is: at a path, or in a storage of the host's. Writing goes through a table of functions; files have
 * one, and storages of hosts another.
 */
#ifndef XSMI_STORAGE_H
#define XSMI_STORAGE_H

#include "base/base.h"
#include "base/file.h"

#include <xsoftmax/buffer.h>

typedef struct xsmi_place {
    const char *name;           /* in messages; without a storage the path */
    const xsm_storage *storage; /* NULL: a file */
} xsmi_place;

/* Makes the place for a public function that reads or writes: the file `path`, or the host's struct, which is copied to
 * `known`. One of the two is NULL. `function` is for messages. */
xsm_status xsmi_place_to_read(const char *path, const xsm_storage *given, xsm_storage *known, const char *function,
                              xsmi_place *out, xsm_error *err);
xsm_status xsmi_place_to_write(const char *path, const xsm_storage *given, xsm_storage *known, const char *function,
                               xsmi_place *out, xsm_error *err);

/* Refuses release() of a storage whose bytes are needed for the call only. */
xsm_status xsmi_place_check_unlent(const xsmi_place *place, xsm_error *err);

/* Reads up to `size` > 0 bytes of a storage's source into `buffer`; *got is less at its end only. */
xsm_status xsmi_place_read(xsm_context *ctx, const xsmi_place *place, void *buffer, size_t size, size_t *got,
                           xsm_error *err);

typedef struct xsmi_sink_ops {
    xsm_status (*write)(void *state, const void *data, size_t size, xsm_error *err);
    /* Overwrites bytes written before, and returns to their end. */
    xsm_status (*rewrite)(void *state, uint64_t offset, const void *data, size_t size, xsm_error *err);
    /* Puts what was written in place, and releases the state whatever the result. */
    xsm_status (*commit)(void *state, xsm_error *err);
    /* Drops what was written, and releases the state. */
    void (*abandon)(void *state);
} xsmi_sink_ops;

typedef struct xsmi_sink {
    const xsmi_sink_ops *ops;
    void *state;
    bool forward; /* cannot rewrite */
} xsmi_sink;

/* Opens a place to write `bytes` bytes. A host's functions are called from the first write() on; nothing at the place
 * changes before commit(). */
xsm_status xsmi_sink_open(xsm_context *ctx, const xsmi_place *place, uint64_t bytes, xsmi_sink *out, xsm_error *err);

#endif
