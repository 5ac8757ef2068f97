/* SPDX-License-Identifier: Apache-2.0 */
/* All sources of a topology, and all kinds of damage of a capture. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pci/topo/lspci/lspci.h"
#include "pci/topo/fields.h"
#include "pci/topo/source/source.h"
#include "pci/topo/rules/verdict.h"
#include "tests/harness/archive.h"
#include "tests/harness/machine.h"

static struct hr_model model, other;

static void set_up(void)
{
	cr_assert_eq(hr_model_init(&model), 0);
	cr_assert_eq(hr_model_init(&other), 0);
}

static void tear_down(void)
{
	hr_model_fini(&model);
	hr_model_fini(&other);
}

TestSuite(topo_sources, .init = set_up, .fini = tear_down, .timeout = 60);

static int parse(const char *text)
{
	hr_model_reset(&model);
	return hr_source_parse(&model, "x", text, strlen(text));
}

static const struct hr_fn *at(const struct hr_model *m, const char *address)
{
	uint32_t domain, bus, dev, fn;
	int32_t index;

	cr_assert_neq(hr_bdf_parse(address, &domain, &bus, &dev, &fn), 0);
	index = hr_model_find(m, domain, bus, dev, fn);
	cr_assert_neq(index, HR_NO_FN, "%s is missing", address);
	return &m->fn[index];
}

static char *many(uint32_t n)
{
	size_t size;
	char *text = NULL;
	FILE *out = open_memstream(&text, &size);

	for (uint32_t i = 0; i < n; i++)
		fprintf(out, "%04x:%02x:%02x.%x x\n", i >> 16, i >> 8 & 255, i >> 3 & 31, i & 7);
	fclose(out);
	return text;
}

Test(topo_sources, one_function_too_many_is_refused)
{
	char *text = many(HR_FUNCTIONS_MAX + 1);

	cr_expect_eq(parse(text), -E2BIG);
	cr_expect(strstr(model.error.text, "line 65537") != NULL, "%s", model.error.text);
	free(text);
	text = many(HR_FUNCTIONS_MAX);
	cr_expect_eq(parse(text), 0);
	free(text);
}

Test(topo_sources, a_model_gives_its_memory_back)
{
	struct hr_model one;
	unsigned char page;
	void *memory;

	cr_assert_eq(hr_model_init(&one), 0);
	memory = one.memory;
	cr_expect_eq(mincore(memory, 4096, &page), 0);
	hr_model_fini(&one);
	cr_expect_eq(mincore(memory, 4096, &page), -1);
	cr_expect_eq(errno, ENOMEM);
	cr_expect_null(one.memory);
	hr_model_fini(&one); /* all zero, so this does nothing */
}

#define XML_MAX ((size_t)16 << 20)

/* The reader takes a text from memory, or reads the file by itself. */
static void expect_limit(const char *text, size_t size, bool refused)
{
	const int fd = memfd_create("text", 0);
	char path[64];

	cr_assert_eq(write(fd, text, size), (ssize_t)size);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	hr_model_reset(&model);
	cr_expect_eq(hr_source_parse(&model, "x", text, size), -EINVAL);
	cr_expect_eq(strstr(model.error.text, "larger than 16 MiB") != NULL, refused, "%zu: %s",
		     size, model.error.text);
	hr_model_reset(&model);
	cr_expect_eq(hr_source_open(&model, path), -EINVAL);
	cr_expect_eq(strstr(model.error.text, "larger than 16 MiB") != NULL, refused, "%zu: %s",
		     size, model.error.text);
	close(fd);
}

Test(topo_sources, a_text_in_xml_has_less_than_16_mib)
{
	char *text = malloc(XML_MAX);

	cr_assert_not_null(text);
	memset(text, ' ', XML_MAX);
	text[0] = '<';
	expect_limit(text, XML_MAX - 1, false);
	expect_limit(text, XML_MAX, true);
	free(text);
}

/* ---- sysfs, as an archive */

#define DEVICES "sys/devices/pci0000:00"

