/*
 * boot/engine/paths.h - how the ssd and the gpu of each pair meet: direct or bounce.
 */
#ifndef BOOT_ENGINE_PATHS_H
#define BOOT_ENGINE_PATHS_H

#include "boot/engine/appliance.h"

/* Why an ssd does not reach a place of memory, for a message. */
struct hr_obstacle {
	char what[320];	   /* "": the way is not to blame, and what is has been logged */
	char suspect[448]; /* what most likely stands in the way, or "" */
};

/*
 * Choose the path of each pair that a selected pipeline uses; the first part of stage `partition`. 0,
 * or as hr_path_choose(), logged.
 */
int hr_paths_up(struct hr_appliance *app);

/*
 * The direct paths between gpu g and these ssds (a bit each) do not work; `object` is whose message
 * that is. With memory.path = "auto" and queues in host memory they become bounce, with a warning:
 * true. Otherwise an error is logged.
 */
bool hr_paths_lost(struct hr_appliance *app, uint32_t g, uint32_t ssds, const char *object,
		   const struct hr_obstacle *obstacle);

/* A selected pipeline of that gpu uses that ssd. */
bool hr_pair_used(const struct hr_appliance *app, uint32_t g, uint32_t d);

/* "host memory (host backend)": where tiles of that gpu lie that are not direct, and why. */
const char *hr_gpu_path(const struct hr_appliance *app, uint32_t gpu);

/* "direct (GPU memory)" and the like: where the tiles of a pipeline lie. */
const char *hr_run_path(const struct hr_appliance *app, const struct hr_run *run);

/* PCI address of the function whose memory is the gpu's, "" when no ssd can reach it. */
const char *hr_gpu_address(const struct hr_backend *b);

#endif
