/* All sources of a topology, and all kinds of damage of a capture. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pci/topo/capture.h"
#include "pci/topo/fields.h"
#include "pci/topo/source.h"
#include "pci/topo/verdict.h"
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

#define Z63 "000000000000000000000000000000000000000000000000000000000000000"
#define Z252 Z63 Z63 Z63 Z63

Test(topo_sources, a_broken_dump_is_refused_with_its_line)
{
	static const struct {
		const char *text;
		int want;
		const char *say;
	} row[] = {
		{ "", -ENODATA, "no PCI function" },
		{ "hello\nworld\n", -ENODATA, "2 lines" },
		{ "00:00.0 x\n00: 86 80\n", 0, "" },
		{ "00:00.0 x\r\n00: 86 80 \r\n", 0, "" },
		{ "00:00.0 x\n00: 86 8\n", -EINVAL, "line 2" },
		{ "00:00.0 x\n00: 86 80 zz\n", -EINVAL, "line 2" },
		{ "00:00.0 x\n00: 86  80\n", -EINVAL, "line 2" },
		{ "00:00.0 x\n00: 86 80 trailing\n", -EINVAL, "line 2" },
		{ "00:00.0 x\nfff: 86\n", 0, "" },
		{ "00:00.0 x\nfff: 86 80\n", -EINVAL, "4096" },
		{ "00:00.0 x\n00001000: 86\n", -EINVAL, "4096" },
		{ "00:00.0 x\nffffffff: 86\n", -EINVAL, "4096" },
		{ "00:00.0 x\n00: 86 80", -EINVAL, "cut off" },
		{ "00:00.0 " Z252 "\n00: 86\n", -EINVAL, "line 1: line too long" },
		{ "00:00.0 x\n00: 86\n\tName: " Z252 "\n", 0, "" },
		{ "00:00.0 x\n\tName: " Z252 "\n", 0, "" },
		{ "00:1f.8 x\n00: 86\n", -EINVAL, "line 1" },
		{ "00:20.0 x\n00: 86\n", -EINVAL, "line 1" },
		/* No space: not a device line. */
		{ "00:00.0\n00: 86\n", -ENODATA, "no PCI function" },
		{ "10000:00:00.0 x\n00: 86\n", 0, "" },
		{ "1000000:00:00.0 x\n00: 86\n", -ENODATA, "no PCI function" },
		{ "headrace: nonsense=1\n00:00.0 x\n", -EINVAL, "line 1" },
		{ "00:00.0 x\n\theadrace: link_speed=fast\n", -EINVAL, "line 2" },
		{ "\x1f\x8b\x08", -EINVAL, "gzip" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		int err = parse(row[i].text);

		cr_expect_eq(err, row[i].want, "row %zu: %d (%s)", i, err, model.error.text);
		cr_expect(strstr(model.error.text, row[i].say) != NULL, "row %zu: '%s'", i,
			  model.error.text);
	}
}

Test(topo_sources, the_same_address_with_other_identifiers_is_a_contradiction)
{
	static const char first[] = "00:00.0 a\n00: 86 80 01 00 00 00 00 00 00 00 00 06\n\n";
	static const char second[] = "00:00.0 a\n00: 86 80 02 00 00 00 00 00 00 00 00 06\n\n";
	char text[256];

	snprintf(text, sizeof text, "%s%s", first, second);
	cr_expect_eq(parse(text), -EINVAL);
	cr_expect(strstr(model.error.text, "contradict") != NULL);
	snprintf(text, sizeof text, "%s%s", first, first);
	cr_expect_eq(parse(text), 0);
}

