/* SPDX-License-Identifier: Apache-2.0 */
/* --peers: the output of nvidia-smi topo -m, with SSDs and verdicts: GPUs, SSDs and network cards
 * against each other, the CPUs and the NUMA node of each, and links between GPUs. */
#include "boot/cmd/topo/views/views.h"

#include <stdlib.h>
#include <string.h>

#include "boot/cmd/report/output.h"
#include "boot/cmd/topo/common.h"
#include "boot/cmd/topo/disks.h"
#include "boot/cmd/topo/headline.h"
#include "boot/cmd/topo/json.h"
#include "pci/topo/disk.h"
#include "pci/topo/rules/explain.h"
#include "pci/topo/rules/software.h"
#include "config/base/log.h"

#define GAP 2u
#define LISTED_MAX 64u /* peers listed by name, without --all */
#define NAME_BYTES 24u

const struct hr_pair *hr_peer_worst(const struct hr_endpoint_pair *p)
{
	bool back = p->has_verdict && p->b.kind == HR_ENDPOINT_GPU &&
		    hr_verdict_order(p->to_b.verdict) > hr_verdict_order(p->to_a.verdict);

	return back ? &p->to_b : &p->to_a;
}

char *hr_peer_cell(const struct hr_endpoints *peers, const struct hr_endpoint_pair *p, char *text)
{
	char distance[16];

	hr_endpoint_distance(peers, p, distance);
	if (p->has_verdict)
		snprintf(text, 48, "%s %s%s%s%s", distance, hr_matrix_word(p->verdict),
			 p->modifiers & HR_MOD_DEGRADED ? "*" : "",
			 hr_p2p_refuses(p->driver) ? " " : "",
			 hr_p2p_refuses(p->driver) ? hr_p2p_word(p->driver) : "");
	else
		snprintf(text, 48, "%s", distance);
	return text;
}

/* ---- equal peers */

static uint32_t hash_text(const char *text)
{
	uint32_t h = 2166136261u;

	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 16777619u;
	return h;
}

/* Hashes of the texts of all cells. */
static uint32_t *all_cells(const struct hr_endpoints *peers)
{
	const uint32_t n = peers->count;
	uint32_t *cell = calloc((size_t)n * n + 1, sizeof *cell);
	struct hr_endpoint_pair p;
	char text[48];

	for (uint32_t i = 0; cell && i < n; i++)
		for (uint32_t j = i + 1; j < n; j++) {
			hr_endpoints_evaluate(peers, i, j, &p);
			cell[i * n + j] = cell[j * n + i] =
				hash_text(hr_peer_cell(peers, &p, text));
		}
	return cell;
}

static bool equal(const struct hr_endpoints *peers, const uint32_t *cell, uint32_t i, uint32_t j)
{
	const uint32_t n = peers->count;

	for (uint32_t k = 0; k < n; k++)
		if (k != i && k != j && cell[i * n + k] != cell[j * n + k])
			return false;
	return peers->peer[i].kind == peers->peer[j].kind;
}

struct hr_topo_peer_set *hr_peer_sets(const struct hr_endpoints *peers, uint32_t *count)
{
	const bool compare = peers->count <= HR_PEERS_COMPARED;
	struct hr_topo_peer_set *set = calloc(peers->count + 1, sizeof *set);
	uint32_t *cell = compare ? all_cells(peers) : NULL;

	*count = 0;
	for (uint32_t i = 0; set && (cell || !compare) && i < peers->count; i++) {
		uint32_t s = compare ? 0 : *count;

		while (s < *count && !equal(peers, cell, set[s].first, i))
			s++;
		if (s == *count)
			set[(*count)++] = (struct hr_topo_peer_set){ .kind = peers->peer[i].kind,
								     .first = i,
								     .second = i };
		else if (set[s].second == set[s].first)
			set[s].second = i;
		hr_set_add(&set[s].set, peers->peer[i].number);
	}
	free(cell);
	if (set && (cell || !compare))
		return set;
	free(set);
	return NULL;
}

char *hr_peer_set_name(const struct hr_topo_peer_set *s, char *text, size_t capacity)
{
	return hr_set_text(hr_endpoint_word(s->kind), &s->set, text, capacity);
}

