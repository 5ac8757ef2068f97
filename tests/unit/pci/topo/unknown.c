/* Missing, damaged or hidden facts give the verdict "unknown" with a reason. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "pci/topo/fields.h"
#include "pci/topo/tables.h"
#include "pci/topo/verdict.h"
#include "pci/topo/explain.h"
#include "tests/harness/evaluate.h"

TestSuite(topo_unknown, .init = fake_evaluate_up, .fini = fake_evaluate_down, .timeout = 60);

static const struct hr_options plain;

static void expect_unknown(const char *ssd, const char *rule, const char *reason)
{
	struct hr_pair p;
	char text[48];

	fake_evaluate(ssd, &plain, &p);
	cr_expect_eq(p.verdict, HR_UNKNOWN, "%s: verdict %u", rule, p.verdict);
	cr_expect(fake_found(&p, rule), "%s was not found", rule);
	cr_expect(strstr(hr_verdict_text(p.verdict, p.rule, text), reason) != NULL, "%s: %s", rule,
		  text);
}

Test(topo_unknown, sixty_four_bytes_are_unknown_for_want_of_privilege)
{
	for (unsigned i = 0; i < machine.count; i++)
		machine.fn[i].bytes = 64;
	expect_unknown(SIBLING, "U1", "priv");
	expect_unknown(OTHER, "U1", "priv");
}

Test(topo_unknown, access_denied_in_the_text_is_unknown_for_want_of_privilege)
{
	struct fake_fn *f = fake_find(&machine, "02:00.0");

	f->bytes = 64;
	snprintf(f->text, sizeof f->text, "\tCapabilities: <access denied>\n");
	expect_unknown(SIBLING, "U1", "priv");
}

/* A text without extended capabilities may mean that lspci could not read them. */
Test(topo_unknown, text_proves_absence_only_with_extended_capabilities)
{
	static const struct {
		const char *text;
		uint32_t exp, ecaps, acs, ats; /* 9: unknown */
	} row[] = {
		{ "\tCapabilities: [40] Express (v2) Endpoint, MSI 00\n", 0x40, 9, 9, 9 },
		{ "\tCapabilities: [40] Express (v2) Endpoint, MSI 00\n"
		  "\tCapabilities: [100 v1] Advanced Error Reporting\n",
		  0x40, 1, 0, 0 },
		{ "\tCapabilities: [80] Power Management version 3\n", 0, 1, 0, 0 },
		{ "\tCapabilities: <access denied>\n", 9, 9, 9, 9 },
		{ "\tFlags: bus master\n", 9, 9, 9, 9 },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct fake_fn *f = fake_find(&machine, SIBLING);
		const struct hr_fn *read;

		f->bytes = 0;
		snprintf(f->title, sizeof f->title, "Non-Volatile memory controller: X");
		snprintf(f->text, sizeof f->text, "%s", row[i].text);
		hr_model_reset(&model);
		cr_assert_eq(fake_load(&machine, &model), 0, "%s", model.error.text);
		read = &model.fn[fake_at(SIBLING)];
		cr_expect_eq(hr_get(read, HR_F_EXP, 9), row[i].exp, "row %zu", i);
		cr_expect_eq(hr_get(read, HR_F_ECAPS, 9), row[i].ecaps, "row %zu", i);
		cr_expect_eq(hr_get(read, HR_F_ACS, 9), row[i].acs, "row %zu", i);
		cr_expect_eq(hr_get(read, HR_F_ATS, 9), row[i].ats, "row %zu", i);
	}
}

Test(topo_unknown, a_common_bridge_that_cannot_be_read_hides_its_acs)
{
	fake_find(&machine, "01:00.0")->bytes = 64;
	expect_unknown(SIBLING, "U1", "priv");
}

