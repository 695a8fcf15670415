// SPDX-License-Identifier: Apache-2.0
/* The journal of changed settings: where it is, how it is written and read. */
#include "system/journal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/procstat.h"
#include "base/value.h"

#define JOURNAL_PREFIX "journal-"
#define JOURNAL_MAGIC "rtgauge-journal"
#define JOURNAL_VERSION "1"
#define JOURNAL_SIZE_MAX (16 << 20)
#define FIELDS_MAX 5

/* The state folder */

#define STATE_REMEDY "set RTGAUGE_STATE to a folder that only you can use: mkdir -m 700 FOLDER"

/* Anyone who can open a folder can lock it, so no other user has access, not even to read. */
static int open_folder(const char *path, struct message *msg)
{
	struct stat st;
	int fd, err = 0;

	if (mkdir(path, 0700) && errno != EEXIST)
		return message_set(msg, -errno, "set RTGAUGE_STATE to a writable folder",
				   "cannot create the state folder %s: %s", path, strerror(errno));
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
		return message_set(msg, -EPERM, STATE_REMEDY, "state folder %s is not a folder",
				   path);
	if ((fd < 0 && errno == EACCES) || (fd >= 0 && !fstat(fd, &st) && st.st_uid != geteuid()))
		err = message_set(msg, -EPERM, STATE_REMEDY,
				  "state folder %s belongs to another user", path);
	else if (fd < 0)
		return message_set(msg, -errno, "set RTGAUGE_STATE to a writable folder",
				   "cannot open the state folder %s: %s", path, strerror(errno));
	else if (st.st_mode & (S_IRWXG | S_IRWXO))
		err = message_set(
			msg, -EPERM, "run chmod 700 on it, or set RTGAUGE_STATE to another folder",
			"state folder %s is open to other users, who could lock it", path);
	if (!err)
		return fd;
	if (fd >= 0)
		close(fd);
	return err;
}

/* The user's runtime folder, which lasts until the next boot, if it exists. */
static bool runtime_folder(char *path, size_t size)
{
	const char *given = getenv("XDG_RUNTIME_DIR");
	char own[64];
	struct stat st;

	snprintf(own, sizeof(own), "/run/user/%u", (unsigned int)geteuid());
	if (!given || given[0] != '/')
		given = own;
	if (stat(given, &st) || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() ||
	    (st.st_mode & (S_IWGRP | S_IWOTH)))
		return false;
	return (size_t)snprintf(path, size, "%s/rtgauge", given) < size;
}

int journal_folder(struct message *msg)
{
	const char *path = getenv("RTGAUGE_STATE");
	struct message first = { 0 };
	char own[PATH_MAX];
	int fd;

	if (path && path[0])
		return open_folder(path, msg);
	if (geteuid() == 0) {
		fd = open_folder("/run/rtgauge", &first);
		if (fd >= 0)
			return fd;
	} else if (runtime_folder(own, sizeof(own))) {
		return open_folder(own, msg);
	}
	snprintf(own, sizeof(own), "/tmp/rtgauge-%u", (unsigned int)geteuid());
	return open_folder(own, msg);
}

int journal_each(int folder, int (*found)(void *arg, int folder, const char *name), void *arg)
{
	struct dirent *entry;
	DIR *dir;
	int fd, err = 0;

	/* a description of its own, for the position in the folder */
	fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	dir = fdopendir(fd);
	if (!dir) {
		err = -errno;
		close(fd);
		return err;
	}
	while (!err && (entry = readdir(dir)))
		if (!strncmp(entry->d_name, JOURNAL_PREFIX, strlen(JOURNAL_PREFIX)))
			err = found(arg, folder, entry->d_name);
	closedir(dir);
	return err;
}

bool journal_owner(const char *name, pid_t *pid, uint64_t *started)
{
	char *end;

	*pid = (pid_t)strtol(name + strlen(JOURNAL_PREFIX), &end, 10);
	if (*pid <= 0 || *end != '-')
		return false;
	*started = strtoull(end + 1, &end, 10);
	return !*end;
}

/* Writing */

static void add_bytes(struct journal_lines *lines, const char *data, size_t size)
{
	size_t room = lines->room ? lines->room : 512;
	char *grown;

	while (room - lines->size < size)
		room *= 2;
	if (room != lines->room) {
		grown = realloc(lines->data, room);
		if (!grown) {
			lines->failed = true;
			return;
		}
		lines->data = grown;
		lines->room = room;
	}
	memcpy(lines->data + lines->size, data, size);
	lines->size += size;
}

