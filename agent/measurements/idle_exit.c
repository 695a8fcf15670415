// SPDX-License-Identifier: Apache-2.0
/*
 * Idle exit: latency of a timer when the CPU sleeps in each of its sleep states, from the shallowest
 * to the deepest. docs/measurements/idle-exit.md says what exactly is timed. For each state the
 * agent permits exits as long as the kernel declares for it (/dev/cpu_dma_latency), and sleeps long
 * enough for the kernel to choose the deepest state that is permitted. The kernel's counts tell
 * whether it did.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/value.h"
#include "methods/ensemble.h"

/* Samples of a test loop. */
#define IDLE_LOOP 20
#define IDLE_STATES_MAX 16
#define IDLE_NAME 32
/* How many times the residency of a state the CPU sleeps: the kernel expects shorter sleeps. */
#define IDLE_RESIDENCIES 4
/* After the permission has changed, until the CPU has chosen again. */
#define IDLE_SETTLE_NS (2 * NSEC_PER_MSEC)
#define IDLE_LATENCY "/dev/cpu_dma_latency"
#define IDLE_ENTERED "every sleep state is entered"

struct idle_state {
	char name[IDLE_NAME];
	int number;
	bool disabled; /* by the user or the driver */
	int series;
	int64_t declared_us; /* exit latency */
	int64_t residency_us;
	int64_t entries;
	int64_t others; /* into another state */
	int64_t samples;
	int64_t sum_ns;
};

struct idle_exit {
	struct ensemble ensemble;
	struct idle_state states[IDLE_STATES_MAX];
	int count;
	int64_t samples;
	int64_t pause_ns;
	int32_t held_us; /* another program permits no longer exits; -1: none does */
};

