// SPDX-License-Identifier: Apache-2.0
/* Restoring the settings of a journal. */
#include "system/undo.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/procstat.h"
#include "base/schedule.h"
#include "base/value.h"
#include "system/journal.h"

#define BUSY_ROUNDS 20
#define BUSY_PAUSE_NS 50000000

enum state {
	STATE_DONE, /* nothing (more) to do */
	STATE_OURS, /* still as set by that agent */
	STATE_FAILED,
};

static void mark(struct journal_lines *lines, const char *word, const char *path)
{
	const char *const fields[] = { word, path };

	journal_add(lines, 2, fields);
}

static enum state failed(struct undo_report *report, const struct journal_entry *entry, int err)
{
	report->failed++;
	message_set(&report->note, 0, "restore it by hand", "%s could not be restored to %s: %s",
		    entry->path, entry->before,
		    err ? value_reason(err) : "the kernel does not accept the value");
	return STATE_FAILED;
}

/* A setting that vanished with its device or thread is not restored. */
static bool gone(const struct journal_entry *entry, int err)
{
	return err == -ENOENT &&
	       (schedule_named(entry->path) || !strncmp(entry->path, "/proc/irq/", 10) ||
		!strncmp(entry->path, "/sys/devices/", 13));
}

static enum state look(const struct journal_entry *entry, struct undo_report *report)
{
	char value[VALUE_MAX];
	int err;

	err = value_get(entry->path, value, NULL);
	if (gone(entry, err))
		return STATE_DONE;
	if (err)
		return failed(report, entry, err);
	if (value_same(entry->path, value, entry->before))
		return STATE_DONE;
	/* without a known effect the agent was killed while it changed this very setting */
	if (!entry->effective || value_same(entry->path, value, entry->effective))
		return STATE_OURS;
	report->left++;
	message_set(
		&report->note, 0, "check whether the value is right",
		"another program changed %s from %s to %s. The new value was kept (originally %s)",
		entry->path, entry->effective, value, entry->before);
	return STATE_DONE;
}

static enum state put_back(const struct journal_entry *entry, struct undo_report *report)
{
	const struct timespec pause = { .tv_nsec = BUSY_PAUSE_NS };
	char value[VALUE_MAX];
	int round, err = 0;

	/* the bandwidth of SCHED_DEADLINE threads is given back only some time after their end */
	for (round = 0; round < BUSY_ROUNDS; round++) {
		err = value_put(entry->path, entry->before);
		if (err != -EBUSY)
			break;
		nanosleep(&pause, NULL);
	}
	if (!err)
		err = value_get(entry->path, value, NULL);
	if (err || !value_same(entry->path, value, entry->before))
		return failed(report, entry, err);
	report->put++;
	return STATE_DONE;
}

/*
 * Three passes, so that being killed in any of them leaves a journal that can be undone: look;
 * say in the journal what is about to be written; write, and say that it is done.
 */
static int undo_entries(int fd, const struct journal *journal, struct undo_report *report)
{
	struct journal_lines lines = { 0 };
	enum state *state;
	int pending = 0;
	size_t i;

	if (!journal->entry_count)
		return 0;
	state = calloc(journal->entry_count, sizeof(*state));
	if (!state)
		return -ENOMEM;
	for (i = journal->entry_count; i-- > 0;) {
		if (journal->entries[i].put)
			continue;
		state[i] = look(&journal->entries[i], report);
		if (state[i] == STATE_OURS)
			mark(&lines, "undo", journal->entries[i].path);
	}
	/* a full disk must not prevent the settings from being restored */
	journal_append(fd, &lines);
	lines.size = 0;
	for (i = journal->entry_count; i-- > 0;) {
		if (state[i] == STATE_OURS)
			state[i] = put_back(&journal->entries[i], report);
		if (state[i] == STATE_FAILED)
			pending = -EAGAIN;
		else if (!journal->entries[i].put)
			mark(&lines, "put", journal->entries[i].path);
	}
	journal_append(fd, &lines);
	journal_lines_free(&lines);
	free(state);
	return pending;
}

/* A journal may name no module but our own. */
static int undo_module(int fd, const char *name, struct undo_report *report)
{
	struct journal_lines lines = { 0 };

	if (!name[0] || strncmp(name, "rtgauge", 7))
		return 0;
	if (!syscall(SYS_delete_module, name, O_NONBLOCK)) {
		report->put++;
	} else if (errno != ENOENT && errno != ENOSYS) {
		report->failed++;
		message_set(&report->note, 0, "remove it by hand with rmmod",
			    "the module %s could not be removed: %s", name, strerror(errno));
		return -EAGAIN;
	}
	mark(&lines, "removed", name);
	journal_append(fd, &lines);
	journal_lines_free(&lines);
	return 0;
}

/* Nor any folder but a trace instance of ours. Its tracer ends with it. */
static int undo_instance(int fd, const char *path, struct undo_report *report)
{
	const struct timespec pause = { .tv_nsec = BUSY_PAUSE_NS };
	struct journal_lines lines = { 0 };
	int round, err = 0;

	if (!path[0] || !strstr(path, "/instances/rtgauge-") || strstr(path, "/../"))
		return 0;
	for (round = 0; round < BUSY_ROUNDS; round++) {
		err = rmdir(path) ? -errno : 0;
		if (err != -EBUSY)
			break;
		nanosleep(&pause, NULL);
	}
	if (!err) {
		report->put++;
	} else if (err != -ENOENT) {
		report->failed++;
		message_set(&report->note, 0, "remove it by hand with rmdir",
			    "the trace instance %s could not be removed: %s", path, strerror(-err));
		return -EAGAIN;
	}
	mark(&lines, "gone", path);
	journal_append(fd, &lines);
	journal_lines_free(&lines);
	return 0;
}

int undo_journal(int fd, bool groups, struct undo_report *report)
{
	struct journal journal;
	int err, err_module, err_instance = 0;
	size_t i;

	err = journal_load(fd, &journal);
	if (err == -ENODATA)
		return 0;
	if (err)
		return message_set(&report->note, err, "inspect it, then remove it",
				   "a journal of settings cannot be read: %s", strerror(-err));
	if (journal.this_boot) {
		err_module = undo_module(fd, journal.module, report);
		for (i = 0; i < JOURNAL_INSTANCES; i++)
			err_instance = undo_instance(fd, journal.instances[i], report) ?:
											 err_instance;
		for (i = 0; groups && i < journal.group_count; i++)
			if (!journal.groups[i].released)
				procstat_kill_group(journal.groups[i].pgid,
						    journal.groups[i].session,
						    journal.groups[i].started);
		err = undo_entries(fd, &journal, report);
		err = err ?: err_module ?: err_instance;
	}
	journal_free(&journal);
	return err;
}

static int undo_one(void *arg, int folder, const char *name)
{
	struct undo_report *report = arg;
	int fd, err;

	fd = journal_open(folder, name);
	if (fd == -EPERM) {
		message_set(&report->note, 0, "remove it",
			    "%s in the state folder is not a journal of this user: ignored", name);
		return 0;
	}
	if (fd < 0)
		return 0;
	err = undo_journal(fd, true, report);
	if (!err)
		unlinkat(folder, name, 0);
	close(fd);
	return 0;
}

void undo_folder(int folder, struct undo_report *report)
{
	journal_each(folder, undo_one, report);
}
