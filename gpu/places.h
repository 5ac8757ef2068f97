/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/places.h - the memory of a partition: one allocation per place, with its addresses for the
 * CPU, the workers and the controllers. Boot only, except upload and download, which allocate
 * nothing.
 */
#ifndef GPU_PLACES_H
#define GPU_PLACES_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/partition.h"
#include "gpu/backend.h"

/* All zero: nothing is allocated. region[] of a place without bytes stays zero. */
struct hr_places {
	struct hr_backend *backend;
	struct hr_region region[HR_PLACES];
	/* HR_PLACE_WORKER's cpu is a copy, because the CPU cannot access the memory */
	bool has_copy;
	bool has_words;		     /* HR_PLACE_TAP_WORDS is attached to the backend */
	struct hr_gpu_window window; /* of HR_PLACE_GPU, when opened */
	struct hr_gdr gdr;	     /* .open is NULL: not loaded */
};

/*
 * Allocate memory for every place whose bytes[] (page aligned, as hr_partition.used) is not 0:
 * CONTROL and HOST with nvme/dma/hostmem.h, attached for workers; WORKER and GPU from the backend,
 * which outlives this. All of it is zeroed, for the CPU and for workers. TAP and
 * TAP_WORDS are ranges of addresses without memory. 0; -ENOMEM, -ENOSPC and
 * errors of the backend: nothing stays allocated, and *e names the place.
 */
int hr_places_alloc(struct hr_places *places, struct hr_backend *backend,
		    const uint64_t bytes[HR_PLACES], struct hr_error *e);

/*
 * Let workers access HR_PLACE_TAP_WORDS, all of which has memory now; its region then has their
 * address. Does nothing on the host backend. 0; or as attach of the backend.
 */
int hr_places_attach_words(struct hr_places *places, struct hr_error *e);

/* Undo that, before parts of it get other memory. No worker runs. Does nothing when it is not
 * attached. */
void hr_places_detach_words(struct hr_places *places);

/*
 * Let other devices access HR_PLACE_GPU: its region then has bus addresses, and cpu when this
 * process can access it. Does nothing when the region already has them, as with host memory and
 * BARs. 0; -ENOTSUP: not possible with this backend or machine; or as hr_window_open().
 */
int hr_places_open_gpu(struct hr_places *places, struct hr_error *e);

/* Free all memory. No worker runs and no controller uses it. Does nothing when all zero. */
void hr_places_free(struct hr_places *places);

/*
 * Copy [offset, offset + bytes) of WORKER from the CPU's copy to worker memory, before a launch
 * (upload); the opposite direction, after its end (download). Launches that run have other parts of
 * the place. Does nothing when both are the same memory. 0 or -errno of the backend.
 */
int hr_places_upload(struct hr_places *places, uint64_t offset, uint64_t bytes, struct hr_error *e);
int hr_places_download(struct hr_places *places, uint64_t offset, uint64_t bytes,
		       struct hr_error *e);

#endif
