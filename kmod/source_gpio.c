// SPDX-License-Identifier: GPL-2.0-only
/*
 * Two lines of one GPIO chip, wired together: a thread raises the output at the due time, the input
 * interrupts. The thread runs on another CPU, where there is one, and raises with a call that may
 * take the chip's own locks: on PREEMPT_RT those of some chips sleep.
 *
 * For irq-dispatch on the only CPU that thread would not do: the thread that is to be interrupted
 * polls there, above or below it, and is never interrupted, or gets the CPU back by a switch. A
 * timer raises the line then, in its hard interrupt; the line's own follows when that has ended.
 */
#include <linux/errno.h>
#include <linux/string.h>

#include "compat.h"
#include "lines.h"
#include "source.h"

#if IS_ENABLED(CONFIG_GPIOLIB)

#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/smp.h>

#define SOURCE_GPIO_SETTLE_US 100
/* A raised line that nobody heard of. */
#define SOURCE_GPIO_SILENCE_MS 1000
#define SOURCE_GPIO_INTERVAL_MIN_NS 100000

struct source_gpio {
	struct lines lines;
	struct task_struct *raiser;
	struct session *session;
	struct hrtimer timer; /* in the thread's place */
	bool by_timer, high;
	u64 silent_ns; /* when a line that was raised has not been heard of for too long */
	unsigned int raise_cpu;
	u64 raised_ns;	     /* stamp just before the line goes up */
	u32 raised, handled; /* how often */
};

/* --- in the handler --- */

static irqreturn_t source_gpio_event(int irq, void *data)
{
	u64 entry_ns = ktime_get_ns();
	struct session *s = data;
	struct source_gpio *gpio = s->device;

	if (unlikely(shared_get(&gpio->raised) == gpio->handled)) {
		s->stray++;
		return IRQ_HANDLED;
	}
	session_record(s, gpio->raised_ns, entry_ns);
	session_complete(s);
	/* the raiser reads the next due time after this */
	shared_set(&gpio->handled, gpio->handled + 1);
	return session_handled(s);
}

/* --- raising it --- */

static void source_gpio_sleep(u64 due_ns)
{
	ktime_t due = ns_to_ktime(due_ns);

	set_current_state(TASK_IDLE);
	if (!kthread_should_stop())
		schedule_hrtimeout(&due, HRTIMER_MODE_ABS);
	__set_current_state(TASK_RUNNING);
}

/* Until the handler has run for what was raised. */
static bool source_gpio_heard(const struct source_gpio *gpio)
{
	u64 limit_ns = ktime_get_ns() + SOURCE_GPIO_SILENCE_MS * NSEC_PER_MSEC;

	while (shared_get(&gpio->handled) != gpio->raised) {
		if (kthread_should_stop() || ktime_get_ns() > limit_ns)
			return false;
		usleep_range(50, 100);
	}
	return true;
}

static int source_gpio_raiser(void *data)
{
	struct session *s = data;
	struct source_gpio *gpio = s->device;

	while (!kthread_should_stop()) {
		u64 due_ns;

		set_current_state(TASK_IDLE);
		due_ns = READ_ONCE(s->due_ns);
		if (!due_ns && !kthread_should_stop())
			schedule();
		__set_current_state(TASK_RUNNING);
		if (!due_ns)
			continue;
		source_gpio_sleep(due_ns);
		if (kthread_should_stop())
			break;
		gpio->raised_ns = ktime_get_ns();
		shared_set(&gpio->raised, gpio->raised + 1);
		gpiod_set_raw_value(gpio->lines.output, 1);
		source_gpio_sleep(due_ns + s->interval_ns / 2);
		gpiod_set_raw_value(gpio->lines.output, 0);
		if (!source_gpio_heard(gpio)) {
			if (!kthread_should_stop()) {
				s->due_ns = 0;
				session_broken(s, RTGAUGE_FAILURE_SOURCE);
			}
		}
	}
	return 0;
}

/* The same in the timer's interrupt: up at the due time, down half an interval later. */
static enum hrtimer_restart source_gpio_timer(struct hrtimer *timer)
{
	struct source_gpio *gpio = container_of(timer, struct source_gpio, timer);
	struct session *s = gpio->session;
	u64 now_ns = ktime_get_ns();

