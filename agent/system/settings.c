// SPDX-License-Identifier: Apache-2.0
/* System settings: saved, set, read back, recorded, verified, restored. */
#include "system/settings.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/cpulist.h"
#include "base/procstat.h"
#include "base/schedule.h"
#include "base/value.h"
#include "system/guardian.h"
#include "system/journal.h"
#include "system/undo.h"

#define RT_RUNTIME "/proc/sys/kernel/sched_rt_runtime_us"
#define DEBUGFS "/sys/kernel/debug"
#define FAIR_SERVER DEBUGFS "/sched/fair_server"
#define DMA_LATENCY "cpu_dma_latency"

#define IRQ "/proc/irq/"

#define KEPT_MAX 64	 /* files of settings kept open for settings_verify() */
#define VERIFY_MAX 32	 /* settings that it reads in one call */
#define LOCK_ROUNDS 1000 /* how long the guardian of a killed agent is waited for */
#define ALIVE_ROUNDS 50	 /* and an agent that may just be about to end */
#define LOCK_PAUSE_NS 10000000

struct record {
	char *name;
	char *asked;
	char *before;
	char *effective;
	const char *reason;
	char *found; /* the last other value that settings_verify() found */
	int fd;	     /* kept open for it; -1: reopened */
	bool superseded;
};

struct settings {
	int folder; /* its lock is the lock */
	int journal;
	char name[JOURNAL_NAME];
	bool broken;   /* the journal takes no more entries */
	bool back;     /* everything has been restored … */
	int remaining; /* … but for so many */
	struct guardian guardian;
	bool guardian_missed;
	struct record *records;
	size_t count;
	size_t verified; /* where settings_verify() continues */
	int kept;
	int dma;
	struct message note;
	int mount_err;
};

/* One agent at a time */

static int find_holder(void *arg, int folder, const char *name)
{
	pid_t *holder = arg;
	uint64_t started;
	pid_t pid;

	(void)folder;
	if (!journal_owner(name, &pid, &started) || !procstat_alive(pid, started))
		return 0;
	*holder = pid;
	return 1;
}

/* A holder that is dead leaves its lock to its guardian, which needs but a moment. */
static int lock_folder(int folder, struct message *msg)
{
	const struct timespec pause = { .tv_nsec = LOCK_PAUSE_NS };
	char remedy[160];
	pid_t holder;
	int round, alive = 0;

	for (round = 0; round < LOCK_ROUNDS; round++) {
		if (!flock(folder, LOCK_EX | LOCK_NB))
			return 0;
		if (errno != EWOULDBLOCK && errno != EINTR)
			return message_set(msg, -errno, "set RTGAUGE_STATE to another folder",
					   "the state folder cannot be locked: %s",
					   strerror(errno));
		if (journal_each(folder, find_holder, &holder) > 0 && ++alive >= ALIVE_ROUNDS) {
			snprintf(
				remedy, sizeof(remedy),
				"wait until it ends, end it (kill %d), or measure at the same time "
				"with --keep-settings",
				(int)holder);
			return message_set(msg, -EBUSY, remedy,
					   "another agent, process %d, is measuring here",
					   (int)holder);
		}
		nanosleep(&pause, NULL);
	}
	return message_set(msg, -EBUSY, "look for a process rtgauge-guard and end it",
			   "the settings of a killed agent are still being restored");
}

/* The fair server (Linux 6.12 and later) can be reached through debugfs alone. */

static bool has_fair_server(void)
{
	struct utsname name;
	char *end;
	long major, minor;

	if (uname(&name))
		return false;
	major = strtol(name.release, &end, 10);
	minor = *end == '.' ? strtol(end + 1, NULL, 10) : 0;
	return major > 6 || (major == 6 && minor >= 12);
}

/*
 * Where debugfs is not mounted, mount it for this process and its children alone. It comes before
 * the guardian is forked and before anything is undone, since both need it to restore things.
 * (A slave of the other mounts rather than private: then others can still unmount disks.)
 */
