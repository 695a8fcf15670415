// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sessions: set up, started, ended; the ring of records and those who follow it.
 *
 * Locks, in the order in which they are taken: cpus_read_lock(), sessions_lock. The handler takes
 * none. It meets process context in s->head and the positions (acquire and release), and in
 * s->state (compare and exchange).
 */
#include <linux/bitops.h>
#include <linux/cpu.h>
#include <linux/fs.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/poll.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "compat.h"
#include "core.h"
#include "dither.h"
#include "session.h"
#include "source.h"

/* A ring without a reader contains what the threads have yet to see. */
#define SESSION_ROOM_MIN 4096U
#define SESSION_LOOK_MS 20
/* Number of periods of lateness from which whole periods are passed over in one step. */
#define SESSION_JUMP_PERIODS 16
/* Silence in seconds after which a sustained source is taken to have stopped. */
#define SESSION_SILENCE_S 5

#define SESSION_EDGES (RTGAUGE_SETUP_RISING | RTGAUGE_SETUP_FALLING)
#define SESSION_PULLS (RTGAUGE_SETUP_PULL_UP | RTGAUGE_SETUP_PULL_DOWN | RTGAUGE_SETUP_PULL_NONE)
#define SESSION_RESPONSE_FLAGS                                                             \
	(SESSION_EDGES | SESSION_PULLS | RTGAUGE_SETUP_ACTIVE_LOW | RTGAUGE_SETUP_INVERT | \
	 RTGAUGE_SETUP_TOGGLE | RTGAUGE_SETUP_DELAY_SLEEP)

static DEFINE_MUTEX(sessions_lock);
static LIST_HEAD(sessions_all);
static DECLARE_WAIT_QUEUE_HEAD(sessions_gone);
static int sessions_hotplug;
static bool sessions_over; /* the module is being removed */

/* --- what the handler defers its work to --- */

/*
 * Gives the stamp @now_ns to the first event on the grid that was raised after the last stamp. The
 * other events raised until @now_ns are missed. An event whose handler ran after @now_ns waits for
 * the next stamp.
 */
static void session_follow(struct session *s, u64 now_ns)
{
	u32 position = s->thread_position, head = shared_get(&s->head);
	bool taken = false;

	for (; position != head; position++) {
		struct rtgauge_record *record = &s->ring[position & s->mask];

		if (record->raised_ns <= s->thread_seen_ns ||
		    (taken && record->raised_ns <= now_ns)) {
			record->flags |= RTGAUGE_RECORD_THREAD_MISSED;
			s->thread_missed++;
		} else if (!taken && record->entry_ns <= now_ns) {
			record->thread_ns = now_ns;
			taken = true;
		} else {
			break;
		}
	}
	if (taken)
		s->thread_seen_ns = now_ns;
	shared_set(&s->thread_position, position);
}

/*
 * Answers one edge from outside, the next one in the ring. True: the caller has to call again,
 * because there is another edge, or because the next one came after @now_ns. In that case the caller
 * may have been started for an edge that it has already served.
 */
bool session_serve(struct session *s, u64 now_ns)
{
	u32 position = s->thread_position;

	/* the ring is there before the first event, not before the thread */
	if (position == shared_get(&s->head))
		return false;
	if (s->kind == RTGAUGE_KIND_RESPONSE) {
		struct rtgauge_record *record = &s->ring[position & s->mask];

		if (unlikely(record->entry_ns > now_ns))
			return true;
		record->thread_ns = now_ns;
		s->source->answer(s, record);
		shared_set(&s->thread_position, position + 1);
	} else {
		session_follow(s, now_ns);
	}
	return s->thread_position != shared_get(&s->head);
}

