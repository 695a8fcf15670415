// SPDX-License-Identifier: Apache-2.0
/*
 * Two modem-control lines of a serial port: RTS or DTR is driven, a change of CTS, DSR or DCD is an
 * edge. The kernel does not stamp changes, but counts them if the driver does. Its call that waits
 * for a change has no timeout, and misses a change just before the call. Therefore a timer's signal
 * ends the call repeatedly, and the counts are read before each call. For the contexts of the kernel
 * the port gets the line discipline of the kernel module, which answers then.
 */
#include <errno.h>
#include <linux/serial.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/signals.h"
#include "lines/serial.h"
#include "rtgauge.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* Interval of the signals that end a wait after its time: one that comes before it ends nothing. */
#define MODEM_AGAIN_NS NSEC_PER_MSEC

struct modem_line {
	const char *name;
	int bit;
};

static const struct modem_line modem_outputs[] = { { "rts", TIOCM_RTS },
						   { "dtr", TIOCM_DTR },
						   { NULL, 0 } };
static const struct modem_line modem_inputs[] = {
	{ "cts", TIOCM_CTS }, { "dsr", TIOCM_DSR }, { "dcd", TIOCM_CAR }, { NULL, 0 }
};

struct modem {
	struct serial_port port;
	int output, input; /* bits */
	int found;	   /* the lines as they were found; -1: not known */
	int level;	   /* of the input, physical, as it was seen last */
	int count;	   /* its changes by then */
	bool counts;	   /* the driver counts them */
	bool given;	   /* the port has the line discipline of the kernel module */
	bool timed;	   /* there is a timer */
	timer_t timer;
	int64_t armed_ns; /* for then */
};

/* --- notation --- */

/* The bit of a line, 0 where there is none of that name. */
static int modem_bit(const struct modem_line *lines, const char *name)
{
	for (; lines->name; lines++)
		if (!strcmp(lines->name, name))
			return lines->bit;
	return 0;
}

static int modem_parse(const struct line *line, char path[SERIAL_PATH], int *output, int *input)
{
	const char *text = line->text;
	char out[8], in[8];

	if (!line_word(&text, path, SERIAL_PATH) || path[0] != '/' ||
	    !line_word(&text, out, sizeof(out)) || !line_word(&text, in, sizeof(in)) || text[0] ||
	    text[-1] == ':')
		return -EINVAL;
	*output = modem_bit(modem_outputs, out);
	*input = modem_bit(modem_inputs, in);
	return *output && *input ? 0 : -EINVAL;
}

static int modem_check(struct line *line, struct message *why)
{
	char path[SERIAL_PATH];
	int output, input;

	(void)why;
	return modem_parse(line, path, &output, &input);
}

/* --- taking and restoring the port --- */

/* Level and count of the input, as they are. 0 or -errno. */
static int modem_look(struct modem *modem, int *level, int *count)
{
	struct serial_icounter_struct counts;
	int bits;

	if (modem->counts && !ioctl(modem->port.fd, TIOCGICOUNT, &counts))
		*count = modem->input == TIOCM_CTS ? counts.cts :
			 modem->input == TIOCM_DSR ? counts.dsr :
						     counts.dcd;
	else
		modem->counts = false;
	if (ioctl(modem->port.fd, TIOCMGET, &bits))
		return -errno;
	*level = (bits & modem->input) != 0;
	return 0;
}

static int modem_drive(struct line *line, int level)
{
	const struct modem *modem = line->state;
	bool high = (level != 0) != line->how.active_low;

	return ioctl(modem->port.fd, high ? TIOCMBIS : TIOCMBIC, &modem->output) ? -errno : 0;
}

