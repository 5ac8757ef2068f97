/* SPDX-License-Identifier: Apache-2.0 */
#include "pci/path.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pci/machine.h"
#include "pci/topo/source/source.h"
#include "pci/topo/rules/explain.h"

#define FINDINGS_MAX 64u

static bool is_yes(enum hr_verdict verdict)
{
	return hr_verdict_order(verdict) <= hr_verdict_order(HR_RC_LISTED);
}

/* Weight of a finding against the direct path: a finding with a verdict always has a higher weight
 * than one with only a doubt. */
static unsigned weight(const struct hr_pair *p, const struct hr_finding *f)
{
	const struct hr_rule *r = &hr_rules[f->rule];

	if (!f->flows || f->rule == p->rule)
		return 0;
	if (r->verdict == HR_VERDICTS || r->recalled)
		return r->doubt;
	return is_yes(r->verdict) ? 0 : UINT8_MAX + 1 + hr_verdict_order(r->verdict);
}

static void explain_suspect(const struct hr_topology *e, const struct hr_pair *p,
			    const struct hr_finding *found, unsigned n, struct hr_path_choice *c)
{
	const struct hr_finding *most = NULL;

	for (unsigned i = 0; i < n; i++) {
		const unsigned now = weight(p, &found[i]), best = most ? weight(p, most) : 0;

		if (now > best || (now && now == best && found[i].rule < most->rule))
			most = &found[i];
	}
	c->suspect[0] = c->suspect_why[0] = '\0';
	if (!most)
		return;
	snprintf(c->suspect, sizeof c->suspect, "%s", hr_rules[most->rule].id);
	hr_rule_text(e, p, most, hr_rules[most->rule].why, c->suspect_why, sizeof c->suspect_why);
}

/* Explain the finding that decided. A rule on pairs names no function. */
static void explain_reason(const struct hr_topology *e, const struct hr_pair *p,
			   const struct hr_finding *found, unsigned n, struct hr_path_choice *c)
{
	struct hr_finding decided = { p->rule, HR_NO_FN, 0 };

	for (unsigned i = 0; i < n; i++)
		if (found[i].rule == p->rule) {
			decided = found[i];
			break;
		}
	hr_rule_text(e, p, &decided, hr_rules[p->rule].why, c->why, sizeof c->why);
}

void hr_path_evaluate(const struct hr_topology *e, int32_t gpu, int32_t ssd,
		      struct hr_path_choice *c)
{
	struct hr_finding found[FINDINGS_MAX];
	struct hr_pair p;
	unsigned n;

	hr_pair_evaluate(e, gpu, ssd, &p);
	n = hr_findings(e, &p, found, FINDINGS_MAX);
	if (n > FINDINGS_MAX)
		n = FINDINGS_MAX;
	c->verdict = p.verdict;
	c->direct = is_yes(p.verdict);
	hr_verdict_text(p.verdict, p.rule, c->verdict_text);
	snprintf(c->rule, sizeof c->rule, "%s", hr_rules[p.rule].id);
	explain_reason(e, &p, found, n, c);
	explain_suspect(e, &p, found, n, c);
}

struct address {
	uint32_t domain, bus, dev, fn;
};

static int parse_bdf_only(const char *text, struct address *a)
{
	const size_t n = hr_bdf_parse(text, &a->domain, &a->bus, &a->dev, &a->fn);

	return n == 0 || text[n] != '\0' ? -EINVAL : 0;
}

static int find_by_address(const struct hr_model *m, const struct address *a, int32_t *index)
{
	*index = hr_model_find(m, a->domain, a->bus, a->dev, a->fn);
	return *index == HR_NO_FN ? -ENOENT : 0;
}

int hr_path_choose(const char *gpu, const char *ssd, enum hr_mode mode,
		   struct hr_path_choice *choice)
{
	struct hr_topo_options opt = { .mode = mode, .vm = HR_VM_CPU };
	static struct hr_model model; /* large; bring-up is one thread */
	static struct hr_topology topology;
	struct address at[2];
	int32_t a, b;
	int err;

	if (parse_bdf_only(gpu, &at[0]) != 0 || parse_bdf_only(ssd, &at[1]) != 0)
		return -EINVAL;
	err = hr_model_init(&model);
	if (!err)
		err = hr_source_live(&model);
	if (!err)
		err = find_by_address(&model, &at[0], &a);
	if (!err)
		err = find_by_address(&model, &at[1], &b);
	if (!err)
		err = hr_topology_init(&topology, &model, &opt);
	if (!err)
		hr_path_evaluate(&topology, a, b, choice);
	hr_model_fini(&model);
	return err;
}
