/*
 * The live reader and the register writes of a fix: all calls of libpciaccess, in their order, when
 * a device shows only a part of its registers, and when a call fails.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pci/apply.h"
#include "pci/live.h"
#include "pci/topo/change.h"
#include "pci/topo/decode.h"
#include "pci/topo/fields.h"
#include "tests/fakes/pciaccess.h"
#include "tests/fakes/tree.h"
#include "tests/harness/described.h"

static struct hr_model model;

static void set_up(void)
{
	fake_pci_start();
	cr_assert_eq(hr_model_init(&model), 0);
}

static void tear_down(void)
{
	hr_model_fini(&model);
}

TestSuite(live_calls, .init = set_up, .fini = tear_down, .timeout = 60);

/* An Express endpoint with an AER capability at the beginning of the extended space, or not. */
static void set_config(bool express)
{
	static const uint8_t head[] = { 0xde, 0x10, 0x30, 0x23, 0x06, 0x00,
					0x10, 0x00, 0xa1, 0x00, 0x02, 0x03 };

	memset(fake_pci.config, 0, sizeof fake_pci.config);
	memcpy(fake_pci.config, head, sizeof head);
	if (!express)
		return;
	fake_pci.config[0x34] = 0x40;
	fake_pci.config[0x40] = 0x10;
	fake_pci.config[0x42] = 0x02;
	fake_pci.config[0x100] = 1;
	fake_pci.config[0x102] = 1;
	fake_pci.config[4095] = 0x5a;
}

static void add(uint8_t bus, uint32_t bytes, const char *vendor, const char *name)
{
	const unsigned i = fake_pci.devices++;

	fake_pci.device[i] =
		(struct pci_device){ .domain = 0xfff1, .bus = bus, .dev = 0x1f, .func = 7 };
	fake_pci.device[i].domain_16 = 0xfff1;
	fake_pci.bytes[i] = bytes;
	fake_pci.vendor[i] = vendor;
	fake_pci.name[i] = name;
}

Test(live_calls, each_device_is_read_as_far_as_it_shows_its_registers)
{
	static const struct {
		bool express;
		uint32_t bytes, want;
		const char *calls;
	} row[] = {
		{ true, 4096, 4096, "init 9: 0+100 9: 100+f00 destroy cleanup " },
		{ true, 256, 256, "init 9: 0+100 9: 100+f00 destroy cleanup " },
		{ true, 300, 300, "init 9: 0+100 9: 100+f00 destroy cleanup " },
		{ true, 255, 255, "init 9: 0+100 destroy cleanup " },
		{ true, 64, 64, "init 9: 0+100 destroy cleanup " },
		{ false, 4096, 256, "init 9: 0+100 destroy cleanup " },
		{ true, 0, 0, "init 9: 0+100 destroy cleanup " },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const struct hr_fn *f = &model.fn[0];
		char what[16];

		snprintf(what, sizeof what, "row %zu", i);
		hr_model_reset(&model);
		fake_pci.devices = 0;
		set_config(row[i].express);
		add(9, row[i].bytes, "V", "D");
		cr_expect_eq(hr_source_live(&model), 0, "%s: %s", what, model.error.text);
		fake_pci_expect(row[i].calls, what);
		cr_assert_eq(model.count, 1u);
		cr_expect_eq(f->denied, row[i].bytes <= 64, "%s", what);
		cr_expect_eq(f->config_bytes, row[i].want, "%s: %u", what, f->config_bytes);
		cr_expect(!row[i].want || memcmp(f->config, fake_pci.config, row[i].want) == 0);
		cr_expect_eq(hr_get(f, HR_F_DEVICE, 0), row[i].want ? 0x2330u : 0u, "%s", what);
		cr_expect_eq(hr_known(f, HR_F_EXP), row[i].bytes > 64, "%s", what);
		cr_expect(f->domain == 0xfff1 && f->bus == 9 && f->dev == 0x1f && f->fn == 7);
		cr_expect_str_eq(f->name, "V D");
	}
	cr_expect_str_eq(model.input, "live");
	cr_expect(model.sys.live);
}