Test(topo_unknown, a_function_without_data_is_unknown)
{
	fake_find(&machine, "02:00.0")->bytes = 0;
	cr_assert_eq(fake_load(&machine, &model), 0);
	fake_find(&machine, SIBLING)->bytes = 0;
	snprintf(fake_find(&machine, SIBLING)->title, 64, "Non-Volatile memory controller: X");
	expect_unknown(OTHER, "U4", "dump");
}

Test(topo_unknown, without_extended_space_acs_is_unknown_below_a_switch)
{
	struct hr_pair p;

	for (unsigned i = 0; i < machine.count; i++)
		machine.fn[i].bytes = 256;
	expect_unknown(SIBLING, "U3", "acs");
	fake_evaluate(SIBLING, &plain, &p);
	cr_expect(p.unread_redirect && p.unread_port);
	cr_expect_eq(p.kernel, HR_KERNEL_UNKNOWN);
	cr_expect_not(fake_found(&p, "R1"), "the flows through that port are not direct");
	fake_evaluate(OTHER, &plain, &p);
	cr_expect_eq(p.verdict, HR_RC_UNLISTED);
}

Test(topo_unknown, a_damaged_extended_list_hides_acs)
{
	/* The header before ACS points at itself. */
	fake_put(fake_find(&machine, "02:01.0"), FAKE_AER, 4,
		 HR_ECAP_AER | 1 << 16 | FAKE_AER << 20);
	expect_unknown(SIBLING, "U3", "acs");
}

Test(topo_unknown, extended_space_of_all_ones_is_unknown)
{
	memset(fake_find(&machine, "02:01.0")->config + 256, 0xff, 4096 - 256);
	expect_unknown(SIBLING, "U3", "acs");
}

Test(topo_unknown, a_looping_capability_list_is_unknown)
{
	fake_put(fake_find(&machine, SIBLING), FAKE_PM + 1, 1, FAKE_EXP);
	expect_unknown(SIBLING, "U2", "dump");
}

Test(topo_unknown, a_capture_without_the_bridges_is_unknown)
{
	struct fake_machine cut = { .count = 0 };

	cut.fn[cut.count++] = *fake_find(&machine, "03:00.0");
	cut.fn[cut.count++] = *fake_find(&machine, SIBLING);
	machine = cut;
	expect_unknown(SIBLING, "U4", "dump");
}

Test(topo_unknown, an_endpoint_on_a_root_bus_is_virtual)
{
	struct fake_machine flat = { .count = 0 };

	fake_function(&flat, "00:00.0", 0x060000, 0x8086, 0x1237, HR_PORT_RC_ENDPOINT);
	flat.fn[flat.count] = *fake_find(&machine, "03:00.0");
	snprintf(flat.fn[flat.count++].address, 16, "00:04.0");
	flat.fn[flat.count] = *fake_find(&machine, SIBLING);
	snprintf(flat.fn[flat.count++].address, 16, "00:05.0");
	cr_assert_eq(fake_load(&flat, &model), 0);
	cr_assert_eq(hr_topology_init(&topology, &model, &(struct hr_options){ 0 }), 0);

	struct hr_pair p;

	hr_pair_evaluate(&topology, fake_at("00:04.0"), fake_at("00:05.0"), &p);
	cr_expect_eq(p.verdict, HR_UNKNOWN);
	cr_expect(fake_found(&p, "R12"));
}

