// SPDX-License-Identifier: Apache-2.0
/*
 * The frame of every measurement: settings, loads, workers, the drain until all is done, and
 * everything put back. The main thread is the draining thread: of low priority, and on a CPU that
 * is not measured where there is one.
 */
#include "run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/exitcode.h"
#include "base/shared.h"
#include "base/signals.h"
#include "loads/load.h"
#include "run/drain.h"
#include "run/worker.h"
#include "system/prepare.h"

/* A block closes after at most 250 ms; the rest is for being scheduled late. */
#define RUN_DRAIN_MS 200
/* Ordinary tasks, however many, must not keep the drain waiting; measuring threads still do. */
#define RUN_DRAIN_NICE (-15)
/* So long a reader that takes nothing may still take the rest once a stop was asked for. */
#define RUN_STUCK_NS (2 * NSEC_PER_SEC)
/* Of memory besides the stacks: the most that is allocated while memory is locked. */
#define RUN_SPARE_MEMORY (512 * 1024)
/* How long after the gate opens the first period is due. */
#define RUN_LEAD_NS (20 * NSEC_PER_MSEC)
/* A real-time thread that never sleeps is ended: softly, then by the kernel. */
#define RUN_SPIN_SOFT_US 1000000
#define RUN_SPIN_HARD_US 3000000

/* The stop flag: the only state outside of struct run, for the signal handlers. */
static volatile sig_atomic_t stop_signal;

static void run_interrupt(int signal)
{
	stop_signal = signal;
}

static void run_nothing(int signal)
{
	(void)signal;
}

static void run_signals(void)
{
	struct sigaction action = { .sa_handler = run_interrupt }, before;
	sigset_t none;

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGXCPU, &action, NULL);
	/* nohup(1) asks for it to be ignored */
	if (!sigaction(SIGHUP, NULL, &before) && before.sa_handler != SIG_IGN)
		sigaction(SIGHUP, &action, NULL);
	action.sa_handler = run_nothing;
	sigaction(SIGNAL_WAKE, &action, NULL);
	action.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &action, NULL);
	/* whatever the caller had blocked */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* --- for measurements --- */

int run_add_series(struct run *run, const struct series_info *info, size_t words)
{
	struct series *grown;
	int err;

	if (run->series_count == RUN_SERIES_MAX)
		return message_set(&run->msg, -E2BIG, "measure fewer CPUs or threads",
				   "more than %d series in one step", RUN_SERIES_MAX);
	grown = shared_grow(run->series, run->series_count, sizeof(*grown));
	if (grown)
		run->series = grown;
	err = grown ? series_init(&grown[run->series_count], run->series_count, info, words) :
		      -ENOMEM;
	if (err)
		return message_set(&run->msg, err, "measure fewer CPUs or threads",
				   "no memory for the samples of %d series", run->series_count + 1);
	return run->series_count++;
}

int run_add_worker(struct run *run, void (*loop)(struct worker *worker), void *state, int cpu,
		   int priority)
{
	struct worker *grown;

	if (run->worker_count == RUN_WORKERS_MAX)
		return message_set(&run->msg, -E2BIG, "measure fewer CPUs or threads",
				   "more than %d measuring threads", RUN_WORKERS_MAX);
	grown = shared_grow(run->workers, run->worker_count, sizeof(*grown));
	if (!grown)
		return message_set(&run->msg, -ENOMEM, "measure fewer CPUs or threads",
				   "no memory for %d threads", run->worker_count + 1);
	run->workers = grown;
	grown[run->worker_count] = (struct worker){
		.run = run,
		.loop = loop,
		.state = state,
		.cpu = cpu,
		.priority = priority,
		.number = run->worker_count,
		.start = { .policy = "" },
	};
	return run->worker_count++;
}

int run_add_foreign(struct run *run, pid_t tid, int cpu, int priority)
{
	int number = run_add_worker(run, NULL, NULL, cpu, priority);

	if (number < 0)
		return number;
	run->workers[number].foreign = true;
	run->workers[number].tid = tid;
	return number;
}

void run_foreign_done(struct run *run, int number)
{
	struct worker *worker = &run->workers[number];

	if (atomic_load_acquire(&worker->done))
		return;
	if (!worker->tid || !worker_look(worker, &worker->end))
		worker->end = worker->start;
	atomic_store_release(&worker->done, 1);
}

