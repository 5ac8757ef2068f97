/*
 * boot/remote/life.h - the states of a link's connection.
 */
#ifndef BOOT_REMOTE_LIFE_H
#define BOOT_REMOTE_LIFE_H

#include "boot/remote/internal.h"

/* Do one piece of work at link->now_ns. True: there may be more to do now. */
bool hr_life_step(struct hr_link *link);

/* END and DONE, when they are known and not said on this connection. */
void hr_life_say(struct hr_link *link);

#endif
