// SPDX-License-Identifier: GPL-2.0-only
/*
 * rtgauge.ko: the device /dev/rtgauge, whose interface is rtgauge.h. Copies what is asked and what
 * is answered between user space and session.c.
 */
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/uaccess.h>
#include <generated/utsrelease.h>

#include "core.h"
#include "serial.h"
#include "session.h"
#include "source.h"
#include "traces.h"

#define RTGAUGE_MODULE_VERSION "0.1.0"

static int rtgauge_open(struct inode *inode, struct file *file)
{
	const struct miscdevice *device = file->private_data;
	struct session *s;

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	s = session_open();
	if (IS_ERR(s))
		return PTR_ERR(s);
	/* files can be there before misc_register() returns */
	source_device = device->this_device;
	file->private_data = s;
	return stream_open(inode, file);
}

static int rtgauge_release(struct inode *inode, struct file *file)
{
	session_close(file->private_data);
	return 0;
}

static ssize_t rtgauge_read(struct file *file, char __user *buffer, size_t size, loff_t *position)
{
	return session_read(file->private_data, buffer, size, !(file->f_flags & O_NONBLOCK));
}

static __poll_t rtgauge_poll(struct file *file, struct poll_table_struct *table)
{
	return session_poll(file->private_data, file, table);
}

static int rtgauge_mmap(struct file *file, struct vm_area_struct *vma)
{
	return session_mmap(file->private_data, vma);
}

static int rtgauge_source(struct rtgauge_source *source)
{
	struct rtgauge_source zero = { .number = source->number };

	return memcmp(source, &zero, sizeof(zero)) ? -EINVAL : session_describe(source);
}

static long rtgauge_ioctl(struct file *file, unsigned int request, unsigned long argument)
{
	struct session *s = file->private_data;
	void __user *user = (void __user *)argument;
	union {
		struct rtgauge_info info;
		struct rtgauge_source source;
		struct rtgauge_setup setup;
		struct rtgauge_start start;
		struct rtgauge_wait wait;
		struct rtgauge_status status;
		struct rtgauge_sustain sustain;
	} u = {};
	int err;

	switch (request) {
	case RTGAUGE_INFO:
	case RTGAUGE_SOURCE:
	case RTGAUGE_SETUP:
	case RTGAUGE_START:
	case RTGAUGE_WAIT:
	case RTGAUGE_STATUS:
	case RTGAUGE_SUSTAIN:
		break;
	case RTGAUGE_STOP:
		return session_stop(s);
	default:
		return -ENOTTY;
	}
	if (_IOC_DIR(request) & _IOC_WRITE && copy_from_user(&u, user, _IOC_SIZE(request)))
		return -EFAULT;
	switch (request) {
	case RTGAUGE_INFO:
		u.info.interface_version = RTGAUGE_INTERFACE_VERSION;
		u.info.sources = RTGAUGE_SOURCE_PARALLEL;
		u.info.room_max = RTGAUGE_ROOM_MAX;
		u.info.contexts = SESSION_CONTEXTS;
		strscpy(u.info.module_version, RTGAUGE_MODULE_VERSION,
			sizeof(u.info.module_version));
		strscpy(u.info.kernel, UTS_RELEASE, sizeof(u.info.kernel));
		err = 0;
		break;
	case RTGAUGE_SOURCE:
		err = rtgauge_source(&u.source);
		break;
	case RTGAUGE_SETUP:
		err = session_setup(s, &u.setup);
		break;
	case RTGAUGE_START:
		err = session_start(s, &u.start);
		break;
	case RTGAUGE_WAIT:
		err = session_wait(s, &u.wait);
		break;
	case RTGAUGE_STATUS:
		session_status(s, &u.status);
		err = 0;
		break;
	default:
		err = session_sustain(s, &u.sustain);
		break;
	}
	if (!err && copy_to_user(user, &u, _IOC_SIZE(request)))
		err = -EFAULT;
	return err;
}

static const struct file_operations rtgauge_operations = {
	.owner = THIS_MODULE,
	.open = rtgauge_open,
	.release = rtgauge_release,
	.read = rtgauge_read,
	.poll = rtgauge_poll,
	.mmap = rtgauge_mmap,
	.unlocked_ioctl = rtgauge_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

struct session *session_of(const struct file *file)
{
	return file->f_op == &rtgauge_operations ? file->private_data : NULL;
}

static struct miscdevice rtgauge_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "rtgauge",
	.fops = &rtgauge_operations,
	.mode = 0600,
};

static int __init rtgauge_init(void)
{
	int err = sessions_init();

	if (err)
		return err;
	err = misc_register(&rtgauge_device);
	if (err)
		goto out_sessions;
	err = traces_init();
	if (err)
		goto out_device;
	err = core_cobalt_init();
	if (err)
		goto out_traces;
	err = serial_init();
	if (err)
		goto out_core;
	return 0;

out_core:
	core_cobalt_exit();
out_traces:
	traces_exit();
out_device:
	misc_deregister(&rtgauge_device);
out_sessions:
	sessions_end();
	sessions_exit();
	return err;
}

static void __exit rtgauge_exit(void)
{
	core_cobalt_exit();
	misc_deregister(&rtgauge_device);
	sessions_end();
	traces_exit();
	sessions_exit();
	serial_exit();
}

module_init(rtgauge_init);
module_exit(rtgauge_exit);

MODULE_DESCRIPTION("Real-time behaviour in the interrupt, kernel and user contexts");
MODULE_AUTHOR("rtgauge");
MODULE_VERSION(RTGAUGE_MODULE_VERSION);
MODULE_LICENSE("GPL");
