/* The boot model: ACS controls, modes and groups after a boot with a given command line. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "pci/topo/bootmodel.h"
#include "pci/topo/change.h"
#include "pci/topo/groups.h"
#include "tests/harness/evaluate.h"
#include "tests/harness/error.h"
#include "pci/topo/explain.h"

TestSuite(topo_boot, .init = fake_evaluate_up, .fini = fake_evaluate_down, .timeout = 60);

#define ISOLATED 0x1du /* set by Linux: SV RR CR UF */
#define PORTS 4u

static const char *const ports[PORTS] = { "00:01.0", "00:02.0", "02:00.0", "02:01.0" };

enum cpu { INTEL, AMD, ARM };

/* A machine with a root complex of that vendor, whose ports all have that ACS control. */
static void make(enum cpu cpu, uint32_t acs, const char *head)
{
	static const uint16_t vendor[] = { 0x8086, 0x1022, 0x10de };

	fake_two_ports(&machine);
	fake_put(fake_find(&machine, "00:00.0"), HR_CFG_VENDOR, 2, vendor[cpu]);
	fake_put(fake_find(&machine, "00:00.0"), HR_CFG_DEVICE, 2, cpu == AMD ? 0x1480 : 0x1234);
	fake_put(fake_find(&machine, "01:00.0"), FAKE_AER + 2, 2, 1); /* upstream: no ACS */
	for (unsigned i = 0; i < PORTS; i++)
		fake_put(fake_find(&machine, ports[i]), ACS, 2, acs);
	snprintf(machine.head, sizeof machine.head, "%s", head);
}

static void load(void)
{
	static const struct hr_options none;

	cr_assert_eq(fake_load(&machine, &model), 0, "%s", model.error.text);
	cr_assert_eq(hr_topology_init(&topology, &model, &none), 0);
}

#define OFF "headrace: iommu=1\n"
#define PT "headrace: iommu=2\n"
#define ON "headrace: iommu=3\n"
#define DISABLE "pci=disable_acs_redir="
#define CONFIG "pci=config_acs="

/* ---- the kernel's command line */

