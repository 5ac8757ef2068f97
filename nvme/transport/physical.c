/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Controllers driven by physical addresses, through libpciaccess. No IOMMU protects memory from
 * such a controller, so no kernel driver may be bound to it, and no IOMMU may translate its
 * addresses.
 */
#include "nvme/transport/hardware.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "nvme/queue/wire.h"

struct pci {
	struct hr_binding binding;
	struct hr_function function;
	struct hr_bar_map bar;
};

static int check_iommu(const struct hr_function_state *state, struct hr_error *e)
{
	if (!hr_function_translated(state))
		return 0;
	return hr_fail(
		e, HR_ERROR_MISSING, -ENOTSUP,
		"%s: IOMMU group %d is of type '%s', so physical addresses do not reach memory; "
		"use vfio:%s, or boot with iommu=pt",
		state->bdf, state->group, state->group_type[0] ? state->group_type : "unknown",
		state->bdf);
}

/* No window to open. A region without physical addresses is refused: the controller would write
 * to arbitrary memory. */
static int pci_map(struct hr_transport *t, const struct hr_region *region, struct hr_error *e)
{
	if (region->kind != HR_REGION_BAR && !region->granule_bus)
		return hr_fail(e, HR_ERROR_MISSING, -EINVAL,
			       "region '%s' has no physical addresses", region->name);
	return 0;
}

static void pci_unmap(struct hr_transport *t, const struct hr_region *region)
{
}

static void release_pci(struct pci *pci)
{
	hr_function_unmap(&pci->function, &pci->bar);
	hr_function_close(&pci->function);
	hr_bind_undo(&pci->binding);
	free(pci);
}

static int pci_silence(struct hr_transport *t, bool for_good)
{
	struct pci *pci = t->impl;

	return hr_function_stop_dma(&pci->function, for_good);
}

/* A controller that is still enabled may write to memory that another process owns by now. */
static void pci_close(struct hr_transport *t)
{
	struct pci *pci = t->impl;
	const uint32_t cc = hr_reg_read32(t, NVME_REG_CC);

	if (NVME_CC_EN(cc) && cc != UINT32_MAX) {
		hr_warn("%s: the controller is still enabled; turning off its bus mastering",
			t->name);
		hr_function_stop_dma(&pci->function, true);
	}
	release_pci(pci);
	memset(t, 0, sizeof(*t));
}

static const struct hr_transport_ops pci_ops = {
	.map = pci_map,
	.unmap = pci_unmap,
	.silence = pci_silence,
	.close = pci_close,
};

/*
 * The previous driver may have left the controller enabled, with queues in memory that is now free.
 * Disable it before it may master the bus. CAP.TO is in units of 500 ms. Registers may read all ones
 * for a while.
 */
static int disable_left_enabled(struct hr_transport *t, struct hr_error *e)
{
	const uint64_t limit_ms = 500ull * (NVME_CAP_TO(hr_reg_read64(t, NVME_REG_CAP)) + 1ull);
	const uint64_t began = hr_now_ns();
	const uint32_t cc = hr_reg_read32(t, NVME_REG_CC);
	uint32_t csts;

	if (!NVME_CC_EN(cc))
		return 0;
	hr_reg_write32(t, NVME_REG_CC, cc & ~(1u << NVME_CC_EN_SHIFT));
	while (NVME_CSTS_RDY(csts = hr_reg_read32(t, NVME_REG_CSTS))) {
		if (hr_now_ns() - began >= limit_ms * HR_NS_PER_MS)
			break;
		hr_wait_ns(HR_NS_PER_MS);
	}
	if (csts == UINT32_MAX)
		return hr_fail(e, HR_ERROR_MISSING, -ENODEV,
			       "%s: CSTS reads ffffffff: the device is gone", t->name);
	if (!NVME_CSTS_RDY(csts))
		return 0;
	return hr_fail(e, HR_ERROR_DEVICE, -EIO,
		       "%s: was enabled, and CSTS.RDY is still 1 %llu ms after CC.EN was cleared",
		       t->name, (unsigned long long)limit_ms);
}

static int acquire_pci(struct hr_transport *t, struct pci *pci, struct hr_function_state *state,
		       struct hr_error *e)
{
	int err = hr_nvme_bind(&pci->binding, state, NULL, e);

	if (!err)
		err = hr_function_open(&pci->function, state->bdf, e);
	if (!err)
		err = hr_function_enable(&pci->function, HR_COMMAND_MSE, e);
	if (!err)
		err = hr_function_map(&pci->function, 0, &pci->bar, e);
	if (err)
		return err;
	snprintf(t->name, sizeof(t->name), "%s", state->bdf);
	t->vendor = state->vendor;
	t->device = state->device;
	t->bar = pci->bar.cpu;
	t->bar_bytes = pci->bar.bytes;
	err = hr_nvme_registers(t, e);
	if (!err)
		err = disable_left_enabled(t, e);
	if (!err)
		err = hr_function_enable(&pci->function, HR_COMMAND_BME, e);
	return err;
}

int hr_pci_open(struct hr_transport *t, const char *address, struct hr_error *e)
{
	struct hr_function_state state;
	struct pci *pci;
	int err = hr_nvme_function(address, &state, e);

	if (!err)
		err = check_iommu(&state, e);
	if (err)
		return err;
	memset(t, 0, sizeof(*t));
	pci = calloc(1, sizeof(*pci));
	if (!pci)
		return hr_fail(e, HR_ERROR_MISSING, -ENOMEM, "%s: out of memory", state.bdf);
	err = acquire_pci(t, pci, &state, e);
	if (err) {
		release_pci(pci);
		memset(t, 0, sizeof(*t));
		return err;
	}
	t->ops = &pci_ops;
	t->kind = HR_TRANSPORT_PCI;
	t->impl = pci;
	return 0;
}
