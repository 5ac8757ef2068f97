/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A function that a text lists twice. A list and a dump of one machine state are one capture; two
 * different states are an error.
 */
#include "pci/topo/merge.h"

#include <stdio.h>
#include <string.h>

#include "pci/topo/fields.h"

/* Facts that do not change between two commands of one session, with the bits that text shows. */
static const struct {
	enum hr_fact_id id;
	uint32_t mask;
} lasting[] = {
	{ HR_F_VENDOR, 0xffff },
	{ HR_F_DEVICE, 0xffff },
	{ HR_F_CLASS, 0xffff00 },
	{ HR_F_HEADER, 0x7f },
	{ HR_F_COMMAND, HR_COMMAND_MSE | HR_COMMAND_BME },
	{ HR_F_PRIMARY, ~0u },
	{ HR_F_SECONDARY, ~0u },
	{ HR_F_SUBORDINATE, ~0u },
	{ HR_F_PORT, ~0u },
	{ HR_F_EXP, ~0u },
	{ HR_F_MPSS, ~0u },
	{ HR_F_MPS, ~0u },
	{ HR_F_MRRS, ~0u },
	{ HR_F_SPEED_MAX, ~0u },
	{ HR_F_WIDTH_MAX, ~0u },
	{ HR_F_ACS, ~0u },
	{ HR_F_ACS_CAP, 0x7f },
	{ HR_F_ACS_CTL, 0x7f },
	{ HR_F_NUMA, ~0u },
	{ HR_F_GROUP, ~0u },
};

static bool stated(const struct hr_fn *f, enum hr_fact_id id)
{
	return f->fact[id].source >= HR_SRC_TEXT;
}

static bool is_open(const struct hr_window *w)
{
	return w->base && w->base <= w->limit;
}

/*
 * Text shows CPU addresses, registers hold bus addresses. Only values of the same source are
 * compared.
 */
static bool windows_differ(const struct hr_window *a, const struct hr_window *b)
{
	if (a->source != b->source || a->source == HR_SRC_NONE)
		return false;
	if (!is_open(a) || !is_open(b))
		return is_open(a) != is_open(b);
	return a->base != b->base || a->limit != b->limit;
}

static bool bars_differ(const struct hr_bar *a, const struct hr_bar *b)
{
	return a->source == b->source && a->flags & b->flags & HR_BAR_MEM &&
	       !((a->flags | b->flags) & (HR_BAR_UNASSIGNED | HR_BAR_UPPER)) && a->base != b->base;
}

static bool drivers_differ(const struct hr_fn *a, const struct hr_fn *b)
{
	return a->driver && b->driver && a->driver[0] && b->driver[0] &&
	       strcmp(a->driver, b->driver) != 0;
}

bool hr_function_contradicts(const struct hr_fn *was, const struct hr_fn *is, char *text,
			     size_t capacity)
{
	for (unsigned i = 0; i < sizeof lasting / sizeof *lasting; i++) {
		enum hr_fact_id id = lasting[i].id;
		uint32_t mask = lasting[i].mask, a = was->fact[id].value & mask,
			 b = is->fact[id].value & mask;

		if (stated(was, id) && stated(is, id) && a != b) {
			snprintf(text, capacity, "%s is 0x%x before and 0x%x here",
				 hr_fact_name(id), a, b);
			return true;
		}
	}
	for (unsigned i = 0; i < HR_BARS_MAX; i++)
		if (bars_differ(&was->bar[i], &is->bar[i])) {
			snprintf(text, capacity, "BAR %u is at 0x%llx before and 0x%llx here", i,
				 (unsigned long long)was->bar[i].base,
				 (unsigned long long)is->bar[i].base);
			return true;
		}
	if (windows_differ(&was->mem, &is->mem) || windows_differ(&was->pref, &is->pref)) {
		snprintf(text, capacity, "%s window is different before",
			 windows_differ(&was->mem, &is->mem) ? "memory" : "prefetchable");
		return true;
	}
	if (!drivers_differ(was, is))
		return false;
	snprintf(text, capacity, "driver is %.40s before and %.40s here", was->driver, is->driver);
	return true;
}

static void add_window(struct hr_window *to, const struct hr_window *from)
{
	if (from->source && from->source >= to->source)
		*to = *from;
}

static void add_bar(struct hr_bar *to, const struct hr_bar *from)
{
	if (from->flags && from->source >= to->source) {
		to->base = from->base;
		to->flags = from->flags;
		to->source = from->source;
	}
	if (from->size && from->size_source >= to->size_source) {
		to->size = from->size;
		to->size_source = from->size_source;
	}
	if (from->sizes && from->sizes_source >= to->sizes_source) {
		to->sizes = from->sizes;
		to->sizes_source = from->sizes_source;
	}
}

void hr_function_merge(struct hr_fn *f, const struct hr_fn *more)
{
	for (unsigned i = 0; i < HR_FACTS_COUNT; i++)
		if (more->fact[i].source != HR_SRC_NONE)
			hr_fact_set(&f->fact[i], more->fact[i].value,
				    (enum hr_src)more->fact[i].source);
	for (unsigned i = 0; i < HR_BARS_MAX; i++)
		add_bar(&f->bar[i], &more->bar[i]);
	add_window(&f->mem, &more->mem);
	add_window(&f->pref, &more->pref);
	if (more->config && more->config_bytes >= f->config_bytes) {
		f->config = more->config;
		f->config_bytes = more->config_bytes;
	}
	if (f->name[0] == '\0')
		f->name = more->name;
	if (more->driver)
		f->driver = more->driver;
	if (more->pci_slot)
		f->pci_slot = more->pci_slot;
	if (more->cpus)
		f->cpus = more->cpus;
	if (more->fs)
		f->fs = more->fs;
	if (more->devices)
		f->devices = more->devices;
	if (more->disk)
		f->disk = more->disk;
	if (more->placed) {
		f->placed = true;
		f->under = more->under;
	}
	f->denied = (f->denied || more->denied) && !hr_known(f, HR_F_CAPS);
}
