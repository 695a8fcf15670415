// SPDX-License-Identifier: Apache-2.0
/*
 * The frame of every measurement: applies settings, starts loads and workers, drains until all is
 * done, and restores everything. The main thread is the draining thread. It has a low priority, and
 * if possible a CPU that is not measured.
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
#include "run/injection.h"
#include "run/modes.h"
#include "run/watch.h"
#include "run/worker.h"
#include "system/irq_priority.h"
#include "system/prepare.h"

/* A block closes after at most 250 ms; the rest is for being scheduled late. */
#define RUN_DRAIN_MS 200
/* Ordinary tasks, however many, must not keep the drain waiting; measuring threads still do. */
#define RUN_DRAIN_NICE (-15)
/* Time that a stalled reader has to take the rest once a stop was requested. */
#define RUN_STUCK_NS (2 * NSEC_PER_SEC)
/* Max memory that is allocated while memory is locked, without the stacks. */
#define RUN_SPARE_MEMORY (512 * 1024)
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
	sigaction(SIGXFSZ, &action, NULL); /* beyond ulimit -f, writing fails with an error */
	/* whatever the caller had blocked */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* --- before --- */

/* In a forked child: close what holds the agent's settings and its stream. @arg: the run. */
static void run_forked(void *arg)
{
	struct run *run = arg;

	if (run->step.settings)
		settings_after_fork(run->step.settings);
	if (run->stream.fd > STDERR_FILENO)
		close(run->stream.fd);
}

static void run_load_started(void *arg, pid_t pgid)
{
	struct run *run = arg;

	if (run->step.settings)
		settings_guard_group(run->step.settings, pgid);
	if (run->group_count < RUN_LOADS_MAX)
		run->groups[run->group_count++] = pgid;
}

static int run_parse_loads(struct run *run, struct cpulist *cpus)
{
	const char *text = run->request->load_cpus ? run->request->load_cpus : "all";
	int err = cpulist_parse(cpus, text);

	if (err)
		return message_set(&run->step.msg, -EINVAL, "give a list such as 0-3,8",
				   "'%s' is not a list of CPUs for the load", text);
	err = load_set_parse(&run->loads, run->request->loads, run->request->load_table,
			     &run->step.msg);
	if (!err && run->request->load_command)
		err = load_set_add_command(run->loads, &load_command, run->request->load_command,
					   run->request->load_command_root, &run->step.msg);
	return err;
}

/* A worker that is not pinned measures on all of them. */
static void run_measured_cpus(const struct run *run, struct cpulist *cpus)
{
	memset(cpus, 0, sizeof(*cpus));
	for (int i = 0; i < run->step.worker_count; i++)
		if (run->step.workers[i].cpu >= 0)
			cpulist_add(cpus, run->step.workers[i].cpu);
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
	err = settings_open(&run->step.settings, &undone, &run->step.msg);
	if (err == -EBUSY)
		run->cause = RUN_BUSY;
	if (!err && !run->step.measurement->observes)
		err = settings_prepare(run->step.settings, !run->step.measurement->sleeps,
				       &run->step.msg);
	if (!err && run->step.core->gravity)
		err = settings_set(run->step.settings, run->step.core->gravity,
				   run->step.core->no_gravity, &run->step.msg);
	run_measured_cpus(run, &measured);
	if (!err && (run->request->prepare || run->request->prepare_only))
		err = prepare_apply(run->step.settings, &measured, run->request->prepare_only,
				    &run->step.msg);
	if (!err && run->request->irq_priority)
		err = irq_priority_apply(run->step.settings, run->request->irq_priority,
					 &run->step.msg);
	if (!err)
		explain_open(run, &measured);
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
		drain_message(run, run_now_ns(run), "cannot end all processes of the load");
	for (int i = 0; run->step.settings && i < run->group_count; i++)
		settings_release_group(run->step.settings, run->groups[i]);
}

/* Restore everything. Reports what could not be restored, which stays in the journal. */
static void run_put_back(struct run *run)
{
	struct message msg = { 0 };
	const struct message *note;

	if (!run->step.settings)
		return;
	if (run->undone)
		drain_message(run, 0, "restored settings that a killed agent had left changed");
	note = settings_note(run->step.settings);
	if (note)
		drain_message(run, 0, note->text);
	if (settings_put_back(run->step.settings, &msg))
		drain_message(run, run_now_ns(run), msg.text);
	settings_close(run->step.settings);
}

