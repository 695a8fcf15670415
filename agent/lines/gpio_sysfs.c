// SPDX-License-Identifier: Apache-2.0
/*
 * Two GPIO lines through files below /sys/class/gpio, for kernels without the newer interface.
 * Edges have no time stamps and no numbers, so two in quick succession may be seen as one.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/value.h"
#include "lines/gpio_sysfs.h"

#define SYSFS_PATH 192

struct sysfs_line {
	uint32_t number; /* in the kernel's count of all lines */
	bool exported;
	char direction[8]; /* as found; "": not known */
	char value[8];
	char active_low[8];
	int fd; /* its file `value` */
};

struct sysfs {
	struct sysfs_line output, input;
};

static void sysfs_path(char path[SYSFS_PATH], const char *root, const char *entry, const char *name)
{
	snprintf(path, SYSFS_PATH, "%.63s/%.48s%s%s", root, entry, name[0] ? "/" : "", name);
}

static int sysfs_number(const char *root, const char *entry, const char *name, int64_t *number)
{
	char path[SYSFS_PATH], value[VALUE_MAX];

	sysfs_path(path, root, entry, name);
	return value_get(path, value, NULL) ?: option_parse_integer(value, number);
}

/* The one chip called @chip by its label or its name there: the number of its first line, and how
 * many. */
static int sysfs_find(const char *root, const char *chip, char label[64], int64_t *base,
		      int64_t *lines)
{
	DIR *folder = opendir(root);
	struct dirent *entry;
	int err = -ENOENT;

	while (folder && err != -ENOTUNIQ && (entry = readdir(folder))) {
		char path[SYSFS_PATH], value[VALUE_MAX];

		if (strncmp(entry->d_name, "gpiochip", 8))
			continue;
		sysfs_path(path, root, entry->d_name, "label");
		if (value_get(path, value, NULL) ||
		    (strcmp(value, chip) && strcmp(entry->d_name, chip)))
			continue;
		if (!err) {
			err = -ENOTUNIQ;
			continue;
		}
		snprintf(label, 64, "%.63s", value);
		if (!sysfs_number(root, entry->d_name, "base", base) &&
		    !sysfs_number(root, entry->d_name, "ngpio", lines))
			err = 0;
	}
	if (folder)
		closedir(folder);
	return err;
}

int gpio_sysfs_parse(struct line *line, const char *root)
{
	char chip[64], words[3][40], label[64];
	int64_t base, lines, output, input;

	if (line_split(line->text, 2, chip, words) || sysfs_find(root, chip, label, &base, &lines))
		return -ENOENT;
	if (option_parse_integer(words[0], &output) || option_parse_integer(words[1], &input) ||
	    output < 0 || output >= lines || input < 0 || input >= lines || input == output)
		return -ENOENT;
	snprintf(line->pins.path, sizeof(line->pins.path), "%.63s", root);
	snprintf(line->pins.label, sizeof(line->pins.label), "%s", label);
	line->pins.output = (uint32_t)(base + output);
	line->pins.input = (uint32_t)(base + input);
	return 0;
}

static int sysfs_parse(struct line *line, struct message *why)
{
	(void)why;
	if (gpio_has_version_2())
		return -ENOENT;
	return gpio_sysfs_parse(line, GPIO_SYSFS);
}

/* --- taking and restoring lines --- */

static int sysfs_write(const struct line *line, const struct sysfs_line *one, const char *name,
		       const char *value)
{
	char path[SYSFS_PATH], entry[32];

	snprintf(entry, sizeof(entry), "gpio%u", one->number);
	sysfs_path(path, line->pins.path, entry, name);
	return value_put(path, value);
}

static void sysfs_read(const struct line *line, const struct sysfs_line *one, const char *name,
		       char text[8])
{
	char path[SYSFS_PATH], entry[32], value[VALUE_MAX];

	snprintf(entry, sizeof(entry), "gpio%u", one->number);
	sysfs_path(path, line->pins.path, entry, name);
	snprintf(text, 8, "%.7s", value_get(path, value, NULL) ? "" : value);
}

static int sysfs_export(const struct line *line, struct sysfs_line *one, const char *file)
{
	char path[SYSFS_PATH], number[16];

	snprintf(number, sizeof(number), "%u", one->number);
	sysfs_path(path, line->pins.path, file, "");
	return value_put(path, number);
}

