/* Groups of ranks that are threads, each with a context of its own. */
#ifndef TEST_COMM_H
#define TEST_COMM_H

#define XSM_EXPERIMENTAL
#include <xsoftmax/ext/comm.h>

#include <stdbool.h>

#define TEST_RANKS 8

/* One rank of a group. Its body must not use cmocka's asserts, which work on the main thread alone. */
typedef struct test_rank {
    uint32_t rank, ranks;
    xsm_context *context;
    void *user;
    xsm_status status; /* what the body returned */
    xsm_error err;
} test_rank;

typedef xsm_status (*test_rank_body)(test_rank *rank);

/* Runs the body on so many ranks (1 to TEST_RANKS; 1: without a communicator), each with a context of `threads`
 * threads, and fills ranks[0..count). A rank that leaves while others wait for it makes their calls fail, and so does
 * the group's collective call number `fail_at` (from 1; 0 = none). */
void test_run_ranks(uint32_t count, uint32_t threads, uint64_t fail_at, test_rank_body body, void *user,
                    test_rank *ranks);

/* Whether a comparison is made on so many ranks: without test_full() on three alone. */
bool test_ranks_tried(uint32_t count);

/* Runs the body on so many ranks, all of which must succeed. The bytes of the file that it saves at `path` are the
 * caller's to free. */
unsigned char *test_ranks_file(uint32_t count, uint32_t threads, test_rank_body body, void *user, const char *path,
                               size_t *size);
/* What a body makes: a file, and numbers of each rank. */
typedef struct test_made {
    const char *path;
    void *numbers; /* [TEST_RANKS][each] bytes */
    size_t each;
} test_made;
/* Runs the body on one process, then on two ranks and more: all make the same, to the bit. */
void test_same_on_ranks(test_rank_body body, void *user, const test_made *made, uint32_t most, const char *what);

/* What fails of a rank, or stops it: number `left` of what is counted from now on (0 = none), once. */
typedef struct test_countdown {
    size_t left;
    bool reached;
} test_countdown;

/* An allocator that fails when `c`, which must outlive it, comes to its number. */
xsm_allocator test_countdown_allocator(test_countdown *c);
/* A context of one thread in the rank's group, whose allocations count `memory` down. Its hook, which is called as
 * often as it can be, counts `hook` down and cancels at its number. Either may be NULL. */
xsm_status test_rank_context(test_rank *r, test_countdown *memory, test_countdown *hook, xsm_context **out);

/* A context with a runner of two threads in the rank's group, which counts `runs` down: at their number it leaves out
 * every other job, and says so. */
xsm_status test_rank_context_running(test_rank *r, test_countdown *runs, xsm_context **out);

#endif