/* Nothing may be paged out, or in, from here on; and no thread may spin for ever. */
static void run_lock_memory(struct run *run)
{
	struct rlimit spin = { .rlim_cur = RUN_SPIN_SOFT_US, .rlim_max = RUN_SPIN_HARD_US };
	size_t more = workers_stacks_size(run) + RUN_SPARE_MEMORY;
	void *probe;

	if (run->step.spin_ns) {
		spin.rlim_cur = (rlim_t)(run->step.spin_ns / NSEC_PER_USEC);
		spin.rlim_max = spin.rlim_cur + RUN_SPIN_HARD_US - RUN_SPIN_SOFT_US;
	}
	setrlimit(RLIMIT_RTTIME, &spin);
	if (mlockall(MCL_CURRENT | MCL_FUTURE)) {
		run->step.memory_unlocked = errno;
	} else {
		/* where the limit leaves no room for what is to come, that is worth more */
		probe = mmap(NULL, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			     0);
		if (probe != MAP_FAILED) {
			munmap(probe, more);
			return;
		}
		run->step.memory_unlocked = ENOMEM;
		munlockall();
	}
	/* at least the rings are there */
	for (int i = 0; i < run->step.series_count; i++)
		series_touch(&run->step.series[i]);
}

/* The drain keeps off the measured CPUs, if there are others. */
static void run_choose_drain_cpus(const struct run *run)
{
	struct cpulist others;

	if (cpulist_allowed(&others))
		return;
	for (int i = 0; i < run->step.worker_count; i++)
		if (run->step.workers[i].cpu >= 0)
			cpulist_remove(&others, run->step.workers[i].cpu);
	if (cpulist_count(&others))
		cpulist_apply(&others, 0);
}

/* The drain in front of ordinary tasks, but not of a measuring thread that is one itself. */
static void run_raise_drain(const struct run *run)
{
	for (int i = 0; i < run->step.worker_count; i++)
		if (!run->step.workers[i].refused && !run->step.workers[i].filler &&
		    !strcmp(run->step.workers[i].start.policy, "other"))
			return;
	setpriority(PRIO_PROCESS, 0, RUN_DRAIN_NICE);
}

static void run_effective_policies(struct run *run)
{
	char text[16];

	for (int i = 0; i < run->step.series_count; i++) {
		struct series_info *info = &run->step.series[i].info;

		if (info->thread < 0 || info->tested)
			continue;
		info->policy = run->step.workers[info->thread].start.policy;
		info->priority = run->step.workers[info->thread].start.priority;
	}
	for (int i = 0; i < run->step.worker_count; i++) {
		const struct worker *worker = &run->step.workers[i];

		if (worker->priority == worker->start.priority || worker->filler)
			continue;
		snprintf(text, sizeof(text), "%d", worker->start.priority);
		option_effective(&run->step.options, "priority", text);
		break;
	}
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
	step_end(run, "interrupted", got > 0 ? "stopped on request" : "the host disconnected", "");
}

static void run_drained(struct run *run, int64_t now_ns)
{
	atomic_store_release(&run->drained_ms, (uint32_t)(now_ns / NSEC_PER_MSEC));
}

/* SIGXCPU also comes from the limit on the CPU time of the whole process, which is inherited. */
static bool run_used_its_time(void)
{
	struct rlimit limit;
	struct rusage used;

	return !getrlimit(RLIMIT_CPU, &limit) && limit.rlim_cur != RLIM_INFINITY &&
	       !getrusage(RUSAGE_SELF, &used) &&
	       (rlim_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec + 1) >= limit.rlim_cur;
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
	if (stop_signal == SIGXCPU && run_used_its_time())
		step_end(run, "failed", "the agent has used the CPU time that it may have",
			 "raise the limit: ulimit -t unlimited");
	else if (stop_signal == SIGXCPU)
		step_end(run, "failed", "a measuring thread ran too long without sleeping",
			 "use a longer interval or a lower priority");
	else
		step_end(run, "interrupted", "stopped by a signal", "");
}

/*
 * The reader of the stream takes nothing. The measuring threads continue, and what finds no room in
 * their rings is counted as lost; but a stop is a stop.
 */
