// SPDX-License-Identifier: GPL-2.0-only
/*
 * Edges from outside on a line of a GPIO chip, answered on another line of it: by the handler of
 * the line's interrupt, or by what it defers its work to.
 */
#include <linux/errno.h>
#include <linux/string.h>

#include "compat.h"
#include "core.h"
#include "lines.h"
#include "source.h"

#if IS_ENABLED(CONFIG_GPIOLIB)

#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/sched.h>
#include <linux/slab.h>

/* For what a chip has kept from before. */
#define SOURCE_EXTERNAL_SETTLE_US 100
#define SOURCE_EXTERNAL_BUSY_NS (RTGAUGE_STORM_WINDOW_NS / 2)

struct source_external {
	struct lines lines;
	u32 flags; /* RTGAUGE_SETUP_* */
	bool both; /* edges; else the level follows from the edge */
	bool late; /* the level is read after the handler, for which the chip is not fit */
	bool flip; /* the answer's level to the line's */
	u32 armed; /* edges are events */

	/* The handler's: */
	u32 level; /* of the event before: RTGAUGE_RECORD_LEVEL or 0 */
	u32 edges, edges_max;
	u64 window_ns, busy_ns; /* when the window began; in the handler since then */

	/* The answering context's: */
	u32 delay_ns, delay_every, delay_left;
	bool high;
};

/* --- at an edge --- */

static u32 source_external_read(const struct source_external *e)
{
	bool high = gpiod_get_raw_value(e->lines.input) > 0;

	return high != !!(e->flags & RTGAUGE_SETUP_ACTIVE_LOW) ? RTGAUGE_RECORD_LEVEL : 0;
}

/* The level that the edge has brought, and whether it is new: flags of the record. */
static u32 source_external_level(struct source_external *e)
{
	u32 before = e->level;

	if (!e->both)
		return e->level;
	e->level = source_external_read(e);
	return e->level | (e->level == before ? RTGAUGE_RECORD_REPEATED : 0);
}

/* Whether this answer is one of those to be held up. */
static bool source_external_is_delayed(struct source_external *e)
{
	if (likely(!e->delay_every) || --e->delay_left)
		return false;
	e->delay_left = e->delay_every;
	return true;
}

static void source_external_spin(const struct session *s)
{
	const struct source_external *e = s->device;
	u64 end_ns = session_now(s) + e->delay_ns;

	while (session_now(s) < end_ns)
		cpu_relax();
}

static void source_external_sleep(const struct session *s)
{
	const struct source_external *e = s->device;
	ktime_t end = ns_to_ktime(session_now(s) + e->delay_ns);

	if (session_on_core(s)) {
		s->core->sleep_until(ktime_to_ns(end));
		return;
	}
	do {
		set_current_state(TASK_IDLE);
		if (kthread_should_stop())
			break;
	} while (schedule_hrtimeout(&end, HRTIMER_MODE_ABS));
	__set_current_state(TASK_RUNNING);
}

static void source_external_drive(struct source_external *e, u32 level)
{
	if (e->flags & RTGAUGE_SETUP_TOGGLE)
		e->high = !e->high;
	else
		e->high = !!level != e->flip;
	gpiod_set_raw_value(e->lines.output, e->high);
}

/* In the handler: no more of it. */
static void source_external_disarm(struct session *s)
{
	struct source_external *e = s->device;

	shared_set(&e->armed, false);
	if (session_on_core(s))
		s->core->deafen(s);
	else
		disable_irq_nosync(e->lines.irq);
}

