/* SPDX-License-Identifier: Apache-2.0 */
/* Findings of a pair in the order of the path, and the sentences of the rule table. */
#include "pci/topo/rules/verdict.h"
#include "pci/topo/rules/rules.h"
#include "pci/topo/rules/explain.h"
#include "pci/topo/rules/offset.h"

#include <stdio.h>
#include <string.h>

#include "pci/topo/fields.h"
#include "pci/topo/resize.h"
#include "pci/topo/rules/software.h"
#include "pci/topo/uplink.h"

struct findings {
	const struct hr_topology *e;
	struct hr_finding *out;
	unsigned count, max;
	unsigned decided; /* the rule of the verdict */
	bool has_decided; /* a finding of that rule is stored */
};

static void add_finding(struct findings *s, unsigned rule, int32_t fn, uint8_t flows)
{
	const bool fits = s->count < s->max;

	if (s->max && (fits || (rule == s->decided && !s->has_decided))) {
		s->out[fits ? s->count : s->max - 1] =
			(struct hr_finding){ (uint8_t)rule, fn, flows };
		s->has_decided |= rule == s->decided;
	}
	s->count++;
}

enum side { GPU_SIDE, SSD_SIDE, COMMON, ABOVE };

static uint8_t flows_at(const struct hr_pair *p, const struct hr_rule *r, enum side side)
{
	if (side == GPU_SIDE)
		return r->gpu_flows;
	return side == SSD_SIDE ? r->ssd_flows : hr_flows_above(p, r, side == COMMON);
}

static void add_function(struct findings *s, const struct hr_pair *p, int32_t fn, enum side side)
{
	for (unsigned w = 0; w < HR_RULES_MAX / 64; w++)
		for (uint64_t left = s->e->derived[fn].hits.word[w]; left; left &= left - 1) {
			unsigned rule = w * 64 + (unsigned)__builtin_ctzll(left);
			const struct hr_rule *r = &hr_rules[rule];
			uint8_t flows = flows_at(p, r, side);

			if (flows && hr_rule_counts(r, p))
				add_finding(s, rule, fn, flows);
		}
}

unsigned hr_findings(const struct hr_topology *e, const struct hr_pair *p, struct hr_finding *out,
		     unsigned max)
{
	struct findings s = { e, out, 0, max, p->rule, false };

	for (unsigned i = 0; i < e->pair_rules; i++) {
		unsigned rule = e->pair_rule[i];

		if (hr_hit(&p->pair_hits, rule) && hr_rule_counts(&hr_rules[rule], p))
			add_finding(&s, rule, HR_NO_FN, hr_rules[rule].on_pair(e, p));
	}
	for (int32_t at = p->gpu; at != p->common; at = e->m->fn[at].parent)
		add_function(&s, p, at, GPU_SIDE);
	for (int32_t at = p->common; at != HR_NO_FN; at = e->m->fn[at].parent)
		add_function(&s, p, at, at == p->common ? COMMON : ABOVE);
	for (int32_t at = p->ssd; at != p->common; at = e->m->fn[at].parent)
		add_function(&s, p, at, SSD_SIDE);
	for (unsigned i = 0; i < e->machine_rules; i++)
		if (hr_hit(&e->machine, e->machine_rule[i]) && !hr_rules[e->machine_rule[i]].loose)
			add_finding(&s, e->machine_rule[i], HR_NO_FN,
				    hr_rules[e->machine_rule[i]].gpu_flows);
	return s.count;
}

/* ---- templates */

struct context {
	const struct hr_topology *e;
	const struct hr_pair *p;
	const struct hr_fn *f; /* NULL: the pair */
	char *to;
	size_t capacity;
};

static const struct hr_fn *at(const struct context *c, int32_t index)
{
	return &c->e->m->fn[index];
}

static void put_size(const struct context *c, uint64_t bytes)
{
	char text[32];

	snprintf(c->to, c->capacity, "%s", hr_resize_text(bytes, text));
}

