// SPDX-License-Identifier: Apache-2.0
/* The interrupt source of a measurement, and its CPUs. */
#include "methods/interrupt.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#define INTERRUPT_RING_SECONDS 4
#define INTERRUPT_RING_MAX (1 << 16)

static int interrupt_check_interval(struct step *step, const struct interrupt *interrupt)
{
	const struct rtgauge_source *source = &interrupt->source;
	char reason[128], shortest[32], longest[32];
	int err = step_check_interval(step, interrupt->interval_ns);

	if (err)
		return err;
	if ((uint64_t)interrupt->interval_ns >= source->interval_min_ns &&
	    (uint64_t)interrupt->interval_ns <= source->interval_max_ns)
		return 0;
	snprintf(
		reason, sizeof(reason), "the source %s supports intervals from %s to %s",
		source->name,
		option_format_duration((int64_t)source->interval_min_ns, shortest,
				       sizeof(shortest)),
		option_format_duration((int64_t)source->interval_max_ns, longest, sizeof(longest)));
	return step_skip(step, reason, "give another interval");
}

/* A single source raises them for one CPU. */
static int interrupt_choose_cpus(struct step *step, struct interrupt *interrupt)
{
	int err = step_cpus(step, &interrupt->cpus);
	char text[16];
	int first;

	if (err || !(interrupt->source.flags & (RTGAUGE_SOURCE_EXCLUSIVE | RTGAUGE_SOURCE_LINES)))
		return err;
	first = cpulist_next(&interrupt->cpus, 0);
	memset(&interrupt->cpus, 0, sizeof(interrupt->cpus));
	cpulist_add(&interrupt->cpus, first);
	snprintf(text, sizeof(text), "%d", first);
	return option_effective(&step->options, "cpu", text);
}

int interrupt_choose(struct step *step, struct interrupt *interrupt)
{
	const struct option_set *options = &step->options;
	const char *gpio = option_text(options, "gpio");
	struct message why = { 0 };
	int err;

	interrupt->periods = interrupt->samples = INT64_MAX;
	if (gpio[0] &&
	    events_parse_gpio(gpio, interrupt->chip, &interrupt->output, &interrupt->input))
		return message_set(
			&step->msg, -EINVAL,
			"give the chip's label as gpiodetect shows it: 9030000.pl061:0:1",
			"'%s' is not of the form CHIP:OUTPUT:INPUT (two lines of one chip)", gpio);
	err = events_source(option_text(options, "source"), gpio, &interrupt->source, &why);
	if (err)
		return step_skip_for(step, &why);
	err = option_effective(&step->options, "source", interrupt->source.name);
	if (!err)
		err = interrupt_choose_cpus(step, interrupt);
	if (err || !option_known(options, "interval"))
		return err;
	interrupt->interval_ns = option_number(options, "interval");
	if (option_number(options, "for"))
		interrupt->periods = option_number(options, "for") / interrupt->interval_ns;
	if (option_number(options, "samples"))
		interrupt->samples = option_number(options, "samples");
	return interrupt_check_interval(step, interrupt);
}

struct rtgauge_setup interrupt_setup(const struct interrupt *interrupt, uint32_t kind,
				     uint32_t contexts, int cpu)
{
	struct rtgauge_setup setup = {
		.kind = kind,
		.source = interrupt->source.number,
		.cpu = (uint32_t)cpu,
		.contexts = contexts,
		.interval_ns = (uint64_t)interrupt->interval_ns,
		.events = interrupt->samples == INT64_MAX ? 0 : (uint64_t)interrupt->samples,
		.periods = interrupt->periods == INT64_MAX ? 0 : (uint64_t)interrupt->periods,
	};

	if (!(interrupt->source.flags & RTGAUGE_SOURCE_LINES))
		return setup;
	memcpy(setup.gpio_chip, interrupt->chip, sizeof(setup.gpio_chip));
	setup.gpio_output = interrupt->output;
	setup.gpio_input = interrupt->input;
	return setup;
}

