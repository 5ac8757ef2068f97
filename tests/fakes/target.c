/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/target.h"

#include <nvme/types.h>
#include <stdlib.h>
#include <string.h>

#define TARGET_TIMEOUT_NS 1000000000ull
#define BUS_BASE (1ull << 36)

/* bytes is a multiple of 8. */
static void fill(void *data, uint64_t bytes, uint64_t seed)
{
	uint64_t *word = data;
	struct fake_random random = { seed };

	for (uint64_t i = 0; i < bytes / 8; i++)
		word[i] = fake_random_u64(&random);
}

void target_init(struct target *t, uint32_t entries, uint32_t pages, uint64_t disk_bytes,
		 uint32_t lba_shift, uint32_t max_bytes)
{
	memset(t, 0, sizeof(*t));
	t->region = (struct hr_region){ .name = "target",
					.cpu = aligned_alloc(HR_PAGE, (size_t)pages * HR_PAGE),
					.bytes = (size_t)pages * HR_PAGE,
					.granule_bus = malloc(pages * sizeof(struct hr_bus)),
					.granule_shift = 12 };
	t->disk = malloc(disk_bytes);
	if (!t->region.cpu || !t->region.granule_bus || !t->disk)
		abort();
	t->region.worker = t->region.cpu;
	t->disk_bytes = disk_bytes;
	t->lba_shift = lba_shift;
	t->max_bytes = max_bytes;
	t->order.state = 3;
	/*
	 * Page numbers with reversed bits, so that no adjacent pages of the region are adjacent on
	 * the bus.
	 */
	for (uint32_t i = 0; i < pages; i++)
		t->region.granule_bus[i].addr = BUS_BASE + (uint64_t)(pages - i) * 2 * HR_PAGE;
	fill(t->region.cpu, t->region.bytes, 1);
	fill(t->disk, disk_bytes, 2);
	peer_init(&t->peer, &t->qp, entries, TARGET_TIMEOUT_NS);
}

void target_fini(struct target *t)
{
	peer_fini(&t->peer);
	free(t->region.cpu);
	free(t->region.granule_bus);
	free(t->disk);
}

/*
 * `bytes` of memory at a bus address within one page; NULL: no memory there, or across the page's
 * end.
 */
static uint8_t *memory_at(const struct target *t, uint64_t bus, uint64_t bytes)
{
	const uint64_t page = bus / HR_PAGE * HR_PAGE, offset = bus - page;

	if (offset + bytes > HR_PAGE)
		return NULL;
	for (size_t i = 0; i < t->region.bytes / HR_PAGE; i++)
		if (t->region.granule_bus[i].addr == page)
			return (uint8_t *)t->region.cpu + i * HR_PAGE + offset;
	return NULL;
}

/* Position in the PRPs of a command: NVMe Base 2.0, 4.1.1. */
struct walk {
	const struct target *t;
	uint64_t list; /* bus address of the next entry */
	uint64_t left; /* bytes not yet moved, including this page */
};

/*
 * The next entry of the list; the last entry of a list page points to the next list while more than
 * a page is left.
 */
static uint64_t next_entry(struct walk *w)
{
	const uint8_t *at = memory_at(w->t, w->list, 8);
	uint64_t entry;

	if (!at || w->list % 8)
		return 0;
	memcpy(&entry, at, 8);
	w->list += 8;
	if (w->list % HR_PAGE == 0 && w->left > HR_PAGE) {
		w->list = entry;
		return next_entry(w);
	}
	return entry;
}

static uint16_t transfer(struct target *t, const struct hr_sqe *sqe, uint8_t *disk, uint64_t bytes)
{
	struct walk w = { t, sqe->prp2, bytes };
	uint64_t prp = sqe->prp1;

	while (w.left) {
		const uint64_t now = w.left < HR_PAGE ? w.left : HR_PAGE;
		uint8_t *memory = memory_at(t, prp, now);

		if (!memory)
			return NVME_SC_DATA_XFER_ERROR;
		if (sqe->opcode == nvme_cmd_read)
			memcpy(memory, disk, now);
		else
			memcpy(disk, memory, now);
		disk += now;
		if (w.left == bytes && bytes <= 2 * HR_PAGE)
			prp = sqe->prp2;
		w.left -= now;
		if (w.left && bytes > 2 * HR_PAGE)
			prp = next_entry(&w);
	}
	return 0;
}

static uint16_t execute(struct target *t, const struct hr_sqe *sqe)
{
	const uint64_t lba = sqe->cdw10 | (uint64_t)sqe->cdw11 << 32;
	const uint64_t bytes = ((uint64_t)(sqe->cdw12 & 0xffff) + 1) << t->lba_shift;

	if (sqe->nsid != TARGET_NSID)
		return NVME_SC_INVALID_NS;
	if (sqe->opcode == nvme_cmd_flush) {
		t->flushes++;
		return 0;
	}
	if (sqe->opcode != nvme_cmd_read && sqe->opcode != nvme_cmd_write)
		return NVME_SC_INVALID_OPCODE;
	if (bytes > t->max_bytes)
		return NVME_SC_INVALID_FIELD;
	if (lba > t->disk_bytes >> t->lba_shift || bytes > t->disk_bytes - (lba << t->lba_shift))
		return NVME_SC_LBA_RANGE;
	return transfer(t, sqe, t->disk + (lba << t->lba_shift), bytes);
}

static void complete(struct target *t, uint32_t i)
{
	uint16_t status;

	t->last = t->peer.pending[i];
	t->commands++;
	if (t->lose) {
		t->lose--;
		t->peer.pending[i] = t->peer.pending[--t->peer.fetched];
		return;
	}
	status = execute(t, &t->peer.pending[i]);
	if (t->failures) {
		t->failures--;
		status = t->status;
	}
	peer_complete(&t->peer, i, status);
}

void target_step(struct target *t)
{
	while (peer_fetch(&t->peer) && peer_can_post(&t->peer))
		complete(t, fake_random_below(&t->order, t->peer.fetched));
}
