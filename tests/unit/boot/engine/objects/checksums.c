/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checksums of sources and sinks, by whole runs over a software controller: the checksum of a sink,
 * also after an interrupted run, and the result of a run whose source differs from the stored data.
 */
#include "boot/engine/objects/checksums.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "boot/engine/devices/ssd_store.h"
#include "boot/engine/objects/new_objects.h"
#include "config/base/clock.h"
#include "boot/cmd/cmd.h"
#include "boot/engine/runner/runner.h"
#include "cache/crc32c.h"
#include "tests/fakes/log.h"
#include "tests/harness/engine.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define UNIT (16u * TILE)
#define BYTES_MAX (4u * UNIT)
#define TILE 16384u

static char folder[32], image[64];
static uint8_t data[BYTES_MAX + UNIT], read_back[BYTES_MAX + UNIT];
static struct hr_engine *engine;
static struct hr_ssd ssd;

static void begin(void)
{
	strcpy(folder, "/tmp/hr-checksums-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
	snprintf(image, sizeof image, "%s/ssd.img", folder);
	engine = calloc(1, sizeof *engine);
	cr_assert_not_null(engine);
	for (uint32_t i = 0; i < sizeof data; i++)
		data[i] = (uint8_t)(i * 2654435761u >> 13);
}

static void end(void)
{
	unlink(image);
	rmdir(folder);
	free(engine);
}

TestSuite(checksums, .init = begin, .fini = end, .timeout = 120);

/* One pipeline of `copy` from `in` to `out` with these further settings, followed by this text. */
static void configure(const char *pipeline, const char *sink, const char *more)
{
	engine_print(engine,
		     "ssds = ( { name = \"a\"; device = \"soft:%s\"; } );\n"
		     "gpus = ( { name = \"g\"; device = \"host:2\"; } );\n"
		     "pipelines = ( { name = \"p\"; source = { object = \"in\"; };\n"
		     "operator = \"copy\"; sink = { object = \"out\"; %s };\n"
		     "tile = \"16K\"; slots = 6; blocks = { compute = 3; }; %s } %s );\n",
		     image, sink, pipeline, more);
}

static void open_image(void)
{
	struct hr_config_ssd config = { .nsid = 1,
					.queue_entries = 64,
					.timeout_ns = 20 * HR_NS_PER_S,
					.admin_timeout_ns = HR_ADMIN_TIMEOUT_NS };

	snprintf(config.device, sizeof config.device, "soft:%s,size=64M", image);
	memset(&ssd, 0, sizeof ssd);
	cr_assert_eq(hr_ssd_up(&ssd, &config, NULL), 0);
}

static void put(const char *name, uint64_t bytes, bool has_crc)
{
	struct hr_blk *blk = &ssd.disk.blk;
	struct hr_store_object *object;

	cr_assert_eq(hr_store_create(&ssd.store, name, bytes, 0, false, &object, NULL), 0);
	if (object->capacity)
		cr_assert_eq(
			blk->ops->write(blk, object->offset, data, object->capacity, false, NULL),
			0);
	cr_assert_eq(
		hr_store_finish(&ssd.store, object->id, has_crc, hr_crc32c(0, data, bytes), NULL),
		0);
}

/* An image whose object `in` has this number of bytes. */
static void make_image(uint64_t bytes, bool has_crc)
{
	unlink(image);
	open_image();
	cr_assert_eq(hr_ssd_format_store(&ssd, 64, false, NULL), 0);
	cr_assert_eq(hr_ssd_open_store(&ssd, NULL), 0);
	put("in", bytes, has_crc);
	hr_ssd_down(&ssd);
}

/* Find the object of that name on the disk, and read its data to read_back. */
static struct hr_store_object look(const char *name)
{
	struct hr_store_object found = { 0 };
	const struct hr_store_object *object;

	open_image();
	cr_assert_eq(hr_ssd_open_store(&ssd, NULL), 0);
	object = hr_store_find(&ssd.store, name);
	cr_assert_not_null(object, "there is no object %s", name);
	found = *object;
	if (found.capacity)
		cr_assert_eq(ssd.disk.blk.ops->read(&ssd.disk.blk, found.offset, read_back,
						    found.capacity, NULL),
			     0);
	hr_ssd_down(&ssd);
	return found;
}

static void expect_crc(const char *name, uint32_t crc)
{
	const struct hr_store_object object = look(name);

	cr_expect(object.flags & HR_OBJECT_HAS_CRC, "%s has no checksum", name);
	cr_expect_eq(object.crc, crc, "%s: %08x, not %08x", name, object.crc, crc);
}

/* Change one bit of an object, finished or not, on the disk. */
static void rot(const char *name, uint64_t at)
{
	struct hr_blk *blk = &ssd.disk.blk;
	const struct hr_store_object *object;

	open_image();
	cr_assert_eq(hr_ssd_open_store(&ssd, NULL), 0);
	object = hr_store_find(&ssd.store, name);
	cr_assert_not_null(object);
	at += object->offset;
	cr_assert_eq(blk->ops->read(blk, at / HR_PAGE * HR_PAGE, read_back, HR_PAGE, NULL), 0);
	read_back[at % HR_PAGE] ^= 4;
	cr_assert_eq(blk->ops->write(blk, at / HR_PAGE * HR_PAGE, read_back, HR_PAGE, false, NULL),
		     0);
	hr_ssd_down(&ssd);
}

static int run_all(void)
{
	int err = hr_engine_up(engine, HR_STAGE_QUEUES);

	if (!err)
		err = hr_run_all(engine, false, NULL);
	return err;
}

/*
 * Make the state of an interrupted run of this configuration: this number of bytes is recorded as
 * durable although none is written, with this tag and checksum.
 */
static void cut_short(uint64_t durable, bool tag, uint32_t crc)
{
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_SINKS), 0);
	cr_assert_eq(hr_store_progress(&engine->ssd[0].store, engine->run[0].sink_id, durable,
				       hr_sink_tag(engine->run[0].fingerprint, tag), crc, NULL),
		     0);
	hr_engine_down(engine);
}

