// SPDX-License-Identifier: GPL-2.0-only
/*
 * Two lines of one GPIO chip, wired together: the output is raised at the due time, the input
 * interrupts. It is raised with a call that may take the chip's own locks: on PREEMPT_RT those of
 * some chips sleep, and only the thread of the raiser may wait for them.
 */
#include <linux/errno.h>
#include <linux/string.h>

#include "compat.h"
#include "lines.h"
#include "source.h"

#if IS_ENABLED(CONFIG_GPIOLIB)

#include <linux/delay.h>
#include <linux/slab.h>

#include "raiser.h"

#define SOURCE_GPIO_SETTLE_US 100

struct source_gpio {
	struct lines lines;
	struct raiser raiser;
};

/* --- in the handler --- */

static irqreturn_t source_gpio_event(int irq, void *data)
{
	u64 entry_ns = ktime_get_ns();
	struct session *s = data;
	struct source_gpio *gpio = s->device;

	if (unlikely(!raiser_is_due(&gpio->raiser))) {
		s->stray++;
		return IRQ_HANDLED;
	}
	session_record(s, gpio->raiser.raised_ns, entry_ns);
	session_complete(s);
	raiser_heard(&gpio->raiser);
	return session_handled(s);
}

static void source_gpio_drive(struct raiser *r, bool up)
{
	struct source_gpio *gpio = container_of(r, struct source_gpio, raiser);

	if (up)
		raiser_raises(r);
	gpiod_set_raw_value(gpio->lines.output, up);
}

/* --- taking the lines --- */

static int source_gpio_find(struct rtgauge_source *info)
{
	info->interval_min_ns = RAISER_INTERVAL_MIN_NS;
	return 0;
}

/* Whether the input follows the output. */
static bool source_gpio_wired(const struct source_gpio *gpio)
{
	int low, high;

	usleep_range(SOURCE_GPIO_SETTLE_US, 2 * SOURCE_GPIO_SETTLE_US);
	low = gpiod_get_raw_value(gpio->lines.input);
	gpiod_set_raw_value(gpio->lines.output, 1);
	usleep_range(SOURCE_GPIO_SETTLE_US, 2 * SOURCE_GPIO_SETTLE_US);
	high = gpiod_get_raw_value(gpio->lines.input);
	gpiod_set_raw_value(gpio->lines.output, 0);
	usleep_range(SOURCE_GPIO_SETTLE_US, 2 * SOURCE_GPIO_SETTLE_US);
	return !low && high > 0;
}

static int source_gpio_connect(struct source_gpio *gpio, struct session *s)
{
	if (gpio->raiser.by_timer && !lines_hard(&gpio->lines))
		return -EOPNOTSUPP;
	if (!source_gpio_wired(gpio))
		return -ENODEV;
	return lines_request(&gpio->lines, source_gpio_event, IRQF_TRIGGER_RISING, s);
}

static void source_gpio_close(struct session *s)
{
	struct source_gpio *gpio = s->device;

	raiser_stop(&gpio->raiser);
	lines_forget(&gpio->lines, s);
	lines_put(&gpio->lines);
	kfree(gpio);
	s->device = NULL;
}

static int source_gpio_open(struct session *s, struct rtgauge_setup *setup)
{
	struct source_gpio *gpio = kzalloc(sizeof(*gpio), GFP_KERNEL);
	int err;

	if (!gpio)
		return -ENOMEM;
	s->device = gpio;
	raiser_init(&gpio->raiser, s, setup, source_gpio_drive);
	err = lines_take(&gpio->lines, setup);
	if (!err)
		err = source_gpio_connect(gpio, s);
	if (!err)
		err = raiser_make(&gpio->raiser);
	if (err)
		source_gpio_close(s);
	return err;
}

/* --- running --- */

static int source_gpio_start(struct session *s)
{
	struct source_gpio *gpio = s->device;

	return raiser_start(&gpio->raiser);
}

static void source_gpio_stop(struct session *s)
{
	struct source_gpio *gpio = s->device;

	raiser_stop(&gpio->raiser);
	/* waits for a handler, and lets none begin for an interrupt that is on its way */
	disable_irq(gpio->lines.irq);
	gpiod_set_raw_value(gpio->lines.output, 0);
}

const struct source source_gpio = {
	.name = "gpio",
	.flags = RTGAUGE_SOURCE_RAISE_STAMP | RTGAUGE_SOURCE_LINES | RTGAUGE_SOURCE_THREADED,
	.find = source_gpio_find,
	.open = source_gpio_open,
	.close = source_gpio_close,
	.start = source_gpio_start,
	.stop = source_gpio_stop,
};

#else

static int source_gpio_find(struct rtgauge_source *info)
{
	strscpy(info->reason, "the kernel was built without GPIO", sizeof(info->reason));
	return -ENODEV;
}

const struct source source_gpio = {
	.name = "gpio",
	.flags = RTGAUGE_SOURCE_RAISE_STAMP | RTGAUGE_SOURCE_LINES | RTGAUGE_SOURCE_THREADED,
	.find = source_gpio_find,
};

#endif
