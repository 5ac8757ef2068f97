/* Pages of a transfer by PRPs, called directly over windows of memory: order, limits, and errors. */
#include <criterion/criterion.h>
#include <string.h>

#include "nvme/soft/internal.h"
#include "tests/harness/random.h"

#define PAGES 64u /* of each of two windows, whose memories lie apart */
#define FIRST 0x100000ull
#define SECOND 0x40000000ull
#define NOWHERE 0x80000000ull
#define TRANSFER_ERROR NVME_SC_DATA_XFER_ERROR
#define OFFSET NVME_SC_PRP_INVALID_OFFSET

static struct soft soft;
static uint8_t memory[2][PAGES * HR_PAGE] __attribute__((aligned(HR_PAGE)));

static void begin(void)
{
	soft.window[0] = (struct soft_window){ FIRST, sizeof memory[0], memory[0], false };
	soft.window[HR_SOFT_WINDOWS - 1] =
		(struct soft_window){ SECOND, sizeof memory[1], memory[1], false };
	for (size_t i = 0; i < 2 * sizeof memory[0]; i++)
		memory[i / sizeof memory[0]][i % sizeof memory[0]] = (uint8_t)(i * 7 + i / 251);
}

TestSuite(soft_prp, .init = begin, .timeout = 60);

static uint64_t bus_of(unsigned page)
{
	return (page < PAGES ? FIRST : SECOND - PAGES * HR_PAGE) + (uint64_t)page * HR_PAGE;
}

static uint8_t *cpu_of(uint64_t bus)
{
	return bus >= SECOND ? memory[1] + (bus - SECOND) : memory[0] + (bus - FIRST);
}

static struct iovec vec[80];
static unsigned pieces;

static uint16_t collect(uint64_t prp1, uint64_t prp2, uint64_t bytes, unsigned max)
{
	const struct soft_window *hint = soft.window;
	const struct hr_sqe sqe = { .prp1 = prp1, .prp2 = prp2 };

	memset(vec, 0, sizeof vec);
	pieces = 77;
	return soft_prp(&soft, &hint, &sqe, bytes, vec, max, &pieces);
}

static void put_entry(uint64_t at, uint64_t entry)
{
	memcpy(cpu_of(at), &entry, sizeof entry);
}

/* Write a list of n entries at `at`; a full page ends with a pointer to the next page of lists. */
static void put_list(uint64_t at, const uint64_t *entry, unsigned n, unsigned next)
{
	for (unsigned i = 0; i < n; i++, at += 8) {
		if ((at & (HR_PAGE - 1)) == HR_PAGE - 8 && i + 1 < n) {
			put_entry(at, bus_of(next));
			at = bus_of(next++);
		}
		put_entry(at, entry[i]);
	}
}

/* The bytes of the transfer must be those of its pages, in pieces that are as long as possible. */
static void expect_pages(const uint64_t *page, uint64_t bytes, unsigned row)
{
	static uint8_t got[40 * HR_PAGE], want[40 * HR_PAGE];
	uint64_t have = 0, total = 0;
	unsigned joints = 0;

	for (unsigned i = 0; have < bytes; i++) {
		const uint64_t room = HR_PAGE - (page[i] & (HR_PAGE - 1));
		const uint64_t n = bytes - have < room ? bytes - have : room;

		memcpy(want + have, cpu_of(page[i]), n);
		have += n;
		joints += i == 0 ||
			  cpu_of(page[i]) != cpu_of(page[i - 1]) - (page[i - 1] & 4095) + HR_PAGE;
	}
	cr_assert_eq(pieces, joints, "transfer %u: %u pieces, not %u", row, pieces, joints);
	for (unsigned i = 0; i < pieces; i++)
		total += vec[i].iov_len;
	cr_assert_eq(total, bytes, "transfer %u", row);
	soft_gather(got, vec, pieces);
	cr_assert_eq(memcmp(got, want, bytes), 0, "transfer %u", row);
}

/* Pages 0 to 47 of each window hold data; the others hold lists. */
Test(soft_prp, random_transfers_have_the_bytes_of_their_pages)
{
	struct fake_random random = { fake_random_seed("soft_prp") };

	for (unsigned row = 0; row < 3000; row++) {
		const uint64_t whole = (1 + fake_random_below(&random, 32)) * (uint64_t)HR_PAGE;
		/* Half of them end at the border of a page, or one byte beside it. */
		const uint64_t bytes = row % 2 ? whole - 1 + fake_random_below(&random, 3)
					       : 1 + fake_random_below(&random, 33 * HR_PAGE);
		const uint32_t offset = fake_random_below(&random, HR_PAGE / 4) * 4;
		const uint32_t rest = fake_random_below(&random, 40);
		const uint64_t list = bus_of(PAGES + 50) + HR_PAGE - 8 * (1 + (uint64_t)rest);
		uint64_t page[40];
		unsigned n = 0, at = 0;

		for (uint64_t have = 0; have < bytes; n++) {
			if (n && at % PAGES < 47 && fake_random_below(&random, 2))
				at++;
			else
				at = fake_random_below(&random, 48) +
				     PAGES * fake_random_below(&random, 2);
			page[n] = bus_of(at) + (n ? 0 : offset);
			have += HR_PAGE - (page[n] & (HR_PAGE - 1));
		}
		if (n > 2)
			put_list(list, page + 1, n - 1, PAGES + 51);
		cr_assert_eq(collect(page[0],
				     n > 2   ? list
				     : n > 1 ? page[1]
					     : NOWHERE,
				     bytes, 80),
			     0, "transfer %u", row);
		expect_pages(page, bytes, row);
	}
}

