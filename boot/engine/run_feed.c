#include "boot/engine/run_feed.h"

#include <unistd.h>

#include "gpu/tap/memory.h"

static uint8_t *cpu_of(const struct hr_run *run, int part)
{
	return hr_partition_cpu(run->layout.parts.partition, part);
}

uint8_t *hr_run_feed_entries(const struct hr_run *run)
{
	return cpu_of(run, run->layout.feed_entries);
}

uint8_t *hr_run_feed_page(const struct hr_run *run)
{
	return cpu_of(run, run->layout.feed_page);
}

/* Entries and page, which lie in host memory. */
static int take_words(const struct hr_run *run, struct hr_feed_memory *memory, struct hr_error *e)
{
	memory->entries =
		hr_tap_memory_create("headrace feed entries", hr_run_feed_entries(run),
				     hr_tap_ring_bytes(run->feed.role.ring), HR_TAP_READ_ONLY, e);
	if (memory->entries < 0)
		return memory->entries;
	memory->page = hr_tap_memory_create("headrace feed page", hr_run_feed_page(run),
					    hr_feed_page_bytes(run->slots), HR_TAP_WRITABLE, e);
	if (memory->page >= 0)
		return 0;
	close(memory->entries);
	return memory->page;
}

static int take(const struct hr_run *run, struct hr_places *places, struct hr_feed_memory *memory,
		struct hr_error *e)
{
	const int part = run->layout.source[0].part;
	const struct hr_part *at = &run->layout.parts.partition->part[part];
	struct hr_backend *b = places->backend;
	size_t object;
	int err = b->ops->make_shared(b, &places->region[HR_PLACE_TAP], at->offset, at->bytes,
				      &object, &memory->tiles, e);

	if (err)
		return err;
	err = take_words(run, memory, e);
	if (err)
		close(memory->tiles);
	memory->bytes = object;
	memory->up = !err;
	return err;
}

int hr_run_feed_take(struct hr_appliance *app, uint32_t i)
{
	const struct hr_run *run = &app->run[i];
	struct hr_places *places = &app->memory[run->config->gpu];
	int err;

	if (!places->backend->ops->make_shared)
		return 0;
	err = take(run, places, &app->feed_memory[i], &app->error);
	hr_error_context(&app->error, "pipeline '%s': feed '%s'", run->config->name,
			 run->config->feed.name);
	return err;
}

void hr_run_feed_give(struct hr_feed_memory *memory)
{
	if (memory->up) {
		close(memory->tiles);
		close(memory->entries);
		close(memory->page);
	}
	memory->up = false;
}
