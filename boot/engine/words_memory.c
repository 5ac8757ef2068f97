/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/shared_memory.h"

/* Another pipeline has a launch, or its descriptor holds addresses for the next one. */
static bool others_run(const struct hr_engine *engine, uint32_t i)
{
	bool any = hr_any_controller_stuck(engine);

	for (uint32_t k = 0; k < engine->config.pipelines; k++) {
		const struct hr_run *run = &engine->run[k];

		any |= k != i && !run->ended_ns && (run->started_ns || hr_run_wired(run));
	}
	return any;
}

static int fill_words(struct hr_engine *engine, uint32_t i)
{
	const int err =
		engine->tap_tiles[i].sets.spent ? hr_run_tap_fill(engine, i, &engine->error) : 0;

	if (err || !engine->feed_memory[i].sets.spent)
		return err;
	return hr_run_feed_fill(engine, i, &engine->error);
}

int hr_run_words_renew(struct hr_engine *engine, uint32_t i)
{
	const uint32_t g = engine->run[i].config->gpu;
	struct hr_places *places = &engine->memory[g];
	struct hr_error e = { 0 };
	int err, lost;

	if ((!engine->tap_tiles[i].sets.spent && !engine->feed_memory[i].sets.spent) ||
	    others_run(engine, i))
		return 0;
	hr_places_detach_words(places);
	err = fill_words(engine, i);
	lost = hr_places_attach_words(places, err ? &e : &engine->error);
	if (!lost)
		hr_partition_bind(&engine->partition[g], places->region);
	err = err ? err : lost;
	if (err)
		hr_error_context(&engine->error, "pipeline '%s': words of its clients",
				 engine->run[i].config->name);
	return err;
}