Test(checksums, sinks_of_odd_sizes_have_checksums)
{
	static const uint64_t size[] = { 0, 1, 511, 4096, TILE, TILE + 1, 3 * UNIT + 12345 };

	for (size_t i = 0; i < ROWS(size); i++) {
		make_image(size[i], true);
		configure("", "", "");
		cr_assert_eq(run_all(), 0, "%zu", i);
		cr_expect_eq(engine->run[0].source[0].verify.check, HR_SOURCE_VERIFIED);
		hr_engine_down(engine);
		expect_crc("out", hr_crc32c(0, data, size[i]));
	}
}

Test(checksums, a_resumed_run_joins_the_checksum_of_the_first)
{
	const uint64_t bytes = 3 * UNIT + 12345, durable = 10 * TILE;
	const uint32_t rest = hr_crc32c(0, data + durable, bytes - durable);

	make_image(bytes, true);
	configure("", "", "");
	cut_short(durable, true, 0x12345678);
	configure("", "", "");
	cr_assert_eq(run_all(), 0);
	cr_expect_eq(engine->run[0].first_tile, 10u);
	cr_expect_eq(engine->run[0].source[0].verify.check, HR_SOURCE_RESUMED);
	hr_engine_down(engine);
	/* The prefix was not read: its checksum is the one recorded for the first run. */
	expect_crc("out", hr_crc32c_combine(0x12345678, rest, bytes - durable));
}

Test(checksums, a_run_without_unread_data_keeps_the_checksum)
{
	const uint64_t bytes = 3 * UNIT + 12345;

	make_image(bytes, true);
	configure("", "", "");
	cut_short(bytes, true, 0x12345678);
	configure("", "", "");
	cr_assert_eq(run_all(), 0);
	cr_expect_eq(engine->run[0].first_tile, engine->run[0].tiles);
	hr_engine_down(engine);
	expect_crc("out", 0x12345678);
}

