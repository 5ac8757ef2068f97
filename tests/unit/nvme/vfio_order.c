/*
 * VFIO call by call: the order of the calls, what is closed when the n-th one fails, and the text of
 * each error as a whole. tests/unit/nvme/vfio.c has a kernel with the states of groups.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/vfio.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "config/bytes.h"
#include "nvme/vfio.h"
#include "nvme/vfio_calls.h"
#include "tests/fakes/log.h"
#include "tests/harness/calls.h"
#include "tests/harness/error.h"

#define ROWS(a) (sizeof(a) / sizeof((a)[0]))
#define CONTAINER 100
#define GROUP 200 /* plus its number */
#define DEVICE 300
#define CONFIG (7ull << 40)
#define NEVER 99

TestSuite(vfio_order, .timeout = 60);

static const struct hr_function_state one = { .bdf = "0000:01:00.0",
					      .class = HR_CLASS_NVME,
					      .driver = "vfio-pci",
					      .group = 5,
					      .group_type = "DMA" };
static uint8_t bar[64];

/* From `nth` on, counted from 0, a call fails with `error`, or a request returns `value` when that is
 * not 0. */
static struct {
	unsigned nth, calls;
	int error, value;
	uint32_t info_flags; /* of the IOMMU */
	struct vfio_region_info bar;
	uint16_t command[2]; /* as it reads, the first and the second time */
	unsigned reads;
	ssize_t moved[3]; /* results of the accesses to the command register */
	uint16_t written;
} kernel;

/* Notes a call, and returns -1 for the one that fails. */
#define called(...) (calls_note(__VA_ARGS__), result())

static int result(void)
{
	errno = kernel.error;
	return kernel.calls++ == kernel.nth && !kernel.value ? -1 : 0;
}

int hr_vfio_call_open(const char *path, int flags)
{
	int number = 0;

	cr_expect_eq(flags, O_RDWR | O_CLOEXEC);
	if (called("open %s; ", path))
		return -1;
	return sscanf(path, "/dev/vfio/%d", &number) == 1 ? GROUP + number : CONTAINER;
}

int hr_vfio_call_close(int fd)
{
	kernel.calls--; /* it does not fail */
	called("close %d; ", fd);
	errno = EINTR;
	return 0;
}

/* Two ranges: up to 16 MiB, and from 32 to 64 MiB. */
static void fill_info(void *to)
{
	struct {
		struct vfio_iommu_type1_info head;
		struct vfio_iommu_type1_info_cap_iova_range cap;
		struct vfio_iova_range range[2];
	} info = { { .argsz = sizeof info,
		     .flags = kernel.info_flags,
		     .cap_offset = sizeof info.head },
		   { .header = { .id = VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE }, .nr_iovas = 2 },
		   { { 0, 0xffffff }, { 0x2000000, 0x3ffffff } } };

	memcpy(to, &info, sizeof info);
}

static int asked(int fd, unsigned long request, void *argument)
{
	struct vfio_iommu_type1_dma_map *map = argument;
	struct vfio_region_info *region = argument;

	switch (request) {
	case VFIO_GET_API_VERSION:
		return called("version %d; ", fd);
	case VFIO_CHECK_EXTENSION:
		return called("type%ld %d; ", (long)(intptr_t)argument, fd) ? -1 : 1;
	case VFIO_SET_IOMMU:
		return called("iommu%ld %d; ", (long)(intptr_t)argument, fd);
	case VFIO_IOMMU_GET_INFO:
		fill_info(argument);
		return called("info %d; ", fd);
	case VFIO_IOMMU_MAP_DMA:
		return called("map %llx+%llx %d; ", map->iova, map->size, fd);
	case VFIO_IOMMU_UNMAP_DMA:
		return called("unmap %llx+%llx %d; ",
			      ((struct vfio_iommu_type1_dma_unmap *)argument)->iova,
			      ((struct vfio_iommu_type1_dma_unmap *)argument)->size, fd);
	case VFIO_GROUP_GET_STATUS:
		((struct vfio_group_status *)argument)->flags = VFIO_GROUP_FLAGS_VIABLE;
		return called("status %d; ", fd);
	case VFIO_GROUP_SET_CONTAINER:
		return called("join %d %d; ", *(const int *)argument, fd);
	case VFIO_GROUP_GET_DEVICE_FD:
		return called("device %s %d; ", (const char *)argument, fd) ? -1 : DEVICE;
	case VFIO_DEVICE_GET_REGION_INFO:
		if (region->index == VFIO_PCI_CONFIG_REGION_INDEX)
			region->offset = CONFIG;
		else
			*region = kernel.bar;
		return called("region%u %d; ", region->index, fd);
	default:
		cr_assert_fail("request %lx", request);
		return -1;
	}
}

