/* SPDX-License-Identifier: Apache-2.0 */
/* Pipelines and ssds that are left out, with all that depends on them; and how a gpu is shared. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/bringup/stage.h"
#include "boot/engine/exclude.h"
#include "boot/engine/shape/gpu_sharing.h"
#include "gpu/facts.h"
#include "gpu/ops/operators.h"
#include "tests/fakes/log.h"
#include "tests/harness/error.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

static struct hr_engine *engine;

/*
 * a: object in of ssd 0 -> x of ssd 0; b: x -> y of ssd 1; c: y -> z of ssd 1; d: in of ssd 2;
 * e: x of ssd 0.
 * Behind the last one is a run that no call may look at.
 */
static void begin(void)
{
	static const struct {
		const char *name, *source, *sink;
		uint32_t from, to;
	} row[] = { { "a", "in", "x", 0, 0 },  { "b", "x", "y", 0, 1 },	 { "c", "y", "z", 1, 1 },
		    { "d", "in", NULL, 2, 2 }, { "e", "x", NULL, 0, 0 }, { "-", "x", "in", 0, 2 } };

	engine = calloc(1, sizeof *engine);
	cr_assert_not_null(engine);
	engine->config.file = "f";
	engine->config.pipelines = 5;
	engine->config.ssds = 3;
	for (uint32_t i = 0; i < 3; i++)
		snprintf(engine->config.ssd[i].name, HR_NAME_MAX, "s%u", i);
	for (uint32_t i = 0; i < ROWS(row); i++) {
		struct hr_config_pipeline *p = &engine->config.pipeline[i];

		engine->run[i].config = p;
		engine->run[i].selected = true;
		strcpy(p->name, row[i].name);
		p->op = hr_op_find("copy");
		p->sources = 1;
		p->source[0].ssd = row[i].from;
		strcpy(p->source[0].object, row[i].source);
		p->has_sink = row[i].sink;
		p->sink.ssd = row[i].to;
		strcpy(p->sink.object, row[i].sink ? row[i].sink : "");
	}
}

static void end(void)
{
	free(engine);
}

TestSuite(refuse, .init = begin, .fini = end, .timeout = 60);

/* A bit for each selected pipeline. */
static unsigned selected(void)
{
	unsigned mask = 0;

	for (uint32_t i = 0; i < engine->config.pipelines; i++)
		mask |= (unsigned)engine->run[i].selected << i;
	return mask;
}

Test(refuse, a_pipeline_takes_its_readers_with_it)
{
	static const struct {
		uint32_t run;
		unsigned left, warnings;
	} row[] = { { 0, 8, 3 }, { 1, 25, 1 }, { 2, 27, 0 }, { 3, 23, 0 }, { 4, 15, 0 } };

	for (size_t i = 0; i < ROWS(row); i++) {
		const unsigned before = fake_log_count_of(HR_LOG_WARN);

		end();
		begin();
		hr_fail(&engine->error, HR_ERROR_DEVICE, -EIO, "it broke");
		hr_exclude_run(engine, row[i].run, -EIO);
		cr_expect_eq(selected(), row[i].left, "row %zu: %x", i, selected());
		cr_expect_eq(fake_log_count_of(HR_LOG_WARN) - before, row[i].warnings);
		cr_expect_str_eq(fake_log_last_of(HR_LOG_ERROR), "it broke");
		cr_expect_str_eq(engine->error.text, "");
		for (uint32_t k = 0; k < 5; k++) {
			const bool out = !(row[i].left >> k & 1);

			cr_expect_eq(engine->run[k].outcome, out ? HR_RUN_FAILED : HR_RUN_WAITING);
			cr_expect_eq(engine->run[k].error, out ? -EIO : 0);
			cr_expect_str_eq(engine->run[k].cause.text, out ? "it broke" : "");
		}
	}
	cr_expect(engine->run[5].selected);
	end();
	begin();
	hr_exclude_run(engine, 1, -EIO);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN),
			 "pipeline 'c' does not run: it reads the sink of pipeline 'b'");
}

Test(refuse, without_a_pipeline_the_first_cause_is_the_error)
{
	hr_fail(&engine->error, HR_ERROR_DEVICE, -EIO, "first");
	hr_exclude_run(engine, 1, -EIO);
	cr_expect_str_eq(engine->error.text, "");
	hr_fail(&engine->error, HR_ERROR_USAGE, -EINVAL, "second");
	hr_exclude_run(engine, 0, -EINVAL);
	cr_expect(hr_any_selected(engine));
	hr_exclude_run(engine, 0, -EPERM);
	cr_expect_eq(engine->run[0].error, -EINVAL, "it is out already");
	hr_fail(&engine->error, HR_ERROR_USAGE, -EINVAL, "third");
	hr_exclude_run(engine, 3, -EINVAL);
	cr_expect_not(hr_any_selected(engine));
	cr_expect_str_eq(engine->error.text, "second");
	cr_expect_eq(engine->error.kind, HR_ERROR_USAGE);
}

