// SPDX-License-Identifier: Apache-2.0
/*
 * The load `command`: a shell command of the user. Its processes may do anything: leave their
 * group, or outlive their parents. The leader is their subreaper, so that all of them are below it.
 * It adds up their CPU time, and ends them. The shell and its children are in the load's group. The
 * leader leaves this group, and gets a signal that does not kill it when the agent dies. So it
 * lives until it has ended all of them, including those that left the group.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/procstat.h"
#include "loads/load.h"

#define READY_NS (200 * NSEC_PER_MSEC) /* a command that cannot run has ended by then */
#define SHELL_NOT_FOUND 127	       /* exit status of sh without the program */

static const struct option_info command_options[] = {
	{ "text", OPTION_TEXT, "", 0, 0, NULL, "for sh -c" },
	{ "user", OPTION_ENUM, "caller", 0, 0, "caller root",
	  "user whose rights the command has: the one who called sudo, or the agent's" },
	{ 0 },
};

struct command {
	volatile unsigned long *work; /* ms of CPU time */
	uint64_t counted_ms;
	pid_t shell;
	int errors; /* what the command writes to stderr */
	int signals;
	pid_t agent;
	char line[128]; /* the last of it */
	size_t length;
	bool complete;
};

struct process {
	pid_t pid;
	pid_t parent;
	uint64_t ticks;
	bool ours;
};

/* All processes, in an array to be freed; NULL without memory or /proc. */
static struct process *list_processes(size_t *count)
{
	DIR *dir = opendir("/proc");
	struct process *list = NULL;
	struct procstat stat;
	size_t room = 0;
	pid_t pid;

	*count = 0;
	while (dir && (pid = procstat_next(dir, &stat))) {
		if (*count == room) {
			struct process *grown = realloc(list, (room + 256) * sizeof(*list));

			if (!grown)
				break;
			list = grown;
			room += 256;
		}
		list[(*count)++] = (struct process){ pid, stat.parent, stat.cpu_ticks, false };
	}
	if (dir)
		closedir(dir);
	return list;
}

/* CPU time of all processes below this one, in ticks, with what each has of ended children. */
static uint64_t living_ticks(void)
{
	size_t count;
	struct process *list = list_processes(&count);
	uint64_t ticks = 0;
	bool found;

	do {
		found = false;
		for (size_t i = 0; i < count; i++) {
			struct process *process = &list[i];
			bool ours = process->parent == getpid();

			for (size_t j = 0; j < count && !ours && !process->ours; j++)
				ours = list[j].ours && list[j].pid == process->parent;
			if (!ours || process->ours)
				continue;
			process->ours = true;
			ticks += process->ticks;
			found = true;
		}
	} while (found);
	free(list);
	return ticks;
}

/* A process that ends between two looks may be seen twice, or not: the sum only ever grows. */
static void count(struct command *command)
{
	uint64_t ms = living_ticks() * 1000 / (uint64_t)sysconf(_SC_CLK_TCK);
	struct rusage ended;

	getrusage(RUSAGE_CHILDREN, &ended);
	ms += (uint64_t)(ended.ru_utime.tv_sec + ended.ru_stime.tv_sec) * 1000;
	ms += (uint64_t)(ended.ru_utime.tv_usec + ended.ru_stime.tv_usec) / 1000;
	if (ms <= command->counted_ms)
		return;
	*command->work += (unsigned long)(ms - command->counted_ms);
	command->counted_ms = ms;
}

/* As much as a pipe holds, at most: a command that floods it must not keep the leader here. */
static void read_errors(struct command *command)
{
	char text[4096];
	ssize_t got = 1;

	for (int reads = 0; reads < 16; reads++) {
		got = read(command->errors, text, sizeof(text));
		if (got <= 0)
			break;
		for (ssize_t i = 0; i < got; i++) {
			if (text[i] == '\n') {
				command->complete = true;
				continue;
			}
			if (command->complete)
				command->length = 0;
			command->complete = false;
			if (command->length + 1 < sizeof(command->line))
				command->line[command->length++] =
					(unsigned char)text[i] < ' ' ? '?' : text[i];
		}
	}
	command->line[command->length] = '\0';
	if (!got) {
		close(command->errors);
		command->errors = -1;
	}
}

