// SPDX-License-Identifier: GPL-2.0-only
/*
 * GPIO chips for the tests in a guest. Those that cannot be measured with: "rtgauge-sleeps" needs a
 * context that can sleep, the lines of "rtgauge-mute" raise no interrupt. And two whose lines can
 * raise one, although they never do: "rtgauge-generic" has the functions of gpio-mmio, so that its
 * lines can be driven in a handler on PREEMPT_RT, and "rtgauge-own" unknown functions of its own.
 * The lines keep what is written to them, and are not wired.
 */
#include <linux/bits.h>
#include <linux/gpio/driver.h>
#include <linux/irq.h>
#include <linux/module.h>
#include <linux/platform_device.h>

static unsigned long chip_levels;

static int chip_get(struct gpio_chip *chip, unsigned int line)
{
	return !!(chip_levels & BIT(line));
}

static void chip_set(struct gpio_chip *chip, unsigned int line, int high)
{
	if (high)
		chip_levels |= BIT(line);
	else
		chip_levels &= ~BIT(line);
}

static int chip_input(struct gpio_chip *chip, unsigned int line)
{
	return 0;
}

static int chip_output(struct gpio_chip *chip, unsigned int line, int high)
{
	chip_set(chip, line, high);
	return 0;
}

static int chip_irq;
static u32 chip_register;
static struct platform_device *chip_device;
static struct gpio_chip chip_generic;

static int chip_to_irq(struct gpio_chip *chip, unsigned int line)
{
	return chip_irq;
}

#define CHIP(called, sleeps, irq)                                                                \
	{                                                                                        \
		.label = called, .owner = THIS_MODULE, .base = -1, .ngpio = 8, .get = chip_get,  \
		.set = chip_set, .direction_input = chip_input, .direction_output = chip_output, \
		.can_sleep = sleeps, .to_irq = irq,                                              \
	}

static struct gpio_chip chips[] = {
	CHIP("rtgauge-sleeps", true, NULL),
	CHIP("rtgauge-mute", false, NULL),
	CHIP("rtgauge-own", false, chip_to_irq),
};

static int __init chip_init_generic(void)
{
	int err = bgpio_init(&chip_generic, &chip_device->dev, 4,
			     (void __iomem __force *)&chip_register, NULL, NULL, NULL, NULL, 0);

	if (err)
		return err;
	chip_generic.label = "rtgauge-generic";
	chip_generic.owner = THIS_MODULE;
	chip_generic.base = -1;
	chip_generic.ngpio = 8;
	chip_generic.to_irq = chip_to_irq;
	return gpiochip_add_data(&chip_generic, NULL);
}

static int __init chip_init(void)
{
	unsigned int added = 0;
	int err;

	chip_irq = irq_alloc_desc(NUMA_NO_NODE);
	if (chip_irq < 0)
		return chip_irq;
	irq_set_chip_and_handler(chip_irq, &dummy_irq_chip, handle_simple_irq);
	irq_clear_status_flags(chip_irq, IRQ_NOREQUEST);
	chip_device = platform_device_register_simple("rtgauge-chip", -1, NULL, 0);
	err = PTR_ERR_OR_ZERO(chip_device);
	if (err)
		goto out_free_irq;
	for (added = 0; !err && added < ARRAY_SIZE(chips); added++)
		err = gpiochip_add_data(&chips[added], NULL);
	if (!err)
		err = chip_init_generic();
	else
		added--;
	if (!err)
		return 0;
	while (added--)
		gpiochip_remove(&chips[added]);
	platform_device_unregister(chip_device);
out_free_irq:
	irq_free_desc(chip_irq);
	return err;
}

static void __exit chip_exit(void)
{
	unsigned int i;

	gpiochip_remove(&chip_generic);
	for (i = 0; i < ARRAY_SIZE(chips); i++)
		gpiochip_remove(&chips[i]);
	platform_device_unregister(chip_device);
	irq_free_desc(chip_irq);
}

module_init(chip_init);
module_exit(chip_exit);

MODULE_DESCRIPTION("GPIO chips for the tests of rtgauge");
MODULE_AUTHOR("rtgauge");
MODULE_LICENSE("GPL");
