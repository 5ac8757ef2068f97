/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/peers.h"

#include <string.h>

/* Offsets of the parts in the memory of a gpu. */
struct parts {
	uint64_t words, from, worker, directory, set, pending, bytes;
};

static uint64_t part(uint64_t *at, uint64_t bytes)
{
	const uint64_t start = *at;

	*at = (start + bytes + HR_PEERS_ALIGN - 1) & ~(uint64_t)(HR_PEERS_ALIGN - 1);
	return start;
}

static struct parts parts_of(const struct hr_page_shape *shape, uint32_t io_workers, uint32_t gpus)
{
	const uint64_t homes = (uint64_t)io_workers * gpus;
	const uint64_t home_rows = (shape->rows + homes - 1) / homes * io_workers;
	const uint64_t entries = (home_rows << shape->group_shift) * gpus * HR_WAYS;
	struct parts p = { 0 };
	uint64_t at = 0;

	p.words = part(&at, sizeof(struct hr_peer_words));
	p.from = part(&at, homes * sizeof(struct hr_mailbox));
	p.worker = part(&at, io_workers * sizeof(struct hr_peer_worker));
	p.directory = part(&at, entries * sizeof(uint64_t));
	p.set = part(&at, hr_page_sets(shape) * sizeof(struct hr_peer_set));
	p.pending = part(&at, io_workers * hr_peers_own_sets(shape, io_workers) * sizeof(uint32_t));
	p.bytes = at;
	return p;
}

uint64_t hr_peers_bytes(const struct hr_page_shape *shape, uint32_t io_workers, uint32_t gpus)
{
	return parts_of(shape, io_workers, gpus).bytes;
}

void hr_peers_wire(struct hr_peers *peers, const struct hr_page_shape *shape, uint32_t io_workers,
		   uint32_t self, uint32_t gpus, const struct hr_peer_memory *memory,
		   uint64_t timeout_ns)
{
	const struct parts p = parts_of(shape, io_workers, gpus);
	uint8_t *own = memory[self].peers;

	memset(peers, 0, sizeof *peers);
	peers->self = self;
	peers->gpus = gpus;
	peers->timeout_ns = timeout_ns;
	for (uint32_t g = 0; g < gpus; g++) {
		struct hr_peer *peer = &peers->gpu[g];
		uint8_t *from = memory[g].peers + p.from;

		peer->frame = memory[g].frame;
		peer->set = memory[g].set;
		peer->to = (struct hr_mailbox *)(void *)from + (uint64_t)self * io_workers;
		peer->words = (struct hr_peer_words *)(void *)(memory[g].peers + p.words);
		peer->flushed = memory[g].flushed;
		peer->states = memory[g].states;
	}
	peers->from = (struct hr_mailbox *)(void *)(own + p.from);
	peers->directory = (uint64_t *)(void *)(own + p.directory);
	peers->set = (struct hr_peer_set *)(void *)(own + p.set);
	peers->worker = (struct hr_peer_worker *)(void *)(own + p.worker);
	peers->pending = (uint32_t *)(void *)(own + p.pending);
	peers->words = (struct hr_peer_words *)(void *)(own + p.words);
}
