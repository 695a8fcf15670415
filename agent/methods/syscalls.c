// SPDX-License-Identifier: Apache-2.0
/* Counting of system calls by seccomp's notifications. */
#include "methods/syscalls.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

#define SYSCALLS_TIMES 100
#define SYSCALLS_LOOK_MS 5
/* The kernel's structures may be longer than those of the headers. */
#define SYSCALLS_ROOM 256

enum syscalls_operation { SYSCALLS_ACQUIRE, SYSCALLS_RELEASE, SYSCALLS_OTHER };

#ifdef ON_COBALT
/* The core itself counts the system calls of a task, with those that ask for the number. */
struct syscalls {
	const struct ensemble *ensemble;
	struct syscalls_pair *pairs;
	int count;
	int err;
};

static void syscalls_prepare(struct syscalls *s, struct ensemble *e)
{
	s->ensemble = e;
}

static unsigned syscalls_so_far(void)
{
	struct cobalt_stat stat = { 0 };

	syscall(COBALT_THREAD_GETSTAT, 0, &stat);
	return (unsigned)stat.calls;
}

static void *syscalls_main(void *arg)
{
	struct syscalls *s = arg;

	s->err = cobalt_become_task(SCHED_FIFO, s->ensemble->priority);
	for (int i = 0; i < s->count && !s->err; i++) {
		struct syscalls_pair *pair = &s->pairs[i];

		pair->acquire(pair->object);
		pair->release(pair->object);
		for (int k = 0; k < SYSCALLS_TIMES; k++) {
			unsigned before = syscalls_so_far(), held;

			pair->acquire(pair->object);
			held = syscalls_so_far();
			pair->release(pair->object);
			pair->calls[SYSCALLS_ACQUIRE] += held - before - 1;
			pair->calls[SYSCALLS_RELEASE] += syscalls_so_far() - held - 1;
		}
	}
	return NULL;
}

/* 0 or -errno. The caller, finish(), is not a task. */
static int syscalls_count(struct syscalls *s)
{
	pthread_t thread;
	int err = -pthread_create(&thread, NULL, syscalls_main, s);

	return err ?: (pthread_join(thread, NULL), s->err);
}

static const char *syscalls_name(int number, char *buf, size_t size)
{
	(void)number;
	snprintf(buf, size, "of the core");
	return buf;
}
#else
struct syscalls {
	struct ensemble_thread thread;
	struct syscalls_pair *pairs;
	int count;
	uint32_t ready;	    /* listener is valid */
	int listener;	    /* descriptor, or -errno */
	uint32_t pair;	    /* that the thread works on */
	uint32_t operation; /* enum syscalls_operation */
	uint32_t done;
};

/* The descriptor that every system call of the calling thread is notified to, or -errno. */
static int syscalls_listen(void)
{
	struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
	struct sock_fprog program = { .len = 1, .filter = &all };
	int fd;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
			  &program);
	return fd < 0 ? -errno : fd;
}

static void syscalls_body(struct ensemble_thread *thread)
{
	struct syscalls *s = thread->state;

	s->operation = SYSCALLS_OTHER;
	s->listener = syscalls_listen();
	atomic_store_release(&s->ready, 1);
	for (int i = 0; i < s->count && s->listener >= 0; i++) {
		struct syscalls_pair *pair = &s->pairs[i];

		pair->acquire(pair->object);
		pair->release(pair->object);
		atomic_store_release(&s->pair, (uint32_t)i);
		for (int k = 0; k < SYSCALLS_TIMES; k++) {
			atomic_store_release(&s->operation, SYSCALLS_ACQUIRE);
			pair->acquire(pair->object);
			atomic_store_release(&s->operation, SYSCALLS_RELEASE);
			pair->release(pair->object);
		}
		atomic_store_release(&s->operation, SYSCALLS_OTHER);
	}
	atomic_store_release(&s->done, 1);
}

static void syscalls_prepare(struct syscalls *s, struct ensemble *e)
{
	s->thread = (struct ensemble_thread){
		.ensemble = e,
		.body = syscalls_body,
		.state = s,
		.priority = e->step->core->may_have(e->priority) ? e->priority : 0,
	};
}

/* Let the system call of a notification continue, and count it. 0 or -errno. */
static int syscalls_answer(struct syscalls *s)
{
	union {
		struct seccomp_notif notif;
		char room[SYSCALLS_ROOM];
	} asked = { .room = { 0 } };
	union {
		struct seccomp_notif_resp response;
		char room[SYSCALLS_ROOM];
	} answer = { .room = { 0 } };
	uint32_t operation;

	if (ioctl(s->listener, SECCOMP_IOCTL_NOTIF_RECV, &asked))
		return errno == ENOENT || errno == EINTR ? 0 : -errno;
	operation = atomic_load_acquire(&s->operation);
	if (operation != SYSCALLS_OTHER) {
		struct syscalls_pair *pair = &s->pairs[atomic_load_acquire(&s->pair)];

		if (!pair->calls[SYSCALLS_ACQUIRE] && !pair->calls[SYSCALLS_RELEASE])
			pair->number = asked.notif.data.nr;
		pair->calls[operation]++;
	}
	answer.response.id = asked.notif.id;
	answer.response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	return ioctl(s->listener, SECCOMP_IOCTL_NOTIF_SEND, &answer) && errno != ENOENT ? -errno :
											  0;
}

