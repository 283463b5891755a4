/*
 * Reading Extreme Classification text that is already in memory, compared with reading the same number of bytes and
 * doing nothing with them. One thread reads, whatever the number of threads.
 */
#include "ceilings.h"
#include "data.h"

#include <stdlib.h>
#include <string.h>

#define ROWS 20000

typedef struct text {
    xsm_context *context;
    char *bytes;
    size_t length, place;
} text;

static int64_t next_bytes(void *user, void *buffer, size_t size)
{
    text *t = user;
    size_t some = t->length - t->place < size ? t->length - t->place : size;
    memcpy(buffer, t->bytes + t->place, some);
    t->place += some;
    return (int64_t)some;
}

static double read_rate(void *state)
{
    text *t = state;
    xsm_source source = {sizeof source, t, next_bytes};
    xsm_dataset *data = NULL;
    xsm_error err = XSM_ERROR_INIT;
    t->place = 0;
    double start = peak_clock();
    bench_check(
        xsm_dataset_read(t->context, NULL,
                         &(xsm_storage){.size = sizeof(xsm_storage), .name = "generated text", .source = &source}, NULL,
                         &data, &err),
        &err);
    double seconds = peak_clock() - start;
    xsm_dataset_free(data);
    return (double)t->length / seconds;
}

bench_result bench_read(uint32_t threads)
{
    text t = {bench_context(threads), NULL, 0, 0};
    t.bytes = bench_bibtex_text(ROWS, &t.length);
    ceilings c = ceilings_new(1, NULL, t.length / sizeof(float) / 512, 512);
    bench_result result = bench_measure(read_rate, &t, ceiling_read, &c, "MB/s");
    result.value *= 1e-6;
    result.ceiling *= 1e-6;
    ceilings_free(&c);
    free(t.bytes);
    xsm_context_free(t.context);
    return result;
}
