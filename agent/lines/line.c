// SPDX-License-Identifier: Apache-2.0
/* Lines: functions that the kinds of line share. */
#include "lines/line.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"

struct line_how line_how(const struct option_set *options, bool asks)
{
	return (struct line_how){
		.edge = (enum line_edge)option_number(options, "edge"),
		.bias = (enum line_bias)option_number(options, "bias"),
		.active_low = option_number(options, "active-low") != 0,
		.debounce_ns = option_number(options, "debounce"),
		.asks = asks,
	};
}

void line_close(struct line *line)
{
	if (line->kind && line->state)
		line->kind->close(line);
	line->state = NULL;
}

int line_poll_any(struct pollfd *ends, int count, int64_t until_ns)
{
	struct timespec rest = { 0, 0 };
	int ready;

	if (until_ns != LINE_FOREVER) {
		int64_t rest_ns = until_ns - clock_now_ns(CLOCK_MONOTONIC);

		if (rest_ns > 0)
			rest = clock_from_ns(rest_ns);
	}
	ready = ppoll(ends, (nfds_t)count, until_ns == LINE_FOREVER ? NULL : &rest, NULL);
	return ready < 0 ? -errno : ready;
}

int line_poll(int fd, short events, int64_t until_ns)
{
	struct pollfd one = { .fd = fd, .events = events };

	return line_poll_any(&one, 1, until_ns);
}

bool line_word(const char **text, char *word, size_t size)
{
	size_t length = strcspn(*text, ":");

	if (!length || length >= size)
		return false;
	memcpy(word, *text, length);
	word[length] = '\0';
	*text += length + ((*text)[length] == ':');
	return true;
}

int line_split(const char *text, int words, char chip[64], char lines[3][40])
{
	const char *end = text + strlen(text);

	for (int i = words - 1; i >= 0; i--) {
		const char *start = end;

		while (start > text && start[-1] != ':')
			start--;
		if (start <= text || end == start || end - start >= 40)
			return -EINVAL;
		memcpy(lines[i], start, (size_t)(end - start));
		lines[i][end - start] = '\0';
		end = start - 1;
	}
	if (end == text || end - text >= 64)
		return -EINVAL;
	memcpy(chip, text, (size_t)(end - text));
	chip[end - text] = '\0';
	return 0;
}

int line_number(const char **text, int count, int *number)
{
	char word[8];
	int64_t value;

	if (!line_word(text, word, sizeof(word)) || option_parse_integer(word, &value) ||
	    value < 0 || value >= count)
		return -EINVAL;
	*number = (int)value;
	return 0;
}
