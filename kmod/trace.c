// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/rtgauge_trace, whose interface is trace.h: probes on tracepoints, rings of their events, and
 * pages of them.
 *
 * A probe runs where its tracepoint is. It writes one event into the ring of its CPU with interrupts
 * off, and takes no lock. In an NMI it writes nothing: arm64 has handlers that run in one, and are
 * traced. RTGAUGE_TRACE_TAKE exchanges the two rings of each CPU. After a grace period no probe writes
 * to the old ones.
 */
#include <linux/capability.h>
#include <linux/cpumask.h>
#include <linux/fs.h>
#include <linux/hardirq.h>
#include <linux/interrupt.h>
#include <linux/irqflags.h>
#include <linux/kallsyms.h>
#include <linux/log2.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/ptrace.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/tracepoint.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <linux/wait.h>
#include <asm/irq_regs.h>

#include "compat.h"
#include "trace.h"
#include "traces.h"

/* What an event is of; the place in trace_events, plus 1, is its number in a page. */
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
#define TRACE_NAME 48	 /* bytes of the name of the interrupted function, behind the data */
#define TRACE_CALLERS 18 /* of a stack, at most */
#define TRACE_FRAMES (COMPAT_STACK_BEFORE + 1 + TRACE_CALLERS) /* entries of a whole stack */
#define TRACE_STACK 640	   /* bytes of their names, behind that of the function */
#define TRACE_QUIET 8	   /* times that of a stack: they take a ninth of the time at most */
#define TRACE_LATE_NS 3000 /* up to this, a timer is as late as the interrupt needs */
#define TRACE_HEAD 16	   /* bytes of a page before its events */
#define TRACE_ENTRY (TRACE_DATA + TRACE_NAME + TRACE_STACK) /* most bytes of an event's data */
#define TRACE_WORDS_MAX 28 /* of data whose length the word of an event has */
#define TRACE_TEXT 16384   /* positions of a format */
#define TRACE_DELTA_MAX ((1U << 27) - 1)
#define TRACE_MISSED (1U << 31)

/* Bits of the flags of an event, those of the kernel's trace. */
#define TRACE_IRQS_OFF 0x01
#define TRACE_NEED_RESCHED 0x04
#define TRACE_HARDIRQ 0x08
#define TRACE_SOFTIRQ 0x10

struct trace_ring {
	struct trace_record *records;
	u64 head; /* events since it became the active one */
};

struct trace_cpu {
	u32 room; /* events of a ring; 0: the CPU is not traced */
	struct trace_ring rings[2];
	u32 depth;		    /* handlers that run: one may call another */
	struct trace_ring *entered; /* of the outermost one, even if the rings were exchanged */
	u64 entry;		    /* its event */
	bool late;		    /* a timer was, in this handler */
	u64 quiet_ns;		    /* no stack is saved before */
};

static DEFINE_MUTEX(trace_mutex);
static unsigned long trace_opened;
static DECLARE_WAIT_QUEUE_HEAD(trace_closed);
static bool trace_gone; /* the module is being removed */
static bool trace_started;
static bool trace_observes;	  /* the open file; never with trace_started */
static unsigned int trace_active; /* which of the two rings the probes write */
static DEFINE_PER_CPU(struct trace_cpu, trace_cpus);
static DEFINE_PER_CPU(unsigned long[TRACE_FRAMES], trace_frames);
static struct tracepoint *trace_points[TRACE_KINDS]; /* those that are probed */

/* The next record to read. */
static struct {
	unsigned int cpu;
	u64 page;
	u64 next; /* number of an event */
} trace_cursor;

/* --- in the probes --- */

/* The interrupts are off between trace_begin() and trace_end(). */
struct trace_place {
	unsigned long irq;
	struct trace_cpu *cpu;
	struct trace_ring *ring;
};

static struct trace_record *trace_at(const struct trace_place *place, u64 number)
{
	return &place->ring->records[number & (place->cpu->room - 1)];
}

/* NULL: the CPU is not traced, or a handler of an NMI may have interrupted a probe. */
static struct trace_record *trace_begin(enum trace_kind kind, struct trace_place *place)
{
	u8 flags = irqs_disabled() ? TRACE_IRQS_OFF : 0;
	struct trace_record *record;
	/* the tracepoint itself adds one */
	int depth = (preempt_count() & PREEMPT_MASK) - IS_ENABLED(CONFIG_PREEMPTION);

