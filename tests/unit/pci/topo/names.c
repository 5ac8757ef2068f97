/* Root complexes that a capture names without numbers or not at all; NVIDIA's CPUs; RAID cards. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "pci/topo/fields.h"
#include "pci/topo/tables.h"
#include "pci/topo/verdict.h"
#include "tests/harness/evaluate.h"

TestSuite(topo_names, .init = fake_evaluate_up, .fini = fake_evaluate_down, .timeout = 60);

static const struct hr_options plain;

/* Set the title of 00:00.0 as lspci without -nn prints it. */
static void host_is(const char *title)
{
	struct fake_fn *f = fake_find(&machine, "00:00.0");

	f->bytes = 0;
	snprintf(f->title, sizeof f->title, "%s", title);
}

Test(topo_names, the_root_complex_is_known_by_its_name)
{
	/* A 440FX beside cards of PCI Express is a virtual machine. */
	static const struct hr_options hardware = { .vm = HR_VM_IGNORE };
	static const struct {
		const char *title;
		enum hr_verdict verdict;
		const char *rule;
	} row[] = {
		{ "Host bridge: Intel Corporation Sky Lake-E DMI3 Registers (rev 04)", HR_RC_LISTED,
		  "R2-listed" },
		{ "System peripheral: Intel Corporation Ice Lake Memory Map/VT-d", HR_RC_LISTED,
		  "R2-listed" },
		{ "Host bridge: Advanced Micro Devices, Inc. [AMD] Starship/Matisse Root Complex",
		  HR_RC_LISTED, "Z1" },
		{ "Host bridge: Intel Corporation Xeon E5/Core i7 DMI2 (rev 07)", HR_RC_LISTED,
		  "R2-listed" },
		{ "Host bridge: Intel Corporation 440FX - 82441FX PMC [Natoma]", HR_RC_UNLISTED,
		  "R2" },
		{ "Host bridge: Intel Corporation Xeon E7 v4/Xeon E5 v4/Xeon E3 v4/Xeon D DMI2",
		  HR_RC_UNLISTED, "R2" },
		{ "Host bridge: Intel Corporation 8th Gen Core Host Bridge/DRAM Registers",
		  HR_RC_UNLISTED, "R2" },
		{ "Host bridge: Intel Corporation Device 7d01", HR_RC_UNLISTED, "R2" },
		{ "Host bridge: Somebody's Root Complex", HR_UNKNOWN, "U8" },
		{ "", HR_UNKNOWN, "U8" },
	};
	struct hr_pair p;

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		fake_two_ports(&machine);
		host_is(row[i].title);
		fake_evaluate(OTHER, &hardware, &p);
		cr_expect_eq(p.verdict, row[i].verdict, "row %zu: %u by %s", i, p.verdict,
			     hr_rules[p.rule].id);
		cr_expect(fake_found(&p, row[i].rule), "row %zu: no %s", i, row[i].rule);
		cr_expect_eq(p.kernel == HR_KERNEL_UNKNOWN, row[i].verdict == HR_UNKNOWN, "row %zu",
			     i);
		fake_evaluate(SIBLING, &hardware, &p);
		cr_expect_eq(p.verdict, HR_DIRECT, "row %zu: a switch needs no root complex", i);
	}
}

Test(topo_names, redirect_to_a_root_complex_without_a_name_is_unknown_with_a_remedy)
{
	struct hr_pair p;
	char text[48];

	host_is("Host bridge: Somebody's Root Complex");
	fake_put(fake_find(&machine, "02:00.0"), ACS, 2, HR_ACS_RR);
	fake_evaluate(SIBLING, &plain, &p);
	cr_expect_eq(p.verdict, HR_UNKNOWN, "%s", hr_rules[p.rule].id);
	cr_expect_str_eq(hr_verdict_text(p.verdict, p.rule, text), "UNKNOWN(rc)");
	cr_expect(fake_found(&p, "A1-port"));
	cr_expect_not(fake_found(&p, "A1"));
	/* Redirect at a port that is not below the common bridge. */
	fake_put(fake_find(&machine, "02:00.0"), ACS, 2, 0);
	fake_put(fake_find(&machine, "01:00.0"), ACS, 2, HR_ACS_CR);
	fake_evaluate(SIBLING, &plain, &p);
	cr_expect_str_eq(hr_verdict_text(p.verdict, p.rule, text), "UNKNOWN(rc)");
	/* In a VFIO container all traffic goes to the root complex. */
	fake_put(fake_find(&machine, "01:00.0"), ACS, 2, 0);
	fake_evaluate(SIBLING, &(struct hr_options){ .mode = HR_MODE_VFIO, .iommu = HR_IOMMU_ON },
		      &p);
	cr_expect_str_eq(hr_verdict_text(p.verdict, p.rule, text), "UNKNOWN(rc)");
}

