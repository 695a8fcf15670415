// SPDX-License-Identifier: Apache-2.0
/*
 * Chains of mutexes, and the threads that have and want them. A whole test loop runs by itself:
 * each thread releases the next one, and on one CPU their priorities make each step a switch to the
 * intended thread. The conductor sleeps during the loop.
 */
#include "methods/mutex_links.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

/* --- the threads --- */

/* Wait for the next turn; false: there is none. */
static bool links_turn(struct mutex_links_scene *scene, int number, uint32_t turn)
{
	if (turn > 1)
		ensemble_post(&scene->back);
	ensemble_wait(&scene->turns[number], turn);
	return !atomic_load_acquire(&scene->ended);
}

/* The first link: it has a mutex and waits for none. What it does is what is timed. */
static void links_first(struct ensemble_thread *thread)
{
	struct mutex_links_scene *scene = thread->state;
	struct mark *mark = &thread->ensemble->step->mark;
	uint32_t all = 0;

	for (uint32_t loop = 1;; loop++) {
		ensemble_wait(&scene->go, loop);
		if (atomic_load_acquire(&scene->stop))
			break;
		for (int i = 0; i < scene->count; i++) {
			pthread_mutex_lock(&scene->mutexes[0]);
			all++;
			if (scene->links > 1) {
				ensemble_post(&scene->turns[1]);
				ensemble_wait(&scene->formed, all);
			}
			scene->at = i;
			ensemble_post(&scene->turns[scene->links]);
			if (scene->yields)
				sched_yield();
			scene->runs_ns[i] = mark_to_ns(mark);
			scene->unlock_ns[i] = mark_from_ns(mark);
			pthread_mutex_unlock(&scene->mutexes[0]);
			ensemble_wait(&scene->back, all * (uint32_t)(scene->links + 1));
		}
		ensemble_post(&scene->done);
	}
	atomic_store_release(&scene->ended, 1);
	for (int i = 1; i < scene->links + 2; i++)
		ensemble_post(&scene->turns[i]);
}

/* The other links: each has a mutex and wants that of the one before. */
static void links_link(struct ensemble_thread *thread)
{
	struct mutex_links_scene *scene = thread->state;
	int number = thread->number;
	bool last = number == scene->links - 1;

	for (uint32_t turn = 1; links_turn(scene, number, turn); turn++) {
		pthread_mutex_lock(&scene->mutexes[number]);
		ensemble_post(last ? &scene->formed : &scene->turns[number + 1]);
		pthread_mutex_lock(&scene->mutexes[number - 1]);
		/* first the one that is wanted: the priority goes with it */
		pthread_mutex_unlock(&scene->mutexes[number]);
		pthread_mutex_unlock(&scene->mutexes[number - 1]);
	}
}

static void links_high(struct ensemble_thread *thread)
{
	struct mutex_links_scene *scene = thread->state;
	pthread_mutex_t *mutex = &scene->mutexes[scene->links - 1];
	struct mark *mark = &thread->ensemble->step->mark;

	for (uint32_t turn = 1; links_turn(scene, scene->links, turn); turn++) {
		ensemble_post(&scene->turns[scene->links + 1]);
		atomic_store_release(&scene->waiting, 1);
		scene->request_ns[scene->at] = mark_from_ns(mark);
		pthread_mutex_lock(mutex);
		scene->got_ns[scene->at] = mark_to_ns(mark);
		atomic_store_release(&scene->waiting, 0);
		pthread_mutex_unlock(mutex);
	}
}

static void links_middle(struct ensemble_thread *thread)
{
	struct mutex_links_scene *scene = thread->state;

	for (uint32_t turn = 1; links_turn(scene, scene->links + 1, turn); turn++) {
		if (atomic_load_acquire(&scene->waiting))
			atomic_add_release(&scene->between, 1);
		atomic_add_release(&scene->ready, 1);
	}
}

/* --- the conductor --- */

static int links_mutexes(struct mutex_links *state, const struct mutex_links_case *c)
{
	const struct mutex_kind kind = { PTHREAD_MUTEX_NORMAL, c->protocol, 0 };
	int err = 0;

	for (int i = 0; i < c->links && !err; i++)
		err = mutex_kind_init(&state->scene.mutexes[i], &kind,
				      state->ensemble.priority - 1);
	return err;
}

