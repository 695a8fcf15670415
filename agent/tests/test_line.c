// SPDX-License-Identifier: Apache-2.0
/* Tests of line.c and lines/: notations, both ends of a net line on loopback. Prints TAP. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "lines/gpio_sysfs.h"
#include "lines/line.h"
#include "lines/serial.h"
#include "tap.h"

#define AMPLE_NS (10 * NSEC_PER_SEC)

static int parse(const char *text, bool asks, struct message *why)
{
	struct line_how how = { .asks = asks };
	struct line line;

	memset(why, 0, sizeof(*why));
	return line_parse(&line, text, how, why);
}

static void test_notations(void)
{
	static const char *const wrong[] = {
		"7",	     "net",	    "nett:1",	       "net:",	     "net:0",
		"net:65536", "net:1.2.3:7", "net:::1:7",       "net:host:7", "net:[::1:7",
		"net::7",    "net:7x",	    "net:[1.2.3.4]:7", "net:-1",     "NET:7"
	};
	struct message why;
	bool good = true;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		good &= parse(wrong[i], false, &why) == -EINVAL && why.text[0] && why.remedy[0];
	tap_check(good, "what names no line is refused, with a remedy");
	tap_check(!parse("net:7007", false, &why) && !parse("net:127.0.0.1:7", false, &why) &&
			  !parse("net:[::1]:7", true, &why) &&
			  !parse("net:127.0.0.1:7", true, &why),
		  "net: a port, an address and a port");
	tap_check(parse("net:7007", true, &why) == -EINVAL && strstr(why.remedy, "address"),
		  "net: the asking side has to name an address");
	tap_check(parse("", false, &why) == -ENODEV && why.remedy[0],
		  "where no line is named there is nothing to be measured");
	tap_check(parse("ned:7", true, &why) == -EINVAL && strstr(why.remedy, "net"),
		  "the refusal of an unknown kind names the known ones");
}

/* A port that is free at the moment. */
static int free_port(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET,
				   .sin_addr = { .s_addr = htonl(INADDR_LOOPBACK) } };
	socklen_t size = sizeof(any);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	bind(fd, (struct sockaddr *)&any, size);
	getsockname(fd, (struct sockaddr *)&any, &size);
	close(fd);
	return ntohs(any.sin_port);
}

struct pair {
	char text[64];
	struct line board, host;
	struct message why;
};

static bool open_pair(struct pair *pair, enum line_edge edge)
{
	struct line_how how = { .edge = edge };

	memset(pair, 0, sizeof(*pair));
	snprintf(pair->text, sizeof(pair->text), "net:127.0.0.1:%d", free_port());
	if (line_parse(&pair->board, pair->text, how, &pair->why) ||
	    line_open(&pair->board, &pair->why))
		return false;
	how.asks = true;
	how.edge = LINE_BOTH;
	return !line_parse(&pair->host, pair->text, how, &pair->why) &&
	       !line_open(&pair->host, &pair->why);
}

static void close_pair(struct pair *pair)
{
	line_close(&pair->host);
	line_close(&pair->board);
}

static int64_t soon(void)
{
	return clock_now_ns(CLOCK_MONOTONIC) + AMPLE_NS;
}

static void test_net(void)
{
	struct line_event event = { 0 };
	struct pair pair;
	bool good = open_pair(&pair, LINE_BOTH);

	tap_check(good, "net: both ends open: %s", pair.why.text);
	tap_check(line_drive(&pair.board, 1) == -ENOTCONN, "no answer before a request");
	for (int level = 1; level >= 0 && good; level--) {
		int64_t before_ns = clock_now_ns(CLOCK_MONOTONIC);

		good &= !line_drive(&pair.host, level);
		good &= line_wait(&pair.board, level ? LINE_FOREVER : soon(), &event) == 1;
		good &= event.level == level && !event.stamp_ns && event.seen_ns >= before_ns;
		good &= !line_drive(&pair.board, level);
		good &= line_wait(&pair.host, soon(), &event) == 1 && event.level == level;
	}
	tap_check(good, "what one end drives the other sees, there and back");
	tap_check(line_wait(&pair.host, 0, &event) == 0, "and nothing else");
	line_drive(&pair.host, 1);
	tap_check(line_wait(&pair.board, soon(), &event) == 1 && event.level == 1,
		  "a waiting line receives an edge");
	line_drive(&pair.host, 0);
	while (line_poll(-1, 0, clock_now_ns(CLOCK_MONOTONIC) + NSEC_PER_MSEC) > 0)
		;
	tap_check(line_wait(&pair.board, 0, &event) == 1 && !event.level,
		  "what is there is given also when the time is up");
	close_pair(&pair);
}

