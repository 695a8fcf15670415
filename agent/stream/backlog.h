/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A backlog: bytes between a writer and a reader that confirms them, numbered from the first on.
 * Confirmed bytes are dropped. The others are available again from any byte on.
 */
#ifndef RTGAUGE_BACKLOG_H
#define RTGAUGE_BACKLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Memory is taken, and given back, in pieces of this size. */
#define BACKLOG_PIECE (256 * 1024)

struct backlog_piece;

struct backlog {
	int64_t limit;		     /* bytes that are held at most; set by the user, > 0 */
	int64_t begin;		     /* of the first byte that is held */
	int64_t end;		     /* behind the last */
	int64_t start;		     /* of the first piece */
	int64_t stop;		     /* behind the last piece */
	struct backlog_piece *first; /* NULL: no memory is held */
	struct backlog_piece *last;
	struct backlog_piece *spare;
};

/* Where the next bytes go: @size of them at most; NULL: it is full, or there is no memory. */
uint8_t *backlog_room(struct backlog *backlog, size_t *size);
/* Count @size bytes that were put there. */
void backlog_added(struct backlog *backlog, size_t size);

/* The bytes from number @from on, as many as lie together; @size 0 and NULL at the end. @from lies
 * within what is held. */
const uint8_t *backlog_at(const struct backlog *backlog, int64_t from, size_t *size);

/* All bytes before number @until have arrived. False: that is not within what is held. */
bool backlog_confirm(struct backlog *backlog, int64_t until);

#endif