Test(topo_sources, an_empty_line_ends_a_device)
{
	cr_assert_eq(parse("00:00.0 a\n00: 86 80\n\n10: ff ff\n"), 0);
	cr_expect_eq(model.fn[0].config_bytes, 2u);
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

Test(topo_sources, contradictions_between_bridges_are_resolved_and_reported)
{
	struct fake_machine *m = calloc(1, sizeof *m);

	fake_two_ports(m);
	fake_put(fake_find(m, "00:02.0"), HR_CFG_SECONDARY, 1, 1); /* 00:01.0 has the same bus */
	fake_put(fake_find(m, "02:01.0"), HR_CFG_SECONDARY, 1, 2); /* its own bus */
	cr_assert_eq(fake_load(m, &model), 0);
	cr_expect_eq(model.warnings, 2u);
	cr_expect(at(&model, "01:00.0")->disputed);
	cr_expect(!at(&model, "02:00.0")->disputed);
	cr_expect_eq(at(&model, "01:00.0")->parent, hr_model_find(&model, 0, 0, 1, 0));
	cr_expect_eq(at(&model, "04:00.0")->parent, HR_NO_FN);
	free(m);
}

Test(topo_sources, a_bridge_outside_the_range_of_the_one_above_is_disputed)
{
	struct fake_machine *m = calloc(1, sizeof *m);
	struct hr_topology topology;
	struct hr_pair p;

	fake_two_ports(m);
	fake_put(fake_find(m, "01:00.0"), HR_CFG_SUBORDINATE, 1, 3);
	cr_assert_eq(fake_load(m, &model), 0);
	cr_expect_eq(model.warnings, 1u);
	cr_assert_eq(hr_topology_init(&topology, &model, &(struct hr_options){ 0 }), 0);
	hr_pair_evaluate(&topology, topology.gpu[0], topology.ssd[0], &p);
	cr_expect_eq(p.verdict, HR_UNKNOWN);
	free(m);
}

Test(topo_sources, a_bus_without_a_bridge_is_a_root_bus_only_with_a_proof)
{
	static const char dump[] =
		"00:00.0 Host bridge: x\n\n"
		"40:01.0 PCI bridge: x\n\tBus: primary=40, secondary=41, subordinate=41\n\n"
		"41:00.0 Non-Volatile memory controller: x\n\n"
		"61:00.0 Non-Volatile memory controller: x\n";

	cr_assert_eq(parse(dump), 0);
	cr_expect(!at(&model, "40:01.0")->orphan);
	cr_expect(!at(&model, "41:00.0")->orphan);
	cr_expect(at(&model, "61:00.0")->orphan);
}

Test(topo_sources, numbers_beyond_the_range_of_a_register_are_not_used_as_an_index)
{
	static const char dump[] =
		"headrace: iommu=77\n\n"
		"00:01.0 PCI bridge: x\n\tBus: primary=1ff, secondary=1ff, subordinate=fffff\n"
		"\tCapabilities: [88] Express (v2) Root Port\n\t\tLnkSta:\tSpeed 8GT/s, Width "
		"x4000000000\n"
		"\theadrace: port_type=99\n\theadrace: link_speed=99\n\theadrace: mps=3\n"
		"\theadrace: acs_offset=4294967291\n\theadrace: port_number=77\n";
	struct hr_topology topology;

	cr_assert_eq(parse(dump), 0, "%s", model.error.text);
	cr_expect_eq(model.warnings, 1u);
	cr_assert_eq(hr_topology_init(&topology, &model, &(struct hr_options){ 0 }), 0);
	cr_expect_eq(topology.iommu, HR_IOMMU_UNKNOWN);
}

/* ---- text */

static const char text_machine[] =
	"00:01.0 PCI bridge [0604]: Intel Corporation Port [8086:1901] (prog-if 00 [Normal "
	"decode])\n"
	"\tControl: I/O+ Mem+ BusMaster- SpecCycle-\n"
	"\tStatus: Cap+ 66MHz-\n"
	"\tNUMA node: 1\n"
	"\tIOMMU group: 2\n"
	"\tBus: primary=00, secondary=01, subordinate=04, sec-latency=0\n"
	"\tMemory behind bridge: e0000000-e1ffffff [size=32M] [32-bit]\n"
	"\tPrefetchable memory behind bridge: 0000038000000000-00000383ffffffff [size=16G]\n"
	"\tBridgeCtl: Parity- SERR+ NoISA- VGA- VGA16- MAbort- >Reset+ FastB2B-\n"
	"\tCapabilities: [40] Power Management version 3\n"
	"\t\tStatus: D3 NoSoftRst+\n"
	"\tCapabilities: [88] Express (v2) Root Port (Slot+), MSI 00\n"
	"\t\tDevCap:\tMaxPayload 512 bytes, PhantFunc 0\n"
	"\t\tDevCtl:\tCorrErr- NonFatalErr-\n"
	"\t\t\tRlxdOrd+ ExtTag-\n"
	"\t\t\tMaxPayload 256 bytes, MaxReadReq 128 bytes\n"
	"\t\tLnkCap:\tPort #2, Speed 16GT/s, Width x16, ASPM L1\n"
	"\t\t\tClockPM- Surprise- LLActRep+ BwNot+\n"
	"\t\tLnkCtl:\tASPM L1 Enabled; RCB 64 bytes\n"
	"\t\tLnkSta:\tSpeed 8GT/s (downgraded), Width x8 (downgraded)\n"
	"\t\t\tTrErr- Train- SlotClk+ DLActive-\n"
	"\t\tLnkCtl2: Target Link Speed: 16GT/s, EnterCompliance-\n"
	"\tCapabilities: [100 v1] Access Control Services\n"
	"\t\tACSCap:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- "
	"DirectTrans-\n"
	"\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir- UpstreamFwd- EgressCtrl- "
	"DirectTrans-\n"
	"\tKernel driver in use: pcieport\n"
	"\n"
	"01:00.0 Non-Volatile memory controller: Vendor Disk (prog-if 02 [NVM Express])\n"
	"\tPhysical Slot: 7\n"
	"\tRegion 0: Memory at e0000000 (64-bit, non-prefetchable) [disabled] [size=32K]\n"
	"\tRegion 4: Memory at <unassigned> (64-bit, prefetchable) [size=1G]\n"
	"\tCapabilities: <access denied>\n"
	"\tKernel driver in use: nvme\n";

Test(topo_sources, text_alone_states_its_facts)
{
	static const struct {
		enum hr_fact_id id;
		uint32_t value;
	} row[] = {
		{ HR_F_VENDOR, 0x8086 },
		{ HR_F_DEVICE, 0x1901 },
		{ HR_F_CLASS, 0x060400 },
		{ HR_F_COMMAND, HR_COMMAND_MSE },
		{ HR_F_NUMA, 1 },
		{ HR_F_GROUP, 2 },
		{ HR_F_SECONDARY, 1 },
		{ HR_F_SUBORDINATE, 4 },
		{ HR_F_BRIDGE_CTL, HR_BRIDGE_CTL_SBR },
		{ HR_F_PM, 3 },
		{ HR_F_EXP, 0x88 },
		{ HR_F_PORT, HR_PORT_ROOT },
		{ HR_F_MPSS, 512 },
		{ HR_F_MPS, 256 },
		{ HR_F_MRRS, 128 },
		{ HR_F_SPEED_MAX, 4 },
		{ HR_F_WIDTH_MAX, 16 },
		{ HR_F_SPEED, 3 },
		{ HR_F_WIDTH, 8 },
		{ HR_F_SPEED_TARGET, 4 },
		{ HR_F_LLACTREP, 1 },
		{ HR_F_DLACTIVE, 0 },
		{ HR_F_ASPM, 2 },
		{ HR_F_ACS, 0x100 },
		{ HR_F_ACS_CAP, HR_ACS_ISOLATION },
		{ HR_F_ACS_CTL, HR_ACS_SV | HR_ACS_RR },
		{ HR_F_ATS, 0 },
	};
	const struct hr_fn *port, *disk;

	cr_assert_eq(parse(text_machine), 0, "%s", model.error.text);
	port = at(&model, "00:01.0");
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		cr_expect(hr_known(port, row[i].id), "%s is unknown", hr_fact_name(row[i].id));
		cr_expect_eq(port->fact[row[i].id].value, row[i].value, "%s is %x",
			     hr_fact_name(row[i].id), port->fact[row[i].id].value);
	}
	cr_expect_eq(port->mem.base, 0xe0000000u);
	cr_expect_eq(port->mem.limit, 0xe1ffffffu);
	cr_expect_eq(port->pref.limit, 0x383ffffffffull);
	disk = at(&model, "01:00.0");
	cr_expect_eq(disk->parent, 0);
	cr_expect(disk->denied);
	cr_expect(hr_is_nvme(disk));
	cr_expect_str_eq(disk->driver, "nvme");
	cr_expect_str_eq(disk->pci_slot, "7");
	cr_expect_eq(disk->bar[0].base, 0xe0000000u);
	cr_expect_eq(disk->bar[0].size, 32u << 10);
	cr_expect(disk->bar[4].flags & HR_BAR_UNASSIGNED);
	cr_expect_eq(disk->bar[4].size, 1u << 30);
	cr_expect(!hr_known(disk, HR_F_ACS));
	cr_expect(!hr_known(disk, HR_F_COMMAND));
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

Test(topo_sources, private_words_of_the_command_line_stay_out_of_a_capture)
{
	cr_assert_eq(
		parse("headrace: cmdline=root=UUID=1234 iommu=pt hostname=secret\n00:00.0 x\n"), 0);
	cr_assert_eq(write_and_read(), 0, "%s", other.error.text);
	cr_expect_str_eq(other.sys.cmdline, "iommu=pt ");
}
