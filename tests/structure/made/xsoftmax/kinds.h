/* Something of each kind that public headers have, as small as it can be: abi_mutations.py breaks it. */
#ifndef XSOFTMAX_KINDS_H
#define XSOFTMAX_KINDS_H

#include <stddef.h>
#include <stdint.h>
#include <xsoftmax/version.h>

#define XSM_DEFAULT (-1)
#define XSM_ROWS 32

#define XSM_HAS(pointer, member)                                                                                       \
    ((pointer)->size >= (size_t)((const char *)(&(pointer)->member + 1) - (const char *)(pointer)))

#define XSM_STATUS_LIST(X)                                                                                             \
    X(XSM_OK, 0, "all is well")                                                                                        \
    X(XSM_ERROR_RANGE, 1, "a number is out of range")                                                                  \
    X(XSM_ERROR_SHAPE, 2, "a shape does not fit")

#define XSM_STATUS_ENTRY_(name, number, text) name = number,
enum { XSM_STATUS_LIST(XSM_STATUS_ENTRY_) };
typedef int32_t xsm_status;

enum { XSM_LOG_ERROR = 0, XSM_LOG_INFO = 1, XSM_LOG_DEBUG = 2 };
enum { XSM_FLAG_SHUFFLE = 1, XSM_FLAG_SAMPLE = 2, XSM_FLAG_MULTI = 4 };

typedef struct xsm_model xsm_model;
typedef struct xsm_comm xsm_comm;
typedef void (*xsm_log_function)(void *user, int32_t level, const char *text);

/* Of one size for ever. */
typedef struct xsm_allocator {
    void *user;
    void *(*allocate)(void *user, size_t size, size_t alignment);
    int32_t (*run)(void *user, size_t count);
} xsm_allocator;

/* What a comment says of a member is promised, too. */
typedef struct xsm_search_options {
    size_t size;
    uint32_t top; /**< 0 = 5. */
    uint32_t width;
} xsm_search_options;

/* An element of arrays. */
typedef struct xsm_pair {
    uint32_t id;
    float value;
} xsm_pair;

typedef struct xsm_error {
    size_t size;
    xsm_status status;
    char message[60];
} xsm_error;

typedef struct xsm_batch {
    size_t size;
    size_t stride;
    const float *values;
    const uint32_t *ids;
    const uint32_t *labels;
    uint64_t first;
    uint64_t count;
    int32_t reserved;
    uint32_t length;
} xsm_batch;

#define XSM_BATCH_INIT                                                                                                 \
    {                                                                                                                  \
        sizeof(xsm_batch), 0, NULL, NULL, NULL, 0, 0, 1, 0                                                             \
    }

typedef struct xsm_options {
    size_t size;
    const xsm_allocator *allocator;
    const xsm_comm *comm;
    uint64_t shape[4];
    uint32_t epochs;
    uint32_t reserved;
} xsm_options;

#define XSM_OPTIONS_INIT                                                                                               \
    {                                                                                                                  \
        sizeof(xsm_options), NULL, NULL, {0}, 0, 0                                                                     \
    }

static inline xsm_batch xsm_batch_of(const uint32_t *ids, uint64_t first, uint64_t count)
{
    xsm_batch batch = XSM_BATCH_INIT;
    batch.ids = ids;
    batch.first = first;
    batch.count = count;
    return batch;
}

#endif
