/*
 * boot/engine/appliance.h - the appliance as one struct: ssds, gpus, paths, the partition, runs.
 */
#ifndef BOOT_ENGINE_APPLIANCE_H
#define BOOT_ENGINE_APPLIANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "boot/engine/run.h"
#include "boot/engine/ssd.h"
#include "config/config.h"
#include "config/log.h"
#include "gpu/arena.h"
#include "gpu/backend.h"
#include "gpu/places.h"

/* How far bring-up goes. */
enum hr_stage {
	HR_STAGE_NONE,
	HR_STAGE_BACKENDS,
	HR_STAGE_CONTROLLERS,
	HR_STAGE_STORES,    /* open where there is one */
	HR_STAGE_OBJECTS,   /* sources found, sizes and tiles known */
	HR_STAGE_PARTITION, /* laid out and checked, nothing allocated: `headrace check`, which also
			     * judges the sinks */
	HR_STAGE_MEMORY,    /* allocated, mapped into the controllers */
	HR_STAGE_SINKS,	    /* sink objects created, or found to be resumed */
	HR_STAGE_QUEUES,    /* queue pairs created, pipelines ready to launch */
	HR_STAGES,
};

/* How an ssd and a gpu meet. */
struct hr_path {
	bool pair;		    /* two PCI functions: the topology was asked */
	bool direct;		    /* tiles lie in GPU memory, and the ssd reaches them there */
	char verdict[48], rule[16]; /* of the topology, "" without a pair */
	char suspect[16];	    /* rule to blame when it does not work all the same, or "" */
	char suspect_why[256];	    /* one sentence */
	char why[768];		    /* one sentence: the topology's, and what was found since */
};

struct hr_appliance {
	struct hr_config config;
	struct hr_ssd ssd[HR_SSDS_MAX];
	struct hr_backend backend[HR_GPUS_MAX];
	struct hr_partition partition[HR_GPUS_MAX];    /* one per gpu */
	struct hr_path path[HR_GPUS_MAX][HR_SSDS_MAX]; /* of pairs that a pipeline uses */
	struct hr_places memory[HR_GPUS_MAX];
	uint32_t mapped[HR_PLACES]
		       [HR_GPUS_MAX];	     /* bit per ssd: that place is mapped into it; of the
						  * ssds of a controller the first has it */
	void *bar[HR_GPUS_MAX][HR_SSDS_MAX]; /* of an ssd that the gpu uses, as workers see it */
	bool gpu_used[HR_GPUS_MAX], gpu_up[HR_GPUS_MAX];
	char gpu_note[HR_GPUS_MAX][HR_LOG_LINE_MAX]; /* what its backend is not as asked, or "" */
	struct hr_run run[HR_PIPELINES_MAX];
	/*
	 * A pipeline, or an ssd of some of them, that does not work is left out, and the others run
	 * (`headrace boot`); false: it fails the stage. To be set behind hr_appliance_init().
	 */
	bool keep_going;
	bool only_checks; /* nothing is written, so no disk is reserved; set behind init as well */
	bool left_out[HR_SSDS_MAX];   /* not brought up; no selected pipeline uses it */
	bool gpu_failed[HR_GPUS_MAX]; /* while a pipeline ran on it */
	uint64_t patience_ns; /* with workers that do not move; 0: as in boot/engine/watch.h */
	uint32_t min_blocks;  /* that backends must offer, besides what pipelines need */
	uint64_t collect_ns;  /* incomplete objects older than that are removed; 0: none */
	bool refused;	      /* bring-up failed for a reason that is the same the next time */
	bool stuck; /* a controller does not stop: memory it may still write to is never freed */
	enum hr_stage up; /* last stage that is up */
};

/* Both are one ssd, or up on one controller. */
static inline bool hr_one_controller(const struct hr_appliance *app, uint32_t a, uint32_t b)
{
	return a == b || hr_ssd_share(&app->ssd[a], &app->ssd[b]);
}

/* The first ssd of the controller that ssd d is up on: what is done once a controller is its. */
static inline uint32_t hr_first_of_controller(const struct hr_appliance *app, uint32_t d)
{
	uint32_t first = 0;

	while (!hr_one_controller(app, first, d))
		first++;
	return first;
}

/* Where tiles to and from that ssd lie, and the rings of its queue pairs. */
static inline enum hr_place hr_tile_place(const struct hr_appliance *app, uint32_t g, uint32_t d)
{
	return app->path[g][d].direct ? HR_PLACE_GPU : HR_PLACE_HOST;
}
static inline enum hr_place hr_ring_place(const struct hr_appliance *app, uint32_t g, uint32_t d)
{
	return app->config.queues == HR_QUEUES_GPU ? hr_tile_place(app, g, d) : HR_PLACE_HOST;
}

#endif
