/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of counters: each row has a field of its own and is printed in its outputs; times and
 * rates.
 */
#include "boot/engine/runner/counters.h"

#include <criterion/criterion.h>
#include <string.h>

#include "config/base/clock.h"
#include "tests/harness/json.h"

TestSuite(counters, .timeout = 60);

static char text[8192];
static struct hr_json json;

static struct json_object *told(const struct hr_counters *c, unsigned in)
{
	hr_json_to_text(&json, HR_JSON_LINE, text, sizeof text);
	hr_counters_json(&json, hr_pipeline_counters, c, in);
	hr_role_counters_json(&json, c, in);
	return json_parsed(&json);
}

/* A struct has as many words as rows, and no two rows read the same word. */
static void check_rows(const struct hr_counter *row, size_t bytes)
{
	uint64_t seen = 0;
	size_t rows = 0;

	for (; row->name; row++, rows++) {
		cr_expect_eq(row->at % 8, 0, "%s", row->name);
		cr_assert_lt(row->at, bytes, "%s", row->name);
		cr_expect_not(seen >> (row->at / 8) & 1, "%s: a field twice", row->name);
		seen |= 1ull << (row->at / 8);
		cr_expect(row->in & HR_IN_ANY, "%s is told nowhere", row->name);
		cr_expect(*row->help && row->unit, "%s", row->name);
	}
	cr_expect_eq(rows, bytes / 8);
}

Test(counters, each_word_has_one_row)
{
	check_rows(hr_pipeline_counters, offsetof(struct hr_counters, role));
	check_rows(hr_role_counters, sizeof(struct hr_role_counters));
	check_rows(hr_ssd_counters, HR_FAULTS * sizeof(uint64_t));
}

Test(counters, names_of_a_table_differ)
{
	static const struct hr_counter *const table[] = { hr_pipeline_counters, hr_role_counters,
							  hr_ssd_counters };

	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		for (const struct hr_counter *a = table[i]; a->name; a++)
			for (const struct hr_counter *b = table[i]; b < a; b++)
				cr_expect_str_neq(a->name, b->name);
}

/* Each word has a value of its own, so that a row that reads the wrong word is detected. */
Test(counters, each_counter_is_reported_in_its_places_with_its_value)
{
	static const unsigned output[] = { HR_IN_STATUS, HR_IN_RUN, HR_IN_SINK };
	struct hr_counters c;

	for (size_t i = 0; i < sizeof c / 8; i++)
		((uint64_t *)&c)[i] = (i + 1) * 1000000;
	for (size_t p = 0; p < sizeof output / sizeof *output; p++) {
		struct json_object *document = told(&c, output[p]), *value;

		for (const struct hr_counter *row = hr_pipeline_counters; row->name; row++) {
			uint64_t want = (row->at / 8 + 1ull) * 1000000;

			if (row->type == HR_COUNTER_NS)
				want /= HR_NS_PER_MS;
			cr_assert_eq(json_object_object_get_ex(document, row->name, &value),
				     (row->in & output[p]) != 0, "%s: %s", row->name, text);
			if (row->in & output[p])
				cr_expect_eq(json_object_get_uint64(value), want, "%s", row->name);
		}
		json_object_put(document);
	}
}

Test(counters, conditions_omit_counters_that_a_role_does_not_have)
{
	static const struct {
		const char *role, *name;
		bool cycles, told;
	} row[] = {
		{ "prefetch", "doorbells", false, true }, { "compute", "doorbells", false, false },
		{ "writeback", "commands", false, true }, { "compute", "cycles", false, false },
		{ "compute", "cycles", true, true },	  { "compute", "busy_cycles", true, true },
		{ "compute", "rounds", false, true },	  { "prefetch", "heartbeat", false, false },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_counters c = { 0 };
		struct json_object *document, *role, *value;

		for (int r = 0; r < HR_ROLES; r++) {
			c.role[r].blocks = 1;
			c.role[r].cycles = row[i].cycles;
		}
		document = told(&c, HR_IN_RUN);
		cr_assert(json_object_object_get_ex(document, row[i].role, &role));
		cr_expect_eq(json_object_object_get_ex(role, row[i].name, &value), row[i].told,
			     "row %zu: %s", i, text);
		json_object_put(document);
	}
}

