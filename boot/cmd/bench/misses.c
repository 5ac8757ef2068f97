/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/cmd/bench/bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "boot/cmd/bench/objects.h"
#include "boot/engine/runner/counters.h"
#include "boot/engine/devices/devices.h"
#include "config/config.h"
#include "config/base/error.h"
#include "config/file/file.h"

#define NEXT HR_MEASURE_OBJECT ".next"
#define TEXT_BYTES 4096u
#define CACHE_PART 8u /* the cache holds this part of the object */
#define CPU_BYTES (16ull << 20)
#define GPU_BYTES (1ull << 30)
#define HOPS_CPU 500u
#define HOPS_GPU 20000u
#define LOOKUPS_CPU 5000u
#define LOOKUPS_GPU 4000000u

/* Pipelines as a configuration describes them, for ssd and gpu 0: frames, hops; frames, lookups. A
 * row of the table is a page. */
static const char pipelines[] =
	"ssds = ( { name = \"s\"; device = \"soft:memory,size=64M\"; } );\n"
	"gpus = ( { name = \"g\"; device = \"host:1\"; } );\n"
	"pipelines = (\n"
	" { name = \"bench.chase\"; objects = { next = { object = \"" NEXT "\"; }; };\n"
	"   operator = \"chase\"; io = 1; compute = 1; args = { hops = %u; };\n"
	"   cache = { frames = %llu; page = \"4K\"; policy = \"clock\"; }; },\n"
	" { name = \"bench.gather\"; objects = { table = { object = \"" NEXT "\"; }; };\n"
	"   operator = \"gather\"; args = { row = 4096; lookups = %u; ahead = 4; };\n"
	"   cache = { frames = %llu; page = \"4K\"; policy = \"clock\"; }; } );\n";

/* The measured values, as the rows print them. */
struct misses {
	double read_p50_us, read_p99_us;
	/* Of one chain: a hop that misses, as its worker sees it; its parts as means of an I/O worker;
	 * `rest`: the request on its way, and the compute worker that sees the page. */
	double miss_p50_us, miss_p99_us, miss_mean_us;
	double serve_us, ssd_us, settle_us, rest_us;
	/* Of many workers. */
	double misses_per_s, raw_per_s, of_raw, reads_per_miss, commands_per_batch, epochs_per_s;
	double waits_per_miss;
	uint32_t io_blocks, blocks;
};

