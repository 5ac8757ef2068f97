/* Lines of the configuration that name one disk, or two disks of one controller. */
#include "boot/engine/disks.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

TestSuite(disks, .timeout = 60);

static struct hr_appliance app;

static int check(const char *first, uint32_t first_ns, const char *second, uint32_t second_ns)
{
	memset(&app.error, 0, sizeof app.error);
	app.config.ssds = 2;
	app.config.file = "f";
	for (unsigned i = 0; i < 2; i++) {
		struct hr_config_ssd *ssd = &app.config.ssd[i];

		snprintf(ssd->name, sizeof ssd->name, "%c", 'a' + (int)i);
		snprintf(ssd->device, sizeof ssd->device, "%s", i ? second : first);
		ssd->nsid = i ? second_ns : first_ns;
		ssd->line = 10 + i;
	}
	cr_expect_eq(hr_disk_check_device(&app, 0), 0, "nothing is before the first");
	return hr_disk_check_device(&app, 1);
}

Test(disks, a_function_is_known_in_any_spelling)
{
	static const char *const same[] = { "pci:0000:03:1f.7", "pci:03:1f.7" };

	for (unsigned i = 0; i < 4; i++) {
		const char *a = same[i & 1], *b = same[i >> 1];

		cr_expect_eq(check(a, 1, b, 1), -EINVAL);
		cr_expect(strstr(app.error.text,
				 "f:11: ssd 'b' and ssd 'a' (line 10) are the same disk: "
				 "namespace 1 of the controller "),
			  "%s", app.error.text);
		cr_expect_eq(check(a, 1, b, 2), 0, "two namespaces");
	}
}

Test(disks, two_namespaces_of_a_function_have_one_driver)
{
	cr_expect_eq(check("vfio:03:00.0", 1, "pci:03:00.0", 2), -EINVAL);
	cr_expect(strstr(app.error.text,
			 "ssd 'b' (pci:03:00.0) and ssd 'a' (vfio:03:00.0, line 10) are of the "
			 "same controller; expected pci: in both lines, or vfio:"),
		  "%s", app.error.text);
	cr_expect_eq(check("vfio:03:00.0", 1, "vfio:0000:03:00.0", 2), 0);
	cr_expect_eq(check("vfio:03:00.0", 3, "pci:03:00.0", 3), -EINVAL);
	cr_expect(strstr(app.error.text, "are the same disk"), "%s", app.error.text);
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
			     app.error.text);
		cr_expect_eq(check(other[i], 1, "pci:0000:03:00.0", 1), 0, "%s: %s", other[i],
			     app.error.text);
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
