/*
 * The stage `partition` with shapes and layouts that a test chooses: the description of a run field by
 * field, each limit at N and N - 1 with its text, and the calls in their order.
 */
#include "boot/engine/stage_partition.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/access_shape.h"
#include "boot/engine/checksums.h"
#include "boot/engine/paths.h"
#include "boot/engine/schedule.h"
#include "boot/engine/shape.h"
#include "boot/engine/share.h"
#include "config/check.h"
#include "tests/harness/calls.h"

TestSuite(stage_partition, .timeout = 60);

enum { SSDS = 3, GPUS = 2, RUNS = 3 };

static struct hr_appliance *app;
static struct hr_controller controller[2]; /* of ssds 0 and 1, and of ssd 2 */
static struct hr_operator op;
static unsigned calls, fails_at;
static enum hr_tap_sharing sharing;
static uint64_t used[HR_PLACES]; /* what the layout of a stream operator adds */

static int fail(int err)
{
	return ++calls == fails_at ? err : 0;
}

static uint32_t index_of(const struct hr_run *run)
{
	return (uint32_t)(run - app->run);
}

int hr_paths_up(struct hr_appliance *of)
{
	calls_note("paths ");
	return fail(-ENODEV);
}

int hr_access_shape(struct hr_appliance *of, struct hr_run *run)
{
	calls_note("access%u ", index_of(run));
	return fail(-ENOTSUP);
}

int hr_shape_run(struct hr_appliance *of, struct hr_run *run)
{
	calls_note("shape%u ", index_of(run));
	return fail(-ENOTSUP);
}

int hr_access_layout_plan(struct hr_access_layout *l, struct hr_partition *partition,
			  const char *owner)
{
	const uint32_t p = l == &app->run[1].gpu[1].layout;

	cr_expect_eq(l, &app->run[1].gpu[p].layout);
	calls_note("plan1.%u on %td '%s' ", p, partition - app->partition, owner);
	return fail(-ENOSPC);
}

int hr_pipe_layout_plan(struct hr_pipe_layout *l, struct hr_partition *partition, const char *owner)
{
	uint32_t i = 0;

	while (l != &app->run[i].layout)
		i++;
	calls_note("plan%u on %td '%s' ", i, partition - app->partition, owner);
	for (int place = 0; place < HR_PLACES; place++)
		if (used[place])
			hr_partition_add(partition, (enum hr_place)place, used[place], 1, "o", "p");
	return fail(-ENOSPC);
}

int hr_schedule_check(struct hr_appliance *of)
{
	calls_note("schedule ");
	return fail(-ERANGE);
}

uint64_t hr_run_copy_bytes(const struct hr_run *run)
{
	return 12345;
}

enum hr_tap_sharing hr_run_share(const struct hr_appliance *of, const struct hr_run *run,
				 const char **why)
{
	*why = "";
	return sharing;
}

bool hr_run_sums(const struct hr_run *run, uint32_t s)
{
	return s == 1;
}

uint32_t hr_config_tile_bytes(const struct hr_config_pipeline *pipeline, uint32_t s)
{
	return s ? 1 : 960;
}

uint32_t hr_config_tile_rows(const struct hr_config_pipeline *pipeline)
{
	return 12;
}

static uint32_t state_bytes(const void *args)
{
	return *(const uint8_t *)args;
}

/* A stream operator on gpu 1, an access operator on gpus 1 and 0, and a run that is not selected. */
static void begin(void)
{
	free(app);
	app = calloc(1, sizeof *app);
	cr_assert_not_null(app);
	app->config.file = "f";
	app->config.ssds = SSDS;
	app->config.gpus = GPUS;
	app->config.pipelines = RUNS;
	memset(controller, 0, sizeof controller);
	controller[0].queues = controller[1].queues = 99;
	for (uint32_t d = 0; d <= SSDS; d++) { /* the last one is no ssd of this configuration */
		struct hr_config_ssd *c = &app->config.ssd[d];

		app->ssd[d].controller = &controller[d == 2];
		app->ssd[d].chunk_bytes = 4096 << d;
		snprintf(app->ssd[d].transport.name, sizeof app->ssd[d].transport.name, "t%u", d);
		snprintf(c->name, sizeof c->name, "d%u", d);
		c->line = 30 + d;
	}
	for (uint32_t g = 0; g < GPUS; g++) {
		snprintf(app->config.gpu[g].name, sizeof app->config.gpu[g].name, "g%u", g);
		app->config.gpu[g].line = 40 + g;
		app->partition[g].count = 5; /* of an earlier plan */
		app->backend[g].lanes = 1;
	}
	for (uint32_t i = 0; i <= RUNS; i++) {
		struct hr_config_pipeline *c = &app->config.pipeline[i];

		snprintf(c->name, sizeof c->name, "p%u", i);
		c->line = 50 + i;
		c->gpu = 1;
		c->op = &op;
		app->run[i].config = c;
		app->run[i].selected = i != 2;
	}
	app->config.pipeline[1].objects = 1;
	app->config.pipeline[1].other_gpus = 1;
	memset(&op, 0, sizeof op);
	op.state_bytes = state_bytes;
	op.tile_record_bytes = 6;
	memset(used, 0, sizeof used);
	calls = fails_at = 0;
	sharing = HR_SHARE_SLICE;
	calls_take();
}

