/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread hands over to another: shared by the measurements of wake-ups and messages. A sender
 * and a waiter take turns. The waiter sleeps for the interval, tells the sender that it is its turn
 * (BACK), and waits (THERE). The sender stamps, sends THERE, stamps, and waits for BACK. The waiter
 * stamps when its call has returned. A measurement provides the calls send and wait. The loops
 * below are templates, so that each is compiled with its own calls in it.
 */
#ifndef RTGAUGE_HANDOVER_H
#define RTGAUGE_HANDOVER_H

#include <semaphore.h>

#include "methods/ensemble.h"
#include "methods/order.h"

#define HANDOVER_LOOP 256 /* hand-overs of a test loop at most */
#define HANDOVER_LABELS 2 /* kinds of a measurement at most */
#define HANDOVER_RULES 3
#define HANDOVER_OBJECT 1280 /* the largest object of a measurement */
#define HANDOVER_QUEUE 3     /* waiters of different priorities */

/* The two directions. */
enum handover_way {
	HANDOVER_THERE, /* to the waiter: timed */
	HANDOVER_BACK,	/* to the sender: its turn */
	HANDOVER_ALONE, /* without a waiter: the conductor takes it itself */
	HANDOVER_WAYS,
};

enum handover_role { HANDOVER_SENDER, HANDOVER_WAITER, HANDOVER_ROLES };

/* Where the waiter is: values of the option and label `waiter`. */
enum handover_place {
	HANDOVER_HIGHER,
	HANDOVER_EQUAL,
	HANDOVER_OTHER_CPU,
	HANDOVER_NONE,
	HANDOVER_PLACES,
};

struct handover;

/* One way to hand over: what the templates below make of a send and a wait. */
struct handover_kind {
	const char *value; /* of the plan's label; "" where there is but one kind */
	/* of a waiter on another CPU, and of one on the same: then its call is not timed alone */
	void (*sender_far)(struct ensemble_thread *thread);
	void (*sender)(struct ensemble_thread *thread);
	void (*waiter)(struct ensemble_thread *thread); /* NULL: the core does not support it */
	bool (*alone)(struct handover *h);		/* NULL: impossible without a waiter */
};

/* A measurement. */
struct handover_plan {
	const char *label; /* of the kinds, and the option that chooses; NULL: one kind */
	struct handover_kind kinds[HANDOVER_LABELS];
	int kind_count;
	size_t object_size;
	/* 0, or errno where the C library or the kernel does not support a kind. May be NULL. */
	int (*probe)(int kind);
	/* In the conductor, before each part and after it, for h->kind. False: the step ends. */
	bool (*open)(struct handover *h);
	void (*close)(struct handover *h);
	/* In the sender and the waiter, before the first hand-over and after the last; may be NULL. */
	void (*begin)(struct handover *h, enum handover_role role);
	void (*end)(struct handover *h, enum handover_role role);
	/* In the conductor, after all has been measured: what is judged. May be NULL. */
	void (*judge)(struct handover *h);
};

/* A verdict with its evidence; handover_finish() says it. */
struct handover_rule {
	struct order order;
	bool held;
	const char *why;
	const char *unknown; /* why it cannot be judged, or NULL */
	char refused[96];    /* the text of the above, where a call was refused … */
	const char *grant;   /* … and what helps against it */
	const char *remedy;  /* NULL: a note only, without a verdict */
};

struct handover_queue;

/* A waiter of a queue. */
struct handover_queued {
	struct ensemble_thread thread;
	const struct handover_queue *queue;
	uint32_t tid;
};

/* One hand-over: when the sender's call began and returned, when the waiter's returned. */
struct handover_times {
	int64_t from_ns;
	int64_t sent_ns;
	int64_t woke_ns;
};

/* The fields of a hand-over come first, in as few pages as possible. */
struct handover {
	struct ensemble ensemble; /* the first: worker->state is the address of both */
	void *object;		  /* the measurement's own */
	int64_t interval_ns;
	struct timespec interval;
	int64_t gap_ns; /* the sender's pause, so that a waiter on another CPU is asleep */
	int rounds;	/* of this test loop; 0: the threads are to end */
	uint32_t wakes; /* of the waiter in this test loop: its voluntary switches in waits */
	sem_t go[HANDOVER_ROLES];
	sem_t done;
	unsigned char memory[HANDOVER_OBJECT] __attribute__((aligned(64))); /* the object */
	struct handover_times times[HANDOVER_LOOP];

