/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Two lines of one GPIO chip: an output that is driven, an input that interrupts. Found by the
 * chip's label and their numbers, and restored.
 */
#ifndef RTGAUGE_LINES_H
#define RTGAUGE_LINES_H

#include <linux/gpio/consumer.h>
#include <linux/interrupt.h>

#include "session.h"

struct lines {
	struct gpio_desc *output, *input;
	bool was_output, was_high; /* the output, as it was found */
	bool driven, debounced;
	int irq; /* of the input; 0: not taken */
};

/*
 * Takes both, the output low, the input with the bias and the debounce of @setup. Chips that sleep
 * are refused. 0 or -errno as of RTGAUGE_SETUP; lines_put() follows either.
 */
int lines_take(struct lines *lines, const struct rtgauge_setup *setup);

/* Whether output and input may be used in a hard interrupt. */
bool lines_hard(const struct lines *lines);

/* The input's interrupt, in hard context, for @s, on its CPU where the chip can. 0 or -errno. */
int lines_request(struct lines *lines, irq_handler_t handler, unsigned long trigger,
		  struct session *s);
void lines_forget(struct lines *lines, struct session *s);

void lines_put(struct lines *lines);

#endif
