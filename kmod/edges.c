// SPDX-License-Identifier: GPL-2.0-only
/*
 * Edges from outside: set-up, begin, and delays of answers. The path of an edge is in edges.h.
 */
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/sched.h>

#include "edges.h"

void edges_init(struct edges *e, const struct rtgauge_setup *setup)
{
	*e = (struct edges){
		.flags = setup->flags,
		.both = (setup->flags & RTGAUGE_SETUP_RISING) &&
			(setup->flags & RTGAUGE_SETUP_FALLING),
		.flip = !(setup->flags & RTGAUGE_SETUP_ACTIVE_LOW) !=
			!(setup->flags & RTGAUGE_SETUP_INVERT),
		.edges_max = setup->storm_edges ? setup->storm_edges : RTGAUGE_STORM_EDGES,
		.delay_ns = setup->delay_ns,
		.delay_every = setup->delay_every,
		.delay_left = setup->delay_every,
	};
}

bool edges_begin(struct edges *e, u32 level)
{
	e->level = level;
	if (!e->both)
		e->level = e->flags & RTGAUGE_SETUP_RISING ? RTGAUGE_RECORD_LEVEL : 0;
	e->high = e->flags & RTGAUGE_SETUP_TOGGLE ? e->flip : !!level != e->flip;
	return e->high;
}

void edges_spin(const struct session *s, const struct edges *e)
{
	u64 end_ns = session_now(s) + e->delay_ns;

	while (session_now(s) < end_ns)
		cpu_relax();
}

void edges_sleep(const struct session *s, const struct edges *e)
{
	ktime_t end = ns_to_ktime(session_now(s) + e->delay_ns);

	if (session_on_core(s)) {
		s->core->sleep_until(ktime_to_ns(end));
		return;
	}
	do {
		set_current_state(TASK_IDLE);
		if (kthread_should_stop())
			break;
	} while (schedule_hrtimeout(&end, HRTIMER_MODE_ABS));
	__set_current_state(TASK_RUNNING);
}
