/*
 * What several tests need: an allocator that counts and fails on demand, sources of bytes, files, and the folder of
 * real data.
 */
#ifndef XSM_TEST_SUPPORT_H
#define XSM_TEST_SUPPORT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdlib.h>

#include <cmocka.h>

#include "infos.h"

#include <xsoftmax/context.h>
#include <xsoftmax/dataset.h>

/* Asserts that a call succeeds; its message is shown when it does not. `err` is the xsm_error that it was given, which
 * a public function has cleared. */
#define assert_ok(call, err)                                                                                           \
    do {                                                                                                               \
        if ((call) != XSM_OK) {                                                                                        \
            fail_msg("%s: %s (%s)", #call, (err).message, xsm_status_name((err).status));                              \
        }                                                                                                              \
        if (#call[3] == '_' && ((err).status != XSM_OK || (err).line != 0 || (err).message[0] != '\0')) { /* xsm_ */   \
            fail_msg("%s succeeds, and the error says %s: %s", #call, xsm_status_name((err).status), (err).message);   \
        }                                                                                                              \
    } while (0)
/* Asserts that a call fails with a status, that the error says the same, and that it has a message. */
#define assert_fails(call, wanted, err)                                                                                \
    do {                                                                                                               \
        xsm_status status_ = (call);                                                                                   \
        if (status_ != (wanted) || (err).status != status_ || (err).message[0] == '\0') {                              \
            fail_msg("%s: %s instead of %s; the error says %s: %s", #call, xsm_status_name(status_),                   \
                     xsm_status_name(wanted), xsm_status_name((err).status), (err).message);                           \
        }                                                                                                              \
    } while (0)

/* A pointer to a struct with these members, until the block ends: STRUCT(xsm_dense_rows, .values = x, .rows = 3). */
#define STRUCT(type, ...) (&(type){.size = sizeof(type), __VA_ARGS__})
/* HELD(xsm_model, m) = ...; declares a pointer to an object that is released where the block ends, HELD_MEMORY() one to
 * memory, and HELD_STRUCT() a struct of the tests; the last to be declared is released first. */
#define HELD(type, name) type *name __attribute__((cleanup(type##_held)))
#define HELD_STRUCT(type, name) type name __attribute__((cleanup(type##_free)))
#define HELD_MEMORY(type, name) type *name __attribute__((cleanup(test_memory_held)))
/* Declares a pointer to what `call` makes, which gets &name and &err; with MADE() it is HELD(). */
#define NEW(type, name, call)                                                                                          \
    type *name = NULL;                                                                                                 \
    assert_ok(call, err)
#define MADE(type, name, call)                                                                                         \
    HELD(type, name) = NULL;                                                                                           \
    assert_ok(call, err)
#define TEST_HELD(type)                                                                                                \
    typedef struct type type;                                                                                          \
    XSM_API void type##_free(type *object);                                                                            \
    static inline void type##_held(type **object)                                                                      \
    {                                                                                                                  \
        type##_free(*object);                                                                                          \
    }
TEST_HELD(xsm_choice)
TEST_HELD(xsm_context)
TEST_HELD(xsm_corpus)
TEST_HELD(xsm_dataset)
TEST_HELD(xsm_encoder)
TEST_HELD(xsm_estimator)
TEST_HELD(xsm_filter)
TEST_HELD(xsm_gradient)
TEST_HELD(xsm_index)
TEST_HELD(xsm_model)
TEST_HELD(xsm_optimizer)
TEST_HELD(xsm_predictor)
TEST_HELD(xsm_sampler)
TEST_HELD(xsm_skipgram)
TEST_HELD(xsm_trainer)
TEST_HELD(xsm_transform)
TEST_HELD(xsm_tuning)
static inline void test_memory_held(void *pointer)
{
    free(*(void **)pointer);
}

/* Whether $XSM_TEST_FULL is set, as `.ci/run --full` does: only then do tests repeat themselves with all numbers of
 * ranks and threads, and with a failure at every place. */
bool test_full(void);
/* A test of a program: TEST(test_sums) { ... }. A program without a main() of its own has that of main.c, which runs
 * its tests in their order and then removes its temporary files. Each test has an xsm_error of its own, `err`. */
#define TEST(name) TEST_IF(true, name)
/* A test that is skipped, and says so, without test_full(). */
#define TEST_OF_FULL(name) TEST_IF(test_full(), name)
#define TEST_IF(wanted, name)                                                                                          \
    static void name##_body(xsm_error err);                                                                            \
    static void name(void **state __attribute__((unused)))                                                             \
    {                                                                                                                  \
        name##_body((xsm_error)XSM_ERROR_INIT);                                                                        \
    }                                                                                                                  \
    __attribute__((constructor)) static void name##_listed(void)                                                       \
    {                                                                                                                  \
        test_list(#name, __LINE__, (wanted) ? (name) : test_left_out);                                                 \
    }                                                                                                                  \
    static void name##_body(xsm_error err __attribute__((unused)))
void test_list(const char *name, int line, void (*test)(void **state));
void test_left_out(void **state);

/* The place after place number `at` at which something of several ranks is made to fail: `step` further, or without
 * test_full() twice as far, and at least a quarter of the way. */
uint64_t test_next_place(uint64_t at, uint64_t step);

/* Whether the library was built with libLBFGS. */
bool test_has_lbfgs(void);

/* -- memory -------------------------------------------------------------------------------------------------------- */

/* An allocator that fills new memory with junk, checks size and alignment of what comes back, and can refuse. Safe for
 * threads. */
typedef struct test_memory test_memory;

/* A context on such an allocator, with `threads` threads. */
xsm_context *test_memory_context(test_memory **memory, uint32_t threads);
/* Blocks that are out now, the context's own not counted. */
size_t test_memory_blocks(test_memory *m);
size_t test_memory_bytes(test_memory *m);
/* Allocations since the start or the last test_memory_fail(). */
size_t test_memory_calls(test_memory *m);
/* Refuses the k-th allocation from now on (from 1); 0 = none. */
void test_memory_fail(test_memory *m, size_t k);
/* Releases the context and asserts that nothing is left. */
void test_memory_end(test_memory *m, xsm_context *ctx);

/* Something that allocates from ctx. Releases what it has made when it succeeds. */
typedef xsm_status (*test_body)(void *state, xsm_context *ctx, xsm_error *err);
/* Runs body with the 1st, the 2nd, ... allocation refused until none is left to refuse, without test_full() with
 * fewer and fewer of them. Each run must fail with XSM_ERROR_MEMORY, or do without what it was refused, and leave
 * nothing behind. Returns the number of the first that was not refused. */
size_t test_every_allocation(test_body body, void *state);

/* -- cancelling ---------------------------------------------------------------------------------------------------- */

/* A hook that sees every poll and cancels at the k-th; its context counts memory. */
typedef struct test_hook {
    size_t calls, cancel_at; /* 0 = never */
    char phases[512];        /* what it saw: "reading, training" */
    test_memory *memory;
    xsm_context *context;
} test_hook;
void test_hook_start(test_hook *h, uint32_t threads);
/* Counts from nothing again. */
void test_hook_cancel(test_hook *h, size_t k);
/* Releases the context and asserts that nothing is left. */
void test_hook_end(test_hook *h);

/* Runs body, cancelled at the 1st, the 2nd, the 4th, ... poll, until it is not cancelled any more. A
 * cancelled run must return XSM_CANCELLED and leave nothing behind. Asserts that body was cancelled at least `least`
 * times, and that among what the hook saw is each phase of `phases`, separated by commas; with several threads, of
 * which others may do all the work, this is not asserted. */
void test_every_poll(test_body body, void *state, uint32_t threads, size_t least, const char *phases);

/* A literal and its length, as two arguments; NUL bytes within count. */
#define TEXT(literal) (literal), sizeof(literal) - 1

/* -- bytes --------------------------------------------------------------------------------------------------------- */

/* A source over bytes in memory that hands out at most `step` bytes at a time (0 = all that is asked for) and fails
 * when `fail_at` bytes have been read (SIZE_MAX = never). */
typedef struct test_bytes {
    const void *data;
    size_t size, step, fail_at, position;
} test_bytes;
xsm_source test_source(test_bytes *bytes);
/* A source, and such bytes, as a storage that messages call `called`. */
#define TEST_FROM(from, called) (&(xsm_storage){.size = sizeof(xsm_storage), .name = (called), .source = (from)})
#define TEST_BYTES(bytes, called) TEST_FROM((xsm_source[]){test_source(bytes)}, called)

/* A temporary file with these bytes; its path is valid until the next call with the same `name` and is released with
 * test_files_end(), which also removes the files. */
const char *test_file(const char *name, const void *data, size_t size);
/* A path in the temporary folder, with no file made. */
const char *test_path(const char *name);
/* The bytes of a file, aligned to 64 and with room for 64 more; the caller's to free. */
unsigned char *test_read(const char *path, size_t *size);
/* Asserts that a file has these bytes, and that two files have the same. */
void test_assert_bytes(const char *path, const void *wanted, size_t size);
void test_assert_same_file(const char *path, const char *wanted);
void test_files_end(void);
/* The same, for cmocka. */
int test_files_teardown(void **state);

/* -- real data ----------------------------------------------------------------------------------------------------- */

/* The path of a file of the real data, which lie in $XSM_DATA or in ../shared/data beside the source tree; NULL, after
 * saying so, when they are not there or this build cannot read them. Valid until the next call. */
const char *test_data(const char *file);

/* Declares metrics with all arrays, of `top_` numbers each. */
#define TEST_METRICS(name, top_)                                                                                       \
    double name##_values[7][top_];                                                                                     \
    xsm_metrics name = XSM_METRICS_INIT;                                                                               \
    name.top = (top_);                                                                                                 \
    name.precision = name##_values[0];                                                                                 \
    name.ndcg = name##_values[1];                                                                                      \
    name.psp = name##_values[2];                                                                                       \
    name.psndcg = name##_values[3];                                                                                    \
    name.recall = name##_values[4];                                                                                    \
    name.hits = name##_values[5];                                                                                      \
    name.reciprocal_rank = name##_values[6]

/* The classes and features of a dataset, and of a model: a view. */
static inline xsm_class_map test_map_of(const xsm_dataset *d)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    assert_ok(xsm_dataset_get_class_map(d, &map, &err), err);
    return map;
}

static inline xsm_class_map test_map_of_model(const xsm_model *m)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    assert_ok(xsm_model_get_class_map(m, &map, &err), err);
    return map;
}

#endif
