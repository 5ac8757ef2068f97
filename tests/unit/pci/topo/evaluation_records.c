/*
 * All that an evaluation derives from a machine, as one line for the machine, for each function and
 * for each pair. Rules are named by their identifiers.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "pci/topo/fields.h"
#include "pci/topo/tables.h"
#include "tests/harness/evaluate.h"
#include "tests/harness/evaluated.h"

TestSuite(topo_evaluated, .init = fake_evaluate_up, .fini = fake_evaluate_down, .timeout = 60);

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

static void load(const struct hr_options *opt)
{
	cr_assert_eq(fake_load(&machine, &model), 0, "%s", model.error.text);
	cr_assert_eq(hr_topology_init(&topology, &model, opt), 0);
}

static void poke(const char *at, uint32_t offset, unsigned width, uint32_t value)
{
	fake_put(fake_find(&machine, at), offset, width, value);
}

static void add_text(const char *at, const char *lines)
{
	char *to = at[0] ? fake_find(&machine, at)->text : machine.head;

	strncat(to, lines, FAKE_TEXT_MAX - strlen(to) - 1);
}

#define DEVCTL (FAKE_EXP + HR_EXP_DEVCTL)
#define MPS128 0x2000u
#define MPS512 0x2040u

/*
 * A second switch on bus 6 whose ports have windows that cross, a second root bus with an SSD, and
 * payloads that differ from level to level.
 */
static void wide_machine(void)
{
	struct fake_fn *f;

	fake_two_ports(&machine);
	f = fake_bridge(&machine, "00:03.0", 0x8086, 0x9d10, HR_PORT_ROOT, 6, 9);
	fake_windows(f, 0xe5000000, 0xe7ffffff, 0x39000000000, 0x391ffffffff);
	f = fake_bridge(&machine, "06:00.0", 0x10b5, 0x8796, HR_PORT_UPSTREAM, 7, 9);
	fake_windows(f, 0xe4f00000, 0xe6ffffff, 0x38f00000000, 0x390ffffffff);
	f = fake_bridge(&machine, "07:00.0", 0x10b5, 0x8796, HR_PORT_DOWNSTREAM, 8, 8);
	fake_windows(f, 0xe5000000, 0xe5ffffff, 0xfff00000, 0);
	f = fake_bridge(&machine, "07:01.0", 0x10b5, 0x8796, HR_PORT_DOWNSTREAM, 9, 9);
	fake_windows(f, 0xe5f00000, 0xe6ffffff, 0xfff00000, 0);
	fake_nvme(&machine, "08:00.0", 0xe5000000);
	fake_gpu(&machine, "09:00.0", 0x39000000000, 30);
	fake_function(&machine, "80:00.0", 0x060000, 0x8086, 0x09a2, HR_PORT_RC_ENDPOINT);
	f = fake_bridge(&machine, "80:01.0", 0x8086, 0x347a, HR_PORT_ROOT, 0x81, 0x81);
	fake_windows(f, 0xe8000000, 0xe8ffffff, 0xfff00000, 0);
	fake_nvme(&machine, "81:00.0", 0xe9000000);
	poke("00:01.0", DEVCTL, 2, MPS512);
	poke("02:00.0", DEVCTL, 2, MPS512);
	poke("06:00.0", DEVCTL, 2, MPS512);
	poke("07:01.0", ACS, 2, HR_ACS_RR | HR_ACS_CR);
	add_text("05:00.0", "\tNUMA node: 1\n");
}

static void expect_functions(const char *const *want, size_t n)
{
	cr_assert_eq(model.count, n, "%u functions", model.count);
	for (uint32_t i = 0; i < model.count; i++)
		cr_expect_str_eq(fake_evaluated_function((int32_t)i), want[i], "%u: %s", i,
				 want[i]);
}

