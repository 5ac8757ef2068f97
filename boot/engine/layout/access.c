/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/layout/access.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "boot/engine/layout/sizes.h"
#include "cache/page_policy.h"
#include "cache/peers.h"

#define ROWS(row) (row), sizeof(row) / sizeof *(row)
#define AT(member) .pointer = offsetof(struct hr_access, member)

static uint64_t commands(const struct hr_access *a)
{
	return (uint64_t)hr_access_io_workers(a) * a->commands;
}

static uint64_t command_bytes(const struct hr_access *a)
{
	return (uint64_t)a->merge_pages << a->cache.shape.page_shift;
}

uint64_t hr_access_staging_bytes(const struct hr_access *a)
{
	return commands(a) * command_bytes(a);
}

/* Gpu 0 has room for the states of all gpus, for finish(). */
static uint64_t states(const struct hr_access_layout *l)
{
	const uint64_t gpus = l->gpus > 1 && l->self == 0 ? l->gpus : 1;

	return gpus * hr_access_computers(l->access);
}

static int plan_work(struct hr_access_layout *l)
{
	const struct hr_access *a = l->access;
	const struct hr_layout_row row[] = {
		{ "pipeline descriptor", HR_PLACE_WORKER, 1, sizeof *a, .part = &l->descriptor },
		{ "stop flag", HR_PLACE_CONTROL, 1, sizeof *a->control, AT(control) },
		{ "status of workers", HR_PLACE_CONTROL, hr_access_statuses(a), sizeof *a->status,
		  AT(status) },
		{ "counters of I/O workers", HR_PLACE_CONTROL, hr_access_io_workers(a),
		  sizeof *a->counters, AT(counters) },
		{ "operator arguments", HR_PLACE_WORKER, l->args_bytes, 1, AT(op_args) },
		{ "operator result", HR_PLACE_WORKER, HR_OP_RESULT_MAX, 1, AT(op_result) },
		{ "operator states", HR_PLACE_GPU, states(l), a->state_bytes, AT(op_states),
		  .part = &l->states },
		{ "memory of the operator", HR_PLACE_GPU, a->scratch_bytes, 1, AT(scratch),
		  .align = HR_PAGE },
	};

	return hr_layout_add(&l->parts, ROWS(row));
}

static int plan_cache(struct hr_access_layout *l)
{
	const struct hr_access *a = l->access;
	const struct hr_page_cache *c = &a->cache;
	const uint32_t page = 1u << c->shape.page_shift;
	const uint64_t frames = hr_page_frames(&c->shape);
	char purpose[HR_NAME_MAX];
	const struct hr_layout_row row[] = {
		{ "page table", HR_PLACE_WORKER, hr_page_sets(&c->shape), sizeof *c->set,
		  AT(cache.set), .part = &l->sets },
		{ purpose, l->frames_in, frames, page, AT(cache.frame), .align = page, .data = true,
		  .part = &l->frames },
		{ "request rings", HR_PLACE_WORKER, c->io_workers, sizeof *c->ring,
		  AT(cache.ring) },
		{ "words of each worker", HR_PLACE_WORKER, c->computers + c->io_workers,
		  sizeof *c->worker, AT(cache.worker) },
		{ "words of all workers", HR_PLACE_WORKER, 1, sizeof *c->words, AT(cache.words) },
		{ "numbers of flushes", HR_PLACE_WORKER, c->io_workers, sizeof *c->flushed,
		  AT(cache.flushed), .part = &l->flushed },
	};

	snprintf(purpose, sizeof purpose, "%llu frames of %u KiB", (unsigned long long)frames,
		 page >> 10);
	return hr_layout_add(&l->parts, ROWS(row));
}

