/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/cmd/topo/common.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "boot/cmd/report/output.h"
#include "config/base/text.h"
#include "pci/topo/rules/peers.h"

char *hr_topo_name(const struct hr_topo *t, int32_t fn, char *text)
{
	for (uint32_t i = 0; i < t->topology.gpus; i++)
		if (t->topology.gpu[i] == fn) {
			snprintf(text, 16, "GPU%u", i);
			return text;
		}
	for (uint32_t i = 0; i < t->topology.ssds; i++)
		if (t->topology.ssd[i] == fn) {
			snprintf(text, 16, "NVME%u", i);
			return text;
		}
	return hr_bdf(&t->model.fn[fn], text);
}

/* "DD.F" of a path, on the bus below the previous bridge, or "BB:DD.F". */
static int32_t step_below(const struct hr_model *m, int32_t from, const char *text, size_t *used)
{
	const struct hr_fn *up = &m->fn[from];
	uint32_t domain, bus = hr_get(up, HR_F_SECONDARY, 0), dev, fn;
	char whole[HR_BDF_MAX];

	*used = strcspn(text, "/ ");
	if (!hr_is_bridge(up) || *used == 0)
		return HR_NO_FN;
	if (*used == 4)
		snprintf(whole, sizeof whole, "%02x:%.4s", bus & 0xff, text);
	else
		snprintf(whole, sizeof whole, "%.*s", *used < 13 ? (int)*used : 13, text);
	if (hr_bdf_parse(whole, &domain, &bus, &dev, &fn) != strlen(whole))
		return HR_NO_FN;
	return hr_model_find(m, domain ? domain : up->domain, bus, dev, fn);
}

int32_t hr_topo_address(const struct hr_model *m, const char *text)
{
	uint32_t domain, bus, dev, fn;
	size_t n;
	int32_t at;

	if (strncmp(text, "0000", 4) == 0 && strcspn(text, ":") == 8)
		text += 4;
	n = hr_bdf_parse(text, &domain, &bus, &dev, &fn);
	at = n ? hr_model_find(m, domain, bus, dev, fn) : HR_NO_FN;
	for (text += n; at != HR_NO_FN && *text == '/'; text += n)
		at = step_below(m, at, ++text, &n);
	return *text == '\0' || *text == ' ' ? at : HR_NO_FN;
}

int32_t hr_topo_find(const struct hr_topo *t, const char *name)
{
	int32_t at = hr_topo_address(&t->model, name);
	uint32_t i;

	if (at != HR_NO_FN)
		return at;
	if (strncasecmp(name, "gpu", 3) == 0 && name[3]) {
		return hr_number_parse_u32(name + 3, 10, &i) && i < t->topology.gpus
			       ? t->topology.gpu[i]
			       : HR_NO_FN;
	}
	if (strncasecmp(name, "nvme", 4) == 0 && name[4]) {
		return hr_number_parse_u32(name + 4, 10, &i) && i < t->topology.ssds
			       ? t->topology.ssd[i]
			       : HR_NO_FN;
	}
	if (strncasecmp(name, "nic", 3) == 0 && name[3]) {
		return hr_number_parse_u32(name + 3, 10, &i) ? hr_endpoint_nic(&t->topology, i)
							     : HR_NO_FN;
	}
	return HR_NO_FN;
}

static void remove_index(int32_t *list, uint32_t *count, int32_t index)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < *count; i++)
		if (list[i] != index)
			list[kept++] = list[i];
	*count = kept;
}

/*
 * A function that the user names as one kind is not of the other kind: no function pairs with
 * itself.
 */
static void add_endpoints(int32_t *list, uint32_t *count, int32_t *other, uint32_t *others,
			  const struct hr_model *m, const char *const *names, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		int32_t index = hr_topo_address(m, names[i]);
		bool have = false;

		if (index == HR_NO_FN)
			continue;
		remove_index(other, others, index);
		for (uint32_t j = 0; j < *count; j++)
			have |= list[j] == index;
		if (!have && *count < m->count)
			list[(*count)++] = index;
	}
}

int hr_topo_evaluate(const struct hr_topo *t, struct hr_topology *e, struct hr_model *m)
{
	int err = hr_topology_init(e, m, &t->opt);

	if (err)
		return err;
	add_endpoints(e->gpu, &e->gpus, e->ssd, &e->ssds, m, t->as_gpu, t->as_gpus);
	add_endpoints(e->ssd, &e->ssds, e->gpu, &e->gpus, m, t->as_ssd, t->as_ssds);
	return 0;
}

