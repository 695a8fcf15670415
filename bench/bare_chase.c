// SPDX-License-Identifier: Apache-2.0
/*
 * Dependent reads over growing ranges, as docs/reference/loads.md describes the pattern chase, by an
 * array of indices. Prints the reads per second of CPU time. bench/loads.py compares with it.
 * usage: bare_chase SECONDS BYTES
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv)
{
	double seconds = argc > 2 ? strtod(argv[1], NULL) : 1;
	size_t words = argc > 2 ? strtoul(argv[2], NULL, 10) / sizeof(uint64_t) : 0, at = 0;
	uint64_t *next = calloc(words ? words : 1, sizeof(*next));
	double reads = 0;

	while (next && words >= 4096 && (double)clock() / CLOCKS_PER_SEC < seconds)
		for (size_t range = 4096; range <= words; range *= 2)
			for (size_t stride = 8; stride <= 128; stride *= 2) {
				for (size_t i = 0; i < range; i += stride)
					next[i] = (i ? i : range) - stride;
				at = 0;
				for (int i = 0; i < 1 << 20; i++)
					at = next[at];
				reads += 1 << 20;
			}
	/* the last place, so that the compiler keeps the reads */
	printf("%.1f %zu\n", reads / ((double)clock() / CLOCKS_PER_SEC), at);
	return reads ? 0 : 1;
}
