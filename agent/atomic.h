/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The atomic operations that threads of the agent share: acquire and release on 32-bit values,
 * nothing else, so that cores without native atomics need only this header changed.
 */
#ifndef RTGAUGE_ATOMIC_H
#define RTGAUGE_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

static inline uint32_t atomic_load_acquire(const uint32_t *value)
{
	return __atomic_load_n(value, __ATOMIC_ACQUIRE);
}

static inline uint32_t atomic_load_relaxed(const uint32_t *value)
{
	return __atomic_load_n(value, __ATOMIC_RELAXED);
}

static inline void atomic_add_release(uint32_t *value, uint32_t more)
{
	__atomic_add_fetch(value, more, __ATOMIC_RELEASE);
}

/* What it was before. */
static inline uint32_t atomic_exchange(uint32_t *value, uint32_t to)
{
	return __atomic_exchange_n(value, to, __ATOMIC_ACQ_REL);
}

/* What it was before. */
static inline uint32_t atomic_fetch_add(uint32_t *value, uint32_t more)
{
	return __atomic_fetch_add(value, more, __ATOMIC_ACQ_REL);
}

/* Change it if it is what was seen. */
static inline bool atomic_compare_exchange(uint32_t *value, uint32_t seen, uint32_t to)
{
	return __atomic_compare_exchange_n(value, &seen, to, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE);
}

static inline void atomic_store_release(uint32_t *value, uint32_t to)
{
	__atomic_store_n(value, to, __ATOMIC_RELEASE);
}

#endif
