/*
 * tests/fakes/vfio.h - a kernel's VFIO with one container, in memory: put in place of the system
 * calls of nvme/vfio.c. Every group holds one function. Knobs make a call fail; the rest says what
 * was done.
 *
 * The container has the kernel's states (drivers/vfio/container.c, vfio_iommu_type1.c): a group
 * joins it, then the IOMMU is set once, and only then devices open and memory is mapped. A call in
 * the wrong order fails as in the kernel (EINVAL). The last group that leaves takes the IOMMU and
 * all mappings with it. Arguments with a wrong argsz or flags that the kernel refuses fail, too.
 */
#ifndef TESTS_FAKES_VFIO_H
#define TESTS_FAKES_VFIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nvme/vfio.h"

#define FAKE_VFIO_MAPS 300u /* more than nvme/vfio.c keeps */
#define FAKE_VFIO_BAR_BYTES 0x4000u

#define FAKE_VFIO_RANGES 40u /* more than nvme/vfio.c keeps */

struct fake_vfio_map {
	uint64_t iova, bytes;
	uintptr_t cpu;
	uint32_t flags;
};

struct fake_vfio {
	/* errno that a call fails with; 0: it works. */
	int no_container, no_group, no_status, no_join, no_iommu, no_device, no_bar, no_map;
	uint32_t map_fails_at; /* this many mappings work first */
	bool no_type1, not_viable, bar_is_not_memory;
	bool command_is_stuck; /* the command register keeps its value */
	uint64_t last_iova;    /* of the last range that the IOMMU has; 0: it does not say */
	unsigned ranges;       /* how many it has, at most FAKE_VFIO_RANGES; 0: two */
	uint32_t info_argsz; /* bytes that the IOMMU says its information has; 0: the true number */
	uint32_t info_cap_at;  /* where it says its first capability lies; 0: the true place */
	bool info_other_first; /* another capability comes before the ranges */
	bool info_chain_back;  /* the first capability names itself as the next */

	unsigned containers, groups, devices; /* open */
	unsigned joined;		      /* groups in the container */
	bool has_iommu;			      /* the container's IOMMU is set */
	unsigned iommus;		      /* times that it was set */
	uint16_t command;
	uint8_t *bar; /* FAKE_VFIO_BAR_BYTES, of every device */
	struct fake_vfio_map map[FAKE_VFIO_MAPS];
	unsigned maps;
};

/* The one there is, all working, and in place. */
struct fake_vfio *fake_vfio_start(void);

#endif