/* Whether the thread has ended. Until then it makes system calls, and without a listener they fail:
 * a C library repeats exit() for ever. */
static bool syscalls_ended(const struct syscalls *s)
{
	return atomic_load_acquire(&s->done) && syscall(SYS_tgkill, getpid(), s->thread.tid, 0);
}

/* 0, or -errno where the kernel does not notify. */
static int syscalls_count(struct syscalls *s)
{
	int64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + ENSEMBLE_PATIENCE_NS;
	struct pollfd one = { .events = POLLIN };
	int err = 0;

	if (!ensemble_start(&s->thread))
		return -EAGAIN;
	if (!ensemble_await(s->thread.ensemble, &s->ready, 1))
		err = -ETIMEDOUT;
	else if (s->listener < 0)
		err = s->listener;
	else
		one.fd = s->listener;
	/* also the calls with which the thread ends, until the last of them is answered */
	while (!err && clock_now_ns(CLOCK_MONOTONIC) < until_ns) {
		int64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);

		if (poll(&one, 1, SYSCALLS_LOOK_MS) > 0)
			err = one.revents & POLLIN ? syscalls_answer(s) : 0;
		until_ns += ensemble_late(now_ns, SYSCALLS_LOOK_MS * NSEC_PER_MSEC);
		if (one.revents & POLLHUP || (!one.revents && syscalls_ended(s)))
			break;
	}
	if (!err && !atomic_load_acquire(&s->done))
		err = -ETIMEDOUT;
	/* what has no listener fails, and a thread that waits for an answer continues */
	if (atomic_load_acquire(&s->ready) && s->listener >= 0)
		close(s->listener);
	ensemble_join(&s->thread);
	return err;
}

static const char *syscalls_name(int number, char *buf, size_t size)
{
	if (number == SYS_sched_setscheduler)
		return "sched_setscheduler";
	if (number == SYS_futex)
		return "futex";
	snprintf(buf, size, "number %d", number);
	return buf;
}
#endif

static void syscalls_table(struct step *step, const struct syscalls_pair *pairs, int count)
{
	static const struct step_column columns[] = {
		{ "kind", "" },
		{ "acquire", "count" },
		{ "release", "count" },
		{ "system call", "" },
	};
	struct cbor *c = step_table_begin(step, SYSCALLS_TABLE, columns, 4, count);
	char name[32];

	for (int i = 0; i < count; i++) {
		bool any = pairs[i].calls[SYSCALLS_ACQUIRE] || pairs[i].calls[SYSCALLS_RELEASE];

		cbor_array(c, 4);
		cbor_text(c, pairs[i].kind);
		cbor_int(c, pairs[i].calls[SYSCALLS_ACQUIRE]);
		cbor_int(c, pairs[i].calls[SYSCALLS_RELEASE]);
		cbor_text(c, any ? syscalls_name(pairs[i].number, name, sizeof(name)) : "none");
	}
	step_table_end(step);
}

void syscalls_put(struct ensemble *e, struct syscalls_pair *pairs, int count)
{
	struct syscalls s = { .pairs = pairs, .count = count };
	char evidence[160], name[32];
	int err;

	if (e->error || e->stuck || step_stopped(e->step))
		return;
	if (e->step->core->counts && !e->step->core->counts()) {
		step_verdict(e->step, SYSCALLS_NONE, "skipped",
			     "the core does not count system calls", CORE_COUNTS_REMEDY);
		return;
	}
	syscalls_prepare(&s, e);
	err = syscalls_count(&s);
	if (err) {
		snprintf(evidence, sizeof(evidence), "system calls cannot be counted here: %s",
			 strerror(-err));
		step_verdict(e->step, SYSCALLS_NONE, "skipped", evidence,
			     "use Linux 5.5 or newer with CONFIG_SECCOMP_FILTER, outside a "
			     "container that forbids seccomp");
		return;
	}
	syscalls_table(e->step, pairs, count);
	for (int i = 0; i < count; i++) {
		unsigned calls =
			pairs[i].calls[SYSCALLS_ACQUIRE] + pairs[i].calls[SYSCALLS_RELEASE];

		if (!calls || pairs[i].excepted)
			continue;
		snprintf(evidence, sizeof(evidence),
			 "%s: system calls of %d acquisitions and as many releases (%s): %u and %u",
			 pairs[i].kind, SYSCALLS_TIMES,
			 syscalls_name(pairs[i].number, name, sizeof(name)),
			 pairs[i].calls[SYSCALLS_ACQUIRE], pairs[i].calls[SYSCALLS_RELEASE]);
		step_verdict(e->step, SYSCALLS_NONE, "fail", evidence,
			     "use a C library that has atomic operations for this CPU");
		return;
	}
	step_verdict(e->step, SYSCALLS_NONE, "pass",
		     "100 acquisitions and 100 releases of each kind stayed in user space", "");
}
