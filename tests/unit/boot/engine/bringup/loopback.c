/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loopback proof over a software controller in the role of a hardware one: correct memory,
 * wrong memory, and the suspect rule of the topology.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "boot/engine/devices/devices.h"
#include "boot/engine/shape/paths.h"
#include "boot/engine/bringup/stage.h"
#include "config/base/clock.h"
#include "boot/engine/devices/ssd_store.h"
#include "boot/engine/bringup/stages.h"
#include "tests/fakes/log.h"
#include "tests/harness/error.h"

#define BYTES (64u * HR_PAGE)

static struct hr_engine engine;
static struct hr_ssd *ssd = &engine.ssd[0];
static struct hr_region *region;
static bool refuted; /* of the proven place */

static void set_up(void)
{
	static const uint64_t used[HR_PLACES] = { HR_PAGE, BYTES, HR_PAGE, BYTES };
	struct hr_config_ssd config = { .nsid = 1,
					.queue_entries = 16,
					.timeout_ns = 60 * HR_NS_PER_S,
					.admin_timeout_ns = HR_ADMIN_TIMEOUT_NS };

	memset(&engine, 0, sizeof engine);
	strcpy(config.device, "soft:memory,size=16M");
	strcpy(engine.config.gpu[0].name, "g");
	cr_assert_eq(hr_backend_open(&engine.backend[0], "host:1", 1, test_error()), 0);
	cr_assert_eq(hr_ssd_up(ssd, &config, NULL), 0);
	cr_assert_eq(hr_ssd_format_store(ssd, 16, true, NULL), 0);
	cr_assert_eq(hr_ssd_open_store(ssd, NULL), 0);
	cr_assert_eq(hr_places_alloc(&engine.memory[0], &engine.backend[0], used, test_error()), 0);
	ssd->transport.kind = HR_TRANSPORT_PCI;
	engine.path[0][0] = (struct hr_path){ .pair = true,
					      .direct = true,
					      .verdict = "DIRECT",
					      .rule = "R99",
					      .suspect = "A98",
					      .suspect_why = "a port redirects",
					      .why = "both are below one switch" };
}

static void tear_down(void)
{
	hr_ssd_down(ssd);
	hr_places_free(&engine.memory[0]);
	engine.backend[0].ops->close(&engine.backend[0]);
}

TestSuite(prove, .init = set_up, .fini = tear_down, .timeout = 60);

static void use(enum hr_place place)
{
	region = &engine.memory[0].region[place];
	cr_assert_eq(ssd->transport.ops->map(&ssd->transport, region, NULL), 0);
	engine.mapped[place][0] = 1;
}

static bool all_zero(void)
{
	const uint8_t *bytes = region->cpu;

	for (size_t i = 0; i < region->bytes; i++)
		if (bytes[i])
			return false;
	return true;
}

Test(prove, correct_memory_passes_and_is_zero_again)
{
	const enum hr_place place[] = { HR_PLACE_HOST, HR_PLACE_GPU };

	for (unsigned i = 0; i < 2; i++) {
		use(place[i]);
		cr_expect_eq(hr_loopback_test(&engine, 0, 0, place[i], &refuted, test_error()), 0);
		cr_expect_str_empty(test_error_text());
		cr_expect(strstr(fake_log_last(), "proven"), "%s", fake_log_last());
		cr_expect(all_zero());
	}
}

/*
 * The controller gets other memory at the same addresses, as with a bridge that redirects writes,
 * or an IOMMU.
 */
static int prove_elsewhere(enum hr_place place)
{
	static uint8_t other[BYTES] __attribute__((aligned(HR_PAGE)));
	struct hr_region elsewhere;

	region = &engine.memory[0].region[place];
	elsewhere = *region;
	elsewhere.cpu = other;
	cr_assert_eq(ssd->transport.ops->map(&ssd->transport, &elsewhere, NULL), 0);
	engine.mapped[place][0] = 1;
	return hr_loopback_test(&engine, 0, 0, place, &refuted, test_error());
}

/* The caller reports the error in its own terms. */
Test(prove, gpu_memory_at_a_wrong_address_is_found_and_a_rule_is_suspected)
{
	const unsigned before = fake_log_count();

	cr_expect_eq(prove_elsewhere(HR_PLACE_GPU), -EIO);
	cr_expect_eq(fake_log_count(), before, "%s", fake_log_last());
	cr_expect(strstr(test_error_text(),
			 "loopback through gpu memory of gpu 'g' (host:1): the data that "
			 "the ssd wrote did not arrive at bus address 0x"),
		  "%s", test_error_text());
	/* byte 0 of the random pattern may be 0 */
	cr_expect(strstr(test_error_text(), " is 0x00, expected 0x"), "%s", test_error_text());
	cr_expect(strstr(test_error_text(),
			 "; "
			 "most likely rule A98 of the topology: a port redirects"),
		  "%s", test_error_text());
}

