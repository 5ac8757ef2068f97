/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partition and wiring over software controllers and the host backend: parts of workers do not
 * overlap, each part lies in its place, and limits hold at N and N - 1.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/runner/runner.h"
#include "config/base/process.h"
#include "boot/engine/bringup/stage.h"
#include "tests/fakes/log.h"
#include "tests/harness/engine.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define PIECES_MAX 4096u

static struct hr_engine *engine;

static void begin(void)
{
	engine = calloc(1, sizeof *engine);
	cr_assert_not_null(engine);
}

static void end(void)
{
	free(engine);
}

TestSuite(stage_partition, .init = begin, .fini = end, .timeout = 120);

/* Columns of a table, on two blank ssds; the queues of b are shorter. */
#define SSDS(of_b)                                                                             \
	"ssds = ( { name = \"a\"; device = \"soft:memory,size=64M\"; queue_entries = 64;"      \
	" objects = ( { name = \"date\"; bytes = \"1M\"; },"                                   \
	" { name = \"quantity\"; bytes = \"1M\"; }, { name = \"discount\"; bytes = \"1M\"; }," \
	" { name = \"price\"; bytes = \"2M\"; } ); },"                                         \
	" { name = \"b\"; device = \"soft:memory,size=64M\"; queue_entries = 16;"              \
	" objects = ( " of_b " ); } );\n"
#define ALL_OF_B "{ name = \"discount\"; bytes = \"1M\"; }, { name = \"price\"; bytes = \"2M\"; }"
#define GPUS                                                                                       \
	"gpus = ( { name = \"g\"; device = \"host:2\"; }, { name = \"h\"; device = \"host:2\"; } " \
	");\n"
#define ARGS                                                                         \
	"args = { shipdate_from = \"1970-01-01\"; shipdate_before = \"1999-01-01\";" \
	" discount_from = 5; discount_to = 7; quantity_below = 24; };"
#define COLUMNS(second)                                                                            \
	"source = ( { ssd = \"a\"; object = \"date\"; }, { ssd = \"" second                        \
	"\"; object = \"discount\"; }, { ssd = \"a\"; object = \"quantity\"; }, { ssd = \"" second \
	"\"; object = \"price\"; } );"

/* Bring up to that stage with a configuration of the given memory and pipelines. */
static int up(const char *memory, const char *pipelines, enum hr_stage stage)
{
	engine_print(engine, SSDS(ALL_OF_B) GPUS "memory = { %s };\npipelines = ( %s );\n", memory,
		     pipelines);
	return hr_engine_up(engine, stage);
}

/* ---- memory of workers and controllers, piece by piece */

static struct piece {
	const uint8_t *at;
	uint64_t bytes;
	const char *what;
} piece[PIECES_MAX];
static unsigned pieces;

static void use(const void *at, uint64_t bytes, const char *what)
{
	if (!at || !bytes)
		return;
	cr_assert_lt(pieces, PIECES_MAX);
	piece[pieces++] = (struct piece){ at, bytes, what };
}

static void use_queue(const struct hr_nvme_qp *qp, uint32_t d, const char *what)
{
	const struct hr_ssd *ssd = &engine->ssd[d];
	const uintptr_t bar = (uintptr_t)ssd->transport.bar, bell = (uintptr_t)qp->sq_doorbell;

	cr_expect_eq(qp->entries, ssd->queue_entries, "%s", what);
	cr_expect(bell > bar && bell < bar + ssd->transport.bar_bytes, "%s: doorbell", what);
	use(qp->sq, hr_qp_sq_bytes(qp->entries), what);
	use(qp->cq, hr_qp_cq_bytes(qp->entries), what);
	use(qp->inflight, hr_qp_table_bytes(qp->entries), what);
	use(qp, sizeof *qp, "queue pair");
	use(qp->sq_doorbell, 4, "SQ doorbell");
	use(qp->cq_doorbell, 4, "CQ doorbell");
}

static void use_buffer(const struct hr_buffer *buffer, const char *what)
{
	const uint32_t chunks = hr_chunk_count(buffer->bytes, buffer->chunk_bytes);

	use(buffer->data, buffer->bytes, what);
	use(buffer->chunk, chunks * sizeof(struct hr_prp), "PRP entries");
}

