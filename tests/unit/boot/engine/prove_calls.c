/*
 * The loopback proof call by call, over a disk, a network of addresses and a gpu that the test plays:
 * the pages of the sample, the order of the steps, each failure, and data that changes on its way.
 */
#include "boot/engine/prove.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/signals.h"
#include "config/clock.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/log.h"
#include "tests/harness/calls.h"
#include "tests/harness/error.h"

TestSuite(prove_calls, .timeout = 60);

#define PAGES_MAX 160u
#define SCRATCH (16 * (uint64_t)HR_PAGE)
#define BUS 0x4000000ull

static struct hr_appliance *app;
static struct hr_ssd *ssd;
static _Alignas(HR_PAGE) uint8_t memory[PAGES_MAX * HR_PAGE];
static _Alignas(HR_PAGE) uint8_t disk[64 * HR_PAGE];
static uint8_t written[3][HR_PAGE]; /* what reached the region: of the ssd, of the host, zeros */
static unsigned calls, fails_at;
static int fails_with;
static size_t changes_at; /* byte that the ssd's command changes; HR_PAGE: none */
static bool changes_write, interrupted, refuted;
static unsigned interrupts_after;
static int disable_err;

static int fail(struct hr_error *e, const char *what)
{
	if (++calls != fails_at)
		return 0;
	if (fails_with < 0)
		hr_fail(e, HR_ERROR_DEVICE, fails_with, "no %s", what);
	return fails_with;
}

static int disk_read(struct hr_blk *blk, uint64_t offset, void *data, size_t bytes,
		     struct hr_error *e)
{
	calls_note("read%llu ", (unsigned long long)offset / HR_PAGE);
	cr_expect_eq(bytes, HR_PAGE);
	memcpy(data, disk + offset, HR_PAGE);
	return fail(e, "read");
}

static int disk_write(struct hr_blk *blk, uint64_t offset, const void *data, size_t bytes, bool fua,
		      struct hr_error *e)
{
	calls_note("write%llu ", (unsigned long long)offset / HR_PAGE);
	cr_expect(bytes == HR_PAGE && !fua);
	fake_clock_advance(1500000);
	memcpy(disk + offset, data, HR_PAGE);
	return fail(e, "write");
}

static const struct hr_blk_ops disk_ops = { .read = disk_read, .write = disk_write };

int hr_nvme_blk_move(struct hr_nvme_blk *of, bool write, uint64_t offset, struct hr_bus page,
		     struct hr_error *e)
{
	uint8_t *at = memory + (page.addr - BUS);

	calls_note("%s%llu:%llu ", write ? "out" : "in", (unsigned long long)offset / HR_PAGE,
		   (unsigned long long)(page.addr - BUS) / HR_PAGE);
	cr_expect_eq(of, &ssd->disk);
	if (write)
		memcpy(disk + offset, at, HR_PAGE);
	else
		memcpy(at, disk + offset, HR_PAGE);
	memcpy(written[write], at, HR_PAGE);
	if (changes_at < HR_PAGE && write == changes_write)
		(write ? disk + offset : at)[changes_at] ^= 0x10;
	return fail(e, "command");
}

/* The memory of the gpu is that which the bus addresses name, at another address for workers. */
static int download(struct hr_backend *b, void *cpu, const void *worker, size_t bytes,
		    struct hr_error *e)
{
	const size_t at = (uintptr_t)worker - 0x900000;

	calls_note("down%zu ", at / HR_PAGE);
	cr_expect_eq(bytes, HR_PAGE);
	memcpy(cpu, memory + at, HR_PAGE);
	return fail(e, "download");
}

static int upload(struct hr_backend *b, void *worker, const void *cpu, size_t bytes,
		  struct hr_error *e)
{
	const size_t at = (uintptr_t)worker - 0x900000;

	calls_note("up%zu ", at / HR_PAGE);
	cr_expect_eq(bytes, HR_PAGE);
	memcpy(memory + at, cpu, HR_PAGE);
	return fail(e, "upload");
}

