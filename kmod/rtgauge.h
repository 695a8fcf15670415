/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR Apache-2.0 */
/*
 * The user interface of rtgauge.ko: events in the interrupt, kernel and user contexts.
 *
 * /dev/rtgauge is for root alone: mode 0600, and open() asks for CAP_SYS_ADMIN. One open file is
 * one session: one stream of events on one CPU. An event is an interrupt that a source
 * raises at a due time. Its handler stamps it and wakes a context of the kernel, a user thread,
 * both or neither.
 *
 *	fd = open("/dev/rtgauge", O_RDWR | O_CLOEXEC);
 *	ioctl(fd, RTGAUGE_INFO, &info);		 check the version first
 *	ioctl(fd, RTGAUGE_SOURCE, &source);	 for number 1, 2, ...: what is there
 *	ioctl(fd, RTGAUGE_SETUP, &setup);	 gives the kernel thread's id
 *	sched_setscheduler(setup.thread, ...);	 its priority is set from outside
 *	ioctl(fd, RTGAUGE_START, &start);	 the first due time
 *	ioctl(fd, RTGAUGE_WAIT, &wait);		 in the user thread, in a loop
 *	read(fd, records, size);		 in another thread, in a loop
 *	ioctl(fd, RTGAUGE_STOP);		 no event after it returns; close() does it as well
 *
 * All times are CLOCK_MONOTONIC in nanoseconds, whatever clock the source has; 0 where a stamp was
 * not taken. All structures are of fixed width, the same for 32-bit programs on 64-bit kernels.
 * Fields named reserved, and flags without a name here, must be zero. Otherwise: EINVAL.
 *
 * Errors of every call: ENOTTY unknown request, EFAULT bad pointer, EINVAL a value out of its range
 * or a reserved field not zero, EBUSY not in this state of the session. Each call lists its others.
 */
#ifndef RTGAUGE_H
#define RTGAUGE_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* Changes with every change that is not compatible. */
#define RTGAUGE_INTERFACE_VERSION 1

#define RTGAUGE_DEVICE "/dev/rtgauge"

/*
 * Event sources. The numbers stay; RTGAUGE_INFO contains the highest one. AUTO in a set-up chooses
 * the first that applies: the edges from outside (RTGAUGE_KIND_RESPONSE), the GPIO (if a chip is
 * named), the hrtimer (RTGAUGE_KIND_TIMER), the HPET (if it is available), the hrtimer as a
 * fallback. The source PCI, a device that raises its interrupt on request, is never chosen
 * automatically.
 */
#define RTGAUGE_SOURCE_AUTO 0
#define RTGAUGE_SOURCE_HRTIMER 1
#define RTGAUGE_SOURCE_HPET 2
#define RTGAUGE_SOURCE_GPIO 3
#define RTGAUGE_SOURCE_EXTERNAL 4 /* edges from outside: for RTGAUGE_KIND_RESPONSE alone */
#define RTGAUGE_SOURCE_PCI 5
#define RTGAUGE_SOURCE_COBALT 6 /* the timer of Xenomai's Cobalt core: RTGAUGE_SETUP_COBALT */
#define RTGAUGE_SOURCE_SERIAL 7 /* a serial port: for RTGAUGE_KIND_RESPONSE alone, never by AUTO */
#define RTGAUGE_SOURCE_PARALLEL 8 /* the same on a parallel port */

/*
 * The line discipline that gives a serial port to the module, before RTGAUGE_SETUP names its
 * lines: ioctl(tty, TIOCSETD, &number). 29 is the kernel's N_DEVELOPMENT, unused before Linux 5.18.
 * EINVAL: the module is not loaded, or the kernel was built without serial ports. EPERM: no
 * CAP_SYS_ADMIN. EOPNOTSUPP: the tty is not a port of the kernel's serial_core, or the kernel was
 * built without the names of its functions. EIO: no device is behind the port. EBUSY: it is open
 * more than once. When the port is closed or gets another line discipline, a session that uses its
 * lines fails (RTGAUGE_FAILURE_SOURCE).
 */
#define RTGAUGE_LINE_DISCIPLINE 29