/* What the caches of several gpus share. */
static int plan_peers(struct hr_access_layout *l)
{
	const struct hr_page_cache *c = &l->access->cache;
	const struct hr_layout_row row[] = {
		{ "addresses of other gpus", HR_PLACE_WORKER, 1, sizeof *c->peers,
		  AT(cache.peers) },
		{ "directory and mailboxes", HR_PLACE_WORKER, 1,
		  hr_peers_bytes(&c->shape, c->io_workers, l->gpus), .align = HR_PEERS_ALIGN,
		  .part = &l->peers },
	};

	return hr_layout_add(&l->parts, ROWS(row));
}

static int plan_queues(struct hr_access_layout *l)
{
	const struct hr_access *a = l->access;
	const uint32_t workers = hr_access_io_workers(a);
	const uint64_t entries = command_bytes(a) / HR_PAGE;
	uint64_t tables = 0;
	int err = 0;

	for (uint32_t q = 0; !err && q < a->ssds; q++) {
		err = hr_pipe_queues_plan(&l->parts, &l->queue[q], "", workers);
		tables += hr_layout_table_bytes(l->queue[q].ssd->queue_entries);
	}
	const struct hr_layout_row row[] = {
		{ "commands in flight", HR_PLACE_WORKER, workers, tables, .part = &l->tables },
		{ "queue pairs", HR_PLACE_WORKER, workers, a->ssds * sizeof *a->qp, AT(qp) },
		{ "commands of I/O workers", HR_PLACE_WORKER, commands(a), sizeof *a->command,
		  AT(command) },
		{ "PRP lists", HR_PLACE_HOST, commands(a), entries * sizeof *a->prp_list,
		  AT(prp_list), .align = HR_PAGE, .part = &l->prp_lists },
		{ "staging buffers", HR_PLACE_HOST, l->stages ? commands(a) : 0, command_bytes(a),
		  AT(staging), .align = HR_PAGE, .data = true, .part = &l->staging },
	};

	return err ? err : hr_layout_add(&l->parts, ROWS(row));
}

int hr_access_layout_plan(struct hr_access_layout *l, struct hr_partition *partition,
			  const char *owner)
{
	int err;

	hr_layout_begin(&l->parts, partition, owner);
	err = plan_work(l);
	if (!err)
		err = plan_cache(l);
	if (!err && l->gpus > 1)
		err = plan_peers(l);
	return err ? err : plan_queues(l);
}

/* ---- bus addresses: I/O workers compute them from the first one */

static int check_part(const struct hr_access_layout *l, int part, struct hr_error *e)
{
	const struct hr_partition *p = l->parts.partition;
	const struct hr_part *at = part < 0 ? NULL : &p->part[part];

	if (!at || hr_region_contiguous(&p->region[at->place], at->offset, at->bytes))
		return 0;
	return hr_fail(e, HR_ERROR_MISSING, -ENOTSUP,
		       "%s: %s, %llu bytes in %s memory, are not contiguous on the bus, and I/O "
		       "blocks need that; use vfio: for the ssds, or a smaller cache",
		       at->owner, at->purpose, (unsigned long long)at->bytes,
		       hr_place_name(at->place));
}

static uint64_t bus_of(const struct hr_access_layout *l, int part)
{
	const struct hr_partition *p = l->parts.partition;

	return part < 0 ? 0 : hr_partition_ssd(p, p->part[part].place, p->part[part].offset);
}

static size_t part_offset(const struct hr_access_layout *l, int part)
{
	return part < 0 ? 0 : l->parts.partition->part[part].offset;
}

int hr_access_layout_check(const struct hr_access_layout *l, struct hr_error *e)
{
	int err = check_part(l, l->prp_lists, e);

	if (!err)
		err = check_part(l, l->staging, e);
	if (!err && !l->stages && l->frames_in == HR_PLACE_HOST)
		err = check_part(l, l->frames, e);
	for (uint32_t q = 0; q < l->access->ssds; q++) {
		const struct hr_pipe_queues *queues = &l->queue[q];
		const uint32_t bytes = hr_layout_ring_bytes(queues->ssd->queue_entries);

		for (uint32_t w = 0; !err && w < hr_access_io_workers(l->access); w++)
			err = hr_ssd_check_rings(
				queues->ssd, &l->parts.partition->region[queues->place],
				part_offset(l, queues->rings) + (size_t)w * bytes, e);
	}
	return err;
}