static void end(void)
{
	free(app);
	app = NULL;
}

#define ALL                                                           \
	"paths ", "shape0 ", "plan0 on 1 'pipeline p0' ", "access1 ", \
		"plan1.0 on 1 'pipeline p1' ", "plan1.1 on 0 'pipeline p1' ", "schedule "

Test(stage_partition, a_call_that_fails_is_the_last, .fini = end)
{
	static const char *const call[] = { ALL };
	static const int want[] = { -ENODEV, -ENOTSUP, -EINVAL, -ENOTSUP,
				    -EINVAL, -EINVAL,  -ERANGE, 0 };
	const unsigned all = sizeof call / sizeof *call;

	for (unsigned n = 1; n <= all + 1; n++) {
		char text[512] = "", says[128] = "";

		begin();
		app->config.memory_host = 7;
		app->config.memory_gpu = 8;
		fails_at = n;
		cr_expect_eq(hr_partition_up(app), want[n - 1], "%u", n);
		for (unsigned i = 0; i < n && i < all; i++)
			strcat(text, call[i]);
		cr_expect_str_eq(calls_take(), text);
		if (want[n - 1] == -EINVAL)
			snprintf(says, sizeof says,
				 "f:%u: pipeline 'p%u' needs more memory, or more parts, than a "
				 "partition can have (%u)",
				 n > 3 ? 51 : 50, n > 3, HR_PARTS_MAX);
		cr_expect_str_eq(app->error.text, says);
		for (uint32_t g = 0; n > 1 && g < GPUS; g++) {
			cr_expect_eq(app->partition[g].count, 0u);
			for (int i = 0; i < HR_PLACES; i++)
				cr_expect_eq(app->partition[g].limit[i], i == HR_PLACE_HOST  ? 7u
									 : i == HR_PLACE_GPU ? 8u
											     : 0u);
		}
	}
}

/* ---- the description of a run of a stream operator */

static void expect_queues(const struct hr_pipe_queues *q, uint32_t d, enum hr_place place)
{
	cr_expect_eq(q->ssd, &app->ssd[d]);
	cr_expect_str_eq(q->name, app->config.ssd[d].name);
	cr_expect_eq(q->place, place);
}

static void expect_tiles(const struct hr_pipe_tiles *t, const char *object, enum hr_place place,
			 bool summed)
{
	cr_expect_str_eq(t->object, object);
	cr_expect_eq(t->place, place);
	cr_expect_eq(t->summed, summed);
}

static struct hr_run *set_stream(void)
{
	struct hr_run *run = &app->run[0];
	struct hr_config_pipeline *c = &app->config.pipeline[0];

	c->sources = 2;
	c->source[0] = (struct hr_config_object){ .ssd = 0, .object = "x" };
	c->source[1] = (struct hr_config_object){ .ssd = 2, .object = "y" };
	c->sink = (struct hr_config_object){ .ssd = 1, .object = "z", .checksum = true };
	c->has_sink = true;
	c->op_args[0] = 77;
	c->op_args_bytes = 3;
	run->tiles = 9;
	run->slots = 5;
	run->ssds = 2;
	run->ssd[0] = 2;
	run->sink_tile_bytes = 555;
	run->source[0].tile_bytes = 111;
	run->source[0].queue = 1;
	run->source[1].tile_bytes = 222;
	for (int role = 0; role < HR_RUN_ROLES; role++) {
		run->blocks[role] = 2 + (uint32_t)role;
		run->workers[role] = 1;
	}
	return run;
}

