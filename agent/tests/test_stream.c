// SPDX-License-Identifier: Apache-2.0
/* Tests of stream.c and cbor.c: bytes as docs/formats/stream.md and RFC 8949 have them. TAP. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stream/stream.h"
#include "tap.h"

static bool bytes_are(const struct cbor *c, const char *hex)
{
	size_t size = strlen(hex) / 2;

	if (c->failed || c->size != size)
		return false;
	for (size_t i = 0; i < size; i++) {
		char two[3] = { hex[2 * i], hex[2 * i + 1], 0 };

		if (c->data[i] != strtol(two, NULL, 16))
			return false;
	}
	return true;
}

/* The examples of RFC 8949, appendix A. */
static void test_integers(void)
{
	static const struct {
		int64_t value;
		const char *hex;
	} examples[] = {
		{ 0, "00" },
		{ 1, "01" },
		{ 10, "0a" },
		{ 23, "17" },
		{ 24, "1818" },
		{ 25, "1819" },
		{ 100, "1864" },
		{ 1000, "1903e8" },
		{ 1000000, "1a000f4240" },
		{ 1000000000000, "1b000000e8d4a51000" },
		{ -1, "20" },
		{ -10, "29" },
		{ -100, "3863" },
		{ -1000, "3903e7" },
		{ INT64_MIN, "3b7fffffffffffffff" },
		{ INT64_MAX, "1b7fffffffffffffff" },
	};
	struct cbor c = { 0 };

	for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
		cbor_reset(&c);
		cbor_int(&c, examples[i].value);
		tap_check(bytes_are(&c, examples[i].hex), "%lld is %s",
			  (long long)examples[i].value, examples[i].hex);
	}
	cbor_free(&c);
}

static void test_text(void)
{
	static const struct {
		const char *text;
		const char *hex;
	} examples[] = {
		{ "", "60" },
		{ "IETF", "6449455446" },
		{ "\"\\", "62225c" },
		{ "\xc3\xbc", "62c3bc" },
		{ "\xe6\xb0\xb4", "63e6b0b4" },
		{ "\xf0\x90\x85\x91", "64f0908591" },
		/* what is not UTF-8 becomes question marks, one for each byte */
		{ "a\xff"
		  "b",
		  "63613f62" },
		{ "\xc3", "613f" },
		{ "\xed\xa0\x80", "633f3f3f" },
		{ "\xc0\x80", "623f3f" },
	};
	struct cbor c = { 0 };

	for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
		cbor_reset(&c);
		cbor_text(&c, examples[i].text);
		tap_check(bytes_are(&c, examples[i].hex), "text %zu is %s", i, examples[i].hex);
	}
	cbor_free(&c);
}

static void test_crc(void)
{
	struct stream stream;
	const uint8_t *check = (const uint8_t *)"123456789";

	stream_init(&stream, -1);
	tap_check(stream_crc32(&stream, check, 9) == 0xCBF43926,
		  "the check value of CRC-32 is right");
	tap_check(stream_crc32(&stream, check, 0) == 0, "of nothing it is 0");
	stream_free(&stream);
}

static size_t read_back(int fd, uint8_t *data, size_t room)
{
	ssize_t got;

	lseek(fd, 0, SEEK_SET);
	got = read(fd, data, room);
	return got < 0 ? 0 : (size_t)got;
}

static void test_records(void)
{
	static const uint8_t first[] = {
		0x84, 0x00, 0x00, 0x41, 0xA0, 0x1A, 0x04, 0xD4, 0x4C, 0x65
	};
	static const int32_t values[] = { 1, -2, 0x01020304 };
	static const uint8_t little[] = { 1, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 4, 3, 2, 1 };
	static const int32_t pairs[] = { 2, 300 };
	static const uint8_t gaps[] = { 0xd8, 78, 0x48, 2, 0, 0, 0, 0x2c, 1, 0, 0 };
	const struct stream_gaps some = { .pairs = pairs, .words = 2 };
	char name[] = "/tmp/rtgauge-test-XXXXXX";
	int fd = mkstemp(name);
	struct stream stream;
	uint8_t data[256], *at;
	size_t size;

	unlink(name);
	stream_init(&stream, fd);
	cbor_map(stream_begin(&stream), 0);
	stream_end(&stream, STREAM_HEADER);
	stream_samples(&stream, 0, 7, 1000, values, 3, (struct stream_gaps){ 0 });
	tap_check(stream_flush(&stream) == 0, "the stream is written");
	size = read_back(fd, data, sizeof(data));
	tap_check(size > sizeof(first) && !memcmp(data, first, sizeof(first)),
		  "the example of the page, to the byte");
	tap_check(memmem(data, size, little, sizeof(little)) != NULL, "samples are little-endian");
	tap_check(stream.records == 2, "records are counted");
	stream_samples(&stream, 0, 10, 2000, values, 3, some);
	stream_gaps(&stream, 0, 10, some);
	stream_flush(&stream);
	size = read_back(fd, data, sizeof(data));
	at = memmem(data, size, gaps, sizeof(gaps));
	tap_check(at != NULL, "a block has its gaps, little-endian");
	at = at ? memmem(at + 1, (size_t)(data + size - at - 1), gaps, sizeof(gaps)) : NULL;
	tap_check(at != NULL, "gaps have a record of their own");
	stream_free(&stream);
	close(fd);
}

static void test_limits(void)
{
	static int32_t values[STREAM_BLOCK_SAMPLES];
	struct stream stream;
	int fd = open("/dev/full", O_WRONLY);

	stream_init(&stream, fd);
	for (int i = 0; i < 20; i++)
		stream_samples(&stream, 1000000, INT64_MAX / 2, INT64_MAX / 2, values,
			       STREAM_BLOCK_SAMPLES, (struct stream_gaps){ 0 });
	tap_check(stream_flush(&stream) == -ENOSPC, "a full disk is an error that stays");
	tap_check(stream.records == 20, "records are counted nevertheless");
	stream_free(&stream);
	close(fd);

	stream_init(&stream, open("/dev/null", O_WRONLY));
	stream_samples(&stream, 1000000, INT64_MAX / 2, INT64_MAX / 2, values,
		       STREAM_BLOCK_SAMPLES - 2,
		       (struct stream_gaps){ .pairs = values, .words = 2 });
	stream_samples(&stream, 1000000, INT64_MAX / 2, INT64_MAX / 2, values, 2,
		       (struct stream_gaps){ .pairs = values, .words = STREAM_BLOCK_SAMPLES - 2 });
	tap_check(!stream.error, "the largest blocks fit a record");
	cbor_bytes(stream_begin(&stream), values, sizeof(values));
	cbor_bytes(&stream.body, values, 2000);
	stream_end(&stream, STREAM_EVENT);
	tap_check(stream.error == -EMSGSIZE, "a body over the limit is refused");
	close(stream.fd);
	stream_free(&stream);
}

int main(void)
{
	test_integers();
	test_text();
	test_crc();
	test_records();
	test_limits();
	return tap_end();
}
