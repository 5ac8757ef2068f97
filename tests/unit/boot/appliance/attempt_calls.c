/*
 * An attempt of an engine, call by call: self-test, bring-up, pipelines, reports and its record. The
 * stages, the runner, the self-test and the services are the test's.
 */
#define hr_appliance_up test_up
#define hr_appliance_down test_down
#define hr_post_machine test_post_machine
#define hr_post_ssds test_post_ssds
#define hr_report_runs test_report
#define hr_refuse_ssd test_refuse_ssd
#define hr_run_trusted test_run_trusted
#define hr_run_all test_run_all
#define hr_seal test_seal
#define hr_unseal test_unseal
#define hr_dispatch_serve test_dispatch_serve
#define hr_tick_at_once test_tick_at_once
#define hr_config_operators_load test_operators
#define hr_tap_service_open test_tap_open
#define hr_tap_service_step test_tap_step
#define hr_tap_service_close test_tap_close
#define hr_tap_service_take test_tap_take
#define hr_feed_service_open test_feed_open
#define hr_feed_service_step test_feed_step
#define hr_feed_service_close test_feed_close
#define hr_feed_service_take test_feed_take
#define hr_store_service_open test_store_open
#define hr_store_service_step test_store_step
#define hr_store_service_close test_store_close
#define hr_store_service_take test_store_take
#define hr_store_service_wake_by test_wake_by
#include "boot/appliance/attempt.c"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>

#include "tests/fakes/clock.h"
#include "tests/fakes/log.h"
#include "tests/harness/calls.h"

#define S HR_NS_PER_S
#define BIT(i) (1u << (i))

static struct hr_attempt *at;
static struct hr_appliance *app;
static int phases[2];

static struct {
	int machine, ssd[3], operators, up, taps, feeds, store, trusted, all, served;
	bool cleared_by_post, stop; /* a signal in the self-test */
	uint32_t done;		    /* pipelines that end in the trusted run */
} will;

/* ---- what an attempt calls */

int test_operators(struct hr_config *config, struct hr_error *e)
{
	cr_expect(config == &app->config && e == &app->error);
	calls_note("load ");
	return will.operators ? hr_fail(e, HR_ERROR_USAGE, will.operators, "no operator") : 0;
}
void test_post_machine(struct hr_post *post)
{
	cr_expect(post->app == app && post->out == stdout && !post->passed && !post->failed);
	calls_note("machine ");
	post->passed = 5;
	post->skipped = 2;
	if (will.machine) {
		post->failed = post->machine_failed = 1;
		post->error = will.machine;
		hr_fail(&post->cause, HR_ERROR_MISSING, will.machine, "of the machine");
	}
	if (will.stop)
		raise(SIGTERM);
}
void test_post_ssds(struct hr_post *post)
{
	calls_note("ssds ");
	for (uint32_t d = 0; d < 3; d++) {
		if (!will.ssd[d])
			continue;
		post->failed++;
		post->error = post->ssd_error[d] = will.ssd[d];
		hr_fail(&post->ssd_cause[d], HR_ERROR_DEVICE, will.ssd[d], "of ssd %u", d);
		post->cause = post->ssd_cause[d];
	}
}
void test_refuse_ssd(struct hr_appliance *of, uint32_t d, int err)
{
	cr_expect_eq(of, app);
	calls_note("refuse(%u,%d,%s) ", d, err, app->error.text);
	app->run[d].selected = false;
}
int test_up(struct hr_appliance *of, enum hr_stage last)
{
	cr_expect(of == app && last == HR_STAGE_QUEUES);
	calls_note("up ");
	return will.up ? hr_fail(&app->error, HR_ERROR_DEVICE, will.up, "no bring-up") : 0;
}
void test_down(struct hr_appliance *of)
{
	calls_note("down ");
}
int test_run_trusted(struct hr_appliance *of, bool progress, struct hr_error *e)
{
	cr_expect(of == app && !progress && e == &app->error);
	calls_note("trusted ");
	for (uint32_t i = 0; i < 3; i++)
		if (will.done >> i & 1)
			app->run[i].outcome = HR_RUN_DONE;
	return will.trusted;
}
int test_run_all(struct hr_appliance *of, bool progress, struct hr_error *e)
{
	cr_expect(of == app && !progress && e == &app->error);
	calls_note("all ");
	fake_clock_advance(3 * S);
	return will.all ? hr_fail(e, HR_ERROR_FAILED, will.all, "a pipeline") : 0;
}
void test_report(const struct hr_appliance *of, uint32_t which, FILE *out)
{
	cr_expect(of == app && out == stdout);
	calls_note("report(%x) ", which);
}
void test_seal(void)
{
	calls_note("seal ");
}
void test_unseal(void)
{
	calls_note("unseal ");
}
void test_tick_at_once(void)
{
	calls_note("tick ");
}
int test_dispatch_serve(struct hr_attempt *of)
{
	cr_expect_eq(of, at);
	calls_note("dispatch ");
	return will.served;
}

