/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks before a job runs: appliances of three ranks, of which one has other work, and the lines
 * that rank 0 has for it.
 */
#include "boot/engine/objects/new_objects.h"
#include "boot/ranks/agree.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/bringup/sinks.h"
#include "tests/harness/error.h"
#include "tests/harness/ranks_rig.h"
#include "tests/harness/store.h"

TestSuite(same, .timeout = 60);

/* ---- differences */

/* Of the appliance `a`, its pipelines `p`, and their runs `run`. */
#define CHANGE(name, statement)                                    \
	static void name(struct hr_engine *a)                      \
	{                                                          \
		struct hr_config_pipeline *p = a->config.pipeline; \
		struct hr_run *run = a->run;                       \
                                                                   \
		(void)p;                                           \
		(void)run;                                         \
		statement;                                         \
	}

CHANGE(pipeline_name, p[1].name[0] = 'S')
CHANGE(operator_name, p[0].op = &other)
CHANGE(name_and_operator, (p[0].name[1] = 's', p[0].op = &tream))
CHANGE(argument, p[0].op_args[2] = 1)
CHANGE(arguments, p[0].op_args_bytes = 2)
CHANGE(sources, p[0].sources = 1)
CHANGE(verify, p[2].verify = HR_VERIFY_ON)
CHANGE(shard, p[1].shard = HR_SHARD_TILES)
CHANGE(tile_0, run[0].source[0].tile_bytes = 128)
CHANGE(tile_1, run[1].source[1].tile_bytes = 64)
CHANGE(object_left_out, run[2].object[3].used = false)
CHANGE(object_new, p[2].object[3].bytes = 600)
CHANGE(selected_shard, run[3].selected = true)
CHANGE(not_selected, run[2].selected = false)
CHANGE(selected, run[3].selected = true)
CHANGE(bytes_0, run[0].source[0].bytes = 999)
CHANGE(bytes_1, run[0].source[1].bytes = 999)
CHANGE(bytes_both, (bytes_0(a), bytes_1(a)))
CHANGE(crc, a->ssd[0].store.object[0].crc = 0xab1)
CHANGE(crc_1, a->ssd[1].store.object[1].crc = 0xab5)
CHANGE(no_crc, a->ssd[1].store.object[1].flags = HR_OBJECT_PENDING)
CHANGE(no_crc_object, a->ssd[1].store.count = 1)
CHANGE(object_bytes, run[2].object[3].bytes = 601)
CHANGE(object_first, run[2].object[0].bytes = 0)
CHANGE(object_is_shard, (run[2].object[0].is_shard = true, run[2].object[0].shard = shard_of(1, 8)))
CHANGE(written_is_whole, run[2].object[1].is_shard = false)
CHANGE(written_rows, run[2].object[1].bytes -= ROW)
CHANGE(written_row, run[2].object[1].shard.row_bytes = 8)
CHANGE(source_is_shard, (run[0].source[1].is_shard = true,
			 run[0].source[1].shard = (struct hr_store_shard){ .index = 4, .last = 9 }))
CHANGE(no_shard, run[1].source[0].is_shard = false)
CHANGE(other_set, run[1].source[1].shard.set = 8)
CHANGE(fewer_rows, run[1].source[1].held -= 2 * ROW)
CHANGE(tile_within, (run[1].source[0].tile_bytes = 12 * ROW))
CHANGE(agree, run[1].source[1].tile_bytes = 4 * ROW)
CHANGE(sink_store, a->ssd[1].store.uuid[15] = 5 + 2)
CHANGE(object_store, a->ssd[0].store.uuid[15] = 2)
CHANGE(long_names, (memset(p[1].name, 'p', HR_NAME_MAX - 1),
		    memset(p[1].source[0].object, 'o', HR_NAME_MAX - 1), no_shard(a)))
CHANGE(long_object, (memset(p[2].name, 'p', HR_NAME_MAX - 1),
		     memset(p[2].object[1].object, 'o', HR_NAME_MAX - 1), written_rows(a)))

#define DIFFERS(line, name)                                           \
	"f:" line ": pipeline '" name                                 \
	"' of rank 2 differs from that of rank 0 in name, operator, " \
	"arguments, tile, shard or verify"

/* The longest names. */
#define LONG_P "ppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp"
#define LONG_O "ooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooo"

