/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses and sizes in the text of lspci -v: BARs, Resizable BAR, SR-IOV. */
#include "pci/topo/lspci/line.h"

#include "pci/topo/fields.h"

/* The size in "[size=32K]"; 0: none. pciutils up to 3.2 prints large sizes in hexadecimal. */
static uint64_t size_of(const char *text)
{
	const char *at = after(text, "[size=");
	uint64_t size;
	char *end;
	int shift;

	if (!at)
		return 0;
	size = strtoull(at, &end, 10);
	if (*end != 'K' && *end != 'M' && *end != 'G' && *end != 'T' &&
	    strspn(at, "0123456789abcdef") >= 8)
		return strtoull(at, NULL, 16);
	shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : *end == 'T' ? 40 : 0;
	return size < 1ull << 20 ? size << shift : 0;
}

/*
 * True when the kernel has an address but the register has none. "[virtual] Memory at A" (until
 * pciutils 3.6.2): the low half of the register reads 0, which is also true for a 64-bit BAR at a
 * multiple of 4 GiB. "Memory at A ... [virtual]": both halves read 0, but until 2022 all lines
 * after such a line were marked, too.
 */
static bool is_virtual_bar(const struct line *l, uint64_t base)
{
	const char *mark = after(l->at, "[virtual]"), *at = after(l->at, " at ");

	if (!mark)
		return false;
	if (at && at > mark)
		return (uint32_t)base != 0 || !strstr(at, "64-bit");
	return l->state->virtual_bars++ == 0;
}

/* The regions below an SR-IOV capability belong to the virtual functions. */
static struct hr_bar *region_of(const struct line *l, uint64_t index)
{
	return l->state->section == SEC_SRIOV ? &l->f->vf_bar[index] : &l->f->bar[index];
}

/* "Memory at A (64-bit, prefetchable) [virtual] [disabled] [size=S]"; `at` is the address. */
static void set_region(const struct line *l, uint64_t index, const char *at)
{
	uint64_t base = strtoull(at, NULL, 16);
	bool assigned = base && *at != '<', virtual = is_virtual_bar(l, base);
	struct hr_bar *bar = region_of(l, index);

	assigned = assigned && !virtual;
	l->state->saw_virtual |= strstr(l->at, "[virtual]") != NULL;
	if (bar->size_source <= HR_SRC_TEXT && size_of(l->at)) {
		bar->size = size_of(l->at);
		bar->size_source = HR_SRC_TEXT;
	}
	/*
	 * lspci prints the address that the kernel assigned; the register may hold another value.
	 */
	if (!assigned && bar->flags & HR_BAR_MEM)
		bar->flags |= HR_BAR_UNASSIGNED;
	if (bar->source > HR_SRC_TEXT && bar->flags & HR_BAR_MEM)
		return;
	bar->base = base;
	bar->flags = (uint8_t)(HR_BAR_MEM | (strstr(at, "64-bit") ? HR_BAR_64 : 0) |
			       (strstr(at, "non-prefetchable") ? 0 : HR_BAR_PREF) |
			       (assigned ? 0 : HR_BAR_UNASSIGNED));
	bar->source = HR_SRC_TEXT;
}

/* Region n: Memory at ... */
void hr_text_region(const struct line *l)
{
	const char *at = after(l->at, "Memory at ");
	uint64_t index;

	if (at && number(l->at, "Region ", 10, &index) && index < HR_BARS_MAX)
		set_region(l, index, at);
	else
		is_virtual_bar(l, 0);
}

/*
 * lspci -v prints regions without their number. They follow each other; only a BAR that the
 * function does not implement makes the number wrong, which no rule depends on.
 */
void hr_text_memory(const struct line *l)
{
	const char *at = after(l->at, "Memory at ");
	const unsigned index = l->state->regions;

	if (!at || l->state->section != SEC_NONE || index >= HR_BARS_MAX)
		return;
	l->state->regions += strstr(at, "64-bit") ? 2 : 1;
	set_region(l, index, at);
	if (strstr(l->at, "[virtual]") && l->f->bar[index].flags & HR_BAR_UNASSIGNED)
		return;
	if (strstr(at, "[disabled]"))
		l->state->memory_off = true;
	else
		l->state->memory_on = true;
}

void hr_text_ports(const struct line *l)
{
	if (l->state->section != SEC_NONE)
		return;
	is_virtual_bar(l, 0);
	l->state->regions++;
}

/* "256MB" or "16GB" at *text as the power of two of MiB, with *text behind it; 64: none of them. */
static unsigned power_of(const char **text)
{
	char *unit;
	uint64_t n = strtoull(*text, &unit, 10);
	unsigned power = *unit == 'G' ? 10 : *unit == 'T' ? 20 : *unit == 'P' ? 30 : 0;

	if (unit == *text || n == 0 || n > 512 || n & (n - 1) || !strchr("MGTP", *unit) || !*unit)
		return 64;
	*text = unit + 1 + (unit[1] == 'B');
	return power + (unsigned)__builtin_ctzll(n);
}

/* "64MB 128MB 256MB" behind the current size. */
static void set_sizes(const struct line *l, struct hr_bar *bar)
{
	const char *at = after(l->at, "supported: ");
	uint64_t sizes = 0;

	while (at && *at) {
		unsigned power = power_of(&at);

		if (power > 43)
			break;
		sizes |= 1ull << power;
		at += strspn(at, " ,");
	}
	if (sizes && bar->sizes_source <= HR_SRC_TEXT) {
		bar->sizes = sizes;
		bar->sizes_source = HR_SRC_TEXT;
	}
}

/* "BAR 1: current size: 256MB, supported: ..." under Physical or Virtual Resizable BAR */
void hr_text_rebar(const struct line *l)
{
	bool of_vfs = l->state->section == SEC_VF_REBAR;
	const char *at = after(l->at, "current size: ");
	uint64_t index, size;
	struct hr_bar *bar;
	char *unit;

	if (!at || !(of_vfs || l->state->section == SEC_REBAR) ||
	    !number(l->at, "BAR ", 10, &index) || index >= HR_BARS_MAX)
		return;
	bar = of_vfs ? &l->f->vf_bar[index] : &l->f->bar[index];
	set_sizes(l, bar);
	size = strtoull(at, &unit, 10);
	if (size == 0 || size >= 1u << 20 || bar->size_source > HR_SRC_TEXT)
		return;
	bar->size = size << (*unit == 'G' ? 30 : *unit == 'T' ? 40 : 20);
	bar->size_source = HR_SRC_TEXT;
}

/* IOVCtl, "Number of VFs: 4", "VF offset: 16, stride: 1, Device ID: a824" under SR-IOV */
void hr_text_sriov(const struct line *l)
{
	static const struct flag_name control[] = { { "Enable", HR_SRIOV_ENABLE },
						    { " MSE", HR_SRIOV_MSE },
						    { "10BitTagReq", HR_SRIOV_TAG10 },
						    { NULL, 0 } };

	if (starts(l->at, "IOVCtl:"))
		set_flags(l, HR_F_VF_CTL, control);
	set_number(l, "Number of VFs: ", 10, HR_F_VFS);
	set_number(l, "VF offset: ", 10, HR_F_VF_OFFSET);
	set_number(l, "stride: ", 10, HR_F_VF_STRIDE);
	set_number(l, "Device ID: ", 16, HR_F_VF_DEVICE);
}
