/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR Apache-2.0 */
/*
 * /dev/rtgauge_trace: the kernel's scheduling and interrupts, without tracefs. The module attaches
 * probes to tracepoints and keeps their events in rings of its own. For root alone; one open file at
 * a time. A file either traces the CPUs around a sample, or observes one process.
 *
 * Tracing, with a pair of rings for each traced CPU:
 *
 *	fd = open("/dev/rtgauge_trace", O_RDONLY | O_CLOEXEC);
 *	ioctl(fd, RTGAUGE_TRACE_START, &start);	for each CPU: probes are attached
 *	pread(fd, text, size, RTGAUGE_TRACE_FORMAT + i * 16384)	text of event i; 0: not traced
 *	ioctl(fd, RTGAUGE_TRACE_TAKE);		events go to the other rings from here on
 *	pread(fd, page, 4096, cpu * RTGAUGE_TRACE_CPU + i * 4096)  page i of what was taken
 *	close(fd);				probes and rings are gone
 *
 * A page has the layout of a page of the kernel's own trace (trace_pipe_raw), in the order of bytes
 * of the machine: u64 time of its first event, u64 bytes of data (bit 31: events before it were
 * overwritten), then the events. Texts are those of a file `format` of tracefs, after a first line
 * with the event's name. Times are CLOCK_MONOTONIC.
 *
 * The entry of a handler has the function that it interrupted in `function`, and in `stack`
 * (__data_loc) the callers of it, each with a < before its name, if a timer was late or another task
 * has to run after the handler. `stack_ns`: time for saving them. Kernels without CONFIG_STACKTRACE
 * lack the last two fields.
 *
 * Pages of a CPU are read in their order, from 0 on. After one, read() returns the next. Numbers of
 * events, from 0: sched_switch, sched_waking, irq_handler_entry, irq_handler_exit, softirq_entry,
 * softirq_exit, hrtimer_expire_entry, cpu_idle, and the entries and exits of local_timer,
 * reschedule, call_function, call_function_single, irq_work (x86) and ipi (arm). They stay.
 *
 * Observing, with a ring for each CPU:
 *
 *	ioctl(fd, RTGAUGE_TRACE_OBSERVE, &observe);	probes are attached
 *	ioctl(fd, RTGAUGE_TRACE_RECORD, 1);		they record from here on; 0: no more
 *	read(fd, records, size)		whole struct rtgauge_observed; 0: none so far
 *
 * Each record is a switch from or to a thread of the process, or a waking of one, also of threads
 * that it creates later. read() takes those of all CPUs in the order of their times. A full ring
 * keeps its records, and the next one of its CPU has the number of those lost. Further errors: ESRCH
 * there is no such process; EOPNOTSUPP the caller is in a PID namespace of its own.
 *
 * Errors: EBUSY already open, the file observes, the CPU is traced already, or none is; EINVAL;
 * ENOMEM; ENODEV the kernel lacks the tracepoint of switches or of wakings, or the module is being
 * removed.
 */
#ifndef RTGAUGE_TRACE_H
#define RTGAUGE_TRACE_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define RTGAUGE_TRACE_DEVICE "/dev/rtgauge_trace"
#define RTGAUGE_TRACE_PAGE 4096
#define RTGAUGE_TRACE_EVENT 64 /* bytes in a ring */
#define RTGAUGE_TRACE_CPU (1LL << 32)
#define RTGAUGE_TRACE_FORMAT (1LL << 60)
#define RTGAUGE_TRACE_ROOM_MIN 64U
#define RTGAUGE_TRACE_ROOM_MAX 65536U

struct rtgauge_trace_start {
	__u32 cpu;  /* in: that is traced from here on */
	__u32 room; /* in: events of a ring, rounded up to a power of two */
};

struct rtgauge_trace_observe {
	__u32 pid;  /* in */
	__u32 room; /* in: records of a ring, limits and rounding as above */
};

#define RTGAUGE_OBSERVED_SWITCH 0
#define RTGAUGE_OBSERVED_WAKING 1 /* of the thread next */
#define RTGAUGE_OBSERVED_LOSS 2	  /* nothing but @lost */

struct rtgauge_observed {
	__u64 time_ns; /* CLOCK_MONOTONIC */
	__u32 kind;
	__u32 lost; /* of this CPU since its record before this one */
	__s32 prev; /* thread that leaves the CPU; 0: one of another process */
	__s32 next; /* thread that the CPU switches to; 0: one of another process */
};

#define RTGAUGE_TRACE_START _IOW(0xD7, 0x20, struct rtgauge_trace_start)
#define RTGAUGE_TRACE_TAKE _IO(0xD7, 0x21)
#define RTGAUGE_TRACE_OBSERVE _IOW(0xD7, 0x22, struct rtgauge_trace_observe)
#define RTGAUGE_TRACE_RECORD _IO(0xD7, 0x23)

#endif /* RTGAUGE_TRACE_H */
