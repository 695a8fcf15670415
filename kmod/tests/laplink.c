// SPDX-License-Identifier: GPL-2.0-only
/*
 * Parallel ports for the tests in a guest. Two are joined by a LapLink cable as far as the tests need
 * it: D3 of one is nAck of the other, D1 is Select. The rise of nAck raises an interrupt, whose
 * handler runs in interrupt context. Two more ports are joined in the same way, one of which has no
 * interrupt. The other says that its lines cannot be driven in a handler. A number that is written to
 * the parameter unplug removes that port.
 */
#include <linux/irq_work.h>
#include <linux/module.h>
#include <linux/parport.h>

#define LAPLINK_PORTS 4
#define LAPLINK_NO_IRQ 2
#define LAPLINK_NOT_IN_IRQ 3
#define LAPLINK_IRQ 7 /* its number alone: nothing is requested */
#define LAPLINK_LEVEL 0x02
#define LAPLINK_PULSE 0x08

struct laplink_end {
	struct parport *port;
	struct irq_work told;
	unsigned char data;
	unsigned char control;
	bool enabled;
	bool unplugged;
};

static struct laplink_end laplink[LAPLINK_PORTS];

static struct laplink_end *laplink_of(struct parport *port)
{
	return port->private_data;
}

static struct laplink_end *laplink_other(const struct laplink_end *end)
{
	return &laplink[(end - laplink) ^ 1];
}

static void laplink_tell(struct irq_work *work)
{
	struct laplink_end *end = container_of(work, struct laplink_end, told);

	if (READ_ONCE(end->enabled))
		parport_generic_irq(end->port);
}

static void laplink_write_data(struct parport *port, unsigned char data)
{
	struct laplink_end *end = laplink_of(port);
	bool rises = data & ~end->data & LAPLINK_PULSE;

	WRITE_ONCE(end->data, data);
	if (rises)
		irq_work_queue(&laplink_other(end)->told);
}

static unsigned char laplink_read_data(struct parport *port)
{
	return laplink_of(port)->data;
}

static unsigned char laplink_read_status(struct parport *port)
{
	unsigned char far = READ_ONCE(laplink_other(laplink_of(port))->data);

	return (far & LAPLINK_LEVEL ? PARPORT_STATUS_SELECT : 0) |
	       (far & LAPLINK_PULSE ? PARPORT_STATUS_ACK : 0);
}

static void laplink_write_control(struct parport *port, unsigned char control)
{
	laplink_of(port)->control = control;
}

static unsigned char laplink_read_control(struct parport *port)
{
	return laplink_of(port)->control;
}

static unsigned char laplink_frob_control(struct parport *port, unsigned char mask,
					  unsigned char bits)
{
	struct laplink_end *end = laplink_of(port);

	end->control = (end->control & ~mask) ^ bits;
	return end->control;
}

static void laplink_enable(struct parport *port)
{
	WRITE_ONCE(laplink_of(port)->enabled, true);
}

static void laplink_disable(struct parport *port)
{
	WRITE_ONCE(laplink_of(port)->enabled, false);
}

static void laplink_nothing(struct parport *port)
{
}

static void laplink_init_state(struct pardevice *device, struct parport_state *state)
{
}

static void laplink_keep_state(struct parport *port, struct parport_state *state)
{
}

static struct parport_operations laplink_operations = {
	.write_data = laplink_write_data,
	.read_data = laplink_read_data,
	.write_control = laplink_write_control,
	.read_control = laplink_read_control,
	.frob_control = laplink_frob_control,
	.read_status = laplink_read_status,
	.enable_irq = laplink_enable,
	.disable_irq = laplink_disable,
	.data_forward = laplink_nothing,
	.data_reverse = laplink_nothing,
	.init_state = laplink_init_state,
	.save_state = laplink_keep_state,
	.restore_state = laplink_keep_state,
	.owner = THIS_MODULE,
};

static void laplink_take_away(int ports)
{
	int i;

	for (i = 0; i < ports; i++)
		if (!laplink[i].unplugged)
			parport_remove_port(laplink[i].port);
	for (i = 0; i < LAPLINK_PORTS; i++)
		irq_work_sync(&laplink[i].told);
	for (i = 0; i < ports; i++)
		parport_put_port(laplink[i].port);
}

static int laplink_unplug(const char *value, const struct kernel_param *parameter)
{
	unsigned int number;

	if (kstrtouint(value, 0, &number) || number >= LAPLINK_PORTS || laplink[number].unplugged ||
	    !laplink[number].port)
		return -EINVAL;
	laplink[number].unplugged = true;
	parport_remove_port(laplink[number].port);
	return 0;
}

static const struct kernel_param_ops laplink_unplug_ops = { .set = laplink_unplug };

module_param_cb(unplug, &laplink_unplug_ops, NULL, 0200);

static int __init laplink_init(void)
{
	int i;

	for (i = 0; i < LAPLINK_PORTS; i++)
		init_irq_work(&laplink[i].told, laplink_tell);
	for (i = 0; i < LAPLINK_PORTS; i++) {
		int irq = i == LAPLINK_NO_IRQ ? PARPORT_IRQ_NONE : LAPLINK_IRQ;

		laplink[i].port =
			parport_register_port(0, irq, PARPORT_DMA_NONE, &laplink_operations);
		if (!laplink[i].port) {
			laplink_take_away(i);
			return -ENOMEM;
		}
		laplink[i].port->private_data = &laplink[i];
		laplink[i].port->modes = PARPORT_MODE_PCSPP;
		if (i != LAPLINK_NOT_IN_IRQ)
			laplink[i].port->modes |= PARPORT_MODE_SAFEININT;
		parport_announce_port(laplink[i].port);
	}
	return 0;
}

static void __exit laplink_exit(void)
{
	laplink_take_away(LAPLINK_PORTS);
}

module_init(laplink_init);
module_exit(laplink_exit);

MODULE_DESCRIPTION("Two parallel ports on one cable, for the tests of rtgauge");
MODULE_AUTHOR("rtgauge");
MODULE_LICENSE("GPL");
