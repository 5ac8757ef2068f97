/* Changes: the text of each refusal, what a change sets, and all of a fix for several switches. */
#include "pci/topo/change.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pci/topo/bootmodel.h"
#include "pci/topo/fields.h"
#include "pci/topo/source.h"
#include "tests/harness/box.h"
#include "tests/harness/error.h"
#include "tests/harness/evaluate.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

TestSuite(topo_change_texts, .init = fake_evaluate_up, .fini = fake_evaluate_down, .timeout = 60);

static struct hr_options opt;
static uid_t user;

uid_t geteuid(void)
{
	return user;
}

static void load(void)
{
	cr_assert_eq(fake_load(&machine, &model), 0, "%s", model.error.text);
	cr_assert_eq(hr_topology_init(&topology, &model, &opt), 0);
}

Test(topo_change_texts, each_refusal_has_its_text)
{
	static const struct {
		const char *change, *want;
	} row[] = {
		{ "", "a change has a value, like acs:all=clear" },
		{ "acs:02:00.0", "a change has a value, like acs:all=clear" },
		{ "colour:03:00.0=red",
		  "a change begins with acs:, mps:, link:, move:, iommu= or boot=" },
		{ "acs:02:00.0=maybe", "ACS is clear, set, or a value up to 7f: 'maybe'" },
		{ "acs:02:00.0=80", "ACS is clear, set, or a value up to 7f: '80'" },
		{ "acs:03:00.0=clear",
		  "the function has no ACS capability, or it was not read: 'clear'" },
		{ "acs:77:00.0=clear", "there is no function '77:00.0'" },
		{ "acs:02:00.0x=clear", "there is no function '02:00.0x'" },
		{ "acs:=clear", "there is no function ''" },
		{ "acs:all=zz", "no function can take that value: 'zz'" },
		{ "mps:all=100", "no function can take that value: '100'" },
		{ "link:all=full", "there is no function 'all'" },
		{ "move:all=00:01.0", "there is no function 'all'" },
		{ "mps:03:00.0=127", "MPS is 128, 256, 512, 1024, 2048 or 4096: '127'" },
		{ "mps:03:00.0=129", "MPS is 128, 256, 512, 1024, 2048 or 4096: '129'" },
		{ "mps:03:00.0=8192", "MPS is 128, 256, 512, 1024, 2048 or 4096: '8192'" },
		{ "mps:03:00.0=0x80", "MPS is 128, 256, 512, 1024, 2048 or 4096: '0x80'" },
		{ "mps:03:00.0=512", "the function does not support that payload: '512'" },
		{ "link:03:00.0=half", "a link is set to full: 'half'" },
		{ "move:03:00.0=04:00.0",
		  "a card moves below a bridge of this machine: '04:00.0'" },
		{ "move:03:00.0=77:00.0",
		  "a card moves below a bridge of this machine: '77:00.0'" },
		{ "move:05:00.0=01:00.0",
		  "a card does not fit below the upstream port of a switch: '01:00.0'" },
		{ "move:02:00.0=02:00.0", "a card cannot move below itself: '02:00.0'" },
		{ "move:01:00.0=02:00.0", "a card cannot move below itself: '02:00.0'" },
		{ "iommu=", "the IOMMU is off, pt or on: ''" },
		{ "iommu=of", "the IOMMU is off, pt or on: 'of'" },
	};

	load();
	for (size_t i = 0; i < ROWS(row); i++) {
		cr_expect_eq(hr_change_apply(&model, &opt, row[i].change, test_error()), -EINVAL,
			     "%s", row[i].change);
		cr_expect_str_eq(test_error_text(), row[i].want, "%s", row[i].change);
		cr_expect_eq(test_error_kind(), HR_ERROR_USAGE);
	}
	cr_expect_not(model.regrouped);
	cr_expect_not(model.booted);
}