Test(topo_boot, the_command_line_decides_iommu_and_acs)
{
	static const struct {
		enum cpu cpu;
		uint32_t acs; /* present value */
		const char *head, *line;
		const char *kernel;
		enum hr_iommu iommu;
		bool asks;
	} row[] = {
		{ INTEL, 0, OFF, "quiet", "6.8", HR_IOMMU_OFF, false },
		/* The option "pt" does not turn the IOMMU on. */
		{ INTEL, 0, OFF, "iommu=pt", "6.8", HR_IOMMU_OFF, false },
		{ INTEL, 0, OFF, "intel_iommu=on iommu=pt", "6.8", HR_IOMMU_PT, true },
		{ INTEL, 0, OFF, "intel_iommu=on,sm_on iommu=pt", "6.8", HR_IOMMU_PT, true },
		{ INTEL, 0, OFF, "intel_iommu=sm_on iommu=pt", "6.8", HR_IOMMU_OFF, false },
		{ INTEL, 0, OFF, "intel_iommu=on iommu=nopt", "6.8", HR_IOMMU_ON, true },
		{ INTEL, 0, OFF, "intel_iommu=on iommu.passthrough=1", "6.8", HR_IOMMU_PT, true },
		{ INTEL, 0, OFF, "intel_iommu=on", "6.8", HR_IOMMU_UNKNOWN, true },
		{ INTEL, ISOLATED, ON, "", "6.8", HR_IOMMU_ON, true },
		{ INTEL, ISOLATED, ON, "iommu=pt", "6.8", HR_IOMMU_PT, true },
		{ INTEL, ISOLATED, ON, "intel_iommu=off", "6.8", HR_IOMMU_OFF, false },
		{ INTEL, ISOLATED, ON, "intel_iommu=on intel_iommu=off", "6.8", HR_IOMMU_OFF,
		  false },
		{ INTEL, ISOLATED, ON, "intel_iommu=off intel_iommu=on", "6.8", HR_IOMMU_ON, true },
		{ INTEL, ISOLATED, ON, "iommu=off", "6.8", HR_IOMMU_OFF, false },
		{ INTEL, ISOLATED, ON, "iommu=soft", "5.15", HR_IOMMU_OFF, false },
		{ INTEL, ISOLATED, ON, "iommu=soft", "6.8", HR_IOMMU_ON, true },
		{ INTEL, ISOLATED, ON, "iommu=memaper=2,pt", "6.8", HR_IOMMU_PT, true },
		{ INTEL, ISOLATED, ON, "xiommu=off amd_iommu=off", "6.8", HR_IOMMU_ON, true },
		/*
		 * Quotes around a value, or around the whole option; the closing quote may be
		 * missing.
		 */
		{ INTEL, ISOLATED, ON, "iommu=\"off\"", "6.8", HR_IOMMU_OFF, false },
		{ INTEL, ISOLATED, ON, "iommu=\"off", "6.8", HR_IOMMU_OFF, false },
		{ INTEL, ISOLATED, ON, "\"iommu=off\" quiet", "6.8", HR_IOMMU_OFF, false },
		{ INTEL, ISOLATED, ON, "dyndbg=\"a iommu=off\"", "6.8", HR_IOMMU_ON, true },
		{ INTEL, ISOLATED, ON, "iommu=\"\"", "6.8", HR_IOMMU_ON, true },
		/*
		 * AMD's driver asks for ACS when it finds its table, before it reads its options.
		 */
		{ AMD, ISOLATED, ON, "amd_iommu=off", "6.8", HR_IOMMU_OFF, true },
		{ AMD, ISOLATED, ON, "iommu=off", "6.8", HR_IOMMU_OFF, true },
		{ AMD, ISOLATED, ON, "iommu=off intremap=off", "6.8", HR_IOMMU_OFF, false },
		{ AMD, ISOLATED, ON, "amd_iommu=on iommu=pt", "6.8", HR_IOMMU_PT, true },
		{ AMD, ISOLATED, ON, "intel_iommu=off", "6.8", HR_IOMMU_ON, true },
		{ AMD, ISOLATED, OFF "headrace: cmdline=amd_iommu=off\n", "iommu=pt", "6.8",
		  HR_IOMMU_PT, true },
		/* The IOMMU is off without an option: the firmware has turned it off. */
		{ AMD, 0, OFF "headrace: cmdline=quiet\n", "iommu=pt", "6.8", HR_IOMMU_OFF, false },
		{ AMD, 0, OFF "headrace: cmdline=amd_iommu=off\n", "iommu=pt", "6.8", HR_IOMMU_OFF,
		  false },
		{ ARM, ISOLATED, ON, "iommu.passthrough=1", "6.8", HR_IOMMU_PT, true },
		{ ARM, ISOLATED, ON, "iommu=off intel_iommu=off", "6.8", HR_IOMMU_ON, true },
		{ ARM, 0, OFF, "quiet", "6.8", HR_IOMMU_OFF, false },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_boot b;

		make(row[i].cpu, row[i].acs, row[i].head);
		load();
		hr_boot_read(&model, hr_kernel_of_release(row[i].kernel), HR_IOMMU_UNKNOWN,
			     row[i].line, &b);
		cr_expect_eq(b.iommu, row[i].iommu, "row %zu (%s): mode %u", i, row[i].line,
			     b.iommu);
		cr_expect_eq(b.acs, row[i].asks, "row %zu (%s): asks %d", i, row[i].line, b.acs);
	}
}

Test(topo_boot, a_release_is_a_version)
{
	cr_expect_eq(hr_kernel_of_release("6.8.0-45-generic"), HR_KERNEL_VERSION(6, 8));
	cr_expect_eq(hr_kernel_of_release("5.10"), HR_KERNEL_VERSION(5, 10));
	cr_expect_eq(hr_kernel_of_release(""), 0u);
	cr_expect_eq(hr_kernel_of_release("next"), 0u);
	cr_expect_eq(hr_kernel_of_release("99999999.1"), 0u);
	cr_expect_eq(hr_kernel_of_release("6"), 0u);
	cr_expect_eq(hr_kernel_of_release("6."), 0u);
	cr_expect_eq(hr_kernel_of_release("6.x"), 0u);
	cr_expect_eq(hr_kernel_of_release("6-8"), 0u);
	cr_expect_eq(hr_kernel_of_release("32767.65535"), HR_KERNEL_VERSION(32767, 65535));
	cr_expect_eq(hr_kernel_of_release("32768.1"), 0u);
	cr_expect_eq(hr_kernel_of_release("6.65536"), 0u);
}

