// SPDX-License-Identifier: Apache-2.0
/*
 * Tests of settings.c and what it builds on: values, the journal (cut at every byte), undoing,
 * records. Plain files stand for the settings, so it needs no privilege. What happens when
 * processes are killed is tested in tests/machine/test_settings_guardian.py. Prints TAP.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/procstat.h"
#include "base/value.h"
#include "system/journal.h"
#include "system/settings.h"
#include "tap.h"

static char folder[64];

static const char *path_of(const char *name)
{
	static char path[8][128];
	static int next;

	next = (next + 1) % 8;
	snprintf(path[next], sizeof(path[next]), "%s/%s", folder, name);
	return path[next];
}

static const char *put_file(const char *name, const char *text)
{
	const char *path = path_of(name);
	FILE *file = fopen(path, "w");

	if (!file || fputs(text, file) == EOF || fclose(file))
		exit(1);
	return path;
}

static bool holds(const char *name, const char *text)
{
	char found[256] = "";
	FILE *file = fopen(path_of(name), "r");
	size_t size;

	if (!file)
		return false;
	size = fread(found, 1, sizeof(found) - 1, file);
	fclose(file);
	return size == strlen(text) && !strcmp(found, text);
}

static const struct {
	const char *content;
	const char *value;
} contents[] = {
	{ "950000\n", "950000" },
	{ "-1", "-1" },
	{ "", "" },
	{ "\n", "" },
	{ "two words \n", "two words" },
	{ "always [madvise] never\n", "madvise" },
	{ "[none] mq-deadline\n", "none" },
	{ "a b [c]\n", "c" },
	{ "[only]\n", "only" },
	{ "a [b] [c]\n", "a [b] [c]" },
	{ "a[0] b\n", "a[0] b" },
	{ "[0]b c\n", "[0]b c" },
	{ "[two words] c\n", "[two words] c" },
	{ "[] a\n", "[] a" },
	{ "[a\n", "[a" },
	{ "a]\n", "a]" },
	{ "x [y]\nz\n", "x [y]\nz" },
};

static void test_values(void)
{
	char value[VALUE_MAX], longest[VALUE_MAX + 1], what[96];

	for (size_t i = 0; i < sizeof(contents) / sizeof(contents[0]); i++) {
		const char *path = put_file("value", contents[i].content);

		snprintf(what, sizeof(what), "value number %zu is read", i);
		tap_check(!value_get(path, value, NULL) && !strcmp(value, contents[i].value), "%s",
			  what);
	}
	memset(longest, 'x', sizeof(longest));
	longest[VALUE_MAX] = '\0';
	tap_check(value_get(put_file("value", longest), value, NULL) == -EFBIG,
		  "too long to be stored");
	tap_check(value_put(path_of("value"), longest) == -EFBIG, "too long to be written");
	longest[VALUE_MAX - 1] = '\0';
	tap_check(!value_get(put_file("value", longest), value, NULL) && !strcmp(value, longest),
		  "just short enough");
	tap_check(!value_put(path_of("value"), "7") && holds("value", "7\n"),
		  "a shorter value leaves nothing of the longer one");
	tap_check(value_get(path_of("missing"), value, NULL) == -ENOENT &&
			  value_put(path_of("missing"), "1") == -ENOENT &&
			  access(path_of("missing"), F_OK),
		  "a missing file is not made");
	tap_check(value_get(folder, value, NULL) == -EISDIR, "a folder is not a setting");
}

static void test_procstat(void)
{
	struct procstat self, child;
	pid_t pid;

	tap_check(!procstat_read(getpid(), &self) && self.pgrp == getpgrp() &&
			  self.session == getsid(0) && self.state == 'R',
		  "a process is described");
	tap_check(procstat_alive(getpid(), self.started) &&
			  !procstat_alive(getpid(), self.started + 1),
		  "by its start time");
	pid = fork();
	if (pid == 0) {
		setpgid(0, 0);
		for (;;)
			pause();
	}
	setpgid(pid, pid);
	tap_check(!procstat_read(pid, &child) && child.pgrp == pid,
		  "a child of a group of its own");
	tap_check(!procstat_kill_group(pid, child.session, child.started + 1) &&
			  !waitpid(pid, NULL, WNOHANG),
		  "a group that started earlier is another one");
	tap_check(!procstat_kill_group(pid, child.session + 1, child.started) &&
			  !waitpid(pid, NULL, WNOHANG),
		  "so is one of another session");
	tap_check(!procstat_kill_group(pid, child.session, child.started), "the group is killed");
	tap_check(!procstat_alive(pid, child.started), "a zombie does not live");
	tap_check(waitpid(pid, NULL, 0) == pid && procstat_read(pid, &child) == -ESRCH,
		  "and is gone");
}

/* Journals */

