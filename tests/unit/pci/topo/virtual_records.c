/* Virtual functions: which ones a capability claims, and what each takes from its physical one. */
#include "pci/topo/virtual.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "pci/topo/fields.h"
#include "tests/harness/described.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

static struct hr_model model;

static void set_up(void)
{
	cr_assert_eq(hr_model_init(&model), 0);
}

static void tear_down(void)
{
	hr_model_fini(&model);
}

TestSuite(topo_virtual_records, .init = set_up, .fini = tear_down, .timeout = 60);

static struct hr_fn *add_to(uint32_t domain, uint32_t id)
{
	struct hr_fn *f = hr_model_add(&model, domain, id >> 8, id >> 3 & 31, id & 7);

	cr_assert_not_null(f);
	f->physfn = HR_NO_FN;
	f->name = "";
	return f;
}

static struct hr_fn *add(uint32_t id)
{
	return add_to(1, id);
}

static void set(struct hr_fn *f, enum hr_fact_id id, uint32_t value)
{
	hr_fn_set(f, id, value, HR_SRC_CONFIG);
}

static void describe(struct hr_fn *f, uint32_t vfs, uint32_t offset, uint32_t stride)
{
	set(f, HR_F_SRIOV, 0x200);
	set(f, HR_F_VF_CTL, HR_SRIOV_ENABLE | HR_SRIOV_MSE);
	set(f, HR_F_VFS, vfs);
	set(f, HR_F_VF_OFFSET, offset);
	set(f, HR_F_VF_STRIDE, stride);
}

static struct hr_fn *physical(uint32_t id, uint32_t vfs, uint32_t offset, uint32_t stride)
{
	struct hr_fn *f = add(id);

	describe(f, vfs, offset, stride);
	return f;
}