Test(counters, a_role_without_blocks_is_not_reported)
{
	struct hr_counters c = { 0 };
	struct json_object *document, *value;

	c.role[HR_ROLE_COMPUTE].blocks = 1;
	document = told(&c, HR_IN_STATUS);
	cr_expect(json_object_object_get_ex(document, "compute", &value));
	cr_expect_not(json_object_object_get_ex(document, "prefetch", &value));
	cr_expect_not(json_object_object_get_ex(document, "writeback", &value));
	json_object_put(document);
}

/* The share of hits is rounded to the nearest millionth, and known when the run has ended. */
Test(counters, hits_of_the_page_cache)
{
	static const struct {
		uint64_t accesses, misses, hits_ppm;
	} row[] = {
		{ 3, 1, 666667 },
		{ 3, 2, 333333 },
		{ 4, 1, 750000 },
		{ 2000000, 1, 1000000 },
		{ 2000001, 2000000, 0 },
		{ 1, 0, 1000000 },
		{ 0, 0, 0 },
		{ 1, 2, 0 },
	};
	static struct hr_engine engine;
	static struct hr_config_pipeline pipeline;
	static struct hr_run run;
	struct hr_cache_worker worker[2] = { 0 };
	struct hr_counters c;

	engine.up = HR_STAGE_QUEUES;
	run.config = &pipeline;
	run.gpu[0].access = &run.gpu[0].cpu;
	run.gpu[0].cpu.cache.worker = worker;
	run.gpu[0].cpu.cache.computers = 2;
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		worker[0].accesses = row[i].accesses / 2;
		worker[1].accesses = row[i].accesses - worker[0].accesses;
		worker[1].misses = row[i].misses;
		worker[0].waits_ns = 7;
		worker[1].waits_ns = 8;
		worker[0].peer_reads = 100;
		worker[1].peer_reads = 23;
		run.workers_ended = true;
		hr_counters_snapshot(&c, &engine, &run);
		cr_expect_eq(c.cache.accesses, row[i].accesses);
		cr_expect_eq(c.cache.misses, row[i].misses);
		cr_expect_eq(c.cache.waits_ns, 15);
		cr_expect_eq(c.cache.peer_reads, 123);
		cr_expect_eq(c.cache.hits_ppm, row[i].hits_ppm, "row %zu: %llu", i,
			     (unsigned long long)c.cache.hits_ppm);
		run.workers_ended = false;
		hr_counters_snapshot(&c, &engine, &run);
		cr_expect_eq(c.cache.accesses, 0, "workers still count");
	}
}

/* A run with several workers of each role. Each word has a bit of its own, so that a sum which
 * leaves out a word, counts it twice or takes another one is detected. */
enum { PREFETCH = 6, COMPUTE = 4, WRITEBACK = 2, STATUSES = PREFETCH + COMPUTE + WRITEBACK };

static void set_status(struct hr_worker_status *status, unsigned i)
{
	*status = (struct hr_worker_status){
		.ended = i % 2,
		.failed = i % 3 == 0,
		.heartbeat = 1ull << i,
		.tiles = 3ull << (2 * i),
		.bytes = 5ull << (3 * i),
		.cost = { 7ull << (3 * i), 1ull << (2 * i), 3ull << (2 * i), 5ull << i },
	};
}

static void set_queues(struct hr_nvme_qp *qp, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		qp[i].stats.submitted = 1ull << i;
		qp[i].stats.batches = 3ull << (2 * i);
		qp[i].stats.doorbells = 5ull << (3 * i);
	}
}

