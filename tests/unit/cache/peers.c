/* SPDX-License-Identifier: Apache-2.0 */
/* cache/peers.h: messages and mailboxes bit by bit, the home of each row and its directory, and the
 * memory of a gpu. */
#include "cache/peers.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(peers, .timeout = 60);

static struct hr_page_cache cache_of(uint32_t rows, uint32_t group_shift, uint32_t io_workers)
{
	struct hr_page_cache cache = { 0 };

	cache.shape = (struct hr_page_shape){ .group_shift = group_shift, .rows = rows };
	hr_cache_set_io_workers(&cache, io_workers);
	return cache;
}

Test(peers, each_field_of_a_message_has_its_bits)
{
	static const struct {
		struct hr_peer_message m;
		uint64_t entry;
	} row[] = {
		{ { 0xffffffff, 0, HR_PEER_NOTHING, false, 0, 0 }, 0xffffffff },
		{ { 1, 6, HR_PEER_NOTHING, false, 0, 0 }, 0x600000001 },
		{ { 0, 0, HR_PEER_DROPPED, false, 0, 0 }, 0x5800000000 },
		{ { 0, 0, HR_PEER_NOTHING, true, 0, 0 }, 0x8000000000 },
		{ { 0, 0, HR_PEER_NOTHING, false, 7, 0 }, 0x70000000000 },
		{ { 0, 0, HR_PEER_NOTHING, false, 0, 6 }, 0x300000000000 },
		{ { 0x12345678, 5, HR_PEER_COPY, true, 3, 2 }, 0x13bd12345678 },
	};

	for (uint32_t i = 0; i < sizeof row / sizeof *row; i++) {
		const uint64_t lap = 0xabcdull << HR_PEER_LAP_SHIFT;
		struct hr_peer_message m;

		cr_expect_eq(hr_peer_pack(&row[i].m), row[i].entry, "row %u: %llx", i,
			     (unsigned long long)hr_peer_pack(&row[i].m));
		m = hr_peer_unpack(row[i].entry | lap);
		cr_expect(m.page == row[i].m.page && m.way == row[i].m.way &&
				  m.kind == row[i].m.kind && m.flag == row[i].m.flag &&
				  m.from_gpu == row[i].m.from_gpu &&
				  m.from_way == row[i].m.from_way,
			  "row %u", i);
	}
}

Test(peers, entries_and_laps_of_both_rings)
{
	static struct hr_mailbox box;

	cr_expect_eq(hr_peer_entry(&box, HR_TO_HOME, 0), &box.entry[0]);
	cr_expect_eq(hr_peer_entry(&box, HR_TO_HOME, 63), &box.entry[63]);
	cr_expect_eq(hr_peer_entry(&box, HR_TO_HOME, 64), &box.entry[0]);
	cr_expect_eq(hr_peer_entry(&box, HR_FROM_HOME, 0), &box.entry[64]);
	cr_expect_eq(hr_peer_entry(&box, HR_FROM_HOME, 127), &box.entry[191]);
	cr_expect_eq(hr_peer_entry(&box, HR_FROM_HOME, 129), &box.entry[65]);
	cr_expect_eq(HR_PEER_LAP(HR_TO_HOME, 63), 1);
	cr_expect_eq(HR_PEER_LAP(HR_TO_HOME, 64), 2);
	cr_expect_eq(HR_PEER_LAP(HR_FROM_HOME, 127), 1);
	cr_expect_eq(HR_PEER_LAP(HR_FROM_HOME, 128), 2);
	cr_expect_eq(HR_PEER_LAP(HR_TO_HOME, 64ull * 0xffff), 0);
}

/* Each set has entries of its own in the directory of its home, in the order of sets. */
Test(peers, each_set_of_a_home_has_its_entries)
{
	static const struct {
		uint32_t rows, group_shift, io, gpus;
	} row[] = { { 16, 2, 2, 3 }, { 7, 0, 3, 2 }, { 9, 3, 1, 8 }, { 5, 1, 4, 2 } };

	for (uint32_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_page_cache cache = cache_of(row[i].rows, row[i].group_shift, row[i].io);
		uint64_t next[8] = { 0 };

		for (uint32_t r = 0; r < row[i].rows; r++) {
			const uint32_t home = r / row[i].io % row[i].gpus;

			cr_expect_eq(hr_peers_home(&cache, row[i].gpus, r), home);
			for (uint32_t s = 0; s < 1u << row[i].group_shift; s++) {
				cr_expect_eq(hr_peers_directory(&cache, row[i].gpus,
								(r << row[i].group_shift) + s),
					     next[home], "row %u, set %u of %u", i, s, r);
				next[home] += (uint64_t)row[i].gpus * HR_WAYS;
			}
		}
	}
}

