/* SPDX-License-Identifier: Apache-2.0 */
#include "nvme/dma/prp.h"

void hr_prp_build(struct hr_prp *prp, const struct hr_region *data, size_t offset, uint32_t bytes,
		  const struct hr_region *lists, size_t list_offset)
{
	const uint32_t pages = (bytes + HR_PAGE - 1) / HR_PAGE;
	uint64_t *entry;

	prp->first = hr_region_bus(data, offset).addr;
	prp->second = pages > 1 ? hr_region_bus(data, offset + HR_PAGE).addr : 0;
	prp->list = 0;
	if (pages <= 2)
		return;
	prp->list = hr_region_bus(lists, list_offset).addr;
	entry = (uint64_t *)(void *)((uint8_t *)lists->cpu + list_offset);
	for (uint32_t page = 1; page < pages; page++)
		entry[page - 1] = hr_region_bus(data, offset + page * (size_t)HR_PAGE).addr;
}