static bool redirects_now(const struct hr_derived *d)
{
	return d->redirect;
}

static bool redirects_after_boot(const struct hr_derived *d)
{
	return d->boot_redirect;
}

static bool is_assumed(const struct hr_derived *d)
{
	return d->acs_assumed;
}

/* Ports of the path that pass the test, in the form of pci=disable_acs_redir=. */
static void put_acs_list(const struct context *c, bool (*test)(const struct hr_derived *d))
{
	int32_t path[2 * HR_DEPTH_MAX + 1];
	unsigned n = hr_functions_below(c->e->m, c->p->gpu, c->p->common, path, HR_DEPTH_MAX);
	size_t used = 0;
	char bdf[HR_BDF_MAX];

	n += hr_functions_below(c->e->m, c->p->ssd, c->p->common, path + n, HR_DEPTH_MAX);
	if (c->p->common != HR_NO_FN)
		path[n++] = c->p->common;
	c->to[0] = '\0';
	for (unsigned i = 0; i < n && used + HR_BDF_MAX < c->capacity; i++)
		if (test(&c->e->derived[path[i]]))
			used += (size_t)snprintf(c->to + used, c->capacity - used, "%s%s",
						 used ? ";" : "", hr_bdf(at(c, path[i]), bdf));
}

/* The parameter that iommu=pt also needs, because Linux redirects the pair otherwise. */
static void put_with_acs(const struct context *c)
{
	struct context list = *c;
	int used;

	if (c->p->common == HR_NO_FN || !c->p->boot_redirect)
		return;
	used = snprintf(c->to, c->capacity, " and pci=disable_acs_redir=");
	if (used < 0 || (size_t)used >= c->capacity)
		return;
	list.to += used;
	list.capacity -= (size_t)used;
	put_acs_list(&list, redirects_after_boot);
	used += (int)strlen(list.to);
	snprintf(c->to + used, c->capacity - (size_t)used,
		 ", as Linux sets ACS redirect at boot wherever an IOMMU is on");
}

static void put_errors(const struct context *c)
{
	static const struct {
		uint32_t bit;
		const char *name;
	} names[] = { { HR_UE_CMPLT_TIMEOUT,
			"completion timeout: the root complex may drop peer reads" },
		      { HR_UE_UNSUPPORTED, "unsupported request: window or decode" },
		      { HR_UE_ACS_VIOLATION, "ACS violation: TB, SV or EC" },
		      { HR_UE_MALFORMED, "malformed TLP: payload size" },
		      { HR_UE_CMPLT_ABORT, "completer abort" } };
	uint32_t value = c->f ? hr_get(c->f, HR_F_UESTA, 0) : 0;
	size_t used = 0;

	c->to[0] = '\0';
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		if (value & names[i].bit && used < c->capacity)
			used += (size_t)snprintf(c->to + used, c->capacity - used, "%s%s",
						 used ? "; " : "", names[i].name);
}

static uint32_t min_nonzero(uint32_t a, uint32_t b)
{
	return a == 0 || (b && b < a) ? b : a;
}

/* Payload sizes of the direction that does not fit. */
static void put_mps(const struct context *c, char what)
{
	uint32_t gpu = c->e->derived[c->p->gpu].mps, ssd = c->e->derived[c->p->ssd].mps;
	uint32_t all = min_nonzero(min_nonzero(gpu, ssd), c->p->min_mps);
	bool from_ssd = hr_pair_mps(c->e, c->p) & F2;
	char bdf[HR_BDF_MAX];

	if (what == 'i')
		snprintf(c->to, c->capacity, "%s",
			 hr_bdf(at(c, from_ssd ? c->p->ssd : c->p->gpu), bdf));
	else if (what == 'f')
		snprintf(c->to, c->capacity, "%u", from_ssd ? ssd : gpu);
	else if (what == 'p')
		snprintf(c->to, c->capacity, "%u", hr_payload_limit(c->e, c->p, from_ssd));
	else
		snprintf(c->to, c->capacity, "%04x",
			 all ? (unsigned)(__builtin_ctz(all) - 7) << 5 : 0u);
}

