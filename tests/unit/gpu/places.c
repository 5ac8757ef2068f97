/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a partition: its sources, the CPU's access, and its release, over the host backend
 * and over one whose memory the CPU cannot access.
 */
#include "boot/engine/devices/devices.h"
#include "gpu/places.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config/base/log.h"
#include "tests/harness/error.h"

/* Distance between the workers' and the CPU's addresses of host memory. */
#define AWAY ((uintptr_t)1 << 46)

TestSuite(places, .timeout = 60);

/* A GPU whose memory lies at `far`; the tested code must not access this memory itself. */
static struct {
	int attached, allocated, fail_after; /* fail_after: calls until one fails */
	uint8_t *far;
	size_t far_bytes;
	unsigned uploads, downloads;
	size_t moved; /* bytes in both directions */
	bool near;    /* the CPU accesses its memory */
	char log[64]; /* how memory was asked for, a letter each */
} gpu;

static int next_call(struct hr_error *e)
{
	if (!gpu.fail_after || --gpu.fail_after)
		return 0;
	return hr_fail(e, HR_ERROR_DEVICE, -EIO, "the fake GPU has failed");
}

static int gpu_attach(struct hr_backend *b, void *cpu, size_t bytes, bool io, void **worker,
		      struct hr_error *e)
{
	const int err = next_call(e);

	cr_expect_eq((uintptr_t)cpu % HR_PAGE + bytes % HR_PAGE, 0);
	cr_expect_not(io);
	*worker = (void *)((uintptr_t)cpu + AWAY);
	gpu.attached += !err;
	return err;
}

static void gpu_detach(struct hr_backend *b, void *cpu)
{
	gpu.attached--;
}

static int gpu_alloc(struct hr_backend *b, size_t bytes, struct hr_region *region,
		     struct hr_error *e)
{
	const int err = next_call(e);

	if (err)
		return err;
	bytes = (bytes + HR_WINDOW_GRAIN - 1) / HR_WINDOW_GRAIN * HR_WINDOW_GRAIN;
	memset(region, 0, sizeof *region);
	region->kind = HR_REGION_GPU;
	region->bytes = bytes;
	region->worker = aligned_alloc(HR_WINDOW_GRAIN, bytes);
	memset(region->worker, 0, bytes);
	gpu.far = region->worker;
	gpu.far_bytes = bytes;
	if (gpu.near)
		region->cpu = region->worker;
	gpu.allocated++;
	strcat(gpu.log, "a");
	return 0;
}

static int gpu_alloc_peer(struct hr_backend *b, size_t bytes, struct hr_region *region,
			  struct hr_error *e)
{
	strcat(gpu.log, "p");
	return gpu_alloc(b, bytes, region, e);
}

static int gpu_reserve_shared(struct hr_backend *b, size_t bytes, struct hr_region *region,
			      struct hr_error *e)
{
	strcat(gpu.log, "s");
	return gpu_alloc(b, bytes, region, e);
}

static void gpu_free(struct hr_backend *b, struct hr_region *region)
{
	cr_expect_eq(region->cpu, gpu.near ? region->worker : NULL,
		     "the copy is not the backend's");
	strcat(gpu.log, "f");
	free(region->worker);
	memset(region, 0, sizeof *region);
	gpu.allocated--;
}

static int gpu_upload(struct hr_backend *b, void *worker, const void *cpu, size_t bytes,
		      struct hr_error *e)
{
	gpu.uploads++;
	gpu.moved += bytes;
	memcpy(worker, cpu, bytes);
	return next_call(e);
}

static int gpu_download(struct hr_backend *b, void *cpu, const void *worker, size_t bytes,
			struct hr_error *e)
{
	gpu.downloads++;
	gpu.moved += bytes;
	memcpy(cpu, worker, bytes);
	return next_call(e);
}

static const struct hr_backend_ops gpu_ops = {
	.attach = gpu_attach,
	.detach = gpu_detach,
	.alloc = gpu_alloc,
	.free = gpu_free,
	.upload = gpu_upload,
	.download = gpu_download,
};

static struct hr_backend backend = { .ops = &gpu_ops, .name = "far", .lanes = 32 };
static const uint64_t used[HR_PLACES] = { HR_PAGE, 3 * HR_PAGE, 2 * HR_PAGE, 4 * HR_PAGE };