int test_tap_open(struct hr_tap_service *s, struct hr_appliance *of, struct hr_tap_sockets *sockets,
		  bool supervised, struct hr_error *e)
{
	cr_expect(s == &at->taps && of == app && sockets == at->sockets && supervised);
	calls_note("taps ");
	s->wake = 62;
	return will.taps ? hr_fail(e, HR_ERROR_MISSING, will.taps, "no tap") : 0;
}
void test_tap_step(struct hr_tap_service *s)
{
	calls_note("tap-step ");
}
void test_tap_close(struct hr_tap_service *s)
{
	calls_note("tap-close ");
}
void test_tap_take(const struct hr_tap_service *s,
		   struct hr_record_consumer to[HR_RECORD_CONSUMERS])
{
	cr_expect(s == &at->taps && to == at->record.consumer);
	to[0].process++;
}
int test_feed_open(struct hr_feed_service *s, struct hr_appliance *of, struct hr_error *e)
{
	cr_expect(s == &at->feeds && of == app);
	calls_note("feeds ");
	return will.feeds ? hr_fail(e, HR_ERROR_MISSING, will.feeds, "no feed") : 0;
}
void test_feed_step(struct hr_feed_service *s)
{
	calls_note("feed-step ");
}
void test_feed_close(struct hr_feed_service *s)
{
	calls_note("feed-close ");
}
void test_feed_take(const struct hr_feed_service *s, struct hr_record_producer to[HR_PIPELINES_MAX])
{
	cr_expect(s == &at->feeds && to == at->record.producer);
	to[0].process++;
}
int test_store_open(struct hr_store_service *s, struct hr_appliance *of, int clients,
		    struct hr_error *e)
{
	cr_expect(s == &at->service && of == app && clients == 63);
	calls_note("store ");
	return will.store ? hr_fail(e, HR_ERROR_MISSING, will.store, "no store") : 0;
}
void test_store_step(struct hr_store_service *s)
{
	calls_note("store-step ");
}
void test_store_close(struct hr_store_service *s)
{
	calls_note("store-close ");
}
void test_store_take(const struct hr_store_service *s, struct hr_record_store *to)
{
	cr_expect(s == &at->service && to == &at->record.store);
	to->requests++;
}
void test_wake_by(const struct hr_store_service *s, int fd)
{
	calls_note("wake(%d) ", fd);
}

/* ---- set-up */

static void set_up(void)
{
	at = calloc(1, sizeof *at);
	app = calloc(1, sizeof *app);
	cr_assert(at && app);
	at->app = app;
	at->page = calloc(1, sizeof *at->page);
	cr_assert_not_null(at->page);
	cr_assert_eq(pipe2(phases, O_NONBLOCK), 0);
	at->phases = phases[1];
	at->dispatch = 61;
	at->clients = 63;
	app->config.ssds = app->config.pipelines = 3;
	for (uint32_t i = 0; i < 3; i++) {
		snprintf(app->config.pipeline[i].name, 4, "p%u", i);
		app->run[i].config = &app->config.pipeline[i];
		app->run[i].selected = true;
	}
	hr_signals_catch();
	fake_clock_start(100 * S, NULL, NULL);
}

static void tear_down(void)
{
	fake_clock_stop();
	close(phases[0]);
	if (phases[1] >= 0)
		close(phases[1]);
	free(at->page);
	free(at);
	free(app);
}

TestSuite(attempt_calls, .init = set_up, .fini = tear_down, .timeout = 60);

static void expect_calls(const char *want)
{
	const char *got = calls_take();

	cr_expect_str_eq(got, want, "%s", got);
}

static void expect_phases(const char *want)
{
	unsigned char byte[16];
	const ssize_t n = read(phases[0], byte, sizeof byte);
	char text[32] = "";

	for (ssize_t i = 0; i < n; i++)
		text[i] = (char)('0' + byte[i]);
	cr_expect_str_eq(text, want, "%s", text);
}

static struct hr_record published(void)
{
	static struct hr_record record;

	cr_assert(hr_record_read(at->page, &record));
	return record;
}

#define SERVICES "taps feeds store wake(61) wake(62) "
#define CLOSE "store-close tap-close feed-close "

/* ---- whole attempts */