/* ---- text */

/* "", or a word about the RDMA of a network card, as far as the source tells. */
static const char *rdma_text(const struct hr_fn *f, enum hr_endpoint_kind kind)
{
	if (kind != HR_ENDPOINT_NIC || (!hr_is_rdma(f) && !hr_known(f, HR_F_RDMA)))
		return "";
	return hr_is_rdma(f) ? "RDMA, " : "no RDMA, ";
}

static void print_peer(const struct hr_topo *t, const struct hr_endpoint *p)
{
	const struct hr_fn *f = &t->model.fn[p->fn];
	uint32_t node = hr_node(&t->topology, p->fn);
	char bdf[HR_BDF_MAX], line[2048], number[16], nearest[16] = "?", what[256], disk[400];
	int used;

	snprintf(number, sizeof number, "%s%u", hr_endpoint_word(p->kind), p->number);
	if (node != ~0u)
		snprintf(nearest, sizeof nearest, "%u", node);
	used = fprintf(t->out, "  %-7s %s  ", number, hr_bdf(f, bdf));
	snprintf(line, sizeof line, "node %s, CPUs %s, %s%s%s%s%s%s%s%s", nearest,
		 f->cpus ? f->cpus : "?", rdma_text(f, p->kind), f->devices ? f->devices : "",
		 f->devices ? ", " : "", hr_topo_describe(t, f, what, sizeof what),
		 f->driver && f->driver[0] ? ", driver " : "", f->driver ? f->driver : "",
		 f->disk ? "; " : "", hr_disk_text(f->disk, true, disk, sizeof disk));
	hr_print_wrapped(t->out, (unsigned)used, 10, line);
}

static void print_list(const struct hr_topo *t, const struct hr_endpoints *peers)
{
	for (uint32_t i = 0; i < peers->count && (t->all || i < LISTED_MAX); i++)
		print_peer(t, &peers->peer[i]);
	if (!t->all && peers->count > LISTED_MAX)
		fprintf(t->out, "  ... and %u more (--all)\n", peers->count - LISTED_MAX);
}

struct grid {
	const struct hr_topo *t;
	const struct hr_endpoints *peers;
	const struct hr_topo_peer_set *set;
	uint32_t sets;
	unsigned cell, name; /* columns of text */
};

/* The cell of two sets. A set with itself: "X" when it has one member. */
static const char *grid_cell(const struct grid *g, uint32_t i, uint32_t j,
			     struct hr_endpoint_pair *p, char *text)
{
	p->has_verdict = false;
	p->driver = HR_P2P_UNREAD;
	if (i == j && g->set[i].first == g->set[i].second)
		return "X";
	hr_endpoints_evaluate(g->peers, g->set[i].first,
			      i == j ? g->set[i].second : g->set[j].first, p);
	return hr_peer_cell(g->peers, p, text);
}

static void measure_grid(struct grid *g)
{
	struct hr_endpoint_pair p;
	char text[48];

	g->cell = g->name = 0;
	for (uint32_t i = 0; i < g->sets; i++) {
		size_t n = strlen(hr_peer_set_name(&g->set[i], text, NAME_BYTES));

		g->name = n > g->name ? (unsigned)n : g->name;
		for (uint32_t j = i; j < g->sets; j++) {
			n = strlen(grid_cell(g, i, j, &p, text));
			g->cell = n > g->cell ? (unsigned)n : g->cell;
		}
	}
	g->cell = g->name > g->cell ? g->name : g->cell;
}

static void print_columns(const struct grid *g, uint32_t from, uint32_t to)
{
	struct hr_endpoint_pair p;
	char text[48];

	fprintf(g->t->out, "\n%-*s", (int)g->name, "");
	for (uint32_t j = from; j < to; j++)
		fprintf(g->t->out, "%*s%-*s", (int)GAP, "", j + 1 < to ? (int)g->cell : 0,
			hr_peer_set_name(&g->set[j], text, NAME_BYTES));
	for (uint32_t i = 0; i < g->sets; i++) {
		fprintf(g->t->out, "\n%-*s", (int)g->name,
			hr_peer_set_name(&g->set[i], text, NAME_BYTES));
		for (uint32_t j = from; j < to; j++) {
			const char *cell = grid_cell(g, i, j, &p, text);
			int pad = j + 1 < to ? (int)g->cell - (int)strlen(cell) : 0;

			fprintf(g->t->out, "%*s%s%s%s%*s", (int)GAP, "",
				p.has_verdict ? hr_topo_colour(g->t, p.verdict) : "", cell,
				hr_topo_reset(g->t), pad, "");
		}
	}
	fputc('\n', g->t->out);
}

