/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Restoring what a journal says: in reverse order, only where the value still is what that
 * agent set, each read back. Done by the agent at its end, by the guardian when the agent was
 * killed, and by the next start when both were: all three read the same journal.
 */
#ifndef RTGAUGE_UNDO_H
#define RTGAUGE_UNDO_H

#include <stdbool.h>

#include "base/message.h"

struct undo_report {
	int put;	     /* settings that were restored, and read back as before */
	int left;	     /* changed by another program since: left as they are */
	int failed;	     /* could not be restored */
	struct message note; /* the first of those left or failed */
};

/*
 * Undo the open journal; with @groups, first kill the process groups (loads) that its agent left
 * running. Returns 0 when nothing remains to be done for it, -EAGAIN when a setting could not be
 * restored, or -errno when the journal cannot be read.
 */
int undo_journal(int fd, bool groups, struct undo_report *report);

/* Undo and remove the journals of dead agents in the state folder; those of another boot are
 * only removed, since what they say was gone with it. */
void undo_folder(int folder, struct undo_report *report);

#endif