static void test_net_edges(void)
{
	struct line_event event = { 0 };
	struct pair pair;
	bool good = open_pair(&pair, LINE_RISING);

	line_drive(&pair.host, 0);
	tap_check(good && line_wait(&pair.board, soon(), &event) == 0,
		  "an edge that is not wanted is not an event");
	line_drive(&pair.host, 1);
	tap_check(line_wait(&pair.board, soon(), &event) == 1 && event.level == 1,
		  "one that is wanted is");
	close_pair(&pair);
}

static void test_net_foreign(void)
{
	static const char *const wrong[] = { "7", "RTGL", "RTGL\2\2\0\0number of",
					     "RTGL\2\1\0\0number of.", "RTGL\1\1\0\0number of" };
	static const size_t sizes[] = { 0, 4, 16, 17, 16 };
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr = { .s_addr = htonl(INADDR_LOOPBACK) } };
	struct line_event event = { 0 };
	struct pair pair;
	bool good = open_pair(&pair, LINE_BOTH);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	int port = 0;

	sscanf(pair.text, "net:127.0.0.1:%d", &port);
	to.sin_port = htons((uint16_t)port);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		good &= sendto(fd, wrong[i], sizes[i], 0, (struct sockaddr *)&to, sizeof(to)) >= 0;
		good &= line_wait(&pair.board, soon(), &event) == 0;
	}
	tap_check(good && pair.board.foreign == 5, "foreign datagrams are counted, and no more");
	tap_check(line_drive(&pair.board, 1) == -ENOTCONN, "nor are they answered");
	close(fd);
	close_pair(&pair);
}

/* Datagrams of the right form, from somebody else than the one who asked first. */
static void test_net_stranger(void)
{
	struct line_how how = { .asks = true };
	struct line_event event = { 0 };
	struct line second;
	struct message why;
	struct pair pair;
	bool good = open_pair(&pair, LINE_BOTH);

	good &= !line_parse(&second, pair.text, how, &why) && !line_open(&second, &why);
	good &= !line_drive(&pair.host, 1) && line_wait(&pair.board, soon(), &event) == 1;
	for (int i = 0; i < 100; i++) {
		good &= !line_drive(&second, i & 1);
		good &= line_wait(&pair.board, soon(), &event) == 0;
	}
	tap_check(good && pair.board.foreign == 100, "a stranger's %lld are foreign",
		  (long long)pair.board.foreign);
	good = !line_drive(&pair.board, 1) && line_wait(&pair.host, soon(), &event) == 1 &&
	       line_wait(&second, clock_now_ns(CLOCK_MONOTONIC), &event) == 0;
	tap_check(good, "and it is not the one who is answered");
	line_close(&second);
	close_pair(&pair);
}

/* A log host that ends leaves the board to the next one. */
static void test_net_next(void)
{
	struct line_how how = { .asks = true };
	struct line_event event = { 0 };
	struct pair pair;
	bool good = open_pair(&pair, LINE_BOTH);

	good &= !line_drive(&pair.host, 1) && line_wait(&pair.board, soon(), &event) == 1;
	line_close(&pair.host);
	tap_check(good &&
			  line_wait(&pair.board, clock_now_ns(CLOCK_MONOTONIC) + NSEC_PER_SEC,
				    &event) == 0 &&
			  !pair.board.foreign,
		  "the end of a log host is not an event, and not foreign");
	tap_check(line_drive(&pair.board, 1) == -ENOTCONN, "then there is no one to answer");
	good = !line_parse(&pair.host, pair.text, how, &pair.why) &&
	       !line_open(&pair.host, &pair.why) && !line_drive(&pair.host, 1);
	tap_check(good && line_wait(&pair.board, soon(), &event) == 1 &&
			  !line_drive(&pair.board, 1) && line_wait(&pair.host, soon(), &event) == 1,
		  "the next log host is answered at once");
	close_pair(&pair);
}

