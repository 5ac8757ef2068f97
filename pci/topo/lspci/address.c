/* SPDX-License-Identifier: Apache-2.0 */
#include "pci/topo/lspci/text.h"

#include <string.h>

/* "DD.F", two digits and one; false: not such a text. */
static bool device(const char *text, uint8_t *dev, uint8_t *fn)
{
	char address[16] = "00:";
	uint32_t domain, bus, d, f;

	if (strnlen(text, 4) < 4)
		return false;
	memcpy(address + 3, text, 4);
	if (hr_bdf_parse(address, &domain, &bus, &d, &f) != 7)
		return false;
	*dev = (uint8_t)d;
	*fn = (uint8_t)f;
	return true;
}

size_t hr_slot_path_parse(const char *text, struct hr_slot_path *path)
{
	uint32_t domain, bus, dev, fn;
	size_t n = hr_bdf_parse(text, &path->domain, &bus, &dev, &fn);

	path->count = 0;
	if (n == 0)
		return 0;
	path->step[path->count].has_bus = true;
	path->step[path->count].bus = (uint8_t)bus;
	path->step[path->count].dev = (uint8_t)dev;
	path->step[path->count++].fn = (uint8_t)fn;
	while (text[n] == '/' && path->count < HR_SLOT_PATH_MAX) {
		size_t used = hr_bdf_parse(text + n + 1, &domain, &bus, &dev, &fn);
		uint8_t d = (uint8_t)dev, f = (uint8_t)fn;

		path->step[path->count].has_bus = used == 7;
		if (used != 7 && !device(text + n + 1, &d, &f))
			return 0;
		path->step[path->count].bus = used == 7 ? (uint8_t)bus : 0;
		path->step[path->count].dev = d;
		path->step[path->count++].fn = f;
		n += 1 + (used == 7 ? 7u : 4u);
	}
	return n;
}

/* Bus below a bridge for which the path has none; 256: no number is left. */
static uint32_t bus_below(struct hr_slot_paths *paths, struct hr_fn *bridge)
{
	uint32_t bus = hr_get(bridge, HR_F_SECONDARY, 0);

	if (bus > bridge->bus)
		return bus;
	paths->assumed = true;
	return paths->top_bus + 1;
}

static void note_bus(struct hr_slot_paths *paths, uint32_t domain, uint32_t bus)
{
	if (!paths->any || paths->domain != domain)
		*paths = (struct hr_slot_paths){ .domain = domain, .assumed = paths->assumed };
	paths->any = true;
	if (bus > paths->top_bus)
		paths->top_bus = bus;
}

/* The function is below this bridge. */
static void put_below(struct hr_fn *bridge, struct hr_fn *f)
{
	hr_fn_set(bridge, HR_F_HEADER, 1, HR_SRC_INFERRED);
	hr_fn_set(bridge, HR_F_CLASS, 0x060400, HR_SRC_INFERRED);
	if (!hr_known(bridge, HR_F_SECONDARY)) {
		hr_fn_set(bridge, HR_F_PRIMARY, bridge->bus, HR_SRC_INFERRED);
		hr_fn_set(bridge, HR_F_SECONDARY, f->bus, HR_SRC_INFERRED);
	}
	/* The bus of a virtual function may be another one than the bridge's secondary bus. */
	if (hr_get(bridge, HR_F_SECONDARY, 0) != f->bus) {
		f->placed = true;
		f->under = hr_address(bridge);
	}
}

struct hr_fn *hr_slot_path_add(struct hr_model *m, struct hr_slot_paths *paths,
			       const struct hr_slot_path *path)
{
	struct hr_fn *f = NULL, *above = NULL;

	for (unsigned i = 0; i < path->count; i++, above = f) {
		uint32_t bus = path->step[i].bus;

		if (above && !path->step[i].has_bus)
			bus = bus_below(paths, above);
		f = hr_model_add(m, path->domain, bus, path->step[i].dev, path->step[i].fn);
		if (!f)
			return NULL;
		note_bus(paths, path->domain, bus);
		if (above)
			put_below(above, f);
	}
	return f;
}