static bool run_wait_for_reader(void *arg, int64_t stalled_ns)
{
	struct run *run = arg;

	run_wait(run, 0);
	if (step_stopped(&run->step))
		workers_wake(run);
	return !run->asked_ns || stalled_ns < RUN_STUCK_NS ||
	       clock_now_ns(CLOCK_MONOTONIC) - run->asked_ns < RUN_STUCK_NS;
}

static void run_check_stream(struct run *run)
{
	char text[160];

	if (!run->stream.error)
		return;
	snprintf(text, sizeof(text), "cannot write the stream: %s", strerror(-run->stream.error));
	step_end(run, "failed", text, "free space where it is written, or keep its reader running");
}

static void run_check_processes(struct run *run, int64_t now_ns)
{
	struct message msg = { 0 };

	if (!workers_check(run, &msg))
		return;
	drain_message(run, now_ns, msg.text);
	step_end(run, "failed", msg.text, msg.remedy);
}

static void run_drain_loop(struct run *run)
{
	struct watch watch;

	watch_begin(&watch, run);
	while (!workers_done(run)) {
		int64_t now_ns;

		run_wait(run, RUN_DRAIN_MS);
		now_ns = clock_now_ns(CLOCK_MONOTONIC);
		watch_duties(&watch, run, now_ns);
		if (run->step.measurement->collect)
			run->step.measurement->collect(&run->step);
		drain_samples(run, now_ns - run->step.start_ns);
		explain_take(run, now_ns - run->step.start_ns);
		run_check_processes(run, now_ns - run->step.start_ns);
		run_check_stream(run);
		if (step_stopped(&run->step))
			workers_wake(run);
	}
}

/* --- after --- */

static void run_drain_rest(struct run *run, int64_t end_ns)
{
	char text[160];
	char value[48];

	drain_samples(run, end_ns);
	for (int i = 0; i < run->step.series_count; i++)
		series_flush(&run->step.series[i]);
	drain_samples(run, end_ns);
	explain_take(run, end_ns);
	if (atomic_load_acquire(&run->starved))
		step_end(run, "failed", "the measuring threads left no CPU time for anything else",
			 "measure at a longer interval, or with fewer threads on each CPU");
	if (!atomic_load_acquire(&run->step.threshold_hit))
		return;
	drain_threshold(run, end_ns);
	snprintf(text, sizeof(text), "stopped: %s exceeded the stop threshold",
		 option_format_us(run->step.threshold_value, value, sizeof(value)));
	step_end(run, "complete", text, "");
}

/* The grids begin a little after the gate opens, whatever the header took to write. */
static void run_place_grids(struct run *run)
{
	run->step.gate_ns = clock_now_ns(CLOCK_MONOTONIC) - run->step.start_ns;
	for (int i = 0; i < run->step.series_count; i++)
		run->step.series[i].info.first_due_ns += step_first_due_ns(&run->step);
}

/* What comes before the samples: the header, messages and the first look at the background. */
static void run_announce(struct run *run)
{
	char absent[256], note[512];

	drain_header(run);
	if (run->request->note)
		drain_message(run, 0, run->request->note);
	if (run->core_refused.text[0]) {
		snprintf(note, sizeof(note), "measured on Linux: %s", run->core_refused.text);
		drain_message(run, 0, note);
	}
	for (size_t at = 0; load_set_absent(run->loads, &at, absent, sizeof(absent));)
		drain_message(run, 0, absent);
	if (load_set_nice(run->loads) > 0) {
		snprintf(note, sizeof(note),
			 "the load runs with nice %d, which this user cannot lower: next to other "
			 "work, the load does less than with nice 0",
			 load_set_nice(run->loads));
		drain_message(run, 0, note);
	}
	stream_flush(&run->stream);
	watch_background(run, clock_now_ns(CLOCK_MONOTONIC), true);
	stream_flush(&run->stream);
}

/* The workers end, and what start() has started. The time since the start of the run. */
static int64_t run_end_workers(struct run *run)
{
	int64_t end_ns, ended_ns;

	workers_join(run);
	if (run->step.measurement->stop)
		run->step.measurement->stop(&run->step);
	end_ns = clock_now_ns(CLOCK_MONOTONIC) - run->step.start_ns;
	/* after their end the drain may have waited for the reader of the stream */
	ended_ns = workers_ended_ns(run);
	run->step.duration_ns =
		(ended_ns ? ended_ns - run->step.start_ns : end_ns) - run->step.gate_ns;
	return end_ns;
}

