// SPDX-License-Identifier: Apache-2.0
/*
 * The text of the timerlat tracer, and its events on their grid, at step 3 of the path of a sample.
 */
#include "methods/timerlat.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/clock.h"

#define TIMERLAT_DIGITS_MAX 18

/* The rest of a line, from its end. */
struct rest {
	const char *text;
	size_t size;
};

static void skip_spaces(struct rest *rest)
{
	while (rest->size && rest->text[rest->size - 1] == ' ')
		rest->size--;
}

/* The last word and the spaces before it: its length; 0: there is none. */
static size_t take_word(struct rest *rest, const char **word)
{
	size_t end;

	skip_spaces(rest);
	end = rest->size;
	while (rest->size && rest->text[rest->size - 1] != ' ')
		rest->size--;
	*word = rest->text + rest->size;
	return end - rest->size;
}

static bool take(struct rest *rest, const char *expected)
{
	const char *word;
	size_t size = take_word(rest, &word);

	return size == strlen(expected) && !memcmp(word, expected, size);
}

static int read_number(const char *text, size_t size, int64_t *number)
{
	int64_t value = 0;

	if (!size || size > TIMERLAT_DIGITS_MAX)
		return -EINVAL;
	for (size_t i = 0; i < size; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -EINVAL;
		value = value * 10 + (text[i] - '0');
	}
	*number = value;
	return 0;
}

/* "12.345678:" */
static int read_time(const char *text, size_t size, int64_t *time_ns)
{
	const char *point = memchr(text, '.', size);
	int64_t seconds, micros;

	if (!point || size < 3 || text[size - 1] != ':' || point - text > 10)
		return -EINVAL;
	if (text + size - 1 - (point + 1) != 6 ||
	    read_number(text, (size_t)(point - text), &seconds) ||
	    read_number(point + 1, 6, &micros))
		return -EINVAL;
	*time_ns = seconds * NSEC_PER_SEC + micros * NSEC_PER_USEC;
	return 0;
}

/* "[007]" */
static int read_cpu(const char *text, size_t size, int *cpu)
{
	int64_t number;

	if (size < 3 || size > 8 || text[0] != '[' || text[size - 1] != ']' ||
	    read_number(text + 1, size - 2, &number))
		return -EINVAL;
	*cpu = (int)number;
	return 0;
}

static int read_context(const char *text, size_t size, enum timerlat_context *context)
{
	static const char *const names[] = { "irq", "thread", "user-ret" };

	for (int i = 0; i < 3; i++) {
		if (size == strlen(names[i]) && !memcmp(text, names[i], size)) {
			*context = (enum timerlat_context)i;
			return 0;
		}
	}
	return -EINVAL;
}

/* "CPU:0 [LOST 12 EVENTS]", or without the number. */
static int read_lost(const char *line, size_t size, struct timerlat_event *event)
{
	struct rest rest = { line, size };
	const char *word;
	int64_t cpu;
	size_t length;

	if (!take(&rest, "EVENTS]"))
		return -EINVAL;
	event->number = 0;
	length = take_word(&rest, &word);
	if (length != 5 || memcmp(word, "[LOST", 5)) {
		if (read_number(word, length, &event->number) || !take(&rest, "[LOST"))
			return -EINVAL;
	}
	length = take_word(&rest, &word);
	if (length < 5 || length > 10 || memcmp(word, "CPU:", 4) ||
	    read_number(word + 4, length - 4, &cpu) || rest.size)
		return -EINVAL;
	event->context = TIMERLAT_LOST;
	event->cpu = (int)cpu;
	return 0;
}

int timerlat_parse(const char *line, size_t size, struct timerlat_event *event)
{
	struct rest rest = { line, size };
	const char *word;
	size_t length;

	memset(event, 0, sizeof(*event));
	if (size && line[size - 1] == ']')
		return read_lost(line, size, event);
	if (!take(&rest, "ns"))
		return -EINVAL;
	length = take_word(&rest, &word);
	if (read_number(word, length, &event->latency_ns) || !take(&rest, "timer_latency"))
		return -EINVAL;
	length = take_word(&rest, &word);
	if (read_context(word, length, &event->context) || !take(&rest, "context"))
		return -EINVAL;
	length = take_word(&rest, &word);
	if (length < 2 || word[0] != '#' || read_number(word + 1, length - 1, &event->number))
		return -EINVAL;
	length = take_word(&rest, &word);
	if (read_time(word, length, &event->time_ns))
		return -EINVAL;
	take_word(&rest, &word); /* flags */
	length = take_word(&rest, &word);
	/* and the task before it */
	return read_cpu(word, length, &event->cpu) || !take_word(&rest, &word) ? -EINVAL : 0;
}

int64_t timerlat_index(struct timerlat_grid *grid, const struct timerlat_event *event)
{
	int64_t due_ns = event->time_ns - event->latency_ns;
	int64_t index;

	if (event->context == TIMERLAT_THREAD && grid->number && event->number == grid->number)
		return grid->index;
	if (event->context != TIMERLAT_IRQ)
		return -1;
	if (!grid->number) {
		grid->first_due_ns = due_ns;
		grid->number = event->number;
		return 0;
	}
	if (event->number <= grid->number)
		return -1;
	index = (due_ns - grid->first_due_ns + grid->interval_ns / 2) / grid->interval_ns;
	/* never less than the activations say, however late a stamp was recorded */
	if (index < grid->index + event->number - grid->number)
		index = grid->index + event->number - grid->number;
	grid->lost += event->number - grid->number - 1;
	grid->number = event->number;
	grid->index = index;
	return index;
}