static void all_zero(const struct hr_region *region)
{
	const uint8_t *bytes = region->cpu;

	for (size_t i = 0; i < region->bytes; i++)
		cr_assert_eq(bytes[i], 0);
}

Test(places, on_the_host_backend_all_places_are_the_cpus)
{
	struct hr_backend host;
	struct hr_places places;

	cr_assert_eq(hr_backend_open(&host, "host:1", 1, test_error()), 0);
	cr_assert_eq(hr_places_alloc(&places, &host, used, test_error()), 0);
	for (int i = 0; i < HR_PLACE_TAP; i++) {
		cr_expect_eq(places.region[i].bytes, used[i]);
		cr_expect_eq(places.region[i].cpu, places.region[i].worker);
		cr_expect_str_eq(places.region[i].name, hr_place_name((enum hr_place)i));
		all_zero(&places.region[i]);
	}
	cr_expect_not(places.has_copy);
	cr_expect_eq(hr_places_upload(&places, 0, 2 * HR_PAGE, NULL), 0);
	cr_expect_eq(hr_places_download(&places, 0, 2 * HR_PAGE, NULL), 0);
	hr_places_free(&places);
	hr_places_free(&places);
	host.ops->close(&host);
}

static bool mappable(void *to)
{
	return to != NULL;
}

static int export(void *to, uint64_t at, size_t bytes, int *fd, struct hr_error *e)
{
	*fd = memfd_create("gpu", MFD_CLOEXEC);
	*(uint64_t *)to = at;
	return ftruncate(*fd, (off_t)bytes) ? -errno : 0;
}

Test(places, gpu_memory_is_opened_for_other_devices_on_demand)
{
	static const uint64_t bytes[HR_PLACES] = { HR_PAGE, HR_PAGE, HR_PAGE, HR_WINDOW_GRAIN };
	uint64_t exported = 0;
	struct hr_window_driver driver = { mappable, export, NULL };
	struct hr_backend with = backend;
	struct hr_places places;
	struct hr_region *region = &places.region[HR_PLACE_GPU];
	unsigned taken = 0;
	struct hr_bus bus;

	cr_assert_eq(hr_places_alloc(&places, &with, bytes, test_error()), 0);
	cr_expect_eq(hr_places_open_gpu(&places, test_error()), -ENOTSUP);
	cr_expect(strstr(test_error_text(), "no other device can reach"), "%s", test_error_text());
	with.window = &driver;
	cr_expect_eq(hr_places_open_gpu(&places, test_error()), -ENOTSUP);
	cr_expect(strstr(test_error_text(), "dma-buf"), "%s", test_error_text());
	driver.to = &exported;
	for (size_t size = (size_t)1 << 30; size >= 2u << 20; size /= 2)
		while (hr_region_assign_bus(size, &bus) == 0)
			taken++;
	cr_expect_eq(hr_places_open_gpu(&places, test_error()), -ENOSPC);
	cr_expect_str_eq(test_error_text(), "no I/O addresses left for 65536 bytes");
	hr_places_free(&places);
	while (taken--)
		hr_region_unassign_bus();
	cr_assert_eq(hr_places_alloc(&places, &with, bytes, test_error()), 0);
	cr_assert_eq(hr_places_open_gpu(&places, test_error()), 0, "%s", test_error_text());
	cr_expect_eq(exported, (uint64_t)(uintptr_t)region->worker);
	cr_assert_not_null(region->cpu);
	cr_expect_neq(region->bus.addr, 0);
	memset(region->cpu, 0x5a, region->bytes);
	hr_places_free(&places);
	cr_expect_eq(gpu.allocated, 0);
	cr_assert_eq(hr_region_assign_bus(HR_PAGE, &bus), 0);
	cr_expect_eq(bus.addr, 64ull << 30); /* all I/O addresses of the place are free again */
	hr_region_unassign_bus();
}

