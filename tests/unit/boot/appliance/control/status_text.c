/* SPDX-License-Identifier: Apache-2.0 */
/* Each member of the document of `headrace status`, with another number in each counter. */
#include "boot/appliance/control/status.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "boot/appliance/supervisor/repeat.h"
#include "boot/appliance/schedule/timetable.h"
#include "boot/engine/devices/devices.h"
#include "config/base/process.h"
#include "config/base/clock.h"
#include "config/file/file.h"
#include "tests/harness/error.h"
#include "tests/harness/json.h"

#define S HR_NS_PER_S
#define MS HR_NS_PER_MS

#define PIPE(name, ssd)                                  \
	"{ name = \"" name "\"; source = { ssd = \"" ssd \
	"\"; object = \"x\"; }; operator = \"crc32c\"; every = \"1h\"; gpu = \"g\"; }"

static const char config[] =
	"appliance = { name = \"box\"; };\n"
	"ssds = ( { name = \"s\"; device = \"soft:s.img\"; }, { name = \"t\"; device = "
	"\"soft:t.img\"; } );\n"
	"gpus = ( { name = \"g\"; device = \"host:1\"; }, { name = \"h\"; device = \"host:1\"; } );\n"
	"pipelines = ( " PIPE("plain", "s") ", " PIPE("tapped", "t") ", " PIPE(
		"sends", "s") ",\n" PIPE("receives", "t") ", " PIPE("fed", "t") " );\n";

enum { PLAIN, TAPPED, SENDS, RECEIVES, FED, PIPELINES };

static struct hr_engine engine;
static struct hr_status status;
static struct hr_repeat repeat;
static char text[HR_STATUS_MAX];
static struct json_object *document;

static void begin(void)
{
	struct hr_config_pipeline *p = engine.config.pipeline;

	cr_assert_eq(hr_config_parse(&engine.config, &hr_lookup, "test.conf", config,
				     sizeof config - 1, test_error()),
		     0, "%s", test_error_text());
	cr_assert_eq(hr_engine_init(&engine, NULL), 0);
	strcpy(p[TAPPED].tap.name, "out");
	strcpy(p[SENDS].tap.name, "wire");
	strcpy(p[SENDS].to.address, "10.0.0.1");
	strcpy(p[RECEIVES].feed.name, "wire");
	strcpy(p[RECEIVES].from.address, "10.0.0.2");
	strcpy(p[FED].feed.name, "in");
	hr_status_open(&status, &engine);
	status.told = true;
	for (uint32_t i = 0; i < PIPELINES; i++) {
		p[i].other_gpus = 1;
		p[i].other_gpu[0] = 1;
		status.record.run[i].selected = 1;
	}
}

static void end(void)
{
	json_object_put(document);
	document = NULL;
}

TestSuite(status_text, .init = begin, .fini = end, .timeout = 60);

static struct json_object *format(uint64_t now_ns)
{
	size_t length;

	json_object_put(document);
	memset(text, 0x7f, sizeof text);
	length = hr_status_format(&status, now_ns, text, sizeof text);
	cr_assert_eq(length, strlen(text));
	cr_assert_eq(text[length - 1], '\n', "one line");
	document = json_tokener_parse(text);
	cr_assert_not_null(document, "%s", text);
	return document;
}

static const char *plain(struct json_object *of)
{
	return json_object_to_json_string_ext(of, JSON_C_TO_STRING_PLAIN |
							  JSON_C_TO_STRING_NOSLASHESCAPE);
}

/* Element i of an array of the document. */
static const char *element(const char *array, uint32_t i)
{
	return plain(json_object_array_get_idx(json_object_object_get(document, array), i));
}

static size_t elements(const char *array)
{
	return json_object_array_length(json_object_object_get(document, array));
}

static void count_from(void *counters, size_t bytes, uint64_t first, uint64_t step)
{
	uint64_t *word = counters;

	for (size_t i = 0; i < bytes / sizeof *word; i++)
		word[i] = first + i * step;
}
#define COUNT(of, first, step) count_from(&(of), sizeof(of), first, step)

