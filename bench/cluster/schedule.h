/*
 * What steps of a divided run do: their collective calls in order, their sizes, and the processor time between them.
 * cluster.c records it with the library; replay.c repeats it on machines that SimGrid simulates.
 */
#ifndef BENCH_SCHEDULE_H
#define BENCH_SCHEDULE_H

#include <stdint.h>
#include <stdio.h>

#define XSM_EXPERIMENTAL
#include <xsoftmax/ext/comm.h>

typedef struct schedule schedule;

/* A group of which this process is the last rank, and the others are not there: they say that all is well where this
 * one does, and send small numbers; none of their values is larger than its own, but for 0 where it has -infinity. For
 * steps of estimators that draw classes. There is one such group in a program. */
xsm_comm schedule_absent(uint32_t ranks);

/* Ends the program if there is no memory. `of` and the result live as long as the schedule is used. */
schedule *schedule_new(const xsm_comm *of);
void schedule_free(schedule *s);
/* The same calls as `of`, which are recorded. */
xsm_comm schedule_comm(schedule *s);
/* What is recorded ends here, some steps each time, and begins again. */
void schedule_step(schedule *s);
/* Writes the mean of what was recorded, of `steps` steps each, but for the first fifth, and for what has more or fewer
 * calls than most have: a line `step SECONDS RANKS STEPS`, by the clock for one step, then a line a call,
 * `max|gather|copy BYTES SECONDS`: the bytes of this rank, and the processor time before it; last `end 0 SECONDS`. Of
 * `gather` the bytes of every rank follow, means likewise. Returns 0; -1 if fewer than four are left, or
 * they make different calls. */
int schedule_write(const schedule *s, uint32_t steps, FILE *out);

#endif
