/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory objects of taps and feeds that other processes map, on a backend that makes those of the
 * tiles and on one that does not: which are made where, and that a failure leaves none.
 */
#include "boot/engine/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpu/tap/memory.h"
#include "tests/harness/error.h"
#include "tests/harness/words_rig.h"

TestSuite(run_tap, .timeout = 60);

#define TILES_BYTES 12288u

static const struct hr_region *made_region;
static size_t made_offset, made_bytes;
static unsigned makes;
static bool make_fails;

static int make_shared(struct hr_backend *b, const struct hr_region *region, size_t offset,
		       size_t bytes, size_t *object, int *fd, struct hr_error *e)
{
	cr_expect_eq(b, &engine->backend[0]);
	makes++;
	made_region = region;
	made_offset = offset;
	made_bytes = bytes;
	if (make_fails)
		return hr_fail(e, HR_ERROR_MISSING, -ENOSPC, "no object");
	*object = 2u << 20;
	*fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return *fd < 0 ? hr_fail(e, HR_ERROR_MISSING, -errno, "no descriptor") : 0;
}

static unsigned attaches, detaches;
static bool attach_fails;

static int attach(struct hr_backend *b, void *cpu, size_t bytes, bool io, void **worker,
		  struct hr_error *e)
{
	cr_expect(cpu == engine->memory[0].region[HR_PLACE_TAP_WORDS].cpu && !io);
	*worker = (uint8_t *)cpu + ++attaches;
	return attach_fails ? hr_fail(e, HR_ERROR_DEVICE, -EIO, "not attached") : 0;
}

static void detach(struct hr_backend *b, void *cpu)
{
	cr_expect_eq(cpu, engine->memory[0].region[HR_PLACE_TAP_WORDS].cpu);
	detaches++;
}

static const struct hr_backend_ops gpu_ops = { .make_shared = make_shared,
					       .attach = attach,
					       .detach = detach },
				   host_ops;

/* With a gpu the tiles lie there; the words are host memory of both. */
static void up(bool gpu)
{
	struct hr_partition *p;

	begin();
	p = &engine->partition[0];
	makes = 0;
	make_fails = false;
	engine->backend[0].ops = gpu ? &gpu_ops : &host_ops;
	engine->backend[0].lanes = gpu ? 32 : 1;
	engine->memory[0].backend = &engine->backend[0];
	run->tap.role.ring = run->feed.role.ring = 4;
	hr_partition_add(p, HR_PLACE_TAP, 100, 4096, "t", "another");
	run->layout.sink.part = run->layout.source[0].part =
		hr_partition_add(p, HR_PLACE_TAP, TILES_BYTES, 4096, "t", "tiles");
	run->layout.tap_pages = hr_partition_add(
		p, HR_PLACE_TAP_WORDS, HR_TAP_SEATS * hr_tap_page_bytes(SLOTS), 4096, "t", "pages");
	run->layout.tap_entries = hr_partition_add(
		p, HR_PLACE_TAP_WORDS, HR_TAP_SEATS * hr_tap_ring_bytes(4), 4096, "t", "entries");
	run->layout.feed_entries = hr_partition_add(p, HR_PLACE_TAP_WORDS, hr_tap_ring_bytes(4),
						    4096, "t", "feed entries");
	run->layout.feed_pages = hr_partition_add(p, HR_PLACE_TAP_WORDS, hr_feed_page_bytes(SLOTS),
						  4096, "t", "feed page");
	run->layout.tap_sets = HR_TAP_SEATS;
	run->layout.feed_sets = 1;
	strcpy(pipeline->feed.name, "f");
	/* a place is addresses; its memory is made here */
	for (int place = HR_PLACE_TAP; place <= HR_PLACE_TAP_WORDS; place++) {
		p->region[place].cpu = mmap(NULL, 1u << 20, PROT_READ | PROT_WRITE,
					    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		cr_assert_neq(p->region[place].cpu, MAP_FAILED);
	}
}

static void down(void)
{
	for (int place = HR_PLACE_TAP; place <= HR_PLACE_TAP_WORDS; place++)
		munmap(engine->partition[0].region[place].cpu, 1u << 20);
	end();
}

#define DESCRIPTORS 200

/* Open descriptors of this process. */
static unsigned descriptors(void)
{
	unsigned count = 0;

	for (int fd = 0; fd < DESCRIPTORS; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* No more than so many further descriptors. */
static void limit(unsigned more)
{
	struct rlimit most = { 0, 1024 };

	for (; fcntl((int)most.rlim_cur, F_GETFD) >= 0 || more; most.rlim_cur++)
		more -= fcntl((int)most.rlim_cur, F_GETFD) < 0;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &most), 0);
}

static void no_limit(void)
{
	const struct rlimit most = { 1024, 1024 };

	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &most), 0);
}