Test(topo_evaluated, each_function_has_its_derived_facts)
{
	static const char *const want[] = {
		"00:00.0 node=1 mps=256/256 hits=R3-bar above=R3-bar",
		"00:01.0 node=1 boot_redirect bar=0-0 mps=512/512",
		"00:02.0 node=1 boot_redirect bar=0-0 mps=256/256",
		"00:03.0 node=1 pch kernel_redirect boot_redirect bar=0-0 mps=256/256 "
		"step=2 hits=R11,A7 above=R11,A7",
		"01:00.0 under=00:01.0 depth=1 node=1 boot_redirect bar=0-0 mps=256/256 "
		"mem=e0000000-e2ffffff pref=38000000000-383ffffffff step=8",
		"02:00.0 under=01:00.0 depth=2 node=1 boot_redirect bar=0-0 mps=512/256 "
		"mem=e0000000-e2ffffff pref=38000000000-383ffffffff step=8",
		"02:01.0 under=01:00.0 depth=2 node=1 boot_redirect bar=0-0 mps=256/256 "
		"mem=e0000000-e2ffffff pref=38000000000-383ffffffff step=8",
		"03:00.0 under=02:00.0 depth=3 node=1 bar=38000000000-383ffffffff "
		"mps=256/256 mem=e0000000-e2ffffff pref=38000000000-383ffffffff",
		"04:00.0 under=02:01.0 depth=3 node=1 bar=e0000000-e0003fff mps=256/256 "
		"mem=e0000000-e2ffffff pref=38000000000-383ffffffff",
		"05:00.0 under=00:02.0 depth=1 node=1 bar=e4000000-e4003fff mps=256/256 "
		"mem=e4000000-e4ffffff",
		"06:00.0 under=00:03.0 depth=1 node=1 boot_redirect bar=0-0 mps=512/256 "
		"mem=e5000000-e7ffffff pref=39000000000-391ffffffff step=8 above=R11,A7",
		"07:00.0 under=06:00.0 depth=2 node=1 boot_redirect overlaps bar=0-0 "
		"mps=256/256 mem=e4f00000-e7ffffff pref=38f00000000-391ffffffff step=8 "
		"hits=R4-sibling above=R4-sibling,R11,A7",
		"07:01.0 under=06:00.0 depth=2 node=1 redirect kernel_redirect "
		"boot_redirect overlaps bar=0-0 mps=256/256 mem=e4f00000-e7ffffff "
		"pref=38f00000000-391ffffffff step=b hits=R4-sibling,A1-port "
		"above=R4-sibling,R11,A1-port,A7",
		"08:00.0 under=07:00.0 depth=3 node=1 bar=e5000000-e5000000 mps=256/256 "
		"mem=e4f00000-e7ffffff pref=38f00000000-391ffffffff "
		"above=R4-sibling,R11,A7",
		"09:00.0 under=07:01.0 depth=3 node=1 bar=39000000000-3903fffffff "
		"break=07:01.0 mps=256/256 mem=e4f00000-e7ffffff "
		"pref=38f00000000-391ffffffff above=R4-sibling,R11,A1-port,A7",
		"80:00.0 root=1 node=ffffffff mps=0/0 hits=R3-bar above=R3-bar",
		"80:01.0 root=1 node=ffffffff boot_redirect bar=0-0 mps=256/256",
		"81:00.0 under=80:01.0 depth=1 root=1 node=ffffffff "
		"bar=e9000000-e9003fff break=80:01.0 mps=256/256 mem=e8000000-e8ffffff",
	};

	wide_machine();
	/* Registers of 32 bits: the kernel reads another word. A function without capabilities. */
	poke("00:03.0", FAKE_ACS + HR_ACS_CTL, 2, HR_ACS_CR);
	poke("80:00.0", HR_CFG_STATUS, 2, 0);
	fake_find(&machine, "08:00.0")->text[0] = '\0'; /* the size of its BAR */
	load(&(struct hr_options){ 0 });
	expect_functions(want, ROWS(want));
}

