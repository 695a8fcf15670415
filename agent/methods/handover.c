// SPDX-License-Identifier: Apache-2.0
/* One thread hands over to another: the conductor of a sender and a waiter, and the verdicts. */
#include "methods/handover.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpulist.h"

/* Priorities below the conductor's: three waiters in a queue. */
#define HANDOVER_LEVELS 3
/* A test loop takes about so long. */
#define HANDOVER_LOOP_NS (40 * NSEC_PER_MSEC)
/* A hand-over, the interval not counted, is guessed to take so long. */
#define HANDOVER_TAKES_NS (20 * NSEC_PER_USEC)
/* A waiter on another CPU is asleep so long after it has told the sender its turn. */
#define HANDOVER_GAP_NS (20 * NSEC_PER_USEC)
/* On a CPU that others keep with a higher priority for a while, a hand-over takes as long. */
#define HANDOVER_PATIENCE_NS (4 * ENSEMBLE_PATIENCE_NS)
#define HANDOVER_LOOK_NS (50 * NSEC_PER_USEC)
#define HANDOVER_SUPPORT "use a C library and a kernel that support it"
#define HANDOVER_ONE_CPU "there is no other CPU for the waiter"
/* A sleep of so long begins with a switch. */
#define HANDOVER_SWITCH_NS (50 * NSEC_PER_USEC)