Test(refuse, an_error_without_a_text_gets_its_name)
{
	hr_exclude_run(engine, 3, -EIO);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_ERROR), "Input/output error");
	hr_fail(&engine->error, HR_ERROR_DEVICE, -EIO, "told");
	hr_stage_error_log(engine);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_ERROR), "told");
	cr_expect_str_eq(engine->error.text, "");
}

Test(refuse, an_ssd_takes_the_pipelines_that_use_it)
{
	static const unsigned left[] = { 8, 25, 23 };

	for (uint32_t d = 0; d < ROWS(left); d++) {
		end();
		begin();
		hr_exclude_ssd(engine, d, -ENODEV);
		cr_expect_eq(selected(), left[d], "ssd %u: %x", d, selected());
		for (uint32_t k = 0; k < 3; k++)
			cr_expect_eq(engine->left_out[k], k == d);
		cr_expect_eq(engine->run[d].outcome, d == 2 ? HR_RUN_WAITING : HR_RUN_FAILED);
		end();
		begin();
		hr_skip_ssd(engine, d);
		cr_expect_eq(selected(), left[d], "ssd %u: %x", d, selected());
		cr_expect(engine->run[5].selected, "ssd %u", d);
		for (uint32_t k = 0; k < 3; k++)
			cr_expect_eq(engine->left_out[k], k == d);
		cr_expect_eq(engine->run[d].outcome, HR_RUN_WAITING);
	}
	hr_exclude_ssd(engine, 2, -ENODEV);
	end();
	begin();
	hr_exclude_ssd(engine, 2, -ENODEV);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN),
			 "pipeline 'd' does not run: ssd 's2': No such device");
}

/* ---- how processes share a gpu */

static struct hr_backend_ops ops;
static struct hr_gpu_facts facts;

Test(refuse, the_sharing_of_a_gpu_and_its_reason)
{
	static const struct {
		bool gpu, mps, feed;
		enum hr_tap_sharing wanted, want;
		int error;
		const char *why;
	} row[] = {
#define THREADS "worker blocks are CPU threads, which the kernel schedules"
#define SAYS "the configuration says so"
		{ false, false, false, HR_SHARE_AUTO, HR_SHARE_SLICE, 0, THREADS },
		{ false, false, true, HR_SHARE_AUTO, HR_SHARE_SLICE, 0, THREADS },
		{ false, false, false, HR_SHARE_PARK, HR_SHARE_PARK, 0, THREADS },
		{ false, false, false, HR_SHARE_SLICE, HR_SHARE_SLICE, 0, THREADS },
		{ false, false, false, HR_SHARE_MPS, HR_SHARE_SLICE, -ENOTSUP, THREADS },
		{ true, true, false, HR_SHARE_AUTO, HR_SHARE_MPS, 0,
		  "an MPS server runs, so processes use the GPU at the same time" },
		{ true, true, true, HR_SHARE_AUTO, HR_SHARE_MPS, 0,
		  "an MPS server runs, so processes use the GPU at the same time" },
		{ true, false, false, HR_SHARE_AUTO, HR_SHARE_PARK, 0,
		  "no MPS server runs, so processes use the GPU in turns" },
		{ true, false, true, HR_SHARE_AUTO, HR_SHARE_SLICE, 0,
		  "no MPS server runs, and the worker of a feed does not leave the GPU" },
		{ true, false, false, HR_SHARE_MPS, HR_SHARE_MPS, -ENOTSUP, SAYS },
		{ true, true, false, HR_SHARE_MPS, HR_SHARE_MPS, 0, SAYS },
		{ true, true, false, HR_SHARE_PARK, HR_SHARE_PARK, 0, SAYS },
		{ true, true, true, HR_SHARE_PARK, HR_SHARE_PARK, -EINVAL, SAYS },
		{ true, true, false, HR_SHARE_SLICE, HR_SHARE_SLICE, 0, SAYS },
	};
	struct hr_config_pipeline *p = &engine->config.pipeline[0];
	const char *why;

	p->tap.line = 4;
	for (size_t i = 0; i < ROWS(row); i++) {
		facts.mps = row[i].mps;
		engine->backend[0].facts = row[i].gpu ? &facts : NULL;
		p->tap.share = row[i].wanted;
		strcpy(p->feed.name, row[i].feed ? "x" : "");
		hr_error_clear(&engine->error);
		cr_expect_eq(hr_run_gpu_sharing(engine, &engine->run[0], &why), row[i].want,
			     "row %zu", i);
		cr_expect_str_eq(why, row[i].why);
		cr_expect_eq(hr_run_gpu_sharing_check(engine, &engine->run[0]), row[i].error,
			     "row %zu", i);
		if (row[i].error == -EINVAL)
			cr_expect_str_eq(engine->error.text,
					 "f:4: pipeline 'a': share is \"park\", but the worker of "
					 "a feed does not leave the gpu; expected \"auto\", "
					 "\"mps\" or \"slice\"");
		if (row[i].error == -ENOTSUP)
			cr_expect_eq(strstr(engine->error.text, "is no client of an MPS server") !=
					     NULL,
				     row[i].gpu);
	}
	cr_expect_str_eq(hr_gpu_sharing_name(HR_SHARE_AUTO), "auto");
	cr_expect_str_eq(hr_gpu_sharing_name(HR_SHARE_MPS), "mps");
	cr_expect_str_eq(hr_gpu_sharing_name(HR_SHARE_PARK), "park");
	cr_expect_str_eq(hr_gpu_sharing_name(HR_SHARE_SLICE), "slice");
}

