// SPDX-License-Identifier: Apache-2.0
/*
 * A line of an emulated board, driven and observed from outside QEMU with the text protocol of
 * QEMU's device tests. "set_irq_in" drives an input of a chip. "IRQ raise N" and "IRQ lower N"
 * report a change of its output N. QEMU answers each order with "OK" or "FAIL ...", between these
 * reports. If input and output have the same number, QEMU itself reports each driven change, which
 * measures the error of the path.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "lines/virtual.h"

#define VIRTUAL_LINES 256
#define VIRTUAL_BYTES 4096

struct virtual
{
	struct sockaddr_un socket;
	char chip[256]; /* QEMU's path of the object */
	int in, out;	/* the chip's: driven here, and seen here */
	int fd;
	int unheard;  /* orders that have not been answered yet */
	bool refused; /* one of them failed */
	size_t used;
	char bytes
		[VIRTUAL_BYTES]; /* read, and not looked at yet: whole lines and the start of one */
};

static int virtual_read(const struct line *line, struct virtual *virtual, struct message *why)
{
	const char *text = line->text;

	if (!line_word(&text, virtual->socket.sun_path, sizeof(virtual->socket.sun_path)) ||
	    !line_word(&text, virtual->chip, sizeof(virtual->chip)) ||
	    strpbrk(virtual->chip, " \n") || line_number(&text, VIRTUAL_LINES, &virtual->in) ||
	    line_number(&text, VIRTUAL_LINES, &virtual->out) || *text)
		return message_set(why, -EINVAL,
				   "give QEMU's socket, the chip's path there, its input and its "
				   "output: virtual:SOCKET:CHIP:IN:OUT, or a doorbell's: "
				   "virtual:doorbell:SOCKET:IN:OUT",
				   "'virtual:%.160s' is not a line", line->text);
	virtual->socket.sun_family = AF_UNIX;
	return 0;
}

static int virtual_parse(struct line *line, struct message *why)
{
	struct virtual virtual = { .fd = -1 };

	if (!line->how.asks)
		return message_set(why, -EINVAL,
				   "use it with log-host (on the board it is a GPIO line)",
				   "only a program outside the board can drive a virtual line");
	if (!strncmp(line->text, VIRTUAL_DOORBELL, strlen(VIRTUAL_DOORBELL))) {
		line->kind = &line_virtual_doorbell;
		return line->kind->parse(line, why);
	}
	return virtual_read(line, &virtual, why);
}

