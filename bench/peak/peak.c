/*
 * Finds the loops of an instruction set, and reads the clock.
 */
#include "peak.h"

#include <string.h>
#include <time.h>

extern const peak_loops peak_scalar;
#if defined(__x86_64__) || defined(__i386__)
extern const peak_loops peak_avx2;
extern const peak_loops peak_avx512;
#elif defined(__aarch64__)
extern const peak_loops peak_neon;
#endif

const peak_loops *peak_find(const char *name)
{
    static const peak_loops *const all[] = {
        &peak_scalar,
#if defined(__x86_64__) || defined(__i386__)
        &peak_avx2,
        &peak_avx512,
#elif defined(__aarch64__)
        &peak_neon,
#endif
    };
    for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++) {
        if (strcmp(all[k]->name, name) == 0) {
            return all[k];
        }
    }
    return NULL;
}

double peak_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
