/*
 * Plans and starts call by call, with stages that a test chooses: the set of pipelines that each stage
 * sees, each call that fails, and what a start takes over from the plan and from its objects.
 */
#include "boot/engine/plan.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/refuse.h"
#include "boot/engine/run_tap.h"
#include "boot/engine/run_words.h"
#include "boot/engine/seal.h"
#include "boot/engine/signals.h"
#include "boot/engine/stage_objects.h"
#include "boot/engine/stage_partition.h"
#include "boot/engine/stage_queues.h"
#include "boot/engine/stage_sinks.h"
#include "boot/engine/stages.h"
#include "tests/fakes/log.h"
#include "tests/harness/calls.h"

TestSuite(plan_calls, .timeout = 60);

enum { RUNS = 4, SSDS = 3 };

static struct hr_appliance *app;
static struct hr_plan *plan;
static struct hr_operator op;
static struct hr_pipe pipe_;
static struct hr_access access_;
static hr_pipelines missing; /* their objects do not exist */
static int fits;	     /* number of pipelines that the limits allow */
static unsigned raises_fail; /* so many times */
static int raise_error;
static unsigned calls, fails_at; /* of a start */
static bool interrupted, complete, fewer;
static uint64_t tiles[RUNS]; /* of the objects as they are now */

static int fail(const char *what)
{
	return ++calls == fails_at ? hr_fail(&app->error, HR_ERROR_DEVICE, -EIO, "no %s", what) : 0;
}

static hr_pipelines selected(void)
{
	hr_pipelines set = 0;

	for (uint32_t i = 0; i <= RUNS; i++)
		set |= (uint32_t)app->run[i].selected << i;
	return set;
}

static void note(const char *stage)
{
	calls_note("%s:%x%s ", stage, selected() & 0xf, app->keep_going ? "!" : "");
	cr_expect(app->run[RUNS].selected, "it is no pipeline");
}

int hr_objects_up(struct hr_appliance *of)
{
	const uint32_t i = (uint32_t)__builtin_ctz(selected());
	struct hr_run *run = &app->run[i];

	note("objects");
	cr_expect_not(hr_sealed());
	cr_expect_eq(run->config, &app->config.pipeline[i]);
	cr_expect_eq(run->slots, 0u, "of an earlier run");
	if (missing >> i & 1)
		return hr_fail(&app->error, HR_ERROR_USAGE, -EINVAL, "no object of p%u", i);
	if (app->up == HR_STAGE_STORES)
		hr_fail_known(&app->error, HR_ERROR_FAILED, -EIO, "of no importance");
	run->tiles = tiles[i];
	run->sink_bytes = 8000 + i;
	run->sink_tile_bytes = 800 + i;
	for (uint32_t s = 0; s < 2; s++) {
		run->source[s].tile_bytes = 100 + s;
		run->source[s].verify.wanted = s == 1;
		run->source[s].id = 50 + tiles[i];
		run->object[s].used = s == 0;
		run->object[s].bytes = 200 + s;
		run->object[s].id = 60 + tiles[i];
	}
	return 0;
}

int hr_partition_up(struct hr_appliance *of)
{
	note("partition");
	cr_expect_eq(app->up, HR_STAGE_STORES);
	if (__builtin_popcount(selected() & 0xf) <= fits)
		return 0;
	return hr_fail(&app->error, HR_ERROR_USAGE, -ENOSPC, "no room");
}

int hr_appliance_raise(struct hr_appliance *of, enum hr_stage last)
{
	note("raise");
	cr_expect_eq(app->up, HR_STAGE_OBJECTS);
	cr_expect_eq(last, HR_STAGE_MEMORY);
	cr_expect_eq(app->error.kind, HR_ERROR_NONE);
	for (uint32_t i = 0; i < RUNS; i++)
		app->run[i].slots =
			app->run[i].selected ? 7 + i : 0; /* the shape that the plan keeps */
	if (raises_fail && raises_fail--)
		return hr_fail(&app->error, HR_ERROR_MISSING, raise_error, "no memory");
	app->up = last;
	return 0;
}

void hr_appliance_down_to(struct hr_appliance *of, enum hr_stage stage)
{
	calls_note("down ");
	cr_expect_eq(stage, HR_STAGE_STORES);
	app->up = stage;
}

