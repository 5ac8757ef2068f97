/* The stage `queues` call by call: what a run gets that was unknown when it was planned, the runs that
 * are wired, and the way down. */
#include "boot/engine/stage_queues.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/access_shape.h"
#include "boot/engine/checksums.h"
#include "boot/engine/seal.h"
#include "boot/engine/shards.h"
#include "boot/engine/signals.h"
#include "gpu/ops/operators.h"
#include "tests/fakes/log.h"
#include "tests/harness/calls.h"

TestSuite(stage_queues, .timeout = 60);

enum { RUNS = 4, SSDS = 3 };

static struct hr_appliance *app;
static struct hr_controller controller[2]; /* of ssds 0 and 1, and of ssd 2 */
static struct hr_operator op;
static struct hr_pipe pipe_;
static struct hr_access access_;
static unsigned calls, fails_at, interrupts_at;
static uint32_t stuck; /* ssds */
static bool checksums;

/* Object n of ssd d. */
struct hr_store_object *hr_store_find_id(const struct hr_store *store, uint64_t id)
{
	static struct hr_store_object object[SSDS][10];
	uint32_t d = 0;

	while (store != &app->ssd[d].store)
		d++;
	object[d][id] = (struct hr_store_object){ .id = id,
						  .offset = (d + 1) * 1048576ull + id * 65536,
						  .bytes = 1000 * id + d,
						  .capacity = 65536 * id };
	return &object[d][id];
}

static int fail(void)
{
	return ++calls == fails_at ? hr_fail(&app->error, HR_ERROR_DEVICE, -EIO, "no queue") : 0;
}

int hr_pipe_layout_wire(struct hr_pipe_layout *l, struct hr_pipe **descriptor, struct hr_error *e)
{
	uint32_t i = 0;

	while (l != &app->run[i].layout)
		i++;
	calls_note("wire%u ", i);
	cr_expect_eq(descriptor, &app->run[i].pipe);
	*descriptor = &pipe_;
	return fail();
}

void hr_access_complete(const struct hr_appliance *of, struct hr_run *run)
{
	calls_note("complete%td ", run - app->run);
}

int hr_access_layout_wire(struct hr_access_layout *l, struct hr_access **descriptor,
			  struct hr_error *e)
{
	struct hr_run *run =
		&app->run[l == &app->run[1].gpu[0].layout || l == &app->run[1].gpu[1].layout ? 1
											     : 3];
	const uint32_t p = l != &run->gpu[0].layout;

	calls_note("wire%td.%u ", run - app->run, p);
	cr_expect_eq(l, &run->gpu[p].layout);
	cr_expect_eq(descriptor, &run->gpu[p].access);
	*descriptor = &access_;
	return fail();
}

void hr_access_layout_join(struct hr_access_layout *const layout[HR_GPUS_MAX])
{
	calls_note("join ");
	for (uint32_t p = 0; p < 2; p++)
		cr_expect_eq(layout[p], &app->run[1].gpu[p].layout);
}

bool hr_signals_pending(void)
{
	return interrupts_at && calls + 1 == interrupts_at;
}

bool hr_run_checksums(const struct hr_run *run)
{
	return checksums;
}

uint64_t hr_run_sink_at(const struct hr_run *run)
{
	return 8192;
}

uint32_t hr_op_id_of(const struct hr_operator *of)
{
	return of == &op ? 17 : 0;
}

int hr_ssd_delete_qps(struct hr_ssd *ssd)
{
	const uint32_t d = (uint32_t)(ssd - app->ssd);

	calls_note("-queues%u ", d);
	cr_expect_not(hr_sealed());
	return stuck >> d & 1 ? -EIO : 0;
}

static void begin(void)
{
	static struct hr_ctrl ctrl[2] = { { .volatile_cache = true }, { .volatile_cache = false } };

	free(app);
	app = calloc(1, sizeof *app);
	cr_assert_not_null(app);
	app->config.ssds = SSDS;
	app->config.gpus = 2;
	app->config.pipelines = RUNS;
	for (uint32_t d = 0; d < SSDS; d++) {
		struct hr_ssd *ssd = &app->ssd[d];

		ssd->controller = &controller[d == 2];
		ssd->ctrl = &ctrl[d == 2];
		ssd->ns.lba_shift = d == 2 ? 9 : 12;
		ssd->ns.nsid = d + 1;
		ssd->chunk_bytes = 65536u << d;
		snprintf(ssd->transport.name, sizeof ssd->transport.name, "t%u", d);
		app->bar[0][d] = &app->bar[0][d];
		app->bar[1][d] = &app->bar[1][d];
	}
	for (uint32_t i = 0; i <= RUNS; i++) { /* the last one is behind the end */
		app->config.pipeline[i].op = &op;
		app->config.pipeline[i].gpu = 1;
		app->run[i].config = &app->config.pipeline[i];
		app->run[i].selected = true;
	}
	app->config.pipeline[1].objects = app->config.pipeline[3].objects = 1;
	app->config.pipeline[1].other_gpus = 1;
	calls = fails_at = interrupts_at = 0;
	stuck = 0;
	checksums = false;
	hr_unseal();
	calls_take();
}