static int virtual_send(struct virtual *virtual, const char *text, int size)
{
	ssize_t sent;

	do {
		sent = send(virtual->fd, text, (size_t)size, MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	if (sent < 0)
		return -errno;
	virtual->unheard++;
	return sent == size ? 0 : -EIO;
}

/* One line of QEMU's: 1 if it is an edge of the output that @event wants. */
static int virtual_take(struct line *line, const char *text, struct line_event *event)
{
	struct virtual *virtual = line->state;
	int number, level;

	if (!strcmp(text, "OK") || !strncmp(text, "FAIL", 4)) {
		virtual->refused |= text[0] == 'F';
		virtual->unheard--;
		return 0;
	}
	if (sscanf(text, "IRQ raise %d", &number) == 1)
		level = 1;
	else if (sscanf(text, "IRQ lower %d", &number) == 1)
		level = 0;
	else {
		line->foreign++;
		return 0;
	}
	if (number != virtual->out)
		return 0;
	level = line->how.active_low ? !level : level;
	*event = (struct line_event){ .seen_ns = event->seen_ns, .level = level };
	return line_wants(line, level);
}

/* Look at the lines that were read, up to the first edge that is wanted. */
static int virtual_look(struct line *line, struct line_event *event)
{
	struct virtual *virtual = line->state;
	size_t at = 0;
	char *end;
	int found = 0;

	while (!found && (end = memchr(virtual->bytes + at, '\n', virtual->used - at))) {
		*end = '\0';
		if (end > virtual->bytes + at && end[-1] == '\r')
			end[-1] = '\0';
		found = virtual_take(line, virtual->bytes + at, event);
		at = (size_t)(end - virtual->bytes) + 1;
	}
	virtual->used -= at;
	memmove(virtual->bytes, virtual->bytes + at, virtual->used);
	if (virtual->used == sizeof(virtual->bytes)) {
		line->foreign++;
		virtual->used = 0;
	}
	return virtual->refused ? -EIO : found;
}

static int virtual_wait(struct line *line, int64_t until_ns, struct line_event *event)
{
	struct virtual *virtual = line->state;
	ssize_t got;
	int ready;

	event->seen_ns = clock_now_ns(CLOCK_MONOTONIC);
	ready = virtual_look(line, event); /* what came together with an edge before */
	if (ready)
		return ready;
	ready = line_poll(virtual->fd, POLLIN, until_ns);
	if (ready <= 0)
		return ready;
	got = recv(virtual->fd, virtual->bytes + virtual->used,
		   sizeof(virtual->bytes) - virtual->used, MSG_DONTWAIT);
	event->seen_ns = clock_now_ns(CLOCK_MONOTONIC);
	if (got < 0)
		return errno == EAGAIN ? 0 : -errno;
	if (!got)
		return -EPIPE;
	virtual->used += (size_t)got;
	return virtual_look(line, event);
}

/* Wait until QEMU has answered every command. 0 or -errno. */
static int virtual_heard(struct line *line)
{
	struct virtual *virtual = line->state;
	int64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + VIRTUAL_ANSWER_NS;
	struct line_event event;
	int err = 0;

	while (virtual->unheard > 0 && err >= 0) {
		if (clock_now_ns(CLOCK_MONOTONIC) > until_ns)
			return -ETIMEDOUT;
		err = virtual_wait(line, until_ns, &event);
	}
	return err < 0 ? err : 0;
}

static int virtual_drive(struct line *line, int level)
{
	struct virtual *virtual = line->state;
	char text[sizeof(virtual->chip) + 64];
	int size = snprintf(text, sizeof(text), "set_irq_in %s unnamed-gpio-in %d %d\n",
			    virtual->chip, virtual->in, line->how.active_low ? !level : level != 0);

	return virtual_send(virtual, text, size);
}

static int virtual_open(struct line *line, struct message *why)
{
	struct virtual *virtual = calloc(1, sizeof(*virtual));
	char text[sizeof(virtual->chip) + 64];
	int size, err;

	if (!virtual)
		return message_set(why, -ENOMEM, "free some memory", "out of memory");
	line->state = virtual;
	virtual->fd = -1;
	err = virtual_read(line, virtual, why);
	if (err)
		return err;
	virtual->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (virtual->fd < 0 || connect(virtual->fd, (const struct sockaddr *)&virtual->socket,
				       sizeof(virtual->socket)))
		return message_set(why, -errno, "start the board with lines=outside",
				   "cannot connect to QEMU's socket %.100s: %s",
				   virtual->socket.sun_path, strerror(errno));
	size = snprintf(text, sizeof(text), "irq_intercept_%s %s\n",
			virtual->in == virtual->out ? "in" : "out", virtual->chip);
	err = virtual_send(virtual, text, size);
	if (!err)
		err = line_drive(line, 0);
	if (!err)
		err = virtual_heard(line);
	if (err == -ETIMEDOUT)
		return message_set(why, err,
				   "a board has one log host at a time: end the other one",
				   "QEMU does not answer");
	if (err)
		return message_set(
			why, err,
			"a board can report either its outputs or its inputs: restart it to change that",
			"QEMU refuses to report the lines of %.200s", virtual->chip);
	return 0;
}

static void virtual_close(struct line *line)
{
	struct virtual *virtual = line->state;

	if (virtual->fd >= 0 && !virtual->refused)
		(void)virtual_drive(line, 0);
	if (virtual->fd >= 0)
		close(virtual->fd);
	free(virtual);
}

const struct line_kind line_virtual = {
	.name = "virtual",
	.notation = "SOCKET:CHIP:IN:OUT",
	.parse = virtual_parse,
	.open = virtual_open,
	.wait = virtual_wait,
	.drive = virtual_drive,
	.close = virtual_close,
};