Test(topo_names, a_whole_machine_whose_second_bus_begins_later_is_identified)
{
	struct hr_pair p;

	fake_windows(fake_bridge(&machine, "80:02.0", 0x8086, 0x6f04, HR_PORT_ROOT, 0x81, 0x81),
		     0xe6000000, 0xe6ffffff, 0xfff00000, 0);
	fake_nvme(&machine, "81:00.0", 0xe6000000);
	fake_evaluate("81:00.0", &plain, &p);
	cr_expect_eq(p.verdict, HR_RC_UNLISTED, "%s", hr_rules[p.rule].id);
	cr_expect_eq(p.kernel, HR_KERNEL_NOT_SUPPORTED);
}

/* ---- rules that exclude each other */

static void cut_to_cards(const char *kept)
{
	struct fake_machine cut = { .count = 0 };

	cut.fn[cut.count++] = *fake_find(&machine, GPU);
	cut.fn[cut.count++] = *fake_find(&machine, SIBLING);
	if (kept)
		cut.fn[cut.count++] = *fake_find(&machine, kept);
	machine = cut;
}

Test(topo_names, without_bridges_the_data_flow_is_not_reported)
{
	static const char *const wrong[] = { "R1", "R2",  "R2-listed", "A1",	    "I1", "I2",
					     "A9", "A14", "M1-rc",     "H5-unread", "U8", "H3-to" };
	static const struct hr_options row[] = {
		{ 0 },
		{ .iommu = HR_IOMMU_ON },
		{ .mode = HR_MODE_HOST, .iommu = HR_IOMMU_ON },
		{ .mode = HR_MODE_KERNEL, .iommu = HR_IOMMU_ON },
		{ .kernel = HR_KERNEL_VERSION(5, 1) },
	};
	struct hr_pair p;

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		fake_two_ports(&machine);
		fake_put(fake_find(&machine, SIBLING), FAKE_AER + HR_AER_UESTA, 4,
			 HR_UE_CMPLT_TIMEOUT);
		cut_to_cards(i & 1 ? "00:02.0" : NULL);
		fake_evaluate(SIBLING, &row[i], &p);
		cr_expect_eq(p.verdict, HR_UNKNOWN, "row %zu: %u by %s", i, p.verdict,
			     hr_rules[p.rule].id);
		cr_expect(fake_found(&p, "U4"), "row %zu", i);
		cr_expect(p.cut);
		for (size_t j = 0; j < sizeof wrong / sizeof *wrong; j++)
			cr_expect_not(fake_found(&p, wrong[j]), "row %zu: %s beside U4", i,
				      wrong[j]);
	}
}

Test(topo_names, unread_acs_prevents_the_verdict_direct)
{
	struct hr_pair p;

	fake_find(&machine, "02:01.0")->bytes = 256;
	fake_evaluate(SIBLING, &plain, &p);
	cr_expect(fake_found(&p, "U3"));
	cr_expect_not(fake_found(&p, "R1"));
	for (int32_t i = 0; i < (int32_t)model.count; i++)
		for (int32_t j = 0; j < (int32_t)model.count; j++) {
			hr_pair_evaluate(&topology, i, j, &p);
			for (unsigned flow = 0; flow < HR_FLOWS; flow++)
				cr_assert_lt(p.flow_rule[flow], hr_rules_count, "%d %d", i, j);
		}
}

Test(topo_names, redirect_at_a_root_port_does_not_affect_pairs_below_the_port)
{
	struct hr_pair p;

	/* Two functions of one card: the root port is their common bridge. */
	fake_nvme(&machine, "05:00.1", 0xe4010000);
	fake_put(fake_find(&machine, "00:02.0"), ACS, 2, HR_ACS_RR | HR_ACS_CR);
	fake_evaluate(OTHER, &plain, &p);
	hr_pair_evaluate(&topology, fake_at(OTHER), fake_at("05:00.1"), &p);
	cr_expect_eq(p.verdict, HR_DIRECT, "%s", hr_rules[p.rule].id);
	cr_expect_eq(p.kernel, HR_KERNEL_NOT_SUPPORTED);
	cr_expect_not(fake_found(&p, "A1-port"));
	/* In the kernel's own mode the kernel's verdict decides. */
	cr_assert_eq(
		hr_topology_init(&topology, &model, &(struct hr_options){ .mode = HR_MODE_KERNEL }),
		0);
	hr_pair_evaluate(&topology, fake_at(OTHER), fake_at("05:00.1"), &p);
	cr_expect_eq(p.verdict, HR_REDIR_UNLISTED, "%s", hr_rules[p.rule].id);
}

