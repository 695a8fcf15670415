// SPDX-License-Identifier: GPL-2.0-only
/*
 * Edges from outside and their answers, tried in a guest whose lines 0 and 1 are wired, and 2 and
 * 3: this program drives 0 and hears 3 through the character device, the module hears 1 and drives
 * 2. Run as root.
 *
 *	response answers irq|kernel EVENTS INTERVAL_US [DELAY_US EVERY [sleep]]
 *	response calls			what is asked for rightly and wrongly, and how it ends
 *	response storm			two sessions that answer each other without an end
 *	response killed COUNT		processes that are killed with lines in use
 *	response reload FILE COUNT	the module loaded and removed while edges come
 *	response offline CPU		a CPU goes offline under a session
 *	response refused CHIP...	unavailable lines, of chips made for it
 *
 * "answers" writes its counts as one JSON object, the others TAP. Exit status 0: all held.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "lines.h"

#define CHIP "9030000.pl061"

static void sleep_until(uint64_t due_ns)
{
	struct timespec due = { .tv_sec = (time_t)(due_ns / 1000000000u),
				.tv_nsec = (long)(due_ns % 1000000000u) };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
}

static void run_at(pid_t pid, int priority)
{
	struct sched_param fifo = { .sched_priority = priority };

	/* not by the C library: musl refuses it, as POSIX means the process */
	if (syscall(SYS_sched_setscheduler, pid, SCHED_FIFO, &fifo)) {
		perror("sched_setscheduler");
		exit(1);
	}
}

/* --- the character device --- */

static int input_line(unsigned int line)
{
	return line_of_chip(line, GPIO_V2_LINE_FLAG_INPUT | GPIO_V2_LINE_FLAG_EDGE_RISING |
					  GPIO_V2_LINE_FLAG_EDGE_FALLING);
}

static bool level(int line)
{
	struct gpio_v2_line_values values = { .mask = 1 };

	if (ioctl(line, GPIO_V2_LINE_GET_VALUES_IOCTL, &values)) {
		perror("GPIO_V2_LINE_GET_VALUES_IOCTL");
		exit(1);
	}
	return values.bits & 1;
}

/* What the line is, without asking for it. */
static uint64_t line_flags(unsigned int line)
{
	struct gpio_v2_line_info info = { .offset = line };
	int chip = open("/dev/gpiochip0", O_RDWR | O_CLOEXEC);

	if (chip < 0 || ioctl(chip, GPIO_V2_GET_LINEINFO_IOCTL, &info)) {
		perror("GPIO_V2_GET_LINEINFO_IOCTL");
		exit(1);
	}
	close(chip);
	return info.flags;
}

/* --- the module --- */

static struct rtgauge_setup response_setup(unsigned int context, uint64_t events)
{
	return (struct rtgauge_setup){
		.kind = RTGAUGE_KIND_RESPONSE,
		.contexts = context,
		.flags = BOTH,
		.room = RTGAUGE_ROOM_MAX,
		.events = events,
		.gpio_chip = CHIP,
		.gpio_output = 2,
		.gpio_input = 1,
	};
}

/* By the agent's words. */
static unsigned int context_of(const char *name)
{
	static const char *const names[] = { "irq",	"kernel",    "user",
					     "softirq", "workqueue", "threaded" };

	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name, names[i]))
			return 1U << i;
	return 0;
}

/* Set up and started, its thread at @priority; the descriptor. */
static int responding(struct rtgauge_setup *setup, int priority)
{
	struct rtgauge_start start = {};
	int fd = session();

	if (ioctl(fd, RTGAUGE_SETUP, setup)) {
		close(fd);
		return -1;
	}
	if (setup->thread)
		run_at((pid_t)setup->thread, priority);
	if (!ioctl(fd, RTGAUGE_START, &start))
		return fd;
	close(fd);
	return -1;
}

static struct rtgauge_status status_of(int fd)
{
	struct rtgauge_status status = {};

	ioctl(fd, RTGAUGE_STATUS, &status);
	return status;
}

/* --- answers --- */

struct spread {
	uint64_t min, max, sum, count;
};

