/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/devices/devices.h"
#include "boot/cmd/bench/objects.h"
#include "boot/cmd/bench/bench.h"
#include "boot/engine/shape/shape.h"
#include "config/file/file.h"
#include "config/tile.h"
#include "config/base/error.h"
#include "boot/engine/runner/runner.h"

#define TEXT_BYTES 8192u
#define QUERY 128 /* floats in a row of topk_dot */
#define ROW 20u	  /* bytes of a row over the four columns */

#define SOURCE HR_MEASURE_OBJECT ".source"
#define SINK HR_MEASURE_OBJECT ".sink" /* and .bf16 */

static const struct {
	const char *name;
	uint32_t value; /* bytes of each value */
} column[] = {
	{ HR_MEASURE_OBJECT ".shipdate", 4 },
	{ HR_MEASURE_OBJECT ".discount", 4 },
	{ HR_MEASURE_OBJECT ".quantity", 4 },
	{ HR_MEASURE_OBJECT ".price", 8 },
};

#define COLUMNS (sizeof column / sizeof *column)

/* Pipelines as a configuration describes them, for ssd and gpu 0; %s is the query. */
static const char pipelines[] =
	"ssds = ( { name = \"s\"; device = \"soft:memory,size=64M\"; } );\n"
	"gpus = ( { name = \"g\"; device = \"host:1\"; } );\n"
	"pipelines = (\n"
	" { name = \"bench.copy\"; source = { object = \"" SOURCE "\"; }; operator = \"copy\";\n"
	"   sink = { object = \"" SINK "\"; replace = true; }; },\n"
	" { name = \"bench.crc32c\"; source = { object = \"" SOURCE "\"; };\n"
	"   operator = \"crc32c\"; },\n"
	" { name = \"bench.cast_f32_bf16\"; source = { object = \"" SOURCE "\"; };\n"
	"   operator = \"cast_f32_bf16\"; sink = { object = \"" SINK ".bf16\"; replace = true; };\n"
	" },\n"
	" { name = \"bench.topk_dot\"; source = { object = \"" SOURCE "\"; };\n"
	"   operator = \"topk_dot\"; args = { k = 10; query = [ %s ]; }; },\n"
	" { name = \"bench.filter_sum\"; operator = \"filter_sum\"; source = (\n"
	"   { object = \"" HR_MEASURE_OBJECT ".shipdate\"; },\n"
	"   { object = \"" HR_MEASURE_OBJECT ".discount\"; },\n"
	"   { object = \"" HR_MEASURE_OBJECT ".quantity\"; },\n"
	"   { object = \"" HR_MEASURE_OBJECT ".price\"; } );\n"
	"   args = { shipdate_from = \"1970-01-01\"; shipdate_before = \"1970-02-02\";\n"
	"            discount_from = 0; discount_to = 40; quantity_below = 50; }; } );\n";

static int read_pipelines(struct hr_config *config, struct hr_error *e)
{
	char query[QUERY * 8] = "", text[TEXT_BYTES];
	size_t used = 0;
	int bytes;

	for (int i = 0; i < QUERY; i++)
		used += (size_t)snprintf(query + used, sizeof query - used, "%s0.%02d",
					 i ? ", " : "", i % 100);
	bytes = snprintf(text, sizeof text, pipelines, query);
	return hr_config_parse(config, &hr_lookup, "(bench)", text, (size_t)bytes, e);
}

static int drop_all(struct hr_ssd *ssd, struct hr_error *e)
{
	static const char *const own[] = { SOURCE, SINK, SINK ".bf16" };
	int err = 0;

	for (size_t i = 0; i < COLUMNS + 3; i++) {
		const int failed = hr_bench_drop(ssd, i < 3 ? own[i] : column[i - 3].name, e);

		err = err ? err : failed;
	}
	return err;
}

/* Random floats between 1 and 2; with a value size: random whole numbers below 64. */
static void fill_piece(void *piece, uint64_t at, uint32_t bytes, uint64_t value)
{
	uint32_t random = 1;

	memset(piece, 0, bytes);
	for (uint32_t i = 0; i < bytes; i += value ? (uint32_t)value : 4) {
		const uint32_t number = random >> 26, real = 0x3f800000u | random >> 9;

		memcpy((uint8_t *)piece + i, value ? &number : &real, sizeof number);
		random = random * 1664525u + 1013904223u;
	}
}

