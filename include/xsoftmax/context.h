/**
 * @file context.h
 * @brief What the library takes from its host: memory, threads, a place for messages.
 */
#ifndef XSOFTMAX_CONTEXT_H
#define XSOFTMAX_CONTEXT_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/error.h>

/** @defgroup context Contexts
 *
 * A context is the first argument of every constructor. NULL means a context of its own with the defaults. An object
 * holds its context, so a context may be released while objects made with it live on.
 *
 * The library has no global state: two contexts share nothing. After fork() the child may use objects made before it
 * if no other thread was inside of the library. The built-in runner's threads stay with the parent: in the child an old
 * context works on the calling thread alone, a new one has threads of its own.
 *
 * **Threads.** A context may be used by many threads at once.
 *  @{ */

/** The host's memory. Both functions must be thread-safe. */
typedef struct xsm_allocator {
    void *user; /**< Handed to both functions. */
    /** Returns `size` (> 0) bytes at a multiple of `alignment` (a power of two, at most 2 MiB), or NULL. */
    void *(*allocate)(void *user, size_t size, size_t alignment);
    /** Takes back what allocate() returned for the same size and alignment; `memory` is never NULL. */
    void (*release)(void *user, void *memory, size_t size, size_t alignment);
} xsm_allocator;

/** How much a message matters. */
enum {
    XSM_LOG_WARNING = 1, /**< Something to look at; the call goes on. */
    XSM_LOG_INFO = 2,    /**< What was chosen and why. */
    XSM_LOG_DEBUG = 3    /**< For the library's own developers. */
};

/** Receives a message of one line without a line end. May be called from any thread that calls the library. */
typedef void (*xsm_log_function)(void *user, int32_t level, const char *message);

/** One piece of work: `index` counts the pieces, `thread` says which of the runner's threads does it. */
typedef void (*xsm_job)(void *state, size_t index, uint32_t thread);

/** The host's threads. */
typedef struct xsm_runner {
    void *user; /**< Handed to run(). */
    /** Threads that run() may use at once, at least 1. A job's `thread` is below it. */
    uint32_t threads;
    /** Zero. */
    uint32_t reserved;
    /** Calls `job(state, index, thread)` once for each index in [0, count), in any order and on any thread, no two at
     *  once with the same `thread`, and returns 0 when all have ended. The jobs never wait for each other, so running
     *  them one after another is correct. Anything but 0 means that some were not run. May be called from several of
     *  the host's threads at once. */
    int32_t (*run)(void *user, xsm_job job, void *state, size_t count);
} xsm_runner;

/** Instruction sets that a context can be told not to use, for tests and comparisons. */
enum {
    XSM_CPU_DISABLE_AVX2 = 1,   /**< x86-64: AVX2 with FMA (AVX-512 goes with it). */
    XSM_CPU_DISABLE_AVX512 = 2, /**< x86-64: AVX-512 F, BW, DQ and VL. */
    XSM_CPU_DISABLE_NEON = 4    /**< aarch64. */
};

/** Settings of a context. Start with #XSM_CONTEXT_OPTIONS_INIT; zero or NULL means the default. */
typedef struct xsm_context_options {
    size_t size;                    /**< sizeof(xsm_context_options). */
    const xsm_allocator *allocator; /**< Default: the C library's. Copied. */
    xsm_log_function log;           /**< Default: silence. */
    void *log_user;                 /**< Handed to log(). */
    const xsm_runner *runner;       /**< Default: threads of the library's own, started when first
                                         needed. Copied. */
    uint32_t threads;     /**< Without a runner: threads to use, at most 4096; 1 = none but the caller's. Default: the
                               processors that this process may run on. */
    uint32_t cpu_disable; /**< Sum of XSM_CPU_DISABLE_* values. Results are the same bits with any of them. */
} xsm_context_options;

/** Starting value of an #xsm_context_options. */
#define XSM_CONTEXT_OPTIONS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(xsm_context_options), NULL, NULL, NULL, NULL, 0, 0                                                      \
    }

/** A context; opaque. */
typedef struct xsm_context xsm_context;

#ifdef __cplusplus
extern "C" {
#endif

/** Makes a context.
 *  @param options  settings, or NULL for the defaults
 *  @param[out] out the context, the caller's to release with xsm_context_free()
 *  @param err      what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT for an incomplete allocator or runner; #XSM_ERROR_RANGE for too many threads or
 *          unknown `cpu_disable` bits; #XSM_ERROR_MEMORY; #XSM_ERROR_STRUCT_OLD, #XSM_ERROR_STRUCT_NEW */
XSM_API xsm_status xsm_context_new(const xsm_context_options *options, xsm_context **out, xsm_error *err);
/** Releases the caller's hold on a context; NULL is fine. The allocator and runner stay in use until the last object
 *  made with the context is gone. */
XSM_API void xsm_context_free(xsm_context *context);
/** Threads that the context uses at most. */
XSM_API uint32_t xsm_context_threads(const xsm_context *context);
/** Name of the instruction set in use: "scalar", "avx2", "avx512" or "neon". Static string. */
XSM_API const char *xsm_context_instruction_set(const xsm_context *context);

/** Takes memory from the context's allocator, for estimators of the host's own.
 *  @param context the context
 *  @param size    bytes; 0 gives a valid pointer that can be released
 *  @return memory aligned to 64 bytes, or NULL. Release it with xsm_context_release() and the same size. */
XSM_API void *xsm_context_allocate(xsm_context *context, size_t size);
/** Gives memory of xsm_context_allocate() back; NULL is fine. */
XSM_API void xsm_context_release(xsm_context *context, void *memory, size_t size);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