static bool links_start(struct mutex_links *state, const struct mutex_links_case *c)
{
	struct mutex_links_scene *scene = &state->scene;

	memset(scene, 0, sizeof(*scene));
	scene->links = c->links;
	scene->yields = c->protocol == MUTEX_PROTECT;
	links_mutexes(state, c);
	for (int i = 0; i < c->links + 2; i++) {
		int above = i < c->links ? 0 : i == c->links ? 2 : 1;

		scene->threads[i] = (struct ensemble_thread){
			.ensemble = &state->ensemble,
			.body = !i	      ? links_first :
				i < c->links  ? links_link :
				i == c->links ? links_high :
						links_middle,
			.state = scene,
			.number = i,
			.priority = state->ensemble.priority - MUTEX_LINKS_LEVELS + above,
		};
		if (!ensemble_start(&scene->threads[i]))
			return false;
	}
	return true;
}

static void links_end(struct mutex_links *state)
{
	struct mutex_links_scene *scene = &state->scene;

	atomic_store_release(&scene->stop, 1);
	ensemble_post(&scene->go);
	/* those of a set that was not started whole wait for their first turn */
	if (!scene->threads[scene->links + 1].created) {
		atomic_store_release(&scene->ended, 1);
		for (int i = 0; i < scene->links + 2; i++)
			ensemble_post(&scene->turns[i]);
	}
	/* each that does not end costs a second */
	for (int i = 0; i < scene->links + 2 && !state->ensemble.stuck; i++)
		ensemble_join(&scene->threads[i]);
}

static void links_add(int64_t *sum_ns, int64_t *least_ns, int64_t samples, int64_t value_ns)
{
	if (!samples || value_ns < *least_ns)
		*least_ns = value_ns;
	*sum_ns += value_ns;
}

static void links_put(struct mutex_links *state, struct mutex_links_case *c)
{
	const struct mutex_links_scene *scene = &state->scene;
	const struct ensemble *e = &state->ensemble;

	for (int i = 0; i < scene->count; i++) {
		int64_t acquire_ns = ensemble_net(e, scene->runs_ns[i] - scene->request_ns[i]);
		int64_t release_ns = ensemble_net(e, scene->got_ns[i] - scene->unlock_ns[i]);

		series_put(&e->step->series[c->acquire], acquire_ns);
		series_put(&e->step->series[c->release], release_ns);
		links_add(&c->acquire_sum_ns, &c->acquire_least_ns, c->samples, acquire_ns);
		links_add(&c->release_sum_ns, &c->release_least_ns, c->samples, release_ns);
		c->early += scene->runs_ns[i] < scene->request_ns[i];
		c->samples++;
	}
	c->ready = atomic_load_acquire(&scene->ready);
	c->between = atomic_load_acquire(&scene->between);
}

/* The more links, the longer a round takes: a loop is a few ms. */
static int links_rounds(int links)
{
	return MUTEX_LINKS_LOOP / links > 10 ? MUTEX_LINKS_LOOP / links : 10;
}

static void links_case(struct mutex_links *state, struct mutex_links_case *c)
{
	struct mutex_links_scene *scene = &state->scene;
	struct ensemble *e = &state->ensemble;
	int loop = links_rounds(c->links);
	bool going = links_start(state, c);

	for (uint32_t loops = 1; going && c->samples < state->samples && ensemble_goes_on(e);
	     loops++) {
		int64_t left = state->samples - c->samples;

		scene->count = left < loop ? (int)left : loop;
		c->begun += scene->count;
		ensemble_loop(e, c->acquire);
		ensemble_loop(e, c->release);
		ensemble_post(&scene->go);
		going = ensemble_await_posts(e, &scene->done, loops);
		if (going)
			links_put(state, c);
		c->stalled = !going && !step_stopped(e->step);
	}
	links_end(state);
	c->slept = scene->threads[scene->links].slept;
	for (int i = 0; i < scene->links + 2 && !e->error; i++)
		c->moved += ensemble_moved(&scene->threads[i]);
}

static void links_loop(struct worker *worker)
{
	struct mutex_links *state = worker->state;

	for (int i = 0; i < state->case_count; i++)
		if (!state->cases[i].refused && ensemble_goes_on(&state->ensemble))
			links_case(state, &state->cases[i]);
}

/* --- for the measurements --- */

