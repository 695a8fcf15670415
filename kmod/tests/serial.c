// SPDX-License-Identifier: GPL-2.0-only
/*
 * A serial port in the hands of the module, tried in a guest whose ports TTY and OTHER are joined by
 * a null-modem cable (nullmodem.c): DTR of one is DCD of the other. Run as root.
 *
 *	serial calls TTY OTHER		what is asked for rightly and wrongly, and how it ends
 *	serial killed TTY OTHER COUNT	processes that are killed with the port in use
 *
 * Writes TAP. Exit status 0: all held.
 */
#define _GNU_SOURCE
#include <sys/mount.h>
#include <sys/stat.h>
#include <termios.h>

#include "ports.h"

static int port(const char *path)
{
	return open(path, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
}

static int discipline_of(int tty)
{
	int discipline = -1;

	return ioctl(tty, TIOCGETD, &discipline) ? -1 : discipline;
}

static int set_discipline(int tty, int discipline)
{
	return ioctl(tty, TIOCSETD, &discipline);
}

static int give(int tty)
{
	return set_discipline(tty, RTGAUGE_LINE_DISCIPLINE);
}

static struct rtgauge_setup setup_of(const char *path, uint32_t contexts)
{
	struct rtgauge_setup setup = {
		.kind = RTGAUGE_KIND_RESPONSE,
		.source = RTGAUGE_SOURCE_SERIAL,
		.contexts = contexts,
		.flags = BOTH,
		.room = 4096,
		.gpio_output = TIOCM_DTR,
		.gpio_input = TIOCM_CAR,
	};

	snprintf(setup.gpio_chip, sizeof(setup.gpio_chip), "%s", strrchr(path, '/') + 1);
	return setup;
}

static int lines_of(int tty)
{
	int bits = 0;

	return ioctl(tty, TIOCMGET, &bits) ? -1 : bits;
}

static void drive(int tty, bool high)
{
	const int line = TIOCM_DTR;
	const struct timespec settled = { 0, 2 * MS };

	ioctl(tty, high ? TIOCMBIS : TIOCMBIC, &line);
	nanosleep(&settled, NULL);
}

/* As an agent has it: CLOCAL, so that a DCD that falls does not hang up. */
static void make_local(int tty)
{
	struct termios raw;

	if (tcgetattr(tty, &raw))
		return;
	cfmakeraw(&raw);
	raw.c_cflag |= CLOCAL | CREAD;
	tcsetattr(tty, TCSANOW, &raw);
}

/* --- calls --- */

static void calls_give(const char *path)
{
	int tty = port(path), more, master, status = 0;
	pid_t pid;

	CHECK(tty >= 0 && !discipline_of(tty), "a port has the usual line discipline");
	more = port(path);
	CHECK(fails(give(tty), EBUSY), "a port that is open twice: EBUSY");
	close(more);
	CHECK(!discipline_of(tty), "which leaves it the usual one");
	pid = fork();
	if (!pid)
		_exit(setuid(65534) || !fails(give(tty), EPERM));
	waitpid(pid, &status, 0);
	CHECK(!status, "without privilege: EPERM");
	mkdir("/dev/pts", 0755);
	mount("devpts", "/dev/pts", "devpts", 0, "ptmxmode=0666");
	master = open("/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	CHECK(master >= 0 && fails(give(master), EOPNOTSUPP), "a pseudo terminal: EOPNOTSUPP");
	CHECK(!discipline_of(master), "which keeps its line discipline");
	close(master);
	umount("/dev/pts");
	CHECK(!give(tty) && discipline_of(tty) == RTGAUGE_LINE_DISCIPLINE, "given");
	CHECK(unload_refused("rtgauge"), "the module stays while it has a port");
	CHECK(write(tty, "1", 1) < 0, "no byte can be written");
	CHECK(!set_discipline(tty, N_TTY) && !discipline_of(tty), "taken back");
	CHECK(!give(tty), "given again");
	close(tty);
	tty = port(path);
	CHECK(tty >= 0 && !discipline_of(tty), "closed and opened again: the usual one");
	close(tty);
}

static void calls_refused(const char *path, const char *other)
{
	int fd = session(), tty = port(path);
	struct rtgauge_setup setup = setup_of(path, 1);

	CHECK(fails(ioctl(fd, RTGAUGE_SETUP, &setup), ENODEV), "a port that was not given: ENODEV");
	CHECK(!give(tty), "given");
#define REFUSED(change, err, what)                                         \
	do {                                                               \
		setup = setup_of(path, 1);                                 \
		change;                                                    \
		CHECK(fails(ioctl(fd, RTGAUGE_SETUP, &setup), err), what); \
	} while (0)
	REFUSED(setup = setup_of(other, 1), ENODEV, "another port: ENODEV");
	REFUSED(setup.gpio_input = TIOCM_CTS, EOPNOTSUPP, "CTS: EOPNOTSUPP");
	REFUSED(setup.gpio_input = TIOCM_DSR, EOPNOTSUPP, "DSR: EOPNOTSUPP");
	REFUSED(setup.gpio_input = 0, EOPNOTSUPP, "no input: EOPNOTSUPP");
	REFUSED(setup.gpio_output = TIOCM_CTS, EINVAL, "an input to be driven: EINVAL");
	REFUSED(setup.gpio_output = TIOCM_RTS | TIOCM_DTR, EINVAL,
		"two lines to be driven: EINVAL");
	REFUSED(setup.gpio_chip[0] = '\0', EINVAL, "no name: EINVAL");
	REFUSED(memset(setup.gpio_chip, 'x', sizeof(setup.gpio_chip)), EINVAL,
		"a name without an end: EINVAL");
	REFUSED(setup.debounce_us = 10, EOPNOTSUPP, "a debounce: EOPNOTSUPP");
	REFUSED(setup.contexts = RTGAUGE_CONTEXT_THREADED, EOPNOTSUPP, "threaded: EOPNOTSUPP");
	REFUSED(setup.contexts = RTGAUGE_CONTEXT_USER, EINVAL, "the user's context: EINVAL");
	REFUSED(setup.kind = RTGAUGE_KIND_TIMER, EINVAL, "a timer: EINVAL");
	REFUSED(setup.interval_ns = MS, EINVAL, "an interval: EINVAL");
	REFUSED(setup.source = RTGAUGE_SOURCE_EXTERNAL, ENODEV, "as a chip: ENODEV");
	close(tty);
	REFUSED((void)0, ENODEV, "closed: ENODEV");
	close(fd);
}

/* One edge after the other, with the answer on the other port's DCD. */
static void calls_answer(const char *path, const char *other, uint32_t context, const char *name)
{
	struct rtgauge_setup setup = setup_of(path, context), again = setup;
	struct rtgauge_start start = { 0 };
	struct rtgauge_status status = { 0 };
	int tty = port(path), far = port(other), fd = session(), more = session(), right = 0;

	make_local(tty);
	make_local(far);
	drive(far, false);
	CHECK(!give(tty) && !ioctl(fd, RTGAUGE_SETUP, &setup), name);
	CHECK(fails(ioctl(more, RTGAUGE_SETUP, &again), EBUSY), "for one session alone: EBUSY");
	CHECK(!(lines_of(far) & TIOCM_CAR), "the output is low");
	drive(far, true);
	drive(far, false);
	CHECK(!ioctl(fd, RTGAUGE_STATUS, &status) && !status.events, "no event before START");
	CHECK(!ioctl(fd, RTGAUGE_START, &start), "START");
	for (int i = 0; i < 20; i++) {
		drive(far, i % 2 == 0);
		right += !(lines_of(far) & TIOCM_CAR) == (i % 2 != 0);
	}
	CHECK(right == 20, "the output follows the input");
	CHECK(!ioctl(fd, RTGAUGE_STATUS, &status) && status.events == 20 && !status.missed &&
		      !status.lost && !status.stray,
	      "20 edges, 20 events");
	CHECK(!ioctl(fd, RTGAUGE_STOP) && unload_refused("rtgauge"),
	      "stopped, while the module still has the port");
	drive(far, true);
	CHECK(!ioctl(fd, RTGAUGE_STATUS, &status) && status.events == 20, "no event after STOP");
	CHECK(!ioctl(more, RTGAUGE_SETUP, &again), "free again");
	start = (struct rtgauge_start){ 0 };
	CHECK(!ioctl(more, RTGAUGE_START, &start), "and started");
	CHECK(!set_discipline(tty, N_TTY) && !ioctl(more, RTGAUGE_STATUS, &status) &&
		      status.state == RTGAUGE_STATE_FAILED &&
		      status.failure == RTGAUGE_FAILURE_SOURCE,
	      "a port that is taken back under a session ends it");
	drive(far, false);
	CHECK(!ioctl(more, RTGAUGE_STATUS, &status) && !status.events, "without an event");
	close(more);
	close(fd);
	close(tty);
	close(far);
}

static void calls_storm(const char *path, const char *other)
{
	int tty = port(path), far = port(other), fd = session();

	make_local(tty);
	make_local(far);
	drive(far, false);
	CHECK(!give(tty), "the module has the port");
	storm(fd, setup_of(path, RTGAUGE_CONTEXT_IRQ), far);
	close(fd);
	close(tty);
	close(far);
}

static void calls(const char *path, const char *other)
{
	calls_give(path);
	calls_refused(path, other);
	calls_answer(path, other, RTGAUGE_CONTEXT_IRQ, "SETUP: the handler answers");
	calls_answer(path, other, RTGAUGE_CONTEXT_KERNEL, "SETUP: a thread answers");
	calls_answer(path, other, RTGAUGE_CONTEXT_SOFTIRQ, "SETUP: a tasklet answers");
	calls_answer(path, other, RTGAUGE_CONTEXT_WORKQUEUE, "SETUP: a work item answers");
	calls_storm(path, other);
}

/* --- killed --- */

static void answer(const char *path, uint32_t contexts, int ready)
{
	int fd = -1, tty;

	/* either file may be closed first */
	if (contexts & RTGAUGE_CONTEXT_IRQ)
		fd = session();
	tty = port(path);
	make_local(tty);
	if (fd < 0)
		fd = session();
	if (give(tty))
		_exit(1);
	answer_until_killed(fd, setup_of(path, contexts), ready);
}

static void killed(const char *path, const char *other, int count)
{
	int far = port(other), good = 0;

	make_local(far);
	for (int i = 0; i < count; i++) {
		int ready, tty;
		pid_t pid = fork_with_pipe(&ready);

		if (!pid)
			answer(path, i % 2 ? RTGAUGE_CONTEXT_IRQ : RTGAUGE_CONTEXT_KERNEL, ready);
		good += kill_answering(pid, ready, far, i % 4 < 2);
		tty = port(path);
		good += tty >= 0 && !discipline_of(tty);
		close(tty);
	}
	CHECK(good == 3 * count,
	      "killed with the port in use, which then has the usual discipline");
	close(far);
	CHECK(remove_module("rtgauge"), "the module can be removed");
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "calls"))
		calls(argv[2], argv[3]);
	else if (argc == 5 && !strcmp(argv[1], "killed"))
		killed(argv[2], argv[3], atoi(argv[4]));
	else
		return 2;
	printf("1..%d\n", tests);
	return failures != 0;
}
