// SPDX-License-Identifier: Apache-2.0
/* Functions that measurements call: series, workers, tables, verdicts, and the end of a step. */
#include "run/step.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/shared.h"
#include "run/drain.h"
#include "run/run.h"
#include "run/worker.h"

/* How long after the gate opens the first period is due. */
#define STEP_LEAD_NS (20 * NSEC_PER_MSEC)
#define STEP_PAGE 4096

int step_add_series(struct step *step, const struct series_info *info, size_t words)
{
	struct series *grown;
	int err;

	if (step->series_count == STEP_SERIES_MAX)
		return message_set(&step->msg, -E2BIG, "measure fewer CPUs or threads",
				   "more than %d series in one step", STEP_SERIES_MAX);
	grown = shared_grow(step->series, step->series_count, sizeof(*grown));
	if (grown)
		step->series = grown;
	err = grown ? series_init(&grown[step->series_count], step->series_count, info, words) :
		      -ENOMEM;
	if (err)
		return message_set(&step->msg, err, "measure fewer CPUs or threads",
				   "out of memory for the samples of %d series",
				   step->series_count + 1);
	return step->series_count++;
}

int step_add_worker(struct step *step, void (*loop)(struct worker *worker), void *state, int cpu,
		    int priority)
{
	struct worker *grown;

	if (step->worker_count == STEP_WORKERS_MAX)
		return message_set(&step->msg, -E2BIG, "measure fewer CPUs or threads",
				   "more than %d measuring threads", STEP_WORKERS_MAX);
	grown = shared_grow(step->workers, step->worker_count, sizeof(*grown));
	if (!grown)
		return message_set(&step->msg, -ENOMEM, "measure fewer CPUs or threads",
				   "out of memory for measuring thread %d", step->worker_count + 1);
	step->workers = grown;
	grown[step->worker_count] = (struct worker){
		.step = step,
		.loop = loop,
		.state = state,
		.cpu = cpu,
		.priority = priority,
		.number = step->worker_count,
		.start = { .policy = "" },
	};
	return step->worker_count++;
}

int step_add_foreign(struct step *step, pid_t tid, int cpu, int priority)
{
	int number = step_add_worker(step, NULL, NULL, cpu, priority);

	if (number < 0)
		return number;
	step->workers[number].foreign = true;
	step->workers[number].tid = tid;
	return number;
}

void step_foreign_done(struct step *step, int number)
{
	struct worker *worker = &step->workers[number];

	if (atomic_load_acquire(&worker->done))
		return;
	if (!worker->tid || !worker_look(worker, &worker->end))
		worker->end = worker->start;
	worker->ended_ns = clock_now_ns(CLOCK_MONOTONIC);
	atomic_store_release(&worker->done, 1);
}

int step_cpus(struct step *step, struct cpulist *cpus)
{
	struct cpulist online, allowed;
	char buf[256], list[4096];
	int err;

	err = cpulist_online(&online);
	if (!err)
		err = cpulist_allowed(&allowed);
	if (!err)
		err = cpulist_parse(cpus, option_text(&step->options, "cpu"));
	if (err)
		return message_set(&step->msg, err, "give a list such as 0-3,8, or all",
				   "cannot read the CPUs '%s': %s",
				   option_text(&step->options, "cpu"), strerror(-err));
	for (int cpu = cpulist_next(cpus, 0); cpu >= 0; cpu = cpulist_next(cpus, cpu + 1)) {
		if (!cpulist_has(&online, cpu))
			return message_set(&step->msg, -EINVAL, "use CPUs that are online",
					   "CPU %d is not online (online: %s)", cpu,
					   cpulist_format(&online, buf, sizeof(buf)));
		if (!cpulist_has(&allowed, cpu) && !cpulist_may_use(cpu))
			return message_set(
				&step->msg, -EINVAL,
				"use allowed CPUs, or change the affinity or cpuset of the caller",
				"this process cannot use CPU %d (allowed: %s)", cpu,
				cpulist_format(&allowed, buf, sizeof(buf)));
	}
	if (!cpulist_count(cpus))
		return message_set(&step->msg, -EINVAL, "give a list such as 0-3,8, or all",
				   "the list of CPUs is empty");
	return option_effective(&step->options, "cpu", cpulist_format(cpus, list, sizeof(list)));
}

int step_check_interval(struct step *step, int64_t interval_ns)
{
	int64_t for_ns = option_number(&step->options, "for");
	char interval[32], duration[32];

	if (!for_ns || for_ns >= interval_ns)
		return 0;
	return message_set(&step->msg, -EINVAL, "measure for longer, or at a shorter interval",
			   "an interval of %s does not fit into --for %s",
			   option_format_duration(interval_ns, interval, sizeof(interval)),
			   option_format_duration(for_ns, duration, sizeof(duration)));
}

void *step_alloc(struct step *step, size_t count, size_t size)
{
	struct run *run = run_of(step);
	void **grown = realloc(run->memory, (size_t)(run->memory_count + 1) * sizeof(*grown));
	size_t bytes;
	void *block = NULL;

	if (grown)
		run->memory = grown;
	if (grown && !__builtin_mul_overflow(count, size, &bytes) && bytes < SIZE_MAX / 2)
		block = aligned_alloc(STEP_PAGE, (bytes / STEP_PAGE + 1) * STEP_PAGE);
	if (!block) {
		message_set(&step->msg, -ENOMEM, "free memory, or measure less at once",
			    "out of memory");
		return NULL;
	}
	grown[run->memory_count++] = block;
	return memset(block, 0, bytes);
}