static int modem_open(struct line *line, struct message *why)
{
	struct modem *modem = calloc(1, sizeof(*modem));
	char path[SERIAL_PATH];
	int err;

	if (!modem)
		return message_set(why, -ENOMEM, "free some memory", "out of memory");
	line->state = modem;
	modem->found = -1;
	modem->port.fd = -1;
	modem_parse(line, path, &modem->output, &modem->input);
	err = serial_port_open(&modem->port, path, why);
	if (err)
		return err;
	if (ioctl(modem->port.fd, TIOCMGET, &modem->found)) {
		modem->found = -1;
		return message_set(
			why, -EINVAL, "name a port that has them, or use its bytes: serial:DEVICE",
			"the serial port %s has no modem-control lines: %s", path, strerror(errno));
	}
	err = modem_drive(line, 0);
	if (err)
		return serial_refused(path, -err, why);
	modem->counts = true;
	err = modem_look(modem, &modem->level, &modem->count);
	return err ? serial_refused(path, -err, why) : 0;
}

/* --- for the kernel module --- */

static int modem_wanted(const struct line *line, const char *context, struct message *why)
{
	char path[SERIAL_PATH];
	int output, input;

	modem_parse(line, path, &output, &input);
	if (input != TIOCM_CAR)
		return message_set(
			why, -EINVAL,
			"read dcd, which the kernel reports in the handler: "
			"--line serial:DEVICE:rts:dcd or dtr:dcd. Or choose "
			"--context user",
			"the kernel contexts answer only to changes of dcd on a serial port");
	if (!strcmp(context, "threaded"))
		return message_set(why, -EINVAL,
				   "choose --context irq, kernel, softirq, workqueue or user",
				   "the interrupt of a serial port belongs to its driver: the "
				   "kernel module has no threaded handler there");
	if (line->how.debounce_ns)
		return message_set(why, -EINVAL, "omit --debounce, or choose --context user",
				   "a serial port cannot debounce its lines");
	return 0;
}

/* The kernel's name of the open port: ttyS0. 0 or -errno. */
static int modem_name(const struct modem *modem, char name[64])
{
	char path[64], target[256];
	const char *start;
	struct stat port;
	ssize_t size;

	if (fstat(modem->port.fd, &port))
		return -errno;
	snprintf(path, sizeof(path), "/sys/dev/char/%u:%u", major(port.st_rdev),
		 minor(port.st_rdev));
	size = readlink(path, target, sizeof(target) - 1);
	if (size < 0)
		return -errno;
	target[size] = '\0';
	start = strrchr(target, '/') ? strrchr(target, '/') + 1 : target;
	if (strlen(start) >= sizeof(((struct rtgauge_setup *)NULL)->gpio_chip))
		return -ENAMETOOLONG;
	snprintf(name, 64, "%.63s", start);
	return 0;
}

static int modem_not_given(const char *path, int err, struct message *why)
{
	const char *remedy = "see dmesg for the port's messages";

	if (err == EOPNOTSUPP)
		return message_set(
			why, -EINVAL,
			"name a port of the machine itself, such as /dev/ttyS0 or "
			"/dev/ttyAMA0, or choose --context user",
			"the kernel contexts cannot answer on %s: its driver, like "
			"the drivers of USB adapters, does not use the kernel's serial_core",
			path);
	if (err == EINVAL)
		return message_set(why, -ENODEV, "choose --context user",
				   "the kernel module rtgauge does not support serial ports on "
				   "this kernel");
	if (err == EBUSY)
		remedy = "end the program that uses it (fuser names it)";
	else if (err == EPERM)
		remedy = "run as root";
	return message_set(why, -err, remedy,
			   "cannot give the serial port %s to the kernel module: %s", path,
			   strerror(err));
}

static int modem_give(struct line *line, struct message *why)
{
	struct modem *modem = line->state;
	const int discipline = RTGAUGE_LINE_DISCIPLINE;
	char path[SERIAL_PATH];
	int output, input, err;

	modem_parse(line, path, &output, &input);
	err = modem_name(modem, line->pins.label);
	if (!err && ioctl(modem->port.fd, TIOCSETD, &discipline))
		err = -errno;
	if (err)
		return modem_not_given(path, -err, why);
	modem->given = true;
	line->pins.output = (uint32_t)output;
	line->pins.input = (uint32_t)input;
	return 0;
}

