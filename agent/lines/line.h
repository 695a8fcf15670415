/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines: how an event comes in from outside, and how an answer goes out. `response` and `log-host`
 * work with each kind of line. A kind is one file in lines/ with one struct line_kind, which has a
 * row in the table of kinds.c. docs/reference/lines.md has their notation. Levels are logical: 0 is
 * the idle level, and active-low selects the voltage.
 */
#ifndef RTGAUGE_LINE_H
#define RTGAUGE_LINE_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/message.h"
#include "base/option.h"

#define LINE_FOREVER INT64_MAX
#define LINE_KINDS_ROOM 128

/* In the order of the options' values. */
enum line_edge { LINE_BOTH, LINE_RISING, LINE_FALLING };
enum line_bias { LINE_BIAS_AS_IS, LINE_BIAS_DISABLED, LINE_BIAS_UP, LINE_BIAS_DOWN };

/* How the lines are wanted. */
struct line_how {
	enum line_edge edge; /* of the input, that are events */
	enum line_bias bias; /* of the input */
	bool active_low;     /* all lines */
	int64_t debounce_ns; /* of the input; 0: none */
	bool asks;	     /* raises events and waits for answers; else it waits for events */
	bool marks;	     /* an output alone, of the kind gpio (mark.h) */
};

/* Lines of one GPIO chip, as parsed and found there (the kinds gpio and loopback), or of a port that
 * the kernel module has (serial-modem, parallel). */
struct line_pins {
	char path[64];	/* of the character device; "" where the chip is only found below /sys */
	char label[64]; /* of the chip, as gpiodetect shows it; or the port's name */
	uint32_t output;
	uint32_t input; /* not where the line marks */
	uint32_t mark;
	bool marked; /* there is a line MARK */
};

struct line_event {
	int64_t stamp_ns; /* CLOCK_MONOTONIC, by the kernel, in its handler; 0: it does not say */
	int64_t seen_ns;  /* CLOCK_MONOTONIC: the first act of the thread that waited */
	int level;	  /* after the edge */
	uint32_t lost;	  /* edges that the kernel had no room for, just before this one */
	bool mark;	  /* of the line MARK, not of the input */
};

struct line_kind;

struct line {
	const struct line_kind *kind;
	const char *text; /* as given, without the kind; lives as long as the options */
	struct line_how how;
	struct line_pins pins;
	int64_t foreign; /* inputs that were not events */
	int64_t merged; /* edges that came to the other machine together with one more, if it says */
	void *state;	/* the kind's own */
};

struct line_kind {
	const char *name;
	const char *notation; /* behind the name and a colon, for messages */
	bool stamps;	      /* the kernel stamps edges */
	bool loops;	      /* output and input are wired to each other */
	bool messages;	      /* an edge is a message: the line has no level to return to rest */
	/* Read line->text, without touching the lines. 0, or -errno as of open(). */
	int (*parse)(struct line *line, struct message *why);
	/*
	 * Take the lines; the output is driven to 0. 0, or -errno with reason and remedy: -EINVAL
	 * where the user has named something wrong, -ENODEV where this machine has no such thing (the
	 * step is skipped), anything else fails the step.
	 */
	int (*open)(struct line *line, struct message *why);
	/*
	 * Wait for an edge until CLOCK_MONOTONIC is @until_ns; a pending edge is returned even
	 * after that. Returns 1 with @event filled, 0 when none came or the input was not an event,
	 * -EINTR after a signal, or -errno. Allocates nothing. Edges that line->how does not want are
	 * not returned.
	 */
	int (*wait)(struct line *line, int64_t until_ns, struct line_event *event);
	/* Drive the output. 0 or -errno. Allocates nothing. */
	int (*drive)(struct line *line, int level);
	/* For the contexts of the kernel, on lines other than those of a GPIO chip.
	 * module_source: the source of the kernel module for this kind. wanted(): whether it can answer on
	 * this line, in @context (as an option names it), which is not open yet. give(): gives the open
	 * line to the module and fills line->pins; close() takes it back. NULL: the module takes the line
	 * itself, by line->pins as parsed. Both as open(). */
	uint32_t module_source;
	int (*wanted)(const struct line *line, const char *context, struct message *why);
	int (*give)(struct line *line, struct message *why);
	/* Release the lines, in their former state where the kernel allows it. */
	void (*close)(struct line *line);
};

extern const struct line_kind line_gpio;
extern const struct line_kind line_loopback;
extern const struct line_kind line_gpio_sysfs; /* for kernels without GPIO character devices */
extern const struct line_kind line_loopback_sysfs;
extern const struct line_kind line_net;
extern const struct line_kind line_parallel;
extern const struct line_kind line_serial;
extern const struct line_kind line_serial_modem;
extern const struct line_kind line_virtual;

/* Common options of `response` and `log-host`. */
#define LINE_OPTIONS(edge_help)                                                                    \
	{ "line",                                                                                  \
	  OPTION_TEXT,                                                                             \
	  "",                                                                                      \
	  0,                                                                                       \
	  0,                                                                                       \
	  NULL,                                                                                    \
	  "output that this machine drives and input that it reads, as KIND:..." },                \
		{ "edge", OPTION_ENUM, "both", 0, 0, "both rising falling", edge_help },           \
		{ "bias",                                                                          \
		  OPTION_ENUM,                                                                     \
		  "as-is",                                                                         \
		  0,                                                                               \
		  0,                                                                               \
		  "as-is disabled pull-up pull-down",                                              \
		  "bias of the input line" },                                                      \
		{ "active-low", OPTION_FLAG, "no", 0, 0, NULL, "lines rest at the high voltage" }, \
	{                                                                                          \
		"debounce", OPTION_DURATION, "0", 0, 1000000000, NULL,                             \
			"time for which the input has to be stable; 0: no debouncing"              \
	}

/* The options above. */
struct line_how line_how(const struct option_set *options, bool asks);
/* Read @text (KIND:...), which has to live as long as @line. 0, or -errno as of open(). */
int line_parse(struct line *line, const char *text, struct line_how how, struct message *why);

static inline int line_open(struct line *line, struct message *why)
{
	return line->kind->open(line, why);
}

static inline int line_wait(struct line *line, int64_t until_ns, struct line_event *event)
{
	return line->kind->wait(line, until_ns, event);
}

static inline int line_drive(struct line *line, int level)
{
	return line->kind->drive(line, level);
}

/* Also a line that was parsed only, or not even that. */
void line_close(struct line *line);

/* --- for kinds --- */

/* Whether an edge to @level is an event. */
static inline bool line_wants(const struct line *line, int level)
{
	return line->how.edge == LINE_BOTH || (line->how.edge == LINE_RISING) == (level != 0);
}

/* Wait until @fd has one of the poll(2) @events, or until @until_ns: 1, 0 or -errno. */
int line_poll(int fd, short events, int64_t until_ns);
/* The same for one of several. */
int line_poll_any(struct pollfd *ends, int count, int64_t until_ns);
/* The next of the words of *@text, separated by colons, into @word; *@text is moved behind it. false:
 * there is none, or it is longer than @size - 1. */
bool line_word(const char **text, char *word, size_t size);
/* The next word as a number, 0 to @count - 1. 0 or -EINVAL. */
int line_number(const char **text, int count, int *number);
/* CHIP and @words lines after it, separated by colons. The name of a chip may contain colons. 0 or
 * -EINVAL. */
int line_split(const char *text, int words, char chip[64], char lines[3][40]);

#endif
