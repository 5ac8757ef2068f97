/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/lend/producer.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "config/base/seam.h"

void hr_feed_owner_set(struct hr_feed_owner *owner, pid_t process, int pidfd, bool detached,
		       uint64_t now_ns)
{
	*owner = (struct hr_feed_owner){ .known = true,
					 .detached = detached,
					 .pidfd = pidfd,
					 .process = process,
					 .left_ns = now_ns };
}

/* Without a pidfd the end of the connection is all that is known. */
static bool has_ended(struct hr_feed_owner *owner, uint64_t now_ns)
{
	if (!owner->ended_ns && owner->pidfd >= 0 && hr_wait_readable(owner->pidfd, 0))
		owner->ended_ns = now_ns;
	return owner->pidfd < 0 || owner->ended_ns;
}

int hr_feed_owner_check(struct hr_feed_owner *owner, pid_t process, bool quiet, uint64_t now_ns,
			struct hr_error *e)
{
	uint64_t since_ns;

	if (!owner->known)
		return 0;
	if (!has_ended(owner, now_ns)) {
		if (process > 0 && process == owner->process)
			return 0;
		if (!owner->detached && now_ns - owner->left_ns < HR_FEED_DYING_NS)
			return -EAGAIN;
		return hr_fail(e, HR_ERROR_FAILED, -EBUSY,
			       "process %d has the tiles on the GPU mapped until it ends",
			       (int)owner->process);
	}
	since_ns = owner->pidfd < 0 ? owner->left_ns : owner->ended_ns;
	return (quiet || owner->pidfd < 0) && now_ns - since_ns < HR_FEED_QUIET_NS ? -EAGAIN : 0;
}

void hr_feed_owner_forget(struct hr_feed_owner *owner)
{
	if (owner->known && owner->pidfd >= 0)
		close(owner->pidfd);
	memset(owner, 0, sizeof *owner);
}
