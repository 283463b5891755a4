/* SPDX-License-Identifier: MIT */
/**
 * @file error.h
 * @brief Status codes and error messages.
 */
#ifndef XSOFTMAX_ERROR_H
#define XSOFTMAX_ERROR_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/version.h>

/** @defgroup error Errors
 *
 * A function that can fail returns an #xsm_status and takes an #xsm_error as its last argument. On failure its outputs
 * are unchanged (arrays of results may be filled in part), nothing is leaked, and the error says what is wrong, where,
 * and what would be accepted. A call that succeeds clears the error: xsm_error::status equals the status that the call
 * returned, so a host may test either. The library prints nothing, never ends the process, and stores no error itself:
 * there is no "last error", neither global nor per thread.
 *
 * The comment of a function lists the statuses that are specific to it. In addition, any function may return
 * #XSM_ERROR_ARGUMENT if a pointer is NULL that must not be; #XSM_ERROR_STRUCT_OLD or #XSM_ERROR_STRUCT_NEW if it reads
 * or fills a struct with a `size`; #XSM_ERROR_STRUCT_NEW if a reserved member of a struct that it reads is not 0 (a
 * later release may give it a name and a use); #XSM_ERROR_RANGE if one that says yes or no is neither 0 nor 1;
 * #XSM_ERROR_MEMORY if it allocates; and #XSM_ERROR_RUNNER if it uses the context's threads and the host's runner
 * fails. Functions that return no status accept a NULL object, and then return 0, NULL or the value of an object that
 * lacks the property (an option: SIZE_MAX).
 *
 * **What a call does to its host.** Every function that returns a status leaves `errno` unchanged, computes in C's
 * default floating-point environment whatever the thread's is, and leaves the thread's environment and exception flags
 * as they were. It needs at most 64 KiB of the stack of the thread that calls and of each thread of a host's runner,
 * what callbacks use not counted. Nothing is thrown, and a callback must return: a C++ exception or longjmp() through
 * the library would lose its memory and locks. @ref guide_contracts says more, also on signals, files and fork().
 *
 * **Arrays that a call fills** must overlap neither each other nor what the call reads. Where it sees that they do, it
 * returns #XSM_ERROR_ARGUMENT and leaves them as they are. Rows with a stride may lie between each other.
 *
 * **Structs with a size.** Every struct that can grow begins with `size_t size`, and grows at its end only.
 *
 * - The caller makes it (options, results): `size` is sizeof(the struct) in the program, as its `XSM_..._INIT` sets it.
 *   An older program's struct is shorter: members that it lacks have their defaults, or are not filled. A newer
 *   program's is longer: what this release does not know must be zero.
 * - The library hands it out (progress, problems, blocks, options and tables found by name): `size` is sizeof(the
 *   struct) in the library, which may be older than the program's headers. **Before you read a member that was added
 *   after the struct's first release, check that it is there: XSM_HAS(pointer, member).**
 * - The library hands it out to be filled: write only members that it has.
 *
 * What a member means at 0, or at #XSM_DEFAULT, never changes within an ABI number. Members of a struct's first release
 * may start at any value, such as #XSM_DEFAULT. A member that a later release adds starts at 0 (NULL), and 0 means that
 * the call does what it did before: a program that leaves it alone runs with older libraries, too. If 0 should mean
 * something else, another new member says whether it counts, such as xsm_index_search::has_least_score.
 *
 * @code
 * xsm_error err = XSM_ERROR_INIT;
 * if (xsm_dataset_read(ctx, "train.txt", NULL, NULL, &train, &err) != XSM_OK) {
 *     fprintf(stderr, "%s\n", err.message);
 * }
 * @endcode
 *  @{ */

/** Stands for the default of a number in a struct if 0 has a meaning of its own. The comment of the member says so, and
 *  the struct's XSM_..._INIT sets it. Only for members of the struct's first release (see above). */
#define XSM_DEFAULT (-1)

