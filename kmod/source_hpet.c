// SPDX-License-Identifier: GPL-2.0-only
/*
 * The HPET of a PC: a comparator raises the interrupt, and the HPET's counter shows the handler how
 * long ago that was. The kernel uses comparators 0 and 1. The source borrows the first free one of
 * the others, and restores it at the end. Registers: IA-PC HPET specification, 1.0a.
 */
#include <linux/errno.h>
#include <linux/string.h>

#include "compat.h"
#include "source.h"

#if IS_ENABLED(CONFIG_X86) && IS_ENABLED(CONFIG_ACPI)

#include <linux/acpi.h>
#include <linux/bitfield.h>
#include <linux/clocksource.h>
#include <linux/delay.h>
#include <linux/io.h>
#include <linux/ktime.h>
#include <linux/math64.h>

#define SOURCE_HPET_SIZE 1024
#define SOURCE_HPET_CAPABILITIES 0x000
#define SOURCE_HPET_LAST_TIMER GENMASK(12, 8)
#define SOURCE_HPET_PERIOD_FS 0x004
#define SOURCE_HPET_CONFIG 0x010
#define SOURCE_HPET_RUNS BIT(0)
#define SOURCE_HPET_STATUS 0x020
#define SOURCE_HPET_COUNTER 0x0f0
#define SOURCE_HPET_TIMER(n) (0x100 + 0x20 * (n))
#define SOURCE_HPET_ROUTES(n) (0x104 + 0x20 * (n))
#define SOURCE_HPET_COMPARE(n) (0x108 + 0x20 * (n))

#define SOURCE_HPET_LEVEL BIT(1)
#define SOURCE_HPET_ENABLED BIT(2)
#define SOURCE_HPET_PERIODIC BIT(3)
#define SOURCE_HPET_CAN_PERIODIC BIT(4)
#define SOURCE_HPET_SET_VALUE BIT(6)
#define SOURCE_HPET_32BIT BIT(8)
#define SOURCE_HPET_ROUTE GENMASK(13, 9)
#define SOURCE_HPET_MSI BIT(14)

#define SOURCE_HPET_PERIOD_MAX_FS 100000000
/* The kernel uses the comparators before this one, in legacy mode. */
#define SOURCE_HPET_FIRST 2
/* The inputs of the interrupt controller before this one belong to the ISA bus. */
#define SOURCE_HPET_GSI_MIN 16
/* On some chips, a comparator that is written closer to the counter than this misses its match. */
#define SOURCE_HPET_NEAR_TICKS 64
/* Furthest setting: half of what a signed difference of 32 bits can be ahead. */
#define SOURCE_HPET_FAR_TICKS BIT(30)
#define SOURCE_HPET_INTERVAL_MIN_NS 20000
#define SOURCE_HPET_SUSTAIN_MIN_NS 1000

struct source_hpet {
	void __iomem *base;
	unsigned int timer;
	u32 period_fs;
	u32 config;	     /* of the borrowed comparator, disabled */
	u32 compare;	     /* last value written */
	u32 last;	     /* sustain: counter at the previous interrupt */
	u64 units;	     /* sustain: ticks since the first interrupt was raised */
	u64 to_ns, to_ticks; /* factors, with 32 fractional bits */
	u32 saved_config, saved_compare;
	u32 gsi;
	unsigned int irq;
};

/* The only instance. Its owner changes under the lock of all sessions. */
static struct source_hpet source_hpet_device;
static struct session *source_hpet_owner;

static u32 source_hpet_read(const struct source_hpet *hpet, u32 offset)
{
	return readl(hpet->base + offset);
}

static void source_hpet_write(const struct source_hpet *hpet, u32 offset, u32 value)
{
	writel(value, hpet->base + offset);
}

/* A plain product would exceed 64 bits from a few seconds on. */
static u64 source_hpet_ns(const struct source_hpet *hpet, u32 ticks)
{
	return mul_u64_u32_shr(hpet->to_ns, ticks, 32);
}

/* --- in the handler --- */

/* Sets the comparator, from a reading of both clocks. Returns whether it is far ahead. */
static bool source_hpet_set(struct source_hpet *hpet, u32 counter, u64 now_ns, u64 due_ns)
{
	u64 ticks = (u64)(((due_ns - now_ns) * hpet->to_ticks) >> 32);

	hpet->compare = counter + (u32)ticks;
	source_hpet_write(hpet, SOURCE_HPET_COMPARE(hpet->timer), hpet->compare);
	counter = source_hpet_read(hpet, SOURCE_HPET_COUNTER);
	return (s32)(hpet->compare - counter) >= SOURCE_HPET_NEAR_TICKS;
}

