/* All rows about the software of a GPU and an SSD, and the first one that is not met. */
#include "pci/topo/software.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/harness/evaluate.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

TestSuite(topo_software_rows, .init = fake_evaluate_up, .fini = fake_evaluate_down, .timeout = 60);

static char text[2048];

/* "what? text", "what- text (fix)" or "what+ text" of each row. */
static const char *told(const struct hr_need *need, unsigned n)
{
	size_t used = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < n; i++)
		used += (size_t)snprintf(text + used, sizeof text - used, "%s%s%c %s%s%s%s",
					 i ? "; " : "", need[i].what, "?-+"[need[i].met],
					 need[i].text, need[i].met == HR_NO ? " (" : "",
					 need[i].met == HR_NO ? need[i].fix : "",
					 need[i].met == HR_NO ? ")" : "");
	cr_assert_lt(used, sizeof text);
	return text;
}

static void load(const char *head, const char *card, const char *gpu, const char *disk,
		 uint32_t host)
{
	struct fake_fn *f;

	fake_two_ports(&machine);
	f = fake_find(&machine, GPU);
	snprintf(f->title, sizeof f->title, "3D controller: NVIDIA Corporation %s", card);
	snprintf(f->text, sizeof f->text, "%s", gpu);
	fake_put(f, HR_CFG_VENDOR, 4, 0x10de); /* the name counts */
	f = fake_find(&machine, SIBLING);
	strncat(f->text, disk, sizeof f->text - strlen(f->text) - 1);
	snprintf(machine.head, sizeof machine.head, "%s", head);
	fake_put(fake_find(&machine, "00:00.0"), HR_CFG_VENDOR, 4, host);
	cr_assert_eq(fake_load(&machine, &model), 0, "%s", model.error.text);
	cr_assert_eq(hr_topology_init(&topology, &model, &(struct hr_options){ 0 }), 0);
}

#define INTEL 0x12348086u
#define KEYS "headrace: nvidia_keys="
#define BOTH KEYS "RMForceStaticBar1=1;RmForceDisableIomapWC=1\n"
#define H100 "GH100 [H100 PCIe]"

