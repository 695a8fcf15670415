// SPDX-License-Identifier: Apache-2.0
/*
 * The load `sched`: groups in which every sender writes to every receiver in turn, so that the
 * scheduler never rests. The same work as hackbench's, without an end (docs/reference/loads.md).
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loads/load.h"

#define STACK_SIZE (128 * 1024) /* of a thread; it needs little more than one message */
#define SPARE_FILES 16

static const struct option_info sched_options[] = {
	{ "groups", OPTION_INTEGER, "10", 1, LOAD_COUNTERS_MAX, NULL,
	  "groups of senders and receivers" },
	{ "fds", OPTION_INTEGER, "20", 1, 1000, NULL,
	  "senders in each group, and as many receivers" },
	{ "size", OPTION_SIZE, "100", 1, 65536, NULL, "bytes in a message" },
	{ "transport", OPTION_ENUM, "socket", 0, 0, "socket pipe", "transport of the messages" },
	{ "kind", OPTION_ENUM, "process", 0, 0, "process thread", "processes or threads" },
	{ 0 },
};

struct sched {
	int groups;
	int fds;
	size_t size;
	bool pipes;
	bool threads;
	int gate[2]; /* its end opens the gate: all begin together */
	int made;    /* processes or threads so far */
};

/* One sender, or one receiver; @out is shared by the senders of a group. */
struct member {
	const struct sched *sched;
	volatile unsigned long *received; /* NULL: a sender */
	int in;
	int *out;
};

static void wait_for_gate(const struct sched *sched)
{
	char nothing;

	while (read(sched->gate[0], &nothing, 1) < 0 && errno == EINTR)
		;
}

static void send_all(const struct member *member, const char *message)
{
	size_t size = member->sched->size;
	int fds = member->sched->fds;

	for (;;) {
		for (int i = 0; i < fds; i++) {
			size_t sent = 0;

			while (sent < size) {
				ssize_t more = write(member->out[i], message + sent, size - sent);

				if (more < 0 && errno != EINTR)
					return;
				if (more > 0)
					sent += (size_t)more;
			}
		}
	}
}

static void receive_all(const struct member *member, char *message)
{
	size_t size = member->sched->size;

	for (;;) {
		size_t got = 0;

		while (got < size) {
			ssize_t more = read(member->in, message + got, size - got);

			if (!more)
				errno = EPIPE; /* every sender has gone */
			if (more <= 0 && errno != EINTR)
				return;
			if (more > 0)
				got += (size_t)more;
		}
		++*member->received;
	}
}

/* Ends the whole process if it ever ends: a load that lacks a member is another load. */
static void *member_run(void *arg)
{
	struct member *member = arg;
	char *message = calloc(1, member->sched->size);

	if (!message)
		_exit(ENOMEM);
	wait_for_gate(member->sched);
	if (member->received)
		receive_all(member, message);
	else
		send_all(member, message);
	_exit(errno);
}

static int start_thread(struct member *member)
{
	struct member *copy = malloc(sizeof(*copy)); /* the thread's, which never ends */
	pthread_attr_t attr;
	pthread_t thread;
	int err;

	if (!copy)
		return -ENOMEM;
	*copy = *member;
	err = pthread_attr_init(&attr);
	if (err)
		goto out_free_copy;
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	err = pthread_create(&thread, &attr, member_run, copy);
	pthread_attr_destroy(&attr);
out_free_copy:
	if (err)
		free(copy);
	return -err;
}

static int start_process(struct member *member, int other_end)
{
	pid_t pid = load_fork();

	if (pid < 0)
		return -errno;
	if (pid)
		return 0;
	close(member->sched->gate[1]);
	if (other_end >= 0)
		close(other_end);
	member_run(member);
	return 0;
}

/* @other_end is what a process must not keep open; -1 if there is nothing. */
static int start_member(struct sched *sched, struct member *member, int other_end,
			struct message *msg)
{
	int err = sched->threads ? start_thread(member) : start_process(member, other_end);

