/* SPDX-License-Identifier: Apache-2.0 */
/* --groups: predicted and real IOMMU groups, and what VFIO can open. */
#include "boot/cmd/topo/views/views.h"

#include <stdlib.h>

#include "boot/cmd/topo/common.h"
#include "boot/cmd/topo/json.h"
#include "boot/cmd/topo/headline.h"
#include "pci/topo/rules/groups.h"

#define SHOWN 64u

static void put_blocker(const struct hr_topo *t, int32_t blocker, const char *which)
{
	char bdf[HR_BDF_MAX];

	if (blocker == HR_NO_FN)
		fprintf(t->out, "; VFIO can open %s", which);
	else
		fprintf(t->out, "; VFIO cannot open %s because of %s (driver %s)", which,
			hr_bdf(&t->model.fn[blocker], bdf), t->model.fn[blocker].driver);
}

static void put_function(const struct hr_topo *t, const struct hr_groups *g, int32_t fn)
{
	const struct hr_fn *f = &t->model.fn[fn];
	bool real = hr_known(f, HR_F_GROUP);
	struct hr_topo line = *t;
	char name[16], *text = NULL;
	size_t size;

	line.out = open_memstream(&text, &size);
	if (!line.out)
		return;
	fprintf(t->out, "  %-7s ", hr_topo_name(t, fn, name));
	fprintf(line.out, "predicted group %u%s", g->of[fn],
		g->unsure[fn] ? " (ACS above it is not known)" : "");
	if (real)
		fprintf(line.out, ", real group %u", hr_get(f, HR_F_GROUP, 0));
	if (hr_is_nvme(f)) {
		int32_t blocker = hr_groups_blocker(&t->model, g, fn, false);
		int32_t now = real ? hr_groups_blocker(&t->model, g, fn, true) : blocker;
		bool unsure = hr_groups_unsure(g, fn, blocker), same = real && now == blocker;

		if (unsure && !real)
			fputs("; whether VFIO can open it is not known", line.out);
		else if (!unsure)
			put_blocker(&line, blocker, same ? "both" : "the predicted group");
		if (real && (unsure || !same))
			put_blocker(&line, now, "the real group");
	}
	fclose(line.out);
	hr_print_wrapped(t->out, 10, 10, text);
	free(text);
}

static void put_corner(const struct hr_topo *t, const struct hr_groups *g, const struct hr_pair *p)
{
	bool together = g->of[p->gpu] == g->of[p->ssd];
	char gpu[16], ssd[16];

	fprintf(t->out, "  %s and %s: ", hr_topo_name(t, p->gpu, gpu),
		hr_topo_name(t, p->ssd, ssd));
	if (p->unread_redirect && !p->any_redirect)
		fputs("ACS of the ports between them was not read, so the missing property is not "
		      "known\n",
		      t->out);
	else if (p->any_redirect)
		fputs("redirect is on: isolated for VFIO, not direct\n", t->out);
	else if (p->boot_redirect)
		fputs("redirect is off now: direct; a boot with an IOMMU sets it:\n"
		      "          isolated, not direct\n",
		      t->out);
	else if (together)
		fputs("redirect is off: direct; VFIO cannot open the SSD while the GPU has its own "
		      "driver\n",
		      t->out);
	else
		fputs("redirect is off and the groups differ: direct, not isolated\n", t->out);
}

static void json_blocker(const struct hr_topo *t, struct hr_json *o, const char *key,
			 int32_t blocker)
{
	hr_json_object(o, key);
	hr_json_bool(o, "viable", blocker == HR_NO_FN);
	if (blocker != HR_NO_FN) {
		hr_topo_json_address(t, o, "kept_out_by", blocker);
		hr_json_string(o, "driver", t->model.fn[blocker].driver);
	}
	hr_json_close(o);
}

static void json_vfio(const struct hr_topo *t, const struct hr_groups *g, int32_t fn)
{
	const int32_t blocker = hr_groups_blocker(&t->model, g, fn, false);

	if (!hr_groups_unsure(g, fn, blocker))
		json_blocker(t, t->json, "vfio_predicted", blocker);
	if (hr_known(&t->model.fn[fn], HR_F_GROUP))
		json_blocker(t, t->json, "vfio_real", hr_groups_blocker(&t->model, g, fn, true));
}