Test(topo_boot, the_last_word_decides_passthrough)
{
	static const struct {
		const char *line;
		int want;
	} row[] = {
		{ "", -1 },
		{ "quiet iommu=off", -1 },
		{ "iommu=pt", 1 },
		{ "iommu=nopt", 0 },
		{ "iommu=soft,pt", 1 },
		{ "iommu=pt iommu=nopt", 0 },
		{ "iommu=nopt \tiommu=pt ", 1 },
		{ "iommu.passthrough=1", 1 },
		{ "iommu.passthrough=y", 1 },
		{ "iommu.passthrough=Y", 1 },
		{ "iommu.passthrough=t", 1 },
		{ "iommu.passthrough=T", 1 },
		{ "iommu.passthrough=on", 1 },
		{ "iommu.passthrough=off", 0 },
		{ "iommu.passthrough=0", 0 },
		{ "iommu.passthrough=n", 0 },
		{ "iommu.passthrough=", -1 },
		{ "iommu.passthrough=1 iommu=nopt", 0 },
		{ "xiommu=pt", -1 },
		{ "iommu", -1 },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		cr_expect_eq(hr_boot_passthrough(row[i].line), row[i].want, "%s: %d", row[i].line,
			     hr_boot_passthrough(row[i].line));
}

Test(topo_boot, a_command_line_gets_other_words_for_the_mode)
{
	static const struct {
		enum cpu cpu;
		enum hr_iommu mode;
		const char *put;
	} row[] = {
		{ INTEL, HR_IOMMU_OFF, "intel_iommu=off" },
		{ INTEL, HR_IOMMU_PT, "intel_iommu=on iommu=pt" },
		{ INTEL, HR_IOMMU_ON, "intel_iommu=on iommu=nopt" },
		{ INTEL, HR_IOMMU_UNKNOWN, "" },
		{ AMD, HR_IOMMU_OFF, "amd_iommu=off" },
		{ AMD, HR_IOMMU_PT, "iommu=pt" },
		{ AMD, HR_IOMMU_ON, "iommu=nopt" },
		{ ARM, HR_IOMMU_OFF, "iommu=off" },
		{ ARM, HR_IOMMU_PT, "iommu.passthrough=1" },
		{ ARM, HR_IOMMU_ON, "iommu.passthrough=0" },
	};
	static const char had[] = "ro iommu=pt intel_iommu=on  \"a b\" amd_iommu=off x=\"c d\" "
				  "iommu.passthrough=1 pci=noats";
	char line[HR_BOOT_LINE_MAX], want[256];

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		make(row[i].cpu, 0, "");
		load();
		snprintf(model.sys.cmdline, sizeof model.sys.cmdline, "%s", had);
		cr_expect_str_eq(hr_boot_line(&model, row[i].mode, line), row[i].put, "row %zu", i);
		snprintf(want, sizeof want, "ro \"a b\" \"x=\"c d\"\" pci=noats %s", row[i].put);
		cr_expect_str_eq(line, want, "row %zu", i);
		model.sys.cmdline[0] = '\0';
		hr_boot_line(&model, row[i].mode, line);
		cr_expect_str_eq(line, row[i].put, "row %zu", i);
	}
	/* Words that do not fit are left out; the new words stay. */
	memset(model.sys.cmdline, 'x', sizeof model.sys.cmdline - 1);
	hr_boot_line(&model, HR_IOMMU_PT, line);
	cr_expect_str_eq(line, "iommu.passthrough=1");
}

/* ---- registers */

struct acs_row {
	uint32_t now;
	const char *head, *line, *kernel;
	uint32_t near, far; /* ACS control of 02:00.0 and of 02:01.0 after the boot */
};

static void expect_acs(const struct acs_row *row, size_t rows)
{
	for (size_t i = 0; i < rows; i++) {
		struct hr_boot b;
		uint32_t near, far;

		make(INTEL, row[i].now, row[i].head);
		load();
		hr_boot_read(&model, hr_kernel_of_release(row[i].kernel), HR_IOMMU_UNKNOWN,
			     row[i].line, &b);
		near = hr_boot_acs(&model, &b, fake_at("02:00.0"), NULL);
		far = hr_boot_acs(&model, &b, fake_at("02:01.0"), NULL);
		cr_expect(near == row[i].near && far == row[i].far, "row %zu (%s, %s): %02x %02x",
			  i, row[i].line, row[i].kernel, near, far);
	}
}