/*
 * The lines of a parallel port in RTGAUGE_SETUP, by the pins of its connector: D3 and nAck. D1 (pin
 * 3) has the level of the output, Select (pin 13) that of the input.
 */
#define RTGAUGE_PARALLEL_OUTPUT 5
#define RTGAUGE_PARALLEL_INPUT 10

/* Kinds of measurement: the stamps, and the threads that may be woken. */
#define RTGAUGE_KIND_TIMER 1	     /* entry_ns, before a wake-up wake_ns. Any contexts */
#define RTGAUGE_KIND_IRQ_LATENCY 2   /* entry_ns, end_ns; wakes no thread */
#define RTGAUGE_KIND_IRQ_DISPATCH 3  /* entry_ns, end_ns, the mapped page; wakes no thread */
#define RTGAUGE_KIND_IRQ_TO_THREAD 4 /* entry_ns, wake_ns; wakes at least one */
#define RTGAUGE_KIND_RESPONSE 5	     /* entry_ns, end_ns; an edge is answered on another line */

/*
 * Contexts, as a mask. KERNEL wakes the session's kernel thread, USER the thread in RTGAUGE_WAIT.
 * If both are asked for in one session, both run on one CPU after the same interrupt, one after the
 * other, the kernel's thread woken first: to keep them apart, use sessions with staggered first due
 * times. IRQ is measured anyway.
 * The contexts below USER defer the handler's work, in place of the kernel thread: at most one of
 * KERNEL, SOFTIRQ, WORKQUEUE and THREADED in a session. thread_ns is the first stamp of that one.
 * SOFTIRQ is a tasklet: after the interrupt, on PREEMPT_RT in ksoftirqd. WORKQUEUE is the queue
 * system_highpri_wq, on the session's CPU. THREADED is the interrupt's own thread, as
 * request_threaded_irq() makes it, on the session's CPU; for sources with RTGAUGE_SOURCE_THREADED.
 * RTGAUGE_KIND_RESPONSE takes exactly one, any but USER, on Cobalt USER too: the one that answers.
 */
#define RTGAUGE_CONTEXT_IRQ 0x1
#define RTGAUGE_CONTEXT_KERNEL 0x2
#define RTGAUGE_CONTEXT_USER 0x4
#define RTGAUGE_CONTEXT_SOFTIRQ 0x8
#define RTGAUGE_CONTEXT_WORKQUEUE 0x10
#define RTGAUGE_CONTEXT_THREADED 0x20

/* Limits; RTGAUGE_SOURCE says what each source can do within them. */
#define RTGAUGE_INTERVAL_MIN_NS 10000ULL
#define RTGAUGE_INTERVAL_MAX_NS 3600000000000ULL
#define RTGAUGE_ROOM_MAX 131072U
#define RTGAUGE_SUSTAIN_COUNT_MAX 1000000000U
#define RTGAUGE_SUSTAIN_SECONDS_MAX 86400U
#define RTGAUGE_DELAY_BUSY_MAX_NS 10000000U    /* with the CPU held */
#define RTGAUGE_DELAY_SLEEP_MAX_NS 4000000000U /* with RTGAUGE_SETUP_DELAY_SLEEP */
#define RTGAUGE_DEBOUNCE_MAX_US 1000000U

/*
 * The module gives up a line that does not come to rest: if more than RTGAUGE_STORM_EDGES edges
 * (or the number in storm_edges, at most RTGAUGE_STORM_EDGES_MAX) come within
 * RTGAUGE_STORM_WINDOW_NS, or if the handler takes half of that time. Each edge counts as at most
 * RTGAUGE_DELAY_BUSY_MAX_NS in the handler. On Cobalt, Linux turns the interrupt off, so a storm
 * that leaves Linux no time at all does not end.
 */
#define RTGAUGE_STORM_WINDOW_NS 100000000U
#define RTGAUGE_STORM_EDGES 2000U
#define RTGAUGE_STORM_EDGES_MAX 20000U

/*
 * RTGAUGE_INFO: what module this is. In any state.
 */