int hr_layout_clear(const struct hr_layout *layout, struct hr_places *places, struct hr_error *e)
{
	const struct hr_run *run = &app->run[1];

	calls_note("clear%s on %td ",
		   layout == &run->gpu[0].layout.parts	 ? "0"
		   : layout == &run->gpu[1].layout.parts ? "1"
							 : "",
		   places - app->memory);
	return fail("zeros");
}

int hr_run_words_renew(struct hr_appliance *of, uint32_t i)
{
	calls_note("words%u ", i);
	return fail("words");
}

int hr_run_tap_renew(struct hr_appliance *of, uint32_t i)
{
	calls_note("renew%u ", i);
	return fail("tap");
}

bool hr_signals_pending(void)
{
	return interrupted;
}

int hr_sinks_up(struct hr_appliance *of)
{
	note("sinks");
	app->refused = true;
	if (complete)
		app->run[__builtin_ctz(selected())].outcome = HR_RUN_COMPLETE;
	return fail("sink");
}

int hr_queues_up(struct hr_appliance *of)
{
	note("queues");
	return fewer ? -EAGAIN : fail("queue");
}

void hr_sinks_down(struct hr_appliance *of)
{
	calls_note("-sinks ");
}

bool hr_run_uses_ssd(const struct hr_run *run, uint32_t d)
{
	return d != 1;
}

int hr_ssd_delete_qps_of(struct hr_ssd *ssd, const void *owner)
{
	const struct hr_run *run = &app->run[1];

	calls_note("-queues%td.%s ", ssd - app->ssd,
		   owner == &run->gpu[0].layout.parts	? "0"
		   : owner == &run->gpu[1].layout.parts ? "1"
							: "");
	return 0;
}

/* Pipeline 1 is of an access operator on gpus 1 and 0, the others of a stream operator on gpu 1. */
static void begin(void)
{
	free(app);
	free(plan);
	app = calloc(1, sizeof *app);
	plan = calloc(1, sizeof *plan);
	cr_assert(app && plan);
	plan->app = app;
	plan->usable = (1u << RUNS) - 1;
	app->up = HR_STAGE_STORES;
	app->keep_going = true;
	app->config.pipelines = RUNS;
	app->config.ssds = SSDS;
	app->config.gpus = 2;
	for (uint32_t i = 0; i <= RUNS; i++) {
		struct hr_config_pipeline *c = &app->config.pipeline[i];

		snprintf(c->name, sizeof c->name, "p%u", i);
		c->gpu = 1;
		c->op = &op;
		c->sources = i == 1 ? 0 : 2;
		c->objects = i == 1 ? 2 : 0;
		c->other_gpus = i == 1;
		app->run[i].config = c;
		if (i < RUNS)
			tiles[i] = i;
	}
	app->run[RUNS].selected = true; /* behind the last */
	missing = 0;
	fits = RUNS;
	raises_fail = 0;
	raise_error = -ENOMEM;
	calls = fails_at = 0;
	interrupted = complete = fewer = false;
	calls_take();
}

static void end(void)
{
	free(app);
	free(plan);
	app = NULL;
	plan = NULL;
}

#define FIND "objects:1 objects:2 objects:4 objects:8 "

