/* Software that a machine needs to use a path of its hardware. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "pci/topo/software.h"
#include "pci/topo/source.h"
#include "tests/harness/evaluate.h"

TestSuite(topo_software, .init = fake_evaluate_up, .fini = fake_evaluate_down, .timeout = 60);

static const struct hr_options none;

/* A GPU whose device number is not in the table, so that its name counts. */
static void name_gpu(const char *name)
{
	struct fake_fn *f = fake_find(&machine, GPU);

	snprintf(f->title, sizeof f->title, "3D controller: NVIDIA Corporation %s", name);
	fake_put(f, HR_CFG_VENDOR, 4, 0x10de);
}

Test(topo_software, product_lines_follow_the_name)
{
	static const struct {
		const char *name;
		enum hr_product product;
	} row[] = {
		{ "AD102 [GeForce RTX 4090] (rev a1)", HR_PRODUCT_CONSUMER },
		{ "GP108M [GeForce MX150]", HR_PRODUCT_CONSUMER },
		{ "TU102 [TITAN RTX]", HR_PRODUCT_CONSUMER },
		{ "GA100 [A100 PCIe 40GB]", HR_PRODUCT_PROFESSIONAL },
		{ "GH100 [H100 SXM5 80GB]", HR_PRODUCT_PROFESSIONAL },
		{ "AD102GL [RTX 6000 Ada Generation]", HR_PRODUCT_PROFESSIONAL },
		{ "GV100GL [Tesla V100 PCIe 16GB]", HR_PRODUCT_PROFESSIONAL },
		{ "AD102GL [L40S]", HR_PRODUCT_PROFESSIONAL },
		{ "GM206GL [Quadro M2000]", HR_PRODUCT_PROFESSIONAL },
		{ "GB202GL [RTX PRO 6000 Blackwell Server Edition]", HR_PRODUCT_PROFESSIONAL },
		{ "GA104 [Geforce RTX 3070 Ti Laptop GPU]", HR_PRODUCT_CONSUMER },
		{ "GB100 [HGX GB200]", HR_PRODUCT_PROFESSIONAL },
		{ "AD104GL [L4]", HR_PRODUCT_PROFESSIONAL },
		{ "GA102 [CMP 90HX]", HR_PRODUCT_UNKNOWN },
		{ "XX100 [L400]", HR_PRODUCT_UNKNOWN },
		{ "Device 2b99", HR_PRODUCT_UNKNOWN },
	};
	struct hr_pair p;

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		name_gpu(row[i].name);
		fake_evaluate(SIBLING, &none, &p);
		cr_expect_eq(hr_product_of(&model.fn[fake_at(GPU)]), row[i].product, "%s",
			     row[i].name);
		cr_expect_eq(p.verdict, HR_DIRECT);
		cr_expect_eq(fake_found(&p, "S1"), row[i].product == HR_PRODUCT_CONSUMER, "%s",
			     row[i].name);
		cr_expect_eq((p.modifiers & HR_MOD_SOFTWARE & HR_MOD_DEGRADED) != 0,
			     row[i].product == HR_PRODUCT_CONSUMER, "%s", row[i].name);
	}
	/* A card of that name from another vendor is not NVIDIA's. */
	name_gpu("GeForce");
	fake_put(fake_find(&machine, GPU), HR_CFG_VENDOR, 2, 0x1002);
	fake_evaluate(SIBLING, &none, &p);
	cr_expect_eq(hr_product_of(&model.fn[fake_at(GPU)]), HR_PRODUCT_UNKNOWN);
	cr_expect_not(fake_found(&p, "S1"));
}

