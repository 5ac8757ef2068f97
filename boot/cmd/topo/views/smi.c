/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/cmd/topo/views/views.h"

#include <stdlib.h>
#include <string.h>

#include "boot/cmd/topo/common.h"
#include "boot/cmd/topo/json.h"
#include "boot/cmd/topo/headline.h"
#include "pci/topo/lspci/text.h"

#define TEXT 2048u

static const char *const missing[] = {
	"PCI addresses",
	("ACS control of the switch ports, which decides whether data of two devices below one "
	 "switch goes up to the CPU"),
	"the mode of the IOMMU",
	"bridge windows and BARs",
	"link rates",
	"SSDs",
};
static const char *const next[] = {
	"sudo lspci -vvvxxxx >box.txt; headrace topo --from box.txt",
	("(sudo lspci -vvv | grep -E '^[0-9a-f]|ACSCtl'; lspci -tv) >acs.txt; "
	 "headrace topo --from acs.txt"),
};

bool hr_topo_has_answer_without_functions(const struct hr_model *m)
{
	return (m->count == 0 || hr_model_is_bare(m)) &&
	       ((m->smi && m->smi->rows) || m->acs_lines.lines);
}

/* What the tables state about two devices, in either direction. */
static struct hr_smi_cell cell_of(const struct hr_smi *s, uint32_t i, uint32_t j)
{
	const struct hr_smi_cell *back = &s->cell[j][i];
	struct hr_smi_cell c = s->cell[i][j];

	c.distance = c.distance ? c.distance : back->distance;
	c.type = c.type ? c.type : back->type;
	c.nvlinks = c.nvlinks ? c.nvlinks : back->nvlinks;
	c.weight = c.weight ? c.weight : back->weight;
	c.hops = c.hops ? c.hops : back->hops;
	for (unsigned k = 0; k <= HR_P2P_ACCESSES; k++)
		if (!c.p2p[k] || hr_p2p_refuses((enum hr_p2p_status)back->p2p[k]))
			c.p2p[k] = back->p2p[k];
	c.refused |= back->refused;
	return c;
}

static bool share_switch(const struct hr_smi_cell *c)
{
	return c->distance == HR_SMI_PIX || c->distance == HR_SMI_PXB;
}

static bool across(const struct hr_smi_cell *c)
{
	return c->distance > HR_SMI_PXB;
}

static bool by_nvlink(const struct hr_smi_cell *c)
{
	return c->nvlinks != 0;
}

static bool by_xgmi(const struct hr_smi_cell *c)
{
	return c->type == HR_SMI_XGMI;
}

/* ---- text */

/* Number at the end of a name, and the length of the part before it. */
static size_t number_of(const char *name, unsigned long *number)
{
	size_t n = strlen(name);

	while (n && name[n - 1] >= '0' && name[n - 1] <= '9')
		n--;
	*number = strtoul(name + n, NULL, 10);
	return n;
}

static bool follows(const struct hr_smi *s, uint32_t i, uint32_t j)
{
	unsigned long a, b;
	size_t n = number_of(s->device[i].name, &a), m = number_of(s->device[j].name, &b);

	return n == m && n < strlen(s->device[i].name) && n <= 4 && b == a + 1 &&
	       strncmp(s->device[i].name, s->device[j].name, n) == 0;
}

/* "GPU0-3, NIC1": devices with in[i]. */
static char *names(const struct hr_smi *s, const bool *in, char *text)
{
	const char *last_name;
	size_t used = 0;
	unsigned long number;

	text[0] = '\0';
	for (uint32_t i = 0; i < s->devices && used < TEXT - 64; i++) {
		uint32_t last = i;

		if (!in[i])
			continue;
		while (last + 1 < s->devices && in[last + 1] && follows(s, last, last + 1))
			last++;
		used += (size_t)snprintf(text + used, TEXT - used, "%s%s", used ? ", " : "",
					 s->device[i].name);
		last_name = s->device[last].name;
		if (last > i)
			used += (size_t)snprintf(text + used, TEXT - used, "-%s",
						 last_name + number_of(last_name, &number));
		i = last;
	}
	return text;
}

/* All devices that a chain of such pairs connects with `from`; returns their number. */
static unsigned reach(const struct hr_smi *s, bool (*is)(const struct hr_smi_cell *c),
		      uint32_t from, bool *in)
{
	uint32_t queue[HR_SMI_MAX];
	unsigned n = 1;

	memset(in, 0, HR_SMI_MAX * sizeof *in);
	in[from] = true;
	queue[0] = from;
	for (unsigned k = 0; k < n; k++)
		for (uint32_t j = 0; j < s->devices; j++) {
			struct hr_smi_cell c = cell_of(s, queue[k], j);

			if (in[j] || j == queue[k] || !is(&c))
				continue;
			in[j] = true;
			queue[n++] = j;
		}
	return n;
}