static void print_grid(struct grid *g)
{
	unsigned side;

	measure_grid(g);
	side = (HR_TEXT_COLUMNS - g->name) / (g->cell + GAP);
	for (uint32_t from = 0; from < g->sets; from += side)
		print_columns(g, from, from + side < g->sets ? from + side : g->sets);
}

/* Reasons that were printed before. */
struct told {
	uint64_t reason[64];
	unsigned n;
};

static bool note_reason(struct told *told, uint8_t rule, int32_t fn)
{
	uint64_t reason = (uint64_t)(uint32_t)fn << 8 | rule;

	for (unsigned i = 0; i < told->n; i++)
		if (told->reason[i] == reason)
			return false;
	if (told->n < sizeof told->reason / sizeof *told->reason)
		told->reason[told->n++] = reason;
	return true;
}

/* Print the rule that decided, the function where it was found, and its remedy, once each. */
static void print_reason(const struct grid *g, const struct hr_endpoint_pair *p, struct told *told)
{
	const struct hr_pair *worst = hr_peer_worst(p);
	const struct hr_rule *r = &hr_rules[p->rule];
	struct hr_finding found[64], *at = NULL;
	unsigned n = hr_findings(p->by, worst, found, 64);
	char text[640];

	for (unsigned i = 0; i < n && i < 64 && !at; i++)
		if (found[i].rule == p->rule && found[i].flows)
			at = &found[i];
	if (!at || !note_reason(told, p->rule, at->fn))
		return;
	fputs("    ", g->t->out);
	hr_print_wrapped(g->t->out, 4, 4,
			 hr_rule_text(p->by, worst, at, r->why, text, sizeof text));
	if (!r->fix)
		return;
	fputs("    -> ", g->t->out);
	hr_print_wrapped(g->t->out, 7, 7,
			 hr_rule_text(p->by, worst, at, r->fix, text, sizeof text));
}

char *hr_peer_refusal(enum hr_p2p_status driver, enum hr_verdict verdict, char *text,
		      size_t capacity)
{
	const bool blocked = verdict == HR_BLOCKED || verdict == HR_SILENT_LOSS;

	snprintf(text, capacity, "NVIDIA's driver refuses peer access (%s: %s); %s",
		 hr_p2p_word(driver), hr_p2p_meaning(driver),
		 verdict == HR_UNKNOWN ? "whether PCI Express allows it is unknown"
		 : blocked	       ? "PCI Express blocks it, too"
				       : "PCI Express would allow it");
	return text;
}

/* Print the answer of NVIDIA's driver when it refuses, with its meaning once. */
static void print_refusal(const struct grid *g, const struct hr_endpoint_pair *p, unsigned *told)
{
	const unsigned way = 1u << p->driver
				<< (p->verdict == HR_UNKNOWN   ? 8
				    : p->verdict == HR_BLOCKED ? 16
							       : 0);
	char text[512];

	if (!hr_p2p_refuses(p->driver) || *told & way)
		return;
	*told |= way;
	fputs("    ", g->t->out);
	hr_print_wrapped(g->t->out, 4, 4,
			 hr_peer_refusal(p->driver, p->verdict, text, sizeof text));
}

