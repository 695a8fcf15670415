// SPDX-License-Identifier: Apache-2.0
/*
 * Two lines of a GPIO chip through its character device, version 2 of the kernel's interface. Edges
 * have the time stamp of their interrupt handler, and sequence numbers that show lost ones. Without
 * such a device, gpio_sysfs.c uses the old interface below /sys.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/gpio.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "lines/gpio_sysfs.h"
#include "lines/line.h"

#define GPIO_FOLDER "/dev"
#define GPIO_CONSUMER "rtgauge"
#define GPIO_EVENTS 16	 /* taken at once */
#define GPIO_BUFFER 1024 /* of the kernel's, in events: the most it gives */
#define GPIO_INPUT 0	 /* of the lines that are read */
#define GPIO_MARK 1

/* A line as it was found. */
struct gpio_found {
	uint32_t offset;
	uint64_t flags;
	int value; /* of an output, the physical level */
};

struct gpio {
	int chip;
	int output;
	int input;
	struct gpio_found found[3];
	int found_count;
	uint32_t offsets[2]; /* of the lines that are read */
	uint32_t numbers[2]; /* of the last edge of each */
	struct gpio_v2_line_event events[GPIO_EVENTS];
	int next, count; /* of those read and not yet given */
};

/* --- what there is --- */

/* An entry of the folder is a chip, or a link to one that @chip names by this path. Some systems have
 * links to chips under the names that these had before. */
static bool gpio_is_chip(const struct dirent *entry, const char *chip)
{
	return !strncmp(entry->d_name, "gpiochip", 8) && strlen(entry->d_name) <= 24 &&
	       (entry->d_type != DT_LNK || (!strncmp(chip, GPIO_FOLDER "/", sizeof(GPIO_FOLDER)) &&
					    !strcmp(chip + sizeof(GPIO_FOLDER), entry->d_name)));
}

/* All chips' names, with their labels, for a message. Their number. */
static int gpio_list(char *text, size_t size)
{
	DIR *folder = opendir(GPIO_FOLDER);
	struct dirent *entry;
	size_t used = 0;
	int count = 0;

	text[0] = '\0';
	while (folder && (entry = readdir(folder))) {
		struct gpiochip_info info = { 0 };
		char path[64];
		int fd;

		if (!gpio_is_chip(entry, ""))
			continue;
		count++;
		snprintf(path, sizeof(path), GPIO_FOLDER "/%.24s", entry->d_name);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd >= 0 && ioctl(fd, GPIO_GET_CHIPINFO_IOCTL, &info))
			info.label[0] = '\0';
		if (used < size)
			used += (size_t)snprintf(text + used, size - used,
						 "%s%.24s (%.31s, %u lines)", used ? ", " : "",
						 entry->d_name, info.label, info.lines);
		if (fd >= 0)
			close(fd);
	}
	if (folder)
		closedir(folder);
	return count;
}

/* The chip at @path, if @chip is its path, name or label: its descriptor, or -errno. */
static int gpio_open_if(const char *path, const char *chip, struct gpiochip_info *info)
{
	int fd = open(path, O_RDWR | O_CLOEXEC), err = 0;

	memset(info, 0, sizeof(*info));
	if (fd < 0)
		return -errno;
	if (ioctl(fd, GPIO_GET_CHIPINFO_IOCTL, info))
		err = -errno;
	else if (strcmp(path, chip) && strcmp(info->name, chip) && strcmp(info->label, chip))
		err = -ENOENT;
	if (!err)
		return fd;
	close(fd);
	return err;
}

/* The one chip that @chip names: its descriptor, its path and info. -ENOENT, -ENOTUNIQ, -EACCES. */
static int gpio_find(const char *chip, char path[64], struct gpiochip_info *info)
{
	DIR *folder = opendir(GPIO_FOLDER);
	struct dirent *entry;
	int found = -ENOENT;

	while (folder && (entry = readdir(folder))) {
		struct gpiochip_info one;
		char here[64];
		int fd;

		if (!gpio_is_chip(entry, chip))
			continue;
		snprintf(here, sizeof(here), GPIO_FOLDER "/%.24s", entry->d_name);
		fd = gpio_open_if(here, chip, &one);
		if (fd < 0 && found == -ENOENT && (fd == -EACCES || fd == -EPERM))
			found = -EACCES;
		if (fd < 0)
			continue;
		if (found >= 0) {
			close(fd);
			close(found);
			found = -ENOTUNIQ;
			break;
		}
		found = fd;
		*info = one;
		memcpy(path, here, sizeof(here));
	}
	if (folder)
		closedir(folder);
	return found;
}

