/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What differs between the kernels that the module is built for: 5.10 and newer. No other file
 * asks for the kernel's version.
 */
#ifndef RTGAUGE_COMPAT_H
#define RTGAUGE_COMPAT_H

#include <linux/gpio/driver.h>
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/irq.h>
#include <linux/irqdesc.h>
#include <linux/irqdomain.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/serial_core.h>
#include <linux/stacktrace.h>
#include <linux/string.h>
#include <linux/tty_ldisc.h>
#include <linux/version.h>
#include <linux/workqueue.h>
#if defined(CONFIG_X86) && (defined(CONFIG_UNWINDER_ORC) || defined(CONFIG_UNWINDER_FRAME_POINTER))
#define COMPAT_STACK_REGS
#include <asm/unwind.h>
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 10, 0)
#error "rtgauge needs Linux 5.10 or newer"
#endif

static inline void compat_hrtimer_setup(struct hrtimer *timer,
					enum hrtimer_restart (*function)(struct hrtimer *),
					enum hrtimer_mode mode)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(timer, function, CLOCK_MONOTONIC, mode);
#else
	hrtimer_init(timer, CLOCK_MONOTONIC, mode);
	timer->function = function;
#endif
}

/* Kernels for a single CPU, without CONFIG_SMP, refuse it. */
static inline int compat_irq_set_affinity(unsigned int irq, const struct cpumask *mask)
{
	if (!IS_ENABLED(CONFIG_SMP))
		return 0;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 17, 0)
	return irq_set_affinity_and_hint(irq, mask);
#else
	return irq_set_affinity_hint(irq, mask);
#endif
}

/* Keeps the set-up of request_irq(), and frees only the memory of the hint. */
static inline void compat_irq_forget_affinity(unsigned int irq)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 17, 0)
	irq_update_affinity_hint(irq, NULL);
#else
	irq_set_affinity_hint(irq, NULL);
#endif
}

static inline void compat_vm_keep_read_only(struct vm_area_struct *vma)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	vm_flags_mod(vma, VM_DONTEXPAND | VM_DONTDUMP, VM_MAYWRITE);
#else
	vma->vm_flags = (vma->vm_flags | VM_DONTEXPAND | VM_DONTDUMP) & ~VM_MAYWRITE;
#endif
}

/* Arguments of probes of the tracepoint sched_switch. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 18, 0)
#define COMPAT_SWITCH_ARGUMENTS \
	bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state
#else
#define COMPAT_SWITCH_ARGUMENTS bool preempt, struct task_struct *prev, struct task_struct *next
#endif

/* The state in which @prev left its CPU. Without the argument it may have been woken since. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 18, 0)
#define COMPAT_SWITCH_STATE prev_state
#elif LINUX_VERSION_CODE >= KERNEL_VERSION(5, 14, 0)
#define COMPAT_SWITCH_STATE READ_ONCE(prev->__state)
#else
#define COMPAT_SWITCH_STATE ((unsigned int)READ_ONCE(prev->state))
#endif

/*
 * The states in which a task waits, as tracefs reports them: also for a lock that sleeps on
 * PREEMPT_RT, and 0x80 for one that waits for work (TASK_IDLE).
 */
static inline unsigned int compat_task_state(unsigned int state)
{
#ifdef TASK_RTLOCK_WAIT
	if (state & TASK_RTLOCK_WAIT)
		return TASK_UNINTERRUPTIBLE;
#endif
#ifdef TASK_NOLOAD
	if (state & TASK_NOLOAD)
		return 0x80;
#endif
	return state & 0xff;
}

/*
 * Addresses of the stack of the task in an interrupt, the innermost first. On x86 the first one is
 * the code that the interrupt found. Others export no function that begins there, so the entries of
 * the handler come before it, usually fewer than COMPAT_STACK_BEFORE. Kernels without
 * CONFIG_STACKTRACE save no stacks.
 */