/* Print the reasons of sets with a GPU that are not DIRECT, or that the driver refuses. */
static void print_reasons(const struct grid *g)
{
	struct told told = { .n = 0 };
	struct hr_endpoint_pair p;
	unsigned refusals = 0;
	char a[NAME_BYTES], b[NAME_BYTES], text[48], verdict[48];

	fputc('\n', g->t->out);
	for (uint32_t i = 0; i < g->sets; i++)
		for (uint32_t j = i; j < g->sets; j++) {
			grid_cell(g, i, j, &p, text);
			if (!p.has_verdict || (p.verdict == HR_DIRECT && !hr_p2p_refuses(p.driver)))
				continue;
			fprintf(g->t->out, "%s with %s: %s%s%s (rule %s)\n",
				hr_peer_set_name(&g->set[i], a, sizeof a),
				i == j ? "each other" : hr_peer_set_name(&g->set[j], b, sizeof b),
				hr_topo_colour(g->t, p.verdict),
				hr_verdict_text(p.verdict, p.rule, verdict), hr_topo_reset(g->t),
				hr_rules[p.rule].id);
			if (p.verdict != HR_DIRECT)
				print_reason(g, &p, &told);
			print_refusal(g, &p, &refusals);
		}
}

/* The driver's answers are the only source about peer access between GPUs of NVIDIA. */
static void print_unread(const struct hr_topo *t, const struct hr_endpoints *peers)
{
	unsigned gpus = 0;
	bool consumer = false;

	for (uint32_t i = 0; i < peers->by_kind[HR_ENDPOINT_GPU]; i++) {
		const struct hr_fn *f = &t->model.fn[peers->peer[i].fn];

		gpus += hr_get(f, HR_F_VENDOR, 0) == 0x10de;
		consumer |= hr_product_of(f) == HR_PRODUCT_CONSUMER;
	}
	if (gpus < 2 || t->model.p2ps)
		return;
	hr_print_wrapped(
		t->out, 0, 2,
		consumer ? "not in the input: whether NVIDIA's driver allows peer access; "
			   "between consumer cards it usually refuses (GNS or CNS). "
			   "nvidia-smi topo -p2p rw shows it; its output counts below that of "
			   "lspci in one file"
			 : "not in the input: whether NVIDIA's driver allows peer access; "
			   "nvidia-smi topo -p2p rw shows it; its output counts below that of "
			   "lspci in one file");
}

static const char legend[] =
	"\nPIX one switch, PXB several switches, PHB one host bridge, NODE one NUMA node, SYS "
	"across "
	"sockets,\nNVn n NVLinks, XGMIn n XGMI links; RC through the root complex, REDIR the same "
	"because of ACS or\nthe IOMMU, ? one that the kernel does not trust; * degraded\n";

static bool iommu_assumed(const struct grid *g)
{
	struct hr_endpoint_pair p;
	char text[48];

	for (uint32_t i = 0; i < g->sets; i++)
		for (uint32_t j = i; j < g->sets; j++) {
			grid_cell(g, i, j, &p, text);
			if (p.has_verdict && p.modifiers & HR_MOD_ASSUMED)
				return true;
		}
	return false;
}

/* A distance NODE of functions whose NUMA nodes the input does not state. */
static bool node_unread(const struct grid *g)
{
	struct hr_endpoint_pair p;
	char text[48];

	for (uint32_t i = 0; i < g->sets; i++)
		for (uint32_t j = i; j < g->sets; j++)
			if (strncmp(grid_cell(g, i, j, &p, text), "NODE", 4) == 0 &&
			    (hr_node(g->peers->topology, p.a.fn) == ~0u ||
			     hr_node(g->peers->topology, p.b.fn) == ~0u))
				return true;
	return false;
}

static int print_text(const struct hr_topo *t, const struct hr_endpoints *peers, int code)
{
	struct grid g = { .t = t, .peers = peers };
	struct hr_topo_peer_set *set = hr_peer_sets(peers, &g.sets);

	if (!set) {
		fputs("headrace: error: out of memory\n", stderr);
		return HR_TOPO_NO_ACCESS;
	}
	g.set = set;
	print_list(t, peers);
	print_grid(&g);
	print_reasons(&g);
	print_unread(t, peers);
	if (iommu_assumed(&g))
		hr_print_wrapped(t->out, 0, 2,
				 "the IOMMU's mode is not in the input: off or passthrough is "
				 "assumed; give it with --iommu=off|pt|on");
	fputs(legend, t->out);
	if (node_unread(&g))
		fputs("NUMA nodes are not known: NODE may be SYS\n", t->out);
	free(set);
	return code;
}

/* ---- JSON */

