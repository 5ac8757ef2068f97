/* SPDX-License-Identifier: Apache-2.0 */
/* Two lists of one function: which facts contradict, and what the merged record holds. */
#include "pci/topo/merge.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "pci/topo/fields.h"
#include "tests/harness/described.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

TestSuite(topo_merge, .timeout = 60);

static struct hr_fn was, is;
static char said[256];

static void clear(void)
{
	memset(&was, 0, sizeof was);
	memset(&is, 0, sizeof is);
	was.name = is.name = "";
	memset(said, '#', sizeof said);
	said[0] = '\0';
}

static bool contradict(void)
{
	const bool one = hr_function_contradicts(&was, &is, said, sizeof said);
	const struct hr_fn swapped = was;
	char other[256];

	/* The order does not matter. */
	was = is;
	is = swapped;
	cr_expect_eq(hr_function_contradicts(&was, &is, other, sizeof other), one);
	is = was;
	was = swapped;
	return one;
}

Test(topo_merge, facts_that_last_contradict)
{
	static const struct {
		enum hr_fact_id id;
		uint32_t before, here;
		const char *want; /* NULL: no contradiction */
	} row[] = {
		{ HR_F_VENDOR, 0x10de, 0x10df, "vendor is 0x10de before and 0x10df here" },
		{ HR_F_VENDOR, 0x110de, 0x210de, NULL },
		{ HR_F_DEVICE, 0x8000, 0, "device is 0x8000 before and 0x0 here" },
		{ HR_F_CLASS, 0x10802, 0x10803, NULL }, /* text does not show the interface */
		{ HR_F_CLASS, 0x10802, 0x10902, "class is 0x10800 before and 0x10900 here" },
		{ HR_F_HEADER, 0x80, 0, NULL },
		{ HR_F_HEADER, 1, 0, "header is 0x1 before and 0x0 here" },
		{ HR_F_COMMAND, 0xfff9, 0, NULL },
		{ HR_F_COMMAND, HR_COMMAND_MSE, 0, "command is 0x2 before and 0x0 here" },
		{ HR_F_COMMAND, HR_COMMAND_BME, 0, "command is 0x4 before and 0x0 here" },
		{ HR_F_PRIMARY, 1, 2, "primary is 0x1 before and 0x2 here" },
		{ HR_F_SECONDARY, 1, 2, "secondary is 0x1 before and 0x2 here" },
		{ HR_F_SUBORDINATE, 1, 2, "subordinate is 0x1 before and 0x2 here" },
		{ HR_F_PORT, 1, 2, "port_type is 0x1 before and 0x2 here" },
		{ HR_F_EXP, 1, 2, "exp_offset is 0x1 before and 0x2 here" },
		{ HR_F_MPSS, 1, 2, "mps_supported is 0x1 before and 0x2 here" },
		{ HR_F_MPS, 1, 2, "mps is 0x1 before and 0x2 here" },
		{ HR_F_MRRS, 1, 2, "mrrs is 0x1 before and 0x2 here" },
		{ HR_F_SPEED_MAX, 1, 2, "link_speed_max is 0x1 before and 0x2 here" },
		{ HR_F_WIDTH_MAX, 1, 2, "link_width_max is 0x1 before and 0x2 here" },
		{ HR_F_ACS, 1, 2, "acs_offset is 0x1 before and 0x2 here" },
		{ HR_F_ACS_CAP, 0x80, 0, NULL },
		{ HR_F_ACS_CAP, 0x40, 0, "acs_cap is 0x40 before and 0x0 here" },
		{ HR_F_ACS_CTL, 0xff80, 0, NULL },
		{ HR_F_ACS_CTL, 0, 1, "acs_ctl is 0x0 before and 0x1 here" },
		{ HR_F_NUMA, ~0u, 0x7fffffff,
		  "numa_node is 0xffffffff before and 0x7fffffff here" },
		{ HR_F_GROUP, 1, 2, "iommu_group is 0x1 before and 0x2 here" },
		{ HR_F_SPEED, 1, 2, NULL }, /* these may change between two commands */
		{ HR_F_STATUS, 1, 2, NULL },
		{ HR_F_PM, 0, 3, NULL },
	};

	for (size_t i = 0; i < ROWS(row); i++)
		for (enum hr_src a = HR_SRC_NONE; a <= HR_SRC_CONFIG; a++)
			for (enum hr_src b = HR_SRC_NONE; b <= HR_SRC_CONFIG; b++) {
				const bool counts =
					row[i].want && a >= HR_SRC_TEXT && b >= HR_SRC_TEXT;

				clear();
				was.fact[row[i].id] = (struct hr_fact){ row[i].before, (uint8_t)a };
				is.fact[row[i].id] = (struct hr_fact){ row[i].here, (uint8_t)b };
				cr_expect_eq(contradict(), counts, "row %zu: %u %u", i, a, b);
				cr_expect_str_eq(said, counts ? row[i].want : "", "row %zu", i);
				is.fact[row[i].id].value = row[i].before;
				cr_expect_not(contradict(), "row %zu: equal", i);
			}
}