/* fd is an object of so many bytes, with the contents at `at`, that others may write or not. */
static void expect_object(int fd, uint8_t *at, uint64_t bytes, bool writable)
{
	struct stat stat;
	uint8_t byte = 0;
	void *map;

	cr_assert_eq(fstat(fd, &stat), 0);
	cr_expect_eq((uint64_t)stat.st_size, bytes);
	at[bytes - 1] = 77;
	cr_expect_eq(pread(fd, &byte, 1, (off_t)bytes - 1), 1);
	cr_expect_eq(byte, 77);
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	cr_expect_eq(map != MAP_FAILED, writable);
	if (map != MAP_FAILED)
		munmap(map, bytes);
}

static uint8_t *at(int part)
{
	return hr_partition_cpu(&engine->partition[0], part);
}

/* ---- taps */

Test(run_tap, a_gpu_has_objects_of_all_seats)
{
	const uint64_t ring = hr_tap_ring_bytes(4), page = hr_tap_page_bytes(SLOTS);
	struct hr_tap_tiles *tiles;
	unsigned before;
	int fd;

	up(true);
	tiles = &engine->tap_tiles[0];
	before = descriptors();
	tiles->may_be_read = true;
	cr_assert_eq(hr_tap_memory_open(engine, 0), 0, "%s", engine->error.text);
	cr_expect(tiles->up && tiles->sets.count);
	cr_expect_not(tiles->may_be_read);
	cr_expect_eq(tiles->bytes, 2u << 20);
	cr_expect_eq(makes, 1u);
	cr_expect_eq(made_region, &engine->memory[0].region[HR_PLACE_TAP]);
	cr_expect_eq(made_offset, 4096u);
	cr_expect_eq(made_bytes, TILES_BYTES);
	cr_expect_eq(descriptors(), before + 1 + 2 * HR_TAP_SEATS);
	for (uint32_t i = 0; i < HR_TAP_SEATS; i++) {
		expect_object(tiles->sets.set[i].entries, at(run->layout.tap_entries) + i * ring,
			      ring, false);
		expect_object(tiles->sets.set[i].page, at(run->layout.tap_pages) + i * page, page,
			      true);
	}
	/* other memory for the tiles only, and only when consumers may read the former */
	cr_expect_eq(hr_tap_memory_renew(engine, 0), 0);
	cr_expect_eq(makes, 1u);
	tiles->may_be_read = true;
	fd = tiles->sets.set[0].entries;
	cr_expect_eq(hr_tap_memory_renew(engine, 0), 0);
	cr_expect_eq(makes, 2u);
	cr_expect(tiles->up && tiles->sets.count && !tiles->may_be_read);
	cr_expect_eq(tiles->sets.set[0].entries, fd);
	cr_expect_eq(descriptors(), before + 1 + 2 * HR_TAP_SEATS);
	hr_tap_memory_close(tiles);
	cr_expect_eq(descriptors(), before);
	cr_expect_not(tiles->up || tiles->sets.count);
	hr_tap_memory_close(tiles);
	cr_expect_eq(descriptors(), before);
	tiles->may_be_read = true; /* what is not up is not renewed */
	cr_expect_eq(hr_tap_memory_renew(engine, 0), 0);
	cr_expect_eq(makes, 2u);
	down();
}

Test(run_tap, the_host_has_an_object_of_the_tiles)
{
	struct hr_tap_tiles *tiles;
	unsigned before;

	up(false);
	tiles = &engine->tap_tiles[0];
	before = descriptors();
	cr_assert_eq(hr_tap_memory_open(engine, 0), 0, "%s", engine->error.text);
	cr_expect(tiles->up && !tiles->sets.count);
	cr_expect_eq(tiles->bytes, TILES_BYTES);
	cr_expect_eq(descriptors(), before + 1);
	expect_object(tiles->fd, at(run->layout.sink.part), TILES_BYTES, false);
	hr_tap_memory_close(tiles);
	cr_expect_eq(descriptors(), before);
	down();
}