Test(topo_change_texts, boots_are_refused_with_what_is_missing)
{
	static const struct {
		const char *head, *first, *change, *want;
	} row[] = {
		{ "headrace: iommu=1\n", NULL, "boot=intel_iommu=on",
		  "the kernel's build decides between passthrough and translation: add iommu=pt or "
		  "iommu.passthrough=0" },
		{ "", NULL, "boot=quiet",
		  "the kernel's build decides whether the IOMMU comes up: add intel_iommu=on or "
		  "intel_iommu=off, or use iommu=" },
		{ "headrace: iommu=2\n", "iommu=off", "iommu=on",
		  "one boot at a time: iommu= or boot=, with all its words: 'on'" },
		{ "headrace: iommu=2\n", "boot=quiet", "boot=iommu=pt",
		  "one boot at a time: iommu= or boot=, with all its words: 'iommu=pt'" },
	};
	static char text[HR_BOOT_LINE_MAX + 8], want[200];

	for (size_t i = 0; i < ROWS(row); i++) {
		memset(&opt, 0, sizeof opt);
		snprintf(machine.head, sizeof machine.head, "%s", row[i].head);
		load();
		if (row[i].first)
			cr_assert_eq(hr_change_apply(&model, &opt, row[i].first, test_error()), 0);
		cr_expect_eq(hr_change_apply(&model, &opt, row[i].change, test_error()), -EINVAL);
		cr_expect_str_eq(test_error_text(), row[i].want, "row %zu", i);
		cr_expect_eq(test_error_kind(), HR_ERROR_USAGE);
	}
	/* The command line and the words fill the line; one byte more does not fit. */
	for (unsigned more = 0; more < 2; more++) {
		memset(&opt, 0, sizeof opt);
		snprintf(machine.head, sizeof machine.head, "headrace: iommu=2\n");
		load();
		strcpy(model.sys.cmdline, "quiet");
		strcpy(text, "boot=");
		memset(text + 5, 'x', HR_BOOT_LINE_MAX - 7 + more);
		text[5 + HR_BOOT_LINE_MAX - 7 + more] = '\0';
		cr_expect_eq(hr_change_apply(&model, &opt, text, test_error()), more ? -EINVAL : 0);
		snprintf(want, sizeof want, "the command line is too long: '%.100s'", text + 5);
		cr_expect_str_eq(test_error_text(), more ? want : "", "%u", more);
	}
}

/* ---- what a change sets */

struct setting {
	const char *change;
	const char *at;
	enum hr_fact_id id;
	uint32_t want;
};

Test(topo_change_texts, a_change_sets_its_facts_and_no_others)
{
	static const struct setting row[] = {
		{ "acs:02:00.0=set", "02:00.0", HR_F_ACS_CTL, 0x1d },
		{ "acs:02:00.0=2c", "02:00.0", HR_F_ACS_CTL, 0x2c },
		{ "mps:03:00.0=128", "03:00.0", HR_F_MPS, 128 },
		{ "mps:03:00.0=256", "03:00.0", HR_F_MPS, 256 },
		{ "mps:05:00.0=4096", "05:00.0", HR_F_MPS, 4096 },
		/* The smaller maximum of both ends of the link. */
		{ "link:03:00.0=full", "03:00.0", HR_F_SPEED, 3 },
		{ "link:03:00.0=full", "03:00.0", HR_F_WIDTH, 8 },
		{ "link:05:00.0=full", "05:00.0", HR_F_SPEED, 4 },
		{ "link:05:00.0=full", "05:00.0", HR_F_WIDTH, 4 },
		{ "link:00:01.0=full", "00:01.0", HR_F_SPEED, 4 },
		{ "link:00:01.0=full", "00:01.0", HR_F_WIDTH, 16 },
	};

	fake_put(fake_find(&machine, "02:00.0"), FAKE_EXP + HR_EXP_LNKCAP, 4, 8 << 4 | 3);
	fake_put(fake_find(&machine, "05:00.0"), FAKE_EXP + HR_EXP_DEVCAP, 4, 5);
	for (size_t i = 0; i < ROWS(row); i++) {
		const bool acs = row[i].id == HR_F_ACS_CTL;

		load();
		cr_assert_eq(hr_change_apply(&model, &opt, row[i].change, test_error()), 0, "%s",
			     test_error_text());
		cr_expect_eq(model.regrouped, acs, "%s", row[i].change);
		for (uint32_t k = 0; k < model.count; k++)
			for (unsigned id = 0; id < HR_FACTS_COUNT; id++) {
				const struct hr_fact *fact = &model.fn[k].fact[id];
				const bool here = k == (uint32_t)fake_at(row[i].at) &&
						  (id == row[i].id ||
						   (!strncmp(row[i].change, "link", 4) &&
						    (id == HR_F_SPEED || id == HR_F_WIDTH)));

				cr_expect_eq(fact->source == HR_SRC_USER, here, "%s",
					     row[i].change);
			}
		cr_expect_eq(hr_get(&model.fn[fake_at(row[i].at)], row[i].id, 0), row[i].want,
			     "%s: %u", row[i].change,
			     hr_get(&model.fn[fake_at(row[i].at)], row[i].id, 0));
	}
}