static uint64_t sum(uint64_t value, unsigned shift, unsigned first, unsigned end)
{
	uint64_t all = 0;

	for (unsigned i = first; i < end; i++)
		all += value << (shift * i);
	return all;
}

static void expect_role(const struct hr_role_counters *c, unsigned first, unsigned end,
			unsigned queues, bool settled)
{
	uint64_t ended = 0, failed = 0;

	for (unsigned i = first; i < end; i++) {
		ended += i % 2;
		failed += i % 3 == 0;
	}
	cr_expect_eq(c->workers, end - first);
	cr_expect_eq(c->ended, ended);
	cr_expect_eq(c->failed, failed);
	cr_expect_eq(c->heartbeat, sum(1, 1, first, end));
	cr_expect_eq(c->tiles, sum(3, 2, first, end));
	cr_expect_eq(c->bytes, sum(5, 3, first, end));
	cr_expect_eq(c->cycles, settled ? sum(7, 3, first, end) : 0);
	cr_expect_eq(c->busy_cycles, settled ? sum(1, 2, first, end) : 0);
	cr_expect_eq(c->rounds, settled ? sum(3, 2, first, end) : 0);
	cr_expect_eq(c->busy_rounds, settled ? sum(5, 1, first, end) : 0);
	cr_expect_eq(c->commands, settled ? sum(1, 1, 0, queues) : 0);
	cr_expect_eq(c->batches, settled ? sum(3, 2, 0, queues) : 0);
	cr_expect_eq(c->fences, c->batches);
	cr_expect_eq(c->doorbells, settled ? sum(5, 3, 0, queues) : 0);
}

static struct hr_engine engine;
static struct hr_config_pipeline pipeline;
static struct hr_run run;
static struct hr_worker_status status[STATUSES];
static struct hr_nvme_qp read_qp[2 * PREFETCH], write_qp[WRITEBACK];

static void wire_a_stream(void)
{
	engine.up = HR_STAGE_QUEUES;
	pipeline.sources = 2;
	pipeline.has_sink = true;
	run = (struct hr_run){ .config = &pipeline,
			       .ssds = 2,
			       .tiles = 1000,
			       .first_tile = 7,
			       .durable_tiles = 9,
			       .sink_tile_bytes = 512,
			       .sink_bytes = 512000,
			       .blocks = { 2, COMPUTE, 1 },
			       .workers = { 3, 5, WRITEBACK } };
	run.cpu.status = status;
	run.cpu.read_qp = read_qp;
	run.cpu.write_qp = write_qp;
	memcpy(run.cpu.blocks, run.blocks, sizeof run.cpu.blocks);
	memcpy(run.cpu.workers, run.workers, sizeof run.cpu.workers);
	run.pipe = &run.cpu;
	for (unsigned i = 0; i < STATUSES; i++)
		set_status(&status[i], i);
	set_queues(read_qp, 2 * PREFETCH);
	set_queues(write_qp, WRITEBACK);
}

Test(counters, each_worker_and_queue_pair_of_a_stream_counts_once)
{
	struct hr_counters c;

	wire_a_stream();
	for (unsigned settled = 0; settled < 2; settled++) {
		run.workers_ended = settled;
		hr_counters_snapshot(&c, &engine, &run);
		cr_expect_eq(c.role[HR_ROLE_PREFETCH].blocks, 2);
		cr_expect_eq(c.role[HR_ROLE_COMPUTE].blocks, COMPUTE);
		cr_expect_eq(c.role[HR_ROLE_WRITEBACK].blocks, 1);
		expect_role(&c.role[HR_ROLE_PREFETCH], 0, PREFETCH, 2 * PREFETCH, settled);
		expect_role(&c.role[HR_ROLE_COMPUTE], PREFETCH, PREFETCH + COMPUTE, 0, settled);
		expect_role(&c.role[HR_ROLE_WRITEBACK], PREFETCH + COMPUTE, STATUSES, WRITEBACK,
			    settled);
		cr_expect_eq(c.role[HR_ROLE_IO].blocks, 0);
		cr_expect_eq(c.role[HR_ROLE_ACCESS].blocks, 0);
		cr_expect_eq(c.cache.requests, 0);
	}
}

