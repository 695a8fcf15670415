/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR Apache-2.0 */
/*
 * What an emulated board shares with the program that drives its lines from outside: the memory of
 * QEMU's device ivshmem-doorbell. docs/reference/lab.md says which of them rings when.
 *
 * All numbers are little-endian. A line is the number of its changes since the memory was made:
 * its lowest bit is the level. So one word, written in one access, gives the level and the number of
 * edges since the last look at it. Every lost edge is counted.
 */
#ifndef RTGAUGE_DOORBELL_H
#define RTGAUGE_DOORBELL_H

#include <linux/types.h>

#define DOORBELL_MAGIC 0x44475452
#define DOORBELL_VERSION 1
#define DOORBELL_LINES 8

struct doorbell_memory {
	/* by the maker of the memory, before anybody sees it */
	__u32 magic;
	__u32 version;
	__u32 lines;
	__u32 peer; /* number of the outside, which the board rings */
	/* by the board */
	__u32 board;  /* 1: it hears its doorbell */
	__u32 merged; /* changes of its inputs that came together with another one */
	__u32 reserved[10];
	__u32 in[DOORBELL_LINES];  /* by the outside: changes of the board's inputs */
	__u32 out[DOORBELL_LINES]; /* by the board: changes of its outputs */
};

#endif
