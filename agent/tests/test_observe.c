// SPDX-License-Identifier: Apache-2.0
/* Tests of observe.c: lines and records made up here, and percentiles against a sorted list. Prints
 * TAP. */
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

static ssize_t test_write(int fd, const void *data, size_t size);

#define write test_write
#include "measurements/observe.c"
#undef write

#include "run/run.h"
#include "tap.h"

static struct observe state;
static struct series series;
static struct step step = { .series = &series, .state = &state };

static void begin(void)
{
	memset(state.threads, 0, OBSERVE_THREADS * sizeof(*state.threads));
	state.pid = getpid();
	state.count = 0;
	state.taken = state.lost = state.unknown = state.refused = 0;
	memset(state.gone, 0, sizeof(state.gone));
}

static void feed(const char *format, int tid)
{
	char line[256];
	int size = snprintf(line, sizeof(line), format, tid);

	observe_line(&step, &state, line, line + size);
}

#define WAKES \
	"          <idle>-0       [000] dNh4.    12.000100: sched_waking: comm=a pid=%d prio=9 target_cpu=000"
#define RUNS                                                                                       \
	"          <idle>-0       [000] d..2.    12.000142: sched_switch: prev_comm=x prev_pid=0 " \
	"prev_prio=120 prev_state=R ==> next_comm=a next_pid=%d next_prio=9"
#define LEAVES                                                                                      \
	"               a-7       [000] d..2.    12.000120: sched_switch: prev_comm=a prev_pid=%d " \
	"prev_prio=9 prev_state=R+ ==> next_comm=swapper/0 next_pid=0 next_prio=120"

static const struct observe_thread *thread(void)
{
	return observe_find(&state, getpid());
}

static void test_lines(void)
{
	int self = getpid();

	begin();
	feed(WAKES, self);
	feed(RUNS, self);
	tap_check(thread()->count == 1 && thread()->most_ns == 42000, "woken, then running");
	feed(RUNS, self);
	tap_check(thread()->count == 1, "running again without being woken: preempted");
	begin();
	feed(WAKES, self);
	feed(LEAVES, self);
	feed(RUNS, self);
	tap_check(!thread()->count, "woken before it had left the CPU: it did not wait");
	begin();
	feed(" bad: sched_waking: x 1.2: -3 [1] d. 12.000100: sched_waking: comm= pid=4 prio=1 t "
	     "pid=%d prio=9 target_cpu=000",
	     self);
	feed("a next_pid=5 ==>-3 [001] 12.000101: sched_switch: prev_comm=a prev_pid=3 prev_prio=9 "
	     "prev_state=S ==> next_comm=b next_pid=5 n next_pid=%d next_prio=9",
	     self);
	tap_check(thread()->count == 1 && thread()->most_ns == 1000,
		  "names of tasks may hold anything");
	begin();
	feed(WAKES, self);
	feed("CPU:0 [LOST %d EVENTS]", 12);
	feed(RUNS, self);
	tap_check(!thread()->count && state.lost == 12, "what was lost is counted");
	begin();
	feed(WAKES, 1);
	feed(RUNS, 1);
	tap_check(!observe_find(&state, 1) && !state.count && !state.taken && !state.unknown,
		  "a thread of another process does not count, and takes no row");
	feed(WAKES, 0x3ffffffe);
	tap_check(!state.unknown && !observe_row(&state, 0x3ffffffe)->tid,
		  "nor does one that is gone");
	feed("%d", 5);
	feed("# tracer: nop %d", 5);
	feed(" 12.000100: sched_waking: comm=%d", 5);
	tap_check(!state.count, "other lines are left out");
}

static void feed_record(uint32_t kind, uint64_t time_ns, int prev, int next, uint32_t lost)
{
	struct rtgauge_observed record = {
		.time_ns = time_ns, .kind = kind, .lost = lost, .prev = prev, .next = next
	};

	memcpy(state.text + state.used, &record, sizeof(record));
	state.used += sizeof(record);
}

#define CREATES                                                                       \
	"          a b [1] -%d       [001] .....    12.000100: task_newtask: pid=%d " \
	"comm=x clone_flags=1 clone_flags=%x oom_score_adj=0"

static void create(int parent, int tid, unsigned flags)
{
	char line[256];
	int size = snprintf(line, sizeof(line), CREATES, parent, tid, flags);

	observe_line(&step, &state, line, line + size);
}