static void put_peer(const struct hr_topo *t, struct hr_json *o, const struct hr_endpoint *p)
{
	const struct hr_fn *f = &t->model.fn[p->fn];
	uint32_t node = hr_node(&t->topology, p->fn);
	char name[16];

	snprintf(name, sizeof name, "%s%u", hr_endpoint_word(p->kind), p->number);
	hr_json_object(o, NULL);
	hr_topo_json_address(t, o, "address", p->fn);
	hr_json_string(o, "name", name);
	hr_json_string(o, "kind", hr_endpoint_word(p->kind));
	hr_json_string(o, "title", hr_topo_title(f));
	if (hr_known(f, HR_F_VENDOR))
		hr_json_u64(o, "vendor", hr_get(f, HR_F_VENDOR, 0));
	if (hr_known(f, HR_F_DEVICE))
		hr_json_u64(o, "device", hr_get(f, HR_F_DEVICE, 0));
	if (node != ~0u)
		hr_json_u64(o, "numa_node", node);
	if (f->cpus)
		hr_json_string(o, "cpus", f->cpus);
	if (f->devices)
		hr_json_string(o, "devices", f->devices);
	hr_topo_json_disk(o, f);
	if (*rdma_text(f, p->kind))
		hr_json_bool(o, "rdma", hr_is_rdma(f));
	if (f->driver)
		hr_json_string(o, "driver", f->driver);
	hr_json_close(o);
}

static void put_direction(struct hr_json *o, const char *key, const struct hr_pair *p)
{
	char text[48];

	hr_json_object(o, key);
	hr_json_string(o, "verdict", hr_verdict_text(p->verdict, p->rule, text));
	hr_json_string(o, "rule", hr_rules[p->rule].id);
	hr_json_string(o, "kernel_verdict", hr_kernel_text(p->kernel));
	hr_json_close(o);
}

static void put_verdict(struct hr_json *o, const struct hr_endpoint_pair *p)
{
	char text[64];

	hr_json_string(o, "verdict", hr_verdict_text(p->verdict, p->rule, text));
	hr_json_string(o, "rule", hr_rules[p->rule].id);
	hr_json_bool(o, "degraded", p->modifiers & HR_MOD_DEGRADED);
	put_direction(o, "to_a", &p->to_a);
	if (p->b.kind == HR_ENDPOINT_GPU)
		put_direction(o, "to_b", &p->to_b);
}

/* "driver": the answers of NVIDIA's driver for both directions. */
static void put_driver(const struct hr_topo *t, struct hr_json *o, const struct hr_endpoint_pair *p)
{
	static const char *const key[] = { "a_to_b", "b_to_a" };
	const uint64_t a = hr_address(&t->model.fn[p->a.fn]), b = hr_address(&t->model.fn[p->b.fn]);
	const struct hr_p2p *const way[] = { hr_p2p_find(&t->model, a, b),
					     hr_p2p_find(&t->model, b, a) };

	if (p->b.kind != HR_ENDPOINT_GPU || (!way[0] && !way[1]))
		return;
	hr_json_object(o, "driver");
	for (unsigned i = 0; i < 2; i++) {
		if (!way[i])
			continue;
		hr_json_object(o, key[i]);
		for (unsigned k = 0; k < HR_P2P_ACCESSES; k++)
			if (way[i]->status[k])
				hr_json_string(o, hr_p2p_name((enum hr_p2p_access)k),
					       hr_p2p_word((enum hr_p2p_status)way[i]->status[k]));
		hr_json_close(o);
	}
	hr_json_close(o);
}

static void put_pair(const struct hr_topo *t, struct hr_json *o, const struct hr_endpoints *peers,
		     const struct hr_endpoint_pair *p)
{
	hr_json_object(o, NULL);
	hr_topo_json_address(t, o, "a", p->a.fn);
	hr_topo_json_address(t, o, "b", p->b.fn);
	hr_json_string(o, "distance", hr_distance_word(peers->topology, &p->to_a));
	hr_json_u64(o, "kernel_distance", p->to_a.distance);
	if (p->links) {
		hr_json_object(o, "gpu_links");
		hr_json_string(o, "fabric", p->fabric == HR_XGMI ? "xgmi" : "nvlink");
		hr_json_u64(o, "count", p->links);
		hr_json_bool(o, "through_switch", p->through_switch);
		hr_json_close(o);
	}
	if (p->has_verdict)
		put_verdict(o, p);
	put_driver(t, o, p);
	hr_json_close(o);
}

