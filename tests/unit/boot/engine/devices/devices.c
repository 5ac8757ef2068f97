/* SPDX-License-Identifier: Apache-2.0 */
/* Devices by their strings: each form that is accepted or refused, and the identity of a disk, by which
 * clients of an appliance name it. */
#include "boot/engine/devices/devices.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/harness/error.h"

#define ROWS(row) (sizeof(row) / sizeof *(row))
#define BDF "0000:fe:1e.7" /* of no function of this machine */

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

/* ---- transports */

#define OTHER "': expected soft:PATH[,...], pci:BDF or vfio:BDF"
#define LIKE(kind, device) "'" device OTHER "; did you mean '" kind device "'?"
#define KERNEL                                                                               \
	"': workers need queue pairs, which a disk of the kernel does not offer; it is for " \
	"'headrace store' only; expected soft:PATH[,...], pci:BDF or vfio:BDF"
#define NO_FUNCTION(kind, bdf) \
	kind bdf ": '" bdf "' is not a PCI function (expected like 0000:41:00.0)"

Test(devices, each_transport_string_is_accepted_or_refused_with_its_reason)
{
	static const struct {
		const char *device, *says; /* "": accepted */
	} row[] = {
		{ "soft:/a,size=1M", "" },
		{ "soft:", "soft: no path: expected soft:PATH, soft:memory or soft:null" },
		{ "pci:" BDF, "" },
		{ "vfio:" BDF, "" },
		{ "pci:41:00.0", "" },
		{ "pci:", NO_FUNCTION("pci:", "") },
		{ "vfio:0000:41:1f.8", NO_FUNCTION("vfio:", "0000:41:1f.8") },
		{ "pci:0000:41:20.0", NO_FUNCTION("pci:", "0000:41:20.0") },
		{ "pci:" BDF "x", NO_FUNCTION("pci:", BDF "x") },
		{ "kernel:/dev/x", "'kernel:/dev/x" KERNEL },
		{ "kernel", "'kernel" OTHER },
		{ "", "'" OTHER },
		{ "soft", "'soft" OTHER },
		{ BDF, LIKE("pci:", BDF) },
		{ "/etc/passwd", LIKE("soft:", "/etc/passwd") },
		{ "/etc/passwd,cache=0", LIKE("soft:", "/etc/passwd,cache=0") },
		{ "/etc", "'/etc" OTHER },
		{ "/hr/none/x.img", LIKE("soft:", "/hr/none/x.img") },
		{ "/hr/none.img", LIKE("soft:", "/hr/none.img") },
		{ "/hr/none.imgs", "'/hr/none.imgs" OTHER },
		{ ".img", "'.img" OTHER },
		{ "x.img", LIKE("soft:", "x.img") },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_transport t;
		const int want = *row[i].says ? -EINVAL : 0;

		cr_expect_eq(hr_transport_check(row[i].device, test_error()), want, "%zu", i);
		cr_expect_str_eq(test_error_text(), row[i].says);
		cr_expect_eq(test_error_kind(), want ? HR_ERROR_USAGE : HR_ERROR_NONE, "%zu", i);
		if (want)
			cr_expect_eq(hr_transport_open(&t, row[i].device, NULL), want, "%zu", i);
	}
}

/* The access mode with which this process has the file open; -1: it is closed. */
static int mode_of(const char *path)
{
	char link[32], to[128];

	for (int fd = 3; fd < 100; fd++) {
		ssize_t bytes;

		snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
		bytes = readlink(link, to, sizeof to - 1);
		if (bytes > 0 && (to[bytes] = '\0', strcmp(to, path) == 0))
			return fcntl(fd, F_GETFL) & O_ACCMODE;
	}
	return -1;
}

/* A process that may not create or write images does not. */
Test(devices, an_image_is_opened_as_the_process_may_access_it, .init = make_image,
     .fini = remove_image)
{
	static const struct {
		enum hr_open_mode access;
		const char *options;
		bool opens;
	} row[] = {
		{ HR_OPEN_CREATE, ",size=1M", true },
		{ HR_OPEN_EXISTING, "", true },
		{ HR_OPEN_READ_ONLY, "", true },
		{ HR_OPEN_EXISTING, ".2,size=1M", false },
		{ HR_OPEN_READ_ONLY, ".2,size=1M", false },
		{ HR_OPEN_CREATE, ".2", false },
		{ HR_OPEN_CREATE, ".2,size=1M", true },
	};
	char device[128];

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_transport t;
		const enum hr_open_mode before = hr_open_mode();
		bool opened;

		hr_open_mode_set(row[i].access);
		snprintf(device, sizeof device, "soft:%s%s", image, row[i].options);
		opened = hr_transport_open(&t, device, test_error()) == 0;
		cr_expect_eq(opened, row[i].opens, "row %zu: %s", i, test_error_text());
		if (opened && row[i].access == HR_OPEN_READ_ONLY)
			cr_expect_eq(mode_of(image), O_RDONLY, "row %zu", i);
		if (opened)
			t.ops->close(&t);
		hr_open_mode_set(before);
	}
	strcat(image, ".2");
	cr_expect_eq(unlink(image), 0);
	image[strlen(image) - 2] = '\0';
}