const struct option_info handover_options[] = {
	HANDOVER_OPTIONS,
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

static const char *const handover_places[] = { "higher", "equal", "other-cpu", "none" };

/* The sender's is one below the waiter's, unless they are to be equal. */
static int handover_priority(const struct handover *h, enum handover_role role,
			     enum handover_place place)
{
	if (h->ensemble.policy == SCHED_OTHER)
		return 0;
	return h->ensemble.priority - (role == HANDOVER_WAITER && place != HANDOVER_EQUAL ? 1 : 2);
}

/* --- in the sender and the waiter --- */

static void handover_sem_wait(sem_t *sem)
{
	while (sem_wait(sem))
		;
}

int handover_next(struct handover *h, enum handover_role role)
{
	handover_sem_wait(&h->go[role]);
	return h->rounds;
}

void handover_done(struct handover *h, enum handover_role role, int err)
{
	if (err)
		atomic_store_release(&h->error[role], (uint32_t)err);
	sem_post(&h->done);
}

void handover_pause(const struct handover *h)
{
	if (h->gap_ns)
		ensemble_spin(h->gap_ns);
}

/* A rest is a switch, unless its time may be over before the kernel would switch. Then the switches
 * are counted, with calls that make the kernel's code and data warmer for the hand-over. */
uint32_t handover_rest(const struct handover *h)
{
	bool counted = h->interval_ns < HANDOVER_SWITCH_NS;
	uint32_t switches;

	if (!h->interval_ns)
		return 0;
	switches = counted ? handover_switches() : 0;
	clock_nanosleep(CLOCK_MONOTONIC, 0, &h->interval, NULL);
	return counted ? handover_switches() - switches : 1;
}

uint32_t handover_switches(void)
{
	struct rusage usage;

	return getrusage(RUSAGE_THREAD, &usage) ? 0 : (uint32_t)usage.ru_nvcsw;
}

void handover_begin(struct ensemble_thread *thread, enum handover_role role)
{
	struct handover *h = thread->state;
	int err = 0;

	if (role == HANDOVER_WAITER && h->place == HANDOVER_OTHER_CPU)
		err = ensemble_move(thread, h->other_cpu);
	if (h->plan->begin)
		h->plan->begin(h, role);
	if (err)
		atomic_store_release(&h->unmoved, (uint32_t)-err);
	handover_done(h, role, 0);
}

void handover_end(struct ensemble_thread *thread, enum handover_role role)
{
	struct handover *h = thread->state;

	if (h->plan->end)
		h->plan->end(h, role);
}

/* --- the conductor --- */

/* What helps when a call was refused. An object that was removed is not found, or invalid. */
static const char *handover_remedy(int err)
{
	if (err == EIDRM || err == EINVAL)
		return "let other agents end, and measure again";
	return "raise the limits of this user (ulimit -a shows them), or let other agents end, and "
	       "measure again";
}

bool handover_fail(struct handover *h, const char *what, int err)
{
	struct ensemble *e = &h->ensemble;

	if (err == ETIMEDOUT)
		return ensemble_fail(e, -err, what);
	if (!e->error)
		e->error = message_set(&e->step->msg, -err, handover_remedy(err), "%s: %s", what,
				       strerror(err));
	return false;
}

bool handover_skip(struct handover *h, const char *what, int err, const char *remedy)
{
	char reason[160];

	snprintf(reason, sizeof(reason), "%s: %s", what, strerror(err));
	if (!h->ensemble.error)
		h->ensemble.error = step_skip(h->ensemble.step, reason, remedy);
	return false;
}

/* One thread has come to the end of its test loop. The semaphore's only clock can be set: the wait
 * is repeated until the time is up by one that cannot. A standstill moves the limit. */
static bool handover_came(struct handover *h, int64_t *until_ns)
{
	do {
		int64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
		struct timespec until =
			clock_from_ns(clock_now_ns(CLOCK_REALTIME) + ENSEMBLE_PATIENCE_NS);

		if (!sem_timedwait(&h->done, &until))
			return true;
		*until_ns += ensemble_stalled(&h->ensemble, now_ns, ENSEMBLE_PATIENCE_NS);
	} while (clock_now_ns(CLOCK_MONOTONIC) < *until_ns);
	return false;
}

static bool handover_failed(struct handover *h)
{
	struct ensemble *e = &h->ensemble;
	uint32_t sender = atomic_load_acquire(&h->error[HANDOVER_SENDER]);
	uint32_t waiter = atomic_load_acquire(&h->error[HANDOVER_WAITER]);
	uint32_t unmoved = atomic_load_acquire(&h->unmoved);

	if (unmoved && !e->error)
		e->error = message_set(&e->step->msg, -(int)unmoved,
				       "keep the CPUs online, and in the cpuset of the caller",
				       "cannot move the waiter to CPU %d: %s", h->other_cpu,
				       strerror((int)unmoved));
	else if (sender)
		handover_fail(h, "a call of the sender failed", (int)sender);
	else if (waiter)
		handover_fail(h, "a call of the waiter failed", (int)waiter);
	return sender || waiter || unmoved;
}

/* Both. If a call of one failed, the other one may wait for ever. */
static bool handover_await(struct handover *h)
{
	int64_t until_ns =
		clock_now_ns(CLOCK_MONOTONIC) + HANDOVER_PATIENCE_NS + h->rounds * h->interval_ns;

	for (int i = 0; i < HANDOVER_ROLES; i++) {
		bool came = handover_came(h, &until_ns);

		if (handover_failed(h))
			return false;
		if (!came)
			return handover_fail(h, "a hand-over did not take place", ETIMEDOUT);
	}
	return true;
}

static void handover_put(struct handover *h)
{
	struct ensemble *e = &h->ensemble;
	struct series *wake = &e->step->series[h->wake[h->kind][h->place]];
	int send = h->send[h->kind][h->place];
	/* one switch for each wait in which it slept, less those that rests did not have */
	int64_t sleeps = (int32_t)h->wakes > 0 ? h->wakes : 0;

	for (int i = 0; i < h->rounds; i++)
		series_put(wake, ensemble_net(e, h->times[i].woke_ns - h->times[i].from_ns));
	for (int i = 0; i < h->rounds && send >= 0; i++)
		series_put(&e->step->series[send],
			   ensemble_net(e, h->times[i].sent_ns - h->times[i].from_ns));
	h->waits[h->kind][h->place] += h->rounds;
	h->slept[h->kind][h->place] += sleeps < h->rounds ? sleeps : h->rounds;
}

static int handover_rounds(const struct handover *h, int64_t left)
{
	int64_t rounds = HANDOVER_LOOP_NS / (h->interval_ns + HANDOVER_TAKES_NS);

	if (rounds > HANDOVER_LOOP)
		rounds = HANDOVER_LOOP;
	if (rounds < 1)
		rounds = 1;
	return (int)(left < rounds ? left : rounds);
}

static void handover_loops(struct handover *h)
{
	struct ensemble *e = &h->ensemble;

	for (int64_t done = 0; done < h->samples && ensemble_goes_on(e); done += h->rounds) {
		h->rounds = handover_rounds(h, h->samples - done);
		ensemble_loop(e, h->wake[h->kind][h->place]);
		if (h->send[h->kind][h->place] >= 0)
			ensemble_loop(e, h->send[h->kind][h->place]);
		for (int i = 0; i < HANDOVER_ROLES; i++)
			sem_post(&h->go[i]);
		if (!handover_await(h))
			return;
		handover_put(h);
	}
}

static void handover_pair(struct handover *h)
{
	const struct handover_kind *kind = &h->plan->kinds[h->kind];
	bool far = h->place == HANDOVER_OTHER_CPU;
	void (*const bodies[HANDOVER_ROLES])(struct ensemble_thread *) = {
		[HANDOVER_SENDER] = far ? kind->sender_far : kind->sender,
		[HANDOVER_WAITER] = kind->waiter,
	};
	bool started = true;

	h->gap_ns = far ? HANDOVER_GAP_NS : 0;
	for (int role = 0; role < HANDOVER_ROLES && started; role++) {
		h->threads[role] = (struct ensemble_thread){
			.ensemble = &h->ensemble,
			.body = bodies[role],
			.state = h,
			.priority = handover_priority(h, role, h->place),
		};
		started = ensemble_start(&h->threads[role]);
	}
	ensemble_release(&h->ensemble);
	if (started && handover_await(h))
		handover_loops(h);
	h->rounds = 0;
	for (int role = 0; role < HANDOVER_ROLES; role++)
		sem_post(&h->go[role]);
	for (int role = 0; role < HANDOVER_ROLES; role++)
		ensemble_join(&h->threads[role]);
}

static void handover_alone(struct handover *h)
{
	struct ensemble *e = &h->ensemble;

	for (int64_t done = 0; done < h->samples && ensemble_goes_on(e); done += h->rounds) {
		int64_t left = h->samples - done;

		h->rounds = (int)(left < HANDOVER_LOOP ? left : HANDOVER_LOOP);
		ensemble_loop(e, h->send[h->kind][HANDOVER_NONE]);
		if (!h->plan->kinds[h->kind].alone(h))
			return;
	}
}

bool handover_open(struct handover *h)
{
	bool opened;

	ensemble_pause(&h->ensemble);
	opened = h->plan->open(h);
	ensemble_resume(&h->ensemble);
	return opened;
}

void handover_close(struct handover *h)
{
	if (h->ensemble.stuck)
		return;
	ensemble_pause(&h->ensemble);
	h->plan->close(h);
	ensemble_resume(&h->ensemble);
}

void handover_refused(struct handover_rule *rule, const char *what, int err, const char *remedy)
{
	snprintf(rule->refused, sizeof(rule->refused), "%s: %s", what, strerror(err));
	rule->unknown = rule->refused;
	rule->grant = remedy;
}

static void handover_conduct(struct worker *worker)
{
	struct handover *h = worker->state;

	for (h->kind = 0; h->kind < h->plan->kind_count; h->kind++)
		for (h->place = 0; h->place < HANDOVER_PLACES; h->place++) {
			if (h->wake[h->kind][h->place] < 0 && h->send[h->kind][h->place] < 0)
				continue;
			if (!ensemble_goes_on(&h->ensemble))
				return;
			if (handover_open(h)) {
				if (h->place == HANDOVER_NONE)
					handover_alone(h);
				else
					handover_pair(h);
			}
			handover_close(h);
		}
	h->judged = !h->ensemble.error && !step_stopped(worker->step);
	if (h->plan->judge && h->judged)
		h->plan->judge(h);
}

/* --- waiters that are woken in turn --- */

static void handover_queue_body(struct ensemble_thread *thread)
{
	struct handover_queued *queued = thread->state;
	const struct handover_queue *queue = queued->queue;

	atomic_store_release(&queued->tid, (uint32_t)thread->tid);
	if (!queue->wait(queue->h->object, HANDOVER_THERE))
		order_mark(&queue->rule->order, thread->name, "is woken");
	/* the mark is there */
	atomic_add_release(&queue->h->woken, 1);
}

/* Until it sleeps: the waits that are tried are the only place where it does. */
static bool handover_asleep(struct handover *h, const struct handover_queued *queued)
{
	const struct timespec look = clock_from_ns(HANDOVER_LOOK_NS);
	int64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + HANDOVER_PATIENCE_NS;
	int asleep = 0;

	ensemble_release(&h->ensemble);
	while (!asleep && clock_now_ns(CLOCK_MONOTONIC) < until_ns &&
	       !step_stopped(h->ensemble.step)) {
		int64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
		pid_t tid = (pid_t)atomic_load_acquire(&queued->tid);

		nanosleep(&look, NULL);
		if (tid)
			asleep = ensemble_asleep(tid);
		until_ns += ensemble_stalled(&h->ensemble, now_ns, HANDOVER_LOOK_NS);
	}
	return asleep > 0;
}

static bool handover_woken(struct handover *h, uint32_t count)
{
	/* each of these waits lasts ENSEMBLE_PATIENCE_NS, apart from standstills */
	for (int64_t i = 0; i < HANDOVER_PATIENCE_NS / ENSEMBLE_PATIENCE_NS; i++)
		if (ensemble_await(&h->ensemble, &h->woken, count))
			return true;
	return false;
}

/* Whether all waiters except @woken of them sleep after another send. */
static bool handover_hangs(const struct handover *h, uint32_t woken)
{
	uint32_t begun = 0, asleep = 0;

	for (int i = 0; i < HANDOVER_QUEUE; i++) {
		begun += h->queued[i].queue != NULL;
		asleep += h->queued[i].queue && ensemble_asleep(h->queued[i].thread.tid) > 0;
	}
	return asleep + woken == begun;
}

bool handover_wake_in_turn(const struct handover_queue *queue)
{
	struct handover *h = queue->h;
	struct ensemble *e = &h->ensemble;
	struct handover_rule *rule = queue->rule;
	uint32_t woken = 0;
	bool good = true;

	memset(h->queued, 0, sizeof(h->queued));
	h->woken = 0;
	for (const char *at = queue->script; *at && good; at++) {
		struct handover_queued *queued;

		if (*at == '.') {
			int err = queue->send(h->object, HANDOVER_THERE);

			if (err)
				handover_refused(rule, "a waiter could not be woken", err,
						 handover_remedy(err));
			good = !err && handover_woken(h, ++woken);
			if (!good && !err && !handover_hangs(h, woken - 1)) {
				rule->unknown = ENSEMBLE_KEPT;
				rule->grant = "end other real-time tasks on this CPU, or choose "
					      "another CPU (--cpu)";
			}
			continue;
		}
		queued = &h->queued[*at - '0'];
		queued->queue = queue;
		queued->thread = (struct ensemble_thread){
			.ensemble = e,
			.body = handover_queue_body,
			.state = queued,
			.name = queue->names[*at - '0'],
			.priority = e->policy ? e->priority - 1 - (*at - '0') : 0,
		};
		good = ensemble_start(&queued->thread) && handover_asleep(h, queued);
		rule->unknown = good ? NULL : "a waiter was not asleep in time";
	}
	if (!good && step_stopped(e->step)) {
		rule->unknown = "the step was stopped";
		rule->grant = NULL;
	}
	/* release the remaining waiters */
	for (int i = 0; i < HANDOVER_QUEUE; i++)
		if (!good)
			queue->send(h->object, HANDOVER_THERE);
	for (int i = 0; i < HANDOVER_QUEUE; i++)
		ensemble_join(&h->queued[i].thread);
	rule->held = good && order_is(&rule->order, queue->expected);
	if (!good)
		rule->why = "a waiter was not woken";
	return !e->error;
}

static const char *const handover_names[] = { "high", "middle", "low" };
static const char *const handover_ranked[] = { "high", "middle", "low", NULL };

/* Judge the plan's THERE, reopened. */
static void handover_judge_queue(struct handover *h, const struct handover_queue *queue,
				 const char *rule, const char *remedy)
{
	queue->rule->order.rule = rule;
	queue->rule->remedy = remedy;
	if (handover_open(h))
		handover_wake_in_turn(queue);
	handover_close(h);
}

void handover_tell_waiters(struct handover *h, int (*send)(void *object, enum handover_way way),
			   int (*wait)(void *object, enum handover_way way))
{
	const struct handover_queue queue = {
		h, &h->rules[0], wait, send, handover_names, handover_ranked, "201...",
	};

	handover_judge_queue(h, &queue, "the order of waiters, low, high, middle", NULL);
}

void handover_judge_waiters(struct handover *h, int (*send)(void *object, enum handover_way way),
			    int (*wait)(void *object, enum handover_way way), const char *remedy)
{
	static const char *const later[] = { "middle", "high", "low", NULL };
	const struct handover_queue queues[] = {
		{ h, &h->rules[0], wait, send, handover_names, handover_ranked, "201..." },
		{ h, &h->rules[1], wait, send, handover_names, later, "21.0.." },
	};

	handover_judge_queue(h, &queues[0], HANDOVER_FIRST, remedy);
	if (!h->ensemble.error)
		handover_judge_queue(h, &queues[1], HANDOVER_LATER, remedy);
}

/* --- System V --- */

void handover_own_ipc(struct handover *h)
{
	if (!h->own_ipc)
		unshare(CLONE_NEWIPC);
	h->own_ipc = true;
}

bool handover_pid_lives(pid_t pid)
{
	return pid > 0 && pid != getpid() && (!kill(pid, 0) || errno == EPERM);
}

/* --- the frame --- */

/* The waiter's series is `wake`, the sender's `send`. */
static int handover_add_series(struct handover *h, enum handover_role role,
			       enum handover_place place)
{
	static const char policies[][6] = {
		[SCHED_OTHER] = "other",
		[SCHED_FIFO] = "fifo",
		[SCHED_RR] = "rr",
	};
	struct series_info info = {
		.name = role == HANDOVER_WAITER ? "wake" : "send",
		.context = "user",
		.unit = "ns",
		.cpu = role == HANDOVER_WAITER && place == HANDOVER_OTHER_CPU ? h->other_cpu :
										h->ensemble.cpu,
		/* without a waiter the conductor sends, otherwise the policy is not the conductor's */
		.thread = place == HANDOVER_NONE ? h->ensemble.conductor : -1,
		.policy = policies[h->ensemble.policy],
		.priority = handover_priority(h, role, place),
		.companion = -1,
		.net = true,
		.labels = { { "waiter", handover_places[place] } },
	};

	if (h->plan->label)
		info.labels[1] =
			(struct series_label){ h->plan->label, h->plan->kinds[h->kind].value };
	return step_add_series(h->ensemble.step, &info, ensemble_words(h->samples));
}

/* What each part yields: the time until the waiter runs, and that of the call alone where the
 * waiter does not take the CPU from the sender within it. */
static int handover_add_part(struct handover *h, enum handover_place place)
{
	int *wake = &h->wake[h->kind][place], *send = &h->send[h->kind][place];
	bool none = place == HANDOVER_NONE;

	*wake = *send = -1;
	if (!h->wanted[place] || !h->kind_wanted[h->kind] || !h->plan->kinds[h->kind].waiter ||
	    (place == HANDOVER_OTHER_CPU && h->other_cpu < 0) ||
	    (none && !h->plan->kinds[h->kind].alone))
		return 0;
	if (!none)
		*wake = handover_add_series(h, HANDOVER_WAITER, place);
	if (*wake < -1)
		return *wake;
	if (place == HANDOVER_OTHER_CPU || none)
		*send = handover_add_series(h, HANDOVER_SENDER, place);
	return *send < -1 ? *send : 0;
}

/* Which of the values of an option of several are given. */
static void handover_given(const struct step *step, const char *option, bool *given)
{
	const char *values = option_get(&step->options, option)->info->values;
	const char *at = option_text(&step->options, option);
	int64_t count = option_number(&step->options, option);

	for (int64_t i = 0; i < count; i++) {
		size_t size = strcspn(at, ",");

		given[option_value_number(values, at, size)] = true;
		at += size + (at[size] == ',');
	}
}

/* The kinds that are not supported here are left out. */
static int handover_probe(struct handover *h)
{
	const struct handover_plan *plan = h->plan;
	char text[64] = "";
	bool lacks = false;
	size_t used = 0;

	if (!plan->probe)
		return 0;
	for (int i = 0; i < plan->kind_count; i++) {
		if (!h->kind_wanted[i])
			continue;
		h->kind_error[i] = plan->probe(i);
		h->kind_wanted[i] = !h->kind_error[i];
		lacks |= h->kind_error[i] != 0;
		if (h->kind_wanted[i])
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s",
						 used ? "," : "", plan->kinds[i].value);
	}
	return lacks && used ? option_effective(&h->ensemble.step->options, plan->label, text) : 0;
}