/* Sets the comparator to the first due time far enough ahead. 0: none is left, it is disabled. */
static u64 source_hpet_set_next(struct session *s, u32 counter, u64 now_ns, u64 due_ns)
{
	struct source_hpet *hpet = &source_hpet_device;

	while (due_ns && !source_hpet_set(hpet, counter, now_ns, due_ns)) {
		counter = source_hpet_read(hpet, SOURCE_HPET_COUNTER);
		now_ns = ktime_get_ns();
		due_ns = session_passed(s, now_ns);
	}
	if (!due_ns)
		source_hpet_write(hpet, SOURCE_HPET_TIMER(hpet->timer), hpet->config);
	return due_ns;
}

static irqreturn_t source_hpet_event(int irq, void *data)
{
	struct source_hpet *hpet = &source_hpet_device;
	u32 counter = source_hpet_read(hpet, SOURCE_HPET_COUNTER);
	u64 entry_ns = ktime_get_ns();
	struct session *s = data;
	u32 age = counter - hpet->compare;
	u64 next_ns;

	source_hpet_write(hpet, SOURCE_HPET_STATUS, BIT(hpet->timer));
	if (unlikely((s32)age < 0 || !s->due_ns)) {
		s->stray++;
		return IRQ_NONE;
	}
	next_ns = session_record(s, entry_ns - source_hpet_ns(hpet, age), entry_ns);
	source_hpet_set_next(s, counter, entry_ns, next_ns);
	session_complete(s);
	return session_handled(s);
}

static irqreturn_t source_hpet_count(int irq, void *data)
{
	struct source_hpet *hpet = &source_hpet_device;
	u32 counter = source_hpet_read(hpet, SOURCE_HPET_COUNTER);
	struct session *s = data;

	source_hpet_write(hpet, SOURCE_HPET_STATUS, BIT(hpet->timer));
	if (unlikely((s32)(counter - hpet->last) < 0))
		return IRQ_NONE;
	hpet->units += counter - hpet->last;
	hpet->last = counter;
	if (session_counts(s, hpet->units))
		source_hpet_write(hpet, SOURCE_HPET_TIMER(hpet->timer), hpet->config);
	return IRQ_HANDLED;
}

/* --- finding and borrowing it --- */

/* Maps the HPET. 0, or -errno with a reason and @hpet->base NULL. */
static int source_hpet_map(struct source_hpet *hpet, const char **reason)
{
	struct acpi_table_header *table;
	phys_addr_t address;

	memset(hpet, 0, sizeof(*hpet));
	*reason = "the firmware describes no HPET";
	if (ACPI_FAILURE(acpi_get_table(ACPI_SIG_HPET, 0, &table)))
		return -ENODEV;
	address = ((struct acpi_table_hpet *)table)->address.address;
	acpi_put_table(table);
	if (!address)
		return -ENODEV;
	*reason = "the HPET cannot be mapped";
	hpet->base = ioremap(address, SOURCE_HPET_SIZE);
	return hpet->base ? 0 : -ENOMEM;
}

static void source_hpet_unmap(struct source_hpet *hpet)
{
	iounmap(hpet->base);
	hpet->base = NULL;
}

/* Reads its properties, and finds a free comparator. 0, or -errno with a reason. */
static int source_hpet_look(struct source_hpet *hpet, const char **reason)
{
	u32 capabilities = source_hpet_read(hpet, SOURCE_HPET_CAPABILITIES);
	u32 last = FIELD_GET(SOURCE_HPET_LAST_TIMER, capabilities);
	u32 n;

	hpet->period_fs = source_hpet_read(hpet, SOURCE_HPET_PERIOD_FS);
	*reason = "the HPET reports an invalid period";
	if (!hpet->period_fs || hpet->period_fs > SOURCE_HPET_PERIOD_MAX_FS)
		return -ENODEV;
	*reason = "the kernel does not run the HPET";
	if (!(source_hpet_read(hpet, SOURCE_HPET_CONFIG) & SOURCE_HPET_RUNS))
		return -ENODEV;
	hpet->to_ns = div_u64((u64)hpet->period_fs << 32, 1000000);
	hpet->to_ticks = div_u64(1000000ULL << 32, hpet->period_fs);
	*reason = "no comparator of the HPET is free";
	for (n = SOURCE_HPET_FIRST; n <= last; n++) {
		u32 config = source_hpet_read(hpet, SOURCE_HPET_TIMER(n));
		u32 routes = source_hpet_read(hpet, SOURCE_HPET_ROUTES(n));

		if (config & (SOURCE_HPET_ENABLED | SOURCE_HPET_MSI) ||
		    !(routes >> SOURCE_HPET_GSI_MIN))
			continue;
		hpet->timer = n;
		hpet->saved_config = config;
		hpet->saved_compare = source_hpet_read(hpet, SOURCE_HPET_COMPARE(n));
		return 0;
	}
	return -EBUSY;
}