Test(topo_boot, acs_controls_follow_kernel_and_disable_acs_redir)
{
	static const struct acs_row row[] = {
		/* No driver asks, so the firmware's value stays. */
		{ 0, OFF, "", "6.8", 0, 0 },
		{ HR_ACS_SV, OFF, "", "6.8", HR_ACS_SV, HR_ACS_SV },
		/* A driver asks: SV RR CR UF as supported, in addition to the firmware's bits. */
		{ 0, OFF, "intel_iommu=on", "6.8", ISOLATED, ISOLATED },
		{ HR_ACS_DT, OFF, "intel_iommu=on iommu=pt", "6.8", 0x5d, 0x5d },
		{ 0, OFF, "intel_iommu=on pci=noats", "6.8", 0x1f, 0x1f },
		/* Bits that Linux set are not the firmware's. */
		{ ISOLATED, PT, "intel_iommu=off", "6.8", 0, 0 },
		{ 0x5d, PT, "intel_iommu=off", "6.8", HR_ACS_DT, HR_ACS_DT },
		{ ISOLATED, OFF, "intel_iommu=off", "6.8", ISOLATED, ISOLATED },
		/*
		 * disable_acs_redir, by version: SV and UF stay, or return to the firmware's value.
		 */
		{ ISOLATED, PT, DISABLE "0000:02:00.0", "4.18", ISOLATED, ISOLATED },
		{ ISOLATED, PT, DISABLE "0000:02:00.0", "5.15", HR_ACS_SV | HR_ACS_UF, ISOLATED },
		{ ISOLATED, PT, DISABLE "0000:02:00.0", "6.12", 0x53, ISOLATED },
		{ ISOLATED, PT, DISABLE "0000:02:00.0", "6.15", 0, ISOLATED },
		{ HR_ACS_RR | HR_ACS_SV, OFF, DISABLE "0000:02:00.0", "6.15", HR_ACS_SV,
		  HR_ACS_RR | HR_ACS_SV },
		/* In these versions the firmware's redirect stays in spite of disable_acs_redir. */
		{ HR_ACS_RR, OFF, DISABLE "0000:02:00.0", "6.11", 0x57, HR_ACS_RR },
		{ ISOLATED, PT, DISABLE "02:00.0;02:01.0", "6.8", HR_ACS_SV | HR_ACS_UF,
		  HR_ACS_SV | HR_ACS_UF },
		{ ISOLATED, PT, "\"" DISABLE "02:00.0;02:01.0\"", "6.8", HR_ACS_SV | HR_ACS_UF,
		  HR_ACS_SV | HR_ACS_UF },
		{ ISOLATED, PT, "pci=noaer,disable_acs_redir=02:01.0,nomsi", "6.8", ISOLATED,
		  HR_ACS_SV | HR_ACS_UF },
		{ ISOLATED, PT, DISABLE "00:01.0/00.0/01.0", "6.8", ISOLATED,
		  HR_ACS_SV | HR_ACS_UF },
		{ ISOLATED, PT, DISABLE "00:02.0/00.0/01.0", "6.8", ISOLATED, ISOLATED },
		{ ISOLATED, PT, DISABLE "pci:10b5:8796", "6.8", HR_ACS_SV | HR_ACS_UF,
		  HR_ACS_SV | HR_ACS_UF },
		{ ISOLATED, PT, DISABLE "pci:10b5:0", "6.8", HR_ACS_SV | HR_ACS_UF,
		  HR_ACS_SV | HR_ACS_UF }, /* 0: any */
		{ ISOLATED, PT, DISABLE "pci:10b5:1", "6.8", ISOLATED, ISOLATED },
		{ ISOLATED, PT, DISABLE "pci:10b5:8796:0:0", "6.8", HR_ACS_SV | HR_ACS_UF,
		  HR_ACS_SV | HR_ACS_UF },
		{ ISOLATED, PT, DISABLE "pci:10b5:8796:1:0", "6.8", ISOLATED, ISOLATED },
		{ ISOLATED, PT, DISABLE "pci:10b5:8796:0:1", "6.8", ISOLATED, ISOLATED },
		{ ISOLATED, PT, DISABLE "pci:10b6:8796", "6.8", ISOLATED, ISOLATED },
		{ ISOLATED, PT, DISABLE "pci:0:8796", "6.8", HR_ACS_SV | HR_ACS_UF,
		  HR_ACS_SV | HR_ACS_UF },
		{ ISOLATED, PT, DISABLE "00:05.0;02:01.0", "6.8", ISOLATED, HR_ACS_SV | HR_ACS_UF },
		{ ISOLATED, PT, DISABLE "0001:02:01.0", "6.8", ISOLATED, ISOLATED },
		{ ISOLATED, PT, DISABLE "03:01.0", "6.8", ISOLATED, ISOLATED },
		{ ISOLATED, PT, DISABLE "02:01.1", "6.8", ISOLATED, ISOLATED },
		/* More steps than there are bridges above. */
		{ ISOLATED, PT, DISABLE "00:03.0/01.0/00.0/01.0", "6.8", ISOLATED, ISOLATED },
		/* A malformed entry ends the list. */
		{ ISOLATED, PT, DISABLE "nonsense;02:00.0", "6.8", ISOLATED, ISOLATED },
		{ ISOLATED, PT, DISABLE ";02:00.0", "6.8", ISOLATED, ISOLATED },
		{ ISOLATED, PT, DISABLE "00:01.0/;02:00.0", "6.8", ISOLATED, ISOLATED },
		{ ISOLATED, PT, DISABLE "00:01.0/00;02:00.0", "6.8", ISOLATED, ISOLATED },
		{ ISOLATED, PT, DISABLE "00:01.0/00.;02:00.0", "6.8", ISOLATED, ISOLATED },
		{ ISOLATED, PT, DISABLE "pci:;02:00.0", "6.8", ISOLATED, ISOLATED },
		{ ISOLATED, PT, DISABLE "pci:10b6;02:00.0", "6.8", ISOLATED, ISOLATED },
		{ ISOLATED, PT, DISABLE "02:00.0 " DISABLE "02:01.0", "6.8", ISOLATED,
		  HR_ACS_SV | HR_ACS_UF }, /* the last entry counts */
	};

	expect_acs(row, sizeof row / sizeof *row);
}

