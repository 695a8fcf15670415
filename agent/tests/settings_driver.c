// SPDX-License-Identifier: Apache-2.0
/*
 * settings_driver: changes settings as the agent does, for tests/machine/test_settings_guardian.py.
 *
 *   hold [STEP]...   open, take the steps, print "ready", wait for a line or the end of stdin,
 *                    take what the line says ("close": restore and end; "verify": look), end
 *   undo             undo what dead agents left, print the number restored and the note
 *
 * Steps: PATH=VALUE; FOLDER/@=VALUE is every file 0, 1, … of it at once; "prepare"; CPUS=LIST what
 * --prepare changes for measuring there; IRQ=LIST what --irq-priority changes; "group" starts a process group that is to be killed with
 * the agent.
 * Everything printed is one JSON document a line.
 *
 * Crashes: CRASH_AT=N kills this process before its N-th system call that matters (with --wrap,
 * see the test), CRASH_GUARDIAN=yes the guardian with it, CRASH_GUARDIAN_AT=N the guardian before
 * its own N-th after the agent's end. The numbers are thus the same in every run.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "system/irq_priority.h"
#include "system/prepare.h"
#include "system/settings.h"

#define FILES_MAX 64

static pid_t agent;   /* set when counting begins */
static pid_t counted; /* whose calls are counted: a child counts from 0 */
static pid_t guardian;
static long crash_at, crash_guardian_at;
static long calls;

/* --wrap: the calls between which a kill makes a difference */

static void crash_point(void)
{
	pid_t self = getpid();

	if (!agent)
		return;
	if (self != counted)
		calls = 0;
	counted = self;
	calls++;
	if (self == agent && calls == crash_at) {
		if (guardian && getenv("CRASH_GUARDIAN")) {
			kill(guardian, SIGKILL);
			waitpid(guardian, NULL, 0);
		}
		kill(self, SIGKILL);
	}
	if (self != agent && calls == crash_guardian_at)
		kill(self, SIGKILL);
}

#define WRAP(type, name, parameters, arguments) \
	type __wrap_##name parameters;          \
	type __real_##name parameters;          \
	type __wrap_##name parameters           \
	{                                       \
		crash_point();                  \
		return __real_##name arguments; \
	}
WRAP(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size))
WRAP(int, fdatasync, (int fd), (fd))
WRAP(int, ftruncate, (int fd, off_t size), (fd, size))
WRAP(int, unlinkat, (int folder, const char *name, int flags), (folder, name, flags))
WRAP(int, fsync, (int fd), (fd))

static void print_text(const char *text)
{
	if (!text) {
		printf("null");
		return;
	}
	putchar('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putchar('\\');
		if (*text == '\n' || *text == '\t')
			printf("\\u%04x", *text);
		else
			putchar(*text);
	}
	putchar('"');
}

static void print_record(void *arg, const struct setting_record *record)
{
	bool *first = arg;

	printf("%s{\"name\": ", *first ? "" : ", ");
	*first = false;
	print_text(record->name);
	printf(", \"asked\": ");
	print_text(record->asked);
	printf(", \"before\": ");
	print_text(record->before);
	printf(", \"effective\": ");
	print_text(record->effective);
	printf(", \"reason\": ");
	print_text(record->reason);
	printf("}");
}

static void print_change(void *arg, const char *name, const char *expected, const char *found)
{
	bool *first = arg;

	printf("%s[", *first ? "" : ", ");
	*first = false;
	print_text(name);
	printf(", ");
	print_text(expected);
	printf(", ");
	print_text(found);
	printf("]");
}

static int start_group(struct settings *settings)
{
	pid_t leader = fork();

	if (leader < 0)
		return -errno;
	if (leader == 0) {
		setpgid(0, 0);
		settings_after_fork(settings);
		close(STDIN_FILENO);
		close(STDOUT_FILENO);
		/* a grandchild that nothing ties to its parent */
		fork();
		for (;;)
			pause();
	}
	setpgid(leader, leader);
	printf("{\"group\": %d}\n", (int)leader);
	return settings_guard_group(settings, leader);
}

static int set_folder(struct settings *settings, const char *folder, const char *value,
		      struct message *msg)
{
	static char path[FILES_MAX][256];
	struct setting_wish wishes[FILES_MAX];
	struct stat st;
	size_t count;

