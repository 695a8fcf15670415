/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Event sources: what raises interrupts at due times. One file each, one line in the table of
 * source.c.
 */
#ifndef RTGAUGE_SOURCE_H
#define RTGAUGE_SOURCE_H

#include "session.h"

struct source {
	const char *name;
	u32 flags; /* RTGAUGE_SOURCE_*, without AVAILABLE */

	/*
	 * Whether it is here. Fills in what is known of it; 0, or -errno with a reason. It, open()
	 * and close() are called with the lock of all sessions held.
	 */
	int (*find)(struct rtgauge_source *info);

	/*
	 * Take the device for this session, its interrupt bound to s->cpu. Sets setup->raise_cpu
	 * where it is another. Process context; 0 or -errno.
	 */
	int (*open)(struct session *s, struct rtgauge_setup *setup);

	/* Give it back as it was found; after stop(), and after the kernel thread has ended. */
	void (*close)(struct session *s);

	/* The first event at s->due_ns. 0 or -errno. */
	int (*start)(struct session *s);

	/* No handler runs after it returns; also without start(), and after start() failed. */
	void (*stop)(struct session *s);

	/*
	 * Raise interrupts every @period_ns, for which the handler calls session_counts(), until it
	 * says true. Calls session_expect() before, and gives the length of a unit in fs. Ends by
	 * stop(). s->sustain is there from before open(). NULL: not free-running.
	 */
	int (*sustain)(struct session *s, u64 period_ns, u64 *unit_fs);

	/*
	 * In what the handler defers to, of RTGAUGE_KIND_RESPONSE: answer the event of @record,
	 * which has its thread_ns. Runs until that ends, which is between stop() and close(); in
	 * the interrupt's thread no longer than stop() if that frees the interrupt.
	 */
	void (*answer)(struct session *s, struct rtgauge_record *record);

	/* A task of user space on a core answers. Between open() and close(). */
	void (*drive)(struct session *s, bool level);
};

/* By number, RTGAUGE_SOURCE_*; NULL for AUTO and those that do not exist. */
const struct source *source_get(u32 number);

/* Answer to RTGAUGE_SOURCE, with the lock held. 0, or -EINVAL for an unknown number. */
int source_describe(struct rtgauge_source *info);

/* The one that AUTO means; @flags: RTGAUGE_SETUP_*. With the lock held. */
u32 source_choose(u32 kind, u32 flags, bool lines);

extern const struct source source_hrtimer;
extern const struct source source_hpet;
extern const struct source source_gpio;
extern const struct source source_external;
extern const struct source source_pci;
extern const struct source source_cobalt;
extern const struct source source_serial;
extern const struct source source_parallel;

/* Purpose of a look-up of lines. */
extern struct device *source_device;

#endif