Test(topo_boot, acs_controls_follow_kernel_and_config_acs)
{
	static const struct acs_row row[] = {
		/* config_acs: unknown before 6.11; until 6.15 only the first entry. */
		{ ISOLATED, PT, CONFIG "x0x00xx@02:00.0", "6.8", ISOLATED, ISOLATED },
		{ ISOLATED, PT, CONFIG "x0x00xx@02:00.0;x0x00xx@02:01.0", "6.12",
		  HR_ACS_SV | HR_ACS_UF, ISOLATED },
		{ ISOLATED, PT, CONFIG "x0x00xx@02:00.0;x0x00xx@02:01.0", "6.15", 0, 0 },
		{ ISOLATED, PT, CONFIG "0010001@02:00.0;1xxxxxx@02:01.0", "6.15",
		  HR_ACS_SV | HR_ACS_UF, HR_ACS_DT },
		{ ISOLATED, PT, CONFIG "z0000@02:00.0", "6.15", ISOLATED, ISOLATED },
		{ ISOLATED, PT, CONFIG "02:00.0", "6.15", ISOLATED, ISOLATED },
		{ ISOLATED, PT, CONFIG "100000000@02:00.0", "6.15", ISOLATED, ISOLATED },
		{ ISOLATED, PT, CONFIG "1xxxxxxx@02:00.0", "6.15", ISOLATED, ISOLATED },
		{ ISOLATED, PT, CONFIG "xxxxxxxxxxxxxxxx@02:00.0", "6.15", 0, ISOLATED },
		{ ISOLATED, PT, CONFIG "xxxxxxxxxxxxxxxxx@02:00.0", "6.15", ISOLATED, ISOLATED },
		{ ISOLATED, PT, CONFIG "xxXx1 x@02:00.0", "6.15", ISOLATED, ISOLATED },
		{ ISOLATED, PT, CONFIG "@02:00.0", "6.15", 0, ISOLATED },
		{ ISOLATED, PT, CONFIG "XXxx1xx@02:00.0", "6.15", HR_ACS_RR, ISOLATED },
	};

	expect_acs(row, sizeof row / sizeof *row);
}