/* VFIO, a capture in which facts are missing, and drivers that keep groups closed. */
Test(topo_evaluated, missing_facts_are_derived_as_such)
{
	static const char *const want[] = {
		"00:00.0 node=1 mps=256/256 hits=R3-bar above=R3-bar",
		"00:01.0 node=1 boot_redirect bar=0-0 mps=512/512",
		"00:02.0 node=1 boot_redirect bar=0-0 mps=256/256",
		"00:03.0 node=1 pch redirect boot_redirect bar=0-0 mps=256/256 "
		"hits=R11,A7 above=R11,A7",
		"01:00.0 under=00:01.0 depth=1 node=1 acs_unknown bar=0-0 mps=0/512 "
		"mem=e0000000-e2ffffff pref=38000000000-383ffffffff step=24 "
		"blocker=03:00.0 hits=U2 above=U2",
		"02:00.0 under=01:00.0 depth=2 node=1 boot_redirect bar=0-0 mps=512/512 "
		"mem=e0000000-e2ffffff pref=38000000000-383ffffffff step=8 "
		"blocker=03:00.0 above=U2",
		"02:01.0 under=01:00.0 depth=2 node=1 acs_unknown bar=0-0 mps=256/256 "
		"mem=e0000000-e2ffffff pref=38000000000-383ffffffff step=24 "
		"blocker=03:00.0 hits=U3 above=U2,U3",
		"03:00.0 under=02:00.0 depth=3 node=1 bar=38000000000-383ffffffff "
		"unread=01:00.0 mps=256/256 mem=e0000000-e2ffffff "
		"pref=38000000000-383ffffffff blocker=04:00.0 above=U2",
		"04:00.0 under=02:01.0 depth=3 node=1 bar=e0000000-e0003fff "
		"unread=01:00.0 mps=256/256 mem=e0000000-e2ffffff "
		"pref=38000000000-383ffffffff blocker=03:00.0 above=U2,U3",
		"05:00.0 under=00:02.0 depth=1 node=1 bar=e4000000-e4003fff "
		"break=00:02.0 mps=256/256 mem=e4100000-e41fffff",
		"06:00.0 under=00:03.0 depth=1 node=1 boot_redirect bar=0-0 mps=512/256 "
		"mem=e5000000-e7ffffff pref=39000000000-391ffffffff step=8 above=R11,A7",
		"07:00.0 under=06:00.0 depth=2 node=1 boot_redirect overlaps bar=0-0 "
		"mps=256/256 mem=e4f00000-e7ffffff pref=38f00000000-391ffffffff step=8 "
		"hits=R4-sibling above=R4-sibling,R11,A7",
		"07:01.0 under=06:00.0 depth=2 node=1 redirect kernel_redirect overlaps "
		"bar=0-0 mps=256/256 mem=e4f00000-e7ffffff pref=38f00000000-391ffffffff "
		"step=3 hits=R4-sibling,A1-port above=R4-sibling,R11,A1-port,A7",
		"08:00.0 under=07:00.0 depth=3 node=1 bar=e5000000-e5003fff mps=256/256 "
		"mem=e4f00000-e7ffffff pref=38f00000000-391ffffffff "
		"above=R4-sibling,R11,A7",
		"09:00.0 under=07:01.0 depth=3 node=1 bar=39000000000-3903fffffff "
		"break=07:01.0 mps=256/256 mem=e4f00000-e7ffffff "
		"pref=38f00000000-391ffffffff above=R4-sibling,R11,A1-port,A7",
		"80:00.0 root=1 node=ffffffff mps=256/256 hits=R3-bar above=R3-bar",
		"80:01.0 root=1 node=ffffffff boot_redirect bar=0-0 mps=256/256",
		"81:00.0 under=80:01.0 depth=1 root=1 node=ffffffff "
		"bar=e9000000-e9003fff break=80:01.0 mps=256/256 mem=e8000000-e8ffffff",
	};

	wide_machine();
	add_text("", "headrace: cmdline=intel_iommu=on iommu=pt pci=disable_acs_redir=07:01.0\n");
	add_text("04:00.0", "\tIOMMU group: 7\n\tKernel driver in use: nvme\n");
	add_text("03:00.0", "\tIOMMU group: 7\n\tKernel driver in use: nvidia\n");
	fake_find(&machine, "02:01.0")->bytes = 256;
	fake_find(&machine, "01:00.0")->bytes = 0;
	snprintf(fake_find(&machine, "01:00.0")->title, 64, "PCI bridge [0604]: X [10b5:8796]");
	add_text("01:00.0", "\tBus: primary=01, secondary=02, subordinate=04, sec-latency=0\n");
	poke("00:02.0", HR_CFG_MEM_BASE, 4, 0xe410e410);
	poke("00:03.0", FAKE_ACS + 8, 2, HR_ACS_RR);
	load(&(struct hr_options){ .mode = HR_MODE_VFIO });
	expect_functions(want, ROWS(want));
}

/* ---- the machine */