Test(topo_virtual_records, a_capability_claims_its_functions)
{
	static const struct {
		uint32_t vfs, offset, stride;
		const char
			*want; /* one letter for each function behind the physical one: v virtual */
	} row[] = {
		{ 0, 1, 1, "......" }, { 1, 1, 1, "v....." }, { 3, 1, 1, "vvv..." },
		{ 6, 1, 1, "vvvvvv" }, { 9, 1, 1, "vvvvvv" }, { 2, 2, 2, ".v.v.." },
		{ 3, 0, 1, "......" }, { 3, 2, 0, ".v...." }, { 2, 5, 1, "....vv" },
		{ 2, 6, 1, ".....v" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		char text[8] = "";

		hr_model_reset(&model);
		physical(0x4100, row[i].vfs, row[i].offset, row[i].stride);
		for (uint32_t k = 1; k <= 6; k++)
			add(0x4100 + k);
		hr_virtual_find(&model);
		for (uint32_t k = 1; k <= 6; k++) {
			const struct hr_fn *f = &model.fn[k];

			text[k - 1] = f->vf ? 'v' : '.';
			cr_expect_eq(f->physfn, f->vf ? 0 : HR_NO_FN, "row %zu, %u", i, k);
			cr_expect_str_eq(fake_described(f),
					 f->vf ? "physical_function=4100/1 vf" : "");
		}
		cr_expect_str_eq(text, row[i].want, "row %zu: %s", i, text);
		cr_expect_not(model.fn[0].vf);
	}
}

Test(topo_virtual_records, what_no_capability_can_claim_is_not_virtual)
{
	struct hr_fn *pf;

	/* A bridge; a function of another domain; one behind the last address. */
	physical(0xfffd, 9, 1, 1);
	set(add(0xfffe), HR_F_HEADER, 1);
	add(0xffff);
	hr_model_add(&model, 2, 0xff, 0x1f, 6);
	hr_model_add(&model, 2, 0, 0, 0);
	hr_virtual_find(&model);
	for (uint32_t i = 0; i < model.count; i++)
		cr_expect_eq(model.fn[i].vf, i == 2, "%u", i);
	/* A capability that is off, or that is none. */
	for (unsigned off = 0; off < 4; off++) {
		hr_model_reset(&model);
		pf = physical(0x4100, 1, 1, 1);
		add(0x4101);
		if (off == 1)
			set(pf, HR_F_VF_CTL, HR_SRIOV_MSE);
		if (off == 2)
			set(pf, HR_F_SRIOV, 0);
		if (off == 3)
			pf->vf = true;
		hr_virtual_find(&model);
		cr_expect_eq(model.fn[1].vf, off == 0, "%u", off);
	}
}

/* Without a stride the first virtual function can be found; without another register none. */
Test(topo_virtual_records, what_is_not_known_claims_nothing)
{
	static const enum hr_fact_id id[] = { HR_F_SRIOV, HR_F_VF_CTL, HR_F_VFS, HR_F_VF_OFFSET,
					      HR_F_VF_STRIDE };

	for (size_t i = 0; i < ROWS(id); i++) {
		hr_model_reset(&model);
		physical(0x4100, 3, 1, 1)->fact[id[i]].source = HR_SRC_NONE;
		add(0x4101);
		add(0x4102);
		hr_virtual_find(&model);
		cr_expect_eq(model.fn[1].vf, id[i] == HR_F_VF_STRIDE, "fact %zu", i);
		cr_expect_not(model.fn[2].vf, "fact %zu", i);
	}
	/* A virtual function claims no others, whatever its registers say. */
	hr_model_reset(&model);
	physical(0x4100, 1, 1, 1);
	physical(0x4101, 1, 1, 1);
	add(0x4102);
	hr_virtual_find(&model);
	cr_expect(model.fn[1].vf);
	cr_expect_not(model.fn[2].vf);
}

/* A statement of sysfs, and a text that looks like that of a virtual function. */
Test(topo_virtual_records, statements_and_texts_make_virtual_functions)
{
	static const struct {
		uint32_t physfn; /* statement; 0: none */
		bool maybe, first, denied, ecaps, want;
		int32_t index;
	} row[] = {
		{ 0x4100, false, true, false, true, true, 0 },
		{ 0x4102, false, true, false, true, true, HR_NO_FN }, /* itself */
		{ 0x4105, false, true, false, true, true, HR_NO_FN }, /* not in the model */
		{ 0, true, true, false, true, false, HR_NO_FN },
		{ 0, true, true, true, true, true, HR_NO_FN },
		{ 0, true, true, false, false, true, HR_NO_FN },
		{ 0, true, false, false, false, true, HR_NO_FN },
		{ 0, false, false, false, false, false, HR_NO_FN },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_fn *f;

		hr_model_reset(&model);
		if (row[i].first) {
			f = add(0x4100);
			f->denied = row[i].denied;
			if (row[i].ecaps)
				set(f, HR_F_ECAPS, 1);
		}
		f = add(0x4102);
		if (row[i].physfn)
			set(f, HR_F_PHYSFN, row[i].physfn);
		f->vf_maybe = row[i].maybe;
		hr_virtual_find(&model);
		f = &model.fn[model.count - 1];
		cr_expect_eq(f->vf, row[i].want, "row %zu", i);
		cr_expect_eq(f->physfn, row[i].index, "row %zu: %d", i, f->physfn);
	}
}

/* ---- what a virtual function takes */

static struct hr_fn *pair(uint32_t n)
{
	static const enum hr_fact_id of_pf[] = { HR_F_MPS,	 HR_F_MRRS,  HR_F_DEVCTL,
						 HR_F_SPEED_MAX, HR_F_SPEED, HR_F_SPEED_TARGET,
						 HR_F_WIDTH_MAX, HR_F_WIDTH, HR_F_ASPM };
	struct hr_fn *pf, *f;

	hr_model_reset(&model);
	pf = physical(0x4100, 8, 2, 2);
	for (unsigned i = 0; i < ROWS(of_pf); i++)
		set(pf, of_pf[i], 0x10 + i);
	set(pf, HR_F_VENDOR, 0x144d);
	set(pf, HR_F_VF_DEVICE, 0xa824);
	f = add(0x4102 + 2 * n);
	f->vf = true;
	f->physfn = 0;
	for (unsigned i = 0; i < ROWS(of_pf); i++)
		set(f, of_pf[i], 0x50 + i);
	set(f, HR_F_COMMAND, 0x404);
	set(f, HR_F_DEVCTL2, 0);
	return f;
}

#define TAKEN                                                                                     \
	"mps=10/5 mrrs=11/5 devctl=12/5 link_speed_max=13/5 link_width_max=16/5 link_speed=14/5 " \
	"link_width=17/5 link_speed_target=15/5 aspm=18/5 devctl2="

Test(topo_virtual_records, registers_of_the_physical_function_count)
{
	struct hr_fn *f = pair(0);

	hr_virtual_complete(&model);
	cr_expect_str_eq(fake_described(f),
			 "vendor=144d/5 device=a824/5 command=406/5 " TAKEN "0/5 vf");
	/* Decoding and tags follow the capability; identifiers of its own stay. */
	f = pair(0);
	set(&model.fn[0], HR_F_VF_CTL, HR_SRIOV_ENABLE | HR_SRIOV_TAG10);
	set(f, HR_F_COMMAND, 0x406);
	set(f, HR_F_VENDOR, 1);
	set(f, HR_F_DEVICE, 2);
	model.fn[0].readdressed = true;
	hr_virtual_complete(&model);
	cr_expect_str_eq(fake_described(f),
			 "vendor=1/5 device=2/5 command=404/5 " TAKEN "1000/5 vf");
	cr_expect(f->readdressed);
	/* Without the physical function they are not known; a statement of the user stays. */
	f = pair(0);
	f->physfn = HR_NO_FN;
	hr_fn_set(f, HR_F_MPS, 256, HR_SRC_USER);
	hr_virtual_complete(&model);
	cr_expect_str_eq(fake_described(f), "command=406/5 mps=100/6 devctl2=0/5 vf");
	/* The physical function itself stays as it is. */
	cr_expect_eq(hr_get(&model.fn[0], HR_F_MPS, 0), 0x10u);
	/* Unknown registers stay unknown. */
	f = pair(0);
	f->fact[HR_F_COMMAND].source = f->fact[HR_F_DEVCTL2].source = HR_SRC_NONE;
	model.fn[0].fact[HR_F_VF_DEVICE].source = HR_SRC_NONE;
	hr_virtual_complete(&model);
	cr_expect_not(hr_known(f, HR_F_COMMAND));
	cr_expect_not(hr_known(f, HR_F_DEVCTL2));
	cr_expect_not(hr_known(f, HR_F_DEVICE));
}

Test(topo_virtual_records, bars_are_parts_of_those_of_the_capability)
{
	enum {
		MEM = HR_BAR_MEM,
		LOST = HR_BAR_MEM | HR_BAR_UNASSIGNED,
		GUESS = HR_SRC_INFERRED,
		SYS = HR_SRC_SYSFS,
		CFG = HR_SRC_CONFIG
	};
	static const struct {
		uint32_t n;
		struct hr_bar all, own;
		const char *want;
	} row[] = {
		{ 0, { 0x1000, 0x100, MEM, CFG, CFG, 0, 0 }, { 0 }, "bar2=1000+100 f1 5,5" },
		{ 1, { 0x1000, 0x100, MEM, CFG, CFG, 0, 0 }, { 0 }, "bar2=1100+100 f1 5,5" },
		{ 3, { 0x1000, 0x100, MEM, CFG, CFG, 0, 0 }, { 0 }, "bar2=1300+100 f1 5,5" },
		{ 3,
		  { 0x1000, 0, MEM, CFG, 0, 0, 0 },
		  { 0, 0x40, MEM, SYS, SYS, 0, 0 },
		  "bar2=10c0+40 f1 5,4" },
		{ 3,
		  { 0x1000, 0x100, MEM, CFG, CFG, 0, 0 },
		  { 0, 0x40, MEM, GUESS, GUESS, 0, 0 },
		  "bar2=1300+100 f1 5,5" },
		{ 3,
		  { 0x1000, 0, MEM, CFG, 0, 0, 0 },
		  { 0x7000, 0, MEM, SYS, 0, 0, 0 },
		  "bar2=7000+0 f1 5,0" },
		{ 0,
		  { 0x1000, 0, MEM, CFG, 0, 0, 0 },
		  { 0x7000, 0, MEM, SYS, 0, 0, 0 },
		  "bar2=1000+0 f1 5,0" },
		{ 3, { 0, 0x100, LOST, CFG, CFG, 0, 0 }, { 0 }, "bar2=0+100 f9 5,5" },
		{ 3,
		  { 0x1000, 0x100, MEM, 0, CFG, 0, 0 },
		  { 0x7000, 64, LOST, SYS, SYS, 0, 0 },
		  "bar2=7000+40 f1 4,4" },
		{ 3,
		  { 0x1000, 0x100, MEM, 0, CFG, 0, 0 },
		  { 0, 64, LOST, SYS, SYS, 0, 0 },
		  "bar2=0+40 f9 4,4" },
		/* A port BAR. */
		{ 3,
		  { 0x1000, 0x100, MEM, 0, CFG, 0, 0 },
		  { 0x7000, 64, HR_BAR_UNASSIGNED, SYS, SYS, 0, 0 },
		  "bar2=7000+40 f8 4,4" },
	};
	char want[512];

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_fn *f = pair(row[i].n);

		model.fn[0].vf_bar[2] = row[i].all;
		f->bar[2] = row[i].own;
		hr_virtual_complete(&model);
		snprintf(want, sizeof want,
			 "vendor=144d/5 device=a824/5 command=406/5 " TAKEN "0/5 %s vf",
			 row[i].want);
		cr_expect_str_eq(fake_described(f), want, "row %zu: %s", i, fake_described(f));
	}
}

