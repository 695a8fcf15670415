/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the two kinds of line over a serial port: bytes (serial.c) and modem-control lines
 * (serial_modem.c).
 */
#ifndef RTGAUGE_LINES_SERIAL_H
#define RTGAUGE_LINES_SERIAL_H

#include <termios.h>

#include "lines/line.h"

#define SERIAL_PATH 64

/* A port as it was taken. */
struct serial_port {
	int fd;
	struct termios found;
	bool changed;
};

/* Open the port at @path for one alone: raw, without flow control, blocking. 0, or as of
 * line_kind.open(). */
int serial_port_open(struct serial_port *port, const char *path, struct message *why);
/* Restore the port. One that was not opened has fd -1. */
void serial_port_close(struct serial_port *port);
/* Reason and remedy of a call that failed with @err. */
int serial_refused(const char *path, int err, struct message *why);
/* How many of @edges changes, the last of which was to @level, are events where @edge are. */
static inline uint32_t serial_modem_events(enum line_edge edge, uint32_t edges, int level)
{
	if (edge == LINE_BOTH)
		return edges;
	return (edge == LINE_RISING) == (level != 0) ? edges - edges / 2 : edges / 2;
}

#endif