	if (!gpio->high) {
		gpio->high = true;
		gpio->silent_ns = now_ns + SOURCE_GPIO_SILENCE_MS * NSEC_PER_MSEC;
		gpio->raised_ns = now_ns;
		shared_set(&gpio->raised, gpio->raised + 1);
		gpiod_set_raw_value(gpio->lines.output, 1);
		hrtimer_add_expires_ns(timer, s->interval_ns / 2);
		return HRTIMER_RESTART;
	}
	gpiod_set_raw_value(gpio->lines.output, 0);
	if (shared_get(&gpio->handled) == gpio->raised) {
		gpio->high = false;
		hrtimer_set_expires(timer, ns_to_ktime(s->due_ns));
		return s->due_ns ? HRTIMER_RESTART : HRTIMER_NORESTART;
	}
	if (now_ns > gpio->silent_ns) {
		s->due_ns = 0;
		session_broken(s, RTGAUGE_FAILURE_SOURCE);
		return HRTIMER_NORESTART;
	}
	hrtimer_add_expires_ns(timer, s->interval_ns / 2);
	return HRTIMER_RESTART;
}

/* --- taking the lines --- */

static int source_gpio_find(struct rtgauge_source *info)
{
	info->interval_min_ns = SOURCE_GPIO_INTERVAL_MIN_NS;
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
	if (gpio->by_timer && !lines_hard(&gpio->lines))
		return -EOPNOTSUPP;
	if (!source_gpio_wired(gpio))
		return -ENODEV;
	return lines_request(&gpio->lines, source_gpio_event, IRQF_TRIGGER_RISING, s);
}

/* It waits for the first due time. To make it takes long under load: kthreadd has no priority. */
static int source_gpio_make_raiser(struct session *s)
{
	struct source_gpio *gpio = s->device;
	struct task_struct *raiser = kthread_create_on_node(source_gpio_raiser, s,
							    cpu_to_node(gpio->raise_cpu),
							    "rtgauge-gpio/%u", gpio->raise_cpu);

	if (IS_ERR(raiser))
		return PTR_ERR(raiser);
	kthread_bind(raiser, gpio->raise_cpu);
	sched_set_fifo(raiser);
	gpio->raiser = raiser;
	wake_up_process(raiser);
	return 0;
}

static void source_gpio_end_raiser(struct source_gpio *gpio)
{
	if (gpio->raiser)
		kthread_stop(gpio->raiser);
	gpio->raiser = NULL;
}

static void source_gpio_close(struct session *s)
{
	struct source_gpio *gpio = s->device;

	source_gpio_end_raiser(gpio);
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
	gpio->session = s;
	gpio->raise_cpu = cpumask_any_but(cpu_online_mask, s->cpu);
	if (gpio->raise_cpu >= nr_cpu_ids)
		gpio->raise_cpu = s->cpu;
	setup->raise_cpu = gpio->raise_cpu;
	gpio->by_timer = gpio->raise_cpu == s->cpu && s->kind == RTGAUGE_KIND_IRQ_DISPATCH;
	compat_hrtimer_setup(&gpio->timer, source_gpio_timer, HRTIMER_MODE_ABS_PINNED_HARD);
	err = lines_take(&gpio->lines, setup);
	if (!err)
		err = source_gpio_connect(gpio, s);
	if (!err && !gpio->by_timer)
		err = source_gpio_make_raiser(s);
	if (err)
		source_gpio_close(s);
	return err;
}

/* --- running --- */

static void source_gpio_arm(void *data)
{
	struct session *s = data;
	struct source_gpio *gpio = s->device;

	hrtimer_start(&gpio->timer, ns_to_ktime(s->due_ns), HRTIMER_MODE_ABS_PINNED_HARD);
}

static int source_gpio_start(struct session *s)
{
	struct source_gpio *gpio = s->device;

	if (gpio->by_timer)
		return smp_call_function_single(s->cpu, source_gpio_arm, s, true);
	wake_up_process(gpio->raiser);
	return 0;
}

static void source_gpio_stop(struct session *s)
{
	struct source_gpio *gpio = s->device;

	source_gpio_end_raiser(gpio);
	hrtimer_cancel(&gpio->timer);
	synchronize_irq(gpio->lines.irq);
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
