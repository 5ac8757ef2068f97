/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Direct paths that do not work: software controllers in the role of functions behind VFIO, and CPU
 * threads whose "GPU memory" is separate, in a machine whose topology allows direct paths. Checks
 * the messages, the release of memory, and that a run over the remaining paths is correct.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/cmd/report/parts.h"
#include "boot/engine/shape/paths.h"
#include "boot/engine/runner/runner.h"
#include "config/base/process.h"
#include "boot/engine/bringup/stage.h"
#include "tests/fakes/log.h"
#include "tests/harness/json.h"
#include "tests/harness/engine.h"

#define OBJECT (1u << 20)
#define GPU_ADDRESS "0000:03:00.0"

/* Faults of the GPU's memory, or of all memory, for one ssd. */
enum trouble {
	NONE,
	ASTRAY,	    /* the ssd's transfers go to other memory */
	UNREACHED,  /* the ssd cannot transfer */
	UNMAPPED,   /* there is no room for a window */
	DEAD,	    /* the ssd loses a command there */
	HOST_ASTRAY /* host memory is other memory, too */
};

static struct hr_engine *engine;
static enum trouble trouble[2];
static bool closed; /* the GPU's memory cannot be opened */
static struct hr_transport_ops ssd_ops;
static const struct hr_transport_ops *real_ssd;
static struct hr_backend_ops gpu_ops;
static const struct hr_backend_ops *real_gpu;
static int windows, peers; /* open windows, taken peers */
static uint8_t *elsewhere;

static int map(struct hr_transport *t, const struct hr_region *region, struct hr_error *e)
{
	const unsigned d = t == &engine->ssd[1].transport;
	const bool gpu = strcmp(region->name, "gpu") == 0;
	const enum trouble what = gpu || trouble[d] == HOST_ASTRAY ? trouble[d] : NONE;
	struct hr_region other = *region;

	if (what == UNMAPPED)
		return hr_fail(e, HR_ERROR_MISSING, -ENOSPC, "no window is left");
	windows++;
	if (what == UNREACHED)
		return 0;
	if (what == DEAD)
		hr_health_fault(&engine->ssd[d].health, HR_FAULT_LOST_COMMAND, NULL, -ETIMEDOUT,
				NULL);
	if (what == ASTRAY || what == HOST_ASTRAY)
		other.cpu = elsewhere;
	cr_assert_leq(other.bytes, 8u * OBJECT);
	return real_ssd->map(t, &other, e);
}

static void unmap(struct hr_transport *t, const struct hr_region *region)
{
	windows--;
	real_ssd->unmap(t, region);
}

static int alloc_peer(struct hr_backend *b, size_t bytes, struct hr_region *region,
		      struct hr_error *e)
{
	const int err = real_gpu->alloc(b, bytes, region, e);

	peers += !err;
	region->kind = closed ? HR_REGION_GPU : HR_REGION_BAR;
	return err;
}

static void give(struct hr_backend *b, struct hr_region *region)
{
	peers -= region->kind != HR_REGION_HOST;
	region->kind = HR_REGION_HOST;
	real_gpu->free(b, region);
}

static void begin(void)
{
	engine = calloc(1, sizeof *engine);
	elsewhere = aligned_alloc(HR_PAGE, 8u * OBJECT);
	cr_assert(engine && elsewhere);
	memset(trouble, 0, sizeof trouble);
	closed = false;
}

static void end(void)
{
	free(engine);
	free(elsewhere);
}

TestSuite(fallback, .init = begin, .fini = end, .timeout = 60);

static const struct hr_path one_switch = { .pair = true,
					   .direct = true,
					   .verdict = "DIRECT",
					   .rule = "R1",
					   .why = "one switch",
					   .suspect = "A1-port",
					   .suspect_why = "0000:02:00.0: redirects" };

