/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The merge of three ranks with parts that the test makes: all that finish() gets, all sums, outcomes
 * and checksums, and what rank 0 says about parts that do not fit.
 */
#include "boot/ranks/merge.h"

#include <errno.h>

#include "cache/crc32c.h"
#include "tests/harness/error.h"
#include "tests/harness/ranks_rig.h"

TestSuite(merge_parts, .timeout = 60);

#define TILES 7u

static struct hr_merged merged[RANKS];
static struct hr_pipe pipes[RANKS];
static uint64_t states[RANKS][3];
static uint32_t records[RANKS][TILES], words[RANKS][2][TILES];
static uint64_t results[RANKS][HR_OP_RESULT_MAX / 8];

/* ---- the operator */

static struct hr_op_all finished;
static uint64_t finished_states[8];
static uint32_t finished_records[TILES];
static unsigned finishes, inits;
static bool began_with_zeros;

static void init(const void *args, void *state)
{
	inits++;
	began_with_zeros = state && *(uint64_t *)state == 0;
	*(uint64_t *)state = 1;
}

static void finish(const struct hr_op_all *all)
{
	finishes++;
	finished = *all;
	memcpy(finished_states, all->states, (size_t)all->workers * all->state_bytes);
	memcpy(finished_records, all->records, (size_t)all->tiles * all->record_bytes);
	*(uint64_t *)all->result += 42;
}

static void add(const void *args, void *into, const void *from)
{
	*(uint64_t *)into += *(const uint64_t *)from;
}

static void report(const struct hr_op_all *all, const struct hr_op_report *to)
{
}

static const struct hr_operator
	collects = { .name = "c", .init = init, .finish = finish, .report = report },
	reduces = { .name = "r", .init = init, .finish = finish, .report = report, .merge = add };

/* ---- ranks */

static int fails_on; /* rank whose gpu fails, or -1 */

static int download(struct hr_backend *b, void *cpu, const void *worker, size_t bytes,
		    struct hr_error *e)
{
	if (fails_on >= 0 && b == &engine[fails_on]->backend[1])
		return hr_fail(e, HR_ERROR_DEVICE, -ENODEV, "gpu lost");
	memcpy(cpu, worker, bytes);
	return 0;
}

static const struct hr_backend_ops ops = { .download = download };

/* Rank r has run tiles 0, 1; 2, 3; 4, 5, 6 with r + 1 workers. */
static void make_part(uint32_t r, const struct hr_operator *op)
{
	struct hr_config_pipeline *p = &engine[r]->config.pipeline[0];
	struct hr_run *run = &engine[r]->run[0];

	engine[r]->run[1].selected = engine[r]->run[2].selected = false;
	engine[r]->backend[1].ops = &ops;
	p->gpu = 1;
	p->op = op;
	p->has_sink = false;
	run->tiles = TILES;
	run->part = r;
	run->parts = RANKS;
	run->outcome = HR_RUN_DONE;
	run->done_tiles = 20 + r;
	run->read_bytes = 1000 + r;
	run->started_ns = 500 + r;
	run->ended_ns = run->started_ns + (r == 1 ? 900 : 100);
	run->blocks[HR_ROLE_COMPUTE] = r + 1;
	run->workers[HR_ROLE_COMPUTE] = 1;
	run->pipe = &pipes[r];
	pipes[r] = (struct hr_pipe){ .state_bytes = 8,
				     .record_bytes = 4,
				     .op_states = (uint8_t *)states[r] };
	run->cpu.op_records = (uint8_t *)records[r];
	run->cpu.op_result = (uint8_t *)results[r];
	for (uint32_t s = 0; s < 2; s++) {
		run->cpu.source[s].crc = words[r][s];
		run->layout.source[s].summed = true;
		run->source[s].verify.check = HR_SOURCE_VERIFY_OFF;
	}
	for (uint32_t w = 0; w < 3; w++)
		states[r][w] = 10 * r + w + 1;
	for (uint32_t t = 0; t < TILES; t++) {
		const bool mine = t / 2 == r || (r == 2 && t == 6);

		records[r][t] = mine ? 100 + t : 7;
		for (uint32_t s = 0; s < 2; s++)
			words[r][s][t] = mine ? 1000 * (s + 1) + t : 7;
	}
	memset(results[r], 9, sizeof results[r]);
}

