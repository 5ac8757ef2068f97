/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a run whose gpu fails, of an access operator, of a run whose source is damaged, and of a
 * part of a run, over stores on disks in memory.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "tests/harness/conclude_rig.h"

TestSuite(conclude_others, .init = begin, .fini = end, .timeout = 60);

/* ---- a gpu that fails */

static int lose_gpu(uint32_t member, struct hr_error *e)
{
	const struct hr_run_ending how = { .failed_gpu = member };

	return hr_run_conclude(engine, run, &how, -EIO, e);
}

Test(conclude_others, a_failed_gpu_ends_the_run_and_leaves_unknown_queues)
{
	engine->config.ssds = 2;
	run->first_tile = 1;
	run->tiles = 6;
	run->cpu.tiles = 6;
	write_tiles(2, 2, 1);
	hr_fail(&run->cause, HR_ERROR_DEVICE, -EIO, "before");
	cr_expect_eq(lose_gpu(0, test_error()), -EIO);
	expect_end(HR_RUN_FAILED, -EIO, 2);
	cr_expect_str_eq(run->cause.text,
			 "pipeline 'p0': gpu 'g' failed after 2 of 6 tiles: "
			 "Input/output error",
			 "%s", run->cause.text);
	cr_expect_eq(fake_log_count_of(HR_LOG_ERROR), 2, "%u", fake_log_count_of(HR_LOG_ERROR));
	cr_expect(engine->gpu_failed[0]);
	cr_expect_not(engine->gpu_failed[1]);
	for (uint32_t d = 0; d < 3; d++)
		cr_expect_eq(engine->ssd[d].health.count[HR_FAULT_UNKNOWN_QUEUES], d < 2, "ssd %u",
			     d);
	cr_expect_eq(run->done_tiles, 1);
	end();
	begin();
	pipeline->sources = 1;
	pipeline->has_sink = false;
	cr_expect_eq(lose_gpu(0, test_error()), -EIO);
	cr_expect_eq(engine->ssd[1].health.count[HR_FAULT_UNKNOWN_QUEUES], 0, "it does not use it");
	end();
	begin();
	engine->config.ssds = 1;
	cr_expect_eq(lose_gpu(0, test_error()), -EIO);
	cr_expect_eq(engine->ssd[1].health.count[HR_FAULT_UNKNOWN_QUEUES], 0,
		     "it is not configured");
}

Test(conclude_others, a_failed_gpu_may_be_the_fault_of_a_worker_or_an_operator)
{
	static const uint8_t code[8];
	struct hr_operator own = *hr_op_find("copy");
	struct hr_error e = { 0 };

	own.gpu = code;
	own.name = "mine";
	pipeline->op = &own;
	hr_fail(&e, HR_ERROR_MISSING, -EIO, "the driver's words");
	cr_expect_eq(lose_gpu(0, &e), -EIO);
	cr_expect_str_eq(run->cause.text,
			 "pipeline 'p0': gpu 'g' failed after 0 of 4 tiles: the driver's words\n"
			 "pipeline 'p0': the failure may be in the code of its user operator, mine",
			 "%s", run->cause.text);
	end();
	begin();
	pipeline->op = &own;
	fail_worker(1, 2, 0x281);
	cr_expect_eq(lose_gpu(0, test_error()), -EIO);
	cr_expect(strstr(run->cause.text, "object 'x', tile 2"), "%s", run->cause.text);
	cr_expect_not(strstr(run->cause.text, "mine"));
}

/* ---- access operators: two gpus, one I/O worker and one compute block each */

static struct hr_cache_words words[2];
static struct hr_io_counters counters[3];