/* Without an offset or a stride of the capability they count as 1. */
Test(topo_virtual_records, the_number_of_a_function_follows_its_identifier)
{
	static const struct {
		enum hr_fact_id unknown;
		uint32_t n, want;
	} row[] = {
		{ HR_F_VFS, 0, 0 },	  { HR_F_VFS, 3, 3 },	    { HR_F_VF_STRIDE, 0, 0 },
		{ HR_F_VF_STRIDE, 3, 6 }, { HR_F_VF_OFFSET, 0, 0 }, { HR_F_VF_OFFSET, 3, 3 },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_fn *f = pair(row[i].n);

		model.fn[0].fact[row[i].unknown].source = HR_SRC_NONE;
		model.fn[0].vf_bar[0] = (struct hr_bar){ 0x1000, 0x10, HR_BAR_MEM, 5, 5, 0, 0 };
		hr_virtual_complete(&model);
		cr_expect_eq(f->bar[0].base, 0x1000 + 0x10 * row[i].want, "row %zu: %llx", i,
			     (unsigned long long)f->bar[0].base);
	}
}

/*
 * A capability counts as one more than the functions that it describes: 256 of them make the sum
 * one less than the limit of 2^24, and the next one, which describes none, reaches it.
 */
Test(topo_virtual_records, there_is_a_limit_of_what_all_capabilities_describe)
{
	for (uint32_t domain = 0; domain < 258; domain++)
		describe(add_to(domain, 0), domain == 256 ? 0 : 0xffff, domain == 255 ? 2 : 1, 1);
	hr_virtual_find(&model);
	cr_expect_eq(model.warnings, 1u, "%u", model.warnings);
	cr_expect_str_eq(model.warning[0], "more virtual functions than a machine can have");
}