Test(live_calls, a_title_has_the_names_that_are_known)
{
	set_config(true);
	add(3, 256, "Maker", "Card");
	add(4, 256, "Maker", NULL);
	add(5, 256, NULL, "Card");
	add(6, 256, NULL, NULL);
	cr_assert_eq(hr_source_live(&model), 0, "%s", model.error.text);
	cr_assert_eq(model.count, 4u);
	for (unsigned i = 0; i < 4; i++) {
		static const char *const want[] = { "Maker Card", "Maker", "Card", "" };

		cr_expect_str_eq(model.fn[i].name, want[i]);
		cr_expect_eq(model.fn[i].bus, 3 + i);
	}
}

Test(live_calls, a_machine_that_cannot_be_read_is_named)
{
	fake_pci.failing = "init";
	fake_pci.failing_at = 1;
	fake_pci.failing_with = ENOENT;
	cr_expect_eq(hr_source_live(&model), -ENODEV);
	cr_expect_str_eq(model.error.text, "this machine has no accessible PCI bus");
	cr_expect_eq(model.error.kind, HR_ERROR_USAGE);
	fake_pci_expect("init ", "no bus");
	fake_pci.failing = NULL;
	hr_error_clear(&model.error);
	cr_expect_eq(hr_source_live(&model), -ENODATA);
	cr_expect_str_eq(model.error.text, "this machine has no PCI function");
	cr_expect_eq(model.error.kind, HR_ERROR_USAGE);
	fake_pci_expect("init destroy cleanup ", "no function");
	add(3, 256, NULL, NULL);
	fake_pci.failing = "all";
	fake_pci.failing_at = 1;
	hr_error_clear(&model.error);
	cr_expect_eq(hr_source_live(&model), -ENODATA);
	fake_pci_expect("init destroy none cleanup ", "no iterator");
	/* An address that cannot be; the devices behind it are not read. */
	fake_pci.failing = NULL;
	hr_error_clear(&model.error);
	add(4, 256, NULL, NULL);
	add(5, 256, NULL, NULL);
	fake_pci.device[1].dev = 32;
	cr_expect_eq(hr_source_live(&model), -E2BIG);
	fake_pci_expect("init 3: 0+100 destroy cleanup ", "impossible");
}

/* Registers first, then sysfs; the tree of the machine is linked. */
static int read_tree(void *arg)
{
	const struct hr_fn *f = &model.fn[1];

	if (hr_source_live(&model) || model.count != 2)
		return 1;
	fake_pci_say("%s\n", fake_described(f));
	return f->line == 0 && model.sys.kernel[0] && model.root_buses == 2 &&
			       model.root_bus[1].first == 1 && f->parent == HR_NO_FN
		       ? 0
		       : 2;
}

Test(live_calls, sysfs_completes_what_the_registers_say)
{
	struct fake_tree tree;
	int step;

	set_config(true);
	add(9, 4096, "V", "D");
	add(3, 4096, "V", "D");
	fake_tree_make(&tree);
	fake_tree_add(&tree,
		      &(struct fake_tree_fn){ "fff1:09:1f.7", 0, "nvidia", 12, 0x4000, 0x1000, 0 });
	step = fake_tree_run(&tree, read_tree, NULL);
	fake_tree_expect(&tree, step, "step %d", step);
	fake_tree_remove(&tree);
	fake_pci_expect(
		"init 9: 0+100 9: 100+f00 3: 0+100 3: 100+f00 destroy cleanup vendor=10de/5 "
		"device=2330/5 class=30200/5 revision=a1/5 header=0/5 command=6/5 status=10/5 "
		"caps=1/5 ecaps=1/5 port_type=0/5 exp_offset=40/5 mps_supported=80/5 mps=80/5 "
		"mrrs=80/5 devctl=0/5 devsta=0/5 port_number=0/5 link_speed_max=0/5 "
		"link_width_max=0/5 link_speed=0/5 link_width=0/5 link_speed_target=0/5 "
		"dl_active_reporting=0/5 dl_active=0/5 aspm=0/5 devcap2=0/5 devctl2=0/5 "
		"acs_offset=0/5 ats_offset=0/5 aer_uesta=0/5 aer_cesta=0/5 iommu_group=c/4 "
		"bar0=0+4000 fb 4,4 bar1=0+0 f8 5,0 bar2=0+0 f8 5,0 bar3=0+0 f8 5,0 bar4=0+0 f8 5,0 "
		"bar5=0+0 f8 5,0 name='V D' driver='nvidia' config=4096\n",
		"all");
}

