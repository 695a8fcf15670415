/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The atomic operations that threads of the agent share: acquire and release on 32-bit values only.
 * ARM cores before ARMv7 may lack such instructions. There the kernel provides helpers at fixed
 * addresses (Documentation/arch/arm/kernel_user_helpers.rst).
 */
#ifndef RTGAUGE_ATOMIC_H
#define RTGAUGE_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__arm__) && __ARM_ARCH < 7

/* The kernel's: a barrier, and a change of *@value if it is @seen, which gives 0 then. Either way
 * it orders as acquire and release do. */
#define ATOMIC_KERNEL_BARRIER ((void (*)(void))0xffff0fa0)
#define ATOMIC_KERNEL_CHANGE \
	((int (*)(uint32_t seen, uint32_t to, volatile uint32_t * value))0xffff0fc0)

static inline uint32_t atomic_load_relaxed(const uint32_t *value)
{
	return *(const volatile uint32_t *)value;
}

static inline uint32_t atomic_load_acquire(const uint32_t *value)
{
	uint32_t seen = atomic_load_relaxed(value);

	ATOMIC_KERNEL_BARRIER();
	return seen;
}

static inline void atomic_store_release(uint32_t *value, uint32_t to)
{
	ATOMIC_KERNEL_BARRIER();
	*(volatile uint32_t *)value = to;
}

/* Change it if it still has the value seen. After an interruption it may return false although the
 * value is still the same. */
static inline bool atomic_change(uint32_t *value, uint32_t seen, uint32_t to)
{
	return !ATOMIC_KERNEL_CHANGE(seen, to, value);
}

static inline bool atomic_compare_exchange(uint32_t *value, uint32_t seen, uint32_t to)
{
	while (atomic_load_relaxed(value) == seen)
		if (atomic_change(value, seen, to))
			return true;
	return false;
}

/* Returns the previous value. */
static inline uint32_t atomic_exchange(uint32_t *value, uint32_t to)
{
	uint32_t seen;

	do
		seen = atomic_load_relaxed(value);
	while (!atomic_change(value, seen, to));
	return seen;
}

/* Returns the previous value. */
static inline uint32_t atomic_fetch_add(uint32_t *value, uint32_t more)
{
	uint32_t seen;

	do
		seen = atomic_load_relaxed(value);
	while (!atomic_change(value, seen, seen + more));
	return seen;
}

static inline void atomic_add_release(uint32_t *value, uint32_t more)
{
	atomic_fetch_add(value, more);
}

#else

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

/* Returns the previous value. */
static inline uint32_t atomic_exchange(uint32_t *value, uint32_t to)
{
	return __atomic_exchange_n(value, to, __ATOMIC_ACQ_REL);
}

/* Returns the previous value. */
static inline uint32_t atomic_fetch_add(uint32_t *value, uint32_t more)
{
	return __atomic_fetch_add(value, more, __ATOMIC_ACQ_REL);
}

/* Change it if it still has the value seen. */
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

#endif
