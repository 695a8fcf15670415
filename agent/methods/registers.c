// SPDX-License-Identifier: Apache-2.0
/* The registers of the floating-point and vector units, across a system call. */
#include "methods/registers.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

/* Intel's manual, volume 1, chapter 13: the components of the state and their places. */
#define REGISTERS_LEGACY 3U /* x87 and SSE */
#define REGISTERS_AVX 4U
#define REGISTERS_AVX512 0xe0U
#define REGISTERS_OSXSAVE (1U << 27)
#define REGISTERS_STATE 512 /* the header's first word: which components are valid */
#define REGISTERS_CONTROL 0x037f
#define REGISTERS_MXCSR 0x1f80
#define REGISTERS_TAGS 4
#define REGISTERS_MXCSR_PLACE 24
#define REGISTERS_COMPONENTS 8

/* Not registers: the control words before them, and the header of XSAVE. */
#define REGISTERS_FROM 32
#define REGISTERS_IS_HEADER(at) ((at) >= REGISTERS_STATE && (at) < REGISTERS_STATE + 64)

struct registers_part {
	size_t from, size;
};

/* The components that this kernel switches; 0: XSAVE is not in use, FXSAVE is. */
static uint32_t registers_mask(void)
{
	uint32_t a, b, c, d, low, high;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & REGISTERS_OSXSAVE))
		return 0;
	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return low & (REGISTERS_LEGACY | REGISTERS_AVX | REGISTERS_AVX512);
}

/* Where the registers are: those of x87 (10 bytes each), SSE, and those that XSAVE adds. */
static int registers_parts(struct registers_part *parts)
{
	uint32_t mask = registers_mask(), size, offset, c, d;
	int count = 0;

	for (size_t i = 0; i < 8; i++)
		parts[count++] = (struct registers_part){ 32 + 16 * i, 10 };
	parts[count++] = (struct registers_part){ 160, 256 };
	for (uint32_t i = 2; i < REGISTERS_COMPONENTS; i++)
		if (mask & 1U << i && __get_cpuid_count(0xd, i, &size, &offset, &c, &d) &&
		    offset + size <= REGISTERS_SIZE)
			parts[count++] = (struct registers_part){ offset, size };
	return count;
}

#define REGISTERS_PARTS (9 + REGISTERS_COMPONENTS)

const char *registers_units(void)
{
	uint32_t mask = registers_mask();

	return mask & REGISTERS_AVX512 ? "x87 SSE AVX AVX-512" :
	       mask & REGISTERS_AVX    ? "x87 SSE AVX" :
					 "x87 SSE";
}

static void registers_control(struct registers *pattern)
{
	const uint64_t state = registers_mask();
	const uint16_t control = REGISTERS_CONTROL;
	const uint32_t mxcsr = REGISTERS_MXCSR;

	memcpy(pattern->bytes, &control, sizeof(control));
	pattern->bytes[REGISTERS_TAGS] = 0xff; /* all of x87 are in use */
	memcpy(pattern->bytes + REGISTERS_MXCSR_PLACE, &mxcsr, sizeof(mxcsr));
	memcpy(pattern->bytes + REGISTERS_STATE, &state, sizeof(state));
}

static uint64_t registers_state(const struct registers *pattern)
{
	uint64_t state;

	memcpy(&state, pattern->bytes + REGISTERS_STATE, sizeof(state));
	return state;
}

long registers_across(const struct registers *pattern, struct registers *found, uint64_t spins,
		      long number, const long *args)
{
	/* read before the variables in registers are set: a sanitizer calls a function at each
	 * reading, which changes registers */
	const long a = args[0], b = args[1], c = args[2], d = args[3];
	const uint64_t state = registers_state(pattern);
	register const void *in __asm__("r12") = pattern;
	register void *out __asm__("r13") = found;
	register uint64_t mask __asm__("r14") = state;
	register uint64_t rounds __asm__("r15") = spins;
	register long third __asm__("r9") = c;
	register long fourth __asm__("r10") = d;

	/* the last instruction leaves x87 empty, as functions expect it */
	__asm__ volatile("movl %%r14d, %%eax\n\t"
			 "xorl %%edx, %%edx\n\t"
			 "testl %%eax, %%eax\n\t"
			 "jz 1f\n\t"
			 "xrstor64 (%%r12)\n\t"
			 "jmp 2f\n"
			 "1:\tfxrstor64 (%%r12)\n"
			 "2:\tmovq %%r15, %%rcx\n"
			 "3:\tdecq %%rcx\n\t"
			 "jnz 3b\n\t"
			 "movq %%rbx, %%rax\n\t"
			 "movq %%r9, %%rdx\n\t"
			 "syscall\n\t"
			 "movq %%rax, %%r9\n\t"
			 "movq %%r15, %%rcx\n"
			 "4:\tdecq %%rcx\n\t"
			 "jnz 4b\n\t"
			 "movl %%r14d, %%eax\n\t"
			 "xorl %%edx, %%edx\n\t"
			 "testl %%eax, %%eax\n\t"
			 "jz 5f\n\t"
			 "xsave64 (%%r13)\n\t"
			 "jmp 6f\n"
			 "5:\tfxsave64 (%%r13)\n"
			 "6:\tfninit"
			 : "+r"(third), "+r"(fourth)
			 : "r"(in), "r"(out), "r"(mask), "r"(rounds), "b"(number), "D"(a), "S"(b)
			 : "rax", "rcx", "rdx", "r11", "memory", "cc", "xmm0", "xmm1", "xmm2",
			   "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
			   "xmm12", "xmm13", "xmm14", "xmm15");
	return third;
}

