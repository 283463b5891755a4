/*
 * Memory that is a file's: arrays that grow in a temporary file instead of in memory, and mappings whose pages are
 * given back to the system behind a pass, so that data larger than memory go by without staying.
 */
#ifndef XSMI_SPOOL_H
#define XSMI_SPOOL_H

#include "base/base.h"
#include "base/file.h"

/* Bytes of mapped data that a pass may leave behind itself before it gives them back. */
#define XSMI_FORGET_BYTES ((size_t)256 << 20)

/* Gives a mapping's pages back; they are read again from the file (mostly the system's cache) when they are next
 * touched. Contents stay. Safe while others read. */
void xsmi_mapping_forget(const xsmi_mapping *mapping);

/* An array in a temporary file without a name; zeroed memory is an empty one without a file. */
typedef struct xsmi_spool {
    void *data;
    size_t bytes; /* mapped, all of them backed by blocks on the disk */
    int file;     /* descriptor + 1 */
    size_t since; /* bytes added since pages were last given back */
} xsmi_spool;

/* Makes room for `bytes`, with some to spare; `folder` is where the file lies. data may move. On failure nothing has
 * changed. */
xsm_status xsmi_spool_grow(xsmi_spool *s, const char *folder, size_t bytes, xsm_error *err);
/* Hands the memory over as a mapping; the file goes with it. */
xsmi_mapping xsmi_spool_take(xsmi_spool *s);
void xsmi_spool_end(xsmi_spool *s);

#endif
