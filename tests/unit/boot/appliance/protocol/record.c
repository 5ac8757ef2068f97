/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record of an engine: the range of every word, and a page whose writer may die at any moment.
 */
#include "boot/appliance/protocol/record.h"
#include "boot/appliance/protocol/message.h"
#include "boot/appliance/attempt/remember.h"
#include "config/default.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "boot/engine/devices/devices.h"
#include "boot/engine/run.h"
#include "config/file/file.h"
#include "tests/harness/error.h"

#define NOW_NS 1000u

static struct hr_engine engine;
static struct hr_record record;

static void begin(void)
{
	cr_assert_eq(hr_config_parse(&engine.config, &hr_lookup, "test.conf", hr_config_default,
				     hr_config_default_bytes, test_error()),
		     0, "%s", test_error_text());
	cr_assert_eq(hr_engine_init(&engine, NULL), 0);
	hr_record_update(&record, &engine);
}

TestSuite(record, .init = begin, .timeout = 60);

Test(record, the_record_of_an_appliance_that_is_down_is_valid)
{
	cr_expect_null(hr_record_check(&record, &engine.config, NOW_NS));
	cr_expect_eq(record.stage, HR_STAGE_NONE);
	cr_expect_eq(record.run[0].selected, 1u);
}

Test(record, pipelines_of_a_record_can_be_copied_to_an_appliance)
{
	static struct hr_engine other;

	engine.run[0].tiles = 9;
	engine.run[0].first_tile = 1;
	engine.run[0].durable_tiles = 2;
	engine.run[0].done_tiles = 3;
	engine.run[0].read_bytes = 4;
	engine.run[0].started_ns = 5;
	engine.run[0].ended_ns = 6;
	engine.run[0].error = -EIO;
	hr_fail(&engine.run[0].cause, HR_ERROR_DEVICE, -EIO, "pipeline '%s': it failed", "p");
	engine.run[0].outcome = HR_RUN_FAILED;
	engine.run[0].selected = false;
	engine.ssd[0].health.state = HR_HEALTH_LOST;
	engine.ssd[0].health.count[HR_FAULT_GONE] = 7;
	hr_record_update(&record, &engine);
	cr_assert_null(hr_record_check(&record, &engine.config, NOW_NS));
	other.config = engine.config;
	hr_record_apply(&record, &other);
	cr_expect_eq(other.run[0].tiles, 9u);
	cr_expect_eq(other.run[0].first_tile, 1u);
	cr_expect_eq(other.run[0].durable_tiles, 2u);
	cr_expect_eq(other.run[0].done_tiles, 3u);
	cr_expect_eq(other.run[0].read_bytes, 4u);
	cr_expect_eq(other.run[0].started_ns, 5u);
	cr_expect_eq(other.run[0].ended_ns, 6u);
	cr_expect_eq(other.run[0].error, -EIO);
	cr_expect_eq(other.run[0].cause.kind, HR_ERROR_DEVICE);
	cr_expect_str_eq(other.run[0].cause.text, "pipeline 'p': it failed");
	cr_expect(other.run[0].cause.printed, "by the engine");
	cr_expect_eq(other.run[0].outcome, HR_RUN_FAILED);
	cr_expect_not(other.run[0].selected);
	cr_expect_eq(other.ssd[0].health.state, HR_HEALTH_LOST);
	cr_expect_eq(other.ssd[0].health.count[HR_FAULT_GONE], 7u);
	cr_expect(other.run[1].selected);
}

/* The value is out of range for the word at `to`, and the error names that word. */
static void expect_wrong(uint64_t *to, uint64_t value, const char *name)
{
	const uint64_t before = *to;
	const char *wrong;

	*to = value;
	wrong = hr_record_check(&record, &engine.config, NOW_NS);
	*to = before;
	cr_expect(wrong && strcmp(wrong, name) == 0, "%s: %s", name, wrong ? wrong : "sound");
	cr_expect_null(hr_record_check(&record, &engine.config, NOW_NS));
}

