// SPDX-License-Identifier: GPL-2.0-only
/*
 * rtgauge_disturb: keeps one CPU busy on purpose, for a known length once in each period, in the
 * way that is named. It is what the measurements are tested with: a disturbance of known kind and
 * length must be found in the contexts that it can reach, and in no other.
 *
 * Loaded for one step of a run that asked for it, and at no other time. Removing it ends the
 * disturbance in order.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpu.h>
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/kernel.h>
#include <linux/kthread.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/timekeeping.h>

#include "compat.h"

#define LENGTH_MIN_NS 1000UL
#define LENGTH_MAX_NS 100000000UL
#define PERIOD_MIN_NS 10000UL
#define PERIOD_MAX_NS 4000000000UL
#define PRIORITY_LOW 1
#define PRIORITY_HIGH 50

#define KINDS \
	"spin_lock, spin_lock_bh, tasklet, kthread, preempt_disable, local_irq_save or raw_spin_lock_irqsave"
#define PRIORITIES \
	"SCHED_FIFO priority of the disturbing thread, 1 (default) or 50; 0: SCHED_OTHER (not for a tasklet)"

static char *kind = "";
module_param(kind, charp, 0444);
MODULE_PARM_DESC(kind, KINDS);

static unsigned long length_ns;
module_param(length_ns, ulong, 0444);
MODULE_PARM_DESC(length_ns, "how long each disturbance takes, 1 us to 100 ms");

static unsigned long period_ns;
module_param(period_ns, ulong, 0444);
MODULE_PARM_DESC(period_ns,
		 "time from one disturbance to the next, 10 us to 4 s, at least twice the length");

static int cpu;
module_param(cpu, int, 0444);
MODULE_PARM_DESC(cpu, "the CPU that is disturbed (default 0)");

static int priority = PRIORITY_LOW;
module_param(priority, int, 0444);
MODULE_PARM_DESC(priority, PRIORITIES);

/* Counters, written by the one thread or tasklet. */
static unsigned long done;
static unsigned long late;
static unsigned long longest_ns;

static int counter_set(const char *value, const struct kernel_param *kp)
{
	return -EPERM;
}

static const struct kernel_param_ops counter_ops = {
	.set = counter_set,
	.get = param_get_ulong,
};

module_param_cb(done, &counter_ops, &done, 0444);
MODULE_PARM_DESC(done, "disturbances made so far (read only)");
module_param_cb(late, &counter_ops, &late, 0444);
MODULE_PARM_DESC(late, "periods that passed without a disturbance of their own (read only)");
module_param_cb(longest_ns, &counter_ops, &longest_ns, 0444);
MODULE_PARM_DESC(longest_ns,
		 "the longest disturbance by the clock, with what interrupted it (read only)");

static DEFINE_SPINLOCK(sleeping_lock); /* one that sleeps where PREEMPT_RT is */
static DEFINE_RAW_SPINLOCK(spinning_lock);

/* Keep the CPU for the length, by the clock that timers go by too. */
static void busy_wait(void)
{
	u64 start = ktime_get_mono_fast_ns();
	s64 took;

	do {
		cpu_relax();
		/* this clock may step back by a little */
		took = (s64)(ktime_get_mono_fast_ns() - start);
	} while (took < (s64)length_ns);
	WRITE_ONCE(done, done + 1);
	if (took > (s64)longest_ns)
		WRITE_ONCE(longest_ns, (unsigned long)min_t(s64, took, LONG_MAX));
}

static void disturb_spin_lock(void)
{
	spin_lock(&sleeping_lock);
	busy_wait();
	spin_unlock(&sleeping_lock);
}

static void disturb_spin_lock_bh(void)
{
	spin_lock_bh(&sleeping_lock);
	busy_wait();
	spin_unlock_bh(&sleeping_lock);
}

static void disturb_preempt_disable(void)
{
	preempt_disable();
	busy_wait();
	preempt_enable();
}

static void disturb_local_irq_save(void)
{
	unsigned long flags;

	local_irq_save(flags);
	busy_wait();
	local_irq_restore(flags);
}

static void disturb_raw_spin_lock_irqsave(void)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&spinning_lock, flags);
	busy_wait();
	raw_spin_unlock_irqrestore(&spinning_lock, flags);
}

static const struct disturbance {
	const char *name;
	void (*once)(void); /* from the thread; NULL: the tasklet, from a timer */
} disturbances[] = {
	{ "spin_lock", disturb_spin_lock },
	{ "spin_lock_bh", disturb_spin_lock_bh },
	{ "tasklet", NULL },
	{ "kthread", busy_wait },
	{ "preempt_disable", disturb_preempt_disable },
	{ "local_irq_save", disturb_local_irq_save },
	{ "raw_spin_lock_irqsave", disturb_raw_spin_lock_irqsave },
};

