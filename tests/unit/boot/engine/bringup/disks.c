/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of the configuration that name one disk, or two disks of one controller. */
#include "boot/engine/bringup/disks.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/base/log.h"
#include "tests/fakes/log.h"

TestSuite(disks, .timeout = 60);

static struct hr_engine engine;

static int check(const char *first, uint32_t first_ns, const char *second, uint32_t second_ns)
{
	memset(&engine.error, 0, sizeof engine.error);
	engine.config.ssds = 2;
	engine.config.file = "f";
	for (unsigned i = 0; i < 2; i++) {
		struct hr_config_ssd *ssd = &engine.config.ssd[i];

		snprintf(ssd->name, sizeof ssd->name, "%c", 'a' + (int)i);
		snprintf(ssd->device, sizeof ssd->device, "%s", i ? second : first);
		ssd->nsid = i ? second_ns : first_ns;
		ssd->line = 10 + i;
	}
	cr_expect_eq(hr_disk_check_device(&engine, 0), 0, "nothing is before the first");
	return hr_disk_check_device(&engine, 1);
}

Test(disks, a_function_is_known_in_any_spelling)
{
	static const char *const same[] = { "pci:0000:03:1f.7", "pci:03:1f.7" };

	for (unsigned i = 0; i < 4; i++) {
		const char *a = same[i & 1], *b = same[i >> 1];

		cr_expect_eq(check(a, 1, b, 1), -EINVAL);
		cr_expect(strstr(engine.error.text,
				 "f:11: ssd 'b' and ssd 'a' (line 10) are the same disk: "
				 "namespace 1 of the controller "),
			  "%s", engine.error.text);
		cr_expect_eq(check(a, 1, b, 2), 0, "two namespaces");
	}
}

Test(disks, two_namespaces_of_a_function_have_one_driver)
{
	cr_expect_eq(check("vfio:03:00.0", 1, "pci:03:00.0", 2), -EINVAL);
	cr_expect(strstr(engine.error.text,
			 "ssd 'b' (pci:03:00.0) and ssd 'a' (vfio:03:00.0, line 10) are of the "
			 "same controller; expected pci: in both lines, or vfio:"),
		  "%s", engine.error.text);
	cr_expect_eq(check("vfio:03:00.0", 1, "vfio:0000:03:00.0", 2), 0);
	cr_expect_eq(check("vfio:03:00.0", 3, "pci:03:00.0", 3), -EINVAL);
	cr_expect(strstr(engine.error.text, "are the same disk"), "%s", engine.error.text);
}

/* Each part of the address counts. */
Test(disks, other_functions_are_other_disks)
{
	static const char *const other[] = {
		"pci:0000:03:00.1",
		"pci:0000:03:01.0",
		"pci:0000:02:00.0",
		"pci:0001:03:00.0",
		"pci:0000:13:00.0",
		"pci:0000:00:03.0",
		"pci:10000:03:00.0",
		"kernel:03:00.0",
		"soft:03:00.0",
		"pci:03:00",
		"pci:",
		"pci",
	};

	for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
		cr_expect_eq(check("pci:0000:03:00.0", 1, other[i], 1), 0, "%s: %s", other[i],
			     engine.error.text);
		cr_expect_eq(check(other[i], 1, "pci:0000:03:00.0", 1), 0, "%s: %s", other[i],
			     engine.error.text);
	}
}

/* Memory belongs to one line, unless it has several namespaces. */
Test(disks, soft_controllers_are_shared_by_their_namespaces)
{
	static const char two[] = "soft:memory,size=64M,namespaces=2";

	cr_expect_eq(check(two, 1, two, 2), 0);
	cr_expect_eq(check(two, 2, two, 2), -EINVAL);
	cr_expect_eq(check("soft:memory,size=64M", 1, "soft:memory,size=64M", 1), 0);
	cr_expect_eq(check(two, 1, "soft:memory,size=64M,namespaces=3", 1), 0);
}

/* ---- disks that are up */

/* Ssds a, b and c of the lines 10, 11 and 12: namespaces of three controllers, with an NGUID each. */
static void up(void)
{
	memset(&engine, 0, sizeof engine);
	engine.config.ssds = 3;
	engine.config.file = "f";
	for (unsigned i = 0; i < 3; i++) {
		struct hr_ssd *ssd = &engine.ssd[i];

		snprintf(engine.config.ssd[i].name, HR_NAME_MAX, "%c", 'a' + (int)i);
		snprintf(ssd->transport.name, sizeof ssd->transport.name, "t%u", i);
		engine.config.ssd[i].line = 10 + i;
		ssd->blk = &ssd->disk.blk;
		ssd->controller = (struct hr_ssd_controller *)(void *)&engine.run[i];
		ssd->ns.nsid = 5 + i;
		ssd->ns.nguid[0] = (uint8_t)(1 + i);
		ssd->ns.uuid[0] = 9;
		strcpy(ssd->ns.serial, "S");
		ssd->has_store = true;
		ssd->store.uuid[15] = (uint8_t)(1 + i);
	}
}

