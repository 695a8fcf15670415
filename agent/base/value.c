// SPDX-License-Identifier: Apache-2.0
/* Reading and writing the one-line files of /proc and /sys. */
#include "base/value.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cpulist.h"
#include "base/schedule.h"

/* O_NONBLOCK: a path that is a FIFO by mistake must not hang the agent */
#define VALUE_FLAGS (O_CLOEXEC | O_NOCTTY | O_NONBLOCK)

/* Cut "a [b] c" down to "b"; anything that is not such a list of words stays as it is. */
static void choose(char *value)
{
	char *left = strchr(value, '[');
	char *right = left ? strchr(left, ']') : NULL;

	if (!right || right == left + 1 || strpbrk(right + 1, "[]") || strpbrk(value, "\n\t"))
		return;
	if ((left > value && left[-1] != ' ') || (right[1] && right[1] != ' '))
		return;
	if (memchr(left, ' ', (size_t)(right - left)))
		return;
	*right = '\0';
	memmove(value, left + 1, (size_t)(right - left));
}

/* The first line of a clock of Xenomai's Cobalt core, as what can be written back. */
static void gravity(char *value)
{
	long long irq, kernel, user;

	if (sscanf(value, " gravity: irq=%lld kernel=%lld user=%lld", &irq, &kernel, &user) == 3)
		snprintf(value, VALUE_MAX, "%lldi %lldk %lldu", irq, kernel, user);
}

int value_read(int fd, char *value)
{
	ssize_t size;

	do {
		size = pread(fd, value, VALUE_MAX, 0);
	} while (size < 0 && errno == EINTR);
	if (size < 0)
		return -errno;
	if (size == VALUE_MAX || memchr(value, '\0', (size_t)size))
		return -EFBIG;
	while (size > 0 && strchr(" \t\r\n", value[size - 1]))
		size--;
	value[size] = '\0';
	choose(value);
	gravity(value);
	return 0;
}

int value_get(const char *path, char *value, int *keep)
{
	int fd, err;

	if (schedule_named(path))
		return schedule_get(path, value, VALUE_MAX);
	fd = open(path, O_RDONLY | VALUE_FLAGS);
	if (fd < 0)
		return -errno;
	err = value_read(fd, value);
	if (err || !keep)
		close(fd);
	else
		*keep = fd;
	return err;
}

void value_read_boot_id(char *value)
{
	if (value_get("/proc/sys/kernel/random/boot_id", value, NULL))
		strcpy(value, "unknown");
}

int value_put(const char *path, const char *value)
{
	char line[VALUE_MAX + 1];
	size_t size = strlen(value);
	struct stat st;
	ssize_t done;
	int fd, err = 0;

	if (size >= VALUE_MAX)
		return -EFBIG;
	if (schedule_named(path))
		return schedule_put(path, value);
	memcpy(line, value, size);
	line[size++] = '\n';
	fd = open(path, O_WRONLY | VALUE_FLAGS);
	if (fd < 0)
		return -errno;
	do {
		done = write(fd, line, size);
	} while (done < 0 && errno == EINTR);
	if (done < 0)
		err = -errno;
	else if ((size_t)done != size)
		err = -EIO;
	/* an ordinary file keeps the rest of a longer value; the kernel's own files need nothing,
	 * and what became of it is read back anyway */
	if (!err && !fstat(fd, &st) && st.st_size > (off_t)size && ftruncate(fd, (off_t)size))
		err = 0;
	close(fd);
	return err;
}

bool value_may_put(const char *path)
{
	/* of a thread, the kernel says when it is tried */
	return schedule_named(path) || !access(path, W_OK);
}

static bool ends_in(const char *text, const char *end)
{
	size_t size = strlen(text), of = strlen(end);

	return size >= of && !strcmp(text + size - of, end);
}

bool value_same(const char *path, const char *a, const char *b)
{
	struct cpulist list_a, list_b;

	if (!strcmp(a, b))
		return true;
	if (ends_in(path, "_affinity_list"))
		return !cpulist_parse(&list_a, a) && !cpulist_parse(&list_b, b) &&
		       !memcmp(&list_a, &list_b, sizeof(list_a));
	/* masks: without leading zeros and commas */
	return (ends_in(path, "cpumask") || ends_in(path, "_affinity")) &&
	       !strcmp(a + strspn(a, "0,"), b + strspn(b, "0,"));
}

int64_t value_memory_available(void)
{
	char line[128];
	long long available = 0;
	FILE *file = fopen("/proc/meminfo", "re");

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "MemAvailable: %lld kB", &available) == 1)
			break;
	if (file)
		fclose(file);
	return available * 1024;
}

const char *value_reason(int err)
{
	bool root = geteuid() == 0;

	switch (-err) {
	case EACCES:
	case EPERM:
		return root ? "not permitted, even to root: the kernel is locked down, or this is a "
			      "container" :
			      "permission denied: run as root";
	case EROFS:
		return "mounted read-only here: mount it read-write";
	case ENOENT:
	case ENODEV:
		return "this kernel does not have this setting";
	case EINVAL:
	case ERANGE:
		return "the kernel refused the value";
	case EBUSY:
		return "the kernel refused the value for now (busy)";
	case EFBIG:
		return "its value is too long to be stored";
	default:
		return strerror(-err);
	}
}
