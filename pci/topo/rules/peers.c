/* SPDX-License-Identifier: Apache-2.0 */
#include "pci/topo/rules/peers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pci/topo/rules/rules.h"

static const char *const word[HR_ENDPOINT_KINDS] = { "GPU", "NVME", "NIC" };

const char *hr_endpoint_word(enum hr_endpoint_kind kind)
{
	return word[kind];
}

unsigned hr_endpoint_kinds(const char *list)
{
	static const char *const name[HR_ENDPOINT_KINDS] = { "gpu", "nvme", "nic" };
	unsigned kinds = 0;

	for (;;) {
		size_t n = strcspn(list, ",");
		unsigned kind = 0;

		while (kind < HR_ENDPOINT_KINDS &&
		       (strlen(name[kind]) != n || strncmp(name[kind], list, n) != 0))
			kind++;
		if (kind == HR_ENDPOINT_KINDS)
			return 0;
		kinds |= 1u << kind;
		if (!list[n])
			return kinds;
		list += n + 1;
	}
}

static void add_peer(struct hr_endpoints *peers, int32_t fn, enum hr_endpoint_kind kind)
{
	peers->peer[peers->count++] = (struct hr_endpoint){ fn, kind, peers->by_kind[kind]++ };
}

/* A network card that the command line names as a GPU or an SSD is not listed as a network card. */
static bool is_listed(const struct hr_topology *e, int32_t fn)
{
	for (uint32_t i = 0; i < e->gpus; i++)
		if (e->gpu[i] == fn)
			return true;
	for (uint32_t i = 0; i < e->ssds; i++)
		if (e->ssd[i] == fn)
			return true;
	return false;
}

int32_t hr_endpoint_nic(const struct hr_topology *e, uint32_t number)
{
	for (int32_t i = 0; i < (int32_t)e->m->count; i++)
		if (hr_is_nic(&e->m->fn[i]) && !is_listed(e, i) && number-- == 0)
			return i;
	return HR_NO_FN;
}

static struct hr_topology *engine_of(const struct hr_topology *e, struct hr_model *m,
				     enum hr_mode mode)
{
	struct hr_topology *other = hr_model_alloc(m, sizeof *other);
	struct hr_topo_options opt = e->opt;

	opt.mode = mode;
	return other && hr_topology_init(other, m, &opt) == 0 ? other : NULL;
}

int hr_endpoints_init(struct hr_endpoints *peers, const struct hr_topology *e, struct hr_model *m,
		      unsigned kinds)
{
	*peers = (struct hr_endpoints){ .topology = e };
	peers->peer = hr_model_alloc(m, (m->count + e->gpus + e->ssds) * sizeof *peers->peer);
	peers->gpus = engine_of(e, m, HR_MODE_GPU);
	peers->nics = engine_of(e, m, HR_MODE_KERNEL);
	if (!peers->peer || !peers->gpus || !peers->nics)
		return -ENOMEM;
	for (uint32_t i = 0; kinds >> HR_ENDPOINT_GPU & 1 && i < e->gpus; i++)
		add_peer(peers, e->gpu[i], HR_ENDPOINT_GPU);
	for (uint32_t i = 0; kinds >> HR_ENDPOINT_NVME & 1 && i < e->ssds; i++)
		add_peer(peers, e->ssd[i], HR_ENDPOINT_NVME);
	for (uint32_t i = 0; kinds >> HR_ENDPOINT_NIC & 1 && i < m->count; i++)
		if (hr_is_nic(&m->fn[i]) && !is_listed(e, (int32_t)i))
			add_peer(peers, (int32_t)i, HR_ENDPOINT_NIC);
	return 0;
}

static void merge_pair(struct hr_endpoint_pair *out, const struct hr_pair *p)
{
	out->modifiers |= p->modifiers;
	if (out->has_verdict && hr_verdict_order(p->verdict) <= hr_verdict_order(out->verdict))
		return;
	out->has_verdict = true;
	out->verdict = p->verdict;
	out->rule = p->rule;
}

static void kernel_verdict_only(const struct hr_endpoints *peers, struct hr_endpoint_pair *out)
{
	out->by = peers->topology;
	out->to_a.gpu = out->a.fn;
	out->to_a.ssd = out->b.fn;
	hr_pair_evaluate_kernel(peers->topology, &out->to_a);
}

void hr_endpoints_evaluate(const struct hr_endpoints *peers, uint32_t i, uint32_t j,
			   struct hr_endpoint_pair *out)
{
	bool swap = peers->peer[i].kind > peers->peer[j].kind;
	const struct hr_topology *e = peers->topology;

	memset(out, 0, sizeof *out);
	out->a = peers->peer[swap ? j : i];
	out->b = peers->peer[swap ? i : j];
	if (out->a.kind != HR_ENDPOINT_GPU) {
		kernel_verdict_only(peers, out);
		return;
	}
	if (out->b.kind == HR_ENDPOINT_NVME) {
		out->by = e;
		hr_pair_evaluate(e, out->a.fn, out->b.fn, &out->to_a);
		merge_pair(out, &out->to_a);
		return;
	}
	out->by = out->b.kind == HR_ENDPOINT_GPU ? peers->gpus : peers->nics;
	hr_pair_evaluate_flows(out->by, out->a.fn, out->b.fn, F2 | F3, &out->to_a);
	merge_pair(out, &out->to_a);
	if (out->b.kind != HR_ENDPOINT_GPU)
		return;
	hr_pair_evaluate_flows(out->by, out->b.fn, out->a.fn, F2 | F3, &out->to_b);
	merge_pair(out, &out->to_b);
	out->driver = hr_p2p_between(e->m, hr_address(&e->m->fn[out->a.fn]),
				     hr_address(&e->m->fn[out->b.fn]));
	out->links =
		hr_gpu_links(e->m, hr_address(&e->m->fn[out->a.fn]),
			     hr_address(&e->m->fn[out->b.fn]), &out->fabric, &out->through_switch);
}

const char *hr_endpoint_distance(const struct hr_endpoints *peers, const struct hr_endpoint_pair *p,
				 char *text)
{
	if (p->links)
		snprintf(text, 16, "%s%u", p->fabric == HR_XGMI ? "XGMI" : "NV", p->links);
	else
		snprintf(text, 16, "%s", hr_distance_word(peers->topology, &p->to_a));
	return text;
}
