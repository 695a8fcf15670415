// SPDX-License-Identifier: GPL-2.0-only
/*
 * A GPIO chip for the tests in a guest without one: "rtgauge-wired", whose output 0 is wired to its
 * input 1, and 2 to 3. An edge reaches the input within the call that drives the output, which then
 * raises the interrupt (an MSI) of QEMU's device edu. So counted time stays the same in every boot.
 * Fit for a pipeline of interrupts, in which the handlers of inputs may run out-of-band.
 */
#include <linux/bits.h>
#include <linux/gpio/driver.h>
#include <linux/interrupt.h>
#include <linux/io.h>
#include <linux/irq.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/pci.h>

#include "compat.h"

#define WIRED_LABEL "rtgauge-wired"
#define WIRED_LINES 4
#define WIRED_VENDOR 0x1234 /* edu: docs/specs/edu.rst of QEMU's sources */
#define WIRED_DEVICE 0x11e8
#define WIRED_STATUS 0x24
#define WIRED_RAISE 0x60
#define WIRED_CLEAR 0x64
#define WIRED_SIZE 0x68

static char *wired_name = "rtgauge_wired"; /* by default a driver that a core may use */
module_param_named(driver, wired_name, charp, 0444);

static void __iomem *wired_base;
static int wired_irq;
static compat_hard_spinlock_t wired_lock; /* of what follows */
static unsigned long wired_levels, wired_outputs, wired_heard, wired_pending;
static unsigned int wired_types[WIRED_LINES];

/* --- lines --- */

static int wired_get(struct gpio_chip *chip, unsigned int line)
{
	return !!(READ_ONCE(wired_levels) & BIT(line));
}

static int wired_direction(struct gpio_chip *chip, unsigned int line)
{
	return READ_ONCE(wired_outputs) & BIT(line) ? GPIO_LINE_DIRECTION_OUT :
						      GPIO_LINE_DIRECTION_IN;
}

/* With the lock held. */
static void wired_drive(unsigned int line, bool high)
{
	unsigned int input = line ^ 1;
	unsigned int type = high ? IRQ_TYPE_EDGE_RISING : IRQ_TYPE_EDGE_FALLING;

	if (!!(wired_levels & BIT(line)) == high)
		return;
	wired_levels ^= BIT(line) | BIT(input);
	if (!(wired_heard & BIT(input)) || !(wired_types[input] & type))
		return;
	wired_pending |= BIT(input);
	writel(1, wired_base + WIRED_RAISE);
}

static COMPAT_GPIO_SET wired_set(struct gpio_chip *chip, unsigned int line, int high)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&wired_lock, flags);
	if (wired_outputs & BIT(line))
		wired_drive(line, high);
	raw_spin_unlock_irqrestore(&wired_lock, flags);
	return COMPAT_GPIO_SET_DONE;
}

static int wired_output(struct gpio_chip *chip, unsigned int line, int high)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&wired_lock, flags);
	wired_outputs |= BIT(line);
	wired_drive(line, high);
	raw_spin_unlock_irqrestore(&wired_lock, flags);
	return 0;
}

static int wired_input(struct gpio_chip *chip, unsigned int line)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&wired_lock, flags);
	if (wired_outputs & BIT(line))
		wired_drive(line, false);
	wired_outputs &= ~BIT(line);
	raw_spin_unlock_irqrestore(&wired_lock, flags);
	return 0;
}

static struct gpio_chip wired_chip = {
	.label = WIRED_LABEL,
	.owner = THIS_MODULE,
	.base = -1,
	.ngpio = WIRED_LINES,
	.get = wired_get,
	.set = wired_set,
	.get_direction = wired_direction,
	.direction_input = wired_input,
	.direction_output = wired_output,
};

/* --- interrupts --- */

static void wired_mask(struct irq_data *data)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&wired_lock, flags);
	wired_heard &= ~BIT(irqd_to_hwirq(data));
	raw_spin_unlock_irqrestore(&wired_lock, flags);
	gpiochip_disable_irq(&wired_chip, irqd_to_hwirq(data));
}