static void be_an_access_operator(void)
{
	memset(words, 0, sizeof words);
	memset(counters, 0, sizeof counters);
	pipeline->objects = 1;
	pipeline->has_sink = false;
	pipeline->sources = 0;
	pipeline->other_gpus = 1;
	pipeline->other_gpu[0] = 1;
	strcpy(pipeline->object[0].object, "x");
	run->pipe = NULL;
	run->ssds = 1;
	run->blocks[HR_ROLE_PREFETCH] = run->blocks[HR_ROLE_WRITEBACK] = 0;
	run->blocks[HR_ROLE_IO] = run->workers[HR_ROLE_IO] = 1;
	for (unsigned p = 0; p < 2; p++) {
		run->gpu[p].cpu.io_blocks = run->gpu[p].cpu.compute_blocks = 1;
		run->gpu[p].cpu.warps = 1;
		run->gpu[p].cpu.status = &status[2 * p];
		run->gpu[p].cpu.qp = &io_qp[p];
		run->gpu[p].cpu.counters = &counters[p];
		run->gpu[p].cpu.cache.words = &words[p];
		run->gpu[p].access = &run->gpu[p].cpu;
		counters[p].reads = 3 + p;
	}
	counters[2].reads = 100;
	pipeline->cache.page_bytes = 10;
}

Test(conclude_others, an_access_operator_that_heeds_a_stop_is_interrupted)
{
	for (unsigned stopped = 0; stopped < 3; stopped++) {
		end();
		begin();
		be_an_access_operator();
		run->object[0] = (struct hr_run_object){ .used = true, .created = true };
		run->object[0].id = test_runs_put(0, "new", UNIT, 1, false);
		if (stopped)
			words[stopped - 1].stop = 1;
		cr_expect_eq(finish((struct hr_run_ending){ .stopping = true }),
			     stopped ? -EINTR : 0, "gpu %u", stopped);
		cr_expect_eq(run->outcome, stopped ? HR_RUN_INTERRUPTED : HR_RUN_DONE);
		cr_expect_eq(hr_store_find(&engine->ssd[0].store, "new") != NULL, !stopped);
		cr_expect_eq(run->read_bytes, 70);
	}
}

Test(conclude_others, queues_of_each_gpu_count)
{
	be_an_access_operator();
	for (unsigned q = 0; q < 3; q++)
		io_qp[q].stats.lost = 1 + q;
	read_qp[0].stats.lost = write_qp[0].stats.lost = 7;
	run->workers[HR_ROLE_IO] = 2;
	cr_expect_eq(finish((struct hr_run_ending){ 0 }), 0);
	cr_expect_eq(engine->ssd[0].health.count[HR_FAULT_LOST_COMMAND], 1 + 2 + 2 + 3);
	end();
	begin();
	be_an_access_operator();
	pipeline->other_gpus = 0;
	run->gpu[1].access = NULL;
	io_qp[0].stats.lost = 1;
	words[0].stop = 1;
	cr_expect_eq(finish((struct hr_run_ending){ 0 }), -EINTR);
	cr_expect_eq(engine->ssd[0].health.count[HR_FAULT_LOST_COMMAND], 1);
	end();
	begin();
	be_an_access_operator();
	cr_expect_eq(lose_gpu(1, test_error()), -EIO);
	cr_expect_str_eq(run->cause.text,
			 "pipeline 'p0': gpu 'h' failed after 7 pages were read: "
			 "Input/output error",
			 "%s", run->cause.text);
	cr_expect(engine->gpu_failed[1]);
	cr_expect_not(engine->gpu_failed[0]);
}

/* ---- a source that differs from the stored data */

/* p1 and p3 read the sink of p0 and of p1; p2 reads another object. */
static void be_damaged(void)
{
	static uint32_t words_of_tiles[TILES];

	run->source[0].verify.check = HR_SOURCE_UNREAD;
	run->cpu.source[0].crc = words_of_tiles;
	hr_store_find(&engine->ssd[0].store, "x")->flags |= HR_OBJECT_HAS_CRC;
	hr_store_find(&engine->ssd[0].store, "x")->crc = 0x1234;
	write_tiles(4, 4, 4);
	for (uint32_t i = 1; i < 4; i++) {
		struct hr_config_pipeline *p = &engine->config.pipeline[i];

		p->sources = 2;
		p->has_sink = true;
		engine->run[i].source[0].writer = -1;
		engine->run[i].source[1].writer = i == 1 ? 0 : i == 2 ? -1 : 1;
		engine->run[i].source[2].writer = 0; /* behind the last */
		engine->run[i].sink_id =
			test_runs_put(0, (const char[]){ (char)('0' + i), '\0' }, 1, 1, false);
	}
}