int mutex_links_setup(struct step *step, int links)
{
	struct mutex_links *state = step->state;

	state->samples = option_number(&step->options, "samples");
	return ensemble_setup(step, &state->ensemble, links_loop, MUTEX_LINKS_LEVELS, links + 2);
}

int mutex_links_add(struct step *step, const char *label, const char *value,
		    enum mutex_protocol protocol, int links)
{
	struct mutex_links *state = step->state;
	struct mutex_links_case *c = &state->cases[state->case_count++];
	int64_t room = ensemble_room(state->samples, links_rounds(links));

	c->protocol = protocol;
	c->links = links;
	snprintf(c->value, sizeof(c->value), "%s", value);
	c->refused = links_mutexes(state, c);
	if (c->refused)
		return 0;
	c->acquire = ensemble_series(&state->ensemble, "acquire", label, c->value, room, true);
	c->release = ensemble_series(&state->ensemble, "release", label, c->value, room, true);
	ensemble_tested(&state->ensemble, c->acquire, 1);
	ensemble_tested(&state->ensemble, c->release, 1);
	return c->acquire < 0 ? c->acquire : c->release < 0 ? c->release : 0;
}

/* In a round high sleeps twice: for the mutex, and until its next turn. */
int mutex_links_double_switches(const struct mutex_links_case *c)
{
	int64_t more = (int64_t)c->slept - 2 * c->begun - 1;

	return more > 0 && c->begun && !c->stalled ? (int)(more * 1000 / c->begun) : 0;
}

/* The first case without a round, because the step ended before; NULL: all have rounds. */
static const struct mutex_links_case *links_untried(const struct mutex_links_case *cases, int count)
{
	for (int i = 0; i < count; i++)
		if (!cases[i].refused && !cases[i].samples)
			return &cases[i];
	return NULL;
}

static void links_not_tried(const struct mutex_links *state, const char *rule,
			    const struct mutex_links_case *untried, int count)
{
	char part[32] = "a request for the mutex";

	if (count > 1)
		snprintf(part, sizeof(part), "a chain of %d", untried->links);
	ensemble_not_tried(&state->ensemble, rule, part);
}

void mutex_links_verdict(struct step *step, const char *rule, const struct mutex_links_case *cases,
			 int count)
{
	const struct mutex_links_case *untried = links_untried(cases, count);
	long long ready = 0, between = 0, early = 0, moved = 0;
	char text[320], where[64] = "";
	bool stalled = false, broken = false, complete = true;
	int used;

	for (int i = 0; i < count; i++) {
		ready += cases[i].ready;
		between += cases[i].between;
		early += cases[i].early;
		moved += cases[i].moved;
		stalled |= cases[i].stalled;
		complete &= cases[i].ready == cases[i].samples;
		/* a thread that waits for a page lets the middle one in once */
		broken |= cases[i].between > cases[i].moved;
		if (cases[i].between && !where[0] && count > 1)
			snprintf(where, sizeof(where), ", first in a chain of %d", cases[i].links);
	}
	used = snprintf(
		text, sizeof(text),
		"the middle thread was ready %lld time%s and ran %lld time%s before the high one "
		"had the mutex%s, and the owner ran %lld time%s before the mutex was requested",
		ready, ready == 1 ? "" : "s", between, between == 1 ? "" : "s", where, early,
		early == 1 ? "" : "s");
	if (between && moved)
		snprintf(text + used, sizeof(text) - (size_t)used,
			 "; the threads had %lld page fault%s, because the kernel moved pages",
			 moved, moved == 1 ? "" : "s");
	if (broken)
		step_verdict(
			step, rule, "fail", text,
			"create the mutex with PTHREAD_PRIO_INHERIT, and find out why the kernel "
			"does not follow it");
	else if (between)
		step_verdict(step, rule, "inconclusive", text, ENSEMBLE_DISTURBED_REMEDY);
	else if (stalled)
		step_verdict(step, rule, "inconclusive", "some rounds did not end within a second",
			     "another task kept the CPU busy: re-run on an idle machine");
	else if (untried)
		links_not_tried(step->state, rule, untried, count);
	else if (early || !complete)
		step_verdict(step, rule, "inconclusive", text,
			     "measure on a separate CPU, until all samples are taken");
	else
		step_verdict(step, rule, "pass", text, "");
}
