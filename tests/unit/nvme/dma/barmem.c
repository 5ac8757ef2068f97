/* SPDX-License-Identifier: Apache-2.0 */
/* Memory in a BAR, with files in place of sysfs: opening, allocation, refusals, restoration. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "boot/engine/devices/devices.h"
#include "config/base/limits.h"
#include "config/operator.h"
#include "gpu/backend.h"
#include "nvme/dma/barmem.h"
#include "nvme/dma/hostmem.h"
#include "tests/fakes/tree.h"
#include "tests/harness/error.h"

#define CARD "0000:04:00.0"
#define DRIVEN "0000:05:00.0"
#define BASE 0x800000000ull
#define BYTES (1u << 20)

TestSuite(barmem, .timeout = 60);

static struct fake_tree tree;
static struct hr_barmem m;

static void run(int (*inside)(void *arg))
{
	char path[128];
	int step;

	fake_tree_make(&tree);
	fake_tree_add(&tree, &(struct fake_tree_fn){ CARD, 0x050000, NULL, -1, BYTES, BASE, 0 });
	fake_tree_add(&tree, &(struct fake_tree_fn){ DRIVEN, 0x030000, "nvidia", -1, BYTES,
						     BASE + BYTES, 0 });
	/* Every user may read the tree. */
	snprintf(path, sizeof path, "%s/devices/" CARD "/class", tree.root);
	cr_assert(chmod(tree.root, 0755) == 0 && chmod(path, 0644) == 0);
	step = fake_tree_run(&tree, inside, NULL);
	fake_tree_expect(&tree, step, "step %d: %s", step, test_error_text());
	cr_expect_eq(fake_tree_command(&tree, CARD), 0);
	fake_tree_remove(&tree);
}

static int give_out(void *arg)
{
	struct hr_region a, b;

	hr_hostmem_set_kind(HR_HOSTMEM_PHYSICAL, test_error());
	if (hr_barmem_open(&m, CARD, HR_BARMEM_PEER, test_error()) || m.bar != 0 ||
	    fake_tree_command(&tree, CARD) != HR_COMMAND_MSE)
		return 1;
	memset(m.map.cpu, 0xff, BYTES);
	if (hr_barmem_alloc(&m, &a, "a", HR_PAGE + 1, test_error()) ||
	    hr_barmem_alloc(&m, &b, "b", HR_PAGE, test_error()))
		return 2;
	if (a.kind != HR_REGION_BAR || a.bytes != 2 * HR_PAGE || a.bus.addr != BASE ||
	    b.bus.addr != BASE + 2 * HR_PAGE || a.worker != a.cpu || a.granule_bus)
		return 3;
	for (size_t i = 0; i < 3 * HR_PAGE; i++)
		if (((volatile uint8_t *)m.map.cpu)[i])
			return 4;
	if (((volatile uint8_t *)m.map.cpu)[3 * HR_PAGE] != 0xff)
		return 5;
	hr_barmem_free(&m, &a);
	if (m.used == 0)
		return 6;
	hr_barmem_free(&m, &b);
	hr_barmem_free(&m, &b); /* not open, so this does nothing */
	if (m.used != 0 || hr_barmem_alloc(&m, &a, "a", BYTES, test_error()) || a.bytes != BYTES)
		return 7;
	hr_barmem_free(&m, &a);
	hr_barmem_close(&m);
	hr_barmem_close(&m);
	return 0;
}

Test(barmem, memory_is_given_out_zeroed_at_the_bars_addresses)
{
	run(give_out);
}

static int own_addresses(void *arg)
{
	struct hr_region host, bar;
	struct hr_bus all;

	if (hr_hostmem_alloc(&host, "host", HR_PAGE, test_error()) ||
	    hr_barmem_open(&m, CARD, 0, test_error()) ||
	    hr_barmem_alloc(&m, &bar, "bar", HR_PAGE, test_error()))
		return 1;
	if (bar.bus.addr == BASE ||
	    (bar.bus.addr < host.bus.addr + host.bytes && host.bus.addr < bar.bus.addr + bar.bytes))
		return 2;
	hr_barmem_free(&m, &bar);
	hr_hostmem_free(&host);
	/* The addresses are free again. An allocation fails when no address is free. */
	if (hr_region_assign_bus((size_t)448 << 30, &all) ||
	    hr_barmem_alloc(&m, &bar, "bar", HR_PAGE, test_error()) != -ENOSPC ||
	    !strstr(test_error_text(), "BAR0: no I/O addresses left for 4096 bytes of 'bar'"))
		return 3;
	hr_region_unassign_bus();
	hr_barmem_close(&m);
	return 0;
}

