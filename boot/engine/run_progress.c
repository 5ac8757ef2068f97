/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/run.h"

#include "config/derived.h"
#include "nvme/queue/worker.h"

uint64_t hr_run_bytes(const struct hr_run *run, uint64_t tiles)
{
	uint64_t sum = 0;

	for (uint32_t s = 0; s < run->config->sources; s++) {
		const struct hr_run_source *source = &run->source[s];
		const uint64_t bytes = tiles * source->tile_bytes;

		sum += bytes < source->bytes ? bytes : source->bytes;
	}
	return sum;
}

uint64_t hr_run_bytes_read(const struct hr_run *run)
{
	uint64_t sum = 0;

	if (run->ended_ns || !hr_run_wired(run) || !run->started_ns)
		return run->read_bytes;
	if (run->gpu[0].access)
		return hr_run_pages_read(run) * run->config->cache.page_bytes;
	for (uint32_t i = 0; i < hr_pipe_first_status(run->pipe, HR_ROLE_COMPUTE); i++)
		sum += hr_acquire_sys_u64(&run->cpu.status[i].bytes);
	return sum;
}

uint64_t hr_run_tiles_done(const struct hr_run *run)
{
	const uint32_t role =
		hr_config_has_output(run->config) ? HR_ROLE_WRITEBACK : HR_ROLE_COMPUTE;
	const uint32_t first = hr_run_first_status(run, role);
	const uint32_t last = hr_run_first_status(run, role + 1);
	uint64_t sum = 0;

	for (uint32_t i = first; i < last; i++)
		sum += hr_acquire_sys_u64(&hr_run_status(run, i)->tiles);
	return sum;
}
