/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/cmd/topo/views/views.h"

#include <string.h>

#include "boot/cmd/topo/common.h"
#include "boot/cmd/topo/headline.h"
#include "boot/cmd/topo/survey.h"
#include "pci/topo/tables.h"

#define LISTED_MAX 8u /* functions that are named */

static unsigned base_class(const struct hr_fn *f)
{
	return hr_known(f, HR_F_CLASS) ? hr_get(f, HR_F_CLASS, 0) >> 16 : 0x100;
}

static const char *why_no_gpu(const struct hr_fn *f)
{
	if (hr_get(f, HR_F_VENDOR, 0) == 0x8086)
		return "graphics of the CPU, whose memory is the host's; no GPU for peers";
	return "a display of the board, of its management controller or of a virtual machine; no GPU";
}

static const char *why_no_nvme(const struct hr_fn *f)
{
	const unsigned subclass = hr_get(f, HR_F_CLASS, 0) >> 8;

	if (subclass == 0x0104)
		return "a RAID controller; NVMe drives behind it are hidden, or not there";
	return "storage of another kind; no NVMe controller";
}

/* Functions of a class that are not in the list of GPUs or of NVMe controllers, and why. */
static void put_others(const struct hr_topo *t, unsigned class, const int32_t *list, uint32_t count,
		       const char *(*why)(const struct hr_fn *f))
{
	unsigned n = 0;

	for (uint32_t i = 0; i < t->model.count; i++) {
		const struct hr_fn *f = &t->model.fn[i];
		char bdf[HR_BDF_MAX], what[256], text[512];

		if (base_class(f) != class || hr_topo_lists(list, count, (int32_t)i) ||
		    n++ >= LISTED_MAX)
			continue;
		hr_topo_describe(t, f, what, sizeof what);
		snprintf(text, sizeof text, "%s %s%s%s", hr_bdf(f, bdf), what, what[0] ? ": " : "",
			 why(f));
		fputs("  ", t->out);
		hr_print_wrapped(t->out, 2, 4, text);
	}
	if (n > LISTED_MAX)
		fprintf(t->out, "  ... and %u more\n", n - LISTED_MAX);
}

/* A Jetson has a GPU that no list of PCI functions shows. */
static bool has_tegra(const struct hr_model *m)
{
	for (uint32_t i = 0; i < m->count; i++)
		if (hr_device_is(hr_get(&m->fn[i], HR_F_VENDOR, 0),
				 hr_get(&m->fn[i], HR_F_DEVICE, 0), HR_DEV_TEGRA_PORT))
			return true;
	return false;
}

static void put_missing(const struct hr_topo *t)
{
	const struct hr_topology *e = &t->topology;

	if (e->gpus == 0 && e->ssds)
		fprintf(t->out, "no GPU among %u functions; the SSDs have no partner\n",
			t->model.count);
	if (e->gpus == 0 && has_tegra(&t->model))
		fputs("the GPU of a Tegra (Jetson) is not a PCI function; its memory "
		      "is the host's: memory.path = \"bounce\"\n",
		      t->out);
	if (e->ssds == 0 && e->gpus)
		fprintf(t->out, "no NVMe controller among %u functions\n", t->model.count);
}

void hr_topo_alone(struct hr_topo *t)
{
	const struct hr_topology *e = &t->topology;

	if (e->gpus && e->ssds)
		return;
	put_missing(t);
	if (e->gpus == 0)
		put_others(t, 0x03, e->gpu, e->gpus, why_no_gpu);
	if (e->ssds == 0)
		put_others(t, 0x01, e->ssd, e->ssds, why_no_nvme);
	if (hr_topo_has_other_pairs(t)) {
		fprintf(t->out, "GPUs%s instead, as with --peers gpu,nic:\n",
			hr_topo_cards(t) > e->gpus ? " and network cards" : "");
		hr_topo_peers_text(t, 1u << HR_ENDPOINT_GPU | 1u << HR_ENDPOINT_NIC);
	} else if (e->gpus && e->ssds == 0 && hr_topo_cards(t) > 1) {
		fputs("headrace topo --peers gpu,nic shows GPUs and network cards instead\n",
		      t->out);
	} else if (e->gpus == 1 && e->ssds == 0) {
		fputs("one GPU is no pair: an SSD, a second GPU or a network card is needed, and "
		      "the input shows none\n",
		      t->out);
	}
}