/*
 * The incomplete object has no checksum, as in older versions, or a durable number of bytes that no
 * run produces.
 */
Test(checksums, a_prefix_without_checksum_is_read_again)
{
	static const struct {
		uint64_t durable;
		bool tag;
	} row[] = { { 10 * TILE, false }, { 3 * UNIT + 12345, false }, { 10 * TILE + 4096, true } };

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_store_object out;

		make_image(3 * UNIT + 12345, true);
		configure("", "", "");
		cut_short(row[i].durable, row[i].tag, 0x12345678);
		configure("", "", "");
		cr_assert_eq(run_all(), 0, "row %zu", i);
		cr_expect_geq(engine->run[0].first_tile, 10u);
		hr_engine_down(engine);
		out = look("out");
		expect_crc("out", hr_crc32c(0, read_back, out.bytes));
		cr_expect_neq(out.crc, hr_crc32c(0, data, out.bytes),
			      "the prefix was never written");
	}
}

Test(checksums, a_sink_without_a_checksum_is_resumed_and_finished)
{
	struct hr_store_object out;

	make_image(3 * UNIT, true);
	configure("", "checksum = false;", "");
	cut_short(10 * TILE, true, 0x12345678);
	configure("", "checksum = false;", "");
	cr_assert_eq(run_all(), 0);
	cr_expect_eq(engine->run[0].first_tile, 10u);
	hr_engine_down(engine);
	out = look("out");
	cr_expect_eq(out.flags, 0);
	/* A finished object needs no further run, with or without a checksum. */
	configure("", "", "");
	cr_assert_eq(run_all(), 0);
	cr_expect_eq(engine->run[0].outcome, HR_RUN_COMPLETE);
	hr_engine_down(engine);
}

Test(checksums, a_changed_source_fails_the_run_and_leaves_no_sink)
{
	static const uint64_t at[] = { 0, TILE - 1, 3 * UNIT + 12344 };

	for (size_t i = 0; i < ROWS(at); i++) {
		make_image(3 * UNIT + 12345, true);
		rot("in", at[i]);
		configure("", "", "");
		cr_assert_eq(run_all(), -EBADMSG);
		cr_expect_eq(engine->run[0].outcome, HR_RUN_FAILED);
		cr_expect_eq(engine->run[0].source[0].verify.check, HR_SOURCE_WRONG);
		cr_expect_eq(engine->run[0].source[0].verify.expected,
			     hr_crc32c(0, data, 3 * UNIT + 12345));
		cr_expect_eq(engine->run[0].cause.kind, HR_ERROR_DEVICE);
		cr_expect(engine->run[0].cause.printed);
		hr_engine_down(engine);
		open_image();
		cr_assert_eq(hr_ssd_open_store(&ssd, NULL), 0);
		cr_expect_eq(ssd.store.count, 1, "only the source is there");
		hr_ssd_down(&ssd);
		rot("in", at[i]); /* undo the change */
		configure("", "", "");
		cr_assert_eq(run_all(), 0);
		cr_expect_eq(engine->run[0].first_tile, 0u);
		hr_engine_down(engine);
		expect_crc("out", hr_crc32c(0, data, 3 * UNIT + 12345));
	}
}

/* Run `copy` while its source loses its name after bring-up; its data stay on the ssd. */
static int run_without_source(const char *settings)
{
	struct hr_store *store;
	int err;

	configure(settings, "", "");
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_QUEUES), 0);
	store = &engine->ssd[0].store;
	cr_assert_eq(hr_store_rename(store, hr_store_find(store, "in")->id, "gone", false, NULL),
		     0);
	err = hr_run_all(engine, false, NULL);
	hr_engine_down(engine);
	return err;
}

