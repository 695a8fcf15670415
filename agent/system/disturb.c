// SPDX-License-Identifier: Apache-2.0
/* Inserts and removes the module that disturbs. */
#include "system/disturb.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/option.h"
#include "base/value.h"

#define DISTURB_KINDS \
	"spin_lock spin_lock_bh tasklet kthread preempt_disable local_irq_save raw_spin_lock_irqsave"
#define DISTURB_FOLDER "/sys/module/" DISTURB_MODULE
/* As the module has them. */
#define DISTURB_LENGTH_MIN_NS NSEC_PER_USEC
#define DISTURB_LENGTH_MAX_NS (100 * NSEC_PER_MSEC)
#define DISTURB_PERIOD_MIN_NS (10 * NSEC_PER_USEC)
#define DISTURB_PERIOD_MAX_NS (4 * NSEC_PER_SEC)
/* MODULE_INIT_COMPRESSED_FILE: the kernel unpacks it, from Linux 5.17 on */
#define DISTURB_COMPRESSED 4

/* The kind that @text (@size letters) names; NULL: none. */
static const char *find_kind(const char *text, size_t size)
{
	static const char kinds[][22] = {
		"spin_lock",	  "spin_lock_bh",	  "tasklet", "kthread", "preempt_disable",
		"local_irq_save", "raw_spin_lock_irqsave"
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strlen(kinds[i]) == size && !strncmp(kinds[i], text, size))
			return kinds[i];
	return NULL;
}

static int refuse_kind(const char *text, int size, struct message *msg)
{
	char given[64], near[64], remedy[160];

	snprintf(given, sizeof(given), "%.*s", size, text);
	if (option_nearest(given, DISTURB_KINDS, near, sizeof(near)))
		snprintf(remedy, sizeof(remedy), "did you mean '%s'?", near);
	else
		snprintf(remedy, sizeof(remedy), "the kinds are: %s", DISTURB_KINDS);
	return message_set(msg, -EINVAL, remedy, "unknown kind of disturbance '%s'", given);
}

int disturb_parse(struct disturb *disturb, const char *text, struct message *msg)
{
	const char *length = strchr(text, ':');
	const char *period = length ? strchr(length + 1, ':') : NULL;
	char first[32];

	if (!period || strchr(period + 1, ':') || period - length > (ptrdiff_t)sizeof(first))
		return message_set(msg, -EINVAL, "give it as in preempt_disable:200us:7.3ms",
				   "'%.80s' is not a disturbance KIND:LENGTH:PERIOD", text);
	disturb->kind = find_kind(text, (size_t)(length - text));
	if (!disturb->kind)
		return refuse_kind(text, (int)(length - text), msg);
	snprintf(first, sizeof(first), "%.*s", (int)(period - length - 1), length + 1);
	if (option_parse_duration(first, &disturb->length_ns) ||
	    disturb->length_ns < DISTURB_LENGTH_MIN_NS ||
	    disturb->length_ns > DISTURB_LENGTH_MAX_NS)
		return message_set(msg, -EINVAL, "give 1us to 100ms",
				   "'%s' is not a valid length of a disturbance", first);
	if (option_parse_duration(period + 1, &disturb->period_ns) ||
	    disturb->period_ns < DISTURB_PERIOD_MIN_NS ||
	    disturb->period_ns > DISTURB_PERIOD_MAX_NS)
		return message_set(msg, -EINVAL, "give 10us to 4s",
				   "'%.40s' is not a valid period of a disturbance", period + 1);
	if (disturb->period_ns < 2 * disturb->length_ns)
		return message_set(
			msg, -EINVAL, "give at least twice the length: other tasks need time, too",
			"the period %.40s is too short for a length of %s", period + 1, first);
	return 0;
}