static void handover_choose(struct handover *h)
{
	struct step *step = h->ensemble.step;

	h->samples = option_number(&step->options, "samples");
	h->interval_ns = option_number(&step->options, "interval");
	h->interval = clock_from_ns(h->interval_ns);
	handover_given(step, "waiter", h->wanted);
	h->kind_wanted[0] = !h->plan->label;
	if (h->plan->label)
		handover_given(step, h->plan->label, h->kind_wanted);
}

/* The sender is on the last of the CPUs, the waiter, where it is on another, on the first. */
static int handover_cpus(struct handover *h)
{
	struct step *step = h->ensemble.step;
	struct cpulist cpus;
	char text[32];
	int first, err = step_cpus(step, &cpus);

	if (err)
		return err;
	first = cpulist_next(&cpus, 0);
	err = ensemble_setup(step, &h->ensemble, handover_conduct, HANDOVER_LEVELS, HANDOVER_ROLES);
	h->other_cpu = first == h->ensemble.cpu ? -1 : first;
	if (err || h->other_cpu < 0 || !h->wanted[HANDOVER_OTHER_CPU])
		return err;
	snprintf(text, sizeof(text), "%d,%d", first, h->ensemble.cpu);
	return option_effective(&step->options, "cpu", text);
}

static const char *handover_unsupported(const struct handover *h, int kind, char *text, size_t room)
{
	snprintf(text, room, "%s %s: %s", h->plan->label, h->plan->kinds[kind].value,
		 strerror(h->kind_error[kind]));
	return text;
}

