/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal: what an agent is about to change, on disk before it does so. One file for each
 * agent in the state folder; it is removed when all is restored. A journal found there belongs to an
 * agent that is at work (its lock is held) or that was killed. docs/reference/settings.md has
 * the format.
 */
#ifndef RTGAUGE_JOURNAL_H
#define RTGAUGE_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/message.h"

#define JOURNAL_NAME 64 /* room for the name of a journal in its folder */

/* Lines to be appended together: all of them reach the disk, or none. */
struct journal_lines {
	char *data;
	size_t size;
	size_t room;
	bool failed; /* out of memory */
};

/* What became of one path. A path that was set several times is one entry: the first value
 * before, the last value asked. */
struct journal_entry {
	char *path;
	char *before;
	char *asked;
	char *effective; /* NULL: not known, the agent was killed in between */
	bool put;	 /* restored, or changed by another program since */
};

struct journal_group {
	pid_t pgid;
	pid_t session;
	uint64_t started;
	bool released;
};

#define JOURNAL_MODULE 64    /* room for the name of a kernel module */
#define JOURNAL_INSTANCE 128 /* room for the folder of a trace instance */
#define JOURNAL_INSTANCES 2

struct journal {
	pid_t pid;
	uint64_t started;
	bool this_boot;
	struct journal_entry *entries;
	size_t entry_count;
	struct journal_group *groups;
	size_t group_count;
	char module[JOURNAL_MODULE]; /* a kernel module that was inserted; empty: none */
	/* trace instances that were made, or empty */
	char instances[JOURNAL_INSTANCES][JOURNAL_INSTANCE];
};

/*
 * Open the state folder: $RTGAUGE_STATE, else /run/rtgauge for root, else /tmp/rtgauge-UID; made
 * if it is not there. A folder that others own or can write to is refused. Descriptor or -errno.
 */
int journal_folder(struct message *msg);

/* Make the journal of this process, locked; its name goes to @name. Descriptor or -errno. */
int journal_create(int folder, char name[JOURNAL_NAME], struct message *msg);

/*
 * Open the journal @name and lock it. Descriptor; -EWOULDBLOCK when its agent or guardian lives;
 * -EPERM when it is not ours (no other user may plant one); or -errno.
 */
int journal_open(int folder, const char *name);

/* Call @found for each journal in the folder until it returns non-zero; that, 0 or -errno. */
int journal_each(int folder, int (*found)(void *arg, int folder, const char *name), void *arg);

/* Which process made the journal of that name. */
bool journal_owner(const char *name, pid_t *pid, uint64_t *started);

/* Add a line of @words fields to @lines. */
void journal_add(struct journal_lines *lines, size_t words, const char *const *word);
void journal_lines_free(struct journal_lines *lines);

/* Append the lines and wait until they are on disk. 0 or -errno: then the file is as before
 * (-EIO: not even that could be done; nothing may be appended any more). */
int journal_append(int fd, const struct journal_lines *lines);

/* Read a journal. Returns 0, -ENODATA when it is cut within its first line, so that nothing was
 * changed under it, -EPROTO when it is of another version, or -errno. A last line that is cut counts
 * as not written. */
int journal_load(int fd, struct journal *journal);
void journal_free(struct journal *journal);

#endif