	sched->made++;
	if (!err)
		return 0;
	return message_set(msg, err,
			   "ask for fewer groups, or raise the limit of processes (ulimit -u)",
			   "cannot start %s %d of %d: %s", sched->threads ? "thread" : "process",
			   sched->made, 2 * sched->groups * sched->fds, strerror(-err));
}

/* A connection to write to ends[1] and read from ends[0]. */
static int connect_pair(const struct sched *sched, int ends[2], struct message *msg)
{
	int failed = sched->pipes ? pipe(ends) : socketpair(AF_UNIX, SOCK_STREAM, 0, ends);

	if (!failed)
		return 0;
	failed = -errno;
	return message_set(
		msg, failed, "ask for fewer groups, or raise the limit of open files (ulimit -n)",
		"cannot make a %s: %s", sched->pipes ? "pipe" : "socket pair", strerror(-failed));
}

static int start_group(struct sched *sched, int group, struct load_worker *worker,
		       struct message *msg)
{
	struct member sender = { .sched = sched, .in = -1 };
	int err = 0;

	sender.out = calloc((size_t)sched->fds, sizeof(*sender.out)); /* senders keep it */
	if (!sender.out)
		return message_set(msg, -ENOMEM, "free some memory", "out of memory");
	for (int i = 0; i < sched->fds && !err; i++) {
		struct member receiver = { .sched = sched };
		int ends[2];

		err = connect_pair(sched, ends, msg);
		if (err)
			break;
		receiver.received = load_counter(worker, (unsigned int)(group * sched->fds + i));
		receiver.in = ends[0];
		sender.out[i] = ends[1];
		err = start_member(sched, &receiver, ends[1], msg);
		if (!sched->threads)
			close(ends[0]);
	}
	for (int i = 0; i < sched->fds && !err; i++)
		err = start_member(sched, &sender, -1, msg);
	if (!sched->threads) {
		for (int i = 0; i < sched->fds && !err; i++)
			close(sender.out[i]);
		free(sender.out);
	}
	return err;
}

/* All connections of a group are open in one process; with threads, those of all groups. */
static void raise_file_limit(const struct sched *sched)
{
	rlim_t files =
		(rlim_t)(sched->threads ? sched->groups : 1) * (rlim_t)sched->fds * 2 + SPARE_FILES;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= files)
		return;
	limit.rlim_cur = files;
	if (limit.rlim_max < files)
		limit.rlim_max = files; /* only root may; then making a connection says so */
	setrlimit(RLIMIT_NOFILE, &limit);
}

static int sched_run(struct load_worker *worker, const struct option_set *options,
		     struct message *msg)
{
	struct sched sched = {
		.groups = (int)option_number(options, "groups"),
		.fds = (int)option_number(options, "fds"),
		.size = (size_t)option_number(options, "size"),
		.pipes = !strcmp(option_text(options, "transport"), "pipe"),
		.threads = !strcmp(option_text(options, "kind"), "thread"),
	};

	if (sched.groups * sched.fds > LOAD_COUNTERS_MAX)
		return message_set(msg, -EINVAL, "ask for fewer groups or fds",
				   "%d groups of %d receivers exceed the limit of %d receivers",
				   sched.groups, sched.fds, LOAD_COUNTERS_MAX);
	raise_file_limit(&sched);
	if (pipe(sched.gate)) {
		int err = -errno;

		return message_set(msg, err, "raise the limit of open files (ulimit -n)",
				   "cannot make a pipe: %s", strerror(-err));
	}
	for (int group = 0; group < sched.groups; group++) {
		int err = start_group(&sched, group, worker, msg);

		if (err)
			return err;
	}
	close(sched.gate[1]);
	load_ready(worker);
	return load_watch(msg);
}

const struct load load_sched = {
	.name = "sched",
	.summary = "groups of senders and receivers, like hackbench",
	.unit = "messages",
	.options = sched_options,
	.run = sched_run,
};
