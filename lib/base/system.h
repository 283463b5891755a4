/*
 * What systems have beyond C11 and POSIX.1-2008, each with a portable replacement.
 *
 * meson.build here asks the compiler for each feature and writes the answers to config.h, which is included here and
 * nowhere else. With the option `portable` every answer is no.
 */
#ifndef XSMI_SYSTEM_H
#define XSMI_SYSTEM_H

#include <float.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"

#if FLT_EVAL_METHOD != 0
#error float must be computed as float, or results would have other bits: see meson.build
#endif

/* Returns the system's text for an error number, without strerror()'s shared buffer. It may be stored in `buffer`. */
const char *xsmi_error_text(int number, char *buffer, size_t size);

/* Processors that this process may run on, at least 1; 1 where the system does not say. */
uint32_t xsmi_processors(void);

/* Returns a number for the name of a new file. Another process is unlikely to use the same one; if open() or linkat()
 * reports that the name exists, call this again with the next `attempt`. */
uint64_t xsmi_name_number(uint32_t attempt);

/* Opens a new file in `folder` that has no name, for `flags` (O_WRONLY or O_RDWR). -1 with an errno for which
 * xsmi_lacks_nameless() holds where the folder or the system has no such files. */
int xsmi_open_nameless(const char *folder, int flags, unsigned mode);
bool xsmi_lacks_nameless(int number);
/* Names such a file; EEXIST if the name is in use. Returns 0, or -1 with errno. */
int xsmi_name_nameless(int fd, const char *name);
/* Whether xsmi_name_nameless() can work here. */
bool xsmi_can_name_nameless(int fd);

/* Starts writing bytes [from, to) of a file to the disk, and waits until those of [before, from) are there, so that
 * fsync() at the end has little left to do. Advice: a system may do nothing. */
void xsmi_write_back(int fd, uint64_t before, uint64_t from, uint64_t to);
/* Backs bytes [from, to) at a file's end by blocks of the disk: 0, or an error number. */
int xsmi_reserve_blocks(int fd, uint64_t from, uint64_t to);
/* Maps `bytes` of the file to read and write, in place of its mapping of old_bytes (NULL for none), which may move.
 * NULL with errno when that fails; the old mapping is then as it was. */
void *xsmi_remap(int fd, void *old, size_t old_bytes, size_t bytes);

/* Advice, which a system may ignore. Memory that is read at random is better off on huge pages. */
void xsmi_advise_huge(void *memory, size_t bytes);
/* Tells the system that it may drop the pages of a mapped file, whose contents are in the file. */
void xsmi_advise_forget(const void *memory, size_t bytes);

/* a * b as a 128-bit number. */
static inline void xsmi_multiply_wide(uint64_t a, uint64_t b, uint64_t *high, uint64_t *low)
{
#if XSMI_HAVE_INT128
    __extension__ typedef unsigned __int128 wide;
    const wide product = (wide)a * b;
    *high = (uint64_t)(product >> 64);
    *low = (uint64_t)product;
#else
    const uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
    const uint64_t least = a0 * b0, left = a1 * b0, right = a0 * b1;
    const uint64_t middle = (least >> 32) + (uint32_t)left + (uint32_t)right; /* below 3 * 2^32 */
    *high = a1 * b1 + (left >> 32) + (right >> 32) + (middle >> 32);
    *low = middle << 32 | (uint32_t)least;
#endif
}

#endif
