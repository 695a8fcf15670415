// SPDX-License-Identifier: GPL-2.0-only
/*
 * The thread or the timer that raises the interrupts of a device.
 */
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/sched.h>
#include <linux/smp.h>

#include "compat.h"
#include "raiser.h"
#include "source.h"

/* Time after which the handler counts as not run for what was raised. */
#define RAISER_SILENCE_MS 1000

static void raiser_sleep(u64 due_ns)
{
	ktime_t due = ns_to_ktime(due_ns);

	set_current_state(TASK_IDLE);
	if (!kthread_should_stop())
		schedule_hrtimeout(&due, HRTIMER_MODE_ABS);
	__set_current_state(TASK_RUNNING);
}

/* Until the handler has run for what was raised. */
static bool raiser_is_heard(const struct raiser *r)
{
	u64 limit_ns = ktime_get_ns() + RAISER_SILENCE_MS * NSEC_PER_MSEC;

	while (shared_get(&r->handled) != r->raised) {
		if (kthread_should_stop() || ktime_get_ns() > limit_ns)
			return false;
		usleep_range(50, 100);
	}
	return true;
}

static int raiser_run(void *data)
{
	struct raiser *r = data;
	struct session *s = r->session;

	while (!kthread_should_stop()) {
		u64 due_ns;

		set_current_state(TASK_IDLE);
		due_ns = READ_ONCE(s->due_ns);
		if (!due_ns && !kthread_should_stop())
			schedule();
		__set_current_state(TASK_RUNNING);
		if (!due_ns)
			continue;
		raiser_sleep(due_ns);
		if (kthread_should_stop())
			break;
		r->drive(r, true);
		raiser_sleep(due_ns + s->interval_ns / 2);
		r->drive(r, false);
		if (!raiser_is_heard(r)) {
			if (!kthread_should_stop()) {
				s->due_ns = 0;
				session_broken(s, RTGAUGE_FAILURE_SOURCE);
			}
		}
	}
	return 0;
}

/* The same in the timer's interrupt: up at the due time, down half an interval later. */
static enum hrtimer_restart raiser_expires(struct hrtimer *timer)
{
	struct raiser *r = container_of(timer, struct raiser, timer);
	struct session *s = r->session;
	u64 now_ns = ktime_get_ns();

	if (!r->high) {
		r->high = true;
		r->silent_ns = now_ns + RAISER_SILENCE_MS * NSEC_PER_MSEC;
		r->drive(r, true);
		hrtimer_add_expires_ns(timer, s->interval_ns / 2);
		return HRTIMER_RESTART;
	}
	r->drive(r, false);
	if (shared_get(&r->handled) == r->raised) {
		r->high = false;
		hrtimer_set_expires(timer, ns_to_ktime(s->due_ns));
		return s->due_ns ? HRTIMER_RESTART : HRTIMER_NORESTART;
	}
	if (now_ns > r->silent_ns) {
		s->due_ns = 0;
		session_broken(s, RTGAUGE_FAILURE_SOURCE);
		return HRTIMER_NORESTART;
	}
	hrtimer_add_expires_ns(timer, s->interval_ns / 2);
	return HRTIMER_RESTART;
}

void raiser_init(struct raiser *r, struct session *s, struct rtgauge_setup *setup,
		 void (*drive)(struct raiser *r, bool up))
{
	r->session = s;
	r->drive = drive;
	r->cpu = cpumask_any_but(cpu_online_mask, s->cpu);
	if (r->cpu >= nr_cpu_ids)
		r->cpu = s->cpu;
	setup->raise_cpu = r->cpu;
	r->by_timer = r->cpu == s->cpu && s->kind == RTGAUGE_KIND_IRQ_DISPATCH;
	compat_hrtimer_setup(&r->timer, raiser_expires, HRTIMER_MODE_ABS_PINNED_HARD);
}

/* Making the thread takes long under load, because kthreadd has no real-time priority. */
int raiser_make(struct raiser *r)
{
	struct task_struct *thread;

	if (r->by_timer)
		return 0;
	thread = kthread_create_on_node(raiser_run, r, cpu_to_node(r->cpu), "rtgauge-%s/%u",
					r->session->source->name, r->cpu);
	if (IS_ERR(thread))
		return PTR_ERR(thread);
	kthread_bind(thread, r->cpu);
	sched_set_fifo(thread);
	r->thread = thread;
	wake_up_process(thread);
	return 0;
}

static void raiser_arm(void *data)
{
	struct raiser *r = data;

	hrtimer_start(&r->timer, ns_to_ktime(r->session->due_ns), HRTIMER_MODE_ABS_PINNED_HARD);
}

int raiser_start(struct raiser *r)
{
	if (r->by_timer)
		return smp_call_function_single(r->session->cpu, raiser_arm, r, true);
	wake_up_process(r->thread);
	return 0;
}

void raiser_stop(struct raiser *r)
{
	if (r->thread)
		kthread_stop(r->thread);
	r->thread = NULL;
	hrtimer_cancel(&r->timer);
}
