// SPDX-License-Identifier: Apache-2.0
/*
 * Sustained interrupts: the shortest period at which no interrupt is lost, with a free-running
 * source. docs/measurements/irq-sustained.md describes the search.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "methods/interrupt.h"
#include "methods/sustain.h"

#define IRQ_SUSTAINED_FOUND "a period is found at which no interrupt is lost"
#define IRQ_SUSTAINED_HELD "no interrupt is lost at the given period"
#define IRQ_SUSTAINED_LONGEST_NS (100 * NSEC_PER_MSEC)
#define IRQ_SUSTAINED_STEP_NS 100

static const struct option_info irq_sustained_options[] = {
	{ "interrupts", OPTION_INTEGER, "1000000", 1000, 1000000000, NULL,
	  "interrupts of the last phase. The phases before it have 1000, 10000, ..." },
	{ "from", OPTION_DURATION, "100us", 1000, 100000000, NULL,
	  "period where the search begins" },
	{ "period", OPTION_DURATION, "0", 0, 100000000, NULL,
	  "try this period once, with --interrupts, and do not search; 0: search" },
	{ "cpu", OPTION_CPUS, "all", 0, 0, NULL,
	  "CPU that takes the interrupts: the first of this list" },
	{ "priority", OPTION_INTEGER, "80", 0, 99, NULL,
	  "SCHED_FIFO priority of the thread that waits for the result; 0: SCHED_OTHER" },
	INTERRUPT_OPTIONS,
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

struct irq_sustained {
	struct interrupt interrupt;
	struct sustain search;
	struct step *step;
	int fd;
	int cpu;
	int error;
	bool too_long; /* the next trial, for the module */
	int phases;
	int64_t counts[SUSTAIN_PHASES_MAX];
	int64_t shortest_ns[SUSTAIN_PHASES_MAX];
};

/* Again after a standstill, whose signal ends the call. */
static int irq_sustained_ask(const struct irq_sustained *state, struct rtgauge_sustain *sustain)
{
	int err;

	do {
		err = ioctl(state->fd, RTGAUGE_SUSTAIN, sustain) ? errno : 0;
	} while (err == EINTR && !step_stopped(state->step));
	return err;
}

static bool irq_sustained_attempt(void *arg, struct sustain_try *attempt)
{
	struct irq_sustained *state = arg;
	struct rtgauge_sustain sustain = {
		.source = state->interrupt.source.number,
		.cpu = (uint32_t)state->cpu,
		.period_ns = (uint64_t)attempt->period_ns,
		.count = (uint32_t)attempt->count,
		/* lost at this rate it is lost for sure */
		.lost_max = attempt->count > 1000 ? 1000 : 100,
	};

	if (state->interrupt.source.flags & RTGAUGE_SOURCE_LINES) {
		memcpy(sustain.gpio_chip, state->interrupt.chip, sizeof(sustain.gpio_chip));
		sustain.gpio_output = state->interrupt.output;
		sustain.gpio_input = state->interrupt.input;
	}
	state->too_long = attempt->period_ns >
			  RTGAUGE_SUSTAIN_SECONDS_MAX * NSEC_PER_SEC / attempt->count;
	if (state->too_long || step_stopped(state->step))
		return false;
	state->error = irq_sustained_ask(state, &sustain);
	if (state->error) {
		/* so fast that none came through for seconds: not a usable period */
		if (state->error != ETIME)
			return false;
		state->error = 0;
		attempt->silent = true;
		return true;
	}
	attempt->period_ns = (int64_t)sustain.period_ns;
	attempt->generated = (int64_t)sustain.generated;
	attempt->lost = (int64_t)sustain.lost;
	return true;
}

static void irq_sustained_loop(struct worker *worker)
{
	struct irq_sustained *state = worker->state;
	const struct option_set *options = &worker->step->options;
	int64_t interrupts = option_number(options, "interrupts");
	int64_t period_ns = option_number(options, "period");

	if (period_ns)
		sustain_try(&state->search, interrupts, &period_ns);
	else
		state->phases = sustain_phases(&state->search, interrupts, state->counts,
					       state->shortest_ns);
}

