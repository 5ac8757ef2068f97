/* What an engine publishes: ranges of every word, and a page whose writer may die at any moment. */
#include "boot/appliance/record.h"

#include <criterion/criterion.h>
#include <string.h>

#include "boot/engine/names.h"
#include "boot/engine/watch.h"

#define NOW_NS 1000u

static struct hr_appliance app;
static struct hr_record record;

static void begin(void)
{
	cr_assert_eq(hr_config_parse(&app.config, &hr_names, "test.conf", hr_config_default,
				     hr_config_default_bytes, NULL, NULL),
		     0);
	cr_assert_eq(hr_appliance_init(&app, NULL), 0);
	hr_record_take(&record, &app);
}

TestSuite(record, .init = begin, .timeout = 60);

Test(record, of_an_appliance_that_is_down_is_sound)
{
	cr_expect_null(hr_record_check(&record, &app.config, NOW_NS));
	cr_expect_eq(record.stage, HR_STAGE_NONE);
	cr_expect_eq(record.run[0].selected, 1u);
}

Test(record, what_it_says_of_pipelines_can_be_taken_over)
{
	static struct hr_appliance other;

	app.run[0].tiles = 9;
	app.run[0].first_tile = 1;
	app.run[0].durable_tiles = 2;
	app.run[0].through_tiles = 3;
	app.run[0].read_bytes = 4;
	app.run[0].started_ns = 5;
	app.run[0].ended_ns = 6;
	app.run[0].error = -EIO;
	app.run[0].outcome = HR_RUN_FAILED;
	app.run[0].selected = false;
	app.ssd[0].failed = true;
	hr_record_take(&record, &app);
	cr_assert_null(hr_record_check(&record, &app.config, NOW_NS));
	other.config = app.config;
	hr_record_apply(&record, &other);
	cr_expect_eq(other.run[0].tiles, 9u);
	cr_expect_eq(other.run[0].first_tile, 1u);
	cr_expect_eq(other.run[0].durable_tiles, 2u);
	cr_expect_eq(other.run[0].through_tiles, 3u);
	cr_expect_eq(other.run[0].read_bytes, 4u);
	cr_expect_eq(other.run[0].started_ns, 5u);
	cr_expect_eq(other.run[0].ended_ns, 6u);
	cr_expect_eq(other.run[0].error, -EIO);
	cr_expect_eq(other.run[0].outcome, HR_RUN_FAILED);
	cr_expect_not(other.run[0].selected);
	cr_expect(other.ssd[0].failed);
	cr_expect(other.run[1].selected);
}

/* The word at `to` is out of range with that value, and named so. */
static void expect_wrong(uint64_t *to, uint64_t value, const char *name)
{
	const uint64_t before = *to;
	const char *wrong;

	*to = value;
	wrong = hr_record_check(&record, &app.config, NOW_NS);
	*to = before;
	cr_expect(wrong && strcmp(wrong, name) == 0, "%s: %s", name, wrong ? wrong : "sound");
	cr_expect_null(hr_record_check(&record, &app.config, NOW_NS));
}

Test(record, each_word_has_its_range)
{
	struct hr_record_run *run = &record.run[1];
	struct hr_record_role *role = &run->role[HR_ROLE_COMPUTE];

	run->tiles = 5;
	run->started_ns = 7;
	role->blocks = role->workers = 2;
	expect_wrong(&record.stage, HR_STAGES, "stage");
	expect_wrong(&record.ssd_failed[0], 2, "ssd_failed");
	expect_wrong(&run->selected, 2, "selected");
	expect_wrong(&run->outcome, HR_RUN_FAILED + 1, "outcome");
	expect_wrong(&run->reported, 2, "reported");
	expect_wrong((uint64_t *)&run->error, 0x10000, "error of a pipeline");
	expect_wrong((uint64_t *)&run->error, (uint64_t)-4096, "error of a pipeline");
	expect_wrong(&run->first_tile, 6, "first_tile");
	expect_wrong(&run->tiles_done, 6, "tiles_done");
	expect_wrong(&run->durable_tiles, 6, "durable_tiles");
	expect_wrong(&run->started_ns, NOW_NS + 1, "started_ns");
	expect_wrong(&run->ended_ns, NOW_NS + 1, "ended_ns");
	expect_wrong(&run->ended_ns, 6, "ended_ns");
	expect_wrong(&role->blocks, HR_BLOCKS_MAX + 1, "blocks");
	expect_wrong(&role->workers, HR_STATUSES_MAX + 1, "workers");
	expect_wrong(&role->ended, 3, "ended");
	expect_wrong(&role->failed, 3, "failed");
	expect_wrong(&record.has_run, 2, "has_run");
	expect_wrong(&record.finished, 2, "finished");
	expect_wrong(&record.refused, 2, "refused");
	expect_wrong(&record.stuck, 2, "stuck");
	expect_wrong(&record.mute, 2, "mute");
	expect_wrong(&record.ran_ns, NOW_NS + 1, "ran_ns");
	expect_wrong((uint64_t *)&record.error, (uint64_t)INT64_MIN, "error");
}

Test(record, words_of_ssds_and_pipelines_that_are_not_configured_do_not_count)
{
	record.ssd_failed[HR_SSDS_MAX - 1] = 7;
	record.run[HR_PIPELINES_MAX - 1].outcome = 99;
	cr_expect_null(hr_record_check(&record, &app.config, NOW_NS));
}

Test(record, a_page_has_what_was_published_last)
{
	static struct hr_record_page page;
	static struct hr_record got;
	uint64_t first;

	cr_expect_not(hr_record_read(&page, &got), "nothing has been published");
	record.ran_ns = 1;
	hr_record_publish(&page, &record);
	cr_expect(hr_record_read(&page, &got));
	first = hr_record_sequence(&page);
	cr_expect_eq(memcmp(&got, &record, sizeof got), 0);
	record.ran_ns = 2;
	hr_record_publish(&page, &record);
	cr_expect(hr_record_read(&page, &got));
	cr_expect_eq(got.ran_ns, 2u);
	cr_expect_neq(hr_record_sequence(&page), first);
}

/* The writer died in the middle; another one goes on with the page. */
Test(record, a_record_that_is_being_written_is_not_read)
{
	static struct hr_record_page page;
	static struct hr_record got;

	hr_record_publish(&page, &record);
	page.sequence++;
	cr_expect_not(hr_record_read(&page, &got));
	hr_record_publish(&page, &record);
	cr_expect(hr_record_read(&page, &got));
}

Test(record, phases_have_names)
{
	cr_expect_str_eq(hr_phase_name(HR_PHASE_BRING_UP), "bring-up");
	for (int i = 0; i < HR_PHASES; i++)
		cr_expect_not_null(hr_phase_name((enum hr_phase)i));
	cr_expect_str_eq(hr_phase_name(HR_PHASES), "?");
}
