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

#define TABLE HR_MEASURE_OBJECT ".table"
#define TEXT_BYTES 4096u
#define CPU_BYTES (8ull << 20)
#define GPU_BYTES (1ull << 30)
#define COLD_LOOKUPS 16u /* per page: one page in ten million stays unread */
/* Per page: half of the first ones meet pages of the other gpu. With fewer the worker with the most of
 * them, which ends last, has 11 % more than the mean. */
#define HELD_LOOKUPS 64u

/* Pipelines as a configuration describes them, for ssd 0 and gpus 0 and 1: lookups, frames of each gpu;
 * both caches hold the whole table. A row is a page. */
static const char pipelines[] =
	"ssds = ( { name = \"s\"; device = \"soft:memory,size=64M\"; } );\n"
	"gpus = ( { name = \"g\"; device = \"host:1\"; }, { name = \"h\"; device = \"host:1\"; } );\n"
	"pipelines = (\n"
	" { name = \"bench.cold\"; objects = { table = { object = \"" TABLE "\"; }; };\n"
	"   operator = \"gather\"; gpus = [ \"g\", \"h\" ];\n"
	"   args = { row = 4096; lookups = %llu; ahead = 4; };\n"
	"   cache = { frames = %llu; page = \"4K\"; policy = \"clock\"; }; },\n"
	" { name = \"bench.held\"; objects = { table = { object = \"" TABLE "\"; }; };\n"
	"   operator = \"gather\"; gpus = [ \"g\", \"h\" ];\n"
	"   args = { row = 4096; lookups = %llu; ahead = 4; warm = 1; };\n"
	"   cache = { frames = %llu; page = \"4K\"; policy = \"clock\"; }; } );\n";

struct peers {
	double reads_per_page, cold_pages_per_s;
	double peer_reads_per_gpu_s, copies_per_gpu_s, peer_bytes_per_s;
	double page_bytes_per_s, load_bytes_per_s, load_both_bytes_per_s, of_page, of_load,
		of_load_both;
	uint32_t io_workers;
};

