/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs and network cards against each other: the output of --peers as a table of the page. */
#include "boot/cmd/topo/html/html.h"

#include "boot/cmd/topo/common.h"

#include "boot/cmd/topo/views/views.h"
#include "pci/topo/rules/peers.h"

#define PEERS_MAX 32u

static void put_cell(FILE *out, const struct hr_endpoints *peers, uint32_t i, uint32_t j)
{
	struct hr_endpoint_pair p;
	char distance[16], verdict[48], title[96];

	if (i == j) {
		fputs("<td><span class=\"no\">X</span></td>", out);
		return;
	}
	hr_endpoints_evaluate(peers, i, j, &p);
	hr_endpoint_distance(peers, &p, distance);
	if (!p.has_verdict) {
		hr_html_put(out, "<td><span class=\"no\">~</span></td>", distance);
		return;
	}
	snprintf(title, sizeof title, "%s, rule %s", hr_verdict_text(p.verdict, p.rule, verdict),
		 hr_rules[p.rule].id);
	hr_html_put(out, "<td title=\"~\"><span class=\"no ~\"><small>~</small>~~</span></td>",
		    title, hr_html_colour(p.verdict), distance, hr_matrix_word(p.verdict),
		    p.modifiers & HR_MOD_DEGRADED ? "*" : "");
}

static void put_name(FILE *out, const struct hr_topo *t, const struct hr_endpoint *peer)
{
	const struct hr_fn *f = &t->model.fn[peer->fn];
	char name[32], bdf[HR_BDF_MAX];

	snprintf(name, sizeof name, "%s%u", hr_endpoint_word(peer->kind), peer->number);
	hr_html_put(out, "<th title=\"~ ~\">~ <small>~</small></th>", hr_bdf(f, bdf),
		    hr_topo_title(f), name, f->devices ? f->devices : "");
}

int hr_html_peers(struct hr_topo *t, FILE *out)
{
	struct hr_endpoints peers;
	const int err = hr_endpoints_init(&peers, &t->topology, &t->model,
					  1u << HR_ENDPOINT_GPU | 1u << HR_ENDPOINT_NIC);

	if (err)
		return err;
	if (peers.by_kind[HR_ENDPOINT_GPU] == 0 || peers.count < 2 || peers.count > PEERS_MAX)
		return 0;
	fputs("<section><h2>GPUs and network cards</h2><div class=\"scroll\"><table><thead><tr>"
	      "<th></th>",
	      out);
	for (uint32_t i = 0; i < peers.count; i++)
		put_name(out, t, &peers.peer[i]);
	fputs("</tr></thead><tbody>\n", out);
	for (uint32_t i = 0; i < peers.count; i++) {
		fputs("<tr>", out);
		put_name(out, t, &peers.peer[i]);
		for (uint32_t j = 0; j < peers.count; j++)
			put_cell(out, &peers, i, j);
		fputs("</tr>\n", out);
	}
	fputs("</tbody></table></div>\n<p class=\"dim\">NV and XGMI: links other than PCI Express, and "
	      "their number. headrace topo --peers gpu,nvme,nic shows rules and nearby CPUs.</p>"
	      "</section>\n",
	      out);
	return 0;
}