/* Threads whose numbers no thread has now: they have ended. */
static void test_ended_threads(void)
{
	int self = getpid(), ended = 0x3ffffffe;

	begin();
	create(self, ended, CLONE_THREAD | CLONE_VM);
	feed(WAKES, ended);
	feed(RUNS, ended);
	tap_check(state.taken == 1 && !state.unknown, "a thread that ended has its sample");
	tap_check(!strcmp(observe_row(&state, ended)->name, "(ended)"), "without a name");
	create(ended, ended - 1, CLONE_THREAD);
	tap_check(observe_row(&state, ended - 1)->tid, "the thread of such a thread, too");
	create(self, ended - 2, CLONE_VM);
	tap_check(!observe_row(&state, ended - 2)->tid, "a process is not a thread");
	create(1, ended - 3, CLONE_THREAD);
	tap_check(!observe_row(&state, ended - 3)->tid, "nor is one of another process");
	feed(WAKES, ended - 4);
	create(self, ended - 4, CLONE_THREAD);
	tap_check(state.unknown == 1, "one whose events came before its creation is counted");
	state.counts_used = 2;
	state.counts[0] =
		(struct observe_count){ .tid = ended - 5, .from_ns = 1, .first = 3, .last = -1 };
	state.counts[1] = (struct observe_count){ .tid = ended - 6, .last = -1 };
	feed(WAKES, ended - 5);
	feed(RUNS, ended - 5);
	tap_check(state.taken == 2 && observe_row(&state, ended - 5)->tid,
		  "one that was there at the beginning has its sample");
	feed(WAKES, ended - 6);
	feed(RUNS, ended - 6);
	tap_check(state.taken == 2 && !observe_row(&state, ended - 6)->tid,
		  "but not one that was first counted at the end");
	observe_compare_counts(&state);
	tap_check(observe_uncompared(&state) == 5, "the first of them is not compared");
	state.counts_used = 1;
	feed("  7: task_newtask: pid=%d", 5);
	feed("  12.000100: task_newtask: pid=5 clone_flags=%d", 10000);
	tap_check(state.count == 5, "incomplete lines are left out");
}

static void test_records(void)
{
	int self = getpid();

	begin();
	feed_record(RTGAUGE_OBSERVED_WAKING, 1000, 0, self, 0);
	feed_record(RTGAUGE_OBSERVED_SWITCH, 1234, 0, self, 0);
	observe_records(&step, &state);
	tap_check(thread()->count == 1 && thread()->most_ns == 234 && !state.used,
		  "records of the module: woken, then running");
	feed_record(RTGAUGE_OBSERVED_SWITCH, 2000, self, 0, 0);
	feed_record(RTGAUGE_OBSERVED_WAKING, 3000, 0, self, 0);
	feed_record(RTGAUGE_OBSERVED_SWITCH, 3500, self, self, 4);
	observe_records(&step, &state);
	tap_check(thread()->count == 1 && state.lost == 4,
		  "what was woken before a loss makes no sample");
	tap_check(thread()->events[OBSERVE_LEAVES] == 2 && thread()->events[OBSERVE_RUNS] == 2,
		  "switches in both directions");
	feed_record(RTGAUGE_OBSERVED_LOSS, 0, 0, 0, 3);
	observe_records(&step, &state);
	tap_check(state.lost == 7 && !state.unknown && state.count == 1,
		  "a loss at the end, without a thread");
	begin();
	state.module = true;
	feed_record(RTGAUGE_OBSERVED_WAKING, 1000, 0, 0x3ffffffe, 0);
	feed_record(RTGAUGE_OBSERVED_SWITCH, 1100, 0, 0x3ffffffe, 0);
	observe_records(&step, &state);
	state.module = false;
	tap_check(!state.unknown && state.count == 1 && state.taken == 1,
		  "a thread that ended before its records were read has a row");
	tap_check(observe_uncompared(&state) == 1, "and is not compared");
}

/* LEAVES is at 12.000120 s. */
static void test_counted_events(void)
{
	int self = getpid();

	begin();
	state.counts_used = 1;
	state.counts[0] = (struct observe_count){ .tid = self, .from_ns = 12000122000 };
	feed(LEAVES, self);
	tap_check(!thread()->events[OBSERVE_LEAVES], "an event before the first count is in that");
	begin();
	state.counts[0].from_ns = 12000120900;
	feed(LEAVES, self);
	tap_check(thread()->events[OBSERVE_LEAVES] == 1, "the time of an event is rounded");
	feed(LEAVES, self);
	tap_check(thread()->events[OBSERVE_LEAVES] == 2, "each event between the counts");
	begin();
	state.counts[0].until_ns = 12000100000;
	state.counts[0].from_ns = 0;
	feed(LEAVES, self);
	feed(LEAVES, self);
	feed(LEAVES, self);
	tap_check(thread()->events[OBSERVE_LEAVES] == 1,
		  "one of those after the last count may be in that");
	state.recounted = true;
	state.counts[0].last = 3;
	observe_compare_counts(&state);
	tap_check(state.switches == 3 && state.unreported == 2 && thread()->unreported == 2,
		  "events after the last count make up for none before it");
	state.counts[0].last = 2;
	state.switches = state.unreported = 0;
	for (int i = 0; i < 3; i++)
		observe_leaves(&state, self, 12000090000 + i);
	observe_compare_counts(&state);
	tap_check(state.switches == 2 && state.unreported == 1,
		  "a thread that leaves a CPU came to it before");
	state.counts[0].first = 4;
	observe_compare_counts(&state);
	tap_check(state.switches == 2 && state.unreported == 1, "a count that fell is left out");
	begin();
	state.counts[0] = (struct observe_count){ .tid = self, .last = 5 };
	observe_compare_counts(&state);
	tap_check(state.count == 1 && thread()->unreported == 5,
		  "a thread without an event has a row, because its switches are missing");
	state.counts_used = 0;
	state.recounted = false;
}