Test(devices, a_device_is_absent_when_it_may_come)
{
	static const struct {
		const char *device;
		bool absent;
	} row[] = {
		{ "pci:" BDF, true },
		{ "vfio:" BDF, true },
		{ "pci:x", false },
		{ "soft:/hr/none", true },
		{ "soft:/hr/none,size=1M", false },
		{ "soft:/hr/none,x=1", false },
		{ "soft:/", false },
		{ "soft:/dev/null/x", false }, /* ENOTDIR */
		{ "soft:null,size=1M", false },
		{ BDF, false },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		cr_expect_eq(hr_transport_is_absent(row[i].device), row[i].absent, "%zu", i);
		cr_expect_not(hr_transport_masters_bus(row[i].device), "%zu", i);
		cr_expect_eq(hr_transport_is_physical(row[i].device),
			     strncmp(row[i].device, "pci:", 4) == 0, "%zu", i);
	}
	cr_expect_eq(hr_transport_namespaces("soft:/etc/passwd,namespaces=3"), 3u);
	cr_expect_eq(hr_transport_namespaces("soft:/etc/passwd"), 1u);
	cr_expect_eq(hr_transport_namespaces("soft:/etc/passwd,namespaces=0"), 0u);
	cr_expect_eq(hr_transport_namespaces("/etc/passwd,namespaces=3"), 0u);
}

/* ---- backends */

#define SAME10 "0000000000"

Test(devices, each_backend_string_is_accepted_or_refused)
{
	static const char *const accepted[] = {
		"auto",
		"cuda:0",
		"cuda:9",
		"cuda:4096",
		"host:1",
		"cuda:12,compressible",
		"cuda:" SAME10 SAME10 "000002", /* 31 characters */
		"host:" SAME10 SAME10 "000001",
		"host:4096",
		"host:1,bar=" BDF "/2",
	};
	static const char *const refused[] = {
		"cuda:4097",
		"cuda:12,compressibl",
		"cuda:12,compressible2",
		"cuda:12,",
		",compressible",
		"cuda:",
		"cuda",
		"cuda:/",
		"cuda::",
		"cuda:-1",
		"cuda:1x",
		"cuda:99999999999999999999",
		"cuda:" SAME10 SAME10 "0000002",
		"cuda:1" SAME10 SAME10 SAME10 SAME10 SAME10,
		"host:0",
		"host:4097",
		"host:1x",
		"host:1,",
		"host:1,bar",
		"host:1,bax=" BDF,
		"host:1,bar=bad",
		"host:0,bar=" BDF,
		"host:" SAME10 SAME10 "0000001",
		"autos",
		"",
	};
	struct hr_backend b;

	for (size_t i = 0; i < ROWS(accepted); i++)
		cr_expect_eq(hr_backend_check(accepted[i], test_error()), 0, "%s", accepted[i]);
	for (size_t i = 0; i < ROWS(refused); i++) {
		char says[200];

		snprintf(says, sizeof says,
			 "'%s': expected cuda:N[,compressible], host:CPUS[,bar=BDF[/N]] or auto",
			 refused[i]);
		cr_expect_eq(hr_backend_open(&b, refused[i], 7, test_error()), -EINVAL, "%s",
			     refused[i]);
		cr_expect_str_eq(test_error_text(), says);
		cr_expect_eq(test_error_kind(), HR_ERROR_USAGE);
	}
}

/* The note has the choice when it is not what the string says. */
Test(devices, all_cpus_are_the_most_that_a_backend_has)
{
	const unsigned cpus = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
	struct hr_backend b;
	char device[32], note[128];

	for (unsigned n = cpus; n <= cpus + 1; n++) {
		memset(&b, 0, sizeof b);
		snprintf(device, sizeof device, "host:%u", n);
		snprintf(note, sizeof note, "%s: only %u CPUs are online", device, cpus);
		cr_assert_eq(hr_backend_open(&b, device, 7, test_error()), 0);
		cr_expect_eq(b.processors, cpus);
		cr_expect_str_eq(b.note, n > cpus ? note : "");
		b.ops->close(&b);
	}
	memset(&b, 0, sizeof b);
	if (hr_backend_open(&b, "cuda:0", 7, test_error()) == 0) { /* this machine has a GPU */
		b.ops->close(&b);
		return;
	}
	cr_expect(strncmp(test_error_text(), "cuda:0: ", 8) == 0 &&
			  strstr(test_error_text(), "; or use host:CPUS or auto"),
		  "%s", test_error_text());
	cr_expect_eq(test_error_kind(), HR_ERROR_MISSING);
	snprintf(note, sizeof note, "; worker blocks run on the %u CPUs", cpus);
	cr_assert_eq(hr_backend_open(&b, "auto", 7, test_error()), 0);
	cr_expect(strncmp(b.note, "auto: ", 6) == 0 && strstr(b.note, note), "%s", b.note);
	cr_expect_str_eq(test_error_text(), "", "the fallback is no error");
	b.ops->close(&b);
}
