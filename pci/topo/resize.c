/* SPDX-License-Identifier: Apache-2.0 */
#include "pci/topo/resize.h"

#include <stdio.h>
#include <string.h>

#include "config/base/text.h"

#define SMALLEST_ABOVE_4G (4ull << 30) /* a BAR of this size has no place below 4 GiB */

char *hr_resize_text(uint64_t bytes, char *text)
{
	static const char *const unit[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	unsigned i = 0;

	while (i < 4 && bytes >= 1024 && bytes % 1024 == 0) {
		bytes /= 1024;
		i++;
	}
	snprintf(text, 32, "%llu %s", (unsigned long long)bytes, unit[i]);
	return text;
}

/* The BAR that peers address; NULL: none. */
static const struct hr_bar *peer_bar(const struct hr_fn *f, int *index)
{
	*index = hr_peer_bar(f);
	return *index < 0 ? NULL : &f->bar[*index];
}

/* True when the extended capabilities were read, and Resizable BAR is not among them. */
static bool is_without(const struct hr_fn *f)
{
	return !hr_known(f, HR_F_REBAR) && hr_get(f, HR_F_ECAPS, 2) < 2;
}

void hr_resize_able(const struct hr_fn *f, char *to, size_t capacity)
{
	int index;
	const struct hr_bar *bar = peer_bar(f, &index);
	const uint64_t most = bar ? hr_resize_most(bar) : 0;
	char least_text[32], most_text[32];

	to[0] = '\0';
	if (!bar)
		return;
	if (most > bar->size)
		hr_text_append(to, capacity, "; BAR%d can be %s to %s (Resizable BAR)", index,
			       hr_resize_text((bar->sizes & -bar->sizes) << 20, least_text),
			       hr_resize_text(most, most_text));
	else if (most)
		hr_text_append(
			to, capacity,
			"; this card cannot show more: %s is the largest size that its Resizable "
			"BAR offers",
			hr_resize_text(most, most_text));
	else if (is_without(f))
		hr_text_append(to, capacity,
			       "; this card cannot show more: it has no Resizable BAR capability");
	else
		hr_text_append(to, capacity,
			       "; the sizes that its Resizable BAR offers are not in the capture");
}

static uint64_t bytes_of(const struct hr_window *w)
{
	return w->base <= w->limit ? w->limit - w->base + 1 : 0;
}

/*
 * The lowest bridge above whose prefetchable window is known and too small for the BAR. Only that
 * window has 64-bit addresses.
 */
static const struct hr_fn *too_small(const struct hr_model *m, const struct hr_fn *f, uint64_t most)
{
	for (int32_t up = f->parent; up != HR_NO_FN; up = m->fn[up].parent)
		if (m->fn[up].pref.source && bytes_of(&m->fn[up].pref) < most)
			return &m->fn[up];
	return NULL;
}

/* A bridge above with a BAR in its parent's window: such a BAR keeps the window in its place. */
static const struct hr_fn *pinned(const struct hr_model *m, const struct hr_fn *f)
{
	for (int32_t up = f->parent; up != HR_NO_FN; up = m->fn[up].parent)
		if (m->fn[up].parent != HR_NO_FN && m->fn[up].bar[0].flags & HR_BAR_PREF)
			return &m->fn[up];
	return NULL;
}

static void put_firmware(const struct hr_model *m, const struct hr_fn *f, const struct hr_bar *bar,
			 uint64_t most, char *to, size_t capacity)
{
	const struct hr_fn *small = too_small(m, f, most);
	char bdf[HR_BDF_MAX], have[32], need[32];

	hr_text_append(
		to, capacity,
		"firmware setup: Above 4G Decoding on, Re-Size BAR on, CSM off (boot by UEFI)");
	if (small && bytes_of(&small->pref))
		hr_text_append(
			to, capacity,
			"; the prefetchable window of %s has %s and must have more than %s of "
			"64-bit addresses",
			hr_bdf(small, bdf), hr_resize_text(bytes_of(&small->pref), have),
			hr_resize_text(most, need));
	else if (small)
		hr_text_append(to, capacity,
			       "; %s has no prefetchable window and must have one of more than %s",
			       hr_bdf(small, bdf), hr_resize_text(most, need));
	if (most >= SMALLEST_ABOVE_4G && !(bar->flags & HR_BAR_64))
		hr_text_append(to, capacity,
			       "; the BAR has 32-bit addresses, so sizes of 4 GiB are out of "
			       "reach");
}

static void put_run_time(const struct hr_model *m, const struct hr_fn *f, int index, uint64_t most,
			 char *to, size_t capacity)
{
	const struct hr_fn *pin = pinned(m, f);
	char bdf[HR_BDF_MAX], other[HR_BDF_MAX];

	hr_bdf(f, bdf);
	hr_text_append(to, capacity, "; or at run time (Linux 6.1), where the root bus has room: ");
	if (!f->driver || f->driver[0])
		hr_text_append(to, capacity, "echo %s > /sys/bus/pci/devices/%s/driver/unbind; ",
			       bdf, bdf);
	hr_text_append(to, capacity, "echo %d > /sys/bus/pci/devices/%s/resource%d_resize",
		       __builtin_ctzll(most) - 20, bdf, index);
	if (pin)
		hr_text_append(to, capacity, " (a BAR of %s in the same window may prevent it)",
			       hr_bdf(pin, other));
}

void hr_resize_fix(const struct hr_model *m, const struct hr_fn *f, char *to, size_t capacity)
{
	int index;
	const struct hr_bar *bar = peer_bar(f, &index);
	const uint64_t most = index < 0 ? 0 : hr_resize_most(bar);
	char bdf[HR_BDF_MAX];

	to[0] = '\0';
	if (index >= 0 && most > bar->size) {
		put_firmware(m, f, bar, most, to, capacity);
		put_run_time(m, f, index, most, to, capacity);
	} else if (most || is_without(f)) {
		hr_text_append(
			to, capacity,
			"a product with a larger BAR; some boards have a VBIOS or a mode with one "
			"(NVIDIA: displaymodeselector)");
	} else {
		hr_text_append(
			to, capacity,
			"sudo lspci -vvv -s %s shows them; then in the firmware setup: Above 4G "
			"Decoding on, Re-Size BAR on, CSM off; else a product with a larger BAR",
			hr_bdf(f, bdf));
	}
}
