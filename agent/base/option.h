/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of measurements and loads: one table feeds the parser, --help and the catalogue
 * (docs/formats/catalogue.md has the types and their notation).
 */
#ifndef RTGAUGE_OPTION_H
#define RTGAUGE_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/message.h"

enum option_type {
	OPTION_DURATION,
	OPTION_INTEGER,
	OPTION_SIZE,
	OPTION_CPUS,
	OPTION_ENUM,
	OPTION_ENUMS, /* some of the values, separated by commas, each once, in the order given */
	OPTION_FLAG,
	OPTION_TEXT,
};

/* One row of an option table; the table ends with a row whose name is NULL. */
struct option_info {
	const char *name;
	enum option_type type;
	const char *def; /* default, in the notation of the command line; never NULL */
	int64_t min;	 /* in ns (duration) or bytes (size). Both 0: no limits. */
	int64_t max;
	const char *values; /* enum, enums: the values, separated by single spaces */
	const char *help;
};

/* The value of one option: as text (the one in effect), and read. */
struct option_value {
	const struct option_info *info;
	bool given;
	char *asked;	/* text as given, NULL if not given */
	int64_t number; /* duration in ns, integer, size in bytes, flag 0/1, enum: number of the
			 * value, enums: how many */
	char *text;	/* in effect; settable by the measurement through option_effective() */
};

struct option_set {
	struct option_value *values;
	size_t count;
};

/* Make a set holding the defaults of @table. 0 or -ENOMEM. */
int option_set_init(struct option_set *set, const struct option_info *table);
void option_set_free(struct option_set *set);

/* Give @name the value @text. -EINVAL with the nearest known name, or the range, in @msg. */
int option_set_parse(struct option_set *set, const char *name, const char *text,
		     struct message *msg);

/* The value of an option of the table; a name that is not in the table is a bug and aborts. */
const struct option_value *option_get(const struct option_set *set, const char *name);
bool option_known(const struct option_set *set, const char *name);
int64_t option_number(const struct option_set *set, const char *name);
const char *option_text(const struct option_set *set, const char *name);
/* A size of memory. SIZE_MAX, which no allocation can have, if it is more than a process has
 * addresses. */
size_t option_size(const struct option_set *set, const char *name);

/* Record what took effect where it is not what was asked for; "" where the option has no say. 0 or
 * -ENOMEM. */
int option_effective(struct option_set *set, const char *name, const char *text);

/* The number of @text (@size letters) among @values, which single spaces separate, or -1. */
int64_t option_value_number(const char *values, const char *text, size_t size);

/* Read @text as a value of @info, within its limits, into @number (as in struct option_value). 0, or
 * -EINVAL with a message. */
int option_read(const struct option_info *info, const char *text, int64_t *number,
		struct message *msg);

/* Single notations; 0 or -EINVAL/-ERANGE. option_parse_duration gives ns. */
int option_parse_duration(const char *text, int64_t *ns);
int option_parse_integer(const char *text, int64_t *number);
int option_parse_size(const char *text, int64_t *bytes);

/* The shortest exact notation of a duration, such as "1.5ms", into @buf (32 bytes are enough). */
const char *option_format_duration(int64_t ns, char *buf, size_t size);

/* A duration for people in µs, such as "6 377 µs", rounded as in reports, into @buf (48 bytes). */
const char *option_format_us(int64_t ns, char *buf, size_t size);

/* The nearest of @names (separated by single spaces) to @name, or NULL if none is near. */
const char *option_nearest(const char *name, const char *names, char *buf, size_t size);

#endif
