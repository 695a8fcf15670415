/* SPDX-License-Identifier: GPL-2.0-only */
/* The line discipline by which user space gives a serial port to the module. */
#ifndef RTGAUGE_SERIAL_H
#define RTGAUGE_SERIAL_H

/* 0 or -errno. */
int serial_init(void);
void serial_exit(void);

#endif