struct line {
	size_t words;
	const char *word[4];
};

static const struct line lines[] = {
	{ 4, { "set", "/a", "1", "2" } },
	{ 3, { "got", "/a", "2x" } },
	{ 4, { "set", "/tab\there", "line\nbreak", "back\\slash" } },
	{ 4, { "set", "/a", "2x", "3" } },
	{ 4, { "group", "123", "45", "678901234567" } },
	{ 3, { "got", "/tab\there", "" } },
	{ 2, { "put", "/tab\there" } },
	{ 2, { "undo", "/a" } },
	{ 2, { "free", "123" } },
};

static bool is(const char *text, const char *expected)
{
	return text ? expected && !strcmp(text, expected) : !expected;
}

/* What the first @count lines say, worked out by hand. */
static bool as_expected(const struct journal *j, size_t count)
{
	static const size_t entries[] = { 0, 1, 1, 2, 2, 2, 2, 2, 2, 2 };
	static const char *const asked_a[] = { "", "2", "2", "2", "3", "3", "3", "3", "3", "3" };
	static const char *const effective_a[] = { "",	 NULL, "2x", "2x", NULL,
						   NULL, NULL, NULL, NULL, NULL };

	if (j->pid != getpid() || !j->this_boot || j->entry_count != entries[count])
		return false;
	if (count >= 1 && (!is(j->entries[0].path, "/a") || !is(j->entries[0].before, "1") ||
			   !is(j->entries[0].asked, asked_a[count]) ||
			   !is(j->entries[0].effective, effective_a[count]) || j->entries[0].put))
		return false;
	if (count >= 3 &&
	    (!is(j->entries[1].path, "/tab\there") || !is(j->entries[1].before, "line\nbreak") ||
	     !is(j->entries[1].asked, "back\\slash") ||
	     !is(j->entries[1].effective, count >= 6 ? "" : NULL) ||
	     j->entries[1].put != (count >= 7)))
		return false;
	if (j->group_count != (count >= 5))
		return false;
	return count < 5 ||
	       (j->groups[0].pgid == 123 && j->groups[0].session == 45 &&
		j->groups[0].started == 678901234567 && j->groups[0].released == (count >= 9));
}

static void test_journal(int state)
{
	const size_t count = sizeof(lines) / sizeof(lines[0]);
	off_t end[sizeof(lines) / sizeof(lines[0]) + 1];
	struct message msg = { 0 };
	char name[JOURNAL_NAME];
	struct journal journal;
	bool good = true;
	struct stat st;
	uint64_t started;
	pid_t pid;
	int fd;

	fd = journal_create(state, name, &msg);
	tap_check(fd >= 0 && !fstat(fd, &st) && (st.st_mode & 07777) == 0600, "a journal is made");
	tap_check(journal_owner(name, &pid, &started) && pid == getpid() &&
			  procstat_alive(pid, started),
		  "and named after its process");
	tap_check(journal_open(state, name) == -EWOULDBLOCK, "and locked");
	end[0] = st.st_size;
	for (size_t i = 0; i < count; i++) {
		struct journal_lines one = { 0 };

		journal_add(&one, lines[i].words, lines[i].word);
		good &= !journal_append(fd, &one) && !fstat(fd, &st);
		end[i + 1] = st.st_size;
		journal_lines_free(&one);
	}
	tap_check(good, "lines are appended");
	good = true;
	for (off_t size = end[count]; size >= end[0]; size--) {
		size_t whole = count;

		while (end[whole] > size)
			whole--;
		good &= !ftruncate(fd, size) && !journal_load(fd, &journal) &&
			as_expected(&journal, whole);
		journal_free(&journal);
	}
	tap_check(good, "cut at any byte, it says what its whole lines say");
	good = true;
	for (off_t size = end[0] - 1; size >= 0; size--)
		good &= !ftruncate(fd, size) && journal_load(fd, &journal) == -ENODATA;
	tap_check(good, "cut in its first line, it says nothing");
	unlinkat(state, name, 0);
	close(fd);
}