Test(barmem, own_bus_addresses_are_used_behind_a_translating_iommu)
{
	run(own_addresses);
}

static int refuse(void *arg)
{
	const uint8_t ones[64] = { [0 ... 63] = 0xff };
	uint8_t before[64];
	struct hr_region region;

	if (hr_barmem_open(&m, DRIVEN, 0, test_error()) != -EBUSY ||
	    !strstr(test_error_text(), "the kernel driver nvidia owns its BARs"))
		return 1;
	if (hr_barmem_open(&m, CARD, 3, test_error()) != -ENXIO ||
	    !strstr(test_error_text(), "BAR3 is missing"))
		return 2;
	if (hr_barmem_open(&m, "0000:09:00.0", 0, test_error()) != -ENOENT)
		return 3;
	if (hr_barmem_open(&m, "nonsense", 0, test_error()) != -EINVAL)
		return 4;
	if (hr_barmem_open(&m, CARD, 0, test_error()))
		return 5;
	if (hr_barmem_alloc(&m, &region, "r", 0, test_error()) != -EINVAL ||
	    hr_barmem_alloc(&m, &region, "r", BYTES + 1, test_error()) != -ENOMEM || region.cpu ||
	    !strstr(test_error_text(), "BAR0 has 1048576 bytes left"))
		return 6;
	if (hr_barmem_alloc(&m, &region, "r", SIZE_MAX, test_error()) != -ENOMEM)
		return 7;
	hr_barmem_close(&m);
	fake_tree_read(&tree, CARD, "config", 0, before, sizeof before);
	fake_tree_write(&tree, CARD, "config", 0, ones, sizeof ones);
	if (hr_barmem_open(&m, CARD, 0, test_error()) != -ENODEV ||
	    !strstr(test_error_text(), "is gone"))
		return 8;
	fake_tree_write(&tree, CARD, "config", 0, before, sizeof before);
	if (setuid(65534) || hr_barmem_open(&m, CARD, 0, test_error()) != -EACCES ||
	    !strstr(test_error_text(), "run as root"))
		return 9;
	hr_barmem_close(&m);
	return 0;
}

Test(barmem, a_missing_or_used_bar_is_refused)
{
	run(refuse);
}

static int as_backend(void *arg)
{
	const struct hr_operator op = { .name = "user" };
	enum hr_entry entry = HR_ENTRY_BENCH;
	uint32_t threads = 0;
	struct hr_backend b;
	struct hr_region gpu, own;

	if (hr_backend_open(&b, "host:1,bar=" CARD, 1, test_error()) || strcmp(b.peer, CARD) ||
	    b.peer_bytes != BYTES)
		return 1;
	if (b.ops->alloc_peer(&b, HR_PAGE, &gpu, NULL) || gpu.kind != HR_REGION_BAR ||
	    b.ops->alloc(&b, HR_PAGE, &own, NULL) || own.kind != HR_REGION_HOST)
		return 2;
	/* User operators run in this backend as in a backend without a BAR. */
	if (!b.ops->link || b.ops->link(&b, &op, &entry, &threads, test_error()) ||
	    entry != HR_ENTRY_PIPE || threads != 1)
		return 4;
	b.ops->free(&b, &gpu);
	b.ops->free(&b, &own);
	b.ops->close(&b);
	if (hr_backend_open(&b, "host:1,bar=" DRIVEN, 1, test_error()) != -EBUSY)
		return 3;
	return 0;
}

Test(barmem, a_backend_of_cpu_threads_uses_bar_memory_as_gpu_memory)
{
	run(as_backend);
}
