/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bring-up and going down, over software controllers and the host backend: the failure of each
 * stage, and that all earlier stages are down again (an image is locked while its controller is
 * up).
 */
#include "config/base/process.h"
#include "boot/engine/devices/ssd_store.h"
#include "boot/engine/objects/new_objects.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "boot/engine/runner/runner.h"
#include "nvme/dma/hostmem.h"
#include "tests/fakes/log.h"
#include "tests/harness/engine.h"

#define MIB (1u << 20)

static char folder[32], image[64];
static const char *options = ""; /* of the device, behind the image */
static struct hr_engine *engine;

static void begin(void)
{
	strcpy(folder, "/tmp/hr-stages-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
	snprintf(image, sizeof image, "%s/ssd.img", folder);
	engine = calloc(1, sizeof *engine);
	cr_assert_not_null(engine);
}

static void end(void)
{
	unlink(image);
	rmdir(folder);
	free(engine);
}

TestSuite(stages, .init = begin, .fini = end, .timeout = 60);

/* A configuration over the image. `ssd` and `pipeline` are further settings of the two groups. */
static void configure(const char *ssd, const char *memory, const char *pipeline)
{
	engine_print(engine,
		     "ssds = ( { name = \"a\"; device = \"soft:%s%s\"; %s } );\n"
		     "gpus = ( { name = \"g\"; device = \"host:2\"; } );\n"
		     "memory = { %s };\n"
		     "pipelines = ( { name = \"p\";\n%s } );\n",
		     image, options, ssd, memory, pipeline);
}

#define IN "source = { object = \"in\"; }; "
#define OUT "operator = \"copy\"; sink = { object = \"out\"; }; "
#define TILE "tile = \"64K\"; slots = 4; "
#define COPY IN OUT TILE
#define CHASE                                                                                      \
	"operator = \"chase\"; args = { hops = 5; }; objects = { next = { object = \"in\"; }; }; " \
	"cache = { frames = 70; }; io = 1; compute = 1; "
#define CRC IN TILE "operator = \"crc32c\"; "

/* The byte at a position of an object; no two blocks are equal. */
static uint8_t pattern(uint64_t at)
{
	return (uint8_t)((at * 2654435761u) >> 13);
}

static int open_image(struct hr_ssd *ssd)
{
	char device[128];

	snprintf(device, sizeof device, "soft:%s,size=64M", image);
	struct hr_config_ssd config = { .nsid = 1,
					.queue_entries = 64,
					.timeout_ns = 60 * HR_NS_PER_S,
					.admin_timeout_ns = HR_ADMIN_TIMEOUT_NS };

	snprintf(config.device, sizeof config.device, "%s", device);
	return hr_ssd_up(ssd, &config, NULL);
}

static void put(struct hr_ssd *ssd, const char *name, uint64_t bytes)
{
	uint8_t *data = aligned_alloc(HR_PAGE, MIB);
	struct hr_store_object *object;

	cr_assert_eq(hr_store_create(&ssd->store, name, bytes, 0, false, &object, NULL), 0);
	for (uint64_t at = 0; at < object->capacity; at += MIB) {
		uint64_t left = object->capacity - at;

		for (uint64_t i = 0; i < MIB; i++)
			data[i] = pattern(at + i);
		cr_assert_eq(ssd->disk.blk.ops->write(&ssd->disk.blk, object->offset + at, data,
						      left < MIB ? (size_t)left : MIB, false, NULL),
			     0);
	}
	cr_assert_eq(hr_store_finish(&ssd->store, object->id, false, 0, NULL), 0);
	free(data);
}

/* An image with a store and object "in" of that many bytes. */
static void make_image(uint64_t bytes)
{
	struct hr_ssd ssd = { 0 };

	cr_assert_eq(open_image(&ssd), 0);
	cr_assert_eq(hr_ssd_format_store(&ssd, 64, false, NULL), 0);
	cr_assert_eq(hr_ssd_open_store(&ssd, NULL), 0);
	put(&ssd, "in", bytes);
	hr_ssd_down(&ssd);
}

/* Number of bytes of the object that differ from the pattern. */
static uint64_t wrong_bytes(const char *name, uint64_t bytes)
{
	uint8_t *data = aligned_alloc(HR_PAGE, HR_PAGE);
	const struct hr_store_object *object;
	uint64_t wrong = 0;
	struct hr_ssd ssd = { 0 };

	cr_assert_eq(open_image(&ssd), 0);
	cr_assert_eq(hr_ssd_open_store(&ssd, NULL), 0);
	object = hr_store_find(&ssd.store, name);
	cr_assert_not_null(object);
	cr_assert_eq(object->bytes, bytes);
	for (uint64_t at = 0; at < bytes; at += HR_PAGE) {
		cr_assert_eq(ssd.disk.blk.ops->read(&ssd.disk.blk, object->offset + at, data,
						    HR_PAGE, NULL),
			     0);
		for (uint64_t i = 0; i < HR_PAGE && at + i < bytes; i++)
			wrong += data[i] != pattern(at + i);
	}
	hr_ssd_down(&ssd);
	free(data);
	return wrong;
}

/* The image can be opened, so no controller of a failed bring-up holds it. */
static void expect_unlocked(void)
{
	struct hr_ssd ssd = { 0 };

	cr_assert_eq(open_image(&ssd), 0);
	hr_ssd_down(&ssd);
}

Test(stages, each_failing_stage_takes_earlier_stages_down)
{
	static const struct {
		enum hr_stage stage;
		const char *ssd, *memory, *pipeline;
		int want;
	} row[] = {
		{ HR_STAGE_BACKENDS, "", "path = \"direct\";", CRC, -ENOTSUP },
		{ HR_STAGE_CONTROLLERS, "namespace = 7;", "", CRC, -ENOENT },
		{ HR_STAGE_OBJECTS, "", "",
		  "source = { object = \"inn\"; }; operator = \"crc32c\";", -EINVAL },
		{ HR_STAGE_OBJECTS, "", "",
		  IN "operator = \"cast_f32_bf16\"; sink = { object = \"o\"; };", -EINVAL },
		{ HR_STAGE_PARTITION, "", "host = \"300K\";", CRC, -EINVAL },
	};

	/* The object is not a whole number of f32. */
	make_image(MIB + 1);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		/* The stages before this one come up. */
		configure(row[i].ssd, row[i].memory, row[i].pipeline);
		cr_assert_eq(hr_engine_up(engine, row[i].stage - 1), 0, "row %zu", i);
		hr_engine_down(engine);
		/* This stage fails, and then all stages are down. */
		configure(row[i].ssd, row[i].memory, row[i].pipeline);
		cr_assert_eq(hr_engine_up(engine, row[i].stage), row[i].want, "row %zu", i);
		cr_assert_eq(engine->up, HR_STAGE_NONE, "row %zu", i);
		cr_assert(!engine->gpu_up[0], "row %zu", i);
		expect_unlocked();
	}
}

