#include "boot/engine/stage_memory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "boot/engine/paths.h"
#include "boot/engine/prove.h"
#include "boot/engine/rings.h"
#include "boot/engine/stage_partition.h"
#include "config/log.h"
#include "nvme/status.h"

/* Where the places of the map lie, so that addresses in the message of a fault can be found. */
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

/* The rings of `pairs` queue pairs in a part. */
static int check_part(const struct hr_appliance *app, uint32_t g, int part, uint32_t d,
		      uint32_t pairs)
{
	const struct hr_partition *p = &app->partition[g];
	const struct hr_region *rings = &p->region[p->part[part].place];
	const uint32_t bytes = hr_plan_ring_bytes(app->ssd[d].queue_entries);
	int err = 0;

	for (uint32_t i = 0; !err && i < pairs; i++)
		err = hr_ssd_check_rings(&app->ssd[d], rings,
					 p->part[part].offset + (size_t)i * bytes);
	return err;
}

/* Now, since once queue pairs are created sinks have been, and those are on the disk. */
static int check_rings(const struct hr_appliance *app, uint32_t g)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < app->config.pipelines; i++) {
		const struct hr_run *run = &app->run[i];

		if (!run->selected || run->config->gpu != g || run->outcome != HR_RUN_WAITING)
			continue;
		for (uint32_t q = 0; !err && q < run->ssds; q++)
			err = check_part(app, g, run->part.source_rings[q], run->ssd[q],
					 hr_run_workers(run, HR_ROLE_PREFETCH));
		if (!err && run->config->has_sink)
			err = check_part(app, g, run->part.sink_rings, run->config->sink.ssd,
					 hr_run_workers(run, HR_ROLE_WRITEBACK));
	}
	return err;
}

static int take_places(struct hr_appliance *app, uint32_t g)
{
	struct hr_partition *p = &app->partition[g];
	enum hr_place failed = HR_PLACE_CONTROL;
	const int err = hr_places_take(&app->memory[g], &app->backend[g], p->used, &failed);
	char name[96];

	if (err) {
		hr_error("gpu '%s': cannot get %llu bytes of %s memory: %s",
			 app->config.gpu[g].name, (unsigned long long)p->used[failed],
			 hr_place_name(failed), hr_error_name(err, name, sizeof name));
		return err;
	}
	hr_partition_bind(p, app->memory[g].region);
	log_addresses(app, g);
	return check_rings(app, g);
}

/* Another ssd of the controller, through which the gpu has its BAR; -1: none. */
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
	char name[96];
	int err;

	if (other >= 0) {
		app->bar[g][d] = app->bar[g][other];
		return 0;
	}
	err = backend->ops->attach(backend, bar, t->bar_bytes, !t->bar_is_memory, &app->bar[g][d]);

	if (err) {
		hr_error("%s: gpu '%s' (%s) cannot reach its doorbells: %s", t->name,
			 app->config.gpu[g].name, backend->name,
			 hr_error_name(err, name, sizeof name));
		app->bar[g][d] = NULL;
	}
	return err;
}

void hr_detach_bar(struct hr_appliance *app, uint32_t g, uint32_t d)
{
	struct hr_backend *backend = &app->backend[g];

	if (app->bar[g][d] && attached(app, g, d) < 0)
		backend->ops->detach(backend, (void *)(uintptr_t)app->ssd[d].transport.bar);
	app->bar[g][d] = NULL;
}

/* In *obstacle, why not. */
static int map_place(struct hr_appliance *app, uint32_t g, uint32_t d, enum hr_place place,
		     struct hr_obstacle *obstacle)
{
	const struct hr_region *region = &app->memory[g].region[place];
	struct hr_transport *t = &app->ssd[d].transport;
	const uint32_t bit = 1u << hr_first_of_controller(app, d);
	char name[96];
	int err;

	memset(obstacle, 0, sizeof *obstacle);
	if (app->mapped[place][g] & bit) /* through another namespace of it */
		return 0;
	err = region->bytes ? t->ops->map(t, region) : 0;
	if (err)
		snprintf(obstacle->what, sizeof obstacle->what,
			 "cannot map %zu bytes of gpu '%s' (%s) for DMA: %s", region->bytes,
			 app->config.gpu[g].name, hr_place_name(place),
			 hr_error_name(err, name, sizeof name));
	else if (region->bytes)
		app->mapped[place][g] |= bit;
	return err;
}

static int reach_place(struct hr_appliance *app, uint32_t g, uint32_t d, enum hr_place place,
		       struct hr_obstacle *obstacle)
{
	const int err = map_place(app, g, d, place, obstacle);

	return err ? err : hr_prove(app, g, d, place, obstacle);
}

/* Controllers reach the host place and, directly, the GPU's; workers reach their doorbells. What
 * the host place does not do, no path does. */
static int connect_ssd(struct hr_appliance *app, uint32_t g, uint32_t d)
{
	const char *name = app->ssd[d].transport.name;
	struct hr_obstacle o;
	int err = reach_place(app, g, d, HR_PLACE_HOST, &o);

	if (err) {
		if (o.what[0])
			hr_error("%s: %s%s%s", name, o.what, o.suspect[0] ? "; " : "", o.suspect);
		return err;
	}
	if (app->path[g][d].direct)
		err = reach_place(app, g, d, HR_PLACE_GPU, &o);
	if (err) {
		if (o.what[0])
			hr_paths_lost(app, g, 1u << d, name, &o);
		return err;
	}
	return hr_attach_bar(app, g, d);
}

/* Each ssd only if a pipeline of this gpu uses it. */
static int connect_ssds(struct hr_appliance *app, uint32_t g)
{
	int err = 0;

	for (uint32_t d = 0; !err && d < app->config.ssds; d++)
		if (hr_pair_used(app, g, d))
			err = connect_ssd(app, g, d);
	return err;
}

/* A bit for each ssd whose tiles lie in that gpu's memory. */
static uint32_t direct_ssds(const struct hr_appliance *app, uint32_t g)
{
	uint32_t ssds = 0;

	for (uint32_t d = 0; d < app->config.ssds; d++)
		if (app->path[g][d].direct)
			ssds |= 1u << d;
	return ssds;
}

/* Let other devices into the memory of a GPU, which until now only the GPU reaches. */
static int open_gpu(struct hr_appliance *app, uint32_t g)
{
	const uint32_t ssds = direct_ssds(app, g);
	char message[HR_LOG_LINE_MAX] = "", object[HR_NAME_MAX + 8];
	struct hr_obstacle o = { "", "" };
	int err = ssds ? hr_places_open_gpu(&app->memory[g], message) : 0;

	if (err) {
		snprintf(object, sizeof object, "gpu '%s'", app->config.gpu[g].name);
		snprintf(o.what, sizeof o.what, "its memory cannot be opened for ssds: %.270s",
			 message);
		hr_paths_lost(app, g, ssds, object, &o);
	} else {
		hr_partition_bind(&app->partition[g], app->memory[g].region);
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

/* Tiles lie elsewhere once a path is lost, so all is laid out anew. There is one path less each
 * time. */
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
		if (app->stuck)
			continue;
		unmap_place(app, g, HR_PLACE_GPU);
		unmap_place(app, g, HR_PLACE_HOST);
		hr_places_give(&app->memory[g]);
	}
}
