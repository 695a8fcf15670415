// SPDX-License-Identifier: GPL-2.0-only
/*
 * Edges from outside on a parallel port, answered on its data lines: a LapLink cable joins two
 * ports. Only nAck raises an interrupt, when it rises, so each edge is a pulse there, on D3 of the
 * other port, and Select has the level, on D1. The answer is the same in the other direction.
 * parport calls the module in the handler of the port's driver, with the lock of the port's owner
 * held for reading. On PREEMPT_RT that handler is a thread.
 */
#include <linux/errno.h>
#include <linux/string.h>

#include "source.h"

#if IS_ENABLED(CONFIG_PARPORT)

#include <linux/export.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/parport.h>
#include <linux/slab.h>

#include "edges.h"
#include "parallel.h"

#define PARALLEL_LEVEL 0x02 /* D1 */
#define PARALLEL_PULSE 0x08 /* D3 */

/* A port that parport knows. */
struct parallel_port {
	struct list_head all;
	struct parport *port;
	const struct parallel_functions *functions;
	struct pardevice *device; /* of the session that has it; with the lock of all sessions */
	unsigned char found;	  /* on the data lines */

	/* With the lock of the port's owner held: */
	struct session *hears; /* pulses are its events, unless NULL */
	struct edges edges;
};

static DEFINE_MUTEX(parallel_lock);
static LIST_HEAD(parallel_ports);

/* --- the lines --- */

/* The other port's interrupt comes with the rise. */
static void parallel_drive(struct session *s, bool high)
{
	const struct parallel_port *p = s->device;
	unsigned char data = high ? PARALLEL_LEVEL : 0;

	p->port->ops->write_data(p->port, data | PARALLEL_PULSE);
	p->port->ops->write_data(p->port, data);
}

static u32 parallel_level(const struct parallel_port *p)
{
	return edges_logical(&p->edges, p->port->ops->read_status(p->port) & PARPORT_STATUS_SELECT);
}

/* --- at a pulse --- */

/* In the handler: no more of it. */
static void parallel_deafen(struct session *s)
{
	struct parallel_port *p = s->device;

	p->hears = NULL;
	p->port->ops->disable_irq(p->port);
}

static void parallel_pulse(void *data)
{
	u64 entry_ns = ktime_get_ns();
	struct parallel_port *p = data;
	struct session *s = p->hears;
	u32 level, flags;

	if (!s)
		return;
	level = parallel_level(p);
	if (!(p->edges.flags & (level ? RTGAUGE_SETUP_RISING : RTGAUGE_SETUP_FALLING)))
		return;
	flags = edges_level(&p->edges, level);
	if (s->contexts == RTGAUGE_CONTEXT_IRQ)
		edges_reply(s, &p->edges, entry_ns, flags, parallel_drive, parallel_deafen);
	else
		edges_defer(s, &p->edges, entry_ns, flags, parallel_deafen);
}

/* --- after the handler --- */

static void source_parallel_answer(struct session *s, struct rtgauge_record *record)
{
	struct parallel_port *p = s->device;

	edges_answer(s, &p->edges, record, parallel_drive);
}

/* --- ports come and go --- */

int rtgauge_parallel_add(struct parport *port, const struct parallel_functions *functions)
{
	struct parallel_port *p = kzalloc(sizeof(*p), GFP_KERNEL);

	if (!p)
		return -ENOMEM;
	p->port = port;
	p->functions = functions;
	mutex_lock(&parallel_lock);
	list_add_tail(&p->all, &parallel_ports);
	mutex_unlock(&parallel_lock);
	return 0;
}
EXPORT_SYMBOL_GPL(rtgauge_parallel_add);

void rtgauge_parallel_remove(struct parport *port)
{
	struct parallel_port *p, *found = NULL;

	mutex_lock(&parallel_lock);
	list_for_each_entry(p, &parallel_ports, all)
		if (p->port == port)
			found = p;
	if (found)
		list_del_init(&found->all);
	mutex_unlock(&parallel_lock);
	if (!found)
		return;
	sessions_lose(&source_parallel, found);
	kfree(found);
}
EXPORT_SYMBOL_GPL(rtgauge_parallel_remove);

/* --- taking the lines --- */

