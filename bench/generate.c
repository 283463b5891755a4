/*
 * Writes any number of generated rows as Extreme Classification text to standard output, for data larger than memory:
 *
 *     bench_generate ROWS [FEATURES A-ROW CLASSES]       (4096 features, 100 of them a row, 1000 classes by default)
 *
 * A row of class k has half of its features from 64 features of the class and half from all features, with values from
 * 0.1 to 1. A cache of these rows has 8 bytes per value and 28 per row.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 1;

static uint32_t below(uint32_t n)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((state >> 32) * n >> 32);
}

int main(int argc, char **argv)
{
    unsigned long rows = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    uint32_t features = argc > 2 ? (uint32_t)atoi(argv[2]) : 4096;
    uint32_t a_row = argc > 3 ? (uint32_t)atoi(argv[3]) : 100;
    uint32_t classes = argc > 4 ? (uint32_t)atoi(argv[4]) : 1000;
    unsigned long *mark = calloc(features ? features : 1, sizeof *mark);
    if (rows == 0 || a_row > features / 2 || features < 128 || classes == 0 || !mark) {
        fprintf(stderr,
                "usage: bench_generate ROWS [FEATURES A-ROW CLASSES], 128 features or more, at most half of them "
                "in a row\n");
        free(mark);
        return 2;
    }
    printf("%lu %u %u\n", rows, features, classes);
    for (unsigned long i = 1; i <= rows; i++) {
        uint32_t k = below(classes);
        printf("%u", k);
        for (uint32_t n = 0; n < a_row; n++) {
            uint32_t f = n % 2 ? (uint32_t)((k * UINT64_C(2654435761) + below(64) * UINT64_C(40503)) % features)
                               : below(features);
            while (mark[f] == i) {
                f = below(features); /* each once in a row */
            }
            mark[f] = i;
            printf(" %u:0.%u", f, 1 + below(9));
        }
        putchar('\n');
    }
    free(mark);
    return fflush(stdout) != 0;
}