static const struct {
	const char *head, *card, *gpu;
	uint32_t host;
	const char *want;
} gpus[] = {
	{ "", H100, "", INTEL,
	  "bound driver? not known; product line+ data center or professional; "
	  "architecture+ Ampere or later; driver? version not known; registry "
	  "keys? not known (/proc/driver/nvidia/params); nvidia-fs? not known; "
	  "kernel? release not known; PCI P2PDMA? configuration of the kernel not "
	  "known" },
	{ "headrace: nvidia=565.1\nheadrace: nvidia_open=1\n" BOTH
	  "headrace: nvidia_fs=2.17\nheadrace: kernel=6.2.0\nheadrace: p2pdma=1\n",
	  H100, "\tKernel driver in use: nvidia\n", INTEL,
	  "bound driver+ nvidia; product line+ data center or professional; "
	  "architecture+ Ampere or later; driver+ NVIDIA 565.1, open kernel "
	  "modules; registry keys+ RMForceStaticBar1 1, RmForceDisableIomapWC 1; "
	  "nvidia-fs+ 2.17; kernel+ 6.2.0; PCI P2PDMA+ CONFIG_PCI_P2PDMA is set" },
	{ "headrace: nvidia=564.9\nheadrace: nvidia_open=1\n" KEYS
	  "RMForceStaticBar1=1\nheadrace: nvidia_fs=not loaded\n"
	  "headrace: kernel=6.1.9\nheadrace: p2pdma=0\n",
	  "TU102 [GeForce RTX 2080]", "\tKernel driver in use: vfio-pci\n", INTEL,
	  "bound driver+ vfio-pci; product line- consumer (GeForce, TITAN) (a "
	  "data-center or professional card; GPUDirect is not supported on "
	  "others); architecture- before Ampere (a GPU of Ampere or later); "
	  "driver- NVIDIA 564.9, open kernel modules (the open kernel modules of "
	  "NVIDIA 565 or later); registry keys- RMForceStaticBar1 1, "
	  "RmForceDisableIomapWC not set (options nvidia "
	  "NVreg_RegistryDwords=\"RMForceStaticBar1=1;RmForceDisableIomapWC=1;\" in "
	  "/etc/modprobe.d, then rebuild the initramfs and boot); nvidia-fs- not "
	  "loaded (modprobe nvidia-fs); kernel- 6.1.9 (Linux 6.2 or later, or "
	  "nvidia-fs); PCI P2PDMA- CONFIG_PCI_P2PDMA is not set (a kernel with "
	  "CONFIG_PCI_P2PDMA, or nvidia-fs)" },
	{ "headrace: nvidia=570.1\nheadrace: nvidia_open=0\n" KEYS "RmForceDisableIomapWC=0x1;\n",
	  "AD104 [New]", "\theadrace: driver=\n", 0x14801022,
	  "bound driver- none (the vendor's driver); product line? not known; "
	  "architecture+ Ampere or later; driver- NVIDIA 570.1, "
	  "proprietary kernel modules (the open kernel modules of NVIDIA 565 or "
	  "later); registry keys- RMForceStaticBar1 not set, RmForceDisableIomapWC "
	  "1 (options nvidia "
	  "NVreg_RegistryDwords=\"RMForceStaticBar1=1;RmForceDisableIomapWC=1;\" in "
	  "/etc/modprobe.d, then rebuild the initramfs and boot); nvidia-fs? not "
	  "known; kernel? release not known; PCI P2PDMA? configuration of the "
	  "kernel not known" },
	{ "headrace: nvidia=570.1\n" KEYS "-\n", "GV100 [Old]", "\tKernel driver in use: nouveau\n",
	  0x1234177d,
	  "bound driver- nouveau (the vendor's driver); product line? not known; "
	  "architecture- before Ampere (a GPU of Ampere or later); "
	  "driver? NVIDIA 570.1, flavour not known; registry keys? not needed "
	  "here; nvidia-fs? not known; kernel? release not known; PCI P2PDMA? "
	  "configuration of the kernel not known" },
	{ "headrace: kernel=5.19\n" KEYS "-\n", "X", "", 0x1234177d,
	  "bound driver? not known; product line? not known; "
	  "architecture? not known; driver? version not known; "
	  "registry keys? not needed here; nvidia-fs? not known; kernel- 5.19 "
	  "(Linux 6.2 or later, or nvidia-fs); PCI P2PDMA? configuration of the "
	  "kernel not known" },
	{ "headrace: kernel=unknown\n" KEYS "-\n", "GA102 [RTX A6000]", "", 0x14801234,
	  "bound driver? not known; product line+ data center or professional; "
	  "architecture+ Ampere or later; driver? version not known; registry "
	  "keys? not needed here; nvidia-fs? not known; kernel? release not known; "
	  "PCI P2PDMA? configuration of the kernel not known" },
	{ "headrace: cpu_amd=1\n" KEYS "x\n", "GA102 [RTX A6000]", "", 0x14801234,
	  "bound driver? not known; product line+ data center or professional; "
	  "architecture+ Ampere or later; driver? version not known; registry "
	  "keys- RMForceStaticBar1 not set, RmForceDisableIomapWC not set (options "
	  "nvidia "
	  "NVreg_RegistryDwords=\"RMForceStaticBar1=1;RmForceDisableIomapWC=1;\" in "
	  "/etc/modprobe.d, then rebuild the initramfs and boot); nvidia-fs? not "
	  "known; kernel? release not known; PCI P2PDMA? configuration of the "
	  "kernel not known" },
};

Test(topo_software_rows, each_row_of_a_gpu_has_its_finding)
{
	struct hr_need need[HR_NEEDS_MAX];

	for (size_t i = 0; i < ROWS(gpus); i++) {
		load(gpus[i].head, gpus[i].card, gpus[i].gpu, "", gpus[i].host);
		told(need, hr_software_gpu(&topology, fake_at(GPU), need));
		cr_expect_str_eq(text, gpus[i].want, "row %zu: %s", i, text);
	}
	/* Cards of other vendors have one row. */
	fake_put(fake_find(&machine, GPU), HR_CFG_VENDOR, 2, 0x1002);
	cr_assert_eq(fake_load(&machine, &model), 0);
	cr_assert_eq(hr_topology_init(&topology, &model, &(struct hr_options){ 0 }), 0);
	told(need, hr_software_gpu(&topology, fake_at(GPU), need));
	cr_expect_str_eq(text, "bound driver? not known", "%s", text);
}

