/* SPDX-License-Identifier: Apache-2.0 */
/* Critical warnings: the strictest action of the warnings that are set. */
#include "boot/engine/runner/health_action.h"

#include <criterion/criterion.h>

TestSuite(warnings, .timeout = 60);

Test(warnings, the_strictest_action_of_the_set_warnings_counts)
{
	static const struct hr_config_health health = { { HR_WARNING_LOG, HR_WARNING_PAUSE,
							  HR_WARNING_STOP, HR_WARNING_STOP,
							  HR_WARNING_PAUSE } };
	static const struct {
		uint64_t known, warnings;
		enum hr_warning_action want;
		uint32_t which;
	} row[] = {
		{ 1, 0x00, HR_WARNING_LOG, 0 },	  { 1, 0x01, HR_WARNING_LOG, 0 },
		{ 1, 0x02, HR_WARNING_PAUSE, 1 }, { 1, 0x13, HR_WARNING_PAUSE, 1 },
		{ 1, 0x10, HR_WARNING_PAUSE, 4 }, { 1, 0x06, HR_WARNING_STOP, 2 },
		{ 1, 0x08, HR_WARNING_STOP, 3 },  { 1, 0x1f, HR_WARNING_STOP, 2 },
		{ 1, 0xe0, HR_WARNING_LOG, 0 },	  { 0, 0x1f, HR_WARNING_LOG, 0 },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const struct hr_smart smart = { .known = row[i].known,
						.critical_warning = row[i].warnings };
		uint32_t which = 99;

		cr_expect_eq(hr_warning_action(&health, &smart, &which), row[i].want, "row %zu", i);
		cr_expect_eq(which, row[i].which, "row %zu", i);
	}
}
