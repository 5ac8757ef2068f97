/*
 * Batches of the fast path: which commands it executes itself, and how many completions it posts
 * together. One poller without a thread serves one queue pair in plain memory. The SQ head of a
 * completion is that of its whole batch, so it shows where a batch ends.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "nvme/soft/internal.h"
#include "tests/harness/error.h"

#define ROWS(a) (sizeof(a) / sizeof((a)[0]))
#define BUS 0x100000000ull
#define PAGES 80u
#define BLOCKS 128u /* of 512 bytes; the media */
#define RING 128u

static struct hr_sqe ring[RING] __attribute__((aligned(HR_PAGE)));
static struct hr_cqe cring[RING] __attribute__((aligned(HR_PAGE)));
static uint8_t memory[PAGES * HR_PAGE] __attribute__((aligned(HR_PAGE)));
static struct soft *soft;
static uint32_t tail, reaped;

static uint32_t *bell(bool cq)
{
	return (uint32_t *)(void *)(soft->bar + SOFT_DOORBELLS + 8 + (cq ? 4 : 0));
}

static void queues(uint32_t entries, uint32_t cq_entries)
{
	memset(ring, 0, sizeof ring);
	memset(cring, 0, sizeof cring);
	soft_start_cq(soft, 1, cring, cq_entries);
	soft_start_sq(soft, 1, 1, ring, entries);
	tail = reaped = 0;
}

static void start(const struct hr_soft_options *wanted)
{
	struct hr_soft_options options = *wanted;

	options.block_bytes = 512;
	options.mdts = 8;
	options.threads = 1;
	options.namespaces = 1;
	if (!options.bytes)
		options.bytes = BLOCKS * 512;
	cr_assert_eq(soft_new(&soft, &options, test_error()), 0, "%s", test_error_text());
	soft->window[0] = (struct soft_window){ BUS, sizeof memory, memory, false };
	queues(RING, RING);
}

static void finish(void)
{
	if (soft)
		soft_delete(soft);
	soft = NULL;
}

TestSuite(soft_batch, .fini = finish, .timeout = 60);

static void send(const struct hr_sqe *sqe)
{
	ring[tail] = *sqe;
	tail = (tail + 1) % soft->sq[1].entries;
}

static bool serve(void)
{
	*bell(false) = tail;
	return soft_serve_fast(&soft->poller[0], &soft->sq[1]);
}

/* The completions since the last call, as "CID:STATUS@HEAD". The caller has room for all of them. */
static const char *completions(void)
{
	static char text[2048];
	const uint32_t entries = soft->cq[1].entries;
	size_t n = 0;

	text[0] = '\0';
	for (;;) {
		const struct hr_cqe *cqe = &cring[reaped % entries];

		if ((cqe->status & 1) != !(reaped / entries % 2))
			break;
		cr_expect(cqe->sqid == 1 && cqe->dw0 == 0);
		n += (size_t)snprintf(text + n, sizeof text - n, " %u:%03x@%u", cqe->cid,
				      cqe->status >> 1 & 0x7ff, cqe->sqhd);
		reaped++;
	}
	*bell(true) = reaped % entries;
	return text;
}

static struct hr_sqe command(uint8_t opcode, uint16_t cid, uint64_t at, uint64_t lba,
			     uint32_t blocks)
{
	return (struct hr_sqe){ .opcode = opcode,
				.cid = cid,
				.nsid = 1,
				.prp1 = BUS + at,
				.prp2 = BUS + (at & ~(uint64_t)(HR_PAGE - 1)) + HR_PAGE,
				.cdw10 = (uint32_t)lba,
				.cdw11 = (uint32_t)(lba >> 32),
				.cdw12 = blocks - 1 };
}

static void expect(const char *want, const char *name, size_t row)
{
	const char *text = completions();

	cr_expect_str_eq(text, want, "%s %zu: %s", name, row, text);
}

#define R nvme_cmd_read
#define W nvme_cmd_write

