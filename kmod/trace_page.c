// SPDX-License-Identifier: GPL-2.0-only
/* Pages of events and their formats, in the layout of the kernel's own trace (trace.h). */
#include <linux/kallsyms.h>
#include <linux/kernel.h>
#include <linux/sched.h>
#include <linux/string.h>

#include "compat.h"
#include "trace.h"
#include "trace_page.h"

#define TRACE_HEAD 16	   /* bytes of a page before its events */
#define TRACE_WORDS_MAX 28 /* of data whose length the word of an event has */
#define TRACE_DELTA_MAX ((1U << 27) - 1)
#define TRACE_MISSED (1U << 31)

#define TASK(field, name, bytes, sign)                                                     \
	{                                                                                  \
		name, bytes, sign, offsetof(struct trace_record, task.field) - sizeof(u64) \
	}
#define OTHER(field, name, bytes)                                                        \
	{                                                                                \
		name, bytes, 0, offsetof(struct trace_record, other.field) - sizeof(u64) \
	}

struct trace_field {
	const char *name; /* with its type */
	u8 bytes;
	u8 sign;
	u8 offset;
};

static const struct trace_field trace_common_fields[] = { { "unsigned short common_type", 2, 0, 0 },
							  { "unsigned char common_flags", 1, 0, 2 },
							  { "unsigned char common_preempt_count", 1,
							    0, 3 },
							  { "int common_pid", 4, 1, 4 },
							  {} };

static const struct trace_field trace_switch_fields[] = {
	TASK(prev_state, "unsigned short prev_state", 2, 0),
	TASK(prev_prio, "short prev_prio", 2, 1),
	TASK(prev_pid, "int prev_pid", 4, 1),
	TASK(next_pid, "int next_pid", 4, 1),
	TASK(next_prio, "int next_prio", 4, 1),
	TASK(prev_comm, "char prev_comm[16]", TASK_COMM_LEN, 0),
	TASK(next_comm, "char next_comm[16]", TASK_COMM_LEN, 0),
	{}
};

static const struct trace_field trace_waking_fields[] = { TASK(next_pid, "int pid", 4, 1),
							  TASK(next_prio, "int prio", 4, 1),
							  TASK(next_comm, "char comm[16]",
							       TASK_COMM_LEN, 0),
							  {} };

#define CODE                                                   \
	{                                                      \
		"char function[48]", TRACE_NAME, 0, TRACE_DATA \
	}
#ifdef COMPAT_STACK
/* a page says where the names are, in the place of `callers` and `distance` */
#define STACK OTHER(callers, "__data_loc char[] stack", 4)
#define STACK_NS OTHER(stack_ns, "unsigned int stack_ns", 4)
#else
/* the ends of the tables */
#define STACK \
	{     \
	}
#define STACK_NS \
	{        \
	}
#endif

static const struct trace_field trace_irq_fields[] = { OTHER(value, "unsigned int irq", 4),
						       OTHER(name, "char name[28]", 28),
						       CODE,
						       STACK,
						       STACK_NS,
						       {} };

static const struct trace_field trace_vector_fields[] = {
	OTHER(value, "unsigned int vec", 4), CODE, STACK, STACK_NS, {}
};

static const struct trace_field trace_idle_fields[] = { OTHER(value, "unsigned int state", 4), {} };

static const struct trace_field trace_ipi_fields[] = {
	OTHER(name, "char reason[28]", 28), CODE, STACK, STACK_NS, {}
};

static const struct trace_field *const trace_kind_fields[TRACE_KINDS] = {
	[TRACE_SWITCH] = trace_switch_fields,
	[TRACE_WAKING] = trace_waking_fields,
	[TRACE_IRQ_ENTRY] = trace_irq_fields,
	[TRACE_IRQ_EXIT] = trace_irq_fields,
	[TRACE_SOFTIRQ_ENTRY] = trace_vector_fields,
	[TRACE_SOFTIRQ_EXIT] = trace_vector_fields,
	[TRACE_EXPIRE] = trace_idle_fields,
	[TRACE_IDLE] = trace_idle_fields,
	[TRACE_LOCAL_TIMER_ENTRY... TRACE_WORK_EXIT] = trace_vector_fields,
	[TRACE_IPI_ENTRY] = trace_ipi_fields,
	[TRACE_IPI_EXIT] = trace_ipi_fields,
};

static size_t trace_fields(const struct trace_field *field, char *text, size_t size)
{
	size_t used = 0;

	for (; field->name; field++)
		used += scnprintf(text + used, size - used,
				  "\tfield:%s;\toffset:%u;\tsize:%u;\tsigned:%u;\n", field->name,
				  field->offset, field->bytes, field->sign);
	return used;
}

