#include "boot/engine/bringup/stage.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "boot/engine/shape/paths.h"
#include "boot/engine/shared_memory.h"
#include "config/base/log.h"
#include "config/derived.h"
#include "nvme/queue/status.h"

/* Log the addresses of the places, to locate addresses in messages about faults. */
static void log_addresses(const struct hr_appliance *app, uint32_t g)
{
	for (int place = 0; place < HR_PLACES; place++) {
		const struct hr_region *r = &app->partition[g].region[place];

		if (r->bytes)
			hr_info("gpu '%s': place %s: %zu bytes, for the CPU at 0x%llx, for workers "
				"at 0x%llx",
				app->config.gpu[g].name, hr_place_name((enum hr_place)place),
				r->bytes, (unsigned long long)(uintptr_t)r->cpu,
				(unsigned long long)(uintptr_t)r->worker);
	}
}

static int check_gpu(const struct hr_run *run, uint32_t member, struct hr_error *e)
{
	return run->config->objects ? hr_access_layout_check(&run->gpu[member].layout, e)
				    : hr_pipe_layout_check_rings(&run->layout, e);
}

/* Check before stage `sinks`, which writes to disk; stage `queues` comes after it. */
static int check_rings(struct hr_appliance *app, uint32_t g)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < app->config.pipelines; i++) {
		const struct hr_run *run = &app->run[i];

		if (!run->selected || run->outcome != HR_RUN_WAITING)
			continue;
		for (uint32_t p = 0; !err && p < hr_run_gpus(run); p++)
			if (hr_config_gpu(run->config, p) == g)
				err = check_gpu(run, p, &app->error);
	}
	return err;
}

/* The largest part of a partition: the one to make smaller when the memory is short. */
static const struct hr_part *largest_part(const struct hr_partition *p)
{
	const struct hr_part *largest = &p->part[0];

	for (uint32_t i = 1; i < p->count; i++)
		if (p->part[i].bytes > largest->bytes)
			largest = &p->part[i];
	return largest;
}

static int take_taps(struct hr_appliance *app, uint32_t g)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < app->config.pipelines; i++) {
		const struct hr_run *run = &app->run[i];

		if (!run->selected || run->config->gpu != g)
			continue;
		/* in the order of their tiles in the place */
		if (hr_config_has_tap(run->config))
			err = hr_run_tap_take(app, i);
		if (!err && hr_config_has_feed(run->config))
			err = hr_run_feed_take(app, i);
	}
	return err ? err : hr_places_attach_words(&app->memory[g], &app->error);
}

/* The addresses go with the place. */
static void give_taps(struct hr_appliance *app, uint32_t g)
{
	for (uint32_t i = 0; i < app->config.pipelines; i++)
		if (app->config.pipeline[i].gpu == g) {
			hr_run_tap_give(&app->tap_tiles[i]);
			hr_run_feed_give(&app->feed_memory[i]);
		}
}

static int take_places(struct hr_appliance *app, uint32_t g)
{
	struct hr_partition *p = &app->partition[g];
	const struct hr_part *largest = largest_part(p);
	int err = hr_places_take(&app->memory[g], &app->backend[g], p->used, &app->error);

	if (err == -ENOMEM && p->count)
		hr_error_context(&app->error, "%s: %s have %llu bytes", largest->owner,
				 largest->purpose, (unsigned long long)largest->bytes);
	hr_error_context(&app->error, "gpu '%s'", app->config.gpu[g].name);
	if (err)
		return err;
	hr_partition_bind(p, app->memory[g].region);
	err = take_taps(app, g);
	if (err)
		return err;
	/* words of taps have their address for workers only now */
	hr_partition_bind(p, app->memory[g].region);
	log_addresses(app, g);
	return check_rings(app, g);
}

/* Another ssd of the same controller whose BAR is attached to the gpu; -1: none. */
static int attached(const struct hr_appliance *app, uint32_t g, uint32_t d)
{
	for (uint32_t i = 0; i < app->config.ssds; i++)
		if (i != d && app->bar[g][i] && hr_one_controller(app, i, d))
			return (int)i;
	return -1;
}

