// SPDX-License-Identifier: Apache-2.0
/* Writing CBOR (RFC 8949) into a buffer that grows. */
#include "base/cbor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum major {
	MAJOR_UINT,
	MAJOR_NEGATIVE,
	MAJOR_BYTES,
	MAJOR_TEXT,
	MAJOR_ARRAY,
	MAJOR_MAP,
	MAJOR_TAG
};

void cbor_reset(struct cbor *c)
{
	c->size = 0;
	c->failed = false;
}

void cbor_free(struct cbor *c)
{
	free(c->data);
	memset(c, 0, sizeof(*c));
}

int cbor_room(struct cbor *c, size_t size)
{
	size_t room = c->room ? c->room : 1024;
	uint8_t *data;

	while (room - c->size < size)
		room *= 2;
	if (room == c->room)
		return 0;
	data = realloc(c->data, room);
	if (!data)
		return -ENOMEM;
	c->data = data;
	c->room = room;
	return 0;
}

static uint8_t *cbor_reserve(struct cbor *c, size_t size)
{
	uint8_t *at;

	c->failed = c->failed || cbor_room(c, size);
	if (c->failed)
		return NULL;
	at = c->data + c->size;
	c->size += size;
	return at;
}

static void cbor_head(struct cbor *c, enum major major, uint64_t value)
{
	uint8_t head[9];
	size_t bytes = value < 24	   ? 0 :
		       value <= 0xff	   ? 1 :
		       value <= 0xffff	   ? 2 :
		       value <= 0xffffffff ? 4 :
					     8;
	uint8_t *at;

	head[0] = major << 5 | (bytes == 0 ? value :
				bytes == 1 ? 24 :
				bytes == 2 ? 25 :
				bytes == 4 ? 26 :
					     27);
	for (size_t i = 0; i < bytes; i++)
		head[1 + i] = value >> 8 * (bytes - 1 - i);
	at = cbor_reserve(c, 1 + bytes);
	if (at)
		memcpy(at, head, 1 + bytes);
}

void cbor_uint(struct cbor *c, uint64_t value)
{
	cbor_head(c, MAJOR_UINT, value);
}

void cbor_int(struct cbor *c, int64_t value)
{
	if (value < 0)
		cbor_head(c, MAJOR_NEGATIVE, (uint64_t)(-1 - value));
	else
		cbor_head(c, MAJOR_UINT, value);
}

static void cbor_string(struct cbor *c, enum major major, const void *data, size_t size)
{
	uint8_t *at;

	cbor_head(c, major, size);
	at = cbor_reserve(c, size);
	if (at && size)
		memcpy(at, data, size);
}

size_t cbor_utf8(const uint8_t *s, size_t size)
{
	size_t need = s[0] < 0x80		  ? 1 :
		      s[0] >= 0xc2 && s[0] < 0xe0 ? 2 :
		      (s[0] & 0xf0) == 0xe0	  ? 3 :
		      s[0] >= 0xf0 && s[0] < 0xf5 ? 4 :
						    0;

	if (!need || need > size)
		return 0;
	for (size_t i = 1; i < need; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] >= 0xa0) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] >= 0x90))
		return 0;
	return need;
}

void cbor_text_n(struct cbor *c, const char *text, size_t size)
{
	size_t start, at = 0, step;

	/* a reader refuses text that is not UTF-8, and what the kernel gives need not be */
	cbor_head(c, MAJOR_TEXT, size);
	start = c->size;
	if (!cbor_reserve(c, size))
		return;
	while (at < size) {
		step = cbor_utf8((const uint8_t *)text + at, size - at);
		if (step)
			memcpy(c->data + start + at, text + at, step);
		else
			c->data[start + at] = '?';
		at += step ? step : 1;
	}
}

void cbor_text(struct cbor *c, const char *text)
{
	if (text)
		cbor_text_n(c, text, strlen(text));
	else
		cbor_null(c);
}

void cbor_bytes(struct cbor *c, const void *data, size_t size)
{
	cbor_string(c, MAJOR_BYTES, data, size);
}

static void cbor_simple(struct cbor *c, uint8_t byte)
{
	uint8_t *at = cbor_reserve(c, 1);

	if (at)
		*at = byte;
}

void cbor_null(struct cbor *c)
{
	cbor_simple(c, 0xf6);
}

void cbor_array(struct cbor *c, size_t items)
{
	cbor_head(c, MAJOR_ARRAY, items);
}

void cbor_map(struct cbor *c, size_t pairs)
{
	cbor_head(c, MAJOR_MAP, pairs);
}

void cbor_tag(struct cbor *c, uint64_t tag)
{
	cbor_head(c, MAJOR_TAG, tag);
}

void cbor_put_int(struct cbor *c, const char *key, int64_t value)
{
	cbor_text(c, key);
	cbor_int(c, value);
}

void cbor_put_text(struct cbor *c, const char *key, const char *value)
{
	cbor_text(c, key);
	cbor_text(c, value);
}

void cbor_put_bool(struct cbor *c, const char *key, bool value)
{
	cbor_text(c, key);
	cbor_simple(c, value ? 0xf5 : 0xf4);
}
