#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/names.h"
#include "boot/cmd/bench/bench.h"
#include "boot/cmd/report/json.h"
#include "boot/engine/shape.h"
#include "config/log.h"
#include "boot/engine/runner.h"
#include "boot/engine/signals.h"
#include "cache/crc32c.h"
#include "nvme/status.h"

#define MIB (1ull << 20)
#define HOST_BYTES (256 * MIB)
#define GPU_BYTES (4096 * MIB)
#define FILL_BYTES (256u << 10)
#define TEXT_BYTES 8192u
#define QUERY 128 /* floats in a row of topk_dot */
#define ROW 20u	  /* bytes of the four columns together */

#define SOURCE HR_MEASURE_OBJECT ".source"
#define SINK HR_MEASURE_OBJECT ".sink" /* and .bf16 */

static const struct {
	const char *name;
	uint32_t value; /* bytes of each */
} column[] = {
	{ HR_MEASURE_OBJECT ".shipdate", 4 },
	{ HR_MEASURE_OBJECT ".discount", 4 },
	{ HR_MEASURE_OBJECT ".quantity", 4 },
	{ HR_MEASURE_OBJECT ".price", 8 },
};

#define COLUMNS (sizeof column / sizeof *column)

/* Pipelines as a configuration has them, for ssd and gpu 0; %s is the query. */
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

uint64_t hr_bench_object_bytes(const struct hr_bench_run *run, uint32_t d)
{
	const struct hr_ssd *ssd = &run->app->ssd[d];
	const uint64_t most = run->gpu ? GPU_BYTES : HOST_BYTES;
	struct hr_store_space space;
	uint64_t bytes;

	if (run->wishes->object_mib || !ssd->has_store)
		return (uint64_t)run->wishes->object_mib << 20;
	hr_store_space(&ssd->store, &space);
	bytes = space.largest_gap / 4 & ~(MIB - 1);
	return bytes < most ? bytes : most;
}

static void report_mistake(void *to, const char *line)
{
	hr_error("%s", line);
}

static int read_pipelines(struct hr_config *config)
{
	char query[QUERY * 8] = "", text[TEXT_BYTES];
	size_t used = 0;
	int bytes;

	for (int i = 0; i < QUERY; i++)
		used += (size_t)snprintf(query + used, sizeof query - used, "%s0.%02d",
					 i ? ", " : "", i % 100);
	bytes = snprintf(text, sizeof text, pipelines, query);
	return hr_config_parse(config, &hr_names, "(bench)", text, (size_t)bytes, report_mistake,
			       NULL);
}

static int complain(const struct hr_ssd *ssd, const char *object, int err)
{
	char name[96];

	hr_error("bench: object '%s' on '%s': %s", object, ssd->transport.name,
		 hr_error_name(err, name, sizeof name));
	return err;
}

/* Of that name, whole and unfinished. */
static int drop(struct hr_ssd *ssd, const char *name)
{
	struct hr_object *object;
	int err = 0;

	while (!err && ((object = hr_store_find_pending(&ssd->store, name)) ||
			(object = hr_store_find(&ssd->store, name))))
		err = hr_store_remove(&ssd->store, object->id);
	return err ? complain(ssd, name, err) : 0;
}

static int drop_all(struct hr_ssd *ssd)
{
	static const char *const own[] = { SOURCE, SINK, SINK ".bf16" };
	int err = 0;

	for (size_t i = 0; i < COLUMNS + 3; i++) {
		const int failed = drop(ssd, i < 3 ? own[i] : column[i - 3].name);

		err = err ? err : failed;
	}
	return err;
}

/* Floats between 1 and 2, or, with value bytes, whole numbers below 64. */
static void fill_piece(uint8_t *piece, uint32_t value)
{
	uint32_t random = 1;

	memset(piece, 0, FILL_BYTES);
	for (uint32_t at = 0; at < FILL_BYTES; at += value ? value : 4) {
		const uint32_t number = random >> 26, real = 0x3f800000u | random >> 9;

		memcpy(piece + at, value ? &number : &real, sizeof number);
		random = random * 1664525u + 1013904223u;
	}
}

