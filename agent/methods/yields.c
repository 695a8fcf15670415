// SPDX-License-Identifier: Apache-2.0
/* Which yields of a test loop slept. */
#include "methods/yields.h"

/* Shell's sort, because that of a C library may call Linux, and a task of a core would leave it. */
int64_t yields_round(const int64_t *lengths_ns, int count, int64_t *sorted_ns)
{
	int used = 0;

	for (int i = 0; i < count; i++)
		if (lengths_ns[i])
			sorted_ns[used++] = lengths_ns[i];
	for (int gap = used / 2; gap > 0; gap /= 2)
		for (int i = gap; i < used; i++) {
			int64_t one_ns = sorted_ns[i];
			int at = i;

			for (; at >= gap && sorted_ns[at - gap] > one_ns; at -= gap)
				sorted_ns[at] = sorted_ns[at - gap];
			sorted_ns[at] = one_ns;
		}
	return used ? sorted_ns[used / 2] : 0;
}

/* A yield that is cut short takes a round, and then a tick. An eighth of the tick less, so that a
 * round that is a little shorter than others does not decide. */
int64_t yields_waited(const int64_t *lengths_ns, int count, uint32_t more, int64_t round_ns,
		      int64_t tick_ns)
{
	int64_t least_ns = round_ns + tick_ns - tick_ns / 8;
	uint32_t late = 0;

	for (int i = 0; i < count; i++)
		late += lengths_ns[i] > least_ns;
	return more < late ? more : late;
}
