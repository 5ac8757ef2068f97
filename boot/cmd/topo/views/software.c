/* SPDX-License-Identifier: Apache-2.0 */
/* --software: a row of requirements per GPU and SSD, with the answer to each. */
#include "boot/cmd/topo/views/views.h"

#include <string.h>

#include "boot/cmd/topo/common.h"
#include "boot/cmd/topo/json.h"
#include "pci/topo/rules/software.h"

typedef unsigned rows_of(const struct hr_topology *e, int32_t fn, struct hr_need *need);

static const char *const met_text[] = { "unknown", "no", "yes" };

static bool alike(const struct hr_need *a, unsigned n, const struct hr_need *b, unsigned m)
{
	if (n != m)
		return false;
	for (unsigned i = 0; i < n; i++)
		if (a[i].met != b[i].met || strcmp(a[i].what, b[i].what) != 0 ||
		    strcmp(a[i].text, b[i].text) != 0)
			return false;
	return true;
}

static void put_rows(const struct hr_topo *t, const struct hr_need *need, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		fprintf(t->out, "  %-15s %-8s %s\n", need[i].what, met_text[need[i].met],
			need[i].text);
		if (need[i].met == HR_NO && need[i].fix)
			fprintf(t->out, "  %15s -> %s\n", "", need[i].fix);
	}
}

static void json_rows(const struct hr_topo *t, int32_t fn, rows_of *rows)
{
	struct hr_json *o = t->json;
	struct hr_need need[HR_NEEDS_MAX];
	unsigned n = rows(&t->topology, fn, need);

	hr_json_object(o, NULL);
	hr_topo_json_address(t, o, "address", fn);
	hr_json_array(o, "requirements");
	for (unsigned i = 0; i < n; i++) {
		hr_json_object(o, NULL);
		hr_json_string(o, "what", need[i].what);
		hr_json_string(o, "met", met_text[need[i].met]);
		hr_json_string(o, "found", need[i].text);
		if (need[i].met == HR_NO && need[i].fix)
			hr_json_string(o, "fix", need[i].fix);
		hr_json_close(o);
	}
	hr_json_close(o);
	hr_json_close(o);
}

/* Equal cards that follow each other share their rows. */
static void put_cards(const struct hr_topo *t, const int32_t *list, uint32_t count, rows_of *rows)
{
	struct hr_need need[2][HR_NEEDS_MAX];
	char name[16];
	uint32_t to;

	for (uint32_t i = 0; i < count; i = to) {
		unsigned n = rows(&t->topology, list[i], need[0]);

		fprintf(t->out, "%s", hr_topo_name(t, list[i], name));
		for (to = i + 1; to < count; to++)
			if (!alike(need[0], n, need[1], rows(&t->topology, list[to], need[1])))
				break;
		if (to > i + 1)
			fprintf(t->out, " to %s", hr_topo_name(t, list[to - 1], name));
		fprintf(t->out, ": %.80s\n", hr_topo_title(&t->model.fn[list[i]]));
		put_rows(t, need[0], n);
	}
}

static void put_list(const struct hr_topo *t, const char *key, const int32_t *list, uint32_t count,
		     rows_of *rows)
{
	if (!t->json) {
		put_cards(t, list, count, rows);
		return;
	}
	hr_json_array(t->json, key);
	for (uint32_t i = 0; i < count; i++)
		json_rows(t, list[i], rows);
	hr_json_close(t->json);
}

int hr_topo_software(struct hr_topo *t)
{
	const struct hr_topology *e = &t->topology;

	if (t->json)
		hr_topo_json_start(t);
	put_list(t, "gpus", e->gpu, e->gpus, hr_software_gpu);
	put_list(t, "nvmes", e->ssd, e->ssds, hr_software_ssd);
	return (int)hr_topo_exit_all(t);
}

void hr_topo_software_pair(const struct hr_topo *t, const struct hr_pair *p)
{
	struct hr_need need[HR_NEEDS_MAX] = { 0 }, missing;
	enum hr_met met = hr_cufile_p2pdma(&t->topology, p->gpu, p->ssd, &missing);

	fputs("\nsoftware of the GPU (yes: met):\n", t->out);
	put_rows(t, need, hr_software_gpu(&t->topology, p->gpu, need));
	fputs("software of the SSD:\n", t->out);
	put_rows(t, need, hr_software_ssd(&t->topology, p->ssd, need));
	fprintf(t->out, "  cuFile's P2PDMA mode: %s%s%s\n", met_text[met],
		met == HR_NO ? ", first for: " : "", met == HR_NO ? missing.what : "");
}