int hr_attach_bar(struct hr_appliance *app, uint32_t g, uint32_t d)
{
	struct hr_transport *t = &app->ssd[d].transport;
	struct hr_backend *backend = &app->backend[g];
	void *bar = (void *)(uintptr_t)t->bar;
	const int other = attached(app, g, d);
	int err;

	if (other >= 0) {
		app->bar[g][d] = app->bar[g][other];
		return 0;
	}
	err = backend->ops->attach(backend, bar, t->bar_bytes, !t->bar_is_memory, &app->bar[g][d],
				   &app->error);

	if (err)
		app->bar[g][d] = NULL;
	hr_error_context(&app->error, "%s: gpu '%s' cannot access its doorbells", t->name,
			 app->config.gpu[g].name);
	return err;
}

void hr_detach_bar(struct hr_appliance *app, uint32_t g, uint32_t d)
{
	struct hr_backend *backend = &app->backend[g];

	if (app->bar[g][d] && attached(app, g, d) < 0)
		backend->ops->detach(backend, (void *)(uintptr_t)app->ssd[d].transport.bar);
	app->bar[g][d] = NULL;
}

/* Map a place into an ssd. */
static int map_place(struct hr_appliance *app, uint32_t g, uint32_t d, enum hr_place place)
{
	const struct hr_region *region = &app->memory[g].region[place];
	struct hr_transport *t = &app->ssd[d].transport;
	const uint32_t bit = 1u << hr_first_of_controller(app, d);
	int err;

	/* already mapped through another namespace of the controller */
	if (app->mapped[place][g] & bit)
		return 0;
	err = region->bytes ? t->ops->map(t, region, &app->error) : 0;
	if (err)
		hr_error_context(&app->error, "cannot map %zu bytes of gpu '%s' (%s) for DMA",
				 region->bytes, app->config.gpu[g].name, hr_place_name(place));
	else if (region->bytes)
		app->mapped[place][g] |= bit;
	return err;
}

/* *out_of_reach: the ssd cannot access the place; the ssd and the backend work. */
static int reach_place(struct hr_appliance *app, uint32_t g, uint32_t d, enum hr_place place,
		       bool *out_of_reach)
{
	const int err = map_place(app, g, d, place);

	*out_of_reach = err != 0;
	return err ? err : hr_prove(app, g, d, place, out_of_reach, &app->error);
}

/* The paths from these ssds do not work, as app->error says. They become bounce paths when they
 * may: then that is a warning. */
static void lose_paths(struct hr_appliance *app, uint32_t g, uint32_t ssds, const char *name)
{
	const bool lost = hr_paths_lost(app, g, ssds, &app->error);

	hr_error_context(&app->error, "%s", name);
	if (lost) {
		hr_error_log(&app->error, HR_LOG_WARN);
		hr_error_clear(&app->error);
	}
}

/* Map the host place and, for a direct path, the GPU place into the controller; attach the
 * doorbells for workers. Without the host place no path works. Errors of the ssd itself name it;
 * those of a place out of its reach get its name here. */
static int connect_ssd(struct hr_appliance *app, uint32_t g, uint32_t d)
{
	const char *name = app->ssd[d].transport.name;
	bool out_of_reach;
	int err = reach_place(app, g, d, HR_PLACE_HOST, &out_of_reach);

	if (err && out_of_reach)
		hr_error_context(&app->error, "%s", name);
	if (err)
		return err;
	if (app->path[g][d].direct)
		err = reach_place(app, g, d, HR_PLACE_GPU, &out_of_reach);
	if (err && out_of_reach)
		lose_paths(app, g, 1u << d, name);
	return err ? err : hr_attach_bar(app, g, d);
}

/* Only the ssds that pipelines of this gpu use. */
static int connect_ssds(struct hr_appliance *app, uint32_t g)
{
	int err = 0;

	for (uint32_t d = 0; !err && d < app->config.ssds; d++)
		if (hr_pair_used(app, g, d))
			err = connect_ssd(app, g, d);
	return err;
}

/* Mask of the ssds whose tiles lie in the memory of that gpu. */
static uint32_t direct_ssds(const struct hr_appliance *app, uint32_t g)
{
	uint32_t ssds = 0;

	for (uint32_t d = 0; d < app->config.ssds; d++)
		if (app->path[g][d].direct)
			ssds |= 1u << d;
	return ssds;
}

