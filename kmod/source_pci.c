// SPDX-License-Identifier: GPL-2.0-only
/*
 * A PCI device that raises an interrupt (an MSI) when a register is written. The source takes a
 * device that has no driver, and disables it at the end.
 *
 * edu: QEMU's teaching device, docs/specs/edu.rst of QEMU's sources.
 */
#include <linux/errno.h>
#include <linux/string.h>

#include "compat.h"
#include "source.h"

#if IS_ENABLED(CONFIG_PCI_MSI)

#include <linux/delay.h>
#include <linux/interrupt.h>
#include <linux/io.h>
#include <linux/pci.h>
#include <linux/slab.h>

#include "raiser.h"

#define SOURCE_PCI_BAR 0

/* The registers are 32 bits wide. */
struct source_pci_kind {
	u16 vendor, device;
	u16 raise;  /* write: the bits to raise */
	u16 status; /* read: the bits that are raised */
	u16 clear;  /* write: the bits to clear */
	u16 size;   /* of the registers, in bytes */
};

static const struct source_pci_kind source_pci_kinds[] = {
	{ .vendor = 0x1234,
	  .device = 0x11e8,
	  .raise = 0x60,
	  .status = 0x24,
	  .clear = 0x64,
	  .size = 0x68 }, /* edu */
};

struct source_pci {
	struct raiser raiser;
	const struct source_pci_kind *kind;
	struct pci_dev *device;
	void __iomem *base;
	bool enabled, requested;
	int irq; /* 0: not requested */
};

/* --- in the handler --- */

static irqreturn_t source_pci_event(int irq, void *data)
{
	u64 entry_ns = ktime_get_ns();
	struct session *s = data;
	struct source_pci *pci = s->device;
	u32 status = readl(pci->base + pci->kind->status);

	writel(status, pci->base + pci->kind->clear);
	if (unlikely(!status || !raiser_is_due(&pci->raiser))) {
		s->stray++;
		return status ? IRQ_HANDLED : IRQ_NONE;
	}
	session_record(s, pci->raiser.raised_ns, entry_ns);
	session_complete(s);
	raiser_heard(&pci->raiser);
	return session_handled(s);
}

static void source_pci_drive(struct raiser *r, bool up)
{
	struct source_pci *pci = container_of(r, struct source_pci, raiser);

	if (!up)
		return;
	raiser_raises(r);
	writel(1, pci->base + pci->kind->raise);
}

/* --- finding and taking it --- */

/*
 * Finds the first device without a driver, takes a reference and locks it, so that no driver binds
 * to it before the caller has taken it. NULL with a reason if there is no such device.
 */
static struct pci_dev *source_pci_look(const struct source_pci_kind **kind, const char **reason)
{
	struct pci_dev *device = NULL;
	unsigned int i;

	*reason = "no PCI device that the module supports (edu)";
	for (i = 0; i < ARRAY_SIZE(source_pci_kinds); i++) {
		*kind = &source_pci_kinds[i];
		while ((device = pci_get_device((*kind)->vendor, (*kind)->device, device))) {
			*reason = "the PCI device has a driver, or does not have MSI";
			device_lock(&device->dev);
			if (!device->dev.driver && device->msi_cap &&
			    pci_resource_len(device, SOURCE_PCI_BAR) >= (*kind)->size)
				return device;
			device_unlock(&device->dev);
		}
	}
	return NULL;
}

static int source_pci_find(struct rtgauge_source *info)
{
	const struct source_pci_kind *kind;
	const char *reason;
	struct pci_dev *device = source_pci_look(&kind, &reason);

	info->interval_min_ns = RAISER_INTERVAL_MIN_NS;
	if (!device) {
		strscpy(info->reason, reason, sizeof(info->reason));
		return -ENODEV;
	}
	device_unlock(&device->dev);
	pci_dev_put(device);
	return 0;
}

/*
 * Without interrupt remapping, x86 moves an interrupt to another CPU only while it is handled, so
 * one is raised before those that count. The handler does not record it.
 */