static int reach_debugfs(void)
{
	if (geteuid() != 0 || !has_fair_server() || !access(FAIR_SERVER, F_OK))
		return 0;
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) ||
	    mount("debugfs", DEBUGFS, "debugfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL))
		return -errno;
	return 0;
}

/* Open, undo */

int settings_open(struct settings **settings, int *undone, struct message *msg)
{
	struct undo_report report = { 0 };
	struct settings *s;
	int err;

	*undone = 0;
	s = calloc(1, sizeof(*s));
	if (!s)
		return message_set(msg, -ENOMEM, "", "out of memory");
	s->dma = -1;
	s->folder = journal_folder(msg);
	if (s->folder < 0) {
		err = s->folder;
		goto out_free;
	}
	err = lock_folder(s->folder, msg);
	if (err)
		goto out_folder;
	s->mount_err = reach_debugfs();
	undo_folder(s->folder, &report);
	*undone = report.put;
	s->note = report.note;
	s->journal = journal_create(s->folder, s->name, msg);
	if (s->journal < 0) {
		err = s->journal;
		goto out_folder;
	}
	err = guardian_start(&s->guardian, s->folder, s->journal, s->name, msg);
	if (err)
		goto out_journal;
	*settings = s;
	return 0;

out_journal:
	unlinkat(s->folder, s->name, 0);
	close(s->journal);
out_folder:
	close(s->folder);
out_free:
	free(s);
	return err;
}

const struct message *settings_note(const struct settings *settings)
{
	return settings->note.text[0] ? &settings->note : NULL;
}

int settings_undo(struct message *msg)
{
	struct undo_report report = { 0 };
	int folder, err;

	folder = journal_folder(msg);
	if (folder < 0)
		return folder;
	err = lock_folder(folder, msg);
	if (!err) {
		reach_debugfs();
		undo_folder(folder, &report);
		if (report.note.text[0])
			message_set(msg, 0, report.note.remedy, "%s", report.note.text);
	}
	close(folder);
	return err ? err : report.put;
}

/* Records */

static void record_clear(struct record *record)
{
	free(record->name);
	free(record->asked);
	free(record->before);
	free(record->effective);
	free(record->found);
	if (record->fd >= 0)
		close(record->fd);
}

/* Room for @count more records, each with its name; -ENOMEM: nothing was added. */
static int add_records(struct settings *s, const struct setting_wish *wishes, size_t count)
{
	struct record *record;
	size_t i;
	bool failed = false;

	record = realloc(s->records, (s->count + count) * sizeof(*record));
	if (!record)
		return -ENOMEM;
	s->records = record;
	for (i = 0; i < count; i++) {
		record = &s->records[s->count + i];
		memset(record, 0, sizeof(*record));
		record->fd = -1;
		record->reason = "";
		record->name = strdup(wishes[i].path);
		record->asked = strdup(wishes[i].value);
		failed |= !record->name || !record->asked;
	}
	for (i = 0; failed && i < count; i++)
		record_clear(&s->records[s->count + i]);
	if (failed)
		return -ENOMEM;
	s->count += count;
	return 0;
}

int settings_refuse(struct settings *settings, const char *name, const char *asked,
		    const char *reason, struct message *msg)
{
	const struct setting_wish wish = { name, asked };

	if (add_records(settings, &wish, 1))
		return message_set(msg, -ENOMEM, "", "out of memory");
	settings->records[settings->count - 1].reason = reason;
	return 0;
}

/* The number of the interrupt whose setting it is, or -1 (also where no cpulist can hold it). */
static int interrupt_of(const struct record *record)
{
	long number;
	char *end;

	if (strncmp(record->name, IRQ, strlen(IRQ)))
		return -1;
	number = strtol(record->name + strlen(IRQ), &end, 10);
	return *end == '/' && number < CPULIST_MAX ? (int)number : -1;
}

static bool same(const char *a, const char *b)
{
	return a && b && !strcmp(a, b);
}

