#include "boot/engine/run_tap.h"

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

struct hr_tap_words *hr_run_tap_words(const struct hr_run *run)
{
	return cpu_of(run, run->layout.tap_words);
}

/* A descriptor, or -errno. */
static int take_tiles(const struct hr_run *run, struct hr_places *places,
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

static void close_seats(struct hr_tap_tiles *tiles, uint32_t count)
{
	while (count-- > 0) {
		close(tiles->seat[count].entries);
		close(tiles->seat[count].page);
	}
	tiles->fixed = false;
}

static int take_seat(const struct hr_run *run, struct hr_tap_tiles *tiles, uint32_t i,
		     struct hr_error *e)
{
	const uint64_t ring = hr_tap_ring_bytes(run->tap.role.ring);
	const uint64_t page = hr_tap_page_bytes(run->slots);

	tiles->seat[i].entries =
		hr_tap_memory_create("headrace tap entries", hr_run_tap_entries(run) + i * ring,
				     ring, HR_TAP_READ_ONLY, e);
	if (tiles->seat[i].entries < 0)
		return tiles->seat[i].entries;
	tiles->seat[i].page = hr_tap_memory_create(
		"headrace tap page", hr_run_tap_pages(run) + i * page, page, HR_TAP_WRITABLE, e);
	if (tiles->seat[i].page >= 0)
		return 0;
	close(tiles->seat[i].entries);
	return tiles->seat[i].page;
}

static int take_seats(const struct hr_run *run, struct hr_tap_tiles *tiles, struct hr_error *e)
{
	int err;

	for (uint32_t i = 0; i < HR_TAP_SEATS; i++) {
		err = take_seat(run, tiles, i, e);
		if (!err)
			continue;
		close_seats(tiles, i);
		return err;
	}
	tiles->fixed = true;
	return 0;
}

static int take(const struct hr_run *run, struct hr_places *places, struct hr_tap_tiles *tiles,
		struct hr_error *e)
{
	int err;

	tiles->fd = take_tiles(run, places, tiles, e);
	if (tiles->fd < 0)
		return tiles->fd;
	err = places->backend->lanes == 1 || tiles->fixed ? 0 : take_seats(run, tiles, e);
	if (err)
		close(tiles->fd);
	tiles->up = !err;
	tiles->in_hand = false;
	return err;
}

static int take_named(struct hr_appliance *app, uint32_t i)
{
	const struct hr_run *run = &app->run[i];
	const int err = take(run, &app->memory[run->config->gpu], &app->tap_tiles[i], &app->error);

	hr_error_context(&app->error, "pipeline '%s': tap '%s'", run->config->name,
			 run->config->tap.name);
	return err;
}

int hr_run_tap_take(struct hr_appliance *app, uint32_t i)
{
	return take_named(app, i);
}

int hr_run_tap_renew(struct hr_appliance *app, uint32_t i)
{
	struct hr_tap_tiles *tiles = &app->tap_tiles[i];

	if (!tiles->up || !tiles->in_hand)
		return 0;
	close(tiles->fd);
	tiles->up = false;
	return take_named(app, i);
}

void hr_run_tap_give(struct hr_tap_tiles *tiles)
{
	if (tiles->fixed)
		close_seats(tiles, HR_TAP_SEATS);
	if (tiles->up)
		close(tiles->fd);
	tiles->up = false;
}
