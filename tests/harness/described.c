/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/harness/described.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

static char text[8192];
static size_t used;
static const char code[] = "01273456"; /* by enum hr_src */

static void __attribute__((format(printf, 1, 2))) put(const char *format, ...)
{
	va_list args;

	if (used)
		text[used++] = ' ';
	va_start(args, format);
	used += (size_t)vsnprintf(text + used, sizeof text - used, format, args);
	va_end(args);
	cr_assert_lt(used, sizeof text - 1);
}

static void put_word(const char *name, const char *word)
{
	if (word)
		put("%s='%s'", name, word);
}

static void put_fact(const char *name, const struct hr_fact *fact)
{
	if (fact->source != HR_SRC_NONE)
		put("%s=%x/%c", name, fact->value, code[fact->source]);
}

static void put_bars(const char *name, const struct hr_bar *bar)
{
	for (unsigned i = 0; i < HR_BARS_MAX; i++)
		if (bar[i].flags || bar[i].source || bar[i].size_source)
			put("%s%u=%" PRIx64 "+%" PRIx64 " f%x %c,%c", name, i, bar[i].base,
			    bar[i].size, bar[i].flags, code[bar[i].source],
			    code[bar[i].size_source]);
}

static void put_window(const char *name, const struct hr_window *w)
{
	if (w->source != HR_SRC_NONE)
		put("%s=%" PRIx64 "-%" PRIx64 "/%c", name, w->base, w->limit, code[w->source]);
}

const char *fake_described(const struct hr_fn *f)
{
	char address[HR_BDF_MAX];

	used = 0;
	text[0] = '\0';
	for (unsigned i = 0; i < HR_FACTS_COUNT; i++)
		put_fact(hr_fact_name((enum hr_fact_id)i), &f->fact[i]);
	put_bars("bar", f->bar);
	put_bars("vf_bar", f->vf_bar);
	put_window("mem", &f->mem);
	put_window("pref", &f->pref);
	for (unsigned i = 0; i < f->links; i++)
		put("linked=%s", hr_address_text(f->linked[i], address));
	put_word("name", f->name && f->name[0] ? f->name : NULL);
	put_word("driver", f->driver);
	put_word("pci_slot", f->pci_slot);
	put_word("cpus", f->cpus);
	put_word("fs", f->fs);
	put_word("devices", f->devices);
	if (f->denied)
		put("denied");
	if (f->vf)
		put("vf");
	if (f->vf_maybe)
		put("vf_maybe");
	if (f->config_bytes)
		put("config=%u", f->config_bytes);
	return text;
}

const char *fake_described_system(const struct hr_system *sys)
{
	used = 0;
	text[0] = '\0';
	put_fact("amd", &sys->amd);
	put_fact("family", &sys->family);
	put_fact("cpus", &sys->cpus);
	put_fact("hypervisor", &sys->hypervisor);
	put_fact("iommu", &sys->iommu);
	put_fact("p2pdma", &sys->p2pdma);
	put_fact("nvidia_open", &sys->nvidia_open);
	put_fact("multipath", &sys->multipath);
	put_word("kernel", sys->kernel[0] ? sys->kernel : NULL);
	put_word("cmdline", sys->cmdline[0] ? sys->cmdline : NULL);
	put_word("lockdown", sys->lockdown[0] ? sys->lockdown : NULL);
	put_word("nvidia", sys->nvidia[0] ? sys->nvidia : NULL);
	put_word("nvidia_keys", sys->nvidia_keys[0] ? sys->nvidia_keys : NULL);
	put_word("nvidia_fs", sys->nvidia_fs[0] ? sys->nvidia_fs : NULL);
	return text;
}
