// SPDX-License-Identifier: Apache-2.0
/* The backlog against a flat array that keeps everything. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "stream/backlog.h"
#include "tap.h"

#define BYTES (5 * BACKLOG_PIECE)

static uint8_t all[BYTES];
static uint32_t seed = 1;

static uint32_t below(uint32_t limit)
{
	seed = seed * 1664525 + 1013904223;
	return (uint32_t)((uint64_t)(seed >> 8) * limit >> 24);
}

/* What is held from @from on is what was put there. */
static bool same(const struct backlog *backlog, int64_t from)
{
	int64_t at = from;
	size_t size;

	while (at < backlog->end) {
		const uint8_t *data = backlog_at(backlog, at, &size);

		if (!data || !size || at + (int64_t)size > backlog->end ||
		    memcmp(data, all + at, size))
			return false;
		at += (int64_t)size;
	}
	return !backlog_at(backlog, at, &size) && !size;
}

static void put(struct backlog *backlog, size_t most)
{
	size_t size;
	uint8_t *room = backlog_room(backlog, &size);

	if (!room)
		return;
	if (size > most)
		size = most;
	if (size > (size_t)(BYTES - backlog->end))
		size = (size_t)(BYTES - backlog->end);
	memcpy(room, all + backlog->end, size);
	backlog_added(backlog, size);
}

static void test_random(size_t limit)
{
	struct backlog backlog = { .limit = limit };
	bool kept = true, within = true, confirmed = true;

	for (int i = 0; i < 100000 && backlog.end < BYTES; i++) {
		int64_t held = backlog.end - backlog.begin;

		/* as well sizes around a piece, and none */
		put(&backlog, below(8) ? below(3000) : below(2 * BACKLOG_PIECE));
		within &= backlog.end - backlog.begin <= (int64_t)limit;
		if (!below(3))
			confirmed &= backlog_confirm(&backlog,
						     backlog.begin + below((uint32_t)held + 1));
		if (!below(50))
			kept &= same(&backlog, backlog.begin + below((uint32_t)held / 2 + 1));
		if (!below(500))
			confirmed &= backlog_confirm(&backlog, backlog.end);
	}
	tap_check(kept, "limit %zu: what is held is what was put", limit);
	tap_check(within, "limit %zu: no more than the limit is held", limit);
	tap_check(confirmed, "limit %zu: what is held can be confirmed", limit);
	tap_check(backlog.end == BYTES, "limit %zu: all of it went through", limit);
	tap_check(same(&backlog, backlog.begin), "limit %zu: to the end", limit);
}

static void test_bounds(void)
{
	struct backlog backlog = { .limit = 1000 }, large = { .limit = 1LL << 32 };
	size_t size;

	put(&backlog, 600);
	tap_check(!backlog_confirm(&backlog, 601), "what has not come is not confirmed");
	tap_check(backlog_confirm(&backlog, 100), "part of it is");
	tap_check(!backlog_confirm(&backlog, 99), "what is forgotten is not available again");
	tap_check(backlog_room(&backlog, &size) && size == 500, "room up to the limit");
	put(&backlog, 500);
	tap_check(!backlog_room(&backlog, &size), "full is full");
	tap_check(backlog_confirm(&backlog, 1100) && backlog_room(&backlog, &size) && size == 1000,
		  "and empty again");
	tap_check(backlog_room(&large, &size), "a limit of 4 GiB, also with 32 bits");
}

/* A reader that keeps up costs no memory: pieces come and go, and none is left over. */
static void test_pieces(void)
{
	struct backlog backlog = { .limit = BYTES };
	const struct backlog_piece *first;
	bool same_two = true;
	size_t size;

	put(&backlog, 1);
	first = backlog.first;
	backlog_confirm(&backlog, 1);
	for (int i = 0; i < 3 * BACKLOG_PIECE / 100; i++) {
		put(&backlog, 100);
		backlog_confirm(&backlog, backlog.end);
		same_two &= !backlog.first || backlog.first == backlog.last;
	}
	tap_check(same_two, "one piece at a time");
	tap_check(first && (backlog.first == first || backlog.spare == first || backlog.spare),
		  "which is used again");
	/* asked twice for room at the end of a piece, there is one more piece, not two */
	while (backlog.end < backlog.stop)
		put(&backlog, (size_t)(backlog.stop - backlog.end));
	backlog_room(&backlog, &size);
	backlog_room(&backlog, &size);
	put(&backlog, size);
	tap_check(same(&backlog, backlog.begin), "asking for room changes nothing");
}

int main(void)
{
	for (size_t i = 0; i < BYTES; i++)
		all[i] = (uint8_t)(i * 2654435761u >> 24);
	test_bounds();
	test_random(1000);
	test_random(BACKLOG_PIECE);
	test_random(2 * BACKLOG_PIECE + 17);
	test_pieces();
	return tap_end();
}