int hr_vfio_call_ioctl(int fd, unsigned long request, void *argument)
{
	const bool is_nth = kernel.calls == kernel.nth;
	const int result = asked(fd, request, argument);

	return is_nth && kernel.value ? kernel.value - 1 : result;
}

void *hr_vfio_call_mmap(size_t bytes, int fd, off_t offset)
{
	return called("mmap %zu %d %llx; ", bytes, fd, (unsigned long long)offset) ? MAP_FAILED
										   : bar;
}

int hr_vfio_call_munmap(void *at, size_t bytes)
{
	return called("munmap %d %zu; ", at == bar, bytes);
}

ssize_t hr_vfio_call_pread(int fd, void *to, size_t bytes, off_t offset)
{
	cr_expect(fd == DEVICE && bytes == 2 && (uint64_t)offset == CONFIG + HR_CFG_COMMAND);
	memcpy(to, &kernel.command[kernel.reads], 2);
	return kernel.moved[kernel.reads++ ? 2 : 0];
}

ssize_t hr_vfio_call_pwrite(int fd, const void *from, size_t bytes, off_t offset)
{
	cr_expect(fd == DEVICE && bytes == 2 && (uint64_t)offset == CONFIG + HR_CFG_COMMAND);
	memcpy(&kernel.written, from, 2);
	return kernel.moved[1];
}

static void start(unsigned nth, int error)
{
	memset(&kernel, 0, sizeof kernel);
	calls_take();
	kernel.nth = nth;
	kernel.error = error;
	kernel.info_flags = VFIO_IOMMU_INFO_CAPS;
	kernel.bar = (struct vfio_region_info){ .argsz = sizeof kernel.bar,
						.flags = VFIO_REGION_INFO_FLAG_MMAP,
						.size = sizeof bar,
						.offset = 0x5000 };
}

static void expect_calls(const char *want, size_t row)
{
	const char *text = calls_take();

	cr_expect_str_eq(text, want, "row %zu: %s", row, text);
}

static void expect_error(const char *says, size_t row)
{
	cr_expect_str_eq(test_error_text(), says, "row %zu: %s", row, test_error_text());
}

#define BOX "open /dev/vfio/vfio; version 100; "
#define TYPE "type3 100; "
#define JOIN "open /dev/vfio/5; status 205; join 100 205; iommu3 100; "
#define DEV "0000:01:00.0: "
#define NAME "device 0000:01:00.0 205; "
#define IOMMUFD                                                                       \
	": this kernel has iommufd only; use a kernel with CONFIG_VFIO_CONTAINER or " \
	"CONFIG_IOMMUFD_VFIO_CONTAINER"