Test(status_text, the_members_of_the_appliance)
{
	static const char wanted[] =
		"{\"schema\":\"headrace.status\",\"version\":1,"
		"\"appliance\":\"box\",\"pid\":%d,\"configuration\":\"test.conf\","
		"\"engine_pid\":77,\"progress_age_ms\":1234,"
		"\"uptime_ms\":1500,\"phase\":\"backoff\",\"stage\":\"%s\","
		"\"restarts\":3,\"restarts_left\":2,\"ssds\":[{";
	char want[512];

	status.phase = HR_PHASE_BACKOFF;
	status.restarts = 3;
	status.restarts_left = 2;
	status.engine_pid = 77;
	status.still_ns = 1234 * MS + MS / 2;
	status.record.stage = HR_STAGE_STORES;
	format(hr_exec_ns() + 1500 * MS + MS / 2);
	snprintf(want, sizeof want, wanted, (int)getpid(), hr_stage_name(HR_STAGE_STORES));
	cr_expect_eq(strncmp(plain(document), want, strlen(want)), 0, "%s", plain(document));
	cr_expect_str_eq(plain(json_object_object_get(document, "store")),
			 "{\"requests_count\":0,\"refused_count\":0,\"dropped_count\":0,"
			 "\"requests\":[]}");
}

Test(status_text, an_appliance_that_has_not_started)
{
	struct hr_status fresh;

	memset(&fresh, 0xee, sizeof fresh);
	hr_status_open(&fresh, &engine);
	cr_expect(fresh.engine == &engine && fresh.phase == HR_PHASE_STARTING && !fresh.told);
	cr_expect(!fresh.repeat && !fresh.service && !fresh.lend);
	cr_expect(fresh.engine_pid == 0 && fresh.restarts == 0 && fresh.restarts_left == 0);
	engine.run[TAPPED].outcome = HR_RUN_DONE;
	engine.ssd[1].health.state = HR_HEALTH_LOST;
	cr_assert_gt(hr_status_format(&fresh, hr_now_ns(), text, sizeof text), 0u);
	cr_expect_eq(fresh.record.run[TAPPED].outcome, HR_RUN_DONE, "copied from the appliance");
	cr_expect_eq(fresh.record.ssd[1].health, (uint64_t)HR_HEALTH_LOST);
	fresh.told = true;
	engine.run[TAPPED].outcome = HR_RUN_FAILED;
	cr_assert_gt(hr_status_format(&fresh, hr_now_ns(), text, sizeof text), 0u);
	cr_expect_eq(fresh.record.run[TAPPED].outcome, HR_RUN_DONE, "not when it is told");
}

Test(status_text, ssds_with_their_faults_and_their_health_log)
{
	struct hr_record_ssd *ssd = status.record.ssd;

	ssd[0].health = HR_HEALTH_UP;
	ssd[1].health = HR_HEALTH_LOST;
	COUNT(ssd[0].faults, 100, 1);
	COUNT(ssd[1].faults, 1, 1);
	ssd[1].smart = (struct hr_smart){ .known = 1,
					  .critical_warning = 1 << 0 | 1 << 3 | 1 << 4 | 1 << 5,
					  .temperature_k = 2,
					  .spare_percent = 3,
					  .spare_threshold_percent = 4,
					  .used_percent = 5,
					  .media_errors = 6,
					  .unsafe_shutdowns = 7,
					  .power_on_hours = 8 };
	format(1);
	cr_expect_eq(elements("ssds"), 2u);
	cr_expect_str_eq(
		element("ssds", 0),
		"{\"name\":\"s\",\"device\":\"soft:s.img\",\"failed\":false,\"health\":"
		"\"up\",\"lost_commands\":100,\"broken_queues\":101,\"kept_queues\":102,"
		"\"unknown_queues\":103,\"changed_namespaces\":104,\"wrong_doorbells\":105,"
		"\"admin_queue_failures\":106,\"fatal_statuses\":107,\"removals\":108,"
		"\"foreign_resets\":109}");
	cr_expect_str_eq(element("ssds", 1),
			 "{\"name\":\"t\",\"device\":\"soft:t.img\",\"failed\":true,\"health\":"
			 "\"lost\",\"lost_commands\":1,\"broken_queues\":2,\"kept_queues\":3,"
			 "\"unknown_queues\":4,\"changed_namespaces\":5,\"wrong_doorbells\":6,"
			 "\"admin_queue_failures\":7,\"fatal_statuses\":8,\"removals\":9,"
			 "\"foreign_resets\":10,\"smart\":{\"warnings\":[\"spare\",\"read_only\","
			 "\"backup\"],\"temperature_k\":2,\"spare_percent\":3,"
			 "\"spare_threshold_percent\":4,\"used_percent\":5,\"media_errors\":6,"
			 "\"unsafe_shutdowns\":7,\"power_on_hours\":8}}");
}