static void begin_parts(const struct hr_operator *op)
{
	begin();
	memset(merged, 0, sizeof merged);
	fails_on = -1;
	finishes = inits = 0;
	for (uint32_t r = 0; r < RANKS; r++)
		make_part(r, op);
}

static void end_parts(void)
{
	for (uint32_t r = 0; r < RANKS; r++)
		hr_merged_free(&merged[r]);
	end();
}

static void merge(struct hr_ranks *ranks, void *to)
{
	const uint32_t r = ranks->rank;

	job[r].ranks = *ranks;
	result[r] = hr_ranks_merge(&job[r], engine[r], &merged[r], &error[r]);
}

static void merge_all(void)
{
	fake_ranks_run(RANKS, FAKE_RANKS_ALL, merge, NULL);
}

/* ---- results */

Test(merge_parts, finish_has_the_states_and_records_of_all)
{
	static const uint64_t want[] = { 1, 11, 12, 21, 22, 23 };
	struct hr_run *run;

	begin_parts(&collects);
	run = &engine[0]->run[0];
	merge_all();
	for (uint32_t r = 0; r < RANKS; r++) {
		cr_expect_eq(result[r], 0, "%s", error[r].text);
		cr_expect_eq(engine[r]->run[0].outcome, HR_RUN_DONE);
		cr_expect_eq(merged[r].pipeline[0].whole, r == 0);
		cr_expect_not(merged[r].pipeline[1].whole);
	}
	cr_expect_eq(finishes, 1u);
	cr_expect_eq(inits, 1u);
	cr_expect(began_with_zeros);
	cr_expect_eq(finished.args, engine[0]->config.pipeline[0].op_args);
	cr_expect_eq(finished.tiles, TILES);
	cr_expect_eq(finished.bytes, 1000u);
	cr_expect_eq(finished.tile_bytes, 64u);
	cr_expect_eq(finished.workers, 6u);
	cr_expect_eq(finished.state_bytes, 8u);
	cr_expect_eq(finished.record_bytes, 4u);
	cr_expect_eq(finished.object_bytes[0], 0u);
	cr_expect_null(finished.scratch);
	cr_expect_eq(finished.result, results[0]);
	cr_expect_eq(memcmp(finished_states, want, sizeof want), 0);
	for (uint32_t t = 0; t < TILES; t++) {
		cr_expect_eq(finished_records[t], 100 + t);
		cr_expect_eq(((uint32_t *)(void *)run->cpu.op_records)[t], 100 + t);
		for (uint32_t s = 0; s < 2; s++)
			cr_expect_eq(run->cpu.source[s].crc[t], 1000 * (s + 1) + t);
	}
	/* the result begins with zeros, and that of other ranks stays */
	cr_expect_eq(results[0][0], 42u);
	cr_expect_eq(results[0][HR_OP_RESULT_MAX / 8 - 1], 0u);
	cr_expect_eq(results[1][0], 0x0909090909090909u);
	cr_expect_eq(run->done_tiles, 63u);
	cr_expect_eq(run->read_bytes, 3003u);
	cr_expect_eq(run->started_ns, 500u);
	cr_expect_eq(run->ended_ns, 1400u);
	cr_expect_eq(run->durable_tiles, 0u);
	cr_expect_eq(engine[1]->run[0].done_tiles, 21u);
	cr_expect(run->sink_merged);
	end_parts();
}

Test(merge_parts, states_that_merge_become_one)
{
	begin_parts(&reduces);
	merge_all();
	for (uint32_t r = 0; r < RANKS; r++)
		cr_expect_eq(result[r], 0, "%s", error[r].text);
	cr_expect_eq(finishes, 1u);
	cr_expect_eq(finished.workers, 1u);
	cr_expect_eq(finished_states[0], 1u + 11 + 12 + 21 + 22 + 23);
	for (uint32_t t = 0; t < TILES; t++)
		cr_expect_eq(finished_records[t], 100 + t);
	end_parts();
}

