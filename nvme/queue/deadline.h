/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvme/queue/deadline.h - deadlines and repetitions of commands of a queue pair. Worker code;
 * nvme/queue/queue.h includes it.
 */
#ifndef NVME_QUEUE_DEADLINE_H
#define NVME_QUEUE_DEADLINE_H

#include "nvme/queue/queue.h"

/* ---- deadlines */

/*
 * Collective. Call when no CQE was reaped, also on a broken queue. True when the deadline of a
 * command has passed: its state is now HR_CMD_LOST, and *lost has its token and CID (the same in
 * all lanes). The table is scanned once every timeout / 8, and again on the next call after true
 * was returned.
 */
HR_WORKER bool hr_qp_find_expired(struct hr_nvme_qp *qp, uint64_t now_ns,
				  struct hr_completion *lost)
{
	const uint32_t commands = qp->entries - 1u, lane = hr_lane();
	const uint64_t now = hr_shfl_u64(now_ns, 0);
	uint32_t base;

	if (now < qp->next_scan_ns)
		return false;
	for (base = 0; base < commands; base += HR_LANES) {
		const uint32_t index = base + lane < commands ? base + lane : 0;
		struct hr_nvme_command *command = &qp->inflight[index];
		const hr_mask expired =
			hr_ballot(base + lane < commands && command->state == HR_CMD_SUBMITTED &&
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
		qp->next_scan_ns = now + qp->timeout_ns / 8;
	hr_lanes_sync();
	return false;
}

/* ---- the pause before a failed command is sent again. CPU and GPU */

/*
 * Pause before repetition `tries` (from 0 on) of a command that failed with this CRD: the delay
 * that the controller asks for (Base 2.0, 3.3.3.2.1 and 5.17.2.1), else a time that doubles up to
 * 256 ms.
 */
#define HR_RETRY_PAUSE_NS 1000000ull /* before the first repetition */
#define HR_RETRY_DOUBLINGS 8u
/* Repetitions, some 0.8 s, after which a thread of the host tells that it waits. */
#define HR_RETRY_TOLD 10u
#define HR_CRDT_UNIT_NS 100000000ull

HR_BOTH uint64_t hr_qp_retry_pause(const struct hr_nvme_qp *qp, uint8_t crd, uint32_t tries)
{
	const uint64_t asked = qp->retry_delay[crd & 3] * HR_CRDT_UNIT_NS;

	return asked ? asked
		     : HR_RETRY_PAUSE_NS
			       << (tries < HR_RETRY_DOUBLINGS ? tries : HR_RETRY_DOUBLINGS);
}

#endif
