/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/runner_rig.h - the run of conclude_rig.h as it is launched and watched, look by look,
 * on gpus that launch nothing, with controllers that are registers only, and a stopped clock. The test
 * says what poll returns, and writes what workers leave. Each test that includes this has its own.
 */
#ifndef TESTS_HARNESS_RUNNER_RIG_H
#define TESTS_HARNESS_RUNNER_RIG_H

#include "boot/engine/runner/runner.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/log.h"
#include "tests/harness/conclude_rig.h"

#define BEGAN (1000 * HR_NS_PER_S)
#define GPUS 3u

static struct hr_runner runner;
static struct hr_pipe_control control;
static struct hr_launch_args launched[8];
static struct hr_launch handle[8];
static struct hr_backend *launched_on[8];
static unsigned launches, frees, launch_fails_at;
static int ended[8]; /* result of poll, by number of the launch */

static inline int launch(struct hr_backend *b, const struct hr_launch_args *args,
			 struct hr_launch **to, struct hr_error *e)
{
	cr_assert_lt(launches, 8u);
	launched[launches] = *args;
	launched_on[launches] = b;
	handle[launches] = (struct hr_launch){ b, args->stop };
	*to = &handle[launches++];
	if (launches == launch_fails_at) {
		*to = NULL;
		return hr_fail(e, HR_ERROR_DEVICE, -EIO, "no launch");
	}
	return 0;
}

static inline int poll(struct hr_launch *of, struct hr_error *e)
{
	const int now = ended[of - handle];

	return now < 0 ? hr_fail(e, HR_ERROR_DEVICE, now, "gpu lost") : now;
}

static inline void launch_free(struct hr_launch *of)
{
	frees++;
}

static const struct hr_backend_ops ops = { .launch = launch,
					   .launch_free = launch_free,
					   .poll = poll };

/* ---- controllers that work */

static uint8_t bar[2][4096] __attribute__((aligned(4096)));
static struct hr_transport transport[2];
static struct hr_ctrl ctrl[2];

/* An admin queue without completions, on which no command is sent. */
static struct hr_cqe no_cqe[8];
static const struct hr_nvme_qp broken_queue = {
	.entries = 8, .error = -EPROTO, .phase = 2, .cq = no_cqe
};

static inline void set_register(uint32_t d, uint32_t offset, uint32_t value)
{
	memcpy(bar[d] + offset, &value, sizeof value);
}

static inline void up(void)
{
	struct hr_region region[HR_PLACES] = { 0 };

	begin();
	memset(&runner, 0, sizeof runner);
	memset(&control, 0, sizeof control);
	memset(ended, 0, sizeof ended);
	memset(ctrl, 0, sizeof ctrl);
	launches = frees = launch_fails_at = 0;
	for (uint32_t d = 0; d < 2; d++) {
		memset(bar[d], 0, sizeof bar[d]);
		transport[d].bar = bar[d];
		snprintf(transport[d].name, sizeof transport[d].name, "t%u", d);
		snprintf(engine->ssd[d].transport.name, sizeof transport[d].name, "t%u", d);
		ctrl[d].transport = &transport[d];
		ctrl[d].cc = 0x460001;
		ctrl[d].health.state = HR_HEALTH_UP;
		ctrl[d].health.name = transport[d].name;
		engine->ssd[d].health.name = transport[d].name;
		engine->ssd[d].ctrl = &ctrl[d];
		set_register(d, 0x08, 0x10400);	 /* VS */
		set_register(d, 0x14, 0x460001); /* CC */
		set_register(d, 0x1c, 1);	 /* CSTS.RDY */
	}
	for (uint32_t g = 0; g < GPUS; g++) {
		engine->backend[g].ops = &ops;
		engine->backend[g].lanes = 1;
		hr_partition_init(&engine->partition[g], (const uint64_t[HR_PLACES]){ 0 });
		hr_partition_add(&engine->partition[g], HR_PLACE_WORKER, 64, 64, "p", "x");
		run->layout.descriptor = hr_partition_add(&engine->partition[g], HR_PLACE_WORKER,
							  64, 64, "p", "descriptor");
		region[HR_PLACE_WORKER].worker = (uint8_t *)0x100000 + 0x10000 * g;
		hr_partition_bind(&engine->partition[g], region);
	}
	run->layout.parts.partition = &engine->partition[0];
	run->cpu.control = &control;
	run->started_ns = 0;
	run->sink_created = true;
	runner.engine = engine;
	engine->config.parallel = 1;
	fake_clock_start(BEGAN, NULL, NULL);
}

static inline void down(void)
{
	fake_clock_stop();
	end();
}

/* The pause of the next look. */
static inline uint64_t look(void)
{
	const uint64_t before = hr_now_ns();

	hr_runner_poll(&runner);
	return hr_now_ns() - before;
}

#endif