Test(attempt_calls, a_whole_attempt)
{
	app->config.boot.post = HR_BOOT_POST_FULL;
	cr_expect_eq(hr_attempt_make(at), 0);
	expect_calls("load machine ssds up " SERVICES "all " CLOSE "unseal report(7) tick down ");
	expect_phases("0124");
	cr_expect_eq(fake_log_count_of(HR_LOG_DEBUG), 0u);
	cr_expect(at->record.has_run && at->record.finished && !at->record.refused &&
		  !at->record.mute);
	cr_expect_eq(at->record.ran_ns, 3 * S);
	cr_expect_eq(at->record.error.code, 0);
	for (uint32_t i = 0; i < 3; i++)
		cr_expect_eq(at->record.run[i].reported, 1u);
	{
		const struct hr_record got = published();

		cr_expect_eq(memcmp(&got, &at->record, sizeof got), 0);
		cr_expect(got.store.requests == 5 && got.consumer[0].process == 5 &&
				  got.producer[0].process == 5,
			  "each time");
	}
	cr_expect_str_eq(fake_log_last_of(HR_LOG_INFO), "self-test: 5 passed, 0 failed, 2 skipped");
	cr_expect_eq(app->serve_to, at);
	app->serve(app->serve_to);
	expect_calls("store-step tap-step feed-step ");
}

Test(attempt_calls, self_tests)
{
	static const struct {
		enum hr_boot_post post;
		int machine, ssd[3];
		bool stop;
		int want;
		const char *calls, *error;
	} row[] = {
		{ HR_BOOT_POST_OFF, -EIO, { 0 }, false, 0, "", NULL },
		{ HR_BOOT_POST_QUICK, 0, { -EIO, -EIO, -EIO }, false, 0, "machine ", NULL },
		{ HR_BOOT_POST_FULL, 0, { 0 }, false, 0, "machine ssds ", NULL },
		{ HR_BOOT_POST_FULL,
		  -ENOENT,
		  { -EIO },
		  false,
		  -ENOENT,
		  "machine ",
		  "of the machine" },
		{ HR_BOOT_POST_FULL,
		  0,
		  { 0, 0x281, 0 },
		  false,
		  0,
		  "machine ssds refuse(1,641,of ssd 1) ",
		  NULL },
		{ HR_BOOT_POST_FULL,
		  0,
		  { -EIO, -ENXIO, -EIO },
		  false,
		  -EIO,
		  "machine ssds refuse(0,-5,of ssd 0) refuse(1,-6,of ssd 1) refuse(2,-5,of ssd 2) ",
		  "of ssd 2" },
		{ HR_BOOT_POST_QUICK, 0, { 0 }, true, -EINTR, "machine ", NULL },
	};

	app->config.pipelines = 1;
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		app->config.boot.post = row[i].post;
		will.machine = row[i].machine;
		memcpy(will.ssd, row[i].ssd, sizeof will.ssd);
		will.stop = row[i].stop;
		for (uint32_t d = 0; d < 3; d++)
			app->run[d].selected = true;
		hr_error_clear(&app->error);
		cr_expect_eq(test(at), row[i].want, "row %zu", i);
		expect_calls(row[i].calls);
		expect_phases(row[i].post == HR_BOOT_POST_OFF ? "" : "0");
		if (row[i].error)
			cr_expect_str_eq(app->error.text, row[i].error, "row %zu", i);
	}
}

/* Nothing after an error is called, and the record has the error. */
Test(attempt_calls, errors)
{
	static const struct {
		int operators, machine, up, taps, feeds, store, all, want;
		const char *calls, *phases, *text;
		bool has_run;
	} row[] = {
		{ -EINVAL, 0, 0, 0, 0, 0, 0, -EINVAL, "load ", "", "no operator", false },
		{ 0, -ENOENT, 0, 0, 0, 0, 0, -ENOENT, "load machine ", "0", "of the machine",
		  false },
		{ 0, 0, -ENXIO, 0, 0, 0, 0, -ENXIO, "load machine up ", "01", "no bring-up",
		  false },
		{ 0, 0, 0, -EMFILE, 0, 0, 0, -EMFILE,
		  "load machine up taps " CLOSE "unseal report(7) tick down ", "0124", "no tap",
		  true },
		{ 0, 0, 0, 0, -ENOMEM, 0, 0, -ENOMEM,
		  "load machine up taps feeds " CLOSE "unseal report(7) tick down ", "0124",
		  "no feed", true },
		{ 0, 0, 0, 0, 0, -EMFILE, 0, 0,
		  "load machine up taps feeds store all " CLOSE "unseal report(7) tick down ",
		  "0124", "", true },
		{ 0, 0, 0, 0, 0, 0, 0x281, 0x281,
		  "load machine up " SERVICES "all " CLOSE "unseal report(7) tick down ", "0124",
		  "a pipeline", true },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		memset(&at->record, 0, sizeof at->record);
		hr_error_clear(&app->error);
		app->config.boot.post = HR_BOOT_POST_QUICK;
		app->refused = i % 2;
		will.operators = row[i].operators;
		will.machine = row[i].machine;
		will.up = row[i].up;
		will.taps = row[i].taps;
		will.feeds = row[i].feeds;
		will.store = row[i].store;
		will.all = row[i].all;
		cr_expect_eq(hr_attempt_make(at), row[i].want, "row %zu", i);
		expect_calls(row[i].calls);
		expect_phases(row[i].phases);
		cr_expect_str_eq(at->record.error.text, row[i].text, "row %zu", i);
		cr_expect_eq(at->record.error.code, row[i].want);
		cr_expect_eq(at->record.has_run, (uint64_t)row[i].has_run, "row %zu", i);
		cr_expect_eq(at->record.refused, (uint64_t)(i % 2));
		cr_expect_eq(at->record.finished, 1u);
		cr_expect_eq(published().finished, 1u);
		if (row[i].taps || row[i].feeds || row[i].operators)
			cr_expect_str_eq(fake_log_last_of(HR_LOG_ERROR), row[i].text);
		if (row[i].store)
			cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN), "no store");
	}
}

