// SPDX-License-Identifier: Apache-2.0
/*
 * drain_driver samples|histograms INTERVAL_NS FIRST_DUE_NS: one series, told on its input what
 * happens to it, and drained into its output as an agent does, from record 2 on (header and series
 * are the reader's business). A line is a letter and a number:
 *
 *	s VALUE		a sample
 *	m COUNT		periods missed
 *	l COUNT		samples lost
 *	g BY_NS		the grid moves
 *	d 0		the draining thread comes by
 *	t 0		the step ends: the trailer
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run/drain.h"
#include "run/run.h"
#include "stream/series.h"

#define ROOM 262144
#define FIRST_RECORD 2

int main(int argc, char **argv)
{
	static struct run run;
	static struct series series;
	struct run_request request = { .run_id = "", .loads = "idle" };
	struct series_info info = { .name = "latency", .context = "user", .unit = "ns" };
	char what;
	long long number;

	if (argc != 4)
		return 2;
	request.histogram_only = !strcmp(argv[1], "histograms");
	info.interval_ns = atoll(argv[2]);
	info.first_due_ns = atoll(argv[3]);
	info.companion = -1;
	run.request = &request;
	run.step.series = &series;
	run.step.series_count = 1;
	run.end_state = "complete";
	if (stream_init(&run.stream, STDOUT_FILENO) || series_init(&series, 0, &info, ROOM))
		return 1;
	run.stream.records = FIRST_RECORD;
	while (scanf(" %c %lld", &what, &number) == 2) {
		if (what == 's')
			series_put(&series, number);
		else if (what == 'm')
			series_missed(&series, number);
		else if (what == 'l')
			series_lost(&series, number);
		else if (what == 'g')
			series_moved(&series, number);
		else if (what == 't')
			drain_trailer(&run, 0);
		else
			drain_samples(&run, 0);
	}
	return run.stream.error ? 1 : 0;
}