/* A kind that the core has no calls for. */
static const char *handover_not_on_core(const struct handover *h, int kind, char *text, size_t room)
{
	if (h->plan->label)
		snprintf(text, room, "the %s core does not support --%s %s",
			 h->ensemble.step->core->title, h->plan->label, h->plan->kinds[kind].value);
	else
		snprintf(text, room, "the %s core does not support this measurement",
			 h->ensemble.step->core->title);
	return text;
}

/* None of the waiters and kinds that were asked for can be measured. */
static int handover_nothing_left(const struct handover *h)
{
	struct step *step = h->ensemble.step;
	int unsupported = -1, lacking = 0;
	bool left = false;
	char text[96];

	for (int i = 0; i < h->plan->kind_count; i++) {
		left |= h->kind_wanted[i];
		unsupported = h->kind_error[i] ? i : unsupported;
		lacking = h->kind_wanted[i] ? i : lacking;
	}
	if (!left && unsupported >= 0)
		return step_skip(step, handover_unsupported(h, unsupported, text, sizeof(text)),
				 HANDOVER_SUPPORT);
	if (h->wanted[HANDOVER_OTHER_CPU] && h->other_cpu < 0)
		return step_skip(step, HANDOVER_ONE_CPU, "give two CPUs: --cpu 0,1");
	for (int i = 0; i < h->plan->kind_count; i++)
		if (h->kind_wanted[i] && h->plan->kinds[i].waiter)
			return step_skip(step, "this way of waking needs a thread that waits",
					 "give another --waiter, such as higher");
	return step_skip(step, handover_not_on_core(h, lacking, text, sizeof(text)),
			 "give --core linux");
}

