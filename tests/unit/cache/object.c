/* SPDX-License-Identifier: Apache-2.0 */
/* Objects as workers use them: chunks, PRPs and waits, against a disk that follows the PRPs. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cache/object.h"
#include "tests/fakes/clock.h"
#include "tests/harness/random.h"
#include "tests/harness/transfer.h"
#include "tests/fakes/target.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define DISK_BYTES (9u << 18)
#define OBJECT_LBA_BYTES (64u << 10) /* position of the object on the disk */
#define BUFFER_PAGE 3u		     /* page of the region; other pages precede and follow it */

static struct target t;
static struct hr_buffer buffer;
static struct hr_prp chunks[1024];
static struct hr_extent extent;

static void step(void *context)
{
	target_step(context);
}

/* A buffer of buffer_bytes and an object of `bytes`. */
static void make(uint32_t entries, uint32_t lba_shift, uint32_t buffer_bytes, uint32_t chunk_bytes,
		 uint64_t bytes)
{
	const uint32_t lists = (uint32_t)hr_buffer_prp_bytes(buffer_bytes, chunk_bytes) / HR_PAGE;
	const uint32_t pages = buffer_bytes / HR_PAGE;

	target_init(&t, entries, BUFFER_PAGE + pages + 1 + lists, DISK_BYTES, lba_shift,
		    chunk_bytes);
	hr_buffer_init(&buffer, &t.region, BUFFER_PAGE * HR_PAGE, buffer_bytes, chunk_bytes,
		       &t.region, (BUFFER_PAGE + pages + 1) * (size_t)HR_PAGE, chunks);
	extent = (struct hr_extent){ .id = 1,
				     .lba = OBJECT_LBA_BYTES >> lba_shift,
				     .bytes = bytes,
				     .capacity = (bytes + HR_PAGE - 1) / HR_PAGE * HR_PAGE,
				     .nsid = TARGET_NSID,
				     .lba_shift = lba_shift,
				     .chunk_bytes = chunk_bytes };
	fake_clock_start(1, step, &t);
}

static void unmake(void)
{
	fake_clock_stop();
	target_fini(&t);
}

static int read_at(uint64_t offset, uint32_t bytes)
{
	return transfer_end(&t.qp, hr_io_read_post(&t.qp, &extent, offset, bytes, &buffer, 0));
}

static int write_at(uint64_t offset, uint32_t bytes, uint32_t flags)
{
	return transfer_end(&t.qp,
			    hr_io_write_post(&t.qp, &extent, offset, bytes, &buffer, 0, flags));
}

static int flush(void)
{
	return transfer_end(&t.qp, hr_io_flush_post(&t.qp, &extent, 0));
}

TestSuite(object, .timeout = 120);

Test(object, prp_lists_have_the_needed_entries_and_do_not_cross_pages)
{
	static const struct {
		uint32_t bytes, chunk;
		size_t want;
	} row[] = {
		{ 4096, 4096, 0 },
		{ 1u << 20, 4096, 0 },
		{ 1u << 20, 8192, 0 },
		{ 8192, 2u << 20, 0 },
		{ 12288, 2u << 20, 4096 },
		{ 1u << 20, 1u << 20, 4096 },
		{ 2u << 20, 1u << 20, 4096 },
		{ (2u << 20) + 4096, 1u << 20, 8192 },
		{ 2u << 20, 2u << 20, 4096 },
		{ 4u << 20, 16384, 8192 },
		{ HR_TILE_MAX, 2u << 20, 32 * 4096 },
		{ HR_TILE_MAX, 16384, 32 * 4096 },
	};

	for (size_t i = 0; i < ROWS(row); i++)
		cr_expect_eq(hr_buffer_prp_bytes(row[i].bytes, row[i].chunk), row[i].want,
			     "row %zu", i);
	for (uint32_t chunk = 16384; chunk <= 2u << 20; chunk *= 2) {
		const uint32_t entries = chunk / HR_PAGE - 1;

		make(64, 9, 4u << 20, chunk, 0);
		for (uint32_t c = 0; c < hr_chunk_count(4u << 20, chunk); c++)
			cr_expect_eq(chunks[c].list / HR_PAGE,
				     (chunks[c].list + entries * 8) / HR_PAGE,
				     "chunk %u of %u bytes", c, chunk);
		unmake();
	}
}

