/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/topo/forecast/rates.h - expected data rates: a model of directed edges and max-min fair shares.
 *
 * Every link is two edges, one per direction. So is the connection of a root port with the root
 * complex. The connection between root complexes is one edge. A flow is a list of edges: a DIRECT
 * flow crosses the SSD's links up and the GPU's links down; redirected traffic also crosses the
 * shared uplink up and down. Rates count payload: the link rate after the line code, times the
 * share of payload in a TLP, times 0.965 for data link packets.
 *
 * Link capacities come from registers. The rate of one x16 flow through a root complex is a prior
 * (hr_rates_prior); it holds for a root port. The total capacity of a root complex is not known, so
 * the rates of several flows through it are upper bounds (hr_rates_are_bounds).
 */
#ifndef PCI_TOPO_FORECAST_RATES_H
#define PCI_TOPO_FORECAST_RATES_H

#include "pci/topo/rules/verdict.h"

#define HR_FLOWS_MAX 16384u /* flows in one calculation */

enum hr_direction {
	HR_TO_GPU,   /* F2: the SSD writes GPU memory */
	HR_FROM_GPU, /* F3: the SSD reads GPU memory */
};

struct hr_rate {
	int32_t gpu, ssd;
	double gbs;    /* payload in GB/s (10^9); 0: none, or see hr_rate_unknown() */
	uint32_t edge; /* the edge that limits the rate; HR_NO_EDGE: not known */
};
#define HR_NO_EDGE UINT32_MAX

/* GB/s of a link after line code; 0 for unknown codes. */
double hr_pcie_link_gbs(uint32_t speed_code, uint32_t width);
/* Share of payload in a TLP of that size: posted write or completion, Gen3 framing. */
double hr_tlp_efficiency(uint32_t payload, enum hr_direction direction);
/* GB/s of one x16 flow through the root complex of a root bus: a prior, not a measurement. */
double hr_rates_prior(const struct hr_topology *e, int32_t root);

/*
 * Compute the rates of rate[n] when all flows run together. Memory comes from the model.
 * 0, -ENOMEM, or -E2BIG: n over HR_FLOWS_MAX.
 */
int hr_rates_solve(const struct hr_topology *e, struct hr_model *m, enum hr_direction direction,
		   struct hr_rate *rate, unsigned n);

/* True when several of the flows pass root complexes: their rates are upper bounds. */
bool hr_rates_are_bounds(const struct hr_topology *e, const struct hr_rate *rate, unsigned n);

/* True when nothing tells the rate, although the verdict may allow transfers. */
bool hr_rate_unknown(const struct hr_topology *e, const struct hr_rate *r);

/*
 * True when a tunnel limits the rate; then the model is a range, and gbs is its middle. *from and
 * *to are set in any case.
 */
bool hr_rate_range(const struct hr_topology *e, const struct hr_rate *r, double *from, double *to);

/* "link of 0000:04:00.0 up, 16 GT/s x4"; text[96]; returns text. */
char *hr_edge_text(const struct hr_topology *e, uint32_t edge, char *text);

/*
 * Assign a GPU to each SSD: best verdict first, then the nearest GPU, then the highest rates.
 * rate[e->ssds] gets the assignment and its rates when all flows run together. 0, -ENOMEM or
 * -E2BIG.
 */
int hr_rates_assign(const struct hr_topology *e, struct hr_model *m, enum hr_direction direction,
		    struct hr_rate *rate);

#endif