Test(record, each_word_has_its_range)
{
	struct hr_record_run *run = &record.run[1];
	struct hr_role_counters *role = &run->count.role[HR_ROLE_COMPUTE];

	run->count.tiles = 5;
	run->started_ns = 7;
	role->blocks = role->workers = 2;
	expect_wrong(&record.stage, HR_STAGES, "stage");
	expect_wrong(&record.ssd[0].health, HR_HEALTHS, "health");
	expect_wrong(&run->selected, 2, "selected");
	expect_wrong(&run->outcome, HR_RUN_FAILED + 1, "outcome");
	expect_wrong(&run->reported, 2, "reported");
	expect_wrong(&run->over, 2, "over");
	expect_wrong(&run->share, HR_SHARE_SLICE + 1, "share");
	expect_wrong((uint64_t *)&run->error.code, 0x10000, "error of a pipeline");
	expect_wrong((uint64_t *)&run->error.code, (uint64_t)-4096, "error of a pipeline");
	expect_wrong(&run->error.kind, HR_ERROR_DEVICE, "error of a pipeline"); /* without a code */
	run->error.code = -EIO;
	expect_wrong(&run->error.kind, HR_ERROR_DEVICE + 1, "error of a pipeline");
	expect_wrong(&run->count.first_tile, 6, "first_tile");
	expect_wrong(&run->count.tiles_done, 6, "tiles_done");
	expect_wrong(&run->count.durable_tiles, 6, "durable_tiles");
	expect_wrong(&run->started_ns, NOW_NS + 1, "started_ns");
	expect_wrong(&run->ended_ns, NOW_NS + 1, "ended_ns");
	expect_wrong(&run->ended_ns, 6, "ended_ns");
	expect_wrong(&role->blocks, HR_GPUS_MAX * HR_BLOCKS_MAX + 1, "blocks");
	expect_wrong(&role->workers, HR_STATUSES_MAX + 1, "workers");
	expect_wrong(&role->ended, 3, "ended");
	expect_wrong(&role->failed, 3, "failed");
	expect_wrong(&record.has_run, 2, "has_run");
	expect_wrong(&record.finished, 2, "finished");
	expect_wrong(&record.refused, 2, "refused");
	expect_wrong(&record.mute, 2, "mute");
	expect_wrong(&record.ran_ns, NOW_NS + 1, "ran_ns");
	expect_wrong(&record.store.job[1].kind, HR_REQUEST_STATUS, "kind of a store request");
	expect_wrong(&record.store.job[1].kind, HR_REQUEST_KINDS, "kind of a store request");
	expect_wrong(&record.store.job[1].kind, UINT64_MAX, "kind of a store request");
	expect_wrong(&record.store.job[1].ssd, HR_SSDS_MAX + 1, "ssd of a store request");
	expect_wrong(&record.store.job[1].done_bytes, 1, "done_bytes of a store request");
	expect_wrong((uint64_t *)record.store.job[1].object, '\n', "object of a store request");
	expect_wrong(&record.consumer[2].attached, 2, "attached");
	expect_wrong((uint64_t *)record.consumer[2].name, '\n', "name of a consumer");
	record.consumer[31].attached = 1;
	expect_wrong(&record.consumer[31].pipeline, engine.config.pipelines,
		     "pipeline of a consumer");
	expect_wrong((uint64_t *)&record.error.code, (uint64_t)INT64_MIN, "error");
}

/* The engine prepares other starts before the supervisor has seen the end of this one. */
Test(record, a_start_that_is_over_keeps_its_outcome)
{
	engine.run[0].outcome = HR_RUN_DONE;
	hr_record_update(&record, &engine);
	record.run[0].number = 3;
	record.run[0].over = 1;
	engine.run[0].outcome = engine.run[1].outcome = HR_RUN_FAILED;
	hr_record_update(&record, &engine);
	cr_expect_eq(record.run[0].outcome, HR_RUN_DONE);
	cr_expect_eq(record.run[1].outcome, HR_RUN_FAILED);
	record.run[0].over = 0;
	hr_record_update(&record, &engine);
	cr_expect_eq(record.run[0].outcome, HR_RUN_FAILED);
	cr_expect_eq(record.run[0].number, 3u);
}