static uint64_t aligned(uint64_t bytes)
{
	return (bytes + 63) / 64 * 64;
}

Test(peers, the_memory_of_a_gpu_holds_all_parts_one_after_the_other)
{
	static const struct {
		uint32_t rows, group_shift, io, gpus;
		uint32_t home_rows, own_sets; /* at most: of a gpu, of a worker */
	} row[] = { { 16, 2, 2, 3, 6, 32 },
		    { 7, 0, 3, 2, 6, 3 },
		    { 9, 3, 1, 8, 2, 72 },
		    { 5, 1, 4, 2, 4, 4 },
		    { 12, 0, 2, 3, 4, 6 } };

	for (uint32_t i = 0; i < sizeof row / sizeof *row; i++) {
		const struct hr_page_cache cache =
			cache_of(row[i].rows, row[i].group_shift, row[i].io);
		const uint32_t sets = row[i].rows << row[i].group_shift;
		const uint64_t words = aligned(sizeof(struct hr_peer_words));
		const uint64_t from = aligned(row[i].gpus * row[i].io * sizeof(struct hr_mailbox));
		const uint64_t worker = aligned(row[i].io * sizeof(struct hr_peer_worker));
		const uint64_t entries =
			aligned(((uint64_t)row[i].home_rows << row[i].group_shift) * row[i].gpus *
				HR_WAYS * 8);
		const uint64_t states = aligned(sets * sizeof(struct hr_peer_set));
		const uint64_t list = aligned((uint64_t)row[i].io * row[i].own_sets * 4);
		struct hr_peer_memory memory[8];
		struct hr_peers peers;

		cr_expect_eq(hr_peers_own_sets(&cache.shape, row[i].io), row[i].own_sets);
		cr_expect_eq(hr_peers_bytes(&cache.shape, row[i].io, row[i].gpus),
			     words + from + worker + entries + states + list, "row %u", i);
		for (uint32_t g = 0; g < 8; g++)
			memory[g] = (struct hr_peer_memory){
				.peers = (uint8_t *)(uintptr_t)(0x1000000 * (g + 1)),
				.frame = (uint8_t *)(uintptr_t)(g + 1),
				.set = (struct hr_page_set *)(uintptr_t)(32 * (g + 1)),
				.flushed = (uint64_t *)(uintptr_t)(8 * (g + 1)),
				.states = (uint8_t *)(uintptr_t)(g + 100),
			};
		memset(&peers, 0xee, sizeof peers);
		hr_peers_wire(&peers, &cache.shape, row[i].io, 1, row[i].gpus, memory, 77);
		cr_expect(peers.self == 1 && peers.gpus == row[i].gpus && peers.timeout_ns == 77);
		for (uint32_t g = 0; g < HR_GPUS_MAX; g++) {
			const struct hr_peer *peer = &peers.gpu[g];
			const uintptr_t base = 0x1000000 * ((uintptr_t)g + 1);

			if (g >= row[i].gpus) {
				cr_expect(!peer->to && !peer->words && !peer->frame);
				continue;
			}
			cr_expect_eq((uintptr_t)peer->words, base);
			cr_expect_eq((uintptr_t)peer->to,
				     base + words + row[i].io * sizeof(struct hr_mailbox));
			cr_expect(peer->frame == memory[g].frame && peer->set == memory[g].set &&
				  peer->flushed == memory[g].flushed &&
				  peer->states == memory[g].states);
		}
		cr_expect_eq((uintptr_t)peers.words, 0x2000000);
		cr_expect_eq((uintptr_t)peers.from, 0x2000000 + words);
		cr_expect_eq((uintptr_t)peers.worker, 0x2000000 + words + from);
		cr_expect_eq((uintptr_t)peers.directory, 0x2000000 + words + from + worker);
		cr_expect_eq((uintptr_t)peers.set, 0x2000000 + words + from + worker + entries);
		cr_expect_eq((uintptr_t)peers.pending,
			     0x2000000 + words + from + worker + entries + states);
	}
}
