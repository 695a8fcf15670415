// SPDX-License-Identifier: Apache-2.0
/*
 * Response to an external event by the kernel module: in the handler of the line's interrupt, or in
 * the context that it defers its work to. Step 1 of the path of a sample is kmod/edges.h.
 * This file puts its records into series. On a loopback the module also raises the events, with its
 * source gpio.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "measurements/response/response.h"
#include "methods/events.h"
#include "methods/grid.h"

/* Records for more than a second of the wildest line that the module takes. */
#define MODULE_ROOM 32768
/* Longest block of a series that may have a single time. */
#define MODULE_BLOCK_NS (10 * NSEC_PER_MSEC)
/* The rest between two events of a loopback that its source needs. */
#define MODULE_INTERVAL_MIN_NS (100 * NSEC_PER_USEC)

/* Grids of a loopback. */
#define MODULE_RESPONSE 0
#define MODULE_WAKE 1

struct module {
	struct events_session session;
	struct response *response;
	uint32_t context; /* RTGAUGE_CONTEXT_* */
	bool sleeps;	  /* answers may be delayed without the CPU */
	int wake;	  /* numbers of the series; -1: not measured */
	int answer;
	int64_t block_ns;
	int64_t lost;		      /* events without a record, in the series so far */
	struct rtgauge_status status; /* at the end */
	bool ended;
	struct step *step;
};

/* The handler defers the answer. */
static bool module_defers(const struct module *m)
{
	return m->context != RTGAUGE_CONTEXT_IRQ;
}

/* --- what is available --- */

static int module_refuses(struct step *step, const char *text, const char *remedy)
{
	return message_set(&step->msg, -EINVAL, remedy, "%s", text);
}

/* Limits of the module on every line. */
static int module_check(struct step *step, const struct response *r, bool sleeps)
{
	int64_t delay_max_ns = sleeps ? RTGAUGE_DELAY_SLEEP_MAX_NS : RTGAUGE_DELAY_BUSY_MAX_NS;

	if (r->line.kind->wanted) {
		int err = r->line.kind->wanted(&r->line, r->context, &step->msg);

		if (err)
			return err;
	} else if (!r->line.pins.label[0]) {
		return module_refuses(step,
				      "the kernel contexts answer only on lines of a GPIO chip, "
				      "on dcd of a serial port, and on a parallel port",
				      "choose --line gpio:CHIP:OUT:IN, serial:DEVICE:rts:dcd or "
				      "parallel:DEVICE, or --context user");
	}
	if (strlen(r->line.pins.label) >= sizeof(((struct rtgauge_setup *)NULL)->gpio_chip))
		return step_skip(step, "the chip's label is too long for the kernel module",
				 "choose another chip, or --context user");
	if (r->delay_ns > delay_max_ns)
		return module_refuses(
			step,
			sleeps ?
				"the kernel thread can be delayed by at most 4 s" :
				"the handler, and what it defers its work to, can be delayed by at most 10 ms, because the CPU waits, too",
			"choose a shorter --delay");
	if (r->delay_every > UINT32_MAX)
		return module_refuses(step, "the module counts answers with 32 bits",
				      "choose a smaller --delay-every");
	return 0;
}

/* A module that is older than this agent knows of no such sessions, and would call them wrong. */
static int module_look(struct step *step, uint32_t source)
{
	struct message why = { 0 };
	struct rtgauge_info info;
	int fd = events_open(&why);

	if (fd < 0)
		return step_skip_for(step, &why);
	memset(&info, 0, sizeof(info));
	ioctl(fd, RTGAUGE_INFO, &info);
	close(fd);
	if (info.sources < source)
		return step_skip(step,
				 source == RTGAUGE_SOURCE_EXTERNAL ?
					 "the kernel module is too old to answer events from "
					 "outside" :
					 "the kernel module is too old to answer on this kind of "
					 "line",
				 EVENTS_RENEW);
	return 0;
}

/* --- events from outside --- */

static uint32_t module_flags(const struct response *r, bool sleeps)
{
	static const uint32_t edges[] = {
		[LINE_BOTH] = RTGAUGE_SETUP_RISING | RTGAUGE_SETUP_FALLING,
		[LINE_RISING] = RTGAUGE_SETUP_RISING,
		[LINE_FALLING] = RTGAUGE_SETUP_FALLING,
	};
	static const uint32_t biases[] = {
		[LINE_BIAS_AS_IS] = 0,
		[LINE_BIAS_DISABLED] = RTGAUGE_SETUP_PULL_NONE,
		[LINE_BIAS_UP] = RTGAUGE_SETUP_PULL_UP,
		[LINE_BIAS_DOWN] = RTGAUGE_SETUP_PULL_DOWN,
	};

	return edges[r->line.how.edge] | biases[r->line.how.bias] |
	       (r->line.how.active_low ? RTGAUGE_SETUP_ACTIVE_LOW : 0U) |
	       (r->toggles ? RTGAUGE_SETUP_TOGGLE : 0U) |
	       (r->delay_every && sleeps ? RTGAUGE_SETUP_DELAY_SLEEP : 0U);
}

