// SPDX-License-Identifier: Apache-2.0
/* Threads of a measurement on one CPU: a conductor, and the threads that it controls. */
#include "methods/ensemble.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/procstat.h"
#include "run/worker.h"

/* Time that a real-time conductor runs before it lets others have the CPU, and the part of it that
 * they get: more than the twentieth that RT throttling takes by default, where that could not be
 * lifted. */
#define ENSEMBLE_RUN_NS (50 * NSEC_PER_MSEC)
#define ENSEMBLE_REST_PART 16
#define ENSEMBLE_LOOK_NS (50 * NSEC_PER_USEC)

/* --- what differs between the cores --- */

#ifdef ON_COBALT
static void ensemble_futex_wait(uint32_t *word, uint32_t seen)
{
	cobalt_word_wait(word, seen, 0);
}

static void ensemble_futex_wake(uint32_t *word)
{
	cobalt_word_wake(word);
}

void ensemble_pause(struct ensemble *e)
{
	e->step->core->end(&e->step->workers[e->conductor].modes, false);
}

void ensemble_resume(struct ensemble *e)
{
	e->step->core->begin(&e->step->workers[e->conductor].modes);
}

/* Tasks of the core run before all of Linux, so also before a conductor that starts the next one. */
void ensemble_release(struct ensemble *e)
{
	atomic_add_release(&e->releases, 1);
	ensemble_futex_wake(&e->releases);
}

static bool ensemble_enter(struct ensemble_thread *thread)
{
	struct ensemble *e = thread->ensemble;

	thread->outside = -cobalt_become_task(e->policy, thread->priority);
	ensemble_post(&e->entered);
	if (thread->outside)
		return false;
	while (atomic_load_acquire(&e->releases) == thread->releases)
		ensemble_futex_wait(&e->releases, thread->releases);
	e->step->core->begin(&thread->modes);
	return true;
}

static void ensemble_leave(struct ensemble_thread *thread)
{
	thread->ensemble->step->core->end(&thread->modes, false);
}

static void ensemble_back(struct ensemble_thread *thread)
{
	thread->ensemble->step->core->begin(&thread->modes);
}

/* Until it is a task of the core. 0 or errno. */
static int ensemble_entered(struct ensemble_thread *thread, uint32_t entered)
{
	ensemble_wait(&thread->ensemble->entered, entered + 1);
	if (thread->outside) {
		pthread_join(thread->thread, NULL);
		thread->created = false;
	}
	return thread->outside;
}

static void ensemble_add_modes(struct ensemble_thread *thread)
{
	struct ensemble *e = thread->ensemble;
	struct core_modes *all = &e->step->workers[e->conductor].modes;

	all->switches += thread->modes.switches;
	all->faults += thread->modes.faults;
	for (int i = 0; i < CORE_REASONS; i++)
		all->reasons[i] += thread->modes.reasons[i];
}