#define HEAD(name) \
	"{\"name\":\"" name "\",\"operator\":\"crc32c\",\"gpu\":\"g\",\"gpus\":[\"g\",\"h\"],"
#define COUNTERS                                                                              \
	"\"tiles\":0,\"first_tile\":0,\"tiles_done\":0,\"durable_tiles\":0,\"read_bytes\":0," \
	"\"duration_ms\":0,\"read_bytes_per_s\":0"

/* From its launch until now, or until its end. */
Test(status_text, outcomes_and_counters_of_a_pipeline)
{
	static const struct {
		enum hr_outcome outcome;
		uint64_t started_ns, ended_ns;
		int error;
		const char *want;
	} row[] = {
		{ HR_RUN_WAITING, 0, 0, 0,
		  "\"outcome\":\"waiting\",\"tiles\":9,\"first_tile\":1,\"tiles_done\":4,"
		  "\"durable_tiles\":3,\"read_bytes\":5000,\"duration_ms\":0,"
		  "\"read_bytes_per_s\":0}" },
		{ HR_RUN_WAITING, 10 * S, 0, 0,
		  "\"outcome\":\"running\",\"tiles\":9,\"first_tile\":1,\"tiles_done\":4,"
		  "\"durable_tiles\":3,\"read_bytes\":5000,\"duration_ms\":10000,"
		  "\"read_bytes_per_s\":500}" },
		{ HR_RUN_DONE, 10 * S, 12 * S, 0,
		  "\"outcome\":\"done\",\"tiles\":9,\"first_tile\":1,\"tiles_done\":4,"
		  "\"durable_tiles\":3,\"read_bytes\":5000,\"duration_ms\":2000,"
		  "\"read_bytes_per_s\":2500}" },
		{ HR_RUN_COMPLETE, 10 * S, 12 * S, 0, "\"outcome\":\"complete\",\"tiles\"" },
		{ HR_RUN_INTERRUPTED, 10 * S, 12 * S, -EINTR,
		  "\"outcome\":\"interrupted\",\"error\":\"Interrupted system call\",\"tiles\"" },
		{ HR_RUN_FAILED, 10 * S, 12 * S, 0x281,
		  "\"outcome\":\"failed\",\"error\":\"Unrecovered Read Error\",\"message\":\"why\","
		  "\"tiles\"" },
	};
	struct hr_record_run *run = &status.record.run[PLAIN];

	run->count.tiles = 9;
	run->count.first_tile = 1;
	run->count.tiles_done = 4;
	run->count.durable_tiles = 3;
	run->count.read_bytes = 5000;
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		char want[512];

		run->outcome = row[i].outcome;
		run->started_ns = row[i].started_ns;
		run->ended_ns = row[i].ended_ns;
		run->error.code = row[i].error;
		run->error.kind = row[i].error > 0 ? HR_ERROR_DEVICE : HR_ERROR_NONE;
		strcpy(run->error.text, "why");
		format(20 * S);
		snprintf(want, sizeof want, HEAD("plain") "%s", row[i].want);
		cr_expect_eq(strncmp(element("pipelines", PLAIN), want, strlen(want)), 0, "%s",
			     element("pipelines", PLAIN));
	}
	cr_expect_eq(run->count.duration_ns, 0u, "the record has no durations");
}

/* One that is not selected is shown when it repeats, or has been run. */
Test(status_text, pipelines_that_are_shown)
{
	struct hr_record_run *run = status.record.run;

	run[PLAIN].selected = run[TAPPED].selected = run[FED].selected = 0;
	run[TAPPED].outcome = HR_RUN_DONE;
	format(1);
	cr_expect_eq(elements("pipelines"), 3u);
	cr_expect_eq(strncmp(element("pipelines", 0), HEAD("tapped"), strlen(HEAD("tapped"))), 0);
	cr_expect_eq(strncmp(element("pipelines", 1), HEAD("sends"), strlen(HEAD("sends"))), 0);
	cr_expect_eq(strncmp(element("pipelines", 2), HEAD("receives"), strlen(HEAD("receives"))),
		     0);
	status.repeat = &repeat;
	format(1);
	cr_expect_eq(elements("pipelines"), (size_t)PIPELINES);
	cr_expect_str_eq(element("pipelines", PLAIN),
			 HEAD("plain") "\"outcome\":\"waiting\"," COUNTERS "}");
}