Test(topo_software_rows, each_row_of_an_ssd_has_its_finding)
{
	static const struct {
		const char *head, *disk, *want;
	} row[] = {
		{ "", "",
		  "nvme multipath? not known; md or dm? no file system on it is mounted, "
		  "or not known; file system? no file system on it is mounted, or not known" },
		{ "headrace: multipath=0\n", "\theadrace: fs=ext4\n",
		  "nvme multipath+ off; md or dm+ none above it; file system+ ext4" },
		{ "headrace: multipath=1\n", "\theadrace: fs=xfs\n\theadrace: stacked=1\n",
		  "nvme multipath- on (options nvme_core multipath=N in /etc/modprobe.d, "
		  "then rebuild the initramfs and boot); md or dm- a file system on md or "
		  "dm uses it (the file system on the disk itself, or nvidia-fs); file "
		  "system+ xfs" },
		{ "", "\theadrace: fs=ext4,xfs,ext4\n",
		  "nvme multipath? not known; md or dm+ none above it; file system+ "
		  "ext4,xfs,ext4" },
		{ "", "\theadrace: fs=ext3\n",
		  "nvme multipath? not known; md or dm+ none above it; file system- ext3 "
		  "(xfs, or ext4 with data=ordered)" },
		{ "", "\theadrace: fs=ext4 data=journal\n",
		  "nvme multipath? not known; md or dm+ none above it; file system- ext4 "
		  "data=journal (xfs, or ext4 with data=ordered)" },
		{ "", "\theadrace: fs=xfs,ext4 data=writeback\n",
		  "nvme multipath? not known; md or dm+ none above it; file system- "
		  "xfs,ext4 data=writeback (xfs, or ext4 with data=ordered)" },
		{ "", "\theadrace: fs=ext\n",
		  "nvme multipath? not known; md or dm+ none above it; file system- ext "
		  "(xfs, or ext4 with data=ordered)" },
		{ "", "\theadrace: fs=xf\n",
		  "nvme multipath? not known; md or dm+ none above it; file system- xf "
		  "(xfs, or ext4 with data=ordered)" },
		{ "", "\theadrace: fs=xfs2\n",
		  "nvme multipath? not known; md or dm+ none above it; file system- xfs2 "
		  "(xfs, or ext4 with data=ordered)" },
		{ "", "\theadrace: fs=zfs\n\theadrace: stacked=0\n",
		  "nvme multipath? not known; md or dm+ none above it; file system- zfs "
		  "(xfs, or ext4 with data=ordered)" },
	};
	struct hr_need need[HR_NEEDS_MAX];

	for (size_t i = 0; i < ROWS(row); i++) {
		load(row[i].head, H100, "", row[i].disk, INTEL);
		told(need, hr_software_ssd(&topology, fake_at(SIBLING), need));
		cr_expect_str_eq(text, row[i].want, "row %zu: %s", i, text);
	}
}

/* The last statement about a key counts; a key that only begins like it is another one. */
Test(topo_software_rows, keys_are_read_one_by_one)
{
	static const struct {
		const char *keys;
		bool bar1, wc;
	} row[] = {
		{ "RMForceStaticBar1=1;RmForceDisableIomapWC=1", true, true },
		{ "RMForceStaticBar1=1, RmForceDisableIomapWC=1;", true, true },
		{ " ;RMForceStaticBar1=1", true, false },
		{ "RMForceStaticBar1=1;RMForceStaticBar1=0", false, false },
		{ "RMForceStaticBar1=0;RMForceStaticBar1=1", true, false },
		{ "RMForceStaticBar1=2;RmForceDisableIomapWC=11", false, false },
		{ "RMForceStaticBar1=0x1;RmForceDisableIomapWC=01", true, true },
		{ "RMForceStaticBar10=1;RmForceDisableIomapW=1", false, false },
		{ "xRMForceStaticBar1=1;RmForceDisableIomapWC", false, false },
		{ "a=1;b=2;RmForceDisableIomapWC=1", false, true },
	};
	struct hr_need need[HR_NEEDS_MAX];
	char want[200];

	for (size_t i = 0; i < ROWS(row); i++) {
		load("", H100, "", "", INTEL);
		strcpy(model.sys.nvidia_keys, row[i].keys);
		hr_software_gpu(&topology, fake_at(GPU), need);
		snprintf(want, sizeof want, "RMForceStaticBar1 %s, RmForceDisableIomapWC %s",
			 row[i].bar1 ? "1" : "not set", row[i].wc ? "1" : "not set");
		cr_expect_str_eq(need[4].text, want, "row %zu: %s", i, need[4].text);
		cr_expect_eq(need[4].met, row[i].bar1 && row[i].wc ? HR_YES : HR_NO);
	}
}

Test(topo_software_rows, names_of_chips_tell_the_architecture)
{
	static const char *const before[] = { "GK104", "GK210", "GM107", "GM206",
					      "GP108", "GV100", "TU117" };
	static const char *const since[] = { "GA100", "AD102", "GH100", "GB100", "GB110", "GB202" };
	struct hr_need need[HR_NEEDS_MAX];

	for (size_t i = 0; i < ROWS(before); i++) {
		load("", before[i], "", "", INTEL);
		hr_software_gpu(&topology, fake_at(GPU), need);
		cr_expect_eq(need[2].met, HR_NO, "%s: %s", before[i], need[2].text);
	}
	for (size_t i = 0; i < ROWS(since); i++) {
		load("", since[i], "", "", INTEL);
		hr_software_gpu(&topology, fake_at(GPU), need);
		cr_expect_eq(need[2].met, HR_YES, "%s", since[i]);
	}
}

