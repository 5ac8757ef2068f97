/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/worker/role.h"

/* Name the tile and the LBA of a command. One lane. */
static HR_DEVICE void role_name_tile(const struct hr_role_worker *w, struct hr_failure *failure,
				     const struct hr_extent *extent, uint32_t tile_bytes,
				     const struct hr_role_command *command)
{
	uint64_t at;

	failure->tile = HR_NO_TILE;
	failure->lba = 0;
	if (command->slot == HR_NO_SLOT)
		return;
	failure->tile = w->pipe->slot[command->slot].tile;
	at = failure->tile * tile_bytes + (uint64_t)command->chunk * extent->chunk_bytes;
	failure->lba = extent->lba + (at >> extent->lba_shift);
}

HR_DEVICE void hr_role_fail(struct hr_role_worker *w, const struct hr_extent *extent,
			    uint32_t tile_bytes, const struct hr_nvme_qp *qp,
			    const struct hr_role_command *command)
{
	struct hr_failure *failure = &w->status->failure;

	if (hr_lane() == 0 && !w->failed) {
		failure->error = command->error;
		failure->role = w->role;
		failure->source = command->source;
		role_name_tile(w, failure, extent, tile_bytes, command);
		failure->object = extent->id;
		failure->qid = qp->id;
		failure->cid = command->cid;
		failure->opcode = command->opcode;
		hr_release_sys_u32(&w->status->failed, 1);
		hr_release_u32(&w->pipe->stop, 1);
	}
	w->failed = true;
	hr_lanes_sync();
}