	if (need_resched())
		flags |= TRACE_NEED_RESCHED;
	if (preempt_count() & HARDIRQ_MASK)
		flags |= TRACE_HARDIRQ;
	if (in_serving_softirq())
		flags |= TRACE_SOFTIRQ;
	raw_local_irq_save(place->irq);
	place->cpu = this_cpu_ptr(&trace_cpus);
	/* with its rings */
	if (in_nmi() || !smp_load_acquire(&place->cpu->room))
		return NULL;
	place->ring = &place->cpu->rings[READ_ONCE(trace_active)];
	record = trace_at(place, place->ring->head++);
	/* it was of another event before, and pages show all of it */
	memset(record->callers, 0, sizeof(record->callers));
	record->time_ns = ktime_get_mono_fast_ns();
	record->common.number = kind + 1;
	record->common.flags = flags;
	record->common.preempt = clamp(depth, 0, 15);
	record->common.pid = current->pid;
	return record;
}

static void trace_end(const struct trace_place *place)
{
	raw_local_irq_restore(place->irq);
}

static struct trace_record *trace_value(enum trace_kind kind, u32 value, const char *name,
					struct trace_place *place)
{
	struct trace_record *record = trace_begin(kind, place);

	if (record) {
		record->other.value = value;
		strscpy(record->other.name, name ?: "", sizeof(record->other.name));
	}
	return record;
}

static void trace_other(enum trace_kind kind, u32 value, const char *name)
{
	struct trace_place place;

	trace_value(kind, value, name, &place);
	trace_end(&place);
}

/* Address of the kernel's code that the interrupt found running, 0 if it was user code. */
static u64 trace_interrupted(void)
{
	struct pt_regs *regs = get_irq_regs();

	return regs && !user_mode(regs) ? instruction_pointer(regs) : 0;
}

/* The entry of a handler. */
static void trace_entry(enum trace_kind kind, u32 value, const char *name)
{
	struct trace_place place;
	struct trace_record *record = trace_value(kind, value, name, &place);

	if (record) {
		record->other.address = trace_interrupted();
		if (!place.cpu->depth++) {
			place.cpu->entered = place.ring;
			place.cpu->entry = place.ring->head - 1;
			place.cpu->late = false;
		}
	}
	trace_end(&place);
}

/*
 * The callers of the interrupted function, for the record of the entry. The stack may have the
 * handler before it.
 */
static void trace_stack(struct trace_record *entry, const struct trace_place *place)
{
	u64 from_ns = ktime_get_mono_fast_ns(), begin = place->ring->head, until_ns;
	unsigned long *frames = *this_cpu_ptr(&trace_frames);
	unsigned int count = compat_stack_save(get_irq_regs(), frames, TRACE_FRAMES), at = 0,
		     callers, i;
	struct trace_record *more = NULL;

	while (at < count && frames[at] != entry->other.address)
		at++;
	callers = at < count ? min_t(unsigned int, count - at - 1, TRACE_CALLERS) : 0;
	for (i = 0; i < callers; i++) {
		if (!(i % ARRAY_SIZE(more->callers))) {
			more = trace_at(place, place->ring->head++);
			more->time_ns = from_ns;
			more->common.number = 0;
		}
		more->callers[i % ARRAY_SIZE(more->callers)] = frames[at + 1 + i];
	}
	entry->other.callers = callers;
	entry->other.distance = begin - place->cpu->entry;
	until_ns = ktime_get_mono_fast_ns();
	entry->other.stack_ns = min_t(u64, until_ns - from_ns, U32_MAX);
	place->cpu->quiet_ns = until_ns + TRACE_QUIET * (until_ns - from_ns);
}

/*
 * Whether the callers of what the interrupt found are needed: another task has to run and may have
 * to wait, or the interrupt came late. A kernel with PREEMPT_RT changes tasks at once, unless the
 * preemption is off. With others it depends on how they were started.
 */
static bool trace_delays(const struct trace_record *entry, const struct trace_cpu *cpu)
{
	bool at_once = IS_ENABLED(CONFIG_PREEMPT_RT) && !entry->common.preempt;

	return cpu->late || (need_resched() && !at_once);
}

