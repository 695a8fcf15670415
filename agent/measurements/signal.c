// SPDX-License-Identifier: Apache-2.0
/*
 * Signals: one sent to a thread that waits in sigwaitinfo(), and one sent to a thread with a
 * handler. docs/measurements/signal.md says what exactly is timed.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "methods/handover.h"

#define SIGNAL_ORDER "queued signals come by number, those of one number in the order sent"
#define SIGNAL_REMEDY "send signals of different numbers"
#define SIGNAL_GRANT                                                                         \
	"raise the limit of queued signals (ulimit -i), or end other programs of this user " \
	"that have signals pending"
#define SIGNAL_SENT 4

struct signal_object {
	pid_t pid;
	pid_t to[HANDOVER_WAYS]; /* threads */
	sigset_t sets[HANDOVER_WAYS];
	sigset_t open; /* what a thread blocks while it waits for its handler */
	struct sigaction before[HANDOVER_WAYS];
	int64_t handled_ns; /* the handler's first act */
	uint32_t handled[HANDOVER_WAYS];
};

#ifdef ON_COBALT
#define SIGNAL_KILL(pid, tid, number) syscall(COBALT_THREAD_KILL, tid, number)

static int signal_queue_to(pid_t tid, const siginfo_t *info)
{
	return syscall(COBALT_SIGQUEUE, tid, info->si_signo, &info->si_value) ? errno : 0;
}
#else
#define SIGNAL_KILL(pid, tid, number) syscall(SYS_tgkill, pid, tid, number)

static int signal_queue_to(pid_t tid, const siginfo_t *info)
{
	siginfo_t from = *info;

	from.si_pid = getpid();
	from.si_uid = getuid();
	return syscall(SYS_rt_tgsigqueueinfo, from.si_pid, tid, from.si_signo, &from) ? errno : 0;
}
#endif

static int signal_send(void *object, enum handover_way way)
{
	const struct signal_object *o = object;

	return SIGNAL_KILL(o->pid, o->to[way], SIGRTMIN + way) ? errno : 0;
}

static int signal_wait(void *object, enum handover_way way)
{
	const struct signal_object *o = object;
	siginfo_t info;

	while (sigwaitinfo(&o->sets[way], &info) < 0)
		if (errno != EINTR)
			return errno;
	return 0;
}

static void signal_handler(int number, siginfo_t *info, void *context)
{
	int64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
	struct signal_object *o = info->si_value.sival_ptr;

	(void)context;
	if (info->si_code != SI_QUEUE)
		return;
	if (number == SIGRTMIN + HANDOVER_THERE)
		o->handled_ns = now_ns;
	atomic_store_release(&o->handled[number - SIGRTMIN], 1);
}

#ifndef ON_COBALT
/* It brings the object's address with it, so that the handler has it. */
static int signal_queue(void *object, enum handover_way way)
{
	const struct signal_object *o = object;
	siginfo_t info = { .si_code = SI_QUEUE };

	info.si_signo = SIGRTMIN + way;
	info.si_pid = o->pid;
	info.si_uid = getuid();
	info.si_value.sival_ptr = object;
	return syscall(SYS_rt_tgsigqueueinfo, o->pid, o->to[way], info.si_signo, &info) ? errno : 0;
}

/* The signal is let in by sigsuspend() only. */
static int signal_suspend(void *object, enum handover_way way)
{
	struct signal_object *o = object;

	while (!atomic_load_acquire(&o->handled[way]))
		sigsuspend(&o->open);
	atomic_store_release(&o->handled[way], 0);
	return 0;
}

static inline int64_t signal_handled(void *object)
{
	return ((struct signal_object *)object)->handled_ns;
}

HANDOVER_THREADS(signal_handler, handover_nothing, signal_queue, signal_suspend, handover_nothing,
		 signal_handled)
#endif

HANDOVER_KIND(signal_taken, signal_send, signal_wait)

