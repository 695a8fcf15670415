// SPDX-License-Identifier: Apache-2.0
/* The changes of `--prepare` for a run, in addition to the settings that every run needs. */
#include "system/prepare.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/value.h"

#define PREPARE_PATH 96
#define CPU_FOLDER "/sys/devices/system/cpu/"
#define TIMER_MIGRATION "/proc/sys/kernel/timer_migration"

/* Where the kernel has them; docs/reference/settings.md says why. Not `watchdog`: written back, it
 * would switch on both detectors though only one of them was on. */
static const struct {
	const char *item; /* one of PREPARE_ITEMS */
	struct setting_wish wish;
} prepare_table[] = {
	{ "soft_watchdog", { "/proc/sys/kernel/soft_watchdog", "0" } },
	{ "nmi_watchdog", { "/proc/sys/kernel/nmi_watchdog", "0" } },
	{ "numa_balancing", { "/proc/sys/kernel/numa_balancing", "0" } },
	{ "timer_migration", { TIMER_MIGRATION, "0" } },
	{ "stat_interval", { "/proc/sys/vm/stat_interval", "120" } },
	{ "compaction_proactiveness", { "/proc/sys/vm/compaction_proactiveness", "0" } },
	{ "transparent_hugepage", { "/sys/kernel/mm/transparent_hugepage/enabled", "never" } },
	{ "ksm", { "/sys/kernel/mm/ksm/run", "0" } },
	{ "rcu_normal", { "/sys/kernel/rcu_normal", "1" } },
};

#define WORKQUEUE_MASK "/sys/devices/virtual/workqueue/cpumask"
#define INTERRUPT_MASK "/proc/irq/default_smp_affinity"

struct prepare {
	struct settings *settings;
	const char *items; /* those wanted, separated by commas; NULL: all */
	const struct cpulist *measured;
	struct cpulist others; /* the CPUs online that are not measured */
	struct setting_wish *wishes;
	size_t count;
	bool failed; /* out of memory */
};

static bool wanted(const struct prepare *p, const char *item)
{
	const char *at = p->items;
	size_t size = strlen(item);

	while (at && (strncmp(at, item, size) || (at[size] && at[size] != ','))) {
		at = strchr(at, ',');
		at += at ? 1 : 0;
	}
	return at || !p->items;
}

static void add(struct prepare *p, const char *path, const char *value)
{
	struct setting_wish *grown;

	grown = realloc(p->wishes, (p->count + 1) * sizeof(*grown));
	if (!grown) {
		p->failed = true;
		return;
	}
	p->wishes = grown;
	grown += p->count++;
	grown->path = strdup(path);
	grown->value = strdup(value);
	p->failed |= !grown->path || !grown->value;
}

/* Timers of a CPU without a tick leave it only where they may. */
static bool without_tick(const struct prepare *p)
{
	struct cpulist list;
	char value[VALUE_MAX];
	int cpu;

	if (value_get(CPU_FOLDER "nohz_full", value, NULL) || cpulist_parse(&list, value))
		return false;
	for (cpu = cpulist_next(&list, 0); cpu >= 0; cpu = cpulist_next(&list, cpu + 1))
		if (cpulist_has(p->measured, cpu))
			return true;
	return false;
}

static void add_table(struct prepare *p)
{
	for (size_t i = 0; i < sizeof(prepare_table) / sizeof(*prepare_table); i++) {
		const struct setting_wish *wish = &prepare_table[i].wish;

		if (wanted(p, prepare_table[i].item) && !access(wish->path, F_OK) &&
		    (strcmp(wish->path, TIMER_MIGRATION) || !without_tick(p)))
			add(p, wish->path, wish->value);
	}
}

/*
 * The preference first, the governor second: restored in reverse order, the governor that takes
 * any preference is back before the preference is. @policy: its folder below CPU_FOLDER.
 */
static int add_policy(struct prepare *p, const char *policy, struct message *msg)
{
	char path[PREPARE_PATH], value[VALUE_MAX];

	snprintf(path, sizeof(path), CPU_FOLDER "%.40s/scaling_governor", policy);
	/* its frequency would be lost, and does not change while it is measured */
	if (!value_get(path, value, NULL) && !strcmp(value, "userspace"))
		return settings_refuse(p->settings, path, "performance",
				       "the governor userspace keeps the frequency fixed", msg);
	snprintf(path, sizeof(path), CPU_FOLDER "%.40s/energy_performance_preference", policy);
	if (!access(path, F_OK))
		add(p, path, "performance");
	snprintf(path, sizeof(path), CPU_FOLDER "%.40s/scaling_governor", policy);
	add(p, path, "performance");
	return 0;
}

/*
 * The policy of a CPU: its folder below CPU_FOLDER, and its number, or -1. Several CPUs can share a
 * policy. Each has a link to its folder, cpufreq/policyN. Before Linux 4.4, the folder is that of
 * one of the CPUs, cpuN/cpufreq, and the links of the other CPUs point there.
 */
