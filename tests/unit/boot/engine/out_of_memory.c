/*
 * Each allocation of a bring-up fails, one at a time: the bring-up ends with an error that says so,
 * and nothing is left open. The address sanitizer reports memory that is not freed.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/names.h"
#include "boot/engine/runner.h"
#include "boot/engine/stages.h"
#include "tests/fakes/calloc.h"
#include "tests/fakes/log.h"
#include "tests/harness/error.h"

static struct hr_appliance *app;

static void begin(void)
{
	app = calloc(1, sizeof *app);
	cr_assert_not_null(app);
}

static void end(void)
{
	free(app);
}

TestSuite(out_of_memory, .init = begin, .fini = end, .timeout = 120);

static void configure(const char *device)
{
	char text[1024];
	const int n = snprintf(text, sizeof text,
			       "ssds = ( { name = \"a\"; device = \"%s\"; queue_entries = 64;"
			       " objects = ( { name = \"in\"; bytes = \"64K\"; } ); } );\n"
			       "gpus = ( { name = \"g\"; device = \"host:1\"; } );\n"
			       "pipelines = ( { name = \"p\"; source = { object = \"in\"; };"
			       " operator = \"copy\"; sink = { object = \"out\"; };"
			       " tile = \"4K\"; slots = 4; } );\n",
			       device);

	memset(app, 0, sizeof *app);
	cr_assert(n > 0 && (size_t)n < sizeof text);
	cr_assert_eq(hr_config_parse(&app->config, &hr_names, "f", text, (size_t)n, test_error()),
		     0, "%s", test_error_text());
	cr_assert_eq(hr_appliance_init(app, NULL), 0);
}

/* Returns the number of allocations that a bring-up of the device makes. */
static unsigned fail_each(const char *device)
{
	for (unsigned nth = 1;; nth++) {
		int err;

		configure(device);
		fake_calloc_fails(nth);
		err = hr_appliance_up(app, HR_STAGE_QUEUES);
		fake_calloc_fails(fake_calloc_failed() ? 0 : nth);
		if (!err) {
			hr_appliance_down(app);
			fake_calloc_fails(0);
			return nth - 1;
		}
		cr_assert_eq(err, -ENOMEM, "allocation %u: %d, %s", nth, err, app->error.text);
		cr_assert(strstr(app->error.text, "memory"), "allocation %u: %s", nth,
			  app->error.text);
		cr_assert_eq(app->up, HR_STAGE_NONE, "allocation %u: %s", nth, app->error.text);
		cr_expect_eq(app->error.kind, HR_ERROR_MISSING, "allocation %u: %s", nth,
			     app->error.text);
	}
}

Test(out_of_memory, of_a_bring_up_is_an_error)
{
	cr_expect_geq(fail_each("soft:memory,size=16M"), 3);
}

Test(out_of_memory, with_a_cache_and_reservations)
{
	cr_expect_geq(fail_each("soft:memory,size=16M,cache=64K,reservations=1"), 6);
}