Test(stage_partition, a_run_is_described_field_by_field, .fini = end)
{
	struct hr_pipe want;
	struct hr_run *run;

	for (uint32_t parts = 0; parts < 2; parts++) {
		begin();
		run = set_stream();
		run->parts = 3 * parts;
		run->part = parts;
		run->cpu.op = 9; /* of an earlier plan */
		run->layout.chunks = 9;
		app->path[1][0].direct = true;
		cr_assert_eq(hr_partition_plan(app), 0, "%s", app->error.text);
		memset(&want, 0, sizeof want);
		want.tiles = parts ? 6 : 9;
		want.part = parts;
		want.slots = 5;
		want.state_bytes = 77;
		want.record_bytes = 6;
		want.copy_bytes = 12345;
		memcpy(want.blocks, run->blocks, sizeof want.blocks);
		memcpy(want.workers, run->workers, sizeof want.workers);
		want.sources = 2;
		want.source[0].tile_bytes = 111;
		want.source[0].queue = 1;
		want.source[0].extent.chunk_bytes = 4096;
		want.source[1].tile_bytes = 222;
		want.source[1].extent.chunk_bytes = 16384;
		want.read_queues = 2;
		want.has_sink = 1;
		want.sink_tile_bytes = 555;
		want.sink.chunk_bytes = 8192;
		cr_expect_eq(memcmp(&run->cpu, &want, sizeof want), 0, "parts %u", parts);
		cr_expect_eq(run->layout.pipe, &run->cpu);
		cr_expect_eq(run->layout.args, run->config->op_args);
		cr_expect_eq(run->layout.args_bytes, 3u);
		cr_expect_eq(run->layout.chunks, 0);
		cr_expect(!run->layout.tap && !run->layout.feed);
		expect_tiles(&run->layout.source[0], "x", HR_PLACE_GPU, false);
		expect_tiles(&run->layout.source[1], "y", HR_PLACE_HOST, true);
		expect_tiles(&run->layout.sink, "z", HR_PLACE_HOST, true);
		expect_queues(&run->layout.read[0], 2, HR_PLACE_HOST);
		expect_queues(&run->layout.read[1], 0, HR_PLACE_HOST);
		expect_queues(&run->layout.write, 1, HR_PLACE_HOST);
		cr_expect_null(run->layout.read[2].ssd);
	}
	app->config.queues = HR_QUEUES_GPU;
	app->config.pipeline[0].has_sink = false;
	op.state_bytes = NULL;
	cr_assert_eq(hr_partition_plan(app), 0);
	expect_queues(&run->layout.read[1], 0, HR_PLACE_GPU);
	cr_expect_null(run->layout.write.ssd);
	cr_expect_null(run->layout.sink.object);
	cr_expect_eq(run->cpu.has_sink + run->cpu.sink_tile_bytes, 0u);
	cr_expect_eq(run->cpu.sink.chunk_bytes, 0u);
	cr_expect_eq(run->cpu.state_bytes, 0u);
}