static void test_endless(void)
{
	static const struct run_request request;
	static struct run run = { .request = &request };

	begin();
	stream_init(&run.stream, -1);
	state.pipe = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	state.until_ns = 1;
	tap_check(!observe_read(&run.step, &state),
		  "events that never end do not outlast the observation");
	state.until_ns = 0;
	atomic_store_release(&run.step.stop, STEP_STOP);
	tap_check(!observe_read(&run.step, &state), "nor a stop");
	close(state.pipe);
	stream_free(&run.stream);
	state.used = 0;
}

static int compare(const void *a, const void *b)
{
	return (*(const int64_t *)a > *(const int64_t *)b) -
	       (*(const int64_t *)a < *(const int64_t *)b);
}

static void test_percentiles(void)
{
	static int64_t values[3000];
	bool good = true, rising = true;
	uint64_t random = 1;

	for (int64_t value = 0, last = -1; value < INT64_C(1) << 39; value += 1 + value / 50) {
		int bucket = observe_bucket(value);

		rising = rising && bucket >= last && observe_bucket_high(bucket) >= value &&
			 observe_bucket_high(bucket) <= value + value / 32;
		last = bucket;
	}
	tap_check(rising, "each value is in its bucket, which is at most 1/32 wide");
	for (int count = 1; count <= 3000; count += 1 + count / 3) {
		struct observe_thread *t = &state.threads[0];

		memset(t, 0, sizeof(*t));
		for (int i = 0; i < count; i++) {
			random = random * 6364136223846793005u + 1442695040888963407u;
			values[i] = (int64_t)(random >> 33) % 5000000;
			t->buckets[observe_bucket(values[i])]++;
			t->count++;
			if (values[i] > t->most_ns)
				t->most_ns = values[i];
		}
		qsort(values, (size_t)count, sizeof(values[0]), compare);
		for (int p = 50; p <= 99; p += 49) {
			int64_t exact = values[(count * p + 99) / 100 - 1];
			int64_t found = observe_percentile(t, p);

			good = good && found >= exact && found <= exact + exact / 32;
		}
	}
	tap_check(good, "percentiles as of the sorted list, at most 1/32 higher");
}

/* Threads left to create, one before each write. */
static int to_create, created;
static pthread_t threads[20];
static pid_t tids[20];
static sem_t named, end;

static void *wait_for_end(void *data)
{
	*(pid_t *)data = gettid();
	sem_post(&named);
	sem_wait(&end);
	return NULL;
}

static ssize_t test_write(int fd, const void *data, size_t size)
{
	if (created < to_create) {
		if (pthread_create(&threads[created], NULL, wait_for_end, &tids[created]))
			return -1;
		sem_wait(&named);
		created++;
	}
	return write(fd, data, size);
}

static bool is_written(const char *text, pid_t tid)
{
	char word[16];

	snprintf(word, sizeof(word), " %d ", (int)tid);
	return strstr(text, word);
}

static void test_created_threads(void)
{
	char path[sizeof(state.instance) + 16], text[4096] = " ";
	bool found;
	int fd;

	strcpy(state.instance, "/tmp/rtgauge-observe-XXXXXX");
	found = mkdtemp(state.instance);
	snprintf(path, sizeof(path), "%s/set_event_pid", state.instance);
	fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	sem_init(&named, 0, 0);
	sem_init(&end, 0, 0);
	state.pid = getpid();
	to_create = 3;
	found = found && fd >= 0 && !observe_put_threads(&state) && created == to_create &&
		read(fd, text + 1, sizeof(text) - 2) > 0 && is_written(text, state.pid);
	for (int i = 0; i < created; i++)
		found = found && is_written(text, tids[i]);
	tap_check(found, "threads created after they were listed are traced");
	to_create = 20;
	tap_check(!observe_put_threads(&state) && created == 3 + OBSERVE_LISTS,
		  "a program that creates threads for ever is listed a limited number of times");
	for (int i = 0; i < created; i++)
		sem_post(&end);
	for (int i = 0; i < created; i++)
		pthread_join(threads[i], NULL);
	state.pid = 0x3ffffffe;
	tap_check(observe_put_threads(&state) == -ESRCH, "a process that has ended is an error");
	close(fd);
	unlink(path);
	rmdir(state.instance);
}

int main(void)
{
	struct series_info info = { .name = "wake-to-run", .context = "user", .unit = "ns" };
	state.threads = calloc(OBSERVE_THREADS, sizeof(*state.threads));
	state.counts = calloc(OBSERVE_COUNTED, sizeof(*state.counts));
	if (!state.threads || !state.counts || series_init(&series, 0, &info, 1 << 12))
		return 1;
	test_lines();
	test_ended_threads();
	test_records();
	test_counted_events();
	test_endless();
	test_percentiles();
	test_created_threads();
	free(state.counts);
	free(state.threads);
	series_free(&series);
	return tap_end();
}
