// SPDX-License-Identifier: GPL-2.0-only
/*
 * The Cobalt core of Xenomai 3.2 and newer (on Dovetail): its kernel threads, its timer as an event
 * source, and an RTDM device for tasks of user space. The clock of the core is CLOCK_MONOTONIC.
 */
#include <linux/errno.h>
#include <linux/string.h>

#include "core.h"
#include "source.h"

#if IS_ENABLED(CONFIG_XENOMAI)

#include <linux/delay.h>
#include <linux/file.h>
#include <linux/interrupt.h>
#include <linux/irq_work.h>
#include <linux/module.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <cobalt/kernel/init.h>
#include <cobalt/kernel/sched.h>
#include <cobalt/kernel/thread.h>
#include <cobalt/kernel/timer.h>
#include <rtdm/driver.h>

struct cobalt {
	struct session *session;
	struct xntimer timer;
	struct xnthread thread;
	rtdm_event_t event; /* kernel thread: start, or an edge. Task of user space: an edge */
	rtdm_lock_t lock;   /* of @answers */
	bool answers;	    /* tasks of user space may drive the source */
	struct irq_work deafen;
};

/* --- the core --- */

static void cobalt_deafens(struct irq_work *work)
{
	disable_irq_nosync(container_of(work, struct cobalt, deafen)->session->irq);
}

static void cobalt_deafen(struct session *s)
{
	struct cobalt *c = s->core_data;

	irq_work_queue(&c->deafen);
}

static int cobalt_open(struct session *s)
{
	struct cobalt *c;

	if (!realtime_core_enabled())
		return -ENODEV;
	if (!cpumask_test_cpu(s->cpu, &cobalt_cpu_affinity))
		return -ENXIO;
	c = kzalloc(sizeof(*c), GFP_KERNEL);
	if (!c)
		return -ENOMEM;
	c->session = s;
	rtdm_event_init(&c->event, 0);
	rtdm_lock_init(&c->lock);
	init_irq_work(&c->deafen, cobalt_deafens);
	s->core_data = c;
	c->answers = s->contexts & RTGAUGE_CONTEXT_USER;
	return 0;
}

static void cobalt_close(struct session *s)
{
	struct cobalt *c = s->core_data;
	rtdm_lockctx_t context;

	rtdm_lock_get_irqsave(&c->lock, context);
	c->answers = false;
	rtdm_lock_put_irqrestore(&c->lock, context);
	irq_work_sync(&c->deafen);
}

static void cobalt_forget(struct session *s)
{
	struct cobalt *c = s->core_data;

	rtdm_event_destroy(&c->event);
	s->core_data = NULL;
	kfree(c);
}

static void cobalt_wake(struct session *s)
{
	struct cobalt *c = s->core_data;

	rtdm_event_signal(&c->event);
}

static void cobalt_sleep_until(u64 until_ns)
{
	rtdm_task_sleep_abs(until_ns, RTDM_TIMERMODE_ABSOLUTE);
}

/* Sleeps until each due time, as Xenomai's tasks do. No handler wakes it. */
static void cobalt_thread(void *data)
{
	struct session *s = data;
	struct cobalt *c = s->core_data;

	while (!rtdm_task_should_stop()) {
		u64 due_ns = rtdm_event_wait(&c->event) ? 0 : s->due_ns;

		while (due_ns && !rtdm_task_sleep_abs(due_ns, RTDM_TIMERMODE_ABSOLUTE))
			due_ns = session_woke(s, ktime_get_mono_fast_ns());
	}
}

/* Waits for edges, and answers them. */
static void cobalt_server(void *data)
{
	struct session *s = data;
	struct cobalt *c = s->core_data;

	while (!rtdm_task_should_stop()) {
		u64 now_ns;

		if (rtdm_event_wait(&c->event))
			continue;
		do
			now_ns = ktime_get_mono_fast_ns();
		while (session_serve(s, now_ns) && !rtdm_task_should_stop());
	}
}

static void cobalt_end_thread(struct session *s)
{
	struct cobalt *c = s->core_data;

	rtdm_task_destroy(&c->thread);
	/* rtdm_task_destroy() does not wait for a task of another PID namespace */
	while (!READ_ONCE(s->thread->exit_state))
		msleep(1);
}

/* Like rtdm_task_init(), which cannot bind the thread to a CPU. */
static int cobalt_make_thread(struct session *s)
{
	struct cobalt *c = s->core_data;
	const union xnsched_policy_param param = { .rt.prio = s->priority };
	const struct xnthread_start_attr start = {
		.entry = s->kind == RTGAUGE_KIND_RESPONSE ? cobalt_server : cobalt_thread,
		.cookie = s,
	};
	struct xnthread_init_attr init = { .name = "rtgauge", .personality = &xenomai_personality };
	int err;

	cpumask_copy(&init.affinity, cpumask_of(s->cpu));
	err = xnthread_init(&c->thread, &init, &xnsched_class_rt, &param);
	if (err)
		return err;
	s->thread = get_task_struct(xnthread_host_task(&c->thread));
	err = xnthread_start(&c->thread, &start);
	if (err) {
		cobalt_end_thread(s);
		put_task_struct(s->thread);
		s->thread = NULL;
	}
	return err;
}

