/* SPDX-License-Identifier: Apache-2.0 */
/* The facts of the target: its kernel, hardware and configuration (docs/formats/environment.md). */
#ifndef RTGAUGE_ENVIRONMENT_H
#define RTGAUGE_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fact_type { FACT_NULL, FACT_TEXT, FACT_INTEGER, FACT_BYTES };

struct fact {
	const char *name;
	enum fact_type type;
	const char *data; /* text (not terminated) or bytes */
	size_t size;
	int64_t number;
};

/*
 * Call @sink for each fact, in the order of their names' table. @everything adds what is large
 * (the kernel's configuration). A fact is at most 60000 bytes; larger ones are cut, and a fact
 * "NAME.cut" says so. Stops at the first non-zero return of @sink and returns it; else 0.
 */
int environment_collect(bool everything, int (*sink)(void *arg, const struct fact *fact),
			void *arg);

#endif