static int source_hpet_find(struct rtgauge_source *info)
{
	struct source_hpet hpet;
	const char *reason = "";
	int err = 0;

	if (source_hpet_owner) {
		hpet = source_hpet_device;
		info->irq = hpet.irq;
	} else {
		err = source_hpet_map(&hpet, &reason);
		if (!err) {
			err = source_hpet_look(&hpet, &reason);
			source_hpet_unmap(&hpet);
		}
	}
	if (err) {
		strscpy(info->reason, reason, sizeof(info->reason));
		return err;
	}
	info->resolution_ns = DIV_ROUND_UP(hpet.period_fs, 1000000);
	info->interval_min_ns = SOURCE_HPET_INTERVAL_MIN_NS;
	info->interval_max_ns = source_hpet_ns(&hpet, SOURCE_HPET_FAR_TICKS);
	if (hpet.saved_config & SOURCE_HPET_CAN_PERIODIC)
		info->sustain_min_ns = SOURCE_HPET_SUSTAIN_MIN_NS;
	return 0;
}

/* Requests an unused input of the interrupt controller, and binds it to the session's CPU. */
static int source_hpet_connect(struct source_hpet *hpet, struct session *s)
{
	u32 routes = source_hpet_read(hpet, SOURCE_HPET_ROUTES(hpet->timer));
	irq_handler_t handler = s->sustain ? source_hpet_count : source_hpet_event;
	u32 gsi;

	for (gsi = SOURCE_HPET_GSI_MIN; gsi < 32; gsi++) {
		int irq;

		if (!(routes & BIT(gsi)))
			continue;
		irq = acpi_register_gsi(NULL, gsi, ACPI_LEVEL_SENSITIVE, ACPI_ACTIVE_LOW);
		if (irq < 0)
			continue;
		if (!request_threaded_irq(irq, handler, session_irq_thread(s),
					  IRQF_NO_THREAD | IRQF_NOBALANCING, "rtgauge-hpet", s)) {
			hpet->gsi = gsi;
			hpet->irq = irq;
			s->irq = irq;
			return compat_irq_set_affinity(irq, cpumask_of(s->cpu));
		}
		acpi_unregister_gsi(gsi);
	}
	return -EBUSY;
}

static void source_hpet_disconnect(struct source_hpet *hpet, struct session *s)
{
	if (!hpet->irq)
		return;
	compat_irq_forget_affinity(hpet->irq);
	free_irq(hpet->irq, s);
	acpi_unregister_gsi(hpet->gsi);
	hpet->irq = 0;
}

static void source_hpet_close(struct session *s)
{
	struct source_hpet *hpet = &source_hpet_device;

	source_hpet_disconnect(hpet, s);
	source_hpet_write(hpet, SOURCE_HPET_COMPARE(hpet->timer), hpet->saved_compare);
	source_hpet_write(hpet, SOURCE_HPET_TIMER(hpet->timer), hpet->saved_config);
	source_hpet_owner = NULL;
	source_hpet_unmap(hpet);
}

/*
 * The I/O APIC moves an interrupt to another CPU only while it is handled, so one is raised before
 * those that count. The handlers do not record it.
 */
static void source_hpet_move(struct source_hpet *hpet, struct session *s)
{
	u32 counter = source_hpet_read(hpet, SOURCE_HPET_COUNTER);
	u32 soon = (100 * NSEC_PER_USEC * hpet->to_ticks) >> 32;

	source_hpet_write(hpet, SOURCE_HPET_COMPARE(hpet->timer), counter + soon);
	source_hpet_write(hpet, SOURCE_HPET_TIMER(hpet->timer), hpet->config | SOURCE_HPET_ENABLED);
	usleep_range(1000, 2000);
	source_hpet_write(hpet, SOURCE_HPET_TIMER(hpet->timer), hpet->config);
	synchronize_irq(hpet->irq);
	s->stray = 0;
}