static int sysfs_take(const struct line *line, struct sysfs_line *one, uint32_t number,
		      const char *direction, struct message *why)
{
	char path[SYSFS_PATH], entry[32], remedy[80] = "run as root, or use another line";
	int err;

	one->number = number;
	one->fd = -1;
	err = sysfs_export(line, one, "export");
	snprintf(entry, sizeof(entry), "gpio%u", number);
	sysfs_path(path, line->pins.path, entry, "");
	if (err == -EBUSY && !access(path, F_OK))
		snprintf(remedy, sizeof(remedy), "release it: echo %u > %.40s/unexport", number,
			 line->pins.path);
	else if (err == -EBUSY)
		strcpy(remedy, "end the program that uses it, or use another line");
	if (err)
		return message_set(
			why, err == -EINVAL ? -EIO : err, remedy,
			"the kernel's line %u (chip %s) %s: %s", number, line->pins.label,
			err == -EBUSY ? "is in use" : "is not available", strerror(-err));
	one->exported = true;
	sysfs_read(line, one, "direction", one->direction);
	sysfs_read(line, one, "active_low", one->active_low);
	/* the physical level, whatever it was called */
	err = sysfs_write(line, one, "active_low", "0");
	sysfs_read(line, one, "value", one->value);
	err = err ?: sysfs_write(line, one, "direction", direction);
	if (!err && line->how.active_low)
		err = sysfs_write(line, one, "active_low", "1");
	if (err)
		return message_set(why, err == -EINVAL ? -EIO : err, "use another line",
				   "the kernel's line %u (chip %s) cannot be set to '%s': %s",
				   number, line->pins.label, direction, strerror(-err));
	snprintf(entry, sizeof(entry), "gpio%u", number);
	sysfs_path(path, line->pins.path, entry, "value");
	one->fd = open(path, O_RDWR | O_CLOEXEC);
	return one->fd < 0 ? message_set(why, -errno, "run as root", "cannot open %s: %s", path,
					 strerror(errno)) :
			     0;
}

static int sysfs_open(struct line *line, struct message *why)
{
	static const char *const edges[] = { "both", "rising", "falling" };
	struct sysfs *sysfs = calloc(1, sizeof(*sysfs));
	char value[8];
	int err;

	if (!sysfs)
		return message_set(why, -ENOMEM, "free some memory", "out of memory");
	line->state = sysfs;
	sysfs->output.fd = sysfs->input.fd = -1;
	if (line->how.bias != LINE_BIAS_AS_IS || line->how.debounce_ns)
		return message_set(
			why, -EIO, "omit --bias and --debounce, or use Linux 5.10 or newer",
			"the kernel's old GPIO interface does not support bias and debouncing");
	err = sysfs_take(line, &sysfs->output, line->pins.output,
			 line->how.active_low ? "high" : "low", why);
	if (!err)
		err = sysfs_take(line, &sysfs->input, line->pins.input, "in", why);
	if (err)
		return err;
	err = sysfs_write(line, &sysfs->input, "edge", edges[line->how.edge]);
	if (err)
		return message_set(why, err == -EINVAL ? -EIO : err, "use another line",
				   "the kernel's line %u (chip %s) raises no interrupts: %s",
				   line->pins.input, line->pins.label, strerror(-err));
	/* drop what was pending before */
	return pread(sysfs->input.fd, value, sizeof(value), 0) < 0 ? -errno : 0;
}

static void sysfs_put_back(const struct line *line, struct sysfs_line *one)
{
	if (one->fd >= 0)
		close(one->fd);
	if (!one->exported)
		return;
	if (!strcmp(one->direction, "in"))
		sysfs_write(line, one, "direction", "in");
	else if (one->direction[0])
		sysfs_write(line, one, "direction", one->value[0] == '1' ? "high" : "low");
	if (one->active_low[0])
		sysfs_write(line, one, "active_low", one->active_low);
	sysfs_export(line, one, "unexport");
}

static void sysfs_close(struct line *line)
{
	struct sysfs *sysfs = line->state;

	if (sysfs->input.exported)
		sysfs_write(line, &sysfs->input, "edge", "none");
	sysfs_put_back(line, &sysfs->input);
	sysfs_put_back(line, &sysfs->output);
	free(sysfs);
}

/* --- edges --- */

static int sysfs_wait(struct line *line, int64_t until_ns, struct line_event *event)
{
	const struct sysfs *sysfs = line->state;
	int ready = line_poll(sysfs->input.fd, POLLPRI | POLLERR, until_ns);
	char value[8];

	if (ready <= 0)
		return ready;
	*event = (struct line_event){ .seen_ns = clock_now_ns(CLOCK_MONOTONIC) };
	if (pread(sysfs->input.fd, value, sizeof(value), 0) < 1)
		return -errno;
	event->level = value[0] == '1';
	/* the kernel reported the edge, but the level may have changed since */
	if (line->how.edge != LINE_BOTH)
		event->level = line->how.edge == LINE_RISING;
	return 1;
}

static int sysfs_drive(struct line *line, int level)
{
	const struct sysfs *sysfs = line->state;

	return pwrite(sysfs->output.fd, level ? "1" : "0", 1, 0) == 1 ? 0 : -errno;
}

const struct line_kind line_gpio_sysfs = {
	.name = "gpio-sysfs",
	.notation = "CHIP:OUTPUT:INPUT",
	.parse = sysfs_parse,
	.open = sysfs_open,
	.wait = sysfs_wait,
	.drive = sysfs_drive,
	.close = sysfs_close,
};

const struct line_kind line_loopback_sysfs = {
	.name = "loopback-sysfs",
	.notation = "CHIP:OUTPUT:INPUT",
	.loops = true,
	.parse = sysfs_parse,
	.open = sysfs_open,
	.wait = sysfs_wait,
	.drive = sysfs_drive,
	.close = sysfs_close,
};
