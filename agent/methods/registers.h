/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the kernel keeps the registers of the floating-point and vector units of a thread. The
 * code loads them with a pattern, makes a system call that switches threads, and compares them. All
 * of it is one piece of assembler, because a compiler would use the registers in between.
 */
#ifndef RTGAUGE_REGISTERS_H
#define RTGAUGE_REGISTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* x87, SSE, AVX and AVX-512 in the layout of XSAVE; on arm64 the first 512 bytes. */
#define REGISTERS_SIZE 2752

struct registers {
	_Alignas(64) unsigned char bytes[REGISTERS_SIZE];
};

/* The units whose registers are compared, as "x87 SSE AVX"; NULL: not on this architecture. */
const char *registers_units(void);
/* A pattern that differs in each register and with each @seed. */
void registers_fill(struct registers *pattern, uint32_t seed);
/* Load @pattern, compute for @spins rounds, make the system call @number with its four arguments @args,
 * compute again, and store the registers to @found, which was zeroed once. Returns the call's
 * result. */
long registers_across(const struct registers *pattern, struct registers *found, uint64_t spins,
		      long number, const long *args);
/* The number of bytes in which the registers differ; @place (unless NULL) gets the first one. */
int registers_differ(const struct registers *pattern, const struct registers *found, size_t *place);

#endif
