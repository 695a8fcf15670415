// SPDX-License-Identifier: Apache-2.0
/* The process that cleans up after a killed agent. */
#include "system/guardian.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "system/undo.h"

#define GUARDIAN_DONE 'd'
#define GUARDIAN_END_MS 5000
#define GUARDIAN_FILES 4

static void close_from_to(unsigned int first, unsigned int last)
{
	struct rlimit limit;

#ifdef SYS_close_range
	if (!syscall(SYS_close_range, first, last, 0))
		return;
#endif
	/* before Linux 5.9 */
	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur > 65536)
		limit.rlim_cur = 65536;
	for (; first <= last && first < limit.rlim_cur; first++)
		close((int)first);
}

/* Close everything but the @keep descriptors, and put /dev/null in the place of 0 to 2: the host
 * must see the end of the agent's output when the agent is gone. */
static void close_others(int keep[GUARDIAN_FILES])
{
	unsigned int next = 0;
	int i, j, fd;

	for (i = 1; i < GUARDIAN_FILES; i++) {
		fd = keep[i];
		for (j = i; j > 0 && keep[j - 1] > fd; j--)
			keep[j] = keep[j - 1];
		keep[j] = fd;
	}
	for (i = 0; i < GUARDIAN_FILES; i++) {
		if (next < (unsigned int)keep[i])
			close_from_to(next, (unsigned int)keep[i] - 1);
		next = (unsigned int)keep[i] + 1;
	}
	close_from_to(next, ~0U);
	do {
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	} while (fd >= 0 && fd < 2);
	if (fd > 2)
		close(fd);
}

__attribute__((noreturn)) static void guard(int end, int ready, int folder, int journal,
					    const char *name)
{
	struct undo_report report = { 0 };
	int keep[GUARDIAN_FILES] = { end, ready, folder, journal };
	ssize_t got;
	char word;
	int i;

	for (i = 1; i <= SIGRTMAX; i++)
		signal(i, SIG_IGN);
	setsid();
	prctl(PR_SET_NAME, "rtgauge-guard");
	if (chdir("/") < 0) {
		/* then it keeps the agent's folder in use, no more */
	}
	close_others(keep);
	close(ready);
	do {
		got = read(end, &word, 1);
	} while (got < 0 && errno == EINTR);
	if (got == 1 && word == GUARDIAN_DONE)
		_exit(0);
	if (!undo_journal(journal, true, &report))
		unlinkat(folder, name, 0);
	_exit(0);
}

static int refuse(struct message *msg, int err)
{
	return message_set(msg, err, "raise the limits of processes and open files (ulimit -u -n)",
			   "the guardian process cannot be started: %s", strerror(-err));
}

int guardian_start(struct guardian *guardian, int folder, int journal, const char *name,
		   struct message *msg)
{
	int end[2], ready[2];
	sigset_t all, old;
	ssize_t got;
	char word;
	int err;

	if (pipe2(end, O_CLOEXEC))
		return refuse(msg, -errno);
	if (pipe2(ready, O_CLOEXEC)) {
		err = -errno;
		goto out_end;
	}
	/* nothing may reach it between its start and its immunity */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &old);
	guardian->pid = fork();
	if (guardian->pid == 0)
		guard(end[0], ready[1], folder, journal, name);
	err = guardian->pid < 0 ? -errno : 0;
	sigprocmask(SIG_SETMASK, &old, NULL);
	close(ready[1]);
	do {
		got = err ? 0 : read(ready[0], &word, 1);
	} while (got < 0 && errno == EINTR);
	close(ready[0]);
	if (err)
		goto out_end;
	close(end[0]);
	guardian->pipe = end[1];
	return 0;

out_end:
	close(end[0]);
	close(end[1]);
	return refuse(msg, err);
}

bool guardian_lives(const struct guardian *guardian)
{
	struct pollfd poll_one = { .fd = guardian->pipe };

	/* the write end of a pipe without a reader is in error */
	return poll(&poll_one, 1, 0) >= 0 && !(poll_one.revents & POLLERR);
}

void guardian_end(struct guardian *guardian)
{
	const char word = GUARDIAN_DONE;
	struct sigaction ignore = { .sa_handler = SIG_IGN }, old;
	struct pollfd poll_one = { .fd = guardian->pipe };
	ssize_t done;
	int ends;

	sigaction(SIGPIPE, &ignore, &old); /* it may have been killed */
	do {
		done = write(guardian->pipe, &word, 1);
	} while (done < 0 && errno == EINTR);
	sigaction(SIGPIPE, &old, NULL);
	do {
		ends = done < 0 ? 1 : poll(&poll_one, 1, GUARDIAN_END_MS);
	} while (ends < 0 && errno == EINTR);
	if (ends == 0)
		kill(guardian->pid, SIGKILL); /* it was stopped; nothing is left for it to do */
	while (waitpid(guardian->pid, NULL, 0) < 0 && errno == EINTR)
		;
	close(guardian->pipe);
	guardian->pipe = -1;
}
