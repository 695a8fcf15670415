/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Disturbances that are injected on purpose, to check that they are found. The module
 * rtgauge_disturb is inserted for one step, and removed at its end (by the guardian or the next
 * start, if the agent could not). docs/reference/disturb.md has the kinds, and the expected effect
 * of each.
 */
#ifndef RTGAUGE_DISTURB_H
#define RTGAUGE_DISTURB_H

#include <stdint.h>

#include "base/message.h"
#include "system/settings.h"

#define DISTURB_MODULE "rtgauge_disturb"

/* KIND:LENGTH:PERIOD, read. */
struct disturb {
	const char *kind;
	int64_t length_ns;
	int64_t period_ns;
};

/* Counters of the module. */
struct disturb_counts {
	int64_t done;
	int64_t late;
	int64_t longest_ns;
};

/* Read a disturbance as the command line has it. 0, or -EINVAL with what there is instead. */
int disturb_parse(struct disturb *disturb, const char *text, struct message *msg);

/*
 * Insert the module so that it disturbs @cpu: the file @module, or where that is NULL the one for
 * this kernel next to the agent or among the kernel's own. The journal knows of it before it is
 * there. 0 or -errno with a message; -EEXIST: it is there already, put in by someone else.
 */
int disturb_insert(const struct disturb *disturb, const char *module, int cpu,
		   struct settings *settings, struct message *msg);

/* Reads the module's counters. 0 or -errno. */
int disturb_read(struct disturb_counts *counts);

/* Remove it, and say so in the journal. 0, or -errno: then the journal still has it. */
int disturb_remove(struct settings *settings);

#endif
