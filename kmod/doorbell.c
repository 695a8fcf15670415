// SPDX-License-Identifier: GPL-2.0-only
/*
 * rtgauge_doorbell: the lines of an emulated board of the lab that has no GPIO chip, as a chip
 * whose lines are driven and seen from outside. The device is QEMU's ivshmem-doorbell: memory that
 * both share (doorbell.h), an interrupt that the outside raises, and a register with which the
 * board interrupts the outside.
 */
#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/gpio/driver.h>
#include <linux/interrupt.h>
#include <linux/io.h>
#include <linux/irq.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/slab.h>

#include "compat.h"
#include "doorbell.h"

#define DOORBELL_LABEL "rtgauge-doorbell"
#define DOORBELL_VENDOR 0x1af4
#define DOORBELL_DEVICE 0x1110
#define DOORBELL_REGISTERS 0
#define DOORBELL_MEMORY 2
#define DOORBELL_RING 0x0c /* of the registers: the peer's number and its vector */
#define DOORBELL_PEER_SHIFT 16
#define DOORBELL_PEERS 0x10000

struct doorbell {
	struct gpio_chip chip;
	void __iomem *registers;
	struct doorbell_memory __iomem *memory;
	u32 ring; /* what is written to DOORBELL_RING */
	int irq;
	compat_hard_spinlock_t lock; /* of what follows; taken in hard interrupts */
	u32 outputs;		     /* lines that are driven here */
	u32 heard;		     /* lines whose changes are interrupts */
	u32 types[DOORBELL_LINES];   /* IRQ_TYPE_EDGE_* */
	u32 seen[DOORBELL_LINES];    /* changes */
};

/* --- lines --- */

static int doorbell_get(struct gpio_chip *chip, unsigned int line)
{
	struct doorbell *d = gpiochip_get_data(chip);
	bool driven = READ_ONCE(d->outputs) & BIT(line);

	return readl(driven ? &d->memory->out[line] : &d->memory->in[line]) & 1;
}

static int doorbell_get_direction(struct gpio_chip *chip, unsigned int line)
{
	struct doorbell *d = gpiochip_get_data(chip);

	return READ_ONCE(d->outputs) & BIT(line) ? GPIO_LINE_DIRECTION_OUT : GPIO_LINE_DIRECTION_IN;
}

/* With the lock held. */
static void doorbell_drive(struct doorbell *d, unsigned int line, bool high)
{
	u32 changes = readl(&d->memory->out[line]);

	if ((changes & 1) == high)
		return;
	writel(changes + 1, &d->memory->out[line]);
	writel(d->ring, d->registers + DOORBELL_RING);
}

static COMPAT_GPIO_SET doorbell_set(struct gpio_chip *chip, unsigned int line, int high)
{
	struct doorbell *d = gpiochip_get_data(chip);
	unsigned long flags;

	raw_spin_lock_irqsave(&d->lock, flags);
	if (d->outputs & BIT(line))
		doorbell_drive(d, line, high);
	raw_spin_unlock_irqrestore(&d->lock, flags);
	return COMPAT_GPIO_SET_DONE;
}

static int doorbell_output(struct gpio_chip *chip, unsigned int line, int high)
{
	struct doorbell *d = gpiochip_get_data(chip);
	unsigned long flags;

	raw_spin_lock_irqsave(&d->lock, flags);
	WRITE_ONCE(d->outputs, d->outputs | BIT(line));
	doorbell_drive(d, line, high);
	raw_spin_unlock_irqrestore(&d->lock, flags);
	return 0;
}

/* A line that is not driven is low outside. */
static int doorbell_input(struct gpio_chip *chip, unsigned int line)
{
	struct doorbell *d = gpiochip_get_data(chip);
	unsigned long flags;

	raw_spin_lock_irqsave(&d->lock, flags);
	WRITE_ONCE(d->outputs, d->outputs & ~BIT(line));
	doorbell_drive(d, line, false);
	raw_spin_unlock_irqrestore(&d->lock, flags);
	return 0;
}