Test(conclude_others, a_sink_of_damaged_data_is_removed_with_those_made_from_it)
{
	be_damaged();
	engine->run[1].source[0].writer = 0; /* the last source does not count alone */
	engine->run[1].source[1].writer = -1;
	cr_expect_eq(finish((struct hr_run_ending){ 0 }), -EBADMSG);
	expect_end(HR_RUN_FAILED, -EBADMSG, 0);
	cr_expect_eq(run->sink_id, 0);
	cr_expect_null(hr_store_find_pending(&engine->ssd[1].store, "out"));
	expect_logged("pipeline 'p0': object 'x' on ssd 'a' differs from the stored data");
	expect_warning("pipeline 'p0': object 'out' on ssd 'b' was made from damaged data; it is "
		       "removed");
	cr_expect_eq(engine->run[1].sink_id, 0);
	cr_expect_neq(engine->run[2].sink_id, 0);
	cr_expect_eq(engine->run[3].sink_id, 0);
	cr_expect_null(hr_store_find_pending(&engine->ssd[0].store, "1"));
	cr_expect_not_null(hr_store_find_pending(&engine->ssd[0].store, "2"));
	cr_expect_null(hr_store_find_pending(&engine->ssd[0].store, "3"));
}

Test(conclude_others, only_waiting_readers_lose_their_sinks)
{
	be_damaged();
	engine->run[1].outcome = HR_RUN_DONE;
	cr_expect_eq(finish((struct hr_run_ending){ 0 }), -EBADMSG);
	cr_expect_neq(engine->run[1].sink_id, 0);
	cr_expect_neq(engine->run[3].sink_id, 0, "its source stays");
	end();
	begin();
	be_damaged();
	engine->run[1].selected = false;
	engine->config.pipeline[3].has_sink = false;
	engine->run[3].source[0].writer = 0;
	engine->run[2].source[0].writer = 3; /* by way of a run without a sink, which comes later */
	cr_expect_eq(finish((struct hr_run_ending){ 0 }), -EBADMSG);
	cr_expect_neq(engine->run[1].sink_id, 0);
	cr_expect_neq(engine->run[2].sink_id, 0);
	cr_expect_neq(engine->run[3].sink_id, 0);
	end();
	begin();
	be_damaged();
	test_runs_fail(0, 0, -EIO); /* the sink of p1 stays */
	cr_expect_eq(finish((struct hr_run_ending){ 0 }), -EBADMSG);
	cr_expect_neq(engine->run[1].sink_id, 0);
	cr_expect_eq(engine->run[3].sink_id, 0);
	end();
	begin();
	be_damaged();
	engine->ssd[0].store.generation = HR_STORE_COUNTER_MAX;
	cr_expect_eq(finish((struct hr_run_ending){ 0 }), -EBADMSG);
	cr_expect(strstr(fake_log_last_of(HR_LOG_WARN), "cannot change the object map any more"),
		  "%s", fake_log_last_of(HR_LOG_WARN));
}

Test(conclude_others, a_sink_of_damaged_data_that_stays_is_named)
{
	be_damaged();
	test_runs_fail(1, 0, -EIO);
	cr_expect_eq(finish((struct hr_run_ending){ 0 }), -EBADMSG);
	expect_end(HR_RUN_FAILED, -EBADMSG, 0);
	cr_expect_neq(run->sink_id, 0);
	cr_expect(strstr(run->cause.text, "\npipeline 'p0': the incomplete object 'out' on ssd 'b' "
					  "was made from damaged data and cannot be removed: "),
		  "%s", run->cause.text);
	cr_expect(strstr(run->cause.text, "; remove it with 'headrace store rm --pending'"));
	cr_expect_eq(fake_log_count_of(HR_LOG_WARN), 0);
	cr_expect_neq(engine->run[1].sink_id, 0);
	end();
	begin();
	be_damaged();
	pipeline->has_sink = false;
	cr_expect_eq(finish((struct hr_run_ending){ 0 }), -EBADMSG);
	cr_expect_neq(run->sink_id, 0);
	cr_expect_neq(engine->run[1].sink_id, 0);
	cr_expect_not(strstr(run->cause.text, "removed"), "%s", run->cause.text);
}

