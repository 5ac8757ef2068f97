/* SPDX-License-Identifier: Apache-2.0 */
/* Device strings and images of the software controller, and I/O address space of regions. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "boot/engine/devices/devices.h"
#include "config/base/log.h"
#include "config/base/limits.h"
#include "nvme/soft/soft.h"
#include "tests/harness/error.h"

static char path[64];

static void name_image(void)
{
	int fd;

	snprintf(path, sizeof(path), "/tmp/headrace-options-XXXXXX");
	fd = mkstemp(path);
	cr_assert_geq(fd, 0);
	close(fd);
	unlink(path);
}

static void remove_image(void)
{
	unlink(path);
}

TestSuite(soft_options, .init = name_image, .fini = remove_image, .timeout = 60);

Test(soft_options, defaults_are_the_documented_ones)
{
	struct hr_soft_options o;

	cr_assert_eq(hr_soft_parse("ssd.img", &o, test_error()), 0, "%s", test_error_text());
	cr_expect_str_eq(o.path, "ssd.img");
	cr_expect_eq(o.bytes, 0);
	cr_expect_eq(o.block_bytes, 4096);
	cr_expect_eq(o.mdts, 8);
	cr_expect_eq(o.dstrd, 0);
	cr_expect_eq(o.cache_bytes, 16u << 20);
	cr_assert_eq(hr_soft_parse("memory,size=1M,cache=64K", &o, test_error()), 0);
	cr_expect_eq(o.cache_bytes, 64u << 10);
	cr_assert_eq(hr_soft_parse("memory,size=1M", &o, test_error()), 0);
	cr_expect_eq(o.cache_bytes, 0, "memory is as volatile as any cache");
	cr_assert_eq(hr_soft_parse("ssd.img", &o, test_error()), 0);
	cr_expect_eq(o.threads, 1);
	cr_expect_eq(o.namespaces, 1);
	cr_expect_eq(o.reservations, 0);
	cr_expect_eq(o.cpus, 0);
	cr_expect_not(o.populate);
	cr_expect_not(o.null);
	cr_expect_str_eq(o.faults, "");
}

Test(soft_options, every_option_is_read)
{
	struct hr_soft_options o;

	cr_assert_eq(hr_soft_parse("memory,size=3G,lba=512,mdts=2,dstrd=1,cache=0,threads=4,"
				   "cpus=2-6,populate=1,faults=a=b,id=144d:A821,"
				   "quirks=no-shutdown+list-end",
				   &o, test_error()),
		     0, "%s", test_error_text());
	cr_expect_str_eq(o.path, "");
	cr_expect_eq(o.bytes, 3ull << 30);
	cr_expect_eq(o.block_bytes, 512);
	cr_expect_eq(o.mdts, 2);
	cr_expect_eq(o.dstrd, 1);
	cr_expect_eq(o.cache_bytes, 0);
	cr_expect_eq(o.threads, 4);
	cr_expect_eq(o.first_cpu, 2);
	cr_expect_eq(o.cpus, 5);
	cr_expect(o.populate);
	cr_expect_str_eq(o.faults, "a=b");
	cr_expect_eq(o.vendor, 0x144d);
	cr_expect_eq(o.device, 0xa821);
	cr_expect_eq(o.quirks, (uint32_t)(HR_SOFT_NO_SHUTDOWN | HR_SOFT_LIST_END));
}

Test(soft_options, each_quirk_has_its_name)
{
	static const char *const name[] = { "no-shutdown", "late-ready", "early-ready",
					    "admin-64",	   "ones",	 "medium-priority",
					    "same-eui64",  "same-nguid", "same-serial",
					    "sqhd-back",   "list-end",	 "few-queues" };
	struct hr_soft_options o;
	char text[64];

	for (unsigned i = 0; i < sizeof(name) / sizeof(*name); i++) {
		snprintf(text, sizeof(text), "x,quirks=%s", name[i]);
		cr_assert_eq(hr_soft_parse(text, &o, test_error()), 0, "%s", test_error_text());
		cr_expect_eq(o.quirks, 1u << i, "%s", name[i]);
	}
}

Test(soft_options, shared_and_read_only_images_have_no_cache_of_their_own)
{
	struct hr_soft_options o;

	cr_assert_eq(hr_soft_parse("x,shared=1,zoned=0", &o, test_error()), 0, "%s",
		     test_error_text());
	cr_expect(o.shared);
	cr_expect_eq(o.cache_bytes, 0);
	cr_assert_eq(hr_soft_parse("x,readonly=1,zoned=1", &o, test_error()), 0, "%s",
		     test_error_text());
	cr_expect(o.read_only && o.zoned);
	cr_expect_eq(o.cache_bytes, 0);
	cr_expect_eq(hr_soft_parse("x,shared=1,cache=1M", &o, test_error()), -EINVAL);
	cr_expect_eq(hr_soft_parse("memory,size=1M,shared=1", &o, test_error()), -EINVAL);
}

Test(soft_options, null_has_a_size_and_no_cache)
{
	struct hr_soft_options o;

	cr_assert_eq(hr_soft_parse("null,size=64T,lba=512,cpus=3", &o, test_error()), 0, "%s",
		     test_error_text());
	cr_expect(o.null);
	cr_expect_str_eq(o.path, "");
	cr_expect_eq(o.cache_bytes, 0);
	cr_expect_eq(o.bytes, 64ull << 40);
	cr_expect_eq(o.first_cpu, 3);
	cr_expect_eq(o.cpus, 1);
	cr_assert_eq(hr_soft_parse("./null", &o, test_error()), 0, "%s", test_error_text());
	cr_expect_not(o.null, "a file of that name");
}

/* One more is refused: see the mistakes. */
Test(soft_options, each_limit_is_accepted)
{
	struct hr_soft_options o;

	cr_assert_eq(hr_soft_parse("x,lba=4096,mdts=15,dstrd=8,cache=4G,threads=64,namespaces=16,"
				   "reservations=2,kelvin=65535,spare=0,used=255,cpus=960-1023",
				   &o, test_error()),
		     0, "%s", test_error_text());
	cr_expect_eq(o.block_bytes, 4096u);
	cr_expect_eq(o.mdts, 15u);
	cr_expect_eq(o.dstrd, 8u);
	cr_expect_eq(o.cache_bytes, 4ull << 30);
	cr_expect_eq(o.threads, 64u);
	cr_expect_eq(o.namespaces, 16u);
	cr_expect_eq(o.reservations, 2u);
	cr_expect_eq(o.kelvin, 65535u);
	cr_expect_eq(o.spare_gone, 100u);
	cr_expect_eq(o.used, 255u);
	cr_expect_eq(o.first_cpu, 960u);
	cr_expect_eq(o.cpus, 64u);
	cr_assert_eq(hr_soft_parse("x,mdts=0,dstrd=0,cache=0,threads=1,namespaces=1,reservations=0,"
				   "kelvin=1,spare=100,used=0",
				   &o, test_error()),
		     0, "%s", test_error_text());
	cr_expect_eq(o.threads, 1u);
	cr_expect_eq(o.kelvin, 1u);
	cr_expect_eq(o.spare_gone, 0u);
}