Test(stage_partition, a_tap_and_a_feed_have_numbers_of_their_configuration, .fini = end)
{
	static const struct {
		uint32_t slots, ring, align, tap_align, out_den, den;
		enum hr_tap_deliver deliver;
		enum hr_tap_lag lag;
		enum hr_tap_sharing share;
	} row[] = {
		{ 1, 1, 0, HR_PAGE, 0, 1, HR_TAP_EACH, HR_TAP_DROP, HR_SHARE_PARK },
		{ 4, 4, HR_PAGE, HR_PAGE, 1, 1, HR_TAP_ONE, HR_TAP_DROP, HR_SHARE_SLICE },
		{ 5, 8, 2 * HR_PAGE, 2 * HR_PAGE, 7, 7, HR_TAP_EACH, HR_TAP_BLOCK, HR_SHARE_MPS },
		{ 64, 64, 2 << 20, 2 << 20, 1, 1, HR_TAP_ONE, HR_TAP_BLOCK, HR_SHARE_PARK },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_config_pipeline *c;
		struct hr_tap_role tap;
		struct hr_feed_role feed;
		struct hr_run *run;

		begin();
		run = set_stream();
		c = &app->config.pipeline[0];
		c->has_sink = false;
		c->sources = 1;
		strcpy(c->tap.name, "t");
		strcpy(c->feed.name, "f");
		c->tap.deliver = row[i].deliver;
		c->tap.lag = row[i].lag;
		c->tap.consumers = 3;
		c->tap.tries = 4;
		op.out_num = 6;
		op.out_den = row[i].out_den;
		sharing = row[i].share;
		run->slots = row[i].slots;
		run->ssds = 0;
		app->backend[1].shared_align = row[i].align;
		app->backend[1].lanes = i % 2 ? 32 : 1;
		memset(&run->tap, 1, sizeof run->tap); /* of an earlier plan */
		memset(&run->feed, 1, sizeof run->feed);
		cr_assert_eq(hr_partition_plan(app), 0, "%s", app->error.text);
		memset(&tap, 0, sizeof tap);
		tap.each = row[i].deliver == HR_TAP_EACH;
		tap.drop = row[i].lag == HR_TAP_DROP;
		tap.consumers = 3;
		tap.tries = 4;
		tap.park = row[i].share == HR_SHARE_PARK;
		tap.ring = row[i].ring;
		memset(&feed, 0, sizeof feed);
		feed.row_bytes = 80;
		feed.out_num = 6;
		feed.out_den = row[i].den;
		feed.ring = row[i].ring;
		cr_expect_eq(memcmp(&run->tap.role, &tap, sizeof tap), 0, "%zu", i);
		cr_expect_eq(memcmp(&run->feed.role, &feed, sizeof feed), 0, "%zu", i);
		cr_expect_eq(run->layout.tap, &run->tap.role);
		cr_expect_eq(run->layout.feed, &run->feed.role);
		cr_expect_eq(run->layout.tap_align, row[i].tap_align, "%zu", i);
		cr_expect_eq(run->layout.tap_sets, i % 2 ? HR_TAP_SETS_MAX : 0, "%zu", i);
		cr_expect_eq(run->layout.feed_sets, i % 2 ? HR_TAP_SETS_MAX : 0, "%zu", i);
		expect_tiles(&run->layout.source[0], "f", HR_PLACE_TAP, false);
		cr_expect_eq(run->cpu.source[0].tile_bytes, 111u);
		cr_expect_eq(run->cpu.source[0].extent.chunk_bytes, 0u);
		cr_expect_eq(run->cpu.has_sink, 1u);
		cr_expect_eq(run->cpu.sink_tile_bytes, 555u);
		cr_expect_null(run->layout.write.ssd);
	}
}

/* ---- limits */

#define FIT "f: gpu 'g1': the partition does not fit: "
#define SMALLER "raise it, or use smaller tiles, fewer slots, or fewer frames"

Test(stage_partition, each_limit_of_memory_is_exact, .fini = end)
{
	static const struct {
		uint32_t lanes;
		const char *peer;
		uint64_t peer_bytes, host, gpu, tap, words;
		const char *says; /* NULL: it fits */
	} row[] = {
		{ 1, "", 0, 0, 0, 1, 1, NULL },
		{ 1, "", 0, 40960, 0, 0, 0, NULL },
		{ 1, "", 0, 40959, 0, 0, 0,
		  FIT "control 4096 + host 8192 + worker 12288 + gpu 16384 = 40960 bytes, but "
		      "memory.host allows 40959; " SMALLER },
		{ 1, "", 0, 40960 + 36864, 0, 16384, 20480, NULL },
		{ 1, "", 0, 40960 + 36863, 0, 16384, 20480,
		  FIT "control 4096 + host 8192 + worker 12288 + gpu 16384 + tap 16384 + words "
		      "20480 = 77824 bytes, but memory.host allows 77823; " SMALLER },
		{ 32, "", 0, 8192, 28672, 0, 9999, NULL },
		{ 32, "", 0, 8192, 28671, 0, 0,
		  FIT
		  "worker 12288 + gpu 16384 = 28672 bytes, but memory.gpu allows 28671; " SMALLER },
		{ 32, "", 0, 0, 32767, 4096, 0,
		  FIT "worker 12288 + gpu 16384 + tap 4096 = 32768 bytes, but memory.gpu allows "
		      "32767; " SMALLER },
		{ 1, "B", 16384, 24576, 0, 0, 0, NULL },
		{ 1, "B", 16383, 24576, 0, 0, 0,
		  "f:41: gpu 'g1': the partition does not fit: gpu 16384 bytes, but the BAR of B "
		  "has 16383; use smaller tiles, fewer slots, or fewer frames" },
		{ 1, "B", 16384, 24575, 0, 0, 0,
		  FIT "control 4096 + host 8192 + worker 12288 = 24576 bytes, but memory.host "
		      "allows 24575; " SMALLER },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const bool bar = i == 9;

		begin();
		used[HR_PLACE_CONTROL] = 4096;
		used[HR_PLACE_HOST] = 8192;
		used[HR_PLACE_WORKER] = 12288;
		used[HR_PLACE_GPU] = 16384;
		used[HR_PLACE_TAP] = row[i].tap;
		used[HR_PLACE_TAP_WORDS] = row[i].words;
		app->config.memory_host = row[i].host;
		app->config.memory_gpu = row[i].gpu;
		app->backend[1].lanes = row[i].lanes;
		app->backend[1].peer_bytes = row[i].peer_bytes;
		strcpy(app->backend[1].peer, row[i].peer);
		cr_expect_eq(hr_partition_plan(app),
			     !row[i].says ? 0
			     : bar	  ? -ENOTSUP
					  : -EINVAL,
			     "%zu", i);
		cr_expect_str_eq(app->error.text, row[i].says ? row[i].says : "");
		cr_expect_eq(app->error.kind, !row[i].says ? HR_ERROR_NONE
					      : bar	   ? HR_ERROR_MISSING
							   : HR_ERROR_USAGE);
	}
}

