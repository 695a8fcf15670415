/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer to an external event: shared by its contexts and ways. A way is one file with one
 * struct response_way, which response.c chooses.
 */
#ifndef RTGAUGE_RESPONSE_H
#define RTGAUGE_RESPONSE_H

#include <stdbool.h>
#include <stdint.h>

#include "lines/line.h"
#include "rtgauge.h"
#include "run/step.h"

#define RESPONSE_DEFAULT_EVENTS 1000

struct response;

/* Functions of struct measurement, in their order; those that may be NULL there may be here, too. */
struct response_way {
	int (*setup)(struct step *step, struct response *r);
	int (*start)(struct step *step, struct response *r);
	void (*collect)(struct step *step, struct response *r);
	void (*stop)(struct response *r);
	int (*finish)(struct step *step, struct response *r);
	void (*cleanup)(struct response *r);
};

struct response {
	const struct response_way *way;
	struct line line; /* parsed; a way that works on it itself opens it */
	const char *context;
	char edge[16];
	char delayed[64]; /* how answers are delayed on purpose; "": they are not */
	int cpu;
	int priority;
	int64_t samples; /* events, or INT64_MAX */
	int64_t for_ns;	 /* or INT64_MAX */
	int64_t delay_ns;
	int64_t delay_every; /* every so many answers one is delayed by that; 0: none */
	int64_t interval_ns; /* loopback: from one event to the next … */
	bool dither;	     /* … moved within it */
	bool toggles;	     /* an answer changes the output; else it gets the input's level */

	/* the table `events` */
	int64_t seen;
	int64_t answered;
	int64_t lost;
	int64_t repeated; /* edges to the level that the line had already */

	int error; /* of the line, while measuring */
	const char *failing;
	void *state; /* the way's own */
};

extern const struct response_way response_user;
extern const struct response_way response_loopback;
extern const struct response_way response_cobalt; /* a task of the core, through the module */
extern const struct response_way response_module; /* the contexts of the kernel, loopback or not */

/* A series of what the line does; -errno, or its number. @interval_ns: 0 where it has no grid. */
int response_add_series(struct step *step, const struct response *r, const char *name, int thread,
			int64_t interval_ns);
/* A session of the kernel module that hears the line's edges in @context, RTGAUGE_CONTEXT_*. */
struct rtgauge_setup response_session(const struct step *step, const struct response *r,
				      uint32_t context);
/* In setup(): the module hears the line from here on. 0, or -errno with the step's message. */
int response_listen(struct step *step, int fd);
/* From the draining thread: whether the time is up; then all workers are ended. */
void response_end_in_time(struct step *step, const struct response *r);

#endif