static const struct difference {
	void (*change)(struct hr_engine *a);
	int rank; /* -1: all */
	const char *want;
} difference[] = {
	{ pipeline_name, 2, DIFFERS("30", "s") },
	{ operator_name, 2, DIFFERS("20", "t") },
	{ name_and_operator, 2, DIFFERS("20", "t") },
	{ argument, 2, DIFFERS("20", "t") },
	{ arguments, 2, DIFFERS("20", "t") },
	{ sources, 2, DIFFERS("20", "t") },
	{ verify, 2, DIFFERS("40", "a") },
	{ shard, 2, DIFFERS("30", "s") },
	{ tile_0, 2, DIFFERS("20", "t") },
	{ tile_1, 2, DIFFERS("30", "s") },
	{ object_left_out, 2, DIFFERS("40", "a") },
	{ object_new, 2, DIFFERS("40", "a") },
	{ not_selected, 2, "pipeline 'a' is selected on rank 0 only" },
	{ selected, 1, "pipeline 'u' is selected on rank 1 only" },
	{ bytes_0, 1,
	  "pipeline 't': object 'in' on ssd 'a' has 999 bytes on rank 1, but 1000 on "
	  "rank 0" },
	{ bytes_1, 2,
	  "pipeline 't': object 'date' on ssd 'b' has 999 bytes on rank 2, but 1001 "
	  "on rank 0" },
	{ bytes_both, 2,
	  "pipeline 't': object 'in' on ssd 'a' has 999 bytes on rank 2, but 1000 on "
	  "rank 0\n"
	  "pipeline 't': object 'date' on ssd 'b' has 999 bytes on rank 2, but 1001 "
	  "on rank 0" },
	{ bytes_both, 0,
	  "pipeline 't': object 'in' on ssd 'a' has 1000 bytes on rank 1, but 999 on "
	  "rank 0\n"
	  "pipeline 't': object 'date' on ssd 'b' has 1001 bytes on rank 1, but 999 "
	  "on rank 0" },
	{ crc, 1,
	  "pipeline 't': object 'in' on ssd 'a' has CRC-32C 00000ab1 on rank 1, but "
	  "CRC-32C 00000ab0 on rank 0\n"
	  "pipeline 'a': object 'w' on ssd 'a' has CRC-32C 00000ab1 on rank 1, but "
	  "CRC-32C 00000ab0 on rank 0" },
	{ crc_1, 2,
	  "pipeline 't': object 'date' on ssd 'b' has CRC-32C 00000ab5 on rank 2, but "
	  "CRC-32C 00000ab1 on rank 0\n"
	  "pipeline 'a': object 'v' on ssd 'b' has CRC-32C 00000ab5 on rank 2, but "
	  "CRC-32C 00000ab1 on rank 0" },
	{ no_crc, 2,
	  "pipeline 't': object 'date' on ssd 'b' has no CRC-32C on rank 2, but "
	  "CRC-32C 00000ab1 on rank 0\n"
	  "pipeline 'a': object 'v' on ssd 'b' has no CRC-32C on rank 2, but CRC-32C "
	  "00000ab1 on rank 0" },
	{ no_crc_object, 0,
	  "pipeline 't': object 'date' on ssd 'b' has CRC-32C 00000ab1 on rank 1, but "
	  "no CRC-32C on rank 0\n"
	  "pipeline 'a': object 'v' on ssd 'b' has CRC-32C 00000ab1 on rank 1, but no "
	  "CRC-32C on rank 0" },
	{ object_bytes, 2,
	  "pipeline 'a': object 'v' on ssd 'b' has 601 bytes on rank 2, but 600 on "
	  "rank 0" },
	{ object_first, 1,
	  "pipeline 'a': object 'w' on ssd 'a' has 0 bytes on rank 1, but 500 on rank 0" },
	{ object_is_shard, 1,
	  "pipeline 'a': object 'w' of rank 0 is no shard; expected one that 'store "
	  "put --shard 0/3' or a pipeline with shard has written" },
	{ object_is_shard, 0,
	  "pipeline 'a': object 'w' of rank 1 is no shard; expected one that 'store "
	  "put --shard 1/3' or a pipeline with shard has written" },
	{ written_is_whole, 2,
	  "pipeline 'a': object 'r' of rank 2 is no shard; expected one that 'store "
	  "put --shard 2/3' or a pipeline with shard has written" },
	{ written_rows, 1,
	  "pipeline 'a': object 'r': rows 19 to 19 are missing: rank 2 has rows 20 to "
	  "29" },
	{ written_row, 1,
	  "pipeline 'a': object 'r': rank 1 has rows 8 to 31 of 8 bytes each, but a "
	  "row of rank 0 has 16 bytes" },
	{ source_is_shard, 0,
	  "f:20: pipeline 't': object 'date' of rank 0 is shard 4 of 10 of a data "
	  "set; expected shard = \"objects\"" },
	{ source_is_shard, 2,
	  "f:20: pipeline 't': object 'date' of rank 2 is shard 4 of 10 of a data "
	  "set; expected shard = \"objects\"" },
	{ no_shard, 1,
	  "pipeline 's': object 'x' of rank 1 is no shard; expected one that 'store "
	  "put --shard 1/3' or a pipeline with shard has written" },
	{ other_set, 2,
	  "pipeline 's': object 'y': rank 2 has rows 20 to 29 of another data set "
	  "(0000000000000008, 30 rows) than rank 0 (0000000000000007, 30 rows)" },
	{ fewer_rows, 1,
	  "pipeline 's': object 'y': rows 19 to 19 are missing: rank 2 has rows 20 to "
	  "29" },
	{ tile_within, -1,
	  "pipeline 's': object 'x': rows 8 to 19 of rank 1 begin within a tile of "
	  "192 bytes; expected --tile-rows of 'store put' to be a multiple of the 12 "
	  "rows of a tile, or a tile that divides it" },
	{ agree, -1,
	  "pipeline 's': rank 1 has object 'x' from row 8, tile 2, but 'y' from row "
	  "8, tile 4" },
	{ sink_store, 2,
	  "f:23: pipeline 't': the sink on ssd 'b' of ranks 1 and 2 is in the same "
	  "store; expected an ssd for each rank, as with ${rank} in its device" },
	{ sink_store, 0,
	  "f:23: pipeline 't': the sink on ssd 'b' of ranks 0 and 1 is in the same "
	  "store; expected an ssd for each rank, as with ${rank} in its device" },
	{ object_store, 2,
	  "f:42: pipeline 'a': r on ssd 'a' of ranks 1 and 2 is in the same store; "
	  "expected an ssd for each rank, as with ${rank} in its device" },
	{ object_store, 0,
	  "f:42: pipeline 'a': r on ssd 'a' of ranks 0 and 1 is in the same store; "
	  "expected an ssd for each rank, as with ${rank} in its device" },
	{ selected_shard, -1,
	  "f:50: pipeline 'u': object 'in' of rank 0 is shard 0 "
	  "of 1 of a data set; expected shard = \"objects\"" },
	{ long_names, -1,
	  "pipeline '" LONG_P "': object '" LONG_O "' of rank 0 is no shard; expected one that "
	  "'store put --shard 0/3' or a pipeline with shard has written" },
	{ long_object, -1,
	  "pipeline '" LONG_P "': object '" LONG_O "': rows 7 to 7 are missing: rank 1 has rows 8 "
	  "to 18" },
};

