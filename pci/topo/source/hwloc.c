/* SPDX-License-Identifier: Apache-2.0 */
/*
 * XML of hwloc, versions 1 to 3 (lstopo FILE.xml): <topology> of nested <object type=..>. Bridges
 * have bus numbers and functions have identifiers. The file holds no registers, so most facts that
 * a verdict needs stay unknown. Its link speed is the product of rate and width.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pci/topo/source/source.h"
#include "config/base/text.h"
#include "pci/topo/source/formats.h"

/* An open element. It inherits missing facts from the enclosing element. */
struct object {
	struct hr_fn *fn;     /* the function of this element or of the enclosing one, for names */
	struct hr_fn *bridge; /* the bridge that encloses the children */
	const char *cpus;
	uint32_t node; /* ~0u: the element is not a NUMA node */
};

struct hwloc {
	struct object open[HR_XML_DEPTH_MAX + 1]; /* by depth; [0]: outside of all elements */
};

static uint32_t one_bit(const char *mask)
{
	uint64_t bits = mask && !strchr(mask, ',') ? strtoull(mask, NULL, 16) : 0;

	return bits && !(bits & (bits - 1)) ? (uint32_t)__builtin_ctzll(bits) : ~0u;
}

/* "0302 [10de:20b5] [10de:1533] a1" */
static void parse_hwloc_type(struct hr_fn *f, const char *text)
{
	unsigned class, vendor, device, revision;
	int n = text ? sscanf(text, "%4x [%4x:%4x] [%*4x:%*4x] %2x", &class, &vendor, &device,
			      &revision)
		     : 0;

	/* sscanf() counts a sign as one of the four digits, so large values are refused. */
	if (n < 3 || class > 0xffff || vendor > 0xffff || device > 0xffff)
		return;
	hr_fn_set(f, HR_F_CLASS, class << 8, HR_SRC_XML);
	hr_fn_set(f, HR_F_VENDOR, vendor, HR_SRC_XML);
	hr_fn_set(f, HR_F_DEVICE, device, HR_SRC_XML);
	if (n == 4 && revision <= 0xff)
		hr_fn_set(f, HR_F_REVISION, revision, HR_SRC_XML);
}

static struct hr_fn *add_hwloc_function(struct hr_xml *x, const struct object *around,
					const char **attributes)
{
	const char *busid = hr_xml_get(attributes, "pci_busid");
	uint32_t domain, bus, dev, fn;
	struct hr_fn *f;

	if (!busid || !*busid || hr_bdf_parse(busid, &domain, &bus, &dev, &fn) != strlen(busid)) {
		hr_xml_fail(x, "a PCI object without a pci_busid like 0000:41:00.0");
		return NULL;
	}
	f = hr_model_add(x->m, domain, bus, dev, fn);
	if (!f) {
		hr_xml_fail(x, "no such address, or more functions than one machine can have");
		return NULL;
	}
	parse_hwloc_type(f, hr_xml_get(attributes, "pci_type"));
	if (around->node != ~0u)
		hr_fn_set(f, HR_F_NUMA, around->node, HR_SRC_XML);
	f->cpus = around->cpus;
	if (around->bridge) {
		f->placed = true;
		f->under = hr_address(around->bridge);
	}
	return f;
}

/* "0000:[02-05]" */
static void parse_hwloc_bridge(struct hr_fn *f, const char *text)
{
	unsigned domain, secondary, subordinate;

	hr_fn_set(f, HR_F_HEADER, 1, HR_SRC_XML);
	hr_fn_set(f, HR_F_PRIMARY, f->bus, HR_SRC_XML);
	if (!text || sscanf(text, "%8x:[%2x-%2x]", &domain, &secondary, &subordinate) != 3 ||
	    secondary > 0xff || subordinate > 0xff)
		return;
	hr_fn_set(f, HR_F_SECONDARY, secondary, HR_SRC_XML);
	hr_fn_set(f, HR_F_SUBORDINATE, subordinate, HR_SRC_XML);
}

static void open_object(struct hr_xml *x, struct object *o, const char **attributes)
{
	const char *type = hr_xml_get(attributes, "type"),
		   *sort = hr_xml_get(attributes, "bridge_type"),
		   *name = hr_xml_get(attributes, "name");
	const char *cpus = hr_xml_get(attributes, "cpuset"),
		   *nodes = hr_xml_get(attributes, "nodeset");

	if (!type)
		return;
	if (cpus)
		o->cpus = hr_xml_cpus(x->m, cpus);
	if (nodes)
		o->node = one_bit(nodes);
	if (strcmp(type, "OSDev") == 0 && name && o->fn && (hr_is_nvme(o->fn) || hr_is_nic(o->fn)))
		hr_xml_device(x->m, o->fn, name);
	if (strcmp(type, "PCIDev") == 0)
		o->fn = add_hwloc_function(x, o, attributes);
	/* Type 0-1 is a host bridge, which is not a PCI function here. */
	if (strcmp(type, "Bridge") != 0 || !sort || strcmp(sort, "1-1") != 0)
		return;
	o->fn = add_hwloc_function(x, o, attributes);
	o->bridge = o->fn;
	if (o->fn)
		parse_hwloc_bridge(o->fn, hr_xml_get(attributes, "bridge_pci"));
}

/* "PCIDevice" and similar describe a function, "OSRelease" and similar describe the machine. */
static void parse_hwloc_info(struct hr_xml *x, struct object *o, const char **attributes)
{
	const char *name = hr_xml_get(attributes, "name"), *value = hr_xml_get(attributes, "value");
	struct hr_system *sys = &x->m->sys;
	char text[HR_WORD_MAX];
	uint32_t family;

	if (!name || !value)
		return;
	if (o->fn && (strcmp(name, "PCIVendor") == 0 || strcmp(name, "PCIDevice") == 0)) {
		snprintf(text, sizeof text, "%.60s%s%.60s", o->fn->name, o->fn->name[0] ? " " : "",
			 value);
		o->fn->name = hr_model_word(x->m, text, strlen(text));
	} else if (o->fn && strcmp(name, "PCISlot") == 0) {
		o->fn->pci_slot = hr_model_word(x->m, value, strlen(value));
	} else if (strcmp(name, "OSRelease") == 0) {
		snprintf(sys->kernel, sizeof sys->kernel, "%s", value);
	} else if (strcmp(name, "CPUVendor") == 0) {
		hr_fact_set(&sys->amd, strcmp(value, "AuthenticAMD") == 0, HR_SRC_XML);
	} else if (strcmp(name, "CPUFamilyNumber") == 0 &&
		   hr_number_parse_u32(value, 10, &family)) {
		hr_fact_set(&sys->family, family, HR_SRC_XML);
	}
}

static void start(struct hr_xml *x, const char *element, const char **attributes)
{
	struct hwloc *h = x->state;
	struct object *o = &h->open[x->depth];

	if (x->depth == 1)
		h->open[0].node = ~0u;
	*o = h->open[x->depth - 1];
	if (strcmp(element, "object") == 0)
		open_object(x, o, attributes);
	else if (strcmp(element, "info") == 0)
		parse_hwloc_info(x, o, attributes);
}

static void end(struct hr_xml *x, const char *element)
{
}

const struct hr_xml_format hr_xml_hwloc = {
	.root = "topology",
	.input = "hwloc topology",
	.state_bytes = sizeof(struct hwloc),
	.start = start,
	.end = end,
};