/* Bring up to the stage `partition`, with direct paths and the faults. Source: ssd a; sink: ssd b. */
static int prepare(const char *memory)
{
	enum hr_path_policy path;
	enum hr_queue_policy queues;
	uint64_t host;
	engine_print(
		engine,
		"ssds = ( { name = \"a\"; device = \"soft:memory,size=64M\";\n"
		"  objects = ( { name = \"in\"; bytes = %u; } ); },\n"
		"  { name = \"b\"; device = \"soft:memory,size=64M\"; } );\n"
		"gpus = ( { name = \"g\"; device = \"host:2\"; } );\n"
		"memory = { %s };\n"
		"pipelines = ( { name = \"p\"; operator = \"copy\"; tile = \"64K\"; slots = 4;\n"
		"  source = { ssd = \"a\"; object = \"in\"; };\n"
		"  sink = { ssd = \"b\"; object = \"out\"; }; } );\n",
		OBJECT, memory);
	/* Software controllers get no direct path, so the paths are planned again with one. */
	path = engine->config.path;
	queues = engine->config.queues;
	host = engine->config.memory_host;
	engine->config.memory_host = 0;
	engine->config.path = HR_PATH_AUTO;
	engine->config.queues = HR_QUEUES_HOST;
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_PARTITION), 0);
	engine->config.path = path;
	engine->config.queues = queues;
	engine->config.memory_host = host;
	real_gpu = engine->backend[0].ops;
	gpu_ops = *real_gpu;
	gpu_ops.alloc_peer = alloc_peer;
	gpu_ops.free = give;
	engine->backend[0].ops = &gpu_ops;
	strcpy(engine->backend[0].peer, GPU_ADDRESS);
	engine->backend[0].peer_bytes = 64u * OBJECT;
	real_ssd = engine->ssd[0].transport.ops;
	ssd_ops = *real_ssd;
	ssd_ops.map = map;
	ssd_ops.unmap = unmap;
	for (unsigned d = 0; d < 2; d++) {
		engine->ssd[d].transport.kind = HR_TRANSPORT_VFIO;
		engine->ssd[d].transport.ops = &ssd_ops;
		snprintf(engine->ssd[d].transport.name, sizeof engine->ssd[d].transport.name,
			 "0000:0%u:00.0", 5 + d);
		engine->path[0][d] = one_switch;
	}
	return hr_partition_plan(engine);
}

/* All memory has been released, also after failed tries. */
static void expect_nothing_left(void)
{
	struct hr_bus bus;

	cr_expect_eq(engine->up, HR_STAGE_NONE);
	cr_expect_eq(windows, 0, "%d", windows); /* the controllers' own windows have no faults */
	cr_expect_eq(peers, 0, "%d", peers);
	cr_assert_eq(hr_region_assign_bus(HR_PAGE, &bus), 0);
	cr_expect_eq(bus.addr, 64ull << 30);
	hr_region_unassign_bus();
	windows = 0;
}

/* Word i of the copy is i, as in the source. */
static bool sink_is_right(void)
{
	struct hr_ssd *ssd = &engine->ssd[1];
	const struct hr_store_object *out = hr_store_find(&ssd->store, "out");
	uint64_t *words = aligned_alloc(HR_PAGE, OBJECT);
	bool right = out && out->bytes == OBJECT &&
		     ssd->blk->ops->read(ssd->blk, out->offset, words, OBJECT, NULL) == 0;

	for (uint64_t i = 0; right && i < OBJECT / sizeof *words; i++)
		right = words[i] == i;
	free(words);
	return right;
}

/* The appliance comes up with warnings only, runs, and writes correct data. */
static void expect_run(unsigned warnings, bool a_direct, bool b_direct)
{
	const unsigned before = fake_log_count_of(HR_LOG_WARN);
	int err = hr_engine_up(engine, HR_STAGE_QUEUES);

	if (!err)
		err = hr_run_all(engine, false, NULL);
	hr_unseal();
	cr_assert_eq(err, 0, "%d: %s", err, fake_log_last_of(HR_LOG_ERROR));
	cr_expect_eq(fake_log_count_of(HR_LOG_ERROR), 0, "%s", fake_log_last_of(HR_LOG_ERROR));
	cr_expect_eq(fake_log_count_of(HR_LOG_WARN) - before, warnings, "%s",
		     fake_log_last_of(HR_LOG_WARN));
	cr_expect_eq(engine->path[0][0].direct, a_direct);
	cr_expect_eq(engine->path[0][1].direct, b_direct);
	cr_expect_eq(engine->run[0].outcome, HR_RUN_DONE);
	cr_expect(sink_is_right());
}

Test(fallback, without_trouble_both_paths_are_direct)
{
	cr_assert_eq(prepare(""), 0);
	expect_run(0, true, true);
	cr_expect_str_eq(hr_run_path(engine, &engine->run[0]), "direct (GPU memory)");
	hr_engine_down(engine);
	expect_nothing_left();
}