/* --- notation --- */

static int gpio_line_names(int chip, uint32_t lines, char *text, size_t size)
{
	size_t used = (size_t)snprintf(text, size, "it has lines 0 to %u", lines - 1);
	int named = 0;

	for (uint32_t i = 0; i < lines && used < size; i++) {
		struct gpio_v2_line_info info = { .offset = i };

		if (ioctl(chip, GPIO_V2_GET_LINEINFO_IOCTL, &info) || !info.name[0])
			continue;
		used += (size_t)snprintf(text + used, size - used, "%s%s",
					 named++ ? ", " : "; by name: ", info.name);
	}
	return named;
}

/* A line by its offset or its name. */
static int gpio_parse_line(int chip, const struct gpiochip_info *chip_info, const char *word,
			   uint32_t *offset, struct message *why)
{
	char names[200];
	int64_t number;

	if (!option_parse_integer(word, &number) && number >= 0 && number < chip_info->lines) {
		*offset = (uint32_t)number;
		return 0;
	}
	for (uint32_t i = 0; i < chip_info->lines; i++) {
		struct gpio_v2_line_info info = { .offset = i };

		if (!ioctl(chip, GPIO_V2_GET_LINEINFO_IOCTL, &info) && info.name[0] &&
		    !strcmp(info.name, word)) {
			*offset = i;
			return 0;
		}
	}
	gpio_line_names(chip, chip_info->lines, names, sizeof(names));
	return message_set(why, -EINVAL, names, "the chip %s has no line '%.40s'", chip_info->label,
			   word);
}

static int gpio_no_chip(const struct line *line, int err, const char *chip, struct message *why)
{
	char chips[240] = "choose from: ";
	const size_t used = strlen(chips);
	int count = gpio_list(chips + used, sizeof(chips) - used);

	if (err == -ENOTUNIQ)
		return message_set(why, -EINVAL, chips, "several GPIO chips have the name '%s'",
				   chip);
	if (err == -EACCES)
		return message_set(why, err,
				   "run as root, or let this user use " GPIO_FOLDER "/gpiochip*",
				   "this user cannot open the GPIO chips of this machine");
	if (!count)
		return message_set(why, -ENODEV,
				   line->how.marks ? "use a board that has one" :
						     "use a board that has one, or another kind "
						     "of line: net, serial, parallel",
				   "this machine has no GPIO chip");
	return message_set(why, -EINVAL, chips, "there is no GPIO chip '%s' ('%s:%.80s')", chip,
			   line->kind->name, line->text);
}

/* Whether the kernel knows this version of the interface. */
static bool gpio_is_version_2(int chip)
{
	struct gpio_v2_line_info info = { .offset = 0 };

	return !ioctl(chip, GPIO_V2_GET_LINEINFO_IOCTL, &info);
}

static int gpio_parse_lines(struct line *line, int chip, const struct gpiochip_info *info,
			    char words[3][40], int count, struct message *why)
{
	struct line_pins *pins = &line->pins;
	int err = gpio_parse_line(chip, info, words[0], &pins->output, why);

	if (!err)
		err = gpio_parse_line(chip, info, words[1], &pins->input, why);
	if (!err && count == 3)
		err = gpio_parse_line(chip, info, words[2], &pins->mark, why);
	if (err)
		return err;
	pins->marked = count == 3;
	if (pins->output == pins->input ||
	    (pins->marked && (pins->mark == pins->input || pins->mark == pins->output)))
		return message_set(why, -EINVAL, "name the output first, then the input, then MARK",
				   "'%s:%.80s' names one line twice", line->kind->name, line->text);
	return 0;
}

bool gpio_has_version_2(void)
{
	DIR *folder = opendir(GPIO_FOLDER);
	struct dirent *entry;
	bool has = false;

	while (folder && !has && (entry = readdir(folder))) {
		char path[64];
		int fd;

		if (!gpio_is_chip(entry, ""))
			continue;
		snprintf(path, sizeof(path), GPIO_FOLDER "/%.24s", entry->d_name);
		fd = open(path, O_RDWR | O_CLOEXEC);
		has = fd < 0 ? errno == EACCES || errno == EPERM : gpio_is_version_2(fd);
		if (fd >= 0)
			close(fd);
	}
	if (folder)
		closedir(folder);
	return has;
}

