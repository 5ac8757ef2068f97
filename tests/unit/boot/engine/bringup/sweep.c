/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole appliance, from its bring-up to the end of its runs, in which the nth call of one kind
 * fails: an allocation, a call of a gpu, a window of a controller, a command of a disk. The failure
 * is an error or a warning, and nothing stays open. The address sanitizer reports memory that is
 * not freed.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/runner/runner.h"
#include "config/base/process.h"
#include "tests/fakes/calloc.h"
#include "tests/fakes/log.h"
#include "tests/harness/engine.h"

#define GPUS 2u
#define SSDS 2u

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

TestSuite(sweep, .init = begin, .fini = end, .timeout = 240);

static void configure(const char *options, const char *pipelines)
{
	engine_print(engine,
		     "appliance = { checkpoint = 0; parallel = 2; };\n"
		     "ssds = ( { name = \"a\"; device = \"soft:memory,size=16M%s\"; "
		     "queue_entries = 64;"
		     " objects = ( { name = \"in\"; bytes = \"64K\"; } ); },\n"
		     " { name = \"b\"; device = \"soft:memory,size=16M%s\"; } );\n"
		     "gpus = ( { name = \"g0\"; device = \"host:1\"; },"
		     " { name = \"g1\"; device = \"host:1\"; } );\n"
		     "pipelines = ( %s );\n",
		     options, options, pipelines);
}

#define COPY                                                                        \
	"{ name = \"p\"; gpu = \"g0\"; source = { ssd = \"a\"; object = \"in\"; };" \
	" operator = \"copy\"; sink = { ssd = \"b\"; object = \"out\"; }; tile = \"4K\"; slots = 4; }"
#define CRC                                                                         \
	"{ name = \"q\"; gpu = \"g1\"; source = { ssd = \"a\"; object = \"in\"; };" \
	" operator = \"crc32c\"; tile = \"4K\"; slots = 4; }"
#define CHASE                                                                                         \
	"{ name = \"r\"; operator = \"chase\"; gpus = [ \"g0\", \"g1\" ]; args = { hops = 5; };"      \
	" objects = { next = { ssd = \"a\"; object = \"in\"; }; }; cache = { frames = 70; }; io = 1;" \
	" compute = 1; }"
#define TAP                                                                         \
	"{ name = \"t\"; gpu = \"g0\"; source = { ssd = \"a\"; object = \"in\"; };" \
	" operator = \"copy\"; sink = { tap = \"tap\"; }; tile = \"4K\"; slots = 4; }"

/* ---- allocations */

/* Returns the number of allocations that a bring-up makes. */
static unsigned fail_each_allocation(const char *options, const char *pipelines)
{
	for (unsigned nth = 1;; nth++) {
		int err;

		configure(options, pipelines);
		fake_calloc_fails(nth);
		err = hr_engine_up(engine, HR_STAGE_QUEUES);
		fake_calloc_fails(fake_calloc_failed() ? 0 : nth);
		if (!err) {
			hr_engine_down(engine);
			fake_calloc_fails(0);
			return nth - 1;
		}
		cr_assert_eq(err, -ENOMEM, "allocation %u: %d, %s", nth, err, engine->error.text);
		cr_assert(strstr(engine->error.text, "memory"), "allocation %u: %s", nth,
			  engine->error.text);
		cr_assert_eq(engine->up, HR_STAGE_NONE, "allocation %u: %s", nth,
			     engine->error.text);
		cr_expect_eq(engine->error.kind, HR_ERROR_MISSING, "allocation %u: %s", nth,
			     engine->error.text);
	}
}

Test(sweep, an_allocation_that_fails_ends_the_bring_up)
{
	cr_expect_geq(fail_each_allocation("", COPY), 6);
	cr_expect_geq(fail_each_allocation(",cache=64K,reservations=1", COPY ", " CRC), 12);
}

/* ---- calls of gpus, windows and disks, which the test counts and balances */

enum kind { GPU, WINDOW, DISK };