static void cobalt_count(struct session *s)
{
	struct cobalt *c = s->core_data;

	s->switches = xnstat_counter_get(&c->thread.stat.ssw);
	s->faults = xnstat_counter_get(&c->thread.stat.pf);
}

static const struct core cobalt = {
	.open = cobalt_open,
	.close = cobalt_close,
	.forget = cobalt_forget,
	.make_thread = cobalt_make_thread,
	.end_thread = cobalt_end_thread,
	.count = cobalt_count,
	.wake = cobalt_wake,
	.deafen = cobalt_deafen,
	.sleep_until = cobalt_sleep_until,
};

const struct core *const core_cobalt = &cobalt;

/* --- its timer --- */

/* In the core's timer interrupt, with the core's lock held. */
static void cobalt_event(struct xntimer *timer)
{
	u64 entry_ns = ktime_get_mono_fast_ns();
	struct session *s = container_of(timer, struct cobalt, timer)->session;
	u64 next_ns = session_record(s, s->due_ns, entry_ns);

	/* xntimer_start() refuses a due time in the past */
	while (next_ns && xntimer_start(timer, next_ns, XN_INFINITE, XN_ABSOLUTE))
		next_ns = session_passed(s, ktime_get_mono_fast_ns());
	session_complete(s);
}

static int cobalt_find(struct rtgauge_source *info)
{
	if (realtime_core_enabled())
		return 0;
	strscpy(info->reason, "the Cobalt core is stopped or disabled", sizeof(info->reason));
	return -ENODEV;
}

static int cobalt_take(struct session *s, struct rtgauge_setup *setup)
{
	struct cobalt *c = s->core_data;

	if (!(s->contexts & RTGAUGE_CONTEXT_KERNEL))
		xntimer_init(&c->timer, &nkclock, cobalt_event, xnsched_struct(s->cpu),
			     XNTIMER_IGRAVITY);
	return 0;
}

static void cobalt_give(struct session *s)
{
	struct cobalt *c = s->core_data;

	if (!(s->contexts & RTGAUGE_CONTEXT_KERNEL))
		xntimer_destroy(&c->timer);
}

static int cobalt_start(struct session *s)
{
	struct cobalt *c = s->core_data;
	u64 due_ns = s->due_ns;
	spl_t flags;

	if (s->contexts & RTGAUGE_CONTEXT_KERNEL) {
		rtdm_event_signal(&c->event);
		return 0;
	}
	xnlock_get_irqsave(&nklock, flags);
	while (due_ns && xntimer_start(&c->timer, due_ns, XN_INFINITE, XN_ABSOLUTE))
		due_ns = session_passed(s, ktime_get_mono_fast_ns());
	xnlock_put_irqrestore(&nklock, flags);
	if (!due_ns)
		session_exhausted(s);
	return 0;
}

/* A handler holds the core's lock, so none runs after the timer has stopped. */
static void cobalt_stop(struct session *s)
{
	struct cobalt *c = s->core_data;
	spl_t flags;

	if (s->contexts & RTGAUGE_CONTEXT_KERNEL)
		return;
	xnlock_get_irqsave(&nklock, flags);
	xntimer_stop(&c->timer);
	xnlock_put_irqrestore(&nklock, flags);
}

const struct source source_cobalt = {
	.name = "cobalt",
	.flags = RTGAUGE_SOURCE_FALLBACK,
	.find = cobalt_find,
	.open = cobalt_take,
	.close = cobalt_give,
	.start = cobalt_start,
	.stop = cobalt_stop,
};

/* --- tasks of user space --- */

/* An open file of the device. */
struct cobalt_task {
	struct file *file; /* the session's. NULL: not attached */
	struct session *session;
	atomic_t takes;
};

static int cobalt_task_open(struct rtdm_fd *fd, int flags)
{
	struct cobalt_task *task = rtdm_fd_to_private(fd);

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	*task = (struct cobalt_task){};
	return 0;
}

static void cobalt_task_close(struct rtdm_fd *fd)
{
	struct cobalt_task *task = rtdm_fd_to_private(fd);

	if (!task->file)
		return;
	atomic_set_release(&task->session->user_waits, 0);
	fput(task->file);
}