static void add(struct spread *spread, uint64_t value)
{
	if (!spread->count || value < spread->min)
		spread->min = value;
	if (value > spread->max)
		spread->max = value;
	spread->sum += value;
	spread->count++;
}

static void print(const char *name, const struct spread *spread)
{
	printf("\"%s\": [%llu, %llu, %llu], ", name, (unsigned long long)spread->min,
	       (unsigned long long)(spread->count ? spread->sum / spread->count : 0),
	       (unsigned long long)spread->max);
}

/* FNV-1a: two runs are the same bit for bit if this is. */
static uint64_t digest(uint64_t sum, const void *data, size_t size)
{
	const unsigned char *bytes = data;

	for (size_t i = 0; i < size; i++)
		sum = (sum ^ bytes[i]) * 0x100000001b3ULL;
	return sum;
}

struct host {
	uint64_t answered, wrong, none, more;
	struct spread response;
	uint64_t sum;
};

/* The edges that came since the one raised at @raised_ns: the first is its answer. */
static void hear(struct host *host, int input, bool high, uint64_t raised_ns)
{
	struct pollfd ready = { .fd = input, .events = POLLIN };
	struct gpio_v2_line_event event;
	unsigned int heard = 0;

	while (poll(&ready, 1, 0) == 1 && read(input, &event, sizeof(event)) == sizeof(event)) {
		if (heard++) {
			host->more++;
			continue;
		}
		host->wrong += (event.id == GPIO_V2_LINE_EVENT_RISING_EDGE) != high;
		host->answered++;
		add(&host->response, event.timestamp_ns - raised_ns);
		host->sum = digest(host->sum, &event.timestamp_ns, sizeof(event.timestamp_ns));
	}
	host->none += !heard;
}

static void tell_records(int fd, bool deferred)
{
	static struct rtgauge_record records[512];
	struct spread wake = {}, answer = {}, delayed = {};
	uint64_t got = 0, gaps = 0, repeated = 0, waited = 0, unanswered = 0, next = 0;
	uint64_t sum = 0xcbf29ce484222325ULL;
	ssize_t size;

	while ((size = read(fd, records, sizeof(records))) > 0) {
		sum = digest(sum, records, (size_t)size);
		for (size_t i = 0; i < (size_t)size / sizeof(records[0]); i++) {
			const struct rtgauge_record *r = &records[i];

			got++;
			gaps += r->index - next;
			next = r->index + 1;
			repeated += !!(r->flags & RTGAUGE_RECORD_REPEATED);
			waited += !!(r->flags & RTGAUGE_RECORD_WAITED);
			unanswered += !r->end_ns;
			if (deferred)
				add(&wake, r->thread_ns - r->entry_ns);
			add(r->flags & RTGAUGE_RECORD_DELAYED ? &delayed : &answer,
			    r->end_ns - r->entry_ns);
		}
	}
	print("wake", &wake);
	print("answer", &answer);
	print("delayed_answer", &delayed);
	printf("\"records\": %llu, \"gaps\": %llu, \"repeated\": %llu, \"waited\": %llu, "
	       "\"cut\": %llu, \"delayed\": %llu, \"sum\": \"%016llx\", ",
	       (unsigned long long)got, (unsigned long long)gaps, (unsigned long long)repeated,
	       (unsigned long long)waited, (unsigned long long)unanswered,
	       (unsigned long long)delayed.count, (unsigned long long)sum);
}

/* Raise events and hear what is answered; each has to be answered before the next. */
static void raise_events(struct host *host, int output, int input, uint64_t events,
			 uint64_t interval_ns)
{
	uint64_t due_ns = now_ns() + 10 * MS, raised_ns = 0;

	for (uint64_t i = 0; i <= events; i++) {
		sleep_until(due_ns);
		due_ns += interval_ns;
		if (i)
			hear(host, input, i & 1, raised_ns);
		raised_ns = now_ns();
		if (i < events)
			drive(output, !(i & 1));
	}
}

static void tell_host(const char *context, uint64_t events, const struct host *host)
{
	printf("{\"context\": \"%s\", \"raised\": %llu, \"answered\": %llu, \"unanswered\": %llu, "
	       "\"wrong\": %llu, \"double\": %llu, ",
	       context, (unsigned long long)events, (unsigned long long)host->answered,
	       (unsigned long long)host->none, (unsigned long long)host->wrong,
	       (unsigned long long)host->more);
	print("response", &host->response);
}

