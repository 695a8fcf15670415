// SPDX-License-Identifier: Apache-2.0
/*
 * The load `disk`: writes a file, syncs it to the disk piece by piece, and starts over when it is
 * full. The file has no name, so nothing of it remains, whatever ends the load
 * (docs/reference/loads.md).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "loads/load.h"

#define BLOCK_SIZE (64 * 1024)

static const struct option_info disk_options[] = {
	{ "path", OPTION_TEXT, "/var/tmp", 0, 0, NULL, "folder on the disk" },
	{ "size", OPTION_SIZE, "100MiB", BLOCK_SIZE, 1LL << 50, NULL, "size of the file" },
	{ "sync", OPTION_SIZE, "4MiB", BLOCK_SIZE, 1LL << 50, NULL,
	  "bytes written between two fsync()" },
	{ "needed", OPTION_FLAG, "yes", 0, 0, NULL,
	  "no: if the folder lies in memory, the step continues without this load" },
	{ 0 },
};

/* A new file without a name. */
static int disk_open(const char *path)
{
	char name[512];
	int fd = open(path, O_TMPFILE | O_WRONLY, 0600);

	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
		return fd < 0 ? -errno : fd;
	snprintf(name, sizeof(name), "%s/rtgauge-XXXXXX", path);
	fd = mkstemp(name);
	if (fd < 0)
		return -errno;
	unlink(name);
	return fd;
}

/* -ENODEV: it lies in memory; -ENOSPC: less than twice the file's size would be left. */
static int disk_check(int fd, int64_t size)
{
	struct statfs fs;

	if (fstatfs(fd, &fs))
		return -errno;
	if ((uint32_t)fs.f_type == TMPFS_MAGIC || (uint32_t)fs.f_type == RAMFS_MAGIC)
		return -ENODEV;
	return (int64_t)fs.f_bavail * (int64_t)fs.f_bsize < 2 * size ? -ENOSPC : 0;
}

/* Write the file once, in pieces of @sync bytes. */
static int disk_write(int fd, int64_t size, int64_t sync, volatile unsigned long *done)
{
	char block[BLOCK_SIZE];
	int64_t rest = 0; /* not synced yet */
	uint32_t bits = 1;

	for (size_t i = 0; i < sizeof(block); i++) { /* so that it cannot be truncated */
		bits = bits * 1664525 + 1013904223;
		block[i] = (char)(bits >> 24);
	}
	if (ftruncate(fd, 0) || lseek(fd, 0, SEEK_SET))
		return -errno;
	while (size > 0) {
		ssize_t wrote = write(fd, block, sizeof(block));

		if (wrote < 0)
			return -errno;
		size -= wrote;
		rest += wrote;
		if (rest < sync && size > 0)
			continue;
		if (fsync(fd))
			return -errno;
		*done += (unsigned long)(rest / 1024);
		rest = 0;
	}
	return 0;
}

static int disk_run(struct load_worker *worker, const struct option_set *options,
		    struct message *msg)
{
	const char *path = option_text(options, "path");
	int64_t size = option_number(options, "size");
	volatile unsigned long *done = load_counter(worker, 0);
	int fd = disk_open(path);
	int err = fd < 0 ? fd : disk_check(fd, size);

	signal(SIGXFSZ, SIG_IGN); /* beyond ulimit -f, writing fails with an error */
	if (err == -ENODEV) {
		message_set(msg, err, "set path to a folder on a disk",
			    "%.200s lies in memory, not on a disk", path);
		if (option_number(options, "needed"))
			return err;
		load_absent(worker);
	}
	if (!err)
		load_ready(worker);
	while (!err)
		err = disk_write(fd, size, option_number(options, "sync"), done);
	return message_set(msg, err, "reduce size, or set path to another folder",
			   "cannot write in %.200s: %s", path, strerror(-err));
}

const struct load load_disk = {
	.name = "disk",
	.summary = "a file written and synced to the disk",
	.unit = "KiB",
	.options = disk_options,
	.run = disk_run,
	.stalled = "reduce its option 'sync', use a faster medium, or give it a CPU with free time "
		   "(--load-cpu)",
};