/* Bring the workers to the gate, and start what does not wait there. 0 or -errno. */
static int run_start(struct run *run)
{
	const struct measurement *m = run->step.measurement;
	int err;

	run_choose_drain_cpus(run);
	run_lock_memory(run);
	err = workers_start(run, run_forked);
	run_raise_drain(run);
	run_effective_policies(run);
	run_announce(run);
	run_place_grids(run);
	run_drained(run, clock_now_ns(CLOCK_MONOTONIC));
	run->late_ms = run->drained_ms;
	return err || !m->start ? err : m->start(&run->step);
}

static int run_measure(struct run *run)
{
	struct step *step = &run->step;
	int64_t end_ns;
	int err = background_open(&run->background);

	if (err)
		return message_set(&step->msg, err, "free some memory", "out of memory");
	run->ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (run->ended_fd < 0) {
		err = message_set(&step->msg, -errno, "allow more open files (ulimit -n)",
				  "cannot create an eventfd: %s", strerror(errno));
		goto out_background;
	}
	err = run_start(run);
	if (err)
		goto out_gate;
	mark_start(run);
	step->opened = true;
	workers_open_gate(run);
	run_drain_loop(run);
	end_ns = run_end_workers(run);
	watch_loads(run, step->start_ns + end_ns, true);
	watch_workers(run, end_ns);
	watch_starved(run, end_ns);
	goto out_drain;
out_gate:
	/* the workers that have started leave the gate without measuring */
	atomic_store_release(&step->stop, STEP_STOP);
	workers_open_gate(run);
	end_ns = run_end_workers(run);
out_drain:
	run_drain_rest(run, end_ns);
	watch_background(run, step->start_ns + end_ns, true);
	close(run->ended_fd);
	run->ended_fd = -1;
out_background:
	background_close(&run->background);
	return run_failure(err);
}

static int run_exit_code(const struct run *run, int err)
{
	if (err == STEP_SKIPPED)
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
	const struct measurement *m = run->step.measurement;

	if (m && m->cleanup && run->step.state)
		m->cleanup(&run->step);
	for (int i = 0; !run->step.stuck && i < run->memory_count; i++)
		free(run->memory[i]);
	free(run->memory);
	if (run->loads)
		load_set_free(run->loads);
	for (int i = 0; i < run->step.series_count; i++)
		series_free(&run->step.series[i]);
	shared_free_array(run->step.series, run->step.series_count, sizeof(*run->step.series));
	shared_free_array(run->step.workers, run->step.worker_count, sizeof(*run->step.workers));
	stream_free(&run->stream);
}

/* The trailer and the end of the file, which may be what cannot be written. */
static void run_close_stream(struct run *run)
{
	struct stream *stream = &run->stream;

	drain_trailer(run, run->step.duration_ns);
	if (stream->fd > STDERR_FILENO && close(stream->fd) && errno != EINTR && !stream->error)
		stream->error = -errno;
	if (stream->error && !strcmp(run->end_state, "complete")) {
		run->end_state = NULL;
		run_check_stream(run);
	}
}

/* The first failure is the one reported. */
static int run_close_mark(struct run *run, int err)
{
	struct message msg = { 0 };
	char note[MARK_NOTE];
	int failed = mark_close(run, note, &msg);

	if (note[0])
		drain_message(run, run_now_ns(run), note);
	if (err || !failed)
		return err;
	run->step.msg = msg;
	return run_failure(failed);
}

