/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Write-back of I/O workers: the bytes on the disk equal the model, after the run and after each
 * flush; readers go on beside dirty pages; merged writes.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "cache/objects/objects.h"
#include "cache/page_policy.h"
#include "config/base/clock.h"
#include "config/base/log.h"
#include "nvme/soft/soft.h"
#include "tests/harness/access_rig.h"
#include "tests/harness/random.h"
#include "tests/harness/threads.h"

#define TIMEOUT_NS (20 * HR_NS_PER_S)
#define STEPS 12u

/* The software controller reads frames while workers write to them, as hardware does. The thread
 * sanitizer reports this, so its builds use staging memory. */
#ifdef __SANITIZE_THREAD__
#define DIRECT 0u
#else
#define DIRECT 1u
#endif

TestSuite(io_writes, .timeout = 120);

static struct access_rig rig;

static void up(uint32_t ssds, const char *options)
{
	access_memory = 24u << 20;
	access_up(&rig, ssds, options, NULL, 64, TIMEOUT_NS);
}

static void run(const struct access_work *work, void (*op)(struct hr_objects *objects))
{
	const struct hr_failure *failure;
	char text[HR_LOG_LINE_MAX];

	rig.op.run = op;
	access_start(&rig, work);
	access_wait(&rig);
	failure = access_failure(&rig);
	if (failure)
		cr_assert_fail("%s, page %llu", hr_error_name(failure->error, text, sizeof text),
			       (unsigned long long)failure->tile);
}

/* ---- pages that are written as a whole */

/* All of object 0, by pieces of `piece` bytes from `first` on; each worker every so many. */
static uint64_t piece_bytes, piece_first;

static void write_pieces(struct hr_objects *objects)
{
	const struct hr_object *o = hr_get_object_map(objects, 0);
	uint8_t *data = malloc(piece_bytes);
	uint64_t at = piece_first + objects->worker * piece_bytes;

	for (; at < o->bytes; at += objects->workers * piece_bytes) {
		const uint64_t bytes = o->bytes - at < piece_bytes ? o->bytes - at : piece_bytes;

		for (uint64_t k = 0; k < bytes; k++)
			data[k] = rig.model[0][at + k] = (uint8_t)(rig.model[0][at + k] * 7 + 3);
		cr_assert_eq(hr_pwrite(objects, o, at, data, bytes), (int64_t)bytes);
	}
	free(data);
}

static struct hr_io_counters write_object(uint64_t piece, uint64_t first, uint32_t frames,
					  uint32_t warps)
{
	const struct access_work work = { .objects = 1,
					  .bytes = { 200 * 4096 },
					  .writable = 1,
					  .frames = frames,
					  .io = 2,
					  .compute = 3,
					  .warps = warps,
					  .staging = !DIRECT };
	struct hr_io_counters c;

	piece_bytes = piece;
	piece_first = first;
	run(&work, write_pieces);
	access_check_disk(&rig, 0);
	c = access_counters(&rig);
	cr_expect_eq(c.requests, c.reads + c.whole + c.merges);
	return c;
}

Test(io_writes, pages_that_are_written_as_a_whole_are_not_read)
{
	static const uint32_t frames[] = { 7, 28, 2000 };
	struct hr_io_counters c;

	up(1, "lba=512");
	for (uint32_t i = 0; i < 3; i += THREAD_STEP(2u)) {
		c = write_object(4096, 0, frames[i], 1);
		cr_expect_eq(c.reads, 0, "%u frames: %llu", frames[i], (unsigned long long)c.reads);
		cr_expect_geq(c.whole, 200);
		c = write_object(20 * 4096, 0, frames[i], 1);
		cr_expect_eq(c.reads, 0, "%u frames: %llu", frames[i], (unsigned long long)c.reads);
		cr_expect_geq(c.write_backs, 200);
	}
	access_down(&rig);
}

Test(io_writes, only_the_ends_of_a_write_are_read)
{
	struct hr_io_counters c;

	up(1, "lba=512");
	c = write_object(100 * 4096, 100, 2000, 1);
	cr_expect(c.reads >= 2 && c.reads <= 4, "%llu", (unsigned long long)c.reads);
	cr_expect_geq(c.whole, 190);
	access_down(&rig);
}

#define TRIES 60u

/* Versions of whole pages: each 4-byte word of page p is p + 1 in its upper half and the version in its
 * lower half, or as at the start. cache/objects/objects.h promises no more than whole 4-byte words. */
