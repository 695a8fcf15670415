// SPDX-License-Identifier: Apache-2.0
/*
 * Interrupt to thread: from the handler's stamp just before it wakes the highest thread to that
 * thread's first stamp, while another one of lower priority keeps the CPU busy. In place of the
 * user thread, the handler can defer its work to a context of the kernel.
 * docs/measurements/irq-to-thread.md says what exactly is timed.
 */
#include <string.h>

#include "base/clock.h"
#include "methods/interrupt.h"

static const struct measurement_way irq_to_thread_ways[] = {
	{ "wake-to-thread", "softirq", "softirq" },
	{ "handler-to-thread", "softirq", "handler,softirq" },
	{ "wake-to-thread", "kernel", "wake-up,switch" },
	{ "handler-to-thread", "kernel", "handler,wake-up,switch" },
	{ "wake-to-thread", "workqueue", "wake-up,switch" },
	{ "handler-to-thread", "workqueue", "handler,wake-up,switch" },
	{ "wake-to-thread", "threaded", "wake-up,switch" },
	{ "handler-to-thread", "threaded", "handler,wake-up,switch" },
	{ NULL, NULL, NULL },
};

static const struct option_info irq_to_thread_options[] = {
	{ "for", OPTION_DURATION, "10s", 0, 0, NULL,
	  "duration; 0: until all samples are taken, or until stopped" },
	{ "samples", OPTION_INTEGER, "0", 0, INT64_MAX, NULL, "interrupts per CPU; 0: no limit" },
	{ "interval", OPTION_DURATION, "1ms", 50000, 3600000000000, NULL,
	  "time from one interrupt to the next" },
	{ "context", OPTION_ENUM, "user", 0, 0, "user " EVENTS_DEFERRED,
	  "what the handler wakes: a user thread, a kernel thread, a tasklet, a work queue, or its "
	  "threaded handler" },
	{ "cpu", OPTION_CPUS, "all", 0, 0, NULL, INTERRUPT_CPU_HELP },
	{ "priority", OPTION_INTEGER, "80", 0, 99, NULL,
	  "SCHED_FIFO priority of the thread; 0: SCHED_OTHER" },
	INTERRUPT_OPTIONS,
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

/* Series, by their place in a session's grids. */
#define WAKE 0
#define HANDLER 1

struct irq_to_thread_cpu {
	struct events_session session; /* the first: interrupt.h */
	int worker;
};

/* --- the user's thread --- */

static void irq_to_thread_loop(struct worker *worker)
{
	struct irq_to_thread_cpu *c = worker->state;
	struct step *step = worker->step;
	struct rtgauge_wait wait = { 0 };
	int64_t next;

	while (!step_stopped(step) && events_wait(step, c->session.fd, &wait)) {
		int64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
		struct grid *grid = c->session.grid;
		bool late = (int64_t)wait.index > grid[WAKE].next;

		wait.seen_ns = (uint64_t)now_ns;
		grid_put(step, &grid[WAKE], (int64_t)wait.index, 0, now_ns - (int64_t)wait.wake_ns);
		grid_put(step, &grid[HANDLER], (int64_t)wait.index, 0,
			 now_ns - (int64_t)wait.entry_ns);
		if (late && step_starved(step, now_ns))
			break;
	}
	next = events_passed(step, &c->session);
	grid_end(step, &c->session.grid[WAKE], next, 0);
	grid_end(step, &c->session.grid[HANDLER], next, 0);
}

/* --- contexts of the kernel --- */

static bool irq_to_thread_is_user(const struct step *step)
{
	return !strcmp(option_text(&step->options, "context"), "user");
}

static int64_t irq_to_thread_from_wake(const struct rtgauge_record *record)
{
	return record->thread_ns ? (int64_t)(record->thread_ns - record->wake_ns) : INT64_MIN;
}

static int64_t irq_to_thread_from_handler(const struct rtgauge_record *record)
{
	return record->thread_ns ? (int64_t)(record->thread_ns - record->entry_ns) : INT64_MIN;
}

static void irq_to_thread_collect(struct step *step)
{
	const struct interrupt *interrupt = step->state;

	for (int i = 0; i < interrupt->count && !irq_to_thread_is_user(step); i++)
		events_collect(step, interrupt_session(interrupt, i), 1);
}

/* --- the frame's functions --- */

static int irq_to_thread_add_thread(struct step *step, struct irq_to_thread_cpu *c, int cpu,
				    int priority)
{
	struct events_session *session = &c->session;
	int err;

	session->value[WAKE] = irq_to_thread_from_wake;
	session->value[HANDLER] = irq_to_thread_from_handler;
	if (!irq_to_thread_is_user(step)) {
		session->setup.room = events_room((int64_t)session->setup.interval_ns);
		err = events_add(step, session, priority);
		c->worker = session->worker;
		return err;
	}
	err = events_make(step, session);
	if (err)
		return err;
	c->worker = step_add_worker(step, irq_to_thread_loop, c, cpu, priority);
	return c->worker < 0 ? c->worker : 0;
}

static int irq_to_thread_add(struct step *step, void *state, int cpu)
{
	const struct interrupt *interrupt = step->state;
	const char *context = option_text(&step->options, "context");
	struct irq_to_thread_cpu *c = state;
	struct grid *grid = c->session.grid;
	int err;

	c->session.setup = interrupt_setup(interrupt, RTGAUGE_KIND_IRQ_TO_THREAD,
					   events_context(context), cpu);
	err = irq_to_thread_add_thread(step, c, cpu,
				       (int)option_number(&step->options, "priority"));
	if (err)
		return err;
	err = interrupt_add_filler(step, cpu, c->worker);
	if (err)
		return err;
	err = interrupt_add_series(step, interrupt, "wake-to-thread", context, cpu, c->worker,
				   &grid[WAKE]);
	if (!err)
		err = interrupt_add_series(step, interrupt, "handler-to-thread", context, cpu,
					   c->worker, &grid[HANDLER]);
	grid[WAKE].own = grid[HANDLER].own = irq_to_thread_is_user(step);
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

	c->session.grid[WAKE].start_ns = c->session.grid[HANDLER].start_ns = first_ns;
}

static int irq_to_thread_start(struct step *step)
{
	return interrupt_start(step, step->state, irq_to_thread_due);
}

static int irq_to_thread_finish(struct step *step)
{
	/* the reader of records has accounted for its sessions */
	return irq_to_thread_is_user(step) ? interrupt_finish(step, step->state) : 0;
}

const struct measurement irq_to_thread_measurement = {
	.name = "irq-to-thread",
	.code = "IRQ-P-TLT",
	.summary = "time from an interrupt handler to the thread that it wakes",
	.needs = NEEDS_MODULE,
	.chapter = CHAPTER_INTERRUPTS,
	.contexts = "user kernel softirq workqueue threaded",
	.options = irq_to_thread_options,
	.series = {
		{ "wake-to-thread", "ns", "time from just before the wake-up until the thread runs",
		  "the handler reads the clock, before it wakes the thread",
		  "the thread's first clock reading", "wake-up,switch,return to user" },
		{ "handler-to-thread", "ns",
		  "time from the start of the handler until the thread runs",
		  "first clock reading in the handler", "the thread's first clock reading",
		  "handler,wake-up,switch,return to user" },
	},
	.ways = irq_to_thread_ways,
	.evaluate = {
		{ "idle", "for=5s", "for=2m" },
		{ "sched:groups=4,cpu", "for=5s", "for=2m" },
	},
	.mark = &mark_samples,
	.not_on_cobalt = "its interrupts and threads are those of Linux",
	.state_size = sizeof(struct interrupt),
	.setup = irq_to_thread_setup,
	.start = irq_to_thread_start,
	.collect = irq_to_thread_collect,
	.finish = irq_to_thread_finish,
	.cleanup = interrupt_cleanup,
};