Test(checksums, a_source_that_was_renamed_has_the_checksum_of_bring_up)
{
	make_image(UNIT + 5, true);
	cr_expect_eq(run_without_source(""), 0);
	cr_expect_eq(engine->run[0].source[0].verify.check, HR_SOURCE_VERIFIED);
	cr_expect_eq(engine->run[0].source[0].verify.expected, hr_crc32c(0, data, UNIT + 5));
	make_image(UNIT + 5, false);
	cr_expect_eq(run_without_source(""), 0);
	cr_expect_eq(engine->run[0].source[0].verify.check, HR_SOURCE_NO_CHECKSUM);
	make_image(UNIT + 5, true);
	rot("in", 70000);
	cr_expect_eq(run_without_source(""), -EBADMSG);
	cr_expect_eq(engine->run[0].source[0].verify.check, HR_SOURCE_WRONG);
}

Test(checksums, a_corrupt_source_leaves_the_object_to_be_replaced)
{
	make_image(UNIT, true);
	open_image();
	cr_assert_eq(hr_ssd_open_store(&ssd, NULL), 0);
	put("out", 777, true);
	hr_ssd_down(&ssd);
	rot("in", 4711);
	configure("", "replace = true;", "");
	cr_assert_eq(run_all(), -EBADMSG);
	hr_engine_down(engine);
	cr_expect_eq(look("out").bytes, 777);
}

Test(checksums, a_corrupt_source_is_accepted_with_verify_off)
{
	make_image(UNIT, true);
	rot("in", 4711);
	configure("verify = \"off\";", "", "");
	cr_assert_eq(run_all(), 0);
	cr_expect_eq(engine->run[0].source[0].verify.check, HR_SOURCE_VERIFY_OFF);
	hr_engine_down(engine);
	look("out");
	expect_crc("out", hr_crc32c(0, read_back, UNIT)); /* of the written data */
}

Test(checksums, a_source_without_a_checksum_is_reported_and_refused_with_verify_on)
{
	make_image(UNIT, false);
	configure("", "", "");
	cr_assert_eq(run_all(), 0);
	cr_expect_eq(engine->run[0].source[0].verify.check, HR_SOURCE_NO_CHECKSUM);
	hr_engine_down(engine);
	make_image(UNIT, false);
	configure("verify = \"on\";", "", "");
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_PARTITION), -EINVAL);
}

Test(checksums, a_run_that_must_verify_starts_over)
{
	make_image(3 * UNIT, true);
	configure("verify = \"on\";", "", "");
	cut_short(10 * TILE, true, 0x12345678);
	configure("verify = \"on\";", "", "");
	cr_assert_eq(run_all(), 0);
	cr_expect_eq(engine->run[0].first_tile, 0u);
	cr_expect_eq(engine->run[0].source[0].verify.check, HR_SOURCE_VERIFIED);
	hr_engine_down(engine);
	expect_crc("out", hr_crc32c(0, data, 3 * UNIT));
}

/* The durable part of the old object is not a part of the data of a second attempt. */
Test(checksums, a_run_after_an_interrupted_new_start_begins_at_tile_0)
{
	make_image(3 * UNIT, true);
	configure("verify = \"on\";", "", "");
	cut_short(10 * TILE, true, 0x12345678);
	configure("verify = \"on\";", "", "");
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_SINKS), 0);
	cr_expect_eq(engine->run[0].durable_tiles, 0u);
	hr_engine_down(engine); /* the run is interrupted at this tile */
	configure("", "", "");
	cr_assert_eq(run_all(), 0);
	cr_expect_eq(engine->run[0].first_tile, 0u);
	hr_engine_down(engine);
	expect_crc("out", hr_crc32c(0, data, 3 * UNIT));
}

#define NEXT                                                                             \
	", { name = \"q\"; source = { object = \"out\"; }; operator = \"copy\"; tile = " \
	"\"16K\"; verify = \"on\"; sink = { object = \"out2\"; }; }"