#define ROW(field, unit, kind, digits, what) \
	HR_COUNTER_ROW(struct misses, field, #field, unit, kind, digits, HR_IN_BENCH, what)

static const struct hr_counter row[] = {
	ROW(read_p50_us, "us", REAL, 3, "raw read of 4 KiB, one at a time, median"),
	ROW(read_p99_us, "us", REAL, 3, "raw read, 99th percentile"),
	ROW(miss_p50_us, "us", REAL, 3, "hop of a chain, median"),
	ROW(miss_p99_us, "us", REAL, 3, "hop, 99th percentile"),
	ROW(miss_mean_us, "us", REAL, 3, "time of a miss, mean"),
	ROW(serve_us, "us", REAL, 3, "of it: I/O worker, from request to doorbell"),
	ROW(ssd_us, "us", REAL, 3, "of it: ssd, from command to completion"),
	ROW(settle_us, "us", REAL, 3, "of it: I/O worker, from completion to page"),
	ROW(rest_us, "us", REAL, 3, "of it: rest, between the two workers"),
	ROW(misses_per_s, "pages/s", REAL, 0, "pages read by many workers at random, median"),
	ROW(raw_per_s, "commands/s", REAL, 0, "raw random reads of 4 KiB, the best of this run"),
	ROW(of_raw, "", REAL, 3, "misses over raw reads"),
	ROW(reads_per_miss, "reads", REAL, 3, "of the ssd for each page that entered the cache"),
	ROW(commands_per_batch, "commands", REAL, 2, "that an I/O worker begins at once"),
	ROW(epochs_per_s, "epochs/s", REAL, 0,
	    "of the cache; pages that leave wait for two or three"),
	ROW(waits_per_miss, "waits", REAL, 3, "for a frame, of a page that is requested"),
	ROW(io_blocks, "blocks", U32, 0, "of I/O workers"),
	ROW(blocks, "blocks", U32, 0, "all"),
	{ 0 }
};

static uint64_t object_bytes(const struct hr_bench_run *run, uint32_t d)
{
	const uint64_t most = run->gpu ? GPU_BYTES : CPU_BYTES;
	const uint64_t room = hr_bench_source_bytes(run, d);
	uint64_t bytes = most;

	while (bytes > room)
		bytes /= 2;
	return bytes;
}

/* ---- results */

/* How often a page has entered the cache: pages that have left, and those that are in its table. A
 * page that was read twice for one stay counts once. */
static uint64_t pages_entered(const struct hr_run *run, const struct hr_io_counters *io)
{
	const struct hr_page_cache *cache = &run->gpu[0].cpu.cache;
	uint64_t pages = io->evictions;

	for (uint32_t set = 0; set < hr_page_sets(&cache->shape); set++)
		for (uint32_t way = 0; way < HR_WAYS; way++)
			pages += HR_PAGE_STATE(cache->set[set].tag[way]) >= HR_PAGE_READING;
	return pages;
}

/* Microseconds of a cycle of I/O workers; 0 on the CPU, which counts none. */
static double us_of_cycle(const struct hr_run *run)
{
	const uint64_t cycles = hr_run_status(run, 0)->cost.cycles;

	return cycles ? (double)(run->ended_ns - run->started_ns) / 1e3 / (double)cycles : 0;
}

static void note_chase(const struct hr_engine *engine, const struct hr_run *run, void *to)
{
	struct misses *m = to;
	const struct hr_io_counters io = hr_bench_io_counters(run);
	const struct hr_bench_result result = hr_bench_result(run);
	const double us = us_of_cycle(run);
	struct hr_counters c;

	hr_counters_snapshot(&c, engine, run);
	m->miss_p50_us = result.p50_ns / 1e3;
	m->miss_p99_us = result.p99_ns / 1e3;
	m->miss_mean_us = hr_bench_mean(result.run_ns / 1e3, c.cache.misses);
	m->serve_us = hr_bench_mean((double)io.serve_cycles * us, io.serves);
	m->ssd_us = hr_bench_mean((double)io.ssd_cycles * us, io.read_commands + io.write_commands);
	m->settle_us = hr_bench_mean((double)io.settle_cycles * us, io.settles);
	m->rest_us = us > 0 ? m->miss_mean_us - m->serve_us - m->ssd_us - m->settle_us : 0;
}

static void note_gather(const struct hr_engine *engine, const struct hr_run *run, void *to)
{
	struct misses *m = to;
	const struct hr_io_counters io = hr_bench_io_counters(run);
	const struct hr_bench_result result = hr_bench_result(run);

	(void)engine;
	m->misses_per_s = result.run_ns > 0 ? (double)io.reads * 1e9 / result.run_ns : 0;
	m->reads_per_miss = hr_bench_mean((double)io.reads, pages_entered(run, &io));
	m->commands_per_batch = hr_bench_mean((double)io.read_commands, io.serves);
	m->epochs_per_s = result.run_ns > 0 ? (double)io.epochs * 1e9 / result.run_ns : 0;
	m->waits_per_miss = hr_bench_mean((double)io.waits, io.reads);
	m->io_blocks = run->blocks[HR_ROLE_IO];
	m->blocks = m->io_blocks + run->blocks[HR_ROLE_ACCESS];
}

/* ---- runs */

static int by_latency(const void *a, const void *b)
{
	const struct misses *x = a, *y = b;

	return (x->miss_p50_us > y->miss_p50_us) - (x->miss_p50_us < y->miss_p50_us);
}

static int by_rate(const void *a, const void *b)
{
	const struct misses *x = a, *y = b;

	return (x->misses_per_s > y->misses_per_s) - (x->misses_per_s < y->misses_per_s);
}

/* The median of each pipeline's runs. */
static int measure_misses(struct hr_bench_run *run, const struct hr_config *config, uint32_t d,
			  struct misses *m)
{
	struct misses each[HR_MEASURE_TIMES_MAX] = { 0 };
	int err = 0;

	for (uint32_t i = 0; !err && i < run->times; i++) {
		each[i] = *m;
		err = hr_bench_access(run->engine, &config->pipeline[0], d, 0, note_chase,
				      &each[i]);
	}
	if (err)
		return err;
	qsort(each, run->times, sizeof *each, by_latency);
	*m = each[run->times / 2];
	for (uint32_t i = 0; !err && i < run->times; i++) {
		each[i] = *m;
		err = hr_bench_access(run->engine, &config->pipeline[1], d, run->request->blocks,
				      note_gather, &each[i]);
	}
	if (err)
		return err;
	qsort(each, run->times, sizeof *each, by_rate);
	*m = each[run->times / 2];
	return 0;
}

/* One command at a time, by one worker. */
static int measure_read(struct hr_bench_run *run, uint32_t d, struct misses *m)
{
	const struct hr_measure_shape shape = {
		.ssd = d,
		.blocks = 1,
		.workers = 1,
		.depth = 1,
		.io_max = HR_PAGE,
		.object_bytes = hr_bench_object_bytes(run, d),
	};
	struct hr_measurement r = {
		.pattern = HR_BENCH_RANDOM, .io_bytes = HR_PAGE, .queues = 1, .copied = true
	};
	struct hr_measure measure;
	int err = hr_measure_up(&measure, run->engine, &shape);

	if (err)
		return err;
	err = hr_measure_median(&measure, (uint64_t)(run->request->seconds * 1e9), run->times, &r);
	hr_measure_down(&measure);
	m->read_p50_us = r.latency_us[0];
	m->read_p99_us = r.latency_us[1];
	return err;
}

static double best_raw(const struct hr_bench_run *run)
{
	const struct hr_bench_found *found = &run->found;
	double best = 0;

	for (uint32_t i = 0; i < found->measured_count; i++) {
		const struct hr_measurement *r = &found->measured[i];

		if (!r->write && r->copied == run->gpu && r->pattern == HR_BENCH_RANDOM &&
		    r->io_bytes == HR_PAGE && r->iops > best)
			best = r->iops;
	}
	return best;
}

static int read_pipelines(const struct hr_bench_run *run, uint64_t bytes, struct hr_config *config,
			  struct hr_error *e)
{
	const unsigned long long frames = bytes / HR_PAGE / CACHE_PART;
	char text[TEXT_BYTES];
	const int length = snprintf(text, sizeof text, pipelines, run->gpu ? HOPS_GPU : HOPS_CPU,
				    frames, run->gpu ? LOOKUPS_GPU : LOOKUPS_CPU, frames);

	return hr_config_parse(config, &hr_lookup, "(bench)", text, (size_t)length, e);
}

static void report_misses(const char *ssd, const struct misses *m, struct hr_json *out)
{
	if (out) {
		hr_json_object(out, "misses");
		hr_counters_json(out, row, m, HR_IN_BENCH);
		hr_json_close(out);
		return;
	}
	printf("\n%-10s misses of the page cache, pages of 4 KiB\n", ssd);
	hr_bench_report_rows(row, m, HR_IN_BENCH);
}

static int measure_all(struct hr_bench_run *run, uint32_t d, struct hr_config *config,
		       struct misses *m)
{
	struct hr_ssd *ssd = &run->engine->ssd[d];
	struct hr_error *e = &run->engine->error;
	const uint64_t bytes = object_bytes(run, d);
	const struct hr_bench_fill fill = { hr_bench_fill_chain, bytes / sizeof(uint64_t), false };
	int err = hr_bench_drop(ssd, NEXT, e);

	if (!err && bytes < HR_PAGE * CACHE_PART * 64)
		err = hr_bench_complain(ssd, NEXT, -ENOSPC, e);
	if (!err)
		err = read_pipelines(run, bytes, config, e);
	if (!err)
		err = measure_read(run, d, m);
	if (!err)
		err = hr_bench_make(ssd, NEXT, bytes, &fill, e);
	if (!err)
		err = measure_misses(run, config, d, m);
	if (run->engine->up >= HR_STAGE_STORES && !hr_health_failed(&ssd->health)) {
		const int failed = hr_bench_drop(ssd, NEXT, e);

		err = err ? err : failed;
	}
	return err;
}

int hr_bench_misses(struct hr_bench_run *run, uint32_t d, struct hr_json *out)
{
	struct misses m = { .raw_per_s = best_raw(run) };
	struct hr_config *config = calloc(1, sizeof *config);
	int err = config ? measure_all(run, d, config, &m)
			 : hr_fail(&run->engine->error, HR_ERROR_MISSING, -ENOMEM,
				   "bench: out of memory for the configuration: %zu bytes",
				   sizeof *config);

	if (!err) {
		m.of_raw = m.raw_per_s > 0 ? m.misses_per_s / m.raw_per_s : 0;
		report_misses(run->engine->config.ssd[d].name, &m, out);
	}
	free(config);
	return err;
}