Test(topo_boot, the_value_of_the_firmware_is_assumed_only_where_it_decides)
{
	static const struct {
		uint32_t now;
		const char *head, *line, *kernel;
		bool assumed;
	} row[] = {
		{ ISOLATED, PT, "intel_iommu=off", "6.8", true },
		{ ISOLATED, PT, "iommu=pt", "6.8", false },
		{ ISOLATED, OFF, "intel_iommu=off", "6.8", false },
		{ HR_ACS_SV, PT, "intel_iommu=off", "6.8", false },
		{ ISOLATED, PT, DISABLE "02:00.0", "6.8", false },
		{ ISOLATED, PT, DISABLE "02:00.0", "6.12", true },
		{ ISOLATED, PT, DISABLE "02:00.0", "6.15", false },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_boot b;
		bool assumed;

		make(INTEL, row[i].now, row[i].head);
		load();
		hr_boot_read(&model, hr_kernel_of_release(row[i].kernel), HR_IOMMU_UNKNOWN,
			     row[i].line, &b);
		hr_boot_acs(&model, &b, fake_at("02:00.0"), &assumed);
		cr_expect_eq(assumed, row[i].assumed, "row %zu", i);
		assumed = true;
		hr_boot_acs(&model, &b, fake_at("01:00.0"), &assumed);
		cr_expect_not(assumed, "row %zu: no ACS", i);
	}
}

Test(topo_boot, a_boot_changes_all_functions_with_acs)
{
	struct hr_boot b;

	make(INTEL, ISOLATED, PT);
	load();
	hr_boot_read(&model, 0, HR_IOMMU_UNKNOWN, "intel_iommu=off", &b);
	for (unsigned again = 0; again < 2; again++) {
		cr_expect_eq(hr_boot_apply(&model, &b), again ? 0 : PORTS);
		cr_expect(model.booted && model.regrouped);
		for (unsigned i = 0; i < PORTS; i++) {
			const struct hr_fn *f = &model.fn[fake_at(ports[i])];

			cr_expect_eq(f->acs_assumed, !again, "%s", ports[i]);
			cr_expect_eq(f->fact[HR_F_ACS_CTL].value, 0u, "%s", ports[i]);
			cr_expect_eq(f->fact[HR_F_ACS_CTL].source, HR_SRC_USER, "%s", ports[i]);
		}
		cr_expect_neq(model.fn[fake_at("01:00.0")].fact[HR_F_ACS_CTL].source, HR_SRC_USER);
		cr_expect_not(model.fn[fake_at("01:00.0")].acs_assumed);
		cr_expect_not(hr_known(&model.fn[fake_at("03:00.0")], HR_F_ACS_CTL));
	}
	/* A control that was not read is not set. */
	make(INTEL, ISOLATED, PT);
	load();
	model.fn[fake_at("02:01.0")].fact[HR_F_ACS_CTL].source = HR_SRC_NONE;
	cr_expect_eq(hr_boot_apply(&model, &b), PORTS - 1);
	cr_expect_not(hr_known(&model.fn[fake_at("02:01.0")], HR_F_ACS_CTL));
}

Test(topo_boot, ports_without_the_bits_or_the_capability_stay_as_they_are)
{
	struct hr_boot b;

	make(INTEL, 0, OFF);
	fake_put(fake_find(&machine, "02:00.0"), FAKE_ACS + HR_ACS_CAP, 2, HR_ACS_SV | HR_ACS_TB);
	fake_put(fake_find(&machine, "02:01.0"), FAKE_AER + 2, 2, 1); /* no ACS */
	load();
	hr_boot_read(&model, 0, HR_IOMMU_UNKNOWN, "intel_iommu=on", &b);
	cr_expect_eq(hr_boot_acs(&model, &b, fake_at("02:00.0"), NULL), HR_ACS_SV);
	cr_expect_eq(hr_boot_acs(&model, &b, fake_at("02:01.0"), NULL), 0u);
}

/* ---- what-if */

struct change_row {
	enum cpu cpu;
	uint32_t acs;
	const char *head, *change;
	enum hr_verdict before, after;
	bool assumed; /* the firmware's value is assumed */
};