Test(same, each_difference_is_named)
{
	for (size_t i = 0; i < sizeof difference / sizeof *difference; i++) {
		begin();
		for (uint32_t r = 0; r < RANKS; r++)
			if (difference[i].rank < 0 || difference[i].rank == (int)r)
				difference[i].change(engine[r]);
		fake_ranks_run(RANKS, FAKE_RANKS_ALL, same, NULL);
		cr_expect_str_eq(error[0].text, difference[i].want, "row %zu: %s", i,
				 error[0].text);
		for (uint32_t r = 0; r < RANKS; r++) {
			cr_expect_eq(error[r].kind, HR_ERROR_USAGE, "row %zu", i);
			cr_expect_eq(result[r], r ? -ECANCELED : -EINVAL, "row %zu", i);
		}
		end();
	}
}

/* Ranks that agree, with what need not be the same. */
Test(same, ranks_with_the_same_work)
{
	begin();
	engine[1]->run[0].source[0].id = 2; /* the same CRC-32C in another place */
	engine[1]->ssd[0].store.object[1].crc = 0xab0;
	engine[2]->run[1].source[0].bytes = 1; /* of shards, their rows count */
	engine[2]->run[1].source[1].id = 1;
	engine[2]->run[2].object[1].id = 1;
	engine[1]->config.pipeline[0].line = 1;
	engine[1]->config.pipeline[0].op_args[3] = 1; /* beyond the arguments */
	engine[0]->run[2].tiles = 4;
	engine[1]->run[2].object[2].bytes = 9; /* it is left out */
	fake_ranks_run(RANKS, FAKE_RANKS_ALL, same, NULL);
	for (uint32_t r = 0; r < RANKS; r++)
		cr_expect_eq(result[r], 0, "%s", error[r].text);
	/* one rank has nothing to compare with: not its shards, and not its stores */
	no_shard(engine[0]);
	memset(job, 0, sizeof job);
	fake_ranks_run(1, FAKE_RANKS_ALL, same, NULL);
	cr_expect_eq(result[0], 0, "%s", error[0].text);
	source_is_shard(engine[0]);
	fake_ranks_run(1, FAKE_RANKS_ALL, same, NULL);
	cr_expect_str_eq(
		error[0].text,
		"f:20: pipeline 't': object 'date' of rank 0 is shard 4 of 10 of a data set; "
		"expected shard = \"objects\"");
	end();
}