static int session_thread(void *data)
{
	struct session *s = data;

	for (;;) {
		u64 now_ns;

		set_current_state(TASK_IDLE);
		if (kthread_should_stop())
			break;
		if (s->thread_position == shared_get(&s->head))
			schedule();
		now_ns = ktime_get_ns();
		__set_current_state(TASK_RUNNING);
		session_serve(s, now_ns);
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

/* One event, and again: others have their turn in between. */
static void session_tasklet(struct tasklet_struct *tasklet)
{
	u64 now_ns = ktime_get_ns();
	struct session *s = container_of(tasklet, struct session, tasklet);

	if (session_serve(s, now_ns) && !READ_ONCE(s->ending))
		tasklet_schedule(tasklet);
}

static void session_work(struct work_struct *work)
{
	u64 now_ns = ktime_get_ns();
	struct session *s = container_of(work, struct session, work);

	if (session_serve(s, now_ns) && !READ_ONCE(s->ending))
		queue_work_on(s->cpu, system_highpri_wq, work);
}

static irqreturn_t session_threaded(int irq, void *data)
{
	u64 now_ns = ktime_get_ns();
	struct session *s = data;

	if (unlikely(!s->thread)) {
		/* the interrupt of some chips' lines cannot be moved, and its thread follows it */
		set_cpus_allowed_ptr(current, cpumask_of(s->cpu));
		s->thread = get_task_struct(current);
		complete(&s->met);
		return IRQ_HANDLED;
	}
	while (session_serve(s, now_ns) && !kthread_should_stop())
		now_ns = ktime_get_ns();
	return IRQ_HANDLED;
}

irq_handler_t session_irq_thread(const struct session *s)
{
	return s->contexts & RTGAUGE_CONTEXT_THREADED ? session_threaded : NULL;
}

/* At the end of the handler; the interrupt's own thread is woken when that has returned. */
static void session_defer(struct session *s)
{
	if (session_on_core(s)) {
		if (s->kind == RTGAUGE_KIND_RESPONSE && s->contexts & SESSION_WAKES)
			s->core->wake(s);
		return;
	}
	if (s->contexts & RTGAUGE_CONTEXT_KERNEL)
		wake_up_process(s->thread);
	else if (s->contexts & RTGAUGE_CONTEXT_SOFTIRQ)
		tasklet_schedule(&s->tasklet);
	else if (s->contexts & RTGAUGE_CONTEXT_WORKQUEUE)
		queue_work_on(s->cpu, system_highpri_wq, &s->work);
}

/* Bound to its CPU, where it goes to sleep for its first event. */
static int session_make_thread(struct session *s)
{
	struct task_struct *thread = kthread_create_on_node(session_thread, s, cpu_to_node(s->cpu),
							    "rtgauge/%u", s->cpu);

	if (IS_ERR(thread))
		return PTR_ERR(thread);
	kthread_bind(thread, s->cpu);
	sched_set_fifo(thread);
	s->thread = get_task_struct(thread);
	wake_up_process(thread);
	return 0;
}

/* The interrupt's thread, which the kernel made with it, makes itself known. */
static int session_meet_thread(struct session *s)
{
	irq_wake_thread(s->irq, s);
	return wait_for_completion_timeout(&s->met, HZ) ? 0 : -ETIME;
}

static int session_make_deferred(struct session *s)
{
	if (s->contexts & RTGAUGE_CONTEXT_KERNEL)
		return s->core ? s->core->make_thread(s) : session_make_thread(s);
	if (s->contexts & RTGAUGE_CONTEXT_THREADED)
		return session_meet_thread(s);
	return 0;
}

/* With no handler any more. */
static void session_end_deferred(struct session *s)
{
	u32 position;

	WRITE_ONCE(s->ending, true);
	if (s->thread && s->core) {
		s->core->count(s);
		s->core->end_thread(s);
	} else if (s->thread && s->contexts & RTGAUGE_CONTEXT_KERNEL) {
		kthread_stop(s->thread);
	}
	tasklet_kill(&s->tasklet);
	cancel_work_sync(&s->work);
	if (s->thread)
		put_task_struct(s->thread);
	s->thread = NULL;
	if (!(s->contexts & SESSION_DEFERS))
		return;
	for (position = s->thread_position; position != s->head; position++)
		s->ring[position & s->mask].flags |= RTGAUGE_RECORD_CUT;
	shared_set(&s->thread_position, s->head);
}

/* --- in the handler --- */

/* Go on to the first due time after now that comes after the current one; 0: there is none. */
static u64 session_next(struct session *s, u64 now_ns)
{
	u64 from = s->index, points = 1;

	if (unlikely(now_ns >= s->grid_ns + SESSION_JUMP_PERIODS * s->interval_ns))
		points = div64_u64(now_ns - s->grid_ns, s->interval_ns);
	s->due_ns = 0;
	while (points < s->periods - s->index) {
		s->index += points;
		s->grid_ns += points * s->interval_ns;
		s->due_ns = s->grid_ns;
		if (s->flags & RTGAUGE_SETUP_DITHER)
			s->due_ns += dither_ns(s->index, s->interval_ns);
		if (likely(s->due_ns > now_ns))
			break;
		s->due_ns = 0;
		points = 1;
	}
	if (!s->due_ns)
		s->index = s->periods;
	s->missed_open += s->index - from - 1;
	s->missed += s->index - from - 1;
	return s->due_ns;
}

/* The due time in hand went by before the source could be set to it: on to the next; 0: none. */
u64 session_passed(struct session *s, u64 now_ns)
{
	s->missed_open++;
	s->missed++;
	return session_next(s, now_ns);
}

/* Whether a slot is still wanted by someone who follows the ring. */
static bool session_is_full(const struct session *s)
{
	u32 room = s->mask + 1;

	if (s->keep && s->head - shared_get(&s->tail) >= room)
		return true;
	if ((s->contexts & SESSION_DEFERS) && s->head - shared_get(&s->thread_position) >= room)
		return true;
	return (s->contexts & RTGAUGE_CONTEXT_USER) &&
	       s->head - shared_get(&s->user_position) >= room;
}

/* The event in hand: its record, and the next due time, 0 if there is none. */
u64 session_record(struct session *s, u64 raised_ns, u64 entry_ns)
{
	struct rtgauge_record *record = &s->ring[s->head & s->mask];
	bool other_cpu = raw_smp_processor_id() != s->cpu;

	s->events++;
	s->other_cpu += other_cpu;
	s->full = session_is_full(s);
	if (likely(!s->full)) {
		if (s->kind == RTGAUGE_KIND_IRQ_LATENCY)
			record->end_ns = ktime_get_ns();
		record->index = s->index;
		record->due_ns = s->due_ns;
		record->raised_ns = raised_ns;
		record->entry_ns = entry_ns;
		record->thread_ns = 0;
		record->missed = s->missed_open;
		record->flags = other_cpu ? RTGAUGE_RECORD_OTHER_CPU : 0;
		s->missed_open = 0;
	} else {
		s->lost++;
	}
	if (s->events >= s->events_max) {
		s->due_ns = 0;
		return 0;
	}
	return session_next(s, entry_ns);
}

static void session_wake_user(struct session *s)
{
	if (!session_on_core(s))
		rcuwait_wake_up(&s->user);
	else if (s->contexts & RTGAUGE_CONTEXT_USER)
		s->core->wake(s);
}

static void session_finish(struct session *s, u32 state)
{
	/* ordered after the records: a reader of the state sees them all */
	cmpxchg(&s->state, RTGAUGE_STATE_RUNNING, state);
}

/* The end of the handler: the last stamp, and the wake-ups. */
void session_complete(struct session *s)
{
	struct rtgauge_record *record = &s->ring[s->head & s->mask];
	struct rtgauge_page *page = s->page;

	if (unlikely(s->full)) {
		if (!s->due_ns) {
			session_finish(s, RTGAUGE_STATE_FINISHED);
			session_wake_user(s);
		}
		return;
	}
	if (s->contexts & SESSION_WAKES && !session_on_core(s))
		record->wake_ns = ktime_get_ns();
	if (s->kind == RTGAUGE_KIND_IRQ_DISPATCH) {
		WRITE_ONCE(page->sequence, page->sequence + 1);
		smp_wmb(); /* odd before the contents change */
		page->index = record->index;
		page->entry_ns = record->entry_ns;
		record->end_ns = ktime_get_ns();
		page->stamp_ns = record->end_ns;
		shared_set(&page->sequence, page->sequence + 1);
	}
	shared_set(&s->head, s->head + 1);
	if (unlikely(!s->due_ns))
		session_finish(s, RTGAUGE_STATE_FINISHED);
	session_defer(s);
	if (s->contexts & RTGAUGE_CONTEXT_USER)
		rcuwait_wake_up(&s->user);
}

u64 session_woke(struct session *s, u64 now_ns)
{
	struct rtgauge_record *record = &s->ring[s->head & s->mask];
	u64 next_ns = session_record(s, s->due_ns, now_ns);

	if (likely(!s->full)) {
		record->entry_ns = 0;
		record->thread_ns = now_ns;
	}
	session_complete(s);
	shared_set(&s->thread_position, s->head);
	return next_ns;
}

/* An edge from outside: its record, to which session_keep() is owed; NULL: the ring is full. */
struct rtgauge_record *session_edge(struct session *s, u64 entry_ns, u32 flags)
{
	struct rtgauge_record *record = &s->ring[s->head & s->mask];
	bool other_cpu = raw_smp_processor_id() != s->cpu;
	u64 index = s->events++;

	s->other_cpu += other_cpu;
	s->missed += !!(flags & RTGAUGE_RECORD_REPEATED);
	s->thread_missed += !!(flags & RTGAUGE_RECORD_WAITED);
	if (unlikely(session_is_full(s))) {
		s->lost++;
		return NULL;
	}
	if (other_cpu)
		flags |= RTGAUGE_RECORD_OTHER_CPU;
	*record = (struct rtgauge_record){ .index = index, .entry_ns = entry_ns, .flags = flags };
	return record;
}

/* The record of an edge is as it is to be: it is there for those who follow the ring. */
void session_keep(struct session *s)
{
	shared_set(&s->head, s->head + 1);
	session_defer(s);
}

/* The source is of no use any more. */
void session_broken(struct session *s, u32 failure)
{
	WRITE_ONCE(s->failure, failure);
	session_finish(s, RTGAUGE_STATE_FAILED);
	session_wake_user(s);
}

/* The due time in hand was the last, and it is past: no handler will say so. */
void session_exhausted(struct session *s)
{
	session_finish(s, RTGAUGE_STATE_FINISHED);
	session_wake_user(s);
}

/* How long the period of a sustained source is in its own units; before the first interrupt. */
void session_expect(struct session *s, u64 period)
{
	struct sustain *sustain = s->sustain;

	sustain->period = period;
	sustain->end = (sustain->count - 1) * period;
	sustain->early = sustain->lost_max && sustain->lost_max < sustain->count ?
				 sustain->lost_max * period :
				 U64_MAX / 2;
}

/* One interrupt of a sustained source, @units after the first was raised. True: no more. */
bool session_counts(struct session *s, u64 units)
{
	struct sustain *sustain = s->sustain;

	if (sustain->over)
		return true;
	sustain->units = units;
	sustain->early += sustain->period;
	WRITE_ONCE(sustain->handled, sustain->handled + 1);
	if (likely(units < sustain->end && units < sustain->early))
		return false;
	sustain->over = true;
	sustain->ended_early = units < sustain->end;
	complete(&sustain->done);
	return true;
}

/* --- life --- */

static bool session_is_live(u32 state)
{
	return state == RTGAUGE_STATE_READY || state == RTGAUGE_STATE_RUNNING;
}

/* With the lock held, and no handler: the device is given back. */
static void session_release(struct session *s)
{
	if (!s->claimed)
		return;
	if (s->core)
		s->core->close(s);
	s->source->close(s);
	s->claimed = false;
}

/* Before SETUP succeeds, or once the file is closed: no task of user space can reach the session. */
static void session_forget_core(struct session *s)
{
	if (s->core)
		s->core->forget(s);
	s->core = NULL;
}

/* With the lock held: nothing runs any more, and the device is given back. */
static void session_end(struct session *s, u32 state, u32 failure)
{
	if (s->claimed)
		s->source->stop(s);
	session_end_deferred(s);
	session_release(s);
	if (session_is_live(s->state)) {
		s->failure = failure;
		shared_set(&s->state, state);
	}
	if (s->core)
		s->core->wake(s);
	rcuwait_wake_up(&s->user);
	wake_up_all(&s->readers);
}

static bool session_readable(const struct session *s)
{
	u32 state = shared_get(&s->state);
	u32 head = shared_get(&s->head);
	u32 last = s->contexts & SESSION_DEFERS ? shared_get(&s->thread_position) : head;

	return last != s->tail || (!session_is_live(state) && last == head);
}

/* The handler does not wake readers: while there are some, look for them. */
static void session_look(struct work_struct *work)
{
	struct session *s = container_of(to_delayed_work(work), struct session, look);

	if (session_readable(s))
		wake_up_all(&s->readers);
	/* one that comes after this starts the work itself */
	if (waitqueue_active(&s->readers))
		queue_delayed_work(compat_unbound_workqueue(), &s->look,
				   msecs_to_jiffies(SESSION_LOOK_MS));
}

static bool session_readable_or_look(struct session *s)
{
	if (session_readable(s))
		return true;
	queue_delayed_work(compat_unbound_workqueue(), &s->look, msecs_to_jiffies(SESSION_LOOK_MS));
	return false;
}

struct session *session_open(void)
{
	struct session *s = kzalloc(sizeof(*s), GFP_KERNEL);

	BUILD_BUG_ON(sizeof(struct rtgauge_info) != 112);
	BUILD_BUG_ON(sizeof(struct rtgauge_source) != 144);
	BUILD_BUG_ON(sizeof(struct rtgauge_setup) != 112);
	BUILD_BUG_ON(sizeof(struct rtgauge_start) != 16);
	BUILD_BUG_ON(sizeof(struct rtgauge_wait) != 56);
	BUILD_BUG_ON(sizeof(struct rtgauge_status) != 72);
	BUILD_BUG_ON(sizeof(struct rtgauge_sustain) != 120);
	BUILD_BUG_ON(sizeof(struct rtgauge_record) != 64);
	BUILD_BUG_ON(sizeof(struct rtgauge_page) != 32);
	if (!s)
		return ERR_PTR(-ENOMEM);
	s->page = (struct rtgauge_page *)get_zeroed_page(GFP_KERNEL);
	if (!s->page) {
		kfree(s);
		return ERR_PTR(-ENOMEM);
	}
	rcuwait_init(&s->user);
	mutex_init(&s->read_lock);
	init_waitqueue_head(&s->readers);
	INIT_DELAYED_WORK(&s->look, session_look);
	tasklet_setup(&s->tasklet, session_tasklet);
	INIT_WORK(&s->work, session_work);
	init_completion(&s->met);
	mutex_lock(&sessions_lock);
	list_add_tail(&s->all, &sessions_all);
	mutex_unlock(&sessions_lock);
	return s;
}

void session_close(struct session *s)
{
	mutex_lock(&sessions_lock);
	session_end(s, RTGAUGE_STATE_STOPPED, RTGAUGE_FAILURE_NONE);
	session_forget_core(s); /* a forced removal of the module still has the session */
	mutex_unlock(&sessions_lock);
	cancel_delayed_work_sync(&s->look);
	vfree(s->ring);
	free_page((unsigned long)s->page);
	mutex_lock(&sessions_lock);
	list_del_init(&s->all);
	wake_up_all(&sessions_gone);
	mutex_unlock(&sessions_lock);
	kfree(s);
}

int session_describe(struct rtgauge_source *info)
{
	int err;

	mutex_lock(&sessions_lock);
	err = source_describe(info);
	mutex_unlock(&sessions_lock);
	return err;
}

/* Parameters of a response only: within their limits. */
static bool session_response_is_sound(const struct rtgauge_setup *setup)
{
	u32 user = setup->flags & RTGAUGE_SETUP_COBALT ? 0 : RTGAUGE_CONTEXT_USER;
	bool in_thread = setup->contexts == RTGAUGE_CONTEXT_KERNEL;
	bool sleeps = setup->flags & RTGAUGE_SETUP_DELAY_SLEEP;
	u32 delay_max = sleeps ? RTGAUGE_DELAY_SLEEP_MAX_NS : RTGAUGE_DELAY_BUSY_MAX_NS;

	if (hweight32(setup->contexts) != 1 || setup->contexts & user)
		return false;
	if (setup->flags & ~(SESSION_RESPONSE_FLAGS | RTGAUGE_SETUP_COBALT) ||
	    !(setup->flags & SESSION_EDGES) || hweight32(setup->flags & SESSION_PULLS) > 1)
		return false;
	if (sleeps && (!in_thread || !setup->delay_ns))
		return false;
	if (!setup->delay_ns != !setup->delay_every || setup->delay_ns > delay_max)
		return false;
	return setup->debounce_us <= RTGAUGE_DEBOUNCE_MAX_US &&
	       setup->storm_edges <= RTGAUGE_STORM_EDGES_MAX && !setup->interval_ns &&
	       !setup->periods;
}

/* Whether a session on a core is possible: 0 or -errno. */
static int session_core_check(const struct rtgauge_setup *setup)
{
	bool cobalt = setup->flags & RTGAUGE_SETUP_COBALT;
	bool thread = cobalt && setup->contexts & RTGAUGE_CONTEXT_KERNEL;
	bool responds = setup->kind == RTGAUGE_KIND_RESPONSE;
	u32 contexts = RTGAUGE_CONTEXT_IRQ | RTGAUGE_CONTEXT_KERNEL;

	if (thread ? setup->thread < 1 || setup->thread >= MAX_RT_PRIO : setup->thread)
		return -EINVAL;
	if (!cobalt)
		return setup->source == RTGAUGE_SOURCE_COBALT ? -EINVAL : 0;
	if (responds)
		contexts |= RTGAUGE_CONTEXT_USER;
	if (setup->source != (responds ? RTGAUGE_SOURCE_EXTERNAL : RTGAUGE_SOURCE_COBALT) ||
	    (!responds && setup->kind != RTGAUGE_KIND_TIMER) || hweight32(setup->contexts) != 1 ||
	    setup->contexts & ~contexts)
		return -EOPNOTSUPP;
	return core_cobalt ? 0 : -ENODEV;
}

static int session_check(const struct rtgauge_setup *setup)
{
	struct rtgauge_source info = { .number = setup->source };
	bool wakes = setup->contexts & SESSION_WAKES;
	bool outside = setup->kind == RTGAUGE_KIND_RESPONSE;
	int err;

	if (!setup->contexts || setup->contexts & ~SESSION_CONTEXTS ||
	    hweight32(setup->contexts & SESSION_DEFERS) > 1 || setup->room > RTGAUGE_ROOM_MAX ||
	    setup->raise_cpu)
		return -EINVAL;
	err = session_core_check(setup);
	if (err)
		return err;
	if (!outside &&
	    (setup->flags & ~(RTGAUGE_SETUP_DITHER | RTGAUGE_SETUP_COBALT) || setup->debounce_us ||
	     setup->delay_ns || setup->delay_every || setup->storm_edges))
		return -EINVAL;
	switch (setup->kind) {
	case RTGAUGE_KIND_TIMER:
		break;
	case RTGAUGE_KIND_IRQ_LATENCY:
	case RTGAUGE_KIND_IRQ_DISPATCH:
		if (wakes)
			return -EINVAL;
		break;
	case RTGAUGE_KIND_IRQ_TO_THREAD:
		if (!wakes)
			return -EINVAL;
		break;
	case RTGAUGE_KIND_RESPONSE:
		if (!session_response_is_sound(setup))
			return -EINVAL;
		break;
	default:
		return -EINVAL;
	}
	err = session_describe(&info);
	if (err)
		return err;
	if (outside != !!(info.flags & RTGAUGE_SOURCE_OUTSIDE))
		return -EINVAL;
	if (!(info.flags & RTGAUGE_SOURCE_AVAILABLE))
		return -ENODEV;
	if (setup->contexts & RTGAUGE_CONTEXT_THREADED && !(info.flags & RTGAUGE_SOURCE_THREADED))
		return -EOPNOTSUPP;
	if (outside)
		return 0;
	if (setup->interval_ns < info.interval_min_ns || setup->interval_ns > info.interval_max_ns)
		return -EINVAL;
	return 0;
}

/* AUTO becomes a number, and lines are named exactly where they are used. */
static int session_choose(u32 *source, u32 kind, u32 flags, const char *chip, u32 output, u32 input)
{
	bool lines = chip[0] || output || input;

	if (strnlen(chip, sizeof_field(struct rtgauge_setup, gpio_chip)) ==
	    sizeof_field(struct rtgauge_setup, gpio_chip))
		return -EINVAL;
	if (*source == RTGAUGE_SOURCE_AUTO) {
		mutex_lock(&sessions_lock);
		*source = source_choose(kind, flags, lines);
		mutex_unlock(&sessions_lock);
	}
	if (!source_get(*source))
		return -EINVAL;
	if (lines != !!(source_get(*source)->flags & RTGAUGE_SOURCE_LINES))
		return -EINVAL;
	return lines && (!chip[0] || output == input) ? -EINVAL : 0;
}

/* With the lock held. */
static int session_claim(struct session *s, struct rtgauge_setup *setup)
{
	int err;

	if (sessions_over)
		return -ENODEV;
	if (setup->cpu >= nr_cpu_ids || !cpu_online(setup->cpu))
		return -ENXIO;
	s->source = source_get(setup->source);
	s->cpu = setup->cpu;
	/* the thread of a raiser would raise what SUSTAIN left */
	s->due_ns = 0;
	setup->raise_cpu = setup->cpu;
	if (setup->flags & RTGAUGE_SETUP_COBALT) {
		err = core_cobalt->open(s);
		if (err)
			return err;
		s->core = core_cobalt;
	}
	err = s->source->open(s, setup);
	s->claimed = !err;
	if (err && s->core) {
		s->core->close(s);
		session_forget_core(s);
	}
	return err;
}

int session_setup(struct session *s, struct rtgauge_setup *setup)
{
	struct rtgauge_record *ring;
	u32 room;
	int err;

	err = session_choose(&setup->source, setup->kind, setup->flags, setup->gpio_chip,
			     setup->gpio_output, setup->gpio_input);
	if (!err)
		err = session_check(setup);
	if (err)
		return err;
	room = roundup_pow_of_two(max(setup->room, SESSION_ROOM_MIN));
	/* written to once: no page fault is left for the handler */
	ring = vzalloc(array_size(room, sizeof(*ring)));
	if (!ring)
		return -ENOMEM;
	cpus_read_lock();
	mutex_lock(&sessions_lock);
	err = s->state != RTGAUGE_STATE_OPEN || s->sustain ? -EBUSY : 0;
	if (err)
		goto out_unlock;
	s->kind = setup->kind;
	s->contexts = setup->contexts;
	s->flags = setup->flags;
	s->priority = setup->thread;
	s->interval_ns = setup->interval_ns;
	s->events_max = setup->events ? setup->events : U64_MAX;
	s->periods = setup->periods ? setup->periods : U64_MAX;
	s->mask = room - 1;
	s->keep = setup->room;
	s->ending = false;
	reinit_completion(&s->met);
	err = session_claim(s, setup);
	if (err)
		goto out_unlock;
	err = session_make_deferred(s);
	if (err)
		goto out_release;
	if (s->thread)
		setup->thread = task_pid_vnr(s->thread);
	setup->room = s->keep ? room : 0;
	swap(s->ring, ring);
	shared_set(&s->state, RTGAUGE_STATE_READY);
	goto out_unlock;
out_release:
	session_release(s);
	session_forget_core(s);
	/* it may have come late */
	if (s->thread)
		put_task_struct(s->thread);
	s->thread = NULL;
out_unlock:
	mutex_unlock(&sessions_lock);
	cpus_read_unlock();
	vfree(ring);
	return err;
}

/* With the lock held: edges from outside are events from now on. */
static int session_listen(struct session *s, struct rtgauge_start *start)
{
	int err;

	if (start->first_due_ns)
		return -EINVAL;
	shared_set(&s->state, RTGAUGE_STATE_RUNNING);
	err = s->source->start(s);
	if (err)
		shared_set(&s->state, RTGAUGE_STATE_READY);
	start->first_due_ns = ktime_get_ns();
	return err;
}

/* With the lock held. */
static int session_launch(struct session *s, struct rtgauge_start *start)
{
	u64 now_ns = ktime_get_ns();
	int err;

	if (s->state == RTGAUGE_STATE_FAILED && s->failure == RTGAUGE_FAILURE_CPU_OFFLINE)
		return -ENXIO;
	if (s->state != RTGAUGE_STATE_READY)
		return -EBUSY;
	if (s->kind == RTGAUGE_KIND_RESPONSE)
		return session_listen(s, start);
	if (!start->first_due_ns)
		start->first_due_ns = now_ns + s->interval_ns;
	if (start->first_due_ns > now_ns + RTGAUGE_INTERVAL_MAX_NS)
		return -EINVAL;
	s->index = 0;
	s->grid_ns = start->first_due_ns;
	s->due_ns = s->grid_ns;
	if (s->flags & RTGAUGE_SETUP_DITHER)
		s->due_ns += dither_ns(0, s->interval_ns);
	if (s->due_ns <= now_ns && !session_passed(s, now_ns)) {
		shared_set(&s->state, RTGAUGE_STATE_FINISHED);
		return 0;
	}
	shared_set(&s->state, RTGAUGE_STATE_RUNNING);
	err = s->source->start(s);
	if (err)
		shared_set(&s->state, RTGAUGE_STATE_READY);
	return err;
}

int session_start(struct session *s, struct rtgauge_start *start)
{
	int err;

	if (start->reserved)
		return -EINVAL;
	cpus_read_lock();
	mutex_lock(&sessions_lock);
	err = session_launch(s, start);
	mutex_unlock(&sessions_lock);
	cpus_read_unlock();
	return err;
}

int session_stop(struct session *s)
{
	int err = 0;

	mutex_lock(&sessions_lock);
	if (s->state == RTGAUGE_STATE_OPEN)
		err = -EBUSY;
	else
		session_end(s, RTGAUGE_STATE_STOPPED, RTGAUGE_FAILURE_NONE);
	mutex_unlock(&sessions_lock);
	return err;
}

/* --- those who follow the ring --- */

/* 1: found, its place is in @position. 0: not yet. Else -errno. Passed slots are free. */
static int session_find(struct session *s, u64 seen_ns, u32 *position)
{
	u32 state = shared_get(&s->state);
	u32 head = shared_get(&s->head);

	while (*position != head && s->ring[*position & s->mask].raised_ns <= seen_ns)
		++*position;
	shared_set(&s->user_position, *position);
	if (*position != head)
		return 1;
	if (session_is_live(state))
		return 0;
	return state == RTGAUGE_STATE_FAILED ? -EIO : -ENODATA;
}

int session_wait(struct session *s, struct rtgauge_wait *wait)
{
	const struct rtgauge_record *record;
	u32 position;
	int found = 0, err;

	if (shared_get(&s->state) == RTGAUGE_STATE_OPEN)
		return -EBUSY;
	/* the caller may leave the last result there */
	if (!(s->contexts & RTGAUGE_CONTEXT_USER) || s->kind == RTGAUGE_KIND_RESPONSE ||
	    wait->flags & ~RTGAUGE_RECORD_OTHER_CPU)
		return -EINVAL;
	if (atomic_cmpxchg(&s->user_waits, 0, 1))
		return -EBUSY;
	position = s->user_position;
	err = rcuwait_wait_event(&s->user, (found = session_find(s, wait->seen_ns, &position)),
				 TASK_INTERRUPTIBLE);
	if (!err)
		err = min(found, 0);
	if (!err) {
		record = &s->ring[position & s->mask];
		wait->index = record->index;
		wait->due_ns = record->due_ns;
		wait->raised_ns = record->raised_ns;
		wait->entry_ns = record->entry_ns;
		wait->wake_ns = record->wake_ns;
		wait->flags = READ_ONCE(record->flags) & RTGAUGE_RECORD_OTHER_CPU;
		wait->missed = wait->index - s->user_index;
		s->user_missed += wait->missed;
		s->user_index = wait->index + 1;
		position++;
	}
	shared_set(&s->user_position, position);
	atomic_set_release(&s->user_waits, 0);
	return err;
}

int session_take(struct session *s, struct rtgauge_edge *edge)
{
	u32 state = shared_get(&s->state), position = s->user_position;
	const struct rtgauge_record *record;

	if (position == shared_get(&s->head)) {
		if (session_is_live(state))
			return 0;
		return state == RTGAUGE_STATE_FAILED ? -EIO : -ENODATA;
	}
	record = &s->ring[position & s->mask];
	*edge = (struct rtgauge_edge){
		.index = record->index,
		.entry_ns = record->entry_ns,
		.flags = record->flags,
		.lost = record->index - s->user_index,
	};
	s->user_index = record->index + 1;
	shared_set(&s->user_position, position + 1);
	return 1;
}

ssize_t session_read(struct session *s, char __user *buffer, size_t size, bool block)
{
	size_t room = size / sizeof(struct rtgauge_record), done = 0;
	u32 last, head;
	int err = 0;

	if (shared_get(&s->state) == RTGAUGE_STATE_OPEN)
		return -EBUSY;
	if (!s->keep)
		return -ENODATA;
	if (!room)
		return -EINVAL;
	for (;;) {
		if (block)
			err = wait_event_interruptible(s->readers, session_readable_or_look(s));
		if (!err)
			err = mutex_lock_interruptible(&s->read_lock);
		if (err)
			return err;
		if (session_readable(s))
			break;
		mutex_unlock(&s->read_lock);
		if (!block)
			return -EAGAIN;
		/* another reader came first */
	}
	head = shared_get(&s->head);
	last = s->contexts & SESSION_DEFERS ? shared_get(&s->thread_position) : head;
	while (done < room && s->tail != last) {
		u32 at = s->tail & s->mask;
		u32 count = min3((u32)min_t(size_t, room - done, U32_MAX), last - s->tail,
				 s->mask + 1 - at);

		if (copy_to_user(buffer + done * sizeof(*s->ring), &s->ring[at],
				 count * sizeof(*s->ring))) {
			err = done ? 0 : -EFAULT;
			break;
		}
		shared_set(&s->tail, s->tail + count);
		done += count;
	}
	if (!done && !err && s->state == RTGAUGE_STATE_FAILED)
		err = -EIO;
	mutex_unlock(&s->read_lock);
	return err ? err : (ssize_t)(done * sizeof(struct rtgauge_record));
}

__poll_t session_poll(struct session *s, struct file *file, struct poll_table_struct *table)
{
	__poll_t events = 0;
	u32 state;

	poll_wait(file, &s->readers, table);
	state = shared_get(&s->state);
	if (state == RTGAUGE_STATE_OPEN)
		return EPOLLERR;
	if (session_readable_or_look(s))
		events |= EPOLLIN | EPOLLRDNORM;
	if (!session_is_live(state))
		events |= EPOLLHUP;
	if (state == RTGAUGE_STATE_FAILED)
		events |= EPOLLERR;
	return events;
}

int session_mmap(struct session *s, struct vm_area_struct *vma)
{
	if (vma->vm_pgoff || vma->vm_end - vma->vm_start != PAGE_SIZE ||
	    vma->vm_flags & (VM_WRITE | VM_EXEC) || !(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	compat_vm_keep_read_only(vma);
	return vm_insert_page(vma, vma->vm_start, virt_to_page(s->page));
}

/* A counter that its owner may be increasing: where it is read in halves, until both are of one. */
static u64 session_count(const u64 *counter)
{
	u64 count, again = READ_ONCE(*counter);

	do {
		count = again;
		again = READ_ONCE(*counter);
	} while (!IS_ENABLED(CONFIG_64BIT) && count != again);
	return count;
}

void session_status(struct session *s, struct rtgauge_status *status)
{
	status->state = shared_get(&s->state);
	status->failure = READ_ONCE(s->failure);
	status->events = session_count(&s->events);
	status->missed = session_count(&s->missed);
	status->lost = session_count(&s->lost);
	status->thread_missed = session_count(&s->thread_missed);
	status->user_missed = session_count(&s->user_missed);
	status->stray = session_count(&s->stray);
	status->other_cpu = session_count(&s->other_cpu);
	mutex_lock(&sessions_lock);
	if (s->thread && s->core)
		s->core->count(s);
	status->switches = s->switches;
	status->faults = s->faults;
	mutex_unlock(&sessions_lock);
}

/* --- sustained --- */

/* Until the handler says that it is over. */
static int session_await(struct session *s, u64 period_ns)
{
	struct sustain *sustain = s->sustain;
	u64 patience_s = SESSION_SILENCE_S + 10 * div_u64(period_ns, NSEC_PER_SEC);
	u32 heard = 0;
	u64 silent_s = 0;

	while (silent_s <= patience_s) {
		long left = wait_for_completion_interruptible_timeout(&sustain->done, HZ);
		u32 handled = READ_ONCE(sustain->handled);

		if (left < 0)
			return -EINTR;
		if (left)
			return sustain->over ? 0 : -EIO;
		silent_s = handled == heard ? silent_s + 1 : 0;
		heard = handled;
	}
	return -ETIME;
}

static int session_sustain_check(struct rtgauge_sustain *asked)
{
	struct rtgauge_source info = {};
	int err;

	if (asked->period_fs || asked->flags ||
	    memchr_inv(asked->reserved, 0, sizeof(asked->reserved)))
		return -EINVAL;
	err = session_choose(&asked->source, RTGAUGE_KIND_IRQ_LATENCY, 0, asked->gpio_chip,
			     asked->gpio_output, asked->gpio_input);
	if (err)
		return err;
	info.number = asked->source;
	err = session_describe(&info);
	if (err)
		return err;
	if (!(info.flags & RTGAUGE_SOURCE_AVAILABLE))
		return -ENODEV;
	if (!info.sustain_min_ns)
		return -EOPNOTSUPP;
	if (asked->period_ns < info.sustain_min_ns || asked->period_ns > info.interval_max_ns)
		return -EINVAL;
	if (!asked->count || asked->count > RTGAUGE_SUSTAIN_COUNT_MAX)
		return -EINVAL;
	/* an hour times 10^9 does not fit into 64 bits */
	if (asked->period_ns >
	    div_u64((u64)RTGAUGE_SUSTAIN_SECONDS_MAX * NSEC_PER_SEC, asked->count))
		return -EINVAL;
	return 0;
}

/* With the lock held. */
static int session_sustain_begin(struct session *s, struct rtgauge_sustain *asked, u64 *unit_fs)
{
	struct rtgauge_setup setup = {
		.kind = RTGAUGE_KIND_IRQ_LATENCY,
		.source = asked->source,
		.cpu = asked->cpu,
		.gpio_output = asked->gpio_output,
		.gpio_input = asked->gpio_input,
	};
	int err;

	memcpy(setup.gpio_chip, asked->gpio_chip, sizeof(setup.gpio_chip));
	err = session_claim(s, &setup);
	if (err)
		return err;
	err = s->source->sustain(s, asked->period_ns, unit_fs);
	if (err) {
		s->source->stop(s);
		session_release(s);
	}
	return err;
}

int session_sustain(struct session *s, struct rtgauge_sustain *asked)
{
	struct sustain sustain = { .count = asked->count, .lost_max = asked->lost_max };
	u64 unit_fs = 0;
	int err;

	err = session_sustain_check(asked);
	if (err)
		return err;
	init_completion(&sustain.done);
	cpus_read_lock();
	mutex_lock(&sessions_lock);
	err = s->state != RTGAUGE_STATE_OPEN || s->sustain ? -EBUSY : 0;
	if (!err) {
		s->sustain = &sustain;
		err = session_sustain_begin(s, asked, &unit_fs);
		if (err)
			s->sustain = NULL;
	}
	mutex_unlock(&sessions_lock);
	cpus_read_unlock();
	if (err)
		return err;
	err = session_await(s, asked->period_ns);
	mutex_lock(&sessions_lock);
	if (s->claimed) {
		s->source->stop(s);
		session_release(s);
	}
	s->sustain = NULL;
	mutex_unlock(&sessions_lock);
	if (err)
		return err;
	asked->period_fs = sustain.period * unit_fs;
	asked->period_ns = div_u64(asked->period_fs, 1000000);
	asked->generated = div64_u64(sustain.units, sustain.period) + 1;
	asked->handled = sustain.handled;
	asked->lost = asked->generated - min_t(u64, asked->handled, asked->generated);
	asked->elapsed_ns = mul_u64_u32_div(sustain.units + sustain.period, unit_fs, 1000000);
	asked->flags = sustain.ended_early ? RTGAUGE_SUSTAIN_EARLY : 0;
	return 0;
}

/* --- all sessions --- */

/* With the lock held: it ends, whatever it is about. */
static void session_fail(struct session *s, u32 failure)
{
	struct sustain *sustain = s->sustain;

	session_end(s, RTGAUGE_STATE_FAILED, failure);
	if (sustain)
		complete(&sustain->done);
}

void sessions_lose(const struct source *source, const void *device)
{
	struct session *s;

	mutex_lock(&sessions_lock);
	list_for_each_entry(s, &sessions_all, all)
		if (s->claimed && s->source == source && s->device == device)
			session_fail(s, RTGAUGE_FAILURE_SOURCE);
	mutex_unlock(&sessions_lock);
}

static int sessions_cpu_offline(unsigned int cpu)
{
	struct session *s;

	mutex_lock(&sessions_lock);
	list_for_each_entry(s, &sessions_all, all)
		if (s->claimed && s->cpu == cpu)
			session_fail(s, RTGAUGE_FAILURE_CPU_OFFLINE);
	mutex_unlock(&sessions_lock);
	return 0;
}

int sessions_init(void)
{
	sessions_hotplug = cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN, "rtgauge:online", NULL,
						     sessions_cpu_offline);
	return min(sessions_hotplug, 0);
}

/* With no new ones. Files are open only if the removal is forced: they are waited for. */
void sessions_end(void)
{
	struct session *s;

	mutex_lock(&sessions_lock);
	sessions_over = true;
	list_for_each_entry(s, &sessions_all, all)
		session_fail(s, RTGAUGE_FAILURE_UNLOAD);
	mutex_unlock(&sessions_lock);
}

void sessions_exit(void)
{
	wait_event(sessions_gone, list_empty_careful(&sessions_all));
	/* the last one's close() returns */
	mutex_lock(&sessions_lock);
	mutex_unlock(&sessions_lock);
	cpuhp_remove_state_nocalls(sessions_hotplug);
}