/* --- interrupts --- */

static void doorbell_mask(struct irq_data *data)
{
	struct doorbell *d = gpiochip_get_data(irq_data_get_irq_chip_data(data));
	unsigned long flags;

	raw_spin_lock_irqsave(&d->lock, flags);
	d->heard &= ~BIT(irqd_to_hwirq(data));
	raw_spin_unlock_irqrestore(&d->lock, flags);
	gpiochip_disable_irq(&d->chip, irqd_to_hwirq(data));
}

/* Earlier changes have no owner. */
static void doorbell_unmask(struct irq_data *data)
{
	struct doorbell *d = gpiochip_get_data(irq_data_get_irq_chip_data(data));
	unsigned int line = irqd_to_hwirq(data);
	unsigned long flags;

	gpiochip_enable_irq(&d->chip, line);
	raw_spin_lock_irqsave(&d->lock, flags);
	d->seen[line] = readl(&d->memory->in[line]);
	d->heard |= BIT(line);
	raw_spin_unlock_irqrestore(&d->lock, flags);
}

static int doorbell_set_type(struct irq_data *data, unsigned int type)
{
	struct doorbell *d = gpiochip_get_data(irq_data_get_irq_chip_data(data));
	unsigned long flags;

	type &= IRQ_TYPE_SENSE_MASK;
	if (type & ~IRQ_TYPE_EDGE_BOTH)
		return -EINVAL;
	raw_spin_lock_irqsave(&d->lock, flags);
	d->types[irqd_to_hwirq(data)] = type;
	raw_spin_unlock_irqrestore(&d->lock, flags);
	return 0;
}

static struct irq_chip doorbell_irq_chip = { .name = DOORBELL_LABEL,
					     .irq_mask = doorbell_mask,
					     .irq_unmask = doorbell_unmask,
					     .irq_set_type = doorbell_set_type,
					     COMPAT_GPIO_IRQ_CHIP };

/* Whether the changes of a line since it was looked at last are an interrupt. */
static bool doorbell_rings(struct doorbell *d, unsigned int line)
{
	u32 now, changes, type;
	bool rings = false;

	raw_spin_lock(&d->lock);
	if (d->heard & BIT(line)) {
		now = readl(&d->memory->in[line]);
		changes = now - d->seen[line];
		d->seen[line] = now;
		type = now & 1 ? IRQ_TYPE_EDGE_RISING : IRQ_TYPE_EDGE_FALLING;
		rings = changes > 1 ? d->types[line] : changes && d->types[line] & type;
		if (changes > 1)
			writel(readl(&d->memory->merged) + changes - 1, &d->memory->merged);
	}
	raw_spin_unlock(&d->lock);
	return rings;
}

static irqreturn_t doorbell_rung(int irq, void *data)
{
	struct doorbell *d = data;
	unsigned int line;

	for (line = 0; line < DOORBELL_LINES; line++)
		if (doorbell_rings(d, line))
			compat_handle_domain_irq(d->chip.irq.domain, line);
	return IRQ_HANDLED;
}

/* --- the device --- */

static int doorbell_map(struct doorbell *d, struct pci_dev *pci)
{
	u32 peer;

	d->registers = pci_iomap(pci, DOORBELL_REGISTERS, DOORBELL_RING + sizeof(u32));
	if (!d->registers)
		return -ENOMEM;
	d->memory = pci_iomap(pci, DOORBELL_MEMORY, sizeof(*d->memory));
	if (!d->memory)
		return -ENOMEM;
	peer = readl(&d->memory->peer);
	if (readl(&d->memory->magic) != DOORBELL_MAGIC ||
	    readl(&d->memory->version) != DOORBELL_VERSION ||
	    readl(&d->memory->lines) != DOORBELL_LINES || peer >= DOORBELL_PEERS)
		return -ENODEV;
	d->ring = peer << DOORBELL_PEER_SHIFT;
	return 0;
}