Test(vfio_order, each_failure_is_named_and_closes_what_was_open)
{
	static const struct {
		unsigned nth;
		int error, value, want; /* value: result of the request + 1; 0: it fails */
		const char *calls, *says;
	} row[] = {
		{ 0, ENOENT, 0, -ENODEV, "open /dev/vfio/vfio; open /dev/iommu; close 100; ",
		  DEV "/dev/vfio/vfio: No such file or directory" IOMMUFD },
		{ 0, ENODEV, 0, -ENODEV, "open /dev/vfio/vfio; open /dev/iommu; close 100; ",
		  DEV "/dev/vfio/vfio: No such device" IOMMUFD },
		{ 0, EACCES, 0, -EACCES, "open /dev/vfio/vfio; ",
		  DEV "/dev/vfio/vfio: Permission denied: run as root, or let this user have it" },
		{ 0, EMFILE, 0, -ENODEV, "open /dev/vfio/vfio; ",
		  DEV "/dev/vfio/vfio: Too many open files" },
		{ 1, 0, 2, -ENODEV, BOX "close 100; ",
		  DEV "the kernel's vfio has no type1 IOMMU: modprobe vfio_iommu_type1" },
		{ 2, 0, 1, -ENODEV, BOX TYPE "close 100; ",
		  DEV "the kernel's vfio has no type1 IOMMU: modprobe vfio_iommu_type1" },
		{ 2, EINVAL, 0, -ENODEV, BOX TYPE "close 100; ",
		  DEV "the kernel's vfio has no type1 IOMMU: modprobe vfio_iommu_type1" },
		{ 3, EBUSY, 0, -EBUSY, BOX TYPE "open /dev/vfio/5; close 100; ",
		  DEV "/dev/vfio/5: Device or resource busy: another process has this IOMMU group; "
		      "end it first" },
		{ 3, EPERM, 0, -EACCES, BOX TYPE "open /dev/vfio/5; close 100; ",
		  DEV
		  "/dev/vfio/5: Operation not permitted: run as root, or let this user have it" },
		{ 3, EIO, 0, -ENODEV, BOX TYPE "open /dev/vfio/5; close 100; ",
		  DEV "/dev/vfio/5: Input/output error" },
		{ 4, EIO, 0, -ENODEV,
		  BOX TYPE "open /dev/vfio/5; status 205; close 205; close 100; ",
		  DEV "cannot read the state of IOMMU group 5: Input/output error" },
		{ 5, EINVAL, 0, -EBUSY,
		  BOX TYPE "open /dev/vfio/5; status 205; join 100 205; close 205; close 100; ",
		  DEV "IOMMU group 5 cannot share an address space with those of the other ssds: "
		      "Invalid argument" },
		{ 6, EPERM, 0, -EPERM, BOX TYPE JOIN "close 205; close 100; ",
		  DEV "the kernel cannot use the IOMMU for it: Operation not permitted; without "
		      "interrupt remapping, load vfio_iommu_type1 with allow_unsafe_interrupts=1" },
		{ 6, EIO, 0, -ENODEV, BOX TYPE JOIN "close 205; close 100; ",
		  DEV "the kernel cannot use the IOMMU for it: Input/output error" },
		{ 8, EBUSY, 0, -EBUSY, BOX TYPE JOIN "info 100; " NAME "close 205; close 100; ",
		  DEV "vfio does not open it: Device or resource busy" },
		{ 9, EIO, 0, -ENODEV,
		  BOX TYPE JOIN "info 100; " NAME "region7 300; close 300; close 205; close 100; ",
		  DEV "vfio does not open it: Input/output error" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_vfio_device d;

		start(row[i].nth, row[i].error);
		kernel.value = row[i].value;
		memset(&d, 0xff, sizeof d);
		cr_expect_eq(hr_vfio_device_open(&d, &one, test_error()), row[i].want, "row %zu",
			     i);
		expect_calls(row[i].calls, i);
		expect_error(row[i].says, i);
		cr_expect_eq(test_error_kind(), HR_ERROR_MISSING);
		hr_vfio_device_close(&d); /* it was not opened: nothing happens */
		expect_calls("", i);
		if (row[i].nth >= 8)
			cr_expect(hr_is_zero(&d, sizeof d), "row %zu", i);
	}
}

/* A second device of the group needs no call for the container, the group and the IOMMU. */
Test(vfio_order, a_device_is_closed_before_its_group_and_the_container)
{
	struct hr_vfio_device a, b;

	start(NEVER, 0);
	cr_assert_eq(hr_vfio_device_open(&a, &one, test_error()), 0);
	expect_calls(BOX TYPE JOIN "info 100; " NAME "region7 300; ", 0);
	cr_expect_eq(a.config, CONFIG);
	cr_expect_str_eq(a.bdf, one.bdf);
	cr_assert_eq(hr_vfio_device_open(&b, &one, test_error()), 0);
	expect_calls(NAME "region7 300; ", 0);
	hr_vfio_device_close(&a);
	expect_calls("close 300; ", 0);
	cr_expect(hr_is_zero(&a, sizeof a));
	hr_vfio_device_close(&b);
	expect_calls("close 300; close 205; close 100; ", 0);
}

Test(vfio_order, a_bar_that_cannot_be_mapped_is_described)
{
	static const struct {
		unsigned nth;
		uint64_t size;
		uint32_t flags;
		int want;
		const char *calls, *says;
	} row[] = {
		{ NEVER, 64, VFIO_REGION_INFO_FLAG_MMAP, 0, "region2 300; mmap 64 300 5000; ", "" },
		{ 0, 64, VFIO_REGION_INFO_FLAG_MMAP, -ENXIO, "region2 300; ", "" },
		{ NEVER, 0, VFIO_REGION_INFO_FLAG_MMAP, -ENXIO, "region2 300; ", "" },
		{ NEVER, 64, UINT32_MAX ^ VFIO_REGION_INFO_FLAG_MMAP, -ENXIO, "region2 300; ", "" },
		{ 1, 64, UINT32_MAX, -EIO, "region2 300; mmap 64 300 5000; ",
		  DEV "BAR2 of 64 bytes cannot be mapped: No space left on device" },
	};
	struct hr_vfio_device d;

	start(NEVER, 0);
	cr_assert_eq(hr_vfio_device_open(&d, &one, test_error()), 0);
	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_bar_map map;

		start(row[i].nth, ENOSPC);
		kernel.bar.index = 2;
		kernel.bar.size = row[i].size;
		kernel.bar.flags = row[i].flags;
		memset(&map, 0xff, sizeof map);
		cr_expect_eq(hr_vfio_device_map(&d, 2, &map, test_error()), row[i].want, "row %zu",
			     i);
		expect_calls(row[i].calls, i);
		expect_error(row[i].want != -ENXIO ? row[i].says
						   : DEV
				     "BAR2 is not memory that can be mapped; look at it with "
				     "lspci -vvs 0000:01:00.0: if it has no address, enable "
				     "64-bit BARs (above 4G decoding) in the firmware",
			     i);
		cr_expect_eq(map.cpu, row[i].want ? NULL : bar);
		cr_expect_eq(map.bytes, row[i].want ? 0 : 64u);
		hr_vfio_device_unmap(&map);
		expect_calls(row[i].want ? "" : "munmap 1 64; ", i);
		cr_expect(hr_is_zero(&map, sizeof map));
	}
	hr_vfio_device_close(&d);
}