static void put_all(const struct hr_topo *t, const struct hr_endpoints *peers, struct hr_json *o,
		    const char *pairs)
{
	struct hr_endpoint_pair p;

	hr_json_array(o, "peers");
	for (uint32_t i = 0; i < peers->count; i++)
		put_peer(t, o, &peers->peer[i]);
	hr_json_close(o);
	hr_json_array(o, pairs);
	for (uint32_t i = 0; i < peers->count; i++)
		for (uint32_t j = i + 1; j < peers->count && !o->error; j++) {
			hr_endpoints_evaluate(peers, i, j, &p);
			put_pair(t, o, peers, &p);
		}
	hr_json_close(o);
}

static int print_json(const struct hr_topo *t, const struct hr_endpoints *peers, int code)
{
	const struct hr_topo_machine machine = hr_topo_machine(t);
	struct hr_json out;

	hr_topo_json_begin(&out, t->out, t, "peers", &machine);
	put_all(t, peers, &out, "pairs");
	return hr_topo_json_end(&out, code);
}

/* Exit code of the worst pair with a GPU; HR_TOPO_NONE: no such pair. */
static int evaluate_all(const struct hr_endpoints *peers)
{
	enum hr_topo_exit worst = HR_TOPO_DIRECT;
	struct hr_endpoint_pair p;
	struct hr_pair sum;

	for (uint32_t i = 0; i < peers->by_kind[HR_ENDPOINT_GPU]; i++)
		for (uint32_t j = i + 1; j < peers->count; j++) {
			hr_endpoints_evaluate(peers, i, j, &p);
			sum = *hr_peer_worst(&p);
			sum.modifiers = p.modifiers;
			worst = hr_topo_worse(worst, hr_topo_exit_of(&sum));
		}
	return peers->by_kind[HR_ENDPOINT_GPU] && peers->count > 1 ? (int)worst : HR_TOPO_NONE;
}

void hr_topo_peers_text(struct hr_topo *t, unsigned kinds)
{
	struct hr_endpoints peers;

	if (hr_endpoints_init(&peers, &t->topology, &t->model, kinds))
		fputs("headrace: error: out of memory\n", stderr);
	else
		print_text(t, &peers, 0);
}

void hr_topo_peers_json(struct hr_topo *t, unsigned kinds, struct hr_json *o)
{
	struct hr_endpoints peers;

	if (hr_endpoints_init(&peers, &t->topology, &t->model, kinds) == 0)
		put_all(t, &peers, o, "peer_pairs");
}

int hr_topo_peers(struct hr_topo *t, unsigned kinds, const char *format)
{
	const bool json = strcmp(format, "json") == 0;
	struct hr_endpoints peers;
	int code, shown;

	if (!json && strcmp(format, "table") != 0) {
		hr_usage_error("topo", "--peers is shown as text or json, not as %s", format);
		return HR_TOPO_USAGE;
	}
	if (hr_endpoints_init(&peers, &t->topology, &t->model, kinds)) {
		fputs("headrace: error: out of memory\n", stderr);
		return HR_TOPO_NO_ACCESS;
	}
	if (peers.count > HR_PEERS_SHOWN) {
		hr_error("%u devices against each other, %u at most; --explain GPU0 GPU1 shows one",
			 peers.count, HR_PEERS_SHOWN);
		return HR_TOPO_USAGE;
	}
	code = evaluate_all(&peers);
	shown = json ? print_json(t, &peers, code) : print_text(t, &peers, code);
	if (code == HR_TOPO_NONE)
		fprintf(stderr, "headrace topo: no pair to evaluate: %u GPU%s, %u others\n",
			peers.by_kind[HR_ENDPOINT_GPU],
			peers.by_kind[HR_ENDPOINT_GPU] == 1 ? "" : "s",
			peers.count - peers.by_kind[HR_ENDPOINT_GPU]);
	return shown;
}
