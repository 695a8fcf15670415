// SPDX-License-Identifier: GPL-2.0-only
/*
 * Lines of a GPIO chip: found, taken, given back. For the sources gpio and external.
 */
#include <linux/errno.h>
#include <linux/string.h>

#include "compat.h"
#include "core.h"
#include "lines.h"
#include "source.h"

#if IS_ENABLED(CONFIG_GPIOLIB)

#include <linux/device.h>
#include <linux/device/driver.h>
#include <linux/gpio/machine.h>
#include <linux/slab.h>

/*
 * Drivers that read and drive a line with no lock, or a raw one, as their sources have it. Where
 * the kernel is not PREEMPT_RT, every chip that does not sleep is as good.
 */
static const char *const lines_hard_drivers[] = {
	"pl061_gpio",	    "pinctrl-bcm2835",	 "omap_gpio",
	"rtgauge_doorbell", "tegra-gpio",	 "tegra186-gpio",
	"gpio-at91",	    "pinctrl-at91-pio4", COMPAT_GPIO_HARD_DRIVERS,
};

/*
 * Drivers that read and drive a line out-of-band: with no lock, or with one of Dovetail's
 * (hard_spinlock_t), as its sources for Linux 6.6 have it. That the interrupts of a chip reach the
 * core says nothing about that: gpio-mxc drives its lines by gpio-mmio, under a lock of Linux.
 */
static const char *const lines_core_drivers[] = {
	"pl061_gpio", "pinctrl-bcm2835",  "omap_gpio",	   "davinci_gpio",
	"zynq-gpio",  "rtgauge_doorbell", "rtgauge_wired",
};

static struct gpiod_lookup_table *lines_table(const struct rtgauge_setup *setup)
{
	struct gpiod_lookup_table *table = kzalloc(struct_size(table, table, 3), GFP_KERNEL);

	if (!table)
		return NULL;
	table->dev_id = dev_name(source_device);
	table->table[0] = (struct gpiod_lookup){
		.key = setup->gpio_chip,
		.chip_hwnum = setup->gpio_output,
		.con_id = "output",
	};
	table->table[1] = (struct gpiod_lookup){
		.key = setup->gpio_chip,
		.chip_hwnum = setup->gpio_input,
		.con_id = "input",
	};
	if (setup->flags & RTGAUGE_SETUP_PULL_UP)
		table->table[1].flags = GPIO_PULL_UP;
	if (setup->flags & RTGAUGE_SETUP_PULL_DOWN)
		table->table[1].flags = GPIO_PULL_DOWN;
	if (setup->flags & RTGAUGE_SETUP_PULL_NONE)
		table->table[1].flags = COMPAT_GPIO_PULL_DISABLE;
	return table;
}

/* Both by the chip's label, the output as it is; 0 or -errno. */
static int lines_find(struct lines *lines, const struct rtgauge_setup *setup)
{
	unsigned int count = compat_gpio_lines(setup->gpio_chip);
	struct gpiod_lookup_table *table;
	int err = 0;

	/* the kernel would complain in its log */
	if (setup->gpio_output >= count || setup->gpio_input >= count)
		return -ENODEV;
	table = lines_table(setup);
	if (!table)
		return -ENOMEM;
	gpiod_add_lookup_table(table);
	lines->output = gpiod_get(source_device, "output", GPIOD_ASIS);
	lines->input = gpiod_get(source_device, "input", GPIOD_IN);
	gpiod_remove_lookup_table(table);
	kfree(table);
	if (IS_ERR(lines->output)) {
		err = PTR_ERR(lines->output);
		lines->output = NULL;
	}
	if (IS_ERR(lines->input)) {
		err = PTR_ERR(lines->input);
		lines->input = NULL;
	}
	/* how the versions put that a chip has just gone */
	return err == -EPROBE_DEFER || err == -ENOENT ? -ENODEV : err;
}

int lines_take(struct lines *lines, const struct rtgauge_setup *setup)
{
	int err = lines_find(lines, setup);

	if (err)
		return err;
	if (gpiod_cansleep(lines->output) || gpiod_cansleep(lines->input))
		return -EOPNOTSUPP;
	lines->was_output = !gpiod_get_direction(lines->output);
	lines->was_high = lines->was_output && gpiod_get_raw_value(lines->output) > 0;
	lines->driven = true;
	err = gpiod_direction_output_raw(lines->output, 0);
	if (!err && setup->debounce_us) {
		err = gpiod_set_debounce(lines->input, setup->debounce_us);
		lines->debounced = !err;
	}
	return err == -ENOTSUPP ? -EOPNOTSUPP : err;
}

static bool lines_driver_is_of(const struct lines *lines, const char *const *drivers, size_t count)
{
	const struct device *parent = gpiod_to_chip(lines->output)->parent;
	size_t i;

	if (!parent || !parent->driver)
		return false;
	for (i = 0; i < count; i++)
		if (!strcmp(parent->driver->name, drivers[i]))
			return true;
	return false;
}

bool lines_hard(const struct lines *lines)
{
	if (!IS_ENABLED(CONFIG_PREEMPT_RT) || compat_gpio_is_generic(gpiod_to_chip(lines->output)))
		return true;
	return lines_driver_is_of(lines, lines_hard_drivers, ARRAY_SIZE(lines_hard_drivers));
}

int lines_request(struct lines *lines, irq_handler_t handler, unsigned long trigger,
		  struct session *s)
{
	int irq = gpiod_to_irq(lines->input);
	int err;

	if (irq <= 0)
		return -EOPNOTSUPP;
	if (session_on_core(s)) {
		if (!compat_irq_is_oob(irq) ||
		    !lines_driver_is_of(lines, lines_core_drivers, ARRAY_SIZE(lines_core_drivers)))
			return -EOPNOTSUPP;
		trigger |= COMPAT_IRQF_OOB;
	}
	err = request_threaded_irq(irq, handler, session_irq_thread(s),
				   trigger | IRQF_NO_THREAD | IRQF_NOBALANCING, "rtgauge-gpio", s);
	if (err)
		return err == -EINVAL ? -EOPNOTSUPP : err;
	lines->irq = irq;
	s->irq = irq;
	/* some chips' lines share an interrupt that cannot be moved: the record says so */
	compat_irq_set_affinity(irq, cpumask_of(s->cpu));
	return 0;
}

void lines_forget(struct lines *lines, struct session *s)
{
	if (!lines->irq)
		return;
	compat_irq_forget_affinity(lines->irq);
	free_irq(lines->irq, s);
	lines->irq = 0;
}

void lines_put(struct lines *lines)
{
	if (lines->input) {
		if (lines->debounced)
			gpiod_set_debounce(lines->input, 0);
		gpiod_put(lines->input);
	}
	if (lines->output) {
		if (lines->was_output)
			gpiod_set_raw_value(lines->output, lines->was_high);
		else if (lines->driven)
			gpiod_direction_input(lines->output);
		gpiod_put(lines->output);
	}
	*lines = (struct lines){};
}

#endif