void journal_add(struct journal_lines *lines, size_t words, const char *const *word)
{
	static const char special[] = "\\\t\n", letter[] = "\\tn";
	const char *at, *which;
	char escape[2] = { '\\', 0 };
	size_t i, plain;

	for (i = 0; i < words; i++) {
		if (i)
			add_bytes(lines, "\t", 1);
		for (at = word[i]; *at; at += plain) {
			plain = strcspn(at, special);
			if (plain) {
				add_bytes(lines, at, plain);
				continue;
			}
			which = strchr(special, *at);
			escape[1] = letter[which - special];
			add_bytes(lines, escape, 2);
			plain = 1;
		}
	}
	add_bytes(lines, "\n", 1);
}

void journal_lines_free(struct journal_lines *lines)
{
	free(lines->data);
	memset(lines, 0, sizeof(*lines));
}

int journal_append(int fd, const struct journal_lines *lines)
{
	size_t done = 0;
	struct stat st;
	ssize_t size;
	int err = 0;

	if (lines->failed)
		return -ENOMEM;
	if (!lines->size)
		return 0;
	if (fstat(fd, &st))
		return -errno;
	while (!err && done < lines->size) {
		size = write(fd, lines->data + done, lines->size - done);
		if (size > 0)
			done += (size_t)size;
		else if (size == 0)
			err = -ENOSPC;
		else if (errno != EINTR)
			err = -errno;
	}
	if (!err && fdatasync(fd))
		err = -errno;
	if (err && ftruncate(fd, st.st_size))
		err = -EIO;
	return err;
}

int journal_create(int folder, char name[JOURNAL_NAME], struct message *msg)
{
	char pid[16], started[24], boot_id[VALUE_MAX];
	const char *const head[] = { JOURNAL_MAGIC, JOURNAL_VERSION, pid, started, boot_id };
	struct journal_lines lines = { 0 };
	struct procstat self = { 0 };
	int fd, err = 0;

	procstat_read(getpid(), &self);
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	snprintf(started, sizeof(started), "%llu", (unsigned long long)self.started);
	value_read_boot_id(boot_id);
	snprintf(name, JOURNAL_NAME, JOURNAL_PREFIX "%s-%s", pid, started);
	fd = openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC,
		    0600);
	if (fd < 0) {
		err = -errno;
		goto out_message;
	}
	if (flock(fd, LOCK_EX | LOCK_NB))
		err = -errno;
	journal_add(&lines, sizeof(head) / sizeof(head[0]), head);
	if (!err)
		err = journal_append(fd, &lines);
	journal_lines_free(&lines);
	if (!err && fsync(folder) && errno != EINVAL)
		err = -errno;
	if (!err)
		return fd;
	unlinkat(folder, name, 0);
	close(fd);
out_message:
	return message_set(msg, err, "set RTGAUGE_STATE to a folder that can be written",
			   "the journal of settings cannot be written: %s", strerror(-err));
}

/* Reading */

int journal_open(int folder, const char *name)
{
	struct stat st;
	int fd, err;

	fd = openat(folder, name, O_RDWR | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st))
		err = -errno;
	else if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_nlink > 1 ||
		 (st.st_mode & (S_IWGRP | S_IWOTH)))
		err = -EPERM;
	else if (flock(fd, LOCK_EX | LOCK_NB))
		err = -errno;
	else
		return fd;
	close(fd);
	return err;
}

/* Split a line into its fields, in place; their number, -1 if it is not one of ours. */
static int split(char *line, char *field[FIELDS_MAX])
{
	char *from, *to = line;
	int count = 0;

	field[count++] = line;
	for (from = line; *from; from++) {
		if (*from == '\t') {
			if (count == FIELDS_MAX)
				return -1;
			*to++ = '\0';
			field[count++] = to;
		} else if (*from != '\\') {
			*to++ = *from;
		} else {
			from++;
			if (*from == 't')
				*to++ = '\t';
			else if (*from == 'n')
				*to++ = '\n';
			else if (*from == '\\')
				*to++ = '\\';
			else
				return -1;
		}
	}
	*to = '\0';
	return count;
}

static struct journal_entry *find_entry(struct journal *journal, const char *path)
{
	size_t i;

	for (i = journal->entry_count; i-- > 0;)
		if (!journal->entries[i].put && !strcmp(journal->entries[i].path, path))
			return &journal->entries[i];
	return NULL;
}

static int replace(char **text, const char *with)
{
	char *copy = NULL;

	if (with) {
		copy = strdup(with);
		if (!copy)
			return -ENOMEM;
	}
	free(*text);
	*text = copy;
	return 0;
}

static int read_set(struct journal *journal, char *const *field)
{
	struct journal_entry *entry = find_entry(journal, field[1]);

	if (!entry) {
		entry = realloc(journal->entries, (journal->entry_count + 1) * sizeof(*entry));
		if (!entry)
			return -ENOMEM;
		journal->entries = entry;
		entry += journal->entry_count++;
		memset(entry, 0, sizeof(*entry));
		if (replace(&entry->path, field[1]) || replace(&entry->before, field[2]))
			return -ENOMEM;
	}
	if (replace(&entry->asked, field[3]) || replace(&entry->effective, NULL))
		return -ENOMEM;
	return 0;
}