static void end(void)
{
	free(app);
	app = NULL;
}

#define ALL "wire0 complete1 wire1.0 wire1.1 join wire2 complete3 wire3.0 "

Test(stage_queues, each_run_that_waits_is_wired, .fini = end)
{
	static const char *const failed[] = { "wire0 ", "wire0 complete1 wire1.0 ",
					      "wire0 complete1 wire1.0 wire1.1 ",
					      "wire0 complete1 wire1.0 wire1.1 join wire2 ", ALL };

	begin();
	cr_expect_eq(hr_queues_up(app), 0);
	cr_expect_str_eq(calls_take(), ALL);
	cr_expect(hr_sealed());
	begin();
	app->run[0].selected = false;
	app->run[2].outcome = HR_RUN_COMPLETE;
	cr_expect_eq(hr_queues_up(app), 0);
	cr_expect_str_eq(calls_take(), "complete1 wire1.0 wire1.1 join complete3 wire3.0 ");
	for (unsigned n = 1; n <= 5; n++) {
		begin();
		fails_at = n;
		cr_expect_eq(hr_queues_up(app), -EIO);
		cr_expect_str_eq(calls_take(), failed[n - 1]);
		cr_expect_not(hr_sealed(), "bring-up goes down");
	}
	begin();
	interrupts_at = 2;
	cr_expect_eq(hr_queues_up(app), -EINTR);
	cr_expect_str_eq(calls_take(), "wire0 ");
	cr_expect_not(hr_sealed());
}

static void expect_extent(const struct hr_extent *extent, uint32_t d, uint64_t id)
{
	const struct hr_store_object *object = hr_store_find_id(&app->ssd[d].store, id);
	const uint32_t shift = d == 2 ? 9 : 12;

	cr_expect_eq(extent->id, id);
	cr_expect_eq(extent->lba, object->offset >> shift);
	cr_expect_eq(extent->bytes, object->bytes);
	cr_expect_eq(extent->capacity, object->capacity);
	cr_expect_eq(extent->nsid, d + 1);
	cr_expect_eq(extent->lba_shift, shift);
	cr_expect_eq(extent->ssd, d);
	cr_expect_eq(extent->chunk_bytes, 65536u << d);
}

/* Sources on ssds 2 and 0, sink on ssd 1; the run continues at tile 5. */
static struct hr_run *set_stream(void)
{
	struct hr_config_pipeline *c = &app->config.pipeline[0];
	struct hr_run *run = &app->run[0];

	app->config.pipelines = 1;
	c->sources = 2;
	c->source[0].ssd = 2;
	c->sink.ssd = 1;
	c->has_sink = true;
	run->first_tile = 5;
	run->source[0].id = 3;
	run->source[1].id = 4;
	run->sink_id = 6;
	run->sink_bytes = 777;
	run->sink_tile_bytes = 4097;
	run->ssds = 2;
	run->ssd[0] = 2;
	for (uint32_t s = 0; s < 2; s++)
		run->layout.source[s].summed = true;
	run->source[1].verify.check = HR_SOURCE_RESUMED;
	return run;
}

