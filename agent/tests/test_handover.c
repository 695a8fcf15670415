// SPDX-License-Identifier: Apache-2.0
/* Tests of handover.c and its measurements: calls that are refused. Prints TAP. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

static int64_t test_now_ns(clockid_t id);

#define clock_now_ns test_now_ns
#include "methods/handover.h"
#include "run/step.h"

static long test_syscall(long number, ...);
static int64_t test_number(const struct option_set *set, const char *name);
static int test_semget(key_t key, int count, int flags);
static int test_semop(int set, struct sembuf *operations, size_t count);
static int test_timedwait(sem_t *sem, const struct timespec *until);
static bool test_await(struct ensemble *e, const uint32_t *word, uint32_t value);
static int test_asleep(pid_t tid);

#define sem_timedwait test_timedwait
#define ensemble_await test_await
#define ensemble_asleep test_asleep
#include "methods/handover.c"
#undef sem_timedwait
#undef ensemble_await
#undef ensemble_asleep
#undef clock_now_ns

#define option_number test_number
#define syscall test_syscall
#include "measurements/signal.c"
#undef syscall
#undef option_number
#define semget test_semget
#define semop test_semop
#include "measurements/sem_sysv.c"
#undef semget
#undef semop
static int test_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr);
#define pthread_mutex_init test_mutex_init
#include "measurements/mutex_handover.c"
#undef pthread_mutex_init

#include "tap.h"

static struct step step;
static struct handover h = { .ensemble.step = &step };

static int64_t test_number(const struct option_set *set, const char *name)
{
	return 0;
}

/* --- the conductor --- */

/* The other side never comes. The reason is the call, not a disturbed machine. */
static void test_failed_call(void)
{
	sem_init(&h.done, 0, 0);
	handover_done(&h, HANDOVER_SENDER, EAGAIN);
	tap_check(!handover_await(&h) && h.ensemble.error == -EAGAIN,
		  "the error of one side ends the wait: %s", step.msg.text);
	h.error[HANDOVER_SENDER] = 0;
	h.ensemble.error = 0;
	memset(&step.msg, 0, sizeof(step.msg));
	h.unmoved = EINVAL;
	h.other_cpu = 3;
	handover_done(&h, HANDOVER_WAITER, 0);
	tap_check(!handover_await(&h) && strstr(step.msg.text, "CPU 3") &&
			  strstr(step.msg.remedy, "online"),
		  "so does a waiter that is not on its CPU: %s", step.msg.text);
	h.unmoved = 0;
	h.ensemble.error = 0;
	for (int i = 0; i < HANDOVER_ROLES; i++)
		handover_done(&h, (enum handover_role)i, 0);
	tap_check(handover_await(&h) && !h.ensemble.error, "both came");
}

static int unsent(void *object, enum handover_way way)
{
	return EAGAIN;
}

static int endless(void *object, enum handover_way way)
{
	tap_check(false, "a wait for what was not sent");
	return 0;
}

/* The conductor does not wait for what it could not send. */
static void test_failed_send(void)
{
	const struct series_info info = { .interval_ns = 0 };
	static struct series series;

	series_init(&series, 0, &info, 64);
	step.series = &series;
	h.rounds = 10;
	tap_check(!handover_alone_loop(&h, handover_nothing, unsent, endless, handover_nothing) &&
			  h.ensemble.error == -EAGAIN && series.head == series.tail,
		  "a refused call of the conductor ends the step, without a sample");
	h.ensemble.error = 0;
	memset(&step.msg, 0, sizeof(step.msg));
	series_free(&series);
}

static int64_t stood_ns; /* so long has nothing run */
static bool stands_still;

static int64_t test_now_ns(clockid_t id)
{
	return clock_now_ns(id) + stood_ns;
}

static int test_timedwait(sem_t *sem, const struct timespec *until)
{
	if (stands_still) {
		stands_still = false;
		stood_ns += 10 * NSEC_PER_SEC;
		errno = ETIMEDOUT;
		return -1;
	}
	return sem_timedwait(sem, until);
}

/* The clocks have gone on while the process was stopped; the others come at once after that. */
static void test_standstill(void)
{
	stands_still = true;
	for (int i = 0; i < HANDOVER_ROLES; i++)
		handover_done(&h, (enum handover_role)i, 0);
	tap_check(handover_await(&h) && !h.ensemble.error && h.ensemble.stalls == 1,
		  "a standstill does not end the wait");
}

