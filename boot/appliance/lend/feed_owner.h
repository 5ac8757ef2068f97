/*
 * boot/appliance/lend/feed_owner.h - the process that has the tiles of a feed on a GPU mapped.
 *
 * A GPU maps memory only before a launch, so all producers of a feed get the same tiles, also in later
 * runs. A process that detaches keeps its mapping, and could write to the tiles of the next producer.
 * So that is the same process, or another one after the end of this one. Under MPS the server may still
 * execute work of a process that was killed: HR_FEED_QUIET_NS pass before the memory is used again.
 */
#ifndef BOOT_APPLIANCE_LEND_FEED_OWNER_H
#define BOOT_APPLIANCE_LEND_FEED_OWNER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "config/base/clock.h"
#include "config/base/error.h"

#define HR_FEED_QUIET_NS (2 * HR_NS_PER_S)
/* From the end of a connection to the end of its process: the driver takes long to free its memory. */
#define HR_FEED_DYING_NS (20 * HR_NS_PER_S)

/* All zero: no process had the memory. */
struct hr_feed_owner {
	bool known;
	bool detached; /* it has said so, and lives on */
	int pidfd;     /* -1: the kernel has none for the process */
	pid_t process;
	uint64_t left_ns;  /* when its connection ended */
	uint64_t ended_ns; /* when its process was seen to have ended; 0: not yet */
};

/* The producer with that pidfd, which the owner closes from now on, has gone. */
void hr_feed_owner_set(struct hr_feed_owner *owner, pid_t process, int pidfd, bool detached,
		       uint64_t now_ns);

/*
 * Whether that process may map the memory; quiet: work of a process that has ended may still run. 0;
 * -EAGAIN: not yet, ask again; -EBUSY: not before the owner has ended, and *e names it.
 */
int hr_feed_owner_check(struct hr_feed_owner *owner, pid_t process, bool quiet, uint64_t now_ns,
			struct hr_error *e);

/* Forget it: no producer comes any more, or the new one is known by its own connection. */
void hr_feed_owner_forget(struct hr_feed_owner *owner);

#endif