/* All pipelines that are not suspect first, and their results. */
Test(attempt_calls, suspects)
{
	static const struct {
		bool selected, suspect;
		int trusted, all, want;
		const char *calls;
	} row[] = {
		{ true, false, 0, 0, 0, "all unseal report(7) tick " },
		{ false, true, 0, 0, 0, "all unseal report(7) tick " },
		{ true, true, 0, 0, 0,
		  "trusted unseal report(3) tick seal all unseal report(4) tick " },
		{ true, true, -EIO, -ENXIO, -EIO,
		  "trusted unseal report(3) tick seal all unseal report(4) tick " },
		{ true, true, 0, -ENOSPC, -ENOSPC,
		  "trusted unseal report(3) tick seal all unseal report(4) tick " },
	};

	will.done = BIT(0) | BIT(1);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		memset(&at->record, 0, sizeof at->record);
		for (uint32_t p = 0; p < 3; p++)
			app->run[p].outcome = HR_RUN_WAITING;
		hr_error_clear(&app->error);
		app->run[2].selected = row[i].selected;
		app->run[2].suspect = row[i].suspect;
		will.trusted = row[i].trusted;
		will.all = row[i].all;
		cr_expect_eq(run_all(at), row[i].want, "row %zu", i);
		hr_unseal();
		hr_attempt_report(at, true);
		expect_calls(row[i].calls);
	}
	hr_attempt_report(at, true);
	expect_calls("tick ");
}

Test(attempt_calls, pipelines_that_repeat)
{
	app->config.boot.post = HR_BOOT_POST_OFF;
	app->config.pipeline[2].when.kind = HR_WHEN_EVERY;
	will.served = -EINTR;
	cr_expect_eq(hr_attempt_make(at), -EINTR);
	expect_calls("load dispatch ");
	cr_expect(at->record.finished && at->record.error.code == -EINTR);
}

/* ---- phases and messages */

/* A pipe that is full, or has no reader, does not stop the engine. */
Test(attempt_calls, phases_that_nothing_reads)
{
	signal(SIGPIPE, SIG_IGN);
	while (write(phases[1], "xxxxxxxxxxxxxxxx", 16) > 0)
		continue;
	while (write(phases[1], "x", 1) > 0)
		continue;
	hr_attempt_tell(at, HR_PHASE_RUNNING);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_DEBUG),
			 "phase 'running' cannot be sent to the supervisor");
	cr_expect_eq(published().store.requests, 1u);
	hr_attempt_publish(at);
	cr_expect_eq(published().store.requests, 2u);
}

Test(attempt_calls, the_first_tile_of_a_pipeline)
{
	app->run[2].first_submit_ns = hr_start_ns() + 1250000;
	note_start(app);
	cr_expect_eq(fake_log_count_of(HR_LOG_INFO), 1u);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_INFO),
			 "pipeline 'p2': first tile submitted 1.2 ms after the start");
}

/* The supervisor is told that reports could not be written. */
Test(attempt_calls, output_that_cannot_be_written)
{
	const int kept = dup(1), full = open("/dev/full", O_WRONLY);

	fflush(stdout);
	dup2(full, 1);
	fputs("text", stdout);
	will.operators = -EINVAL;
	hr_attempt_make(at);
	clearerr(stdout);
	dup2(kept, 1);
	close(kept);
	close(full);
	cr_expect_eq(at->record.mute, 1u);
}
