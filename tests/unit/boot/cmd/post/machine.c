/* The self-test's look at the clock, on a clock that is steered. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "boot/cmd/post/post.h"
#include "config/clock.h"
#include "tests/fakes/clock.h"

TestSuite(post_machine, .fini = fake_clock_stop, .timeout = 60);

/* How much longer each of the waits takes; the last one counts for all that follow. */
static struct {
	int64_t more_ns[10];
	unsigned count, waits;
} script;

static void step(void *context)
{
	(void)context;
	fake_clock_advance((uint64_t)script.more_ns[script.waits]);
	if (script.waits + 1 < script.count)
		script.waits++;
}

Test(post_machine, a_wait_takes_as_long_as_asked_and_not_much_longer)
{
	static const int64_t longest =
		249 * (int64_t)HR_NS_PER_MS; /* more than the 1 ms asked for */
	static const struct {
		int64_t more_ns[10];
		unsigned count;
		int want;
		const char *say;
	} row[] = {
		{ { 0 }, 1, 0, "steady, step " },
		{ { 0 }, 1, 0, "a wait of 1 ms took 1.000 ms" },
		{ { -1 }, 1, -EPROTO, "a wait of 1 ms took 1.000 ms, expected 1 to 250" },
		{ { longest }, 1, 0, "a wait of 1 ms took 250.000 ms" },
		{ { longest + 1 },
		  1,
		  -EPROTO,
		  "a wait of 1 ms took 250.000 ms, expected 1 to 250" },
		/* A machine may be busy for seven waits. */
		{ { longest + 1, longest + 1, longest + 1, longest + 1, longest + 1, longest + 1,
		    longest + 1, 0 },
		  8,
		  0,
		  "steady" },
		{ { longest + 1, longest + 1, longest + 1, longest + 1, longest + 1, longest + 1,
		    longest + 1, longest + 1, 0 },
		  9,
		  -EPROTO,
		  "expected" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		char detail[HR_POST_DETAIL] = "";

		memcpy(script.more_ns, row[i].more_ns, sizeof script.more_ns);
		script.count = row[i].count;
		script.waits = 0;
		fake_clock_start(HR_NS_PER_S, step, NULL);
		cr_expect_eq(hr_post_clock(NULL, detail), row[i].want, "row %zu: %s", i, detail);
		cr_expect(strstr(detail, row[i].say), "row %zu: %s", i, detail);
	}
}