Test(topo_software, the_device_number_decides_before_the_name)
{
	static const struct {
		uint32_t device;
		const char *name;
		enum hr_product product;
	} row[] = {
		{ 0x2684, "Device 2684", HR_PRODUCT_CONSUMER },		/* RTX 4090 */
		{ 0x26b1, "Device 26b1", HR_PRODUCT_PROFESSIONAL },	/* RTX 6000 Ada */
		{ 0x2b85, "Device 2b85", HR_PRODUCT_CONSUMER },		/* RTX 5090 */
		{ 0x2bb1, "Device 2bb1", HR_PRODUCT_PROFESSIONAL },	/* RTX PRO 6000 */
		{ 0x2204, "Graphics Device", HR_PRODUCT_CONSUMER },	/* RTX 3090 */
		{ 0x2230, "GA102 [GeForce]", HR_PRODUCT_PROFESSIONAL }, /* RTX A6000 */
		{ 0x1db4, "", HR_PRODUCT_PROFESSIONAL },		/* V100 */
		{ 0x1d81, "", HR_PRODUCT_CONSUMER },			/* TITAN V */
		{ 0x1e04, "", HR_PRODUCT_CONSUMER },			/* RTX 2080 Ti */
		{ 0x1eb8, "", HR_PRODUCT_PROFESSIONAL },		/* T4 */
		{ 0x2901, "", HR_PRODUCT_PROFESSIONAL },		/* B200 */
		{ 0x2941, "", HR_PRODUCT_PROFESSIONAL },		/* GB200 */
		{ 0x3182, "", HR_PRODUCT_PROFESSIONAL },		/* B300 */
		{ 0x2329, "", HR_PRODUCT_PROFESSIONAL },		/* H20 */
		{ 0x220d, "GA102 [CMP 90HX]", HR_PRODUCT_UNKNOWN },
		{ 0x268f, "AD102 [GeForce RTX 4090]", HR_PRODUCT_CONSUMER }, /* in no range */
		{ 0x268f, "Device 268f", HR_PRODUCT_UNKNOWN },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_pair p;

		name_gpu(row[i].name);
		fake_put(fake_find(&machine, GPU), HR_CFG_DEVICE, 2, row[i].device);
		fake_evaluate(SIBLING, &none, &p);
		cr_expect_eq(hr_product_of(&model.fn[fake_at(GPU)]), row[i].product, "%04x %s",
			     row[i].device, row[i].name);
		cr_expect_eq(p.verdict, HR_DIRECT, "%04x %s", row[i].device, row[i].name);
	}
}