int ensemble_asleep(pid_t tid)
{
	return cobalt_waits(tid);
}
#else
static void ensemble_futex_wait(uint32_t *word, uint32_t seen)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void ensemble_futex_wake(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

void ensemble_pause(struct ensemble *e)
{
	(void)e;
}

void ensemble_resume(struct ensemble *e)
{
	(void)e;
}

void ensemble_release(struct ensemble *e)
{
	(void)e;
}

static bool ensemble_enter(struct ensemble_thread *thread)
{
	(void)thread;
	return true;
}

static void ensemble_leave(struct ensemble_thread *thread)
{
	(void)thread;
}

static void ensemble_back(struct ensemble_thread *thread)
{
	(void)thread;
}

static int ensemble_entered(struct ensemble_thread *thread, uint32_t entered)
{
	(void)thread;
	(void)entered;
	return 0;
}

static void ensemble_add_modes(struct ensemble_thread *thread)
{
	(void)thread;
}

int ensemble_asleep(pid_t tid)
{
	struct procstat stat;
	int err = procstat_read(tid, &stat);

	return err ?: stat.state == 'S';
}
#endif

/* --- setup --- */

static int ensemble_policy(const struct step *step)
{
	static const int policies[] = { SCHED_FIFO, SCHED_RR, SCHED_OTHER };

	if (!option_known(&step->options, "policy"))
		return SCHED_FIFO;
	return policies[option_number(&step->options, "policy")];
}

static int ensemble_choose_cpu(struct step *step, int *chosen)
{
	struct cpulist cpus;
	char text[16];
	int err = step_cpus(step, &cpus);

	if (err)
		return err;
	for (int cpu = cpulist_next(&cpus, 0); cpu >= 0; cpu = cpulist_next(&cpus, cpu + 1))
		*chosen = cpu;
	snprintf(text, sizeof(text), "%d", *chosen);
	return option_effective(&step->options, "cpu", text);
}

/* Set the cost of each worker's net series. The header, which is written after this, records it. */
static int ensemble_prepare(struct worker *worker)
{
	struct ensemble *e = worker->state;
	struct step *step = worker->step;

	e->stamp_ps = stamp_cost_ps();
	e->stamp_ns = (e->stamp_ps + 500) / 1000;
	for (int i = 0; i < step->series_count; i++)
		if (step->series[i].info.net)
			step->series[i].info.stamp_ns = e->stamp_ns;
	return 0;
}

int ensemble_setup(struct step *step, struct ensemble *e, void (*loop)(struct worker *worker),
		   int levels, int threads)
{
	char reason[128];
	int err, worker;

	e->step = step;
	e->policy = ensemble_policy(step);
	e->priority = (int)option_number(&step->options, "priority");
	err = ensemble_choose_cpu(step, &e->cpu);
	if (err)
		return err;
	if (levels && !e->priority)
		return step_skip(step, "threads of several real-time priorities are needed",
				 "set a priority (--priority)");
	if (levels && e->priority <= levels) {
		snprintf(reason, sizeof(reason), "give a priority above %d", levels);
		return message_set(&step->msg, -EINVAL, reason, "priority %d is too low here",
				   e->priority);
	}
	if (levels && !step->core->may_have(e->priority)) {
		snprintf(reason, sizeof(reason),
			 "SCHED_FIFO with priority %d is not permitted here", e->priority);
		return step_skip(step, reason,
				 "run as root, or with the capability CAP_SYS_NICE, or a higher "
				 "limit of real-time priority (ulimit -r). A kernel with "
				 "CONFIG_RT_GROUP_SCHED also needs real-time runtime for the "
				 "control group (cpu.rt_runtime_us)");
	}
	worker = step_add_worker(step, loop, e, e->cpu, e->priority);
	if (worker < 0)
		return worker;
	e->conductor = worker;
	step->workers[worker].prepare = ensemble_prepare;
	step->stacks += (size_t)threads * worker_small_stack_size();
	return 0;
}

int ensemble_series(struct ensemble *e, const char *name, const char *label, const char *value,
		    int64_t samples, bool net)
{
	struct series_info info = {
		.name = name,
		.context = "user",
		.unit = "ns",
		.cpu = e->cpu,
		.companion = -1,
		.net = net,
		.labels = { { label, value } },
	};

	return step_add_series(e->step, &info, ensemble_words(samples));
}

void ensemble_tested(struct ensemble *e, int series, int level)
{
	static const char names[][6] = {
		[SCHED_OTHER] = "other",
		[SCHED_FIFO] = "fifo",
		[SCHED_RR] = "rr",
	};
	struct series_info *info;

	if (series < 0)
		return;
	info = &e->step->series[series].info;
	info->tested = true;
	info->policy = names[e->policy];
	info->priority = e->policy == SCHED_OTHER ? 0 : e->priority - level;
}

/* --- the conductor --- */

void ensemble_loop(struct ensemble *e, int series)
{
	series_time(&e->step->series[series], clock_now_ns(CLOCK_MONOTONIC) - e->step->start_ns);
}

static bool ensemble_is_over_at(const struct ensemble *e, int64_t now_ns)
{
	int64_t for_ns = option_number(&e->step->options, "for");

	return e->error || step_stopped(e->step) || (for_ns && now_ns - e->start_ns >= for_ns);
}

bool ensemble_is_over(const struct ensemble *e)
{
	return ensemble_is_over_at(e, clock_now_ns(CLOCK_MONOTONIC));
}

/* The time begins with the first call, which therefore continues however short the time is. */
bool ensemble_goes_on(struct ensemble *e)
{
	int64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);

	if (!e->start_ns)
		e->start_ns = e->rested_ns = now_ns;
	if (ensemble_is_over_at(e, now_ns))
		return false;
	if (now_ns - e->rested_ns >= ENSEMBLE_RUN_NS) {
		e->step->core->rest((now_ns - e->rested_ns) / ENSEMBLE_REST_PART);
		e->rested_ns = clock_now_ns(CLOCK_MONOTONIC);
	}
	return true;
}

bool ensemble_fail(struct ensemble *e, int err, const char *what)
{
	if (!e->error)
		e->error = message_set(&e->step->msg, err,
				       err == -ETIMEDOUT ?
					       "end other real-time tasks on this CPU, or choose "
					       "another CPU (--cpu)" :
					       "raise the limits (ulimit -u, ulimit -l, pids.max "
					       "of the control group), or measure with fewer "
					       "threads",
				       "%s: %s", what, strerror(-err));
	return false;
}