bool hr_signals_pending(void)
{
	return interrupted && !interrupts_after--;
}

int hr_ssd_disable(struct hr_ssd *of)
{
	calls_note("disable ");
	cr_expect_eq(of, ssd);
	return disable_err;
}

/* Gpu 1 and ssd 2, with this number of pages in both places. */
static void begin(size_t pages)
{
	static const struct hr_backend_ops ops = { .upload = upload, .download = download };

	free(app);
	app = calloc(1, sizeof *app);
	cr_assert_not_null(app);
	ssd = &app->ssd[2];
	ssd->transport.kind = HR_TRANSPORT_VFIO;
	strcpy(ssd->transport.name, "x");
	ssd->has_store = true;
	ssd->store.scratch_offset = SCRATCH;
	ssd->blk = &ssd->disk.blk;
	ssd->disk.blk.ops = &disk_ops;
	ssd->health.state = HR_HEALTH_UP;
	app->backend[1].ops = &ops;
	strcpy(app->backend[1].name, "far");
	strcpy(app->config.gpu[1].name, "g");
	for (int place = HR_PLACE_HOST; place <= HR_PLACE_GPU; place++)
		app->memory[1].region[place] = (struct hr_region){
			.cpu = place == HR_PLACE_GPU ? NULL : memory,
			.worker = (void *)0x900000,
			.bytes = pages * HR_PAGE,
			.bus.addr = BUS,
		};
	app->path[1][2].pair = true;
	memset(memory, 0x55, sizeof memory);
	memset(disk, 0x77, sizeof disk);
	calls = fails_at = interrupts_after = 0;
	fails_with = -EIO;
	disable_err = 0;
	changes_at = HR_PAGE;
	changes_write = interrupted = false;
	refuted = true; /* of the last place */
	fake_clock_start(HR_NS_PER_S, NULL, NULL);
	calls_take();
}

static void end(void)
{
	free(app);
	app = NULL;
}

static int prove(enum hr_place place)
{
	return hr_prove(app, 1, 2, place, &refuted, test_error());
}

#define HOST_PAGE "write16 in16:0 out16:0 read16 "
#define GPU_PAGE "write16 in16:0 down0 up0 out16:0 read16 up0 "

Test(prove_calls, a_page_is_tested_in_both_directions_with_two_patterns, .fini = end)
{
	for (int place = HR_PLACE_HOST; place <= HR_PLACE_GPU; place++) {
		const bool gpu = place == HR_PLACE_GPU;

		if (place == HR_PLACE_WORKER)
			continue;
		begin(1);
		cr_expect_eq(prove((enum hr_place)place), 0, "%s", test_error_text());
		cr_expect_str_eq(calls_take(), gpu ? GPU_PAGE : HOST_PAGE);
		cr_expect_not(refuted);
		for (size_t i = 0; i < HR_PAGE; i++)
			cr_assert_eq(memory[i], 0, "it is zero again");
		cr_expect_eq(memory[HR_PAGE], 0x55, "and no more");
		for (size_t i = 0; i < HR_PAGE; i += 8) {
			cr_assert_neq(memcmp(written[0] + i, written[1] + i, 8), 0);
			if (i)
				cr_assert_neq(memcmp(written[0] + i, written[0] + i - 8, 8), 0);
		}
		cr_expect_str_eq(
			fake_log_last_of(HR_LOG_INFO),
			gpu ? "x: loopback through gpu memory of gpu 'g' proven in 1.5 ms"
			    : "x: loopback through host memory of gpu 'g' proven in 1.5 ms");
	}
}

