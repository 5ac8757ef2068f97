/*
 * tests/fake/vfio.h - a kernel's VFIO with one container, in memory: put in place of the system
 * calls of nvme/vfio.c. Every group holds one function. Knobs make a call fail; the rest says what
 * was done.
 */
#ifndef TESTS_FAKE_VFIO_H
#define TESTS_FAKE_VFIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nvme/vfio.h"

#define FAKE_VFIO_MAPS 300u /* more than nvme/vfio.c keeps */
#define FAKE_VFIO_BAR_BYTES 0x4000u

struct fake_vfio_map {
	uint64_t iova, bytes;
	uintptr_t cpu;
};

struct fake_vfio {
	/* errno that a call fails with; 0: it works. */
	int no_container, no_group, no_status, no_join, no_iommu, no_device, no_bar, no_map;
	uint32_t map_fails_at; /* this many mappings work first */
	bool no_type1, not_viable, bar_is_not_memory;
	bool command_is_stuck; /* the command register keeps its value */
	uint64_t last_iova;    /* of the one range that the IOMMU has; 0: it does not say */

	unsigned containers, groups, devices; /* open */
	uint16_t command;
	uint8_t *bar; /* FAKE_VFIO_BAR_BYTES, of every device */
	struct fake_vfio_map map[FAKE_VFIO_MAPS];
	unsigned maps;
};

/* The one there is, all working, and in place. */
struct fake_vfio *fake_vfio_start(void);

#endif