/* @lost: events without a record in all, because the module's ring was full. */
static void module_lost(struct step *step, struct module *m, int64_t lost)
{
	if (lost <= m->lost)
		return;
	if (m->wake >= 0)
		series_lost(&step->series[m->wake], lost - m->lost);
	series_lost(&step->series[m->answer], lost - m->lost);
	m->lost = lost;
}

static void module_record(struct step *step, struct events_session *s,
			  const struct rtgauge_record *record)
{
	struct module *m = s->state;
	int64_t entry_ns = (int64_t)record->entry_ns;

	module_lost(step, m, m->lost + (int64_t)record->index - s->next);
	s->next = (int64_t)record->index + 1;
	/* the session ended before it was answered */
	if (!record->end_ns)
		return;
	m->response->answered++;
	if (entry_ns - m->block_ns >= MODULE_BLOCK_NS) {
		m->block_ns = entry_ns;
		if (m->wake >= 0)
			series_time(&step->series[m->wake], entry_ns - step->start_ns);
		series_time(&step->series[m->answer], entry_ns - step->start_ns);
	}
	if (m->wake >= 0)
		series_put(&step->series[m->wake], (int64_t)record->thread_ns - entry_ns);
	series_put(&step->series[m->answer], (int64_t)record->end_ns - entry_ns);
}

/* The reader of the stream's header may raise events. */
int response_listen(struct step *step, int fd)
{
	struct rtgauge_start start = { 0 };

	if (ioctl(fd, RTGAUGE_START, &start))
		return step_skip(step, "the kernel module could not start to listen",
				 "choose another line, and keep the CPUs online");
	return 0;
}

/* The thread of a core has its priority from the set-up. */
static int module_listen(struct step *step, const struct module *m)
{
	struct sched_param fifo = { .sched_priority = m->response->priority };
	const struct rtgauge_setup *setup = &m->session.setup;

	/* not by the C library: musl refuses it, as POSIX means the process */
	if (setup->thread && !(setup->flags & RTGAUGE_SETUP_COBALT) &&
	    syscall(SYS_sched_setscheduler, (pid_t)setup->thread,
		    fifo.sched_priority ? SCHED_FIFO : SCHED_OTHER, &fifo))
		return message_set(&step->msg, -errno, "run as root",
				   "the kernel thread cannot have priority %d: %s",
				   fifo.sched_priority, strerror(errno));
	return response_listen(step, m->session.fd);
}

static uint32_t module_source(const struct response *r)
{
	return r->line.kind->module_source ?: RTGAUGE_SOURCE_EXTERNAL;
}

struct rtgauge_setup response_session(const struct step *step, const struct response *r,
				      uint32_t context)
{
	bool thread = context == RTGAUGE_CONTEXT_KERNEL, cobalt = step->core != &core_linux;
	struct rtgauge_setup setup = {
		.kind = RTGAUGE_KIND_RESPONSE,
		.source = module_source(r),
		.cpu = (uint32_t)r->cpu,
		.contexts = context,
		.flags = module_flags(r, thread) | (cobalt ? RTGAUGE_SETUP_COBALT : 0),
		.room = MODULE_ROOM,
		.gpio_output = r->line.pins.output,
		.gpio_input = r->line.pins.input,
		.debounce_us = (uint32_t)((r->line.how.debounce_ns + 999) / 1000),
		.thread = cobalt && thread ? (uint32_t)r->priority : 0,
	};

	memcpy(setup.gpio_chip, r->line.pins.label, strlen(r->line.pins.label));
	return setup;
}

/* What the module does not find by its name is opened here. */
static int module_give(struct step *step, struct response *r)
{
	int err;

	if (!r->line.kind->give)
		return 0;
	err = line_open(&r->line, &step->msg);
	if (!err)
		err = r->line.kind->give(&r->line, &step->msg);
	return err == -ENODEV ? STEP_SKIPPED : err;
}