/* The SSD's group: the kernel's number, or the predicted one. */
static void put_group(const struct context *c)
{
	const struct hr_fn *ssd = at(c, c->p->ssd);

	if (hr_group_is_real(c->e->m, ssd))
		snprintf(c->to, c->capacity, "%u", hr_get(ssd, HR_F_GROUP, 0));
	else if (c->e->groups.of)
		snprintf(c->to, c->capacity, "%u (predicted)", c->e->groups.of[c->p->ssd]);
}

/* The upstream port of the card's own switch. */
static void put_card_port(const struct context *c)
{
	int32_t at = (int32_t)(c->f - c->e->m->fn);
	char bdf[HR_BDF_MAX];

	while (at != HR_NO_FN && !c->e->derived[at].card_port)
		at = c->e->m->fn[at].parent;
	if (at != HR_NO_FN)
		snprintf(c->to, c->capacity, "%s", hr_bdf(&c->e->m->fn[at], bdf));
}

/* Remedy of a link that is narrower or slower than both its ends. */
static void put_link_fix(const struct context *c, bool width)
{
	char bdf[HR_BDF_MAX] = "PARENT";

	if (c->f->parent != HR_NO_FN)
		hr_bdf(at(c, c->f->parent), bdf);
	if (hr_uplink_is_wired(c->e->m, c->f))
		snprintf(
			c->to, c->capacity,
			"the link is wired on the board; only the firmware setup may change its %s",
			width ? "width (bifurcation)" : "speed");
	else if (width)
		snprintf(c->to, c->capacity, "reseat; check bifurcation and riser");
	else
		snprintf(c->to, c->capacity,
			 "retrain: setpci -s %s CAP_EXP+10.w=20:20; then check the signal path",
			 bdf);
}

/* What keeps AtomicOps of the GPU from the CPU, and what to do. */
static void put_atomics(const struct context *c, bool fix)
{
	const struct hr_fn *where = c->f;
	enum hr_atomics cause = hr_atomics_of(c->e->m, c->f, &where);
	char bdf[HR_BDF_MAX];

	hr_bdf(where, bdf);
	if (cause == HR_ATOMICS_UNROUTED)
		snprintf(c->to, c->capacity,
			 fix ? "a slot whose ports all route AtomicOps; %s does not"
			     : "%s does not route them (AtomicOpsCap Routing-)",
			 bdf);
	else if (cause == HR_ATOMICS_BLOCKED)
		snprintf(c->to, c->capacity,
			 fix ? "setpci -s %s CAP_EXP+28.w=0:80, then load amdgpu again"
			     : "%s blocks them (AtomicOpsCtl EgressBlck+)",
			 bdf);
	else if (cause == HR_ATOMICS_INCOMPLETE)
		snprintf(c->to, c->capacity,
			 fix ? "a slot of another root port than %s"
			     : "%s does not complete operations of 32 and 64 bits",
			 bdf);
	else if (cause == HR_ATOMICS_OFF)
		snprintf(c->to, c->capacity,
			 fix ? "dmesg | grep -i atomic shows why amdgpu left them off at %s"
			     : "they are not enabled at %s (AtomicOpsCtl ReqEn-)",
			 bdf);
}

static void put_blocker(const struct context *c, bool driver)
{
	int32_t other = c->e->blocker[c->p->ssd];
	char bdf[HR_BDF_MAX];

	if (other != HR_NO_FN)
		snprintf(c->to, c->capacity, "%s",
			 driver ? at(c, other)->driver : hr_bdf(at(c, other), bdf));
}

static void put_hiding(const struct context *c, bool vmd)
{
	int32_t index = hr_hidden_by(c->e, vmd);
	char bdf[HR_BDF_MAX];

	snprintf(c->to, c->capacity, "%s", index == HR_NO_FN ? "" : hr_bdf(at(c, index), bdf));
}

