// SPDX-License-Identifier: Apache-2.0
/*
 * Tests of tracing.c on files in the place of tracefs. A folder in the place of a file can be
 * opened and not read. Prints TAP.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "system/tracing.h"
#include "tap.h"

#define PAGE 4096
#define PAGES 3

struct got {
	int pages;
	size_t bytes;
};

static void got_page(void *arg, int number, const uint8_t *data, size_t size)
{
	struct got *got = arg;

	got->pages++;
	got->bytes += size;
}

/* Three pages of 8 bytes of time and as many of content. */
static void write_pages(const char *path)
{
	FILE *file = fopen(path, "w");
	char page[PAGE] = { 0 };

	for (int64_t i = 1; file && i <= PAGES; i++) {
		memcpy(page, &i, sizeof(i));
		memset(page + 8, 1, 8);
		fwrite(page, sizeof(page), 1, file);
	}
	if (file)
		fclose(file);
}

int main(void)
{
	const struct tracing_window window = { 0, 0, INT64_MAX };
	struct tracing tracing = { .instance = "/tmp/test-tracing-XXXXXX", .page_size = PAGE };
	struct got got = { 0, 0 };
	char path[128];
	int found;

	tracing.pages = malloc(2 * PAGE + TRACING_TEXT);
	if (!tracing.pages || !mkdtemp(tracing.instance) || chdir(tracing.instance))
		return EXIT_FAILURE;
	tracing.text = (char *)tracing.pages + 2 * PAGE;
	mkdir("per_cpu", 0700);
	mkdir("per_cpu/cpu0", 0700);
	snprintf(path, sizeof(path), "%s/per_cpu/cpu0/trace_pipe_raw", tracing.instance);
	write_pages(path);
	found = tracing_pages(&tracing, 0, &window, 1, PAGES, got_page, &got);
	tap_check(found == PAGES && got.pages == PAGES && got.bytes == PAGES * 16,
		  "all pages up to the end of the file");
	found = tracing_pages(&tracing, 0, &window, 1, 1, got_page, &got);
	tap_check(found == PAGES && got.pages == PAGES + 1, "pages above the limit are counted");
	found = tracing_read(&tracing, "per_cpu/cpu0/trace_pipe_raw", 0, NULL);
	tap_check(found == PAGES * PAGE, "a text up to its end");

	unlink(path);
	found = tracing_pages(&tracing, 0, &window, 1, PAGES, got_page, &got);
	tap_check(found == -ENOENT, "a file that is not there");
	mkdir(path, 0700);
	found = tracing_pages(&tracing, 0, &window, 1, PAGES, got_page, &got);
	tap_check(found == -EISDIR, "an error is not the end of the pages");
	found = tracing_read(&tracing, "per_cpu/cpu0/trace_pipe_raw", 0, NULL);
	tap_check(found == -EISDIR, "an error is not the end of a text");

	rmdir(path);
	rmdir("per_cpu/cpu0");
	rmdir("per_cpu");
	rmdir(tracing.instance);
	free(tracing.pages);
	return tap_end();
}
