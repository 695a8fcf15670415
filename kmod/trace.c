// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/rtgauge_trace, whose interface is trace.h: probes on tracepoints, and rings of their events.
 * trace_page.c makes pages of these.
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
#include "trace_page.h"
#include "traces.h"

#define TRACE_CALLERS 18				       /* of a stack, at most */
#define TRACE_FRAMES (COMPAT_STACK_BEFORE + 1 + TRACE_CALLERS) /* entries of a whole stack */
#define TRACE_QUIET 8	   /* times that of a stack: they take a ninth of the time at most */
#define TRACE_LATE_NS 3000 /* up to this, a timer is as late as the interrupt needs */
#define TRACE_TEXT 16384   /* positions of a format */

/* Bits of the flags of an event, those of the kernel's trace. */
#define TRACE_IRQS_OFF 0x01
#define TRACE_NEED_RESCHED 0x04
#define TRACE_HARDIRQ 0x08
#define TRACE_SOFTIRQ 0x10

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
	record->task.prev_state = preempt ? 0 : compat_task_state(COMPAT_SWITCH_STATE);
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

struct trace_event {
	const char *point; /* its tracepoint */
	void *probe;
};

#define VECTOR(kind, text)                                      \
	[kind##_ENTRY] = { text "_entry", trace_vector_entry }, \
	[kind##_EXIT] = { text "_exit", trace_vector_exit }

/* The numbers are those of trace.h. */
static const struct trace_event trace_events[TRACE_KINDS] = {
	[TRACE_SWITCH] = { "sched_switch", trace_switch },
	[TRACE_WAKING] = { "sched_waking", trace_waking },
	[TRACE_IRQ_ENTRY] = { "irq_handler_entry", trace_irq_entry },
	[TRACE_IRQ_EXIT] = { "irq_handler_exit", trace_irq_exit },
	[TRACE_SOFTIRQ_ENTRY] = { "softirq_entry", trace_softirq },
	[TRACE_SOFTIRQ_EXIT] = { "softirq_exit", trace_softirq },
	[TRACE_EXPIRE] = { "hrtimer_expire_entry", trace_expire },
	[TRACE_IDLE] = { "cpu_idle", trace_idle },
	VECTOR(TRACE_LOCAL_TIMER, "local_timer"),
	VECTOR(TRACE_RESCHEDULE, "reschedule"),
	VECTOR(TRACE_CALL, "call_function"),
	VECTOR(TRACE_CALL_SINGLE, "call_function_single"),
	VECTOR(TRACE_WORK, "irq_work"),
	[TRACE_IPI_ENTRY] = { "ipi_entry", trace_ipi_entry },
	[TRACE_IPI_EXIT] = { "ipi_exit", trace_ipi_exit },
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

static ssize_t trace_read_format(char *text, char __user *buffer, size_t size, loff_t *position)
{
	u64 place = *position - RTGAUGE_TRACE_FORMAT;
	u64 kind = place / TRACE_TEXT;
	size_t at = place % TRACE_TEXT, used = 0;

	if (kind < TRACE_KINDS && trace_points[kind])
		used = trace_format(kind, trace_events[kind].point, text, RTGAUGE_TRACE_PAGE);
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
	const struct trace_ring *ring;

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
	ring = &per_cpu(trace_cpus, cpu).rings[!trace_active];
	if (!trace_page(ring, per_cpu(trace_cpus, cpu).room, &trace_cursor.next, page,
			page + RTGAUGE_TRACE_PAGE))
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