static void write_and_read_versions(struct hr_objects *objects)
{
	const struct hr_object *o = hr_get_object_map(objects, 0);
	struct fake_random random = { rig.seed + 77 + objects->worker };
	uint32_t page[1024];

	for (uint32_t i = 1; i <= TRIES; i++) {
		const uint64_t p = fake_random_below(&random, o->pages);
		const uint32_t *first = (const uint32_t *)(const void *)(rig.model[0] + p * 4096);

		if ((fake_random_u64(&random) >> 40) % 2) {
			for (uint32_t k = 0; k < 1024; k++)
				page[k] = (uint32_t)(p + 1) << 16 | i;
			cr_assert_eq(hr_pwrite(objects, o, p * 4096, page, 4096), 4096);
			continue;
		}
		cr_assert_eq(hr_pread(objects, o, p * 4096, page, 4096), 4096);
		for (uint32_t k = 0; k < 1024; k++)
			if (page[k] != first[k] && (page[k] >> 16 != p + 1 || !(uint16_t)page[k] ||
						    (uint16_t)page[k] > TRIES))
				cr_assert_fail("page %llu, word %u: %x", (unsigned long long)p, k,
					       page[k]);
	}
}

Test(io_writes, readers_see_the_old_page_or_one_that_a_worker_wrote)
{
	up(1, "lba=512");
	for (uint32_t policy = 0; policy < HR_POLICIES; policy++) {
		const struct access_work work = { .objects = 1,
						  .bytes = { 12 * 4096 },
						  .writable = 1,
						  .frames = 7,
						  .policy = policy,
						  .compute = 4,
						  .staging = !DIRECT };

		run(&work, write_and_read_versions);
	}
	access_down(&rig);
}

/* A page is requested to be written as a whole, but no worker writes it; then it is read. */
static void offer_then_read(struct hr_objects *objects)
{
	const struct hr_object *o = hr_get_object_map(objects, 0);
	uint32_t spins = 0;
	uint8_t data[4096];

	(void)hr_cache_request(objects, hr_cache_awaited(objects->cache, 3).ring, 3, true,
			       HR_REQUEST_WHOLE, false);
	while (hr_cache_word(objects->cache, 3) == HR_PAGE_FREE)
		hr_idle(&spins);
	cr_assert_eq(HR_PAGE_KIND(hr_cache_word(objects->cache, 3)), HR_PAGE_OFFERED);
	cr_assert_eq(hr_pread(objects, o, 3 * 4096, data, 4096), 4096);
	cr_assert(memcmp(data, rig.model[0] + 3 * 4096, 4096) == 0);
}

Test(io_writes, a_page_that_no_worker_fills_is_read)
{
	const struct access_work work = {
		.objects = 1, .bytes = { 64 * 4096 }, .writable = 1, .staging = !DIRECT
	};

	up(1, "lba=512");
	run(&work, offer_then_read);
	access_check_disk(&rig, 0);
	access_down(&rig);
}

/* A worker that claims a page and ends with an error before it has filled the frame. */
static void claim_then_fail(struct hr_objects *objects)
{
	struct hr_lane_pages use = hr_use_none();

	use.page = 3;
	use.writes = use.whole = true;
	cr_assert_eq(hr_cache_await(objects, &use, true, false, HR_NO_TICKET), 0);
	cr_assert(use.claimed);
	memset(use.frame, 0xee, 2000);
	objects->error = -EBADMSG;
}

Test(io_writes, a_page_that_is_filled_in_part_is_not_written)
{
	const struct access_work work = {
		.objects = 1, .bytes = { 64 * 4096 }, .writable = 1, .staging = !DIRECT
	};

	up(1, "lba=512");
	rig.op.run = claim_then_fail;
	access_start(&rig, &work);
	access_wait(&rig);
	cr_assert_not_null(access_failure(&rig));
	cr_expect_eq(access_counters(&rig).write_backs, 0);
	access_check_disk(&rig, 0);
	access_down(&rig);
}

/* ---- random writes */