/* A command and a plain read behind it: both in one batch, or each in its own. */
Test(soft_batch, a_transfer_within_a_page_is_executed_in_its_batch)
{
	static const struct {
		uint8_t opcode, flags;
		uint32_t nsid;
		uint64_t at, lba;
		uint32_t blocks;
		bool fast;
		uint16_t status;
	} row[] = {
		{ R, 0, 1, 0, 0, 8, true, 0 },
		{ W, 0, 1, 0, 0, 8, true, 0 },
		{ R, 0, 1, 0, 0, 1, true, 0 },
		{ R, 0, 1, 0, 0, 9, false, 0 },
		{ R, 0, 1, 512, 0, 7, true, 0 },
		{ R, 0, 1, 512, 0, 8, false, 0 },
		{ R, 0, 1, 4, 0, 7, true, 0 },
		{ R, 0, 1, 1, 0, 7, false, 0x13 },
		{ R, 0, 1, 2, 0, 7, false, 0x13 },
		/* the last page of the window, and behind it */
		{ R, 0, 1, (PAGES - 1) * HR_PAGE, 0, 8, true, 0 },
		{ R, 0, 1, (PAGES - 1) * HR_PAGE + 512, 0, 7, false, 0 },
		{ R, 0, 1, PAGES * HR_PAGE, 0, 1, false, 0x04 },
		{ R, 0, 1, -(uint64_t)HR_PAGE, 0, 8, false, 0x04 },
		/* the last page of the media, and behind it */
		{ R, 0, 1, 0, BLOCKS - 8, 8, true, 0 },
		{ R, 0, 1, 0, BLOCKS - 7, 7, false, 0 },
		{ R, 0, 1, 0, BLOCKS - 7, 8, false, 0x80 },
		{ R, 0, 1, 0, 1ull << 32, 8, false, 0x80 },
		{ W, 0, 1, 0, UINT64_MAX, 1, false, 0x80 },
		{ R, 0, 0, 0, 0, 8, false, 0x0b },
		{ R, 0, 2, 0, 0, 8, false, 0x0b },
		{ R, 1, 1, 0, 0, 8, false, 0x02 },
		{ R, 2, 1, 0, 0, 8, false, 0x02 },
		{ W, 0x40, 1, 0, 0, 8, false, 0x02 },
		{ W, 0x80, 1, 0, 0, 8, false, 0x02 },
		{ 0, 0, 1, 0, 0, 8, false, 0 }, /* flush */
		{ 3, 0, 1, 0, 0, 8, false, 0x01 },
		{ R + 4, 0, 1, 0, 0, 8, false, 0x01 },
		{ W + 0x80, 0, 1, 0, 0, 8, false, 0x01 },
	};

	start(&(struct hr_soft_options){ 0 });
	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_sqe sqe = command(row[i].opcode, 7, row[i].at, row[i].lba, row[i].blocks);
		const struct hr_sqe plain = command(R, 9, 0, 0, 8);
		const bool failed = row[i].status != 0;
		char want[64];

		queues(RING, RING);
		memset(&soft->poller[0].stats, 0, sizeof soft->poller[0].stats);
		sqe.nsid = row[i].nsid;
		sqe.flags = row[i].flags;
		send(&sqe);
		send(&plain);
		cr_expect(serve());
		snprintf(want, sizeof want, " 7:%03x@%u 9:000@2", row[i].status,
			 row[i].fast ? 2 : 1);
		expect(want, "row", i);
		cr_expect_eq(soft->poller[0].stats.commands, 2u);
		cr_expect_eq(soft->poller[0].stats.errors, failed);
		cr_expect_eq(soft->poller[0].stats.reads, 1 + (row[i].opcode == R && !failed),
			     "row %zu", i);
		cr_expect_eq(soft->poller[0].stats.writes, row[i].opcode == W && !failed);
		cr_expect_eq(soft->poller[0].stats.read_bytes,
			     4096 + (row[i].opcode == R && !failed ? row[i].blocks * 512 : 0));
		cr_expect_eq(soft->poller[0].stats.written_bytes,
			     row[i].opcode == W && !failed ? row[i].blocks * 512 : 0);
		cr_expect_not(serve(), "nothing more was sent");
	}
}

