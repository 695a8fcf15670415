// SPDX-License-Identifier: Apache-2.0
/*
 * Step 4 of the path of a sample, the draining thread's part: makes records of the stream from the
 * contents of the rings.
 */
#include "run/drain.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/caller.h"
#include "base/clock.h"
#include "base/value.h"
#include "base/version.h"
#include "run/explain.h"
#include "run/run.h"
#include "stream/spool.h"
#include "system/environment.h"

static struct cbor *drain_event(struct run *run, const char *event, int64_t time_ns, int more)
{
	struct cbor *c = stream_begin(&run->stream);

	cbor_map(c, 2 + (size_t)more);
	cbor_put_text(c, "event", event);
	cbor_put_int(c, "time_ns", time_ns);
	return c;
}

static void drain_event_end(struct run *run)
{
	stream_end(&run->stream, STREAM_EVENT);
}

/* An event at @index of a series, as the number @key. */
static void drain_series_event(struct run *run, const char *event, int64_t time_ns,
			       const struct series *s, int64_t index, const char *key,
			       int64_t number)
{
	struct cbor *c = drain_event(run, event, time_ns, 3);

	cbor_put_int(c, "series", s->number);
	cbor_put_int(c, "index", index);
	cbor_put_int(c, key, number);
	drain_event_end(run);
}

void drain_message(struct run *run, int64_t now_ns, const char *text)
{
	struct cbor *c;

	drain_begin(run);
	c = drain_event(run, "message", now_ns, 1);
	cbor_put_text(c, "text", text);
	drain_event_end(run);
}

/* Samples are kept from the stream: the run was asked for that, or its spool has little room left. */
static bool drain_withholds(const struct run *run)
{
	const struct spool_state *spooled = run->request->spooled;

	return run->request->histogram_only || (spooled && atomic_load_relaxed(&spooled->withhold));
}

/* The series never has samples in the stream. */
static bool drain_only_histogram(const struct run *run, const struct series *s)
{
	return run->request->histogram_only || s->info.unordered;
}

/* From here on samples are kept from the stream, or sent again: said once each time. */
static void drain_turned(struct run *run, int64_t now_ns, bool withheld)
{
	if (run->withheld == withheld || run->request->histogram_only)
		return;
	run->withheld = withheld;
	drain_message(
		run, now_ns,
		withheld ?
			"only histograms from here on: the host is not reading, and there is little room left for samples" :
			"samples and histograms from here on");
}

void drain_setting_changed(struct run *run, int64_t now_ns, const char *name, const char *expected,
			   const char *found)
{
	struct cbor *c = drain_event(run, "setting", now_ns, 3);

	cbor_put_text(c, "name", name);
	cbor_put_text(c, "expected", expected);
	cbor_put_text(c, "found", found);
	drain_event_end(run);
}

void drain_load_event(struct run *run, int64_t now_ns, const char *message)
{
	struct cbor *c = drain_event(run, "load", now_ns, 2);

	cbor_put_text(c, "load", run->request->loads);
	cbor_put_text(c, "message", message);
	drain_event_end(run);
}

void drain_threshold(struct run *run, int64_t now_ns)
{
	const struct series *s = &run->step.series[run->step.threshold_series];

	/* the thread ended with the sample that did it */
	drain_series_event(run, "threshold", now_ns, s, s->next_index - 1, "value",
			   run->step.threshold_value);
}

void drain_work(void *arg, const char *load, const char *unit, uint64_t count, int64_t from_ns,
		int64_t to_ns)
{
	struct run *run = arg;
	struct cbor *c = stream_begin(&run->stream);

	cbor_map(c, 5);
	cbor_put_text(c, "load", load);
	cbor_put_text(c, "unit", unit);
	cbor_put_int(c, "count", (int64_t)count);
	cbor_put_int(c, "from_ns", from_ns - run->step.start_ns);
	cbor_put_int(c, "to_ns", to_ns - run->step.start_ns);
	stream_end(&run->stream, STREAM_WORK);
}

/* --- the head of the stream --- */

