/* SPDX-License-Identifier: Apache-2.0 */
/* The clock step of the self-test, on a controlled clock. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "boot/cmd/post/step.h"
#include "config/base/clock.h"
#include "tests/fakes/clock.h"
#include "tests/harness/error.h"

TestSuite(post_machine, .fini = fake_clock_stop, .timeout = 60);

/* Excess time of each wait; the last value is for all following waits. */
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

Test(post_machine, a_wait_must_take_1_to_250_ms)
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
		/* A machine may be busy during seven waits. */
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
		const char *said;

		memcpy(script.more_ns, row[i].more_ns, sizeof script.more_ns);
		script.count = row[i].count;
		script.waits = 0;
		fake_clock_start(HR_NS_PER_S, step, NULL);
		cr_expect_eq(hr_post_clock(NULL, detail, test_error()), row[i].want,
			     "row %zu: %s%s", i, detail, test_error_text());
		said = row[i].want ? test_error_text() : detail;
		cr_expect(strstr(said, row[i].say), "row %zu: %s", i, said);
		cr_expect_eq(test_error_kind(), row[i].want ? HR_ERROR_DEVICE : HR_ERROR_NONE);
	}
}
