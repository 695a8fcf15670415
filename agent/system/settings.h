/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System settings: saved, set, read back, recorded, restored. At a normal end settings_close()
 * restores them. If the agent is killed, its guardian does (a child process that has the saved
 * values and waits for the agent's end). If the guardian was killed too, or the power failed, the
 * next settings_open() finds the journal and restores them.
 */
#ifndef RTGAUGE_SETTINGS_H
#define RTGAUGE_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/message.h"

struct settings;

/* Result of one setting, passed to the recorder as soon as it is known. */
struct setting_record {
	const char *name; /* path of the file, or a word such as "cpu_dma_latency" */
	const char *asked;
	const char *before;    /* NULL if it could not be read */
	const char *effective; /* read back; NULL if it could not be */
	const char *reason;    /* "" or why it is not as asked */
};

/*
 * Undo the journals that dead agents left in the state folder ($RTGAUGE_STATE, else
 * /run/rtgauge, else a folder of the user's own below /tmp), take the lock that keeps a second
 * agent from changing settings at the same time, and start the guardian. @undone gets the number
 * of settings that were restored for a dead agent.
 * 0; -EBUSY: another agent (named in @msg) is measuring here; or -errno.
 */
int settings_open(struct settings **settings, int *undone, struct message *msg);

/* What settings_open() could not restore for a dead agent, or left because someone else had
 * changed it since; NULL if there was nothing of the kind. */
const struct message *settings_note(const struct settings *settings);

/* Undo the journals of dead agents and nothing else; number of settings restored or -errno. When
 * one could not be restored, or was left, @msg says so though the number is returned. */
int settings_undo(struct message *msg);

/*
 * Write @value to the file @path; record before, asked and effective. A setting that cannot be
 * made is not an error (0 is returned, the record says why). -errno only for a broken journal, in
 * which case nothing was changed.
 */
int settings_set(struct settings *settings, const char *path, const char *value,
		 struct message *msg);

struct setting_wish {
	const char *path;
	const char *value;
};

/* The same for many files, with one wait for the journal. */
int settings_set_all(struct settings *settings, const struct setting_wish *wishes, size_t count,
		     struct message *msg);

/* Record a setting that cannot even be tried; @reason stays valid. 0 or -ENOMEM. */
int settings_refuse(struct settings *settings, const char *name, const char *asked,
		    const char *reason, struct message *msg);

/* Everything rule 5 of the measurements asks for: RT throttling off, fair server off (mounting
 * debugfs in a mount namespace of the agent's own where it is not mounted), with @awake sleep
 * states held. */
int settings_prepare(struct settings *settings, bool awake, struct message *msg);

/* Call @record for every setting so far. Interrupts with equal records share one,
 * under the name /proc/irq/{24,26-31}/smp_affinity_list. */
void settings_each(const struct settings *settings,
		   void (*record)(void *arg, const struct setting_record *record), void *arg);

/* Read settings again, all in turn, a few dozen in each call, so that it is cheap enough for once
 * a second; calls @changed for those that no longer are what took effect, once for each value
 * found, and for the loss of the guardian (name "guardian", not counted). Returns the number of
 * those that, when last read, were not what took effect. */
int settings_verify(struct settings *settings,
		    void (*changed)(void *arg, const char *name, const char *expected,
				    const char *found),
		    void *arg);

/* The guardian also kills this process group when the agent is gone (loads). 0 or -errno. */
int settings_guard_group(struct settings *settings, pid_t pgid);

/* No longer: the group has ended. */
int settings_release_group(struct settings *settings, pid_t pgid);

/* The guardian also removes this kernel module, which is about to be inserted, when the agent is
 * gone; one at a time. 0 or -errno. */
int settings_guard_module(struct settings *settings, const char *name);

/* No longer: the module has been removed. */
int settings_release_module(struct settings *settings, const char *name);

/* Make a trace instance, the folder @path, which is removed when everything else is restored. 0 or
 * -errno. */
int settings_make_instance(struct settings *settings, const char *path);

/* The guardian's process id. */
pid_t settings_guardian(const struct settings *settings);

/* Close what a forked child of the agent must not keep open (the guardian's pipe, the lock). */
void settings_after_fork(struct settings *settings);

/* Restore everything now; settings_close() does so too, but cannot say what went wrong. Number
 * of settings that could not be restored or were left because someone else changed them; @msg
 * (may be NULL) names the first. */
int settings_put_back(struct settings *settings, struct message *msg);

/* Restore everything in reverse order, end the guardian, remove the journal. Number as of
 * settings_put_back(): 0 = all is as before. What could not be restored stays in the journal, for
 * the next start. */
int settings_close(struct settings *settings);

#endif