/* The region without the buffer and the lists, to check that nothing else is written. */
static void expect_surroundings(const uint8_t *before, uint32_t moved)
{
	const uint8_t *now = t.region.cpu;
	const size_t from = BUFFER_PAGE * HR_PAGE;

	cr_assert_arr_eq(before, now, from, "in front of the buffer");
	cr_assert_arr_eq(before + from + moved, now + from + moved, t.region.bytes - from - moved,
			 "behind what was read");
}

static uint32_t round_up(uint32_t bytes, uint32_t to)
{
	return (bytes + to - 1) / to * to;
}

/* Transfers of random shape in both directions, compared byte by byte. */
static void round_trip(struct fake_random *random)
{
	const uint32_t lba_shift = fake_random_below(random, 2) ? 9 : 12, block = 1u << lba_shift;
	const uint32_t chunk = HR_PAGE << fake_random_below(random, 7);
	const uint32_t pages = 1 + fake_random_below(random, 200);
	const uint32_t bytes = 1 + fake_random_below(random, pages * HR_PAGE);
	const uint64_t offset = fake_random_below(random, 1u << 20) / block * block;
	uint8_t *before, *data, *on_disk;

	make(2 + hr_chunk_count(bytes, chunk) + fake_random_below(random, 30), lba_shift,
	     pages * HR_PAGE, chunk, offset + bytes);
	data = buffer.data;
	on_disk = t.disk + OBJECT_LBA_BYTES + offset;
	before = malloc(t.region.bytes);
	memcpy(before, t.region.cpu, t.region.bytes);
	cr_assert_eq(read_at(offset, bytes), 0);
	cr_assert_arr_eq(data, on_disk, bytes);
	expect_surroundings(before, round_up(bytes, block));
	cr_assert_eq(t.commands, hr_chunk_count(bytes, chunk));

	free(before);
	before = malloc(DISK_BYTES);
	memcpy(before, t.disk, DISK_BYTES);
	for (uint32_t i = 0; i < round_up(bytes, block); i++)
		data[i] = (uint8_t)~data[i];
	cr_assert_eq(write_at(offset, bytes, 0), 0);
	cr_assert_arr_eq(on_disk, data, round_up(bytes, block));
	memcpy(on_disk, before + (on_disk - t.disk), round_up(bytes, block));
	cr_assert_arr_eq(before, t.disk, DISK_BYTES, "elsewhere on the disk");
	cr_assert_eq(t.qp.stats.failed, 0);
	free(before);
	unmake();
}

Test(object, any_transfer_moves_exactly_its_bytes)
{
	struct fake_random random = { 11 };

	for (unsigned i = 0; i < 40; i++)
		round_trip(&random);
}

Test(object, the_longest_command_fills_one_list_page)
{
	make(8, 12, 2u << 20, 2u << 20, 2u << 20);
	cr_assert_eq(read_at(0, 2u << 20), 0);
	cr_expect_eq(t.commands, 1);
	cr_expect_arr_eq(buffer.data, t.disk + OBJECT_LBA_BYTES, 2u << 20);
	unmake();
}

Test(object, wrong_transfers_are_refused_before_anything_is_posted)
{
	static const struct {
		uint64_t offset;
		uint32_t bytes;
		int want;
	} row[] = {
		{ 0, 64 << 10, 16 },
		{ 0, 0, 0 },
		{ 100000, 0, -EINVAL },
		{ 102400 - 512, 512, 1 },
		{ 102400, 99, 1 },
		{ 102400, 98, -EINVAL }, /* ends inside a block that is not the last */
		{ 102400, 100, -ERANGE },
		{ 102499, 0, -EINVAL },
		{ 102500, 0, -ERANGE },
		{ UINT64_MAX - 511, 512, -ERANGE },
		{ UINT64_MAX - 511, 1024, -ERANGE },
		{ 0, UINT32_MAX, -ERANGE },
		{ 0, (64 << 10) + 512, -EINVAL },
		{ 1, 512, -EINVAL },
		{ 511, 512, -EINVAL },
		{ 512, 100, -EINVAL },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		int got;

		make(64, 9, 64 << 10, 4096, 102499);
		got = hr_io_read_post(&t.qp, &extent, row[i].offset, row[i].bytes, &buffer, 0);
		cr_expect_eq(got, row[i].want, "read, row %zu: %d", i, got);
		cr_expect_eq(hr_qp_outstanding(&t.qp), got > 0 ? (uint32_t)got : 0, "row %zu", i);
		unmake();
		make(64, 9, 64 << 10, 4096, 102499);
		got = hr_io_write_post(&t.qp, &extent, row[i].offset, row[i].bytes, &buffer, 0, 0);
		cr_expect_eq(got, row[i].want, "write, row %zu: %d", i, got);
		unmake();
	}
	make(64, 9, 64 << 10, 8192, 102499);
	extent.chunk_bytes = 4096;
	cr_expect_eq(hr_io_read_post(&t.qp, &extent, 0, 4096, &buffer, 0), -EINVAL);
	unmake();
}

