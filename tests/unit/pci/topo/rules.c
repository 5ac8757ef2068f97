/* One row per rule: a change of the machine and the verdict that must result. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "pci/topo/fields.h"
#include "pci/topo/tables.h"
#include "pci/topo/verdict.h"
#include "pci/topo/explain.h"
#include "tests/harness/evaluate.h"

TestSuite(topo_rules, .init = fake_evaluate_up, .fini = fake_evaluate_down, .timeout = 60);

struct poke {
	const char *at;
	uint32_t offset;
	unsigned width;
	uint32_t value;
};

struct row {
	const char *rule; /* rule that must be found */
	const char *ssd;
	struct poke poke[4];
	const char *text_at,
		*text; /* lines added to a function, or to the head when text_at is "" */
	struct hr_options opt;
	enum hr_verdict verdict;
	const char *flows; /* F1..F4: . unchanged, B blocked, R redirected, ... */
};

/* clang-format off */
static const struct row rows[] = {
	{ "R1", SIBLING, .verdict = HR_DIRECT, .flows = "DDDD" },
	{ "R2", OTHER, .verdict = HR_RC_UNLISTED, .flows = "uuuu" },
	{ "R2-listed", OTHER, { { "00:00.0", HR_CFG_DEVICE, 2, 0x09a2 } }, .verdict = HR_RC_LISTED,
	  .flows = "llll" },
	{ "A1", SIBLING, { { "02:00.0", ACS, 2, HR_ACS_RR } }, .verdict = HR_REDIR_UNLISTED,
	  .flows = "rDDr" },
	{ "A1", SIBLING, { { "02:01.0", ACS, 2, HR_ACS_RR } }, .verdict = HR_REDIR_UNLISTED,
	  .flows = "DrrD" },
	{ "A1", SIBLING, { { "02:00.0", ACS, 2, HR_ACS_CR } }, .verdict = HR_REDIR_UNLISTED,
	  .flows = "DDrD" },
	{ "A1-port", SIBLING, { { "01:00.0", ACS, 2, HR_ACS_CR } }, .verdict = HR_REDIR_UNLISTED,
	  .flows = "DDDD" },
	{ "A1-listed", SIBLING,
	  { { "02:01.0", ACS, 2, HR_ACS_RR }, { "00:00.0", HR_CFG_DEVICE, 2, 0x09a2 } },
	  .verdict = HR_REDIR_LISTED, .flows = "DRRD" },
	{ "A3", SIBLING, { { "02:00.0", ACS, 2, HR_ACS_SV | HR_ACS_UF } }, .verdict = HR_DIRECT,
	  .flows = "DDDD" },
	{ "A2", SIBLING, { { "02:00.0", ACS, 2, HR_ACS_RR } }, .verdict = HR_REDIR_UNLISTED,
	  .flows = "rDDr" },
	{ "A4", SIBLING,
	  { { "02:00.0", FAKE_ACS + HR_ACS_CAP, 2, 0x087f }, { "02:00.0", ACS, 2, HR_ACS_EC },
	    { "02:00.0", FAKE_ACS + HR_ACS_EGRESS, 4, 1u << 1 } }, .verdict = HR_BLOCKED,
	  .flows = "BDDB" },
	{ "A4-unread", SIBLING, { { "02:00.0", ACS, 2, HR_ACS_EC } }, .verdict = HR_UNKNOWN,
	  .flows = "UDDU" },
	{ "A5", SIBLING,
	  { { "02:01.0", ACS, 2, HR_ACS_TB }, { SIBLING, FAKE_ATS + HR_ATS_CTL, 2, HR_ATS_ENABLE } },
	  .verdict = HR_BLOCKED, .flows = "DBBD" },
	{ "A7", SIBLING,
	  { { "02:00.0", HR_CFG_VENDOR, 4, 0x9d108086 }, { "02:00.0", FAKE_ACS + 8, 4, 0 } },
	  .verdict = HR_DIRECT, .flows = "DDDD" },
	{ "A9", OTHER,
	  { { "00:01.0", HR_CFG_VENDOR, 4, 0xa000177d }, { "00:01.0", FAKE_AER + 2, 2, 1 } },
	  .verdict = HR_BLOCKED, .flows = "BBBB" },
	{ "A9", OTHER,
	  { { "00:01.0", HR_CFG_VENDOR, 4, 0x8da81957 }, { "00:01.0", FAKE_AER + 2, 2, 1 } },
	  .verdict = HR_BLOCKED, .flows = "BBBB" },
	{ "A9", OTHER,
	  { { "00:01.0", HR_CFG_VENDOR, 4, 0x7a690014 }, { "00:01.0", FAKE_AER + 2, 2, 1 } },
	  .verdict = HR_BLOCKED, .flows = "BBBB" },
	{ "A9", OTHER,
	  { { "00:02.0", HR_CFG_VENDOR, 4, 0x07231d17 }, { "00:02.0", FAKE_AER + 2, 2, 1 } },
	  .verdict = HR_BLOCKED, .flows = "BBBB" },
	{ "A9", OTHER,
	  { { "00:02.0", HR_CFG_VENDOR, 4, 0xd71414e4 }, { "00:02.0", FAKE_AER + 2, 2, 1 } },
	  .verdict = HR_BLOCKED, .flows = "BBBB" },
	/*
	 * A port outside the list of trusted ports: without ACS the port neither redirects nor
	 * forbids.
	 */
	{ "R2", OTHER,
	  { { "00:01.0", HR_CFG_VENDOR, 4, 0x8da21957 }, { "00:01.0", FAKE_AER + 2, 2, 1 } },
	  .verdict = HR_RC_UNLISTED, .flows = "uuuu" },
	{ "A10", SIBLING, { { "02:00.0", HR_CFG_VENDOR, 4, 0x240412d8 } }, .verdict = HR_DIRECT,
	  .flows = "DDDD" },
	{ "A11", SIBLING, { { "02:00.0", HR_CFG_VENDOR, 4, 0x80b5111d } }, .verdict = HR_DIRECT,
	  .flows = "DDDD" },
	{ "A12", SIBLING, { { "02:00.0", HR_CFG_VENDOR, 4, 0x87b010b5 } },
	  .opt = { .iommu = HR_IOMMU_ON }, .verdict = HR_DIRECT, .flows = "DDDD" },
	{ "A13", SIBLING, { { "02:00.0", HR_CFG_VENDOR, 4, 0x14841022 } }, .verdict = HR_DIRECT,
	  .flows = "DDDD" },
	{ "A14", OTHER, { { "00:01.0", ACS, 2, HR_ACS_RR } }, .opt = { .iommu = HR_IOMMU_ON },
	  .verdict = HR_SILENT_LOSS, .flows = "SSSS" },
	{ "A15", SIBLING, { { "02:00.0", ACS, 2, HR_ACS_CR } }, .verdict = HR_REDIR_UNLISTED,
	  .flows = "DDrD" },
	{ "A18", SIBLING, .opt = { .iommu = HR_IOMMU_PT }, .verdict = HR_DIRECT, .flows = "DDDD" },
	{ "A16", SIBLING, .text_at = "", .text = "headrace: lockdown=integrity\n",
	  .verdict = HR_DIRECT, .flows = "DDDD" },
	{ "I2", OTHER, .opt = { .iommu = HR_IOMMU_ON }, .verdict = HR_SILENT_LOSS, .flows = "SSSS" },
	{ "I2", SIBLING, { { "02:01.0", ACS, 2, HR_ACS_RR } }, .opt = { .iommu = HR_IOMMU_ON },
	  .verdict = HR_SILENT_LOSS, .flows = "DSSD" },
	{ "R1", SIBLING, .opt = { .iommu = HR_IOMMU_ON }, .verdict = HR_DIRECT, .flows = "DDDD" },
	{ "I2-unread", OTHER, .text_at = OTHER, .text = "\tIOMMU group: 9\n", .verdict = HR_UNKNOWN,
	  .flows = "UUUU" },
	{ "I1", OTHER, .verdict = HR_RC_UNLISTED, .flows = "uuuu" },
	{ "I3", SIBLING, .text_at = "", .text = "headrace: cpus=512\n", .verdict = HR_DIRECT,
	  .flows = "DDDD" },
	{ "I4", SIBLING, { { "00:00.0", HR_CFG_VENDOR, 2, 0x10de } }, .verdict = HR_DIRECT,
	  .flows = "DDDD" },
	{ "I5", SIBLING, .opt = { .mode = HR_MODE_VFIO, .iommu = HR_IOMMU_ON },
	  .verdict = HR_REDIR_UNLISTED, .flows = "rrrr" },
	{ "I5", SIBLING, .opt = { .mode = HR_MODE_VFIO, .iommu = HR_IOMMU_PT },
	  .verdict = HR_REDIR_UNLISTED, .flows = "rrrr" },
	{ "I5-listed", SIBLING, { { "00:00.0", HR_CFG_DEVICE, 2, 0x09a2 } },
	  .opt = { .mode = HR_MODE_VFIO, .iommu = HR_IOMMU_ON }, .verdict = HR_REDIR_LISTED,
	  .flows = "RRRR" },
	{ "I9", SIBLING, .opt = { .mode = HR_MODE_VFIO, .iommu = HR_IOMMU_OFF }, .verdict = HR_DIRECT,
	  .flows = "DDDD" },
	{ "R3-bar", SIBLING,
	  { { "03:00.0", HR_CFG_BAR0 + 4, 4, 0xc }, { "03:00.0", HR_CFG_BAR0 + 8, 4, 0 } },
	  .verdict = HR_BLOCKED, .flows = "DBBD" },
	{ "R3-bar", SIBLING, { { SIBLING, HR_CFG_BAR0, 4, 0 } }, .text_at = SIBLING, .text = "\t\n",
	  .verdict = HR_BLOCKED, .flows = "BDDB" },
	{ "R3", SIBLING, { { "02:00.0", HR_CFG_PREF_LIMIT_UPPER, 4, 0x380 } }, .verdict = HR_BLOCKED,
	  .flows = "DBBD" },
	{ "R3", OTHER, { { "00:01.0", HR_CFG_PREF_LIMIT_UPPER, 4, 0x380 } }, .verdict = HR_BLOCKED,
	  .flows = "uBBu" },
	{ "R4", OTHER, { { "02:00.0", HR_CFG_MEM_BASE, 4, 0xe4f0e400 } }, .verdict = HR_BLOCKED,
	  .flows = "BuuB" },
	{ "R4-sibling", SIBLING, { { "02:01.0", HR_CFG_MEM_LIMIT, 2, 0xe2f0 } },
	  .verdict = HR_BLOCKED, .flows = "BBBB" },
	{ "R5-bme", SIBLING, { { "03:00.0", HR_CFG_COMMAND, 2, HR_COMMAND_MSE } },
	  .verdict = HR_BLOCKED, .flows = "BDDB" },
	{ "R5-bme", SIBLING, { { "02:01.0", HR_CFG_COMMAND, 2, HR_COMMAND_MSE } },
	  .verdict = HR_BLOCKED, .flows = "DBBD" },
	{ "R5-mse", SIBLING, { { "03:00.0", HR_CFG_COMMAND, 2, HR_COMMAND_BME } },
	  .verdict = HR_BLOCKED, .flows = "DBBD" },
	{ "R6", SIBLING, { { SIBLING, FAKE_PM + HR_PM_CTL, 2, 3 } }, .verdict = HR_BLOCKED,
	  .flows = "BBBB" },
	{ "R6-gone", SIBLING, { { SIBLING, 0, 4, 0xffffffff } }, .verdict = HR_BLOCKED,
	  .flows = "BBBB" },
	{ "R7-dpc", SIBLING, { { "02:01.0", FAKE_DPC + HR_DPC_STATUS, 2, 1 } }, .verdict = HR_BLOCKED,
	  .flows = "BBBB" },
	{ "R7-link", SIBLING, { { "02:01.0", FAKE_EXP + HR_EXP_LNKSTA, 2, 16 << 4 | 4 } },
	  .verdict = HR_BLOCKED, .flows = "BBBB" },
	{ "R7-reset", SIBLING, { { "02:01.0", HR_CFG_BRIDGE_CTL, 2, HR_BRIDGE_CTL_SBR } },
	  .verdict = HR_BLOCKED, .flows = "BBBB" },
	/*
	 * The common bridge and the bridges above: power and links matter for all flows, the other
	 * facts for flows that go up.
	 */
	{ "R6", SIBLING, { { "01:00.0", FAKE_PM + HR_PM_CTL, 2, 3 } }, .verdict = HR_BLOCKED,
	  .flows = "BBBB" },
	{ "R7-dpc", SIBLING, { { "00:01.0", FAKE_DPC + HR_DPC_STATUS, 2, 1 } }, .verdict = HR_BLOCKED,
	  .flows = "BBBB" },
	{ "R1", SIBLING, { { "01:00.0", HR_CFG_COMMAND, 2, 0 } }, .verdict = HR_DIRECT,
	  .flows = "DDDD" },
	{ "R5-bme", SIBLING,
	  { { "01:00.0", HR_CFG_COMMAND, 2, HR_COMMAND_MSE }, { "02:00.0", ACS, 2, HR_ACS_RR } },
	  .verdict = HR_BLOCKED, .flows = "BDDB" },
	{ "R5-mse", SIBLING,
	  { { "00:01.0", HR_CFG_COMMAND, 2, HR_COMMAND_BME }, { "02:01.0", ACS, 2, HR_ACS_RR } },
	  .verdict = HR_BLOCKED, .flows = "DBBD" },
	{ "R5-bme", SIBLING,
	  { { "01:00.0", HR_CFG_COMMAND, 2, HR_COMMAND_MSE }, { "01:00.0", ACS, 2, HR_ACS_CR } },
	  .verdict = HR_BLOCKED, .flows = "BBBB" },
	{ "R3", SIBLING,
	  { { "00:01.0", HR_CFG_PREF_LIMIT_UPPER, 4, 0x380 }, { "02:01.0", ACS, 2, HR_ACS_RR } },
	  .verdict = HR_BLOCKED, .flows = "DBBD" },
	{ "R1", SIBLING, { { "00:01.0", HR_CFG_PREF_LIMIT_UPPER, 4, 0x380 } }, .verdict = HR_DIRECT,
	  .flows = "DDDD" },
	{ "M1", SIBLING,
	  { { "01:00.0", FAKE_EXP + HR_EXP_DEVCTL, 2, 0x2000 }, { "02:01.0", ACS, 2, HR_ACS_RR } },
	  .verdict = HR_BLOCKED, .flows = "DBBD" },
	{ "R1", SIBLING, { { "01:00.0", FAKE_EXP + HR_EXP_DEVCTL, 2, 0x2000 } },
	  .verdict = HR_DIRECT, .flows = "DDDD" },
	{ "U2", SIBLING, { { "00:01.0", FAKE_PM + 1, 1, FAKE_EXP }, { "02:01.0", ACS, 2, HR_ACS_RR } },
	  .verdict = HR_UNKNOWN, .flows = "DUUD" },
	{ "R8", SIBLING, { { "03:00.0", FAKE_REBAR + HR_REBAR_CTL, 4, 1 << 5 | 8 << 8 | 1 } },
	  .verdict = HR_DIRECT, .flows = "DDDD" },
	{ "R9", SIBLING, { { "03:00.0", HR_CFG_DEVICE, 2, 0x2e12 } }, .verdict = HR_BLOCKED,
	  .flows = "BBBB" },
	{ "R11", OTHER, { { "00:02.0", HR_CFG_DEVICE, 2, 0xa330 } }, .verdict = HR_RC_UNLISTED,
	  .flows = "uuuu" },
	{ "R12-vm", SIBLING, .text_at = "", .text = "headrace: hypervisor=1\n", .verdict = HR_UNKNOWN,
	  .flows = "UUUU" },
	{ "M1", SIBLING, { { SIBLING, FAKE_EXP + HR_EXP_DEVCTL, 2, 0x2040 } }, .verdict = HR_BLOCKED,
	  .flows = "DBDD" },
	{ "M1", SIBLING, { { "02:00.0", FAKE_EXP + HR_EXP_DEVCTL, 2, 0x2000 } },
	  .verdict = HR_BLOCKED, .flows = "DBBD" },
	{ "M1", OTHER, { { OTHER, FAKE_EXP + HR_EXP_DEVCTL, 2, 0x2040 } }, .verdict = HR_BLOCKED,
	  .flows = "uBuu" },
	{ "M1-rc", OTHER,
	  { { OTHER, FAKE_EXP + HR_EXP_DEVCTL, 2, 0x2040 },
	    { "00:02.0", FAKE_EXP + HR_EXP_DEVCTL, 2, 0x2040 } }, .verdict = HR_RC_UNLISTED,
	  .flows = "uuuu" },
	{ "M2", SIBLING, { { SIBLING, FAKE_EXP + HR_EXP_DEVCTL, 2, 0x0020 } }, .verdict = HR_DIRECT,
	  .flows = "DDDD" },
	{ "M3", SIBLING,
	  { { SIBLING, FAKE_EXP + HR_EXP_DEVCTL2, 2, HR_DEVCTL2_TAG10_ENABLE },
	    { "03:00.0", FAKE_EXP + HR_EXP_DEVCAP2, 4, 0 } }, .verdict = HR_BLOCKED,
	  .flows = "DDBD" },
	{ "M4", SIBLING, .opt = { .mode = HR_MODE_HOST }, .verdict = HR_DIRECT, .flows = "DDDD" },
	{ "M4-off", OTHER, { { OTHER, FAKE_EXP + HR_EXP_DEVCTL, 2, 0x2020 } },
	  .verdict = HR_RC_UNLISTED, .flows = "uuuu" },
	{ "M5", SIBLING, { { "03:00.0", HR_CFG_VENDOR, 2, 0x1002 } }, .verdict = HR_DIRECT,
	  .flows = "DDDD" },
	{ "H1-width", SIBLING, { { "03:00.0", FAKE_EXP + HR_EXP_LNKSTA, 2, 8 << 4 | 4 } },
	  .verdict = HR_DIRECT, .flows = "DDDD" },
	{ "H1-speed", SIBLING,
	  { { SIBLING, FAKE_EXP + HR_EXP_LNKSTA, 2, 4 << 4 | 3 },
	    { "02:01.0", FAKE_EXP + HR_EXP_LNKSTA, 2, 0x2000 | 4 << 4 | 3 } },
	  .verdict = HR_DIRECT, .flows = "DDDD" },
	{ "H1-idle", SIBLING, { { "03:00.0", FAKE_EXP + HR_EXP_LNKSTA, 2, 16 << 4 | 1 } },
	  .verdict = HR_DIRECT, .flows = "DDDD" },
	{ "H1-speed", SIBLING,
	  { { "03:00.0", FAKE_EXP + HR_EXP_LNKSTA, 2, 16 << 4 | 1 },
	    { "02:00.0", FAKE_EXP + HR_EXP_LNKSTA, 2, 0x2000 | 16 << 4 | 1 },
	    { "03:00.0", FAKE_EXP + HR_EXP_LNKCTL2, 2, 1 } }, .verdict = HR_DIRECT,
	  .flows = "DDDD" },
	{ "H1-inside", SIBLING,
	  { { "03:00.0", FAKE_EXP + HR_EXP_LNKCAP, 4, 1 << 4 | 1 },
	    { "03:00.0", FAKE_EXP + HR_EXP_LNKSTA, 2, 1 << 4 | 1 } }, .verdict = HR_DIRECT,
	  .flows = "DDDD" },
	{ "H1-tunnel", OTHER, { { "00:02.0", HR_CFG_DEVICE, 2, 0x9a23 } },
	  .verdict = HR_RC_UNLISTED, .flows = "uuuu" },
	{ "H1-tunnel-other", OTHER, { { "00:02.0", HR_CFG_DEVICE, 2, 0x1513 } },
	  .verdict = HR_RC_UNLISTED, .flows = "uuuu" },
	{ "H2", SIBLING, { { SIBLING, FAKE_EXP + HR_EXP_LNKCTL, 2, 2 } }, .verdict = HR_DIRECT,
	  .flows = "DDDD" },
	{ "H3-ue", SIBLING, { { SIBLING, FAKE_AER + HR_AER_UESTA, 4, HR_UE_MALFORMED } },
	  .verdict = HR_DIRECT, .flows = "DDDD" },
	{ "H3-ce", SIBLING, { { SIBLING, FAKE_AER + HR_AER_CESTA, 4, 0x40 } }, .verdict = HR_DIRECT,
	  .flows = "DDDD" },
	{ "H3-to", OTHER, { { OTHER, FAKE_AER + HR_AER_UESTA, 4, HR_UE_CMPLT_TIMEOUT } },
	  .verdict = HR_WRITES_ONLY, .flows = "uuwu" },
	{ "H4", SIBLING, { { SIBLING, FAKE_EXP + HR_EXP_DEVSTA, 2, 4 } }, .verdict = HR_DIRECT,
	  .flows = "DDDD" },
	{ "H6-disk", SIBLING, .text_at = SIBLING, .text = "\theadrace: mounted=1\n",
	  .verdict = HR_DIRECT, .flows = "DDDD" },
	{ "H6-driver", SIBLING, .text_at = "03:00.0", .text = "\tKernel driver in use: nouveau\n",
	  .verdict = HR_DIRECT, .flows = "DDDD" },
	{ "H7-noacs", SIBLING, .text_at = "", .text = "headrace: cmdline=quiet pci=nomsi,noacs\n",
	  .verdict = HR_DIRECT, .flows = "DDDD" },
	{ "H7-noacs", SIBLING, .text_at = "",
	  .text = "headrace: cmdline=x.pci=nomsi pci=nomsi pci=,noacs\n", .verdict = HR_DIRECT,
	  .flows = "DDDD" },
	{ "H7-unknown", SIBLING, .text_at = "", .text = "headrace: cmdline=pci=nomsi,noacs,relaloc\n",
	  .verdict = HR_DIRECT, .flows = "DDDD" },
	{ "H7-on-off", SIBLING, .text_at = "",
	  .text = "headrace: cmdline=intel_iommu=on intel_iommu=off\n", .verdict = HR_DIRECT,
	  .flows = "DDDD" },
	{ "H7-override", SIBLING, .text_at = "",
	  .text = "headrace: cmdline=pcie_acs_override=downstream\n", .verdict = HR_DIRECT,
	  .flows = "DDDD" },
	{ "H7-vendor", SIBLING, .text_at = "",
	  .text = "headrace: cpu_amd=1\nheadrace: cmdline=intel_iommu=off\n", .verdict = HR_DIRECT,
	  .flows = "DDDD" },
	{ "H7-two", SIBLING, .text_at = "", .text = "headrace: cmdline=iommu=pt iommu=off\n",
	  .verdict = HR_DIRECT, .flows = "DDDD" },
	{ "H7-perf", SIBLING, .text_at = "", .text = "headrace: cmdline=pci=pcie_bus_perf\n",
	  .verdict = HR_DIRECT, .flows = "DDDD" },
	{ "H8", SIBLING, .text_at = "", .text = "headrace: p2pdma=0\n", .verdict = HR_DIRECT,
	  .flows = "DDDD" },
	{ "Z1", OTHER, { { "00:00.0", HR_CFG_VENDOR, 4, 0x14801022 } }, .verdict = HR_RC_LISTED,
	  .flows = "llll" },
};
/* clang-format on */