static int drain_fact(void *arg, const struct fact *fact)
{
	struct run *run = arg;
	struct cbor *c = stream_begin(&run->stream);

	cbor_map(c, 1);
	cbor_text(c, "facts");
	cbor_map(c, 1);
	cbor_text(c, fact->name);
	switch (fact->type) {
	case FACT_NULL:
		cbor_null(c);
		break;
	case FACT_TEXT:
		cbor_text_n(c, fact->data, fact->size);
		break;
	case FACT_INTEGER:
		cbor_int(c, fact->number);
		break;
	case FACT_BYTES:
		cbor_bytes(c, fact->data, fact->size);
		break;
	}
	stream_end(&run->stream, STREAM_ENVIRONMENT);
	return 0;
}

static void drain_setting(void *arg, const struct setting_record *record)
{
	struct run *run = arg;
	struct cbor *c = stream_begin(&run->stream);

	cbor_map(c, 5);
	cbor_put_text(c, "name", record->name);
	cbor_put_text(c, "asked", record->asked);
	cbor_put_text(c, "before", record->before);
	cbor_put_text(c, "effective", record->effective);
	cbor_put_text(c, "reason", record->reason);
	stream_end(&run->stream, STREAM_SETTING);
}

static void drain_locked_memory(struct run *run)
{
	struct setting_record record = {
		.name = "locked memory",
		.asked = "all",
		.effective = run->step.memory_unlocked ? "none" : "all",
		.reason = run->step.memory_unlocked ? strerror(run->step.memory_unlocked) : "",
	};

	if (run->step.worker_count)
		drain_setting(run, &record);
}

static void drain_load_user(struct run *run)
{
	bool root = run->request->load_command_root;
	struct setting_record record = {
		.name = "load command's user",
		.asked = root ? "root" : "caller",
		.reason = "",
	};
	uid_t uid = geteuid();
	char text[32];
	gid_t gid;

	if (!run->request->load_command)
		return;
	if (!root && caller_ids(&uid, &gid)) {
		record.reason = "SUDO_UID and SUDO_GID are not numbers";
	} else {
		snprintf(text, sizeof(text), "uid %u", (unsigned int)uid);
		record.effective = text;
	}
	drain_setting(run, &record);
}

static void drain_series_record(struct run *run, const struct series *s)
{
	const struct series_info *info = &s->info;
	struct cbor *c = stream_begin(&run->stream);
	size_t labels = 0;

	while (labels < SERIES_LABELS && info->labels[labels].name)
		labels++;
	cbor_map(c, 12 + (size_t)(info->companion >= 0) + (size_t)info->net);
	cbor_put_int(c, "series", s->number);
	cbor_put_text(c, "name", info->name);
	cbor_put_text(c, "context", info->context);
	cbor_put_int(c, "cpu", info->cpu);
	cbor_put_int(c, "thread", info->thread);
	cbor_put_text(c, "policy", info->policy ? info->policy : "");
	cbor_put_int(c, "priority", info->priority);
	cbor_text(c, "labels");
	cbor_map(c, labels);
	for (size_t i = 0; i < labels; i++)
		cbor_put_text(c, info->labels[i].name, info->labels[i].value);
	cbor_put_text(c, "unit", info->unit);
	cbor_put_int(c, "scale", 1);
	cbor_put_int(c, "interval_ns", info->interval_ns);
	cbor_put_bool(c, "histogram_only", drain_only_histogram(run, s));
	if (info->companion >= 0)
		cbor_put_int(c, "companion", info->companion);
	if (info->net)
		cbor_put_int(c, "stamp_ns", info->stamp_ns);
	stream_end(&run->stream, STREAM_SERIES);
}

static void drain_parameters(struct run *run, struct cbor *c)
{
	cbor_text(c, "parameters");
	cbor_map(c, run->step.options.count);
	for (size_t i = 0; i < run->step.options.count; i++) {
		const struct option_value *value = &run->step.options.values[i];

		cbor_text(c, value->info->name);
		cbor_map(c, 2);
		cbor_put_text(c, "asked", value->asked);
		cbor_put_text(c, "effective", value->text);
	}
}

