/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/harness/qprun.h"

#include <stdlib.h>
#include <string.h>

static struct hr_completion last;

static void nothing(void)
{
}

static void *take(size_t bytes)
{
	void *memory = aligned_alloc(HR_PAGE, (bytes + HR_PAGE - 1) / HR_PAGE * HR_PAGE);

	if (!memory)
		abort();
	return memset(memory, 0, bytes);
}

static int push(struct hr_nvme_qp *qp, bool want, const struct hr_sqe *sqe, uint32_t token)
{
	return hr_qp_push(qp, want, sqe, token);
}

static void ring(struct hr_nvme_qp *qp)
{
	hr_qp_publish(qp);
}

static uint32_t reap(struct hr_nvme_qp *qp, struct hr_completion *done)
{
	const uint32_t got = hr_qp_reap(qp, &last);

	if (got)
		*done = last;
	return got;
}

static struct hr_completion reaped(uint32_t i)
{
	return last;
}

static bool expire(struct hr_nvme_qp *qp, uint64_t now_ns, struct hr_completion *lost)
{
	return hr_qp_find_expired(qp, now_ns, lost);
}

static const struct qprun here = { nothing, nothing, take,   free, push, ring,
				   reap,    reaped,  expire, true, true };

const struct qprun *qprun = &here;
