/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A controller that fails, disappears or is reset by another driver during a pipeline: the run
 * names it at once. Commands have a deadline of ten minutes, far beyond the time limit of the
 * tests, and one command never completes. Therefore only the registers can end a run.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "boot/engine/runner/runner.h"
#include "config/base/tick.h"
#include "nvme/soft/soft.h"
#include "tests/fakes/log.h"
#include "tests/harness/engine.h"
#include "tests/harness/power.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

static struct hr_engine *engine;
static char script[64];

static void begin(void)
{
	strcpy(script, "/tmp/hr-lost-XXXXXX");
	close(mkstemp(script));
	engine = calloc(1, sizeof *engine);
	cr_assert_not_null(engine);
}

static void end(void)
{
	unlink(script);
	free(engine);
}

TestSuite(lost, .init = begin, .fini = end, .timeout = 60);

/* Source and sink lie on ssds "a" and "b", or both on "a"; "a" has the fault of the rule. */
static void configure(const char *rule, const char *sink)
{
	FILE *file = fopen(script, "w");

	cr_assert(file && fputs(rule, file) >= 0);
	fclose(file);
	engine_print(
		engine,
		"appliance = { checkpoint = 0; };\n"
		"ssds = ( { name = \"a\"; timeout_ms = 600000;\n"
		"  device = \"soft:memory,size=64M,faults=%s\";\n"
		"  objects = ( { name = \"in\"; bytes = \"8M\"; } ); },\n"
		"  { name = \"b\"; device = \"soft:memory,size=64M\"; timeout_ms = 600000; } );\n"
		"gpus = ( { name = \"g\"; device = \"host:2\"; } );\n"
		"pipelines = ( { name = \"p\"; source = { ssd = \"a\"; object = \"in\"; };\n"
		"  tile = \"64K\"; slots = 4; %s } );\n",
		script, sink);
}

#define CRC "operator = \"crc32c\";"
#define COPY_TO_B "operator = \"copy\"; sink = { ssd = \"b\"; object = \"out\"; };"
#define COPY_TO_A "operator = \"copy\"; sink = { ssd = \"a\"; object = \"out\"; };"

#define FATAL ": controller fatal status (CSTS "
#define GONE " reads all ones: the device is gone, or its function is being reset; check slot,"
#define DISABLED ": CC.EN is 0: the controller was reset"

/* Event of the controller, after some ticks of a run that hangs. */
enum event { NOTHING, DISABLE, ENABLE_ANEW, OTHER_SETTINGS, LEAVE };

#define TICKS 50u

struct saboteur {
	enum event event;
	unsigned ticks;
};

static void wait_ready(struct hr_transport *t, uint32_t want)
{
	while ((hr_reg_read32(t, NVME_REG_CSTS) & 1) != want)
		usleep(100);
}

static void sabotage(void *to, uint64_t now_ns)
{
	struct saboteur *s = to;
	struct hr_transport *t = &engine->ssd[0].transport;
	uint32_t cc;

	if (!engine->run[0].pipe || ++s->ticks != TICKS || s->event == NOTHING)
		return;
	if (s->event == LEAVE) {
		power_cut(t, HR_SOFT_CUT_DROP, 0);
		return;
	}
	cc = hr_reg_read32(t, NVME_REG_CC);
	hr_reg_write32(t, NVME_REG_CC, cc & ~1u);
	wait_ready(t, 0);
	if (s->event == OTHER_SETTINGS)
		cc |= 1u << NVME_CC_SHN_SHIFT;
	if (s->event != DISABLE)
		hr_reg_write32(t, NVME_REG_CC, cc);
	if (s->event == ENABLE_ANEW)
		wait_ready(t, 1);
}

static void run(const char *rule, const char *sink, enum event event, int want, const char *says)
{
	struct saboteur saboteur = { .event = event };
	const unsigned errors = fake_log_count_of(HR_LOG_ERROR);
	const char *line, *name;

	configure(rule, sink);
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_QUEUES), 0);
	hr_tick_set(sabotage, &saboteur);
	cr_expect_eq(hr_run_all(engine, false, NULL), want, "%s", says);
	cr_expect_eq(engine->run[0].outcome, HR_RUN_FAILED, "%s", says);
	cr_expect_eq(engine->run[0].error, want, "%s", says);
	hr_tick_set(NULL, NULL);
	/* one line, with pipeline, ssd and the finding */
	line = fake_log_last_of(HR_LOG_ERROR);
	name = engine->ssd[0].transport.name;
	cr_expect_eq(fake_log_count_of(HR_LOG_ERROR), errors + 1, "%s", line);
	cr_expect(strstr(line, "pipeline 'p': ssd 'a' is lost: "), "%s", line);
	cr_expect(strstr(line, name) && !strstr(strstr(line, name) + 1, name), "%s", line);
	cr_expect(strstr(line, says), "%s, expected %s", line, says);
	cr_expect_eq(strstr(line, "check slot, power and 'dmesg'") != NULL, want == -ENOLINK, "%s",
		     line);
}

Test(lost, each_loss_of_a_controller_is_named_before_a_deadline_passes)
{
	static const struct {
		const char *rule, *sink;
		enum event event;
		int want;
		const char *says;
	} row[] = {
		{ "on read lba 600-2600 nth 9: cfs\n", CRC, NOTHING, -EIO, FATAL },
		{ "on read lba 600-2600 nth 9: remove\n", CRC, NOTHING, -ENOLINK, GONE },
		{ "on read lba 600-2600 nth 9: drop\n", CRC, DISABLE, -ECONNRESET, DISABLED },
		{ "on read lba 600-2600 nth 9: drop\n", CRC, ENABLE_ANEW, -ECONNRESET,
		  ": the controller was reset and enabled again" },
		{ "on read lba 600-2600 nth 9: drop\n", CRC, OTHER_SETTINGS, -ECONNRESET,
		  ": CC is 00" },
		{ "on read lba 600-2600 nth 9: drop\n", CRC, LEAVE, -ENOLINK, GONE },
		{ "on write lba 2600-9999 nth 3: cfs\n", COPY_TO_A, NOTHING, -EIO, FATAL },
		{ "on read lba 600-2600 nth 9: drop\n", COPY_TO_B, DISABLE, -ECONNRESET, DISABLED },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		memset(engine, 0, sizeof *engine);
		run(row[i].rule, row[i].sink, row[i].event, row[i].want, row[i].says);
		hr_engine_down(engine);
		cr_expect_not(hr_any_controller_stuck(engine), "%s", row[i].says);
	}
}

/* The other ssd works: the sink's data on it are made durable, and a later run can continue. */
Test(lost, a_sink_on_another_ssd_keeps_its_written_data)
{
	const struct hr_store_object *object;

	run("on read lba 600-2600 nth 60: cfs\n", COPY_TO_B, NOTHING, -EIO, FATAL);
	object = hr_store_find_pending(&engine->ssd[1].store, "out");
	cr_assert_not_null(object);
	cr_expect_eq(object->durable_bytes, engine->run[0].durable_tiles * 65536);
	cr_expect_gt(object->durable_bytes, 0);
	hr_engine_down(engine);
}