static char letter(enum hr_verdict v)
{
	return "DlRurwUVBS"[v];
}

static void change(const struct row *r)
{
	struct fake_fn *f;

	fake_two_ports(&machine);
	for (unsigned i = 0; i < 4 && r->poke[i].at; i++)
		fake_put(fake_find(&machine, r->poke[i].at), r->poke[i].offset, r->poke[i].width,
			 r->poke[i].value);
	if (!r->text)
		return;
	if (r->text_at[0] == '\0') {
		snprintf(machine.head, sizeof machine.head, "%s", r->text);
		return;
	}
	f = fake_find(&machine, r->text_at);
	if (r->text[1] == '\n')
		f->text[0] = '\0';
	else
		strncat(f->text, r->text, sizeof f->text - strlen(f->text) - 1);
}

static void evaluate(const struct row *r, struct hr_pair *p)
{
	fake_evaluate(r->ssd, &r->opt, p);
}

Test(topo_rules, each_row_finds_its_rule_and_moves_its_flows_only)
{
	struct hr_pair p;

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char flows[5] = "";

		change(&rows[i]);
		evaluate(&rows[i], &p);
		for (unsigned f = 0; f < HR_FLOWS; f++)
			flows[f] = letter(p.flow[f]);
		cr_expect_str_eq(flows, rows[i].flows, "row %zu %s: flows %s, not %s", i,
				 rows[i].rule, flows, rows[i].flows);
		cr_expect_eq(p.verdict, rows[i].verdict, "row %zu %s: verdict %u, not %u (rule %s)",
			     i, rows[i].rule, p.verdict, rows[i].verdict, hr_rules[p.rule].id);
		cr_expect(fake_found(&p, rows[i].rule), "row %zu: %s was not found", i,
			  rows[i].rule);
	}
}