static void doorbell_unmap(struct doorbell *d, struct pci_dev *pci)
{
	if (d->memory)
		pci_iounmap(pci, d->memory);
	if (d->registers)
		pci_iounmap(pci, d->registers);
}

static int doorbell_add_chip(struct doorbell *d, struct pci_dev *pci)
{
	struct gpio_chip *chip = &d->chip;

	chip->label = DOORBELL_LABEL;
	chip->parent = &pci->dev;
	chip->owner = THIS_MODULE;
	chip->base = -1;
	chip->ngpio = DOORBELL_LINES;
	chip->get = doorbell_get;
	chip->set = doorbell_set;
	chip->get_direction = doorbell_get_direction;
	chip->direction_input = doorbell_input;
	chip->direction_output = doorbell_output;
	compat_gpio_irq_chip(&chip->irq, &doorbell_irq_chip);
	chip->irq.handler = handle_simple_irq;
	chip->irq.default_type = IRQ_TYPE_NONE;
	return gpiochip_add_data(chip, d);
}

static int doorbell_probe(struct pci_dev *pci, const struct pci_device_id *id)
{
	struct doorbell *d;
	int err;

	/* the same device without interrupts: the lab's exchange */
	if (pci_msix_vec_count(pci) < 1)
		return -ENODEV;
	d = kzalloc(sizeof(*d), GFP_KERNEL);
	if (!d)
		return -ENOMEM;
	raw_spin_lock_init(&d->lock);
	err = pci_enable_device(pci);
	if (err)
		goto out_free;
	err = pci_request_regions(pci, KBUILD_MODNAME);
	if (err)
		goto out_disable;
	err = doorbell_map(d, pci);
	if (err)
		goto out_unmap;
	pci_set_master(pci);
	err = pci_alloc_irq_vectors(pci, 1, 1, PCI_IRQ_MSIX);
	if (err < 0)
		goto out_unmap;
	d->irq = pci_irq_vector(pci, 0);
	err = request_irq(d->irq, doorbell_rung, IRQF_NO_THREAD | COMPAT_IRQF_OOB, DOORBELL_LABEL,
			  d);
	if (err)
		goto out_free_vectors;
	/* where a board answers that was not told otherwise */
	compat_irq_set_affinity(d->irq, cpumask_of(0));
	err = doorbell_add_chip(d, pci);
	if (err)
		goto out_forget;
	pci_set_drvdata(pci, d);
	writel(1, &d->memory->board);
	return 0;

out_forget:
	compat_irq_forget_affinity(d->irq);
	free_irq(d->irq, d);
out_free_vectors:
	pci_free_irq_vectors(pci);
out_unmap:
	doorbell_unmap(d, pci);
	pci_release_regions(pci);
out_disable:
	pci_disable_device(pci);
out_free:
	kfree(d);
	return err;
}

static void doorbell_remove(struct pci_dev *pci)
{
	struct doorbell *d = pci_get_drvdata(pci);

	writel(0, &d->memory->board);
	/* first: the chip's interrupt domain ends with it, also while a line is in use */
	compat_irq_forget_affinity(d->irq);
	free_irq(d->irq, d);
	gpiochip_remove(&d->chip);
	pci_free_irq_vectors(pci);
	doorbell_unmap(d, pci);
	pci_release_regions(pci);
	pci_disable_device(pci);
	kfree(d);
}

/* No alias: it is inserted where it is wanted, not wherever there is such a device. */
static const struct pci_device_id doorbell_devices[] = {
	{ PCI_DEVICE(DOORBELL_VENDOR, DOORBELL_DEVICE) },
	{},
};

static struct pci_driver doorbell_driver = {
	.name = KBUILD_MODNAME,
	.id_table = doorbell_devices,
	.probe = doorbell_probe,
	.remove = doorbell_remove,
};
module_pci_driver(doorbell_driver);

MODULE_DESCRIPTION("Lines of an emulated board, driven and seen from outside");
MODULE_AUTHOR("rtgauge");
MODULE_LICENSE("GPL");
