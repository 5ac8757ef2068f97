/*
 * boot/remote/wake.h - which descriptors of a link are readable. One system call tells it for all of
 * them, so a link that moves tiles reads only what has something to read.
 */
#ifndef BOOT_REMOTE_WAKE_H
#define BOOT_REMOTE_WAKE_H

#include "boot/remote/internal.h"

enum hr_link_wake {
	HR_LINK_WAKE_DOOR = 1,	/* the listener, or a stranger */
	HR_LINK_WAKE_TALK = 2,	/* the TCP connection */
	HR_LINK_WAKE_QUEUE = 4, /* the channel of the completion queue */
};

/* Watch a descriptor, or one that is watched already as another kind. 0 or -errno. */
int hr_wake_watch(struct hr_link *link, int fd, enum hr_link_wake kind);

/* What is readable now: a set of enum hr_link_wake. */
unsigned hr_wake_look(struct hr_link *link);

#endif