static int answers(int argc, char **argv)
{
	unsigned int context = context_of(argv[2]);
	uint64_t events = strtoull(argv[3], NULL, 0);
	uint64_t interval_ns = strtoull(argv[4], NULL, 0) * US;
	struct rtgauge_setup setup = response_setup(context, events);
	struct host host = { .sum = 0xcbf29ce484222325ULL };
	struct rtgauge_status status;
	int output = output_line(0), input = input_line(3), fd;

	if (argc > 6) {
		setup.delay_ns = (uint32_t)(strtoull(argv[5], NULL, 0) * US);
		setup.delay_every = (uint32_t)strtoull(argv[6], NULL, 0);
		if (argc > 7)
			setup.flags |= RTGAUGE_SETUP_DELAY_SLEEP;
	}
	run_at(0, 10);
	fd = responding(&setup, 50);
	if (output < 0 || input < 0 || fd < 0) {
		perror("lines or session");
		return 1;
	}
	raise_events(&host, output, input, events, interval_ns);
	status = status_of(fd);
	/* edges that came together were one event: no more will come, and a read would wait for it */
	if (status.state == RTGAUGE_STATE_RUNNING && ioctl(fd, RTGAUGE_STOP))
		perror("RTGAUGE_STOP");
	tell_host(argv[2], events, &host);
	tell_records(fd, context != RTGAUGE_CONTEXT_IRQ);
	printf("\"host_sum\": \"%016llx\", \"state\": %u, \"events\": %llu, \"lost\": %llu, "
	       "\"stray\": %llu}\n",
	       (unsigned long long)host.sum, status.state, (unsigned long long)status.events,
	       (unsigned long long)status.lost, (unsigned long long)status.stray);
	return 0;
}

/* --- calls --- */

static void calls_setup(void)
{
	static const struct {
		const char *what;
		int error;
		uint32_t contexts, flags, delay_ns, every;
	} wrong[] = {
		{ "no edge", EINVAL, 1, 0, 0, 0 },
		{ "no context", EINVAL, 0, BOTH, 0, 0 },
		{ "the user's context", EINVAL, 4, BOTH, 0, 0 },
		{ "two that answer", EINVAL, 3, BOTH, 0, 0 },
		{ "dither", EINVAL, 1, BOTH | RTGAUGE_SETUP_DITHER, 0, 0 },
		{ "two biases", EINVAL, 1, BOTH | RTGAUGE_SETUP_PULL_UP | RTGAUGE_SETUP_PULL_DOWN,
		  0, 0 },
		{ "no bias and one", EINVAL, 1,
		  BOTH | RTGAUGE_SETUP_PULL_NONE | RTGAUGE_SETUP_PULL_DOWN, 0, 0 },
		{ "an unknown flag", EINVAL, 1, BOTH | 0x8000, 0, 0 },
		{ "a delay at no event", EINVAL, 1, BOTH, 1000, 0 },
		{ "no delay at each event", EINVAL, 1, BOTH, 0, 1 },
		{ "a delay too long for the CPU", EINVAL, 1, BOTH, 10000001, 1 },
		{ "sleep in the handler", EINVAL, 1, BOTH | RTGAUGE_SETUP_DELAY_SLEEP, 1000, 1 },
		{ "sleep in a tasklet", EINVAL, 8, BOTH | RTGAUGE_SETUP_DELAY_SLEEP, 1000, 1 },
		{ "two that are deferred to", EINVAL, 0x28, BOTH, 0, 0 },
		{ "sleep without a delay", EINVAL, 2, BOTH | RTGAUGE_SETUP_DELAY_SLEEP, 0, 0 },
	};
	int fd = session();
	struct rtgauge_setup setup;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		setup = response_setup(wrong[i].contexts, 1);
		setup.flags = wrong[i].flags;
		setup.delay_ns = wrong[i].delay_ns;
		setup.delay_every = wrong[i].every;
		CHECK(fails(ioctl(fd, RTGAUGE_SETUP, &setup), wrong[i].error), wrong[i].what);
	}
