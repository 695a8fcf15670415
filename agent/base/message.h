/* SPDX-License-Identifier: Apache-2.0 */
/* What went wrong, and the remedy. The function that fails fills it, and main prints it. */
#ifndef RTGAUGE_MESSAGE_H
#define RTGAUGE_MESSAGE_H

struct message {
	char text[384];
	char remedy[256];
	const char *command; /* at the end of the remedy, which hosts print separately; or NULL */
};

/*
 * Fill @msg (the first one stays: a later failure while unwinding does not hide the cause) and
 * return @err, so that "return message_set(msg, -EINVAL, remedy, format, ...)" reads in one line.
 */
int message_set(struct message *msg, int err, const char *remedy, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* Record that the remedy ends with the constant @command, unless the message is that of an earlier
 * failure. Returns @err. */
int message_command(struct message *msg, int err, const char *command);

#endif
