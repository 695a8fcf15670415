// SPDX-License-Identifier: GPL-2.0-only
/*
 * A timer of the kernel's, expiring in the hard interrupt on PREEMPT_RT too. For the measurement of
 * timers it is the thing itself; for those of interrupts a fallback, as it shares the CPU's timer
 * with all others, and nothing tells when the line was raised.
 */
#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/smp.h>

#include "compat.h"
#include "source.h"

#define SOURCE_HRTIMER_SUSTAIN_MIN_NS 5000

static enum hrtimer_restart source_hrtimer_event(struct hrtimer *timer)
{
	u64 entry_ns = ktime_get_ns();
	struct session *s = container_of(timer, struct session, timer);
	u64 next_ns = session_record(s, s->due_ns, entry_ns);

	hrtimer_set_expires(timer, ns_to_ktime(next_ns));
	session_complete(s);
	return next_ns ? HRTIMER_RESTART : HRTIMER_NORESTART;
}

static enum hrtimer_restart source_hrtimer_count(struct hrtimer *timer)
{
	ktime_t now = ktime_get();
	struct session *s = container_of(timer, struct session, timer);

	if (session_counts(s, ktime_to_ns(now) - s->due_ns))
		return HRTIMER_NORESTART;
	hrtimer_forward(timer, now, ns_to_ktime(s->sustain->period));
	return HRTIMER_RESTART;
}

static int source_hrtimer_find(struct rtgauge_source *info)
{
	info->sustain_min_ns = SOURCE_HRTIMER_SUSTAIN_MIN_NS;
	return 0;
}

static int source_hrtimer_open(struct session *s, struct rtgauge_setup *setup)
{
	compat_hrtimer_setup(&s->timer, source_hrtimer_event, HRTIMER_MODE_ABS_PINNED_HARD);
	return 0;
}

static void source_hrtimer_close(struct session *s)
{
}

static void source_hrtimer_arm(void *data)
{
	struct session *s = data;

	hrtimer_start(&s->timer, ns_to_ktime(s->due_ns), HRTIMER_MODE_ABS_PINNED_HARD);
}

static int source_hrtimer_start(struct session *s)
{
	return smp_call_function_single(s->cpu, source_hrtimer_arm, s, true);
}

static void source_hrtimer_stop(struct session *s)
{
	hrtimer_cancel(&s->timer);
}

static int source_hrtimer_sustain(struct session *s, u64 period_ns, u64 *unit_fs)
{
	session_expect(s, period_ns);
	*unit_fs = 1000000;
	s->due_ns = ktime_get_ns() + NSEC_PER_MSEC;
	compat_hrtimer_setup(&s->timer, source_hrtimer_count, HRTIMER_MODE_ABS_PINNED_HARD);
	return source_hrtimer_start(s);
}

const struct source source_hrtimer = {
	.name = "hrtimer",
	.flags = RTGAUGE_SOURCE_FALLBACK | RTGAUGE_SOURCE_FREE_RUNNING,
	.find = source_hrtimer_find,
	.open = source_hrtimer_open,
	.close = source_hrtimer_close,
	.start = source_hrtimer_start,
	.stop = source_hrtimer_stop,
	.sustain = source_hrtimer_sustain,
};