int run_cpus(struct run *run, struct cpulist *cpus)
{
	struct cpulist online, allowed;
	char buf[256];
	int err;

	err = cpulist_online(&online);
	if (!err)
		err = cpulist_allowed(&allowed);
	if (!err)
		err = cpulist_parse(cpus, option_text(&run->options, "cpu"));
	if (err)
		return message_set(&run->msg, err, "give a list such as 0-3,8, or all",
				   "cannot read the CPUs '%s': %s",
				   option_text(&run->options, "cpu"), strerror(-err));
	for (int cpu = cpulist_next(cpus, 0); cpu >= 0; cpu = cpulist_next(cpus, cpu + 1)) {
		if (!cpulist_has(&online, cpu))
			return message_set(&run->msg, -EINVAL, "choose among the CPUs online",
					   "CPU %d is not online (online: %s)", cpu,
					   cpulist_format(&online, buf, sizeof(buf)));
		if (!cpulist_has(&allowed, cpu))
			return message_set(
				&run->msg, -EINVAL,
				"choose among these, or change the affinity or cpuset of the caller",
				"CPU %d is not among those this process may use (%s)", cpu,
				cpulist_format(&allowed, buf, sizeof(buf)));
	}
	if (!cpulist_count(cpus))
		return message_set(&run->msg, -EINVAL, "give a list such as 0-3,8, or all",
				   "no CPU to measure on");
	return option_effective(&run->options, "cpu", cpulist_format(cpus, buf, sizeof(buf)));
}

int run_skip(struct run *run, const char *reason, const char *remedy)
{
	message_set(&run->msg, 0, remedy, "%s", reason);
	return RUN_SKIPPED;
}

bool run_sleep_until(const struct run *run, int64_t until_ns)
{
	const struct timespec until = clock_from_ns(until_ns);

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		if (run_stopped(run))
			return false;
	return !run_stopped(run);
}

bool run_starved(struct run *run, int64_t now_ns)
{
	uint32_t now_ms = (uint32_t)(now_ns / NSEC_PER_MSEC);
	uint32_t late_ms = atomic_load_acquire(&run->late_ms);

	/* when nothing was late for so long, or all was stopped, nobody was kept from running */
	if ((int32_t)(now_ms - late_ms) >= RUN_LATE_MS)
		atomic_store_release(&run->drained_ms, now_ms);
	atomic_store_release(&run->late_ms, now_ms);
	if ((int32_t)(now_ms - atomic_load_relaxed(&run->drained_ms)) < RUN_STARVED_MS)
		return false;
	atomic_store_release(&run->starved, 1);
	atomic_store_release(&run->stop, RUN_STOP);
	return true;
}

static void run_drained(struct run *run, int64_t now_ns)
{
	atomic_store_release(&run->drained_ms, (uint32_t)(now_ns / NSEC_PER_MSEC));
}

void run_threshold(struct run *run, const struct series *series, int64_t value)
{
	if (!atomic_exchange(&run->threshold_taken, 1)) {
		run->threshold_series = series->number;
		run->threshold_value = value;
		atomic_store_release(&run->threshold_hit, 1);
	}
	atomic_store_release(&run->stop, RUN_STOP);
}

