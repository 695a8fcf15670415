// SPDX-License-Identifier: Apache-2.0
/*
 * A line over a serial port: every edge is one byte, '0' or '1'. The speed of the port is not
 * changed, and every time contains the transmission of a byte at that speed. The kernel does not
 * stamp bytes.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "lines/serial.h"

struct serial {
	struct serial_port port; /* blocks */
	int out;		 /* does not */
};

/* /dev/ttyS0 or /dev/ttyS0:byte. */
static int serial_path(const struct line *line, char path[SERIAL_PATH])
{
	const char *text = line->text;
	char way[8];

	if (!line_word(&text, path, SERIAL_PATH) || path[0] != '/')
		return -EINVAL;
	if (!text[0])
		return text[-1] == ':' ? -EINVAL : 0;
	return line_word(&text, way, sizeof(way)) && !text[0] && !strcmp(way, "byte") ? 0 : -EINVAL;
}

static int serial_parse(struct line *line, struct message *why)
{
	char path[SERIAL_PATH];

	if (!serial_path(line, path))
		return 0;
	return message_set(why, -EINVAL,
			   "give the port's device: serial:/dev/ttyS0 for bytes, "
			   "serial:/dev/ttyS0:rts:cts for modem-control lines",
			   "'serial:%.80s' is not a serial port", line->text);
}

int serial_refused(const char *path, int err, struct message *why)
{
	const char *remedy = "see dmesg for the port's messages";

	if (err == ENOENT || err == ENOTTY)
		return message_set(why, -EINVAL, "name a serial port: /dev/ttyS0, /dev/ttyUSB0",
				   "'%s' is not a serial port: %s", path, strerror(err));
	if (err == EBUSY)
		remedy = "end the program that uses it (fuser names it)";
	else if (err == EACCES || err == EPERM)
		remedy = "run as root, or put this user into the group that owns the port";
	return message_set(why, err == EINVAL ? -EIO : -err, remedy,
			   "cannot use the serial port %s: %s", path, strerror(err));
}

/* Bytes as they come, each at once. 0 or -1 with errno. */
static int serial_port_set_up(struct serial_port *port)
{
	struct termios raw;
	int flags;

	if (tcgetattr(port->fd, &port->found))
		return -1;
	raw = port->found;
	cfmakeraw(&raw);
	raw.c_cflag |= CLOCAL | CREAD;
	raw.c_cflag &= ~(tcflag_t)CRTSCTS;
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	if (tcsetattr(port->fd, TCSANOW, &raw))
		return -1;
	port->changed = true;
	flags = fcntl(port->fd, F_GETFL);
	if (flags < 0 || fcntl(port->fd, F_SETFL, flags & ~O_NONBLOCK) || ioctl(port->fd, TIOCEXCL))
		return -1;
	/* drop what was pending before */
	return tcflush(port->fd, TCIOFLUSH);
}

int serial_port_open(struct serial_port *port, const char *path, struct message *why)
{
	port->fd = open(path, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	return port->fd < 0 || serial_port_set_up(port) ? serial_refused(path, errno, why) : 0;
}

void serial_port_close(struct serial_port *port)
{
	if (port->fd < 0)
		return;
	ioctl(port->fd, TIOCNXCL);
	/* does not wait for unread output */
	if (port->changed)
		tcsetattr(port->fd, TCSANOW, &port->found);
	close(port->fd);
}

static int serial_open(struct line *line, struct message *why)
{
	struct serial *serial = calloc(1, sizeof(*serial));
	char path[SERIAL_PATH];
	int err;

	if (!serial)
		return message_set(why, -ENOMEM, "free some memory", "out of memory");
	line->state = serial;
	serial->port.fd = -1;
	serial_path(line, path);
	/* before the port is locked */
	serial->out = open(path, O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	err = serial->out < 0 ? serial_refused(path, errno, why) : 0;
	return err ?: serial_port_open(&serial->port, path, why);
}

static int serial_wait(struct line *line, int64_t until_ns, struct line_event *event)
{
	const struct serial *serial = line->state;
	char byte;
	ssize_t got;

	if (until_ns != LINE_FOREVER) {
		int ready = line_poll(serial->port.fd, POLLIN, until_ns);

		if (ready <= 0)
			return ready;
	}
	got = read(serial->port.fd, &byte, 1);
	*event = (struct line_event){ .seen_ns = clock_now_ns(CLOCK_MONOTONIC) };
	if (got < 1)
		return got ? -errno : -EIO; /* it was hung up */
	if (byte != '0' && byte != '1') {
		line->foreign++;
		return 0;
	}
	event->level = byte == '1';
	return line_wants(line, event->level);
}

static int serial_drive(struct line *line, int level)
{
	const struct serial *serial = line->state;

	return write(serial->out, level ? "1" : "0", 1) == 1 ? 0 : -errno;
}

static void serial_close(struct line *line)
{
	struct serial *serial = line->state;

	serial_port_close(&serial->port);
	if (serial->out >= 0)
		close(serial->out);
	free(serial);
}

const struct line_kind line_serial = {
	.name = "serial",
	.notation = "DEVICE[:byte|:OUT:IN]",
	.messages = true,
	.parse = serial_parse,
	.open = serial_open,
	.wait = serial_wait,
	.drive = serial_drive,
	.close = serial_close,
};
