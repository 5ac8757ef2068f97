/*
 * Captures of every format, from bytes to verdicts: whatever the reader accepts is linked, judged,
 * explained, grouped and priced without a crash, a hang, or a verdict from nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "pci/topo/band.h"
#include "pci/topo/change.h"
#include "pci/topo/groups.h"
#include "pci/topo/source.h"
#include "pci/topo/verdict.h"

#define PAIRS_MAX 64u

static struct hr_model model;
static struct hr_engine engine;

/* DIRECT needs a bridge whose ACS is known: never from a function that nobody could read. */
static void check(const struct hr_pair *p)
{
	if (p->verdict == HR_DIRECT && (!hr_known(&model.fn[p->gpu], HR_F_COMMAND) ||
					!hr_known(&model.fn[p->ssd], HR_F_COMMAND)))
		abort();
}

static void judge_all(void)
{
	struct hr_finding found[64];
	char text[512];
	unsigned n = 0;
	struct hr_pair p;

	for (uint32_t i = 0; i < engine.gpus; i++)
		for (uint32_t j = 0; j < engine.ssds && n < PAIRS_MAX; j++, n++) {
			unsigned count;

			hr_judge(&engine, engine.gpu[i], engine.ssd[j], &p);
			check(&p);
			count = hr_findings(&engine, &p, found, 64);
			for (unsigned k = 0; k < count && k < 64; k++)
				hr_rule_text(&engine, &p, &found[k], hr_rules[found[k].rule].why,
					     text, sizeof text);
		}
}

static void use(void)
{
	static struct hr_fix fix;
	static struct hr_rate rate[PAIRS_MAX];
	struct hr_options opt = { 0 };
	struct hr_groups groups;
	char message[160];

	if (hr_engine_init(&engine, &model, &opt))
		return;
	judge_all();
	if (engine.gpus && engine.ssds && engine.ssds < PAIRS_MAX)
		hr_band_plan(&engine, &model, HR_TO_GPU, rate);
	hr_groups_predict(&model, &groups);
	if (hr_fix_plan(&engine, NULL, NULL, &fix) == 0)
		hr_fix_assume(&model, &fix);
	hr_change_apply(&model, &opt, "acs:all=set", message);
	hr_change_apply(&model, &opt, "mps:all=128", message);
	if (hr_model_link(&model) == 0 && hr_engine_init(&engine, &model, &opt) == 0)
		judge_all();
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