static int report_end(struct command *command, int status, struct message *msg)
{
	const char *colon = command->length ? ": " : "";
	const char *remedy = "give a command that runs until it is killed";

	if (WIFSIGNALED(status))
		return message_set(msg, -EIO, "find out what killed it", "killed by signal %d%s%s",
				   WTERMSIG(status), colon, command->line);
	if (WEXITSTATUS(status) == SHELL_NOT_FOUND)
		remedy = "install the program on the target, or give its path";
	return message_set(msg, -EIO, remedy, "ended by itself with exit status %d%s%s",
			   WEXITSTATUS(status), colon, command->line);
}

/* Wait for those that have ended; whether the shell is one of them. */
static bool reap(const struct command *command, int *status)
{
	bool ended = false;
	int other;
	pid_t pid;

	while ((pid = waitpid(-1, &other, WNOHANG)) > 0) {
		if (pid != command->shell)
			continue;
		ended = true;
		*status = other;
	}
	return ended;
}

/* Count once a second until the shell ends, or the agent has died. */
static int watch(struct command *command, struct load_worker *worker, struct message *msg)
{
	int64_t next_ns = clock_now_ns(CLOCK_MONOTONIC) + READY_NS;
	bool ready = false;

	for (;;) {
		struct pollfd wait[] = {
			{ .fd = command->signals, .events = POLLIN },
			{ .fd = command->errors, .events = POLLIN },
		};
		int64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
		struct signalfd_siginfo info;
		int status = 0;

		if (now_ns >= next_ns) {
			count(command);
			if (!ready)
				load_ready(worker);
			ready = true;
			next_ns = now_ns + NSEC_PER_SEC;
		}
		poll(wait, 2, (int)((next_ns - now_ns) / NSEC_PER_MSEC) + 1);
		if (wait[1].revents)
			read_errors(command);
		while (read(command->signals, &info, sizeof(info)) == sizeof(info))
			if (getppid() != command->agent)
				return 0;
		if (reap(command, &status)) {
			if (command->errors >= 0)
				read_errors(command);
			return report_end(command, status, msg);
		}
	}
}

/* Starts the shell in the group, which the leader then leaves. */
static int start_shell(struct command *command, const char *text, bool as_root, struct message *msg)
{
	pid_t leader = getpid();
	int ends[2];
	sigset_t none;
	int err = pipe2(ends, O_CLOEXEC | O_NONBLOCK) ? -errno : 0;

	if (err)
		goto out_message;
	command->errors = ends[0];
	command->shell = load_fork();
	if (!command->shell) {
		fcntl(ends[1], F_SETFL, 0);
		dup2(ends[1], STDERR_FILENO);
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		if (!as_root && load_become_caller(leader))
			_exit(EPERM);
		execl("/bin/sh", "sh", "-c", text, NULL);
		_exit(errno);
	}
	err = command->shell < 0 ? -errno : 0;
	close(ends[1]);
	if (!err)
		return 0;
out_message:
	return message_set(msg, err, "raise the limits of processes and open files (ulimit -u -n)",
			   "cannot start a shell: %s", strerror(-err));
}

static int command_run(struct load_worker *worker, const struct option_set *options,
		       struct message *msg)
{
	struct command command = { .work = load_counter(worker, 0), .agent = getppid() };
	sigset_t all;
	int err;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	command.signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	err = start_shell(&command, option_text(options, "text"),
			  !strcmp(option_text(options, "user"), "root"), msg);
	if (err)
		return err;
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	setpgid(0, getpgid(command.agent));
	err = watch(&command, worker, msg);
	load_end_children();
	return err;
}

const struct load load_command = {
	.name = "command",
	.unit = "ms",
	.options = command_options,
	.run = command_run,
	.rests = true,
};