/* ---- contents */

static void wire_descriptor(const struct hr_access_layout *l, struct hr_access *descriptor)
{
	struct hr_access *a = l->access;

	a->prp_list_bus = bus_of(l, l->prp_lists);
	a->staging_bus = bus_of(l, l->staging);
	a->frame_bus = l->stages ? 0 : bus_of(l, l->frames);
	hr_layout_point_cpu(&l->parts, a);
	*descriptor = *a;
	hr_layout_point_workers(&l->parts, descriptor);
	if (l->args_bytes)
		memcpy(a->op_args, l->args, l->args_bytes);
}

/* An empty table, and the epoch that every worker has seen before it starts. */
static void wire_cache(const struct hr_page_cache *c)
{
	const uint32_t recency = hr_policy_init((enum hr_page_policy)c->policy);

	for (uint32_t i = 0; i < hr_page_sets(&c->shape); i++)
		c->set[i].recency = recency;
	for (uint32_t w = 0; w < c->computers + c->io_workers; w++)
		c->worker[w].seen = HR_EPOCH_FIRST;
	c->words->epoch = c->words->settled = HR_EPOCH_FIRST;
}

static int create_queues(const struct hr_access_layout *l, struct hr_error *e)
{
	const struct hr_access *a = l->access;
	const struct hr_partition *p = l->parts.partition;
	struct hr_nvme_qp *qp = a->qp;
	size_t table_at = part_offset(l, l->tables);
	int err = 0;

	for (uint32_t w = 0; w < hr_access_io_workers(a); w++)
		for (uint32_t q = 0; !err && q < a->ssds; q++) {
			const struct hr_pipe_queues *queues = &l->queue[q];
			const uint32_t entries = queues->ssd->queue_entries;
			const struct hr_ssd_qp_memory memory = {
				.rings = &p->region[queues->place],
				.ring_at = part_offset(l, queues->rings) +
					   (size_t)w * hr_layout_ring_bytes(entries),
				.tables = &p->region[HR_PLACE_WORKER],
				.table_at = table_at,
				.bar = queues->bar,
				.owner = &l->parts,
			};

			table_at += hr_layout_table_bytes(entries);
			err = hr_ssd_create_qp(queues->ssd, qp++, &memory, e);
		}
	return err;
}

int hr_access_layout_wire(struct hr_access_layout *l, struct hr_access **descriptor,
			  struct hr_error *e)
{
	const int err = l->stages ? 0 : check_part(l, l->frames, e);

	if (err)
		return err;
	*descriptor = hr_partition_cpu(l->parts.partition, l->descriptor);
	wire_descriptor(l, *descriptor);
	wire_cache(&l->access->cache);
	return create_queues(l, e);
}

static void *worker_part(const struct hr_access_layout *l, int part)
{
	return part < 0 ? NULL : hr_partition_worker(l->parts.partition, part);
}

void hr_access_layout_join(struct hr_access_layout *const layout[HR_GPUS_MAX])
{
	const uint32_t gpus = layout[0]->gpus;
	struct hr_peer_memory memory[HR_GPUS_MAX];

	for (uint32_t g = 0; g < gpus; g++)
		memory[g] = (struct hr_peer_memory){
			.peers = worker_part(layout[g], layout[g]->peers),
			.frame = worker_part(layout[g], layout[g]->frames),
			.set = worker_part(layout[g], layout[g]->sets),
			.flushed = worker_part(layout[g], layout[g]->flushed),
			.states = worker_part(layout[g], layout[g]->states),
		};
	for (uint32_t g = 0; g < gpus; g++) {
		const struct hr_page_cache *c = &layout[g]->access->cache;

		hr_peers_wire(c->peers, &c->shape, c->io_workers, g, gpus, memory, c->timeout_ns);
	}
}
