// SPDX-License-Identifier: Apache-2.0
/* Bytes that wait for a reader, in a list of pieces of memory. */
#include "stream/backlog.h"

#include <sys/mman.h>

struct backlog_piece {
	struct backlog_piece *next;
	uint8_t bytes[BACKLOG_PIECE - sizeof(struct backlog_piece *)];
};

#define PIECE_BYTES ((int64_t)sizeof(((struct backlog_piece *)0)->bytes))

/* One piece is kept back: a reader that keeps up takes and gives no memory. */
static struct backlog_piece *piece_new(struct backlog *backlog)
{
	struct backlog_piece *piece = backlog->spare;

	if (piece) {
		backlog->spare = NULL;
	} else {
		piece = mmap(NULL, sizeof(*piece), PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (piece == MAP_FAILED)
			return NULL;
	}
	piece->next = NULL;
	return piece;
}

static void piece_drop(struct backlog *backlog, struct backlog_piece *piece)
{
	if (backlog->spare)
		munmap(piece, sizeof(*piece));
	else
		backlog->spare = piece;
}

uint8_t *backlog_room(struct backlog *backlog, size_t *size)
{
	int64_t room = backlog->limit - (backlog->end - backlog->begin);
	int64_t left;

	if (room <= 0)
		return NULL;
	if (backlog->end == backlog->stop) {
		struct backlog_piece *piece = piece_new(backlog);

		if (!piece)
			return NULL;
		if (backlog->first)
			backlog->last->next = piece;
		else
			backlog->first = piece;
		backlog->last = piece;
		backlog->stop += PIECE_BYTES;
	}
	left = backlog->stop - backlog->end;
	*size = (size_t)(room < left ? room : left);
	return backlog->last->bytes + (PIECE_BYTES - left);
}

void backlog_added(struct backlog *backlog, size_t size)
{
	backlog->end += (int64_t)size;
}

const uint8_t *backlog_at(const struct backlog *backlog, int64_t from, size_t *size)
{
	const struct backlog_piece *piece = backlog->first;
	int64_t start = backlog->start, most;

	*size = 0;
	if (from >= backlog->end)
		return NULL;
	for (; from - start >= PIECE_BYTES; start += PIECE_BYTES)
		piece = piece->next;
	most = start + PIECE_BYTES < backlog->end ? start + PIECE_BYTES : backlog->end;
	*size = (size_t)(most - from);
	return piece->bytes + (from - start);
}

bool backlog_confirm(struct backlog *backlog, int64_t until)
{
	if (until < backlog->begin || until > backlog->end)
		return false;
	backlog->begin = until;
	while (backlog->first && until - backlog->start >= PIECE_BYTES) {
		struct backlog_piece *piece = backlog->first;

		backlog->first = piece->next;
		backlog->start += PIECE_BYTES;
		piece_drop(backlog, piece);
	}
	return true;
}