#define REFUSED(change, err, what)                                         \
	do {                                                               \
		setup = response_setup(1, 1);                              \
		change;                                                    \
		CHECK(fails(ioctl(fd, RTGAUGE_SETUP, &setup), err), what); \
	} while (0)
	REFUSED(setup.interval_ns = MS, EINVAL, "an interval");
	REFUSED(setup.periods = 1, EINVAL, "periods");
	REFUSED(setup.storm_edges = RTGAUGE_STORM_EDGES_MAX + 1, EINVAL, "too wild a storm");
	REFUSED(setup.debounce_us = RTGAUGE_DEBOUNCE_MAX_US + 1, EINVAL, "too long a debounce");
	REFUSED(setup.debounce_us = 10, EOPNOTSUPP, "a debounce that the chip does not have");
	REFUSED(setup.source = RTGAUGE_SOURCE_GPIO, EINVAL, "the source that raises by itself");
	REFUSED(setup.source = RTGAUGE_SOURCE_HRTIMER, EINVAL, "no lines");
	REFUSED(setup.kind = RTGAUGE_KIND_TIMER, EINVAL, "edges for a timer");
	REFUSED((setup.kind = RTGAUGE_KIND_TIMER, setup.flags = 0, setup.interval_ns = MS,
		 setup.source = RTGAUGE_SOURCE_EXTERNAL),
		EINVAL, "a timer from outside");
	REFUSED(setup.gpio_input = 2, EINVAL, "one line for both");
	REFUSED(setup.gpio_input = 8, ENODEV, "a line that is not there");
	REFUSED(strcpy(setup.gpio_chip, "nothing"), ENODEV, "a chip that is not there");
	REFUSED(setup.flags |= RTGAUGE_SETUP_COBALT, ENODEV, "a core that the kernel lacks");
	REFUSED(setup.cpu = 4096, ENXIO, "a CPU that is not there");
	close(fd);
}

static void calls_in_use(void)
{
	struct rtgauge_setup setup = response_setup(1, 1);
	struct rtgauge_setup other = response_setup(2, 1);
	int line = input_line(1), fd = session(), more = session();

	CHECK(line >= 0 && fails(ioctl(fd, RTGAUGE_SETUP, &setup), EBUSY), "input in use: EBUSY");
	close(line);
	line = output_line(2);
	setup = response_setup(1, 1);
	CHECK(line >= 0 && fails(ioctl(fd, RTGAUGE_SETUP, &setup), EBUSY), "output in use: EBUSY");
	close(line);
	setup = response_setup(1, 1);
	CHECK(!ioctl(fd, RTGAUGE_SETUP, &setup) && setup.source == RTGAUGE_SOURCE_EXTERNAL &&
		      !setup.thread,
	      "free again, in the handler");
	CHECK(fails(ioctl(more, RTGAUGE_SETUP, &other), EBUSY), "by another session: EBUSY");
	CHECK(input_line(1) < 0 && output_line(2) < 0, "and the other way round");
	close(fd);
	other = response_setup(2, 1);
	CHECK(!ioctl(more, RTGAUGE_SETUP, &other) && other.thread, "free again, with a thread");
	CHECK(unload_refused("rtgauge"), "the module stays while lines are in use");
	close(more);
}

/* Restore them: a line keeps its direction after its release. */
static void calls_put_back(void)
{
	const uint64_t wrong = GPIO_V2_LINE_FLAG_USED | GPIO_V2_LINE_FLAG_OUTPUT;
	int event = output_line(0);

	drive(event, false);
	for (int as_output = 0; as_output < 2; as_output++) {
		struct rtgauge_setup setup = response_setup(1, 0);
		int line = as_output ? output_line(2) : input_line(2), heard, fd;

		if (as_output)
			drive(line, true);
		close(line);
		fd = responding(&setup, 50);
		heard = input_line(3);
		CHECK(fd >= 0 && !level(heard) && line_flags(2) & GPIO_V2_LINE_FLAG_USED &&
			      line_flags(2) & GPIO_V2_LINE_FLAG_OUTPUT,
		      "an output, and low");
		close(fd);
		CHECK(!(line_flags(1) & wrong), "the input is restored");
		if (as_output)
			CHECK((line_flags(2) & wrong) == GPIO_V2_LINE_FLAG_OUTPUT && level(heard),
			      "the output is as it was, and high");
		else
			CHECK(!(line_flags(2) & wrong), "the output is an input again");
		close(heard);
	}
	close(input_line(2));
	close(event);
}

