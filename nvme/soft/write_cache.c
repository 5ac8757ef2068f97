/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The volatile write cache: a ring of blocks in the order of their first write, indexed by a hash
 * of their LBA. A block that is written again keeps its position. Written blocks are in the cache
 * only, until a flush, or until the ring is full and the oldest are destaged.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "config/base/process.h"
#include "nvme/soft/internal.h"

#define DESTAGE 64u /* maximum blocks of one write to the media */

static uint32_t hash_lba(const struct soft_cache *c, uint64_t lba)
{
	return (uint32_t)(lba * 0x9e3779b97f4a7c15ull >> 32) & (c->buckets - 1);
}

static uint8_t *data_of(const struct soft_cache *c, uint32_t index)
{
	return c->data + (size_t)index * c->block_bytes;
}

/* Mapped, because most disks write to a small part of it, and an allocator may touch all of it. */
static uint8_t *map_zeroed(size_t bytes)
{
	void *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : hr_not_dumped(memory, bytes);
}

int soft_cache_open(struct soft_cache *c, struct soft_media *media, uint64_t bytes,
		    uint32_t block_bytes, const uint32_t *dead)
{
	memset(c, 0, sizeof(*c));
	pthread_rwlock_init(&c->lock, NULL);
	c->media = media;
	c->dead = dead;
	c->block_bytes = block_bytes;
	c->capacity = (uint32_t)(bytes / block_bytes);
	c->enabled = c->capacity > 0;
	if (!c->capacity)
		return 0;
	c->buckets = 1;
	while (c->buckets < c->capacity)
		c->buckets *= 2;
	c->data = map_zeroed((size_t)c->capacity * block_bytes);
	c->lba = calloc(c->capacity, sizeof(*c->lba));
	c->next = calloc(c->capacity, sizeof(*c->next));
	c->live = calloc(c->capacity, sizeof(*c->live));
	c->bucket = calloc(c->buckets, sizeof(*c->bucket));
	return c->data && c->lba && c->next && c->live && c->bucket ? 0 : -ENOMEM;
}

void soft_cache_close(struct soft_cache *c)
{
	if (c->data)
		munmap(c->data, (size_t)c->capacity * c->block_bytes);
	free(c->lba);
	free(c->next);
	free(c->live);
	free(c->bucket);
	pthread_rwlock_destroy(&c->lock);
}

static uint32_t *link_to(struct soft_cache *c, uint64_t lba)
{
	uint32_t *link = &c->bucket[hash_lba(c, lba)];

	while (*link && c->lba[*link - 1] != lba)
		link = &c->next[*link - 1];
	return link;
}

static void unlink_block(struct soft_cache *c, uint64_t lba)
{
	uint32_t *link = link_to(c, lba);

	if (*link) {
		c->live[*link - 1] = false;
		*link = c->next[*link - 1];
	}
}

/* Collect the oldest live blocks that are consecutive on the disk. */
static unsigned gather_oldest_run(const struct soft_cache *c, struct iovec *vec)
{
	const uint32_t first = c->oldest;
	unsigned n = 0;

	while (n < DESTAGE && n < c->count) {
		const uint32_t i = (first + n) % c->capacity;

		if (!c->live[i] || c->lba[i] != c->lba[first] + n)
			break;
		vec[n].iov_base = data_of(c, i);
		vec[n++].iov_len = c->block_bytes;
	}
	return n;
}

static void forget_oldest(struct soft_cache *c, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (c->live[c->oldest])
			unlink_block(c, c->lba[c->oldest]);
		c->oldest = (c->oldest + 1) % c->capacity;
	}
	__atomic_store_n(&c->count, c->count - n, __ATOMIC_RELEASE);
}

/* Write some of the oldest blocks to the media. */
static int destage(struct soft_cache *c)
{
	struct iovec vec[DESTAGE];
	const unsigned n = gather_oldest_run(c, vec);
	int err;

	if (n == 0) { /* the oldest block is a discarded one: remove it */
		forget_oldest(c, 1);
		return 0;
	}
	err = soft_media_write(c->media, c->lba[c->oldest] * c->block_bytes, vec, n);
	if (!err)
		forget_oldest(c, n);
	return err;
}

/* Power may be cut between any two blocks. */
static bool is_dead(const struct soft_cache *c)
{
	return __atomic_load_n(c->dead, __ATOMIC_ACQUIRE) != 0;
}

static int destage_all(struct soft_cache *c)
{
	int err = 0;

	while (!err && c->count)
		err = is_dead(c) ? -EIO : destage(c);
	return err;
}

/* Position in a vector of pieces. */
struct cursor {
	const struct iovec *vec;
	size_t at;
};

/* Copy a block between the cache and the next bytes of the vector; block NULL: skip the bytes. */
static void copy_block(struct cursor *c, uint8_t *block, size_t bytes, bool to_vec)
{
	while (bytes) {
		const size_t left = c->vec->iov_len - c->at, n = bytes < left ? bytes : left;
		uint8_t *piece = (uint8_t *)c->vec->iov_base + c->at;

		if (block && to_vec)
			memcpy(piece, block, n);
		else if (block)
			memcpy(block, piece, n);
		block = block ? block + n : NULL;
		bytes -= n;
		c->at += n;
		if (c->at == c->vec->iov_len) {
			c->vec++;
			c->at = 0;
		}
	}
}