/* Bring-up ignores emulated functions, and --ignore-vm all signs of a virtual machine. */
Test(topo_unknown, an_option_selects_the_signs_of_a_virtual_machine)
{
	static const struct {
		bool emulated, flag; /* an emulated port; the CPU's flag */
		enum hr_vm vm;
		const char *rule;
	} row[] = {
		{ true, false, HR_VM_ALL, "R12-port" }, { true, false, HR_VM_CPU, "R1" },
		{ true, false, HR_VM_IGNORE, "R1" },	{ false, true, HR_VM_ALL, "R12-vm" },
		{ false, true, HR_VM_CPU, "R12-vm" },	{ false, true, HR_VM_IGNORE, "R1" },
		{ true, true, HR_VM_ALL, "R12-vm" },	{ true, true, HR_VM_CPU, "R12-vm" },
		{ false, false, HR_VM_ALL, "R1" },
	};
	struct hr_pair p;

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_options opt = { .vm = row[i].vm };
		struct fake_fn *port;

		fake_two_ports(&machine);
		port = fake_find(&machine, "00:01.0");
		if (row[i].emulated)
			memcpy(port->config, "\x36\x1b\x0c\x00", 4);
		snprintf(machine.head, sizeof machine.head, "%s",
			 row[i].flag ? "headrace: hypervisor=1\n" : "");
		fake_evaluate(SIBLING, &opt, &p);
		cr_expect_str_eq(hr_rules[p.rule].id, row[i].rule, "row %zu: rule %s", i,
				 hr_rules[p.rule].id);
		cr_expect_eq(topology.guest, strcmp(hr_rules[p.rule].id, "R1") != 0, "row %zu", i);
	}
}

/* ---- missing facts about the root complex and the IOMMU */

Test(topo_unknown, a_root_complex_that_is_not_identified_is_not_refused)
{
	static const struct {
		const char *ssd;
		uint16_t host;	  /* device number of 00:00.0; 0: missing from the dump */
		bool numbers;	  /* the dump has numbers of 00:00.0 */
		const char *head; /* head of the dump */
		uint32_t kernel;
		enum hr_kernel_verdict want;
	} row[] = {
		{ OTHER, 0x1234, true, "", 0, HR_KERNEL_NOT_SUPPORTED },
		{ OTHER, 0x09a2, true, "", 0, HR_KERNEL_THRU_HOST },
		{ OTHER, 0x1234, false, "", 0, HR_KERNEL_UNKNOWN },
		{ OTHER, 0, false, "", 0, HR_KERNEL_UNKNOWN },
		{ OTHER, 0, false, "", HR_KERNEL_VERSION(5, 1), HR_KERNEL_NOT_SUPPORTED },
		{ OTHER, 0, false, "headrace: cpu_amd=1\n", 0, HR_KERNEL_THRU_HOST },
		{ SIBLING, 0, false, "", 0, HR_KERNEL_BUS_ADDR },
	};
	struct hr_pair p;

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		fake_two_ports(&machine);
		fake_put(&machine.fn[0], HR_CFG_DEVICE, 2, row[i].host);
		machine.fn[0].bytes = row[i].numbers ? 4096 : 0;
		snprintf(machine.fn[0].title, 64, "Host bridge: Somebody's");
		snprintf(machine.head, sizeof machine.head, "%s", row[i].head);
		if (!row[i].host)
			memmove(machine.fn, machine.fn + 1, --machine.count * sizeof *machine.fn);
		fake_evaluate(row[i].ssd, &(struct hr_options){ .kernel = row[i].kernel }, &p);
		cr_expect_eq(p.kernel, row[i].want, "row %zu: %s", i, hr_kernel_text(p.kernel));
	}
}

Test(topo_unknown, the_reason_names_the_unidentified_root_complex)
{
	struct hr_finding f = { .fn = HR_NO_FN };
	struct hr_pair p;
	char why[256];

	memmove(machine.fn, machine.fn + 1, --machine.count * sizeof *machine.fn);
	fake_evaluate(OTHER, &plain, &p);
	hr_rule_text(&topology, &p, &f, hr_rules[p.rule].why, why, sizeof why);
	cr_expect(strstr(why, "does not identify"), "%s", why);
}