	const struct handover_plan *plan;
	int64_t samples;
	int other_cpu; /* -1: there is none */
	int kind;      /* the one that is measured now */
	enum handover_place place;
	bool own_ipc;
	bool judged;
	uint32_t error[HANDOVER_ROLES]; /* errno of a call that failed */
	uint32_t unmoved;		/* errno: the waiter may not run on the other CPU */
	struct ensemble_thread threads[HANDOVER_ROLES];
	struct handover_queued queued[HANDOVER_QUEUE];
	uint32_t woken;				    /* of the waiters of a queue */
	int wake[HANDOVER_LABELS][HANDOVER_PLACES]; /* series, -1: none */
	int send[HANDOVER_LABELS][HANDOVER_PLACES];
	int64_t waits[HANDOVER_LABELS][HANDOVER_PLACES]; /* of the waiter in all */
	int64_t slept[HANDOVER_LABELS][HANDOVER_PLACES]; /* those in which it slept */
	bool wanted[HANDOVER_PLACES];
	bool kind_wanted[HANDOVER_LABELS];
	int kind_error[HANDOVER_LABELS]; /* what the plan's probe() gave */
	struct batch batches[HANDOVER_LABELS];
	struct handover_rule rules[HANDOVER_RULES];
};

/* clang-format off */
/* What all of these measurements have in common. */
#define HANDOVER_MEASUREMENT(its_plan)                                                        \
	.needs = NEEDS_PRIORITIES, .chapter = CHAPTER_HANDOVER,                           \
	.mark = &mark_spans, .method = &(its_plan), .state_size = sizeof(struct handover),    \
	.setup = handover_setup, .finish = handover_finish
#define HANDOVER_OPTIONS                                                                      \
	ENSEMBLE_FOR,                                                                         \
	{ "samples", OPTION_INTEGER, "1000", 1, 10000000, NULL, "hand-overs of each kind" },  \
	{ "cpu", OPTION_CPUS, "all", 0, 0, NULL,                                              \
	  "the last of this list is the sender's CPU, the first one is the other CPU" },              \
	ENSEMBLE_PRIORITY, ENSEMBLE_POLICY,                                                   \
	{ "interval", OPTION_DURATION, "100us", 0, 100 * NSEC_PER_MSEC, NULL,                 \
	  "how long the waiter sleeps before each hand-over" },                               \
	{ "waiter", OPTION_ENUMS, "higher,equal,other-cpu,none", 0, 0,                        \
	  "higher equal other-cpu none",                                                      \
	  "priority of the waiter on the sender's CPU, or its place on another" }
#define HANDOVER_SERIES(call, after)                                                          \
	{ "wake", "ns", "time from the call in one thread until the other runs", call, after, NULL },   \
	{ "send", "ns", "time of the call, where no waiter preempts it", call, "after it", NULL }
#define HANDOVER_TABLES                                                                       \
	{ BATCH_TABLE, BATCH_MEANING },                                                       \
	{ "sleeps", "number of waits in which the waiter slept before it was woken" }
#define HANDOVER_MESSAGES                                                                     \
	{ "messages", OPTION_ENUM, "ranked", 0, 0, "ranked equal",                            \
	  "priorities or types of the messages; equal: the test of their order fails" }
#define HANDOVER_ALL_MEASURED "every waiter asked for is measured"
#define HANDOVER_VERDICT                                                                      \
	{ HANDOVER_ALL_MEASURED, "skipped if there is no second CPU, or if the system does not support a value" }
#define HANDOVER_EVALUATE { "idle", "samples=1000", "samples=50000" }
#define HANDOVER_FIRST "the waiter of the highest priority is woken first"
#define HANDOVER_LATER "a higher waiter that came later is woken before lower ones"
#define HANDOVER_VERDICTS_WAITERS                                                             \
	{ HANDOVER_FIRST, "three threads wait, then they are woken one by one" },                   \
	{ HANDOVER_LATER, "two threads wait, one is woken, then one of higher priority arrives" }
/* clang-format on */
#define HANDOVER_FIFO_REMEDY "give the threads a real-time policy (SCHED_FIFO)"

/* For measurements without options of their own. */
extern const struct option_info handover_options[];

int handover_setup(struct step *step);
int handover_finish(struct step *step);

