/* SPDX-License-Identifier: Apache-2.0 */
/* Bring-up of an ssd: its serial number, what a controller limits, and where rings may lie. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "boot/engine/devices/ssd.h"
#include "nvme/dma/hostmem.h"
#include "tests/harness/error.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

static struct hr_ssd ssd;
static struct hr_config_ssd config;
static void begin(void)
{
	memset(&ssd, 0, sizeof ssd);
	config = (struct hr_config_ssd){ .nsid = 1,
					 .queue_entries = 16,
					 .timeout_ns = 60000000000ull,
					 .admin_timeout_ns = HR_ADMIN_TIMEOUT_NS };
}

static void end(void)
{
	hr_ssd_down(&ssd);
}

TestSuite(ssd, .init = begin, .fini = end, .timeout = 60);

static int up(const char *device)
{
	snprintf(config.device, sizeof config.device, "%s", device);
	return hr_ssd_up(&ssd, &config, test_error());
}

/* Another disk than intended is not used. Foreign data on disks: tests/lab/scenarios/ssd_refused.sh. */
Test(ssd, a_disk_is_used_by_its_own_serial_number_only)
{
	char serial[sizeof config.serial];

	cr_assert_eq(up("soft:memory,size=1M"), 0);
	strcpy(serial, ssd.ctrl->serial);
	hr_ssd_down(&ssd);
	strcpy(config.serial, serial);
	cr_assert_eq(up("soft:memory,size=1M"), 0, "%s", test_error_text());
	hr_ssd_down(&ssd);
	for (int way = 0; way < 2; way++) {
		config.serial[way ? strlen(serial) - 1 : strlen(serial)] = way ? '\0' : 'x';
		cr_expect_eq(up("soft:memory,size=1M"), -ENODEV);
		cr_expect(strstr(test_error_text(), "this is another disk than intended"), "%s",
			  test_error_text());
		cr_expect_eq(test_error_kind(), HR_ERROR_MISSING);
		cr_expect(!ssd.blk && !ssd.controller);
		memcpy(config.serial, serial, sizeof serial);
	}
}

/* A command is the largest power of two within MDTS, at least a page. */
Test(ssd, the_controller_limits_commands_and_queues)
{
	for (uint32_t mdts = 0; mdts <= 12; mdts++) {
		const uint32_t most = mdts ? HR_PAGE << mdts : UINT32_MAX;
		char device[64];

		snprintf(device, sizeof device, "soft:memory,size=1M,mdts=%u", mdts);
		cr_assert_eq(up(device), 0, "%s", test_error_text());
		cr_expect_eq(ssd.chunk_bytes, most < HR_CHUNK_MAX ? most : HR_CHUNK_MAX, "%u: %u",
			     mdts, ssd.chunk_bytes);
		hr_ssd_down(&ssd);
	}
	cr_assert_eq(up("soft:memory,size=1M"), 0);
	config.queue_entries = ssd.ctrl->max_entries;
	for (int more = -1; more <= 1; more++) {
		const uint32_t most = config.queue_entries;
		struct hr_config_ssd other = config;

		hr_ssd_down(&ssd);
		strcpy(other.device, "soft:memory,size=1M");
		other.queue_entries = most + (uint32_t)more;
		cr_assert_eq(hr_ssd_up(&ssd, &other, test_error()), 0);
		cr_expect_eq(ssd.queue_entries, more < 0 ? most - 1 : most, "%d", more);
	}
}