Test(plan_calls, a_plan_has_all_pipelines_for_which_there_is_room, .fini = end)
{
	static const struct {
		hr_pipelines usable, wanted, missing;
		int fits;
		unsigned raises_fail;
		int raise_error;
		const char *calls;
		int want;
		hr_pipelines planned;
	} row[] = {
		{ 15, 0, 0, 4, 0, 0, FIND "down partition:f! raise:f! ", 0, 15 },
		{ 15, 15, 0, 4, 0, 0, FIND "down partition:f! raise:f! ", 0, 15 },
		{ 15, 1, 10, 4, 0, 0, FIND "down partition:5! raise:5! ", 0, 5 },
		{ 9, 0, 0, 4, 0, 0, "objects:1 objects:8 down partition:9! raise:9! ", 0, 9 },
		{ 9, 2, 0, 4, 0, 0, "objects:1 ", -ENODEV, 16 },
		{ 15, 4, 4, 4, 0, 0, "objects:1 objects:2 objects:4 ", -EINVAL, 16 },
		{ 15, 0, 15, 4, 0, 0, FIND "down ", 0, 0 },
		{ 15, 8, 0, 2, 0, 0, FIND "down partition:f! partition:b! partition:9! raise:9! ",
		  0, 9 },
		{ 15, 0, 0, 0, 0, 0,
		  FIND "down partition:f! partition:7! partition:3! partition:1! ", 0, 0 },
		{ 15, 2, 0, 0, 1, -ENOSPC,
		  FIND "down partition:f! partition:7! partition:3! partition:2! raise:2! down ",
		  -ENOSPC, 0 },
		{ 15, 1, 0, 4, 1, -ENOMEM, FIND "down partition:f! raise:f! down raise:1! ", 0, 1 },
		{ 15, 1, 0, 4, 2, -ENOMEM, FIND "down partition:f! raise:f! down raise:1! down ",
		  -ENOMEM, 0 },
		{ 15, 0, 0, 4, 1, -ENOMEM, FIND "down partition:f! raise:f! down ", 0, 0 },
		{ 15, 1, 0, 4, 1, -EINTR, FIND "down partition:f! raise:f! down ", -EINTR, 0 },
		{ 15, 15, 0, 4, 1, -ENOMEM, FIND "down partition:f! raise:f! down ", -ENOMEM, 0 },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		begin();
		plan->usable = row[i].usable;
		plan->planned = 16; /* an error before the memory is given up changes nothing */
		missing = row[i].missing;
		fits = row[i].fits;
		raises_fail = row[i].raises_fail;
		raise_error = row[i].raise_error;
		cr_expect_eq(hr_plan_make(plan, row[i].wanted), row[i].want, "%zu", i);
		cr_expect_str_eq(calls_take(), row[i].calls, "%zu", i);
		cr_expect_eq(plan->planned, row[i].planned, "%zu", i);
		cr_expect_eq(selected() & 0xf, 0u, "%zu", i);
		if (row[i].want != -ENODEV && row[i].want != -EINVAL)
			cr_expect_eq(app->up, row[i].planned ? HR_STAGE_MEMORY : HR_STAGE_STORES,
				     "%zu", i);
		for (uint32_t r = 0; r < RUNS; r++) {
			/* the status shows no tiles of a plan */
			cr_expect_eq(app->run[r].slots, 0u, "%zu", i);
			cr_expect_leq(app->run[r].tiles, row[i].planned == 16 ? tiles[r] : 0u);
			if (!(row[i].planned & 0xf & 1u << r))
				continue;
			cr_expect_eq(plan->run[r].slots, 7 + r);
			cr_expect_eq(plan->run[r].tiles, r + r / 2 + 16);
		}
	}
}

Test(plan_calls, the_error_of_a_wanted_pipeline_is_printed, .fini = end)
{
	begin();
	missing = 6;
	cr_expect_eq(hr_plan_make(plan, 4), -EINVAL);
	cr_expect_str_eq(app->error.text, "no object of p2");
	cr_expect_str_eq(fake_log_last_of(HR_LOG_ERROR), "no object of p2");
	begin();
	missing = 6;
	cr_expect_eq(hr_plan_make(plan, 1), 0);
	cr_expect_eq(app->error.kind, HR_ERROR_NONE);
	cr_expect_eq(fake_log_count_of(HR_LOG_ERROR), 1u);
}

/* ---- what fits the plan */

static void other_tile(struct hr_run *run)
{
	run->source[1].tile_bytes++;
}

static void other_check(struct hr_run *run)
{
	run->source[1].verify.wanted = false;
}

static void other_use(struct hr_run *run)
{
	run->object[1].used = true;
}

static void other_length(struct hr_run *run)
{
	run->object[1].bytes++;
}

static void other_sink(struct hr_run *run)
{
	run->sink_tile_bytes++;
}

static void fewer_tiles(struct hr_run *run)
{
	run->tiles = 0;
}

static void behind_the_last(struct hr_run *run)
{
	run->source[2].tile_bytes++;
	run->object[2].bytes++;
}

