// SPDX-License-Identifier: Apache-2.0
/*
 * The load `copy`: copies /dev/zero, or another file, to /dev/null without end, on each CPU of the
 * load. This makes as many system calls as a CPU can, and each one clears a block of memory
 * (docs/reference/loads.md).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "loads/start.h"

#define ALIGNMENT 4096UL /* as a page: the kernel copies faster */
#define MEMORY 1	 /* the kernel's major number of /dev/null, /dev/zero and the like */

static const struct option_info copy_options[] = {
	{ "path", OPTION_TEXT, "/dev/zero", 0, 0, NULL, "file that is read repeatedly" },
	{ "size", OPTION_SIZE, "64KiB", 1, 16 << 20, NULL, "bytes in a copy" },
	START_PER_CPU("1"),
	{ 0 },
};

static int copy(volatile unsigned long *copies, const void *options)
{
	size_t size = (size_t)option_number(options, "size");
	char *block = aligned_alloc(ALIGNMENT, (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
	int file = open(option_text(options, "path"), O_RDONLY | O_NONBLOCK);
	int null = open("/dev/null", O_WRONLY);

	if (!block)
		return ENOMEM;
	for (;;) {
		ssize_t got = read(file, block, size);

		if (got < 0 || write(null, block, (size_t)got) != got)
			return errno;
		if (got)
			++*copies;
		else if (lseek(file, 0, SEEK_SET))
			return errno;
	}
}

/*
 * Whether opening and reading the file does nothing else: a device may start a watchdog, rewind a
 * tape or take what another program waits for. 0 or -errno.
 */
static int copy_allowed(const char *path)
{
	static const unsigned int minors[] = { 3, 5, 7, 8, 9 }; /* null zero full random urandom */
	struct stat of;

	if (stat(path, &of))
		return -errno;
	if (S_ISREG(of.st_mode) || S_ISBLK(of.st_mode))
		return 0;
	if (S_ISCHR(of.st_mode) && major(of.st_rdev) == MEMORY)
		for (size_t i = 0; i < sizeof(minors) / sizeof(minors[0]); i++)
			if (minor(of.st_rdev) == minors[i])
				return 0;
	return S_ISDIR(of.st_mode) ? -EISDIR : -ENOTSUP;
}

/* Before anything is measured: is there something to be read? O_NONBLOCK: /proc has files that wait. */
static int copy_run(struct load_worker *worker, const struct option_set *options,
		    struct message *msg)
{
	const char *path = option_text(options, "path");
	int err = copy_allowed(path);
	ssize_t got;
	char byte;
	int file;

	if (err == -ENOTSUP)
		return message_set(msg, err, "set path to a file, a disk or /dev/zero",
				   "%.200s cannot be copied: it is a character device, a "
				   "FIFO or a socket",
				   path);
	if (err)
		return message_set(msg, err, "set path to a readable file that is not empty",
				   "cannot read %.200s: %s", path, strerror(-err));
	file = open(path, O_RDONLY | O_NONBLOCK);
	got = file < 0 ? -1 : read(file, &byte, 1);
	err = got < 0 ? -errno : -ENODATA;
	if (got < 1)
		return message_set(msg, err, "set path to a readable file that is not empty",
				   "cannot read %.200s: %s", path, strerror(-err));
	close(file);
	return start_on_each(worker, option_number(options, "per-cpu"), copy, options, msg);
}

const struct load load_copy = {
	.name = "copy",
	.summary = "copies of /dev/zero to /dev/null",
	.unit = "copies",
	.options = copy_options,
	.run = copy_run,
};
