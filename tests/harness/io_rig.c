#include "tests/harness/io_rig.h"

#include <criterion/criterion.h>
#include <string.h>

#include "cache/page_policy.h"
#include "gpu/worker/io_peers.h"

struct io_rig io_rig;

/* ---- set-up */

static uint32_t or (uint32_t value, uint32_t otherwise)
{
	return value ? value : otherwise;
}

static void objects_up(struct hr_access *access)
{
	struct hr_page_cache *cache = &access->cache;
	const uint32_t shift = cache->shape.page_shift;

	cache->objects = 2;
	cache->object[0] = (struct hr_object){ .bytes = (99ull << shift) + 100, .pages = 100 };
	cache->extent[0] = (struct hr_extent){ .id = 70,
					       .lba = 1000,
					       .bytes = (99ull << shift) + 100,
					       .capacity = (99ull << shift) + 512,
					       .nsid = 7,
					       .lba_shift = 9,
					       .ssd = 1 };
	cache->object[1] = (struct hr_object){
		.bytes = 64ull << shift, .first_page = 128, .pages = 64, .index = 1
	};
	cache->extent[1] = (struct hr_extent){ .id = 71,
					       .lba = 5000,
					       .bytes = 64ull << shift,
					       .capacity = 64ull << shift,
					       .nsid = 8,
					       .lba_shift = 12 };
	access->queue_of[0] = 1;
	access->flush[0] = access->flush[1] = 1;
}

static void peers_up(const struct io_rig_shape *shape)
{
	struct hr_page_cache *cache = &RIG->access.cache;
	struct hr_peer_memory memory[IO_RIG_GPUS];

	cr_assert_leq(hr_peers_bytes(&cache->shape, cache->io_workers, shape->gpus),
		      sizeof RIG->m.peers[0]);
	for (uint32_t g = 0; g < shape->gpus; g++)
		memory[g] = (struct hr_peer_memory){ .peers = RIG->m.peers[g],
						     .frame = RIG->m.frame[g] };
	hr_peers_wire(&RIG->peers, &cache->shape, cache->io_workers, shape->self, shape->gpus,
		      memory, IO_RIG_TIMEOUT);
	cache->peers = &RIG->peers;
}

static void cache_up(const struct io_rig_shape *shape)
{
	struct hr_page_cache *cache = &RIG->access.cache;
	const uint32_t group = shape->flat ? 0 : or (shape->group_shift, 3);
	struct io_rig_memory *m = &RIG->m;

	cache->shape = (struct hr_page_shape){
		.page_shift = or (shape->page_shift, 12),
		.group_shift = group,
		.rows = (IO_RIG_SETS >> (or (shape->page_shift, 12) - 12)) >> group,
		.group_bits = 8 - group,
		.tag_mask = hr_page_bit_mask(HR_TAG_BITS_MAX),
	};
	cache->policy = shape->policy;
	cache->computers = or (shape->computers, 4);
	hr_cache_set_io_workers(cache, or (shape->io_workers, 2));
	cache->timeout_ns = IO_RIG_TIMEOUT;
	cache->set = m->set;
	cache->frame = m->frame[shape->self];
	cache->ring = m->ring;
	cache->worker = m->worker;
	cache->flushed = m->flushed;
	cache->words = &m->words;
	for (uint32_t i = 0; i < IO_RIG_SETS; i++)
		m->set[i].recency = hr_policy_init((enum hr_page_policy)shape->policy);
	for (uint32_t i = 0; i < cache->computers + cache->io_workers; i++)
		m->worker[i].seen = IO_RIG_EPOCH;
	m->words.epoch = m->words.settled = IO_RIG_EPOCH;
}

static void worker_up(uint32_t index)
{
	struct hr_io_worker *w = W;

	hr_role_worker_start(&w->role, &RIG->m.status[index], HR_ROLE_IO, index,
			     RIG->access.cache.io_workers);
	w->access = &RIG->access;
	w->block = &RIG->m.block;
	w->command = RIG->m.command[index];
	w->qp = &RIG->m.qp[2 * index];
	w->seen = w->settled = w->published = IO_RIG_EPOCH;
	w->urgent = HR_IO_NONE;
	w->reserve = 1;
	w->row = index;
	w->unused = RIG->access.commands;
	for (uint32_t i = 0; i < w->unused; i++)
		w->block->unused[i] = (uint8_t)i;
	for (uint32_t q = 0; q < 2; q++) {
		peer_init(&RIG->peer[q], &w->qp[q], IO_RIG_ENTRIES, IO_RIG_TIMEOUT);
		w->qp[q].id = (uint16_t)(11 + q);
	}
	if (RIG->access.cache.peers)
		hr_io_peers_start(w);
}

