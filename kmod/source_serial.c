// SPDX-License-Identifier: GPL-2.0-only
/*
 * Edges from outside on a modem-control line of a serial port, DCD, answered on another line, RTS
 * or DTR. User space sets the module's line discipline on the port (ioctl TIOCSETD), because
 * serial_core reports a change of DCD only to the line discipline: it calls dcd_change() in the
 * handler of the port's driver, with the port's lock held. On PREEMPT_RT that handler is a thread.
 */
#include <linux/errno.h>
#include <linux/string.h>

#include "compat.h"
#include "serial.h"
#include "source.h"

#if IS_ENABLED(CONFIG_SERIAL_CORE)

#include <linux/capability.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/serial_core.h>
#include <linux/slab.h>
#include <linux/tty.h>
#include <linux/tty_driver.h>
#include <linux/tty_ldisc.h>
#include <linux/wait.h>

#include "edges.h"

/* A port that has the line discipline: its disc_data. */
struct serial_port {
	struct list_head all;
	struct tty_struct *tty;
	struct uart_port *port;
	struct session *user; /* whose lines it has; with the lock of all sessions held */

	/* With the port's lock held: */
	struct session *hears; /* edges are its events, unless NULL */
	struct edges edges;
	unsigned int output; /* TIOCM_RTS or TIOCM_DTR */
	bool was_high;
};

static DEFINE_MUTEX(serial_lock);
static LIST_HEAD(serial_ports);
static DECLARE_WAIT_QUEUE_HEAD(serial_gone);

/* --- the lines --- */

/*
 * With the port's lock held, as set_mctrl() wants it. The port of a process that was killed is shut
 * down, and perhaps without power, before its line discipline is closed.
 */
static void serial_set(struct serial_port *p, bool high)
{
	struct uart_port *port = p->port;

	if (unlikely(!tty_port_initialized(&port->state->port)))
		return;
	port->mctrl = high ? port->mctrl | p->output : port->mctrl & ~p->output;
	port->ops->set_mctrl(port, port->mctrl);
}

static void serial_drive_locked(struct session *s, bool high)
{
	serial_set(s->device, high);
}

static void serial_drive(struct session *s, bool high)
{
	struct serial_port *p = s->device;
	unsigned long flags;

	compat_port_lock(p->port, &flags);
	serial_set(p, high);
	compat_port_unlock(p->port, flags);
}

/* --- at an edge --- */

/* In the handler: no more of it. The port's interrupt is its driver's, and stays. */
static void serial_deafen(struct session *s)
{
	struct serial_port *p = s->device;

	p->hears = NULL;
}

static __always_inline void serial_changed(struct tty_struct *tty, bool high)
{
	u64 entry_ns = ktime_get_ns();
	struct serial_port *p = tty->disc_data;
	struct session *s = p->hears;
	u32 level, flags;

	if (!s)
		return;
	level = edges_logical(&p->edges, high);
	if (!(p->edges.flags & (level ? RTGAUGE_SETUP_RISING : RTGAUGE_SETUP_FALLING)))
		return;
	flags = edges_level(&p->edges, level);
	if (s->contexts == RTGAUGE_CONTEXT_IRQ)
		edges_reply(s, &p->edges, entry_ns, flags, serial_drive_locked, serial_deafen);
	else
		edges_defer(s, &p->edges, entry_ns, flags, serial_deafen);
}

static void serial_dcd_bool(struct tty_struct *tty, bool active)
{
	serial_changed(tty, active);
}

static void serial_dcd_number(struct tty_struct *tty, unsigned int status)
{
	serial_changed(tty, status);
}

/* --- after the handler --- */

static void source_serial_answer(struct session *s, struct rtgauge_record *record)
{
	struct serial_port *p = s->device;

	edges_answer(s, &p->edges, record, serial_drive);
}

/* --- the line discipline --- */

/*
 * The port of a tty, NULL if it is not one of serial_core. The kernel does not export what would
 * tell, so the functions of the tty are recognised by their names, and then their structures by
 * what they point to.
 */
static struct uart_port *serial_port_of(const struct tty_struct *tty)
{
	const struct uart_driver *driver;
	const struct uart_state *state;
	char names[2][16];

	scnprintf(names[0], sizeof(names[0]), "%ps", tty->ops->open);
	scnprintf(names[1], sizeof(names[1]), "%ps", tty->ops->tiocmset);
	if (!strstarts(names[0], "uart_open") || !strstarts(names[1], "uart_tiocmset"))
		return NULL;
	driver = tty->driver->driver_state;
	state = tty->driver_data;
	if (!driver || driver->tty_driver != tty->driver || state != driver->state + tty->index)
		return NULL;
	return state->uart_port;
}

/* Called with the tty's lock held, and its lock of line disciplines. */
static int serial_open(struct tty_struct *tty)
{
	struct uart_port *port;
	struct serial_port *p;

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	port = serial_port_of(tty);
	if (!port)
		return -EOPNOTSUPP;
	if (tty_io_error(tty))
		return -EIO;
	/* another program that has it open would keep the line discipline when this one ends */
	if (tty->count > 1)
		return -EBUSY;
	p = kzalloc(sizeof(*p), GFP_KERNEL);
	if (!p)
		return -ENOMEM;
	p->tty = tty;
	p->port = port;
	tty->disc_data = p;
	tty->receive_room = 65536; /* bytes are taken and dropped */
	mutex_lock(&serial_lock);
	list_add_tail(&p->all, &serial_ports);
	mutex_unlock(&serial_lock);
	return 0;
}