/* In open(): the step is skipped, or fails. Both give false. */
bool handover_skip(struct handover *h, const char *what, int err, const char *remedy);
bool handover_fail(struct handover *h, const char *what, int err);

/* --- in judge() --- */

/* The plan's open() and close(). */
bool handover_open(struct handover *h);
void handover_close(struct handover *h);
/* The rule cannot be judged, because a call failed: "@what: error". @remedy: what helps. */
void handover_refused(struct handover_rule *rule, const char *what, int err, const char *remedy);

/*
 * Let threads wait and wake them, one by one. @script: a digit lets the waiter of that number wait
 * (0: the highest priority, each next one lower), '.' wakes one. What @rule says is held when they
 * are woken in the order @expected. False: the step cannot continue.
 */
struct handover_queue {
	struct handover *h;
	struct handover_rule *rule;
	int (*wait)(void *object, enum handover_way way); /* until this thread is woken */
	int (*send)(void *object, enum handover_way way); /* wakes one */
	const char *const *names;
	const char *const *expected; /* NULL at the end */
	const char *script;
};
bool handover_wake_in_turn(const struct handover_queue *queue);

/*
 * The two rules of waiters by priority, HANDOVER_FIRST and HANDOVER_LATER, with three waiters of
 * the plan's THERE. @send and @wait: those of the plan. @remedy: what helps when one does not hold.
 */
void handover_judge_waiters(struct handover *h, int (*send)(void *object, enum handover_way way),
			    int (*wait)(void *object, enum handover_way way), const char *remedy);

/* The same without rules: reports the order in which they are woken, and demands nothing. */
void handover_tell_waiters(struct handover *h, int (*send)(void *object, enum handover_way way),
			   int (*wait)(void *object, enum handover_way way));

/*
 * System V objects outlive their process. So the conductor takes an IPC namespace of its own, which
 * ends with its last thread, however that ends. Where that is not permitted, they have the keys
 * from HANDOVER_IPC_KEY on; what is found there of a process that has gone is removed.
 */
#define HANDOVER_IPC_KEY 0x7c3eb0a4
#define HANDOVER_IPC_REMEDY                                                            \
	"use a kernel with CONFIG_SYSVIPC, raise kernel.msgmni or kernel.sem, or let " \
	"another agent end first"
void handover_own_ipc(struct handover *h);
/* Whether that process lives, and is not this one. */
bool handover_pid_lives(pid_t pid);

/* --- the templates --- */

#define HANDOVER_TEMPLATE static inline __attribute__((always_inline))

/* Hand-overs of the test loop that begins; 0: end. */
int handover_next(struct handover *h, enum handover_role role);
void handover_done(struct handover *h, enum handover_role role, int err);
/* Before the sender sends. */
void handover_pause(const struct handover *h);
/* Before the waiter's turn ends. Gives the voluntary switches in that time. */
uint32_t handover_rest(const struct handover *h);
/* Voluntary context switches of the calling thread. */
uint32_t handover_switches(void);
void handover_begin(struct ensemble_thread *thread, enum handover_role role);
void handover_end(struct ensemble_thread *thread, enum handover_role role);

/*
 * What a template is made of: @arm, before the clock is read and @send is called; @wait, then @stamp,
 * which tells when it was over, then @take, before the waiter continues. Each gives 0 or errno.
 */
typedef int handover_act(void *object, enum handover_way way);

HANDOVER_TEMPLATE int handover_nothing(void *object, enum handover_way way)
{
	(void)object;
	(void)way;
	return 0;
}

HANDOVER_TEMPLATE int64_t handover_now(void *object)
{
	(void)object;
	return clock_now_ns(CLOCK_MONOTONIC);
}

HANDOVER_TEMPLATE void handover_send_loop(struct ensemble_thread *thread, handover_act *arm,
					  handover_act *send, handover_act *wait,
					  handover_act *take, bool far)
{
	struct handover *h = thread->state;
	struct mark *mark = &h->ensemble.step->mark;
	void *object = h->object;
	int rounds, err = 0;

	handover_begin(thread, HANDOVER_SENDER);
	while ((rounds = handover_next(h, HANDOVER_SENDER))) {
		for (int i = 0; i < rounds && !err; i++) {
			err = wait(object, HANDOVER_BACK);
			take(object, HANDOVER_BACK);
			handover_pause(h);
			arm(object, HANDOVER_THERE);
			h->times[i].from_ns = mark_from_ns(mark);
			err = send(object, HANDOVER_THERE) ?: err;
			if (far)
				h->times[i].sent_ns = clock_now_ns(CLOCK_MONOTONIC);
		}
		handover_done(h, HANDOVER_SENDER, err);
	}
	handover_end(thread, HANDOVER_SENDER);
}