const char *hr_topo_both(const struct hr_topo *t)
{
	for (unsigned i = 0; i < t->as_gpus; i++)
		for (unsigned j = 0; j < t->as_ssds; j++)
			if (hr_topo_find(t, t->as_gpu[i]) == hr_topo_find(t, t->as_ssd[j]))
				return t->as_gpu[i];
	return NULL;
}

enum hr_topo_exit hr_topo_exit_of(const struct hr_pair *p)
{
	switch (p->verdict) {
	case HR_DIRECT:
		return p->modifiers & HR_MOD_DEGRADED ? HR_TOPO_DEGRADED : HR_TOPO_DIRECT;
	case HR_UNKNOWN:
		return HR_TOPO_UNKNOWN;
	case HR_VFIO_CONFLICT:
	case HR_BLOCKED:
		return HR_TOPO_BLOCKED;
	case HR_SILENT_LOSS:
		return HR_TOPO_LOSS;
	default:
		return HR_TOPO_THROUGH;
	}
}

enum hr_topo_exit hr_topo_worse(enum hr_topo_exit a, enum hr_topo_exit b)
{
	static const uint8_t rank[] = { 0, 1, 2, 4, 5, 3 };

	return rank[b] > rank[a] ? b : a;
}

const char *hr_topo_iommu_word(const struct hr_topology *e)
{
	static const char *const word[] = { "unknown", "off", "passthrough", "translating" };

	return e->iommu == HR_IOMMU_UNKNOWN && e->iommu_active ? "active, mode unknown"
							       : word[e->iommu];
}

const char *hr_topo_iommu_reason(const struct hr_topology *e)
{
	const struct hr_system *sys = &e->m->sys;

	if (e->opt.iommu != HR_IOMMU_UNKNOWN)
		return "given";
	return e->iommu == HR_IOMMU_UNKNOWN || (sys->iommu.source && sys->iommu.value == e->iommu)
		       ? sys->iommu_reason
		       : "";
}

bool hr_topo_wants(const struct hr_topo *t, const struct hr_pair *p)
{
	return !t->same_switch_only || p->common != HR_NO_FN;
}

void hr_topo_sum_add(struct hr_topo_sum *sum, const struct hr_pair *p)
{
	sum->pairs++;
	sum->by_verdict[p->verdict]++;
	sum->degraded += (p->modifiers & HR_MOD_DEGRADED) != 0;
	sum->exit = hr_topo_worse(sum->exit, hr_topo_exit_of(p));
}

void hr_topo_sum_up(const struct hr_topo *t, struct hr_topo_sum *sum)
{
	const struct hr_topology *e = &t->topology;
	struct hr_pair p;

	*sum = (struct hr_topo_sum){ .exit = HR_TOPO_DIRECT };
	for (uint32_t i = 0; i < e->gpus; i++)
		for (uint32_t j = 0; j < e->ssds; j++) {
			hr_pair_evaluate(e, e->gpu[i], e->ssd[j], &p);
			if (hr_topo_wants(t, &p))
				hr_topo_sum_add(sum, &p);
		}
	if (sum->pairs == 0)
		sum->exit = HR_TOPO_NONE;
}

/* Functions that may be GPUs or SSDs, because no form of the capture states their class. */
static uint32_t classless(const struct hr_model *m)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < m->count; i++)
		n += !hr_known(&m->fn[i], HR_F_CLASS) && !hr_is_bridge(&m->fn[i]) &&
		     !hr_get(&m->fn[i], HR_F_GONE, 0);
	return n;
}

const char *hr_topo_no_pair(const struct hr_topo *t, char *text)
{
	const uint32_t gpus = t->topology.gpus, ssds = t->topology.ssds;
	const uint32_t unknown = classless(&t->model);

	if (gpus && ssds)
		snprintf(text, HR_TOPO_NO_PAIR_TEXT,
			 "no pair of %u GPU%s and %u NVMe controller%s shares a switch (--wanted "
			 "all includes the others)\n",
			 gpus, gpus == 1 ? "" : "s", ssds, ssds == 1 ? "" : "s");
	else if (unknown && !gpus && !ssds)
		snprintf(
			text, HR_TOPO_NO_PAIR_TEXT,
			"no pair to evaluate: the capture does not state the class of %u of %u "
			"functions, so GPUs and NVMe controllers cannot be found; lspci -nn states "
			"it, better sudo lspci -vvvxxxx\n",
			unknown, t->model.count);
	else if (unknown)
		snprintf(text, HR_TOPO_NO_PAIR_TEXT,
			 "no pair to evaluate: %u GPU%s, %u NVMe controller%s, and %u of %u "
			 "functions whose class the capture does not state; lspci -nn states it, "
			 "better sudo lspci -vvvxxxx\n",
			 gpus, gpus == 1 ? "" : "s", ssds, ssds == 1 ? "" : "s", unknown,
			 t->model.count);
	else
		snprintf(text, HR_TOPO_NO_PAIR_TEXT,
			 "no pair to evaluate: %u GPU%s, %u NVMe controller%s (--gpu ADDRESS and "
			 "--nvme ADDRESS name others)\n",
			 gpus, gpus == 1 ? "" : "s", ssds, ssds == 1 ? "" : "s");
	return text;
}

