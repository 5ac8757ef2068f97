/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that ranks allocate to compare their work. The test is linked with the archive, because the
 * calloc() of a shared library is not replaced.
 */
#include <errno.h>

#include "tests/fakes/calloc.h"
#include "tests/harness/ranks_rig.h"

TestSuite(out_of_memory, .timeout = 60);

Test(out_of_memory, of_the_stores_of_all_ranks)
{
	static const char *const want = "out of memory for the sinks of 3 ranks";

	for (unsigned nth = 1; nth < 5; nth++) {
		begin();
		fake_calloc_fails(nth);
		fake_ranks_run(RANKS, FAKE_RANKS_ALL, same, NULL);
		cr_expect_eq(fake_calloc_failed(), nth < 4, "%u", nth);
		cr_expect_eq(result[0], nth < 4 ? -ENOMEM : 0, "%u: %s", nth, error[0].text);
		if (nth == 2 || nth == 3) {
			cr_expect_str_eq(error[0].text, want);
			cr_expect_eq(error[1].kind, HR_ERROR_MISSING);
		}
		fake_calloc_fails(0);
		end();
	}
}
