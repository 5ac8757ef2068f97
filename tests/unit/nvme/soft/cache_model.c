/*
 * The volatile cache against a model: after each of many calls, the file has what the model's file
 * has, a read gives what was written last, and the calls that need it were durable.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "nvme/soft/internal.h"
#include "tests/harness/error.h"

#define BLOCK 512u
#define BLOCKS 64u
#define CAPACITY 8u /* blocks of the cache */
#define STEPS 3000u

static unsigned syncs, writes;
static int sync_error;

int fdatasync(int fd)
{
	syncs++;
	errno = sync_error;
	return errno ? -1 : 0;
}

ssize_t pwritev(int fd, const struct iovec *vec, int count, off_t offset)
{
	writes++;
	return syscall(SYS_pwritev, fd, vec, (long)count, offset, 0);
}

static struct soft_media media;
static struct soft_cache cache;
static uint32_t dead;
static int image;

/* Contents of each block: one number, which fills it; 0: zeros. */
static struct {
	uint8_t file[BLOCKS], last[BLOCKS]; /* last: what a read gives */
	struct {
		uint32_t lba;
		bool live;
	} ring[CAPACITY]; /* the oldest first */
	unsigned count;
} model;

static void setup(void)
{
	static struct hr_soft_options options;

	image = memfd_create("image", MFD_CLOEXEC);
	memset(&options, 0, sizeof options);
	memset(&model, 0, sizeof model);
	snprintf(options.path, sizeof options.path, "/proc/self/fd/%d", image);
	options.bytes = BLOCKS * BLOCK;
	options.block_bytes = BLOCK;
	options.namespaces = 1;
	cr_assert_eq(soft_media_open(&media, &options, test_error()), 0, "%s", test_error_text());
	dead = 0;
	syncs = writes = 0;
	cr_assert_eq(soft_cache_open(&cache, &media, CAPACITY * BLOCK, BLOCK, &dead), 0);
}

static void teardown(void)
{
	soft_cache_close(&cache);
	soft_media_close(&media);
	close(image);
}

TestSuite(cache_model, .init = setup, .fini = teardown, .timeout = 60);

static unsigned random_below(unsigned n)
{
	static uint32_t state = 12345;

	state = state * 1664525u + 1013904223u;
	return (state >> 8) % n;
}

/* ---- the model */

static void model_forget(unsigned n)
{
	memmove(model.ring, model.ring + n, (model.count - n) * sizeof model.ring[0]);
	model.count -= n;
}

/* The oldest blocks that are consecutive are one write. */
static void model_destage(void)
{
	unsigned n = 0;

	while (n < model.count && model.ring[n].live &&
	       model.ring[n].lba == model.ring[0].lba + n) {
		model.file[model.ring[n].lba] = model.last[model.ring[n].lba];
		n++;
	}
	model_forget(n ? n : 1);
}

static void model_put(uint32_t lba, uint8_t value)
{
	for (unsigned i = 0; i < model.count; i++)
		if (model.ring[i].live && model.ring[i].lba == lba) {
			model.last[lba] = value;
			return;
		}
	while (model.count == CAPACITY)
		model_destage();
	model.ring[model.count].lba = lba;
	model.ring[model.count++].live = true;
	model.last[lba] = value;
}

static void model_through(uint32_t lba, uint32_t blocks, const uint8_t *values)
{
	for (uint32_t b = 0; b < blocks; b++) {
		model.file[lba + b] = model.last[lba + b] = values ? values[b] : 0;
		for (unsigned i = 0; i < model.count; i++)
			model.ring[i].live &= model.ring[i].lba != lba + b;
	}
}

/* ---- steps */

/* The transfer's memory: two pieces that do not end with a block. */
static unsigned pieces(struct iovec *vec, uint8_t *data, uint32_t blocks)
{
	vec[0] = (struct iovec){ data, blocks * BLOCK - 100 };
	vec[1] = (struct iovec){ data + blocks * BLOCK - 100, 100 };
	return 2;
}

