/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where in its period a dithered due time lies: the same as the agent's timer_dither_ns(), so that
 * due times agree. 32-bit arithmetic but for the scaling: it runs in the handler.
 */
#ifndef RTGAUGE_DITHER_H
#define RTGAUGE_DITHER_H

#include <linux/types.h>

/* The golden section's part of 2^32 over 32, made odd. */
#define DITHER_STEP 0x04f1bbcdU

/* Within [0, interval_ns): a triangle wave that sweeps the period, and 1/64 of chance on top. */
static inline u64 dither_ns(u64 index, u64 interval_ns)
{
	u32 phase = (u32)index * DITHER_STEP;
	u32 sweep = phase < 1U << 31 ? 2 * phase : 2 * (U32_MAX - phase);
	u32 chance = (u32)index;
	u64 part;

	chance = (chance ^ chance >> 16) * 0x85ebca6b;
	chance = (chance ^ chance >> 13) * 0xc2b2ae35;
	chance ^= chance >> 16;
	part = (u64)sweep - (sweep >> 6) + (chance >> 6);
	return ((interval_ns >> 16) * part >> 16) + ((interval_ns & 0xffff) * part >> 32);
}

#endif
