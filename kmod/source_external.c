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
#include <linux/slab.h>

#include "edges.h"

/* For what a chip has kept from before. */
#define SOURCE_EXTERNAL_SETTLE_US 100

struct source_external {
	struct lines lines;
	struct edges edges;
	bool late;    /* the level is read after the handler, for which the chip is not fit */
	u32 armed;    /* edges are events */
	bool drowned; /* by edges before that */
};

/* --- at an edge --- */

static u32 source_external_read(const struct source_external *x)
{
	return edges_logical(&x->edges, gpiod_get_raw_value(x->lines.input) > 0);
}

/* The level that the edge has brought, and whether it is new: flags of the record. */
static u32 source_external_level(struct source_external *x)
{
	return edges_level(&x->edges, x->edges.both ? source_external_read(x) : 0);
}

static void source_external_drive(struct session *s, bool high)
{
	const struct source_external *x = s->device;

	gpiod_set_raw_value(x->lines.output, high);
}

/* In the handler: no more of it. */
static void source_external_disarm(struct session *s)
{
	struct source_external *x = s->device;

	shared_set(&x->armed, false);
	if (session_on_core(s))
		s->core->deafen(s);
	else
		disable_irq_nosync(x->lines.irq);
}

/* An edge before those that count. Too many of them turn the input off, too. */
static irqreturn_t source_external_strays(struct session *s, struct source_external *x)
{
	if (++s->stray > x->edges.edges_max && !x->drowned) {
		WRITE_ONCE(x->drowned, true);
		source_external_disarm(s);
	}
	return IRQ_HANDLED;
}

/* The handler that answers. */
static irqreturn_t source_external_answers(int irq, void *data)
{
	struct session *s = data;
	u64 entry_ns = session_now(s);
	struct source_external *x = s->device;

	if (unlikely(!shared_get(&x->armed)))
		return source_external_strays(s, x);
	edges_reply(s, &x->edges, entry_ns, source_external_level(x), source_external_drive,
		    source_external_disarm);
	return IRQ_HANDLED;
}

/* The handler that defers the answer. */
static irqreturn_t source_external_defers(int irq, void *data)
{
	struct session *s = data;
	u64 entry_ns = session_now(s);
	struct source_external *x = s->device;

	if (unlikely(!shared_get(&x->armed)))
		return source_external_strays(s, x);
	edges_defer(s, &x->edges, entry_ns, x->late ? 0 : source_external_level(x),
		    source_external_disarm);
	return session_handled(s);
}

/* --- after the handler --- */

static void source_external_answer(struct session *s, struct rtgauge_record *record)
{
	struct source_external *x = s->device;

	if (x->late) {
		record->flags |= source_external_level(x);
		s->missed += !!(record->flags & RTGAUGE_RECORD_REPEATED);
	}
	edges_answer(s, &x->edges, record, source_external_drive);
}

static void source_external_level_out(struct session *s, bool level)
{
	const struct source_external *x = s->device;

	gpiod_set_raw_value(x->lines.output,
			    level != !!(x->edges.flags & RTGAUGE_SETUP_ACTIVE_LOW));
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
	struct source_external *x = s->device;
	bool low = x->edges.flags & RTGAUGE_SETUP_ACTIVE_LOW;
	unsigned long trigger = 0;

	if (x->edges.flags & RTGAUGE_SETUP_RISING)
		trigger |= low ? IRQF_TRIGGER_FALLING : IRQF_TRIGGER_RISING;
	if (x->edges.flags & RTGAUGE_SETUP_FALLING)
		trigger |= low ? IRQF_TRIGGER_RISING : IRQF_TRIGGER_FALLING;
	return lines_request(&x->lines,
			     s->contexts == RTGAUGE_CONTEXT_IRQ ? source_external_answers :
								  source_external_defers,
			     trigger, s);
}

static int source_external_connect(struct session *s, const struct rtgauge_setup *setup)
{
	struct source_external *x = s->device;
	int err = lines_take(&x->lines, setup);

	if (err)
		return err;
	x->late = !lines_hard(&x->lines);
	if (x->late && s->contexts == RTGAUGE_CONTEXT_IRQ)
		return -EOPNOTSUPP;
	/* no edge is heard before start(), nor kept by the kernel for then */
	err = source_external_request(s);
	if (!err) {
		irq_set_status_flags(x->lines.irq, IRQ_DISABLE_UNLAZY);
		disable_irq(x->lines.irq);
	}
	return err;
}

static void source_external_close(struct session *s)
{
	struct source_external *x = s->device;

	lines_forget(&x->lines, s);
	lines_put(&x->lines);
	kfree(x);
	s->device = NULL;
}

static int source_external_open(struct session *s, struct rtgauge_setup *setup)
{
	struct source_external *x = kzalloc(sizeof(*x), GFP_KERNEL);
	int err;

	if (!x)
		return -ENOMEM;
	s->device = x;
	edges_init(&x->edges, setup);
	err = source_external_connect(s, setup);
	if (err)
		source_external_close(s);
	return err;
}

/* --- running --- */

static int source_external_start(struct session *s)
{
	struct source_external *x = s->device;

	enable_irq(x->lines.irq);
	usleep_range(SOURCE_EXTERNAL_SETTLE_US, 2 * SOURCE_EXTERNAL_SETTLE_US);
	if (READ_ONCE(x->drowned)) {
		session_broken(s, RTGAUGE_FAILURE_STORM);
		return 0;
	}
	source_external_drive(s, edges_begin(&x->edges, source_external_read(x)));
	shared_set(&x->armed, true);
	return 0;
}

static void source_external_stop(struct session *s)
{
	struct source_external *x = s->device;

	lines_forget(&x->lines, s);
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