Test(topo_change_texts, all_functions_of_a_slot_move)
{
	struct hr_fn *port;

	fake_function(&machine, "05:00.1", 0x040300, 0x10de, 1, HR_PORT_ENDPOINT);
	fake_function(&machine, "05:01.0", 0x040300, 0x10de, 1, HR_PORT_ENDPOINT);
	load();
	port = &model.fn[fake_at("02:01.0")];
	hr_fn_set(port, HR_F_NUMA, 3, HR_SRC_SYSFS);
	cr_assert_eq(hr_change_apply(&model, &opt, "move:05:00.1=02:01.0", test_error()), 0);
	cr_expect(model.regrouped);
	for (uint32_t i = 0; i < model.count; i++) {
		const struct hr_fn *f = &model.fn[i];
		const bool moved = f->bus == 5 && f->dev == 0;

		cr_expect_eq(f->placed, moved, "%x:%x.%x", f->bus, f->dev, f->fn);
		cr_expect_eq(f->readdressed, moved);
		cr_expect(!moved || f->under == hr_address(port));
		cr_expect(!moved || hr_get(f, HR_F_NUMA, 0) == 3);
	}
	cr_assert_eq(hr_model_link(&model), 0);
	cr_expect_eq(hr_change_check(&model, test_error()), -EINVAL);
	cr_expect_str_eq(
		test_error_text(),
		"0000:05:00.0 cannot go to 0000:02:01.0, which holds 0000:04:00.0: move that too");
	cr_expect_eq(test_error_kind(), HR_ERROR_USAGE);
	/* Below a bridge to conventional PCI there may be several cards. */
	hr_fn_set(&model.fn[fake_at("02:01.0")], HR_F_PORT, HR_PORT_TO_PCI, HR_SRC_USER);
	cr_expect_eq(hr_change_check(&model, test_error()), 0);
}

Test(topo_change_texts, all_changes_what_can_be_changed)
{
	load();
	cr_expect_eq(hr_change_apply(&model, &opt, "acs:all=5", test_error()), 0);
	cr_expect_str_eq(test_error_text(), "");
	for (uint32_t i = 0; i < model.count; i++)
		cr_expect_eq(hr_get(&model.fn[i], HR_F_ACS_CTL, 0),
			     hr_get(&model.fn[i], HR_F_ACS, 0) ? 5u : 0u);
	load();
	cr_expect_eq(hr_change_apply(&model, &opt, "mps:all=128", test_error()), 0);
	for (uint32_t i = 0; i < model.count; i++)
		cr_expect(!hr_known(&model.fn[i], HR_F_MPS) ||
			  hr_get(&model.fn[i], HR_F_MPS, 0) == 128);
}