static void write_blocks(uint32_t lba, uint32_t blocks, bool through)
{
	static uint8_t data[CAPACITY * 2 * BLOCK], values[CAPACITY * 2];
	const unsigned before = syncs;
	const bool durable = through || !cache.enabled;
	struct iovec vec[2];

	for (uint32_t b = 0; b < blocks; b++) {
		values[b] = (uint8_t)(1 + random_below(255));
		memset(data + b * BLOCK, values[b], BLOCK);
	}
	cr_assert_eq(soft_cache_write(&cache, lba, blocks, vec, pieces(vec, data, blocks), through),
		     0);
	cr_assert_eq(syncs, before + durable);
	if (durable)
		model_through(lba, blocks, values);
	for (uint32_t b = 0; !durable && b < blocks; b++)
		model_put(lba + b, values[b]);
}

static bool is_block(const uint8_t *data, uint8_t value)
{
	for (unsigned i = 0; i < BLOCK; i++)
		if (data[i] != value)
			return false;
	return true;
}

static void expect_read(uint32_t lba, uint32_t blocks, unsigned step)
{
	static uint8_t data[BLOCKS * BLOCK];
	struct iovec vec[2];

	cr_assert_eq(soft_cache_read(&cache, lba, blocks, vec, pieces(vec, data, blocks)), 0);
	for (uint32_t b = 0; b < blocks; b++)
		cr_assert(is_block(data + b * BLOCK, model.last[lba + b]), "step %u, block %u",
			  step, lba + b);
}

static void expect_file(unsigned step)
{
	static uint8_t data[BLOCKS * BLOCK];

	cr_assert_eq(pread(image, data, sizeof data, 0), (ssize_t)sizeof data);
	for (uint32_t b = 0; b < BLOCKS; b++)
		cr_assert(is_block(data + b * BLOCK, model.file[b]), "step %u, block %u: %u", step,
			  b, data[b * BLOCK]);
	cr_assert_eq(cache.count, model.count, "step %u: %u", step, cache.count);
	cr_assert_eq(pthread_rwlock_trywrlock(&cache.lock), 0, "step %u: the lock is held", step);
	pthread_rwlock_unlock(&cache.lock);
}

static void discard_blocks(uint32_t lba, uint32_t blocks, bool through)
{
	const unsigned before = syncs;

	cr_assert_eq(soft_cache_discard(&cache, lba, blocks, through), 0);
	cr_assert_eq(syncs, before + (through || !cache.enabled));
	model_through(lba, blocks, NULL);
}

static void flush(void)
{
	const unsigned before = syncs;

	cr_assert_eq(soft_cache_flush(&cache), 0);
	cr_assert_eq(syncs, before + 1);
	while (model.count)
		model_destage();
}

Test(cache_model, each_step_gives_what_the_model_has)
{
	for (unsigned step = 0; step < STEPS; step++) {
		const uint32_t blocks = 1 + random_below(random_below(4) ? 3 : 12);
		const uint32_t lba = random_below(step % 2 ? 12 : BLOCKS - 12);

		switch (random_below(16)) {
		case 0:
			flush();
			break;
		case 1:
			discard_blocks(lba, blocks, step % 3 == 0);
			break;
		case 2:
			write_blocks(lba, blocks, true);
			break;
		case 3: /* a disk without a volatile cache begins with an empty one */
			flush();
			cache.enabled = !cache.enabled;
			break;
		default:
			write_blocks(lba, blocks, false);
		}
		expect_file(step);
		expect_read(lba, blocks, step);
		if (step % 50 == 0)
			expect_read(0, BLOCKS, step);
	}
}

