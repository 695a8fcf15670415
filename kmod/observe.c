// SPDX-License-Identifier: GPL-2.0-only
/*
 * The observing part of /dev/rtgauge_trace (trace.h): switches and wakings of one process.
 *
 * A probe runs where its tracepoint is. It returns at once for threads of other processes. For
 * the others it writes one record into the ring of its CPU with interrupts off, and takes no lock. A
 * full ring keeps its records, and the loss is counted.
 */
#include <linux/irqflags.h>
#include <linux/log2.h>
#include <linux/percpu.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/timekeeping.h>
#include <linux/tracepoint.h>
#include <linux/vmalloc.h>
#include <trace/events/sched.h>

#include "compat.h"
#include "trace.h"
#include "traces.h"

struct observe_cpu {
	struct rtgauge_observed *records;
	u32 head; /* written by the probes */
	u32 tail; /* written by the reader, like @told */
	u32 lost;
	u32 told; /* of those lost */
};

static DEFINE_PER_CPU(struct observe_cpu, observe_cpus);
static pid_t observe_process;  /* its threads are to be observed */
static pid_t observe_recorded; /* the same, or -1, which no thread has */
static u32 observe_mask;       /* places of a ring, less 1 */

static void observe_put(u32 kind, pid_t prev, pid_t next)
{
	struct observe_cpu *cpu;
	struct rtgauge_observed *record;
	unsigned long irq;

	raw_local_irq_save(irq);
	cpu = this_cpu_ptr(&observe_cpus);
	/* with what the reader took from there */
	if (cpu->head - smp_load_acquire(&cpu->tail) > observe_mask) {
		WRITE_ONCE(cpu->lost, cpu->lost + 1);
		goto out;
	}
	record = &cpu->records[cpu->head & observe_mask];
	record->time_ns = ktime_get_mono_fast_ns();
	record->kind = kind;
	record->lost = cpu->lost;
	record->prev = prev;
	record->next = next;
	smp_store_release(&cpu->head, cpu->head + 1);
out:
	raw_local_irq_restore(irq);
}

static void observe_switch(void *data, COMPAT_SWITCH_ARGUMENTS)
{
	pid_t process = READ_ONCE(observe_recorded);
	bool leaves = prev->tgid == process, runs = next->tgid == process;

	if (leaves || runs)
		observe_put(RTGAUGE_OBSERVED_SWITCH, leaves ? prev->pid : 0, runs ? next->pid : 0);
}

static void observe_waking(void *data, struct task_struct *task)
{
	if (task->tgid == READ_ONCE(observe_recorded))
		observe_put(RTGAUGE_OBSERVED_WAKING, 0, task->pid);
}

static struct {
	const char *name;
	void *probe;
	struct tracepoint *point;
	bool attached;
} observe_points[] = { { "sched_switch", observe_switch }, { "sched_waking", observe_waking } };

static void observe_find(struct tracepoint *point, void *data)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(observe_points); i++)
		if (!strcmp(point->name, observe_points[i].name))
			observe_points[i].point = point;
}

static int observe_attach(void)
{
	unsigned int i;
	int err;

	/* at build time: the arguments are those of this kernel */
	check_trace_callback_type_sched_switch(observe_switch);
	check_trace_callback_type_sched_waking(observe_waking);
	for_each_kernel_tracepoint(observe_find, NULL);
	for (i = 0; i < ARRAY_SIZE(observe_points); i++) {
		if (!observe_points[i].point)
			return -ENODEV;
		err = tracepoint_probe_register(observe_points[i].point, observe_points[i].probe,
						NULL);
		if (err)
			return err;
		observe_points[i].attached = true;
	}
	return 0;
}