static bool same_fate(const struct record *a, const struct record *b)
{
	return interrupt_of(a) >= 0 && interrupt_of(b) >= 0 && same(a->asked, b->asked) &&
	       same(a->before, b->before) && same(a->effective, b->effective) &&
	       same(a->reason, b->reason);
}

/* The name of record @i and of those after it that share its fate; NULL: told before. */
static const char *name_together(const struct settings *s, size_t i, char *name, size_t room)
{
	const struct record *record = &s->records[i];
	struct cpulist numbers = { 0 };
	char list[4096];
	size_t j;

	if (interrupt_of(record) < 0)
		return record->name;
	for (j = 0; j < s->count; j++) {
		if (!same_fate(&s->records[j], record))
			continue;
		if (j < i)
			return NULL;
		cpulist_add(&numbers, interrupt_of(&s->records[j]));
	}
	if (cpulist_count(&numbers) < 2)
		return record->name;
	snprintf(name, room, IRQ "{%s}%s", cpulist_format(&numbers, list, sizeof(list)),
		 strchr(record->name + strlen(IRQ), '/'));
	return name;
}

void settings_each(const struct settings *settings,
		   void (*record)(void *arg, const struct setting_record *record), void *arg)
{
	char name[4096 + 64];
	struct setting_record one;
	size_t i;

	for (i = 0; i < settings->count; i++) {
		one.name = name_together(settings, i, name, sizeof(name));
		if (!one.name)
			continue;
		one.asked = settings->records[i].asked;
		one.before = settings->records[i].before;
		one.effective = settings->records[i].effective;
		one.reason = settings->records[i].reason;
		record(arg, &one);
	}
}

/* Setting */

static int append(struct settings *s, const struct journal_lines *lines)
{
	int err;

	if (s->broken)
		return -EIO;
	err = journal_append(s->journal, lines);
	s->broken = err == -EIO;
	return err;
}

static const char *reason_of(const struct record *record, int err)
{
	return err == -ENOENT && schedule_named(record->name) ? "the thread has ended" :
								value_reason(err);
}

/* Read the value before; true if the setting is to be written. */
static bool save(struct settings *s, struct record *record)
{
	char value[VALUE_MAX];
	int err;

	if (record->name[0] != '/' && !schedule_named(record->name)) {
		record->reason = "not an absolute path";
		return false;
	}
	if (strpbrk(record->asked, "\n") || strlen(record->asked) >= VALUE_MAX) {
		record->reason = "the value has several lines, or more than 1023 bytes";
		return false;
	}
	err = value_get(record->name, value, s->kept < KEPT_MAX ? &record->fd : NULL);
	if (record->fd >= 0)
		s->kept++;
	if (err) {
		record->reason = reason_of(record, err);
		return false;
	}
	record->before = strdup(value);
	if (!record->before) {
		record->reason = "out of memory";
		return false;
	}
	if (!value_same(record->name, record->before, record->asked)) {
		if (value_may_put(record->name))
			return true;
		record->reason = value_reason(-errno);
	}
	record->effective = strdup(value);
	return false;
}

static void write_and_read_back(struct record *record)
{
	char value[VALUE_MAX];
	int err, err_read;

	err = value_put(record->name, record->asked);
	err_read = record->fd >= 0 ? value_read(record->fd, value) :
				     value_get(record->name, value, NULL);
	if (!err_read)
		record->effective = strdup(value);
	if ((err == -EIO || err == -EPERM) && interrupt_of(record) >= 0)
		record->reason = "the kernel keeps it there (a managed or per-CPU interrupt)";
	else if (err)
		record->reason = reason_of(record, err);
	else if (err_read)
		record->reason = "it was written, but cannot be read back";
	else if (!record->effective || !value_same(record->name, record->effective, record->asked))
		record->reason = "the kernel changed the value";
}

static void supersede(struct settings *s, size_t before, const char *name)
{
	size_t i;

	for (i = before; i-- > 0;)
		if (!strcmp(s->records[i].name, name))
			s->records[i].superseded = true;
}