Test(ssd, errors_name_the_namespace_and_what_there_is)
{
	struct hr_ssd beside = { 0 };

	config.nsid = 3;
	cr_expect_eq(up("soft:memory,size=8M,namespaces=2"), -ENOENT);
	cr_expect_str_eq(test_error_text(),
			 "soft:memory: there is no active namespace 3; the controller has 1, 2");
	cr_expect_null(ssd.controller);
	config.nsid = 1;
	cr_assert_eq(up("soft:memory,size=8M,namespaces=2"), 0);
	cr_expect_eq(ssd.controller->users, 1);
	cr_expect_eq(ssd.controller->queues_used, 1);
	cr_expect_eq(hr_ssd_queues_left(&ssd), hr_ssd_queues(&ssd) - 1);
	config.nsid = 2;
	ssd.controller->queues = 1;
	cr_expect_eq(hr_ssd_up_on(&beside, &config, &ssd, test_error()), -ENOTSUP);
	cr_expect_str_eq(
		test_error_text(),
		"soft:memory: namespace 2: none of the 1 I/O queue pairs of the controller is left");
	cr_expect_eq(ssd.controller->users, 1);
	cr_expect_null(beside.controller);
	ssd.controller->queues = 2;
	cr_assert_eq(hr_ssd_up_on(&beside, &config, &ssd, test_error()), 0);
	cr_expect_eq(ssd.controller->users, 2);
	cr_expect_eq(ssd.controller->queues_used, 2);
	cr_expect_eq(hr_ssd_queues_left(&ssd), 0);
	cr_expect_eq(beside.disk.qp.id, 2);
	cr_expect_eq(hr_ssd_dma_bytes(&beside), beside.region.bytes);
	cr_expect_eq(hr_ssd_dma_bytes(&ssd), ssd.controller->region.bytes);
	cr_expect_str_eq(strchr(beside.disk.blk.name, ' '), " namespace 2");
	cr_expect_null(strchr(ssd.disk.blk.name, ' '));
	hr_ssd_down(&beside);
	cr_expect_eq(ssd.controller->users, 1);
	cr_expect_eq(ssd.controller->queues_used, 1);
	cr_expect_null(ssd.controller->queue[2]);
}

/* The memory of the object map: objects in whole pages, and what their reads and writes need. */
Test(ssd, an_object_map_has_memory_only_with_a_store)
{
	ssd.store.capacity = 1000;
	cr_expect_eq(hr_ssd_map_bytes(&ssd), 0);
	ssd.has_store = true;
	for (uint32_t capacity = 1; capacity <= 100; capacity += 33) {
		const size_t bytes = capacity * sizeof(struct hr_store_object);

		ssd.store.capacity = capacity;
		cr_expect_eq(hr_ssd_map_bytes(&ssd), (bytes + HR_PAGE - 1) / HR_PAGE * HR_PAGE +
							     hr_store_io_bytes(capacity));
	}
	ssd.has_store = false;
}

/* Each ring lies in pages that follow one another on the bus. */
Test(ssd, a_ring_that_is_not_contiguous_is_refused)
{
	struct hr_bus page[8];
	struct hr_region region = { .bytes = 8 * HR_PAGE,
				    .granule_bus = page,
				    .granule_shift = 12 };

	cr_assert_eq(up("soft:memory,size=1M"), 0);
	ssd.queue_entries = 128; /* an SQ of two pages, a CQ of half a page */
	for (unsigned hole = 0; hole <= 8; hole++) {
		for (unsigned i = 0; i < 8; i++)
			page[i].addr = (i + (i >= hole)) * (uint64_t)HR_PAGE;
		cr_expect_eq(hr_ssd_check_rings(&ssd, &region, 0, test_error()),
			     hole == 1 ? -ENOTSUP : 0, "hole before page %u", hole);
		if (hole == 1)
			cr_expect_str_eq(
				test_error_text(),
				"soft:memory: a ring of 8192 bytes is not contiguous in physical "
				"memory; reserve huge pages (echo N > "
				"/proc/sys/vm/nr_hugepages) or set queue_entries = 64");
		cr_expect_eq(hr_ssd_check_rings(&ssd, &region, 4 * HR_PAGE, test_error()),
			     hole == 5 ? -ENOTSUP : 0, "hole before page %u", hole);
	}
	ssd.queue_entries = 512; /* an SQ of eight pages would end behind it; a CQ of two pages */
	region.bytes = 16 * HR_PAGE;
	region.granule_shift = 15;
	page[0].addr = 1 << 20;
	page[1].addr = 2 << 20;
	cr_expect_eq(hr_ssd_check_rings(&ssd, &region, 0, test_error()), 0);
	cr_expect_eq(hr_ssd_check_rings(&ssd, &region, HR_PAGE, test_error()), -ENOTSUP);
	ssd.queue_entries = 448; /* the SQ fills seven pages; the CQ's second page is beyond */
	cr_expect_eq(hr_ssd_check_rings(&ssd, &region, 0, test_error()), -ENOTSUP);
	cr_expect_str_eq(
		test_error_text(),
		"soft:memory: a ring of 8192 bytes is not contiguous in physical memory; reserve huge "
		"pages (echo N > /proc/sys/vm/nr_hugepages) or set queue_entries = 64");
}

