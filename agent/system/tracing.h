/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's trace of scheduling and interrupts, kept in a ring of the agent's own: an instance
 * below tracefs with its own events, clock and buffers. The kernel writes; the agent reads only
 * after tracing_take(). No tracer runs, so any kernel with event tracing will do.
 */
#ifndef RTGAUGE_TRACING_H
#define RTGAUGE_TRACING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpulist.h"
#include "system/settings.h"

#define TRACING_TEXT (16 * 1024) /* room for the longest text that is read */

struct tracing {
	char instance[96];
	bool made;
	int module; /* its device, 0: tracefs is used */
	bool swaps; /* the kernel has snapshots; else it records nothing while its trace is read */
	size_t page_size;
	uint8_t *pages; /* two */
	char *text;	/* of TRACING_TEXT bytes */
};

/* A stretch of CLOCK_MONOTONIC of a CPU. */
struct tracing_window {
	int cpu;
	int64_t from_ns;
	int64_t to_ns;
};

/* Fill @msg with what failed, why, and the remedy; where the kernel's lockdown forbids traces by
 * tracefs, that is the reason. Returns @err. */
int tracing_fail(const struct tracing *tracing, struct message *msg, int err, const char *reason,
		 const char *remedy, const char *what);

/*
 * Make the instance, with room for the events of @cpus, and with its clock. It records nothing yet.
 * 0, or -errno with a message that contains the remedy.
 */
int tracing_open(struct tracing *tracing, struct settings *settings, const struct cpulist *cpus,
		 struct message *msg);
/* Enable the events that this kernel has, and record from here on. 0 or -errno. */
int tracing_start(const struct tracing *tracing, const struct cpulist *cpus);
/* Nothing is recorded any more, and the buffers' memory is free. The settings' journal removes the
 * instance itself. */
void tracing_close(struct tracing *tracing);

/* The names of the events, one behind the other, up to an empty one. A kernel may lack some of
 * them. */
extern const char tracing_events[];

/* Text of @file of the instance, or of event @number of the module, cut before @end (NULL: not at all), in tracing->text. Its size, or
 * -errno. */
int tracing_read(const struct tracing *tracing, const char *file, int number, const char *end);

/* Hold what was recorded so far, until tracing_release(). 0 or -errno. */
int tracing_take(const struct tracing *tracing);
/* Pass the pages that reach into one of the windows of @cpu to @page, from the oldest on, each
 * without the zeros at its end, at most @most pages. @number counts the pages of the CPU from the
 * oldest on. Returns the number of pages that reach into a window, or -errno: of an error in the middle
 * after the pages before it. */
int tracing_pages(const struct tracing *tracing, int cpu, const struct tracing_window *windows,
		  int count, int most,
		  void (*page)(void *arg, int number, const uint8_t *data, size_t size), void *arg);
void tracing_release(const struct tracing *tracing);

#endif
