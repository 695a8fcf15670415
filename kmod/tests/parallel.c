// SPDX-License-Identifier: GPL-2.0-only
/*
 * A parallel port in the hands of the module, tried in a guest with the ports of laplink.c: parport0
 * and parport1 are joined, parport2 has no interrupt, and the lines of parport3 cannot be driven in
 * its handler. Run as root, with ppdev.
 *
 *	parallel calls			valid and invalid requests, and how sessions end
 *	parallel killed COUNT		processes that are killed with the port in use
 *	parallel unplugged		a port that is removed while a session uses it
 *
 * Writes TAP. Exit status 0: all held.
 */
#define _GNU_SOURCE
#include <linux/parport.h>
#include <linux/ppdev.h>

#include "ports.h"

#define LEVEL 0x02
#define PULSE 0x08

static struct rtgauge_setup setup_of(uint32_t contexts)
{
	return (struct rtgauge_setup){
		.kind = RTGAUGE_KIND_RESPONSE,
		.source = RTGAUGE_SOURCE_PARALLEL,
		.contexts = contexts,
		.flags = BOTH,
		.room = 4096,
		.gpio_chip = "parport0",
		.gpio_output = RTGAUGE_PARALLEL_OUTPUT,
		.gpio_input = RTGAUGE_PARALLEL_INPUT,
	};
}

/* --- the other port, by ppdev --- */

static int far_port(void)
{
	int fd = open("/dev/parport1", O_RDWR | O_CLOEXEC);

	if (fd < 0 || ioctl(fd, PPCLAIM)) {
		perror("/dev/parport1");
		exit(1);
	}
	return fd;
}

static void drive(int far, bool high)
{
	const struct timespec settled = { 0, 2 * MS };
	unsigned char rest = high ? LEVEL : 0, pulse = rest | PULSE;

	ioctl(far, PPWDATA, &pulse);
	ioctl(far, PPWDATA, &rest);
	nanosleep(&settled, NULL);
}

static bool is_high(int far)
{
	unsigned char status = 0;

	ioctl(far, PPRSTATUS, &status);
	return status & PARPORT_STATUS_SELECT;
}

/* Pulses that came since the last call. */
static int pulses(int far)
{
	int count = 0;

	return ioctl(far, PPCLRIRQ, &count) ? -1 : count;
}

/* --- calls --- */

static void calls_refused(void)
{
	int fd = session(), near = open("/dev/parport0", O_RDWR | O_CLOEXEC);
	struct rtgauge_setup setup;

#define REFUSED(change, err, what)                                         \
	do {                                                               \
		setup = setup_of(RTGAUGE_CONTEXT_IRQ);                     \
		change;                                                    \
		CHECK(fails(ioctl(fd, RTGAUGE_SETUP, &setup), err), what); \
	} while (0)
	REFUSED(strcpy(setup.gpio_chip, "parport9"), ENODEV, "another port: ENODEV");
	REFUSED(strcpy(setup.gpio_chip, "parport2"), EOPNOTSUPP, "no interrupt: EOPNOTSUPP");
	REFUSED(strcpy(setup.gpio_chip, "parport3"), EOPNOTSUPP,
		"lines that cannot be driven in a handler: EOPNOTSUPP");
	REFUSED(setup.gpio_input = 11, EOPNOTSUPP, "another input: EOPNOTSUPP");
	REFUSED(setup.gpio_output = 2, EOPNOTSUPP, "another output: EOPNOTSUPP");
	REFUSED(setup.gpio_output = setup.gpio_input, EINVAL, "one line for both: EINVAL");
	REFUSED(setup.gpio_chip[0] = '\0', EINVAL, "no name: EINVAL");
	REFUSED(memset(setup.gpio_chip, 'x', sizeof(setup.gpio_chip)), EINVAL,
		"a name without an end: EINVAL");
	REFUSED(setup.debounce_us = 10, EOPNOTSUPP, "a debounce: EOPNOTSUPP");
	REFUSED(setup.contexts = RTGAUGE_CONTEXT_THREADED, EOPNOTSUPP, "threaded: EOPNOTSUPP");
	REFUSED(setup.contexts = RTGAUGE_CONTEXT_USER, EINVAL, "the user's context: EINVAL");
	REFUSED(setup.kind = RTGAUGE_KIND_TIMER, EINVAL, "a timer: EINVAL");
	REFUSED(setup.interval_ns = MS, EINVAL, "an interval: EINVAL");
	REFUSED(setup.source = RTGAUGE_SOURCE_EXTERNAL, ENODEV, "as a chip: ENODEV");
	CHECK(!ioctl(near, PPCLAIM), "ppdev has the port");
	REFUSED((void)0, EBUSY, "a port that another driver has: EBUSY");
	close(near);
	setup = setup_of(RTGAUGE_CONTEXT_IRQ);
	CHECK(!ioctl(fd, RTGAUGE_SETUP, &setup), "free again");
	near = open("/dev/parport0", O_RDWR | O_CLOEXEC);
	CHECK(fails(ioctl(near, PPCLAIM), ENXIO), "ppdev cannot have it now");
	close(near);
	CHECK(unload_refused("rtgauge_parport") && unload_refused("rtgauge") &&
		      unload_refused("laplink"),
	      "no module can be removed while a session has a port");
	close(fd);
}

