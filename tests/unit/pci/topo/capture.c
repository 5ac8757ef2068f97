/* Lines of headrace's own captures: each is kept as it is, or refused. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pci/topo/capture.h"
#include "pci/topo/fields.h"
#include "tests/harness/evaluate.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

TestSuite(topo_capture, .init = fake_evaluate_up, .fini = fake_evaluate_down, .timeout = 60);

static char text[1 << 20];

/* The capture of the model, in `text`. */
static void capture(void)
{
	const int fd = memfd_create("capture", 0);
	ssize_t size;

	cr_assert_eq(hr_capture_write(&model, fd), 0);
	size = pread(fd, text, sizeof text - 1, 0);
	cr_assert(size > 0 && (size_t)size < sizeof text - 1);
	text[size] = '\0';
	close(fd);
}

/* A machine whose functions have no registers, so that captures hold lines only. */
static struct hr_fn *load_without_registers(void)
{
	for (unsigned i = 0; i < machine.count; i++)
		machine.fn[i].bytes = 0;
	cr_assert_eq(fake_load(&machine, &model), 0, "%s", model.error.text);
	return &model.fn[fake_at(SIBLING)];
}

static bool take(struct hr_fn *f, const char *line)
{
	char copy[512];

	snprintf(copy, sizeof copy, "%s", line);
	return hr_capture_line(&model, f, copy, strlen(copy));
}

Test(topo_capture, the_facts_of_a_line_are_written_again)
{
	static const char *const of_function[] = {
		"vendor=5197",
		"text.device=43018",
		"xml.class=67586",
		"inferred.mps=256",
		"bar0=e0000000,3",
		"text.bar5=38000000000,7",
		"xml.bar4=1000,1f",
		"bar0_size=268435456",
		"text.bar5_size=4096",
		"vf_bar0=e1000000,1",
		"vf_bar0_size=16384",
		"text.vf_bar5=39000000000,7",
		"text.vf_bar5_size=8192",
		"mem=e0000000-e0ffffff",
		"text.pref=38000000000-383ffffffff",
		"nvlink=0000:03:00.0,1",
		"nvlink=switch,1024",
		"text.nvlink=0000:05:00.0,2,switch",
		"xgmi=0000:03:00.0,4",
		"under=0000:02:00.0",
		"switch_link=0000:01:00.0",
		"driver=nvme",
		"slot_name=12",
		"cpus=0-15",
		"fs=ext4",
		"devices=nvme0n1",
		"denied=1",
	};
	static const char *const of_system[] = {
		"kernel=6.1.0",	  "lockdown=integrity", "nvidia=550.1",	 "nvidia_keys=a=1 b=2",
		"nvidia_fs=2.17", "cmdline=quiet ",	"cpu_amd=1",	 "cpu_family=25",
		"cpus=64",	  "hypervisor=0",	"text.iommu=2",	 "p2pdma=1",
		"nvidia_open=0",  "multipath=1",	"source=box.txt"
	};
	struct hr_fn *f = load_without_registers();
	char want[256];

	for (size_t i = 0; i < ROWS(of_function); i++)
		cr_expect(take(f, of_function[i]), "%s", of_function[i]);
	for (size_t i = 0; i < ROWS(of_system); i++)
		cr_expect(take(NULL, of_system[i]), "%s", of_system[i]);
	capture();
	for (size_t i = 0; i < ROWS(of_function); i++) {
		/* facts without a prefix come from sysfs, addresses from the text */
		const bool plain = strncmp(of_function[i], "bar0=", 5) == 0 ||
				   strncmp(of_function[i], "vf_bar0=", 8) == 0 ||
				   strncmp(of_function[i], "mem=", 4) == 0;
		const bool number = strncmp(of_function[i], "vendor=", 7) == 0 ||
				    strstr(of_function[i], "bar0_size=") ||
				    strncmp(of_function[i], "nvlink=", 7) == 0 ||
				    strncmp(of_function[i], "xgmi=", 5) == 0;

		snprintf(want, sizeof want, "\theadrace: %s%s\n",
			 plain	  ? "text."
			 : number ? "sysfs."
				  : "",
			 of_function[i]);
		cr_expect_not_null(strstr(text, want), "%s", want);
	}
	for (size_t i = 0; i < ROWS(of_system); i++) {
		snprintf(want, sizeof want, "%s\n", strchr(of_system[i], '=') + 1);
		cr_expect_not_null(strstr(text, want), "%s", of_system[i]);
	}
}

/* A window above 4 GiB, whose base must not be taken for another fact. */
Test(topo_capture, a_function_has_no_line_of_a_fact_that_does_not_exist)
{
	struct hr_fn *f = load_without_registers();
	unsigned lines = 0;
	char *at;

	memset(f->fact, 0, sizeof f->fact);
	memset(f->bar, 0, sizeof f->bar);
	cr_expect(take(f, "mem=4e0000000-5e0ffffff"));
	capture();
	at = strstr(text, "0000:" SIBLING);
	cr_assert_not_null(at);
	cr_expect_not_null(strstr(at, "\n\theadrace: text.mem=4e0000000-5e0ffffff\n"), "%s", at);
	for (; *at && strncmp(at, "\n\n", 2) != 0; at++)
		lines += strncmp(at, "\n\theadrace:", 11) == 0;
	cr_expect_eq(lines, 1u, "%s", text);
}

