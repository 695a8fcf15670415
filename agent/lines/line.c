// SPDX-License-Identifier: Apache-2.0
/* Lines: the table of their kinds, and what these share. */
#include "lines/line.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

static const struct line_kind *const line_kinds[] = { &line_gpio,   &line_loopback, &line_net,
						      &line_serial, &line_virtual,  NULL };

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

static int line_unknown(const char *text, struct message *why)
{
	char names[LINE_KINDS_ROOM] = "", remedy[2 * LINE_KINDS_ROOM];
	size_t used = 0;

	for (int i = 0; line_kinds[i] && used < sizeof(names); i++)
		used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", i ? ", " : "",
					 line_kinds[i]->name);
	snprintf(remedy, sizeof(remedy), "give --line KIND:..., with a kind of %s", names);
	return text[0] ? message_set(why, -EINVAL, remedy, "'%.80s' names no line", text) :
			 message_set(why, -ENODEV, remedy, "no line is named");
}

int line_parse(struct line *line, const char *text, struct line_how how, struct message *why)
{
	size_t size = strcspn(text, ":");

	*line = (struct line){ .how = how };
	for (int i = 0; text[size] && line_kinds[i]; i++)
		if (strlen(line_kinds[i]->name) == size &&
		    !strncmp(line_kinds[i]->name, text, size))
			line->kind = line_kinds[i];
	if (how.marks && line->kind != &line_gpio) {
		line->kind = NULL;
		return message_set(why, -EINVAL, "give it as gpio:CHIP:LINE: gpio:gpiochip0:17",
				   "'%.80s' is no line to mark on", text);
	}
	if (!line->kind)
		return line_unknown(text, why);
	line->text = text + size + 1;
	return line->kind->parse(line, why);
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
