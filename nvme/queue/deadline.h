/*
 * nvme/queue/deadline.h - deadlines of the commands of a queue pair. Worker code; include
 * nvme/queue/queue.h.
 */
#ifndef NVME_QUEUE_DEADLINE_H
#define NVME_QUEUE_DEADLINE_H

#include "nvme/queue/queue.h"

/*
 * Collective. Call when no CQE was reaped, also on a broken queue. True when the deadline of a
 * command has passed: its state is now HR_CMD_LOST, and *lost has its token and CID (the same in
 * all lanes). The table is scanned once every timeout / 8, and again on the next call after true
 * was returned.
 */
HR_WORKER bool hr_qp_expire(struct hr_nvme_qp *qp, uint64_t now_ns, struct hr_done *lost)
{
	const uint32_t commands = qp->entries - 1u, lane = hr_lane();
	const uint64_t now = hr_shfl_u64(now_ns, 0);
	uint32_t base;

	if (now < qp->scan_ns)
		return false;
	for (base = 0; base < commands; base += HR_LANES) {
		const uint32_t index = base + lane < commands ? base + lane : 0;
		struct hr_inflight *command = &qp->inflight[index];
		const hr_mask expired =
			hr_ballot(base + lane < commands && command->state == HR_CMD_SENT &&
				  command->deadline_ns <= now);

		if (expired) {
			const uint32_t first = hr_lowest_bit(expired);

			lost->token = hr_shfl_u32(command->token, first);
			lost->cid = (uint16_t)hr_shfl_u32(command->cid, first);
			lost->dw0 = 0;
			lost->status = 0;
			lost->dnr = false;
			lost->crd = 0;
			hr_lanes_sync();
			if (lane == first)
				command->state = HR_CMD_LOST;
			if (lane == 0)
				qp->stats.lost++;
			hr_lanes_sync();
			return true;
		}
	}
	hr_lanes_sync();
	if (lane == 0)
		qp->scan_ns = now + qp->timeout_ns / 8;
	hr_lanes_sync();
	return false;
}

#endif
