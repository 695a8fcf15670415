/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Offset of a dithered due time within its period. The module and the agent share this arithmetic,
 * so that their due times agree. It runs for each sample, in the module's interrupt handler too:
 * 32-bit arithmetic except for the scaling.
 */
#ifndef RTGAUGE_DITHER_H
#define RTGAUGE_DITHER_H

#include <linux/types.h>

/* The golden section's part of 2^32 over 32, made odd. */
#define DITHER_STEP 0x04f1bbcdU

/*
 * The offset of a grid point, from its number alone, in [0, @interval_ns): a triangle wave that
 * sweeps the period up and down (63/64), and a random part (1/64, MurmurHash3's finaliser). Each
 * phase of the period is met equally often, whatever the period of a disturbance, and consecutive
 * due times are at least 94 % of the interval apart. @interval_ns: below 2^42.
 */
static inline __u64 dither_ns(__u64 index, __u64 interval_ns)
{
	__u32 phase = (__u32)index * DITHER_STEP;
	__u32 sweep = phase < 1U << 31 ? 2 * phase : 2 * (0xffffffffU - phase);
	__u32 chance = (__u32)index;
	__u64 part;

	chance = (chance ^ chance >> 16) * 0x85ebca6b;
	chance = (chance ^ chance >> 13) * 0xc2b2ae35;
	chance ^= chance >> 16;
	/* of 2^32, multiplied in two halves that fit 64 bits */
	part = (__u64)sweep - (sweep >> 6) + (chance >> 6);
	return ((interval_ns >> 16) * part >> 16) + ((interval_ns & 0xffff) * part >> 32);
}

#endif
