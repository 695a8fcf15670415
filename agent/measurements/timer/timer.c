// SPDX-License-Identifier: Apache-2.0
/*
 * Timer latency: a periodic task sleeps until a due time; latency = time it runs - due time.
 *
 * What is measured by which method, and on which grid. Steps 1 and 2 of the path of a sample are
 * the loops of timer_method.h, and the ways of waiting in timer_sleep.c and its neighbours.
 * docs/measurements/timer.md says what exactly is timed.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "measurements/timer/timer_method.h"
#include "run/modes.h"

#define TIMER_PRIORITY_DEFAULT "80"
/* 20 sweeps of the interval up and down (grid_offset_ns()): each phase is met as often */
#define TIMER_DITHER_PERIODS 1000
/* Minimum period of a reservation in the kernel, and the resolution of setitimer(). */
#define TIMER_DEADLINE_MIN_NS (100 * NSEC_PER_USEC)
#define TIMER_ITIMER_STEP_NS NSEC_PER_USEC
#define TIMER_ALL_MEASURED "every method asked for is measured"

#define TIMER_ALL_CONTEXTS "every context asked for is measured"

static const struct measurement_way timer_ways[] = {
	{ "latency", "irq", "timer interrupt,handler" },
	{ "latency", "kernel", "timer interrupt,handler,wake-up,switch" },
	{ NULL, NULL, NULL },
};

static const struct option_info timer_options[] = {
	{ "for", OPTION_DURATION, "10s", 0, 0, NULL,
	  "duration; 0: until all samples are taken, or until stopped" },
	{ "samples", OPTION_INTEGER, "0", 0, INT64_MAX, NULL, "samples per series; 0: no limit" },
	{ "interval", OPTION_DURATION, "1ms", 20 * NSEC_PER_USEC, 3600 * NSEC_PER_SEC, NULL,
	  "period of the task" },
	{ "cpu", OPTION_CPUS, "all", 0, 0, NULL,
	  "CPUs to measure on, each with its own pinned threads" },
	{ "threads", OPTION_INTEGER, "1", 1, 64, NULL, "measuring threads on each CPU" },
	{ "priority", OPTION_INTEGER, TIMER_PRIORITY_DEFAULT, 0, 99, NULL,
	  "SCHED_FIFO priority; 0: SCHED_OTHER" },
	{ "context", OPTION_ENUMS, "user", 0, 0, "irq kernel user",
	  "where the time stamp is taken: interrupt handler, kernel thread, "
	  "user thread (several share one timer)" },
	{ "method", OPTION_ENUMS, "clock_nanosleep", 0, 0,
	  "clock_nanosleep nanosleep timer itimer timerfd deadline",
	  "how the task waits for its due time (several run in parallel)" },
	{ "dither", OPTION_ENUM, "auto", 0, 0, "auto yes no",
	  "spread due times evenly over their periods; auto: with 1000 periods or more" },
	{ "align", OPTION_ENUM, "no", 0, 0, "no yes",
	  "due times at the same instant on all CPUs instead of staggered" },
	{ "stop-above", OPTION_DURATION, "0", 0, 0, NULL,
	  "stop at the first latency above this; 0: never" },
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

/* In the order of the option's values. */
static const struct timer_method timer_methods[] = {
	{ .name = "clock_nanosleep", .loop = timer_sleep_loop, .dithered = timer_sleep_dithered },
	{ .name = "nanosleep", .loop = timer_relative_loop, .relative = true },
	{ .name = "timer",
	  .loop = timer_signal_loop,
	  .dithered = timer_signal_dithered,
	  .prepare = timer_signal_prepare,
	  .refusal = "a POSIX timer",
	  .remedy = "use a kernel with CONFIG_POSIX_TIMERS, or raise the limit of pending signals "
		    "(ulimit -i)" },
	{ .name = "itimer",
	  .loop = timer_itimer_loop,
	  .prepare = timer_itimer_prepare,
	  .refusal = "an interval timer",
	  .remedy = "use a kernel with CONFIG_POSIX_TIMERS",
	  .process = true },
	{ .name = "timerfd",
	  .loop = timer_fd_loop,
	  .dithered = timer_fd_dithered,
	  .prepare = timer_fd_prepare,
	  .refusal = "a timerfd",
	  .remedy = "use a kernel with CONFIG_TIMERFD, or raise the limit of open files "
		    "(ulimit -n)" },
	{ .name = "deadline",
	  .loop = timer_sleep_loop,
	  .dithered = timer_sleep_dithered,
	  .prepare = timer_reserve,
	  .refusal = "a SCHED_DEADLINE reservation",
	  .remedy = "run as root, outside cpusets and taskset, with few threads",
	  .unpinned = true },
};

#define TIMER_METHODS (sizeof(timer_methods) / sizeof(timer_methods[0]))

struct timer_state {
	struct timer_thread common;
	struct timer_kernel kernel; /* without a backend: no context of the kernel is measured */
	struct message no_kernel;   /* why not, though it was asked for */
	struct timer_thread *threads;
	int count;
	const struct timer_method *methods[TIMER_METHODS]; /* those asked for, in order */
	int method_count;
	struct message refused[TIMER_METHODS]; /* without a text: it is measured */
};

/* --- methods --- */

/* The remaining methods, as the option's value in effect. 0 or -errno. */
static int timer_methods_effective(struct step *step, const struct timer_state *state)
{
	char text[128] = "";
	size_t used = 0;

	for (int i = 0; i < state->method_count; i++)
		if (!state->refused[i].text[0])
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s",
						 used ? "," : "", state->methods[i]->name);
	return option_effective(&step->options, "method", text);
}