Test(places, parts_without_cpu_access_are_written_to_a_copy)
{
	struct hr_places places;
	uint8_t *copy;

	cr_assert_eq(hr_places_alloc(&places, &backend, used, test_error()), 0);
	cr_expect_eq(gpu.attached, 2);
	cr_expect_eq(gpu.allocated, 2);
	for (int i = 0; i < HR_PLACE_WORKER; i++)
		cr_expect_eq((uintptr_t)places.region[i].worker,
			     (uintptr_t)places.region[i].cpu + AWAY);
	cr_expect_null(places.region[HR_PLACE_GPU].cpu);
	copy = places.region[HR_PLACE_WORKER].cpu;
	cr_assert_neq((void *)copy, places.region[HR_PLACE_WORKER].worker);
	all_zero(&places.region[HR_PLACE_WORKER]);
	copy[0] = 1;
	copy[2 * HR_PAGE - 1] = 2;
	cr_expect_eq(hr_places_upload(&places, 0, 2 * HR_PAGE, NULL), 0);
	cr_expect_arr_eq(places.region[HR_PLACE_WORKER].worker, copy, 2 * HR_PAGE);
	((uint8_t *)places.region[HR_PLACE_WORKER].worker)[7] = 3;
	cr_expect_eq(copy[7], 0);
	cr_expect_eq(hr_places_download(&places, 0, 2 * HR_PAGE, NULL), 0);
	cr_expect_eq(copy[7], 3);
	cr_expect_eq(gpu.uploads + gpu.downloads, 2);
	cr_expect_eq(gpu.moved, 2 * 2 * HR_PAGE, "what was asked for, not what was given");
	/* The neighbouring memory belongs to a launch that runs. */
	memset(copy, 4, 2 * HR_PAGE);
	cr_expect_eq(hr_places_upload(&places, 64, 128, NULL), 0);
	for (uint32_t i = 0; i < 2 * HR_PAGE; i++)
		cr_assert_eq(((uint8_t *)places.region[HR_PLACE_WORKER].worker)[i] == 4,
			     i >= 64 && i < 192, "byte %u", i);
	memset(places.region[HR_PLACE_WORKER].worker, 5, 2 * HR_PAGE);
	cr_expect_eq(hr_places_download(&places, 64, 128, NULL), 0);
	for (uint32_t i = 0; i < 2 * HR_PAGE; i++)
		cr_assert_eq(copy[i] == 5, i >= 64 && i < 192, "byte %u", i);
	hr_places_free(&places);
	cr_expect_eq(gpu.attached, 0);
	cr_expect_eq(gpu.allocated, 0);
}

Test(places, a_failed_allocation_is_named_and_undone)
{
	static const char *const want[] = {
		"cannot get 4096 bytes of control memory: the fake GPU has failed",
		"cannot get 12288 bytes of host memory: the fake GPU has failed",
		"cannot get 8192 bytes of worker memory: the fake GPU has failed",
		"cannot get 16384 bytes of gpu memory: the fake GPU has failed",
	};
	struct hr_places places;

	for (int i = 0; i < 4; i++) {
		gpu.fail_after = i + 1;
		cr_expect_eq(hr_places_alloc(&places, &backend, used, test_error()), -EIO);
		cr_expect_eq(test_error_kind(), HR_ERROR_DEVICE);
		cr_expect_str_eq(test_error_text(), want[i]);
		cr_expect_eq(gpu.attached + gpu.allocated, 0, "at %d", i);
		cr_expect_eq(places.region[i].bytes, 0);
	}
	gpu.fail_after = 0;
	cr_assert_eq(hr_places_alloc(&places, &backend, used, test_error()), 0);
	gpu.fail_after = 1;
	cr_expect_eq(hr_places_upload(&places, 0, HR_PAGE, NULL), -EIO);
	gpu.fail_after = 1;
	cr_expect_eq(hr_places_download(&places, 0, HR_PAGE, NULL), -EIO);
	hr_places_free(&places);
}

Test(places, a_place_without_bytes_has_no_allocation)
{
	static const uint64_t little[HR_PLACES] = { 0, HR_PAGE };
	struct hr_places places;

	cr_assert_eq(hr_places_alloc(&places, &backend, little, test_error()), 0);
	cr_expect_eq(gpu.attached, 1);
	cr_expect_eq(gpu.allocated, 0);
	cr_expect_eq(hr_places_upload(&places, 0, 0, NULL), 0);
	cr_expect_eq(hr_places_download(&places, 0, 0, NULL), 0);
	cr_expect_eq(gpu.uploads + gpu.downloads, 0);
	hr_places_free(&places);
	cr_expect_eq(gpu.attached, 0);
}

