/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/shared_memory.h"

#include <unistd.h>

static uint8_t *cpu_of(const struct hr_run *run, int part)
{
	return hr_partition_cpu(run->layout.parts.partition, part);
}

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