/* A command moves at most 8 KiB, and a queue of 8 entries has room for 7 commands. */
Test(stages, the_commands_of_a_tile_fit_the_queues_of_each_ssd)
{
	static const struct {
		const char *pipeline;
		int want;
		uint32_t tile_bytes;
	} row[] = {
		{ IN "tile = \"56K\"; operator = \"crc32c\";", 0, 7 * 8192 },
		{ IN "tile = \"60K\"; operator = \"crc32c\";", -EINVAL, 0 },
		{ IN OUT "tile = \"56K\";", 0, 7 * 8192 },
		{ IN OUT "tile = \"60K\";", -EINVAL, 0 },
		/* The sink of this operator has half the bytes: the reads decide. */
		{ IN "operator = \"cast_f32_bf16\"; sink = { object = \"o\"; }; tile = \"56K\";", 0,
		  7 * 8192 },
		{ IN "operator = \"cast_f32_bf16\"; sink = { object = \"o\"; }; tile = \"64K\";",
		  -EINVAL, 0 },
		/* A tile size that the configuration leaves out is halved until the tile fits. */
		{ IN "operator = \"crc32c\";", 0, 32768 },
		{ IN "operator = \"cast_f32_bf16\"; sink = { object = \"o\"; };", 0, 32768 },
	};

	make_image(MIB);
	options = ",mdts=1";
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		configure("queue_entries = 8;", "", row[i].pipeline);
		cr_expect_eq(hr_engine_up(engine, HR_STAGE_OBJECTS), row[i].want, "row %zu", i);
		if (row[i].want == 0)
			cr_expect_eq(engine->run[0].source[0].tile_bytes, row[i].tile_bytes,
				     "row %zu: %u", i, engine->run[0].source[0].tile_bytes);
		hr_engine_down(engine);
	}
}