static void put_emulated(const struct context *c)
{
	const struct hr_fn *f = c->e->emulated == HR_NO_FN ? NULL : at(c, c->e->emulated);
	char bdf[HR_BDF_MAX];

	if (f)
		snprintf(c->to, c->capacity, "%s", hr_bdf(f, bdf));
}

/* The host bridge as sysfs names it, without "pci". */
static void put_host(const struct context *c)
{
	const struct hr_root_bus *root = &c->e->m->root_bus[c->f->root_bus];

	snprintf(c->to, c->capacity, "%04x:%02x", root->domain, root->bus);
}

static void put_cufile(const struct context *c, bool fix)
{
	struct hr_need missing = { .what = "" };

	hr_cufile_p2pdma(c->e, c->p->gpu, c->p->ssd, &missing);
	if (fix)
		snprintf(c->to, c->capacity, "%s", missing.fix ? missing.fix : "");
	else
		snprintf(c->to, c->capacity, "%s (%s)", missing.what, missing.text);
}

static bool put_pair_word(const struct context *c, const char *word, size_t n)
{
	char bdf[HR_BDF_MAX];
	const struct hr_fn *gpu = at(c, c->p->gpu), *ssd = at(c, c->p->ssd);
	int bar = hr_peer_bar(gpu);

	if (n == 3 && memcmp(word, "gpu", 3) == 0)
		snprintf(c->to, c->capacity, "%s", hr_bdf(gpu, bdf));
	else if (n == 3 && memcmp(word, "ssd", 3) == 0)
		snprintf(c->to, c->capacity, "%s", hr_bdf(ssd, bdf));
	else if (n == 5 && memcmp(word, "child", 5) == 0)
		snprintf(c->to, c->capacity, "%s", hr_bdf(at(c, c->p->ssd_child), bdf));
	else if (n == 5 && memcmp(word, "group", 5) == 0)
		put_group(c);
	else if (n == 5 && memcmp(word, "slots", 5) == 0)
		hr_pci_move_slots(c->e, c->p, c->to, c->capacity);
	else if (n == 4 && memcmp(word, "move", 4) == 0)
		hr_pci_move_text(c->e, c->p, c->to, c->capacity);
	else if (n >= 7 && memcmp(word, "blocker", 7) == 0)
		put_blocker(c, n > 7);
	else if (n == 10 && memcmp(word, "gpu_driver", 10) == 0)
		snprintf(c->to, c->capacity, "%s", gpu->driver ? gpu->driver : "unknown");
	else if (n == 8 && memcmp(word, "acs_list", 8) == 0)
		put_acs_list(c, redirects_now);
	else if (n == 8 && memcmp(word, "acs_boot", 8) == 0)
		put_acs_list(c, redirects_after_boot);
	else if (n == 11 && memcmp(word, "acs_assumed", 11) == 0)
		put_acs_list(c, is_assumed);
	else if (n >= 6 && memcmp(word, "cufile", 6) == 0)
		put_cufile(c, n > 6);
	else if (n == 8 && memcmp(word, "with_acs", 8) == 0)
		put_with_acs(c);
	else if (n == 8 && memcmp(word, "bar_size", 8) == 0)
		put_size(c, bar < 0 ? 0 : gpu->bar[bar].size);
	else if (n == 9 && memcmp(word, "initiator", 9) == 0)
		put_mps(c, 'i');
	else if (n == 8 && memcmp(word, "mps_from", 8) == 0)
		put_mps(c, 'f');
	else if (n == 8 && memcmp(word, "mps_path", 8) == 0)
		put_mps(c, 'p');
	else if (n == 8 && memcmp(word, "mps_code", 8) == 0)
		put_mps(c, 'c');
	else
		return false;
	return true;
}

