/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvme/tree.h - the NVMe controllers that the kernel's driver has, with their names and namespaces.
 *
 * The only user of libnvme's tree, which reads sysfs. A controller that another driver holds
 * (vfio-pci), or that headrace drives itself, is not in it.
 */
#ifndef NVME_TREE_H
#define NVME_TREE_H

#include <stdint.h>

#define HR_TREE_NAMESPACES 64u /* of a controller that are listed; more are counted */

struct hr_tree_namespace {
	char name
		[32]; /* "nvme0n1": the name of the block device, with multipath that of all paths */
	uint64_t bytes;
	uint32_t block_bytes;
};

/* Texts have no trailing blanks, and '?' for unprintable characters; "" when unknown. */
struct hr_tree_controller {
	char address[16]; /* of the PCI function: "0000:04:00.0" */
	char model[41], serial[21], firmware[9];
	uint32_t namespaces; /* those in namespace[] */
	uint32_t more;	     /* those that it has no room for */
	struct hr_tree_namespace namespace[HR_TREE_NAMESPACES];
};

/*
 * Call found() for each controller behind PCI Express. *controller is valid during the call. Returns
 * their number: 0 without such a controller, without the kernel's driver, without the library, and in a
 * static build.
 */
unsigned hr_nvme_tree(void (*found)(void *to, const struct hr_tree_controller *controller),
		      void *to);

#endif
