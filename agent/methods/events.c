// SPDX-License-Identifier: Apache-2.0
/*
 * Sessions of the kernel module: creates, starts, reads and ends them. Its records come in at step
 * 3 of the path of a sample.
 */
#include "methods/events.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"

#define EVENTS_ROOM_SECONDS 6
#define EVENTS_BATCH 128

static int events_open_info(struct rtgauge_info *info, struct message *why)
{
	int fd = open(RTGAUGE_DEVICE, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	int err;

	if (fd < 0 && (errno == EACCES || errno == EPERM))
		return message_set(why, -errno, "run as root",
				   RTGAUGE_DEVICE " cannot be opened: %s", strerror(errno));
	if (fd < 0 && access("/proc/modules", F_OK))
		return message_set(why, -EOPNOTSUPP,
				   "boot a kernel that was built with CONFIG_MODULES=y",
				   "the kernel cannot load the module rtgauge: it does not "
				   "support loadable modules");
	if (fd < 0) {
		err = message_set(why, -errno, EVENTS_REMEDY,
				  "the kernel module rtgauge is not loaded (no " RTGAUGE_DEVICE
				  ")");
		return message_command(why, err, EVENTS_LOAD);
	}
	memset(info, 0, sizeof(*info));
	err = ioctl(fd, RTGAUGE_INFO, info) ? -errno : 0;
	if (!err && info->interface_version == RTGAUGE_INTERFACE_VERSION)
		return fd;
	close(fd);
	return message_set(why, -EPROTO, EVENTS_RENEW,
			   "the kernel module rtgauge has version %u of its interface, not %d",
			   info->interface_version, RTGAUGE_INTERFACE_VERSION);
}

int events_open(struct message *why)
{
	struct rtgauge_info info;

	return events_open_info(&info, why);
}

/* --- sources --- */

static const char *const events_sources[] = {
	[RTGAUGE_SOURCE_AUTO] = "auto", [RTGAUGE_SOURCE_HRTIMER] = "hrtimer",
	[RTGAUGE_SOURCE_HPET] = "hpet", [RTGAUGE_SOURCE_GPIO] = "gpio",
	[RTGAUGE_SOURCE_PCI] = "pci",	[RTGAUGE_SOURCE_COBALT] = "cobalt",
};

static int events_ask_source(int fd, uint32_t number, const char *gpio,
			     struct rtgauge_source *source, struct message *why)
{
	memset(source, 0, sizeof(*source));
	source->number = number;
	if (ioctl(fd, RTGAUGE_SOURCE, source))
		return message_set(why, -errno, EVENTS_RENEW ", or choose another source",
				   "the module does not support the source %s: %s",
				   events_sources[number], strerror(errno));
	if (!(source->flags & RTGAUGE_SOURCE_AVAILABLE))
		return message_set(why, -ENODEV, "choose another source, or leave it at auto",
				   "the interrupt source %s is not available: %.79s",
				   events_sources[number], source->reason);
	if ((source->flags & RTGAUGE_SOURCE_LINES) && !gpio[0])
		return message_set(why, -ENODEV,
				   "wire an output to an input, and name them: --gpio CHIP:OUT:IN",
				   "the interrupt source gpio needs two lines");
	return 0;
}

int events_source(const char *name, const char *gpio, struct rtgauge_source *source,
		  struct message *why)
{
	/* as the module chooses: a device of its own before the fallback */
	static const uint32_t order[] = { RTGAUGE_SOURCE_HPET, RTGAUGE_SOURCE_HRTIMER };
	uint32_t number = 0;
	int fd = events_open(why);
	int err = -ENODEV;

	if (fd < 0)
		return fd;
	while (!events_sources[number] || strcmp(events_sources[number], name))
		number++;
	/* lines that are named are meant */
	if (!number && gpio[0])
		number = RTGAUGE_SOURCE_GPIO;
	if (number) {
		err = events_ask_source(fd, number, gpio, source, why);
	} else {
		for (size_t i = 0; err && i < sizeof(order) / sizeof(order[0]); i++)
			err = events_ask_source(fd, order[i], gpio, source, why);
		if (!err)
			memset(why, 0, sizeof(*why));
	}
	close(fd);
	return err;
}

static int events_parse_line(const char **text, uint32_t *line)
{
	unsigned long number = 0;
	size_t digits = strspn(*text, "0123456789");

	for (size_t i = 0; i < digits && number < 100000; i++)
		number = number * 10 + (unsigned long)((*text)[i] - '0');
	if (!digits || number >= 100000)
		return -EINVAL;
	*text += digits;
	*line = (uint32_t)number;
	return 0;
}

int events_parse_gpio(const char *text, char chip[32], uint32_t *output, uint32_t *input)
{
	const char *last = strrchr(text, ':');
	size_t size = last ? (size_t)(last - text) : 0;

	/* a label may have colons of its own, as those of ACPI's devices do */
	while (size && text[size - 1] != ':')
		size--;
	if (size < 2 || size > 32)
		return -EINVAL;
	memset(chip, 0, 32);
	memcpy(chip, text, size - 1);
	text += size;
	if (events_parse_line(&text, output) || *text++ != ':' || events_parse_line(&text, input))
		return -EINVAL;
	return *text || *input == *output ? -EINVAL : 0;
}

/* --- sessions --- */

uint32_t events_context(const char *name)
{
	static const struct {
		const char *name;
		uint32_t context;
	} contexts[] = {
		{ "irq", RTGAUGE_CONTEXT_IRQ },
		{ "kernel", RTGAUGE_CONTEXT_KERNEL },
		{ "user", RTGAUGE_CONTEXT_USER },
		{ "softirq", RTGAUGE_CONTEXT_SOFTIRQ },
		{ "workqueue", RTGAUGE_CONTEXT_WORKQUEUE },
		{ "threaded", RTGAUGE_CONTEXT_THREADED },
	};

	for (size_t i = 0; i < sizeof(contexts) / sizeof(contexts[0]); i++)
		if (!strcmp(name, contexts[i].name))
			return contexts[i].context;
	return 0;
}

uint32_t events_room(int64_t interval_ns)
{
	int64_t records = EVENTS_ROOM_SECONDS * NSEC_PER_SEC / interval_ns + 64;

	return records < RTGAUGE_ROOM_MAX ? (uint32_t)records : RTGAUGE_ROOM_MAX;
}

static const char *events_refusal(const struct rtgauge_setup *setup, int err)
{
	if (setup->source == RTGAUGE_SOURCE_PARALLEL && err == -EBUSY)
		return "the parallel port is in use";
	if (setup->source == RTGAUGE_SOURCE_PARALLEL && err == -ENODEV)
		return "there is no such parallel port, or the module rtgauge_parport is not loaded";
	if (err == -EBUSY)
		return setup->gpio_chip[0] ? "a line is in use" : "the source is in use";
	if (err == -ENODEV && setup->source == RTGAUGE_SOURCE_GPIO)
		return "there is no such chip or line, or the input is not wired to the output";
	if (err == -ENODEV)
		return "there is no such source, chip or line";
	if (err == -ENXIO)
		return "it is not online";
	if (err == -ETIME)
		return "the interrupt's thread did not run within a second";
	if (err == -EOPNOTSUPP && setup->source == RTGAUGE_SOURCE_HRTIMER)
		return "the source hrtimer has no interrupt of its own, and so no threaded handler";
	if (err != -EOPNOTSUPP)
		return strerror(-err);
	if (setup->source == RTGAUGE_SOURCE_SERIAL)
		return "the port drives RTS by itself (RS-485)";
	if (setup->source == RTGAUGE_SOURCE_PARALLEL)
		return "the driver of the port cannot drive its lines in an interrupt handler";
	if (setup->kind == RTGAUGE_KIND_IRQ_DISPATCH)
		return "the chip can sleep, or its driver is not known to be safe in an interrupt handler, or the line raises no interrupt";
	if (setup->kind != RTGAUGE_KIND_RESPONSE)
		return "the chip can sleep, or the line raises no interrupt";
	if (setup->flags & RTGAUGE_SETUP_COBALT)
		return "the chip can sleep or cannot debounce, its driver is not known to be safe on the core, or the line raises no interrupt on the core at these edges";
	if (setup->contexts == RTGAUGE_CONTEXT_IRQ)
		return "the chip can sleep or its driver is not known to be safe in an interrupt handler, or the line does not raise the requested interrupts";
	return "the chip can sleep or cannot debounce, or the line raises no interrupt at these "
	       "edges";
}

static const char *events_remedy(const struct rtgauge_setup *setup, int err)
{
	if (setup->source == RTGAUGE_SOURCE_PARALLEL && err == -EBUSY)
		return "unload the driver lp (modprobe -r lp), or end the program that uses the port "
		       "(fuser names it)";
	if (setup->source == RTGAUGE_SOURCE_PARALLEL && err == -ENODEV)
		return "load the driver of the port (modprobe parport_pc), then the module: " EVENTS_LOAD;
	if (setup->source == RTGAUGE_SOURCE_GPIO && err == -ENODEV)
		return "wire the output to the input, or name other lines";
	if (setup->kind != RTGAUGE_KIND_RESPONSE)
		return "choose another source, line or CPU";
	return setup->flags & RTGAUGE_SETUP_COBALT ?
		       "choose another line or CPU, or --core linux" :
		       "choose another line or CPU, or --context user";
}

static int events_refused(struct step *step, const struct rtgauge_setup *setup, int err)
{
	struct message why = { 0 };

	if (err == -EINVAL)
		return message_set(&step->msg, -EIO,
				   "report this bug: the agent made an invalid request",
				   "the kernel module refuses the set-up for CPU %u", setup->cpu);
	message_set(&why, err, events_remedy(setup, err),
		    "the kernel module cannot measure on CPU %u: %s", setup->cpu,
		    events_refusal(setup, err));
	message_command(&why, err, EVENTS_LOAD);
	return step_skip_for(step, &why);
}

/* An older module has three contexts, and does not list them. */
static bool events_has(const struct rtgauge_info *info, uint32_t contexts)
{
	uint32_t has = info->contexts ?
			       info->contexts :
			       RTGAUGE_CONTEXT_IRQ | RTGAUGE_CONTEXT_KERNEL | RTGAUGE_CONTEXT_USER;

	return !(contexts & ~has);
}

int events_make(struct step *step, struct events_session *s)
{
	struct message why = { 0 };
	struct rtgauge_info info;

	s->fd = events_open_info(&info, &why);
	if (s->fd < 0)
		return step_skip_for(step, &why);
	if (!events_has(&info, s->setup.contexts))
		return step_skip(step, "the kernel module is too old for this context",
				 EVENTS_RENEW);
	if (ioctl(s->fd, RTGAUGE_SETUP, &s->setup))
		return events_refused(step, &s->setup, -errno);
	return 0;
}

int events_add(struct step *step, struct events_session *s, int priority)
{
	int err = events_make(step, s);

	if (err)
		return err;
	if ((s->setup.contexts & (RTGAUGE_CONTEXT_KERNEL | RTGAUGE_CONTEXT_THREADED)) &&
	    !s->setup.thread)
		return step_skip(step,
				 "the kernel thread has no ID in this PID namespace: its "
				 "priority cannot be set",
				 "run the agent in the machine's own PID namespace");
	s->worker = step_add_foreign(step, (pid_t)s->setup.thread, (int)s->setup.cpu,
				     s->setup.thread ? priority : 0);
	return s->worker < 0 ? s->worker : 0;
}

int events_start(struct step *step, struct events_session *s, int64_t first_due_ns)
{
	struct rtgauge_start start = { 0 };

	start.first_due_ns = (uint64_t)(step->start_ns + first_due_ns);
	for (int i = 0; i < EVENTS_GRIDS; i++)
		s->grid[i].start_ns = first_due_ns;
	if (ioctl(s->fd, RTGAUGE_START, &start))
		return message_set(&step->msg, -EIO, "keep the CPUs online, and run again",
				   "the kernel module could not start on CPU %u: %s", s->setup.cpu,
				   strerror(errno));
	return 0;
}

void events_close(struct events_session *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

/* --- records --- */

static void events_record(struct step *step, struct events_session *s,
			  const struct rtgauge_record *record)
{
	int64_t index = (int64_t)record->index;

	if (s->record) {
		s->record(step, s, record);
		return;
	}
	/* what neither was handled nor passed over by the handler found the ring full */
	if (index > s->next + record->missed)
		s->lost += index - s->next - record->missed;
	s->next = index + 1;
	s->cut = record->flags & RTGAUGE_RECORD_CUT;
	for (int i = 0; i < EVENTS_GRIDS; i++) {
		int64_t value;

		if (s->grid[i].series < 0)
			continue;
		value = s->value[i](record);
		if (value != INT64_MIN)
			grid_put(step, &s->grid[i], index, s->lost, value);
	}
}

static const char *events_failure(uint32_t failure)
{
	switch (failure) {
	case RTGAUGE_FAILURE_CPU_OFFLINE:
		return "it went offline";
	case RTGAUGE_FAILURE_UNLOAD:
		return "the module was removed";
	case RTGAUGE_FAILURE_STORM:
		return "the line's edges did not stop, so its interrupt was switched off";
	default:
		return "its line or port does not respond";
	}
}

static const char *events_failure_remedy(uint32_t failure)
{
	switch (failure) {
	case RTGAUGE_FAILURE_CPU_OFFLINE:
	case RTGAUGE_FAILURE_UNLOAD:
		return "run again, and leave the CPUs and the module unchanged";
	case RTGAUGE_FAILURE_STORM:
		return "check what drives the line: it had more than 2000 edges in 100 ms, or its handler "
		       "took half of that time";
	default:
		return "check the line or the port of the source, and run again";
	}
}

struct rtgauge_status events_account(struct step *step, const struct events_session *s)
{
	struct rtgauge_status status = { 0 };
	char text[160];

	ioctl(s->fd, RTGAUGE_STATUS, &status);
	if (status.switches || status.faults) {
		step->workers[s->worker].modes.switches = status.switches;
		step->workers[s->worker].modes.faults = status.faults;
	}
	if (status.other_cpu) {
		snprintf(text, sizeof(text), "interrupts of CPU %u that another CPU handled: %llu",
			 s->setup.cpu, (unsigned long long)status.other_cpu);
		step_message(step, clock_now_ns(CLOCK_MONOTONIC) - step->start_ns, text);
	}
	if (status.state == RTGAUGE_STATE_FAILED) {
		snprintf(text, sizeof(text), "the kernel module gave up on CPU %u: %s",
			 s->setup.cpu, events_failure(status.failure));
		step_fail(step, text, events_failure_remedy(status.failure));
	}
	return status;
}

/* The points before it have no further sample: each was handled as an event, or passed over. */
static int64_t events_next(const struct events_session *s, const struct rtgauge_status *status)
{
	/* the thread may have been on its way to the last event when the session was stopped */
	if (s->cut && (int64_t)status->lost == s->lost)
		return s->next - 1;
	return (int64_t)(status->events + status->missed);
}

int64_t events_passed(const struct step *step, const struct events_session *s)
{
	struct rtgauge_status status = { 0 };

	if (ioctl(s->fd, RTGAUGE_STATUS, &status))
		return 0;
	/* the last event may be later than the end of the step */
	return (int64_t)(status.events + status.missed) - (step_stopped(step) ? 1 : 0);
}

static void events_ended(struct step *step, struct events_session *s, int err)
{
	struct rtgauge_status status = events_account(step, s);
	char text[128];

	for (int i = 0; i < EVENTS_GRIDS; i++)
		grid_end(step, &s->grid[i], events_next(s, &status), (int64_t)status.lost);
	if (err) {
		snprintf(text, sizeof(text), "the records of CPU %u cannot be read: %s",
			 s->setup.cpu, strerror(-err));
		step_fail(step, text, "report this bug: the agent made an invalid request");
	}
	step_foreign_done(step, s->worker);
}

/* All that there is now; true: the session has ended. */
static bool events_read(struct step *step, struct events_session *s)
{
	struct rtgauge_record records[EVENTS_BATCH];

	for (;;) {
		ssize_t size = read(s->fd, records, sizeof(records));

		if (size < 0 && errno == EINTR)
			continue;
		if (size < 0 && errno == EAGAIN)
			return false;
		if (size <= 0) {
			events_ended(step, s, size < 0 ? -errno : 0);
			return true;
		}
		for (size_t i = 0; i < (size_t)size / sizeof(records[0]); i++)
			events_record(step, s, &records[i]);
		step_drain(step);
	}
}

void events_collect(struct step *step, struct events_session *s, int count)
{
	for (int i = 0; i < count; i++) {
		if (atomic_load_acquire(&step->workers[s[i].worker].done))
			continue;
		if (step_stopped(step) && !s[i].stopped) {
			ioctl(s[i].fd, RTGAUGE_STOP);
			s[i].stopped = true;
		}
		events_read(step, &s[i]);
	}
}
