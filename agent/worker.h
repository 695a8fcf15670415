/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring threads: started, held at a gate, let go, woken to end, joined. */
#ifndef RTGAUGE_WORKER_H
#define RTGAUGE_WORKER_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct run;
struct worker;

/* Ends a worker's wait early; its handler does nothing. */
#define WORKER_WAKE_SIGNAL SIGUSR1

/* Start all workers and wait until each is at the gate. 0 or -errno with a message; either way
 * workers_open_gate() and workers_join() are to follow. */
int workers_start(struct run *run);
void workers_open_gate(struct run *run);
bool workers_done(const struct run *run);
/* Interrupt the waits of those that are not done. */
void workers_wake(struct run *run);
void workers_join(struct run *run);

/* Whether it still may run on its one CPU only. */
bool worker_is_pinned(const struct worker *worker);
const char *worker_policy_name(int policy);
void worker_read_policy(pid_t tid, const char **policy, int *priority);

#endif