static int make(struct hr_ssd *ssd, const char *name, uint64_t bytes, uint32_t value)
{
	uint8_t *piece = aligned_alloc(HR_PAGE, FILL_BYTES);
	struct hr_object *object = NULL;
	uint32_t crc = 0;
	int err = piece ? hr_store_create(&ssd->store, name, bytes, 0, false, &object) : -ENOMEM;

	if (!err)
		fill_piece(piece, value);
	for (uint64_t at = 0; !err && at < bytes; at += FILL_BYTES) {
		const uint64_t left = object->capacity - at, data = bytes - at;

		if (hr_signals_pending())
			err = -EINTR;
		else
			err = ssd->blk->ops->write(ssd->blk, object->offset + at, piece,
						   left < FILL_BYTES ? (size_t)left : FILL_BYTES,
						   false);
		crc = hr_crc32c(crc, piece, data < FILL_BYTES ? (size_t)data : FILL_BYTES);
	}
	if (!err)
		err = hr_store_finish(&ssd->store, object->id, true, crc);
	free(piece);
	return err && err != -EINTR ? complain(ssd, name, err) : err;
}

/* What the pipeline reads, in place of what the one before has read. */
static int make_sources(struct hr_ssd *ssd, uint32_t sources, uint64_t bytes)
{
	const uint64_t rows = bytes / ROW & ~0xfffull;
	int err;

	if (sources == 1)
		return hr_store_find(&ssd->store, SOURCE) ? 0 : make(ssd, SOURCE, bytes, 0);
	err = drop(ssd, SOURCE);
	for (size_t i = 0; !err && i < COLUMNS; i++)
		err = make(ssd, column[i].name, rows * column[i].value, column[i].value);
	return err;
}

/* Tiles of the usual size, or what a queue has room for where a command moves little (MDTS). */
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

/* As pipelines have them unless told otherwise, with checksums of all they read and write; or with
 * none at all, and tiles read in this way. */
struct way {
	bool verified;
	enum hr_bounce_policy bounce;
};

/* The appliance's only pipeline from now on; those of its configuration are not run here. */
static void set_pipeline(struct hr_appliance *app, const struct hr_config_pipeline *p,
			 const struct way *way, uint32_t d)
{
	struct hr_config_pipeline *own = &app->config.pipeline[0];

	*own = *p;
	own->bounce = way->bounce;
	own->verify = way->verified ? HR_VERIFY_ON : HR_VERIFY_OFF;
	own->sink.checksum = way->verified;
	for (uint32_t s = 0; s < own->sources; s++)
		own->source[s].ssd = d;
	own->sink.ssd = d;
	fit_tile(&app->ssd[d], own);
	app->config.pipelines = 1;
	app->config.memory_host = app->config.memory_gpu = 0;
	memset(&app->run[0], 0, sizeof app->run[0]);
	app->run[0].config = own;
	app->run[0].selected = true;
}

static void note(const struct hr_appliance *app, const struct hr_run *run,
		 struct hr_bench_operator *op)
{
	op->bytes = 0;
	for (uint32_t s = 0; s < run->config->sources; s++)
		op->bytes += run->source[s].bytes;
	op->name = run->config->op->name;
	op->bounces = hr_run_bounce(app, run) != NULL;
	op->writes = run->config->has_sink;
	op->duration_ms = (double)(run->ended_ns - run->started_ns) / 1e6;
	op->bytes_per_s = (double)op->bytes / op->duration_ms * 1e3;
	op->io_blocks = run->blocks[HR_ROLE_PREFETCH] + run->blocks[HR_ROLE_WRITEBACK];
	op->blocks = op->io_blocks + run->blocks[HR_ROLE_COMPUTE];
}