Test(topo_unknown, an_iommu_that_the_command_line_turns_on_is_not_assumed_off)
{
	static const struct {
		const char *cmdline;
		enum hr_verdict verdict;
		bool stated; /* passthrough or off: nothing is assumed */
	} row[] = {
		{ "quiet", HR_RC_UNLISTED, false },
		{ "intel_iommu=on", HR_UNKNOWN, false },
		{ "quiet intel_iommu=on,sm_on", HR_UNKNOWN, false },
		{ "amd_iommu=force_enable", HR_UNKNOWN, false },
		{ "iommu.passthrough=0", HR_UNKNOWN, false },
		{ "intel_iommu=on iommu=pt", HR_RC_UNLISTED, true },
		{ "intel_iommu=on intel_iommu=off", HR_RC_UNLISTED, true },
		{ "intel_iommu=off intel_iommu=on", HR_UNKNOWN, false },
		{ "my_intel_iommu=on", HR_RC_UNLISTED, false },
	};
	struct hr_pair p;

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		snprintf(machine.head, sizeof machine.head, "headrace: cmdline=%s\n",
			 row[i].cmdline);
		fake_evaluate(OTHER, &plain, &p);
		cr_expect_eq(p.verdict, row[i].verdict, "%s: %u", row[i].cmdline, p.verdict);
		cr_expect_eq(fake_found(&p, "I1"), !row[i].stated && row[i].verdict != HR_UNKNOWN,
			     "%s", row[i].cmdline);
		cr_expect_eq(fake_found(&p, "I2-unread"), row[i].verdict == HR_UNKNOWN, "%s",
			     row[i].cmdline);
	}
}

/* SIBLING as lspci -vv prints it, without registers. */
static void ssd_as_text(const char *express, const char *more)
{
	struct fake_fn *f = fake_find(&machine, SIBLING);

	f->bytes = 0;
	snprintf(f->title, sizeof f->title, "Non-Volatile memory controller [0108]: X [144d:a80a]");
	snprintf(f->text, sizeof f->text,
		 "\tControl: I/O- Mem+ BusMaster+\n"
		 "\tRegion 0: Memory at e0000000 (64-bit, non-prefetchable) [size=16K]\n"
		 "\tCapabilities: [40] Express (%s) Endpoint, MSI 00\n"
		 "\t\tDevCap:\tMaxPayload 256 bytes, PhantFunc 0\n"
		 "\t\t\tMaxPayload 256 bytes, MaxReadReq 512 bytes\n%s"
		 "\tCapabilities: [100 v1] Advanced Error Reporting\n",
		 express, more);
}