size_t trace_format(enum trace_kind kind, const char *point, char *text, size_t size)
{
	size_t used = scnprintf(text, size, "name: %s\nID: %d\nformat:\n", point, kind + 1);

	used += trace_fields(trace_common_fields, text + used, size - used);
	return used + trace_fields(trace_kind_fields[kind], text + used, size - used);
}

/* The name of code, after @mark. Without a name, pages do not show the address either. */
static int trace_name(char *text, size_t size, const char *mark, u64 address)
{
	char name[KSYM_SYMBOL_LEN];

	snprintf(name, sizeof(name), "%ps", (void *)(unsigned long)address);
	return snprintf(text, size, "%s%s", mark,
			strncmp(name, "0x", 2) ? name : "code without a name");
}

/*
 * The names of the callers of what event @at interrupted, the innermost first, with a < before
 * each. Returns their bytes, at most @size - 1. A name that does not fit ends them.
 */
static size_t trace_names(const struct trace_ring *ring, u32 room, u64 at, char *text, size_t size)
{
	const struct trace_record *record = &ring->records[at & (room - 1)];
	u32 callers = record->other.callers, i;
	size_t used = 0;
	int bytes;
	u64 caller;

	at += record->other.distance;
	for (i = 0; i < callers; i++) {
		record = &ring->records[(at + i / ARRAY_SIZE(record->callers)) & (room - 1)];
		/* the call is before the place of its return */
		caller = record->callers[i % ARRAY_SIZE(record->callers)] - 1;
		bytes = trace_name(text + used, size - used, "<", caller);
		if (bytes >= size - used)
			break;
		used += bytes;
	}
	return used;
}

/* One event, into the @data of a page. Returns its bytes, a multiple of 4. */
static size_t trace_data(const struct trace_ring *ring, u32 room, u64 at, u8 *data)
{
	const struct trace_record *record = &ring->records[at & (room - 1)];
	size_t used = TRACE_DATA + TRACE_NAME, names;
	u32 place;

	memset(data, 0, used + TRACE_STACK);
	memcpy(data, (const u8 *)record + sizeof(u64), TRACE_DATA);
	if (record->common.number <= TRACE_WAKING + 1)
		return used;
	if (record->other.address)
		trace_name(data + TRACE_DATA, TRACE_NAME, "", record->other.address);
	memset(data + offsetof(struct trace_record, other.address) - sizeof(u64), 0,
	       sizeof(record->other.address));
	names = trace_names(ring, room, at, data + used, TRACE_STACK);
	place = names ? used | names << 16 : 0;
	memcpy(data + offsetof(struct trace_record, other.callers) - sizeof(u64), &place,
	       sizeof(place));
	return used + ALIGN(names, 4);
}

/* Bit fields: the words of the data, 0 if the next word has their bytes, and the time delta. */
static u32 trace_word(u32 words, u32 delta)
{
	return IS_ENABLED(CONFIG_CPU_BIG_ENDIAN) ? words << 27 | delta : words | delta << 5;
}

size_t trace_page(const struct trace_ring *ring, u32 room, u64 *next, u8 *page, u8 *data)
{
	u64 missed = 0, oldest = ring->head > room ? ring->head - room : 0;
	const struct trace_record *record;
	u64 before = 0, delta, commit;
	size_t used = TRACE_HEAD, size, length;
	u32 word;

	if (*next < oldest) {
		*next = oldest;
		missed = TRACE_MISSED;
	}
	memset(page, 0, RTGAUGE_TRACE_PAGE);
	for (; *next < ring->head; ++*next) {
		record = &ring->records[*next & (room - 1)];
		if (!record->common.number)
			continue;
		if (used == TRACE_HEAD) {
			before = record->time_ns;
			memcpy(page, &before, sizeof(before));
		}
		delta = record->time_ns - before;
		size = trace_data(ring, room, *next, data);
		length = size > TRACE_WORDS_MAX * 4 ? 8 : 4; /* before the data */
		if (delta > TRACE_DELTA_MAX || used + length + size > RTGAUGE_TRACE_PAGE)
			break;
		before = record->time_ns;
		word = trace_word(length == 4 ? size / 4 : 0, delta);
		memcpy(page + used, &word, sizeof(word));
		word = size + sizeof(word);
		if (length == 8)
			memcpy(page + used + 4, &word, sizeof(word));
		memcpy(page + used + length, data, size);
		used += length + size;
		/* a search for a name is long, and kernels without preemption wait for its end */
		cond_resched();
	}
	commit = (used - TRACE_HEAD) | missed;
	memcpy(page + 8, &commit, sizeof(commit));
	return used > TRACE_HEAD ? RTGAUGE_TRACE_PAGE : 0;
}