struct rtgauge_info {
	__u32 interface_version; /* out: RTGAUGE_INTERFACE_VERSION of the module */
	__u32 sources;		 /* out: the highest number of a source */
	__u32 room_max;		 /* out: maximum number of records in a ring */
	__u32 contexts;		 /* out: RTGAUGE_CONTEXT_* that it has; 0: IRQ, KERNEL, USER */
	char module_version[32]; /* out: ends in a zero byte */
	char kernel[64];	 /* out: release of the kernel it was built for */
};

/*
 * RTGAUGE_SOURCE: one event source. In any state. For the GPIO, available means that the module
 * was built with it; whether two lines are available shows in RTGAUGE_SETUP.
 */
#define RTGAUGE_SOURCE_AVAILABLE 0x1
#define RTGAUGE_SOURCE_FALLBACK 0x2	/* no device of its own: label the results */
#define RTGAUGE_SOURCE_FREE_RUNNING 0x4 /* RTGAUGE_SUSTAIN can use it */
#define RTGAUGE_SOURCE_RAISE_STAMP 0x8	/* raised_ns is measured, else it is due_ns */
#define RTGAUGE_SOURCE_EXCLUSIVE 0x10	/* one session at a time can have it */
#define RTGAUGE_SOURCE_LINES 0x20	/* needs gpio_chip, gpio_output, gpio_input */
#define RTGAUGE_SOURCE_OUTSIDE 0x40	/* RTGAUGE_KIND_RESPONSE alone can use it; no interval */
#define RTGAUGE_SOURCE_THREADED 0x80	/* an interrupt of its own: RTGAUGE_CONTEXT_THREADED */

struct rtgauge_source {
	__u32 number;	     /* in: RTGAUGE_SOURCE_HRTIMER, ...; another one: EINVAL */
	__u32 flags;	     /* in: 0; out: RTGAUGE_SOURCE_* */
	__u32 resolution_ns; /* out: of raised_ns, rounded up; 0: not known */
	__u32 irq; /* out: the interrupt's number in /proc/interrupts; 0: none, or not yet */
	__u64 interval_min_ns; /* out: shortest and longest interval */
	__u64 interval_max_ns;
	__u64 sustain_min_ns; /* out: shortest period in RTGAUGE_SUSTAIN; 0: it cannot */
	__u64 reserved;
	char name[16];	 /* out: of the constant, in lower case: "hrtimer", ... */
	char reason[80]; /* out: why it is not available, in a few words; else empty */
};

/*
 * RTGAUGE_SETUP: make a session of this file; once. Nothing runs yet, but the kernel thread exists.
 * EBUSY: set up before, or the source is in use. ENODEV: no such source, chip or line here.
 * ENXIO: the CPU is not online. EOPNOTSUPP: the chip can sleep, the line raises no interrupt at
 * the edges asked for, the chip cannot debounce; or the chip's driver is not known to be fit for
 * the hard interrupt of a PREEMPT_RT kernel, where RTGAUGE_KIND_RESPONSE is to answer there.
 * For RTGAUGE_SOURCE_SERIAL, gpio_chip is the name of the tty, which has the line discipline
 * RTGAUGE_LINE_DISCIPLINE: else ENODEV. gpio_output is TIOCM_RTS or TIOCM_DTR, gpio_input is
 * TIOCM_CAR. EOPNOTSUPP: another input, a debounce, a port that drives RTS by itself (RS-485).
 * For RTGAUGE_SOURCE_PARALLEL, gpio_chip is the name of the port: ENODEV: parport has no such port,
 * or rtgauge_parport.ko is not loaded. EBUSY: another driver has the port, such as lp. EOPNOTSUPP:
 * other lines than RTGAUGE_PARALLEL_OUTPUT and _INPUT, a debounce, a port without an interrupt or
 * whose lines cannot be driven in its handler. A port that is removed ends its session (SOURCE).
 * EOPNOTSUPP also: RTGAUGE_CONTEXT_THREADED of a source without that flag. ETIME: the interrupt's
 * thread did not run within a second. ENOMEM.
 *
 * RTGAUGE_KIND_RESPONSE: gpio_input is driven from outside, and each edge of the direction asked
 * for is an event. gpio_output answers. interval_ns and periods are 0. The module does not check
 * whether the lines are wired. The other kinds support none of the flags and fields below
 * RTGAUGE_SETUP_DITHER, except that RTGAUGE_KIND_TIMER supports RTGAUGE_SETUP_COBALT.
 * The output mirrors the level of the input (if only one edge is an event: the level after it), or,
 * with TOGGLE, changes at each event. At RTGAUGE_START it gets the level that it would have after
 * an event that had set the input's level. With TOGGLE it gets the low level, or the high one if
 * either ACTIVE_LOW or INVERT, but not both, is set.
 * With RTGAUGE_SETUP_COBALT the handler or the kernel thread runs on Xenomai's Cobalt core, next to
 * Linux. RTGAUGE_KIND_TIMER: exactly one of the contexts IRQ and KERNEL, and the source COBALT,
 * which AUTO is then: else EOPNOTSUPP. The thread sleeps until its due times by itself, on a timer
 * of its own: its records have thread_ns, and entry_ns 0. RTGAUGE_KIND_RESPONSE: exactly one of the
 * contexts IRQ, KERNEL and USER, which is a task of the core (RTGAUGE_TASK_DEVICE). EOPNOTSUPP
 * also: the chip's interrupts do not reach the core, or its driver is not known to be safe on
 * the core. ENODEV also: the core is stopped, or the kernel was built without it. ENXIO also: the
 * CPU is not one of the core's.
 * A bias that the chip does not support has no effect, which the kernel does not report. PULL_NONE
 * has no effect on kernels older than 6.1.
 */