/* Without an address, this machine alone may ask. */
static void test_net_loopback(void)
{
	struct sockaddr_in other = { .sin_family = AF_INET };
	struct line_how how = { 0 };
	struct line line;
	struct message why;
	char text[32];
	int port = free_port(), fd = socket(AF_INET, SOCK_DGRAM, 0);

	snprintf(text, sizeof(text), "net:%d", port);
	tap_check(!line_parse(&line, text, how, &why) && !line_open(&line, &why), "%s", text);
	/* another address with that port is free: not all of them were taken */
	inet_pton(AF_INET, "127.0.0.2", &other.sin_addr);
	other.sin_port = htons((uint16_t)port);
	tap_check(!bind(fd, (struct sockaddr *)&other, sizeof(other)),
		  "is asked at 127.0.0.1 alone");
	close(fd);
	line_close(&line);
}

static bool has_ipv6(void)
{
	const struct sockaddr_in6 own = { .sin6_family = AF_INET6,
					  .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	int fd = socket(AF_INET6, SOCK_DGRAM, 0);
	bool bound = fd >= 0 && !bind(fd, (const struct sockaddr *)&own, sizeof(own));

	if (fd >= 0)
		close(fd);
	return bound;
}

/* A line that listens on all addresses answers from the one that was asked. */
static void test_net_any(const char *any, const char *asked)
{
	struct line_how how = { .edge = LINE_BOTH };
	struct line_event event = { 0 };
	struct line board = { 0 }, host = { 0 };
	struct message why = { 0 };
	char text[64];
	int port = free_port();
	bool good;

	snprintf(text, sizeof(text), "net:%s:%d", any, port);
	good = !line_parse(&board, text, how, &why) && !line_open(&board, &why);
	how.asks = true;
	snprintf(text, sizeof(text), "net:%s:%d", asked, port);
	good &= !line_parse(&host, text, how, &why) && !line_open(&host, &why);
	good &= !line_drive(&host, 1) && line_wait(&board, soon(), &event) == 1;
	good &= !line_drive(&board, 1) && line_wait(&host, soon(), &event) == 1;
	tap_check(good && event.level == 1 && !host.foreign,
		  "%s, asked at %s, answers from there: %s", any, asked, why.text);
	line_close(&host);
	line_close(&board);
}

static void test_net_faults(void)
{
	struct line_how how = { 0 };
	struct line_event event = { 0 };
	struct line second;
	struct pair pair;
	bool good = open_pair(&pair, LINE_BOTH);

	memset(&pair.why, 0, sizeof(pair.why));
	good &= !line_parse(&second, pair.text, how, &pair.why);
	tap_check(good && line_open(&second, &pair.why) == -EADDRINUSE && pair.why.remedy[0],
		  "a port that is taken is refused: %s", pair.why.text);
	line_close(&second);
	line_close(&pair.board);
	good = true;
	for (int i = 0; i < 4; i++) {
		good &= !line_drive(&pair.host, i & 1);
		good &= line_wait(&pair.host, clock_now_ns(CLOCK_MONOTONIC) + NSEC_PER_MSEC,
				  &event) == 0;
	}
	tap_check(good && pair.host.foreign, "without a listener nothing comes, and no error");
	close_pair(&pair);
}

/* --- serial --- */

struct port {
	char text[64];
	struct line line;
	struct message why;
	int master;
};

/* One end of a pseudo terminal as a line, the other one in the test's hands. */
static bool open_port(struct port *port)
{
	struct line_how how = { 0 };

	memset(port, 0, sizeof(*port));
	port->master = posix_openpt(O_RDWR | O_NOCTTY);
	if (port->master < 0 || grantpt(port->master) || unlockpt(port->master))
		return false;
	snprintf(port->text, sizeof(port->text), "serial:%s:byte", ptsname(port->master));
	return !line_parse(&port->line, port->text, how, &port->why) &&
	       !line_open(&port->line, &port->why);
}

static void test_serial(void)
{
	struct line_event event = { 0 };
	struct port port;
	struct termios before, after;
	bool good = open_port(&port);
	char byte = 0;
	int slave;

	tap_check(good, "serial: a port opens: %s", port.why.text);
	for (int level = 1; level >= 0 && good; level--) {
		good &= write(port.master, level ? "1" : "0", 1) == 1;
		good &= line_wait(&port.line, level ? LINE_FOREVER : soon(), &event) == 1;
		good &= event.level == level && !event.stamp_ns && event.seen_ns;
		good &= !line_drive(&port.line, level) && read(port.master, &byte, 1) == 1;
		good &= byte == '0' + level;
	}
	tap_check(good, "serial: bytes go both ways, each at once");
	good = write(port.master, "x1", 2) == 2;
	tap_check(good && line_wait(&port.line, soon(), &event) == 0 &&
			  line_wait(&port.line, soon(), &event) == 1 && port.line.foreign == 1,
		  "serial: a foreign byte is counted, and no more");
	tap_check(line_wait(&port.line, 0, &event) == 0, "serial: and nothing else");
	line_close(&port.line);
	close(port.master);

	port.master = posix_openpt(O_RDWR | O_NOCTTY);
	grantpt(port.master);
	unlockpt(port.master);
	slave = open(ptsname(port.master), O_RDWR | O_NOCTTY);
	snprintf(port.text, sizeof(port.text), "serial:%s", ptsname(port.master));
	good = slave >= 0 && !tcgetattr(slave, &before);
	good &= !parse(port.text, true, &port.why);
	good &= !line_parse(&port.line, port.text, (struct line_how){ 0 }, &port.why) &&
		!line_open(&port.line, &port.why);
	good &= !tcgetattr(slave, &after) && after.c_lflag != before.c_lflag;
	line_close(&port.line);
	good &= !tcgetattr(slave, &after) && after.c_lflag == before.c_lflag &&
		after.c_iflag == before.c_iflag && after.c_cflag == before.c_cflag;
	tap_check(good, "serial: the port is restored");
	good = !line_parse(&port.line, port.text, (struct line_how){ 0 }, &port.why) &&
	       !line_open(&port.line, &port.why);
	close(slave);
	close(port.master);
	tap_check(good && line_wait(&port.line, soon(), &event) < 0,
		  "serial: one that is hung up is an error, no silence");
	line_close(&port.line);
}

static void test_serial_refused(void)
{
	static const char *const wrong[] = { "serial:",
					     "serial:ttyS0",
					     "serial:/dev/ttyS0:",
					     "serial:/dev/ttyS0:bit",
					     "serial:/dev/ttyS0:byte:1",
					     "serial:/dev/ttyS0:rts",
					     "serial:/dev/ttyS0:rts:",
					     "serial:/dev/ttyS0:cts:rts",
					     "serial:/dev/ttyS0:rts:rts",
					     "serial:ttyS0:rts:cts",
					     "serial:/dev/ttyS0:rts:cts:dsr" };
	static const char *const right[] = { "serial:/dev/ttyS0:rts:cts",
					     "serial:/dev/ttyS0:dtr:dsr",
					     "serial:/dev/ttyS0:rts:dcd" };
	struct message why;
	struct line line;
	struct port port;
	bool good = true;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		good &= parse(wrong[i], false, &why) == -EINVAL && why.remedy[0];
	tap_check(good, "serial: what names no port is refused");
	memset(&why, 0, sizeof(why));
	good = !line_parse(&line, "serial:/dev/null", (struct line_how){ 0 }, &why);
	tap_check(good && line_open(&line, &why) == -EINVAL && strstr(why.text, "/dev/null"),
		  "serial: a device that is not a port is refused: %s", why.text);
	line_close(&line);
	good = true;
	for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++)
		good &= !line_parse(&line, right[i], (struct line_how){ 0 }, &why) &&
			!strcmp(line.kind->name, "serial-modem");
	tap_check(good, "serial: modem-control lines are distinguished from bytes");
	for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
		int err = strstr(right[i], "dcd") ? 0 : -EINVAL;

		good &= !line_parse(&line, right[i], (struct line_how){ 0 }, &why) &&
			line.kind->wanted(&line, "irq", &why) == err &&
			line.kind->wanted(&line, "threaded", &why) == -EINVAL;
		line.how.debounce_ns = 1;
		good &= line.kind->wanted(&line, "kernel", &why) == -EINVAL && why.remedy[0];
	}
	tap_check(good, "serial: the kernel module answers changes of dcd alone");
	good = true;
	for (int first = 0; first < 2; first++)
		for (uint32_t edges = 1, rising = 0; edges < 9; edges++) {
			int level = ((uint32_t)first + edges) & 1;

			rising += (uint32_t)level;
			good &= serial_modem_events(LINE_RISING, edges, level) == rising;
			good &= serial_modem_events(LINE_FALLING, edges, level) == edges - rising;
			good &= serial_modem_events(LINE_BOTH, edges, level) == edges;
		}
	tap_check(good, "serial: of several changes those that are events are counted");
	memset(&why, 0, sizeof(why));
	good = open_port(&port);
	line_close(&port.line);
	snprintf(port.text, sizeof(port.text), "serial:%.40s:rts:cts", ptsname(port.master));
	good &= !line_parse(&line, port.text, (struct line_how){ 0 }, &why);
	tap_check(good && line_open(&line, &why) == -EINVAL && strstr(why.text, "no modem"),
		  "serial: a port without such lines is refused: %s", why.text);
	line_close(&line);
	close(port.master);
}