int step_skip(struct step *step, const char *reason, const char *remedy)
{
	return message_set(&step->msg, STEP_SKIPPED, remedy, "%s", reason);
}

int step_skip_for(struct step *step, const struct message *why)
{
	int err = step_skip(step, why->text, why->remedy);

	return why->command ? message_command(&step->msg, err, why->command) : err;
}

bool step_sleep_until(const struct step *step, int64_t until_ns)
{
	const struct timespec until = clock_from_ns(until_ns);

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		if (step_stopped(step))
			return false;
	return !step_stopped(step);
}

bool step_starved(struct step *step, int64_t now_ns)
{
	struct run *run = run_of(step);
	uint32_t now_ms = (uint32_t)(now_ns / NSEC_PER_MSEC);
	uint32_t late_ms = atomic_load_acquire(&run->late_ms);

	/* nothing was late for a while, or everything was stopped: the drain was not kept waiting */
	if ((int32_t)(now_ms - late_ms) >= STEP_LATE_MS)
		atomic_store_release(&run->drained_ms, now_ms);
	atomic_store_release(&run->late_ms, now_ms);
	if ((int32_t)(now_ms - atomic_load_relaxed(&run->drained_ms)) < STEP_STARVED_MS)
		return false;
	atomic_store_release(&run->starved, 1);
	atomic_store_release(&step->stop, STEP_STOP);
	return true;
}

void step_threshold(struct step *step, const struct series *series, int64_t value)
{
	if (!atomic_exchange(&run_of(step)->threshold_taken, 1)) {
		step->threshold_series = series->number;
		step->threshold_value = value;
		atomic_store_release(&step->threshold_hit, 1);
	}
	atomic_store_release(&step->stop, STEP_STOP);
}

void step_message(struct step *step, int64_t now_ns, const char *text)
{
	drain_message(run_of(step), now_ns, text);
}

struct cbor *step_table_begin(struct step *step, const char *name,
			      const struct step_column *columns, int column_count, int rows)
{
	struct cbor *c = stream_begin(&run_of(step)->stream);

	cbor_map(c, 3);
	cbor_put_text(c, "name", name);
	cbor_text(c, "columns");
	cbor_array(c, (size_t)column_count);
	for (int i = 0; i < column_count; i++) {
		cbor_map(c, 2);
		cbor_put_text(c, "name", columns[i].name);
		cbor_put_text(c, "unit", columns[i].unit);
	}
	cbor_text(c, "rows");
	cbor_array(c, (size_t)rows);
	return c;
}

void step_table_end(struct step *step)
{
	stream_end(&run_of(step)->stream, STREAM_TABLE);
}

const char *step_known_limitation(const struct measurement *measurement, const char *rule)
{
	const struct measurement_entry *known = measurement->known_limitations;

	for (; known && known->name; known++)
		if (!strcmp(known->name, rule))
			return known->meaning;
	return NULL;
}

static void step_put_verdict(struct step *step, const char *rule, const char *result,
			     const char *evidence, const char *remedy, const char *command)
{
	struct cbor *c = stream_begin(&run_of(step)->stream);

	cbor_map(c, command ? 5 : 4);
	cbor_put_text(c, "rule", rule);
	cbor_put_text(c, "result", result);
	cbor_put_text(c, "evidence", evidence);
	cbor_put_text(c, "remedy", strcmp(result, "pass") ? remedy : "");
	if (command)
		cbor_put_text(c, "command", command);
	stream_end(&run_of(step)->stream, STREAM_VERDICT);
	if (strcmp(result, "pass") && run_has_summary(run_of(step)))
		printf("%s: %s\n  %s\n", result, evidence, remedy);
	if (!strcmp(result, "fail") && !step_known_limitation(step->measurement, rule))
		run_of(step)->verdict_failed = true;
}

void step_verdict(struct step *step, const char *rule, const char *result, const char *evidence,
		  const char *remedy)
{
	step_put_verdict(step, rule, result, evidence, remedy, NULL);
}

void step_verdict_skipped(struct step *step, const char *rule, const struct message *why)
{
	step_put_verdict(step, rule, "skipped", why->text, why->remedy, why->command);
}

void step_end(struct run *run, const char *state, const char *reason, const char *remedy)
{
	if (!run->end_state) {
		run->end_state = state;
		snprintf(run->reason, sizeof(run->reason), "%s", reason);
		snprintf(run->remedy, sizeof(run->remedy), "%s", remedy);
	}
	atomic_store_release(&run->step.stop, STEP_STOP);
}

void step_fail(struct step *step, const char *reason, const char *remedy)
{
	step_end(run_of(step), "failed", reason, remedy);
}

void step_stop_is_end(struct step *step)
{
	struct run *run = run_of(step);

	if (!run->end_state || strcmp(run->end_state, "interrupted") || run->host_gone)
		return;
	run->end_state = NULL;
	step_end(run, "complete", "", "");
}

void step_drain(struct step *step)
{
	drain_samples(run_of(step), clock_now_ns(CLOCK_MONOTONIC) - step->start_ns);
}

int64_t step_first_due_ns(const struct step *step)
{
	return step->gate_ns + STEP_LEAD_NS;
}