void ensemble_not_tried(const struct ensemble *e, const char *rule, const char *part)
{
	char evidence[128];

	if (e->error)
		return;
	snprintf(evidence, sizeof(evidence), "%s was not tried: the step ended first", part);
	step_verdict(e->step, rule, "inconclusive", evidence, "give the step more time (--for)");
}

uint32_t ensemble_slept(uint32_t *preempted)
{
	struct rusage usage = { .ru_nvcsw = 0 };

	getrusage(RUSAGE_THREAD, &usage);
	if (preempted)
		*preempted = (uint32_t)usage.ru_nivcsw;
	return (uint32_t)usage.ru_nvcsw;
}

/* Sleeps and page faults of the calling thread since the counts stored in @thread. */
static void ensemble_count(struct ensemble_thread *thread)
{
	struct rusage usage = { .ru_nvcsw = 0 };

	getrusage(RUSAGE_THREAD, &usage);
	thread->slept = (uint32_t)usage.ru_nvcsw - thread->slept;
	thread->faults = (uint32_t)(usage.ru_minflt + usage.ru_majflt) - thread->faults;
}

bool ensemble_disturbed(const struct ensemble_thread *thread)
{
	return thread->slept > (uint32_t)thread->waits ? thread->faults :
							 thread->slept && ensemble_moved(thread);
}

int ensemble_move(struct ensemble_thread *thread, int cpu)
{
	struct cpulist one = { { 0 } };
	int err;

	cpulist_add(&one, cpu);
	ensemble_leave(thread);
	err = cpulist_apply(&one, 0);
	ensemble_back(thread);
	/* the wait for the other CPU belongs to the move */
	thread->slept = thread->faults = 0;
	ensemble_count(thread);
	return err;
}

static void *ensemble_main(void *arg)
{
	struct ensemble_thread *thread = arg;

	thread->tid = (pid_t)syscall(SYS_gettid);
	/* so that a busy CPU leaves them their slices; whether it is permitted or not */
	if (thread->ensemble->policy == SCHED_OTHER)
		setpriority(PRIO_PROCESS, 0, -20);
	if (!ensemble_enter(thread))
		return NULL;
	thread->slept = thread->faults = 0;
	ensemble_count(thread);
	thread->body(thread);
	ensemble_count(thread);
	ensemble_leave(thread);
	return NULL;
}

bool ensemble_start(struct ensemble_thread *thread)
{
	struct sched_param param = { .sched_priority = thread->priority };
	struct ensemble *e = thread->ensemble;
	uint32_t entered = atomic_load_acquire(&e->entered);
	pthread_attr_t attr;
	int err;

	ensemble_pause(e);
	thread->releases = e->releases;
	thread->modes = (struct core_modes){ 0 };
	pthread_attr_init(&attr);
	err = pthread_attr_setstacksize(&attr, worker_small_stack_size());
	err = err ?: pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	err = err   ?:
		      pthread_attr_setschedpolicy(
			      &attr, thread->priority ? thread->ensemble->policy : SCHED_OTHER);
	if (thread->ensemble->policy == SCHED_OTHER)
		param.sched_priority = 0;
	err = err ?: pthread_attr_setschedparam(&attr, &param);
	err = err ?: pthread_create(&thread->thread, &attr, ensemble_main, thread);
	pthread_attr_destroy(&attr);
	thread->created = !err;
	err = err ?: ensemble_entered(thread, entered);
	ensemble_resume(e);
	return !err || ensemble_fail(e, -err, "cannot start a thread");
}

bool ensemble_join(struct ensemble_thread *thread)
{
	struct ensemble *e = thread->ensemble;
	int64_t end_ns, left_ns;
	int err = 0;

	if (!thread->created)
		return true;
	ensemble_release(e);
	ensemble_pause(e);
	/* behind one that is stuck the others are not waited for a second each */
	left_ns = e->stuck ? 2 * NSEC_PER_MSEC : ENSEMBLE_PATIENCE_NS;
	end_ns = clock_now_ns(CLOCK_MONOTONIC) + left_ns;
	/* the C library's limit is a time of day, which may be set during the wait */
	do {
		int64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
		int64_t part_ns = left_ns < ENSEMBLE_PART_NS ? left_ns : ENSEMBLE_PART_NS;
		struct timespec until = clock_from_ns(clock_now_ns(CLOCK_REALTIME) + part_ns);

		err = pthread_timedjoin_np(thread->thread, NULL, &until);
		end_ns += ensemble_stalled(e, now_ns, part_ns);
		left_ns = end_ns - clock_now_ns(CLOCK_MONOTONIC);
	} while (err == ETIMEDOUT && left_ns > 0);
	ensemble_resume(e);
	thread->created = false;
	ensemble_add_modes(thread);
	if (!err)
		return true;
	e->stuck = e->step->stuck = true;
	if (!e->error)
		e->error = message_set(&e->step->msg, -err,
				       "another task kept the CPU busy: re-run on an idle machine",
				       "a thread of the measurement did not end within a second");
	return false;
}