int handover_setup(struct step *step)
{
	const struct handover_plan *plan = step->measurement->method;
	struct handover *h = step->state;
	int err;

	if (plan->object_size > HANDOVER_OBJECT)
		abort();
	h->object = h->memory;
	h->plan = plan;
	h->ensemble.step = step;
	sem_init(&h->done, 0, 0);
	for (int i = 0; i < HANDOVER_ROLES; i++)
		sem_init(&h->go[i], 0, 0);
	handover_choose(h);
	err = handover_cpus(h);
	if (!err)
		err = handover_probe(h);
	for (h->kind = 0; h->kind < plan->kind_count && !err; h->kind++)
		for (int place = 0; place < HANDOVER_PLACES && !err; place++)
			err = handover_add_part(h, place);
	if (err || step->series_count)
		return err;
	return handover_nothing_left(h);
}

static void handover_sleeps_table(const struct handover *h)
{
	static const struct step_column columns[] = {
		{ "waiter", "" },
		{ "kind", "" },
		{ "waits", "count" },
		{ "slept", "count" },
	};
	struct cbor *c;
	int rows = 0;

	for (int i = 0; i < HANDOVER_LABELS * HANDOVER_PLACES; i++)
		rows += h->waits[i / HANDOVER_PLACES][i % HANDOVER_PLACES] > 0;
	c = step_table_begin(h->ensemble.step, "sleeps", columns, 4, rows);
	for (int kind = 0; kind < h->plan->kind_count; kind++)
		for (int place = 0; place < HANDOVER_PLACES; place++) {
			if (!h->waits[kind][place])
				continue;
			cbor_array(c, 4);
			cbor_text(c, handover_places[place]);
			cbor_text(c, h->plan->kinds[kind].value);
			cbor_int(c, h->waits[kind][place]);
			cbor_int(c, h->slept[kind][place]);
		}
	step_table_end(h->ensemble.step);
}

