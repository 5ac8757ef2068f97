/* SPDX-License-Identifier: Apache-2.0 */
/* Host Behavior Support of the software controller: data that lie in one page or in two. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/harness/conform.h"

#define A CONFORM_DATA
#define BYTES 512u

static struct conform c;

static void start(void)
{
	conform_use("soft:memory,size=4M");
	conform_open(&c);
}

static void finish(void)
{
	conform_close(&c);
	conform_use(NULL);
}

TestSuite(soft_behavior, .init = start, .fini = finish, .timeout = 60);

/* The data begin so many bytes before the end of page A. */
static uint8_t *data_at(uint32_t before_end)
{
	return (uint8_t *)conform_page(&c, A) + HR_PAGE - before_end;
}

static uint16_t feature(uint8_t opcode, uint32_t before_end)
{
	const struct hr_sqe sqe = {
		.opcode = opcode,
		.prp1 = conform_bus(&c, A) + HR_PAGE - before_end,
		.prp2 = conform_bus(&c, A + 1),
		.cdw10 = NVME_FEAT_FID_HOST_BEHAVIOR,
	};

	return conform_admin(&c, &sqe, NULL);
}

Test(soft_behavior, data_may_lie_in_two_pages)
{
	static const uint32_t before_end[] = { BYTES, BYTES - 4, 256, 4, HR_PAGE };

	for (size_t i = 0; i < sizeof before_end / sizeof *before_end; i++)
		for (unsigned on = 2; on-- > 0;) {
			uint8_t *data = data_at(before_end[i]);

			memset(conform_page(&c, A), 0, 2 * HR_PAGE);
			*data = (uint8_t)on;
			cr_expect_eq(feature(nvme_admin_set_features, before_end[i]), 0, "%u",
				     before_end[i]);
			memset(conform_page(&c, A), 0xff, 2 * HR_PAGE);
			cr_expect_eq(feature(nvme_admin_get_features, before_end[i]), 0, "%u",
				     before_end[i]);
			cr_expect_eq(*data, on, "%u", before_end[i]);
			for (uint32_t at = 1; at < BYTES; at++)
				cr_assert_eq(data[at], 0, "%u: byte %u", before_end[i], at);
			cr_expect_eq(data[BYTES], 0xff, "%u", before_end[i]);
		}
}

Test(soft_behavior, other_values_are_refused_and_change_nothing)
{
	*data_at(BYTES) = 1;
	cr_expect_eq(feature(nvme_admin_set_features, BYTES), 0);
	*data_at(BYTES) = 2;
	cr_expect_eq(feature(nvme_admin_set_features, BYTES), NVME_SC_INVALID_FIELD);
	*data_at(BYTES) = 0xff;
	cr_expect_eq(feature(nvme_admin_get_features, BYTES), 0);
	cr_expect_eq(*data_at(BYTES), 1);
}