Test(refuse, a_parked_pipeline_with_few_bytes_of_tiles_is_small)
{
	struct hr_config_pipeline *p = &engine->config.pipeline[0];

	engine->backend[0].facts = &facts;
	engine->run[0].slots = 16;
	engine->run[0].sink_tile_bytes = 16u << 20;
	facts.mps = true;
	p->tap.share = HR_SHARE_PARK;
	cr_expect_not(hr_run_gpu_sharing_is_small(engine, &engine->run[0]), "it has 256 MiB");
	engine->run[0].sink_tile_bytes -= 4096;
	cr_expect(hr_run_gpu_sharing_is_small(engine, &engine->run[0]));
	p->tap.share = HR_SHARE_AUTO;
	cr_expect_not(hr_run_gpu_sharing_is_small(engine, &engine->run[0]), "an MPS server runs");
	facts.mps = false;
	cr_expect(hr_run_gpu_sharing_is_small(engine, &engine->run[0]));
	p->tap.share = HR_SHARE_PARK;
	engine->backend[0].facts = NULL;
	cr_expect_not(hr_run_gpu_sharing_is_small(engine, &engine->run[0]),
		      "workers are CPU threads");
}

/* ---- worker code of an operator */

static int link_error;
static unsigned links;

static int link_op(struct hr_backend *b, const struct hr_operator *op, enum hr_entry *entry,
		   uint32_t *max_threads, struct hr_error *e)
{
	links++;
	if (link_error)
		return hr_fail(e, HR_ERROR_MISSING, link_error, "no code for this gpu");
	*entry = (enum hr_entry)(HR_ENTRY_USER + 1);
	*max_threads = 640;
	return 0;
}

Test(refuse, an_operator_is_linked_for_its_gpu_tap_and_feed)
{
	struct hr_operator own = *hr_op_find("copy");
	static const struct {
		bool own, tap, feed, objects, selected;
		enum hr_entry entry;
		uint32_t threads;
	} row[] = {
		{ false, false, false, false, true, HR_ENTRY_PIPE, 0 },
		{ false, true, false, false, true, HR_ENTRY_TAP, 0 },
		{ false, false, true, false, true, HR_ENTRY_FEED, 0 },
		{ false, true, true, false, true, HR_ENTRY_FEED, 0 },
		{ false, false, false, true, true, HR_ENTRY_ACCESS, 0 },
		{ true, false, false, false, false, HR_ENTRY_PIPE, 0 },
		{ true, false, false, false, true, HR_ENTRY_USER + 1, 640 },
		{ true, true, false, false, true, HR_ENTRY_USER + 1 + HR_OPERATORS_MAX, 640 },
		{ true, false, true, false, true, HR_ENTRY_USER + 1 + 2 * HR_OPERATORS_MAX, 640 },
	};
	struct hr_config_pipeline *p = &engine->config.pipeline[0];

	own.gpu = (const uint8_t *)"image";
	own.name = "own";
	ops.link = link_op;
	engine->backend[0].ops = &ops;
	strcpy(engine->backend[0].name, "far:0");
	engine->config.pipelines = 1;
	strcpy(engine->config.gpu[0].name, "g");
	engine->config.op[1] =
		(struct hr_config_operator){ .op = &own, .file = "own.op", .line = 8 };
	for (size_t i = 0; i < ROWS(row); i++) {
		p->op = row[i].own ? &own : hr_op_find("copy");
		strcpy(p->tap.name, row[i].tap ? "t" : "");
		strcpy(p->feed.name, row[i].feed ? "t" : "");
		p->objects = row[i].objects;
		engine->run[0].selected = row[i].selected;
		engine->run[0].gpu[0].entry_threads = 7;
		links = 0;
		cr_expect_eq(hr_operators_build_images(engine), 0);
		cr_expect_eq(engine->run[0].gpu[0].entry, row[i].entry, "row %zu", i);
		cr_expect_eq(engine->run[0].gpu[0].entry_threads, row[i].threads, "row %zu", i);
		cr_expect_eq(links, row[i].own && row[i].selected);
	}
	for (unsigned i = 0; i < 2; i++) {
		link_error = i ? -EINVAL : -ENOTSUP;
		hr_error_clear(&engine->error);
		cr_expect_eq(hr_operators_build_images(engine), link_error);
		cr_expect_str_eq(engine->error.text,
				 "f:8: operator 'own' of 'own.op' cannot be used on gpu 'g' "
				 "(far:0): no code for this gpu");
		cr_expect_eq(engine->error.kind, i ? HR_ERROR_USAGE : HR_ERROR_MISSING);
	}
}