/* The text goes to terminals and into JSON, and the page may hold any bytes. */
Test(record, a_text_is_one_line_that_ends_within_its_bytes)
{
	static const char bad[] = { '\n', '\r', 0x1b, 0x7f };
	struct hr_record_error *e = &record.run[0].error;

	e->code = -EIO;
	e->kind = HR_ERROR_DEVICE;
	memset(e->text, 'x', sizeof e->text - 1);
	cr_expect_null(hr_record_check(&record, &engine.config, NOW_NS));
	for (size_t i = 0; i < sizeof bad; i++) {
		e->text[i] = bad[i];
		cr_expect_str_eq(hr_record_check(&record, &engine.config, NOW_NS),
				 "error of a pipeline");
		e->text[i] = 'x';
	}
	e->text[sizeof e->text - 1] = 'x';
	cr_expect_str_eq(hr_record_check(&record, &engine.config, NOW_NS), "error of a pipeline");
	memcpy(&record.error, e, sizeof *e);
	memset(e, 0, sizeof *e);
	cr_expect_str_eq(hr_record_check(&record, &engine.config, NOW_NS), "error");
}

Test(record, a_long_text_is_cut_and_a_list_is_its_first_line)
{
	struct hr_error *cause = &engine.run[0].cause;
	char text[2 * HR_RECORD_TEXT];

	memset(text, 'y', sizeof text - 1);
	text[sizeof text - 1] = '\0';
	engine.run[0].error = -EINVAL;
	hr_error_add(cause, HR_ERROR_USAGE, -EINVAL, "the first");
	hr_error_add(cause, HR_ERROR_USAGE, -EINVAL, "%s", text);
	hr_record_update(&record, &engine);
	cr_expect_str_eq(record.run[0].error.text, "the first");
	hr_error_clear(cause);
	hr_fail(cause, HR_ERROR_USAGE, -EINVAL, "%s", text);
	hr_record_update(&record, &engine);
	cr_expect_null(hr_record_check(&record, &engine.config, NOW_NS));
	cr_expect_eq(strlen(record.run[0].error.text), HR_RECORD_TEXT - 1);
	cr_expect_str_eq(record.run[0].error.text + HR_RECORD_TEXT - 5, "y...");
}

Test(record, words_of_unconfigured_ssds_and_pipelines_are_ignored)
{
	record.ssd[HR_SSDS_MAX - 1].health = 7;
	record.run[HR_PIPELINES_MAX - 1].outcome = 99;
	cr_expect_null(hr_record_check(&record, &engine.config, NOW_NS));
}

Test(record, a_page_has_the_record_published_last)
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

/* The writer died during a write; another writer continues with the page. */
Test(record, a_record_under_change_is_not_read)
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

/* The least value that is wrong for a word is `limit` + 1; the same word may have the limit itself. */
static void expect_limit(uint64_t *to, uint64_t limit, const char *name)
{
	const uint64_t before = *to;
	const char *wrong;

	*to = limit;
	wrong = hr_record_check(&record, &engine.config, NOW_NS);
	cr_expect_null(wrong, "%s: %s", name, wrong);
	*to = before;
	expect_wrong(to, limit + 1, name);
}

