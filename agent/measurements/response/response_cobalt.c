// SPDX-License-Identifier: Apache-2.0
/*
 * Response to an external event by a task of the Cobalt core: the kernel module's handler runs on the
 * core, stamps the edge and wakes the task, which drives the output by another call of the core. Step
 * 2 of the path of a sample is that of a Linux thread (response_user.c), on a line of this kind.
 */
#include "measurements/response/response.h"

#if defined(__x86_64__) || defined(__aarch64__)
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/clock.h"
#include "core/cobalt.h"
#include "methods/events.h"

struct cobalt_line {
	struct events_session session;
	int task; /* the core's descriptor; -1: there is none */
};

/* --- the line --- */

/* The session exists already. */
static int cobalt_line_open(struct line *line, struct message *why)
{
	(void)line;
	(void)why;
	return 0;
}

static int cobalt_line_wait(struct line *line, int64_t until_ns, struct line_event *event)
{
	const struct cobalt_line *own = line->state;
	struct rtgauge_edge edge;
	long got = syscall(COBALT_IOCTL, own->task, RTGAUGE_TAKE, &edge);

	(void)until_ns;
	event->seen_ns = clock_now_ns(CLOCK_MONOTONIC);
	if (got)
		return -errno;
	event->stamp_ns = (int64_t)edge.entry_ns;
	event->level = (edge.flags & RTGAUGE_RECORD_LEVEL) != 0;
	event->lost = edge.lost;
	event->mark = false;
	return 1;
}

static int cobalt_line_drive(struct line *line, int level)
{
	const struct cobalt_line *own = line->state;
	uint32_t wanted = level != 0;

	return syscall(COBALT_IOCTL, own->task, RTGAUGE_DRIVE, &wanted) ? -errno : 0;
}

/* The session lets go of the lines. */
static void cobalt_line_close(struct line *line)
{
	(void)line;
}

static const struct line_kind cobalt_line_kind = {
	.name = "gpio",
	.notation = "CHIP:OUTPUT:INPUT",
	.stamps = true,
	.open = cobalt_line_open,
	.wait = cobalt_line_wait,
	.drive = cobalt_line_drive,
	.close = cobalt_line_close,
};

/* --- the way's functions --- */

static int cobalt_attach(struct step *step, struct cobalt_line *own)
{
	own->task = (int)syscall(COBALT_OPEN, RTGAUGE_TASK_DEVICE, O_RDWR | O_CLOEXEC);
	if (own->task >= 0 && !syscall(COBALT_IOCTL, own->task, RTGAUGE_ATTACH, &own->session.fd))
		return 0;
	return message_set(&step->msg, -errno, "run as root",
			   "a task of the Cobalt core cannot use " RTGAUGE_TASK_DEVICE ": %s",
			   strerror(errno));
}

static int cobalt_setup(struct step *step, struct response *r)
{
	struct cobalt_line *own = step_alloc(step, 1, sizeof(*own));
	int err;

	if (!own)
		return -ENOMEM;
	own->session.fd = own->task = -1;
	r->line.state = own;
	r->line.kind = &cobalt_line_kind;
	if (strlen(r->line.pins.label) >= sizeof(own->session.setup.gpio_chip))
		return step_skip(step, "the chip's label is too long for the kernel module",
				 "choose another chip, or --core linux");
	own->session.setup = response_session(step, r, RTGAUGE_CONTEXT_USER);
	own->session.setup.room = 0;
	for (int i = 0; i < EVENTS_GRIDS; i++)
		own->session.grid[i].series = own->session.grid[i].dither = -1;
	err = events_make(step, &own->session);
	if (!err)
		err = cobalt_attach(step, own);
	if (!err)
		err = response_user.setup(step, r);
	return err ? err : response_listen(step, own->session.fd);
}

static void cobalt_collect(struct step *step, struct response *r)
{
	response_user.collect(step, r);
}

/* The task is the only worker. */
static int cobalt_finish(struct step *step, struct response *r)
{
	const struct cobalt_line *own = r->line.state;

	events_account(step, &own->session);
	return response_user.finish(step, r);
}

static void cobalt_cleanup(struct response *r)
{
	struct cobalt_line *own = r->line.state;

	if (r->line.kind != &cobalt_line_kind || !own)
		return;
	if (own->task >= 0)
		syscall(COBALT_CLOSE, own->task);
	events_close(&own->session);
}

const struct response_way response_cobalt = {
	.setup = cobalt_setup,
	.collect = cobalt_collect,
	.finish = cobalt_finish,
	.cleanup = cobalt_cleanup,
};

#else

/* There is no such core. */
const struct response_way response_cobalt = { .setup = NULL };

#endif