Test(prove, a_topology_without_a_suspect_is_reported)
{
	engine.path[0][0].suspect[0] = '\0';
	cr_expect_eq(prove_elsewhere(HR_PLACE_GPU), -EIO);
	cr_expect(strstr(test_error_text(),
			 "; "
			 "the topology shows no cause (DIRECT by rule R99): "
			 "a bridge or the firmware may contradict its registers"),
		  "%s", test_error_text());
}

Test(prove, host_memory_at_a_wrong_address_is_found_and_an_iommu_is_suspected)
{
	cr_expect_eq(prove_elsewhere(HR_PLACE_HOST), -EIO);
	cr_expect(strstr(test_error_text(), "loopback through host memory"), "%s",
		  test_error_text());
	cr_expect(strstr(test_error_text(), "does an IOMMU translate them?"), "%s",
		  test_error_text());
}

/* One place at a time: a fault of the other place does not matter. */
Test(prove, only_the_requested_place_is_tested)
{
	cr_assert_eq(prove_elsewhere(HR_PLACE_GPU), -EIO);
	use(HR_PLACE_HOST);
	cr_expect_eq(hr_loopback_test(&engine, 0, 0, HR_PLACE_HOST, &refuted, test_error()), 0);
	cr_expect_str_empty(test_error_text());
}

/* Only reads go to other memory. */
static struct hr_backend_ops two_faced;

static int upload_nothing(struct hr_backend *b, void *worker, const void *cpu, size_t bytes,
			  struct hr_error *e)
{
	return 0;
}

/* The proof over a gpu with that upload() refutes the path. */
static void expect_refuted(__typeof__(two_faced.upload) upload)
{
	const struct hr_backend_ops *before = engine.backend[0].ops;

	two_faced = *before;
	two_faced.upload = upload;
	engine.backend[0].ops = &two_faced;
	use(HR_PLACE_GPU);
	cr_expect_eq(hr_loopback_test(&engine, 0, 0, HR_PLACE_GPU, &refuted, test_error()), -EIO);
	cr_expect(refuted);
	engine.backend[0].ops = before;
}

Test(prove, reads_are_tested_as_well_as_writes)
{
	expect_refuted(upload_nothing);
	cr_expect(strstr(test_error_text(), "the ssd read other data"), "%s", test_error_text());
}

static size_t changed; /* byte that arrives with another value */

static int upload_changed(struct hr_backend *b, void *worker, const void *cpu, size_t bytes,
			  struct hr_error *e)
{
	uint8_t *to = worker;

	memmove(to, cpu, bytes);
	if (changed < bytes)
		to[changed] ^= 0x81;
	return 0;
}

/* One byte of a page, at either end too. */
Test(prove, the_first_byte_that_differs_is_named)
{
	static const size_t row[] = { 0, 1, 2, 2047, HR_PAGE - 2, HR_PAGE - 1 };
	const struct hr_backend_ops *before = engine.backend[0].ops;

	two_faced = *before;
	two_faced.upload = upload_changed;
	engine.backend[0].ops = &two_faced;
	use(HR_PLACE_GPU);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		char says[32];

		changed = row[i];
		cr_expect_eq(hr_loopback_test(&engine, 0, 0, HR_PLACE_GPU, &refuted, test_error()),
			     -EIO);
		snprintf(says, sizeof says, "byte %zu is 0x", changed);
		cr_expect(strstr(test_error_text(), says), "%s: %s", says, test_error_text());
	}
	engine.backend[0].ops = before;
}

/* The ssd reports the error and stays usable. */
Test(prove, memory_out_of_reach_is_reported_with_the_status)
{
	const unsigned before = fake_log_count();

	cr_expect_gt(hr_loopback_test(&engine, 0, 0, HR_PLACE_GPU, &refuted, test_error()),
		     0); /* that place is not mapped */
	cr_expect_eq(fake_log_count(), before, "%s", fake_log_last());
	cr_expect(strstr(test_error_text(), "the ssd cannot write at bus address 0x"), "%s",
		  test_error_text());
	cr_expect(strstr(test_error_text(), "rule A98"), "%s", test_error_text());
	cr_expect_eq(ssd->health.state, HR_HEALTH_UP);
}

/* The command after the pattern's is executed, but its completion is lost. */
Test(prove, a_controller_that_loses_a_command_is_stopped_before_memory_goes)
{
	struct hr_config_ssd config = { .nsid = 1,
					.queue_entries = 16,
					.timeout_ns = 60 * HR_NS_PER_S,
					.admin_timeout_ns = HR_ADMIN_TIMEOUT_NS };
	char faults[] = "/tmp/prove.XXXXXX";
	const int fd = mkstemp(faults);

	cr_assert_geq(fd, 0);
	cr_assert_eq(dprintf(fd, "on read nth 1: drop\n"), 20);
	hr_ssd_down(ssd);
	snprintf(config.device, sizeof config.device, "soft:memory,size=16M,faults=%s", faults);
	cr_assert_eq(hr_ssd_up(ssd, &config, NULL), 0);
	ssd->has_store = true;
	ssd->store.scratch_offset = 1u << 20;
	ssd->transport.kind = HR_TRANSPORT_PCI;
	ssd->disk.qp.timeout_ns = 50 * HR_NS_PER_MS;
	ssd->disk.qp.next_scan_ns = 0; /* the long deadline has set this value */
	use(HR_PLACE_HOST);
	cr_expect_eq(hr_loopback_test(&engine, 0, 0, HR_PLACE_HOST, &refuted, test_error()),
		     -ETIMEDOUT);
	cr_expect_not(refuted);
	cr_expect_eq(hr_reg_read32(&ssd->transport, NVME_REG_CC) & 1, 0);
	cr_expect_eq(ssd->health.state, HR_HEALTH_STOPPED);
	cr_expect_eq(ssd->health.count[HR_FAULT_LOST_COMMAND], 1u);
	cr_expect_not(hr_any_controller_stuck(&engine));
	close(fd);
	unlink(faults);
}