/* Before it starts, while it runs and after its end a run counts in different places. */
Test(counters, totals_of_a_run_before_during_and_after_it)
{
	const uint64_t written = sum(3, 2, PREFETCH + COMPUTE, STATUSES);
	const uint64_t read = sum(5, 3, 0, PREFETCH);
	struct hr_counters c;

	wire_a_stream();
	run.done_tiles = 17;
	run.read_bytes = 18;
	hr_counters_snapshot(&c, &engine, &run);
	cr_expect_eq(c.tiles, 1000);
	cr_expect_eq(c.first_tile, 7);
	cr_expect_eq(c.durable_tiles, 9);
	cr_expect_eq(c.durable_bytes, 9 * 512);
	cr_expect_eq(c.tiles_done, 0);
	cr_expect_eq(c.read_bytes, 18);
	run.started_ns = 1;
	engine.up =
		HR_STAGE_STORES; /* a started run is wired, whatever the stage of the appliance */
	hr_counters_snapshot(&c, &engine, &run);
	cr_expect_eq(c.tiles_done, written);
	cr_expect_eq(c.read_bytes, read);
	cr_expect_eq(c.role[HR_ROLE_PREFETCH].workers, PREFETCH);
	run.ended_ns = 2;
	run.durable_tiles = 1001; /* the last tile is shorter */
	hr_counters_snapshot(&c, &engine, &run);
	cr_expect_eq(c.tiles_done, 17);
	cr_expect_eq(c.read_bytes, 18);
	cr_expect_eq(c.durable_bytes, 512000);
	run.durable_tiles = 1000;
	hr_counters_snapshot(&c, &engine, &run);
	cr_expect_eq(c.durable_bytes, 512000);
	run.started_ns = 0;
	hr_counters_snapshot(&c, &engine, &run);
	cr_expect_eq(c.role[HR_ROLE_PREFETCH].workers, 0, "it is not wired");
	run.started_ns = 1;
	run.pipe = NULL;
	hr_counters_snapshot(&c, &engine, &run);
	cr_expect_eq(c.role[HR_ROLE_PREFETCH].workers, 0, "its queues are down");
}

