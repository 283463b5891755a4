/*
 * What the fuzz targets share. A target is LLVMFuzzerTestOneInput(): it does something with an input, and aborts where
 * that shows a fault. Built with -Dfuzzers=true clang's libFuzzer calls it (tests/fuzz.sh); else main() replays files.
 */
#ifndef XSM_FUZZ_H
#define XSM_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/buffer.h>
#include <xsoftmax/dataset.h>
#include <xsoftmax/error.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Says what does not hold, and aborts. */
void fuzz_require(bool holds, const char *what);
/* A call that failed must have said why, in one line. */
void fuzz_require_reason(xsm_status status, const xsm_error *err);

/* Replays the files that are named, and those of folders that are named; with `prefixes`, each prefix of them too. Each
 * input lies in memory of its own size, so that a sanitizer sees a read beyond its end. For main(): returns 0 when
 * there was at least one. */
int fuzz_replay(int argc, char **argv, bool prefixes);

/* The next number of a sequence: small ones, floats of all sizes, and any bits. */
uint32_t fuzz_number(uint64_t *state);

/* Bytes as a source that hands out at most `step` at a time. */
typedef struct fuzz_bytes {
    const uint8_t *data;
    size_t left, step;
} fuzz_bytes;
xsm_source fuzz_source(fuzz_bytes *bytes);
/* The same as a storage that messages call `called`. */
#define FUZZ_BYTES(bytes, called)                                                                                      \
    (&(xsm_storage){.size = sizeof(xsm_storage), .name = (called), .source = (xsm_source[]){fuzz_source(bytes)}})

/* A new buffer, which the caller frees; a storage over it: what is written there, or what was. */
xsm_buffer *fuzz_buffer(xsm_context *ctx);
xsm_storage fuzz_storage(xsm_buffer *buffer);
/* Reads rows that are in order from text. */
xsm_dataset *fuzz_read_rows(xsm_context *ctx, const char *text, const xsm_read_options *options);

/* A folder of this process's own, in memory where /dev/shm is; removed with its files when the process ends. */
const char *fuzz_folder(void);
/* The path of a file in that folder; valid until the next call. */
const char *fuzz_path(const char *name);
/* Writes a file there. */
void fuzz_write(const char *name, const void *data, size_t size);
/* Reads a file there; the bytes are the caller's to free. */
uint8_t *fuzz_read(const char *name, size_t *size);
/* Removes the files that lie there. */
void fuzz_clear(void);

/* Every row within its bounds, every number in its range. */
void fuzz_walk(const xsm_dataset *d);
/* The same text against the vocabulary and classes that it has given is the same rows. */
void fuzz_read_again(const xsm_dataset *d, const uint8_t *data, size_t size);

#endif
