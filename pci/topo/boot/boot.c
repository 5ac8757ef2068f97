/* SPDX-License-Identifier: Apache-2.0 */
#include "pci/topo/boot/boot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pci/topo/decode.h"
#include "pci/topo/fields.h"
#include "config/base/text.h"

#define ACS_KNOWN 0x7fu /* bits that the kernel has names for */

enum maker { INTEL, AMD, OTHER };

uint32_t hr_kernel_of_release(const char *release)
{
	char *end;
	unsigned long major = strtoul(release, &end, 10), minor;
	const char *text = end + 1;

	if (end == release || *end != '.' || major > 0x7fff)
		return 0;
	minor = strtoul(text, &end, 10);
	return end == text || minor > 0xffff ? 0 : HR_KERNEL_VERSION(major, (uint32_t)minor);
}

/* ---- words of the command line */

struct word {
	const char *text;
	size_t n;
};

/*
 * Words may be quoted, "pci=a;b" or pci="a;b", because the semicolon has a meaning in GRUB. Quotes
 * anywhere in a word hide spaces, as in next_arg() of the kernel.
 */
static bool next_word(const char **at, struct word *w)
{
	const char *p = *at + strspn(*at, " \t");
	const bool quoted = *p == '"';
	bool inside = quoted;
	size_t n = 0;

	if (!*p)
		return false;
	w->text = p += quoted;
	for (; p[n] && (inside || !strchr(" \t", p[n])); n++)
		inside ^= p[n] == '"';
	w->n = n - (quoted && n && p[n - 1] == '"');
	*at = p + n;
	return true;
}

/* The value of key= in that word; NULL: the word has another key. */
static const char *value_of(const struct word *w, const char *key, size_t *n)
{
	const size_t skip = strlen(key);
	const char *value = w->text + skip;

	if (w->n < skip || memcmp(w->text, key, skip) != 0)
		return NULL;
	*n = w->n - skip;
	if (*n && *value == '"') {
		value++;
		(*n)--;
		*n -= *n && value[*n - 1] == '"';
	}
	return value;
}

static bool begins(const char *text, size_t n, const char *with)
{
	return n >= strlen(with) && memcmp(text, with, strlen(with)) == 0;
}

/*
 * Options of the command line. The kernel compares only the beginnings of some words; so does this
 * code.
 */
struct said {
	bool off, soft, no_remapping; /* iommu=off, iommu=soft, intremap=off */
	int intel;		      /* intel_iommu=: 1 on, 0 off, -1 not given */
	bool amd_off;
	int passthrough; /* 1, 0, -1 not given */
};

static void parse_iommu_option(struct said *s, const char *option, size_t n)
{
	s->off |= begins(option, n, "off");
	s->soft |= begins(option, n, "soft");
	if (begins(option, n, "pt"))
		s->passthrough = 1;
	if (begins(option, n, "nopt"))
		s->passthrough = 0;
}

static void parse_intel_iommu_option(struct said *s, const char *option, size_t n)
{
	if (begins(option, n, "on"))
		s->intel = 1;
	if (begins(option, n, "off"))
		s->intel = 0;
}

static void parse_amd_iommu_option(struct said *s, const char *option, size_t n)
{
	s->amd_off |= begins(option, n, "off");
}

static void parse_intremap_option(struct said *s, const char *option, size_t n)
{
	s->no_remapping |= begins(option, n, "off");
}

static void each_option(struct said *s, const struct word *w, const char *key,
			void (*say)(struct said *s, const char *option, size_t n))
{
	size_t n, used;
	const char *at = value_of(w, key, &n);

	while (at && n) {
		const char *comma = memchr(at, ',', n);

		used = comma ? (size_t)(comma - at) : n;
		say(s, at, used);
		used += comma != NULL;
		at += used;
		n -= used;
	}
}

static void parse_pci_options(struct hr_next_boot *b, const struct word *w)
{
	size_t n;
	const char *at = value_of(w, "pci=", &n), *end = at ? at + n : NULL;

	while (at && at < end) {
		const char *comma = memchr(at, ',', (size_t)(end - at));
		size_t used = (size_t)((comma ? comma : end) - at);

		if (begins(at, used, "noats"))
			b->noats = true;
		if (begins(at, used, "disable_acs_redir="))
			b->disable = at + strlen("disable_acs_redir=");
		if (begins(at, used, "config_acs="))
			b->config = at + strlen("config_acs=");
		at += used + 1;
	}
}