/* Registers of a controller that is enabled and ready, and does not react. */
Test(prove, a_controller_that_does_not_stop_is_reported_each_time)
{
	static uint8_t deaf[HR_PAGE] __attribute__((aligned(HR_PAGE)));
	struct hr_transport *t = ssd->ctrl->transport;
	volatile uint8_t *bar = t->bar;
	const uint32_t one = 1;

	memcpy(deaf + NVME_REG_CC, &one, sizeof one);
	memcpy(deaf + NVME_REG_CSTS, &one, sizeof one);
	t->bar = deaf;
	ssd->ctrl->ready_timeout_ns = 20 * HR_NS_PER_MS;
	hr_health_fault(&ssd->health, HR_FAULT_LOST_COMMAND, NULL, -ETIMEDOUT, NULL);
	use(HR_PLACE_HOST);
	cr_expect_eq(hr_loopback_test(&engine, 0, 0, HR_PLACE_HOST, &refuted, test_error()),
		     -ETIMEDOUT);
	cr_expect_not(refuted);
	cr_expect(hr_any_controller_stuck(&engine));
	cr_expect_eq(hr_ssd_disable(ssd), -ETIMEDOUT);
	cr_expect_eq(hr_ssd_delete_qps(ssd), -ETIMEDOUT);
	t->bar = bar;
}

Test(prove, a_write_protected_disk_is_tested_by_reads)
{
	use(HR_PLACE_HOST);
	ssd->disk.blk.read_only = true;
	cr_expect_eq(hr_loopback_test(&engine, 0, 0, HR_PLACE_HOST, &refuted, test_error()), 0);
	cr_expect(all_zero());
}

Test(prove, wrong_memory_is_found_by_reads_of_a_write_protected_disk)
{
	ssd->disk.blk.read_only = true;
	cr_expect_eq(prove_elsewhere(HR_PLACE_HOST), -EIO);
	cr_expect(refuted);
	cr_expect(strstr(test_error_text(), "the data that the ssd wrote did not arrive"), "%s",
		  test_error_text());
}

static int upload_to_the_last_page(struct hr_backend *b, void *worker, const void *cpu,
				   size_t bytes, struct hr_error *e)
{
	const uint8_t *end = (uint8_t *)region->worker + region->bytes;

	memmove(worker, cpu, bytes);
	if ((uint8_t *)worker + bytes == end)
		*(uint8_t *)worker ^= 1;
	return 0;
}

/* The sample of pages has both ends of the region. */
Test(prove, the_last_page_is_tested)
{
	expect_refuted(upload_to_the_last_page);
}

Test(prove, no_test_runs_without_a_store_or_hardware)
{
	engine.mapped[HR_PLACE_HOST][0] = 1;
	ssd->has_store = false;
	cr_expect_eq(hr_loopback_test(&engine, 0, 0, HR_PLACE_HOST, &refuted, test_error()), 0);
	ssd->has_store = true;
	ssd->transport.kind = HR_TRANSPORT_SOFT;
	cr_expect_eq(hr_loopback_test(&engine, 0, 0, HR_PLACE_HOST, &refuted, test_error()), 0);
}

/* The data of the store do not change. */
Test(prove, objects_and_map_stay_unchanged)
{
	static uint8_t before[4u << 20], after[4u << 20];
	static const uint8_t none[64];

	use(HR_PLACE_HOST);
	cr_assert_eq(ssd->blk->ops->read(ssd->blk, 0, before, sizeof before, NULL), 0);
	cr_assert_eq(hr_loopback_test(&engine, 0, 0, HR_PLACE_HOST, &refuted, test_error()), 0);
	cr_assert_eq(ssd->blk->ops->read(ssd->blk, 0, after, sizeof after, NULL), 0);
	memset(before + ssd->store.scratch_offset, 0, HR_STORE_SCRATCH);
	cr_expect_neq(memcmp(after + ssd->store.scratch_offset, none, sizeof none), 0);
	memset(after + ssd->store.scratch_offset, 0, HR_STORE_SCRATCH);
	cr_expect_eq(memcmp(before, after, sizeof before), 0);
}
