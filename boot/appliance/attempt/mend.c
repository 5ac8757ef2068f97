/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/attempt/mend.h"

#include <errno.h>

#include "boot/appliance/schedule/retry.h"
#include "boot/engine/exclude.h"
#include "boot/engine/devices/ssd.h"
#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/derived.h"
#include "nvme/ctrl.h"
#include "nvme/events.h"

#define PAUSE_MAX_NS (60 * HR_NS_PER_S)

static bool is_used(const struct hr_engine *engine, hr_pipeline_set running, uint32_t d)
{
	bool used = false;

	for (uint32_t i = 0; i < engine->config.pipelines; i++)
		used |= running >> i & 1 && hr_run_uses_ssd(&engine->run[i], d);
	return used;
}

void hr_mend_read_health(struct hr_engine *engine)
{
	for (uint32_t d = 0; d < engine->config.ssds; d++)
		if (!engine->left_out[d] && engine->ssd[d].ctrl &&
		    hr_health_commands(&engine->ssd[d].health))
			hr_ctrl_read_smart(engine->ssd[d].ctrl, NULL);
}

void hr_mend_look(struct hr_engine *engine, hr_pipeline_set running)
{
	for (uint32_t d = 0; d < engine->config.ssds; d++) {
		struct hr_ssd *ssd = &engine->ssd[d];
		struct hr_error e = { 0 };
		int err;

		if (engine->left_out[d] || !ssd->ctrl || !hr_health_commands(&ssd->health) ||
		    is_used(engine, running, d))
			continue;
		err = hr_ctrl_check(ssd->ctrl, &e);
		if (!err)
			err = hr_ctrl_aer_poll(ssd->ctrl, &ssd->ns, &e);
		if (!err)
			continue;
		hr_error_context(&e, "ssd '%s' is lost", engine->config.ssd[d].name);
		hr_error_log(&e, HR_LOG_ERROR);
		if (err == -ENXIO)
			hr_health_fault(&ssd->health, HR_FAULT_NAMESPACE, NULL, err, NULL);
		hr_health_set(&ssd->health, HR_STEP_GIVE_UP);
	}
}

bool hr_mend_is_due(const struct hr_engine *engine, uint32_t i)
{
	for (uint32_t d = 0; d < engine->config.ssds; d++)
		if (hr_ssd_wants_reset(&engine->ssd[d]) &&
		    hr_config_uses_ssd(&engine->config.pipeline[i], d))
			return true;
	return false;
}

/* A running pipeline uses ssd d, or another ssd of its controller. */
static bool is_controller_used(const struct hr_engine *engine, hr_pipeline_set running, uint32_t d)
{
	bool used = false;

	for (uint32_t other = 0; other < engine->config.ssds; other++)
		if (other == d || hr_ssd_same_controller(&engine->ssd[other], &engine->ssd[d]))
			used |= is_used(engine, running, other);
	return used;
}

/*
 * The first reset is made at once. A controller whose admin queue ends again and again would cost
 * a reset with each run, without an end.
 */
static bool is_early(const struct hr_config_boot *boot, struct hr_ssd_controller *c)
{
	const uint64_t passed_ns = hr_now_ns() - c->reset_ns;
	uint64_t pause_ns;

	if (boot->heal_ns && passed_ns >= boot->heal_ns)
		c->resets = 0;
	pause_ns = c->resets ? hr_pause_ns(boot, c->resets) : 0;
	return passed_ns < (pause_ns < PAUSE_MAX_NS ? pause_ns : PAUSE_MAX_NS);
}

static void reset_ssd(struct hr_ssd *ssd)
{
	struct hr_ssd_controller *c = ssd->controller;
	struct hr_error e = { 0 };

	if (hr_ssd_reset(ssd, &e) == 0 && c->resets > 1)
		hr_warn("%s: %u resets in a row: pipelines on it wait longer before each further "
			"one, up to a minute",
			c->transport.name, c->resets);
	hr_error_log(&e, HR_LOG_ERROR);
}

hr_pipeline_set hr_mend_ssds(struct hr_engine *engine, hr_pipeline_set running,
			     hr_pipeline_set planned)
{
	hr_pipeline_set held = 0;
	bool any = false;

	for (uint32_t d = 0; d < engine->config.ssds; d++) {
		if (engine->left_out[d] || !hr_ssd_wants_reset(&engine->ssd[d]))
			continue;
		if (!is_controller_used(engine, running, d) &&
		    !is_early(&engine->config.boot, engine->ssd[d].controller))
			reset_ssd(&engine->ssd[d]);
		any |= hr_ssd_wants_reset(&engine->ssd[d]);
	}
	for (uint32_t i = 0; any && i < engine->config.pipelines; i++)
		if (!(planned >> i & 1) || hr_mend_is_due(engine, i))
			held |= 1u << i;
	return held;
}

void hr_mend_disable(struct hr_engine *engine)
{
	for (uint32_t d = 0; d < engine->config.ssds; d++)
		if (hr_ssd_wants_reset(&engine->ssd[d]))
			hr_ssd_disable(&engine->ssd[d]);
}