#define RTGAUGE_SETUP_DITHER 0x1 /* due times spread over their periods: see due_ns */
#define RTGAUGE_SETUP_RISING 0x2 /* either or both */
#define RTGAUGE_SETUP_FALLING 0x4
#define RTGAUGE_SETUP_ACTIVE_LOW 0x8 /* of both lines: rising is to low */
#define RTGAUGE_SETUP_INVERT 0x10    /* the answer is the opposite */
#define RTGAUGE_SETUP_TOGGLE 0x20
#define RTGAUGE_SETUP_PULL_UP 0x40 /* of the input; one of three */
#define RTGAUGE_SETUP_PULL_DOWN 0x80
#define RTGAUGE_SETUP_PULL_NONE 0x200
#define RTGAUGE_SETUP_DELAY_SLEEP 0x100 /* the delay is slept; in RTGAUGE_CONTEXT_KERNEL alone */
#define RTGAUGE_SETUP_COBALT 0x400	/* handler and kernel thread on the Cobalt core */

struct rtgauge_setup {
	__u32 kind;	/* in: RTGAUGE_KIND_* */
	__u32 source;	/* in: RTGAUGE_SOURCE_*; out: the one taken, never AUTO */
	__u32 cpu;	/* in: where the handler and the kernel thread run */
	__u32 contexts; /* in: RTGAUGE_CONTEXT_*, not 0 */
	__u32 flags;	/* in: RTGAUGE_SETUP_* */
	__u32 room; /* in: records in the ring, 0: none are kept for read(); out: as rounded up */
	__u64 interval_ns;  /* in */
	__u64 events;	    /* in: number of events after which the session ends; 0: no limit */
	__u64 periods;	    /* in: grid points due, handled or missed; 0: no such limit */
	char gpio_chip[32]; /* in: label of the chip, or name of the port; else all zero */
	__u32 gpio_output;  /* in: number of the chip's line that is driven */
	__u32 gpio_input;   /* in: number of the line that is wired to it */
	/* in: 0, or with RTGAUGE_SETUP_COBALT the priority of the kernel thread;
	 * out: id of the kernel thread, or the interrupt's, in the caller's namespace; 0: none */
	__u32 thread;
	__u32 raise_cpu; /* out: where the GPIO or the PCI device is driven from; else cpu */
	/* in: for RTGAUGE_KIND_RESPONSE, else 0 */
	__u32 debounce_us; /* by the chip, of the input; 0: none */
	__u32 delay_ns;	   /* delay before an answer, to test instruments; 0: none */
	__u32 delay_every; /* at each answer whose number, from 1, is a multiple of this */
	__u32 storm_edges; /* see RTGAUGE_STORM_WINDOW_NS; 0: RTGAUGE_STORM_EDGES */
};