/* Of the last elements that count, too. */
Test(record, each_word_may_have_its_limit)
{
	const uint32_t last = engine.config.pipelines - 1;
	struct hr_record_run *run = &record.run[last];
	struct hr_role_counters *role = &run->count.role[HR_RUN_ROLES - 1];
	struct hr_record_store_job *job = &record.store.job[HR_RECORD_STORE_JOBS - 1];

	run->count.tiles = 5;
	run->started_ns = 7;
	expect_limit(&record.stage, HR_STAGES - 1, "stage");
	expect_limit(&record.ssd[engine.config.ssds - 1].health, HR_HEALTHS - 1, "health");
	expect_limit(&record.ssd[engine.config.ssds - 1].smart.known, 1, "smart");
	expect_limit(&run->selected, 1, "selected");
	expect_limit(&run->outcome, HR_RUN_FAILED, "outcome");
	expect_limit(&run->reported, 1, "reported");
	expect_limit(&run->over, 1, "over");
	expect_limit(&run->share, HR_SHARE_SLICE, "share");
	expect_limit((uint64_t *)&run->error.code, 0xffff, "error of a pipeline");
	expect_limit(&run->count.first_tile, 5, "first_tile");
	expect_limit(&run->count.tiles_done, 5, "tiles_done");
	expect_limit(&run->count.durable_tiles, 5, "durable_tiles");
	expect_limit(&run->started_ns, NOW_NS, "started_ns");
	expect_limit(&run->ended_ns, NOW_NS, "ended_ns");
	run->ended_ns = 7; /* as soon as it has started */
	expect_limit(&run->started_ns, 7, "ended_ns");
	run->ended_ns = 0;
	expect_limit(&role->blocks, HR_GPUS_MAX * HR_BLOCKS_MAX, "blocks");
	expect_limit(&role->workers, HR_STATUSES_MAX, "workers");
	role->workers = 3;
	expect_limit(&role->ended, 3, "ended");
	expect_limit(&role->failed, 3, "failed");
	expect_limit(&record.ready, 1, "ready");
	expect_limit(&record.usable, (1u << engine.config.pipelines) - 1, "usable");
	expect_limit(&job->kind, HR_REQUEST_STORE_FACTS, "kind of a store request");
	expect_limit(&job->ssd, HR_SSDS_MAX, "ssd of a store request");
	job->total_bytes = 9;
	expect_limit(&job->done_bytes, 9, "done_bytes of a store request");
	expect_limit(&record.consumer[HR_RECORD_CONSUMERS - 1].attached, 1, "attached");
	expect_limit(&record.producer[HR_PIPELINES_MAX - 1].attached, 1, "attached");
	expect_wrong((uint64_t *)record.producer[HR_PIPELINES_MAX - 1].name, '\n',
		     "name of a producer");
	record.consumer[0].attached = 1;
	expect_limit(&record.consumer[0].pipeline, last, "pipeline of a consumer");
	expect_limit(&record.has_run, 1, "has_run");
	expect_limit(&record.finished, 1, "finished");
	expect_limit(&record.refused, 1, "refused");
	expect_limit(&record.mute, 1, "mute");
	expect_limit(&record.ran_ns, NOW_NS, "ran_ns");
	record.error.code = -4095;
	record.error.kind = HR_ERROR_DEVICE;
	cr_expect_null(hr_record_check(&record, &engine.config, NOW_NS));
	record.starts.start[0].flags = HR_START_FLAGS + 1;
	cr_expect_not_null(hr_record_check(&record, &engine.config, NOW_NS));
}