/* Every way to answer: what the output is before, and after a rise and a fall. */
static void calls_levels(void)
{
	static const struct {
		const char *what;
		uint32_t flags;
		bool before, risen, fallen;
		uint64_t events;
	} ways[] = {
		{ "mirror", BOTH, 0, 1, 0, 2 },
		{ "mirror, active low", BOTH | RTGAUGE_SETUP_ACTIVE_LOW, 0, 1, 0, 2 },
		{ "inverted", BOTH | RTGAUGE_SETUP_INVERT, 1, 0, 1, 2 },
		{ "toggle", BOTH | RTGAUGE_SETUP_TOGGLE, 0, 1, 0, 2 },
		{ "toggle, active low", BOTH | RTGAUGE_SETUP_TOGGLE | RTGAUGE_SETUP_ACTIVE_LOW, 1,
		  0, 1, 2 },
		{ "rising, toggle", RTGAUGE_SETUP_RISING | RTGAUGE_SETUP_TOGGLE, 0, 1, 1, 1 },
		{ "falling, toggle", RTGAUGE_SETUP_FALLING | RTGAUGE_SETUP_TOGGLE, 0, 0, 1, 1 },
		{ "rising", RTGAUGE_SETUP_RISING, 0, 1, 1, 1 },
		{ "falling", RTGAUGE_SETUP_FALLING, 0, 0, 0, 1 },
		{ "mirror, biased", BOTH | RTGAUGE_SETUP_PULL_UP, 0, 1, 0, 2 },
		{ "rising, active low", RTGAUGE_SETUP_RISING | RTGAUGE_SETUP_ACTIVE_LOW, 0, 0, 0,
		  1 },
		{ "rising, toggle, active low",
		  RTGAUGE_SETUP_RISING | RTGAUGE_SETUP_TOGGLE | RTGAUGE_SETUP_ACTIVE_LOW, 1, 1, 0,
		  1 },
	};
	int output = output_line(0), input = input_line(3);

	for (size_t i = 0; i < 2 * sizeof(ways) / sizeof(ways[0]); i++) {
		struct rtgauge_setup setup = response_setup(1 + i % 2, 0);
		struct rtgauge_status status;
		bool right;
		int fd;

		setup.flags = ways[i / 2].flags;
		drive(output, false);
		fd = responding(&setup, 50);
		right = fd >= 0 && level(input) == ways[i / 2].before;
		drive(output, true);
		usleep(1000);
		right &= level(input) == ways[i / 2].risen;
		drive(output, false);
		usleep(1000);
		right &= level(input) == ways[i / 2].fallen;
		status = status_of(fd);
		CHECK(right && status.events == ways[i / 2].events && !status.missed,
		      ways[i / 2].what);
		close(fd);
	}
	close(output);
	close(input);
}

/* The ring is full: the handler answers still, the thread is not told. */
static void calls_full(void)
{
	int output = output_line(0), input = input_line(3);

	for (unsigned int context = 1; context <= 2; context++) {
		struct rtgauge_setup setup = response_setup(context, 0);
		static struct rtgauge_record records[5000];
		struct rtgauge_status status;
		uint64_t last;
		ssize_t size;
		int fd;

		setup.room = 1;
		fd = responding(&setup, 50);
		drive(output, false);
		for (int i = 0; i < 4099; i++) {
			drive(output, !(i & 1));
			usleep(60);
		}
		status = status_of(fd);
		CHECK(status.events == 4099 && status.lost == 3 && setup.room == 4096,
		      "a full ring costs records");
		CHECK(level(input) == (context == 1), "the handler answers nevertheless");
		size = read(fd, records, sizeof(records));
		last = records[4095].index;
		CHECK(size == 4096 * sizeof(records[0]) && last == 4095,
		      "all that fitted is there");
		drive(output, false);
		usleep(1000);
		size = read(fd, records, sizeof(records));
		CHECK(size == sizeof(records[0]) && records[0].index == 4099 && !level(input),
		      "and it continues, with the gap in its numbers");
		CHECK(!ioctl(fd, RTGAUGE_STOP) && status_of(fd).state == RTGAUGE_STATE_STOPPED &&
			      !read(fd, records, sizeof(records)),
		      "stopped: the end");
		close(fd);
	}
	close(output);
	close(input);
}

