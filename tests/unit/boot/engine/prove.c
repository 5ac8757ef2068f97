/*
 * The loopback proof over a software controller that passes for one of hardware: memory that is
 * what it says, memory that is another, and how the topology is blamed.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "boot/engine/devices.h"
#include "boot/engine/paths.h"
#include "boot/engine/prove.h"
#include "config/clock.h"
#include "boot/engine/stages.h"
#include "tests/fakes/log.h"

#define BYTES (64u * HR_PAGE)

static struct hr_appliance app;
static struct hr_ssd *ssd = &app.ssd[0];
static struct hr_region *region; /* of the place that is proven */
static struct hr_obstacle why;

static void set_up(void)
{
	static const uint64_t used[HR_PLACES] = { HR_PAGE, BYTES, HR_PAGE, BYTES };
	struct hr_config_ssd config = { .nsid = 1, .queue_entries = 16, .timeout_ns = HR_NS_PER_S };
	char message[HR_LOG_LINE_MAX];
	enum hr_place failed;

	memset(&app, 0, sizeof app);
	strcpy(config.device, "soft:memory,size=16M");
	strcpy(app.config.gpu[0].name, "g");
	cr_assert_eq(hr_backend_open(&app.backend[0], "host:1", 1, message), 0);
	cr_assert_eq(hr_ssd_up(ssd, &config), 0);
	cr_assert_eq(hr_ssd_format_store(ssd, 16, true), 0);
	cr_assert_eq(hr_ssd_open_store(ssd), 0);
	cr_assert_eq(hr_places_take(&app.memory[0], &app.backend[0], used, &failed), 0);
	ssd->transport.kind = HR_TRANSPORT_PCI;
	app.path[0][0] = (struct hr_path){ .pair = true,
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
	hr_places_give(&app.memory[0]);
	app.backend[0].ops->close(&app.backend[0]);
}

TestSuite(prove, .init = set_up, .fini = tear_down, .timeout = 60);

static void use(enum hr_place place)
{
	region = &app.memory[0].region[place];
	cr_assert_eq(ssd->transport.ops->map(&ssd->transport, region), 0);
	app.mapped[place][0] = 1;
}

static bool all_zero(void)
{
	const uint8_t *bytes = region->cpu;

	for (size_t i = 0; i < region->bytes; i++)
		if (bytes[i])
			return false;
	return true;
}

Test(prove, memory_that_is_what_it_says_passes_and_is_zero_again)
{
	const enum hr_place place[] = { HR_PLACE_HOST, HR_PLACE_GPU };

	for (unsigned i = 0; i < 2; i++) {
		use(place[i]);
		cr_expect_eq(hr_prove(&app, 0, 0, place[i], &why), 0);
		cr_expect_str_empty(why.what);
		cr_expect(strstr(fake_log_last(), "proven"), "%s", fake_log_last());
		cr_expect(all_zero());
	}
}

/* The controller is let into other memory at the same addresses: as a bridge that turns writes
 * away, or an IOMMU, would have it. */
static int prove_elsewhere(enum hr_place place)
{
	static uint8_t other[BYTES] __attribute__((aligned(HR_PAGE)));
	struct hr_region elsewhere;

	region = &app.memory[0].region[place];
	elsewhere = *region;
	elsewhere.cpu = other;
	cr_assert_eq(ssd->transport.ops->map(&ssd->transport, &elsewhere), 0);
	app.mapped[place][0] = 1;
	return hr_prove(&app, 0, 0, place, &why);
}

/* Whoever asked says it, as what it is to them. */
Test(prove, gpu_memory_that_is_another_is_found_and_another_rule_suspected)
{
	const unsigned before = fake_log_count();

	cr_expect_eq(prove_elsewhere(HR_PLACE_GPU), -EIO);
	cr_expect_eq(fake_log_count(), before, "%s", fake_log_last());
	cr_expect(strstr(why.what, "loopback through gpu memory of gpu 'g' (host:1): what the ssd "
				   "wrote did not arrive at bus address 0x"),
		  "%s", why.what);
	cr_expect(strstr(why.what, ": byte 0 is 0x00, expected 0x"), "%s", why.what);
	cr_expect_str_eq(why.suspect, "most likely rule A98 of the topology: a port redirects");
}

Test(prove, where_the_topology_has_nothing_against_it_that_is_said)
{
	app.path[0][0].suspect[0] = '\0';
	cr_expect_eq(prove_elsewhere(HR_PLACE_GPU), -EIO);
	cr_expect_str_eq(why.suspect,
			 "nothing that the topology knows speaks against it (DIRECT by rule R99): "
			 "a bridge or the firmware does not do what the registers say");
}

Test(prove, host_memory_that_is_another_is_found_and_an_iommu_suspected)
{
	cr_expect_eq(prove_elsewhere(HR_PLACE_HOST), -EIO);
	cr_expect(strstr(why.what, "loopback through host memory"), "%s", why.what);
	cr_expect(strstr(why.suspect, "is an IOMMU in between?"), "%s", why.suspect);
}

/* One place at a time: what is wrong with the other is not looked at. */
Test(prove, only_the_place_asked_for_is_tried)
{
	cr_assert_eq(prove_elsewhere(HR_PLACE_GPU), -EIO);
	use(HR_PLACE_HOST);
	cr_expect_eq(hr_prove(&app, 0, 0, HR_PLACE_HOST, &why), 0);
	cr_expect_str_empty(why.what);
	cr_expect_str_empty(why.suspect);
}

/* Only reads go astray. */
static struct hr_backend_ops two_faced;

static int upload_nothing(struct hr_backend *b, void *worker, const void *cpu, size_t bytes)
{
	return 0;
}

Test(prove, reads_are_tried_as_well_as_writes)
{
	const struct hr_backend_ops *before = app.backend[0].ops;

	two_faced = *before;
	two_faced.upload = upload_nothing;
	app.backend[0].ops = &two_faced;
	use(HR_PLACE_GPU);
	cr_expect_eq(hr_prove(&app, 0, 0, HR_PLACE_GPU, &why), -EIO);
	cr_expect(strstr(why.what, "what the ssd read is something else"), "%s", why.what);
	app.backend[0].ops = before;
}

/* The ssd says so, and lives. */
Test(prove, memory_out_of_reach_is_told_with_the_status)
{
	const unsigned before = fake_log_count();

	cr_expect_gt(hr_prove(&app, 0, 0, HR_PLACE_GPU, &why), 0); /* which is not mapped */
	cr_expect_eq(fake_log_count(), before, "%s", fake_log_last());
	cr_expect(strstr(why.what, "the ssd cannot write at bus address 0x"), "%s", why.what);
	cr_expect(strstr(why.suspect, "rule A98"), "%s", why.suspect);
	cr_expect_eq(ssd->disk.dead, 0);
}

/* The command after the pattern's: it is executed, and nobody hears of it. */
Test(prove, a_controller_that_loses_a_command_is_stopped_before_memory_goes)
{
	struct hr_config_ssd config = { .nsid = 1,
					.queue_entries = 16,
					.timeout_ns = 50 * HR_NS_PER_MS };
	char faults[] = "/tmp/prove.XXXXXX";
	const int fd = mkstemp(faults);

	cr_assert_geq(fd, 0);
	cr_assert_eq(dprintf(fd, "on read nth 1: drop\n"), 20);
	hr_ssd_down(ssd);
	snprintf(config.device, sizeof config.device, "soft:memory,size=16M,faults=%s", faults);
	cr_assert_eq(hr_ssd_up(ssd, &config), 0);
	ssd->has_store = true;
	ssd->store.scratch_offset = 1u << 20;
	ssd->transport.kind = HR_TRANSPORT_PCI;
	use(HR_PLACE_HOST);
	cr_expect_eq(hr_prove(&app, 0, 0, HR_PLACE_HOST, &why), -ETIMEDOUT);
	cr_expect_str_empty(why.what);
	cr_expect_eq(hr_reg_read32(&ssd->transport, NVME_REG_CC) & 1, 0);
	cr_expect(ssd->failed);
	cr_expect_not(app.stuck);
	close(fd);
	unlink(faults);
}

/* Registers of a controller that is enabled, ready, and deaf. */
Test(prove, a_controller_that_does_not_stop_is_said_to_run_each_time)
{
	static uint8_t deaf[HR_PAGE] __attribute__((aligned(HR_PAGE)));
	struct hr_transport *t = ssd->ctrl->transport;
	volatile uint8_t *bar = t->bar;
	const uint32_t one = 1;

	memcpy(deaf + NVME_REG_CC, &one, sizeof one);
	memcpy(deaf + NVME_REG_CSTS, &one, sizeof one);
	t->bar = deaf;
	ssd->ctrl->ready_timeout_ns = 20 * HR_NS_PER_MS;
	ssd->disk.dead = -ETIMEDOUT;
	use(HR_PLACE_HOST);
	cr_expect_eq(hr_prove(&app, 0, 0, HR_PLACE_HOST, &why), -ETIMEDOUT);
	cr_expect_str_empty(why.what);
	cr_expect(app.stuck);
	cr_expect_eq(hr_ssd_disable(ssd), -ETIMEDOUT);
	cr_expect_eq(hr_ssd_delete_qps(ssd), -ETIMEDOUT);
	t->bar = bar;
}

Test(prove, a_write_protected_disk_is_tried_by_reading)
{
	use(HR_PLACE_HOST);
	ssd->disk.blk.read_only = true;
	cr_expect_eq(hr_prove(&app, 0, 0, HR_PLACE_HOST, &why), 0);
	cr_expect(all_zero());
}

Test(prove, without_a_store_or_hardware_nothing_is_tried)
{
	app.mapped[HR_PLACE_HOST][0] = 1;
	ssd->has_store = false;
	cr_expect_eq(hr_prove(&app, 0, 0, HR_PLACE_HOST, &why), 0);
	ssd->has_store = true;
	ssd->transport.kind = HR_TRANSPORT_SOFT;
	cr_expect_eq(hr_prove(&app, 0, 0, HR_PLACE_HOST, &why), 0);
}

/* What the store holds is not touched. */
Test(prove, objects_and_map_stay_what_they_are)
{
	static uint8_t before[4u << 20], after[4u << 20];

	use(HR_PLACE_HOST);
	cr_assert_eq(ssd->blk->ops->read(ssd->blk, 0, before, sizeof before), 0);
	cr_assert_eq(hr_prove(&app, 0, 0, HR_PLACE_HOST, &why), 0);
	cr_assert_eq(ssd->blk->ops->read(ssd->blk, 0, after, sizeof after), 0);
	memset(before + ssd->store.scratch_offset, 0, HR_STORE_SCRATCH);
	cr_expect_neq(after[ssd->store.scratch_offset], 0);
	memset(after + ssd->store.scratch_offset, 0, HR_STORE_SCRATCH);
	cr_expect_eq(memcmp(before, after, sizeof before), 0);
}