int settings_set_all(struct settings *settings, const struct setting_wish *wishes, size_t count,
		     struct message *msg)
{
	struct journal_lines lines = { 0 };
	struct record *record;
	size_t first = settings->count, i;
	bool *wanted;
	int err = 0;

	if (!count)
		return 0;
	wanted = calloc(count, sizeof(*wanted));
	if (!wanted || add_records(settings, wishes, count)) {
		err = message_set(msg, -ENOMEM, "", "out of memory");
		goto out_free;
	}
	record = settings->records + first;
	for (i = 0; i < count; i++) {
		wanted[i] = save(settings, &record[i]);
		if (record[i].before)
			supersede(settings, first, record[i].name);
		if (wanted[i]) {
			const char *const fields[] = { "set", record[i].name, record[i].before,
						       record[i].asked };

			journal_add(&lines, 4, fields);
		}
	}
	err = append(settings, &lines);
	if (err) {
		for (i = 0; i < count; i++)
			if (wanted[i])
				record[i].reason = "not tried: the journal cannot be written";
		message_set(msg, err, "set RTGAUGE_STATE to a folder with free space",
			    "the journal of settings cannot be written: %s", strerror(-err));
		goto out_free;
	}
	settings->back = false;
	lines.size = 0;
	for (i = 0; i < count; i++) {
		if (!wanted[i])
			continue;
		write_and_read_back(&record[i]);
		if (record[i].effective) {
			const char *const fields[] = { "got", record[i].name, record[i].effective };

			journal_add(&lines, 3, fields);
		}
	}
	/* without these lines an undo restores whatever it finds: as safe, only less polite */
	append(settings, &lines);

out_free:
	journal_lines_free(&lines);
	free(wanted);
	return err;
}

int settings_set(struct settings *settings, const char *path, const char *value,
		 struct message *msg)
{
	const struct setting_wish wish = { path, value };

	return settings_set_all(settings, &wish, 1, msg);
}

static int read_dma_latency(int fd, char *value)
{
	int32_t us;
	ssize_t size;

	size = pread(fd, &us, sizeof(us), 0);
	if (size != sizeof(us))
		return size < 0 ? -errno : -EIO;
	snprintf(value, VALUE_MAX, "%d", (int)us);
	return 0;
}

/* Hold /dev/cpu_dma_latency at @us microseconds until settings_close(). */
static int settings_hold_dma_latency(struct settings *settings, int us, struct message *msg)
{
	char value[VALUE_MAX], asked[16];
	const struct setting_wish wish = { DMA_LATENCY, asked };
	struct record *record;
	int32_t word = us;
	int err;

	snprintf(asked, sizeof(asked), "%d", us);
	if (add_records(settings, &wish, 1))
		return message_set(msg, -ENOMEM, "", "out of memory");
	record = &settings->records[settings->count - 1];
	if (settings->dma < 0)
		settings->dma = open("/dev/cpu_dma_latency", O_RDWR | O_CLOEXEC);
	if (settings->dma < 0) {
		record->reason = value_reason(-errno);
		return 0;
	}
	supersede(settings, settings->count - 1, DMA_LATENCY);
	if (!read_dma_latency(settings->dma, value))
		record->before = strdup(value);
	if (write(settings->dma, &word, sizeof(word)) != sizeof(word)) {
		record->reason = value_reason(-errno);
		return 0;
	}
	err = read_dma_latency(settings->dma, value);
	if (err) {
		record->reason = "it was written, but cannot be read back";
		return 0;
	}
	record->effective = strdup(value);
	if (strtol(value, NULL, 10) < us)
		record->reason = "another program keeps it at a lower value";
	else if (!same(record->effective, asked))
		record->reason = "the kernel changed the value";
	return 0;
}