Test(stage_queues, a_run_gets_the_places_of_its_objects, .fini = end)
{
	struct hr_run *run;

	begin();
	run = set_stream();
	run->copies = true;
	app->path[1][0].direct = true;
	checksums = true;
	run->stages = true;
	cr_assert_eq(hr_queues_up(app), 0);
	cr_expect_eq(run->cpu.first_tile, 5u);
	cr_expect_eq(run->cpu.next_tile, 5u);
	expect_extent(&run->cpu.source[0].extent, 2, 3);
	expect_extent(&run->cpu.source[1].extent, 0, 4);
	expect_extent(&run->cpu.sink, 1, 6);
	cr_expect(run->cpu.source[0].copied && !run->cpu.source[1].copied);
	cr_expect(run->layout.source[0].summed && !run->layout.source[1].summed);
	cr_expect_eq(run->layout.read[0].bar, &app->bar[1][2]);
	cr_expect_eq(run->layout.read[1].bar, &app->bar[1][0]);
	cr_expect_null(run->layout.read[2].bar);
	cr_expect_eq(run->layout.write.bar, &app->bar[1][1]);
	cr_expect_eq(run->cpu.flush_at_end, 1u);
	cr_expect_eq(run->cpu.op, 17u);
	cr_expect_eq(run->cpu.checksums, 1u);
	cr_expect_eq(run->cpu.out_copy_bytes, 8192u);
	begin();
	run = set_stream();
	app->config.pipeline[0].sink.ssd = 2;
	cr_assert_eq(hr_queues_up(app), 0);
	cr_expect_eq(run->cpu.flush_at_end, 0u);
	cr_expect_eq(run->cpu.checksums + run->cpu.out_copy_bytes, 0u);
	cr_expect(!run->cpu.source[0].copied && !run->cpu.source[1].copied);
	begin();
	run = set_stream();
	app->config.pipeline[0].has_sink = false;
	cr_assert_eq(hr_queues_up(app), 0);
	cr_expect_eq(run->cpu.sink.id, 0u);
	cr_expect_null(run->layout.write.bar);
}

Test(stage_queues, a_part_of_a_data_set_counts_from_its_begin, .fini = end)
{
	struct hr_run *run;
	struct hr_extent whole;

	begin();
	run = set_stream();
	run->of_shards = true;
	run->source[0].at = 16384;
	run->source[0].bytes = 99999;
	run->parts = 2;
	cr_assert_eq(hr_queues_up(app), 0);
	cr_assert(hr_run_is_divided(run));
	hr_run_extent(app, 2, 3, &whole);
	cr_expect_eq(run->cpu.source[0].extent.lba, whole.lba - 32);
	cr_expect_eq(run->cpu.source[0].extent.bytes, 99999u);
	cr_expect_eq(run->cpu.source[1].extent.bytes, 0u);
	hr_run_extent(app, 1, 6, &whole);
	cr_expect_eq(run->cpu.sink.lba, whole.lba - 2);
	cr_expect_eq(run->cpu.sink.bytes, 777u);
}

Test(stage_queues, a_feed_and_a_tap_have_lengths_only, .fini = end)
{
	struct hr_run *run;

	begin();
	run = set_stream();
	app->config.pipeline[0].has_sink = false;
	strcpy(app->config.pipeline[0].feed.name, "f");
	strcpy(app->config.pipeline[0].tap.name, "t");
	run->source[0].bytes = 5555;
	run->copies = true;
	run->ssds = 0;
	cr_assert_eq(hr_queues_up(app), 0);
	cr_expect_eq(run->cpu.source[0].extent.bytes, 5555u);
	cr_expect_eq(run->cpu.source[0].extent.id, 0u);
	cr_expect_eq(run->cpu.source[0].copied, 1u);
	cr_expect_eq(run->cpu.sink.bytes, 777u);
	cr_expect_eq(run->cpu.sink.id, 0u);
}

Test(stage_queues, the_way_down_deletes_all_and_names_a_controller_once, .fini = end)
{
	static const struct {
		uint32_t stuck;
		const char *warns;
	} row[] = {
		{ 0, "none" },
		{ 1, "t0: the controller does not stop; the memory of its queues stays allocated" },
		{ 2, "none" }, /* the first ssd of the controller speaks for it */
		{ 4, "t2: the controller does not stop; the memory of its queues stays allocated" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		begin();
		stuck = row[i].stuck;
		for (uint32_t r = 0; r < RUNS; r++) {
			app->run[r].pipe = &pipe_;
			for (uint32_t p = 0; p < HR_GPUS_MAX; p++)
				app->run[r].gpu[p].access = &access_;
		}
		app->run[RUNS].pipe = &pipe_;
		hr_seal();
		hr_warn("none");
		hr_queues_down(app);
		cr_expect_str_eq(calls_take(), "-queues2 -queues1 -queues0 ");
		cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN), row[i].warns);
		for (uint32_t r = 0; r < RUNS; r++) {
			cr_expect_null(app->run[r].pipe);
			for (uint32_t p = 0; p < HR_GPUS_MAX; p++)
				cr_expect_null(app->run[r].gpu[p].access);
		}
		cr_expect_not_null(app->run[RUNS].pipe);
	}
}