/* All bytes of an error; and what is read back has been printed. */
Test(record, errors)
{
	static const struct {
		int code;
		enum hr_error_kind kind;
		const char *text;
		uint64_t kept_kind;
		const char *kept;
	} row[] = {
		{ 0, HR_ERROR_NONE, "", 0, "" },
		{ 0, HR_ERROR_DEVICE, "no code", 0, "" },
		{ -EINTR, HR_ERROR_NONE, "no kind", 0, "" },
		{ -EIO, HR_ERROR_DEVICE, "one\ntwo", HR_ERROR_DEVICE, "one" },
		{ 0x4002, HR_ERROR_FAILED, "", HR_ERROR_FAILED, "" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_error e = { .kind = row[i].kind }, back = { .kind = HR_ERROR_USAGE };
		struct hr_record_error to, want;

		memset(&to, 0xee, sizeof to);
		memset(&want, 0, sizeof want);
		strcpy(e.text, row[i].text);
		strcpy(back.text, "before");
		want.code = row[i].code;
		want.kind = row[i].kept_kind;
		strcpy(want.text, row[i].kept);
		cr_expect_eq(hr_record_put_error(&to, row[i].code, &e), row[i].code);
		cr_expect_eq(memcmp(&to, &want, sizeof to), 0, "row %zu", i);
		cr_expect_eq(hr_record_get_error(&to, &back), row[i].code);
		cr_expect_eq(back.kind, row[i].kept_kind, "row %zu", i);
		cr_expect_str_eq(back.text, row[i].kept, "row %zu", i);
		cr_expect(back.printed);
	}
}

/* A text that just fits is not cut. */
Test(record, the_longest_text)
{
	struct hr_error e = { .kind = HR_ERROR_DEVICE };
	struct hr_record_error to;

	for (size_t length = HR_RECORD_TEXT - 1; length <= HR_RECORD_TEXT; length++) {
		memset(e.text, 'x', length);
		e.text[length] = '\0';
		hr_record_put_error(&to, -EIO, &e);
		cr_expect_eq(strlen(to.text), HR_RECORD_TEXT - 1);
		cr_expect_str_eq(to.text + HR_RECORD_TEXT - 4,
				 length < HR_RECORD_TEXT ? "xxx" : "...");
	}
}

/* Elements behind the last one are not copied, in either direction. */
Test(record, only_configured_elements_are_copied)
{
	const uint32_t ssd = engine.config.ssds, pipeline = engine.config.pipelines;
	struct hr_record before;

	engine.ssd[ssd].health.state = HR_HEALTH_LOST;
	engine.ssd[ssd].health.count[0] = 5;
	engine.run[pipeline].outcome = HR_RUN_FAILED;
	before = record;
	hr_record_update(&record, &engine);
	cr_expect_eq(memcmp(&record, &before, sizeof record), 0);
	record.ssd[ssd].health = 0;
	record.run[pipeline].outcome = HR_RUN_DONE;
	hr_record_apply(&record, &engine);
	cr_expect_eq(engine.ssd[ssd].health.state, HR_HEALTH_LOST);
	cr_expect_eq(engine.run[pipeline].outcome, HR_RUN_FAILED);
}

/* Known when the backends are up, for a pipeline with a tap. */
Test(record, how_a_tap_shares_the_gpu)
{
	static const struct {
		enum hr_stage up;
		bool tap;
		uint64_t want;
	} row[] = {
		{ HR_STAGE_BACKENDS, true, HR_SHARE_PARK },
		{ HR_STAGE_BACKENDS, false, HR_SHARE_AUTO },
		{ HR_STAGE_BACKENDS - 1, true, HR_SHARE_AUTO },
		{ HR_STAGE_BACKENDS + 1, true, HR_SHARE_PARK },
	};

	engine.config.pipeline[0].tap.share = HR_SHARE_PARK;
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		engine.up = row[i].up;
		strcpy(engine.config.pipeline[0].tap.name, row[i].tap ? "t" : "");
		hr_record_update(&record, &engine);
		cr_expect_eq(record.stage, (uint64_t)row[i].up);
		cr_expect_eq(record.run[0].share, row[i].want, "row %zu: %llu", i,
			     (unsigned long long)record.run[0].share);
	}
}

/* The first line of the cause, without characters that change a terminal; one that is too long ends in
 * "...". */
Test(record, the_history_keeps_the_first_line_of_a_cause)
{
	static struct hr_history history;
	static struct hr_past_run past;
	static char text[HR_HISTORY_MESSAGE + 8], want[HR_HISTORY_MESSAGE + 8];
	const size_t room = HR_HISTORY_MESSAGE - 1;
	char *const cause = engine.run[0].cause.text;

	engine.run[0].error = -EIO;
	engine.run[0].cause.kind = HR_ERROR_DEVICE;
	engine.run[0].outcome = HR_RUN_FAILED;
	for (size_t n = 0; n < room + 3; n++) {
		memset(text, 'a', sizeof text);
		strcpy(text + n, n % 2 ? "" : "\nb");
		memcpy(text, "\x7f\t", n < 2 ? n : 2);
		memcpy(cause, text, sizeof text);
		memset(want, 0, sizeof want);
		memset(want, 'a', n < room ? n : room);
		memset(want, '?', n < 2 ? n : 2);
		if (n > room)
			memcpy(want + room - 3, "...", 3);
		hr_remember_run(&history, &engine, 0, n + 1);
		cr_assert(hr_history_newest(&history, engine.config.pipeline[0].name, UINT64_MAX,
					    &past));
		cr_expect_str_eq(past.message, want, "%zu characters", n);
	}
}