/* Two ranks are enough for a conflict. */
Test(same, two_ranks_with_one_store)
{
	begin();
	for (uint32_t r = 0; r < 2; r++) {
		engine[r]->run[1].selected = engine[r]->run[2].selected = false;
		sink_store(engine[r]);
	}
	fake_ranks_run(2, FAKE_RANKS_ALL, same, NULL);
	cr_expect_str_eq(error[0].text,
			 "f:23: pipeline 't': the sink on ssd 'b' of ranks 0 and 1 is in the same "
			 "store; expected an ssd for each rank, as with ${rank} in its device");
	end();
}

/* Two ranks differ: lines about the first of them. */
Test(same, the_first_rank_that_differs)
{
	begin();
	bytes_0(engine[1]);
	verify(engine[1]);
	bytes_1(engine[2]);
	fake_ranks_run(RANKS, FAKE_RANKS_ALL, same, NULL);
	cr_expect_str_eq(
		error[0].text,
		"pipeline 't': object 'in' on ssd 'a' has 999 bytes on rank 1, but 1000 on "
		"rank 0\nf:40: pipeline 'a' of rank 1 differs from that of rank 0 in name, "
		"operator, arguments, tile, shard or verify");
	end();
}

/* ---- ranks with other pipelines, or of another version */

static const uint64_t *sent;
static uint64_t sent_bytes;

/* Rank 1 sends that instead of its work. */
static void send(struct hr_ranks *ranks, void *to)
{
	const uint32_t r = ranks->rank;
	struct hr_collected all;

	if (r != 1) {
		same(ranks, to);
		return;
	}
	job[r].ranks = *ranks;
	result[r] = hr_job_collect(&job[r], sent, sent_bytes, &all, &error[r]);
	hr_collected_free(&all);
	result[r] = hr_job_agree(&job[r], result[r], &error[r]);
}