static int find_policy(int cpu, char *folder, size_t room)
{
	char path[PREPARE_PATH], target[PREPARE_PATH];
	ssize_t size;
	int number;

	snprintf(path, sizeof(path), CPU_FOLDER "cpu%d/cpufreq", cpu);
	size = readlink(path, target, sizeof(target) - 1);
	if (size < 0 && errno != EINVAL)
		return -1;
	target[size < 0 ? 0 : size] = '\0';
	if (sscanf(target, "../cpufreq/policy%d", &number) == 1) {
		snprintf(folder, room, "cpufreq/policy%d", number);
		return number;
	}
	if (size >= 0 && sscanf(target, "../cpu%d/cpufreq", &cpu) != 1)
		return -1;
	snprintf(folder, room, "cpu%d/cpufreq", cpu);
	return cpu;
}

static int add_governors(struct prepare *p, struct message *msg)
{
	struct cpulist done = { 0 };
	char folder[PREPARE_PATH / 2];
	int cpu, number, found = 0, err = 0;

	for (cpu = cpulist_next(p->measured, 0); cpu >= 0 && !err;
	     cpu = cpulist_next(p->measured, cpu + 1)) {
		number = find_policy(cpu, folder, sizeof(folder));
		if (number < 0)
			continue;
		found++;
		if (!cpulist_has(&done, number))
			err = add_policy(p, folder, msg);
		cpulist_add(&done, number);
	}
	return found ? err :
		       settings_refuse(
			       p->settings, CPU_FOLDER "cpu*/cpufreq/scaling_governor",
			       "performance",
			       "the CPU frequency cannot be controlled here (a virtual machine?)",
			       msg);
}

/* Clear the bits of the measured CPUs in a mask as the kernel writes it ("ff,ffffffff"), or make
 * it that of the others; false: no bit is set. */
static bool change_mask(const struct prepare *p, char *mask, bool others)
{
	static const char digits[] = "0123456789abcdef";
	size_t at = strlen(mask);
	const char *digit;
	int cpu = 0, bit, value;
	bool any = false;

	while (at-- > 0) {
		digit = mask[at] ? strchr(digits, mask[at]) : NULL;
		if (!digit)
			continue;
		value = (int)(digit - digits);
		for (bit = 1; bit < 16; bit <<= 1, cpu++) {
			if (others)
				value |= cpulist_has(&p->others, cpu) ? bit : 0;
			else if (cpulist_has(p->measured, cpu))
				value &= ~bit;
		}
		mask[at] = digits[value];
		any |= value != 0;
	}
	return any;
}

static void add_mask(struct prepare *p, const char *path)
{
	char mask[VALUE_MAX];

	if (!value_get(path, mask, NULL) &&
	    (change_mask(p, mask, false) || change_mask(p, mask, true)))
		add(p, path, mask);
}

/* An interrupt that may come to a measured CPU stays on the other CPUs that it has, if any. */
static void add_interrupt(struct prepare *p, const char *number)
{
	char path[PREPARE_PATH], value[VALUE_MAX];
	struct cpulist list;
	int cpu, before;

	snprintf(path, sizeof(path), "/proc/irq/%.20s/smp_affinity_list", number);
	if (value_get(path, value, NULL) || cpulist_parse(&list, value))
		return;
	before = cpulist_count(&list);
	for (cpu = cpulist_next(p->measured, 0); cpu >= 0; cpu = cpulist_next(p->measured, cpu + 1))
		cpulist_remove(&list, cpu);
	if (cpulist_count(&list) == before)
		return;
	if (!cpulist_count(&list))
		list = p->others;
	add(p, path, cpulist_format(&list, value, sizeof(value)));
}

static int add_interrupts(struct prepare *p, struct message *msg)
{
	bool interrupts = wanted(p, "interrupts"), queues = wanted(p, "workqueue");
	struct dirent *entry;
	DIR *dir;

	if (!interrupts && !queues)
		return 0;
	if (!cpulist_count(&p->others))
		return settings_refuse(p->settings, "/proc/irq/*/smp_affinity_list", "other CPUs",
				       "every CPU is measured: none is left for interrupts and "
				       "work queues",
				       msg);
	if (queues)
		add_mask(p, WORKQUEUE_MASK);
	if (!interrupts)
		return 0;
	add_mask(p, INTERRUPT_MASK);
	dir = opendir("/proc/irq");
	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9')
			add_interrupt(p, entry->d_name);
	if (dir)
		closedir(dir);
	return 0;
}

int prepare_apply(struct settings *settings, const struct cpulist *measured, const char *items,
		  struct message *msg)
{
	struct prepare p = { .settings = settings, .measured = measured, .items = items };
	int cpu, err;

	if (!cpulist_count(measured))
		return 0;
	err = cpulist_online(&p.others);
	for (cpu = cpulist_next(measured, 0); cpu >= 0; cpu = cpulist_next(measured, cpu + 1))
		cpulist_remove(&p.others, cpu);
	add_table(&p);
	if (!err && wanted(&p, "governor"))
		err = add_governors(&p, msg);
	if (!err)
		err = add_interrupts(&p, msg);
	if (p.failed)
		err = message_set(msg, -ENOMEM, "", "out of memory");
	if (!err)
		err = settings_set_all(settings, p.wishes, p.count, msg);
	while (p.count-- > 0) {
		free((char *)p.wishes[p.count].path);
		free((char *)p.wishes[p.count].value);
	}
	free(p.wishes);
	return err;
}
