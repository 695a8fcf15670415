/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the two ways to drive a board's lines from outside: QEMU's device tests (virtual.c) and
 * its doorbell (virtual_doorbell.c).
 */
#ifndef RTGAUGE_LINES_VIRTUAL_H
#define RTGAUGE_LINES_VIRTUAL_H

#include "lines/line.h"

/* QEMU, or what speaks for it, is to answer in that time. */
#define VIRTUAL_ANSWER_NS 5000000000LL
#define VIRTUAL_DOORBELL "doorbell:"

extern const struct line_kind line_virtual_doorbell;

#endif