static void use_run(const struct hr_run *run)
{
	const struct hr_pipe *pipe = run->pipe;
	const struct hr_config_pipeline *c = run->config;

	use(pipe, sizeof *pipe, "descriptor");
	use(pipe->slot, pipe->slots * sizeof *pipe->slot, "slots");
	use(pipe->control, sizeof *pipe->control, "control");
	use(pipe->status, hr_pipe_statuses(pipe) * sizeof *pipe->status, "status");
	use(pipe->written, pipe->written ? pipe->slots * 8ull : 0, "written");
	use(pipe->op_args, c->op_args_bytes, "arguments");
	use(pipe->op_result, HR_OP_RESULT_MAX, "result");
	use(pipe->op_records, pipe->tiles * pipe->record_bytes, "records");
	use(pipe->op_states, (uint64_t)hr_run_workers(run, HR_ROLE_COMPUTE) * pipe->state_bytes,
	    "states");
	for (uint32_t w = 0; w < hr_run_workers(run, HR_ROLE_PREFETCH); w++)
		for (uint32_t q = 0; q < run->ssds; q++)
			use_queue(&pipe->read_qp[w * run->ssds + q], run->ssd[q], "read queue");
	for (uint32_t w = 0; w < hr_run_workers(run, HR_ROLE_WRITEBACK); w++)
		use_queue(&pipe->write_qp[w], c->sink.ssd, "write queue");
	for (uint32_t i = 0; i < pipe->slots; i++) {
		for (uint32_t s = 0; s < pipe->sources; s++)
			use_buffer(&pipe->slot[i].in[s], "source tile");
		if (pipe->has_sink)
			use_buffer(&pipe->slot[i].out, "sink tile");
	}
}

static int by_address(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	return (x->at > y->at) - (x->at < y->at);
}

/* Doorbells lie in a BAR, all other pieces in the memory of one gpu. */
static bool has_place(const struct piece *p)
{
	for (uint32_t g = 0; g < engine->config.gpus; g++)
		for (int place = 0; place < HR_PLACES; place++) {
			const struct hr_region *r = &engine->partition[g].region[place];
			const uint8_t *base = r->worker;

			if (base && p->at >= base && p->at + p->bytes <= base + r->bytes)
				return true;
		}
	return strstr(p->what, "doorbell") != NULL;
}

static void expect_order(const char *what)
{
	pieces = 0;
	for (uint32_t i = 0; i < engine->config.pipelines; i++)
		use_run(&engine->run[i]);
	qsort(piece, pieces, sizeof *piece, by_address);
	for (unsigned i = 0; i < pieces; i++) {
		cr_expect(has_place(&piece[i]), "%s: %s lies outside of all places", what,
			  piece[i].what);
		if (i + 1 < pieces)
			cr_expect_leq(piece[i].at + piece[i].bytes, piece[i + 1].at,
				      "%s: %s overlaps %s", what, piece[i].what, piece[i + 1].what);
	}
}