/* Go on without a method, if others are left; else the measurement is skipped. */
static int timer_skip(struct step *step, int number, const char *remedy, const char *reason)
{
	struct timer_state *state = step->state;
	int left = 0;

	message_set(&state->refused[number], 0, remedy, "%s: %s", state->methods[number]->name,
		    reason);
	for (int i = 0; i < state->method_count; i++)
		left += !state->refused[i].text[0];
	if (!left)
		return step_skip_for(step, &state->refused[number]);
	return timer_methods_effective(step, state);
}

/* The intervals that a method cannot have. */
static int timer_check_interval(struct step *step, int number, int64_t interval_ns)
{
	const struct timer_state *state = step->state;
	const char *name = state->methods[number]->name;
	int64_t per_cpu = option_number(&step->options, "threads");

	if (!strcmp(name, "deadline") && interval_ns < TIMER_DEADLINE_MIN_NS)
		return timer_skip(step, number, "give an interval of 100us or more",
				  "the kernel's shortest period of a reservation is 100 µs");
	if (!strcmp(name, "deadline") &&
	    timer_reserved_ns(interval_ns, per_cpu) < TIMER_RESERVED_MIN_NS)
		return timer_skip(
			step, number, "give a longer interval, or fewer threads",
			"with a share below 40 µs the measurement itself would use up the reservation");
	if (!strcmp(name, "itimer") && interval_ns % TIMER_ITIMER_STEP_NS)
		return timer_skip(step, number, "give an interval of whole microseconds",
				  "setitimer() supports only whole microseconds");
	return 0;
}

/* The method of that name on the step's core, or NULL. */
static const struct timer_method *timer_on_core(const struct step *step,
						const struct timer_method *method)
{
	const struct timer_method *found = timer_cobalt_methods;

	if (step->core == &core_linux)
		return method;
	while (found->name && strcmp(found->name, method->name))
		found++;
	return found->name ? found : NULL;
}

