/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring threads and processes: started, held at a gate, released, woken to end, joined. */
#ifndef RTGAUGE_WORKER_H
#define RTGAUGE_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct message;
struct run;
struct worker;
struct worker_placement;

/* Stack of a thread that does little: 32 KiB, or the C library's min if that is larger. */
size_t worker_small_stack_size(void);
/* The memory that the stacks of all workers will take. */
size_t workers_stacks_size(const struct run *run);
/* Start all workers and wait until each is at the gate. A measuring process calls @forked first,
 * with the run. 0 or -errno with a message; either way workers_open_gate() and workers_join() have
 * to follow. */
int workers_start(struct run *run, void (*forked)(void *run));
void workers_open_gate(struct run *run);
bool workers_done(const struct run *run);
/* When the last worker ended, by CLOCK_MONOTONIC; valid once all are done. 0: no worker ended. */
int64_t workers_ended_ns(const struct run *run);
/* A process that has ended before it was done: -EIO with a message; said once. */
int workers_check(struct run *run, struct message *msg);
/* Interrupt the waits of those that are not done. */
void workers_wake(struct run *run);
void workers_join(struct run *run);

/* Policy, priority and affinity as the kernel has them; false when the thread is gone. */
bool worker_look(const struct worker *worker, struct worker_placement *found);

#endif
