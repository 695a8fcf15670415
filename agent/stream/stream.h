/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stream: records with sequence number and CRC-32 (docs/formats/stream.md). Step 5 of the path
 * of a sample: packs blocks, and writes them with one system call per drain.
 */
#ifndef RTGAUGE_STREAM_H
#define RTGAUGE_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cbor.h"

/* Body limit of the format, less what stands around the samples. */
#define STREAM_BLOCK_SAMPLES 16000
#define STREAM_BODY_MAX 65536

enum stream_type {
	STREAM_HEADER,
	STREAM_ENVIRONMENT,
	STREAM_SETTING,
	STREAM_SERIES,
	STREAM_SAMPLES,
	STREAM_HISTOGRAM,
	STREAM_EVENT,
	STREAM_CLOCK,
	STREAM_WORK,
	STREAM_TABLE,
	STREAM_VERDICT,
	STREAM_TRAILER,
	STREAM_AMBIENCE,
	STREAM_GAPS,
	STREAM_TRACE,
};

struct stream {
	int fd;		  /* -1: nothing is written, everything is counted */
	bool file;	  /* whose writing waits for no reader */
	size_t pipe_size; /* what an empty pipe takes; 0: not a pipe */
	/* Asked again and again while the reader takes nothing, for so long by now; false: give up.
	 * NULL: wait for ever. */
	bool (*wait_more)(void *arg, int64_t stalled_ns);
	void *wait_arg;
	int64_t records;
	int error;	  /* -errno of the first write that failed; nothing is written after it */
	struct cbor body; /* of the record being made */
	struct cbor out;  /* records not yet written */
	uint32_t crc_table[4][256];
};

/* 0 or -ENOMEM. */
int stream_init(struct stream *stream, int fd);
void stream_free(struct stream *stream);

/* Begin a record: its body, to be filled with one CBOR map. */
struct cbor *stream_begin(struct stream *stream);
void stream_end(struct stream *stream, enum stream_type type);
/*
 * Periods missed within a block, as @words numbers: pairs of a position (so many samples of the
 * block before it) and of the number of periods.
 */
struct stream_gaps {
	const int32_t *pairs;
	size_t words;
};

/* The whole record of a block; @count and the gaps' words at most STREAM_BLOCK_SAMPLES together. */
void stream_samples(struct stream *stream, int series, int64_t index, int64_t due_ns,
		    const int32_t *values, size_t count, struct stream_gaps gaps);
/* The gaps of a block of which the samples are not sent. */
void stream_gaps(struct stream *stream, int series, int64_t index, struct stream_gaps gaps);
/* Write what has gathered. 0 or -errno (-ETIMEDOUT: given up by wait_more()); an error stays. */
int stream_flush(struct stream *stream);
/* The three clocks, read together, as a map. */
void stream_clock_map(struct cbor *c);

uint32_t stream_crc32(const struct stream *stream, const uint8_t *data, size_t size);

#endif