static void json_function(const struct hr_topo *t, const struct hr_groups *g, int32_t fn)
{
	const struct hr_fn *f = &t->model.fn[fn];
	struct hr_json *o = t->json;

	hr_json_object(o, NULL);
	hr_topo_json_address(t, o, "address", fn);
	hr_json_u64(o, "predicted_group", g->of[fn]);
	hr_json_bool(o, "unsure", g->unsure[fn]);
	if (hr_known(f, HR_F_GROUP))
		hr_json_u64(o, "real_group", hr_get(f, HR_F_GROUP, 0));
	if (hr_is_nvme(f))
		json_vfio(t, g, fn);
	hr_json_close(o);
}

/* Unknown values are left out. */
static void json_corner(const struct hr_topo *t, const struct hr_groups *g, const struct hr_pair *p)
{
	struct hr_json *o = t->json;

	hr_json_object(o, NULL);
	hr_topo_json_ends(t, o, p->gpu, p->ssd);
	if (p->any_redirect || !p->unread_redirect)
		hr_json_bool(o, "redirected", p->any_redirect);
	if (!hr_groups_unsure(g, p->gpu, p->ssd))
		hr_json_bool(o, "one_group", g->of[p->gpu] == g->of[p->ssd]);
	hr_json_close(o);
}

static int json_groups(const struct hr_topo *t, const struct hr_groups *g,
		       const struct hr_groups *registers)
{
	const struct hr_topology *e = &t->topology;
	struct hr_pair p;

	hr_topo_json_start(t);
	hr_json_array(t->json, "functions");
	for (uint32_t i = 0; i < e->gpus; i++)
		json_function(t, g, e->gpu[i]);
	for (uint32_t i = 0; i < e->ssds; i++)
		json_function(t, g, e->ssd[i]);
	hr_json_close(t->json);
	hr_json_u64(t->json, "predicted_groups", g->count);
	hr_json_u64(t->json, "groups_by_registers", registers->count);
	hr_json_u64(t->json, "mismatches", g->mismatches);
	hr_json_array(t->json, "below_one_switch");
	for (uint32_t i = 0; i < e->gpus; i++)
		for (uint32_t j = 0; j < e->ssds; j++) {
			hr_pair_evaluate(e, e->gpu[i], e->ssd[j], &p);
			if (p.common != HR_NO_FN)
				json_corner(t, g, &p);
		}
	hr_json_close(t->json);
	return (int)hr_topo_exit_all(t);
}

int hr_topo_groups(struct hr_topo *t)
{
	const struct hr_topology *e = &t->topology;
	struct hr_groups g = { 0 }, registers = { 0 };
	unsigned corners = 0;
	struct hr_pair p;
	char bdf[HR_BDF_MAX];

	if (hr_groups_at_boot(&t->model, &t->topology.boot, &g) ||
	    hr_groups_predict(&t->model, &registers))
		return HR_TOPO_NO_ACCESS;
	if (t->json)
		return json_groups(t, &g, &registers);
	fprintf(t->out,
		"%u IOMMU groups predicted for %u functions, after a boot with an IOMMU on\n",
		g.count, t->model.count);
	if (registers.count < g.count)
		fprintf(t->out, "ACS isolates less now: %u groups; %s\n", registers.count,
			e->iommu_active ? "it was cleared since the boot, and the groups no longer "
					  "isolate"
					: "such a boot sets it");
	for (uint32_t i = 0; i < e->gpus && (t->all || i < SHOWN); i++)
		put_function(t, &g, e->gpu[i]);
	for (uint32_t i = 0; i < e->ssds && (t->all || i < SHOWN); i++)
		put_function(t, &g, e->ssd[i]);
	if (g.mismatches)
		fprintf(t->out,
			"real groups differ at %u function%s, first at %s: another command line or "
			"firmware\n  setting at boot, or the kernel knows a quirk\n",
			g.mismatches, g.mismatches == 1 ? "" : "s",
			hr_bdf(&t->model.fn[g.first_mismatch], bdf));
	else if (e->iommu_active)
		fputs("real groups are as predicted\n", t->out);
	for (uint32_t i = 0; i < e->gpus && (t->all || i < SHOWN); i++)
		for (uint32_t j = 0; j < e->ssds && (t->all || j < SHOWN); j++) {
			hr_pair_evaluate(e, e->gpu[i], e->ssd[j], &p);
			if (p.common == HR_NO_FN)
				continue;
			if (!corners++)
				fputs("below one switch (direct, isolated, GPU with its own driver: "
				      "one of the three is given up):\n",
				      t->out);
			put_corner(t, &g, &p);
		}
	return (int)hr_topo_exit_all(t);
}