static int cache_block(struct soft_cache *c, uint64_t lba, struct cursor *from)
{
	uint32_t *link = link_to(c, lba);
	uint32_t i;

	if (is_dead(c))
		return -EIO;
	if (!*link) {
		while (c->count == c->capacity)
			if (destage(c) != 0)
				return -EIO;
		i = (c->oldest + c->count) % c->capacity;
		link = link_to(c, lba);
		c->lba[i] = lba;
		c->next[i] = 0;
		c->live[i] = true;
		*link = i + 1;
		__atomic_store_n(&c->count, c->count + 1, __ATOMIC_RELEASE);
	}
	copy_block(from, data_of(c, *link - 1), c->block_bytes, false);
	return 0;
}

static void drop_blocks(struct soft_cache *c, uint64_t lba, uint64_t blocks)
{
	if (blocks > c->count) {
		for (uint32_t n = 0; n < c->count; n++) {
			const uint32_t i = (c->oldest + n) % c->capacity;

			if (c->live[i] && c->lba[i] - lba < blocks)
				unlink_block(c, c->lba[i]);
		}
		return;
	}
	for (uint64_t b = 0; b < blocks; b++)
		unlink_block(c, lba + b);
}

/* Read from the media, then copy newer blocks from the cache over it. */
int soft_cache_read(struct soft_cache *c, uint64_t lba, uint32_t blocks, const struct iovec *vec,
		    unsigned count)
{
	struct cursor to = { vec, 0 };
	int err;

	if (soft_cache_is_bare(c, false))
		return soft_media_read(c->media, lba * c->block_bytes, vec, count);
	/* needed for a file even when the cache is empty: no block is read during its write */
	hr_read_lock(&c->lock);
	err = soft_media_read(c->media, lba * c->block_bytes, vec, count);
	for (uint32_t b = 0; !err && c->count && b < blocks; b++) {
		const uint32_t found = *link_to(c, lba + b);

		copy_block(&to, found ? data_of(c, found - 1) : NULL, c->block_bytes, true);
	}
	pthread_rwlock_unlock(&c->lock);
	return err;
}

static int write_through(struct soft_cache *c, uint64_t lba, uint32_t blocks,
			 const struct iovec *vec, unsigned count)
{
	int err = -EIO;

	if (!is_dead(c))
		err = soft_media_write(c->media, lba * c->block_bytes, vec, count);
	if (err)
		return err;
	if (c->capacity)
		drop_blocks(c, lba, blocks);
	return soft_media_sync(c->media);
}

int soft_cache_write(struct soft_cache *c, uint64_t lba, uint32_t blocks, const struct iovec *vec,
		     unsigned count, bool through)
{
	struct cursor from = { vec, 0 };
	int err = 0;

	if (soft_cache_is_bare(c, true))
		return write_through(c, lba, blocks, vec, count);
	hr_write_lock(&c->lock);
	if (through || !c->enabled) /* without a volatile cache each completed write is durable */
		err = write_through(c, lba, blocks, vec, count);
	else
		for (uint32_t b = 0; !err && b < blocks; b++)
			err = cache_block(c, lba + b, &from);
	pthread_rwlock_unlock(&c->lock);
	return err;
}

int soft_cache_discard(struct soft_cache *c, uint64_t lba, uint64_t blocks, bool through)
{
	int err = -EIO;

	if (soft_cache_is_bare(c, true) && !is_dead(c))
		return soft_media_discard(c->media, lba * c->block_bytes, blocks * c->block_bytes);
	hr_write_lock(&c->lock);
	if (!is_dead(c))
		err = soft_media_discard(c->media, lba * c->block_bytes, blocks * c->block_bytes);
	if (!err && c->capacity)
		drop_blocks(c, lba, blocks);
	if (!err && (through || !c->enabled))
		err = soft_media_sync(c->media);
	pthread_rwlock_unlock(&c->lock);
	return err;
}

int soft_cache_flush(struct soft_cache *c)
{
	int err;

	hr_write_lock(&c->lock);
	err = destage_all(c);
	if (!err && is_dead(c))
		err = -EIO;
	if (!err)
		err = soft_media_sync(c->media);
	pthread_rwlock_unlock(&c->lock);
	return err;
}

/* The same seed gives the same numbers, so that a failing test can be repeated. */
static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void cut_block(struct soft_cache *c, uint32_t i, enum hr_soft_cut policy, uint64_t *seed)
{
	const uint32_t piece = policy == HR_SOFT_CUT_TORN ? 512 : c->block_bytes;

	for (uint32_t at = 0; at < c->block_bytes; at += piece) {
		const struct iovec vec = { data_of(c, i) + at, piece };

		if (next_random(seed) >> 63)
			soft_media_write(c->media, c->lba[i] * c->block_bytes + at, &vec, 1);
	}
}

void soft_cache_cut(struct soft_cache *c, enum hr_soft_cut policy, uint64_t seed)
{
	/* spread, because the first numbers of a small state have no high bits */
	uint64_t state = (seed + 1) * 0x9e3779b97f4a7c15ull | 1;

	hr_write_lock(&c->lock);
	for (uint32_t n = 0; policy != HR_SOFT_CUT_DROP && n < c->count; n++) {
		const uint32_t i = (c->oldest + n) % c->capacity;

		if (c->live[i])
			cut_block(c, i, policy, &state);
	}
	__atomic_store_n(&c->count, 0, __ATOMIC_RELEASE);
	c->oldest = 0;
	for (uint32_t b = 0; b < c->buckets; b++)
		c->bucket[b] = 0;
	pthread_rwlock_unlock(&c->lock);
}
