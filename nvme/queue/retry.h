/*
 * nvme/queue/retry.h - the pause before a failed command is sent again. CPU and GPU.
 */
#ifndef NVME_QUEUE_RETRY_H
#define NVME_QUEUE_RETRY_H

#include "nvme/queue/queue.h"

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
	const uint64_t asked = qp->crdt[crd & 3] * HR_CRDT_UNIT_NS;

	return asked ? asked
		     : HR_RETRY_PAUSE_NS
			       << (tries < HR_RETRY_DOUBLINGS ? tries : HR_RETRY_DOUBLINGS);
}

#endif
