/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of measurements, loads and options of the run (catalogue.c). Only main.c uses them. */
#ifndef RTGAUGE_CATALOGUE_H
#define RTGAUGE_CATALOGUE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/option.h"

struct load;
struct measurement;

/* Where an option of the run may be given. */
#define APPLIES_STEP "step"	  /* a step of a plan, and the command line */
#define APPLIES_COMMAND "command" /* the command line alone: a plan must not decide on it */
#define APPLIES_HOST "host"	  /* the host, which sets it itself */

/* Groups of options in the host's help. Its short help leaves out the options that are rare. */
#define GROUP_TARGET "Target and load"
#define GROUP_LINES "Lines"
#define GROUP_RESULTS "Results"

/* What an option changes on the target, which --keep-settings forbids. */
#define CHANGES_SETTINGS "settings"
#define CHANGES_SYSTEM "the system"
#define CHANGES_TRACING "the tracing"

/* An option of every run; the table ends with a NULL name. A flag takes no value here. For a text,
 * `values` is its notation. */
struct catalogue_run_option {
	struct option_info info;
	const char *applies;
	size_t place;	   /* in struct run_request: a bool for a flag, a text, else an int64_t */
	const char *group; /* or NULL */
	bool rare;
	const char *changes; /* or NULL */
};

/* NULL at their ends. */
extern const struct measurement *const catalogue_measurements[];
extern const struct load *const catalogue_loads[]; /* and profiles */
extern const struct catalogue_run_option catalogue_run_options[];

const struct measurement *catalogue_find(const char *name);
/* The same for tasks of the Cobalt core, or NULL. */
const struct measurement *catalogue_on_cobalt(const struct measurement *measurement);
/* All names, separated by single spaces, into @buf. */
const char *catalogue_names(char *buf, size_t size);
/* The option of the run with that name, or NULL. */
const struct catalogue_run_option *catalogue_run_option(const char *name);
/* The JSON document of docs/formats/catalogue.md to stdout. */
void catalogue_describe(void);

#endif