static int source_hpet_open(struct session *s, struct rtgauge_setup *setup)
{
	struct source_hpet *hpet = &source_hpet_device;
	const char *reason;
	int err;

	if (source_hpet_owner)
		return -EBUSY;
	err = source_hpet_map(hpet, &reason);
	if (err)
		return err;
	err = source_hpet_look(hpet, &reason);
	if (err) {
		source_hpet_unmap(hpet);
		return err;
	}
	source_hpet_owner = s;
	/* before start(), interrupts on the line are not the session's */
	s->due_ns = 0;
	hpet->last = source_hpet_read(hpet, SOURCE_HPET_COUNTER) + SOURCE_HPET_FAR_TICKS;
	err = source_hpet_connect(hpet, s);
	if (err) {
		source_hpet_close(s);
		return err;
	}
	hpet->config = SOURCE_HPET_LEVEL | SOURCE_HPET_32BIT |
		       FIELD_PREP(SOURCE_HPET_ROUTE, hpet->gsi);
	source_hpet_write(hpet, SOURCE_HPET_TIMER(hpet->timer), hpet->config);
	source_hpet_write(hpet, SOURCE_HPET_STATUS, BIT(hpet->timer));
	if (num_online_cpus() > 1)
		source_hpet_move(hpet, s);
	return 0;
}

/* --- running --- */

static int source_hpet_start(struct session *s)
{
	struct source_hpet *hpet = &source_hpet_device;
	u64 due_ns = s->due_ns, now_ns;
	u32 counter;

	/* the handler must not run while a due time is being set */
	disable_irq(hpet->irq);
	counter = source_hpet_read(hpet, SOURCE_HPET_COUNTER);
	now_ns = ktime_get_ns();
	if (due_ns > now_ns + source_hpet_ns(hpet, SOURCE_HPET_FAR_TICKS)) {
		enable_irq(hpet->irq);
		return -EINVAL;
	}
	if (due_ns <= now_ns)
		due_ns = session_passed(s, now_ns);
	hpet->compare = counter + SOURCE_HPET_FAR_TICKS;
	source_hpet_write(hpet, SOURCE_HPET_COMPARE(hpet->timer), hpet->compare);
	source_hpet_write(hpet, SOURCE_HPET_TIMER(hpet->timer), hpet->config | SOURCE_HPET_ENABLED);
	due_ns = source_hpet_set_next(s, counter, now_ns, due_ns);
	enable_irq(hpet->irq);
	if (!due_ns)
		session_exhausted(s);
	return 0;
}

static void source_hpet_stop(struct session *s)
{
	struct source_hpet *hpet = &source_hpet_device;

	source_hpet_write(hpet, SOURCE_HPET_TIMER(hpet->timer), hpet->config);
	source_hpet_read(hpet, SOURCE_HPET_TIMER(hpet->timer));
	synchronize_irq(hpet->irq);
	source_hpet_write(hpet, SOURCE_HPET_STATUS, BIT(hpet->timer));
}

static int source_hpet_sustain(struct session *s, u64 period_ns, u64 *unit_fs)
{
	struct source_hpet *hpet = &source_hpet_device;
	u32 period = (period_ns * hpet->to_ticks + (1ULL << 31)) >> 32;
	u32 first;

	session_expect(s, period);
	*unit_fs = hpet->period_fs;
	first = source_hpet_read(hpet, SOURCE_HPET_COUNTER) +
		(u32)((NSEC_PER_MSEC * hpet->to_ticks) >> 32);
	hpet->last = first;
	hpet->units = 0;
	/* the first write after SET_VALUE sets the comparator, the next one the period */
	source_hpet_write(hpet, SOURCE_HPET_TIMER(hpet->timer),
			  hpet->config | SOURCE_HPET_PERIODIC | SOURCE_HPET_SET_VALUE |
				  SOURCE_HPET_ENABLED);
	source_hpet_write(hpet, SOURCE_HPET_COMPARE(hpet->timer), first);
	udelay(1);
	source_hpet_write(hpet, SOURCE_HPET_COMPARE(hpet->timer), period);
	return 0;
}

const struct source source_hpet = {
	.name = "hpet",
	.flags = RTGAUGE_SOURCE_FREE_RUNNING | RTGAUGE_SOURCE_RAISE_STAMP |
		 RTGAUGE_SOURCE_EXCLUSIVE | RTGAUGE_SOURCE_THREADED,
	.find = source_hpet_find,
	.open = source_hpet_open,
	.close = source_hpet_close,
	.start = source_hpet_start,
	.stop = source_hpet_stop,
	.sustain = source_hpet_sustain,
};

#else

static int source_hpet_find(struct rtgauge_source *info)
{
	strscpy(info->reason, "only PCs have an HPET", sizeof(info->reason));
	return -ENODEV;
}

const struct source source_hpet = {
	.name = "hpet",
	.flags = RTGAUGE_SOURCE_FREE_RUNNING | RTGAUGE_SOURCE_RAISE_STAMP |
		 RTGAUGE_SOURCE_EXCLUSIVE | RTGAUGE_SOURCE_THREADED,
	.find = source_hpet_find,
};

#endif