Test(fallback, a_path_that_is_not_proven_is_replaced_and_the_others_stay)
{
	static const enum trouble row[] = { ASTRAY, UNREACHED, UNMAPPED };

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		for (unsigned d = 0; d < 2; d++) {
			memset(trouble, 0, sizeof trouble);
			trouble[d] = row[i];
			cr_assert_eq(prepare(""), 0);
			expect_run(1, d != 0, d != 1);
			cr_expect_str_eq(hr_run_path(engine, &engine->run[0]),
					 "direct and host memory (bounce)");
			hr_engine_down(engine);
			expect_nothing_left();
		}
	}
}

Test(fallback, each_lost_path_is_reported_with_its_reason_and_consequence)
{
	const char *line;

	trouble[0] = ASTRAY;
	trouble[1] = UNMAPPED;
	cr_assert_eq(prepare("path = \"auto\";"), 0);
	cr_assert_gt(engine->partition[0].used[HR_PLACE_GPU], 0u);
	expect_run(2, false, false);
	cr_expect_eq(engine->partition[0].used[HR_PLACE_GPU], 0u);
	cr_expect_str_eq(hr_run_path(engine, &engine->run[0]), "host memory (bounce)");
	line = fake_log_last_of(HR_LOG_WARN);
	cr_expect(strstr(line, "0000:06:00.0: cannot map "), "%s", line);
	cr_expect(strstr(line, "; tiles go through host memory instead"), "%s", line);
	hr_engine_down(engine);
	expect_nothing_left();
}

Test(fallback, reports_name_bounce_and_its_reason)
{
	struct json_object *report, *paths, *one, *value;
	char *text = NULL, document[4096];
	struct hr_json json;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	trouble[0] = ASTRAY;
	cr_assert_eq(prepare(""), 0);
	expect_run(1, false, true);
	hr_report_paths(engine, &engine->run[0], "", out);
	cr_assert_eq(fclose(out), 0);
	cr_expect(strstr(text, "a (0000:05:00.0) to g (0000:03:00.0): bounce, DIRECT by rule R1: "
			       "one switch; but loopback through gpu memory of gpu 'g'"),
		  "%s", text);
	cr_expect(strstr(text, "b (0000:06:00.0) to g (0000:03:00.0): direct, DIRECT by rule R1: "
			       "one switch\n"),
		  "%s", text);
	hr_json_to_text(&json, HR_JSON_LINE, document, sizeof document);
	hr_report_head_json(engine, &engine->run[0], &json);
	report = json_parsed(&json);
	cr_assert(json_object_object_get_ex(report, "paths", &paths));
	one = json_object_array_get_idx(paths, 0);
	cr_assert(json_object_object_get_ex(one, "direct", &value));
	cr_expect_not(json_object_get_boolean(value));
	cr_assert(json_object_object_get_ex(one, "why", &value));
	cr_expect(strstr(json_object_get_string(value),
			 "the data that the ssd wrote did not arrive"));
	json_object_put(report);
	free(text);
	hr_engine_down(engine);
	expect_nothing_left();
}

Test(fallback, the_warning_names_another_rule_than_the_deciding_one)
{
	const char *line;

	trouble[1] = ASTRAY;
	cr_assert_eq(prepare(""), 0);
	expect_run(1, true, false);
	line = fake_log_last_of(HR_LOG_WARN);
	cr_expect(strstr(line, "0000:06:00.0: loopback through gpu memory of gpu 'g'"), "%s", line);
	cr_expect(strstr(line, "; most likely rule A1-port of the topology: 0000:02:00.0: "
			       "redirects; tiles go through host memory instead"),
		  "%s", line);
	hr_engine_down(engine);
	expect_nothing_left();
}

Test(fallback, gpu_memory_that_cannot_be_opened_leaves_host_memory_for_all)
{
	const char *line;

	closed = true;
	cr_assert_eq(prepare(""), 0);
	expect_run(1, false, false);
	line = fake_log_last_of(HR_LOG_WARN);
	cr_expect(strstr(line, "gpu 'g': its memory cannot be opened for ssds: no other device"),
		  "%s", line);
	cr_expect(strstr(engine->path[0][1].why, "one switch; but its memory cannot be opened"),
		  "%s", engine->path[0][1].why);
	hr_engine_down(engine);
	expect_nothing_left();
}

