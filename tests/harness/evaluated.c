#include "tests/harness/evaluated.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "tests/harness/evaluate.h"

static char text[2048];
static size_t used;

static void __attribute__((format(printf, 1, 2))) put(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	used += (size_t)vsnprintf(text + used, sizeof text - used, format, args);
	va_end(args);
	cr_assert_lt(used, sizeof text - 1);
}

static void put_at(const char *name, int32_t fn)
{
	char bdf[HR_BDF_MAX];

	if (fn != HR_NO_FN)
		put(" %s=%s", name, hr_bdf(&model.fn[fn], bdf) + 5);
}

static void put_rules(const char *name, const struct hr_hits *hits)
{
	const char *before = "=";

	for (unsigned i = 0; i < HR_RULES_MAX; i++)
		if (hr_hit(hits, i)) {
			put("%s%s%s", before[0] == '=' ? " " : "", before[0] == '=' ? name : "",
			    before);
			put("%s", i < hr_rules_count ? hr_rules[i].id : "?");
			before = ",";
		}
}

static void put_flag(const char *name, bool flag)
{
	if (flag)
		put(" %s", name);
}

static void put_number(const char *name, uint64_t value)
{
	if (value)
		put(" %s=%" PRIx64, name, value);
}

static void put_span(const char *name, const struct hr_span *span)
{
	if (span->base <= span->last)
		put(" %s=%" PRIx64 "-%" PRIx64, name, span->base, span->last);
	else
		cr_expect(span->base == 1 && span->last == 0);
}

const char *fake_evaluated_function(int32_t fn)
{
	const struct hr_derived *d = &topology.derived[fn];
	char bdf[HR_BDF_MAX];

	used = 0;
	put("%s", hr_bdf(&model.fn[fn], bdf) + 5);
	put_at("under", d->parent);
	put_number("depth", d->depth);
	put_number("root", (uint64_t)d->root_bus);
	put(" node=%x", d->node);
	put_flag("orphan", d->orphan);
	put_flag("pch", d->pch);
	put_flag("redirect", d->redirect);
	put_flag("kernel_redirect", d->kernel_redirect);
	put_flag("boot_redirect", d->boot_redirect);
	put_flag("acs_assumed", d->acs_assumed);
	put_flag("acs_unknown", d->acs_unknown);
	put_flag("overlaps", d->overlaps);
	if (d->bar_base <= d->bar_last)
		put(" bar=%" PRIx64 "-%" PRIx64, d->bar_base, d->bar_last);
	put_at("break", d->window_break);
	put_at("unread", d->window_unread);
	put(" mps=%u/%u", d->mps, d->above_mps);
	put_number("missing", d->mps_missing);
	put_span("mem", &d->mem_above);
	put_span("pref", &d->pref_above);
	put_number("step", topology.step[fn].flags);
	put_at("blocker", topology.blocker[fn]);
	put_rules("hits", &d->hits);
	put_rules("above", &d->above);
	cr_expect_eq(topology.step[fn].parent, d->parent);
	cr_expect_eq(topology.step[fn].depth, d->depth);
	return text;
}

const char *fake_evaluated_machine(void)
{
	used = 0;
	put("iommu=%u", topology.iommu);
	put_flag("active", topology.iommu_active);
	put_flag("links", topology.switch_links);
	put_flag("wanted", topology.iommu_wanted);
	put_flag("zen", topology.zen);
	put_flag("inferred", topology.zen_inferred);
	put(" boot=%u", topology.boot.iommu);
	for (uint32_t i = 0; i < model.root_buses; i++)
		put(" root%u=%u%s", i, topology.listed[i], topology.root_unread[i] ? "?" : "");
	for (uint32_t i = 0; i < topology.gpus; i++)
		put_at("gpu", topology.gpu[i]);
	for (uint32_t i = 0; i < topology.ssds; i++)
		put_at("ssd", topology.ssd[i]);
	put_rules("hits", &topology.machine);
	return text;
}

const char *fake_evaluated_pair(const struct hr_pair *p)
{
	char verdict[48];

	used = 0;
	put("%s %s", hr_verdict_text(p->verdict, p->rule, verdict), hr_kernel_text(p->kernel));
	put(" %s/%u", hr_distance_word(&topology, p), p->distance);
	put_at("common", p->common);
	put_at("gpu", p->gpu_child);
	put_at("ssd", p->ssd_child);
	put_number("climbs", p->climbs);
	put_number("redirected", p->redirected);
	put_number("up", p->up);
	put_flag("any", p->any_redirect);
	put_flag("kernel", p->kernel_redirect);
	put_flag("unread", p->unread_redirect);
	put_flag("boot", p->boot_redirect);
	put_flag("assumed", p->acs_assumed);
	put_flag("port", p->unread_port);
	put_flag("cut", p->cut);
	put_flag("same", p->same_root);
	put_flag("listed", p->listed);
	put_flag("root?", p->root_unread);
	put(" mps=%u,%u,%u,%u", p->gpu_mps, p->ssd_mps, p->up_mps, p->min_mps);
	put_number("modifiers", p->modifiers);
	for (unsigned i = 0; i < HR_FLOWS; i++)
		put(" F%u=%u(%s)", i + 1, p->flow[i],
		    p->flow_rule[i] < hr_rules_count ? hr_rules[p->flow_rule[i]].id : "?");
	put(" by %s", hr_rules[p->rule].id);
	put_rules("on_gpu", &p->gpu_side);
	put_rules("on_ssd", &p->ssd_side);
	put_rules("on_pair", &p->pair_hits);
	return text;
}