Test(status_text, the_name_of_a_user_operator)
{
	engine.config.pipeline[PLAIN].user_op = 2;
	engine.config.pipeline[PLAIN].op = NULL;
	strcpy(engine.config.op[0].name, "first");
	strcpy(engine.config.op[1].name, "mine");
	format(1);
	cr_expect(strstr(element("pipelines", PLAIN), "\"operator\":\"mine\","));
}

#define TAP_COUNTERS                                                                            \
	"\"tiles_returned\":1,\"tiles_dropped\":2,\"tiles_failed\":3,\"tiles_redelivered\":4,"  \
	"\"tiles_waiting\":5,\"consumers\":6,\"consumers_attached\":7,\"consumers_dropped\":8," \
	"\"clients_refused\":9,\"leases_exceeded\":10,"

Test(status_text, a_tap_with_its_consumers)
{
	static const struct {
		enum hr_tap_deliver deliver;
		enum hr_tap_lag lag;
		uint64_t share;
		const char *want;
	} row[] = {
		{ HR_TAP_EACH, HR_TAP_DROP, HR_SHARE_AUTO,
		  "\"deliver\":\"each\",\"lag\":\"drop\"," },
		{ HR_TAP_ONE, HR_TAP_BLOCK, HR_SHARE_PARK,
		  "\"deliver\":\"one\",\"lag\":\"block\",\"share\":\"park\"," },
	};
	struct hr_record_run *run = &status.record.run[TAPPED];
	struct hr_record_consumer *consumer = status.record.consumer;
	const uint32_t last = HR_RECORD_CONSUMERS - 1;
	char want[2048];

	COUNT(run->count.tap, 1, 1);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		engine.config.pipeline[TAPPED].tap.deliver = row[i].deliver;
		engine.config.pipeline[TAPPED].tap.lag = row[i].lag;
		run->share = row[i].share;
		format(1);
		snprintf(want, sizeof want,
			 HEAD("tapped") "\"outcome\":\"waiting\"," COUNTERS
					",\"tap\":{\"name\":\"out\",%s" TAP_COUNTERS
					"\"attached\":[]}}",
			 row[i].want);
		cr_expect_str_eq(element("pipelines", TAPPED), want);
	}
	/* consumers of this tap only */
	for (uint32_t k = 0; k < HR_RECORD_CONSUMERS; k++)
		consumer[k].pipeline = k == 0 || k == 1 || k == last ? TAPPED : PLAIN;
	consumer[0].attached = consumer[2].attached = consumer[last].attached = 1;
	strcpy(consumer[0].name, "one");
	consumer[0].process = 11;
	consumer[0].user = 12;
	COUNT(consumer[0].count, MS, MS);
	strcpy(consumer[last].name, "two");
	format(1);
	cr_expect_str_eq(
		plain(json_object_object_get(
			json_object_object_get(
				json_object_array_get_idx(
					json_object_object_get(document, "pipelines"), TAPPED),
				"tap"),
			"attached")),
		"[{\"name\":\"one\",\"pid\":11,\"uid\":12,\"credits\":1000000,\"tiles_held\":"
		"2000000,\"lag_tiles\":3000000,\"oldest_held_ms\":4,\"hold_ms\":5,\"hold_max_ms\":6,"
		"\"tiles_lent\":7000000,\"tiles_returned\":8000000,\"tiles_failed\":9000000,"
		"\"tiles_redelivered\":10000000,\"leases_exceeded\":11000000},"
		"{\"name\":\"two\",\"pid\":0,\"uid\":0,\"credits\":0,\"tiles_held\":0,"
		"\"lag_tiles\":0,\"oldest_held_ms\":0,\"hold_ms\":0,\"hold_max_ms\":0,"
		"\"tiles_lent\":0,\"tiles_returned\":0,\"tiles_failed\":0,\"tiles_redelivered\":0,"
		"\"leases_exceeded\":0}]");
}