Test(object, a_tile_without_room_in_the_queue_is_not_posted_in_part)
{
	make(17, 12, 64 << 10, 4096, 1u << 20);
	cr_expect_eq(hr_io_read_post(&t.qp, &extent, 0, 4096, &buffer, 0), 1);
	cr_expect_eq(hr_io_read_post(&t.qp, &extent, 0, 64 << 10, &buffer, 0), -EAGAIN);
	cr_expect_eq(hr_qp_outstanding(&t.qp), 1);
	cr_expect_eq(hr_io_read_post(&t.qp, &extent, 0, 60 << 10, &buffer, 0), 15);
	cr_expect_eq(hr_io_flush_post(&t.qp, &extent, 0), -EAGAIN);
	cr_expect_eq(hr_io_write_post(&t.qp, &extent, 0, 4096, &buffer, 0, 0), -EAGAIN);
	cr_expect_eq(hr_io_repost(&t.qp, nvme_cmd_read, &extent, 0, 64 << 10, &buffer, 0, 1, 0),
		     -EAGAIN);
	cr_expect_eq(hr_qp_outstanding(&t.qp), 16);
	t.qp.error = -EPROTO;
	cr_expect_eq(hr_io_repost(&t.qp, nvme_cmd_read, &extent, 0, 64 << 10, &buffer, 0, 1, 0),
		     -EPROTO);
	cr_expect_eq(hr_io_read_post(&t.qp, &extent, 0, 4096, &buffer, 0), -EPROTO);
	cr_expect_eq(hr_io_flush_post(&t.qp, &extent, 0), -EPROTO);
	unmake();
}

Test(object, completions_carry_buffer_and_chunk)
{
	bool seen[16] = { false };
	struct hr_completion done;

	make(64, 12, 64 << 10, 4096, 1u << 20);
	cr_assert_eq(hr_io_read_post(&t.qp, &extent, 0, 64 << 10, &buffer, 1023), 16);
	target_step(&t);
	cr_expect_eq(t.commands, 0, "nothing reaches the controller before the doorbell");
	cr_expect_eq(hr_io_reap(&t.qp, &done), 0);
	hr_qp_publish(&t.qp);
	target_step(&t);
	for (unsigned i = 0; i < 16; i++) {
		cr_assert_eq(hr_io_reap(&t.qp, &done), 1);
		cr_expect_eq(done.status, 0);
		cr_expect_eq(HR_TOKEN_BUFFER(done.token), 1023);
		cr_assert_lt(HR_TOKEN_CHUNK(done.token), 16);
		cr_expect_not(seen[HR_TOKEN_CHUNK(done.token)]);
		seen[HR_TOKEN_CHUNK(done.token)] = true;
	}
	cr_expect_eq(hr_io_reap(&t.qp, &done), 0);
	unmake();
}

Test(object, fua_and_flush_reach_the_wire)
{
	make(64, 12, 64 << 10, 65536, 1u << 20);
	cr_expect_eq(write_at(0, 4096, HR_CDW12_FUA), 0);
	cr_expect_eq(t.last.cdw12, HR_CDW12_FUA);
	cr_expect_eq(write_at(0, 8192, 0), 0);
	cr_expect_eq(t.last.cdw12, 1);
	cr_expect_eq(flush(), 0);
	cr_expect_eq(t.flushes, 1);
	cr_expect_eq(t.last.nsid, TARGET_NSID);
	cr_expect_eq(t.last.cdw10 | t.last.cdw11 | t.last.cdw12, 0);
	cr_expect_eq(t.last.prp1 | t.last.prp2, 0);
	unmake();
}