static struct hr_backend_ops gpu_ops;
static struct hr_transport_ops window_ops;
static struct hr_blk_ops disk_ops;
static const struct hr_backend_ops *real_gpu;
static const struct hr_transport_ops *real_window;
static const struct hr_blk_ops *real_disk;
static enum kind failing;
static unsigned calls, fails_at;
static int regions, attached, windows, launches; /* that are open */

static int fail(enum kind kind, struct hr_error *e)
{
	if (kind != failing)
		return 0;
	calls++;
	return calls == fails_at ? hr_fail(e, HR_ERROR_DEVICE, -EIO, "call %u fails", calls) : 0;
}

static int attach(struct hr_backend *b, void *cpu, size_t bytes, bool io, void **worker,
		  struct hr_error *e)
{
	int err = fail(GPU, e);

	err = err ? err : real_gpu->attach(b, cpu, bytes, io, worker, e);
	attached += !err;
	return err;
}

static void detach(struct hr_backend *b, void *cpu)
{
	attached--;
	real_gpu->detach(b, cpu);
}

static int allocate(struct hr_backend *b, size_t bytes, struct hr_region *region,
		    struct hr_error *e)
{
	int err = fail(GPU, e);

	err = err ? err : real_gpu->alloc(b, bytes, region, e);
	regions += !err;
	return err;
}

static void give(struct hr_backend *b, struct hr_region *region)
{
	regions--;
	real_gpu->free(b, region);
}

static int share(struct hr_backend *b, const struct hr_region *region, struct hr_backend *other,
		 struct hr_error *e)
{
	const int err = fail(GPU, e);

	return err ? err : real_gpu->share(b, region, other, e);
}

static int upload(struct hr_backend *b, void *worker, const void *cpu, size_t bytes,
		  struct hr_error *e)
{
	const int err = fail(GPU, e);

	return err ? err : real_gpu->upload(b, worker, cpu, bytes, e);
}

static int download(struct hr_backend *b, void *cpu, const void *worker, size_t bytes,
		    struct hr_error *e)
{
	const int err = fail(GPU, e);

	return err ? err : real_gpu->download(b, cpu, worker, bytes, e);
}

static int launch(struct hr_backend *b, const struct hr_launch_args *args,
		  struct hr_launch **launched, struct hr_error *e)
{
	int err = fail(GPU, e);

	err = err ? err : real_gpu->launch(b, args, launched, e);
	launches += !err;
	return err;
}

static void launch_free(struct hr_launch *launched)
{
	launches--;
	real_gpu->launch_free(launched);
}

static int map(struct hr_transport *t, const struct hr_region *region, struct hr_error *e)
{
	int err = fail(WINDOW, e);

	err = err ? err : real_window->map(t, region, e);
	windows += !err;
	return err;
}

static void unmap(struct hr_transport *t, const struct hr_region *region)
{
	/* a controller's own window was opened before the test counted */
	for (uint32_t d = 0; d < SSDS; d++)
		windows +=
			region == &engine->ssd[d].region ||
			(engine->ssd[d].controller && region == &engine->ssd[d].controller->region);
	windows--;
	real_window->unmap(t, region);
}

static int read_disk(struct hr_blk *blk, uint64_t offset, void *data, size_t bytes,
		     struct hr_error *e)
{
	const int err = fail(DISK, e);

	return err ? err : real_disk->read(blk, offset, data, bytes, e);
}

static int write_disk(struct hr_blk *blk, uint64_t offset, const void *data, size_t bytes, bool fua,
		      struct hr_error *e)
{
	const int err = fail(DISK, e);

	return err ? err : real_disk->write(blk, offset, data, bytes, fua, e);
}

static int flush_disk(struct hr_blk *blk, struct hr_error *e)
{
	const int err = fail(DISK, e);

	return err ? err : real_disk->flush(blk, e);
}