/* Edges that come while the thread still holds the answer back. */
static void calls_waited(void)
{
	int output = output_line(0);
	struct rtgauge_setup setup = response_setup(2, 4);
	struct rtgauge_record records[5];
	struct rtgauge_status status;
	bool right = true;
	ssize_t size;
	int fd;

	setup.flags |= RTGAUGE_SETUP_DELAY_SLEEP;
	setup.delay_ns = 10 * MS;
	setup.delay_every = 2;
	fd = responding(&setup, 50);
	drive(output, true);
	usleep(1000);
	drive(output, false); /* held back: the next two come during that */
	usleep(1000);
	drive(output, true);
	usleep(1000);
	drive(output, false);
	usleep(50000);
	status = status_of(fd);
	CHECK(status.state == RTGAUGE_STATE_FINISHED && status.events == 4 &&
		      status.thread_missed == 2 && !status.missed,
	      "two waited for the answer before theirs");
	size = read(fd, records, sizeof(records));
	for (int i = 0; i < 4; i++)
		right &= !!(records[i].flags & RTGAUGE_RECORD_WAITED) == (i >= 2) &&
			 !!(records[i].flags & RTGAUGE_RECORD_DELAYED) == (i == 1 || i == 3) &&
			 !!(records[i].flags & RTGAUGE_RECORD_LEVEL) == (i % 2 == 0) &&
			 records[i].thread_ns > records[i].entry_ns &&
			 records[i].end_ns > records[i].thread_ns;
	CHECK(size == 4 * sizeof(records[0]) && right, "each is answered, in order");
	CHECK(!read(fd, records, sizeof(records)), "then the end");
	close(fd);
	fd = session();
	setup = response_setup(2, 0);
	setup.flags |= RTGAUGE_SETUP_DELAY_SLEEP;
	setup.delay_ns = RTGAUGE_DELAY_SLEEP_MAX_NS;
	setup.delay_every = 1;
	close(fd);
	fd = responding(&setup, 50);
	drive(output, true);
	usleep(1000);
	CHECK(!ioctl(fd, RTGAUGE_STOP) && read(fd, records, sizeof(records)) > 0 &&
		      records[0].flags & RTGAUGE_RECORD_DELAYED,
	      "stop does not wait for a delay");
	close(fd);
	close(output);
}

/* Few edges, but half of the time in the handler: each counts as 10 ms and no more. */
static void calls_busy(void)
{
	int output = output_line(0);
	struct rtgauge_setup setup = response_setup(1, 0);
	struct rtgauge_status status;
	int fd;

	drive(output, false);
	setup.delay_ns = RTGAUGE_DELAY_BUSY_MAX_NS;
	setup.delay_every = 1;
	fd = responding(&setup, 0);
	for (int i = 0; i < 8; i++) {
		drive(output, !(i & 1));
		usleep(1000);
	}
	status = status_of(fd);
	CHECK(status.state == RTGAUGE_STATE_FAILED && status.failure == RTGAUGE_FAILURE_STORM &&
		      status.events == 6,
	      "a handler that takes more than half of the time");
	close(fd);
	close(output);
}

static int calls(void)
{
	calls_setup();
	calls_in_use();
	calls_put_back();
	calls_levels();
	calls_full();
	calls_waited();
	calls_busy();
	return failures;
}

/* --- storm --- */

/*
 * Two sessions in a ring, one of them inverting: each answer is the other's next event. The last
 * answer is given by a thread, so that none is given before both listen.
 */
