/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether operations of the C library enter the kernel. A separate thread carries them out behind a
 * seccomp filter that notifies each of its system calls (seccomp_unotify(2), Linux 5.5), counts
 * them and lets them continue. Counting takes place after the measurement, and takes no time from
 * it.
 */
#ifndef RTGAUGE_SYSCALLS_H
#define RTGAUGE_SYSCALLS_H

#include <stdbool.h>

#include "methods/ensemble.h"

#define SYSCALLS_TABLE "system calls"
#define SYSCALLS_MEANING "system calls of 100 uncontended operations, after a first one"
#define SYSCALLS_NONE "uncontended operations make no system call"

/* Operations on one object, in turn. */
struct syscalls_pair {
	const char *kind;
	void (*acquire)(void *object);
	void (*release)(void *object);
	void *object;
	bool excepted;	   /* it has to make system calls */
	unsigned calls[2]; /* of acquire and release */
	int number;	   /* the first of these, or -1 */
};

/* In finish(): count the system calls of @pairs, with the ensemble's CPU and priority, and put the
 * table and the verdict. */
void syscalls_put(struct ensemble *e, struct syscalls_pair *pairs, int count);

#endif