	for (count = 0; count < FILES_MAX; count++) {
		snprintf(path[count], sizeof(path[count]), "%s/%zu", folder, count);
		wishes[count] = (struct setting_wish){ path[count], value };
		if (stat(path[count], &st))
			break;
	}
	return settings_set_all(settings, wishes, count, msg);
}

/* @list: the CPUs, and the items behind a blank if not all are meant. */
static int prepare_for(struct settings *settings, char *list, struct message *msg)
{
	char *items = strchr(list, ' ');
	struct cpulist measured;
	int err;

	if (items)
		*items++ = '\0';
	err = cpulist_parse(&measured, list);
	return err ? err : prepare_apply(settings, &measured, items, msg);
}

static int step(struct settings *settings, char *what, struct message *msg)
{
	char *value = strchr(what, '=');
	size_t size;

	if (!strcmp(what, "prepare"))
		return settings_prepare(settings, true, msg);
	if (!strcmp(what, "group"))
		return start_group(settings);
	if (!value)
		return -EINVAL;
	*value++ = '\0';
	if (!strcmp(what, "CPUS"))
		return prepare_for(settings, value, msg);
	if (!strcmp(what, "IRQ"))
		return irq_priority_apply(settings, value, msg);
	size = strlen(what);
	if (size > 2 && !strcmp(what + size - 2, "/@")) {
		what[size - 2] = '\0';
		return set_folder(settings, what, value, msg);
	}
	return settings_set(settings, what, value, msg);
}

static int fail(int err, const struct message *msg)
{
	printf("{\"error\": %d, \"text\": ", err);
	print_text(msg->text);
	printf(", \"remedy\": ");
	print_text(msg->remedy);
	printf("}\n");
	return 1;
}

static int hold(char **steps)
{
	struct settings *settings;
	const struct message *note;
	struct message msg = { 0 };
	char line[64];
	bool first;
	int undone, err;

	if (crash_at)
		agent = getpid();
	err = settings_open(&settings, &undone, &msg);
	if (err)
		return fail(err, &msg);
	guardian = settings_guardian(settings);
	note = settings_note(settings);
	printf("{\"agent\": %d, \"guardian\": %d, \"undone\": %d, \"note\": ", (int)getpid(),
	       (int)guardian, undone);
	print_text(note ? note->text : NULL);
	printf("}\n");
	for (; *steps; steps++) {
		err = step(settings, *steps, &msg);
		if (err) {
			settings_close(settings);
			return fail(err, &msg);
		}
	}
	printf("{\"ready\": [");
	first = true;
	settings_each(settings, print_record, &first);
	printf("]}\n");
	while (crash_at || fgets(line, sizeof(line), stdin)) {
		if (crash_at || !strcmp(line, "close\n")) {
			int put_back = settings_put_back(settings, &msg);
			int closed = settings_close(settings);

			printf("{\"remaining\": [%d, %d], \"calls\": %ld, \"text\": ", put_back,
			       closed, calls);
			print_text(msg.text);
			printf("}\n");
			return 0;
		}
		if (!strcmp(line, "verify\n")) {
			first = true;
			printf("{\"changed\": [");
			err = settings_verify(settings, print_change, &first);
			printf("], \"count\": %d}\n", err);
		}
	}
	return 0;
}

static int undo(void)
{
	struct message msg = { 0 };
	int err = settings_undo(&msg);

	if (err < 0)
		return fail(err, &msg);
	printf("{\"undone\": %d, \"text\": ", err);
	print_text(msg.text);
	printf("}\n");
	return 0;
}

int main(int argc, char **argv)
{
	const char *number;

	setvbuf(stdout, NULL, _IOLBF, 0);
	number = getenv("CRASH_AT");
	crash_at = number ? strtol(number, NULL, 10) : 0;
	number = getenv("CRASH_GUARDIAN_AT");
	crash_guardian_at = number ? strtol(number, NULL, 10) : 0;
	if (argc >= 2 && !strcmp(argv[1], "hold"))
		return hold(argv + 2);
	if (argc == 2 && !strcmp(argv[1], "undo"))
		return undo();
	fprintf(stderr, "usage: settings_driver hold [STEP]... | undo\n");
	return 2;
}