/* The end of the handler: whether it was the last event, or one too many. */
static void source_external_watch(struct session *s, u64 entry_ns, u64 end_ns)
{
	struct source_external *e = s->device;

	if (unlikely(s->events >= s->events_max)) {
		source_external_disarm(s);
		session_exhausted(s);
		return;
	}
	if (entry_ns - e->window_ns > RTGAUGE_STORM_WINDOW_NS) {
		e->window_ns = entry_ns;
		e->busy_ns = 0;
		e->edges = 0;
	}
	/* what is longer than any delay was taken from the CPU, by a hypervisor or the firmware */
	e->busy_ns += min_t(u64, end_ns - entry_ns, RTGAUGE_DELAY_BUSY_MAX_NS);
	if (unlikely(++e->edges > e->edges_max || e->busy_ns > SOURCE_EXTERNAL_BUSY_NS)) {
		source_external_disarm(s);
		session_broken(s, RTGAUGE_FAILURE_STORM);
	}
}

/* The handler that answers. */
static irqreturn_t source_external_answers(int irq, void *data)
{
	struct session *s = data;
	u64 entry_ns = session_now(s);
	struct source_external *e = s->device;
	struct rtgauge_record *record;
	u64 end_ns;
	u32 flags;

	if (unlikely(!shared_get(&e->armed))) {
		s->stray++;
		return IRQ_HANDLED;
	}
	flags = source_external_level(e);
	if (unlikely(source_external_is_delayed(e))) {
		flags |= RTGAUGE_RECORD_DELAYED;
		source_external_spin(s);
	}
	source_external_drive(e, flags & RTGAUGE_RECORD_LEVEL);
	end_ns = session_now(s);
	record = session_edge(s, entry_ns, flags);
	if (likely(record)) {
		record->end_ns = end_ns;
		session_keep(s);
	}
	source_external_watch(s, entry_ns, end_ns);
	return IRQ_HANDLED;
}

/* The handler that defers the answer. */
static irqreturn_t source_external_defers(int irq, void *data)
{
	struct session *s = data;
	u64 entry_ns = session_now(s), end_ns = entry_ns;
	struct source_external *e = s->device;
	struct rtgauge_record *record;
	u32 flags, *answered;

	if (unlikely(!shared_get(&e->armed))) {
		s->stray++;
		return IRQ_HANDLED;
	}
	answered = s->contexts & RTGAUGE_CONTEXT_USER ? &s->user_position : &s->thread_position;
	flags = e->late ? 0 : source_external_level(e);
	if (unlikely(s->head != shared_get(answered)))
		flags |= RTGAUGE_RECORD_WAITED;
	record = session_edge(s, entry_ns, flags);
	if (likely(record)) {
		end_ns = session_now(s);
		record->wake_ns = end_ns;
		session_keep(s);
	}
	source_external_watch(s, entry_ns, end_ns);
	return session_handled(s);
}

/* --- after the handler --- */

static void source_external_answer(struct session *s, struct rtgauge_record *record)
{
	struct source_external *e = s->device;

	if (e->late) {
		record->flags |= source_external_level(e);
		s->missed += !!(record->flags & RTGAUGE_RECORD_REPEATED);
	}
	if (unlikely(source_external_is_delayed(e))) {
		record->flags |= RTGAUGE_RECORD_DELAYED;
		if (e->flags & RTGAUGE_SETUP_DELAY_SLEEP)
			source_external_sleep(s);
		else
			source_external_spin(s);
	}
	source_external_drive(e, record->flags & RTGAUGE_RECORD_LEVEL);
	record->end_ns = session_now(s);
}

static void source_external_level_out(struct session *s, bool level)
{
	const struct source_external *e = s->device;

	gpiod_set_raw_value(e->lines.output, level != !!(e->flags & RTGAUGE_SETUP_ACTIVE_LOW));
}

/* --- taking the lines --- */

static int source_external_find(struct rtgauge_source *info)
{
	info->interval_min_ns = 0;
	info->interval_max_ns = 0;
	return 0;
}

