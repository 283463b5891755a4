/*
 * The lowest floor above the kernels: errors, contexts, memory, option structs, jobs. It knows no models and no data.
 */
#ifndef XSMI_BASE_H
#define XSMI_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

#include <xsoftmax/context.h>
#include <xsoftmax/error.h>

#include "base/defaults.h"
#include "base/first.h"
#include "kernels/kernels.h"

/* Alignment of all memory that kernels read or write. */
#define XSMI_ALIGNMENT 64

/* -- errors (error.c) ------------------------------------------------------------------------------------------- */

/* Fills err (may be NULL) and returns status. The message is made as by xsmi_format_line(). */
xsm_status xsmi_fail(xsm_error *err, xsm_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* xsmi_fail() with a position in a file. */
xsm_status xsmi_fail_at(xsm_error *err, xsm_status status, uint64_t line, uint64_t column, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Out of memory while getting `bytes` for `what`. */
xsm_status xsmi_fail_memory(xsm_error *err, uint64_t bytes, const char *what);
/* Copies src's contents to err (may be NULL), for errors that were gathered elsewhere (in a job, say). */
xsm_status xsmi_fail_copy(xsm_error *err, const xsm_error *src);

/* Returns from the calling function when `call` is not XSM_OK. For places where no cleanup is needed. */
#define XSMI_TRY(call)                                                                                                 \
    do {                                                                                                               \
        xsm_status xsmi_status_ = (call);                                                                              \
        if (xsmi_status_ != XSM_OK) {                                                                                  \
            return xsmi_status_;                                                                                       \
        }                                                                                                              \
    } while (0)

/* Pointers that a public function must be given, with their names for the message; a list ends with a NULL name. */
typedef struct xsmi_given {
    const void *pointer;
    const char *name;
} xsmi_given;
#define XSMI_GIVEN(...) ((const xsmi_given[]){__VA_ARGS__, {NULL, NULL}})
/* XSM_ERROR_ARGUMENT for the first that is NULL. */
xsm_status xsmi_need(const char *function, const xsmi_given *given, xsm_error *err);
/* Returns from a public function that was not given all: XSMI_NEED(err, {model, "the model"}, {out, "out"}). */
#define XSMI_NEED(err, ...) XSMI_TRY(xsmi_need(__func__, XSMI_GIVEN(__VA_ARGS__), err))

/* Writes a message into line[0..size), size > 0: always terminated, one line of valid UTF-8 whatever the paths and
 * labels in it. Control characters become blanks, invalid bytes become '?'. A message that is too long loses its middle
 * (its end, if `size` is very small), cut between characters. */
void xsmi_format_line(char *line, size_t size, const char *format, va_list args) __attribute__((format(printf, 3, 0)));

/* Returns the decimal sign that the C library prints and reads in this thread. */
const char *xsmi_decimal_sign(void);

/* -- option structs (option.c) ------------------------------------------------------------------------------------ */

/* Bytes of a public struct in the first release that has it: no program's struct is shorter. */
#define XSMI_FIRST(type) (offsetof(type, XSMI_LAST_##type) + sizeof(((type *)0)->XSMI_LAST_##type))
/* Refuses a size that no release's struct can have: below first_size, or absurdly above known_size. */
xsm_status xsmi_check_struct_size(size_t known_size, size_t first_size, size_t size, const char *name, xsm_error *err);
/* Copies a public struct that starts with size_t size into `known` (of known_size bytes, already holding the defaults):
 * `given` may be NULL (defaults), shorter (down to first_size, XSMI_FIRST() of the struct), or longer if the
 * unknown tail is all zero. known->size is set to known_size. */
xsm_status xsmi_options_read(void *known, size_t known_size, size_t first_size, const void *given, const char *name,
                             xsm_error *err);
/* As xsmi_options_read(), for a table of functions, whose second member is the ABI number of ext/. */
xsm_status xsmi_table_read(void *known, size_t known_size, size_t first_size, const void *given, const char *name,
                           xsm_error *err);
/* Copies the library's struct `known` to the caller's `given`, which starts with its size. Writes no byte beyond either
 * and keeps given->size. */
xsm_status xsmi_options_write(const void *known, size_t known_size, size_t first_size, void *given, const char *name,
                              xsm_error *err);

/* The same for a type of structs or tables; `known` points to one. */
#define XSMI_READ(type, known, given, err) xsmi_options_read(known, sizeof(type), XSMI_FIRST(type), given, #type, err)
#define XSMI_READ_TABLE(type, known, given, err)                                                                       \
    xsmi_table_read(known, sizeof(type), XSMI_FIRST(type), given, #type, err)
#define XSMI_WRITE(type, known, given, err) xsmi_options_write(known, sizeof(type), XSMI_FIRST(type), given, #type, err)

/* Check a member of the struct's copy `s`: one that no release uses must be 0; one that says yes or no, 0 or 1.
 * XSM_ERROR_RANGE names the member. */
#define XSMI_CHECK_ZERO(type, s, member, err) xsmi_check_member((s)->member, 0, #type "." #member, err)
#define XSMI_CHECK_FLAG(type, s, member, err) xsmi_check_member((s)->member, 1, #type "." #member, err)
xsm_status xsmi_check_member(int64_t value, int64_t most, const char *name, xsm_error *err);

/* -- contexts and memory (context.c) ------------------------------------------------------------------------------- */

/* Returns another reference to ctx, or a new default context if it is NULL. */
xsm_status xsmi_context_acquire(xsm_context *ctx, xsm_context **out, xsm_error *err);
xsm_context *xsmi_context_retain(xsm_context *ctx);
/* xsm_context_info::threads. */
uint32_t xsmi_context_threads(const xsm_context *ctx);
const xsmi_kernels *xsmi_context_kernels(const xsm_context *ctx);
void xsmi_log(const xsm_context *ctx, int32_t level, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* a*b or a+b; false when the result does not fit. (Counts have 64 bits here and below, so that one that does not fit
 * into a size_t of 32 bits is refused, not cut off.) */
static inline bool xsmi_multiply(uint64_t a, uint64_t b, size_t *result)
{
    return !__builtin_mul_overflow(a, b, result);
}
static inline bool xsmi_add(uint64_t a, uint64_t b, size_t *result)
{
    return !__builtin_add_overflow(a, b, result);
}

/* With 32 bits, XSM_ERROR_LIMIT for more than 2^24 features or classes: scratch memory takes some hundred floats for
 * each of them, and its size must fit a size_t. */
xsm_status xsmi_check_dimensions(uint64_t features, uint64_t classes, xsm_error *err);

/* Returns the floats from one row of a matrix to the next, for rows of `length`: whole cache lines, but no multiple of
 * 4 KB: rows that far apart share one set of the L1 cache and would evict each other. */
static inline size_t xsmi_row_stride(size_t length)
{
    const size_t line = XSMI_ALIGNMENT / sizeof(float), page = 4096 / sizeof(float);
    const size_t stride = (length + line - 1) / line * line;
    return stride > 0 && stride % page == 0 ? stride + line : stride;
}

/* Memory of `count` elements of `each` bytes, aligned to XSMI_ALIGNMENT; NULL when there is no memory or the product
 * does not fit. count = 0 gives a valid pointer. Blocks of 2 MiB and more are aligned to 2 MiB and advised to use huge
 * pages. Release with the same count and size. */
void *xsmi_allocate(xsm_context *ctx, uint64_t count, size_t each);
/* NULL also when the call was cancelled. (run_ranges.c) */
void *xsmi_allocate_zero(xsm_context *ctx, uint64_t count, size_t each);
/* As these, with a status. `array` is the address of the pointer, which becomes NULL if there is no memory for
 * `what`. */
xsm_status xsmi_array_new(xsm_context *ctx, void *array, uint64_t count, size_t each, const char *what, xsm_error *err);
xsm_status xsmi_zeros_new(xsm_context *ctx, void *array, uint64_t count, size_t each, const char *what, xsm_error *err);
/* Grows (or shrinks) a block, keeping its contents; on failure the old block stays. NULL also when the call was
 * cancelled. */
void *xsmi_reallocate(xsm_context *ctx, void *memory, size_t old_count, uint64_t new_count, size_t each);
void xsmi_release(xsm_context *ctx, void *memory, size_t count, size_t each);
/* Makes the array that `array` points to hold at least `count`; its contents are not kept. False when there is no
 * memory; the array is then unchanged. */
bool xsmi_reserve(xsm_context *ctx, void *array, size_t *capacity, uint64_t count, size_t each);
/* Arrays that share a capacity: XSMI_ARRAYS(XSMI_ARRAY(p), XSMI_ARRAY(q)) are the arrays that p and q point to. */
typedef struct xsmi_array_ref {
    void *pointer; /* the pointer's address */
    size_t each;
} xsmi_array_ref;
#define XSMI_ARRAY(p) ((xsmi_array_ref){&(p), sizeof *(p)})
#define XSMI_ARRAYS(...) ((const xsmi_array_ref[]){__VA_ARGS__, {NULL, 0}})
/* xsmi_reserve() for all of them: if memory is missing for one, none is changed. */
bool xsmi_reserve_all(xsm_context *ctx, const xsmi_array_ref *arrays, size_t *capacity, uint64_t count);
/* Releases them; their pointers become NULL, the capacity 0. */
void xsmi_release_all(xsm_context *ctx, const xsmi_array_ref *arrays, size_t *capacity);
/* Makes a struct of zeros. `object` is the address of the pointer to it. Works in a cancelled call, too. */
xsm_status xsmi_struct_new(xsm_context *ctx, void *object, size_t size, const char *what, xsm_error *err);
/* Makes an object: such a struct, whose member `context` keeps a reference to the context (for NULL a new one). */
#define XSMI_OBJECT_NEW(of, object, type, what, err)                                                                   \
    xsmi_object_new(of, object, sizeof(type), offsetof(type, context), what, err)
xsm_status xsmi_object_new(xsm_context *context, void *object, size_t size, size_t at, const char *what,
                           xsm_error *err);
/* Releases its memory, then the reference. */
#define XSMI_OBJECT_FREE(object, type) xsmi_object_free(object, sizeof(type), offsetof(type, context))
void xsmi_object_free(void *object, size_t size, size_t at);
/* Returns a terminated copy of length bytes. Release with xsmi_release_text(). */
char *xsmi_copy_text(xsm_context *ctx, const char *text, size_t length);
void xsmi_release_text(xsm_context *ctx, char *text);

/* Seconds on a clock that only goes forward (activity.c). */
double xsmi_seconds(void);

/* -- jobs (activity.c) --------------------------------------------------------------------------------------------- */

/* Runs job for each index in [0, count) on the context's threads; returns when all have ended. Without threads, or for
 * one job, everything runs on the calling thread as thread 0. In a call that is cancelled (activity.h) the jobs left do
 * not run and the status is XSM_CANCELLED. */
xsm_status xsmi_run(xsm_context *ctx, xsm_job job, void *state, size_t count, xsm_error *err);

/* Some of the elements that one of the following functions divides (run_ranges.c). */
typedef struct xsmi_range {
    size_t first, end; /* first < end */
    size_t index;      /* of the range */
    uint32_t thread;   /* that runs it */
} xsmi_range;
typedef void (*xsmi_range_job)(void *state, const xsmi_range *r);
/* As xsmi_run(), with one job for `each` (> 0) of `count` elements; the last one may have fewer. */
xsm_status xsmi_run_ranges(xsm_context *ctx, xsmi_range_job job, void *state, uint64_t count, size_t each,
                           xsm_error *err);
/* As xsmi_run_ranges(), on the calling thread, whether the call is cancelled or not. */
void xsmi_run_here(xsmi_range_job job, void *state, uint64_t count, size_t each);
/* As xsmi_run_ranges(), but a host's runner that fails does not matter: the calling thread runs, as thread 0, the jobs
 * that have not run. The status is XSM_OK or XSM_CANCELLED. */
xsm_status xsmi_run_all(xsm_context *ctx, xsmi_range_job job, void *state, uint64_t count, size_t each, xsm_error *err);
/* As xsmi_run_all(), for jobs that must all run, for example in a process that others no longer wait for: it cannot be
 * cancelled, either. */
void xsmi_run_surely(xsm_context *ctx, xsmi_range_job job, void *state, uint64_t count, size_t each);
/* xsmi_run_surely() if `ranks`, where a process that failed alone would differ from the others; else
 * xsmi_run_ranges(). */
xsm_status xsmi_run_together(xsm_context *ctx, bool ranks, xsmi_range_job job, void *state, uint64_t count, size_t each,
                             xsm_error *err);
/* Serial work that runs beside jobs: neither needs results of the other. */
typedef struct xsmi_aside {
    void (*run)(void *state);
    void *state;
} xsmi_aside;
/* As xsmi_run_ranges(), with `aside` (NULL = none) as one more job, which begins first. */
xsm_status xsmi_run_beside(xsm_context *ctx, xsmi_range_job job, void *state, uint64_t count, size_t each,
                           const xsmi_aside *aside, xsm_error *err);

/* Refuses a context of several processes for `what`. NULL is accepted. (group.c) */
xsm_status xsmi_context_need_alone(const xsm_context *ctx, const char *what, xsm_error *err);

#endif
