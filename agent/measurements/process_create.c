// SPDX-License-Identifier: Apache-2.0
/*
 * Process creation with fork(), vfork(), fork() and exec, and posix_spawn(): until the child runs,
 * and until waitpid() has collected it. docs/measurements/process-create.md says what exactly is
 * timed.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/shared.h"
#include "methods/ensemble.h"

/* Children of a test loop. */
#define PROCESS_LOOP 10
#define PROCESS_NOT_STARTED 127 /* as a shell says it */

extern char **environ;

struct process_how {
	const char *name;
	pid_t (*create)(int64_t *ran_ns, char *const *words);
	bool program; /* the child says itself when it runs, through a pipe */
};

struct process_state {
	struct ensemble ensemble;
	int64_t samples;
	int64_t *ran_ns; /* of the child, in memory that it shares */
	int pipe[2];	 /* -1: not open */
	char fd[12];
	void *memory;
	size_t memory_size;
	struct process_series {
		int start;
		int life;
	} series[4];
};

/* CLOCK_MONOTONIC is one for all processes. */
static pid_t process_fork(int64_t *ran_ns, char *const *words)
{
	pid_t pid = fork();

	(void)words;
	if (pid)
		return pid;
	*ran_ns = clock_now_ns(CLOCK_MONOTONIC);
	_exit(0);
}

static __attribute__((noinline)) pid_t process_vfork(int64_t *ran_ns, char *const *words)
{
	pid_t pid = vfork();

	(void)words;
	if (pid)
		return pid;
	*ran_ns = clock_now_ns(CLOCK_MONOTONIC);
	_exit(0);
}

static pid_t process_exec(int64_t *ran_ns, char *const *words)
{
	pid_t pid = fork();

	(void)ran_ns;
	if (pid)
		return pid;
	execv("/proc/self/exe", words);
	_exit(PROCESS_NOT_STARTED);
}

static pid_t process_spawn(int64_t *ran_ns, char *const *words)
{
	pid_t pid;
	int err = posix_spawn(&pid, "/proc/self/exe", NULL, NULL, words, environ);

	(void)ran_ns;
	if (!err)
		return pid;
	errno = err;
	return -1;
}

static const struct process_how process_hows[] = {
	{ "fork", process_fork, false },
	{ "vfork", process_vfork, false },
	{ "exec", process_exec, true },
	{ "spawn", process_spawn, true },
};

#define PROCESS_HOWS ((int)(sizeof(process_hows) / sizeof(process_hows[0])))