/** Every status: name, number, meaning. Numbers are stable and are never reused for another meaning. */
#define XSM_STATUS_LIST(X)                                                                                             \
    X(XSM_OK, 0, "success")                                                                                            \
    X(XSM_CANCELLED, 1, "stopped because a callback asked for it")                                                     \
    X(XSM_ERROR_ARGUMENT, 10, "invalid argument")                                                                      \
    X(XSM_ERROR_MEMORY, 11, "out of memory")                                                                           \
    X(XSM_ERROR_IO, 12, "reading or writing failed")                                                                   \
    X(XSM_ERROR_FORMAT, 13, "malformed input")                                                                         \
    X(XSM_ERROR_RANGE, 14, "value outside the accepted range")                                                         \
    X(XSM_ERROR_LIMIT, 15, "size beyond what is supported")                                                            \
    X(XSM_ERROR_NAME, 16, "unknown name")                                                                              \
    X(XSM_ERROR_SHAPE, 17, "sizes that do not agree")                                                                  \
    X(XSM_ERROR_STATE, 18, "call out of order")                                                                        \
    X(XSM_ERROR_UNSUPPORTED, 19, "combination that is not supported")                                                  \
    X(XSM_ERROR_DIVERGED, 20, "training diverged")                                                                     \
    X(XSM_ERROR_CHECKSUM, 21, "contents do not match their checksum")                                                  \
    X(XSM_ERROR_FILE_VERSION, 22, "file written by a newer release")                                                   \
    X(XSM_ERROR_STRUCT_OLD, 23, "struct smaller than its first version")                                               \
    X(XSM_ERROR_STRUCT_NEW, 24, "struct with settings that this release does not know")                                \
    X(XSM_ERROR_DATA, 25, "data that cannot be used for this")                                                         \
    X(XSM_ERROR_RUNNER, 26, "the host's runner failed")                                                                \
    X(XSM_ERROR_ABI, 27, "table of functions for another ABI")                                                         \
    X(XSM_ERROR_COMM, 28, "the host's communicator failed")                                                            \
    X(XSM_ERROR_INTERNAL, 99, "defect in the library")

/** Result of a call: #XSM_OK, or another value of #XSM_STATUS_LIST. Failures are 10 and above. */
typedef int32_t xsm_status;

enum {
#define XSM_STATUS_ENTRY_(name, number, text) name = number,
    XSM_STATUS_LIST(XSM_STATUS_ENTRY_)
#undef XSM_STATUS_ENTRY_
};

/** Describes an error. Owned by the caller; start it with #XSM_ERROR_INIT. It may be reused for any number of calls. */
typedef struct xsm_error {
    size_t size;       /**< sizeof(xsm_error) in the program that uses it. */
    xsm_status status; /**< The status that the call returned, #XSM_OK after a success. */
    uint32_t reserved; /**< Zero. */
    uint64_t line;     /**< Line of the file, from 1; 0 = the error has no line. */
    uint64_t column;   /**< Column in bytes, from 1; 0 = the error has no column. */
    char message[480]; /**< Empty after a success, else one sentence without a line end, UTF-8, always terminated;
                            numbers have a decimal point in any locale. If it is too long, for example because of a
                            long path, "..." replaces its middle. */
} xsm_error;

/** 1 if a struct that begins with its size has the member: `XSM_HAS(progress, seconds)`, for a pointer to the struct.
 *  A program needs it for members that are newer than the oldest release that it supports. */
#define XSM_HAS(pointer, member)                                                                                       \
    ((pointer)->size >= (size_t)((const char *)(&(pointer)->member + 1) - (const char *)(pointer)))

/** Starting value of an #xsm_error. */
#define XSM_ERROR_INIT                                                                                                 \
    {                                                                                                                  \
        sizeof(xsm_error), 0, 0, 0, 0,                                                                                 \
        {                                                                                                              \
            0                                                                                                          \
        }                                                                                                              \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Name of a status, such as "XSM_ERROR_FORMAT"; NULL for an unknown number. Static string, any thread. */
XSM_API const char *xsm_status_name(xsm_status status);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