/* Writes of the calling worker only, in its own 1 / workers of an object, and reads of them. */
static void write_own_part(struct hr_objects *objects)
{
	struct fake_random random = { rig.seed + 5 + objects->worker };
	uint8_t *data = malloc(30000);

	for (uint32_t i = 0; i < STEPS; i++) {
		const uint32_t object =
			(uint32_t)(fake_random_u64(&random) >> 40) % objects->cache->objects;
		const struct hr_object *o = hr_get_object_map(objects, object);
		const uint64_t part = o->bytes / objects->workers / 8 * 8;
		const uint64_t bytes = (fake_random_u64(&random) >> 20) % 20000 % part;
		const uint64_t at =
			objects->worker * part + (fake_random_u64(&random) >> 20) % (part - bytes);

		if (i % 3) {
			for (uint64_t k = 0; k < bytes; k++)
				data[k] = (uint8_t)(fake_random_u64(&random) >> 56);
			memcpy(rig.model[object] + at, data, bytes);
			cr_assert_eq(hr_pwrite(objects, o, at, data, bytes), (int64_t)bytes);
			continue;
		}
		cr_assert_eq(hr_pread(objects, o, at, data, bytes), (int64_t)bytes);
		cr_assert(memcmp(data, rig.model[object] + at, bytes) == 0);
	}
	free(data);
}

Test(io_writes, the_disk_holds_the_written_data)
{
	up(2, "lba=512");
	for (uint32_t policy = 0; policy < HR_POLICIES; policy++)
		for (uint32_t io = 1; io <= 3; io++) {
			if (access_leaves_out(policy, io))
				continue;
			const struct access_work work = { .objects = 3,
							  .bytes = { 300000, 200001, 40960 },
							  .writable = 7,
							  .frames = 7 << policy % 3 * 3,
							  .page_shift = 12 + policy % 3,
							  .policy = policy,
							  .io = io,
							  .compute = 1,
							  .commands = io == 1 ? 1 : 9,
							  .staging = !DIRECT || io == 2 };

			run(&work, write_own_part);
			for (uint32_t i = 0; i < work.objects; i++)
				access_check_disk(&rig, i);
			cr_expect_gt(access_counters(&rig).write_backs, 0);
		}
	access_down(&rig);
}

/* Parts of workers begin and end within pages, so several workers write to one page. */
Test(io_writes, several_workers_write_to_one_page)
{
	up(1, "lba=4096");
	for (uint32_t staging = !DIRECT; staging < 2; staging++) {
		const struct access_work work = { .objects = 2,
						  .bytes = { 300000, 90000 },
						  .writable = 3,
						  .frames = 28,
						  .io = 2,
						  .compute = 3,
						  .staging = staging };

		run(&work, write_own_part);
		access_check_disk(&rig, 0);
		access_check_disk(&rig, 1);
	}
	access_down(&rig);
}

/* Number of blocks of an object on the disk that differ from the model. */
static void flush_and_compare(struct hr_objects *objects)
{
	const struct hr_object *o = hr_get_object_map(objects, 0);
	struct hr_soft_stats before, after;

	for (uint32_t i = 0; i < 5; i++) {
		uint64_t *words = (uint64_t *)(void *)rig.model[0];

		for (uint64_t k = i; k < 20 * 512; k += 97) {
			words[k] = k * 31 + i;
			hr_set_u64(objects, o, k, words[k]);
		}
		hr_soft_stats(&rig.rig.ssd[0].transport, &before);
		cr_assert_eq(hr_flush(objects), 0);
		hr_soft_stats(&rig.rig.ssd[0].transport, &after);
		cr_assert_eq(after.flushes - before.flushes, 1);
		access_check_disk(&rig, 0);
	}
}

Test(io_writes, a_flush_makes_all_writes_durable)
{
	const struct access_work work = {
		.objects = 1, .bytes = { 20 * 4096 }, .writable = 1, .frames = 2000, .io = 3
	};

	up(1, "lba=4096");
	run(&work, flush_and_compare);
	access_down(&rig);
}

/* 64 neighbours become dirty, then the run ends: they are written together. */
static void write_neighbours(struct hr_objects *objects)
{
	memset(rig.model[0], 0x5a, 64 * 4096);
	cr_assert_eq(hr_pwrite(objects, hr_get_object_map(objects, 0), 0, rig.model[0], 64 * 4096),
		     64 * 4096);
}

Test(io_writes, dirty_neighbours_share_a_command)
{
	const struct access_work work = {
		.objects = 1, .bytes = { 64 * 4096 }, .writable = 1, .frames = 1000
	};
	struct hr_io_counters c;

	up(1, "lba=4096");
	run(&work, write_neighbours);
	access_check_disk(&rig, 0);
	c = access_counters(&rig);
	cr_expect_geq(c.write_backs, 64);
	cr_expect_leq(c.write_commands, 32, "%llu", (unsigned long long)c.write_commands);
	access_down(&rig);
}