static const struct option_info process_options[] = {
	ENSEMBLE_FOR,
	{ "samples", OPTION_INTEGER, "500", 1, 1000000, NULL, "children created in each way" },
	ENSEMBLE_CPU,
	ENSEMBLE_PRIORITY,
	{ "memory", OPTION_SIZE, "0", 0, 1LL << 40, NULL,
	  "additional private memory of the parent" },
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

/* Wait for it whatever comes between; once the step is stopped it is not waited for for long. */
static int process_wait(const struct step *step, pid_t pid)
{
	int status = -1;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		if (step_stopped(step))
			kill(pid, SIGKILL);
	return status;
}

static bool process_failed(struct process_state *state, const char *how, int status)
{
	struct ensemble *e = &state->ensemble;
	bool killed = WIFSIGNALED(status);

	e->error = message_set(&e->step->msg, -ECHILD,
			       killed ? "find out what ended it, and run again" :
					"mount /proc, and permit the agent's file to be executed",
			       "a child (%s) did not run to its end: %s %d", how,
			       killed ? "it was killed by signal" : "its exit status is",
			       killed ? WTERMSIG(status) : WEXITSTATUS(status));
	return false;
}

static bool process_once(struct process_state *state, int number)
{
	const struct process_how *how = &process_hows[number];
	const struct process_series *to = &state->series[number];
	struct ensemble *e = &state->ensemble;
	char *const words[] = { (char *)"rtgauge-agent", (char *)"stamp", state->fd, NULL };
	int64_t from_ns, until_ns;
	pid_t pid;
	int status;

	*state->ran_ns = 0;
	from_ns = mark_from_ns(&e->step->mark);
	pid = how->create(state->ran_ns, words);
	if (pid < 0)
		return ensemble_fail(e, -errno, "cannot create a process");
	status = process_wait(e->step, pid);
	until_ns = mark_to_ns(&e->step->mark);
	if (step_stopped(e->step))
		return false;
	if (how->program && read(state->pipe[0], state->ran_ns, sizeof(*state->ran_ns)) < 0)
		*state->ran_ns = 0;
	if (status || !*state->ran_ns)
		return process_failed(state, how->name, status);
	series_put(&e->step->series[to->start], ensemble_net(e, *state->ran_ns - from_ns));
	series_put(&e->step->series[to->life], ensemble_net(e, until_ns - from_ns));
	return true;
}

static void process_loop(struct worker *worker)
{
	struct process_state *state = worker->state;

	for (int64_t done = 0; done < state->samples; done += PROCESS_LOOP)
		for (int i = 0; i < PROCESS_HOWS; i++) {
			int64_t left = state->samples - done;

			if (!ensemble_goes_on(&state->ensemble))
				return;
			ensemble_loop(&state->ensemble, state->series[i].start);
			ensemble_loop(&state->ensemble, state->series[i].life);
			/* a child of a parent with much memory takes longer than a test loop may */
			for (int k = 0; k < PROCESS_LOOP && k < left; k++)
				if ((k && !ensemble_goes_on(&state->ensemble)) ||
				    !process_once(state, i))
					return;
		}
}

static int process_add_series(struct process_state *state)
{
	for (int i = 0; i < PROCESS_HOWS; i++) {
		struct process_series *to = &state->series[i];

		to->start = ensemble_series(&state->ensemble, "start", "how", process_hows[i].name,
					    state->samples, true);
		to->life = ensemble_series(&state->ensemble, "life", "how", process_hows[i].name,
					   state->samples, true);
		if (to->start < 0 || to->life < 0)
			return to->start < 0 ? to->start : to->life;
	}
	return 0;
}

/* Small pages, all of them there: each has its entry in the page tables that fork() copies. */
static int process_take_memory(struct step *step, struct process_state *state)
{
	size_t size = option_size(&step->options, "memory");

	if (!size)
		return 0;
	state->memory =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (state->memory == MAP_FAILED) {
		state->memory = NULL;
		return message_set(&step->msg, -ENOMEM, "give a smaller --memory",
				   "cannot allocate memory of that size");
	}
	state->memory_size = size;
	madvise(state->memory, size, MADV_NOHUGEPAGE);
	memset(state->memory, 1, size);
	return 0;
}

static int process_setup(struct step *step)
{
	struct process_state *state = step->state;
	int err;

	state->pipe[0] = state->pipe[1] = -1;
	state->samples = option_number(&step->options, "samples");
	state->ran_ns = shared_alloc(sizeof(*state->ran_ns));
	if (!state->ran_ns)
		return message_set(&step->msg, -ENOMEM, "free some memory", "out of memory");
	if (pipe2(state->pipe, O_NONBLOCK) || fcntl(state->pipe[0], F_SETFD, FD_CLOEXEC))
		return message_set(&step->msg, -EMFILE, "allow more open files (ulimit -n)",
				   "cannot create a pipe: %s", strerror(errno));
	snprintf(state->fd, sizeof(state->fd), "%d", state->pipe[1]);
	err = process_take_memory(step, state);
	err = err ?: ensemble_setup(step, &state->ensemble, process_loop, 0, 0);
	return err ?: process_add_series(state);
}

/* Lines of /proc/self/status, in KiB. */
static void process_table(struct step *step)
{
	static const struct step_column columns[] = { { "memory", "" }, { "size", "KiB" } };
	static const char *const names[] = { "VmRSS", "RssAnon", "VmPTE" };
	static const char *const shown[] = { "resident", "private", "page tables" };
	char text[4096];
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	struct cbor *c;

	if (fd >= 0)
		close(fd);
	text[got > 0 ? got : 0] = '\0';
	c = step_table_begin(step, "parent", columns, 2, 3);
	for (int i = 0; i < 3; i++) {
		const char *line = strstr(text, names[i]);

		cbor_array(c, 2);
		cbor_text(c, shown[i]);
		cbor_int(c, line ? strtoll(line + strlen(names[i]) + 1, NULL, 10) : 0);
	}
	step_table_end(step);
}

static int process_finish(struct step *step)
{
	struct process_state *state = step->state;

	process_table(step);
	return state->ensemble.error;
}

static void process_cleanup(struct step *step)
{
	struct process_state *state = step->state;

	for (int i = 0; i < 2; i++)
		if (state->pipe[i] >= 0)
			close(state->pipe[i]);
	if (state->memory)
		munmap(state->memory, state->memory_size);
	shared_free(state->ran_ns, sizeof(*state->ran_ns));
}

const struct measurement process_create_measurement = {
	.name = "process-create",
	.summary = "time until a new process runs, and until waitpid() has collected it",
	.chapter = CHAPTER_KERNEL,
	.options = process_options,
	.series = {
		{ "start", "ns", "time until the new process runs", "before the call",
		  "the child's first instruction", NULL },
		{ "life", "ns", "time until waitpid() has collected a process that ends at once",
		  "before the call", "after waitpid()", NULL },
	},
	.tables = { { "parent", "memory of the copied process" } },
	.evaluate = { { "idle", "samples=200", "samples=20000" } },
	.mark = &mark_spans,
	.not_on_cobalt = "processes exist only on Linux",
	.state_size = sizeof(struct process_state),
	.setup = process_setup,
	.finish = process_finish,
	.cleanup = process_cleanup,
};