Test(soft_options, mistakes_are_refused_with_their_text)
{
	static const struct {
		const char *text, *named;
	} row[] = {
		{ "", "path" },
		{ "memory", "size" },
		{ "x,size", "size" },
		{ "x,", "" },
		{ "x,size=", "size" },
		{ "x,size=0", "size" },
		{ "x,size=-1", "size" },
		{ "x,size=4097", "4097" },
		{ "x,size=1Q", "1Q" },
		{ "x,size=99999999999999999999", "999" },
		{ "x,size=17179869184G", "size" },
		{ "x,lba=1024", "lba" },
		{ "x,mdts=99", "mdts" },
		{ "x,threads=0", "threads" },
		{ "x,threads=65", "threads" },
		{ "x,cache=100", "cache" },
		{ "x,colour=red", "colour" },
		{ "x,faults=", "faults" },
		{ "null", "size" },
		{ "null,size=1M,cache=1M", "cache" },
		{ "null,size=1M,populate=1", "populate" },
		{ "x,populate=1,shared=1", "populate" },
		{ "memory,size=1M,populate=2", "populate" },
		{ "x,cpus=", "cpus" },
		{ "x,cpus=3-2", "3-2" },
		{ "x,cpus=1024", "1023" },
		{ "x,cpus=1-1K", "1-1K" },
		{ "x,cpus=1-2-3", "1-2-3" },
		{ "x,cpus=00000000000000000000001", "cpus" },
		{ "x,threads=4,cpus=0-2", "threads=4" },
		{ "x,mdts=16", "mdts=16" },
		{ "x,dstrd=9", "dstrd=9" },
		{ "x,readonly=2", "readonly=2" },
		{ "x,shared=2", "shared=2" },
		{ "x,zoned=2", "zoned=2" },
		{ "x,namespaces=0", "namespaces=0" },
		{ "x,namespaces=17", "namespaces=17" },
		{ "x,reservations=3", "reservations=3" },
		{ "x,cache=4294971392", "cache=4294971392" },
		{ "x,kelvin=0", "kelvin=0" },
		{ "x,kelvin=65536", "kelvin=65536" },
		{ "x,spare=101", "spare=101" },
		{ "x,used=256", "used=256" },
		{ "x,zoned=1,namespaces=2", "zoned=1" },
		{ "x,zoned=1,reservations=1", "zoned=1" },
		{ "memory,size=1M,shared=1", "shared=1" },
		{ "x,shared=1,cache=4096", "shared=1" },
		{ "x,quirks=", "'': expected some of these, with '+' between them: no-shutdown" },
		{ "x,quirks=ones+one", "'one'" },
		{ "x,id=144d", "144d:a821" },
		{ "x,id=144d:a82", "id=144d:a82" },
		{ "x,id=144d:a8210", "id=144d:a8210" },
		{ "x,id=144d,a821", "id=144d" },
		{ "x,id=14 d:a821", "id=14 d:a821" },
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct hr_soft_options o;

		cr_expect_eq(hr_soft_parse(row[i].text, &o, test_error()), -EINVAL, "'%s'",
			     row[i].text);
		cr_expect(strstr(test_error_text(), row[i].named), "'%s': %s", row[i].text,
			  test_error_text());
	}
}