static int timer_choose_methods(struct step *step, struct timer_state *state)
{
	int64_t interval_ns = option_number(&step->options, "interval");
	const char *text = option_text(&step->options, "method");
	const char *values = option_get(&step->options, "method")->info->values;
	int err = 0;

	state->method_count = (int)option_number(&step->options, "method");
	for (int i = 0; i < state->method_count; i++) {
		size_t size = strcspn(text, ",");

		state->methods[i] = &timer_methods[option_value_number(values, text, size)];
		text += size + 1;
	}
	for (int i = 0; i < state->method_count && !err; i++) {
		const struct timer_method *method = timer_on_core(step, state->methods[i]);

		if (method)
			state->methods[i] = method;
		err = method ? timer_check_interval(step, i, interval_ns) :
			       timer_skip(step, i, "give --core linux",
					  "the core does not support this method");
	}
	return err;
}

/* A worker's prepare() was refused: drops the method, also on CPUs that granted it. */
static int timer_refused(struct step *step, const struct worker *worker)
{
	const struct timer_thread *t = worker->state;
	struct timer_state *state = step->state;
	char reason[128];
	int number = 0;

	while (state->methods[number] != t->method)
		number++;
	snprintf(reason, sizeof(reason), "the kernel refuses %s: %s", t->method->refusal,
		 strerror(-worker->refused));
	for (int i = 0; i < state->count; i++)
		if (state->threads[i].method == t->method)
			step->workers[i].refused = worker->refused;
	return timer_skip(step, number, t->method->remedy, reason);
}

/* --- set-up --- */

static int timer_add_thread(struct step *step, struct timer_thread *t, int cpu, int slot, int slots)
{
	const struct timer_method *method = t->method;
	int worker, err;

	cpu = method->unpinned ? -1 : cpu;
	worker = step_add_worker(step, t->dither >= 0 ? method->dithered : method->loop, t, cpu,
				 method->unpinned ? 0 :
						    (int)option_number(&step->options, "priority"));
	if (worker < 0)
		return worker;
	step->workers[worker].prepare = method->prepare;
	step->workers[worker].process = method->process;
	/* the slots are due one after the other, evenly over the period */
	err = timer_add_series(step, "user", method->name, cpu, worker, t,
			       t->interval_ns / slots * slot, &t->latency, &t->dither);
	return err;
}

/* Whether it is wanted; which methods it is done with is their own affair. */
static int timer_wants_dither(struct step *step, const struct timer_state *state, bool *dithered)
{
	const char *asked = option_text(&step->options, "dither");
	int64_t for_ns = option_number(&step->options, "for");
	int64_t samples = option_number(&step->options, "samples");
	int64_t periods = for_ns / option_number(&step->options, "interval");
	bool is_long = (!for_ns || periods >= TIMER_DITHER_PERIODS) &&
		       (!samples || samples >= TIMER_DITHER_PERIODS);
	bool possible = false;

	for (int i = 0; i < state->method_count; i++) {
		if (state->methods[i]->dithered)
			possible = true;
		else if (!strcmp(asked, "yes"))
			return message_set(&step->msg, -EINVAL,
					   "leave dither at auto, which uses it where possible",
					   "the due times of %s cannot be moved by dither",
					   state->methods[i]->name);
	}
	*dithered = possible && (!strcmp(asked, "yes") || (!strcmp(asked, "auto") && is_long));
	return option_effective(&step->options, "dither", *dithered ? "yes" : "no");
}

/* One method's threads on all CPUs. */
static int timer_add_method(struct step *step, const struct timer_method *method,
			    const struct cpulist *cpus, const struct timer_thread *common,
			    int slots)
{
	struct timer_state *state = step->state;
	int first = state->count / cpulist_count(cpus);

	for (int cpu = cpulist_next(cpus, 0); cpu >= 0; cpu = cpulist_next(cpus, cpu + 1)) {
		for (int i = 0; i < common->per_cpu; i++) {
			int number = state->count++;
			struct timer_thread *t = &state->threads[number];
			int err;

			*t = *common;
			t->method = method;
			t->dither = common->dither >= 0 && method->dithered ? 0 : -1;
			err = timer_add_thread(step, t, cpu, common->aligned ? first + i : number,
					       slots);
			if (err)
				return err;
		}
	}
	return 0;
}

