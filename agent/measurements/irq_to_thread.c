// SPDX-License-Identifier: Apache-2.0
/*
 * Interrupt to thread: from the handler's stamp just before it wakes the highest thread until that
 * thread's first stamp, while another one of lower priority keeps the CPU busy.
 * docs/measurements/irq-to-thread.md says what exactly is timed.
 */
#include <errno.h>
#include <sys/ioctl.h>

#include "base/clock.h"
#include "methods/interrupt.h"

static const char *const irq_to_thread_wake_stages[] = { "wake-up", "switch", "return to user",
							 NULL };
static const char *const irq_to_thread_handler_stages[] = { "handler", "wake-up", "switch",
							    "return to user", NULL };

static const struct option_info irq_to_thread_options[] = {
	{ "for", OPTION_DURATION, "10s", 0, 0, NULL,
	  "duration; 0: until all samples are taken, or until stopped" },
	{ "samples", OPTION_INTEGER, "0", 0, INT64_MAX, NULL, "interrupts per CPU; 0: no limit" },
	{ "interval", OPTION_DURATION, "1ms", 50000, 3600000000000, NULL,
	  "time from one interrupt to the next" },
	{ "cpu", OPTION_CPUS, "all", 0, 0, NULL, INTERRUPT_CPU_HELP },
	{ "priority", OPTION_INTEGER, "80", 0, 99, NULL,
	  "SCHED_FIFO priority of the thread; 0: SCHED_OTHER" },
	INTERRUPT_OPTIONS,
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

static const struct measurement_series irq_to_thread_series[] = {
	{ "wake-to-thread", "ns", "time from just before the wake-up until the thread runs",
	  "the handler reads the clock, before it wakes the thread",
	  "the thread reads the clock after its ioctl() has returned", irq_to_thread_wake_stages },
	{ "handler-to-thread", "ns", "time from the start of the handler until the thread runs",
	  "first act of the handler, a reading of the clock",
	  "the thread reads the clock after its ioctl() has returned",
	  irq_to_thread_handler_stages },
	{ NULL, NULL, NULL, NULL, NULL, NULL },
};

static const struct measurement_evaluate irq_to_thread_evaluate[] = {
	{ "idle", "for=5s", "for=2m" },
	{ "sched:groups=4,cpu", "for=5s", "for=2m" },
	{ NULL, NULL, NULL },
};

struct irq_to_thread_cpu {
	struct events_session session; /* the first: interrupt.h */
	struct grid wake;
	struct grid handler;
	int worker;
};

static bool irq_to_thread_wait(const struct step *step, int fd, struct rtgauge_wait *wait)
{
	do {
		wait->flags = 0;
		if (!ioctl(fd, RTGAUGE_WAIT, wait))
			return true;
	} while (errno == EINTR && !step_stopped(step));
	return false;
}

static void irq_to_thread_loop(struct worker *worker)
{
	struct irq_to_thread_cpu *c = worker->state;
	struct step *step = worker->step;
	struct rtgauge_wait wait = { 0 };

	while (!step_stopped(step) && irq_to_thread_wait(step, c->session.fd, &wait)) {
		int64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
		bool late = (int64_t)wait.index > c->wake.next;

		wait.seen_ns = (uint64_t)now_ns;
		grid_put(step, &c->wake, (int64_t)wait.index, 0, now_ns - (int64_t)wait.wake_ns);
		grid_put(step, &c->handler, (int64_t)wait.index, 0,
			 now_ns - (int64_t)wait.entry_ns);
		if (late && step_starved(step, now_ns))
			return;
	}
}

static int irq_to_thread_add(struct step *step, void *state, int cpu)
{
	const struct interrupt *interrupt = step->state;
	struct irq_to_thread_cpu *c = state;
	int err;

	c->session.setup =
		interrupt_setup(interrupt, RTGAUGE_KIND_IRQ_TO_THREAD, RTGAUGE_CONTEXT_USER, cpu);
	err = events_make(step, &c->session);
	if (err)
		return err;
	c->worker = step_add_worker(step, irq_to_thread_loop, c, cpu,
				    (int)option_number(&step->options, "priority"));
	if (c->worker < 0)
		return c->worker;
	err = interrupt_add_filler(step, cpu, &step->workers[c->worker]);
	if (err)
		return err;
	err = interrupt_add_series(step, interrupt, "wake-to-thread", "user", cpu, c->worker,
				   &c->wake);
	if (!err)
		err = interrupt_add_series(step, interrupt, "handler-to-thread", "user", cpu,
					   c->worker, &c->handler);
	c->wake.own = c->handler.own = true;
	return err;
}

static int irq_to_thread_setup(struct step *step)
{
	return interrupt_setup_cpus(step, step->state, sizeof(struct irq_to_thread_cpu),
				    irq_to_thread_add);
}

static void irq_to_thread_due(void *state, int64_t first_ns)
{
	struct irq_to_thread_cpu *c = state;

	c->wake.start_ns = c->handler.start_ns = first_ns;
}

static int irq_to_thread_start(struct step *step)
{
	return interrupt_start(step, step->state, irq_to_thread_due);
}

static int irq_to_thread_finish(struct step *step)
{
	return interrupt_finish(step, step->state);
}

const struct measurement irq_to_thread_measurement = {
	.name = "irq-to-thread",
	.code = "IRQ-P-TLT",
	.summary = "time from an interrupt handler until the thread that it wakes runs",
	.needs = NEEDS_MODULE,
	.chapter = CHAPTER_INTERRUPTS,
	.options = irq_to_thread_options,
	.series = irq_to_thread_series,
	.evaluate = irq_to_thread_evaluate,
	.mark = &mark_samples,
	.state_size = sizeof(struct interrupt),
	.setup = irq_to_thread_setup,
	.start = irq_to_thread_start,
	.finish = irq_to_thread_finish,
	.cleanup = interrupt_cleanup,
};
