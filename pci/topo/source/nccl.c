/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Topology files of NCCL and RCCL: <system><cpu numaid=..><pci busid=.. class=.. link_speed=..
 * link_width=..><gpu ..><nvlink ..>. Their nesting follows the bridges, but they hold no bus
 * numbers of bridges and no registers, so most facts that a verdict needs stay unknown.
 */
#include <stdlib.h>
#include <string.h>

#include "pci/topo/source/source.h"
#include "config/base/text.h"
#include "pci/topo/source/formats.h"

struct nccl {
	struct hr_fn *open[HR_DEPTH_MAX]; /* enclosing <pci> elements */
	unsigned depth;
	uint32_t numa; /* ~0u: not stated */
	const char *cpus;
};

static void set_nccl_numbers(struct hr_fn *f, const char **attributes)
{
	static const char *const speed[] = { "2.5", "5", "8", "16", "32", "64" };
	static const struct {
		const char *name;
		enum hr_fact_id id;
	} numbers[] = { { "vendor", HR_F_VENDOR },
			{ "device", HR_F_DEVICE },
			{ "class", HR_F_CLASS } };
	const char *rate = hr_xml_get(attributes, "link_speed");
	unsigned long value;

	for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if (hr_xml_number(attributes, numbers[i].name, 16, &value))
			hr_fn_set(f, numbers[i].id, (uint32_t)value, HR_SRC_XML);
	if (hr_xml_number(attributes, "link_width", 10, &value) && value)
		hr_fn_set(f, HR_F_WIDTH_MAX, (uint32_t)value, HR_SRC_XML);
	for (uint32_t i = 0; rate && i < 6; i++)
		if (strtod(rate, NULL) > strtod(speed[i], NULL) - 0.1 &&
		    strtod(rate, NULL) < strtod(speed[i], NULL) + 0.1)
			hr_fn_set(f, HR_F_SPEED_MAX, i + 1, HR_SRC_XML);
}

/* The enclosing element is the bridge above a function; the file omits switch ports. */
static void nest(const struct nccl *n, struct hr_fn *f)
{
	struct hr_fn *up = n->depth ? n->open[n->depth - 1] : NULL;

	if (n->numa != ~0u)
		hr_fn_set(f, HR_F_NUMA, n->numa, HR_SRC_XML);
	f->cpus = n->cpus;
	if (!up)
		return;
	hr_fn_set(up, HR_F_HEADER, 1, HR_SRC_XML);
	f->placed = true;
	f->under = hr_address(up);
}

static void open_pci(struct hr_xml *x, struct nccl *n, const char **attributes)
{
	const char *busid = hr_xml_get(attributes, "busid");
	uint32_t domain, bus, dev, fn;
	struct hr_fn *f;

	if (!busid || hr_bdf_parse(busid, &domain, &bus, &dev, &fn) != strlen(busid) || !*busid) {
		hr_xml_fail(x, "<pci> without a busid like 0000:41:00.0");
		return;
	}
	f = hr_model_add(x->m, domain, bus, dev, fn);
	if (!f) {
		hr_xml_fail(x, "no such address, or more functions than one machine can have");
		return;
	}
	if (n->depth == HR_DEPTH_MAX) {
		hr_xml_fail(x, "bridges nested too deeply");
		return;
	}
	set_nccl_numbers(f, attributes);
	nest(n, f);
	n->open[n->depth++] = f;
}

/*
 * NCCL adds the extended family shifted by four bits: 143 (0xf + 0x8 * 16) is family 0xf + 0x8 =
 * 17h.
 */
static uint32_t cpu_family(unsigned long id)
{
	return (uint32_t)(id > 0xf && (id & 0xf) == 0xf ? 0xf + (id >> 4) : id);
}