static void parse_kernel_options(struct hr_next_boot *b, struct said *s, const char *cmdline)
{
	const char *bit;
	struct word w;
	size_t n;

	*s = (struct said){ .intel = -1, .passthrough = -1 };
	while (next_word(&cmdline, &w)) {
		each_option(s, &w, "iommu=", parse_iommu_option);
		each_option(s, &w, "intel_iommu=", parse_intel_iommu_option);
		each_option(s, &w, "amd_iommu=", parse_amd_iommu_option);
		each_option(s, &w, "intremap=", parse_intremap_option);
		bit = value_of(&w, "iommu.passthrough=", &n);
		if (bit && n)
			s->passthrough = strchr("1yYtT", *bit) || begins(bit, n, "on");
		parse_pci_options(b, &w);
	}
}

int hr_cmdline_passthrough(const char *cmdline)
{
	struct hr_next_boot unused = { 0 };
	struct said s;

	parse_kernel_options(&unused, &s, cmdline);
	return s.passthrough;
}

/* ---- effect on the IOMMU driver */

static enum maker maker_of(const struct hr_model *m)
{
	enum maker found = OTHER;

	if (m->sys.amd.source && m->sys.amd.value)
		return AMD;
	for (uint32_t i = 0; i < m->root_buses; i++) {
		uint32_t vendor = hr_get(&m->fn[m->root_bus[i].first], HR_F_VENDOR, 0);

		if (vendor == 0x1022 || vendor == 0x1d94) /* Hygon CPUs have AMD's IOMMU */
			return AMD;
		if (vendor == 0x8086)
			found = INTEL;
	}
	return found;
}

bool hr_next_boot_is_amd(const struct hr_model *m)
{
	return maker_of(m) == AMD;
}

static enum hr_iommu mode_now(const struct hr_model *m, enum hr_iommu now)
{
	if (now != HR_IOMMU_UNKNOWN)
		return now;
	return m->sys.iommu.source && m->sys.iommu.value <= HR_IOMMU_ON
		       ? (enum hr_iommu)m->sys.iommu.value
		       : HR_IOMMU_UNKNOWN;
}

static bool has_groups(const struct hr_model *m)
{
	for (uint32_t i = 0; i < m->count; i++)
		if (hr_known(&m->fn[i], HR_F_GROUP))
			return true;
	return false;
}

/* The ACS bits that a function supports: when the capability was not read, those that are set. */
static uint32_t supported(const struct hr_fn *f)
{
	return hr_get(f, HR_F_ACS_CAP, hr_get(f, HR_F_ACS_CTL, 0));
}

/* The ACS bits that Linux sets on a function, as far as the function supports them. */
static uint32_t isolation_of(const struct hr_fn *f)
{
	return hr_has_acs(f) ? supported(f) & HR_ACS_ISOLATION : 0;
}

/* True when every function that can be isolated is isolated. Firmware would leave some out. */
static bool all_isolated(const struct hr_model *m)
{
	bool able = false;

	for (uint32_t i = 0; i < m->count; i++) {
		const struct hr_fn *f = &m->fn[i];
		uint32_t want = isolation_of(f);

		if (!want || !hr_known(f, HR_F_ACS_CTL))
			continue;
		if ((hr_get(f, HR_F_ACS_CTL, 0) & want) != want)
			return false;
		able = true;
	}
	return able;
}

/*
 * True when the boot that left these registers asked for ACS. AMD's driver asks even if it stays
 * off.
 */
static bool has_asked(const struct hr_model *m, enum maker maker, enum hr_iommu now)
{
	if (now == HR_IOMMU_PT || now == HR_IOMMU_ON || has_groups(m))
		return true;
	return (now == HR_IOMMU_UNKNOWN || maker == AMD) && all_isolated(m);
}

