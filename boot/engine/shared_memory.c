/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/shared_memory.h"

#include <unistd.h>

#include "gpu/tap/memory.h"

static uint8_t *cpu_of(const struct hr_run *run, int part)
{
	return hr_partition_cpu(run->layout.parts.partition, part);
}

uint8_t *hr_run_tap_entries(const struct hr_run *run)
{
	return cpu_of(run, run->layout.tap_entries);
}

uint8_t *hr_run_tap_pages(const struct hr_run *run)
{
	return cpu_of(run, run->layout.tap_pages);
}

uint8_t *hr_run_tap_entries_of(const struct hr_run *run, uint32_t seat)
{
	return hr_run_tap_entries(run) +
	       hr_run_tap_words(run)->seat[seat].set * hr_tap_ring_bytes(run->tap.role.ring);
}

uint8_t *hr_run_tap_page_of(const struct hr_run *run, uint32_t seat)
{
	return hr_run_tap_pages(run) +
	       hr_run_tap_words(run)->seat[seat].set * hr_tap_page_bytes(run->slots);
}

struct hr_tap_words *hr_run_tap_words(const struct hr_run *run)
{
	return (void *)cpu_of(run, run->layout.tap_words);
}

/* A descriptor, or -errno. */
static int make_tap_tiles(const struct hr_run *run, struct hr_places *places,
			  struct hr_tap_tiles *tiles, struct hr_error *e)
{
	const int part = run->layout.sink.part;
	const struct hr_part *at = &run->layout.parts.partition->part[part];
	struct hr_backend *b = places->backend;
	size_t object = at->bytes;
	int err, fd = -1;

	if (b->ops->make_shared) {
		err = b->ops->make_shared(b, &places->region[HR_PLACE_TAP], at->offset, at->bytes,
					  &object, &fd, e);
		fd = err ? err : fd;
	} else {
		fd = hr_tap_memory_create(run->config->tap.name, cpu_of(run, part), at->bytes,
					  HR_TAP_READ_ONLY, e);
	}
	tiles->bytes = object;
	return fd;
}

int hr_run_tap_fill(struct hr_engine *engine, uint32_t i, struct hr_error *e)
{
	const struct hr_run *run = &engine->run[i];
	const struct hr_sets_range range = {
		.entries_name = "headrace tap entries",
		.page_name = "headrace tap page",
		.entries = hr_run_tap_entries(run),
		.pages = hr_run_tap_pages(run),
		.entries_bytes = hr_tap_ring_bytes(run->tap.role.ring),
		.page_bytes = hr_tap_page_bytes(run->slots),
		.count = run->layout.tap_sets,
	};

	return hr_sets_fill(&engine->tap_tiles[i].sets, &range, e);
}

static int make_named_tap(struct hr_engine *engine, uint32_t i)
{
	const struct hr_run *run = &engine->run[i];
	struct hr_places *places = &engine->memory[run->config->gpu];
	struct hr_tap_tiles *tiles = &engine->tap_tiles[i];
	const bool has_sets = tiles->sets.count;
	int err = tiles->fd = make_tap_tiles(run, places, tiles, &engine->error);

	if (err >= 0 && places->backend->lanes > 1 && !has_sets)
		err = hr_run_tap_fill(engine, i, &engine->error);
	tiles->up = err >= 0;
	tiles->may_be_read = false;
	if (tiles->up)
		return 0;
	if (tiles->fd >= 0)
		close(tiles->fd);
	if (!has_sets)
		hr_sets_give(&tiles->sets);
	hr_error_context(&engine->error, "pipeline '%s': tap '%s'", run->config->name,
			 run->config->tap.name);
	return err;
}

int hr_tap_memory_open(struct hr_engine *engine, uint32_t i)
{
	return make_named_tap(engine, i);
}

int hr_tap_memory_renew(struct hr_engine *engine, uint32_t i)
{
	struct hr_tap_tiles *tiles = &engine->tap_tiles[i];

	if (!tiles->up || !tiles->may_be_read)
		return 0;
	close(tiles->fd);
	tiles->up = false;
	return make_named_tap(engine, i);
}

void hr_tap_memory_close(struct hr_tap_tiles *tiles)
{
	hr_sets_give(&tiles->sets);
	if (tiles->up)
		close(tiles->fd);
	tiles->up = false;
}