Test(soft_options, a_text_beyond_the_limit_is_refused)
{
	struct hr_soft_options o;
	char text[2 * HR_DEVICE_MAX];

	memset(text, 'a', sizeof(text));
	text[HR_DEVICE_MAX] = '\0';
	cr_expect_eq(hr_soft_parse(text, &o, test_error()), -EINVAL);
	text[HR_DEVICE_MAX - 1] = '\0';
	cr_expect_eq(hr_soft_parse(text, &o, test_error()), 0);
}

Test(soft_options, transports_are_distinguished_by_their_prefix)
{
	static const struct {
		const char *device;
		int check, open;
	} row[] = {
		{ "soft:memory,size=1M", 0, 0 },
		{ "soft:memory", -EINVAL, -EINVAL },
		{ "pci:0000:41:00.0", 0, -ENOENT },
		{ "vfio:0000:41:00.7", 0, -ENOENT },
		{ "pci:0000:41:00.8", -EINVAL, -EINVAL },
		{ "pci:nonsense", -EINVAL, -EINVAL },
		{ "pci:0000:41:00.0x", -EINVAL, -EINVAL },
		{ "kernel:/dev/nvme0n1", -EINVAL, -EINVAL },
		{ "", -EINVAL, -EINVAL },
		{ "soft:/nonexistent/image", 0, -ENOENT },
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct hr_transport t;
		int err;

		cr_expect_eq(hr_transport_check(row[i].device, test_error()), row[i].check, "%s",
			     row[i].device);
		err = hr_transport_open(&t, row[i].device, test_error());
		cr_expect_eq(err, row[i].open, "%s: %d", row[i].device, err);
		if (!err)
			t.ops->close(&t);
	}
}

/* Each refused device string is named, with the form that is expected. */
Test(soft_options, mistakes_in_device_strings_are_named)
{
	static const struct {
		const char *device, *text;
	} row[] = {
		{ "pci:0000:41:00.8", "pci:0000:41:00.8: '0000:41:00.8' is not a PCI function" },
		{ "pci:0000:41:20.0", "is not a PCI function (expected like 0000:41:00.0)" },
		{ "vfio:41:00", "vfio:41:00: '41:00' is not a PCI function" },
		{ "vfio:0000:41:00.0 ", "is not a PCI function" },
		{ "kernel:/dev/nvme0n1", "it is for 'headrace store' only; expected soft:PATH" },
		{ "0000:41:00.0", "; did you mean 'pci:0000:41:00.0'?" },
		{ "a.img", "; did you mean 'soft:a.img'?" },
		{ "a.img,size=1M", "; did you mean 'soft:a.img,size=1M'?" },
		{ "/etc/passwd", "; did you mean 'soft:/etc/passwd'?" },
		{ ".img", "'.img': expected soft:PATH[,...], pci:BDF or vfio:BDF" },
		{ "x", "'x': expected soft:PATH[,...], pci:BDF or vfio:BDF" },
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		cr_expect_eq(hr_transport_check(row[i].device, test_error()), -EINVAL, "%s",
			     row[i].device);
		cr_expect(strstr(test_error_text(), row[i].text), "'%s' lacks '%s'",
			  test_error_text(), row[i].text);
		cr_expect_eq(test_error_kind(), HR_ERROR_USAGE);
	}
	cr_expect_eq(hr_transport_check(".img", test_error()), -EINVAL);
	cr_expect_not(strstr(test_error_text(), "did you mean"), "%s", test_error_text());
	cr_expect_eq(hr_transport_check("x", test_error()), -EINVAL);
	cr_expect_not(strstr(test_error_text(), "did you mean"), "%s", test_error_text());
	cr_expect_eq(hr_transport_check("vfio:0000:41:1f.7", test_error()), 0);
	cr_expect_eq(hr_transport_check("pci:41:00.0", test_error()), 0, "%s", test_error_text());
}