void io_rig_up(const struct io_rig_shape *shape)
{
	struct hr_access *access = &RIG->access;
	const uint32_t index = shape->first ? 0 : or (shape->index, 1);

	memset(RIG, 0, sizeof *RIG);
	fake_clock_start(IO_RIG_NOW, NULL, NULL);
	cache_up(shape);
	objects_up(access);
	if (shape->gpus > 1)
		peers_up(shape);
	access->io_blocks = access->cache.io_workers;
	access->compute_blocks = access->cache.computers;
	access->warps = 1;
	access->ssds = 2;
	access->merge_pages = or (shape->merge, 8);
	access->commands = or (shape->commands, IO_RIG_COMMANDS);
	access->qp = RIG->m.qp;
	access->command = RIG->m.command[0];
	access->counters = RIG->m.counters;
	access->staging = shape->staging ? RIG->m.staging : NULL;
	access->staging_bus = IO_RIG_STAGING_BUS;
	access->frame_bus = IO_RIG_FRAME_BUS;
	access->prp_list = RIG->m.prp_list;
	access->prp_list_bus = IO_RIG_LIST_BUS;
	access->control = &RIG->m.control;
	access->status = RIG->m.status;
	worker_up(index);
}

void io_rig_down(void)
{
	for (uint32_t q = 0; q < 2; q++)
		peer_fini(&RIG->peer[q]);
	fake_clock_stop();
}

/* ---- what the test does */

uint32_t io_rig_set(uint32_t page)
{
	return hr_page_position_of(&RIG->access.cache.shape, page).set;
}

uint32_t io_rig_page(uint32_t set, uint32_t n)
{
	const struct hr_page_cache *cache = &RIG->access.cache;
	uint32_t page = 0;

	for (; page < 256; page++)
		if (io_rig_set(page) == set && hr_io_object(cache, page) < cache->objects &&
		    n-- == 0)
			return page;
	cr_assert_fail("set %u has fewer pages", set);
	return HR_NO_PAGE;
}

void io_rig_put(uint32_t page, uint32_t way, uint32_t state)
{
	const struct hr_page_cache *cache = &RIG->access.cache;
	const struct hr_page_position position = hr_page_position_of(&cache->shape, page);

	RIG->m.set[position.set].tag[way] = HR_PAGE_WORD(position.tag, state);
	memset(hr_cache_frame(cache, position.set, way), (int)(page & 0xff),
	       1u << cache->shape.page_shift);
}

void io_rig_leave(uint32_t set, uint32_t way, uint32_t epoch)
{
	RIG->m.set[set].tag[way] = HR_PAGE_WORD(epoch, HR_PAGE_LEFT);
}

void io_rig_request(uint32_t page, uint64_t flags)
{
	struct hr_request_ring *ring = &RIG->m.ring[W->role.index];
	const uint64_t ticket = ring->tail++;

	ring->entry[ticket % HR_REQUESTS] = hr_request_entry(ticket, page) | flags;
}

void io_rig_complete(uint32_t queue, uint32_t token, uint16_t status)
{
	struct hr_nvme_qp *qp = &W->qp[queue];
	struct peer *peer = &RIG->peer[queue];

	hr_qp_ring(qp);
	peer_fetch(peer);
	for (uint32_t i = 0; i < peer->fetched; i++)
		if (qp->inflight[peer->pending[i].cid & qp->index_mask].token == token) {
			peer_complete(peer, i, status);
			return;
		}
	cr_assert_fail("queue %u has no command with token %u", queue, token);
}

void io_rig_send(uint32_t gpu, struct hr_peer_message m)
{
	static uint64_t *sent;
	struct hr_mailbox *box =
		&RIG->peers.from[gpu * RIG->access.cache.io_workers + W->role.index];
	const uint32_t ring = m.kind <= HR_PEER_DROP ? HR_TO_HOME : HR_FROM_HOME;
	uint64_t ticket = 0;

	/* the next entry of the ring without a message of its lap */
	for (sent = hr_peer_entry(box, ring, 0);
	     sent[ticket % HR_PEER_RING(ring)] >> HR_PEER_LAP_SHIFT == HR_PEER_LAP(ring, ticket);
	     ticket++)
		;
	sent[ticket % HR_PEER_RING(ring)] = hr_peer_pack(&m) | HR_PEER_LAP(ring, ticket)
								       << HR_PEER_LAP_SHIFT;
}

void io_rig_taken(uint32_t gpu, uint32_t ring, uint64_t taken)
{
	RIG->peers.from[gpu * RIG->access.cache.io_workers + W->role.index].taken[ring] = taken;
}
