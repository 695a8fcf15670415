// SPDX-License-Identifier: Apache-2.0
/*
 * A line over two parallel ports and a LapLink cable, by the kernel's driver ppdev: every edge is a
 * pulse from D3 to the other port's nAck, the one input that raises an interrupt, at its rise. D1 has
 * the level, and comes in as Select. The kernel counts interrupts, and does not stamp them. For the
 * contexts of the kernel, the kernel module has the port in place of ppdev.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/parport.h>
#include <linux/ppdev.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/value.h"
#include "lines/line.h"
#include "rtgauge.h"

#define PARALLEL_PATH 64
#define PARALLEL_LEVEL 0x02 /* D1 */
#define PARALLEL_PULSE 0x08 /* D3 */

struct parallel {
	int fd;
	bool claimed;
	bool known;	     /* @found was read */
	unsigned char found; /* on the data lines */
};

static int parallel_path(const struct line *line, char path[PARALLEL_PATH])
{
	const char *text = line->text;

	return line_word(&text, path, PARALLEL_PATH) && path[0] == '/' && !text[0] &&
			       text[-1] != ':' ?
		       0 :
		       -EINVAL;
}

static int parallel_parse(struct line *line, struct message *why)
{
	char path[PARALLEL_PATH];

	if (parallel_path(line, path))
		return message_set(why, -EINVAL, "give the port's device: parallel:/dev/parport0",
				   "'parallel:%.80s' is not a parallel port", line->text);
	snprintf(line->pins.label, sizeof(line->pins.label), "%s", strrchr(path, '/') + 1);
	line->pins.output = RTGAUGE_PARALLEL_OUTPUT;
	line->pins.input = RTGAUGE_PARALLEL_INPUT;
	return 0;
}

static int parallel_refused(const char *path, int err, struct message *why)
{
	const char *remedy = "see dmesg for the port's messages";

	if (err == ENOENT || err == ENOTTY || err == ENXIO || err == ENODEV)
		return message_set(
			why, -EINVAL,
			"name a parallel port: /dev/parport0 (modprobe parport_pc ppdev)",
			"'%s' is not a parallel port: %s", path, strerror(err));
	if (err == EBUSY || err == EAGAIN)
		remedy = "end the program that uses it (fuser names it), or unload the driver lp";
	else if (err == EACCES || err == EPERM)
		remedy = "run as root, or put this user into the group that owns the port";
	return message_set(why, err == EINVAL ? -EIO : -err, remedy,
			   "cannot use the parallel port %s: %s", path, strerror(err));
}

/* Whether the kernel has given the port an interrupt; it may not say. 0, or -errno as of open(). */
static int parallel_check_interrupt(const struct line *line, const char *path, struct message *why)
{
	char file[96], text[VALUE_MAX];

	snprintf(file, sizeof(file), "/proc/sys/dev/parport/%.32s/irq", line->pins.label);
	if (value_get(file, text, NULL) || atoi(text) >= 0)
		return 0;
	return message_set(why, -EINVAL,
			   "give it one: modprobe parport_pc io=0x378 irq=7, or set one in the "
			   "firmware",
			   "the parallel port %s has no interrupt", path);
}

static int parallel_write(const struct parallel *parallel, unsigned char data)
{
	return ioctl(parallel->fd, PPWDATA, &data) ? -errno : 0;
}

/* The other port's interrupt comes with the rise. */
static int parallel_drive(struct line *line, int level)
{
	const struct parallel *parallel = line->state;
	unsigned char data = (level != 0) != line->how.active_low ? PARALLEL_LEVEL : 0;
	int err = parallel_write(parallel, data | PARALLEL_PULSE);

	return err ?: parallel_write(parallel, data);
}

/* Interrupts since the last call, or -errno. */
static int parallel_count(const struct parallel *parallel)
{
	int count;

	return ioctl(parallel->fd, PPCLRIRQ, &count) ? -errno : count;
}

static int parallel_open(struct line *line, struct message *why)
{
	struct parallel *parallel = calloc(1, sizeof(*parallel));
	char path[PARALLEL_PATH];
	int err;

	if (!parallel)
		return message_set(why, -ENOMEM, "free some memory", "out of memory");
	line->state = parallel;
	parallel_path(line, path);
	parallel->fd = open(path, O_RDWR | O_CLOEXEC);
	/* no other driver has it, or takes it in between */
	if (parallel->fd < 0 || ioctl(parallel->fd, PPEXCL))
		return parallel_refused(path, errno, why);
	if (ioctl(parallel->fd, PPCLAIM)) /* ENXIO: another one has it for itself */
		return parallel_refused(path, errno == ENXIO ? EBUSY : errno, why);
	parallel->claimed = true;
	err = parallel_check_interrupt(line, path, why);
	if (err)
		return err;
	if (ioctl(parallel->fd, PPRDATA, &parallel->found))
		return parallel_refused(path, errno, why);
	parallel->known = true;
	/* at rest; that is a fall, which is not an event */
	err = parallel_write(parallel, line->how.active_low ? PARALLEL_LEVEL : 0);
	if (err >= 0)
		err = parallel_count(parallel);
	return err < 0 ? parallel_refused(path, -err, why) : 0;
}

static int parallel_wait(struct line *line, int64_t until_ns, struct line_event *event)
{
	const struct parallel *parallel = line->state;
	int ready = line_poll(parallel->fd, POLLIN, until_ns);
	unsigned char status;
	int count;

	if (ready <= 0)
		return ready;
	*event = (struct line_event){ .seen_ns = clock_now_ns(CLOCK_MONOTONIC) };
	count = parallel_count(parallel);
	if (count <= 0)
		return count;
	if (ioctl(parallel->fd, PPRSTATUS, &status))
		return -errno;
	event->level = !!(status & PARPORT_STATUS_SELECT) != line->how.active_low;
	event->lost = (uint32_t)count - 1;
	return line_wants(line, event->level);
}

/* --- for the kernel module --- */

static int parallel_wanted(const struct line *line, const char *context, struct message *why)
{
	char path[PARALLEL_PATH];

	parallel_path(line, path);
	if (!strcmp(context, "threaded"))
		return message_set(why, -EINVAL,
				   "choose --context irq, kernel, softirq, workqueue or user",
				   "the interrupt of a parallel port belongs to its driver: the "
				   "kernel module has no threaded handler there");
	if (line->how.debounce_ns)
		return message_set(why, -EINVAL, "omit --debounce, or choose --context user",
				   "a parallel port cannot debounce its lines");
	return parallel_check_interrupt(line, path, why);
}

/* --- */

static void parallel_close(struct line *line)
{
	struct parallel *parallel = line->state;

	if (parallel->known)
		parallel_write(parallel, parallel->found);
	if (parallel->claimed)
		ioctl(parallel->fd, PPRELEASE);
	if (parallel->fd >= 0)
		close(parallel->fd);
	free(parallel);
}

const struct line_kind line_parallel = {
	.name = "parallel",
	.notation = "DEVICE",
	.messages = true,
	.parse = parallel_parse,
	.open = parallel_open,
	.wait = parallel_wait,
	.drive = parallel_drive,
	.module_source = RTGAUGE_SOURCE_PARALLEL,
	.wanted = parallel_wanted,
	.close = parallel_close,
};
