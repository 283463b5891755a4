/*
 * What each public function that returns a status does first.
 *
 * The library computes in C's default floating-point environment: it rounds to nearest, keeps subnormal numbers and
 * does not trap. A host's thread may have another one (a game or an audio program flushes subnormals, for example), in
 * which every sum would have other bits. A function enters the default environment and leaves the host's as it was, its
 * exception flags included; errno, too, is as before. And the caller's error is cleared, so that its status is always
 * the one that the function returned.
 */
#ifndef XSMI_ENTRY_H
#define XSMI_ENTRY_H

#include <errno.h>
#include <fenv.h>
#include <stdint.h>

#include <xsoftmax/error.h>

typedef struct xsmi_host_state {
    int number; /* errno */
#if defined(__x86_64__)
    uint32_t control; /* MXCSR */
    uint16_t x87; /* The x87's control word: nothing here computes with it, but glibc prints and reads numbers in its
                     rounding mode. */
#else
    fenv_t environment;
#endif
} xsmi_host_state;

#if defined(__x86_64__)

/* All exceptions masked, round to nearest, subnormals kept, no flag raised; the bits that are flags. */
#define XSMI_DEFAULT_CONTROL 0x1f80u
#define XSMI_CONTROL_FLAGS 0x3fu
#define XSMI_DEFAULT_X87 0x37fu

static inline void xsmi_enter_environment(xsmi_host_state *e)
{
    e->control = __builtin_ia32_stmxcsr();
    /* Raised flags change no result, and writing the register takes longer than all else here. */
    if ((e->control & ~XSMI_CONTROL_FLAGS) != XSMI_DEFAULT_CONTROL) {
        __builtin_ia32_ldmxcsr(XSMI_DEFAULT_CONTROL);
    }
    const uint16_t usual = XSMI_DEFAULT_X87;
    __asm__ volatile("fnstcw %0" : "=m"(e->x87));
    if (e->x87 != usual) {
        __asm__ volatile("fldcw %0" : : "m"(usual));
    }
}

static inline void xsmi_leave_environment(const xsmi_host_state *e)
{
    if (__builtin_ia32_stmxcsr() != e->control) {
        __builtin_ia32_ldmxcsr(e->control);
    }
    uint16_t now;
    __asm__ volatile("fnstcw %0" : "=m"(now));
    if (now != e->x87) {
        __asm__ volatile("fldcw %0" : : "m"(e->x87));
    }
}

#else

static inline void xsmi_enter_environment(xsmi_host_state *e)
{
    fegetenv(&e->environment);
    fesetenv(FE_DFL_ENV);
}

static inline void xsmi_leave_environment(const xsmi_host_state *e)
{
    fesetenv(&e->environment);
}

#endif

static inline xsmi_host_state xsmi_enter(void)
{
    xsmi_host_state e = {.number = errno};
    xsmi_enter_environment(&e);
    return e;
}

static inline void xsmi_leave(const xsmi_host_state *e)
{
    xsmi_leave_environment(e);
    errno = e->number;
}

/* Clears the error, so that it is empty when the call succeeds. Does nothing if err is NULL or its size is too
 * small. */
void xsmi_clear_error(xsm_error *err);

/* The first line of a public function; it ends with the function. */
#define XSMI_ENTER(err)                                                                                                \
    xsmi_clear_error(err);                                                                                             \
    XSMI_ENTER_AS(xsmi_host_state_)
#define XSMI_ENTER_AS(name) __attribute__((cleanup(xsmi_leave), unused)) const xsmi_host_state name = xsmi_enter()

/* Runs a statement that calls a function of the host's: the function gets the default environment, and what it changes
 * in that and in errno is undone. The functions of tables (ext/) are called without this, in inner loops. */
#define XSMI_CALL_HOST(statement)                                                                                      \
    do {                                                                                                               \
        XSMI_ENTER_AS(xsmi_before_call_);                                                                              \
        statement;                                                                                                     \
    } while (0)

#endif
