/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a run with a sink, over stores on disks in memory: its durable part, its outcome, what is
 * logged, and the health of ssds.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "boot/engine/objects/new_objects.h"
#include "cache/crc32c.h"
#include "tests/harness/conclude_rig.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

TestSuite(conclude, .init = begin, .fini = end, .timeout = 60);

/* ---- what is durable */

Test(conclude, a_checkpoint_records_what_is_written)
{
	static const struct {
		uint64_t written[2], done, first, before;
		bool settled;
		uint64_t next_tile, lost; /* with settled */
		uint64_t want;		  /* tiles */
	} row[] = {
		{ { 0, 0 }, 0, 0, 0, 0, 0, 0, 0 },    { { 2, 3 }, 0, 0, 0, 0, 0, 0, 2 },
		{ { 3, 2 }, 0, 0, 1, 0, 0, 0, 2 },    { { 3, 2 }, 0, 0, 2, 0, 0, 0, 2 },
		{ { 3, 2 }, 0, 0, 3, 0, 0, 0, 3 },    { { 9, 9 }, 0, 0, 0, 0, 0, 0, 4 },
		{ { 2, 2 }, 3, 0, 0, 0, 0, 0, 2 },    { { 2, 2 }, 4, 0, 0, 0, 0, 0, 4 },
		{ { 2, 2 }, 3, 1, 1, 0, 0, 0, 4 },    { { 2, 2 }, 4, 1, 1, 0, 0, 0, 2 },
		{ { 1, 1 }, 0, 0, 0, true, 3, 9, 3 }, { { 1, 1 }, 0, 0, 0, true, 3, 2, 2 },
		{ { 4, 4 }, 0, 0, 0, true, 3, 9, 3 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		uint64_t writes;

		end();
		begin();
		write_tiles(row[i].written[0], row[i].written[1], row[i].done);
		run->first_tile = row[i].first;
		run->durable_tiles = row[i].before;
		run->workers_ended = row[i].settled;
		run->cpu.next_tile = row[i].next_tile;
		slot[1].write_failed = true;
		slot[1].first_unwritten = row[i].lost;
		writes = test_runs_disk[1].disk.writes;
		cr_expect_eq(hr_run_checkpoint(engine, run, test_error()), 0);
		cr_expect_eq(run->durable_tiles, row[i].want, "row %zu: %llu", i,
			     (unsigned long long)run->durable_tiles);
		if (row[i].want > row[i].before)
			cr_expect_eq(object()->durable_bytes, row[i].want * UNIT, "row %zu", i);
		else
			cr_expect_eq(test_runs_disk[1].disk.writes, writes, "row %zu", i);
		cr_expect_eq(object()->tag, hr_sink_tag(0xf1, false));
	}
}

Test(conclude, a_checkpoint_of_a_part_counts_from_its_first_tile)
{
	static const struct {
		uint32_t part;
		uint64_t first, written, want; /* tiles */
	} row[] = {
		{ 1, 4, 6, 6 }, { 1, 4, 8, 8 }, { 1, 4, 4, 0 }, { 0, 0, 3, 3 }, { 0, 0, 7, 4 }
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		end();
		begin();
		run->tiles = run->cpu.tiles = 2 * TILES;
		run->sink_bytes = 2 * TILES * UNIT;
		run->part = row[i].part;
		run->parts = 2;
		run->first_tile = run->durable_tiles = row[i].first;
		write_tiles(row[i].written, row[i].written, 1);
		cr_expect_eq(hr_run_checkpoint(engine, run, test_error()), 0);
		cr_expect_eq(run->durable_tiles, row[i].want ? row[i].want : row[i].first);
		cr_expect_eq(object()->durable_bytes,
			     row[i].want ? (row[i].want - row[i].first) * UNIT : 0, "row %zu", i);
	}
}

Test(conclude, a_checkpoint_has_the_checksum_of_its_prefix)
{
	static uint8_t data[3 * UNIT];

	for (size_t at = 0; at < sizeof data; at++)
		data[at] = (uint8_t)(at * 11 + at / 251);
	for (unsigned t = 0; t < 3; t++)
		sums[t] = hr_crc32c(0, data + t * (size_t)UNIT, UNIT);
	pipeline->sink.checksum = true;
	write_tiles(2, 2, 2);
	cr_expect_eq(hr_run_checkpoint(engine, run, test_error()), 0);
	cr_expect_eq(object()->crc, hr_crc32c(0, data, 2 * UNIT));
	cr_expect_eq(object()->tag, hr_sink_tag(0xf1, true));
	write_tiles(3, 3, 3);
	cr_expect_eq(hr_run_checkpoint(engine, run, test_error()), 0);
	cr_expect_eq(object()->crc, hr_crc32c(0, data, 3 * UNIT));
}

Test(conclude, a_store_that_fails_is_named)
{
	write_tiles(2, 2, 2);
	test_runs_fail(1, 0, 0x281);
	cr_expect_eq(hr_run_checkpoint(engine, run, test_error()), 0x281);
	cr_expect(strstr(test_error_text(), "pipeline 'p0': object 'out' on ssd 'b': its progress "
					    "cannot be recorded: ") == test_error_text(),
		  "%s", test_error_text());
	cr_expect_eq(test_error_kind(), HR_ERROR_DEVICE);
	cr_expect_eq(run->durable_tiles, 0);
	run->sink_id = 99; /* an error without a text of the store */
	cr_expect_eq(hr_run_checkpoint(engine, run, test_error()), -ENOENT);
	cr_expect_str_eq(test_error_text(),
			 "pipeline 'p0': object 'out' on ssd 'b': its progress cannot be recorded: "
			 "No such file or directory",
			 "%s", test_error_text());
}

Test(conclude, a_warning_tells_what_is_durable)
{
	run->durable_tiles = 3;
	hr_run_log_durable(run, "stumbled");
	expect_warning("pipeline 'p0' stumbled: 3 of 4 tiles of object 'out' are durable; run it "
		       "again to continue from there");
	pipeline->verify = HR_VERIFY_ON;
	run->part = 1;
	run->parts = 2;
	hr_run_log_durable(run, "stumbled");
	expect_warning("pipeline 'p0' stumbled: 1 of 2 tiles of object 'out' are durable; run it "
		       "again");
	pipeline->has_sink = false;
	hr_run_log_durable(run, "stumbled");
	expect_warning("pipeline 'p0' stumbled");
}

/* ---- the outcome of a run */

Test(conclude, a_whole_run_completes_its_sink)
{
	for (unsigned round = 0; round < 3; round++) {
		end();
		begin();
		run->first_tile = round == 1; /* it has resumed */
		write_tiles(4, 4, 4 - run->first_tile);
		status[0].bytes = 5;
		status[1].bytes = 6;
		status[2].bytes = 100;
		run->read_bytes = 1;
		pipeline->sink.keep = round == 2 ? 2 : 0;
		if (round) /* the object that it replaces */
			cr_assert_eq(hr_store_finish(&engine->ssd[1].store, run->sink_id, false, 0,
						     NULL),
				     0);
		if (round)
			make_sink();
		run->object[0].created = true; /* it has none */
		cr_expect_eq(finish((struct hr_run_ending){ .stopping = round == 1 }), 0);
		expect_end(HR_RUN_DONE, 0, 4);
		cr_expect_eq(run->done_tiles, 4 - run->first_tile);
		cr_expect_eq(run->read_bytes, 11);
		cr_expect_neq(run->ended_ns, 0);
		cr_expect_eq(hr_store_find(&engine->ssd[1].store, "out"), object());
		cr_expect_not(object()->flags & HR_OBJECT_HAS_CRC);
		cr_expect_eq(hr_store_find(&engine->ssd[1].store, "out.1") != NULL, round == 2);
		cr_expect_eq(fake_log_count_of(HR_LOG_ERROR) + fake_log_count_of(HR_LOG_WARN), 0);
	}
}

Test(conclude, the_checksum_of_a_whole_sink_is_stored)
{
	for (unsigned t = 0; t < TILES; t++)
		sums[t] = hr_crc32c(0, (const uint8_t[UNIT]){ 0 }, UNIT);
	pipeline->sink.checksum = true;
	write_tiles(4, 4, 4);
	cr_expect_eq(finish((struct hr_run_ending){ 0 }), 0);
	cr_expect(object()->flags & HR_OBJECT_HAS_CRC);
	cr_expect_eq(object()->crc, hr_crc32c(0, (const uint8_t[TILES * UNIT]){ 0 }, TILES * UNIT));
}

Test(conclude, a_sink_that_cannot_be_completed_is_a_failure)
{
	write_tiles(4, 4, 4);
	test_runs_fail(1, 0, 0x281);
	cr_expect_eq(finish((struct hr_run_ending){ 0 }), 0x281);
	expect_end(HR_RUN_FAILED, 0x281, 0);
	expect_logged("pipeline 'p0': object 'out' on ssd 'b': it cannot be completed: ");
	cr_expect_eq(run->cause.kind, HR_ERROR_DEVICE);
}

Test(conclude, an_interrupted_run_keeps_its_durable_part)
{
	write_tiles(2, 3, 3);
	cr_expect_eq(finish((struct hr_run_ending){ .stopping = true }), -EINTR);
	expect_end(HR_RUN_INTERRUPTED, -EINTR, 2);
	cr_expect_eq(run->done_tiles, 3);
	expect_warning("pipeline 'p0' interrupted: 2 of 4 tiles of object 'out' are durable; run "
		       "it again to continue from there");
	cr_expect_eq(fake_log_count_of(HR_LOG_ERROR), 0);
	write_tiles(3, 3, 3);
	test_runs_fail(1, 0, 0x281);
	cr_expect_eq(finish((struct hr_run_ending){ .stopping = true }), 0x281);
	expect_end(HR_RUN_INTERRUPTED, 0x281, 2);
	expect_logged("its progress cannot be recorded: memdisk: ");
	pipeline->has_sink = false;
	status[2].tiles = 1;
	cr_expect_eq(finish((struct hr_run_ending){ .stopping = true }), -EINTR);
	expect_warning("pipeline 'p0' interrupted");
}

Test(conclude, the_failure_of_a_worker_comes_before_that_of_the_host)
{
	write_tiles(2, 2, 4); /* failed, though all tiles are done */
	fail_worker(0, 3, 0x281);
	hr_fail(&run->cause, HR_ERROR_DEVICE, -EIO, "the host's finding");
	cr_expect_eq(finish((struct hr_run_ending){ .error = -EIO, .stopping = true }), 0x281);
	expect_end(HR_RUN_FAILED, 0x281, 4);
	cr_expect_eq(run->failure.tile, 3);
	cr_expect(strstr(run->cause.text, "pipeline 'p0': object 'x', tile 3"), "%s",
		  run->cause.text);
	cr_expect_eq(fake_log_count_of(HR_LOG_ERROR), 2, "%u", fake_log_count_of(HR_LOG_ERROR));
	expect_logged("the host's finding");
	expect_warning("pipeline 'p0' failed: 4 of 4 tiles of object 'out' are durable; run it "
		       "again to continue from there");
	end();
	begin();
	fail_worker(0, 3, 0x281);
	cr_expect_eq(finish((struct hr_run_ending){ 0 }), 0x281, "found by the host only now");
	end();
	begin();
	write_tiles(2, 2, 2);
	hr_fail(&run->cause, HR_ERROR_DEVICE, -EIO, "the host's finding");
	cr_expect_eq(finish((struct hr_run_ending){ .error = -EIO }), -EIO);
	expect_end(HR_RUN_FAILED, -EIO, 2);
	expect_logged("the host's finding");
}

/* No worker has seen the end, so what one reported is not the cause. */
Test(conclude, an_aborted_run_fails_with_the_error_of_the_host)
{
	write_tiles(2, 2, 4);
	fail_worker(0, 3, 0x281);
	hr_fail(&run->cause, HR_ERROR_DEVICE, -EIO, "the host's finding");
	cr_expect_eq(finish((struct hr_run_ending){ .error = -EIO, .aborted = true }), -EIO);
	expect_end(HR_RUN_FAILED, -EIO, 4);
	cr_expect_eq(fake_log_count_of(HR_LOG_ERROR), 1);
}

Test(conclude, the_sink_of_a_failed_ssd_is_not_written)
{
	uint64_t writes = test_runs_disk[1].disk.writes;

	write_tiles(2, 2, 2);
	engine->ssd[1].health.state = HR_HEALTH_FAILED;
	cr_expect_eq(finish((struct hr_run_ending){ .error = -EIO }), -EIO);
	expect_end(HR_RUN_FAILED, -EIO, 0);
	cr_expect_eq(test_runs_disk[1].disk.writes, writes);
	engine->ssd[1].health.state = HR_HEALTH_UP;
	test_runs_fail(1, 0, 0x281);
	cr_expect_eq(finish((struct hr_run_ending){ .error = -EIO }), -EIO);
	expect_logged("its progress cannot be recorded: memdisk: ");
	pipeline->has_sink = false;
	cr_expect_eq(finish((struct hr_run_ending){ .error = -EIO }), -EIO);
	expect_warning("pipeline 'p0' failed");
}

/* New objects of a run that fails or ends are removed. */
Test(conclude, new_objects_do_not_outlive_a_failure)
{
	static const struct hr_run_ending how[] = { { .error = -EIO },
						    { .stopping = true },
						    { 0 } };

	for (size_t i = 0; i < ROWS(how); i++) {
		end();
		begin();
		pipeline->objects = 1;
		pipeline->has_sink = false;
		run->object[0] = (struct hr_run_object){ .used = true, .created = true };
		run->object[0].id = test_runs_put(0, "new", UNIT, 1, false);
		if (i == 2) /* it cannot be completed */
			test_runs_fail(0, 0, 0x281);
		cr_expect_neq(finish(how[i]), 0);
		cr_expect_not(run->object[0].created);
		cr_expect_null(hr_store_find_pending(&engine->ssd[0].store, "new"));
	}
}

/* The number of tiles of a feed is known when its producer has ended it. */
Test(conclude, the_end_of_a_feed_shortens_the_run)
{
	static struct hr_feed_role role;
	static struct hr_feed_words words;
	static struct hr_partition partition;

	partition.region[partition.part[0].place].cpu = (uint8_t *)&words;
	run->layout.parts.partition = &partition;
	run->cpu.feed = &role;
	words.total = 3;
	words.total_bytes = 2 * UNIT + 5;
	write_tiles(3, 3, 0);
	cr_expect_eq(hr_run_checkpoint(engine, run, test_error()), 0);
	cr_expect_eq(run->durable_tiles, 3);
	cr_expect_eq(object()->durable_bytes, 2 * UNIT + 5);
	words.total = 2;
	words.total_bytes = 2 * UNIT;
	run->workers_ended = true;
	write_tiles(3, 3, 2);
	cr_expect_eq(finish((struct hr_run_ending){ .stopping = true }), 0);
	cr_expect_eq(run->tiles, 2);
	cr_expect_eq(object()->bytes, 2 * UNIT);
}

/* ---- queues */

/* Each queue pair counts for its ssd, at every end. */
Test(conclude, lost_commands_count_for_their_ssds)
{
	static const struct hr_run_ending how[] = {
		{ 0 }, { .error = -EIO }, { .aborted = true, .error = -EIO }, { .stopping = true }
	};

	for (size_t i = 0; i < ROWS(how); i++) {
		end();
		begin();
		write_tiles(2, 2, how[i].error || how[i].stopping ? 2 : 4);
		for (unsigned q = 0; q < 5; q++)
			read_qp[q].stats.lost = q < 4 ? 1 + q % 2 : 7;
		write_qp[0].stats.lost = 1;
		write_qp[1].error = -EPROTO;
		write_qp[2].stats.lost = 7;
		io_qp[0].stats.lost = 7;
		run->gpu[0].cpu.qp = io_qp;
		finish(how[i]);
		cr_expect_eq(engine->ssd[0].health.count[HR_FAULT_LOST_COMMAND], 2, "row %zu", i);
		cr_expect_eq(engine->ssd[1].health.count[HR_FAULT_LOST_COMMAND], 5, "row %zu", i);
		cr_expect_eq(engine->ssd[1].health.count[HR_FAULT_BROKEN_QUEUE], 1, "row %zu", i);
		cr_expect_eq(engine->ssd[2].health.state, HR_HEALTH_UP);
		end();
		begin();
		pipeline->has_sink = false;
		write_qp[0].stats.lost = 1;
		finish(how[i]);
		cr_expect_eq(engine->ssd[1].health.count[HR_FAULT_LOST_COMMAND], 0);
	}
}