static int storm(void)
{
	static const uint32_t limits[] = { 0, 50, RTGAUGE_STORM_EDGES_MAX };

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct rtgauge_setup first = response_setup(RTGAUGE_CONTEXT_KERNEL, 0);
		struct rtgauge_setup second = response_setup(RTGAUGE_CONTEXT_IRQ, 0);
		uint64_t most = limits[i] ? limits[i] : RTGAUGE_STORM_EDGES;
		struct rtgauge_status one, two;
		int fds[2], line;

		first.storm_edges = RTGAUGE_STORM_EDGES_MAX;
		second.storm_edges = limits[i];
		second.gpio_output = 0;
		second.gpio_input = 3;
		second.flags |= RTGAUGE_SETUP_INVERT;
		run_at(0, 99);
		fds[0] = responding(&first, 50);
		fds[1] = responding(&second, 0);
		CHECK(fds[0] >= 0 && fds[1] >= 0, "two that answer each other");
		sleep_until(now_ns() + 300 * MS);
		one = status_of(fds[0]);
		two = status_of(fds[1]);
		printf("# %llu and %llu edges\n", (unsigned long long)one.events,
		       (unsigned long long)two.events);
		if (limits[i] < RTGAUGE_STORM_EDGES_MAX) {
			CHECK(two.state == RTGAUGE_STATE_FAILED &&
				      two.failure == RTGAUGE_FAILURE_STORM &&
				      two.events == most + 1,
			      "it ends, at the limit, and says why");
			CHECK(one.state == RTGAUGE_STATE_RUNNING && one.events <= most + 3,
			      "the other has not seen more");
		} else {
			CHECK(two.state == RTGAUGE_STATE_FAILED ||
				      one.state == RTGAUGE_STATE_FAILED,
			      "it ends by the highest limit, too, or by the time it takes");
		}
		close(fds[0]);
		close(fds[1]);
		line = input_line(1);
		CHECK(line >= 0, "the lines are free");
		close(line);
	}
	return failures;
}

/* --- a process that does what it can, to be killed --- */

static void busy(unsigned int number)
{
	static const unsigned int contexts[] = { 1, 2, 8, 16, 32 };
	struct rtgauge_setup setup = response_setup(contexts[number % 5], 0);
	struct rtgauge_record records[16];
	int output, fd;

	if (number % 3 == 2) {
		setup.delay_ns = 1000000;
		setup.delay_every = 3;
	}
	setup.room = number % 7 ? 1000 : 0;
	fd = responding(&setup, 50);
	output = output_line(0);
	if (fd >= 0)
		fcntl(fd, F_SETFL, O_NONBLOCK);
	for (uint64_t i = 0;; i++) {
		if (output >= 0)
			drive(output, i & 1);
		if (fd >= 0 && read(fd, records, sizeof(records)) < 0 && errno == EIO)
			break;
		usleep(80);
	}
	pause();
}

static int killed(unsigned int count)
{
	int wrong = 0;

	for (unsigned int i = 0; i < count; i++) {
		int status, line;
		pid_t pid = fork();

		if (!pid)
			busy(i);
		usleep(2000 + i % 7 * 3000);
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		wrong += !WIFSIGNALED(status);
		line = input_line(1);
		wrong += line < 0;
		close(line);
	}
	CHECK(!wrong, "killed with lines in use, which are free afterwards");
	return failures;
}

/* --- offline --- */

/* Whether a session has one event: waits for it for up to 1 s. */
static bool answered_once(int fd)
{
	for (int i = 0; i < 500 && !status_of(fd).events; i++)
		usleep(2000);
	return status_of(fd).events == 1;
}

