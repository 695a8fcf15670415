/* SPDX-License-Identifier: Apache-2.0 */
/* Writing CBOR (RFC 8949), definite lengths and shortest forms only, into a buffer that grows. */
#ifndef RTGAUGE_CBOR_H
#define RTGAUGE_CBOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cbor {
	uint8_t *data;
	size_t size;
	size_t room;
	bool failed; /* out of memory: nothing more is written, the caller checks once at the end */
};

/* Room for @size more bytes, so that nothing is allocated until they are used up. 0 or -ENOMEM. */
int cbor_room(struct cbor *c, size_t size);
void cbor_reset(struct cbor *c);
void cbor_free(struct cbor *c);
void cbor_uint(struct cbor *c, uint64_t value);
void cbor_int(struct cbor *c, int64_t value);
void cbor_text(struct cbor *c, const char *text); /* NULL becomes null */
void cbor_text_n(struct cbor *c, const char *text, size_t size);
void cbor_bytes(struct cbor *c, const void *data, size_t size);
void cbor_null(struct cbor *c);
void cbor_array(struct cbor *c, size_t items);
void cbor_map(struct cbor *c, size_t pairs);
void cbor_tag(struct cbor *c, uint64_t tag);

/* key and value in one call, for maps */
void cbor_put_int(struct cbor *c, const char *key, int64_t value);
void cbor_put_text(struct cbor *c, const char *key, const char *value);
void cbor_put_bool(struct cbor *c, const char *key, bool value);

/* The length of the UTF-8 sequence at @s (1 to 4), at most @size; 0 if there is none. */
size_t cbor_utf8(const uint8_t *s, size_t size);

#endif