/* True when the command line keeps the driver off. */
static bool is_off(const struct said *s, enum maker maker, uint32_t kernel)
{
	if (maker == OTHER)
		return false;
	if (s->off || (s->soft && kernel < HR_KERNEL_SOFT_IGNORED))
		return true;
	return maker == INTEL ? s->intel == 0 : s->amd_off;
}

/*
 * True when the driver starts unless the command line turns it off. -1: the kernel's build decides.
 */
static int comes_up(const struct hr_next_boot *b, const struct said *s, enum maker maker,
		    enum hr_iommu now)
{
	if (maker == INTEL && s->intel == 1)
		return 1;
	if (now == HR_IOMMU_OFF)
		return maker == AMD && b->asked;
	return now != HR_IOMMU_UNKNOWN || b->asked ? 1 : -1;
}

static enum hr_iommu mode_after(const struct said *s, enum hr_iommu now)
{
	if (s->passthrough >= 0)
		return s->passthrough ? HR_IOMMU_PT : HR_IOMMU_ON;
	return now == HR_IOMMU_OFF ? HR_IOMMU_UNKNOWN : now;
}

/* AMD's driver asks for ACS when it finds its table: at detection, or for interrupt remapping. */
static bool asks_though_off(const struct hr_next_boot *b, const struct said *s, enum maker maker)
{
	return maker == AMD && b->asked && !(s->off && s->no_remapping);
}

void hr_next_boot_predict(const struct hr_model *m, uint32_t kernel, enum hr_iommu now,
			  const char *cmdline, struct hr_next_boot *b)
{
	enum maker maker = maker_of(m);
	struct said said;
	int up;

	*b = (struct hr_next_boot){ .kernel = kernel };
	if (!b->kernel)
		b->kernel = hr_kernel_of_release(m->sys.kernel);
	if (!b->kernel)
		b->kernel = UINT32_MAX;
	now = mode_now(m, now);
	b->asked = has_asked(m, maker, now);
	parse_kernel_options(b, &said, cmdline);
	up = comes_up(b, &said, maker, now);
	if (is_off(&said, maker, b->kernel) || up == 0) {
		b->iommu = HR_IOMMU_OFF;
		b->acs = up != 0 && asks_though_off(b, &said, maker);
		return;
	}
	b->acs = up > 0;
	b->iommu = up > 0 ? mode_after(&said, now) : HR_IOMMU_UNKNOWN;
}

void hr_boot_words(const struct hr_model *m, int *passthrough, bool *asked, const char **off)
{
	const uint32_t kernel = hr_kernel_of_release(m->sys.kernel);
	const enum maker maker = maker_of(m);
	struct hr_next_boot unused = { 0 };
	struct said s;

	parse_kernel_options(&unused, &s, m->sys.cmdline);
	*passthrough = s.passthrough;
	*asked = maker == INTEL ? s.intel == 1 : maker == AMD && s.passthrough >= 0;
	*off = NULL;
	if (is_off(&s, maker, kernel ? kernel : UINT32_MAX))
		*off = s.off		? "iommu=off"
		       : maker == INTEL ? s.intel == 0 ? "intel_iommu=off" : "iommu=soft"
		       : s.amd_off	? "amd_iommu=off"
					: "iommu=soft";
}

static bool decides_mode(const struct word *w)
{
	static const char *const keys[] = { "iommu=", "intel_iommu=", "amd_iommu=",
					    "iommu.passthrough=" };
	size_t n;

	for (unsigned i = 0; i < sizeof keys / sizeof *keys; i++)
		if (value_of(w, keys[i], &n))
			return true;
	return false;
}

/* A word with a space that has lost the quotes around it. */
static bool is_bare(const struct word *w)
{
	return memchr(w->text, ' ', w->n) && !memchr(w->text, '"', w->n);
}