/* CHIP:LINE */
static int gpio_parse_mark(struct line *line, struct message *why)
{
	struct gpiochip_info info = { 0 };
	char chip[64] = "", words[3][40];
	int fd, err;

	if (line_split(line->text, 1, chip, words))
		return message_set(why, -EINVAL,
				   "use the form gpio:CHIP:LINE, such as gpio:gpiochip0:17",
				   "'%.80s' does not name a chip and one of its lines", line->text);
	fd = gpio_find(chip, line->pins.path, &info);
	if (fd < 0)
		return gpio_no_chip(line, fd, chip, why);
	snprintf(line->pins.label, sizeof(line->pins.label), "%s", info.label);
	err = gpio_is_version_2(fd) ?
		      gpio_parse_line(fd, &info, words[0], &line->pins.output, why) :
		      message_set(why, -ENODEV, "measure on Linux 5.10 or newer",
				  "this kernel cannot set a GPIO line fast enough to mark samples");
	close(fd);
	return err;
}

static int gpio_parse(struct line *line, struct message *why)
{
	struct gpiochip_info info = { 0 };
	char chip[64] = "", words[3][40];
	int fd = -EINVAL, count = 3, err;

	if (line->how.marks)
		return gpio_parse_mark(line, why);
	/* a chip's label may have colons: the longer notation is tried first */
	if (line->how.asks && !line_split(line->text, 3, chip, words))
		fd = gpio_find(chip, line->pins.path, &info);
	if (fd < 0) {
		count = 2;
		if (line_split(line->text, 2, chip, words))
			return message_set(why, -EINVAL,
					   "use the form CHIP:OUTPUT:INPUT, such as gpiochip0:0:1",
					   "'%s:%.80s' does not name a chip and two of its lines",
					   line->kind->name, line->text);
		fd = gpio_find(chip, line->pins.path, &info);
	}
	if (fd < 0)
		return gpio_no_chip(line, fd, chip, why);
	if (!gpio_is_version_2(fd)) {
		close(fd);
		return message_set(
			why, -EINVAL,
			"give the chip's label, or its folder in /sys/class/gpio, and the "
			"numbers of its lines",
			"this kernel (older than Linux 5.10) does not find '%s:%.80s' by these names",
			line->kind->name, line->text);
	}
	snprintf(line->pins.label, sizeof(line->pins.label), "%s", info.label);
	err = gpio_parse_lines(line, fd, &info, words, count, why);
	close(fd);
	return err;
}

/* --- taking and restoring lines --- */

static int gpio_request(int chip, const uint32_t *offsets, int count, uint64_t flags, int value,
			int64_t debounce_ns)
{
	struct gpio_v2_line_request request = {
		.consumer = GPIO_CONSUMER,
		.num_lines = (uint32_t)count,
		.event_buffer_size = flags & GPIO_V2_LINE_FLAG_INPUT ? GPIO_BUFFER : 0,
		.config = { .flags = flags },
	};
	struct gpio_v2_line_config_attribute *attr = request.config.attrs;

	memcpy(request.offsets, offsets, (size_t)count * sizeof(*offsets));
	if (flags & GPIO_V2_LINE_FLAG_OUTPUT) {
		attr->attr.id = GPIO_V2_LINE_ATTR_ID_OUTPUT_VALUES;
		attr->attr.values = value != 0;
		attr->mask = 1;
		request.config.num_attrs = 1;
	} else if (debounce_ns) {
		attr->attr.id = GPIO_V2_LINE_ATTR_ID_DEBOUNCE;
		attr->attr.debounce_period_us = (uint32_t)(debounce_ns / NSEC_PER_USEC);
		attr->mask = 1;
		request.config.num_attrs = 1;
	}
	return ioctl(chip, GPIO_V2_GET_LINE_IOCTL, &request) ? -errno : request.fd;
}

