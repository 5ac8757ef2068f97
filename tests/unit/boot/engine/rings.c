/* Rings must be contiguous on the bus: a break inside a ring is an error, one between rings is not. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "boot/engine/pipe_layout.h"
#include "boot/engine/rings.h"
#include "tests/harness/error.h"

TestSuite(rings, .timeout = 60);

#define ENTRIES 128u /* the ring of commands has two pages, that of completions a half */
#define PAIRS 5u     /* two each for two ssds, and one for the sink */

static struct hr_bus bus[64];
static struct hr_partition partition;
static struct hr_ssd ssd;
static struct hr_pipe pipe_;
static struct hr_pipe_layout layout;
static const uint64_t no_limit[HR_PLACES];

static void begin(void)
{
	const uint32_t bytes = hr_plan_ring_bytes(ENTRIES);

	hr_partition_init(&partition, no_limit);
	for (uint32_t i = 0; i < 3; i++) {
		struct hr_pipe_queues *q = i < 2 ? &layout.read[i] : &layout.write;

		*q = (struct hr_pipe_queues){ .ssd = &ssd, .place = HR_PLACE_HOST };
		q->rings = (int)i;
		partition.part[i].offset = (uint64_t)i * 2 * bytes;
	}
	partition.count = 3;
	ssd.queue_entries = ENTRIES;
	strcpy(ssd.transport.name, "d");
	layout.pipe = &pipe_;
	layout.parts.partition = &partition;
	pipe_.read_queues = 2;
	pipe_.blocks[HR_ROLE_PREFETCH] = 2;
	pipe_.workers[HR_ROLE_PREFETCH] = 1;
	pipe_.blocks[HR_ROLE_WRITEBACK] = 1;
	pipe_.workers[HR_ROLE_WRITEBACK] = 1;
	pipe_.has_sink = true;
	cr_assert_leq(PAIRS * bytes, sizeof bus / sizeof *bus * HR_PAGE);
	partition.region[HR_PLACE_HOST] = (struct hr_region){ .bytes = PAIRS * bytes,
							      .granule_bus = bus,
							      .granule_shift = 12 };
}

/* Pages from this one on lie elsewhere. */
static int check(uint32_t from)
{
	for (uint32_t i = 0; i < sizeof bus / sizeof *bus; i++)
		bus[i].addr = (i + (i >= from ? 1000ull : 0)) * HR_PAGE;
	return hr_pipe_layout_check_rings(&layout, test_error());
}

Test(rings, a_break_inside_a_ring_of_any_queue_pair_is_an_error)
{
	const uint32_t pages = hr_plan_ring_bytes(ENTRIES) / HR_PAGE;

	begin();
	cr_expect_eq(check(64), 0, "no break");
	for (uint32_t pair = 0; pair < PAIRS; pair++)
		for (uint32_t page = 0; page < pages; page++) {
			const int want = page == 1 ? -ENOTSUP : 0;

			cr_expect_eq(check(pair * pages + page), want, "pair %u, page %u", pair,
				     page);
			if (want)
				cr_expect(strstr(test_error_text(),
						 "d: a ring of 8192 bytes is not contiguous"),
					  "%s", test_error_text());
		}
	pipe_.has_sink = false;
	cr_expect_eq(check(4 * pages + 1), 0, "there is no queue pair for a sink");
	pipe_.read_queues = 1;
	cr_expect_eq(check(2 * pages + 1), 0, "there is no second ssd");
}