/* The line itself is tested on emulated boards: tests/lab/test_parallel.py. */
static void test_parallel_refused(void)
{
	static const char *const wrong[] = { "parallel:", "parallel:parport0",
					     "parallel:/dev/parport0:",
					     "parallel:/dev/parport0:d1" };
	struct message why;
	struct line line;
	bool good = true;
	int err;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		good &= parse(wrong[i], false, &why) == -EINVAL && why.remedy[0];
	tap_check(good, "parallel: what names no port is refused");
	good = !line_parse(&line, "parallel:/dev/parport9", (struct line_how){ 0 }, &why) &&
	       !strcmp(line.pins.label, "parport9") && !line.kind->wanted(&line, "irq", &why) &&
	       line.kind->wanted(&line, "threaded", &why) == -EINVAL;
	line.how.debounce_ns = 1;
	tap_check(good && line.kind->wanted(&line, "kernel", &why) == -EINVAL && why.remedy[0],
		  "parallel: the kernel module answers but in a threaded handler");
	memset(&why, 0, sizeof(why));
	good = !line_parse(&line, "parallel:/dev/null", (struct line_how){ 0 }, &why);
	err = good ? line_open(&line, &why) : 0;
	/* ENOSYS: user-mode emulation does not support the calls of a parallel port */
	tap_check((err == -EINVAL || err == -ENOSYS) && strstr(why.text, "/dev/null"),
		  "parallel: a device that is not a port is refused: %s", why.text);
	line_close(&line);
}

