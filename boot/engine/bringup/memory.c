/* SPDX-License-Identifier: Apache-2.0 */
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
static void log_addresses(const struct hr_engine *engine, uint32_t g)
{
	for (int place = 0; place < HR_PLACES; place++) {
		const struct hr_region *r = &engine->partition[g].region[place];

		if (r->bytes)
			hr_info("gpu '%s': place %s: %zu bytes, for the CPU at 0x%llx, for workers "
				"at 0x%llx",
				engine->config.gpu[g].name, hr_place_name((enum hr_place)place),
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
static int check_rings(struct hr_engine *engine, uint32_t g)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < engine->config.pipelines; i++) {
		const struct hr_run *run = &engine->run[i];

		if (!run->selected || run->outcome != HR_RUN_WAITING)
			continue;
		for (uint32_t p = 0; !err && p < hr_run_gpus(run); p++)
			if (hr_config_gpu(run->config, p) == g)
				err = check_gpu(run, p, &engine->error);
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

static int open_tap_memories(struct hr_engine *engine, uint32_t g)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < engine->config.pipelines; i++) {
		const struct hr_run *run = &engine->run[i];

		if (!run->selected || run->config->gpu != g)
			continue;
		/* in the order of their tiles in the place */
		if (hr_config_has_tap(run->config))
			err = hr_tap_memory_open(engine, i);
		if (!err && hr_config_has_feed(run->config))
			err = hr_feed_memory_open(engine, i);
	}
	return err ? err : hr_places_attach_words(&engine->memory[g], &engine->error);
}

/* The addresses go with the place. */
static void close_tap_memories(struct hr_engine *engine, uint32_t g)
{
	for (uint32_t i = 0; i < engine->config.pipelines; i++)
		if (engine->config.pipeline[i].gpu == g) {
			hr_tap_memory_close(&engine->tap_tiles[i]);
			hr_feed_memory_close(&engine->feed_memory[i]);
		}
}

static int allocate_gpu_places(struct hr_engine *engine, uint32_t g)
{
	struct hr_partition *p = &engine->partition[g];
	const struct hr_part *largest = largest_part(p);
	int err = hr_places_alloc(&engine->memory[g], &engine->backend[g], p->used, &engine->error);

	if (err == -ENOMEM && p->count)
		hr_error_context(&engine->error, "%s: %s have %llu bytes", largest->owner,
				 largest->purpose, (unsigned long long)largest->bytes);
	hr_error_context(&engine->error, "gpu '%s'", engine->config.gpu[g].name);
	if (err)
		return err;
	hr_partition_bind(p, engine->memory[g].region);
	err = open_tap_memories(engine, g);
	if (err)
		return err;
	/* words of taps have their address for workers only now */
	hr_partition_bind(p, engine->memory[g].region);
	log_addresses(engine, g);
	return check_rings(engine, g);
}

/* Another ssd of the same controller whose BAR is attached to the gpu; -1: none. */
static int attached(const struct hr_engine *engine, uint32_t g, uint32_t d)
{
	for (uint32_t i = 0; i < engine->config.ssds; i++)
		if (i != d && engine->bar[g][i] && hr_one_controller(engine, i, d))
			return (int)i;
	return -1;
}

int hr_attach_bar(struct hr_engine *engine, uint32_t g, uint32_t d)
{
	struct hr_transport *t = &engine->ssd[d].transport;
	struct hr_backend *backend = &engine->backend[g];
	void *bar = (void *)(uintptr_t)t->bar;
	const int other = attached(engine, g, d);
	int err;

	if (other >= 0) {
		engine->bar[g][d] = engine->bar[g][other];
		return 0;
	}
	err = backend->ops->attach(backend, bar, t->bar_bytes, !t->bar_is_memory,
				   &engine->bar[g][d], &engine->error);

	if (err)
		engine->bar[g][d] = NULL;
	hr_error_context(&engine->error, "%s: gpu '%s' cannot access its doorbells", t->name,
			 engine->config.gpu[g].name);
	return err;
}

void hr_detach_bar(struct hr_engine *engine, uint32_t g, uint32_t d)
{
	struct hr_backend *backend = &engine->backend[g];

	if (engine->bar[g][d] && attached(engine, g, d) < 0)
		backend->ops->detach(backend, (void *)(uintptr_t)engine->ssd[d].transport.bar);
	engine->bar[g][d] = NULL;
}

/* Map a place into an ssd. */
static int map_place(struct hr_engine *engine, uint32_t g, uint32_t d, enum hr_place place)
{
	const struct hr_region *region = &engine->memory[g].region[place];
	struct hr_transport *t = &engine->ssd[d].transport;
	const uint32_t bit = 1u << hr_first_of_controller(engine, d);
	int err;

	/* already mapped through another namespace of the controller */
	if (engine->mapped[place][g] & bit)
		return 0;
	err = region->bytes ? t->ops->map(t, region, &engine->error) : 0;
	if (err)
		hr_error_context(&engine->error, "cannot map %zu bytes of gpu '%s' (%s) for DMA",
				 region->bytes, engine->config.gpu[g].name, hr_place_name(place));
	else if (region->bytes)
		engine->mapped[place][g] |= bit;
	return err;
}

/* *out_of_reach: the ssd cannot access the place; the ssd and the backend work. */
static int reach_place(struct hr_engine *engine, uint32_t g, uint32_t d, enum hr_place place,
		       bool *out_of_reach)
{
	const int err = map_place(engine, g, d, place);

	*out_of_reach = err != 0;
	return err ? err : hr_loopback_test(engine, g, d, place, out_of_reach, &engine->error);
}

/* The paths from these ssds do not work, as engine->error says. They become bounce paths when they
 * may: then that is a warning. */
static void lose_paths(struct hr_engine *engine, uint32_t g, uint32_t ssds, const char *name)
{
	const bool lost = hr_paths_lost(engine, g, ssds, &engine->error);

	hr_error_context(&engine->error, "%s", name);
	if (lost) {
		hr_error_log(&engine->error, HR_LOG_WARN);
		hr_error_clear(&engine->error);
	}
}

/* Map the host place and, for a direct path, the GPU place into the controller; attach the
 * doorbells for workers. Without the host place no path works. Errors of the ssd itself name it;
 * those of a place out of its reach get its name here. */
static int connect_ssd(struct hr_engine *engine, uint32_t g, uint32_t d)
{
	const char *name = engine->ssd[d].transport.name;
	bool out_of_reach;
	int err = reach_place(engine, g, d, HR_PLACE_HOST, &out_of_reach);

	if (err && out_of_reach)
		hr_error_context(&engine->error, "%s", name);
	if (err)
		return err;
	if (engine->path[g][d].direct)
		err = reach_place(engine, g, d, HR_PLACE_GPU, &out_of_reach);
	if (err && out_of_reach)
		lose_paths(engine, g, 1u << d, name);
	return err ? err : hr_attach_bar(engine, g, d);
}

/* Only the ssds that pipelines of this gpu use. */
static int connect_ssds(struct hr_engine *engine, uint32_t g)
{
	int err = 0;

	for (uint32_t d = 0; !err && d < engine->config.ssds; d++)
		if (hr_pair_used(engine, g, d))
			err = connect_ssd(engine, g, d);
	return err;
}

/* Mask of the ssds whose tiles lie in the memory of that gpu. */
static uint32_t direct_ssds(const struct hr_engine *engine, uint32_t g)
{
	uint32_t ssds = 0;

	for (uint32_t d = 0; d < engine->config.ssds; d++)
		if (engine->path[g][d].direct)
			ssds |= 1u << d;
	return ssds;
}

/* Let other devices access the memory of a GPU. */
static int open_gpu(struct hr_engine *engine, uint32_t g)
{
	const uint32_t ssds = direct_ssds(engine, g);
	const int err = ssds ? hr_places_open_gpu(&engine->memory[g], &engine->error) : 0;
	char name[HR_NAME_MAX + sizeof "gpu ''"];

	if (err) {
		hr_error_context(&engine->error, "its memory cannot be opened for ssds");
		snprintf(name, sizeof name, "gpu '%s'", engine->config.gpu[g].name);
		lose_paths(engine, g, ssds, name);
	} else {
		hr_partition_bind(&engine->partition[g], engine->memory[g].region);
	}
	return err;
}

/* True when a pipeline runs on both. */
static bool are_peers(const struct hr_engine *engine, uint32_t g, uint32_t other)
{
	bool together = false;

	for (uint32_t i = 0; g != other && i < engine->config.pipelines; i++)
		together |= engine->run[i].selected &&
			    hr_config_uses_gpu(engine->run[i].config, g) &&
			    hr_config_uses_gpu(engine->run[i].config, other);
	return together;
}

/* Let workers of the gpus that have a pipeline with this one use its memory. */
static int share_gpu(struct hr_engine *engine, uint32_t g)
{
	static const enum hr_place places[] = { HR_PLACE_WORKER, HR_PLACE_GPU };
	struct hr_backend *b = &engine->backend[g];
	int err = 0;

	for (uint32_t other = 0; other < engine->config.gpus; other++)
		for (uint32_t i = 0; !err && i < sizeof places / sizeof *places; i++) {
			const struct hr_region *region = &engine->memory[g].region[places[i]];

			if (!engine->gpu_up[other] || !region->bytes ||
			    !are_peers(engine, g, other))
				continue;
			err = b->ops->share(b, region, &engine->backend[other], &engine->error);
			hr_error_context(&engine->error, "gpu '%s' cannot use memory of gpu '%s'",
					 engine->config.gpu[other].name,
					 engine->config.gpu[g].name);
		}
	return err;
}

static int allocate_engine_memory(struct hr_engine *engine)
{
	int err = 0;

	for (uint32_t g = 0; !err && g < engine->config.gpus; g++) {
		if (!engine->gpu_up[g])
			continue;
		err = allocate_gpu_places(engine, g);
		if (!err)
			err = open_gpu(engine, g);
		if (!err)
			err = connect_ssds(engine, g);
		if (!err)
			err = share_gpu(engine, g);
	}
	return err;
}

static uint32_t count_direct(const struct hr_engine *engine)
{
	uint32_t count = 0;

	for (uint32_t g = 0; g < engine->config.gpus; g++)
		count += (uint32_t)__builtin_popcount(direct_ssds(engine, g));
	return count;
}

/* When a direct path is lost, its tiles move to another place, so lay out everything again. Each
 * repetition has one direct path less, so this ends. */
int hr_memory_up(struct hr_engine *engine)
{
	uint32_t direct;
	int err;

	do {
		direct = count_direct(engine);
		err = allocate_engine_memory(engine);
		if (!err || count_direct(engine) == direct)
			return err;
		hr_memory_down(engine);
		err = hr_partition_plan(engine);
	} while (!err);
	return err;
}

static void unmap_place(struct hr_engine *engine, uint32_t g, enum hr_place place)
{
	for (uint32_t d = 0; d < engine->config.ssds; d++)
		if (engine->mapped[place][g] & 1u << d)
			engine->ssd[d].transport.ops->unmap(&engine->ssd[d].transport,
							    &engine->memory[g].region[place]);
	engine->mapped[place][g] = 0;
}

void hr_memory_down(struct hr_engine *engine)
{
	for (uint32_t g = engine->config.gpus; g-- > 0;) {
		for (uint32_t d = 0; d < engine->config.ssds; d++)
			hr_detach_bar(engine, g, d);
		if (hr_any_controller_stuck(engine))
			continue;
		unmap_place(engine, g, HR_PLACE_GPU);
		unmap_place(engine, g, HR_PLACE_HOST);
		close_tap_memories(engine, g);
		hr_places_free(&engine->memory[g]);
	}
}