/* One edge after the other, with the answer on the other port. */
static void calls_answer(int far, uint32_t context, const char *name)
{
	struct rtgauge_setup setup = setup_of(context), again = setup;
	struct rtgauge_start start = { 0 };
	struct rtgauge_status status = { 0 };
	int fd = session(), more = session(), right = 0;

	drive(far, false);
	CHECK(!ioctl(fd, RTGAUGE_SETUP, &setup), name);
	CHECK(fails(ioctl(more, RTGAUGE_SETUP, &again), EBUSY), "for one session alone: EBUSY");
	drive(far, true);
	drive(far, false);
	CHECK(!ioctl(fd, RTGAUGE_STATUS, &status) && !status.events, "no event before START");
	pulses(far);
	CHECK(!ioctl(fd, RTGAUGE_START, &start), "START");
	CHECK(!is_high(far) && !pulses(far), "the output is low, without a pulse");
	for (int i = 0; i < 20; i++) {
		drive(far, i % 2 == 0);
		right += pulses(far) == 1 && is_high(far) == (i % 2 == 0);
	}
	CHECK(right == 20, "each edge has one answer with its level");
	CHECK(!ioctl(fd, RTGAUGE_STATUS, &status) && status.events == 20 && !status.missed &&
		      !status.lost && !status.stray,
	      "20 edges, 20 events");
	drive(far, false);
	CHECK(!ioctl(fd, RTGAUGE_STATUS, &status) && status.events == 21 && status.missed == 1,
	      "the same level again: an edge was missed");
	CHECK(!ioctl(fd, RTGAUGE_STOP), "stopped");
	pulses(far);
	drive(far, true);
	CHECK(!ioctl(fd, RTGAUGE_STATUS, &status) && status.events == 21 && !pulses(far),
	      "no event after STOP");
	again = setup_of(context);
	CHECK(!ioctl(more, RTGAUGE_SETUP, &again), "free again");
	close(more);
	close(fd);
}

static void calls_storm(int far)
{
	int fd = session();

	storm(fd, setup_of(RTGAUGE_CONTEXT_IRQ), far);
	close(fd);
}

static void calls(void)
{
	int far = far_port();

	calls_refused();
	calls_answer(far, RTGAUGE_CONTEXT_IRQ, "SETUP: the handler answers");
	calls_answer(far, RTGAUGE_CONTEXT_KERNEL, "SETUP: a thread answers");
	calls_answer(far, RTGAUGE_CONTEXT_SOFTIRQ, "SETUP: a tasklet answers");
	calls_answer(far, RTGAUGE_CONTEXT_WORKQUEUE, "SETUP: a work item answers");
	calls_storm(far);
	close(far);
}

/* --- killed --- */

static void killed(int count)
{
	int far = far_port(), good = 0;

	for (int i = 0; i < count; i++) {
		int ready, near;
		pid_t pid = fork_with_pipe(&ready);

		if (!pid)
			answer_until_killed(
				session(),
				setup_of(i % 2 ? RTGAUGE_CONTEXT_IRQ : RTGAUGE_CONTEXT_KERNEL),
				ready);
		good += kill_answering(pid, ready, far, i % 4 < 2);
		near = open("/dev/parport0", O_RDWR | O_CLOEXEC);
		good += !ioctl(near, PPEXCL) && !ioctl(near, PPCLAIM);
		close(near);
	}
	CHECK(good == 3 * count, "killed with the port in use, which ppdev then has for itself");
	close(far);
	CHECK(remove_module("rtgauge_parport") && remove_module("rtgauge"),
	      "the modules can be removed");
}

/* --- unplugged --- */

static void unplugged(void)
{
	struct rtgauge_setup setup = setup_of(RTGAUGE_CONTEXT_KERNEL);
	struct rtgauge_start start = { 0 };
	struct rtgauge_status status = { 0 };
	int fd = session(), more = session();
	int unplug = open("/sys/module/laplink/parameters/unplug", O_WRONLY | O_CLOEXEC);

	CHECK(!ioctl(fd, RTGAUGE_SETUP, &setup) && !ioctl(fd, RTGAUGE_START, &start), "a session");
	CHECK(write(unplug, "0", 1) == 1, "its port is removed");
	CHECK(!ioctl(fd, RTGAUGE_STATUS, &status) && status.state == RTGAUGE_STATE_FAILED &&
		      status.failure == RTGAUGE_FAILURE_SOURCE,
	      "which ends it");
	setup = setup_of(RTGAUGE_CONTEXT_KERNEL);
	CHECK(fails(ioctl(more, RTGAUGE_SETUP, &setup), ENODEV), "the port is gone: ENODEV");
	CHECK(remove_module("rtgauge_parport"), "its session does not keep the module any more");
	close(unplug);
	close(more);
	close(fd);
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "calls"))
		calls();
	else if (argc == 3 && !strcmp(argv[1], "killed"))
		killed(atoi(argv[2]));
	else if (argc == 2 && !strcmp(argv[1], "unplugged"))
		unplugged();
	else
		return 2;
	printf("1..%d\n", tests);
	return failures != 0;
}
