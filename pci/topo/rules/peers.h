/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/topo/rules/peers.h - verdicts and distances among GPUs, SSDs and network cards.
 *
 * pci/topo/rules/verdict.h gives the verdict for a GPU and an SSD. The same registers decide
 * whether two GPUs, or a GPU and a network card, reach each other:
 *   GPU and NVMe   as in verdict.h, with the mode's flows
 *   GPU and GPU    each writes and reads the other's memory at its bus address; the worse direction
 *                  counts
 *   GPU and NIC    the card writes and reads GPU memory (GPUDirect RDMA) at addresses that the kernel
 *                  maps, as in mode `kernel`
 * Two functions without a GPU among them have a distance and no verdict. Links other than PCI
 * Express (NVLink, XGMI), and the answer of NVIDIA's driver about peer access, are reported beside
 * the verdict and do not change it.
 */
#ifndef PCI_TOPO_RULES_PEERS_H
#define PCI_TOPO_RULES_PEERS_H

#include "pci/topo/rules/verdict.h"
#include "pci/topo/rules/explain.h"
#include "pci/topo/gpu_peers.h"

enum hr_endpoint_kind { HR_ENDPOINT_GPU, HR_ENDPOINT_NVME, HR_ENDPOINT_NIC, HR_ENDPOINT_KINDS };

struct hr_endpoint {
	int32_t fn; /* index of the function */
	enum hr_endpoint_kind kind;
	uint32_t number; /* number within its kind: GPU0, NVME3, NIC1 */
};

struct hr_endpoints {
	const struct hr_topology *topology; /* evaluates GPU and NVMe */
	struct hr_topology *gpus, *nics;    /* evaluate GPU and GPU, GPU and NIC */
	struct hr_endpoint *peer;	    /* GPUs first, then SSDs, then network cards */
	uint32_t count, by_kind[HR_ENDPOINT_KINDS];
};

struct hr_endpoint_pair {
	struct hr_endpoint a, b; /* the peer of the lower kind is a */
	bool has_verdict;	 /* one of them is a GPU, so there is a verdict */
	enum hr_verdict verdict;
	uint8_t rule; /* row that decided */
	uint16_t modifiers;
	const struct hr_topology
		*by;	     /* topology that evaluated `to_a` and `to_b`: for hr_findings() */
	struct hr_pair to_a; /* b reaches memory of a; without a verdict: only the path */
	struct hr_pair to_b; /* of two GPUs: a reaches memory of b */
	unsigned links;	     /* NVLink or XGMI between them, 0: none known */
	enum hr_fabric fabric;
	bool through_switch; /* of those links */
	enum hr_p2p_status
		driver; /* of two GPUs: answer of NVIDIA's driver about reads and writes */
};

/* Parse "gpu,nvme,nic" to bits 1 << enum hr_endpoint_kind; 0: not such a list. */
unsigned hr_endpoint_kinds(const char *list);
/* "GPU", "NVME", "NIC" */
const char *hr_endpoint_word(enum hr_endpoint_kind kind);

/*
 * List the peers of these kinds. GPUs and SSDs come from the topology, which must live as long as
 * *peers. Memory comes from the model. 0 or -ENOMEM.
 */
int hr_endpoints_init(struct hr_endpoints *peers, const struct hr_topology *e, struct hr_model *m,
		      unsigned kinds);
/* The network card with that number, also when no peers are listed; HR_NO_FN: none. */
int32_t hr_endpoint_nic(const struct hr_topology *e, uint32_t number);
/* Evaluate two peers of peers->peer, in any order. */
void hr_endpoints_evaluate(const struct hr_endpoints *peers, uint32_t i, uint32_t j,
			   struct hr_endpoint_pair *out);
/* "NV18", "XGMI2", or PIX PXB PHB NODE SYS like hr_distance_word(); text[16]; returns text. */
const char *hr_endpoint_distance(const struct hr_endpoints *peers, const struct hr_endpoint_pair *p,
				 char *text);

#endif