static void line(const struct hr_topo *t, const char *text)
{
	fputs("  ", t->out);
	hr_print_wrapped(t->out, 2, 4, text);
}

/* " (PIX, PXB)" or " (NV18)": what the cells of a set read. */
static const char *cells(const struct hr_smi *s, const bool *in,
			 bool (*is)(const struct hr_smi_cell *c), char *text)
{
	static const char *const below[] = { "", " (PIX)", " (PXB)", " (PIX, PXB)" };
	unsigned found = 0, least = ~0u, most = 0;

	for (uint32_t i = 0; i < s->devices; i++)
		for (uint32_t j = i + 1; in[i] && j < s->devices; j++) {
			struct hr_smi_cell c = cell_of(s, i, j);

			if (!in[j] || !is(&c))
				continue;
			found |= share_switch(&c) ? c.distance : 0;
			least = c.nvlinks < least ? c.nvlinks : least;
			most = c.nvlinks > most ? c.nvlinks : most;
		}
	if (is != by_nvlink)
		snprintf(text, 32, "%s", below[found & 3]);
	else if (least == most)
		snprintf(text, 32, " (NV%u)", most);
	else
		snprintf(text, 32, " (NV%u to NV%u)", least, most);
	return text;
}

/* Each set of devices that such pairs connect, once, below a heading. Returns the number of sets. */
static unsigned put_sets(const struct hr_topo *t, bool (*is)(const struct hr_smi_cell *c),
			 const char *heading)
{
	const struct hr_smi *s = t->model.smi;
	bool done[HR_SMI_MAX] = { false }, in[HR_SMI_MAX];
	char text[TEXT], whole[TEXT + 64], read[32];
	unsigned sets = 0;

	for (uint32_t i = 0; i < s->devices; i++) {
		if (done[i] || reach(s, is, i, in) == 1)
			continue;
		if (sets++ == 0)
			line(t, heading);
		for (uint32_t j = 0; j < s->devices; j++)
			done[j] |= in[j];
		snprintf(whole, sizeof whole, "%s%s", names(s, in, text), cells(s, in, is, read));
		fputs("    ", t->out);
		hr_print_wrapped(t->out, 4, 6, whole);
	}
	return sets;
}

static unsigned count_cells(const struct hr_smi *s, bool (*is)(const struct hr_smi_cell *c))
{
	unsigned n = 0;

	for (uint32_t i = 0; i < s->devices; i++)
		for (uint32_t j = i + 1; j < s->devices; j++) {
			struct hr_smi_cell c = cell_of(s, i, j);

			n += is(&c);
		}
	return n;
}

/* Pairs across root ports, by distance. */
static void put_across(const struct hr_topo *t)
{
	static const char *const meaning[] = {
		[HR_SMI_PHB] = "through one host bridge of the CPU",
		[HR_SMI_NODE] = "through host bridges of one NUMA node",
		[HR_SMI_SYS] = "through the link between NUMA nodes or sockets",
	};
	const struct hr_smi *s = t->model.smi;
	char text[512];

	for (unsigned d = HR_SMI_PHB; d <= HR_SMI_SYS; d++) {
		unsigned n = 0;

		for (uint32_t i = 0; i < s->devices; i++)
			for (uint32_t j = i + 1; j < s->devices; j++)
				n += cell_of(s, i, j).distance == d;
		if (!n)
			continue;
		snprintf(text, sizeof text,
			 "%u pair%s %s: %s; UNKNOWN(rc): whether this root complex passes peers' "
			 "data is not in the matrix",
			 n, n == 1 ? " is" : "s are", hr_smi_distance_word((enum hr_smi_distance)d),
			 meaning[d]);
		line(t, text);
	}
}