Test(plan_calls, a_start_fits_the_plan_in_all_sizes, .fini = end)
{
	static const struct {
		void (*change)(struct hr_run *planned);
		uint32_t run;
		int want;
	} row[] = {
		{ other_tile, 0, -EAGAIN },   { other_tile, 1, 0 },
		{ other_check, 2, -EAGAIN },  { other_check, 1, 0 },
		{ other_use, 1, -EAGAIN },    { other_use, 2, 0 },
		{ other_length, 1, -EAGAIN }, { other_length, 2, 0 },
		{ other_sink, 3, -EAGAIN },   { fewer_tiles, 3, -EAGAIN },
		{ behind_the_last, 0, 0 },    { behind_the_last, 1, 0 },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const hr_pipelines bit = 1u << row[i].run;

		begin();
		cr_assert_eq(hr_plan_make(plan, 0), 0);
		calls_take();
		app->run[3].selected = row[i].run != 3;
		row[i].change(&plan->run[row[i].run]);
		cr_expect_eq(hr_plan_check(plan, row[i].run), row[i].want, "%zu", i);
		cr_expect_eq(plan->planned, row[i].want ? 15 & ~bit : 15, "%zu", i);
		cr_expect_eq(app->error.kind, HR_ERROR_NONE);
		cr_expect_eq(selected() & 0xf, row[i].run != 3 ? 8u : 0u, "as before");
		cr_expect(app->keep_going);
	}
	begin();
	cr_assert_eq(hr_plan_make(plan, 0), 0);
	missing = 1;
	cr_expect_eq(hr_plan_check(plan, 0), -EINVAL);
	cr_expect_eq(plan->planned, 15u, "it may come again");
	plan->planned = 14;
	missing = 0;
	cr_expect_eq(hr_plan_check(plan, 0), -EAGAIN);
	cr_expect_eq(hr_plan_start(plan, 0), -EAGAIN);
	cr_expect_eq(plan->planned, 14u);
	cr_expect_null(strstr(calls_take(), "sinks"));
}

/* ---- a start */

#define START "objects:2 clear0 on 1 clear1 on 0 words1 renew1 sinks:2 queues:2 "
#define END "-sinks "

static struct hr_run *make(uint32_t i)
{
	begin();
	cr_assert_eq(hr_plan_make(plan, 0), 0);
	calls_take();
	tiles[i] = 9; /* the objects have grown */
	app->run[0].selected = true;
	hr_seal();
	return &app->run[i];
}

Test(plan_calls, a_start_has_the_shape_of_the_plan_and_its_own_objects, .fini = end)
{
	struct hr_run *run = make(1);

	plan->run[1].blocks[0] = 3;
	cr_expect_eq(hr_plan_start(plan, 1), 0);
	cr_expect_str_eq(calls_take(), START);
	cr_expect_not(hr_sealed());
	cr_expect(app->keep_going && !app->refused);
	cr_expect_eq(selected() & 0xf, 3u);
	cr_expect_eq(run->blocks[0], 3u);
	cr_expect_eq(run->slots, 8u);
	cr_expect_eq(run->tiles, 9u);
	cr_expect_eq(run->cpu.tiles, 9u);
	cr_expect_eq(run->sink_bytes, 8001u);
	cr_expect_eq(run->source[1].id, 59u);
	cr_expect_eq(run->object[1].id, 69u);
	cr_expect_eq(run->outcome, HR_RUN_WAITING);
	make(0);
	cr_expect_eq(hr_plan_start(plan, 0), 0);
	cr_expect_str_eq(calls_take(), "objects:1 clear on 1 words0 renew0 sinks:1 queues:1 ");
	cr_expect_eq(app->run[0].sink_bytes, 8000u);
	make(2);
	complete = true;
	cr_expect_eq(hr_plan_start(plan, 2), 0);
	cr_expect_str_eq(calls_take(), "objects:4 clear on 1 words2 renew2 sinks:4 ",
			 "nothing to do");
}

