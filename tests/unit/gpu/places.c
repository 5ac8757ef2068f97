/*
 * The memory behind a partition: what comes from where, what the CPU may touch, what is given back,
 * over the host backend and over one whose memory the CPU cannot touch.
 */
#include "boot/engine/devices.h"
#include "gpu/places.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config/log.h"

#define AWAY ((uintptr_t)1 << 46) /* workers see host memory so far from where the CPU does */

TestSuite(places, .timeout = 20);

/* A GPU: its memory lies at `far`, which the code under test must not touch itself. */
static struct {
	int attached, allocated, fail_after; /* fail_after: calls until one fails */
	uint8_t *far;
	size_t far_bytes;
	unsigned uploads, downloads;
	size_t moved; /* bytes, both ways */
} gpu;

static int next_call(void)
{
	return gpu.fail_after && --gpu.fail_after == 0 ? -EIO : 0;
}

static int gpu_attach(struct hr_backend *b, void *cpu, size_t bytes, bool io, void **worker)
{
	const int err = next_call();

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

static int gpu_alloc(struct hr_backend *b, size_t bytes, struct hr_region *region)
{
	const int err = next_call();

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
	gpu.allocated++;
	return 0;
}

static void gpu_free(struct hr_backend *b, struct hr_region *region)
{
	cr_expect_null(region->cpu, "the copy is not the backend's");
	free(region->worker);
	memset(region, 0, sizeof *region);
	gpu.allocated--;
}

static int gpu_upload(struct hr_backend *b, void *worker, const void *cpu, size_t bytes)
{
	gpu.uploads++;
	gpu.moved += bytes;
	memcpy(worker, cpu, bytes);
	return next_call();
}

static int gpu_download(struct hr_backend *b, void *cpu, const void *worker, size_t bytes)
{
	gpu.downloads++;
	gpu.moved += bytes;
	memcpy(cpu, worker, bytes);
	return next_call();
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
	char message[HR_LOG_LINE_MAX];
	enum hr_place failed;

	cr_assert_eq(hr_backend_open(&host, "host:1", 1, message), 0);
	cr_assert_eq(hr_places_take(&places, &host, used, &failed), 0);
	for (int i = 0; i < HR_PLACES; i++) {
		cr_expect_eq(places.region[i].bytes, used[i]);
		cr_expect_eq(places.region[i].cpu, places.region[i].worker);
		cr_expect_str_eq(places.region[i].name, hr_place_name((enum hr_place)i));
		all_zero(&places.region[i]);
	}
	cr_expect_not(places.has_copy);
	cr_expect_eq(hr_places_upload(&places), 0);
	cr_expect_eq(hr_places_download(&places), 0);
	hr_places_give(&places);
	hr_places_give(&places);
	host.ops->close(&host);
}

static bool mappable(void *to)
{
	return to != NULL;
}

static int export(void *to, uint64_t at, size_t bytes, int *fd)
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
	char message[HR_LOG_LINE_MAX] = "";
	struct hr_places places;
	struct hr_region *region = &places.region[HR_PLACE_GPU];
	enum hr_place failed;
	unsigned taken = 0;
	struct hr_bus bus;

	cr_assert_eq(hr_places_take(&places, &with, bytes, &failed), 0);
	cr_expect_eq(hr_places_open_gpu(&places, message), -ENOTSUP);
	cr_expect(strstr(message, "no other device can reach"), "%s", message);
	with.window = &driver;
	cr_expect_eq(hr_places_open_gpu(&places, message), -ENOTSUP);
	cr_expect(strstr(message, "dma-buf"), "%s", message);
	driver.to = &exported;
	for (size_t size = (size_t)1 << 30; size >= 2u << 20; size /= 2)
		while (hr_region_take_bus(size, &bus) == 0)
			taken++;
	cr_expect_eq(hr_places_open_gpu(&places, message), -ENOSPC);
	cr_expect_str_eq(message, "no I/O addresses left for 65536 bytes");
	hr_places_give(&places);
	while (taken--)
		hr_region_give_bus();
	cr_assert_eq(hr_places_take(&places, &with, bytes, &failed), 0);
	cr_assert_eq(hr_places_open_gpu(&places, message), 0, "%s", message);
	cr_expect_eq(exported, (uint64_t)(uintptr_t)region->worker);
	cr_assert_not_null(region->cpu);
	cr_expect_neq(region->bus.addr, 0);
	memset(region->cpu, 0x5a, region->bytes);
	hr_places_give(&places);
	cr_expect_eq(gpu.allocated, 0);
	cr_assert_eq(hr_region_take_bus(HR_PAGE, &bus), 0);
	cr_expect_eq(bus.addr, 64ull << 30); /* all its I/O addresses are free again */
	hr_region_give_bus();
}

Test(places, what_the_cpu_cannot_touch_it_writes_into_a_copy)
{
	struct hr_places places;
	enum hr_place failed;
	uint8_t *copy;

	cr_assert_eq(hr_places_take(&places, &backend, used, &failed), 0);
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
	cr_expect_eq(hr_places_upload(&places), 0);
	cr_expect_arr_eq(places.region[HR_PLACE_WORKER].worker, copy, 2 * HR_PAGE);
	((uint8_t *)places.region[HR_PLACE_WORKER].worker)[7] = 3;
	cr_expect_eq(copy[7], 0);
	cr_expect_eq(hr_places_download(&places), 0);
	cr_expect_eq(copy[7], 3);
	cr_expect_eq(gpu.uploads + gpu.downloads, 2);
	cr_expect_eq(gpu.moved, 2 * 2 * HR_PAGE, "what was asked for, not what was given");
	hr_places_give(&places);
	cr_expect_eq(gpu.attached, 0);
	cr_expect_eq(gpu.allocated, 0);
}

Test(places, whatever_fails_leaves_nothing_behind_and_is_named)
{
	static const enum hr_place want[] = { HR_PLACE_CONTROL, HR_PLACE_HOST, HR_PLACE_WORKER,
					      HR_PLACE_GPU };
	struct hr_places places;
	enum hr_place failed;

	for (int i = 0; i < 4; i++) {
		gpu.fail_after = i + 1;
		cr_expect_eq(hr_places_take(&places, &backend, used, &failed), -EIO);
		cr_expect_eq(failed, want[i]);
		cr_expect_eq(gpu.attached + gpu.allocated, 0, "at %d", i);
		cr_expect_eq(places.region[i].bytes, 0);
	}
	gpu.fail_after = 0;
	cr_assert_eq(hr_places_take(&places, &backend, used, &failed), 0);
	gpu.fail_after = 1;
	cr_expect_eq(hr_places_upload(&places), -EIO);
	gpu.fail_after = 1;
	cr_expect_eq(hr_places_download(&places), -EIO);
	hr_places_give(&places);
}

Test(places, a_place_without_bytes_takes_nothing)
{
	static const uint64_t little[HR_PLACES] = { 0, HR_PAGE };
	struct hr_places places;
	enum hr_place failed;

	cr_assert_eq(hr_places_take(&places, &backend, little, &failed), 0);
	cr_expect_eq(gpu.attached, 1);
	cr_expect_eq(gpu.allocated, 0);
	cr_expect_eq(hr_places_upload(&places), 0);
	cr_expect_eq(hr_places_download(&places), 0);
	cr_expect_eq(gpu.uploads + gpu.downloads, 0);
	hr_places_give(&places);
	cr_expect_eq(gpu.attached, 0);
}
