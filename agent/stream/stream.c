// SPDX-License-Identifier: Apache-2.0
/* Records: step 5 of the path of a sample. */
#include "stream/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"

/* Kept ready from the start, so that nothing is allocated while measuring. */
#define STREAM_OUT_ROOM (256 * 1024)
#define STREAM_WAIT_MS 100

static void stream_know_fd(struct stream *stream)
{
	struct stat st;
	int size;

	if (stream->fd < 0 || fstat(stream->fd, &st))
		return;
	stream->file = S_ISREG(st.st_mode);
	size = S_ISFIFO(st.st_mode) ? fcntl(stream->fd, F_GETPIPE_SZ) : 0;
	stream->pipe_size = size > 0 ? (size_t)size : 0;
}

int stream_init(struct stream *stream, int fd)
{
	memset(stream, 0, sizeof(*stream));
	stream->fd = fd;
	stream_know_fd(stream);
	/* CRC-32, polynomial 0xEDB88320 reflected; three more tables to take four bytes a step */
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t crc = i;

		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
		stream->crc_table[0][i] = crc;
	}
	for (uint32_t i = 0; i < 256; i++)
		for (int t = 1; t < 4; t++) {
			uint32_t crc = stream->crc_table[t - 1][i];

			stream->crc_table[t][i] = crc >> 8 ^ stream->crc_table[0][crc & 0xff];
		}
	if (cbor_room(&stream->body, STREAM_BODY_MAX) ||
	    (fd >= 0 && cbor_room(&stream->out, STREAM_OUT_ROOM))) {
		stream_free(stream);
		return -ENOMEM;
	}
	return 0;
}

void stream_free(struct stream *stream)
{
	cbor_free(&stream->body);
	cbor_free(&stream->out);
}