/* ---- feeds */

uint8_t *hr_run_feed_entries(const struct hr_run *run)
{
	return cpu_of(run, run->layout.feed_entries) +
	       hr_run_feed_words(run)->set * hr_tap_ring_bytes(run->feed.role.ring);
}

uint8_t *hr_run_feed_page(const struct hr_run *run)
{
	return cpu_of(run, run->layout.feed_pages) +
	       hr_run_feed_words(run)->set * hr_feed_page_bytes(run->slots);
}

int hr_run_feed_fill(struct hr_engine *engine, uint32_t i, struct hr_error *e)
{
	const struct hr_run *run = &engine->run[i];
	const struct hr_sets_range range = {
		.entries_name = "headrace feed entries",
		.page_name = "headrace feed page",
		.entries = cpu_of(run, run->layout.feed_entries),
		.pages = cpu_of(run, run->layout.feed_pages),
		.entries_bytes = hr_tap_ring_bytes(run->feed.role.ring),
		.page_bytes = hr_feed_page_bytes(run->slots),
		.count = run->layout.feed_sets,
	};

	return hr_sets_fill(&engine->feed_memory[i].sets, &range, e);
}

static int open_feed_memory(struct hr_engine *engine, uint32_t i)
{
	const struct hr_run *run = &engine->run[i];
	struct hr_feed_memory *memory = &engine->feed_memory[i];
	const struct hr_part *at = &run->layout.parts.partition->part[run->layout.source[0].part];
	struct hr_places *places = &engine->memory[run->config->gpu];
	struct hr_backend *b = places->backend;
	size_t object;
	int err = b->ops->make_shared(b, &places->region[HR_PLACE_TAP], at->offset, at->bytes,
				      &object, &memory->tiles, &engine->error);

	if (err)
		return err;
	err = hr_run_feed_fill(engine, i, &engine->error);
	if (err) {
		close(memory->tiles);
		hr_sets_give(&memory->sets);
	}
	memory->bytes = object;
	memory->up = !err;
	return err;
}

int hr_feed_memory_open(struct hr_engine *engine, uint32_t i)
{
	const struct hr_run *run = &engine->run[i];
	int err;

	if (!engine->memory[run->config->gpu].backend->ops->make_shared)
		return 0;
	err = open_feed_memory(engine, i);
	hr_error_context(&engine->error, "pipeline '%s': feed '%s'", run->config->name,
			 run->config->feed.name);
	return err;
}

void hr_feed_memory_close(struct hr_feed_memory *memory)
{
	if (memory->up)
		close(memory->tiles);
	hr_sets_give(&memory->sets);
	memory->up = false;
}

/* ---- words of both */

/* Another pipeline has a launch, or its descriptor holds addresses for the next one. */
static bool others_run(const struct hr_engine *engine, uint32_t i)
{
	bool any = hr_any_controller_stuck(engine);

	for (uint32_t k = 0; k < engine->config.pipelines; k++) {
		const struct hr_run *run = &engine->run[k];

		any |= k != i && !run->ended_ns && (run->started_ns || hr_run_wired(run));
	}
	return any;
}

static int fill_words(struct hr_engine *engine, uint32_t i)
{
	const int err =
		engine->tap_tiles[i].sets.spent ? hr_run_tap_fill(engine, i, &engine->error) : 0;

	if (err || !engine->feed_memory[i].sets.spent)
		return err;
	return hr_run_feed_fill(engine, i, &engine->error);
}

int hr_run_words_renew(struct hr_engine *engine, uint32_t i)
{
	const uint32_t g = engine->run[i].config->gpu;
	struct hr_places *places = &engine->memory[g];
	struct hr_error e = { 0 };
	int err, lost;

	if ((!engine->tap_tiles[i].sets.spent && !engine->feed_memory[i].sets.spent) ||
	    others_run(engine, i))
		return 0;
	hr_places_detach_words(places);
	err = fill_words(engine, i);
	lost = hr_places_attach_words(places, err ? &e : &engine->error);
	if (!lost)
		hr_partition_bind(&engine->partition[g], places->region);
	err = err ? err : lost;
	if (err)
		hr_error_context(&engine->error, "pipeline '%s': words of its clients",
				 engine->run[i].config->name);
	return err;
}
