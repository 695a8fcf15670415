// SPDX-License-Identifier: Apache-2.0
/* Tests of noise.c: its readings of the kernel's counts, and which cause a gap has. Prints TAP. */
#include <sys/mman.h>
#include <unistd.h>

static ssize_t test_read(int fd, void *text, size_t room);

#define read test_read
#include "measurements/noise.c"
#undef read

#include "tap.h"

/* Another thread runs during a reading. */
static bool sleeps;
static int failures; /* of the next readings */

static ssize_t test_read(int fd, void *text, size_t room)
{
	if (failures && failures--)
		return -1;
	if (sleeps)
		usleep(1000);
	return read(fd, text, room);
}

/* CPU 1 is offline; a line for all CPUs, one without a name behind it, and two of errors. */
static const char interrupts[] =
	"           CPU0       CPU2       CPU10      \n"
	"  0:         41          0          7  IO-APIC   2-edge  timer\n"
	" 16:          1          2          3  IO-APIC  16-fasteoi  9000 ehci\n"
	"NMI:          5          6          8   Non-maskable interrupts\n"
	"LOC:        100        200        300\n"
	"FIQ:              usb_fiq\n"
	"ERR:       1000\n"
	"MIS:       2000\n";
static const char stat[] = "cpu  9 9 9 9 9 9 9 9 9 9\n"
			   "cpu0 1 2 3 4 5 6 7 88 9 10\n"
			   "cpu1 1 2 3 4 5 6 7 0 9 10\n"
			   "cpu10 1 2 3 4 5 6\n"
			   "intr 5 cpu2 1 2 3 4 5 6 7 8\n";

static int columns(const char *text, int cpu)
{
	return noise_column(&text, cpu);
}

static void test_counts(void)
{
	tap_check(noise_interrupts(interrupts, 0) == 147, "interrupts of the first CPU");
	tap_check(noise_interrupts(interrupts, 2) == 208, "of one after a gap in the numbers");
	tap_check(noise_interrupts(interrupts, 10) == 318, "of the last");
	tap_check(!noise_interrupts(interrupts, 1) && !noise_interrupts("", 0),
		  "none of a CPU that is not there");
	tap_check(columns(interrupts, 10) == 2 && columns(interrupts, 1) < 0,
		  "columns of the CPUs");
	tap_check(columns("", 0) < 0, "a container may hide the file");
	tap_check(noise_stolen(stat, 0) == 88 && noise_stolen(stat, 1) == 0, "stolen time");
	tap_check(noise_stolen(stat, 10) == -1 && noise_stolen(stat, 2) == -1,
		  "unknown where the kernel does not say it");
}

static void test_kinds(void)
{
	static const struct noise_counts before = { 3, 100, 7 };
	static const struct noise_counts same = { 3, 100, 7 }, interrupted = { 3, 101, 7 },
					 switched = { 4, 101, 7 }, smi = { 3, 102, 8 };

	tap_check(noise_kind(&before, &same) == NOISE_HARDWARE, "nothing counted: hardware");
	tap_check(noise_kind(&before, &interrupted) == NOISE_INTERRUPT, "an interrupt");
	tap_check(noise_kind(&before, &switched) == NOISE_THREAD,
		  "an interrupt and a switch: a thread");
	tap_check(noise_kind(&before, &smi) == NOISE_HARDWARE,
		  "an SMI, and the interrupts that waited for its end: hardware");
}

/* A pipe refuses pread(), as a performance counter does. */
static void test_smi(void)
{
	static struct noise_cpu c = { .smi_how = "performance counter 0x2b" };
	static const uint64_t counts[] = { 7, 9 };
	int ends[2];

	if (pipe(ends) || write(ends[1], counts, sizeof(counts)) != sizeof(counts)) {
		tap_check(false, "a pipe");
		return;
	}
	c.smi_fd = ends[0];
	c.counts.smi = noise_smi(&c);
	tap_check(c.counts.smi == 7, "SMIs by a descriptor without a position");
	c.counts.smi = noise_smi(&c);
	tap_check(c.counts.smi == 9 && c.smi_fd >= 0, "its next count");
	close(ends[1]);
	tap_check(noise_smi(&c) == 9 && c.smi_fd < 0 && !strncmp(c.smi_how, "not counted", 11),
		  "a failed reading is not a count, and no SMI: %s", c.smi_how);
}