const char *hr_next_boot_cmdline(const struct hr_model *m, enum hr_iommu mode,
				 char line[HR_CMDLINE_MAX])
{
	static const char *const words[3][4] = {
		[INTEL] = { "", "intel_iommu=off", "intel_iommu=on iommu=pt",
			    "intel_iommu=on iommu=nopt" },
		[AMD] = { "", "amd_iommu=off", "iommu=pt", "iommu=nopt" },
		[OTHER] = { "", "iommu=off", "iommu.passthrough=1", "iommu.passthrough=0" },
	};
	const char *put = words[maker_of(m)][mode], *at = m->sys.cmdline;
	size_t used = 0;
	struct word w;

	while (next_word(&at, &w))
		if (!decides_mode(&w) && used + w.n + 4 < HR_CMDLINE_MAX)
			used += (size_t)snprintf(line + used, HR_CMDLINE_MAX - used,
						 is_bare(&w) ? "\"%.*s\" " : "%.*s ", (int)w.n,
						 w.text);
	snprintf(line + used, HR_CMDLINE_MAX - used, "%s", put);
	return put;
}

void hr_next_boot_force(const struct hr_model *m, struct hr_next_boot *b, enum hr_iommu mode)
{
	b->iommu = mode;
	b->acs = mode != HR_IOMMU_OFF || (maker_of(m) == AMD && b->asked);
}

/* ---- pci_dev_str_match() */

static bool at_devfn(const char **text, uint32_t *dev, uint32_t *fn)
{
	uint64_t first, second;

	if (!hr_number_parse(*text, 16, UINT32_MAX, text, &first) || **text != '.' ||
	    !hr_number_parse(*text + 1, 16, UINT32_MAX, text, &second))
		return false;
	*dev = (uint32_t)first;
	*fn = (uint32_t)second;
	return true;
}

/*
 * Match "00:01.0/00.0/01.0": a function and the path down from it. 1 match, 0 none, -1 malformed.
 */
static int match_path(const struct hr_model *m, int32_t fn, const char **text)
{
	uint32_t domain, bus, dev[HR_DEPTH_MAX], func[HR_DEPTH_MAX];
	size_t used = hr_bdf_parse(*text, &domain, &bus, &dev[0], &func[0]);
	unsigned n = 1;

	if (!used)
		return -1;
	for (*text += used; **text == '/'; n++) {
		++*text;
		if (n == HR_DEPTH_MAX || !at_devfn(text, &dev[n], &func[n]))
			return -1;
	}
	for (; fn != HR_NO_FN && n--; fn = m->fn[fn].parent)
		if (m->fn[fn].dev != dev[n] || m->fn[fn].fn != func[n])
			return 0;
		else if (n == 0)
			return m->fn[fn].domain == domain && m->fn[fn].bus == bus;
	return 0;
}

/* Match "pci:10b5:8796", 0 for any. The model has no subsystem numbers, so those match nothing. */
static int match_numbers(const struct hr_fn *f, const char **text)
{
	unsigned vendor, device, sub[2] = { 0, 0 };
	int used = 0, more = 0;

	if (sscanf(*text, "%4x:%4x%n", &vendor, &device, &used) != 2 || !used)
		return -1;
	if (sscanf(*text + used, ":%4x:%4x%n", &sub[0], &sub[1], &more) == 2)
		used += more;
	*text += used;
	return (!vendor || vendor == hr_get(f, HR_F_VENDOR, 0)) &&
	       (!device || device == hr_get(f, HR_F_DEVICE, 0)) && !sub[0] && !sub[1];
}

static int match_one(const struct hr_model *m, int32_t fn, const char **text)
{
	if (strncmp(*text, "pci:", 4) != 0)
		return match_path(m, fn, text);
	*text += 4;
	return match_numbers(&m->fn[fn], text);
}

/* ---- __pci_config_acs() */

struct setting {
	uint32_t mask, flags;
};

/* Parse "x0x00xx@": the rightmost character is SV. False: another text. */
static bool parse_acs_setting(const char **text, struct setting *s)
{
	const char *at = strchr(*text, '@');
	size_t shown = strcspn(*text, " \t\"");

	if (!at || (size_t)(at - *text) > shown || at - *text > 16)
		return false;
	*s = (struct setting){ 0 };
	for (const char *c = at; c-- > *text;) {
		uint32_t bit = 1u << (at - c - 1);

		if (!strchr("01xX", *c))
			return false;
		s->mask |= *c == '0' || *c == '1' ? bit : 0;
		s->flags |= *c == '1' ? bit : 0;
	}
	*text = at + 1;
	return (s->mask & ~ACS_KNOWN) == 0;
}