static const struct disturbance *chosen;
static ktime_t first;

static void count_late(unsigned long periods)
{
	WRITE_ONCE(late, late + periods);
}

/* --- by a thread --- */

static struct task_struct *thread;

/* The first point of the grid after now, from @due on; those passed over are counted. */
static ktime_t next_due(ktime_t due)
{
	s64 behind;

	due = ktime_add_ns(due, period_ns);
	behind = ktime_to_ns(ktime_sub(ktime_get(), due));
	if (behind >= 0) {
		u64 passed = div64_u64((u64)behind, period_ns) + 1;

		due = ktime_add_ns(due, passed * period_ns);
		count_late((unsigned long)passed);
	}
	return due;
}

static int disturb_thread(void *unused)
{
	ktime_t due = first;

	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (kthread_should_stop())
			break;
		if (schedule_hrtimeout(&due, HRTIMER_MODE_ABS))
			continue; /* woken before its time: to end */
		/* its CPU may have gone away, and another one is not to be disturbed */
		if (raw_smp_processor_id() == cpu)
			chosen->once();
		else
			count_late(1);
		due = next_due(due);
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

static int begin_thread(void)
{
	thread = kthread_create(disturb_thread, NULL, "rtgauge_disturb/%d", cpu);
	if (IS_ERR(thread))
		return PTR_ERR(thread);
	kthread_bind(thread, cpu);
	/* what every kernel lets modules choose */
	if (priority == PRIORITY_HIGH)
		sched_set_fifo(thread);
	else if (priority == PRIORITY_LOW)
		sched_set_fifo_low(thread);
	wake_up_process(thread);
	return 0;
}

/* --- by a tasklet --- */

static struct hrtimer timer;
static bool waiting; /* the tasklet was asked for and has not begun; on its CPU alone */

static void disturb_tasklet(struct tasklet_struct *unused)
{
	WRITE_ONCE(waiting, false);
	/* moved there, because its CPU went away */
	if (raw_smp_processor_id() == cpu)
		busy_wait();
	else
		count_late(1);
}

static DECLARE_TASKLET(tasklet, disturb_tasklet);

static enum hrtimer_restart timer_expired(struct hrtimer *expired)
{
	u64 periods = hrtimer_forward_now(expired, ns_to_ktime(period_ns));

	if (periods > 1)
		count_late((unsigned long)(periods - 1));
	if (raw_smp_processor_id() != cpu || READ_ONCE(waiting)) {
		count_late(1);
	} else {
		WRITE_ONCE(waiting, true);
		tasklet_schedule(&tasklet);
	}
	return HRTIMER_RESTART;
}

/* On the CPU that is to be disturbed, as timers are started where they are to expire. */
static void begin_timer(void *unused)
{
	compat_hrtimer_setup(&timer, timer_expired, HRTIMER_MODE_ABS_PINNED_HARD);
	hrtimer_start(&timer, first, HRTIMER_MODE_ABS_PINNED_HARD);
}

/* --- the module --- */

static int refuse(const char *name, const char *allowed)
{
	pr_err("%s must be %s\n", name, allowed);
	return -EINVAL;
}

static int check_parameters(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(disturbances); i++)
		if (!strcmp(disturbances[i].name, kind))
			chosen = &disturbances[i];
	if (!chosen)
		return refuse("kind", "one of those that modinfo lists");
	if (length_ns < LENGTH_MIN_NS || length_ns > LENGTH_MAX_NS)
		return refuse("length_ns", "from 1000 to 100000000");
	if (period_ns < PERIOD_MIN_NS || period_ns > PERIOD_MAX_NS)
		return refuse("period_ns", "from 10000 to 4000000000");
	if (period_ns / 2 < length_ns)
		return refuse("period_ns", "at least twice the length: the machine needs the rest");
	if (priority && priority != PRIORITY_LOW && priority != PRIORITY_HIGH)
		return refuse("priority", "0, 1 or 50");
	if (cpu < 0 || cpu >= (int)nr_cpu_ids || !cpu_online(cpu))
		return refuse("cpu", "a CPU that is online");
	return 0;
}

static int __init disturb_init(void)
{
	int err = check_parameters();

	if (err)
		return err;
	first = ktime_add_ns(ktime_get(), period_ns);
	cpus_read_lock();
	if (chosen->once)
		err = begin_thread();
	else
		err = smp_call_function_single(cpu, begin_timer, NULL, 1);
	cpus_read_unlock();
	return err;
}

static void __exit disturb_exit(void)
{
	if (chosen->once) {
		kthread_stop(thread);
	} else {
		hrtimer_cancel(&timer);
		tasklet_kill(&tasklet);
	}
}

module_init(disturb_init);
module_exit(disturb_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("rtgauge: disturbances of known kind and length, made on purpose");