static int module_setup_outside(struct step *step, struct response *r, struct module *m)
{
	struct rtgauge_setup *setup = &m->session.setup;
	int err = module_give(step, r);

	if (err)
		return err;
	*setup = response_session(step, r, m->context);
	setup->events = r->samples == INT64_MAX ? 0 : (uint64_t)r->samples;
	setup->delay_ns = (uint32_t)r->delay_ns;
	setup->delay_every = (uint32_t)r->delay_every;
	m->session.record = module_record;
	m->session.state = m;
	err = events_add(step, &m->session, r->priority);
	if (err)
		return err;
	if (module_defers(m))
		m->wake = response_add_series(step, r, "wake-up", m->session.worker, 0);
	m->answer = response_add_series(step, r, "answer", m->session.worker, 0);
	if (m->answer < 0 || (module_defers(m) && m->wake < 0))
		return -ENOMEM;
	return module_listen(step, m);
}

/* --- a loopback --- */

static int64_t module_raised_to_handler(const struct rtgauge_record *record)
{
	return (int64_t)(record->entry_ns - record->raised_ns);
}

static int64_t module_raised_to_thread(const struct rtgauge_record *record)
{
	return record->thread_ns ? (int64_t)(record->thread_ns - record->raised_ns) : INT64_MIN;
}

static int64_t module_handler_to_thread(const struct rtgauge_record *record)
{
	return record->thread_ns ? (int64_t)(record->thread_ns - record->entry_ns) : INT64_MIN;
}

/* It raises the line, and lets it fall half an interval later. */
static int module_check_loopback(struct step *step, struct response *r)
{
	if (r->line.how.edge != LINE_RISING && option_get(&step->options, "edge")->given)
		return module_refuses(step, "the kernel module raises the line: its edge is rising",
				      "omit --edge, or choose --context user");
	if (r->line.how.active_low || r->line.how.bias || r->line.how.debounce_ns)
		return module_refuses(step,
				      "on a loopback the kernel module does not configure the line",
				      "omit --active-low, --bias and --debounce, or choose "
				      "--context user");
	if (r->interval_ns < MODULE_INTERVAL_MIN_NS)
		return module_refuses(step,
				      "the kernel module raises a line at most once every 100 µs",
				      "choose a longer --interval");
	snprintf(r->edge, sizeof(r->edge), "rising");
	return option_effective(&step->options, "edge", "rising");
}

static int module_default_samples(struct step *step, struct response *r)
{
	char text[16];

	if (r->samples != INT64_MAX || r->for_ns != INT64_MAX)
		return 0;
	r->samples = RESPONSE_DEFAULT_EVENTS;
	snprintf(text, sizeof(text), "%d", RESPONSE_DEFAULT_EVENTS);
	return option_effective(&step->options, "samples", text);
}

static struct grid module_grid(const struct response *r, int series, int dither)
{
	return (struct grid){
		.series = series,
		.dither = dither,
		.interval_ns = r->interval_ns,
		.limit_ns = INT64_MAX,
	};
}

static int module_add_loopback(struct step *step, struct response *r, struct module *m)
{
	struct events_session *s = &m->session;
	int dither = -1;

	m->answer = response_add_series(step, r, "response", s->worker, r->interval_ns);
	if (m->answer >= 0 && r->dither)
		dither = response_add_series(step, r, "dither", s->worker, r->interval_ns);
	if (m->answer >= 0 && module_defers(m))
		m->wake = response_add_series(step, r, "wake-up", s->worker, r->interval_ns);
	if (m->answer < 0 || (r->dither && dither < 0) || (module_defers(m) && m->wake < 0))
		return -ENOMEM;
	if (dither >= 0)
		step->series[dither].info.companion = m->answer;
	s->grid[MODULE_RESPONSE] = module_grid(r, m->answer, dither);
	s->grid[MODULE_WAKE] = module_grid(r, m->wake, -1);
	s->value[MODULE_RESPONSE] = module_defers(m) ? module_raised_to_thread :
						       module_raised_to_handler;
	s->value[MODULE_WAKE] = module_handler_to_thread;
	return 0;
}

/* Intervals that begin within the duration, as a thread of user space counts them. 0: no limit. */
static uint64_t module_periods(const struct response *r)
{
	return r->for_ns == INT64_MAX ? 0 : (uint64_t)((r->for_ns - 1) / r->interval_ns + 1);
}

static int module_setup_loopback(struct step *step, struct response *r, struct module *m)
{
	struct rtgauge_setup *setup = &m->session.setup;
	int err = module_check_loopback(step, r);

	if (!err)
		err = module_default_samples(step, r);
	if (err)
		return err;
	*setup = (struct rtgauge_setup){
		.kind = module_defers(m) ? RTGAUGE_KIND_IRQ_TO_THREAD : RTGAUGE_KIND_IRQ_LATENCY,
		.source = RTGAUGE_SOURCE_GPIO,
		.cpu = (uint32_t)r->cpu,
		.contexts = m->context,
		.flags = r->dither ? RTGAUGE_SETUP_DITHER : 0,
		.room = events_room(r->interval_ns),
		.interval_ns = (uint64_t)r->interval_ns,
		.events = r->samples == INT64_MAX ? 0 : (uint64_t)r->samples,
		.periods = module_periods(r),
		.gpio_output = r->line.pins.output,
		.gpio_input = r->line.pins.input,
	};
	memcpy(setup->gpio_chip, r->line.pins.label, strlen(r->line.pins.label));
	err = events_add(step, &m->session, r->priority);
	return err ? err : module_add_loopback(step, r, m);
}