uint32_t stream_crc32(const struct stream *stream, const uint8_t *data, size_t size)
{
	const uint32_t(*table)[256] = stream->crc_table;
	uint32_t crc = 0xffffffff;

	for (; size >= 4; data += 4, size -= 4) {
		crc ^= (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 |
		       (uint32_t)data[3] << 24;
		crc = table[3][crc & 0xff] ^ table[2][crc >> 8 & 0xff] ^
		      table[1][crc >> 16 & 0xff] ^ table[0][crc >> 24];
	}
	for (; size; data++, size--)
		crc = crc >> 8 ^ table[0][(crc ^ *data) & 0xff];
	return ~crc;
}

struct cbor *stream_begin(struct stream *stream)
{
	cbor_reset(&stream->body);
	return &stream->body;
}

void stream_end(struct stream *stream, enum stream_type type)
{
	int64_t sequence = stream->records++;

	if (stream->fd < 0 || stream->error)
		return;
	if (stream->body.failed || stream->body.size > STREAM_BODY_MAX) {
		stream->error = stream->body.failed ? -ENOMEM : -EMSGSIZE;
		return;
	}
	cbor_array(&stream->out, 4);
	cbor_uint(&stream->out, type);
	cbor_uint(&stream->out, (uint64_t)sequence);
	cbor_bytes(&stream->out, stream->body.data, stream->body.size);
	cbor_uint(&stream->out, stream_crc32(stream, stream->body.data, stream->body.size));
	if (stream->out.failed)
		stream->error = -ENOMEM;
	else if (stream->out.size > STREAM_OUT_ROOM - STREAM_BODY_MAX - 64)
		stream_flush(stream);
}

/* 32-bit numbers, little-endian whatever this machine is (RFC 8746, tag 78). */
static void stream_put_words(struct cbor *c, const char *key, const int32_t *words, size_t count)
{
	cbor_text(c, key);
	cbor_tag(c, 78);
	cbor_bytes(c, words, count * sizeof(*words));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	if (!c->failed) {
		uint8_t *at = c->data + c->size - count * sizeof(*words);

		for (size_t i = 0; i < count; i++, at += sizeof(*words)) {
			uint32_t word = __builtin_bswap32((uint32_t)words[i]);

			memcpy(at, &word, sizeof(word));
		}
	}
#endif
}

void stream_samples(struct stream *stream, int series, int64_t index, int64_t due_ns,
		    const int32_t *values, size_t count, struct stream_gaps gaps)
{
	struct cbor *c = stream_begin(stream);

	cbor_map(c, 4 + (gaps.words != 0));
	cbor_put_int(c, "series", series);
	cbor_put_int(c, "index", index);
	cbor_put_int(c, "due_ns", due_ns);
	stream_put_words(c, "samples", values, count);
	if (gaps.words)
		stream_put_words(c, "gaps", gaps.pairs, gaps.words);
	stream_end(stream, STREAM_SAMPLES);
}

void stream_gaps(struct stream *stream, int series, int64_t index, struct stream_gaps gaps)
{
	struct cbor *c = stream_begin(stream);

	cbor_map(c, 3);
	cbor_put_int(c, "series", series);
	cbor_put_int(c, "index", index);
	stream_put_words(c, "gaps", gaps.pairs, gaps.words);
	stream_end(stream, STREAM_GAPS);
}

/* Wait until the reader takes more. 0 or -errno. */
static int stream_wait(const struct stream *stream)
{
	struct pollfd one = { .fd = stream->fd, .events = POLLOUT };
	int64_t since_ns = clock_now_ns(CLOCK_MONOTONIC);

	for (;;) {
		int ready = poll(&one, 1, STREAM_WAIT_MS);

		if (ready > 0)
			return 0;
		if (ready < 0 && errno != EINTR)
			return -errno;
		if (stream->wait_more &&
		    !stream->wait_more(stream->wait_arg, clock_now_ns(CLOCK_MONOTONIC) - since_ns))
			return -ETIMEDOUT;
	}
}

/*
 * How much of @size can be written at once so that write() itself does not wait, where no signal's
 * handler and no order of the host could end it; or -errno.
 */
static ssize_t stream_portion(const struct stream *stream, size_t size)
{
	size_t most = PIPE_BUF; /* what a pipe takes once poll() says that it takes anything */
	int held = 1, err;

	if (stream->file)
		return (ssize_t)size;
	if (stream->pipe_size && !ioctl(stream->fd, FIONREAD, &held) && !held)
		most = stream->pipe_size;
	err = stream_wait(stream);
	return err ? err : (ssize_t)(size < most ? size : most);
}

int stream_flush(struct stream *stream)
{
	size_t done = 0;

	while (stream->fd >= 0 && !stream->error && done < stream->out.size) {
		ssize_t some = stream_portion(stream, stream->out.size - done);
		ssize_t wrote;

		if (some < 0) {
			stream->error = (int)some;
			break;
		}
		wrote = write(stream->fd, stream->out.data + done, (size_t)some);
		if (wrote > 0)
			done += (size_t)wrote;
		else if (!wrote)
			stream->error = -EIO;
		else if (errno != EINTR && errno != EAGAIN)
			stream->error = -errno;
	}
	cbor_reset(&stream->out);
	return stream->error;
}

void stream_clock_map(struct cbor *c)
{
	/* the middle one is read between two readings of the first, whose mean is sent with it */
	int64_t before_ns = clock_now_ns(CLOCK_MONOTONIC);
	int64_t realtime_ns = clock_now_ns(CLOCK_REALTIME);
	int64_t boottime_ns = clock_now_ns(CLOCK_BOOTTIME);
	int64_t after_ns = clock_now_ns(CLOCK_MONOTONIC);

	cbor_map(c, 3);
	cbor_put_int(c, "monotonic_ns", before_ns + (after_ns - before_ns) / 2);
	cbor_put_int(c, "boottime_ns", boottime_ns);
	cbor_put_int(c, "realtime_ns", realtime_ns);
}