Test(topo_software, the_architecture_follows_the_device_number_or_the_chip)
{
	static const struct {
		uint32_t device;
		const char *name;
		enum hr_age age;
	} row[] = {
		{ 0x1eb8, "", HR_AGE_BEFORE_AMPERE }, { 0x2182, "", HR_AGE_BEFORE_AMPERE },
		{ 0x2080, "", HR_AGE_AMPERE },	      { 0x2204, "", HR_AGE_AMPERE },
		{ 0x2901, "", HR_AGE_AMPERE },	      { 0, "Device 2901", HR_AGE_UNKNOWN },
		{ 0, "GB100 [B200]", HR_AGE_AMPERE }, { 0, "TU104GL", HR_AGE_BEFORE_AMPERE },
		{ 0, "XGA102", HR_AGE_UNKNOWN },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		cr_expect_eq(hr_product_age(row[i].device, row[i].name), row[i].age, "row %zu", i);
}

/* ---- cuFile's P2PDMA mode */

#define GOOD                                                                                  \
	"headrace: kernel=6.8.0-45-generic\nheadrace: p2pdma=1\nheadrace: nvidia=570.86.10\n" \
	"headrace: nvidia_open=1\nheadrace: multipath=0\n"                                    \
	"headrace: nvidia_keys=RMForceStaticBar1=1;RmForceDisableIomapWC=1;\n"

Test(topo_software, cufile_p2pdma_names_the_missing_requirements)
{
	static const struct {
		const char *head, *gpu, *disk;
		uint16_t host; /* vendor of the root complex */
		enum hr_met met;
		const char *missing;
	} row[] = {
		{ GOOD, "GH100 [H100 PCIe]", "", 0x8086, HR_YES, NULL },
		{ GOOD, "AD102GL [L40S]", "\theadrace: fs=ext4\n", 0x1022, HR_YES, NULL },
		{ GOOD "headrace: multipath=1\n", "GH100 [H100 PCIe]", "", 0x8086, HR_NO,
		  "multipath" },
		{ GOOD "headrace: p2pdma=0\n", "GH100 [H100 PCIe]", "", 0x8086, HR_NO, "P2PDMA" },
		{ GOOD "headrace: kernel=5.15.0-91\n", "GH100 [H100 PCIe]", "", 0x8086, HR_NO,
		  "kernel" },
		{ GOOD "headrace: nvidia_open=0\n", "GH100 [H100 PCIe]", "", 0x8086, HR_NO,
		  "driver" },
		{ GOOD "headrace: nvidia=550.54.14\n", "GH100 [H100 PCIe]", "", 0x8086, HR_NO,
		  "driver" },
		{ GOOD "headrace: nvidia_keys=RMForceStaticBar1=0\n", "GH100 [H100 PCIe]", "",
		  0x8086, HR_NO, "registry" },
		{ GOOD "headrace: nvidia_keys=RMForceStaticBar1=1\n", "GH100 [H100 PCIe]", "",
		  0x8086, HR_NO, "registry" },
		/* Those keys exist on x86 only. */
		{ GOOD "headrace: nvidia_keys=-\n", "GH100 [GH200]", "", 0x10de, HR_YES, NULL },
		{ GOOD, "GH100 [H100 PCIe]", "\theadrace: stacked=1\n", 0x8086, HR_NO, "md or dm" },
		{ GOOD, "GH100 [H100 PCIe]", "\theadrace: fs=ext4,xfs\n", 0x8086, HR_YES, NULL },
		{ GOOD, "GH100 [H100 PCIe]", "\theadrace: fs=ext4 data=journal\n", 0x8086, HR_NO,
		  "file system" },
		{ GOOD, "GH100 [H100 PCIe]", "\theadrace: fs=btrfs\n", 0x8086, HR_NO,
		  "file system" },
		{ GOOD, "GV100GL [Tesla V100]", "", 0x8086, HR_NO, "architecture" },
		{ GOOD, "AD102 [GeForce RTX 4090]", "", 0x8086, HR_NO, "product line" },
		{ "", "GH100 [H100 PCIe]", "", 0x8086, HR_UNSURE, NULL },
		{ "headrace: kernel=6.8.0\n", "Device 2b85", "", 0x8086, HR_UNSURE, NULL },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_need missing = { 0 };
		enum hr_met met;
		struct hr_pair p;

		fake_two_ports(&machine);
		name_gpu(row[i].gpu);
		snprintf(machine.head, sizeof machine.head, "%s", row[i].head);
		strcat(fake_find(&machine, SIBLING)->text, row[i].disk);
		fake_put(fake_find(&machine, "00:00.0"), HR_CFG_VENDOR, 2, row[i].host);
		fake_evaluate(SIBLING, &none, &p);
		met = hr_cufile_p2pdma(&topology, fake_at(GPU), fake_at(SIBLING), &missing);
		cr_expect_eq(met, row[i].met, "row %zu: %u (%s: %s)", i, met,
			     missing.what ? missing.what : "", missing.text);
		if (row[i].missing)
			cr_expect(missing.what && strstr(missing.what, row[i].missing),
				  "row %zu: %s, not %s", i, missing.what, row[i].missing);
		/* The rule reports only when cuFile has no other way. */
		cr_expect_eq(fake_found(&p, "S2"), met == HR_NO, "row %zu", i);
	}
	fake_two_ports(&machine);
	name_gpu("GH100 [H100 PCIe]");
	snprintf(machine.head, sizeof machine.head, "%s",
		 GOOD "headrace: multipath=1\nheadrace: nvidia_fs=2.26.6\n");
	{
		struct hr_pair p;

		fake_evaluate(SIBLING, &none, &p);
		cr_expect_not(fake_found(&p, "S2"), "nvidia-fs is loaded");
	}
}

Test(topo_software, rows_report_known_facts)
{
	struct hr_need need[HR_NEEDS_MAX];
	struct hr_pair p;
	unsigned n, unsure = 0;

	name_gpu("GH100 [H100 PCIe]");
	snprintf(machine.head, sizeof machine.head, "%s", GOOD);
	strcat(fake_find(&machine, SIBLING)->text, "\theadrace: fs=xfs\n");
	fake_evaluate(SIBLING, &none, &p);
	n = hr_software_gpu(&topology, fake_at(GPU), need);
	cr_assert(n > 3 && n <= HR_NEEDS_MAX);
	for (unsigned i = 0; i < n; i++)
		cr_expect(need[i].what[0] && need[i].text[0], "%u", i);
	n = hr_software_ssd(&topology, fake_at(SIBLING), need);
	cr_assert(n && n <= HR_NEEDS_MAX);
	cr_expect(strstr(need[n - 1].text, "xfs"), "%s", need[n - 1].text);
	/* No facts, so no conclusion. */
	machine.head[0] = '\0';
	fake_evaluate(OTHER, &none, &p);
	n = hr_software_ssd(&topology, fake_at(OTHER), need);
	for (unsigned i = 0; i < n; i++)
		unsure += need[i].met == HR_UNSURE;
	cr_expect_eq(unsure, n);
	n = hr_software_gpu(&topology, fake_at(GPU), need);
	for (unsigned i = 0; i < n; i++)
		cr_expect_neq(need[i].met, HR_NO, "%s: %s", need[i].what, need[i].text);
}

/* ---- AMD's window for HyperTransport */

Test(topo_software, a_bar_in_amds_window_cannot_be_reached_through_the_iommu)
{
	static const struct {
		uint64_t bar;
		const char *ssd, *head;
		uint16_t host;
		struct hr_options opt;
		bool found;
	} row[] = {
		{ 0xfd00000000ull, OTHER, "headrace: iommu=2\n", 0x1022, { 0 }, true },
		{ 0xff00000000ull,
		  OTHER,
		  "headrace: iommu=3\n",
		  0x1022,
		  { .mode = HR_MODE_KERNEL },
		  true },
		{ 0xfe00000000ull, SIBLING, "", 0x1022, { .mode = HR_MODE_VFIO }, true },
		/* Next to the range; another vendor; inside one switch; without an IOMMU. */
		{ 0xfc00000000ull, OTHER, "headrace: iommu=2\n", 0x1022, { 0 }, false },
		{ 0x10000000000ull, OTHER, "headrace: iommu=2\n", 0x1022, { 0 }, false },
		{ 0xfd00000000ull, OTHER, "headrace: iommu=2\n", 0x8086, { 0 }, false },
		{ 0xfd00000000ull, SIBLING, "headrace: iommu=2\n", 0x1022, { 0 }, false },
		{ 0xfd00000000ull, OTHER, "headrace: iommu=1\n", 0x1022, { 0 }, false },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		static const char *const above[] = { "00:01.0", "01:00.0", "02:00.0" };
		struct hr_pair p;

		fake_two_ports(&machine);
		snprintf(machine.head, sizeof machine.head, "%s", row[i].head);
		fake_put(fake_find(&machine, "00:00.0"), HR_CFG_VENDOR, 2, row[i].host);
		fake_put(fake_find(&machine, GPU), HR_CFG_BAR0 + 4, 4, 0xc);
		fake_put(fake_find(&machine, GPU), HR_CFG_BAR0 + 8, 4,
			 (uint32_t)(row[i].bar >> 32));
		fake_put(fake_find(&machine, GPU), FAKE_REBAR + HR_REBAR_CTL, 4,
			 1u << 5 | (32 - 20) << 8 | 1);
		for (unsigned k = 0; k < 3; k++) {
			struct fake_fn *port = fake_find(&machine, above[k]);

			fake_put(port, HR_CFG_PREF_BASE, 2, 1);
			fake_put(port, HR_CFG_PREF_LIMIT, 2, 0xfff1);
			fake_put(port, HR_CFG_PREF_BASE_UPPER, 4, (uint32_t)(row[i].bar >> 32));
			fake_put(port, HR_CFG_PREF_LIMIT_UPPER, 4, (uint32_t)(row[i].bar >> 32));
		}
		fake_evaluate(row[i].ssd, &row[i].opt, &p);
		cr_expect_eq(fake_found(&p, "R3-ht"), row[i].found, "row %zu: verdict %u, rule %s",
			     i, p.verdict, hr_rules[p.rule].id);
		cr_expect_eq(p.verdict == HR_BLOCKED, row[i].found, "row %zu: %u", i, p.verdict);
	}
}
