/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config/base/seam.h"
#include "gpu/tap/client/feed.h"
#include "gpu/tap/client/tap.h"
#include "tests/sim/command.h"

#define AGAIN_NS (20 * HR_NS_PER_MS)

/* ---- producers */

static void feed_run(struct hr_feed *feed, const uint8_t *data, size_t bytes)
{
	const struct hr_feed_info *info = hr_feed_info(feed);
	struct hr_feed_tile tile;

	while (hr_feed_next(feed, &tile, 1, -1) == 1) {
		const size_t at = tile.tile * info->tile_bytes;
		const size_t left = at < bytes ? bytes - at : 0;
		const uint32_t length = left < tile.room ? (uint32_t)left : tile.room;

		if (length == 0)
			sim_fault("feed: tile %llu is behind the end",
				  (unsigned long long)tile.tile);
		memcpy(tile.data, data + at, length);
		hr_yield();
		if (hr_feed_commit(feed, &tile, length) != 0)
			break;
	}
	hr_feed_end(feed, -1);
}

static void __attribute__((noreturn)) produce(struct sim_objects *objects, unsigned pipeline)
{
	const unsigned object = objects->plan->pipeline[pipeline].from;
	const struct sim_versions *v = &objects->versions[object];
	const struct hr_feed_options options = { .directory = "run" };
	static uint8_t data[SIM_BYTES_MAX + 8];
	char name[SIM_NAME];

	snprintf(name, sizeof name, "f%u", pipeline);
	sim_objects_fill(objects->plan, object, data, v->seed[0], v->bytes[0]);
	for (;;) {
		struct hr_feed *feed;

		if (hr_feed_open(name, &options, &feed, NULL, 0) == 0) {
			feed_run(feed, data, v->bytes[0]);
			hr_feed_close(feed);
		}
		hr_wait_ns(AGAIN_NS);
	}
}

pid_t sim_producer_start(struct sim_objects *objects, unsigned pipeline)
{
	const pid_t pid = hr_fork();

	if (pid == 0)
		produce(objects, pipeline);
	return pid;
}

/* ---- consumers */

/* The versions that a run can have. */
struct candidates {
	uint64_t epoch;
	bool out[SIM_VERSIONS];
};

/* True when bytes of that version are at that place. */
static bool has(const struct sim_objects *objects, unsigned object, unsigned version, size_t at,
		const struct hr_tap_tile *tile)
{
	const struct sim_versions *v = &objects->versions[object];
	static uint8_t data[SIM_BYTES_MAX + 8];
	static uint64_t filled;

	if (at + tile->bytes > v->bytes[version])
		return false;
	if (filled != v->seed[version]) {
		sim_objects_fill(objects->plan, object, data, v->seed[version], v->bytes[version]);
		filled = v->seed[version];
	}
	return memcmp(data + at, tile->data, tile->bytes) == 0;
}

static void check_tile(const struct sim_objects *objects, unsigned pipeline, struct candidates *c,
		       const struct hr_tap_info *info, const struct hr_tap_tile *tile)
{
	const unsigned object =
		sim_objects_source(objects->plan, objects->plan->pipeline[pipeline].from);
	const struct sim_versions *v = &objects->versions[object];
	bool any = false;

	if (c->epoch != tile->epoch)
		*c = (struct candidates){ .epoch = tile->epoch };
	for (unsigned i = 0; i < v->count; i++) {
		c->out[i] |= !has(objects, object, i, tile->tile * info->tile_bytes, tile);
		any |= !c->out[i];
	}
	/* an object's checksum is compared when all of it was read, and its tiles are lent before */
	if (!any && !objects->plan->rot)
		sim_fault("tap of %s: tile %llu is of no version of its source",
			  objects->plan->pipeline[pipeline].name, (unsigned long long)tile->tile);
}

static void note_tile(struct sim_delivered *d, const struct hr_tap_info *info,
		      const struct hr_tap_tile *tile)
{
	if (d->epoch != tile->epoch) {
		memset(d, 0, sizeof *d);
		d->epoch = tile->epoch;
		d->tiles = info->tiles;
	}
	if (tile->tile >= d->tiles)
		sim_fault("tap: tile %llu of %llu", (unsigned long long)tile->tile,
			  (unsigned long long)d->tiles);
	if (d->tile[tile->tile] && !tile->redelivered)
		sim_fault("tap: tile %llu came twice", (unsigned long long)tile->tile);
	d->had += !d->tile[tile->tile];
	d->tile[tile->tile] = true;
}

static void take_run(struct sim_objects *objects, unsigned pipeline, struct hr_tap *tap)
{
	struct candidates c = { 0 };
	struct hr_tap_tile tile;
	int n;

	/* -ECONNRESET: the run has broken off, and the next call attaches to the next one */
	while ((n = hr_tap_next(tap, &tile, 1, -1)) == 1 || n == -ECONNRESET) {
		if (n != 1)
			continue;
		check_tile(objects, pipeline, &c, hr_tap_info(tap), &tile);
		hr_yield();
		note_tile(&objects->delivered[pipeline], hr_tap_info(tap), &tile);
		hr_tap_done(tap, &tile);
	}
}

static void __attribute__((noreturn)) consume(struct sim_objects *objects, unsigned pipeline)
{
	const struct hr_tap_options options = { .directory = "run", .wait_ms = -1 };
	char name[SIM_NAME];

	snprintf(name, sizeof name, "t%u", pipeline);
	for (;;) {
		struct hr_tap *tap;

		if (hr_tap_open(name, &options, &tap, NULL, 0) == 0) {
			take_run(objects, pipeline, tap);
			hr_tap_close(tap);
		}
		hr_wait_ns(AGAIN_NS);
	}
}

pid_t sim_consumer_start(struct sim_objects *objects, unsigned pipeline)
{
	const pid_t pid = hr_fork();

	if (pid == 0)
		consume(objects, pipeline);
	return pid;
}
