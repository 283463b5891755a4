/*
 * Memory in files: arrays that grow in a temporary file, and mappings of which a pass returns the pages that it has
 * read to the system, so that data may be larger than memory.
 */
#ifndef XSMI_SPOOL_H
#define XSMI_SPOOL_H

#include "base/base.h"
#include "base/file.h"

/* Bytes of mapped data that a pass may read before it returns their pages. */
#define XSMI_FORGET_BYTES ((size_t)256 << 20)

/* Returns a mapping's pages to the system. The next access reads them from the file again (mostly from the system's
 * cache). Contents are kept. Safe while other threads read. */
void xsmi_mapping_forget(const xsmi_mapping *mapping);

/* An array in an unnamed temporary file. Zeroed memory is an empty array without a file. */
typedef struct xsmi_spool {
    void *data;
    size_t bytes; /* mapped, all of them backed by blocks on the disk */
    int file;     /* descriptor + 1 */
    size_t since; /* bytes added since pages were last returned */
} xsmi_spool;

/* Reserves at least `bytes`; `folder` is where the file lies. `data` may move. On failure nothing has changed. */
xsm_status xsmi_spool_grow(xsmi_spool *s, const char *folder, size_t bytes, xsm_error *err);
/* Transfers the memory to the caller as a mapping, with the file. */
xsmi_mapping xsmi_spool_move(xsmi_spool *s);
void xsmi_spool_end(xsmi_spool *s);

#endif
