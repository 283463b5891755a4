/* SPDX-License-Identifier: MIT */
/**
 * @file context.h
 * @brief What the host provides to the library: memory, threads, a log function, a hook for progress and cancelling.
 */
#ifndef XSOFTMAX_CONTEXT_H
#define XSOFTMAX_CONTEXT_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/error.h>

/** @defgroup context Contexts
 *
 * A context is the first argument of every constructor. NULL means a new context with default settings. An object keeps
 * a reference to its context, so a context may be released while objects made with it still exist.
 *
 * The library has no global state: two contexts share nothing. After fork(), the child may use objects that were made
 * before it, if no other thread was inside the library at that time. The threads of the built-in runner stay in the
 * parent: in the child, an old context uses the calling thread only, and a new context starts its own threads.
 *
 * **Threads.** Any number of threads may use one context at the same time.
 *  @{ */

/** A memory allocator of the host. Both functions must be thread-safe, and must return: they must not throw. Start with
 *  #XSM_ALLOCATOR_INIT. */
typedef struct xsm_allocator {
    size_t size; /**< sizeof(xsm_allocator). */
    void *user;  /**< First argument of both functions. */
    /** Returns `size` (> 0) bytes at a multiple of `alignment` (a power of two, at most 2 MiB), or NULL. */
    void *(*allocate)(void *user, size_t size, size_t alignment);
    /** Releases memory that allocate() returned for the same size and alignment; `memory` is never NULL. */
    void (*release)(void *user, void *memory, size_t size, size_t alignment);
} xsm_allocator;

/** Starting value of an #xsm_allocator. */
#define XSM_ALLOCATOR_INIT                                                                                             \
    {                                                                                                                  \
        sizeof(xsm_allocator), NULL, NULL, NULL                                                                        \
    }

/** Level of a message. */
enum {
    XSM_LOG_WARNING = 1, /**< A possible problem; the call continues. */
    XSM_LOG_INFO = 2,    /**< What the library chose, and why. */
    XSM_LOG_DEBUG = 3    /**< For developers of the library. */
};

/** Receives a message: one line, without a line end. Called from any thread that calls the library. It must return, and
 *  must not throw. */
typedef void (*xsm_log_function)(void *user, int32_t level, const char *message);

/** One job of a parallel call: `index` is the number of the job, `thread` the number of the runner's thread that runs
 *  it. */
typedef void (*xsm_job)(void *state, size_t index, uint32_t thread);

/** A thread pool of the host. Start with #XSM_RUNNER_INIT. */
typedef struct xsm_runner {
    size_t size; /**< sizeof(xsm_runner). */
    void *user;  /**< First argument of run(). */
    /** Most threads that run() uses at once, at least 1. The `thread` of a job is less than this. */
    uint32_t threads;
    /** Zero. */
    uint32_t reserved;
    /** Calls `job(state, index, thread)` once for each index in [0, count), in any order and on any thread, never two
     *  at once with the same `thread`. Returns 0 when all jobs have ended; any other value means that some jobs did not
     *  run. The call then fails with #XSM_ERROR_RUNNER, as it does for a 0 when more or fewer than `count` jobs have
     *  ended, or one has ended twice in place of another. Jobs never wait for each other, so running them one after
     *  another is correct. May be called from several of the host's threads at once. It must return, also where it
     *  fails, and no job may run any more then; it must not throw. A job needs up to 64 KiB of its thread's stack. */
    int32_t (*run)(void *user, xsm_job job, void *state, size_t count);
} xsm_runner;

/** Starting value of an #xsm_runner. */
#define XSM_RUNNER_INIT                                                                                                \
    {                                                                                                                  \
        sizeof(xsm_runner), NULL, 0, 0, NULL                                                                           \
    }

/** What a call is doing, for an #xsm_activity_hook. The library fills it; check `size` before you read members that
 *  later releases add (XSM_HAS()). */
typedef struct xsm_activity {
    size_t size;       /**< sizeof(xsm_activity) in the library. */
    const char *phase; /**< What the call is doing: "reading", "training", "evaluating", or another phase that the guide
                            @ref guide_cancelling lists. Static string. */
    const char *unit;  /**< Unit of `done` and `total`, in the plural: "rows", "bytes", "classes", ... Static string. */
    uint64_t done;     /**< Units done so far. Does not decrease within a phase. */
    uint64_t total;    /**< Units of the whole phase; 0 = unknown. */
    double seconds;    /**< Seconds since the phase began. */
} xsm_activity;

/** Receives the progress of a long call and can cancel it: a non-zero return value ends the call with #XSM_CANCELLED,
 *  usually within a tenth of a second.
 *
 *  Called some 20 times a second in every call that takes long; never in the first 50 ms of a call. Some work is
 *  finished before a cancelled call returns, such as a small step's update of the weights (xsm_optimizer_apply()):
 *  @ref guide_cancelling lists it. The hook is called on the thread that made the call; in a context with a host's
 *  runner also on the threads on which the runner runs the call's jobs, one at a time. Calls of several threads with
 *  one context are reported and cancelled separately.
 *
 *  The library holds no lock while the hook runs. The hook may call the library, but must not use the objects that the
 *  interrupted call changes. Calls made from the hook are neither reported nor cancelled. It must return, and must not
 *  throw.
 *  @param user     `progress_user`
 *  @param activity what the call is doing, valid until the hook returns
 *  @return 0 to go on */