/* --- contexts --- */

static const char *const timer_context_words = "irq kernel user";

/* Those asked for, as a mask. */
static unsigned int timer_contexts_asked(const struct step *step)
{
	const char *text = option_text(&step->options, "context");
	unsigned int mask = 0;

	while (*text) {
		size_t size = strcspn(text, ",");

		mask |= 1U << option_value_number(timer_context_words, text, size);
		text += size + (text[size] == ',');
	}
	return mask;
}

static int timer_contexts_effective(struct step *step, unsigned int mask, const char *method)
{
	static const char *const contexts[] = { "irq", "kernel", "user" };
	char text[64] = "";
	size_t used = 0;
	int err;

	for (int i = 0; i < 3; i++)
		if (mask & 1U << i)
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s",
						 used ? "," : "", contexts[i]);
	err = option_effective(&step->options, "context", text);
	if (err || !method)
		return err;
	snprintf(text, sizeof(text), "%s%s%s", method, mask & TIMER_USER ? "," : "",
		 mask & TIMER_USER ? option_text(&step->options, "method") : "");
	return option_effective(&step->options, "method", text);
}

/* Options that the kernel's contexts do not support. */
static int timer_check_kernel(struct step *step)
{
	if (step->core == &core_linux && option_get(&step->options, "method")->given)
		return message_set(&step->msg, -EINVAL,
				   "omit --method, or measure --context user alone",
				   "--method selects how a thread in user space waits, and does "
				   "not apply to contexts irq and kernel");
	if (option_number(&step->options, "threads") > 1)
		return message_set(&step->msg, -EINVAL,
				   "omit --threads, or measure --context user alone",
				   "contexts irq and kernel have one timer on each CPU");
	return 0;
}

static const struct timer_backend *const timer_of_linux[] = { &timer_module, &timer_tracer };
static const struct timer_backend *const timer_of_cobalt[] = { &timer_module_cobalt, &timer_bench };

/* The first that applies, else the reasons of both. */
static const struct timer_backend *timer_look(const struct timer_backend *const backends[2],
					      const struct step *step,
					      const struct timer_thread *common,
					      struct message why[2])
{
	const struct option_value *dither = option_get(&step->options, "dither");
	bool dithered = dither->given && !strcmp(dither->asked, "yes");

	for (int i = 0; i < 2; i++)
		if (!backends[i]->look(common, dithered, &why[i]))
			return backends[i];
	return NULL;
}

/* The module, else the tracer of Linux or Xenomai's driver, else none: STEP_SKIPPED if nothing is left
 * to be measured. */
static int timer_choose_backend(struct step *step, struct timer_state *state, unsigned int contexts)
{
	struct timer_kernel *kernel = &state->kernel;
	struct message why[2] = { 0 };

	kernel->backend = timer_look(step->core == &core_linux ? timer_of_linux : timer_of_cobalt,
				     step, &state->common, why);
	if (kernel->backend) {
		kernel->contexts = contexts &
				   (kernel->backend->user ? ~0U : ~(unsigned int)TIMER_USER);
		kernel->timers = kernel->backend->apart ? __builtin_popcount(kernel->contexts) : 1;
		kernel->common = &state->common;
		if (!kernel->backend->dither && !(contexts & TIMER_USER))
			return option_effective(&step->options, "dither", "no");
		return 0;
	}
	message_set(&state->no_kernel, 0, why[0].remedy, "contexts irq and kernel: %s%s%s",
		    why[0].text, why[1].text[0] ? "; " : "", why[1].text);
	state->no_kernel.command = why[0].command;
	if (!(contexts & TIMER_USER))
		return step_skip_for(step, &state->no_kernel);
	return timer_contexts_effective(step, TIMER_USER, NULL);
}

