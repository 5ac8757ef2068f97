#include "gpu/tap/client/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define SLOTS_MAX (1u << 20)

static bool is_plausible(const struct hr_tap_message *m)
{
	return m->slots && m->slots <= SLOTS_MAX && m->ring >= m->credits && m->credits &&
	       !(m->ring & (m->ring - 1)) && m->ring <= SLOTS_MAX && m->stride &&
	       m->stride % 4096 == 0 && m->tile_bytes <= m->stride &&
	       m->memory <= HR_TAP_MEMORY_CUDA &&
	       (m->memory == HR_TAP_MEMORY_HOST || m->gpu.bytes >= (uint64_t)m->slots * m->stride);
}

/* NULL: it cannot be mapped. A size that the object does not have would be SIGBUS later. */
static void *map(int fd, size_t bytes, int protection)
{
	struct stat st;
	void *at;

	if (fd < 0 || fstat(fd, &st) != 0 || (uint64_t)st.st_size < bytes)
		return NULL;
	at = mmap(NULL, bytes, protection, MAP_SHARED, fd, 0);
	return at == MAP_FAILED ? NULL : at;
}

static void unmap(const void *at, size_t bytes)
{
	if (at)
		munmap((void *)(uintptr_t)at, bytes);
}

void hr_tap_session_free(struct hr_tap_session *s, bool forked)
{
	if (!s)
		return;
	if (s->cuda && forked)
		hr_tap_cuda_forget(s->cuda);
	else if (s->cuda)
		hr_tap_cuda_close(s->cuda);
	else
		unmap(s->tiles, s->tiles_bytes);
	unmap(s->head, s->ring_bytes);
	unmap(s->page, s->page_bytes);
	free(s->held);
	free(s);
}

/* After the page. */
static int map_tiles(struct hr_tap_session *s, const struct hr_tap_message *m, int fd, int gpu,
		     char *why, size_t why_bytes)
{
	const struct hr_tap_cuda_memory memory = { .fd = fd,
						   .bytes = m->gpu.bytes,
						   .uuid = m->gpu.uuid,
						   .page = s->page,
						   .page_bytes = s->page_bytes,
						   .user = gpu };
	const void *at = NULL;
	int err;

	s->tiles_bytes = (size_t)m->slots * m->stride;
	if (m->memory == HR_TAP_MEMORY_CUDA) {
		err = hr_tap_cuda_open(&s->cuda, &memory, &at, &s->gpu, why, why_bytes);
		s->tiles = at;
		return err;
	}
	s->tiles = map(fd, s->tiles_bytes, PROT_READ);
	return s->tiles ? 0 : -ENOMEM;
}

static int map_all(struct hr_tap_session *s, const struct hr_tap_message *m,
		   const int fds[HR_TAP_FDS], int gpu, char *why, size_t why_bytes)
{
	s->gpu = -1;
	s->epoch = m->epoch;
	s->slots = m->slots;
	s->ring = m->ring;
	s->stride = m->stride;
	s->ring_bytes = hr_tap_ring_bytes(m->ring);
	s->page_bytes = hr_tap_page_bytes(m->slots);
	s->head = map(fds[1], s->ring_bytes, PROT_READ);
	s->page = map(fds[2], s->page_bytes, PROT_READ | PROT_WRITE);
	s->held = calloc(m->slots, sizeof *s->held);
	if (!s->head || !s->page || !s->held)
		return -ENOMEM;
	s->gen = (uint32_t *)(void *)(s->page + 1);
	s->entry = (const struct hr_tap_entry *)(const void *)(s->head + 1);
	return s->head->magic == HR_TAP_MAGIC ? map_tiles(s, m, fds[0], gpu, why, why_bytes)
					      : -EPROTO;
}

int hr_tap_session_open(struct hr_tap_session **opened, const struct hr_tap_message *m,
			const int fds[HR_TAP_FDS], int gpu, char *why, size_t why_bytes)
{
	struct hr_tap_session *s;
	int err;

	snprintf(why, why_bytes, "the tap's memory has sizes that cannot be");
	if (!is_plausible(m))
		return -EPROTO;
	snprintf(why, why_bytes, "the tiles cannot be mapped");
	s = calloc(1, sizeof *s);
	err = s ? map_all(s, m, fds, gpu, why, why_bytes) : -ENOMEM;
	if (err) {
		hr_tap_session_free(s, false);
		return err;
	}
	*opened = s;
	return 0;
}

static bool take(struct hr_tap_session *s, struct hr_tap_tile *tile)
{
	const struct hr_tap_entry *e = &s->entry[s->next % s->ring];
	struct hr_tap_entry copy;

	if (__atomic_load_n(&e->sequence, __ATOMIC_ACQUIRE) != s->next + 1)
		return false;
	copy = *(const volatile struct hr_tap_entry *)e;
	if (copy.check != hr_tap_entry_check(&copy, s->next + 1))
		return false;
	*tile = (struct hr_tap_tile){ .tile = copy.tile,
				      .bytes = copy.bytes,
				      .redelivered = (copy.flags & HR_TAP_REDELIVERED) != 0,
				      .lent_ns = copy.lent_ns,
				      .ready_ns = copy.ready_ns,
				      .freed_ns = copy.freed_ns,
				      .epoch = s->epoch,
				      .slot = copy.slot,
				      .gen = copy.gen };
	/* from here on the copy, because the memory is the tap's */
	if (tile->slot >= s->slots || tile->bytes > s->stride || !tile->gen ||
	    tile->gen & HR_TAP_FAILED || s->held[tile->slot])
		return false;
	tile->data = s->tiles + (size_t)tile->slot * s->stride;
	s->held[tile->slot] = tile->gen;
	s->in_hand++;
	s->next++;
	return true;
}

uint32_t hr_tap_session_take(struct hr_tap_session *s, struct hr_tap_tile *tile, uint32_t max)
{
	uint32_t n = 0;

	while (n < max && take(s, &tile[n]))
		n++;
	return n;
}

static bool is_in_hand(const struct hr_tap_session *s, const struct hr_tap_tile *tile)
{
	return tile->slot < s->slots && tile->gen && s->held[tile->slot] == tile->gen;
}

int hr_tap_session_give_stream(struct hr_tap_session *s, const struct hr_tap_tile *tile,
			       void *stream)
{
	int err;

	if (!s->cuda || !is_in_hand(s, tile))
		return -EINVAL;
	err = hr_tap_cuda_write32(s->cuda, stream, &s->gen[tile->slot], tile->gen);
	if (err)
		return err;
	s->held[tile->slot] = 0;
	s->in_hand--;
	return 0;
}

int hr_tap_session_give(struct hr_tap_session *s, const struct hr_tap_tile *tile, bool failed)
{
	if (!is_in_hand(s, tile))
		return -EINVAL;
	s->held[tile->slot] = 0;
	s->in_hand--;
	__atomic_store_n(&s->gen[tile->slot], tile->gen | (failed ? HR_TAP_FAILED : 0),
			 __ATOMIC_RELEASE);
	return 0;
}

void hr_tap_session_arm(struct hr_tap_session *s)
{
	__atomic_store_n(&s->page->wake, s->next + 1, __ATOMIC_RELEASE);
}