Test(stage_partition, one_place_may_exceed_its_limit_alone, .fini = end)
{
	begin();
	used[HR_PLACE_HOST] = 8192;
	app->config.memory_host = 8191;
	cr_expect_eq(hr_partition_plan(app), -EINVAL);
	cr_expect_str_eq(app->error.text,
			 FIT "host memory: the parts need 8192 bytes, the limit of memory.host is "
			     "8191; " SMALLER);
}

/* Two prefetch and one write-back worker of the first run, three I/O workers on two gpus. */
Test(stage_partition, the_queue_pairs_of_a_controller_are_a_limit, .fini = end)
{
	static const struct {
		uint32_t first, second; /* queue pairs of the controllers */
		const char *says;
	} row[] = {
		{ 2 + 6 + 1, 2, NULL },
		{ 2 + 6, 2,
		  "f:30: ssd 'd0' and ssd 'd1' (line 31) (t0): the pipelines need 9 I/O queue "
		  "pairs, but the controller has 8 left; use fewer blocks" },
		{ 9, 1,
		  "f:32: ssd 'd2' (t2): the pipelines need 2 I/O queue pairs, but the controller "
		  "has 1 left; use fewer blocks" },
		{ 10, 0,
		  "f:30: ssd 'd0' and ssd 'd1' (line 31) and ssd 'd2' (line 32) (t0): the pipelines "
		  "need 11 I/O queue pairs, but the controller has 10 left; use fewer blocks" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_run *run;

		begin();
		run = set_stream();
		run->ssd[1] = 1;
		for (int role = 0; role < HR_RUN_ROLES; role++) {
			app->run[1].blocks[role] = 9;
			app->run[1].workers[role] = 9;
			run->blocks[role] = 5;
		}
		run->blocks[HR_ROLE_PREFETCH] = run->workers[HR_ROLE_WRITEBACK] = 1;
		run->workers[HR_ROLE_PREFETCH] = 2;
		run->blocks[HR_ROLE_WRITEBACK] = 1;
		app->run[1].blocks[HR_ROLE_IO] = 3;
		app->run[1].workers[HR_ROLE_IO] = 1;
		app->run[1].ssds = 1;
		app->run[2] = app->run[3] = *run; /* not selected; behind the last */
		app->run[2].selected = false;
		controller[0].queues = row[i].first + 4;
		controller[1].queues = row[i].second + 4;
		controller[0].queues_used = controller[1].queues_used = 4;
		if (i == 3)
			app->ssd[2].controller = &controller[0];
		cr_expect_eq(hr_partition_plan(app), row[i].says ? -ENOTSUP : 0, "%zu", i);
		cr_expect_str_eq(app->error.text, row[i].says ? row[i].says : "");
		cr_expect_eq(app->error.kind, row[i].says ? HR_ERROR_MISSING : HR_ERROR_NONE);
	}
}