/* The numbers of the CPUs that have a fair server, in order; their count or -errno. */
static int fair_servers(int **cpus)
{
	struct dirent *entry;
	int count = 0, cpu, at, err = 0;
	int *grown;
	char *end;
	DIR *dir;

	*cpus = NULL;
	dir = opendir(FAIR_SERVER);
	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		if (strncmp(entry->d_name, "cpu", 3))
			continue;
		cpu = (int)strtol(entry->d_name + 3, &end, 10);
		if (end == entry->d_name + 3 || *end)
			continue;
		grown = realloc(*cpus, (size_t)(count + 1) * sizeof(*grown));
		if (!grown) {
			err = -ENOMEM;
			break;
		}
		*cpus = grown;
		for (at = count++; at > 0 && grown[at - 1] > cpu; at--)
			grown[at] = grown[at - 1];
		grown[at] = cpu;
	}
	closedir(dir);
	return err ? err : count;
}

static const char *unreachable(const struct settings *s)
{
	if (geteuid() != 0)
		return "permission denied: run as root";
	switch (-s->mount_err) {
	case 0:
	case EBUSY: /* it is mounted there */
		return "not in debugfs: the kernel lacks CONFIG_SCHED_DEBUG";
	case EPERM:
	case EACCES:
		return "debugfs is not mounted, and this process is not permitted to mount it: "
		       "mount it at " DEBUGFS " before the run";
	case ENODEV:
	case ENOENT:
		return "debugfs is not mounted and cannot be: the kernel lacks CONFIG_DEBUG_FS";
	default:
		return value_reason(s->mount_err);
	}
}

static int stop_fair_servers(struct settings *s, struct message *msg)
{
	struct {
		char path[sizeof(FAIR_SERVER) + 32];
	} *text = NULL;
	struct setting_wish *wishes = NULL;
	int *cpus = NULL;
	int count, i, err;

	count = fair_servers(&cpus);
	if (count <= 0) {
		err = settings_refuse(s, FAIR_SERVER "/cpu*/runtime", "0", unreachable(s), msg);
		goto out_free;
	}
	text = calloc((size_t)count, sizeof(*text));
	wishes = calloc((size_t)count, sizeof(*wishes));
	if (!text || !wishes) {
		err = -ENOMEM;
		goto out_free;
	}
	for (i = 0; i < count; i++) {
		snprintf(text[i].path, sizeof(text[i].path), FAIR_SERVER "/cpu%d/runtime", cpus[i]);
		wishes[i] = (struct setting_wish){ text[i].path, "0" };
	}
	err = settings_set_all(s, wishes, (size_t)count, msg);

out_free:
	free(wishes);
	free(text);
	free(cpus);
	return err ? message_set(msg, err, "", "out of memory") : 0;
}

int settings_prepare(struct settings *settings, bool awake, struct message *msg)
{
	int err;

	err = settings_set(settings, RT_RUNTIME, "-1", msg);
	if (!err && has_fair_server())
		err = stop_fair_servers(settings, msg);
	if (!err && awake)
		err = settings_hold_dma_latency(settings, 0, msg);
	return err;
}

/* While measuring */

/* Whether a record is not (or no longer) what took effect; what it is now is reported once. */
static void verify_one(struct settings *s, struct record *record,
		       void (*changed)(void *arg, const char *name, const char *expected,
				       const char *found),
		       void *arg)
{
	char value[VALUE_MAX];
	int err;

	if (!strcmp(record->name, DMA_LATENCY))
		err = read_dma_latency(s->dma, value);
	else if (record->fd >= 0)
		err = value_read(record->fd, value);
	else
		err = value_get(record->name, value, NULL);
	if (err)
		strcpy(value, "unreadable");
	if (same(value, record->found))
		return;
	free(record->found);
	record->found = NULL;
	if (value_same(record->name, value, record->effective))
		return;
	record->found = strdup(value);
	changed(arg, record->name, record->effective, value);
}

