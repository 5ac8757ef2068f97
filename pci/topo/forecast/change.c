/* SPDX-License-Identifier: Apache-2.0 */
#include "pci/topo/forecast/change.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pci/topo/boot/boot.h"
#include "pci/topo/decode.h"
#include "pci/topo/fields.h"
#include "config/base/text.h"

struct change {
	struct hr_model *m;
	struct hr_topo_options *opt;
	const char *value;
	struct hr_error *error;
};

static int refuse_change(struct change *c, const char *what)
{
	return hr_fail(c->error, HR_ERROR_USAGE, -EINVAL, "%s: '%.100s'", what, c->value);
}

static int set_acs(struct change *c, struct hr_fn *f)
{
	uint32_t cap = hr_get(f, HR_F_ACS_CAP, 0), ctl = hr_get(f, HR_F_ACS_CTL, 0);

	if (!hr_has_acs(f))
		return refuse_change(c, "the function has no ACS capability, or it was not read");
	if (strcmp(c->value, "clear") == 0)
		ctl &= ~HR_ACS_REDIRECT;
	else if (strcmp(c->value, "set") == 0)
		ctl |= HR_ACS_ISOLATION & cap;
	else if (!hr_number_parse_u32(c->value, 16, &ctl) || ctl > 0x7f)
		return refuse_change(c, "ACS is clear, set, or a value up to 7f");
	hr_fn_set(f, HR_F_ACS_CTL, ctl, HR_SRC_USER);
	c->m->regrouped = true;
	return 0;
}

static int set_mps(struct change *c, struct hr_fn *f)
{
	uint32_t bytes;

	if (!hr_number_parse_u32(c->value, 10, &bytes) || bytes < 128 || bytes > 4096 ||
	    bytes & (bytes - 1))
		return refuse_change(c, "MPS is 128, 256, 512, 1024, 2048 or 4096");
	if (bytes > hr_get(f, HR_F_MPSS, 4096))
		return refuse_change(c, "the function does not support that payload");
	hr_fn_set(f, HR_F_MPS, bytes, HR_SRC_USER);
	return 0;
}

static int set_link(struct change *c, struct hr_fn *f)
{
	const struct hr_fn *up = f->parent == HR_NO_FN ? f : &c->m->fn[f->parent];
	uint32_t speed = hr_get(f, HR_F_SPEED_MAX, 0), width = hr_get(f, HR_F_WIDTH_MAX, 0);
	uint32_t up_speed = hr_get(up, HR_F_SPEED_MAX, speed);
	uint32_t up_width = hr_get(up, HR_F_WIDTH_MAX, width);

	if (strcmp(c->value, "full") != 0)
		return refuse_change(c, "a link is set to full");
	hr_fn_set(f, HR_F_SPEED, speed < up_speed ? speed : up_speed, HR_SRC_USER);
	hr_fn_set(f, HR_F_WIDTH, width < up_width ? width : up_width, HR_SRC_USER);
	return 0;
}

static int32_t find_changed_function(struct change *c, const char *text)
{
	uint32_t domain, bus, dev, fn;
	size_t n = hr_bdf_parse(text, &domain, &bus, &dev, &fn);

	return n && (text[n] == '\0' || text[n] == '=') ? hr_model_find(c->m, domain, bus, dev, fn)
							: HR_NO_FN;
}

/* Virtual functions are in the slot of their physical function. */
static bool same_slot(const struct hr_model *m, const struct hr_fn *a, const struct hr_fn *b)
{
	a = a->physfn == HR_NO_FN ? a : &m->fn[a->physfn];
	b = b->physfn == HR_NO_FN ? b : &m->fn[b->physfn];
	return a->domain == b->domain && a->bus == b->bus && a->dev == b->dev;
}

