// SPDX-License-Identifier: Apache-2.0
/*
 * The load `walk`: lists a tree of files repeatedly, with metadata as `ls -lR` does, or without as
 * `find` does. This causes path look-ups, directory reads and disk accesses
 * (docs/reference/loads.md).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loads/load.h"

static const struct option_info walk_options[] = {
	{ "path", OPTION_TEXT, "/", 0, 0, NULL, "top of the tree" },
	{ "cross", OPTION_FLAG, "no", 0, 0, NULL, "also enter other file systems, /proc and /sys" },
	{ "stat", OPTION_FLAG, "yes", 0, 0, NULL,
	  "read the metadata of each entry, like ls -lR; no: only of folders, like find" },
	{ 0 },
};

#define DEPTH_MAX 512 /* each level has a file open, and takes some of the stack */

struct walk {
	volatile unsigned long *entries;
	int depth;
	dev_t device;
	bool cross;
	bool stat;
};

/* List @name in the folder @parent, and all below it; what cannot be read is left out. */
static int walk_folder(struct walk *walk, int parent, const char *name)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	DIR *folder = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	struct stat of;
	char link[256];

	if (!folder) {
		int err = -errno;

		if (fd >= 0)
			close(fd);
		return err;
	}
	++*walk->entries;
	walk->depth++;
	while ((entry = readdir(folder))) {
		name = entry->d_name;
		if (!strcmp(name, ".") || !strcmp(name, ".."))
			continue;
		if (!walk->stat && entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN) {
			++*walk->entries;
			continue;
		}
		if (fstatat(fd, name, &of, AT_SYMLINK_NOFOLLOW))
			continue;
		if (S_ISDIR(of.st_mode)) {
			if (walk->depth < DEPTH_MAX && (walk->cross || of.st_dev == walk->device))
				walk_folder(walk, fd, name);
			continue;
		}
		if (S_ISLNK(of.st_mode) && readlinkat(fd, name, link, sizeof(link)) < 0)
			continue;
		++*walk->entries;
	}
	walk->depth--;
	closedir(folder);
	return 0;
}

static int walk_run(struct load_worker *worker, const struct option_set *options,
		    struct message *msg)
{
	const char *path = option_text(options, "path");
	struct walk walk = {
		.entries = load_counter(worker, 0),
		.cross = option_number(options, "cross"),
		.stat = option_number(options, "stat"),
	};
	struct stat of;
	int err = 0;

	if (chdir(path) || access(".", R_OK) || stat(".", &of)) {
		err = -errno;
	} else {
		walk.device = of.st_dev;
		load_ready(worker);
	}
	while (!err)
		err = walk_folder(&walk, AT_FDCWD, ".");
	return message_set(msg, err, "set path to a folder", "cannot list %.200s: %s", path,
			   strerror(-err));
}

const struct load load_walk = {
	.name = "walk",
	.summary = "a tree of files listed with metadata, like ls -lR",
	.unit = "entries",
	.options = walk_options,
	.run = walk_run,
};