/* Rules without a row, which need no change or have a test of their own. */
static const char *const elsewhere[] = {
	"U1",	     "U2",	  "U3",	       "U4",	  "U5",		"U6",
	"R10",	     "R10-raid",  "R11-peer",  "R12",	  "I7",		"I7-note",
	"I7-unread", "A6",	  "A8",	       "M4-ro",	  "H5-unread",	"H5",
	"A5-unread", "M3-unread", "M3-unsaid", "R10-vmd", "R10-card",	"A17",
	"U7",	     "U8",	  "R5-vf",     "S1",	  "S2",		"R3-ht",
	"R2-link",   "H3-count",  "R12-port",  "U9",	  "U9-overlap", "N1"
};

Test(topo_rules, every_rule_has_a_row_or_a_test)
{
	for (unsigned i = 0; i < hr_rules_count; i++) {
		bool have = false;

		for (size_t j = 0; j < sizeof rows / sizeof *rows; j++)
			have |= strcmp(rows[j].rule, hr_rules[i].id) == 0;
		for (size_t j = 0; j < sizeof elsewhere / sizeof *elsewhere; j++)
			have |= strcmp(elsewhere[j], hr_rules[i].id) == 0;
		cr_expect(have, "rule %s has no row", hr_rules[i].id);
	}
}