Test(run_tap, a_failure_leaves_no_descriptor)
{
	static const unsigned left[] = { 0, 1, 2, 3, 4, 2 * HR_TAP_SEATS - 1, 2 * HR_TAP_SEATS };
	unsigned before;

	for (int gpu = 0; gpu < 2; gpu++)
		for (unsigned i = 0; i < (gpu ? sizeof left / sizeof *left : 1); i++) {
			const unsigned more = left[i];

			up(gpu);
			before = descriptors();
			limit(more);
			cr_expect_eq(hr_tap_memory_open(engine, 0), -EMFILE, "%d %u", gpu, more);
			no_limit();
			cr_expect_eq(descriptors(), before, "%d %u", gpu, more);
			cr_expect_not(engine->tap_tiles[0].up || engine->tap_tiles[0].sets.count);
			cr_expect_eq(strncmp(engine->error.text, "pipeline 'p': tap 't': ", 23), 0,
				     "%s", engine->error.text);
			hr_tap_memory_close(&engine->tap_tiles[0]);
			cr_expect_eq(descriptors(), before, "%d %u", gpu, more);
			down();
		}
	up(true);
	make_fails = true;
	cr_expect_eq(hr_tap_memory_open(engine, 0), -ENOSPC);
	cr_expect_str_eq(engine->error.text, "pipeline 'p': tap 't': no object");
	cr_expect_not(engine->tap_tiles[0].up);
	/* a renewal that fails leaves a tap that is down, and its seats are given back */
	make_fails = false;
	before = descriptors();
	cr_assert_eq(hr_tap_memory_open(engine, 0), 0);
	engine->tap_tiles[0].may_be_read = true;
	make_fails = true;
	hr_error_clear(&engine->error);
	cr_expect_eq(hr_tap_memory_renew(engine, 0), -ENOSPC);
	cr_expect_not(engine->tap_tiles[0].up);
	hr_tap_memory_close(&engine->tap_tiles[0]);
	cr_expect_eq(descriptors(), before);
	down();
}

/* ---- sets that clients have had */

/* A tap and a feed on a GPU, whose words it has attached. */
static void up_attached(void)
{
	struct hr_region *words;

	up(true);
	attaches = detaches = 0;
	attach_fails = false;
	words = &engine->memory[0].region[HR_PLACE_TAP_WORDS];
	words->cpu = engine->partition[0].region[HR_PLACE_TAP_WORDS].cpu;
	words->bytes = 1u << 20;
	cr_assert_eq(hr_tap_memory_open(engine, 0), 0, "%s", engine->error.text);
	cr_assert_eq(hr_feed_memory_open(engine, 0), 0, "%s", engine->error.text);
	cr_assert_eq(hr_places_attach_words(&engine->memory[0], test_error()), 0);
}

static void down_attached(void)
{
	hr_tap_memory_close(&engine->tap_tiles[0]);
	hr_feed_memory_close(&engine->feed_memory[0]);
	down();
}

/* Give the next set of the tap to a client, which passes the page on; the descriptor of that. */
static int spend(void)
{
	struct hr_sets *sets = &engine->tap_tiles[0].sets;
	uint32_t set;
	int fds[2], kept;

	cr_assert_eq(hr_sets_next(sets, &set, fds, test_error()), 0);
	kept = dup(fds[1]);
	hr_sets_spend(sets);
	return kept;
}

Test(run_tap, spent_sets_are_new_in_the_next_run)
{
	const uint64_t page = hr_tap_page_bytes(SLOTS);
	struct hr_sets *sets;
	uint8_t byte = 77, *pages;
	unsigned before;
	int kept[2];

	up_attached();
	sets = &engine->tap_tiles[0].sets;
	pages = at(run->layout.tap_pages);
	cr_expect_eq(hr_run_words_renew(engine, 0), 0);
	cr_expect_eq(detaches, 0u, "nothing is spent");
	before = descriptors();
	kept[0] = spend();
	kept[1] = spend();
	pages[2 * page] = 5;
	cr_expect_eq(pwrite(kept[1], &byte, 1, 0), 1);
	cr_expect_eq(pages[page], 77);
	cr_expect_eq(descriptors(), before - 2);
	cr_expect_eq(hr_run_words_renew(engine, 0), 0, "%s", engine->error.text);
	cr_expect(detaches == 1 && attaches == 2 && sets->spent == 0);
	cr_expect_eq((uint8_t *)engine->partition[0].region[HR_PLACE_TAP_WORDS].worker,
		     (uint8_t *)engine->partition[0].region[HR_PLACE_TAP_WORDS].cpu + 2);
	cr_expect_eq(descriptors(), before + 2);
	cr_expect(pages[0] == 0 && pages[page] == 0 && pages[2 * page] == 5);
	cr_expect_eq(pwrite(kept[1], &byte, 1, 0), 1);
	cr_expect_eq(pages[page], 0, "the former page is elsewhere");
	for (uint32_t i = 0; i < 3; i++)
		expect_object(sets->set[i].page, pages + i * page, page, true);
	/* that of a feed */
	hr_sets_spend(&engine->feed_memory[0].sets);
	cr_expect_eq(hr_run_words_renew(engine, 0), 0, "%s", engine->error.text);
	cr_expect(detaches == 2 && attaches == 3 && engine->feed_memory[0].sets.spent == 0);
	close(kept[0]);
	close(kept[1]);
	down_attached();
}