Test(stages, an_existing_sink_is_refused_and_stays_unchanged)
{
	struct hr_ssd ssd = { 0 };

	make_image(MIB);
	cr_assert_eq(open_image(&ssd), 0);
	cr_assert_eq(hr_ssd_open_store(&ssd, NULL), 0);
	put(&ssd, "out", 3 * MIB);
	hr_ssd_down(&ssd);
	configure("", "", COPY);
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_QUEUES), -EEXIST);
	cr_assert_eq(engine->up, HR_STAGE_NONE);
	cr_assert_eq(wrong_bytes("out", 3 * MIB), 0u);
}

Test(stages, too_few_queue_pairs_are_reported_before_the_first_write)
{
	make_image(MIB);
	configure("", "",
		  IN OUT
		  "tile = \"4K\"; slots = 256; blocks = { prefetch = 200; writeback = 100; };");
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_QUEUES), -ENOTSUP);
	configure("", "", COPY);
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_STORES), 0);
	cr_assert_eq(engine->ssd[0].store.count, 1u);
	hr_engine_down(engine);
}

/*
 * The memory of place host is made of pages that are never adjacent, which is possible for physical
 * memory without huge pages. The granules have 8 KiB, the largest number of pieces that a soft
 * controller accepts.
 */
static int (*attach)(struct hr_backend *b, void *cpu, size_t bytes, bool io, void **worker,
		     struct hr_error *e);

static int attach_scattered(struct hr_backend *b, void *cpu, size_t bytes, bool io, void **worker,
			    struct hr_error *e)
{
	static struct hr_bus granule[64];
	struct hr_region *host = &engine->memory[0].region[HR_PLACE_HOST];
	const size_t count = (bytes + 2 * HR_PAGE - 1) / (2 * HR_PAGE);

	if (worker == &host->worker) {
		cr_assert(count > 1 && count <= 64, "%zu", count);
		for (size_t i = 0; i < count; i++)
			granule[i].addr = host->bus.addr + (count - 1 - i) * 2 * HR_PAGE;
		host->bus = granule[0];
		host->granule_bus = granule;
		host->granule_shift = 13;
	}
	return attach(b, cpu, bytes, io, worker, e);
}

Test(stages, rings_in_pieces_are_reported_before_the_first_write)
{
	static struct hr_backend_ops ops;

	make_image(MIB);
	for (unsigned entries = 64; entries <= 256; entries *= 2) {
		char setting[64];

		snprintf(setting, sizeof setting, "queue_entries = %u;", entries);
		configure(setting, "", IN OUT "tile = \"4K\"; slots = 4;");
		cr_assert_eq(hr_engine_up(engine, HR_STAGE_PARTITION), 0);
		ops = *engine->backend[0].ops;
		attach = ops.attach;
		ops.attach = attach_scattered;
		engine->backend[0].ops = &ops;
		if (entries <= 128) { /* one granule */
			cr_expect_eq(hr_engine_up(engine, HR_STAGE_MEMORY), 0);
		} else {
			cr_expect_eq(hr_engine_up(engine, HR_STAGE_QUEUES), -ENOTSUP);
			cr_expect_eq(engine->up, HR_STAGE_NONE);
		}
		hr_engine_down(engine);
	}
	cr_expect(strstr(fake_log_last(), "a ring of 16384 bytes is not contiguous in physical "
					  "memory; reserve huge pages"),
		  "%s", fake_log_last());
	configure("", "", CHASE);
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_PARTITION), 0);
	engine->backend[0].ops = &ops;
	cr_expect_eq(hr_engine_up(engine, HR_STAGE_MEMORY), -ENOTSUP, "nor are its frames");
	configure("", "", COPY);
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_STORES), 0);
	cr_assert_eq(engine->ssd[0].store.count, 1u);
	hr_engine_down(engine);
}

Test(stages, seal_holds_from_the_last_stage_until_the_way_down)
{
	make_image(MIB);
	configure("", "", CRC);
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_SINKS), 0);
	cr_assert(!hr_sealed());
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_QUEUES), 0);
	cr_assert(hr_sealed());
	cr_assert_eq(hr_run_all(engine, false, NULL), 0);
	cr_assert(hr_sealed());
	hr_engine_down(engine);
	cr_assert(!hr_sealed());
	expect_unlocked();
}