/* The same; no change is under way. */
static void serial_close(struct tty_struct *tty)
{
	struct serial_port *p = tty->disc_data;

	mutex_lock(&serial_lock);
	list_del_init(&p->all);
	mutex_unlock(&serial_lock);
	sessions_lose(&source_serial, p);
	tty->disc_data = NULL;
	kfree(p);
	wake_up_all(&serial_gone);
}

static struct tty_ldisc_ops serial_discipline = {
	.owner = THIS_MODULE,
	.num = RTGAUGE_LINE_DISCIPLINE,
	.name = "rtgauge",
	.open = serial_open,
	.close = serial_close,
	.dcd_change = COMPAT_DCD_CHANGE(serial_dcd_bool, serial_dcd_number),
};

int serial_init(void)
{
	return compat_register_discipline(&serial_discipline);
}

/* Only a forced removal finds ports with the discipline. It waits until they are closed. */
void serial_exit(void)
{
	/* up to Linux 5.13 a discipline that a port has is not unregistered */
	wait_event(serial_gone, list_empty_careful(&serial_ports));
	compat_unregister_discipline(&serial_discipline);
}

/* --- taking the lines --- */

static int source_serial_find(struct rtgauge_source *info)
{
	info->interval_min_ns = 0;
	info->interval_max_ns = 0;
	return 0;
}

/* The port with this name, or NULL. The caller holds the lock of all sessions. */
static struct serial_port *source_serial_named(const char *name)
{
	struct serial_port *p, *found = NULL;

	mutex_lock(&serial_lock);
	list_for_each_entry(p, &serial_ports, all)
		if (!strcmp(p->tty->name, name))
			found = p;
	mutex_unlock(&serial_lock);
	return found;
}

/* Whether RTS and DTR are for programs to drive. */
static bool source_serial_drives(const struct uart_port *port)
{
	return !(port->rs485.flags & SER_RS485_ENABLED);
}

/*
 * The port stays as long as the lock of all sessions is held: serial_close() waits for it before
 * it frees the port.
 */
static int source_serial_open(struct session *s, struct rtgauge_setup *setup)
{
	struct serial_port *p = source_serial_named(setup->gpio_chip);
	unsigned long flags;

	if (setup->gpio_output != TIOCM_RTS && setup->gpio_output != TIOCM_DTR)
		return -EINVAL;
	if (!p)
		return -ENODEV;
	if (p->user)
		return -EBUSY;
	if (setup->gpio_input != TIOCM_CAR || setup->debounce_us || !source_serial_drives(p->port))
		return -EOPNOTSUPP;
	s->device = p;
	p->user = s;
	edges_init(&p->edges, setup);
	compat_port_lock(p->port, &flags);
	p->output = setup->gpio_output;
	p->was_high = p->port->mctrl & p->output;
	serial_set(p, false);
	compat_port_unlock(p->port, flags);
	return 0;
}

static void source_serial_close(struct session *s)
{
	struct serial_port *p = s->device;

	serial_drive(s, p->was_high);
	p->user = NULL;
	s->device = NULL;
}

/* --- running --- */

static int source_serial_start(struct session *s)
{
	struct serial_port *p = s->device;
	struct uart_port *port = p->port;
	unsigned long flags;
	u32 level;

	compat_port_lock(port, &flags);
	/* a port that is being closed may have no clock */
	if (!tty_port_initialized(&port->state->port)) {
		compat_port_unlock(port, flags);
		return -ENODEV;
	}
	/* a driver need not watch the lines of a port that is local (CLOCAL) */
	if (port->ops->enable_ms)
		port->ops->enable_ms(port);
	level = edges_logical(&p->edges, port->ops->get_mctrl(port) & TIOCM_CAR);
	serial_set(p, edges_begin(&p->edges, level));
	p->hears = s;
	compat_port_unlock(port, flags);
	return 0;
}

static void source_serial_stop(struct session *s)
{
	struct serial_port *p = s->device;
	unsigned long flags;

	compat_port_lock(p->port, &flags);
	p->hears = NULL;
	compat_port_unlock(p->port, flags);
}

const struct source source_serial = {
	.name = "serial",
	.flags = RTGAUGE_SOURCE_LINES | RTGAUGE_SOURCE_OUTSIDE,
	.find = source_serial_find,
	.open = source_serial_open,
	.close = source_serial_close,
	.start = source_serial_start,
	.stop = source_serial_stop,
	.answer = source_serial_answer,
};

#else

int serial_init(void)
{
	return 0;
}

void serial_exit(void)
{
}

static int source_serial_find(struct rtgauge_source *info)
{
	strscpy(info->reason, "the kernel was built without serial ports", sizeof(info->reason));
	return -ENODEV;
}

const struct source source_serial = {
	.name = "serial",
	.flags = RTGAUGE_SOURCE_LINES | RTGAUGE_SOURCE_OUTSIDE,
	.find = source_serial_find,
};

#endif