/* --- GPIO --- */

static void test_line_split(void)
{
	char chip[64], lines[3][40];

	tap_check(!line_split("9030000.pl061:0:1", 2, chip, lines) &&
			  !strcmp(chip, "9030000.pl061") && !strcmp(lines[0], "0") &&
			  !strcmp(lines[1], "1"),
		  "gpio: chip, output, input");
	tap_check(!line_split("a:b:17:led", 2, chip, lines) && !strcmp(chip, "a:b") &&
			  !strcmp(lines[1], "led") && !line_split("a:17:led:5", 3, chip, lines) &&
			  !strcmp(chip, "a") && !strcmp(lines[2], "5"),
		  "gpio: a chip's name may have colons, and MARK is a third line");
	tap_check(line_split("a:1", 2, chip, lines) && line_split(":1:2", 2, chip, lines) &&
			  line_split("a::2", 2, chip, lines) &&
			  line_split("a:1:", 2, chip, lines) && line_split("", 2, chip, lines),
		  "gpio: what is not all there is refused");
}

/* A file of the tree that stands for /sys/class/gpio. */
static void put(const char *root, const char *name, const char *text)
{
	char path[160];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (write(fd, text, strlen(text)) < 0)
		perror(path);
	close(fd);
}

static bool holds(const char *root, const char *name, const char *text)
{
	char path[160], found[64] = "";
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	fd = open(path, O_RDONLY);
	got = read(fd, found, sizeof(found) - 1);
	close(fd);
	return got >= 0 && !strncmp(found, text, strlen(text));
}