static bool ensemble_look(struct ensemble *e, const uint32_t *word, uint32_t value, bool conductor)
{
	const struct timespec look = clock_from_ns(ENSEMBLE_LOOK_NS);
	int64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + ENSEMBLE_PATIENCE_NS;

	ensemble_release(e);
	while ((int32_t)(atomic_load_acquire(word) - value) < 0) {
		int64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);

		if (step_stopped(e->step) || now_ns > until_ns)
			return false;
		nanosleep(&look, NULL);
		until_ns += conductor ? ensemble_stalled(e, now_ns, ENSEMBLE_LOOK_NS) :
					ensemble_late(now_ns, ENSEMBLE_LOOK_NS);
	}
	return true;
}

bool ensemble_await(struct ensemble *e, const uint32_t *word, uint32_t value)
{
	return ensemble_look(e, word, value, true);
}

bool ensemble_await_below(struct ensemble *e, const uint32_t *word, uint32_t value)
{
	return ensemble_look(e, word, value, false);
}

#ifdef ON_COBALT
void ensemble_sleep_on(uint32_t *word, uint32_t seen, int64_t timeout_ns)
{
	cobalt_word_wait(word, seen, timeout_ns);
}
#else
/* Whatever size of time the C library has: the kernel's own struct with 64 bits. */
void ensemble_sleep_on(uint32_t *word, uint32_t seen, int64_t timeout_ns)
{
	const struct {
		int64_t tv_sec, tv_nsec;
	} timeout = { timeout_ns / NSEC_PER_SEC, timeout_ns % NSEC_PER_SEC };

	if (!timeout_ns) {
		ensemble_futex_wait(word, seen);
		return;
	}
#ifdef SYS_futex_time64
	const struct {
		long tv_sec, tv_nsec;
	} small = { (long)timeout.tv_sec, (long)timeout.tv_nsec };

	if (!syscall(SYS_futex_time64, word, FUTEX_WAIT_PRIVATE, seen, &timeout, NULL, 0) ||
	    errno != ENOSYS)
		return;
	/* a kernel before 5.1 */
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &small, NULL, 0);
#else
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &timeout, NULL, 0);
#endif
}
#endif

static bool ensemble_reached(const uint32_t *word, uint32_t value, uint32_t *seen)
{
	*seen = atomic_load_acquire(word);
	return (int32_t)(*seen - value) >= 0;
}

bool ensemble_await_posts(struct ensemble *e, uint32_t *word, uint32_t value)
{
	int64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + ENSEMBLE_PATIENCE_NS;
	uint32_t seen;

	ensemble_release(e);
	while (!ensemble_reached(word, value, &seen)) {
		int64_t now_ns = clock_now_ns(CLOCK_MONOTONIC), left_ns = until_ns - now_ns;

		if (step_stopped(e->step) || left_ns <= 0)
			return false;
		if (left_ns > ENSEMBLE_PART_NS)
			left_ns = ENSEMBLE_PART_NS;
		ensemble_sleep_on(word, seen, left_ns);
		until_ns += ensemble_stalled(e, now_ns, left_ns);
	}
	return true;
}

/* --- threads under test --- */

void ensemble_post(uint32_t *word)
{
	atomic_add_release(word, 1);
	ensemble_futex_wake(word);
}

void ensemble_wait(uint32_t *word, uint32_t value)
{
	uint32_t seen;

	while (!ensemble_reached(word, value, &seen))
		ensemble_sleep_on(word, seen, 0);
}

void ensemble_gate(uint32_t *gate)
{
	while (!atomic_load_acquire(gate))
		ensemble_futex_wait(gate, 0);
}

void ensemble_open(uint32_t *gate)
{
	atomic_store_release(gate, 1);
	ensemble_futex_wake(gate);
}

void ensemble_spin(int64_t duration_ns)
{
	int64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + duration_ns;

	while (clock_now_ns(CLOCK_MONOTONIC) < until_ns)
		;
}

int ensemble_change_priority(struct ensemble_thread *thread, int priority)
{
	struct sched_param param = { .sched_priority = priority };
	int policy = priority ? thread->ensemble->policy : SCHED_OTHER;

	if (policy == SCHED_OTHER)
		param.sched_priority = 0;
	return syscall(SYS_sched_setscheduler, 0, policy, &param) ? -errno : 0;
}