Test(vfio_order, the_command_register_is_read_again)
{
	static const struct {
		uint16_t first, second, written;
		ssize_t moved[3];
		const char *says;
	} row[] = {
		{ 0x100, 0x106, 0x106, { 2, 2, 2 }, "" },
		{ 0x100, 0x104, 0x106, { 2, 2, 2 }, "0006 (it reads 0104)" },
		{ 0x100, 0x106, 0x106, { 2, 2, 1 }, "0006 (it reads 0106)" },
		{ 0x100, 0x106, 0x106, { 2, -1, 2 }, "0006 (it reads 0106)" },
		{ 0x100, 0x106, 0, { 1, 2, 2 }, "0006 (it reads 0106)" },
		{ 0xffff, 0x106, 0, { 2, 2, 2 }, "0006 (it reads ffff)" },
	};
	struct hr_vfio_device d;

	start(NEVER, 0);
	cr_assert_eq(hr_vfio_device_open(&d, &one, test_error()), 0);
	for (size_t i = 0; i < ROWS(row); i++) {
		char says[128] = "";

		start(NEVER, 0);
		kernel.command[0] = row[i].first;
		kernel.command[1] = row[i].second;
		memcpy(kernel.moved, row[i].moved, sizeof kernel.moved);
		cr_expect_eq(hr_vfio_device_enable(&d, 6, test_error()), row[i].says[0] ? -EIO : 0,
			     "row %zu", i);
		if (row[i].says[0])
			snprintf(says, sizeof says, DEV "its command register does not take %s",
				 row[i].says);
		expect_error(says, i);
		cr_expect_eq(kernel.written, row[i].written, "row %zu", i);
	}
	hr_vfio_device_close(&d);
}

static struct hr_bus granule[] = { { 0x1000 }, { 0x2000 }, { 0x8000 } };
static const struct hr_region region = { .name = "r",
					 .cpu = bar,
					 .bytes = 0x3000,
					 .bus = { 0x1000 },
					 .granule_bus = granule,
					 .granule_shift = 12 };