static void put_word(const struct context *c, const char *word, size_t n)
{
	enum hr_fact_id id = hr_fact_by_name(word, n);
	char bdf[HR_BDF_MAX], number[24];

	c->to[0] = '\0';
	if (c->f && n == 3 && memcmp(word, "bdf", 3) == 0)
		snprintf(c->to, c->capacity, "%s", hr_bdf(c->f, bdf));
	else if (c->f && c->f->physfn != HR_NO_FN && n == 2 && memcmp(word, "pf", 2) == 0)
		snprintf(c->to, c->capacity, "%s", hr_bdf(at(c, c->f->physfn), bdf));
	else if (n == 3 && memcmp(word, "vmd", 3) == 0)
		put_hiding(c, true);
	else if (n == 4 && memcmp(word, "raid", 4) == 0)
		put_hiding(c, false);
	else if (n == 8 && memcmp(word, "emulated", 8) == 0)
		put_emulated(c);
	else if (c->f && n == 4 && memcmp(word, "host", 4) == 0)
		put_host(c);
	else if (c->f && n == 6 && memcmp(word, "offset", 6) == 0)
		snprintf(c->to, c->capacity, "%s",
			 hr_offset_text(c->e->derived[c->f - c->e->m->fn].bar_offset, number));
	else if (n == 8 && memcmp(word, "ue_names", 8) == 0)
		put_errors(c);
	else if (c->f && n == 4 && memcmp(word, "seat", 4) == 0)
		snprintf(c->to, c->capacity, "%s",
			 hr_lacks(c->f, HR_F_SLOT_IMPL, 1) ? "" : "reseat the card, or ");
	else if (c->f && n >= 7 && memcmp(word, "atomics", 7) == 0)
		put_atomics(c, n > 7);
	else if (c->f && n == 5 && memcmp(word, "lacks", 5) == 0)
		snprintf(c->to, c->capacity, "%s",
			 c->f->disputed			   ? ": bridges contradict each other"
			 : hr_get(c->f, HR_F_CAPS, 0) == 2 ? ": the capability list is damaged"
							   : "");
	else if (c->f && n == 8 && memcmp(word, "bar_able", 8) == 0)
		hr_resize_able(c->f, c->to, c->capacity);
	else if (c->f && n == 7 && memcmp(word, "bar_fix", 7) == 0)
		hr_resize_fix(c->e->m, c->f, c->to, c->capacity);
	else if (c->f && n == 9 && memcmp(word, "card_port", 9) == 0)
		put_card_port(c);
	else if (c->f && n == 9 && memcmp(word + 5, "_fix", 4) == 0)
		put_link_fix(c, word[0] == 'w');
	else if (c->f && n == 5 && memcmp(word, "speed", 5) == 0)
		snprintf(c->to, c->capacity, "%s", hr_link_speed_text(hr_get(c->f, HR_F_SPEED, 0)));
	else if (c->f && n == 10 && memcmp(word, "speed_most", 10) == 0)
		snprintf(c->to, c->capacity, "%s",
			 hr_link_speed_text(hr_get(c->f, HR_F_SPEED_MAX, 0)));
	else if (c->f && id < HR_FACTS_COUNT)
		snprintf(c->to, c->capacity, hr_fact_is_hex(id) ? "0x%04x" : "%u",
			 hr_get(c->f, id, 0));
	else if (c->p)
		put_pair_word(c, word, n);
}

char *hr_rule_text(const struct hr_topology *e, const struct hr_pair *p, const struct hr_finding *f,
		   const char *template, char *to, size_t capacity)
{
	struct context c = { e, p, f->fn == HR_NO_FN ? NULL : &e->m->fn[f->fn], to, capacity };

	while (*template && c.capacity > 1) {
		const char *end = *template == '{' ? strchr(template, '}') : NULL;
		size_t n = 1;

		if (end) {
			put_word(&c, template + 1, (size_t)(end - template - 1));
			n = strlen(c.to);
			template = end + 1;
		} else {
			*c.to = *template ++;
		}
		c.to += n;
		c.capacity -= n;
	}
	*c.to = '\0';
	return to;
}
