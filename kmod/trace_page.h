/* SPDX-License-Identifier: GPL-2.0-only */
/* Events in the rings of trace.c, and the pages that trace_page.c makes of them. */
#ifndef RTGAUGE_TRACE_PAGE_H
#define RTGAUGE_TRACE_PAGE_H

#include <linux/build_bug.h>
#include <linux/sched.h>
#include <linux/types.h>

/* What an event is of; its place here, plus 1, is its number in a page. */
enum trace_kind {
	TRACE_SWITCH,
	TRACE_WAKING,
	TRACE_IRQ_ENTRY,
	TRACE_IRQ_EXIT,
	TRACE_SOFTIRQ_ENTRY,
	TRACE_SOFTIRQ_EXIT,
	TRACE_EXPIRE,
	TRACE_IDLE,
	TRACE_LOCAL_TIMER_ENTRY,
	TRACE_LOCAL_TIMER_EXIT,
	TRACE_RESCHEDULE_ENTRY,
	TRACE_RESCHEDULE_EXIT,
	TRACE_CALL_ENTRY,
	TRACE_CALL_EXIT,
	TRACE_CALL_SINGLE_ENTRY,
	TRACE_CALL_SINGLE_EXIT,
	TRACE_WORK_ENTRY,
	TRACE_WORK_EXIT,
	TRACE_IPI_ENTRY,
	TRACE_IPI_EXIT,
	TRACE_KINDS
};

/* An event in a ring. From @number on it is what a page has. */
struct trace_common {
	u16 number;
	u8 flags;
	u8 preempt;
	s32 pid;
};

struct trace_record {
	u64 time_ns;
	struct trace_common common;
	union {
		struct {
			u16 prev_state;
			s16 prev_prio;
			s32 prev_pid;
			s32 next_pid;
			s32 next_prio;
			char prev_comm[TASK_COMM_LEN];
			char next_comm[TASK_COMM_LEN];
		} task;
		struct {
			u32 value;
			char name[28];
			u64 address; /* what an interrupt found running */
			u16 callers; /* of it, in the records from `distance` after this one on */
			u16 distance;
			u32 stack_ns;
		} other;
		u64 callers[6]; /* if number is 0: for an earlier entry of a handler */
	};
};

static_assert(sizeof(struct trace_record) == 64);

#define TRACE_DATA (sizeof(struct trace_record) - sizeof(u64))
#define TRACE_NAME 48	/* bytes of the name of the interrupted function, behind the data */
#define TRACE_STACK 640 /* bytes of their names, behind that of the function */
#define TRACE_ENTRY (TRACE_DATA + TRACE_NAME + TRACE_STACK) /* most bytes of an event's data */

struct trace_ring {
	struct trace_record *records;
	u64 head; /* events since it became the active one */
};

/* The format of the events of tracepoint @point, as tracefs has it. Returns its bytes. */
size_t trace_format(enum trace_kind kind, const char *point, char *text, size_t size);
/*
 * Fills @page with events of @ring, a ring of @room events, from number @next on. Advances @next.
 * Returns 0 after the last event. @data: room for one event. May sleep.
 */
size_t trace_page(const struct trace_ring *ring, u32 room, u64 *next, u8 *page, u8 *data);

#endif
