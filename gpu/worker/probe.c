/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread per page, so that a page with wrong data is identified by its number.
 */
#include "gpu/worker/probe.h"

#include "cache/crc32c.h"

/* first polls run without pause, because the time is measured */
#define PROBE_SPINS 200u

HR_WORKER void probe_page(const struct hr_probe *probe, uint32_t page)
{
	const uint64_t at = (uint64_t)page * HR_PAGE;
	const uint64_t *from = (const uint64_t *)(probe->from + at);
	uint64_t *to = (uint64_t *)(probe->to + at);
	uint32_t i;

	for (i = 0; i < HR_PAGE / sizeof(*to); i++)
		to[i] = from[i];
	probe->crc[page] = hr_crc32c(0, from, HR_PAGE);
}

/* False: the CPU did not write ping in time. */
HR_WORKER bool probe_answer(const struct hr_probe *probe, uint32_t round)
{
	const uint64_t end = hr_clock_ns() + probe->timeout_ns;
	uint32_t spins = 0;

	while (hr_poll_sys_u32(probe->ping) != round) {
		if (hr_clock_ns() > end)
			return false;
		if (++spins > PROBE_SPINS)
			hr_idle(&spins);
	}
	hr_mmio_write32(probe->pong, round);
	return true;
}

HR_DEVICE void hr_probe_block(struct hr_probe *probe, uint32_t block)
{
	uint32_t i, end = HR_PROBE_DONE;

	for (i = block * hr_threads() + hr_thread(); i < probe->pages;
	     i += probe->blocks * hr_threads())
		probe_page(probe, i);
	hr_block_sync();
	if (hr_thread())
		return;
	for (i = 1; block == 0 && end == HR_PROBE_DONE && i <= probe->rounds; i++)
		if (!probe_answer(probe, i))
			end = HR_PROBE_UNANSWERED;
	hr_release_sys_u32(&probe->end[block], end);
}