Test(topo_capture, a_line_that_is_no_fact_is_refused)
{
	static const char *const line[] = {
		"",
		"vendor",
		"vendors=1",
		"vendor=",
		"config.vendor=1",
		"user.vendor=1",
		"bar=1,1",
		"bar6=1,1",
		"bar00=1,1",
		"bax0=1,1",
		"bar0=1",
		"bar0=1;1",
		"bar0=1,20",
		"bar0=1,1x",
		"vf_bar6=1,1",
		"vfxbar0=1,1",
		"vf_=1,1",
		"vf_bax0=1,1",
		"bar6_size=1",
		"bar0_sizo=1",
		"bax0_size=1",
		"bar0_size=1x",
		"bar0_size=",
		"vf_bar6_size=1",
		"mem=1",
		"mem=1,2",
		"mem=1-2x",
		"mem=1-",
		"nvlink=switch",
		"nvlink=switch,0",
		"nvlink=switch,1025",
		"nvlink=switch,1x",
		"nvlink=0000:03:00.0,1,switchx",
		"nvlink=0000:03:00.0,1,",
		"nvlink=nowhere,1",
		"nvlink=0000:03:00.0000000000000000000000,1",
		"under=here",
		"switch_link=here",
	};
	struct hr_fn *f = load_without_registers();

	for (size_t i = 0; i < ROWS(line); i++)
		cr_expect_not(take(f, line[i]), "%s", line[i]);
	cr_expect_not(take(NULL, "vendor=1"));
	cr_expect_not(take(NULL, "cpus"));
	cr_expect_not(take(NULL, "cpus=x"));
	cr_expect(take(NULL, "capture=2"));
}

/*
 * A fact of a worse source does not replace one of a better source; a fact of an equal source does.
 */
Test(topo_capture, the_better_source_stays)
{
	struct hr_fn *f = load_without_registers();

	cr_assert(take(f, "text.bar0=1000,1") && take(f, "xml.bar0=2000,1"));
	cr_expect_eq(f->bar[0].base, 0x1000u);
	cr_assert(take(f, "text.bar0=3000,1"));
	cr_expect_eq(f->bar[0].base, 0x3000u);
	cr_assert(take(f, "sysfs.bar0_size=4096") && take(f, "text.bar0_size=8192"));
	cr_expect_eq(f->bar[0].size, 4096u);
	cr_assert(take(f, "sysfs.bar0_size=16384"));
	cr_expect_eq(f->bar[0].size, 16384u);
	cr_assert(take(f, "text.mem=1000-1fff") && take(f, "xml.mem=2000-2fff"));
	cr_expect_eq(f->mem.base, 0x1000u);
	cr_assert(take(f, "text.mem=3000-3fff"));
	cr_expect_eq(f->mem.limit, 0x3fffu);
}

/* A text that is longer than a line is split, and joined again. */
Test(topo_capture, long_texts_are_split_and_joined)
{
	struct hr_fn *f = load_without_registers();
	char piece[201 + 16] = "devices=", joined[402];

	memset(piece + 8, 'a', 200);
	cr_assert(take(f, piece));
	memset(piece + 8, 'b', 200);
	cr_assert(take(f, piece) && take(f, "devices=c"));
	memset(joined, 'a', 200);
	memset(joined + 200, 'b', 200);
	memcpy(joined + 400, "c", 2);
	cr_expect_str_eq(f->devices, joined);
	capture();
	cr_expect_not_null(strstr(text, "b\n\theadrace: devices=c\n"));
	/* A joined text has at most 1023 bytes. */
	for (unsigned i = 0; i < 3; i++)
		cr_assert(take(f, piece));
	memset(piece + 8, 'd', 22);
	piece[8 + 22] = '\0';
	cr_assert(take(f, piece), "1023 bytes");
	cr_expect_eq(strlen(f->devices), 1023u);
	cr_expect_not(take(f, "devices=e"), "1024 bytes");
}

Test(topo_capture, private_parameters_and_serial_numbers_stay_out)
{
	struct fake_fn *disk = fake_find(&machine, SIBLING);
	static const uint8_t serial[8] = { 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8 };

	/* The list goes on to a serial number, and behind it; the dwords around it are kept. */
	fake_put(disk, FAKE_ATS, 4, HR_ECAP_ATS | 1 << 16 | 0x300u << 20);
	fake_put(disk, 0x300, 4, 3 | 1 << 16 | 0x500u << 20);
	memcpy(disk->config + 0x304, serial, sizeof serial);
	disk->config[0x30c] = 0xb1;
	/* Bytes like those of a serial number that no list leads to. */
	fake_put(disk, HR_CFG_DEVICE, 2, 0x4000);
	fake_put(disk, 0x400, 4, 3 | 1 << 16);
	fake_put(disk, 0x404, 4, 0xc4c3c2c1);
	cr_assert_eq(fake_load(&machine, &model), 0, "%s", model.error.text);
	snprintf(model.sys.cmdline, sizeof model.sys.cmdline, "%s",
		 "root=UUID=1 quiet systemd.hostname=me dyndbg=\"a b\" ip=1.2.3.4 last");
	capture();
	cr_expect_not_null(
		strstr(text, "\n300: 03 00 01 50 00 00 00 00 00 00 00 00 b1 00 00 00\n"));
	cr_expect_not_null(
		strstr(text, "\n400: 03 00 01 00 c1 c2 c3 c4 00 00 00 00 00 00 00 00\n"));
	/* Sizes that the registers state are not written again; one of the text is. */
	cr_expect_null(strstr(text, "bar1_size"));
	cr_expect_not_null(strstr(text, "\theadrace: text.bar0_size=16384\n"));
	cr_expect_null(strstr(text, "UUID"));
	cr_expect_null(strstr(text, "hostname"));
	cr_expect_null(strstr(text, "1.2.3.4"));
	cr_expect_not_null(strstr(text,
				  "headrace: cmdline=quiet \nheadrace: cmdline=dyndbg=\"a b\" \n"
				  "headrace: cmdline=last \n"));
}