Test(vfio_order, a_mapping_that_fails_is_undone_and_described)
{
	static const struct {
		unsigned nth;
		int error;
		enum hr_error_kind kind;
		const char *calls, *says;
	} row[] = {
		{ 0, ENOMEM, HR_ERROR_MISSING, "map 1000+2000 100; ",
		  "vfio: region 'r': 8192 bytes at I/O address 0x1000 cannot be mapped: Cannot "
		  "allocate memory; more locked memory: ulimit -l" },
		{ 1, ENOSPC, HR_ERROR_MISSING,
		  "map 1000+2000 100; map 8000+1000 100; unmap 1000+2000 100; ",
		  "vfio: region 'r': 4096 bytes at I/O address 0x8000 cannot be mapped: No space "
		  "left on device; use huge pages, which need fewer mappings" },
		{ 1, EFAULT, HR_ERROR_DEVICE,
		  "map 1000+2000 100; map 8000+1000 100; unmap 1000+2000 100; ",
		  "vfio: region 'r': 4096 bytes at I/O address 0x8000 cannot be mapped: Bad "
		  "address" },
	};
	struct hr_region far = region;
	struct hr_vfio_device d;

	start(NEVER, 0);
	cr_assert_eq(hr_vfio_device_open(&d, &one, test_error()), 0);
	for (size_t i = 0; i < ROWS(row); i++) {
		start(row[i].nth, row[i].error);
		cr_expect_eq(hr_vfio_map(&region, test_error()), -row[i].error);
		cr_expect_eq(test_error_kind(), row[i].kind);
		expect_calls(row[i].calls, i);
		expect_error(row[i].says, i);
		hr_vfio_unmap(&region);
		expect_calls("", i);
	}
	far.granule_bus = NULL;
	far.bus.addr = 0xffe000;
	cr_expect_eq(hr_vfio_map(&far, test_error()), -ERANGE);
	expect_calls("", 0);
	expect_error("vfio: region 'r': the IOMMU does not support the addresses 0xffe000 to "
		     "0x1000fff; it supports addresses up to 0x3ffffff, except reserved ranges",
		     0);
	cr_expect_eq(test_error_kind(), HR_ERROR_MISSING);
	/* what cannot be unmapped is logged */
	start(1 + 1, EINVAL);
	cr_expect_eq(hr_vfio_map(&region, test_error()), 0);
	cr_expect_eq(fake_log_count(), 0u);
	hr_vfio_unmap(&region);
	cr_expect_eq(fake_log_count(), 1u);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN), "vfio: region 'r': 8192 bytes at I/O "
							"address 0x1000 stay mapped: Invalid "
							"argument");
	expect_calls("map 1000+2000 100; map 8000+1000 100; unmap 1000+2000 100; "
		     "unmap 8000+1000 100; ",
		     0);
	far.cpu = NULL;
	cr_expect_eq(hr_vfio_map(&far, test_error()), -EINVAL);
	expect_error("vfio: region 'r': the CPU cannot access it", 0);
	hr_vfio_device_close(&d);
}

/* Without information about addresses each one is given to the kernel. */
Test(vfio_order, only_information_that_the_kernel_gives_is_used)
{
	static const struct {
		unsigned nth;
		int error;
		uint32_t flags;
		int want;
	} row[] = {
		{ NEVER, 0, VFIO_IOMMU_INFO_CAPS, -ERANGE },
		{ 7, ENOTTY, VFIO_IOMMU_INFO_CAPS, 0 },
		{ NEVER, 0, VFIO_IOMMU_INFO_PGSIZES, 0 },
	};
	struct hr_region far = region;

	far.granule_bus = NULL;
	far.bus.addr = 1ull << 40;
	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_vfio_device d;

		start(row[i].nth, row[i].error);
		kernel.info_flags = row[i].flags;
		cr_assert_eq(hr_vfio_device_open(&d, &one, test_error()), 0, "row %zu: %s", i,
			     test_error_text());
		cr_expect_eq(hr_vfio_map(&far, test_error()), row[i].want, "row %zu", i);
		hr_vfio_device_close(&d);
	}
}

Test(vfio_order, without_an_iommu_no_call_is_made)
{
	struct hr_function_state state = one;
	struct hr_vfio_device d;

	start(NEVER, 0);
	state.group = HR_NO_GROUP;
	cr_expect_eq(hr_vfio_device_open(&d, &state, test_error()), -ENODEV);
	expect_calls("", 0);
	expect_error(DEV "no IOMMU is active, and vfio needs one: enable it in the firmware and "
			 "boot with intel_iommu=on or amd_iommu=on; or use pci:0000:01:00.0",
		     0);
}
