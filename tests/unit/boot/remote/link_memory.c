/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that runs out when a link opens. */
#include <criterion/criterion.h>
#include <errno.h>

#include "boot/remote/link.h"
#include "tests/fakes/calloc.h"
#include "tests/harness/link_rig.h"

static struct link_rig rig;

static void init(void)
{
	link_rig_init(&rig);
}

static void fini(void)
{
	link_rig_fini(&rig);
}

TestSuite(link_memory, .init = init, .fini = fini, .timeout = 300);

Test(link_memory, memory_that_is_missing_is_an_error)
{
	struct hr_link *link = NULL;
	struct hr_error error = { 0 };

	fake_calloc_fails(1);
	cr_expect_eq(hr_link_open(&link, &rig.setup[HR_LINK_RECEIVER], &error), -ENOMEM);
	cr_expect(fake_calloc_failed());
	cr_expect_str_eq(error.text, "link stream: no memory", "%s", error.text);
	cr_expect_null(link);
}