/*
 * RTGAUGE_START: the first grid point. Once; after RTGAUGE_SETUP.
 * Grid point i is first_due_ns + i * interval_ns; its due time is that, plus, with
 * RTGAUGE_SETUP_DITHER, what dither_ns(i, interval_ns) of dither.h gives. A handler that runs
 * when later due times have passed takes the next one after now. Those passed count as missed.
 * ENXIO: the CPU has gone offline.
 * RTGAUGE_KIND_RESPONSE: first_due_ns must be 0. On return it is the time from which edges are
 * answered. The module already answers them when the call returns.
 */
struct rtgauge_start {
	__u64 first_due_ns; /* in: 0: one interval from now; out: as it is */
	__u64 reserved;
};

/*
 * RTGAUGE_WAIT: the calling thread sleeps until an event; with RTGAUGE_CONTEXT_USER, after
 * RTGAUGE_SETUP (it may wait already before RTGAUGE_START). It gets the oldest event raised after
 * seen_ns, so that a thread that was late passes its last own stamp and takes up the grid again
 * where clock_nanosleep() would have: events raised until then are missed for it.
 * Returns at once if there is one already. The thread takes its own stamp: its next action.
 * EINTR a signal; EBUSY another thread waits, or not set up; EINVAL without RTGAUGE_CONTEXT_USER,
 * or with RTGAUGE_KIND_RESPONSE; ENODATA the session has ended, and there is no more; EIO it has
 * failed: see RTGAUGE_STATUS.
 */
struct rtgauge_wait {
	__u64 seen_ns;	 /* in: CLOCK_MONOTONIC, 0 the first time */
	__u64 index;	 /* out: number of the grid point */
	__u64 due_ns;	 /* out */
	__u64 raised_ns; /* out */
	__u64 entry_ns;	 /* out */
	__u64 wake_ns;	 /* out: the last stamp before the wake-ups */
	__u32 missed;	 /* out: grid points between this and the last one this call gave */
	__u32 flags;	 /* in: 0; out: RTGAUGE_RECORD_* */
};

/*
 * RTGAUGE_STATUS: counters and state. In any state.
 * RTGAUGE_KIND_RESPONSE: missed counts the events with the same level as the previous one: at
 * least one edge between them was lost. thread_missed counts those that came before the thread had
 * answered the previous one or, with RTGAUGE_CONTEXT_USER, before RTGAUGE_TAKE had returned it.
 * Lost events have no record. In the context IRQ they are answered nevertheless.
 */
#define RTGAUGE_STATE_OPEN 0  /* no RTGAUGE_SETUP yet */
#define RTGAUGE_STATE_READY 1 /* no RTGAUGE_START yet */
#define RTGAUGE_STATE_RUNNING 2
#define RTGAUGE_STATE_FINISHED 3 /* the events or periods asked for have come */
#define RTGAUGE_STATE_STOPPED 4	 /* by RTGAUGE_STOP */
#define RTGAUGE_STATE_FAILED 5

#define RTGAUGE_FAILURE_NONE 0
#define RTGAUGE_FAILURE_CPU_OFFLINE 1 /* its CPU was taken offline */
#define RTGAUGE_FAILURE_SOURCE 2      /* the source cannot be programmed any more */
#define RTGAUGE_FAILURE_UNLOAD 3      /* the module is being removed by force */
#define RTGAUGE_FAILURE_STORM 4	      /* edges without an end: see RTGAUGE_STORM_WINDOW_NS */