/* With the shortest interval a rest may be over before the kernel switches. */
static void test_sleeps(void)
{
	const struct series_info info = { .interval_ns = 0 };
	static struct series series;

	series_init(&series, 0, &info, 64);
	step.series = &series;
	h.send[0][HANDOVER_HIGHER] = -1;
	h.rounds = 10;
	h.interval_ns = 1;
	h.wakes = 9;
	handover_put(&h);
	tap_check(h.waits[0][HANDOVER_HIGHER] == 10 && h.slept[0][HANDOVER_HIGHER] == 9,
		  "waits in which it slept: %lld of %lld", (long long)h.slept[0][HANDOVER_HIGHER],
		  (long long)h.waits[0][HANDOVER_HIGHER]);
	h.wakes = (uint32_t)-1;
	handover_put(&h);
	tap_check(h.slept[0][HANDOVER_HIGHER] == 9, "a rest without a switch");
	h.interval_ns = 20 * NSEC_PER_MSEC;
	h.interval = clock_from_ns(h.interval_ns);
	tap_check(handover_rest(&h) == 1, "a long rest is a switch");
	h.interval_ns = 0;
	tap_check(!handover_rest(&h), "a rest of length 0 does not switch");
	series_free(&series);
}

/* --- signal --- */

static int queued, refused; /* calls that queue a signal, and the number of the refused one */

static long test_syscall(long number, ...)
{
	int pid, tid, signo;
	siginfo_t *info;
	va_list ap;

	if (number == SYS_gettid)
		return syscall(SYS_gettid);
	if (number != SYS_rt_tgsigqueueinfo)
		abort();
	if (++queued == refused) {
		errno = EAGAIN;
		return -1;
	}
	va_start(ap, number);
	pid = va_arg(ap, int);
	tid = va_arg(ap, int);
	signo = va_arg(ap, int);
	info = va_arg(ap, siginfo_t *);
	va_end(ap);
	return syscall(SYS_rt_tgsigqueueinfo, pid, tid, signo, info);
}

static void test_signals(void)
{
	const struct handover_rule *rule = &h.rules[0];
	sigset_t set, pending;

	sigemptyset(&set);
	for (int i = 0; i < HANDOVER_WAYS; i++)
		sigaddset(&set, SIGRTMIN + i);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	h.plan = &signal_plan;
	h.object = h.memory;
	signal_judge(&h);
	tap_check(rule->held && !rule->unknown, "four signals come in order");
	memset(h.rules, 0, sizeof(h.rules));
	queued = 0;
	refused = 3;
	signal_judge(&h);
	tap_check(rule->unknown && strstr(rule->grant, "ulimit -i"),
		  "an order of fewer signals is not judged: %s", rule->unknown ?: "");
	sigpending(&pending);
	tap_check(!sigismember(&pending, SIGRTMIN) && !sigismember(&pending, SIGRTMIN + 1),
		  "the others were taken");
}

/* --- waiters that are woken in turn --- */

static int refuse(void *object, enum handover_way way)
{
	return ENOMEM;
}

static void test_refused_wake_up(void)
{
	static struct handover_rule rule;
	const struct handover_queue queue = {
		.h = &h, .rule = &rule, .send = refuse, .script = "."
	};

	h.ensemble.error = 0;
	handover_wake_in_turn(&queue);
	tap_check(rule.unknown && strstr(rule.grant, "limits"), "a refused wake-up: %s, %s",
		  rule.unknown ?: "", rule.grant ?: "");
	step.stop = STEP_STOP;
	handover_wake_in_turn(&queue);
	tap_check(rule.unknown && strstr(rule.unknown, "stopped") && !rule.grant,
		  "a step that was stopped: %s", rule.unknown ?: "");
	step.stop = 0;
}

static sem_t posted;
static bool awaited;  /* without a result */
static bool sleepers; /* still sleep after that */

static bool test_await(struct ensemble *e, const uint32_t *word, uint32_t value)
{
	awaited = true;
	return false;
}

static int test_asleep(pid_t tid)
{
	return !awaited || sleepers;
}

static int post(void *object, enum handover_way way)
{
	return sem_post(&posted);
}

static int wait_for_post(void *object, enum handover_way way)
{
	return sem_wait(&posted);
}

/* A waiter that others keep from the CPU is not one that was not woken. */
static void test_kept(void)
{
	static const char *const names[] = { "high", NULL };

	for (int i = 0; i < 2; i++) {
		struct handover_rule rule = { .unknown = NULL };
		const struct handover_queue queue = {
			&h, &rule, wait_for_post, post, names, names, "0.",
		};

		sem_init(&posted, 0, 0);
		awaited = false;
		sleepers = i;
		handover_wake_in_turn(&queue);
		tap_check(!rule.held && !rule.unknown == sleepers, "a waiter that %s: %s",
			  sleepers ? "sleeps" : "is awake", rule.unknown ?: rule.why);
	}
}