/* Bring up to the stage `controllers`, and count the calls from then on. */
static void install(enum kind kind, const char *options, const char *pipelines)
{
	configure(options, pipelines);
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_CONTROLLERS), 0, "%s", engine->error.text);
	real_gpu = engine->backend[0].ops;
	gpu_ops = *real_gpu;
	gpu_ops.attach = attach;
	gpu_ops.detach = detach;
	gpu_ops.alloc = allocate;
	gpu_ops.free = give;
	gpu_ops.share = share;
	gpu_ops.upload = upload;
	gpu_ops.download = download;
	gpu_ops.launch = launch;
	gpu_ops.launch_free = launch_free;
	real_window = engine->ssd[0].transport.ops;
	window_ops = *real_window;
	window_ops.map = map;
	window_ops.unmap = unmap;
	real_disk = engine->ssd[0].blk->ops;
	disk_ops = *real_disk;
	disk_ops.read = read_disk;
	disk_ops.write = write_disk;
	disk_ops.flush = flush_disk;
	for (uint32_t g = 0; g < GPUS; g++)
		if (engine->gpu_up[g])
			engine->backend[g].ops = &gpu_ops;
	for (uint32_t d = 0; d < SSDS; d++) {
		engine->ssd[d].transport.ops = &window_ops;
		engine->ssd[d].blk->ops = &disk_ops;
	}
	failing = kind;
	calls = 0;
	regions = attached = windows = launches = 0;
}

/* All bus addresses have been given back. */
static bool buses_are_free(void)
{
	struct hr_bus bus;
	bool first = hr_region_assign_bus(HR_PAGE, &bus) == 0 && bus.addr == 64ull << 30;

	hr_region_unassign_bus();
	return first;
}

/* Returns the number of calls of that kind. */
static unsigned fail_each(enum kind kind, const char *options, const char *pipelines,
			  enum hr_stage last)
{
	for (unsigned nth = 1;; nth++) {
		const unsigned said =
			fake_log_count_of(HR_LOG_ERROR) + fake_log_count_of(HR_LOG_WARN);
		bool done;
		int err;

		fails_at = 0;
		install(kind, options, pipelines);
		fails_at = nth;
		err = hr_engine_up(engine, last);
		if (!err && last == HR_STAGE_QUEUES)
			err = hr_run_all(engine, false, NULL);
		done = calls < nth;
		hr_engine_down(engine);
		cr_assert_eq(engine->up, HR_STAGE_NONE);
		cr_assert(done ? !err
			       : fake_log_count_of(HR_LOG_ERROR) + fake_log_count_of(HR_LOG_WARN) >
					  said,
			  "call %u of %d: %d %s", nth, kind, err, engine->error.text);
		cr_assert(!err || strstr(fake_log_last_of(HR_LOG_ERROR), "fails"),
			  "call %u of %d: %s", nth, kind, fake_log_last_of(HR_LOG_ERROR));
		cr_assert(err || done || kind == DISK, "call %u of %d: no error", nth, kind);
		cr_assert(regions == 0 && attached == 0 && windows == 0 && launches == 0,
			  "call %u of %d leaves %d regions, %d attached, %d windows, %d launches",
			  nth, kind, regions, attached, windows, launches);
		cr_assert(buses_are_free(), "call %u of %d", nth, kind);
		if (done)
			return nth - 1;
	}
}

Test(sweep, a_call_that_fails_ends_the_run_and_leaves_nothing)
{
	static const struct {
		const char *pipelines;
		enum hr_stage last;
		unsigned least[3]; /* calls of each kind */
	} row[] = {
		{ COPY, HR_STAGE_QUEUES, { 8, 2, 40 } },
		{ COPY ", " CRC, HR_STAGE_QUEUES, { 15, 3, 40 } },
		{ CHASE, HR_STAGE_QUEUES, { 22, 2, 30 } },
		{ TAP, HR_STAGE_SINKS, { 4, 1, 30 } },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		for (enum kind kind = GPU; kind <= DISK; kind++) {
			unsigned n = fail_each(kind, "", row[i].pipelines, row[i].last);

			cr_expect_geq(n, row[i].least[kind], "row %zu, kind %d: %u", i, kind, n);
		}
}
