/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/runner/park.h"

#include "boot/engine/shared_memory.h"
#include "config/base/clock.h"
#include "config/derived.h"

static const struct hr_tap_lending *lendings(const struct hr_run *run)
{
	return hr_partition_cpu(run->layout.parts.partition, run->layout.tap_lending);
}

bool hr_park_has_left(const struct hr_run *run)
{
	return hr_config_has_tap(run->config) && run->tap.role.park && hr_run_wired(run) &&
	       hr_acquire_sys_u32(&hr_run_tap_words(run)->leave_launch) ==
		       run->cpu.control->launch_number;
}

int hr_park_begin(struct hr_park *park, struct hr_engine *engine, const struct hr_run *run,
		  struct hr_error *e)
{
	const struct hr_part *part = &run->layout.parts.partition->part[run->layout.tap_lending];
	struct hr_places *places = &engine->memory[run->config->gpu];
	const uint8_t *role = (const uint8_t *)run->cpu.tap;
	const int err = hr_places_download(places, part->offset, part->bytes, e);

	park->parked = true;
	park->first_ns = 0;
	return err ? err
		   : hr_places_download(
			     places,
			     (uint64_t)(role -
					(const uint8_t *)places->region[HR_PLACE_WORKER].cpu),
			     sizeof *run->cpu.tap, e);
}

/* What has happened to the tiles that are lent. */
struct returns {
	uint32_t lent, back, lent_to[HR_TAP_SEATS], back_of[HR_TAP_SEATS];
};

static void count_slot(const struct hr_run *run, uint32_t s, const struct hr_tap_lending *lending,
		       struct returns *r)
{
	for (uint32_t seat = 0; seat < HR_TAP_SEATS; seat++) {
		const uint8_t *page = hr_run_tap_page_of(run, seat);
		const uint32_t *gen =
			(const uint32_t *)(const void *)(page + sizeof(struct hr_tap_returns));

		if (!(lending->seats >> seat & 1))
			continue;
		r->lent++;
		r->lent_to[seat]++;
		if ((hr_acquire_sys_u32(&gen[s]) & ~HR_TAP_FAILED) != lending->gen)
			continue;
		r->back++;
		r->back_of[seat]++;
	}
}

/* An order, or more credits for a consumer. */
static bool has_order(const struct hr_run *run)
{
	for (uint32_t seat = 0; seat < HR_TAP_SEATS; seat++) {
		const struct hr_tap_seat *words = &hr_run_tap_words(run)->seat[seat];

		if (words->order != hr_acquire_sys_u32(&words->obeyed) ||
		    (run->cpu.tap->own[seat].lends &&
		     words->credits > run->cpu.tap->own[seat].credits))
			return true;
	}
	return false;
}

bool hr_park_must_launch(struct hr_park *park, const struct hr_run *run, uint64_t now_ns)
{
	struct returns r = { 0 };
	bool starves = false;

	if (has_order(run))
		return true;
	for (uint32_t s = 0; s < run->slots; s++)
		if (lendings(run)[s].seats)
			count_slot(run, s, &lendings(run)[s], &r);
	if (!r.back)
		return false;
	if (!park->first_ns)
		park->first_ns = now_ns;
	for (uint32_t seat = 0; seat < HR_TAP_SEATS; seat++)
		starves |= r.lent_to[seat] && r.back_of[seat] == r.lent_to[seat];
	return starves || 2 * r.back >= r.lent || now_ns - park->first_ns >= HR_PARK_GATHER_NS;
}

void hr_park_launch(struct hr_park *park, const struct hr_run *run)
{
	struct hr_pipe_control *control = run->cpu.control;

	park->parked = false;
	if (hr_config_has_tap(run->config))
		hr_release_sys_u32(&control->launch_number, control->launch_number + 1);
}