static void put_p2p(const struct hr_topo *t, unsigned access)
{
	const struct hr_smi *s = t->model.smi;
	unsigned by[HR_P2P_STATUSES] = { 0 };
	char text[768], about[64] = "an access that the text does not name";

	for (uint32_t i = 0; i < s->devices; i++)
		for (uint32_t j = i + 1; j < s->devices; j++)
			by[cell_of(s, i, j).p2p[access]]++;
	if (access < HR_P2P_ACCESSES)
		snprintf(about, sizeof about, "%s (-p2p %c)",
			 hr_p2p_name((enum hr_p2p_access)access),
			 hr_p2p_letter((enum hr_p2p_access)access));
	for (unsigned k = HR_P2P_OK; k < HR_P2P_STATUSES; k++) {
		if (!by[k])
			continue;
		snprintf(text, sizeof text, "NVIDIA's driver, peer access, %s: %u pair%s %s: %s%s",
			 about, by[k], by[k] == 1 ? " is" : "s are",
			 hr_p2p_word((enum hr_p2p_status)k), hr_p2p_meaning((enum hr_p2p_status)k),
			 hr_p2p_refuses((enum hr_p2p_status)k) && access != HR_P2P_NVLINK
				 ? "; this is the driver's answer, and PCI Express may allow it"
				 : "");
		line(t, text);
	}
}

static bool is_refused(const struct hr_smi_cell *c)
{
	return c->refused;
}

static bool by_pcie(const struct hr_smi_cell *c)
{
	return c->type == HR_SMI_PCIE;
}

static bool nvlink_only(const struct hr_smi_cell *c)
{
	return c->nvlinks && !c->distance;
}

static void put_matrix(const struct hr_topo *t)
{
	const struct hr_smi *s = t->model.smi;
	const unsigned others = count_cells(s, across);
	unsigned gpus = 0, n;
	char text[512];

	for (uint32_t i = 0; i < s->devices; i++)
		gpus += s->device[i].gpu;
	fprintf(t->out, "%s: %u GPU%s, %u network card%s%s; no PCI functions%s\n", s->tool, gpus,
		gpus == 1 ? "" : "s", s->devices - gpus, s->devices - gpus == 1 ? "" : "s",
		s->left_out ? " (of more)" : "", t->model.count ? " with a class or name" : "");
	if (s->devices == 1)
		line(t, "one device is no pair");
	n = put_sets(t, share_switch,
		     "UNKNOWN(acs), below one switch or several switches of one root port: direct "
		     "only when no port of the switch redirects");
	if (n == 0 && others)
		line(t, "no two devices share a PCIe switch");
	put_across(t);
	put_sets(t, by_nvlink, "connected by NVLink; data between these does not use PCI Express:");
	if (count_cells(s, nvlink_only))
		line(t, "NV# hides the PCIe path of these pairs; nvidia-smi topo -mp shows it");
	put_sets(t, by_xgmi, "connected by XGMI; data between these does not use PCI Express:");
	n = count_cells(s, by_pcie);
	snprintf(text, sizeof text,
		 "%u pair%s PCI Express (PCIE); UNKNOWN(rc): the table does not tell whether a "
		 "switch or the CPU connects the GPUs",
		 n, n == 1 ? " uses" : "s use");
	if (n)
		line(t, text);
	n = count_cells(s, is_refused);
	snprintf(text, sizeof text, "the driver allows no peer access for %u pair%s", n,
		 n == 1 ? "" : "s");
	if (n)
		line(t, text);
	for (unsigned access = 0; access <= HR_P2P_ACCESSES; access++)
		put_p2p(t, access);
}

static void put_acs(const struct hr_topo *t)
{
	const struct hr_acs_lines *a = &t->model.acs_lines;
	char text[512];

	snprintf(text, sizeof text,
		 "%u line%s of ACSCtl without the address of the port: %u redirect%s (ReqRedir+, "
		 "CmpltRedir+ or EgressCtrl+)",
		 a->lines, a->lines == 1 ? "" : "s", a->redirecting,
		 a->redirecting == 1 ? "s" : "");
	hr_print_wrapped(t->out, 0, 2, text);
	line(t, a->redirecting
			? "UNKNOWN(dump): only a port between a switch and both devices of a pair "
			  "matters, and the lines do not tell which ports they are"
			: "no port of these lines redirects; UNKNOWN(dump): the lines do not tell "
			  "which devices are below which port");
}

/* True when the text lacks missing[i]; amd-smi names GPUs by their addresses. */
static bool lacks(const struct hr_model *m, unsigned i)
{
	if (i == 0)
		return !m->smi || !m->smi->devices || !strchr(m->smi->device[0].name, ':');
	return i != 1 || !m->acs_lines.lines;
}

static void put_missing(const struct hr_topo *t)
{
	char text[768] = "not in the text:";
	size_t used = strlen(text);

	for (unsigned i = 0; i < sizeof missing / sizeof *missing; i++)
		if (lacks(&t->model, i))
			used += (size_t)snprintf(text + used, sizeof text - used, "%s %s",
						 used > 16 ? "," : "", missing[i]);
	fputc('\n', t->out);
	hr_print_wrapped(t->out, 0, 2, text);
	fprintf(t->out,
		"next, on that machine:\n  %s\n"
		"or only the tree and the ACS control of each port:\n  %s\n",
		next[0], next[1]);
}