/* Plain files: what is written to them, and in which state they are left; they raise no edges. */
/* study(14) */
static void test_gpio_sysfs(void)
{
	static const char *const folders[] = { "", "/gpiochip480", "/gpio482", "/gpio481" };
	char root[] = "/tmp/rtgauge-test-XXXXXX", path[160], command[200];
	struct line_how how = { .active_low = true };
	struct line line = { .kind = &line_gpio_sysfs, .text = "old.chip:2:1", .how = how };
	struct line other = line;
	struct line_event event;
	struct message why = { 0 };
	bool good = mkdtemp(root) != NULL;

	for (size_t i = 1; i < sizeof(folders) / sizeof(folders[0]); i++) {
		snprintf(path, sizeof(path), "%s%s", root, folders[i]);
		good &= !mkdir(path, 0700);
	}
	put(root, "export", "");
	put(root, "unexport", "");
	put(root, "gpiochip480/label", "old.chip\n");
	put(root, "gpiochip480/base", "480\n");
	put(root, "gpiochip480/ngpio", "8\n");
	for (int i = 481; i <= 482; i++) {
		static const char *const files[] = { "direction", "value", "active_low", "edge" };
		static const char *const found[] = { "in\n", "0\n", "0\n", "none\n" };

		for (int f = 0; f < 4; f++) {
			snprintf(path, sizeof(path), "gpio%d/%s", i, files[f]);
			put(root, path, found[f]);
		}
	}
	good &= !gpio_sysfs_parse(&line, root) && line.pins.output == 482 && line.pins.input == 481;
	tap_check(good, "sysfs: the chip's lines in the kernel's count");
	good = !line_open(&line, &why);
	tap_check(good && holds(root, "export", "481") &&
			  holds(root, "gpio482/direction", "high") &&
			  holds(root, "gpio482/active_low", "1") &&
			  holds(root, "gpio481/direction", "in") &&
			  holds(root, "gpio481/edge", "both"),
		  "sysfs: an output at rest and an input with edges: %s", why.text);
	tap_check(!line_drive(&line, 1) && holds(root, "gpio482/value", "1") &&
			  !line_drive(&line, 0) && holds(root, "gpio482/value", "0"),
		  "sysfs: levels are driven");
	tap_check(line_wait(&line, 0, &event) == 0, "sysfs: without an edge nothing comes");
	line_close(&line);
	tap_check(holds(root, "gpio482/direction", "in") &&
			  holds(root, "gpio482/active_low", "0") &&
			  holds(root, "gpio481/edge", "none") && holds(root, "unexport", "482"),
		  "sysfs: all is restored");
	other.text = "old.chip:2:8";
	good = gpio_sysfs_parse(&other, root) == -ENOENT;
	other.text = "new.chip:2:1";
	tap_check(good && gpio_sysfs_parse(&other, root) == -ENOENT,
		  "sysfs: what is not there is not found");
	snprintf(path, sizeof(path), "%s/gpiochip488", root);
	mkdir(path, 0700);
	put(root, "gpiochip488/label", "old.chip\n");
	put(root, "gpiochip488/base", "488\n");
	put(root, "gpiochip488/ngpio", "8\n");
	tap_check(gpio_sysfs_parse(&line, root) == -ENOENT,
		  "sysfs: of two chips with one label, none is taken");
	snprintf(command, sizeof(command), "rm -r %s", root);
	if (system(command))
		perror(command);
}

int main(void)
{
	test_notations();
	test_net();
	test_net_edges();
	test_net_foreign();
	test_net_stranger();
	test_net_next();
	test_net_loopback();
	test_net_any("0.0.0.0", "127.0.0.1");
	test_net_any("0.0.0.0", "127.0.0.2");
	if (has_ipv6()) {
		test_net_any("[::]", "127.0.0.2");
		test_net_any("[::]", "[::1]");
	}
	test_net_faults();
	test_serial();
	test_serial_refused();
	test_parallel_refused();
	test_line_split();
	test_gpio_sysfs();
	return tap_end();
}
