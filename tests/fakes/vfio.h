/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fakes/vfio.h - a kernel's VFIO with one container, in memory; tests link it in
 * place of nvme/transport/vfio_calls.c. Every group holds one function. Some members make a
 * call fail; others record the calls.
 *
 * The container has the kernel's states (drivers/vfio/container.c, vfio_iommu_type1.c): a group
 * joins it, then the IOMMU is set once, and only then devices are opened and memory is mapped. A
 * call in the wrong order fails as in the kernel (EINVAL). When the last group leaves, the IOMMU
 * and all mappings are gone. Arguments with a wrong argsz, or with flags that the kernel refuses,
 * also fail.
 */
#ifndef TESTS_FAKES_VFIO_H
#define TESTS_FAKES_VFIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nvme/transport/container.h"

#define FAKE_VFIO_MAPS 300u /* more than nvme/transport/container.c stores */
#define FAKE_VFIO_BAR_BYTES 0x4000u

#define FAKE_VFIO_RANGES 40u /* more than nvme/transport/container.c stores */

struct fake_vfio_map {
	uint64_t iova, bytes;
	uintptr_t cpu;
	uint32_t flags;
};

struct fake_vfio {
	/* errno of a failing call; 0: it works. */
	int no_container, no_group, no_status, no_join, no_iommu, no_device, no_config, no_bar;
	int no_map, no_unmap;
	uint32_t map_fails_at; /* number of mappings that succeed before the failure */
	bool only_iommufd;     /* there is /dev/iommu */
	bool no_iommu_mode;    /* there is /dev/vfio/noiommu-N */
	bool old_version, no_type1, not_viable, bar_is_not_memory;
	uint16_t stuck;	       /* bits of the command register that a write does not change */
	uint64_t last_iova;    /* of the IOMMU's last range; 0: not reported */
	unsigned ranges;       /* number of ranges, at most FAKE_VFIO_RANGES; 0: two */
	uint32_t info_argsz;   /* reported length of the information; 0: the true length */
	uint32_t info_cap_at;  /* reported offset of the first capability; 0: the true offset */
	bool info_other_first; /* another capability comes before the ranges */
	bool info_chain_back;  /* the first capability names itself as the next one */

	unsigned containers, groups, devices; /* open file descriptors */
	unsigned bars;			      /* mappings of BARs */
	unsigned joined;		      /* groups in the container */
	bool has_iommu;			      /* the container's IOMMU is set */
	unsigned iommus;		      /* how often the IOMMU was set */
	uint16_t command;
	uint8_t *bar; /* FAKE_VFIO_BAR_BYTES, of every device */
	struct fake_vfio_map map[FAKE_VFIO_MAPS];
	unsigned maps;
};

/* Reset the only instance to a state where all calls succeed, as after a boot, and return it. */
struct fake_vfio *fake_vfio_start(void);

#endif