static bool signal_open(struct handover *h)
{
	struct sigaction action = { .sa_flags = SA_SIGINFO, .sa_sigaction = signal_handler };
	struct signal_object *o = h->object;

	o->pid = getpid();
	o->to[HANDOVER_ALONE] = (pid_t)syscall(SYS_gettid);
	/* the masks of all threads are alike: they come from the conductor */
	pthread_sigmask(SIG_BLOCK, NULL, &o->open);
	sigfillset(&action.sa_mask);
	for (int i = 0; i < HANDOVER_WAYS; i++) {
		sigemptyset(&o->sets[i]);
		sigaddset(&o->sets[i], SIGRTMIN + i);
		sigdelset(&o->open, SIGRTMIN + i);
		atomic_store_release(&o->handled[i], 0);
		sigaction(SIGRTMIN + i, &action, &o->before[i]);
	}
	return true;
}

static void signal_close(struct handover *h)
{
	const struct signal_object *o = h->object;

	for (int i = 0; i < HANDOVER_WAYS; i++)
		sigaction(SIGRTMIN + i, &o->before[i], NULL);
}

static void signal_begin(struct handover *h, enum handover_role role)
{
	struct signal_object *o = h->object;

	o->to[role == HANDOVER_WAITER ? HANDOVER_THERE : HANDOVER_BACK] = h->threads[role].tid;
}

/* The conductor sends four to itself, of two numbers, or all of one; then it takes them. */
static void signal_judge(struct handover *h)
{
	static const char *const expected[] = { "second of 0", "fourth of 0", "first of 1",
						"third of 1", NULL };
	static const char *const names[] = { "first of 1", "second of 0", "third of 1",
					     "fourth of 0" };
	const struct timespec patience = { .tv_nsec = 100 * NSEC_PER_MSEC };
	bool ranked = option_number(&h->ensemble.step->options, "messages") == 0;
	struct handover_rule *rule = &h->rules[0];
	struct signal_object *o = h->object;
	siginfo_t info = { .si_code = SI_QUEUE };
	sigset_t set;
	int sent, err = 0;

	handover_open(h);
	sigemptyset(&set);
	rule->order.rule = SIGNAL_ORDER;
	rule->remedy = SIGNAL_REMEDY;
	for (sent = 0; sent < SIGNAL_SENT && !err; sent += !err) {
		info.si_signo = SIGRTMIN + (ranked && sent % 2 ? 0 : 1);
		info.si_value.sival_int = sent;
		sigaddset(&set, info.si_signo);
		err = signal_queue_to(o->to[HANDOVER_ALONE], &info);
	}
	if (err)
		handover_refused(rule, "a signal could not be queued", err, SIGNAL_GRANT);
	for (int i = 0; i < sent; i++)
		if (sigtimedwait(&set, &info, &patience) > 0)
			order_mark(&rule->order, names[info.si_value.sival_int % SIGNAL_SENT],
				   "is taken");
	rule->held = order_is(&rule->order, expected);
	handover_close(h);
}

static const struct option_info signal_options[] = {
	HANDOVER_OPTIONS,
	{ "method", OPTION_ENUMS, "sigwaitinfo,handler", 0, 0, "sigwaitinfo handler",
	  "how the thread takes the signal" },
	HANDOVER_MESSAGES,
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

static const struct handover_plan signal_plan = {
	.label = "method",
	.kinds = {
		HANDOVER_ROW("sigwaitinfo", signal_taken),
#ifdef ON_COBALT
		/* Linux runs handlers: the task would leave the core */
		{ "handler", NULL, NULL, NULL, NULL },
#else
		/* without a waiter, a handler would run within the call */
		{ "handler", signal_handler_sender_far, signal_handler_sender, signal_handler_waiter,
		  NULL },
#endif
	},
	.kind_count = 2,
	.object_size = sizeof(struct signal_object),
	.open = signal_open,
	.close = signal_close,
	.begin = signal_begin,
	.judge = signal_judge,
};

const struct measurement signal_measurement = {
	.name = "signal",
	.summary = "time to wake a thread with a signal",
	HANDOVER_MEASUREMENT(signal_plan),
	.options = signal_options,
	.series = {
		HANDOVER_SERIES("before the signal is sent",
				"after sigwaitinfo(), or in the handler"),
	},
	.tables = { HANDOVER_TABLES, { ORDER_TABLE, ORDER_MEANING } },
	.verdicts = {
		HANDOVER_VERDICT,
		{ SIGNAL_ORDER, "four signals of two numbers" },
	},
	.evaluate = { { "idle", "samples=500", "samples=50000" } },
};