Test(ssd, queue_pairs_get_the_lowest_free_id_until_none_is_left)
{
	struct hr_region rings, tables;
	struct hr_nvme_qp qp = { 0 };
	struct hr_ssd_qp_memory memory = { &rings, 0, &tables, 0, NULL, &memory };
	char want[128];

	cr_assert_eq(up("soft:memory,size=1M"), 0);
	cr_assert_eq(hr_hostmem_alloc(&rings, "rings", 4 * HR_PAGE, test_error()), 0);
	cr_assert_eq(hr_hostmem_alloc(&tables, "tables", 4 * HR_PAGE, test_error()), 0);
	cr_assert_eq(ssd.transport.ops->map(&ssd.transport, &rings, test_error()), 0);
	ssd.controller->queues = 3;
	cr_assert_eq(hr_ssd_create_qp(&ssd, &qp, &memory, test_error()), 0);
	cr_expect_eq(qp.id, 2);
	memory.ring_at = 2 * HR_PAGE;
	memory.owner = &rings;
	cr_assert_eq(hr_ssd_create_qp(&ssd, &qp, &memory, test_error()), 0);
	cr_expect_eq(qp.id, 3);
	cr_expect_eq(hr_ssd_queues_left(&ssd), 0);
	cr_expect_eq(hr_ssd_create_qp(&ssd, &qp, &memory, test_error()), -ENOTSUP);
	snprintf(want, sizeof want, "%s: cannot create I/O queue pair 4 of 3: all are in use",
		 ssd.transport.name);
	cr_expect_str_eq(test_error_text(), want);
	cr_expect_eq(hr_ssd_delete_qps_of(&ssd, &memory), 0);
	cr_expect_eq(hr_ssd_queues_left(&ssd), 1);
	cr_expect_null(ssd.controller->queue[2]);
	cr_expect_eq(ssd.controller->queue[3], &ssd);
	cr_expect_eq(hr_ssd_delete_qps(&ssd), 0);
	cr_expect_eq(hr_ssd_queues_left(&ssd), 2);
	cr_expect_eq(ssd.controller->queue[1], &ssd, "its own stays");
	ssd.transport.ops->unmap(&ssd.transport, &rings);
	hr_hostmem_free(&rings);
	hr_hostmem_free(&tables);
}

/* Each admin command of the bring-up that fails: the text has command and status, and all is down. */
Test(ssd, a_refused_admin_command_is_named)
{
	static const struct {
		unsigned opcode, nth;
		const char *text;
	} row[] = {
#define REFUSED(command) "soft:memory: admin " command ": Internal Error (006)"
		{ 0x06, 1, REFUSED("identify controller") },
		{ 0x06, 2, REFUSED("identify namespace 1") },
		{ 0x06, 3, REFUSED("identify namespace 1") },
		{ 0x09, 1, "" }, /* with the number that it reports */
		{ 0x05, 1, REFUSED("create I/O CQ 1") },
		{ 0x01, 1, REFUSED("create I/O SQ 1") },
		{ 0x0c, 1, "" }, /* without events */
	};
	char script[] = "/tmp/headrace-ssd-XXXXXX", device[128];
	const int fd = mkstemp(script);

	cr_assert_geq(fd, 0);
	close(fd);
	snprintf(device, sizeof device, "soft:memory,size=1M,faults=%s", script);
	for (size_t i = 0; i < ROWS(row); i++) {
		FILE *file = fopen(script, "w");

		cr_assert_not_null(file);
		fprintf(file, "on admin opcode %u nth %u count 9: status 0x006 dnr\n",
			row[i].opcode, row[i].nth);
		cr_assert_eq(fclose(file), 0);
		cr_expect_eq(up(device), row[i].text[0] ? 0x006 : 0, "row %zu", i);
		cr_expect_str_eq(test_error_text(), row[i].text);
		cr_expect_eq(ssd.controller == NULL, row[i].text[0] != '\0', "row %zu", i);
		hr_ssd_down(&ssd);
	}
	unlink(script);
}