void drain_header(struct run *run)
{
	struct utsname uts;
	char boot_id[VALUE_MAX];
	struct cbor *c;
	/* before stream_begin(): takes 20 ms */
	int64_t hz = clock_counter_hz();

	value_read_boot_id(boot_id);
	uname(&uts);
	c = stream_begin(&run->stream);
	cbor_map(c, 16u + !!run->request->load_command + !!run->request->disturb +
			    2 * !!run->step.core_revision);
	cbor_put_text(c, "format", "rtgauge-stream");
	cbor_put_int(c, "version", 1);
	cbor_put_text(c, "agent", RTGAUGE_VERSION);
	cbor_put_text(c, "libc", version_libc());
	cbor_put_text(c, "compiler", version_compiler());
	cbor_put_text(c, "machine", uts.machine);
	cbor_put_text(c, "run", run->request->run_id);
	cbor_put_int(c, "step", run->request->step);
	cbor_put_text(c, "measurement",
		      run->request->measurement ? run->request->measurement->name : "");
	drain_parameters(run, c);
	cbor_put_text(c, "load", run->request->loads);
	if (run->request->load_command)
		cbor_put_text(c, "load_command", run->request->load_command);
	if (run->request->disturb)
		cbor_put_text(c, "disturb", run->request->disturb);
	if (run->step.core_revision) {
		cbor_put_text(c, "core", run->step.core->name);
		cbor_put_int(c, "core_revision", run->step.core_revision);
	}
	cbor_put_text(c, "boot_id", boot_id);
	cbor_put_bool(c, "privileged", geteuid() == 0);
	cbor_text(c, "counter");
	cbor_map(c, 2);
	cbor_put_text(c, "name", clock_counter_name());
	cbor_put_int(c, "hz", hz);
	cbor_text(c, "clock");
	stream_clock_map(c);
	cbor_put_int(c, "start_ns", run->step.start_ns);
	stream_end(&run->stream, STREAM_HEADER);

	environment_collect(run->request->measurement == NULL, drain_fact, run);
	if (run->step.settings)
		settings_each(run->step.settings, drain_setting, run);
	drain_locked_memory(run);
	drain_load_user(run);
	for (int i = 0; i < run->step.series_count; i++)
		drain_series_record(run, &run->step.series[i]);
	explain_header(run);
}

void drain_begin(struct run *run)
{
	if (!run->stream.records)
		drain_header(run);
}

/* --- samples --- */

/*
 * The block in the making. Values come from the front of its words, the gaps between them from the
 * back: the position of the last one first.
 */
struct drain_pass {
	struct run *run;
	int64_t now_ns;
	struct series *series;
	int64_t index; /* of the first sample */
	int64_t due_ns;
	int64_t open;  /* periods missed after the last sample so far */
	bool withheld; /* the samples are not sent */
	size_t count;
	size_t gap_words;
	int32_t words[STREAM_BLOCK_SAMPLES];
};

static void drain_missed_event(const struct drain_pass *pass, int64_t index, int64_t count)
{
	drain_series_event(pass->run, "missed", pass->now_ns, pass->series, index, "count", count);
}

/* Write the block; periods missed after its last sample become an event. */
static void drain_close(struct drain_pass *pass)
{
	int32_t *first = pass->words + STREAM_BLOCK_SAMPLES - pass->gap_words;
	const struct stream_gaps gaps = { .pairs = first, .words = pass->gap_words };

	for (size_t i = 0, j = pass->gap_words; i + 1 < j; i++) {
		int32_t word = first[i];

		first[i] = first[--j];
		first[j] = word;
	}
	if (pass->count && !pass->withheld)
		stream_samples(&pass->run->stream, pass->series->number, pass->index, pass->due_ns,
			       pass->words, pass->count, gaps);
	else if (gaps.words)
		stream_gaps(&pass->run->stream, pass->series->number, pass->index, gaps);
	/* a series without samples says so once, where it is declared */
	if (pass->count && pass->withheld && !drain_only_histogram(pass->run, pass->series))
		drain_series_event(pass->run, "withheld", pass->now_ns, pass->series, pass->index,
				   "count", (int64_t)pass->count);
	if (pass->open) {
		int64_t last = pass->index + (int64_t)pass->count - 1;

		for (size_t i = 1; i < gaps.words; i += 2)
			last += first[i];
		drain_missed_event(pass, last, pass->open);
	}
	pass->count = 0;
	pass->gap_words = 0;
	pass->open = 0;
}