struct rtgauge_status {
	__u32 state;   /* out: RTGAUGE_STATE_* */
	__u32 failure; /* out: RTGAUGE_FAILURE_* */
	__u64 events;  /* out: interrupts handled as events, recorded or lost */
	__u64 missed;  /* out: grid points passed over by the handler */
	__u64 lost;    /* out: events that found the ring full: not stamped, no thread woken */
	__u64 thread_missed; /* out: events that the deferred context was too late for */
	__u64 user_missed;   /* out: grid points that RTGAUGE_WAIT passed over */
	__u64 stray;	     /* out: interrupts of the source that belong to no event */
	__u64 other_cpu;     /* out: of the events: handled on another CPU than asked for */
	__u32 switches; /* out: times that the kernel thread left its core for Linux; on Linux 0 */
	__u32 faults;	/* out: page faults of the kernel thread on its core; on Linux 0 */
};

/*
 * RTGAUGE_SUSTAIN: a free-running source raises @count interrupts, @period_ns apart, handled
 * or not. The handler counts them. The file must not have a session. The call sleeps until it is
 * done. A signal ends it (EINTR, without a result). generated = elapsed / period. It ends early if
 * more than @lost_max were lost, so that the search for the shortest period does not hang a
 * machine that does nothing but take interrupts; count * period is at most
 * RTGAUGE_SUSTAIN_SECONDS_MAX. Errors as in RTGAUGE_SETUP, and EOPNOTSUPP: the source is not
 * free-running; ETIME: for seconds, none of its interrupts was handled.
 */
struct rtgauge_sustain {
	__u32 source;	    /* in: as in rtgauge_setup; out: the one taken */
	__u32 cpu;	    /* in */
	__u64 period_ns;    /* in; out: as rounded to the source's resolution, in nanoseconds */
	__u64 period_fs;    /* in: 0; out: the same, exactly, in 10^-15 s */
	__u32 count;	    /* in: 1 ... RTGAUGE_SUSTAIN_COUNT_MAX */
	__u32 lost_max;	    /* in: end early when more are lost; 0: never early */
	__u64 generated;    /* out: interrupts raised */
	__u64 handled;	    /* out: handler calls for them */
	__u64 lost;	    /* out: generated - handled */
	__u64 elapsed_ns;   /* out: from the start of the source until it was stopped */
	char gpio_chip[32]; /* in: as in rtgauge_setup */
	__u32 gpio_output;
	__u32 gpio_input;
	__u32 flags; /* in: 0; out: RTGAUGE_SUSTAIN_* */
	__u32 reserved[3];
};

#define RTGAUGE_SUSTAIN_EARLY 0x1 /* ended early, by lost_max */

/*
 * read(): whole records, oldest first, as many as fit into the buffer; an event's record comes
 * when the deferred context (if there is one) has stamped it. EINVAL: the buffer does not hold one.
 * Without O_NONBLOCK it sleeps until there is one; with it EAGAIN. 0: the session has ended and
 * all was read. EIO: it has failed, and all was read. EBUSY: not set up. ENODATA: set up with
 * room 0. The interrupt does not wake readers (that would disturb it): the ring is checked
 * every 20 ms while a thread sleeps in read() or poll(). poll() gives POLLIN for records or the
 * end, POLLHUP at the end, POLLERR when it has failed.
 *
 * RTGAUGE_KIND_RESPONSE: index is the number of the event, from 0, and has gaps where the ring was
 * full; due_ns, raised_ns and missed are 0. entry_ns is the edge's stamp; end_ns comes after the
 * output was driven, in any context; thread_ns is when the deferred context took the event up.
 */
#define RTGAUGE_RECORD_THREAD_MISSED 0x1 /* the thread was still late for an earlier one */
#define RTGAUGE_RECORD_OTHER_CPU 0x2	 /* handled on another CPU than asked for */
#define RTGAUGE_RECORD_CUT 0x4		 /* the session ended before the thread ran */
#define RTGAUGE_RECORD_LEVEL 0x8	 /* the input's logical level, after active-low */
#define RTGAUGE_RECORD_REPEATED 0x10	 /* the same level as the event before */
#define RTGAUGE_RECORD_WAITED 0x20	 /* it came before the last was answered, or taken */
#define RTGAUGE_RECORD_DELAYED 0x40	 /* delay_ns was waited */

