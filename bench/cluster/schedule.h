/*
 * What one step of a divided run does: its collective calls in order, their sizes, and the processor time between them.
 * cluster.c records it with the library; replay.c repeats it on machines that SimGrid simulates.
 */
#ifndef BENCH_SCHEDULE_H
#define BENCH_SCHEDULE_H

#include <stdint.h>
#include <stdio.h>

#define XSM_EXPERIMENTAL
#include <xsoftmax/ext/comm.h>

typedef struct schedule schedule;

/* Ends the program if there is no memory. `of` and the result live as long as the schedule is used. */
schedule *schedule_new(const xsm_comm *of);
void schedule_free(schedule *s);
/* The same calls as `of`, which are recorded. */
xsm_comm schedule_comm(schedule *s);
/* A step ends here, and another begins. */
void schedule_step(schedule *s);
/* Writes the mean of the steps, but for the first fifth: a line `step SECONDS`, by the clock, then a line a call,
 * `max|gather|copy BYTES SECONDS`: the bytes of this rank, and the processor time before it; last `end 0 SECONDS`.
 * Returns 0; -1 if there are fewer than five steps, or steps make different calls. */
int schedule_write(const schedule *s, FILE *out);

#endif