static void drain_block(void *arg, struct series *s, int64_t index, int64_t due_ns,
			const int32_t *values, size_t count)
{
	struct drain_pass *pass = arg;

	if (pass->run->request->explain_above_ns && !s->info.unordered)
		for (size_t i = 0; i < count; i++)
			if (values[i] != INT32_MAX)
				explain_value(pass->run, s, index + (int64_t)i, values[i]);
	/* a block ends where its grid moves */
	if (pass->count && due_ns != pass->due_ns + (index - pass->index) * s->info.interval_ns)
		drain_close(pass);
	while (count) {
		size_t used = pass->count + pass->gap_words + (pass->open ? 2 : 0);
		size_t some;

		if (used >= STREAM_BLOCK_SAMPLES) {
			drain_close(pass);
			continue;
		}
		if (!pass->count) {
			pass->index = index;
			pass->due_ns = due_ns;
		} else if (pass->open) {
			int32_t *end = pass->words + STREAM_BLOCK_SAMPLES - pass->gap_words;

			end[-1] = (int32_t)pass->count;
			end[-2] = (int32_t)pass->open;
			pass->gap_words += 2;
			pass->open = 0;
		}
		some = STREAM_BLOCK_SAMPLES - used;
		if (some > count)
			some = count;
		memcpy(pass->words + pass->count, values, some * sizeof(*values));
		pass->count += some;
		index += (int64_t)some;
		due_ns += (int64_t)some * s->info.interval_ns;
		values += some;
		count -= some;
	}
	/* one time holds for the whole block */
	if (!s->info.interval_ns)
		drain_close(pass);
}

static void drain_missed(void *arg, struct series *s, int64_t index, int64_t count)
{
	struct drain_pass *pass = arg;

	(void)s;
	/* the samples before it may be in a block that is written, or in none */
	if (pass->open || count > INT32_MAX)
		drain_close(pass);
	if (pass->count)
		pass->open = count;
	else
		drain_missed_event(pass, index, count);
}

static void drain_lost(void *arg, struct series *s, int64_t index, int64_t count, int64_t max)
{
	struct drain_pass *pass = arg;
	struct cbor *c;

	drain_close(pass);
	c = drain_event(pass->run, "lost", pass->now_ns, 4);
	cbor_put_int(c, "series", s->number);
	cbor_put_int(c, "index", index);
	cbor_put_int(c, "count", count);
	cbor_put_int(c, "max", max);
	drain_event_end(pass->run);
}

static void drain_wide(void *arg, struct series *s, int64_t index, int64_t value)
{
	struct drain_pass *pass = arg;

	drain_series_event(pass->run, "wide", pass->now_ns, s, index, "value", value);
	if (pass->run->request->explain_above_ns)
		explain_value(pass->run, s, index, value);
}

static void drain_maximum(struct run *run, struct series *s, int64_t now_ns)
{
	const struct series_info *info = &s->info;

	if (!s->max_is_new || info->companion >= 0 || info->unordered)
		return;
	s->max_is_new = false;
	if (info->interval_ns)
		now_ns = series_due_ns(s, s->max_index, s->max_moved_ns);
	drain_series_event(run, "maximum", now_ns, s, s->max_index, "value", s->histogram.max);
	explain_maximum(run, s);
}

void drain_samples(struct run *run, int64_t now_ns)
{
	struct drain_pass pass;
	const struct series_sink sink = {
		.samples = drain_block,
		.missed = drain_missed,
		.lost = drain_lost,
		.wide = drain_wide,
		.arg = &pass,
	};

	/* not its words: they are 64 KB, and written before they are read */
	pass.run = run;
	pass.now_ns = now_ns;
	pass.count = 0;
	pass.gap_words = 0;
	pass.open = 0;
	drain_turned(run, now_ns, drain_withholds(run));
	for (int i = 0; i < run->step.series_count; i++) {
		pass.series = &run->step.series[i];
		pass.withheld = drain_withholds(run) || pass.series->info.unordered;
		series_drain(&run->step.series[i], &sink);
		drain_close(&pass);
		drain_maximum(run, &run->step.series[i], now_ns);
	}
	stream_flush(&run->stream);
}

