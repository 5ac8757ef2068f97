/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/cmd/post/post.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "boot/cmd/post/step.h"
#include "boot/engine/devices/devices.h"
#include "config/base/clock.h"
#include "boot/engine/remote/remote.h"
#include "config/base/process.h"
#include "config/base/tick.h"
#include "config/derived.h"
#include "gpu/ops/operators.h"

/* Count a failed step. Returns its cause as one line. */
static const char *count_failure(struct hr_post *post, int result, struct hr_error *e)
{
	e->printed = true; /* as a step of the self-test */
	if (post->failed++ == 0) {
		post->error = result;
		post->cause = *e;
	}
	for (char *at = e->text; (at = strchr(at, '\n'));)
		*at = ';';
	return e->text;
}

/* Show the result of one step: as a line, or as an element of the report. */
static void show_step(struct hr_post *post, const char *step, const char *subject, int result,
		      double ms, const char *detail, struct hr_error *e)
{
	const char *word = result == 0 ? "OK" : result == HR_POST_SKIP ? "SKIP" : "FAIL";
	struct hr_json *out = post->steps;

	hr_tick();
	if (result == HR_POST_SKIP)
		post->skipped++;
	else if (result == 0)
		post->passed++;
	else
		detail = count_failure(post, result, e);
	if (!out) {
		fprintf(post->out, "%-4s %-10s %-14s %9.3f ms  %s\n", word, step, subject, ms,
			detail);
		fflush(post->out);
		return;
	}
	hr_json_object(out, NULL);
	hr_json_string(out, "step", step);
	hr_json_string(out, "subject", subject);
	hr_json_string(out, "outcome", word);
	hr_json_fixed(out, "duration_ms", ms, 3);
	hr_json_string(out, "detail", detail);
	hr_json_close(out);
}

static double since_ms(uint64_t began)
{
	return (double)(hr_now_ns() - began) / 1e6;
}

static void test_machine(struct hr_post *post)
{
	static const struct {
		const char *name;
		int (*fn)(struct hr_engine *engine, char *detail, struct hr_error *e);
	} step[] = {
		{ "cpu", hr_post_cpu },
		{ "memory", hr_post_memory },
		{ "clock", hr_post_clock },
	};

	for (size_t i = 0; i < sizeof step / sizeof *step && !hr_signals_pending(); i++) {
		char detail[HR_POST_DETAIL] = "";
		uint64_t began = hr_now_ns();
		struct hr_error e = { 0 };
		int result = step[i].fn(post->engine, detail, &e);

		show_step(post, step[i].name, "-", result, since_ms(began), detail, &e);
	}
}

/* Test a GPU: the driver's facts, and the work of its worker blocks. */
static void test_backend(struct hr_post *post, const char *gpu, struct hr_backend *backend)
{
	char detail[HR_POST_DETAIL] = "";
	uint64_t began = hr_now_ns();
	struct hr_error e = { 0 };
	int result;

	if (backend->facts) {
		hr_gpu_facts_text(backend->facts, detail, sizeof detail);
		show_step(post, "gpu", gpu, 0, since_ms(began), detail, &e);
		hr_post_entries(backend->facts, detail);
		show_step(post, "entry_points", gpu, 0, since_ms(began), detail, &e);
	}
	began = hr_now_ns();
	result = hr_post_workers(backend, detail, &e);
	show_step(post, "workers", gpu, result, since_ms(began), detail, &e);
}

static void test_gpus(struct hr_post *post)
{
	for (uint32_t g = 0; g < post->engine->config.gpus && !hr_signals_pending(); g++) {
		const struct hr_config_gpu *gpu = &post->engine->config.gpu[g];
		char detail[HR_POST_DETAIL];
		struct hr_error e = { 0 };
		uint64_t began = hr_now_ns();
		struct hr_backend backend;
		int err = 0;

		if (post->engine->gpu_left_out[g])
			continue;
		err = hr_backend_open(&backend, gpu->device, 1, &e);
		if (!err)
			snprintf(detail, sizeof detail, "%s, up to %u blocks%s%.*s", backend.name,
				 backend.max_blocks, backend.note[0] ? "; " : "",
				 (int)sizeof detail / 2, backend.note);
		show_step(post, "backend", gpu->name, err, since_ms(began), detail, &e);
		if (err)
			continue;
		test_backend(post, gpu->name, &backend);
		backend.ops->close(&backend);
	}
}

static void test_operators(struct hr_post *post)
{
	for (uint32_t id = 0; id < HR_OP_COUNT && !hr_signals_pending(); id++) {
		char detail[HR_POST_DETAIL] = "";
		uint64_t began = hr_now_ns();
		struct hr_error e = { 0 };
		int result;

		if (hr_op_accesses(hr_op_get(id))) /* only a whole run can call it */
			continue;
		result = hr_post_operator(id, detail, &e);
		show_step(post, "operator", hr_op_get(id)->name, result, since_ms(began), detail,
			  &e);
	}
}