#ifdef COMPAT_STACK_REGS
#define COMPAT_STACK_BEFORE 0
#else
#define COMPAT_STACK_BEFORE 24
#endif
#if IS_ENABLED(CONFIG_STACKTRACE)
#define COMPAT_STACK
#ifdef COMPAT_STACK_REGS
static inline unsigned int compat_stack_save(struct pt_regs *regs, unsigned long *frames,
					     unsigned int room)
{
	struct unwind_state state;
	unsigned int count = 0;
	unsigned long address;

	frames[count++] = instruction_pointer(regs);
	for (unwind_start(&state, current, regs, NULL); count < room && !unwind_done(&state);
	     unwind_next_frame(&state)) {
		address = unwind_get_return_address(&state);
		if (!address)
			break;
		frames[count++] = address;
	}
	return count;
}
#else
static inline unsigned int compat_stack_save(struct pt_regs *regs, unsigned long *frames,
					     unsigned int room)
{
	return stack_trace_save(frames, room, 0);
}
#endif
#else
static inline unsigned int compat_stack_save(struct pt_regs *regs, unsigned long *frames,
					     unsigned int room)
{
	return 0;
}
#endif

/* For a table of lines; older kernels leave a bias as it is. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 1, 0)
#define COMPAT_GPIO_PULL_DISABLE GPIO_PULL_DISABLE
#else
#define COMPAT_GPIO_PULL_DISABLE 0
#endif

/* How many lines the chip with this label has; 0: there is none. */
#if !IS_ENABLED(CONFIG_GPIOLIB)
static inline unsigned int compat_gpio_lines(const char *label)
{
	return 0;
}
#elif LINUX_VERSION_CODE >= KERNEL_VERSION(6, 7, 0)
static inline unsigned int compat_gpio_lines(const char *label)
{
	struct gpio_device *device = gpio_device_find_by_label(label);
	struct gpio_chip *chip = device ? gpio_device_get_chip(device) : NULL;
	unsigned int lines = chip ? chip->ngpio : 0;

	if (device)
		gpio_device_put(device);
	return lines;
}
#else
static inline int compat_gpio_has_label(struct gpio_chip *chip, void *label)
{
	return chip->label && !strcmp(chip->label, label);
}

static inline unsigned int compat_gpio_lines(const char *label)
{
	struct gpio_chip *chip = gpiochip_find((void *)label, compat_gpio_has_label);

	return chip ? chip->ngpio : 0;
}
#endif

/*
 * Drivers that depend on the version: from 6.16 on the driver of the Raspberry Pi 5 uses a register
 * map, whose lock sleeps on PREEMPT_RT.
 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 16, 0)
#define COMPAT_GPIO_HARD_DRIVERS "gpio-mxc", "gpio-dwapb"
#else
#define COMPAT_GPIO_HARD_DRIVERS "pinctrl-rp1"
#endif

/*
 * Whether reading and driving a line are the functions of gpio-mmio, whatever the driver. They take
 * no lock, or one that is raw from 5.18 and 5.15.92 on. The kernel does not export them, so they are
 * recognised by their names, if it was built with names. From 6.16 on the functions are elsewhere.
 */
#if IS_ENABLED(CONFIG_GPIO_GENERIC) && LINUX_VERSION_CODE < KERNEL_VERSION(6, 16, 0)
static inline bool compat_gpio_is_generic(const struct gpio_chip *chip)
{
	char names[4][16];
	unsigned int i;

	if (!__builtin_types_compatible_p(typeof(chip->bgpio_lock), raw_spinlock_t))
		return false;
	scnprintf(names[0], sizeof(names[0]), "%ps", chip->get);
	scnprintf(names[1], sizeof(names[1]), "%ps", chip->set);
	scnprintf(names[2], sizeof(names[2]), "%ps", chip->read_reg);
	scnprintf(names[3], sizeof(names[3]), "%ps", chip->write_reg);
	for (i = 0; i < ARRAY_SIZE(names); i++)
		if (!strstarts(names[i], "bgpio_"))
			return false;
	return true;
}
#else
static inline bool compat_gpio_is_generic(const struct gpio_chip *chip)
{
	return false;
}
#endif