/* Bind to the core. 0, -errno, or STEP_SKIPPED where the core asked for cannot be used. */
static int run_choose_core(struct run *run)
{
	const struct core *cobalt = CORE_COBALT;
	bool asked = run->request->core == RUN_CORE_COBALT, marks = run->request->mark != NULL;
	const struct measurement *m = run->step.measurement;
	bool possible = cobalt && (m->on_cobalt || run->request->on_cobalt);
	struct message why = { 0 };
	char reason[192];
	bool zero, other;
	int err;

	if (run->request->core == RUN_CORE_LINUX || (!possible && !asked))
		return 0;
	if (!possible) {
		snprintf(reason, sizeof(reason), "it is not measured on the Cobalt core: %s",
			 m->not_on_cobalt);
		return step_skip(&run->step,
				 cobalt ? reason :
					  "this architecture does not have the Cobalt core",
				 "give --core linux");
	}
	zero = option_known(&run->step.options, "priority") &&
	       !option_number(&run->step.options, "priority");
	other = option_known(&run->step.options, "policy") &&
		!strcmp(option_text(&run->step.options, "policy"), "other");
	if (!asked && (marks || zero || other || (m->on_cobalt && !m->on_cobalt(&run->step))))
		return 0;
	if (marks)
		return message_set(&run->step.msg, -EINVAL, "omit --mark, or give --core linux",
				   "a task of the Cobalt core cannot set a line for --mark");
	if (zero || other)
		return message_set(&run->step.msg, -EINVAL,
				   other ? "omit --policy other, or give --core linux" :
					   "give a --priority of 1 or more, or --core linux",
				   "a task without real-time priority leaves the Cobalt core "
				   "with each system call");
	err = cobalt->bind(&run->step.core_revision, &why);
	if (!err)
		run->step.core = cobalt;
	if (!err && run->request->on_cobalt)
		run->step.measurement = run->request->on_cobalt;
	if (!err)
		return 0;
	if (asked)
		return step_skip_for(&run->step, &why);
	if (err != -ENOSYS)
		run->core_refused = why;
	return 0;
}

/* Everything that can be refused before anything is changed. */
static int run_accept(struct run *run, struct cpulist *load_cpus)
{
	const struct measurement *m;
	int err = run_choose_core(run);

	m = run->step.measurement;
	if (!err)
		err = run_parse_loads(run, load_cpus);
	if (!err)
		err = injection_check(run);
	if (!err)
		err = mark_parse(run);
	if (!err && m->state_size) {
		run->step.state = step_alloc(&run->step, 1, m->state_size);
		err = run->step.state ? 0 : -ENOMEM;
	}
	return err ? err : m->setup(&run->step);
}

static int run_carry_out(struct run *run)
{
	struct cpulist load_cpus;
	bool measured = false;
	int err = run_accept(run, &load_cpus);
	const struct measurement *m = run->step.measurement;

	if (err)
		goto out;
	err = mark_open(run);
	if (err)
		goto out_mark;
	err = run_settings(run);
	if (!err && m->configure)
		err = m->configure(&run->step);
	if (err)
		goto out_mark;
	err = load_set_start(run->loads, &load_cpus, run_forked, run_load_started, run,
			     &run->step.msg);
	if (err)
		goto out_loads;
	err = injection_start(run);
	if (err)
		goto out_loads;
	err = run_measure(run);
	measured = err != STEP_SKIPPED;
	injection_stop(run);
out_loads:
	run_stop_loads(run);
out_mark:
	err = run_close_mark(run, err);
	if (!err)
		modes_put(run);
	if (!err && m->finish)
		err = run_failure(m->finish(&run->step));
out:
	/* threads that wait for each other get no CPU time in a second */
	if (measured && err == -ETIMEDOUT)
		run->cause = RUN_DISTURBED;
	drain_begin(run);
	if (err && !run->end_state)
		run->command = run->step.msg.command;
	if (err)
		step_end(run, err == STEP_SKIPPED ? "skipped" : "failed", run->step.msg.text,
			 run->step.msg.remedy);
	step_end(run, "complete", "", "");
	drain_histograms(run, true);
	explain_close(run);
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
		run_say("out of memory", "free some memory");
		return code;
	}
	run->request = request;
	run->step.measurement = request->measurement;
	run->step.core = &core_linux;
	run->step.options = *options;
	run->ended_fd = -1;
	run->step.start_ns = clock_now_ns(CLOCK_MONOTONIC);
	run_signals();
	fd = run_open_output(request, &run->step.msg);
	if (!run->step.msg.text[0] && stream_init(&run->stream, fd))
		message_set(&run->step.msg, -ENOMEM, "free some memory", "out of memory");
	if (run->step.msg.text[0]) {
		run_say(run->step.msg.text, run->step.msg.remedy);
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
	run.step.start_ns = clock_now_ns(CLOCK_MONOTONIC);
	drain_header(&run);
	drain_trailer(&run, 0);
	err = run.stream.error;
	stream_free(&run.stream);
	return err;
}