Test(topo_boot, a_boot_changes_verdicts_behind_a_switch)
{
	static const struct change_row row[] = {
		{ INTEL, 0, OFF, "iommu=pt", HR_DIRECT, HR_REDIR_UNLISTED, false },
		{ INTEL, 0, OFF, "iommu=on", HR_DIRECT, HR_SILENT_LOSS, false },
		{ AMD, 0, OFF, "iommu=pt", HR_DIRECT, HR_REDIR_LISTED, false },
		{ ARM, 0, OFF, "iommu=pt", HR_DIRECT, HR_REDIR_UNLISTED, false },
		/*
		 * The IOMMU is turned off again: the pair is direct if the firmware does not set
		 * ACS.
		 */
		{ INTEL, ISOLATED, PT, "iommu=off", HR_REDIR_UNLISTED, HR_DIRECT, true },
		/* AMD's driver asks for ACS with any command line. */
		{ AMD, ISOLATED, PT, "iommu=off", HR_REDIR_LISTED, HR_REDIR_LISTED, false },
		/* ACS was cleared at run time: the next boot sets it again. */
		{ INTEL, 0, PT, "iommu=pt", HR_DIRECT, HR_REDIR_UNLISTED, false },
		{ INTEL, 0, PT, "boot=quiet", HR_DIRECT, HR_REDIR_UNLISTED, false },
		{ INTEL, ISOLATED, PT, "boot=" DISABLE "02:00.0;02:01.0", HR_REDIR_UNLISTED,
		  HR_DIRECT, false },
		{ INTEL, 0, OFF "headrace: cmdline=" DISABLE "02:00.0;02:01.0\n", "iommu=pt",
		  HR_DIRECT, HR_DIRECT, false },
		/* The firmware sets ACS, and Linux does not change that. */
		{ INTEL, ISOLATED, OFF, "iommu=off", HR_REDIR_UNLISTED, HR_REDIR_UNLISTED, false },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_options opt = { 0 };
		struct hr_pair p;

		make(row[i].cpu, row[i].acs, row[i].head);
		fake_evaluate(SIBLING, &opt, &p);
		cr_expect_eq(p.verdict, row[i].before, "row %zu before: %u", i, p.verdict);
		cr_assert_eq(hr_change_apply(&model, &opt, row[i].change, test_error()), 0,
			     "row %zu: %s", i, test_error_text());
		cr_assert_eq(hr_topology_init(&topology, &model, &opt), 0);
		hr_pair_evaluate(&topology, fake_at(GPU), fake_at(SIBLING), &p);
		cr_expect_eq(p.verdict, row[i].after, "row %zu after: %u (rule %s)", i, p.verdict,
			     hr_rules[p.rule].id);
		cr_expect_eq((p.modifiers & HR_MOD_ACS) != 0, row[i].assumed, "row %zu", i);
	}
}

