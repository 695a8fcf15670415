/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What raises the interrupt of a device at due times: a thread, on another CPU where there is one.
 *
 * On the only CPU, irq-dispatch cannot use that thread: the thread to be interrupted polls there,
 * above or below it, and is never interrupted, or gets the CPU back by a switch. A timer then raises
 * the interrupt in its own hard interrupt. The device's interrupt follows when that has ended.
 */
#ifndef RTGAUGE_RAISER_H
#define RTGAUGE_RAISER_H

#include <linux/hrtimer.h>
#include <linux/ktime.h>

#include "session.h"

#define RAISER_INTERVAL_MIN_NS 100000

struct raiser {
	struct session *session;
	/* Up, and half an interval later down. Up begins with raiser_raises(). */
	void (*drive)(struct raiser *r, bool up);
	struct task_struct *thread;
	struct hrtimer timer; /* in the thread's place */
	bool by_timer, high;
	u64 silent_ns; /* when the handler has not run for too long */
	unsigned int cpu;
	u64 raised_ns;	     /* stamp just before it goes up */
	u32 raised, handled; /* how often */
};

/* In drive(), just before what raises the interrupt. */
static inline void raiser_raises(struct raiser *r)
{
	r->raised_ns = ktime_get_ns();
	/* the handler may run before this returns */
	shared_set(&r->raised, r->raised + 1);
}

/* In the handler: whether something was raised that it has not handled. */
static inline bool raiser_is_due(const struct raiser *r)
{
	return shared_get(&r->raised) != r->handled;
}

/* At the end of the handler, after session_complete(). */
static inline void raiser_heard(struct raiser *r)
{
	/* the raiser reads the next due time after this */
	shared_set(&r->handled, r->handled + 1);
}

/* Chooses the CPU, and puts it into @setup. */
void raiser_init(struct raiser *r, struct session *s, struct rtgauge_setup *setup,
		 void (*drive)(struct raiser *r, bool up));

/* When the device is ready: the thread, which waits for the first due time. 0 or -errno. */
int raiser_make(struct raiser *r);

/* The first event at the session's due time. 0 or -errno. */
int raiser_start(struct raiser *r);

/* Nothing is raised after it returns; also without raiser_make(). */
void raiser_stop(struct raiser *r);

#endif