Test(topo_rules, the_plain_machine_has_only_the_rule_of_its_route)
{
	static const struct row plain = { "R1", SIBLING, .verdict = HR_DIRECT, .flows = "DDDD" };
	struct hr_finding list[64];
	struct hr_pair p;

	evaluate(&plain, &p);
	cr_assert_eq(hr_findings(&topology, &p, list, 64), 1u);
	cr_assert_str_eq(hr_rules[list[0].rule].id, "R1");
	cr_assert_eq(p.modifiers, 0);
}

/* ---- sockets */

Test(topo_rules, sockets_differ_only_when_both_nodes_are_known)
{
	static const struct row far = { .rule = "H5", .ssd = OTHER };
	struct hr_pair p;

	snprintf(fake_find(&machine, "03:00.0")->text, 64, "\tNUMA node: 0\n");
	evaluate(&far, &p);
	cr_expect(!fake_found(&p, "H5"));
	strcat(fake_find(&machine, OTHER)->text, "\tNUMA node: 1\n");
	evaluate(&far, &p);
	cr_expect(fake_found(&p, "H5"));
	cr_expect(p.modifiers & HR_MOD_NUMA);
}

/* ---- links of virtual ports */

/* A QEMU root port while ACPI handles hot plug: a slot without card or link. */
static void port_says_empty(const char *address)
{
	struct fake_fn *port = fake_find(&machine, address);

	fake_put(port, FAKE_EXP + HR_EXP_FLAGS, 2,
		 fake_get(port, FAKE_EXP + HR_EXP_FLAGS, 2) | HR_EXP_SLOT_IMPLEMENTED);
	fake_put(port, FAKE_EXP + HR_EXP_SLTSTA, 2, 0);
	fake_put(port, FAKE_EXP + HR_EXP_LNKSTA, 2, 16 << 4 | 4);
}