static const struct option_info idle_options[] = {
	ENSEMBLE_FOR,
	{ "samples", OPTION_INTEGER, "200", 1, 1000000, NULL, "wake-ups from each sleep state" },
	ENSEMBLE_CPU,
	ENSEMBLE_PRIORITY,
	{ "pause", OPTION_DURATION, "12ms", NSEC_PER_MSEC, 10 * NSEC_PER_SEC, NULL,
	  "minimum sleep before a wake-up, longer for states with a longer residency" },
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

static void idle_path(char *path, size_t room, int cpu, int state, const char *file)
{
	snprintf(path, room, "/sys/devices/system/cpu/cpu%d/cpuidle/state%d/%s", cpu, state, file);
}

/* 0 where the kernel does not say. */
static int64_t idle_number(int cpu, int state, const char *file)
{
	char path[96], text[VALUE_MAX];

	idle_path(path, sizeof(path), cpu, state, file);
	return value_get(path, text, NULL) ? 0 : strtoll(text, NULL, 10);
}

/* Entries so far into @state, and into the other ones. */
static int64_t idle_entries(const struct idle_exit *x, const struct idle_state *state,
			    int64_t *others)
{
	int64_t mine = 0;

	*others = 0;
	for (int i = 0; i < x->count; i++) {
		int64_t usage = idle_number(x->ensemble.cpu, x->states[i].number, "usage");

		if (&x->states[i] == state)
			mine = usage;
		else
			*others += usage;
	}
	return mine;
}

static bool idle_permit(struct idle_exit *x, int fd, const struct idle_state *state)
{
	const struct timespec settle = clock_from_ns(IDLE_SETTLE_NS);
	int32_t us = (int32_t)state->declared_us, now_us;

	if (write(fd, &us, sizeof(us)) != sizeof(us))
		return ensemble_fail(&x->ensemble, -errno, "cannot permit a sleep state");
	/* reads the minimum of what all programs permit */
	if (pread(fd, &now_us, sizeof(now_us), 0) == sizeof(now_us) && now_us < us)
		x->held_us = now_us;
	nanosleep(&settle, NULL);
	return true;
}

static void idle_loop_once(struct idle_exit *x, struct idle_state *state, int64_t count)
{
	struct ensemble *e = &x->ensemble;
	struct series *series = &e->step->series[state->series];
	int64_t sleep_ns = IDLE_RESIDENCIES * NSEC_PER_USEC * state->residency_us;
	int64_t others_before, others, entries;

	sleep_ns = sleep_ns > x->pause_ns ? sleep_ns : x->pause_ns;
	entries = idle_entries(x, state, &others_before);
	while (count-- > 0 && !ensemble_is_over(e)) {
		int64_t due_ns = clock_now_ns(CLOCK_MONOTONIC) + sleep_ns, late_ns;

		if (!step_sleep_until(e->step, due_ns))
			break;
		late_ns = clock_now_ns(CLOCK_MONOTONIC) - due_ns;
		/* its own: those of a test loop can be minutes apart */
		series_time(series, due_ns - e->step->start_ns);
		series_put(series, late_ns);
		state->samples++;
		state->sum_ns += late_ns;
	}
	state->entries += idle_entries(x, state, &others) - entries;
	state->others += others - others_before;
}

static void idle_loop(struct worker *worker)
{
	struct idle_exit *x = worker->state;
	struct ensemble *e = &x->ensemble;
	int fd = open(IDLE_LATENCY, O_RDWR | O_CLOEXEC);

	if (fd < 0) {
		ensemble_fail(e, -errno, "cannot open " IDLE_LATENCY);
		return;
	}
	for (int64_t done = 0; done < x->samples; done += IDLE_LOOP)
		for (int i = 0; i < x->count; i++) {
			int64_t left = x->samples - done;

			if (x->states[i].disabled)
				continue;
			if (!ensemble_goes_on(e) || !idle_permit(x, fd, &x->states[i]))
				goto out_close;
			idle_loop_once(x, &x->states[i], left < IDLE_LOOP ? left : IDLE_LOOP);
		}
out_close:
	close(fd);
}

/* --- setup --- */

static void idle_read_states(struct idle_exit *x)
{
	char path[96], text[VALUE_MAX];
	int cpu = x->ensemble.cpu;

	for (int i = 0; i < IDLE_STATES_MAX; i++) {
		struct idle_state *state = &x->states[x->count];

		idle_path(path, sizeof(path), cpu, i, "name");
		if (value_get(path, text, NULL))
			continue;
		text[IDLE_NAME - 1] = '\0';
		strcpy(state->name, text);
		state->number = i;
		state->disabled = idle_number(cpu, i, "disable") != 0;
		state->declared_us = idle_number(cpu, i, "latency");
		state->residency_us = idle_number(cpu, i, "residency");
		if (state->declared_us < 0 || state->declared_us > INT32_MAX)
			state->disabled = true;
		x->count++;
	}
}

static int idle_setup(struct step *step)
{
	struct idle_exit *x = step->state;
	int err;

	x->samples = option_number(&step->options, "samples");
	x->held_us = -1;
	x->pause_ns = option_number(&step->options, "pause");
	err = ensemble_setup(step, &x->ensemble, idle_loop, 0, 0);
	if (err)
		return err;
	/* the worker's state is the ensemble, which has to be first */
	_Static_assert(offsetof(struct idle_exit, ensemble) == 0, "ensemble_setup() passes it on");
	idle_read_states(x);
	if (x->count < 2)
		return step_skip(step, "the kernel cannot choose between sleep states for this CPU",
				 "measure on a machine with cpuidle: not on a virtual machine, "
				 "and not with idle=poll");
	if (access(IDLE_LATENCY, R_OK | W_OK))
		return step_skip(step, "the sleep states cannot be limited: " IDLE_LATENCY,
				 "run as root");
	for (int i = 0; i < x->count && err >= 0; i++) {
		struct idle_state *state = &x->states[i];

		if (state->disabled)
			continue;
		err = state->series = ensemble_series(&x->ensemble, "wake", "state", state->name,
						      ensemble_room(x->samples, 1), false);
	}
	return err < 0 ? err : 0;
}

static int idle_configure(struct step *step)
{
	return step->settings ? 0 :
				step_skip(step, "limiting the sleep states changes a setting",
					  "omit --keep-settings");
}

/* --- results --- */

static void idle_table(struct step *step, const struct idle_exit *x)
{
	static const struct step_column columns[] = {
		{ "state", "" },	{ "declared exit", "ns" }, { "residency", "ns" },
		{ "samples", "count" }, { "entries", "count" },	   { "other entries", "count" },
		{ "more", "ns" },
	};
	struct cbor *c = step_table_begin(step, "sleep states", columns, 7, x->count);
	int64_t first_ns = 0;

	for (int i = 0; i < x->count; i++) {
		const struct idle_state *state = &x->states[i];
		int64_t mean_ns = state->samples ? state->sum_ns / state->samples : 0;

		first_ns = first_ns ? first_ns : mean_ns;
		cbor_array(c, 7);
		cbor_text(c, state->name);
		cbor_int(c, NSEC_PER_USEC * state->declared_us);
		cbor_int(c, NSEC_PER_USEC * state->residency_us);
		cbor_int(c, state->samples);
		cbor_int(c, state->entries);
		cbor_int(c, state->others);
		cbor_int(c, state->samples ? mean_ns - first_ns : 0);
	}
	step_table_end(step);
}

static void idle_verdict(struct step *step, const struct idle_exit *x)
{
	const struct idle_state *rare = NULL, *untried = NULL, *disabled = NULL;
	char evidence[128];

	for (int i = 0; i < x->count; i++) {
		if (x->states[i].disabled)
			disabled = &x->states[i];
		else if (!rare && x->states[i].entries < (x->states[i].samples + 1) / 2)
			rare = &x->states[i];
		else if (!untried && !x->states[i].samples)
			untried = &x->states[i];
	}
	if (rare && x->held_us >= 0) {
		snprintf(evidence, sizeof(evidence),
			 "another program limits " IDLE_LATENCY " to %d us", (int)x->held_us);
		step_verdict(step, IDLE_ENTERED, "inconclusive", evidence,
			     "end it: fuser " IDLE_LATENCY " names it");
	} else if (rare) {
		snprintf(evidence, sizeof(evidence), "%s: %lld entries for %lld wake-ups",
			 rare->name, (long long)rare->entries, (long long)rare->samples);
		step_verdict(step, IDLE_ENTERED, "inconclusive", evidence,
			     "raise --pause, and keep interrupts and loads off this CPU");
	} else if (untried) {
		ensemble_not_tried(&x->ensemble, IDLE_ENTERED, untried->name);
	} else if (disabled) {
		snprintf(evidence, sizeof(evidence), "%s is disabled", disabled->name);
		step_verdict(step, IDLE_ENTERED, "skipped", evidence,
			     "echo 0 | tee /sys/devices/system/cpu/cpu*/cpuidle/state*/disable");
	} else {
		snprintf(evidence, sizeof(evidence), "%d states", x->count);
		step_verdict(step, IDLE_ENTERED, "pass", evidence, "");
	}
}

static int idle_finish(struct step *step)
{
	struct idle_exit *x = step->state;

	idle_table(step, x);
	if (!x->ensemble.error)
		idle_verdict(step, x);
	return x->ensemble.error;
}

const struct measurement idle_exit_measurement = {
	.name = "idle-exit",
	.summary = "timer latency for each sleep state from which the CPU wakes",
	.chapter = CHAPTER_KERNEL,
	.options = idle_options,
	.series = {
		{ "wake", "ns", "latency of a timer that wakes the CPU from a sleep state",
		  "the due time of the timer", "after clock_nanosleep()",
		  "exit from the sleep state,timer interrupt,wake-up,switch,return to user" },
	},
	.tables = {
		{ "sleep states",
		  "declared exit latency and residency, number of entries into this state and "
		  "into other states while it was measured, and mean latency above that of the "
		  "first state" },
	},
	.verdicts = {
		{ IDLE_ENTERED,
		  "the CPU entered each state, apart from disabled ones, in at least half "
		  "of the wake-ups" },
	},
	.sleeps = true,
	.not_on_cobalt = "the sleep states are those that Linux chooses",
	.state_size = sizeof(struct idle_exit),
	.setup = idle_setup,
	.configure = idle_configure,
	.finish = idle_finish,
};