/* --- the way's functions --- */

static int module_setup(struct step *step, struct response *r)
{
	struct module *m = step_alloc(step, 1, sizeof(*m));
	int err;

	if (!m)
		return -ENOMEM;
	r->state = m;
	m->step = step;
	m->response = r;
	m->context = events_context(r->context);
	m->sleeps = m->context == RTGAUGE_CONTEXT_KERNEL;
	m->wake = m->answer = -1;
	m->session.fd = -1;
	for (int i = 0; i < EVENTS_GRIDS; i++)
		m->session.grid[i].series = m->session.grid[i].dither = -1;
	err = module_check(step, r, m->sleeps);
	if (!err)
		err = module_look(step, module_source(r));
	if (err)
		return err;
	return r->line.kind->loops ? module_setup_loopback(step, r, m) :
				     module_setup_outside(step, r, m);
}

static int module_start(struct step *step, struct response *r)
{
	struct module *m = r->state;

	return r->line.kind->loops ? events_start(step, &m->session, step_first_due_ns(step)) : 0;
}

static void module_collect(struct step *step, struct response *r)
{
	struct module *m = r->state;

	if (!r->line.kind->loops)
		response_end_in_time(step, r);
	events_collect(step, &m->session, 1);
}

static void module_stop(struct response *r)
{
	struct module *m = r->state;

	if (m->session.fd >= 0)
		m->ended = !ioctl(m->session.fd, RTGAUGE_STOP) &&
			   !ioctl(m->session.fd, RTGAUGE_STATUS, &m->status);
	/* those after the last record, before the rings are emptied for the last time */
	if (m->ended && !r->line.kind->loops)
		module_lost(m->step, m, (int64_t)m->status.lost);
}

static void module_finish_loopback(struct step *step, struct response *r, const struct module *m)
{
	int64_t came = m->session.grid[MODULE_RESPONSE].count;
	/* when the session was stopped, the thread may have been on its way to the last event */
	int64_t open = r->seen + (int64_t)m->status.missed - came - r->lost - m->session.cut;
	const char *remedy =
		"check that the output is wired to the input, and raise events less often";
	char evidence[160];

	r->answered = came;
	if (open > 0) {
		snprintf(evidence, sizeof(evidence),
			 "%lld of %lld events did not come back in time", (long long)open,
			 (long long)(came + r->lost + open));
	} else if (r->lost) {
		snprintf(evidence, sizeof(evidence),
			 "%lld of %lld events have no record, because the module's ring was full",
			 (long long)r->lost, (long long)(came + r->lost));
		remedy = "read the stream without long pauses, or raise events less often";
	} else {
		snprintf(evidence, sizeof(evidence), "%lld event%s came back in time",
			 (long long)came, came == 1 ? "" : "s");
	}
	step_verdict(step, "every-event-answered",
		     open > 0	      ? "fail" :
		     came && !r->lost ? "pass" :
					"inconclusive",
		     evidence, remedy);
}

static int module_finish(struct step *step, struct response *r)
{
	struct module *m = r->state;
	char text[160];

	if (!m->ended)
		return 0;
	r->seen = (int64_t)m->status.events;
	r->lost = (int64_t)m->status.lost;
	if (r->line.kind->loops) {
		module_finish_loopback(step, r, m);
		return 0;
	}
	r->repeated = (int64_t)m->status.missed;
	/* the handler answers what it has no record for */
	if (!module_defers(m))
		r->answered = r->seen;
	if (!m->status.thread_missed)
		return 0;
	snprintf(text, sizeof(text), "%llu event%s came before the previous one was answered",
		 (unsigned long long)m->status.thread_missed,
		 m->status.thread_missed == 1 ? "" : "s");
	step_message(step, step->duration_ns, text);
	return 0;
}

static void module_cleanup(struct response *r)
{
	struct module *m = r->state;

	if (!m)
		return;
	events_close(&m->session);
}

const struct response_way response_module = {
	.setup = module_setup,
	.start = module_start,
	.collect = module_collect,
	.stop = module_stop,
	.finish = module_finish,
	.cleanup = module_cleanup,
};
