/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of consumers and producers. The services of taps and feeds call these functions, and do not
 * need the engine that counters.c reads. */
#include "boot/engine/runner/counters.h"
#include "boot/engine/shared_memory.h"

void hr_counters_snapshot_consumer(struct hr_consumer_counters *c, const struct hr_run *run,
				   uint32_t seat)
{
	const struct hr_tap_words *all = hr_run_tap_words(run);
	const struct hr_tap_seat *words = &all->seat[seat];
	const uint64_t returned = hr_acquire_sys_u64(&words->returned);
	const uint64_t lent = hr_acquire_sys_u64(&words->lent);
	const uint64_t front = hr_acquire_sys_u64(&all->front);
	const uint64_t oldest = hr_acquire_sys_u64(&words->oldest_tile);

	c->lent = lent;
	c->returned = returned < lent ? returned : lent;
	c->held = lent - c->returned;
	c->failed = hr_acquire_sys_u64(&words->failed);
	c->redelivered = hr_acquire_sys_u64(&words->redelivered);
	c->hold_ns = returned ? hr_acquire_sys_u64(&words->hold_ns) / returned : 0;
	c->hold_max_ns = hr_acquire_sys_u64(&words->hold_max_ns);
	c->oldest_ns = c->held ? hr_acquire_sys_u64(&words->oldest_ns) : 0;
	c->lag = c->oldest_ns && front > oldest ? front - oldest : 0;
}

void hr_counters_snapshot_producer(struct hr_producer_counters *c, const struct hr_run *run)
{
	const struct hr_feed_words *words = hr_run_feed_words(run);
	const uint64_t committed = hr_acquire_sys_u64(&words->committed);
	const uint64_t offered = hr_acquire_sys_u64(&words->offered);
	const uint64_t next = hr_acquire_sys_u64(&words->next);
	const uint64_t front = hr_acquire_sys_u64(&words->front);

	c->offered = offered;
	c->committed = committed < offered ? committed : offered;
	c->held = offered - c->committed;
	c->lag = c->held && front > next ? front - next : 0;
}