HANDOVER_TEMPLATE void handover_wait_loop(struct ensemble_thread *thread, handover_act *arm,
					  handover_act *send, handover_act *wait,
					  handover_act *take, int64_t (*stamp)(void *object))
{
	struct handover *h = thread->state;
	struct mark *mark = &h->ensemble.step->mark;
	void *object = h->object;
	int rounds, err = 0;

	handover_begin(thread, HANDOVER_WAITER);
	while ((rounds = handover_next(h, HANDOVER_WAITER))) {
		uint32_t others = handover_switches();

		for (int i = 0; i < rounds && !err; i++) {
			others += handover_rest(h);
			arm(object, HANDOVER_BACK);
			/* without its turn the sender would not send */
			err = send(object, HANDOVER_BACK) ?: wait(object, HANDOVER_THERE);
			h->times[i].woke_ns = stamp(object);
			mark_lower(mark);
			take(object, HANDOVER_THERE);
		}
		h->wakes = handover_switches() - others;
		handover_done(h, HANDOVER_WAITER, err);
	}
	handover_end(thread, HANDOVER_WAITER);
}

/* Without a waiter: the conductor sends and receives. */
HANDOVER_TEMPLATE bool handover_alone_loop(struct handover *h, handover_act *arm,
					   handover_act *send, handover_act *wait,
					   handover_act *take)
{
	struct series *series = &h->ensemble.step->series[h->send[h->kind][HANDOVER_NONE]];
	struct mark *mark = &h->ensemble.step->mark;
	void *object = h->object;
	int err = 0;

	for (int i = 0; i < h->rounds && !err; i++) {
		int64_t from_ns, sent_ns;

		arm(object, HANDOVER_ALONE);
		from_ns = mark_from_ns(mark);
		err = send(object, HANDOVER_ALONE);
		sent_ns = mark_to_ns(mark);
		/* without its turn the wait would not end */
		if (err)
			break;
		series_put(series, ensemble_net(&h->ensemble, sent_ns - from_ns));
		err = wait(object, HANDOVER_ALONE);
		take(object, HANDOVER_ALONE);
	}
	if (err)
		return handover_fail(h, "a call when no thread waits", err);
	BATCH_TIME(&h->batches[h->kind], h->ensemble.stamp_ps, HANDOVER_LOOP,
		   arm(object, HANDOVER_ALONE);
		   err = send(object, HANDOVER_ALONE)	      ?:
				 wait(object, HANDOVER_ALONE) ?:
								err;
		   take(object, HANDOVER_ALONE));
	return !err || handover_fail(h, "a call when no thread waits", err);
}

/* clang-format off */
/* The functions of one kind, and its row of the table of kinds. */
#define HANDOVER_THREADS(name, arm, send, wait, take, stamp)                                  \
	static void name##_sender_far(struct ensemble_thread *thread)                         \
	{                                                                                     \
		handover_send_loop(thread, arm, send, wait, take, true);                      \
	}                                                                                     \
	static void name##_sender(struct ensemble_thread *thread)                             \
	{                                                                                     \
		handover_send_loop(thread, arm, send, wait, take, false);                     \
	}                                                                                     \
	static void name##_waiter(struct ensemble_thread *thread)                             \
	{                                                                                     \
		handover_wait_loop(thread, arm, send, wait, take, stamp);                     \
	}
#define HANDOVER_ACTS(name, arm, send, wait, take)                                            \
	HANDOVER_THREADS(name, arm, send, wait, take, handover_now)                           \
	static bool name##_alone(struct handover *h)                                          \
	{                                                                                     \
		return handover_alone_loop(h, arm, send, wait, take);                         \
	}
#define HANDOVER_KIND(name, send, wait)                                                       \
	HANDOVER_ACTS(name, handover_nothing, send, wait, handover_nothing)
#define HANDOVER_ROW(value, name)                                                             \
	{ value, name##_sender_far, name##_sender, name##_waiter, name##_alone }
/* clang-format on */

#endif