#define ROW(field, unit, kind, digits, in, what) \
	HR_COUNTER_ROW(struct peers, field, #field, unit, kind, digits, HR_IN_BENCH | (in), what)

static const struct hr_counter row[] = {
	ROW(reads_per_page, "reads", REAL, 3, 0, "of the ssd by both gpus, for each page"),
	ROW(cold_pages_per_s, "pages/s", REAL, 0, 0, "lookups of both, from empty caches"),
	ROW(peer_reads_per_gpu_s, "pages/s", REAL, 0, 0, "pages that a gpu reads in the other one"),
	ROW(copies_per_gpu_s, "pages/s", REAL, 0, 0, "pages that it copies to its own cache"),
	ROW(peer_bytes_per_s, "B/s", REAL, 0, 0, "both in bytes"),
	ROW(io_workers, "workers", U32, 0, 0, "that copy, on each gpu"),
	ROW(page_bytes_per_s, "B/s", REAL, 0, HR_IF_GPU, "copies of pages by as many warps alone"),
	ROW(load_bytes_per_s, "B/s", REAL, 0, HR_IF_GPU, "loads of the other's memory by all SMs"),
	ROW(load_both_bytes_per_s, "B/s", REAL, 0, HR_IF_GPU,
	    "the same of each, both at the same time"),
	ROW(of_page, "", REAL, 3, HR_IF_GPU, "pages read and copied over copies by warps alone"),
	ROW(of_load, "", REAL, 3, HR_IF_GPU, "pages read and copied over loads by all SMs"),
	ROW(of_load_both, "", REAL, 3, HR_IF_GPU, "the same over loads by both at the same time"),
	{ 0 }
};

static uint64_t object_bytes(const struct hr_bench_run *run, uint32_t d)
{
	const uint64_t room = hr_bench_source_bytes(run, d);
	uint64_t bytes = run->gpu ? GPU_BYTES : CPU_BYTES;

	while (bytes > room)
		bytes /= 2;
	return bytes;
}

/* ---- runs */

/* Of one run. */
struct found {
	double run_ns;
	uint64_t reads, copies, peer_reads;
	uint32_t io_workers;
};

static void note_peer_reads(const struct hr_engine *engine, const struct hr_run *run, void *to)
{
	const struct hr_io_counters io = hr_bench_io_counters(run);
	struct found *found = to;
	struct hr_counters c;

	hr_counters_snapshot(&c, engine, run);
	found->peer_reads = c.cache.peer_reads;
	found->run_ns = hr_bench_result(run).run_ns;
	found->reads = io.reads;
	found->copies = io.copies;
	found->io_workers = hr_access_io_workers(&run->gpu[0].cpu);
}

static int by_time(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	return (x->run_ns > y->run_ns) - (x->run_ns < y->run_ns);
}

/* The median of the runs of a pipeline. */
static int measure_peer_reads(struct hr_bench_run *run, const struct hr_config_pipeline *p,
			      uint32_t d, struct found *found)
{
	struct found each[HR_MEASURE_TIMES_MAX] = { 0 };
	int err = 0;

	for (uint32_t i = 0; !err && i < run->times; i++)
		err = hr_bench_access(run->engine, p, d, run->request->blocks, note_peer_reads,
				      &each[i]);
	if (err)
		return err;
	qsort(each, run->times, sizeof *each, by_time);
	*found = each[run->times / 2];
	return 0;
}

static int measure_plain(struct hr_bench_run *run, struct peers *m)
{
	struct hr_backend *b = run->engine->backend;
	const uint32_t warps = m->io_workers > HR_LIMIT_BLOCK_WARPS
				       ? m->io_workers / HR_LIMIT_BLOCK_WARPS * HR_LIMIT_BLOCK_WARPS
				       : HR_LIMIT_BLOCK_WARPS;
	struct hr_peer_rates rates;
	int err;

	if (!b[0].measuring)
		return 0;
	err = b[0].measuring->peer(&b[0], &b[1], warps, run->times, &rates, &run->engine->error);
	if (err)
		return err;
	m->page_bytes_per_s = rates.page;
	m->load_bytes_per_s = rates.load;
	m->load_both_bytes_per_s = rates.load_both;
	m->of_page = rates.page > 0 ? m->peer_bytes_per_s / rates.page : 0;
	m->of_load = rates.load > 0 ? m->peer_bytes_per_s / rates.load : 0;
	m->of_load_both = rates.load_both > 0 ? m->peer_bytes_per_s / rates.load_both : 0;
	return 0;
}

static double per_second(double count, double ns)
{
	return ns > 0 ? count * 1e9 / ns : 0;
}

static int measure_pipelines(struct hr_bench_run *run, const struct hr_config *config, uint32_t d,
			     uint64_t pages, struct peers *m)
{
	struct found cold, held;
	int err = measure_peer_reads(run, &config->pipeline[0], d, &cold);

	if (!err)
		err = measure_peer_reads(run, &config->pipeline[1], d, &held);
	if (err)
		return err;
	m->reads_per_page = hr_bench_mean((double)cold.reads, pages);
	m->cold_pages_per_s = per_second((double)(COLD_LOOKUPS * pages), cold.run_ns);
	m->copies_per_gpu_s = per_second((double)held.copies / 2, held.run_ns);
	m->peer_reads_per_gpu_s = per_second((double)held.peer_reads / 2, held.run_ns);
	m->peer_bytes_per_s = (m->peer_reads_per_gpu_s + m->copies_per_gpu_s) * HR_PAGE;
	m->io_workers = held.io_workers;
	return measure_plain(run, m);
}

/* ---- all of it */

static int read_pipelines(uint64_t pages, struct hr_config *config, struct hr_error *e)
{
	const unsigned long long n = pages;
	char text[TEXT_BYTES];
	const int length = snprintf(text, sizeof text, pipelines, COLD_LOOKUPS * n, 2 * n,
				    HELD_LOOKUPS * n, 2 * n);

	return hr_config_parse(config, &hr_lookup, "(bench)", text, (size_t)length, e);
}

static int measure_all(struct hr_bench_run *run, uint32_t d, struct hr_config *config,
		       struct peers *m)
{
	struct hr_ssd *ssd = &run->engine->ssd[d];
	struct hr_error *e = &run->engine->error;
	const uint64_t bytes = object_bytes(run, d);
	const struct hr_bench_fill fill = { hr_bench_fill_chain, bytes / sizeof(uint64_t), false };
	int err = hr_bench_drop(ssd, TABLE, e);

	if (!err && bytes < 64 * HR_PAGE)
		err = hr_bench_complain(ssd, TABLE, -ENOSPC, e);
	if (!err)
		err = read_pipelines(bytes / HR_PAGE, config, e);
	if (!err)
		err = hr_bench_make(ssd, TABLE, bytes, &fill, e);
	if (!err)
		err = measure_pipelines(run, config, d, bytes / HR_PAGE, m);
	if (run->engine->up >= HR_STAGE_STORES && !hr_health_failed(&ssd->health)) {
		const int failed = hr_bench_drop(ssd, TABLE, e);

		err = err ? err : failed;
	}
	return err;
}

static void report_peers(const struct hr_bench_run *run, uint32_t d, const struct peers *m,
			 struct hr_json *out)
{
	const unsigned in = HR_IN_BENCH | (run->gpu ? HR_IF_GPU : 0);

	if (out) {
		hr_json_object(out, "peers");
		hr_counters_json(out, row, m, in);
		hr_json_close(out);
		return;
	}
	printf("\n%-10s pages of 4 KiB in the caches of two gpus\n",
	       run->engine->config.ssd[d].name);
	hr_bench_report_rows(row, m, in);
}

int hr_bench_peers(struct hr_bench_run *run, uint32_t d, struct hr_json *out)
{
	struct hr_config *config = calloc(1, sizeof *config);
	struct peers m = { 0 };
	int err = config ? measure_all(run, d, config, &m)
			 : hr_fail(&run->engine->error, HR_ERROR_MISSING, -ENOMEM,
				   "bench: out of memory for the configuration: %zu bytes",
				   sizeof *config);

	if (!err)
		report_peers(run, d, &m, out);
	free(config);
	return err;
}