/* Let other devices access the memory of a GPU. */
static int open_gpu(struct hr_appliance *app, uint32_t g)
{
	const uint32_t ssds = direct_ssds(app, g);
	const int err = ssds ? hr_places_open_gpu(&app->memory[g], &app->error) : 0;
	char name[HR_NAME_MAX + sizeof "gpu ''"];

	if (err) {
		hr_error_context(&app->error, "its memory cannot be opened for ssds");
		snprintf(name, sizeof name, "gpu '%s'", app->config.gpu[g].name);
		lose_paths(app, g, ssds, name);
	} else {
		hr_partition_bind(&app->partition[g], app->memory[g].region);
	}
	return err;
}

/* True when a pipeline runs on both. */
static bool are_peers(const struct hr_appliance *app, uint32_t g, uint32_t other)
{
	bool together = false;

	for (uint32_t i = 0; g != other && i < app->config.pipelines; i++)
		together |= app->run[i].selected && hr_config_uses_gpu(app->run[i].config, g) &&
			    hr_config_uses_gpu(app->run[i].config, other);
	return together;
}

/* Let workers of the gpus that have a pipeline with this one use its memory. */
static int share_gpu(struct hr_appliance *app, uint32_t g)
{
	static const enum hr_place places[] = { HR_PLACE_WORKER, HR_PLACE_GPU };
	struct hr_backend *b = &app->backend[g];
	int err = 0;

	for (uint32_t other = 0; other < app->config.gpus; other++)
		for (uint32_t i = 0; !err && i < sizeof places / sizeof *places; i++) {
			const struct hr_region *region = &app->memory[g].region[places[i]];

			if (!app->gpu_up[other] || !region->bytes || !are_peers(app, g, other))
				continue;
			err = b->ops->share(b, region, &app->backend[other], &app->error);
			hr_error_context(&app->error, "gpu '%s' cannot use memory of gpu '%s'",
					 app->config.gpu[other].name, app->config.gpu[g].name);
		}
	return err;
}

static int take_memory(struct hr_appliance *app)
{
	int err = 0;

	for (uint32_t g = 0; !err && g < app->config.gpus; g++) {
		if (!app->gpu_up[g])
			continue;
		err = take_places(app, g);
		if (!err)
			err = open_gpu(app, g);
		if (!err)
			err = connect_ssds(app, g);
		if (!err)
			err = share_gpu(app, g);
	}
	return err;
}

static uint32_t count_direct(const struct hr_appliance *app)
{
	uint32_t count = 0;

	for (uint32_t g = 0; g < app->config.gpus; g++)
		count += (uint32_t)__builtin_popcount(direct_ssds(app, g));
	return count;
}

/* When a direct path is lost, its tiles move to another place, so lay out everything again. Each
 * repetition has one direct path less, so this ends. */
int hr_memory_up(struct hr_appliance *app)
{
	uint32_t direct;
	int err;

	do {
		direct = count_direct(app);
		err = take_memory(app);
		if (!err || count_direct(app) == direct)
			return err;
		hr_memory_down(app);
		err = hr_partition_plan(app);
	} while (!err);
	return err;
}

static void unmap_place(struct hr_appliance *app, uint32_t g, enum hr_place place)
{
	for (uint32_t d = 0; d < app->config.ssds; d++)
		if (app->mapped[place][g] & 1u << d)
			app->ssd[d].transport.ops->unmap(&app->ssd[d].transport,
							 &app->memory[g].region[place]);
	app->mapped[place][g] = 0;
}

void hr_memory_down(struct hr_appliance *app)
{
	for (uint32_t g = app->config.gpus; g-- > 0;) {
		for (uint32_t d = 0; d < app->config.ssds; d++)
			hr_detach_bar(app, g, d);
		if (hr_any_stuck(app))
			continue;
		unmap_place(app, g, HR_PLACE_GPU);
		unmap_place(app, g, HR_PLACE_HOST);
		give_taps(app, g);
		hr_places_give(&app->memory[g]);
	}
}