Test(topo_merge, addresses_of_one_source_contradict)
{
	enum { MEM = HR_BAR_MEM, UNASSIGNED = HR_BAR_MEM | HR_BAR_UNASSIGNED };
	static const struct {
		struct hr_bar before, here;
		bool want;
	} row[] = {
		{ { 0x1000, 0, MEM, 3, 0, 0, 0 }, { 0x2000, 0, MEM, 3, 0, 0, 0 }, true },
		{ { 0x1000, 0, MEM, 3, 0, 0, 0 }, { 0x1000, 64, MEM, 3, 4, 0, 0 }, false },
		{ { 0x1000, 0, MEM, 3, 0, 0, 0 }, { 0x2000, 0, MEM, 5, 0, 0, 0 }, false },
		{ { 0x1000, 0, MEM, 3, 0, 0, 0 }, { 0x2000, 0, 0, 3, 0, 0, 0 }, false },
		{ { 0x1000, 0, HR_BAR_64, 3, 0, 0, 0 },
		  { 0x2000, 0, HR_BAR_64, 3, 0, 0, 0 },
		  false },
		{ { 0x1000, 0, MEM, 3, 0, 0, 0 }, { 0x2000, 0, UNASSIGNED, 3, 0, 0, 0 }, false },
		{ { 0x1000, 0, MEM | HR_BAR_UPPER, 3, 0, 0, 0 },
		  { 0x2000, 0, MEM, 3, 0, 0, 0 },
		  false },
	};

	for (size_t i = 0; i < ROWS(row); i++)
		for (unsigned bar = 0; bar < HR_BARS_MAX; bar++) {
			char want[64] = "";

			clear();
			was.bar[bar] = row[i].before;
			is.bar[bar] = row[i].here;
			if (row[i].want)
				snprintf(want, sizeof want,
					 "BAR %u is at 0x1000 before and 0x2000 here", bar);
			cr_expect_eq(contradict(), row[i].want, "row %zu", i);
			cr_expect_str_eq(said, want, "row %zu", i);
		}
}