/* Open the module for this kernel, where its makers put it; the path goes to @path. */
static int open_found(char *path, size_t room)
{
	static const char *const folders[] = { "updates/dkms", "updates", "extra" };
	static const char *const suffixes[] = { "", ".xz", ".zst", ".gz" };
	struct utsname name;
	char self[PATH_MAX];
	ssize_t size;
	char *slash;
	int fd;

	uname(&name);
	size = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (size > 0) {
		self[size] = '\0';
		slash = strrchr(self, '/');
		snprintf(path, room, "%.*s/%s-%s.ko", (int)(slash - self), self, DISTURB_MODULE,
			 name.release);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0)
			return fd;
	}
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		for (size_t j = 0; j < sizeof(suffixes) / sizeof(suffixes[0]); j++) {
			snprintf(path, room, "/lib/modules/%s/%s/%s.ko%s", name.release, folders[i],
				 DISTURB_MODULE, suffixes[j]);
			fd = open(path, O_RDONLY | O_CLOEXEC);
			if (fd >= 0)
				return fd;
		}
	}
	return -ENOENT;
}

static int open_module(const char *module, char *path, size_t room, struct message *msg)
{
	struct utsname name;
	int fd;

	if (module) {
		snprintf(path, room, "%s", module);
		fd = open(module, O_RDONLY | O_CLOEXEC);
		if (fd >= 0)
			return fd;
		return message_set(msg, -errno, "name the file of the module",
				   "the module %s cannot be read: %s", module, strerror(errno));
	}
	fd = open_found(path, room);
	if (fd >= 0)
		return fd;
	uname(&name);
	return message_set(msg, fd, "build and install it: make -C kmod modules_install",
			   "there is no module " DISTURB_MODULE " for the kernel %s", name.release);
}

static bool is_inserted(void)
{
	return !access(DISTURB_FOLDER, F_OK);
}

static int refuse_insertion(const char *path, int err, struct message *msg)
{
	const char *remedy = "check the kernel's messages: dmesg";

	if (err == -EPERM || err == -EACCES)
		remedy = "run as root, where modules may be inserted (no container, no lockdown)";
	else if (err == -ENOEXEC)
		remedy = "build it for the running kernel: make -C kmod";
	else if (err == -ENOSYS)
		remedy = "choose a kernel with loadable modules";
	return message_set(msg, err, remedy, "%s cannot be inserted: %s", path, strerror(-err));
}

int disturb_insert(const struct disturb *disturb, const char *module, int cpu,
		   struct settings *settings, struct message *msg)
{
	char path[PATH_MAX], arguments[160];
	int fd, err = 0;

	if (is_inserted())
		return message_set(
			msg, -EEXIST,
			"end the program that inserted it, or remove it: rmmod " DISTURB_MODULE,
			"the module " DISTURB_MODULE " is already in the kernel");
	fd = open_module(module, path, sizeof(path), msg);
	if (fd < 0)
		return fd;
	err = settings_guard_module(settings, DISTURB_MODULE);
	if (err) {
		close(fd);
		return message_set(msg, err, "set RTGAUGE_STATE to a folder with free space",
				   "the journal cannot be written: %s", strerror(-err));
	}
	snprintf(arguments, sizeof(arguments), "kind=%s length_ns=%lld period_ns=%lld cpu=%d",
		 disturb->kind, (long long)disturb->length_ns, (long long)disturb->period_ns, cpu);
	if (syscall(SYS_finit_module, fd, arguments,
		    strcmp(path + strlen(path) - 3, ".ko") ? DISTURB_COMPRESSED : 0))
		err = -errno;
	close(fd);
	if (!err)
		return 0;
	settings_release_module(settings, DISTURB_MODULE);
	return refuse_insertion(path, err, msg);
}

static int read_count(const char *name, int64_t *count)
{
	char path[128], value[VALUE_MAX];
	int err;

	snprintf(path, sizeof(path), DISTURB_FOLDER "/parameters/%s", name);
	err = value_get(path, value, NULL);
	if (err)
		return err;
	return option_parse_integer(value, count);
}

int disturb_read(struct disturb_counts *counts)
{
	int err = read_count("done", &counts->done);

	if (!err)
		err = read_count("late", &counts->late);
	if (!err)
		err = read_count("longest_ns", &counts->longest_ns);
	return err;
}

int disturb_remove(struct settings *settings)
{
	if (syscall(SYS_delete_module, DISTURB_MODULE, O_NONBLOCK) && errno != ENOENT)
		return -errno;
	return settings_release_module(settings, DISTURB_MODULE);
}