static char *make_tar(const struct fake_machine *m, size_t *size)
{
	const struct fake_member list[] = {
		{ .path = "sys/bus/pci/devices/0000:00:01.0",
		  .link = "../../../devices/pci0000:00/0000:00:01.0" },
		{ .path = "sys/bus/pci/devices/0000:01:00.0",
		  .link = "../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0" },
		{ .path = DEVICES "/0000:00:01.0/config", .bytes = m->fn[1].config, .size = 4096 },
		{ .path = DEVICES "/0000:00:01.0/0000:01:00.0/config",
		  .bytes = m->fn[7].config,
		  .size = 4096 },
		{ .path = DEVICES "/0000:00:01.0/0000:01:00.0/numa_node", .text = "-1\n" },
		{ .path = DEVICES "/0000:00:01.0/0000:01:00.0/resource",
		  .text = "0x00000000e0000000 0x00000000e0003fff 0x0000000000140204\n" },
		{ .path = DEVICES "/0000:00:01.0/0000:01:00.0/driver",
		  .link = "../../../../bus/pci/drivers/nvme" },
		{ .path = DEVICES "/0000:00:01.0/0000:01:00.0/iommu_group",
		  .link = "../../../../kernel/iommu_groups/12" },
		{ .path = "sys/kernel/iommu_groups/12/type", .text = "DMA-FQ\n" },
		{ .path = "sys/kernel/security/lockdown", .text = "none [integrity]\n" },
		{ .path = "sys/dev/block/259:1",
		  .link = "../../devices/pci0000:00/0000:00:01.0/0000:01:00.0/nvme/nvme0/nvme0n1" },
		{ .path = "proc/self/mountinfo",
		  .text = "22 1 259:1 / / rw - ext4 /dev/root rw\n"
			  "23 22 9:0 / /data rw shared:1 - xfs /dev/md0 rw\n" },
		{ .path = "proc/sys/kernel/osrelease", .text = "6.1.0-37\n" },
		{ .path = "proc/cmdline", .text = "quiet iommu=pt\n" },
		{ .path = "sys/dev/block/9:0", .link = "../../devices/virtual/block/md0" },
		{ .path = "sys/dev/block/9:0/slaves/nvme0n1", .text = "" },
		{ .path = "sys/class/block/nvme0n1",
		  .link = "../../devices/pci0000:00/0000:00:01.0/0000:01:00.0/nvme/nvme0/nvme0n1" },
		{ .path = "proc/driver/nvidia/version",
		  .text = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.10  "
			  "Release Build  (builder@host)  Thu Oct 10 2024\nGCC version: 12.2.0\n" },
		{ .path = "proc/driver/nvidia/params",
		  .text = "EnableMSI: 1\nRegistryDwordsPerDevice: \"x\"\n"
			  "RegistryDwords: \"RMForceStaticBar1=1;\"\nRmMsg: \"\"\n" },
		{ .path = "sys/module/nvme_core/parameters/multipath", .text = "Y\n" },
		{ .path = "boot/config-6.1.0-37",
		  .text = "CONFIG_PCI=y\n# CONFIG_PCI_P2PDMA is not set\n" },
		{ .path = "proc/cpuinfo",
		  .text = "vendor_id\t: AuthenticAMD\ncpu family\t: 25\nflags\t\t: fpu sse2\n" },
	};

	return fake_archive(list, sizeof list / sizeof *list, size);
}

Test(topo_sources, an_archive_of_sysfs_is_read_like_the_machine)
{
	struct fake_machine *m = calloc(1, sizeof *m);
	const struct hr_fn *disk;
	size_t size;
	char *tar;

	fake_two_ports(m);
	tar = make_tar(m, &size);
	cr_assert_eq(hr_source_parse(&model, "x.tar", tar, size), 0, "%s", model.error.text);
	cr_expect_eq(model.count, 2u);
	disk = at(&model, "01:00.0");
	cr_expect_eq(disk->config_bytes, 4096u);
	cr_expect_str_eq(disk->driver, "nvme");
	cr_expect_eq(hr_get(disk, HR_F_NUMA, 0), ~0u);
	cr_expect_eq(hr_get(disk, HR_F_GROUP, 0), 12u);
	cr_expect_eq(hr_get(disk, HR_F_MOUNTED, 0), 1u);
	cr_expect_str_eq(disk->fs, "ext4,xfs");
	cr_expect_eq(hr_get(disk, HR_F_STACKED, 0), 1u, "the second is on md");
	cr_expect_str_eq(model.sys.nvidia, "570.86.10");
	cr_expect_eq(model.sys.nvidia_open.value, 1u);
	cr_expect_str_eq(model.sys.nvidia_keys, "RMForceStaticBar1=1;");
	cr_expect_str_eq(model.sys.nvidia_fs, HR_NOT_LOADED, "other modules are listed");
	cr_expect_eq(model.sys.multipath.value, 1u);
	cr_expect(model.sys.p2pdma.source && model.sys.p2pdma.value == 0);
	cr_expect_eq(disk->bar[0].size, 16u << 10);
	cr_expect_eq(model.sys.iommu.value, (uint32_t)HR_IOMMU_ON);
	cr_expect_str_eq(model.sys.kernel, "6.1.0-37");
	cr_expect_str_eq(model.sys.cmdline, "quiet iommu=pt");
	cr_expect_str_eq(model.sys.lockdown, "integrity");
	cr_expect_eq(model.sys.family.value, 25u);
	cr_expect_eq(model.sys.amd.value, 1u);
	free(tar);
	free(m);
}

