// SPDX-License-Identifier: Apache-2.0
/*
 * Functions that compilers call on ARM cores that may have no atomic operations, if no library
 * provides them. The parts of the C library that zig provides call them.
 */
#include "base/atomic.h"

#if defined(__arm__) && __ARM_ARCH < 7

/* The names are those of compiler built-ins, which C does not allow to define. */
void atomic_barrier(void) __asm__("__sync_synchronize");
uint32_t atomic_change_4(uint32_t *value, uint32_t seen,
			 uint32_t to) __asm__("__sync_val_compare_and_swap_4");
uint8_t atomic_change_1(uint8_t *value, uint8_t seen,
			uint8_t to) __asm__("__sync_val_compare_and_swap_1");
uint8_t atomic_exchange_1(uint8_t *value, uint8_t to) __asm__("__sync_lock_test_and_set_1");

void atomic_barrier(void)
{
	ATOMIC_KERNEL_BARRIER();
}

/* Returns the previous value. */
uint32_t atomic_change_4(uint32_t *value, uint32_t seen, uint32_t to)
{
	uint32_t before;

	while ((before = atomic_load_relaxed(value)) == seen)
		if (atomic_change(value, seen, to))
			break;
	return before;
}

/* Changes a byte together with the word that contains it. */
uint8_t atomic_change_1(uint8_t *value, uint8_t seen, uint8_t to)
{
	uint32_t *word = (uint32_t *)((uintptr_t)value & ~(uintptr_t)3), before;
	unsigned int shift = ((uintptr_t)value & 3) * 8;

	do {
		before = atomic_load_relaxed(word);
		if ((uint8_t)(before >> shift) != seen)
			break;
	} while (
		!atomic_change(word, before, (before & ~(0xffU << shift)) | (uint32_t)to << shift));
	return (uint8_t)(before >> shift);
}

uint8_t atomic_exchange_1(uint8_t *value, uint8_t to)
{
	uint8_t before;

	do
		before = *(volatile uint8_t *)value;
	while (atomic_change_1(value, before, to) != before);
	return before;
}

#endif