/* The GPU would give the memory back only after the launch. */
Test(run_tap, no_set_is_renewed_while_a_run_goes_on)
{
	up_attached();
	close(spend());
	engine->config.pipelines = 3;
	engine->run[2].started_ns = 7;
	cr_expect_eq(hr_run_words_renew(engine, 0), 0);
	cr_expect(detaches == 0 && engine->tap_tiles[0].sets.spent == 1);
	engine->run[2].started_ns = 0;
	engine->run[2].pipe = &pipe_words; /* it is about to start */
	cr_expect_eq(hr_run_words_renew(engine, 0), 0);
	cr_expect(detaches == 0 && engine->tap_tiles[0].sets.spent == 1);
	engine->run[2].ended_ns = 8;
	cr_expect_eq(hr_run_words_renew(engine, 0), 0);
	cr_expect(detaches == 1 && engine->tap_tiles[0].sets.spent == 0);
	down_attached();
}

Test(run_tap, a_renewal_that_fails_keeps_what_is_there)
{
	struct hr_sets *sets;

	up_attached();
	sets = &engine->tap_tiles[0].sets;
	for (unsigned i = 0; i < 3; i++)
		close(spend());
	limit(3); /* one set, and half of another one */
	cr_expect_eq(hr_run_words_renew(engine, 0), -EMFILE);
	no_limit();
	cr_expect_eq(strncmp(engine->error.text, "pipeline 'p': words of its clients: ", 36), 0,
		     "%s", engine->error.text);
	cr_expect(detaches == 1 && attaches == 2 && sets->spent == 2);
	hr_error_clear(&engine->error);
	attach_fails = true;
	cr_expect_eq(hr_run_words_renew(engine, 0), -EIO);
	cr_expect_str_eq(engine->error.text, "pipeline 'p': words of its clients: not attached");
	cr_expect_not(engine->memory[0].has_words);
	down_attached();
}

/* ---- feeds */

Test(run_tap, a_feed_on_a_gpu_has_three_objects)
{
	struct hr_feed_memory *feed;
	unsigned before;

	up(true);
	feed = &engine->feed_memory[0];
	before = descriptors();
	cr_assert_eq(hr_feed_memory_open(engine, 0), 0, "%s", engine->error.text);
	cr_expect(feed->up);
	cr_expect_eq(feed->bytes, 2u << 20);
	cr_expect_eq(makes, 1u);
	cr_expect_eq(made_region, &engine->memory[0].region[HR_PLACE_TAP]);
	cr_expect_eq(made_offset, 4096u);
	cr_expect_eq(made_bytes, TILES_BYTES);
	cr_expect_eq(descriptors(), before + 3);
	expect_object(feed->sets.set[0].entries, at(run->layout.feed_entries), hr_tap_ring_bytes(4),
		      false);
	expect_object(feed->sets.set[0].page, at(run->layout.feed_pages), hr_feed_page_bytes(SLOTS),
		      true);
	hr_feed_memory_close(feed);
	cr_expect_eq(descriptors(), before);
	cr_expect_not(feed->up);
	hr_feed_memory_close(feed);
	cr_expect_eq(descriptors(), before);
	down();
}

Test(run_tap, a_feed_that_fails_leaves_no_descriptor)
{
	unsigned before;

	for (unsigned more = 0; more < 4; more++) {
		up(true);
		before = descriptors();
		limit(more);
		cr_expect_eq(hr_feed_memory_open(engine, 0), more < 3 ? -EMFILE : 0, "%u", more);
		no_limit();
		cr_expect_eq(engine->feed_memory[0].up, more == 3);
		cr_expect_eq(descriptors(), before + (more == 3 ? 3 : 0), "%u", more);
		cr_expect(more == 3 ||
				  strncmp(engine->error.text, "pipeline 'p': feed 'f': ", 24) == 0,
			  "%s", engine->error.text);
		hr_feed_memory_close(&engine->feed_memory[0]);
		cr_expect_eq(descriptors(), before);
		down();
	}
	up(true);
	make_fails = true;
	before = descriptors();
	cr_expect_eq(hr_feed_memory_open(engine, 0), -ENOSPC);
	cr_expect_str_eq(engine->error.text, "pipeline 'p': feed 'f': no object");
	cr_expect_not(engine->feed_memory[0].up);
	cr_expect_eq(descriptors(), before);
	down();
	/* on the host each producer gets memory of its own */
	up(false);
	before = descriptors();
	cr_expect_eq(hr_feed_memory_open(engine, 0), 0);
	cr_expect_not(engine->feed_memory[0].up);
	cr_expect_eq(descriptors(), before);
	down();
}
