#include "boot/engine/shared_memory.h"

/* Another pipeline has a launch, or its descriptor holds addresses for the next one. */
static bool others_run(const struct hr_appliance *app, uint32_t i)
{
	bool any = hr_any_stuck(app);

	for (uint32_t k = 0; k < app->config.pipelines; k++) {
		const struct hr_run *run = &app->run[k];

		any |= k != i && !run->ended_ns && (run->started_ns || hr_run_wired(run));
	}
	return any;
}

static int fill(struct hr_appliance *app, uint32_t i)
{
	const int err = app->tap_tiles[i].sets.spent ? hr_run_tap_fill(app, i, &app->error) : 0;

	if (err || !app->feed_memory[i].sets.spent)
		return err;
	return hr_run_feed_fill(app, i, &app->error);
}

int hr_run_words_renew(struct hr_appliance *app, uint32_t i)
{
	const uint32_t g = app->run[i].config->gpu;
	struct hr_places *places = &app->memory[g];
	struct hr_error e = { 0 };
	int err, lost;

	if ((!app->tap_tiles[i].sets.spent && !app->feed_memory[i].sets.spent) ||
	    others_run(app, i))
		return 0;
	hr_places_detach_words(places);
	err = fill(app, i);
	lost = hr_places_attach_words(places, err ? &e : &app->error);
	if (!lost)
		hr_partition_bind(&app->partition[g], places->region);
	err = err ? err : lost;
	if (err)
		hr_error_context(&app->error, "pipeline '%s': words of its clients",
				 app->run[i].config->name);
	return err;
}