/* A journal as a dead agent may have left it; @head NULL: of this boot. */
static void leave(int state, const char *head, const char *body)
{
	char boot_id[VALUE_MAX], text[VALUE_MAX + 512];
	int fd = openat(state, "journal-4194305-1", O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (value_get("/proc/sys/kernel/random/boot_id", boot_id, NULL))
		exit(1);
	snprintf(text, sizeof(text), "%s%s%s%s", head ? head : "rtgauge-journal\t1\t4194305\t1\t",
		 head ? "" : boot_id, head ? "" : "\n", body);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		exit(1);
	close(fd);
}

static bool left(int state)
{
	return !faccessat(state, "journal-4194305-1", F_OK, 0);
}

static void test_undo(int state)
{
	struct message msg = { 0 };
	char body[512];

	snprintf(body, sizeof(body),
		 "set\t%s\t1\t2\ngot\t%s\t2\nset\t%s\told\tnew\nset\t%s\t5\t6\ngot\t%s\t6\n"
		 "nonsense\nset\tshort\n\\q\t\n\nset\t%s\tx\ty\nput\t%s\nset\t%s\t1\t",
		 path_of("a"), path_of("a"), path_of("b"), path_of("c"), path_of("c"), path_of("d"),
		 path_of("d"), path_of("e"));
	put_file("a", "2\n");
	put_file("b", "half writ");
	put_file("c", "7\n");
	put_file("d", "y\n");
	put_file("e", "2\n");
	leave(state, NULL, body);
	tap_check(settings_undo(&msg) == 2, "two settings are restored");
	tap_check(holds("a", "1\n"), "the one that is as it was set");
	tap_check(holds("b", "old\n"), "the one that was being set");
	tap_check(holds("c", "7\n") && strstr(msg.text, path_of("c")) &&
			  strstr(msg.text, "another program"),
		  "not the one that someone else set since, which is reported");
	tap_check(holds("d", "y\n"), "not the one that was restored before");
	tap_check(holds("e", "2\n"), "not the one whose entry is cut: it was not set yet");
	tap_check(!left(state), "the journal is gone");

	leave(state, "rtgauge-journal\t1\t4194305\t1\tanother-boot\n", body);
	put_file("a", "2\n");
	memset(&msg, 0, sizeof(msg));
	tap_check(settings_undo(&msg) == 0 && holds("a", "2\n") && !left(state),
		  "a journal of another boot is dropped");

	mkdir(path_of("instances"), 0700);
	mkdir(path_of("instances/rtgauge-1"), 0700);
	mkdir(path_of("instances/rtgauge-1-explain"), 0700);
	snprintf(body, sizeof(body), "instance\t%s\ninstance\t%s\n", path_of("instances/rtgauge-1"),
		 path_of("instances/rtgauge-1-explain"));
	leave(state, NULL, body);
	tap_check(settings_undo(&msg) == 2 && !left(state) && !rmdir(path_of("instances")),
		  "both trace instances are removed");

	leave(state, "rtgauge-journal\t99\t1\n", body);
	tap_check(settings_undo(&msg) == 0 && holds("a", "2\n") && left(state) && msg.text[0],
		  "one of a newer version is kept and told");

	memset(&msg, 0, sizeof(msg));
	snprintf(body, sizeof(body), "set\t%s\t1\t2\n", path_of("missing"));
	leave(state, NULL, body);
	tap_check(settings_undo(&msg) == 0 && left(state) && strstr(msg.text, "missing"),
		  "one that cannot be undone is kept and told");
	put_file("missing", "2\n");
	memset(&msg, 0, sizeof(msg));
	tap_check(settings_undo(&msg) == 1 && !left(state) && holds("missing", "1\n"),
		  "and undone when it can");

	snprintf(body, sizeof(body), "set\t%s\t1\t2\n", path_of("a"));
	leave(state, NULL, body);
	(void)!fchmodat(state, "journal-4194305-1", 0666, 0);
	memset(&msg, 0, sizeof(msg));
	tap_check(settings_undo(&msg) == 0 && holds("a", "2\n") && msg.text[0],
		  "one that others could have written is not believed");
	unlinkat(state, "journal-4194305-1", 0);
	leave(state, NULL, body);
	/* within the folder: settings_undo() may have moved this process to other mounts */
	renameat(state, "journal-4194305-1", state, "elsewhere");
	tap_check(!symlinkat("elsewhere", state, "journal-4194305-1"), "(a link is laid)");
	memset(&msg, 0, sizeof(msg));
	tap_check(settings_undo(&msg) == 0 && holds("a", "2\n"), "a link is not followed");
	unlinkat(state, "journal-4194305-1", 0);
}

/* Root takes the folder in /tmp if /run is read-only. That leaves no message. */
static void test_second_folder(void)
{
	const char *what = "root takes the second folder without a message";
	struct message msg = { 0 };
	int status = 0;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (!child) {
		if (geteuid() || unshare(CLONE_NEWNS) ||
		    mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		    mount("tmpfs", "/run", "tmpfs", MS_RDONLY, NULL) ||
		    mount("tmpfs", "/tmp", "tmpfs", 0, NULL))
			_exit(2);
		_exit(journal_folder(&msg) < 0 || msg.text[0]);
	}
	waitpid(child, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
		tap_skip("only root can mount", "%s", what);
	else
		tap_check(!status, "%s", what);
}

static void test_state_folder(void)
{
	char state[128], other[128];
	struct message msg = { 0 };
	int fd;

	snprintf(state, sizeof(state), "%s", getenv("RTGAUGE_STATE"));
	snprintf(other, sizeof(other), "%s/other", folder);
	setenv("RTGAUGE_STATE", other, 1);
	fd = journal_folder(&msg);
	tap_check(fd >= 0, "the state folder is made");
	close(fd);
	chmod(other, 0777);
	tap_check(journal_folder(&msg) == -EPERM && strstr(msg.remedy, "RTGAUGE_STATE"),
		  "one that others can write to is refused");
	rmdir(other);
	tap_check(!symlink(state, other) && journal_folder(&msg) < 0, "so is a link");
	unlink(other);
	put_file("other", "");
	tap_check(journal_folder(&msg) < 0, "so is a file");
	unlink(other);
	if (geteuid() == 0) {
		mkdir(other, 0700);
		tap_check(!chown(other, 1, 1) && journal_folder(&msg) == -EPERM,
			  "so is another user's folder");
		rmdir(other);
	} else {
		tap_skip("only root can make one", "so is another user's folder");
	}
	snprintf(other, sizeof(other), "%s/no/where", folder);
	setenv("RTGAUGE_STATE", other, 1);
	memset(&msg, 0, sizeof(msg));
	tap_check(journal_folder(&msg) == -ENOENT && msg.remedy[0],
		  "one that cannot be made is reported");
	unsetenv("RTGAUGE_STATE");
	test_second_folder();
	setenv("RTGAUGE_STATE", state, 1);
}

/* Settings */

struct seen {
	int count;
	struct setting_record last;
	char name[128], expected[64], found[64];
};

static void see_record(void *arg, const struct setting_record *record)
{
	struct seen *seen = arg;

	seen->count++;
	seen->last = *record;
}

static void see_change(void *arg, const char *name, const char *expected, const char *found)
{
	struct seen *seen = arg;

	seen->count++;
	snprintf(seen->name, sizeof(seen->name), "%s", name);
	snprintf(seen->expected, sizeof(seen->expected), "%s", expected);
	snprintf(seen->found, sizeof(seen->found), "%s", found);
}

static bool set_and_see(struct settings *s, const char *path, const char *value, const char *before,
			const char *effective, const char *reason)
{
	struct message msg = { 0 };
	struct seen seen = { 0 };

	if (settings_set(s, path, value, &msg))
		return false;
	settings_each(s, see_record, &seen);
	return is(seen.last.name, path) && is(seen.last.asked, value) &&
	       is(seen.last.before, before) && is(seen.last.effective, effective) &&
	       strstr(seen.last.reason, reason) && !seen.last.reason[0] == !reason[0];
}

static void test_settings(void)
{
	struct message msg = { 0 };
	struct settings *s, *second;
	struct seen seen = { 0 };
	int undone;

	put_file("a", "1\n");
	put_file("b", "on\n");
	tap_check(!settings_open(&s, &undone, &msg) && !undone && !settings_note(s), "open");
	tap_check(set_and_see(s, path_of("a"), "2", "1", "2", "") && holds("a", "2\n"), "set");
	tap_check(set_and_see(s, path_of("b"), "on", "on", "on", ""), "set to what it is");
	tap_check(set_and_see(s, path_of("a"), "33", "2", "33", "") && holds("a", "33\n"),
		  "set again");
	tap_check(set_and_see(s, path_of("no"), "1", NULL, NULL, "does not have this setting"),
		  "no such setting");
	tap_check(set_and_see(s, "relative", "1", NULL, NULL, "absolute"), "not a path");
	tap_check(set_and_see(s, path_of("a"), "4\n5", NULL, NULL, "several lines") &&
			  holds("a", "33\n"),
		  "not a value");
	put_file("e", "one [two]\n");
	tap_check(set_and_see(s, path_of("e"), "two", "two", "two", ""),
		  "a choice that stands already");
	tap_check(settings_verify(s, see_change, &seen) == 0 && seen.count == 0, "verified");
	put_file("a", "8\n");
	tap_check(settings_verify(s, see_change, &seen) == 1 && seen.count == 1 &&
			  is(seen.name, path_of("a")) && is(seen.expected, "33") &&
			  is(seen.found, "8"),
		  "a change underneath is seen");
	tap_check(settings_verify(s, see_change, &seen) == 1 && seen.count == 1, "and told once");
	put_file("a", "9\n");
	tap_check(settings_verify(s, see_change, &seen) == 1 && seen.count == 2 &&
			  is(seen.found, "9"),
		  "another one is also reported");
	put_file("a", "33\n");
	tap_check(settings_verify(s, see_change, &seen) == 0 && seen.count == 2,
		  "it is as set again");
	tap_check(settings_open(&second, &undone, &msg) == -EBUSY &&
			  strstr(msg.text, "another agent") && strstr(msg.remedy, "kill") &&
			  strstr(msg.remedy, "--keep-settings"),
		  "a second agent is refused");
	tap_check(settings_guard_group(s, getpgrp()) == -EINVAL &&
			  settings_guard_group(s, 1) == -EINVAL,
		  "the agent's own group is not to be killed");
	tap_check(settings_close(s) == 0 && holds("a", "1\n") && holds("b", "on\n"),
		  "all is as before");

	memset(&msg, 0, sizeof(msg));
	tap_check(!settings_open(&s, &undone, &msg) && !undone, "open again");
	tap_check(set_and_see(s, path_of("a"), "2", "1", "2", ""), "set");
	tap_check(set_and_see(s, path_of("b"), "off", "on", "off", ""), "set");
	put_file("a", "8\n");
	tap_check(settings_put_back(s, &msg) == 1 && holds("a", "8\n") && holds("b", "on\n") &&
			  strstr(msg.text, path_of("a")),
		  "someone else's change stays and is reported");
	tap_check(settings_close(s) == 1, "and counted");
	tap_check(waitpid(-1, NULL, 0) == -1 && errno == ECHILD, "no process is left");
}

int main(void)
{
	struct message msg = { 0 };
	char state[128], command[96];
	int fd;

	snprintf(folder, sizeof(folder), "%s/rtgauge-test-XXXXXX",
		 getenv("TMPDIR") && strlen(getenv("TMPDIR")) < 32 ? getenv("TMPDIR") : "/tmp");
	if (!mkdtemp(folder))
		return 1;
	snprintf(state, sizeof(state), "%s/state", folder);
	setenv("RTGAUGE_STATE", state, 1);
	fd = journal_folder(&msg);
	if (fd < 0)
		return 1;
	setvbuf(stdout, NULL, _IONBF, 0);
	test_values();
	test_procstat();
	test_journal(fd);
	test_undo(fd);
	test_state_folder();
	test_settings();
	close(fd);
	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	return tap_end() || system(command);
}