/* True when the page is in the process's address space. */
static bool is_mapped(void *at)
{
	unsigned char state;

	return mincore(at, HR_PAGE, &state) == 0;
}

/* A backend whose memory the CPU accesses has no copy; each place is asked for in its way. */
Test(places, each_place_is_asked_for_and_given_back_in_its_way)
{
	static const struct {
		bool peer, shared, near;
		const char *taken, *given;
	} row[] = { { false, false, false, "aa", "aaff" },
		    { true, false, true, "apa", "apaff" },
		    { false, true, true, "aasa", "aasafff" },
		    { true, true, false, "apasa", "apasafff" } };
	static const uint64_t bytes[HR_PLACES] = { HR_PAGE, HR_PAGE,	 HR_PAGE,
						   HR_PAGE, 2 * HR_PAGE, 3 * HR_PAGE };

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_backend_ops ops = gpu_ops;
		struct hr_backend with = backend;
		struct hr_places places;
		const struct hr_region *tap = &places.region[HR_PLACE_TAP];
		const struct hr_region *words = &places.region[HR_PLACE_TAP_WORDS];
		void *at[2];

		ops.alloc_peer = row[i].peer ? gpu_alloc_peer : NULL;
		ops.reserve_shared = row[i].shared ? gpu_reserve_shared : NULL;
		with.ops = &ops;
		gpu.near = row[i].near;
		gpu.log[0] = '\0';
		cr_assert_eq(hr_places_alloc(&places, &with, bytes, test_error()), 0);
		cr_expect_str_eq(gpu.log, row[i].taken, "row %zu: %s", i, gpu.log);
		cr_expect_eq(places.has_copy, !row[i].near);
		for (int p = 0; p < HR_PLACES; p++)
			cr_expect_str_eq(places.region[p].name, hr_place_name((enum hr_place)p));
		at[0] = tap->cpu;
		at[1] = words->cpu;
		cr_expect(words->bytes == 3 * HR_PAGE && words->cpu == words->worker);
		cr_expect(is_mapped(at[1]) && is_mapped((uint8_t *)at[1] + 2 * HR_PAGE));
		if (!row[i].shared)
			cr_expect(tap->bytes == 2 * HR_PAGE && at[0] == tap->worker &&
				  is_mapped(at[0]));
		hr_places_free(&places);
		cr_expect_str_eq(gpu.log, row[i].given, "row %zu: %s", i, gpu.log);
		cr_expect_eq(gpu.attached + gpu.allocated, 0);
		cr_expect(!is_mapped(at[1]) && (row[i].shared || !is_mapped(at[0])));
	}
	gpu.near = false;
}

Test(places, words_of_taps_are_attached_when_a_gpu_needs_it)
{
	static const struct {
		uint64_t words;
		uint32_t lanes;
		int fail_after, err;
		bool attached;
	} row[] = { { HR_PAGE, 32, 0, 0, true },
		    { HR_PAGE, 2, 0, 0, true },
		    { HR_PAGE, 1, 0, 0, false },
		    { 0, 32, 0, 0, false },
		    { HR_PAGE, 32, 1, -EIO, false } };

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const uint64_t bytes[HR_PLACES] = { [HR_PLACE_TAP_WORDS] = row[i].words };
		struct hr_backend with = backend;
		struct hr_places places;
		const struct hr_region *words = &places.region[HR_PLACE_TAP_WORDS];

		with.lanes = row[i].lanes;
		cr_assert_eq(hr_places_alloc(&places, &with, bytes, test_error()), 0);
		gpu.fail_after = row[i].fail_after;
		cr_expect_eq(hr_places_attach_words(&places, test_error()), row[i].err, "row %zu",
			     i);
		cr_expect_eq(places.has_words, row[i].attached, "row %zu", i);
		cr_expect_eq(gpu.attached, row[i].attached);
		if (row[i].attached)
			cr_expect_eq((uintptr_t)words->worker, (uintptr_t)words->cpu + AWAY);
		hr_places_detach_words(&places);
		cr_expect(gpu.attached == 0 && !places.has_words);
		gpu.fail_after = 0;
		cr_expect_eq(hr_places_attach_words(&places, test_error()), 0, "row %zu", i);
		hr_places_free(&places);
		cr_expect_eq(gpu.attached, 0);
	}
}