static int cobalt_attach(struct cobalt_task *task, int number)
{
	struct file *file = fget(number);
	struct session *s = file ? session_of(file) : NULL;
	int err = 0;

	if (!s)
		err = -EBADF;
	else if (shared_get(&s->state) == RTGAUGE_STATE_OPEN || !s->core_data ||
		 s->kind != RTGAUGE_KIND_RESPONSE || s->contexts != RTGAUGE_CONTEXT_USER)
		err = -EINVAL;
	else if (atomic_cmpxchg(&s->user_waits, 0, 1))
		err = -EBUSY;
	if (!err && cmpxchg(&task->file, NULL, file)) {
		atomic_set_release(&s->user_waits, 0);
		err = -EBUSY;
	}
	if (err) {
		if (file)
			fput(file);
		return err;
	}
	smp_store_release(&task->session, s); /* pairs with cobalt_task_calls() */
	return 0;
}

static int cobalt_task_calls_linux(struct rtdm_fd *fd, unsigned int request, void __user *user)
{
	s32 number;

	if (request != RTGAUGE_ATTACH)
		return -ENOTTY;
	if (rtdm_safe_copy_from_user(fd, &number, user, sizeof(number)))
		return -EFAULT;
	return cobalt_attach(rtdm_fd_to_private(fd), number);
}

static int cobalt_take_edge(struct cobalt_task *task, struct session *s, struct rtgauge_edge *edge)
{
	struct cobalt *c = s->core_data;
	int err = 0, taken = 0;

	if (atomic_cmpxchg(&task->takes, 0, 1))
		return -EBUSY;
	while (!err && !taken) {
		taken = session_take(s, edge);
		if (!taken)
			err = rtdm_event_wait(&c->event);
	}
	atomic_set_release(&task->takes, 0);
	return err ? err : min(taken, 0);
}

static int cobalt_drive(struct session *s, u32 level)
{
	struct cobalt *c = s->core_data;
	rtdm_lockctx_t context;
	int err = -ENODATA;

	rtdm_lock_get_irqsave(&c->lock, context);
	if (c->answers) {
		s->source->drive(s, level);
		err = 0;
	}
	rtdm_lock_put_irqrestore(&c->lock, context);
	return err;
}

static int cobalt_task_calls(struct rtdm_fd *fd, unsigned int request, void __user *user)
{
	struct cobalt_task *task = rtdm_fd_to_private(fd);
	struct session *s = smp_load_acquire(&task->session); /* pairs with cobalt_attach() */
	struct rtgauge_edge edge;
	u32 level;
	int err;

	if (request != RTGAUGE_TAKE && request != RTGAUGE_DRIVE)
		return -ENOSYS; /* RTDM then calls ioctl_nrt */
	if (!s)
		return -EBADF;
	if (request == RTGAUGE_DRIVE)
		return rtdm_safe_copy_from_user(fd, &level, user, sizeof(level)) ?
			       -EFAULT :
			       cobalt_drive(s, level);
	err = cobalt_take_edge(task, s, &edge);
	if (!err && rtdm_safe_copy_to_user(fd, user, &edge, sizeof(edge)))
		err = -EFAULT;
	return err;
}

static struct rtdm_driver cobalt_driver = {
	.profile_info = RTDM_PROFILE_INFO(rtgauge, RTDM_CLASS_EXPERIMENTAL, RTDM_SUBCLASS_GENERIC,
					  RTGAUGE_INTERFACE_VERSION),
	.device_flags = RTDM_NAMED_DEVICE,
	.device_count = 1,
	.context_size = sizeof(struct cobalt_task),
	.ops = {
		.open = cobalt_task_open,
		.close = cobalt_task_close,
		.ioctl_rt = cobalt_task_calls,
		.ioctl_nrt = cobalt_task_calls_linux,
	},
};

static struct rtdm_device cobalt_device = {
	.driver = &cobalt_driver,
	.label = "rtgauge",
};

static bool cobalt_has_device;

int core_cobalt_init(void)
{
	int err = realtime_core_enabled() ? rtdm_dev_register(&cobalt_device) : -ENOSYS;

	cobalt_has_device = !err;
	/* rtdm_dev_register() does not set the owner */
	if (cobalt_has_device)
		cobalt_driver.named.cdev.owner = THIS_MODULE;
	return err == -ENOSYS ? 0 : err;
}

void core_cobalt_exit(void)
{
	if (cobalt_has_device)
		rtdm_dev_unregister(&cobalt_device);
}

#else

const struct core *const core_cobalt;

int core_cobalt_init(void)
{
	return 0;
}

void core_cobalt_exit(void)
{
}

static int cobalt_find(struct rtgauge_source *info)
{
	strscpy(info->reason, "the kernel was built without Cobalt", sizeof(info->reason));
	return -ENODEV;
}

const struct source source_cobalt = {
	.name = "cobalt",
	.flags = RTGAUGE_SOURCE_FALLBACK,
	.find = cobalt_find,
};

#endif