/* The exit of a handler. Its samples end before, and the time for the stack is part of it. */
static void trace_exit(enum trace_kind kind, u32 value, const char *name)
{
	struct trace_place place;
	struct trace_record *entry, *record = trace_value(kind, value, name, &place);

	if (!record || !place.cpu->depth || --place.cpu->depth)
		goto out;
	entry = trace_at(&place, place.cpu->entry);
	/* not in rings that were exchanged since, and not overwritten */
	if (place.cpu->entered == place.ring && !is_idle_task(current) &&
	    place.ring->head - place.cpu->entry < RTGAUGE_TRACE_ROOM_MIN / 2 &&
	    record->time_ns >= place.cpu->quiet_ns && entry->common.number == kind &&
	    entry->other.address && entry->other.address == trace_interrupted() &&
	    trace_delays(entry, place.cpu)) {
		trace_stack(entry, &place);
		record->time_ns = ktime_get_mono_fast_ns();
	}
out:
	trace_end(&place);
}

#define KIND(data) ((enum trace_kind)(unsigned long)(data))

static void trace_switch(void *data, COMPAT_SWITCH_ARGUMENTS)
{
	struct trace_place place;
	struct trace_record *record = trace_begin(TRACE_SWITCH, &place);

	if (!record)
		goto out;
	place.cpu->depth = 0; /* of no handler: an exit was not seen */
	record->task.prev_state = preempt ? 0 : compat_task_state(prev);
	record->task.prev_prio = prev->prio;
	record->task.prev_pid = prev->pid;
	record->task.next_pid = next->pid;
	record->task.next_prio = next->prio;
	memcpy(record->task.prev_comm, prev->comm, TASK_COMM_LEN);
	memcpy(record->task.next_comm, next->comm, TASK_COMM_LEN);
out:
	trace_end(&place);
}

static void trace_waking(void *data, struct task_struct *task)
{
	struct trace_place place;
	struct trace_record *record = trace_begin(TRACE_WAKING, &place);

	if (record) {
		record->task.next_pid = task->pid;
		record->task.next_prio = task->prio;
		memcpy(record->task.next_comm, task->comm, TASK_COMM_LEN);
	}
	trace_end(&place);
}

static void trace_irq_entry(void *data, int number, struct irqaction *action)
{
	trace_entry(TRACE_IRQ_ENTRY, number, action->name);
}

static void trace_irq_exit(void *data, int number, struct irqaction *action, int result)
{
	trace_exit(TRACE_IRQ_EXIT, number, action->name);
}

static void trace_softirq(void *data, unsigned int number)
{
	trace_other(KIND(data), number, NULL);
}

static void trace_vector_entry(void *data, int number)
{
	trace_entry(KIND(data), number, NULL);
}

static void trace_vector_exit(void *data, int number)
{
	trace_exit(KIND(data), number, NULL);
}

static void trace_expire(void *data, struct hrtimer *timer, ktime_t *now)
{
	struct trace_place place;

	if (trace_value(TRACE_EXPIRE, 0, NULL, &place) &&
	    ktime_to_ns(ktime_sub(*now, hrtimer_get_expires(timer))) > TRACE_LATE_NS)
		place.cpu->late = true;
	trace_end(&place);
}

static void trace_idle(void *data, unsigned int state, unsigned int cpu)
{
	trace_other(TRACE_IDLE, state, NULL);
}

static void trace_ipi_entry(void *data, const char *reason)
{
	trace_entry(TRACE_IPI_ENTRY, 0, reason);
}

static void trace_ipi_exit(void *data, const char *reason)
{
	trace_exit(TRACE_IPI_EXIT, 0, reason);
}

/* --- the table --- */

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

struct trace_event {
	const char *point; /* its tracepoint */
	void *probe;
	const struct trace_field *fields;
};

