/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures of every format, from bytes to verdicts: each accepted capture is linked, evaluated,
 * explained, grouped and given rates, without a crash, a hang, or a verdict without facts.
 */
#include <stdlib.h>
#include <string.h>

#include "pci/topo/forecast/rates.h"
#include "pci/topo/forecast/change.h"
#include "pci/topo/rules/groups.h"
#include "pci/topo/source/source.h"
#include "pci/topo/rules/verdict.h"
#include "pci/topo/rules/explain.h"
#include "tests/harness/error.h"

#define PAIRS_MAX 64u

static struct hr_model model;
static struct hr_topology topology;

/* DIRECT needs a bridge whose ACS is known, so a function that was not read cannot give it. */
static void check(const struct hr_pair *p)
{
	if (p->verdict == HR_DIRECT && (!hr_known(&model.fn[p->gpu], HR_F_COMMAND) ||
					!hr_known(&model.fn[p->ssd], HR_F_COMMAND)))
		abort();
}

static void evaluate_all(void)
{
	struct hr_finding found[64];
	char text[512];
	unsigned n = 0;
	struct hr_pair p;

	for (uint32_t i = 0; i < topology.gpus; i++)
		for (uint32_t j = 0; j < topology.ssds && n < PAIRS_MAX; j++, n++) {
			unsigned count;

			hr_pair_evaluate(&topology, topology.gpu[i], topology.ssd[j], &p);
			check(&p);
			count = hr_findings(&topology, &p, found, 64);
			for (unsigned k = 0; k < count && k < 64; k++)
				hr_rule_text(&topology, &p, &found[k], hr_rules[found[k].rule].why,
					     text, sizeof text);
		}
}

static void use(void)
{
	static struct hr_fix fix;
	static struct hr_rate rate[PAIRS_MAX];
	struct hr_topo_options opt = { 0 };
	struct hr_groups groups;

	if (hr_topology_init(&topology, &model, &opt))
		return;
	evaluate_all();
	if (topology.gpus && topology.ssds && topology.ssds < PAIRS_MAX)
		hr_rates_assign(&topology, &model, HR_TO_GPU, rate);
	hr_groups_predict(&model, &groups);
	if (hr_fix_plan(&topology, NULL, NULL, &fix) == 0)
		hr_fix_assume(&model, &fix);
	hr_change_apply(&model, &opt, "acs:all=set", test_error());
	hr_change_apply(&model, &opt, "mps:all=128", test_error());
	if (hr_model_connect(&model) == 0 && hr_topology_init(&topology, &model, &opt) == 0)
		evaluate_all();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!model.memory && hr_model_init(&model))
		return 0;
	hr_model_reset(&model);
	if (hr_source_parse(&model, "fuzz", data, size) == 0)
		use();
	return 0;
}
