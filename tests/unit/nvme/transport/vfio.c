/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport of controllers through VFIO, over a fake kernel and functions made of files: what is
 * refused, and that nothing of a refused controller is left.
 */
#include "nvme/transport/transport.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <linux/vfio.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "boot/engine/devices/devices.h"
#include "config/base/bytes.h"
#include "nvme/ctrl.h"
#include "nvme/queue/wire.h"
#include "tests/fakes/calloc.h"
#include "tests/fakes/tree.h"
#include "tests/fakes/vfio.h"
#include "tests/harness/error.h"
#include "tests/harness/heap.h"

#define NVME "0000:03:00.0"
#define VFIO "0000:04:00.0"
#define FREE "0000:05:00.0"
#define GPU "0000:06:00.0"
#define UIO "0000:07:00.0"
#define BAR_BYTES 0x4000u

TestSuite(transport_vfio, .timeout = 60);

static struct fake_tree tree;
static struct fake_vfio *fake;
static struct hr_transport t;
static char space[64]; /* an address */
static const struct hr_region whole = {
	.name = "whole", .cpu = space, .bytes = 1u << 20, .bus = { 64ull << 30 }
};

/* Functions of group 1, the first `count` of these. */
static void run_with(unsigned count, int (*inside)(void *arg))
{
	static const struct {
		const char *bdf, *driver;
		uint32_t class;
	} fn[] = { { NVME, "nvme", HR_CLASS_NVME },
		   { VFIO, "vfio-pci", HR_CLASS_NVME },
		   { FREE, NULL, HR_CLASS_NVME },
		   { GPU, "vfio-pci", 0x030200 },
		   { UIO, "uio_pci_generic", HR_CLASS_NVME } };
	int step;

	fake_tree_make(&tree);
	for (unsigned i = 0; i < count; i++)
		fake_tree_add(&tree,
			      &(struct fake_tree_fn){ fn[i].bdf, fn[i].class, fn[i].driver, 1,
						      BAR_BYTES, 0x800000000 + i * BAR_BYTES, 0 });
	step = fake_tree_run(&tree, inside, NULL);
	fake_tree_expect(&tree, step, "step %d: %s", step, test_error_text());
	fake_tree_remove(&tree);
}

static void run(int (*inside)(void *arg))
{
	run_with(5, inside);
}

static void start(uint32_t vs)
{
	fake = fake_vfio_start();
	memcpy(fake->bar + NVME_REG_VS, &vs, sizeof vs);
	memset(&t, 0xee, sizeof t);
}

static bool is_refused(const char *device, int want, const char *says)
{
	return hr_transport_open(&t, device, test_error()) == want &&
	       strstr(test_error_text(), says) && !fake->devices && !fake->groups &&
	       !fake->containers && !fake->maps && !fake->bars;
}

static int refuse(void *arg)
{
	static const struct {
		struct fake_vfio knobs;
		int want;
		const char *says;
	} row[] = {
		{ { .no_container = EACCES }, -EACCES, "/dev/vfio/vfio" },
		{ { .no_device = EBUSY }, -EBUSY, "vfio does not open it" },
		{ { .stuck = HR_COMMAND_MSE }, -EIO, "does not take 0002" },
		{ { .bar_is_not_memory = true }, -ENXIO, "BAR0 is not memory" },
		{ { .no_bar = ENOMEM }, -EIO, "BAR0 of 16384 bytes cannot be mapped" },
		{ { .stuck = HR_COMMAND_BME }, -EIO, "does not take 0004" },
	};

	(void)arg;
	start(0x10400);
	if (!is_refused("vfio:" NVME, -EBUSY,
			"the kernel driver is nvme; it has to be bound to "
			"vfio-pci: use --bind, or: driverctl set-override " NVME " vfio-pci"))
		return 1;
	if (!is_refused("vfio:" FREE, -EBUSY, "no driver is bound to it; it has to be bound to "))
		return 2;
	if (!is_refused("vfio:" GPU, -ENODEV, "is not an NVMe controller"))
		return 3;
	start(0);
	if (!is_refused("vfio:" VFIO, -ENODEV, "VS reads 00000000") || !hr_is_zero(&t, sizeof t))
		return 4;
	for (unsigned i = 0; i < sizeof row / sizeof *row; i++) {
		uint8_t *bar;

		start(0x10400);
		bar = fake->bar;
		*fake = row[i].knobs;
		fake->bar = bar;
		if (!is_refused("vfio:" VFIO, row[i].want, row[i].says) ||
		    !hr_is_zero(&t, sizeof t))
			return 10 + (int)i;
	}
	start(0x10400);
	fake_calloc_fails(1);
	if (!is_refused("vfio:" VFIO, -ENOMEM, VFIO ": out of memory"))
		return 5;
	/* With --bind the users of a driver other than nvme cannot be found. */
	hr_transport_allow_bind();
	if (!is_refused("vfio:" UIO, -EBUSY,
			"the driver uio_pci_generic is bound to it, and the "
			"users"))
		return 6;
	return hr_transport_open(&t, "pci:" UIO, test_error()) ? 0 : 7;
}