static int make_filled_object(struct hr_ssd *ssd, const char *name, uint64_t bytes, uint32_t value,
			      struct hr_error *e)
{
	const struct hr_bench_fill fill = { fill_piece, value, true };

	return hr_bench_make(ssd, name, bytes, &fill, e);
}

/* Make the sources of the pipeline in place of the previous pipeline's sources. */
static int make_sources(struct hr_ssd *ssd, uint32_t sources, uint64_t bytes, struct hr_error *e)
{
	const uint64_t rows = bytes / ROW & ~0xfffull;
	int err;

	if (sources == 1)
		return hr_store_find(&ssd->store, SOURCE)
			       ? 0
			       : make_filled_object(ssd, SOURCE, bytes, 0, e);
	err = hr_bench_drop(ssd, SOURCE, e);
	for (size_t i = 0; !err && i < COLUMNS; i++)
		err = make_filled_object(ssd, column[i].name, rows * column[i].value,
					 column[i].value, e);
	return err;
}

/* Set the usual tile size, or the largest that fits a queue when commands are small (MDTS). */
static void fit_tile(const struct hr_ssd *ssd, struct hr_config_pipeline *p)
{
	for (;;) {
		uint32_t commands = 0;

		for (uint32_t s = 0; s < p->sources; s++)
			commands += hr_chunk_count(hr_config_tile_bytes(p, s), ssd->chunk_bytes);
		if (commands < ssd->queue_entries || p->tile_bytes <= ssd->chunk_bytes)
			return;
		p->tile_bytes /= 2;
	}
}

/*
 * With checksums of all data read and written, as pipelines have by default; or without checksums,
 * and with one policy for tiles in host memory.
 */
struct variant {
	bool verified;
	enum hr_bounce_policy bounce;
};

static void set_pipeline(struct hr_engine *engine, const struct hr_config_pipeline *p,
			 const struct variant *variant, uint32_t d)
{
	struct hr_config_pipeline *own = hr_bench_only_pipeline(engine, p);

	own->bounce = variant->bounce;
	own->verify = variant->verified ? HR_VERIFY_ON : HR_VERIFY_OFF;
	own->sink.checksum = variant->verified;
	for (uint32_t s = 0; s < own->sources; s++)
		own->source[s].ssd = d;
	own->sink.ssd = d;
	fit_tile(&engine->ssd[d], own);
}

static void note_operator(const struct hr_engine *engine, const struct hr_run *run,
			  struct hr_bench_operator *op)
{
	op->bytes = 0;
	for (uint32_t s = 0; s < run->config->sources; s++)
		op->bytes += run->source[s].bytes;
	op->name = run->config->op->name;
	op->bounces = hr_run_bounce(engine, run) != NULL;
	op->writes = run->config->has_sink;
	op->duration_ms = (double)(run->ended_ns - run->started_ns) / 1e6;
	op->bytes_per_s = (double)op->bytes / op->duration_ms * 1e3;
	op->io_blocks = run->blocks[HR_ROLE_PREFETCH] + run->blocks[HR_ROLE_WRITEBACK];
	op->blocks = op->io_blocks + run->blocks[HR_ROLE_COMPUTE];
}

static int run_once(struct hr_engine *engine, const struct hr_config_pipeline *p,
		    const struct variant *variant, uint32_t d, struct hr_bench_operator *op)
{
	int err;

	set_pipeline(engine, p, variant, d);
	/* The stores stay up, also after a signal, because the objects are removed at the end. */
	err = hr_engine_up_keeping(engine, HR_STAGE_QUEUES);
	if (err)
		return err;
	err = hr_run_all(engine, false, &engine->error);
	if (!err)
		note_operator(engine, &engine->run[0], op);
	hr_engine_down_to(engine, HR_STAGE_STORES);
	return err;
}