/* Move all functions of the slot. The firmware will assign other addresses. */
static int move_card(struct change *c, struct hr_fn *f)
{
	int32_t port = find_changed_function(c, c->value);

	if (port == HR_NO_FN || !hr_is_bridge(&c->m->fn[port]))
		return refuse_change(c, "a card moves below a bridge of this machine");
	if (hr_get(&c->m->fn[port], HR_F_PORT, HR_PORT_ROOT) == HR_PORT_UPSTREAM)
		return refuse_change(c, "a card does not fit below the upstream port of a switch");
	for (int32_t up = port; up != HR_NO_FN; up = c->m->fn[up].parent)
		if (&c->m->fn[up] == f)
			return refuse_change(c, "a card cannot move below itself");
	for (uint32_t i = 0; i < c->m->count; i++) {
		struct hr_fn *other = &c->m->fn[i];

		if (!same_slot(c->m, other, f))
			continue;
		other->placed = other->readdressed = true;
		other->under = hr_address(&c->m->fn[port]);
		hr_fn_set(other, HR_F_NUMA, hr_get(&c->m->fn[port], HR_F_NUMA, ~0u), HR_SRC_USER);
	}
	c->m->regrouped = true;
	return 0;
}

/*
 * A port has one link, so one card below it. Only bridges to conventional PCI have several cards.
 */
int hr_change_check(const struct hr_model *m, struct hr_error *error)
{
	char card[HR_BDF_MAX], other[HR_BDF_MAX], port[HR_BDF_MAX];

	for (uint32_t i = 0; i < m->count; i++) {
		const struct hr_fn *f = &m->fn[i],
				   *up = f->parent == HR_NO_FN ? f : &m->fn[f->parent];

		if (!f->readdressed || up == f ||
		    hr_get(up, HR_F_PORT, HR_PORT_ROOT) == HR_PORT_TO_PCI)
			continue;
		for (int32_t at = up->child; at != HR_NO_FN; at = m->fn[at].sibling)
			if (!same_slot(m, &m->fn[at], f))
				return hr_fail(error, HR_ERROR_USAGE, -EINVAL,
					       "%s cannot go to %s, which holds %s: move that too",
					       hr_bdf(f, card), hr_bdf(up, port),
					       hr_bdf(&m->fn[at], other));
	}
	return 0;
}

/* The registers come from one boot, so only the next boot can be predicted from them. */
static int boot(struct change *c, const char *line, enum hr_iommu forced)
{
	struct hr_next_boot b;

	if (c->m->booted)
		return refuse_change(c, "one boot at a time: iommu= or boot=, with all its words");
	hr_next_boot_predict(c->m, c->opt->kernel, c->opt->iommu, line, &b);
	if (forced != HR_IOMMU_UNKNOWN)
		hr_next_boot_force(c->m, &b, forced);
	if (b.iommu == HR_IOMMU_UNKNOWN)
		return hr_fail(
			c->error, HR_ERROR_USAGE, -EINVAL, "%s",
			b.acs ? "the kernel's build decides between passthrough and translation: "
				"add iommu=pt or iommu.passthrough=0"
			      : "the kernel's build decides whether the IOMMU comes up: add "
				"intel_iommu=on or intel_iommu=off, or use iommu=");
	c->opt->iommu = b.iommu;
	hr_next_boot_apply(c->m, &b);
	return 0;
}

static int set_iommu(struct change *c)
{
	static const char *const mode[] = { "", "off", "pt", "on" };
	char line[HR_CMDLINE_MAX];

	for (unsigned i = 1; i < 4; i++)
		if (strcmp(c->value, mode[i]) == 0) {
			hr_next_boot_cmdline(c->m, (enum hr_iommu)i, line);
			return boot(c, line, (enum hr_iommu)i);
		}
	return refuse_change(c, "the IOMMU is off, pt or on");
}

static int set_boot(struct change *c)
{
	char line[HR_CMDLINE_MAX];
	int n = snprintf(line, sizeof line, "%s %s", c->m->sys.cmdline, c->value);

	if (n < 0 || (size_t)n >= sizeof line)
		return refuse_change(c, "the command line is too long");
	return boot(c, line, HR_IOMMU_UNKNOWN);
}

/* "all": change every function that supports the change; others stay as they are. */
static int for_all(struct change *c, int (*set)(struct change *, struct hr_fn *))
{
	unsigned done = 0;

	for (uint32_t i = 0; i < c->m->count; i++)
		if (hr_known(&c->m->fn[i], set == set_acs ? HR_F_ACS_CTL : HR_F_MPS))
			done += set(c, &c->m->fn[i]) == 0;
	hr_error_clear(c->error); /* of single functions */
	return done ? 0 : refuse_change(c, "no function can take that value");
}

