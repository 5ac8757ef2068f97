/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pairs of host bridges that the kernel trusts, for each state of both bridges and each kernel.
 */
#include "pci/topo/rules/rules.h"

#include <criterion/criterion.h>

#include "pci/topo/tables.h"

enum { UNLISTED, SAME_HOST, ANY_HOST, UNREAD, STATES };

/* Host bridges 2 * state and 2 * state + 1 have that state. */
static uint8_t listed[STATES * 2];
static bool unread[STATES * 2];
static struct hr_topology topology;

static void begin(void)
{
	for (unsigned i = 0; i < STATES * 2; i++) {
		listed[i] = i / 2 == UNREAD ? 0 : (uint8_t)(i / 2);
		unread[i] = i / 2 == UNREAD;
	}
	topology.listed = listed;
	topology.root_unread = unread;
}

TestSuite(topo_kernel, .init = begin, .timeout = 60);

/* Rows and columns: one host bridge of each state. y: listed, ?: not known, n: neither. */
static void expect(const char *of_one, const char *const of_two[STATES])
{
	for (int a = 0; a < STATES * 2; a++)
		for (int b = 0; b < STATES * 2; b++) {
			const char want = a == b ? of_one[a / 2] : of_two[a / 2][b / 2];

			cr_expect_eq(hr_root_listed(&topology, a, b), want == 'y', "%d and %d", a,
				     b);
			cr_expect_eq(hr_root_unread(&topology, a, b), want == '?', "%d and %d", a,
				     b);
		}
}

Test(topo_kernel, both_bridges_of_a_pair_must_be_listed)
{
	static const char *const of_two[STATES] = { "nnnn", "nnnn", "nny?", "nn??" };

	expect("nyy?", of_two);
}

Test(topo_kernel, a_zen_cpu_is_trusted_since_one_kernel)
{
	static const char *const of_two[STATES] = { "nnnn", "nnnn", "nny?", "nn??" };
	static const char *const all[STATES] = { "yyyy", "yyyy", "yyyy", "yyyy" };

	topology.zen = true;
	topology.opt.kernel = HR_KERNEL_ZEN - 1;
	expect("nyy?", of_two);
	topology.opt.kernel = HR_KERNEL_ZEN;
	expect("yyyy", all);
	topology.opt.kernel = 0; /* the newest kernel */
	expect("yyyy", all);
}

Test(topo_kernel, the_first_kernels_trust_no_bridge)
{
	static const char *const none[STATES] = { "nnnn", "nnnn", "nnnn", "nnnn" };
	static const char *const of_two[STATES] = { "nnnn", "nnnn", "nny?", "nn??" };

	topology.opt.kernel = HR_KERNEL_FIRST_RC - 1;
	expect("nnnn", none);
	topology.opt.kernel = HR_KERNEL_FIRST_RC;
	expect("nyy?", of_two);
}