Test(topo_rules, a_card_that_answers_refutes_a_slot_that_says_empty)
{
	static const struct row row = { .rule = "R1", .ssd = SIBLING };
	struct hr_pair p;

	fake_two_ports(&machine);
	port_says_empty("02:01.0");
	evaluate(&row, &p);
	cr_expect_eq(p.verdict, HR_DIRECT);
	cr_expect_not(fake_found(&p, "R7-link"));
}

Test(topo_rules, a_card_that_does_not_answer_leaves_the_link_down)
{
	static const struct row row = { .rule = "R7-link", .ssd = SIBLING };
	struct hr_pair p;

	fake_two_ports(&machine);
	port_says_empty("02:01.0");
	fake_put(fake_find(&machine, SIBLING), 0, 4, 0xffffffff);
	evaluate(&row, &p);
	cr_expect_eq(p.verdict, HR_BLOCKED);
	cr_expect(fake_found(&p, "R7-link"));
}

/* ---- VFIO, VMD */

static void share_group(const char *driver)
{
	struct fake_fn *gpu = fake_find(&machine, "03:00.0"), *ssd = fake_find(&machine, SIBLING);

	snprintf(gpu->text, sizeof gpu->text, "\tIOMMU group: 7\n\tKernel driver in use: %s\n",
		 driver);
	strncat(ssd->text, "\tIOMMU group: 7\n", sizeof ssd->text - strlen(ssd->text) - 1);
}