static void test_ssd(struct hr_post *post, uint32_t d)
{
	static const struct {
		const char *name;
		int (*fn)(struct hr_engine *engine, uint32_t d, char *detail, struct hr_error *e);
		bool needed; /* the steps after this one need it */
	} step[] = {
		{ "controller", hr_post_controller, true }, { "queue", hr_post_queue, true },
		{ "smart", hr_post_smart, false },	    { "store", hr_post_store, false },
		{ "loopback", hr_post_loopback, false },    { "map", hr_post_verify, false },
	};

	for (size_t i = 0; i < sizeof step / sizeof *step && !hr_signals_pending(); i++) {
		char detail[HR_POST_DETAIL] = "";
		uint64_t began = hr_now_ns();
		struct hr_error e = { 0 };
		int result = step[i].fn(post->engine, d, detail, &e);

		if (result == -EINTR)
			break;
		if (i) /* the previous step found the ssd */
			result = hr_vanished_error(result);
		show_step(post, step[i].name, post->engine->config.ssd[d].name, result,
			  since_ms(began), detail, &e);
		if (result && result != HR_POST_SKIP && !post->ssd_error[d]) {
			post->ssd_error[d] = result;
			post->ssd_cause[d] = e;
		}
		if (result && step[i].needed)
			break;
	}
	if (post->ssd_error[d])
		hr_ssd_down(&post->engine->ssd[d]);
}

/* The network device of each stream to or from another appliance. */
static void test_remotes(struct hr_post *post)
{
	const struct hr_config *config = &post->engine->config;

	for (uint32_t i = 0; i < config->pipelines && !hr_signals_pending(); i++) {
		const struct hr_config_pipeline *p = &config->pipeline[i];
		char detail[HR_POST_DETAIL] = "";
		uint64_t began = hr_now_ns();
		struct hr_error e = { 0 };
		int result;

		if (!hr_config_is_remote(p))
			continue;
		result = hr_remote_probe_one(config, p, detail, sizeof detail, &e);
		show_step(post, "remote", p->name, result, since_ms(began), detail, &e);
	}
}

void hr_post_machine(struct hr_post *post)
{
	test_machine(post);
	test_gpus(post);
	test_operators(post);
	test_remotes(post);
	post->machine_failed = post->failed > 0;
}

/* True for an ssd that is up and has passed its steps. */
static bool is_sound(const struct hr_post *post, uint32_t d)
{
	return !post->engine->left_out[d] && !post->ssd_error[d] &&
	       post->engine->ssd[d].controller && !hr_health_failed(&post->engine->ssd[d].health);
}

/* The data of one gpu with each ssd. A fault of a path is no fault of the ssd. */
static void test_pairs_of(struct hr_post *post, uint32_t g, uint64_t budget_ns)
{
	const struct hr_config *config = &post->engine->config;

	for (uint32_t d = 0; d < config->ssds && !hr_signals_pending(); d++) {
		char detail[HR_POST_DETAIL] = "", subject[2 * HR_NAME_MAX];
		uint64_t began = hr_now_ns();
		struct hr_error e = { 0 };
		int result;

		if (!is_sound(post, d))
			continue;
		snprintf(subject, sizeof subject, "%s %s", config->gpu[g].name,
			 config->ssd[d].name);
		result = hr_post_pair(post->engine, g, d, budget_ns, detail, &e);
		if (result == -EINTR)
			break;
		show_step(post, "peer_data", subject, hr_vanished_error(result), since_ms(began),
			  detail, &e);
	}
}

/* The steps of the gpus have reported a backend that cannot be opened. */
static void test_pairs(struct hr_post *post)
{
	struct hr_engine *engine = post->engine;
	const uint32_t pairs = engine->config.gpus * engine->config.ssds;

	for (uint32_t g = 0; pairs && g < engine->config.gpus && !hr_signals_pending(); g++) {
		struct hr_error e = { 0 };

		if (engine->gpu_left_out[g] ||
		    hr_backend_open(&engine->backend[g], engine->config.gpu[g].device, 1, &e) != 0)
			continue;
		test_pairs_of(post, g, post->pairs_ns / pairs);
		engine->backend[g].ops->close(&engine->backend[g]);
	}
}

/* An ssd that passes stays up, so that the following ones are compared with it. */
void hr_post_ssds(struct hr_post *post)
{
	for (uint32_t d = 0; d < post->engine->config.ssds && !hr_signals_pending(); d++)
		if (!post->engine->left_out[d])
			test_ssd(post, d);
	test_pairs(post);
	for (uint32_t d = post->engine->config.ssds; d-- > 0;) {
		hr_ssd_down(&post->engine->ssd[d]);
		hr_tick();
	}
}