int settings_verify(struct settings *settings,
		    void (*changed)(void *arg, const char *name, const char *expected,
				    const char *found),
		    void *arg)
{
	struct record *record;
	int count = 0, looked = 0;
	size_t i;

	if (!settings->guardian_missed && !guardian_lives(&settings->guardian)) {
		settings->guardian_missed = true;
		changed(arg, "guardian", "running", "gone");
	}
	for (i = 0; i < settings->count && looked < VERIFY_MAX; i++) {
		record = &settings->records[settings->verified++ % settings->count];
		if (!record->effective || record->superseded)
			continue;
		looked++;
		verify_one(settings, record, changed, arg);
	}
	settings->verified %= settings->count ? settings->count : 1;
	for (i = 0; i < settings->count; i++)
		count += settings->records[i].found && !settings->records[i].superseded;
	return count;
}

int settings_guard_group(struct settings *settings, pid_t pgid)
{
	char text[3][24];
	const char *const fields[] = { "group", text[0], text[1], text[2] };
	struct journal_lines lines = { 0 };
	struct procstat leader;
	int err;

	if (pgid <= 1 || pgid == getpgrp())
		return -EINVAL;
	err = procstat_read(pgid, &leader);
	if (err)
		return err;
	snprintf(text[0], sizeof(text[0]), "%d", (int)pgid);
	snprintf(text[1], sizeof(text[1]), "%d", (int)leader.session);
	snprintf(text[2], sizeof(text[2]), "%llu", (unsigned long long)leader.started);
	journal_add(&lines, 4, fields);
	err = append(settings, &lines);
	journal_lines_free(&lines);
	return err;
}

static int append_pair(struct settings *s, const char *word, const char *value)
{
	const char *const fields[] = { word, value };
	struct journal_lines lines = { 0 };
	int err;

	journal_add(&lines, 2, fields);
	err = append(s, &lines);
	journal_lines_free(&lines);
	return err;
}

int settings_release_group(struct settings *settings, pid_t pgid)
{
	char text[24];

	snprintf(text, sizeof(text), "%d", (int)pgid);
	return append_pair(settings, "free", text);
}

int settings_guard_module(struct settings *settings, const char *name)
{
	settings->back = false;
	return append_pair(settings, "module", name);
}

int settings_release_module(struct settings *settings, const char *name)
{
	return append_pair(settings, "removed", name);
}

int settings_make_instance(struct settings *settings, const char *path)
{
	int err;

	settings->back = false;
	err = append_pair(settings, "instance", path);
	if (err)
		return err;
	return mkdir(path, 0700) ? -errno : 0;
}

pid_t settings_guardian(const struct settings *settings)
{
	return settings->guardian.pid;
}

static void close_one(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void close_kept(struct settings *s)
{
	size_t i;

	for (i = 0; i < s->count; i++)
		close_one(&s->records[i].fd);
	close_one(&s->dma);
}

void settings_after_fork(struct settings *settings)
{
	close_kept(settings);
	close_one(&settings->guardian.pipe);
	close_one(&settings->journal);
	close_one(&settings->folder);
}

/* The end */

int settings_put_back(struct settings *settings, struct message *msg)
{
	struct undo_report report = { 0 };
	int err;

	if (settings->back)
		return settings->remaining;
	close_one(&settings->dma);
	err = undo_journal(settings->journal, false, &report);
	if (err && err != -EAGAIN)
		report.failed++; /* the journal stays, for the next start */
	settings->back = !err;
	settings->remaining = report.failed + report.left;
	if (msg && report.note.text[0])
		message_set(msg, 0, report.note.remedy, "%s", report.note.text);
	return settings->remaining;
}

int settings_close(struct settings *settings)
{
	int remaining;
	size_t i;

	remaining = settings_put_back(settings, NULL);
	close_kept(settings);
	if (settings->back)
		unlinkat(settings->folder, settings->name, 0);
	guardian_end(&settings->guardian);
	close(settings->journal);
	close(settings->folder);
	for (i = 0; i < settings->count; i++)
		record_clear(&settings->records[i]);
	free(settings->records);
	free(settings);
	return remaining;
}