/* `bench` removes its objects after a signal, for which it needs the stores. */
Test(stages, earlier_stages_stay_up_when_a_later_stage_fails)
{
	make_image(MIB);
	configure("", "", CRC);
	cr_assert_eq(hr_engine_up_keeping(engine, HR_STAGE_STORES), 0);
	hr_signals_catch();
	raise(SIGINT);
	cr_expect_eq(hr_engine_up_keeping(engine, HR_STAGE_QUEUES), -EINTR);
	cr_expect_eq(engine->up, HR_STAGE_STORES);
	cr_expect(hr_store_find(&engine->ssd[0].store, "in"));
	cr_expect_eq(hr_engine_up(engine, HR_STAGE_QUEUES), -EINTR);
	cr_expect_eq(engine->up, HR_STAGE_NONE);
	expect_unlocked();
}

/* A pipeline needs only the stages above `stores`; the stages below stay up and are used again. */
Test(stages, upper_stages_go_down_and_come_up_again_and_again)
{
	make_image(MIB);
	configure("", "", CRC);
	for (int i = 0; i < 3; i++) {
		int err;
		bool sealed;

		engine->run[0].outcome = HR_RUN_WAITING;
		err = hr_engine_up(engine, HR_STAGE_QUEUES);
		sealed = hr_sealed();
		if (!err)
			err = hr_run_all(engine, false, NULL);
		hr_engine_down_to(engine, HR_STAGE_STORES);
		cr_assert_eq(err, 0, "time %d", i); /* while sealed, assertions must not allocate */
		cr_assert(sealed && !hr_sealed());
		cr_assert_eq(engine->run[0].outcome, HR_RUN_DONE);
		cr_assert_eq(engine->up, HR_STAGE_STORES);
		cr_assert(engine->gpu_up[0] && engine->ssd[0].has_store);
	}
	hr_engine_down(engine);
	expect_unlocked();
}

Test(stages, copies_of_odd_sizes_are_exact)
{
	static const uint64_t size[] = { 0, 1, 511, 4096, 65536, 65537, 3 * MIB + 12345 };

	for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
		unlink(image);
		make_image(size[i]);
		configure("", "", COPY);
		cr_assert_eq(hr_engine_up(engine, HR_STAGE_QUEUES), 0, "%zu", i);
		cr_assert_eq(hr_run_all(engine, false, NULL), 0, "%zu", i);
		cr_assert_eq(engine->run[0].outcome, HR_RUN_DONE, "%zu", i);
		cr_assert_eq(engine->run[0].durable_tiles, (size[i] + 65535) / 65536, "%zu", i);
		hr_engine_down(engine);
		cr_assert_eq(wrong_bytes("out", size[i]), 0u, "%zu", i);
	}
}

Test(stages, run_resumes_after_the_durable_part)
{
	uint64_t id;

	make_image(4 * MIB);
	/* State after a run that was interrupted at tile 10: a pending object with its tag. */
	configure("", "", COPY);
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_SINKS), 0);
	id = engine->run[0].sink_id;
	cr_assert_eq(engine->run[0].first_tile, 0u);
	cr_assert_eq(hr_store_progress(&engine->ssd[0].store, id, 10 * 65536,
				       hr_sink_tag(engine->run[0].fingerprint, true), 0, NULL),
		     0);
	hr_engine_down(engine);

	configure("", "", COPY);
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_QUEUES), 0);
	cr_assert_eq(engine->run[0].sink_id, id);
	cr_assert_eq(engine->run[0].first_tile, 10u);
	cr_assert_eq(hr_run_all(engine, false, NULL), 0);
	cr_assert_eq(engine->run[0].durable_tiles, 64u);
	hr_engine_down(engine);
	/*
	 * The first ten tiles were never written, so the resumed run has not written them either.
	 */
	cr_assert_gt(wrong_bytes("out", 4 * MIB), 9u * 65536);
	cr_assert_leq(wrong_bytes("out", 4 * MIB), 10u * 65536);

	configure("", "", COPY);
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_QUEUES), 0);
	cr_assert_eq(engine->run[0].outcome, HR_RUN_COMPLETE);
	cr_assert_eq(hr_run_all(engine, false, NULL), 0);
	hr_engine_down(engine);
}

Test(stages, sinks_of_runs_that_never_start_are_removed_again)
{
	make_image(2 * MIB);
	configure("", "", COPY);
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_SINKS), 0);
	cr_assert_not_null(hr_store_find_pending(&engine->ssd[0].store, "out"));
	hr_engine_down(engine);
	configure("", "", COPY);
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_STORES), 0);
	cr_expect_null(hr_store_find_pending(&engine->ssd[0].store, "out"));
	cr_expect_not_null(hr_store_find(&engine->ssd[0].store, "in"));
	hr_engine_down(engine);
}