/* ---- register writes of a fix */

#define WORD 0x156u /* ACS control in a word, and in a long word with the capability's bits below */
#define LONG 0x154u

static void plan(struct hr_fix *fix)
{
	static const struct {
		uint32_t bus;
	} fn[] = { { 3 }, { 4 }, { 5 } };

	memset(fix, 0, sizeof *fix);
	for (unsigned i = 0; i < 3; i++)
		cr_assert_not_null(hr_model_add(&model, 1, fn[i].bus, i, 7 - i));
	for (unsigned i = 0; i < 2; i++)
		fix->write[i] = (struct hr_fix_write){ .fn = (int32_t)i,
						       .offset = i ? LONG : WORD,
						       .width = i ? 4 : 2 };
	fix->count = 2;
	memset(fake_pci.config, 0, sizeof fake_pci.config);
	fake_pci.config[WORD] = 0x1d;
	fake_pci.config[LONG] = 0x5f;
}

#define FIRST "init find 1:3:0.7 read 156 "
#define SECOND "find 1:4:1.6 read32 154 "

Test(live_calls, a_fix_clears_redirect_in_its_registers_and_stops_at_a_failure)
{
	static const struct {
		const char *call;
		unsigned at;
		int want;
		unsigned failed;
		uint32_t stuck;
		const char *calls;
	} row[] = {
		{ .failed = 1,
		  .calls = FIRST "write 156=0011 read 156 " SECOND
				 "write32 154=110053 read32 154 cleanup " },
		{ "init", 1, -ENODEV, 9, .calls = "init " },
		{ "find", 1, -ENODEV, 0, .calls = "init find 1:3:0.7 cleanup " },
		{ "find", 2, -ENODEV, 1,
		  .calls = FIRST "write 156=0011 read 156 find 1:4:1.6 cleanup " },
		{ "read", 1, -EACCES, 0, .calls = FIRST "cleanup " },
		{ "write", 1, -EACCES, 0, .calls = FIRST "write 156=0011 cleanup " },
		{ "read", 2, -EACCES, 0, .calls = FIRST "write 156=0011 read 156 cleanup " },
		{ "read", 2, -EIO, 0, 1, .calls = FIRST "write 156=0011 read 156 cleanup " },
		{ "read32", 1, -EACCES, 1,
		  .calls = FIRST "write 156=0011 read 156 " SECOND "cleanup " },
		{ "write32", 1, -EACCES, 1,
		  .calls = FIRST "write 156=0011 read 156 " SECOND "write32 154=110053 cleanup " },
		{ "read32", 2, -EACCES, 1,
		  .calls = FIRST "write 156=0011 read 156 " SECOND
				 "write32 154=110053 read32 154 cleanup " },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_fix fix;
		unsigned failed = 9;
		char what[16];

		snprintf(what, sizeof what, "row %zu", i);
		hr_model_reset(&model);
		plan(&fix);
		fake_pci.failing = row[i].call;
		fake_pci.failing_at = row[i].at;
		fake_pci.failing_with = row[i].stuck ? -1 : EIO; /* -1: all ones are read back */
		cr_expect_eq(hr_fix_write_all(&model, &fix, &failed), row[i].want, "%s", what);
		cr_expect_eq(failed, row[i].failed, "%s: %u", what, failed);
		fake_pci_expect(row[i].calls, what);
		if (row[i].call)
			continue;
		cr_expect(fix.write[0].before == 0x1d && fix.write[0].after == 0x11);
		cr_expect(fix.write[1].before == 0x11005f && fix.write[1].after == 0x110053);
	}
}
