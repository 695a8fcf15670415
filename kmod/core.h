/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Real-time cores next to Linux, on which the handler of a session, its kernel thread and a task of
 * user space can run. A session without one (s->core is NULL) is Linux's, whose calls session.c
 * makes directly. On a core they run out-of-band: they preempt Linux anywhere, also where it has
 * locked its clock, so they call no function of Linux but ktime_get_mono_fast_ns() for the time, and
 * those of chips that are made for it.
 */
#ifndef RTGAUGE_CORE_H
#define RTGAUGE_CORE_H

#include <linux/kconfig.h>
#include <linux/ktime.h>

#include "session.h"

struct core {
	/* Process context, with the lock of all sessions held; 0 or -errno. */
	int (*open)(struct session *s);
	/* Before the source is closed: no task of user space answers after it returns. */
	void (*close)(struct session *s);
	/* With the session's file, or after a set-up that failed. */
	void (*forget)(struct session *s);

	/* The kernel thread, on s->cpu with s->priority. s->thread is then its task, with a
	 * reference. */
	int (*make_thread)(struct session *s);
	void (*end_thread)(struct session *s);
	/* How often the thread has left the core, and faulted there: to s->switches, s->faults. */
	void (*count)(struct session *s);

	/* The kernel thread, or the task of user space: there is an edge, or no more. Any context,
	 * also without either of them. */
	void (*wake)(struct session *s);
	/* In the handler: ask Linux to disable s->irq, which happens when Linux next runs. */
	void (*deafen)(struct session *s);
	/* In the kernel thread. */
	void (*sleep_until)(u64 until_ns);
};

/* With CONFIG_XENOMAI, else NULL. */
extern const struct core *const core_cobalt;

/* The device for tasks of user space; 0 or -errno. */
int core_cobalt_init(void);
void core_cobalt_exit(void);

/* In a kernel without cores, only the paths of Linux are compiled. */
static inline bool session_on_core(const struct session *s)
{
	return IS_ENABLED(CONFIG_XENOMAI) && s->core;
}

static inline u64 session_now(const struct session *s)
{
	return session_on_core(s) ? ktime_get_mono_fast_ns() : ktime_get_ns();
}

#endif
