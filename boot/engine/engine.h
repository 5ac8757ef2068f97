/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/engine.h - the appliance as one struct: ssds, gpus, paths, the partition, runs.
 */
#ifndef BOOT_ENGINE_ENGINE_H
#define BOOT_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "boot/engine/run.h"
#include "boot/engine/sets.h"
#include "boot/engine/devices/ssd.h"
#include "config/config.h"
#include "config/base/log.h"
#include "gpu/partition.h"
#include "gpu/backend.h"
#include "gpu/places.h"

/* Stages of bring-up, in order. */
enum hr_stage {
	HR_STAGE_NONE,
	HR_STAGE_BACKENDS,
	HR_STAGE_CONTROLLERS,
	HR_STAGE_STORES,  /* object stores are open, where the ssd has one */
	HR_STAGE_OBJECTS, /* sources are found, sizes and tiles are known */
	/* memory is laid out and checked, not allocated: `headrace check`, which also checks the
	 * sinks */
	HR_STAGE_PARTITION,
	HR_STAGE_MEMORY, /* memory is allocated and mapped into the controllers */
	HR_STAGE_SINKS,	 /* sink objects are created, or will be resumed */
	HR_STAGE_QUEUES, /* queue pairs are created, pipelines are ready to launch */
	HR_STAGES,
};

/* The path between an ssd and a gpu. */
struct hr_path {
	bool pair;		    /* two PCI functions: the topology was asked */
	bool direct;		    /* tiles lie in GPU memory, and the ssd reaches them there */
	char verdict[48], rule[16]; /* of the topology, "" without a pair */
	char suspect[16];	    /* rule to report when the path still does not work, or "" */
	char suspect_why[256];	    /* one sentence */
	char why[1600];		    /* one sentence: reason of the topology, and later findings */
};

/* The memory of the tiles of a tap, which consumers map. */
struct hr_tap_tiles {
	bool up;
	int fd;		     /* valid while `up` */
	uint64_t bytes;	     /* of that memory object */
	struct hr_sets sets; /* on a GPU; on the host backend each consumer gets new objects */
	/* A run was broken off: consumers may still read tiles, so the next run gets other
	 * memory. */
	bool may_be_read;
};

/* The memory of a feed on a GPU: its producers map the tiles one after the other, and each a set of its
 * own. */
struct hr_feed_memory {
	bool up;
	int tiles;	/* a descriptor, valid while `up` */
	uint64_t bytes; /* of that memory object */
	struct hr_sets sets;
};

struct hr_elsewhere;

struct hr_engine {
	struct hr_config config;
	struct hr_ssd ssd[HR_SSDS_MAX];
	struct hr_backend backend[HR_GPUS_MAX];
	struct hr_partition partition[HR_GPUS_MAX]; /* one per gpu */
	/* of pairs that a selected pipeline uses */
	struct hr_path path[HR_GPUS_MAX][HR_SSDS_MAX];
	struct hr_places memory[HR_GPUS_MAX];
	/* bit per ssd: the place is mapped into it; the first ssd of a controller stands for all */
	uint32_t mapped[HR_PLACES][HR_GPUS_MAX];
	/* BAR of an ssd that the gpu uses; address for workers */
	void *bar[HR_GPUS_MAX][HR_SSDS_MAX];
	bool gpu_used[HR_GPUS_MAX], gpu_up[HR_GPUS_MAX];
	bool gpu_left_out[HR_GPUS_MAX]; /* awaited: not opened, and not tested */
	struct hr_run run[HR_PIPELINES_MAX];
	struct hr_tap_tiles tap_tiles[HR_PIPELINES_MAX];     /* by index of the pipeline */
	struct hr_feed_memory feed_memory[HR_PIPELINES_MAX]; /* by index of the pipeline */
	/*
	 * true: leave out a pipeline that fails, or an ssd that fails with its pipelines, and run
	 * the others (`headrace boot`); false: the failure ends the stage. Set after
	 * hr_engine_init().
	 */
	bool keep_going;
	bool only_checks; /* nothing is written, so no disk is reserved; set after init */
	/* With only_checks, for ssds that other processes drive
	 * (boot/engine/devices/stand_in.h); NULL: such an ssd is an error. */
	const struct hr_elsewhere *elsewhere;
	/* not brought up, because no selected pipeline uses it */
	bool left_out[HR_SSDS_MAX];
	bool gpu_failed[HR_GPUS_MAX]; /* failed while a pipeline ran on it */
	/* limit for workers without progress; 0: as in boot/engine/runner/stall.h */
	uint64_t timeout_ns;
	/* A run looks its objects up when it starts; false: when it is brought up with the
	 * others. */
	bool resolves_late;
	/* Called in each round while pipelines run, between two uses of the stores; NULL: nothing
	 * is. It neither allocates nor waits. */
	void (*serve)(void *to);
	void *serve_to;
	uint32_t min_blocks;   /* minimum blocks of backends, besides those of pipelines */
	uint64_t collect_ns;   /* remove incomplete objects older than this; 0: none */
	bool refused;	       /* bring-up failed for a reason that will not change by itself */
	struct hr_error error; /* of the stage that fails; hr_engine_up() logs it */
	enum hr_stage up;      /* last stage that is up */
};

/* True when a controller does not stop: memory that it may still write to is never freed. */
static inline bool hr_any_controller_stuck(const struct hr_engine *engine)
{
	bool any = false;

	for (uint32_t d = 0; d < HR_SSDS_MAX; d++)
		any |= engine->ssd[d].health.state == HR_HEALTH_STUCK;
	return any;
}

/* True when both are the same ssd, or are up on one controller. */
static inline bool hr_one_controller(const struct hr_engine *engine, uint32_t a, uint32_t b)
{
	return a == b || hr_ssd_same_controller(&engine->ssd[a], &engine->ssd[b]);
}

/* The first ssd of the controller that ssd d is up on; it stands for work that is done once per
 * controller. */
static inline uint32_t hr_first_of_controller(const struct hr_engine *engine, uint32_t d)
{
	uint32_t first = 0;

	while (!hr_one_controller(engine, first, d))
		first++;
	return first;
}

/* Place of the tiles to and from that ssd, and of the rings of its queue pairs. */
static inline enum hr_place hr_tile_place(const struct hr_engine *engine, uint32_t g, uint32_t d)
{
	return engine->path[g][d].direct ? HR_PLACE_GPU : HR_PLACE_HOST;
}
static inline enum hr_place hr_ring_place(const struct hr_engine *engine, uint32_t g, uint32_t d)
{
	return engine->config.queues == HR_QUEUES_GPU ? hr_tile_place(engine, g, d) : HR_PLACE_HOST;
}

#endif