enum hr_topo_exit hr_topo_exit_all(const struct hr_topo *t)
{
	struct hr_topo_sum sum;

	hr_topo_sum_up(t, &sum);
	return sum.exit;
}

const char *hr_topo_colour(const struct hr_topo *t, enum hr_verdict verdict)
{
	static const char *const by_rank[] = { "\033[32m", "\033[36m", "\033[33m", "\033[33m",
					       "\033[35m", "\033[31m", "\033[31m", "\033[1;31m" };

	return t->colour ? by_rank[hr_verdict_order(verdict)] : "";
}

const char *hr_topo_reset(const struct hr_topo *t)
{
	return t->colour ? "\033[0m" : "";
}

char *hr_topo_modifiers(uint16_t modifiers, char *text)
{
	static const char *const name[] = { "link",	   "mps",      "numa",	    "pch",
					    "window",	   "errors",   "order",	    "iommu-assumed",
					    "acs-assumed", "software", "until-boot" };
	size_t used = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < sizeof name / sizeof *name; i++)
		if (modifiers >> i & 1)
			used += (size_t)snprintf(text + used, HR_MODIFIERS_TEXT - used, "%s%s",
						 used ? "," : "", name[i]);
	return text;
}

/*
 * "3D controller [0302]: NVIDIA ..." without the class. A class has no comma, full stop or slash,
 * but the name of a device before a colon usually follows a vendor that has one.
 */
const char *hr_topo_title(const struct hr_fn *f)
{
	const char *at = strstr(f->name, ": ");

	return at && strcspn(f->name, ",./") > (size_t)(at - f->name) ? at + 2 : f->name;
}

int hr_topo_fit(const char *text, int most)
{
	int n = (int)strnlen(text, (size_t)most);

	while (n && text[n] && ((unsigned char)text[n] & 0xc0) == 0x80)
		n--;
	return n;
}

const char *hr_topo_ids(const struct hr_fn *f, char *text)
{
	char bare[10];

	text[0] = '\0';
	if (!hr_known(f, HR_F_VENDOR) || !hr_known(f, HR_F_DEVICE))
		return text;
	snprintf(text, 16, "[%04x:%04x]", hr_get(f, HR_F_VENDOR, 0) & 0xffff,
		 hr_get(f, HR_F_DEVICE, 0) & 0xffff);
	snprintf(bare, sizeof bare, "%.9s", text + 1);
	if (strstr(f->name, bare))
		text[0] = '\0';
	return text;
}

/* Bytes of a title that are printed: at most 100, whole words when it is cut here or was before. */
static int whole_words(const struct hr_fn *f, const char *title)
{
	int n = hr_topo_fit(title, 100);

	if (!title[n] && strlen(f->name) < HR_WORD_MAX - 1)
		return n;
	while (n && title[n - 1] != ' ')
		n--;
	while (n && (title[n - 1] == ' ' || title[n - 1] == '/'))
		n--;
	return n;
}

char *hr_topo_describe(const struct hr_topo *t, const struct hr_fn *f, char *text, size_t bytes)
{
	const char *title = hr_topo_title(f);
	const int n = whole_words(f, title);
	char ids[16], bdf[HR_BDF_MAX] = "";

	if (f->physfn != HR_NO_FN)
		hr_bdf(&t->model.fn[f->physfn], bdf);
	hr_topo_ids(f, ids);
	snprintf(text, bytes, "%.*s%s%s%s%s%s%s%s", n, title, title[n] ? "..." : "",
		 title[0] && ids[0] ? " " : "", ids, hr_is_integrated(f) ? ", integrated" : "",
		 f->vf ? ", VF" : "", bdf[0] ? " of " : "", bdf);
	return text;
}

/* ---- --require */