/* ---- a fix for two switches with a GPU and two SSDs each */

static bool second_ssds(void *to, const struct hr_pair *p)
{
	++*(unsigned *)to;
	return model.fn[p->ssd].bus % 2 == 0;
}

static void expect_fix(const struct hr_fix *fix, const char *want)
{
	char text[512] = "", bdf[HR_BDF_MAX];
	size_t used = 0;

	used += (size_t)snprintf(
		text, sizeof text,
		"%llu pairs %llu boot %llu unread:", (unsigned long long)fix->pairs,
		(unsigned long long)fix->boot_pairs, (unsigned long long)fix->unread);
	for (unsigned i = 0; i < fix->count; i++)
		used += (size_t)snprintf(text + used, sizeof text - used, " %s+%x/%u %x>%x",
					 hr_bdf(&model.fn[fix->write[i].fn], bdf) + 5,
					 fix->write[i].offset, fix->write[i].width,
					 fix->write[i].before, fix->write[i].after);
	used += (size_t)snprintf(text + used, sizeof text - used, " boot");
	for (unsigned i = 0; i < fix->boots; i++)
		used += (size_t)snprintf(text + used, sizeof text - used, " %s",
					 hr_bdf(&model.fn[fix->boot[i]], bdf) + 5);
	cr_expect_str_eq(text, want, "%s", text);
}

Test(topo_change_texts, a_fix_has_each_port_once)
{
	struct hr_fix fix;
	unsigned asked = 0;

	memset(&machine, 0, sizeof machine);
	fake_box(&machine, 2, 1, 2);
	for (unsigned i = 0; i < 3; i++)
		fake_put(fake_box_port(&machine, 1, i), ACS, 2, 0x1d);
	snprintf(machine.head, sizeof machine.head, "headrace: iommu=2\n");
	load();
	cr_assert_eq(hr_fix_plan(&topology, NULL, NULL, &fix), 0);
	expect_fix(&fix, "2 pairs 2 boot 0 unread: 07:00.0+156/2 1d>11 07:01.0+156/2 1d>11 "
			 "07:02.0+156/2 1d>11 boot 02:00.0 02:01.0 01:00.0 02:02.0 07:00.0 07:01.0 "
			 "06:00.0 07:02.0");
	cr_expect_str_eq(hr_fix_list(&model, &fix),
			 "0000:02:00.0;0000:02:01.0;0000:01:00.0;0000:02:02.0;0000:07:00.0;"
			 "0000:07:01.0;0000:06:00.0;0000:07:02.0");
	cr_assert_eq(hr_fix_plan(&topology, second_ssds, &asked, &fix), 0);
	/* The SSDs on buses 04 and 0a. */
	expect_fix(&fix, "1 pairs 1 boot 0 unread: 07:00.0+156/2 1d>11 07:02.0+156/2 1d>11 boot "
			 "02:00.0 02:01.0 01:00.0 07:00.0 07:02.0 06:00.0");
	cr_expect_eq(asked, 4u, "%u", asked);
	hr_fix_assume(&model, &fix);
	cr_expect(model.regrouped);
	fix.count = fix.boots = 0;
	cr_expect_str_eq(hr_fix_list(&model, &fix), "");
	hr_fix_assume(&model, &fix);
	cr_expect_not(model.regrouped);
	model.reserved = model.used;
	cr_expect_null(hr_fix_list(&model, &fix));
}

/*
 * Add the dump of switches in a PCI domain of their own. now: their ports redirect, and the kernel
 * cannot set that; else they do not redirect, and the kernel will set it.
 */