/* ---- cuFile's P2PDMA */

#define GOOD                                                                         \
	"headrace: kernel=6.8.0\nheadrace: p2pdma=1\nheadrace: nvidia=570.86\n" BOTH \
	"headrace: nvidia_open=1\nheadrace: multipath=0\nheadrace: nvidia_fs=not loaded\n"
#define NVIDIA "\tKernel driver in use: nvidia\n"
#define EXT4 "\theadrace: fs=ext4\n"

Test(topo_software_rows, the_first_missing_row_of_both_is_named)
{
	static const struct {
		const char *head, *card, *gpu, *disk;
		enum hr_met met;
		const char *missing;
	} row[] = {
		{ GOOD, H100, NVIDIA, EXT4, HR_YES, NULL },
		{ GOOD, H100, NVIDIA, "", HR_YES, NULL },
		{ GOOD, H100, "", EXT4, HR_YES, NULL },
		{ GOOD, H100, "\theadrace: driver=\n", EXT4, HR_NO, "bound driver" },
		{ GOOD, "AD102 [GeForce]", NVIDIA, EXT4, HR_NO, "product line" },
		{ GOOD, "GV100 [Tesla]", NVIDIA, EXT4, HR_NO, "architecture" },
		{ GOOD "headrace: nvidia=500.1\n", H100, NVIDIA, EXT4, HR_NO, "driver" },
		{ GOOD KEYS "-\n", H100, NVIDIA, EXT4, HR_NO, "registry keys" },
		{ GOOD "headrace: kernel=5.4.0\n", H100, NVIDIA, EXT4, HR_NO, "kernel" },
		{ GOOD "headrace: p2pdma=0\n", H100, NVIDIA, EXT4, HR_NO, "PCI P2PDMA" },
		{ GOOD "headrace: multipath=1\n", H100, NVIDIA, EXT4, HR_NO, "nvme multipath" },
		{ GOOD, H100, NVIDIA, "\theadrace: stacked=1\n", HR_NO, "md or dm" },
		{ GOOD, H100, NVIDIA, "\theadrace: fs=btrfs\n", HR_NO, "file system" },
		/* The last row that is not met does not replace the first one. */
		{ GOOD "headrace: p2pdma=0\n", H100, NVIDIA, "\theadrace: fs=btrfs\n", HR_NO,
		  "PCI P2PDMA" },
		{ "headrace: multipath=0\n", H100, NVIDIA, EXT4, HR_UNSURE, NULL },
		{ "headrace: kernel=6.8.0\nheadrace: multipath=0\n" BOTH, H100, NVIDIA, EXT4,
		  HR_UNSURE, NULL },
		{ "headrace: nvidia=570.1\nheadrace: nvidia_open=1\nheadrace: multipath=0\n", H100,
		  NVIDIA, EXT4, HR_UNSURE, NULL },
		{ "headrace: nvidia=570.1\nheadrace: nvidia_open=1\nheadrace: kernel=6.8.0\n", H100,
		  NVIDIA, EXT4, HR_UNSURE, NULL },
		{ "headrace: nvidia=570.1\nheadrace: nvidia_open=1\nheadrace: kernel=6.8.0\n"
		  "headrace: multipath=0\n",
		  H100, NVIDIA, EXT4, HR_YES, NULL },
		{ "headrace: kernel=5.4.0\n", H100, NVIDIA, EXT4, HR_UNSURE, NULL },
		{ "headrace: nvidia=500.1\n", H100, NVIDIA, EXT4, HR_NO, "driver" },
		{ "headrace: kernel=5.4.0\n" BOTH, H100, NVIDIA, EXT4, HR_NO, "kernel" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_need missing = { 0 };
		enum hr_met met;

		load(row[i].head, row[i].card, row[i].gpu, row[i].disk, INTEL);
		met = hr_cufile_p2pdma(&topology, fake_at(GPU), fake_at(SIBLING), &missing);
		cr_expect_eq(met, row[i].met, "row %zu: %u", i, met);
		cr_expect_str_eq(missing.what ? missing.what : "",
				 row[i].missing ? row[i].missing : "", "row %zu", i);
		/* An SSD as the GPU has no answer. */
		cr_expect_eq(
			hr_cufile_p2pdma(&topology, fake_at(SIBLING), fake_at(SIBLING), &missing),
			HR_UNSURE);
	}
}