static void modem_take_back(struct modem *modem)
{
	const int discipline = N_TTY;

	if (modem->given)
		ioctl(modem->port.fd, TIOCSETD, &discipline);
	modem->given = false;
}

static void modem_close(struct line *line)
{
	struct modem *modem = line->state;

	/* first: the attributes of the port can be set with its usual line discipline alone */
	modem_take_back(modem);

	if (modem->timed)
		timer_delete(modem->timer);
	if (modem->found >= 0)
		ioctl(modem->port.fd, modem->found & modem->output ? TIOCMBIS : TIOCMBIC,
		      &modem->output);
	serial_port_close(&modem->port);
	free(modem);
}

/* --- edges --- */

/* Have this thread's wait ended at @until_ns, and every MODEM_AGAIN_NS from there on. 0 or -errno. */
static int modem_limit(struct modem *modem, int64_t until_ns)
{
	struct itimerspec when = { .it_interval = clock_from_ns(MODEM_AGAIN_NS),
				   .it_value = clock_from_ns(until_ns > 0 ? until_ns : 1) };

	if (modem->timed && modem->armed_ns == until_ns)
		return 0;
	if (!modem->timed) {
		struct sigevent event;

		memset(&event, 0, sizeof(event));
		event.sigev_notify = SIGEV_THREAD_ID;
		event.sigev_signo = SIGNAL_WAKE;
		event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
		if (timer_create(CLOCK_MONOTONIC, &event, &modem->timer))
			return -errno;
		modem->timed = true;
	}
	modem->armed_ns = until_ns;
	return timer_settime(modem->timer, TIMER_ABSTIME, &when, NULL) ? -errno : 0;
}

/* Reads again if the level does not agree with the number of changes: the line changed between the
 * two readings, or the driver counted two changes as one. */
static int modem_look_twice(struct modem *modem, int *level, int *count)
{
	int err = modem_look(modem, level, count);
	bool odd = (*count ^ modem->count) & 1;

	if (!err && modem->counts && odd != (*level != modem->level))
		err = modem_look(modem, level, count);
	return err;
}

/* Changes since the last call: 1, 0 or -errno. */
static int modem_changed(struct line *line, struct line_event *event)
{
	struct modem *modem = line->state;
	int level = modem->level, count = modem->count;
	int err = modem_look_twice(modem, &level, &count);
	uint32_t edges = (uint32_t)count - (uint32_t)modem->count;

	if (err)
		return err;
	if (!edges && level == modem->level)
		return 0;
	modem->level = level;
	modem->count = count;
	/* a pulse that is over already was an event, too */
	event->level = (level != 0) != line->how.active_low;
	edges = serial_modem_events(line->how.edge, edges ? edges : 1, event->level);
	if (!edges)
		return 0;
	event->lost = edges - 1;
	if (line->how.edge != LINE_BOTH)
		event->level = line->how.edge == LINE_RISING;
	return 1;
}

static int modem_wait(struct line *line, int64_t until_ns, struct line_event *event)
{
	struct modem *modem = line->state;
	int got;

	*event = (struct line_event){ .seen_ns = clock_now_ns(CLOCK_MONOTONIC) };
	got = modem_changed(line, event);
	if (got || event->seen_ns >= until_ns)
		return got;
	if (until_ns != LINE_FOREVER) {
		got = modem_limit(modem, until_ns);
		if (got)
			return got;
	}
	got = ioctl(modem->port.fd, TIOCMIWAIT, modem->input) ? -errno : 0;
	event->seen_ns = clock_now_ns(CLOCK_MONOTONIC);
	/* no event, or a stop: the caller knows */
	if (got)
		return got == -EINTR && event->seen_ns >= until_ns ? 0 : got;
	return modem_changed(line, event);
}

const struct line_kind line_serial_modem = {
	.name = "serial-modem",
	.notation = "DEVICE:OUT:IN",
	.parse = modem_check,
	.open = modem_open,
	.wait = modem_wait,
	.drive = modem_drive,
	.module_source = RTGAUGE_SOURCE_SERIAL,
	.wanted = modem_wanted,
	.give = modem_give,
	.close = modem_close,
};
