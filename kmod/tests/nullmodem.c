// SPDX-License-Identifier: GPL-2.0-only
/*
 * Two serial ports, /dev/ttyNM0 and /dev/ttyNM1, joined by a null-modem cable that carries the
 * modem-control lines alone, for the tests in a guest: RTS of one is CTS of the other, DTR is DSR and
 * DCD. A change reaches the other port from an interrupt's context, as with a UART's driver.
 */
#include <linux/irq_work.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/serial_core.h>
#include <linux/tty.h>
#include <linux/version.h>

#define CABLE_PORTS 2

struct cable_end {
	struct uart_port port;
	struct irq_work told;
	unsigned int driven; /* RTS and DTR of this end */
	unsigned int seen;   /* CTS, DSR and DCD, as last reported */
};

static struct cable_end cable[CABLE_PORTS];
static struct platform_device *cable_device; /* from 6.5 on a port has to belong to one */

static struct cable_end *cable_of(struct uart_port *port)
{
	return container_of(port, struct cable_end, port);
}

static struct cable_end *cable_other(const struct cable_end *end)
{
	return &cable[end == &cable[0]];
}

static unsigned int cable_lines(const struct cable_end *end)
{
	unsigned int far = READ_ONCE(cable_other(end)->driven);

	return (far & TIOCM_RTS ? TIOCM_CTS : 0) | (far & TIOCM_DTR ? TIOCM_DSR | TIOCM_CAR : 0);
}

static void cable_tell(struct irq_work *work)
{
	struct cable_end *end = container_of(work, struct cable_end, told);
	struct uart_port *port = &end->port;
	unsigned int now, changed;
	unsigned long flags;

	spin_lock_irqsave(&port->lock, flags);
	now = cable_lines(end);
	changed = now ^ end->seen;
	end->seen = now;
	port->icount.dsr += !!(changed & TIOCM_DSR);
	if (port->state && changed & TIOCM_CAR)
		uart_handle_dcd_change(port, !!(now & TIOCM_CAR));
	if (port->state && changed & TIOCM_CTS)
		uart_handle_cts_change(port, !!(now & TIOCM_CTS));
	if (port->state && changed)
		wake_up_interruptible(&port->state->port.delta_msr_wait);
	spin_unlock_irqrestore(&port->lock, flags);
}

static void cable_set_lines(struct uart_port *port, unsigned int lines)
{
	struct cable_end *end = cable_of(port);

	WRITE_ONCE(end->driven, lines & (TIOCM_RTS | TIOCM_DTR));
	irq_work_queue(&cable_other(end)->told);
}

static unsigned int cable_get_lines(struct uart_port *port)
{
	return cable_lines(cable_of(port));
}

static unsigned int cable_empty(struct uart_port *port)
{
	return TIOCSER_TEMT;
}

static void cable_nothing(struct uart_port *port)
{
}

static void cable_break(struct uart_port *port, int on)
{
}

static int cable_startup(struct uart_port *port)
{
	return 0;
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 1, 0)
static void cable_speed(struct uart_port *port, struct ktermios *new, const struct ktermios *old)
#else
static void cable_speed(struct uart_port *port, struct ktermios *new, struct ktermios *old)
#endif
{
	uart_update_timeout(port, new->c_cflag, 115200);
}

static const char *cable_type(struct uart_port *port)
{
	return "rtgauge-cable";
}

static void cable_configure(struct uart_port *port, int flags)
{
	port->type = PORT_16550A;
}

static int cable_verify(struct uart_port *port, struct serial_struct *given)
{
	return -EINVAL;
}

static int cable_request(struct uart_port *port)
{
	return 0;
}

static const struct uart_ops cable_ops = {
	.tx_empty = cable_empty,
	.set_mctrl = cable_set_lines,
	.get_mctrl = cable_get_lines,
	.stop_tx = cable_nothing,
	.start_tx = cable_nothing,
	.stop_rx = cable_nothing,
	.break_ctl = cable_break,
	.startup = cable_startup,
	.shutdown = cable_nothing,
	.set_termios = cable_speed,
	.type = cable_type,
	.release_port = cable_nothing,
	.request_port = cable_request,
	.config_port = cable_configure,
	.verify_port = cable_verify,
};

static struct uart_driver cable_driver = {
	.owner = THIS_MODULE,
	.driver_name = "rtgauge_cable",
	.dev_name = "ttyNM",
	.nr = CABLE_PORTS,
};

static void cable_take_away(int ports)
{
	int i;

	for (i = 0; i < ports; i++)
		uart_remove_one_port(&cable_driver, &cable[i].port);
	for (i = 0; i < CABLE_PORTS; i++)
		irq_work_sync(&cable[i].told);
	uart_unregister_driver(&cable_driver);
	platform_device_unregister(cable_device);
}

static int __init cable_init(void)
{
	int err, i;

	cable_device = platform_device_register_simple("rtgauge-cable", -1, NULL, 0);
	if (IS_ERR(cable_device))
		return PTR_ERR(cable_device);
	err = uart_register_driver(&cable_driver);
	if (err) {
		platform_device_unregister(cable_device);
		return err;
	}
	/* both: a port that is added tells the other end at once */
	for (i = 0; i < CABLE_PORTS; i++) {
		init_irq_work(&cable[i].told, cable_tell);
		spin_lock_init(&cable[i].port.lock);
	}
	for (i = 0; i < CABLE_PORTS; i++) {
		struct cable_end *end = &cable[i];

		end->port.ops = &cable_ops;
		end->port.line = i;
		end->port.dev = &cable_device->dev;
		end->port.type = PORT_16550A;
		end->port.iotype = UPIO_MEM;
		end->port.mapbase = 1; /* what has no address is taken for no port */
		end->port.membase = (void __iomem *)end;
		end->port.fifosize = 16;
		end->port.uartclk = 1843200;
		end->port.flags = UPF_FIXED_TYPE | UPF_FIXED_PORT;
		err = uart_add_one_port(&cable_driver, &end->port);
		if (err) {
			cable_take_away(i);
			return err;
		}
	}
	return 0;
}

static void __exit cable_exit(void)
{
	cable_take_away(CABLE_PORTS);
}

module_init(cable_init);
module_exit(cable_exit);

MODULE_DESCRIPTION("Two serial ports on one cable, for the tests of rtgauge");
MODULE_AUTHOR("rtgauge");
MODULE_LICENSE("GPL");