/* 0, STEP_SKIPPED, or -errno with the step's message. */
static int irq_sustained_check_period(struct step *step, const struct sustain *search)
{
	int64_t period_ns = option_number(&step->options, "period");
	char reason[128], shortest[32], longest[32];

	if (!period_ns || (period_ns >= search->shortest_ns && period_ns <= search->longest_ns))
		return 0;
	snprintf(reason, sizeof(reason), "the source supports periods from %s to %s",
		 option_format_duration(search->shortest_ns, shortest, sizeof(shortest)),
		 option_format_duration(search->longest_ns, longest, sizeof(longest)));
	return step_skip(step, reason, "give another --period");
}

static int irq_sustained_setup(struct step *step)
{
	struct irq_sustained *state = step->state;
	struct message why = { 0 };
	char text[128];
	int err;

	state->step = step;
	state->fd = -1;
	err = interrupt_choose(step, &state->interrupt);
	if (err)
		return err;
	if (!(state->interrupt.source.flags & RTGAUGE_SOURCE_FREE_RUNNING)) {
		snprintf(text, sizeof(text),
			 "the source %s is not free-running: it cannot lose an interrupt",
			 state->interrupt.source.name);
		return step_skip(step, text,
				 "use a source with a timer of its own: --source hpet or hrtimer");
	}
	if (!state->interrupt.source.sustain_min_ns) {
		snprintf(text, sizeof(text), "the free timers of the source %s are not periodic",
			 state->interrupt.source.name);
		return step_skip(step, text, "use the kernel's timer: --source hrtimer");
	}
	state->fd = events_open(&why);
	if (state->fd < 0)
		return step_skip_for(step, &why);
	state->cpu = cpulist_next(&state->interrupt.cpus, 0);
	snprintf(text, sizeof(text), "%d", state->cpu);
	err = option_effective(&step->options, "cpu", text);
	if (err)
		return err;
	state->search.attempt = irq_sustained_attempt;
	state->search.arg = state;
	state->search.from_ns = option_number(&step->options, "from");
	state->search.shortest_ns = (int64_t)state->interrupt.source.sustain_min_ns;
	state->search.longest_ns = IRQ_SUSTAINED_LONGEST_NS;
	state->search.step_ns = IRQ_SUSTAINED_STEP_NS;
	if (state->search.from_ns < state->search.shortest_ns)
		state->search.from_ns = state->search.shortest_ns;
	err = irq_sustained_check_period(step, &state->search);
	if (err)
		return err;
	err = step_add_worker(step, irq_sustained_loop, state, state->cpu,
			      (int)option_number(&step->options, "priority"));
	return err < 0 ? err : 0;
}

static int irq_sustained_start(struct step *step)
{
	struct irq_sustained *state = step->state;

	interrupt_remark(step, &state->interrupt);
	return 0;
}

static void irq_sustained_tables_put(struct step *step, const struct irq_sustained *state)
{
	static const struct step_column tried[] = {
		{ "interrupts", "" }, { "period", "ns" }, { "generated", "" }, { "lost", "" }
	};
	static const struct step_column found[] = { { "interrupts", "" }, { "period", "ns" } };
	struct cbor *c = step_table_begin(step, "sustained", tried, 4, state->search.count);

	for (int i = 0; i < state->search.count; i++) {
		cbor_array(c, 4);
		cbor_int(c, state->search.tries[i].count);
		cbor_int(c, state->search.tries[i].period_ns);
		if (state->search.tries[i].silent) {
			cbor_text(c, "not counted");
			cbor_text(c, "no more interrupts came");
			continue;
		}
		cbor_int(c, state->search.tries[i].generated);
		cbor_int(c, state->search.tries[i].lost);
	}
	step_table_end(step);
	c = step_table_begin(step, "shortest", found, 2, state->phases);
	for (int i = 0; i < state->phases; i++) {
		cbor_array(c, 2);
		cbor_int(c, state->counts[i]);
		cbor_int(c, state->shortest_ns[i]);
	}
	step_table_end(step);
}