/* An access operator on two gpus: two I/O workers of two ssds, and one compute block, on each. */
Test(counters, each_worker_of_each_gpu_of_an_access_operator_counts_once)
{
	static struct hr_io_counters io[2][2];
	static struct hr_nvme_qp qp[2][4];
	struct hr_counters c;
	uint64_t *word;

	engine.up = HR_STAGE_QUEUES;
	pipeline.objects = 1;
	pipeline.other_gpus = 1;
	run = (struct hr_run){ .config = &pipeline, .ssds = 2, .workers_ended = true };
	run.blocks[HR_ROLE_IO] = 1;
	run.workers[HR_ROLE_IO] = 2;
	run.blocks[HR_ROLE_ACCESS] = run.workers[HR_ROLE_ACCESS] = 1;
	for (unsigned p = 0; p < 2; p++) {
		struct hr_access *access = &run.gpu[p].cpu;

		run.gpu[p].access = access;
		access->io_blocks = access->compute_blocks = 1;
		access->warps = 2;
		access->status = &status[3 * p];
		access->counters = io[p];
		access->qp = qp[p];
		for (unsigned w = 0; w < 2; w++)
			io[p][w] = (struct hr_io_counters){ .requests = 1,
							    .reads = 2,
							    .read_commands = 3,
							    .merges = 4,
							    .evictions = 5,
							    .write_backs = 6,
							    .write_commands = 7,
							    .errors = 8,
							    .whole = 9,
							    .copies = 10,
							    .invalidations = 11 };
		for (unsigned w = 0; w < 2; w++)
			for (word = &io[p][w].requests; word <= &io[p][w].invalidations; word++)
				*word <<= 8 * (2 * p + w);
		for (unsigned i = 0; i < 4; i++)
			qp[p][i].stats.submitted = 1u << (4 * p + i);
		set_status(&status[3 * p], 2 * p);
		set_status(&status[3 * p + 1], 2 * p + 1);
		set_status(&status[3 * p + 2], 4 + p);
	}
	hr_counters_snapshot(&c, &engine, &run);
	cr_expect_eq(c.role[HR_ROLE_IO].blocks, 2);
	cr_expect_eq(c.role[HR_ROLE_IO].workers, 4);
	cr_expect_eq(c.role[HR_ROLE_IO].heartbeat, 0xf);
	cr_expect_eq(c.role[HR_ROLE_IO].commands, 0xff);
	cr_expect_eq(c.role[HR_ROLE_ACCESS].blocks, 2);
	cr_expect_eq(c.role[HR_ROLE_ACCESS].workers, 2);
	cr_expect_eq(c.role[HR_ROLE_ACCESS].heartbeat, 0x30);
	cr_expect_eq(c.role[HR_ROLE_ACCESS].commands, 0);
	cr_expect_eq(c.cache.requests, 0x01010101);
	cr_expect_eq(c.cache.pages_read, 0x02020202);
	cr_expect_eq(c.cache.read_commands, 0x03030303);
	cr_expect_eq(c.cache.merges, 0x04040404);
	cr_expect_eq(c.cache.evictions, 0x05050505);
	cr_expect_eq(c.cache.pages_written, 0x06060606);
	cr_expect_eq(c.cache.write_commands, 0x07070707);
	cr_expect_eq(c.cache.page_errors, 0x08080808);
	cr_expect_eq(c.cache.pages_whole, 0x09090909);
	cr_expect_eq(c.cache.copies, 0x0a0a0a0a);
	cr_expect_eq(c.cache.invalidations, 0x0b0b0b0b);
	cr_expect_eq(hr_run_pages_read(&run), 0x02020202);
}

Test(counters, times_and_rates)
{
	static const struct {
		uint64_t started_ns, ended_ns, now_ns, bytes, duration_ns, bytes_per_s;
	} row[] = {
		{ 0, 0, 9, 5, 0, 0 }, /* the run has not begun */
		{ 7, 7, 9, 5, 0, 0 }, /* the run ends at its start */
		{ HR_NS_PER_S, 0, 3 * HR_NS_PER_S, 1001, 2 * HR_NS_PER_S, 501 },
		{ HR_NS_PER_S, 2 * HR_NS_PER_S, 9 * HR_NS_PER_S, 1001, HR_NS_PER_S, 1001 },
		{ 1, HR_NS_PER_S + 1, 0, 1ull << 52, HR_NS_PER_S, 1ull << 52 },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_counters c = { .read_bytes = row[i].bytes, .read_bytes_per_s = 1 };

		hr_counters_time(&c, row[i].started_ns, row[i].ended_ns, row[i].now_ns);
		cr_expect_eq(c.duration_ns, row[i].duration_ns, "row %zu", i);
		cr_expect_eq(c.read_bytes_per_s, row[i].bytes_per_s, "row %zu", i);
	}
}

Test(counters, status_has_whole_milliseconds_and_a_result_has_decimals)
{
	struct hr_counters c = { .duration_ns = 12345678 };

	json_object_put(told(&c, HR_IN_STATUS));
	cr_expect(strstr(text, "\"duration_ms\": 12,"), "%s", text);
	json_object_put(told(&c, HR_IN_RUN));
	cr_expect(strstr(text, "\"duration_ms\": 12.346,"), "%s", text);
}
