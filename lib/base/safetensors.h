/*
 * The container of models, checkpoints and caches: safetensors (huggingface.co/docs/safetensors), which Python reads
 * without code of this library.
 *
 *     8 bytes     N, length of the header, little-endian
 *     N bytes     JSON: {"__metadata__": {key: text, ...},
 *                        name: {"data_offsets": [begin, end], "dtype": "F32", "shape": [rows, columns]}, ...},
 *                 padded with spaces
 *     the rest    the tensors' data, one after the other, without holes (the format forbids them)
 *
 * The library adds three metadata entries: `format_version` ("1"); `library`, the release that wrote the file;
 * `checksum`, 16 hexadecimal digits. A file with neither version nor checksum was written by another program. It is
 * accepted, but its contents cannot be verified.
 *
 * The checksum stays right when another program saves the same contents with another header and tensors in another
 * order. It is the sum modulo 2^64, over all tensors and all metadata entries but `checksum` and `format` (which
 * libraries of Python add), of chained XXH3-64, where the hash of one text is the seed of the next and the first seed
 * is 0: of a tensor those of its name, its dtype's name, its shape (each dimension in 8 bytes) and its data; of an
 * entry those of key and value.
 */
#ifndef XSMI_SAFETENSORS_H
#define XSMI_SAFETENSORS_H

#include "base/base.h"
#include "base/file.h"
#include "base/storage.h"

/* The dtypes of the format: those that the library uses, and those that only tensors of hosts (model/host_tensors.h)
 * have. */
typedef enum xsmi_dtype {
    XSMI_DTYPE_U8,
    XSMI_DTYPE_U16,
    XSMI_DTYPE_I32,
    XSMI_DTYPE_U32,
    XSMI_DTYPE_F32,
    XSMI_DTYPE_I64,
    XSMI_DTYPE_U64,
    XSMI_DTYPE_F64,
    XSMI_DTYPE_BOOL,
    XSMI_DTYPE_I8,
    XSMI_DTYPE_F8_E4M3,
    XSMI_DTYPE_F8_E5M2,
    XSMI_DTYPE_I16,
    XSMI_DTYPE_F16,
    XSMI_DTYPE_BF16
} xsmi_dtype;
#define XSMI_DTYPE_NAMES "BOOL, U8, I8, F8_E4M3, F8_E5M2, U16, I16, F16, BF16, U32, I32, F32, U64, I64 and F64"

/* Most dimensions of a tensor. */
#define XSMI_TENSOR_RANK 8

/* The part of a tensor that is read: the tensor is cut into lines of `line` bytes, and of each line the bytes from
 * `from` to `to` are read. One line, from 0 to the tensor's size, is all of it. */
typedef struct xsmi_tensor_part {
    size_t line, from, to;
} xsmi_tensor_part;

typedef struct xsmi_tensor {
    const char *name;
    xsmi_dtype dtype;
    uint32_t rank;
    uint64_t shape[XSMI_TENSOR_RANK];
    size_t size;               /* bytes; set by reading, computed from the shape in writing */
    size_t begin;              /* its first byte in the file; set by reading */
    const unsigned char *data; /* aligned to the dtype's size; NULL in writing */
    xsmi_tensor_part part;     /* of a tensor that was read: the part in `data`, without holes */
    bool known;                /* of a tensor that was read: xsmi_container_tensor() was called for it */
} xsmi_tensor;

/* Returns the bytes of `data` of a tensor that was read. */
static inline size_t xsmi_tensor_kept(const xsmi_tensor *t)
{
    return t->part.line ? t->size / t->part.line * (t->part.to - t->part.from) : 0;
}

typedef struct xsmi_entry {
    const char *key, *value;
} xsmi_entry;

/* Metadata that only the container writes; XSMI_KEY_FORMAT is what others add. */
#define XSMI_KEY_VERSION "format_version"
#define XSMI_KEY_LIBRARY "library"
#define XSMI_KEY_CHECKSUM "checksum"
#define XSMI_KEY_FORMAT "format"

/* Metadata that marks a model's file as a checkpoint, with the version of the checkpoint's additions. */
#define XSMI_KEY_DATASET "dataset" /* of caches of rows, */
#define XSMI_KEY_INDEX "index"
#define XSMI_KEY_SAMPLER "sampler"
#define XSMI_KEY_CHECKPOINT "checkpoint"

/* -- reading (safetensors_read.c) ---------------------------------------------------------------------------------- */

typedef struct xsmi_container xsmi_container;

/* How a container is opened. */
typedef struct xsmi_open_how {
    bool believe; /* do not compare the checksum */
    bool copy;    /* into memory of the context, in place of mapping a file or using a storage's bytes */
    /* NULL, or sets `part`, at first the whole tensor, to what is read of it, into memory of the context. Lines must
     * divide the tensor, and parts begin and end at its elements. The rest is only read for the checksum, in pieces. If
     * all of every tensor is chosen, the container is opened as with NULL. */
    void (*choose)(const void *chooser, const xsmi_tensor *t, xsmi_tensor_part *part);
    const void *chooser;
} xsmi_open_how;

/* Opens a container: maps a file, uses a storage's bytes in place, or reads a source to the container's end. Checks the
 * whole structure and the checksum. Messages start with the place's name. */
xsm_status xsmi_container_open_at(xsm_context *ctx, const xsmi_place *place, xsmi_open_how how, xsmi_container **out,
                                  xsm_error *err);
