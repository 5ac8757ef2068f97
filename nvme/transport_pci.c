/*
 * Controllers driven by physical addresses, through libpciaccess. Nothing stands between them and
 * memory, so nothing may be bound to them, and nothing may translate what they do.
 */
#include "nvme/transports.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/clock.h"
#include "config/log.h"
#include "nvme/ctrl.h"

struct pci {
	struct hr_binding binding;
	struct hr_function function;
	struct hr_bar_map bar;
};

static int check_iommu(const struct hr_function_state *state, char *message)
{
	if (!hr_function_translated(state))
		return 0;
	snprintf(message, HR_LOG_LINE_MAX,
		 "%s: IOMMU group %d is of type '%s', so physical addresses do not reach memory; "
		 "use vfio:%s, or boot with iommu=pt",
		 state->bdf, state->group, state->group_type[0] ? state->group_type : "unknown",
		 state->bdf);
	return -ENOTSUP;
}

/* No window to open. What is refused here would have made the controller write anywhere. */
static int pci_map(struct hr_transport *t, const struct hr_region *region)
{
	if (region->kind != HR_REGION_BAR && !region->granule_bus) {
		hr_error("%s: region '%s' has no physical addresses", t->name, region->name);
		return -EINVAL;
	}
	return 0;
}

static void pci_unmap(struct hr_transport *t, const struct hr_region *region)
{
}

static void release(struct pci *pci)
{
	hr_function_unmap(&pci->function, &pci->bar);
	hr_function_close(&pci->function);
	hr_bind_undo(&pci->binding);
	free(pci);
}

/* A controller that is still enabled may write to memory that is somebody else's by now. */
static void pci_close(struct hr_transport *t)
{
	struct pci *pci = t->impl;
	const uint32_t cc = hr_reg_read32(t, NVME_REG_CC);

	if (NVME_CC_EN(cc) && cc != UINT32_MAX) {
		hr_warn("%s: is still enabled; its bus mastering is turned off", t->name);
		hr_function_silence(&pci->function);
	}
	release(pci);
	memset(t, 0, sizeof(*t));
}

static const struct hr_transport_ops pci_ops = {
	.map = pci_map,
	.unmap = pci_unmap,
	.close = pci_close,
};

/*
 * Whoever drove it before may have left it enabled, with queues in memory that is no longer theirs.
 * It must let go of them before it may master the bus. CAP.TO is in units of 500 ms.
 */
static int settle(struct hr_transport *t, char *message)
{
	const uint64_t limit_ms = 500ull * (NVME_CAP_TO(hr_reg_read64(t, NVME_REG_CAP)) + 1ull);
	const uint64_t began = hr_now_ns();
	const uint32_t cc = hr_reg_read32(t, NVME_REG_CC);
	uint32_t csts;

	if (!NVME_CC_EN(cc))
		return 0;
	hr_reg_write32(t, NVME_REG_CC, cc & ~(1u << NVME_CC_EN_SHIFT));
	while (NVME_CSTS_RDY(csts = hr_reg_read32(t, NVME_REG_CSTS))) {
		if (csts == UINT32_MAX) {
			snprintf(message, HR_LOG_LINE_MAX,
				 "%s: CSTS reads ffffffff: the device is gone", t->name);
			return -ENODEV;
		}
		if (hr_now_ns() - began >= limit_ms * HR_NS_PER_MS) {
			snprintf(message, HR_LOG_LINE_MAX,
				 "%s: was enabled, and CSTS.RDY is still 1 %llu ms after CC.EN was "
				 "cleared",
				 t->name, (unsigned long long)limit_ms);
			return -EIO;
		}
		hr_wait_ns(HR_NS_PER_MS);
	}
	return 0;
}

static int take(struct hr_transport *t, struct pci *pci, struct hr_function_state *state,
		char *message)
{
	int err = hr_nvme_bind(&pci->binding, state, NULL, message);

	if (!err)
		err = hr_function_open(&pci->function, state->bdf, message);
	if (!err)
		err = hr_function_enable(&pci->function, HR_COMMAND_MSE, message);
	if (!err)
		err = hr_function_map(&pci->function, 0, &pci->bar, message);
	if (err)
		return err;
	snprintf(t->name, sizeof(t->name), "%s", state->bdf);
	t->bar = pci->bar.cpu;
	t->bar_bytes = pci->bar.bytes;
	err = hr_nvme_registers(t, message);
	if (!err)
		err = settle(t, message);
	if (!err)
		err = hr_function_enable(&pci->function, HR_COMMAND_BME, message);
	return err;
}

int hr_pci_open(struct hr_transport *t, const char *address, char *message)
{
	struct hr_function_state state;
	struct pci *pci;
	int err = hr_nvme_function(address, &state, message);

	if (!err)
		err = check_iommu(&state, message);
	if (err)
		return err;
	memset(t, 0, sizeof(*t));
	pci = calloc(1, sizeof(*pci));
	if (!pci) {
		snprintf(message, HR_LOG_LINE_MAX, "%s: out of memory", state.bdf);
		return -ENOMEM;
	}
	err = take(t, pci, &state, message);
	if (err) {
		release(pci);
		memset(t, 0, sizeof(*t));
		return err;
	}
	t->ops = &pci_ops;
	t->kind = HR_TRANSPORT_PCI;
	t->impl = pci;
	return 0;
}