int interrupt_add_series(struct step *step, const struct interrupt *interrupt, const char *name,
			 const char *context, int cpu, int thread, struct grid *grid)
{
	int64_t words = INTERRUPT_RING_SECONDS * NSEC_PER_SEC / interrupt->interval_ns + 1024;
	const struct series_info info = {
		.name = name,
		.context = context,
		.unit = "ns",
		.cpu = cpu,
		.thread = thread,
		.interval_ns = interrupt->interval_ns,
		.companion = -1,
		.labels = { { "source", interrupt->source.name } },
	};

	*grid = (struct grid){ .dither = -1,
			       .interval_ns = interrupt->interval_ns,
			       .limit_ns = INT64_MAX };
	if (words > INTERRUPT_RING_MAX)
		words = INTERRUPT_RING_MAX;
	grid->series = step_add_series(step, &info, (size_t)words);
	return grid->series < 0 ? grid->series : 0;
}

static void interrupt_fill(struct worker *worker)
{
	/* the table of workers may have grown since it was added */
	const struct worker *until = &worker->step->workers[(intptr_t)worker->state];

	while (!step_stopped(worker->step) && !atomic_load_acquire(&until->done))
		;
}

int interrupt_add_filler(struct step *step, int cpu, int until)
{
	int filler = step_add_worker(step, interrupt_fill, (void *)(intptr_t)until, cpu, 0);

	if (filler < 0)
		return filler;
	step->workers[filler].filler = true;
	return 0;
}

void interrupt_remark(struct step *step, const struct interrupt *interrupt)
{
	char text[160];

	if (!(interrupt->source.flags & RTGAUGE_SOURCE_FALLBACK))
		return;
	snprintf(
		text, sizeof(text),
		"the interrupts came from %s, a timer of the kernel: a fallback without a device or a line of its own",
		interrupt->source.name);
	step_message(step, clock_now_ns(CLOCK_MONOTONIC) - step->start_ns, text);
}

/* --- a state for each CPU --- */

struct events_session *interrupt_session(const struct interrupt *interrupt, int number)
{
	return (struct events_session *)(void *)(interrupt->states +
						 interrupt->size * (size_t)number);
}

int interrupt_setup_cpus(struct step *step, struct interrupt *interrupt, size_t size,
			 int (*add)(struct step *step, void *state, int cpu))
{
	const struct cpulist *cpus = &interrupt->cpus;
	int number = 0, err = interrupt_choose(step, interrupt);

	if (err)
		return err;
	interrupt->states = step_alloc(step, (size_t)cpulist_count(cpus), size);
	if (!interrupt->states)
		return -ENOMEM;
	interrupt->size = size;
	interrupt->count = cpulist_count(cpus);
	for (int i = 0; i < interrupt->count; i++)
		interrupt_session(interrupt, i)->fd = -1;
	for (int cpu = cpulist_next(cpus, 0); cpu >= 0 && !err; cpu = cpulist_next(cpus, cpu + 1))
		err = add(step, interrupt_session(interrupt, number++), cpu);
	return err;
}

int interrupt_start(struct step *step, const struct interrupt *interrupt,
		    void (*due)(void *state, int64_t first_ns))
{
	int err = 0;

	interrupt_remark(step, interrupt);
	for (int i = 0; i < interrupt->count && !err; i++) {
		struct events_session *session = interrupt_session(interrupt, i);
		int64_t first_ns =
			step_first_due_ns(step) + interrupt->interval_ns / interrupt->count * i;

		if (due)
			due(session, first_ns);
		err = events_start(step, session, first_ns);
	}
	return err;
}

int interrupt_finish(struct step *step, const struct interrupt *interrupt)
{
	for (int i = 0; i < interrupt->count; i++)
		events_account(step, interrupt_session(interrupt, i));
	return 0;
}

void interrupt_cleanup(struct step *step)
{
	struct interrupt *interrupt = step->state;

	for (int i = 0; i < interrupt->count; i++)
		events_close(interrupt_session(interrupt, i));
}
