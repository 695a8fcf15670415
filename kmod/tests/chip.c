// SPDX-License-Identifier: GPL-2.0-only
/*
 * GPIO chips that cannot be measured with, for the tests in a guest: "rtgauge-sleeps" needs a
 * context that can sleep, the lines of "rtgauge-mute" raise no interrupt. Their lines keep what is
 * written to them, and lead nowhere.
 */
#include <linux/bits.h>
#include <linux/gpio/driver.h>
#include <linux/module.h>

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

#define CHIP(called, sleeps)                                                                     \
	{                                                                                        \
		.label = called, .owner = THIS_MODULE, .base = -1, .ngpio = 8, .get = chip_get,  \
		.set = chip_set, .direction_input = chip_input, .direction_output = chip_output, \
		.can_sleep = sleeps,                                                             \
	}

static struct gpio_chip chips[] = {
	CHIP("rtgauge-sleeps", true),
	CHIP("rtgauge-mute", false),
};

static int __init chip_init(void)
{
	int err = gpiochip_add_data(&chips[0], NULL);

	if (err)
		return err;
	err = gpiochip_add_data(&chips[1], NULL);
	if (err)
		gpiochip_remove(&chips[0]);
	return err;
}

static void __exit chip_exit(void)
{
	gpiochip_remove(&chips[1]);
	gpiochip_remove(&chips[0]);
}

module_init(chip_init);
module_exit(chip_exit);

MODULE_DESCRIPTION("GPIO chips for the tests of rtgauge");
MODULE_AUTHOR("rtgauge");
MODULE_LICENSE("GPL");
