/*
 * A run as a demanding host makes it: on a thread with a small stack, which is filled with a pattern first, so that one
 * sees how much was used; and, on some machines, in another floating-point environment, which the run must leave as it
 * found it.
 */
#include "bits.h"

#include <fenv.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <pmmintrin.h>
#include <xmmintrin.h>
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define INSTRUMENTED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define INSTRUMENTED 1
#endif
#endif

/* What musl gives its threads, half of which is for the library; sanitizers' frames are larger. */
#ifdef INSTRUMENTED
#define STACK_SIZE ((size_t)8 << 20)
#else
#define STACK_SIZE ((size_t)128 << 10)
#endif

const size_t bits_stack_size = STACK_SIZE, bits_stack_most = STACK_SIZE / 2;

typedef struct guest {
    bits_run run;
    const bits_machine *machine;
    const void *what;
    uint64_t hash;
    xsm_status status;
    bool kept; /* the environment */
} guest;

static void set_odd_environment(void)
{
    fesetround(FE_UPWARD);
#if defined(__x86_64__)
    _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
    _MM_SET_DENORMALS_ZERO_MODE(_MM_DENORMALS_ZERO_ON);
#endif
    feclearexcept(FE_ALL_EXCEPT);
}

static bool is_odd_environment(void)
{
    bool same = fegetround() == FE_UPWARD;
#if defined(__x86_64__)
    same = same && _MM_GET_FLUSH_ZERO_MODE() == _MM_FLUSH_ZERO_ON &&
           _MM_GET_DENORMALS_ZERO_MODE() == _MM_DENORMALS_ZERO_ON;
#endif
    return same;
}

static void *run_guest(void *argument)
{
    guest *g = argument;
    if (g->machine->odd_environment) {
        set_odd_environment();
    }
    g->status = g->run(g->machine, g->what, &g->hash);
    g->kept = !g->machine->odd_environment || is_odd_environment();
    fesetenv(FE_DFL_ENV);
    return NULL;
}

unsigned char *bits_new_stack(void)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *memory = mmap(NULL, STACK_SIZE + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, page, PROT_NONE) != 0) {
        bits_fail("no memory for a stack");
    }
    return memory + page;
}

size_t bits_stack_used(const unsigned char *stack)
{
    size_t untouched = 0;
    while (untouched < STACK_SIZE && stack[untouched] == BITS_STACK_PATTERN) {
        untouched++;
    }
    return STACK_SIZE - untouched;
}

xsm_status bits_run_as_guest(bits_run run, const bits_machine *machine, const void *what, uint64_t *hash, size_t *used)
{
    guest g = {run, machine, what, 0, XSM_ERROR_INTERNAL, false};
    pthread_attr_t attributes;
    pthread_t thread;
    static unsigned char *stack;
    stack = stack ? stack : bits_new_stack();
    memset(stack, BITS_STACK_PATTERN, STACK_SIZE);
    if (pthread_attr_init(&attributes) != 0 || pthread_attr_setstack(&attributes, stack, STACK_SIZE) != 0 ||
        pthread_create(&thread, &attributes, run_guest, &g) != 0 || pthread_join(thread, NULL) != 0) {
        bits_fail("no thread");
    }
    pthread_attr_destroy(&attributes);
    *used = bits_stack_used(stack);
    *hash = g.hash;
    if (!g.kept) {
        printf("a run has changed the floating-point environment of its thread\n");
        return XSM_ERROR_INTERNAL;
    }
    return g.status;
}
