/* Kernel versions that `headrace topo --kernel` accepts. */
#include <criterion/criterion.h>

#include "boot/cmd/topo/options.h"

TestSuite(topo_options, .timeout = 60);

Test(topo_options, a_kernel_is_its_major_and_minor_number)
{
	static const struct {
		const char *text;
		uint32_t want; /* 0: refused */
	} row[] = {
		{ "5.10", HR_KERNEL_VERSION(5, 10) },
		{ "4.18.0-305.el8", HR_KERNEL_VERSION(4, 18) },
		{ "6.1.0-37-amd64", HR_KERNEL_VERSION(6, 1) },
		{ "6.0", HR_KERNEL_VERSION(6, 0) },
		{ "32767.65535", HR_KERNEL_VERSION(32767, 65535) },
		{ "32768.1", 0 },
		{ "6.65536", 0 },
		{ "6", 0 },
		{ "6.", 0 },
		{ "6.x", 0 },
		{ ".1", 0 },
		{ "v6.1", 0 },
		{ "-6.1", 0 },
		{ "6.-1", 0 },
		{ "", 0 },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_options opt = { 0 };

		cr_expect_eq(hr_topo_set_kernel(&opt, row[i].text), row[i].want != 0, "%s",
			     row[i].text);
		cr_expect_eq(opt.kernel, row[i].want, "%s: %x", row[i].text, opt.kernel);
	}
}