/* As xsmi_container_open_at(), for the file at a path, which is mapped. */
xsm_status xsmi_container_open(xsm_context *ctx, const char *path, bool verify, xsmi_container **out, xsm_error *err);
/* Releases it, with its mapping; NULL is allowed. */
void xsmi_container_close(xsmi_container *c);
/* Returns the tensor of that name, or NULL; valid until the container is closed. */
const xsmi_tensor *xsmi_container_tensor(const xsmi_container *c, const char *name);
const xsmi_tensor *xsmi_container_tensor_at(const xsmi_container *c, size_t index);
/* xsmi_container_check_known() refuses a file with a tensor for which xsmi_container_tensor() was not called: a later
 * release's file, which would be read only in part. xsmi_container_know() counts tensors whose names begin with a
 * prefix as asked for. `what` is the kind of file. */
void xsmi_container_know(const xsmi_container *c, const char *prefix);
xsm_status xsmi_container_check_known(const xsmi_container *c, const char *name, const char *what, xsm_error *err);
/* Returns the entries of the metadata by number, the container's own included; and the text of an entry by its key,
 * NULL if it is not there. */
const xsmi_entry *xsmi_container_metadata_at(const xsmi_container *c, size_t index);
const char *xsmi_container_metadata(const xsmi_container *c, const char *key);
/* Returns what kind of file of the library's it is, as "a cache of rows"; NULL: another kind, or another program's. */
const char *xsmi_container_kind(const xsmi_container *c);
/* Transfers the mapping to the caller; the data of tensors that were read whole then live as long as the mapping, those
 * of others as long as the container. It is empty where a storage's bytes are used in place. */
xsmi_mapping xsmi_container_detach_mapping(xsmi_container *c);

/* -- writing (safetensors.c) --------------------------------------------------------------------------------------- */

typedef struct xsmi_container_writer xsmi_container_writer;

/* What a file will contain. */
typedef struct xsmi_container_plan {
    const xsmi_tensor *tensors; /* [count] in the order of their data; each must begin at a multiple of its dtype's
                                   size, so those of larger dtypes come first */
    size_t count;
    size_t aligned;             /* number of the tensor that begins at a multiple of XSMI_ALIGNMENT in the file */
    const xsmi_entry *metadata; /* [metadata_count]; keys are distinct and none of the container's own */
    size_t metadata_count;
} xsmi_container_plan;

/* Begins a file beside a path, or a storage's next contents. The tensors' data follow. */
xsm_status xsmi_container_create_at(xsm_context *ctx, const xsmi_place *place, const xsmi_container_plan *plan,
                                    xsmi_container_writer **out, xsm_error *err);
/* As xsmi_container_create_at(), at a path. */
xsm_status xsmi_container_create(xsm_context *ctx, const char *path, const xsmi_container_plan *plan,
                                 xsmi_container_writer **out, xsm_error *err);
/* Writes the next bytes of the tensors' data. Does nothing if w is NULL: another process writes the file. */
xsm_status xsmi_container_write(xsmi_container_writer *w, const void *data, size_t size, xsm_error *err);
/* Returns the bytes that all calls of xsmi_container_write() will write: those of the tensors, twice for a storage that
 * cannot be rewritten. */
uint64_t xsmi_container_expected(const xsmi_container_writer *w);
/* Puts the file in place once all data are written, and releases `w` whatever the result. */
xsm_status xsmi_container_commit(xsmi_container_writer *w, xsm_error *err);
/* Leaves what is at the place unchanged and releases `w`; NULL is allowed. */
void xsmi_container_abandon(xsmi_container_writer *w);
/* Writes a whole container: calls `put` for the data, then commits. Calls `put` twice where nothing can be rewritten,
 * because the checksum comes before the data. Releases `w` whatever the result. */
typedef xsm_status (*xsmi_container_put)(const void *contents, xsmi_container_writer *w, xsm_error *err);
xsm_status xsmi_container_fill(xsmi_container_writer *w, xsmi_container_put put, const void *contents, xsm_error *err);

/* -- both (safetensors.c) ------------------------------------------------------------------------------------------ */

#define XSMI_CONTAINER_VERSION 1
/* The longest header that is read. It is far longer than any that the library writes and bounds the memory for
 * parsing. */
#define XSMI_HEADER_MAX ((size_t)16 << 20)
#define XSMI_CHECKSUM_DIGITS 16

size_t xsmi_dtype_size(xsmi_dtype dtype);
const char *xsmi_dtype_name(xsmi_dtype dtype);
bool xsmi_dtype_parse(const char *name, xsmi_dtype *dtype);
/* The size of a tensor in bytes; false when it overflows. */
bool xsmi_tensor_bytes(const xsmi_tensor *t, size_t *bytes);
/* Whether the tensor exists with that dtype and shape; `columns` is for rank 2. */
bool xsmi_tensor_is(const xsmi_tensor *t, xsmi_dtype dtype, uint32_t rank, uint64_t rows, uint64_t columns);
/* Whether no number is infinite or NaN. */
bool xsmi_floats_finite(const float *values, size_t count);
/* Returns a metadata entry's term of the checksum; and the seed of the hash of a tensor's data, which is the tensor's
 * term. */
uint64_t xsmi_entry_hash(const char *key, const char *value);
uint64_t xsmi_tensor_seed(const xsmi_tensor *t);
void xsmi_checksum_print(uint64_t hash, char digits[XSMI_CHECKSUM_DIGITS]);

#endif
