/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Controllers driven through VFIO: the IOMMU limits them to the memory that is mapped for them, and
 * the kernel resets them when this process ends for any reason.
 */
#include "nvme/transport/hardware.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/log.h"
#include "nvme/transport/container.h"

struct vfio {
	struct hr_binding binding;
	struct hr_vfio_device device;
	struct hr_bar_map bar;
};

static int vfio_map(struct hr_transport *t, const struct hr_region *region, struct hr_error *e)
{
	return hr_vfio_map(region, e);
}

static void vfio_unmap(struct hr_transport *t, const struct hr_region *region)
{
	hr_vfio_unmap(region);
}

/* The kernel resets the function when it is closed. */
static int vfio_silence(struct hr_transport *t, bool for_good)
{
	struct vfio *vfio = t->impl;

	return hr_vfio_device_stop_dma(&vfio->device);
}

static void release_vfio(struct vfio *vfio)
{
	hr_vfio_device_unmap(&vfio->bar);
	hr_vfio_device_close(&vfio->device);
	hr_bind_undo(&vfio->binding);
	free(vfio);
}

static void vfio_close(struct hr_transport *t)
{
	release_vfio(t->impl);
	memset(t, 0, sizeof(*t));
}

static const struct hr_transport_ops vfio_ops = {
	.map = vfio_map,
	.unmap = vfio_unmap,
	.silence = vfio_silence,
	.close = vfio_close,
};

static int acquire_vfio(struct hr_transport *t, struct vfio *vfio, struct hr_function_state *state,
			struct hr_error *e)
{
	int err = hr_vfio_possible(state, e);

	if (!err)
		err = hr_nvme_bind(&vfio->binding, state, "vfio-pci", e);
	if (!err)
		err = hr_vfio_device_open(&vfio->device, state, e);
	if (!err)
		err = hr_vfio_device_enable(&vfio->device, HR_COMMAND_MSE, e);
	if (!err)
		err = hr_vfio_device_map(&vfio->device, 0, &vfio->bar, e);
	if (err)
		return err;
	snprintf(t->name, sizeof(t->name), "%s", state->bdf);
	t->vendor = state->vendor;
	t->device = state->device;
	t->bar = vfio->bar.cpu;
	t->bar_bytes = vfio->bar.bytes;
	err = hr_nvme_registers(t, e);
	if (!err) /* the kernel has reset the controller, so it writes to no memory yet */
		err = hr_vfio_device_enable(&vfio->device, HR_COMMAND_BME, e);
	return err;
}

int hr_vfio_open(struct hr_transport *t, const char *address, struct hr_error *e)
{
	struct hr_function_state state;
	struct vfio *vfio;
	int err = hr_nvme_function(address, &state, e);

	if (err)
		return err;
	memset(t, 0, sizeof(*t));
	vfio = calloc(1, sizeof(*vfio));
	if (!vfio)
		return hr_fail(e, HR_ERROR_MISSING, -ENOMEM, "%s: out of memory", state.bdf);
	err = acquire_vfio(t, vfio, &state, e);
	if (err) {
		release_vfio(vfio);
		memset(t, 0, sizeof(*t));
		return err;
	}
	t->ops = &vfio_ops;
	t->kind = HR_TRANSPORT_VFIO;
	t->impl = vfio;
	return 0;
}