#define REMOTE(side, address)                                                                    \
	"\"remote\":{\"name\":\"wire\",\"side\":\"" side "\",\"address\":\"" address             \
	"\",\"connected\":1000000,\"tiles\":2000000,\"bytes\":3000000,\"tiles_copied\":4000000," \
	"\"connections\":5000000,\"broken\":6000000,\"tiles_again\":7000000,\"not_ready\":"      \
	"8000000,\"connections_refused\":9000000,\"flushes\":10000000,\"up_ms\":11,"             \
	"\"down_ms\":12,\"last_recovery_ms\":13}"

/* A stream has no local tap and no local feed. */
Test(status_text, both_sides_of_a_stream)
{
	COUNT(status.record.run[SENDS].count.remote, MS, MS);
	COUNT(status.record.run[RECEIVES].count.remote, MS, MS);
	format(1);
	cr_expect_str_eq(element("pipelines", SENDS),
			 HEAD("sends") "\"outcome\":\"waiting\"," COUNTERS
				       "," REMOTE("sender", "10.0.0.1") "}");
	cr_expect_str_eq(element("pipelines", RECEIVES),
			 HEAD("receives") "\"outcome\":\"waiting\"," COUNTERS
					  "," REMOTE("receiver", "10.0.0.2") "}");
}

Test(status_text, a_feed_with_its_producer)
{
	static const char *const attached[] = {
		"", "{\"name\":\"camera\",\"pid\":21,\"uid\":22,\"credits\":1000000,"
		    "\"tiles_held\":2000000,\"lag_tiles\":3000000,\"idle_ms\":4,\"tiles_offered\":"
		    "5000000,\"tiles_committed\":6000000,\"leases_exceeded\":7000000}"
	};
	struct hr_record_producer *p = &status.record.producer[FED];
	char want[1024];

	COUNT(status.record.run[FED].count.feed, 1, 1);
	strcpy(p->name, "camera");
	p->process = 21;
	p->user = 22;
	COUNT(p->count, MS, MS);
	for (uint32_t i = 0; i < 2; i++) {
		p->attached = i;
		format(1);
		snprintf(want, sizeof want,
			 HEAD("fed") "\"outcome\":\"waiting\"," COUNTERS
				     ",\"feed\":{\"name\":\"in\",\"tiles_committed\":1,"
				     "\"tiles_discarded\":2,\"producers\":3,\"producers_attached\":"
				     "4,\"producers_dropped\":5,\"clients_refused\":6,"
				     "\"leases_exceeded\":7,\"attached\":[%s]}}",
			 attached[i]);
		cr_expect_str_eq(element("pipelines", FED), want);
	}
}

Test(status_text, store_requests)
{
	struct hr_record_store *store = &status.record.store;
	const uint32_t last = HR_RECORD_STORE_JOBS - 1;

	store->requests = 1;
	store->refused = 2;
	store->dropped = 3;
	store->job[0] = (struct hr_record_store_job){ .kind = HR_REQUEST_STORE_VERIFY, .ssd = 1 };
	store->job[last] = (struct hr_record_store_job){ .kind = HR_REQUEST_STORE_GET,
							 .ssd = 2,
							 .object = "x",
							 .done_bytes = 4,
							 .total_bytes = 5,
							 .user = 6,
							 .process = 7 };
	format(1);
	cr_expect_str_eq(
		plain(json_object_object_get(document, "store")),
		"{\"requests_count\":1,\"refused_count\":2,\"dropped_count\":3,"
		"\"requests\":[{\"request\":\"store-verify\",\"ssd\":\"t\",\"done_bytes\":0,"
		"\"total_bytes\":0,\"client_uid\":0,\"client_pid\":0},{\"request\":"
		"\"store-get\",\"object\":\"x\",\"done_bytes\":4,\"total_bytes\":5,"
		"\"client_uid\":6,\"client_pid\":7}]}");
}