int handover_finish(struct step *step)
{
	struct handover *h = step->state;
	const struct order *orders[HANDOVER_RULES];
	const struct measurement_entry *verdicts = step->measurement->verdicts;
	char text[96];
	int count = 0;

	if (h->ensemble.error)
		return h->ensemble.error;
	for (int i = 0; verdicts[i].name && !h->judged; i++)
		if (strcmp(verdicts[i].name, HANDOVER_ALL_MEASURED))
			order_not_tried(step, verdicts[i].name);
	if (h->wanted[HANDOVER_OTHER_CPU] && h->other_cpu < 0)
		step_verdict(step, HANDOVER_ALL_MEASURED, "skipped", HANDOVER_ONE_CPU,
			     "give two CPUs: --cpu 0,1");
	for (int i = 0; i < h->plan->kind_count; i++)
		if (h->kind_error[i])
			step_verdict(step, HANDOVER_ALL_MEASURED, "skipped",
				     handover_unsupported(h, i, text, sizeof(text)),
				     HANDOVER_SUPPORT);
	for (int i = 0; i < h->plan->kind_count; i++)
		if (h->kind_wanted[i] && !h->plan->kinds[i].waiter)
			step_verdict(step, HANDOVER_ALL_MEASURED, "skipped",
				     handover_not_on_core(h, i, text, sizeof(text)),
				     "give --core linux");
	for (int i = 0; i < h->plan->kind_count; i++)
		h->batches[i].operation = h->plan->label ? h->plan->kinds[i].value :
							   "send, receive";
	batch_table(step, h->batches, h->plan->kind_count);
	handover_sleeps_table(h);
	for (int i = 0; i < HANDOVER_RULES; i++) {
		const struct handover_rule *rule = &h->rules[i];

		if (!rule->order.rule)
			continue;
		orders[count++] = &rule->order;
		if (rule->remedy && rule->unknown)
			step_verdict(step, rule->order.rule, "inconclusive", rule->unknown,
				     rule->grant ?:
						   "let the step run to its end. If it did, "
						   "mount /proc, and allow more open files "
						   "(ulimit -n)");
		else if (rule->remedy)
			order_verdict(step, &rule->order, rule->held, rule->why ?: "",
				      rule->remedy);
	}
	if (count)
		order_table(step, orders, count);
	return 0;
}