Test(topo_unknown, ten_bit_tags_are_evaluated_from_the_text)
{
#define ABLE "\t\tDevCap2: Completion Timeout: Range ABC\n\t\t\t 10BitTagComp+ 10BitTagReq+ OBFF\n"
#define UNABLE \
	"\t\tDevCap2: Completion Timeout: Range ABC\n\t\t\t 10BitTagComp- 10BitTagReq- OBFF\n"
#define CONTROL "\t\tDevCtl2: Completion Timeout: 50us\n\t\t\t IDOReq- LTR-\n"
#define ON CONTROL "\t\t\t 10BitTagReq+ OBFF Disabled\n"
#define OFF CONTROL "\t\t\t 10BitTagReq- OBFF Disabled\n"
	static const struct {
		const char *express, *text;
		bool gpu_knows;
		enum hr_verdict verdict;
		const char *rule;
	} row[] = {
		{ "v2", ABLE ON, false, HR_BLOCKED, "M3" },
		{ "v2", ABLE ON, true, HR_DIRECT, "R1" },
		{ "v2", ABLE OFF, false, HR_DIRECT, "R1" },
		{ "v2", ABLE CONTROL, false, HR_UNKNOWN, "M3-unread" },
		{ "v2", ABLE CONTROL, true, HR_DIRECT, "R1" },
		{ "v2", UNABLE CONTROL, false, HR_DIRECT, "R1" },
		{ "v2", "", false, HR_DIRECT, "M3-unsaid" },
		{ "v1", "", false, HR_DIRECT, "R1" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_pair p;

		ssd_as_text(row[i].express, row[i].text);
		fake_put(fake_find(&machine, GPU), FAKE_EXP + HR_EXP_DEVCAP2, 4,
			 row[i].gpu_knows ? HR_DEVCAP2_TAG10_COMP : 0);
		fake_evaluate(SIBLING, &plain, &p);
		cr_expect_eq(p.verdict, row[i].verdict, "row %zu: %u", i, p.verdict);
		cr_expect(fake_found(&p, row[i].rule), "row %zu: no %s", i, row[i].rule);
		cr_expect_eq(fake_found(&p, "M3-unsaid"), row[i].text[0] == '\0' && i != 7,
			     "row %zu", i);
	}
}

Test(topo_unknown, a_fatal_error_in_the_text_is_reported)
{
	struct hr_pair p;

	ssd_as_text("v2", "\t\tDevSta:\tCorrErr+ NonFatalErr+ FatalErr- UnsupReq+\n");
	fake_evaluate(SIBLING, &plain, &p);
	cr_expect_not(fake_found(&p, "H4"));
	ssd_as_text("v2", "\t\tDevSta:\tCorrErr+ NonFatalErr- FatalErr+ UnsupReq+\n");
	fake_evaluate(SIBLING, &plain, &p);
	cr_expect(fake_found(&p, "H4"));
}

Test(topo_unknown, translation_blocking_is_unknown_while_ats_is_unknown)
{
	struct hr_pair p;

	fake_find(&machine, SIBLING)->bytes = 256;
	fake_evaluate(SIBLING, &plain, &p);
	cr_expect_eq(p.verdict, HR_DIRECT);
	fake_put(fake_find(&machine, "02:01.0"), ACS, 2, HR_ACS_TB);
	expect_unknown(SIBLING, "A5-unread", "ats");
}

/* Output of lspci -vvvxxxx: text, and the registers that are its source. */
#define EXPRESS_TEXT                                           \
	"\tCapabilities: [40] Express (v2) Endpoint, MSI 00\n" \
	"\t\tDevCap:\tMaxPayload 256 bytes, PhantFunc 0\n"     \
	"\t\t\tMaxPayload 256 bytes, MaxReadReq 512 bytes\n"   \
	"\t\tLnkSta:\tSpeed 16GT/s, Width x4\n"                \
	"\tCapabilities: [1c0 v1] Access Control Services\n"   \
	"\t\tACSCtl:\tSrcValid- TransBlk- ReqRedir+\n"

Test(topo_unknown, registers_in_hex_win_over_the_text_beside_them)
{
	struct fake_fn *f = fake_find(&machine, SIBLING);
	const struct hr_fn *disk;

	snprintf(f->text, sizeof f->text, "%s", EXPRESS_TEXT);
	fake_put(f, FAKE_EXP + HR_EXP_DEVCTL, 2, 0x5040); /* MPS 512, MRRS 4096 */
	fake_put(f, FAKE_EXP + HR_EXP_DEVSTA, 2, 4);
	fake_put(f, FAKE_EXP + HR_EXP_LNKSTA, 2, 2 << 4 | 3);
	fake_put(f, FAKE_EXP + HR_EXP_DEVCTL2, 2, HR_DEVCTL2_TAG10_ENABLE);
	cr_assert_eq(fake_load(&machine, &model), 0, "%s", model.error.text);
	disk = &model.fn[fake_at(SIBLING)];
	cr_expect_eq(hr_get(disk, HR_F_MPS, 0), 512u);
	cr_expect_eq(hr_get(disk, HR_F_MRRS, 0), 4096u);
	cr_expect_eq(hr_get(disk, HR_F_DEVSTA, 0), 4u);
	cr_expect_eq(hr_get(disk, HR_F_WIDTH, 0), 2u);
	cr_expect_eq(hr_get(disk, HR_F_SPEED, 0), 3u);
	cr_expect(hr_has(disk, HR_F_DEVCTL2, HR_DEVCTL2_TAG10_ENABLE));
	cr_expect_eq(hr_get(disk, HR_F_ACS, 1), 0u, "its list was read whole and has none");
}
