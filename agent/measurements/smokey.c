// SPDX-License-Identifier: Apache-2.0
/*
 * Smokey: runs the board's own test program of Xenomai, and gives a verdict for each of its tests.
 * Nothing is measured. Without the program the step is skipped.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "run/step.h"

/* Where Xenomai installs it and its libraries by default. */
#define SMOKEY_FOLDER "/usr/xenomai/bin"
#define SMOKEY_LIBRARIES "/usr/xenomai/lib"
#define SMOKEY_LOOK_MS 200
#define SMOKEY_TESTS 128
#define SMOKEY_TEXT 200

#define SMOKEY_RULE "smokey ends without a failure"
#define SMOKEY_REMEDY "run it on the board for its messages: smokey --run=NAME --verbose=2"

static const struct option_info smokey_options[] = {
	{ "timeout", OPTION_DURATION, "10m", NSEC_PER_SEC, 24 * 3600 * NSEC_PER_SEC, NULL,
	  "time after which smokey is killed and counts as failed" },
	{ "vm", OPTION_FLAG, "no", 0, 0, NULL,
	  "relax time limits for a virtual machine, as xeno-test --vm does" },
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

struct smokey_test {
	char rule[64];
	const char *result;
	char evidence[SMOKEY_TEXT];
};

struct smokey_state {
	char program[256];
	struct smokey_test tests[SMOKEY_TESTS];
	int count;
	int omitted;		/* results of tests for which there is no room */
	bool failed;		/* a test has */
	char line[SMOKEY_TEXT]; /* that it is writing */
	size_t length;
	char said[SMOKEY_TEXT]; /* the last line without a result */
	int64_t took_ns;
	int status; /* as of waitpid() */
	int error;  /* errno with which it was not started */
	bool ended; /* by itself, in time */
	bool left;  /* the step was stopped */
};

/* --- what it prints --- */

/* Processes that smokey forks print again what it had not written yet, so only the first result of a
 * test counts, and after it a failure. */
static void smokey_result(struct smokey_state *state, const char *name, size_t size,
			  const char *result, const char *evidence)
{
	struct smokey_test *test = state->tests;
	char rule[sizeof(test->rule)];
	int number = 0;

	size -= size && name[size - 1] == ':';
	snprintf(rule, sizeof(rule), "smokey: %.*s", (int)size, name);
	while (number < state->count && strcmp(state->tests[number].rule, rule))
		number++;
	test += number;
	state->failed |= !strcmp(result, "fail");
	state->omitted += number == SMOKEY_TESTS;
	if (number == SMOKEY_TESTS || (number < state->count && strcmp(result, "fail")))
		return;
	state->count += number == state->count;
	memcpy(test->rule, rule, sizeof(rule));
	snprintf(test->evidence, sizeof(test->evidence), "%s", evidence);
	test->result = result;
}

/* Lines of results are the same from Xenomai 3.0 to 3.3: "NAME OK", "NAME skipped (...)" and
 * "test NAME failed: ...". */
static void smokey_line(struct smokey_state *state)
{
	const char *line = state->line;
	size_t name = strcspn(line, " ");
	const char *rest = line + name;

	if (!strcmp(rest, " OK"))
		smokey_result(state, line, name, "pass", line);
	else if (!strncmp(rest, " skipped (", 10))
		smokey_result(state, line, name, "skipped", line);
	else if (!strncmp(line, "test ", 5) && strstr(line, " failed: "))
		smokey_result(state, line + 5, strcspn(line + 5, " "), "fail",
			      *state->said ? state->said : line);
	else if (*line) {
		snprintf(state->said, sizeof(state->said), "%s", line);
		return;
	}
	state->said[0] = '\0';
}

static void smokey_text(struct smokey_state *state, const char *text, ssize_t size)
{
	for (ssize_t i = 0; i < size; i++) {
		if (text[i] == '\n') {
			state->line[state->length] = '\0';
			smokey_line(state);
			state->length = 0;
		} else if (state->length + 1 < sizeof(state->line)) {
			state->line[state->length++] = (unsigned char)text[i] < ' ' ? ' ' : text[i];
		}
	}
}

/* --- its run --- */

/* In the folders of PATH, or in that of Xenomai. */
static bool smokey_find(struct smokey_state *state)
{
	const char *folders = getenv("PATH");

	while (folders && *folders) {
		size_t size = strcspn(folders, ":");

		snprintf(state->program, sizeof(state->program), "%.*s/smokey", (int)size, folders);
		if (*folders == '/' && !access(state->program, X_OK))
			return true;
		folders += size + (folders[size] == ':');
	}
	snprintf(state->program, sizeof(state->program), "%s/smokey", SMOKEY_FOLDER);
	return !access(state->program, X_OK);
}

/* In a group of its own, without the agent's mask of signals and its input. 0 or errno. */
static int smokey_start(struct smokey_state *state, bool vm, int output, pid_t *pid)
{
	/* one of its tests starts it again by its name here */
	char *const words[] = { state->program,
				"--run",
				"--keep-going",
				"random_alloc_rounds=64",
				"pattern_check_rounds=64",
				vm ? "--vm" : NULL,
				NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t how;
	extern char **environ;
	sigset_t signals;
	int err;

	setenv("LD_LIBRARY_PATH", SMOKEY_LIBRARIES, 0);
	sigemptyset(&signals);
	posix_spawnattr_init(&how);
	posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setpgroup(&how, 0);
	posix_spawnattr_setsigmask(&how, &signals);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&files, output, STDERR_FILENO);
	err = posix_spawn(pid, state->program, &files, &how, words, environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&how);
	return err;
}

/* Its output until it ends. Its children may keep the pipe open for longer. */
static void smokey_follow(struct step *step, struct smokey_state *state, int output, pid_t pid)
{
	int64_t end_ns = clock_now_ns(CLOCK_MONOTONIC) + option_number(&step->options, "timeout");
	struct pollfd wait = { .fd = output, .events = POLLIN };
	char text[1024];
	ssize_t got;

	while (!state->ended && !state->left && clock_now_ns(CLOCK_MONOTONIC) < end_ns) {
		poll(&wait, 1, SMOKEY_LOOK_MS);
		state->ended = waitpid(pid, &state->status, WNOHANG) == pid;
		while ((got = read(output, text, sizeof(text))) > 0)
			smokey_text(state, text, got);
		if (!got)
			wait.fd = -1;
		state->left = step_stopped(step);
	}
	kill(-pid, SIGKILL);
	if (!state->ended)
		waitpid(pid, &state->status, 0);
}

static void smokey_loop(struct worker *worker)
{
	struct step *step = worker->step;
	struct smokey_state *state = step->state;
	int64_t start_ns = clock_now_ns(CLOCK_MONOTONIC);
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC)) {
		state->error = errno;
		return;
	}
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	state->error = smokey_start(state, option_number(&step->options, "vm"), ends[1], &pid);
	close(ends[1]);
	if (!state->error) {
		if (step->settings)
			settings_guard_group(step->settings, pid);
		smokey_follow(step, state, ends[0], pid);
		if (step->settings)
			settings_release_group(step->settings, pid);
	}
	close(ends[0]);
	state->took_ns = clock_now_ns(CLOCK_MONOTONIC) - start_ns;
}

