/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/transfer.h - waits for the commands of a transfer of cache/object.h.
 *
 * Include it after tests/fakes/lanes.h, if the test uses that.
 */
#ifndef TESTS_HARNESS_TRANSFER_H
#define TESTS_HARNESS_TRANSFER_H

#include <errno.h>

#include "cache/object.h"

/*
 * Ring, and wait for `posted` commands, the result of a call that posts. Collective. No other command
 * may be in flight. Returns `posted` when it is negative; 0; -ETIMEDOUT: a command was lost; the NVMe
 * status of a failing command; qp->error.
 */
HR_WORKER int transfer_end(struct hr_nvme_qp *qp, int posted)
{
	struct hr_completion done = { 0 };
	uint32_t spins = 0;
	int err = posted < 0 ? posted : 0;

	hr_qp_publish(qp);
	while (posted > 0) {
		const hr_mask mask = hr_io_reap(qp, &done);
		const hr_mask bad = hr_ballot(hr_in_mask(mask) && done.status);

		if (bad) {
			const uint32_t status = hr_shfl_u32(done.status, hr_lowest_bit(bad));

			if (status == HR_STATUS_LOST)
				err = -ETIMEDOUT;
			else if (!err)
				err = (int)status;
		}
		if (!mask && qp->error)
			return qp->error;
		if (!mask)
			hr_idle(&spins);
		posted -= (int)hr_count_bits(mask);
	}
	return err;
}

#endif
