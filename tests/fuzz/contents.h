/*
 * What a safetensors file consists of, to be changed piece by piece and written again as a file that is in order, with
 * a checksum that is right: an attacker computes it, too.
 *
 * An input of a structured target: its first byte says which file is changed, the second what becomes of the bytes as a
 * whole; then each eight bytes are a change: what is changed, which tensor or entry, a place (two bytes) and a number
 * (four).
 */
#ifndef XSM_FUZZ_CONTENTS_H
#define XSM_FUZZ_CONTENTS_H

#include "base/safetensors.h"
#include "fuzz.h"

enum { FUZZ_TENSORS = 64, FUZZ_ENTRIES = 128, FUZZ_CHANGE = 8 };

typedef struct fuzz_contents {
    size_t tensor_count, entry_count;
    xsmi_tensor tensors[FUZZ_TENSORS]; /* in the file's order */
    uint8_t *data[FUZZ_TENSORS];
    char *names[FUZZ_TENSORS];
    char *keys[FUZZ_ENTRIES], *values[FUZZ_ENTRIES];
} fuzz_contents;

/* Bytes that begin at a multiple of 8 and end where their block does, so that a sanitizer sees a read beyond them. */
typedef struct fuzz_file {
    unsigned char *block, *bytes;
    size_t size;
} fuzz_file;

/* Reads a file that is in order; the contents are the caller's to free. */
void fuzz_contents_read(xsm_context *ctx, const xsm_storage *saved, fuzz_contents *c);
void fuzz_contents_free(fuzz_contents *c);
/* The file that an input makes of contents, which stay as they are. False where these cannot be a file. */
bool fuzz_contents_make(xsm_context *ctx, const fuzz_contents *c, const uint8_t *data, size_t size, fuzz_file *out);
void fuzz_file_free(fuzz_file *f);
/* A storage over it, called "input". */
xsm_storage fuzz_file_storage(const fuzz_file *f);

/* Inputs of one to four changes, the same ones each time, for targets that are built without a fuzzer; 20 times as many
 * with $XSM_TEST_FULL. */
void fuzz_contents_run(uint32_t count);

#endif