static void add_boxes(FILE *dump, unsigned domain, unsigned switches, unsigned ssds, bool now)
{
	char *text;
	size_t size;

	fake_box(&machine, switches, 1, ssds);
	for (unsigned i = 0; i < machine.count; i++) {
		struct fake_fn *f = &machine.fn[i];
		char address[16];

		snprintf(address, sizeof address, "%04x:%.8s", domain, f->address);
		strcpy(f->address, address);
		f->bytes = 512;
		if (!fake_get(f, FAKE_ACS + HR_ACS_CAP, 2))
			continue;
		fake_put(f, FAKE_ACS + HR_ACS_CAP, 2, now ? HR_ACS_SV : 0x5f);
		fake_put(f, ACS, 2, now ? HR_ACS_RR : 0);
	}
	text = fake_render(&machine, &size);
	fwrite(text, 1, size, dump);
	free(text);
}

/* Ports that a register write changes, or ports that the boot parameter names. */
Test(topo_change_texts, a_fix_has_at_most_256_ports)
{
	for (unsigned row = 0; row < 4; row++) {
		const bool now = row & 1, over = row & 2;
		struct hr_fix fix;
		size_t size;
		char *text;
		FILE *dump = open_memstream(&text, &size);

		fputs("headrace: iommu=2\n", dump);
		/* Each switch has a port up and one for each card. */
		for (unsigned domain = 0; domain < 4; domain++)
			add_boxes(dump, domain, 2, 29, now);
		add_boxes(dump, 4, 1, over ? 7 : 6, now);
		fclose(dump);
		hr_model_reset(&model);
		cr_assert_eq(hr_source_parse(&model, "x", text, size), 0, "%s", model.error.text);
		free(text);
		cr_assert_eq(hr_topology_init(&topology, &model, &opt), 0);
		cr_expect_eq(hr_fix_plan(&topology, NULL, NULL, &fix), over ? -ENOSPC : 0, "row %u",
			     row);
		cr_expect_eq(fix.count, now ? 256u : 0, "row %u: %u", row, fix.count);
		cr_expect_eq(fix.boots, now ? 0 : 256u, "row %u: %u", row, fix.boots);
	}
}

Test(topo_change_texts, each_reason_against_a_fix_has_its_text)
{
	static const struct {
		const char *want; /* "": it is not refused */
		unsigned count;
		uint64_t unread;
		bool live;
		const char *lockdown;
		uid_t user;
		bool mounted;
	} row[] = {
		{ "nothing to fix: no pair shares a switch and is redirected", 0, 0, true, "", 0,
		  false },
		{ "ACS of the switches was not read", 0, 1, true, "", 0, false },
		{ "the input is a capture, not this machine", 1, 1, false, "", 0, false },
		{ "kernel lockdown (integrity): use the boot parameter", 1, 0, true, "integrity", 0,
		  false },
		{ "registers can be written by root only", 1, 0, true, "none", 1, true },
		{ "0000:04:00.0: a file system on this disk is mounted", 1, 0, true, "", 0, true },
		{ "", 1, 0, true, "none", 0, false },
	};

	fake_put(fake_find(&machine, "02:00.0"), ACS, 2, HR_ACS_RR);
	load();
	/* A disk whose path the fix does not change may be mounted. */
	hr_fn_set(&model.fn[fake_at(OTHER)], HR_F_MOUNTED, 1, HR_SRC_USER);
	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_fix fix = { .count = row[i].count, .unread = row[i].unread };

		model.sys.live = row[i].live;
		strcpy(model.sys.lockdown, row[i].lockdown);
		user = row[i].user;
		hr_fn_set(&model.fn[fake_at(SIBLING)], HR_F_MOUNTED, row[i].mounted, HR_SRC_USER);
		cr_expect_eq(hr_fix_refused(&topology, &fix, test_error()), row[i].want[0] != '\0');
		cr_expect_str_eq(test_error_text(), row[i].want, "row %zu", i);
		cr_expect_eq(test_error_kind(), row[i].want[0] ? HR_ERROR_MISSING : HR_ERROR_NONE);
	}
}