Test(disks, namespaces_with_one_identifier_are_one_disk)
{
	static const char *const want =
		"f:12: ssd 'c' (t2) and ssd 'b' (t1, line 11) are the same disk: both report the "
		"same NGUID%s; expected a disk once, in one of the two lines";
	char text[512];

	up();
	for (uint32_t d = 0; d < 3; d++)
		cr_expect_eq(hr_disk_check_same(&engine, d), 0, "%s", engine.error.text);
	for (int shared = 0; shared < 2; shared++) {
		up();
		engine.ssd[2].ns.nguid[0] = 2;
		engine.ssd[2].ns.shared = shared;
		snprintf(text, sizeof text, want,
			 shared ? " of a namespace that several controllers share" : "");
		cr_expect_eq(hr_disk_check_same(&engine, 1), 0);
		cr_expect_eq(hr_disk_check_same(&engine, 2), -EINVAL);
		cr_expect_str_eq(engine.error.text, text, "%s", engine.error.text);
		cr_expect_eq(engine.error.kind, HR_ERROR_USAGE);
		hr_error_clear(&engine.error);
		cr_expect_eq(hr_disk_check(&engine, 2), -EINVAL);
		cr_expect_str_eq(engine.error.text, text);
		hr_error_clear(&engine.error);
		/* two namespaces of one controller differ, and disks of the kernel are unknown */
		engine.ssd[2].controller = engine.ssd[1].controller;
		cr_expect_eq(hr_disk_check_same(&engine, 2), 0);
		engine.ssd[2].controller = NULL;
		engine.ssd[2].blk = &engine.ssd[2].kernel.blk;
		cr_expect_eq(hr_disk_check_same(&engine, 2), 0);
		engine.ssd[2].blk = &engine.ssd[2].disk.blk;
		engine.ssd[1].blk = &engine.ssd[1].kernel.blk;
		cr_expect_eq(hr_disk_check_same(&engine, 2), 0);
	}
	/* the first of all */
	up();
	engine.ssd[2].ns.nguid[0] = 1;
	cr_expect_eq(hr_disk_check_same(&engine, 2), -EINVAL);
	cr_expect(strstr(engine.error.text, "ssd 'c' (t2) and ssd 'a' (t0, line 10)"), "%s",
		  engine.error.text);
}

Test(disks, an_identifier_that_is_not_unique_is_a_warning)
{
	up();
	engine.ssd[2].ns.nguid[0] = 2;
	engine.ssd[2].ns.uuid[0] = 0;
	strcpy(engine.ssd[2].ns.serial, "T");
	cr_expect_eq(hr_disk_check_same(&engine, 2), 0, "%s", engine.error.text);
	cr_expect_eq(fake_log_count_of(HR_LOG_WARN), 1);
	cr_expect(strstr(fake_log_last(), "f:12: ssd 'c' (t2, serial number 'T') and ssd 'b' (t1, "
					  "'S', line 11) report the same NGUID, but"),
		  "%s", fake_log_last());
	/* it may be one disk all the same: then it has one store */
	engine.ssd[2].store.uuid[15] = 2;
	cr_expect_eq(hr_disk_check_store(&engine, 2), -EINVAL);
}

Test(disks, stores_with_one_uuid_are_one_disk)
{
	static const char want[] =
		"f:12: ssd 'c' (t2) and ssd 'b' (t1, line 11) are the same disk: both report the "
		"same UUID of the object store; expected a disk once, in one of the two lines";

	up();
	for (uint32_t d = 0; d < 3; d++)
		cr_expect_eq(hr_disk_check_store(&engine, d), 0, "%s", engine.error.text);
	engine.ssd[2].store.uuid[15] = 2;
	/* copies of one store on namespaces that differ are allowed */
	cr_expect_eq(hr_disk_check_store(&engine, 2), 0, "%s", engine.error.text);
	/* nothing else is known of a disk of the kernel */
	engine.ssd[2].blk = &engine.ssd[2].kernel.blk;
	cr_expect_eq(hr_disk_check_store(&engine, 1), 0);
	cr_expect_eq(hr_disk_check_store(&engine, 2), -EINVAL);
	cr_expect_str_eq(engine.error.text, want, "%s", engine.error.text);
	engine.ssd[2].store.uuid[15] = 1;
	hr_error_clear(&engine.error);
	cr_expect_eq(hr_disk_check_store(&engine, 2), -EINVAL);
	cr_expect(strstr(engine.error.text, "and ssd 'a' (t0, line 10)"), "%s", engine.error.text);
	engine.ssd[2].store.uuid[15] = 2;
	engine.ssd[1].has_store = false;
	cr_expect_eq(hr_disk_check_store(&engine, 2), 0);
	engine.ssd[1].has_store = true;
	engine.ssd[2].has_store = false;
	cr_expect_eq(hr_disk_check_store(&engine, 2), 0);
	engine.ssd[2].has_store = true;
	engine.ssd[2].store.uuid[0] = 1;
	cr_expect_eq(hr_disk_check_store(&engine, 2), 0);
}

Test(disks, a_write_protected_namespace_takes_no_sink)
{
	up();
	engine.config.pipelines = 3;
	for (uint32_t i = 0; i < 4; i++) {
		struct hr_config_pipeline *p = &engine.config.pipeline[i];

		snprintf(p->name, HR_NAME_MAX, "p%u", i);
		snprintf(p->sink.object, HR_NAME_MAX, "out%u", i);
		p->has_sink = true;
		p->sink.ssd = i == 0 ? 0 : 1; /* the first writes to another ssd */
		p->sink.line = 20 + i;
		engine.run[i].config = p;
		engine.run[i].selected = i != 1;
	}
	cr_expect_eq(hr_disk_check(&engine, 1), 0);
	engine.ssd[1].disk.blk.read_only = true;
	cr_expect_eq(hr_disk_check(&engine, 0), 0);
	cr_expect_eq(hr_disk_check(&engine, 1), -EROFS);
	cr_expect_eq(engine.error.kind, HR_ERROR_MISSING);
	cr_expect_str_eq(
		engine.error.text,
		"f:22: pipeline 'p2' writes object 'out2' to ssd 'b' (t1), and its namespace 6 "
		"is write protected; nothing was written",
		"%s", engine.error.text);
	engine.run[2].selected = false; /* the next one is not of the configuration */
	hr_error_clear(&engine.error);
	cr_expect_eq(hr_disk_check(&engine, 1), 0, "%s", engine.error.text);
}