Test(stage_partition, parts_of_workers_do_not_overlap)
{
	static const struct {
		const char *what, *pipelines;
		unsigned least; /* pieces */
	} row[] = {
		{ "one source",
		  "{ name = \"p\"; gpu = \"g\"; source = { ssd = \"a\"; object = \"date\"; };"
		  " operator = \"crc32c\"; tile = \"64K\"; slots = 6;"
		  " blocks = { prefetch = 3; compute = 2; }; }",
		  3 * 6 + 6 * 2 },
		{ "four sources on two ssds",
		  "{ name = \"p\"; gpu = \"g\"; " COLUMNS(
			  "b") " operator = \"filter_sum\"; " ARGS
			       " tile = \"64K\"; slots = 6; blocks = { prefetch = 3; compute = 2; "
			       "}; }",
		  2 * 3 * 6 + 6 * 4 * 2 },
		{ "a sink on the other ssd",
		  "{ name = \"p\"; gpu = \"g\"; source = { ssd = \"a\"; object = \"date\"; };"
		  " operator = \"copy\"; sink = { ssd = \"b\"; object = \"out\"; };"
		  " tile = \"64K\"; slots = 12;"
		  " blocks = { prefetch = 2; compute = 2; writeback = 3; }; }",
		  5 * 6 + 12 * 2 * 2 },
		{ "two pipelines on one gpu",
		  "{ name = \"p\"; gpu = \"g\"; source = { ssd = \"a\"; object = \"date\"; };"
		  " operator = \"copy\"; sink = { ssd = \"b\"; object = \"out\"; };"
		  " tile = \"64K\"; slots = 12; blocks = { prefetch = 2; writeback = 2; }; },"
		  "{ name = \"q\"; gpu = \"g\"; source = { ssd = \"b\"; object = \"price\"; };"
		  " operator = \"copy\"; sink = { ssd = \"a\"; object = \"copied\"; };"
		  " tile = \"64K\"; slots = 12; blocks = { prefetch = 2; writeback = 2; }; }",
		  8 * 6 + 24 * 2 * 2 },
		{ "two pipelines on two gpus",
		  "{ name = \"p\"; gpu = \"g\"; " COLUMNS(
			  "b") " operator = \"filter_sum\"; " ARGS
			       " tile = \"64K\"; slots = 4; blocks = { prefetch = 2; compute = 2; "
			       "}; },{ name = \"q\"; gpu = \"h\"; source = { ssd = \"b\"; object = "
			       "\"price\"; };"
			       " operator = \"copy\"; sink = { ssd = \"a\"; object = \"out\"; };"
			       " tile = \"64K\"; slots = 4;"
			       " blocks = { prefetch = 2; compute = 2; writeback = 2; }; }",
		  8 * 6 + 4 * 6 * 2 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		cr_assert_eq(up("", row[i].pipelines, HR_STAGE_QUEUES), 0, "%s", row[i].what);
		hr_unseal(); /* assertions allocate */
		expect_order(row[i].what);
		cr_expect_geq(pieces, row[i].least, "%s: %u pieces", row[i].what, pieces);
		hr_engine_down(engine);
	}
}

/* Identifiers of queue pairs are unique per controller and begin with 1. */
Test(stage_partition, a_queue_identifier_is_used_once)
{
	bool seen[2][65536] = { { false } };

	cr_assert_eq(
		up("",
		   "{ name = \"p\"; gpu = \"g\"; " COLUMNS(
			   "b") " operator = \"filter_sum\"; " ARGS
				" tile = \"64K\"; slots = 6; blocks = { prefetch = 3; }; },"
				"{ name = \"q\"; gpu = \"h\"; source = { ssd = \"b\"; object = "
				"\"price\"; };"
				" operator = \"copy\"; sink = { ssd = \"a\"; object = \"out\"; };"
				" tile = \"64K\"; slots = 4; blocks = { prefetch = 2; writeback = "
				"2; }; }",
		   HR_STAGE_QUEUES),
		0);
	hr_unseal();
	for (uint32_t i = 0; i < 2; i++) {
		const struct hr_run *run = &engine->run[i];

		for (uint32_t w = 0; w < hr_run_workers(run, HR_ROLE_PREFETCH) * run->ssds; w++) {
			const uint32_t d = run->ssd[w % run->ssds], id = run->cpu.read_qp[w].id;

			cr_expect(id > 0 && !seen[d][id], "ssd %u, queue %u", d, id);
			seen[d][id] = true;
		}
	}
	for (uint32_t w = 0; w < 2; w++) {
		cr_expect(!seen[0][engine->run[1].cpu.write_qp[w].id]);
		seen[0][engine->run[1].cpu.write_qp[w].id] = true;
	}
	hr_engine_down(engine);
}

/* Columns on two ssds give the same result as on one ssd. */
Test(stage_partition, four_sources_over_two_ssds_give_the_same_result)
{
	static const char *const pipeline[] = {
		"{ name = \"p\"; gpu = \"g\"; " COLUMNS("a") " operator = \"filter_sum\"; " ARGS
							     " tile = \"64K\"; slots = 6; blocks = "
							     "{ prefetch = 3; compute = 2; }; }",
		"{ name = \"p\"; gpu = \"g\"; " COLUMNS("b") " operator = \"filter_sum\"; " ARGS
							     " tile = \"64K\"; slots = 6; blocks = "
							     "{ prefetch = 3; compute = 2; }; }",
	};
	/* Rows 10, 12, 14 pass: discount 5, 6, 7, and the price is the row's number. */
	const int64_t want = 10 * 5 + 12 * 6 + 14 * 7;

	for (size_t i = 0; i < ROWS(pipeline); i++) {
		int64_t got = 0;
		int err;

		cr_assert_eq(up("", pipeline[i], HR_STAGE_QUEUES), 0);
		err = hr_run_all(engine, false, NULL);
		hr_unseal();
		cr_assert_eq(err, 0, "%d", err);
		memcpy(&got, engine->run[0].pipe->op_result, sizeof got);
		cr_expect_eq(got, want, "%lld", (long long)got);
		cr_expect_eq(engine->run[0].ssds, i + 1);
		hr_engine_down(engine);
	}
}

/*
 * A tile size that the configuration leaves out fits the queues with the commands of all its
 * sources.
 */
Test(stage_partition, a_tile_that_is_chosen_fits_the_queues)
{
	static const char text[] =
		"ssds = ( { name = \"a\"; device = \"soft:memory,size=64M,mdts=1\"; "
		"queue_entries = 16; objects = ( { name = \"date\"; bytes = \"1M\"; }, "
		"{ name = \"quantity\"; bytes = \"1M\"; }, { name = \"discount\"; bytes = \"1M\"; "
		"}, "
		"{ name = \"price\"; bytes = \"2M\"; } ); } );\n" GPUS
		"pipelines = ( { name = \"p\"; gpu = \"g\"; " COLUMNS(
			"a") " operator = \"filter_sum\"; " ARGS " } );\n";
	uint32_t commands = 0;

	engine_read(engine, text);
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_QUEUES), 0);
	hr_unseal();
	for (uint32_t s = 0; s < 4; s++)
		commands += hr_chunk_count(engine->run[0].source[s].tile_bytes,
					   engine->ssd[0].chunk_bytes);
	cr_expect_leq(commands, engine->ssd[0].queue_entries - 1);
	cr_expect_gt(2 * commands, engine->ssd[0].queue_entries - 1,
		     "it is not smaller than it must be");
	hr_engine_down(engine);
}

