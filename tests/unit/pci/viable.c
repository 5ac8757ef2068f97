/* The sentence about a group that VFIO cannot open. This test is the reader of the machine. */
#include "pci/viable.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pci/live.h"
#include "tests/harness/evaluate.h"

TestSuite(viable, .init = fake_evaluate_up, .fini = fake_evaluate_down, .timeout = 60);

static int failing;

int hr_source_live(struct hr_model *m)
{
	return failing ? failing : fake_load(&machine, m);
}

#define GROUP(n) "\tIOMMU group: " n "\n"
#define DRIVER(name) "\tKernel driver in use: " name "\n"
#define NAMED(at, driver)                                                                     \
	"0000:" at " is in the same group and bound to " driver ": unbind it, or bind it to " \
	"vfio-pci; 'headrace topo --groups' shows why they share a group"
#define OTHERWISE                                                                              \
	"a function in it is bound to another driver than vfio-pci; 'headrace topo --groups' " \
	"shows the group"

Test(viable, the_function_that_keeps_the_group_closed_is_named)
{
	static const struct {
		const char *bdf, *gpu, *near, *far; /* lines of the three cards */
		int failing;
		const char *want;
	} row[] = {
		{ "0000:04:00.0", GROUP("7") DRIVER("nvidia"), GROUP("7") DRIVER("nvme"), "", 0,
		  NAMED("03:00.0", "nvidia") },
		{ "0000:03:00.0", GROUP("7") DRIVER("nvidia"), GROUP("7") DRIVER("nvme"), "", 0,
		  NAMED("04:00.0", "nvme") },
		{ "04:00.0", GROUP("7") DRIVER("vfio-pci"), GROUP("7") DRIVER("nvme"),
		  GROUP("7") DRIVER("nvme"), 0, NAMED("05:00.0", "nvme") },
		{ "0000:04:00.0", GROUP("8") DRIVER("nvidia"), GROUP("7") DRIVER("nvme"), "", 0,
		  OTHERWISE },
		{ "0000:04:00.0", GROUP("7") DRIVER("vfio-pci"), GROUP("7") DRIVER("nvme"), "", 0,
		  OTHERWISE },
		{ "0000:77:00.0", GROUP("7") DRIVER("nvidia"), GROUP("7") DRIVER("nvme"), "", 0,
		  OTHERWISE },
		{ "0000:04:00.0", GROUP("7") DRIVER("nvidia"), GROUP("7"), "", -EACCES, OTHERWISE },
		{ "0000:04:00.0", DRIVER("nvidia"), DRIVER("nvme"), "", 0, OTHERWISE },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		char text[400];

		fake_two_ports(&machine);
		strcat(fake_find(&machine, GPU)->text, row[i].gpu);
		strcat(fake_find(&machine, SIBLING)->text, row[i].near);
		strcat(fake_find(&machine, OTHER)->text, row[i].far);
		failing = row[i].failing;
		memset(text, 'x', sizeof text);
		hr_groups_explain(row[i].bdf, text, sizeof text);
		cr_expect_str_eq(text, row[i].want, "row %zu: %s", i, text);
		/* A short text is cut. */
		hr_groups_explain(row[i].bdf, text, 20);
		cr_expect_eq(strlen(text), 19u);
		cr_expect_eq(strncmp(text, row[i].want, 19), 0);
	}
}