/* Record the line's present state. -EBUSY, with the name of its user, when it is in use. */
static int gpio_find_state(struct gpio *gpio, const struct line *line, uint32_t offset,
			   struct message *why)
{
	struct gpio_found *found = &gpio->found[gpio->found_count];
	struct gpio_v2_line_info info = { .offset = offset };
	struct gpio_v2_line_values values = { .mask = 1 };
	int fd;

	if (ioctl(gpio->chip, GPIO_V2_GET_LINEINFO_IOCTL, &info))
		return message_set(why, -errno, "see dmesg", "cannot query line %u of %s: %s",
				   offset, line->pins.label, strerror(errno));
	if (info.flags & GPIO_V2_LINE_FLAG_USED)
		return message_set(
			why, -EBUSY,
			"end the program or unload the driver that uses it, or use another line",
			"line %u%s%s of %s is in use by '%s'", offset, info.name[0] ? " " : "",
			info.name, line->pins.label,
			info.consumer[0] ? info.consumer : "the kernel");
	*found = (struct gpio_found){ .offset = offset, .flags = info.flags };
	if (info.flags & GPIO_V2_LINE_FLAG_OUTPUT) {
		fd = gpio_request(gpio->chip, &offset, 1, 0, 0, 0);
		if (fd >= 0 && !ioctl(fd, GPIO_V2_LINE_GET_VALUES_IOCTL, &values))
			found->value = (int)(values.bits & 1);
		if (fd >= 0)
			close(fd);
	}
	gpio->found_count++;
	return 0;
}

static void gpio_put_back(const struct gpio *gpio)
{
	const uint64_t keep = GPIO_V2_LINE_FLAG_INPUT | GPIO_V2_LINE_FLAG_OUTPUT |
			      GPIO_V2_LINE_FLAG_OPEN_DRAIN | GPIO_V2_LINE_FLAG_OPEN_SOURCE |
			      GPIO_V2_LINE_FLAG_BIAS_PULL_UP | GPIO_V2_LINE_FLAG_BIAS_PULL_DOWN |
			      GPIO_V2_LINE_FLAG_BIAS_DISABLED;

	for (int i = 0; i < gpio->found_count; i++) {
		const struct gpio_found *found = &gpio->found[i];
		int fd = gpio_request(gpio->chip, &found->offset, 1, found->flags & keep,
				      found->value, 0);

		if (fd >= 0)
			close(fd);
	}
}

static int gpio_refused(const struct line *line, int err, const char *what, uint32_t offset,
			struct message *why)
{
	const char *remedy = "use a line that supports it";

	if (err == -EBUSY)
		remedy = "end the program that uses it, or use another line";
	else if (line->how.debounce_ns)
		remedy = "omit --debounce, or use another line";
	else if (err == -EPERM || err == -EACCES)
		remedy = "run as root";
	/* a missing feature of the chip is not a usage error */
	return message_set(why, err == -EINVAL ? -EIO : err, remedy,
			   "line %u of %s cannot be %s: %s", offset, line->pins.label, what,
			   strerror(-err));
}

static uint64_t gpio_input_flags(const struct line_how *how)
{
	static const uint64_t biases[] = {
		[LINE_BIAS_AS_IS] = 0,
		[LINE_BIAS_DISABLED] = GPIO_V2_LINE_FLAG_BIAS_DISABLED,
		[LINE_BIAS_UP] = GPIO_V2_LINE_FLAG_BIAS_PULL_UP,
		[LINE_BIAS_DOWN] = GPIO_V2_LINE_FLAG_BIAS_PULL_DOWN,
	};

	return GPIO_V2_LINE_FLAG_INPUT | biases[how->bias] |
	       (how->edge != LINE_FALLING ? GPIO_V2_LINE_FLAG_EDGE_RISING : 0) |
	       (how->edge != LINE_RISING ? GPIO_V2_LINE_FLAG_EDGE_FALLING : 0) |
	       (how->active_low ? GPIO_V2_LINE_FLAG_ACTIVE_LOW : 0);
}