static int source_parallel_find(struct rtgauge_source *info)
{
	info->interval_min_ns = 0;
	info->interval_max_ns = 0;
	return 0;
}

/*
 * The port with this name, or NULL. It stays as long as the caller holds the lock of all sessions,
 * for which rtgauge_parallel_remove() waits before it frees the port.
 */
static struct parallel_port *source_parallel_named(const char *name)
{
	struct parallel_port *p, *found = NULL;

	mutex_lock(&parallel_lock);
	list_for_each_entry(p, &parallel_ports, all)
		if (!strcmp(p->port->name, name))
			found = p;
	mutex_unlock(&parallel_lock);
	return found;
}

/* For this session alone: no other driver has the port, or gets it. */
static int source_parallel_claim(struct parallel_port *p)
{
	const struct pardev_cb wanted = {
		.irq_func = parallel_pulse,
		.private = p,
		.flags = PARPORT_DEV_EXCL,
	};

	if (!try_module_get(p->functions->owner))
		return -ENODEV;
	p->device = p->functions->register_device(p->port, "rtgauge", &wanted, p->port->number);
	if (p->device && !p->functions->claim(p->device))
		return 0;
	if (p->device)
		p->functions->unregister_device(p->device);
	p->device = NULL;
	module_put(p->functions->owner);
	return -EBUSY;
}

static int source_parallel_open(struct session *s, struct rtgauge_setup *setup)
{
	struct parallel_port *p = source_parallel_named(setup->gpio_chip);
	int err;

	if (!p)
		return -ENODEV;
	if (setup->gpio_output != RTGAUGE_PARALLEL_OUTPUT ||
	    setup->gpio_input != RTGAUGE_PARALLEL_INPUT || setup->debounce_us ||
	    p->port->irq == PARPORT_IRQ_NONE || !(p->port->modes & PARPORT_MODE_SAFEININT))
		return -EOPNOTSUPP;
	if (p->device)
		return -EBUSY;
	err = source_parallel_claim(p);
	if (err)
		return err;
	s->device = p;
	edges_init(&p->edges, setup);
	p->found = p->port->ops->read_data(p->port);
	return 0;
}

static void source_parallel_close(struct session *s)
{
	struct parallel_port *p = s->device;

	p->port->ops->write_data(p->port, p->found);
	p->functions->release(p->device);
	p->functions->unregister_device(p->device);
	p->device = NULL;
	module_put(p->functions->owner);
	s->device = NULL;
}

/* --- running --- */

static int source_parallel_start(struct session *s)
{
	struct parallel_port *p = s->device;
	struct parport *port = p->port;
	unsigned long flags;

	write_lock_irqsave(&port->physport->cad_lock, flags);
	/* without a pulse: the other port has no event */
	port->ops->write_data(port, edges_begin(&p->edges, parallel_level(p)) ? PARALLEL_LEVEL : 0);
	p->hears = s;
	port->ops->enable_irq(port);
	write_unlock_irqrestore(&port->physport->cad_lock, flags);
	return 0;
}

static void source_parallel_stop(struct session *s)
{
	struct parallel_port *p = s->device;
	struct parport *port = p->port;
	unsigned long flags;

	write_lock_irqsave(&port->physport->cad_lock, flags);
	p->hears = NULL;
	port->ops->disable_irq(port);
	write_unlock_irqrestore(&port->physport->cad_lock, flags);
}

const struct source source_parallel = {
	.name = "parallel",
	.flags = RTGAUGE_SOURCE_LINES | RTGAUGE_SOURCE_OUTSIDE,
	.find = source_parallel_find,
	.open = source_parallel_open,
	.close = source_parallel_close,
	.start = source_parallel_start,
	.stop = source_parallel_stop,
	.answer = source_parallel_answer,
};

#else

static int source_parallel_find(struct rtgauge_source *info)
{
	strscpy(info->reason, "the kernel was built without parallel ports", sizeof(info->reason));
	return -ENODEV;
}

const struct source source_parallel = {
	.name = "parallel",
	.flags = RTGAUGE_SOURCE_LINES | RTGAUGE_SOURCE_OUTSIDE,
	.find = source_parallel_find,
};

#endif