/* An operator that only writes its sink, and a run that was complete before. */
Test(merge_parts, runs_without_a_result)
{
	static const struct hr_operator writes = { .name = "w", .finish = finish };

	for (int complete = 0; complete < 2; complete++) {
		begin_parts(complete ? &collects : &writes);
		for (uint32_t r = 0; r < RANKS; r++) {
			engine[r]->run[0].outcome = complete ? HR_RUN_COMPLETE : HR_RUN_DONE;
			if (complete)
				engine[r]->run[0].started_ns = engine[r]->run[0].ended_ns = 0;
		}
		merge_all();
		cr_expect_eq(result[0], 0, "%s", error[0].text);
		cr_expect_eq(finishes, 0u);
		cr_expect_eq(engine[0]->run[0].cpu.op_records, (uint8_t *)records[0]);
		cr_expect_eq(engine[0]->run[0].ended_ns, complete ? 0u : 1400u);
		cr_expect_eq(results[0][0], 0x0909090909090909u);
		end_parts();
	}
}

/* A source without checksums on one rank, because it has resumed, has none on any. */
Test(merge_parts, checksums_that_one_rank_lacks)
{
	for (int way = 0; way < 3; way++) {
		begin_parts(&collects);
		for (uint32_t r = 0; r < RANKS; r++)
			engine[r]->run[0].source[1].verify.check = HR_SOURCE_UNREAD;
		if (way == 1)
			engine[0]->run[0].source[1].verify.check = HR_SOURCE_NO_CHECKSUM;
		engine[2]->run[0].layout.source[1].summed = way == 2;
		engine[2]->run[0].layout.source[0].summed = way != 2;
		merge_all();
		cr_expect_eq(result[0] != 0, way == 2);
		cr_expect_eq(engine[0]->run[0].cpu.source[0].crc == words[0][0], way == 2);
		cr_expect_eq(engine[0]->run[0].cpu.source[1].crc == words[0][1], way != 2);
		for (uint32_t r = 0; way < 2 && r < RANKS; r++) {
			cr_expect_eq(engine[r]->run[0].source[1].verify.check,
				     way == 1 && r == 0 ? HR_SOURCE_NO_CHECKSUM : HR_SOURCE_RESUMED,
				     "%d %u", way, r);
			cr_expect_eq(engine[r]->run[0].source[0].verify.check,
				     HR_SOURCE_VERIFY_OFF);
		}
		end_parts();
	}
}

/* ---- outcomes */