static int smokey_setup(struct step *step)
{
	int worker;

	if (!smokey_find(step->state))
		return step_skip(
			step, "smokey, the test program of Xenomai, is not installed on the target",
			"install Xenomai's programs on the board, in PATH or in "
			"/usr/xenomai/bin");
	worker = step_add_worker(step, smokey_loop, NULL, -1, 0);
	if (worker < 0)
		return worker;
	step->workers[worker].plain = true;
	/* smokey inherits this limit, and its tests have their own */
	step->spin_ns = option_number(&step->options, "timeout");
	return 0;
}

/* Messages of Xenomai's library, and of the loader that does not find it. */
static const char *smokey_remedy(const char *said)
{
	if (strstr(said, "ABI mismatch"))
		return "install Xenomai's programs and libraries of the version that the kernel has";
	if (strstr(said, "error while loading shared libraries"))
		return "install Xenomai's libraries, and list their folder in /etc/ld.so.conf (ldconfig)";
	return SMOKEY_REMEDY;
}

static int smokey_finish(struct step *step)
{
	struct smokey_state *state = step->state;
	char evidence[sizeof(state->program) + SMOKEY_TEXT + 192];
	const char *said = *state->said ? state->said : "none";
	int passed = 0, used = 0;
	int64_t took_s = state->took_ns / NSEC_PER_SEC;
	bool good = state->ended && WIFEXITED(state->status) && !WEXITSTATUS(state->status);

	if (state->error)
		return message_set(&step->msg, -state->error, "start it on the board by hand",
				   "cannot start %s: %s", state->program, strerror(state->error));
	for (int i = 0; i < state->count; i++) {
		passed += !strcmp(state->tests[i].result, "pass");
		step_verdict(step, state->tests[i].rule, state->tests[i].result,
			     state->tests[i].evidence, SMOKEY_REMEDY);
	}
	if (state->left)
		return 0;
	if (state->omitted)
		used = snprintf(evidence, sizeof(evidence),
				"%d results after the first %d were left out%s. ", state->omitted,
				SMOKEY_TESTS, state->failed ? ", and a test failed" : "");
	if (!state->ended)
		snprintf(evidence + used, sizeof(evidence) - (size_t)used,
			 "%s did not end within %lld s. Its last message: %s", state->program,
			 (long long)took_s, said);
	else if (good || !WIFSIGNALED(state->status))
		snprintf(evidence + used, sizeof(evidence) - (size_t)used,
			 "%s ended with status %d after %lld s, %d of %d tests passed%s%s",
			 state->program, WEXITSTATUS(state->status), (long long)took_s, passed,
			 state->count, good ? "" : ". Its last message: ", good ? "" : said);
	else
		snprintf(evidence + used, sizeof(evidence) - (size_t)used,
			 "%s was killed by signal %d. Its last message: %s", state->program,
			 WTERMSIG(state->status), said);
	step_verdict(step, SMOKEY_RULE,
		     !good || state->failed ? "fail" :
		     passed		    ? "pass" :
					      "inconclusive",
		     evidence, smokey_remedy(said));
	return 0;
}

static bool smokey_on_cobalt(const struct step *step)
{
	(void)step;
	return true;
}

const struct measurement smokey_measurement = {
	.name = "smokey",
	.summary = "the tests of Xenomai's own program smokey, if the target has it",
	.chapter = CHAPTER_KERNEL,
	.options = smokey_options,
	.verdicts = {
		{ SMOKEY_RULE,
		  "its exit status is 0, at least one test has passed, and none has failed" },
		{ "smokey: NAME",
		  "one for each of its tests. Skipped: the kernel does not support it" },
	},
	.state_size = sizeof(struct smokey_state),
	.setup = smokey_setup,
	.on_cobalt = smokey_on_cobalt,
	.finish = smokey_finish,
};