/* ---- parts */

static void be_a_part(void)
{
	run->parts = 2;
	run->tiles = run->cpu.tiles = 2 * TILES;
	run->sink_bytes *= 2;
	write_tiles(4, 4, 4);
}

Test(conclude_others, the_sink_of_a_part_stays_incomplete_until_all_are_done)
{
	be_a_part();
	cr_expect_eq(finish((struct hr_run_ending){ 0 }), 0);
	expect_end(HR_RUN_DONE, 0, 4);
	cr_expect_eq(object()->durable_bytes, 4 * UNIT);
	cr_expect(object()->flags & HR_OBJECT_PENDING);
	run->durable_tiles = 0;
	cr_expect_eq(hr_run_finish_part(engine, run), 0);
	expect_end(HR_RUN_DONE, 0, 4);
	cr_expect_not(object()->flags & HR_OBJECT_PENDING);
	cr_expect_eq(hr_run_finish_part(engine, run), -EINVAL, "it is complete");
	expect_end(HR_RUN_FAILED, -EINVAL, 4);
	expect_logged("it cannot be completed");
	cr_expect_eq(hr_run_finish_part(engine, run), 0, "it has failed");
	expect_end(HR_RUN_FAILED, -EINVAL, 4);
}

Test(conclude_others, a_part_that_cannot_be_recorded_has_failed)
{
	be_a_part();
	test_runs_fail(1, 0, 0x281);
	cr_expect_eq(finish((struct hr_run_ending){ 0 }), 0x281);
	expect_end(HR_RUN_FAILED, 0x281, 0);
	expect_logged("its progress cannot be recorded");
	pipeline->has_sink = false;
	status[2].tiles = 4;
	cr_expect_eq(finish((struct hr_run_ending){ 0 }), 0);
	expect_end(HR_RUN_DONE, 0, 0);
	pipeline->objects = 1;
	run->object[0] = (struct hr_run_object){ .used = true, .created = true };
	run->object[0].id = test_runs_put(0, "new", UNIT, 1, false);
	run->outcome = HR_RUN_FAILED;
	cr_expect_eq(hr_run_finish_part(engine, run), 0);
	cr_expect(run->object[0].created);
	run->outcome = HR_RUN_DONE;
	cr_expect_eq(hr_run_finish_part(engine, run), 0);
	cr_expect_not_null(hr_store_find(&engine->ssd[0].store, "new"));
}

/* Its sources are compared by all ranks together, or by itself when they are shards. */
Test(conclude_others, a_part_verifies_only_shards)
{
	be_a_part();
	be_damaged();
	run->source[0].bytes = 2 * TILES * UNIT;
	cr_expect_eq(finish((struct hr_run_ending){ 0 }), 0);
	expect_end(HR_RUN_DONE, 0, 4);
	cr_expect_eq(run->source[0].verify.check, HR_SOURCE_UNREAD);
	run->of_shards = true;
	run->shard_end = 4;
	cr_expect_eq(finish((struct hr_run_ending){ 0 }), -EBADMSG);
	expect_end(HR_RUN_FAILED, -EBADMSG, 0);
}

Test(conclude_others, a_part_is_dropped_with_its_sink)
{
	be_a_part();
	cr_expect_eq(hr_run_drop_part(engine, run, -EBADMSG), -EBADMSG);
	expect_end(HR_RUN_WAITING, 0, 0);
	cr_expect_neq(run->sink_id, 0);
	run->outcome = HR_RUN_DONE;
	cr_expect_eq(hr_run_drop_part(engine, run, -EBADMSG), -EBADMSG);
	expect_end(HR_RUN_FAILED, -EBADMSG, 0);
	cr_expect_eq(run->sink_id, 0);
	run->outcome = HR_RUN_DONE;
	pipeline->has_sink = false;
	cr_expect_eq(hr_run_drop_part(engine, run, -EBADMSG), -EBADMSG);
	cr_expect_eq(run->outcome, HR_RUN_DONE);
}