static void source_pci_move(struct source_pci *pci, struct session *s)
{
	writel(1, pci->base + pci->kind->raise);
	usleep_range(1000, 2000);
	synchronize_irq(pci->irq);
	s->stray = 0;
}

/* Takes the device, and last its interrupt. A driver cannot get the region after that. */
static int source_pci_connect(struct source_pci *pci, struct session *s)
{
	int irq, err = pci_enable_device(pci->device);

	if (err)
		return err;
	pci->enabled = true;
	err = pci_request_region(pci->device, SOURCE_PCI_BAR, "rtgauge");
	if (err)
		return err;
	pci->requested = true;
	pci->base = pci_iomap(pci->device, SOURCE_PCI_BAR, pci->kind->size);
	if (!pci->base)
		return -ENOMEM;
	pci_set_master(pci->device);
	err = pci_alloc_irq_vectors(pci->device, 1, 1, PCI_IRQ_MSI);
	if (err < 0)
		return err;
	/* bits that were raised earlier */
	writel(~0U, pci->base + pci->kind->clear);
	irq = pci_irq_vector(pci->device, 0);
	err = request_threaded_irq(irq, source_pci_event, session_irq_thread(s),
				   IRQF_NO_THREAD | IRQF_NOBALANCING, "rtgauge-pci", s);
	if (err)
		return err;
	pci->irq = irq;
	s->irq = irq;
	err = compat_irq_set_affinity(irq, cpumask_of(s->cpu));
	if (!err)
		source_pci_move(pci, s);
	return err;
}

static void source_pci_close(struct session *s)
{
	struct source_pci *pci = s->device;

	raiser_stop(&pci->raiser);
	if (pci->irq) {
		compat_irq_forget_affinity(pci->irq);
		free_irq(pci->irq, s);
	}
	if (pci->base) {
		pci_free_irq_vectors(pci->device);
		pci_clear_master(pci->device);
		pci_iounmap(pci->device, pci->base);
	}
	if (pci->requested)
		pci_release_region(pci->device, SOURCE_PCI_BAR);
	if (pci->enabled)
		pci_disable_device(pci->device);
	pci_dev_put(pci->device);
	kfree(pci);
	s->device = NULL;
}

static int source_pci_open(struct session *s, struct rtgauge_setup *setup)
{
	struct source_pci *pci = kzalloc(sizeof(*pci), GFP_KERNEL);
	const char *reason;
	int err;

	if (!pci)
		return -ENOMEM;
	pci->device = source_pci_look(&pci->kind, &reason);
	if (!pci->device) {
		kfree(pci);
		return -ENODEV;
	}
	s->device = pci;
	raiser_init(&pci->raiser, s, setup, source_pci_drive);
	err = source_pci_connect(pci, s);
	device_unlock(&pci->device->dev);
	if (!err)
		err = raiser_make(&pci->raiser);
	if (err)
		source_pci_close(s);
	return err;
}

/* --- running --- */

static int source_pci_start(struct session *s)
{
	struct source_pci *pci = s->device;

	return raiser_start(&pci->raiser);
}

static void source_pci_stop(struct session *s)
{
	struct source_pci *pci = s->device;

	raiser_stop(&pci->raiser);
	/* waits for a running handler, and keeps a late interrupt from starting one */
	disable_irq(pci->irq);
}

const struct source source_pci = {
	.name = "pci",
	.flags = RTGAUGE_SOURCE_RAISE_STAMP | RTGAUGE_SOURCE_EXCLUSIVE | RTGAUGE_SOURCE_THREADED,
	.find = source_pci_find,
	.open = source_pci_open,
	.close = source_pci_close,
	.start = source_pci_start,
	.stop = source_pci_stop,
};

#else

static int source_pci_find(struct rtgauge_source *info)
{
	strscpy(info->reason, "the kernel was built without PCI or MSI", sizeof(info->reason));
	return -ENODEV;
}

const struct source source_pci = {
	.name = "pci",
	.flags = RTGAUGE_SOURCE_RAISE_STAMP | RTGAUGE_SOURCE_EXCLUSIVE | RTGAUGE_SOURCE_THREADED,
	.find = source_pci_find,
};

#endif
