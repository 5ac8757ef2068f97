#include "pci/path.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pci/source.h"

/* The sentence of the finding that decided; a pair row has no function to name. */
static void say_why(const struct hr_engine *e, const struct hr_pair *p, struct hr_path_choice *c)
{
	struct hr_finding found[64], none = { p->rule, HR_NO_FN, 0 };
	unsigned n = hr_findings(e, p, found, 64);

	for (unsigned i = 0; i < n && i < 64; i++)
		if (found[i].rule == p->rule) {
			none = found[i];
			break;
		}
	hr_rule_text(e, p, &none, hr_rules[p->rule].why, c->why, sizeof c->why);
}

void hr_path_judge(const struct hr_engine *e, int32_t gpu, int32_t ssd, struct hr_path_choice *c)
{
	struct hr_pair p;

	hr_judge(e, gpu, ssd, &p);
	c->verdict = p.verdict;
	c->direct = hr_verdict_rank(p.verdict) <= hr_verdict_rank(HR_RC_LISTED);
	hr_verdict_text(p.verdict, p.rule, c->verdict_text);
	snprintf(c->rule, sizeof c->rule, "%s", hr_rules[p.rule].id);
	say_why(e, &p, c);
}

struct address {
	uint32_t domain, bus, dev, fn;
};

static int parse(const char *text, struct address *a)
{
	const size_t n = hr_bdf_parse(text, &a->domain, &a->bus, &a->dev, &a->fn);

	return n == 0 || text[n] != '\0' ? -EINVAL : 0;
}

static int find(const struct hr_model *m, const struct address *a, int32_t *index)
{
	*index = hr_model_find(m, a->domain, a->bus, a->dev, a->fn);
	return *index == HR_NO_FN ? -ENOENT : 0;
}

int hr_path_choose(const char *gpu, const char *ssd, enum hr_mode mode,
		   struct hr_path_choice *choice)
{
	struct hr_options opt = { .mode = mode };
	static struct hr_model model; /* large; bring-up is one thread */
	static struct hr_engine engine;
	struct address at[2];
	int32_t a, b;
	int err;

	if (parse(gpu, &at[0]) != 0 || parse(ssd, &at[1]) != 0)
		return -EINVAL;
	err = hr_model_init(&model);
	if (!err)
		err = hr_source_live(&model);
	if (!err)
		err = find(&model, &at[0], &a);
	if (!err)
		err = find(&model, &at[1], &b);
	if (!err)
		err = hr_engine_init(&engine, &model, &opt);
	if (!err)
		hr_path_judge(&engine, a, b, choice);
	hr_model_fini(&model);
	return err;
}