static int run_once(struct hr_appliance *app, const struct hr_config_pipeline *p,
		    const struct way *way, uint32_t d, struct hr_bench_operator *op)
{
	int err;

	set_pipeline(app, p, way, d);
	err = hr_appliance_up(app, HR_STAGE_QUEUES);
	if (err)
		return err;
	err = hr_run_all(app, false);
	if (!err)
		note(app, &app->run[0], op);
	hr_appliance_down_to(app, HR_STAGE_STORES);
	return err;
}

static int by_rate(const void *a, const void *b)
{
	const struct hr_bench_operator *x = a, *y = b;

	return (x->bytes_per_s > y->bytes_per_s) - (x->bytes_per_s < y->bytes_per_s);
}

/* The median of as many runs as are wanted, with its worst and best. */
static int repeat(struct hr_bench_run *run, const struct hr_config_pipeline *p,
		  const struct way *way, uint32_t d, struct hr_bench_operator *median)
{
	struct hr_bench_operator each[HR_MEASURE_TIMES_MAX] = { 0 };
	int err = 0;

	assert(run->times > 0);
	for (uint32_t i = 0; !err && i < run->times; i++) {
		err = run_once(run->app, p, way, d, &each[i]);
		if (!err && p->has_sink)
			err = drop(&run->app->ssd[d], p->sink.object);
	}
	if (err)
		return err;
	qsort(each, run->times, sizeof *each, by_rate);
	*median = each[run->times / 2];
	median->worst_bytes_per_s = each[0].bytes_per_s;
	median->best_bytes_per_s = each[run->times - 1].bytes_per_s;
	return 0;
}

/* In place, copied where that is another way, and with checksums. */
static int measure(struct hr_bench_run *run, const struct hr_config_pipeline *p, uint32_t d,
		   struct json_object *list)
{
	struct hr_bench_found *found = &run->found;
	static const struct way in_place = { false, HR_BOUNCE_IN_PLACE };
	static const struct way copy = { false, HR_BOUNCE_COPY };
	static const struct way checked = { true, HR_BOUNCE_AUTO };
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
	hr_bench_report_operator(run->app->config.ssd[d].name, &op, list);
	return 0;
}

/* Room for a source and a sink as long. */
static uint64_t source_bytes(const struct hr_bench_run *run, uint32_t d)
{
	const uint64_t wish = hr_bench_object_bytes(run, d);
	struct hr_store_space space;

	hr_store_space(&run->app->ssd[d].store, &space);
	return (wish < space.largest_gap / 3 ? wish : space.largest_gap / 3) & ~(MIB - 1);
}

static int measure_all(struct hr_bench_run *run, const struct hr_config *config, uint32_t d,
		       struct json_object *list)
{
	struct hr_ssd *ssd = &run->app->ssd[d];
	int err = drop_all(ssd);
	const uint64_t bytes = source_bytes(run, d);

	if (!err && bytes == 0)
		err = complain(ssd, SOURCE, -ENOSPC);
	for (uint32_t i = 0; !err && i < config->pipelines; i++) {
		err = make_sources(ssd, config->pipeline[i].sources, bytes);
		if (!err)
			err = measure(run, &config->pipeline[i], d, list);
	}
	if (run->app->up >= HR_STAGE_STORES && !ssd->failed) {
		const int failed = drop_all(ssd);

		err = err ? err : failed;
	}
	return err;
}

int hr_bench_operators(struct hr_bench_run *run, uint32_t d, struct json_object *out)
{
	struct hr_config *config = calloc(1, sizeof *config);
	struct json_object *list = out ? hr_json_array(out, "operators") : NULL;
	int err = config ? read_pipelines(config) : -ENOMEM;

	if (!out)
		hr_bench_operators_head();
	if (!err)
		err = measure_all(run, config, d, list);
	free(config);
	return err;
}
