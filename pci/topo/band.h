/*
 * pci/topo/band.h - how fast: a model of directed edges and max-min fair shares.
 *
 * Every link is two edges, one each way; so is every root port's way into the root complex, and
 * the way between hosts is one. A flow is a list of edges: DIRECT crosses the SSD's links up and
 * the GPU's down; redirected traffic crosses the shared uplink up and down as well. Rates count
 * payload: link rate after line code, times the share of payload in a TLP, times 0.965 for data
 * link packets.
 *
 * Link capacities are from registers. What one x16 flow gets through a root complex is a prior
 * (hr_band_prior), which holds for a root port; what a root complex carries in all is not known, so
 * rates of several flows through it are upper bounds (hr_band_bound).
 */
#ifndef PCI_TOPO_BAND_H
#define PCI_TOPO_BAND_H

#include "pci/topo/verdict.h"

#define HR_FLOWS_MAX 16384u /* that are solved together */

enum hr_direction {
	HR_TO_GPU,   /* F2: the SSD writes GPU memory */
	HR_FROM_GPU, /* F3: the SSD reads GPU memory */
};

struct hr_rate {
	int32_t gpu, ssd;
	double gbs;    /* payload in GB/s (10^9); 0: the verdict allows none */
	uint32_t edge; /* that limits it; HR_NO_EDGE: none known */
};
#define HR_NO_EDGE UINT32_MAX

/* GB/s of a link after line code; 0 for unknown codes. */
double hr_link_gbs(uint32_t speed_code, uint32_t width);
/* Share of payload in a TLP of that size: posted write or completion, Gen3 framing. */
double hr_tlp_efficiency(uint32_t payload, enum hr_direction direction);
/* GB/s that one x16 flow gets through the root complex of a host: a prior, not a measurement. */
double hr_band_prior(const struct hr_engine *e, int32_t host);

/*
 * Fill in rates of rate[n], all flows running together. Memory comes from the model.
 * 0, -ENOMEM, or -E2BIG: n over HR_FLOWS_MAX.
 */
int hr_band_solve(const struct hr_engine *e, struct hr_model *m, enum hr_direction direction,
		  struct hr_rate *rate, unsigned n);

/* Several of the flows go through root complexes: together they may get less. */
bool hr_band_bound(const struct hr_engine *e, const struct hr_rate *rate, unsigned n);

/* "link of 0000:04:00.0 up, 16 GT/s x4"; text[96]; returns text. */
char *hr_edge_text(const struct hr_engine *e, uint32_t edge, char *text);

/*
 * Give each SSD one GPU: best verdict first, then the nearest, then the highest rates.
 * rate[e->ssds] holds the assignment and its rates, running together. 0, -ENOMEM or -E2BIG.
 */
int hr_band_plan(const struct hr_engine *e, struct hr_model *m, enum hr_direction direction,
		 struct hr_rate *rate);

#endif