int hr_change_apply(struct hr_model *m, struct hr_topo_options *opt, const char *text,
		    struct hr_error *error)
{
	static const struct {
		const char *name;
		int (*set)(struct change *c, struct hr_fn *f);
		bool all;
	} kinds[] = { { "acs:", set_acs, true },
		      { "mps:", set_mps, true },
		      { "link:", set_link, false },
		      { "move:", move_card, false } };
	struct change c = { m, opt, strchr(text, '='), error };

	if (!c.value)
		return hr_fail(error, HR_ERROR_USAGE, -EINVAL,
			       "a change has a value, like acs:all=clear");
	c.value++;
	if (strncmp(text, "iommu=", 6) == 0)
		return set_iommu(&c);
	if (strncmp(text, "boot=", 5) == 0)
		return set_boot(&c);
	for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		const char *where = text + strlen(kinds[i].name);
		int32_t fn;

		if (strncmp(text, kinds[i].name, strlen(kinds[i].name)) != 0)
			continue;
		if (kinds[i].all && strncmp(where, "all=", 4) == 0)
			return for_all(&c, kinds[i].set);
		fn = find_changed_function(&c, where);
		if (fn == HR_NO_FN)
			return hr_fail(error, HR_ERROR_USAGE, -EINVAL,
				       "there is no function '%.*s'", (int)(c.value - 1 - where),
				       where);
		return kinds[i].set(&c, &m->fn[fn]);
	}
	return hr_fail(error, HR_ERROR_USAGE, -EINVAL,
		       "a change begins with acs:, mps:, link:, move:, iommu= or boot=");
}

/* ---- the fix */

static int add_write(const struct hr_topology *e, struct hr_fix *fix, int32_t fn)
{
	const struct hr_fn *f = &e->m->fn[fn];
	uint32_t ctl = hr_get(f, HR_F_ACS_CTL, 0);

	if (!e->derived[fn].redirect)
		return 0;
	for (unsigned i = 0; i < fix->count; i++)
		if (fix->write[i].fn == fn)
			return 0;
	if (fix->count == HR_FIX_MAX)
		return -ENOSPC;
	fix->write[fix->count++] = (struct hr_fix_write){
		fn, hr_acs_ctl_offset(f),
		hr_acs_is_wide(hr_get(f, HR_F_VENDOR, 0), hr_get(f, HR_F_DEVICE, 0)) ? 4 : 2, ctl,
		ctl & ~HR_ACS_REDIRECT
	};
	return 0;
}

/* A parameter replaces the earlier one of its kind, so its list must be complete. */
static int add_boot(const struct hr_topology *e, struct hr_fix *fix, int32_t fn)
{
	struct hr_next_boot plain = e->boot;

	plain.disable = plain.config = NULL;
	plain.acs = plain.asked;
	if (!(hr_next_boot_acs(e->m, &plain, fn, NULL) & HR_ACS_REDIRECT))
		return 0;
	for (unsigned i = 0; i < fix->boots; i++)
		if (fix->boot[i] == fn)
			return 0;
	if (fix->boots == HR_FIX_MAX)
		return -ENOSPC;
	fix->boot[fix->boots++] = fn;
	return 0;
}

static int add_port(const struct hr_topology *e, struct hr_fix *fix, int32_t fn)
{
	int err = add_write(e, fix, fn);

	return err ? err : add_boot(e, fix, fn);
}

static int add_path(const struct hr_topology *e, struct hr_fix *fix, int32_t from, int32_t common)
{
	int err = 0;

	for (int32_t at = from; at != common && !err; at = e->m->fn[at].parent)
		err = add_port(e, fix, at);
	return err;
}

static int add_pair(const struct hr_topology *e, struct hr_fix *fix, const struct hr_pair *p)
{
	int err;

	fix->pairs += p->any_redirect;
	fix->boot_pairs += !p->any_redirect;
	err = add_path(e, fix, p->gpu, p->common);
	if (!err)
		err = add_path(e, fix, p->ssd, p->common);
	return err ? err : add_port(e, fix, p->common);
}