Test(prove_calls, the_sample_has_the_first_and_the_last_page, .fini = end)
{
	static const size_t row[] = { 1, 2, 3, 15, 16, 17, 31, 32, PAGES_MAX };

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const size_t pages = row[i], samples = pages < 16 ? pages : 16;
		char want[1024] = "";
		size_t at = 0;

		begin(pages);
		cr_expect_eq(prove(HR_PLACE_HOST), 0);
		for (size_t k = 0; k < samples; k++) {
			const size_t page = samples > 1 ? (pages - 1) * k / (samples - 1) : 0;

			at += (size_t)snprintf(want + at, sizeof want - at,
					       "write%zu in%zu:%zu out%zu:%zu read%zu ", 16 + k,
					       16 + k, page, 16 + k, page, 16 + k);
		}
		cr_expect_str_eq(calls_take(), want);
		cr_expect_eq(memory[(pages - 1) * HR_PAGE], 0, "the last one");
	}
}

Test(prove_calls, nothing_is_done_without_a_bus_a_store_or_memory, .fini = end)
{
	begin(1);
	ssd->transport.kind = HR_TRANSPORT_SOFT;
	cr_expect_eq(prove(HR_PLACE_HOST), 0);
	cr_expect_not(refuted);
	begin(0);
	cr_expect_eq(prove(HR_PLACE_HOST), 0);
	cr_expect_eq(fake_log_count_of(HR_LOG_INFO), 0u);
	begin(1);
	ssd->has_store = false;
	cr_expect_eq(prove(HR_PLACE_GPU), 0);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_INFO),
			 "x: no store, hence no scratch area: gpu memory is not proven");
	cr_expect_str_eq(calls_take(), "");
}

Test(prove_calls, a_signal_ends_it_between_two_pages, .fini = end)
{
	for (unsigned after = 0; after < 3; after++) {
		begin(3);
		interrupted = true;
		interrupts_after = after;
		cr_expect_eq(prove(HR_PLACE_HOST), -EINTR);
		cr_expect_eq(calls, 4 * after);
		cr_expect_not(refuted);
		cr_expect_eq(test_error_kind(), HR_ERROR_NONE);
	}
}

#define THROUGH(place) "loopback through " place " memory of gpu 'g' (far): "
#define IOMMU "; the bus addresses do not belong to that memory: does an IOMMU translate them?"
#define WRITES "the ssd cannot write at bus address 0x4000000: Internal Error (006)"
#define READS "the ssd cannot read at bus address 0x4000000: Internal Error (006)"

Test(prove_calls, each_call_that_fails_is_the_last, .fini = end)
{
	static const struct {
		enum hr_place place;
		unsigned fails_at;
		int with;
		const char *calls, *says;
		bool refuted;
	} row[] = {
		{ HR_PLACE_HOST, 1, -EIO, "write16 ", "no write", false },
		{ HR_PLACE_HOST, 1, 6, "write16 ", "", false },
		{ HR_PLACE_HOST, 2, -EIO, "write16 in16:0 ", "no command", false },
		{ HR_PLACE_HOST, 2, 6, "write16 in16:0 ", THROUGH("host") WRITES IOMMU, true },
		{ HR_PLACE_HOST, 3, -EIO, "write16 in16:0 out16:0 ", "no command", false },
		{ HR_PLACE_HOST, 3, 6, "write16 in16:0 out16:0 ", THROUGH("host") READS IOMMU,
		  true },
		{ HR_PLACE_HOST, 4, -EIO, HOST_PAGE, "no read", false },
		{ HR_PLACE_GPU, 3, -EIO, "write16 in16:0 down0 ", "no download", false },
		{ HR_PLACE_GPU, 4, -EIO, "write16 in16:0 down0 up0 ", "no upload", false },
		{ HR_PLACE_GPU, 7, -EIO, GPU_PAGE, "no upload", false },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		begin(2);
		fails_at = row[i].fails_at;
		fails_with = row[i].with;
		cr_expect_eq(prove(row[i].place), row[i].with, "%zu", i);
		cr_expect_str_eq(calls_take(), row[i].calls, "%zu", i);
		cr_expect_str_eq(test_error_text(), row[i].says);
		cr_expect_eq(refuted, row[i].refuted, "%zu", i);
	}
	for (int err = 0; err < 2; err++) { /* the ssd is the cause, not the memory */
		begin(2);
		fails_at = 2;
		fails_with = 6;
		ssd->health.state = HR_HEALTH_LOST;
		disable_err = err ? -ETIMEDOUT : 0;
		hr_warn("none");
		cr_expect_eq(prove(HR_PLACE_HOST), 6);
		cr_expect_not(refuted);
		cr_expect_str_eq(calls_take(), "write16 in16:0 disable ");
		cr_expect_str_eq(
			fake_log_last_of(HR_LOG_WARN),
			err ? "x: the controller does not stop; the memory of the loopback "
			      "stays allocated"
			    : "none");
	}
}