Test(merge_parts, the_run_ends_as_that_of_the_first_rank_that_has_not_succeeded)
{
	static const struct {
		enum hr_outcome outcome[RANKS], want;
		int error;
		const char *cause;
	} row[] = {
		{ { HR_RUN_DONE, HR_RUN_FAILED, HR_RUN_INTERRUPTED },
		  HR_RUN_FAILED,
		  -ECANCELED,
		  "pipeline 't' has not succeeded on rank 1" },
		{ { HR_RUN_DONE, HR_RUN_INTERRUPTED, HR_RUN_FAILED },
		  HR_RUN_INTERRUPTED,
		  -EINTR,
		  "pipeline 't' has not succeeded on rank 1" },
		{ { HR_RUN_COMPLETE, HR_RUN_DONE, HR_RUN_FAILED },
		  HR_RUN_FAILED,
		  -ECANCELED,
		  "pipeline 't' has not succeeded on rank 2" },
		{ { HR_RUN_DONE, HR_RUN_WAITING, HR_RUN_DONE },
		  HR_RUN_FAILED,
		  -ECANCELED,
		  "pipeline 't' has not succeeded on rank 1" },
		{ { HR_RUN_FAILED, HR_RUN_INTERRUPTED, HR_RUN_DONE }, HR_RUN_FAILED, 0, "" },
		{ { HR_RUN_INTERRUPTED, HR_RUN_FAILED, HR_RUN_DONE }, HR_RUN_INTERRUPTED, 0, "" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_run *run;

		begin_parts(&collects);
		run = &engine[0]->run[0];
		for (uint32_t r = 0; r < RANKS; r++)
			engine[r]->run[0].outcome = row[i].outcome[r];
		merge_all();
		for (uint32_t r = 0; r < RANKS; r++) {
			cr_expect_eq(result[r], 0, "row %zu", i);
			cr_expect_not(merged[r].pipeline[0].whole);
			cr_expect(r == 0 || engine[r]->run[0].outcome == row[i].outcome[r]);
		}
		cr_expect_eq(run->outcome, row[i].want, "row %zu", i);
		cr_expect_eq(run->error, row[i].error, "row %zu", i);
		cr_expect_str_eq(run->cause.text, row[i].cause, "row %zu", i);
		cr_expect(!run->cause.kind || run->cause.printed);
		cr_expect_eq(finishes, 0u);
		cr_expect_eq(run->done_tiles, 63u);
		cr_expect_not(run->sink_merged);
		end_parts();
	}
}

Test(merge_parts, a_gpu_that_fails_leaves_no_result)
{
	for (fails_on = 0; fails_on < 3; fails_on++) {
		const int failed = fails_on;

		begin_parts(failed == 1 ? &reduces : &collects);
		fails_on = failed;
		merge_all();
		for (int r = 0; r < (int)RANKS; r++) {
			cr_expect_eq(result[r], r == failed ? -ENODEV : -ECANCELED);
			cr_expect_eq(error[r].kind, HR_ERROR_DEVICE);
			cr_expect_eq(engine[r]->run[0].outcome, HR_RUN_FAILED);
			cr_expect_eq(engine[r]->run[0].error, result[r]);
			cr_expect_str_eq(engine[r]->run[0].cause.text, error[r].text);
			cr_expect_not(merged[r].pipeline[0].whole);
		}
		cr_expect_str_eq(error[failed].text, "gpu lost");
		cr_expect_eq(finishes, 0u);
		end_parts();
	}
}

/* Of a later run that made its sink from damaged data, and of others. The sink is unknown to the
 * store. */
Test(merge_parts, only_a_sink_of_damaged_data_is_dropped)
{
	static const struct {
		int from[2];
		bool dropped;
	} row[] = {
		{ { -1, -1 }, false }, { { 2, -1 }, false }, { { -1, 2 }, false },
		{ { 0, -1 }, true },   { { -1, 0 }, true },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		begin_parts(&collects);
		fails_on = 1;
		for (uint32_t r = 0; r < RANKS; r++) {
			struct hr_run *later = &engine[r]->run[1];

			engine[r]->run[0].error = -EBADMSG;
			engine[r]->config.pipeline[1].has_sink = true;
			later->selected = true;
			later->outcome = HR_RUN_DONE;
			later->sink_id = 99;
			for (uint32_t s = 0; s < 2; s++)
				later->source[s].writer = row[i].from[s];
		}
		merge_all();
		for (uint32_t r = 0; r < RANKS; r++) {
			const struct hr_run *later = &engine[r]->run[1];

			cr_expect_eq(result[r], r == 1 ? -ENODEV : -ECANCELED);
			cr_expect_eq(later->outcome, HR_RUN_FAILED);
			cr_expect_eq(later->error, row[i].dropped ? -EBADMSG : result[r],
				     "row %zu, rank %u", i, r);
		}
		end_parts();
	}
}

/* ---- parts that do not fit */

Test(merge_parts, parts_that_do_not_fit_are_named)
{
	static const struct {
		uint32_t rank, part, parts;
		uint32_t state_bytes, record_bytes;
		const char *want;
	} row[] = {
		{ 1, 0, 3, 8, 4, "1 has tiles 0 to 2, expected the tiles after 2" },
		{ 1, 2, 3, 8, 4, "1 has tiles 4 to 7, expected the tiles after 2" },
		{ 0, 1, 3, 8, 4, "0 has tiles 2 to 4, expected the tiles after 0" },
		{ 2, 1, 3, 8, 4, "2 has tiles 2 to 4, expected the tiles after 4" },
		{ 1, 1, 3, 16, 4, "1 has tiles 2 to 4, expected the tiles after 2" },
		{ 2, 2, 3, 8, 8, "2 has tiles 4 to 7, expected the tiles after 4" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		char want[256];

		begin_parts(&collects);
		engine[row[i].rank]->run[0].part = row[i].part;
		engine[row[i].rank]->run[0].parts = row[i].parts;
		pipes[row[i].rank].state_bytes = row[i].state_bytes;
		pipes[row[i].rank].record_bytes = row[i].record_bytes;
		merge_all();
		snprintf(want, sizeof want,
			 "pipeline 't': rank %s with the same states and records", row[i].want);
		cr_expect_str_eq(error[0].text, want, "row %zu: %s", i, error[0].text);
		cr_expect_eq(result[0], -EPROTO, "row %zu", i);
		cr_expect_eq(result[1], -ECANCELED);
		cr_expect_eq(error[2].kind, HR_ERROR_FAILED);
		cr_expect_eq(finishes, 0u);
		end_parts();
	}
}

/* Rank 1 has no tiles, which is a part; then one that ends before it begins. */
Test(merge_parts, a_part_may_be_empty_but_not_less)
{
	for (int less = 0; less < 2; less++) {
		begin_parts(&collects);
		for (uint32_t r = 0; r < RANKS; r++) {
			engine[r]->run[0].of_shards = true;
			engine[r]->run[0].shard_begin = r ? 4 : 0;
			engine[r]->run[0].shard_end = r == 2 ? TILES : 4;
		}
		if (less)
			engine[1]->run[0].shard_end = 3;
		merge_all();
		cr_expect_eq(result[0], less ? -EPROTO : 0, "%s", error[0].text);
		cr_expect_eq(finishes, less ? 0u : 1u);
		if (less)
			cr_expect_str_eq(
				error[0].text,
				"pipeline 't': rank 1 has tiles 4 to 3, expected the tiles "
				"after 4 with the same states and records");
		end_parts();
	}
}

/* ---- shards */

/* Sources that are shards of a data set each, verified by their ranks; and complete sinks. */
static void make_shard(uint32_t r)
{
	static const uint64_t cut[] = { 0, 200, 500, 600 };
	struct hr_config_pipeline *p = &engine[r]->config.pipeline[0];
	struct hr_run *run = &engine[r]->run[0];

	p->has_sink = true;
	p->sink.ssd = 1;
	run->of_shards = true;
	run->shard_begin = 2 * r;
	run->shard_end = r == 2 ? TILES : 2 * r + 2;
	run->durable_tiles = run->shard_end;
	run->sink_tile_bytes = 100;
	run->sink_bytes = 650;
	run->outcome = HR_RUN_COMPLETE;
	run->sink_id = 3;
	for (uint32_t s = 0; s < 2; s++) {
		uint8_t data[600];

		memset(data, (int)s + 1, sizeof data);
		run->source[s].held = cut[r + 1] - cut[r];
		run->source[s].verify.found = hr_crc32c(0, data + cut[r], cut[r + 1] - cut[r]);
		run->source[s].verify.check = HR_SOURCE_VERIFIED;
	}
	engine[r]->ssd[1].store.object[2].flags = HR_OBJECT_HAS_CRC;
	engine[r]->ssd[1].store.object[2].crc = 0x1000 + r;
}

Test(merge_parts, checksums_of_shards_are_joined)
{
	uint8_t data[600];
	uint32_t sink = 0;

	for (int wrong = 0; wrong < 2; wrong++) {
		struct hr_run *run;

		begin_parts(&collects);
		for (uint32_t r = 0; r < RANKS; r++)
			make_shard(r);
		run = &engine[0]->run[0];
		run->source[0].verify.expected = run->source[1].verify.expected = 5;
		engine[1]->run[0].source[1].verify.check =
			wrong ? HR_SOURCE_NO_CHECKSUM : HR_SOURCE_VERIFIED;
		merge_all();
		for (uint32_t r = 0; r < RANKS; r++)
			cr_expect_eq(result[r], 0, "%s", error[r].text);
		for (uint32_t s = 0; s < 2; s++) {
			uint32_t want;

			memset(data, (int)s + 1, sizeof data);
			want = hr_crc32c(0, data, sizeof data);
			cr_expect_eq(run->source[s].verify.expected, wrong && s ? 5u : want, "%u",
				     s);
			cr_expect(wrong || run->source[s].verify.found == want);
		}
		sink = hr_crc32c_combine(0x1000, 0x1001, 200);
		sink = hr_crc32c_combine(sink, 0x1002, 250);
		cr_expect_eq(run->sink_crc, sink);
		cr_expect(run->sink_merged);
		cr_expect_not(engine[1]->run[0].sink_merged);
		cr_expect_eq(run->durable_tiles, TILES);
		cr_expect_eq(engine[1]->run[0].durable_tiles, 4u);
		cr_expect(merged[0].pipeline[0].whole);
		end_parts();
	}
}
