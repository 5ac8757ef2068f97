/* SPDX-License-Identifier: Apache-2.0 */
/* Fixes: all of a fix for several switches, and each reason against one. */
#include "pci/topo/forecast/change.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pci/topo/boot/boot.h"
#include "pci/topo/fields.h"
#include "pci/topo/source/source.h"
#include "tests/harness/box.h"
#include "tests/harness/error.h"
#include "tests/harness/evaluate.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

TestSuite(topo_fix, .init = fake_evaluate_up, .fini = fake_evaluate_down, .timeout = 60);

static struct hr_topo_options opt;
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

Test(topo_fix, a_fix_has_each_port_once)
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
Test(topo_fix, a_fix_has_at_most_256_ports)
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

Test(topo_fix, each_reason_against_a_fix_has_its_text)
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