Test(same, ranks_of_another_version)
{
	static const struct {
		uint64_t bytes, data[1];
		const char *want;
	} row[] = {
		{ 0, { 0 }, "rank 1 runs another version of headrace than rank 0" },
		{ 7, { 0 }, "rank 1 runs another version of headrace than rank 0" },
		{ 8, { 1 }, "rank 1 runs another version of headrace than rank 0" },
		{ 8, { 4 }, "rank 1 runs another version of headrace than rank 0" },
		{ 8, { 17 }, "rank 1 runs another version of headrace than rank 0" },
		{ 8, { UINT64_MAX }, "rank 1 runs another version of headrace than rank 0" },
		{ 8, { 0 }, "f: rank 1 has 0 pipelines, but rank 0 has 4" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		begin();
		sent = row[i].data;
		sent_bytes = row[i].bytes;
		fake_ranks_run(RANKS, FAKE_RANKS_ALL, send, NULL);
		cr_expect_str_eq(error[0].text, row[i].want, "row %zu: %s", i, error[0].text);
		cr_expect_eq(result[0], i == 6 ? -EINVAL : -EPROTO, "row %zu", i);
		cr_expect_eq(error[2].kind, HR_ERROR_USAGE, "row %zu", i);
		end();
	}
}

/* All lengths fit: the longest configuration there is. */
Test(same, as_many_pipelines_as_there_can_be)
{
	begin();
	for (uint32_t r = 0; r < RANKS; r++) {
		engine[r]->config.pipelines = HR_PIPELINES_MAX;
		engine[r]->run[0].selected = engine[r]->run[1].selected = false;
		engine[r]->run[2].selected = false;
		make_tiles(&engine[r]->config.pipeline[HR_PIPELINES_MAX - 1],
			   &engine[r]->run[HR_PIPELINES_MAX - 1]);
		engine[r]->run[HR_PIPELINES_MAX - 1].config =
			&engine[r]->config.pipeline[HR_PIPELINES_MAX - 1];
		engine[r]->run[HR_PIPELINES_MAX - 1].selected = true;
	}
	fake_ranks_run(RANKS, FAKE_RANKS_ALL, same, NULL);
	cr_expect_eq(result[0], 0, "%s", error[0].text);
	engine[2]->run[HR_PIPELINES_MAX - 1].source[1].bytes = 2;
	fake_ranks_run(RANKS, FAKE_RANKS_ALL, same, NULL);
	cr_expect_str_eq(error[0].text, "pipeline '': object 'date' on ssd 'b' has 2 bytes on "
					"rank 2, but 1001 on rank 0");
	end();
}

/* ---- what ranks do not run, and the part of each */

Test(same, each_pipeline_that_ranks_do_not_run_has_a_line)
{
	struct hr_engine *a = make(0);
	struct hr_config_pipeline *p = a->config.pipeline;

	cr_expect_eq(hr_ranks_check(a, test_error()), 0);
	cr_expect_str_eq(test_error_text(), "");
	p[0].shard = HR_SHARD_NONE;
	p[1].tap.name[0] = 't';
	p[1].feed.name[0] = 'f';
	p[2].shard = HR_SHARD_NONE;
	p[3].shard = HR_SHARD_NONE; /* not selected */
	a->run[4].config = &p[4];   /* not of the configuration */
	a->run[4].selected = true;
	cr_expect_eq(hr_ranks_check(a, test_error()), -EINVAL);
	cr_expect_eq(test_error_kind(), HR_ERROR_USAGE);
	cr_expect_str_eq(
		test_error_text(),
		"f:20: pipeline 't': with --mpi each pipeline needs shard = \"tiles\" or "
		"\"objects\"\n"
		"f:30: pipeline 's': a tap is not possible on several ranks\n"
		"f:40: pipeline 'a': with --mpi each pipeline needs shard; expected shard = "
		"\"objects\"");
	p[0].shard = HR_SHARD_TILES;
	p[1].tap.name[0] = '\0';
	p[2].op = &whole_op;
	a->run[3].selected = true;
	p[3].shard = HR_SHARD_OBJECTS;
	cr_expect_eq(hr_ranks_check(a, test_error()), -EINVAL);
	cr_expect_str_eq(test_error_text(),
			 "f:30: pipeline 's': a feed is not possible on several ranks\n"
			 "f:40: pipeline 'a': its operator does not divide its work over ranks");
	free(a);
}

Test(same, each_rank_has_a_part_and_a_name)
{
	struct hr_engine *a = make(0);
	const struct hr_ranks ranks = { .rank = 17, .size = 40 };

	memset(a->config.name, 'n', sizeof a->config.name);
	strcpy(a->config.name, "lake");
	hr_ranks_divide(a, &ranks);
	cr_expect_str_eq(a->config.name, "lake.17");
	for (uint32_t i = 0; i < HR_PIPELINES_MAX; i++) {
		cr_expect_eq(a->run[i].part, i < 4 ? 17u : 0u);
		cr_expect_eq(a->run[i].parts, i < 4 ? 40u : 0u);
	}
	/* the longest name that has space for the rank, and one that has not */
	memset(a->config.name, 'n', 61);
	a->config.name[60] = '\0';
	hr_ranks_divide(a, &ranks);
	cr_expect_eq(strlen(a->config.name), 63u);
	cr_expect_str_eq(a->config.name + 59, "n.17");
	memset(a->config.name, 'n', 61);
	a->config.name[61] = '\0';
	hr_ranks_divide(a, &ranks);
	cr_expect_eq(strlen(a->config.name), 61u);
	free(a);
}

/* ---- the sinks of all ranks */

static struct fake_store sinks[2];
static int report_calls;

static void report(const struct hr_op_all *all, const struct hr_op_report *to)
{
	report_calls++;
}

static const struct hr_operator reports = {
	.name = "reports", .out_num = 1, .out_den = 1, .several_ranks = true, .report = report
};

static const struct hr_operator quiet = { .name = "reports", .out_num = 1, .out_den = 1 };

static void check_sinks(struct hr_ranks *ranks, void *to)
{
	const uint32_t r = ranks->rank;

	job[r].ranks = *ranks;
	result[r] = hr_ranks_sinks(&job[r], engine[r], &error[r]);
}

/* Two ranks with a sink each, which is complete or not. */
static void begin_sinks(bool first, bool second)
{
	begin();
	for (uint32_t r = 0; r < 2; r++) {
		struct hr_engine *a = engine[r];
		struct hr_run *run = &a->run[0];
		struct hr_store_object *object;

		fake_store_init(&sinks[r], 4096);
		for (uint32_t i = 1; i < 4; i++)
			a->run[i].selected = false;
		a->ssd[1].store = sinks[r].store;
		a->ssd[1].has_store = true;
		a->config.pipeline[0].op = &reports;
		a->config.pipeline[0].sources = 0;
		run->tiles = 2;
		run->sink_bytes = 2ull * HR_STORE_ALIGN;
		run->sink_tile_bytes = HR_STORE_ALIGN;
		cr_assert_eq(hr_sinks_check(a), 0, "%s", a->error.text);
		cr_expect_eq(run->sink_plan, HR_SINK_CREATE);
		if (r ? !second : !first)
			continue;
		cr_assert_eq(hr_store_create(&a->ssd[1].store, "out", run->sink_bytes,
					     hr_sink_tag(run->fingerprint, false), true, &object,
					     NULL),
			     0);
		cr_assert_eq(hr_store_finish(&a->ssd[1].store, object->id, false, 0, NULL), 0);
	}
}

static void end_sinks(void)
{
	for (uint32_t r = 0; r < 2; r++)
		fake_store_fini(&sinks[r]);
	end();
}

Test(same, a_sink_that_is_not_complete_makes_all_run_again)
{
	for (int first = 0; first < 2; first++)
		for (int second = 0; second < 2; second++) {
			begin_sinks(first, second);
			fake_ranks_run(2, FAKE_RANKS_ALL, check_sinks, NULL);
			for (uint32_t r = 0; r < 2; r++) {
				cr_expect_eq(result[r], 0, "%s", error[r].text);
				cr_expect_eq(engine[r]->run[0].sink_plan, (r ? second : first)
										  ? HR_SINK_COMPLETE
										  : HR_SINK_CREATE);
				cr_expect_eq(engine[r]->run[0].create_again, !first || !second,
					     "%d %d", first, second);
				cr_expect_not(engine[r]->run[3].create_again);
			}
			cr_expect_eq(fake_ranks_calls(), 2u); /* checks, then one sink */
			end_sinks();
		}
}

/* Neither a run without a result, nor one without a sink, nor one that is not selected. */
Test(same, runs_that_need_not_be_together)
{
	for (int way = 0; way < 3; way++) {
		begin_sinks(false, true);
		for (uint32_t r = 0; r < 2; r++) {
			struct hr_config_pipeline *p = engine[r]->config.pipeline;

			if (way == 0)
				p->op = &quiet;
			else if (way == 1)
				p->has_sink = false;
			else
				engine[r]->run[0].selected = false;
		}
		fake_ranks_run(2, FAKE_RANKS_ALL, check_sinks, NULL);
		for (uint32_t r = 0; r < 2; r++) {
			cr_expect_eq(result[r], 0, "%s", error[r].text);
			cr_expect_not(engine[r]->run[0].create_again, "%d", way);
		}
		cr_expect_eq(fake_ranks_calls(), 1u, "%d", way);
		end_sinks();
	}
	cr_expect_eq(report_calls, 0);
}

Test(same, a_sink_without_space_is_an_error_of_all)
{
	begin_sinks(false, false);
	engine[1]->run[0].sink_bytes = 2ull * FAKE_STORE_DATA;
	fake_ranks_run(2, FAKE_RANKS_ALL, check_sinks, NULL);
	cr_expect_eq(result[1], -ENOSPC);
	cr_expect_eq(result[0], -ECANCELED);
	cr_expect_not(engine[0]->run[0].create_again || engine[1]->run[0].create_again);
	cr_expect_eq(fake_ranks_calls(), 1u);
	end_sinks();
	/* the library fails when ranks have asked for the sink */
	begin_sinks(false, false);
	fake_ranks_run(2, 1, check_sinks, NULL);
	for (uint32_t r = 0; r < 2; r++) {
		cr_expect_eq(result[r], -EIO);
		cr_expect_not(engine[r]->run[0].create_again);
	}
	end_sinks();
}
