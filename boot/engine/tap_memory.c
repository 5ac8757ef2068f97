/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/shared_memory.h"

#include <unistd.h>

#include "gpu/tap/memory.h"

static void *cpu_of(const struct hr_run *run, int part)
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
	return cpu_of(run, run->layout.tap_words);
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