static void wired_unmask(struct irq_data *data)
{
	unsigned long flags;

	gpiochip_enable_irq(&wired_chip, irqd_to_hwirq(data));
	raw_spin_lock_irqsave(&wired_lock, flags);
	wired_heard |= BIT(irqd_to_hwirq(data));
	raw_spin_unlock_irqrestore(&wired_lock, flags);
}

static int wired_set_type(struct irq_data *data, unsigned int type)
{
	wired_types[irqd_to_hwirq(data)] = type & IRQ_TYPE_EDGE_BOTH;
	return type & IRQ_TYPE_LEVEL_MASK ? -EINVAL : 0;
}

static struct irq_chip wired_irq_chip = { .name = WIRED_LABEL,
					  .irq_mask = wired_mask,
					  .irq_unmask = wired_unmask,
					  .irq_set_type = wired_set_type,
					  COMPAT_GPIO_IRQ_CHIP };

static irqreturn_t wired_rung(int irq, void *data)
{
	unsigned long pending;
	unsigned int line;

	writel(readl(wired_base + WIRED_STATUS), wired_base + WIRED_CLEAR);
	raw_spin_lock(&wired_lock);
	pending = wired_pending;
	wired_pending = 0;
	raw_spin_unlock(&wired_lock);
	for_each_set_bit(line, &pending, WIRED_LINES)
		compat_handle_domain_irq(wired_chip.irq.domain, line);
	return IRQ_HANDLED;
}

/* --- the device --- */

static int wired_probe(struct pci_dev *pci, const struct pci_device_id *id)
{
	int err;

	raw_spin_lock_init(&wired_lock);
	err = pci_enable_device(pci);
	if (err)
		return err;
	wired_base = pci_iomap(pci, 0, WIRED_SIZE);
	err = wired_base ? 0 : -ENOMEM;
	if (err)
		goto out_disable;
	pci_set_master(pci);
	err = pci_alloc_irq_vectors(pci, 1, 1, PCI_IRQ_MSI);
	if (err < 0)
		goto out_unmap;
	wired_irq = pci_irq_vector(pci, 0);
	wired_chip.parent = &pci->dev;
	compat_gpio_irq_chip(&wired_chip.irq, &wired_irq_chip);
	wired_chip.irq.handler = handle_simple_irq;
	wired_chip.irq.default_type = IRQ_TYPE_NONE;
	err = gpiochip_add_data(&wired_chip, NULL);
	if (err)
		goto out_free_vectors;
	err = request_irq(wired_irq, wired_rung, IRQF_NO_THREAD | COMPAT_IRQF_OOB, WIRED_LABEL,
			  pci);
	if (!err)
		return 0;
	gpiochip_remove(&wired_chip);
out_free_vectors:
	pci_free_irq_vectors(pci);
out_unmap:
	pci_iounmap(pci, wired_base);
out_disable:
	pci_disable_device(pci);
	return err;
}

static void wired_remove(struct pci_dev *pci)
{
	free_irq(wired_irq, pci);
	gpiochip_remove(&wired_chip);
	pci_free_irq_vectors(pci);
	pci_iounmap(pci, wired_base);
	pci_disable_device(pci);
}

static const struct pci_device_id wired_devices[] = {
	{ PCI_DEVICE(WIRED_VENDOR, WIRED_DEVICE) },
	{},
};

static struct pci_driver wired_driver = {
	.id_table = wired_devices,
	.probe = wired_probe,
	.remove = wired_remove,
};

static int __init wired_init(void)
{
	wired_driver.name = wired_name;
	return pci_register_driver(&wired_driver);
}

static void __exit wired_exit(void)
{
	pci_unregister_driver(&wired_driver);
}

module_init(wired_init);
module_exit(wired_exit);

MODULE_DESCRIPTION("A wired GPIO chip for the tests of rtgauge");
MODULE_AUTHOR("rtgauge");
MODULE_LICENSE("GPL");