Test(topo_sources, an_archive_that_is_cut_or_damaged_is_refused)
{
	struct fake_machine *m = calloc(1, sizeof *m);
	size_t size;
	char *tar;

	fake_two_ports(m);
	tar = make_tar(m, &size);
	/* An archive ends with two blocks of zeros; the reader accepts one. */
	for (size_t cut = 512; cut < size; cut += cut + 509 < size ? 509 : 1) {
		int err;

		hr_model_reset(&other);
		err = hr_source_parse(&other, "x.tar", tar, cut);
		cr_expect_eq(err, cut < size - 512 ? -EINVAL : 0, "cut at %zu: %d", cut, err);
		cr_expect(!err || strstr(other.error.text, "cut off"), "%s", other.error.text);
	}
	tar[1] ^= 1; /* a byte of the first name */
	hr_model_reset(&other);
	cr_expect_eq(hr_source_parse(&other, "x.tar", tar, size), -EINVAL);
	cr_expect(strstr(other.error.text, "byte 0: damaged") != NULL, "%s", other.error.text);
	free(tar);
	free(m);
}

/* ---- our own capture */

static int write_and_read(void)
{
	int fd = memfd_create("capture", 0), err;
	off_t size;
	char *text;

	cr_assert_eq(hr_capture_write(&model, fd), 0);
	size = lseek(fd, 0, SEEK_END);
	text = malloc((size_t)size + 1);
	cr_assert_eq(pread(fd, text, (size_t)size, 0), size);
	text[size] = '\0';
	cr_expect_null(strstr(text, "de ad be ef"), "the serial number is in the capture");
	err = hr_source_parse(&other, "capture", text, (size_t)size);
	free(text);
	close(fd);
	return err;
}

Test(topo_sources, a_capture_reads_back_as_the_machine_of_its_source)
{
	struct fake_machine *m = calloc(1, sizeof *m);
	struct fake_fn *f;

	fake_two_ports(m);
	f = fake_find(m, "04:00.0");
	strcat(f->text, "\tNUMA node: 1\n\tIOMMU group: 3\n\tKernel driver in use: nvme\n");
	/* Device serial number after ATS. */
	fake_put(f, FAKE_ATS, 4, HR_ECAP_ATS | 1 << 16 | 0x200 << 20);
	fake_put(f, 0x200, 4, 0x00010003);
	fake_put(f, 0x204, 4, 0xefbeadde);
	snprintf(m->head, sizeof m->head,
		 "headrace: kernel=6.1\nheadrace: cmdline=quiet \nheadrace: cmdline=iommu=pt\n");
	cr_assert_eq(fake_load(m, &model), 0, "%s", model.error.text);
	cr_assert_eq(write_and_read(), 0, "%s", other.error.text);
	cr_assert_eq(other.count, model.count);
	for (uint32_t i = 0; i < model.count; i++)
		for (unsigned id = 0; id < HR_FACTS_COUNT; id++) {
			const struct hr_fact *a = &model.fn[i].fact[id], *b = &other.fn[i].fact[id];

			cr_expect_eq(a->source != HR_SRC_NONE, b->source != HR_SRC_NONE, "%u %s", i,
				     hr_fact_name((enum hr_fact_id)id));
			cr_expect(!a->source || a->value == b->value, "%u %s: %x, was %x", i,
				  hr_fact_name((enum hr_fact_id)id), b->value, a->value);
		}
	cr_expect_str_eq(other.sys.kernel, "6.1");
	cr_expect_str_eq(at(&other, "04:00.0")->driver, "nvme");
	cr_expect_eq(at(&other, "04:00.0")->bar[0].size, 16u << 10);
	free(m);
}