static int read_group(struct journal *journal, char *const *field)
{
	struct journal_group *group;

	group = realloc(journal->groups, (journal->group_count + 1) * sizeof(*group));
	if (!group)
		return -ENOMEM;
	journal->groups = group;
	group += journal->group_count++;
	group->pgid = (pid_t)strtol(field[1], NULL, 10);
	group->session = (pid_t)strtol(field[2], NULL, 10);
	group->started = strtoull(field[3], NULL, 10);
	group->released = false;
	return 0;
}

/* Replaces the first entry of that name. The empty name is a free entry. */
static void put_instance(struct journal *journal, const char *name, const char *with)
{
	for (size_t i = 0; i < JOURNAL_INSTANCES; i++) {
		if (strcmp(journal->instances[i], name))
			continue;
		snprintf(journal->instances[i], sizeof(journal->instances[i]), "%s", with);
		return;
	}
}

static int read_line(struct journal *journal, char *line)
{
	struct journal_entry *entry;
	char *field[FIELDS_MAX];
	int fields = split(line, field);
	size_t i;

	if (fields == 2 && !strcmp(field[0], "module")) {
		snprintf(journal->module, sizeof(journal->module), "%s", field[1]);
		return 0;
	}
	if (fields == 2 && !strcmp(field[0], "removed")) {
		journal->module[0] = '\0';
		return 0;
	}
	if (fields == 2 && !strcmp(field[0], "instance")) {
		put_instance(journal, "", field[1]);
		return 0;
	}
	if (fields == 2 && !strcmp(field[0], "gone")) {
		put_instance(journal, field[1], "");
		return 0;
	}
	if (fields == 4 && !strcmp(field[0], "set"))
		return read_set(journal, field);
	if (fields == 4 && !strcmp(field[0], "group"))
		return read_group(journal, field);
	if (fields == 2 && !strcmp(field[0], "free")) {
		for (i = 0; i < journal->group_count; i++)
			if (journal->groups[i].pgid == (pid_t)strtol(field[1], NULL, 10))
				journal->groups[i].released = true;
		return 0;
	}
	entry = fields >= 2 ? find_entry(journal, field[1]) : NULL;
	if (!entry)
		return 0; /* a line that makes no sense must not keep the others from being undone */
	if (fields == 3 && !strcmp(field[0], "got"))
		return replace(&entry->effective, field[2]);
	if (fields == 2 && !strcmp(field[0], "undo"))
		return replace(&entry->effective, NULL);
	if (fields == 2 && !strcmp(field[0], "put"))
		entry->put = true;
	return 0;
}

static int read_head(struct journal *journal, char *line)
{
	char boot_id[VALUE_MAX], *field[FIELDS_MAX];

	if (split(line, field) != 5 || strcmp(field[0], JOURNAL_MAGIC) ||
	    strcmp(field[1], JOURNAL_VERSION))
		return -EPROTO;
	value_read_boot_id(boot_id);
	journal->pid = (pid_t)strtol(field[2], NULL, 10);
	journal->started = strtoull(field[3], NULL, 10);
	journal->this_boot = !strcmp(field[4], boot_id);
	return 0;
}

static int read_all(int fd, char **data, size_t *size)
{
	struct stat st;
	ssize_t got;

	if (fstat(fd, &st))
		return -errno;
	if (st.st_size > JOURNAL_SIZE_MAX)
		return -EFBIG;
	*data = malloc((size_t)st.st_size + 1);
	if (!*data)
		return -ENOMEM;
	for (*size = 0; *size < (size_t)st.st_size; *size += (size_t)got) {
		got = pread(fd, *data + *size, (size_t)st.st_size - *size, (off_t)*size);
		if (got < 0 && errno == EINTR)
			got = 0;
		else if (got <= 0)
			return got ? -errno : 0;
	}
	return 0;
}

int journal_load(int fd, struct journal *journal)
{
	char *data = NULL, *line, *end;
	size_t size = 0;
	bool head = false;
	int err;

	memset(journal, 0, sizeof(*journal));
	err = read_all(fd, &data, &size);
	for (line = data; !err && (end = memchr(line, '\n', size - (size_t)(line - data)));
	     line = end + 1) {
		*end = '\0';
		err = head ? read_line(journal, line) : read_head(journal, line);
		head = true;
	}
	if (!err && !head)
		err = -ENODATA;
	free(data);
	if (err)
		journal_free(journal);
	return err;
}

void journal_free(struct journal *journal)
{
	size_t i;

	for (i = 0; i < journal->entry_count; i++) {
		free(journal->entries[i].path);
		free(journal->entries[i].before);
		free(journal->entries[i].asked);
		free(journal->entries[i].effective);
	}
	free(journal->entries);
	free(journal->groups);
	memset(journal, 0, sizeof(*journal));
}