/* One disk has one identity, by whatever string it is named. */
Test(soft_options, the_identity_of_a_device_does_not_depend_on_its_options)
{
	static const struct {
		const char *device;
		uint32_t nsid;
		int want;
		const char *text;
	} row[] = {
		{ "pci:0000:41:00.0", 1, 0, "function:0000:41:00.0/1" },
		{ "vfio:41:00.0", 2, 0, "function:0000:41:00.0/2" },
		{ "vfio:0001:AF:1f.7", 4294967295u, 0, "function:0001:af:1f.7/4294967295" },
		{ "pci:nonsense", 1, -EINVAL, "" },
		{ "soft:memory,size=1M", 1, -ENODEV, "" },
		{ "soft:null,size=1M", 1, -ENODEV, "" },
		{ "soft:memory", 1, -EINVAL, "" },
		{ "soft:/nonexistent/image", 1, -ENOENT, "" },
		{ "kernel:/dev/nvme0n1", 1, -EINVAL, "" },
	};
	char text[96], other[96], device[HR_DEVICE_MAX];
	struct stat st;
	FILE *image = fopen(path, "w");

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		memset(text, 'x', sizeof(text) - 1);
		cr_expect_eq(hr_transport_identity(row[i].device, row[i].nsid, text, sizeof(text)),
			     row[i].want, "%s", row[i].device);
		cr_expect_str_eq(text, row[i].text, "%s", row[i].device);
	}
	cr_expect_eq(hr_transport_identity("pci:0000:41:00.0", 1, text, 24), 0);
	cr_expect_eq(hr_transport_identity("pci:0000:41:00.0", 1, text, 23), -ENAMETOOLONG);
	cr_expect_str_eq(text, "");
	cr_assert(image && stat(path, &st) == 0);
	fclose(image);
	snprintf(device, sizeof(device), "soft:%s", path);
	cr_expect_eq(hr_transport_identity(device, 3, text, sizeof(text)), 0);
	snprintf(other, sizeof(other), "image:%llx:%llx/3", (unsigned long long)st.st_dev,
		 (unsigned long long)st.st_ino);
	cr_expect_str_eq(text, other);
	snprintf(device, sizeof(device), "soft:/tmp/.%s,cache=0", path + strlen("/tmp"));
	cr_expect_eq(hr_transport_identity(device, 3, text, sizeof(text)), 0);
	cr_expect_str_eq(text, other);
}

Test(soft_options, an_absent_device_is_one_that_may_come)
{
	char device[HR_DEVICE_MAX];

	snprintf(device, sizeof(device), "soft:%s", path);
	cr_expect(hr_transport_is_absent(device));
	snprintf(device, sizeof(device), "soft:%s,size=1M", path);
	cr_expect_not(hr_transport_is_absent(device), "it is made");
	cr_expect_not(hr_transport_is_absent("soft:/etc/passwd"));
	cr_expect_not(hr_transport_is_absent("soft:/etc/passwd/x"), "no folder");
	cr_expect_not(hr_transport_is_absent("soft:memory,size=1M"));
	cr_expect_not(hr_transport_is_absent("soft:memory"), "a mistake");
	cr_expect(hr_transport_is_absent("pci:fffe:41:00.0"));
	cr_expect_not(hr_transport_is_absent("pci:nonsense"));
	cr_expect_not(hr_transport_is_absent("kernel:/dev/nonexistent"));
	cr_expect_eq(hr_transport_namespaces("soft:memory,size=1M,namespaces=5"), 5);
	cr_expect_eq(hr_transport_namespaces("soft:memory"), 0, "a mistake");
	cr_expect_eq(hr_transport_namespaces("pci:0000:41:00.0"), 0, "not known");
	cr_expect(hr_transport_is_physical("pci:0000:41:00.0"));
	cr_expect_not(hr_transport_is_physical("vfio:0000:41:00.0"));
	cr_expect_not(hr_transport_is_physical("soft:memory,size=1M"));
	cr_expect_not(hr_transport_masters_bus("soft:memory,size=1M"));
	cr_expect_not(hr_transport_masters_bus("pci:fffe:41:00.0"));
}