static int by_rate(const void *a, const void *b)
{
	const struct hr_bench_operator *x = a, *y = b;

	return (x->bytes_per_s > y->bytes_per_s) - (x->bytes_per_s < y->bytes_per_s);
}

/* Median of `times` runs, with the worst and the best. */
static int repeat(struct hr_bench_run *run, const struct hr_config_pipeline *p,
		  const struct variant *variant, uint32_t d, struct hr_bench_operator *median)
{
	struct hr_bench_operator each[HR_MEASURE_TIMES_MAX] = { 0 };
	int err = 0;

	assert(run->times > 0);
	for (uint32_t i = 0; !err && i < run->times; i++) {
		err = run_once(run->engine, p, variant, d, &each[i]);
		if (!err && p->has_sink)
			err = hr_bench_drop(&run->engine->ssd[d], p->sink.object,
					    &run->engine->error);
	}
	if (err)
		return err;
	qsort(each, run->times, sizeof *each, by_rate);
	*median = each[run->times / 2];
	median->worst_bytes_per_s = each[0].bytes_per_s;
	median->best_bytes_per_s = each[run->times - 1].bytes_per_s;
	return 0;
}

/* Measure in place, copied if that is different, and with checksums. */
static int measure_operator(struct hr_bench_run *run, const struct hr_config_pipeline *p,
			    uint32_t d, struct hr_json *out)
{
	struct hr_bench_found *found = &run->found;
	static const struct variant in_place = { false, HR_BOUNCE_IN_PLACE };
	static const struct variant copy = { false, HR_BOUNCE_COPY };
	static const struct variant checked = { true, HR_BOUNCE_AUTO };
	struct hr_bench_operator op = { 0 }, copied = { 0 }, verified = { 0 };
	int err = repeat(run, p, &in_place, d, &op);

	if (!err && op.bounces)
		err = repeat(run, p, &copy, d, &copied);
	if (!err)
		err = repeat(run, p, &checked, d, &verified);
	if (err)
		return err;
	op.copied_bytes_per_s = copied.bytes_per_s;
	op.worst_copied_bytes_per_s = copied.worst_bytes_per_s;
	op.best_copied_bytes_per_s = copied.best_bytes_per_s;
	op.verified_bytes_per_s = verified.bytes_per_s;
	op.worst_verified_bytes_per_s = verified.worst_bytes_per_s;
	op.best_verified_bytes_per_s = verified.best_bytes_per_s;
	if (found->op_count < HR_BENCH_OPERATORS_MAX)
		found->op[found->op_count++] = op;
	hr_bench_report_operator(run->engine->config.ssd[d].name, &op, out);
	return 0;
}

static int measure_all(struct hr_bench_run *run, const struct hr_config *config, uint32_t d,
		       struct hr_json *out)
{
	struct hr_ssd *ssd = &run->engine->ssd[d];
	struct hr_error *e = &run->engine->error;
	int err = drop_all(ssd, e);
	const uint64_t bytes = hr_bench_source_bytes(run, d);

	if (!err && bytes == 0)
		err = hr_bench_complain(ssd, SOURCE, -ENOSPC, e);
	for (uint32_t i = 0; !err && i < config->pipelines; i++) {
		err = make_sources(ssd, config->pipeline[i].sources, bytes, e);
		if (!err)
			err = measure_operator(run, &config->pipeline[i], d, out);
	}
	if (run->engine->up >= HR_STAGE_STORES && !hr_health_failed(&ssd->health)) {
		const int failed = drop_all(ssd, e);

		err = err ? err : failed;
	}
	return err;
}

int hr_bench_operators(struct hr_bench_run *run, uint32_t d, struct hr_json *out)
{
	struct hr_config *config = calloc(1, sizeof *config);
	struct hr_error *e = &run->engine->error;
	int err = config ? read_pipelines(config, e)
			 : hr_fail(e, HR_ERROR_MISSING, -ENOMEM,
				   "bench: out of memory for the configuration: %zu bytes",
				   sizeof *config);

	if (out)
		hr_json_array(out, "operators");
	else
		hr_bench_operators_head();
	if (!err)
		err = measure_all(run, config, d, out);
	if (out)
		hr_json_close(out);
	free(config);
	return err;
}