Test(cache_model, neighbours_are_written_together)
{
	write_blocks(3, 4, false);
	write_blocks(20, 2, false);
	write_blocks(22, 1, false);
	cr_expect_eq(writes, 0u);
	flush();
	cr_expect_eq(writes, 2u);
	expect_file(0);
	flush();
	cr_expect_eq(writes, 2u);
	write_blocks(3, CAPACITY, false);
	write_blocks(30, 1, false); /* the cache is full: the run before it goes out at once */
	cr_expect_eq(writes, 3u);
	cr_expect_eq(cache.count, 1u);
	expect_file(1);
}

Test(cache_model, a_file_that_cannot_be_synced_is_an_error)
{
	uint8_t data[BLOCK] = { 0 };
	const struct iovec vec = { data, sizeof data };

	sync_error = EIO;
	cr_expect_eq(soft_cache_write(&cache, 1, 1, &vec, 1, true), -EIO);
	cr_expect_eq(soft_cache_discard(&cache, 1, 1, true), -EIO);
	cr_expect_eq(soft_cache_discard(&cache, 1, 1, false), 0);
	cr_expect_eq(soft_cache_flush(&cache), -EIO);
	cache.enabled = false;
	cr_expect_eq(soft_cache_discard(&cache, 1, 1, false), -EIO);
	cr_expect_eq(soft_cache_write(&cache, 1, 1, &vec, 1, false), -EIO);
	sync_error = 0;
	cr_expect_eq(soft_cache_flush(&cache), 0);
}

/* Nothing reaches the file after the power is cut. */
Test(cache_model, a_dead_controller_changes_nothing)
{
	uint8_t data[BLOCK] = { 7 };
	const struct iovec vec = { data, sizeof data };
	unsigned before;

	write_blocks(0, 3, true);
	write_blocks(1, 3, false);
	before = syncs;
	dead = 1;
	cr_expect_eq(soft_cache_write(&cache, 1, 1, &vec, 1, true), -EIO);
	cr_expect_eq(soft_cache_write(&cache, 9, 1, &vec, 1, false), -EIO);
	cr_expect_eq(soft_cache_discard(&cache, 1, 1, true), -EIO);
	cr_expect_eq(soft_cache_flush(&cache), -EIO);
	cr_expect_eq(syncs, before);
	expect_file(0);
}

/* The same seed selects the same blocks; the cache is empty then, and is used again. */
Test(cache_model, a_cut_keeps_a_selection_of_the_blocks)
{
	unsigned kept[3] = { 0 };

	for (unsigned seed = 0; seed < 40; seed++) {
		static uint8_t data[BLOCKS * BLOCK], again[sizeof data];
		uint8_t before[BLOCKS];

		for (unsigned pass = 0; pass < 2; pass++) {
			discard_blocks(0, BLOCKS, true);
			write_blocks(0, 4, true);
			for (uint32_t b = 0; b < 4; b++)
				write_blocks(2 + b, 1, false);
			discard_blocks(3, 1, false);
			memcpy(before, model.file, sizeof before);
			soft_cache_cut(&cache, pass ? HR_SOFT_CUT_DROP : HR_SOFT_CUT_SOME, seed);
			cr_assert_eq(cache.count, 0u);
			cr_assert_eq(pread(image, pass ? again : data, sizeof data, 0),
				     (ssize_t)sizeof data);
			model.count = 0;
			if (pass) {
				memcpy(model.last, before, sizeof before);
			} else {
				for (uint32_t b = 0; b < BLOCKS; b++) {
					const uint8_t is = data[b * BLOCK];

					cr_assert(is == before[b] || is == model.last[b], "%u", b);
					if (b >= 2 && b < 6 && b != 3)
						kept[(b - 2) / 2 + (b == 5)] += is == model.last[b];
					model.file[b] = model.last[b] = is;
				}
			}
			expect_file(seed);
			expect_read(0, BLOCKS, seed);
		}
	}
	for (unsigned i = 0; i < 3; i++) /* blocks 2, 4, 5 */
		cr_expect(kept[i] > 5 && kept[i] < 35, "block %u: %u of 40", i, kept[i]);
}