/* ---- NVIDIA's CPUs */

Test(topo_names, an_nvidia_cpu_is_identified_only_by_its_root_ports)
{
	static const struct {
		uint32_t id;
		uint32_t class;
		unsigned port;
		const char *head;
		bool cpu;
	} row[] = {
		{ 0x22b110de, 0x060400, HR_PORT_ROOT, "", true },  /* Grace */
		{ 0x22b810de, 0x060400, HR_PORT_ROOT, "", true },  /* Grace */
		{ 0x2f9510de, 0x060400, HR_PORT_ROOT, "", true },  /* Vera */
		{ 0x037410de, 0x060400, HR_PORT_ROOT, "", false }, /* MCP55 */
		{ 0x02f010de, 0x050000, HR_PORT_RC_ENDPOINT, "", false },
		{ 0x20b010de, 0x030200, HR_PORT_ENDPOINT, "", false }, /* a GPU alone */
		{ 0x22b110de, 0x060400, HR_PORT_ROOT, "headrace: cpu_amd=1\n", false },
		{ 0x22d110de, 0x060400, HR_PORT_ROOT, "", false }, /* GB10 has rule R9 */
	};
	struct hr_pair p;

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct fake_fn *f;

		fake_two_ports(&machine);
		snprintf(machine.head, sizeof machine.head, "%s", row[i].head);
		if (row[i].class == 0x060400)
			f = fake_bridge(&machine, "80:00.0", 0, 0, row[i].port, 0x81, 0x81);
		else
			f = fake_function(&machine, "80:00.0", row[i].class, 0, 0, row[i].port);
		fake_put(f, HR_CFG_VENDOR, 4, row[i].id);
		fake_evaluate(SIBLING, &plain, &p);
		cr_expect_eq(fake_found(&p, "I4"), row[i].cpu, "row %zu", i);
	}
}

Test(topo_names, a_capture_without_the_bridge_above_a_gpu_makes_no_nvidia_cpu)
{
	struct hr_pair p;

	cut_to_cards("00:02.0");
	fake_evaluate(SIBLING, &plain, &p);
	cr_expect_not(fake_found(&p, "I4"));
}

/* ---- controllers that hide drives */

static bool machine_says(const char *rule)
{
	for (unsigned i = 0; i < hr_rules_count; i++)
		if (strcmp(hr_rules[i].id, rule) == 0)
			return hr_hit(&topology.machine, i);
	return false;
}

Test(topo_names, a_chipset_in_raid_mode_hides_drives_only_where_no_drive_is_present)
{
	static const struct {
		uint32_t id, class;
		bool drives, hides;
	} row[] = {
		{ 0x28228086, 0x010400, false, true },	/* Intel RST */
		{ 0x282a8086, 0x010400, false, true },	/* Intel RST, mobile */
		{ 0xb0001022, 0x010400, false, true },	/* AMD RAIDXpert, one drive */
		{ 0x28228086, 0x010400, true, false },	/* the drives are visible */
		{ 0x005d1000, 0x010400, false, false }, /* MegaRAID SAS-3 3108 */
		{ 0x10e21000, 0x010400, false, false }, /* MegaRAID 9560 */
		{ 0x323b103c, 0x010400, false, false }, /* Smart Array */
		{ 0x028d9005, 0x010400, false, false }, /* Adaptec */
		{ 0x28228086, 0x010601, false, false }, /* in AHCI mode */
	};
	struct hr_pair p;

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct fake_fn *f;

		fake_two_ports(&machine);
		f = fake_function(&machine, "00:17.0", row[i].class, 0, 0, HR_PORT_RC_ENDPOINT);
		fake_put(f, HR_CFG_VENDOR, 4, row[i].id);
		if (!row[i].drives) {
			fake_put(fake_find(&machine, SIBLING), HR_CFG_CLASS, 3, 0x050000);
			fake_put(fake_find(&machine, OTHER), HR_CFG_CLASS, 3, 0x020000);
		}
		fake_evaluate(SIBLING, &plain, &p);
		cr_expect_eq(machine_says("R10-card"), row[i].hides, "row %zu", i);
		/*
		 * The command line names the controller as an SSD, so the pair is direct, without
		 * this note.
		 */
		cr_expect_not(fake_found(&p, "R10-card"), "row %zu", i);
	}
}