/* Options with which reads, writes, or both need checks that the fast path does not make. */
Test(soft_batch, options_keep_reads_or_writes_off_the_fast_path)
{
	static const struct {
		struct hr_soft_options options;
		bool read, write;
		uint16_t status; /* of a write */
	} row[] = {
		{ { .null = true }, true, true, 0 },
		{ { .cache_bytes = 4096 }, true, false, 0 },
		{ { .read_only = true }, true, false, 0x20 },
		{ { .reservations = 1 }, false, false, 0 },
		{ { .zoned = true }, true, false, 0x1b9 },
		{ { .bytes = 4096 }, true, true, 0 },
		{ { .bytes = 3584 }, false, false, 0 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const struct hr_sqe read = command(R, 1, 0, 0, 7), write = command(W, 2, 0, 0, 7);
		const struct hr_sqe flush = command(0, 3, 0, 0, 1);
		char want[64];

		start(&row[i].options);
		send(&read);
		send(&read);
		ring[1].cid = 5;
		cr_expect(serve());
		expect(row[i].read ? " 1:000@2 5:000@2" : " 1:000@1 5:000@2", "read", i);
		send(&write);
		send(&write);
		ring[3].cid = 6;
		cr_expect(serve());
		snprintf(want, sizeof want, " 2:%03x@%u 6:%03x@4", row[i].status,
			 row[i].write ? 4 : 3, row[i].status);
		expect(want, "write", i);
		if (!row[i].options.cache_bytes) {
			finish();
			continue;
		}
		/* dirty blocks are read through the cache, until they are flushed */
		send(&read);
		send(&read);
		ring[5].cid = 7;
		serve();
		expect(" 1:000@5 7:000@6", "dirty", i);
		send(&flush);
		send(&read);
		send(&read);
		ring[8].cid = 8;
		serve();
		expect(" 3:000@7 1:000@9 8:000@9", "flushed", i);
		finish();
	}
}

Test(soft_batch, data_are_moved_between_the_right_addresses)
{
	struct hr_sqe sqe;

	start(&(struct hr_soft_options){ 0 });
	for (size_t i = 0; i < sizeof memory; i++)
		memory[i] = (uint8_t)(i / 512 + i * 3);
	sqe = command(W, 1, 3 * HR_PAGE + 512, 100, 2);
	send(&sqe);
	sqe = command(R, 2, 7 * HR_PAGE + 1024, 101, 1);
	send(&sqe);
	cr_expect(serve());
	expect(" 1:000@2 2:000@2", "both", 0);
	cr_expect_arr_eq(soft->media.memory + 100 * 512, memory + 3 * HR_PAGE + 512, 1024);
	cr_expect_arr_eq(memory + 7 * HR_PAGE + 1024, memory + 3 * HR_PAGE + 1024, 512);
	cr_expect_eq(soft->media.memory[102 * 512], 0);
	cr_expect_eq(soft->media.memory[100 * 512 - 1], 0);
	cr_expect_eq(memory[7 * HR_PAGE + 1536],
		     (uint8_t)((7 * HR_PAGE + 1536) / 512 + (7 * HR_PAGE + 1536) * 3));
}

/* 32 transfers of 4 KiB are 128 KiB; smaller ones fill the batch of 64. */
Test(soft_batch, a_batch_ends_after_128_kib_or_64_commands)
{
	static const struct {
		bool null; /* media without data: no limit of bytes */
		uint32_t blocks, commands;
		uint32_t batches[4]; /* the SQ head at the end of each */
	} row[] = {
		{ false, 8, 64, { 32, 64 } }, { false, 7, 64, { 37, 64 } },
		{ false, 1, 64, { 64 } },     { false, 8, 70, { 32, 64, 70 } },
		{ true, 8, 64, { 64 } },      { false, 8, 33, { 32, 33 } },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		uint32_t batch = 0;
		char want[2048] = "";
		size_t n = 0;

		start(&(struct hr_soft_options){ .null = row[i].null });
		for (uint32_t k = 0; k < row[i].commands; k++) {
			const struct hr_sqe sqe =
				command(k % 3 ? R : W, (uint16_t)k, k * HR_PAGE, 0, row[i].blocks);

			send(&sqe);
			batch += k == row[i].batches[batch];
			n += (size_t)snprintf(want + n, sizeof want - n, " %u:000@%u", k,
					      row[i].batches[batch]);
		}
		cr_expect(serve());
		if (row[i].commands > SOFT_BATCH) { /* the rest in the next round */
			cr_expect_eq(soft->sq[1].head, SOFT_BATCH);
			cr_expect(serve());
		}
		cr_expect_not(serve());
		expect(want, "row", i);
		finish();
	}
}

/* Both rings have an end; a batch ends at that of the SQ, and goes on at the start of the CQ. */
Test(soft_batch, batches_go_around_both_rings)
{
	static const uint32_t sizes[][2] = { { 8, 8 }, { 8, 5 }, { 5, 8 }, { 2, 2 }, { 3, 16 } };

	start(&(struct hr_soft_options){ 0 });
	for (size_t i = 0; i < ROWS(sizes); i++) {
		const uint32_t n = sizes[i][0] - 1;
		const uint32_t room = sizes[i][1] - 1;

		queues(sizes[i][0], sizes[i][1]);
		for (uint32_t k = sizes[i][0]; k < RING; k++) /* behind the SQ */
			ring[k] = command(R, 999, 0, 0, 1);
		for (uint32_t round = 0, cid = 0; round < 20; round++) {
			const uint32_t head = soft->sq[1].head;
			char want[256] = "";
			size_t at = 0;

			for (uint32_t k = 0; k < n; k++) {
				const struct hr_sqe sqe = command(R, (uint16_t)(cid + k), 0, k, 1);
				send(&sqe);
			}
			for (uint32_t k = 0; k < n; k++) {
				const uint32_t of_round = k / room * room;
				const uint32_t begin = head + of_round;
				uint32_t end = begin + (n - of_round < room ? n - of_round : room);
				const uint32_t lap = (head + k) / sizes[i][0] + 1;

				if (end > lap * sizes[i][0])
					end = lap * sizes[i][0];
				at += (size_t)snprintf(want + at, sizeof want - at, " %u:000@%u",
						       cid + k, end % sizes[i][0]);
			}
			if (n <= room) {
				cr_expect(serve());
				expect(want, "round", round);
			} else {
				char seen[256] = "";

				while (serve())
					strcat(seen, completions());
				cr_expect_str_eq(seen, want, "round %u: %s", round, seen);
			}
			cid += n;
		}
	}
}

/* A window that is smaller than a page: nothing in it is known to be a page of the window. */
Test(soft_batch, a_small_window_is_left_to_the_other_code)
{
	const struct hr_sqe inside = command(R, 1, 0, 0, 4), across = command(R, 2, 0, 0, 5);

	start(&(struct hr_soft_options){ 0 });
	soft->window[0].bytes = 2048;
	memset(memory, 0xaa, HR_PAGE);
	send(&inside);
	send(&across);
	cr_expect(serve());
	expect(" 1:000@1 2:004@2", "small", 0);
	cr_expect(memory[0] == 0 && memory[2047] == 0 && memory[2048] == 0xaa);
}

/* CIDs with the same index are compared with all commands of the poll. */
Test(soft_batch, a_cid_is_in_use_once_in_each_poll)
{
	static const struct {
		uint16_t cid[4];
		const char *want;
	} row[] = {
		{ { 5, 6, 7, 8 }, " 5:000@4 6:000@4 7:000@4 8:000@4" },
		{ { 5, 5, 6, 7 }, " 5:000@1 5:003@2 6:000@4 7:000@4" },
		{ { 5, 6, 5, 5 }, " 5:000@2 6:000@2 5:003@3 5:003@4" },
		{ { 5, 5 + SOFT_CIDS, 6, 7 }, " 5:000@1 1029:000@2 6:000@4 7:000@4" },
		{ { 5, 5 + SOFT_CIDS, 5, 7 }, " 5:000@1 1029:000@2 5:003@3 7:000@4" },
		{ { 0, 0xffff, 0, 0xffff }, " 0:000@2 65535:000@2 0:003@3 65535:003@4" },
	};

	start(&(struct hr_soft_options){ 0 });
	for (size_t i = 0; i < 2 * ROWS(row); i++) {
		queues(RING, RING);
		for (unsigned k = 0; k < 4; k++) {
			const struct hr_sqe sqe = command(R, row[i / 2].cid[k], 0, 0, 8);

			send(&sqe);
		}
		cr_expect(serve());
		expect(row[i / 2].want, "row", i);
	}
}

/* Nothing is posted after the power is cut, and no write reaches the media. */
Test(soft_batch, a_dead_controller_posts_nothing)
{
	const struct hr_sqe write = command(W, 1, 0, 0, 8), other = command(0, 2, 0, 0, 8);

	start(&(struct hr_soft_options){ 0 });
	memset(memory, 0xaa, sizeof memory);
	soft->dead = 1;
	send(&write);
	send(&other);
	cr_expect(serve());
	expect("", "dead", 0);
	cr_expect_eq(soft->media.memory[0], 0);
	cr_expect_eq(soft->poller[0].stats.commands, 0u);
}