static int source_external_request(struct session *s)
{
	struct source_external *e = s->device;
	bool low = e->flags & RTGAUGE_SETUP_ACTIVE_LOW;
	unsigned long trigger = 0;

	if (e->flags & RTGAUGE_SETUP_RISING)
		trigger |= low ? IRQF_TRIGGER_FALLING : IRQF_TRIGGER_RISING;
	if (e->flags & RTGAUGE_SETUP_FALLING)
		trigger |= low ? IRQF_TRIGGER_RISING : IRQF_TRIGGER_FALLING;
	return lines_request(&e->lines,
			     s->contexts == RTGAUGE_CONTEXT_IRQ ? source_external_answers :
								  source_external_defers,
			     trigger, s);
}

static int source_external_connect(struct session *s, const struct rtgauge_setup *setup)
{
	struct source_external *e = s->device;
	int err = lines_take(&e->lines, setup);

	if (err)
		return err;
	e->late = !lines_hard(&e->lines);
	if (e->late && s->contexts == RTGAUGE_CONTEXT_IRQ)
		return -EOPNOTSUPP;
	/* no edge is heard before start(), nor kept by the kernel for then */
	err = source_external_request(s);
	if (!err) {
		irq_set_status_flags(e->lines.irq, IRQ_DISABLE_UNLAZY);
		disable_irq(e->lines.irq);
	}
	return err;
}

static void source_external_close(struct session *s)
{
	struct source_external *e = s->device;

	lines_forget(&e->lines, s);
	lines_put(&e->lines);
	kfree(e);
	s->device = NULL;
}

static int source_external_open(struct session *s, struct rtgauge_setup *setup)
{
	struct source_external *e = kzalloc(sizeof(*e), GFP_KERNEL);
	int err;

	if (!e)
		return -ENOMEM;
	s->device = e;
	e->flags = setup->flags;
	e->both = (setup->flags & RTGAUGE_SETUP_RISING) && (setup->flags & RTGAUGE_SETUP_FALLING);
	e->flip = !(setup->flags & RTGAUGE_SETUP_ACTIVE_LOW) !=
		  !(setup->flags & RTGAUGE_SETUP_INVERT);
	e->edges_max = setup->storm_edges ? setup->storm_edges : RTGAUGE_STORM_EDGES;
	e->delay_ns = setup->delay_ns;
	e->delay_every = setup->delay_every;
	e->delay_left = setup->delay_every;
	err = source_external_connect(s, setup);
	if (err)
		source_external_close(s);
	return err;
}

/* --- running --- */

static int source_external_start(struct session *s)
{
	struct source_external *e = s->device;
	u32 level;

	enable_irq(e->lines.irq);
	usleep_range(SOURCE_EXTERNAL_SETTLE_US, 2 * SOURCE_EXTERNAL_SETTLE_US);
	level = source_external_read(e);
	e->level = level;
	if (!e->both)
		e->level = e->flags & RTGAUGE_SETUP_RISING ? RTGAUGE_RECORD_LEVEL : 0;
	e->high = e->flags & RTGAUGE_SETUP_TOGGLE ? e->flip : !!level != e->flip;
	gpiod_set_raw_value(e->lines.output, e->high);
	shared_set(&e->armed, true);
	return 0;
}

static void source_external_stop(struct session *s)
{
	struct source_external *e = s->device;

	lines_forget(&e->lines, s);
}

const struct source source_external = {
	.name = "external",
	.flags = RTGAUGE_SOURCE_LINES | RTGAUGE_SOURCE_OUTSIDE | RTGAUGE_SOURCE_THREADED,
	.find = source_external_find,
	.open = source_external_open,
	.close = source_external_close,
	.start = source_external_start,
	.stop = source_external_stop,
	.answer = source_external_answer,
	.drive = source_external_level_out,
};

#else

static int source_external_find(struct rtgauge_source *info)
{
	strscpy(info->reason, "the kernel was built without GPIO", sizeof(info->reason));
	return -ENODEV;
}

const struct source source_external = {
	.name = "external",
	.flags = RTGAUGE_SOURCE_LINES | RTGAUGE_SOURCE_OUTSIDE | RTGAUGE_SOURCE_THREADED,
	.find = source_external_find,
};

#endif
