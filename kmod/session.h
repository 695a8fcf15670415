/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A session: one stream of events on one CPU. What rtgauge.h promises, without any device.
 *
 * The handler of an event, in hard interrupt context, is three calls:
 *
 *	entry_ns = ...;					 first of all
 *	next_ns = session_record(s, raised_ns, entry_ns); the record, the next due time
 *	<make the source raise an interrupt then, unless it is 0>
 *	session_complete(s);				 last of all: last stamp, wake-ups
 *	return session_handled(s);
 *
 * That of an edge from outside, for which there is no due time:
 *
 *	entry_ns = ...;
 *	record = session_edge(s, entry_ns, flags);	 a record, unless the ring is full
 *	<its other stamps>
 *	session_keep(s);				 last of all: it is there, its thread woken
 *	return session_handled(s);
 *
 * The ring has one writer, the handler, and up to three readers: what the handler defers its work
 * to (the kernel thread, or in its place a tasklet, a work item or the interrupt's thread), the
 * thread in RTGAUGE_WAIT, and the reader. Positions count up and wrap around at 2^32.
 */
#ifndef RTGAUGE_SESSION_H
#define RTGAUGE_SESSION_H

#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rcuwait.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "rtgauge.h"

struct core;
struct file;
struct poll_table_struct;
struct source;
struct vm_area_struct;

/* One of these at most is what the handler defers its work to. */
#define SESSION_DEFERS                                                                  \
	(RTGAUGE_CONTEXT_KERNEL | RTGAUGE_CONTEXT_SOFTIRQ | RTGAUGE_CONTEXT_WORKQUEUE | \
	 RTGAUGE_CONTEXT_THREADED)
#define SESSION_WAKES (SESSION_DEFERS | RTGAUGE_CONTEXT_USER)
#define SESSION_CONTEXTS (SESSION_WAKES | RTGAUGE_CONTEXT_IRQ)

/* A free-running source, counted. Written by its handler until @done. */
struct sustain {
	u32 count, lost_max; /* as asked for */
	u64 units;	     /* of the source's clock, from the first interrupt raised to now */
	u64 period;	     /* in the same units */
	u64 early; /* above this many units too many were lost, given those handled so far */
	u64 end;   /* at this many units all are raised */
	u32 handled;
	bool ended_early;
	bool over; /* the handler counts no more */
	struct completion done;
};

struct session {
	/* The handler's: */
	const struct source *source;
	const struct core *core; /* NULL: Linux */
	void *core_data;
	struct rtgauge_record *ring;
	u32 mask;  /* slots in the ring - 1 */
	u32 head;  /* next slot to be written; released by the handler */
	u32 state; /* RTGAUGE_STATE_*; the handler ends RUNNING by a compare and exchange */
	u32 kind, contexts, flags;
	u32 priority;	      /* of the kernel thread on a core … */
	u32 switches, faults; /* … and what it counted there */
	unsigned int cpu;
	bool keep;		    /* records are for read() */
	bool full;		    /* the event in hand found no slot */
	u64 index, grid_ns, due_ns; /* of the next event */
	u64 interval_ns;
	u64 periods, events_max; /* U64_MAX: no limit */
	u32 missed_open;	 /* before the next event */
	u64 events, missed, lost, stray, other_cpu;
	struct task_struct *thread; /* of the contexts kernel and threaded */
	struct tasklet_struct tasklet;
	struct work_struct work;
	bool ending;	       /* tasklet and work item end */
	int irq;	       /* number of the source's interrupt, or 0 */
	struct completion met; /* the interrupt's thread is known */
	struct rcuwait user;   /* the thread in RTGAUGE_WAIT */
	struct rtgauge_page *page;

	/* The source's: */
	union {
		struct hrtimer timer;
		void *device;
	};
	struct sustain *sustain;

	/* That of what the handler defers to: */
	u32 thread_position ____cacheline_aligned;
	u64 thread_missed, thread_seen_ns;

	/* For the thread in RTGAUGE_WAIT: */
	u32 user_position ____cacheline_aligned;
	atomic_t user_waits;
	u64 user_missed, user_index; /* the index expected next */

	/* The reader's: */
	u32 tail ____cacheline_aligned;
	struct mutex read_lock; /* one reader at a time */
	wait_queue_head_t readers;
	struct delayed_work look;

	/* Under the lock of all sessions: */
	struct list_head all;
	u32 failure;
	bool claimed; /* the source is to be closed */
};

/*
 * Positions, states and sequence numbers that interrupt and process contexts share. A reader of a
 * new value sees everything that was written before it was set.
 */
static inline u32 shared_get(const u32 *shared)
{
	/* pairs with shared_set() */
	return smp_load_acquire(shared);
}

static inline void shared_set(u32 *shared, u32 value)
{
	/* pairs with shared_get(), and in user space with the mapped page's reader */
	smp_store_release(shared, value);
}

/* Return value of an event's handler. */
static inline irqreturn_t session_handled(const struct session *s)
{
	return s->contexts & RTGAUGE_CONTEXT_THREADED ? IRQ_WAKE_THREAD : IRQ_HANDLED;
}

/* The threaded handler of a source's interrupt, or NULL. */
irq_handler_t session_irq_thread(const struct session *s);

/* For sources: */
u64 session_record(struct session *s, u64 raised_ns, u64 entry_ns);
u64 session_passed(struct session *s, u64 now_ns);
void session_complete(struct session *s);
void session_broken(struct session *s, u32 failure);
struct rtgauge_record *session_edge(struct session *s, u64 entry_ns, u32 flags);
void session_keep(struct session *s);
void session_exhausted(struct session *s);
void session_expect(struct session *s, u64 period);
bool session_counts(struct session *s, u64 units);

/* For cores, in a kernel thread that has slept until the due time: the record, the next one. */
u64 session_woke(struct session *s, u64 now_ns);
/* The same that waits for edges: answers the next one. Whether there is another. */
bool session_serve(struct session *s, u64 now_ns);
/* In a task of user space: 1 with the next edge, 0 before it comes, -errno as of RTGAUGE_TAKE. */
int session_take(struct session *s, struct rtgauge_edge *edge);

/* That of an open file; NULL: it is not one of /dev/rtgauge. */
struct session *session_of(const struct file *file);

/* For the file: */
struct session *session_open(void);
void session_close(struct session *s);
int session_describe(struct rtgauge_source *info);
int session_setup(struct session *s, struct rtgauge_setup *setup);
int session_start(struct session *s, struct rtgauge_start *start);
int session_stop(struct session *s);
int session_wait(struct session *s, struct rtgauge_wait *wait);
void session_status(struct session *s, struct rtgauge_status *status);
int session_sustain(struct session *s, struct rtgauge_sustain *sustain);
ssize_t session_read(struct session *s, char __user *buffer, size_t size, bool block);
__poll_t session_poll(struct session *s, struct file *file, struct poll_table_struct *table);
int session_mmap(struct session *s, struct vm_area_struct *vma);

/* For sources: the device is gone, and with it the session that has it. Process context, without
 * the lock of all sessions; no session opens the device any more.
 */
void sessions_lose(const struct source *source, const void *device);

int sessions_init(void);
/* All sessions fail: the module is being removed. */
void sessions_end(void);
/* Waits until they are closed. */
void sessions_exit(void);

#endif
