/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/harness/evaluate.h"
#include "pci/topo/rules/explain.h"

#include <criterion/criterion.h>
#include <string.h>

struct fake_machine machine;
struct hr_model model;
struct hr_topology topology;

void fake_evaluate_up(void)
{
	cr_assert_eq(hr_model_init(&model), 0);
	fake_two_ports(&machine);
}

void fake_evaluate_down(void)
{
	hr_model_fini(&model);
}

int32_t fake_at(const char *address)
{
	uint32_t domain, bus, dev, fn;

	cr_assert_neq(hr_bdf_parse(address, &domain, &bus, &dev, &fn), 0);
	return hr_model_find(&model, domain, bus, dev, fn);
}

/*
 * A rule that the machine's traits exclude must not match; else its row names a wrong trait. In a
 * virtual machine rules are excluded for another reason.
 */
static void expect_no_other_hit(const struct hr_pair *p)
{
	for (unsigned i = 0; i < hr_rules_count; i++) {
		bool tried = topology.guest;

		for (uint32_t j = 0; j < topology.pair_rules; j++)
			tried |= topology.pair_rule[j] == i;
		if (!tried && hr_rules[i].on_pair)
			cr_expect_eq(hr_rules[i].on_pair(&topology, p), 0, "rule %s",
				     hr_rules[i].id);
	}
}

void fake_evaluate(const char *ssd, const struct hr_topo_options *opt, struct hr_pair *p)
{
	cr_assert_eq(fake_load(&machine, &model), 0, "%s", model.error.text);
	cr_assert_eq(hr_topology_init(&topology, &model, opt), 0);
	hr_pair_evaluate(&topology, fake_at(GPU), fake_at(ssd), p);
	expect_no_other_hit(p);
}

bool fake_found(const struct hr_pair *p, const char *rule)
{
	struct hr_finding list[64];
	unsigned n = hr_findings(&topology, p, list, 64);

	for (unsigned i = 0; i < n && i < 64; i++)
		if (strcmp(hr_rules[list[i].rule].id, rule) == 0 && list[i].flows)
			return true;
	return false;
}