/* The contexts of the kernel, and the user's that shares the module's timer. */
static int timer_add_kernel(struct step *step, struct timer_state *state, unsigned int contexts,
			    const struct cpulist *cpus, int slots)
{
	const struct timer_backend *backend = state->kernel.backend;
	const char *method = backend->name;
	int err;

	state->kernel.cpus = cpus;
	state->kernel.slots = slots;
	err = backend->setup(step, &state->kernel);
	if (err)
		return err;
	if (backend->user)
		err = option_effective(&step->options, "method", method);
	return err ?: timer_contexts_effective(step, contexts, backend->user ? NULL : method);
}

/* --- the frame's functions --- */

static void timer_read_common(const struct step *step, struct timer_thread *common)
{
	const struct option_set *options = &step->options;
	int64_t samples = option_number(options, "samples");
	int64_t limit_ns = option_number(options, "stop-above");

	common->per_cpu = (int)option_number(options, "threads");
	common->interval_ns = option_number(options, "interval");
	common->for_ns = option_number(options, "for");
	common->periods = common->for_ns ? common->for_ns / common->interval_ns : INT64_MAX;
	common->samples = samples ? samples : INT64_MAX;
	common->limit_ns = limit_ns ? limit_ns : INT64_MAX;
	common->aligned = option_number(options, "align") != 0;
}

static bool timer_on_cobalt(const struct step *step)
{
	const char *text = option_text(&step->options, "method");
	struct timer_thread common;
	struct message why[2];

	while (*text) {
		const struct timer_method *method = timer_cobalt_methods;
		size_t size = strcspn(text, ",");

		while (method->name && (strncmp(method->name, text, size) || method->name[size]))
			method++;
		if (!method->name)
			return false;
		text += size + (text[size] == ',');
	}
	timer_read_common(step, &common);
	return timer_contexts_asked(step) == TIMER_USER ||
	       timer_look(timer_of_cobalt, step, &common, why);
}

/* The user's threads, each waiting by itself. */
static int timer_add_methods(struct step *step, struct timer_state *state,
			     const struct cpulist *cpus, int all, int slots)
{
	int err = 0;

	state->threads = step_alloc(step, (size_t)all, sizeof(*state->threads));
	if (!state->threads)
		return -ENOMEM;
	for (int i = 0; !err && i < state->method_count; i++)
		if (!state->refused[i].text[0])
			err = timer_add_method(step, state->methods[i], cpus, &state->common,
					       slots);
	return err;
}

/* How many threads or timers there are; without alignment they are due one after the other. */
static int timer_count(const struct timer_state *state, const struct cpulist *cpus,
		       unsigned int contexts)
{
	int all = state->kernel.timers;

	for (int i = 0;
	     (contexts & TIMER_USER & ~state->kernel.contexts) && i < state->method_count; i++)
		if (!state->refused[i].text[0])
			all += state->common.per_cpu;
	return all * cpulist_count(cpus);
}

static int timer_setup(struct step *step)
{
	struct timer_state *state = step->state;
	struct timer_thread *common = &state->common;
	unsigned int contexts = timer_contexts_asked(step);
	bool dithered = false;
	struct cpulist cpus;
	int all = 0, slots = 0, err;

	timer_read_common(step, common);
	err = step_cpus(step, &cpus) ?: step_check_interval(step, common->interval_ns);
	if (!err && (contexts & ~(unsigned int)TIMER_USER))
		err = timer_check_kernel(step);
	if (!err)
		err = timer_choose_methods(step, state);
	if (!err)
		err = timer_wants_dither(step, state, &dithered);
	common->dither = dithered ? 0 : -1;
	if (!err && (contexts & ~(unsigned int)TIMER_USER))
		err = timer_choose_backend(step, state, contexts);
	if (!err)
		all = timer_count(state, &cpus, contexts);
	slots = all;
	if (!err && common->aligned)
		slots /= cpulist_count(&cpus);
	if (!err && (contexts & TIMER_USER & ~state->kernel.contexts))
		err = timer_add_methods(step, state, &cpus, all, slots);
	if (!err && state->kernel.backend)
		err = timer_add_kernel(step, state, contexts, &cpus, slots);
	return err;
}

