// SPDX-License-Identifier: Apache-2.0
/* What went wrong, and the remedy. */
#include "base/message.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int message_set(struct message *msg, int err, const char *remedy, const char *format, ...)
{
	va_list ap;

	if (msg->text[0])
		return err;
	va_start(ap, format);
	vsnprintf(msg->text, sizeof(msg->text), format, ap);
	va_end(ap);
	snprintf(msg->remedy, sizeof(msg->remedy), "%s", remedy ? remedy : "");
	return err;
}

int message_command(struct message *msg, int err, const char *command)
{
	size_t whole = strlen(msg->remedy), part = strlen(command);

	if (whole >= part && !strcmp(msg->remedy + whole - part, command))
		msg->command = command;
	return err;
}