/* The errors when a direct path is required are those without a fallback. */
Test(fallback, a_demanded_place_that_fails_is_an_error)
{
	static const struct {
		const char *memory;
		enum trouble trouble;
		bool closed;
		int want;
		const char *remedy;
	} row[] = {
		{ "path = \"direct\";", ASTRAY, false, -EIO,
		  "; memory.path = \"bounce\" does without" },
		{ "queues = \"gpu\";", ASTRAY, false, -EIO,
		  "; memory.queues = \"host\" does without" },
		{ "path = \"direct\"; queues = \"gpu\";", ASTRAY, false, -EIO,
		  "; memory.path = \"bounce\" with memory.queues = \"host\" does without" },
		{ "path = \"direct\";", UNMAPPED, false, -ENOSPC,
		  "; memory.path = \"bounce\" does without" },
		{ "path = \"direct\";", NONE, true, -ENOTSUP,
		  "; memory.path = \"bounce\" does without" },
		{ "queues = \"gpu\";", NONE, true, -ENOTSUP,
		  "; memory.queues = \"host\" does without" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const unsigned errors = fake_log_count_of(HR_LOG_ERROR);

		trouble[0] = row[i].trouble;
		closed = row[i].closed;
		cr_assert_eq(prepare(row[i].memory), 0);
		cr_expect_eq(hr_engine_up(engine, HR_STAGE_QUEUES), row[i].want, "row %zu", i);
		cr_expect_eq(fake_log_count_of(HR_LOG_ERROR), errors + 1, "row %zu: %s", i,
			     fake_log_last_of(HR_LOG_ERROR));
		cr_expect(strstr(fake_log_last_of(HR_LOG_ERROR), row[i].remedy), "row %zu: %s", i,
			  fake_log_last_of(HR_LOG_ERROR));
		expect_nothing_left();
	}
	cr_expect_eq(fake_log_count_of(HR_LOG_WARN), 0);
}

/* The message names the ssd at its start, and not a second time. */
static void expect_one_name(const char *line, const char *name)
{
	cr_expect_eq(strncmp(line, name, strlen(name)), 0, "%s", line);
	cr_expect_null(strstr(line + 1, name), "%s", line);
}

/* The ssd is stopped and not used again. */
Test(fallback, an_ssd_that_lost_a_command_is_an_error)
{
	trouble[0] = DEAD;
	cr_assert_eq(prepare(""), 0);
	cr_expect_eq(hr_engine_up(engine, HR_STAGE_QUEUES), -ETIMEDOUT);
	cr_expect_eq(fake_log_count_of(HR_LOG_WARN), 0, "%s", fake_log_last_of(HR_LOG_WARN));
	expect_one_name(fake_log_last_of(HR_LOG_ERROR), "0000:05:00.0: ");
	expect_nothing_left();
}

Test(fallback, host_memory_at_a_wrong_address_is_an_error)
{
	trouble[0] = HOST_ASTRAY;
	cr_assert_eq(prepare(""), 0);
	cr_expect_eq(hr_engine_up(engine, HR_STAGE_QUEUES), -EIO);
	cr_expect_eq(fake_log_count_of(HR_LOG_ERROR), 1);
	cr_expect(strstr(fake_log_last_of(HR_LOG_ERROR), "does an IOMMU translate them?"), "%s",
		  fake_log_last_of(HR_LOG_ERROR));
	expect_one_name(fake_log_last_of(HR_LOG_ERROR), "0000:05:00.0: ");
	expect_nothing_left();
}

/* Tiles in host memory need room within its limit, so the configuration must raise it. */
Test(fallback, a_partition_that_does_not_fit_any_more_is_an_error)
{
	trouble[0] = ASTRAY;
	cr_assert_eq(prepare("host = \"300K\";"), 0);
	cr_expect_eq(hr_engine_up(engine, HR_STAGE_QUEUES), -EINVAL);
	cr_expect_eq(fake_log_count_of(HR_LOG_WARN), 1);
	cr_expect(strstr(fake_log_last_of(HR_LOG_ERROR), "the partition does not fit"), "%s",
		  fake_log_last_of(HR_LOG_ERROR));
	expect_nothing_left();
}