/* ---- limits */

#define TWO                                                                                 \
	"{ name = \"p\"; gpu = \"g\"; source = { ssd = \"a\"; object = \"date\"; };"        \
	" operator = \"crc32c\"; tile = \"64K\"; slots = 4; blocks = { prefetch = 2; }; }," \
	"{ name = \"q\"; gpu = \"h\"; source = { ssd = \"b\"; object = \"price\"; };"       \
	" operator = \"crc32c\"; tile = \"128K\"; slots = 4; blocks = { prefetch = 2; }; }"

static uint64_t used(uint32_t g)
{
	uint64_t sum = 0;

	for (int place = 0; place < HR_PLACES; place++)
		sum += engine->partition[g].used[place];
	return sum;
}

/* The limit applies to each gpu, so the larger of two decides. */
Test(stage_partition, memory_host_is_a_limit_to_the_byte)
{
	char memory[64];
	uint64_t most;

	cr_assert_eq(up("", TWO, HR_STAGE_PARTITION), 0);
	most = used(0) > used(1) ? used(0) : used(1);
	cr_expect_neq(used(0), used(1));
	hr_engine_down(engine);
	for (uint64_t less = 0; less <= 1; less++) {
		snprintf(memory, sizeof memory, "host = \"%llu\";",
			 (unsigned long long)(most - less));
		cr_expect_eq(up(memory, TWO, HR_STAGE_PARTITION), less ? -EINVAL : 0, "%s", memory);
		hr_engine_down(engine);
	}
	cr_expect(strstr(fake_log_last(), "gpu 'h': the partition does not fit"), "%s",
		  fake_log_last());
}

static int plan_queues(unsigned readers, unsigned writers, unsigned others)
{
	char text[1024];

	snprintf(text, sizeof text,
		 "{ name = \"p\"; gpu = \"g\"; source = { ssd = \"a\"; object = \"date\"; };"
		 " operator = \"copy\"; sink = { ssd = \"a\"; object = \"out\"; }; tile = \"4K\";"
		 " slots = 256; blocks = { prefetch = %u; writeback = %u; }; },"
		 "{ name = \"q\"; gpu = \"h\"; source = { ssd = \"a\"; object = \"price\"; };"
		 " operator = \"crc32c\"; tile = \"4K\"; slots = 256; blocks = { prefetch = %u; }; "
		 "}",
		 readers, writers, others);
	return up("", text, HR_STAGE_PARTITION);
}