static const struct {
	const char *head;
	uint32_t host;	   /* vendor and device of 00:00.0 */
	const char *group; /* of the GPU */
	struct hr_options opt;
	const char *want;
} machines[] = {
	{ "",
	  0x12348086,
	  "",
	  { 0 },
	  "iommu=0 boot=2 root0=0 root1=2 gpu=03:00.0 gpu=09:00.0 ssd=04:00.0 "
	  "ssd=05:00.0 ssd=08:00.0 ssd=81:00.0" },
	{ "",
	  0x20308086,
	  "",
	  { 0 },
	  "iommu=0 boot=2 root0=2 root1=2 gpu=03:00.0 gpu=09:00.0 ssd=04:00.0 "
	  "ssd=05:00.0 ssd=08:00.0 ssd=81:00.0" },
	{ "",
	  0x3c008086,
	  "",
	  { .kernel = HR_KERNEL_VERSION(5, 4) },
	  "iommu=0 boot=2 root0=1 root1=0 gpu=03:00.0 gpu=09:00.0 ssd=04:00.0 "
	  "ssd=05:00.0 ssd=08:00.0 ssd=81:00.0" },
	{ "",
	  0x14801022,
	  "",
	  { 0 },
	  "iommu=0 zen inferred boot=2 root0=0 root1=2 gpu=03:00.0 gpu=09:00.0 "
	  "ssd=04:00.0 ssd=05:00.0 ssd=08:00.0 ssd=81:00.0 hits=Z1" },
	{ "headrace: cpu_amd=1\n",
	  0x12348086,
	  "",
	  { 0 },
	  "iommu=0 zen boot=2 root0=0 root1=2 gpu=03:00.0 gpu=09:00.0 ssd=04:00.0 "
	  "ssd=05:00.0 ssd=08:00.0 ssd=81:00.0" },
	{ "headrace: cpu_amd=1\nheadrace: cpu_family=22\n",
	  0x14801022,
	  "",
	  { 0 },
	  "iommu=0 boot=2 root0=0 root1=2 gpu=03:00.0 gpu=09:00.0 ssd=04:00.0 "
	  "ssd=05:00.0 ssd=08:00.0 ssd=81:00.0" },
	{ "headrace: cpu_amd=1\nheadrace: cpu_family=23\n",
	  0x12348086,
	  "",
	  { 0 },
	  "iommu=0 zen boot=2 root0=0 root1=2 gpu=03:00.0 gpu=09:00.0 ssd=04:00.0 "
	  "ssd=05:00.0 ssd=08:00.0 ssd=81:00.0" },
	{ "headrace: cpu_amd=0\nheadrace: cpu_family=25\n",
	  0x14801022,
	  "",
	  { 0 },
	  "iommu=0 boot=2 root0=0 root1=2 gpu=03:00.0 gpu=09:00.0 ssd=04:00.0 "
	  "ssd=05:00.0 ssd=08:00.0 ssd=81:00.0" },
	{ "headrace: iommu=1\n",
	  0x12348086,
	  "",
	  { 0 },
	  "iommu=1 boot=2 root0=0 root1=2 gpu=03:00.0 gpu=09:00.0 ssd=04:00.0 "
	  "ssd=05:00.0 ssd=08:00.0 ssd=81:00.0" },
	{ "headrace: iommu=2\n",
	  0x12348086,
	  "",
	  { 0 },
	  "iommu=2 boot=2 root0=0 root1=2 gpu=03:00.0 gpu=09:00.0 ssd=04:00.0 "
	  "ssd=05:00.0 ssd=08:00.0 ssd=81:00.0" },
	{ "headrace: iommu=3\n",
	  0x12348086,
	  "",
	  { 0 },
	  "iommu=3 boot=3 root0=0 root1=2 gpu=03:00.0 gpu=09:00.0 ssd=04:00.0 "
	  "ssd=05:00.0 ssd=08:00.0 ssd=81:00.0" },
	{ "headrace: iommu=2\n",
	  0x12348086,
	  "",
	  { .iommu = HR_IOMMU_ON },
	  "iommu=3 boot=3 root0=0 root1=2 gpu=03:00.0 gpu=09:00.0 ssd=04:00.0 "
	  "ssd=05:00.0 ssd=08:00.0 ssd=81:00.0" },
	{ "",
	  0x12348086,
	  "\tIOMMU group: 3\n",
	  { 0 },
	  "iommu=0 active boot=2 root0=0 root1=2 gpu=03:00.0 gpu=09:00.0 "
	  "ssd=04:00.0 ssd=05:00.0 ssd=08:00.0 ssd=81:00.0" },
	{ "headrace: cmdline=iommu=pt\n",
	  0x12348086,
	  "\tIOMMU group: 3\n",
	  { 0 },
	  "iommu=2 active boot=2 root0=0 root1=2 gpu=03:00.0 gpu=09:00.0 "
	  "ssd=04:00.0 ssd=05:00.0 ssd=08:00.0 ssd=81:00.0" },
	{ "headrace: cmdline=iommu=pt\n",
	  0x12348086,
	  "",
	  { 0 },
	  "iommu=0 boot=2 root0=0 root1=2 gpu=03:00.0 gpu=09:00.0 ssd=04:00.0 "
	  "ssd=05:00.0 ssd=08:00.0 ssd=81:00.0" },
	{ "headrace: cmdline=intel_iommu=on\n",
	  0x12348086,
	  "",
	  { 0 },
	  "iommu=0 wanted boot=2 root0=0 root1=2 gpu=03:00.0 gpu=09:00.0 "
	  "ssd=04:00.0 ssd=05:00.0 ssd=08:00.0 ssd=81:00.0" },
	{ "",
	  0x12348086,
	  "",
	  { .mode = HR_MODE_VFIO },
	  "iommu=0 boot=2 root0=0 root1=2 gpu=03:00.0 gpu=09:00.0 ssd=04:00.0 "
	  "ssd=05:00.0 ssd=08:00.0 ssd=81:00.0" },
	{ "",
	  0x12348086,
	  "",
	  { .mode = HR_MODE_VFIO, .iommu = HR_IOMMU_OFF },
	  "iommu=1 boot=2 root0=0 root1=2 gpu=03:00.0 gpu=09:00.0 ssd=04:00.0 "
	  "ssd=05:00.0 ssd=08:00.0 ssd=81:00.0" },
};

