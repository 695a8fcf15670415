// SPDX-License-Identifier: Apache-2.0
/*
 * Timer latency in interrupt, kernel and user context, by the kernel module: one timer on each CPU,
 * whose handler stamps and wakes the kernel's thread and the user's. Steps 1 and 2 of the path of a
 * sample for these: kmod/source_hrtimer.c stamps the first two, events.c takes them out; the loop below is
 * the user's thread. On the Cobalt core the timer, its handler and the kernel's thread are those of
 * the core (kmod/core_cobalt.c), and the user's thread waits by its own method.
 */
#include <string.h>
#include <unistd.h>

#include "measurements/timer/timer_method.h"
#include "methods/events.h"

#define TIMER_GRID_IRQ 0
#define TIMER_GRID_KERNEL 1

struct timer_module_thread {
	struct events_session *session;
	struct grid grid;
};

struct timer_module_state {
	struct events_session *sessions;
	struct timer_module_thread *threads;
	int count;
};

static int timer_module_look(const struct timer_thread *common, bool dithered, struct message *why)
{
	int fd = events_open(why);

	(void)common;
	(void)dithered;
	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

static int timer_module_look_cobalt(const struct timer_thread *common, bool dithered,
				    struct message *why)
{
	struct rtgauge_source source;

	(void)common;
	(void)dithered;
	return events_source("cobalt", "", &source, why);
}

/* --- the user's thread --- */

static void timer_module_loop(struct worker *worker)
{
	struct timer_module_thread *t = worker->state;
	struct step *step = worker->step;
	struct events_session *session = t->session;
	const struct series *latency = &step->series[t->grid.series];
	struct rtgauge_wait wait = { 0 };

	while (!step_stopped(step)) {
		bool late;
		int64_t now_ns;

		if (!events_wait(step, session->fd, &wait))
			break;
		now_ns = clock_now_ns(CLOCK_MONOTONIC);
		wait.seen_ns = (uint64_t)now_ns;
		late = (int64_t)wait.index > t->grid.next || latency->lost_open;
		grid_put(step, &t->grid, (int64_t)wait.index, 0, now_ns - (int64_t)wait.due_ns);
		if (late && step_starved(step, now_ns))
			break;
	}
	grid_end(step, &t->grid, events_passed(step, session), 0);
}

/* --- the frame's functions --- */

static int64_t timer_module_entry(const struct rtgauge_record *record)
{
	return (int64_t)(record->entry_ns - record->due_ns);
}

static int64_t timer_module_thread(const struct rtgauge_record *record)
{
	return record->thread_ns ? (int64_t)(record->thread_ns - record->due_ns) : INT64_MIN;
}

static int timer_module_add_user(struct step *step, struct timer_kernel *kernel, int number,
				 int cpu)
{
	struct timer_module_state *state = kernel->state;
	struct timer_module_thread *t = &state->threads[number];
	const struct timer_thread *common = kernel->common;
	int worker;

	t->session = &state->sessions[number];
	t->grid = timer_grid_of(common);
	t->grid.own = true;
	worker = step_add_worker(step, timer_module_loop, t, cpu,
				 (int)option_number(&step->options, "priority"));
	if (worker < 0)
		return worker;
	return timer_add_series(step, "user", timer_module.name, cpu, worker, common, 0,
				&t->grid.series, &t->grid.dither);
}

/* @contexts: of those of the kernel's, which share the session's timer. */
static int timer_module_add(struct step *step, struct timer_kernel *kernel, unsigned int contexts,
			    int number, int cpu)
{
	struct timer_module_state *state = kernel->state;
	struct events_session *s = &state->sessions[number];
	const struct timer_thread *common = kernel->common;
	int priority = (int)option_number(&step->options, "priority");
	bool cobalt = kernel->backend == &timer_module_cobalt;
	int err;

	for (int i = 0; i < EVENTS_GRIDS; i++)
		s->grid[i] = timer_grid_of(common);
	s->value[TIMER_GRID_IRQ] = timer_module_entry;
	s->value[TIMER_GRID_KERNEL] = timer_module_thread;
	s->setup = (struct rtgauge_setup){
		.kind = RTGAUGE_KIND_TIMER,
		.source = RTGAUGE_SOURCE_AUTO,
		.cpu = (uint32_t)cpu,
		.contexts = (contexts & TIMER_IRQ ? RTGAUGE_CONTEXT_IRQ : 0U) |
			    (contexts & TIMER_KERNEL ? RTGAUGE_CONTEXT_KERNEL : 0U) |
			    (contexts & TIMER_USER ? RTGAUGE_CONTEXT_USER : 0U),
		.flags = (common->dither >= 0 ? RTGAUGE_SETUP_DITHER : 0U) |
			 (cobalt ? RTGAUGE_SETUP_COBALT : 0U),
		.room = events_room(common->interval_ns),
		.interval_ns = (uint64_t)common->interval_ns,
		.events = common->samples == INT64_MAX ? 0 : (uint64_t)common->samples,
		.periods = common->for_ns ? (uint64_t)common->periods : 0,
		.thread = cobalt && contexts & TIMER_KERNEL ? (uint32_t)priority : 0,
	};
	err = events_add(step, s, priority);
	if (!err && (contexts & TIMER_IRQ))
		err = timer_add_series(step, "irq", timer_module.name, cpu, -1, common, 0,
				       &s->grid[TIMER_GRID_IRQ].series,
				       &s->grid[TIMER_GRID_IRQ].dither);
	if (!err && (contexts & TIMER_KERNEL))
		err = timer_add_series(step, "kernel", timer_module.name, cpu, s->worker, common, 0,
				       &s->grid[TIMER_GRID_KERNEL].series,
				       &s->grid[TIMER_GRID_KERNEL].dither);
	if (!err && (contexts & TIMER_USER))
		err = timer_module_add_user(step, kernel, number, cpu);
	return err;
}

/* Its timer, or one for each context. */
static int timer_module_add_cpu(struct step *step, struct timer_kernel *kernel, int *number,
				int cpu)
{
	unsigned int left = kernel->contexts;
	int err = 0;

	while (left && !err) {
		unsigned int contexts = kernel->backend->apart ? left & -left : left;

		err = timer_module_add(step, kernel, contexts, (*number)++, cpu);
		left &= ~contexts;
	}
	return err;
}

static int timer_module_setup(struct step *step, struct timer_kernel *kernel)
{
	struct timer_module_state *state = step_alloc(step, 1, sizeof(*state));
	size_t count = (size_t)(cpulist_count(kernel->cpus) * kernel->timers);
	int number = 0, err = 0;

	kernel->state = state;
	if (!state)
		return -ENOMEM;
	state->sessions = step_alloc(step, count, sizeof(*state->sessions));
	state->threads = step_alloc(step, count, sizeof(*state->threads));
	if (!state->sessions || !state->threads)
		return -ENOMEM;
	state->count = (int)count;
	for (size_t i = 0; i < count; i++)
		state->sessions[i].fd = -1;
	for (int cpu = cpulist_next(kernel->cpus, 0); cpu >= 0 && !err;
	     cpu = cpulist_next(kernel->cpus, cpu + 1))
		err = timer_module_add_cpu(step, kernel, &number, cpu);
	return err;
}

/* One after the other over the period, or at the same time, as threads of user space are; after those
 * that wait by themselves. */
static int timer_module_start(struct step *step, struct timer_kernel *kernel)
{
	const struct timer_module_state *state = kernel->state;
	bool aligned = kernel->common->aligned;
	int first = kernel->slots - (aligned ? kernel->timers : state->count), err = 0;

	for (int i = 0; i < state->count && !err; i++) {
		int slot = first + (aligned ? i % kernel->timers : i);
		int64_t first_ns = step_first_due_ns(step) +
				   kernel->common->interval_ns / kernel->slots * slot;

		state->threads[i].grid.start_ns = first_ns;
		err = events_start(step, &state->sessions[i], first_ns);
	}
	return err;
}

static void timer_module_collect(struct step *step, struct timer_kernel *kernel)
{
	const struct timer_module_state *state = kernel->state;

	events_collect(step, state->sessions, state->count);
}

static void timer_module_cleanup(struct timer_kernel *kernel)
{
	struct timer_module_state *state = kernel->state;

	if (!state)
		return;
	for (int i = 0; i < state->count; i++)
		events_close(&state->sessions[i]);
}

const struct timer_backend timer_module = {
	.name = "module",
	.user = true,
	.dither = true,
	.look = timer_module_look,
	.setup = timer_module_setup,
	.start = timer_module_start,
	.collect = timer_module_collect,
	.cleanup = timer_module_cleanup,
};

const struct timer_backend timer_module_cobalt = {
	.name = "module",
	.dither = true,
	.apart = true,
	.look = timer_module_look_cobalt,
	.setup = timer_module_setup,
	.start = timer_module_start,
	.collect = timer_module_collect,
	.cleanup = timer_module_cleanup,
};
