/* The identity of a disk, by which clients of an appliance name it. */
#include "boot/engine/devices.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(devices, .timeout = 60);

static char folder[32], image[64], text[128];

static int identity(const char *device, uint32_t nsid)
{
	memset(text, 'x', sizeof text);
	text[sizeof text - 1] = '\0';
	return hr_transport_identity(device, nsid, text, sizeof text);
}

static void make_image(void)
{
	FILE *file;

	strcpy(folder, "/tmp/hr-devices-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
	snprintf(image, sizeof image, "%s/ssd.img", folder);
	file = fopen(image, "w");
	cr_assert_not_null(file);
	fclose(file);
}

static void remove_image(void)
{
	unlink(image);
	rmdir(folder);
}

Test(devices, an_image_has_one_identity_by_all_its_names, .init = make_image, .fini = remove_image)
{
	char device[128], first[sizeof text], other[80];

	snprintf(device, sizeof device, "soft:%s", image);
	cr_assert_eq(identity(device, 1), 0);
	cr_expect_eq(strncmp(text, "image:", 6), 0, "%s", text);
	strcpy(first, text);
	snprintf(device, sizeof device, "soft:%s/../%s/ssd.img,size=1M,lba=512", folder,
		 folder + strlen("/tmp/"));
	cr_assert_eq(identity(device, 1), 0);
	cr_expect_str_eq(text, first);
	cr_assert_eq(identity(device, 2), 0);
	cr_expect_str_neq(text, first, "another namespace");
	snprintf(other, sizeof other, "%s/link", folder);
	cr_assert_eq(link(image, other), 0);
	snprintf(device, sizeof device, "soft:%s", other);
	cr_assert_eq(identity(device, 1), 0);
	cr_expect_str_eq(text, first);
	unlink(other);
}

Test(devices, a_function_has_one_identity_by_both_transports)
{
	cr_assert_eq(identity("pci:0000:3a:00.1", 1), 0);
	cr_expect_str_eq(text, "function:0000:3a:00.1/1");
	cr_assert_eq(identity("vfio:3A:00.1", 1), 0);
	cr_expect_str_eq(text, "function:0000:3a:00.1/1");
	cr_assert_eq(identity("pci:0001:3a:00.1", 7), 0);
	cr_expect_str_eq(text, "function:0001:3a:00.1/7");
}

Test(devices, a_device_without_identity_is_an_error_and_has_no_text)
{
	static const struct {
		const char *device;
		int err;
	} row[] = {
		{ "soft:memory,size=1M", -ENODEV },
		{ "soft:null,size=1M", -ENODEV },
		{ "soft:/absent/ssd.img", -ENOENT },
		{ "soft:x,lba=3", -EINVAL },
		{ "soft:", -EINVAL },
		{ "pci:", -EINVAL },
		{ "pci:zz:00.0", -EINVAL },
		{ "vfio:0000:3a:00.1/2", -EINVAL },
		{ "kernel:/dev/nvme0n1", -EINVAL },
		{ "", -EINVAL },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		cr_expect_eq(identity(row[i].device, 1), row[i].err, "'%s'", row[i].device);
		cr_expect_str_eq(text, "", "'%s'", row[i].device);
	}
}

Test(devices, an_identity_that_does_not_fit_is_an_error)
{
	char small[23]; /* the text needs 24 bytes with its NUL */

	cr_expect_eq(hr_transport_identity("pci:0000:3a:00.1", 1, small, sizeof small),
		     -ENAMETOOLONG);
	cr_expect_str_eq(small, "");
}