Test(topo_boot, a_boot_that_cannot_be_predicted_is_refused)
{
	static const struct {
		const char *head, *first, *change;
		const char *say;
	} row[] = {
		{ OFF, NULL, "boot=intel_iommu=on", "passthrough" },
		{ "", NULL, "boot=quiet", "intel_iommu=" },
		{ PT, "iommu=off", "iommu=on", "one boot" },
		{ PT, "boot=quiet", "iommu=on", "one boot" },
		{ PT, NULL, "iommu=maybe", "off, pt or on" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_options opt = { 0 };

		make(INTEL, 0, row[i].head);
		load();
		if (row[i].first)
			cr_assert_eq(hr_change_apply(&model, &opt, row[i].first, test_error()), 0,
				     "%s", test_error_text());
		cr_expect(hr_change_apply(&model, &opt, row[i].change, test_error()) != 0,
			  "row %zu", i);
		cr_expect(strstr(test_error_text(), row[i].say), "row %zu: '%s'", i,
			  test_error_text());
	}
}

Test(topo_boot, acs_options_of_the_user_survive_the_boot)
{
	struct hr_options opt = { 0 };
	struct hr_pair p;

	make(INTEL, 0, OFF);
	fake_evaluate(SIBLING, &opt, &p);
	cr_assert_eq(hr_change_apply(&model, &opt, "acs:all=clear", test_error()), 0);
	cr_assert_eq(hr_change_apply(&model, &opt, "iommu=pt", test_error()), 0);
	cr_assert_eq(hr_topology_init(&topology, &model, &opt), 0);
	hr_pair_evaluate(&topology, fake_at(GPU), fake_at(SIBLING), &p);
	cr_expect_eq(p.verdict, HR_DIRECT, "%u", p.verdict);
}

/* ---- groups and VFIO */

Test(topo_boot, groups_are_predicted_for_the_boot)
{
	static const struct {
		enum cpu cpu;
		uint32_t acs;
		const char *head;
		bool together; /* GPU and SSD are in one group */
		enum hr_verdict vfio;
	} row[] = {
		/*
		 * The IOMMU is off or ACS is cleared now: a boot with an IOMMU isolates the
		 * functions.
		 */
		{ INTEL, 0, OFF, false,
		  HR_DIRECT }, /* without an IOMMU: no groups, no translation */
		{ INTEL, 0, "", false, HR_REDIR_UNLISTED },
		{ INTEL, 0, PT, false, HR_REDIR_UNLISTED },
		{ AMD, 0, "", false, HR_REDIR_LISTED },
		/*
		 * The command line removes the isolation of a card, or of all functions below a
		 * port.
		 */
		{ INTEL, 0, "headrace: cmdline=" DISABLE "02:00.0;02:01.0\n", false,
		  HR_REDIR_UNLISTED },
		{ INTEL, 0, "headrace: cmdline=" DISABLE "00:01.0;02:00.0\n", true,
		  HR_VFIO_CONFLICT },
		{ INTEL, ISOLATED, PT "headrace: cmdline=" DISABLE "00:01.0\n", true,
		  HR_VFIO_CONFLICT },
		{ AMD, 0, PT "headrace: cmdline=" CONFIG "0000000@00:01.0\n", true,
		  HR_VFIO_CONFLICT },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_options opt = { .mode = HR_MODE_VFIO };
		struct hr_groups g;
		struct hr_pair p;

		make(row[i].cpu, row[i].acs, row[i].head);
		strcat(fake_find(&machine, GPU)->text, "\tKernel driver in use: nvidia\n");
		fake_evaluate(SIBLING, &opt, &p);
		cr_assert_eq(hr_groups_at_boot(&model, &topology.boot, &g), 0);
		cr_expect_eq(g.of[fake_at(GPU)] == g.of[fake_at(SIBLING)], row[i].together,
			     "row %zu", i);
		cr_expect_eq(p.verdict, row[i].vfio, "row %zu: %u (rule %s)", i, p.verdict,
			     hr_rules[p.rule].id);
	}
}

Test(topo_boot, mode_vfio_reports_the_costs_of_turning_the_iommu_on)
{
	static const struct {
		enum cpu cpu;
		uint32_t acs;
		const char *head;
		enum hr_mode mode;
		bool found;
	} row[] = {
		{ INTEL, 0, OFF, HR_MODE_VFIO, true },
		{ AMD, 0, OFF, HR_MODE_VFIO, true },
		{ INTEL, 0, OFF, HR_MODE_GPU, false }, /* the IOMMU stays off */
		{ INTEL, 0, PT, HR_MODE_GPU, true },   /* cleared now; the next boot sets it */
		{ INTEL, ISOLATED, PT, HR_MODE_GPU, false },
		{ INTEL, 0, OFF "headrace: cmdline=" DISABLE "02:00.0;02:01.0\n", HR_MODE_VFIO,
		  false },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_options opt = { .mode = row[i].mode };
		struct hr_pair p;

		make(row[i].cpu, row[i].acs, row[i].head);
		fake_evaluate(SIBLING, &opt, &p);
		cr_expect_eq(fake_found(&p, "A18"), row[i].found, "row %zu", i);
		fake_evaluate(OTHER, &opt, &p);
		cr_expect_not(fake_found(&p, "A18"), "row %zu: ACS decides nothing there", i);
	}
}

Test(topo_boot, remedies_that_recommend_passthrough_name_its_costs)
{
	struct hr_options opt = { .iommu = HR_IOMMU_ON };
	struct hr_finding f = { .fn = HR_NO_FN };
	struct hr_pair p;
	char fix[512];

	make(INTEL, ISOLATED, ON);
	fake_evaluate(SIBLING, &opt, &p);
	cr_assert_str_eq(hr_rules[p.rule].id, "I2");
	hr_rule_text(&topology, &p, &f, hr_rules[p.rule].fix, fix, sizeof fix);
	cr_expect(strstr(fix, "pci=disable_acs_redir=0000:02:00.0;0000:02:01.0"), "%s", fix);
	fake_evaluate(OTHER, &opt, &p);
	cr_assert_str_eq(hr_rules[p.rule].id, "I2");
	hr_rule_text(&topology, &p, &f, hr_rules[p.rule].fix, fix, sizeof fix);
	cr_expect(strstr(fix, "iommu=pt") && !strstr(fix, "disable_acs_redir"), "%s", fix);
}