Test(topo_merge, windows_and_drivers_contradict)
{
	static const struct {
		struct hr_window before, here;
		bool want;
	} row[] = {
		{ { 0x1000, 0x1fff, 3 }, { 0x1000, 0x1fff, 3 }, false },
		{ { 0x1000, 0x1fff, 3 }, { 0x1000, 0x2fff, 3 }, true },
		{ { 0x1000, 0x1fff, 3 }, { 0x1001, 0x1fff, 3 }, true },
		{ { 0x1000, 0x1fff, 3 }, { 0x1000, 0x2fff, 5 }, false },
		{ { 0x1000, 0x1fff, 0 }, { 0x1000, 0x2fff, 0 }, false },
		{ { 0x1000, 0x1fff, 3 }, { 0x2000, 0x1fff, 3 }, true }, /* closed */
		{ { 0x1000, 0x1fff, 3 }, { 0, 0x1fff, 3 }, true },
		{ { 0x3000, 0x1fff, 3 }, { 0, 0, 3 }, false },
		{ { 0x1000, 0x1000, 3 }, { 0, 0, 3 }, true },
	};
	static const struct {
		const char *before, *here, *want;
	} driver[] = {
		{ "nvme", "vfio-pci", "driver is nvme before and vfio-pci here" },
		{ "nvme", "nvme", "" },
		{ "nvme", "", "" },
		{ "nvme", NULL, "" },
		{ "", NULL, "" },
		{ "n", "m", "driver is n before and m here" },
	};

	for (size_t i = 0; i < ROWS(row); i++)
		for (unsigned pref = 0; pref < 2; pref++) {
			clear();
			*(pref ? &was.pref : &was.mem) = row[i].before;
			*(pref ? &is.pref : &is.mem) = row[i].here;
			cr_expect_eq(contradict(), row[i].want, "row %zu", i);
			cr_expect_str_eq(said,
					 !row[i].want ? ""
					 : pref	      ? "prefetchable window is different before"
						      : "memory window is different before",
					 "row %zu", i);
		}
	for (size_t i = 0; i < ROWS(driver); i++) {
		clear();
		was.driver = driver[i].before;
		is.driver = driver[i].here;
		cr_expect_eq(contradict(), driver[i].want[0] != '\0', "row %zu", i);
		cr_expect_str_eq(said, driver[i].want, "row %zu", i);
	}
}

/* ---- merging */

static void fill(struct hr_fn *f, uint32_t n, enum hr_src source)
{
	static uint8_t config[2];
	static const char *const words[][2] = { { "n0", "n1" }, { "d0", "d1" }, { "p0", "p1" },
						{ "c0", "c1" }, { "f0", "f1" }, { "v0", "v1" } };

	for (unsigned i = 0; i < HR_BARS_MAX; i++)
		f->bar[i] = (struct hr_bar){ n, n + 1, HR_BAR_MEM, (uint8_t)source, (uint8_t)source,
					     0, 0 };
	f->mem = (struct hr_window){ n, n + 2, (uint8_t)source };
	f->pref = (struct hr_window){ n, n + 3, (uint8_t)source };
	f->fact[0] = f->fact[HR_FACTS_COUNT - 1] = (struct hr_fact){ n, (uint8_t)source };
	f->config = &config[n & 1];
	f->config_bytes = n;
	f->name = words[0][n & 1];
	f->driver = words[1][n & 1];
	f->pci_slot = words[2][n & 1];
	f->cpus = words[3][n & 1];
	f->fs = words[4][n & 1];
	f->devices = words[5][n & 1];
	f->placed = true;
	f->under = n;
}

#define BARS(n, s, src)                                                                    \
	"bar0=" n "+" s " f1 " src " bar1=" n "+" s " f1 " src " bar2=" n "+" s " f1 " src \
	" bar3=" n "+" s " f1 " src " bar4=" n "+" s " f1 " src " bar5=" n "+" s " f1 " src