/* A step that is stopped before the first span: there were SMIs before it, but none in it. */
static void test_stopped(void)
{
	static struct noise_cpu c = { .interrupts_fd = -1, .smi_at = NOISE_MSR_SMI_COUNT };
	static struct step step = { .stop = STEP_STOP };
	static char text[4096];
	struct worker worker = { .step = &step, .state = &c };
	FILE *file = tmpfile();
	uint64_t count = 500;

	c.text = text;
	c.text_size = sizeof(text);
	c.smi_fd = fileno(file);
	if (option_set_init(&step.options, noise_options) ||
	    pwrite(c.smi_fd, &count, sizeof(count), c.smi_at) != sizeof(count)) {
		tap_check(false, "a count of SMIs");
		return;
	}
	failures = 1;
	noise_loop(&worker);
	tap_check(c.stolen_ticks == -1, "stolen time is not known without a first reading: %lld",
		  (long long)c.stolen_ticks);
	tap_check(c.counts.smi == c.smi_start && c.smi_start == count,
		  "SMIs of a step that was stopped: %lld", (long long)(c.counts.smi - c.smi_start));
	option_set_free(&step.options);
	fclose(file);
}

/* Nothing is known of the interrupts in a gap after which they cannot be read. */
static void test_unreadable(void)
{
	static struct noise_cpu c = { .interrupts_fd = -1, .smi_fd = -1 };
	static char text[4096];
	struct noise_counts counts;

	c.text = text;
	c.text_size = sizeof(text);
	for (int i = 0; i < 2; i++) {
		counts = noise_look(&c);
		counts.switches = c.counts.switches;
		tap_check(noise_kind(&c.counts, &counts) == NOISE_INTERRUPT,
			  "the count of interrupts cannot be read: an interrupt");
		noise_follow(&c, counts);
	}
	c.interrupts_fd = memfd_create("test", MFD_CLOEXEC);
	dprintf(c.interrupts_fd, "  CPU0\n  0:  10  timer\n");
	c.counts = noise_look(&c);
	failures = 1;
	noise_follow(&c, noise_look(&c));
	lseek(c.interrupts_fd, 0, SEEK_SET);
	dprintf(c.interrupts_fd, "  CPU0\n  0:  11  timer\n");
	counts = noise_look(&c);
	counts.switches = c.counts.switches;
	tap_check(noise_kind(&c.counts, &counts) == NOISE_INTERRUPT,
		  "it could not be read before: an interrupt");
	noise_follow(&c, counts);
	counts = noise_look(&c);
	counts.switches = c.counts.switches;
	tap_check(noise_kind(&c.counts, &counts) == NOISE_HARDWARE,
		  "both counts could be read, and are equal: hardware");
	close(c.interrupts_fd);
}

/* A text of 200 KiB whose last line counts: more than the smallest room. */
static void test_room(void)
{
	FILE *file = tmpfile();
	size_t room;
	char *text;

	fprintf(file, "           CPU0\n");
	for (int i = 0; i < 10000; i++)
		fprintf(file, "%5d:          0 device\n", i);
	fprintf(file, "LOC:          7 timer\n");
	fflush(file);
	rewind(file);
	room = noise_room(fileno(file));
	text = calloc(1, room ? room : 1);
	noise_read(fileno(file), text, room);
	tap_check(room > 400000 && noise_interrupts(text, 0) == 7, "a long text is whole");
	free(text);
	rewind(file);
	tap_check(!ftruncate(fileno(file), NOISE_TEXT_MAX) && !noise_room(fileno(file)),
		  "one that is too long is refused");
	fclose(file);
	tap_check(noise_room(-1) == NOISE_TEXT, "none");
}

/* The kernel's own file has a column for the CPU, and the time passes in interrupts. */
static void test_here(void)
{
	static struct noise_cpu c = { .smi_fd = -1 };
	static char text[1 << 20];
	uint64_t first, last;

	c.text = text;
	c.text_size = sizeof(text);
	c.cpu = sched_getcpu();
	c.interrupts_fd = open("/proc/interrupts", O_RDONLY | O_CLOEXEC);
	if (c.interrupts_fd < 0) {
		tap_check(true, "there is no /proc/interrupts # SKIP");
		return;
	}
	first = noise_look(&c).interrupts;
	usleep(100000);
	last = noise_look(&c).interrupts;
	tap_check(first > 0 && last >= first, "this machine's interrupts: %llu, later %llu",
		  (unsigned long long)first, (unsigned long long)last);
	sleeps = true;
	/* this thread may be preempted at any time */
	for (int i = 0; i < 100 && noise_switches() != c.counts.switches; i++)
		noise_follow(&c, noise_look(&c));
	sleeps = false;
	tap_check(noise_switches() == c.counts.switches,
		  "a switch while the counts are read does not belong to the next gap");
}

int main(void)
{
	test_counts();
	test_kinds();
	test_smi();
	test_stopped();
	test_unreadable();
	test_room();
	test_here();
	return tap_end();
}