#elif defined(__aarch64__)

struct registers_part {
	size_t from, size;
};

#define REGISTERS_PARTS 1
#define REGISTERS_FROM 0
#define REGISTERS_IS_HEADER(at) false

static int registers_parts(struct registers_part *parts)
{
	parts[0] = (struct registers_part){ 0, 512 };
	return 1;
}

const char *registers_units(void)
{
	return "SIMD";
}

static void registers_control(struct registers *pattern)
{
	(void)pattern;
}

#define REGISTERS_MOVE(how, base)                                                                  \
	how " {v0.2d-v3.2d}, [" base "], #64\n\t" how " {v4.2d-v7.2d}, [" base "], #64\n\t" how    \
	    " {v8.2d-v11.2d}, [" base "], #64\n\t" how " {v12.2d-v15.2d}, [" base "], #64\n\t" how \
	    " {v16.2d-v19.2d}, [" base "], #64\n\t" how " {v20.2d-v23.2d}, [" base                 \
	    "], #64\n\t" how " {v24.2d-v27.2d}, [" base "], #64\n\t" how                           \
	    " {v28.2d-v31.2d}, [" base "], #64\n\t"

long registers_across(const struct registers *pattern, struct registers *found, uint64_t spins,
		      long number, const long *args)
{
	/* as above */
	const long a = args[0], b = args[1], c = args[2], d = args[3];
	register const void *in __asm__("x19") = pattern;
	register void *out __asm__("x20") = found;
	register long first __asm__("x0") = a;
	register long second __asm__("x1") = b;
	register long third __asm__("x2") = c;
	register long fourth __asm__("x3") = d;
	register long call __asm__("x8") = number;

	__asm__ volatile(
		REGISTERS_MOVE("ld1", "%[in]") "mov x9, %[rounds]\n"
					       "1:\tsubs x9, x9, #1\n\t"
					       "b.ne 1b\n\t"
					       "svc #0\n\t"
					       "mov x9, %[rounds]\n"
					       "2:\tsubs x9, x9, #1\n\t"
					       "b.ne 2b\n\t" REGISTERS_MOVE("st1", "%[out]")
		: "+r"(first), [in] "+r"(in), [out] "+r"(out)
		: "r"(second), "r"(third), "r"(fourth), "r"(call), [rounds] "r"(spins)
		: "x9", "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9",
		  "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20",
		  "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
	return first;
}
#endif

#ifdef REGISTERS_PARTS
void registers_fill(struct registers *pattern, uint32_t seed)
{
	struct registers_part parts[REGISTERS_PARTS];
	int count = registers_parts(parts);

	memset(pattern->bytes, 0, sizeof(pattern->bytes));
	for (int i = 0; i < count; i++)
		for (size_t at = 0; at < parts[i].size; at++) {
			seed = seed * 1664525U + 1013904223U;
			pattern->bytes[parts[i].from + at] = (unsigned char)(seed >> 24);
		}
	registers_control(pattern);
}

int registers_differ(const struct registers *pattern, const struct registers *found, size_t *place)
{
	int different = 0;

	for (size_t at = REGISTERS_FROM; at < REGISTERS_SIZE; at++) {
		if (pattern->bytes[at] == found->bytes[at] || REGISTERS_IS_HEADER(at))
			continue;
		if (!different++ && place)
			*place = at;
	}
	return different;
}
#else
const char *registers_units(void)
{
	return NULL;
}

void registers_fill(struct registers *pattern, uint32_t seed)
{
	(void)pattern;
	(void)seed;
}

long registers_across(const struct registers *pattern, struct registers *found, uint64_t spins,
		      long number, const long *args)
{
	(void)pattern;
	(void)found;
	(void)spins;
	(void)number;
	(void)args;
	return 0;
}

int registers_differ(const struct registers *pattern, const struct registers *found, size_t *place)
{
	(void)pattern;
	(void)found;
	(void)place;
	return 0;
}
#endif