/* A read is not posted in part, so a lost command, which keeps its room, leaves no room for it. */
Test(object, failed_and_lost_commands_are_reported)
{
	static const struct {
		const char *what;
		uint16_t status;
		uint32_t failures, lose;
		int want, again; /* results of this transfer and of the next one */
	} row[] = {
		{ "well", 0, 0, 0, 0, 0 },
		{ "one fails", 0x281, 1, 0, 0x281, 0 },
		{ "all fail", 0x281, 16, 0, 0x281, 0 },
		{ "one is lost", 0, 0, 1, -ETIMEDOUT, -EAGAIN },
		{ "lost, and others fail", 0x281, 13, 3, -ETIMEDOUT, -EAGAIN },
		{ "all are lost", 0, 0, 16, -ETIMEDOUT, -EAGAIN },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		int got;

		make(17, 12, 64 << 10, 4096, 1u << 20);
		t.status = row[i].status;
		t.failures = row[i].failures;
		t.lose = row[i].lose;
		got = read_at(0, 64 << 10);
		cr_expect_eq(got, row[i].want, "%s: %d", row[i].what, got);
		got = read_at(0, 64 << 10);
		cr_expect_eq(got, row[i].again, "%s, again: %d", row[i].what, got);
		got = flush();
		cr_expect_eq(got, row[i].lose == 16 ? -EAGAIN : 0, "%s, flush: %d", row[i].what,
			     got);
		unmake();
	}
}

Test(object, a_lost_command_is_handed_out_once)
{
	struct hr_completion done;

	make(17, 12, 64 << 10, 4096, 1u << 20);
	t.lose = 1;
	cr_assert_eq(hr_io_read_post(&t.qp, &extent, 0, 4096, &buffer, 5), 1);
	hr_qp_publish(&t.qp);
	target_step(&t);
	cr_expect_eq(hr_io_reap(&t.qp, &done), 0);
	fake_clock_advance(2000000000);
	cr_expect_eq(hr_io_reap(&t.qp, &done), 1);
	cr_expect_eq(done.status, HR_STATUS_LOST);
	cr_expect_eq(done.token, HR_TOKEN(5, 0));
	cr_expect_eq(hr_io_reap(&t.qp, &done), 0);
	unmake();
}

static void lie(void *context)
{
	struct target *target = context;

	if (peer_fetch(&target->peer))
		peer_post(&target->peer, (struct hr_cqe){ .cid = 0xffff, .sqid = target->qp.id });
}

Test(object, a_queue_that_breaks_refuses_further_transfers)
{
	make(17, 12, 64 << 10, 4096, 1u << 20);
	fake_clock_start(1, lie, &t);
	cr_expect_eq(read_at(0, 64 << 10), -EPROTO);
	cr_expect_eq(flush(), -EPROTO);
	unmake();
}

Test(object, a_single_transfer_is_one_chunk_of_the_object)
{
	static const struct {
		uint64_t offset;
		uint32_t bytes;
		bool want;
		int result;
	} row[] = {
		{ 0, 8192, true, 1 },		{ 8192, 512, true, 1 },
		{ 0, 4096, false, 0 },		{ 0, 0, false, 0 },
		{ 0, 8704, false, 0 },		{ 256, 4096, false, 0 },
		{ 0, 0, true, -EINVAL },	{ 0, 8704, true, -EINVAL },
		{ 256, 4096, true, -EINVAL },	{ 0, 511, true, -EINVAL },
		{ 60416, 8192, true, -ERANGE }, { 1 << 20, 512, true, -ERANGE },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		make(8, 9, 32768, 8192, 65536);
		cr_expect_eq(hr_io_read_each(&t.qp, row[i].want, &extent, row[i].offset,
					     row[i].bytes, &buffer, 3),
			     row[i].result, "row %zu", i);
		cr_expect_eq(hr_io_write_each(&t.qp, row[i].want, &extent, row[i].offset,
					      row[i].bytes, &buffer, 4, HR_CDW12_FUA),
			     row[i].result, "row %zu", i);
		cr_expect_eq(hr_qp_outstanding(&t.qp), row[i].result == 1 ? 2u : 0u);
		unmake();
	}
	make(2, 9, 32768, 8192, 65536);
	cr_expect_eq(hr_io_read_each(&t.qp, true, &extent, 0, 512, &buffer, 0), 1);
	cr_expect_eq(hr_io_read_each(&t.qp, true, &extent, 0, 512, &buffer, 1), -EAGAIN);
	t.qp.error = -EPROTO;
	cr_expect_eq(hr_io_read_each(&t.qp, true, &extent, 0, 512, &buffer, 1), -EPROTO);
	unmake();
}