Test(stages, finished_object_is_replaced_only_when_the_run_is_done)
{
	struct hr_ssd ssd = { 0 };

	make_image(2 * MIB);
	cr_assert_eq(open_image(&ssd), 0);
	cr_assert_eq(hr_ssd_open_store(&ssd, NULL), 0);
	put(&ssd, "out", 3 * MIB);
	hr_ssd_down(&ssd);
	configure("", "",
		  IN TILE "operator = \"copy\"; sink = { object = \"out\"; replace = true; };");
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_QUEUES), 0);
	hr_engine_down(engine);
	cr_assert_eq(wrong_bytes("out", 3 * MIB), 0u);
	configure("", "",
		  IN TILE "operator = \"copy\"; sink = { object = \"out\"; replace = true; };");
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_QUEUES), 0);
	cr_assert_eq(hr_run_all(engine, false, NULL), 0);
	hr_engine_down(engine);
	cr_assert_eq(wrong_bytes("out", 2 * MIB), 0u);
}

/* ---- one ssd */

Test(stages, an_ssd_that_keeps_no_data_has_no_store)
{
	struct hr_config_ssd config = { .device = "soft:null,size=1G",
					.nsid = 1,
					.queue_entries = 64,
					.timeout_ns = 60 * HR_NS_PER_S,
					.admin_timeout_ns = HR_ADMIN_TIMEOUT_NS };
	struct hr_ssd ssd = { 0 };

	cr_assert_eq(hr_ssd_up(&ssd, &config, NULL), 0);
	cr_expect_eq(hr_ssd_open_store(&ssd, NULL), -ENOTSUP);
	cr_expect_eq(hr_ssd_format_store(&ssd, 64, true, NULL), -ENOTSUP);
	hr_ssd_down(&ssd);
	hr_ssd_down(&ssd); /* the ssd is not up, so this call does nothing */
}

/* Rings of one page each, except the SQ of 64 entries; and queues until no identifier is left. */
Test(stages, queue_pairs_end_where_the_bus_or_the_controller_does)
{
	const size_t bytes = hr_qp_sq_bytes(128) + hr_qp_cq_bytes(128);
	struct hr_bus apart[8] = { { 0 } };
	struct hr_region rings, tables, scattered;
	struct hr_ssd_qp_memory memory = { .rings = &scattered, .tables = &tables };
	struct hr_config_ssd config = { .device = "soft:memory,size=16M",
					.nsid = 1,
					.queue_entries = 128,
					.timeout_ns = 60 * HR_NS_PER_S,
					.admin_timeout_ns = HR_ADMIN_TIMEOUT_NS };
	struct hr_nvme_qp qp;
	struct hr_ssd ssd = { 0 };
	int err;

	cr_assert_eq(hr_ssd_up(&ssd, &config, NULL), 0);
	cr_assert_eq(hr_hostmem_alloc(&rings, "rings", bytes, NULL), 0);
	cr_assert_eq(hr_hostmem_alloc(&tables, "tables", 1u << 20, NULL), 0);
	cr_assert_eq(ssd.transport.ops->map(&ssd.transport, &rings, NULL), 0);
	scattered = rings;
	scattered.granule_bus = apart; /* all pages at one address, so never adjacent */
	scattered.granule_shift = 12;
	memory.bar = (void *)(uintptr_t)ssd.transport.bar;
	cr_expect_eq(hr_ssd_create_qp(&ssd, &qp, &memory, NULL), -ENOTSUP);
	memory.rings = &rings;
	do
		err = hr_ssd_create_qp(&ssd, &qp, &memory, NULL);
	while (err == 0);
	cr_expect_eq(err, -ENOTSUP);
	cr_expect_eq(hr_ssd_queues_left(&ssd), 0);
	cr_expect_eq(hr_ssd_delete_qps(&ssd), 0);
	cr_expect_eq(hr_ssd_queues_left(&ssd), hr_ssd_queues(&ssd) - 1);
	ssd.transport.ops->unmap(&ssd.transport, &rings);
	hr_ssd_down(&ssd);
	hr_hostmem_free(&rings);
	hr_hostmem_free(&tables);
}
