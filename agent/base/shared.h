/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that measuring processes share with the agent. It is allocated before they are forked
 * (docs/decisions/0013-share-memory-between-measuring-processes.md).
 */
#ifndef RTGAUGE_SHARED_H
#define RTGAUGE_SHARED_H

#include <stddef.h>

/* Allocates whole pages of zeros. NULL: out of memory. */
void *shared_alloc(size_t size);
/* Frees memory of shared_alloc() with the same size; NULL does nothing. */
void shared_free(void *memory, size_t size);

/* An array that grows by doubling: room for one more item behind the @count items of @old, which
 * is NULL for none. NULL: out of memory, and @old is as it was. */
void *shared_grow(void *old, int count, size_t size);
void shared_free_array(void *array, int count, size_t size);

#endif