struct cbor *run_table_begin(struct run *run, const char *name, const struct run_column *columns,
			     int column_count, int rows)
{
	struct cbor *c = stream_begin(&run->stream);

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

void run_table_end(struct run *run)
{
	stream_end(&run->stream, STREAM_TABLE);
}

/* For people, unless the stream goes where it would. */
static bool run_has_summary(const struct run *run)
{
	return !run->request->output || strcmp(run->request->output, "-");
}

void run_verdict(struct run *run, const char *rule, const char *result, const char *evidence,
		 const char *remedy)
{
	struct cbor *c = stream_begin(&run->stream);

	cbor_map(c, 4);
	cbor_put_text(c, "rule", rule);
	cbor_put_text(c, "result", result);
	cbor_put_text(c, "evidence", evidence);
	cbor_put_text(c, "remedy", strcmp(result, "pass") ? remedy : "");
	stream_end(&run->stream, STREAM_VERDICT);
	if (strcmp(result, "pass") && run_has_summary(run))
		printf("%s: %s\n  %s\n", result, evidence, remedy);
	if (!strcmp(result, "fail"))
		run->verdict_failed = true;
}

/* --- before --- */

/* In a forked child: close what holds the agent's settings and its stream. @arg: the run. */
static void run_forked(void *arg)
{
	struct run *run = arg;

	if (run->settings)
		settings_after_fork(run->settings);
	if (run->stream.fd > STDERR_FILENO)
		close(run->stream.fd);
}

static void run_load_started(void *arg, pid_t pgid)
{
	struct run *run = arg;

	if (run->settings)
		settings_guard_group(run->settings, pgid);
	if (run->group_count < RUN_LOADS_MAX)
		run->groups[run->group_count++] = pgid;
}

static int run_parse_loads(struct run *run, struct cpulist *cpus)
{
	const char *text = run->request->load_cpus ? run->request->load_cpus : "all";
	int err = cpulist_parse(cpus, text);

	if (err)
		return message_set(&run->msg, -EINVAL, "give a list such as 0-3,8",
				   "cannot read the CPUs of the load '%s'", text);
	err = load_set_parse(&run->loads, run->request->loads, run->request->load_table, &run->msg);
	if (!err && run->request->load_command)
		err = load_set_add_command(run->loads, &load_command, run->request->load_command,
					   run->request->load_command_root, &run->msg);
	return err;
}

/* -EINVAL and -ERANGE say that the command line is wrong, so nothing else may say that. */
static int run_failure(int err)
{
	return err == -EINVAL || err == -ERANGE ? -EIO : err;
}

/* A worker that is not pinned measures on all of them. */
static void run_measured_cpus(const struct run *run, struct cpulist *cpus)
{
	memset(cpus, 0, sizeof(*cpus));
	for (int i = 0; i < run->worker_count; i++)
		if (run->workers[i].cpu >= 0)
			cpulist_add(cpus, run->workers[i].cpu);
		else if (!cpulist_online(cpus))
			return;
}

static int run_settings(struct run *run)
{
	struct cpulist measured;
	int undone = 0;
	int err;

	if (run->request->keep_settings)
		return 0;
	err = settings_open(&run->settings, &undone, &run->msg);
	if (!err)
		err = settings_prepare(run->settings, &run->msg);
	run_measured_cpus(run, &measured);
	if (!err && run->request->prepare)
		err = prepare_apply(run->settings, &measured, &run->msg);
	run->undone = undone;
	return run_failure(err);
}

static void run_stop_loads(struct run *run)
{
	int err;

	if (!run->loads)
		return;
	err = load_set_stop(run->loads);
	if (err)
		drain_message(run, run->duration_ns, "processes of the load could not be ended");
	for (int i = 0; run->settings && i < run->group_count; i++)
		settings_release_group(run->settings, run->groups[i]);
}

/* All as it was before; what could not be put back is said, and the journal keeps it. */
static void run_put_back(struct run *run)
{
	struct message msg = { { 0 }, { 0 } };
	const struct message *note;

	if (!run->settings)
		return;
	if (run->undone)
		drain_message(run, 0, "settings that a killed agent had left were put back first");
	note = settings_note(run->settings);
	if (note)
		drain_message(run, 0, note->text);
	if (settings_put_back(run->settings, &msg))
		drain_message(run, run->duration_ns, msg.text);
	settings_close(run->settings);
}

/* Nothing may be paged out, or in, from here on; and no thread may spin for ever. */
static void run_lock_memory(struct run *run)
{
	struct rlimit spin = { .rlim_cur = RUN_SPIN_SOFT_US, .rlim_max = RUN_SPIN_HARD_US };
	size_t more = workers_stacks_size(run) + RUN_SPARE_MEMORY;
	void *probe;

	if (run->spin_ns) {
		spin.rlim_cur = (rlim_t)(run->spin_ns / NSEC_PER_USEC);
		spin.rlim_max = spin.rlim_cur + RUN_SPIN_HARD_US - RUN_SPIN_SOFT_US;
	}
	setrlimit(RLIMIT_RTTIME, &spin);
	if (mlockall(MCL_CURRENT | MCL_FUTURE)) {
		run->memory_unlocked = errno;
	} else {
		/* where the limit leaves no room for what is to come, that is worth more */
		probe = mmap(NULL, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			     0);
		if (probe != MAP_FAILED) {
			munmap(probe, more);
			return;
		}
		run->memory_unlocked = ENOMEM;
		munlockall();
	}
	/* at least the rings are there */
	for (int i = 0; i < run->series_count; i++)
		series_touch(&run->series[i]);
}

/* The drain keeps off the measured CPUs, if there are others. */
static void run_choose_drain_cpus(const struct run *run)
{
	struct cpulist others;

	if (cpulist_allowed(&others))
		return;
	for (int i = 0; i < run->worker_count; i++)
		if (run->workers[i].cpu >= 0)
			cpulist_remove(&others, run->workers[i].cpu);
	if (cpulist_count(&others))
		cpulist_apply(&others, 0);
}

/* The drain in front of ordinary tasks, but not of a measuring thread that is one itself. */
static void run_raise_drain(const struct run *run)
{
	for (int i = 0; i < run->worker_count; i++)
		if (!run->workers[i].refused && !run->workers[i].filler &&
		    !strcmp(run->workers[i].start.policy, "other"))
			return;
	setpriority(PRIO_PROCESS, 0, RUN_DRAIN_NICE);
}

static void run_effective_policies(struct run *run)
{
	char text[16];

	for (int i = 0; i < run->series_count; i++) {
		struct series_info *info = &run->series[i].info;

		if (info->thread < 0 || info->tested)
			continue;
		info->policy = run->workers[info->thread].start.policy;
		info->priority = run->workers[info->thread].start.priority;
	}
	for (int i = 0; i < run->worker_count; i++) {
		const struct worker *worker = &run->workers[i];

		if (worker->priority == worker->start.priority || worker->filler)
			continue;
		snprintf(text, sizeof(text), "%d", worker->start.priority);
		option_effective(&run->options, "priority", text);
		break;
	}
}

/* --- while measuring --- */

/* What is told once a second of a run's first minutes is told more rarely after so long a time, so
 * that a run of days does not grow by what surrounds its samples. */
#define RUN_DETAIL_NS (600 * NSEC_PER_SEC)
#define RUN_CLOCK_NS (10 * NSEC_PER_SEC)
#define RUN_COARSE_SNAPSHOT_NS (60 * NSEC_PER_SEC)

/* When duties are due next. */
struct run_clocks {
	int64_t second_ns; /* checks */
	int64_t report_ns; /* background activity, and the work of loads */
	int64_t clock_ns;
	int64_t snapshot_ns;
};

static bool run_is_due(int64_t *due_ns, int64_t now_ns, int64_t interval_ns)
{
	if (now_ns < *due_ns)
		return false;
	*due_ns = now_ns + interval_ns;
	return true;
}

static void run_background(struct run *run, int64_t now_ns, bool still)
{
	background_read(&run->background, still);
	background_put(&run->background, now_ns - run->start_ns, stream_begin(&run->stream));
	stream_end(&run->stream, STREAM_AMBIENCE);
}

static void run_work(void *arg, const char *load, const char *unit, uint64_t count, int64_t from_ns,
		     int64_t to_ns)
{
	drain_work(arg, load, unit, count, from_ns, to_ns);
}

static void run_setting_changed(void *arg, const char *name, const char *expected,
				const char *found)
{
	struct run *run = arg;

	drain_setting_changed(run, clock_now_ns(CLOCK_MONOTONIC) - run->start_ns, name, expected,
			      found);
	run->disturbed++;
}

static void run_end(struct run *run, const char *state, const char *reason, const char *remedy)
{
	if (!run->end_state) {
		run->end_state = state;
		snprintf(run->reason, sizeof(run->reason), "%s", reason);
		snprintf(run->remedy, sizeof(run->remedy), "%s", remedy);
	}
	atomic_store_release(&run->stop, RUN_STOP);
}

void run_fail(struct run *run, const char *reason, const char *remedy)
{
	run_end(run, "failed", reason, remedy);
}

static void run_check_policy(struct run *run, struct worker *worker,
			     const struct worker_placement *found, int64_t now_ns)
{
	char name[40], expected[32], is[32];

	if (!strcmp(found->policy, worker->start.policy) &&
	    (found->priority == worker->start.priority ||
	     (worker->raised && found->priority == worker->raised)))
		return;
	snprintf(name, sizeof(name), "policy of thread %d", worker->number);
	snprintf(expected, sizeof(expected), "%s:%d", worker->start.policy, worker->start.priority);
	snprintf(is, sizeof(is), "%s:%d", found->policy, found->priority);
	drain_setting_changed(run, now_ns, name, expected, is);
	run->disturbed++;
	worker->changed = true;
}

static void run_check_affinity(struct run *run, struct worker *worker,
			       const struct worker_placement *found, int64_t now_ns)
{
	struct cpulist online;
	char text[160];

	if (!found->strayed)
		return;
	worker->changed = true;
	if (!cpulist_online(&online) && !cpulist_has(&online, worker->cpu))
		snprintf(text, sizeof(text), "CPU %d went offline while it was measured",
			 worker->cpu);
	else
		snprintf(text, sizeof(text),
			 "the CPU affinity of measuring thread %d was changed underneath",
			 worker->number);
	drain_message(run, now_ns, text);
	run_end(run, "failed", text, "keep the CPUs and their affinity as they are, and run again");
}

/* A CPU that goes away, or somebody with chrt or taskset, changes a thread without its knowing. */
static void run_check_workers(struct run *run, int64_t now_ns)
{
	for (int i = 0; i < run->worker_count; i++) {
		struct worker *worker = &run->workers[i];
		struct worker_placement found;

		if (worker->changed)
			continue;
		if (atomic_load_acquire(&worker->done))
			found = worker->end;
		else if (!(worker->foreign ? worker->tid : worker->created) ||
			 !worker_look(worker, &found))
			continue;
		run_check_policy(run, worker, &found, now_ns);
		run_check_affinity(run, worker, &found, now_ns);
	}
}

static void run_check_loads(struct run *run, int64_t now_ns, bool told)
{
	struct message msg = { { 0 }, { 0 } };

	if (!run->loads || !load_set_check(run->loads, now_ns, told ? run_work : NULL, run, &msg))
		return;
	drain_load_event(run, now_ns - run->start_ns, msg.text);
	run_end(run, "failed", msg.text, msg.remedy);
}

static void run_once_a_second(struct run *run, struct run_clocks *clocks, int64_t now_ns)
{
	bool detailed = now_ns - run->start_ns < RUN_DETAIL_NS;
	bool told = run_is_due(&clocks->report_ns, now_ns, detailed ? NSEC_PER_SEC : RUN_CLOCK_NS);

	run_check_loads(run, now_ns, told);
	run_check_workers(run, now_ns - run->start_ns);
	if (run->settings)
		settings_verify(run->settings, run_setting_changed, run);
	if (told)
		run_background(run, now_ns, false);
	if (run_is_due(&clocks->clock_ns, now_ns, RUN_CLOCK_NS))
		drain_clock(run);
	if (drain_withholds(run) || run_is_due(&clocks->snapshot_ns, now_ns,
					       detailed ? RUN_CLOCK_NS : RUN_COARSE_SNAPSHOT_NS))
		drain_histograms(run);
}

static void run_asked(struct run *run)
{
	if (!run->asked_ns)
		run->asked_ns = clock_now_ns(CLOCK_MONOTONIC);
}

/* Orders of the host on stdin: "stop", or its end. */
static void run_control(struct run *run)
{
	char order[64];
	ssize_t got = read(STDIN_FILENO, order, sizeof(order));

	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	run->control_ended = true;
	run->host_gone = got <= 0;
	run_asked(run);
	run_end(run, "interrupted", got > 0 ? "stopped on request" : "the host went away", "");
}

/* Wait for the host, for a worker to end, for a signal, or until the time is up. */
static void run_wait(struct run *run, int timeout_ms)
{
	struct pollfd wait[] = {
		{ .fd = run->request->control && !run->control_ended ? STDIN_FILENO : -1,
		  .events = POLLIN },
		{ .fd = run->ended_fd, .events = POLLIN },
	};
	eventfd_t ended;
	int ready = poll(wait, 2, timeout_ms);

	run_drained(run, clock_now_ns(CLOCK_MONOTONIC));
	if (ready > 0 && wait[0].revents)
		run_control(run);
	if (ready > 0 && wait[1].revents)
		eventfd_read(run->ended_fd, &ended);
	if (!stop_signal)
		return;
	run_asked(run);
	if (stop_signal == SIGXCPU)
		run_end(run, "failed", "a measuring thread ran for a second without sleeping",
			"give it a longer interval or a lower priority");
	else
		run_end(run, "interrupted", "stopped by a signal", "");
}

/*
 * The reader of the stream takes nothing. The measuring threads go on, and what finds no room in
 * their rings is counted as lost; but a stop is a stop.
 */
static bool run_wait_for_reader(void *arg, int64_t stalled_ns)
{
	struct run *run = arg;

	run_wait(run, 0);
	if (run_stopped(run))
		workers_wake(run);
	return !run->asked_ns || stalled_ns < RUN_STUCK_NS ||
	       clock_now_ns(CLOCK_MONOTONIC) - run->asked_ns < RUN_STUCK_NS;
}

static void run_check_stream(struct run *run)
{
	char text[160];

	if (!run->stream.error)
		return;
	snprintf(text, sizeof(text), "the stream could not be written: %s",
		 strerror(-run->stream.error));
	run_end(run, "failed", text, "make room where it is written, or keep its reader alive");
}

static void run_check_processes(struct run *run, int64_t now_ns)
{
	struct message msg = { { 0 }, { 0 } };

	if (!workers_check(run, &msg))
		return;
	drain_message(run, now_ns, msg.text);
	run_end(run, "failed", msg.text, msg.remedy);
}

void run_stop_is_end(struct run *run)
{
	if (!run->end_state || strcmp(run->end_state, "interrupted") || run->host_gone)
		return;
	run->end_state = NULL;
	run_end(run, "complete", "", "");
}

void run_drain(struct run *run)
{
	drain_samples(run, clock_now_ns(CLOCK_MONOTONIC) - run->start_ns);
}

static void run_collect(struct run *run)
{
	if (run->request->measurement->collect)
		run->request->measurement->collect(run);
}

static void run_drain_loop(struct run *run)
{
	struct run_clocks clocks = { .second_ns = run->start_ns + NSEC_PER_SEC,
				     .clock_ns = run->start_ns + RUN_CLOCK_NS,
				     .snapshot_ns = run->start_ns + RUN_CLOCK_NS };

	while (!workers_done(run)) {
		int64_t now_ns;

		run_wait(run, RUN_DRAIN_MS);
		now_ns = clock_now_ns(CLOCK_MONOTONIC);
		if (run_is_due(&clocks.second_ns, now_ns, NSEC_PER_SEC))
			run_once_a_second(run, &clocks, now_ns);
		run_collect(run);
		drain_samples(run, now_ns - run->start_ns);
		run_check_processes(run, now_ns - run->start_ns);
		run_check_stream(run);
		if (run_stopped(run))
			workers_wake(run);
	}
}

/* --- after --- */

static void run_drain_rest(struct run *run, int64_t end_ns)
{
	char text[160];

	drain_samples(run, end_ns);
	for (int i = 0; i < run->series_count; i++)
		series_flush(&run->series[i]);
	drain_samples(run, end_ns);
	if (atomic_load_acquire(&run->starved))
		run_end(run, "failed", "the measuring threads left no CPU time for anything else",
			"measure at a longer interval, or with fewer threads on each CPU");
	if (!atomic_load_acquire(&run->threshold_hit))
		return;
	drain_threshold(run, end_ns);
	snprintf(text, sizeof(text), "stopped: %lld ns exceeded the stop threshold",
		 (long long)run->threshold_value);
	run_end(run, "complete", text, "");
}

/* The grids begin a little after the gate opens, whatever the header took to write. */
static void run_place_grids(struct run *run)
{
	run->gate_ns = clock_now_ns(CLOCK_MONOTONIC) - run->start_ns;
	for (int i = 0; i < run->series_count; i++)
		run->series[i].info.first_due_ns += run_first_due_ns(run);
}

int64_t run_first_due_ns(const struct run *run)
{
	return run->gate_ns + RUN_LEAD_NS;
}

static int run_measure(struct run *run)
{
	int64_t end_ns;
	int err = background_open(&run->background);

	if (err)
		return message_set(&run->msg, err, "free some memory", "out of memory");
	run->ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (run->ended_fd < 0)
		return message_set(&run->msg, -errno, "allow more open files (ulimit -n)",
				   "no eventfd: %s", strerror(errno));
	run_choose_drain_cpus(run);
	run_lock_memory(run);
	err = workers_start(run, run_forked);
	run_raise_drain(run);
	run_effective_policies(run);
	drain_header(run);
	if (run->request->note)
		drain_message(run, 0, run->request->note);
	stream_flush(&run->stream);
	if (err)
		atomic_store_release(&run->stop, RUN_STOP);
	run_background(run, clock_now_ns(CLOCK_MONOTONIC), true);
	stream_flush(&run->stream);
	run_place_grids(run);
	run_drained(run, clock_now_ns(CLOCK_MONOTONIC));
	run->late_ms = run->drained_ms;
	if (!err && run->request->measurement->start)
		err = run->request->measurement->start(run);
	if (err)
		atomic_store_release(&run->stop, RUN_STOP);
	mark_start(run);
	workers_open_gate(run);
	if (!err)
		run_drain_loop(run);
	workers_join(run);
	if (run->request->measurement->stop)
		run->request->measurement->stop(run);
	close(run->ended_fd);
	run->ended_fd = -1;
	end_ns = clock_now_ns(CLOCK_MONOTONIC) - run->start_ns;
	run->duration_ns = end_ns - run->gate_ns;
	if (!err) {
		run_check_loads(run, run->start_ns + end_ns, true);
		run_check_workers(run, end_ns);
	}
	run_drain_rest(run, end_ns);
	run_background(run, run->start_ns + end_ns, true);
	background_close(&run->background);
	return run_failure(err);
}

/* --- disturbed on purpose --- */

/* The CPU that is disturbed: the first one that is measured. */
static int run_disturbed_cpu(const struct run *run)
{
	for (int i = 0; i < run->worker_count; i++)
		if (run->workers[i].cpu >= 0)
			return run->workers[i].cpu;
	return 0;
}

/* Before anything is changed. */
static int run_check_disturb(struct run *run)
{
	if (!run->request->disturb)
		return 0;
	if (geteuid() != 0)
		return run_skip(run,
				"a disturbance is a kernel module, and root alone inserts those",
				"run it as root, or in the lab");
	return disturb_parse(&run->disturb, run->request->disturb, &run->msg);
}

static int run_start_disturb(struct run *run)
{
	int err;

	if (!run->request->disturb)
		return 0;
	err = disturb_insert(&run->disturb, run->request->disturb_module, run_disturbed_cpu(run),
			     run->settings, &run->msg);
	run->is_disturbed = !err;
	if (err == -ENOENT || err == -EPERM || err == -ENOSYS)
		return RUN_SKIPPED;
	return run_failure(err);
}

/* What was done in the name of the disturbance; one that never came makes the step worthless. */
static void run_stop_disturb(struct run *run)
{
	struct disturb_counts counts;
	char text[200];
	int err;

	if (!run->is_disturbed)
		return;
	run->is_disturbed = false;
	if (!disturb_read(&counts)) {
		snprintf(
			text, sizeof(text),
			"disturbed on purpose %lld times by %s (longest %lld ns, %lld periods without)",
			(long long)counts.done, run->disturb.kind, (long long)counts.longest_ns,
			(long long)counts.late);
		drain_message(run, run->duration_ns, text);
		if (!counts.done && run->duration_ns > 2 * run->disturb.period_ns)
			run_end(run, "failed", "the disturbance that was asked for never came",
				"leave it some time of its CPU: a lower load, or other threads");
	}
	err = disturb_remove(run->settings);
	if (!err)
		return;
	snprintf(text, sizeof(text), "the module " DISTURB_MODULE " could not be removed: %s",
		 strerror(-err));
	drain_message(run, run->duration_ns, text);
	run_end(run, "failed", text, "remove it by hand: rmmod " DISTURB_MODULE);
}

/* What may be refused comes before anything is changed. */
static int run_prepare(struct run *run)
{
	struct cpulist load_cpus;
	int err = run_parse_loads(run, &load_cpus);

	if (!err)
		err = run_check_disturb(run);
	if (!err)
		err = mark_parse(run);
	if (!err)
		err = run->request->measurement->setup(run);
	if (!err)
		err = mark_open(run);
	if (!err)
		err = run_settings(run);
	if (!err && run->request->measurement->configure)
		err = run->request->measurement->configure(run);
	if (!err)
		err = load_set_start(run->loads, &load_cpus, run_forked, run_load_started, run,
				     &run->msg);
	if (!err)
		err = run_start_disturb(run);
	return err;
}

static int run_exit_code(const struct run *run, int err)
{
	if (err == RUN_SKIPPED)
		return EXITCODE_SKIPPED;
	if (err == -EINVAL || err == -ERANGE)
		return EXITCODE_USAGE;
	if (err || !strcmp(run->end_state, "failed"))
		return EXITCODE_FAILED;
	if (!strcmp(run->end_state, "interrupted"))
		return EXITCODE_INTERRUPTED;
	return run->verdict_failed ? EXITCODE_VERDICT : EXITCODE_DONE;
}

static void run_say(const char *text, const char *remedy)
{
	fprintf(stderr, "rtgauge-agent: %s\n", text);
	if (remedy[0])
		fprintf(stderr, "  %s\n", remedy);
}

static int run_open_output(const struct run_request *request, struct message *msg)
{
	int fd;

	if (!request->output)
		return -1;
	if (!strcmp(request->output, "-"))
		return STDOUT_FILENO;
	fd = open(request->output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		message_set(msg, -errno, "choose a file that can be written",
			    "cannot write '%s': %s", request->output, strerror(errno));
	return fd;
}

static void run_free(struct run *run)
{
	const struct measurement *m = run->request->measurement;

	if (m && m->cleanup && run->state)
		m->cleanup(run);
	if (run->loads)
		load_set_free(run->loads);
	for (int i = 0; i < run->series_count; i++)
		series_free(&run->series[i]);
	shared_free_array(run->series, run->series_count, sizeof(*run->series));
	shared_free_array(run->workers, run->worker_count, sizeof(*run->workers));
	stream_free(&run->stream);
}

/* The trailer and the end of the file, which may be what cannot be written. */
static void run_close_stream(struct run *run)
{
	struct stream *stream = &run->stream;

	drain_trailer(run, run->duration_ns);
	if (stream->fd > STDERR_FILENO && close(stream->fd) && errno != EINTR && !stream->error)
		stream->error = -errno;
	if (stream->error && !strcmp(run->end_state, "complete")) {
		run->end_state = NULL;
		run_check_stream(run);
	}
}

/* What failed before is what is told. */
static int run_close_mark(struct run *run, int err)
{
	struct message msg = { { 0 }, { 0 } };
	char note[MARK_NOTE];
	int failed = mark_close(run, note, &msg);

	if (note[0])
		drain_message(run, run->duration_ns, note);
	if (err || !failed)
		return err;
	run->msg = msg;
	return run_failure(failed);
}

static int run_carry_out(struct run *run)
{
	const struct measurement *m = run->request->measurement;
	int err = run_prepare(run);
	bool measured = !err;

	if (!err)
		err = run_measure(run);
	measured = measured && err != RUN_SKIPPED;
	if (!run->stream.records)
		drain_header(run);
	err = run_close_mark(run, err);
	run_stop_disturb(run);
	run_stop_loads(run);
	if (!err && m->finish)
		err = run_failure(m->finish(run));
	if (err)
		run_end(run, err == RUN_SKIPPED ? "skipped" : "failed", run->msg.text,
			run->msg.remedy);
	run_end(run, "complete", "", "");
	drain_histograms(run);
	run_put_back(run);
	run_close_stream(run);
	if (measured && run_has_summary(run))
		summary_print(run);
	return run_exit_code(run, err);
}

int run_execute(const struct run_request *request, struct option_set *options)
{
	struct run *run = shared_alloc(sizeof(*run));
	int code = EXITCODE_FAILED;
	int fd;

	if (!run) {
		run_say("no memory for the step", "free some memory");
		return code;
	}
	run->request = request;
	run->options = *options;
	run->ended_fd = -1;
	run->start_ns = clock_now_ns(CLOCK_MONOTONIC);
	run_signals();
	fd = run_open_output(request, &run->msg);
	if (!run->msg.text[0] && stream_init(&run->stream, fd))
		message_set(&run->msg, -ENOMEM, "free some memory", "no memory for the stream");
	if (run->msg.text[0]) {
		run_say(run->msg.text, run->msg.remedy);
	} else {
		run->stream.wait_more = run_wait_for_reader;
		run->stream.wait_arg = run;
		code = run_carry_out(run);
		if (code != EXITCODE_DONE && code != EXITCODE_VERDICT)
			run_say(run->reason, run->remedy);
	}
	run_free(run);
	shared_free(run, sizeof(*run));
	return code;
}

int run_environment(int fd)
{
	const struct run_request request = { .loads = "idle", .run_id = "" };
	struct run run = { .request = &request, .end_state = "complete" };
	int err = stream_init(&run.stream, fd);

	if (err)
		return err;
	run.start_ns = clock_now_ns(CLOCK_MONOTONIC);
	drain_header(&run);
	drain_trailer(&run, 0);
	err = run.stream.error;
	stream_free(&run.stream);
	return err;
}
