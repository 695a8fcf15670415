/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of CPUs in the kernel's list notation ("0-3,8"), up to CPULIST_MAX CPUs. */
#ifndef RTGAUGE_CPULIST_H
#define RTGAUGE_CPULIST_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define CPULIST_MAX 4096

struct cpulist {
	unsigned long bits[CPULIST_MAX / (8 * sizeof(unsigned long))];
};

/* Read "0-3,8", or "all" = the CPUs this process may run on. 0, -EINVAL, -ERANGE. */
int cpulist_parse(struct cpulist *list, const char *text);
/* The CPUs that are online now / that this process may run on. 0 or -errno. */
int cpulist_online(struct cpulist *list);
int cpulist_allowed(struct cpulist *list);
/* Whether this thread may move to a CPU, also to one that is not in its affinity: with isolcpus=, every
 * process begins on the other CPUs. */
bool cpulist_may_use(int cpu);
bool cpulist_has(const struct cpulist *list, int cpu);
void cpulist_add(struct cpulist *list, int cpu);
void cpulist_remove(struct cpulist *list, int cpu);
int cpulist_count(const struct cpulist *list);
/* The first CPU from @cpu on that is in the list, or -1. */
int cpulist_next(const struct cpulist *list, int cpu);
const char *cpulist_format(const struct cpulist *list, char *buf, size_t size);
/* Let thread @tid (0: the caller) run on these CPUs only. 0 or -errno. */
int cpulist_apply(const struct cpulist *list, pid_t tid);

#endif