/* Readers, writers and those of other pipelines are counted together. */
Test(stage_partition, queue_pairs_of_all_pipelines_fit_the_controller)
{
	unsigned have;

	cr_assert_eq(plan_queues(1, 1, 1), 0);
	have = hr_ssd_queues_left(&engine->ssd[0]);
	hr_engine_down(engine);
	cr_assert_gt(have, 4, "%u", have);
	cr_expect_eq(plan_queues(have - 2, 1, 1), 0);
	hr_engine_down(engine);
	cr_expect_eq(plan_queues(have - 1, 1, 1), -ENOTSUP);
	cr_expect_eq(plan_queues(have - 2, 2, 1), -ENOTSUP);
	cr_expect_eq(plan_queues(have - 2, 1, 2), -ENOTSUP);
	cr_expect(strstr(fake_log_last(), "left; use fewer blocks"), "%s", fake_log_last());
}

/* ---- taps */

/* The words of the worker follow the keys of the sink, and a seat has an entry for each slot. */
Test(stage_partition, a_tap_has_the_rules_of_its_sink)
{
	static const struct {
		const char *sink;
		uint32_t slots, each, drop, consumers, tries, ring;
	} row[] = {
		{ "", 1, 0, 0, 1, HR_TAP_TRIES_DEFAULT, 1 },
		{ "deliver = \"each\";", 2, 1, 0, 1, HR_TAP_TRIES_DEFAULT, 2 },
		{ "lag = \"drop\";", 3, 0, 1, 1, HR_TAP_TRIES_DEFAULT, 4 },
		{ "deliver = \"one\"; lag = \"block\"; consumers = 3; tries = 5;", 4, 0, 0, 3, 5,
		  4 },
		{ "deliver = \"each\"; lag = \"drop\"; consumers = 2;", 9, 1, 1, 2,
		  HR_TAP_TRIES_DEFAULT, 16 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const struct hr_tap_role *role = &engine->run[0].tap.role;
		char text[400];

		snprintf(text, sizeof text,
			 "{ name = \"p\"; gpu = \"g\"; operator = \"copy\"; tile = \"64K\"; "
			 "slots = %u; source = { ssd = \"a\"; object = \"price\"; };\n"
			 "sink = { tap = \"t\"; %s }; }",
			 row[i].slots, row[i].sink);
		cr_assert_eq(up("", text, HR_STAGE_PARTITION), 0, "row %zu", i);
		cr_expect_eq(role->each, row[i].each, "row %zu", i);
		cr_expect_eq(role->drop, row[i].drop, "row %zu", i);
		cr_expect_eq(role->consumers, row[i].consumers, "row %zu", i);
		cr_expect_eq(role->tries, row[i].tries, "row %zu", i);
		cr_expect_eq(role->ring, row[i].ring, "row %zu", i);
		hr_engine_down(engine);
	}
}

/* ---- a controller that does not stop */

Test(stage_partition, memory_stays_while_a_controller_may_write_to_it)
{
	cr_assert_eq(up("", TWO, HR_STAGE_MEMORY), 0);
	engine->ssd[0].health.state = HR_HEALTH_STUCK;
	hr_memory_down(engine);
	for (uint32_t g = 0; g < 2; g++) {
		cr_expect_not_null(engine->memory[g].region[HR_PLACE_HOST].cpu, "gpu %u", g);
		cr_expect_neq(engine->mapped[HR_PLACE_HOST][g], 0, "gpu %u", g);
	}
	engine->ssd[0].health.state = HR_HEALTH_UP;
	hr_memory_down(engine);
	for (uint32_t g = 0; g < 2; g++) {
		cr_expect_null(engine->memory[g].region[HR_PLACE_HOST].cpu, "gpu %u", g);
		cr_expect_eq(engine->mapped[HR_PLACE_HOST][g], 0, "gpu %u", g);
	}
	hr_engine_down(engine);
}