/*
 * True when an entry of the list names the function; then *s holds the setting of config_acs.
 * `fixed`: the list names functions only.
 */
static bool listed(const struct hr_model *m, const struct hr_next_boot *b, int32_t fn,
		   const char *text, bool fixed, struct setting *s)
{
	for (bool first = true;; first = false, text++) {
		int match;

		if (!fixed && (first || b->kernel >= HR_KERNEL_ACS_MENDED) &&
		    !parse_acs_setting(&text, s))
			return false;
		match = match_one(m, fn, &text);
		if (match)
			return match > 0;
		if (*text != ';')
			return false;
	}
}

/*
 * Kernels with the fault use the firmware's value as the base for forced bits, and set the other
 * bits.
 */
static uint32_t configure(const struct hr_next_boot *b, const struct setting *s, uint32_t ctl,
			  uint32_t firmware)
{
	if (b->kernel < HR_KERNEL_ACS_MENDED)
		return (ctl & ~s->mask) | (firmware & s->mask) | s->flags;
	return (firmware & ~s->mask) | (s->flags & s->mask);
}

static uint32_t acs_after_boot(const struct hr_model *m, const struct hr_next_boot *b, int32_t fn,
			       uint32_t firmware)
{
	const struct hr_fn *f = &m->fn[fn];
	const uint32_t cap = supported(f);
	struct setting no_redirect = { HR_ACS_REDIRECT, ACS_KNOWN & ~HR_ACS_REDIRECT }, own;
	uint32_t ctl = firmware;
	/* A separate quirk handles these ports, and clears redirect whatever the parameter is. */
	bool wide = hr_acs_is_wide(hr_get(f, HR_F_VENDOR, 0), hr_get(f, HR_F_DEVICE, 0));

	if (b->acs)
		ctl |= cap & (HR_ACS_ISOLATION | (b->noats ? HR_ACS_TB : 0));
	if (b->disable && b->kernel >= HR_KERNEL_DISABLE_REDIR &&
	    listed(m, b, fn, b->disable, true, NULL)) {
		if (wide || b->kernel < HR_KERNEL_CONFIG_ACS)
			ctl &= ~HR_ACS_REDIRECT;
		else
			ctl = configure(b, &no_redirect, ctl, firmware);
	}
	if (b->config && b->kernel >= HR_KERNEL_CONFIG_ACS &&
	    listed(m, b, fn, b->config, false, &own))
		ctl = wide ? ctl & ~HR_ACS_REDIRECT : configure(b, &own, ctl, firmware);
	return ctl & cap;
}

uint32_t hr_next_boot_acs(const struct hr_model *m, const struct hr_next_boot *b, int32_t fn,
			  bool *assumed)
{
	const struct hr_fn *f = &m->fn[fn];
	const uint32_t now = hr_get(f, HR_F_ACS_CTL, 0);
	const uint32_t kernels = b->asked ? isolation_of(f) : 0;
	uint32_t ctl;

	if (assumed)
		*assumed = false;
	if (!hr_has_acs(f) || f->fact[HR_F_ACS_CTL].source == HR_SRC_USER)
		return now;
	ctl = acs_after_boot(m, b, fn, now & ~kernels);
	if (assumed)
		*assumed = ((ctl ^ acs_after_boot(m, b, fn, now)) & HR_ACS_REDIRECT) != 0;
	return ctl;
}

uint32_t hr_next_boot_apply(struct hr_model *m, const struct hr_next_boot *b)
{
	uint32_t changed = 0;

	for (uint32_t i = 0; i < m->count; i++) {
		struct hr_fn *f = &m->fn[i];
		bool assumed;
		uint32_t ctl;

		if (!hr_has_acs(f) || !hr_known(f, HR_F_ACS_CTL))
			continue;
		ctl = hr_next_boot_acs(m, b, (int32_t)i, &assumed);
		changed += ctl != hr_get(f, HR_F_ACS_CTL, 0);
		f->acs_assumed = assumed;
		hr_fn_set(f, HR_F_ACS_CTL, ctl, HR_SRC_USER);
	}
	m->regrouped = m->booted = true;
	return changed;
}