/* The verdict on a single period. */
static void irq_sustained_judge_period(struct step *step, const struct sustain *search)
{
	const struct sustain_try *tried = &search->tries[0];
	char evidence[160];

	if (!search->count) {
		step_verdict(step, IRQ_SUSTAINED_HELD, "inconclusive", "the step was stopped",
			     "let the step run to its end");
		return;
	}
	if (tried->silent)
		snprintf(evidence, sizeof(evidence),
			 "with a period of %lld ns, the handler was not called for several seconds",
			 (long long)tried->period_ns);
	else
		snprintf(evidence, sizeof(evidence),
			 "with a period of %lld ns, %lld of %lld interrupts were lost",
			 (long long)tried->period_ns, (long long)tried->lost,
			 (long long)tried->generated);
	if (!tried->silent && tried->generated < tried->count)
		snprintf(evidence + strlen(evidence), sizeof(evidence) - strlen(evidence),
			 ", and the trial ended before the requested %lld",
			 (long long)tried->count);
	step_verdict(step, IRQ_SUSTAINED_HELD, tried->silent || tried->lost ? "fail" : "pass",
		     evidence, tried->silent || tried->lost ? "give a longer --period" : "");
}

static int irq_sustained_finish(struct step *step)
{
	const struct irq_sustained *state = step->state;
	int last = state->phases - 1;
	char evidence[160];

	irq_sustained_tables_put(step, state);
	if (state->error && !step_stopped(step))
		return message_set(&step->msg, -EIO, "check the kernel's log (dmesg)",
				   "the kernel module could not raise interrupts: %s",
				   strerror(state->error));
	if (state->too_long) {
		step_verdict(step,
			     option_number(&step->options, "period") ? IRQ_SUSTAINED_HELD :
								       IRQ_SUSTAINED_FOUND,
			     "inconclusive", "the next trial would take more than 24 hours",
			     "give fewer --interrupts");
		return 0;
	}
	if (option_number(&step->options, "period")) {
		irq_sustained_judge_period(step, &state->search);
		return 0;
	}
	if (last >= 0 && state->shortest_ns[last]) {
		snprintf(evidence, sizeof(evidence),
			 "with a period of %lld ns, none of %lld interrupts was lost",
			 (long long)state->shortest_ns[last], (long long)state->counts[last]);
		step_verdict(step, IRQ_SUSTAINED_FOUND, "pass", evidence, "");
		return 0;
	}
	snprintf(evidence, sizeof(evidence),
		 "the search ended without finding such a period (tries: %d)", state->search.count);
	step_verdict(step, IRQ_SUSTAINED_FOUND, "inconclusive", evidence,
		     "let it run to its end, with less load on the machine");
	return 0;
}

static void irq_sustained_cleanup(struct step *step)
{
	struct irq_sustained *state = step->state;

	if (state->fd >= 0)
		close(state->fd);
}

const struct measurement irq_sustained_measurement = {
	.name = "irq-sustained",
	.code = "IRQ-S-SUS",
	.summary = "shortest interrupt period without a lost interrupt",
	.needs = NEEDS_MODULE,
	.chapter = CHAPTER_INTERRUPTS,
	.contexts = "irq",
	.options = irq_sustained_options,
	.tables = {
		{ "sustained",
		  "every period tried, in order: interrupts generated, and how many were lost" },
		{ "shortest", "for each phase, the shortest period without a lost interrupt" },
	},
	.verdicts = {
		{ IRQ_SUSTAINED_FOUND, "the search ends in each phase" },
		{ IRQ_SUSTAINED_HELD,
		  "with --period: as many interrupts are handled as are generated" },
	},
	.evaluate = { { "idle", "interrupts=1000", "interrupts=1000000" } },
	.not_on_cobalt = "its interrupts and threads are those of Linux",
	.state_size = sizeof(struct irq_sustained),
	.setup = irq_sustained_setup,
	.start = irq_sustained_start,
	.finish = irq_sustained_finish,
	.cleanup = irq_sustained_cleanup,
};
