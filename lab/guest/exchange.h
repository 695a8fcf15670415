/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exchange: memory that the host and the guest of an emulated board share
 * (docs/reference/lab.md). All numbers are little-endian. The host writes orders while the guest
 * stands still; the guest writes answers, then stands still.
 */
#ifndef RTGAUGE_EXCHANGE_H
#define RTGAUGE_EXCHANGE_H

#include <stdint.h>

#define EXCHANGE_MAGIC 0x47545258u	 /* "XRTG" in memory: written by the host */
#define EXCHANGE_GUEST_MAGIC 0x47545259u /* "YRTG": the guest's, in its first answer */
#define EXCHANGE_VERSION 2u

#define EXCHANGE_SAID_AT 4096u /* what a program said on stderr, its first 64 KiB */
#define EXCHANGE_SAID_MAX 65536u
#define EXCHANGE_DATA_AT (EXCHANGE_SAID_AT + EXCHANGE_SAID_MAX)

#define EXCHANGE_OVER UINT64_MAX

enum exchange_order {
	EXCHANGE_RUN = 1,  /* data: argument vector, each text ended by a NUL */
	EXCHANGE_READ = 2, /* bytes of the last program's stdout, from offset on */
	EXCHANGE_PUT =
		3, /* data: a path, a NUL, bytes; written from offset on (0: the file is new) */
	EXCHANGE_OFF = 4, /* the machine ends */
};

struct exchange {
	/* the host's */
	uint32_t magic;
	uint32_t version;
	uint32_t size; /* of the whole exchange */
	uint32_t fill; /* bytes that the pause device takes before it blocks; 0: wait for turn */
	uint32_t turn; /* number of the order, from 1 on */
	uint32_t order;
	uint64_t length; /* bytes of data that belong to the order */
	uint64_t offset;
	/* in plain mode, while a program runs */
	uint64_t taken; /* bytes of its stdout that the host has */
	uint32_t send;	/* the signal to send it, once; 0: none */
	uint32_t host_reserved[3];
	/* the guest's */
	uint32_t guest_magic;
	uint32_t guest_version;
	uint32_t done;	/* number of the order that was answered; 0: the guest is there */
	uint32_t error; /* errno of what could not be done, or 0 */
	int32_t code;	/* the program's exit code; negative: the signal that ended it */
	uint32_t said;	/* bytes at EXCHANGE_SAID_AT */
	uint64_t total; /* bytes that the program wrote to stdout */
	uint64_t given; /* how many of them are at EXCHANGE_DATA_AT, from the offset asked for on */
	int64_t began_ns; /* CLOCK_MONOTONIC before and after the program */
	int64_t ended_ns;
	/* in plain mode, while a program runs: the end of the bytes at EXCHANGE_DATA_AT, which begin
	 * with the first that the host has not taken; EXCHANGE_OVER: an answer comes in their place */
	uint64_t shown;
};

_Static_assert(sizeof(struct exchange) == 128, "the host knows where every field is");

#endif
