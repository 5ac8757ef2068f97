/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/harness/power.h"

void power_cut(struct hr_transport *t, enum hr_soft_cut policy, uint64_t seed)
{
	struct soft *soft = t->impl;

	/* set first: a thread that writes blocks stops before the next block */
	if (__atomic_exchange_n(&soft->dead, 1, __ATOMIC_ACQ_REL))
		return;
	soft_quiesce(soft, 0);
	soft_cache_cut(&soft->cache, policy, seed);
	soft_vanish(soft);
	soft_resume(soft, 0);
}
