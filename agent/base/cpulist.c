// SPDX-License-Identifier: Apache-2.0
/*
 * Sets of CPUs in the kernel's list notation, and the affinity of threads. Decides, before the
 * first sample, where the measuring threads and the loads run. The affinity calls are system calls,
 * because cpu_set_t of the C libraries ends at 1024 CPUs.
 */
#include "base/cpulist.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BITS_PER_WORD (8 * (int)sizeof(unsigned long))

static int read_number(const char **text)
{
	int number = 0;

	if (**text < '0' || **text > '9')
		return -EINVAL;
	for (; **text >= '0' && **text <= '9'; (*text)++) {
		if (number < CPULIST_MAX)
			number = number * 10 + (**text - '0');
	}
	return number < CPULIST_MAX ? number : -ERANGE;
}

int cpulist_parse(struct cpulist *list, const char *text)
{
	struct cpulist result = { 0 };

	if (!strcmp(text, "all"))
		return cpulist_allowed(list);
	for (;;) {
		int first = read_number(&text);
		int last = first;

		if (first < 0)
			return first;
		if (*text == '-') {
			text++;
			last = read_number(&text);
			if (last < 0)
				return last;
			if (last < first)
				return -EINVAL;
		}
		for (int cpu = first; cpu <= last; cpu++)
			cpulist_add(&result, cpu);
		if (*text != ',')
			break;
		text++;
	}
	if (*text)
		return -EINVAL;
	*list = result;
	return 0;
}

int cpulist_online(struct cpulist *list)
{
	char text[4096];
	ssize_t size = -1;
	int fd = open("/sys/devices/system/cpu/online", O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		size = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	if (size > 0) {
		text[size] = '\0';
		text[strcspn(text, "\n")] = '\0';
		if (!cpulist_parse(list, text))
			return 0;
	}
	/* Without /sys or this file: the CPUs that this process may use are online. */
	return cpulist_allowed(list);
}

int cpulist_allowed(struct cpulist *list)
{
	struct cpulist result = { 0 };

	if (syscall(SYS_sched_getaffinity, 0, sizeof(result.bits), result.bits) < 0)
		return -errno;
	*list = result;
	return 0;
}

bool cpulist_may_use(int cpu)
{
	struct cpulist before, one = { 0 }, now = { 0 };

	cpulist_add(&one, cpu);
	if (cpulist_allowed(&before) || cpulist_apply(&one, 0))
		return false;
	cpulist_allowed(&now);
	cpulist_apply(&before, 0);
	return cpulist_has(&now, cpu);
}

bool cpulist_has(const struct cpulist *list, int cpu)
{
	if (cpu < 0 || cpu >= CPULIST_MAX)
		return false;
	return list->bits[cpu / BITS_PER_WORD] >> (cpu % BITS_PER_WORD) & 1;
}

void cpulist_add(struct cpulist *list, int cpu)
{
	if (cpu >= 0 && cpu < CPULIST_MAX)
		list->bits[cpu / BITS_PER_WORD] |= 1UL << (cpu % BITS_PER_WORD);
}

void cpulist_remove(struct cpulist *list, int cpu)
{
	if (cpu >= 0 && cpu < CPULIST_MAX)
		list->bits[cpu / BITS_PER_WORD] &= ~(1UL << (cpu % BITS_PER_WORD));
}

int cpulist_count(const struct cpulist *list)
{
	int count = 0;

	for (int cpu = cpulist_next(list, 0); cpu >= 0; cpu = cpulist_next(list, cpu + 1))
		count++;
	return count;
}

int cpulist_next(const struct cpulist *list, int cpu)
{
	for (cpu = cpu < 0 ? 0 : cpu; cpu < CPULIST_MAX; cpu++) {
		if (!(cpu % BITS_PER_WORD) && !list->bits[cpu / BITS_PER_WORD])
			cpu += BITS_PER_WORD - 1;
		else if (cpulist_has(list, cpu))
			return cpu;
	}
	return -1;
}

/* A list that does not fit ends in "..." after its last item for which there is room. */
const char *cpulist_format(const struct cpulist *list, char *buf, size_t size)
{
	size_t used = 0, cut = 0;
	int last;

	if (!size)
		return "";
	buf[0] = '\0';
	for (int first = cpulist_next(list, 0); first >= 0; first = cpulist_next(list, last + 1)) {
		char item[16];
		size_t length;

		for (last = first; cpulist_has(list, last + 1); last++)
			;
		length = snprintf(item, sizeof(item), first == last ? "%s%d" : "%s%d-%d",
				  used ? "," : "", first, last);
		if (used + length >= size) {
			snprintf(buf + cut, size - cut, "%s", cut ? ",..." : "...");
			return buf;
		}
		memcpy(buf + used, item, length + 1);
		used += length;
		if (used + sizeof(",...") <= size)
			cut = used;
	}
	return buf;
}

int cpulist_apply(const struct cpulist *list, pid_t tid)
{
	if (syscall(SYS_sched_setaffinity, tid, sizeof(list->bits), list->bits) < 0)
		return -errno;
	return 0;
}