/* Between the moment from which a start was due and its launch. */
Test(status_text, the_delay_of_the_newest_start)
{
	static const struct {
		bool begun;
		uint64_t number, newest, started_ns;
		const char *want; /* NULL: none */
	} row[] = {
		{ true, 4, 4, 7 * S + 3000,
		  "\"skipped_count\":0,\"paused\":false,"
		  "\"start_delay_us\":3," },
		{ true, 4, 4, 7 * S, "\"paused\":false,\"start_delay_us\":0," },
		{ true, 4, 4, 7 * S - 1, NULL },
		{ true, 4, 5, 8 * S, NULL },
		{ true, 0, 0, 8 * S, NULL },
		{ false, 4, 4, 8 * S, NULL },
	};
	struct hr_record_run *run = &status.record.run[TAPPED];

	status.repeat = &repeat;
	repeat.timetable.config = &engine.config;
	repeat.timetable.timed[TAPPED].planned_ns = 7 * S;
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const char *got;

		repeat.begun = row[i].begun;
		repeat.number[TAPPED] = row[i].newest;
		run->number = row[i].number;
		run->started_ns = row[i].started_ns;
		format(9 * S);
		got = element("pipelines", TAPPED);
		cr_expect_eq(!row[i].want, !strstr(got, "start_delay_us"), "row %zu: %s", i, got);
		cr_expect(!row[i].want || strstr(got, row[i].want), "row %zu: %s", i, got);
		cr_expect_eq(row[i].begun, !!strstr(got, "\"waits_for\":\"time\""), "row %zu", i);
		cr_expect_null(strstr(element("pipelines", PLAIN), "start_delay_us"));
	}
}

/* ---- the next start of a pipeline */

#define WALL (HR_WALL_SET_NS + 86400 * S) /* 2025-01-02 00:00 UTC */

Test(status_text, the_schedule_of_a_pipeline)
{
	static struct hr_timetable t;
	struct hr_start *start = &t.starts.start[FED];
	const struct {
		uint64_t wall_ns, started_ns, ended_ns, flags, outcome;
		const char *want;
	} row[] = {
		{ WALL, WALL - 2 * S, WALL - S, 0, HR_START_DONE,
		  "\"waits_for\":\"time\",\"last_start_utc\":\"2025-01-01T23:59:58Z\","
		  "\"last_end_utc\":\"2025-01-01T23:59:59Z\",\"last_outcome\":\"done\","
		  "\"next_start_in_ms\":2500,\"next_start_utc\":\"2025-01-02T00:00:02Z\","
		  "\"starts_count\":5,\"done_count\":6,\"failures_count\":7,\"skipped_count\":8,"
		  "\"paused\":false}" },
		{ WALL - 366 * 86400 * S, WALL, 0, 0, HR_START_RUNNING,
		  "\"waits_for\":\"time\",\"last_start_utc\":\"2025-01-02T00:00:00Z\","
		  "\"last_outcome\":\"running\",\"next_start_in_ms\":2500,\"starts_count\":5,"
		  "\"done_count\":6,\"failures_count\":7,\"skipped_count\":8,\"paused\":false}" },
		{ WALL, 0, 0, HR_START_PAUSED, HR_START_NONE,
		  "\"waits_for\":\"resume\",\"last_outcome\":\"none\",\"starts_count\":5,"
		  "\"done_count\":6,\"failures_count\":7,\"skipped_count\":8,\"paused\":true}" },
	};

	t.config = &engine.config;
	t.timed[FED].next_ns = 10 * S + 2500 * MS + 1;
	start->starts = 5;
	start->done = 6;
	start->failures = 7;
	start->skipped = 8;
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const struct hr_moment at = { 10 * S, row[i].wall_ns };
		char want[512];
		struct hr_json j;

		start->started_ns = row[i].started_ns;
		start->ended_ns = row[i].ended_ns;
		start->flags = row[i].flags;
		start->outcome = row[i].outcome;
		hr_json_to_text(&j, HR_JSON_LINE, text, sizeof text);
		hr_timetable_json(&j, &t, FED, &at);
		json_object_put(document);
		document = json_parsed(&j);
		snprintf(want, sizeof want, "{\"when\":\"every 1h\",%s", row[i].want);
		cr_expect_str_eq(plain(document), want, "row %zu: %s", i, plain(document));
	}
}

Test(status_text, names_of_outcomes_of_starts)
{
	static const char *const name[HR_START_OUTCOMES + 2] = { "none",   "running",	  "done",
								 "failed", "interrupted", "?",
								 "?" };

	for (uint64_t i = 0; i < sizeof name / sizeof *name; i++) {
		const struct hr_start start = { .outcome = i };

		cr_expect_str_eq(hr_start_outcome_name(&start), name[i]);
	}
}