Test(checksums, a_later_pipeline_verifies_the_sink_of_an_earlier_pipeline)
{
	make_image(2 * UNIT + 77, true);
	configure("", "", NEXT);
	cr_assert_eq(run_all(), 0);
	cr_expect_eq(engine->run[1].source[0].verify.check, HR_SOURCE_VERIFIED);
	hr_engine_down(engine);
	expect_crc("out2", hr_crc32c(0, data, 2 * UNIT + 77));
	/* The same when the earlier pipeline has nothing to do. */
	rot("out", 345678);
	configure("", "", NEXT);
	cr_assert_eq(run_all(), 0, "both are whole");
	hr_engine_down(engine);
	open_image();
	cr_assert_eq(hr_ssd_open_store(&ssd, NULL), 0);
	cr_assert_eq(hr_store_remove(&ssd.store, hr_store_find(&ssd.store, "out2")->id, NULL), 0);
	hr_ssd_down(&ssd);
	configure("", "", NEXT);
	cr_assert_eq(run_all(), -EBADMSG);
	cr_expect_eq(engine->run[0].outcome, HR_RUN_COMPLETE);
	cr_expect_eq(engine->run[1].source[0].verify.check, HR_SOURCE_WRONG);
	hr_engine_down(engine);
}

Test(checksums, a_pipeline_that_must_verify_requires_a_checksum_of_an_earlier_pipeline)
{
	make_image(2 * UNIT, true);
	configure("", "checksum = false;", NEXT);
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_PARTITION), -EINVAL);
	/* The same when the sink exists, from a run without checksums. */
	configure("", "checksum = false;", "");
	cr_assert_eq(run_all(), 0);
	hr_engine_down(engine);
	configure("", "", NEXT);
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_QUEUES), -EINVAL);
}

#define COLUMNS                                                                                 \
	", { name = \"q\"; operator = \"filter_sum\"; source = ( { object = \"in\"; },"         \
	"{ object = \"in\"; }, { object = \"in\"; }, { object = \"wide\"; } ); tile = \"32K\";" \
	"args = { shipdate_from = \"1970-01-01\"; shipdate_before = \"1970-02-02\";"            \
	"discount_from = 0; discount_to = 40; quantity_below = 50; }; }"

Test(checksums, each_of_several_sources_is_verified)
{
	make_image(UNIT, true);
	open_image();
	cr_assert_eq(hr_ssd_open_store(&ssd, NULL), 0);
	put("wide", 2 * UNIT, true);
	hr_ssd_down(&ssd);
	configure("", "", COLUMNS);
	cr_assert_eq(run_all(), 0);
	for (uint32_t s = 0; s < 4; s++)
		cr_expect_eq(engine->run[1].source[s].verify.check, HR_SOURCE_VERIFIED, "source %u",
			     s);
	hr_engine_down(engine);
	rot("wide", 2 * UNIT - 1);
	configure("", "replace = true;", COLUMNS);
	cr_assert_eq(run_all(), -EBADMSG);
	cr_expect_eq(engine->run[1].source[2].verify.check, HR_SOURCE_VERIFIED);
	cr_expect_eq(engine->run[1].source[3].verify.check, HR_SOURCE_WRONG);
	hr_engine_down(engine);
}

#define SUM                                                                                        \
	", { name = \"q\"; operator = \"crc32c\"; source = { object = \"in\"; }; tile = \"16K\"; " \
	"}"

/* The operator's records are used: no memory for separate words exists. */
Test(checksums, the_checksum_operator_computes_the_checksum_only_once)
{
	make_image(UNIT + 5, true);
	configure("", "", SUM);
	cr_assert_eq(run_all(), 0);
	cr_expect_lt(engine->run[1].layout.checksums, 0);
	cr_expect_null(engine->run[1].pipe->source[0].crc);
	cr_expect_eq(engine->run[1].source[0].verify.check, HR_SOURCE_VERIFIED);
	hr_engine_down(engine);
	rot("in", UNIT + 4);
	configure("verify = \"off\";", "replace = true;", SUM);
	cr_assert_eq(run_all(), -EBADMSG);
	cr_expect_eq(engine->run[1].source[0].verify.check, HR_SOURCE_WRONG);
	hr_engine_down(engine);
}
