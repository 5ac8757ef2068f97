/* The client of a feed commits only tiles that the caller holds, each once. */
#include "gpu/tap/client/connection.c"
#include "gpu/tap/client/feed.c"
/* names of its own */
#define fail cuda_fail
#define map_tiles cuda_map_tiles
#include "gpu/tap/client/tap_cuda.c"
#undef fail
#undef map_tiles
#include "gpu/tap/client/tap_cuda_find.c"

#include <criterion/criterion.h>

#define SLOTS 4u
#define ROOM 100u

TestSuite(feed_held, .timeout = 60);

Test(feed_held, a_commit_needs_a_slot_a_generation_and_bytes_within_the_room)
{
	static const struct {
		uint32_t slot, gen, bytes;
		int want;
	} row[] = {
		{ 0, 7, 1, 0 },
		{ 3, 7, ROOM, 0 },
		{ 3, 7, ROOM + 1, -EINVAL },
		{ 3, 7, 0, -EINVAL },
		{ 3, 6, 1, -EINVAL },
		{ 2, 0, 1, -EINVAL },	  /* free: its generation is 0 */
		{ SLOTS, 7, 1, -EINVAL }, /* behind the last */
		{ UINT32_MAX, 7, 1, -EINVAL },
	};
	uint64_t page[1024];
	uint32_t alive = 1, held[SLOTS + 1];
	struct hr_feed feed = { .alive = &alive,
				.slots = SLOTS,
				.held = held,
				.page = (struct hr_feed_page *)(void *)page };

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const struct hr_feed_tile tile = { .slot = row[i].slot,
						   .gen = row[i].gen,
						   .room = ROOM };

		memset(page, 0, sizeof page);
		for (uint32_t s = 0; s <= SLOTS; s++)
			held[s] = s == 2 ? 0 : 7;
		cr_expect_eq(hr_feed_commit(&feed, &tile, row[i].bytes), row[i].want, "row %zu", i);
		for (uint32_t s = 0; s < SLOTS; s++) {
			const bool committed = row[i].want == 0 && s == row[i].slot;

			cr_expect_eq(feed.page->commit[s],
				     committed ? HR_FEED_COMMIT(7, row[i].bytes) : 0, "row %zu", i);
			cr_expect_eq(held[s], committed || s == 2 ? 0 : 7, "row %zu", i);
		}
		cr_expect_eq(hr_feed_commit(&feed, &tile, row[i].bytes), -EINVAL, "once");
	}
	alive = 0;
	cr_expect_eq(hr_feed_commit(&feed, &(struct hr_feed_tile){ .slot = 0, .gen = 7 }, 1),
		     -EPIPE, "in a child of fork()");
}
