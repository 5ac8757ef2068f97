/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/run.h"

#include <string.h>

#include "config/derived.h"
#include "nvme/queue/worker.h"

bool hr_run_wired(const struct hr_run *run)
{
	return run->pipe || run->gpu[0].access;
}

/* The first tile of a part; the sizes of parts differ by at most one tile. */
static uint64_t part_begin(const struct hr_run *run, uint64_t part)
{
	return (uint64_t)((unsigned __int128)run->tiles * part / run->parts);
}

uint64_t hr_run_first_tile(const struct hr_run *run)
{
	if (run->of_shards)
		return run->shard_begin;
	return run->parts ? part_begin(run, run->part) : 0;
}

uint64_t hr_run_end_tile(const struct hr_run *run)
{
	if (run->of_shards)
		return run->shard_end;
	return run->parts ? part_begin(run, (uint64_t)run->part + 1) : run->tiles;
}

/* Index of the object among those of an access operator; their number: it has none of that name. */
static uint32_t index_of(const struct hr_run *run, const struct hr_config_object *object)
{
	const struct hr_config_pipeline *p = run->config;
	uint32_t i = 0;

	while (i < p->objects && (p->object[i].ssd != object->ssd ||
				  strcmp(p->object[i].object, object->object) != 0))
		i++;
	return i;
}

const struct hr_run_object *hr_run_made_object(const struct hr_run *run,
					       const struct hr_config_object *object)
{
	return run->config->objects ? &run->object[index_of(run, object)] : NULL;
}

bool hr_run_made_checksum(const struct hr_run *run, const struct hr_config_object *object)
{
	return run->config->objects ? run->config->object[index_of(run, object)].checksum
				    : run->config->sink.checksum;
}

uint32_t hr_run_gpus(const struct hr_run *run)
{
	return hr_config_gpus(run->config);
}

/* Records of a role on one gpu of an access operator. */
static uint32_t gpu_statuses(const struct hr_run *run, uint32_t role)
{
	const struct hr_access *access = &run->gpu[0].cpu;

	if (role == HR_ROLE_IO)
		return hr_access_io_workers(access);
	return role == HR_ROLE_ACCESS ? access->compute_blocks : 0;
}

uint32_t hr_run_status_gpu(const struct hr_run *run, uint32_t i, uint32_t *number)
{
	uint32_t role = 0, one;

	while (i >= hr_run_role_statuses(run, role))
		i -= hr_run_role_statuses(run, role++);
	one = run->gpu[0].access ? gpu_statuses(run, role) : hr_run_role_statuses(run, role);
	*number = i % one;
	return i / one;
}

const struct hr_worker_status *hr_run_status(const struct hr_run *run, uint32_t i)
{
	const uint32_t io = hr_run_first_status(run, HR_ROLE_ACCESS);
	uint32_t member, number;

	if (!run->gpu[0].access)
		return &run->cpu.status[i];
	member = hr_run_status_gpu(run, i, &number);
	return &run->gpu[member].cpu.status[(i < io ? 0 : gpu_statuses(run, HR_ROLE_IO)) + number];
}

uint32_t hr_run_role_statuses(const struct hr_run *run, uint32_t role)
{
	if (run->gpu[0].access)
		return gpu_statuses(run, role) * hr_run_gpus(run);
	return role < HR_ROLES ? hr_pipe_role_statuses(run->pipe, role) : 0;
}

uint32_t hr_run_first_status(const struct hr_run *run, uint32_t role)
{
	uint32_t first = 0;

	for (uint32_t r = 0; r < role; r++)
		first += hr_run_role_statuses(run, r);
	return first;
}

uint32_t hr_run_statuses(const struct hr_run *run)
{
	return hr_run_first_status(run, HR_RUN_ROLES);
}

struct hr_pipe_control *hr_run_control(const struct hr_run *run, uint32_t member)
{
	return run->gpu[member].access ? run->gpu[member].cpu.control : run->cpu.control;
}

const struct hr_layout *hr_run_layout(const struct hr_run *run, uint32_t member)
{
	return run->config->objects ? &run->gpu[member].layout.parts : &run->layout.parts;
}

int hr_run_descriptor(const struct hr_run *run, uint32_t member)
{
	return run->config->objects ? run->gpu[member].layout.descriptor : run->layout.descriptor;
}

uint32_t hr_run_blocks(const struct hr_run *run)
{
	uint32_t blocks = 0;

	for (uint32_t role = 0; role < HR_RUN_ROLES; role++)
		blocks += run->blocks[role];
	return blocks;
}

int hr_run_writer_of(const struct hr_run *run, uint32_t i)
{
	return run->config->objects ? run->object[i].writer : run->source[i].writer;
}

uint32_t hr_run_tap_credits(const struct hr_run *run)
{
	const uint32_t most = run->slots > 2 ? run->slots - 2 : 1, limit = run->config->tap.credits;

	return limit && limit < most ? limit : most;
}

uint32_t hr_run_feed_credits(const struct hr_run *run)
{
	const uint32_t limit = run->config->feed.credits;

	return limit && limit < run->slots ? limit : run->slots;
}

struct hr_feed_words *hr_run_feed_words(const struct hr_run *run)
{
	return hr_partition_cpu(run->layout.parts.partition, run->layout.feed_words);
}

void hr_run_set_feed_end(struct hr_run *run)
{
	const struct hr_operator *op = run->config->op;
	const struct hr_feed_words *words;

	if (!run->cpu.feed)
		return;
	words = hr_run_feed_words(run);
	if (hr_acquire_sys_u64(&words->total) == HR_NO_TILE)
		return;
	run->tiles = hr_fresh_u64(&words->total);
	run->source[0].bytes = hr_fresh_u64(&words->total_bytes);
	if (hr_config_has_output(run->config))
		run->sink_bytes = (uint64_t)((unsigned __int128)run->source[0].bytes * op->out_num /
					     op->out_den);
}

uint64_t hr_run_pages_read(const struct hr_run *run)
{
	uint64_t pages = 0;

	for (uint32_t p = 0; run->gpu[0].access && p < hr_run_gpus(run); p++)
		for (uint32_t i = 0; i < hr_access_io_workers(&run->gpu[p].cpu); i++)
			pages += hr_acquire_sys_u64(&run->gpu[p].cpu.counters[i].reads);
	return pages;
}

/* ---- how far it has come */

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