void observe_stop(void)
{
	unsigned int i;
	int cpu;

	for (i = 0; i < ARRAY_SIZE(observe_points); i++)
		if (observe_points[i].attached)
			tracepoint_probe_unregister(observe_points[i].point,
						    observe_points[i].probe, NULL);
	/* no probe is running any more */
	tracepoint_synchronize_unregister();
	for (i = 0; i < ARRAY_SIZE(observe_points); i++)
		observe_points[i].attached = false;
	for_each_possible_cpu(cpu)
	{
		vfree(per_cpu(observe_cpus, cpu).records);
		memset(&per_cpu(observe_cpus, cpu), 0, sizeof(struct observe_cpu));
	}
}

/* The ID of the process of a thread, or -ESRCH. */
static pid_t observe_process_of(pid_t id)
{
	struct task_struct *task;
	pid_t process;

	rcu_read_lock();
	task = pid_task(find_vpid(id), PIDTYPE_PID);
	process = task ? task->tgid : -ESRCH;
	rcu_read_unlock();
	return process;
}

void observe_record(bool on)
{
	WRITE_ONCE(observe_recorded, on ? observe_process : -1);
}

int observe_start(const struct rtgauge_trace_observe *observe)
{
	u32 room;
	int cpu, err;

	if (observe->room < RTGAUGE_TRACE_ROOM_MIN || observe->room > RTGAUGE_TRACE_ROOM_MAX)
		return -EINVAL;
	/* records have IDs of the first namespace */
	if (task_active_pid_ns(current) != &init_pid_ns)
		return -EOPNOTSUPP;
	observe_process = observe_process_of(observe->pid);
	if (observe_process < 0)
		return observe_process;
	observe_record(false);
	room = roundup_pow_of_two(observe->room);
	observe_mask = room - 1;
	for_each_possible_cpu(cpu)
	{
		struct rtgauge_observed *records = vzalloc_node(
			array_size(room, sizeof(struct rtgauge_observed)), cpu_to_node(cpu));

		per_cpu(observe_cpus, cpu).records = records;
		if (!records) {
			err = -ENOMEM;
			goto out;
		}
	}
	err = observe_attach();
	if (!err)
		return 0;
out:
	observe_stop();
	return err;
}

/* The CPU whose next record is the oldest; NULL: no record is left. */
static struct observe_cpu *observe_next(void)
{
	struct observe_cpu *next = NULL;
	u64 oldest_ns = U64_MAX;
	int number;

	for_each_possible_cpu(number)
	{
		struct observe_cpu *cpu = &per_cpu(observe_cpus, number);
		u64 time_ns;

		if (cpu->tail == smp_load_acquire(&cpu->head))
			continue;
		time_ns = cpu->records[cpu->tail & observe_mask].time_ns;
		if (time_ns < oldest_ns) {
			oldest_ns = time_ns;
			next = cpu;
		}
	}
	return next;
}

/* A loss after the last record of a CPU makes a record without threads. */
static size_t observe_take_losses(struct rtgauge_observed *records, size_t room)
{
	size_t taken = 0;
	int number;

	for_each_possible_cpu(number)
	{
		struct observe_cpu *cpu = &per_cpu(observe_cpus, number);
		u32 lost = READ_ONCE(cpu->lost) - cpu->told;

		/* else one of the records has the number */
		if (!lost || taken == room || cpu->tail != smp_load_acquire(&cpu->head))
			continue;
		records[taken++] =
			(struct rtgauge_observed){ .kind = RTGAUGE_OBSERVED_LOSS, .lost = lost };
		cpu->told += lost;
	}
	return taken;
}

/* In the order of their times: threads move from one CPU to another. */
size_t observe_take(struct rtgauge_observed *records, size_t room)
{
	struct observe_cpu *cpu;
	size_t taken = 0;

	while (taken < room && (cpu = observe_next())) {
		struct rtgauge_observed *record = &records[taken++];
		u32 told = cpu->told;

		*record = cpu->records[cpu->tail & observe_mask];
		cpu->told = record->lost;
		record->lost -= told;
		smp_store_release(&cpu->tail, cpu->tail + 1);
	}
	return taken + observe_take_losses(records + taken, room - taken);
}