/* For chips of our own: what set() gives, and their interrupts. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 17, 0)
#define COMPAT_GPIO_SET int
#define COMPAT_GPIO_SET_DONE 0
#else
#define COMPAT_GPIO_SET void
#define COMPAT_GPIO_SET_DONE
#endif

#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 19, 0)
#define COMPAT_GPIO_IRQ_CHIP \
	.flags = IRQCHIP_IMMUTABLE | COMPAT_IRQCHIP_SAFE, GPIOCHIP_IRQ_RESOURCE_HELPERS,
#else
#define COMPAT_GPIO_IRQ_CHIP .flags = COMPAT_IRQCHIP_SAFE,
#endif

#if IS_ENABLED(CONFIG_GPIOLIB_IRQCHIP)
static inline void compat_gpio_irq_chip(struct gpio_irq_chip *lines, struct irq_chip *chip)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 19, 0)
	gpio_irq_chip_set_chip(lines, chip);
#else
	lines->chip = chip;
#endif
}
#endif

/* In a hard interrupt: one of a chip of our own. */
static inline void compat_handle_domain_irq(struct irq_domain *domain, unsigned int number)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 15, 0)
	generic_handle_domain_irq(domain, number);
#else
	generic_handle_irq(irq_find_mapping(domain, number));
#endif
}

/*
 * Kernels with an interrupt pipeline (Dovetail): handlers that run out-of-band, chips that are made
 * for it, and locks of both.
 */
#ifdef CONFIG_IRQ_PIPELINE
#define COMPAT_IRQF_OOB IRQF_OOB
#define COMPAT_IRQCHIP_SAFE IRQCHIP_PIPELINE_SAFE
typedef hard_spinlock_t compat_hard_spinlock_t;

static inline bool compat_irq_is_oob(unsigned int irq)
{
	const struct irq_chip *chip = irq_get_chip(irq);

	return chip && chip->flags & IRQCHIP_PIPELINE_SAFE;
}
#else
#define COMPAT_IRQF_OOB 0
#define COMPAT_IRQCHIP_SAFE 0
typedef raw_spinlock_t compat_hard_spinlock_t;

static inline bool compat_irq_is_oob(unsigned int irq)
{
	return false;
}
#endif

/* The lock of a serial port, which from 6.7 on also keeps its console away. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 7, 0)
static inline void compat_port_lock(struct uart_port *port, unsigned long *flags)
{
	uart_port_lock_irqsave(port, flags);
}

static inline void compat_port_unlock(struct uart_port *port, unsigned long flags)
{
	uart_port_unlock_irqrestore(port, flags);
}
#else
static inline void compat_port_lock(struct uart_port *port, unsigned long *flags)
{
	spin_lock_irqsave(&port->lock, *flags);
}

static inline void compat_port_unlock(struct uart_port *port, unsigned long flags)
{
	spin_unlock_irqrestore(&port->lock, flags);
}
#endif

/*
 * Which of two functions is dcd_change() of a line discipline: its level is a bool from 6.3 on, and
 * in later releases of older series, before an unsigned int.
 */
#define COMPAT_DCD_CHANGE(with_bool, with_number)                                             \
	__builtin_choose_expr(                                                                \
		__builtin_types_compatible_p(typeof(((struct tty_ldisc_ops *)0)->dcd_change), \
					     void (*)(struct tty_struct *, bool)),            \
		with_bool, with_number)

static inline int compat_register_discipline(struct tty_ldisc_ops *discipline)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 14, 0)
	return tty_register_ldisc(discipline);
#else
	return tty_register_ldisc(discipline->num, discipline);
#endif
}

static inline void compat_unregister_discipline(struct tty_ldisc_ops *discipline)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 14, 0)
	tty_unregister_ldisc(discipline);
#else
	tty_unregister_ldisc(discipline->num);
#endif
}

/* Kernels with two kinds of parport drivers, as Kbuild sees in the header: use the newer kind. */
struct parport_driver;
#ifdef COMPAT_PARPORT_DEVMODEL
static inline void compat_parport_driver(struct parport_driver *driver)
{
	driver->devmodel = true;
}
#else
static inline void compat_parport_driver(struct parport_driver *driver)
{
}
#endif

/* For work that is bound to no CPU, so that it leaves the measured one alone. */
static inline struct workqueue_struct *compat_unbound_workqueue(void)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 18, 0)
	return system_dfl_wq;
#else
	return system_unbound_wq;
#endif
}

#endif