static int offline(unsigned int cpu)
{
	struct rtgauge_record records[16];
	int output = output_line(0);

	for (unsigned int context = 1; context <= RTGAUGE_CONTEXT_THREADED; context <<= 1) {
		struct rtgauge_setup setup = response_setup(context, 0);
		struct rtgauge_setup waiting = response_setup(context, 0);
		struct rtgauge_start start = {};
		struct rtgauge_status status;
		int fd, ready;
		ssize_t size;

		/* the user's does not answer */
		if (context == RTGAUGE_CONTEXT_USER)
			continue;
		ready = session();
		setup.cpu = cpu;
		drive(output, false);
		fd = responding(&setup, 50);
		drive(output, true);
		CHECK(fd >= 0 && answered_once(fd), "a session on it");
		CHECK(set_online(cpu, false), "the CPU goes offline");
		status = status_of(fd);
		CHECK(status.state == RTGAUGE_STATE_FAILED &&
			      status.failure == RTGAUGE_FAILURE_CPU_OFFLINE,
		      "STATUS says why it ended");
		drive(output, false);
		size = read(fd, records, sizeof(records));
		CHECK(size == sizeof(records[0]) && records[0].end_ns &&
			      fails((int)read(fd, records, sizeof(records)), EIO),
		      "what was answered is there, then EIO");
		waiting.cpu = cpu;
		CHECK(fails(ioctl(ready, RTGAUGE_SETUP, &waiting), ENXIO), "SETUP: ENXIO");
		CHECK(set_online(cpu, true), "the CPU comes back");
		waiting = response_setup(context, 0);
		waiting.cpu = cpu;
		CHECK(!ioctl(ready, RTGAUGE_SETUP, &waiting) && set_online(cpu, false) &&
			      fails(ioctl(ready, RTGAUGE_START, &start), ENXIO),
		      "ready, then gone: ENXIO");
		CHECK(set_online(cpu, true), "and back");
		close(ready);
		close(fd);
	}
	close(output);
	return failures;
}

/* --- refused --- */

static int refused(int count, char **chips)
{
	for (int i = 0; i < count; i++) {
		for (unsigned int context = 1; context <= RTGAUGE_CONTEXT_THREADED; context <<= 1) {
			struct rtgauge_setup setup = response_setup(context, 0);
			int fd;

			if (context == RTGAUGE_CONTEXT_USER)
				continue;
			fd = session();
			memset(setup.gpio_chip, 0, sizeof(setup.gpio_chip));
			strncpy(setup.gpio_chip, chips[i], sizeof(setup.gpio_chip) - 1);
			CHECK(fails(ioctl(fd, RTGAUGE_SETUP, &setup), EOPNOTSUPP), chips[i]);
			close(fd);
		}
	}
	return failures;
}

/* --- fit --- */

/* Whether the handler may answer on a chip: 1 or 0, as it is to be. */
static int fit(const char *chip, bool expected)
{
	struct rtgauge_setup setup = response_setup(RTGAUGE_CONTEXT_IRQ, 0);
	struct rtgauge_start start = {};
	int fd = session();
	bool taken;

	memset(setup.gpio_chip, 0, sizeof(setup.gpio_chip));
	strncpy(setup.gpio_chip, chip, sizeof(setup.gpio_chip) - 1);
	taken = !ioctl(fd, RTGAUGE_SETUP, &setup);
	CHECK(taken ? expected && !ioctl(fd, RTGAUGE_START, &start) :
		      !expected && errno == EOPNOTSUPP,
	      chip);
	close(fd);
	fd = session();
	setup.contexts = RTGAUGE_CONTEXT_KERNEL;
	setup.source = setup.raise_cpu = 0;
	start.first_due_ns = 0;
	CHECK(!ioctl(fd, RTGAUGE_SETUP, &setup) && !ioctl(fd, RTGAUGE_START, &start),
	      "in its thread on any");
	close(fd);
	return failures;
}

int main(int argc, char **argv)
{
	int result = 2;

	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		return 2;
	if (argc >= 5 && !strcmp(argv[1], "answers"))
		return answers(argc, argv);
	if (argc == 2 && !strcmp(argv[1], "calls"))
		result = calls();
	else if (argc == 2 && !strcmp(argv[1], "storm"))
		result = storm();
	else if (argc == 3 && !strcmp(argv[1], "killed"))
		result = killed((unsigned int)strtoul(argv[2], NULL, 0));
	else if (argc == 4 && !strcmp(argv[1], "reload"))
		result = reload(argv[2], (unsigned int)strtoul(argv[3], NULL, 0), busy, 3000, 1);
	else if (argc == 3 && !strcmp(argv[1], "offline"))
		result = offline((unsigned int)strtoul(argv[2], NULL, 0));
	else if (argc >= 3 && !strcmp(argv[1], "refused"))
		result = refused(argc - 2, argv + 2);
	else if (argc == 4 && !strcmp(argv[1], "fit"))
		result = fit(argv[2], argv[3][0] == '1');
	if (argc > 1)
		printf("1..%d\n", tests);
	return result != 0;
}
