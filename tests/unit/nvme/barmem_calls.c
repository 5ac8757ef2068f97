/*
 * Memory in a BAR call by call: what is undone when a call fails, how room and addresses are counted,
 * and refusals that change nothing. The test plays pci/function.h and the bus addresses of the process.
 */
#include "nvme/barmem.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/bytes.h"
#include "config/limits.h"
#include "nvme/hostmem.h"
#include "tests/harness/error.h"

#define PAGES 8u
#define BUS 0x700000000ull

TestSuite(barmem_calls, .timeout = 60);

static uint8_t memory[PAGES * HR_PAGE] __attribute__((aligned(HR_PAGE)));
static char calls[256];
static int fails_at, call_number;
static const char *driver = "";
static enum hr_hostmem_kind kind = HR_HOSTMEM_PHYSICAL;
static struct hr_barmem m;

static int note(struct hr_error *e, const char *what)
{
	const size_t n = strlen(calls);

	snprintf(calls + n, sizeof calls - n, "%s; ", what);
	return ++call_number == fails_at ? hr_fail(e, HR_ERROR_MISSING, -EXDEV, "no %s", what) : 0;
}

int hr_function_look(const char *address, struct hr_function_state *state, struct hr_error *e)
{
	*state = (struct hr_function_state){ .bdf = "0000:05:00.0" };
	snprintf(state->driver, sizeof state->driver, "%s", driver);
	return note(e, address);
}

int hr_function_open(struct hr_function *f, const char *address, struct hr_error *e)
{
	cr_expect(hr_is_zero(f, sizeof *f));
	cr_expect_str_eq(address, "0000:05:00.0");
	if (call_number + 1 != fails_at)
		snprintf(f->bdf, sizeof f->bdf, "%s", address);
	return note(e, "open");
}

void hr_function_close(struct hr_function *f)
{
	note(NULL, f->bdf[0] ? "close" : "close nothing");
}

unsigned hr_function_peer_bar(const struct hr_function *f)
{
	note(NULL, "peer");
	return 4;
}

int hr_function_enable(struct hr_function *f, uint16_t bits, struct hr_error *e)
{
	cr_expect_eq(bits, HR_COMMAND_MSE);
	return note(e, "enable");
}

int hr_function_map(struct hr_function *f, unsigned bar, struct hr_bar_map *map, struct hr_error *e)
{
	const int err = note(e, bar == 4 ? "map 4" : bar == 1 ? "map 1" : "map ?");

	cr_expect(hr_is_zero(map, sizeof *map));
	if (!err)
		*map = (struct hr_bar_map){ memory, BUS, sizeof memory };
	return err;
}

void hr_function_unmap(struct hr_function *f, struct hr_bar_map *map)
{
	note(NULL, map->cpu ? "unmap" : "unmap nothing");
}

enum hr_hostmem_kind hr_hostmem_kind(void)
{
	return kind;
}

int hr_region_take_bus(size_t bytes, struct hr_bus *bus)
{
	bus->addr = 0x1000 + bytes;
	return note(NULL, "take");
}

void hr_region_give_bus(void)
{
	note(NULL, "give");
}

static int open_failing(int bar, int at)
{
	calls[0] = '\0';
	call_number = 0;
	fails_at = at;
	memset(&m, 0xee, sizeof m);
	return hr_barmem_open(&m, "5:0.0", bar, test_error());
}

Test(barmem_calls, a_bar_is_opened_or_nothing_is_kept)
{
	static const char *const want[] = {
		"5:0.0; ",
		"5:0.0; open; ",
		"5:0.0; open; enable; unmap nothing; close; ",
		"5:0.0; open; enable; map 1; unmap nothing; close; ",
	};

	for (int at = 1; at <= 4; at++) {
		cr_expect_eq(open_failing(1, at), -EXDEV, "call %d", at);
		cr_expect_str_eq(calls, want[at - 1], "call %d: %s", at, calls);
		cr_expect(hr_is_zero(&m, sizeof m), "call %d", at);
	}
	cr_expect_eq(open_failing(HR_BARMEM_PEER, 0), 0);
	cr_expect_str_eq(calls, "5:0.0; open; peer; enable; map 4; ", "%s", calls);
	cr_expect_eq(m.bar, 4u);
	cr_expect_eq(open_failing(1, 0), 0);
	cr_expect_str_eq(calls, "5:0.0; open; enable; map 1; ", "%s", calls);
	cr_expect(m.bar == 1 && m.map.cpu == memory && !m.used && !m.regions);
	calls[0] = '\0';
	hr_barmem_close(&m);
	cr_expect_str_eq(calls, "unmap; close; ");
	cr_expect(hr_is_zero(&m, sizeof m));
	driver = "nvidia";
	cr_expect_eq(open_failing(1, 0), -EBUSY);
	cr_expect_str_eq(calls, "5:0.0; ");
	cr_expect_str_eq(test_error_text(),
			 "0000:05:00.0: the kernel driver nvidia owns its BARs; unbind it: echo "
			 "0000:05:00.0 > /sys/bus/pci/drivers/nvidia/unbind");
	cr_expect(hr_is_zero(&m, sizeof m));
}

