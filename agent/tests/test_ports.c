// SPDX-License-Identifier: Apache-2.0
/* Tests of the lines of serial_modem.c and parallel.c with simulated ports. Prints TAP. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/value.h"

static int test_ioctl(int fd, unsigned long request, ...);
static int test_value_get(const char *path, char *value, int *keep);

#define ioctl test_ioctl
#define value_get test_value_get
#include "lines/parallel.c"
#include "lines/serial_modem.c"
#undef value_get
#undef ioctl

#include "tap.h"

#define FOUND 0xa5 /* on the data lines of the parallel port */

static struct {
	int level, count; /* of the serial port's input, and its changes */
	bool counts;	  /* the driver counts them */
	int changes;	  /* those between a reading of the count and one of the level */
	int readings;	  /* of the level */
	unsigned char data;
	bool unreadable;
	const char *interrupt;
} port;

static void change(void)
{
	port.level = !port.level;
	port.count += port.counts;
}

/* The requests that are simulated have a pointer. */
static int test_ioctl(int fd, unsigned long request, ...)
{
	void *value = NULL;
	va_list ap;

	va_start(ap, request);
	if (request == TIOCGICOUNT || request == TIOCMGET || request == PPRDATA ||
	    request == PPWDATA || request == PPCLRIRQ)
		value = va_arg(ap, void *);
	va_end(ap);
	switch (request) {
	case TIOCGICOUNT:
		*(struct serial_icounter_struct *)value =
			(struct serial_icounter_struct){ .cts = port.count };
		if (port.changes && port.changes--)
			change();
		return 0;
	case TIOCMGET:
		port.readings++;
		*(int *)value = port.level ? TIOCM_CTS : 0;
		return 0;
	case PPRDATA:
		errno = EIO;
		if (port.unreadable)
			return -1;
		*(unsigned char *)value = port.data;
		return 0;
	case PPWDATA:
		port.data = *(unsigned char *)value;
		return 0;
	case PPCLRIRQ:
		*(int *)value = 0;
		return 0;
	default:
		return 0;
	}
}

static int test_value_get(const char *path, char *value, int *keep)
{
	strcpy(value, port.interrupt);
	return 0;
}

/* Number of events, and those lost, that the next looks give; -1: one with another level. */
static int events(struct line *line, int level)
{
	int count = 0;

	for (int look = 0; look < 3; look++) {
		struct line_event event = { 0 };

		if (modem_changed(line, &event) != 1)
			continue;
		if (event.level != level)
			return -1;
		count += 1 + (int)event.lost;
	}
	return count;
}

static void test_serial(bool counts)
{
	struct modem modem = { .input = TIOCM_CTS, .counts = true };
	struct line line = { .state = &modem };
	struct line_event event;

	memset(&port, 0, sizeof(port));
	port.counts = counts;
	change();
	tap_check(events(&line, 1) == 1, "a change is one event");
	port.changes = 1;
	tap_check(events(&line, 0) == 1, "also between the readings of count and level");
	change();
	port.changes = 1;
	tap_check(events(&line, 0) == (counts ? 2 : 0), "two, the second one between them");
	port.count += counts;
	tap_check(events(&line, 0) == counts, "a pulse that the driver counts once");
	change();
	tap_check(events(&line, 1) == 1, "and the change after it");
	port.changes = 1000;
	port.readings = 0;
	modem_changed(&line, &event);
	tap_check(port.readings <= 2, "a line that changes all the time is not awaited: %d",
		  port.readings);
	modem = (struct modem){ .input = TIOCM_CTS, .level = !port.level };
	port.readings = 0;
	tap_check(modem_changed(&line, &event) == 1 && port.readings == 1,
		  "one look is enough without a count");
}

static void test_parallel(void)
{
	struct line line;
	struct message why = { 0 };
	bool parsed;

	memset(&port, 0, sizeof(port));
	port.data = FOUND;
	port.interrupt = "7";
	parsed = !line_parse(&line, "parallel:/dev/null", (struct line_how){ 0 }, &why);
	tap_check(parsed && !line_open(&line, &why) && port.data == 0, "a line at rest");
	line_close(&line);
	tap_check(port.data == FOUND, "its port has the data that it had");
	port.interrupt = "-1";
	tap_check(line_open(&line, &why) == -EINVAL, "a port without an interrupt: %s", why.text);
	line_close(&line);
	tap_check(port.data == FOUND, "it keeps its data");
	port.interrupt = "7";
	port.unreadable = true;
	memset(&why, 0, sizeof(why));
	tap_check(line_open(&line, &why) == -EIO, "a port that cannot be read: %s", why.text);
	line_close(&line);
	tap_check(port.data == FOUND, "it keeps its data, too");
}

int main(void)
{
	test_serial(true);
	test_serial(false);
	test_parallel();
	return tap_end();
}
