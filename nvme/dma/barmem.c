/* SPDX-License-Identifier: Apache-2.0 */
#include "nvme/dma/barmem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/base/limits.h"
#include "nvme/dma/hostmem.h"

int hr_barmem_open(struct hr_barmem *m, const char *address, int bar, struct hr_error *e)
{
	struct hr_function_state state;
	int err = hr_function_look(address, &state, e);

	memset(m, 0, sizeof *m);
	if (err)
		return err;
	if (state.driver[0])
		return hr_fail(e, HR_ERROR_MISSING, -EBUSY,
			       "%s: the kernel driver %s owns its BARs; unbind it: echo %s > "
			       "/sys/bus/pci/drivers/%s/unbind",
			       state.bdf, state.driver, state.bdf, state.driver);
	err = hr_function_open(&m->function, state.bdf, e);
	if (err)
		return err;
	m->bar = bar == HR_BARMEM_PEER ? hr_function_peer_bar(&m->function) : (unsigned)bar;
	err = hr_function_enable(&m->function, HR_COMMAND_MSE, e);
	if (!err)
		err = hr_function_map(&m->function, m->bar, &m->map, e);
	if (err)
		hr_barmem_close(m);
	return err;
}

void hr_barmem_close(struct hr_barmem *m)
{
	hr_function_unmap(&m->function, &m->map);
	hr_function_close(&m->function);
	memset(m, 0, sizeof *m);
}

/* Write words of eight bytes: device memory may not accept every access width that memset()
 * uses. */
static void zero_bar(void *at, size_t bytes)
{
	volatile uint64_t *word = at;

	for (size_t i = 0; i < bytes / sizeof *word; i++)
		word[i] = 0;
}

int hr_barmem_alloc(struct hr_barmem *m, struct hr_region *region, const char *name, size_t bytes,
		    struct hr_error *e)
{
	const size_t all = (bytes + HR_PAGE - 1) & ~((size_t)HR_PAGE - 1);
	struct hr_bus bus = { m->map.bus + m->used };
	int err = 0;

	memset(region, 0, sizeof *region);
	if (bytes == 0)
		return -EINVAL;
	if (all < bytes || all > m->map.bytes - m->used)
		return hr_fail(
			e, HR_ERROR_MISSING, -ENOMEM,
			"%s: BAR%u has %zu bytes left of %zu, and %zu are needed for '%s'; use "
			"smaller tiles, fewer slots, or a larger BAR",
			m->function.bdf, m->bar, m->map.bytes - m->used, m->map.bytes, all, name);
	m->own = hr_hostmem_kind() == HR_HOSTMEM_OWN;
	if (m->own)
		err = hr_region_assign_bus(all, &bus);
	if (err)
		return hr_fail(e, HR_ERROR_MISSING, err,
			       "%s: BAR%u: no I/O addresses left for %zu bytes of '%s'",
			       m->function.bdf, m->bar, all, name);
	*region = (struct hr_region){ .name = name,
				      .kind = HR_REGION_BAR,
				      .cpu = (uint8_t *)m->map.cpu + m->used,
				      .bytes = all,
				      .bus = bus };
	region->worker = region->cpu;
	zero_bar(region->cpu, all);
	m->used += all;
	m->regions++;
	return 0;
}

void hr_barmem_free(struct hr_barmem *m, struct hr_region *region)
{
	if (!region->bytes)
		return;
	if (m->own)
		hr_region_unassign_bus();
	if (--m->regions == 0)
		m->used = 0;
	memset(region, 0, sizeof *region);
}