Test(soft_prp, each_wrong_entry_has_its_status)
{
	const uint64_t a = bus_of(0), b = bus_of(8), list = bus_of(60), end = list + HR_PAGE - 16;
	const struct {
		uint64_t prp1, prp2, pages, entry, next; /* entry: the second one of the list */
		uint16_t want;
	} row[] = {
		{ a, 0, 1, 0, 0, 0 },
		{ a + 1, 0, 1, 0, 0, OFFSET },
		{ a + 2, 0, 1, 0, 0, OFFSET },
		{ NOWHERE, 0, 1, 0, 0, TRANSFER_ERROR },
		{ NOWHERE, list, 3, b, 0, TRANSFER_ERROR }, /* with a list of three entries */
		{ bus_of(PAGES - 1), NOWHERE, 1, 0, 0, 0 },
		{ a, b, 2, 0, 0, 0 },
		{ a, b + 4, 2, 0, 0, OFFSET },
		{ a, b + 2048, 2, 0, 0, OFFSET },
		{ a, NOWHERE, 2, 0, 0, TRANSFER_ERROR },
		{ a, list, 3, b, 0, 0 },
		{ a, list + 4, 3, b, 0, OFFSET },
		{ a, list + 1, 3, b, 0, OFFSET },
		{ a, list, 3, b + 1, 0, OFFSET },
		{ a, list, 3, b + 4, 0, OFFSET },
		{ a, list, 3, b + 2048, 0, OFFSET },
		{ a, list, 3, NOWHERE, 0, TRANSFER_ERROR },
		{ a, NOWHERE, 3, b, 0, TRANSFER_ERROR },
		{ a, end, 3, b, 0, 0 }, /* the list ends with the page */
		{ a, end, 4, bus_of(61), b, 0 },
		{ a, end, 4, bus_of(61) + 8, b, OFFSET },
		{ a, end, 4, bus_of(61) + 1, b, OFFSET },
		{ a, end, 4, NOWHERE, b, TRANSFER_ERROR },
		{ a, end, 4, bus_of(61), b + 1, OFFSET },
		{ a, end, 4, bus_of(61), NOWHERE, TRANSFER_ERROR },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		uint16_t status;

		if (row[i].pages > 2 && row[i].prp2 != NOWHERE) {
			put_entry(row[i].prp2 & ~7ull, bus_of(20));
			put_entry((row[i].prp2 & ~7ull) + 8, row[i].entry);
			put_entry(bus_of(61), row[i].next);
			put_entry(bus_of(61) + 8, bus_of(30));
			put_entry(bus_of(61) + 16, bus_of(31));
			if ((row[i].prp2 & ~7ull) == list)
				put_entry(list + 16, bus_of(32));
		}
		status = collect(row[i].prp1, row[i].prp2, row[i].pages * HR_PAGE, 80);
		cr_expect_eq(status, row[i].want, "row %zu: %x", i, status);
	}
}

Test(soft_prp, a_transfer_has_no_more_pieces_than_the_vector)
{
	const uint64_t list = bus_of(60), entry[] = { bus_of(4), bus_of(5), bus_of(9) };

	put_list(list, entry, 3, 0);
	for (unsigned max = 1; max <= 4; max++) {
		cr_expect_eq(collect(bus_of(2), list, 4 * HR_PAGE, max),
			     max < 3 ? NVME_SC_INTERNAL : 0, "%u", max);
		cr_expect_eq(vec[max].iov_base, NULL, "%u", max);
	}
	/* Pages that follow each other need one piece. */
	cr_expect_eq(collect(bus_of(3), bus_of(4), 2 * HR_PAGE, 1), 0);
	cr_expect_eq(pieces, 1u);
}

Test(soft_prp, a_list_is_read_no_further_than_its_entries)
{
	/* The last bytes of the window: what is behind them is out of reach. */
	const uint64_t list = bus_of(2 * PAGES - 1) + HR_PAGE - 16;

	put_entry(list, bus_of(4));
	put_entry(list + 8, bus_of(9));
	cr_expect_eq(collect(bus_of(2), list, 3 * HR_PAGE, 80), 0);
	cr_expect_eq(pieces, 3u);
	put_entry(list + 8, NOWHERE);
	cr_expect_eq(collect(bus_of(2), list + 8, 3 * HR_PAGE, 80), TRANSFER_ERROR, "a pointer");
}

Test(soft_prp, data_for_the_host_go_to_both_pages)
{
	const uint8_t data[16] = "0123456789abcde";
	struct hr_sqe sqe = { .prp1 = bus_of(3) - 4, .prp2 = bus_of(20) };

	cr_expect_eq(soft_copy_out(&soft, &sqe, data, 16), 0);
	cr_expect_eq(memcmp(cpu_of(bus_of(3) - 4), data, 4), 0);
	cr_expect_eq(memcmp(cpu_of(bus_of(20)), data + 4, 12), 0);
	sqe.prp2 = NOWHERE;
	memset(cpu_of(bus_of(3) - 4), 'x', 4);
	cr_expect_eq(soft_copy_out(&soft, &sqe, data, 16), TRANSFER_ERROR);
	cr_expect_eq(memcmp(cpu_of(bus_of(3) - 4), "xxxx", 4), 0, "nothing is written");
}
