/*
 * boot/engine/watch.h - which workers of a running pipeline still move. Allocates nothing.
 *
 * Workers bound all their waits, so one that does not move is stuck in an operator, or the gpu is.
 */
#ifndef BOOT_ENGINE_WATCH_H
#define BOOT_ENGINE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "boot/engine/stages.h"

/* How long nothing may move: a worker that drives queues, beyond the deadlines of its commands; and
 * a compute block, which does not beat while it works on a tile. */
#define HR_PATIENCE_NS (10 * HR_NS_PER_S)
#define HR_TILE_PATIENCE_NS (120 * HR_NS_PER_S)

/* Workers of a pipeline: each role's own queue pairs, or are blocks. */
#define HR_STATUSES_MAX (HR_ROLES * HR_BLOCKS_MAX)

struct hr_watch {
	const struct hr_run *run;
	uint64_t patience_ns[HR_ROLES];
	struct {
		uint64_t heartbeat, since_ns;
	} seen[HR_STATUSES_MAX];
};

/* From the launch on. The appliance's patience, where it is not 0, is in place of the above. */
void hr_watch_begin(struct hr_watch *watch, const struct hr_appliance *app,
		    const struct hr_run *run, uint64_t now_ns);

/*
 * Look at all workers. The role of one that has not moved for longer than it may, with its number in
 * *index (a block's, for compute), or HR_ROLES: all move or have ended.
 */
enum hr_role hr_watch_look(struct hr_watch *watch, uint64_t now_ns, uint32_t *index);

/* "prefetch", "compute", "write-back". */
const char *hr_role_name(enum hr_role role);

#endif