static void open_cpu(struct hr_xml *x, struct nccl *n, const char **attributes)
{
	const char *vendor = hr_xml_get(attributes, "vendor"),
		   *numa = hr_xml_get(attributes, "numaid");
	unsigned long family;

	if (!numa || !hr_number_parse_u32(numa, 10, &n->numa))
		n->numa = ~0u; /* "-1": the machine has no nodes */
	n->cpus = hr_xml_cpus(x->m, hr_xml_get(attributes, "affinity"));
	if (vendor)
		hr_fact_set(&x->m->sys.amd, strcmp(vendor, "AuthenticAMD") == 0, HR_SRC_XML);
	if (hr_xml_number(attributes, "familyid", 10, &family))
		hr_fact_set(&x->m->sys.family, cpu_family(family), HR_SRC_XML);
}

/*
 * The element marks a GPU of any class. Older files give no vendor, but only RCCL writes an
 * architecture "gfx..".
 */
static void open_gpu(struct hr_fn *f, const char **attributes)
{
	const char *gcn = hr_xml_get(attributes, "gcn");

	hr_fn_set(f, HR_F_GPU, 1, HR_SRC_XML);
	if (gcn && *gcn && strcmp(gcn, "0") != 0)
		hr_fn_set(f, HR_F_VENDOR, 0x1002, HR_SRC_INFERRED);
	else if (hr_xml_get(attributes, "sm"))
		hr_fn_set(f, HR_F_VENDOR, 0x10de, HR_SRC_INFERRED);
}

static void open_link(struct hr_xml *x, const struct hr_fn *f, enum hr_fabric fabric,
		      const char **attributes)
{
	const char *target = hr_xml_get(attributes, "target");
	struct hr_gpu_link link = { .from = hr_address(f),
				    .to = target ? hr_address_parse(target) : HR_NO_ADDRESS,
				    .fabric = (uint8_t)fabric,
				    .source = HR_SRC_XML };
	unsigned long count = 0, class = 0;

	hr_xml_number(attributes, "count", 10, &count);
	hr_xml_number(attributes, "tclass", 16, &class);
	link.to_switch = class >> 8 == 0x0680;
	if (count == 0 || count > 1024 || (link.to == HR_NO_ADDRESS && !link.to_switch))
		return;
	link.count = (uint16_t)count;
	hr_model_add_link(x->m, &link);
}

/* The driver of the switch reports this upstream port as linked with that one. */
static void open_switch_link(struct hr_fn *f, const char **attributes)
{
	const char *target = hr_xml_get(attributes, "target");
	uint64_t address = target ? hr_address_parse(target) : HR_NO_ADDRESS;

	if (address != HR_NO_ADDRESS)
		hr_fn_add_switch_link(f, address);
}

static void start(struct hr_xml *x, const char *element, const char **attributes)
{
	struct nccl *n = x->state;
	struct hr_fn *f = n->depth ? n->open[n->depth - 1] : NULL;
	const char *name;

	if (strcmp(element, "system") == 0)
		n->numa = ~0u;
	else if (strcmp(element, "pci") == 0)
		open_pci(x, n, attributes);
	else if (strcmp(element, "cpu") == 0)
		open_cpu(x, n, attributes);
	else if (!f)
		return;
	else if (strcmp(element, "gpu") == 0)
		open_gpu(f, attributes);
	else if (strcmp(element, "pcilink") == 0)
		open_switch_link(f, attributes);
	else if (strcmp(element, "nvlink") == 0 || strcmp(element, "xgmi") == 0)
		open_link(x, f, *element == 'x' ? HR_XGMI : HR_NVLINK, attributes);
	else if (strcmp(element, "net") == 0 && (name = hr_xml_get(attributes, "name")))
		hr_xml_device(x->m, f, name);
}

static void end(struct hr_xml *x, const char *element)
{
	struct nccl *n = x->state;

	if (strcmp(element, "pci") == 0)
		n->depth--;
}

const struct hr_xml_format hr_xml_nccl = {
	.root = "system",
	.input = "NCCL topology",
	.state_bytes = sizeof(struct nccl),
	.start = start,
	.end = end,
};