struct rtgauge_record {
	__u64 index;	 /* number of the grid point, from 0 */
	__u64 due_ns;	 /* when it was due */
	__u64 raised_ns; /* when the source raised it, by its own clock, put on CLOCK_MONOTONIC */
	__u64 entry_ns;	 /* first stamp in the handler */
	__u64 end_ns;  /* last stamp in the handler, after the device was acknowledged, or above */
	__u64 wake_ns; /* in the handler, just before the wake-ups */
	__u64 thread_ns; /* first stamp in the deferred context; 0: not stamped */
	__u32 missed;	 /* grid points that the handler missed since the record before */
	__u32 flags;	 /* RTGAUGE_RECORD_* */
};

/*
 * mmap(): one page, read-only, shared, at offset 0; in any state. RTGAUGE_KIND_IRQ_DISPATCH writes
 * it at the very end of the handler. A pinned thread that polls CLOCK_MONOTONIC reads sequence
 * first: when it has changed and is even, stamp_ns is the handler's last stamp. An odd one is
 * being written (seen from other CPUs only).
 */
struct rtgauge_page {
	__u32 sequence; /* 2 more after each event */
	__u32 reserved;
	__u64 index;	/* of the last event */
	__u64 entry_ns; /* its stamps, as in its record */
	__u64 stamp_ns; /* end_ns */
};

/*
 * A task of the Cobalt core that answers edges by itself: RTGAUGE_KIND_RESPONSE with
 * RTGAUGE_SETUP_COBALT and RTGAUGE_CONTEXT_USER. It makes the core's calls on this device:
 *
 *	task = open(RTGAUGE_TASK_DEVICE, O_RDWR);
 *	ioctl(task, RTGAUGE_ATTACH, &fd);	 of the session's file, after RTGAUGE_SETUP, not yet
 *						 as a task; once
 *	ioctl(task, RTGAUGE_TAKE, &edge);	 in the task: waits for the next edge
 *	ioctl(task, RTGAUGE_DRIVE, &level);	 the output, 0 is rest
 *
 * RTGAUGE_ATTACH: EBADF no file of /dev/rtgauge, EINVAL another session than that, EBUSY attached
 * before. The others: EBADF not attached. RTGAUGE_TAKE: EBUSY another task waits in it; EINTR a
 * signal; ENODATA the session has ended, and there is no more; EIO it has failed. RTGAUGE_DRIVE:
 * ENODATA the session has ended.
 */
#define RTGAUGE_TASK_DEVICE "/dev/rtdm/rtgauge"

struct rtgauge_edge {
	__u64 index;	/* out: number of the event, from 0 */
	__u64 entry_ns; /* out: first stamp in the handler */
	__u32 flags;	/* out: RTGAUGE_RECORD_* */
	__u32 lost;	/* out: events before it that found the ring full */
};

#define RTGAUGE_IOCTL 0xD7

#define RTGAUGE_INFO _IOR(RTGAUGE_IOCTL, 0x00, struct rtgauge_info)
#define RTGAUGE_SOURCE _IOWR(RTGAUGE_IOCTL, 0x01, struct rtgauge_source)
#define RTGAUGE_SETUP _IOWR(RTGAUGE_IOCTL, 0x02, struct rtgauge_setup)
#define RTGAUGE_START _IOWR(RTGAUGE_IOCTL, 0x03, struct rtgauge_start)
#define RTGAUGE_STOP _IO(RTGAUGE_IOCTL, 0x04)
#define RTGAUGE_WAIT _IOWR(RTGAUGE_IOCTL, 0x05, struct rtgauge_wait)
#define RTGAUGE_STATUS _IOR(RTGAUGE_IOCTL, 0x06, struct rtgauge_status)
#define RTGAUGE_SUSTAIN _IOWR(RTGAUGE_IOCTL, 0x07, struct rtgauge_sustain)

/* The calls on RTGAUGE_TASK_DEVICE: */
#define RTGAUGE_ATTACH _IOW(RTGAUGE_IOCTL, 0x40, __s32)
#define RTGAUGE_TAKE _IOR(RTGAUGE_IOCTL, 0x41, struct rtgauge_edge)
#define RTGAUGE_DRIVE _IOW(RTGAUGE_IOCTL, 0x42, __u32)

#endif /* RTGAUGE_H */
