/*
 * gpu/places.h - the memory behind a partition: one allocation per place, as the CPU, the workers
 * and the controllers reach it. Boot only, but for upload and download, which allocate nothing.
 */
#ifndef GPU_PLACES_H
#define GPU_PLACES_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/arena.h"
#include "gpu/backend.h"

/* All zero: nothing is taken. region[] of a place without bytes stays zero. */
struct hr_places {
	struct hr_backend *backend;
	struct hr_region region[HR_PLACES];
	size_t asked;  /* of HR_PLACE_WORKER; a backend gives it in pieces of its own size */
	bool has_copy; /* HR_PLACE_WORKER's cpu is one, because the CPU cannot touch the memory */
	struct hr_gpu_window window; /* into HR_PLACE_GPU, when it was opened */
	struct hr_gdr gdr;	     /* open() NULL: not loaded */
};

/*
 * Take memory for every place of which bytes[] (page aligned, as hr_partition.used) is not 0:
 * CONTROL and HOST from nvme/hostmem.h, made reachable for workers; WORKER and GPU from the backend,
 * which outlives this. All of it is zeroed, as the CPU and as workers see it.
 * 0; -ENOMEM, -ENOSPC and what the backend returns: nothing is kept, and *failed is the place.
 */
int hr_places_take(struct hr_places *places, struct hr_backend *backend,
		   const uint64_t bytes[HR_PLACES], enum hr_place *failed);

/*
 * Let other devices into HR_PLACE_GPU: its region then has bus addresses, and cpu where this process
 * sees it. Nothing to do where it has them from the beginning, as host memory and BARs do. message
 * (HR_LOG_LINE_MAX bytes) says why not. 0; -ENOTSUP: the backend, or this machine, has no way to do
 * that; or as hr_window_open().
 */
int hr_places_open_gpu(struct hr_places *places, char *message);

/* Give all of it back. No worker runs and no controller uses it. Nothing when all zero. */
void hr_places_give(struct hr_places *places);

/*
 * Make what the CPU wrote into the place WORKER what workers see, before a launch; and the other way
 * round, after the end: as many bytes as were asked for. Nothing to do where both are one memory.
 * 0 or -errno of the backend.
 */
int hr_places_upload(struct hr_places *places);
int hr_places_download(struct hr_places *places);

#endif