Test(transport_vfio, a_refused_controller_leaves_nothing)
{
	run(refuse);
}

static int work(void *arg)
{
	(void)arg;
	start(0x10400);
	if (hr_transport_open(&t, "vfio:" VFIO, test_error()) || t.kind != HR_TRANSPORT_VFIO ||
	    t.bar != fake->bar || t.bar_bytes != FAKE_VFIO_BAR_BYTES || strcmp(t.name, VFIO) ||
	    t.bar_is_memory || t.keeps_no_data)
		return 1;
	if (fake->command != (HR_COMMAND_MSE | HR_COMMAND_BME))
		return 2;
	if (t.ops->map(&t, &whole, NULL) || fake->maps != 1)
		return 3;
	t.ops->unmap(&t, &whole);
	if (fake->maps)
		return 4;
	fake->no_map = ENOMEM;
	if (t.ops->map(&t, &whole, test_error()) != -ENOMEM)
		return 5;
	hr_transport_set_idle(&t, true); /* a device needs no CPU time */
	if (t.ops->silence(&t, true) || fake->command != HR_COMMAND_MSE)
		return 6;
	t.ops->close(&t);
	return fake->devices || fake->containers || fake->bars || !hr_is_zero(&t, sizeof t) ? 7 : 0;
}

Test(transport_vfio, a_controller_works_through_vfio)
{
	run(work);
}

static void once(void)
{
	if (hr_transport_open(&t, "vfio:" VFIO, NULL))
		_exit(1);
	t.ops->close(&t);
	fake->stuck = HR_COMMAND_BME;
	fake->command = 0;
	if (!hr_transport_open(&t, "vfio:" VFIO, NULL))
		_exit(2);
	fake->stuck = 0;
}

static int open_often(void *arg)
{
	(void)arg;
	start(0x10400);
	return heap_kept_by(once) ? 3 : 0;
}

Test(transport_vfio, its_memory_is_given_back)
{
	run(open_often);
}

/* The function that blocks the group is named, from the topology. */
static int explain(void *arg)
{
	struct hr_function_state state;
	struct hr_vfio_device d;

	fake = fake_vfio_start();
	fake->not_viable = true;
	if (hr_function_look(VFIO, &state, test_error()))
		return 1;
	if (hr_vfio_device_open(&d, &state, test_error()) != -EBUSY)
		return 2;
	if (!strstr(test_error_text(), NVME " is in the same group and bound to nvme"))
		return 3;
	/* the driver has left meanwhile */
	if (unlink("/sys/bus/pci/devices/" NVME "/driver"))
		return 4;
	if (hr_vfio_device_open(&d, &state, test_error()) != -EBUSY)
		return 5;
	return strstr(test_error_text(), "a function in it is bound to another driver") ? 0 : 6;
}

Test(transport_vfio, the_function_that_blocks_a_group_is_named)
{
	run_with(2, explain);
}