static bool matches(const struct hr_topo *t, int32_t fn, const char *pattern)
{
	char name[16], bdf[HR_BDF_MAX];

	return fnmatch(pattern, hr_topo_name(t, fn, name), FNM_CASEFOLD) == 0 ||
	       fnmatch(pattern, hr_bdf(&t->model.fn[fn], bdf), FNM_CASEFOLD) == 0;
}

struct requirement {
	char gpu[64], ssd[64];
	enum hr_verdict level;
};

/* The level is after the last colon; addresses have colons, too. */
static bool parse_requirement(const char *text, struct requirement *r)
{
	const char *comma = strstr(text, ",nvme="), *colon = strrchr(text, ':');

	if (strncmp(text, "gpu=", 4) != 0 || !comma || !colon || colon < comma + 6)
		return false;
	if ((size_t)(comma - text - 4) >= sizeof r->gpu ||
	    (size_t)(colon - comma - 6) >= sizeof r->ssd)
		return false;
	snprintf(r->gpu, sizeof r->gpu, "%.*s", (int)(comma - text - 4), text + 4);
	snprintf(r->ssd, sizeof r->ssd, "%.*s", (int)(colon - comma - 6), comma + 6);
	r->level = hr_verdict_by_name(colon + 1, strlen(colon + 1));
	return r->level != HR_VERDICTS;
}

static void report_requirement(const struct hr_topo *t, const struct hr_pair *p,
			       const struct requirement *r)
{
	char gpu[HR_BDF_MAX], ssd[HR_BDF_MAX], have[48], want[48];

	fprintf(stderr, "headrace topo: %s to %s is %s, required is %s\n",
		hr_bdf(&t->model.fn[p->gpu], gpu), hr_bdf(&t->model.fn[p->ssd], ssd),
		hr_verdict_text(p->verdict, p->rule, have),
		hr_verdict_text(r->level, HR_RULES_MAX, want));
}

bool hr_topo_require_check(const char *text)
{
	struct requirement r;

	return parse_requirement(text, &r);
}

int hr_topo_require(const struct hr_topo *t, const char *text)
{
	enum hr_topo_exit worst = HR_TOPO_DIRECT;
	struct requirement r;
	unsigned pairs = 0;
	struct hr_pair p;

	if (!parse_requirement(text, &r))
		return HR_TOPO_USAGE;
	for (uint32_t i = 0; i < t->topology.gpus; i++)
		for (uint32_t j = 0; j < t->topology.ssds; j++) {
			if (!matches(t, t->topology.gpu[i], r.gpu) ||
			    !matches(t, t->topology.ssd[j], r.ssd))
				continue;
			pairs++;
			hr_pair_evaluate(&t->topology, t->topology.gpu[i], t->topology.ssd[j], &p);
			if (hr_verdict_order(p.verdict) <= hr_verdict_order(r.level))
				continue;
			report_requirement(t, &p, &r);
			worst = hr_topo_worse(worst, hr_topo_exit_of(&p));
		}
	if (pairs)
		return (int)worst;
	fprintf(stderr, "headrace topo: no pair matches %s\n", text);
	return HR_TOPO_NONE;
}

int hr_topo_no_function(const struct hr_topo *t, const char *name)
{
	hr_usage_error("topo",
		       "no function '%s': %u functions like 0000:41:00.0 (--format tree lists "
		       "them), %u GPU%s, %u NVMe controller%s",
		       name, t->model.count, t->topology.gpus, t->topology.gpus == 1 ? "" : "s",
		       t->topology.ssds, t->topology.ssds == 1 ? "" : "s");
	return HR_TOPO_USAGE;
}

bool hr_topo_ruled_out(const struct hr_topo *t, const struct hr_pair *p, unsigned rule)
{
	struct hr_finding found[HR_TOPO_FINDINGS_MAX];
	const unsigned n = hr_findings(&t->topology, p, found, HR_TOPO_FINDINGS_MAX);
	bool hit = hr_rules[rule].verdict == HR_VERDICTS;

	for (unsigned j = 0; j < n && j < HR_TOPO_FINDINGS_MAX && !hit; j++)
		hit = found[j].rule == rule && found[j].flows;
	return !hit;
}

const char *hr_topo_rule_verdict(unsigned rule, char text[HR_MODIFIERS_TEXT])
{
	const struct hr_rule *r = &hr_rules[rule];

	if (r->verdict != HR_VERDICTS)
		return hr_verdict_text(r->verdict, rule, text);
	return r->modifier ? hr_topo_modifiers(r->modifier, text) : "note";
}
