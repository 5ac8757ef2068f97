/*
 * boot/remote/door.h - the strangers of a receiver: connections that have not proved the key yet. Their
 * number and their time are bounded, so a silent one blocks nothing. When there is no room, the
 * address with most strangers loses its oldest one.
 */
#ifndef BOOT_REMOTE_DOOR_H
#define BOOT_REMOTE_DOOR_H

#include "boot/remote/internal.h"

/* Accept and greet. Returns a connection that has proved the key, the newest one, or NULL. */
struct hr_link_talk *hr_door_step(struct hr_link *link);

/* Tell the owner of a connection that was refused, at most once a second. */
void hr_door_tell(struct hr_link *link, const struct sockaddr_in *peer, const char *why);

void hr_door_close(struct hr_link *link);

#endif