Test(topo_rules, one_group_with_the_gpu_driver_keeps_vfio_from_the_ssd)
{
	static const struct row vfio = { "I7", SIBLING,
					 .opt = { .mode = HR_MODE_VFIO, .iommu = HR_IOMMU_PT } };
	static const struct row raw = { "I7-note", SIBLING, .opt = { .iommu = HR_IOMMU_PT } };
	struct hr_pair p;

	share_group("nvidia");
	evaluate(&vfio, &p);
	cr_expect_eq(p.verdict, HR_VFIO_CONFLICT);
	cr_expect(fake_found(&p, "I7"));
	evaluate(&raw, &p);
	cr_expect_eq(p.verdict, HR_DIRECT);
	cr_expect(fake_found(&p, "I7-note"));
}

Test(topo_rules, one_group_on_vfio_drivers_is_no_conflict)
{
	static const struct row vfio = { "I7", SIBLING,
					 .opt = { .mode = HR_MODE_VFIO, .iommu = HR_IOMMU_PT } };
	struct hr_pair p;

	share_group("vfio-pci");
	evaluate(&vfio, &p);
	cr_expect_eq(p.verdict, HR_REDIR_UNLISTED);
}

Test(topo_rules, a_disk_behind_vmd_is_blocked)
{
	struct hr_pair p;

	snprintf(fake_find(&machine, "00:02.0")->address, 16, "10000:00:02.0");
	snprintf(fake_find(&machine, OTHER)->address, 16, "10000:05:00.0");
	cr_assert_eq(fake_load(&machine, &model), 0);
	cr_assert_eq(hr_topology_init(&topology, &model, &(struct hr_options){ 0 }), 0);
	hr_pair_evaluate(&topology, fake_at("03:00.0"), fake_at("10000:05:00.0"), &p);
	cr_expect_eq(p.verdict, HR_BLOCKED);
	cr_expect(fake_found(&p, "R10"));
}

