/* SPDX-License-Identifier: Apache-2.0 */
/* Writing JSON, with commas and escapes. */
#ifndef RTGAUGE_JSON_H
#define RTGAUGE_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
	FILE *out;
	bool follows; /* the next item follows another one */
};

/* @bracket: '{' or '['; @key: NULL in arrays. */
void json_open(struct json *json, const char *key, char bracket);
/* @bracket: '}' or ']'. */
void json_close(struct json *json, char bracket);
void json_text(struct json *json, const char *key, const char *value);
void json_integer(struct json *json, const char *key, int64_t value);
void json_true(struct json *json, const char *key);

#endif