/* ---- JSON */

static void json_devices(const struct hr_smi *s, struct hr_json *o)
{
	hr_json_array(o, "devices");
	for (uint32_t i = 0; i < s->devices; i++) {
		const struct hr_smi_device *d = &s->device[i];

		hr_json_object(o, NULL);
		hr_json_string(o, "name", d->name);
		hr_json_string(o, "kind", d->gpu ? "GPU" : "NIC");
		if (d->device[0])
			hr_json_string(o, "device", d->device);
		if (d->cpus[0])
			hr_json_string(o, "cpus", d->cpus);
		if (d->numa[0])
			hr_json_string(o, "numa", d->numa);
		hr_json_close(o);
	}
	hr_json_close(o);
}

static void json_driver(const struct hr_smi_cell *c, struct hr_json *o)
{
	bool any = false;

	for (unsigned k = 0; k <= HR_P2P_ACCESSES; k++) {
		if (!c->p2p[k])
			continue;
		if (!any)
			hr_json_object(o, "driver");
		any = true;
		hr_json_string(o,
			       k < HR_P2P_ACCESSES ? hr_p2p_name((enum hr_p2p_access)k) : "access",
			       hr_p2p_word((enum hr_p2p_status)c->p2p[k]));
	}
	if (any)
		hr_json_close(o);
}

static void json_pair(const struct hr_smi *s, struct hr_json *o, uint32_t i, uint32_t j)
{
	const struct hr_smi_cell c = cell_of(s, i, j);

	hr_json_object(o, NULL);
	hr_json_string(o, "a", s->device[i].name);
	hr_json_string(o, "b", s->device[j].name);
	hr_json_string(o, "verdict", share_switch(&c) ? "UNKNOWN(acs)" : "UNKNOWN(rc)");
	if (c.distance)
		hr_json_string(o, "distance",
			       hr_smi_distance_word((enum hr_smi_distance)c.distance));
	if (c.nvlinks)
		hr_json_u64(o, "nvlinks", c.nvlinks);
	if (c.type)
		hr_json_string(o, "link_type", c.type == HR_SMI_XGMI ? "XGMI" : "PCIE");
	if (c.hops)
		hr_json_u64(o, "hops", c.hops);
	if (c.weight)
		hr_json_u64(o, "weight", c.weight);
	json_driver(&c, o);
	hr_json_close(o);
}

static int json_all(const struct hr_topo *t)
{
	const struct hr_topo_machine machine = hr_topo_machine(t);
	const struct hr_smi *s = t->model.smi;
	struct hr_json out;

	hr_topo_json_begin(&out, t->out, t, "matrix", &machine);
	if (s) {
		hr_json_string(&out, "tool", s->tool);
		json_devices(s, &out);
		hr_json_array(&out, "pairs");
		for (uint32_t i = 0; i < s->devices; i++)
			for (uint32_t j = i + 1; j < s->devices; j++)
				json_pair(s, &out, i, j);
		hr_json_close(&out);
	}
	hr_json_u64(&out, "acs_lines", t->model.acs_lines.lines);
	hr_json_u64(&out, "acs_redirecting", t->model.acs_lines.redirecting);
	hr_json_array(&out, "missing");
	for (unsigned i = 0; i < sizeof missing / sizeof *missing; i++)
		if (lacks(&t->model, i))
			hr_json_string(&out, NULL, missing[i]);
	hr_json_close(&out);
	hr_json_array(&out, "next");
	for (unsigned i = 0; i < sizeof next / sizeof *next; i++)
		hr_json_string(&out, NULL, next[i]);
	hr_json_close(&out);
	return hr_topo_json_end(&out, HR_TOPO_UNKNOWN);
}

int hr_topo_without_functions(struct hr_topo *t, bool json)
{
	const bool functions = t->model.count != 0;

	if (functions && hr_topo_evaluate(t, &t->topology, &t->model)) {
		fputs("headrace: error: out of memory\n", stderr);
		return HR_TOPO_NO_ACCESS;
	}
	if (json)
		return json_all(t);
	if (t->model.smi && t->model.smi->rows)
		put_matrix(t);
	if (functions && hr_topo_ports_matter(t))
		hr_topo_ports(t);
	else if (t->model.acs_lines.lines)
		put_acs(t);
	put_missing(t);
	return HR_TOPO_UNKNOWN;
}