Test(plan_calls, a_start_that_fails_is_taken_down, .fini = end)
{
	static const struct {
		unsigned fails_at;
		const char *calls, *says;
	} row[] = {
		{ 1, "objects:2 clear0 on 1 " END, "no zeros" },
		{ 2, "objects:2 clear0 on 1 clear1 on 0 " END, "no zeros" },
		{ 3, "objects:2 clear0 on 1 clear1 on 0 words1 " END, "no words" },
		{ 4, "objects:2 clear0 on 1 clear1 on 0 words1 renew1 " END, "no tap" },
		{ 5, "objects:2 clear0 on 1 clear1 on 0 words1 renew1 sinks:2 " END, "no sink" },
		{ 6, START END, "no queue" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_run *run = make(1);

		hr_error_clear(&app->error);
		fails_at = row[i].fails_at;
		cr_expect_eq(hr_plan_start(plan, 1), -EIO, "%zu", i);
		cr_expect_str_eq(calls_take(), row[i].calls, "%zu", i);
		cr_expect_str_eq(run->cause.text, row[i].says);
		cr_expect_str_eq(fake_log_last_of(HR_LOG_ERROR), row[i].says);
		cr_expect_eq(run->outcome, HR_RUN_FAILED);
		cr_expect_eq(run->error, -EIO);
		cr_expect(run->selected && app->keep_going && !app->refused);
		cr_expect_eq(app->error.kind, HR_ERROR_NONE);
		cr_expect_eq(plan->planned, 15u);
	}
	make(1);
	interrupted = true;
	cr_expect_eq(hr_plan_start(plan, 1), -EINTR);
	cr_expect_str_eq(calls_take(), "objects:2 clear0 on 1 clear1 on 0 words1 renew1 " END);
	cr_expect_eq(app->run[1].outcome, HR_RUN_INTERRUPTED);
	make(1);
	missing = 2;
	cr_expect_eq(hr_plan_start(plan, 1), -EINVAL);
	cr_expect_str_eq(calls_take(), "objects:2 " END);
	cr_expect_str_eq(app->run[1].cause.text, "no object of p1");
}

/* A controller has created fewer queue pairs than the plan has. */
Test(plan_calls, a_start_without_its_queue_pairs_ends_the_plan, .fini = end)
{
	struct hr_run *run = make(1);

	fewer = true;
	cr_expect_eq(hr_plan_start(plan, 1), -EAGAIN);
	cr_expect_str_eq(calls_take(), START END);
	cr_expect_eq(plan->planned, 0u);
	cr_expect_eq(run->outcome, HR_RUN_WAITING);
	cr_expect_eq(app->error.kind, HR_ERROR_NONE);
}

Test(plan_calls, an_end_deletes_the_queue_pairs_of_the_run, .fini = end)
{
	begin();
	for (uint32_t p = 0; p < HR_GPUS_MAX; p++)
		app->run[1].gpu[p].access = &access_;
	hr_plan_end(plan, 1);
	cr_expect_str_eq(calls_take(), "-queues0.0 -queues2.0 -queues0.1 -queues2.1 -sinks ");
	for (uint32_t p = 0; p < HR_GPUS_MAX; p++)
		cr_expect_null(app->run[1].gpu[p].access);
	app->run[2].pipe = &pipe_;
	hr_plan_end(plan, 2);
	cr_expect_str_eq(calls_take(), "-queues0. -queues2. -sinks ");
	cr_expect_null(app->run[2].pipe);
	hr_plan_end(plan, 2);
	cr_expect_str_eq(calls_take(), "-sinks ", "the queue pairs are gone");
}

Test(plan_calls, a_refusal_is_the_end_of_the_run, .fini = end)
{
	struct hr_run *run;

	begin();
	run = &app->run[2];
	hr_plan_refuse(plan, 2, -ENOSPC);
	cr_expect_str_eq(run->cause.text, "pipeline 'p2': No space left on device");
	cr_expect_eq(run->cause.kind, HR_ERROR_FAILED);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_ERROR), run->cause.text);
	cr_expect_eq(run->outcome, HR_RUN_FAILED);
	cr_expect_eq(run->error, -ENOSPC);
	cr_expect(run->selected);
	cr_expect_eq(app->error.kind, HR_ERROR_NONE);
	begin();
	run = &app->run[2];
	hr_plan_refuse(plan, 2, -EINTR);
	cr_expect_eq(run->cause.kind, HR_ERROR_NONE);
	cr_expect_eq(fake_log_count_of(HR_LOG_ERROR), 1u);
	cr_expect_eq(run->outcome, HR_RUN_INTERRUPTED);
	cr_expect_eq(run->error, -EINTR);
	cr_expect(run->selected);
}