/* ---- the kernel's column */

Test(topo_rules, the_kernel_takes_the_union_of_redirects_and_its_own_list)
{
	static const struct {
		const char *at;
		uint32_t acs;
		uint32_t host; /* 0: the host bridge of the fake machine */
		const char *ssd;
		uint32_t version;
		enum hr_kernel_verdict want;
		unsigned distance;
	} row[] = {
		{ "02:00.0", 0, 0, SIBLING, 0, HR_KERNEL_BUS_ADDR, 4 },
		{ "02:00.0", HR_ACS_SV | HR_ACS_UF | HR_ACS_TB, 0, SIBLING, 0, HR_KERNEL_BUS_ADDR,
		  4 },
		{ "02:00.0", HR_ACS_RR, 0, SIBLING, 0, HR_KERNEL_NOT_SUPPORTED, 4 },
		{ "02:01.0", HR_ACS_CR, 0, SIBLING, 0, HR_KERNEL_NOT_SUPPORTED, 4 },
		{ "01:00.0", HR_ACS_EC, 0, SIBLING, 0, HR_KERNEL_NOT_SUPPORTED,
		  4 }, /* at the common bridge */
		/* above the common bridge */
		{ "00:01.0", HR_ACS_RR, 0, SIBLING, 0, HR_KERNEL_BUS_ADDR, 4 },
		{ "02:01.0", HR_ACS_RR, 0x09a28086, SIBLING, 0, HR_KERNEL_THRU_HOST, 4 },
		{ "02:00.0", 0, 0, OTHER, 0, HR_KERNEL_NOT_SUPPORTED, 6 },
		{ "02:00.0", 0, 0x09a28086, OTHER, 0, HR_KERNEL_THRU_HOST, 6 },
		{ "02:00.0", 0, 0x3c008086, OTHER, 0, HR_KERNEL_THRU_HOST, 6 },
		{ "02:00.0", 0, 0x6f008086, OTHER, 0, HR_KERNEL_NOT_SUPPORTED, 6 }, /* Broadwell */
		{ "02:00.0", 0, 0x14801022, OTHER, 0, HR_KERNEL_THRU_HOST, 6 },	    /* Zen */
		{ "02:00.0", 0, 0x14801022, OTHER, HR_KERNEL_VERSION(5, 7), HR_KERNEL_NOT_SUPPORTED,
		  6 },
		{ "02:00.0", 0, 0x09a28086, OTHER, HR_KERNEL_VERSION(5, 1), HR_KERNEL_NOT_SUPPORTED,
		  6 },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct row r = { "R1", row[i].ssd, .opt = { .kernel = row[i].version } };
		struct hr_pair p;

		fake_two_ports(&machine);
		fake_put(fake_find(&machine, row[i].at), ACS, 2, row[i].acs);
		if (row[i].host)
			fake_put(fake_find(&machine, "00:00.0"), HR_CFG_VENDOR, 4, row[i].host);
		evaluate(&r, &p);
		cr_expect_eq(p.kernel, row[i].want, "row %zu: %s", i, hr_kernel_text(p.kernel));
		cr_expect_eq(p.distance, row[i].distance, "row %zu: distance %u", i, p.distance);
	}
}