static int timer_configure(struct step *step)
{
	struct timer_state *state = step->state;
	const struct timer_backend *backend = state->kernel.backend;

	return backend && backend->configure ? backend->configure(step, &state->kernel) : 0;
}

static int timer_start(struct step *step)
{
	struct timer_state *state = step->state;

	return state->kernel.backend ? state->kernel.backend->start(step, &state->kernel) : 0;
}

static void timer_collect(struct step *step)
{
	struct timer_state *state = step->state;

	if (state->kernel.backend)
		state->kernel.backend->collect(step, &state->kernel);
}

/* A thread that had no CPU time from its first period until the stop of the step, @now_ns, has missed
 * all. */
static void timer_count_starved(struct step *step, const struct timer_thread *t, int number,
				int64_t now_ns)
{
	const struct series_info *info = &step->series[number].info;
	int64_t late_ns = now_ns - step->start_ns - info->first_due_ns;
	int64_t periods;

	if (!step->workers[info->thread].starved || !info->interval_ns || late_ns < 0)
		return;
	periods = late_ns / info->interval_ns + 1;
	series_missed(&step->series[number], periods < t->periods ? periods : t->periods);
}

static void timer_stop(struct step *step)
{
	struct timer_state *state = step->state;
	int64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);

	for (int i = 0; i < state->count && step->opened; i++) {
		const struct timer_thread *t = &state->threads[i];

		timer_count_starved(step, t, t->latency, now_ns);
		if (t->dither >= 0)
			timer_count_starved(step, t, t->dither, now_ns);
	}
	if (state->kernel.backend && state->kernel.backend->stop)
		state->kernel.backend->stop(&state->kernel);
}

/* The methods and contexts that were not measured while others were. */
static int timer_finish(struct step *step)
{
	const struct timer_state *state = step->state;

	for (int i = 0; i < state->method_count; i++)
		if (state->refused[i].text[0])
			step_verdict_skipped(step, TIMER_ALL_MEASURED, &state->refused[i]);
	if (state->no_kernel.text[0])
		step_verdict_skipped(step, TIMER_ALL_CONTEXTS, &state->no_kernel);
	return 0;
}

static void timer_cleanup(struct step *step)
{
	struct timer_state *state = step->state;

	if (state->kernel.backend)
		state->kernel.backend->cleanup(&state->kernel);
}

const struct measurement timer_measurement = {
	.name = "timer",
	.summary = "latency of a periodic task: from its due time until it runs",
	.chapter = CHAPTER_TIMER,
	.contexts = "irq kernel user",
	.on_cobalt = timer_on_cobalt,
	.options = timer_options,
	.series = {
		{ "latency", "ns", "delay from the due time until the handler or task runs",
		  "due time", "its first clock reading",
		  "timer interrupt,handler,wake-up,switch,return to user" },
		{ "dither", "ns", "offset of each due time from its grid point", "grid point",
		  "due time", NULL },
	},
	.verdicts = {
		{ TIMER_ALL_MEASURED,
		  "a method that the kernel refuses is skipped, and the others are measured" },
		{ TIMER_ALL_CONTEXTS,
		  "a context that cannot be measured here is skipped, and the others are measured" },
		{ MODES_RULE, MODES_MEANING },
	},
	.evaluate = {
		{ "idle", "for=25s", "for=10m" },
		{ "sched:groups=4,cpu", "for=35s", "for=20m" },
	},
	.ways = timer_ways,
	.mark = &mark_samples,
	.state_size = sizeof(struct timer_state),
	.setup = timer_setup,
	.configure = timer_configure,
	.start = timer_start,
	.collect = timer_collect,
	.stop = timer_stop,
	.refused = timer_refused,
	.finish = timer_finish,
	.cleanup = timer_cleanup,
};