typedef int32_t (*xsm_activity_hook)(void *user, const xsm_activity *activity);

/** Called once, when the library no longer needs what the host has lent it: a context its callbacks
 *  (#xsm_context_options), a dataset its arrays (#XSM_BORROW), a model bytes and tensors (buffer.h,
 *  tensors.h). Never called if the function that was to borrow it fails: it is then still the caller's alone.
 *
 *  Called on the thread whose call gave up the last reference, or changed the dataset or the model. It may call the
 *  library, must return and must not throw. After fork() each process has its own objects, and calls the hook when it
 *  releases them. What the hook does outside of the memory of the process (removing a file, telling a server) then
 *  happens twice, unless the hook compares process ids.
 *  @param user `release_user` */
typedef void (*xsm_release_hook)(void *user);

/** Instruction sets that a context can be forbidden to use, for tests and comparisons. */
enum {
    XSM_CPU_DISABLE_AVX2 = 1,   /**< x86-64: AVX2 with FMA (also disables AVX-512). */
    XSM_CPU_DISABLE_AVX512 = 2, /**< x86-64: AVX-512 F, BW, DQ and VL. */
    XSM_CPU_DISABLE_NEON = 4    /**< aarch64. */
};

/** A group of processes; see ext/comm.h. */
typedef struct xsm_comm xsm_comm;

/** Settings of a context. Start with #XSM_CONTEXT_OPTIONS_INIT; zero or NULL means the default. */
typedef struct xsm_context_options {
    size_t size;                    /**< sizeof(xsm_context_options). */
    const xsm_allocator *allocator; /**< Default: the C library's. Copied. */
    xsm_log_function log;           /**< Default: no messages. */
    void *log_user;                 /**< First argument of log(). */
    const xsm_runner *runner;       /**< Default: the library's own threads, started when first needed. Copied. */
    uint32_t threads;     /**< Without a runner: number of threads, at most 4096; 1 = the calling thread only. Default:
                               the number of processors that this process may run on. */
    uint32_t cpu_disable; /**< Sum of XSM_CPU_DISABLE_* values. Results are bit-identical for any value. */
    xsm_activity_hook progress; /**< Receives the progress of long calls, and can cancel them. Default: none. */
    void *progress_user;        /**< First argument of progress(). */
    xsm_release_hook release;   /**< Called after the last object made with the context has been released: nothing calls
                                     the allocator, runner, log and progress of these options any more, so what their
                                     `user` pointers point to can go. Default: none. */
    void *release_user;         /**< Argument of release(). */
    const xsm_comm *comm;       /**< Experimental: the processes among which classes are divided (ext/comm.h). Copied.
                                     Default: this process alone. */
} xsm_context_options;

/** Starting value of an #xsm_context_options. */
#define XSM_CONTEXT_OPTIONS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(xsm_context_options), NULL, NULL, NULL, NULL, 0, 0, NULL, NULL, NULL, NULL, NULL                        \
    }

/** A context; opaque. */
typedef struct xsm_context xsm_context;

/** Facts about a context. Start with #XSM_CONTEXT_INFO_INIT. */
typedef struct xsm_context_info {
    size_t size; /**< sizeof(xsm_context_info). */
    const char
        *instruction_set; /**< The instruction set in use: "scalar", "avx2", "avx512" or "neon". Static string. */
    uint32_t threads;     /**< Most threads that the context uses. */
    uint32_t reserved;    /**< Zero. */
} xsm_context_info;

/** Starting value of an #xsm_context_info. */
#define XSM_CONTEXT_INFO_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(xsm_context_info), NULL, 0, 0                                                                           \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Makes a context.
 *  @param options  settings, or NULL for the defaults
 *  @param[out] out the context, the caller's to release with xsm_context_free()
 *  @param err      what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_RANGE for too many threads, unknown `cpu_disable` bits or an xsm_comm::rank that is not
 *          below xsm_comm::ranks; #XSM_ERROR_ARGUMENT for an incomplete allocator, runner or communicator;
 *          #XSM_ERROR_LIMIT if the process has no thread-specific data key left for `progress` (PTHREAD_KEYS_MAX: 1024
 *          with glibc, 128 with musl) */
XSM_API xsm_status xsm_context_new(const xsm_context_options *options, xsm_context **out, xsm_error *err);
/** Releases the caller's reference to a context; NULL is allowed. The allocator, the runner and the callbacks stay
 *  in use until the last object made with the context is released: xsm_context_options::release tells when. */
XSM_API void xsm_context_free(xsm_context *context);
/** Returns another reference to a context, which the caller gives up with xsm_context_free(); NULL for NULL. Any
 *  thread. O(1). */
XSM_API xsm_context *xsm_context_ref(const xsm_context *context);
/** Fills `info` (start it with #XSM_CONTEXT_INFO_INIT). O(1).
 *  @return #XSM_OK, or what any function may return (@ref error) */
XSM_API xsm_status xsm_context_get_info(const xsm_context *context, xsm_context_info *info, xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