Test(topo_evaluated, the_machine_has_its_modes_and_lists)
{
	for (size_t i = 0; i < ROWS(machines); i++) {
		wide_machine();
		poke("00:00.0", HR_CFG_VENDOR, 4, machines[i].host);
		add_text("", machines[i].head);
		add_text(GPU, machines[i].group);
		load(&machines[i].opt);
		cr_expect_str_eq(fake_evaluated_machine(), machines[i].want, "row %zu", i);
	}
}

/* ---- pairs */

struct row {
	const char *gpu, *ssd;
	struct {
		const char *at;
		uint32_t offset, value;
	} poke[3]; /* 16 bits each */
	const char *head;
	struct hr_options opt;
	uint8_t flows; /* 0: those of the mode */
	const char *want;
};

static const struct row pairs[] = {
	{ GPU, SIBLING,
	  .want = "DIRECT BUS_ADDR PIX/4 common=01:00.0 gpu=02:00.0 ssd=02:01.0 boot same "
		  "mps=512,256,0,256 F1=0(R1) F2=0(R1) F3=0(R1) F4=0(R1) by R1 on_pair=R1" },
	{ GPU, OTHER,
	  .want = "RC_UNLISTED NOT_SUPPORTED PHB/6 gpu=00:01.0 ssd=00:02.0 climbs=f "
		  "redirected=f boot same mps=256,256,0,256 modifiers=80 F1=3(R2) F2=3(R2) "
		  "F3=3(R2) F4=3(R2) by R2 on_pair=R2,I1" },
	{ GPU, "08:00.0",
	  .want = "BLOCKED(overlap) NOT_SUPPORTED PHB/8 gpu=00:01.0 ssd=00:03.0 climbs=f "
		  "redirected=f boot same mps=256,256,0,256 modifiers=88 F1=8(R4-sibling) "
		  "F2=3(R2) F3=3(R2) F4=8(R4-sibling) by R4-sibling "
		  "on_ssd=R4-sibling,R11,A7 on_pair=R2,I1" },
	{ GPU, "81:00.0",
	  .want = "BLOCKED(window) NOT_SUPPORTED NODE/6 gpu=00:01.0 ssd=80:01.0 climbs=f "
		  "redirected=f boot mps=256,256,0,256 modifiers=80 F1=8(R3) F2=3(R2) "
		  "F3=3(R2) F4=8(R3) by R3 on_pair=R3,R2,I1,H5-unread" },
	{ "09:00.0", "08:00.0",
	  .want = "BLOCKED(overlap) NOT_SUPPORTED PIX/4 common=06:00.0 gpu=07:01.0 "
		  "ssd=07:00.0 climbs=9 redirected=d up=d any kernel boot same "
		  "mps=256,256,256,256 modifiers=88 F1=8(R4-sibling) F2=8(R3) F3=8(R3) "
		  "F4=8(R4-sibling) by R4-sibling on_gpu=R4-sibling,A1-port "
		  "on_ssd=R4-sibling on_pair=R3,A1,R1,I1,A2,A15" },
	{ "09:00.0", SIBLING,
	  .want = "BLOCKED(window) NOT_SUPPORTED PHB/8 gpu=00:03.0 ssd=00:01.0 climbs=f "
		  "redirected=f any kernel boot same mps=256,256,0,256 modifiers=88 "
		  "F1=3(R2) F2=8(R3) F3=8(R3) F4=3(R2) by R3 "
		  "on_gpu=R4-sibling,R11,A1-port,A7 on_pair=R3,R2,I1" },
	{ GPU,
	  SIBLING,
	  { { "02:00.0", DEVCTL, MPS128 } },
	  .want = "BLOCKED(mps) BUS_ADDR PIX/4 common=01:00.0 gpu=02:00.0 ssd=02:01.0 boot "
		  "same mps=128,256,0,128 F1=0(R1) F2=8(M1) F3=8(M1) F4=0(R1) by M1 "
		  "on_pair=M1,R1" },
	{ GPU,
	  SIBLING,
	  { { "02:00.0", ACS, HR_ACS_RR } },
	  .want = "REDIRECTED+RC_UNLISTED NOT_SUPPORTED PIX/4 common=01:00.0 gpu=02:00.0 "
		  "ssd=02:01.0 climbs=9 redirected=9 up=9 any kernel boot same "
		  "mps=512,256,256,256 modifiers=80 F1=4(A1) F2=0(R1) F3=0(R1) F4=4(A1) by "
		  "A1 on_gpu=A1-port on_pair=A1,R1,I1,A2,A15" },
	{ GPU,
	  SIBLING,
	  { { "02:00.0", ACS, HR_ACS_CR } },
	  .want = "REDIRECTED+RC_UNLISTED NOT_SUPPORTED PIX/4 common=01:00.0 gpu=02:00.0 "
		  "ssd=02:01.0 redirected=4 up=4 any kernel boot same mps=512,256,256,256 "
		  "F1=0(R1) F2=0(R1) F3=4(A1) F4=0(R1) by A1 on_gpu=A1-port "
		  "on_pair=A1,R1,A2,A15" },
	{ GPU,
	  SIBLING,
	  { { "02:01.0", ACS, HR_ACS_RR } },
	  .want = "REDIRECTED+RC_UNLISTED NOT_SUPPORTED PIX/4 common=01:00.0 gpu=02:00.0 "
		  "ssd=02:01.0 climbs=6 redirected=6 up=6 any kernel boot same "
		  "mps=512,256,256,256 modifiers=80 F1=0(R1) F2=4(A1) F3=4(A1) F4=0(R1) by "
		  "A1 on_ssd=A1-port on_pair=A1,R1,I1,A2,A15" },
	{ GPU,
	  SIBLING,
	  { { "02:01.0", ACS, HR_ACS_CR } },
	  .want = "REDIRECTED+RC_UNLISTED NOT_SUPPORTED PIX/4 common=01:00.0 gpu=02:00.0 "
		  "ssd=02:01.0 redirected=8 up=8 any kernel boot same mps=512,256,256,256 "
		  "F1=0(R1) F2=0(R1) F3=0(R1) F4=4(A1) by A1 on_ssd=A1-port "
		  "on_pair=A1,R1,A2,A15" },
	{ GPU,
	  SIBLING,
	  { { "01:00.0", ACS, HR_ACS_RR } },
	  .want = "REDIRECTED+RC_UNLISTED NOT_SUPPORTED PIX/4 common=01:00.0 gpu=02:00.0 "
		  "ssd=02:01.0 up=f any kernel boot same mps=512,256,256,256 F1=0(R1) "
		  "F2=0(R1) F3=0(R1) F4=0(R1) by A1 on_pair=R1,A2,A15" },
	{ GPU,
	  SIBLING,
	  { { "02:01.0", ACS, HR_ACS_CR }, { "00:00.0", HR_CFG_DEVICE, 0x2030 } },
	  .want = "REDIRECTED+RC_LISTED THRU_HOST_BRIDGE PIX/4 common=01:00.0 gpu=02:00.0 "
		  "ssd=02:01.0 redirected=8 up=8 any kernel boot same listed "
		  "mps=512,256,256,256 F1=0(R1) F2=0(R1) F3=0(R1) F4=2(A1-listed) by "
		  "A1-listed on_ssd=A1-port on_pair=A1-listed,R1,A2,A15" },
	{ GPU,
	  SIBLING,
	  { { "01:00.0", ACS, HR_ACS_RR }, { "00:00.0", HR_CFG_DEVICE, 0x2030 } },
	  .want = "REDIRECTED+RC_LISTED THRU_HOST_BRIDGE PIX/4 common=01:00.0 gpu=02:00.0 "
		  "ssd=02:01.0 up=f any kernel boot same listed mps=512,256,256,256 "
		  "F1=0(R1) F2=0(R1) F3=0(R1) F4=0(R1) by A1-listed on_pair=R1,A2,A15" },
	{ GPU,
	  "81:00.0",
	  { { "00:00.0", HR_CFG_DEVICE, 0x2030 } },
	  .want = "BLOCKED(window) THRU_HOST_BRIDGE NODE/6 gpu=00:01.0 ssd=80:01.0 "
		  "climbs=f redirected=f boot listed mps=256,256,0,256 modifiers=80 "
		  "F1=8(R3) F2=1(R2-listed) F3=1(R2-listed) F4=8(R3) by R3 "
		  "on_pair=R3,R2-listed,I1,H5-unread" },
	{ GPU,
	  "81:00.0",
	  { { "00:00.0", HR_CFG_DEVICE, 0x2030 }, { "80:01.0", HR_CFG_MEM_LIMIT, 0xe9f0 } },
	  .want = "RC_LISTED THRU_HOST_BRIDGE NODE/6 gpu=00:01.0 ssd=80:01.0 climbs=f "
		  "redirected=f boot listed mps=256,256,0,256 modifiers=80 F1=1(R2-listed) "
		  "F2=1(R2-listed) F3=1(R2-listed) F4=1(R2-listed) by R2-listed "
		  "on_pair=R2-listed,I1,H5-unread" },
	{ GPU,
	  SIBLING,
	  { { SIBLING, HR_CFG_COMMAND, HR_COMMAND_MSE } },
	  .want = "BLOCKED(disabled) BUS_ADDR PIX/4 common=01:00.0 gpu=02:00.0 ssd=02:01.0 "
		  "boot same mps=512,256,0,256 F1=0(R1) F2=8(R5-bme) F3=8(R5-bme) F4=0(R1) "
		  "by R5-bme on_ssd=R5-bme on_pair=R1" },
	{ GPU,
	  SIBLING,
	  { { GPU, HR_CFG_COMMAND, HR_COMMAND_MSE } },
	  .want = "BLOCKED(disabled) BUS_ADDR PIX/4 common=01:00.0 gpu=02:00.0 ssd=02:01.0 "
		  "boot same mps=512,256,0,256 F1=8(R5-bme) F2=0(R1) F3=0(R1) F4=8(R5-bme) "
		  "by R5-bme on_gpu=R5-bme on_pair=R1" },
	{ GPU,
	  SIBLING,
	  { { GPU, HR_CFG_COMMAND, HR_COMMAND_MSE } },
	  .opt = { .mode = HR_MODE_HOST },
	  .want = "DIRECT BUS_ADDR PIX/4 common=01:00.0 gpu=02:00.0 ssd=02:01.0 boot same "
		  "mps=512,256,0,256 modifiers=40 F1=8(R5-bme) F2=0(R1) F3=0(R1) "
		  "F4=8(R5-bme) by R1 on_gpu=R5-bme on_pair=R1,M4" },
	{ GPU,
	  SIBLING,
	  { { SIBLING, HR_CFG_COMMAND, HR_COMMAND_BME } },
	  .flows = 1 << HR_F4,
	  .want = "BLOCKED(disabled) BUS_ADDR PIX/4 common=01:00.0 gpu=02:00.0 ssd=02:01.0 "
		  "boot same mps=512,256,0,256 F1=8(R5-mse) F2=0(R1) F3=0(R1) F4=8(R5-mse) "
		  "by R5-mse on_ssd=R5-mse on_pair=R1" },
	{ GPU,
	  SIBLING,
	  { { "02:01.0", ACS, HR_ACS_CR } },
	  .flows = 1 << HR_F4,
	  .want = "REDIRECTED+RC_UNLISTED NOT_SUPPORTED PIX/4 common=01:00.0 gpu=02:00.0 "
		  "ssd=02:01.0 redirected=8 up=8 any kernel boot same mps=512,256,256,256 "
		  "F1=0(R1) F2=0(R1) F3=0(R1) F4=4(A1) by A1 on_ssd=A1-port "
		  "on_pair=A1,R1,A2,A15" },
	{ GPU, SIBLING, .opt = { .mode = HR_MODE_VFIO },
	  .want = "REDIRECTED+RC_UNLISTED BUS_ADDR PIX/4 common=01:00.0 gpu=02:00.0 "
		  "ssd=02:01.0 climbs=f redirected=f up=f boot same mps=512,256,256,256 "
		  "modifiers=400 F1=4(I5) F2=4(I5) F3=4(I5) F4=4(I5) by I5 on_pair=I5,A18" },
	{ GPU, SIBLING, .opt = { .mode = HR_MODE_VFIO_HOST },
	  .want = "REDIRECTED+RC_UNLISTED BUS_ADDR PIX/4 common=01:00.0 gpu=02:00.0 "
		  "ssd=02:01.0 climbs=f redirected=f up=f boot same mps=512,256,256,256 "
		  "modifiers=400 F1=4(I5) F2=4(I5) F3=4(I5) F4=4(I5) by I5 on_pair=I5,A18" },
	{ GPU, SIBLING, .head = "headrace: iommu=3\n", .opt = { .mode = HR_MODE_KERNEL },
	  .want = "DIRECT BUS_ADDR PIX/4 common=01:00.0 gpu=02:00.0 ssd=02:01.0 boot same "
		  "mps=512,256,0,256 modifiers=400 F1=0(R1) F2=0(R1) F3=0(R1) F4=0(R1) by "
		  "R1 on_pair=R1,A18" },
	{ GPU, SIBLING, .head = "headrace: iommu=3\n",
	  .want = "DIRECT BUS_ADDR PIX/4 common=01:00.0 gpu=02:00.0 ssd=02:01.0 boot same "
		  "mps=512,256,0,256 modifiers=400 F1=0(R1) F2=0(R1) F3=0(R1) F4=0(R1) by "
		  "R1 on_pair=R1,A18" },
	{ GPU, OTHER, .opt = { .kernel = HR_KERNEL_VERSION(5, 1) },
	  .want = "RC_UNLISTED NOT_SUPPORTED PHB/6 gpu=00:01.0 ssd=00:02.0 climbs=f "
		  "redirected=f boot same mps=256,256,0,256 modifiers=80 F1=3(R2) F2=3(R2) "
		  "F3=3(R2) F4=3(R2) by R2 on_pair=R2,I1" },
	{ GPU,
	  SIBLING,
	  { { "02:01.0", ACS, HR_ACS_CR } },
	  .opt = { .kernel = HR_KERNEL_VERSION(5, 1) },
	  .want = "REDIRECTED+RC_UNLISTED NOT_SUPPORTED PIX/4 common=01:00.0 gpu=02:00.0 "
		  "ssd=02:01.0 redirected=8 up=8 any kernel boot same mps=512,256,256,256 "
		  "F1=0(R1) F2=0(R1) F3=0(R1) F4=4(A1) by A1 on_ssd=A1-port "
		  "on_pair=A1,R1,A2,A15" },
	{ GPU, OTHER, .head = "headrace: cpu_amd=1\n",
	  .want = "RC_LISTED THRU_HOST_BRIDGE PHB/6 gpu=00:01.0 ssd=00:02.0 climbs=f "
		  "redirected=f boot same listed mps=256,256,0,256 modifiers=80 "
		  "F1=1(R2-listed) F2=1(R2-listed) F3=1(R2-listed) F4=1(R2-listed) by "
		  "R2-listed on_pair=R2-listed,I1" },
	{ GPU, "00:02.0",
	  .want = "RC_UNLISTED NOT_SUPPORTED PHB/5 gpu=00:01.0 ssd=00:02.0 climbs=f "
		  "redirected=f boot same mps=256,0,0,256 modifiers=80 F1=3(R2) F2=3(R2) "
		  "F3=3(R2) F4=3(R2) by R2 on_pair=R2,I1" },
	{ SIBLING, GPU,
	  .want = "DIRECT BUS_ADDR PIX/4 common=01:00.0 gpu=02:01.0 ssd=02:00.0 boot same "
		  "mps=256,512,0,256 F1=0(R1) F2=0(R1) F3=0(R1) F4=0(R1) by R1 on_pair=R1" },
};

Test(topo_evaluated, each_pair_has_its_record)
{
	struct hr_pair p;

	for (size_t i = 0; i < ROWS(pairs); i++) {
		const struct row *r = &pairs[i];

		wide_machine();
		add_text("", r->head ? r->head : "");
		for (unsigned k = 0; k < 3 && r->poke[k].at; k++)
			poke(r->poke[k].at, r->poke[k].offset, 2, r->poke[k].value);
		load(&r->opt);
		memset(&p, 0xff, sizeof p);
		if (r->flows)
			hr_pair_evaluate_flows(&topology, fake_at(r->gpu), fake_at(r->ssd),
					       r->flows, &p);
		else
			hr_pair_evaluate(&topology, fake_at(r->gpu), fake_at(r->ssd), &p);
		cr_expect_str_eq(fake_evaluated_pair(&p), r->want, "row %zu", i);
	}
}