Test(topo_merge, the_better_source_stays_and_what_is_unknown_is_added)
{
	static const struct {
		enum hr_src before, here; /* HR_SRC_NONE: nothing known */
		uint32_t bytes;		  /* of the second record: 2 before, an odd number here */
		const char *want;
	} row[] = {
		{ HR_SRC_NONE, HR_SRC_NONE, 0, "" },
		{ HR_SRC_TEXT, HR_SRC_NONE, 0,
		  "vendor=2/3 rdma=2/3 " BARS(
			  "2", "3",
			  "3,3") " mem=2-4/3 pref=2-5/3 name='n0' driver='d0' "
				 "pci_slot='p0' cpus='c0' fs='f0' devices='v0' config=2" },
		{ HR_SRC_NONE, HR_SRC_TEXT, 3,
		  "vendor=3/3 rdma=3/3 " BARS(
			  "3", "4",
			  "3,3") " mem=3-5/3 pref=3-6/3 name='n1' driver='d1' "
				 "pci_slot='p1' cpus='c1' fs='f1' devices='v1' config=3" },
		{ HR_SRC_TEXT, HR_SRC_TEXT, 3,
		  "vendor=3/3 rdma=3/3 " BARS(
			  "3", "4",
			  "3,3") " mem=3-5/3 pref=3-6/3 name='n0' driver='d1' "
				 "pci_slot='p1' cpus='c1' fs='f1' devices='v1' config=3" },
		{ HR_SRC_CONFIG, HR_SRC_TEXT, 1,
		  "vendor=2/5 rdma=2/5 " BARS(
			  "2", "3",
			  "5,5") " mem=2-4/5 pref=2-5/5 name='n0' driver='d1' "
				 "pci_slot='p1' cpus='c1' fs='f1' devices='v1' config=2" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		clear();
		if (row[i].before)
			fill(&was, 2, row[i].before);
		if (row[i].here)
			fill(&is, row[i].bytes, row[i].here);
		hr_function_merge(&was, &is);
		cr_expect_str_eq(fake_described(&was), row[i].want, "row %zu: %s", i,
				 fake_described(&was));
		cr_expect_eq(was.placed, row[i].before || row[i].here);
		cr_expect_eq(was.under,
			     row[i].here     ? row[i].bytes
			     : row[i].before ? 2u
					     : 0u,
			     "row %zu", i);
		cr_expect(!was.config || was.config_bytes == (was.config == is.config && row[i].here
								      ? row[i].bytes
								      : 2u),
			  "row %zu", i);
	}
}

/* Each part has a source of its own; registers of equal size are the later ones. */
Test(topo_merge, parts_are_merged_one_by_one)
{
	static uint8_t first[1], second[1];

	clear();
	was.bar[2] = (struct hr_bar){ 1, 64, HR_BAR_MEM, HR_SRC_CONFIG, HR_SRC_TEXT, 0, 0 };
	is.bar[2] = (struct hr_bar){ 2, 128, HR_BAR_MEM, HR_SRC_SYSFS, HR_SRC_SYSFS, 0, 0 };
	was.bar[3] = (struct hr_bar){ 1, 64, HR_BAR_MEM, HR_SRC_TEXT, HR_SRC_CONFIG, 0, 0 };
	is.bar[3] = (struct hr_bar){ 2, 0, HR_BAR_64, HR_SRC_TEXT, HR_SRC_CONFIG, 0, 0 };
	is.bar[4] = (struct hr_bar){ 3, 0, 0, HR_SRC_CONFIG, HR_SRC_CONFIG, 0, 0 };
	was.bar[5] = (struct hr_bar){ 1, 64, HR_BAR_MEM, HR_SRC_TEXT, HR_SRC_TEXT, 0, 0 };
	is.bar[5] = (struct hr_bar){ 0, 32, HR_BAR_MEM, HR_SRC_TEXT, HR_SRC_TEXT, 0, 0 };
	was.config = first;
	is.config = second;
	was.config_bytes = is.config_bytes = 1;
	hr_function_merge(&was, &is);
	cr_expect_str_eq(fake_described(&was), "bar2=1+80 f1 5,4 bar3=2+40 f2 3,5 bar5=0+20 f1 3,3 "
					       "config=1");
	cr_expect_eq(was.config, second);
	is.config = NULL;
	is.config_bytes = 9;
	hr_function_merge(&was, &is);
	cr_expect_eq(was.config, second);
	cr_expect_eq(was.config_bytes, 1u);
}

Test(topo_merge, access_is_denied_until_the_capabilities_are_known)
{
	for (unsigned bits = 0; bits < 8; bits++) {
		clear();
		was.denied = bits & 1;
		is.denied = bits >> 1 & 1;
		if (bits & 4)
			is.fact[HR_F_CAPS] = (struct hr_fact){ 0, HR_SRC_TEXT };
		hr_function_merge(&was, &is);
		cr_expect_eq(was.denied, bits == 1 || bits == 2 || bits == 3, "%u", bits);
	}
}