/* This number of buckets always fits into a record, and covers 39 octaves without a gap. */
#define DRAIN_BUCKETS_MAX 5000

static void drain_histogram(struct run *run, const struct series *s)
{
	const struct series_histogram *h = &s->histogram;
	size_t occupied = 0;
	struct cbor *c;

	for (int i = 0; i < 2 * SERIES_BUCKETS; i++)
		occupied += h->buckets[i] != 0;
	if (occupied > DRAIN_BUCKETS_MAX) {
		drain_message(run, 0, "omitted a histogram that is too wide for one record");
		return;
	}
	c = stream_begin(&run->stream);
	cbor_map(c, 10);
	cbor_put_int(c, "series", s->number);
	cbor_put_int(c, "count", h->count);
	cbor_put_int(c, "min", h->min);
	cbor_put_int(c, "max", h->max);
	cbor_put_int(c, "sum", h->sum);
	cbor_put_int(c, "missed", s->missed);
	cbor_put_int(c, "lost", s->lost);
	cbor_put_int(c, "overruns", s->overruns);
	cbor_put_int(c, "sub_bits", SERIES_SUB_BITS);
	cbor_text(c, "buckets");
	cbor_array(c, 2 * occupied);
	for (int bucket = -SERIES_BUCKETS; bucket < SERIES_BUCKETS; bucket++) {
		uint64_t count = h->buckets[bucket >= 0 ? bucket : SERIES_BUCKETS - 1 - bucket];

		if (count) {
			cbor_int(c, bucket);
			cbor_uint(c, count);
		}
	}
	stream_end(&run->stream, STREAM_HISTOGRAM);
}

void drain_histograms(struct run *run, bool companions)
{
	for (int i = 0; i < run->step.series_count; i++)
		if (run->step.series[i].histogram.count &&
		    (companions || run->step.series[i].info.companion < 0))
			drain_histogram(run, &run->step.series[i]);
}

void drain_clock(struct run *run)
{
	stream_clock_map(stream_begin(&run->stream));
	stream_end(&run->stream, STREAM_CLOCK);
}

static int64_t drain_cpu_ns(int whose)
{
	struct rusage usage;

	if (getrusage(whose, &usage))
		return 0;
	return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * NSEC_PER_SEC +
	       (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * NSEC_PER_USEC;
}

void drain_trailer(struct run *run, int64_t duration_ns)
{
	struct cbor *c = stream_begin(&run->stream);

	cbor_map(c, 7u + !!run->cause + !!run->command);
	cbor_put_text(c, "state", run->end_state);
	if (run->cause)
		cbor_put_text(c, "cause", run->cause);
	cbor_put_text(c, "reason", run->reason);
	cbor_put_text(c, "remedy", run->remedy);
	if (run->command)
		cbor_put_text(c, "command", run->command);
	cbor_put_int(c, "duration_ns", duration_ns);
	cbor_put_int(c, "records", run->stream.records);
	cbor_text(c, "series");
	cbor_array(c, (size_t)run->step.series_count);
	for (int i = 0; i < run->step.series_count; i++) {
		const struct series *s = &run->step.series[i];
		int64_t interval_ns = s->info.interval_ns;
		/* for a grid without any period, one before its first, so that 0 periods are due */
		int64_t last_ns = series_due_ns(s, s->next_index - 1, s->moved_ns);
		/* a series without a grid begins with its first sample, which may be lost */
		bool begun = interval_ns || s->histogram.count;

		cbor_map(c, 7);
		cbor_put_int(c, "series", i);
		cbor_put_int(c, "count", s->histogram.count + s->lost);
		cbor_put_int(c, "missed", s->missed);
		cbor_put_int(c, "lost", s->lost);
		cbor_put_int(c, "overruns", s->overruns);
		cbor_put_int(c, "first_due_ns", begun ? s->info.first_due_ns : s->last_time_ns);
		cbor_put_int(c, "last_due_ns", interval_ns ? last_ns : s->last_time_ns);
	}
	/* the loads are still running */
	cbor_put_int(c, "cpu_ns", drain_cpu_ns(RUSAGE_SELF) + drain_cpu_ns(RUSAGE_CHILDREN));
	stream_end(&run->stream, STREAM_TRAILER);
	stream_flush(&run->stream);
}