Test(barmem_calls, room_is_counted_in_pages)
{
	struct hr_region a, b, c;

	cr_assert_eq(open_failing(1, 0), 0);
	memset(memory, 0xff, sizeof memory);
	memset(&a, 0xee, sizeof a);
	cr_expect_eq(hr_barmem_alloc(&m, &a, "a", 0, test_error()), -EINVAL);
	cr_expect(hr_is_zero(&a, sizeof a) && !m.used && !m.regions);
	cr_assert_eq(hr_barmem_alloc(&m, &a, "a", 1, test_error()), 0);
	cr_assert_eq(hr_barmem_alloc(&m, &b, "b", 6 * HR_PAGE, test_error()), 0);
	cr_expect(a.cpu == memory && a.bytes == HR_PAGE && a.bus.addr == BUS);
	cr_expect(b.cpu == memory + HR_PAGE && b.bytes == 6 * HR_PAGE);
	cr_expect_eq(b.bus.addr, BUS + HR_PAGE);
	cr_expect(b.worker == b.cpu && b.kind == HR_REGION_BAR);
	cr_expect_str_eq(b.name, "b");
	cr_expect(hr_is_zero(memory, 7 * HR_PAGE) && memory[7 * HR_PAGE] == 0xff);
	cr_expect_eq(m.used, 7 * HR_PAGE);
	memset(&c, 0xee, sizeof c);
	cr_expect_eq(hr_barmem_alloc(&m, &c, "c", HR_PAGE + 1, test_error()), -ENOMEM);
	cr_expect_str_eq(test_error_text(),
			 "0000:05:00.0: BAR1 has 4096 bytes left of 32768, and 8192 are needed for "
			 "'c'; use smaller tiles, fewer slots, or a larger BAR");
	cr_expect(hr_is_zero(&c, sizeof c) && m.used == 7 * HR_PAGE && m.regions == 2);
	cr_expect_eq(hr_barmem_alloc(&m, &c, "c", SIZE_MAX, test_error()), -ENOMEM);
	cr_assert_eq(hr_barmem_alloc(&m, &c, "c", HR_PAGE, test_error()), 0);
	cr_expect_eq(hr_barmem_alloc(&m, &(struct hr_region){ 0 }, "d", 1, NULL), -ENOMEM);
	hr_barmem_free(&m, &b);
	cr_expect(hr_is_zero(&b, sizeof b));
	hr_barmem_free(&m, &b); /* nothing more */
	cr_expect(m.used == 8 * HR_PAGE && m.regions == 2);
	hr_barmem_free(&m, &a);
	hr_barmem_free(&m, &c);
	cr_expect(m.used == 0 && m.regions == 0);
	cr_assert_eq(hr_barmem_alloc(&m, &a, "a", 8 * HR_PAGE, test_error()), 0);
	cr_expect_eq(a.cpu, memory);
	cr_expect_null(strstr(calls, "take"));
	cr_expect_null(strstr(calls, "give"));
}

Test(barmem_calls, own_addresses_are_taken_and_given_back)
{
	struct hr_region a;

	kind = HR_HOSTMEM_OWN;
	cr_assert_eq(open_failing(1, 0), 0);
	calls[0] = '\0';
	cr_assert_eq(hr_barmem_alloc(&m, &a, "a", HR_PAGE, test_error()), 0);
	cr_expect_eq(a.bus.addr, 0x2000u);
	hr_barmem_free(&m, &a);
	cr_expect_str_eq(calls, "take; give; ");
	fails_at = call_number + 1;
	cr_expect_eq(hr_barmem_alloc(&m, &a, "a", HR_PAGE, test_error()), -EXDEV);
	cr_expect_str_eq(test_error_text(),
			 "0000:05:00.0: BAR1: no I/O addresses left for 4096 bytes of 'a'");
	cr_expect(hr_is_zero(&a, sizeof a) && m.used == 0 && m.regions == 0);
	hr_barmem_free(&m, &a);
	cr_expect_str_eq(calls, "take; give; take; ");
}