/* The drain empties the rings all the time. */
static void test_ring(void)
{
	const struct handover before = h;
	int series;

	h.ensemble.step = &step;
	h.plan = &signal_plan;
	h.samples = 10000000;
	series = handover_add_series(&h, HANDOVER_WAITER, HANDOVER_HIGHER);
	tap_check(series >= 0 && step.series[series].mask < ENSEMBLE_RING_MAX,
		  "room for %lld of 10 million samples",
		  series < 0 ? -1LL : (long long)step.series[series].mask + 1);
	h = before;
}

/* --- nothing is left --- */

static void check_skipped(const char *reason)
{
	memset(&step.msg, 0, sizeof(step.msg));
	tap_check(handover_nothing_left(&h) == STEP_SKIPPED && strstr(step.msg.text, reason),
		  "%s: %s", step.msg.text, step.msg.remedy);
	memset(&step.msg, 0, sizeof(step.msg));
}

/* A signal's handler needs a waiter: there may be any number of CPUs. */
static void test_nothing_left(void)
{
	static const struct handover_plan plan = {
		.label = "method",
		.kinds = { { "handler", NULL, NULL, NULL, NULL } },
		.kind_count = 1,
	};
	static const struct handover_plan only_way = {
		.kinds = { { "handler", NULL, NULL, NULL, NULL } },
		.kind_count = 1,
	};
	const struct handover before = h;

	h.plan = &signal_plan;
	h.kind_wanted[0] = false;
	h.kind_wanted[1] = h.wanted[HANDOVER_NONE] = true;
	h.wanted[HANDOVER_OTHER_CPU] = false;
	h.other_cpu = -1;
	check_skipped("needs a thread that waits");
	h.wanted[HANDOVER_OTHER_CPU] = true;
	check_skipped("no other CPU");
	h.other_cpu = 3;
	h.kind_wanted[0] = true;
	h.plan = &plan;
	step.core = &core_linux;
	check_skipped("the Linux core does not support --method handler");
	h.plan = &only_way;
	check_skipped("the Linux core does not support this measurement");
	h = before;
}

/* --- mutex-handover --- */

/* As glibc on a kernel without CONFIG_FUTEX_PI. */
static int test_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr)
{
	int protocol;

	if (!pthread_mutexattr_getprotocol(attr, &protocol) && protocol == PTHREAD_PRIO_INHERIT)
		return ENOTSUP;
	return pthread_mutex_init(mutex, attr);
}

/* The other protocol is measured; without another one the step is skipped. */
static void test_no_inheritance(void)
{
	static const struct option_info table[] = {
		{ "protocol", OPTION_ENUMS, "none,inherit", 0, 0, "none inherit", "" },
		{ 0 },
	};
	const struct option_set options = step.options;
	const struct handover before = h;
	const char *measured;
	bool probed;

	h.plan = &mutex_plan;
	h.kind_wanted[0] = h.kind_wanted[1] = h.wanted[HANDOVER_EQUAL] = true;
	h.other_cpu = 3;
	if (option_set_init(&step.options, table))
		abort();
	probed = !handover_probe(&h);
	measured = option_text(&step.options, "protocol");
	tap_check(probed && !strcmp(measured, "none"),
		  "without priority inheritance, protocol %s is measured", measured);
	h.kind = 1;
	tap_check(!handover_add_part(&h, HANDOVER_EQUAL) && h.wake[1][HANDOVER_EQUAL] < 0,
		  "and the other one has no series");
	h.kind_wanted[0] = false;
	check_skipped("protocol inherit");
	option_set_free(&step.options);
	step.options = options;
	h = before;
}

/* --- sem-sysv --- */

static int test_semget(key_t key, int count, int flags)
{
	if (flags)
		return 1;
	errno = ENOENT;
	return -1;
}

/* Another agent, which found a set that no process had used yet, has removed it. */
static int test_semop(int set, struct sembuf *operations, size_t count)
{
	errno = EIDRM;
	return -1;
}

static void test_removed_set(void)
{
	memset(&step.msg, 0, sizeof(step.msg));
	h.ensemble.error = 0;
	h.object = h.memory;
	h.own_ipc = true; /* this process keeps its own */
	tap_check(!sem_sysv_open(&h) && h.ensemble.error == -EIDRM,
		  "a set that is removed ends the step: %s", step.msg.text);
	tap_check(!strstr(step.msg.remedy, "ulimit"), "no limit helps: %s", step.msg.remedy);
}

int main(void)
{
	test_failed_call();
	test_failed_send();
	test_standstill();
	test_sleeps();
	test_signals();
	test_refused_wake_up();
	test_kept();
	test_ring();
	test_nothing_left();
	test_no_inheritance();
	test_removed_set();
	return tap_end();
}
