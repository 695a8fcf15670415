/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of the kernel module (kmod/rtgauge.h): sessions, one for each CPU, and their records put
 * into series. The draining thread reads them, so it is both the producer and the consumer of these
 * series. The module's ring bridges the time until it runs. docs/reference/kernel-module.md defines
 * the stamps.
 */
#ifndef RTGAUGE_EVENTS_H
#define RTGAUGE_EVENTS_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/types.h>

#include "methods/grid.h"
#include "rtgauge.h"
#include "run/step.h"

#define EVENTS_GRIDS 2

/* Values of an option: contexts of the kernel that the handler of an event defers its work to. */
#define EVENTS_DEFERRED "kernel softirq workqueue threaded"

struct events_session {
	int fd;	    /* -1: there is none */
	int worker; /* the foreign worker that stands for it */
	struct rtgauge_setup setup;
	/* a stamp of the record less another is the sample; INT64_MIN: there is none */
	int64_t (*value[EVENTS_GRIDS])(const struct rtgauge_record *record);
	/* where there is no grid: puts its samples, with @state; else NULL */
	void (*record)(struct step *step, struct events_session *s,
		       const struct rtgauge_record *record);
	void *state;
	struct grid grid[EVENTS_GRIDS];
	int64_t next; /* index after the last record */
	int64_t lost; /* found the module's ring full */
	bool cut;     /* the session ended before the thread ran for the last record */
	bool stopped;
};

/* Builds and loads the module. */
#define EVENTS_LOAD "rtgauge module load"
#define EVENTS_REMEDY "build and load the kernel module: " EVENTS_LOAD
/* The remedy for a module of another version than this agent. */
#define EVENTS_RENEW \
	"load the module of this version (rtgauge module unload, then rtgauge module load)"

/* A file of the module, of the version that this agent knows: descriptor, or -errno with reason and
 * remedy. */
int events_open(struct message *why);

/* What source @name ("auto": the one that is taken) is, and whether it is available. 0, or -errno with
 * reason and remedy. */
int events_source(const char *name, const char *gpio, struct rtgauge_source *source,
		  struct message *why);
/* "CHIP:OUTPUT:INPUT" of the option gpio, into the fields of a set-up. 0 or -EINVAL. */
int events_parse_gpio(const char *text, char chip[32], uint32_t *output, uint32_t *input);

/* RTGAUGE_CONTEXT_* by its name; 0 for other names. */
uint32_t events_context(const char *name);

/* In setup(): the session of @s->setup. 0, STEP_SKIPPED, or -errno with the step's message. */
int events_make(struct step *step, struct events_session *s);
/* The same, and its records are read by events_collect(): with a foreign worker at @priority. 0, STEP_SKIPPED, or -errno
 * with the step's message. */
int events_add(struct step *step, struct events_session *s, int priority);
/* In start(): grid point 0 is at @first_due_ns of the step. 0 or -errno with the step's message. */
int events_start(struct step *step, struct events_session *s, int64_t first_due_ns);
/* In collect(): the records of all of them, into their series. */
void events_collect(struct step *step, struct events_session *s, int count);
/* At the end: what became of it, to the stream where it was not as asked for; a session that failed
 * fails the run. Its last status. */
struct rtgauge_status events_account(struct step *step, const struct events_session *s);
void events_close(struct events_session *s);

/* A thread in user space sleeps until the next event of a session. False: no event will follow. */
static inline bool events_wait(const struct step *step, int fd, struct rtgauge_wait *wait)
{
	do {
		wait->flags = 0;
		if (!ioctl(fd, RTGAUGE_WAIT, wait))
			return true;
	} while (errno == EINTR && !step_stopped(step));
	return false;
}

/* When such a thread ends: the points before it have no further sample (grid_end()). 0: not known. */
int64_t events_passed(const struct step *step, const struct events_session *s);

/* Room for records: for so many seconds, within the module's limit. */
uint32_t events_room(int64_t interval_ns);

#endif