const char *hr_fix_list(struct hr_model *m, const struct hr_fix *fix)
{
	size_t capacity = (size_t)fix->boots * (HR_BDF_MAX + 1) + 1, used = 0;
	char *list = hr_model_alloc(m, capacity), bdf[HR_BDF_MAX];

	if (!list)
		return NULL;
	list[0] = '\0';
	for (unsigned i = 0; i < fix->boots; i++)
		used += (size_t)snprintf(list + used, capacity - used, "%s%s", i ? ";" : "",
					 hr_bdf(&m->fn[fix->boot[i]], bdf));
	return list;
}

int hr_fix_plan(const struct hr_topology *e, bool (*wanted)(void *to, const struct hr_pair *p),
		void *to, struct hr_fix *fix)
{
	struct hr_pair p;
	int err = 0;

	fix->count = fix->boots = 0;
	fix->pairs = fix->unread = fix->boot_pairs = 0;
	if (e->guest) /* emulated ports do not carry the data */
		return 0;
	for (uint32_t i = 0; i < e->gpus && !err; i++)
		for (uint32_t j = 0; j < e->ssds && !err; j++) {
			hr_pair_evaluate(e, e->gpu[i], e->ssd[j], &p);
			if (p.common == HR_NO_FN || (wanted && !wanted(to, &p)))
				continue;
			fix->unread += p.unread_redirect;
			if (p.any_redirect || (p.boot_redirect && e->boot.asked))
				err = add_pair(e, fix, &p);
		}
	return err;
}

/* A port, or a function that may be one: only a line of ACSCtl is known. */
static bool may_be_port(const struct hr_fn *f)
{
	return hr_is_bridge(f) || !hr_known(f, HR_F_CLASS) ||
	       hr_get(f, HR_F_CLASS, 0) >> 8 == 0x0604;
}

int hr_fix_all_ports(const struct hr_topology *e, struct hr_fix *fix)
{
	int err = 0;

	*fix = (struct hr_fix){ 0 };
	for (uint32_t i = 0; i < e->m->count && !err && !e->guest; i++)
		if (may_be_port(&e->m->fn[i]))
			err = add_write(e, fix, (int32_t)i);
	return err;
}

void hr_fix_assume(struct hr_model *m, const struct hr_fix *fix)
{
	for (unsigned i = 0; i < fix->count; i++)
		hr_fn_set(&m->fn[fix->write[i].fn], HR_F_ACS_CTL, fix->write[i].after, HR_SRC_USER);
	m->regrouped = fix->count != 0;
}

/* Find a mounted disk whose path to a GPU the fix would change. */
static int32_t busy_disk(const struct hr_topology *e)
{
	struct hr_pair p;

	for (uint32_t j = 0; j < e->ssds; j++) {
		if (!hr_get(&e->m->fn[e->ssd[j]], HR_F_MOUNTED, 0))
			continue;
		for (uint32_t i = 0; i < e->gpus; i++) {
			hr_pair_evaluate(e, e->gpu[i], e->ssd[j], &p);
			if (p.common != HR_NO_FN && p.any_redirect)
				return e->ssd[j];
		}
	}
	return HR_NO_FN;
}

bool hr_fix_refused(const struct hr_topology *e, const struct hr_fix *fix, struct hr_error *error)
{
	const struct hr_system *sys = &e->m->sys;
	char bdf[HR_BDF_MAX];
	int32_t disk;

	if (fix->count == 0)
		return hr_fail(
			error, HR_ERROR_MISSING, -EPERM,
			fix->unread ? "ACS of the switches was not read"
				    : "nothing to fix: no pair shares a switch and is redirected");
	if (!sys->live)
		return hr_fail(error, HR_ERROR_MISSING, -EPERM,
			       "the input is a capture, not this machine");
	if (sys->lockdown[0] && strcmp(sys->lockdown, "none") != 0)
		return hr_fail(error, HR_ERROR_MISSING, -EPERM,
			       "kernel lockdown (%.40s): use the boot parameter", sys->lockdown);
	if (geteuid() != 0)
		return hr_fail(error, HR_ERROR_MISSING, -EPERM,
			       "registers can be written by root only");
	disk = busy_disk(e);
	if (disk != HR_NO_FN)
		hr_fail(error, HR_ERROR_MISSING, -EPERM,
			"%s: a file system on this disk is mounted", hr_bdf(&e->m->fn[disk], bdf));
	return disk != HR_NO_FN;
}