static int gpio_take(struct line *line, struct gpio *gpio, struct message *why)
{
	const struct line_pins *pins = &line->pins;
	const uint64_t low = line->how.active_low ? GPIO_V2_LINE_FLAG_ACTIVE_LOW : 0;
	int err = gpio_find_state(gpio, line, pins->output, why);

	if (!err && !line->how.marks)
		err = gpio_find_state(gpio, line, pins->input, why);
	if (!err && pins->marked)
		err = gpio_find_state(gpio, line, pins->mark, why);
	if (err)
		return err;
	gpio->output =
		gpio_request(gpio->chip, &pins->output, 1, GPIO_V2_LINE_FLAG_OUTPUT | low, 0, 0);
	if (gpio->output < 0)
		return gpio_refused(line, gpio->output, "driven", pins->output, why);
	if (line->how.marks)
		return 0;
	gpio->offsets[GPIO_INPUT] = pins->input;
	gpio->offsets[GPIO_MARK] = pins->mark;
	gpio->input = gpio_request(gpio->chip, gpio->offsets, pins->marked ? 2 : 1,
				   gpio_input_flags(&line->how), 0, line->how.debounce_ns);
	if (gpio->input < 0)
		return gpio_refused(line, gpio->input, "an input with edges", pins->input, why);
	return 0;
}

static int gpio_open(struct line *line, struct message *why)
{
	struct gpio *gpio = calloc(1, sizeof(*gpio));

	if (!gpio)
		return message_set(why, -ENOMEM, "free some memory", "out of memory");
	line->state = gpio;
	gpio->output = gpio->input = -1;
	gpio->chip = open(line->pins.path, O_RDWR | O_CLOEXEC);
	if (gpio->chip < 0)
		return message_set(why, -errno, "run as root", "cannot open %s: %s",
				   line->pins.path, strerror(errno));
	return gpio_take(line, gpio, why);
}

static void gpio_close(struct line *line)
{
	struct gpio *gpio = line->state;

	if (gpio->input >= 0)
		close(gpio->input);
	if (gpio->output >= 0)
		close(gpio->output);
	if (gpio->chip >= 0) {
		gpio_put_back(gpio);
		close(gpio->chip);
	}
	free(gpio);
}

/* --- edges --- */

static void gpio_give(const struct line *line, struct gpio *gpio, struct line_event *event)
{
	const struct gpio_v2_line_event *from = &gpio->events[gpio->next++];
	int which = line->pins.marked && from->offset == line->pins.mark ? GPIO_MARK : GPIO_INPUT;

	event->stamp_ns = (int64_t)from->timestamp_ns;
	event->level = from->id == GPIO_V2_LINE_EVENT_RISING_EDGE;
	event->lost = from->line_seqno - gpio->numbers[which] - 1;
	event->mark = which == GPIO_MARK;
	gpio->numbers[which] = from->line_seqno;
}

static int gpio_wait(struct line *line, int64_t until_ns, struct line_event *event)
{
	struct gpio *gpio = line->state;
	ssize_t got;

	if (gpio->next < gpio->count) {
		event->seen_ns = clock_now_ns(CLOCK_MONOTONIC);
		gpio_give(line, gpio, event);
		return 1;
	}
	if (until_ns != LINE_FOREVER) {
		int ready = line_poll(gpio->input, POLLIN, until_ns);

		if (ready <= 0)
			return ready;
	}
	got = read(gpio->input, gpio->events, sizeof(gpio->events));
	event->seen_ns = clock_now_ns(CLOCK_MONOTONIC);
	if (got < 0)
		return errno == EAGAIN ? 0 : -errno;
	gpio->count = (int)((size_t)got / sizeof(gpio->events[0]));
	gpio->next = 0;
	if (!gpio->count)
		return -EIO;
	gpio_give(line, gpio, event);
	return 1;
}

static int gpio_drive(struct line *line, int level)
{
	const struct gpio *gpio = line->state;
	struct gpio_v2_line_values values = { .bits = level != 0, .mask = 1 };

	return ioctl(gpio->output, GPIO_V2_LINE_SET_VALUES_IOCTL, &values) ? -errno : 0;
}

const struct line_kind line_gpio = {
	.name = "gpio",
	.notation = "CHIP:OUTPUT:INPUT[:MARK]",
	.stamps = true,
	.parse = gpio_parse,
	.open = gpio_open,
	.wait = gpio_wait,
	.drive = gpio_drive,
	.close = gpio_close,
};

const struct line_kind line_loopback = {
	.name = "loopback",
	.notation = "CHIP:OUTPUT:INPUT",
	.stamps = true,
	.loops = true,
	.parse = gpio_parse,
	.open = gpio_open,
	.wait = gpio_wait,
	.drive = gpio_drive,
	.close = gpio_close,
};