Test(topo_rules, a_host_bridge_listed_for_itself_only_does_not_count_across_two)
{
	struct hr_pair p;

	fake_put(fake_find(&machine, "00:00.0"), HR_CFG_VENDOR, 4, 0x3c008086);
	fake_function(&machine, "80:00.0", 0x060000, 0x8086, 0x3c00, HR_PORT_RC_ENDPOINT);
	fake_windows(fake_bridge(&machine, "80:02.0", 0x8086, 0x3c04, HR_PORT_ROOT, 0x81, 0x81),
		     0xe6000000, 0xe6ffffff, 0xfff00000, 0);
	fake_nvme(&machine, "81:00.0", 0xe6000000);
	cr_assert_eq(fake_load(&machine, &model), 0);
	cr_assert_eq(hr_topology_init(&topology, &model, &(struct hr_options){ 0 }), 0);
	hr_pair_evaluate(&topology, fake_at("03:00.0"), fake_at("81:00.0"), &p);
	cr_expect_eq(p.kernel, HR_KERNEL_NOT_SUPPORTED);
	cr_expect_str_eq(hr_distance_word(&topology, &p), "NODE");
	hr_pair_evaluate(&topology, fake_at("03:00.0"), fake_at(OTHER), &p);
	cr_expect_eq(p.kernel, HR_KERNEL_THRU_HOST);
	cr_expect_str_eq(hr_distance_word(&topology, &p), "PHB");
}

/* ---- mutation: one bit, and the verdict moves as the rule says */

Test(topo_rules, every_acs_bit_moves_the_verdict_according_to_its_rule)
{
	static const char *const ports[] = { "02:00.0", "02:01.0", "01:00.0" };

	for (unsigned port = 0; port < 3; port++)
		for (unsigned bit = 0; bit < 16; bit++) {
			struct row r = { .rule = "R1", .ssd = SIBLING };
			struct hr_pair p;
			bool redirect = 1u << bit & HR_ACS_REDIRECT;

			fake_two_ports(&machine);
			fake_put(fake_find(&machine, ports[port]), ACS, 2, 1u << bit);
			evaluate(&r, &p);
			cr_expect_eq(p.kernel,
				     redirect ? HR_KERNEL_NOT_SUPPORTED : HR_KERNEL_BUS_ADDR,
				     "%s bit %u", ports[port], bit);
			if (redirect && 1u << bit != HR_ACS_EC)
				cr_expect_eq(p.verdict, HR_REDIR_UNLISTED, "%s bit %u: %u",
					     ports[port], bit, p.verdict);
			if (!redirect)
				cr_expect_eq(p.verdict, HR_DIRECT, "%s bit %u: %u", ports[port],
					     bit, p.verdict);
		}
}

Test(topo_rules, any_two_functions_can_be_asked_about)
{
	static const struct row plain = { .rule = "R1", .ssd = SIBLING };
	struct hr_pair p;

	evaluate(&plain, &p);
	for (int32_t i = 0; i < (int32_t)model.count; i++)
		for (int32_t j = 0; j < (int32_t)model.count; j++) {
			hr_pair_evaluate(&topology, i, j, &p);
			cr_expect_lt(p.verdict, HR_VERDICTS);
		}
	hr_pair_evaluate(&topology, fake_at("03:00.0"), fake_at("03:00.0"), &p);
	cr_expect_eq(p.distance, 0);
	cr_expect_eq(p.kernel, HR_KERNEL_BUS_ADDR);
}

Test(topo_rules, verdict_names_read_back)
{
	char text[48];

	for (unsigned v = 0; v < HR_VERDICTS; v++) {
		hr_verdict_text((enum hr_verdict)v, HR_RULES_MAX, text);
		cr_expect_eq(hr_verdict_by_name(text, strlen(text)), (enum hr_verdict)v);
	}
	cr_expect_eq(hr_verdict_by_name("GOOD", 4), HR_VERDICTS);
}