#define ARRIVED "the data that the ssd wrote did not arrive at bus address 0x4000000: byte "
#define OTHER "the ssd read other data at bus address 0x4000000: byte "

Test(prove_calls, the_first_byte_that_differs_is_named_with_the_likely_cause, .fini = end)
{
	static const struct {
		enum hr_place place;
		bool pair, suspect, write;
		size_t at;
		const char *why;
	} row[] = {
		{ HR_PLACE_HOST, true, true, false, 0, IOMMU },
		{ HR_PLACE_HOST, true, true, true, HR_PAGE - 1, IOMMU },
		{ HR_PLACE_GPU, false, true, false, HR_PAGE - 2, IOMMU },
		{ HR_PLACE_GPU, true, true, true, 1,
		  "; most likely rule A98 of the topology: it redirects" },
		{ HR_PLACE_GPU, true, false, false, 2000,
		  "; the topology shows no cause (DIRECT by rule R99): a bridge or the firmware may "
		  "contradict its registers" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_path *path;
		char says[512];

		begin(1);
		path = &app->path[1][2];
		path->pair = row[i].pair;
		strcpy(path->verdict, "DIRECT");
		strcpy(path->rule, "R99");
		strcpy(path->suspect, row[i].suspect ? "A98" : "");
		strcpy(path->suspect_why, "it redirects");
		changes_at = row[i].at;
		changes_write = row[i].write;
		cr_expect_eq(prove(row[i].place), -EIO, "%zu", i);
		cr_expect(refuted);
		snprintf(says, sizeof says,
			 "loopback through %s memory of gpu 'g' (far): %s%zu is "
			 "0x%02x, expected 0x%02x%s",
			 row[i].place == HR_PLACE_GPU ? "gpu" : "host",
			 row[i].write ? OTHER : ARRIVED, row[i].at,
			 written[row[i].write][row[i].at] ^ 0x10, written[row[i].write][row[i].at],
			 row[i].why);
		cr_expect_str_eq(test_error_text(), says);
		cr_expect_eq(test_error_kind(), HR_ERROR_DEVICE);
	}
}

Test(prove_calls, a_write_protected_disk_is_read_only, .fini = end)
{
	begin(2);
	ssd->disk.blk.read_only = true;
	cr_expect_eq(prove(HR_PLACE_GPU), 0);
	cr_expect_str_eq(calls_take(), "read0 in0:0 down0 up0 read0 in0:1 down1 up1 ");
	cr_expect_eq(memory[0], 0);
	for (unsigned n = 1; n <= 4; n++) {
		static const char *const want[] = { "read0 ", "read0 in0:0 ", "read0 in0:0 down0 ",
						    "read0 in0:0 down0 up0 " };

		begin(2);
		ssd->disk.blk.read_only = true;
		fails_at = n;
		cr_expect_eq(prove(HR_PLACE_GPU), -EIO, "%u", n);
		cr_expect_str_eq(calls_take(), want[n - 1]);
	}
	begin(1);
	ssd->disk.blk.read_only = true;
	changes_at = 9;
	cr_expect_eq(prove(HR_PLACE_HOST), -EIO);
	cr_expect(refuted);
}