static int open_with(const char *options, struct hr_transport *t)
{
	char device[HR_DEVICE_MAX];

	snprintf(device, sizeof(device), "soft:%s%s", path, options);
	return hr_transport_open(t, device, test_error());
}

Test(soft_options, an_image_is_made_once_and_keeps_its_size)
{
	struct hr_transport t, second;
	struct stat st;

	cr_expect_eq(open_with("", &t), -ENOENT);
	cr_assert_eq(open_with(",size=1M", &t), 0, "%s", test_error_text());
	cr_expect_eq(open_with("", &second), -EBUSY, "two controllers of one image");
	t.ops->close(&t);
	cr_expect_eq(open_with(",size=2M", &t), -EINVAL);
	cr_assert_eq(stat(path, &st), 0);
	cr_expect_eq(st.st_size, 1 << 20, "a wrong size= must not change the image");
	cr_assert_eq(open_with("", &t), 0, "%s", test_error_text());
	t.ops->close(&t);
}

Test(soft_options, a_long_path_is_named_by_its_end)
{
	char device[HR_DEVICE_MAX];
	struct hr_transport t;

	cr_assert_eq(open_with(",size=1M", &t), 0, "%s", test_error_text());
	cr_expect_eq(strncmp(t.name, "soft:/tmp/", 10), 0, "%s", t.name);
	cr_expect_str_eq(t.name + 5, path);
	t.ops->close(&t);
	snprintf(device, sizeof(device), "soft:/tmp/././././././././%s", path + strlen("/tmp/"));
	cr_assert_eq(hr_transport_open(&t, device, test_error()), 0, "%s", test_error_text());
	cr_expect_eq(strncmp(t.name, "soft:...", 8), 0, "%s", t.name);
	cr_expect_str_eq(t.name + strlen(t.name) - strlen(path) + 4, path + 4);
	cr_expect_lt(strlen(t.name), sizeof t.name);
	t.ops->close(&t);
}

Test(soft_options, a_file_of_another_type_is_refused_as_an_image)
{
	struct hr_transport t;
	int fd = open(path, O_CREAT | O_WRONLY, 0600);

	cr_assert_eq(ftruncate(fd, 4097), 0);
	cr_expect_eq(open_with("", &t), -EINVAL);
	cr_assert_eq(ftruncate(fd, 0), 0);
	cr_expect_eq(open_with("", &t), -EINVAL);
	close(fd);
	unlink(path);
	cr_assert_eq(mkdir(path, 0700), 0);
	cr_expect_lt(open_with("", &t), 0);
	cr_expect_lt(open_with(",size=1M", &t), 0);
	rmdir(path);
}

Test(soft_options, regions_get_addresses_of_their_own)
{
	static uint8_t memory[2 * HR_PAGE] __attribute__((aligned(HR_PAGE)));
	struct hr_region a, b;

	cr_expect_eq(hr_region_init_host(&a, "a", memory + 1, HR_PAGE), -EINVAL);
	cr_expect_eq(hr_region_init_host(&a, "a", memory, HR_PAGE - 1), -EINVAL);
	cr_expect_eq(hr_region_init_host(&a, "a", memory, 0), -EINVAL);
	cr_expect_eq(hr_region_init_host(&a, "a", memory, 1ull << 39), -ENOSPC);
	cr_assert_eq(hr_region_init_host(&a, "a", memory, 2 * HR_PAGE), 0);
	cr_assert_eq(hr_region_init_host(&b, "b", memory, 2 * HR_PAGE), 0);
	cr_expect_geq(a.bus.addr, 64ull << 30);
	cr_expect_eq(a.bus.addr % (2u << 20), 0);
	cr_expect_geq(b.bus.addr, a.bus.addr + a.bytes);
	cr_expect_neq(a.bus.addr, (uintptr_t)memory);
	cr_expect_eq(hr_region_bus(&a, HR_PAGE + 8).addr, a.bus.addr + HR_PAGE + 8);
}