#define VECTOR(kind, text)                                                           \
	[kind##_ENTRY] = { text "_entry", trace_vector_entry, trace_vector_fields }, \
	[kind##_EXIT] = { text "_exit", trace_vector_exit, trace_vector_fields }

/* The numbers are those of trace.h. */
static const struct trace_event trace_events[TRACE_KINDS] = {
	[TRACE_SWITCH] = { "sched_switch", trace_switch, trace_switch_fields },
	[TRACE_WAKING] = { "sched_waking", trace_waking, trace_waking_fields },
	[TRACE_IRQ_ENTRY] = { "irq_handler_entry", trace_irq_entry, trace_irq_fields },
	[TRACE_IRQ_EXIT] = { "irq_handler_exit", trace_irq_exit, trace_irq_fields },
	[TRACE_SOFTIRQ_ENTRY] = { "softirq_entry", trace_softirq, trace_vector_fields },
	[TRACE_SOFTIRQ_EXIT] = { "softirq_exit", trace_softirq, trace_vector_fields },
	[TRACE_EXPIRE] = { "hrtimer_expire_entry", trace_expire, trace_idle_fields },
	[TRACE_IDLE] = { "cpu_idle", trace_idle, trace_idle_fields },
	VECTOR(TRACE_LOCAL_TIMER, "local_timer"),
	VECTOR(TRACE_RESCHEDULE, "reschedule"),
	VECTOR(TRACE_CALL, "call_function"),
	VECTOR(TRACE_CALL_SINGLE, "call_function_single"),
	VECTOR(TRACE_WORK, "irq_work"),
	[TRACE_IPI_ENTRY] = { "ipi_entry", trace_ipi_entry, trace_ipi_fields },
	[TRACE_IPI_EXIT] = { "ipi_exit", trace_ipi_exit, trace_ipi_fields },
};

/* --- begin and end --- */

static void trace_find(struct tracepoint *point, void *data)
{
	int kind;

	for (kind = 0; kind < TRACE_KINDS; kind++)
		if (!strcmp(point->name, trace_events[kind].point))
			trace_points[kind] = point;
}

static void trace_free(unsigned int cpu)
{
	struct trace_cpu *traced = &per_cpu(trace_cpus, cpu);
	int i;

	traced->room = 0;
	traced->depth = 0;
	traced->quiet_ns = 0;
	for (i = 0; i < 2; i++) {
		vfree(traced->rings[i].records);
		traced->rings[i].records = NULL;
		traced->rings[i].head = 0;
	}
}

static void trace_stop(void)
{
	int kind, cpu;

	for (kind = 0; kind < TRACE_KINDS; kind++)
		if (trace_points[kind])
			tracepoint_probe_unregister(trace_points[kind], trace_events[kind].probe,
						    (void *)(unsigned long)kind);
	/* no probe is running any more */
	tracepoint_synchronize_unregister();
	memset(trace_points, 0, sizeof(trace_points));
	for_each_possible_cpu(cpu) trace_free(cpu);
	trace_started = false;
}

/* The probes that are attached already may find the rings as soon as they have room. */
static int trace_add(unsigned int cpu, u32 room)
{
	struct trace_cpu *traced = &per_cpu(trace_cpus, cpu);
	int i;

	for (i = 0; i < 2; i++) {
		traced->rings[i].records = vzalloc_node(
			array_size(room, sizeof(struct trace_record)), cpu_to_node(cpu));
		if (!traced->rings[i].records) {
			trace_free(cpu);
			return -ENOMEM;
		}
	}
	smp_store_release(&traced->room, room);
	return 0;
}

static int trace_attach(void)
{
	int kind;

	trace_active = 0;
	trace_started = true;
	for_each_kernel_tracepoint(trace_find, NULL);
	/* from the end: exits of handlers before their entries, so that each entry has its exit */
	for (kind = TRACE_KINDS - 1; kind >= 0; kind--) {
		if (trace_points[kind] &&
		    tracepoint_probe_register(trace_points[kind], trace_events[kind].probe,
					      (void *)(unsigned long)kind))
			trace_points[kind] = NULL;
	}
	if (trace_points[TRACE_SWITCH] && trace_points[TRACE_WAKING])
		return 0;
	trace_stop();
	return -ENODEV;
}

static int trace_start(const struct rtgauge_trace_start *start)
{
	int err;

	if (start->room < RTGAUGE_TRACE_ROOM_MIN || start->room > RTGAUGE_TRACE_ROOM_MAX ||
	    start->cpu >= nr_cpu_ids || !cpu_possible(start->cpu))
		return -EINVAL;
	if (per_cpu(trace_cpus, start->cpu).room)
		return -EBUSY;
	err = trace_add(start->cpu, roundup_pow_of_two(start->room));
	if (!err && !trace_started)
		err = trace_attach();
	return err;
}

static int trace_take(void)
{
	unsigned int next = !trace_active;
	int cpu;

	if (!trace_started)
		return -EBUSY;
	for_each_possible_cpu(cpu) per_cpu(trace_cpus, cpu).rings[next].head = 0;
	smp_wmb(); /* before a probe writes there */
	WRITE_ONCE(trace_active, next);
	/* probes have interrupts off while they write: none writes to the others after this */
	synchronize_rcu();
	trace_cursor.cpu = nr_cpu_ids;
	return 0;
}

/* --- what is read --- */

static size_t trace_fields(const struct trace_field *field, char *text, size_t size)
{
	size_t used = 0;

	for (; field->name; field++)
		used += scnprintf(text + used, size - used,
				  "\tfield:%s;\toffset:%u;\tsize:%u;\tsigned:%u;\n", field->name,
				  field->offset, field->bytes, field->sign);
	return used;
}

static size_t trace_format(int kind, char *text, size_t size)
{
	size_t used;

	if (kind >= TRACE_KINDS || !trace_points[kind])
		return 0;
	used = scnprintf(text, size, "name: %s\nID: %d\nformat:\n", trace_events[kind].point,
			 kind + 1);
	used += trace_fields(trace_common_fields, text + used, size - used);
	return used + trace_fields(trace_events[kind].fields, text + used, size - used);
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

/* The next page of the cursor's CPU; 0 at its end. @data: room for one event. */
static size_t trace_page(u8 *page, u8 *data)
{
	const struct trace_ring *ring = &per_cpu(trace_cpus, trace_cursor.cpu).rings[!trace_active];
	u32 room = per_cpu(trace_cpus, trace_cursor.cpu).room;
	u64 missed = 0, oldest = ring->head > room ? ring->head - room : 0;
	const struct trace_record *record;
	u64 before = 0, delta, commit;
	size_t used = TRACE_HEAD, size, length;
	u32 word;

	if (trace_cursor.next < oldest) {
		trace_cursor.next = oldest;
		missed = TRACE_MISSED;
	}
	memset(page, 0, RTGAUGE_TRACE_PAGE);
	for (; trace_cursor.next < ring->head; trace_cursor.next++) {
		record = &ring->records[trace_cursor.next & (room - 1)];
		if (!record->common.number)
			continue;
		if (used == TRACE_HEAD) {
			before = record->time_ns;
			memcpy(page, &before, sizeof(before));
		}
		delta = record->time_ns - before;
		size = trace_data(ring, room, trace_cursor.next, data);
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

static ssize_t trace_read_format(char *text, char __user *buffer, size_t size, loff_t *position)
{
	u64 place = *position - RTGAUGE_TRACE_FORMAT;
	size_t used =
		trace_format(min_t(u64, place / TRACE_TEXT, TRACE_KINDS), text, RTGAUGE_TRACE_PAGE);
	size_t at = place % TRACE_TEXT;

	if (at >= used)
		return 0;
	size = min(size, used - at);
	if (copy_to_user(buffer, text + at, size))
		return -EFAULT;
	*position += size;
	return size;
}

static ssize_t trace_read_page(u8 *page, char __user *buffer, size_t size, loff_t *position)
{
	u64 cpu = *position / RTGAUGE_TRACE_CPU;
	u64 number = *position % RTGAUGE_TRACE_CPU / RTGAUGE_TRACE_PAGE, next;

	if (size < RTGAUGE_TRACE_PAGE || *position % RTGAUGE_TRACE_PAGE || cpu >= nr_cpu_ids ||
	    !cpu_possible(cpu) || !per_cpu(trace_cpus, cpu).room)
		return -EINVAL;
	if (!number) {
		trace_cursor.cpu = cpu;
		trace_cursor.page = 0;
		trace_cursor.next = 0;
	}
	if (trace_cursor.cpu != cpu || trace_cursor.page != number)
		return -EINVAL;
	next = trace_cursor.next;
	if (!trace_page(page, page + RTGAUGE_TRACE_PAGE))
		return 0;
	if (copy_to_user(buffer, page, RTGAUGE_TRACE_PAGE)) {
		trace_cursor.next = next; /* the page can be read again */
		return -EFAULT;
	}
	trace_cursor.page++;
	*position += RTGAUGE_TRACE_PAGE;
	return RTGAUGE_TRACE_PAGE;
}

static ssize_t trace_read_observed(u8 *page, char __user *buffer, size_t size)
{
	size_t taken = observe_take((struct rtgauge_observed *)page,
				    min_t(size_t, size, RTGAUGE_TRACE_PAGE) /
					    sizeof(struct rtgauge_observed));

	taken *= sizeof(struct rtgauge_observed);
	return copy_to_user(buffer, page, taken) ? -EFAULT : taken;
}

/* --- the device --- */

/* With trace_mutex: probes and rings are gone. */
static void trace_end_all(void)
{
	if (trace_started)
		trace_stop();
	if (trace_observes)
		observe_stop();
	trace_observes = false;
}

static int trace_open(struct inode *inode, struct file *file)
{
	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	if (test_and_set_bit(0, &trace_opened))
		return -EBUSY;
	/* files can be opened until misc_deregister() returns */
	if (READ_ONCE(trace_gone)) {
		clear_bit(0, &trace_opened);
		return -ENODEV;
	}
	return 0;
}

static int trace_release(struct inode *inode, struct file *file)
{
	mutex_lock(&trace_mutex);
	trace_end_all();
	mutex_unlock(&trace_mutex);
	clear_bit(0, &trace_opened);
	wake_up(&trace_closed);
	return 0;
}

static ssize_t trace_read(struct file *file, char __user *buffer, size_t size, loff_t *position)
{
	u8 *page = kmalloc(RTGAUGE_TRACE_PAGE + TRACE_ENTRY, GFP_KERNEL);
	ssize_t got;

	if (!page)
		return -ENOMEM;
	mutex_lock(&trace_mutex);
	if (trace_observes)
		got = trace_read_observed(page, buffer, size);
	else if (*position >= RTGAUGE_TRACE_FORMAT)
		got = trace_read_format(page, buffer, size, position);
	else
		got = trace_read_page(page, buffer, size, position);
	mutex_unlock(&trace_mutex);
	kfree(page);
	return got;
}

/* With trace_mutex. */
static long trace_request(unsigned int request, unsigned long argument)
{
	void __user *user = (void __user *)argument;
	struct rtgauge_trace_observe observe;
	struct rtgauge_trace_start start;
	long err;

	switch (request) {
	case RTGAUGE_TRACE_START:
		if (trace_observes)
			return -EBUSY;
		return copy_from_user(&start, user, sizeof(start)) ? -EFAULT : trace_start(&start);
	case RTGAUGE_TRACE_TAKE:
		return trace_take();
	case RTGAUGE_TRACE_OBSERVE:
		if (trace_started || trace_observes)
			return -EBUSY;
		if (copy_from_user(&observe, user, sizeof(observe)))
			return -EFAULT;
		err = observe_start(&observe);
		trace_observes = !err;
		return err;
	case RTGAUGE_TRACE_RECORD:
		if (!trace_observes)
			return -EBUSY;
		observe_record(argument);
		return 0;
	default:
		return -ENOTTY;
	}
}

static long trace_ioctl(struct file *file, unsigned int request, unsigned long argument)
{
	long err;

	mutex_lock(&trace_mutex);
	err = trace_gone ? -ENODEV : trace_request(request, argument);
	mutex_unlock(&trace_mutex);
	return err;
}

static const struct file_operations trace_operations = {
	.owner = THIS_MODULE,
	.open = trace_open,
	.release = trace_release,
	.llseek = default_llseek,
	.read = trace_read,
	.unlocked_ioctl = trace_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static struct miscdevice trace_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "rtgauge_trace",
	.fops = &trace_operations,
	.mode = 0600,
};

int traces_init(void)
{
	return misc_register(&trace_device);
}

void traces_exit(void)
{
	misc_deregister(&trace_device);
	mutex_lock(&trace_mutex);
	WRITE_ONCE(trace_gone, true);
	trace_end_all();
	mutex_unlock(&trace_mutex);
	/* only a removal by force finds an open file */
	wait_event(trace_closed, !test_bit(0, &trace_opened));
}
