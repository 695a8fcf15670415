// SPDX-License-Identifier: Apache-2.0
/* The one table of the kinds of line. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lines/line.h"

/* @other is tried where @kind refuses what is named: another interface to lines of that name. */
static const struct line_row {
	const struct line_kind *kind, *other;
} line_rows[] = {
	{ &line_gpio, &line_gpio_sysfs },
	{ &line_loopback, &line_loopback_sysfs },
	{ &line_net, NULL },
	{ &line_parallel, NULL },
	{ &line_serial, &line_serial_modem },
	{ &line_virtual, NULL },
	{ NULL, NULL },
};

static int line_unknown(const char *text, struct message *why)
{
	char names[LINE_KINDS_ROOM] = "", remedy[2 * LINE_KINDS_ROOM];
	size_t used = 0;

	for (int i = 0; line_rows[i].kind && used < sizeof(names); i++)
		used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", i ? ", " : "",
					 line_rows[i].kind->name);
	snprintf(remedy, sizeof(remedy), "use --line KIND:..., where KIND is one of %s", names);
	return text[0] ? message_set(why, -EINVAL, remedy, "'%.80s' is not a line", text) :
			 message_set(why, -ENODEV, remedy, "no line was given");
}

static const struct line_row *line_find(const char *name, size_t size)
{
	const struct line_row *row = line_rows;

	while (row->kind &&
	       (strlen(row->kind->name) != size || strncmp(row->kind->name, name, size)))
		row++;
	return row;
}

int line_parse(struct line *line, const char *text, struct line_how how, struct message *why)
{
	size_t size = strcspn(text, ":");
	const struct line_row *row = line_find(text, size);
	struct message others;
	int err;

	*line = (struct line){ .how = how };
	if (how.marks && (!text[size] || row->kind != &line_gpio))
		return message_set(why, -EINVAL,
				   "use the form gpio:CHIP:LINE, such as gpio:gpiochip0:17",
				   "'%.80s' is not a GPIO line", text);
	if (!text[size] || !row->kind)
		return line_unknown(text, why);
	line->text = text + size + 1;
	line->kind = row->kind;
	err = row->kind->parse(line, why);
	if (!err || how.marks || !row->other)
		return err;
	line->kind = row->other;
	if (row->other->parse(line, &others)) {
		line->kind = row->kind;
		return err;
	}
	memset(why, 0, sizeof(*why));
	return 0;
}
