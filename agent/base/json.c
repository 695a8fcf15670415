// SPDX-License-Identifier: Apache-2.0
/* Writing JSON. */
#include "base/json.h"

static void json_string(struct json *json, const char *text)
{
	fputc('"', json->out);
	for (; *text; text++) {
		unsigned char byte = (unsigned char)*text;

		if (byte == '"' || byte == '\\')
			fprintf(json->out, "\\%c", byte);
		else if (byte < 0x20)
			fprintf(json->out, "\\u%04x", byte);
		else
			fputc(byte, json->out);
	}
	fputc('"', json->out);
}

static void json_key(struct json *json, const char *key)
{
	if (json->follows)
		fputc(',', json->out);
	json->follows = true;
	if (key) {
		json_string(json, key);
		fputc(':', json->out);
	}
}

void json_open(struct json *json, const char *key, char bracket)
{
	json_key(json, key);
	fputc(bracket, json->out);
	json->follows = false;
}

void json_close(struct json *json, char bracket)
{
	fputc(bracket, json->out);
	json->follows = true;
}

void json_text(struct json *json, const char *key, const char *value)
{
	json_key(json, key);
	json_string(json, value);
}

void json_integer(struct json *json, const char *key, int64_t value)
{
	json_key(json, key);
	fprintf(json->out, "%lld", (long long)value);
}

void json_true(struct json *json, const char *key)
{
	json_key(json, key);
	fputs("true", json->out);
}
