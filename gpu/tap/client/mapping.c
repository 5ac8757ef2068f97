/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/tap/client/mapping.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define SLOTS_MAX (1u << 20)

_Static_assert(sizeof(struct hr_tap_head) == sizeof(struct hr_feed_head), "entries follow either");

static bool is_plausible(const struct hr_tap_message *m, bool feed)
{
	return m->slots && m->slots <= SLOTS_MAX && m->ring >= m->credits && m->credits &&
	       !(m->ring & (m->ring - 1)) && m->ring <= SLOTS_MAX && m->stride &&
	       m->stride % 4096 == 0 && (m->tile_bytes || !feed) && m->tile_bytes <= m->stride &&
	       m->memory <= HR_TAP_MEMORY_CUDA &&
	       (m->memory == HR_TAP_MEMORY_HOST || m->gpu.bytes >= (uint64_t)m->slots * m->stride);
}

/* NULL: it cannot be mapped. A size that the object does not have would be SIGBUS later. */
static void *map_object(int fd, size_t bytes, int protection)
{
	struct stat st;
	void *at;

	if (fd < 0 || fstat(fd, &st) != 0 || (uint64_t)st.st_size < bytes)
		return NULL;
	at = mmap(NULL, bytes, protection, MAP_SHARED, fd, 0);
	return at == MAP_FAILED ? NULL : at;
}

static void unmap_object(const void *at, size_t bytes)
{
	if (at)
		munmap((void *)(uintptr_t)at, bytes);
}

void hr_tap_mapping_close(struct hr_tap_mapping *map, bool forked)
{
	if (map->cuda && forked)
		hr_tap_cuda_forget(map->cuda);
	else if (map->cuda)
		hr_tap_cuda_close(map->cuda);
	else
		unmap_object(map->tiles, map->tiles_bytes);
	unmap_object(map->head, map->ring_bytes);
	unmap_object(map->page, map->page_bytes);
	free(map->held);
	memset(map, 0, sizeof *map);
}

/* After the page. */
static int map_tiles(struct hr_tap_mapping *map, const struct hr_tap_message *m, int fd, bool feed,
		     int gpu, char *why, size_t why_bytes)
{
	const struct hr_tap_cuda_memory memory = { .fd = fd,
						   .bytes = m->gpu.bytes,
						   .uuid = m->gpu.uuid,
						   .page = map->page,
						   .page_bytes = map->page_bytes,
						   .writes = feed,
						   .user = gpu };
	const void *at = NULL;
	int err;

	if (m->memory == HR_TAP_MEMORY_HOST) {
		map->tiles =
			map_object(fd, map->tiles_bytes, feed ? PROT_READ | PROT_WRITE : PROT_READ);
		return map->tiles ? 0 : -ENOMEM;
	}
	err = hr_tap_cuda_open(&map->cuda, &memory, &at, &map->gpu, why, why_bytes);
	map->tiles = (uint8_t *)(uintptr_t)at;
	return err;
}

static int map_all(struct hr_tap_mapping *map, const struct hr_tap_message *m,
		   const int fds[HR_TAP_FDS], bool feed, int gpu, char *why, size_t why_bytes)
{
	map->gpu = -1;
	map->slots = m->slots;
	map->ring = m->ring;
	map->stride = m->stride;
	map->tiles_bytes = (size_t)m->slots * m->stride;
	map->ring_bytes = hr_tap_ring_bytes(m->ring);
	map->page_bytes = feed ? hr_feed_page_bytes(m->slots) : hr_tap_page_bytes(m->slots);
	map->head = map_object(fds[1], map->ring_bytes, PROT_READ);
	map->page = map_object(fds[2], map->page_bytes, PROT_READ | PROT_WRITE);
	map->held = calloc(m->slots, sizeof *map->held);
	if (!map->head || !map->page || !map->held)
		return -ENOMEM;
	map->entry = (const void *)((const uint8_t *)map->head + sizeof(struct hr_tap_head));
	return *(const uint32_t *)map->head == HR_TAP_MAGIC
		       ? map_tiles(map, m, fds[0], feed, gpu, why, why_bytes)
		       : -EPROTO;
}

int hr_tap_mapping_open(struct hr_tap_mapping *map, const struct hr_tap_message *m,
			const int fds[HR_TAP_FDS], bool feed, int gpu, char *why, size_t why_bytes)
{
	int err;

	memset(map, 0, sizeof *map);
	snprintf(why, why_bytes, "the %s's memory has sizes that cannot be", feed ? "feed" : "tap");
	if (!is_plausible(m, feed))
		return -EPROTO;
	snprintf(why, why_bytes, "the tiles cannot be mapped");
	err = map_all(map, m, fds, feed, gpu, why, why_bytes);
	if (err)
		hr_tap_mapping_close(map, false);
	return err;
}

/* ---- the word that tells a forked child */

uint32_t *hr_tap_alive_open(void)
{
	uint32_t *alive = mmap(NULL, sizeof *alive, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (alive == MAP_FAILED)
		return NULL;
	if (madvise(alive, sizeof *alive, MADV_WIPEONFORK) != 0) {
		munmap(alive, sizeof *alive);
		return NULL;
	}
	*alive = 1;
	return alive;
}

void hr_tap_alive_close(uint32_t *alive)
{
	unmap_object(alive, sizeof *alive);
}
