// SPDX-License-Identifier: Apache-2.0
/* Memory that measuring processes share with the agent. */
#include "base/shared.h"

#include <string.h>
#include <sys/mman.h>

void *shared_alloc(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

void shared_free(void *memory, size_t size)
{
	if (memory)
		munmap(memory, size);
}

/* Items that there is room for: the power of two that holds @count. */
static size_t shared_room(int count)
{
	size_t room = 2;

	while (room < (size_t)count)
		room *= 2;
	return room;
}

void *shared_grow(void *old, int count, size_t size)
{
	void *grown;

	if (old && shared_room(count + 1) == shared_room(count))
		return old;
	grown = shared_alloc(shared_room(count + 1) * size);
	if (grown && old) {
		memcpy(grown, old, (size_t)count * size);
		shared_free_array(old, count, size);
	}
	return grown;
}

void shared_free_array(void *array, int count, size_t size)
{
	shared_free(array, shared_room(count) * size);
}
