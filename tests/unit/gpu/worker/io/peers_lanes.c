/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several gpus whose workers have several lanes each, as on GPUs: lanes write elements of their own of
 * all pages in a random order, and after a barrier read the elements of all lanes of all gpus; whole
 * pages are copied between gpus by all lanes of an I/O worker.
 */
#define HR_LANES 4u
#define FAKE_OWN_IDLE
#include "tests/fakes/lanes.h"

/* More workers than CPUs wait here, so yield the CPU. */
HR_WORKER void hr_idle(uint32_t *spins)
{
	fake_pause(++*spins < 4 ? 20000 : 100000);
}

/* Worker code for these lanes; the library's copies are not linked. */
#include "cache/object.c"
#include "gpu/worker/io/access.c"
#include "gpu/worker/io/io.c"
#include "gpu/worker/io/commands.c"
#include "gpu/worker/io/single.c"
#include "gpu/worker/io/peers.c"
#include "gpu/worker/io/peers_home.c"
#include "gpu/worker/io/peers_pages.c"
#include "gpu/worker/io/requests.c"
#include "gpu/worker/io/writeback.c"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "cache/page_policy.h"
#include "config/base/clock.h"
#include "tests/harness/access_rig.h"
#include "tests/harness/random.h"

#define TIMEOUT_NS (60 * HR_NS_PER_S)
#define GPUS 2u
#define PAGES 4u
#define ROUNDS 1u
#define PAGE_WORDS 512u

TestSuite(io_peers_lanes, .timeout = 280);

static struct access_rig rig;

static void lane_main(void *access)
{
	hr_access_block(access, fake_block->number);
}

/* A block of the run, with all lanes of its worker. */
static void run_block(struct hr_access *access, uint32_t number)
{
	struct fake_block *block = calloc(1, sizeof *block);

	cr_assert_not_null(block);
	cr_assert(fake_block_run(block, number, 1, lane_main, access));
	free(block);
}

static uint64_t value_of(uint32_t page, uint32_t element, uint64_t round)
{
	return round * 1000000 + page * 1000 + element;
}

/* The elements of a page: one for each lane of each worker. */
static void check_page(struct hr_objects *objects, const struct hr_object *o, uint32_t page,
		       uint64_t round)
{
	for (uint32_t i = 0; i < objects->workers; i++) {
		const uint32_t element = i * HR_LANES + hr_lane();
		const uint64_t value = hr_get_u64(objects, o, page * PAGE_WORDS + element);

		if (!objects->error)
			cr_assert_eq(value, value_of(page, element, round), "page %u, element %u",
				     page, element);
	}
}

static void write_in_rounds(struct hr_objects *objects)
{
	const struct hr_object *o = hr_get_object_map(objects, 0);
	const uint32_t element = objects->worker * HR_LANES + hr_lane();
	struct fake_random random = { rig.seed + 3 + objects->worker };

	for (uint64_t round = 1; round <= ROUNDS && !objects->error; round++) {
		const uint32_t first = fake_random_below(&random, PAGES);

		for (uint32_t i = 0; i < PAGES; i++) {
			const uint32_t page = (first + i) % PAGES;

			hr_set_u64(objects, o, page * PAGE_WORDS + element,
				   value_of(page, element, round));
		}
		(void)hr_workers_sync(objects);
		for (uint32_t i = 0; i < PAGES && !objects->error; i++)
			check_page(objects, o, (first + i) % PAGES, round);
		(void)hr_workers_sync(objects);
	}
}

Test(io_peers_lanes, lanes_of_two_gpus_write_the_same_pages)
{
	const struct access_work work = { .objects = 1,
					  .bytes = { PAGES * 4096 },
					  .writable = 1,
					  .frames = 7,
					  .commands = 16,
					  .staging = true,
					  .gpus = GPUS };
	const struct hr_failure *failure;
	struct hr_io_counters c;

	access_up(&rig, 1, "lba=4096", NULL, 32, TIMEOUT_NS);
	rig.block = run_block;
	rig.op.run = write_in_rounds;
	access_start(&rig, &work);
	access_wait(&rig);
	failure = access_failure(&rig);
	cr_assert_null(failure, "%d", failure ? failure->error : 0);
	c = access_counters(&rig);
	cr_expect_gt(c.copies, 0);
	cr_expect_gt(c.invalidations, 0);
	for (uint32_t page = 0; page < PAGES; page++)
		for (uint32_t i = 0; i < GPUS * HR_LANES; i++)
			((uint64_t *)(void *)rig.model[0])[page * PAGE_WORDS + i] =
				value_of(page, i, ROUNDS);
	access_check_disk(&rig, 0);
	access_down(&rig);
}
