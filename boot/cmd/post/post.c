#include "boot/cmd/post/post.h"

#include <errno.h>
#include <stdio.h>

#include "boot/engine/devices.h"
#include "config/clock.h"
#include "boot/engine/exit.h"
#include "boot/cmd/report/json.h"
#include "boot/engine/signals.h"
#include "config/tick.h"
#include "gpu/ops/operators.h"

/* One finding: a line, or an element of the report. */
static void show(struct hr_post *post, const char *step, const char *subject, int result, double ms,
		 const char *detail)
{
	const char *word = result == 0 ? "OK" : result == HR_POST_SKIP ? "SKIP" : "FAIL";
	struct json_object *out;

	hr_tick();
	if (result == HR_POST_SKIP)
		post->skipped++;
	else if (result == 0)
		post->passed++;
	else if (post->failed++ == 0)
		post->error = result;
	if (!post->steps) {
		fprintf(post->out, "%-4s %-10s %-14s %9.3f ms  %s\n", word, step, subject, ms,
			detail);
		fflush(post->out);
		return;
	}
	out = hr_json_append(post->steps);
	hr_json_string(out, "step", step);
	hr_json_string(out, "subject", subject);
	hr_json_string(out, "outcome", word);
	hr_json_double(out, "duration_ms", ms, 3);
	hr_json_string(out, "detail", detail);
}

static double since_ms(uint64_t began)
{
	return (double)(hr_now_ns() - began) / 1e6;
}

static void test_machine(struct hr_post *post)
{
	static const struct {
		const char *name;
		int (*fn)(struct hr_appliance *app, char *detail);
	} step[] = {
		{ "cpu", hr_post_cpu },
		{ "memory", hr_post_memory },
		{ "clock", hr_post_clock },
	};

	for (size_t i = 0; i < sizeof step / sizeof *step && !hr_signals_pending(); i++) {
		char detail[HR_POST_DETAIL] = "";
		uint64_t began = hr_now_ns();
		int result = step[i].fn(post->app, detail);

		show(post, step[i].name, "-", result, since_ms(began), detail);
	}
}

/* What the driver says of a GPU, and what its workers do. */
static void test_backend(struct hr_post *post, const char *gpu, struct hr_backend *backend)
{
	char detail[HR_POST_DETAIL] = "";
	uint64_t began = hr_now_ns();
	int result;

	if (backend->facts) {
		hr_gpu_facts_text(backend->facts, detail, sizeof detail);
		show(post, "gpu", gpu, 0, since_ms(began), detail);
		hr_post_kernels(backend->facts, detail);
		show(post, "kernels", gpu, 0, since_ms(began), detail);
	}
	began = hr_now_ns();
	result = hr_post_workers(backend, detail);
	show(post, "workers", gpu, result, since_ms(began), detail);
}

static void test_gpus(struct hr_post *post)
{
	for (uint32_t g = 0; g < post->app->config.gpus && !hr_signals_pending(); g++) {
		const struct hr_config_gpu *gpu = &post->app->config.gpu[g];
		char message[HR_LOG_LINE_MAX] = "", detail[HR_POST_DETAIL];
		uint64_t began = hr_now_ns();
		struct hr_backend backend;
		int err = hr_backend_open(&backend, gpu->device, 1, message);

		if (err)
			snprintf(detail, sizeof detail, "%.*s", (int)sizeof detail - 1, message);
		else
			snprintf(detail, sizeof detail, "%s, up to %u blocks%s%.*s", backend.name,
				 backend.max_blocks, message[0] ? "; " : "", (int)sizeof detail / 2,
				 message);
		show(post, "backend", gpu->name, err, since_ms(began), detail);
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
		int result = hr_post_operator(id, detail);

		show(post, "operator", hr_op_get(id)->name, result, since_ms(began), detail);
	}
}

static void test_ssd(struct hr_post *post, uint32_t d)
{
	static const struct {
		const char *name;
		int (*fn)(struct hr_appliance *app, uint32_t d, char *detail);
		bool needed; /* by the steps after it */
	} step[] = {
		{ "controller", hr_post_controller, true }, { "queue", hr_post_queue, true },
		{ "smart", hr_post_smart, false },	    { "store", hr_post_store, false },
		{ "loopback", hr_post_loopback, false },    { "map", hr_post_verify, false },
	};

	for (size_t i = 0; i < sizeof step / sizeof *step && !hr_signals_pending(); i++) {
		char detail[HR_POST_DETAIL] = "";
		uint64_t began = hr_now_ns();
		int result = step[i].fn(post->app, d, detail);

		if (result == -EINTR)
			break;
		if (i) /* it was there in the step before */
			result = hr_gone(result);
		show(post, step[i].name, post->app->config.ssd[d].name, result, since_ms(began),
		     detail);
		if (result && result != HR_POST_SKIP && !post->ssd_error[d])
			post->ssd_error[d] = result;
		if (result && step[i].needed)
			break;
	}
	if (post->ssd_error[d])
		hr_ssd_down(&post->app->ssd[d]);
}

void hr_post_machine(struct hr_post *post)
{
	test_machine(post);
	test_gpus(post);
	test_operators(post);
	post->machine_failed = post->failed > 0;
}

/* A sound ssd stays up, so that those behind it are compared with it. */
void hr_post_ssds(struct hr_post *post)
{
	for (uint32_t d = 0; d < post->app->config.ssds && !hr_signals_pending(); d++)
		if (!post->app->left_out[d])
			test_ssd(post, d);
	for (uint32_t d = post->app->config.ssds; d-- > 0;) {
		hr_ssd_down(&post->app->ssd[d]);
		hr_tick();
	}
}
